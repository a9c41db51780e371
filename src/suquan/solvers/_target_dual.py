"""The f-step for at most K rows: Newton's method on the dual, which has one variable per score.

Its system only needs D summed over the blocks of equal quantiles. Where there is no room for the matrix, it is
solved by products with D (:mod:`suquan.solvers._target_products`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.linalg import (
    LinAlgError,
    cho_factor,
    cho_solve,
    cholesky_banded,
    solveh_banded,
)

from suquan._kernels.target import whiten_rows
from suquan.losses import Squared
from suquan.solvers._algebra import lower_product, mirror, panels, solve_scaled
from suquan.solvers._target_accelerated import accelerated
from suquan.solvers._target_data import Data
from suquan.solvers._target_products import GramProducts, solve_by_products
from suquan.solvers._target_record import Record
from suquan.solvers._target_set import Target, Vector

_GRAM_COST = 75  # rows over the iterations that cost as much as a Gram matrix of the rows
_FLOAT64_BLOCKS = 2000  # up to this many blocks the summed design is kept in float64
_CHUNK_ENTRIES = 1 << 16  # at least, of the columns that a Gram matrix is summed over at a time
_SIGMA_UP, _SIGMA_DOWN = 10.0, 0.03
# Newton steps that may fail to halve the gap before the proximal step is judged too long.
_PATIENCE = 4
_MAX_CUTS = 10


def dual_newton(data: Data, target: Target, record: Record) -> None:
    """Proximal point on f; each step by Newton's method on its dual, one variable per score."""
    center, sigma = record.f, _first_sigma(data, target, record)
    gram = _Gram(data, target)
    point = _shrunk_start(data, target, record, sigma)
    n_inner, n_slow, smallest, n_cuts, tried_gradient = 0, 0, np.inf, 0, False
    while True:
        record.n_iter += 1
        Df = data.scores(point.f)
        u_f, objective = record.update_primal(point.f, Df)
        face = target.face(point.f, point.z, sigma)
        record.update_dual(point.u, point.a, point.g, (face.stretch - 1.0) / sigma)
        if record.done:
            return
        move = float(np.sum((point.f - center) ** 2)) / (2.0 * sigma)
        gap = objective + move + point.value
        if gap <= 0.3 * move + 1e-3 * record.tol * record.objective:
            center, sigma = point.f, sigma * (_SIGMA_UP if n_inner < 3 else 1.0)
            point = _dual_point(data, target, u_f, center, sigma)
            n_inner, n_slow, smallest = 0, 0, np.inf
            continue
        if not tried_gradient and 10 * data.n_scores <= len(face.starts):
            # A Gram matrix over many blocks costs as much as these steps: easy problems end before it.
            tried_gradient = True
            accelerated(data, target, record, data.n_scores // _GRAM_COST)
            if record.done:
                return
        n_slow += gap > 0.5 * smallest
        smallest = min(gap, smallest)
        new = None
        if n_slow < _PATIENCE:
            new = _dual_newton_step(data, target, gram, point, face, Df, center, sigma)
        if new is not None:
            point, n_inner = new, n_inner + 1
            continue
        n_cuts += 1
        if n_cuts > _MAX_CUTS:
            return
        center, sigma = record.f, sigma * _SIGMA_DOWN
        point = _dual_point(data, target, record.u, center, sigma)
        n_inner, n_slow, smallest = 0, 0, np.inf


class _DualPoint(NamedTuple):
    """Dual point a = ∇loss(u) of one proximal step, its target f = prox(z), and the dual's value."""

    u: Vector
    a: Vector
    g: Vector
    z: Vector
    f: Vector
    value: float


def _dual_point(data, target, u, center, sigma, a=None, g=None):
    """Evaluate ψ(a) = loss*(a) + (penalty + ‖· − center‖²/2σ)*(−Dᵀa), to be minimised over a."""
    if a is None or g is None:
        u = data.profile(u)[0]
        a = data.dual_point(u)
        g = data.pull_back(a)
    z = center - sigma * g
    f = target.prox(z, sigma)
    move = f - center
    value = data.conjugate(u, a) - float(g @ f) - target.penalty(f)
    return _DualPoint(u, a, g, z, f, value - float(move @ move) / (2.0 * sigma))


def _dual_newton_step(data, target, gram, point, face, Df, center, sigma):
    """Newton's step with backtracking on ψ; None where it fails."""
    u_new = _dual_newton_scores(data, target, gram, point, face, Df, sigma)
    if u_new is None:
        return None
    step = u_new - point.u
    left, right = data.root(point.u)
    slope = min(0.0, float(right(left(step)) @ (point.u - Df)))
    t = 1.0
    for _ in range(8):
        new = _dual_point(data, target, point.u + t * step, center, sigma)
        if new.value <= point.value + 1e-4 * t * slope + 1e-14 * abs(point.value):
            return new
        t *= 0.4
    return None


def _shrunk_start(data, target, record, sigma):
    """Best dual start among the multiples 2⁻ᵏ a of the start's dual point: no product with D."""
    a, g = data.dual_point(record.u), record.g

    def point_at(scale):
        u = record.u if scale == 1.0 else data.scores_of_dual(scale * a)
        return _dual_point(data, target, u, record.f, sigma, scale * a, scale * g)

    best, scale = point_at(1.0), 0.5
    while scale > 1e-9:
        new = point_at(scale)
        if not new.value < best.value:
            break
        best, scale = new, 0.5 * scale
    return best


def _first_sigma(data, target, record):
    """Length of the first proximal step.

    Where the bound or the smoothness holds f, the proximal term may be far below J. Squared losses often leave
    f to the data; then the step is some multiple of the inverse curvature along the gradient.
    """
    far = 1e6 if target.smoothness > 0.0 else 1e3
    far *= target.K / max(record.objective, record.scale)
    norm2 = float(record.g @ record.g)
    if not isinstance(data.loss, Squared) or norm2 == 0.0:
        return far
    Dg = data.root(record.u)[0](data.scores(record.g))
    return min(far, 10.0 * norm2 / max(float(Dg @ Dg), 1e-300))


class _Gram:
    """D S⁻¹ Dᵀ over a face, for centred rows of D."""

    def __init__(self, data, target):
        self.data, self.target = data, target
        self._plain = None
        self._last: tuple = (None, 0.0, None)

    def forget(self):
        """Free the memory of the matrices kept."""
        self._plain, self._last = None, (None, 0.0, None)

    def matrix(self, face, c):
        """The Gram matrix, float64, of shape (n_scores, n_scores): its lower triangle, with any upper one."""
        if c == 0.0 and len(face.starts) == self.data.K:
            return self._of_single_columns(face)
        starts, last_c, M = self._last
        if (
            M is not None
            and not face.on_sphere
            and c == last_c
            and np.array_equal(starts, face.starts)
        ):
            return M
        del M
        self._last = (None, 0.0, None)  # its memory is needed
        S = self.target.stiffness(face, c)
        R = cholesky_banded(S) if c > 0.0 else np.sqrt(S)
        normal = self._whitened_normal(face, S, R, c) if face.on_sphere else None
        M = self._sum_of_products(face, R, normal)
        if not face.on_sphere:
            self._last = face.starts, c, M
        return M

    def _sum_of_products(self, face, R, normal=None):
        """Σ over the columns of the whitened rows, a few columns at a time; tangent to the sphere if asked.

        R = [[0, r_01, …], [r_00, r_11, …]] with S = RᵀR; `normal` is the pair (X h, h) of the whitened rows X.
        """
        data, n_blocks = self.data, len(face.starts)
        bounds = np.append(face.starts, data.K)
        dtype = np.float64 if n_blocks <= _FLOAT64_BLOCKS else data.D.dtype
        last = np.zeros(data.n_scores)
        step = max(256, max(_CHUNK_ENTRIES, data.n_scores * n_blocks // 32) // data.n_scores)
        M = np.zeros((data.n_scores, data.n_scores))
        for first in range(0, n_blocks, step):
            part = slice(first, min(first + step, n_blocks))
            X = data.D.sums(bounds[first : part.stop + 1], dtype)
            whiten_rows(X, data.row_means, face.sizes[part], R[1, part], R[0, part], last)
            if normal is not None:
                X -= np.outer(normal[0].astype(dtype), normal[1][part].astype(dtype))
            for rows in panels(data.n_scores):
                M[rows, : rows.stop] += X[rows] @ X[: rows.stop].T
        return M

    def _whitened_normal(self, face, S, R, c):
        """Products X h of the whitened rows X with the whitened unit normal h of the sphere, and h."""
        data = self.data
        h, norm = face.f_sums[None].copy(), np.zeros(1)
        whiten_rows(h, np.zeros(1), face.sizes, R[1], R[0], norm)
        length = np.linalg.norm(h)
        v = solveh_banded(S, face.f_sums) if c > 0.0 else face.f_sums / S[1]
        spread = np.repeat(v, face.sizes.astype(np.int64))
        products = data.scores(spread) - data.row_means * spread.sum()
        return products / length, h[0] / length

    def _of_single_columns(self, face):
        if self._plain is None:
            free = np.zeros((2, self.data.K))
            free[1] = 1.0
            self._plain = self._sum_of_products(face, free)
        M = self._plain / face.stretch
        if face.on_sphere:
            q = self.data.scores(face.f_sums) - self.data.row_means * face.f_sums.sum()
            scaled = q / (face.stretch * float(face.f_sums @ face.f_sums))
            for rows in panels(len(M)):
                M[rows] -= np.outer(scaled[rows], q)
        return M


def _dual_newton_scores(data, target, gram, point, face, Df, sigma):
    """Scores to which Newton's method moves, or None where its system cannot be solved."""
    c = sigma * target.smoothness
    residual = point.u - Df
    try:
        if min(data.n_scores, len(face.starts)) > data.D.largest_square:
            gram.forget()
            products = GramProducts(data, target, face, c)
            return solve_by_products(data, products, point, residual, Df, sigma)
        if data.n_scores <= len(face.starts):
            return _solve_rows(data, gram.matrix(face, c), sigma, point, residual, Df)
        gram.forget()
        S = target.stiffness(face, c) / sigma
        return _solve_blocks(data, S, face, point, residual, Df)
    except LinAlgError:
        return None


def _solve_rows(data, M, sigma, point, residual, Df):
    """Solve (W⁻¹ + σM) da = shifts·b − residual with shiftsᵀ(a + da) = 0, W = A Aᵀ, in da = A v."""
    left, right = data.root(point.u)
    columns = left(data.shifts)
    rhs = np.column_stack([left(residual), columns])
    if data.n_outputs == 1:
        q = np.sqrt(data.s * data.loss.curvature(data.y, point.u))
        x = solve_scaled(M, np.sqrt(sigma) * q, 1.0, rhs)
    else:
        mirror(M)
        system = data.between_roots(point.u, M)
        system *= sigma
        system[np.diag_indices_from(system)] += 1.0 + 1e-13 * np.trace(system) / len(system)
        # Symmetric, and its transpose is in LAPACK's order: no copy.
        factor = cho_factor(system.T, overwrite_a=True, check_finite=False)
        x = cho_solve(factor, rhs, check_finite=False)
    v, shift = -x[:, 0], 0.0
    if data.fit_intercept:
        b = np.linalg.solve(columns.T @ x[:, 1:], columns.T @ x[:, 0] - point.a @ data.shifts)
        v, shift = v + x[:, 1:] @ b, data.shifts @ b
    return Df + shift - sigma * lower_product(M, right(v))


def _solve_blocks(data, S, face, point, residual, Df):
    """The same system through the block values, where there are fewer of those than scores."""
    n_blocks = len(face.starts)
    left, right = data.root(point.u)
    H = data.block_hessian(point.u, face.starts)
    diagonal = np.arange(n_blocks)
    H[diagonal, diagonal] += S[1]
    H[diagonal[1:], diagonal[:-1]] += S[0, 1:]
    H[diagonal[:-1], diagonal[1:]] += S[0, 1:]
    H[np.diag_indices_from(H)] += 1e-13 * np.trace(H) / len(H)
    curved = right(left(residual))
    columns = data.D.adjoint(curved) - data.row_means @ curved
    rhs = np.concatenate([np.add.reduceat(columns, face.starts), (curved - point.a) @ data.shifts])
    factor = cho_factor(H, overwrite_a=True, check_finite=False)
    x = cho_solve(factor, rhs, check_finite=False)
    if face.on_sphere:
        normal = np.concatenate([face.f_sums, np.zeros(data.shifts.shape[1])])
        y = cho_solve(factor, normal, check_finite=False)
        x -= y * (normal @ x) / (normal @ y)
    step = np.repeat(x[:n_blocks], face.sizes.astype(np.int64))
    return Df + data.scores(step) - data.row_means * step.sum() + data.shifts @ x[n_blocks:]
