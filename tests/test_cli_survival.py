"""Cox's model on the command line: fit, predict, compare, the report, and mistakes."""

import numpy as np
import pandas as pd
import pytest
from test_cli import QUICK, fail, read_csv, succeed

from suquan import SuquanCox, compare, load_model
from suquan.report import write_report
from suquan.survival import RiskGroups, as_outcome, kaplan_meier, numbers_at_risk

TIMES = ["--time", "months", "--event", "relapsed"]


def words(result):
    """All that was said, in one line."""
    return " ".join(result.output.split())


@pytest.fixture(scope="module")
def data(tmp_path_factory):
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


def test_fit_and_predict_are_those_of_the_estimator(data, tmp_path):
    path, scores = tmp_path / "cox.suquan", tmp_path / "scores.csv"
    result = succeed(
        "fit", data / "table.csv", "--labels", data / "labels.csv", *TIMES, "--strata", "cohort",
        *QUICK, "--method", "fixed", "-o", path,
    )  # fmt: skip
    assert "2 with missing time, stratum or event" in words(result)
    model = load_model(path)
    table = pd.read_csv(data / "table.csv", index_col=0)
    labels = pd.read_csv(data / "labels.csv", index_col=0).dropna()
    X = table.loc[labels.index].to_numpy()
    same = SuquanCox("fixed", alpha=model.alpha_).fit(
        X, labels[["months", "relapsed"]].to_numpy(), strata=labels["cohort"]
    )
    np.testing.assert_allclose(model.coef_, same.coef_, rtol=1e-12)
    result = succeed(
        "predict", path, data / "table.csv", "-o", scores, "--labels", data / "labels.csv", *TIMES,
        "--strata", "cohort",
    )  # fmt: skip
    rows = read_csv(scores)
    assert list(rows[0]) == ["sample", "risk"]
    np.testing.assert_allclose(
        [float(row["risk"]) for row in rows], same.predict(table.to_numpy()), rtol=1e-9
    )
    value = same.score(X, labels[["months", "relapsed"]].to_numpy(), strata=labels["cohort"])
    assert f"concordance {value:.4f}" in words(result)


def test_events_may_be_true_and_false(data, tmp_path):
    table = pd.read_csv(data / "labels.csv")
    table.assign(relapsed=table["relapsed"] == 1).to_csv(tmp_path / "labels.csv", index=False)
    models = []
    for labels in (data / "labels.csv", tmp_path / "labels.csv"):
        out = tmp_path / "m.suquan"
        succeed(
            "fit",
            data / "table.csv",
            "--labels",
            labels,
            *TIMES,
            *QUICK,
            "--method",
            "fixed",
            "-o",
            out,
        )
        models.append(load_model(out))
    np.testing.assert_array_equal(models[0].coef_, models[1].coef_)


def test_events_may_be_words(data, tmp_path):
    """The same model as with 1 and 0; what each word means is listed with its count."""
    table = pd.read_csv(data / "labels.csv")
    came = table["relapsed"] == 1
    columns = {
        "status": np.where(came, "Dead", "Alive"),
        "again": np.where(came, "relapse", "none so far"),
        "code": np.where(came, 2, 1),
    }
    table.assign(**columns).to_csv(tmp_path / "labels.csv", index=False)
    start = ["fit", data / "table.csv", *QUICK, "--method", "fixed", "-o", tmp_path / "m.suquan"]
    labels = ["--labels", tmp_path / "labels.csv", "--time", "Months ", "--event"]
    succeed(*start, *labels, "relapsed")
    expected = load_model(tmp_path / "m.suquan").coef_
    n = int(came.sum())
    for event, told in (
        (["status"], f"status: 'Alive' is none ({59 - n}), 'Dead' is an event ({n})"),
        (
            ["again", "--event-value", "Relapse"],
            f"'none so far' is none ({59 - n}), 'relapse' is an",
        ),
        (["code", "--event-value", "2"], f"code: '1' is none ({59 - n}), '2' is an event ({n})"),
    ):
        assert told in words(succeed(*start, *labels, *event))
        np.testing.assert_array_equal(load_model(tmp_path / "m.suquan").coef_, expected)
    for event, told in (
        (["code"], f"there is '{2 if 2 * n > 59 else 1}' ("),
        (
            ["cohort", "--event-value", "east"],
            "no label is 'east'; there is 'north' (39), 'south' (20)",
        ),
    ):
        assert told in fail(*start, *labels, *event)
    table.assign(code=np.arange(59) % 3).to_csv(tmp_path / "labels.csv", index=False)
    three = [*start, *labels, "code", "--event-value", "2"]
    assert "holds 3 values: '0' (20), '1' (20), '2' (19); give --negative VALUE" in fail(*three)
    told = words(succeed(*three, "--negative", "0"))
    assert "code: '0' is none (20), '1' is left out (20), '2' is an event (19)" in told
    told = words(succeed(*three, "--negative-rest"))
    assert "code: '0' is none (20), '1' is none (20), '2' is an event (19)" in told
    scores = ["predict", tmp_path / "m.suquan", data / "table.csv", "-o", tmp_path / "s.csv"]
    told = words(succeed(*scores, *three[len(start) :], "--negative", "0"))
    assert "19 events, 19 censored; dropped: 22" in told


def test_labels_may_lie_in_the_table(data, tmp_path):
    path = tmp_path / "cox.suquan"
    given = [data / "whole.csv", *TIMES, "--strata", "cohort"]
    succeed("fit", *given, *QUICK, "--method", "fixed", "-o", path)
    assert load_model(path).n_features_in_ == 12
    result = succeed("predict", path, *given, "-o", tmp_path / "scores.csv")
    assert "concordance 0." in words(result)


def test_compare_reports_groups_of_risk(data, tmp_path):
    folder = tmp_path / "result"
    result = succeed(
        "compare", data / "table.csv", "--labels", data / "labels.csv", *TIMES, *QUICK,
        "--inner-cv", "2x1", "--methods", "raw,normal,uniform,crossfit", "--out", folder,
    )  # fmt: skip
    assert "compared with the initial target" in words(result)
    assert {row["method"] for row in read_csv(folder / "summary.csv")} > {"raw", "best_fixed"}
    page = (folder / "report.html").read_text(encoding="utf-8")
    for text in (
        "Groups of risk",
        "Kaplan-Meier",
        "Numbers at risk",
        "Harrell",
        "an early event",
        "999 permutations",
    ):
        assert text in page
    assert (folder / "figures" / "risk_groups.svg").exists()
    table = pd.read_csv(data / "table.csv", index_col=0)
    assert load_model(folder / "model.suquan").predict(table).shape == (60,)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--time", "months"], "both --time and --event"),
        (["--strata", "cohort", "--label", "relapsed"], "both --time and --event"),
        ([*TIMES, "--strata", "cohort", "--horizon", "3"], "give one"),
        ([*TIMES, "--label", "cohort"], "do not go with"),
        (["--label", "cohort", "--event-value", "1"], "--event-value is a value in the column"),
        ([*TIMES, "--negative", "0"], "need --positive or --event-value"),
        (["--label", "cohort", "--negative-rest"], "need --positive or --event-value"),
    ],
)
def test_options_that_contradict_each_other_are_refused(data, tmp_path, options, message):
    given = ["fit", data / "table.csv", "--labels", data / "labels.csv", *options]
    assert message in " ".join(fail(*given, "-o", tmp_path / "m", code=2).replace("│", "").split())


def test_mistakes_are_one_line(data, tmp_path):
    labels = ["--labels", data / "labels.csv"]
    table = pd.read_csv(data / "labels.csv").assign(nobody=0, before=lambda d: d["months"] - 9.0)
    table.to_csv(tmp_path / "odd.csv", index=False)
    for time, event, told in [
        (
            "months",
            "months",
            "'months' must be 1, true, yes or dead for an event",
        ),
        ("before", "relapsed", "'before' must hold times, 0 or more; sample 'patient"),
        ("months", "nobody", "'nobody' is 0 for all samples: without events"),
        (
            "months",
            "cohort",
            "there is 'north' (39), 'south' (20); name the value of an event with --event-value",
        ),
    ]:
        message = fail(
            "fit", data / "table.csv", "--labels", tmp_path / "odd.csv", "--time", time, "--event", event,
            "-o", tmp_path / "m.suquan",
        )  # fmt: skip
        assert told in message
    assert not (tmp_path / "m.suquan").exists()
    message = fail(
        "fit", data / "table.csv", *labels, *TIMES, "--cv", "30x1", "-o", tmp_path / "m.suquan"
    )
    assert "events are too few for 30 folds" in message
    path = tmp_path / "classes.suquan"
    succeed(
        "fit",
        data / "table.csv",
        *labels,
        "--label",
        "cohort",
        *QUICK,
        "--method",
        "fixed",
        "-o",
        path,
    )
    assert "are for Cox's models" in fail("predict", path, data / "table.csv", *labels, *TIMES)
    np.save(tmp_path / "table.npy", np.ones((60, 12)))
    message = fail("fit", tmp_path / "table.npy", *labels, *TIMES, "-o", tmp_path / "m.suquan")
    assert "holds its samples in memory" in message


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
