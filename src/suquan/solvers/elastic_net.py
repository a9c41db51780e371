"""The w-step with an l1 penalty, by proximal gradient with soft thresholds.

    min over (w, b)   Σ_i s_i ℓ(y_i, A_i·w + b) + l1 ‖w‖₁ + l2 ‖w‖²

with l1 = alpha l1_ratio and l2 = alpha (1 − l1_ratio). The rounds and the comparison call
:class:`ElasticNetDesign`.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from suquan.losses import Loss
from suquan.solvers._products import Array, MaybeArray, one_blas_thread, row_products
from suquan.solvers.proximal import Intercepts, ScoredLoss, minimise, positive
from suquan.solvers.ridge import LinearFit, negligible, normalised, of_samples

# A Newton step of the ridge solver does as much as about so many steps here, which are cheap.
_STEPS = 100
# Most accuracy that is worth its time.
_L1_TOL = 1e-8


@dataclass(frozen=True)
class ElasticNetDesign:
    """Normalised samples A of shape (n_samples, n_features) under a penalty with an l1 norm.

    It answers as :class:`suquan.solvers.ridge.RidgeDesign` does; only :meth:`solve` uses a start.
    """

    A: Array
    l1_ratio: float
    fit_intercept: bool

    def solve(self, loss, y, s, alpha, *, tol, max_iter, start=None):
        """One fit."""
        return solve_elastic_net(
            self.A, loss, y, s, alpha, self.l1_ratio,
            fit_intercept=self.fit_intercept, tol=max(tol, _L1_TOL), max_iter=max_iter, start=start,
        )  # fmt: skip

    def solve_many(self, loss, y, S, alpha, *, tol, max_iter):
        """Fits that differ by their weights, the rows of S."""
        return [self.solve(loss, y, s, alpha, tol=tol, max_iter=max_iter) for s in S]

    def solve_path(self, loss, y, s, alphas, *, tol, max_iter):
        """Fits at several alphas, in their order."""
        return [self.solve(loss, y, s, alpha, tol=tol, max_iter=max_iter) for alpha in alphas]


def solve_elastic_net(
    A: Array,
    loss: Loss,
    y: Array,
    s: Array,
    alpha: float,
    l1_ratio: float,
    *,
    fit_intercept: bool = True,
    tol: float = 1e-8,
    max_iter: int = 500,
    start: LinearFit | None = None,
) -> LinearFit:
    """Minimise Σ s_i ℓ(y_i, A_i·w + b) + alpha [(1 − l1_ratio) ‖w‖² + l1_ratio ‖w‖₁], l1_ratio > 0.

    Parameters
    ----------
    A : ndarray of shape (n_samples, n_features), float32 or float64
    loss : Loss
    y : ndarray of shape (n_samples,)
        Encoded labels, as ``loss`` wants them.
    s : ndarray of shape (n_samples,)
        Weights ≥ 0; they are divided by their sum.
    alpha : float
        Strength of the penalty, > 0.
    l1_ratio : float
        In (0, 1].
    fit_intercept : bool, default=True
    tol : float, default=1e-8
        See :func:`suquan.solvers.proximal.minimise`.
    max_iter : int, default=500
        Bound on the iterations, in hundreds.
    start : LinearFit, optional

    Returns
    -------
    LinearFit

    Examples
    --------
    >>> import numpy as np
    >>> from suquan.losses import Squared
    >>> A, y = np.array([[0.0, 1.0], [1.0, 0.0], [2.0, 1.0]]), np.array([0.0, 1.0, 2.0])
    >>> solve_elastic_net(A, Squared(), y, np.ones(3), alpha=0.4, l1_ratio=1.0).w.round(3)
    array([[0.7, 0. ]])
    """
    s, p, n_outputs = normalised(s), A.shape[1], loss.n_outputs
    kept = positive(s)
    l1, l2 = alpha * l1_ratio, alpha * (1.0 - l1_ratio)

    def prox(z: Array, step: float) -> Array:
        z = z.reshape(n_outputs, -1).copy()
        w = z[:, :p]
        w[:] = np.sign(w) * np.maximum(np.abs(w) - step * l1, 0.0) / (1.0 + 2.0 * step * l2)
        return z.ravel()

    def penalty(x: Array) -> float:
        w = x.reshape(n_outputs, -1)[:, :p]
        return float(l1 * np.abs(w).sum() + l2 * np.vdot(w, w))

    with one_blas_thread(), np.errstate(over="ignore", invalid="ignore"):
        ones = np.ones((len(A[kept]), int(fit_intercept)))
        X, means, size = Intercepts.beside(A[kept], ones, s[kept])
        smooth = ScoredLoss(X, loss, y[kept], s[kept])
        x = _better_start(smooth, penalty, start, means, size)
        floor = negligible(loss, y[kept], s[kept])
        found = minimise(smooth, prox, penalty, x, tol=tol, floor=floor, max_iter=_STEPS * max_iter)
    x = found.x.reshape(n_outputs, -1)
    w, b = x[:, :p] + 0.0, np.zeros(n_outputs)  # thresholds leave −0
    if fit_intercept:
        b = x[:, p] * size - w @ means
        b -= b.mean() if n_outputs > 1 else 0.0
    u = of_samples(np.ravel(row_products(A, w).T + b), loss)
    return LinearFit(w, b, u, found.objective, found.n_iter, found.gap, found.gap <= tol)


def _better_start(
    smooth: ScoredLoss,
    penalty: Callable[[Array], float],
    start: LinearFit | None,
    means: Array,
    size: float,
) -> Array:
    """The start where it is better than the best constant."""
    n_outputs, n_columns = smooth.loss.n_outputs, smooth.X.shape[1]
    p = len(means)
    constant = np.zeros((n_outputs, n_columns))
    constant[:, p:] = smooth.loss.best_constant(smooth.y, smooth.s)[:, None] / size
    w: MaybeArray = None if start is None else start.w
    if start is None or w is None or w.shape != (n_outputs, p):
        return constant.ravel()
    known = constant.copy()
    known[:, :p] = w
    known[:, p:] = ((start.b + w @ means) / size)[:, None]
    tried = [x.ravel() for x in (constant, known)]
    return min(tried, key=lambda x: smooth.value(smooth.scores(x)) + penalty(x))
