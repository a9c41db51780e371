"""The w-step: penalised linear models on a fixed design.

    min over (w, b)   Σ_i s_i ℓ(y_i, A_i·w + b) + alpha [(1 − l1_ratio) ‖w‖² + l1_ratio ‖w‖₁]

with weights s of sum 1 and an intercept b that is not penalised. This module solves l1_ratio = 0;
:mod:`suquan.solvers.elastic_net` the rest. Two ways, by the shape of the design:

- n_samples ≤ n_features (:mod:`suquan.solvers.ridge_gram`): w = Aᵀa, so only the Gram matrix AAᵀ is needed;
  Newton in n_samples dimensions.
- n_samples > n_features (:mod:`suquan.solvers.ridge_features`): Newton with conjugate gradients, all fits of a
  batch in lockstep, so that every product with A is a matrix product.

The rounds (:mod:`suquan.objective`), the grid and the comparison call :class:`RidgeDesign` and get
:class:`LinearFit`.

**Stopping.** ``criterion`` is half the squared Newton decrement, ½ gᵀH⁻¹g, over the objective: the
relative gap J/J* − 1 to second order, free of any scale. It is measured before the last step, so the point
returned is closer than it says.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from suquan.losses import Loss
from suquan.solvers._products import Array, as_floats, one_blas_thread
from suquan.solvers.newton import MAX_ITER, TOL, LinearFit, normalised
from suquan.solvers.ridge_features import FeatureSolver
from suquan.solvers.ridge_gram import GramSolver


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
        A = as_floats(A)
        self.fit_intercept = fit_intercept
        self._solver: GramSolver | FeatureSolver
        with one_blas_thread():
            if A.shape[0] <= A.shape[1]:
                self._solver = GramSolver.from_design(A, fit_intercept)
            else:
                self._solver = FeatureSolver(A, fit_intercept)

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
        return cls.from_solver(GramSolver.from_gram(G, fit_intercept), fit_intercept)

    @classmethod
    def from_solver(cls, solver: GramSolver | FeatureSolver, fit_intercept: bool) -> RidgeDesign:
        """Design with a solver of its own."""
        design = cls.__new__(cls)
        design.fit_intercept, design._solver = fit_intercept, solver
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
        max_iter : int, default=200
        start : LinearFit, optional

        Returns
        -------
        LinearFit
        """
        S = normalised(np.asarray(s)[None])
        with one_blas_thread():
            (fit,) = self._solver.solve_batch(loss, y, S, alpha, tol, max_iter, start)
            if start is not None and not fit.converged:
                # Newton does not leave a start whose scores are saturated: begin anew.
                (anew,) = self._solver.solve_batch(loss, y, S, alpha, tol, max_iter, None)
                fit = min(fit, anew, key=lambda fit: fit.objective)
            return self._solver.complete([fit])[0]

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
            As for :meth:`solve`.
        S : ndarray of shape (n_fits, n_samples)
            Weights of each fit; 0 leaves a row out.
        start : LinearFit, optional
            Start of every fit; by default the fit to the mean weights.

        Returns
        -------
        list of n_fits LinearFit
        """
        S = normalised(S)
        with one_blas_thread():
            if start is None and len(S) > 2:
                middle, loose = S.mean(axis=0)[None], max(tol, 1e-4)
                (start,) = self._solver.solve_batch(loss, y, middle, alpha, loose, max_iter, None)
            fits = self._solver.solve_batch(loss, y, S, alpha, tol, max_iter, start)
            return self._solver.complete(fits)

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
            As for :meth:`solve`.
        alphas : sequence of float

        Returns
        -------
        list of LinearFit
            In the order of ``alphas``.
        """
        S = normalised(np.asarray(s)[None])
        order = np.argsort(alphas)[::-1].tolist()
        path: list[tuple[float, LinearFit]] = []
        with one_blas_thread():
            for alpha in (alphas[k] for k in order):
                if len(path) > 1 and path[-2][0] > path[-1][0]:
                    objective = partial(_objective, loss=loss, y=y, s=S[0], alpha=alpha)
                    start = min(path[-1][1], _extrapolated(path, alpha), key=objective)
                (start,) = self._solver.solve_batch(loss, y, S, alpha, tol, max_iter, start)
                path.append((alpha, start))
            fits = [path[place][1] for place in np.argsort(order)]
            return self._solver.complete(fits)


def _extrapolated(path: Sequence[tuple[float, LinearFit]], alpha: float) -> LinearFit:
    """The last fit of a path, moved on to alpha linearly in log alpha, as margins of separable data grow."""
    (alpha_before, before), (alpha_last, last) = path[-2:]
    t = np.log(alpha_last / alpha) / np.log(alpha_before / alpha_last)
    moved = {
        name: new + t * (new - getattr(before, name))
        for name in ("w", "b", "u", "dual")
        if (new := getattr(last, name)) is not None
    }
    return replace(last, **moved)


def _objective(fit: LinearFit, loss: Loss, y: Array, s: Array, alpha: float) -> float:
    """J of a fit that is not completed, from its scores."""
    if fit.w is not None:
        square = np.sum(fit.w**2)
    else:  # w·w = a·G a, with the scores u = G a + b
        square = np.sum(fit.dual.T * (fit.u.reshape(len(y), -1) - fit.b))
    return loss.value(y, np.ravel(fit.u), s) + alpha * float(square)
