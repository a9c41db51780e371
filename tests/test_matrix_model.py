"""Models with several targets against a convex solver."""

from dataclasses import replace

import numpy as np
import pytest

from suquan.cox_loss import Cox
from suquan.losses import Huber, Logistic, Poisson, Softmax, Squared
from suquan.model.rounds import Steps
from suquan.model.several import MatrixProblem, fit_matrix, fit_multi, fit_targets, target_basis
from suquan.ranking import SampleOperator
from suquan.survival import as_outcome
from suquan.targets import read_at_grid

LOSSES = {
    "logistic": Logistic(),
    "squared": Squared(),
    "huber": Huber(1.0),
    "poisson": Poisson(),
    "softmax": Softmax(3),
    "cox": Cox("breslow"),
}


def make_samples(seed, kind, n_samples=None, n_features=None):
    """Ranked samples without ties, with ties, or with missing values."""
    rng = np.random.default_rng(seed)
    shape = n_samples or rng.integers(8, 40), n_features or rng.integers(3, 12)
    X = rng.standard_normal(shape)
    if kind == "ties":
        X = np.round(X)
    if kind == "missing":
        X[rng.random(shape) < 0.2] = np.nan
    ties = rng.choice(["average", "first", "mean_rank"])
    return SampleOperator.from_samples(X, ties=ties, missing="ignore"), np.nan_to_num(X)


def make_labels(name, X, rng):
    score = X @ rng.standard_normal(X.shape[1])
    if name == "logistic":
        return np.where(score > 0, 1.0, -1.0)
    if name == "softmax":
        return np.digitize(score, [-1.0, 1.0])
    if name == "poisson":
        return rng.poisson(np.exp(0.3 * score)).astype(float)
    if name == "cox":
        times = np.column_stack([np.round(np.exp(0.3 * score), 1), rng.random(len(X)) < 0.7])
        return LOSSES[name].encode(as_outcome(times), np.ones(len(X), dtype=bool))[1]
    return score + rng.standard_normal(len(X))


def maps(operator, n_knots):
    """The maps S_i, of shape (n_samples, n_features, n_knots)."""
    units = [read_at_grid(unit, operator.n_features) for unit in np.eye(n_knots)]
    return np.stack([operator.apply(unit) for unit in units], axis=2)


def convex_optimum(problem, kind):
    """Minimum of the stated problem, by a general convex solver."""
    cp = pytest.importorskip("cvxpy")
    loss, y, s = problem.loss, problem.y, problem.s
    S = maps(problem.operator, problem.n_knots) @ problem.basis
    n, p, r = S.shape
    A = [cp.Variable((p, r)) for _ in range(loss.n_outputs)]
    b = cp.Variable(loss.n_outputs) if problem.fit_intercept else np.zeros(loss.n_outputs)
    rows = S.reshape(n, -1)
    u = [rows @ cp.reshape(A_k, (p * r,), order="C") + b[k] for k, A_k in enumerate(A)]
    if loss.name == "logistic":
        value = s @ cp.logistic(-cp.multiply(y, u[0]))
    elif loss.name == "squared":
        value = s @ cp.square(y - u[0])
    elif loss.name == "huber":
        value = s @ cp.huber(y - u[0], loss.delta)
    elif loss.name == "poisson":
        entropy = y * np.log(np.where(y > 0, y, 1.0)) - y
        value = s @ (cp.exp(u[0]) - cp.multiply(y, u[0])) + s @ entropy
    elif loss.name == "cox":  # codes are in the order of the times, odd ones censored
        v, events = u[0] + np.log(s / s.min()), np.flatnonzero(y % 2 == 0)
        value = sum(s[i] * (cp.log_sum_exp(v[np.flatnonzero(y >= y[i])]) - u[0][i]) for i in events)
    else:
        U = cp.vstack(u).T
        chosen = cp.sum(cp.multiply(np.eye(loss.n_outputs)[y], U), axis=1)
        value = s @ (cp.log_sum_exp(U, axis=1) - chosen)
    stacked = cp.vstack(A)
    norm = cp.normNuc(stacked) if kind == "multi" else cp.sum_squares(stacked)
    task = cp.Problem(cp.Minimize(value + problem.alpha * norm))
    return task.solve(solver="CLARABEL", tol_gap_abs=1e-9, tol_gap_rel=1e-9, tol_feas=1e-9)


def make_problem(seed, name, kind):
    rng = np.random.default_rng(seed)
    operator, X = make_samples(seed, kind)
    n_knots = int(rng.integers(2, operator.n_features + 1))
    s = rng.random(len(X)) + 0.1
    rest = LOSSES[name], make_labels(name, X, rng), s / s.sum()
    has_intercept = bool(rng.integers(2)) and getattr(LOSSES[name], "has_intercept", True)
    rest = *rest, 10.0 ** rng.uniform(-2.5, -0.5), [0.0, 0.1][seed % 2], has_intercept
    return MatrixProblem(operator, n_knots, *rest, "trace")


def fit(problem, n_targets=None, tol=1e-8, max_rounds=300, H=None):
    H = np.eye(problem.basis.shape[1])[:, :n_targets] if H is None else H
    return fit_multi(problem, H, n_targets, max_rounds, Steps(tol, 500))


def fit_frobenius(problem, tol=1e-8):
    return fit_matrix(replace(problem, norm="frobenius"), Steps(tol, 500))


SLOW = [
    pytest.param(seed, name, kind, marks=pytest.mark.slow)
    for seed in range(5, 9)
    for name in LOSSES
    for kind in ("plain", "ties", "missing")
]
KINDS = ("missing", "ties", "plain", "missing", "missing", "ties")
FAST = list(zip(range(6), LOSSES, KINDS, strict=True))


@pytest.mark.parametrize(("seed", "name", "kind"), [*FAST, *SLOW])
def test_against_a_convex_solver(seed, name, kind):
    problem = make_problem(seed, name, kind)
    for method in ("multi", "matrix"):
        found = fit(problem) if method == "multi" else fit_frobenius(problem)
        optimum = convex_optimum(problem, method)
        assert abs(found.objective - optimum) <= 1e-6
        rounding = 1e-8 * max(found.objective, 1.0)
        assert found.gap >= -rounding
        assert found.objective - optimum <= found.gap + rounding
        assert np.all(np.diff(found.history) <= 1e-9 * found.history[0])


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("alpha", [1e-8, 1e-3])
def test_no_half_step_raises_the_objective(name, alpha):
    problem = make_problem(0, name, "plain")
    for n_targets in (1, 2):
        found = fit(replace(problem, alpha=alpha), n_targets, max_rounds=6)
        assert np.all(np.diff(found.history) <= 2e-10 * np.array(found.history[:-1]))
        assert np.all(np.isfinite(found.w))
        assert found.gap >= -1e-12 * found.history[0]


@pytest.mark.parametrize("name", LOSSES)
def test_result_gives_the_objective(name):
    problem = make_problem(7, name, "ties")
    for found in (fit(problem, tol=1e-6), fit_frobenius(problem, 1e-6)):
        W = found.w.reshape(len(found.b), len(found.g), -1)
        A = np.einsum("kmj,mq->kjq", W, found.g)
        S = maps(problem.operator, problem.n_knots)
        u = np.einsum("kjq,ijq->ik", A, S) + found.b
        u = u if problem.loss.n_outputs > 1 else u[:, 0]
        K = problem.n_knots
        L = np.diag(np.r_[1.0, np.full(K - 2, 2.0), 1.0]) - np.eye(K, k=1) - np.eye(K, k=-1)
        R = (np.eye(K) + problem.smoothness * K**2 * L) / K
        sigma = np.linalg.svd(A.reshape(-1, K) @ np.linalg.cholesky(R), compute_uv=False)
        np.testing.assert_allclose(
            found.singular_values, sigma[: len(found.singular_values)], rtol=1e-6
        )
        is_multi = len(found.history) > 1
        penalty = sigma.sum() if is_multi else (sigma**2).sum()
        value = problem.loss.value(problem.y, u, problem.s) + problem.alpha * penalty
        assert value == pytest.approx(found.objective, rel=1e-5)
        np.testing.assert_allclose(np.mean(problem.expand(found.g) ** 2, axis=1), 1.0)
        np.testing.assert_allclose(found.g.sum(axis=1), 0.0, atol=1e-9)


ONE = [("logistic", 0, True), ("logistic", 1, True), ("squared", 0, True), ("poisson", 2, False)]


@pytest.mark.parametrize(("name", "seed", "is_best"), ONE)
def test_one_target_is_as_good_as_twenty_starts_or_its_gap_leaves_room(name, seed, is_best):
    problem = make_problem(seed, name, "plain")
    best = fit(problem)
    one = fit_targets(problem, np.linspace(-1, 1, problem.n_knots), 1, 100, Steps(1e-8, 500))
    assert one.objective >= best.objective - 1e-8
    assert one.objective - best.objective <= one.gap + 1e-8
    starts = np.random.default_rng(seed).standard_normal((20, problem.basis.shape[1], 1))
    lowest = min(fit(problem, 1, max_rounds=100, H=H).objective for H in starts)
    assert (one.objective <= lowest + 1e-6) == is_best
    assert one.gap >= one.objective - lowest


def test_basis_is_orthonormal():
    K, smoothness = 7, 0.3
    Q = target_basis(K, smoothness)
    L = np.diag(np.r_[1.0, np.full(K - 2, 2.0), 1.0]) - np.eye(K, k=1) - np.eye(K, k=-1)
    R = (np.eye(K) + smoothness * K**2 * L) / K
    np.testing.assert_allclose(Q.T @ R @ Q, np.eye(K - 1), atol=1e-12)
    np.testing.assert_allclose(Q.sum(axis=0), 0.0, atol=1e-12)
