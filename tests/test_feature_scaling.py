"""feature_scaling="std": features are penalised in units of their deviations, wherever models are fitted."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from reference import operator_matrix
from sklearn.linear_model import ElasticNet, LogisticRegression, Ridge
from sklearn.metrics import roc_auc_score
from sklearn.preprocessing import StandardScaler

from suquan import (
    SuquanClassifier,
    SuquanClassifierCV,
    SuquanRegressor,
    compare,
    make_target_quantiles,
)
from suquan.methods import METHODS
from suquan.model.several import target_basis
from suquan.ranking import SampleOperator
from suquan.targets import read_at_grid

N, P = 70, 12
RNG = np.random.default_rng(0)
X = np.round(RNG.standard_normal((N, P)) * np.linspace(0.3, 2.0, P) + np.arange(P) / 4, 1)  # ties
VALUES = X[:, :6] @ RNG.standard_normal(6) + RNG.standard_normal(N)
TWO = np.median(VALUES) < VALUES
THREE = np.digitize(VALUES, np.quantile(VALUES, [1 / 3, 2 / 3]))
WEIGHTS = RNG.uniform(0.2, 2.0, N)
LABELS = {"squared": VALUES, "logistic": TWO, "softmax": THREE}


def make_model(loss, method="fixed", **parameters):
    kind = SuquanRegressor if loss == "squared" else SuquanClassifier
    return kind(method, loss=loss, feature_scaling="std", random_state=0, **parameters)


def scores_of(model, samples):
    return getattr(model, "decision_function", model.predict)(samples)


def start_deviations(samples, init="uniform", weights=None, **rules):
    """Deviations of the normalised samples by scikit-learn, with the target of mean square 1."""
    model = SuquanRegressor("fixed", init=init, **rules).fit(samples, np.arange(len(samples)))
    return StandardScaler().fit(model.transform(samples), sample_weight=weights).scale_


# -- a fixed target, against scikit-learn -------------------------------------------------------------


@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["equal", "weighted"])
@pytest.mark.parametrize("loss", LABELS)
def test_a_ridge_fit_is_one_to_standardised_columns(loss, weights):
    alpha, y = 0.05, LABELS[loss]
    model = make_model(loss, init="normal", alpha=alpha).fit(X, y, sample_weight=weights)
    scaler = StandardScaler().fit(model.transform(X), sample_weight=weights)
    A = scaler.transform(model.transform(X))
    total = N if weights is None else weights.sum()
    if loss == "squared":
        expected = Ridge(alpha=total * alpha).fit(A, y, sample_weight=weights)
    else:
        rules = {"C": 1 / (2 * total * alpha), "tol": 1e-10, "max_iter": 10_000}
        expected = LogisticRegression(**rules).fit(A, y, sample_weight=weights)
    assert_allclose(scores_of(model, X), scores_of(expected, A), atol=1e-6)
    assert_allclose(model.coef_, np.atleast_2d(expected.coef_) / scaler.scale_, atol=1e-6)


@pytest.mark.parametrize("loss", LABELS)
def test_an_elastic_net_is_one_to_standardised_columns(loss):
    alpha, r, y = 0.03, 0.6, LABELS[loss]
    model = make_model(loss, alpha=alpha, l1_ratio=r).fit(X, y)
    scaler = StandardScaler().fit(model.transform(X))
    A, share = scaler.transform(model.transform(X)), r / (2 - r)
    if loss == "squared":
        expected = ElasticNet(
            alpha=alpha * (1 - r / 2), l1_ratio=share, tol=1e-12, max_iter=100_000
        ).fit(A, y)
    else:
        expected = LogisticRegression(
            C=1 / (N * alpha * (2 - r)), l1_ratio=share, solver="saga", tol=1e-10, max_iter=100_000
        ).fit(A, y)
    if loss == "squared":
        assert_allclose(model.predict(X), expected.predict(A), atol=2e-5)
    else:  # a shift of all classes' scores is free
        assert_allclose(model.predict_proba(X), expected.predict_proba(A), atol=2e-5)
    assert np.any(model.coef_ == 0)


def test_a_feature_that_never_varies_has_weight_one():
    samples = X.copy()
    samples[:, 4] = 100.0  # always the last place
    model = make_model("squared", alpha=0.1, fit_intercept=False).fit(samples, VALUES)
    A = model.transform(samples)
    assert np.ptp(A[:, 4]) == 0.0
    sd = StandardScaler().fit(A).scale_  # 1 where a column is constant
    assert sd[4] == 1.0
    expected = Ridge(alpha=0.1 * N, fit_intercept=False).fit(A / sd, VALUES)
    assert_allclose(model.coef_[0], expected.coef_ / sd, atol=1e-10)


def test_deviations_are_those_of_the_values_that_are_not_missing():
    samples = X.copy()
    samples[RNG.random(X.shape) < 0.2] = np.nan
    samples[:, 7] = np.nan
    samples[:, 8] = np.where(np.arange(N) == 3, 1.0, np.nan)
    model = make_model("squared", alpha=0.05, missing="ignore").fit(samples, VALUES)
    Z = model.transform(samples)
    sd = np.ones(P)
    known = [j for j in range(P) if j not in (7, 8)]
    sd[known] = np.nanstd(Z[:, known], axis=0)
    expected = Ridge(alpha=0.05 * N).fit(np.nan_to_num(Z) / sd, VALUES)
    assert_allclose(model.coef_[0], expected.coef_ / sd, atol=1e-6)
    scores = np.where(np.isnan(Z), model.feature_means_, Z) @ model.coef_.T + model.intercept_
    assert_allclose(model.predict(samples), scores[:, 0])


# -- learned targets ----------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_a_round_minimises_the_weighted_objective(loss):
    """w-step, f-step over the bounded non-decreasing targets and w-step, by a convex solver."""
    cp = pytest.importorskip("cvxpy")
    alpha, y = 0.05, VALUES if loss == "squared" else np.where(TWO, 1.0, -1.0)
    T = np.array([operator_matrix(x, "average") for x in X])
    f, sd = make_target_quantiles("normal", P), start_deviations(X, "normal")
    f = (f - f.mean()) / f.std()

    def mean_loss(u):
        if loss == "squared":
            return cp.sum_squares(y - u) / N
        return cp.sum(cp.logistic(cp.multiply(-y, u))) / N

    w, b, target = cp.Variable(P), cp.Variable(), cp.Variable(P)
    for _ in range(2):
        penalty = alpha * cp.sum_squares(cp.multiply(sd, w))
        w_step = cp.Problem(cp.Minimize(mean_loss((T @ f) @ w + b) + penalty))
        w_step.solve("CLARABEL")
        rules = [cp.sum(target) == 0, cp.sum_squares(target) <= P, cp.diff(target) >= 0]
        rows = np.einsum("ijk,j->ik", T, w.value)
        cp.Problem(cp.Minimize(mean_loss(rows @ target + b)), rules).solve("CLARABEL")
        f, learned = target.value, f
    model = make_model(loss, "bnd", init="normal", alpha=alpha, tol=1e-10).fit(X, LABELS[loss])
    assert_allclose(model.target_quantiles_, learned, atol=1e-3)
    assert_allclose(model.coef_[0], w.value, atol=1e-3)
    assert model.objective_ == pytest.approx(w_step.value, rel=1e-6)


def test_several_targets_have_the_weighted_norm():
    cp = pytest.importorskip("cvxpy")
    K, alpha, smoothness = 4, 0.05, 0.01
    sd, Q = start_deviations(X, n_knots=K), target_basis(K, smoothness)
    B = np.column_stack([read_at_grid(unit, P) for unit in np.eye(K)])
    S = np.array([operator_matrix(x, "average") @ B @ Q for x in X])
    C, b = cp.Variable((P, K - 1)), cp.Variable()
    u = S.reshape(N, -1) @ cp.vec(C, order="C") + b
    for method, norm in (("matrix", cp.sum_squares), ("multi", cp.normNuc)):
        penalty = alpha * norm(cp.multiply(sd[:, None], C))
        problem = cp.Problem(cp.Minimize(cp.sum_squares(VALUES - u) / N + penalty))
        problem.solve("CLARABEL")
        model = make_model(
            "squared", method, n_knots=K, alpha=alpha, smoothness=smoothness, tol=3e-6
        ).fit(X, VALUES)
        assert model.objective_ == pytest.approx(problem.value, rel=1e-6)
        assert_allclose(model.predict(X), u.value, atol=2e-3)


def test_the_singular_vector_is_that_of_the_weighted_difference():
    T = np.array([operator_matrix(x, "average") for x in X])
    M = T[TWO].mean(axis=0) - T[~TWO].mean(axis=0)
    M = M / start_deviations(X)[:, None] @ (np.eye(P) - 1 / P)
    _, values, Vt = np.linalg.svd(M)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # two close values
        model = make_model("logistic", "svd").fit(X, TWO)
    assert_allclose(model.singular_values_, values[:2])
    assert abs(Vt[0] @ model.target_quantiles_) == pytest.approx(np.sqrt(P))


@pytest.mark.parametrize("loss", LABELS)
@pytest.mark.parametrize("method", METHODS)
def test_the_score_is_that_of_the_normalised_sample(method, loss):
    if method == "svd" and loss != "logistic":
        pytest.skip("svd is for two classes")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # two close singular values
        model = make_model(loss, method, n_knots=6).fit(X, LABELS[loss], sample_weight=WEIGHTS)
        plain = model.set_params(feature_scaling="none").fit(X, LABELS[loss], sample_weight=WEIGHTS)
        before = scores_of(plain, X)
        model = model.set_params(feature_scaling="std").fit(X, LABELS[loss], sample_weight=WEIGHTS)
    scores = model.transform(X) @ model.coef_.T + model.intercept_
    assert_allclose(scores_of(model, X), scores.reshape(before.shape), atol=1e-9)
    assert np.max(np.abs(scores_of(model, X) - before)) > 1e-3
    assert_array_equal(scores_of(model, X[:1]), scores_of(model, X)[:1])  # alone as in a batch


# -- operators ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("ties", ["average", "first", "mean_rank"])
def test_a_scaled_operator_is_the_scaled_matrix(ties):
    samples, rng = X[:9].copy(), np.random.default_rng(2)
    scale, (f, w), c = rng.uniform(0.5, 2, P), rng.standard_normal((2, P)), rng.standard_normal(9)
    operator = SampleOperator.from_samples(samples, ties=ties, missing="ignore").scaled(scale)
    T = np.array([np.diag(scale) @ operator_matrix(x, ties) for x in samples])
    assert_allclose(operator.apply(f), T @ f)
    assert_allclose(operator.adjoint(w), np.einsum("ijk,j->ik", T, w))
    assert_allclose(operator.scores(w[None], f)[:, 0], T @ f @ w)
    assert_allclose(operator.sum_apply(c, f), np.tensordot(c, T, 1) @ f)
    assert_allclose(operator.sum_adjoint(c, w), np.tensordot(c, T, 1).T @ w)
    assert_allclose(operator.take([3, 1]).apply(f), T[[3, 1]] @ f)


# -- selection, comparison, files, blocks -------------------------------------------------------------


@pytest.mark.parametrize("n_knots", [None, 5])
@pytest.mark.parametrize("method", ["crossfit", "fixed", "matrix"])
def test_folds_do_not_leak(method, n_knots):
    """A fold's score is that of a model that never saw the test samples."""
    splits = [(np.arange(N) % 3 != k, np.flatnonzero(np.arange(N) % 3 == k)) for k in range(3)]
    splits = [(np.flatnonzero(train), test) for train, test in splits]
    wide = np.hstack([X, np.random.default_rng(5).standard_normal((N, N))])
    chosen = SuquanClassifierCV(
        method, alphas=[0.05, 1.0], smoothnesses=[0.01], departures=[1.0], cv=splits,
        scoring="neg_log_loss", n_knots=n_knots, feature_scaling="std", random_state=0,
        calibration=None,
    ).fit(wide, TWO)  # fmt: skip
    for k, (train, test) in enumerate(splits):
        for row, setting in enumerate(chosen.cv_results_["params"]):
            model = make_model(
                "logistic", method, n_knots=n_knots, alpha=setting["alpha"],
                smoothness=setting["smoothness"],
            ).fit(wide[train], TWO[train])  # fmt: skip
            likely = model.predict_proba(wide[test])[np.arange(len(test)), TWO[test].astype(int)]
            score = chosen.cv_results_[f"split{k}_test_score"][row]
            assert score == pytest.approx(np.mean(np.log(likely)), abs=1e-6)
    assert chosen.best_estimator_.feature_scaling == "std"


@pytest.mark.parametrize("wide", [False, True])
def test_a_comparison_scales_the_features_of_every_training_set(wide):
    samples = np.hstack([X, np.random.default_rng(5).standard_normal((N, N))]) if wide else X
    train, test = np.arange(N) % 3 != 0, np.arange(N) % 3 == 0
    splits = [(np.flatnonzero(train), np.flatnonzero(test))]
    result = compare(
        samples, TWO, methods=["raw", "normal", "median", "bnd"], outer_cv=splits, inner_cv=2,
        alphas=[0.05], progress=False, feature_scaling="std",
    )  # fmt: skip
    found = dict(zip(result.folds["method"], result.folds["score"], strict=True))
    for name in ("normal", "median"):
        model = make_model("logistic", init=name, alpha=0.05).fit(samples[train], TWO[train])
        score = roc_auc_score(TWO[test], model.decision_function(samples[test]))
        assert found[name] == pytest.approx(score)
    model = make_model("logistic", "bnd", alpha=0.05).fit(samples[train], TWO[train])
    score = roc_auc_score(TWO[test], model.decision_function(samples[test]))
    assert found["bnd"] == pytest.approx(score)
    scaler = StandardScaler().fit(samples[train])
    raw = LogisticRegression(C=1 / (2 * train.sum() * 0.05), tol=1e-8, max_iter=1000)
    raw.fit(scaler.transform(samples[train]), TWO[train])
    score = roc_auc_score(TWO[test], raw.decision_function(scaler.transform(samples[test])))
    assert found["raw"] == pytest.approx(score)


@pytest.mark.parametrize("loss", LABELS)
@pytest.mark.parametrize("method", ["fixed", "bnd", "crossfit", "svd"])
@pytest.mark.parametrize("shape", ["tall", "wide"])
def test_blocks_on_dask_give_the_same(shape, method, loss):
    da = pytest.importorskip("dask.array")
    if method == "svd" and loss != "logistic":
        pytest.skip("svd is for two classes")
    samples = X if shape == "tall" else np.hstack([X, RNG.standard_normal((N, 2 * N))])
    weights = np.where(np.arange(N) == 5, 0.0, WEIGHTS)
    model = make_model(loss, method, n_knots=6, tol=1e-8, max_iter=2000)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # two close singular values
        expected = scores_of(model.fit(samples, LABELS[loss], sample_weight=weights), samples)
        blocks = da.from_array(samples, chunks=((20, 1, 30, N - 51), samples.shape[1]))
        model.fit(blocks, LABELS[loss], sample_weight=weights)
    assert_allclose(scores_of(model, samples), expected, atol=1e-3 * np.abs(expected).max())
    scores = model.transform(samples) @ model.coef_.T + model.intercept_
    assert_allclose(scores_of(model, samples), scores.reshape(expected.shape), atol=1e-9)


@pytest.mark.parametrize("value", ["mad", None, True])
def test_another_value_is_refused_by_name(value):
    with pytest.raises(ValueError, match=r"feature_scaling must be one of 'none', 'std'; got"):
        SuquanClassifier(feature_scaling=value).fit(X, TWO)
