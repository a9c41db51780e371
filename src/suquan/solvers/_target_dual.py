"""The f-step for at most K rows: Newton's method on the dual, which has one variable per score.

A proximal-point step on f of length σ makes the dual smooth. Points of the dual are kept as scores u with
a = ∇L(u), so that there is no domain to respect. Newton's system only needs D summed over the blocks of equal
quantiles. Called by :mod:`suquan.solvers.target`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve, cholesky_banded, solveh_banded

from suquan._kernels.target import whiten_rows
from suquan.solvers._target_data import RowsInMemory, Scored, backtrack
from suquan.solvers._target_record import Record, Vector, accelerated
from suquan.solvers.newton import conjugate_gradients
from suquan.target_sets import Face

# Relative residual of a system solved by products, and the fewest products that are worth a try.
_FORCING, _FEW_PRODUCTS = 3e-3, 8
_GRAM_COST = 75  # rows over the iterations that cost as much as a Gram matrix of the rows
_FLOAT64_BLOCKS = 2000  # up to this many blocks the summed design is kept in float64
_CHUNK_ENTRIES = 1 << 17  # of the columns that a Gram matrix is summed over at a time
_SIGMA_UP, _SIGMA_DOWN = 10.0, 0.03
# Newton steps that may fail to halve the gap before the proximal step is judged too long.
_PATIENCE = 4
_MAX_CUTS = 10


def dual_newton(data: RowsInMemory, record: Record) -> None:
    """Proximal point on f; each step by Newton's method on its dual."""
    step = _ProximalStep(data, record, record.f, _first_sigma(data, record))
    gram = _Gram(data)
    dual = _shrunk_start(step, record)
    n_inner, n_slow, smallest, n_cuts, tried_gradient = 0, 0, np.inf, 0, False
    while True:
        record.n_iter += 1
        Df = data.scores(dual.f)
        primal, objective = record.update_primal(dual.f, Df)
        record.offer_dual(dual.g, data.conjugate(dual.point))
        if record.done:
            return
        move = float(np.sum((dual.f - step.center) ** 2)) / (2.0 * step.sigma)
        gap = objective + move + dual.value
        if gap <= 0.3 * move + 1e-3 * record.tol * record.objective:
            sigma = step.sigma * (_SIGMA_UP if n_inner < 3 else 1.0)
            step = step._replace(center=dual.f, sigma=sigma)
            dual = step.dual_at(primal)
            n_inner, n_slow, smallest = 0, 0, np.inf
            continue
        face = step.face(dual)
        if not tried_gradient and 10 * data.n_scores <= len(face.starts):
            # A Gram matrix over many blocks costs as much as these steps: easy problems end before it.
            tried_gradient = True
            accelerated(record, data.n_scores // _GRAM_COST)
            if record.done:
                return
        n_slow += gap > 0.5 * smallest
        smallest = min(gap, smallest)
        new = None
        if n_slow < _PATIENCE:
            new = _newton_step(step, gram, dual, face, Df)
        if new is not None:
            dual, n_inner = new, n_inner + 1
            continue
        n_cuts += 1
        if n_cuts > _MAX_CUTS:
            return
        step = step._replace(center=record.f, sigma=step.sigma * _SIGMA_DOWN)
        dual = step.dual_at(record.point)
        n_inner, n_slow, smallest = 0, 0, np.inf


class _DualPoint(NamedTuple):
    """Dual point a = ∇L(u) of one proximal step, its target f = prox(z), and the dual's value."""

    point: Scored
    g: Vector
    z: Vector
    f: Vector
    value: float


class _ProximalStep(NamedTuple):
    """The proximal step from `center`: J(f) + ‖f − center‖²/2σ is to be minimised."""

    data: RowsInMemory
    record: Record
    center: Vector
    sigma: float

    def dual_at(self, point: Scored, g: Any = None) -> _DualPoint:
        """Evaluate ψ(a) = L*(a) + (penalty + ‖· − center‖²/2σ)*(−Dᵀa), to be minimised over a."""
        target = self.record.target
        if g is None:
            g = self.data.adjoint(point.slopes)
        z = self.center - self.sigma * g
        f = target.prox(z, self.sigma)
        move = f - self.center
        value = self.data.conjugate(point) - float(g @ f) - target.penalty(f)
        return _DualPoint(point, g, z, f, value - float(move @ move) / (2.0 * self.sigma))

    def face(self, dual: _DualPoint) -> Face:
        """Face of the dual point's target."""
        face = self.record.target.face(dual.f, dual.z, self.sigma)
        assert face is not None
        return face


def _newton_step(
    step: _ProximalStep, gram: _Gram, dual: _DualPoint, face: Face, Df: Vector
) -> _DualPoint | None:
    """Newton's step with backtracking on ψ; None where it fails."""
    data, u = step.data, dual.point.u
    c = step.sigma * step.record.target.smoothness
    solve = _solve_rows if data.n_scores <= len(face.starts) else _solve_blocks
    try:
        u_new = solve(data, gram, face, dual.point, Df, (step.sigma, c))
    except LinAlgError:
        return None
    direction = u_new - u
    slope = min(0.0, float(data.curvature(u).product(direction) @ (u - Df)))
    no_shift = np.zeros(data.shifts.shape[1])

    def attempt(t: float) -> tuple[float, _DualPoint | None]:
        point = data.shifted(u + t * direction, no_shift)
        if not np.isfinite(point.value):
            return np.inf, None
        new = step.dual_at(point)
        return new.value, new

    slack = 1e-14 * abs(dual.value)
    return backtrack(attempt, dual.value, slope, slack=slack, shrink=0.4, n_tries=8)


def _shrunk_start(step: _ProximalStep, record: Record) -> _DualPoint:
    """Best dual start among the multiples 2⁻ᵏ a of the start's dual point: no product with D."""
    data, start = step.data, record.point
    best, scale = step.dual_at(start, record.g), 0.5
    while scale > 1e-9:
        a = scale * start.slopes
        u = data.loss.scores_of_dual(data.y, a, data.s)
        value = data.loss.value(data.y, u, data.s)
        new = step.dual_at(Scored(u, start.b, value, a), scale * record.g)
        if not new.value < best.value:
            break
        best, scale = new, 0.5 * scale
    return best


def _first_sigma(data: RowsInMemory, record: Record) -> float:
    """Length of the first proximal step.

    Where the bound or the smoothness holds f, the proximal term may be far below J. Quadratic losses often
    leave f to the data; then the step is some multiple of the inverse curvature along the gradient.
    """
    far = 1e6 if record.target.smoothness > 0.0 else 1e3
    far *= data.K / max(record.objective, record.scale)
    norm2 = float(record.g @ record.g)
    if not data.is_quadratic or norm2 == 0.0:
        return far
    return min(far, 10.0 * norm2 / max(data.curvature_along(record.point, record.g), 1e-300))


class _Gram:
    """M = D S⁻¹ Dᵀ over a face, for centred rows of D; the last matrix is remembered.

    Conjugate gradients need products with M alone. They are tried as long as they end within as many products
    as cost what the matrix does.
    """

    def __init__(self, data: RowsInMemory):
        self.data = data
        self.most_products = int(data.n_scores / _GRAM_COST)
        self._key: tuple = ()
        self._last: Any = None

    def product(self, face: Face, c: float) -> Callable[[Vector], Vector]:
        """Products with M, tangent to the sphere where that is active."""
        data, S = self.data, face.stiffness(c)

        def inverse(x: Vector) -> Vector:
            return solveh_banded(S, x, check_finite=False) if c > 0.0 else x / S[1]

        normal = inverse(face.f_sums) if face.on_sphere else np.zeros(len(face.starts))
        normal /= np.sqrt(float(normal @ face.f_sums)) if face.on_sphere else 1.0

        def product(a: Vector) -> Vector:
            sums = np.add.reduceat(data.adjoint(a), face.starts)
            f = face.spread(inverse(sums) - normal * float(normal @ sums))
            return data.scores(f) - data.row_means * f.sum()

        return product

    def matrix(self, face: Face, c: float) -> Vector:
        """The Gram matrix, of shape (n_scores, n_scores), tangent to the sphere where that is active."""
        # Without smoothness the multiplier of the sphere is a factor.
        unit = face if c > 0.0 else face._replace(stretch=1.0)
        key = (c, unit.stretch, face.starts.tobytes())
        if key != self._key:
            self._key, self._last = key, None  # its memory is needed
            self._last = self._sum_of_products(unit, c)
        M = self._last * (unit.stretch / face.stretch)
        if face.on_sphere:
            S = face.stiffness(c)
            v = solveh_banded(S, face.f_sums) if c > 0.0 else face.f_sums / S[1]
            f = face.spread(v)
            q = self.data.scores(f) - self.data.row_means * f.sum()
            M -= np.outer(q / float(v @ face.f_sums), q)
        return M

    def _sum_of_products(self, face: Face, c: float) -> Vector:
        """Σ over the columns of the whitened rows, a few columns at a time."""
        data, n_blocks = self.data, len(face.starts)
        bounds = np.append(face.starts, data.K)
        dtype = np.float64 if n_blocks <= _FLOAT64_BLOCKS else data.D.dtype
        S = face.stiffness(c)
        R = cholesky_banded(S) if c > 0.0 else np.sqrt(S)
        last = np.zeros(data.n_scores)
        step = max(128, _CHUNK_ENTRIES // data.n_scores)
        M = np.zeros((data.n_scores, data.n_scores))
        for first in range(0, n_blocks, step):
            part = slice(first, min(first + step, n_blocks))
            X = data.sums_over_blocks(bounds[first : part.stop + 1], dtype)
            if c > 0.0:
                whiten_rows(X, R[1, part], R[0, part], last)
            else:
                X /= R[1, part].astype(dtype)
            M += X @ X.T
        return M


def _solve_rows(data, gram, face, point, Df, lengths):
    """Scores to which Newton's method moves.

    Solves (W⁻¹ + σM) da = shifts·b − residual with shiftsᵀ(a + da) = 0, W = A Aᵀ, in da = A v.
    """
    sigma, c = lengths
    found = _solve_by_products(data, gram, face, point, Df, lengths)
    if found is not None:
        return found
    M = gram.matrix(face, c)
    curvature = data.curvature(point.u)
    columns = curvature.root_adjoint(data.shifts)
    system = curvature.root_adjoint(curvature.root_adjoint(M).T)
    system *= sigma
    system[np.diag_indices_from(system)] += 1.0
    rhs = np.column_stack([curvature.root_adjoint(point.u - Df), columns])
    x = cho_solve(factorised(system), rhs, check_finite=False)
    v, shift = -x[:, 0], 0.0
    if data.fit_intercept:
        b = np.linalg.solve(columns.T @ x[:, 1:], columns.T @ x[:, 0] - point.slopes @ data.shifts)
        v, shift = v + x[:, 1:] @ b, data.shifts @ b
    return Df + shift - sigma * (M @ curvature.root(v))


def _solve_by_products(data, gram, face, point, Df, lengths):
    """The same by conjugate gradients among the v with shiftsᵀ A v = 0; None where they take too long."""
    if gram.most_products < _FEW_PRODUCTS:
        return None
    sigma, c = lengths
    M, curvature = gram.product(face, c), data.curvature(point.u)
    columns = curvature.root_adjoint(data.shifts)
    basis = np.linalg.qr(columns)[0]

    def feasible(V: Vector) -> Vector:
        return V - (V @ basis) @ basis.T

    def product(V: Vector) -> Vector:
        v = V[0, 0]
        return feasible(v + sigma * curvature.root_adjoint(M(curvature.root(v))))[None, None]

    residual = curvature.root_adjoint(point.u - Df)
    gradient = feasible(residual)[None, None]
    forcing, never = np.array([_FORCING]), np.array([-np.inf])
    v, accurate = conjugate_gradients(
        product, feasible, gradient, gradient, forcing, never, gram.most_products
    )
    if not accurate[0]:
        gram.most_products = 0
        return None
    Mv = M(curvature.root(v[0, 0]))
    rest = residual + v[0, 0] + sigma * curvature.root_adjoint(Mv)
    return Df + data.shifts @ np.linalg.lstsq(columns, rest)[0] - sigma * Mv


def _solve_blocks(data, gram, face, point, Df, lengths):
    """The same system through the block values, where there are fewer of those than scores."""
    sigma, c = lengths
    n_blocks, curvature = len(face.starts), data.curvature(point.u)
    X = data.sums_over_blocks(np.append(face.starts, data.K), np.float64)
    X = np.column_stack([X, data.shifts])
    Z = curvature.root_adjoint(X)
    H = Z.T @ Z
    add_band(H, face.stiffness(c) / sigma)
    rhs = curvature.product(point.u - Df) @ X
    rhs[n_blocks:] -= point.slopes @ data.shifts
    factor = factorised(H)
    x = cho_solve(factor, rhs, check_finite=False)
    if face.on_sphere:
        normal = np.append(face.f_sums, np.zeros(data.shifts.shape[1]))
        y = cho_solve(factor, normal, check_finite=False)
        x -= y * (normal @ x) / (normal @ y)
    return Df + X @ x


def add_band(H: Vector, S: Vector) -> None:
    """Add a symmetric band, row 0 its off-diagonal and row 1 its diagonal, to the first columns of H."""
    i = np.arange(S.shape[1])
    H[i, i] += S[1]
    H[i[1:], i[:-1]] += S[0, 1:]
    H[i[:-1], i[1:]] += S[0, 1:]


def factorised(H: Vector) -> Any:
    """Cholesky factor for `cho_solve`; as little as makes H definite is added to its diagonal."""
    mean = max(float(np.trace(H)) / max(len(H), 1), np.finfo(float).tiny)
    diagonal = np.diagonal(H).copy()
    for jitter in (1e-13, 1e-11, 1e-9):
        np.fill_diagonal(H, diagonal + jitter * mean)
        try:
            return cho_factor(H, check_finite=False)
        except LinAlgError:
            continue
    raise LinAlgError("the system is not positive definite.")
