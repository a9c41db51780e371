"""The w-step: penalised linear models on a fixed design.

    min over (w, b)   Σ_i s_i ℓ(y_i, A_i·w + b) + alpha [(1 − l1_ratio) ‖w‖² + l1_ratio ‖w‖₁]

with weights s of sum 1 and an intercept b that is not penalised. This module solves l1_ratio = 0;
:mod:`suquan.solvers.elastic_net` the rest. Two ways, by the shape of the design:

- n_samples ≤ n_features (:mod:`suquan.solvers._gram`): w = Aᵀa, so only the Gram matrix AAᵀ is needed;
  Newton in n_samples dimensions.
- n_samples > n_features (:mod:`suquan.solvers._newton_cg`): Newton with conjugate gradients, all fits of a
  batch in lockstep, so that every product with A is a matrix product. Its preconditioner is built only once
  the iterations without it have cost as much as building it.

**Stopping.** ``criterion`` is half the squared Newton decrement, ½ gᵀH⁻¹g, over the objective: the
relative gap J/J* − 1 to second order, free of any scale. It is measured before the last step, so the point
returned is closer than it says.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from suquan.losses import Loss
from suquan.objective import NormalizedSamples
from suquan.solvers._algebra import Array, as_floats
from suquan.solvers._fits import MAX_ITER, TOL, FoldWeights, LinearFit, null_intercept
from suquan.solvers._gram import GramSolver
from suquan.solvers._newton_cg import PrimalSolver
from suquan.solvers.elastic_net import solve_elastic_net

__all__ = ["FoldWeights", "LinearFit", "RidgeDesign", "null_intercept", "solve_w"]


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
        return solve_elastic_net(
            A, loss, y, s, alpha, l1_ratio,
            fit_intercept=fit_intercept, tol=tol, max_iter=max_iter, start=start,
        )  # fmt: skip
    design = RidgeDesign(A, fit_intercept=fit_intercept)
    return design.solve(loss, y, s, alpha, tol=tol, max_iter=max_iter, start=start)


class RidgeDesign:
    """A design whose ridge problems, for any alpha, labels and weights, share one factorisation.

    Parameters
    ----------
    A : ndarray of shape (n_samples, n_features), float32 or float64; or NormalizedSamples
        Not copied where it is C-contiguous; must not change while the design is in use. A way to make its rows
        will do where there are at least as many features as samples.
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

    def __init__(self, A: Array | NormalizedSamples, *, fit_intercept: bool = True):
        n_samples, n_features = A.shape
        self.fit_intercept = fit_intercept
        self._solver: GramSolver | PrimalSolver
        if isinstance(A, np.ndarray):
            A = as_floats(A)
        if n_samples <= n_features or isinstance(A, NormalizedSamples):
            self._solver = GramSolver.from_design(A, fit_intercept)
        else:
            self._solver = PrimalSolver(A, fit_intercept)

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
        design._solver = GramSolver.from_gram(G, fit_intercept)
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
        (fit,) = self._solver.solve_batch(loss, y, S, alpha, tol, max_iter, start)
        if start is not None and not fit.converged:
            # Newton does not leave a start whose scores are saturated: begin anew.
            (anew,) = self._solver.solve_batch(loss, y, S, alpha, tol, max_iter, None)
            fit = min(fit, anew, key=lambda fit: fit.objective)
        return fit

    def solve_many(
        self,
        loss: Loss,
        y: Array,
        S: Array | FoldWeights,
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
        S : ndarray of shape (n_fits, n_samples), or FoldWeights
            Weights of each fit; 0 leaves a row out.
        start : LinearFit, optional
            Start of every fit; by default the fit to the mean weights.

        Returns
        -------
        list of n_fits LinearFit
        """
        if not (isinstance(S, FoldWeights) and isinstance(self._solver, PrimalSolver)):
            S = _normalised(np.asarray(S))
        if start is None and len(S) > 2:
            middle = (S.mean() if isinstance(S, FoldWeights) else S.mean(axis=0))[None]
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


def _normalised(S: Array) -> Array:
    S = np.asarray(S, dtype=np.float64)
    return S / S.sum(axis=1, keepdims=True)
