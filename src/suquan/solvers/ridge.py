"""The ridge w-step: many weights and penalties on one design, by Newton's method with conjugate gradients.

    min over (w, b)   Σ_i s_i ℓ(y_i, A_i·w + b) + alpha ‖w‖²

with weights s of sum 1 and an intercept b that is not penalised. With at least as many columns as samples the
solver works on a root of the Gram matrix, L Lᵀ = A Aᵀ, as if it were the design: the scores L v + b have the
penalty ‖v‖², and w = Aᵀ L⁻ᵀ v. So nothing but the Gram matrix needs the columns, however many there are.

All fits of a batch run in lockstep, so that every product with the design is a matrix product. They share a
preconditioner, the second moments of the columns, which the design keeps.

The rounds (:mod:`suquan.objective`), the grid and the comparison call :class:`RidgeDesign`, and get a
:class:`LinearFit` for each fit. :func:`newton` works on a :class:`Batch` in memory, or on sums over blocks of
rows that lie elsewhere (:mod:`suquan._dask.linear`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from scipy.linalg import cho_solve, solve_triangular

from suquan.losses import Curvature, DiagonalCurvature, Loss
from suquan.solvers._products import (
    Array,
    MaybeArray,
    as_floats,
    cholesky,
    column_products,
    gram_matrix,
    one_blas_thread,
    row_products,
    second_moments,
)

TOL = 1e-8
MAX_ITER = 200
# Most samples whose n × n root is formed, and most columns whose second moments are: beyond them either would
# be larger than the design, and conjugate gradients go on with a scale alone.
MOST_ROOT_SAMPLES, MOST_SQUARE_COLUMNS = 5000, 4096
# Columns up to which second moments cost less than the first steps without them, and products of one step from
# which (new) moments pay.
_FEW_COLUMNS, _MANY_PRODUCTS = 512, 12
_MAX_PRODUCTS, _MAX_PRODUCTS_WITHOUT_MOMENTS = 60, 500
_MAX_HALVINGS = 40
# Share of the energy of a step, the square of its residual, that conjugate gradients may leave.
_FORCING, _LAST_FORCING = 1e-2, 1e-4
# An objective below this fraction of the loss at zero scores counts as zero.
_NEGLIGIBLE = 1e-12
# Share of the secant's curvature that Newton's model has at least, at first and after long steps failed.
_FIRST_DAMPING, _MOST_DAMPING = 0.1, 1.0
Product = Callable[[Array], Array]


@dataclass(frozen=True)
class LinearFit:
    """A fitted linear model; give it as ``start`` to warm-start a neighbouring problem.

    Attributes
    ----------
    w : ndarray of shape (n_outputs, n_features) or None
        Coefficients; None where the design is known by its Gram matrix alone.
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
    dual : ndarray of shape (n_outputs, n_samples) or None
        Coefficients a with w = a A, where the design was solved by its Gram matrix.
    """

    w: MaybeArray
    b: Array
    u: Array
    objective: float
    n_iter: int
    criterion: float
    converged: bool
    dual: MaybeArray = None


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


def damped_curvature(loss: Loss, y: Array, u: Array, s: Array, damping: float) -> Curvature:
    """Hessian of the weighted loss in its scores u, at least `damping` times the curvature of the secant.

    The secant from the scores of smallest loss bounds a convex loss that is flat or linear there: the Huber
    loss has no curvature at large residuals, where Newton's step would have no end.
    """
    hessian = loss.hessian(y, u, s)
    if loss.is_quadratic or loss.couples_samples or loss.n_outputs > 1:
        return hessian
    away = u - loss.scores_of_dual(y, np.zeros_like(u), s)
    secant = np.divide(loss.gradient(y, u, s), away, out=np.zeros_like(u), where=away != 0.0)
    return DiagonalCurvature(np.maximum(hessian.diagonal(), damping * secant))


# -- designs ------------------------------------------------------------------------------------------


class RidgeDesign:
    """A design whose ridge problems, for any alpha, labels and weights, share what is computed once.

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
        self._A: MaybeArray = as_floats(A)
        self._root: GramRoot | None = None
        if len(A) <= min(A.shape[1], MOST_ROOT_SAMPLES):
            with one_blas_thread():
                self._root = GramRoot.of(gram_matrix(self._A))
        self._set_rows(fit_intercept)

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
        with one_blas_thread():
            design._A, design._root = None, GramRoot.of(np.asarray(G, np.float64))
        design._set_rows(fit_intercept)
        return design

    @classmethod
    def from_rows(cls, rows: Any) -> RidgeDesign:
        """Design of which only the products are known, as :class:`Rows` has them.

        Parameters
        ----------
        rows : Rows
            Its moments are never asked for.

        Returns
        -------
        RidgeDesign
        """
        design = cls.__new__(cls)
        design._A = design._root = None
        design._rows, design._preconditioner = rows, Preconditioner(None)
        return design

    def _set_rows(self, fit_intercept: bool) -> None:
        R = self._A if self._root is None else self._root.matrix
        self._rows: Any = Rows(R, fit_intercept)
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
            Taken where it is better than the best constant.

        Returns
        -------
        LinearFit
        """
        return self.solve_many(
            loss, y, np.asarray(s)[None], alpha, tol=tol, max_iter=max_iter, start=start
        )[0]

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
        loss, y, alpha, tol, max_iter, start
            As for :meth:`solve`.
        S : ndarray of shape (n_fits, n_samples)
            Weights of each fit; 0 leaves a row out.

        Returns
        -------
        list of n_fits LinearFit
        """
        with one_blas_thread():
            found = self._solve(loss, y, normalised(S), alpha, tol, max_iter, self._theta_of(start))
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
        """Fits for several alphas, each from the one before, from the largest to the smallest.

        Parameters
        ----------
        loss, y, s, tol, max_iter
            As for :meth:`solve`.
        alphas : sequence of float

        Returns
        -------
        list of LinearFit
            In the order of ``alphas``.
        """
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
        batch = Batch(self._rows, loss, y, S)
        theta = np.zeros((len(S), loss.n_outputs, self._rows.n_columns + 1))
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

    def _theta_of(self, start: LinearFit | None) -> MaybeArray:
        """Unknowns of a fit on this design, or on one that is like it: (1, n_outputs, n_columns + 1)."""
        if start is None:
            return None
        if self._root is None:
            w: MaybeArray = start.w
        elif start.dual is None or start.dual.shape[1] != len(self._root.matrix):
            return None
        else:
            w = start.dual @ self._root.matrix
        return None if w is None else np.column_stack([w, start.b])[None]

    def _complete(self, batches: list[Minimised], loss, y, tol) -> list[LinearFit]:
        """Fits with coefficients w, where the columns are known, from the unknowns of the solver."""
        n_outputs = loss.n_outputs
        theta = np.concatenate([found.theta for found in batches])
        balanced = ignores_shifts(loss, y, np.full(len(y), 1.0 / len(y)))
        w: Any = theta[:, :, :-1]
        dual: Any = [None] * len(theta)
        if self._root is not None:
            flat = self._root.dual(w.reshape(-1, w.shape[2]))
            dual = flat.reshape(len(theta), n_outputs, -1)
            w = [None] * len(theta)
            if self._A is not None:
                w = column_products(self._A, flat).reshape(len(theta), n_outputs, -1)
        b = theta[:, :, -1]
        b = b - b.mean(axis=1, keepdims=True) if balanced else b.copy()
        outcomes = [(found, k) for found in batches for k in range(len(found.theta))]
        return [
            LinearFit(
                w[i], b[i], of_samples(found.u[k], loss), float(found.objective[k]),
                int(found.n_iter[k]), float(found.criterion[k]), bool(found.criterion[k] <= tol), dual[i],
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


# -- sums over samples --------------------------------------------------------------------------------


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

    def product(self, fits: Array, u: Array, damping: Array) -> Product:
        """Products with their Hessians."""

    def curvatures(self, fits: Array, u: Array, damping: Array) -> Array:
        """Summed second derivatives in the scores, on average over the outputs."""

    def moments(self, fits: Array, u: Array, damping: Array) -> Array:
        """Second moments of the columns, weighted with the mean curvature of the fits."""

    def spread(self, fits: Array, u: Array, damping: Array) -> float:
        """Mean of the diagonal of these."""


class Batch:
    """Sums over the samples of a design in memory, for fits that differ by their weights.

    Parameters
    ----------
    rows : Rows
    loss : Loss
    y : ndarray of shape (n_samples,)
    S : ndarray of shape (n_fits, n_samples)
        Weights, each row of sum 1.
    """

    def __init__(self, rows: Rows, loss: Loss, y: Array, S: Array):
        self.rows, self.loss, self.y, self.S = rows, loss, y, S
        self.n_columns, self.n_outputs = rows.n_columns, loss.n_outputs
        self.balanced = ignores_shifts(loss, y, S[0])
        self._has_all = [bool(np.all(s > 0.0)) for s in S]
        self._known: tuple[Any, list[Curvature]] = None, []

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
        by_output = self._by_output(np.stack(slopes))
        return self.rows.adjoint(by_output).reshape(len(fits), self.n_outputs, -1)

    def product(self, fits, u, damping):
        """Products with the Hessians, in the type of the design."""
        curvatures, dtype = self._curvatures(fits, u, damping), self.rows.dtype
        diagonals: MaybeArray = None
        if self.n_outputs == 1 and all(isinstance(c, DiagonalCurvature) for c in curvatures):
            diagonals = np.stack([c.diagonal() for c in curvatures]).astype(dtype)

        def product(V: Array) -> Array:
            change = self.rows.scores(V.reshape(-1, V.shape[2]), dtype)
            if diagonals is not None:
                return self.rows.adjoint(diagonals * change, dtype)[:, None]
            changes = self._side_by_side(change, len(V))
            curved = [c.product(change) for c, change in zip(curvatures, changes, strict=True)]
            return self.rows.adjoint(self._by_output(np.stack(curved)), dtype).reshape(V.shape)

        return product

    def curvatures(self, fits, u, damping):
        """Summed second derivatives in the scores, on average over the outputs."""
        return (
            np.array([c.diagonal().sum() for c in self._curvatures(fits, u, damping)])
            / self.n_outputs
        )

    def moments(self, fits, u, damping):
        """Second moments, weighted with the mean curvature of the fits."""
        return self.rows.moments(self._mean_curvature(fits, u, damping))

    def spread(self, fits, u, damping):
        """Mean of the diagonal of the second moments."""
        return self.rows.spread(self._mean_curvature(fits, u, damping))

    def _mean_curvature(self, fits, u, damping) -> Array:
        """Second derivatives in the scores of each sample, on average over fits and outputs."""
        diagonals = [c.diagonal() for c in self._curvatures(fits, u, damping)]
        return np.reshape(diagonals, (len(fits), -1, self.n_outputs)).mean(axis=(0, 2))

    def _curvatures(self, fits, u, damping) -> list[Curvature]:
        """Curvatures of the fits, which a Newton step asks for up to three times."""
        if self._known[0] is not u:
            of_fits = zip(fits, u, damping.tolist(), strict=True)
            found = [damped_curvature(self.loss, *self._at(k, row), d) for k, row, d in of_fits]
            self._known = u, found
        return self._known[1]

    def _at(self, k: int, u: Array) -> tuple[Array, Array, Array]:
        """Labels, scores and weights of fit k; scores are 0 where the weight is, so that none overflows."""
        s = self.S[k]
        if not self._has_all[k]:
            u = np.where(np.repeat(s > 0.0, self.n_outputs), u, 0.0)
        return self.y, u, s

    def _side_by_side(self, products: Array, n_fits: int) -> Array:
        """Scores of shape (n_fits · n_outputs, n_samples) with the outputs of a sample side by side."""
        if self.n_outputs == 1:
            return products
        by_output = products.reshape(n_fits, self.n_outputs, -1)
        return np.ascontiguousarray(by_output.transpose(0, 2, 1)).reshape(n_fits, -1)

    def _by_output(self, scores: Array) -> Array:
        """Inverse of :meth:`_side_by_side`."""
        if self.n_outputs == 1:
            return scores
        stacked = scores.reshape(len(scores), -1, self.n_outputs)
        return np.ascontiguousarray(stacked.transpose(0, 2, 1)).reshape(-1, len(self.y))


# -- Newton's method ----------------------------------------------------------------------------------


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
    n_columns : int or None
        None: moments are never formed.
    """

    def __init__(self, n_columns: int | None) -> None:
        self.has_room = n_columns is not None and n_columns <= MOST_SQUARE_COLUMNS
        self._wants_moments = n_columns is not None and n_columns <= _FEW_COLUMNS
        self._moments: MaybeArray = None

    def improve(self) -> bool:
        """Form moments, or new ones, at the next call of :meth:`inverse`; False where there is no room."""
        self._wants_moments, self._moments = self.has_room, None
        return self._wants_moments

    def inverse(
        self, sums: Sums, fits: Array, u: Array, damping: Array, alpha: float, dtype: Any
    ) -> Product:
        """Function that divides by about the mean Hessian of the fits."""
        curvature = float(np.mean(sums.curvatures(fits, u, damping)))
        curvature = max(curvature, np.finfo(float).tiny)
        if not self._wants_moments:
            # One scale for all columns: rows of normalised samples have the same sum, so that gradients are
            # orthogonal to a common shift of all coefficients, along which only the penalty is curved.
            scales = np.full(sums.n_columns + 1, sums.spread(fits, u, damping) + 2.0 * alpha)
            scales[-1] = curvature
            return lambda r: _balanced(r / scales, sums.balanced)
        if self._moments is None:
            moments = sums.moments(fits, u, damping) / curvature
            self._moments = moments.astype(dtype, copy=False)
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
    damping = np.full(n_fits, _FIRST_DAMPING)
    inverse: Product | None = None
    limit = _MAX_PRODUCTS if preconditioner.has_room else _MAX_PRODUCTS_WITHOUT_MOMENTS
    while len(running) and n_iter.max() < max_iter:
        at, here, d = u[running], theta[running], damping[running]
        g = sums.gradients(running, at)
        g[:, :, : sums.n_columns] += 2.0 * alpha * here[:, :, : sums.n_columns]
        if inverse is None:
            inverse = preconditioner.inverse(sums, running, at, d, alpha, dtype)
        scale = np.maximum(J[running], floor)
        of_losses = sums.product(running, at, d)
        step, solved, n_products = conjugate_gradients(
            _penalised_product(of_losses, alpha, sums.n_columns),
            inverse,
            g,
            0.1 * tol * scale,
            limit,
        )
        slope, du = np.einsum("fkj,fkj->f", g, step), sums.scores(step)
        lengths, J_new = _search(sums, running, at, du, here, step, J[running], slope, alpha)
        t = lengths[:, None, None]
        u[running], theta[running] = at + t[:, 0] * du, here + t * step
        J[running] = J_new
        n_iter[running] += 1
        criterion[running] = 0.5 * np.abs(slope) / scale  # a rising slope is rounding
        eased = np.where(lengths == 1.0, np.minimum(d, criterion[running]), 10.0 * d)
        damping[running] = np.minimum(eased, _MOST_DAMPING)
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
    g : ndarray of shape (n_fits, n_outputs, n_columns)
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
