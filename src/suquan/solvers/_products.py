"""Products of a design with a few vectors, shared by threads."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from suquan._blocks import on_threads
from suquan._kernels import products
from suquan.solvers._algebra import Array
from suquan.solvers._threads import n_threads, share

# Parts of the rows that BLAS multiplies, or whose sums are added up: cut in the same way at any number of
# threads, so that the numbers are the same.
_N_PARTS = 4


def row_products(A: Array, V: Array) -> Array:
    """V Aᵀ accumulated in float64, shape (len(V), n_samples)."""
    if A.dtype == np.float64:
        return V @ A.T
    out = np.empty((len(V), len(A)))
    if len(V) > products.FEW:
        for group, W in _groups(V, np.float64):
            _write_rows(products.write_row_products_in_lanes, A, W, out[group])
    else:
        _write_rows(products.write_row_products, A, np.ascontiguousarray(V), out)
    return out


def _write_rows(kernel: Callable[..., None], A: Array, V: Array, out: Array) -> None:
    """Share the rows of A out to threads."""
    work = A.size * len(out)
    parts = _parts(len(A), n_threads(work))
    share(lambda rows: kernel(A, V, rows.start, rows.stop, out), parts, work)


def _groups(V: Array, dtype: Any) -> Iterator[tuple[slice, Array]]:
    """Rows of V in sixteens, and each of these in columns, in the type that kernels take."""
    for first in range(0, len(V), products.LANES):
        group = slice(first, first + products.LANES)
        yield group, _in_lanes(V[group], dtype)


def column_products(A: Array, R: Array) -> Array:
    """R A accumulated in float64, shape (len(R), n_features)."""
    if A.dtype == np.float64:
        return R @ A
    out = np.zeros((len(R), A.shape[1]))
    add_column_products(A, R, out)
    return out


def add_column_products(A: Array, R: Array, out: Array) -> None:
    """Add R A, accumulated in float64, to `out`."""
    if A.dtype == np.float64:
        out += R @ A
        return

    def add(columns: slice) -> None:
        products.add_column_products(A, R, columns.start, columns.stop, out)

    share(add, _parts(A.shape[1], n_threads(A.size * len(R))), A.size * len(R))


def hessian_products(A: Array, V: Array, shift: Array, C: Array) -> tuple[Array, Array]:
    """Aᵀ diag(c) (A v + shift) for every row v of V and c of C, and the sums of diag(c) (A v + shift).

    Computed in the type of A; parts are cut and added in the same way at any number of threads.
    """
    if len(V) <= products.FEW:
        return _add_parts(_few_hessian_products(A, V, shift, C), A, len(V))
    groups = [
        _add_parts(_many_hessian_products(A, W, shift[group], C[group]), A, len(C[group]))
        for group, W in _groups(V, A.dtype)
    ]
    return np.concatenate([out for out, _ in groups]), np.concatenate([sums for _, sums in groups])


def _add_parts(
    part: Callable[[slice], tuple[Array, Array]], A: Array, n_vectors: int
) -> tuple[Array, Array]:
    """Sums of both results over parts of the rows of A."""
    out, sums = np.zeros((n_vectors, A.shape[1])), np.zeros(n_vectors)
    rows = _parts(len(A), _N_PARTS)
    for products_of_part, sums_of_part in on_threads(part, rows, n_threads(A.size * n_vectors)):
        out += products_of_part
        sums += sums_of_part
    return out, sums


def _few_hessian_products(A: Array, V: Array, shift: Array, C: Array) -> Callable:
    """Function of a part of the rows that gives its :func:`hessian_products`, by BLAS."""
    V, shift = V.astype(A.dtype), shift.astype(A.dtype)

    def part(rows: slice) -> tuple[Array, Array]:
        factors = A[rows] @ V.T
        factors += shift
        factors *= C[:, rows].T
        return factors.T @ A[rows], factors.sum(axis=0, dtype=np.float64)

    return part


def _many_hessian_products(A: Array, W: Array, shift: Array, C: Array) -> Callable:
    """The same for up to sixteen vectors, the columns of W."""
    n_vectors, n_features = len(C), A.shape[1]
    lanes = _in_lanes(shift[:, None], A.dtype)[0]
    n_padded = -(-n_features // products.DEPTH) * products.DEPTH

    def part(rows: slice) -> tuple[Array, Array]:
        out, sums = np.zeros((n_padded, products.LANES), A.dtype), np.zeros_like(lanes)
        products.add_hessian_products(A, W, lanes, C, rows.start, rows.stop, out, sums)
        return out[:n_features, :n_vectors].T, sums[:n_vectors]

    return part


def _in_lanes(V: Array, dtype: Any) -> Array:
    """The rows of V as columns, in the type and number that kernels take."""
    lanes = np.zeros((V.shape[1], products.LANES), dtype)
    lanes[:, : len(V)] = V.T
    return lanes


def _parts(size: int, n_parts: int) -> list[slice]:
    """About equal slices that begin at multiples of what the kernels take at a time."""
    step = max(-(-size // n_parts), 1)
    step = -(-step // products.N_ROWS) * products.N_ROWS
    return [slice(start, min(start + step, size)) for start in range(0, size, step)]


def fast_row_products(A: Array, V: Array) -> Array:
    """V Aᵀ in the type of A, shape (len(V), n_samples)."""
    V = _padded(V, A.dtype)
    out = np.empty((len(A), len(V)), A.dtype)

    def write(rows: slice) -> None:
        np.matmul(A[rows], V.T, out=out[rows])

    share(write, _parts(len(A), _N_PARTS), A.size * len(V))
    return out.T


def fast_column_products(A: Array, R: Array) -> Array:
    """R A in the type of A, shape (len(R), n_features)."""
    R = _padded(R, A.dtype)
    out = np.zeros((len(R), A.shape[1]), A.dtype)
    parts = _parts(len(A), _N_PARTS)
    for product in on_threads(lambda rows: R[:, rows] @ A[rows], parts, n_threads(A.size * len(R))):
        out += product
    return out


def _padded(V: Array, dtype: Any) -> Array:
    """V in `dtype`, with rows of zeros up to a multiple of 4: with 15 vectors products are slower."""
    n_rows = len(V) if len(V) < 4 else -(-len(V) // 4) * 4
    if n_rows == len(V):
        return V.astype(dtype, copy=False)
    padded = np.zeros((n_rows, V.shape[1]), dtype)
    padded[: len(V)] = V
    return padded


def column_means(A: Array) -> Array:
    """Mean of each column of A, accumulated in float64."""
    return column_products(A, np.full((1, len(A)), 1.0 / len(A)))[0]
