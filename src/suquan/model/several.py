"""Models with several targets: scores ⟨A, S_i⟩ + b with a matrix A of low rank or of small norm.

S_i g = T_i B g is the sample normalised to the target g on K knots. With R = (I + smoothness·K²·L) / K, L the
Laplacian of the path, and targets of sum 0,

    multi:    Σ_i s_i ℓ(y_i, u_i) + alpha·‖A R^½‖_*         min over A = Σ_l w_l g_lᵀ of at most n_targets terms
    matrix:   Σ_i s_i ℓ(y_i, u_i) + alpha·‖A R^½‖_F²

with weights s of sum 1. The trace norm is the smallest ½ Σ_l ‖w_l‖² + g_lᵀ R g_l, so that "multi" alternates
two ridge problems, W given the targets and the targets given W. After each of them the singular value
decomposition shares the singular values out evenly between both sides: the objective never rises. "matrix" is
one ridge problem, whose design is the normalised copies of the samples at all targets of a basis.

A duality gap says how far the objective is from the minimum of the convex problem, that of "multi" without a
limit on the rank. It needs no more than slopes: with −θ = ∂L/∂u, a convex loss is at least L(u) − θ·(u' − u).

:mod:`suquan.model.prepare` makes a :class:`MatrixProblem` of ranked samples, :mod:`suquan.model.rounds` asks
for its fits.
Coefficients W have shape (n_outputs, n_targets, n_features), targets G (n_knots, n_targets).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from suquan.losses import Loss
from suquan.model.problem import FLOAT64_ENTRIES, Fit
from suquan.ranking import SampleOperator
from suquan.solvers._products import gram_matrix
from suquan.solvers.ridge import MOST_ROOT_SAMPLES, LinearFit, RidgeDesign
from suquan.targets import knot_positions, read_at_grid

# Accuracy of both ridge problems in units of the user's: the gap falls like its root.
_RIDGE_TOL = 1e-8
# Singular values below this share of the largest count as 0.
_ROUNDING = 1e-10
# Targets that together are worth less than this share of the tolerance are left out.
_FADED = 0.1
# Rounds without a fall of the objective, relative to it, after which there will be none.
_IDLE, _LEAST_FALL = 4, 1e-12
# Squared length of a new target, as a share of the largest singular value.
_NEW_TARGET = 0.1
# What is left out may open the gap by up to this factor.
_OPEN = 2.0
# Columns per sample from which the Gram matrix of all copies pays for one fit.
_WIDE = 4
# Length of an intercept's column beside coefficients that all outputs share.
_FREE = 1e3
_MAX_NEWTON = 50
# Share of the squared norm of the targets that "matrix" shows.
_SHOWN = 0.999


def target_basis(n_knots: int, smoothness: float) -> np.ndarray:
    """Basis Q of the targets of sum 0 with QᵀRQ = I, of shape (n_knots, n_knots − 1): scaled cosines.

    The cosines are the eigenvectors of the path's Laplacian, of eigenvalues 2 − 2 cos(πk/K).
    """
    k = np.arange(1, n_knots)
    cosines = np.cos(np.pi * np.outer(np.arange(n_knots) + 0.5, k) / n_knots) * np.sqrt(
        2.0 / n_knots
    )
    norms = (1.0 + smoothness * n_knots**2 * (2.0 - 2.0 * np.cos(np.pi * k / n_knots))) / n_knots
    return cosines / np.sqrt(norms)


@dataclass(frozen=True)
class MatrixProblem:
    """Ranked samples, labels, weights and penalties of one fit.

    Attributes
    ----------
    operator : SampleOperator
    n_knots : int
    loss : Loss
    y : ndarray of shape (n_samples,)
        Labels as `loss` wants them.
    s : ndarray of shape (n_samples,)
        Weights > 0 of sum 1.
    alpha, smoothness : float
    fit_intercept : bool
    norm : {"trace", "frobenius"}
    """

    operator: SampleOperator
    n_knots: int
    loss: Loss
    y: np.ndarray
    s: np.ndarray
    alpha: float
    smoothness: float
    fit_intercept: bool
    norm: str

    @cached_property
    def basis(self) -> np.ndarray:
        """Targets g = Q h, of norm ‖h‖."""
        return target_basis(self.n_knots, self.smoothness)

    def expand(self, G: np.ndarray) -> np.ndarray:
        """Targets f = B g of the rows g of G, of shape (n_targets, n_features)."""
        return np.stack([read_at_grid(g, self.operator.n_features) for g in G])

    def roughness(self, g: np.ndarray) -> float:
        """0: targets have no weight where there are no coefficients."""
        return 0.0

    def w_step(
        self, G: np.ndarray, alpha: float, tol: float, max_iter: int, start: Any = None
    ) -> tuple[np.ndarray, LinearFit]:
        """Ridge model of W at the targets G, with the penalty alpha ‖W‖²."""
        n, m, F = self.operator.n_samples, G.shape[1], self.expand(G.T)
        by_gram = n <= min(self.operator.n_features * m // _WIDE, MOST_ROOT_SAMPLES)
        if by_gram:  # one normalised copy at a time is in memory
            gram = sum((gram_matrix(A) for A in self._copies(F)), np.zeros((n, n)))
            design = RidgeDesign(None, fit_intercept=self.fit_intercept, gram=gram)
        else:
            A = np.empty((n, F.size), np.float64 if self._is_small(F) else np.float32)
            for l, copy in enumerate(self._copies(F)):
                A[:, l * F.shape[1] : (l + 1) * F.shape[1]] = copy
            design = RidgeDesign(A, fit_intercept=self.fit_intercept, by_columns=True)
        at = self.loss, self.y, self.s, alpha
        fit = design.solve(*at, tol=tol, max_iter=max_iter, start=None if by_gram else start)
        if by_gram:
            return np.array([[self.operator.sum_apply(a, f) for f in F] for a in fit.w]), fit
        return fit.w.reshape(len(fit.w), m, -1), fit

    def target_step(
        self, W: np.ndarray, alpha: float, tol: float, max_iter: int
    ) -> tuple[np.ndarray, LinearFit]:
        """Ridge model of the targets Q H at the coefficients W, with the penalty alpha ‖H‖²."""
        n_outputs, m, _ = W.shape
        knots = knot_positions(self.operator.n_features, self.n_knots)
        rows = np.empty((self.operator.n_samples, n_outputs, m, self.n_knots))
        for k, l in np.ndindex(n_outputs, m):
            rows[:, k, l] = self.operator.adjoint(W[k, l], knots=knots)
        D = (rows @ self.basis).reshape(len(rows) * n_outputs, -1)
        size = D.shape[1]
        if self.fit_intercept and n_outputs > 1:
            # Outputs share the coefficients but not the intercepts, which get columns so long that their
            # penalty is next to none; the W-step after this one has none at all.
            D = np.hstack([D, _FREE * np.tile(np.eye(n_outputs), (len(rows), 1))])
        has_intercept = self.fit_intercept and n_outputs == 1
        design = RidgeDesign(D, fit_intercept=has_intercept, is_shared=True)
        fit = design.solve(self.loss, self.y, self.s, alpha, tol=tol, max_iter=max_iter)
        if n_outputs > 1:
            b = _FREE * fit.w[0, size:] if self.fit_intercept else np.zeros(n_outputs)
            fit = replace(fit, b=b)
        return fit.w[0, :size].reshape(m, -1).T, fit

    def sum_gram(self, theta: np.ndarray) -> np.ndarray:
        """Σ_k QᵀMₖᵀMₖQ for the sums M_k = Σ_i θ_ik S_i, of shape (n_knots − 1, n_knots − 1)."""
        F, total = self.expand(self.basis.T), 0.0
        for of_output in theta.T:
            sums = [self.operator.sum_apply(of_output, f) for f in F]
            total = total + np.inner(sums, sums)
        return np.asarray(total)

    def loss_at(self, u: np.ndarray) -> float:
        """Loss of scores."""
        return self.loss.value(self.y, np.ravel(u), self.s)

    def _copies(self, F: np.ndarray) -> Iterator[np.ndarray]:
        """Normalised samples at each of the targets, each of shape (n_samples, n_features)."""
        for f in F:
            yield self.operator.apply(f, dtype=np.float64 if self._is_small(F) else np.float32)

    def _is_small(self, F: np.ndarray) -> bool:
        """Whether copies at the targets F are kept in float64."""
        return self.operator.codes.size * len(F) <= 2 * FLOAT64_ENTRIES


@dataclass(frozen=True)
class _State:
    """Factors of A = W (Q H)ᵀ with equal norms, intercepts and scores."""

    W: np.ndarray
    H: np.ndarray  # (n_knots − 1, n_targets)
    sigma: np.ndarray
    b: np.ndarray
    u: np.ndarray
    objective: float


def fit_targets(
    problem: MatrixProblem, g: np.ndarray, n_targets: int | None, max_rounds: int, steps: Any
) -> Fit:
    """Fit with the norm of the problem.

    Parameters
    ----------
    problem : MatrixProblem
    g : ndarray of shape (n_knots,)
        First target of the start; cosines are the others.
    n_targets : int or None
        Largest number of targets under the trace norm; None: as many as the convex problem needs.
    max_rounds : int
    steps : Steps
    """
    if problem.norm == "frobenius":
        return fit_matrix(problem, steps)
    h = np.linalg.lstsq(problem.basis, g - g.mean(), rcond=None)[0]
    H = np.column_stack([h, np.eye(len(h))[:, 1 : n_targets or 2]])
    return fit_multi(problem, H, n_targets, max_rounds, steps)


def fit_matrix(problem: MatrixProblem, steps: Any) -> Fit:
    """Minimum of the problem with the squared Frobenius norm."""
    Q, alpha = problem.basis, problem.alpha
    W, fit = problem.w_step(Q, alpha, _RIDGE_TOL * steps.tol, steps.max_iter)
    theta, lower = _lower_bound(problem, fit.u)
    gap = fit.objective - lower + float(np.trace(problem.sum_gram(theta))) / (4.0 * alpha)
    state = _balanced(problem, W, np.eye(Q.shape[1]), fit)
    return _result(problem, state, fit.objective, gap, [fit.objective], 0, fit.n_iter, steps.tol)


def fit_multi(
    problem: MatrixProblem, H: np.ndarray, n_targets: int | None, max_rounds: int, steps: Any
) -> Fit:
    """Rounds from the targets Q H until the gap or, with a limit on them, the fall of the objective is small.

    Parameters
    ----------
    problem : MatrixProblem
    H : ndarray of shape (n_knots − 1, n_start)
    n_targets : int or None
    max_rounds : int
    steps : Steps
        `tol` is relative to the objective.
    """
    how = 0.5 * problem.alpha, _RIDGE_TOL * steps.tol, steps.max_iter
    W, fit = problem.w_step(problem.basis @ H, *how)
    state, n_iter = _balanced(problem, W, H, fit), fit.n_iter
    history, n_rounds, (gap, wanted) = [state.objective], 0, _trace_gap(problem, state)
    before, momentum, n_idle = state.H, 0, 0
    limit = n_targets or problem.n_knots - 1
    while n_rounds < max_rounds and gap > steps.tol * state.objective:
        H, fit = problem.target_step(state.W, *how)
        after, n_iter = _balanced(problem, state.W, H, fit), n_iter + fit.n_iter
        history.append(after.objective)
        weight = momentum / (momentum + 3.0)
        tried = [after.H + weight * (after.H - _turned(before, after.H)), after.H]
        grown = _grown(after, wanted, limit)
        for H in tried if grown is None else (grown, *tried):
            known = _times(after.W, np.eye(after.H.shape[1], H.shape[1]))  # 0 for new targets
            start = LinearFit.at(known.reshape(len(known), -1), after.b)
            W, fit = problem.w_step(problem.basis @ H, *how, start)
            state, n_iter = _balanced(problem, W, H, fit), n_iter + fit.n_iter
            if state.objective <= after.objective:
                break
        momentum, before = (momentum + 1 if H is tried[0] else 1), after.H
        history.append(state.objective)
        (gap, wanted), n_rounds = _trace_gap(problem, state), n_rounds + 1
        told = f"J = {steps.unit * state.objective:.8g}, gap {steps.unit * gap:.1e}"
        steps.report(f"round {n_rounds}: {told}, {len(state.sigma)} targets")
        # A limited rank keeps the gap open: rounds that gain next to nothing end the fit then.
        least = (_LEAST_FALL if n_targets is None else 0.1 * steps.tol) * state.objective
        n_idle = n_idle + 1 if history[-3] - history[-1] <= least else 0
        if n_idle == _IDLE:
            break
    worth = problem.alpha * np.cumsum(state.sigma[::-1])[::-1]
    kept = worth > _FADED * steps.tol * state.objective
    if not kept.all() and kept.any():
        H = state.H[:, kept]
        W, fit = problem.w_step(problem.basis @ H, *how)
        trimmed, n_iter = _balanced(problem, W, H, fit), n_iter + fit.n_iter
        open_by, _ = _trace_gap(problem, trimmed)
        if open_by <= max(gap, _OPEN * steps.tol * trimmed.objective):
            state, gap = trimmed, open_by
    tol = steps.tol if n_targets is None else np.inf
    return _result(problem, state, state.objective, gap, history, n_rounds, n_iter, tol)


def _grown(state: _State, wanted: np.ndarray, limit: int) -> np.ndarray | None:
    """Targets with those added that would lower the objective most; None where there is no room or no need."""
    H = state.H
    for vector in wanted.T:
        rest = vector - H @ np.linalg.lstsq(H, vector, rcond=None)[0]
        size = float(np.linalg.norm(rest))
        if H.shape[1] < limit and size > 0.5:
            length = np.sqrt(_NEW_TARGET * max(state.sigma[0], 1e-8))
            H = np.column_stack([H, length * rest / size])
    return None if H is state.H else H


def _turned(H: np.ndarray, like: np.ndarray) -> np.ndarray:
    """Targets H turned to be as near to other targets as they get: they are known up to a rotation."""
    left, _, right = np.linalg.svd(H.T @ like, full_matrices=False)
    return H @ left @ right


def _balanced(problem: MatrixProblem, W: np.ndarray, H: np.ndarray, fit: LinearFit) -> _State:
    """Factors of W Hᵀ with the singular values shared out evenly, without those that are rounding."""
    gram = np.einsum("klj,kmj->lm", W, W)
    norms = np.sqrt(np.maximum(np.diagonal(gram), 1e-300))
    values, vectors = np.linalg.eigh(gram / np.outer(norms, norms))
    root = np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T * norms
    _, sigma, Vt = np.linalg.svd(root @ H.T, full_matrices=False)
    kept = sigma > _ROUNDING * sigma[0]
    kept[0] = True
    sigma, V = np.maximum(sigma[kept], 1e-300), Vt[kept].T
    W = _times(W, H.T @ V / np.sqrt(sigma))
    objective = problem.loss_at(fit.u) + problem.alpha * float(sigma.sum())
    return _State(W, V * np.sqrt(sigma), sigma, fit.b, fit.u, objective)


def _times(W: np.ndarray, T: np.ndarray) -> np.ndarray:
    """W T: other combinations of the targets' coefficients."""
    return np.einsum("klj,lm->kmj", W, T)


# -- gaps ---------------------------------------------------------------------------------------------


def _trace_gap(problem: MatrixProblem, state: _State) -> tuple[float, np.ndarray]:
    """Bound on the distance of the objective from its minimum under the trace norm, and targets that lower it.

    Where the norm κ of Σ_i θ_i S_i R^-½ exceeds alpha, the linear bound on the loss is used on the norm of the
    minimiser, which is at most J / alpha as losses are not negative.
    """
    theta, lower = _lower_bound(problem, state.u)
    squares, vectors = np.linalg.eigh(problem.sum_gram(theta))
    kappas = np.sqrt(np.maximum(squares, 0.0)) / problem.alpha
    gap = state.objective - lower + max(kappas[-1] - 1.0, 0.0) * state.objective
    return max(gap, 0.0), vectors[:, kappas > 1.0][:, ::-1]


def _lower_bound(problem: MatrixProblem, u: np.ndarray) -> tuple[np.ndarray, float]:
    """Slopes θ = −∂L/∂u, (n_samples, n_outputs), at u with the best intercepts, and L + θ·u there."""
    u = np.ravel(u)
    if problem.fit_intercept:
        u = _recentred(problem, u)
    slopes = problem.loss.gradient(problem.y, u, problem.s)
    theta = -slopes.reshape(len(problem.y), problem.loss.n_outputs)
    return theta, problem.loss_at(u) - float(slopes @ u)


def _recentred(problem: MatrixProblem, u: np.ndarray) -> np.ndarray:
    """Scores with the best intercepts on top of them, by Newton's method to the last digits of its gradient."""
    n_outputs, best, size = problem.loss.n_outputs, u, np.inf
    shifts = np.tile(np.eye(n_outputs), (len(problem.y), 1))
    for _ in range(_MAX_NEWTON):
        slope = problem.loss.gradient(problem.y, u, problem.s) @ shifts
        if not np.abs(slope).max() < 0.5 * size:
            break
        size, best = np.abs(slope).max(), u
        H = shifts.T @ problem.loss.hessian(problem.y, u, problem.s).product(shifts)
        u = u - shifts @ np.linalg.lstsq(H, slope, rcond=1e-12)[0]
    return best


def _result(
    problem: MatrixProblem, state: _State, objective: float, gap: float, history: list[float],
    n_rounds: int, n_iter: int, tol: float,
) -> Fit:  # fmt: skip
    """The state with targets of mean square 1, the largest first, and of the sign of method="svd"."""
    sigma = state.sigma
    G = problem.basis @ state.H
    scale = np.sqrt(np.mean(problem.expand(G.T) ** 2, axis=1))
    ramp = np.arange(len(G)) - 0.5 * (len(G) - 1)
    scale *= np.where(ramp @ G < 0.0, -1.0, 1.0)
    W = _times(state.W, np.diag(scale))
    n_shown = len(sigma)
    if problem.norm == "frobenius":
        n_shown = int(np.argmax(np.cumsum(sigma**2) >= _SHOWN * np.sum(sigma**2))) + 1
    unfinished: tuple[str, ...] = ()
    if gap > _OPEN * tol * objective:
        told = f"the duality gap is {gap / objective:.1e} of the objective > tol = {tol:.0e}"
        unfinished = (told,)
    return Fit(
        (G / scale).T, W.reshape(len(W), -1), state.b, objective, history, n_rounds, max(n_iter, 1),
        unfinished, singular_values=sigma, gap=gap, n_shown=n_shown,
    )  # fmt: skip
