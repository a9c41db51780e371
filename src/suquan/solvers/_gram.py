"""The w-step for n_samples ≤ n_features: Newton on the Gram matrix, in n_samples dimensions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from suquan._blocks import on_threads
from suquan.losses import Softmax
from suquan.objective import NormalizedSamples
from suquan.solvers._algebra import (
    Array,
    MaybeArray,
    cholesky,
    cholesky_solve,
    lower_product,
    mirror,
    solve_scaled,
)
from suquan.solvers._fits import LinearFit, negligible, null_intercept, sum_to_zero
from suquan.solvers._gram_folds import DualBatch, solve_folds
from suquan.solvers._newton_cg import PrimalSolver
from suquan.solvers._products import add_column_products, column_means
from suquan.solvers._threads import LARGE_FACTOR, few_threads, n_threads, one_blas_thread

# Relative rounding of a float32 Gram matrix, entry (i, j) against ‖A_i‖ ‖A_j‖ (measured: ≤ 1.5e-7, rms ≤ 2e-8).
_GRAM_ROUNDING = 1e-7
_CHEAP_PRODUCTS = 1e8
_MOST_FOLDS = 32  # that run in lockstep; all of them, one per sample, would take much memory
# Entries of products that threads of our own may make, each over columns of its own.
_SMALL_PRODUCT = 512**2
_BLOCK_ENTRIES = 1 << 16  # of the design, at least, that are centred or made float64 at a time


class GramSolver:
    """Solves in the dual coefficients a (w = Aᵀa), from the Gram matrix of the centred design."""

    def __init__(self, G: Array, fit_intercept: bool, exact: bool):
        self.G = G
        self.fit_intercept = fit_intercept
        self.exact = exact  # whether G carries float64 accuracy
        self.A: MaybeArray = None
        self.row_means: MaybeArray = None
        self._reduced: PrimalSolver | None = None

    @classmethod
    def from_design(cls, A: Array | NormalizedSamples, fit_intercept: bool) -> GramSolver:
        n_samples, n_features = A.shape
        # Where the products take no time there is no reason to round them.
        is_cheap = n_samples**2 * n_features <= _CHEAP_PRODUCTS
        dtype = np.dtype(np.float64) if is_cheap else A.dtype
        G = _gram_of_design(A, fit_intercept, dtype)
        solver = cls(G, fit_intercept, exact=dtype == np.float64)
        solver.A = A
        return solver

    @classmethod
    def from_gram(cls, G: Array, fit_intercept: bool) -> GramSolver:
        G = np.array(G, dtype=np.float64, order="C")
        row_means = G.mean(axis=1)
        if fit_intercept:
            _centre(G, row_means)
        solver = cls(G, fit_intercept, exact=True)
        solver.row_means = row_means if fit_intercept else np.zeros(len(G))
        return solver

    def solve_batch(self, loss, y, S, alpha, tol, max_iter, start) -> list[LinearFit]:
        fits = self.reduced_batch(loss, y, S, alpha, tol, max_iter, start)
        return self.complete(fits, [alpha] * len(fits))

    def reduced_batch(self, loss, y, S, alpha, tol, max_iter, start) -> list[LinearFit]:
        """Fits with their dual coefficients; ``b`` is still that of the centred design."""
        if isinstance(loss, Softmax):
            return self._solve_softmax(loss, y, S, alpha, tol, max_iter, start)
        with few_threads(self.G.size, LARGE_FACTOR):
            if _share_an_inverse(S, start):
                return [
                    fit
                    for first in range(0, len(S), _MOST_FOLDS)
                    for fit in self._solve_folds(
                        loss, y, S[first : first + _MOST_FOLDS], alpha, tol, max_iter, start
                    )
                ]
            return [self._solve_one(loss, y, s, alpha, tol, max_iter, start) for s in S]

    @one_blas_thread()
    def complete(self, fits: list[LinearFit], alphas: Sequence[float]) -> list[LinearFit]:
        """Add w, and move b from the centred design to the one given."""
        duals = np.concatenate([fit.dual for fit in fits])
        coefs: MaybeArray = None
        if self.A is None:
            shifts = duals @ self.row_means
        else:
            equal = np.full((1, duals.shape[1]), 1.0 / duals.shape[1])
            both = _dual_to_primal(self.A, np.concatenate([duals, equal]))
            coefs, means = both[:-1], both[-1]
            shifts = coefs @ means
        completed = []
        for k, (fit, alpha) in enumerate(zip(fits, alphas, strict=True)):
            rows = slice(k * len(fit.b), (k + 1) * len(fit.b))
            w = None if coefs is None else coefs[rows]
            b = sum_to_zero(fit.b - shifts[rows]) if self.fit_intercept else fit.b
            objective = fit.objective
            if not self.exact:
                # Rounding δG in G moved it by alpha aᵀδGa, to first order at an optimum.
                norm2 = np.sum(fit.dual * (fit.u.T - fit.b[:, None]))
                objective += alpha * float(norm2 - np.vdot(coefs[rows], coefs[rows]))
            completed.append(replace(fit, w=w, b=b, objective=objective))
        return completed

    def _solve_folds(self, loss, y, S, alpha, tol, max_iter, start) -> list[LinearFit]:
        """Fits in lockstep, from the fit `start` to all their samples."""
        batch = DualBatch(self.G, loss, y, S, alpha, self.fit_intercept, start)
        solve_folds(batch, tol, max_iter)  # works above the diagonal of G
        mirror(self.G)
        fits = [batch.fit(k, tol, self) for k in range(len(S))]
        unfinished = batch.running.tolist()
        del batch
        if not self.exact and any(
            self._rounding_matters(loss, y, s, fit, tol) for s, fit in zip(S, fits, strict=True)
        ):
            self._refine()
            return self._solve_folds(loss, y, S, alpha, tol, max_iter, start)
        for k in unfinished:
            fits[k] = self._solve_one(loss, y, S[k], alpha, tol, max_iter, start)
        return fits

    def _solve_one(self, loss, y, s, alpha, tol, max_iter, start) -> LinearFit:
        rows = np.flatnonzero(s)
        G = self._system(rows)
        a, b = self._start(loss, y, s, start)
        point = _newton_dual(
            G, loss, y[rows], s[rows], alpha, self.fit_intercept, a[0, rows], b[0], tol, max_iter
        )
        G.restore()
        dual = np.zeros((1, len(s)))
        dual[0, rows] = point.a
        fit = LinearFit(
            None, np.array([point.b]), self.G @ dual[0] + point.b,
            point.objective, point.n_iter, point.criterion, point.criterion <= tol, dual, self,
        )  # fmt: skip
        if not self.exact and self._rounding_matters(loss, y, s, fit, tol):
            del G  # its memory is needed
            self._refine()
            return self._solve_one(loss, y, s, alpha, tol, max_iter, fit)
        return fit

    def _system(self, rows) -> _Symmetric:
        """Gram matrix of some samples, as Newton's method uses it."""
        G = self.G if len(rows) == len(self.G) else self.G[np.ix_(rows, rows)]
        has_room = self.A is None or self.A.shape[1] >= 2 * len(self.G)
        return _Symmetric(G) if has_room else _TightSymmetric(G)

    def _start(self, loss, y, s, start) -> tuple[Array, Array]:
        if start is None or start.dual is None or start.dual.shape != (loss.n_outputs, len(s)):
            b = null_intercept(loss, y, s) if self.fit_intercept else np.zeros(loss.n_outputs)
            return np.zeros((loss.n_outputs, len(s))), b
        dual = np.where(s > 0, start.dual, 0.0)
        if not self.fit_intercept:
            return dual, np.zeros(loss.n_outputs)
        # The start's intercept may refer to another centring: its scores do not.
        scores = start.u if start.u.ndim == 1 else start.u.T
        return dual, np.atleast_1d((scores - start.dual @ self.G) @ s)

    def _rounding_matters(self, loss, y, s, fit, tol) -> bool:
        """Whether rounding in G may have cost more than a tenth of ``tol``.

        Scores that are off by ρ = δG a cost at most ½ Σ_i s_i ℓ''_i ρ_i².
        """
        norms = np.sqrt(np.diag(self.G).clip(0.0))
        rho = _GRAM_ROUNDING * norms * np.linalg.norm(fit.dual * norms)
        cost = 0.5 * (s * loss.curvature(y, fit.u)) @ rho**2
        return cost > 0.1 * tol * fit.objective

    def _refine(self) -> None:
        self.G = np.empty((0, 0))
        self.G = _gram_of_design(self.A, self.fit_intercept, np.float64)
        self.exact = True

    def _solve_softmax(self, loss, y, S, alpha, tol, max_iter, start) -> list[LinearFit]:
        """Classes are coupled, so no n × n system: work on a square root Z of G, ZZᵀ = G."""
        if self._reduced is None:
            if not self.exact and self.A is not None:
                self._refine()
            self._roots, self._vectors = _square_root(self.G)
            self._reduced = PrimalSolver(self._vectors * self._roots, self.fit_intercept)
        if start is not None:
            a, b = self._start(loss, y, S.mean(axis=0), start)
            start = replace(start, w=(a @ self._vectors) * self._roots, b=b)
        fits = self._reduced.solve_batch(loss, y, S, alpha, tol, max_iter, start)
        inverse = self._vectors / self._roots
        return [replace(fit, dual=fit.w @ inverse.T, w=None) for fit in fits]


def _share_an_inverse(S: Array, start: LinearFit | None) -> bool:
    """Whether the fits leave out few enough samples each, and are enough, for :func:`solve_folds`."""
    if start is None or start.dual is None or len(S) < 3:
        return False
    n_left_out = (S == 0.0).sum(axis=1)
    return 2 * n_left_out.max() <= S.shape[1]


class _Symmetric:
    """A Gram matrix with what Newton's method asks of it."""

    def __init__(self, G: Array):
        self.G = G

    def product(self, x: Array) -> Array:
        """G x."""
        return self.G @ x

    def solve_scaled(self, q: Array, ridge: float, rhs: Array) -> Array:
        """Solve (ridge + diag(q) G diag(q)) x = rhs."""
        B = self.G * q
        B *= q[:, None]
        B.flat[:: len(B) + 1] += ridge
        return cholesky_solve(cholesky(B, overwrite=True), rhs)

    def restore(self) -> None:
        """Make G what it was."""


class _TightSymmetric(_Symmetric):
    """The same without a second matrix, for 1.3 times the time: the system lies above the diagonal of G."""

    def product(self, x: Array) -> Array:
        return lower_product(self.G, x)

    def solve_scaled(self, q: Array, ridge: float, rhs: Array) -> Array:
        return solve_scaled(self.G, q, ridge, rhs)

    def restore(self) -> None:
        mirror(self.G)


@dataclass
class _DualPoint:
    """Iterate of :func:`_newton_dual`; v = Ga are its scores without the intercept."""

    a: Array
    b: float
    v: Array
    objective: float
    n_iter: int = 0
    criterion: float = np.inf


def _newton_dual(G, loss, y, s, alpha, fit_intercept, a, b, tol, max_iter) -> _DualPoint:
    """Newton's method on Σ s_i ℓ(y_i, (Ga)_i + b) + alpha aᵀGa, all s_i > 0."""
    v = G.product(a)
    point = _DualPoint(a, b, v, _dual_objective(loss, y, s, alpha, a, v, b))
    floor = negligible(loss, y, s)
    while point.n_iter < max_iter and point.criterion > tol:
        step_a, step_b, gradient_a, gradient_b = _dual_newton_step(
            G, loss, y, s, alpha, fit_intercept, point
        )
        step_v = G.product(step_a)
        slope = gradient_a @ step_v + gradient_b * step_b
        point.criterion = max(-0.5 * slope, 0.0) / max(point.objective, floor)
        point.n_iter += 1
        if not _move_dual(loss, y, s, alpha, point, step_a, step_b, step_v, slope):
            break
    return point


def _dual_newton_step(G, loss, y, s, alpha, fit_intercept, point):
    """Newton step (in a and b) and gradient: with D = diag(s ℓ''), ρ = s ℓ' + 2 alpha a,

        D (G δa + δb) + 2 alpha δa = −ρ,     Σ (a + δa) = 0.

    Solved through B = 2 alpha I + D^½ G D^½, which stays definite where the curvature vanishes.
    """
    u = point.v + point.b
    slopes = s * loss.gradient(y, u)
    rho = slopes + 2.0 * alpha * point.a
    root = np.sqrt(s * loss.curvature(y, u))
    rhs = np.column_stack([root * G.product(rho), root])
    x = G.solve_scaled(root, 2.0 * alpha, rhs)
    along_rho = (rho - root * x[:, 0]) / (2.0 * alpha)
    if not fit_intercept:
        return -along_rho, 0.0, rho, 0.0
    along_b = root * x[:, 1]
    total = along_b.sum()
    step_b = (point.a.sum() - along_rho.sum()) / total if total > 0.0 else 0.0
    return -along_rho - step_b * along_b, step_b, rho, slopes.sum()


def _move_dual(loss, y, s, alpha, point, step_a, step_b, step_v, slope) -> bool:
    """Backtrack along the step; False where no length lowers the objective."""
    t = 1.0
    for _ in range(40):
        a, b, v = point.a + t * step_a, point.b + t * step_b, point.v + t * step_v
        objective = _dual_objective(loss, y, s, alpha, a, v, b)
        if objective <= point.objective + 1e-4 * t * slope:
            point.a, point.b, point.v, point.objective = a, b, v, objective
            return True
        t *= 0.5
    return False


def _dual_objective(loss, y, s, alpha, a, v, b) -> float:
    return float(s @ loss.value(y, v + b) + alpha * (a @ v))


def _gram_of_design(A: Array | NormalizedSamples, centred: bool, dtype) -> Array:
    """Gram matrix of the rows, or of the rows less their mean; products in ``dtype``."""
    if not centred:
        return _gram(A, np.zeros(A.shape[1]), dtype)
    if isinstance(A, np.ndarray):
        return _gram(A, column_means(A), dtype)
    # The mean of some rows is near that of all; what is left of it goes from the matrix.
    held = {0: A.rows(A.parts()[0])}
    G = _gram(A, column_means(held[0]), dtype, held)
    held.clear()
    _centre(G, G.mean(axis=1))
    return G


def _centre(G: Array, row_means: Array) -> None:
    """Turn the Gram matrix of rows into that of the rows less their mean."""
    G -= row_means[:, None] - row_means.mean()
    G -= row_means


def _gram(
    A: Array | NormalizedSamples, shift: Array, dtype, held: dict[int, Array] | None = None
) -> Array:
    """(A − shift)(A − shift)ᵀ: products in ``dtype``, summed over blocks of columns in float64.

    `held` are the rows of a part that are there already; they change.
    """
    n_samples = A.shape[0]
    G = np.zeros((n_samples, n_samples))
    parts = [slice(0, n_samples)] if isinstance(A, np.ndarray) else A.parts()
    held = {} if held is None else held  # at most two parts
    # Rows that are made here may be shifted where they are.
    in_place = not isinstance(A, np.ndarray) and A.dtype == dtype
    if in_place:
        for rows in held.values():
            rows -= shift.astype(dtype)
    for pair in _pairs(len(parts)):
        for k in [k for k in held if k not in pair and not held.keys() >= set(pair)]:
            del held[k]
        for k in pair:
            if k not in held:
                held[k] = _rows(A, parts[k])
                if in_place:
                    held[k] -= shift.astype(dtype)
        first, second = (parts[k] for k in pair)
        rows, others = (held[k] for k in pair)
        product = partial(_shifted_product, rows, others, None if in_place else shift, dtype)
        blocks = list(_column_blocks(A.shape, len(parts), np.dtype(dtype).itemsize))
        # Few rows are shared out block by block: BLAS's threads gain little, and would go on waiting for work.
        # Not those that are copied to a wider type, which takes memory.
        most = _SMALL_PRODUCT if A.dtype == dtype else 0
        with few_threads(len(rows) * len(others), most) as is_ours:
            n_workers = n_threads(rows.size * len(others)) if is_ours else 1
            for P in on_threads(product, blocks, n_workers):
                G[first, second] += P
                del P  # before the next one is made
        if others is not rows:
            G[second, first] = G[first, second].T
        del rows, others, product
    return G


def _shifted_product(rows: Array, others: Array, shift: MaybeArray, dtype, columns: slice) -> Array:
    """(rows − shift)(others − shift)ᵀ over a block of columns; without a shift they are as they should be."""
    left, right = rows[:, columns], others[:, columns]
    if shift is not None:
        origin = shift[columns].astype(dtype)
        left = np.subtract(left, origin, dtype=dtype)
        right = left if others is rows else np.subtract(right, origin, dtype=dtype)
    return left @ right.T


def _pairs(n_parts: int) -> list[tuple[int, int]]:
    """All pairs i ≤ j, in an order in which most share a part with the one before."""
    return [(i, j) for j in range(n_parts) for i in dict.fromkeys([0, j, *range(1, j)])]


def _rows(A: Array | NormalizedSamples, samples: slice) -> Array:
    return A[samples] if isinstance(A, np.ndarray) else A.rows(samples)


def _column_blocks(shape: tuple[int, ...], n_parts: int = 1, itemsize: int = 8) -> Iterator[slice]:
    """Slices of columns whose copies are small against the design, and long enough for a fast product.

    Those of parts of the rows may be longer, and need to be.
    """
    n_samples, n_features = shape
    step = max(256, max(_BLOCK_ENTRIES, n_samples * n_features // 32) // n_samples)
    step *= (4 * n_parts if n_parts > 1 else 16) // itemsize
    for start in range(0, n_features, step):
        yield slice(start, start + step)


def _dual_to_primal(A: Array | NormalizedSamples, duals: Array) -> Array:
    """W = duals A in float64."""
    n_samples, n_features = A.shape
    W = np.zeros((len(duals), n_features))
    for samples in [slice(0, n_samples)] if isinstance(A, np.ndarray) else A.parts():
        add_column_products(_rows(A, samples), np.ascontiguousarray(duals[:, samples]), W)
    return W


def _square_root(G: Array) -> tuple[Array, Array]:
    """Roots of the eigenvalues of G that are not rounding errors, and their eigenvectors."""
    values, vectors = np.linalg.eigh(G)
    kept = values > len(G) * np.finfo(float).eps * max(values[-1], np.finfo(float).tiny)
    kept[-1] = True  # at least one column, so that shapes stay ordinary when G = 0
    return np.sqrt(values[kept].clip(np.finfo(float).tiny)), vectors[:, kept]
