"""The shared fits of a selection against a plain loop over the simple estimators."""

import numpy as np
import pytest
from scipy.special import expit
from sklearn.metrics import make_scorer

from suquan import (
    SuquanClassifier,
    SuquanClassifierCV,
    SuquanRegressor,
    SuquanRegressorCV,
    quantile_normalize,
)

pytestmark = pytest.mark.filterwarnings("ignore:the calibrated probability never passes")
METHODS = ("fixed", "svd", "f0", "bnd", "spav", "joint", "crossfit")
GRID = {"alphas": [0.01, 0.1, 1.0], "smoothnesses": [0.0, 0.05], "departures": [1.0]}


def make_problem(n_samples=60, n_features=12, task="binary", seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_samples, n_features))
    U = quantile_normalize(X, "normal") @ rng.standard_normal((n_features, 3))
    if task == "regression":
        return np.exp(X), U[:, 0] + rng.standard_normal(n_samples)
    if task == "classes":
        return np.exp(X), np.array(["a", "b", "c"])[np.argmax(U + rng.gumbel(size=U.shape), axis=1)]
    return np.exp(X), (rng.random(n_samples) < expit(U[:, 0])).astype(int)


def projection(y, u, sample_weight=None):
    """Component of the decision values in a random direction: where it agrees, they do."""
    direction = np.random.default_rng(0).choice([-1.0, 1.0], np.size(u)) / np.sqrt(np.size(u))
    return float(np.ravel(u) @ direction)


def assert_same_as_loop(X, y, method, kind="classifier", weights=None, groups=None, **parameters):
    """Decision values on held-out samples of every candidate, to 1e-6: fits must be as near to the optimum."""
    simple, searching, answer = {
        "classifier": (SuquanClassifier, SuquanClassifierCV, "decision_function"),
        "regressor": (SuquanRegressor, SuquanRegressorCV, "predict"),
    }[kind]
    grid = {**GRID, **{name: parameters.pop(name) for name in list(parameters) if name in GRID}}
    rounds = parameters.pop("max_rounds", None)
    parameters = {"tol": 1e-6, "random_state": 0, **parameters}
    test = np.arange(len(y))[1::3]
    train = np.setdiff1d(np.arange(len(y)), test)
    test = test if weights is None else test[weights[test] > 0]
    scorer = make_scorer(projection, response_method=answer)
    search = searching(method, cv=[(train, test)], scoring=scorer, max_rounds=rounds, **grid)
    search.set_params(**parameters).fit(X, y, sample_weight=weights, groups=groups)
    results = search.cv_results_
    assert len(results["params"]) >= len(grid["alphas"])
    for params, score in zip(results["params"], results["split0_test_score"], strict=True):
        plain = simple(**{**params, "max_rounds": params["max_rounds"] or None}, **parameters).fit(
            X[train],
            y[train],
            None if weights is None else weights[train],
            None if groups is None else groups[train],
        )
        expected = projection(None, getattr(plain, answer)(X[test]))
        assert score == pytest.approx(expected, abs=1e-6), params


@pytest.mark.parametrize("shape", [pytest.param((60, 12), marks=pytest.mark.slow), (36, 50)])
@pytest.mark.parametrize("method", METHODS)
def test_selection_gives_the_decision_values_of_a_plain_loop(method, shape):
    X, y = make_problem(*shape)
    assert_same_as_loop(X, y, method)
    if shape == (36, 50):
        assert_same_as_loop(X, y, method, n_knots=9)


# Of the methods with alternating steps one by default: their grids share all code but the set of targets.
@pytest.mark.parametrize(
    "method",
    [
        "bnd",
        "crossfit",
        *(pytest.param(m, marks=pytest.mark.slow) for m in ("f0", "spav", "joint")),
    ],
)
def test_selection_gives_the_values_of_a_plain_loop_for_every_departure_and_loss(method):
    assert_same_as_loop(*make_problem(36, 50), method, departures=[0.0, 0.3, 1.0])
    # At smoothness 0 many unbounded targets of "spav" fit few samples alike: no single answer there.
    # Rounds of "joint" amplify what steps leave.
    levels = {"smoothnesses": [0.05, 0.5], "tol": 1e-8 if method == "joint" else 1e-6}
    assert_same_as_loop(*make_problem(task="classes"), method, **levels)
    assert_same_as_loop(*make_problem(36, 50, "regression"), method, "regressor", **levels)
    levels["alphas"] = [0.1, 1.0]
    X, y = make_problem(task="regression")
    for loss, values in (("squared", y), ("huber", y), ("poisson", np.round(np.exp(0.5 * y)))):
        assert_same_as_loop(X, values, method, "regressor", loss=loss, **levels)


@pytest.mark.parametrize(
    ("method", "options"),
    [
        ("fixed", {"l1_ratio": 0.5, "alphas": [0.003, 0.01]}),
        ("bnd", {"l1_ratio": 0.5, "alphas": [0.003, 0.01]}),
        ("crossfit", {"l1_ratio": 0.5, "alphas": [0.003, 0.01], "n_repeats": 1}),
        ("fixed", {"init": "median"}),
        ("joint", {"init": "mean"}),
        ("crossfit", {"init": "normal"}),
        ("joint", {"max_rounds": [1, 3]}),
        ("crossfit", {"max_rounds": [1, 3]}),
        ("crossfit", {"groups": np.arange(60) // 4}),
    ],
    ids=str,
)
def test_selection_gives_the_values_of_a_plain_loop_with_options(method, options):
    assert_same_as_loop(*make_problem(), method, **options)


RULES = ("average", "first", "mean_rank")


@pytest.mark.parametrize(("method", "ties"), list(zip(METHODS[::-1], RULES * 3, strict=False)))
def test_selection_gives_the_values_of_a_plain_loop_with_ties_gaps_and_weights(method, ties):
    X, y = make_problem()
    weights = np.random.default_rng(0).integers(0, 4, len(y)).astype(float)
    assert np.any(weights == 0)
    assert_same_as_loop(X, y, method, weights=weights, class_weight={0: 1.0, 1: 2.0})
    X = np.round(X)
    X[np.random.default_rng(0).random(X.shape) < 0.1] = np.nan
    assert_same_as_loop(X, y, method, missing="ignore", ties=ties)
