"""Probabilities that follow from out-of-fold scores."""

import runpy
import warnings

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import minimize
from scipy.special import expit, softmax
from sklearn.base import clone
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score, brier_score_loss, log_loss
from sklearn.model_selection import RepeatedStratifiedKFold, StratifiedKFold

from suquan import SuquanClassifier, SuquanClassifierCV, load_model, save_model
from suquan.calibration import (
    apply_calibration,
    centre_scores,
    fit_calibration,
    measure_probabilities,
    reliability,
)
from suquan.datasets import make_corrupted_classification
from suquan.export import export_model
from suquan.methods import METHODS
from suquan.model.rounds import Candidate
from suquan.selection.grids import choose

SMALL = {"alphas": [1e-3, 1.0], "smoothnesses": 1, "n_repeats": 1, "random_state": 0}


def make_scores(n=300, seed=0):
    rng = np.random.default_rng(seed)
    u = rng.normal(size=n)
    codes = (rng.random(n) < expit(3 * u - 1)).astype(int)
    return 1e-3 * u + 0.2, codes, rng.uniform(0.2, 2.0, n)


def make_problem(n=90, p=20, seed=0):
    X, y = make_corrupted_classification(n, p, random_state=seed)
    return X, y.astype(bool)


def platt(codes, weights):
    """Platt's targets of the second of two classes."""
    first, second = weights[codes == 0].sum(), weights[codes == 1].sum()
    return np.where(codes == 1, (second + 1) / (second + 2), 1 / (first + 2))


# -- the curves --------------------------------------------------------------------------------------


def test_sigmoid_is_logistic_regression_on_the_targets_of_platt():
    u, codes, s = make_scores()
    found = fit_calibration("sigmoid", u, codes, s)
    t = platt(codes, s)
    # A sample with target t counts t times as a one and 1 − t times as a zero.
    reference = LogisticRegression(C=np.inf, tol=1e-12, max_iter=10000).fit(
        np.r_[u, u][:, None] * 1e3, np.repeat([1, 0], len(u)), np.r_[s * t, s * (1 - t)]
    )
    assert_allclose(found["slope"], reference.coef_[0, 0] * 1e3, rtol=1e-4)
    p = apply_calibration(found, u)
    assert_allclose(p, reference.predict_proba(u[:, None] * 1e3), atol=1e-6)
    assert log_loss(codes, p, sample_weight=s) < 0.8 * log_loss(codes, expit(u), sample_weight=s)


def test_a_higher_score_never_means_less_and_the_scale_does_not_matter():
    u, codes, s = make_scores()
    p = apply_calibration(fit_calibration("sigmoid", u, codes, s), u)
    for scale, shift in ((1e6, -3.0), (1e-4, 0.0)):
        v = scale * u + shift
        assert_allclose(apply_calibration(fit_calibration("sigmoid", v, codes, s), v), p, atol=1e-6)
    found = fit_calibration("sigmoid", -u, codes, s)
    assert found["slope"] == 0.0
    p = apply_calibration(found, -u)[:, 1]
    assert_allclose(p, np.average(platt(codes, s), weights=s), atol=1e-7)


@pytest.mark.parametrize("kind", ["sigmoid", "isotonic"])
def test_no_probability_is_zero_or_one_after_a_perfect_separation(kind):
    u, codes = np.arange(20.0), np.arange(20) // 10
    p = apply_calibration(fit_calibration(kind, u, codes, np.ones(20)), np.array([-5.0, 50.0]))
    if kind == "isotonic":
        assert_allclose(p[:, 1], [1 / 12, 11 / 12])
    assert 0 < p[0, 1] < 0.1
    assert 0.9 < p[1, 1] < 1


def test_isotonic_is_that_of_scikit_learn_on_the_targets_of_platt():
    u, codes, s = make_scores()
    u = np.round(u, 4)  # ties
    found = fit_calibration("isotonic", u, codes, s)
    new = np.linspace(u.min() - 1e-3, u.max() + 1e-3, 101)
    reference = IsotonicRegression(out_of_bounds="clip").fit(u, platt(codes, s), s)
    assert_allclose(apply_calibration(found, new)[:, 1], reference.predict(new), atol=1e-12)


def test_temperature_is_the_best_of_all():
    rng = np.random.default_rng(1)
    u = rng.normal(size=(200, 3))
    codes = np.array([rng.choice(3, p=row) for row in softmax(2.5 * u, axis=1)])
    s = rng.uniform(0.5, 1.5, 200)
    found = fit_calibration("sigmoid", u, codes, s)
    assert found["kind"] == "temperature"
    t = np.where(codes[:, None] == np.arange(3), s.sum() + 1, 0.5) / (s.sum() + 2)

    def loss(x):
        return -np.sum(s[:, None] * t * np.log(softmax(u * x[0], axis=1)))

    best = minimize(loss, [1.0], method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-12}).x[0]
    assert_allclose(found["temperature"], 1 / best, rtol=1e-5)
    assert 0.3 < found["temperature"] < 0.6
    assert_allclose(apply_calibration(found, u), softmax(u * best, axis=1), atol=1e-5)


# -- what probabilities are worth --------------------------------------------------------------------


@pytest.mark.parametrize("n_classes", [2, 3])
def test_measures_are_those_of_scikit_learn(n_classes):
    rng = np.random.default_rng(2)
    p = softmax(rng.normal(size=(80, n_classes)), axis=1)
    codes = rng.integers(n_classes, size=80)
    prevalence = np.bincount(rng.integers(n_classes, size=50)) / 50
    found = measure_probabilities(p, codes, prevalence)
    assert_allclose(found["log_loss"], log_loss(codes, p))
    squares = np.mean(np.sum((p - np.eye(n_classes)[codes]) ** 2, axis=1))
    assert_allclose(found["brier"], brier_score_loss(codes, p[:, 1]) if n_classes == 2 else squares)
    at_half = balanced_accuracy_score(codes, np.argmax(p, axis=1))
    assert_allclose(found["balanced_accuracy"], at_half)
    if n_classes == 2:
        at_share = balanced_accuracy_score(codes, p[:, 1] > prevalence[1])
        assert_allclose(found["balanced_accuracy_at_prevalence"], at_share)
    p[3] = np.nan
    assert all(np.isnan(v) for v in measure_probabilities(p, codes, prevalence).values())


def test_reliability_has_means_of_ten_bins():
    p = np.array([0.01, 0.09, 0.55, 1.0])
    found = reliability(np.column_stack([1 - p, p]), np.array([0, 1, 1, 1]))
    assert_allclose(found["predicted"], [0.05, 0.55, 1.0])
    assert_allclose(found["observed"], [0.5, 1.0, 1.0])
    assert found["count"].tolist() == [2, 1, 1]


# -- the estimator -----------------------------------------------------------------------------------


def test_out_of_fold_scores_are_those_of_models_that_have_not_seen_the_sample():
    X, y = make_problem()
    cv = RepeatedStratifiedKFold(n_splits=3, n_repeats=2, random_state=0)
    model = SuquanClassifierCV("fixed", cv=cv, **SMALL).fit(X, y)
    samples = [test for _, test in cv.split(X, y)]
    assert_array_equal(model.out_of_fold_samples_, np.concatenate(samples))
    plain = SuquanClassifier("fixed", alpha=model.alpha_)
    expected = [
        plain.fit(X[train], y[train]).decision_function(X[test]) for train, test in cv.split(X, y)
    ]
    shift = model.intercept_ - model.best_estimator_.intercept_
    assert_allclose(model.out_of_fold_scores_, np.concatenate(expected) + shift, atol=1e-6)


@pytest.mark.parametrize("n_features", [8, 60])
def test_out_of_fold_scores_count_missing_values_as_predictions_do(n_features):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((45, n_features))
    y = X[:, 0] + X[:, 1] > 0
    X[rng.random(X.shape) < 0.2] = np.nan
    rules = {"missing": "ignore", "class_weight": "balanced", "n_knots": 6}
    cv = RepeatedStratifiedKFold(n_splits=3, n_repeats=5, random_state=0)
    model = SuquanClassifierCV("fixed", cv=cv, **rules, **SMALL).fit(X, y)
    plain = SuquanClassifier("fixed", alpha=model.alpha_, **rules)
    expected = [
        plain.fit(X[train], y[train]).decision_function(X[test]) for train, test in cv.split(X, y)
    ]
    shift = model.intercept_ - model.best_estimator_.intercept_
    assert_allclose(model.out_of_fold_scores_, np.concatenate(expected) + shift, atol=1e-6)


@pytest.mark.parametrize("kind", ["sigmoid", "isotonic"])
def test_calibration_is_fitted_to_them_and_a_repeat_weighs_one_over_their_number(kind):
    X, y = make_problem()
    # Samples of the second split are tested twice.
    once = list(StratifiedKFold(3).split(X, y))
    splits = [*once, once[1]]
    weights = np.linspace(0.5, 1.5, len(y))
    model = SuquanClassifierCV("fixed", cv=splits, calibration=kind, **SMALL)
    model.fit(X, y, sample_weight=weights)
    rows = model.out_of_fold_samples_
    s = weights[rows] / np.where(np.isin(rows, once[1][1]), 2.0, 1.0)
    logit = [np.log(weights[k][y[k]].sum() / weights[k][~y[k]].sum()) for k, _ in splits]
    everyone = np.log(weights[y].sum() / weights[~y].sum())
    shifts = np.repeat(everyone - logit, [len(test) for _, test in splits])
    u = model.out_of_fold_scores_ + shifts
    expected = fit_calibration(kind, u, y[rows].astype(int), s)
    assert model.calibration_.keys() == expected.keys()
    p = apply_calibration(expected, model.decision_function(X))
    assert_allclose(model.predict_proba(X), p, atol=1e-8)
    assert_array_equal(model.predict(X), model.classes_[np.argmax(p, axis=1)])


def test_strong_penalties_no_longer_give_one_probability_to_all():
    X, y = make_problem(200)
    settings = {**SMALL, "alphas": [1e4]}
    plain = SuquanClassifierCV("fixed", calibration=None, **settings).fit(X, y)
    model = SuquanClassifierCV("fixed", **settings).fit(X, y)
    assert np.ptp(plain.predict_proba(X)[:, 1]) < 0.01
    assert np.ptp(model.predict_proba(X)[:, 1]) > 0.5
    assert len(np.unique(model.predict(X))) == 2
    assert_allclose(np.ptp(model.decision_function(X) - plain.decision_function(X)), 0, atol=1e-12)
    assert plain.calibration_ is None
    assert_array_equal(plain.predict_proba(X), plain.best_estimator_.predict_proba(X))


def test_predict_is_the_more_probable_class_without_an_intercept_too():
    X, y = make_problem(200)
    rare = np.flatnonzero(~y | (np.arange(len(y)) % 4 == 0))
    settings = {**SMALL, "alphas": [1e-2], "cv": 3, "fit_intercept": False}
    model = SuquanClassifierCV("fixed", **settings).fit(X[rare], y[rare])
    assert_array_equal(model.predict(X), model.predict_proba(X)[:, 1] > 0.5)
    assert_array_equal(model.predict(X), model.decision_function(X) > 0)
    plain = clone(model).set_params(calibration=None).fit(X[rare], y[rare])
    assert np.mean(model.predict(X) != plain.predict(X)) > 0.1
    assert_array_equal(plain.predict(X), plain.decision_function(X) > 0)


def test_class_weights_are_part_of_what_is_calibrated():
    X, y = make_problem(300)
    keep = np.flatnonzero(~y | (np.arange(len(y)) % 5 == 0))
    settings = {**SMALL, "cv": 3}
    balanced = SuquanClassifierCV("fixed", class_weight="balanced", **settings)
    p = balanced.fit(X[keep], y[keep]).predict_proba(X[keep])[:, 1]
    assert abs(p[y[keep]].mean() + p[~y[keep]].mean() - 1.0) < 0.15
    plain = clone(balanced).set_params(class_weight=None).fit(X[keep], y[keep])
    share = y[keep].mean()
    assert abs(plain.predict_proba(X[keep])[:, 1].mean() - share) < 0.05


def test_more_classes_get_one_temperature():
    X, y = make_problem(150)
    labels = np.where(y, "a", np.where(np.arange(150) % 2, "b", "c"))
    model = SuquanClassifierCV("fixed", cv=3, **SMALL).fit(X, labels)
    assert model.out_of_fold_scores_.shape == (150, 3)
    p = softmax(model.decision_function(X) / model.calibration_["temperature"], axis=1)
    assert_allclose(model.predict_proba(X), p)
    with pytest.raises(ValueError, match=r"isotonic.*two classes; got 3.*temperature"):
        clone(model).set_params(calibration="isotonic").fit(X, labels)


def test_two_outputs_of_two_classes_are_calibrated_by_their_difference():
    X, y = make_problem()
    model = SuquanClassifierCV("fixed", loss="softmax", cv=3, **SMALL).fit(X, y)
    assert model.calibration_["kind"] == "sigmoid"
    expected = apply_calibration(model.calibration_, model.decision_function(X))
    assert_array_equal(model.predict_proba(X), expected)


def test_calibrations_that_are_unknown_or_have_too_few_samples_are_refused_or_left_out():
    X, _ = make_problem(30)
    y = np.where(np.arange(30) < 3, "rare", "common")
    with pytest.raises(ValueError, match="calibration must be one of 'sigmoid', 'isotonic'"):
        SuquanClassifierCV(calibration="beta").fit(X, y)
    model = SuquanClassifierCV("fixed", cv=3, **SMALL)
    with pytest.raises(
        ValueError, match=r"two test samples of each class.*split 0.*1 of class 'rare'"
    ):
        clone(model).set_params(calibration="isotonic").fit(X, y)
    with pytest.warns(UserWarning, match=r"1 of class 'rare'. Probabilities are not calibrated"):
        model.fit(X, y)
    plain = clone(model).set_params(calibration=None).fit(X, y)
    assert model.calibration_ is None
    assert_array_equal(model.predict_proba(X), plain.predict_proba(X))


# -- predict and the sign of the score ----------------------------------------------------------------


def assert_sign_is_the_class(model, X):
    positive = model.decision_function(X) > 0
    assert_array_equal(positive, model.predict(X) == model.classes_[1])
    assert_array_equal(positive, model.predict_proba(X)[:, 1] > 0.5)


@pytest.mark.parametrize("loss", ["auto", "softmax"])
@pytest.mark.parametrize("kind", ["sigmoid", "isotonic"])
def test_predict_is_the_sign_of_the_score_for_every_sample(kind, loss, tmp_path):
    n_moved, n_one_class = 0, 0
    for seed in range(10):
        rng = np.random.default_rng(seed)
        n, p = rng.integers(30, 90), rng.integers(4, 20)
        X = rng.standard_normal((n, p))
        y = np.array(["no", "yes"])[
            (2 * X[:, 0] + rng.standard_normal(n) > rng.normal()).astype(int)
        ]
        y[:12] = np.repeat(["no", "yes"], 6)
        model = SuquanClassifierCV(
            "fixed", cv=3, calibration=kind, loss=loss, alphas=[1e-3, 1.0], random_state=0
        )
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model.fit(X, y)
        new = np.vstack([X, rng.standard_normal((200, p))])
        if any("never passes 0.5" in str(warning.message) for warning in caught):
            n_one_class += 1
            continue
        assert not caught
        assert_sign_is_the_class(model, new)
        n_moved += np.any(
            model.predict(new)
            != model.classes_[(model.best_estimator_.decision_function(new) > 0).astype(int)]
        )
        same = load_model(save_model(model, tmp_path / "model.suquan"))
        assert_sign_is_the_class(same, new)
        assert_array_equal(same.decision_function(new), model.decision_function(new))
        folder = export_model(model, tmp_path / f"exported {seed}")
        rows = pd.DataFrame(new).set_axis([f"x{j}" for j in range(p)], axis=1)
        rows.to_csv(tmp_path / "new.csv", index_label="sample")
        runpy.run_path(str(folder / "score.py"))["main"](tmp_path / "new.csv", tmp_path / "out.csv")
        scores = pd.read_csv(tmp_path / "out.csv")["score"].to_numpy()
        assert_allclose(scores, model.decision_function(new), atol=1e-9)
        assert_array_equal(scores > 0, model.predict(new) == "yes")
    assert n_moved > 3
    assert n_one_class < 4


@pytest.mark.parametrize("kind", ["sigmoid", "isotonic"])
def test_shifted_calibration_gives_the_same_probabilities(kind):
    X, y = make_problem(200)
    keep = np.flatnonzero(~y | (np.arange(200) % 4 == 0))
    model = SuquanClassifierCV("fixed", cv=3, calibration=kind, **SMALL).fit(X[keep], y[keep])
    shift = (model.best_estimator_.intercept_ - model.intercept_).item()
    assert abs(shift) > 0.1
    old = {**model.calibration_}
    if kind == "sigmoid":
        assert old["intercept"] == 0.0
        old["intercept"] = -old["slope"] * shift
    else:
        old["scores"] = old["scores"] + shift
    u = model.best_estimator_.decision_function(X)
    assert_allclose(model.predict_proba(X), apply_calibration(old, u), atol=1e-9)
    # A file from before scores were shifted: classes follow the probabilities.
    model.intercept_, model.calibration_ = model.best_estimator_.intercept_, old
    assert_array_equal(model.predict(X), model.predict_proba(X)[:, 1] > 0.5)


def test_isotonic_scores_are_shifted_by_the_largest_one_whose_probability_is_at_most_one_half():
    def shift(p):
        found = {"kind": "isotonic", "scores": np.arange(4.0), "probabilities": np.array(p)}
        centred = centre_scores(found)
        return None if centred is None else centred[0]

    assert shift([0.1, 0.5, 0.5, 0.9]) == 2.0
    assert shift([0.1, 0.4, 0.6, 0.9]) == 1.5
    assert shift([0.1, 0.2, 0.3, 0.5]) is None
    assert shift([0.6, 0.7, 0.8, 0.9]) is None
    assert centre_scores({"kind": "sigmoid", "slope": 0.0, "intercept": -1.0}) is None


@pytest.mark.parametrize("kind", ["sigmoid", "isotonic"])
def test_without_a_signal_there_is_no_shift_and_one_warning(kind):
    X, _ = make_problem(60)
    y = np.arange(60) % 3 == 0
    X = X[np.argsort(np.random.default_rng(5).random(60))]
    model = SuquanClassifierCV("fixed", cv=3, calibration=kind, **{**SMALL, "alphas": [1e6]})
    X[y], X[~y] = np.sort(X[y], axis=1), np.sort(X[~y], axis=1)  # nothing but the order of all
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X, y)
    told = [str(warning.message) for warning in caught]
    assert len(told) == 1
    assert "never passes 0.5, so that predict gives False for all samples" in told[0]
    assert_array_equal(model.intercept_, model.best_estimator_.intercept_)
    assert not model.predict(X).any()


@pytest.mark.parametrize("kind", ["sigmoid", "isotonic", None])
def test_model_files_keep_the_calibration(kind, tmp_path):
    X, y = make_problem()
    model = SuquanClassifierCV("fixed", cv=3, calibration=kind, **SMALL).fit(X, y)
    same = load_model(save_model(model, tmp_path / "model.suquan"))
    assert_array_equal(same.predict_proba(X), model.predict_proba(X))
    assert_array_equal(same.predict(X), model.predict(X))
    assert_array_equal(same.out_of_fold_scores_, model.out_of_fold_scores_)
    assert same.calibration == kind


# -- ties --------------------------------------------------------------------------------------------


def test_of_settings_whose_scores_tie_the_one_with_the_smaller_loss_is_taken():
    candidates = [Candidate(METHODS["fixed"], alpha, 0.0, 0) for alpha in (0.1, 1.0, 10.0)]
    scores = np.array([[0.7, 0.9], [0.9, 0.7], [0.8, 0.8]])
    assert choose(candidates, scores, "best", 0.5) == 2  # the largest alpha
    assert choose(candidates, scores, "best", 0.5, losses=np.array([0.3, 0.2, 0.4])) == 1
    better = scores + np.array([[0.0], [0.0], [0.01]])
    assert choose(candidates, better, "best", 0.5, losses=np.array([0.3, 0.2, 0.4])) == 2


def test_the_start_is_kept_where_scores_tie_whatever_the_loss():
    crossfit = METHODS["crossfit"]
    candidates = [
        Candidate(crossfit, 1.0, 0.0, r, None, d) for r, d in ((0, 0.0), (1, 0.5), (1, 1.0))
    ]
    scores = np.ones((3, 3))
    assert choose(candidates, scores, "smoothed", 0.5, 0.5, np.array([0.3, 0.2, 0.1])) == 0


def test_an_easy_problem_is_not_given_the_strongest_penalty():
    rng = np.random.default_rng(0)
    y = np.arange(60) % 2
    X = rng.normal(size=(60, 20)) + 8 * y[:, None] * (np.arange(20) < 10)
    model = SuquanClassifierCV("fixed", cv=3, **{**SMALL, "alphas": [1e-3, 1e-1, 10.0]}).fit(X, y)
    assert np.all(model.cv_results_["mean_test_score"] == 1.0)
    losses = model.cv_results_["mean_test_log_loss"]
    assert model.best_index_ == np.argmin(losses)
    assert model.alpha_ < 10.0
