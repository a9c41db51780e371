"""The f-step against a convex solver, and its edges; losses and sets from outside the package."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import cvxpy as cp
import numpy as np
import pytest

from suquan.losses import Huber, Logistic, Poisson, Softmax, Squared
from suquan.prox import prox_smooth_bounded_nondecreasing
from suquan.solvers.target import solve_target
from suquan.target_sets import ConvexTargets, TargetSet

LOSSES = {
    "logistic": Logistic(), "squared": Squared(), "softmax": Softmax(3), "huber": Huber(0.7),
    "poisson": Poisson(),
}  # fmt: skip
SETS = [("f0", 0.0), ("f0", 0.01), ("bnd", 0.0), ("spav", 0.01), ("joint", 0.0), ("joint", 0.01)]
WIDE, TALL = (20, 45), (60, 15)

EXACT = {"tol": 1e-8, "max_iter": 20_000}

every_loss = pytest.mark.parametrize("name", LOSSES)
every_set = pytest.mark.parametrize(("target_set", "smoothness"), SETS)


def make_problem(loss, n, K, seed=0, scale=0.5, dtype=np.float64):
    rng = np.random.default_rng(seed)
    C = loss.n_outputs
    D = (scale * rng.standard_normal((n * C, K))).astype(dtype)
    u = D.astype(np.float64) @ np.sort(rng.standard_normal(K))
    if loss.name == "logistic":
        y = np.where(u + rng.standard_normal(n) > 0.0, 1.0, -1.0)
    elif loss.name == "softmax":
        y = np.argmax(u.reshape(n, C) + rng.standard_normal((n, C)), axis=1)
    elif loss.name == "poisson":
        y = rng.poisson(np.exp(np.clip(u, -3.0, 2.0))).astype(float)
    else:
        y = u + rng.standard_normal(n) + 1.0
        y[::7] += 10.0
    s = rng.random(n) + 0.1
    f_start = np.linspace(-1.0, 1.0, K)
    f_start /= max(np.sqrt(np.mean(f_start**2)), 1e-300)
    return D, y, s / s.sum(), f_start


def convex_loss(loss, y, s, u):
    """The weighted loss of cvxpy's scores u, of shape (n_rows * n_outputs,)."""
    if loss.name == "logistic":
        return s @ cp.logistic(-cp.multiply(y, u))
    if loss.name == "squared":
        return s @ cp.square(y - u)
    if loss.name == "huber":
        return s @ cp.huber(y - u, loss.delta)
    if loss.name == "poisson":
        constant = np.where(y > 0.0, y * np.log(np.maximum(y, 1.0)), 0.0) - y
        return s @ (cp.exp(u) - cp.multiply(y, u) + constant)
    u = cp.reshape(u, (len(y), loss.n_outputs), order="C")
    own = cp.sum(cp.multiply(u, np.eye(loss.n_outputs)[y]), axis=1)
    return s @ (cp.log_sum_exp(u, axis=1) - own)


CONSTRAINTS = {
    "f0": lambda f: [cp.sum_squares(f) <= f.size],
    "bnd": lambda f: [cp.sum_squares(f) <= f.size, cp.diff(f) >= 0.0],
    "spav": lambda f: [cp.diff(f) >= 0.0],
    "joint": lambda f: [cp.sum_squares(f) <= f.size, cp.diff(f) >= 0.0],
    "nonincreasing": lambda f: [cp.sum_squares(f) <= f.size, cp.diff(f) <= 0.0],
    "symmetric": lambda f: [cp.sum_squares(f) <= f.size, cp.diff(f) >= 0.0, f == -f[::-1]],
}


def reference_objective(D, loss, y, s, target_set, smoothness, fit_intercept=True, value=None):
    f = cp.Variable(D.shape[1])
    u = D.astype(np.float64) @ f
    if fit_intercept:
        u = u + np.tile(np.eye(loss.n_outputs), (len(y), 1)) @ cp.Variable(loss.n_outputs)
    value = (value or convex_loss)(loss, y, s, u)
    if smoothness:
        value = value + smoothness * cp.sum_squares(cp.diff(f))
    problem = cp.Problem(cp.Minimize(value), [cp.sum(f) == 0.0, *CONSTRAINTS[target_set](f)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tols = dict.fromkeys(["tol_gap_abs", "tol_gap_rel", "tol_feas"], 1e-10)
        problem.solve(solver="CLARABEL", **tols)
    return problem.value


def assert_optimal(fit, best, target_set):
    assert fit.objective <= best * (1.0 + 1e-6) + 1e-9
    assert fit.objective >= best * (1.0 - 1e-6) - 1e-9
    assert_feasible(fit.f, target_set)


def assert_feasible(f, target_set):
    assert abs(f.sum()) <= 1e-10 * max(1.0, np.abs(f).sum())
    if target_set not in ("f0", "nonincreasing"):
        assert np.all(np.diff(f) >= 0.0)
    if target_set != "spav":
        assert np.mean(f * f) <= 1.0 + 1e-12


@pytest.mark.parametrize("shape", [WIDE, TALL], ids=["wide", "tall"])
@every_loss
@every_set
def test_reaches_the_optimum_of_a_convex_solver(target_set, smoothness, name, shape):
    loss = LOSSES[name]
    fit_intercept = (len(name) + len(target_set)) % 2 == 0 or shape == WIDE
    D, y, s, f_start = make_problem(loss, *shape, seed=sum(shape))
    options = {"target_set": target_set, "smoothness": smoothness, "fit_intercept": fit_intercept}
    fit = solve_target(D, loss, y, s, f_start, **options, **EXACT)
    best = reference_objective(D, loss, y, s, target_set, smoothness, fit_intercept)
    assert_optimal(fit, best, target_set)
    u = (D @ fit.f).reshape(len(y), -1) + fit.b
    value = loss.value(y, np.ravel(u), s) + smoothness * np.sum(np.diff(fit.f) ** 2)
    assert fit.objective == pytest.approx(value, rel=1e-8, abs=1e-13)
    assert fit_intercept or np.all(np.asarray(fit.b) == 0.0)


@pytest.mark.parametrize("K", [1, 2, 3])
@every_set
def test_few_quantiles(target_set, smoothness, K):
    for loss in (Logistic(), Squared()):
        D, y, s, f_start = make_problem(loss, 30, K)
        options = {"target_set": target_set, "smoothness": smoothness, **EXACT}
        fit = solve_target(D, loss, y, s, f_start, **options)
        assert fit.converged
        assert_feasible(fit.f, target_set)
        if K > 1:
            best = reference_objective(D, loss, y, s, target_set, smoothness)
            assert_optimal(fit, best, target_set)


@pytest.mark.parametrize("design", ["zero", "constant rows", "one row"])
@every_loss
@every_set
def test_degenerate_designs(target_set, smoothness, name, design):
    loss = LOSSES[name]
    D, y, s, f_start = make_problem(loss, 1 if design == "one row" else 12, 20)
    if design == "zero":
        D[:] = 0.0
    elif design == "constant rows":
        D[:] = D[:, :1]
    start = f_start.copy()
    fit = solve_target(D, loss, y, s, f_start, target_set=target_set, smoothness=smoothness)
    assert fit.converged
    assert np.isfinite(fit.f).all()
    assert_feasible(fit.f, target_set)
    np.testing.assert_array_equal(f_start, start)
    if design != "one row" and smoothness == 0.0:  # nothing to learn: the start is a minimiser
        np.testing.assert_allclose(fit.f, start, atol=1e-9)


@pytest.mark.parametrize("shape", [(20, 60), (60, 20)], ids=str)
@pytest.mark.parametrize(("target_set", "smoothness"), [*SETS, ("spav", 0.0)])
def test_separable_data(target_set, smoothness, shape):
    D, _, s, f_start = make_problem(Logistic(), *shape)
    y = np.where(D @ np.sort(np.random.default_rng(1).standard_normal(shape[1])) > 0.0, 1.0, -1.0)
    options = {"target_set": target_set, "smoothness": smoothness, **EXACT}
    fit = solve_target(D, Logistic(), y, s, f_start, **options)
    assert_feasible(fit.f, target_set)
    if (target_set, smoothness) != ("spav", 0.0):
        best = reference_objective(D, Logistic(), y, s, target_set, smoothness)
        assert fit.objective <= best * (1.0 + 1e-6) + 1e-9


@every_set
def test_never_ends_above_the_start(target_set, smoothness):
    for name, loss in LOSSES.items():
        scale = 1.0 if name == "poisson" else 10.0
        D, y, s, f_start = make_problem(loss, 15, 30, scale=scale, seed=len(name))
        options = {"target_set": target_set, "smoothness": smoothness}
        start = solve_target(D, loss, y, s, f_start, max_iter=0, **options)
        np.testing.assert_allclose(start.f, f_start, atol=1e-12)
        for max_iter in (1, 2, 5):
            fit = solve_target(D, loss, y, s, f_start, max_iter=max_iter, **options)
            assert fit.objective <= start.objective


@every_loss
def test_weights_act_like_repeated_rows_and_zero_weight_like_absence(name):
    loss = LOSSES[name]
    D, y, _, f_start = make_problem(loss, 20, 30)
    counts = np.arange(20) % 3
    rows = np.repeat(np.arange(20), counts)
    blocks = D.reshape(20, loss.n_outputs, 30)[rows].reshape(-1, 30)
    options = {"target_set": "bnd", **EXACT, "tol": 1e-10}
    weighted = solve_target(D, loss, y, counts / counts.sum(), f_start, **options)
    equal = np.full(len(rows), 1.0 / len(rows))
    repeated = solve_target(blocks, loss, y[rows], equal, f_start, **options)
    assert weighted.objective == pytest.approx(repeated.objective, rel=1e-8)


@pytest.mark.parametrize("shape", [(30, 80), (80, 30)], ids=str)
@every_set
def test_float32_and_float64_designs_agree_and_repeat(target_set, smoothness, shape):
    for loss in LOSSES.values():
        D, y, s, f_start = make_problem(loss, *shape, dtype=np.float32)
        options = {"target_set": target_set, "smoothness": smoothness, **EXACT}
        single = solve_target(D, loss, y, s, f_start, **options)
        double = solve_target(D.astype(np.float64), loss, y, s, f_start, **options)
        again = solve_target(D, loss, y, s, f_start, **options)
        assert single.objective == pytest.approx(double.objective, rel=2e-6, abs=1e-6)
        np.testing.assert_array_equal(single.f, again.f)


def test_infeasible_start_is_projected():
    D, y, s, _ = make_problem(Logistic(), 20, 30)
    fit = solve_target(D, Logistic(), y, s, np.linspace(5.0, -9.0, 30), target_set="bnd")
    assert fit.converged
    assert_feasible(fit.f, "bnd")


def test_start_at_which_the_loss_overflows_is_shrunk():
    D, y, s, f_start = make_problem(Poisson(), 30, 12)
    D[0] = np.linspace(-1000.0, 1000.0, 12)
    y[:1] = 3.0
    for fit_intercept in (True, False):
        options = {"target_set": "spav", "smoothness": 0.01, "fit_intercept": fit_intercept}
        fit = solve_target(D, Poisson(), y, s, f_start, max_iter=100_000, **options)
        assert np.isfinite(fit.objective)
        assert fit.converged


@pytest.mark.parametrize("target_set", ["ball", 3, object()])
def test_unknown_set_is_refused(target_set):
    D, y, s, f_start = make_problem(Logistic(), 5, 4)
    with pytest.raises(
        ValueError, match="choose 'f0', 'bnd', 'spav' or 'joint', or give an object"
    ):
        solve_target(D, Logistic(), y, s, f_start, target_set=target_set)


@pytest.mark.parametrize(
    ("target_set", "smoothness"), [("f0", 0.0), ("bnd", 0.0), ("spav", 5.0), ("joint", 5.0)]
)
def test_large_design_takes_few_iterations(target_set, smoothness):
    rng = np.random.default_rng(0)
    n, K = 225, 5_000
    w = 0.02 * rng.standard_normal(K)
    D = np.array([w[rng.permutation(K)] for _ in range(n)], dtype=np.float32)
    y = rng.choice([-1.0, 1.0], n)
    f_start = np.linspace(-1.0, 1.0, K) * np.sqrt(3.0)
    s = np.full(n, 1.0 / n)
    fit = solve_target(D, Logistic(), y, s, f_start, target_set=target_set, smoothness=smoothness)
    assert fit.converged
    assert fit.n_iter <= 500
    assert_feasible(fit.f, target_set)


# ------------------------------------------------------------------------ from outside the package


class Nonincreasing(ConvexTargets):
    name = "nonincreasing"

    def prox(self, z, step):
        return -prox_smooth_bounded_nondecreasing(-z, step * self.smoothness)


class Symmetric(ConvexTargets):
    name = "symmetric"

    def prox(self, z, step):
        return prox_smooth_bounded_nondecreasing(0.5 * (z - z[::-1]), step * self.smoothness)


@pytest.mark.parametrize("shape", [WIDE, TALL], ids=["wide", "tall"])
@pytest.mark.parametrize("smoothness", [0.0, 0.01, 1.0])
@pytest.mark.parametrize("own", [Nonincreasing(), Symmetric()], ids=lambda one: one.name)
def test_a_set_with_nothing_but_a_prox_is_solved(own, smoothness, shape):
    assert isinstance(own, TargetSet)
    D, y, s, f_start = make_problem(Logistic(), *shape)
    options = {"target_set": own, "smoothness": smoothness, **EXACT}
    fit = solve_target(D, Logistic(), y, s, f_start, **options)
    best = reference_objective(D, Logistic(), y, s, own.name, smoothness)
    assert_optimal(fit, best, own.name)
    assert own == type(own)()  # it was not changed


@dataclass(frozen=True)
class PairwiseCurvature:
    """Dense Hessian A Aᵀ."""

    A: np.ndarray

    def product(self, x):
        return self.root(self.root_adjoint(x))

    def root(self, v):
        return self.A.astype(v.dtype) @ v

    def root_adjoint(self, x):
        return self.A.T.astype(x.dtype) @ x

    def diagonal(self):
        return np.sum(self.A**2, axis=1)

    def take(self, samples):
        raise AssertionError("a curvature that couples samples was cut")


@dataclass(frozen=True)
class PairwiseSquared:
    """Σ_i s_i (y_i − u_i)² + Σ_i s_i (y_i − y_{i+1} − u_i + u_{i+1})²: neighbours are compared."""

    name = "pairwise"
    is_classification = False
    n_outputs = 1
    is_quadratic = True
    couples_samples = True

    def _A(self, s):
        steps = np.eye(len(s)) - np.eye(len(s), k=1)
        return np.sqrt(s)[:, None] * np.eye(len(s)), np.sqrt(s[:-1])[:, None] * steps[:-1]

    def value(self, y, u, s):
        return sum(float(np.sum((M @ (y - u)) ** 2)) for M in self._A(s))

    def gradient(self, y, u, s):
        return sum(2.0 * M.T @ (M @ (u - y)) for M in self._A(s))

    def hessian(self, y, u, s):
        return PairwiseCurvature(np.hstack([np.sqrt(2.0) * M.T for M in self._A(s)]))

    def scores_of_dual(self, y, a, s):
        H = sum(2.0 * M.T @ M for M in self._A(s))
        return y + np.linalg.solve(H, a)

    def best_constant(self, y, s):
        return np.array([s @ y / s.sum()])


@pytest.mark.parametrize("shape", [WIDE, TALL, (300, 60)], ids=str)
@every_set
def test_a_loss_that_couples_samples(target_set, smoothness, shape):
    loss = PairwiseSquared()
    D, y, s, f_start = make_problem(Squared(), *shape)
    options = {"target_set": target_set, "smoothness": smoothness, **EXACT}
    fit = solve_target(D, loss, y, s, f_start, **options)

    def value(loss, y, s, u):
        return sum(cp.sum_squares(M @ (y - u)) for M in loss._A(s))

    best = reference_objective(D, loss, y, s, target_set, smoothness, value=value)
    assert_optimal(fit, best, target_set)
