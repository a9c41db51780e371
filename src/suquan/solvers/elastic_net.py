"""The w-step with an l1 penalty, by proximal gradient with soft thresholds.

    min over (w, b)   Σ_i s_i ℓ(y_i, A_i·w + b) + l1 ‖w‖₁ + l2 ‖w‖²

with l1 = alpha l1_ratio and l2 = alpha (1 − l1_ratio). The rounds and the comparison call
:class:`ElasticNetDesign`, which answers as :class:`suquan.solvers.ridge.RidgeDesign` does.
"""

from dataclasses import dataclass

import numpy as np

from suquan.losses import Loss
from suquan.solvers._products import Array, one_blas_thread, row_products
from suquan.solvers.proximal import Intercepts, ScoredLoss, minimise, positive
from suquan.solvers.ridge import LinearFit, negligible, normalised, of_samples

# A Newton step of the ridge solver does as much as about so many steps here, which are cheap.
_STEPS = 100


@dataclass(frozen=True)
class ElasticNetDesign:
    """Normalised samples under a penalty with an l1 norm.

    Parameters
    ----------
    A : ndarray of shape (n_samples, n_features), float32 or float64
    l1_ratio : float
        In (0, 1].
    fit_intercept : bool, default=True

    Examples
    --------
    >>> import numpy as np
    >>> from suquan.losses import Squared
    >>> A, y = np.array([[0.0, 1.0], [1.0, 0.0], [2.0, 1.0]]), np.array([0.0, 1.0, 2.0])
    >>> ElasticNetDesign(A, l1_ratio=1.0).solve(Squared(), y, np.ones(3), alpha=0.4).w.round(3)
    array([[0.7, 0. ]])
    """

    A: Array
    l1_ratio: float
    fit_intercept: bool = True

    def solve(
        self,
        loss: Loss,
        y: Array,
        s: Array,
        alpha: float,
        *,
        tol: float = 1e-8,
        max_iter: int = 500,
        start: LinearFit | None = None,
    ) -> LinearFit:
        """Fit with weights s, from `start` where it is better than the best constant.

        `tol` is that of :func:`suquan.solvers.proximal.minimise`, `max_iter` bounds the iterations in hundreds.
        """
        s, (n, p), n_outputs = normalised(s), self.A.shape, loss.n_outputs
        kept = positive(s)
        l1, l2 = alpha * self.l1_ratio, alpha * (1.0 - self.l1_ratio)

        def prox(z: Array, step: float) -> Array:
            z = z.reshape(n_outputs, -1).copy()
            w = z[:, :p]
            w[:] = np.sign(w) * np.maximum(np.abs(w) - step * l1, 0.0) / (1.0 + 2.0 * step * l2)
            return z.ravel()

        def penalty(x: Array) -> float:
            w = x.reshape(n_outputs, -1)[:, :p]
            return float(l1 * np.abs(w).sum() + l2 * np.vdot(w, w))

        with one_blas_thread(), np.errstate(over="ignore", invalid="ignore"):
            ones = np.ones((n, int(self.fit_intercept)))[kept]
            X, means, size = Intercepts.beside(self.A[kept], ones, s[kept])
            smooth = ScoredLoss(X, loss, y[kept], s[kept])
            constant = np.zeros((n_outputs, X.shape[1]))
            constant[:, p:] = loss.best_constant(smooth.y, smooth.s)[:, None] / size
            tried = [constant.ravel()]
            if start is not None and start.w.shape == (n_outputs, p):
                offsets = ((start.b + start.w @ means) / size)[:, None]
                tried.append(np.hstack([start.w, offsets[:, : X.shape[1] - p]]).ravel())
            x = min(tried, key=lambda x: smooth.value(smooth.scores(x)) + penalty(x))
            floor = negligible(loss, smooth.y, smooth.s)
            found = minimise(
                smooth, prox, penalty, x, tol=tol, floor=floor, max_iter=_STEPS * max_iter
            )
        theta = found.x.reshape(n_outputs, -1)
        w, b = theta[:, :p] + 0.0, np.zeros(n_outputs)  # thresholds leave −0
        if self.fit_intercept:
            b = theta[:, p] * size - w @ means
            b -= b.mean() if n_outputs > 1 else 0.0
        u = of_samples(np.ravel(row_products(self.A, w).T + b), loss)
        return LinearFit(w, b, u, found.objective, found.n_iter, found.gap, found.gap <= tol)

    def solve_many(self, loss, y, S, alpha, **options):
        """Fits that differ by their weights, the rows of S."""
        return [self.solve(loss, y, s, alpha, **options) for s in S]

    def solve_path(self, loss, y, s, alphas, **options):
        """Fits at several alphas, in their order."""
        return [self.solve(loss, y, s, alpha, **options) for alpha in alphas]
