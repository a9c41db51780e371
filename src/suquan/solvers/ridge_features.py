"""The ridge w-step for n_samples > n_features: Newton's method on (w, b), with conjugate gradients.

    min over (w, b)   Σ_i s_i ℓ(y_i, A_i·w + b) + alpha ‖w‖²

:class:`DenseSums` has the sums over samples, from a matrix in memory; :mod:`suquan._dask.linear` gives them in
passes over blocks. :class:`FeatureProblem` adds the penalty and a preconditioner. All fits of a batch run in
lockstep, so that every product with the design is a matrix product. :class:`suquan.solvers.linear.RidgeDesign`
calls :class:`FeatureSolver`.
"""

from dataclasses import replace
from typing import Any

import numpy as np

from suquan.losses import Curvature, DiagonalCurvature, Loss
from suquan.solvers._products import (
    Array,
    CentredDesign,
    MaybeArray,
    centring,
    cholesky,
    cholesky_solve,
    column_moments,
)
from suquan.solvers.newton import (
    LinearFit,
    Point,
    Product,
    damped_curvature,
    ignores_shifts,
    lower,
    negligible,
    newton,
    of_samples,
)

# Logarithm of the ratio of two mean curvatures that may share a factor.
_SAME_FACTOR = 0.25
# Features up to which second moments cost less than the first iterations without them.
_FEW_FEATURES = 256
# Least bounds on the products of one step: usually, and where no factor is near the Hessian.
_FEW_PRODUCTS, _MANY_PRODUCTS = 4, 60


class DenseSums:
    """Sums over the samples of a batch of fits, from a matrix; `theta` has the intercept last.

    Parameters
    ----------
    design : CentredDesign
    loss : Loss
    y : ndarray of shape (n_samples,)
    S : ndarray of shape (n_fits, n_samples)
        Weights of each fit.
    spread : float, optional
        Mean square of the entries, where a preconditioner needs it.
    """

    def __init__(self, design: CentredDesign, loss: Loss, y: Array, S: Array, spread: float = 1.0):
        self.design, self.loss, self.y, self.S, self.spread = design, loss, y, S, spread
        self.n_features, self.largest_square = design.n_features, design.largest_square
        self._known: tuple[list[Point], list[Curvature]] | None = None
        self.has_all = [bool(np.all(s > 0.0)) for s in S]

    def evaluate(self, fits: Array, theta: Array) -> list[Point]:
        """Losses at theta, without the penalty."""
        return self.points(fits, theta, self.scores(theta))

    def scores(self, theta: Array) -> Array:
        """Scores of a batch, of shape (n_fits, n_samples · n_outputs)."""
        return self._side_by_side(self.design.scores(_rows(theta)), len(theta))

    def points(self, fits: Array, theta: Array, scores: Array) -> list[Point]:
        """The fits at theta, whose scores are known."""
        of_fits = zip(fits.tolist(), theta, scores, strict=True)
        return [Point(at, self.loss.value(*self._at(k, u)), u) for k, at, u in of_fits]

    def gradients(self, fits: Array, points: list[Point]) -> Array:
        """Gradients of the losses."""
        of_fits = zip(fits.tolist(), points, strict=True)
        slopes = [self.loss.gradient(*self._at(k, point.u)) for k, point in of_fits]
        gradients = self.design.adjoint(self._by_output(slopes))
        return gradients.reshape(len(points), self.loss.n_outputs, -1)

    def hessian(self, fits: Array, points: list[Point]) -> Product:
        """Products with the Hessians of the losses, in the type of the design."""
        curvatures = self._curvatures(fits, points)
        dtype = self.design.dtype
        if all(isinstance(c, DiagonalCurvature) for c in curvatures) and self.loss.n_outputs == 1:
            C = np.stack([c.diagonal() for c in curvatures]).astype(dtype)
            return lambda V: self.design.curved(V[:, 0], C)[:, None]

        def product(V: Array) -> Array:
            changes = self._side_by_side(self.design.scores(_rows(V), dtype), len(V))
            curved = [c.product(change) for c, change in zip(curvatures, changes, strict=True)]
            return self.design.adjoint(self._by_output(curved), dtype).reshape(V.shape)

        return product

    def curvatures(self, fits: Array, points: list[Point]) -> Array:
        """Mean over the outputs of the summed second derivatives of the losses."""
        totals = [curvature.diagonal().sum() for curvature in self._curvatures(fits, points)]
        return np.array(totals) / self.loss.n_outputs

    def squares(self, fits: Array, points: list[Point], total: float) -> Array:
        """Second moments of the columns and the intercept, weighted with mean curvatures over `total`."""
        diagonals = [curvature.diagonal() for curvature in self._curvatures(fits, points)]
        by_output = np.reshape(diagonals, (len(fits), -1, self.loss.n_outputs))
        return self.design.squares(by_output.mean(axis=(0, 2)) / total)

    def _curvatures(self, fits: Array, points: list[Point]) -> list[Curvature]:
        """Curvatures of the fits, which a Newton step asks for twice."""
        if self._known is None or self._known[0] is not points:
            of_fits = zip(fits.tolist(), points, strict=True)
            found = [damped_curvature(self.loss, *self._at(k, p.u), p.damping) for k, p in of_fits]
            self._known = points, found
        return self._known[1]

    def _at(self, k: int, u: Array) -> tuple[Array, Array, Array]:
        """Labels, scores and weights of fit k; scores are 0 where the weight is, so that none overflows."""
        s = self.S[k]
        if not self.has_all[k]:
            u = np.where(np.repeat(s > 0.0, self.loss.n_outputs), u, 0.0)
        return self.y, u, s

    def _side_by_side(self, products: Array, n_fits: int) -> Array:
        """Scores of shape (n_fits · n_outputs, n_samples) with the outputs of a sample side by side."""
        by_output = products.reshape(n_fits, self.loss.n_outputs, -1)
        return np.ascontiguousarray(by_output.transpose(0, 2, 1)).reshape(n_fits, -1)

    def _by_output(self, scores: list[Array]) -> Array:
        """Inverse of :meth:`_side_by_side`."""
        stacked = np.stack(scores).reshape(len(scores), -1, self.loss.n_outputs)
        return np.ascontiguousarray(stacked.transpose(0, 2, 1)).reshape(-1, len(self.y))


def theta_of(fit: LinearFit, offset: Array, balanced: bool) -> Array:
    """Coefficients and intercepts of a fit on the centred design, `offset` the means of the columns."""
    theta = np.column_stack([fit.w, fit.b + fit.w @ offset])
    return theta - theta.mean(axis=0) if balanced else theta


def _rows(theta: Array) -> Array:
    """Vectors of all fits and outputs as rows."""
    return theta.reshape(-1, theta.shape[-1])


class Conditioning:
    """Preconditioner that the fits on one design share, as strong as they turn out to need.

    At first it scales. Once conjugate gradients have cost as many products as forming and factorising second
    moments, n_features / 16, it inverts the mean Hessian of the present fits; once they have cost as many
    again, the one of the fits then.

    Parameters
    ----------
    n_features : int
    dtype : type, default=np.float64
        Of the factor.
    """

    def __init__(self, n_features: int, dtype: Any = np.float64):
        self.dtype = dtype
        self.budget = max(_FEW_PRODUCTS, n_features // 16)
        self.products_left = self.budget if n_features > _FEW_FEATURES else 0
        self._squares: MaybeArray = None
        self._factor: MaybeArray = None
        self._factored = 1.0, 0.0  # curvature and alpha of the factor

    def factor(
        self, sums: DenseSums, fits: Array, points: list[Point], curvature: float, alpha: float
    ) -> MaybeArray:
        """Factor of about the mean Hessian, of nearly the mean `curvature`; None while it does not pay."""
        if self.products_left <= 0:
            self._squares = self._factor = None  # their memory is needed
            self._squares = sums.squares(fits, points, curvature).astype(self.dtype, copy=False)
            self.products_left = self.budget
        if self._squares is None:
            return None
        known, at_alpha = self._factored
        same = alpha == at_alpha and abs(np.log(curvature / known)) < _SAME_FACTOR
        if self._factor is None or not same:
            H = curvature * self._squares
            H.flat[: (len(H) - 1) * len(H) : len(H) + 1] += 2.0 * alpha
            self._factor, self._factored = cholesky(H), (curvature, alpha)
        return self._factor


class FeatureProblem:
    """The penalised fits, as Newton's method takes them.

    Parameters
    ----------
    sums : DenseSums
    conditioning : Conditioning
        Of the design; it learns from fit to fit.
    loss : Loss
    alpha : float
    balanced : bool
        Whether the outputs sum to 0, as the loss ignores their mean.
    """

    def __init__(
        self, sums: DenseSums, conditioning: Conditioning, loss: Loss, alpha: float, balanced: bool
    ):
        self.sums, self.shared, self.loss, self.alpha = sums, conditioning, loss, alpha
        self.balanced = balanced
        self.has_room = sums.n_features <= sums.largest_square
        is_hard = loss.n_outputs > 1 or loss.couples_samples or not self.has_room
        least = _MANY_PRODUCTS if is_hard else _FEW_PRODUCTS
        self.max_products = max(least, conditioning.budget)

    def solve(
        self, points: list[Point], offset: Array, floor: float, tol: float, max_iter: int
    ) -> list[LinearFit]:
        """The fits, with b moved from the centred design to the one given."""
        fits = []
        for point, n_iter, criterion in newton(self, points, floor, tol, max_iter):
            w, b = point.theta[:, :-1].copy(), point.theta[:, -1].copy()
            b -= w @ offset
            b -= b.mean() if self.balanced else 0.0
            u = np.empty(0) if point.u is None else of_samples(point.u, self.loss)
            converged = criterion <= tol
            fits.append(LinearFit(w, b, u, point.objective, n_iter, criterion, converged))
        return fits

    def evaluate(self, fits: Array, theta: Array) -> list[Point]:
        """Objectives at theta."""
        return [self.penalised(point) for point in self.sums.evaluate(fits, theta)]

    def penalised(self, point: Point) -> Point:
        """The point with the penalty in its objective."""
        w = point.theta[:, :-1]
        return point._replace(objective=point.objective + self.alpha * float(np.vdot(w, w)))

    def gradients(self, fits: Array, points: list[Point]) -> Array:
        """Gradients of the objectives."""
        gradient = self.sums.gradients(fits, points)
        gradient[..., :-1] += 2.0 * self.alpha * np.stack([point.theta[:, :-1] for point in points])
        return gradient

    def hessian(self, fits: Array, points: list[Point]) -> Product:
        """Products with the Hessians of the objectives; counted, to know when a new preconditioner pays."""
        of_losses = self.sums.hessian(fits, points)

        def product(V: Array) -> Array:
            self.shared.products_left -= 1
            out = of_losses(V)
            out[..., :-1] += 2.0 * self.alpha * V[..., :-1]
            return out

        return product

    def preconditioner(self, fits: Array, points: list[Point]) -> Product:
        """Products with approximate inverses of the Hessians."""
        curvature = max(float(self.sums.curvatures(fits, points).mean()), np.finfo(float).tiny)
        factor = None
        if self.has_room:
            factor = self.shared.factor(self.sums, fits, points, curvature, self.alpha)
        if factor is not None:
            return lambda R: self._balance(cholesky_solve(factor, _rows(R).T).T.reshape(R.shape))
        # One scale for all columns: rows of normalised samples have the same sum, so that gradients are
        # orthogonal to a common shift of all coefficients, along which only the penalty is curved.
        scales = np.full(self.sums.n_features + 1, curvature * self.sums.spread + 2.0 * self.alpha)
        scales[-1] = curvature
        return lambda R: self._balance(R / scales)

    def _balance(self, R: Array) -> Array:
        return R - R.mean(axis=1, keepdims=True) if self.balanced else R


class FeatureSolver:
    """Fits on a matrix in memory.

    Parameters
    ----------
    A : ndarray of shape (n_samples, n_features), float32 or float64
    fit_intercept : bool
    """

    def __init__(self, A: Array, fit_intercept: bool):
        sums, squares = column_moments(A)
        means, self.spread, explicit = centring(sums, squares, len(A), fit_intercept)
        self.design = CentredDesign(A, means, fit_intercept, explicit)
        self.fit_intercept = fit_intercept
        self.conditioning = Conditioning(A.shape[1], A.dtype)

    def solve_batch(self, loss, y, S, alpha, tol, max_iter, start) -> list[LinearFit]:
        """Fits that differ by their weights S, of shape (n_fits, n_samples)."""
        sums = DenseSums(self.design, loss, y, S, self.spread)
        balanced = ignores_shifts(loss, y, S[0])
        problem = FeatureProblem(sums, self.conditioning, loss, alpha, balanced)
        points, floor = self._start(sums, problem, start), negligible(loss, y, S.mean(axis=0))
        fits = problem.solve(points, self.design.offset, floor, tol, max_iter)
        return [replace(fit, design=self) for fit in fits]

    def complete(self, fits: list[LinearFit]) -> list[LinearFit]:
        """Nothing is left to add."""
        return fits

    def _start(
        self, sums: DenseSums, problem: FeatureProblem, start: LinearFit | None
    ) -> list[Point]:
        """The start where it is better than the best constant."""
        loss, S = sums.loss, sums.S
        fits = np.arange(len(S))
        theta = np.zeros((len(S), loss.n_outputs, sums.n_features + 1))
        if self.fit_intercept:
            theta[:, :, -1] = [loss.best_constant(sums.y, s) for s in S]
        scores = np.tile(theta[:, :, -1], (1, len(sums.y)))
        constants = [problem.penalised(point) for point in sums.points(fits, theta, scores)]
        if start is None or start.w is None or start.w.shape != theta[0, :, :-1].shape:
            return constants
        # A new array: the constants hold views of the old one.
        theta = np.repeat(theta_of(start, self.design.offset, problem.balanced)[None], len(S), 0)
        known = start.design is self
        scores = np.ravel(start.u)[None] if known else sums.scores(theta[:1])
        points = sums.points(fits, theta, np.repeat(scores, len(S), axis=0))
        return [
            lower(constant, problem.penalised(point))
            for constant, point in zip(constants, points, strict=True)
        ]
