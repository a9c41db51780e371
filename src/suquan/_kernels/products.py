"""Compiled products of a design with a few vectors.

Row and column products accumulate in float64, whatever the type of the design. Up to four vectors meet four of
the design's rows at a time; more are taken in sixteens, see :mod:`suquan._kernels.outer`, and meet a tile of
the design that is made float64 before. A call computes part of the rows, or of the columns, of the result:
however it is cut, every entry is the same sum, in the same order.

Products with Hessians are for many vectors, and are computed in the type of the design.
"""

from __future__ import annotations

import numpy as np

from suquan._kernels._jit import kernel, pointer_to, summing_kernel, widen_vectors
from suquan._kernels.outer import DEPTH, LANES, add_outer

# Rows of the design that all vectors meet before the next ones are read.
N_ROWS = 64
# Vectors that are taken four by four.
FEW = 4
# Rows and columns of a tile in float64, and the distance of its rows: no power of two, so that entries of one
# column do not drive each other from the cache.
_TILE_ROWS, _TILE_COLUMNS = 32, 512
_TILE_PITCH = _TILE_COLUMNS + DEPTH


@summing_kernel
def write_row_products(A, V, first, last, out):
    """Write the columns `first` to `last` of V Aᵀ to those of `out`, for up to four vectors.

    Parameters
    ----------
    A : ndarray of shape (n_samples, n_features), C-contiguous
    V : float64 ndarray of shape (n_vectors, n_features), C-contiguous
    first, last : int
        Rows of A.
    out : float64 ndarray of shape (n_vectors, n_samples)
    """
    for start in range(first, last, N_ROWS):
        stop = min(start + N_ROWS, last)
        if len(V) == 1:
            _one_dots(A[start:stop], V[0], out[0, start:stop])
        else:
            _four_dots(A[start:stop], V, out[:, start:stop])


@kernel
def write_row_products_in_lanes(A, W, first, last, out):
    """What :func:`write_row_products` does, for up to sixteen vectors.

    Parameters
    ----------
    A, first, last, out
        As there.
    W : float64 ndarray of shape (n_features, LANES)
        The vectors, in columns.
    """
    tile = np.zeros((DEPTH, _TILE_PITCH))
    scores = np.empty((DEPTH, LANES))
    for start in range(first, last, DEPTH):
        n_rows = min(DEPTH, last - start)
        scores[:] = 0.0
        for j in range(0, A.shape[1], _TILE_COLUMNS):
            width = _copy_tile(A, start, n_rows, j, A.shape[1], tile)
            vectors = pointer_to(W, j * LANES)
            add_outer(pointer_to(tile, 0), _TILE_PITCH, 1, width, vectors, pointer_to(scores, 0))
        for c in range(len(out)):
            for i in range(n_rows):
                out[c, start + i] = scores[i, c]


@summing_kernel
def _copy_tile(A, start, n_rows, first, last, tile):
    """Copy rows from `start` on and, as far as there is room, columns from `first` on; returns how many."""
    width = min(_TILE_COLUMNS, last - first)
    for i in range(n_rows):
        row, goal = A[start + i][first : first + width], tile[i][:width]
        for j in range(row.size):
            goal[j] = row[j]
    return width


@summing_kernel
def _one_dots(A, v, out):
    """Products of the rows with one vector."""
    widen_vectors()
    last = len(A) - 1
    for i in range(0, len(A), 4):
        i1, i2, i3 = min(i + 1, last), min(i + 2, last), min(i + 3, last)
        a0, a1, a2, a3 = A[i], A[i1], A[i2], A[i3]
        t0, t1, t2, t3 = 0.0, 0.0, 0.0, 0.0
        for j in range(v.size):
            t0 += a0[j] * v[j]
            t1 += a1[j] * v[j]
            t2 += a2[j] * v[j]
            t3 += a3[j] * v[j]
        out[i], out[i1], out[i2], out[i3] = t0, t1, t2, t3


@summing_kernel
def _four_dots(A, V, out):
    """Products of the rows with two to four vectors."""
    widen_vectors()
    last, last_vector = len(A) - 1, len(V) - 1
    c2, c3 = min(2, last_vector), last_vector
    v0, v1, v2, v3 = V[0], V[1], V[c2], V[c3]
    for i in range(0, len(A), 4):
        i1, i2, i3 = min(i + 1, last), min(i + 2, last), min(i + 3, last)
        a0, a1, a2, a3 = A[i], A[i1], A[i2], A[i3]
        t00, t01, t02, t03 = 0.0, 0.0, 0.0, 0.0
        t10, t11, t12, t13 = 0.0, 0.0, 0.0, 0.0
        t20, t21, t22, t23 = 0.0, 0.0, 0.0, 0.0
        t30, t31, t32, t33 = 0.0, 0.0, 0.0, 0.0
        for j in range(v0.size):
            x0, x1, x2, x3 = v0[j], v1[j], v2[j], v3[j]
            a = a0[j]
            t00 += a * x0
            t01 += a * x1
            t02 += a * x2
            t03 += a * x3
            a = a1[j]
            t10 += a * x0
            t11 += a * x1
            t12 += a * x2
            t13 += a * x3
            a = a2[j]
            t20 += a * x0
            t21 += a * x1
            t22 += a * x2
            t23 += a * x3
            a = a3[j]
            t30 += a * x0
            t31 += a * x1
            t32 += a * x2
            t33 += a * x3
        out[c3, i], out[c3, i1], out[c3, i2], out[c3, i3] = t03, t13, t23, t33
        out[c2, i], out[c2, i1], out[c2, i2], out[c2, i3] = t02, t12, t22, t32
        out[1, i], out[1, i1], out[1, i2], out[1, i3] = t01, t11, t21, t31
        out[0, i], out[0, i1], out[0, i2], out[0, i3] = t00, t10, t20, t30


@summing_kernel
def add_column_products(A, R, first, last, out):
    """Add the columns `first` to `last` of R A to those of `out`.

    Parameters
    ----------
    A : ndarray of shape (n_samples, n_features), C-contiguous
    R : float64 ndarray of shape (n_vectors, n_samples)
    first, last : int
        Columns of A.
    out : float64 ndarray of shape (n_vectors, n_features), C-contiguous
    """
    if len(R) > FEW:
        for c in range(0, len(R), LANES):
            _add_lanes(A, R[c : c + LANES], first, last, out[c : c + LANES])
        return
    spare = np.zeros((4, A.shape[1])) if 1 < len(R) < 4 else out
    if 1 < len(R) < 4:
        spare[: len(R), first:last] = out[:, first:last]
    for start in range(0, len(A), N_ROWS):
        rows, weights = A[start : start + N_ROWS], R[:, start : start + N_ROWS]
        if len(R) == 1:
            _add_one(rows, weights[0], first, out[0][first:last])
        else:
            _add_four(rows, weights, first, last, spare)
    if 1 < len(R) < 4:
        out[:, first:last] = spare[: len(R), first:last]


@kernel
def _add_lanes(A, R, first, last, out):
    """Add the columns `first` to `last` of the products with up to sixteen vectors."""
    tile, weights = np.zeros((_TILE_ROWS, _TILE_PITCH)), np.empty((_TILE_ROWS, LANES))
    sums = np.zeros((last - first + DEPTH, LANES))
    sums[: last - first, : len(R)] = out[:, first:last].T
    for start in range(0, len(A), _TILE_ROWS):
        n_rows = min(_TILE_ROWS, len(A) - start)
        weights[:] = 0.0
        for c in range(len(R)):
            for i in range(n_rows):
                weights[i, c] = R[c, start + i]
        for j in range(first, last, _TILE_COLUMNS):
            width = _copy_tile(A, start, n_rows, j, last, tile)
            for k in range(
                0, width, DEPTH
            ):  # the last columns of a narrow tile are old, and go to spare sums
                goal = pointer_to(sums, (j - first + k) * LANES)
                add_outer(pointer_to(tile, k), 1, _TILE_PITCH, n_rows, pointer_to(weights, 0), goal)
    out[:, first:last] = sums[: last - first, : len(R)].T


@summing_kernel
def _add_one(A, weights, first, total):
    """Add the weighted rows, from column `first` on, to `total`."""
    widen_vectors()
    last = first + total.size
    in_fours = len(A) - len(A) % 4
    for i in range(0, in_fours, 4):
        a0, a1 = A[i][first:last], A[i + 1][first:last]
        a2, a3 = A[i + 2][first:last], A[i + 3][first:last]
        r0, r1, r2, r3 = weights[i], weights[i + 1], weights[i + 2], weights[i + 3]
        for j in range(total.size):
            total[j] += r0 * a0[j] + r1 * a1[j] + r2 * a2[j] + r3 * a3[j]
    for i in range(in_fours, len(A)):
        row, weight = A[i][first:last], weights[i]
        for j in range(total.size):
            total[j] += weight * row[j]


@summing_kernel
def _add_four(A, weights, first, last, total):
    """Add the rows with two to four sets of weights to as many of the four rows of `total`, in some columns."""
    widen_vectors()
    last_set = len(weights) - 1
    w0, w1, w2, w3 = weights[0], weights[1], weights[min(2, last_set)], weights[last_set]
    s0, s1 = total[0][first:last], total[1][first:last]
    s2, s3 = total[2][first:last], total[3][first:last]
    in_fours = len(A) - len(A) % 4
    for i in range(0, in_fours, 4):
        a0, a1 = A[i][first:last], A[i + 1][first:last]
        a2, a3 = A[i + 2][first:last], A[i + 3][first:last]
        w00, w01, w02, w03 = w0[i], w0[i + 1], w0[i + 2], w0[i + 3]
        w10, w11, w12, w13 = w1[i], w1[i + 1], w1[i + 2], w1[i + 3]
        w20, w21, w22, w23 = w2[i], w2[i + 1], w2[i + 2], w2[i + 3]
        w30, w31, w32, w33 = w3[i], w3[i + 1], w3[i + 2], w3[i + 3]
        for j in range(s0.size):
            x0, x1, x2, x3 = a0[j], a1[j], a2[j], a3[j]
            s0[j] += w00 * x0 + w01 * x1 + w02 * x2 + w03 * x3
            s1[j] += w10 * x0 + w11 * x1 + w12 * x2 + w13 * x3
            s2[j] += w20 * x0 + w21 * x1 + w22 * x2 + w23 * x3
            s3[j] += w30 * x0 + w31 * x1 + w32 * x2 + w33 * x3
    for i in range(in_fours, len(A)):
        row = A[i][first:last]
        for j in range(s0.size):
            x = row[j]
            s0[j] += w0[i] * x
            s1[j] += w1[i] * x
            s2[j] += w2[i] * x
            s3[j] += w3[i] * x


@kernel
def add_hessian_products(A, W, shift, C, first, last, out, sums):
    """Add Σ_i c_i (a_i·w + shift) a_i, over the rows a_i from `first` to `last`, for up to sixteen w.

    All arrays have the type of the design.

    Parameters
    ----------
    A : ndarray of shape (n_samples, n_features), C-contiguous
    W : ndarray of shape (n_features, LANES)
        The vectors w, in columns; zeros where there are fewer.
    shift : ndarray of shape (LANES,)
    C : ndarray of shape (n_vectors, n_samples)
        The factors c for each of the vectors.
    first, last : int
    out : ndarray of shape (n_features, rounded up to a multiple of DEPTH; LANES)
    sums : ndarray of shape (LANES,)
        What the factors of the rows add up to.
    """
    n_features = A.shape[1]
    n_even = n_features - n_features % DEPTH
    spare = np.zeros((DEPTH, n_features), A.dtype)
    edge = np.zeros((N_ROWS, DEPTH), A.dtype)
    factors = np.empty((N_ROWS, LANES), A.dtype)
    for start in range(first, last, N_ROWS):
        n_rows = min(N_ROWS, last - start)
        n_whole = n_rows - n_rows % DEPTH
        factors[:] = shift
        for i in range(0, n_whole, DEPTH):
            rows, goal = pointer_to(A, (start + i) * n_features), pointer_to(factors, i * LANES)
            add_outer(rows, n_features, 1, n_features, pointer_to(W, 0), goal)
        if n_whole < n_rows:
            spare[: n_rows - n_whole] = A[start + n_whole : start + n_rows]
            goal = pointer_to(factors, n_whole * LANES)
            add_outer(pointer_to(spare, 0), n_features, 1, n_features, pointer_to(W, 0), goal)
        for c in range(len(C)):
            curvature = C[c, start : start + n_rows]
            for i in range(n_rows):
                factors[i, c] *= curvature[i]
                sums[c] += factors[i, c]
        for j in range(0, n_even, DEPTH):
            columns, goal = pointer_to(A, start * n_features + j), pointer_to(out, j * LANES)
            add_outer(columns, 1, n_features, n_rows, pointer_to(factors, 0), goal)
        if n_even < n_features:
            edge[:n_rows, : n_features - n_even] = A[start : start + n_rows, n_even:]
            goal = pointer_to(out, n_even * LANES)
            add_outer(pointer_to(edge, 0), 1, DEPTH, n_rows, pointer_to(factors, 0), goal)
