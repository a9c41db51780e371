"""The ridge w-step for n_samples ≤ n_features: Newton's method on the Gram matrix, in n_samples dimensions.

Coefficients are w = Aᵀa, known by a, so that only G = AAᵀ is needed. In the metric of w the gradient Aᵀρ is
known by ρ, and inner products ⟨Aᵀx, Aᵀρ⟩ = x·Gρ need Gρ. Vectors therefore have three parts: a gradient (Gρ,
ρ, its entry for b), a step (x, 0, its entry for b), and the inner product of one with the other is the plain
one.

A single fit is preconditioned with a factor of its own at every step, which solves it in one product. Fits
that differ by the samples they leave out run in lockstep and share one inverse: that of the system of a fit
to all samples. Leaving out the samples E changes an inverse by its blocks at E alone,

    (K_TT)⁻¹ = (K⁻¹)_TT − (K⁻¹)_TE ((K⁻¹)_EE)⁻¹ (K⁻¹)_ET,

so that every fold has nearly the inverse of its own system at the cost of a few products of matrices.

Losses with several outputs, or that couple samples, are fitted on a square root of the Gram matrix by
:mod:`suquan.solvers.ridge_features`. :class:`suquan.solvers.linear.RidgeDesign` calls :class:`GramSolver`.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from suquan._blocks import on_threads, row_blocks
from suquan.losses import Loss
from suquan.solvers._products import (
    Array,
    MaybeArray,
    cholesky,
    cholesky_inverse,
    cholesky_solve,
    column_products,
    n_threads,
)
from suquan.solvers.newton import (
    LinearFit,
    Point,
    Product,
    damped_curvature,
    lower,
    negligible,
    newton,
)
from suquan.solvers.ridge_features import FeatureSolver

# Products for one Newton step; fits that need more are left to a factor of their own.
_MAX_PRODUCTS = 60
# Folds that run in lockstep; all of them, one per sample, would take much memory.
_MOST_FOLDS = 32


class DualProblem:
    """Fits in the dual coefficients, as Newton's method takes them: theta is (a, 0, b).

    Parameters
    ----------
    G : ndarray of shape (n_samples, n_samples)
        Gram matrix of the centred design.
    loss : Loss
        With one output and no coupling of samples.
    y : ndarray of shape (n_samples,)
    S : ndarray of shape (n_fits, n_samples)
    alpha : float
    fit_intercept : bool
    """

    max_products = _MAX_PRODUCTS

    def __init__(self, G: Array, loss: Loss, y: Array, S: Array, alpha: float, fit_intercept: bool):
        self.G, self.loss, self.y, self.S, self.alpha = G, loss, y, S, alpha
        self.fit_intercept = fit_intercept
        self.kept = S > 0.0
        # With an intercept the sum of a is known, so that b takes up a constant that is added to G: without it
        # the matrix would be nearly singular along the samples' mean.
        self.shift = float(np.trace(G)) / len(G) if fit_intercept else 0.0
        self.shared: FoldInverse | None = None
        self._known: tuple[list[Point], Array] | None = None

    def point(self, k: int, a: Array, b: float, v: Array) -> Point:
        """Fit k at the coefficients a and the intercept b, with v = G a."""
        theta = np.concatenate([a, np.zeros(len(a)), [b]])[None]
        value = self.loss.value(*self._at(k, v + b))
        return Point(theta, value + self.alpha * float(a @ v), v + b)

    def evaluate(self, fits: Array, theta: Array) -> list[Point]:
        """Objectives at theta, without what theta has of samples that a fit leaves out."""
        a = theta[:, 0, : len(self.G)] * self.kept[fits]
        of_fits = zip(fits.tolist(), a, theta[:, 0, -1].tolist(), a @ self.G, strict=True)
        return [self.point(*of_fit) for of_fit in of_fits]

    def gradients(self, fits: Array, points: list[Point]) -> Array:
        """The parts (Gρ, ρ, Σ slopes) of the gradients, with ρ = slopes + 2 alpha a."""
        of_fits = zip(fits.tolist(), points, strict=True)
        slopes = np.stack([self.loss.gradient(*self._at(k, point.u)) for k, point in of_fits])
        a = np.concatenate([point.theta[:, : len(self.G)] for point in points])
        return self._gradient(slopes + 2.0 * self.alpha * a, slopes)

    def hessian(self, fits: Array, points: list[Point]) -> Product:
        """Products with the Hessians."""
        d = self._diagonals(fits, points)

        def product(V: Array) -> Array:
            x = V[:, 0, : len(self.G)]
            change = d * (x @ self.G + V[:, 0, -1:])
            return self._gradient(change + 2.0 * self.alpha * x, change)

        return product

    def preconditioner(self, fits: Array, points: list[Point]) -> Product:
        """Inverse Hessians: exact, or where the fits share an inverse, exact at the curvature of its start."""
        if self.shared is not None:
            return self._solver(self.shared.roots[fits], fits, self.shared.solve)
        roots = np.sqrt(self._diagonals(fits, points))
        factors = [cholesky(self.system(root)) for root in roots]

        def solve(Q: Array, fits: Array) -> Array:
            return np.stack([cholesky_solve(*pair) for pair in zip(factors, Q, strict=True)])

        return self._solver(roots, fits, solve)

    def system(self, root: Array) -> Array:
        """B = 2 alpha + diag(root) (G + shift) diag(root), definite where the curvature vanishes too."""
        B = self.G + self.shift
        B *= root
        B *= root[:, None]
        B.flat[:: len(B) + 1] += 2.0 * self.alpha
        return B

    def _at(self, k: int, u: Array) -> tuple[Array, Array, Array]:
        """Labels, scores and weights of fit k; scores are 0 where the weight is, so that none overflows."""
        return self.y, np.where(self.kept[k], u, 0.0), self.S[k]

    def _diagonals(self, fits: Array, points: list[Point]) -> Array:
        """Curvatures of the fits, which a Newton step asks for twice."""
        if self._known is None or self._known[0] is not points:
            of_fits = zip(fits.tolist(), points, strict=True)
            found = [damped_curvature(self.loss, *self._at(k, p.u), p.damping) for k, p in of_fits]
            self._known = points, np.stack([curvature.diagonal() for curvature in found])
        return self._known[1]

    def _gradient(self, rho: Array, slopes: Array) -> Array:
        totals = slopes.sum(axis=1, keepdims=True) * self.fit_intercept
        return np.concatenate([rho @ self.G, rho, totals], axis=1)[:, None]

    def _solver(self, roots: Array, fits: Array, solve) -> Product:
        """Inverse of the Hessians with curvatures roots², from a function that solves the :meth:`system`.

        A gradient (Gρ, ρ, r_b) is D (G x + b) + 2 alpha x = ρ, Σ D (G x + b) = r_b for the step (x, 0, b).
        """
        n, twice_alpha = len(self.G), 2.0 * self.alpha
        along_b = roots * solve(roots, fits) if self.fit_intercept else np.zeros_like(roots)
        total = twice_alpha * along_b.sum(axis=1)  # 0 where all curvature vanishes

        def inverse(R: Array) -> Array:
            G_rho, rho, r_b = R[:, 0, :n], R[:, 0, n:-1], R[:, 0, -1]
            rhs = roots * (G_rho + self.shift * rho.sum(axis=1, keepdims=True))
            along_rho = roots * solve(rhs, fits)
            out = np.zeros_like(R)
            x = out[:, 0, :n]
            np.subtract(rho, along_rho, out=x)
            x /= twice_alpha
            if self.fit_intercept:
                rest = r_b - along_rho.sum(axis=1)
                b = np.divide(rest, total, out=np.zeros(len(R)), where=total > 0.0)
                x -= b[:, None] * along_b
                out[:, 0, -1] = b + self.shift * x.sum(axis=1)
            return out

        return inverse


class FoldInverse:
    """Inverses of the systems of folds: exact at the curvature of their common start, for equal weights."""

    def __init__(self, problem: DualProblem, start: Point):
        S, kept = problem.S, problem.kept
        # Weights of the fits that have the sample.
        s = S.sum(axis=0) / np.maximum(kept.sum(axis=0), 1)
        curvature = damped_curvature(problem.loss, problem.y, start.u, s, start.damping)
        root = np.sqrt(curvature.diagonal())
        self.inverse = cholesky_inverse(cholesky(problem.system(root)))
        self.roots = root * kept
        self.left_out = [np.flatnonzero(~has) for has in kept]
        self.corners = [np.linalg.inv(self.inverse[np.ix_(out, out)]) for out in self.left_out]

    def solve(self, Q: Array, fits: Array) -> Array:
        """Solve the system of every fit for the rows of Q, which are 0 for samples left out."""
        Z, Q = Q @ self.inverse, Q.copy()
        for q, z, k in zip(Q, Z, fits.tolist(), strict=True):
            q[self.left_out[k]] = -(self.corners[k] @ z[self.left_out[k]])
        return Q @ self.inverse


class GramSolver:
    """Fits from the Gram matrix of the centred design.

    Parameters
    ----------
    G : ndarray of shape (n_samples, n_samples)
        Centred where an intercept is fitted.
    fit_intercept : bool
    A : ndarray of shape (n_samples, n_features), optional
        The design, for the coefficients w.
    row_means : ndarray of shape (n_samples,), optional
        Means of the rows of the Gram matrix before it was centred, where A is not known.
    """

    def __init__(
        self, G: Array, fit_intercept: bool, A: MaybeArray = None, row_means: MaybeArray = None
    ):
        self.G, self.fit_intercept, self.A, self.row_means = G, fit_intercept, A, row_means
        self._root: tuple[FeatureSolver, Array, Array] | None = None

    @classmethod
    def from_design(cls, A: Array, fit_intercept: bool) -> GramSolver:
        """Solver of the design A, whose Gram matrix is computed in float64."""
        means = A.mean(axis=0) if fit_intercept else np.zeros(A.shape[1], A.dtype)
        G = _gram(A, means)
        if fit_intercept:
            _centre(G)  # the means were rounded
        return cls(G, fit_intercept, A)

    @classmethod
    def from_gram(cls, G: Array, fit_intercept: bool) -> GramSolver:
        """Solver of a design that is known by its Gram matrix alone."""
        G = np.array(G, dtype=np.float64, order="C")
        row_means = _centre(G) if fit_intercept else np.zeros(len(G))
        return cls(G, fit_intercept, row_means=row_means)

    def solve_batch(self, loss, y, S, alpha, tol, max_iter, start) -> list[LinearFit]:
        """Fits with their dual coefficients and b of the centred design, for :meth:`complete` to complete."""
        if loss.n_outputs > 1 or loss.couples_samples:
            return self._solve_on_root(loss, y, S, alpha, tol, max_iter, start)
        options = (alpha, tol, max_iter, start)
        # One inverse serves several fits that leave out at most half of the samples each.
        n_left_out = (S == 0.0).sum(axis=1).max()
        knows_all = start is not None and start.dual is not None
        if not (knows_all and len(S) > 2 and 2 * n_left_out <= S.shape[1]):
            return [self._solve(loss, y, s[None], *options)[0] for s in S]
        fits = []
        for first in range(0, len(S), _MOST_FOLDS):
            some = S[first : first + _MOST_FOLDS]
            folds = self._solve(loss, y, some, *options, shared=True)
            for k in [k for k, fit in enumerate(folds) if not fit.converged]:
                folds[k] = self._solve(loss, y, some[k][None], *options)[0]
            fits += folds
        return fits

    def complete(self, fits: list[LinearFit]) -> list[LinearFit]:
        """Add w, and move b from the centred design to the one given."""
        duals = np.concatenate([fit.dual for fit in fits])
        coefs: MaybeArray = None
        if self.A is None:
            shifts = duals @ self.row_means
        else:
            equal = np.full((1, duals.shape[1]), 1.0 / duals.shape[1])
            both = column_products(self.A, np.concatenate([duals, equal]))
            coefs, means = both[:-1], both[-1]
            shifts = coefs @ means
        completed, first = [], 0
        for fit in fits:
            rows = slice(first, first + len(fit.b))
            first = rows.stop
            b = fit.b - shifts[rows] if self.fit_intercept else fit.b
            completed.append(replace(fit, w=None if coefs is None else coefs[rows], b=b))
        return completed

    def _solve(
        self, loss, y, S, alpha, tol, max_iter, start, *, shared: bool = False
    ) -> list[LinearFit]:
        """Fits in lockstep; `shared`: from the start, the fit to all their samples, with one inverse."""
        problem = DualProblem(self.G, loss, y, S, alpha, self.fit_intercept)
        points = [self._start(problem, k, start, shared) for k in range(len(S))]
        if shared:
            problem.shared = FoldInverse(problem, points[0])
        floor = negligible(loss, y, S.mean(axis=0))
        n_samples = len(y)
        return [
            LinearFit(
                None, point.theta[:, -1].copy(), point.u, point.objective, n_iter, criterion,
                criterion <= tol, point.theta[:, :n_samples].copy(), self,
            )
            for point, n_iter, criterion in newton(problem, points, floor, tol, max_iter)
        ]  # fmt: skip

    def _start(
        self, problem: DualProblem, k: int, start: LinearFit | None, with_left_out: bool
    ) -> Point:
        """The start where it is better than the best constant.

        Of samples that are left out the start has nothing; folds drop their part with the first Newton step.
        """
        s = problem.S[k]
        b = float(problem.loss.best_constant(problem.y, s)[0]) if self.fit_intercept else 0.0
        constant = problem.point(k, np.zeros(len(s)), b, np.zeros(len(s)))
        if start is not None and start.dual is not None and start.dual.shape == (1, len(s)):
            a = start.dual[0] if with_left_out else np.where(s > 0.0, start.dual[0], 0.0)
            v = self.G @ a
            # The start's intercept may refer to another centring: its scores do not.
            b = float((start.u - self.G @ start.dual[0]) @ s) if self.fit_intercept else 0.0
            return lower(constant, problem.point(k, a, b, v))
        return constant

    def _solve_on_root(self, loss, y, S, alpha, tol, max_iter, start) -> list[LinearFit]:
        """Fits on a square root Z of G, ZZᵀ = G: a system of all outputs and samples would be too large."""
        if self._root is None:
            roots, vectors = _square_root(self.G)
            self._root = FeatureSolver(vectors * roots, self.fit_intercept), roots, vectors
        solver, roots, vectors = self._root
        if start is not None and start.dual is not None and start.dual.shape[1] == len(y):
            scores = np.reshape(start.u, (len(y), -1)).T
            b = (scores - start.dual @ self.G) @ S.mean(axis=0)
            w = (start.dual @ vectors) * roots
            known = solver if start.design is self else None
            start = replace(start, w=w, b=b if self.fit_intercept else 0.0 * b, design=known)
        fits = solver.solve_batch(loss, y, S, alpha, tol, max_iter, start)
        inverse = vectors / roots
        if self.fit_intercept:  # of sum 0, but for the rounding of the smallest eigenvalues
            inverse -= inverse.mean(axis=0)
        return [replace(fit, dual=fit.w @ inverse.T, w=None, design=self) for fit in fits]


def _centre(G: Array) -> Array:
    """Turn the Gram matrix of rows into that of the rows less their mean; the means of its rows before."""
    row_means = G.mean(axis=1)
    G -= row_means[:, None] - row_means.mean()
    G -= row_means
    return row_means


def _gram(A: Array, means: Array) -> Array:
    """(A − means)(A − means)ᵀ in float64, summed over blocks of columns."""
    n_samples, n_features = A.shape

    def part(columns: slice) -> Array:
        block = A[:, columns] - means[columns].astype(np.float64)
        return block @ block.T

    G = np.zeros((n_samples, n_samples))
    # Blocks with at least as many columns as rows: a product then costs more than adding it up.
    blocks = list(row_blocks(n_features, min(n_samples, 512)))
    for product in on_threads(part, blocks, n_threads(A.size * n_samples)):
        G += product
    return G


def _square_root(G: Array) -> tuple[Array, Array]:
    """Roots of the eigenvalues of G that are not rounding errors, and their eigenvectors."""
    values, vectors = np.linalg.eigh(G)
    kept = values > len(G) * np.finfo(float).eps * max(values[-1], np.finfo(float).tiny)
    kept[-1] = True  # at least one column, so that shapes stay ordinary when G = 0
    return np.sqrt(values[kept].clip(np.finfo(float).tiny)), vectors[:, kept]
