"""Losses ℓ(y, u) of a score u: value, gradient and curvature in u.

Every loss works on a batch: ``y`` holds one encoded label per sample and ``u`` the scores, of shape
(n_samples,) for :class:`Logistic` and :class:`Squared`, (n_samples, n_classes) for :class:`Softmax`.
Values and derivatives are per sample and unweighted; weights belong to the objective.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import log_softmax, softmax


@dataclass(frozen=True)
class Logistic:
    """log(1 + exp(−y u)) for y ∈ {−1, +1}."""

    curvature_bound = 0.25
    n_outputs = 1

    def value(self, y, u):
        """Loss of each sample, shape (n_samples,): max(−y u, 0) + log(1 + exp(−|u|))."""
        value = _exp_minus_abs(u)
        np.log1p(value, out=value)
        value += np.maximum(-y * u, 0.0)
        return value

    def gradient(self, y, u):
        """Derivative of the loss in u: −y / (1 + exp(y u))."""
        margin = np.multiply(y, u, dtype=np.float64)
        with np.errstate(over="ignore"):  # 1/∞ is the right limit
            gradient = np.exp(margin, out=margin)
        gradient += 1.0
        return np.divide(-y, gradient, out=gradient)

    def curvature(self, y, u):
        """Second derivative in u: e / (1 + e)² with e = exp(−|u|)."""
        curvature = _exp_minus_abs(u)
        squared = curvature + 1.0
        squared *= squared
        curvature /= squared
        return curvature


def _exp_minus_abs(u):
    """exp(−|u|), which never overflows, in a new array."""
    out = np.abs(u, dtype=np.float64)
    np.negative(out, out=out)
    return np.exp(out, out=out)


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
