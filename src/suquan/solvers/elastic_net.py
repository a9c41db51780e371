"""The w-step with an l1 penalty: proximal Newton on working sets.

    min over (w, b)   Σ_i s_i ℓ(y_i, A_i·w + b) + l1 ‖w‖₁ + l2 ‖w‖²

with l1 = alpha l1_ratio and l2 = alpha (1 − l1_ratio). On a working set of columns the loss is replaced by
its second-order model, which :mod:`suquan.solvers._quadratic` minimises; a line search takes the step. The
working set grows by the columns that violate the optimality conditions most. The rounds and the comparison
call :func:`solve_elastic_net`.

**Stopping.** ``criterion`` is the smaller of two measures of J/J* − 1: the duality gap, a strict bound
that rounding spoils where l1 is tiny, and the decrease that the second-order model promises over the
support and all columns that violate the optimality conditions.
"""

import numpy as np

from suquan.losses import Curvature, Loss
from suquan.solvers._products import (
    Array,
    as_floats,
    column_products,
    one_blas_thread,
    row_products,
)
from suquan.solvers._quadratic import QuadraticModel
from suquan.solvers.newton import (
    MAX_ITER,
    TOL,
    LinearFit,
    damped_curvature,
    ignores_shifts,
    line_search,
    negligible,
    normalised,
    of_samples,
)

_FIRST_COLUMNS = 50
# Criterion at which the stages at larger alphas end, and their share of the iterations.
_STAGE_TOL, _STAGE_SHARE = 1e-2, 0.1
_MAX_INTERCEPT_STEPS = 20
_POLISH = 1e-4  # accuracy of the last step, in units of the tolerance


def solve_elastic_net(
    A: Array,
    loss: Loss,
    y: Array,
    s: Array,
    alpha: float,
    l1_ratio: float,
    *,
    fit_intercept: bool = True,
    tol: float = TOL,
    max_iter: int = MAX_ITER,
    start: LinearFit | None = None,
) -> LinearFit:
    """Minimise Σ s_i ℓ(y_i, A_i·w + b) + alpha [(1 − l1_ratio) ‖w‖² + l1_ratio ‖w‖₁], l1_ratio > 0.

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
    l1_ratio : float
        In (0, 1].
    fit_intercept : bool, default=True
    tol : float, default=1e-8
        Bound on the relative duality gap.
    max_iter : int, default=200
        Bound on the proximal Newton iterations.
    start : LinearFit, optional

    Returns
    -------
    LinearFit

    Examples
    --------
    >>> import numpy as np
    >>> from suquan.losses import Squared
    >>> A, y = np.array([[0.0, 1.0], [1.0, 0.0], [2.0, 1.0]]), np.array([0.0, 1.0, 2.0])
    >>> solve_elastic_net(A, Squared(), y, np.ones(3), alpha=0.4, l1_ratio=1.0).w.round(3)
    array([[0.7, 0. ]])
    """
    A, s = as_floats(A), normalised(s)
    rows = np.flatnonzero(s)
    present = A if len(rows) == len(s) else A[rows]
    with one_blas_thread():
        problem = _Problem(present, loss, y[rows], s[rows], alpha, l1_ratio, fit_intercept)
        state = _State(problem, start)
        if start is None:
            _approach(problem, state, max_iter)
        _solve(problem, state, tol, max_iter)
        _polish(problem, state, tol)
        b = state.b - state.w @ problem.means
        b -= b.mean() if fit_intercept and problem.balanced else 0.0
        u = np.ravel((row_products(A, state.w) + b[:, None]).T)
    return LinearFit(
        state.w, b, of_samples(u, loss), state.objective, state.n_iter,
        float(state.criterion), bool(state.criterion <= tol),
    )  # fmt: skip


class _Problem:
    """Data of one problem; the columns are centred, so that b hardly moves with w.

    Scores u have shape (n_samples · n_outputs,), the outputs of a sample side by side.
    """

    def __init__(self, A, loss, y, s, alpha, l1_ratio, fit_intercept):
        self.A, self.loss, self.y, self.s = A, loss, y, s
        self.l1, self.l2 = alpha * l1_ratio, alpha * (1.0 - l1_ratio)
        self.fit_intercept = fit_intercept
        self.means = column_products(A, s[None])[0] if fit_intercept else np.zeros(A.shape[1])
        self.floor = negligible(loss, y, s)
        self.balanced = ignores_shifts(loss, y, s)

    def of_intercepts(self, step: Array) -> Array:
        """A step of the intercepts without rounding in directions that no loss sees, where it would add up."""
        if not self.fit_intercept:
            return np.zeros_like(step)
        return step - step.mean() if self.balanced else step

    def columns(self, chosen: Array) -> Array:
        """Centred columns, and one of ones (zeros without intercept), in float64."""
        X = np.empty((len(self.A), len(chosen) + 1))
        X[:, :-1] = self.A[:, chosen]
        X[:, :-1] -= self.means[chosen]
        X[:, -1] = float(self.fit_intercept)
        return X

    def scores(self, w: Array, b: Array) -> Array:
        """Scores of the centred design."""
        return np.ravel((row_products(self.A, w) + (b - w @ self.means)[:, None]).T)

    def correlations(self, slopes: Array) -> Array:
        """Gradient of the loss in w, of shape (n_outputs, n_features)."""
        by_output = slopes.reshape(len(self.y), -1).T
        return column_products(self.A, by_output) - np.outer(by_output.sum(axis=1), self.means)

    def losses(self, u: Array) -> float:
        """Weighted loss."""
        return self.loss.value(self.y, u, self.s)

    def slopes(self, u: Array) -> Array:
        """Gradient of the loss in the scores."""
        return self.loss.gradient(self.y, u, self.s)

    def curvature(self, u: Array, damping: float) -> Curvature:
        """Curvature of the loss in the scores."""
        return damped_curvature(self.loss, self.y, u, self.s, damping)

    def penalty(self, w: Array) -> float:
        """l1 ‖w‖₁ + l2 ‖w‖²."""
        return float(self.l1 * np.abs(w).sum() + self.l2 * np.vdot(w, w))


class _State:
    """Present w (n_outputs, n_features), b of the centred design, and scores u."""

    def __init__(self, problem: _Problem, start: LinearFit | None):
        shape = (problem.loss.n_outputs, problem.A.shape[1])
        self.n_iter, self.criterion, self.damping = 0, np.inf, 0.1
        if start is not None and start.w is not None and start.w.shape == shape:
            self.w, self.b = start.w.copy(), start.b + start.w @ problem.means
            self._evaluate(problem)
            if np.isfinite(self.objective):
                return
        self.w, self.b = np.zeros(shape), problem.loss.best_constant(problem.y, problem.s)
        self._evaluate(problem)

    def _evaluate(self, problem: _Problem) -> None:
        self.b = self.b if problem.fit_intercept else np.zeros_like(self.b)
        self.u = problem.scores(self.w, self.b)
        self.objective = problem.losses(self.u) + problem.penalty(self.w)


def _approach(problem: _Problem, state: _State, max_iter: int) -> None:
    """Follow alpha down from where w leaves 0, loosely: supports stay small and signs right."""
    l1, l2 = problem.l1, problem.l2
    largest = np.abs(problem.correlations(problem.slopes(state.u))).max()
    n_stages = int(np.log10(min(max(largest / l1, 1.0), 1e16)))
    most = max(1, int(_STAGE_SHARE * max_iter))
    for k in range(n_stages, 0, -1):
        problem.l1, problem.l2 = 10.0**k * l1, 10.0**k * l2
        state.objective = problem.losses(state.u) + problem.penalty(state.w)
        _solve(problem, state, _STAGE_TOL, state.n_iter + most)
    problem.l1, problem.l2 = l1, l2
    state.objective = problem.losses(state.u) + problem.penalty(state.w)
    state.n_iter = 0


def _solve(problem: _Problem, state: _State, tol: float, max_iter: int) -> None:
    """Grow the working set until the duality gap, or what the model promises, is small."""
    size, inner_tol = _FIRST_COLUMNS, 0.1 * tol
    near = False  # whether the last working set gained next to nothing
    for _ in range(max_iter + 1):  # where J overflows, no step is taken, and none is counted
        _fit_intercept_alone(problem, state)
        slopes = problem.slopes(state.u)
        correlations = problem.correlations(slopes)
        scale = max(state.objective, problem.floor)
        gap = state.objective - _dual_objective(problem, slopes, correlations)
        state.criterion = max(gap, 0.0) / scale
        if state.criterion <= tol or state.n_iter >= max_iter:
            return
        chosen, complete = _working_set(problem, state, correlations, size)
        before = state.objective
        promised = _descend(problem, state, chosen, inner_tol * scale, max_iter)
        if complete and near and promised <= tol * scale:
            state.criterion = min(state.criterion, promised / scale)
            return
        near = before - state.objective <= 100.0 * tol * scale
        if before - state.objective <= tol * scale:
            if inner_tol < 1e-8 * tol:
                return  # rounding: nothing more can be gained
            inner_tol *= 0.01
        size = min(2 * max(size, int(state.w.any(axis=0).sum())), problem.A.shape[1])


def _polish(problem: _Problem, state: _State, tol: float) -> None:
    """One exact Newton step: a gap of `tol` in J leaves its root in the scores."""
    if not state.criterion <= tol:
        return
    correlations = problem.correlations(problem.slopes(state.u))
    chosen, _ = _working_set(problem, state, correlations, problem.A.shape[1])
    tol *= _POLISH * max(state.objective, problem.floor)
    _descend(problem, state, chosen, tol, state.n_iter + 1)
    state.n_iter -= 1


def _working_set(
    problem: _Problem, state: _State, correlations: Array, size: int
) -> tuple[Array, bool]:
    """The support and the columns that violate the optimality conditions most; whether all of them."""
    support = state.w.any(axis=0)
    excess = np.abs(correlations).max(axis=0) - problem.l1
    priority = np.where(support, np.inf, excess)
    size = min(max(size, 2 * int(np.count_nonzero(support))), len(priority))
    chosen = np.argpartition(-priority, size - 1)[:size]
    chosen = np.sort(chosen[priority[chosen] > 0.0])
    return chosen, len(chosen) == np.count_nonzero(priority > 0.0)


def _descend(problem: _Problem, state: _State, chosen: Array, tol: float, max_iter: int) -> float:
    """Proximal Newton on the chosen columns, until it promises less than ``tol``.

    Returns what the first step promised: how far the start was from the optimum over these columns, to
    second order.
    """
    X = problem.columns(chosen)
    first = promised = np.inf
    gap = state.criterion * max(state.objective, problem.floor)
    # Exact minimisers of a poor model are wasted: ask for a part of what can be gained.
    accuracy = 0.0 if problem.loss.is_quadratic else 0.01
    while promised > tol and state.n_iter < max_iter:
        state.n_iter += 1
        z = np.column_stack([state.w[:, chosen], state.b])
        slopes = problem.slopes(state.u)
        gradient = slopes.reshape(len(X), -1).T @ X
        model = QuadraticModel(
            X, problem.curvature(state.u, state.damping), gradient, z, problem.l1, problem.l2
        )
        new = model.minimise(0.1 * max(tol, accuracy * min(promised, gap)))
        step = new - z
        step[:, -1] = problem.of_intercepts(step[:, -1])
        linear = np.vdot(gradient, step) + problem.penalty(new[:, :-1]) - problem.penalty(z[:, :-1])
        promised = max(-linear, 0.0)
        first = promised if first == np.inf else first
        if promised == 0.0 or not _move(problem, state, chosen, X, step, linear):
            break
    return first


def _move(problem, state, chosen, X, step, linear) -> bool:
    """Halve the step until the objective falls; False where no length lowers it."""
    change = np.ravel((step @ X.T).T)
    w, before = state.w[:, chosen], state.objective
    rest = problem.penalty(state.w) - problem.penalty(w)

    def evaluate(_: Array, t: float) -> list[float]:
        penalty = problem.penalty(w + t * step[:, :-1]) + rest
        return [problem.losses(state.u + t * change) + penalty]

    (t,) = line_search(evaluate, np.array([before]), np.array([linear]))
    if t == 0.0:
        return False
    state.w[:, chosen] = w + t * step[:, :-1]
    state.b, state.u = state.b + t * step[:, -1], state.u + t * change
    state.objective = problem.losses(state.u) + problem.penalty(state.w)
    gained = (before - state.objective) / max(state.objective, problem.floor)
    state.damping = min(state.damping, gained) if t == 1.0 else min(10.0 * state.damping, 1.0)
    return True


def _fit_intercept_alone(problem: _Problem, state: _State) -> None:
    """Newton on b, so that the slopes of every output sum to 0, as dual points must."""
    n_outputs = len(state.b)
    ones = np.tile(np.eye(n_outputs), (len(problem.y), 1))
    for _ in range(_MAX_INTERCEPT_STEPS if problem.fit_intercept else 0):
        gradient = problem.slopes(state.u) @ ones
        if np.abs(gradient).max() <= 1e-16:
            return
        H = ones.T @ problem.curvature(state.u, 1e-3).product(ones)
        step = problem.of_intercepts(-np.linalg.pinv(H, hermitian=True) @ gradient)
        u = state.u + ones @ step
        objective = problem.losses(u) + problem.penalty(state.w)
        if not objective <= state.objective * (1.0 + 1e-14):  # beyond rounding
            return
        state.b, state.u, state.objective = state.b + step, u, objective


def _dual_objective(problem: _Problem, slopes: Array, correlations: Array) -> float:
    """Largest dual value among the present slopes and those scaled until all correlations ≤ l1.

    For slopes c r with Σ r = 0:   − L*(c r) − Σ_j (|c Aᵀr|_j − l1)₊² / (4 l2).
    """
    largest = np.abs(correlations).max()
    feasible = 1.0 if largest <= problem.l1 else problem.l1 / largest
    value = -problem.loss.conjugate(problem.y, feasible * slopes, problem.s)
    if feasible < 1.0 and problem.l2 > 0.0:
        excess = np.maximum(np.abs(correlations) - problem.l1, 0.0)
        whole = -problem.loss.conjugate(problem.y, slopes, problem.s)
        value = max(value, whole - float((excess**2).sum()) / (4.0 * problem.l2))
    return value
