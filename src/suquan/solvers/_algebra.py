"""Cholesky factors that the solvers share."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack

Array = NDArray[Any]
# An array, or None where the fit or design has none; callers that know which need not narrow it.
MaybeArray = Any


def as_floats(A: Array) -> Array:
    """A, C-contiguous and of floats; not copied where it is already."""
    A = np.ascontiguousarray(A)
    return A if A.dtype in (np.float32, np.float64) else A.astype(np.float64)


def cholesky(H: Array) -> Array:
    """Lower factor of the symmetric H, with as little added to the diagonal as makes it definite.

    H is C-contiguous, float32 or float64, and is overwritten.
    """
    potrf = lapack.spotrf if H.dtype == np.float32 else lapack.dpotrf
    diagonal = np.diagonal(H).copy()
    jitter = 45.0 * float(np.finfo(H.dtype).eps) * max(float(diagonal.mean()), 1e-300)
    # H.T is Fortran-ordered: no copy. What lies above the diagonal of H.T stays, for another try.
    factor, info = potrf(H.T, lower=1, clean=0, overwrite_a=1)
    while info > 0 and np.isfinite(jitter):
        again = np.triu(factor, 1)
        again += again.T
        np.fill_diagonal(again, diagonal + jitter)
        factor, info = potrf(again.T, lower=1, clean=0, overwrite_a=1)
        jitter *= 100.0
    return factor


def cholesky_solve(factor: Array, columns: Array) -> Array:
    """H⁻¹ columns, from :func:`cholesky` of H, in the type of the factor."""
    potrs = lapack.spotrs if factor.dtype == np.float32 else lapack.dpotrs
    return potrs(factor, columns, lower=1)[0]


def cholesky_inverse(factor: Array) -> Array:
    """H⁻¹, from :func:`cholesky` of H in float64."""
    inverse = lapack.dpotri(factor, lower=1)[0]
    inverse = np.tril(inverse)
    inverse += np.tril(inverse, -1).T
    return inverse
