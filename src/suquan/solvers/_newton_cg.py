"""The w-step for n_samples > n_features: Newton with preconditioned conjugate gradients.

All fits of a batch run in lockstep, so that every product with the design is a matrix product.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from suquan.losses import Softmax
from suquan.solvers._algebra import Array, MaybeArray, cholesky, cholesky_solve, factor_scaled
from suquan.solvers._centred_products import CentredProducts
from suquan.solvers._fits import LinearFit, null_intercept, sum_to_zero
from suquan.solvers._newton_batch import Batch, balance_classes, dots, wide
from suquan.solvers._threads import one_blas_thread

# Relative residual of the last Newton step.
_LAST_FORCING = 1e-2
# Logarithm of the ratio of two curvatures that need no other factor.
_NEARLY = 0.25


class PrimalSolver:
    """Newton-CG on (w, b), in lockstep over a batch of weights."""

    def __init__(self, A: Array, fit_intercept: bool):
        self.products = CentredProducts(A, fit_intercept)
        self.fit_intercept = fit_intercept
        n_features = A.shape[1]
        # Conjugate gradients that cost about as much as forming and factorising a Hessian.
        self.budget = max(4, n_features // 24)
        self.unconditioned_left = self.budget if n_features > 256 else 0
        self._covariance: MaybeArray = None
        self._variances: MaybeArray = None
        self._factor: MaybeArray = None
        self._factored = 1.0, 0.0  # curvature and alpha of the factor

    def factor(self, curvature: float, alpha: float) -> Array:
        """Factor of curvature × covariance + 2 alpha, in the type of the design; the next one takes its place.

        The covariance, bordered by the intercept, is computed when first asked for. It lies below the diagonal
        of a square, the factor on it and above. The last factor is returned again where it is nearly that.
        """
        known, at_alpha = self._factored
        if alpha == at_alpha and abs(np.log(curvature / known)) < _NEARLY:
            return self._factor
        if self._covariance is None:
            self._covariance = self.products.covariance()
            self._variances = self._covariance.diagonal().copy()
        q = np.full(len(self._variances), np.sqrt(curvature), self._variances.dtype)
        ridge = np.full_like(q, 2.0 * alpha)
        ridge[-1] = 0.0
        self._factor = factor_scaled(self._covariance, q, ridge, diagonal=self._variances)
        self._factored = curvature, alpha
        return self._factor

    def solve_batch(self, loss, y, S, alpha, tol, max_iter, start) -> list[LinearFit]:
        return self.reduced_batch(loss, y, S, alpha, tol, max_iter, start)

    def reduced_batch(self, loss, y, S, alpha, tol, max_iter, start) -> list[LinearFit]:
        """Fits that need no completion, unlike those from a Gram matrix."""
        with one_blas_thread():
            return self._newton(loss, y, S, alpha, tol, max_iter, start)

    def _newton(self, loss, y, S, alpha, tol, max_iter, start) -> list[LinearFit]:
        theta, scores = self._start(loss, y, S, start)
        batch = Batch(self.products, loss, y, S, alpha, theta, scores)
        preconditioner = _Preconditioner(self, batch)
        for _ in range(max_iter):
            gradient, curvature = batch.derivatives()
            preconditioner.prepare(curvature)
            step, n_products, reached, accurate = conjugate_gradients(
                partial(batch.hessian_product, curvature=curvature),
                preconditioner.apply,
                gradient,
                batch.forcing(gradient, preconditioner.apply(gradient), tol),
                2.0 * tol * batch.scale(),
                preconditioner.limit,
            )
            del curvature  # its memory is needed
            batch.move(gradient, step, tol, accurate)
            if not len(batch.running):
                break
            preconditioner.adapt(n_products, reached)
        return [self._complete(fit) for fit in batch.fits(tol)]

    def complete(self, fits: list[LinearFit], alphas: Sequence[float]) -> list[LinearFit]:
        """Nothing is left to add."""
        return fits

    def _complete(self, fit: LinearFit) -> LinearFit:
        """Move b from the centred design to the one given."""
        shift = fit.w @ self.products.offset if self.fit_intercept else 0.0
        return replace(fit, b=sum_to_zero(fit.b - shift), design=self)

    def _start(self, loss, y, S, start) -> tuple[Array, Array]:
        """First theta and scores of each fit."""
        theta = np.zeros((len(S), loss.n_outputs, self.products.A.shape[1] + 1))
        if start is None or start.w is None or start.w.shape != theta[0, :, :-1].shape:
            if self.fit_intercept:
                theta[:, :, -1] = [null_intercept(loss, y, s) for s in S]
            return theta, wide(self.products.scores, theta)
        theta[:, :, :-1] = start.w
        if self.fit_intercept:
            theta[:, :, -1] = start.b + start.w @ self.products.offset
        theta = balance_classes(loss, theta)
        if start.design is self:
            scores = start.u.reshape(len(y), -1).T
        else:
            scores = self.products.scores(theta[0])
        return theta, np.repeat(scores[None], len(S), axis=0)


class _Preconditioner:
    """Approximate inverse Hessian, as strong as the problem turns out to need.

    Strength 0 scales the identity; 1 inverts mean curvature × covariance + 2 alpha; 2 inverts, fit by fit
    and class by class, the Hessian at the present point. The next one is built when the last has cost as
    many products as that takes.
    """

    def __init__(self, solver: PrimalSolver, batch: Batch):
        self.solver, self.batch = solver, batch
        self.strength = 0 if solver.unconditioned_left > 0 else 1
        self._shared: Any = None
        self._own: dict[int, list[Any]] = {}

    @property
    def limit(self) -> int:
        """Products that conjugate gradients may use."""
        if self.strength == 0:
            return max(4, self.solver.budget // 2, self.solver.unconditioned_left)
        # Blocks of single classes neglect their coupling: more products, even with a fresh factor.
        coupled = self.strength == 2 and isinstance(self.batch.loss, Softmax)
        return max(60, self.solver.budget) if coupled else self.solver.budget

    def prepare(self, curvature: Array) -> None:
        """Build what the present strength lacks, from the curvature of the running fits."""
        diagonal = self.batch.diagonal_curvature(curvature)
        mean_curvature = max(diagonal.sum(axis=-1).mean(), np.finfo(float).tiny)
        if self.strength == 0:
            A = self.solver.products.A[:64]
            scale = mean_curvature * float(np.vdot(A, A)) / A.shape[0] / A.shape[1]
            self._scales = np.full(self.batch.theta.shape[-1], scale + 2.0 * self.batch.alpha)
            self._scales[-1] = mean_curvature
        elif self.strength == 1 and self._shared is None:
            self._shared = self.solver.factor(mean_curvature, self.batch.alpha)
        elif self.strength == 2:
            for k, d in zip(self.batch.running.tolist(), diagonal, strict=True):
                if k not in self._own:
                    hessians = (self.solver.products.covariance(d_class) for d_class in d)
                    self._own[k] = [self._factor(H) for H in hessians]

    def apply(self, R: Array) -> Array:
        """Approximate inverse Hessian times R, shape (n_running, n_outputs, n_features + 1)."""
        if self.strength == 0:
            out = R / self._scales
        elif self.strength == 1:
            columns = R.reshape(-1, R.shape[-1]).T
            out = cholesky_solve(self._shared, columns).T.reshape(R.shape)
        else:
            out = np.empty_like(R)
            for fit, residuals, k in zip(out, R, self.batch.running.tolist(), strict=True):
                for c, factor in enumerate(self._own[k]):
                    fit[c] = cholesky_solve(factor, residuals[c])
        return balance_classes(self.batch.loss, out)

    def adapt(self, n_products: int, reached: bool) -> None:
        """Grow stronger where the last conjugate gradients were too long."""
        if self.strength == 0:
            self.solver.unconditioned_left -= n_products
            self.strength = 0 if self.solver.unconditioned_left > 0 else 1
        elif self.strength == 1:
            self.strength = 1 if reached else 2
        elif n_products > 3:
            self._own.clear()  # out of date: a fresh factor solves in one or two products

    def _factor(self, H: Array) -> Any:
        """Factor of the Hessian H of the losses with the penalty, in its place."""
        n_features = len(H) - 1
        H.flat[: n_features * (n_features + 1) : n_features + 2] += 2.0 * self.batch.alpha
        return cholesky(H, overwrite=True)


def conjugate_gradients(
    product: Callable[[Array], Array],
    precondition: Callable[[Array], Array],
    gradient: Array,
    forcing: Array,
    last_decrement: Array,
    limit: int,
) -> tuple[Array, int, bool, Array]:
    """Solve H step = −gradient for every fit of a batch at once.

    A fit whose squared Newton decrement is at most ``last_decrement`` takes its last step, which is solved
    to ``_LAST_FORCING``: that leaves 10⁻⁴ of the gap, where the usual forcing would leave a tenth.

    Returns
    -------
    step : ndarray, shape of ``gradient``
    n_products : int
    reached : bool
        Whether every fit came down to ``forcing`` times its first residual.
    accurate : ndarray of bool, shape (n_fits,)
        Which fits came down to what the last step needs.
    """
    step, residual = np.zeros_like(gradient), -gradient
    scaled = precondition(residual)
    energy = dots(residual, scaled)
    target, last_target = forcing**2 * energy, _LAST_FORCING**2 * energy
    direction = scaled
    del scaled
    goal = target
    accurate = energy <= last_target
    for n_products in range(1, limit + 1):
        going = energy > goal
        curved = product(direction)
        curvature = dots(direction, curved)
        usable = going & (curvature > 0.0)
        length = np.where(usable, energy / np.where(usable, curvature, 1.0), 0.0)[:, None, None]
        step = step + length * direction
        residual = residual - length * curved
        del curved  # the next product needs the memory
        scaled = precondition(residual)
        previous, energy = energy, np.where(usable, dots(residual, scaled), 0.0)
        accurate |= usable & (energy <= last_target)
        goal = np.where(dots(-gradient, step) <= last_decrement, last_target, target)
        if not np.any(energy > goal):
            return step, n_products, True, accurate
        ratio = np.where(previous > 0.0, energy / np.where(previous > 0.0, previous, 1.0), 0.0)
        direction = scaled + ratio[:, None, None] * direction
        del scaled
    return step, limit, not np.any(energy > target), accurate
