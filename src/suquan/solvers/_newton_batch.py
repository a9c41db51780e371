"""Iterates of the w-step's Newton-CG: derivatives, Hessian products and line search of a batch of fits."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from suquan.losses import Loss, Softmax
from suquan.solvers._algebra import Array
from suquan.solvers._fits import LinearFit, negligible

# Samples whose slopes are computed at a time: fifteen fits take 0.5 MB.
_SOME = 4096


class Batch:
    """Iterates of fits that share design, labels and alpha, and differ by their weights.

    ``theta`` has shape (n_fits, n_outputs, n_features + 1), scores (n_fits, n_outputs, n_samples);
    ``running`` lists the fits that go on, and the methods work on those. ``S[k]`` are the weights of fit k.
    Values per score are computed fit by fit, without copies: of many fits such arrays are large.
    """

    def __init__(self, products: Any, loss, y, S, alpha, theta, scores):
        self.products, self.loss, self.y, self.S, self.alpha = products, loss, y, S, alpha
        self.theta, self.scores = theta, scores
        self.running = np.arange(len(S))
        self.objective = self._objectives()
        self.floor = np.array([negligible(loss, y, s) for s in S])
        self.criterion = np.full(len(S), np.inf)
        self.n_iter = np.zeros(len(S), dtype=int)

    def derivatives(self) -> tuple[Array, Array]:
        """Gradient in theta, and the :meth:`curvature`, of the running fits."""
        gradient = self._loss_gradient()
        gradient[..., :-1] += 2.0 * self.alpha * self.theta[self.running, :, :-1]
        return gradient, self.curvature()

    def _loss_gradient(self) -> Array:
        """Gradient of the losses in theta, from the slopes of some samples at a time."""
        shape = (len(self.running), *self.theta.shape[1:])
        parts = (slice(start, start + _SOME) for start in range(0, len(self.y), _SOME))
        slopes = ((some, self._slopes(some).reshape(shape[0] * shape[1], -1)) for some in parts)
        return self.products.adjoint_sum(shape[0] * shape[1], slopes).reshape(shape)

    def curvature(self) -> Array:
        """Second derivatives of the loss in the scores of the running fits, in the type of the design.

        They are weighted; of the softmax they are the probabilities, unweighted.
        """
        weighted = not isinstance(self.loss, Softmax)
        return self._per_score(self.loss.curvature, self.products.dtype, weighted)

    def _slopes(self, samples: slice = slice(None)) -> Array:
        """Weighted derivatives of the loss in the scores of the running fits."""
        return self._per_score(self.loss.gradient, np.float64, True, samples)

    def _per_score(
        self, function: Callable[..., Array], dtype, weighted: bool, samples: slice = slice(None)
    ) -> Array:
        y = self.y[samples]
        out = np.empty((len(self.running), self.scores.shape[1], len(y)), dtype)
        for values, k in zip(out, self.running.tolist(), strict=True):
            factor = self.S[k][samples] if weighted else 1.0
            of_fit = function(y, self._columns(self.scores[k, :, samples]))
            np.multiply(of_fit.T, factor, out=values, casting="same_kind")
        return out

    def hessian_product(self, V: Array, curvature: Array) -> Array:
        """Hessian times V, both of shape (n_running, n_outputs, n_features + 1)."""
        if isinstance(self.loss, Softmax):
            change = wide(self.products.fast_scores, V)
            change -= (curvature * change).sum(axis=1, keepdims=True)
            change *= curvature
            for of_fit, k in zip(change, self.running.tolist(), strict=True):
                of_fit *= self.S[k]
            product = wide(self.products.fast_adjoint, change)
        else:
            product = self.products.curved(V[:, 0], curvature[:, 0])[:, None]
        product[..., :-1] += 2.0 * self.alpha * V[..., :-1]
        return product

    def diagonal_curvature(self, curvature: Array) -> Array:
        """Weighted second derivative of the loss in each score, shape as the scores."""
        if not isinstance(self.loss, Softmax):
            return curvature
        diagonal = curvature * (1.0 - curvature)
        for of_fit, k in zip(diagonal, self.running.tolist(), strict=True):
            of_fit *= self.S[k]
        return diagonal

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
        of_fits = zip(running.tolist(), step, change, slope.tolist(), strict=True)
        moved = np.array([self._backtrack(*of_fit) for of_fit in of_fits])
        # A step that lowers nothing at any length is rounding: nothing more can be gained.
        self.running = running[((self.criterion[running] > tol) | ~done) & moved]

    def _backtrack(self, k: int, step: Array, change: Array, slope: float) -> bool:
        """Move fit k along its step, which changes the scores by `change`; whether any length lowers J."""
        t = 1.0
        for _ in range(40):
            theta = self.theta[k] + t * step
            scores = t * change
            scores += self.scores[k]
            objective = self._objective(k, theta, scores)
            if objective <= self.objective[k] + 1e-4 * t * slope:
                self.theta[k], self.scores[k], self.objective[k] = theta, scores, objective
                return True
            t *= 0.5
        return False

    def fits(self, tol: float) -> list[LinearFit]:
        """The fits, with b of the centred design."""
        return [
            LinearFit(
                w=self.theta[k, :, :-1].copy(),
                b=self.theta[k, :, -1].copy(),
                u=self._columns(self.scores[k]),
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

    def losses(self) -> Iterator[Array]:
        """Losses of the samples in each of the fits."""
        return (self.loss.value(self.y, self._columns(u)) for u in self.scores)

    def _objectives(self) -> Array:
        of_fits = zip(self.theta, self.scores, strict=True)
        return np.array([self._objective(k, *of_fit) for k, of_fit in enumerate(of_fits)])

    def _objective(self, k: int, theta: Array, scores: Array) -> float:
        """Objective of fit k at theta, with its scores there."""
        value = self.S[k] @ self.loss.value(self.y, self._columns(scores))
        return float(value + self._penalty(theta, scores))

    def _penalty(self, theta: Array, scores: Array) -> float:
        """Penalty alpha ‖w‖² of one fit."""
        return self.alpha * float(np.einsum("kj,kj->", theta[:, :-1], theta[:, :-1]))

    def _columns(self, u: Array) -> Array:
        """Scores of one fit as the loss takes them."""
        return u.T if isinstance(self.loss, Softmax) else u[0]


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
