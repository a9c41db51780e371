"""Compiled loops of the f-step's dual method: sums over blocks of equal quantiles, whitened rows."""

import numpy as np

from suquan._kernels._jit import kernel


@kernel
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
            n_quads = block.shape[0] // 4
            # Four sums side by side: one alone would wait for itself.
            t0 = t1 = t2 = t3 = 0.0
            for k in range(n_quads):
                t0 += np.float64(block[4 * k])
                t1 += np.float64(block[4 * k + 1])
                t2 += np.float64(block[4 * k + 2])
                t3 += np.float64(block[4 * k + 3])
            for j in range(4 * n_quads, block.shape[0]):
                t0 += np.float64(block[j])
            out[i, b] = (t0 + t1) + (t2 + t3)


@kernel
def whiten_rows(X, diagonal, off_diagonal, last):
    """Replace every row x of X by the solution t of Rᵀ t = x, R upper bidiagonal.

    With S = Rᵀ R, the rows of the result have the inner products xᵀ S⁻¹ x' of the rows.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_blocks)
        Overwritten.
    diagonal, off_diagonal : float64 ndarrays of shape (n_blocks,)
        R[b, b] = diagonal[b] and R[b − 1, b] = off_diagonal[b].
    last : float64 ndarray of shape (n_rows,)
        t of the block before, 0 for the first block of all; on return that of the last block of X.
    """
    n_rows, n_blocks = X.shape
    inverse = 1.0 / diagonal
    ratio = off_diagonal * inverse
    for i in range(n_rows):
        row, t = X[i], last[i]
        for b in range(n_blocks):
            t = row[b] * inverse[b] - ratio[b] * t
            row[b] = t
        last[i] = t
