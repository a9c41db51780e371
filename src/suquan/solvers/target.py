"""The f-step: the best target quantiles, and intercept, for a fixed w.

With w fixed every sample scores D_i·f + b, where D_i = T_iᵀ w, and the step is convex in (f, b):

    J(f, b) = Σ_i s_i ℓ(y_i, D_i·f + b) + smoothness · Σ_j (f[j+1] − f[j])²,    f in the set.

:func:`suquan.solvers.proximal.minimise` solves it; the set is known by its prox alone. The rounds of
:mod:`suquan.model.problem` call :func:`solve_target`.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from suquan.losses import Loss
from suquan.solvers._products import one_blas_thread
from suquan.solvers.proximal import Intercepts, ScoredLoss, Solution, minimise, positive
from suquan.target_sets import TargetSet, find_target_set

Vector = NDArray[np.float64]

# Falls of J are relative to J, or to this share of the best constant score's loss.
FLOOR = 1e-6


@dataclass(frozen=True)
class TargetFit:
    """Result of :func:`solve_target`.

    Attributes
    ----------
    f : ndarray of shape (K,)
        Target quantiles: in the set, with sum 0.
    b : float, or ndarray of shape (n_outputs,)
        Intercept; it sums to 0 over several outputs.
    objective : float
        J(f, b).
    n_iter : int
    gap : float
        Estimate of (J − J*) / J.
    converged : bool
        Whether ``gap`` ≤ ``tol``.
    """

    f: Vector
    b: float | Vector
    objective: float
    n_iter: int
    gap: float
    converged: bool


def solve_target(
    D: NDArray[Any],
    loss: Loss,
    y: NDArray[Any],
    s: Vector,
    f_start: Vector,
    *,
    target_set: str | TargetSet,
    smoothness: float = 0.0,
    fit_intercept: bool = True,
    tol: float = 1e-5,
    max_iter: int = 5000,
) -> TargetFit:
    r"""Minimise Σ_i s_i ℓ(y_i, D_i·f + b) + smoothness Σ_j (f[j+1] − f[j])² over targets f of a set, and b.

    Parameters
    ----------
    D : ndarray of shape (n_rows * n_outputs, K)
        Design, float32 or float64, the rows of a sample's outputs one below the other.
    loss : Loss
    y : ndarray of shape (n_rows,)
        Encoded labels or values.
    s : ndarray of shape (n_rows,)
        Weights ≥ 0 that sum to 1.
    f_start : ndarray of shape (K,)
        Start. It is made feasible where it is not: centred, projected.
    target_set : {"f0", "bnd", "spav", "joint"} or TargetSet
    smoothness : float, default=0.0
    fit_intercept : bool, default=True
        Whether b is free; otherwise it is 0.
    tol : float, default=1e-5
        Stop once J falls by no more than this share over the last half of the iterations. Where J is below
        10⁻⁶ of the best constant score's, the fall is relative to that.
    max_iter : int, default=5000
        Largest number of iterations, each of two products with D.

    Returns
    -------
    TargetFit
        Its objective is never above the start's. Where the minimiser is not unique, it is the limit of the
        method's deterministic iteration from ``f_start``.

    Examples
    --------
    >>> import numpy as np
    >>> from suquan.losses import Squared
    >>> from suquan.solvers.target import solve_target
    >>> D = np.array([[0.0, 0.0, 1.0], [0.0, 1.0, 0.0], [1.0, 0.0, 0.0]])
    >>> fit = solve_target(D, Squared(), np.array([3.0, 0.0, 0.0]), np.full(3, 1 / 3),
    ...                    np.array([-1.0, 0.0, 1.0]), target_set="bnd")
    >>> fit.f.round(3), round(fit.b, 3)
    (array([-0.707, -0.707,  1.414]), 1.0)
    """
    target = find_target_set(target_set).at(smoothness)
    n_outputs, K = loss.n_outputs, D.shape[1]
    kept = positive(s)
    rows = D.reshape(len(s), n_outputs, K)[kept].reshape(-1, K)
    y, s = y[kept], s[kept]
    shifts = np.tile(np.eye(n_outputs, n_outputs if fit_intercept else 0), (len(s), 1))
    centres = rows.mean(axis=1, keepdims=True, dtype=np.float64)
    # Line searches refuse what is not finite.
    with one_blas_thread(), np.errstate(over="ignore", invalid="ignore"):
        # f has sum 0, so that centred rows have the same scores.
        X, means, size = Intercepts.beside(rows, shifts, np.repeat(s, n_outputs), centres)
        smooth = ScoredLoss(X, loss, y, s)
        constant = loss.best_constant(y, s) if fit_intercept else np.zeros(n_outputs)
        start = _finite_start(smooth, target, f_start, constant[: shifts.shape[1]] / size)
        floor = FLOOR * loss.value(y, np.tile(constant, len(y)), s)
        found = minimise_target(smooth, target, start, K, tol=tol, floor=floor, max_iter=max_iter)
    f, b = found.x[:K], np.zeros(n_outputs)
    if fit_intercept:
        b = found.x[K:] * size - means @ f
        b -= b.mean() if n_outputs > 1 else 0.0
    converged = bool(found.gap <= tol)
    intercept = float(b[0]) if n_outputs == 1 else b
    return TargetFit(f, intercept, found.objective, found.n_iter, found.gap, converged)


def minimise_target(smooth: Any, target: TargetSet, x: Vector, K: int, **options: Any) -> Solution:
    """Minimise a loss over x, whose first K entries are a target; the others are free."""
    return minimise(
        smooth,
        lambda z, step: np.concatenate([target.prox(z[:K] - z[:K].mean(), step), z[K:]]),
        lambda x: target.penalty(x[:K]),
        x,
        **options,
    )


def _finite_start(smooth: Any, target: TargetSet, f: Vector, b: Vector) -> Vector:
    """Start in the set; a multiple of it where the scores are so large that the loss overflows."""
    f, before = target.make_feasible(f), np.inf
    for n_halvings in range(60):
        x = np.concatenate([f, b])
        value = smooth.value(smooth.scores(x))
        if np.isfinite(value) and (n_halvings == 0 or value > 0.5 * before):
            return x
        f, before = target.make_feasible(0.5 * f), value
    raise ValueError("the loss is not finite at any multiple of the start.")
