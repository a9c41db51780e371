"""Cox's model on the command line: fit, predict, compare, the report, and mistakes."""

import numpy as np
import pandas as pd
import pytest
from test_cli import QUICK, fail, read_csv, succeed

from suquan import SuquanCox, compare, load_model
from suquan.report import write_report
from suquan.survival import RiskGroups, as_outcome, kaplan_meier, numbers_at_risk

TIMES = "--time months --event relapsed"
FIT = f"fit table.csv {QUICK} --method fixed --labels"


def words(result):
    """All that was said, in one line."""
    return " ".join(result.output.split())


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    """A table of 60 samples, labels of 58 of them, and the table with its labels inside."""
    folder = tmp_path_factory.mktemp("survival")
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 12))
    time = np.round(rng.exponential(np.exp(-X @ rng.standard_normal(12) / 2)), 2)
    names = [f"patient{i}" for i in range(60)]
    table = pd.DataFrame(np.exp(X), index=pd.Index(names, name="sample"))
    table.columns = [f"gene{j}" for j in range(12)]
    table.to_csv(folder / "table.csv")
    labels = pd.DataFrame(
        {"months": time, "relapsed": (rng.random(60) < 0.6).astype(int)}, table.index
    )
    labels["cohort"] = np.where(np.arange(60) % 3, "north", "south")
    table.join(labels).to_csv(folder / "whole.csv")
    labels.loc["patient3", "months"] = np.nan
    labels.drop("patient7").to_csv(folder / "labels.csv")
    return folder


@pytest.fixture(autouse=True)
def data(tables, monkeypatch):
    """The commands run in the folder of the tables."""
    monkeypatch.chdir(tables)


def test_fit_and_predict_are_those_of_the_estimator(tmp_path):
    path, scores = tmp_path / "cox.suquan", tmp_path / "scores.csv"
    result = succeed(f"{FIT} labels.csv {TIMES} --strata cohort -o", path)
    assert "2 with missing time, stratum or event" in words(result)
    model = load_model(path)
    table = pd.read_csv("table.csv", index_col=0)
    labels = pd.read_csv("labels.csv", index_col=0).dropna()
    X, y = table.loc[labels.index].to_numpy(), labels[["months", "relapsed"]].to_numpy()
    same = SuquanCox("fixed", alpha=model.alpha_).fit(X, y, strata=labels["cohort"])
    np.testing.assert_allclose(model.coef_, same.coef_, rtol=1e-12)
    line = f"predict {path} table.csv -o {scores} --labels labels.csv {TIMES} --strata cohort"
    result = succeed(line)
    rows = read_csv(scores)
    assert list(rows[0]) == ["sample", "risk"]
    risks = [float(row["risk"]) for row in rows]
    np.testing.assert_allclose(risks, same.predict(table.to_numpy()), rtol=1e-9)
    value = same.score(X, y, strata=labels["cohort"])
    assert f"concordance {value:.4f}" in words(result)


def test_events_may_be_words(tmp_path):
    """The same model as with 1 and 0; what each word means is listed with its count."""
    table = pd.read_csv("labels.csv")
    came, path, known = table["relapsed"] == 1, tmp_path / "m.suquan", tmp_path / "labels.csv"
    columns = {
        "truth": came,
        "status": np.where(came, "Dead", "Alive"),
        "again": np.where(came, "relapse", "none so far"),
        "code": np.where(came, 2, 1),
    }
    table.assign(**columns).to_csv(known, index=False)
    rest = f"--labels {known} --time 'Months ' --event"
    start = f"fit table.csv {QUICK} --method fixed -o {path} {rest}"
    succeed(f"{start} relapsed")
    expected = load_model(path).coef_
    n = int(came.sum())
    for event, told in (
        ("truth", f"'true' is an event ({n})"),
        ("status", f"status: 'Alive' is none ({59 - n}), 'Dead' is an event ({n})"),
        ("again --event-value Relapse", f"'none so far' is none ({59 - n}), 'relapse' is an"),
        ("code --event-value 2", f"code: '1' is none ({59 - n}), '2' is an event ({n})"),
    ):
        assert told.lower() in words(succeed(f"{start} {event}")).lower()
        np.testing.assert_array_equal(load_model(path).coef_, expected)
    assert f"there is '{2 if 2 * n > 59 else 1}' (" in fail(f"{start} code")
    message = fail(f"{start} cohort --event-value east")
    assert "no label is 'east'; there is 'north' (39), 'south' (20)" in message
    table.assign(code=np.arange(59) % 3).to_csv(known, index=False)
    three = f"{start} code --event-value 2"
    assert "holds 3 values: '0' (20), '1' (20), '2' (19); give --negative VALUE" in fail(three)
    for rule, what in (("--negative 0", "left out"), ("--negative-rest", "none")):
        told = f"code: '0' is none (20), '1' is {what} (20), '2' is an event (19)"
        assert told in words(succeed(f"{three} {rule}"))
    told = words(succeed(f"predict {path} table.csv {rest} code --event-value 2 --negative 0"))
    assert "19 events, 19 censored; dropped: 22" in told


def test_labels_may_lie_in_the_table(tmp_path):
    path = tmp_path / "cox.suquan"
    given = f"whole.csv {TIMES} --strata cohort"
    succeed(f"fit {given} {QUICK} --method fixed -o {path}")
    assert load_model(path).n_features_in_ == 12
    assert "concordance 0." in words(succeed(f"predict {path} {given} -o {tmp_path}/scores.csv"))


def test_compare_reports_groups_of_risk(tmp_path):
    folder = tmp_path / "result"
    result = succeed(
        f"compare table.csv --labels labels.csv {TIMES} {QUICK} --inner-cv 2x1 --methods "
        f"raw,normal,uniform,crossfit --out {folder}"
    )
    assert "compared with the initial target" in words(result)
    assert {row["method"] for row in read_csv(folder / "summary.csv")} > {"raw", "best_fixed"}
    page = (folder / "report.html").read_text(encoding="utf-8")
    parts = "Groups of risk|Kaplan-Meier|Numbers at risk|Harrell|an early event|999 permutations"
    for text in parts.split("|"):
        assert text in page
    assert (folder / "figures" / "risk_groups.svg").exists()
    table = pd.read_csv("table.csv", index_col=0)
    assert load_model(folder / "model.suquan").predict(table).shape == (60,)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--time months", "both --time and --event"),
        ("--strata cohort --label relapsed", "both --time and --event"),
        (f"{TIMES} --strata cohort --horizon 3", "give one"),
        (f"{TIMES} --label cohort", "do not go with"),
        ("--label cohort --event-value 1", "--event-value is a value in the column"),
        (f"{TIMES} --negative 0", "need --positive or --event-value"),
        ("--label cohort --negative-rest", "need --positive or --event-value"),
    ],
)
def test_options_that_contradict_each_other_are_refused(options, message):
    told = fail(f"fit table.csv --labels labels.csv {options} -o m", code=2)
    assert message in " ".join(told.replace("│", "").split())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--time months --event months", "'months' must be 1, true, yes or dead for an event"),
        ("--time before --event relapsed", "'before' must hold times, 0 or more; sample 'patient"),
        ("--time months --event nobody", "'nobody' is 0 for all samples: without events"),
        (
            "--time months --event cohort",
            "there is 'north' (39), 'south' (20); name the value of an event with --event-value",
        ),
        (f"{TIMES} --cv 30x1", "events are too few for 30 folds"),
    ],
)
def test_mistakes_are_one_line(tmp_path, options, message):
    table = pd.read_csv("labels.csv").assign(nobody=0, before=lambda d: d["months"] - 9.0)
    table.to_csv(tmp_path / "odd.csv", index=False)
    path = tmp_path / "m.suquan"
    assert message in fail(f"{FIT} {tmp_path}/odd.csv {options} -o {path}")
    assert not path.exists()


def test_compare_takes_estimators_of_scikit_survival(tmp_path):
    """Labels go to them as they want them; groups of risk are thirds of every test fold."""
    from sksurv.linear_model import CoxPHSurvivalAnalysis

    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 8))
    y = as_outcome(np.column_stack([rng.exponential(np.exp(-2 * X[:, 0])), rng.random(60) < 0.7]))
    result = compare(
        X, y, scoring="concordance", alphas=2, smoothnesses=1, outer_cv=3, inner_cv=2, progress=False,
        methods=["normal", "crossfit", ("cox", CoxPHSurvivalAnalysis(alpha=1.0))],
    )  # fmt: skip
    assert np.all(result.summary["mean"] > 0.6)
    assert ": concordance " in result.verdict
    groups = result.risk_groups
    assert (
        np.bincount(groups.group).tolist() == [21, 21, 18] or np.ptp(np.bincount(groups.group)) <= 3
    )
    assert groups.p_value < 0.01
    page = write_report(tmp_path / "report.html", result).read_text(encoding="utf-8")
    assert "low risk" in page
    with pytest.raises(ValueError, match="does not fit times to event"):
        compare(X, y, scoring="roc_auc", methods=["normal"], progress=False)
    with pytest.raises(TypeError, match="unknown parameter 'loss'"):
        compare(X, y, scoring="concordance", loss="squared", methods=["normal"], progress=False)


def test_curves_are_those_of_kaplan_and_meier():
    from sksurv.nonparametric import kaplan_meier_estimator

    rng = np.random.default_rng(1)
    y = as_outcome(np.column_stack([rng.integers(1, 9, 40), rng.integers(0, 2, 40)]))
    times, shares = kaplan_meier(y)
    known, expected = kaplan_meier_estimator(y["event"], y["time"])
    place = np.searchsorted(times, known, side="right") - 1
    np.testing.assert_allclose(shares[place], expected)
    assert numbers_at_risk(y, np.array([0.0, 4.0]))[1] == np.sum(y["time"] >= 4)


def test_p_value_of_the_groups_is_uniform_without_risk_and_small_with():
    rng = np.random.default_rng(2)
    p_values = []
    for _ in range(60):
        y = as_outcome(
            np.column_stack([rng.exponential(size=45), rng.random(45) < 0.6]), np.arange(45) % 2
        )
        folds = np.array_split(rng.permutation(45), 3)
        risks = [rng.standard_normal(15) for _ in folds]
        p_values.append(RiskGroups.of_folds(y, folds, risks, 0, 99).p_value)
    assert 0.35 < np.mean(p_values) < 0.65
    assert np.mean(np.array(p_values) <= 0.1) < 0.25
    known = [-y["time"][fold] for fold in folds]
    assert RiskGroups.of_folds(y, folds, known).p_value == 0.001
