"""The ridge w-step: many weights and penalties on one design, by Newton's method with conjugate gradients.

    min over (w, b)   Σ_i s_i ℓ(y_i, A_i·w + b) + alpha ‖w‖²

with weights s of sum 1 and an intercept b that is not penalised. With at least as many columns as samples the
solver works on a root of the Gram matrix, L Lᵀ = A Aᵀ, as if it were the design: the scores L v + b have the
penalty ‖v‖², and w = Aᵀ L⁻ᵀ v. So nothing but the Gram matrix needs the columns, however many there are.

The rounds and the comparison call :class:`RidgeDesign`, and get a :class:`LinearFit` for each fit.
:mod:`suquan.solvers.newton` does the steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import solve_triangular

from suquan._curvature import Curvature, DiagonalCurvature, damped_hessian
from suquan.losses import Loss
from suquan.solvers._products import (
    Array,
    MaybeArray,
    as_floats,
    column_products,
    gram_matrix,
    one_blas_thread,
    row_products,
    second_moments,
)
from suquan.solvers.newton import Minimised, Preconditioner, Product, newton, penalised

TOL, MAX_ITER = 1e-8, 200
# Most samples whose n × n root is formed: beyond them it would be larger than the design.
MOST_ROOT_SAMPLES = 5000
# Share of the secant's curvature that Newton's model has at least, at first and after long steps failed.
FIRST_DAMPING, _MOST_DAMPING = 0.1, 1.0
# An objective below this fraction of the loss at zero scores counts as zero.
_NEGLIGIBLE = 1e-12


@dataclass(frozen=True)
class LinearFit:
    """A fitted linear model; give it as ``start`` to warm-start a neighbouring problem.

    Attributes
    ----------
    w : ndarray of shape (n_outputs, n_features)
        Coefficients; those of the samples, of shape (n_outputs, n_samples), where the design is known by its
        Gram matrix alone.
    b : ndarray of shape (n_outputs,)
        Intercepts; they sum to 0 where the loss ignores a common shift of all outputs.
    u : ndarray of shape (n_samples,) or (n_samples, n_outputs)
        Scores of all rows, those of weight 0 included.
    objective : float
        J(w, b).
    n_iter : int
        Newton iterations.
    criterion : float
        Estimate of J/J* − 1 before the last step.
    converged : bool
        Whether ``criterion`` came below ``tol``.
    """

    w: Array
    b: Array
    u: Array
    objective: float
    n_iter: int
    criterion: float
    converged: bool

    @classmethod
    def at(cls, w: Array, b: Array) -> LinearFit:
        """Coefficients to start from."""
        return cls(w, b, np.empty(0), np.inf, 0, np.inf, False)


# -- what solvers of the w-step agree on --------------------------------------------------------------


def normalised(S: Array) -> Array:
    """Weights of sum 1 in each row."""
    S = np.array(S, dtype=np.float64, subok=False)
    S /= S.sum(axis=-1, keepdims=True)
    return S


def negligible(loss: Loss, y: Array, s: Array) -> float:
    """Objective under which a fit counts as perfect."""
    at_zero = loss.value(y, np.zeros(len(y) * loss.n_outputs), s)
    return max(_NEGLIGIBLE * at_zero, np.finfo(float).tiny)


def ignores_shifts(loss: Loss, y: Array, s: Array) -> bool:
    """Whether a common shift of all outputs leaves the loss as it is, so that they may sum to 0."""
    if loss.n_outputs == 1:
        return False
    u = np.zeros(len(y) * loss.n_outputs)
    before, after = loss.value(y, u, s), loss.value(y, u + 1.0, s)
    return abs(after - before) <= 1e-12 * (abs(before) + 1.0)


def of_samples(u: Array, loss: Loss) -> Array:
    """Scores side by side as a fit has them: of shape (n_samples,) or (n_samples, n_outputs)."""
    return u if loss.n_outputs == 1 else u.reshape(-1, loss.n_outputs)


# -- designs ------------------------------------------------------------------------------------------


class RidgeDesign:
    """A design whose ridge problems, for any alpha, labels and weights, share what is computed once.

    Parameters
    ----------
    A : ndarray of shape (n_samples, n_features), float32 or float64, or None
        Not copied where it is C-contiguous; must not change while the design is in use. None: known by its
        Gram matrix alone.
    fit_intercept : bool, default=True
    gram : ndarray of shape (n_samples, n_samples), default=None
        The Gram matrix A Aᵀ, where A is None.
    by_columns : bool, default=False
        Solve for the columns, however few samples there are: a Gram matrix does not pay for one fit to
        thousands of samples, nor where fits start from the last one.
    is_shared : bool, default=False
        Whether all outputs of the loss have the same coefficients, and rows of their own: A then has shape
        (n_samples · n_outputs, n_features), the rows of a sample side by side.

    Examples
    --------
    >>> import numpy as np
    >>> from suquan.losses import Logistic
    >>> A, y = np.array([[0.0, 1.0], [1.0, 0.0], [2.0, 3.0]]), np.array([-1, 1, 1])
    >>> design = RidgeDesign(A)
    >>> [round(fit.objective, 3) for fit in design.solve_path(Logistic(), y, np.ones(3), [1.0, 0.1])]
    [0.609, 0.474]
    """

    def __init__(
        self, A: Any, *, fit_intercept: bool = True, gram: MaybeArray = None,
        by_columns: bool = False, is_shared: bool = False,
    ):  # fmt: skip
        self._A: MaybeArray = None if A is None else as_floats(A)
        self._root: GramRoot | None = None
        self._is_shared = is_shared
        with one_blas_thread():
            if A is None:
                self._root = GramRoot.of(np.asarray(gram, np.float64))
            elif len(A) <= min(A.shape[1], MOST_ROOT_SAMPLES) and not by_columns:
                self._root = GramRoot.of(gram_matrix(as_floats(A)))
        R: Any = self._A if self._root is None else self._root.matrix
        self._rows = Rows(R, fit_intercept)
        self._preconditioner = Preconditioner(self._rows.n_columns)

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
        """One fit.

        Parameters
        ----------
        loss : Loss
        y : ndarray of shape (n_samples,)
            Encoded labels, as ``loss`` wants them.
        s : ndarray of shape (n_samples,)
            Weights ≥ 0; they are divided by their sum.
        alpha : float
            Strength of the penalty, > 0.
        tol : float, default=1e-8
            Bound on half the squared Newton decrement, ½ gᵀH⁻¹g, over the objective: the relative gap to
            second order. It is measured before the last step, so that the result is closer than it says.
        max_iter : int, default=200
        start : LinearFit, optional
            Taken where it is better than the best constant; of no use to a Gram matrix's root.

        Returns
        -------
        LinearFit
        """
        theta = None
        if start is not None and self._root is None:
            theta = np.column_stack([start.w, start.b])[None]
        with one_blas_thread():
            S = normalised(np.asarray(s)[None])
            found = self._solve(loss, y, S, alpha, tol, max_iter, theta)
            return self._complete([found], loss, y, tol)[0]

    def solve_many(
        self,
        loss: Loss,
        y: Array,
        S: Array,
        alpha: float,
        *,
        tol: float = TOL,
        max_iter: int = MAX_ITER,
    ) -> list[LinearFit]:
        """Fits that differ by their weights only, such as the models of a cross-validation.

        Parameters
        ----------
        loss, y, alpha, tol, max_iter
            As for :meth:`solve`.
        S : ndarray of shape (n_fits, n_samples)
            Weights of each fit; 0 leaves a row out.
        """
        with one_blas_thread():
            found = self._solve(loss, y, normalised(S), alpha, tol, max_iter, None)
            return self._complete([found], loss, y, tol)

    def solve_path(
        self,
        loss: Loss,
        y: Array,
        s: Array,
        alphas: Sequence[float],
        *,
        tol: float = TOL,
        max_iter: int = MAX_ITER,
    ) -> list[LinearFit]:
        """Fits for several alphas, in their order; each starts from that of the next larger alpha."""
        S, order = normalised(np.asarray(s)[None]), np.argsort(alphas)[::-1].tolist()
        found: dict[int, Minimised] = {}
        theta: MaybeArray = None
        with one_blas_thread():
            for k in order:
                found[k] = self._solve(loss, y, S, alphas[k], tol, max_iter, theta)
                theta = found[k].theta
            return self._complete([found[k] for k in range(len(alphas))], loss, y, tol)

    def _solve(self, loss, y, S, alpha, tol, max_iter, start: MaybeArray) -> Minimised:
        """Minimisers for all weights, from their best constants or, where it is better, from `start`."""
        batch = Batch(self._rows, loss, y, S, self._is_shared)
        theta = np.zeros((len(S), batch.n_vectors, self._rows.n_columns + 1))
        if self._rows.fit_intercept:
            theta[:, :, -1] = [loss.best_constant(y, s) for s in S]
        if start is not None and start.shape[1:] == theta.shape[1:]:
            # A new array: numbers must not be written where another start is read from.
            better = batch.objectives(start + 0.0 * theta, alpha) < batch.objectives(theta, alpha)
            theta = np.where(better[:, None, None], start, theta)
        floor = negligible(loss, y, S.mean(axis=0))
        return newton(
            batch, self._preconditioner, theta, alpha, floor, tol, max_iter, self._rows.dtype
        )

    def _complete(self, batches: list[Minimised], loss, y, tol) -> list[LinearFit]:
        """Fits with the coefficients of the columns, or of the samples, from the unknowns of the solver."""
        if not batches:
            return []
        theta = np.concatenate([found.theta for found in batches])
        w, b = theta[:, :, :-1], theta[:, :, -1].copy()
        if self._root is not None:
            flat = self._root.dual(w.reshape(-1, w.shape[2]))
            if self._A is not None:
                flat = column_products(self._A, flat)
            w = flat.reshape(len(theta), theta.shape[1], -1)
        if ignores_shifts(loss, y, np.full(len(y), 1.0 / len(y))):
            b -= b.mean(axis=1, keepdims=True)
        outcomes = [(found, k) for found in batches for k in range(len(found.theta))]
        return [
            LinearFit(
                w[i], b[i], of_samples(found.u[k], loss), float(found.objective[k]),
                int(found.n_iter[k]), float(found.criterion[k]), bool(found.criterion[k] <= tol),
            )
            for i, (found, k) in enumerate(outcomes)
        ]  # fmt: skip


class GramRoot(NamedTuple):
    """A root L of a Gram matrix, L Lᵀ = A Aᵀ, and what leads from v to a in w = Aᵀ a.

    Attributes
    ----------
    matrix : ndarray of shape (n_samples, rank)
    inverse : ndarray of shape (n_samples, rank) or None
        Matrix P with a = P v; None where L is triangular.
    """

    matrix: Array
    inverse: MaybeArray = None

    @classmethod
    def of(cls, G: Array) -> GramRoot:
        """Cholesky root, or that of the eigenvectors where samples repeat or depend on each other.

        A Cholesky factor of an almost singular matrix is all rounding in its last columns, and what is
        added to the diagonal to get one at all shows in J for a tiny alpha.
        """
        try:
            L = np.linalg.cholesky(G)
            if np.diagonal(L).min() ** 2 > 1e-10 * float(np.diagonal(G).mean()):
                return cls(L)
        except np.linalg.LinAlgError:
            pass
        values, vectors = np.linalg.eigh(G)
        kept = values > len(G) * np.finfo(float).eps * max(values[-1], np.finfo(float).tiny)
        kept[-1] = True  # at least one column, so that shapes stay ordinary when G = 0
        roots = np.sqrt(values[kept].clip(np.finfo(float).tiny))
        return cls(vectors[:, kept] * roots, vectors[:, kept] / roots)

    def dual(self, V: Array) -> Array:
        """Coefficients a of the samples, for every row v of V."""
        if self.inverse is not None:
            return V @ self.inverse.T
        return solve_triangular(self.matrix, V.T, lower=True, trans="T").T


class Rows(NamedTuple):
    """Products with [R, 1], whose last coefficient is the intercept; never formed."""

    R: Array
    fit_intercept: bool

    @property
    def n_columns(self) -> int:
        """Columns without the intercept."""
        return self.R.shape[1]

    @property
    def dtype(self) -> Any:
        """Type in which products with curvatures are accurate enough."""
        return self.R.dtype

    def scores(self, theta: Array, dtype: Any = np.float64) -> Array:
        """Scores of every row of theta, of shape (n_vectors, n_samples)."""
        u = row_products(self.R, theta[:, :-1], dtype)
        return u + theta[:, -1:].astype(dtype) if self.fit_intercept else u

    def adjoint(self, r: Array, dtype: Any = np.float64) -> Array:
        """Adjoint of :meth:`scores` at the rows of r, of shape (n_vectors, n_columns + 1)."""
        out = np.empty((len(r), self.n_columns + 1))
        out[:, :-1] = column_products(self.R, r, dtype)
        out[:, -1] = r.sum(axis=1, dtype=np.float64) * self.fit_intercept
        return out

    def moments(self, weights: Array) -> Array:
        """Second moments of the columns and the intercept, of shape (n_columns + 1, n_columns + 1)."""
        H = np.zeros((self.n_columns + 1, self.n_columns + 1))
        H[:-1, :-1] = second_moments(self.R, weights)
        if self.fit_intercept:
            H[-1, :-1] = H[:-1, -1] = column_products(self.R, weights[None])[0]
        H[-1, -1] = weights.sum() if self.fit_intercept else 1.0
        return H

    def spread(self, weights: Array) -> float:
        """Mean over the columns of their second moments."""
        squares = np.einsum("ij,ij->i", self.R, self.R, dtype=np.float64)
        return float(weights @ squares) / self.n_columns


class Batch:
    """Sums over the samples of a design in memory, for fits that differ by their weights.

    They are what :class:`suquan.solvers.newton.Sums` says.

    Parameters
    ----------
    rows : Rows
    loss : Loss
    y : ndarray of shape (n_samples,)
    S : ndarray of shape (n_fits, n_samples)
        Weights, each row of sum 1.
    is_shared : bool, default=False
        Whether the outputs share one vector of coefficients, and have rows of their own.
    """

    def __init__(self, rows: Rows, loss: Loss, y: Array, S: Array, is_shared: bool = False):
        self.rows, self.loss, self.y, self.S = rows, loss, y, S
        self.n_columns, self.n_vectors = rows.n_columns, 1 if is_shared else loss.n_outputs
        self.balanced = self.n_vectors > 1 and ignores_shifts(loss, y, S[0])
        self._has_all = [bool(np.all(s > 0.0)) for s in S]
        self._known: tuple[Any, list[Curvature]] = None, []
        self.damping = np.full(len(S), FIRST_DAMPING)

    def objectives(self, theta: Array, alpha: float) -> Array:
        """J of all fits."""
        return penalised(self, np.arange(len(self.S)), self.scores(theta), theta, alpha)

    def scores(self, theta):
        """Scores, the outputs of a sample side by side: (n_fits, n_samples · n_outputs)."""
        return self._side_by_side(self.rows.scores(theta.reshape(-1, theta.shape[2])), len(theta))

    def values(self, fits, u):
        """Weighted losses."""
        return np.array(
            [self.loss.value(*self._at(k, row)) for k, row in zip(fits, u, strict=True)]
        )

    def gradients(self, fits, u):
        """Gradients of the losses, in float64."""
        slopes = [self.loss.gradient(*self._at(k, row)) for k, row in zip(fits, u, strict=True)]
        by_vector = self._by_vector(np.stack(slopes))
        return self.rows.adjoint(by_vector).reshape(len(fits), self.n_vectors, -1)

    def product(self, fits, u) -> Product:
        """Products with the Hessians, in the type of the design."""
        curvatures, dtype = self._curvatures(fits, u), self.rows.dtype
        diagonals: MaybeArray = None
        if self.n_vectors == 1 and all(isinstance(c, DiagonalCurvature) for c in curvatures):
            diagonals = np.stack([c.diagonal() for c in curvatures]).astype(dtype)

        def product(V: Array) -> Array:
            change = self.rows.scores(V.reshape(-1, V.shape[2]), dtype)
            if diagonals is not None:
                return self.rows.adjoint(diagonals * change, dtype)[:, None]
            changes = self._side_by_side(change, len(V))
            curved = [c.product(change) for c, change in zip(curvatures, changes, strict=True)]
            return self.rows.adjoint(self._by_vector(np.stack(curved)), dtype).reshape(V.shape)

        return product

    def curvatures(self, fits, u):
        """Summed second derivatives in the scores, on average over the vectors of coefficients."""
        sums = [c.diagonal().sum() for c in self._curvatures(fits, u)]
        return np.array(sums) / self.n_vectors

    def moments(self, fits, u):
        """Second moments, weighted with the mean curvature of the fits."""
        return self.rows.moments(self._mean_curvature(fits, u))

    def spread(self, fits, u):
        """Mean of the diagonal of the second moments."""
        return self.rows.spread(self._mean_curvature(fits, u))

    def _mean_curvature(self, fits, u) -> Array:
        """Second derivatives in the scores of each row, on average over fits and vectors of coefficients."""
        diagonals = [c.diagonal() for c in self._curvatures(fits, u)]
        return np.reshape(diagonals, (len(fits), -1, self.n_vectors)).mean(axis=(0, 2))

    def _curvatures(self, fits, u) -> list[Curvature]:
        """Curvatures of the fits, which a Newton step asks for up to three times."""
        if self._known[0] is not u:
            pairs = zip(fits, u, strict=True)
            self._known = (
                u,
                [damped_hessian(self.loss, *self._at(k, row), self.damping[k]) for k, row in pairs],
            )
        return self._known[1]

    def adapt(self, fits, lengths, criterion):
        """Damp curvatures less where a whole step was taken, and more where not."""
        before = self.damping[fits]
        eased = np.where(lengths == 1.0, np.minimum(0.3 * before, criterion), 10.0 * before)
        self.damping[fits] = np.minimum(eased, _MOST_DAMPING)

    def _at(self, k: int, u: Array) -> tuple[Array, Array, Array]:
        """Labels, scores and weights of fit k; scores are 0 where the weight is, so that none overflows."""
        s = self.S[k]
        if not self._has_all[k]:
            u = np.where(np.repeat(s > 0.0, self.loss.n_outputs), u, 0.0)
        return self.y, u, s

    def _side_by_side(self, products: Array, n_fits: int) -> Array:
        """Scores of shape (n_fits · n_vectors, n_rows) with the outputs of a sample side by side."""
        if self.n_vectors == 1:
            return products
        by_vector = products.reshape(n_fits, self.n_vectors, -1)
        return np.ascontiguousarray(by_vector.transpose(0, 2, 1)).reshape(n_fits, -1)

    def _by_vector(self, scores: Array) -> Array:
        """Inverse of :meth:`_side_by_side`."""
        if self.n_vectors == 1:
            return scores
        stacked = scores.reshape(len(scores), -1, self.n_vectors)
        return np.ascontiguousarray(stacked.transpose(0, 2, 1)).reshape(-1, len(self.y))
