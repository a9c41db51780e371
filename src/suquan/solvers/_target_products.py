"""The dual f-step's Newton system by conjugate gradients, where its matrix would take too much memory.

Every iteration costs one product with D and one with Dᵀ.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import cho_solve_banded, cholesky_banded

from suquan.solvers._target_data import Data
from suquan.solvers._target_set import Face, Target, Vector

# Relative residual of the system: a Newton step solved to η leaves about η² of the gap.
_FORCING = 3e-3
_MAX_PRODUCTS = 300


class GramProducts:
    """Products with M = D S⁻¹ Dᵀ over a face, for centred rows of D, tangent to an active sphere."""

    def __init__(self, data: Data, target: Target, face: Face, c: float):
        self.data, self.face = data, face
        self._factor = cholesky_banded(target.stiffness(face, c))
        self._normal = self._inverse(face.f_sums) if face.on_sphere else None

    def _inverse(self, x: Vector) -> Vector:
        return cho_solve_banded((self._factor, False), x, check_finite=False)

    def __call__(self, v: Vector) -> Vector:
        """M v."""
        data, face = self.data, self.face
        columns = data.D.adjoint(v) - data.row_means @ v
        values = self._inverse(np.add.reduceat(columns, face.starts))
        if self._normal is not None:
            normal = face.f_sums
            values -= self._normal * (normal @ values) / (normal @ self._normal)
        f = np.repeat(values, face.sizes.astype(np.int64))
        return data.scores(f) - data.row_means * f.sum()


def solve_by_products(
    data: Data,
    products: GramProducts,
    point: Any,
    residual: Vector,
    Df: Vector,
    sigma: float,
) -> Vector:
    """Scores to which Newton's method moves on the dual of a proximal step of length σ.

    They are Df + shifts·b − σ M A v, where (1 + σ Aᵀ M A) v = Aᵀ(shifts·b − residual) and
    shiftsᵀ(a + A v) = 0; A Aᵀ is the Hessian of the loss. Conjugate gradients run among the v that meet
    the last condition, until the residual is small against the first.
    """
    left, right = data.root(point.u)
    columns = left(data.shifts)
    basis = np.linalg.qr(columns)[0]

    def feasible(v):
        return v - basis @ (basis.T @ v)

    v, Mv = np.zeros_like(residual), np.zeros_like(residual)
    if data.fit_intercept:
        v = -np.linalg.lstsq(columns.T, data.shifts.T @ point.a, rcond=None)[0]
        Mv = products(right(v)) if np.any(v) else Mv
    rest = left(residual) + v + sigma * left(Mv)  # its part along `columns` is what b takes up
    r = -feasible(rest)
    direction, energy = r, float(r @ r)
    goal = _FORCING**2 * energy
    for _ in range(_MAX_PRODUCTS):
        if energy <= goal:
            break
        M_direction = products(right(direction))
        curved = direction + sigma * left(M_direction)
        length = energy / float(direction @ curved)
        v = v + length * direction
        Mv = Mv + length * M_direction
        rest = rest + length * curved
        r = -feasible(rest)
        previous, energy = energy, float(r @ r)
        direction = r + energy / previous * direction
    shift = data.shifts @ np.linalg.lstsq(columns, rest, rcond=None)[0]
    return Df + shift - sigma * Mv
