"""Estimators with several targets: attributes, predictions, selection, files and bad input.

That they reach the minimum of the convex problem is tested in ``test_optimality.py``.
"""

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

# Samples of two classes that two targets of different shape tell apart.
RNG = np.random.default_rng(0)
X = RNG.standard_normal((120, 24))
SCORE = X[:, :8].sum(axis=1) + np.abs(X[:, 8:16]).sum(axis=1) - 6.3
LABELS = {
    "two classes": np.where(SCORE > 0, "high", "low"),
    "three classes": np.digitize(SCORE, [-1.0, 1.0]),
    "values": SCORE,
}
Y = LABELS["two classes"]
SETTINGS = [
    {"method": "multi", "n_targets": 2},
    {"method": "multi", "n_knots": 8, "smoothness": 0.01},
    {"method": "matrix"},
]
every_setting = pytest.mark.parametrize("settings", SETTINGS, ids=str)


@every_setting
@pytest.mark.parametrize("task", LABELS)
def test_attributes_predictions_and_files(settings, task, tmp_path):
    kind = SuquanRegressor if task == "values" else SuquanClassifier
    model = kind(**settings, alpha=0.1).fit(X, LABELS[task])
    predicted = model.predict(X) if task == "values" else model.decision_function(X)
    n_outputs = 3 if task == "three classes" else 1
    m, p = model.n_targets_, X.shape[1]
    n_knots = settings.get("n_knots", 16)
    assert 1 <= m <= settings.get("n_targets", n_knots - 1)
    assert model.target_knots_.shape == (m, n_knots)
    assert model.coef_.shape == (n_outputs, m * p)
    assert model.intercept_.shape == (n_outputs,)
    assert model.singular_values_.shape == (m,)
    assert np.all(np.diff(model.singular_values_) <= 0)
    squares, n_shown = model.singular_values_**2, len(model.target_quantiles_)
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
    other = kind(**settings, alpha=0.1).fit(np.exp(X), LABELS[task])  # the order is all that counts
    np.testing.assert_array_equal(model.coef_, other.coef_)
    same = load_model(save_model(model, tmp_path / "model.suquan"))
    np.testing.assert_array_equal(same.transform(X), model.transform(X))
    np.testing.assert_array_equal(same.predict(X), model.predict(X))


def test_names_of_the_copies():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(X, columns=[f"gene{j}" for j in range(X.shape[1])])
    model = SuquanClassifier("multi", n_targets=2, alpha=0.05).set_output(transform="pandas")
    copies = model.fit(frame, Y).transform(frame)
    assert copies.columns[[0, -1]].tolist() == ["gene0__1", "gene23__2"]
    assert copies.shape == (len(X), 48)
    np.testing.assert_array_equal(align_features(model, frame.iloc[:, ::-1]).values, X)
    with pytest.warns(UserWarning, match="1 of the model's 24 features"):
        lost = align_features(model, frame.iloc[:, 1:]).lost
    weight = np.abs(model.coef_).reshape(-1, 24).sum(axis=0)
    assert lost == pytest.approx(weight[0] / weight.sum())


def test_weights_count_as_repeated_rows_and_classes_may_change_places():
    weights = np.tile([0, 1, 2], 40)
    plain = SuquanClassifier("multi", alpha=0.05, tol=1e-6)
    scores = plain.fit(X, Y, sample_weight=weights).decision_function(X)
    plain.fit(np.repeat(X, weights, axis=0), np.repeat(Y, weights))
    np.testing.assert_allclose(scores, plain.decision_function(X), atol=1e-4)
    plain.fit(X, np.where(Y == "high", "z", "a"), weights)
    np.testing.assert_allclose(scores, -plain.decision_function(X), atol=1e-4)


def test_matrix_is_a_kernel_machine():
    alpha, K, smoothness = 0.5, 10, 0.02
    model = SuquanClassifier("matrix", alpha=alpha, n_knots=K, smoothness=smoothness, tol=1e-10)
    model.fit(X, Y)
    # The constant by which the kernel is divided: tr(B R⁻¹ Bᵀ), from samples without ties.
    places = (np.arange(24) + 0.5) / 24, (np.arange(K) + 0.5) / K
    B = np.stack([np.interp(*places, unit) for unit in np.eye(K)], axis=1)
    L = np.diag(np.r_[1.0, np.full(K - 2, 2.0), 1.0]) - np.eye(K, k=1) - np.eye(K, k=-1)
    R = (np.eye(K) + smoothness * K**2 * L) / K
    values, vectors = np.linalg.eigh(permutation_kernel(X, n_knots=K, smoothness=smoothness))
    root = vectors * np.sqrt(values.clip(0.0) * np.trace(B @ np.linalg.inv(R) @ B.T))
    other = LogisticRegression(C=1 / (2 * len(Y) * alpha), solver="newton-cholesky", tol=1e-12)
    scores = other.fit(root, Y).decision_function(root)
    np.testing.assert_allclose(model.decision_function(X), scores, atol=1e-6)
    J = log_loss(Y, other.predict_proba(root)) + alpha * np.sum(other.coef_**2)
    assert model.objective_ == pytest.approx(J, abs=1e-9)


@pytest.mark.parametrize("method", ["multi", "matrix"])
def test_missing_values_and_ties(method):
    rounded = np.round(2.0 * X) / 2.0
    rounded[np.random.default_rng(1).random(X.shape) < 0.1] = np.nan
    model = SuquanClassifier(method, alpha=0.1, missing="ignore").fit(rounded, Y)
    assert 0.0 <= model.duality_gap_ + 1e-12 <= 1e-4 * model.objective_ + 1e-12
    assert model.score(rounded, Y) > 0.75


def test_samples_without_any_order():
    with pytest.warns(UserWarning, match="nothing to rank"):
        model = SuquanClassifier("multi").fit(np.ones((6, 4)), [0, 1, 1, 0, 1, 1])
    assert model.n_targets_ == 1
    with pytest.warns(UserWarning, match="one value throughout"):
        assert np.isnan(model.predict_proba(np.ones((2, 4)))).all()
    np.testing.assert_allclose(model.predict_proba(np.eye(4))[:, 1], 4 / 6)


def test_a_normaliser_before_another_model(tmp_path):
    normalizer = SupervisedQuantileNormalizer("multi", n_targets=2, alpha=0.05)
    pipeline = make_pipeline(normalizer, LogisticRegression()).fit(X, Y)
    copies = pipeline[0].transform(X)
    assert copies.shape == (len(X), 2 * X.shape[1])
    assert pipeline.score(X, Y) > 0.8
    assert len(pipeline[0].get_feature_names_out()) == 2 * X.shape[1]
    same = load_model(save_model(pipeline[0], tmp_path / "model.suquan"))
    np.testing.assert_array_equal(same.transform(X), copies)


def test_selection_of_the_number_of_targets(tmp_path):
    grid = {"alphas": [0.05, 0.2], "cv": 3, "random_state": 0}
    model = SuquanClassifierCV("multi", n_targets=[1, 2], **grid).fit(X, Y)
    assert model.cv_results_["param_n_targets"].tolist() == [1, 1, 2, 2]
    assert model.n_targets_ <= model.cv_results_["param_n_targets"][model.best_index_]
    same = load_model(save_model(model, tmp_path / "model.suquan"))
    np.testing.assert_array_equal(same.predict_proba(X), model.predict_proba(X))
    mixed = SuquanRegressorCV(["matrix", "joint", "multi"], alphas=2, smoothnesses=1, cv=3)
    mixed.fit(X[:40], SCORE[:40])
    assert set(mixed.cv_results_["param_method"]) == {"matrix", "joint", "multi"}
    alone = SuquanClassifierCV("matrix", alphas=3, cv=3, random_state=0, n_knots=6)
    alone.fit(X[:20], Y[:20])
    chosen = SuquanClassifier("matrix", alpha=alone.alpha_, n_knots=6).fit(X[:20], Y[:20])
    np.testing.assert_allclose(alone.coef_, chosen.coef_, atol=1e-10)


def test_comparison():
    methods = ["normal", "multi", "matrix", "joint"]
    grid = {"outer_cv": 3, "inner_cv": 2, "alphas": 2, "smoothnesses": 2, "progress": False}
    result = compare(X, Y, methods=methods, n_targets=2, **grid)
    assert result.summary["method"].tolist() == [*methods, "start", "best_fixed"]
    assert np.all(result.summary["mean"] > 0.5)
    assert result.targets["matrix"].shape == (3, 24)
    with pytest.raises(ValueError, match="n_targets is for the method 'multi'"):
        compare(X, Y, methods=["normal", "matrix"], n_targets=2, progress=False)


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
def test_bad_input(settings, message):
    for kind in (SuquanClassifier, SuquanClassifierCV):
        with pytest.raises(ValueError, match=message):
            kind(**settings).fit(X, Y)


def test_dask_arrays_are_refused():
    da = pytest.importorskip("dask.array")
    blocks = da.from_array(X, chunks=(40, -1))
    with pytest.raises(ValueError, match=r"not offered for Dask.*X\.compute"):
        SuquanClassifier("multi").fit(blocks, Y)
    model = SuquanClassifier("multi", n_targets=2).fit(X, Y)
    with pytest.raises(ValueError, match=r"X\.compute"):
        model.transform(blocks)
    np.testing.assert_array_equal(model.predict(blocks).compute(), model.predict(X))
