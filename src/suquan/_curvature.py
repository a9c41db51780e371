"""Hessians of losses in their scores, as products and diagonals: losses make them, solvers ask them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

# Largest change of a score in a difference of gradients.
_STEP = 1e-4


class Curvature(Protocol):
    """Hessian H of a weighted loss in its n_scores scores, positive semidefinite.

    Vectors x have shape (n_scores,) or (n_scores, n_columns), the outputs of a sample side by side. Products
    have the type of x.
    """

    def product(self, x: Array) -> Array:
        """H x."""

    def diagonal(self) -> Array:
        """Diagonal of H, of shape (n_scores,)."""


@dataclass(frozen=True)
class DiagonalCurvature:
    """H = diag(d), of losses with one score per sample."""

    d: Array

    def product(self, x: Array) -> Array:
        """D x."""
        return _rows(self.d, x) * x

    def diagonal(self) -> Array:
        """The vector d."""
        return self.d


@dataclass(frozen=True)
class SoftmaxCurvature:
    """H = s_i (diag(π_i) − π_i π_iᵀ) for every sample i, with π and s."""

    probabilities: Array
    s: Array

    def product(self, x: Array) -> Array:
        """H x."""
        p = self.probabilities[:, :, None].astype(x.dtype, copy=False)
        rows = x.reshape(*self.probabilities.shape, -1)
        weighted = p * self.s[:, None, None].astype(x.dtype, copy=False)
        return (weighted * (rows - np.sum(p * rows, axis=1, keepdims=True))).reshape(x.shape)

    def diagonal(self) -> Array:
        """s π (1 − π)."""
        p = self.probabilities
        return (self.s[:, None] * p * (1.0 - p)).ravel()


@dataclass(frozen=True)
class DifferenceCurvature:
    """Hessian whose products are differences of gradients, with about its diagonal d.

    Attributes
    ----------
    gradient : callable
        Of the scores.
    u, d : ndarray of shape (n_scores,)
    """

    gradient: Callable[[Array], Array]
    u: Array
    d: Array

    def product(self, x: Array) -> Array:
        """(∇L(u + t x) − ∇L(u − t x)) / 2t, for every column of x."""
        columns = x.reshape(len(self.u), -1).astype(np.float64)
        out = np.empty_like(columns)
        for column, change in zip(columns.T, out.T, strict=True):
            t = _STEP / max(float(np.abs(column).max(initial=0.0)), 1e-300)
            at = self.u + t * column, self.u - t * column
            change[:] = (self.gradient(at[0]) - self.gradient(at[1])) / (2.0 * t)
        return out.reshape(x.shape).astype(x.dtype, copy=False)

    def diagonal(self) -> Array:
        """The vector d."""
        return self.d


def damped_hessian(loss: Any, y: Array, u: Array, s: Array, damping: float) -> Curvature:
    """Hessian at u, at least `damping` times the secant's slope where the loss tells it."""
    hessian = loss.hessian(y, u, s)
    if not hasattr(loss, "secant"):
        return hessian
    return DiagonalCurvature(np.maximum(hessian.diagonal(), damping * loss.secant(y, u, s)))


def _rows(d: Array, x: Array) -> Array:
    """d in the type of x, to multiply its rows."""
    d = d.astype(x.dtype, copy=False)
    return d[:, None] if x.ndim == 2 else d
