"""The loss side of the f-step: scores of targets, sums of losses and derivatives over the rows, the intercept.

:class:`LossSide` is what the methods of the f-step ask; :class:`RowsInMemory` answers from a dense design, and
``suquan._dask.target`` from passes over blocks.
"""

from collections.abc import Callable
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from suquan._blocks import on_threads
from suquan._kernels.target import block_sums
from suquan.losses import Curvature, Loss
from suquan.solvers._products import column_products, n_threads, row_products

Array = NDArray[Any]

_NEGLIGIBLE = 1e-18  # a loss at which the intercept need not be refined
_LONGEST_STEP = 4.0  # of the intercept, at first, unless the loss is quadratic
# At least, of the matrix of rows that the Hessian is summed over at a time.
_CHUNK_ENTRIES = 1 << 17


class Scored(NamedTuple):
    """Scores with the best intercept.

    Attributes
    ----------
    u : object
        The scores, as the loss side knows them.
    b : ndarray of shape (n_free,)
        The free intercepts.
    value : float
        Weighted loss.
    slopes : object
        What the loss side needs to give the gradient.
    """

    u: Any
    b: Array
    value: float
    slopes: Any


class LossSide(Protocol):
    """Weighted loss L(D f + b) as the methods of the f-step see it.

    Attributes
    ----------
    n_scores, K : int
        Shape of the design D.
    is_quadratic : bool
        Whether the Hessian is the same everywhere.
    solves_dual : bool
        Whether this is a :class:`RowsInMemory` with so few rows that the dual is the smaller problem.
    """

    n_scores: int
    K: int
    is_quadratic: bool
    solves_dual: bool

    def scores(self, f: Array) -> Array:
        """Scores D f without an intercept, as an array that is linear in f."""

    def profile(self, Df: Array) -> Scored:
        """Add the best intercept to scores without one; the value is infinite where none is finite."""

    def gradient(self, point: Scored) -> tuple[Array, float]:
        """Gradient Dᵀa in f among vectors of sum 0, with a = ∇L(u), and the conjugate L*(a) = a·u − L(u)."""

    def curvature_along(self, point: Scored, g: Array) -> float:
        """Second derivative of the loss when the target moves along g."""

    def hessian(self, point: Scored) -> Array | None:
        """Hessian in f of sum 0, the intercept minimised out, of shape (K, K); None if too large."""

    def values_without_target(self) -> tuple[float, float]:
        """Loss at the best constant score, and at 0."""

    def finish(self, f: Array, Df: Array, b: Array) -> tuple[Array | None, Any]:
        """Scores of all rows if they are at hand, and the intercept, as callers know them."""


class RowsInMemory:
    """The loss side for a dense design with its labels and weights.

    Parameters
    ----------
    D : ndarray of shape (n_rows * n_outputs, K), float32 or float64
    loss : Loss
    y, s : ndarray of shape (n_rows, …) and (n_rows,)
        Encoded labels and weights ≥ 0; rows of weight 0 are scored only.
    fit_intercept : bool
    """

    def __init__(self, D: Array, loss: Loss, y: Array, s: Array, fit_intercept: bool):
        self.all_rows = np.ascontiguousarray(D)
        self.loss, self.n_outputs, self.fit_intercept = loss, loss.n_outputs, fit_intercept
        self.is_quadratic = loss.is_quadratic
        keep = np.flatnonzero(s > 0.0)
        if len(keep) < len(s):
            D = D.reshape(len(s), self.n_outputs, -1)[keep].reshape(-1, D.shape[1])
        self.D, self.y, self.s = np.ascontiguousarray(D), y[keep], s[keep]
        self.n_scores, self.K = self.D.shape
        self.solves_dual = self.n_scores <= self.K
        n_free = n_free_intercepts(loss, fit_intercept)
        # Column k shifts the scores of output k; the last output of several is the reference.
        self.shifts = np.tile(np.eye(self.n_outputs)[:, :n_free], (len(keep), 1))
        self._b: Any = None  # the last intercept

    def scores(self, f):
        """D f, summed in float64."""
        return row_products(self.D, f[None])[0]

    def adjoint(self, a):
        """Dᵀ a, centred: the gradient in f among vectors of sum 0."""
        g = column_products(self.D, a[None])[0]
        return g - g.mean()

    @cached_property
    def row_means(self):
        """Mean of each row of D."""
        return self.scores(np.full(self.K, 1.0 / self.K))

    def curvature(self, u) -> Curvature:
        """Hessian of the loss in the scores u."""
        return self.loss.hessian(self.y, u, self.s)

    def profile(self, Df):
        """Newton's method for the intercept, from the last one or that of the best constant score."""
        if self._b is None:
            constant = self.loss.best_constant(self.y, self.s)
            self._b = free_intercept(constant, self.shifts.shape[1])
        point = self.shifted(Df, self._b)
        self._b = point.b
        return point

    def shifted(self, u, b):
        """Scores u shifted by the best intercept, searched from b on."""

        def evaluate(b):
            shifted = u + self.shifts @ b
            value = self.loss.value(self.y, shifted, self.s)
            if not np.isfinite(value):
                return Evaluation(np.inf)
            a = self.loss.gradient(self.y, shifted, self.s)
            if not len(b):
                return Evaluation(value, slopes=(shifted, a))
            hessian = self.shifts.T @ self.curvature(shifted).product(self.shifts)
            return Evaluation(value, a @ self.shifts, hessian, (shifted, a))

        b, best = best_intercept(evaluate, b, self.is_quadratic)
        shifted, a = best.slopes or (u, None)
        return Scored(shifted, b, best.value, a)

    def gradient(self, point):
        """One product with Dᵀ."""
        return self.adjoint(point.slopes), self.conjugate(point)

    def conjugate(self, point):
        """Conjugate of the loss at a = ∇L(u): Fenchel's equality."""
        return float(point.slopes @ point.u) - point.value

    def curvature_along(self, point, g):
        """One product with D."""
        Dg = self.scores(g)
        return float(Dg @ self.curvature(point.u).product(Dg))

    def hessian(self, point):
        """Sum over a few rows at a time."""
        return profiled_hessian(self.hessian_sums(point.u), self.K)

    def hessian_sums(self, u):
        """Hessian of the loss in (f, b), over vectors f of sum 0."""
        n_free, n_rows = self.shifts.shape[1], len(self.y)
        curvature = self.curvature(u)
        # Few rows make small copies; fewer than K would cost more in adding up the products.
        chunk = max(1, max(self.K, _CHUNK_ENTRIES // self.K) // self.n_outputs)
        if self.loss.couples_samples:
            chunk = max(1, n_rows)

        def product(samples: slice) -> Array:
            rows = slice(samples.start * self.n_outputs, samples.stop * self.n_outputs)
            X = np.empty((rows.stop - rows.start, self.K + n_free), self.D.dtype)
            np.subtract(
                self.D[rows], self.row_means[rows, None].astype(X.dtype), out=X[:, : self.K]
            )
            X[:, self.K :] = self.shifts[rows]
            whole = self.loss.couples_samples
            Z = (curvature if whole else curvature.take(samples)).root_adjoint(X)
            return Z.T @ Z

        parts = [slice(i, min(i + chunk, n_rows)) for i in range(0, n_rows, chunk)]
        total = np.zeros((self.K + n_free, self.K + n_free))
        for part in on_threads(product, parts, n_threads(self.D.size * self.K)):
            total += part
        return total

    def sums_over_blocks(self, bounds, dtype):
        """Columns of the centred design summed over the blocks ``bounds[b]:bounds[b + 1]``."""
        out = np.empty((self.n_scores, len(bounds) - 1), dtype)
        if bounds[-1] - bounds[0] == out.shape[1]:  # every column is a block
            out[:] = self.D[:, bounds[0] : bounds[-1]]
        else:
            block_sums(self.D, bounds, out)
        out -= np.outer(self.row_means, np.diff(bounds)).astype(dtype, copy=False)
        return out

    def values_without_target(self):
        """Loss at the best constant score, and at 0."""
        return constant_losses(self.loss, self.y, self.s, self.fit_intercept)

    def finish(self, f, Df, b):
        """Scores of all rows, those of weight 0 included."""
        if self.n_scores < len(self.all_rows):
            Df = row_products(self.all_rows, f[None])[0]
        b = full_intercept(b, self.n_outputs)
        return (Df + b if self.n_outputs == 1 else Df.reshape(-1, self.n_outputs) + b), b


# -- the intercept ----------------------------------------------------------------------------------


def n_free_intercepts(loss: Loss, fit_intercept: bool) -> int:
    """Intercepts that are searched for: one, or one less than there are outputs."""
    return max(1, loss.n_outputs - 1) if fit_intercept else 0


def free_intercept(b: Array, n_free: int) -> Array:
    """The free intercepts, from one per output."""
    return b[:n_free] if len(b) == 1 else b[:n_free] - b[-1]


def full_intercept(b: Array, n_outputs: int) -> Any:
    """One intercept per output, from those that are free: of sum 0 for several outputs, a float for one."""
    full = np.zeros(n_outputs)
    full[: len(b)] = b
    return float(full[0]) if n_outputs == 1 else full - full.mean()


def constant_losses(loss: Loss, y: Array, s: Array, fit_intercept: bool) -> tuple[float, float]:
    """Loss at the best constant score, which is 0 without an intercept, and at 0."""
    b = loss.best_constant(y, s) if fit_intercept else np.zeros(1)
    constant = np.resize(b, len(y) * loss.n_outputs)
    return loss.value(y, constant, s), loss.value(y, 0.0 * constant, s)


class Evaluation(NamedTuple):
    """Loss at an intercept, its gradient and Hessian in that, and what else the evaluation found."""

    value: float
    gradient: Any = None
    hessian: Any = None
    slopes: Any = None


def best_intercept(
    evaluate: Callable[[Array], Evaluation], b: Array, is_quadratic: bool
) -> tuple[Array, Evaluation]:
    """Newton's method for the intercept from b, each evaluation one call; the loss may be infinite."""
    best = evaluate(b)
    if not len(b) or not np.isfinite(best.value):
        return b, best
    longest = np.inf if is_quadratic else _LONGEST_STEP
    for _ in range(200):
        H = best.hessian + np.eye(len(b)) * (1e-14 * np.trace(best.hessian) + 1e-300)
        step = -np.linalg.solve(H, best.gradient)
        length = _size(step)
        is_cut = length > longest
        if is_cut:
            step *= longest / length
        decrement = -float(step @ best.gradient)

        def attempt(t, b=b, best=best, step=step, decrement=decrement):
            new = evaluate(b + t * step)
            # Close to the minimum rounding hides the decrease, but not that of the gradient.
            halves = np.isfinite(new.value) and _size(new.gradient) <= 0.5 * _size(best.gradient)
            return best.value - decrement if halves else new.value, (b + t * step, new)

        found = backtrack(attempt, best.value, -decrement)
        if found is None:
            break
        if is_cut:  # a flat stretch may be long
            longest = 4.0 * _size(found[0] - b)
        is_last = decrement <= 1e-12 * best.value or best.value <= _NEGLIGIBLE
        b, best = found
        if is_last:
            break
    return b, best


def _size(x: Array) -> float:
    return float(np.max(np.abs(x)))


def backtrack(
    attempt: Callable[[float], tuple[float, Any]],
    value: float,
    slope: float,
    *,
    slack: float = 0.0,
    shrink: float = 0.5,
    n_tries: int = 30,
) -> Any:
    """Line search: what `attempt` gives at the first step t = 1, shrink, … that lowers the value enough.

    Parameters
    ----------
    attempt : callable
        Function of t that gives the value there and anything else; infinite values and NaN are refused.
    value, slope : float
        Value and derivative at t = 0.
    slack : float
        By how much a step may miss the decrease, for rounding.

    Returns
    -------
    found : object or None
        None where no step is short enough.
    """
    t = 1.0
    for _ in range(n_tries):
        new, found = attempt(t)
        if new <= value + 1e-4 * t * slope + slack and np.isfinite(new):
            return found
        t *= shrink
    return None


def profiled_hessian(total: Array, K: int) -> Array:
    """Hessian in f with the intercept minimised out, from that in (f, b)."""
    H, cross, inner = total[:K, :K], total[:K, K:], total[K:, K:]
    if not len(inner):
        return H
    inner = inner + np.eye(len(inner)) * (1e-14 * np.trace(inner) + 1e-300)
    return H - cross @ np.linalg.solve(inner, cross.T)
