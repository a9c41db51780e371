"""Cross-fitting: the fold models are those of separate fits, and folds that cannot be had learn nothing."""

import warnings

import numpy as np
import pytest
from convex import NAMES, fit_model, make_samples, mean_loss, scores
from sklearn.base import clone
from sklearn.model_selection import RepeatedStratifiedKFold, StratifiedKFold

from suquan import SuquanClassifier, SuquanClassifierCV, SuquanCox, SuquanRegressor


def draw_problem(name, seed):
    """A few more samples than features, labels, two partitions into 2 to 5 folds, and a penalty."""
    rng = np.random.default_rng(seed)
    n_samples, n_folds = int(rng.integers(14, 26)), int(rng.integers(2, 6))
    X, y = make_samples(name, (n_samples, int(rng.integers(3, n_samples // 2))), seed)
    # Enough members of each class, and enough events, for every fold.
    classes = rng.permutation(n_samples) % (3 if name == "softmax" else 2)
    if name in ("logistic", "softmax"):
        y = classes
    elif name == "cox":
        y[:, 1] = classes
    folds = RepeatedStratifiedKFold(n_splits=n_folds, n_repeats=2, random_state=seed)
    return X, y, list(folds.split(X, classes)), 10.0 ** rng.uniform(-3, 0)


@pytest.mark.filterwarnings("ignore:the best target at these penalties is zero")
@pytest.mark.parametrize("name", [*NAMES, "cox"])
@pytest.mark.parametrize(
    "seeds", [range(4), pytest.param(range(4, 43), marks=pytest.mark.slow)], ids=["few", "many"]
)
def test_fold_models_are_those_of_separate_fits(name, seeds):
    """The out-of-fold loss at the start, on small problems with more samples than features."""
    for seed in seeds:
        X, y, folds, alpha = draw_problem(name, seed)
        model = fit_model(name, "crossfit", X, y, alpha=alpha, cv=folds)
        total = 0.0
        for train, test in folds:
            own = scores(fit_model(name, "fixed", X[train], y[train], alpha=alpha), X[test])
            total += mean_loss(name, y[test], np.ones(len(test)), own)
        expected = total / sum(len(test) for _, test in folds)
        np.testing.assert_allclose(model.objective_history_[0], expected, rtol=1e-6, err_msg=seed)


def keeps_its_start(model, X, y, groups=None):
    """The fit warns once, and is that of the initial target."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X, y, groups=groups)
    assert [str(one.message)[:16] for one in caught] == ["cannot cross-fit"]
    start = clone(model).set_params(method="fixed").fit(X, y)
    np.testing.assert_array_equal(model.target_quantiles_, start.target_quantiles_)
    np.testing.assert_array_equal(model.coef_, start.coef_)
    assert model.n_rounds_ == 0
    return str(caught[0].message)


def test_folds_without_a_class_or_an_event_or_too_few_members_learn_nothing():
    X, y = np.random.default_rng(0).standard_normal((40, 6)), np.repeat([0, 1], 20)
    groups, rows = np.repeat(np.arange(8), 5), np.arange(40)
    of_fold = "a fold leaves no training sample of some class"
    one_group_has_a_class = np.where(y == 1, 9, groups)
    random = SuquanClassifier(random_state=0)
    assert of_fold in keeps_its_start(random, X, y, one_group_has_a_class)
    given = [(rows[k:], rows[:k]) for k in (10, 20)]
    assert of_fold in keeps_its_start(SuquanClassifier(cv=given), X, y)
    classes = np.repeat([0, 1, 2, 2], 10)
    assert of_fold in keeps_its_start(random, X, classes, np.where(classes == 1, 9, groups))
    event = rows % 4 == 0
    outcome, own = np.column_stack([1.0 + rows, event]), np.where(event, 99, rows // 4)
    assert "with an event" in keeps_its_start(SuquanCox(random_state=0), X, outcome, own)
    assert "too few members" in keeps_its_start(random, X, rows < 1)
    assert "too few members" in keeps_its_start(SuquanRegressor(), X, X[:, 0], np.zeros(40))
    learned = SuquanClassifier(random_state=0, alpha=1e-3).fit(X, y, groups=groups)
    assert learned.n_rounds_ == 1


@pytest.mark.filterwarnings("ignore:cannot cross-fit", "ignore:the calibrated probability never")
def test_selection_keeps_the_start_where_no_folds_can_be_fitted():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((40, 50)), np.repeat([0, 1], 20)
    groups = np.where(y == 1, 20 + np.arange(40) // 10, np.arange(40) // 2)
    model = SuquanClassifierCV(cv=2, crossfit_cv=2, alphas=2, smoothnesses=1, random_state=0)
    assert model.fit(X, y, groups=groups).departure_ == 0.0
    departures = model.cv_results_["param_departure"]
    scores = [model.cv_results_["mean_test_score"][departures == at] for at in (0.0, 0.5, 1.0)]
    np.testing.assert_array_equal(scores[1:], [scores[0]] * 2)


@pytest.mark.parametrize(
    "cv", [3, StratifiedKFold(3), StratifiedKFold(3, shuffle=True, random_state=0)]
)
def test_labels_of_weight_zero_do_not_move_the_folds(cv):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 8))
    y = X[:, 0] - X[:, 1] > 0.5 * rng.standard_normal(60)
    weights = (np.arange(60) % 4 > 0).astype(float)
    model = SuquanClassifier("crossfit", cv=cv, alpha=0.01, random_state=0)
    expected = model.fit(X, y, sample_weight=weights).coef_
    flipped = model.fit(X, np.where(weights > 0, y, ~y), sample_weight=weights).coef_
    np.testing.assert_array_equal(flipped, expected)
    alone = model.fit(X[weights > 0], y[weights > 0]).coef_
    np.testing.assert_allclose(alone, expected, atol=1e-9)
