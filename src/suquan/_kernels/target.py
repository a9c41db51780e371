"""Compiled loops of the f-step: sums over blocks of equal quantiles, whitened rows.

Loops read rows as one-dimensional views: an index that cannot be negative lets them vectorise.
"""

from __future__ import annotations

import numpy as np

from suquan._kernels._jit import kernel, summing_kernel


@summing_kernel
def block_sums(D, bounds, out):
    """Sum columns of D over consecutive blocks, in float64.

    out[i, b] = Σ D[i, j] over bounds[b] ≤ j < bounds[b + 1].

    Parameters
    ----------
    D : ndarray of shape (n_rows, K), C-contiguous
    bounds : int64 ndarray of shape (n_blocks + 1,)
        First column of each block, increasing, and the end of the last.
    out : ndarray of shape (n_rows, n_blocks)
        Overwritten.
    """
    for i in range(out.shape[0]):
        row = D[i]
        for b in range(out.shape[1]):
            block = row[bounds[b] : bounds[b + 1]]
            total = 0.0
            for j in range(block.shape[0]):
                total += np.float64(block[j])
            out[i, b] = total


@kernel
def whiten_rows(X, shift, sizes, diagonal, off_diagonal, last):
    """Replace every row x of X by the solution t of Rᵀ t = x − shift·sizes, R upper bidiagonal.

    With S = Rᵀ R, the rows of the result have the inner products xᵀ S⁻¹ x' of the shifted rows.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_blocks)
        Overwritten.
    shift : float64 ndarray of shape (n_rows,)
    sizes, diagonal, off_diagonal : float64 ndarrays of shape (n_blocks,)
        R[b, b] = diagonal[b] and R[b − 1, b] = off_diagonal[b].
    last : float64 ndarray of shape (n_rows,)
        t of the block before, 0 for the first block of all; on return that of the last block of X.
    """
    n_rows, n_blocks = X.shape
    ratio = np.zeros(n_blocks)
    inverse = 1.0 / diagonal
    for b in range(n_blocks):
        ratio[b] = off_diagonal[b] * inverse[b]
    i = 0
    # Four rows side by side hide the latency of the recurrence.
    while i + 4 <= n_rows:
        x0, x1, x2, x3 = X[i], X[i + 1], X[i + 2], X[i + 3]
        t0, t1, t2, t3 = last[i], last[i + 1], last[i + 2], last[i + 3]
        m0, m1, m2, m3 = shift[i], shift[i + 1], shift[i + 2], shift[i + 3]
        for b in range(n_blocks):
            t0 = (x0[b] - m0 * sizes[b]) * inverse[b] - ratio[b] * t0
            t1 = (x1[b] - m1 * sizes[b]) * inverse[b] - ratio[b] * t1
            t2 = (x2[b] - m2 * sizes[b]) * inverse[b] - ratio[b] * t2
            t3 = (x3[b] - m3 * sizes[b]) * inverse[b] - ratio[b] * t3
            x0[b], x1[b], x2[b], x3[b] = t0, t1, t2, t3
        last[i], last[i + 1], last[i + 2], last[i + 3] = t0, t1, t2, t3
        i += 4
    while i < n_rows:
        x0, t0 = X[i], last[i]
        for b in range(n_blocks):
            t0 = (x0[b] - shift[i] * sizes[b]) * inverse[b] - ratio[b] * t0
            x0[b] = t0
        last[i] = t0
        i += 1
