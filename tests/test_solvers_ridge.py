"""The w-step: objectives and optimality against scikit-learn, SciPy, a convex solver and first principles."""

import threading
import warnings

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit
from sklearn.linear_model import ElasticNet, LogisticRegression, PoissonRegressor, Ridge
from threadpoolctl import threadpool_info, threadpool_limits

from suquan.losses import Huber, Logistic, Poisson, Softmax, Squared
from suquan.model.problem import W_TOL
from suquan.solvers._products import column_products, n_threads, one_blas_thread, row_products
from suquan.solvers.elastic_net import ElasticNetDesign
from suquan.solvers.ridge import RidgeDesign

RELATIVE_ALPHAS = [1e-9, 1e-3, 1e2]  # times n_features
SHAPES = {"wide": (40, 150), "tall": (200, 30), "square": (50, 50)}
CLASSIC = {"logistic": Logistic(), "squared": Squared(), "softmax": Softmax(3)}
GUESTS = {"huber": Huber(1.35), "poisson": Poisson()}
LOSSES = {**CLASSIC, **GUESTS}

every_loss = pytest.mark.parametrize("name", LOSSES)
both_sides = pytest.mark.parametrize("shape", ["wide", "tall"])
ridge_and_l1 = pytest.mark.parametrize("l1_ratio", [0.0, 0.5])


@pytest.fixture(autouse=True, scope="module")
def few_blas_threads():
    """Small matrices: more threads only wait for each other."""
    with threadpool_limits(1):
        yield


def solve_w(A, loss, y, s, alpha, l1_ratio=0.0, *, fit_intercept=True, **options):
    """One fit by the solver of its penalty."""
    if l1_ratio == 0.0:
        return RidgeDesign(A, fit_intercept=fit_intercept).solve(loss, y, s, alpha, **options)
    return ElasticNetDesign(A, l1_ratio, fit_intercept).solve(loss, y, s, alpha, **options)


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


def objective(A, loss, y, s, w, b, alpha, l1_ratio=0.0):
    """J written out from its definition, in float64."""
    u = A.astype(float) @ w.T + b
    penalty = (1 - l1_ratio) * np.sum(w**2) + l1_ratio * np.sum(np.abs(w))
    return loss.value(y, u.ravel(), s / s.sum()) + alpha * penalty


def reference(A, name, y, s, alpha, l1_ratio=0.0, fit_intercept=True):
    """Lowest J among scikit-learn's solvers; for the Huber loss, of SciPy's."""
    A, total, loss = A.astype(float), s.sum(), LOSSES[name]
    if name == "huber":
        return smooth_reference(A, loss, y, s, alpha, fit_intercept)
    r, C = l1_ratio / (2 - l1_ratio), 1 / (total * alpha * (2 - l1_ratio))
    if name == "poisson":
        models = [PoissonRegressor(alpha=2 * alpha, solver="newton-cholesky", tol=1e-10)]
    elif name == "squared" and l1_ratio == 0:
        models = [Ridge(alpha=total * alpha, solver="svd")]
    elif name == "squared":
        models = [
            ElasticNet(alpha=alpha * (1 - l1_ratio / 2), l1_ratio=r, tol=1e-12, max_iter=3000)
        ]
    elif l1_ratio == 0:
        models = [
            LogisticRegression(C=C, solver=solver, tol=tol, max_iter=100)
            for solver, tol in (("lbfgs", 1e-9), ("newton-cholesky", 1e-10))
        ]
    else:
        models = [LogisticRegression(C=C, l1_ratio=r, solver="saga", tol=1e-9, max_iter=300)]
    best = np.inf
    for model in models:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.set_params(fit_intercept=fit_intercept).fit(A, y, sample_weight=s)
        w, b = np.atleast_2d(model.coef_), np.atleast_1d(model.intercept_)
        best = min(best, objective(A, loss, y, s, w, b, alpha, l1_ratio))
    return best


def smooth_reference(A, loss, y, s, alpha, fit_intercept=True):
    """J at SciPy's minimiser, for one output and a ridge penalty."""
    s = s / s.sum()

    def value_and_gradient(theta):
        u = A @ theta[:-1] + theta[-1] * fit_intercept
        slopes = loss.gradient(y, u, s)
        gradient = np.append(A.T @ slopes + 2 * alpha * theta[:-1], slopes.sum() * fit_intercept)
        return loss.value(y, u, s) + alpha * theta[:-1] @ theta[:-1], gradient

    start = np.append(np.zeros(A.shape[1]), loss.best_constant(y, s))
    options = {"maxiter": 3000, "maxfun": 10**5, "ftol": 1e-16, "gtol": 1e-12}
    return minimize(value_and_gradient, start, jac=True, method="L-BFGS-B", options=options).fun


def gradients(A, loss, y, s, fit):
    """Gradient of the loss in w and b, from the definition."""
    A = A.astype(float)
    u = A @ fit.w.T + fit.b
    slopes = loss.gradient(y, u.ravel(), s / s.sum()).reshape(u.shape)
    return slopes.T @ A, slopes.sum(axis=0)


def relative_gap(A, loss, y, s, fit, alpha):
    """½ gᵀH⁻¹g / J of a ridge fit with one output, from the definition."""
    A = np.column_stack([A.astype(float), np.ones(len(A))])
    grad_w, grad_b = gradients(A[:, :-1], loss, y, s, fit)
    g = np.append(grad_w[0] + 2 * alpha * fit.w[0], grad_b[0])
    d = loss.hessian(y, A[:, :-1] @ fit.w[0] + fit.b[0], s / s.sum()).diagonal()
    H = (A.T * d) @ A
    H[np.diag_indices(len(H) - 1)] += 2 * alpha
    return 0.5 * g @ np.linalg.solve(H, g) / fit.objective


def l1_violation(A, loss, y, s, fit, alpha, l1_ratio):
    """Largest violation of the optimality conditions, over l1."""
    l1, l2 = alpha * l1_ratio, alpha * (1 - l1_ratio)
    grad_w, grad_b = gradients(A, loss, y, s, fit)
    g = grad_w + 2 * l2 * fit.w
    at_zero = np.maximum(np.abs(g) - l1, 0.0)
    in_w = np.where(fit.w == 0, at_zero, np.abs(g + l1 * np.sign(fit.w))).max()
    return max(in_w, np.abs(grad_b).max()) / l1


def check_scores(A, fit):
    u = A.astype(float) @ fit.w.T + fit.b
    u = u if fit.u.ndim == 2 else u[:, 0]
    np.testing.assert_allclose(fit.u, u, atol=1e-6 * np.abs(u).max() + 1e-12)


# ---------------------------------------------------------------------------- optimality


@pytest.mark.parametrize("alpha", RELATIVE_ALPHAS)
@pytest.mark.parametrize("shape", SHAPES)
@every_loss
def test_ridge_is_at_least_as_good_as_others(name, shape, alpha):
    loss, alpha = LOSSES[name], alpha * SHAPES[shape][1]
    A, y = make_data(name, SHAPES[shape], np.float32)
    s = np.ones(len(y))
    fit = RidgeDesign(A).solve(loss, y, s, alpha)
    ours = objective(A, loss, y, s, fit.w, fit.b, alpha)
    assert fit.converged
    assert fit.objective == pytest.approx(ours, rel=1e-9)
    assert ours <= (1 + 1e-8) * reference(A, name, y, s, alpha)
    check_scores(A, fit)
    if name == "softmax":
        assert abs(fit.b.sum()) < 1e-9 * (1 + np.abs(fit.b).max())
        assert np.abs(fit.w.sum(axis=0)).max() < 1e-6 * np.abs(fit.w).max()
    elif name != "huber":  # its curvature vanishes
        assert relative_gap(A, loss, y, s, fit, alpha) < 1e-8


@pytest.mark.parametrize("l1_ratio", [0.5, 1.0])
@pytest.mark.parametrize("alpha", [1e-5, 1e-3, 1e2])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", CLASSIC)
def test_elastic_net_is_at_least_as_good_as_scikit_learn(name, shape, alpha, l1_ratio):
    loss, alpha = LOSSES[name], alpha * SHAPES[shape][1]
    A, y = make_data(name, SHAPES[shape])
    s = np.ones(len(y))
    fit = solve_w(A, loss, y, s, alpha, l1_ratio)
    ours = objective(A, loss, y, s, fit.w, fit.b, alpha, l1_ratio)
    assert fit.converged
    assert fit.objective == pytest.approx(ours, rel=1e-10)
    assert ours <= (1 + 1e-8) * reference(A, name, y, s, alpha, l1_ratio)
    check_scores(A, fit)


@pytest.mark.parametrize("l1_ratio", [0.1, 1.0])
@every_loss
@both_sides
def test_elastic_net_meets_the_optimality_conditions(name, shape, l1_ratio):
    loss, alpha = LOSSES[name], (1e-1 if name == "huber" else 1e-3) * SHAPES[shape][1]
    A, y = make_data(name, SHAPES[shape], np.float32)
    fit = solve_w(A, loss, y, np.ones(len(y)), alpha, l1_ratio, tol=1e-12)
    assert l1_violation(A, loss, y, np.ones(len(y)), fit, alpha, l1_ratio) < 5e-4


@ridge_and_l1
@pytest.mark.parametrize("name", CLASSIC)
@both_sides
def test_no_intercept(name, shape, l1_ratio):
    loss, alpha = LOSSES[name], 1e-3 * SHAPES[shape][1]
    A, y = make_data(name, SHAPES[shape])
    s = np.ones(len(y))
    fit = solve_w(A, loss, y, s, alpha, l1_ratio, fit_intercept=False)
    assert np.all(fit.b == 0.0)
    best = reference(A, name, y, s, alpha, l1_ratio, fit_intercept=False)
    assert fit.objective <= (1 + 1e-8) * best


@ridge_and_l1
@every_loss
@both_sides
def test_weights_repeat_and_remove_rows(name, shape, l1_ratio):
    loss, alpha = LOSSES[name], 1e-3 * SHAPES[shape][1]
    A, y = make_data(name, SHAPES[shape])
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
    A, y = make_data("logistic", SHAPES[shape], np.float32, balance=0.46)
    assert 1 <= np.sum(y > 0) <= 0.06 * len(y)
    fit = RidgeDesign(A).solve(loss, y, np.ones(len(y)), alpha)
    assert fit.objective <= (1 + 1e-8) * reference(A, "logistic", y, np.ones(len(y)), alpha)
    assert relative_gap(A, loss, y, np.ones(len(y)), fit, alpha) < 1e-8


@pytest.mark.parametrize("shape", [(60, 200), (400, 40), (420, 300)])
@pytest.mark.parametrize("alpha", [1e-9, 1e-6])
def test_separable_data(shape, alpha):
    loss, alpha = Logistic(), alpha * shape[1]
    A, _ = make_data("logistic", shape, np.float32)
    y = np.where(A[:, 0] + A[:, 1] > 0, 1, -1)
    fit = RidgeDesign(A).solve(loss, y, np.ones(len(y)), alpha)
    assert fit.converged
    assert relative_gap(A, loss, y, np.ones(len(y)), fit, alpha) < 1e-8
    assert fit.objective <= (1 + 1e-8) * reference(A, "logistic", y, np.ones(len(y)), alpha)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@both_sides
def test_large_offsets_change_nothing_but_the_intercept(shape, dtype):
    loss, alpha = Logistic(), 1e-3 * SHAPES[shape][1]
    A, y = make_data("logistic", SHAPES[shape])
    A = np.round(A * 64) / 64  # so that the offset is exact in float32
    offset = 1000.0 + np.arange(A.shape[1])
    s = np.ones(len(y))
    plain = RidgeDesign(A.astype(dtype)).solve(loss, y, s, alpha, tol=1e-12)
    moved = RidgeDesign((A + offset).astype(dtype)).solve(loss, y, s, alpha, tol=1e-12)
    assert moved.objective == pytest.approx(plain.objective, rel=1e-8)
    np.testing.assert_allclose(moved.w, plain.w, atol=1e-5 * np.abs(plain.w).max())


@pytest.mark.parametrize("l1_ratio", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("name", CLASSIC)
@both_sides
def test_repeated_and_constant_columns(name, shape, l1_ratio):
    loss, alpha = LOSSES[name], 1e-5 * SHAPES[shape][1]
    A, y = make_data(name, SHAPES[shape], np.float32)
    A[:, 5:] = A[:, np.arange(5, A.shape[1]) % 5]
    A[:, 3] = 2.0
    fit = solve_w(A, loss, y, np.ones(len(y)), alpha, l1_ratio)
    assert fit.converged
    assert abs(fit.w[:, 3]).max() < 1e-5
    best = reference(A, name, y, np.ones(len(y)), alpha, l1_ratio)
    assert fit.objective <= (1 + 1e-8) * best


@pytest.mark.parametrize("l1_ratio", [0.0, 1.0])
@pytest.mark.parametrize("name", CLASSIC)
@pytest.mark.parametrize("shape", [(6, 9), (9, 6), (1, 3), (3, 1)])
def test_a_design_of_zeros_leaves_the_intercept(name, shape, l1_ratio):
    loss = LOSSES[name]
    _, y = make_data(name, shape)
    fit = solve_w(np.zeros(shape), loss, y, np.ones(len(y)), 0.1, l1_ratio)
    assert np.all(fit.w == 0.0)
    assert fit.converged
    if name == "squared":
        np.testing.assert_allclose(fit.b, y.mean())


@ridge_and_l1
@both_sides
@pytest.mark.parametrize("name", ["logistic", "softmax"])
def test_a_single_class_gets_a_sure_intercept(name, shape, l1_ratio):
    A, y = make_data(name, SHAPES[shape])
    fit = solve_w(A, LOSSES[name], y, (y == 1).astype(float), 1.0, l1_ratio)
    assert np.all(np.isfinite(fit.u))
    assert fit.objective < 1e-8


def test_a_float32_design_loses_nothing_of_nearly_equal_rows():
    A, y = make_data("squared", (120, 9000), np.float32)
    A[1:] = A[0] + 1e-3 * A[1:]
    s = np.ones(len(y))
    fit = RidgeDesign(A).solve(Squared(), y, s, 1e-6)
    ours = objective(A, Squared(), y, s, fit.w, fit.b, 1e-6)
    exact = RidgeDesign(A.astype(float)).solve(Squared(), y, s, 1e-6)
    assert ours <= (1 + 1e-8) * exact.objective
    assert fit.objective == pytest.approx(ours, rel=1e-8)


# ---------------------------------------------------------------------------- losses of other kinds


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("scale", [1e-2, 1e3])
def test_huber_residuals_far_beyond_delta(shape, scale):
    """Nearly all curvature is 0 at the start."""
    A, y = make_data("huber", SHAPES[shape])
    loss, s = Huber(1e-2), np.ones(len(y))
    for alpha in (1e-6, 1e-1):
        fit = solve_w(A, loss, scale * y, s, alpha, tol=1e-10)
        assert fit.converged
        best = smooth_reference(A, loss, scale * y, s, alpha)
        assert fit.objective <= (1 + 1e-7) * best


def test_huber_elastic_net_against_a_convex_solver():
    cvxpy = pytest.importorskip("cvxpy")
    A, y = make_data("huber", (50, 20))
    w, b = cvxpy.Variable(20), cvxpy.Variable()
    penalty = 0.5 * cvxpy.sum_squares(w) + 0.5 * cvxpy.norm1(w)
    J = cvxpy.sum(cvxpy.huber(y - A @ w - b, 1.35)) / len(y) + 0.5 * penalty
    cvxpy.Problem(cvxpy.Minimize(J)).solve(solver="CLARABEL")
    fit = solve_w(A, Huber(1.35), y, np.ones(len(y)), 0.5, 0.5, tol=1e-12)
    assert fit.objective == pytest.approx(J.value, rel=1e-6)
    np.testing.assert_allclose(fit.w[0], w.value, atol=1e-3)


@pytest.mark.filterwarnings("error")
@both_sides
@ridge_and_l1
def test_poisson_steps_that_overflow_are_not_taken(shape, l1_ratio):
    A, y = make_data("poisson", SHAPES[shape])
    y[0] = (
        1e5 if l1_ratio == 0.0 else 1e2
    )  # proximal gradient is slow where curvatures differ so much
    loss = Poisson()
    s = np.ones(len(y))
    s[-1] = 0.0
    A[-1] *= 1e6  # a sample of weight 0, whose exponential overflows
    alpha = 1e-6 if l1_ratio == 0.0 else 1e-2
    fit = solve_w(A, loss, y, s, alpha, l1_ratio, tol=1e-9)
    far = solve_w(A, loss, y, s, 1e-3, l1_ratio)
    start = type(fit)(1e4 * far.w, far.b, 1e4 * far.u, 0.0, 1, 0.0, True)
    again = solve_w(A, loss, y, s, alpha, l1_ratio, tol=1e-9, start=start)
    assert fit.converged
    assert again.objective == pytest.approx(fit.objective, rel=1e-7)


class DenseCurvature:
    """A curvature that is no diagonal."""

    def __init__(self, Q):
        self.Q = Q
        values, vectors = np.linalg.eigh(Q)
        self.A = vectors * np.sqrt(values.clip(0.0))

    def product(self, x):
        return (self.Q @ x).astype(x.dtype)

    def root(self, v):
        return self.A @ v

    def root_adjoint(self, x):
        return self.A.T @ x

    def diagonal(self):
        return np.diag(self.Q).copy()

    def take(self, samples):
        raise AssertionError("samples are coupled")


class Pairs:
    """Σ s_i s_j log(1 + exp(u_j − u_i)) over the pairs with y_i > y_j."""

    name, is_classification, n_outputs = "pairs", False, 1
    is_quadratic, couples_samples = False, True

    def _pairs(self, y, u, s):
        return (y[:, None] > y) * np.outer(s, s), u - u[:, None]

    def value(self, y, u, s):
        W, d = self._pairs(y, u, s)
        return float(np.sum(W * np.logaddexp(0.0, d)))

    def gradient(self, y, u, s):
        W, d = self._pairs(y, u, s)
        P = W * expit(d)
        return P.sum(axis=0) - P.sum(axis=1)

    def hessian(self, y, u, s):
        W, d = self._pairs(y, u, s)
        C = W * expit(d) * expit(-d)
        C = C + C.T
        return DenseCurvature(np.diag(C.sum(axis=1)) - C)

    def conjugate(self, y, a, s):
        return np.inf

    def scores_of_dual(self, y, a, s):
        raise AssertionError("not for coupled samples")

    def best_constant(self, y, s):
        return np.zeros(1)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_a_loss_that_couples_samples(shape, fit_intercept):
    A, y = make_data("squared", SHAPES[shape])
    loss, s, alpha = Pairs(), np.ones(len(y)), 1e-4 * A.shape[1]
    fit = solve_w(A, loss, y, s, alpha, tol=1e-10, fit_intercept=fit_intercept)
    assert fit.converged
    best = smooth_reference(A, loss, y, s, alpha, fit_intercept=False)
    assert fit.objective == pytest.approx(best, rel=1e-7)
    folds = np.arange(len(y)) % 3
    for k, of_fold in enumerate(
        RidgeDesign(A).solve_many(
            loss, y, np.stack([folds != k for k in range(3)]), alpha, tol=1e-10
        )
    ):
        kept = folds != k
        alone = solve_w(A[kept], loss, y[kept], s[kept], alpha, tol=1e-12)
        assert of_fold.objective == pytest.approx(alone.objective, rel=1e-8)


def test_an_elastic_net_of_coupled_samples():
    A, y = make_data("squared", (40, 60))
    fit = solve_w(A, Pairs(), y, np.ones(40), 1e-3, 1.0, tol=1e-10, fit_intercept=False)
    assert fit.converged
    g = gradients(A, Pairs(), y, np.ones(40), fit)[0]
    np.testing.assert_allclose(g[fit.w != 0], -1e-3 * np.sign(fit.w[fit.w != 0]), atol=1e-7)
    assert np.abs(g).max() <= 1e-3 * (1 + 1e-4)


# ---------------------------------------------------------------------------- bounded work


@pytest.mark.slow  # skglm compiles for seconds
@pytest.mark.parametrize("loss", ["logistic", "squared"])
def test_elastic_net_against_skglm(loss):
    skglm = pytest.importorskip("skglm")
    A, y = make_data(loss, (60, 200))
    alpha = 1e-3
    if loss == "squared":  # (1/2n) ‖y − Xw‖² + a ‖w‖₁
        model = skglm.Lasso(alpha=alpha / 2, tol=1e-10, fit_intercept=True).fit(A, y)
    else:
        model = skglm.SparseLogisticRegression(alpha=alpha, tol=1e-10).fit(A, y)
    w, b = np.atleast_2d(model.coef_), np.atleast_1d(model.intercept_)
    theirs = objective(A, LOSSES[loss], y, np.ones(len(y)), w, b, alpha, 1.0)
    fit = solve_w(A, LOSSES[loss], y, np.ones(len(y)), alpha, 1.0)
    assert fit.objective <= (1 + 1e-8) * theirs


@ridge_and_l1
def test_too_few_iterations_are_reported(l1_ratio):
    for shape in ("wide", "tall"):
        A, y = make_data("logistic", SHAPES[shape])
        fit = solve_w(A, Logistic(), y, np.ones(len(y)), 1e-6, l1_ratio, max_iter=1)
        assert not fit.converged
        assert fit.criterion > 1e-8


# ---------------------------------------------------------------------------- folds, paths, starts


@every_loss
@both_sides
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_batch_equals_fits_on_subsets(name, shape, dtype):
    loss, alpha = LOSSES[name], 1e-3 * SHAPES[shape][1]
    A, y = make_data(name, SHAPES[shape], dtype)
    folds = np.random.default_rng(0).permutation(len(y)) % 5
    S = np.array([folds != k for k in range(5)], dtype=float)
    fits = RidgeDesign(A).solve_many(loss, y, S, alpha, tol=1e-12)
    for s, fit in zip(S, fits, strict=True):
        kept = s > 0
        alone = solve_w(A[kept], loss, y[kept], s[kept], alpha, tol=1e-12)
        assert fit.objective == pytest.approx(alone.objective, rel=1e-8)
        np.testing.assert_allclose(fit.w, alone.w, atol=1e-4 * np.abs(alone.w).max())
        check_scores(A, fit)


@every_loss
def test_fold_models_equal_separate_fits_on_small_tall_problems(name):
    """No fold keeps its start, or becomes the model of all samples."""
    loss, rng = LOSSES[name], np.random.default_rng(7)
    for seed in range(12):
        n_samples, n_folds = int(rng.integers(12, 41)), int(rng.integers(2, 6))
        A, y = make_data(name, (n_samples, int(rng.integers(2, 6))), seed=seed)
        folds = rng.permutation(n_samples) % n_folds
        S = np.array([folds != k for k in range(n_folds)], dtype=float)
        alpha = float(10.0 ** rng.uniform(-3, -1))
        design = RidgeDesign(A)
        for s, fit in zip(S, design.solve_many(loss, y, S, alpha), strict=True):
            alone = RidgeDesign(A[s > 0]).solve(loss, y[s > 0], s[s > 0], alpha, tol=1e-12)
            assert fit.objective == pytest.approx(alone.objective, rel=1e-6)
            np.testing.assert_allclose(fit.w, alone.w, atol=1e-3 * np.abs(alone.w).max())


@pytest.mark.parametrize("name", ["logistic", "squared", "huber", "poisson"])
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("relative_alpha", [1e-6, 1e-1])
@pytest.mark.parametrize("n_folds", [3, 40])
def test_folds_that_share_an_inverse_equal_single_fits(
    name, fit_intercept, relative_alpha, n_folds
):
    loss, alpha = LOSSES[name], relative_alpha * 150
    A, y = make_data(name, (40, 150), noise=2.0)
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
        check_scores(A, fit)


@every_loss
@pytest.mark.parametrize("shape", SHAPES)
def test_a_path_equals_separate_fits(name, shape):
    loss = LOSSES[name]
    A, y = make_data(name, SHAPES[shape], np.float32)
    alphas = SHAPES[shape][1] * np.array([1e-6, 1e2, 1e-3, 1e-1, 1e-3])
    path = RidgeDesign(A).solve_path(loss, y, np.ones(len(y)), alphas)
    for alpha, fit in zip(alphas, path, strict=True):
        alone = solve_w(A, loss, y, np.ones(len(y)), alpha)
        assert fit.converged
        assert fit.objective == pytest.approx(alone.objective, rel=2e-8)
        check_scores(A, fit)


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("name", CLASSIC)
def test_a_gram_matrix_gives_the_same_fit(name, fit_intercept):
    loss, alpha = LOSSES[name], 0.1
    A, y = make_data(name, SHAPES["wide"])
    direct = RidgeDesign(A, fit_intercept=fit_intercept).solve(loss, y, np.ones(len(y)), alpha)
    design = RidgeDesign(None, gram=A @ A.T, fit_intercept=fit_intercept)
    fit = design.solve(loss, y, np.ones(len(y)), alpha)
    assert fit.objective == pytest.approx(direct.objective, rel=1e-8)
    np.testing.assert_allclose(fit.w @ A, direct.w, atol=1e-6)
    np.testing.assert_allclose(fit.b, direct.b, atol=1e-6)
    np.testing.assert_allclose(fit.u, direct.u, atol=1e-6)
    assert len(design.solve_path(loss, y, np.ones(len(y)), [1.0, 0.1, 0.01])) == 3


@ridge_and_l1
@every_loss
@both_sides
def test_a_warm_start_reaches_the_same_fit_sooner(name, shape, l1_ratio):
    loss, alpha = LOSSES[name], 1e-2 * SHAPES[shape][1]
    A, y = make_data(name, SHAPES[shape])
    cold = solve_w(A, loss, y, np.ones(len(y)), alpha, l1_ratio)
    warm = solve_w(A, loss, y, np.ones(len(y)), alpha, l1_ratio, start=cold)
    assert warm.objective == pytest.approx(cold.objective, rel=1e-8)
    assert warm.n_iter <= max(1, cold.n_iter)
    other = solve_w(A + 0.01, loss, y, np.ones(len(y)), 2 * alpha, l1_ratio, start=cold)
    assert other.converged


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("name", CLASSIC)
@pytest.mark.parametrize("alpha", [1e-4, 1.0])
def test_scores_are_accurate_at_the_tolerance_of_the_rounds(name, shape, alpha):
    loss = LOSSES[name]
    A, y = make_data(name, shape, noise=2.0)
    s = np.ones(len(A))
    exact = solve_w(A, loss, y, s, alpha, tol=1e-15)
    start = solve_w(A, loss, y, s, 3.0 * alpha, tol=W_TOL)
    for fit in (
        solve_w(A, loss, y, s, alpha, tol=W_TOL),
        solve_w(A, loss, y, s, alpha, tol=W_TOL, start=start),
        RidgeDesign(A).solve_many(loss, y, np.ones((3, len(A))), alpha, tol=W_TOL)[0],
    ):
        np.testing.assert_allclose(fit.u, exact.u, rtol=1e-7, atol=1e-6)


# ---------------------------------------------------------------------------- products and threads


@ridge_and_l1
@both_sides
def test_results_are_reproducible_to_the_bit(shape, l1_ratio):
    alpha = 1e-3 * SHAPES[shape][1]
    A, y = make_data("softmax", SHAPES[shape], np.float32)
    first, second = (solve_w(A, Softmax(3), y, np.ones(len(y)), alpha, l1_ratio) for _ in range(2))
    np.testing.assert_array_equal(first.w, second.w)
    np.testing.assert_array_equal(first.u, second.u)


@pytest.mark.parametrize("shape", [(0, 53), (1, 53), (131, 53), (30, 40_000)])
@pytest.mark.parametrize("n_vectors", [1, 3, 5, 16])
def test_products_accumulate_in_float64(shape, n_vectors):
    rng = np.random.default_rng(0)
    A = rng.standard_normal(shape).astype(np.float32)
    R, V = rng.standard_normal((n_vectors, shape[0])), rng.standard_normal((n_vectors, shape[1]))
    np.testing.assert_allclose(row_products(A, V), V @ A.T.astype(float), atol=1e-10)
    np.testing.assert_allclose(column_products(A, R), R @ A.astype(float), atol=1e-12)


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
