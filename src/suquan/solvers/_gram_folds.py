"""The w-step of many folds for n_samples ≤ n_features: Newton with preconditioned conjugate gradients.

Fits that differ by the samples they leave out run in lockstep and share one n × n inverse: that of the Newton
system of a fit to all samples. Leaving out the samples E changes an inverse by its blocks at E alone,

    (K_TT)⁻¹ = (K⁻¹)_TT − (K⁻¹)_TE ((K⁻¹)_EE)⁻¹ (K⁻¹)_ET,

so that every fold has nearly the inverse of its own system at the cost of a few products of matrices.

Coefficients are w = Aᵀa, known by a. In the metric of w the gradient Aᵀρ is known by ρ, and inner products
⟨Aᵀx, Aᵀρ⟩ = x·Gρ need Gρ. Vectors therefore have three parts: a gradient (Gρ, ρ, its entry for b), a step
(x, 0, its entry for b), and the inner product of one with the other is the plain one.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from scipy.linalg import blas, cho_factor, cho_solve, lapack

from suquan.losses import Loss
from suquan.solvers._algebra import Array, factor_scaled, lower_product
from suquan.solvers._fits import LinearFit
from suquan.solvers._newton_batch import Batch, dots, wide
from suquan.solvers._newton_cg import conjugate_gradients

# Conjugate gradients for one Newton step; fits that need more are left to a factor of their own.
_MAX_PRODUCTS = 60


class DualProducts:
    """Scores G a + b of the parameters (a, 0, b)."""

    def __init__(self, G: Array):
        self.G, self.dtype = G, G.dtype

    def scores(self, theta: Array) -> Array:
        """Scores of every row of theta, shape (n_fits, n_samples)."""
        scores = lower_product(self.G, theta[:, : len(self.G)])
        scores += theta[:, -1:]
        return scores


class DualBatch(Batch):
    """Iterates of fits that differ by their weights; ``theta`` has shape (n_fits, 1, 2 n_samples + 1)."""

    def __init__(
        self, G: Array, loss: Loss, y: Array, S: Array, alpha: float, fit_intercept, start
    ):
        self.G, self.fit_intercept = G, fit_intercept
        n_samples = len(G)
        theta = np.zeros((len(S), 1, 2 * n_samples + 1))
        theta[..., :n_samples] = start.dual
        v = lower_product(G, start.dual[0])
        if fit_intercept:
            theta[..., -1] = np.mean(start.u - v)
        scores = v + theta[..., -1:]
        super().__init__(DualProducts(G), loss, y, S, alpha, theta, scores)

    def forget_left_out(self) -> None:
        """Give up what the start has of the samples that a fit leaves out."""
        n_samples = len(self.G)
        self.theta[..., :n_samples] *= self.S[:, None] > 0.0
        self.scores = wide(self.products.scores, self.theta)
        self.objective = self._objectives()

    def derivatives(self) -> tuple[Array, Array]:
        """Gradient in theta, and the :meth:`curvature`, of the running fits."""
        slopes = self._slopes()
        rho = 2.0 * self.alpha * self.theta[self.running, :, : len(self.G)]
        rho += slopes
        return self._gradient(rho, slopes), self.curvature()

    def hessian_product(self, V: Array, curvature: Array) -> Array:
        """Hessian times the step V."""
        x = V[..., : len(self.G)]
        change = wide(self.products.scores, V)
        change *= curvature
        return self._gradient(change + 2.0 * self.alpha * x, change)

    def _gradient(self, rho: Array, slopes: Array) -> Array:
        """The parts (Gρ, ρ, Σ slopes) of a gradient."""
        n_samples = len(self.G)
        gradient = np.empty((*rho.shape[:-1], 2 * n_samples + 1))
        gradient[..., :n_samples] = wide(partial(lower_product, self.G), rho)
        gradient[..., n_samples:-1] = rho
        gradient[..., -1] = slopes.sum(axis=-1) if self.fit_intercept else 0.0
        return gradient

    def _penalty(self, theta: Array, scores: Array) -> float:
        """Penalty alpha aᵀGa of one fit."""
        a, v = theta[:, : len(self.G)], scores - theta[:, -1:]
        return self.alpha * float(np.einsum("kj,kj->", a, v))

    def fit(self, k: int, tol: float, solver: object) -> LinearFit:
        """Fit k, with b of the centred design."""
        criterion = float(self.criterion[k])
        return LinearFit(
            None, self.theta[k, :, -1].copy(), self.scores[k, 0], float(self.objective[k]), int(self.n_iter[k]),
            criterion, criterion <= tol, self.theta[k, :, : len(self.G)].copy(), solver,
        )  # fmt: skip


class FoldInverse:
    """Approximate inverse Hessian of every fit: exact at the curvature of the start, for equal weights.

    With an intercept G is replaced by G + shift: the sum of a is known, so that b takes this up, and the matrix
    is not nearly singular along the samples' mean.
    """

    def __init__(self, batch: DualBatch):
        self.batch = batch
        S, G = batch.S, batch.G
        self.shift = float(np.trace(G)) / len(G) if batch.fit_intercept else 0.0
        weights = S.sum(axis=0) / np.maximum(
            (S > 0.0).sum(axis=0), 1
        )  # those of fits that have the sample
        self.root = np.sqrt(weights * batch.loss.curvature(batch.y, batch.scores[0, 0]))
        self._invert()
        self.left_out = [np.flatnonzero(s == 0.0) for s in S]
        self.corners = [self._corner(rows) for rows in self.left_out]
        roots = self._roots(np.arange(len(S)))
        self.along_b = roots * self._solve(roots.copy(), np.arange(len(S)))

    def _invert(self) -> None:
        """Put the inverse of the system of all samples above the diagonal of G, its own diagonal aside."""
        G = self.batch.G
        diagonal = G.diagonal().copy()
        factor = factor_scaled(G, self.root, 2.0 * self.batch.alpha, self.shift)
        lapack.dpotri(factor, lower=1, overwrite_c=1)
        self.diagonal = G.diagonal().copy()
        G[np.diag_indices_from(G)] = diagonal

    def _corner(self, rows: Array) -> Any:
        """Factor of the inverse at some samples; kept in float32, as all folds together have many entries."""
        corner = self.batch.G[np.ix_(rows, rows)]  # right above its diagonal
        corner[np.diag_indices_from(corner)] = self.diagonal[rows]
        factor, lower = cho_factor(corner, overwrite_a=True, check_finite=False)
        return factor.astype(np.float32), lower

    def _inverse_product(self, Q: Array) -> Array:
        """Inverse of the system of all samples times every row of Q."""
        G = self.batch.G
        Z = blas.dsymm(1.0, G.T, Q.T, lower=1).T
        Z += (self.diagonal - G.diagonal()) * Q
        return Z

    def _roots(self, fits: Array) -> Array:
        """Roots of the curvature in each of the fits, 0 for samples left out."""
        return self.root * (self.batch.S[fits] > 0.0)

    def _solve(self, Q: Array, fits: Array) -> Array:
        """Solve the system of every fit for the rows of Q, which are 0 for samples left out, and change."""
        Z = self._inverse_product(Q)
        for q, z, k in zip(Q, Z, fits.tolist(), strict=True):
            rows = self.left_out[k]
            if len(rows):
                q[rows] = -cho_solve(
                    self.corners[k], z[rows].astype(np.float32), check_finite=False
                )
        return self._inverse_product(Q)

    def apply(self, R: Array) -> Array:
        """Approximate inverse Hessian times the gradients R of the running fits."""
        batch, fits = self.batch, self.batch.running
        n_samples, alpha = len(batch.G), batch.alpha
        Gr, r, r_b = R[:, 0, :n_samples], R[:, 0, n_samples:-1], R[:, 0, -1]
        r_sums = r.sum(axis=1)
        roots = self._roots(fits)
        along_r = roots * self._solve(roots * (Gr + self.shift * r_sums[:, None]), fits)
        out = np.zeros_like(R)
        x = out[:, 0, :n_samples]
        np.subtract(r, along_r, out=x)
        x /= 2.0 * alpha
        if batch.fit_intercept:
            along_b = self.along_b[fits]
            total = 2.0 * alpha * along_b.sum(axis=1)  # 0 where all curvature vanishes
            step_b = np.divide(
                r_b - along_r.sum(axis=1), total, out=np.zeros(len(fits)), where=total > 0.0
            )
            x -= step_b[:, None] * along_b
            out[:, 0, -1] = step_b + self.shift * x.sum(axis=1)
        return out


def solve_folds(batch: DualBatch, tol: float, max_iter: int) -> None:
    """Newton's method on all fits of the batch; those that it does not finish are left running.

    The batch's G is read below its diagonal and used as working space above.
    """
    inverse = FoldInverse(batch)
    for n_iter in range(max_iter):
        gradient, curvature = batch.derivatives()
        scaled = inverse.apply(gradient)
        if not np.all(
            dots(gradient, scaled) > 0.0
        ):  # rounding: not definite, or nothing left to gain
            break
        step, _, reached, accurate = conjugate_gradients(
            partial(batch.hessian_product, curvature=curvature),
            inverse.apply,
            gradient,
            batch.forcing(gradient, scaled, tol),
            2.0 * tol * batch.scale(),
            _MAX_PRODUCTS,
        )
        if not reached:
            break
        batch.move(gradient, step, tol, accurate)
        if n_iter == 0:
            batch.running = np.arange(len(batch.S))
            batch.forget_left_out()
        if not len(batch.running):
            break
