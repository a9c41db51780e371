"""The w-step: penalised linear models on a fixed design.

    min over (w, b)   Σ_i s_i ℓ(y_i, A_i·w + b) + alpha [(1 − l1_ratio) ‖w‖² + l1_ratio ‖w‖₁]

with weights s of sum 1 and an intercept b that is not penalised. This module solves l1_ratio = 0;
:mod:`suquan.solvers.elastic_net` the rest. Two ways, by the shape of the design:

- n_samples ≤ n_features: w = Aᵀa, so only the Gram matrix AAᵀ is needed; Newton in n_samples dimensions.
- n_samples > n_features: Newton with conjugate gradients, all fits of a batch in lockstep, so that every
  product with A is a matrix product. Its preconditioner is built only once the iterations without it
  have cost as much as building it.

**Stopping.** ``criterion`` is half the squared Newton decrement, ½ gᵀH⁻¹g, over the objective: the
relative gap J/J* − 1 to second order, free of any scale. It is measured before the last step, so the point
returned is closer than it says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack
from threadpoolctl import ThreadpoolController

from suquan._kernels.coordinate_descent import column_products, row_products
from suquan.losses import Logistic, Loss, Softmax, Squared

__all__ = ["LinearFit", "RidgeDesign", "null_intercept", "solve_w"]

Array = NDArray[Any]
# An array, or None where the fit or design has none; callers that know which need not narrow it.
MaybeArray = Any

TOL = 1e-8
MAX_ITER = 200
# Log-odds given to a class that is absent: its loss is 1e-22, and the exponentials stay finite.
_RAREST = 1e-22
# An objective below this fraction of the loss at zero scores counts as zero.
_NEGLIGIBLE = 1e-12
# Relative rounding of a float32 Gram matrix, entry (i, j) against ‖A_i‖ ‖A_j‖ (measured: ≤ 1.5e-7, rms 4e-9).
_GRAM_ROUNDING = 1e-7
_CHEAP_PRODUCTS = 1e8
_BLOCK_COLUMNS = 4096
# Matrices with fewer entries than this are faster on one BLAS thread.
_ONE_THREAD = 250_000


@dataclass(frozen=True)
class LinearFit:
    """A fitted linear model; give it as ``start`` to warm-start a neighbouring problem.

    Attributes
    ----------
    w : ndarray of shape (n_outputs, n_features) or None
        Coefficients; None where the design is known by its Gram matrix alone.
    b : ndarray of shape (n_outputs,)
        Intercepts; they sum to 0 for the softmax loss.
    u : ndarray of shape (n_samples,) or (n_samples, n_outputs)
        Scores of all rows, those of weight 0 included.
    objective : float
        J(w, b).
    n_iter : int
        Newton iterations.
    criterion : float
        Estimate of J/J* − 1 before the last step (l1_ratio = 0), or the scaled violation of the
        optimality conditions (l1_ratio > 0).
    converged : bool
        Whether ``criterion`` came below ``tol``.
    dual : ndarray of shape (n_outputs, n_samples) or None
        Coefficients a with w = a A, where they were computed.
    design : object
        Opaque: what the fit was computed on, so that a start on the same design reuses ``u``.
    """

    w: MaybeArray
    b: Array
    u: Array
    objective: float
    n_iter: int
    criterion: float
    converged: bool
    dual: MaybeArray = None
    design: object = field(default=None, repr=False, compare=False)


def null_intercept(loss: Loss, y: Array, s: Array) -> Array:
    """Best intercept of the model without features, shape (n_outputs,)."""
    if isinstance(loss, Squared):
        return np.array([s @ y])
    if isinstance(loss, Logistic):
        positive, negative = np.log(np.maximum([s @ (y > 0), s @ (y <= 0)], _RAREST))
        return np.array([positive - negative])
    frequency = np.bincount(y, weights=s, minlength=loss.n_outputs)
    b = np.log(np.maximum(frequency, _RAREST))
    return b - b.mean()


def solve_w(
    A: Array,
    loss: Loss,
    y: Array,
    s: Array,
    alpha: float,
    l1_ratio: float = 0.0,
    *,
    fit_intercept: bool = True,
    tol: float = TOL,
    max_iter: int = MAX_ITER,
    start: LinearFit | None = None,
) -> LinearFit:
    """Minimise Σ s_i ℓ(y_i, A_i·w + b) + alpha [(1 − l1_ratio) ‖w‖² + l1_ratio ‖w‖₁] once.

    Parameters
    ----------
    A : ndarray of shape (n_samples, n_features), float32 or float64
    loss : Loss
    y : ndarray of shape (n_samples,)
        Encoded labels, as ``loss`` wants them.
    s : ndarray of shape (n_samples,)
        Weights ≥ 0; they are divided by their sum.
    alpha : float
        Strength of the penalty, > 0.
    l1_ratio : float, default=0.0
        Between 0 and 1.
    fit_intercept : bool, default=True
    tol : float, default=1e-8
    max_iter : int, default=200
    start : LinearFit, optional

    Returns
    -------
    LinearFit

    Examples
    --------
    >>> import numpy as np
    >>> from suquan.losses import Squared
    >>> A, y = np.array([[0.0], [1.0], [2.0]]), np.array([0.0, 1.0, 2.0])
    >>> fit = solve_w(A, Squared(), y, np.ones(3), alpha=1e-12)
    >>> fit.w.round(6), fit.converged
    (array([[1.]]), True)
    """
    if l1_ratio > 0.0:
        from suquan.solvers.elastic_net import solve_elastic_net

        return solve_elastic_net(
            A, loss, y, s, alpha, l1_ratio,
            fit_intercept=fit_intercept, tol=tol, max_iter=max_iter, start=start,
        )  # fmt: skip
    design = RidgeDesign(A, fit_intercept=fit_intercept)
    return design.solve(loss, y, s, alpha, tol=tol, max_iter=max_iter, start=start)


def _predict(before: LinearFit, last: LinearFit, alpha_before, alpha_last, alpha) -> LinearFit:
    """Extrapolate a path linearly in log alpha, as the margins of separable data grow."""
    if not alpha_before > alpha_last:
        return last
    t = np.log(alpha_last / alpha) / np.log(alpha_before / alpha_last)

    def ahead(old, new):
        return None if old is None or new is None else new + t * (new - old)

    w, dual = ahead(before.w, last.w), ahead(before.dual, last.dual)
    return replace(
        last, w=w, dual=dual, b=ahead(before.b, last.b), u=ahead(before.u, last.u)
    )  # fmt: skip


def _better(loss, y, s, alpha, first: LinearFit, second: LinearFit) -> LinearFit:
    """The start of the lower objective; neither needs a product with the design."""

    def objective(fit):
        if fit.w is None:  # b is that of the centred design, so that aᵀGa = a·(u − b)
            norm2 = np.sum(fit.dual * (fit.u.T - fit.b[:, None]))
        else:
            norm2 = np.sum(fit.w**2)
        return s @ loss.value(y, fit.u) + alpha * norm2

    return first if objective(first) < objective(second) else second


class RidgeDesign:
    """A design whose ridge problems, for any alpha, labels and weights, share one factorisation.

    Parameters
    ----------
    A : ndarray of shape (n_samples, n_features), float32 or float64
        Not copied where it is C-contiguous; must not change while the design is in use.
    fit_intercept : bool, default=True

    Examples
    --------
    >>> import numpy as np
    >>> from suquan.losses import Logistic
    >>> A, y = np.array([[0.0, 1.0], [1.0, 0.0], [2.0, 3.0]]), np.array([-1, 1, 1])
    >>> design = RidgeDesign(A)
    >>> [round(fit.objective, 3) for fit in design.solve_path(Logistic(), y, np.ones(3), [1.0, 0.1])]
    [0.609, 0.474]
    """

    def __init__(self, A: Array, *, fit_intercept: bool = True):
        A = _as_floats(A)
        n_samples, n_features = A.shape
        self.fit_intercept = fit_intercept
        self._solver: _GramSolver | _PrimalSolver
        if n_samples <= n_features:
            self._solver = _GramSolver.from_design(A, fit_intercept)
        else:
            self._solver = _PrimalSolver(A, fit_intercept)

    @classmethod
    def from_gram(cls, G: Array, *, fit_intercept: bool = True) -> RidgeDesign:
        """Design known by its Gram matrix G = AAᵀ alone; its fits have ``dual`` and no ``w``.

        Parameters
        ----------
        G : ndarray of shape (n_samples, n_samples)
        fit_intercept : bool, default=True

        Returns
        -------
        RidgeDesign
        """
        design = cls.__new__(cls)
        design.fit_intercept = fit_intercept
        design._solver = _GramSolver.from_gram(G, fit_intercept)
        return design

    def solve(
        self,
        loss: Loss,
        y: Array,
        s: Array,
        alpha: float,
        *,
        tol: float = TOL,
        max_iter: int = MAX_ITER,
        start: LinearFit | None = None,
    ) -> LinearFit:
        """One fit; parameters as for :func:`solve_w`."""
        S = _normalised(np.asarray(s)[None])
        return self._solver.solve_batch(loss, y, S, alpha, tol, max_iter, start)[0]

    def solve_many(
        self,
        loss: Loss,
        y: Array,
        S: Array,
        alpha: float,
        *,
        tol: float = TOL,
        max_iter: int = MAX_ITER,
        start: LinearFit | None = None,
    ) -> list[LinearFit]:
        """Fits that differ by their weights only, such as the models of a cross-validation.

        Parameters
        ----------
        loss, y, alpha, tol, max_iter
            As for :func:`solve_w`.
        S : ndarray of shape (n_fits, n_samples)
            Weights of each fit; 0 leaves a row out.
        start : LinearFit, optional
            Start of every fit; by default the fit to the mean weights.

        Returns
        -------
        list of n_fits LinearFit
        """
        S = _normalised(S)
        if start is None and len(S) > 2:
            middle = S.mean(axis=0)[None]
            loose = max(tol, 1e-4)
            start = self._solver.solve_batch(loss, y, middle, alpha, loose, max_iter, None)[0]
        return self._solver.solve_batch(loss, y, S, alpha, tol, max_iter, start)

    def solve_path(
        self,
        loss: Loss,
        y: Array,
        s: Array,
        alphas: Sequence[float],
        *,
        tol: float = TOL,
        max_iter: int = MAX_ITER,
        start: LinearFit | None = None,
    ) -> list[LinearFit]:
        """Fits for several alphas, warm-started from the largest to the smallest.

        Parameters
        ----------
        loss, y, s, tol, max_iter, start
            As for :func:`solve_w`.
        alphas : sequence of float

        Returns
        -------
        list of LinearFit
            In the order of ``alphas``.
        """
        S = _normalised(np.asarray(s)[None])
        fits: dict[int, LinearFit] = {}
        done: list[int] = []
        for k in np.argsort(alphas)[::-1].tolist():
            if len(done) > 1:
                start = _predict(
                    fits[done[-2]], fits[done[-1]], *(alphas[j] for j in (*done[-2:], k))
                )
                start = _better(loss, y, S[0], alphas[k], start, fits[done[-1]])
            (start,) = self._solver.reduced_batch(loss, y, S, alphas[k], tol, max_iter, start)
            fits[k] = start
            done.append(k)
        return self._solver.complete([fits[k] for k in range(len(alphas))], alphas)


# ---------------------------------------------------------------------------------------------------
# n_samples ≤ n_features: Newton on the Gram matrix
# ---------------------------------------------------------------------------------------------------


class _GramSolver:
    """Solves in the dual coefficients a (w = Aᵀa), from the Gram matrix of the centred design."""

    def __init__(self, G: Array, fit_intercept: bool, exact: bool):
        self.G = G
        self.fit_intercept = fit_intercept
        self.exact = exact  # whether G carries float64 accuracy
        self.A: MaybeArray = None
        self.column_means: MaybeArray = None
        self.row_means: MaybeArray = None
        self._reduced: _PrimalSolver | None = None

    @classmethod
    def from_design(cls, A: Array, fit_intercept: bool) -> _GramSolver:
        means = _column_means(A) if fit_intercept else np.zeros(A.shape[1])
        # Where the products take no time there is no reason to round them.
        dtype = A.dtype if len(A) * A.size > _CHEAP_PRODUCTS else np.dtype(np.float64)
        solver = cls(_centred_gram(A, means, dtype), fit_intercept, exact=dtype == np.float64)
        solver.A, solver.column_means = A, means
        return solver

    @classmethod
    def from_gram(cls, G: Array, fit_intercept: bool) -> _GramSolver:
        G = np.array(G, dtype=np.float64)
        row_means = G.mean(axis=1)
        if fit_intercept:
            G += row_means.mean() - row_means[:, None] - row_means
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
        with _few_threads(self.G.size):
            return [self._solve_one(loss, y, s, alpha, tol, max_iter, start) for s in S]

    def complete(self, fits: list[LinearFit], alphas: Sequence[float]) -> list[LinearFit]:
        """Add w, and move b from the centred design to the one given."""
        duals = np.concatenate([fit.dual for fit in fits])
        coefs: MaybeArray = None if self.A is None else _dual_to_primal(self.A, duals)
        shifts = duals @ self.row_means if coefs is None else coefs @ self.column_means
        completed = []
        for k, (fit, alpha) in enumerate(zip(fits, alphas, strict=True)):
            rows = slice(k * len(fit.b), (k + 1) * len(fit.b))
            w = None if coefs is None else coefs[rows]
            b = _sum_to_zero(fit.b - shifts[rows]) if self.fit_intercept else fit.b
            objective = fit.objective
            if not self.exact:
                # Rounding δG in G moved it by alpha aᵀδGa, to first order at an optimum.
                norm2 = np.sum(fit.dual * (fit.u.T - fit.b[:, None]))
                objective += alpha * float(norm2 - np.vdot(coefs[rows], coefs[rows]))
            completed.append(replace(fit, w=w, b=b, objective=objective))
        return completed

    def _solve_one(self, loss, y, s, alpha, tol, max_iter, start) -> LinearFit:
        rows = np.flatnonzero(s)
        G = self.G if len(rows) == len(s) else self.G[np.ix_(rows, rows)]
        a, b = self._start(loss, y, s, start)
        point = _newton_dual(
            G, loss, y[rows], s[rows], alpha, self.fit_intercept, a[0, rows], b[0], tol, max_iter
        )
        dual = np.zeros((1, len(s)))
        dual[0, rows] = point.a
        fit = LinearFit(
            None, np.array([point.b]), self.G @ dual[0] + point.b,
            point.objective, point.n_iter, point.criterion, point.criterion <= tol, dual, self,
        )  # fmt: skip
        if not self.exact and self._rounding_matters(loss, y, s, fit, tol):
            self._refine()
            return self._solve_one(loss, y, s, alpha, tol, max_iter, fit)
        return fit

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
        self.G = _centred_gram(self.A, self.column_means, np.float64)
        self.exact = True

    def _solve_softmax(self, loss, y, S, alpha, tol, max_iter, start) -> list[LinearFit]:
        """Classes are coupled, so no n × n system: work on a square root Z of G, ZZᵀ = G."""
        if self._reduced is None:
            if not self.exact and self.A is not None:
                self._refine()
            self._roots, self._vectors = _square_root(self.G)
            self._reduced = _PrimalSolver(self._vectors * self._roots, self.fit_intercept)
        if start is not None:
            a, b = self._start(loss, y, S.mean(axis=0), start)
            start = replace(start, w=(a @ self._vectors) * self._roots, b=b)
        fits = self._reduced.solve_batch(loss, y, S, alpha, tol, max_iter, start)
        inverse = self._vectors / self._roots
        return [replace(fit, dual=fit.w @ inverse.T, w=None) for fit in fits]


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
    v = G @ a
    point = _DualPoint(a, b, v, _dual_objective(loss, y, s, alpha, a, v, b))
    floor = _negligible(loss, y, s)
    while point.n_iter < max_iter and point.criterion > tol:
        step_a, step_b, gradient_a, gradient_b = _dual_newton_step(
            G, loss, y, s, alpha, fit_intercept, point
        )
        step_v = G @ step_a
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
    B = G * root
    B *= root[:, None]
    B.flat[:: len(B) + 1] += 2.0 * alpha
    factor = _cholesky(B)
    along_rho = (rho - root * _cholesky_solve(factor, root * (G @ rho))) / (2.0 * alpha)
    if not fit_intercept:
        return -along_rho, 0.0, rho, 0.0
    along_b = root * _cholesky_solve(factor, root)
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


def _centred_gram(A: Array, means: Array, dtype) -> Array:
    """(A − means)(A − means)ᵀ: products in ``dtype``, summed over blocks of columns in float64."""
    G = np.zeros((len(A), len(A)))
    for start in range(0, A.shape[1], _BLOCK_COLUMNS):
        columns = slice(start, start + _BLOCK_COLUMNS)
        block = np.subtract(A[:, columns], means[columns].astype(dtype), dtype=dtype)
        G += block @ block.T
    return G


def _dual_to_primal(A: Array, duals: Array) -> Array:
    """W = duals A in float64, a block of columns at a time."""
    W = np.empty((len(duals), A.shape[1]))
    for start in range(0, A.shape[1], _BLOCK_COLUMNS):
        columns = slice(start, start + _BLOCK_COLUMNS)
        W[:, columns] = duals @ A[:, columns].astype(np.float64, copy=False)
    return W


def _square_root(G: Array) -> tuple[Array, Array]:
    """Roots of the eigenvalues of G that are not rounding errors, and their eigenvectors."""
    values, vectors = np.linalg.eigh(G)
    kept = values > len(G) * np.finfo(float).eps * max(values[-1], np.finfo(float).tiny)
    kept[-1] = True  # at least one column, so that shapes stay ordinary when G = 0
    return np.sqrt(values[kept].clip(np.finfo(float).tiny)), vectors[:, kept]


# ---------------------------------------------------------------------------------------------------
# n_samples > n_features: Newton with preconditioned conjugate gradients, in lockstep over fits
# ---------------------------------------------------------------------------------------------------


class _CentredProducts:
    """Products with the design [A − 1 meansᵀ, 1], whose last coefficient is the intercept.

    ``scores`` and ``adjoint`` are accurate to float64; their ``fast_`` twins run in the dtype of A and
    serve inside conjugate gradients, whose result is only a search direction.
    """

    def __init__(self, A: Array, fit_intercept: bool):
        self.fit_intercept = fit_intercept
        self.means = _column_means(A) if fit_intercept else np.zeros(A.shape[1])
        self.offset = self.means  # what b must give back: u = A w + b − offset·w
        if fit_intercept and _offsets_are_large(A, self.means):
            A = A - self.means  # implicit centring would cancel too many digits
            self.means = np.zeros(A.shape[1])
        self.A = A

    def scores(self, theta: Array) -> Array:
        return self._add_intercept(_row_products(self.A, theta[:, :-1]), theta)

    def fast_scores(self, theta: Array) -> Array:
        products = theta[:, :-1].astype(self.A.dtype, copy=False) @ self.A.T
        return self._add_intercept(products, theta)

    def adjoint(self, R: Array) -> Array:
        return self._append_sum(_column_products(self.A, R), R)

    def fast_adjoint(self, R: Array) -> Array:
        return self._append_sum(R.astype(self.A.dtype, copy=False) @ self.A, R)

    def covariance(self, d: Array | None = None) -> Array:
        """Hessian part Ãᵀ diag(d) Ã of shape (p + 1, p + 1); d = 1/n by default."""
        n_samples = len(self.A)
        if d is None:
            weighted = self.A
            cross, total = np.zeros(self.A.shape[1]), 1.0
            products = (weighted.T @ weighted).astype(np.float64) / n_samples
            products -= np.outer(self.means, self.means)
        else:
            weighted = self.A * np.sqrt(d).astype(self.A.dtype)[:, None]
            products = (weighted.T @ weighted).astype(np.float64)
            total = d.sum()
            sums = d @ self.A
            cross = sums - total * self.means
            products -= np.outer(self.means, cross) + np.outer(sums, self.means)
        H = np.empty((len(products) + 1,) * 2)
        H[:-1, :-1] = products
        H[-1, :-1] = H[:-1, -1] = cross if self.fit_intercept else 0.0
        H[-1, -1] = total if self.fit_intercept else 1.0
        return H

    def _add_intercept(self, products: Array, theta: Array) -> Array:
        if not self.fit_intercept:
            return products
        return products + (theta[:, -1] - theta[:, :-1] @ self.means)[:, None]

    def _append_sum(self, products: Array, R: Array) -> Array:
        gradient = np.zeros((len(R), self.A.shape[1] + 1))
        gradient[:, :-1] = products
        if self.fit_intercept:
            gradient[:, -1] = R.sum(axis=1)
            gradient[:, :-1] -= gradient[:, -1:] * self.means
        return gradient


class _PrimalSolver:
    """Newton-CG on (w, b), in lockstep over a batch of weights."""

    def __init__(self, A: Array, fit_intercept: bool):
        self.products = _CentredProducts(A, fit_intercept)
        self.fit_intercept = fit_intercept
        n_features = A.shape[1]
        # Conjugate gradients that cost about as much as forming and factorising a Hessian.
        self.budget = max(4, n_features // 24)
        self.unconditioned_left = self.budget if n_features > 256 else 0
        self._covariance: Array | None = None

    @property
    def covariance(self) -> Array:
        """Covariance of the design, bordered by the intercept; computed when first asked for."""
        if self._covariance is None:
            self._covariance = self.products.covariance()
        return self._covariance

    def solve_batch(self, loss, y, S, alpha, tol, max_iter, start) -> list[LinearFit]:
        return self.reduced_batch(loss, y, S, alpha, tol, max_iter, start)

    def reduced_batch(self, loss, y, S, alpha, tol, max_iter, start) -> list[LinearFit]:
        """Fits that need no completion, unlike those from a Gram matrix."""
        with _few_threads(self.products.A.size):
            return self._newton(loss, y, S, alpha, tol, max_iter, start)

    def _newton(self, loss, y, S, alpha, tol, max_iter, start) -> list[LinearFit]:
        theta, scores = self._start(loss, y, S, start)
        batch = _Batch(self.products, loss, y, S, alpha, theta, scores)
        preconditioner = _Preconditioner(self, batch)
        for _ in range(max_iter):
            gradient, curvature = batch.derivatives()
            preconditioner.prepare(curvature)
            step, n_products, reached = _conjugate_gradients(
                partial(batch.hessian_product, curvature=curvature),
                preconditioner.apply,
                gradient,
                batch.forcing(gradient, preconditioner.apply(gradient), tol),
                preconditioner.limit,
            )
            batch.move(gradient, step, tol)
            if not len(batch.running):
                break
            preconditioner.adapt(n_products, reached)
        return [self._complete(fit) for fit in batch.fits(tol)]

    def complete(self, fits: list[LinearFit], alphas: Sequence[float]) -> list[LinearFit]:
        """Nothing is left to add."""
        return fits

    def _complete(self, fit: LinearFit) -> LinearFit:
        """Move b from the centred design to the one given."""
        shift = fit.w @ self.products.offset if self.fit_intercept else 0.0
        return replace(fit, b=_sum_to_zero(fit.b - shift), design=self)

    def _start(self, loss, y, S, start) -> tuple[Array, Array]:
        """First theta and scores of each fit."""
        theta = np.zeros((len(S), loss.n_outputs, self.products.A.shape[1] + 1))
        if start is None or start.w is None or start.w.shape != theta[0, :, :-1].shape:
            if self.fit_intercept:
                theta[:, :, -1] = [null_intercept(loss, y, s) for s in S]
            return theta, _wide(self.products.scores, theta)
        theta[:, :, :-1] = start.w
        if self.fit_intercept:
            theta[:, :, -1] = start.b + start.w @ self.products.offset
        theta = _balance_classes(loss, theta)
        if start.design is self:
            scores = start.u.reshape(len(y), -1).T
        else:
            scores = self.products.scores(theta[0])
        return theta, np.repeat(scores[None], len(S), axis=0)


class _Batch:
    """Iterates of fits that share design, labels and alpha, and differ by their weights.

    ``theta`` has shape (n_fits, n_outputs, n_features + 1), scores (n_fits, n_outputs, n_samples);
    ``running`` lists the fits that go on, and the methods work on those.
    """

    def __init__(self, products: _CentredProducts, loss, y, S, alpha, theta, scores):
        self.products, self.loss, self.y, self.S, self.alpha = products, loss, y, S, alpha
        self.theta, self.scores = theta, scores
        self.running = np.arange(len(S))
        self.objective = self._objective(theta, self.scores)
        self.floor = np.array([_negligible(loss, y, s) for s in S])
        self.criterion = np.full(len(S), np.inf)
        self.n_iter = np.zeros(len(S), dtype=int)

    def derivatives(self) -> tuple[Array, Array]:
        """Gradient in theta, and the curvature of the loss in the scores, of the running fits."""
        scores, s = self.scores[self.running], self.S[self.running, None]
        slopes = s * self._per_score(self.loss.gradient, scores)
        gradient = _wide(self.products.adjoint, slopes)
        gradient[..., :-1] += 2.0 * self.alpha * self.theta[self.running, :, :-1]
        return gradient, self._per_score(self.loss.curvature, scores)

    def hessian_product(self, V: Array, curvature: Array) -> Array:
        """Hessian times V, both of shape (n_running, n_outputs, n_features + 1)."""
        change = _wide(self.products.fast_scores, V)
        if isinstance(self.loss, Softmax):
            change -= (curvature * change).sum(axis=1, keepdims=True)
        change *= curvature * self.S[self.running, None]
        product = _wide(self.products.fast_adjoint, change)
        product[..., :-1] += 2.0 * self.alpha * V[..., :-1]
        return product

    def diagonal_curvature(self, curvature: Array) -> Array:
        """Weighted second derivative of the loss in each score, shape as the scores."""
        if isinstance(self.loss, Softmax):
            curvature = curvature * (1.0 - curvature)
        return curvature * self.S[self.running, None]

    def forcing(self, gradient: Array, scaled: Array, tol: float) -> Array:
        """Relative residual at which conjugate gradients may stop, per running fit.

        A Newton step solved to η leaves η² of the gap; less than what ``tol`` asks is wasted, and so is
        precision while the quadratic model is still poor.
        """
        gap = 0.5 * _dots(gradient, scaled) / self._scale()
        wanted = np.sqrt(0.1 * tol / np.maximum(gap, tol))
        return np.clip(wanted, np.where(gap > 1e-3, 0.1, 0.01), 0.5)

    def move(self, gradient: Array, step: Array, tol: float) -> None:
        """Backtrack along the step of each running fit, and retire those that are done."""
        running = self.running
        slope = _dots(gradient, step)
        self.criterion[running] = np.maximum(-0.5 * slope, 0.0) / self._scale()
        self.n_iter[running] += 1
        change = _wide(self.products.scores, step)
        pending, t = np.arange(len(running)), 1.0
        for _ in range(40):
            fits = running[pending]
            theta = self.theta[fits] + t * step[pending]
            scores = self.scores[fits] + t * change[pending]
            objective = self._objective(theta, scores, fits)
            good = objective <= self.objective[fits] + 1e-4 * t * slope[pending]
            done = fits[good]
            self.theta[done], self.scores[done] = theta[good], scores[good]
            self.objective[done] = objective[good]
            pending, t = pending[~good], 0.5 * t
            if not len(pending):
                break
        # A step that lowers nothing at any length is rounding: nothing more can be gained.
        stuck = np.isin(running, running[pending])
        self.running = running[(self.criterion[running] > tol) & ~stuck]

    def fits(self, tol: float) -> list[LinearFit]:
        """The fits, with b of the centred design."""
        return [
            LinearFit(
                w=self.theta[k, :, :-1].copy(),
                b=self.theta[k, :, -1].copy(),
                u=self.scores[k].T if isinstance(self.loss, Softmax) else self.scores[k, 0],
                objective=float(self.objective[k]),
                n_iter=int(self.n_iter[k]),
                criterion=float(self.criterion[k]),
                converged=bool(self.criterion[k] <= tol),
            )
            for k in range(len(self.S))
        ]

    def _scale(self) -> Array:
        return np.maximum(self.objective, self.floor)[self.running]

    def _objective(self, theta: Array, scores: Array, fits: Any = slice(None)) -> Array:
        losses = self._per_sample(self.loss.value, scores)
        penalty = self.alpha * np.einsum("fkj,fkj->f", theta[..., :-1], theta[..., :-1])
        return np.einsum("fi,fi->f", self.S[fits], losses) + penalty

    def _per_sample(self, function: Callable[..., Array], scores: Array) -> Array:
        """A value per sample, shape (n_fits, n_samples), from scores (n_fits, n_outputs, n_samples)."""
        if not isinstance(self.loss, Softmax):
            return function(self.y, scores[:, 0])
        return np.stack([function(self.y, u.T) for u in scores])

    def _per_score(self, function: Callable[..., Array], scores: Array) -> Array:
        """A value per score, in the shape of the scores."""
        if not isinstance(self.loss, Softmax):
            return function(self.y, scores[:, 0])[:, None]
        return np.stack([function(self.y, u.T).T for u in scores])


class _Preconditioner:
    """Approximate inverse Hessian, as strong as the problem turns out to need.

    Strength 0 scales the identity; 1 inverts mean curvature × covariance + 2 alpha; 2 inverts, fit by fit
    and class by class, the Hessian at the present point. The next one is built when the last has cost as
    many products as that takes.
    """

    def __init__(self, solver: _PrimalSolver, batch: _Batch):
        self.solver, self.batch = solver, batch
        self.strength = 0 if solver.unconditioned_left > 0 else 1
        self._shared: Any = None
        self._own: dict[int, list[Any]] = {}

    @property
    def limit(self) -> int:
        """Products that conjugate gradients may use."""
        if self.strength == 0:
            return max(4, self.solver.unconditioned_left)
        # Blocks of single classes neglect their coupling: more products, even with a fresh factor.
        coupled = self.strength == 2 and isinstance(self.batch.loss, Softmax)
        return max(60, self.solver.budget) if coupled else self.solver.budget

    def prepare(self, curvature: Array) -> None:
        """Build what the present strength lacks, from the curvature of the running fits."""
        diagonal = self.batch.diagonal_curvature(curvature)
        mean_curvature = max(diagonal.sum(axis=-1).mean(), np.finfo(float).tiny)
        if self.strength == 0:
            A = self.solver.products.A[:64]
            scale = mean_curvature * float(np.vdot(A, A)) / A.shape[0] / A.shape[1]
            self._scales = np.full(self.batch.theta.shape[-1], scale + 2.0 * self.batch.alpha)
            self._scales[-1] = mean_curvature
        elif self.strength == 1 and self._shared is None:
            self._shared = self._factor(mean_curvature * self.solver.covariance)
        elif self.strength == 2:
            for k, d in zip(self.batch.running.tolist(), diagonal, strict=True):
                if k not in self._own:
                    hessians = (self.solver.products.covariance(d_class) for d_class in d)
                    self._own[k] = [self._factor(H) for H in hessians]

    def apply(self, R: Array) -> Array:
        """Approximate inverse Hessian times R, shape (n_running, n_outputs, n_features + 1)."""
        if self.strength == 0:
            out = R / self._scales
        elif self.strength == 1:
            columns = R.reshape(-1, R.shape[-1]).T
            out = _cholesky_solve(self._shared, columns).T.reshape(R.shape)
        else:
            out = np.empty_like(R)
            for fit, residuals, k in zip(out, R, self.batch.running.tolist(), strict=True):
                for c, factor in enumerate(self._own[k]):
                    fit[c] = _cholesky_solve(factor, residuals[c])
        return _balance_classes(self.batch.loss, out)

    def adapt(self, n_products: int, reached: bool) -> None:
        """Grow stronger where the last conjugate gradients were too long."""
        if self.strength == 0:
            self.solver.unconditioned_left -= n_products
            self.strength = 0 if self.solver.unconditioned_left > 0 else 1
        elif self.strength == 1:
            self.strength = 1 if reached else 2
        elif n_products > 3:
            self._own.clear()  # out of date: a fresh factor solves in one or two products

    def _factor(self, H: Array) -> Any:
        H = H.copy()
        n_features = len(H) - 1
        H.flat[: n_features * (n_features + 1) : n_features + 2] += 2.0 * self.batch.alpha
        return _cholesky(H)


def _conjugate_gradients(
    product: Callable[[Array], Array],
    precondition: Callable[[Array], Array],
    gradient: Array,
    forcing: Array,
    limit: int,
) -> tuple[Array, int, bool]:
    """Solve H step = −gradient for every fit of a batch at once.

    Returns
    -------
    step : ndarray, shape of ``gradient``
    n_products : int
    reached : bool
        Whether every fit came down to ``forcing`` times its first residual.
    """
    step, residual = np.zeros_like(gradient), -gradient
    scaled = precondition(residual)
    energy = _dots(residual, scaled)
    target = forcing**2 * energy
    direction = scaled
    for n_products in range(1, limit + 1):
        going = energy > target
        curved = product(direction)
        curvature = _dots(direction, curved)
        usable = going & (curvature > 0.0)
        length = np.where(usable, energy / np.where(usable, curvature, 1.0), 0.0)[:, None, None]
        step = step + length * direction
        residual = residual - length * curved
        scaled = precondition(residual)
        previous, energy = energy, np.where(usable, _dots(residual, scaled), 0.0)
        if not np.any(energy > target):
            return step, n_products, True
        ratio = np.where(previous > 0.0, energy / np.where(previous > 0.0, previous, 1.0), 0.0)
        direction = scaled + ratio[:, None, None] * direction
    return step, limit, False


# ---------------------------------------------------------------------------------------------------
# Small helpers
# ---------------------------------------------------------------------------------------------------


def _dots(V: Array, W: Array) -> Array:
    """Inner product of each fit of a batch, shape (n_fits,)."""
    return np.einsum("fkj,fkj->f", V, W)


def _balance_classes(loss: Loss, theta: Array) -> Array:
    """Project on Σ_k theta_k = 0: the softmax does not see that direction, and the penalty forbids it."""
    if not isinstance(loss, Softmax):
        return theta
    return theta - theta.mean(axis=1, keepdims=True)


def _wide(product: Callable[[Array], Array], V: Array) -> Array:
    """One matrix product for all fits and outputs of V, shape (n_fits, n_outputs, ...)."""
    flat = product(V.reshape(-1, V.shape[-1]))
    return flat.reshape(*V.shape[:-1], -1)


def _row_products(A: Array, V: Array) -> Array:
    """V Aᵀ accumulated in float64, shape (len(V), n_samples)."""
    return V @ A.T if A.dtype == np.float64 else row_products(A, np.ascontiguousarray(V))


def _column_products(A: Array, R: Array) -> Array:
    """R A accumulated in float64, shape (len(R), n_features)."""
    return R @ A if A.dtype == np.float64 else column_products(A, R)


def _column_means(A: Array) -> Array:
    return _column_products(A, np.full((1, len(A)), 1.0 / len(A)))[0]


def _offsets_are_large(A: Array, means: Array) -> bool:
    """Whether some column lies further from 0 than 30 times its spread, judged on a few rows."""
    some = A[:: max(1, len(A) // 256)].astype(np.float64)
    return bool(np.any(np.abs(means) > 30.0 * some.std(axis=0) + 1e-30))


def _cholesky(H: Array) -> Array:
    """Lower factor of the symmetric H, with as little added to the diagonal as makes it definite."""
    factor, info = lapack.dpotrf(
        H.T, lower=1, clean=0
    )  # H.T is Fortran-ordered: no copy to reorder
    jitter = 1e-14 * max(float(np.trace(H)) / len(H), np.finfo(float).tiny)
    while info > 0 and np.isfinite(jitter):
        shifted = H.T + jitter * np.eye(len(H))
        factor, info = lapack.dpotrf(shifted, lower=1, clean=0)
        jitter *= 100.0
    return factor


def _cholesky_solve(factor: Array, columns: Array) -> Array:
    """H⁻¹ columns, from :func:`_cholesky` of H."""
    return lapack.dpotrs(factor, columns, lower=1)[0]


def _negligible(loss: Loss, y: Array, s: Array) -> float:
    """Objective under which a fit counts as perfect."""
    zeros = np.zeros((len(y), loss.n_outputs)) if isinstance(loss, Softmax) else np.zeros(len(y))
    return max(_NEGLIGIBLE * float(s @ loss.value(y, zeros)), np.finfo(float).tiny)


def _sum_to_zero(b: Array) -> Array:
    """Centre the intercepts of a softmax; a single one is identified and stays."""
    return b if len(b) == 1 else b - b.mean()


def _as_floats(A: Array) -> Array:
    A = np.ascontiguousarray(A)
    return A if A.dtype in (np.float32, np.float64) else A.astype(np.float64)


def _normalised(S: Array) -> Array:
    S = np.asarray(S, dtype=np.float64)
    return S / S.sum(axis=1, keepdims=True)


@cache
def _blas() -> ThreadpoolController:
    return ThreadpoolController()


@contextmanager
def _few_threads(size: int) -> Iterator[None]:
    """One BLAS thread for small matrices; the cached controller makes this cost 10 µs."""
    if size > _ONE_THREAD:
        yield
        return
    with _blas().limit(limits=1, user_api="blas"):
        yield
