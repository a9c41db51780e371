"""Losses ℓ(y, u) of a score u: value, gradient and curvature in u.

Every loss works on a batch: ``y`` holds one encoded label per sample and ``u`` the scores, of shape
(n_samples,) for :class:`Logistic` and :class:`Squared`, (n_samples, n_classes) for :class:`Softmax`.
Values and derivatives are per sample and unweighted; weights belong to the objective.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import expit, log_softmax, softmax


def _negative_margin(y, u):
    """−y u, in a new array that the caller may overwrite: of many fold models such arrays are large."""
    return np.multiply(-y, u, out=np.empty(np.broadcast_shapes(np.shape(y), np.shape(u))))


@dataclass(frozen=True)
class Logistic:
    """log(1 + exp(−y u)) for y ∈ {−1, +1}."""

    curvature_bound = 0.25
    n_outputs = 1

    def value(self, y, u):
        """Loss of each sample, shape (n_samples,)."""
        margin = _negative_margin(y, u)
        return np.logaddexp(0.0, margin, out=margin)

    def gradient(self, y, u):
        """Derivative of the loss in u: −y / (1 + exp(y u))."""
        gradient = _negative_margin(y, u)
        expit(gradient, out=gradient)
        gradient *= -y
        return gradient

    def curvature(self, y, u):
        """Second derivative in u: σ(u)(1 − σ(u))."""
        curvature = np.negative(u, out=np.empty(np.shape(u)))
        expit(curvature, out=curvature)
        curvature *= expit(u)
        return curvature


@dataclass(frozen=True)
class Squared:
    """(y − u)², without a half."""

    curvature_bound = 2.0
    n_outputs = 1

    def value(self, y, u):
        """Loss of each sample, shape (n_samples,)."""
        return (y - u) ** 2

    def gradient(self, y, u):
        """Derivative of the loss in u: 2 (u − y)."""
        return 2.0 * (u - y)

    def curvature(self, y, u):
        """Second derivative in u: 2."""
        return np.full(np.shape(u), 2.0)


@dataclass(frozen=True)
class Softmax:
    """−log softmax(u)_y for y ∈ {0, …, n_outputs − 1}; u has shape (n_samples, n_outputs)."""

    n_outputs: int
    curvature_bound = 0.5  # largest eigenvalue of diag(π) − π πᵀ

    def value(self, y, u):
        """Loss of each sample, shape (n_samples,)."""
        return -np.take_along_axis(log_softmax(u, axis=1), y[:, None], axis=1)[:, 0]

    def gradient(self, y, u):
        """Gradient in u: softmax(u) − e_y, shape (n_samples, n_outputs)."""
        g = softmax(u, axis=1)
        g[np.arange(len(y)), y] -= 1.0
        return g

    def curvature(self, y, u):
        """Class probabilities π; the Hessian in u is diag(π) − π πᵀ, shape (n_samples, n_outputs)."""
        return softmax(u, axis=1)


Loss = Logistic | Squared | Softmax
