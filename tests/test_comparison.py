import contextlib
import csv
import io
import os
import re
import signal
import subprocess
import sys
import time
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import stats
from scipy.special import expit
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.ensemble import ExtraTreesClassifier, ExtraTreesRegressor
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import (
    f1_score,
    fbeta_score,
    log_loss,
    make_scorer,
    precision_score,
    r2_score,
    roc_auc_score,
)
from sklearn.model_selection import GroupKFold, KFold, RepeatedStratifiedKFold, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from suquan import SuquanClassifier, compare, quantile_normalize
from suquan._progress import Progress
from suquan.comparing import study, tasks
from suquan.comparing.tables import verdict_of
from suquan.comparison import DEFAULT_METHODS
from suquan.datasets import make_corrupted_classification, make_corrupted_survival
from suquan.statistics import corrected_difference, holm, holm_differences
from suquan.survival import as_outcome

SETTINGS = {
    "outer_cv": StratifiedKFold(3),
    "inner_cv": 2,
    "alphas": [0.05, 0.5],
    "smoothnesses": [0.01, 0.1],
    "n_repeats": 1,
    "progress": False,
}
FEW = ["normal", "uniform", "crossfit"]


def make_problem(n_samples=60, n_features=10, task="binary", seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_samples, n_features))
    u = 2.0 * quantile_normalize(X, "normal") @ rng.standard_normal(n_features)
    if task == "regression":
        return np.exp(X), u + rng.standard_normal(n_samples)
    return np.exp(X), (rng.random(n_samples) < expit(u)).astype(int)


def column(result, method, name):
    return result.folds[name][result.folds["method"] == method]


def assert_same(first, second):
    for name in set(first.folds) - {"seconds"}:
        np.testing.assert_array_equal(first.folds[name], second.folds[name])
    assert first.verdict == second.verdict
    for name in first.targets:
        np.testing.assert_array_equal(first.targets[name], second.targets[name])


@pytest.fixture(scope="module")
def result():
    return compare(*make_problem(), **SETTINGS)


@pytest.mark.parametrize("name", ["raw", "median", "uniform", "crossfit"])
def test_missing_values_of_test_samples_count_as_their_training_means(name):
    X, y = make_problem(60, 8)
    X[np.random.default_rng(1).random(X.shape) < 0.3] = np.nan
    settings = {**SETTINGS, "alphas": [0.1], "smoothnesses": [0.1], "scoring": "neg_log_loss"}
    result = compare(
        X, y, methods=[name], departures=1.0, calibration=None, missing="ignore", **settings
    )
    scores = []
    for train, test in SETTINGS["outer_cv"].split(X, y):
        if name == "raw":
            Z = (X - np.nanmean(X[train])) / np.nanstd(X[train])
            filled = np.where(np.isnan(Z), np.nanmean(Z[train], axis=0), Z)
            model = LogisticRegression(C=1 / (2 * len(train) * 0.1), tol=1e-10, max_iter=10_000)
            chances = model.fit(np.nan_to_num(Z[train]), y[train]).predict_proba(filled[test])
        else:
            learns = {"method": "crossfit", "smoothness": 0.1, "n_repeats": 1, "random_state": 0}
            how = learns if name == "crossfit" else {"method": "fixed", "init": name}
            model = SuquanClassifier(**how, alpha=0.1, missing="ignore").fit(X[train], y[train])
            chances = model.predict_proba(X[test])
        scores.append(-log_loss(y[test], chances))
    np.testing.assert_allclose(column(result, name, "score"), scores, rtol=1e-5)


# -- tables ------------------------------------------------------------------------------------------


def test_every_method_has_one_row_per_fold(result):
    names = [*DEFAULT_METHODS, "start", "best_fixed"]
    assert DEFAULT_METHODS[:5] == ("raw", "median", "uniform", "normal", "crossfit")
    assert result.summary["method"].tolist() == names
    assert {len(column) for column in result.folds.values()} == {3 * len(names)}
    for name in names:
        np.testing.assert_array_equal(column(result, name, "fold"), [0, 1, 2])
        np.testing.assert_array_equal(column(result, name, "repeat"), [0, 0, 0])
        if not name.startswith("forest"):
            assert set(column(result, name, "alpha")) <= {0.05, 0.5}
    assert np.all(column(result, "start", "rounds") == 0)


def test_summary_and_tests_are_those_of_numpy_and_scipy(result):
    scores = {name: column(result, name, "score") for name in result.summary["method"]}
    means = np.array([values.mean() for values in scores.values()])
    np.testing.assert_allclose(result.summary["mean"], means)
    np.testing.assert_allclose(result.summary["std"], [v.std(ddof=1) for v in scores.values()])
    assert np.all(np.diff(means[np.argsort(result.summary["rank"])]) <= 0)
    tests = result.tests
    assert len(tests["method"]) == len(scores) * (len(scores) - 1)
    for k, (a, b) in enumerate(zip(tests["method"], tests["other"], strict=True)):
        d = scores[a] - scores[b]
        expected = corrected_difference(d, 0.5)
        assert tests["difference"][k] == pytest.approx(expected.mean)
        assert (tests["low"][k], tests["high"][k]) == pytest.approx((expected.low, expected.high))
        assert tests["p_t"][k] == pytest.approx(expected.p_value, nan_ok=True)
        if np.any(d):
            p = stats.wilcoxon(d, alternative="greater").pvalue
            assert tests["p_wilcoxon"][k] == pytest.approx(p)
    np.testing.assert_allclose(tests["p_wilcoxon_holm"], holm(tests["p_wilcoxon"]))
    once = tests["method"] < tests["other"]
    np.testing.assert_allclose(tests["p_t_holm"][once], holm(tests["p_t"][once]))


def test_contrasts_are_crossfit_against_its_start_and_best_fixed_and_others_against_crossfit(
    result,
):
    scores = {name: column(result, name, "score") for name in result.summary["method"]}
    first, second = (corrected_difference(scores["crossfit"] - scores[name], 0.5)
                     for name in ("start", "best_fixed"))  # fmt: skip
    assert result.contrast == pytest.approx(first, nan_ok=True)
    others = [scores[name] - scores["crossfit"] for name in ("forest", "forest_raw")]
    rows = [first, second, *holm_differences(others, 0.5)]
    names = ("difference", "low", "high", "t", "p")
    np.testing.assert_allclose(np.transpose([result.contrasts[name] for name in names]), rows)
    assert result.contrasts["method"].tolist() == ["crossfit", "crossfit", "forest", "forest_raw"]
    assert result.contrasts["other"].tolist() == ["start", "best_fixed", "crossfit", "crossfit"]
    assert f"{second.mean:+.4f}" in result.verdict


def test_best_fixed_has_the_best_inner_score_of_raw_start_and_the_fixed_targets(tmp_path):
    X, y = make_problem()
    methods = ["raw", "median", "normal", "start"]
    result = compare(X, y, methods=[*methods, "crossfit"], checkpoint=tmp_path, **SETTINGS)
    store = tasks.Store(tmp_path)
    for k in range(3):
        outcomes = {name: store.load((name, k)) for name in methods}
        best = max(methods, key=lambda name: outcomes[name].inner_score)
        assert column(result, "best_fixed", "score")[k] == outcomes[best].score
        assert column(result, "best_fixed", "alpha")[k] == outcomes[best].alpha


def test_targets_of_the_folds_make_a_band(result):
    low, middle, high = result.target_band()
    assert np.all(low <= middle)
    assert np.all(middle <= high)
    assert set(result.targets) == {"crossfit"}
    assert result.targets["crossfit"].shape == (3, 10)
    uniform = (np.arange(10) - 4.5) / np.sqrt(np.mean((np.arange(10) - 4.5) ** 2))
    np.testing.assert_allclose(result.initial_target, uniform)


# -- the verdict -------------------------------------------------------------------------------------


def make_contrasts(*rows):
    names = ["crossfit", "crossfit", *(f"other {k}" for k in range(2, len(rows)))]
    keys = ("difference", "low", "high", "t", "p")
    columns = dict(zip(keys, np.transpose(rows), strict=True))
    return {"method": np.array(names), "other": np.array(names[::-1]), **columns}


@pytest.mark.parametrize(
    ("low", "high", "says"),
    [
        (0.01, 0.03, "Learning the target helps: roc_auc"),
        (-0.03, -0.01, "Learning the target hurts: roc_auc"),
        (-0.01, 0.03, "No detectable benefit of learning the target: roc_auc"),
    ],
)
def test_verdict_names_differences_intervals_folds_that_learned_and_better_methods(low, high, says):
    first, choice = ((low + high) / 2, low, high, 1.0, 0.5), (-0.2, -0.3, -0.1, 1.0, 0.01)
    told = verdict_of(make_contrasts(first, choice), "roc_auc", 15, 7)
    assert told.startswith(says)
    for number in (low, high, (low + high) / 2):
        assert f"{number:+.4f}" in told
    assert "left in 7 of 15 outer folds" in told
    assert "worse than the best alternative inside each fold: -0.2000" in told
    assert "Better than" not in told
    none, up = (0.0, -0.1, 0.1, 0.0, 1.0), (0.3, 0.1, 0.5, 3.0, 0.01)
    assert verdict_of(make_contrasts(first, choice, up, none), "roc_auc", 15, 7).endswith(
        "Better than the learned target, intervals adjusted: 'other 2' +0.3000 (95% interval +0.1000 to "
        "+0.5000)."
    )


def test_one_outer_fold_gives_no_verdict():
    contrasts = make_contrasts(*[corrected_difference(np.array([0.02]), 0.5)] * 2)
    told = verdict_of(contrasts, "roc_auc", 1, 1)
    assert told.startswith("No verdict: one outer fold")
    assert "+0.0200" in told


@pytest.mark.parametrize("methods", [["normal", "raw"], ["joint", "spav"], ["svd"]])
def test_there_is_no_verdict_without_one_method_that_learns_from_a_start(methods):
    result = compare(*make_problem(), methods=methods, **SETTINGS)
    assert result.contrast is None
    assert result.contrasts == {}
    assert result.verdict.startswith("No verdict")
    assert "start" not in result.summary["method"]
    n_methods = len(result.summary["method"])
    assert {len(column) for column in result.tests.values()} == {n_methods * (n_methods - 1)}


def test_learning_that_is_switched_off_is_not_said_to_help():
    X, y = make_corrupted_classification(
        300, 20, target="uniform", corrupted="normal", random_state=0
    )
    methods = ["normal", "exponential", "crossfit"]
    result = compare(X, y, methods=methods, departures=[0], **{**SETTINGS, "outer_cv": 3})
    assert result.contrast[:3] == (0.0, 0.0, 0.0)
    assert np.isnan(result.contrast.p_value)
    assert result.verdict.startswith("Nothing was learned: the initial target was kept in all 3")


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"n_features": 90, "n_knots": 7},
        {"init": "median", "calibration": None},
        {"methods": ["joint"], "departures": [0, 1]},
        {"task": "regression"},
    ],
)
def test_start_equals_the_learned_method_wherever_nothing_is_learned(settings):
    task, p = settings.pop("task", "binary"), settings.pop("n_features", 10)
    folds, methods = KFold(6, shuffle=True, random_state=0), settings.pop("methods", ["crossfit"])
    kept = 0
    for seed in range(2):
        X, y = make_problem(90, p, task, seed)
        given = {**SETTINGS, "outer_cv": folds, "min_gain": 1.0, **settings}
        result = compare(X, y, methods=methods, **given)
        same = column(result, methods[0], "rounds") == 0
        kept += same.sum()
        for name in ("score", "alpha", "log_loss", "brier"):
            if name in result.folds:
                learned, start = (column(result, m, name) for m in (methods[0], "start"))
                np.testing.assert_array_equal(learned[same], start[same])
        assert f"left in {6 - same.sum()} of 6 outer folds" in result.verdict or same.all()
    assert kept > 0


def test_an_own_estimator_that_is_better_is_named():
    rng, y = np.random.default_rng(0), np.arange(120) % 2
    X = rng.standard_normal((120, 10)) + y[:, None]  # a shift of whole samples, which no rank shows
    methods = ["normal", "crossfit", ("own", LogisticRegression())]
    verdict = compare(X, y, methods=methods, **{**SETTINGS, "outer_cv": StratifiedKFold(8)}).verdict
    assert re.search(r"Better than the learned target.*: 'own' \+0\.[3-5]", verdict)


def test_the_best_alternative_may_be_raw():
    rng, y = np.random.default_rng(0), np.arange(120) % 2
    X = rng.standard_normal((120, 10)) + y[:, None]
    shifted = compare(X, y, methods=["raw", "normal", "crossfit"], **SETTINGS)
    best, raw = (column(shifted, name, "score") for name in ("best_fixed", "raw"))
    np.testing.assert_array_equal(best, raw)


# -- forests -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("task", ["binary", "regression"])
def test_forests_are_extra_trees_on_uniform_ranks_and_on_the_values(task):
    X, y = make_problem(task=task)
    folds = StratifiedKFold(3) if task == "binary" else KFold(3)
    kind = ExtraTreesClassifier if task == "binary" else ExtraTreesRegressor
    X[3, :2] = np.nan
    given = {**SETTINGS, "outer_cv": folds, "missing": "ignore"}
    result = compare(X, y, methods=["forest", "forest_raw"], **given)
    ranks = quantile_normalize(X, "uniform", missing="ignore")
    for name, values in (("forest", np.nan_to_num(ranks, nan=0.5)), ("forest_raw", X)):
        for k, (train, test) in enumerate(folds.split(X, y)):
            model = kind(300, min_samples_leaf=2, random_state=0).fit(values[train], y[train])
            if task == "binary":
                expected = roc_auc_score(y[test], model.predict_proba(values[test])[:, 1])
                assert column(result, name, "log_loss")[k] < 1.0
            else:
                expected = r2_score(y[test], model.predict(values[test]))
            assert column(result, name, "score")[k] == pytest.approx(expected, abs=0.03)
    curved = X ** np.random.default_rng(0).uniform(0.5, 3.0, (60, 1))
    other = compare(curved, y, methods=["forest", "forest_raw"], **given)
    np.testing.assert_array_equal(*(column(r, "forest", "score") for r in (result, other)))
    assert np.any(column(result, "forest_raw", "score") != column(other, "forest_raw", "score"))


def test_times_to_event_have_no_forests():
    X, y = make_corrupted_survival(60, 8, random_state=0)
    settings = {**SETTINGS, "outer_cv": 2}
    result = compare(X, y, **settings)
    assert result.scoring == "concordance"
    assert not any(name.startswith("forest") for name in result.summary["method"])
    with pytest.raises(ValueError, match="for classes and values, not for times"):
        compare(X, y, methods=["forest"], **settings)


def test_permutations_never_change_the_verdict():
    X, y = make_problem()
    plain = compare(X, y, methods=FEW, **SETTINGS)
    result = compare(X, y, methods=FEW, n_permutations=3, **SETTINGS)
    assert_same(plain, result)
    means = result.permutations["mean"]
    observed = column(result, "crossfit", "score").mean()
    expected = (1 + np.sum(means >= observed)) / 4
    np.testing.assert_allclose(result.permutations["p_value"], expected)
    assert plain.permutations == {}


def test_integer_folds_are_shuffled_by_the_seed():
    X, y = make_problem()
    X, y = X[np.argsort(y, kind="stable")], np.sort(y)
    settings = {**SETTINGS, "methods": ["uniform"]}

    def scores(outer, inner=2, seed=0):
        given = {**settings, "outer_cv": outer, "inner_cv": inner, "random_state": seed}
        return compare(X, y, **given).folds["score"]

    np.testing.assert_array_equal(scores(3), scores(3))
    assert not np.array_equal(scores(3), scores(StratifiedKFold(3)))
    assert not np.array_equal(scores(3), scores(3, seed=1))
    same = RepeatedStratifiedKFold(n_splits=3, n_repeats=1, random_state=0)
    np.testing.assert_array_equal(scores(3), scores(same))
    np.testing.assert_array_equal(
        scores(3), scores(3, RepeatedStratifiedKFold(n_splits=2, n_repeats=1, random_state=0))
    )


NULL = {
    "methods": ["crossfit"], "outer_cv": 3, "inner_cv": 2, "alphas": [1.0], "smoothnesses": [0.0],
    "departures": [0.0], "calibration": None, "n_permutations": 19, "progress": False,
}  # fmt: skip


def make_grouped(seed, task):
    """Samples that are alike in groups of 5, and labels without signal that are constant there."""
    rng = np.random.default_rng(seed)
    groups = np.repeat(np.arange(24), 5)
    X = rng.standard_normal((24, 10))[groups] + 0.2 * rng.standard_normal((120, 10))
    if task == "classes":
        return X, rng.permutation(np.arange(24) % 2)[groups], groups
    times = rng.exponential(size=24), rng.permutation(np.arange(24) % 4 > 0)
    return X, as_outcome(np.column_stack(times)[groups]), groups


@pytest.mark.parametrize("task", ["classes", "times"])
def test_permuted_labels_stay_constant_in_groups(task):
    X, y, groups = make_grouped(0, task)
    seen = []

    def score(estimator, X, y):
        seen.append(np.sum(y["event"] if task == "times" else y))
        return 0.0

    compare(X, y, groups=groups, scoring=score, **{**NULL, "n_permutations": 3})
    assert len(seen) > 20
    assert not np.any(np.array(seen) % 5)


def test_p_value_of_thirds_of_risk_counts_patients_and_not_their_samples():
    """Data without signal, 20 samples a patient; single samples give 0.001 twice."""
    p_values = []
    for seed in range(4):
        rng, patient = np.random.default_rng(seed), np.repeat(np.arange(15), 20)
        X = rng.standard_normal((15, 6))[patient]
        y = np.column_stack([rng.exponential(size=15), np.arange(15) % 4 > 0])[patient]
        X = X + 0.1 * rng.standard_normal(X.shape)
        result = compare(
            X, y, groups=patient, scoring="concordance", **{**NULL, "n_permutations": 0}
        )
        p_values.append(result.risk_groups.p_value)
    assert min(p_values) > 0.05


@pytest.mark.slow
@pytest.mark.parametrize("task", ["classes", "times"])
def test_p_values_without_signal_are_uniform_where_labels_are_constant_in_groups(task):
    """Shuffling single samples gives p ≤ 0.05 in 13 and in 10 of 41."""
    p_values = []
    for seed in range(41):
        X, y, groups = make_grouped(seed, task)
        more = {"scoring": "concordance"} if task == "times" else {}
        result = compare(X, y, groups=groups, **NULL, **more)
        p_values.append(result.permutations["p_value"][0])
    assert np.sum(np.array(p_values) <= 0.05) <= 5
    assert 0.3 < np.mean(p_values) < 0.7


def test_permuted_labels_have_stratified_folds_of_their_own(monkeypatch):
    """Every fold of every permutation has its share of the rare class."""
    X, _ = make_problem(90)
    y = (np.arange(90) < 9).astype(int)
    shares = []

    def score(estimator, X, y):
        shares.append(np.sum(y))
        return 0.0

    compare(X, y, scoring=score, **{**NULL, "n_permutations": 4})
    shares = np.array(shares)[np.array(shares) < 9]  # the first is of all samples
    assert set(shares) <= {3}  # 3 of 9 in an outer fold, 3 of 6 in an inner one


def test_permutations_work_with_splits_from_a_generator_and_with_cohorts():
    X, y = make_problem(90)
    cohorts = np.repeat(["a", "b", "c"], 30)
    y[:30] = (
        np.arange(30) == 0
    )  # one positive sample: most permutations leave cohort or fold without
    splits = list(StratifiedKFold(3).split(X, y))
    result = compare(X, y, **{**NULL, "outer_cv": iter(splits), "n_permutations": 3})
    assert np.all(np.isfinite(result.permutations["mean"]))
    given = {**NULL, "outer_cv": None, "n_permutations": 3}
    result = compare(X, y, leave_out=cohorts, **given)
    assert np.all(np.isfinite(result.permutations["mean"]))


# -- no leak, same folds -----------------------------------------------------------------------------


def test_nothing_of_a_test_fold_reaches_any_choice(tmp_path):
    X, y = make_problem()
    train, test = next(StratifiedKFold(3).split(X, y))
    settings = {**SETTINGS, "outer_cv": [(train, test)]}
    before = compare(X, y, checkpoint=tmp_path / "before", **settings)
    X[test] = 1e3 * np.random.default_rng(1).standard_normal(X[test].shape) ** 3
    after = compare(X, y, checkpoint=tmp_path / "after", **settings)
    for name in ("alpha", "smoothness", "rounds"):
        np.testing.assert_array_equal(before.folds[name], after.folds[name])
    for name in before.targets:
        np.testing.assert_allclose(before.targets[name], after.targets[name], atol=1e-12)
    for name in DEFAULT_METHODS:
        first, second = (
            tasks.Store(tmp_path / side).load((name, 0)) for side in ("before", "after")
        )
        assert first.inner_score == pytest.approx(second.inner_score, abs=1e-12, nan_ok=True)
    assert np.any(before.folds["score"] != after.folds["score"])


class Recorder(ClassifierMixin, BaseEstimator):
    """Keeps what it was fitted to."""

    seen: list = []  # noqa: RUF012

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        Recorder.seen.append(X)
        return self

    def decision_function(self, X):
        return X[:, 0]


@pytest.mark.parametrize(
    ("task", "settings"),
    [
        ("regression", {"methods": ["spav"], "smoothnesses": 3}),
        ("binary", {"methods": ["normal", "joint"], "class_weight": "balanced",
                    "scoring": "neg_log_loss"}),
    ],
)  # fmt: skip
def test_labels_of_a_test_fold_do_not_reach_any_choice(task, settings, tmp_path):
    X, y = make_problem(task=task)
    test = np.arange(40, 60)
    settings = {**SETTINGS, "outer_cv": [(np.arange(40), test)], **settings}
    results, inner = [], []
    for name, few in (("first", 1), ("second", 19)):
        y[test] = 100.0 * few * y[test] if task == "regression" else np.arange(20) < few
        results.append(compare(X, y, checkpoint=tmp_path / name, **settings))
        store = tasks.Store(tmp_path / name)
        inner.append([store.load((method, 0)).inner_score for method in settings["methods"]])
    np.testing.assert_allclose(*inner, rtol=1e-6)
    np.testing.assert_array_equal(*(result.folds["smoothness"] for result in results))


def test_estimators_of_the_user_see_the_same_folds():
    X, y = make_problem()
    Recorder.seen.clear()
    result = compare(X, y, methods=["normal", ("mine", Recorder())], **SETTINGS)
    for found, (train, _) in zip(Recorder.seen, StratifiedKFold(3).split(X, y), strict=True):
        np.testing.assert_array_equal(found, X[train])
    assert result.summary["method"].tolist() == ["normal", "mine", "best_fixed"]
    assert np.all(np.isnan(column(result, "mine", "alpha")))


def test_regression_grouped_folds_and_l1_are_compared():
    X, y = make_problem(task="regression")
    settings = {**SETTINGS, "outer_cv": GroupKFold(3), "inner_cv": GroupKFold(2)}
    result = compare(X, y, methods=FEW, scoring="r2", groups=np.arange(60) % 12, **settings)
    assert np.all(column(result, "crossfit", "score") > 0)
    X, y = make_problem()
    sparse = compare(X, y, methods=["normal"], l1_ratio=0.9, **SETTINGS)
    ridge = compare(X, y, methods=["normal"], **SETTINGS)
    assert np.any(sparse.folds["score"] != ridge.folds["score"])


def test_result_does_not_depend_on_the_number_of_jobs():
    X, y = make_problem(n_features=70)
    methods = ["raw", "median", *FEW]
    assert_same(*(compare(X, y, methods=methods, n_jobs=n, **SETTINGS) for n in (1, 2)))


# -- long work ---------------------------------------------------------------------------------------


def count_runs(monkeypatch, stop_after=None):
    done, run = [], study.Study.run

    def counted(self, name, fold):
        if stop_after is not None and len(done) == stop_after:
            raise KeyboardInterrupt
        done.append((name, fold))
        return run(self, name, fold)

    monkeypatch.setattr(study.Study, "run", counted)
    return done


def test_checkpoint_continues_after_an_interruption_without_computing_twice(tmp_path, monkeypatch):
    X, y = make_problem()
    expected = compare(X, y, methods=FEW, **SETTINGS)
    with monkeypatch.context() as patch:
        count_runs(patch, stop_after=4)
        with pytest.raises(KeyboardInterrupt):
            compare(X, y, methods=FEW, checkpoint=tmp_path, **SETTINGS)
    assert len(list(tmp_path.glob("*.npz"))) == 4
    assert not list(tmp_path.glob(".writing-*"))
    (tmp_path / ".writing-left-over").write_bytes(b"half a file")
    with monkeypatch.context() as patch:
        done = count_runs(patch)
        assert_same(expected, compare(X, y, methods=FEW, checkpoint=tmp_path, **SETTINGS))
        assert len(done) == 12 - 4  # with "start"
        assert_same(expected, compare(X, y, methods=FEW, checkpoint=tmp_path, **SETTINGS))
        assert len(done) == 12 - 4


CURVE = np.linspace(0, 1, 10) ** 2
SCALERS = [StandardScaler()] * 30


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({}, {"alphas": [0.1]}),
        ({}, {"inner_cv": 3}),
        ({}, {"random_state": 1}),
        ({}, {"scoring": "accuracy"}),
        ({}, {"init": CURVE}),
        ({"inner_cv": StratifiedKFold(2)},
         {"inner_cv": StratifiedKFold(2, shuffle=True, random_state=3)}),
        ({"scoring": make_scorer(f1_score)}, {"scoring": make_scorer(precision_score)}),
        *[tuple({"scoring": make_scorer(fbeta_score, beta=beta)} for beta in (1, 2))],
        *[tuple({"methods": [("mine", make_pipeline(*SCALERS, LogisticRegression(C=C)))]}
                for C in (1.0, 9.0))],
    ],
)  # fmt: skip
def test_checkpoint_of_other_settings_is_refused(tmp_path, first, second):
    X, y = make_problem()
    settings = {**SETTINGS, "methods": ["normal"], "checkpoint": tmp_path}
    before = compare(X, y, **{**settings, **first})
    assert_same(before, compare(X, y, **{**settings, **first}))
    with pytest.raises(ValueError, match="belongs to other data or settings"):
        compare(X, y, **{**settings, **second})


def test_checkpoint_of_other_data_or_another_version_or_a_damaged_one_is_refused(
    tmp_path, monkeypatch
):
    X, y = make_problem()
    settings = {**SETTINGS, "methods": ["normal"], "checkpoint": tmp_path}

    def assert_refused(X, y):
        with pytest.raises(ValueError, match="belongs to other data or settings, or is damaged"):
            compare(X, y, **settings)

    compare(X, y, **settings)
    assert_refused(X + np.eye(*X.shape), y)
    assert_refused(X, 1 - y)
    with monkeypatch.context() as patch:
        patch.setattr(study, "__version__", "0.0.0")
        assert_refused(X, y)
    for content in (b"", b"\xff\xfe{}", b"[1]"):
        (tmp_path / "comparison.json").write_bytes(content)
        assert_refused(X, y)


def flipped(data):
    """One bit in the middle, as on a bad disk."""
    middle = len(data) // 2
    return data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]


@pytest.mark.parametrize("damage", [lambda data: b"", lambda data: data[: len(data) // 2], flipped])
def test_a_damaged_part_of_a_checkpoint_is_computed_anew_and_named(tmp_path, damage):
    X, y = make_problem()
    settings = {**SETTINGS, "methods": ["normal"], "checkpoint": tmp_path}
    before = compare(X, y, **settings)
    part, *others = sorted(tmp_path.glob("*.npz"))
    whole = [path.stat().st_mtime_ns for path in others]
    part.write_bytes(damage(part.read_bytes()))
    with pytest.warns(UserWarning, match=f"{part.name} cannot be read .*computed anew"):
        assert_same(before, compare(X, y, **settings))
    assert [path.stat().st_mtime_ns for path in others] == whole
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert_same(before, compare(X, y, **settings))


class DiesOnce(LogisticRegression):
    def __init__(self, marker="", **parameters):
        super().__init__(**parameters)
        self.marker = marker

    def fit(self, X, y):
        if not Path(self.marker).exists():
            Path(self.marker).touch()
            os._exit(1)
        return super().fit(X, y)


@pytest.mark.filterwarnings("ignore")  # joblib may warn about the worker that died
def test_worker_that_dies_is_reported_and_its_fold_retried_once(tmp_path, capsys):
    X, y = make_problem()
    settings = {**SETTINGS, "progress": True}
    mine = ("mine", DiesOnce(marker=str(tmp_path / "marker")))
    result = compare(X, y, methods=["normal", mine], n_jobs=2, **settings)
    assert "a worker process died" in capsys.readouterr().err
    assert np.all(np.isfinite(column(result, "mine", "score")))


def test_progress_is_plain_lines_on_stderr_or_nothing(capsys, tmp_path):
    X, y = make_problem()
    assert not sys.stderr.isatty()
    compare(X, y, methods=["normal"], **{**SETTINGS, "progress": True}, checkpoint=tmp_path)
    printed = capsys.readouterr()
    assert "3/3 done, about 0 s left (normal, fold 2)" in printed.err
    assert printed.out == ""
    compare(X, y, methods=["normal"], **SETTINGS)
    assert capsys.readouterr() == ("", "")


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_progress_is_a_bar_with_the_time_left_on_a_terminal(monkeypatch):
    pytest.importorskip("rich")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", Terminal())
    with Progress(2, enabled=True) as display:
        display.advance("normal, fold 0")
        display._bar.refresh()
        display.advance("normal, fold 1")
    written = sys.stderr.getvalue()
    assert "normal, fold 0" in written
    assert " 50%" in written
    assert re.search(r"\d:\d\d:\d\d|-:--:--", written)


DRAWN = {"n_samples": 150, "n_features": 30, "random_state": 0}
SAME = {
    "methods": ["normal", "crossfit"],
    **{"outer_cv": 5, "inner_cv": 2, "alphas": 3, "smoothnesses": 2, "progress": False},
}
INTERRUPTED = f"""
import signal
import sys
from suquan import compare
from suquan.datasets import make_corrupted_classification

if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # where the parent ignores it
    X, y = make_corrupted_classification(**{DRAWN})
    compare(X, y, **{SAME}, n_jobs=2, checkpoint=sys.argv[1])
"""


def living(group):
    """Processes of a process group that have not ended."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            pid, _, rest = stat.read_text().partition(" (")
            state, _, pgrp = rest.rpartition(") ")[2].split()[:3]
            if int(pgrp) == group and state not in "ZX":
                found.append(int(pid))
    return found


def wait_until(condition, seconds=120):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
@pytest.mark.parametrize("everyone", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_ctrl_c_leaves_a_valid_checkpoint_and_no_process(tmp_path, everyone):
    script, checkpoint = tmp_path / "script.py", tmp_path / "checkpoint"
    script.write_text(INTERRUPTED)
    command = [sys.executable, str(script), str(checkpoint)]
    process = subprocess.Popen(command, start_new_session=True, stderr=subprocess.PIPE, text=True)
    wait_until(lambda: len(list(checkpoint.glob("*.npz"))) >= 2)
    (os.killpg if everyone else os.kill)(process.pid, signal.SIGINT)
    _, printed = process.communicate(timeout=60)
    assert process.returncode != 0
    assert "KeyboardInterrupt" in printed
    wait_until(lambda: not living(process.pid), seconds=20)
    assert not list(checkpoint.glob(".writing-*"))
    done = len(list(checkpoint.glob("*.npz")))
    assert 2 <= done < 15
    X, y = make_corrupted_classification(**DRAWN)
    compare(X, y, **SAME, checkpoint=checkpoint)  # it would refuse a checkpoint of other work
    assert len(list(checkpoint.glob("*.npz"))) == 15


# -- output ------------------------------------------------------------------------------------------


def test_tables_are_written_become_data_frames_and_are_printed(result, tmp_path):
    paths = result.to_csv(tmp_path / "new")
    names = ["contrasts.csv", "folds.csv", "reliability.csv", "summary.csv", "tests.csv"]
    assert sorted(path.name for path in paths) == names
    with open(tmp_path / "new" / "summary.csv", newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [row["method"] for row in rows] == result.summary["method"].tolist()
    assert [float(row["mean"]) for row in rows] == result.summary["mean"].tolist()
    pytest.importorskip("pandas")
    frames = result.to_pandas()
    assert frames["folds"].shape == (len(result.folds["score"]), len(result.folds))
    head, empty, _, *lines = str(result).splitlines()
    assert (head, empty) == (result.verdict, "")
    best = result.summary["method"][result.summary["rank"] == 1][0]
    assert lines[0].split()[:2] == [best, f"{result.summary['mean'].max():.4f}"]
    assert len(lines) == len(result.summary["method"])
    page = replace(result, verdict="<b>")._repr_html_()
    assert "&lt;b&gt;" in page
    assert lines[-1] in page


def test_plot_draws_the_scores_and_the_targets(result):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure = result.plot()
    assert len(figure.axes) == 2
    assert figure.axes[0].get_xlabel() == "roc_auc"
    assert len(figure.axes[1].lines) == len(result.targets)
    own, axes = plt.subplots(1, 2)
    assert result.plot(axes) is own
    plt.close("all")


# -- bad input ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ({"methods": ["normal", "normal"]}, r"repeated: \['normal'\]"),
        ({"methods": []}, "at least one"),
        ({"methods": ["magic"]}, "unknown method 'magic'"),
        ({"methods": [3]}, "names or \\(name, estimator\\) pairs"),
        ({"methods": [("joint", LogisticRegression())]}, "'joint' is the name of a built-in"),
        ({"alphas": [0.0]}, "alphas must be positive"),
        ({"smoothnesses": [-1.0]}, "smoothnesses must be non-negative"),
        ({"outer_cv": 50}, "class 0 has 29 samples, fewer than the 50 outer folds"),
        ({"methods": np.array(["normal"] * 2)}, r"repeated: \['normal'\]"),
        ({"methods": ["normal", "start"]}, "'start' is a learned method with nothing learned"),
        ({"methods": [("forest", LogisticRegression())]}, "'forest' is the name of a built-in"),
        ({"outer_cv": KFold(6)}, "split 0 of outer_cv has no test sample of class"),
        ({"inner_cv": [(np.arange(5), np.arange(5, 9))]}, "inner_cv splits every outer"),
        ({"scoring": "magic"}, "unknown scoring 'magic'; give 'roc_auc' or another name of"),
        ({"groups": [np.nan] * 60}, "groups is missing for 60 of 60 samples, first for sample 0"),
        ({"groups": [1, 2]}, "groups must hold one value for each of 60 samples"),
    ],
)
def test_bad_input_is_refused_with_a_clear_message(other, message):
    X, y = make_problem()
    order = np.argsort(y, kind="stable")
    with pytest.raises(ValueError, match=message):
        compare(X[order], y[order], **{**SETTINGS, "methods": ["normal"], **other})


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (["a", None] * 30, "y is missing for 30 of 60 samples, first for sample 1; give every"),
        ([0.5, np.nan] * 30, "y is missing for 30 of 60 samples, first for sample 1; give every"),
        ([0, 1], "y must hold one value for each of 60 samples"),
        (["rare"] + ["a", "b"] * 29 + ["b"], "class 'rare' has 1 samples, fewer than the 3 outer"),
    ],
)
def test_bad_labels_are_refused_by_name(y, message):
    with pytest.raises(ValueError, match=message):
        compare(make_problem()[0], y, methods=["normal"], **{**SETTINGS, "outer_cv": None})


@pytest.mark.parametrize(
    ("y", "scoring"),
    [
        (["b", "a"] * 30, "roc_auc"),
        (["b", "a", "c"] * 20, "roc_auc_ovr"),
        (np.linspace(0, 1, 60), "r2"),
        (as_outcome(np.column_stack([np.arange(1.0, 61.0), np.ones(60)])), "concordance"),
    ],
)
def test_scoring_is_chosen_by_the_task(y, scoring):
    X, settings = make_problem()[0], {**SETTINGS, "outer_cv": 3, "methods": ["normal"]}
    result = compare(X, y, **settings)
    assert result.scoring == scoring
    given = compare(X, y, scoring=scoring, **settings)
    np.testing.assert_array_equal(result.folds["score"], given.folds["score"])


@pytest.mark.parametrize("name", ["magic", "method", "alpha", "smoothness"])
def test_parameters_that_compare_does_not_take_are_refused(name):
    with pytest.raises(TypeError, match=f"unknown parameter '{name}'"):
        compare(*make_problem(), methods=["normal"], **{name: 1.0}, **SETTINGS)


def test_loss_decides_the_task():
    X, y = make_problem(task="regression")
    counts = np.round(y - y.min())
    settings = {**SETTINGS, "outer_cv": KFold(3), "methods": ["normal"], "scoring": "r2"}
    result = compare(X, counts, loss="squared", **settings)
    assert np.all(result.folds["score"] > 0)
    with pytest.raises(ValueError, match="roc_auc"):
        compare(X, counts, loss="squared", **{**settings, "scoring": "roc_auc"})
    with pytest.raises(ValueError, match="loss is 'hinge'"):
        compare(X, counts, loss="hinge", **settings)


def test_methods_and_scorers_that_do_not_fit_the_task_are_refused():
    X, y = make_problem(task="regression")
    settings = {**SETTINGS, "outer_cv": 3}
    with pytest.raises(ValueError, match="method='svd' is for classification"):
        compare(X, y, methods=["normal", "svd"], scoring="r2", **settings)
    for scoring in ("roc_auc", "neg_log_loss"):
        with pytest.raises(
            ValueError, match=f"scoring='{scoring}' does not fit regression"
        ) as told:
            compare(X, y, methods=["normal"], scoring=scoring, **settings)
        assert "_Known" not in str(told.value)
        assert "such as 'r2'" in str(told.value)
