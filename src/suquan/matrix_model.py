"""Models with several targets: scores ⟨A, S_i⟩ + b with a matrix A of low rank or of small norm.

With K knots, R = (I + smoothness·K²·L) / K, L the Laplacian of the path, and targets of sum 0,

    multi:    Σ_i s_i ℓ(y_i, u_i) + alpha·‖A R^½‖_*         min over A = Σ_l w_l g_lᵀ of at most n_targets terms
    matrix:   Σ_i s_i ℓ(y_i, u_i) + alpha·‖A R^½‖_F²

with weights s of sum 1. The trace norm is the smallest ½ Σ_l ‖w_l‖² + g_lᵀ R g_l, so that "multi" alternates
two ridge problems, W given the targets and the targets given W. After each of them the singular value
decomposition shares the singular values out evenly between both sides: the objective never rises. "matrix" is
one ridge problem. Both have a duality gap, that of "multi" to the convex problem without a limit on the rank.

:mod:`suquan.fitting` makes a :class:`MatrixProblem` of ranked samples and gets a :class:`MatrixFit`.
:mod:`suquan.solvers.matrix_data` has all that depends on the samples.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from scipy.linalg import null_space

from suquan.losses import Loss
from suquan.objective import FLOAT64_ENTRIES, JointFit, Steps, intercept_only
from suquan.ranking import SampleOperator
from suquan.solvers._products import one_blas_thread
from suquan.solvers.matrix_data import Curves
from suquan.solvers.ridge import (
    LinearFit,
    Minimised,
    Preconditioner,
    damped_curvature,
    ignores_shifts,
    negligible,
    newton,
)
from suquan.targets import read_at_grid

# Accuracy of the target step and of intercepts, which are cheap, and bounds on that of the W-step, which is as
# loose as the gap allows for large data alone.
_STEP_TOL = 1e-14
_W_TOL = 1e-13, 1e-4
# Singular values below this share of the largest count as 0: of the result, and while rounds run.
_NO_TARGET, _ROUNDING = 1e-6, 1e-10
# Squared length of a new target, as a share of the largest singular value; smaller where that is too much.
_NEW_TARGET = 0.1
# Rounds that an extrapolation looks back on.
_MEMORY = 8
# Rounds without progress after which there will be none.
_IDLE = 4
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
    def data(self) -> Curves:
        """All that the fit asks of the samples."""
        return Curves(self.operator, self.n_knots)

    @cached_property
    def basis(self) -> np.ndarray:
        """Targets g = Q h, of norm ‖h‖."""
        return target_basis(self.n_knots, self.smoothness)

    @property
    def loosest(self) -> float:
        """Loosest tolerance of the W-step."""
        return _W_TOL[int(self.operator.codes.size > FLOAT64_ENTRIES)]

    @property
    def max_rank(self) -> int:
        """Largest rank of A."""
        return min(self.n_knots - 1, self.operator.n_features * self.loss.n_outputs)

    def expand(self, G: np.ndarray) -> np.ndarray:
        """Targets f = B g of the rows g of G, of shape (n_targets, n_features)."""
        return np.stack([read_at_grid(g, self.operator.n_features) for g in G])

    def roughness(self, g: np.ndarray) -> float:
        """0: targets have no weight where there are no coefficients."""
        return 0.0


@dataclass(frozen=True)
class MatrixFit(JointFit):
    """Result of a fit: A_k = Σ_l w_kl g_lᵀ, largest singular value first.

    As :class:`suquan.objective.JointFit`, with `g` of shape (n_targets, n_knots), whose targets have mean
    square 1 and rise where their sign is free, and `w` of shape (n_outputs, n_targets · n_features).

    Attributes
    ----------
    singular_values : ndarray of shape (n_targets,)
        Of A R^½.
    gap : float
        Bound on the distance of the objective from the minimum of the convex problem.
    n_shown : int
        Targets to show: for "matrix" those that carry 99.9% of the squared norm.
    """

    singular_values: np.ndarray = field(default_factory=lambda: np.zeros(1))
    gap: float = 0.0
    n_shown: int = 1


@dataclass(frozen=True)
class _State:
    """Factors of A = W (Q H)ᵀ with equal norms, intercepts and scores."""

    W: Any
    H: np.ndarray  # (n_knots − 1, n_targets)
    sigma: np.ndarray
    b: np.ndarray
    u: np.ndarray
    objective: float


# -- one ridge problem over shared coefficients -----------------------------------------------------


class SharedCoefficients:
    """Sums over samples of one fit whose coefficients h all outputs share, with an intercept each.

        min over (h, b)   L(D h + b) + ½ alpha ‖h‖²

    What :class:`suquan.solvers.ridge.Batch` is where every output has its own.

    Parameters
    ----------
    problem : MatrixProblem
    D : ndarray of shape (n_samples · n_outputs, n_coefficients)
    offset : ndarray of shape (n_samples · n_outputs,) or float, default=0.0
        Scores to which those of the coefficients are added.
    """

    def __init__(self, problem: MatrixProblem, D: np.ndarray, offset: Any = 0.0):
        self.loss, self.y, self.s, self.offset = problem.loss, problem.y, problem.s, offset
        n_outputs, self.alpha = self.loss.n_outputs, 0.5 * problem.alpha
        self.basis = np.eye(n_outputs, n_outputs if problem.fit_intercept else 0)
        if problem.fit_intercept and ignores_shifts(self.loss, self.y, self.s):
            # Without curvature along a common shift, Newton's method drifts there, and scores lose digits.
            self.basis = null_space(np.ones((1, n_outputs)))
        ones = np.tile(self.basis, (len(self.y), 1))
        self.X, self.n_columns, self.balanced = np.hstack([D, ones]), D.shape[1], False

    def solve(self, h: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray, Minimised]:
        """Best h and b from a start, and how they were found."""
        theta = np.r_[h, b @ self.basis][None, None]
        floor, kept = negligible(self.loss, self.y, self.s), Preconditioner(0)
        found = newton(self, kept, theta, self.alpha, floor, _STEP_TOL, 100)
        theta = found.theta[0, 0]
        return theta[: len(h)], self.basis @ theta[len(h) :], found

    def scores(self, theta):
        """Scores without the offset, in which they are linear."""
        return (self.X @ theta[0, 0])[None]

    def values(self, fits, u):
        """Loss."""
        return np.array([self.loss.value(self.y, u[0] + self.offset, self.s)])

    def gradients(self, fits, u):
        """Its gradient."""
        return (self.loss.gradient(self.y, u[0] + self.offset, self.s) @ self.X)[None, None]

    def spread(self, fits, u, damping):
        """Never asked for: the moments are small."""
        raise NotImplementedError

    def product(self, fits, u, damping):
        """Products with its Hessian."""
        H = self.moments(fits, u, damping)
        return lambda V: V @ H

    def curvatures(self, fits, u, damping):
        """1: the moments are the Hessian itself."""
        return np.ones(1)

    def moments(self, fits, u, damping):
        """Hessian of the loss in (h, b)."""
        at = self.loss, self.y, u[0] + self.offset, self.s, float(damping[0])
        return self.X.T @ damped_curvature(*at).product(self.X)


# -- certificate ------------------------------------------------------------------------------------


def _dual_point(problem: MatrixProblem, u: np.ndarray) -> np.ndarray:
    """θ = −∂L/∂u of shape (n_samples, n_outputs), of sum 0 where there is an intercept."""
    shape = len(problem.y), problem.loss.n_outputs
    if problem.fit_intercept:
        u = _recentred(problem, np.ravel(u))
    return -problem.loss.gradient(problem.y, np.ravel(u), problem.s).reshape(shape)


def _recentred(problem: MatrixProblem, u: np.ndarray) -> np.ndarray:
    """Scores with the best intercepts on top of them, to the accuracy of their gradient."""
    n_outputs = problem.loss.n_outputs
    shared = SharedCoefficients(problem, np.empty((len(u), 0)), u)
    theta, size = shared.solve(np.zeros(0), np.zeros(n_outputs))[2].theta, np.inf
    best = scores = shared.scores(theta)
    while True:  # values do not tell the last digits apart, gradients do
        gradient = shared.gradients(None, scores)
        if not np.abs(gradient).max() < 0.5 * size:
            return best[0] + u
        size, best = np.abs(gradient).max(), scores
        H = shared.moments(None, scores, np.zeros(1))
        theta = theta - np.linalg.lstsq(H, gradient[0, 0], rcond=1e-12)[0]
        scores = shared.scores(theta)


def _certificate(problem: MatrixProblem, state: _State) -> tuple[float, np.ndarray, np.ndarray]:
    """Gap of the trace norm; singular values of Σ_i θ_i S_i Q over alpha, and its right singular vectors."""
    Q, alpha = problem.basis, problem.alpha
    theta = _dual_point(problem, state.u)
    values, vectors = np.linalg.eigh(problem.data.sum_gram(theta, Q))
    norms = np.sqrt(np.maximum(values[::-1], 0.0)) / alpha
    theta *= min(1.0, 1.0 / max(norms[0], 1e-300))
    gap = state.objective + _conjugate(problem, theta)
    return gap, norms, vectors[:, ::-1]


def _conjugate(problem: MatrixProblem, theta: np.ndarray) -> float:
    a = -theta if problem.loss.n_outputs > 1 else -theta[:, 0]
    return problem.loss.conjugate(problem.y, a, problem.s)


# -- fits -------------------------------------------------------------------------------------------


@one_blas_thread()
def fit_targets(
    problem: MatrixProblem, g: np.ndarray, n_targets: int | None, steps: Steps
) -> MatrixFit:
    """Fit with the norm of the problem; an intercept alone where there is nothing to rank.

    Parameters
    ----------
    problem : MatrixProblem
    g : ndarray of shape (n_knots,)
        First target of the start; cosines are the others.
    n_targets : int or None
        Largest number of targets under the trace norm; None: as many as the convex problem needs.
    steps : Steps
    """
    if problem.operator.is_constant:
        fit = intercept_only(problem, g)
        return MatrixFit(**{**vars(fit), "g": g[None]})
    if problem.norm == "frobenius":
        return fit_matrix(problem, steps)
    h = np.linalg.lstsq(problem.basis, g - g.mean(), rcond=None)[0]
    H = np.column_stack([h, np.eye(len(h))[:, 1 : n_targets or 1]])
    return fit_multi(problem, H, n_targets, steps)


# -- matrix -----------------------------------------------------------------------------------------


def fit_matrix(problem: MatrixProblem, steps: Steps) -> MatrixFit:
    """Minimum of the problem with the squared Frobenius norm."""
    Q, alpha, loss, tol = problem.basis, problem.alpha, problem.loss, steps.tol
    design = problem.data.w_design(Q, problem.fit_intercept)
    w_tol = float(np.clip(1e-3 * tol, _W_TOL[0], problem.loosest))
    fit = design.solve(loss, problem.y, problem.s, alpha, tol=w_tol, max_iter=steps.max_iter)
    theta = _dual_point(problem, fit.u)
    norm = float(np.trace(problem.data.sum_gram(theta, Q)))
    gap = fit.objective + _conjugate(problem, theta) + norm / (4.0 * alpha)
    unfinished = _unfinished(gap, tol, fit.objective)
    W = problem.data.factor(fit, Q)
    state = _balanced(problem, W, np.eye(Q.shape[1]), fit.b, fit.u, 0.0)
    history = [fit.objective]
    return _result(problem, state, fit.objective, gap, history, 0, fit.n_iter, unfinished)


# -- multi ------------------------------------------------------------------------------------------


def fit_multi(
    problem: MatrixProblem, H: np.ndarray, n_targets: int | None, steps: Steps
) -> MatrixFit:
    """Rounds from the targets Q H until the gap or, with a limit on them, the fall of the objective is small.

    Parameters
    ----------
    problem : MatrixProblem
    H : ndarray of shape (n_knots − 1, n_start)
    n_targets : int or None
    steps : Steps
        `tol` is relative to the objective.
    """
    tol, max_iter = steps.tol, steps.max_iter
    limit = problem.max_rank if n_targets is None else min(n_targets, problem.max_rank)
    loosest = problem.loosest
    state, n_iter = _w_step(problem, H, None, loosest, max_iter)
    history, n_rounds, n_idle = [state.objective], 0, 0
    past, growth = _Past(), _NEW_TARGET
    gap, norms, vectors = _certificate(problem, state)
    while n_rounds < steps.max_rounds and gap > tol * state.objective:
        before = state.objective
        after, n_steps = _target_step(problem, state)
        n_iter += n_steps
        history.append(after.objective)
        w_tol = float(np.clip(1e-3 * gap / before, _W_TOL[0], loosest))
        grown = _grown(after, norms, vectors, limit, growth)
        for tried in (grown, past.extrapolate(H, after.H), after.H):
            if tried is None:
                continue
            state, n_steps = _w_step(problem, tried, after, w_tol, max_iter)
            n_iter, H = n_iter + n_steps, tried
            if state.objective <= (1.0 + _ROUNDING) * after.objective:
                break
            if tried is grown:
                growth *= _NEW_TARGET
            else:
                past.forget()
        if not state.objective <= (1.0 + _ROUNDING) * after.objective:  # a step not finished
            state, H, loosest = after, after.H, max(0.01 * w_tol, _W_TOL[0])
        history.append(state.objective)
        gap, norms, vectors = _certificate(problem, state)
        n_rounds += 1
        told = f"J = {steps.unit * state.objective:.8g}, gap {steps.unit * gap:.1e}"
        steps.report(f"round {n_rounds}: {told}, {len(state.sigma)} targets")
        least = (0.0 if n_targets is None else 0.1 * tol) * state.objective
        n_idle = n_idle + 1 if before - state.objective <= least else 0
        if n_idle == _IDLE:
            break
    unfinished = _unfinished(gap, tol, state.objective) if n_targets is None else ()
    return _result(problem, state, state.objective, gap, history, n_rounds, n_iter, unfinished)


class _Past:
    """Anderson's extrapolation of rounds that lead from targets H to targets after: the last few pairs."""

    def __init__(self) -> None:
        self.pairs: list[tuple[np.ndarray, np.ndarray]] = []

    def forget(self) -> None:
        """Drop all pairs."""
        self.pairs = []

    def extrapolate(self, H: np.ndarray, after: np.ndarray) -> np.ndarray | None:
        """Where the rounds seem to lead; None after the first one."""
        if H.shape != after.shape or (self.pairs and self.pairs[-1][0].shape != H.shape):
            self.forget()
        if H.shape != after.shape:
            return None
        left, _, right = np.linalg.svd(H.T @ after)
        turn = left @ right  # the targets of a state are known up to a rotation
        self.pairs = [(old @ turn, new @ turn) for old, new in self.pairs[-_MEMORY:]]
        self.pairs.append((H @ turn, after))
        if len(self.pairs) < 2:
            return None
        ends = np.array([pair[1].ravel() for pair in self.pairs])
        moves = ends - [pair[0].ravel() for pair in self.pairs]
        share = np.linalg.lstsq(np.diff(moves, axis=0).T, moves[-1], rcond=1e-10)[0]
        return (ends[-1] - share @ np.diff(ends, axis=0)).reshape(after.shape)


def _grown(
    state: _State, norms: np.ndarray, vectors: np.ndarray, limit: int, growth: float
) -> np.ndarray | None:
    """Targets with those added that lower the objective most; None where there is no room or no need."""
    H = state.H
    for norm, vector in zip(norms, vectors.T, strict=True):
        if norm <= 1.0 or H.shape[1] >= limit:
            break
        rest = vector - H @ np.linalg.lstsq(H, vector, rcond=None)[0]
        size = float(np.linalg.norm(rest))
        if size > 0.5:
            length = np.sqrt(growth * max(state.sigma[0], 1e-8))
            H = np.column_stack([H, length * rest / size])
    return None if H is state.H else H


def _w_step(
    problem: MatrixProblem, H: np.ndarray, state: _State | None, tol: float, max_iter: int
) -> tuple[_State, int]:
    """Best W and b at the targets Q H, from the state, and the Newton steps."""
    data, G, start = problem.data, problem.basis @ H, None
    if state is not None:
        W = _times(state.W, np.eye(state.H.shape[1], H.shape[1]))
        start = LinearFit(W.reshape(len(W), -1), state.b, np.empty(0), np.inf, 0, np.inf, False)
    design = data.w_design(G, problem.fit_intercept)
    fit = design.solve(
        problem.loss, problem.y, problem.s, 0.5 * problem.alpha,
        tol=tol, max_iter=max_iter, start=start,
    )  # fmt: skip
    loss = problem.loss.value(problem.y, fit.u, problem.s)
    return _balanced(problem, data.factor(fit, G), H, fit.b, fit.u, loss), fit.n_iter


def _target_step(problem: MatrixProblem, state: _State) -> tuple[_State, int]:
    """Best targets and b at W, and the Newton steps."""
    r, m = state.H.shape
    D = (problem.data.rows(state.W) @ problem.basis).reshape(-1, m * r)
    h, b, found = SharedCoefficients(problem, D).solve(state.H.T.ravel(), state.b)
    u = found.u[0]
    loss = problem.loss.value(problem.y, u, problem.s)
    after = _balanced(problem, state.W, h.reshape(m, r).T, b, u, loss)
    n_iter = int(found.n_iter[0])
    return (after if after.objective <= (1.0 + _ROUNDING) * state.objective else state), n_iter


def _times(W: np.ndarray, T: np.ndarray) -> np.ndarray:
    """W T: other combinations of the targets' coefficients."""
    return np.einsum("klj,lm->kmj", W, T)


def _balanced(problem, W: Any, H: np.ndarray, b: np.ndarray, u: np.ndarray, loss: float) -> _State:
    """Factors of W Hᵀ with the singular values shared out evenly, less those that are rounding."""
    gram = np.einsum("klj,kmj->lm", W, W)
    norms = np.sqrt(np.maximum(np.diagonal(gram), 1e-300))
    values, vectors = np.linalg.eigh(gram / np.outer(norms, norms))
    root = np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T * norms
    _, sigma, Vt = np.linalg.svd(root @ H.T, full_matrices=False)
    kept = sigma > _ROUNDING * sigma[0]
    kept[0] = True
    sigma, V = np.maximum(sigma[kept], 1e-300), Vt[kept].T
    W = _times(W, H.T @ V / np.sqrt(sigma))
    objective = loss + problem.alpha * float(sigma.sum())
    if not sigma[0] > 1e-300 and np.any(u != u[0]):
        objective = np.inf  # the norm of W was lost to rounding
    return _State(W, V * np.sqrt(sigma), sigma, b, u, objective)


def _unfinished(gap: float, tol: float, objective: float) -> tuple[str, ...]:
    if gap <= tol * objective:
        return ()
    return (f"the duality gap is {gap / objective:.1e} of the objective > tol = {tol:.0e}",)


def _result(
    problem, state: _State, objective, gap, history, n_rounds, n_iter, unfinished
) -> MatrixFit:
    """The state with targets of mean square 1 and the sign of method="svd"."""
    sigma = state.sigma[state.sigma > _NO_TARGET * state.sigma[0]]
    G = (problem.basis @ state.H)[:, : len(sigma)]
    scale = np.sqrt(np.mean(problem.expand(G.T) ** 2, axis=1))
    ramp = np.arange(len(G)) - 0.5 * (len(G) - 1)
    scale *= np.where(ramp @ G < 0.0, -1.0, 1.0)
    W = _times(state.W, np.eye(len(state.sigma), len(sigma)) * scale)
    shares = np.cumsum(sigma**2) / np.sum(sigma**2)
    n_shown = len(sigma)
    if problem.norm == "frobenius":
        n_shown = int(np.argmax(shares >= _SHOWN)) + 1
    return MatrixFit(
        (G / scale).T, W.reshape(len(W), -1), state.b, objective, history, n_rounds, max(n_iter, 1),
        unfinished, singular_values=sigma, gap=gap, n_shown=n_shown,
    )  # fmt: skip
