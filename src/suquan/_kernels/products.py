"""Compiled products with a design that accumulate in float64, whatever the dtype of the design.

For one vector they are as fast as single precision BLAS on one thread.
"""

from __future__ import annotations

import numpy as np

from suquan._kernels._jit import summing_kernel


@summing_kernel
def row_products(A, V):
    """V Aᵀ accumulated in float64, whatever the dtype of A; rows and vectors share their loads.

    Parameters
    ----------
    A : ndarray of shape (n_samples, n_features), C-contiguous
    V : float64 ndarray of shape (n_vectors, n_features), C-contiguous

    Returns
    -------
    float64 ndarray of shape (n_vectors, n_samples)
    """
    n_samples = len(A)
    out = np.empty((len(V), n_samples))
    grouped = len(V) - len(V) % 4
    if grouped:
        _four_vectors(A, V, out)
    in_fours = n_samples - n_samples % 4
    for i in range(0, in_fours, 4):
        for c in range(grouped, len(V)):
            t0, t1, t2, t3 = 0.0, 0.0, 0.0, 0.0
            for j in range(A.shape[1]):
                v = V[c, j]
                t0 += np.float64(A[i, j]) * v
                t1 += np.float64(A[i + 1, j]) * v
                t2 += np.float64(A[i + 2, j]) * v
                t3 += np.float64(A[i + 3, j]) * v
            out[c, i], out[c, i + 1], out[c, i + 2], out[c, i + 3] = t0, t1, t2, t3
    for i in range(in_fours, n_samples):
        for c in range(grouped, len(V)):
            total = 0.0
            for j in range(A.shape[1]):
                total += np.float64(A[i, j]) * V[c, j]
            out[c, i] = total
    return out


@summing_kernel
def _four_vectors(A, V, out):
    """The same for the vectors that come in fours, two rows at a time: most of the time goes into loads."""
    n_samples, n_features = A.shape
    for i in range(0, n_samples, 2):
        x = A[i]
        y = A[min(i + 1, n_samples - 1)]
        for c in range(0, len(V) - len(V) % 4, 4):
            v0, v1, v2, v3 = V[c], V[c + 1], V[c + 2], V[c + 3]
            x0, x1, x2, x3, y0, y1, y2, y3 = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
            for j in range(n_features):
                a, b = np.float64(x[j]), np.float64(y[j])
                x0 += a * v0[j]
                x1 += a * v1[j]
                x2 += a * v2[j]
                x3 += a * v3[j]
                y0 += b * v0[j]
                y1 += b * v1[j]
                y2 += b * v2[j]
                y3 += b * v3[j]
            if i + 1 < n_samples:
                out[c, i + 1], out[c + 1, i + 1] = y0, y1
                out[c + 2, i + 1], out[c + 3, i + 1] = y2, y3
            out[c, i], out[c + 1, i], out[c + 2, i], out[c + 3, i] = x0, x1, x2, x3


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
