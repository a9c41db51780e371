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
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack
from threadpoolctl import ThreadpoolController

from suquan._blocks import on_threads, row_blocks

Array = NDArray[Any]
# An array, or None where the fit or design has none; callers that know which need not narrow it.
MaybeArray = Any

# Means, in units of a column's spread, from which the columns are centred before products and not after.
_LARGE_OFFSET = 30.0
# Pieces of work that a product is handed out in, at most: two threads end at about the same time.
_N_GROUPS = 4
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


def _groups(n_rows: int, n_columns: int) -> list[list[slice]]:
    """Blocks of rows in four groups, one piece of work each: a block alone is too little to hand out."""
    blocks = list(row_blocks(n_rows, n_columns))
    size = max(1, -(-len(blocks) // _N_GROUPS))
    return [blocks[k : k + size] for k in range(0, len(blocks), size)]


def for_blocks(work: Callable[[slice], Any], shape: tuple[int, int], n_vectors: int) -> None:
    """Do the work of every block of rows of a matrix of that shape, which is multiplied with some vectors."""

    def work_on(group: list[slice]) -> None:
        for rows in group:
            work(rows)

    list(on_threads(work_on, _groups(*shape), n_threads(shape[0] * shape[1] * n_vectors)))


def sum_blocks(
    add: Callable[[slice, Array], Any], shape: tuple[int, int], out: tuple[int, int], n_vectors: int
) -> Array:
    """Sum, of shape `out`, of what ``add(rows, total)`` adds for the blocks of rows of a matrix."""

    def sum_of(group: list[slice]) -> Array:
        total = np.zeros(out)
        for rows in group:
            add(rows, total)
        return total

    threads = n_threads(shape[0] * shape[1] * n_vectors)
    return sum(on_threads(sum_of, _groups(*shape), threads), np.zeros(out))


def row_products(A: Array, V: Array, dtype: Any = np.float64) -> Array:
    """V Aᵀ computed in `dtype`, of shape (n_vectors, n_samples).

    Parameters
    ----------
    A : ndarray of shape (n_samples, n_features)
    V : ndarray of shape (n_vectors, n_features)
    dtype : type, default=np.float64
    """
    columns = _columns(V, dtype)
    out = np.empty((len(A), columns.shape[1]), dtype)

    def write(rows: slice) -> None:
        np.matmul(A[rows].astype(dtype, copy=False), columns, out=out[rows])

    for_blocks(write, A.shape, len(V))
    return out.T[: len(V)]


def _columns(V: Array, dtype: Any) -> Array:
    """The rows of V as columns, and zeros: with 15 vectors BLAS is slower than with 16."""
    columns = np.zeros((V.shape[1], len(V) if len(V) < 4 else -(-len(V) // 4) * 4), dtype)
    columns[:, : len(V)] = V.T
    return columns


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
    if n_samples <= n_features:
        out = np.empty((len(R), n_features))

        def write(columns: slice) -> None:
            out[:, columns] = R @ A[:, columns].astype(dtype, copy=False)

        for_blocks(write, A.shape[::-1], len(R))
        return out

    def add(rows: slice, total: Array) -> None:
        total += R[:, rows] @ A[rows].astype(dtype, copy=False)

    return sum_blocks(add, A.shape, (len(R), n_features), len(R))


def column_moments(A: Array) -> tuple[Array, Array]:
    """Sums of the columns of A and of their squares, each of shape (n_features,)."""

    def add(rows: slice, total: Array) -> None:
        block = A[rows].astype(np.float64, copy=False)
        total[0] += block.sum(axis=0)
        total[1] += np.einsum("ij,ij->j", block, block)

    sums, squares = sum_blocks(add, A.shape, (2, A.shape[1]), 1)
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
        return row_products(self.A, theta[:, :-1], dtype) + self._shifts(theta, dtype)[:, None]

    def _shifts(self, theta: Array, dtype: Any) -> Array:
        """What the scores have beyond products with A, for every row of theta."""
        shifts = (theta[:, -1] - theta[:, :-1] @ self.means) * self.fit_intercept
        return shifts.astype(dtype)

    def adjoint(self, R: Array, dtype: Any = np.float64) -> Array:
        """Adjoint of :meth:`scores` at the rows of R, of shape (n_vectors, n_features + 1)."""
        return self._with_sums(column_products(self.A, R, dtype), R.sum(axis=1, dtype=np.float64))

    def curved(self, theta: Array, C: Array) -> Array:
        """Ãᵀ diag(c) Ã v for the design Ã and every row v of theta and c of C, in one pass in the type of A.

        Parameters
        ----------
        theta : ndarray of shape (n_vectors, n_features + 1)
        C : ndarray of shape (n_vectors, n_samples)

        Returns
        -------
        ndarray of shape (n_vectors, n_features + 1)
        """
        n_vectors, dtype = len(theta), self.A.dtype
        columns, shifts = _columns(theta[:, :-1], dtype), self._shifts(theta, dtype)

        def add(rows: slice, total: Array) -> None:
            A = self.A[rows]
            changes = A @ columns
            changes[:, :n_vectors] += shifts
            changes[:, :n_vectors] *= C[:, rows].T
            total[:-1] += A.T @ changes
            total[-1] += changes.sum(axis=0, dtype=np.float64)

        shape = len(columns) + 1, columns.shape[1]
        both = sum_blocks(add, self.A.shape, shape, n_vectors).T[:n_vectors]
        return self._with_sums(both[:, :-1], both[:, -1])

    def _with_sums(self, products: Array, sums: Array) -> Array:
        """Adjoint of the centred design, from products with A and sums over the samples."""
        sums = sums[:, None] * self.fit_intercept
        return np.hstack([products - sums * self.means, sums])

    def squares(self, d: Array) -> Array:
        """Ãᵀ diag(d) Ã for the design Ã and d ≥ 0, of shape (n_features + 1, n_features + 1), in float64.

        Products are computed in the type of A. Without an intercept the last entry of the diagonal is 1.
        """
        n_features = self.A.shape[1]
        root = np.sqrt(d).astype(self.A.dtype)
        H = np.zeros((n_features + 1, n_features + 1))
        # Blocks with as many rows as columns: a product then costs more than adding it up.
        step = max(n_features, 512)
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
