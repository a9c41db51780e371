"""Linear algebra of the solvers: threads, products of a design with a few vectors, Gram matrices.

The ridge solver calls these. Blocks depend on the shape alone, so that the numbers are the same at any number
of threads. A float32 design is made float64 block by block where products must be accurate.

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
from scipy.linalg import cho_factor
from threadpoolctl import ThreadpoolController

from suquan._blocks import on_threads, row_blocks

Array = NDArray[Any]
# An array, or None where the fit or design has none; callers that know which need not narrow it.
MaybeArray = Any

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


def gram_matrix(A: Array) -> Array:
    """A Aᵀ in float64, summed over blocks of columns."""
    n_samples, n_features = A.shape

    def part(columns: slice) -> Array:
        block = np.ascontiguousarray(A[:, columns], np.float64)
        return block @ block.T

    # Blocks with at least as many columns as rows: a product then costs more than adding it up.
    width = max(n_samples, 512)
    blocks = [slice(k, k + width) for k in range(0, n_features, width)]
    G = np.zeros((n_samples, n_samples))
    for product in on_threads(part, blocks, n_threads(A.size * n_samples)):
        G += product
    return G


def second_moments(A: Array, weights: Array) -> Array:
    """Aᵀ diag(weights) A in float64, with products in the type of A; weights ≥ 0."""
    n_features = A.shape[1]
    root = np.sqrt(weights).astype(A.dtype)

    def part(rows: slice) -> Array:
        weighted = A[rows] * root[rows, None]
        return weighted.T @ weighted

    # Blocks with at least as many rows as columns: a product then costs more than adding it up.
    step = max(n_features, 512)
    blocks = [slice(k, k + step) for k in range(0, len(A), step)]
    total = np.zeros((n_features, n_features))
    for product in on_threads(part, blocks, n_threads(A.size * n_features)):
        total += product
    return total


def as_floats(A: Array) -> Array:
    """A, C-contiguous and of floats; not copied where it is already."""
    A = np.ascontiguousarray(A)
    return A if A.dtype in (np.float32, np.float64) else A.astype(np.float64)


def cholesky(H: Array) -> tuple[Array, bool]:
    """Factor of H for SciPy's `cho_solve`, with as little added to its diagonal as makes it definite."""
    jitter = 0.0
    while True:
        try:
            return cho_factor(H + jitter * np.eye(len(H), dtype=H.dtype), lower=True)
        except np.linalg.LinAlgError:
            least = 45.0 * float(np.finfo(H.dtype).eps) * max(float(np.diagonal(H).mean()), 1e-300)
            jitter = max(100.0 * jitter, least)
