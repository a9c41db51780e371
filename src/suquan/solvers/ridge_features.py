"""The ridge w-step for n_samples > n_features: Newton's method on (w, b), with conjugate gradients.

    min over (w, b)   Σ_i s_i ℓ(y_i, A_i·w + b) + alpha ‖w‖²

:class:`SampleSums` says what is asked of the samples: :class:`DenseSums` computes it from a matrix in memory,
:mod:`suquan._dask.linear` in passes over blocks. :class:`FeatureProblem` adds the penalty and a
preconditioner. All fits of a batch run in lockstep, so that every product with the design is a matrix
product. :class:`suquan.solvers.linear.RidgeDesign` calls :class:`FeatureSolver`.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from suquan.losses import Curvature, Loss
from suquan.solvers._algebra import Array, MaybeArray, cholesky, cholesky_solve
from suquan.solvers._fits import (
    LinearFit,
    damped_curvature,
    ignores_shifts,
    negligible,
    of_samples,
)
from suquan.solvers._products import CentredDesign, centred_design
from suquan.solvers.newton import Point, Product, Solution, lower, newton

# Logarithm of the ratio of two mean curvatures that may share a factor.
_SAME_FACTOR = 0.25
# Features up to which a covariance costs less than the first iterations without it.
_FEW_FEATURES = 256


class SampleSums(Protocol):
    """Sums over the samples of a batch of fits, on centred columns; `theta` has the intercept last.

    Attributes
    ----------
    n_features : int
    spread : float
        Mean square of the entries of the centred columns.
    """

    n_features: int
    spread: float

    @property
    def largest_square(self) -> float:
        """Features up to which there is room for a matrix of all pairs."""

    def evaluate(self, fits: Array, theta: Array) -> list[Point]:
        """Losses at theta, without the penalty."""

    def gradients(self, fits: Array, points: list[Point]) -> Array:
        """Gradients of the losses."""

    def hessian(self, fits: Array, points: list[Point]) -> Product:
        """Products with the Hessians of the losses."""

    def curvatures(self, fits: Array, points: list[Point]) -> Array:
        """Mean over the outputs of the summed second derivatives of the losses, of shape (n_fits,)."""

    def covariance(self) -> Array:
        """Second moments of the columns, bordered by those of the intercept."""

    def squares(self, fit: int, point: Point) -> list[Array]:
        """Second moments weighted with the curvature of each output of a fit."""


class DenseSums:
    """Sums over the rows of a matrix.

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

    largest_square = np.inf

    def __init__(self, design: CentredDesign, loss: Loss, y: Array, S: Array, spread: float = 1.0):
        self.design, self.loss, self.y, self.S, self.spread = design, loss, y, S, spread
        self.n_features = design.A.shape[1]
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
        slopes = [
            self.loss.gradient(*self._at(k, point.u))
            for k, point in zip(fits.tolist(), points, strict=True)
        ]
        return self._batch(self.design.adjoint(self._by_output(slopes)), len(points))

    def hessian(self, fits: Array, points: list[Point]) -> Product:
        """Products with the Hessians of the losses, in the type of the design."""
        curvatures = self._curvatures(fits, points)
        dtype = self.design.A.dtype

        def product(V: Array) -> Array:
            changes = self._side_by_side(self.design.scores(_rows(V), dtype), len(V))
            curved = [
                curvature.product(change)
                for curvature, change in zip(curvatures, changes, strict=True)
            ]
            return self._batch(self.design.adjoint(self._by_output(curved), dtype), len(V))

        return product

    def curvatures(self, fits: Array, points: list[Point]) -> Array:
        """Mean over the outputs of the summed second derivatives of the losses."""
        totals = [curvature.diagonal().sum() for curvature in self._curvatures(fits, points)]
        return np.array(totals) / self.loss.n_outputs

    def covariance(self) -> Array:
        """Second moments of the columns, bordered by those of the intercept."""
        n_samples = len(self.y)
        return self.design.squares(np.full(n_samples, 1.0 / n_samples))

    def squares(self, fit: int, point: Point) -> list[Array]:
        """Second moments weighted with the curvature of each output of a fit."""
        (curvature,) = self._curvatures(np.array([fit]), [point])
        diagonal = curvature.diagonal().reshape(len(self.y), -1)
        return [self.design.squares(d) for d in diagonal.T]

    def _curvatures(self, fits: Array, points: list[Point]) -> list[Curvature]:
        """Curvatures of the fits, which a Newton step asks for twice."""
        if self._known is None or self._known[0] is not points:
            of_fits = zip(fits.tolist(), points, strict=True)
            self._known = (
                points,
                [
                    damped_curvature(self.loss, *self._at(k, point.u), point.damping)
                    for k, point in of_fits
                ],
            )
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

    def _batch(self, rows: Array, n_fits: int) -> Array:
        return rows.reshape(n_fits, self.loss.n_outputs, -1)


def _rows(theta: Array) -> Array:
    """Vectors of all fits and outputs as rows."""
    return theta.reshape(-1, theta.shape[-1])


class Conditioning:
    """What the fits on one design share: its covariance and the last factor, and when they pay.

    Conjugate gradients run without a covariance until they have cost as many products as forming and
    factorising one, n_features / 24.
    """

    def __init__(self, n_features: int):
        self.budget = max(4, n_features // 24)
        self.unconditioned_left = self.budget if n_features > _FEW_FEATURES else 0
        self._covariance: MaybeArray = None
        self._factor: MaybeArray = None
        self._factored = 1.0, 0.0  # curvature and alpha of the factor

    def factor(self, sums: SampleSums, curvature: float, alpha: float, dtype: Any) -> Array:
        """Factor of curvature × covariance + 2 alpha, or of nearly that curvature."""
        known, at_alpha = self._factored
        if alpha != at_alpha or abs(np.log(curvature / known)) >= _SAME_FACTOR:
            if self._covariance is None:
                self._covariance = sums.covariance().astype(dtype)
            self._factor = _penalised_factor(curvature * self._covariance, alpha)
            self._factored = curvature, alpha
        return self._factor


def _penalised_factor(H: Array, alpha: float) -> Array:
    """Factor of the Hessian H of a loss with the penalty, which takes the place of H."""
    n_features = len(H) - 1
    H.flat[: n_features * (n_features + 1) : n_features + 2] += 2.0 * alpha
    return cholesky(H)


class FeatureProblem:
    """The penalised fits, as Newton's method takes them.

    The preconditioner is as strong as the problem turns out to need. Strength 0 scales; 1 inverts
    mean curvature × covariance + 2 alpha; 2 inverts, fit by fit and output by output, the Hessian at the
    present point. The next one is built when the last has cost as many products as that takes.

    Parameters
    ----------
    sums : SampleSums
    conditioning : Conditioning
        Of the design; it learns from fit to fit.
    loss : Loss
    alpha : float
    balanced : bool
        Whether the outputs sum to 0, as the loss ignores their mean.
    dtype : type, default=np.float64
        Type of the shared factor.
    """

    def __init__(
        self,
        sums: SampleSums,
        conditioning: Conditioning,
        loss: Loss,
        alpha: float,
        balanced: bool,
        dtype: Any = np.float64,
    ):
        self.sums, self.shared, self.alpha = sums, conditioning, alpha
        self.balanced, self.dtype = balanced, dtype
        self.is_coupled = loss.n_outputs > 1 or loss.couples_samples
        self.has_room = sums.n_features <= sums.largest_square
        self.strength = 1 if conditioning.unconditioned_left <= 0 and self.has_room else 0
        self._own: dict[int, list[Array]] = {}

    @property
    def max_products(self) -> int:
        """Products for one step; more where factors neglect the coupling of outputs or samples."""
        if self.strength == 0:
            return max(
                60 if not self.has_room else 4,
                self.shared.budget // 2,
                self.shared.unconditioned_left,
            )
        return (
            max(60, self.shared.budget)
            if self.strength == 2 and self.is_coupled
            else self.shared.budget
        )

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
        """Products with the Hessians of the objectives."""
        of_losses = self.sums.hessian(fits, points)

        def product(V: Array) -> Array:
            out = of_losses(V)
            out[..., :-1] += 2.0 * self.alpha * V[..., :-1]
            return out

        return product

    def preconditioner(self, fits: Array, points: list[Point]) -> Product:
        """Products with approximate inverses of the Hessians."""
        curvature = max(float(self.sums.curvatures(fits, points).mean()), np.finfo(float).tiny)
        if self.strength == 0:
            # One scale for all columns: rows of normalised samples have the same sum, so that gradients are
            # orthogonal to a common shift of all coefficients, along which only the penalty is curved.
            scales = np.full(
                self.sums.n_features + 1, curvature * self.sums.spread + 2.0 * self.alpha
            )
            scales[-1] = curvature
            return lambda R: self._balance(R / scales)
        if self.strength == 1:
            factor = self.shared.factor(self.sums, curvature, self.alpha, self.dtype)
            return lambda R: self._balance(cholesky_solve(factor, _rows(R).T).T.reshape(R.shape))
        for k, point in zip(fits.tolist(), points, strict=True):
            if k not in self._own:
                squares = self.sums.squares(k, point)
                self._own[k] = [_penalised_factor(H, self.alpha) for H in squares]
        factors = [self._own[k] for k in fits.tolist()]

        def solve(R: Array) -> Array:
            solved = [
                [cholesky_solve(factor, r) for factor, r in zip(of_fit, residuals, strict=True)]
                for of_fit, residuals in zip(factors, R, strict=True)
            ]
            return self._balance(np.array(solved))

        return solve

    def adapt(self, n_products: int, reached: bool) -> None:
        """Grow stronger where the last conjugate gradients were too long."""
        if self.strength == 0:
            self.shared.unconditioned_left -= n_products
            if self.shared.unconditioned_left <= 0 and self.has_room:
                self.strength = 1
        elif self.strength == 1:
            self.strength = 1 if reached else 2
        elif n_products > 3:
            self._own.clear()  # out of date: a fresh factor solves in one or two products

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
        self.design, self.spread = centred_design(A, fit_intercept)
        self.fit_intercept = fit_intercept
        self.conditioning = Conditioning(A.shape[1])

    def solve_batch(self, loss, y, S, alpha, tol, max_iter, start) -> list[LinearFit]:
        """Fits that differ by their weights S, of shape (n_fits, n_samples)."""
        sums = DenseSums(self.design, loss, y, S, self.spread)
        balanced = ignores_shifts(loss, y, S[0])
        problem = FeatureProblem(
            sums, self.conditioning, loss, alpha, balanced, self.design.A.dtype
        )
        points = self._start(sums, problem, start)
        solutions = newton(problem, points, negligible(loss, y, S.mean(axis=0)), tol, max_iter)
        return [self._fit(solution, loss, balanced, tol) for solution in solutions]

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
        b = start.b + start.w @ self.design.offset if self.fit_intercept else 0.0 * start.b
        theta[:] = np.column_stack([start.w, b])
        if problem.balanced:
            theta -= theta.mean(axis=1, keepdims=True)
        known = start.design is self
        scores = np.ravel(start.u)[None] if known else sums.scores(theta[:1])
        points = sums.points(fits, theta, np.repeat(scores, len(S), axis=0))
        return [
            lower(constant, problem.penalised(point))
            for constant, point in zip(constants, points, strict=True)
        ]

    def _fit(self, solution: Solution, loss: Loss, balanced: bool, tol: float) -> LinearFit:
        """The fit, with b moved from the centred design to the one given."""
        point = solution.point
        w, b = point.theta[:, :-1].copy(), point.theta[:, -1].copy()
        if self.fit_intercept:
            b -= w @ self.design.offset
            b -= b.mean() if balanced else 0.0
        return LinearFit(
            w, b, of_samples(point.u, loss), point.objective, solution.n_iter,
            solution.criterion, solution.criterion <= tol, design=self,
        )  # fmt: skip
