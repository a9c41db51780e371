"""The f-step against a convex solver, its certificate, and its edges."""

from __future__ import annotations

import warnings

import cvxpy as cp
import numpy as np
import pytest

from suquan._kernels.target import block_sums, whiten_rows
from suquan.losses import Logistic, Softmax, Squared
from suquan.solvers import target as module
from suquan.solvers.target import solve_target

LOSSES = {"logistic": Logistic(), "squared": Squared(), "softmax": Softmax(3)}
SETS = [("f0", 0.0), ("f0", 0.01), ("bnd", 0.0), ("spav", 0.01), ("joint", 0.0), ("joint", 0.01)]
SHAPES = [(20, 45), (60, 15), (25, 25)]


def make_problem(loss, n, K, seed=0, scale=0.5, dtype=np.float64):
    rng = np.random.default_rng(seed)
    C = loss.n_outputs
    D = (scale * rng.standard_normal((n * C, K))).astype(dtype)
    u = D.astype(np.float64) @ np.sort(rng.standard_normal(K))
    if isinstance(loss, Logistic):
        y = np.where(u + rng.standard_normal(n) > 0.0, 1.0, -1.0)
    elif isinstance(loss, Squared):
        y = u + rng.standard_normal(n) + 1.0
    else:
        y = np.argmax(u.reshape(n, C) + rng.standard_normal((n, C)), axis=1)
    s = rng.random(n) + 0.1
    f_start = np.linspace(-1.0, 1.0, K)
    f_start /= max(np.sqrt(np.mean(f_start**2)), 1e-300)
    return D, y, s / s.sum(), f_start


def reference_objective(D, loss, y, s, target_set, smoothness, fit_intercept):
    n, C, K = len(y), loss.n_outputs, D.shape[1]
    f = cp.Variable(K)
    b = cp.Variable(C) if fit_intercept else np.zeros(C)
    if isinstance(loss, Logistic):
        value = s @ cp.logistic(-cp.multiply(y, D @ f + b[0]))
    elif isinstance(loss, Squared):
        value = s @ cp.square(y - D @ f - b[0])
    else:
        u = cp.reshape(D @ f, (n, C), order="C") + np.ones((n, 1)) @ cp.reshape(
            b, (1, C), order="C"
        )
        own = cp.sum(cp.multiply(u, np.eye(C)[y]), axis=1)
        value = s @ (cp.log_sum_exp(u, axis=1) - own)
    constraints = [cp.sum(f) == 0.0]
    if target_set != "spav":
        constraints.append(cp.sum_squares(f) <= K)
    if target_set != "f0":
        constraints.append(cp.diff(f) >= 0.0)
    if fit_intercept and C > 1:
        constraints.append(cp.sum(b) == 0.0)
    if smoothness:
        value = value + smoothness * cp.sum_squares(cp.diff(f))
    problem = cp.Problem(cp.Minimize(value), constraints)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tols = {"tol_gap_abs": 1e-10, "tol_gap_rel": 1e-10, "tol_feas": 1e-10}
        problem.solve(solver="CLARABEL", **tols)
    return problem.value


def objective(fit, D, loss, y, s, smoothness, fit_intercept=True):
    u = D.astype(np.float64) @ fit.f
    u = u + fit.b if loss.n_outputs == 1 else u.reshape(len(y), -1) + fit.b
    np.testing.assert_allclose(fit.u, u, rtol=1e-9, atol=1e-9 * max(1.0, np.abs(u).max()))
    if not fit_intercept:
        assert np.all(np.asarray(fit.b) == 0.0)
    return loss.value(y, u, s) + smoothness * np.sum(np.diff(fit.f) ** 2)


def assert_feasible(f, target_set):
    assert abs(f.sum()) <= 1e-10 * max(1.0, np.abs(f).sum())
    if target_set != "f0":
        assert np.all(np.diff(f) >= 0.0)
    if target_set != "spav":
        assert np.mean(f * f) <= 1.0 + 1e-12


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize(("target_set", "smoothness"), SETS)
def test_reaches_the_optimum_of_a_convex_solver(target_set, smoothness, name, shape):
    loss = LOSSES[name]
    fit_intercept = (len(name) + len(target_set)) % 2 == 0 or shape != (60, 15)
    D, y, s, f_start = make_problem(loss, *shape, seed=sum(shape))
    fit = solve_target(
        D,
        loss,
        y,
        s,
        f_start,
        target_set=target_set,
        smoothness=smoothness,
        fit_intercept=fit_intercept,
    )
    value = objective(fit, D, loss, y, s, smoothness, fit_intercept)
    best = reference_objective(D, loss, y, s, target_set, smoothness, fit_intercept)
    assert fit.converged
    assert fit.gap <= 1e-6
    assert fit.objective == pytest.approx(value, rel=1e-9, abs=1e-14)
    assert value <= best * (1.0 + 1e-6) + 1e-9
    assert_feasible(fit.f, target_set)


@pytest.mark.parametrize("K", [1, 2, 3])
@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize(("target_set", "smoothness"), SETS)
def test_few_quantiles(target_set, smoothness, name, K):
    loss = LOSSES[name]
    D, y, s, f_start = make_problem(loss, 30, K)
    fit = solve_target(D, loss, y, s, f_start, target_set=target_set, smoothness=smoothness)
    assert fit.converged
    assert_feasible(fit.f, target_set)
    if K > 1:
        best = reference_objective(D, loss, y, s, target_set, smoothness, True)
        assert fit.objective <= best * (1.0 + 1e-6) + 1e-9


@pytest.mark.parametrize("design", ["zero", "constant rows", "one row"])
@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize(("target_set", "smoothness"), SETS)
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


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize(("target_set", "smoothness"), SETS)
@pytest.mark.parametrize("shape", [(15, 40), (60, 15)], ids=str)
def test_certificate_holds_at_every_tolerance(target_set, smoothness, name, shape):
    loss = LOSSES[name]
    D, y, s, f_start = make_problem(loss, *shape, seed=3)
    options = {"target_set": target_set, "smoothness": smoothness}
    best = solve_target(D, loss, y, s, f_start, tol=1e-10, **options).objective
    for tol, max_iter in ((1e-1, 500), (1e-3, 500), (1e-8, 1), (1e-8, 3)):
        fit = solve_target(D, loss, y, s, f_start, tol=tol, max_iter=max_iter, **options)
        floor = 1e-6 * np.var(y) if name == "squared" else 1e-6
        assert fit.objective - best <= fit.gap * max(fit.objective, floor) + 1e-12
        assert fit.converged == (fit.gap <= tol)


def test_certificate_covers_large_targets_without_bound_and_smoothness():
    D, y, s, f_start = make_problem(Squared(), 60, 15)
    fit = solve_target(D, Squared(), y, s, f_start, target_set="spav")
    best = reference_objective(D, Squared(), y, s, "spav", 0.0, True)
    assert fit.converged
    assert fit.objective <= best * (1.0 + 1e-6)


@pytest.mark.parametrize("shape", [(20, 60), (60, 20)], ids=str)
@pytest.mark.parametrize(("target_set", "smoothness"), [*SETS, ("spav", 0.0)])
def test_separable_data(target_set, smoothness, shape):
    D, _, s, f_start = make_problem(Logistic(), *shape)
    y = np.where(D @ np.sort(np.random.default_rng(1).standard_normal(shape[1])) > 0.0, 1.0, -1.0)
    fit = solve_target(D, Logistic(), y, s, f_start, target_set=target_set, smoothness=smoothness)
    assert fit.converged
    assert_feasible(fit.f, target_set)
    if (target_set, smoothness) != ("spav", 0.0):
        best = reference_objective(D, Logistic(), y, s, target_set, smoothness, True)
        assert fit.objective <= best * (1.0 + 1e-6) + 1e-9


@pytest.mark.parametrize("max_iter", [1, 2, 5])
@pytest.mark.parametrize(("target_set", "smoothness"), SETS)
def test_never_ends_above_the_start(target_set, smoothness, max_iter):
    for name, loss in LOSSES.items():
        for scale in (10.0,):
            D, y, s, f_start = make_problem(loss, 15, 30, scale=scale, seed=len(name))
            zero = solve_target(
                D, loss, y, s, f_start, target_set=target_set, smoothness=smoothness, tol=np.inf
            )
            np.testing.assert_allclose(zero.f, f_start, atol=1e-12)
            fit = solve_target(
                D,
                loss,
                y,
                s,
                f_start,
                target_set=target_set,
                smoothness=smoothness,
                max_iter=max_iter,
            )
            assert fit.objective <= zero.objective


@pytest.mark.parametrize("name", LOSSES)
def test_weights_act_like_repeated_rows_and_zero_weight_like_absence(name):
    loss = LOSSES[name]
    D, y, _, f_start = make_problem(loss, 20, 30)
    C = loss.n_outputs
    counts = np.arange(20) % 3
    rows = np.repeat(np.arange(20), counts)
    blocks = D.reshape(20, C, 30)[rows].reshape(-1, 30)
    weighted = solve_target(D, loss, y, counts / counts.sum(), f_start, target_set="bnd", tol=1e-9)
    repeated = solve_target(
        blocks,
        loss,
        y[rows],
        np.full(len(rows), 1.0 / len(rows)),
        f_start,
        target_set="bnd",
        tol=1e-9,
    )
    assert weighted.objective == pytest.approx(repeated.objective, rel=1e-8)
    assert weighted.u.shape[0] == 20


@pytest.mark.parametrize("shape", [(30, 80), (80, 30)], ids=str)
@pytest.mark.parametrize(("target_set", "smoothness"), SETS)
def test_float32_and_float64_designs_agree(target_set, smoothness, shape):
    for loss in LOSSES.values():
        D, y, s, f_start = make_problem(loss, *shape, dtype=np.float32)
        options = {"target_set": target_set, "smoothness": smoothness}
        single = solve_target(D, loss, y, s, f_start, **options)
        double = solve_target(D.astype(np.float64), loss, y, s, f_start, **options)
        assert single.converged
        assert double.converged
        assert single.objective == pytest.approx(double.objective, rel=2e-6, abs=1e-9)


@pytest.mark.parametrize("shape", [(30, 80), (80, 30)], ids=str)
def test_same_input_gives_the_same_bits(shape):
    D, y, s, f_start = make_problem(Logistic(), *shape)
    fits = [solve_target(D, Logistic(), y, s, f_start, target_set="bnd") for _ in range(2)]
    np.testing.assert_array_equal(fits[0].f, fits[1].f)
    assert fits[0].objective == fits[1].objective


def test_infeasible_start_is_projected():
    D, y, s, _ = make_problem(Logistic(), 20, 30)
    fit = solve_target(D, Logistic(), y, s, np.linspace(5.0, -9.0, 30), target_set="bnd")
    assert fit.converged
    assert_feasible(fit.f, "bnd")


def test_unknown_set_is_refused():
    D, y, s, f_start = make_problem(Logistic(), 5, 4)
    with pytest.raises(ValueError, match="choose 'f0', 'bnd', 'spav' or 'joint'"):
        solve_target(D, Logistic(), y, s, f_start, target_set="ball")


@pytest.mark.parametrize(("target_set", "smoothness"), SETS)
@pytest.mark.parametrize("name", LOSSES)
def test_proximal_gradient_alone_finds_the_same_optimum(monkeypatch, name, target_set, smoothness):
    loss = LOSSES[name]
    D, y, s, f_start = make_problem(loss, 30, 20)
    options = {"target_set": target_set, "smoothness": smoothness, "tol": 1e-4, "max_iter": 5000}
    fast = solve_target(D, loss, y, s, f_start, **options)
    monkeypatch.setattr(module, "_primal_newton", lambda *_: None)
    monkeypatch.setattr(module, "_dual_newton", lambda *_: None)
    slow = solve_target(D, loss, y, s, f_start, **options)
    assert slow.converged
    assert slow.objective == pytest.approx(fast.objective, rel=2e-4, abs=1e-6)


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize(("target_set", "smoothness"), SETS)
def test_dual_and_primal_methods_agree(monkeypatch, name, target_set, smoothness):
    loss = LOSSES[name]
    D, y, s, f_start = make_problem(loss, 40, 25)
    options = {"target_set": target_set, "smoothness": smoothness}
    primal = solve_target(D, loss, y, s, f_start, **options)
    monkeypatch.setattr(module, "_accelerated", lambda *_: None)
    monkeypatch.setattr(module, "_primal_newton", module._dual_newton)
    dual = solve_target(D, loss, y, s, f_start, **options)
    assert dual.objective == pytest.approx(primal.objective, rel=1e-5)


@pytest.mark.parametrize(
    ("target_set", "smoothness"), [("f0", 0.0), ("bnd", 0.0), ("spav", 5.0), ("joint", 5.0)]
)
def test_large_design_is_certified_in_few_iterations(target_set, smoothness):
    rng = np.random.default_rng(0)
    n, K = 225, 5_000
    w = 0.02 * rng.standard_normal(K)
    D = np.array([w[rng.permutation(K)] for _ in range(n)], dtype=np.float32)
    y = rng.choice([-1.0, 1.0], n)
    f_start = np.linspace(-1.0, 1.0, K) * np.sqrt(3.0)
    s = np.full(n, 1.0 / n)
    fit = solve_target(D, Logistic(), y, s, f_start, target_set=target_set, smoothness=smoothness)
    assert fit.converged
    assert fit.n_iter <= 40
    assert_feasible(fit.f, target_set)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_rows", [1, 4, 7, 19])
def test_kernels_match_their_formulas(dtype, n_rows):
    rng = np.random.default_rng(n_rows)
    K = 37
    D = rng.standard_normal((n_rows, K)).astype(dtype)
    exact = D.astype(np.float64)
    starts = np.array([0, 1, 9, 10, 30])
    sums = np.empty((n_rows, len(starts)))
    block_sums(D, np.append(starts, D.shape[1]), sums)
    np.testing.assert_allclose(sums, np.add.reduceat(exact, starts, axis=1), rtol=1e-12, atol=1e-12)

    diagonal, off = rng.random((2, K)) + 1.0
    R = np.diag(diagonal) + np.diag(off[1:], k=1)
    X = exact.copy()
    last = np.zeros(n_rows)
    for part in (slice(0, 11), slice(11, K)):  # the second goes on where the first ended
        whiten_rows(X[:, part], diagonal[part], off[part], last)
    np.testing.assert_allclose(X @ R, exact, rtol=1e-9, atol=1e-9)
