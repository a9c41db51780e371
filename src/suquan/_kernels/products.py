"""Compiled products with a design that accumulate in float64, whatever the dtype of the design.

For one vector they are as fast as single precision BLAS on one thread.
"""

from __future__ import annotations

import numpy as np

from suquan._kernels._jit import summing_kernel


@summing_kernel
def row_products(A, V):
    """V Aᵀ accumulated in float64, whatever the dtype of A; four rows at a time share each load of V.

    Parameters
    ----------
    A : ndarray of shape (n_samples, n_features), C-contiguous
    V : float64 ndarray of shape (n_vectors, n_features), C-contiguous

    Returns
    -------
    float64 ndarray of shape (n_vectors, n_samples)
    """
    n_samples, n_features = A.shape
    out = np.empty((len(V), n_samples))
    in_fours = n_samples - n_samples % 4
    for i in range(0, in_fours, 4):
        for c in range(len(V)):
            t0, t1, t2, t3 = 0.0, 0.0, 0.0, 0.0
            for j in range(n_features):
                v = V[c, j]
                t0 += np.float64(A[i, j]) * v
                t1 += np.float64(A[i + 1, j]) * v
                t2 += np.float64(A[i + 2, j]) * v
                t3 += np.float64(A[i + 3, j]) * v
            out[c, i], out[c, i + 1], out[c, i + 2], out[c, i + 3] = t0, t1, t2, t3
    for i in range(in_fours, n_samples):
        for c in range(len(V)):
            total = 0.0
            for j in range(n_features):
                total += np.float64(A[i, j]) * V[c, j]
            out[c, i] = total
    return out


@summing_kernel
def column_products(A, R):
    """R A accumulated in float64, whatever the dtype of A; four rows at a time share each sum.

    Parameters
    ----------
    A : ndarray of shape (n_samples, n_features), C-contiguous
    R : float64 ndarray of shape (n_vectors, n_samples)

    Returns
    -------
    float64 ndarray of shape (n_vectors, n_features)
    """
    n_samples, n_features = A.shape
    out = np.zeros((len(R), n_features))
    in_fours = n_samples - n_samples % 4
    for i in range(0, in_fours, 4):
        for c in range(len(R)):
            r0, r1, r2, r3 = R[c, i], R[c, i + 1], R[c, i + 2], R[c, i + 3]
            for j in range(n_features):
                out[c, j] += (
                    r0 * np.float64(A[i, j])
                    + r1 * np.float64(A[i + 1, j])
                    + r2 * np.float64(A[i + 2, j])
                    + r3 * np.float64(A[i + 3, j])
                )
    for i in range(in_fours, n_samples):
        for c in range(len(R)):
            for j in range(n_features):
                out[c, j] += R[c, i] * np.float64(A[i, j])
    return out
