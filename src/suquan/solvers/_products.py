"""Linear algebra of the solvers: threads, products of a design with a few vectors, Cholesky factors.

The w-step and the f-step call :func:`row_products` and :func:`column_products`; :class:`CentredDesign` serves
Newton's method in the features' dimensions. Blocks depend on the shape alone, so that the numbers are the
same at any number of threads. A float32 design is made float64 block by block where products must be
accurate.

BLAS has one thread while a solver runs, and blocks of large products go to our own: NumPy and SciPy may each
bring a BLAS, whose threads wait for work in a loop for some 30 ms and take the processors from each other.
Every public function of the solvers is called inside :func:`one_blas_thread`.
"""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack
from threadpoolctl import ThreadpoolController

from suquan._blocks import on_threads

Array = NDArray[Any]
# An array, or None where the fit or design has none; callers that know which need not narrow it.
MaybeArray = Any

# Entries of the design in a block: 2 MB in float64, so that a block and its copy stay in a processor's cache.
_BLOCK_ENTRIES = 1 << 18
# Means, in units of a column's spread, from which the columns are centred before products and not after.
_LARGE_OFFSET = 30.0
# Multiplications that take one thread as long as handing out work to others.
_FEW_MULTIPLICATIONS = 4_000_000


class _Limit:
    """The one call at a time that holds BLAS to one thread, and how many threads BLAS had before."""

    def __init__(self) -> None:
        self.held = threading.Lock()
        self.n_before = 0


_limit = _Limit()
# A forked process has none of the threads that may hold the lock.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_limit.__init__)  # type: ignore[misc]


@cache
def blas() -> ThreadpoolController:
    """The BLAS libraries of this process; looking for them takes 0.5 ms."""
    return ThreadpoolController().select(user_api="blas")


def _n_blas_threads() -> int:
    return max((library["num_threads"] for library in blas().info()), default=1)


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """One BLAS thread until the outermost call ends; calls inside or beside it do nothing."""
    if not _limit.held.acquire(blocking=False):
        yield
        return
    try:
        _limit.n_before = _n_blas_threads()
        with blas().limit(limits=1):
            yield
    finally:
        _limit.n_before = 0
        _limit.held.release()


def n_threads(n_multiplications: int) -> int:
    """As many threads as BLAS has, or had before :func:`one_blas_thread`, unless the work is small."""
    if n_multiplications < _FEW_MULTIPLICATIONS:
        return 1
    return _limit.n_before or _n_blas_threads()


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
    # With 15 vectors BLAS is slower than with 16.
    n_vectors = len(V) if len(V) < 4 else -(-len(V) // 4) * 4
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

    Attributes
    ----------
    largest_square : float
        Features up to which there is room for a matrix of all pairs.
    """

    largest_square = np.inf

    def __init__(self, A: Array, means: Array, fit_intercept: bool, explicit: bool = False):
        self.offset = means  # what b must give back: u = A w + b − offset·w
        self.A: Array = A - means.astype(A.dtype) if explicit else A
        self.n_features, self.dtype = A.shape[1], A.dtype
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


def as_floats(A: Array) -> Array:
    """A, C-contiguous and of floats; not copied where it is already."""
    A = np.ascontiguousarray(A)
    return A if A.dtype in (np.float32, np.float64) else A.astype(np.float64)


def cholesky(H: Array) -> Array:
    """Lower factor of the symmetric H, with as little added to the diagonal as makes it definite.

    H is C-contiguous, float32 or float64, and is overwritten.
    """
    potrf = lapack.spotrf if H.dtype == np.float32 else lapack.dpotrf
    diagonal = np.diagonal(H).copy()
    jitter = 45.0 * float(np.finfo(H.dtype).eps) * max(float(diagonal.mean()), 1e-300)
    # H.T is Fortran-ordered: no copy. What lies above the diagonal of H.T stays, for another try.
    factor, info = potrf(H.T, lower=1, clean=0, overwrite_a=1)
    while info > 0 and np.isfinite(jitter):
        again = np.triu(factor, 1)
        again += again.T
        np.fill_diagonal(again, diagonal + jitter)
        factor, info = potrf(again.T, lower=1, clean=0, overwrite_a=1)
        jitter *= 100.0
    return factor


def cholesky_solve(factor: Array, columns: Array) -> Array:
    """H⁻¹ columns, from :func:`cholesky` of H, in the type of the factor."""
    potrs = lapack.spotrs if factor.dtype == np.float32 else lapack.dpotrs
    return potrs(factor, columns, lower=1)[0]


def cholesky_inverse(factor: Array) -> Array:
    """H⁻¹, from :func:`cholesky` of H in float64."""
    inverse = lapack.dpotri(factor, lower=1)[0]
    inverse = np.tril(inverse)
    inverse += np.tril(inverse, -1).T
    return inverse
