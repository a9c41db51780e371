"""Solvers of both steps on arrays: hard designs, labels and weights, batches, threads.

Where an estimator can ask the question, ``test_optimality.py`` does.
"""

import threading

import numpy as np
import pytest
from scipy.optimize import minimize
from threadpoolctl import threadpool_info, threadpool_limits

from suquan import SuquanRegressor
from suquan.losses import Huber, Logistic, Poisson, Softmax, Squared
from suquan.solvers.elastic_net import ElasticNetDesign
from suquan.solvers.ridge import RidgeDesign
from suquan.solvers.target import solve_target

SHAPES = {"wide": (40, 150), "tall": (200, 30), "square": (50, 50)}
CLASSIC = {"logistic": Logistic(), "squared": Squared(), "softmax": Softmax(3)}
LOSSES = {**CLASSIC, "huber": Huber(1.35), "poisson": Poisson()}

every_loss = pytest.mark.parametrize("name", LOSSES)
classic = pytest.mark.parametrize("name", CLASSIC)
every_shape = pytest.mark.parametrize("shape", SHAPES)
both_sides = pytest.mark.parametrize("shape", ["wide", "tall"])
ridge_and_l1 = pytest.mark.parametrize("l1_ratio", [0.0, 0.5])


@pytest.fixture(autouse=True, scope="module")
def few_blas_threads():
    """Small matrices: more threads only wait for each other."""
    with threadpool_limits(1):
        yield


def make_design(A, l1_ratio=0.0, fit_intercept=True):
    """The design of a penalty."""
    if l1_ratio == 0.0:
        return RidgeDesign(A, fit_intercept=fit_intercept)
    return ElasticNetDesign(A, l1_ratio, fit_intercept)


def solve_w(A, loss, y, alpha, l1_ratio=0.0, *, s=None, fit_intercept=True, **options):
    """One fit by the solver of its penalty, of equal weights where none are given."""
    s = np.ones(len(y)) if s is None else s
    return make_design(A, l1_ratio, fit_intercept).solve(loss, y, s, alpha, **options)


def make_data(name, shape, dtype=np.float64, seed=0, noise=1.0, balance=0.0):
    """Correlated columns, rows of squared norm near n_features, labels with a linear signal."""
    rng = np.random.default_rng(seed)
    n_samples, n_features = shape
    A = rng.standard_normal(shape) + 0.7 * rng.standard_normal((n_samples, 1))
    A = (A / np.sqrt(1.49)).astype(dtype)
    signal = A.astype(float) @ rng.standard_normal((n_features, 3)) * 2 / np.sqrt(n_features)
    signal += noise * rng.gumbel(size=signal.shape)
    if name == "squared":
        return A, signal[:, 0] + 3.0
    if name == "huber":
        return A, 10.0 * signal[:, 0] + 50.0 * rng.standard_t(1, n_samples)
    if name == "poisson":
        return A, rng.poisson(np.exp(signal[:, 0].clip(max=5.0))).astype(float)
    if name == "logistic":
        return A, np.where(signal[:, 0] > np.quantile(signal[:, 0], 0.5 + balance), 1, -1)
    return A, signal.argmax(axis=1)


def objective(A, loss, y, w, b, alpha, l1_ratio=0.0):
    """J written out from its definition, in float64, for equal weights."""
    u = A.astype(float) @ w.T + b
    penalty = (1 - l1_ratio) * np.sum(w**2) + l1_ratio * np.sum(np.abs(w))
    return loss.value(y, u.ravel(), np.full(len(y), 1 / len(y))) + alpha * penalty


def relative_gap(A, loss, y, fit, alpha):
    """½ gᵀH⁻¹g / J of a ridge fit with one output and equal weights, from the definition."""
    A, s = np.column_stack([A.astype(float), np.ones(len(A))]), np.full(len(y), 1 / len(y))
    theta, ridge = (
        np.append(fit.w[0], fit.b[0]),
        2 * alpha * (np.arange(A.shape[1]) < A.shape[1] - 1),
    )
    g = A.T @ loss.gradient(y, A @ theta, s) + ridge * theta
    H = (A.T * loss.hessian(y, A @ theta, s).diagonal()) @ A + np.diag(ridge)
    return 0.5 * g @ np.linalg.solve(H, g) / fit.objective


def check_scores(A, fit):
    u = (A.astype(float) @ fit.w.T + fit.b).reshape(fit.u.shape)
    np.testing.assert_allclose(fit.u, u, atol=1e-6 * np.abs(u).max() + 1e-12)


# -- coefficients: hard problems ----------------------------------------------------------------------


@pytest.mark.parametrize("alpha", [1e-9, 1e-6, 1e-3])
@pytest.mark.parametrize("shape", [(60, 200), (400, 40), (50, 50)])
@pytest.mark.parametrize("kind", ["separable", "unbalanced", "counts"])
def test_ridge_is_optimal_where_labels_are_hard(kind, shape, alpha):
    alpha = alpha * shape[1]
    name = "poisson" if kind == "counts" else "logistic"
    A, y = make_data(name, shape, np.float32, balance=0.46)
    if kind == "separable":
        y = np.where(A[:, 0] + A[:, 1] > 0, 1, -1)
    fit = solve_w(A, LOSSES[name], y, alpha)
    assert fit.converged
    assert fit.objective == pytest.approx(
        objective(A, LOSSES[name], y, fit.w, fit.b, alpha), rel=1e-9
    )
    assert relative_gap(A, LOSSES[name], y, fit, alpha) < 1e-8
    check_scores(A, fit)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@both_sides
def test_large_offsets_change_nothing_but_the_intercept(shape, dtype):
    alpha = 1e-3 * SHAPES[shape][1]
    A, y = make_data("logistic", SHAPES[shape])
    A = np.round(A * 64) / 64  # so that the offset is exact in float32
    plain = solve_w(A.astype(dtype), Logistic(), y, alpha, tol=1e-12)
    moved = (A + 1000.0 + np.arange(A.shape[1])).astype(dtype)
    moved = solve_w(moved, Logistic(), y, alpha, tol=1e-12)
    assert moved.objective == pytest.approx(plain.objective, rel=1e-8)
    np.testing.assert_allclose(moved.w, plain.w, atol=1e-5 * np.abs(plain.w).max())


@pytest.mark.parametrize("l1_ratio", [0.0, 0.5, 1.0])
@classic
@both_sides
def test_repeated_columns_count_together_and_constant_ones_not_at_all(name, shape, l1_ratio):
    loss, alpha = LOSSES[name], 1e-5 * SHAPES[shape][1]
    A, y = make_data(name, SHAPES[shape], np.float32)
    n_copies = A.shape[1] // 5
    A[:, 5:] = np.tile(A[:, :5], n_copies - 1)
    A[:, 3::5] = 2.0
    fit = solve_w(A, loss, y, alpha, l1_ratio)
    assert fit.converged
    assert abs(fit.w[:, 3::5]).max() < 1e-5
    once = A[:, [0, 1, 2, 4]].astype(float)
    if l1_ratio == 0.0:  # k copies of w/k have the penalty w²/k
        once = solve_w(once * np.sqrt(n_copies), loss, y, alpha, tol=1e-12)
        assert fit.objective == pytest.approx(once.objective, rel=1e-8)
    elif l1_ratio == 1.0:
        once = solve_w(once, loss, y, alpha, 1.0, tol=1e-10)
        assert fit.objective == pytest.approx(once.objective, rel=1e-7)


@pytest.mark.parametrize("l1_ratio", [0.0, 1.0])
@classic
@pytest.mark.parametrize("shape", [(6, 9), (9, 6), (1, 3), (3, 1)])
def test_a_design_of_zeros_leaves_the_intercept(name, shape, l1_ratio):
    _, y = make_data(name, shape)
    fit = solve_w(np.zeros(shape), LOSSES[name], y, 0.1, l1_ratio)
    assert np.all(fit.w == 0.0)
    assert fit.converged
    if name == "squared":
        np.testing.assert_allclose(fit.b, y.mean())


@ridge_and_l1
@pytest.mark.parametrize("name", ["logistic", "softmax"])
def test_a_single_class_gets_a_sure_intercept(name, l1_ratio):
    for shape in SHAPES.values():
        A, y = make_data(name, shape)
        fit = solve_w(A, LOSSES[name], y, 1.0, l1_ratio, s=(y == 1).astype(float))
        assert np.all(np.isfinite(fit.u))
        assert fit.objective < 1e-8


def test_a_float32_design_loses_nothing_of_nearly_equal_rows():
    A, y = make_data("squared", (120, 9000), np.float32)
    A[1:] = A[0] + 1e-3 * A[1:]
    fit, exact = (solve_w(design, Squared(), y, 1e-6) for design in (A, A.astype(float)))
    ours = objective(A, Squared(), y, fit.w, fit.b, 1e-6)
    assert ours <= (1 + 1e-8) * exact.objective
    assert fit.objective == pytest.approx(ours, rel=1e-8)


@every_shape
@pytest.mark.parametrize("scale", [1e-2, 1e3])
def test_huber_residuals_far_beyond_delta(shape, scale):
    """Nearly all curvature is 0 at the start."""
    A, y = make_data("huber", SHAPES[shape])
    loss, y, s = Huber(1e-2), scale * y, np.full(len(y), 1 / len(y))
    for alpha in (1e-6, 1e-1):
        fit = solve_w(A, loss, y, alpha, tol=1e-10)
        assert fit.converged

        def value_and_gradient(theta, alpha=alpha):
            u, w = A @ theta[:-1] + theta[-1], theta[:-1]
            slopes = loss.gradient(y, u, s)
            gradient = np.append(slopes @ A + 2 * alpha * w, slopes.sum())
            return loss.value(y, u, s) + alpha * w @ w, gradient

        start = np.append(np.zeros(A.shape[1]), loss.best_constant(y, s))
        options = {"maxiter": 3000, "maxfun": 10**5, "ftol": 1e-16, "gtol": 1e-12}
        best = minimize(value_and_gradient, start, jac=True, method="L-BFGS-B", options=options)
        assert fit.objective <= (1 + 1e-7) * best.fun


@pytest.mark.parametrize(
    ("shape", "l1_ratio"),
    [("wide", 0.0), ("tall", 0.5), pytest.param("wide", 0.5, marks=pytest.mark.slow)],
)
def test_poisson_steps_that_overflow_are_not_taken(shape, l1_ratio):
    A, y = make_data("poisson", SHAPES[shape])
    # Proximal gradient is slow where curvatures differ so much.
    y[0], alpha = (1e5, 1e-6) if l1_ratio == 0.0 else (1e2, 1e-2)
    s = np.append(np.ones(len(y) - 1), 0.0)
    A[-1] *= 1e6  # a sample of weight 0, whose exponential overflows
    fit = solve_w(A, Poisson(), y, alpha, l1_ratio, s=s, tol=1e-9)
    far = solve_w(A, Poisson(), y, 1e-3, l1_ratio, s=s)
    start = type(fit)(1e4 * far.w, far.b, 1e4 * far.u, 0.0, 1, 0.0, True)
    again = solve_w(A, Poisson(), y, alpha, l1_ratio, s=s, tol=1e-9, start=start)
    assert fit.converged
    assert again.objective == pytest.approx(fit.objective, rel=1e-7)


# -- coefficients: weights, batches, paths, starts ------------------------------------------------------


@pytest.mark.parametrize(("l1_ratio", "relative_alpha"), [(0.0, 1e-6), (0.0, 1e-3), (0.5, 1e-3)])
@every_loss
@pytest.mark.parametrize(("shape", "dtype"), [("wide", np.float32), ("tall", np.float64)])
def test_a_batch_equals_fits_to_rows_removed_and_repeated(
    name, shape, dtype, l1_ratio, relative_alpha
):
    loss, alpha = LOSSES[name], relative_alpha * SHAPES[shape][1]
    A, y = make_data(name, SHAPES[shape], dtype, noise=2.0)
    n, rng = len(y), np.random.default_rng(1)
    left_out = rng.permutation(n)[:4, None] != np.arange(n)
    folds = rng.permutation(n) % 3 != np.arange(3)[:, None]
    S = np.vstack([left_out, folds, rng.integers(0, 3, (1, n))]).astype(float)
    S = S[4:] if l1_ratio else S
    fits = make_design(A, l1_ratio).solve_many(loss, y, S, alpha, tol=1e-13)
    for s, fit in zip(S, fits, strict=True):
        rows = np.repeat(np.arange(n), s.astype(int))
        alone = solve_w(A[rows], loss, y[rows], alpha, l1_ratio, tol=1e-13)
        assert fit.converged
        rel = 1e-8 if dtype == np.float32 else 1e-10
        assert fit.objective == pytest.approx(alone.objective, rel=rel, abs=1e-15)
        if relative_alpha > 1e-6:
            np.testing.assert_allclose(fit.w, alone.w, atol=1e-5 * np.abs(alone.w).max())
        check_scores(A, fit)


@pytest.mark.parametrize("fit_intercept", [True, False])
@every_loss
@every_shape
def test_a_path_equals_separate_fits_and_that_of_the_gram_matrix(name, shape, fit_intercept):
    loss = LOSSES[name]
    A, y = make_data(name, SHAPES[shape], np.float32)
    alphas, s = SHAPES[shape][1] * np.array([1e-6, 1e2, 1e-3, 1e-1, 1e-3]), np.ones(len(y))
    path = RidgeDesign(A, fit_intercept=fit_intercept).solve_path(loss, y, s, alphas)
    for alpha, fit in zip(alphas, path, strict=True):
        alone = solve_w(A, loss, y, alpha, fit_intercept=fit_intercept)
        assert fit.converged
        assert fit.objective == pytest.approx(alone.objective, rel=2e-8)
        check_scores(A, fit)
    if name in CLASSIC and shape == "wide":
        A = A.astype(float)
        design = RidgeDesign(None, gram=A @ A.T, fit_intercept=fit_intercept)
        fit = design.solve_path(loss, y, s, alphas[2:4], tol=1e-12)[0]
        direct = solve_w(A, loss, y, alphas[2], fit_intercept=fit_intercept, tol=1e-12)
        assert fit.objective == pytest.approx(direct.objective, rel=1e-8)
        for ours, theirs in ((fit.w @ A, direct.w), (fit.b, direct.b), (fit.u, direct.u)):
            np.testing.assert_allclose(ours, theirs, atol=1e-6)


@ridge_and_l1
@every_loss
@both_sides
def test_a_warm_start_reaches_the_same_fit_sooner(name, shape, l1_ratio):
    loss, alpha = LOSSES[name], 1e-2 * SHAPES[shape][1]
    A, y = make_data(name, SHAPES[shape])
    cold = solve_w(A, loss, y, alpha, l1_ratio)
    warm = solve_w(A, loss, y, alpha, l1_ratio, start=cold)
    assert warm.objective == pytest.approx(cold.objective, rel=1e-8)
    assert warm.n_iter <= max(1, cold.n_iter)
    assert solve_w(A + 0.01, loss, y, 2 * alpha, l1_ratio, start=cold).converged


# -- targets for given coefficients ---------------------------------------------------------------------

SETS = [("f0", 0.0), ("f0", 0.01), ("bnd", 0.0), ("spav", 0.01), ("joint", 0.0), ("joint", 0.01)]
EXACT = {"tol": 1e-8, "max_iter": 20_000}
every_set = pytest.mark.parametrize(("target_set", "smoothness"), SETS)


def make_rows(name, n, K, seed=0, scale=0.5):
    """Rows of an f-step, labels, weights and a start."""
    rng, C = np.random.default_rng(seed), LOSSES[name].n_outputs
    D = scale * rng.standard_normal((n * C, K))
    u = (D @ np.sort(rng.standard_normal(K))).reshape(n, C) + rng.standard_normal((n, C))
    y = {
        "logistic": np.where(u[:, 0] > 0.0, 1.0, -1.0),
        "softmax": u.argmax(axis=1),
        "poisson": rng.poisson(np.exp(u[:, 0].clip(-3.0, 2.0))).astype(float),
    }.get(name, u[:, 0] + 1.0 + 10.0 * (np.arange(n) % 7 == 0))
    s = rng.random(n) + 0.1
    f_start = np.linspace(-1.0, 1.0, K)
    return D, y, s / s.sum(), f_start / max(np.sqrt(np.mean(f_start**2)), 1e-300)


def assert_feasible(f, target_set):
    assert abs(f.sum()) <= 1e-10 * max(1.0, np.abs(f).sum())
    assert target_set == "f0" or np.all(np.diff(f) >= 0.0)
    assert target_set == "spav" or np.mean(f * f) <= 1.0 + 1e-12


@pytest.mark.parametrize("design", ["zeros", "constant rows", "one row", "one knot", "two knots"])
@every_loss
@every_set
def test_degenerate_rows_give_a_member_of_the_set(target_set, smoothness, name, design):
    K = {"one knot": 1, "two knots": 2}.get(design, 20)
    D, y, s, f_start = make_rows(name, 1 if design == "one row" else 12, K)
    if design == "zeros":
        D[:] = 0.0
    elif design == "constant rows":
        D[:] = D[:, :1]
    start, options = f_start.copy(), {"target_set": target_set, "smoothness": smoothness}
    fit = solve_target(D, LOSSES[name], y, s, f_start, **options)
    assert fit.converged
    assert np.isfinite(fit.f).all()
    assert_feasible(fit.f, target_set)
    np.testing.assert_array_equal(f_start, start)
    if design in ("zeros", "constant rows") and smoothness == 0.0:  # the start is a minimiser
        np.testing.assert_allclose(fit.f, start, atol=1e-9)


@pytest.mark.parametrize("shape", [(20, 60), (60, 20)], ids=str)
@pytest.mark.parametrize(("target_set", "smoothness"), [*SETS, ("spav", 0.0)])
def test_separable_labels_give_a_member_of_the_set_at_a_lower_objective(
    target_set, smoothness, shape
):
    D, _, s, f_start = make_rows("logistic", *shape)
    best = np.sort(np.random.default_rng(1).standard_normal(shape[1]))
    y = np.where(D @ best > 0.0, 1.0, -1.0)
    options = {"target_set": target_set, "smoothness": smoothness, **EXACT}
    fit = solve_target(D, Logistic(), y, s, f_start, **options)
    assert_feasible(fit.f, target_set)
    best = (best - best.mean()) / best.std()
    J = Logistic().value(y, D @ best, s) + smoothness * np.sum(np.diff(best) ** 2)
    assert fit.objective <= J * (1.0 + 1e-6) + 1e-9


@every_loss
@every_set
def test_never_ends_above_the_start(target_set, smoothness, name):
    D, y, s, f_start = make_rows(name, 15, 30, scale=1.0 if name == "poisson" else 10.0)
    options = {"target_set": target_set, "smoothness": smoothness}
    start = solve_target(D, LOSSES[name], y, s, f_start, max_iter=0, **options)
    np.testing.assert_allclose(start.f, f_start, atol=1e-12)
    for max_iter in (1, 2, 5):
        fit = solve_target(D, LOSSES[name], y, s, f_start, max_iter=max_iter, **options)
        assert fit.objective <= start.objective


@pytest.mark.parametrize("shape", [(30, 80), (80, 30)], ids=str)
@every_set
def test_float32_and_float64_rows_agree(target_set, smoothness, shape):
    for name in ("logistic", "huber"):
        D, y, s, f_start = make_rows(name, *shape)
        options = {"target_set": target_set, "smoothness": smoothness, **EXACT, "tol": 1e-7}
        single, double = (
            solve_target(rows, LOSSES[name], y, s, f_start, **options)
            for rows in (D.astype(np.float32), D.astype(np.float32).astype(float))
        )
        assert single.objective == pytest.approx(double.objective, rel=2e-6, abs=1e-6)


def test_starts_outside_the_set_are_projected_and_overflowing_ones_shrunk():
    D, y, s, _ = make_rows("logistic", 20, 30)
    fit = solve_target(D, Logistic(), y, s, np.linspace(5.0, -9.0, 30), target_set="bnd")
    assert fit.converged
    assert_feasible(fit.f, "bnd")
    D, y, s, f_start = make_rows("poisson", 30, 12)
    D[0], y[0] = np.linspace(-1000.0, 1000.0, 12), 3.0
    for fit_intercept in (True, False):
        options = {"target_set": "spav", "smoothness": 0.01, "fit_intercept": fit_intercept}
        fit = solve_target(D, Poisson(), y, s, f_start, max_iter=100_000, **options)
        assert np.isfinite(fit.objective)
        assert fit.converged


# -- threads --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(3000, 400), (250, 8000)])
def test_fits_are_the_same_bits_at_any_number_of_threads(dtype, shape):
    A, y = make_data("logistic", shape, dtype)
    S = np.array([np.arange(len(y)) % 6 != k for k in range(6)], dtype=float)

    def solutions(n_threads):
        with threadpool_limits(n_threads, user_api="blas"):
            return [fit.w for fit in RidgeDesign(A).solve_many(Logistic(), y, S, 1e-3)]

    np.testing.assert_array_equal(solutions(1), solutions(3))


def blas_threads():
    """Number of threads of each BLAS library."""
    return [info["num_threads"] for info in threadpool_info() if info["user_api"] == "blas"]


class Meeting(Squared):
    """A loss whose gradients set one event and wait for another; it has seen the threads of BLAS."""

    def __init__(self, reached, awaited):
        super().__init__()
        self.events = reached, awaited
        self.seen = set()

    def gradient(self, y, u, s):
        reached, awaited = self.events
        reached.set()
        assert awaited.wait(60)
        self.seen |= set(blas_threads())
        return super().gradient(y, u, s)


def test_blas_has_one_thread_in_a_fit_and_gets_the_others_back_after_overlaps():
    """The first to begin is the first to end; the last must not leave BLAS on one thread."""
    A, y = make_data("squared", (20, 5))
    begun, followed, ended = threading.Event(), threading.Event(), threading.Event()
    first, second = Meeting(begun, followed), Meeting(followed, ended)

    def follow():
        assert begun.wait(60)
        SuquanRegressor("fixed", loss=second).fit(A, y)

    with threadpool_limits(2):
        before = blas_threads()
        thread = threading.Thread(target=follow)
        thread.start()
        SuquanRegressor("fixed", loss=first).fit(A, y)
        ended.set()
        thread.join()
        assert first.seen == {1}
        assert blas_threads() == before
