"""Compiled loops of the f-step: exact products, sums over blocks of equal quantiles, whitened rows.

Loops read rows as one-dimensional views: an index that cannot be negative lets them vectorise.
"""

from __future__ import annotations

import numba
import numpy as np

from suquan._kernels._jit import kernel

# Sums may be taken in any order, so that they vectorise; NaN and infinity keep their meaning.
_REASSOCIATE = {"reassoc", "contract", "nsz"}


def _summing_kernel(function):
    """Compile as :func:`kernel` does, letting sums be reordered."""
    try:
        return numba.njit(nogil=True, cache=True, fastmath=_REASSOCIATE)(function)
    except RuntimeError as error:
        if "no locator available" not in str(error):
            raise
        return numba.njit(nogil=True, fastmath=_REASSOCIATE)(function)


@_summing_kernel
def row_products(D, f):
    """D f accumulated in float64, as fast as single precision BLAS on one thread.

    Parameters
    ----------
    D : ndarray of shape (n_rows, K), C-contiguous
    f : float64 ndarray of shape (K,)

    Returns
    -------
    float64 ndarray of shape (n_rows,)
    """
    n_rows, K = D.shape
    out = np.empty(n_rows)
    i = 0
    while i + 4 <= n_rows:
        d0, d1, d2, d3 = D[i], D[i + 1], D[i + 2], D[i + 3]
        t0, t1, t2, t3 = 0.0, 0.0, 0.0, 0.0
        for j in range(K):
            x = f[j]
            t0 += np.float64(d0[j]) * x
            t1 += np.float64(d1[j]) * x
            t2 += np.float64(d2[j]) * x
            t3 += np.float64(d3[j]) * x
        out[i], out[i + 1], out[i + 2], out[i + 3] = t0, t1, t2, t3
        i += 4
    while i < n_rows:
        d0 = D[i]
        t0 = 0.0
        for j in range(K):
            t0 += np.float64(d0[j]) * f[j]
        out[i] = t0
        i += 1
    return out


@_summing_kernel
def column_products(D, a):
    """Dᵀ a accumulated in float64, as fast as single precision BLAS on one thread.

    Parameters
    ----------
    D : ndarray of shape (n_rows, K), C-contiguous
    a : float64 ndarray of shape (n_rows,)

    Returns
    -------
    float64 ndarray of shape (K,)
    """
    n_rows, K = D.shape
    out = np.zeros(K)
    i = 0
    while i + 8 <= n_rows:
        d0, d1, d2, d3 = D[i], D[i + 1], D[i + 2], D[i + 3]
        d4, d5, d6, d7 = D[i + 4], D[i + 5], D[i + 6], D[i + 7]
        a0, a1, a2, a3 = a[i], a[i + 1], a[i + 2], a[i + 3]
        a4, a5, a6, a7 = a[i + 4], a[i + 5], a[i + 6], a[i + 7]
        for j in range(K):
            out[j] += (
                np.float64(d0[j]) * a0
                + np.float64(d1[j]) * a1
                + np.float64(d2[j]) * a2
                + np.float64(d3[j]) * a3
                + np.float64(d4[j]) * a4
                + np.float64(d5[j]) * a5
                + np.float64(d6[j]) * a6
                + np.float64(d7[j]) * a7
            )
        i += 8
    while i < n_rows:
        d0, a0 = D[i], a[i]
        for j in range(K):
            out[j] += np.float64(d0[j]) * a0
        i += 1
    return out


@_summing_kernel
def block_sums(D, starts, out):
    """Sum the columns of D over consecutive blocks, in float64: out[i, b] = Σ_{j in block b} D[i, j].

    Parameters
    ----------
    D : ndarray of shape (n_rows, K), C-contiguous
    starts : int64 ndarray of shape (n_blocks,)
        First column of each block, increasing from 0; the last block ends at K.
    out : ndarray of shape (n_rows, n_blocks)
        Overwritten.
    """
    n_rows, K = D.shape
    n_blocks = starts.shape[0]
    for i in range(n_rows):
        row = D[i]
        for b in range(n_blocks):
            end = starts[b + 1] if b + 1 < n_blocks else K
            block = row[starts[b] : end]
            total = 0.0
            for j in range(block.shape[0]):
                total += np.float64(block[j])
            out[i, b] = total


@kernel
def whiten_rows(X, shift, sizes, diagonal, off_diagonal):
    """Replace every row x of X by the solution t of Rᵀ t = x − shift·sizes, R upper bidiagonal.

    With S = Rᵀ R, the rows of the result have the inner products xᵀ S⁻¹ x' of the shifted rows.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_blocks)
        Overwritten.
    shift : float64 ndarray of shape (n_rows,)
    sizes, diagonal, off_diagonal : float64 ndarrays of shape (n_blocks,)
        R[b, b] = diagonal[b] and R[b − 1, b] = off_diagonal[b]; off_diagonal[0] is ignored.
    """
    n_rows, n_blocks = X.shape
    ratio = np.zeros(n_blocks)
    inverse = 1.0 / diagonal
    for b in range(1, n_blocks):
        ratio[b] = off_diagonal[b] * inverse[b]
    i = 0
    # Four rows side by side hide the latency of the recurrence.
    while i + 4 <= n_rows:
        x0, x1, x2, x3 = X[i], X[i + 1], X[i + 2], X[i + 3]
        t0, t1, t2, t3 = 0.0, 0.0, 0.0, 0.0
        m0, m1, m2, m3 = shift[i], shift[i + 1], shift[i + 2], shift[i + 3]
        for b in range(n_blocks):
            t0 = (x0[b] - m0 * sizes[b]) * inverse[b] - ratio[b] * t0
            t1 = (x1[b] - m1 * sizes[b]) * inverse[b] - ratio[b] * t1
            t2 = (x2[b] - m2 * sizes[b]) * inverse[b] - ratio[b] * t2
            t3 = (x3[b] - m3 * sizes[b]) * inverse[b] - ratio[b] * t3
            x0[b], x1[b], x2[b], x3[b] = t0, t1, t2, t3
        i += 4
    while i < n_rows:
        x0, t0 = X[i], 0.0
        for b in range(n_blocks):
            t0 = (x0[b] - shift[i] * sizes[b]) * inverse[b] - ratio[b] * t0
            x0[b] = t0
        i += 1
