"""Losses and sets of one's own: the page about them runs as it stands, and what is neither is refused."""

import re
from pathlib import Path

import numpy as np
import pytest

from suquan import SupervisedQuantileNormalizer, SuquanClassifier, SuquanRegressor, compare
from suquan.losses import Huber, Logistic, Poisson, Softmax, Squared
from suquan.methods import METHODS, Method, resolve_method

PAGE = Path(__file__).parents[1] / "docs" / "add_a_loss.md"
RNG = np.random.default_rng(1)
X = RNG.standard_normal((80, 12))
U = np.argsort(np.argsort(X, axis=1), axis=1) @ RNG.standard_normal(12) / 12
U = U - np.median(U)
COUNTS = np.round(np.exp(0.3 * (U - U.min())))


@pytest.fixture(scope="module")
def page():
    """Names that the page defines."""
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    names: dict = {}
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), names)
    return names


@pytest.mark.parametrize("loss", [Squared(), Huber(0.5), Poisson(), Logistic(), Softmax()], ids=str)
def test_objects_of_the_package_give_what_their_names_give(loss):
    if loss.is_classification:
        y = U > 0 if loss.name == "logistic" else np.sign(np.round(U))
        given = SuquanClassifier(METHODS["bnd"], loss=loss).fit(X, y)
        named = SuquanClassifier("bnd", loss=loss.name).fit(X, y)
    else:
        given = SuquanRegressor("bnd", loss=loss).fit(X, COUNTS)
        named = SuquanRegressor("bnd", loss=loss.name, huber_delta=0.5).fit(X, COUNTS)
    np.testing.assert_array_equal(given.coef_, named.coef_)


@pytest.mark.parametrize(
    ("kind", "settings", "error", "message"),
    [
        (SuquanClassifier, {"method": "bmd"}, ValueError, "must be one of 'fixed', 'svd', 'f0', 'bnd'"),
        (SuquanClassifier, {"method": 3}, TypeError, r"'multi', a suquan.methods.Method, or .* int does not"),
        (SuquanClassifier, {"loss": "squared"}, ValueError, "one of 'auto', 'logistic', 'softmax'"),
        (SuquanClassifier, {"loss": "LogCosh"}, ValueError, "'log-cosh' is not for labels that are classes"),
        (SuquanRegressor, {"loss": "logistic"}, ValueError, "one of 'squared', 'huber', 'poisson'"),
        (SuquanRegressor, {"loss": 3}, TypeError, r"follows suquan.losses.Loss; one of class int does not"),
        (SuquanRegressor, {"loss": "poisson"}, ValueError, "counts: y must not be negative"),
        (SuquanRegressor, {"loss": "huber", "huber_delta": 0.0}, ValueError, "huber_delta must be a number"),
    ],
)  # fmt: skip
def test_what_is_no_loss_or_method_is_refused(kind, settings, error, message, page):
    if settings.get("loss") == "LogCosh":
        settings = {"loss": page["LogCosh"]()}
    with pytest.raises(error, match=message):
        kind(**settings).fit(X, U > 0 if kind is SuquanClassifier else U)


def test_row_of_ones_own_has_its_rounds_and_name():
    mine = Method("mine", "joint", max_rounds=2, is_smooth=True)
    assert resolve_method(mine) is mine
    same = SuquanClassifier("joint", max_rounds=2).fit(X, U > 0)
    np.testing.assert_array_equal(SuquanClassifier(mine).fit(X, U > 0).coef_, same.coef_)
    settings = {"outer_cv": 3, "inner_cv": 2, "alphas": 2, "smoothnesses": 2, "progress": False}
    scores = compare(X, U > 0, methods=[mine, ("again", mine)], **settings).folds["score"]
    np.testing.assert_array_equal(scores[:3], scores[3:])


def test_normalizer_takes_the_losses_of_both_tasks(page):
    for loss, kind, y in (
        ("poisson", SuquanRegressor, COUNTS),
        ("huber", SuquanRegressor, COUNTS),
        ("softmax", SuquanClassifier, U > 0),
    ):
        model = SupervisedQuantileNormalizer("bnd", loss=loss).fit(X, y)
        assert type(model.estimator_) is kind
        assert model.estimator_.loss == loss
    own = SupervisedQuantileNormalizer("bnd", loss=page["LogCosh"]()).fit(X, U)
    assert own.estimator_.loss.name == "log-cosh"
