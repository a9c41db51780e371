import sys
import warnings

import numpy as np
import pandas as pd
import polars
import pytest
from scipy.special import expit, log_softmax
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, PoissonRegressor
from sklearn.model_selection import GroupKFold, LeaveOneGroupOut
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from suquan import (
    SupervisedQuantileNormalizer,
    SuquanClassifier,
    SuquanClassifierCV,
    SuquanRegressor,
    align_features,
    make_target_quantiles,
    quantile_normalize,
)
from suquan.ranking import SampleOperator

IN_SAMPLE = ("f0", "bnd", "spav", "joint")
METHODS = ("fixed", *IN_SAMPLE, "crossfit")


def make_problem(n_samples=80, n_features=30, seed=0, n_classes=2):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_samples, n_features))
    U = 0.7 * quantile_normalize(X, "normal") @ rng.standard_normal((n_features, n_classes))
    if n_classes == 2:
        y = (rng.random(n_samples) < expit(U[:, 1] - U[:, 0])).astype(int)
    else:
        y = np.argmax(U + rng.gumbel(size=U.shape), axis=1)
    return np.exp(X), y


def make_regression(n_samples=80, n_features=30, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_samples, n_features))
    u = quantile_normalize(X, "normal") @ rng.standard_normal(n_features)
    return np.exp(X), 3.0 + 2.0 * u + rng.standard_normal(n_samples)


def objective(model, X, y, l1_ratio=0.0, weights=None):
    """J straight from its definition, at the fitted values."""
    f, w, b = model.target_quantiles_, model.coef_, model.intercept_
    u = SampleOperator.from_samples(X, ties=model.ties).apply(f) @ w.T + b
    if isinstance(model, SuquanRegressor):
        loss = (y - u[:, 0]) ** 2
    elif len(model.classes_) == 2:
        loss = np.logaddexp(0, -np.where(y == model.classes_[1], 1, -1) * u[:, 0])
    else:
        loss = -log_softmax(u, axis=1)[np.arange(len(y)), np.searchsorted(model.classes_, y)]
    p, K = len(f), len(model.target_knots_)
    penalty = (1 - l1_ratio) * np.sum(w**2) + l1_ratio * np.sum(np.abs(w))
    rough = model.smoothness_ * K / p * np.sum(np.diff(model.target_knots_) ** 2)
    return np.average(loss, weights=weights) + model.alpha_ * penalty + rough


# -- the objective and its minimisers ------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("n_knots", [None, 7])
@pytest.mark.parametrize("task", ["two classes", "three classes", "values"])
def test_objective_is_the_displayed_formula(method, n_knots, task):
    kind = SuquanRegressor if task == "values" else SuquanClassifier
    n_classes = 3 if task == "three classes" else 2
    X, y = make_regression() if task == "values" else make_problem(n_classes=n_classes)
    model = kind(method, alpha=0.5, smoothness=0.2, n_knots=n_knots, random_state=0).fit(X, y)
    assert model.objective_ == pytest.approx(objective(model, X, y), rel=1e-10)
    if task == "three classes":
        assert abs(model.intercept_.sum()) < 1e-10


def test_fixed_normal_target_is_logistic_regression_on_normal_scores():
    X, y = make_problem()
    n, alpha = len(y), 0.3
    f = make_target_quantiles("normal", X.shape[1])
    A = quantile_normalize(X, (f - f.mean()) / f.std())
    reference = LogisticRegression(C=1 / (2 * n * alpha), tol=1e-12, max_iter=10_000).fit(A, y)
    model = SuquanClassifier("fixed", init="normal", alpha=alpha).fit(X, y)
    np.testing.assert_allclose(model.coef_, reference.coef_, atol=1e-6)
    np.testing.assert_allclose(model.intercept_, reference.intercept_, atol=1e-6)
    np.testing.assert_allclose(model.predict_proba(X), reference.predict_proba(A), atol=1e-6)


def test_fixed_poisson_regression_is_that_of_scikit_learn():
    X, y = make_regression()
    y = np.round(np.exp(0.2 * y))
    model = SuquanRegressor("fixed", loss="poisson", alpha=0.3).fit(X, y)
    A = model.transform(X)
    reference = PoissonRegressor(alpha=0.6, tol=1e-10, max_iter=10_000).fit(A, y)
    np.testing.assert_allclose(model.predict(X), reference.predict(A), rtol=1e-4)
    assert model.smoothness_ == 0.0


def test_huber_loss_is_squared_for_large_delta_and_resists_outliers():
    X, y = make_regression()
    model = SuquanRegressor("joint", alpha=0.3, smoothness=0.1, tol=1e-8)
    plain = clone(model).fit(X, y).predict(X)
    large = clone(model).set_params(loss="huber", huber_delta=1e4).fit(X, y)
    np.testing.assert_allclose(large.predict(X), plain, rtol=1e-5)
    spoilt = y.copy()
    spoilt[::10] += 1000.0
    robust = clone(model).set_params(loss="huber").fit(X, spoilt)
    worse = clone(model).fit(X, spoilt)
    assert np.abs(robust.predict(X) - y).mean() < 0.2 * np.abs(worse.predict(X) - y).mean()


def test_softmax_of_two_classes_is_logistic_regression_at_half_the_penalty():
    X, y = make_problem()
    logistic = SuquanClassifier("bnd", alpha=0.2, tol=1e-8).fit(X, y)
    both = SuquanClassifier("bnd", loss="softmax", alpha=0.4, tol=1e-8).fit(X, y)
    assert both.coef_.shape == (2, 30)
    np.testing.assert_allclose(both.predict_proba(X), logistic.predict_proba(X), atol=1e-5)
    np.testing.assert_allclose(both.decision_function(X), logistic.decision_function(X), atol=1e-4)
    with pytest.raises(ValueError, match="needs a loss with one score per sample"):
        SuquanClassifier("svd", loss="softmax").fit(X, y)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("method", IN_SAMPLE)
def test_objective_never_rises_and_coefficients_are_optimal_for_the_target(method, seed):
    rng = np.random.default_rng(seed)
    X, y = make_problem(int(rng.integers(20, 120)), int(rng.integers(5, 60)), seed)
    alpha, smoothness = 10.0 ** rng.uniform(-3, 1, size=2)
    model = SuquanClassifier(method, alpha=alpha, smoothness=smoothness, max_rounds=4)
    model.fit(X, y)
    history = model.objective_history_
    assert len(history) == 2 * model.n_rounds_ + 1
    assert np.all(np.diff(history) <= 1e-10 * history[0])
    assert history[-1] == model.objective_
    # (w, b) refitted at the returned target are the same
    A = model.transform(X)
    reference = LogisticRegression(C=1 / (2 * len(y) * alpha), tol=1e-12, max_iter=100_000)
    reference.fit(A, y)
    np.testing.assert_allclose(
        model.decision_function(X), reference.decision_function(A), atol=2e-4
    )


@pytest.mark.parametrize("n_features", [25, 90])
def test_objective_does_not_rise_where_the_target_may_grow_without_bound(n_features):
    X, y = make_problem(60, n_features)
    for alpha in (1e-4, 1e-2):
        history = (
            SuquanClassifier("spav", alpha=alpha, smoothness=0.0, max_rounds=2)
            .fit(X, y)
            .objective_history_
        )
        assert np.all(np.diff(history) <= 1e-9 * history[0])


def test_objective_of_other_losses_and_penalties_never_rises():
    samples, values = make_regression()
    counts = np.round(np.exp(0.2 * values))
    for model, (X, y) in (
        (SuquanRegressor("joint"), (samples, values)),
        (SuquanRegressor("joint", loss="huber"), (samples, values)),
        (SuquanRegressor("joint", loss="poisson"), (samples, counts)),
        (SuquanClassifier("joint", alpha=0.1), make_problem(n_classes=4)),
        (SuquanClassifier("bnd", alpha=0.01, l1_ratio=0.5), make_problem()),
    ):
        history = model.fit(X, y).objective_history_
        assert np.all(np.diff(history) <= 1e-8 * abs(history[0]))


@pytest.mark.parametrize("method", ["bnd", "spav", "joint", "crossfit", "f0", "svd"])
def test_targets_lie_in_their_sets(method):
    X, y = make_problem()
    model = SuquanClassifier(method, alpha=0.3, smoothness=0.1, random_state=0)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="the two largest singular values")
        f = model.fit(X, y).target_quantiles_
    assert abs(f.sum()) < 1e-9
    if method not in ("f0", "svd"):
        assert np.all(np.diff(f) >= 0)
    if method in ("crossfit", "svd"):
        assert np.mean(f**2) == pytest.approx(1.0)
    elif method != "spav":
        assert np.mean(f**2) <= 1 + 1e-12


@pytest.mark.parametrize("model", [SuquanClassifier("joint"), SuquanClassifier("spav")])
def test_collapse_to_the_zero_target_is_refused_with_a_warning(model):
    X, y = make_problem()
    model.set_params(alpha=1e6, smoothness=1e6, max_rounds=20)
    with pytest.warns(UserWarning, match="the best target at these penalties is zero"):
        model.fit(X, y)
    assert np.mean(model.target_quantiles_**2) > 1e-8
    assert np.all(np.isfinite(model.decision_function(X)))


def test_elastic_net_gives_sparse_coefficients():
    X, y = make_problem(n_features=60)
    model = SuquanClassifier("bnd", l1_ratio=1.0, alpha=0.03).fit(X, y)
    assert 0 < np.count_nonzero(model.coef_) < 60
    assert model.objective_ == pytest.approx(objective(model, X, y, l1_ratio=1.0), rel=1e-9)
    crossfit = SuquanClassifier(l1_ratio=0.5, alpha=0.03, random_state=0).fit(X, y)
    assert crossfit.score(X, y) > 0.7


# -- learning the target helps where it should -------------------------------------------------------


def test_crossfit_recovers_a_target_that_corruption_hid():
    X, y = make_problem(1200, 200, seed=3)
    corrupted = quantile_normalize(X, "cauchy")
    train, test = slice(0, 800), slice(800, None)
    settings = {"alpha": 0.02, "random_state": 0}
    fixed = SuquanClassifier("fixed", init="cauchy", **settings).fit(corrupted[train], y[train])
    learned = SuquanClassifier("crossfit", smoothness=0.05, **settings).fit(
        corrupted[train], y[train]
    )
    assert learned.score(corrupted[test], y[test]) > fixed.score(corrupted[test], y[test]) + 0.1
    true = make_target_quantiles("normal", 200)
    assert np.corrcoef(learned.target_quantiles_, true)[0, 1] > 0.97


@pytest.mark.parametrize("method", ["bnd", "spav", "joint", "crossfit"])
def test_departure_is_a_part_of_the_way_from_the_start(method):
    X, y = make_problem()
    parameters = {"alpha": 0.05, "smoothness": 0.02, "random_state": 0}
    start, half, learned = (
        SuquanClassifier(method, departure=departure, **parameters).fit(X, y)
        for departure in (0.0, 0.5, 1.0)
    )
    fixed = SuquanClassifier("fixed", alpha=0.05).fit(X, y)
    np.testing.assert_array_equal(start.decision_function(X), fixed.decision_function(X))
    assert start.n_rounds_ == 0
    f0, f = start.target_knots_, learned.target_knots_
    size = np.sqrt(np.mean(f**2))
    expected = f0 * size + f
    expected *= size / np.sqrt(np.mean(expected**2))
    np.testing.assert_allclose(half.target_knots_, expected, atol=1e-12)
    again = SuquanClassifier("fixed", alpha=0.05 / size**2, init=expected).fit(X, y)
    np.testing.assert_allclose(half.decision_function(X), again.decision_function(X), atol=1e-6)


# -- invariances ------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
def test_fit_ignores_strictly_increasing_maps_of_samples(method):
    X, y = make_problem()
    rng = np.random.default_rng(0)
    maps = [np.log, np.sqrt, lambda x: 1e300 * x, lambda x: -1 / x, np.arctan]
    Z = np.array([maps[rng.integers(len(maps))](x) for x in X])
    model = SuquanClassifier(method, alpha=0.3, random_state=0)
    first, second = clone(model).fit(X, y), clone(model).fit(Z, y)
    np.testing.assert_array_equal(first.target_quantiles_, second.target_quantiles_)
    np.testing.assert_array_equal(first.coef_, second.coef_)
    np.testing.assert_array_equal(first.decision_function(X), second.decision_function(Z))


@pytest.mark.parametrize("method", METHODS)
def test_the_order_of_features_and_the_names_of_classes_do_not_matter(method):
    X, y = make_problem()
    order = np.random.default_rng(1).permutation(X.shape[1])
    model = SuquanClassifier(method, alpha=0.3, smoothness=0.1, tol=1e-8, random_state=0)
    first, permuted, swapped = (
        clone(model).fit(*data) for data in ((X, y), (X[:, order], y), (X, 1 - y))
    )
    for other, coef in ((permuted, first.coef_[:, order]), (swapped, -first.coef_)):
        np.testing.assert_allclose(other.target_quantiles_, first.target_quantiles_, atol=1e-5)
        np.testing.assert_allclose(other.coef_, coef, atol=1e-5)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("make", [make_problem, make_regression])
def test_weights_count_like_repeated_rows(method, make):
    X, y = make()
    rng = np.random.default_rng(0)
    weights = rng.integers(0, 4, size=len(y))
    groups = np.arange(len(y)) % 4
    kind = SuquanClassifier if make is make_problem else SuquanRegressor
    model = kind(method, alpha=0.3, smoothness=0.1, init="median", tol=1e-9, max_iter=5000)
    model.set_params(cv=LeaveOneGroupOut())
    repeat = np.repeat(np.arange(len(y)), weights)
    first = clone(model).fit(X, y, sample_weight=weights, groups=groups)
    second = clone(model).fit(X[repeat], y[repeat], groups=groups[repeat])
    scores = "decision_function" if make is make_problem else "predict"
    np.testing.assert_allclose(
        getattr(first, scores)(X), getattr(second, scores)(X), rtol=1e-4, atol=1e-4
    )


def test_rows_of_weight_zero_are_as_if_absent():
    X, y = make_problem()
    X, y = np.vstack([X, np.ones((3, X.shape[1]))]), np.append(y, [7, 7, 1])
    weights = np.r_[np.ones(80), np.zeros(3)]
    first = SuquanClassifier(random_state=0).fit(X, y, sample_weight=weights)
    second = SuquanClassifier(random_state=0).fit(X[:80], y[:80])
    np.testing.assert_array_equal(first.coef_, second.coef_)
    assert first.classes_.tolist() == [0, 1]


def test_balanced_class_weight_equals_given_weights():
    X, y = make_problem()
    keep = np.r_[np.flatnonzero(y == 1), np.flatnonzero(y == 0)[:8]]
    X, y = X[keep], y[keep]
    weights = np.where(y == 1, len(y) / (2 * np.sum(y == 1)), len(y) / (2 * np.sum(y == 0)))
    first = SuquanClassifier("bnd", class_weight="balanced", alpha=0.1).fit(X, y)
    second = SuquanClassifier("bnd", alpha=0.1).fit(X, y, sample_weight=weights)
    np.testing.assert_allclose(first.coef_, second.coef_, atol=1e-10)


def test_the_same_seed_gives_the_same_model():
    X, y = make_problem()
    first = SuquanClassifier(random_state=5).fit(X, y)
    second = SuquanClassifier(random_state=5).fit(X, y)
    third = SuquanClassifier(random_state=6).fit(X, y)
    np.testing.assert_array_equal(first.coef_, second.coef_)
    assert not np.array_equal(first.coef_, third.coef_)


# -- folds ------------------------------------------------------------------------------------------


def test_groups_stay_together_in_the_folds():
    X, y = make_problem(60)
    groups = np.repeat(np.arange(15), 4)
    given = list(GroupKFold(3).split(X, y, groups))
    a = SuquanClassifier(cv=GroupKFold(3), alpha=0.3).fit(X, y, groups=groups)
    b = SuquanClassifier(cv=given, alpha=0.3).fit(X, y)
    np.testing.assert_array_equal(a.coef_, b.coef_)


def test_without_two_samples_of_a_class_nothing_is_cross_fitted():
    X, _ = make_problem(40)
    rare = np.zeros(40, int)
    rare[2] = 1
    with pytest.warns(UserWarning, match="cannot cross-fit"):
        SuquanClassifier(random_state=0).fit(X, rare)


def test_a_split_that_tests_on_its_training_samples_is_refused():
    X, y = make_problem(20)
    with pytest.raises(ValueError, match="also trains on"):
        SuquanClassifier(cv=[(np.arange(15), np.arange(10, 20))]).fit(X, y)
    with pytest.raises(ValueError, match="cv gave no splits"):
        SuquanClassifier(cv=[]).fit(X, y)


# -- knots, missing values, ties --------------------------------------------------------------------


def test_a_model_with_knots_normalises_samples_of_another_length():
    X, y = make_problem()
    model = SuquanClassifier(n_knots=8, random_state=0).fit(X, y)
    same = make_target_quantiles(model.target_knots_, X.shape[1])
    np.testing.assert_allclose(same, model.target_quantiles_, atol=1e-12)
    longer = make_target_quantiles(model.target_knots_, 50)
    Z = quantile_normalize(np.random.default_rng(0).random((2, 50)), longer)
    np.testing.assert_allclose(np.sort(Z[0]), longer)


@pytest.mark.parametrize("ties", ["average", "first", "mean_rank"])
@pytest.mark.parametrize("method", ["bnd", "crossfit"])
def test_missing_values_and_ties_are_part_of_the_model(method, ties):
    X, y = make_problem()
    X = np.round(X, 1)
    X[np.random.default_rng(0).random(X.shape) < 0.1] = np.nan
    model = SuquanClassifier(method, missing="ignore", ties=ties, alpha=0.3, random_state=0)
    model.fit(X, y)
    Z = model.transform(X)
    np.testing.assert_array_equal(np.isnan(Z), np.isnan(X))
    u = np.nan_to_num(Z) @ model.coef_[0] + model.intercept_[0]  # the fit counts a missing one as 0
    assert model.objective_ == pytest.approx(
        np.mean(np.logaddexp(0, -np.where(y == 1, 1, -1) * u))
        + model.alpha_ * np.sum(model.coef_**2)
        + model.smoothness_ * np.sum(np.diff(model.target_quantiles_) ** 2)
    )


def weighted_moments(Z, weights):
    """Weighted mean and variance of every column over its values that are not NaN."""
    s = np.where(np.isnan(Z), 0.0, weights[:, None])
    mean = np.nansum(s * Z, axis=0) / s.sum(axis=0)
    return mean, np.nansum(s * (Z - mean) ** 2, axis=0) / s.sum(axis=0)


def make_gaps(X, missing):
    X = np.round(X, 1)
    if missing == "ignore":
        X[np.random.default_rng(0).random(X.shape) < 0.1] = np.nan
        X[:40, 5] = np.nan
    return X


@pytest.mark.parametrize("ties", ["average", "first", "mean_rank"])
@pytest.mark.parametrize("missing", ["ignore", "error"])
@pytest.mark.parametrize("scaling", ["none", "std"])
def test_a_missing_value_counts_as_its_weighted_training_mean(scaling, missing, ties):
    X, y = make_problem()
    X, weights = make_gaps(X, missing), np.linspace(0.0, 2.0, len(y))
    model = SuquanClassifier(
        "bnd", missing=missing, ties=ties, feature_scaling=scaling, class_weight={0: 1.0, 1: 3.0}
    ).fit(X, y, sample_weight=weights)
    mean, variance = weighted_moments(model.transform(X), weights * np.where(y == 1, 3.0, 1.0))
    np.testing.assert_allclose(model.feature_means_, mean, atol=1e-12)
    np.testing.assert_allclose(model.feature_variances_, variance, atol=1e-12)
    model.missing = "ignore"
    new = np.random.default_rng(1).random(X.shape)
    new[np.random.default_rng(2).random(X.shape) < 0.3] = np.nan
    new[0, 2:] = np.nan
    new[0, :2] = 0.0, 1.0
    Z = model.transform(new)
    assert np.array_equal(np.isnan(Z), np.isnan(new))
    u = np.where(np.isnan(Z), mean, Z) @ model.coef_[0] + model.intercept_[0]
    np.testing.assert_allclose(model.decision_function(new), u, atol=1e-10)
    alone = [model.decision_function(x[None])[0] for x in new]
    assert np.array_equal(alone, model.decision_function(new))


@pytest.mark.parametrize("method", ["fixed", "crossfit"])
def test_predictions_of_samples_without_a_gene_take_its_training_mean(method):
    X, y = make_problem()
    model = SuquanClassifier(method, missing="ignore", random_state=0).fit(X, y)
    new = X.copy()
    new[:, 0] = np.nan
    Z = model.transform(new)
    Z[:, 0] = model.transform(X)[:, 0].mean()
    u = Z @ model.coef_[0] + model.intercept_[0]
    np.testing.assert_allclose(model.decision_function(new), u, atol=1e-10)
    np.testing.assert_array_equal(model.predict(new), u > 0)


@pytest.mark.filterwarnings("ignore:the target quantiles are not non-decreasing")
@pytest.mark.parametrize(("method", "n_classes"), [("multi", 3), ("matrix", 3), ("matrix", 2)])
@pytest.mark.parametrize("scaling", ["none", "std"])
def test_with_several_targets_it_counts_as_the_mean_of_the_curve(method, n_classes, scaling):
    X, y = make_problem(n_classes=n_classes)
    X, weights = make_gaps(X, "ignore"), np.linspace(0.5, 2.0, len(y))
    model = SuquanClassifier(method, missing="ignore", n_knots=5, feature_scaling=scaling)
    model.fit(X, y, sample_weight=weights)
    targets = [make_target_quantiles(g, X.shape[1]) for g in model.target_knots_]
    Z = np.stack([quantile_normalize(X, f, missing="ignore") for f in targets], axis=1)
    W = model.coef_.reshape(-1, *Z.shape[1:])
    gaps, u = np.isnan(X), np.empty((len(X), len(W)))
    for k, w in enumerate(W):
        curves = np.sum(w * Z, axis=1)
        mean, variance = weighted_moments(curves, weights)
        np.testing.assert_allclose(model.feature_means_[k], mean, atol=1e-12)
        np.testing.assert_allclose(model.feature_variances_[k], variance, atol=1e-12)
        u[:, k] = np.where(gaps, mean, curves).sum(axis=1) + model.intercept_[k]
    scores = model.decision_function(X).reshape(u.shape)
    np.testing.assert_allclose(scores, u, atol=1e-10)


def test_a_feature_that_no_training_sample_has_counts_as_the_mean_of_the_target():
    X, y = make_problem()
    X[:, 3] = np.nan
    model = SuquanClassifier("fixed", missing="ignore").fit(X, y)
    assert (model.feature_means_[3], model.feature_variances_[3], model.coef_[0, 3]) == (0, 0, 0)
    assert np.all(np.isfinite(model.decision_function(X)))


# -- using the models -------------------------------------------------------------------------------


def test_one_sample_alone_scores_bit_for_bit_as_in_a_batch():
    X, y = make_problem(90, 301)
    model = SuquanClassifier(random_state=0).fit(X, y)
    alone = np.concatenate([model.decision_function(x[None]) for x in X])
    np.testing.assert_array_equal(alone, model.decision_function(X))
    np.testing.assert_array_equal(model.transform(X[5:6])[0], model.transform(X)[5])


def test_probabilities_and_predictions_follow_the_scores():
    X, y = make_problem()
    labels = np.array(["no", "yes"])[y]
    model = SuquanClassifier("bnd").fit(X, labels)
    u = model.decision_function(X)
    np.testing.assert_array_equal(model.predict(X), np.where(u > 0, "yes", "no"))
    np.testing.assert_allclose(model.predict_proba(X)[:, 1], expit(u))
    X, y = make_problem(n_classes=3)
    model = SuquanClassifier("bnd").fit(X, y)
    assert model.decision_function(X).shape == (80, 3)
    assert model.coef_.shape == (3, 30)
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1)


def test_supervised_normalizer_gives_a_target_of_mean_square_one():
    X, y = make_problem()
    for method in ("bnd", "spav", "crossfit"):
        normalizer = SupervisedQuantileNormalizer(method, random_state=0).fit(X, y)
        assert np.mean(normalizer.target_quantiles_**2) == pytest.approx(1.0)
        np.testing.assert_allclose(
            np.sort(normalizer.transform(X)[0]), normalizer.target_quantiles_
        )
    assert isinstance(normalizer.estimator_, SuquanClassifier)
    Xr, yr = make_regression()
    normalizer = SupervisedQuantileNormalizer(random_state=0).fit(Xr, yr)
    assert isinstance(normalizer.estimator_, SuquanRegressor)
    assert SupervisedQuantileNormalizer(loss="squared").fit(X, y).estimator_.coef_.shape == (1, 30)
    pipeline = make_pipeline(
        SupervisedQuantileNormalizer(random_state=0), StandardScaler(), LogisticRegression()
    )
    assert pipeline.fit(X, y).score(X, y) > 0.8
    with pytest.raises(ValueError, match="loss must be one of 'auto'"):
        SupervisedQuantileNormalizer(loss="hinge").fit(X, y)


def test_verbose_prints_a_line_per_round(capsys):
    X, y = make_problem()
    SuquanClassifier("joint", verbose=1).fit(X, y)
    assert "round 1: J = " in capsys.readouterr().out
    SuquanClassifier(verbose=1, random_state=0).fit(X, y)
    assert "out-of-fold loss" in capsys.readouterr().out


# -- svd --------------------------------------------------------------------------------------------


def test_svd_warns_where_the_singular_values_are_close_and_keeps_them():
    X, y = np.random.default_rng(0).standard_normal((60, 600)), np.arange(60) % 2
    with pytest.warns(UserWarning, match="two largest singular values"):
        model = SuquanClassifier("svd", n_knots=None).fit(X, y)
    assert model.singular_values_.shape == (2,)
    assert model.singular_values_[0] >= model.singular_values_[1] > 0


# -- bad input --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"method": "bmd"}, "method must be one of 'fixed', 'svd', 'f0'"),
        ({"alpha": 0.0}, "alpha must be None or a number"),
        ({"alpha": -1.0}, "alpha must be None or a number"),
        ({"alpha": np.nan}, "alpha must be None or a number"),
        ({"alpha": np.inf}, "alpha must be finite"),
        ({"smoothness": -1e-9}, "smoothness must be None or a number"),
        ({"l1_ratio": 1.5}, "l1_ratio must be a number in"),
        ({"departure": 1.5}, "departure must be a number in"),
        ({"n_knots": 1}, "n_knots, if not 'auto' or None, must be an integer, at least 2"),
        ({"n_knots": "many"}, "n_knots, if not 'auto' or None, must be an integer"),
        ({"init": "gaussian"}, "init: unknown target 'gaussian'"),
        ({"init": np.eye(3)}, "init: target quantiles must be a vector"),
        ({"init": [np.nan, 1.0]}, "init: target quantiles must be finite"),
        ({"init": np.ones(30)}, "init is constant"),
        ({"max_rounds": 0}, "max_rounds must be an integer, at least 1"),
        ({"max_iter": 0}, "max_iter must be an integer"),
        ({"cv": 1}, "cv must be an integer, at least 2"),
        ({"n_repeats": 0}, "n_repeats must be an integer"),
        ({"tol": 0.0}, "tol must be a number"),
        ({"ties": "random"}, "ties must be one of 'average'"),
        ({"missing": "drop"}, "missing must be one of 'error'"),
    ],
)
def test_bad_parameters_are_named(parameters, message):
    X, y = make_problem()
    with pytest.raises(ValueError, match=message):
        SuquanClassifier(**parameters).fit(X, y)


def test_labels_that_do_not_fit_are_refused():
    X, y = make_problem()
    with pytest.raises(ValueError, match="at least two classes are needed; got 1 class"):
        SuquanClassifier().fit(X, np.zeros(80))
    with pytest.raises(ValueError, match="Unknown label type"):
        SuquanClassifier().fit(X, np.random.default_rng(0).random(80))
    with pytest.raises(ValueError, match="NaN"):
        SuquanClassifier().fit(X, np.where(y == 1, 1.0, np.nan))
    with pytest.raises(ValueError, match="NaN"):
        SuquanRegressor().fit(X, np.full(80, np.nan))
    with pytest.raises(ValueError, match="could not convert"):
        SuquanRegressor().fit(X, np.array(["a", "b"])[y])
    with pytest.raises(ValueError, match="method='svd' is for two classes; got 3"):
        SuquanClassifier("svd").fit(X, np.arange(80) % 3)
    with pytest.raises(ValueError, match="method='svd' is for classification"):
        SuquanRegressor("svd").fit(X, y)
    with pytest.raises(ValueError, match="at least one"):
        SuquanClassifier().fit(X, y, sample_weight=np.zeros(80))


def test_one_feature_is_refused():
    with pytest.raises(ValueError, match="n_features = 1"):
        SuquanClassifier().fit(np.arange(10.0)[:, None], np.arange(10) % 2)


@pytest.mark.parametrize("ties", ["average", "first"])
def test_constant_samples_leave_the_intercept(ties):
    X, y = np.ones((30, 5)), (np.arange(30) < 10).astype(int)
    with pytest.warns(UserWarning, match="nothing to rank"):
        model = SuquanClassifier(ties=ties).fit(X, y)
    np.testing.assert_array_equal(model.coef_, 0)
    new = np.arange(5.0)[None]
    np.testing.assert_allclose(model.predict_proba(new)[:, 1], 1 / 3)
    with pytest.warns(UserWarning, match="nothing to rank"):
        assert SuquanRegressor().fit(X, y * 1.0).predict(new)[0] == pytest.approx(1 / 3)


def test_a_decreasing_start_is_made_monotone_with_a_warning():
    X, y = make_problem()
    init = np.r_[np.linspace(1, 0, 10), np.linspace(0, 5, 20)]
    with pytest.warns(UserWarning, match="init is not one of the targets that method='bnd'"):
        SuquanClassifier("bnd", init=init).fit(X, y)
    with pytest.warns(UserWarning, match="target quantiles are not non-decreasing"):
        SuquanClassifier("f0", init=init).fit(X, y)


def test_no_convergence_is_a_warning_that_says_what_to_raise():
    X, y = make_problem(100, 60)
    with pytest.warns(ConvergenceWarning, match=r"Raise max_iter or tol"):
        SuquanClassifier("bnd", alpha=1e-6, tol=1e-12, max_iter=1).fit(X, y)


# ----------------------------------------------------------------------- masked arrays and data frames


@pytest.mark.parametrize("estimator", [SuquanClassifier("crossfit", cv=2, random_state=0),
                                       SuquanClassifierCV(alphas=2, smoothnesses=1, cv=2, random_state=0),
                                       SuquanClassifier("matrix")])  # fmt: skip
def test_masked_entries_do_not_count(estimator):
    X, y = make_problem()
    X = np.ma.array(X, mask=np.random.default_rng(0).random(X.shape) < 0.1)
    gaps = X.filled(np.nan)
    X.data[X.mask] = 1e9
    model = clone(estimator).fit(X, y)
    same = clone(estimator).set_params(missing="ignore").fit(gaps, y)
    np.testing.assert_array_equal(model.coef_, same.coef_)
    for name in ("predict", "decision_function", "predict_proba"):
        np.testing.assert_array_equal(getattr(model, name)(X), getattr(same, name)(gaps))
    out = model.transform(X)
    n_copies = out.shape[1] // X.shape[1]
    np.testing.assert_array_equal(out.mask, np.tile(X.mask, (1, n_copies)))
    np.testing.assert_array_equal(out.filled(np.nan), same.transform(gaps))
    model.feature_names_in_ = np.array([f"g{j}" for j in range(X.shape[1])], object)
    aligned = align_features(model, X[:, ::-1], model.feature_names_in_[::-1])
    np.testing.assert_array_equal(aligned.model.predict(aligned.values), same.predict(gaps))


def test_the_error_about_feature_names_says_what_helps():
    X, y = make_problem()
    frame = pd.DataFrame(X, columns=[f"g{j}" for j in range(X.shape[1])])
    model = SuquanClassifier("fixed").fit(frame, y)
    for new in (
        frame[frame.columns[::-1]],
        frame.rename(columns={"g0": "other"}),
        frame.iloc[:, 1:],
    ):
        with pytest.raises(ValueError, match=r"feature names should match[\s\S]*align_features"):
            model.predict(new)


def test_a_data_frame_is_looked_at_as_a_whole_and_not_column_by_column():
    n_features = 22_283
    X = np.random.default_rng(0).standard_normal((10, n_features))
    frame = pd.DataFrame(X, columns=[f"{j}_at" for j in range(n_features)])
    model = SuquanClassifier("fixed").fit(frame, np.arange(10) % 2)
    calls = 0

    def count(frame, event, argument):
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        scores = model.decision_function(frame[:1])
    finally:
        sys.setprofile(None)
    assert calls < n_features
    np.testing.assert_array_equal(scores, model.decision_function(frame)[:1])


@pytest.mark.parametrize("kind", ["Float64", "Int64", "int8", "bool", "float32", "mixed"])
def test_columns_of_all_types_give_the_scores_of_their_values(kind):
    X, y = make_problem()
    X = np.round(X * 10).clip(-100, 100)
    X = X > 10 if kind == "bool" else X
    frame = pd.DataFrame(X, columns=[f"g{j}" for j in range(X.shape[1])])
    frame = frame.astype({"g0": "int16"} if kind == "mixed" else kind)
    model = SuquanClassifier("fixed").fit(frame, y)
    plain = SuquanClassifier("fixed").fit(X.astype(float), y)
    np.testing.assert_array_equal(model.decision_function(frame), plain.decision_function(X * 1.0))
    names = polars.DataFrame(X * 1.0, schema=list(frame.columns))
    np.testing.assert_array_equal(model.decision_function(names), plain.decision_function(X * 1.0))
