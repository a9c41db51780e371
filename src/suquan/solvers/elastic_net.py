"""The w-step with an l1 penalty: proximal Newton on working sets.

    min over (w, b)   Σ_i s_i ℓ(y_i, A_i·w + b) + l1 ‖w‖₁ + l2 ‖w‖²

with l1 = alpha l1_ratio and l2 = alpha (1 − l1_ratio). On a working set of columns the loss is replaced by
its second-order model, whose minimiser coordinate descent finds; where the descent is slow (correlated
columns, small alpha), a linear solve on the present support finishes it. The working set grows by
the columns that violate the optimality conditions most.

**Stopping.** ``criterion`` is the smaller of two measures of J/J* − 1: the duality gap, a strict bound
that rounding spoils where l1 is tiny, and the decrease that the second-order model promises over the
support and all columns that violate the optimality conditions.
"""

from __future__ import annotations

import numpy as np
from scipy.special import xlogy

from suquan._kernels.coordinate_descent import descend_classes, descend_quadratic, descend_scores
from suquan.losses import Logistic, Loss, Softmax, Squared
from suquan.solvers._algebra import Array, as_floats, cholesky, cholesky_solve
from suquan.solvers._fits import (
    MAX_ITER,
    TOL,
    LinearFit,
    negligible,
    null_intercept,
    sum_to_zero,
)
from suquan.solvers._products import column_products, row_products
from suquan.solvers._threads import few_threads

__all__ = ["solve_elastic_net"]

# Largest number of coefficients whose Hessian is formed.
_DENSE = 1500
_FIRST_COLUMNS = 50
_EPOCHS = 30
_LOOSE = 1e-2


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
    A, s = as_floats(A), np.asarray(s, dtype=np.float64)
    s = s / s.sum()
    rows = np.flatnonzero(s)
    present = A if len(rows) == len(s) else A[rows]
    problem = _Problem(present, loss, y[rows], s[rows], alpha, l1_ratio, fit_intercept)
    state = _State(problem, start)
    with few_threads(min(A.size, _DENSE * len(A))):
        if start is None:
            _approach(problem, state, max_iter)
        _solve(problem, state, tol, max_iter)
    return _as_fit(A, problem, state, tol)


class _Problem:
    """Data of one elastic-net problem; the columns are centred, so that b hardly moves with w."""

    def __init__(self, A, loss, y, s, alpha, l1_ratio, fit_intercept):
        self.A, self.loss, self.y, self.s = A, loss, y, s
        self.l1, self.l2 = alpha * l1_ratio, alpha * (1.0 - l1_ratio)
        self.fit_intercept = fit_intercept
        self.means = column_products(A, s[None])[0] if fit_intercept else np.zeros(A.shape[1])
        self.floor = negligible(loss, y, s)

    def columns(self, chosen: Array) -> Array:
        """Centred columns, and one of ones (zeros without intercept): float64, Fortran-ordered."""
        X = np.empty((len(self.A), len(chosen) + 1), order="F")
        X[:, :-1] = self.A[:, chosen] - self.means[chosen]
        X[:, -1] = float(self.fit_intercept)
        return X

    def scores(self, w: Array, b: Array) -> Array:
        """Shape (n_outputs, n_samples)."""
        return row_products(self.A, w) + (b - w @ self.means)[:, None]

    def correlations(self, slopes: Array) -> Array:
        """Gradient of the loss in w, shape (n_outputs, n_features)."""
        return column_products(self.A, slopes) - np.outer(slopes.sum(axis=1), self.means)

    def losses(self, u: Array) -> float:
        return float(self.s @ self.loss.value(self.y, self._as_scores(u)))

    def slopes(self, u: Array) -> Array:
        """Weighted gradient of the loss in the scores, shape (n_outputs, n_samples)."""
        return self.s * self._as_rows(self.loss.gradient(self.y, self._as_scores(u)))

    def curvature(self, u: Array) -> Array:
        """As the loss gives it, unweighted, shape (n_outputs, n_samples)."""
        return self._as_rows(self.loss.curvature(self.y, self._as_scores(u)))

    def penalty(self, w: Array) -> float:
        return float(self.l1 * np.abs(w).sum() + self.l2 * np.vdot(w, w))

    def _as_scores(self, u: Array) -> Array:
        return u.T if isinstance(self.loss, Softmax) else u[0]

    def _as_rows(self, values: Array) -> Array:
        return values.T if isinstance(self.loss, Softmax) else values[None]


class _State:
    """Present w (n_outputs, n_features), b of the centred design, and scores u (n_outputs, n_samples)."""

    def __init__(self, problem: _Problem, start: LinearFit | None):
        shape = (problem.loss.n_outputs, problem.A.shape[1])
        if start is not None and start.w is not None and start.w.shape == shape:
            self.w = start.w.copy()
            self.b = start.b + self.w @ problem.means
        else:
            self.w = np.zeros(shape)
            self.b = null_intercept(problem.loss, problem.y, problem.s)
        if not problem.fit_intercept:
            self.b = np.zeros(shape[0])
        self.u = problem.scores(self.w, self.b)
        self.objective = problem.losses(self.u) + problem.penalty(self.w)
        self.n_iter = 0
        self.criterion = np.inf


def _approach(problem: _Problem, state: _State, max_iter: int) -> None:
    """Follow alpha down from where w leaves 0, loosely: supports stay small and signs right."""
    l1, l2 = problem.l1, problem.l2
    largest = np.abs(problem.correlations(problem.slopes(state.u))).max()
    n_stages = int(np.log10(max(largest / l1, 1.0)))
    for k in range(n_stages, 0, -1):
        problem.l1, problem.l2 = 10.0**k * l1, 10.0**k * l2
        state.objective = problem.losses(state.u) + problem.penalty(state.w)
        _solve(problem, state, _LOOSE, state.n_iter + max_iter // 10)
    problem.l1, problem.l2 = l1, l2
    state.objective = problem.losses(state.u) + problem.penalty(state.w)
    state.n_iter = 0


def _solve(problem: _Problem, state: _State, tol: float, max_iter: int) -> None:
    """Grow the working set until the duality gap is small."""
    size, inner_tol = _FIRST_COLUMNS, 0.1 * tol
    near = False  # whether the last working set gained next to nothing
    while True:
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
        promised = _descend(problem, state, chosen, inner_tol * scale, max_iter, near)
        if complete and near and promised <= tol * scale:
            state.criterion = min(state.criterion, promised / scale)
            return
        near = before - state.objective <= 100.0 * tol * scale
        if before - state.objective <= tol * scale:
            if inner_tol < 1e-8 * tol:
                return  # rounding: nothing more can be gained
            inner_tol *= 0.01
        size = min(2 * max(size, int(state.w.any(axis=0).sum())), problem.A.shape[1])


def _working_set(
    problem: _Problem, state: _State, correlations: Array, size: int
) -> tuple[Array, bool]:
    """The support and the columns that violate the optimality conditions most; whether all those."""
    support = state.w.any(axis=0)
    excess = np.abs(correlations).max(axis=0) - problem.l1
    priority = np.where(support, np.inf, excess)
    capacity = max(_DENSE // problem.loss.n_outputs - 1, np.count_nonzero(support) + 10)
    size = min(max(size, 2 * np.count_nonzero(support)), capacity, len(priority))
    chosen = np.argpartition(-priority, size - 1)[:size]
    chosen = np.sort(chosen[priority[chosen] > 0.0])
    return chosen, len(chosen) == np.count_nonzero(priority > 0.0)


def _descend(
    problem: _Problem, state: _State, chosen: Array, tol: float, max_iter: int, exact: bool
) -> float:
    """Proximal Newton on the chosen columns, until it promises less than ``tol``.

    Returns what the first step promised: how far the start was from the optimum over these columns, to
    second order. Unless ``exact``, the first models are minimised loosely, and that says little.
    """
    X = problem.columns(chosen)
    l1 = np.append(np.full(len(chosen), problem.l1), 0.0)
    l2 = np.append(np.full(len(chosen), problem.l2), 0.0)
    first = promised = np.inf
    expected = 0.0 if exact or isinstance(problem.loss, Squared) else 0.1 * state.objective
    while promised > tol and state.n_iter < max_iter:
        state.n_iter += 1
        z = np.column_stack([state.w[:, chosen], state.b])
        slopes = problem.slopes(state.u)
        # Exact minimisers of a poor model are wasted: ask for a tenth of what the last step promised.
        model_tol = 0.1 * max(tol, min(promised, expected))
        new = _minimise_model(problem, X, state.u, slopes, z, l1, l2, model_tol)
        step = new - z
        linear = np.vdot(slopes @ X, step) + _penalty(l1, l2, new) - _penalty(l1, l2, z)
        promised = max(-linear, 0.0)
        first = promised if first == np.inf else first
        if promised == 0.0 or not _move(problem, state, chosen, X, step, l1, l2, linear):
            break
    return first


def _move(problem, state, chosen, X, step, l1, l2, linear) -> bool:
    """Backtrack along the step; False where no length lowers the objective."""
    change = step @ X.T
    z = np.column_stack([state.w[:, chosen], state.b])
    rest = state.objective - problem.losses(state.u) - _penalty(l1, l2, z)
    t = 1.0
    for _ in range(40):
        moved, u = z + t * step, state.u + t * change
        objective = problem.losses(u) + _penalty(l1, l2, moved) + rest
        if objective <= state.objective + 1e-4 * t * linear:
            state.w[:, chosen], state.b, state.u = moved[:, :-1], moved[:, -1].copy(), u
            state.objective = problem.losses(u) + problem.penalty(state.w)
            return True
        t *= 0.5
    return False


def _penalty(l1: Array, l2: Array, z: Array) -> float:
    return float((np.abs(z) @ l1 + z**2 @ l2).sum())


def _minimise_model(problem, X, u, slopes, z, l1, l2, tol) -> Array:
    """Minimiser of the second-order model plus the penalty, shape (n_outputs, n_columns)."""
    curvature = problem.curvature(u)
    n_outputs = len(z)
    if z.size <= _DENSE + n_outputs:
        Q = _hessian(problem, X, curvature)
        new, g = z.ravel().copy(), (slopes @ X).ravel()
        _minimise_quadratic(Q, g, new, np.tile(l1, n_outputs), np.tile(l2, n_outputs), tol)
        return new.reshape(z.shape)
    new = z.copy()
    if isinstance(problem.loss, Softmax):
        diagonal = (problem.s * curvature * (1.0 - curvature)) @ X**2
        descend_classes(
            X, problem.s, curvature, slopes, new, diagonal, l1, l2, tol, 10 * _EPOCHS
        )  # fmt: skip
    else:
        d = problem.s * curvature[0]
        descend_scores(X, d, slopes[0].copy(), new[0], d @ X**2, l1, l2, tol, 10 * _EPOCHS)
    return new


def _hessian(problem: _Problem, X: Array, curvature: Array) -> Array:
    """Hessian of the loss in the coefficients of X, class by class: (n_outputs·m, n_outputs·m)."""
    if not isinstance(problem.loss, Softmax):
        return X.T @ ((problem.s * curvature[0])[:, None] * X)
    n_classes, m = len(curvature), X.shape[1]
    Q = np.empty((n_classes, m, n_classes, m))
    for k in range(n_classes):
        for l in range(k + 1):
            d = problem.s * curvature[k] * (float(k == l) - curvature[l])
            Q[k, :, l] = Q[l, :, k] = X.T @ (d[:, None] * X)
    return Q.reshape(n_classes * m, n_classes * m)


def _minimise_quadratic(Q, g, z, l1, l2, tol) -> None:
    """Minimise ½ δᵀQδ + g·δ + penalty(z + δ) in place: descent, and solves on the support.

    Descent alone crawls where columns are correlated; a solve alone would not know the support.
    """
    for _ in range(100):
        if descend_quadratic(Q, g, z, l1, l2, tol, _EPOCHS) < _EPOCHS:
            return
        _solve_on_support(Q, g, z, l1, l2)


def _solve_on_support(Q, g, z, l1, l2) -> None:
    """Newton among the coefficients that are not zero; those that would change sign become zero.

    Repeated on what remains until no sign changes: leaving that to the descent would bring each
    coefficient back, one at a time.
    """
    diagonal = np.diag(Q)
    for _ in range(30):
        free = np.flatnonzero((z != 0.0) | ((l1 == 0.0) & (diagonal > 0.0)))
        if not len(free):
            return
        H = Q[np.ix_(free, free)]
        H.flat[:: len(free) + 1] += 2.0 * l2[free]
        sign = np.sign(z[free])
        gradient = g[free] + 2.0 * l2[free] * z[free] + l1[free] * sign
        step = -cholesky_solve(cholesky(H), gradient)
        moved, crossed = _keep_signs(H, gradient, z[free], step, sign * (l1[free] > 0.0))
        g += Q[:, free] @ (moved - z[free])
        z[free] = moved
        if not crossed:
            return


def _keep_signs(H, gradient, z, step, sign) -> tuple[Array, bool]:
    """Point along the step, cut to zero where signs change, that lowers gradient·δ + ½ δᵀHδ."""
    for t in (1.0, 0.5, 0.25, 0.1):
        moved = z + t * step
        crossing = sign * moved < 0.0
        moved[crossing] = 0.0
        change = moved - z
        if t == 1.0 and not crossing.any():
            return moved, False
        if gradient @ change + 0.5 * change @ (H @ change) < 0.0:
            return moved, bool(crossing.any())
    crossing = sign * (z + step) < 0.0
    ratios = np.full(len(z), np.inf)
    ratios[crossing] = -z[crossing] / step[crossing]
    first = int(np.argmin(ratios))
    moved = z + ratios[first] * step
    moved[first] = 0.0
    return moved, True


def _fit_intercept_alone(problem: _Problem, state: _State) -> None:
    """Newton on b with w fixed: a dual point needs slopes of sum 0 in every output."""
    if not problem.fit_intercept:
        return
    for _ in range(20):
        gradient = problem.slopes(state.u).sum(axis=1)
        if np.abs(gradient).max() <= 1e-16:
            return
        ones = np.ones((problem.A.shape[0], 1))
        H = _hessian(problem, ones, problem.curvature(state.u))
        step = -np.linalg.pinv(H, hermitian=True) @ gradient
        u = state.u + step[:, None]
        objective = problem.losses(u) + problem.penalty(state.w)
        if not objective <= state.objective:
            return
        state.b, state.u, state.objective = state.b + step, u, objective


def _dual_objective(problem: _Problem, slopes: Array, correlations: Array) -> float:
    """Largest dual value among the present slopes and those scaled until all correlations ≤ l1.

    For slopes c r with Σ r = 0:   − Σ_i s_i ℓ*(c r_i / s_i) − Σ_j (|c Aᵀr|_j − l1)₊² / (4 l2).
    """
    largest = np.abs(correlations).max()
    feasible = 1.0 if largest <= problem.l1 else problem.l1 / largest
    value = -problem.s @ _conjugate(problem, slopes, feasible)
    if feasible < 1.0 and problem.l2 > 0.0:
        excess = np.maximum(np.abs(correlations) - problem.l1, 0.0)
        whole = -problem.s @ _conjugate(problem, slopes, 1.0)
        value = max(value, whole - (excess**2).sum() / (4.0 * problem.l2))
    return float(value)


def _conjugate(problem: _Problem, slopes: Array, scale: float) -> Array:
    """ℓ*(scale · slope) of every sample, from weighted slopes of shape (n_outputs, n_samples)."""
    v = scale * slopes / problem.s
    if isinstance(problem.loss, Squared):
        return v[0] * problem.y + 0.25 * v[0] ** 2
    if isinstance(problem.loss, Logistic):
        q = np.clip(-problem.y * v[0], 0.0, 1.0)
        return xlogy(q, q) + (1.0 - q) * np.log1p(-np.minimum(q, 1.0 - 1e-16))
    q = v.copy()
    q[problem.y, np.arange(q.shape[1])] += 1.0
    q = np.clip(q, 0.0, 1.0)
    return xlogy(q, q).sum(axis=0)


def _as_fit(A: Array, problem: _Problem, state: _State, tol: float) -> LinearFit:
    b = state.b - state.w @ problem.means if problem.fit_intercept else state.b
    b = sum_to_zero(b) if problem.fit_intercept else b
    u = row_products(A, state.w) + b[:, None]
    return LinearFit(
        w=state.w, b=b, u=u.T if isinstance(problem.loss, Softmax) else u[0],
        objective=state.objective, n_iter=state.n_iter, criterion=float(state.criterion),
        converged=bool(state.criterion <= tol),
    )  # fmt: skip
