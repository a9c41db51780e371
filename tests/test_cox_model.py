"""Cox's model against scikit-survival and R, its invariances, and what it refuses."""

import csv
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sksurv.linear_model import CoxnetSurvivalAnalysis, CoxPHSurvivalAnalysis
from sksurv.util import Surv

from suquan import SuquanCox, SuquanCoxCV, align_features
from suquan.export import export_model
from suquan.survival import concordance

FOLDER = Path(__file__).parent / "data" / "survival"
METHODS = ("fixed", "f0", "bnd", "spav", "joint", "crossfit", "matrix", "multi")


def make_patients(n_samples=90, n_features=20, seed=0, digits=1):
    """Samples with a linear log-hazard, times with ties, about half of them censored."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_samples, n_features))
    time = rng.exponential(np.exp(-X @ rng.standard_normal(n_features) / 3))
    end = rng.exponential(size=n_samples)
    y = Surv.from_arrays(time <= end, np.round(np.minimum(time, end), digits))
    return np.exp(X), y


@pytest.fixture(scope="module")
def patients():
    return make_patients()


def read_reference():
    patients = np.genfromtxt(FOLDER / "patients.csv", delimiter=",", names=True)
    with open(FOLDER / "reference.csv", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    X, Z = (
        np.column_stack(
            [
                patients[name]
                for name in patients.dtype.names
                if name[0] == kind and name[1:].isdigit()
            ]
        )
        for kind in "xz"
    )
    return X, Z, patients, rows


@pytest.mark.parametrize("row", range(28))
def test_coefficients_are_those_of_r(row):
    """survival's coxph with ridge and glmnet, with ties, strata and weights; conversions are in reference.R."""
    X, Z, patients, rows = read_reference()
    case = rows[row]
    model = SuquanCox(
        "fixed",
        alpha=float(case["alpha"]),
        l1_ratio=float(case["l1_ratio"]),
        init="normal",
        time_ties=case["ties"],
    ).fit(
        X,
        np.column_stack([patients["time"], patients["event"]]),
        sample_weight=patients["weight"] if case["weights"] == "1" else None,
        strata=patients["stratum"] if case["strata"] == "1" else None,
    )
    np.testing.assert_allclose(model.transform(X), Z, atol=1e-9)
    expected = [float(case[f"coef{j}"]) for j in range(X.shape[1])]
    np.testing.assert_allclose(model.coef_[0], expected, atol=1e-5)


@pytest.mark.parametrize("ties", ["efron", "breslow"])
@pytest.mark.parametrize("n_features", [20, 200])
def test_ridge_is_that_of_scikit_survival(ties, n_features):
    """scikit-survival's alpha is 2·n·alpha; so are the hazards, at the same baseline."""
    X, y = make_patients(n_features=n_features)
    model = SuquanCox("fixed", alpha=0.02, time_ties=ties).fit(X, y)
    Z = model.transform(X)
    peer = CoxPHSurvivalAnalysis(alpha=2 * len(X) * 0.02, ties=ties, tol=1e-14).fit(Z, y)
    np.testing.assert_allclose(model.coef_[0], peer.coef_, atol=1e-5)
    times = [0.1, 0.35, 1.0]
    hazards = np.array([f(times) for f in peer.predict_cumulative_hazard_function(Z)])
    np.testing.assert_allclose(
        model.predict_cumulative_hazard_function(X, times), hazards, rtol=1e-4
    )
    survival = np.array([f(times) for f in peer.predict_survival_function(Z)])
    np.testing.assert_allclose(model.predict_survival_function(X, times), survival, atol=1e-4)
    assert model.score(X, y) == pytest.approx(peer.score(Z, y), abs=1e-12)


@pytest.mark.parametrize("l1_ratio", [0.2, 0.7])
def test_elastic_net_is_that_of_scikit_survival(l1_ratio):
    """Coxnet's alpha is (2 − r)·alpha, its l1_ratio r / (2 − r); it has Breslow's rule."""
    X, y = make_patients(n_features=60)
    model = SuquanCox("fixed", alpha=0.03, l1_ratio=l1_ratio, time_ties="breslow").fit(X, y)
    peer = CoxnetSurvivalAnalysis(
        alphas=[0.03 * (2 - l1_ratio)],
        l1_ratio=l1_ratio / (2 - l1_ratio),
        tol=1e-14,
        max_iter=10**6,
    ).fit(model.transform(X), y)
    np.testing.assert_allclose(model.coef_[0], peer.coef_[:, 0], atol=1e-5)
    assert 0 < np.count_nonzero(model.coef_) < 60


def test_missing_features_are_told_by_the_concordance_of_training_samples(patients):
    X, y = patients
    X = pd.DataFrame(X, columns=[f"gene {j}" for j in range(X.shape[1])])
    model = SuquanCox("fixed", alpha=0.02).fit(X, y)
    with pytest.warns(UserWarning, match="5 of the model's 20"):
        shift = align_features(model, X.iloc[:1, 5:], max_lost=1.0, training=(X, y)).training
    assert shift.scoring == "concordance"
    assert shift.score == model.score(X, y) > shift.score_without > 0.5
    assert f"concordance {shift.score:.4f}" in str(shift)


def test_an_exported_model_gives_the_risk(patients, tmp_path):
    X, y = patients
    model = SuquanCox("bnd", alpha=0.02).fit(X, y)
    folder = export_model(model, tmp_path / "risk")
    table, out = tmp_path / "table.csv", tmp_path / "out.csv"
    pd.DataFrame(X, columns=[f"x{j}" for j in range(20)]).to_csv(table)
    subprocess.run([sys.executable, folder / "score.py", table, out], check=True)
    np.testing.assert_allclose(pd.read_csv(out)["risk"], model.predict(X), atol=1e-9)


@pytest.mark.parametrize("method", METHODS)
def test_every_method_finds_the_risk(method, patients):
    X, y = patients
    model = SuquanCox(method, random_state=0).fit(X[:60], y[:60])
    assert model.score(X[60:], y[60:]) > 0.6
    assert np.array_equal(model.intercept_, [0.0])


@pytest.mark.parametrize("method", ["fixed", "joint", "crossfit", "multi"])
def test_fit_ignores_monotone_maps_of_samples_and_of_times(method, patients):
    X, y = patients
    make = {"random_state": 0, "tol": 0.1 if method == "multi" else 1e-4}
    model = SuquanCox(method, **make).fit(X, y)
    scales = np.random.default_rng(1).uniform(0.5, 2, (len(X), 1))
    mapped = Surv.from_arrays(y["event"], np.exp(y["time"]) - 1)
    same = SuquanCox(method, **make).fit(np.log(X) * scales, mapped)
    assert np.array_equal(same.coef_, model.coef_)
    assert np.array_equal(same.target_quantiles_, model.target_quantiles_)


@pytest.mark.parametrize("method", ["fixed", "joint"])
@pytest.mark.parametrize("l1_ratio", [0.0, 0.5])
def test_weight_two_is_a_repeated_row_under_breslow(method, l1_ratio, patients):
    X, y = patients
    weights = np.random.default_rng(0).integers(0, 3, len(X))
    rows = np.repeat(np.arange(len(X)), weights)
    make = {
        "method": method,
        "l1_ratio": l1_ratio,
        "alpha": 0.02,
        "smoothness": 0.1,
        "time_ties": "breslow",
        "tol": 1e-10,
    }
    weighted = SuquanCox(**make).fit(X, y, sample_weight=weights)
    repeated = SuquanCox(**make).fit(X[rows], y[rows])
    np.testing.assert_allclose(weighted.predict(X), repeated.predict(X), atol=1e-5)
    np.testing.assert_allclose(weighted.baseline_hazards_, repeated.baseline_hazards_, rtol=1e-4)
    assert weighted.score(X, y, sample_weight=weights) == pytest.approx(
        repeated.score(X[rows], y[rows]), abs=1e-9
    )


def test_strata_have_their_own_baseline_and_share_the_model(patients):
    X, y = patients
    strata = np.where(np.arange(len(X)) % 3, "old", "new")
    late = Surv.from_arrays(y["event"], np.where(strata == "old", 50 + y["time"], y["time"]))
    model = SuquanCox(random_state=0).fit(X, late, strata=strata)
    same = SuquanCox(random_state=0).fit(X, y, strata=strata)
    assert np.array_equal(model.coef_, same.coef_)
    survival = model.predict_survival_function(X, [10.0], strata=strata)[:, 0]
    assert np.all(survival[strata == "old"] == 1.0)
    assert np.all(survival[strata == "new"] < 1.0)
    with pytest.raises(ValueError, match=r"unknown stratum 'other'.*'new', 'old'"):
        model.predict_survival_function(X[:1], [1.0], strata=["other"])
    with pytest.raises(ValueError, match="2 strata"):
        model.predict_cumulative_hazard_function(X, [1.0])
    risk = model.predict(X)
    assert model.score(X, y, strata=strata) == concordance(y, risk, strata)


def test_selection_chooses_by_concordance(patients):
    X, y = patients
    strata = np.arange(len(X)) % 2
    model = SuquanCoxCV(["fixed", "crossfit"], alphas=2, smoothnesses=1, cv=3, random_state=0)
    model.fit(X, y, strata=strata)
    assert 0.5 < model.best_score_ < 1.0
    train, test = np.arange(0, 60), np.arange(60, 90)
    one = SuquanCoxCV("fixed", alphas=[0.01], cv=[(train, test)], random_state=0).fit(X, y)
    fixed = SuquanCox("fixed", alpha=0.01).fit(X[train], y[train])
    assert one.best_score_ == pytest.approx(fixed.score(X[test], y[test]), abs=1e-12)
    np.testing.assert_allclose(one.predict(X), SuquanCox("fixed", alpha=0.01).fit(X, y).predict(X))
    assert model.predict_survival_function(X, [0.5], strata=strata).shape == (90, 1)


def change(y, **fields):
    y = y.copy()
    for name, (place, value) in fields.items():
        y[name][place] = value
    return y


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (lambda y: change(y, event=(slice(None), False)), "no event at all"),
        (lambda y: change(y, time=(3, -1.0)), "not negative; sample 3 has -1"),
        (lambda y: change(y, time=(3, np.nan)), "NaN: drop it"),
        (lambda y: change(y, time=(3, np.inf)), "finite"),
        (lambda y: change(y, time=(slice(None), 2.0), event=(slice(None), True)), "all times are equal"),
        (lambda y: change(y, time=(slice(None), 2.0)), "all times are equal, 2"),
        (lambda y: change(y, event=(slice(None), y["time"] == y["time"].max())), "no event comes before"),
        (lambda y: np.column_stack([y["time"], y["event"] + 1.0]), "event must be boolean"),
        (lambda y: np.column_stack([y["event"], y["time"]]), "time, then event"),
        (lambda y: y["time"], "two columns"),
        (lambda y: None, "y"),
        (lambda y: y[:-1], "inconsistent numbers of samples"),
    ],
)  # fmt: skip
def test_bad_labels_are_refused(labels, message, patients):
    X, y = patients
    with pytest.raises(ValueError, match=message):
        SuquanCox().fit(X, labels(y))


def test_bad_strata_are_refused_or_named(patients):
    X, y = patients
    with pytest.raises(ValueError, match="every stratum has one sample"):
        SuquanCox().fit(X, y, strata=np.arange(len(X)))
    with pytest.raises(ValueError, match="one value per sample"):
        SuquanCox().fit(X, y, strata=[1, 2])
    strata = (np.arange(len(X)) < 10).astype(int)
    quiet = change(y, event=(slice(0, 10), False))
    with pytest.warns(UserWarning, match="1 of 2 strata have no event"):
        model = SuquanCox("fixed", alpha=0.01).fit(X, quiet, strata=strata)
    alone = SuquanCox("fixed", alpha=0.01 * 90 / 80).fit(X[10:], quiet[10:])
    np.testing.assert_allclose(model.coef_, alone.coef_, atol=1e-7)


def test_other_mistakes_are_named(patients):
    X, y = patients
    with pytest.raises(ValueError, match=r"'svd' is for classification with two classes"):
        SuquanCox("svd").fit(X, y)
    with pytest.raises(ValueError, match="time_ties"):
        SuquanCox(time_ties="exact").fit(X, y)
    dask = pytest.importorskip("dask.array")
    with pytest.raises(TypeError, match="no Dask array"):
        SuquanCox().fit(dask.from_array(X), y)
    with pytest.raises(ValueError, match="no two samples can be compared"):
        SuquanCox("fixed").fit(X, y).score(X[:1], y[:1])


@pytest.mark.parametrize("n_events", [1, 4])
def test_few_events_still_fit(n_events):
    """Every fold trains on some event; a single one cannot be shared out."""
    X, y = make_patients(40)
    first = np.argsort(y["time"])[:n_events]
    y = change(y, event=(slice(None), False))
    y["event"][first] = True
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = SuquanCox(random_state=0).fit(X, y)
    assert [str(one.message)[:16] for one in caught] == ["cannot cross-fit"] * (n_events == 1)
    assert np.all(np.isfinite(model.predict(X)))
