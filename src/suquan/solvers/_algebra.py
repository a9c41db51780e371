"""Cholesky factors that the solvers share."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, blas, lapack

Array = NDArray[Any]
# An array, or None where the fit or design has none; callers that know which need not narrow it.
MaybeArray = Any
_PANEL = 256


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


# -- functions that the f-step still imports -----------------------------------------------------------
def lower_product(M: Array, X: Array) -> Array:
    """M x for the symmetric M, given by its lower triangle, and for every row x of X."""
    # The transposes are in the order of BLAS: no copies.
    if X.ndim == 1:
        return blas.dsymv(1.0, M.T, X, lower=0)
    return blas.dsymm(1.0, M.T, X.T, lower=0).T


def factor_scaled(
    M: Array, q: Array, ridge: float | Array, shift: float = 0.0, diagonal: MaybeArray = None
) -> Array:
    """Cholesky factor of ridge + diag(q) (M + shift) diag(q), M given by its lower triangle.

    It takes the place of M's diagonal and of what is above, so that no second matrix is needed; it is lower for
    M's transpose. M is C-contiguous, float32 or float64. As little as makes the matrix definite is added to its
    diagonal. The `diagonal` of M, if given, is used instead of what has taken its place.
    """
    scaled = q * ((M.diagonal() if diagonal is None else diagonal) + shift) * q
    potrf = lapack.spotrf if M.dtype == np.float32 else lapack.dpotrf
    jitter = 45.0 * float(np.finfo(M.dtype).eps) * float(np.mean(scaled + ridge))
    while np.isfinite(jitter):
        for rows in panels(len(M)):
            if rows.start:
                before = slice(0, rows.start)
                above = M[before, rows]
                np.add(M[rows, before].T, shift, out=above)
                above *= q[before, None]
                above *= q[rows]
            corner = M[rows, rows] * q[rows]
            if shift:
                corner += shift * q[rows]
            corner *= q[rows, None]
            np.copyto(M[rows, rows], corner.T, where=_above_diagonal(len(corner)))
        M[np.diag_indices_from(M)] = scaled + ridge + jitter
        # In LAPACK's order, the transpose is touched below its diagonal alone.
        factor, info = potrf(M.T, lower=1, clean=0, overwrite_a=1)
        if info == 0:
            return factor
        jitter *= 100.0
    raise LinAlgError("the system is not positive definite.")


def solve_scaled(M: Array, q: Array, ridge: float, rhs: Array) -> Array:
    """Solve (ridge + diag(q) M diag(q)) x = rhs, M given by its lower triangle; the other one changes."""
    diagonal = M.diagonal().copy()
    try:
        factor = factor_scaled(M, q, ridge)
        return cholesky_solve(factor, rhs)
    finally:
        M[np.diag_indices_from(M)] = diagonal


def panels(size: int, n_rows: int = _PANEL) -> list[slice]:
    """Slices of a few rows of a matrix."""
    return [slice(start, min(start + n_rows, size)) for start in range(0, size, n_rows)]


@cache
def _above_diagonal(size: int) -> Array:
    """Mask of the entries above the diagonal."""
    return np.triu(np.ones((size, size), dtype=bool), 1)


def mirror(M: Array) -> None:
    """Copy what is below the diagonal of M above it."""
    for rows in panels(len(M)):
        M[: rows.start, rows] = M[rows, : rows.start].T
        corner = np.tril(M[rows, rows])
        M[rows, rows] = corner + np.tril(corner, -1).T
