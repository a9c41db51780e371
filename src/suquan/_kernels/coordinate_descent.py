"""Compiled loops of the w-step with an l1 penalty: coordinate descent."""

from __future__ import annotations

import numpy as np

from suquan._kernels._jit import kernel, summing_kernel


@kernel
def _shrink(x, threshold):
    if x > threshold:
        return x - threshold
    if x < -threshold:
        return x + threshold
    return 0.0


@summing_kernel
def descend_quadratic(Q, g, z, l1, l2, tol, max_epochs):
    """Coordinate descent on ½ δᵀQδ + g·δ + Σ_j l1_j |z_j + δ_j| + l2_j (z_j + δ_j)², in place.

    Parameters
    ----------
    Q : float64 ndarray of shape (m, m)
        Symmetric positive semi-definite.
    g : float64 ndarray of shape (m,)
        Gradient at δ = 0; becomes g + Qδ.
    z : float64 ndarray of shape (m,)
        Coefficients; becomes z + δ.
    l1, l2 : float64 ndarrays of shape (m,)
        Penalty of each coordinate.
    tol : float
        Stop once no move of an epoch promises to lower the value by more than this.
    max_epochs : int

    Returns
    -------
    int
        Epochs done.
    """
    m = len(z)
    for epoch in range(max_epochs):
        largest_gain = 0.0
        for j in range(m):
            curvature = Q[j, j] + 2.0 * l2[j]
            if curvature <= 0.0:
                continue
            new = _shrink(Q[j, j] * z[j] - g[j], l1[j]) / curvature
            move = new - z[j]
            if move != 0.0:
                z[j] = new
                for i in range(m):
                    g[i] += move * Q[j, i]
                largest_gain = max(largest_gain, curvature * move * move)
        if largest_gain * m <= tol:
            return epoch + 1
    return max_epochs


@summing_kernel
def descend_scores(A, d, r, z, curvatures, l1, l2, tol, max_epochs):
    """Coordinate descent as :func:`descend_quadratic`, with Q = Aᵀ diag(d) A never formed.

    Parameters
    ----------
    A : float64 ndarray of shape (n_samples, m), Fortran-ordered
    d : float64 ndarray of shape (n_samples,)
        Curvature of the loss at each sample, times its weight.
    r : float64 ndarray of shape (n_samples,)
        Weighted gradient of the loss in the scores; becomes r + d ∘ Aδ.
    z, l1, l2, tol, max_epochs
        As for :func:`descend_quadratic`.
    curvatures : float64 ndarray of shape (m,)
        Diagonal of Q.

    Returns
    -------
    int
        Epochs done.
    """
    n_samples, m = A.shape
    for epoch in range(max_epochs):
        largest_gain = 0.0
        for j in range(m):
            curvature = curvatures[j] + 2.0 * l2[j]
            if curvature <= 0.0:
                continue
            gradient = 0.0
            for i in range(n_samples):
                gradient += A[i, j] * r[i]
            new = _shrink(curvatures[j] * z[j] - gradient, l1[j]) / curvature
            move = new - z[j]
            if move != 0.0:
                z[j] = new
                for i in range(n_samples):
                    r[i] += move * d[i] * A[i, j]
                largest_gain = max(largest_gain, curvature * move * move)
        if largest_gain * m <= tol:
            return epoch + 1
    return max_epochs


@summing_kernel
def descend_classes(A, s, proba, r, z, curvatures, l1, l2, tol, max_epochs):
    """Coordinate descent on the softmax model, whose curvature couples the classes.

    The quadratic part is ½ Σ_i s_i v_iᵀ(diag π_i − π_i π_iᵀ)v_i + Σ_ik r_ik v_ik with v = A δᵀ. A move of
    one coefficient changes v in one class; only π_i·v_i must follow it, so it costs O(n_samples).

    Parameters
    ----------
    A : float64 ndarray of shape (n_samples, m), Fortran-ordered
    s : float64 ndarray of shape (n_samples,)
        Sample weights.
    proba : float64 ndarray of shape (n_classes, n_samples)
        Class probabilities π.
    r : float64 ndarray of shape (n_classes, n_samples)
        Weighted gradient of the loss in the scores at δ = 0; left as it is.
    z : float64 ndarray of shape (n_classes, m)
        Coefficients; becomes z + δ.
    curvatures : float64 ndarray of shape (n_classes, m)
        Diagonal of the Hessian.
    l1, l2 : float64 ndarrays of shape (m,)
        Penalty of each column.
    tol : float
        Stop once no move of an epoch promises to lower the value by more than this.
    max_epochs : int

    Returns
    -------
    int
        Epochs done.
    """
    n_samples, m = A.shape
    n_classes = len(z)
    v = np.zeros((n_classes, n_samples))
    mean_v = np.zeros(n_samples)
    for epoch in range(max_epochs):
        largest_gain = 0.0
        for k in range(n_classes):
            for j in range(m):
                curvature = curvatures[k, j] + 2.0 * l2[j]
                if curvature <= 0.0:
                    continue
                gradient = 0.0
                for i in range(n_samples):
                    gradient += A[i, j] * (r[k, i] + s[i] * proba[k, i] * (v[k, i] - mean_v[i]))
                new = _shrink(curvatures[k, j] * z[k, j] - gradient, l1[j]) / curvature
                move = new - z[k, j]
                if move != 0.0:
                    z[k, j] = new
                    for i in range(n_samples):
                        v[k, i] += move * A[i, j]
                        mean_v[i] += move * A[i, j] * proba[k, i]
                    largest_gain = max(largest_gain, curvature * move * move)
        if largest_gain * m * n_classes <= tol:
            return epoch + 1
    return max_epochs
