"""Fits by the estimators against scikit-learn and a convex solver: they reach the minimum that is promised."""

import subprocess
import sys
import warnings

import cvxpy as cp
import numpy as np
import pytest
from convex import NAMES, convex_loss, fit_model, make_samples, mean_loss, minimum, scores
from reference import interpolation_matrix, operator_matrix
from scipy import linalg
from sklearn.linear_model import LogisticRegression, PoissonRegressor, Ridge

from suquan import SuquanClassifier
from suquan.methods import Method
from suquan.prox import prox_smooth_bounded_nondecreasing
from suquan.target_sets import ConvexTargets

SHAPES = {"wide": (30, 60), "tall": (90, 20), "square": (40, 40)}


# -- coefficients for a given target ------------------------------------------------------------------


def other_models(name, n, alpha):
    """Models of scikit-learn with the same ridge objective; none where it has no such model."""
    if name == "squared":
        return [Ridge(alpha=n * alpha, solver="svd")]
    if name == "poisson":
        return [PoissonRegressor(alpha=2 * alpha, solver="newton-cholesky", tol=1e-10)]
    if name not in ("logistic", "softmax"):
        return []
    C, solvers = 1 / (2 * n * alpha), (("lbfgs", 1e-9), ("newton-cholesky", 1e-10))
    return [LogisticRegression(C=C, solver=solver, tol=tol) for solver, tol in solvers]


def solutions(name, A, y, alpha, l1_ratio, fit_intercept):
    """Coefficients and intercepts by scikit-learn with a ridge penalty, or by the convex solver."""
    n, C = len(A), 3 if name == "softmax" else 1
    models = other_models(name, n, alpha) if l1_ratio == 0.0 else []
    for other in models:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            other.set_params(fit_intercept=fit_intercept).fit(A, y)
        yield np.atleast_2d(other.coef_), np.broadcast_to(other.intercept_, C)
    if not models:
        w, b = cp.Variable((C, A.shape[1])), cp.Variable(C)
        penalty = (1 - l1_ratio) * cp.sum_squares(w) + l1_ratio * cp.sum(cp.abs(w))
        U = [A @ w[k] + (b[k] if fit_intercept else 0.0) for k in range(C)]
        minimum(convex_loss(name, y, np.full(n, 1 / n), U) + alpha * penalty)
        yield w.value, b.value if fit_intercept else np.zeros(C)


SIZES = [("wide", 0, True), ("tall", 1, False), ("square", 2, True)]
SIZES += [
    pytest.param(shape, size, fit_intercept, marks=pytest.mark.slow)
    for shape in SHAPES
    for size in range(3)
    for fit_intercept in (True, False)
    if (shape, size, fit_intercept) not in SIZES
]


@pytest.mark.parametrize(("shape", "size", "fit_intercept"), SIZES)
@pytest.mark.parametrize("l1_ratio", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("name", [*NAMES, "pairs"])
def test_coefficients_are_as_good_as_those_of_others(name, l1_ratio, shape, size, fit_intercept):
    X, y = make_samples(name, SHAPES[shape])
    n, p = X.shape
    smallest = 1e-3 if name == "pairs" else 1e-5 if l1_ratio else 1e-9
    alpha = p * [smallest, 1e-3, 1e2][size]
    settings = {"alpha": alpha, "l1_ratio": l1_ratio, "fit_intercept": fit_intercept}
    model = fit_model(name, "fixed", X, y, init="normal", **settings)
    A, s = model.transform(X), np.full(n, 1 / n)

    def objective(w, b):
        penalty = (1 - l1_ratio) * np.sum(w**2) + l1_ratio * np.abs(w).sum()
        return mean_loss(name, y, s, w @ A.T + b[:, None]) + alpha * penalty

    J = objective(model.coef_, model.intercept_)
    assert model.objective_ == pytest.approx(J, rel=1e-9)
    assert fit_intercept or np.all(model.intercept_ == 0.0)
    if name == "softmax":
        assert abs(model.intercept_.sum()) < 1e-9 * (1 + np.abs(model.intercept_).max())
    # Proximal gradient stops at an estimate of the gap, which may be ten times too small.
    slack = 1e-6 if l1_ratio and name in ("squared", "huber") else 1e-8
    for w, b in solutions(name, A, y, alpha, l1_ratio, fit_intercept):
        assert objective(w, b) * (1 + slack) >= J
        if (
            l1_ratio == 0.0 and size > 0 and name != "huber"
        ):  # scores of the minimiser, but for a shift of all classes
            ours, theirs = A @ model.coef_.T + model.intercept_, A @ w.T + b
            free = (theirs - ours).mean(axis=1, keepdims=True)
            ours = ours + (free if len(w) > 1 else (name == "pairs") * free.mean())
            np.testing.assert_allclose(ours, theirs, atol=2e-5 * np.abs(theirs).max())


# -- the target for given coefficients ----------------------------------------------------------------


class Nonincreasing(ConvexTargets):
    name = "nonincreasing"

    def prox(self, z, step):
        return -prox_smooth_bounded_nondecreasing(-z, step * self.smoothness)


class Symmetric(ConvexTargets):
    name = "symmetric"

    def prox(self, z, step):
        return prox_smooth_bounded_nondecreasing(0.5 * (z - z[::-1]), step * self.smoothness)


CONSTRAINTS = {
    "f0": lambda f: [cp.sum_squares(f) <= f.size],
    "bnd": lambda f: [cp.sum_squares(f) <= f.size, cp.diff(f) >= 0.0],
    "spav": lambda f: [cp.diff(f) >= 0.0],
    "joint": lambda f: [cp.sum_squares(f) <= f.size, cp.diff(f) >= 0.0],
    "nonincreasing": lambda f: [cp.sum_squares(f) <= f.size, cp.diff(f) <= 0.0],
    "symmetric": lambda f: [cp.sum_squares(f) <= f.size, cp.diff(f) >= 0.0, f == -f[::-1]],
}
SETS = [
    ("f0", 0.0, "softmax", "wide"), ("f0", 0.01, "poisson", "tall"), ("bnd", 0.0, "logistic", "wide"),
    ("bnd", 0.0, "cox", "tall"), ("bnd", 0.01, "pairs", "wide"), ("spav", 0.01, "huber", "tall"),
    ("joint", 0.0, "huber", "wide"), ("joint", 0.01, "squared", "tall"), ("spav", 0.01, "cox", "wide"),
    ("nonincreasing", 0.01, "logistic", "tall"), ("symmetric", 0.01, "logistic", "wide"),
    ("symmetric", 1.0, "squared", "tall"),
]  # fmt: skip
ALL_SETS = [
    pytest.param(target_set, smoothness, name, shape, marks=pytest.mark.slow)
    for target_set, smoothness in sorted({case[:2] for case in SETS})
    for name in [*NAMES, "cox", "pairs"]
    for shape in ("wide", "tall")
    if (target_set, smoothness, name, shape) not in SETS
]


@pytest.mark.filterwarnings("ignore:the target quantiles are not")
@pytest.mark.parametrize(("target_set", "smoothness", "name", "shape"), [*SETS, *ALL_SETS])
def test_a_round_finds_the_best_target(target_set, smoothness, name, shape):
    n, p = {"wide": (20, 45), "tall": (60, 15)}[shape]
    X, y = make_samples(name, (n, p), seed=len(target_set), kind="ties")
    s = np.random.default_rng(1).random(n) + 0.1
    s /= s.sum()
    own = {"nonincreasing": Nonincreasing(), "symmetric": Symmetric()}.get(target_set, target_set)
    start = np.linspace(1, -1, p) * (1 if target_set == "nonincreasing" else -1)
    settings = {"alpha": 1e-3 * p, "smoothness": smoothness, "tol": 1e-7, "max_iter": 5000}
    if name != "cox":
        settings["fit_intercept"] = shape == "wide"
    first = fit_model(name, Method("start", start=start), X, y, s, **settings)
    method = Method(target_set, own, 1, is_smooth=True, start=start, n_knots=p)
    model = fit_model(name, method, X, y, s, **settings)
    D = np.stack([[operator_matrix(x, "average").T @ w for x in X] for w in first.coef_])
    f, b = cp.Variable(p), cp.Variable(len(D))
    U = [rows @ f + (b[k] if shape == "wide" else 0.0) for k, rows in enumerate(D)]
    value = convex_loss(name, y, s, U) + smoothness * cp.sum_squares(cp.diff(f))
    best = minimum(value, [cp.sum(f) == 0.0, *CONSTRAINTS[target_set](f)])
    best += settings["alpha"] * np.sum(first.coef_**2)
    history, f = model.objective_history_, model.target_quantiles_
    assert history[1] == pytest.approx(best, rel=1e-6, abs=1e-9)
    assert history[2] <= history[1] * (1 + 1e-9)
    assert abs(f.sum()) <= 1e-10 * np.abs(f).sum()
    assert target_set == "spav" or np.mean(f * f) <= 1.0 + 1e-12
    if target_set != "f0":
        assert np.all(np.diff(f) * (-1 if target_set == "nonincreasing" else 1) >= 0.0)
    assert type(own) is str or own == type(own)()  # it was not changed


@pytest.mark.filterwarnings("ignore:the two largest singular values")
@pytest.mark.parametrize(("p", "n_knots"), [(2, 2), (3, 3), (40, 40), (300, 300), (40, 9)])
def test_svd_is_the_first_right_singular_vector_of_the_weighted_difference(p, n_knots):
    rng = np.random.default_rng(0)
    y, X, s = np.arange(30) % 3 == 0, rng.standard_normal((30, p)), rng.random(30) + 0.5
    X[y, : p // 4] += 1.0
    X[:, 1:] = np.round(X[:, 1:], 1)
    model = SuquanClassifier("svd", n_knots=n_knots).fit(X, y, sample_weight=s)
    c = np.where(y, s / s[y].sum(), -s / s[~y].sum())
    M = sum(c_i * operator_matrix(x, "average") for c_i, x in zip(c, X, strict=True))
    _, values, Vt = linalg.svd(
        M @ interpolation_matrix(p, n_knots) @ (np.eye(n_knots) - 1 / n_knots)
    )
    np.testing.assert_allclose(model.singular_values_, values[:2], rtol=1e-8, atol=1e-12)
    g = Vt[0] * np.sqrt(n_knots) * np.sign(np.arange(n_knots) @ Vt[0])
    np.testing.assert_allclose(model.target_knots_, g, atol=1e-5)


@pytest.mark.slow
def test_svd_of_a_whole_chip_fits_in_a_gigabyte():
    code = """
import resource, warnings
import numpy as np
from suquan import SuquanClassifier
warnings.simplefilter("ignore")
X = np.random.default_rng(0).standard_normal((225, 22_283)).astype(np.float32)
model = SuquanClassifier("svd", n_knots=None).fit(X, np.arange(225) % 2)
assert model.singular_values_[0] >= model.singular_values_[1] > 0
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(run.stdout) < 2**20  # kilobytes


# -- several targets ----------------------------------------------------------------------------------


def roughness_matrix(K, smoothness):
    """R with ‖G‖² = Σ_m g_m R g_m: mean squares and, times K², mean squares of differences."""
    L = np.diag(np.r_[1.0, np.full(K - 2, 2.0), 1.0]) - np.eye(K, k=1) - np.eye(K, k=-1)
    return (np.eye(K) + smoothness * K**2 * L) / K


KINDS = ("missing", "ties", "plain")
SEVERAL = [
    pytest.param(seed, name, KINDS[(seed + k) % 3], marks=[pytest.mark.slow] if seed else [])
    for seed in range(4)
    for k, name in enumerate([*NAMES, "cox"])
]


@pytest.mark.filterwarnings(
    "ignore:no convergence"
)  # its own bound on the gap is far below the default one
@pytest.mark.parametrize("method", ["multi", "matrix", "multi of one"])
@pytest.mark.parametrize(("seed", "name", "kind"), SEVERAL)
def test_several_targets_reach_the_minimum_of_the_convex_problem(seed, name, kind, method):
    rng = np.random.default_rng(seed)
    n, p, ties = int(rng.integers(12, 40)), int(rng.integers(4, 12)), ("average", "first")[seed % 2]
    X, y = make_samples(name, (n, p), seed, kind)
    K, s, smoothness = int(rng.integers(3, p + 1)), rng.random(n) + 0.1, [0.1, 0.0][seed % 2]
    s /= s.sum()
    alpha = 10.0 ** rng.uniform(-2.5, -0.5)
    settings = {"alpha": alpha, "n_knots": K, "smoothness": smoothness, "tol": 1e-8, "ties": ties}
    settings |= {"missing": "ignore", "max_iter": 500}
    if method == "multi of one":
        settings["n_targets"] = 1
    model = fit_model(name, method.split()[0], X, y, s, **settings)
    R, B = roughness_matrix(K, smoothness), interpolation_matrix(p, K)
    curves = np.einsum(
        "kmj,mq->kjq", model.coef_.reshape(-1, model.n_targets_, p), model.target_knots_
    )
    sigma = np.linalg.svd(curves.reshape(-1, K) @ np.linalg.cholesky(R), compute_uv=False)
    np.testing.assert_allclose(model.singular_values_, sigma[: model.n_targets_], rtol=1e-5)
    np.testing.assert_allclose(model.target_knots_.sum(axis=1), 0.0, atol=1e-9)
    norm = np.sum(sigma**2) if method == "matrix" else sigma.sum()
    value = mean_loss(name, y, s, scores(model, X)) + alpha * norm
    assert model.objective_ == pytest.approx(value, rel=1e-5)

    T = np.stack([operator_matrix(x, ties) @ B for x in X])  # (n, p, K)
    roots = np.linalg.eigh(R - np.ones((K, K)) / K)  # targets of sum 0, so without the constant
    Q = roots[1][:, 1:] / np.sqrt(roots[0][1:])
    rows = (T @ Q).reshape(n, -1)
    A = [cp.Variable((p, K - 1)) for _ in curves]
    b = cp.Variable(len(A)) if name != "cox" else np.zeros(1)
    U = [rows @ cp.reshape(A_k, (p * (K - 1),), order="C") + b[k] for k, A_k in enumerate(A)]
    stacked = cp.vstack(A)
    norm = cp.sum_squares(stacked) if method == "matrix" else cp.normNuc(stacked)
    best = minimum(convex_loss(name, y, s, U) + alpha * norm)
    rounding, gap = 1e-8 * max(model.objective_, 1.0), model.duality_gap_
    assert -rounding <= gap
    assert -1e-6 <= model.objective_ - best <= gap + rounding + 1e-9
    assert method == "multi of one" or model.objective_ - best <= 1e-6
    history = model.objective_history_
    assert np.all(np.diff(history) <= 1e-9 * history[0])


@pytest.mark.filterwarnings("ignore:no convergence")
@pytest.mark.parametrize("name", ["logistic", "squared", "huber"])
def test_no_half_step_of_several_targets_raises_the_objective(name):
    X, y = make_samples(name, (25, 8))
    for alpha, n_targets in ((1e-8, 1), (1e-8, 2), (1e-3, 2)):
        settings = {"alpha": alpha, "n_targets": n_targets, "n_knots": 6, "max_rounds": 6}
        model = fit_model(name, "multi", X, y, tol=1e-8, **settings)
        history = model.objective_history_
        assert np.all(np.diff(history) <= 2e-10 * history[:-1])
        assert model.duality_gap_ >= -1e-12 * history[0]
