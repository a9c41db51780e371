import joblib
import numpy as np
import pytest
import sklearn
from scipy.special import expit
from sklearn.base import clone
from sklearn.metrics import accuracy_score, log_loss
from sklearn.model_selection import (
    GroupKFold,
    KFold,
    LeaveOneGroupOut,
    PredefinedSplit,
    StratifiedKFold,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from suquan import (
    SuquanClassifier,
    SuquanClassifierCV,
    SuquanCoxCV,
    SuquanRegressor,
    SuquanRegressorCV,
    load_model,
    quantile_normalize,
    save_model,
)
from suquan.datasets import make_corrupted_classification, two_steps
from suquan.methods import METHODS
from suquan.model.rounds import Candidate
from suquan.selection.grids import (
    alpha_grid,
    choose,
    make_candidates,
    smooth_scores,
    smoothness_grid,
)

KINDS = {
    "binary": SuquanClassifierCV,
    "classes": SuquanClassifierCV,
    "regression": SuquanRegressorCV,
    "survival": SuquanCoxCV,
}
SMALL = {"alphas": [0.05, 0.5], "smoothnesses": [0.0, 0.05], "cv": 3, "random_state": 0}


def make_problem(n_samples=60, n_features=12, task="binary", seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_samples, n_features))
    U = 2.0 * quantile_normalize(X, "normal") @ rng.standard_normal((n_features, 3))
    if task == "regression":
        return np.exp(X), U[:, 0] + rng.standard_normal(n_samples)
    if task == "classes":
        return np.exp(X), np.array(["a", "b", "c"])[np.argmax(U + rng.gumbel(size=U.shape), axis=1)]
    return np.exp(X), (rng.random(n_samples) < expit(U[:, 0])).astype(int)


# -- grids -------------------------------------------------------------------------------------------


def test_grids_are_in_units_of_the_number_of_features_or_the_given_ones_sorted():
    np.testing.assert_allclose(alpha_grid(6, 100), 100 * 10.0 ** np.arange(-6, 0))
    np.testing.assert_allclose(smoothness_grid(5, 100), [0.0, 1e-3, 1e-2, 1e-1, 1.0])
    np.testing.assert_allclose(smoothness_grid(3, 10, unit=4.0), [0.0, 4e-4, 0.4])
    np.testing.assert_array_equal(smoothness_grid(1, 10), [0.0])
    np.testing.assert_array_equal(alpha_grid([1.0, 0.1, 1.0], 50), [0.1, 1.0])
    np.testing.assert_array_equal(smoothness_grid((2, 0), 50, unit=7.0), [0.0, 2.0])
    X, y = make_problem(task="regression")
    model = SuquanRegressorCV("spav", **{**SMALL, "smoothnesses": 3}).fit(X, y)
    grid = np.unique(model.cv_results_["param_smoothness"])
    np.testing.assert_allclose(grid, smoothness_grid(3, X.shape[1], np.var(y)))


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"alphas": [0.1, 0.0]}, "alphas must be positive; got 0"),
        ({"alphas": [-1.0]}, "alphas must be positive; got -1"),
        ({"alphas": 0}, "alphas must be at least 1 value"),
        ({"alphas": []}, "alphas must hold finite numbers"),
        ({"alphas": [np.inf]}, "alphas must hold finite numbers"),
        ({"alphas": "many"}, "alphas must be a number of values or an array of positive numbers"),
        ({"smoothnesses": [-0.1]}, "smoothnesses must be non-negative; got -0.1"),
        ({"smoothnesses": 0}, "smoothnesses must be at least 1 value"),
        ({"max_rounds": 0}, "max_rounds must hold integers of at least 1"),
        ({"max_rounds": [1, 2.5]}, "max_rounds must hold integers of at least 1"),
        ({"max_rounds": []}, "max_rounds must hold integers of at least 1"),
        ({"method": ["fixed", "fixed"]}, "names each method once"),
        ({"method": ["fixed", "magic"]}, "method"),
        ({"selection": "one_se"}, "selection must be one of 'smoothed', 'best'"),
        ({"departures": [0.5, 1.5]}, "departures must be at most 1; got 1.5"),
        ({"departures": [-0.5]}, "departures must be non-negative"),
        ({"departures": []}, "departures must hold finite numbers"),
        ({"min_gain": -1.0}, r"min_gain must be a number in \[0, ∞\); got -1.0"),
        ({"cv": []}, "cv gave no splits"),
        ({"cv": 50}, "n_splits=50"),
        (
            {"crossfit_cv": [(np.arange(10), np.arange(10, 20))]},
            "crossfit_cv splits every training",
        ),
    ],
)
def test_bad_parameters_are_refused_with_a_clear_message(parameters, message):
    X, y = make_problem()
    with pytest.raises(ValueError, match=message):
        SuquanClassifierCV(**{**SMALL, **parameters}).fit(X, y)


def test_candidates_vary_smoothness_and_rounds_only_where_they_are_used():
    found = make_candidates(["fixed", "bnd", "joint"], np.array([1.0, 2.0]), np.array([0.0, 3.0]))
    assert [c for c in found if c.method.name == "fixed"] == [
        Candidate(METHODS["fixed"], 1.0, 0.0, 0),
        Candidate(METHODS["fixed"], 2.0, 0.0, 0),
    ]
    assert {c.smoothness for c in found if c.method.name == "bnd"} == {0.0}
    assert {(c.smoothness, c.max_rounds) for c in found if c.method.name == "joint"} == {
        (0.0, 5),
        (3.0, 5),
    }
    found = make_candidates(["fixed", "joint"], np.array([1.0]), np.array([0.0]), [3, 1])
    assert [c.max_rounds for c in found] == [0, 1, 3]


def test_departures_vary_where_there_are_rounds_and_the_start_needs_no_smoothness():
    grids = np.array([1.0, 2.0]), np.array([0.0, 3.0])
    found = make_candidates(["fixed", "bnd", "crossfit"], *grids)
    start = [c for c in found if c.departure == 0.0]
    crossfit = METHODS["crossfit"]
    assert start == [Candidate(crossfit, alpha, 0.0, 0, None, 0.0) for alpha in (1.0, 2.0)]
    assert {(c.method.name, c.departure) for c in found} == {
        ("fixed", 1.0), ("bnd", 1.0), ("crossfit", 0.0), ("crossfit", 0.5), ("crossfit", 1.0)
    }  # fmt: skip
    found = make_candidates(["fixed", "bnd", "multi"], *grids, departures=[1.0, 0.2])
    tried = [(c.method.name, c.departure) for c in found[::2]]
    assert tried[:3] == [("fixed", 1.0), ("bnd", 0.2), ("bnd", 1.0)]
    assert set(tried[3:]) == {("multi", 1.0)}


# -- choosing ----------------------------------------------------------------------------------------


def line(scores, alpha=1.0):
    return [Candidate(METHODS["joint"], alpha, float(k), 1) for k in range(len(scores))]


def test_smoothed_scores_are_means_over_neighbouring_smoothness():
    scores = np.array([0.9, 0.3, 0.6, 0.3])
    expected = [0.6, 0.6, 0.4, 0.45]
    np.testing.assert_allclose(smooth_scores(line(scores), scores), expected)
    other = [Candidate(METHODS["joint"], 2.0, 0.0, 1), Candidate(METHODS["fixed"], 1.0, 0.0, 0)]
    together = smooth_scores([*line(scores), *other], np.r_[scores, 0.1, 0.2])
    np.testing.assert_allclose(together, [*expected, 0.1, 0.2])


def test_smoothed_selection_passes_over_a_lonely_peak_and_equal_scores_go_to_the_larger_alpha():
    scores = np.array([[0.90], [0.50], [0.80], [0.85], [0.80]])
    assert choose(line(scores), scores, "best", 0.5) == 0
    assert choose(line(scores), scores, "smoothed", 0.5) == 4
    candidates = [Candidate(METHODS["fixed"], alpha, 0.0, 0) for alpha in (0.1, 10.0, 1.0)]
    for selection in ("best", "smoothed"):
        assert choose(candidates, np.full((3, 4), 0.7), selection, 0.5) == 1


@pytest.mark.parametrize("share", [0.0, 0.5])
def test_larger_departure_is_chosen_only_where_it_gains_a_part_of_the_standard_error(share):
    gains = np.array([0.02, 0.05, -0.01, 0.04])
    error = np.std(gains, ddof=1) * np.sqrt(1 / 4 + share)
    start = np.full(4, 0.7)
    candidates = [Candidate(METHODS["crossfit"], 1.0, 0.0, 1, None, d) for d in (1.0, 0.0, 0.5)]
    a_little = np.array([0.0, 0.002, -0.003, 0.002])
    scores = np.stack([start + gains + a_little, start, start + gains])
    for selection in ("smoothed", "best"):
        for part, chosen in ((0.0, 0), (0.99, 2), (1.01, 1)):
            min_gain = part * gains.mean() / error
            assert choose(candidates, scores, selection, share, min_gain) == chosen
    worse = np.stack([start + 0.1 - gains, start - 0.1, start])
    assert choose(candidates, worse, "smoothed", share, 0.5) == 0
    one_fold = scores[:, 1:2]
    assert choose(candidates, one_fold, "smoothed", share, 0.5) == 0


def test_price_of_a_departure_does_not_touch_the_choice_of_the_method():
    candidates = [
        Candidate(METHODS["crossfit"], 1.0, 0.0, 0, None, 0.0),
        Candidate(METHODS["crossfit"], 1.0, 0.0, 1, None, 1.0),
        Candidate(METHODS["bnd"], 1.0, 0.0, 1),
    ]
    scores = np.array([[0.70, 0.72], [0.70, 0.74], [0.71, 0.74]])
    assert choose(candidates, scores, "smoothed", 0.5, 0.5) == 2
    assert choose(candidates[:2], scores[:2], "smoothed", 0.5, 0.5) == 1
    assert choose(candidates[:2], scores[:2], "smoothed", 0.5, 2.0) == 0


# -- the estimators ----------------------------------------------------------------------------------


def test_start_is_kept_where_learning_cannot_help(tmp_path):
    """Labels made with the start itself: learned targets are at best as good."""
    found = []
    settings = {"alphas": [0.1, 1.0], "smoothnesses": [0.0, 0.1], "n_knots": 10, "n_repeats": 1}
    for seed in range(4):
        X, y = make_corrupted_classification(
            150, 100, target=np.linspace(-1.7, 1.7, 100), corrupted="normal", random_state=seed
        )
        model = SuquanClassifierCV(**settings, cv=StratifiedKFold(3), random_state=0).fit(X, y)
        found.append(model.departure_)
    assert found.count(0.0) >= 3
    assert 1.0 not in found
    model.set_params(min_gain=9.0).fit(X, y)
    assert (model.method_, model.departure_, model.n_rounds_) == ("crossfit", 0.0, 0)
    fixed = SuquanClassifier("fixed", alpha=model.alpha_, n_knots=10).fit(X, y)
    best = model.best_estimator_
    np.testing.assert_array_equal(best.decision_function(X), fixed.decision_function(X))
    same = load_model(save_model(model, tmp_path / "model.suquan"))
    assert same.departure_ == 0.0
    assert same.get_params()["min_gain"] == 9.0
    np.testing.assert_array_equal(same.decision_function(X), model.decision_function(X))


def test_target_is_learned_where_it_helps():
    X, y = make_corrupted_classification(600, 20, target=two_steps, random_state=0)
    model = SuquanClassifierCV(alphas=3, smoothnesses=2, cv=3, random_state=0).fit(X, y)
    assert model.departure_ > 0.0


@pytest.mark.parametrize("selection", ["smoothed", "best"])
def test_scores_are_those_of_a_plain_loop_and_the_chosen_setting_is_refitted(selection):
    X, y = make_problem()
    model = SuquanClassifierCV(["fixed", "crossfit"], selection=selection, min_gain=0.0, **SMALL)
    model.set_params(scoring="neg_log_loss", cv=StratifiedKFold(3)).fit(X, y)
    results = model.cv_results_
    splits = list(StratifiedKFold(3).split(X, y))
    for k, params in enumerate(results["params"]):
        for j, (train, test) in enumerate(splits):
            plain = SuquanClassifier(
                **{**params, "max_rounds": params["max_rounds"] or None}, random_state=0
            ).fit(X[train], y[train])
            p = plain.predict_proba(X[test])[np.arange(len(test)), y[test]]
            assert results[f"split{j}_test_score"][k] == pytest.approx(np.mean(np.log(p)), abs=1e-5)
    names = ("method", "alpha", "smoothness", "max_rounds", "departure")
    params, folds = {f"param_{name}" for name in names}, [f"split{k}_test_score" for k in range(3)]
    summary = {"mean_test_score", "std_test_score", "rank_test_score", "mean_test_log_loss"}
    assert set(results) == params | set(folds) | summary | {"params"}
    table = np.column_stack([results[name] for name in folds])
    np.testing.assert_allclose(results["mean_test_score"], table.mean(axis=1))
    np.testing.assert_allclose(results["std_test_score"], table.std(axis=1))
    assert sorted(results["rank_test_score"]) == list(range(1, len(table) + 1))
    assert model.best_score_ == results["mean_test_score"][model.best_index_]
    chosen = results["params"][model.best_index_]
    assert chosen == {
        "method": model.method_,
        "alpha": model.alpha_,
        "smoothness": model.smoothness_,
        "max_rounds": chosen["max_rounds"],
        "departure": model.departure_,
    }
    rounds = chosen["max_rounds"] or None
    alone = SuquanClassifier(**{**chosen, "max_rounds": rounds}, random_state=0).fit(X, y)
    np.testing.assert_array_equal(
        model.best_estimator_.decision_function(X), alone.decision_function(X)
    )
    if selection == "best":
        assert model.best_score_ == results["mean_test_score"].max()
        assert results["rank_test_score"][model.best_index_] == 1


@pytest.mark.parametrize("task", ["binary", "classes", "regression"])
def test_fitted_model_predicts_and_transforms_and_has_all_attributes(task):
    X, y = make_problem(task=task)
    base, kind = (SuquanClassifier, SuquanClassifierCV)
    if task == "regression":
        base, kind = SuquanRegressor, SuquanRegressorCV
    model = kind("crossfit", **SMALL).fit(X, y)
    plain = base(random_state=0).fit(X, y)
    wanted = {name for name in vars(plain) if name.endswith("_")}
    assert wanted <= set(vars(model))
    assert model.transform(X).shape == X.shape
    scores = "predict" if task == "regression" else "decision_function"
    difference = getattr(model, scores)(X) - getattr(model.best_estimator_, scores)(X)
    if task == "binary":  # its 0 is where the calibrated probability passes ½
        shift = (model.intercept_ - model.best_estimator_.intercept_).item()
        np.testing.assert_allclose(difference, shift)
    else:
        np.testing.assert_array_equal(difference, np.zeros_like(difference))
    assert model.score(X, y) > 0.5
    if task != "regression":
        np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1.0)
        np.testing.assert_array_equal(model.classes_, np.unique(y))
    scoring = {"binary": "roc_auc", "classes": "roc_auc_ovr", "regression": "r2"}[task]
    named = clone(model).set_params(scoring=scoring).fit(X, y)
    np.testing.assert_array_equal(
        named.cv_results_["mean_test_score"], model.cv_results_["mean_test_score"]
    )


@pytest.mark.parametrize("task", ["binary", "regression"])
def test_folds_are_five_times_three_or_their_number_shuffled_by_the_seed(task):
    """A table that is sorted by batch does not get batches for folds."""
    X, y = make_problem(task=task)
    X, y = X[np.argsort(y)], np.sort(y)

    def scores(cv, seed=0):
        model = KINDS[task]("fixed", **{**SMALL, "cv": cv, "random_state": seed}).fit(X, y)
        return model.cv_results_["split1_test_score"]

    np.testing.assert_array_equal(scores(3), scores(3))
    assert not np.array_equal(scores(3), scores(3, seed=1))
    assert not np.array_equal(
        scores(3), scores((StratifiedKFold if task == "binary" else KFold)(3))
    )
    assert np.all(scores(3) > -1)  # sorted values in blocks: R² far below
    results = KINDS[task]("fixed", **{**SMALL, "cv": None}).fit(X, y).cv_results_
    assert "split14_test_score" in results
    assert "split15_test_score" not in results


# -- weights ---------------------------------------------------------------------------------------


def make_weighted(task):
    """Samples, labels, whole weights with zeros among them, and the labels that weight 0 hides."""
    if task == "survival":
        X, _ = make_problem(90)
        rng = np.random.default_rng(1)
        y = np.column_stack([rng.exponential(1 / X[:, 0]), rng.random(90) < 0.7])
    else:
        X, y = make_problem(90, task=task)
    weights = np.arange(90) % 3
    other = y.copy()
    hidden = np.flatnonzero(weights == 0)
    other[hidden] = y[np.roll(hidden, 1)] if task != "binary" else 1 - y[hidden]
    return X, y, weights, other


@pytest.mark.parametrize(
    ("task", "cv"),
    [
        *((task, cv) for task in KINDS for cv in (None, 3, KFold(3, shuffle=True, random_state=1))),
        ("binary", StratifiedKFold(3)),
    ],
)
def test_labels_of_samples_without_weight_change_nothing(task, cv):
    X, y, weights, other = make_weighted(task)
    assert not np.array_equal(y, other)
    settings = {**SMALL, "cv": cv, "n_repeats": 1, "departures": [0, 1]}
    method = "crossfit" if cv == 3 else "fixed"
    one, two = (KINDS[task](method, **settings).fit(X, labels, weights) for labels in (y, other))
    assert one.best_score_ == two.best_score_
    np.testing.assert_array_equal(one.target_quantiles_, two.target_quantiles_)
    np.testing.assert_array_equal(one.predict(X), two.predict(X))
    if task in ("binary", "classes"):
        assert np.all(weights[one.out_of_fold_samples_] > 0)
        assert set(one.out_of_fold_samples_) == set(np.flatnonzero(weights))
        assert len(one.out_of_fold_scores_) == len(one.out_of_fold_samples_)
        np.testing.assert_array_equal(one.predict_proba(X), two.predict_proba(X))


def weighted_accuracy(estimator, X, y, sample_weight=None):
    return accuracy_score(y, estimator.predict(X), sample_weight=sample_weight)


@pytest.mark.parametrize(
    ("task", "scoring"),
    [
        ("binary", None),
        ("binary", "accuracy"),
        ("binary", "neg_log_loss"),
        ("binary", weighted_accuracy),
        ("classes", None),
        ("classes", "neg_log_loss"),
        ("regression", None),
        ("regression", "neg_mean_absolute_error"),
        ("survival", None),
    ],
)
def test_whole_weights_score_as_repeated_samples(task, scoring):
    X, y, weights, _ = make_weighted(task)
    fold = np.random.default_rng(0).permutation(np.arange(90) % 3)
    splits = [(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(3)]
    rows = np.repeat(np.arange(90), weights)
    repeated = [
        (np.flatnonzero(fold[rows] != k), np.flatnonzero(fold[rows] == k)) for k in range(3)
    ]
    settings = {**SMALL, "scoring": scoring}
    more = {"time_ties": "breslow"} if task == "survival" else {}
    one = KINDS[task]("fixed", **{**settings, "cv": splits}, **more).fit(X, y, weights)
    two = KINDS[task]("fixed", **{**settings, "cv": repeated}, **more).fit(X[rows], y[rows])
    for key in ("split0_test_score", "mean_test_score"):
        np.testing.assert_allclose(one.cv_results_[key], two.cv_results_[key], rtol=0, atol=1e-6)
    if "mean_test_log_loss" in one.cv_results_:
        losses = (model.cv_results_["mean_test_log_loss"] for model in (one, two))
        np.testing.assert_allclose(*losses, rtol=0, atol=1e-6)
    assert one.best_index_ == two.best_index_


def test_weights_that_are_all_the_same_count_as_none_and_a_scorer_without_weights_is_named():
    X, y, weights, _ = make_weighted("binary")
    none, same = (SuquanClassifierCV("fixed", **SMALL).fit(X, y, s) for s in (None, np.full(90, 3)))
    key = "split0_test_score"
    np.testing.assert_array_equal(none.cv_results_[key], same.cv_results_[key])
    with pytest.warns(UserWarning, match="takes no sample_weight"):
        SuquanClassifierCV("fixed", scoring=accuracy, **SMALL).fit(X, y, weights)


def test_given_splits_number_all_samples_and_lose_those_without_weight():
    X, y, weights, _ = make_weighted("binary")
    fold = np.random.default_rng(0).permutation(np.arange(90) % 3)
    splitter = PredefinedSplit(fold)
    as_lists = [(train.tolist(), test.tolist()) for train, test in splitter.split()]
    kept = np.concatenate([np.flatnonzero((fold == k) & (weights > 0)) for k in range(3)])
    for cv in (splitter, as_lists, iter(as_lists)):
        model = SuquanClassifierCV("fixed", **{**SMALL, "cv": cv}).fit(X, y, weights)
        np.testing.assert_array_equal(model.out_of_fold_samples_, kept)
    empty = [(np.flatnonzero(weights), np.flatnonzero(weights == 0))]
    X, y = make_problem(90, task="regression")
    with pytest.raises(ValueError, match="split 0 of cv has no test sample of positive weight"):
        SuquanRegressorCV("fixed", **{**SMALL, "cv": empty}).fit(X, y, weights)


def accuracy(estimator, X, y):
    return estimator.score(X, y)


@pytest.mark.parametrize(
    ("task", "method", "scoring", "message"),
    [
        ("regression", "fixed", "neg_log_loss", "scoring='neg_log_loss' does not fit regression"),
        ("classes", "fixed", "roc_auc", "scoring='roc_auc' does not fit classification with 3"),
        ("regression", ["fixed", "svd"], None, "method='svd' is for classification"),
    ],
)
def test_scorers_and_methods_that_do_not_fit_the_task_are_refused(task, method, scoring, message):
    X, y = make_problem(task=task)
    with pytest.raises(ValueError, match=message):
        KINDS[task](method, scoring=scoring, **SMALL).fit(X, y)


@pytest.mark.parametrize("splitter", [GroupKFold(3), LeaveOneGroupOut()])
def test_grouped_splitters_get_the_groups_through_a_pipeline_too(splitter):
    X, y = make_problem()
    groups = np.arange(len(y)) % 6
    model = SuquanClassifierCV("crossfit", **{**SMALL, "cv": splitter}).fit(X, y, groups=groups)
    given = list(splitter.split(X, y, groups))
    same = SuquanClassifierCV("crossfit", **{**SMALL, "cv": given}).fit(X, y, groups=groups)
    for key in ("mean_test_score", f"split{len(given) - 1}_test_score"):
        np.testing.assert_array_equal(model.cv_results_[key], same.cv_results_[key])
    with sklearn.config_context(enable_metadata_routing=True):
        routed = make_pipeline(FunctionTransformer(), clone(model).set_fit_request(groups=True))
        routed.fit(X, y, groups=groups)
    found = routed[-1].cv_results_["mean_test_score"]
    np.testing.assert_array_equal(found, model.cv_results_["mean_test_score"])


def test_fold_without_a_class_is_named():
    X, y = make_problem()
    order = np.argsort(y, kind="stable")
    with pytest.raises(ValueError, match=r"split 0 of cv has no test sample of class .*1"):
        SuquanClassifierCV("fixed", **{**SMALL, "cv": KFold(4)}).fit(X[order], y[order])
    weights = np.ones(len(y))
    train, test = next(StratifiedKFold(3).split(X, y))
    weights[train[y[train] == 0]] = 0.0
    with pytest.raises(ValueError, match=r"split 0 of cv has no training sample of class .*0"):
        SuquanClassifierCV("fixed", **{**SMALL, "cv": [(train, test)]}).fit(X, y, weights)


def test_result_does_not_depend_on_the_number_of_jobs_and_repeats_with_the_seed():
    X, y = make_problem()
    with joblib.parallel_config(
        backend="threading"
    ):  # processes are started in the tests of compare
        models = [
            SuquanClassifierCV(["joint", "crossfit"], **SMALL, n_jobs=n_jobs).fit(X, y)
            for n_jobs in (1, 2, 1)
        ]
    for model in models[1:]:
        for key in ("split2_test_score", "mean_test_score"):
            np.testing.assert_array_equal(model.cv_results_[key], models[0].cv_results_[key])
        np.testing.assert_array_equal(model.coef_, models[0].coef_)
    settings = {**SMALL, "cv": StratifiedKFold(3), "departures": 1.0}
    models = [
        SuquanClassifierCV("crossfit", **{**settings, "random_state": seed}).fit(X, y)
        for seed in (0, 1)
    ]
    other = models[1]
    assert not np.array_equal(other.coef_, models[0].coef_)


def test_rounds_are_chosen_from_a_list():
    X, y = make_problem()
    model = SuquanClassifierCV("joint", max_rounds=[1, 4], **SMALL).fit(X, y)
    assert set(model.cv_results_["param_max_rounds"]) == {1, 4}
    assert model.n_rounds_ <= model.cv_results_["param_max_rounds"][model.best_index_]


def test_second_fit_forgets_the_first_one(tmp_path):
    pd = pytest.importorskip("pandas")
    X, y = make_problem(n_features=30)
    frame = pd.DataFrame(X, columns=[f"gene {j}" for j in range(30)])
    model = SuquanClassifierCV(["svd", "fixed"], **SMALL).fit(frame, y)
    model.leftover_ = 1
    model.set_params(method="fixed").fit(X[:, :20], y)
    for name in ("feature_names_in_", "singular_values_", "leftover_"):
        assert not hasattr(model, name)
    loaded = load_model(save_model(model, tmp_path / "model.suquan"))
    np.testing.assert_array_equal(
        loaded.decision_function(X[:, :20]), model.decision_function(X[:, :20])
    )


@pytest.mark.parametrize("method", ["fixed", "svd", "spav", "crossfit"])
def test_constant_samples_leave_the_intercept(method):
    X, y = np.ones((27, 5)), (np.arange(27) < 9).astype(int)
    with (
        pytest.warns(UserWarning, match="nothing to rank"),
        pytest.warns(UserWarning, match=r"never passes 0.5, so that predict gives 0 for all"),
    ):
        model = SuquanClassifierCV(method, scoring="neg_log_loss", **SMALL).fit(X, y)
    np.testing.assert_array_equal(model.coef_, 0)
    new = np.arange(5.0)[None]
    np.testing.assert_allclose(model.best_estimator_.predict_proba(new)[:, 1], 1 / 3)
    platt = (9 * (9 + 1) / (9 + 2) + 18 / (18 + 2)) / 27  # a mean of Platt's targets
    np.testing.assert_allclose(model.predict_proba(new)[:, 1], platt)
    np.testing.assert_allclose(
        model.cv_results_["mean_test_score"], np.log(1 / 3) / 3 + np.log(2 / 3) * 2 / 3, atol=1e-6
    )


def test_constant_training_set_scores_as_the_plain_estimator_does():
    X, y = make_problem()
    X[:30] = 1.0
    splits = [(np.arange(30), np.arange(30, 60)), (np.arange(30, 60), np.arange(30))]
    settings = {**SMALL, "cv": splits, "scoring": "neg_log_loss", "calibration": None}
    with pytest.warns(UserWarning, match="nothing to rank"):
        results = SuquanClassifierCV(["bnd", "joint"], **settings).fit(X, y).cv_results_
    for k, parameters in enumerate(results["params"]):
        plain = SuquanClassifier(**parameters, random_state=0)
        with pytest.warns(UserWarning, match="nothing to rank"):
            chances = plain.fit(X[:30], y[:30]).predict_proba(X[30:])
        assert results["split0_test_score"][k] == pytest.approx(
            -log_loss(y[30:], chances), abs=1e-6
        )
        plain.fit(X[30:], y[30:])
        chances = expit(np.repeat(plain.intercept_, 30))  # of equal ranks: f sums to 0
        assert results["split1_test_score"][k] == pytest.approx(
            -log_loss(y[:30], chances), abs=1e-6
        )
