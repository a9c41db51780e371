"""Estimators with several targets: attributes, predictions, selection, files and bad input."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.pipeline import make_pipeline

from suquan import (
    SupervisedQuantileNormalizer,
    SuquanClassifier,
    SuquanClassifierCV,
    SuquanRegressor,
    SuquanRegressorCV,
    align_features,
    compare,
    load_model,
    save_model,
)
from suquan.kernels import permutation_kernel
from suquan.losses import Logistic
from suquan.solvers.ridge import RidgeDesign


@pytest.fixture(scope="module")
def data():
    """Samples of two classes that two targets of different shape tell apart."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((120, 24))
    score = X[:, :8].sum(axis=1) + np.abs(X[:, 8:16]).sum(axis=1) - 6.3
    return X, np.where(score > 0, "high", "low"), score


SETTINGS = [
    {"method": "multi", "n_targets": 2},
    {"method": "multi", "n_knots": 8, "smoothness": 0.01},
    {"method": "matrix"},
]


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
@pytest.mark.parametrize("task", ["two classes", "three classes", "values"])
def test_attributes_and_predictions(data, settings, task):
    X, y, score = data
    n_outputs = 1
    if task == "values":
        model = SuquanRegressor(**settings, alpha=0.1).fit(X, score)
        predicted = model.predict(X)
    else:
        if task == "three classes":
            y, n_outputs = np.digitize(score, [-1.0, 1.0]), 3
        model = SuquanClassifier(**settings, alpha=0.1).fit(X, y)
        predicted = model.decision_function(X)
    m, p = model.n_targets_, X.shape[1]
    n_knots = settings.get("n_knots", 16)
    assert 1 <= m <= settings.get("n_targets", n_knots - 1)
    assert model.target_knots_.shape == (m, n_knots)
    assert model.coef_.shape == (n_outputs, m * p)
    assert model.intercept_.shape == (n_outputs,)
    assert model.singular_values_.shape == (m,)
    assert np.all(np.diff(model.singular_values_) <= 0)
    squares = model.singular_values_**2
    n_shown = len(model.target_quantiles_)
    assert model.target_quantiles_.shape == (n_shown, p)
    if settings["method"] == "multi":
        assert n_shown == m
    else:
        assert squares[:n_shown].sum() >= 0.999 * squares.sum()
        assert squares[: n_shown - 1].sum() < 0.999 * squares.sum()
    np.testing.assert_allclose(np.mean(model.target_quantiles_**2, axis=1), 1.0)
    assert np.all(model.target_quantiles_ @ np.arange(p) >= -1e-6)
    assert model.duality_gap_ >= -1e-9
    if "n_targets" not in settings:
        assert model.duality_gap_ <= 1e-4 * model.objective_
    scores = model.transform(X) @ model.coef_.T + model.intercept_
    np.testing.assert_allclose(scores.reshape(predicted.shape), predicted, atol=1e-10)


def test_names_of_the_copies(data):
    pd = pytest.importorskip("pandas")
    X, y, _ = data
    frame = pd.DataFrame(X, columns=[f"gene{j}" for j in range(X.shape[1])])
    model = SuquanClassifier("multi", n_targets=2, alpha=0.05).set_output(transform="pandas")
    copies = model.fit(frame, y).transform(frame)
    assert copies.columns[0] == "gene0__1"
    assert copies.columns[-1] == "gene23__2"
    assert copies.shape == (len(X), 48)
    aligned = align_features(model, frame.iloc[:, ::-1])
    np.testing.assert_array_equal(aligned.values, X)
    with pytest.warns(UserWarning, match="1 of the model's 24 features"):
        lost = align_features(model, frame.iloc[:, 1:]).lost
    weight = np.abs(model.coef_).reshape(-1, 24).sum(axis=0)
    assert lost == pytest.approx(weight[0] / weight.sum())


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_monotone_transformations_change_nothing(data, settings):
    X, y, _ = data
    model = SuquanClassifier(**settings).fit(X, y)
    other = SuquanClassifier(**settings).fit(np.exp(X), y)
    np.testing.assert_array_equal(model.coef_, other.coef_)


def test_weights_count_as_repeated_rows_and_classes_may_change_places(data):
    X, y, _ = data
    weights = np.tile([0, 1, 2], 40)
    settings = {"method": "multi", "alpha": 0.05, "tol": 1e-6}
    model = SuquanClassifier(**settings).fit(X, y, sample_weight=weights)
    repeated = SuquanClassifier(**settings).fit(
        np.repeat(X, weights, axis=0), np.repeat(y, weights)
    )
    np.testing.assert_allclose(model.decision_function(X), repeated.decision_function(X), atol=1e-4)
    turned = SuquanClassifier(**settings).fit(X, np.where(y == "high", "z", "a"), weights)
    np.testing.assert_allclose(model.decision_function(X), -turned.decision_function(X), atol=1e-4)


def test_matrix_is_a_kernel_machine(data):
    X, y, _ = data
    alpha, n_knots, smoothness = 0.5, 10, 0.02
    model = SuquanClassifier(
        "matrix", alpha=alpha, n_knots=n_knots, smoothness=smoothness, tol=1e-10
    ).fit(X, y)
    K = permutation_kernel(X, n_knots=n_knots, smoothness=smoothness)
    # The constant by which the kernel is divided: tr(B R⁻¹ Bᵀ), from samples without ties.
    B = np.stack([np.interp((np.arange(24) + 0.5) / 24, (np.arange(n_knots) + 0.5) / n_knots, unit)
                  for unit in np.eye(n_knots)], axis=1)  # fmt: skip
    L = np.diag(np.r_[1.0, np.full(n_knots - 2, 2.0), 1.0])
    L -= np.eye(n_knots, k=1) + np.eye(n_knots, k=-1)
    R = (np.eye(n_knots) + smoothness * n_knots**2 * L) / n_knots
    constant = np.trace(B @ np.linalg.inv(R) @ B.T)
    labels = np.where(y == model.classes_[1], 1.0, -1.0)
    fit = RidgeDesign(None, gram=K).solve(
        Logistic(), labels, np.ones(len(y)), alpha / constant, tol=1e-12
    )
    np.testing.assert_allclose(model.decision_function(X), fit.u, atol=1e-6)
    assert model.objective_ == pytest.approx(fit.objective, abs=1e-9)


def test_missing_values_and_ties(data):
    X, y, _ = data
    X = np.round(2.0 * X) / 2.0
    X[np.random.default_rng(1).random(X.shape) < 0.1] = np.nan
    for method in ("multi", "matrix"):
        model = SuquanClassifier(method, alpha=0.1, missing="ignore").fit(X, y)
        assert 0.0 <= model.duality_gap_ + 1e-12 <= 1e-4 * model.objective_ + 1e-12
        assert model.score(X, y) > 0.75


def test_samples_without_any_order():
    with pytest.warns(UserWarning, match="nothing to rank"):
        model = SuquanClassifier("multi").fit(np.ones((6, 4)), [0, 1, 1, 0, 1, 1])
    assert model.n_targets_ == 1
    with pytest.warns(UserWarning, match="one value throughout"):
        assert np.isnan(model.predict_proba(np.ones((2, 4)))).all()
    np.testing.assert_allclose(model.predict_proba(np.eye(4))[:, 1], 4 / 6)


def test_the_objective_is_that_of_the_model_for_softmax_of_two_classes():
    rng = np.random.default_rng(0)
    X, y = np.exp(rng.standard_normal((60, 30))), np.arange(60) % 2
    model = SuquanClassifier("multi", loss="softmax", alpha=0.05, max_rounds=1000).fit(X, y)
    expected = log_loss(y, model.predict_proba(X)) + model.alpha_ * model.singular_values_.sum()
    assert model.objective_ == pytest.approx(expected, rel=1e-6)
    assert model.duality_gap_ <= 1e-4 * model.objective_


def test_a_normaliser_before_another_model(data):
    X, y, _ = data
    normalizer = SupervisedQuantileNormalizer("multi", n_targets=2, alpha=0.05)
    pipeline = make_pipeline(normalizer, LogisticRegression()).fit(X, y)
    assert pipeline[0].transform(X).shape == (len(X), 2 * X.shape[1])
    assert pipeline.score(X, y) > 0.8
    assert len(pipeline[0].get_feature_names_out()) == 2 * X.shape[1]


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_model_files(data, settings, tmp_path):
    X, y, score = data
    normalizer = SupervisedQuantileNormalizer(**settings)
    for model, labels in (
        (SuquanClassifier(**settings), y),
        (SuquanRegressor(**settings), score),
        (normalizer, y),
    ):
        model.fit(X, labels)
        same = load_model(save_model(model, tmp_path / "model.suquan"))
        np.testing.assert_array_equal(same.transform(X), model.transform(X))
        if model is not normalizer:
            np.testing.assert_array_equal(same.predict(X), model.predict(X))


def test_selection_of_the_number_of_targets(data, tmp_path):
    X, y, score = data
    model = SuquanClassifierCV("multi", n_targets=[1, 2], alphas=[0.05, 0.2], cv=3, random_state=0)
    model.fit(X, y)
    assert model.cv_results_["param_n_targets"].tolist() == [1, 1, 2, 2]
    assert model.n_targets_ <= model.cv_results_["param_n_targets"][model.best_index_]
    same = load_model(save_model(model, tmp_path / "model.suquan"))
    np.testing.assert_array_equal(same.predict_proba(X), model.predict_proba(X))
    mixed = SuquanRegressorCV(["matrix", "joint", "multi"], alphas=2, smoothnesses=1, cv=3)
    mixed.fit(X[:40], score[:40])
    assert set(mixed.cv_results_["param_method"]) == {"matrix", "joint", "multi"}


def test_few_samples_share_their_blocks_of_knots(data):
    X, y, _ = data
    alone = SuquanClassifierCV("matrix", alphas=3, cv=3, random_state=0, n_knots=6)
    alone.fit(X[:20], y[:20])
    chosen = SuquanClassifier("matrix", alpha=alone.alpha_, n_knots=6).fit(X[:20], y[:20])
    np.testing.assert_allclose(alone.coef_, chosen.coef_, atol=1e-10)


def test_comparison(data):
    X, y, _ = data
    result = compare(
        X, y, methods=["normal", "multi", "matrix", "joint"], n_targets=2, outer_cv=3, inner_cv=2,
        alphas=3, smoothnesses=2, progress=False,
    )  # fmt: skip
    assert result.summary["method"].tolist() == [
        "normal",
        "multi",
        "matrix",
        "joint",
        "start",
        "best_fixed",
    ]
    assert np.all(result.summary["mean"] > 0.5)
    assert result.targets["matrix"].shape == (3, 24)
    with pytest.raises(ValueError, match="n_targets is for the method 'multi'"):
        compare(X, y, methods=["normal", "matrix"], n_targets=2, progress=False)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"method": "multi", "n_targets": 0}, "n_targets must be"),
        ({"method": "multi", "n_targets": 16}, r"between 1 and n_knots − 1 = 15"),
        ({"method": "multi", "n_targets": 5, "n_knots": 5}, r"n_knots − 1 = 4"),
        ({"method": "multi", "n_targets": 1.5}, "n_targets must be"),
        ({"method": "joint", "n_targets": 2}, "for method='multi'"),
        ({"method": "matrix", "n_targets": 2}, "for method='multi'"),
        ({"method": "matrix", "l1_ratio": 0.5}, "l1_ratio"),
        ({"method": "multi", "l1_ratio": 0.5}, "l1_ratio"),
    ],
)
def test_bad_input(data, settings, message):
    X, y, _ = data
    with pytest.raises(ValueError, match=message):
        SuquanClassifier(**settings).fit(X, y)
    with pytest.raises(ValueError, match=message):
        SuquanClassifierCV(**settings).fit(X, y)


def test_dask_arrays_are_refused(data):
    da = pytest.importorskip("dask.array")
    X, y, _ = data
    blocks = da.from_array(X, chunks=(40, -1))
    with pytest.raises(ValueError, match=r"not offered for Dask.*X\.compute"):
        SuquanClassifier("multi").fit(blocks, y)
    model = SuquanClassifier("multi", n_targets=2).fit(X, y)
    with pytest.raises(ValueError, match=r"X\.compute"):
        model.transform(blocks)
    np.testing.assert_array_equal(model.predict(blocks).compute(), model.predict(X))
