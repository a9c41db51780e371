"""Groups that stay together, and cohorts that are left out: in Python and on the command line."""

import json
import warnings

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import brier_score_loss, log_loss, roc_auc_score
from sklearn.model_selection import GroupKFold, StratifiedKFold
from test_cli import QUICK, fail, read_csv, succeed

from suquan import SuquanClassifierCV, compare, load_model
from suquan.datasets import make_corrupted_classification
from suquan.io import Table, write_table
from suquan.plotting import ReliabilityDisplay
from suquan.report import write_report
from suquan.selection.folds import RepeatedGroupFolds

SMALL = {"alphas": 2, "smoothnesses": 1, "n_repeats": 1, "inner_cv": 2, "progress": False}
METHODS = ["uniform", "crossfit"]


@pytest.fixture(scope="module")
def problem():
    X, y = make_corrupted_classification(90, 15, random_state=0)
    return X, y, np.arange(90) // 3, np.repeat(["north", "south", "west"], 30)


@pytest.fixture(scope="module")
def left_out(problem):
    X, y, _, cohorts = problem
    return compare(
        X, y, methods=[*METHODS, ("own", LogisticRegression())], leave_out=cohorts, **SMALL
    )


# -- groups ------------------------------------------------------------------------------------------


def test_repeated_group_folds_keep_groups_and_differ_by_repeat(problem):
    X, y, groups, _ = problem
    folds = RepeatedGroupFolds(3, 2, random_state=1)
    splits = list(folds.split(X, y, groups))
    assert len(splits) == folds.get_n_splits() == 6
    for train, test in splits:
        assert not set(groups[train]) & set(groups[test])
    assert_array_equal(np.sort(np.concatenate([test for _, test in splits[:3]])), np.arange(90))
    assert not np.array_equal(splits[0][1], splits[3][1])
    with pytest.raises(ValueError, match="at least 3 groups; there are 2"):
        list(folds.split(X, y, np.arange(90) % 2))


@pytest.mark.parametrize("cv", [None, 3])
def test_folds_that_are_not_a_splitter_keep_groups_together(problem, cv):
    X, y, groups, _ = problem
    model = SuquanClassifierCV("fixed", alphas=2, cv=cv, random_state=0).fit(X, y, groups=groups)
    n_folds = 15 if cv is None else 3
    rows = model.out_of_fold_samples_
    assert len(rows) == 90 * n_folds / 3
    for tested in np.array_split(rows, n_folds // 3):
        assert_array_equal(np.sort(tested), np.arange(90))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compare(X, y, methods=["uniform"], outer_cv=cv, groups=groups, **SMALL)


def test_compare_says_where_a_group_is_on_both_sides_of_a_fold(problem):
    X, y, groups, _ = problem
    told = r"share a group with training samples \(such as \d+\).*2 of 3 of the outer folds"
    with pytest.warns(UserWarning, match=told):
        compare(X, y, methods=["uniform"], outer_cv=StratifiedKFold(3), groups=groups, **SMALL)
    told = r"of the inner folds"
    inner = {**SMALL, "inner_cv": StratifiedKFold(2)}
    with pytest.warns(UserWarning, match=told):
        compare(X, y, methods=["uniform"], outer_cv=GroupKFold(3), groups=groups, **inner)


def test_groups_that_are_missing_are_refused(problem):
    X, y, groups, cohorts = problem
    gaps = groups.astype(float)
    gaps[[4, 7]] = np.nan
    with pytest.raises(
        ValueError, match=r"groups is missing for 2 of 90 samples, first for sample 4"
    ):
        compare(X, y, groups=gaps, **SMALL)
    with pytest.raises(ValueError, match=r"groups must hold one value for each of 90 samples"):
        SuquanClassifierCV("fixed").fit(X, y, groups=groups[:5])
    unknown = cohorts.astype(object)
    unknown[3] = None
    with pytest.raises(ValueError, match=r"leave_out is missing for 1 of 90 samples"):
        compare(X, y, leave_out=unknown, **SMALL)


# -- cohorts -----------------------------------------------------------------------------------------


def test_each_cohort_is_tested_once_with_a_model_of_the_others(problem, left_out):
    X, y, _, cohorts = problem
    own = left_out.folds["method"] == "own"
    assert left_out.folds["cohort"][own].tolist() == ["north", "south", "west"]
    for name, score, loss, brier in zip(
        *(left_out.folds[key][own] for key in ("cohort", "score", "log_loss", "brier")), strict=True
    ):
        test = cohorts == name
        p = LogisticRegression().fit(X[~test], y[~test]).predict_proba(X[test])[:, 1]
        assert_allclose(score, roc_auc_score(y[test], p))
        assert_allclose(loss, log_loss(y[test], p))
        assert_allclose(brier, brier_score_loss(y[test], p))


def test_cohorts_have_no_verdict_but_differences(left_out):
    table = left_out.cohorts
    assert left_out.contrast is None
    assert left_out.verdict.startswith("No verdict: each cohort is tested once")
    learned = table["difference"][table["method"] == "crossfit"]
    scores = {m: table["score"][table["method"] == m] for m in ("crossfit", "start")}
    assert_allclose(learned, scores["crossfit"] - scores["start"])
    assert f"north {learned[0]:+.4f}, south {learned[1]:+.4f}" in left_out.verdict
    assert np.all(np.isnan(left_out.tests["p_t"]))
    assert np.all(np.isnan(left_out.tests["p_wilcoxon"]))
    assert np.all(np.isinf(left_out.tests["low"]))
    assert table["n_samples"].tolist() == [30] * 15


@pytest.mark.parametrize("task", ["classes", "values"])
def test_report_shows_cohorts_and_probabilities(problem, left_out, tmp_path, task):
    X, _, _, cohorts = problem
    if task == "values":
        left_out = compare(X, X[:, 0], methods=METHODS, leave_out=cohorts, scoring="r2", **SMALL)
    page = write_report(tmp_path / "report.html", left_out).read_text(encoding="utf-8")
    assert "north (30 samples)" in page
    assert "neither intervals nor p-values" in page
    assert ("Reliability curve" in page) == (task == "classes")
    assert ("balanced accuracy at the prevalence" in page) == (task == "classes")


def test_impossible_cohorts_are_refused(problem):
    X, y, _, cohorts = problem
    with pytest.raises(ValueError, match="at least two; every sample is of 'here'"):
        compare(X, y, leave_out=np.full(90, "here"), **SMALL)
    with pytest.raises(ValueError, match="leave_out takes the place of outer_cv"):
        compare(X, y, leave_out=cohorts, outer_cv=3, **SMALL)
    labels = np.where(cohorts == "west", 1, y)
    with pytest.raises(ValueError, match=r"cohort 'west' has no samples of class 0"):
        compare(X, labels, leave_out=cohorts, **SMALL)
    alone = np.where(cohorts == "west", y + 5, y)
    with pytest.raises(ValueError, match=r"cohort 'north' has no samples of class 5"):
        compare(X, alone, methods=["uniform"], leave_out=cohorts, **SMALL)


def test_a_cohort_without_events_is_refused_before_the_work(problem, tmp_path):
    X, _, _, cohorts = problem
    y = np.column_stack([np.arange(1.0, 91.0), (cohorts != "west") & (np.arange(90) % 2 == 0)])
    settings = {**SMALL, "methods": ["uniform"], "scoring": "concordance", "leave_out": cohorts}
    with pytest.raises(ValueError, match="cohort 'west' has no event"):
        compare(X, y, checkpoint=tmp_path / "new", **settings)
    assert not (tmp_path / "new").exists()
    y[:, 1] = np.arange(90) % 2
    assert compare(X, y, **settings).cohorts["cohort"].tolist()[::2] == ["north", "south", "west"]


# -- probabilities of outer folds --------------------------------------------------------------------


def test_probabilities_of_outer_folds_are_those_of_the_calibrated_estimator(problem):
    X, y, _, _ = problem
    cv = StratifiedKFold(3)
    grid = {"alphas": [0.01, 1.0], "random_state": 0}
    result = compare(
        X, y, methods=["uniform"], outer_cv=cv, inner_cv=StratifiedKFold(3), progress=False, **grid
    )
    for k, (train, test) in enumerate(cv.split(X, y)):
        model = SuquanClassifierCV("fixed", cv=StratifiedKFold(3), **grid).fit(X[train], y[train])
        p = model.predict_proba(X[test])
        assert_allclose(result.folds["log_loss"][k], log_loss(y[test], p), atol=1e-6)
    counts = result.reliability["count"][result.reliability["method"] == "uniform"]
    assert counts.sum() == 90
    assert ReliabilityDisplay.from_result(result).methods_ == ["best_fixed"]
    with pytest.raises(ValueError, match="'magic' has no probabilities"):
        ReliabilityDisplay.from_result(result, methods=["magic"])


def test_scorers_of_probabilities_see_calibrated_ones(problem):
    X, y, _, _ = problem
    result = compare(X, y, methods=["uniform"], outer_cv=3, scoring="neg_log_loss", **SMALL)
    assert_allclose(result.folds["score"], -result.folds["log_loss"])
    plain = compare(
        X, y, methods=["uniform"], outer_cv=3, scoring="neg_log_loss", calibration=None, **SMALL
    )
    assert_allclose(plain.folds["score"], -plain.folds["log_loss"])
    assert not np.allclose(plain.folds["score"], result.folds["score"])


def test_an_estimator_without_probabilities_has_no_measures(problem):
    from sklearn.svm import LinearSVC

    X, y, _, _ = problem
    result = compare(X, y, methods=[("svm", LinearSVC())], outer_cv=3, **SMALL)
    assert np.all(np.isnan(result.folds["brier"]))
    assert result.reliability == {}
    with pytest.raises(ValueError, match="no method of this comparison"):
        ReliabilityDisplay.from_result(result)


def test_inner_folds_that_are_too_small_to_calibrate_leave_it_out_or_are_refused(problem, tmp_path):
    X, _, _, _ = problem
    y = np.where(np.arange(90) < 6, "rare", "common")
    settings = {**SMALL, "methods": ["uniform"], "outer_cv": 3, "inner_cv": 3}
    told = r"two test samples of each class.*inner_cv has 1 of class 'rare'"
    with pytest.raises(ValueError, match=told):
        compare(X, y, calibration="isotonic", checkpoint=tmp_path / "new", **settings)
    assert not (tmp_path / "new").exists()
    with pytest.warns(UserWarning, match=told):
        default = compare(X, y, **settings)
    plain = compare(X, y, calibration=None, **settings)
    assert_array_equal(default.folds["log_loss"], plain.folds["log_loss"])
    assert plain.reliability


# -- the command line --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def files(problem, tmp_path_factory):
    X, y, groups, cohorts = problem
    folder = tmp_path_factory.mktemp("cohorts")
    samples = np.array([f"s{i}" for i in range(90)])
    write_table(Table(X, samples, np.array([f"G{j}" for j in range(15)])), folder / "table.csv")
    table = pd.DataFrame({"sample": samples, "relapse": np.where(y > 0, "yes", "no")})
    table = table.assign(patient=groups, lab=cohorts, one="here")
    table["gaps"] = np.where(np.arange(90) == 8, "", cohorts)
    table["odd"] = np.where((cohorts == "west") & (y == 0), "north", cohorts)
    table["rare"] = np.where(np.arange(90) < 6, "yes", "no")
    table.to_csv(folder / "labels.csv", index=False)
    return folder


def arguments(command, files, *more, label="relapse"):
    out = {"fit": "-o", "compare": "--out"}[command]
    goal = files / ("m.suquan" if command == "fit" else "out")
    labels = ["--labels", files / "labels.csv", "--label", label]
    if command == "compare":
        more = (*more, "--inner-cv", "2x1", "--methods", "uniform,crossfit")
    return [command, files / "table.csv", *labels, out, goal, *QUICK.split(), *more]


def test_fit_keeps_groups_and_shows_every_cohort(files):
    told = succeed(*arguments("fit", files, "--groups", "patient", "--json"))
    model = load_model(json.loads(told.stdout)["model"])
    assert isinstance(model.cv, RepeatedGroupFolds)
    assert model.calibration_["kind"] == "sigmoid"
    result = succeed(*arguments("fit", files, "--leave-out", "lab", "--json"))
    told = json.loads(result.stdout)
    assert [row["cohort"] for row in told["cohorts"]] == ["north", "south", "west"]
    assert np.mean([row["score"] for row in told["cohorts"]]) == pytest.approx(
        told["selection_score"]
    )
    model = load_model(told["model"])
    cohorts = np.repeat(["north", "south", "west"], 30)
    assert_array_equal(cohorts[model.out_of_fold_samples_], cohorts)
    assert "sigmoid slope" in succeed("inspect", told["model"]).stdout
    succeed(*arguments("fit", files, "--calibration", "none"))
    assert load_model(told["model"]).calibration_ is None


def test_compare_leaves_cohorts_out(files):
    result = succeed(*arguments("compare", files, "--leave-out", "lab", "--groups", "patient"))
    assert "3 cohorts, each left out once" in result.output
    assert "No verdict: each cohort" in result.output
    rows = read_csv(files / "out" / "cohorts.csv")
    assert [row["cohort"] for row in rows] == np.repeat(["north", "south", "west"], 4).tolist()
    assert "Cohorts" in (files / "out" / "report.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("command", ["fit", "compare"])
@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--groups", "gaps"], "1 of 90 labelled samples have no group in 'gaps', first 's8'"),
        (["--leave-out", "gaps"], "1 of 90 labelled samples have no group in 'gaps'"),
        (["--groups", "nothing"], "no label column 'nothing'"),
        (["--leave-out", "one"], "at least two; every sample is of 'here'"),
        (["--leave-out", "odd"], "cohort 'west' has no samples of class 'no'"),
        (["--groups", "one"], "1 groups are too few for 2 folds"),
    ],
)
def test_bad_groups_and_cohorts_are_refused_in_one_line(files, tmp_path, command, more, message):
    given = arguments(command, files, *more)
    given[given.index("-o" if command == "fit" else "--out") + 1] = tmp_path / "new"
    assert message in fail(*given)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("command", ["fit", "compare"])
def test_too_few_members_for_a_calibration_leave_it_out_with_a_warning(files, tmp_path, command):
    given = arguments(command, files, *(["--cv", "4x1"] if command == "fit" else []), label="rare")
    given[given.index("-o" if command == "fit" else "--out") + 1] = tmp_path / "new"
    told = "calibration needs at least two test samples of each class"
    assert told in fail(*given, "--calibration", "isotonic")
    assert not list(tmp_path.iterdir())
    result = succeed(*given)
    assert told in result.stderr
    assert "of class 'yes'" in result.stderr
