"""The f-step for at most K rows: Newton's method on the dual, which has one variable per score.

Its system only needs D summed over the blocks of equal quantiles.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve, cholesky_banded

from suquan._kernels.target import block_sums, whiten_rows
from suquan.losses import Squared
from suquan.solvers._target_accelerated import accelerated
from suquan.solvers._target_data import Data
from suquan.solvers._target_record import Record
from suquan.solvers._target_set import Target, Vector

_GRAM_COST = 75  # rows over the iterations that cost as much as a Gram matrix of the rows
_FLOAT64_BLOCKS = 2000  # up to this many blocks the summed design is kept in float64
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

    def reduced(self, face, dtype=None):
        """D summed over the face's blocks; not centred."""
        D = self.data.D
        n_blocks = len(face.starts)
        if n_blocks == self.data.K:
            return D.astype(dtype or D.dtype)
        dtype = dtype or (np.float64 if n_blocks <= _FLOAT64_BLOCKS else D.dtype)
        out = np.empty((len(D), n_blocks), dtype=dtype)
        block_sums(D, face.starts, out)
        return out

    def matrix(self, face, c):
        """The Gram matrix, float64, of shape (n_scores, n_scores)."""
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
        S = self.target.stiffness(face, c)
        R = cholesky_banded(S) if c > 0.0 else np.sqrt(S)
        X = self.reduced(face)
        whiten_rows(X, self.data.row_means, face.sizes, R[1], R[0])
        if face.on_sphere:
            h = face.f_sums[None].copy()
            whiten_rows(h, np.zeros(1), face.sizes, R[1], R[0])
            h = (h[0] / np.linalg.norm(h)).astype(X.dtype)
            X -= np.outer(X @ h, h)
        M = (X @ X.T).astype(np.float64)
        if not face.on_sphere:
            self._last = face.starts, c, M
        return M

    def _of_single_columns(self, face):
        if self._plain is None:
            D = self.data.D - self.data.row_means[:, None].astype(self.data.D.dtype)
            self._plain = D, (D @ D.T).astype(np.float64)
        D, M = self._plain
        if face.on_sphere:
            q = (D @ face.f_sums.astype(D.dtype)).astype(np.float64)
            M = M - np.outer(q, q) / float(face.f_sums @ face.f_sums)
        return M / face.stretch


def _dual_newton_scores(data, target, gram, point, face, Df, sigma):
    """Scores to which Newton's method moves, or None where its system cannot be solved."""
    left, right = data.root(point.u)
    c = sigma * target.smoothness
    residual = point.u - Df
    try:
        if data.n_scores <= len(face.starts):
            M = sigma * gram.matrix(face, c)
            return _solve_rows(data, left, right, M, point.a, residual, Df)
        X = gram.reduced(face, np.float64)
        X -= np.outer(data.row_means, face.sizes)
        S = target.stiffness(face, c) / sigma
        return _solve_blocks(data, left, X, S, face, point.a, residual, Df)
    except LinAlgError:
        return None


def _solve_rows(data, left, right, M, a, residual, Df):
    """Solve (W⁻¹ + M) da = shifts·b − residual with shiftsᵀ(a + da) = 0, W = A Aᵀ, in da = A v."""
    system = left(left(M).T)
    system[np.diag_indices_from(system)] += 1.0 + 1e-13 * np.trace(system) / len(system)
    columns = left(data.shifts)
    x = cho_solve(
        cho_factor(system, overwrite_a=True, check_finite=False),
        np.column_stack([left(residual), columns]),
        check_finite=False,
    )
    v, shift = -x[:, 0], 0.0
    if data.fit_intercept:
        b = np.linalg.solve(columns.T @ x[:, 1:], columns.T @ x[:, 0] - a @ data.shifts)
        v, shift = v + x[:, 1:] @ b, data.shifts @ b
    return Df + shift - M @ right(v)


def _solve_blocks(data, left, X, S, face, a, residual, Df):
    """The same system through the block values, where there are fewer of those than scores."""
    n_blocks = len(face.starts)
    Z = left(np.column_stack([X, data.shifts]))
    H = Z.T @ Z
    diagonal = np.arange(n_blocks)
    H[diagonal, diagonal] += S[1]
    H[diagonal[1:], diagonal[:-1]] += S[0, 1:]
    H[diagonal[:-1], diagonal[1:]] += S[0, 1:]
    H[np.diag_indices_from(H)] += 1e-13 * np.trace(H) / len(H)
    rhs = Z.T @ left(residual)
    rhs[n_blocks:] -= a @ data.shifts
    factor = cho_factor(H, overwrite_a=True, check_finite=False)
    x = cho_solve(factor, rhs, check_finite=False)
    if face.on_sphere:
        normal = np.concatenate([face.f_sums, np.zeros(data.shifts.shape[1])])
        y = cho_solve(factor, normal, check_finite=False)
        x -= y * (normal @ x) / (normal @ y)
    return Df + X @ x[:n_blocks] + data.shifts @ x[n_blocks:]
