"""Compiled products with a design that accumulate in float64, whatever the dtype of the design.

Vectors are taken in fours: a few rows of the design, which stay in the second cache, meet four vectors, which
stay in the first, four rows at a time.
"""

from __future__ import annotations

import numpy as np

from suquan._kernels._jit import summing_kernel, widen_vectors

# Rows of the design that all vectors meet before the next ones are read.
_N_ROWS = 64


@summing_kernel
def row_products(A, V):
    """V Aᵀ accumulated in float64, whatever the dtype of A.

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
    for start in range(0, n_samples, _N_ROWS):
        rows = A[start : start + _N_ROWS]
        for c in range(0, len(V), 4):
            scores = out[c : c + 4, start : start + _N_ROWS]
            if len(scores) == 1:
                _one_dots(rows, V[c], scores[0])
            else:
                _four_dots(rows, V[c : c + 4], scores)
    return out


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
def column_products(A, R):
    """R A accumulated in float64, whatever the dtype of A.

    Parameters
    ----------
    A : ndarray of shape (n_samples, n_features), C-contiguous
    R : float64 ndarray of shape (n_vectors, n_samples)

    Returns
    -------
    float64 ndarray of shape (n_vectors, n_features)
    """
    out = np.zeros((len(R), A.shape[1]))
    add_column_products(A, R, out)
    return out


@summing_kernel
def add_column_products(A, R, out):
    """Add :func:`column_products` to `out`."""
    n_samples, n_features = A.shape
    spare = np.zeros((4 if len(R) % 4 > 1 else 0, n_features))
    for start in range(0, n_samples, _N_ROWS):
        rows = A[start : start + _N_ROWS]
        for c in range(0, len(R), 4):
            weights, sums = R[c : c + 4, start : start + _N_ROWS], out[c : c + 4]
            if len(sums) == 1:
                _add_one(rows, weights[0], sums[0])
            elif len(sums) == 4:
                _add_four(rows, weights, sums)
            else:
                spare[: len(sums)] = sums
                _add_four(rows, weights, spare)
                sums[:] = spare[: len(sums)]


@summing_kernel
def _add_one(A, weights, total):
    """Add the weighted rows to `total`."""
    widen_vectors()
    in_fours = len(A) - len(A) % 4
    for i in range(0, in_fours, 4):
        a0, a1, a2, a3 = A[i], A[i + 1], A[i + 2], A[i + 3]
        r0, r1, r2, r3 = weights[i], weights[i + 1], weights[i + 2], weights[i + 3]
        for j in range(total.size):
            total[j] += r0 * a0[j] + r1 * a1[j] + r2 * a2[j] + r3 * a3[j]
    for i in range(in_fours, len(A)):
        row, weight = A[i], weights[i]
        for j in range(total.size):
            total[j] += weight * row[j]


@summing_kernel
def _add_four(A, weights, total):
    """Add the rows with two to four sets of weights to as many of the four rows of `total`."""
    widen_vectors()
    last = len(weights) - 1
    w0, w1, w2, w3 = weights[0], weights[1], weights[min(2, last)], weights[last]
    s0, s1, s2, s3 = total[0], total[1], total[2], total[3]
    in_fours = len(A) - len(A) % 4
    for i in range(0, in_fours, 4):
        a0, a1, a2, a3 = A[i], A[i + 1], A[i + 2], A[i + 3]
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
        row = A[i]
        for j in range(s0.size):
            x = row[j]
            s0[j] += w0[i] * x
            s1[j] += w1[i] * x
            s2[j] += w2[i] * x
            s3[j] += w3[i] * x
