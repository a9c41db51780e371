"""Newton's method with conjugate gradients for a batch of ridge problems in lockstep.

:mod:`suquan.solvers.ridge` gives it the sums over the samples of a design in memory, Dask the sums over
blocks of rows that lie elsewhere; a :class:`Minimised` batch goes out. All fits run side by side, so that every
product with the design is a matrix product. They share a preconditioner, the second moments of the columns,
which the design keeps.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np
from scipy.linalg import cho_solve

from suquan.solvers._products import Array, MaybeArray, cholesky

# Most columns whose second moments are formed: beyond them they would be larger than the design.
MOST_SQUARE_COLUMNS = 4096
# Columns up to which second moments cost less than the first steps without them, and products of one step from
# which (new) moments pay.
_FEW_COLUMNS, _MANY_PRODUCTS = 512, 12
_MAX_PRODUCTS, _MAX_PRODUCTS_WITHOUT_MOMENTS = 60, 500
_MAX_HALVINGS = 40
# Share of the energy of a step, the square of its residual, that conjugate gradients may leave.
_FORCING, _LAST_FORCING = 1e-2, 1e-4
Product = Callable[[Array], Array]


class Sums(Protocol):
    """What :func:`newton` asks of the samples; `fits` are the numbers of the fits that the rest belongs to.

    The first `n_columns` entries of each vector of theta have a penalty, the intercepts after them have none.
    Scores u are an array with one row for each fit, linear in theta. Rows of samples that lie elsewhere may
    have theta itself in their place.
    """

    n_columns: int
    balanced: bool  # whether the outputs may sum to 0, as the loss ignores their mean

    def scores(self, theta: Array) -> Array:
        """Scores at theta, of shape (n_fits, …)."""

    def values(self, fits: Array, u: Array) -> Array:
        """Weighted losses."""

    def gradients(self, fits: Array, u: Array) -> Array:
        """Their gradients, of the shape of theta."""

    def product(self, fits: Array, u: Array) -> Product:
        """Products with their Hessians."""

    def curvatures(self, fits: Array, u: Array) -> Array:
        """Summed second derivatives in the scores, on average over the outputs."""

    def moments(self, fits: Array, u: Array) -> Array:
        """Second moments of the columns, weighted with the mean curvature of the fits."""

    def spread(self, fits: Array, u: Array) -> float:
        """Mean of the diagonal of these."""

    def adapt(self, fits: Array, lengths: Array, criterion: Array) -> None:
        """Take in how long the last steps were, for curvatures that are raised where steps are too long."""


class Minimised(NamedTuple):
    """Unknowns, scores and objectives of all fits, Newton steps, and the gaps before the last of them."""

    theta: Array
    u: Array
    objective: Array
    n_iter: Array
    criterion: Array


def penalised(sums: Sums, fits: Array, u: Array, theta: Array, alpha: float) -> Array:
    """Objectives: losses, and alpha ‖w‖²."""
    return sums.values(fits, u) + alpha * np.sum(theta[:, :, : sums.n_columns] ** 2, axis=(1, 2))


class Preconditioner:
    """Divides by about the mean Hessian of the fits on one design: by a scale, or with moments of the columns.

    The moments, of unit mean curvature, cost as much as many products. So they are formed once conjugate
    gradients have needed many, and formed again where they have needed many with them.

    Parameters
    ----------
    n_columns : int
    """

    def __init__(self, n_columns: int) -> None:
        self.has_room = n_columns <= MOST_SQUARE_COLUMNS
        self._wants_moments = n_columns <= _FEW_COLUMNS
        self._moments: MaybeArray = None

    def improve(self) -> bool:
        """Form moments, or new ones, at the next call of :meth:`inverse`; False where there is no room."""
        self._wants_moments, self._moments = self.has_room, None
        return self._wants_moments

    def inverse(self, sums: Sums, fits: Array, u: Array, alpha: float, dtype: Any) -> Product:
        """Return a function that divides by about the mean Hessian of the fits."""
        curvature = max(float(np.mean(sums.curvatures(fits, u))), np.finfo(float).tiny)
        if not self._wants_moments:
            # One scale for all columns: rows of normalised samples have the same sum, so that gradients are
            # orthogonal to a common shift of all coefficients, along which only the penalty is curved.
            scales = np.full(sums.n_columns + 1, sums.spread(fits, u) + 2.0 * alpha)
            scales[-1] = curvature
            return lambda r: _balanced(r / scales, sums.balanced)
        if self._moments is None:
            self._moments = (sums.moments(fits, u) / curvature).astype(dtype, copy=False)
        H = curvature * self._moments
        H.flat[: sums.n_columns * len(H) : len(H) + 1] += 2.0 * alpha
        factor = cholesky(H)

        def divide(r: Array) -> Array:
            rows = r.reshape(-1, r.shape[2]).astype(H.dtype)
            found = cho_solve(factor, rows.T, check_finite=False).T.reshape(r.shape)
            return _balanced(found, sums.balanced)

        return divide


def _balanced(theta: Array, balanced: bool) -> Array:
    """Steps that do not go along a shift of all outputs, in which the loss is flat and rounding adds up."""
    return theta - theta.mean(axis=1, keepdims=True) if balanced else theta


def newton(
    sums: Sums,
    preconditioner: Preconditioner,
    theta: Array,
    alpha: float,
    floor: float,
    tol: float,
    max_iter: int,
    dtype: Any = np.float64,
) -> Minimised:
    """Minimise the objectives of all fits from theta, in lockstep.

    A fit ends once half its squared Newton decrement, ½ gᵀH⁻¹g, is at most `tol` times its objective, or times
    `floor` where that is larger; or where no step lowers its objective.
    """
    theta, u = theta.copy(), sums.scores(theta)
    n_fits = len(theta)
    running = np.arange(n_fits)
    J = penalised(sums, running, u, theta, alpha)
    criterion, n_iter = np.full(n_fits, np.inf), np.zeros(n_fits, dtype=int)
    inverse: Product | None = None
    limit = _MAX_PRODUCTS if preconditioner.has_room else _MAX_PRODUCTS_WITHOUT_MOMENTS
    while len(running) and n_iter.max() < max_iter:
        at, here = u[running], theta[running]
        g = sums.gradients(running, at)
        g[:, :, : sums.n_columns] += 2.0 * alpha * here[:, :, : sums.n_columns]
        if inverse is None:
            inverse = preconditioner.inverse(sums, running, at, alpha, dtype)
        scale = np.maximum(J[running], floor)
        of_losses = sums.product(running, at)
        product = _penalised_product(of_losses, alpha, sums.n_columns)
        step, solved, n_products = conjugate_gradients(
            product, inverse, g, 0.1 * tol * scale, limit
        )
        slope, du = np.einsum("fkj,fkj->f", g, step), sums.scores(step)
        lengths, J_new = _search(sums, running, at, du, here, step, J[running], slope, alpha)
        t = lengths[:, None, None]
        u[running], theta[running] = at + t[:, 0] * du, here + t * step
        J[running] = J_new
        n_iter[running] += 1
        criterion[running] = 0.5 * np.abs(slope) / scale  # a rising slope is rounding
        sums.adapt(running, lengths, criterion[running])
        running = running[((criterion[running] > tol) | ~solved) & (lengths > 0.0)]
        if n_products > _MANY_PRODUCTS and preconditioner.improve():
            inverse = None
    return Minimised(theta, u, J, n_iter, criterion)


def _penalised_product(of_losses: Product, alpha: float, n_columns: int) -> Product:
    """Products with the Hessians of the objectives, from those of the losses."""

    def product(V: Array) -> Array:
        out = of_losses(V)
        out[:, :, :n_columns] += 2.0 * alpha * V[:, :, :n_columns]
        return out

    return product


def _search(
    sums: Sums, fits: Array, u: Array, du: Array, theta: Array, step: Array,
    J: Array, slope: Array, alpha: float,
) -> tuple[Array, Array]:  # fmt: skip
    """Lengths of the steps, halved until the objectives fall, and the objectives there; 0 where none falls."""
    lengths, lowest, pending, t = np.zeros(len(J)), J.copy(), np.arange(len(J)), 1.0
    for _ in range(_MAX_HALVINGS):
        some = fits[pending]
        moved = theta[pending] + t * step[pending]
        new = penalised(sums, some, u[pending] + t * du[pending], moved, alpha)
        falls = new <= J[pending] + 1e-4 * t * slope[pending]
        lengths[pending[falls]], lowest[pending[falls]] = t, new[falls]
        # A promise of rounding size is not worth shorter steps.
        worth = -slope[pending] > 1e-14 * np.abs(J[pending])
        pending, t = pending[~falls & worth], 0.5 * t
        if not len(pending):
            break
    return lengths, lowest


def conjugate_gradients(
    product: Product, precondition: Product, g: Array, floor: Array, limit: int
) -> tuple[Array, Array, int]:
    """Solve H step = −g for every fit of a batch at once.

    A step is solved to a tenth of its residual: more is wasted while Newton's model is poor. A last step is
    solved to a hundredth, as nothing comes after it.

    Parameters
    ----------
    product, precondition : callable
        Products with H, and with an approximate inverse of H.
    g : ndarray of shape (n_fits, n_vectors, n_columns)
    floor : ndarray of shape (n_fits,)
        Half the squared Newton decrement of a last step.
    limit : int
        Largest number of products.

    Returns
    -------
    step : ndarray of the shape of g
    solved : ndarray of bool, shape (n_fits,)
    n_products : int
    """
    step, residual = np.zeros_like(g), -g
    direction = scaled = precondition(residual)
    energy = np.einsum("fkj,fkj->f", residual, scaled)
    goal = np.where(energy > 100.0 * floor, _FORCING, _LAST_FORCING) * energy
    n_products = 0
    while n_products < limit:
        n_products += 1
        curved = product(direction)
        curvature = np.einsum("fkj,fkj->f", direction, curved)
        on = (energy > goal) & (curvature > 0.0)
        length = np.where(on, energy / np.where(on, curvature, 1.0), 0.0)[:, None, None]
        step += length * direction
        residual -= length * curved
        scaled = precondition(residual)
        before, energy = energy, np.where(on, np.einsum("fkj,fkj->f", residual, scaled), 0.0)
        if not np.any(energy > goal):
            break
        ratio = np.where(before > 0.0, energy / np.where(before > 0.0, before, 1.0), 0.0)
        direction = scaled + ratio[:, None, None] * direction
    return step, energy <= goal, n_products
