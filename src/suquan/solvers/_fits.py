"""What the w-step's solvers return and agree on: the fit, weights, curvature, perfect fits."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from suquan.losses import Curvature, DiagonalCurvature, Loss
from suquan.solvers._products import Array, MaybeArray

TOL = 1e-8
MAX_ITER = 200
# An objective below this fraction of the loss at zero scores counts as zero.
_NEGLIGIBLE = 1e-12


@dataclass(frozen=True)
class LinearFit:
    """A fitted linear model; give it as ``start`` to warm-start a neighbouring problem.

    Attributes
    ----------
    w : ndarray of shape (n_outputs, n_features) or None
        Coefficients; None where the design is known by its Gram matrix alone.
    b : ndarray of shape (n_outputs,)
        Intercepts; they sum to 0 where the loss ignores a common shift of all outputs.
    u : ndarray of shape (n_samples,) or (n_samples, n_outputs)
        Scores of all rows, those of weight 0 included.
    objective : float
        J(w, b).
    n_iter : int
        Newton iterations.
    criterion : float
        Estimate of J/J* − 1 before the last step.
    converged : bool
        Whether ``criterion`` came below ``tol``.
    dual : ndarray of shape (n_outputs, n_samples) or None
        Coefficients a with w = a A, where they were computed.
    design : object
        Opaque: what the fit was computed on, so that a start on the same design reuses ``u``.
    """

    w: MaybeArray
    b: Array
    u: Array
    objective: float
    n_iter: int
    criterion: float
    converged: bool
    dual: MaybeArray = None
    design: object = field(default=None, repr=False, compare=False)


def normalised(S: Array) -> Array:
    """Weights of sum 1 in each row."""
    S = np.array(S, dtype=np.float64, subok=False)
    S /= S.sum(axis=-1, keepdims=True)
    return S


def negligible(loss: Loss, y: Array, s: Array) -> float:
    """Objective under which a fit counts as perfect."""
    at_zero = loss.value(y, np.zeros(len(y) * loss.n_outputs), s)
    return max(_NEGLIGIBLE * at_zero, np.finfo(float).tiny)


def ignores_shifts(loss: Loss, y: Array, s: Array) -> bool:
    """Whether a common shift of all outputs leaves the loss as it is, so that they may sum to 0."""
    if loss.n_outputs == 1:
        return False
    u = np.zeros(len(y) * loss.n_outputs)
    before, after = loss.value(y, u, s), loss.value(y, u + 1.0, s)
    return abs(after - before) <= 1e-12 * (abs(before) + 1.0)


def of_samples(u: Array, loss: Loss) -> Array:
    """Scores side by side as a fit has them: of shape (n_samples,) or (n_samples, n_outputs)."""
    return u if loss.n_outputs == 1 else u.reshape(-1, loss.n_outputs)


def damped_curvature(loss: Loss, y: Array, u: Array, s: Array, damping: float) -> Curvature:
    """Hessian of the weighted loss in its scores u, at least `damping` times the curvature of the secant.

    The secant from the scores of smallest loss bounds a convex loss that is flat or linear there: the Huber
    loss has no curvature at large residuals, where Newton's step would have no end.
    """
    hessian = loss.hessian(y, u, s)
    if loss.is_quadratic or loss.couples_samples or loss.n_outputs > 1:
        return hessian
    away = u - loss.scores_of_dual(y, np.zeros_like(u), s)
    secant = np.divide(loss.gradient(y, u, s), away, out=np.zeros_like(u), where=away != 0.0)
    return DiagonalCurvature(np.maximum(hessian.diagonal(), damping * secant))
