"""The w-step: objectives and optimality against scikit-learn and against first principles."""

import threading
import warnings

import numpy as np
import pytest
from sklearn.linear_model import ElasticNet, LogisticRegression, Ridge
from threadpoolctl import threadpool_info, threadpool_limits

from suquan.losses import Logistic, Softmax, Squared
from suquan.solvers import _products as products_module
from suquan.solvers import ridge_gram
from suquan.solvers._algebra import cholesky
from suquan.solvers._products import column_products, row_products
from suquan.solvers._threads import n_threads, one_blas_thread
from suquan.solvers.alternation import W_TOL
from suquan.solvers.linear import FoldWeights, RidgeDesign, solve_w

RELATIVE_ALPHAS = [1e-9, 1e-6, 1e-3, 1e-1, 1e2]  # times n_features
SHAPES = {"wide": (40, 150), "tall": (200, 30), "square": (50, 50)}
LOSSES = {"logistic": Logistic(), "squared": Squared(), "softmax": Softmax(3)}


@pytest.fixture(autouse=True, scope="module")
def few_blas_threads():
    """Small matrices: more threads only wait for each other."""
    with threadpool_limits(1):
        yield


def make_data(loss, shape, dtype=np.float64, seed=0, noise=1.0, balance=0.0):
    """Correlated columns, rows of squared norm near n_features, labels with a linear signal."""
    rng = np.random.default_rng(seed)
    n_samples, n_features = shape
    A = rng.standard_normal(shape) + 0.7 * rng.standard_normal((n_samples, 1))
    A = (A / np.sqrt(1.49)).astype(dtype)
    signal = A.astype(float) @ rng.standard_normal((n_features, 3)) * 2 / np.sqrt(n_features)
    signal += noise * rng.gumbel(size=signal.shape)
    if isinstance(loss, Squared):
        return A, signal[:, 0] + 3.0
    if isinstance(loss, Logistic):
        return A, np.where(signal[:, 0] > np.quantile(signal[:, 0], 0.5 + balance), 1, -1)
    return A, signal.argmax(axis=1)


def objective(A, loss, y, s, w, b, alpha, l1_ratio=0.0):
    """J written out from its definition, in float64."""
    u = A.astype(float) @ w.T + b
    penalty = (1 - l1_ratio) * np.sum(w**2) + l1_ratio * np.sum(np.abs(w))
    return loss.value(y, u.ravel(), s / s.sum()) + alpha * penalty


def sklearn_objective(A, loss, y, s, alpha, l1_ratio=0.0, fit_intercept=True):
    """Lowest J among scikit-learn's solvers."""
    A, total = A.astype(float), s.sum()
    if isinstance(loss, Squared) and l1_ratio == 0:
        models = [Ridge(alpha=total * alpha, solver="svd")]
    elif isinstance(loss, Squared):
        r = l1_ratio / (2 - l1_ratio)
        models = [
            ElasticNet(alpha=alpha * (1 - l1_ratio / 2), l1_ratio=r, tol=1e-12, max_iter=3000)
        ]
    elif l1_ratio == 0:
        C = 1 / (2 * total * alpha)
        models = [
            LogisticRegression(C=C, solver=solver, tol=tol, max_iter=100)
            for solver, tol in (("lbfgs", 1e-9), ("newton-cholesky", 1e-10))
        ]
    else:
        C, r = 1 / (total * alpha * (2 - l1_ratio)), l1_ratio / (2 - l1_ratio)
        models = [LogisticRegression(C=C, l1_ratio=r, solver="saga", tol=1e-9, max_iter=300)]
    best = np.inf
    for model in models:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.set_params(fit_intercept=fit_intercept).fit(A, y, sample_weight=s)
        w, b = np.atleast_2d(model.coef_), np.atleast_1d(model.intercept_)
        best = min(best, objective(A, loss, y, s, w, b, alpha, l1_ratio))
    return best


def gradients(A, loss, y, s, fit):
    """Gradient of the loss in w and b, from the definition."""
    A = A.astype(float)
    u = A @ fit.w.T + fit.b
    slopes = loss.gradient(y, u.ravel(), s / s.sum()).reshape(u.shape)
    return slopes.T @ A, slopes.sum(axis=0)


def relative_gap(A, loss, y, s, fit, alpha, fit_intercept=True):
    """½ gᵀH⁻¹g / J of a ridge fit with one output, from the definition."""
    A = np.column_stack([A.astype(float), np.ones(len(A))])
    grad_w, grad_b = gradients(A[:, :-1], loss, y, s, fit)
    g = np.append(grad_w[0] + 2 * alpha * fit.w[0], grad_b[0])
    d = loss.hessian(y, A[:, :-1] @ fit.w[0] + fit.b[0], s / s.sum()).diagonal()
    H = (A.T * d) @ A
    H[np.diag_indices(len(H) - 1)] += 2 * alpha
    if not fit_intercept:
        g, H = g[:-1], H[:-1, :-1]
    return 0.5 * g @ np.linalg.solve(H, g) / fit.objective


def l1_violation(A, loss, y, s, fit, alpha, l1_ratio):
    """Largest violation of the optimality conditions, over l1."""
    l1, l2 = alpha * l1_ratio, alpha * (1 - l1_ratio)
    grad_w, grad_b = gradients(A, loss, y, s, fit)
    g = grad_w + 2 * l2 * fit.w
    at_zero = np.maximum(np.abs(g) - l1, 0.0)
    return max(np.where(fit.w == 0, at_zero, np.abs(g + l1 * np.sign(fit.w))).max(),
               np.abs(grad_b).max()) / l1  # fmt: skip


def check_scores(A, fit):
    u = A.astype(float) @ fit.w.T + fit.b
    u = u if fit.u.ndim == 2 else u[:, 0]
    np.testing.assert_allclose(fit.u, u, atol=1e-6 * np.abs(u).max() + 1e-12)


@pytest.mark.parametrize("alpha", RELATIVE_ALPHAS)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_ridge_is_at_least_as_good_as_scikit_learn(name, shape, alpha, dtype):
    loss, alpha = LOSSES[name], alpha * SHAPES[shape][1]
    A, y = make_data(loss, SHAPES[shape], dtype)
    s = np.ones(len(y))
    fit = RidgeDesign(A).solve(loss, y, s, alpha)
    ours = objective(A, loss, y, s, fit.w, fit.b, alpha)
    assert fit.converged
    assert fit.objective == pytest.approx(ours, rel=1e-9)
    assert ours <= (1 + 1e-8) * sklearn_objective(A, loss, y, s, alpha)
    check_scores(A, fit)
    if name == "softmax":
        assert abs(fit.b.sum()) < 1e-9 * (1 + np.abs(fit.b).max())
        assert np.abs(fit.w.sum(axis=0)).max() < 1e-6 * np.abs(fit.w).max()
    else:
        assert relative_gap(A, loss, y, s, fit, alpha) < 1e-8


@pytest.mark.parametrize("l1_ratio", [0.5, 1.0])
@pytest.mark.parametrize("alpha", RELATIVE_ALPHAS)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", LOSSES)
def test_elastic_net_is_at_least_as_good_as_scikit_learn(name, shape, alpha, l1_ratio):
    loss, alpha = LOSSES[name], alpha * SHAPES[shape][1]
    A, y = make_data(loss, SHAPES[shape])
    s = np.ones(len(y))
    fit = solve_w(A, loss, y, s, alpha, l1_ratio)
    ours = objective(A, loss, y, s, fit.w, fit.b, alpha, l1_ratio)
    assert fit.converged
    assert fit.objective == pytest.approx(ours, rel=1e-10)
    assert ours <= (1 + 1e-8) * sklearn_objective(A, loss, y, s, alpha, l1_ratio)
    check_scores(A, fit)


@pytest.mark.parametrize("l1_ratio", [0.1, 0.5, 1.0])
@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("shape", ["wide", "tall"])
def test_elastic_net_meets_the_optimality_conditions(name, shape, l1_ratio):
    loss, alpha = LOSSES[name], 1e-4 * SHAPES[shape][1]
    A, y = make_data(loss, SHAPES[shape], np.float32)
    fit = solve_w(A, loss, y, np.ones(len(y)), alpha, l1_ratio, tol=1e-12)
    assert l1_violation(A, loss, y, np.ones(len(y)), fit, alpha, l1_ratio) < 1e-4


@pytest.mark.parametrize("l1_ratio", [0.0, 0.5])
@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("shape", ["wide", "tall"])
def test_no_intercept(name, shape, l1_ratio):
    loss, alpha = LOSSES[name], 1e-3 * SHAPES[shape][1]
    A, y = make_data(loss, SHAPES[shape])
    s = np.ones(len(y))
    fit = solve_w(A, loss, y, s, alpha, l1_ratio, fit_intercept=False)
    assert np.all(fit.b == 0.0)
    best = sklearn_objective(A, loss, y, s, alpha, l1_ratio, fit_intercept=False)
    assert fit.objective <= (1 + 1e-8) * best


@pytest.mark.parametrize("l1_ratio", [0.0, 0.5])
@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("shape", ["wide", "tall"])
def test_weights_repeat_and_remove_rows(name, shape, l1_ratio):
    loss, alpha = LOSSES[name], 1e-3 * SHAPES[shape][1]
    A, y = make_data(loss, SHAPES[shape])
    s = np.random.default_rng(1).integers(0, 3, len(y)).astype(float)
    weighted = solve_w(A, loss, y, s, alpha, l1_ratio, tol=1e-13)
    rows = np.repeat(np.arange(len(y)), s.astype(int))
    repeated = solve_w(A[rows], loss, y[rows], np.ones(len(rows)), alpha, l1_ratio, tol=1e-13)
    assert weighted.objective == pytest.approx(repeated.objective, rel=1e-10)
    np.testing.assert_allclose(weighted.w, repeated.w, atol=1e-5 * np.abs(repeated.w).max())
    np.testing.assert_allclose(weighted.u[rows], repeated.u, atol=1e-5 * np.abs(repeated.u).max())
    check_scores(A, weighted)


@pytest.mark.parametrize("alpha", [1e-9, 1e-3])
@pytest.mark.parametrize("shape", SHAPES)
def test_unbalanced_classes(shape, alpha):
    loss, alpha = Logistic(), alpha * SHAPES[shape][1]
    A, y = make_data(loss, SHAPES[shape], np.float32, balance=0.46)
    assert 1 <= np.sum(y > 0) <= 0.06 * len(y)
    fit = RidgeDesign(A).solve(loss, y, np.ones(len(y)), alpha)
    assert fit.objective <= (1 + 1e-8) * sklearn_objective(A, loss, y, np.ones(len(y)), alpha)
    assert relative_gap(A, loss, y, np.ones(len(y)), fit, alpha) < 1e-8


@pytest.mark.parametrize("shape", [(60, 200), (400, 40), (420, 300)])
@pytest.mark.parametrize("alpha", [1e-9, 1e-6])
def test_separable_data(shape, alpha):
    loss, alpha = Logistic(), alpha * shape[1]
    A, _ = make_data(loss, shape, np.float32)
    y = np.where(A[:, 0] + A[:, 1] > 0, 1, -1)
    fit = RidgeDesign(A).solve(loss, y, np.ones(len(y)), alpha)
    assert fit.converged
    assert relative_gap(A, loss, y, np.ones(len(y)), fit, alpha) < 1e-8
    assert fit.objective <= (1 + 1e-8) * sklearn_objective(A, loss, y, np.ones(len(y)), alpha)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", ["wide", "tall"])
def test_large_offsets_change_nothing_but_the_intercept(shape, dtype):
    loss, alpha = Logistic(), 1e-3 * SHAPES[shape][1]
    A, y = make_data(loss, SHAPES[shape])
    A = np.round(A * 64) / 64  # so that the offset is exact in float32
    offset = 1000.0 + np.arange(A.shape[1])
    plain = RidgeDesign(A.astype(dtype)).solve(loss, y, np.ones(len(y)), alpha, tol=1e-12)
    moved = RidgeDesign((A + offset).astype(dtype)).solve(
        loss, y, np.ones(len(y)), alpha, tol=1e-12
    )
    assert moved.objective == pytest.approx(plain.objective, rel=1e-8)
    np.testing.assert_allclose(moved.w, plain.w, atol=1e-5 * np.abs(plain.w).max())


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("shape", ["wide", "tall"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_batch_equals_fits_on_subsets(name, shape, dtype):
    loss, alpha = LOSSES[name], 1e-3 * SHAPES[shape][1]
    A, y = make_data(loss, SHAPES[shape], dtype)
    folds = np.random.default_rng(0).permutation(len(y)) % 5
    S = np.array([folds != k for k in range(5)], dtype=float)
    fits = RidgeDesign(A).solve_many(loss, y, S, alpha, tol=1e-12)
    for s, fit in zip(S, fits, strict=True):
        kept = s > 0
        alone = solve_w(A[kept], loss, y[kept], s[kept], alpha, tol=1e-12)
        assert fit.objective == pytest.approx(alone.objective, rel=1e-8)
        np.testing.assert_allclose(fit.w, alone.w, atol=1e-4 * np.abs(alone.w).max())
        check_scores(A, fit)


@pytest.mark.parametrize("name", ["logistic", "squared"])
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("relative_alpha", RELATIVE_ALPHAS)
@pytest.mark.parametrize("n_folds", [3, 5, 40])
def test_folds_that_share_an_inverse_equal_single_fits(
    name, fit_intercept, relative_alpha, n_folds
):
    loss, alpha = LOSSES[name], relative_alpha * 150
    A, y = make_data(loss, (40, 150), noise=2.0)
    rng = np.random.default_rng(0)
    folds = rng.permutation(len(y)) % n_folds
    S = np.array([folds != k for k in range(n_folds)]) * rng.uniform(0.5, 2.0, len(y))
    design = RidgeDesign(A, fit_intercept=fit_intercept)
    fits = design.solve_many(loss, y, S, alpha, tol=1e-11)
    for s, fit in zip(S, fits, strict=True):
        alone = design.solve(loss, y, s, alpha, tol=1e-13)
        assert fit.converged
        assert fit.objective == pytest.approx(alone.objective, rel=1e-9, abs=1e-15)
        np.testing.assert_allclose(fit.u, alone.u, rtol=1e-3, atol=1e-5 * np.abs(alone.u).max())
        assert np.all(fit.dual[0, s == 0.0] == 0.0)  # nothing of a sample that was left out
        check_scores(A, fit)


def test_folds_share_an_inverse_in_few_steps(monkeypatch):
    """No fold needs a factor of its own."""
    A, y = make_data(Logistic(), (120, 400), noise=2.0)
    folds = np.random.default_rng(0).permutation(len(y)) % 5
    S = np.array([folds != k for k in range(5)], dtype=float)
    n_factors = []
    monkeypatch.setattr(
        ridge_gram, "cholesky", lambda *a, **k: n_factors.append(1) or cholesky(*a, **k)
    )
    for relative_alpha in (1e-6, 1e-3, 1e-1):
        design = RidgeDesign(A)
        n_factors.clear()
        middle = design.solve(Logistic(), y, S.mean(axis=0), relative_alpha * 400, tol=1e-4)
        assert len(n_factors) == middle.n_iter
        n_factors.clear()
        fits = design.solve_many(Logistic(), y, S, relative_alpha * 400)
        assert len(n_factors) == middle.n_iter
        assert max(fit.n_iter for fit in fits) <= 8


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("shape", SHAPES)
def test_a_path_equals_separate_fits(name, shape):
    loss = LOSSES[name]
    A, y = make_data(loss, SHAPES[shape], np.float32)
    alphas = SHAPES[shape][1] * np.array([1e-6, 1e2, 1e-3, 1e-1, 1e-3])
    path = RidgeDesign(A).solve_path(loss, y, np.ones(len(y)), alphas)
    for alpha, fit in zip(alphas, path, strict=True):
        alone = solve_w(A, loss, y, np.ones(len(y)), alpha)
        assert fit.converged
        assert fit.objective == pytest.approx(alone.objective, rel=2e-8)
        check_scores(A, fit)


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("name", LOSSES)
def test_a_gram_matrix_gives_the_same_fit(name, fit_intercept):
    loss, alpha = LOSSES[name], 0.1
    A, y = make_data(loss, SHAPES["wide"])
    direct = RidgeDesign(A, fit_intercept=fit_intercept).solve(loss, y, np.ones(len(y)), alpha)
    design = RidgeDesign.from_gram(A @ A.T, fit_intercept=fit_intercept)
    fit = design.solve(loss, y, np.ones(len(y)), alpha)
    assert fit.w is None
    assert fit.objective == pytest.approx(direct.objective, rel=1e-8)
    np.testing.assert_allclose(fit.dual @ A, direct.w, atol=1e-6)
    np.testing.assert_allclose(fit.b, direct.b, atol=1e-6)
    np.testing.assert_allclose(fit.u, direct.u, atol=1e-6)
    assert len(design.solve_path(loss, y, np.ones(len(y)), [1.0, 0.1, 0.01])) == 3


@pytest.mark.parametrize("l1_ratio", [0.0, 0.5])
@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("shape", ["wide", "tall"])
def test_a_warm_start_reaches_the_same_fit_sooner(name, shape, l1_ratio):
    loss, alpha = LOSSES[name], 1e-2 * SHAPES[shape][1]
    A, y = make_data(loss, SHAPES[shape])
    cold = solve_w(A, loss, y, np.ones(len(y)), alpha, l1_ratio)
    warm = solve_w(A, loss, y, np.ones(len(y)), alpha, l1_ratio, start=cold)
    assert warm.objective == pytest.approx(cold.objective, rel=1e-8)
    assert warm.n_iter <= max(1, cold.n_iter)
    other = solve_w(A + 0.01, loss, y, np.ones(len(y)), 2 * alpha, l1_ratio, start=cold)
    assert other.converged


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("alpha", [1e-4, 1e-2, 1.0])
def test_scores_are_accurate_at_the_tolerance_of_the_rounds(name, shape, alpha):
    loss = LOSSES[name]
    A, y = make_data(loss, shape, noise=2.0)
    s = np.ones(len(A))
    exact = solve_w(A, loss, y, s, alpha, tol=1e-15)
    start = solve_w(A, loss, y, s, 3.0 * alpha, tol=W_TOL)
    for fit in (
        solve_w(A, loss, y, s, alpha, tol=W_TOL),
        solve_w(A, loss, y, s, alpha, tol=W_TOL, start=start),
        RidgeDesign(A).solve_many(loss, y, np.ones((3, len(A))), alpha, tol=W_TOL)[0],
    ):
        np.testing.assert_allclose(fit.u, exact.u, rtol=1e-7, atol=1e-6)


@pytest.mark.parametrize("l1_ratio", [0.0, 1.0])
@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("shape", [(6, 9), (9, 6), (1, 3), (3, 1)])
def test_a_design_of_zeros_leaves_the_intercept(name, shape, l1_ratio):
    loss = LOSSES[name]
    _, y = make_data(loss, shape)
    fit = solve_w(np.zeros(shape), loss, y, np.ones(len(y)), 0.1, l1_ratio)
    assert np.all(fit.w == 0.0)
    assert fit.converged
    if name == "squared":
        np.testing.assert_allclose(fit.b, y.mean())


@pytest.mark.parametrize("l1_ratio", [0.0, 0.5])
@pytest.mark.parametrize("shape", ["wide", "tall"])
@pytest.mark.parametrize("loss", [Logistic(), Softmax(3)])
def test_a_single_class_gets_a_sure_intercept(loss, shape, l1_ratio):
    A, y = make_data(loss, SHAPES[shape])
    s = (y == 1).astype(float)
    fit = solve_w(A, loss, y, s, 1.0, l1_ratio)
    assert np.all(np.isfinite(fit.u))
    assert fit.objective < 1e-8


@pytest.mark.parametrize("l1_ratio", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("shape", ["wide", "tall"])
def test_repeated_and_constant_columns(name, shape, l1_ratio):
    loss, alpha = LOSSES[name], 1e-5 * SHAPES[shape][1]
    A, y = make_data(loss, SHAPES[shape], np.float32)
    A[:, 5:] = A[:, np.arange(5, A.shape[1]) % 5]
    A[:, 3] = 2.0
    fit = solve_w(A, loss, y, np.ones(len(y)), alpha, l1_ratio)
    assert fit.converged
    assert abs(fit.w[:, 3]).max() < 1e-5
    best = sklearn_objective(A, loss, y, np.ones(len(y)), alpha, l1_ratio)
    assert fit.objective <= (1 + 1e-8) * best


@pytest.mark.parametrize("l1_ratio", [0.0, 0.5])
@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("shape", SHAPES)
def test_results_are_reproducible_to_the_bit(name, shape, l1_ratio):
    loss, alpha = LOSSES[name], 1e-3 * SHAPES[shape][1]
    A, y = make_data(loss, SHAPES[shape], np.float32)
    first, second = (solve_w(A, loss, y, np.ones(len(y)), alpha, l1_ratio) for _ in range(2))
    np.testing.assert_array_equal(first.w, second.w)
    np.testing.assert_array_equal(first.u, second.u)


@pytest.mark.parametrize("l1_ratio", [0.0, 0.5])
def test_too_few_iterations_are_reported(l1_ratio):
    for shape in ("wide", "tall"):
        A, y = make_data(Logistic(), SHAPES[shape])
        fit = solve_w(A, Logistic(), y, np.ones(len(y)), 1e-6, l1_ratio, max_iter=1)
        assert not fit.converged
        assert fit.criterion > 1e-8


def test_a_float32_gram_matrix_is_refined_where_its_rounding_matters():
    A, y = make_data(Squared(), (120, 9000), np.float32)
    A[1:] = A[0] + 1e-3 * A[1:]
    fit = RidgeDesign(A).solve(Squared(), y, np.ones(len(y)), 1e-6)
    ours = objective(A, Squared(), y, np.ones(len(y)), fit.w, fit.b, 1e-6)
    exact = RidgeDesign(A.astype(float)).solve(Squared(), y, np.ones(len(y)), 1e-6)
    assert ours <= (1 + 1e-8) * exact.objective
    assert fit.objective == pytest.approx(ours, rel=1e-8)


@pytest.mark.parametrize("n_samples", [1, 4, 37, 64, 131])
@pytest.mark.parametrize("n_vectors", [1, 2, 3, 4, 5, 7, 8])
def test_products_accumulate_in_float64(n_samples, n_vectors):
    rng = np.random.default_rng(0)
    A = rng.standard_normal((n_samples, 53)).astype(np.float32)
    R = rng.standard_normal((n_vectors, n_samples))
    V = rng.standard_normal((n_vectors, 53))
    np.testing.assert_allclose(row_products(A, V), V @ A.T.astype(float), atol=1e-13)
    np.testing.assert_allclose(column_products(A, R), R @ A.astype(float), atol=1e-13)


@pytest.fixture
def set_threads(monkeypatch):
    """Function that sets the number of threads, whatever the work."""

    def set_threads(n_threads):
        for module in (products_module, ridge_gram):
            monkeypatch.setattr(module, "n_threads", lambda n_multiplications: n_threads)

    return set_threads


@pytest.mark.parametrize("n_vectors", [1, 4, 15])
def test_products_are_the_same_bits_at_any_number_of_threads(set_threads, n_vectors):
    rng = np.random.default_rng(0)
    A = rng.standard_normal((701, 333)).astype(np.float32)
    V, R = rng.standard_normal((n_vectors, 333)), rng.standard_normal((n_vectors, 701))

    def products(n_threads):
        set_threads(n_threads)
        return row_products(A, V), column_products(A, R), column_products(A, R, np.float32)

    for one, many in zip(products(1), products(3), strict=True):
        np.testing.assert_array_equal(one, many)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
def test_fits_are_the_same_bits_at_any_number_of_threads(set_threads, loss, dtype):
    A, y = make_data(loss, (400, 300), dtype)
    S = FoldWeights(np.ones(400), [np.arange(400) % 6 != k for k in range(6)])

    def solutions(n_threads):
        set_threads(n_threads)
        design = RidgeDesign(A)
        return [fit.w for fit in design.solve_many(loss, y, S, 1e-3)]

    np.testing.assert_array_equal(solutions(1), solutions(3))


def test_fold_weights_are_those_of_the_samples_kept():
    s = np.array([1.0, 2.0, 3.0, 4.0])
    masks = [np.array([True, False, True, True]), np.array([True, True, False, False])]
    expected = [[1 / 8, 0, 3 / 8, 4 / 8], [1 / 3, 2 / 3, 0, 0]]
    for kept in (masks, [np.flatnonzero(mask) for mask in masks]):
        weights = FoldWeights(s, kept)
        np.testing.assert_allclose(np.asarray(weights), expected)
        np.testing.assert_allclose(list(weights), expected)


def blas_threads():
    """Number of threads of each BLAS library."""
    return [info["num_threads"] for info in threadpool_info() if info["user_api"] == "blas"]


def test_blas_has_one_thread_and_gets_the_others_back():
    with threadpool_limits(2):
        before = blas_threads()
        with one_blas_thread():
            with one_blas_thread():
                assert set(blas_threads()) == {1}
            assert n_threads(10**9) == max(before)
            assert n_threads(10) == 1
        assert blas_threads() == before


def test_blas_gets_its_threads_back_from_fits_that_overlap():
    """The first to begin is the first to end; the last must not leave BLAS on one thread."""
    begun, ended = threading.Event(), threading.Event()

    def other():
        with one_blas_thread():
            begun.set()
            ended.wait(10)

    with threadpool_limits(2):
        before = blas_threads()
        thread = threading.Thread(target=other)
        with one_blas_thread():
            thread.start()
            begun.wait(10)
            assert set(blas_threads()) == {1}
        ended.set()
        thread.join()
        assert blas_threads() == before
