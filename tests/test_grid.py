"""The shared fits of a grid against a plain loop over the simple estimators."""

import numpy as np
import pytest
from scipy.special import expit

from suquan import SuquanClassifier, SuquanRegressor, quantile_normalize
from suquan.methods import resolve_method
from suquan.model.rounds import Candidate
from suquan.model.settings import Settings, encode
from suquan.selection.folds import RankedData
from suquan.selection.grids import make_candidates

METHODS = ("fixed", "svd", "f0", "bnd", "spav", "joint", "crossfit")
# Of the methods with alternating steps one by default: their grids share all code but the set of targets.
WITHOUT_SVD = [
    "fixed",
    "bnd",
    "crossfit",
    *(pytest.param(method, marks=pytest.mark.slow) for method in ("f0", "spav", "joint")),
]
RULES = ("average", "first", "mean_rank")


def make_problem(n_samples=60, n_features=12, task="binary", seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_samples, n_features))
    U = quantile_normalize(X, "normal") @ rng.standard_normal((n_features, 3))
    if task == "regression":
        return np.exp(X), U[:, 0] + rng.standard_normal(n_samples)
    if task == "classes":
        return np.exp(X), np.array(["a", "b", "c"])[np.argmax(U + rng.gumbel(size=U.shape), axis=1)]
    return np.exp(X), (rng.random(n_samples) < expit(U[:, 0])).astype(int)


def ranked(estimator, X, y, sample_weight=None, groups=None):
    settings = Settings.of(estimator)
    return settings, RankedData.of(
        settings, encode(estimator, settings, X, y, sample_weight), groups
    )


def assert_same_as_loop(
    base, method, X, y, *, weights=None, groups=None, max_rounds=None, departures=None,
    alphas=(0.01, 0.1, 1.0), smoothnesses=(0.0, 0.05), **parameters,
):  # fmt: skip
    """Decision values on held-out samples of every candidate, to 1e-6: fits must be as near to the optimum."""
    parameters = {"tol": 1e-6, "random_state": 0, **parameters}
    test = np.arange(len(y))[1::3]
    train = np.setdiff1d(np.arange(len(y)), test)
    candidates = make_candidates([method], alphas, smoothnesses, max_rounds, departures=departures)
    settings, data = ranked(base(method, **parameters), X, y, weights, groups)
    fits = data.fit(settings, candidates, train)
    outputs = data.outputs(settings, fits, train, test)
    part = None if weights is None else weights[train]
    for candidate, (_, fit), shared in zip(candidates, fits, outputs, strict=True):
        setting = candidate._asdict()
        setting |= {"method": method, "max_rounds": candidate.max_rounds or None}
        if base is SuquanRegressor:
            del setting["n_targets"]
        plain = base(**{k: v for k, v in setting.items() if v is not None}, **parameters)
        plain.fit(X[train], y[train], part, None if groups is None else groups[train])
        np.testing.assert_allclose(
            shared, plain._scores(X[test]), atol=1e-6, err_msg=str(candidate)
        )
        assert fit.n_rounds == plain.n_rounds_


@pytest.mark.parametrize("shape", [(60, 12), (36, 50)])
@pytest.mark.parametrize("method", METHODS)
def test_grid_gives_the_decision_values_of_a_plain_loop(method, shape):
    assert_same_as_loop(SuquanClassifier, method, *make_problem(*shape))


@pytest.mark.parametrize("method", WITHOUT_SVD)
def test_grid_gives_the_values_of_a_plain_loop_for_classes_and_regression(method):
    # At smoothness 0 many unbounded targets of "spav" fit few samples alike: no single answer there.
    levels = {"smoothnesses": [0.05, 0.5]}
    assert_same_as_loop(SuquanClassifier, method, *make_problem(task="classes"), **levels)
    assert_same_as_loop(SuquanRegressor, method, *make_problem(36, 50, "regression"), **levels)
    levels["alphas"] = [0.1, 1.0]
    X, y = make_problem(task="regression")
    assert_same_as_loop(SuquanRegressor, method, X, y, loss="huber", **levels)
    y = np.round(np.exp(0.5 * y))
    assert_same_as_loop(SuquanRegressor, method, X, y, loss="poisson", **levels)


@pytest.mark.parametrize("method", METHODS)
def test_grid_gives_the_values_of_a_plain_loop_on_knots(method):
    assert_same_as_loop(SuquanClassifier, method, *make_problem(36, 50), n_knots=9)


@pytest.mark.parametrize(("method", "ties"), list(zip(METHODS[::-1], RULES * 3, strict=False)))
def test_grid_gives_the_values_of_a_plain_loop_with_ties_and_missing_values(method, ties):
    X, y = make_problem()
    X = np.round(X)
    X[np.random.default_rng(0).random(X.shape) < 0.1] = np.nan
    assert_same_as_loop(SuquanClassifier, method, X, y, missing="ignore", ties=ties)


@pytest.mark.parametrize("method", METHODS)
def test_grid_gives_the_values_of_a_plain_loop_with_weights_and_zeros_among_them(method):
    X, y = make_problem()
    weights = np.random.default_rng(0).integers(0, 4, len(y)).astype(float)
    assert np.any(weights == 0)
    assert_same_as_loop(
        SuquanClassifier, method, X, y, weights=weights, class_weight={0: 1.0, 1: 2.0}
    )


@pytest.mark.parametrize(
    ("methods", "shape", "parameters"),
    [
        (("bnd", "spav", "joint", "crossfit"), (36, 50), {"departures": [0.0, 0.3, 1.0]}),
        (("fixed", "bnd", "crossfit"), (60, 12),
         {"l1_ratio": 0.5, "n_repeats": 1, "alphas": [0.003, 0.01]}),
        (("fixed",), (36, 50), {"init": "median"}),
        (("joint",), (36, 50), {"init": "mean"}),
        (("crossfit",), (36, 50), {"init": "normal"}),
        (("crossfit",), (60, 12), {"groups": np.arange(60) // 4}),
        (("joint", "crossfit"), (60, 12), {"max_rounds": [1, 3]}),
    ],
)  # fmt: skip
def test_grid_gives_the_values_of_a_plain_loop_for_every_parameter(methods, shape, parameters):
    for method in methods:
        assert_same_as_loop(SuquanClassifier, method, *make_problem(*shape), **parameters)


def test_grid_answers_in_the_order_of_the_candidates():
    X, y = make_problem()
    settings = (("bnd", 0.1), ("fixed", 1.0), ("bnd", 1.0), ("fixed", 0.1))
    candidates = [
        Candidate(resolve_method(name), alpha, 0.0, int(name == "bnd")) for name, alpha in settings
    ]
    (settings, data), train = ranked(SuquanClassifier(random_state=0), X, y), np.arange(len(y))
    together = data.fit(settings, candidates, train)
    for candidate, (f, fit) in zip(candidates, together, strict=True):
        ((f_alone, alone),) = data.fit(settings, [candidate], train)
        np.testing.assert_allclose(f, f_alone, atol=1e-7)
        np.testing.assert_allclose(fit.w, alone.w, atol=1e-6)
