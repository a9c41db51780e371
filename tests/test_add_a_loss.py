"""The page "Add a loss, add a set of targets" runs as it stands, and foreign objects are told from ours."""

import re
import warnings
from pathlib import Path

import numpy as np
import pytest

from suquan import SupervisedQuantileNormalizer, SuquanClassifier, SuquanRegressor, compare
from suquan.losses import Huber, Logistic, Poisson, Softmax, Squared
from suquan.methods import METHODS, Method, resolve_method
from suquan.prox import prox_smooth_bounded_nondecreasing
from suquan.target_sets import ConvexTargets

PAGE = Path(__file__).parents[1] / "docs" / "add_a_loss.md"


@pytest.fixture(scope="module")
def page():
    """Names that the page defines."""
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    names: dict = {}
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), names)
    return names


def make_problem(n_samples=80, n_features=12):
    rng = np.random.default_rng(1)
    X = rng.standard_normal((n_samples, n_features))
    u = np.argsort(np.argsort(X, axis=1), axis=1) @ rng.standard_normal(n_features) / 12
    return X, u - np.median(u)


def test_objects_of_the_package_give_what_their_names_give():
    X, u = make_problem()
    counts = np.round(np.exp(0.3 * (u - u.min())))
    for loss, name in ((Squared(), "squared"), (Huber(0.5), "huber"), (Poisson(), "poisson")):
        given = SuquanRegressor("bnd", loss=loss).fit(X, counts)
        named = SuquanRegressor("bnd", loss=name, huber_delta=0.5).fit(X, counts)
        np.testing.assert_array_equal(given.predict(X), named.predict(X))
    for loss, name, y in (
        (Logistic(), "logistic", u > 0),
        (Softmax(), "softmax", np.sign(np.round(u))),
    ):
        given = SuquanClassifier(METHODS["bnd"], loss=loss).fit(X, y)
        named = SuquanClassifier("bnd", loss=name).fit(X, y)
        np.testing.assert_array_equal(given.predict_proba(X), named.predict_proba(X))


class NonIncreasing(ConvexTargets):
    name = "non-increasing"

    def prox(self, z, step):
        return -prox_smooth_bounded_nondecreasing(-z, step * self.smoothness)


def test_foreign_set_finds_the_mirror_image_of_ours():
    X, u = make_problem()
    ours = SuquanClassifier("bnd", alpha=0.1, n_knots=6, tol=1e-9, max_iter=5000).fit(X, u > 0)
    mirrored = Method("mirrored", NonIncreasing(), max_rounds=1, start=np.linspace(1, -1, 12))
    theirs = SuquanClassifier(mirrored, alpha=0.1, n_knots=6, tol=1e-9, max_iter=5000)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="the target quantiles are not")
        theirs.fit(X, u > 0)
    np.testing.assert_allclose(theirs.target_knots_, -ours.target_knots_, atol=1e-4)
    np.testing.assert_allclose(theirs.decision_function(X), ours.decision_function(X), atol=1e-4)


def test_unknown_losses_and_methods_are_errors_that_list_the_known_ones(page):
    X, u = make_problem()
    with pytest.raises(ValueError, match="method must be one of 'fixed', 'svd', 'f0', 'bnd'"):
        resolve_method("bmd")
    with pytest.raises(TypeError, match=r"'multi', a suquan.methods.Method, or .* int does not"):
        SuquanClassifier(3).fit(X, u > 0)
    with pytest.raises(ValueError, match="loss must be one of 'auto', 'logistic', 'softmax'"):
        SuquanClassifier(loss="squared").fit(X, u > 0)
    with pytest.raises(ValueError, match="loss must be one of 'squared', 'huber', 'poisson'"):
        SuquanRegressor(loss="logistic").fit(X, u)
    with pytest.raises(ValueError, match="'log-cosh' is not for labels that are classes"):
        SuquanClassifier(loss=page["LogCosh"]()).fit(X, u > 0)
    with pytest.raises(TypeError, match=r"follows suquan.losses.Loss; one of class int does not"):
        SuquanRegressor(loss=3).fit(X, u)
    with pytest.raises(ValueError, match="counts: y must not be negative"):
        SuquanRegressor(loss="poisson").fit(X, u)
    with pytest.raises(ValueError, match="huber_delta must be a number"):
        SuquanRegressor(loss="huber", huber_delta=0.0).fit(X, u)


def test_row_of_ones_own_has_its_rounds_and_name():
    X, u = make_problem()
    mine = Method("mine", "joint", max_rounds=2, is_smooth=True)
    same = SuquanClassifier("joint", max_rounds=2).fit(X, u > 0)
    np.testing.assert_array_equal(SuquanClassifier(mine).fit(X, u > 0).coef_, same.coef_)
    settings = {"outer_cv": 3, "inner_cv": 2, "alphas": 2, "smoothnesses": 2, "progress": False}
    result = compare(X, u > 0, methods=[mine, ("again", mine)], **settings)
    scores = result.folds["score"]
    np.testing.assert_array_equal(scores[:3], scores[3:])


def test_normalizer_takes_the_losses_of_both_tasks(page):
    X, u = make_problem()
    counts = np.round(np.exp(0.3 * (u - u.min())))
    for loss, kind in (
        ("poisson", SuquanRegressor),
        ("huber", SuquanRegressor),
        ("softmax", SuquanClassifier),
    ):
        model = SupervisedQuantileNormalizer("bnd", loss=loss).fit(
            X, u > 0 if loss == "softmax" else counts
        )
        assert type(model.estimator_) is kind
        assert model.estimator_.loss == loss
    own = SupervisedQuantileNormalizer("bnd", loss=page["LogCosh"]()).fit(X, u)
    assert own.estimator_.loss.name == "log-cosh"
