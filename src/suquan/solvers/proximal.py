"""Accelerated proximal gradient: the one engine of the f-step and of the elastic net.

    min over x   L(X x) + penalty(x)

with a smooth convex loss L of scores that are linear in x, and a penalty (a set is one, too) of which the prox
is known. :mod:`suquan.solvers.target` and :mod:`suquan.solvers.elastic_net` state their problems and call
:func:`minimise`; Dask gives scores that stay with the blocks.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

from suquan.losses import Loss
from suquan.solvers._products import Array

# The stopping rule looks back on half of the iterations: after fewer than these it knows too little.
_FEWEST_ITERATIONS = 10
# Halvings of a step in one iteration, and growth of the step after each.
_MAX_HALVINGS, _GROWTH = 60, 1.05
# Differences of values, in units of the first one, that may be rounding.
_ROUNDING = 1e-10


class Smooth(Protocol):
    """A smooth convex function of x, by way of scores u = X x."""

    def scores(self, x: Array) -> Any:
        """X x; sums and multiples of scores must be those of sums and multiples of x."""

    def value(self, u: Any) -> float:
        """L(u); not finite where it overflows."""

    def gradient(self, u: Any) -> Array:
        """Gradient of L(X x) in x, at the scores u."""


class Solution(NamedTuple):
    """A minimiser.

    Attributes
    ----------
    x : ndarray
    objective : float
    n_iter : int
    gap : float
        Estimate of J/J* − 1.
    """

    x: Array
    objective: float
    n_iter: int
    gap: float


def minimise(
    smooth: Smooth,
    prox: Callable[[Array, float], Array],
    penalty: Callable[[Array], float],
    x: Array,
    *,
    tol: float,
    floor: float = 0.0,
    max_iter: int = 5000,
) -> Solution:
    """Minimise L(X x) + penalty(x) from x, with momentum, restarts and backtracking.

    At the rate 1/k² of the method, the fall of J over the last half of k iterations is three times what is
    left to gain. So a run ends once that fall is at most `tol` times J.

    Parameters
    ----------
    smooth : Smooth
    prox : callable
        ``prox(z, step)`` minimises ½‖x − z‖² + step · penalty(x).
    penalty : callable
    x : ndarray
        Start; the result is never worse.
    tol : float
    floor : float, default=0.0
        Falls are relative to J, or to this where J is smaller: J goes to 0 where scores can interpolate.
    max_iter : int, default=5000

    Returns
    -------
    Solution
    """
    u, momentum = smooth.scores(x), 1.0
    x_old, u_old = x, u
    step = first_step(smooth, x, u)
    best, lowest, gap, k = x, smooth.value(u) + penalty(x), np.inf, 0
    history = [lowest]
    for k in range(1, max_iter + 1):
        next_momentum = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * momentum * momentum))
        share = (momentum - 1.0) / next_momentum
        z, u_z = x + share * (x - x_old), u + share * (u - u_old)
        at_z = smooth.value(u_z)
        if not np.isfinite(at_z):  # the momentum led to where the loss overflows
            z, u_z, next_momentum = x, u, 1.0
            at_z = smooth.value(u_z)
        g = smooth.gradient(u_z)
        for _ in range(_MAX_HALVINGS):
            new = prox(z - step * g, step)
            u_new, move = smooth.scores(new), new - z
            value, model = smooth.value(u_new), at_z + g @ move + move @ move / (2.0 * step)
            descends = value <= model
            if not descends and value - model <= _ROUNDING * history[0]:
                # Rounding hides by how much values differ, but not by how much gradients do.
                descends = (smooth.gradient(u_new) - g) @ move <= move @ move / step
            if descends:
                break
            step *= 0.5
        # O'Donoghue and Candès: momentum that points uphill starts again from nothing.
        momentum = 1.0 if (z - new) @ (new - x) > 0.0 else next_momentum
        x_old, u_old, x, u, step = x, u, new, u_new, _GROWTH * step
        objective = value + penalty(x)
        if objective < lowest:
            best, lowest = x, objective
        history.append(lowest)
        gap = (history[k // 2] - lowest) / max(lowest, floor, 1e-300)
        # Momentum sometimes carries J uphill for a while; `lowest` stands still then, and must not end the run.
        is_lowest = objective <= lowest * (1.0 + 1e-12)
        if (k >= _FEWEST_ITERATIONS and gap <= tol and is_lowest) or not descends:
            break
    return Solution(best, float(lowest), k, float(gap))


def positive(s: Array) -> Any:
    """Index of the rows of positive weight; where all are, one that makes no copy."""
    return slice(None) if np.all(s > 0.0) else np.flatnonzero(s > 0.0)


def first_step(smooth: Smooth, x: Array, u: Any) -> float:
    """Inverse curvature of the loss along its gradient at x, by a difference of gradients.

    The bound on the curvature over all scores stalls where labels are almost separable: along the way it is
    far too large. The result is positive even where there is no curvature, as backtracking corrects it.
    """
    g = smooth.gradient(u)
    size = float(np.sqrt(g @ g))
    if not 0.0 < size < np.inf:  # nothing to gain, or an overflow that no step mends
        return 1.0
    change = 1e-5 * max(float(np.sqrt(x @ x)), 1e-3) / size
    bend = float((smooth.gradient(smooth.scores(x + change * g)) - g) @ g) / change
    return size**2 / max(bend, 1e-12 * size**2) if np.isfinite(bend) else 1e-12 / size


@dataclass(frozen=True)
class ScoredLoss:
    """Weighted loss of scores X x.

    Attributes
    ----------
    X : ndarray of shape (n_rows, n_columns)
        Several outputs may share the rows: x then holds a vector per output, one after the other.
    loss : Loss
    y, s : ndarray
        Labels as the loss wants them, and weights.
    """

    X: Array
    loss: Loss
    y: Array
    s: Array

    def scores(self, x):
        """X x, the outputs of a row side by side."""
        return np.ravel(self.X @ x.reshape(-1, self.X.shape[1]).T)

    def value(self, u):
        """L(u)."""
        return self.loss.value(self.y, u, self.s)

    def gradient(self, u):
        """Xᵀ ∂L/∂u."""
        slopes = self.loss.gradient(self.y, u, self.s)
        return np.ravel(slopes.reshape(len(self.X), -1).T @ self.X)


class Intercepts(NamedTuple):
    """Columns less their means, with intercepts beside them, scaled so that no column is steeper than theirs.

    An intercept moves little with the other unknowns then, and proximal gradient takes one step for all.

    Attributes
    ----------
    X : ndarray of shape (n_rows, n_columns + n_intercepts)
    means : ndarray of shape (n_columns,)
    size : float
        Of the intercepts' columns: an intercept is `size` times its unknown.
    """

    X: Array
    means: Array
    size: float

    @classmethod
    def beside(
        cls, columns: Array, intercepts: Array, s: Array, centres: Any = 0.0
    ) -> "Intercepts":
        """Put the columns of intercepts beside the centred `columns`, whose rows have the weights s.

        The only float64 copy of the columns is made here, `centres` of the rows subtracted.
        """
        n_rows, n_columns = columns.shape
        X = np.empty((n_rows, n_columns + intercepts.shape[1]))
        has_intercept, means = intercepts.shape[1] > 0, np.zeros(n_columns)
        np.subtract(columns, centres, out=X[:, :n_columns])
        if has_intercept:
            means = (s / s.sum()) @ X[:, :n_columns]
            X[:, :n_columns] -= means
        size = _root_of_largest_eigenvalue(X[:, :n_columns], s) if has_intercept else 1.0
        X[:, n_columns:] = size * intercepts
        return cls(X, means, size)


def _root_of_largest_eigenvalue(X: Array, s: Array) -> float:
    """Root of about the largest eigenvalue of Xᵀ diag(s) X / Σ s, by a few powers."""
    v = np.ones(X.shape[1]) + np.arange(X.shape[1]) / X.shape[1]
    for _ in range(6):
        v = (s * (X @ v)) @ X
        v /= max(float(np.linalg.norm(v)), 1e-300)
    return max(float(np.sqrt(s @ (X @ v) ** 2 / s.sum())), 1e-150)
