"""Iterates of the w-step's Newton-CG: derivatives, Hessian products and line search of a batch of fits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from suquan.losses import Loss, Softmax
from suquan.solvers._algebra import Array
from suquan.solvers._fits import LinearFit, negligible


class Batch:
    """Iterates of fits that share design, labels and alpha, and differ by their weights.

    ``theta`` has shape (n_fits, n_outputs, n_features + 1), scores (n_fits, n_outputs, n_samples);
    ``running`` lists the fits that go on, and the methods work on those.
    """

    def __init__(self, products: Any, loss, y, S, alpha, theta, scores):
        self.products, self.loss, self.y, self.S, self.alpha = products, loss, y, S, alpha
        self.theta, self.scores = theta, scores
        self.running = np.arange(len(S))
        self.objective = self._objective(theta, self.scores, self.running)
        self.floor = np.array([negligible(loss, y, s) for s in S])
        self.criterion = np.full(len(S), np.inf)
        self.n_iter = np.zeros(len(S), dtype=int)

    def derivatives(self) -> tuple[Array, Array]:
        """Gradient in theta, and the curvature of the loss in the scores, of the running fits."""
        scores = self._of_running(self.scores)
        slopes = self._per_score(self.loss.gradient, scores)
        slopes *= self._of_running(self.S)[:, None]
        gradient = wide(self.products.adjoint, slopes)
        del slopes  # its memory is needed
        gradient[..., :-1] += 2.0 * self.alpha * self.theta[self.running, :, :-1]
        return gradient, self._per_score(self.loss.curvature, scores)

    def _of_running(self, array: Array) -> Array:
        """Entries of the running fits."""
        return self._taken(array, self.running)

    def _taken(self, array: Array, fits: Array) -> Array:
        """Entries of some fits, in order; no copy where that is all of them."""
        return array if len(fits) == len(array) else array[fits]

    def hessian_product(self, V: Array, curvature: Array) -> Array:
        """Hessian times V, both of shape (n_running, n_outputs, n_features + 1)."""
        change = wide(self.products.fast_scores, V)
        if isinstance(self.loss, Softmax):
            change -= (curvature * change).sum(axis=1, keepdims=True)
        change *= curvature
        change *= self._of_running(self.S)[:, None]
        product = wide(self.products.fast_adjoint, change)
        product[..., :-1] += 2.0 * self.alpha * V[..., :-1]
        return product

    def diagonal_curvature(self, curvature: Array) -> Array:
        """Weighted second derivative of the loss in each score, shape as the scores."""
        if isinstance(self.loss, Softmax):
            curvature = curvature * (1.0 - curvature)
        return curvature * self._of_running(self.S)[:, None]

    def forcing(self, gradient: Array, scaled: Array, tol: float) -> Array:
        """Relative residual at which conjugate gradients may stop, per running fit.

        A Newton step solved to η leaves η² of the gap; less than what ``tol`` asks is wasted, and so is
        precision while the quadratic model is still poor.
        """
        gap = 0.5 * dots(gradient, scaled) / self.scale()
        wanted = np.sqrt(0.1 * tol / np.maximum(gap, tol))
        return np.clip(wanted, np.where(gap > 1e-3, 0.1, 0.01), 0.5)

    def move(self, gradient: Array, step: Array, tol: float, accurate: Array) -> None:
        """Backtrack along the step of each running fit, and retire those that are done.

        A last step that is not ``accurate`` is followed by one more.
        """
        running = self.running
        done = accurate | (self.criterion[running] <= tol)
        slope = dots(gradient, step)
        self.criterion[running] = np.maximum(-0.5 * slope, 0.0) / self.scale()
        self.n_iter[running] += 1
        change = wide(self.products.scores, step)
        pending, t = np.arange(len(running)), 1.0
        for _ in range(40):
            fits = running[pending]
            theta = self.theta[fits] + t * step[pending]
            scores = change[pending]
            scores *= t
            scores += self._taken(self.scores, fits)
            objective = self._objective(theta, scores, fits)
            good = objective <= self.objective[fits] + 1e-4 * t * slope[pending]
            moved = fits[good]
            self.theta[moved], self.scores[moved] = theta[good], scores[good]
            self.objective[moved] = objective[good]
            pending, t = pending[~good], 0.5 * t
            if not len(pending):
                break
        # A step that lowers nothing at any length is rounding: nothing more can be gained.
        stuck = np.isin(running, running[pending])
        self.running = running[((self.criterion[running] > tol) | ~done) & ~stuck]

    def fits(self, tol: float) -> list[LinearFit]:
        """The fits, with b of the centred design."""
        return [
            LinearFit(
                w=self.theta[k, :, :-1].copy(),
                b=self.theta[k, :, -1].copy(),
                u=self.scores[k].T if isinstance(self.loss, Softmax) else self.scores[k, 0],
                objective=float(self.objective[k]),
                n_iter=int(self.n_iter[k]),
                criterion=float(self.criterion[k]),
                converged=bool(self.criterion[k] <= tol),
            )
            for k in range(len(self.S))
        ]

    def scale(self) -> Array:
        """Objective of each running fit, or what counts as none."""
        return np.maximum(self.objective, self.floor)[self.running]

    def _objective(self, theta: Array, scores: Array, fits: Array) -> Array:
        columns = (u.T if isinstance(self.loss, Softmax) else u[0] for u in scores)
        losses = [
            self.S[k] @ self.loss.value(self.y, u) for k, u in zip(fits, columns, strict=True)
        ]
        return np.array(losses) + self._penalty(theta, scores)

    def _penalty(self, theta: Array, scores: Array) -> Array:
        """Penalty alpha ‖w‖² of some fits."""
        return self.alpha * np.einsum("fkj,fkj->f", theta[..., :-1], theta[..., :-1])

    def _per_sample(self, function: Callable[..., Array], scores: Array) -> Array:
        """A value per sample, shape (n_fits, n_samples), from scores (n_fits, n_outputs, n_samples)."""
        if not isinstance(self.loss, Softmax):
            return function(self.y, scores[:, 0])
        return np.stack([function(self.y, u.T) for u in scores])

    def _per_score(self, function: Callable[..., Array], scores: Array) -> Array:
        """A value per score, in the shape of the scores."""
        if not isinstance(self.loss, Softmax):
            return function(self.y, scores[:, 0])[:, None]
        return np.stack([function(self.y, u.T).T for u in scores])


def dots(V: Array, W: Array) -> Array:
    """Inner product of each fit of a batch, shape (n_fits,)."""
    return np.einsum("fkj,fkj->f", V, W)


def balance_classes(loss: Loss, theta: Array) -> Array:
    """Project on Σ_k theta_k = 0: the softmax does not see that direction, and the penalty forbids it."""
    if not isinstance(loss, Softmax):
        return theta
    return theta - theta.mean(axis=1, keepdims=True)


def wide(product: Callable[[Array], Array], V: Array) -> Array:
    """One matrix product for all fits and outputs of V, shape (n_fits, n_outputs, ...)."""
    flat = product(V.reshape(-1, V.shape[-1]))
    return flat.reshape(*V.shape[:-1], -1)
