"""ARCHITECTURE.md is true: its places exist, and new parts go into the places that it names."""

import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

import suquan

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
SOURCE = ROOT / "src" / "suquan"

# Each part is added to the table that the page names, before anything else of the package is imported.
ADD_ALL = """
import warnings
import numpy as np
from suquan import calibration, losses, methods, ranking, target_sets, targets

class Quartic(losses.Squared):
    name = "quartic"
    def value(self, y, u, s):
        return float(s @ (y - u) ** 4)
    def gradient(self, y, u, s):
        return -4.0 * s * (y - u) ** 3
    def hessian(self, y, u, s):
        return losses.DiagonalCurvature(12.0 * s * (y - u) ** 2)
    def best_constant(self, y, s):
        from scipy.optimize import minimize_scalar
        return np.array([minimize_scalar(lambda b: self.value(y, b, s)).x])

class Flat(target_sets.Bounded):
    name = "flat"

losses.LOSSES["quartic"] = Quartic
target_sets.TARGET_SETS["flat"] = Flat()
methods.METHODS["mine"] = methods.Method("mine", "flat", 2)
targets.NAMED["logistic"] = lambda q: np.log(q) - np.log1p(-q)
ranking.TIES["by_position"] = ranking.TIES["first"]
calibration.MEASURES["worst"] = calibration.Measure(
    "lowest probability", lambda p, codes, shares: p[np.arange(len(p)), codes].min()
)

import suquan
rng = np.random.default_rng(0)
X, score = np.round(np.exp(rng.standard_normal((60, 12))), 1), rng.standard_normal(60)
y = X[:, 0] + X[:, 1] > X[:, 2] + X[:, 3]
warnings.simplefilter("error")
own = {"init": "logistic", "ties": "by_position", "random_state": 0}
values = suquan.SuquanRegressor("mine", loss="quartic", **own).fit(X, score)
assert np.mean((values.predict(X) - score) ** 4) < np.mean(score**4)
first = suquan.SuquanClassifier("mine", init="logistic", ties="first").fit(X, y)
model = suquan.SuquanClassifier("mine", init="logistic", ties="by_position").fit(X, y)
np.testing.assert_array_equal(model.decision_function(X), first.decision_function(X))
assert np.any(np.diff(model.target_knots_) < 0)  # "flat" is not monotone
path = suquan.save_model(model, FOLDER + "/m.suquan")
np.testing.assert_array_equal(suquan.load_model(path).predict(X), model.predict(X))
result = suquan.compare(
    X, y, methods=["uniform", "mine"], ties="by_position", outer_cv=3, inner_cv=2, alphas=2,
    smoothnesses=1, progress=False,
)
assert "worst" in result.folds and "worst" in result.summary
assert result.summary["method"].tolist()[:2] == ["uniform", "mine"]
suquan.report.write_report(FOLDER + "/report.html", result)
assert "lowest probability" in open(FOLDER + "/report.html", encoding="utf-8").read()
"""


def test_new_parts_go_into_the_places_of_the_page_and_nowhere_else(tmp_path):
    for name in ("LOSSES", "TARGET_SETS", "METHODS", "NAMED", "TIES", "MEASURES"):
        assert f"`{name}`" in PAGE
    code = f"FOLDER = {str(tmp_path)!r}\n{ADD_ALL}"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr


def test_every_place_of_the_page_is_there():
    places = set(re.findall(r"`([a-z_]+(?:/[a-z_]+)?(?:\.py|/))`", PAGE))
    assert len(places) > 15
    places = [SOURCE / place for place in sorted(places) if not place.startswith("tests/")]
    assert [place for place in places if not place.exists()] == []


def defaults_of(kind):
    return {
        name: parameter.default
        for name, parameter in inspect.signature(kind).parameters.items()
        if parameter.default is not inspect.Parameter.empty
    }


@pytest.mark.parametrize(
    "name",
    [
        "SuquanRegressor", "SuquanCox", "SuquanClassifierCV", "SuquanRegressorCV", "SuquanCoxCV",
        "SupervisedQuantileNormalizer",
    ],
)  # fmt: skip
def test_a_default_is_the_same_in_all_constructors(name):
    reference = defaults_of(suquan.SuquanClassifier)
    # `cv` of selection chooses the setting; losses differ by the task, and the normaliser takes either.
    own = {"cv", "loss"}
    for parameter, default in defaults_of(getattr(suquan, name)).items():
        if parameter in reference and parameter not in own:
            assert default == reference[parameter], parameter


def test_no_file_is_longer_than_500_lines():
    lengths = {
        path: len(path.read_text(encoding="utf-8").splitlines()) for path in SOURCE.rglob("*.py")
    }
    assert {path.name: n for path, n in lengths.items() if n > 500} == {}
