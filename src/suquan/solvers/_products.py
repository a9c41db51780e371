"""Products of a design with a few vectors, by BLAS over blocks that threads share.

The w-step and the f-step call :func:`row_products` and :func:`column_products`; :class:`CentredDesign` serves
Newton's method in the features' dimensions. Blocks depend on the shape alone, so that the numbers are the
same at any number of threads. A float32 design is made float64 block by block where products must be
accurate.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from suquan._blocks import on_threads
from suquan.solvers._algebra import Array
from suquan.solvers._threads import n_threads

# Entries of the design in a block: 2 MB in float64, so that a block and its copy stay in a processor's cache.
_BLOCK_ENTRIES = 1 << 18
# Means, in units of a column's spread, from which the columns are centred before products and not after.
_LARGE_OFFSET = 30.0


def slices(size: int, other_side: int) -> list[slice]:
    """Consecutive slices of one side of a matrix, each of about 2¹⁸ of its entries."""
    step = max(1, _BLOCK_ENTRIES // max(other_side, 1))
    return [slice(start, min(start + step, size)) for start in range(0, size, step)]


def row_products(A: Array, V: Array, dtype: Any = np.float64) -> Array:
    """V Aᵀ computed in `dtype`, of shape (n_vectors, n_samples).

    Parameters
    ----------
    A : ndarray of shape (n_samples, n_features)
    V : ndarray of shape (n_vectors, n_features)
    dtype : type, default=np.float64
    """
    n_vectors = (
        len(V) if len(V) < 4 else -(-len(V) // 4) * 4
    )  # with 15 vectors BLAS is slower than with 16
    columns = np.zeros((V.shape[1], n_vectors), dtype)
    columns[:, : len(V)] = V.T
    out = np.empty((len(A), n_vectors), dtype)

    def write(rows: slice) -> None:
        np.matmul(A[rows].astype(dtype, copy=False), columns, out=out[rows])

    for _ in on_threads(write, slices(*A.shape), n_threads(A.size * len(V))):
        pass
    return out.T[: len(V)]


def column_products(A: Array, R: Array, dtype: Any = np.float64) -> Array:
    """R A with products in `dtype` and sums over blocks in float64, of shape (n_vectors, n_features).

    Parameters
    ----------
    A : ndarray of shape (n_samples, n_features)
    R : ndarray of shape (n_vectors, n_samples)
    dtype : type, default=np.float64
    """
    R = np.asarray(R, dtype=dtype)
    n_samples, n_features = A.shape
    threads = n_threads(A.size * len(R))
    out = np.zeros((len(R), n_features))
    if n_samples <= n_features:

        def write(columns: slice) -> None:
            out[:, columns] = R @ A[:, columns].astype(dtype, copy=False)

        for _ in on_threads(write, slices(n_features, n_samples), threads):
            pass
        return out

    def part(rows: slice) -> Array:
        return R[:, rows] @ A[rows].astype(dtype, copy=False)

    for product in on_threads(part, slices(*A.shape), threads):
        out += product
    return out


def column_moments(A: Array) -> tuple[Array, Array]:
    """Sums of the columns of A and of their squares, each of shape (n_features,)."""

    def part(rows: slice) -> tuple[Array, Array]:
        block = A[rows].astype(np.float64, copy=False)
        return block.sum(axis=0), np.einsum("ij,ij->j", block, block)

    sums, squares = np.zeros(A.shape[1]), np.zeros(A.shape[1])
    for of_block, squares_of_block in on_threads(part, slices(*A.shape), n_threads(A.size)):
        sums += of_block
        squares += squares_of_block
    return sums, squares


class CentredDesign:
    """Products with [A − 1 meansᵀ, 1], whose last coefficient is the intercept; never formed.

    Parameters
    ----------
    A : ndarray of shape (n_samples, n_features), float32 or float64
    means : ndarray of shape (n_features,)
        Of the columns; zeros without an intercept.
    fit_intercept : bool
    explicit : bool, default=False
        Whether the means are subtracted from a copy of A and not from its products.
    """

    def __init__(self, A: Array, means: Array, fit_intercept: bool, explicit: bool = False):
        self.offset = means  # what b must give back: u = A w + b − offset·w
        self.A: Array = A - means.astype(A.dtype) if explicit else A
        self.means = np.zeros_like(means) if explicit else means
        self.fit_intercept = fit_intercept

    def scores(self, theta: Array, dtype: Any = np.float64) -> Array:
        """Scores of every row of theta, of shape (n_vectors, n_samples)."""
        products = row_products(self.A, theta[:, :-1], dtype)
        if self.fit_intercept:
            products += (theta[:, -1] - theta[:, :-1] @ self.means).astype(dtype)[:, None]
        return products

    def adjoint(self, R: Array, dtype: Any = np.float64) -> Array:
        """Adjoint of :meth:`scores` at the rows of R, of shape (n_vectors, n_features + 1)."""
        out = np.zeros((len(R), self.A.shape[1] + 1))
        out[:, :-1] = column_products(self.A, R, dtype)
        if self.fit_intercept:
            out[:, -1] = R.sum(axis=1, dtype=np.float64)
            out[:, :-1] -= out[:, -1:] * self.means
        return out

    def squares(self, d: Array) -> Array:
        """Ãᵀ diag(d) Ã for the design Ã and d ≥ 0, of shape (n_features + 1, n_features + 1), in float64.

        Products are computed in the type of A. Without an intercept the last entry of the diagonal is 1.
        """
        n_features = self.A.shape[1]
        root = np.sqrt(d).astype(self.A.dtype)
        H = np.zeros((n_features + 1, n_features + 1))
        # Blocks with as many rows as columns: a product then costs more than adding it up.
        step = max(n_features, _BLOCK_ENTRIES // n_features)
        blocks = [slice(k, k + step) for k in range(0, len(self.A), step)]

        def part(rows: slice) -> Array:
            weighted = self.A[rows] * root[rows, None]
            return weighted.T @ weighted

        for product in on_threads(part, blocks, n_threads(self.A.size * n_features)):
            H[:-1, :-1] += product
        if not self.fit_intercept:
            H[-1, -1] = 1.0
            return H
        total, sums = d.sum(), column_products(self.A, d[None])[0]
        cross = sums - total * self.means
        H[:-1, :-1] -= np.outer(self.means, cross)
        H[:-1, :-1] -= np.outer(sums, self.means)
        H[-1, :-1] = H[:-1, -1] = cross
        H[-1, -1] = total
        return H


def centred_design(A: Array, fit_intercept: bool) -> tuple[CentredDesign, float]:
    """The design A with centred columns, and the mean square of its entries."""
    sums, squares = column_moments(A)
    means, spread, explicit = centring(sums, squares, len(A), fit_intercept)
    return CentredDesign(A, means, fit_intercept, explicit), spread


def centring(
    sums: Array, squares: Array, n_samples: int, fit_intercept: bool
) -> tuple[Array, float, bool]:
    """Means, mean square of the centred entries, and whether offsets are too large to centre products."""
    means, spread = sums / n_samples, squares / n_samples
    if not fit_intercept:
        return np.zeros_like(means), float(spread.mean()), False
    spread = np.maximum(spread - means**2, 0.0)
    explicit = bool(np.any(np.abs(means) > _LARGE_OFFSET * np.sqrt(spread) + 1e-30))
    return means, float(spread.mean()), explicit
