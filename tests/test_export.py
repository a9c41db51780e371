"""Models as plain files: the scorers in R and NumPy give the scores of the model."""

import csv
import json
import pathlib
import re
import runpy
import shutil
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from typer.testing import CliRunner

import suquan
from suquan import align_features
from suquan.cli._app import app
from suquan.datasets import make_corrupted_classification
from suquan.export import export_model
from suquan.export.score import normalise
from suquan.methods import METHODS
from suquan.ranking import TIES, SampleOperator

RSCRIPT = shutil.which("Rscript")
needs_r = pytest.mark.skipif(RSCRIPT is None, reason="no Rscript: install Debian's r-base-core")
both_scorers = pytest.mark.parametrize(
    "scorer", [pytest.param("score.R", marks=needs_r), "score.py"]
)
# Names that a careless reader of CSV files stumbles over.
NAMES = [
    *("TP53", "NA", "1007_s_at", 'with "quotes"', "a,b", "Ärzte"),
    *("x y", "T", "#1", "HLA-A", "-", "é"),
]
P = len(NAMES)


def make_samples(kind="plain", n=45):
    rng = np.random.default_rng(1)
    X = np.exp(rng.standard_normal((n, P)))
    if kind == "ties":
        X = np.round(X, 0)
        X[3, 2:5] = [-0.0, 0.0, -0.0]
        X[4] = 7.0
    elif kind == "missing":
        X = np.round(X, 1)
        X[rng.random(X.shape) < 0.3] = np.nan
        X[5] = np.nan
        X[6, 1:] = np.nan
    return pd.DataFrame(X, columns=NAMES)


def make_labels(task, n=45):
    rng = np.random.default_rng(2)
    u = np.log(make_samples(n=n).to_numpy()) @ rng.standard_normal(P)
    if task == "two":
        return np.where(u > 0, "yes", "no")
    if task == "three":
        return np.digitize(u, [-1.5, 1.5])
    return rng.poisson(np.exp(u / 4)) if task == "counts" else u


def write_samples(X, path):
    X.set_axis([f"sample {i}" for i in range(len(X))]).to_csv(path, index_label="sample")
    return path


def run_scorer(scorer, folder, *arguments):
    """Run a scorer as its users do."""
    command = [RSCRIPT if scorer == "score.R" else sys.executable, folder / scorer, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def score_by(scorer, folder, table, *rule):
    """Scores of a table, by the names of its samples."""
    out = table.with_suffix(".scores.csv")
    if scorer == "score.py":
        runpy.run_path(str(folder / scorer))["main"](table, out, *rule)
    else:
        done = run_scorer(scorer, folder, table, out, *rule)
        assert done.returncode == 0, done.stderr
    return pd.read_csv(out, index_col="sample", float_precision="round_trip")


def expected_scores(model, X):
    scores = getattr(model, "decision_function", model.predict)(X)
    return np.reshape(scores, (len(X), -1))


def assert_scores(model, X, folder, scorer):
    """The scorer agrees with the model to 10⁻⁹ of its largest score."""
    expected = expected_scores(model, X)
    table = write_samples(X, folder.with_name("table.csv"))
    scores = score_by(scorer, export_model(model, folder), table)
    assert scores.index[1] == "sample 1"
    assert list(scores) == json.loads((folder / "model.json").read_text())["scores"]
    largest = max(1.0, np.nanmax(np.abs(expected)))
    assert_allclose(scores, expected, rtol=0, atol=1e-9 * largest)


CASES = {
    **{f"{name}, two classes": (name, "two", {}) for name in METHODS},
    "crossfit, three classes": ("crossfit", "three", {}),
    "multi, three classes": ("multi", "three", {"n_targets": 3, "alpha": 0.01}),
    "matrix, three classes": ("matrix", "three", {"n_knots": 5}),
    "two classes by softmax": ("bnd", "two", {"loss": "softmax"}),
    "values": ("joint", "values", {}),
    "several targets of values": ("multi", "values", {"alpha": 0.01}),
    "huber": ("fixed", "values", {"loss": "huber"}),
    "counts": ("fixed", "counts", {"loss": "poisson"}),
    "no intercept, l1": ("fixed", "two", {"fit_intercept": False, "l1_ratio": 0.5}),
    "scaled features": ("crossfit", "two", {"feature_scaling": "std"}),
}


def fit(method, task, X, **parameters):
    kind = suquan.SuquanClassifier if task in ("two", "three") else suquan.SuquanRegressor
    return kind(method, random_state=0, **parameters).fit(X, make_labels(task))


@pytest.mark.filterwarnings("ignore:the two largest singular values")
@both_scorers
@pytest.mark.parametrize("case", CASES)
def test_scorers_give_the_scores_of_every_method_and_loss(case, scorer, tmp_path):
    method, task, parameters = CASES[case]
    X = make_samples()
    assert_scores(fit(method, task, X, **parameters), X, tmp_path / "model", scorer)


@pytest.mark.filterwarnings("ignore:.*one value throughout")
@both_scorers
@pytest.mark.parametrize("kind", ["plain", "ties", "missing"])
@pytest.mark.parametrize("ties", ["average", "first", "mean_rank"])
@pytest.mark.parametrize("method", ["bnd", "multi"])
def test_scorers_follow_the_rules_for_ties_and_missing_values(method, ties, kind, scorer, tmp_path):
    X = make_samples(kind)
    missing = "ignore" if kind == "missing" else "error"
    model = fit(method, "three", X, ties=ties, missing=missing)
    n_orderless = {"plain": 0, "ties": 1, "missing": 2}[kind]
    assert np.isnan(expected_scores(model, X)).any(axis=1).sum() == n_orderless
    assert_scores(model, X, tmp_path / "model", scorer)


@given(
    st.lists(st.sampled_from([np.nan, -0.0, 0.0, 1.0, 1.0 + 2**-52, 5e-324, -1e300]), min_size=2),
    st.sampled_from(sorted(TIES)),
)
def test_the_scorer_in_numpy_ranks_as_the_package_does(x, ties):
    f = np.sort(np.random.default_rng(len(x)).standard_normal(len(x)))
    operator = SampleOperator.from_samples(np.array([x]), ties=ties, missing="ignore")
    assert_allclose(normalise(np.array(x), f, ties), operator.apply(f)[0], atol=1e-12)


@both_scorers
def test_one_sample_with_other_features_is_scored_as_by_predict(scorer, tmp_path):
    X = make_samples("ties")
    model = fit("crossfit", "two", X)
    folder = export_model(model, tmp_path / "a folder")  # with a space
    one = X.iloc[[7], ::-1].drop(columns=["T", "é"]).assign(other=5.0, comment="text")
    table = write_samples(one, tmp_path / "one.csv")
    with pytest.warns(UserWarning, match="2 of the model's 12"):
        aligned = align_features(model, one.drop(columns="comment"), max_lost=1.0)
    expected = aligned.model.decision_function(aligned.values)
    assert_allclose(score_by(scorer, folder, table, "ignore")["score"], expected, atol=1e-9)
    out = tmp_path / "refused.csv"
    done = run_scorer(scorer, folder, table, out)
    assert done.returncode >= 1
    assert "missing: T; give 'ignore'" in done.stderr
    assert not out.exists()


@both_scorers
def test_the_scorers_refuse_what_the_library_refuses(scorer, tmp_path):
    model = fit("crossfit", "two", make_samples())
    folder = export_model(model, tmp_path / "model")
    plain = write_samples(make_samples(n=3), tmp_path / "t.csv").read_text("utf-8").splitlines()
    rows = list(csv.reader(plain))
    heavy = np.abs(model.coef_[0]) >= np.median(np.abs(model.coef_[0]))
    light = [0, *np.flatnonzero(~heavy) + 1]

    def changed(row, column, cell):
        return [[cell if (i, j) == (row, column) else old for j, old in enumerate(r)]
                for i, r in enumerate(rows)]  # fmt: skip

    cases = {
        r"none of the model's 12 features": [[row[0], "1.5"] for row in [["sample"], *rows[1:]]],
        r"[5-9]\d\.\d% of the weight, at most 50.0%": [[row[j] for j in light] for row in rows],
        r"TP53 occurs more than once": changed(0, 3, "TP53"),
        r"sample 0 occurs more than once": [*rows, rows[1]],
        r"a?row.* has 12 cells, the header has 13": [*rows[:-1], rows[-1][:-1]],
        r"a?row.* has 14 cells, the header has 13": [*rows[:-1], [*rows[-1], "1"]],
        r"sample 1, feature HLA-A: inf is not a finite": changed(2, 10, "inf"),
        r"sample 0, feature TP53: -Inf is not a finite": changed(1, 1, "-Inf"),
        r"sample 2, feature TP53: 1e999 is not a finite": changed(3, 1, "1e999"),
        r"sample 2, feature é: high is not a finite": changed(3, 12, "high"),
        r"there is no sample": rows[:1],
    }
    table, out = tmp_path / "bad.csv", tmp_path / "out.csv"
    for match, bad in cases.items():
        with table.open("w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows(bad)
        done = run_scorer(scorer, folder, table, out, "ignore")
        assert done.returncode == 1, match
        (line,) = done.stderr.splitlines()
        assert re.search(match, line), line
        assert not out.exists()
    for cell in ("NA", "NaN", "nan", "null", "NULL", ""):
        with table.open("w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows(changed(2, 4, cell))
        scores = score_by(scorer, folder, table, "ignore")["score"]
        model.missing = "ignore"
        X = make_samples(n=3)
        X.iloc[1, 3] = np.nan
        assert_allclose(scores, model.decision_function(X), atol=1e-9)


@both_scorers
def test_features_without_names_are_taken_in_order(scorer, tmp_path):
    X = make_samples()
    model = suquan.SuquanClassifier("fixed").fit(X.to_numpy(), make_labels("two"))
    folder = export_model(model, tmp_path / "model")
    table = write_samples(X, tmp_path / "t.csv")
    scores = score_by(scorer, folder, table)["score"]
    assert_allclose(scores, model.decision_function(X.to_numpy()), atol=1e-9)
    write_samples(X.iloc[:, 1:], table)
    done = run_scorer(scorer, folder, table, tmp_path / "s.csv", "ignore")
    assert done.returncode == 1
    assert "there are 11 features, the model has 12" in done.stderr


def test_the_scorer_in_numpy_needs_neither_suquan_nor_another_package(tmp_path):
    folder = export_model(fit("bnd", "two", make_samples()), tmp_path / "model")
    table = write_samples(make_samples(), tmp_path / "t.csv")
    code = (
        "import runpy, sys; sys.argv = sys.argv[1:]; runpy.run_path(sys.argv[0], run_name='__main__');"
        "print({name.partition('.')[0] for name in sys.modules} & {'suquan', 'scipy', 'sklearn', 'numba'})"
    )
    command = [sys.executable, "-c", code, folder / "score.py", table, tmp_path / "s.csv"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.stdout == "set()\n", done.stderr


def test_the_files_hold_the_model(tmp_path):
    X = make_samples()
    model = suquan.SuquanClassifier("multi", n_targets=2, alpha=0.01).fit(X, make_labels("three"))
    folder = export_model(
        model, tmp_path / "model", class_names=["low", "mid", "top"], summary={"ties": "first"}
    )
    targets, weights = (pd.read_csv(folder / name) for name in ("targets.csv", "coefficients.csv"))
    assert list(targets) == ["place", "target__1", "target__2"]
    assert_allclose(targets.to_numpy()[:, 1:].T, model.target_quantiles_)
    assert list(weights)[:4] == ["feature", "low__1", "low__2", "mid__1"]
    assert_allclose(weights.to_numpy()[:, 1:].astype(float).T.reshape(3, -1), model.coef_)
    told = json.loads((folder / "model.json").read_text("utf-8"))
    assert told["classes"] == told["scores"] == ["low", "mid", "top"]
    assert (told["ties"], told["missing"], told["n_targets"]) == ("average", "error", 2)
    assert told["training"] == {"ties": "first"}
    assert_allclose(told["intercept"], model.intercept_)


def test_a_folder_that_exists_is_refused_and_a_failure_leaves_nothing(tmp_path, monkeypatch):
    model = fit("fixed", "two", make_samples())
    there = tmp_path / "there"
    there.mkdir()
    with pytest.raises(FileExistsError, match="there exists; give the name of a folder"):
        export_model(model, there)
    (tmp_path / "file").write_text("mine")
    with pytest.raises(FileExistsError):
        export_model(model, tmp_path / "file")
    normalizer = suquan.QuantileNormalizer().fit(make_samples())
    with pytest.raises(ValueError, match="QuantileNormalizer normalises and does not score"):
        export_model(normalizer, tmp_path / "new")

    def full(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pathlib.Path, "write_bytes", full)
    with pytest.raises(OSError, match="No space"):
        export_model(model, tmp_path / "new")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "there"]
    assert not list(there.iterdir())


# -- the command line ---------------------------------------------------------------------------------


def export(*arguments):
    return CliRunner().invoke(app, ["export", *map(str, arguments)])


@pytest.fixture
def model_path(tmp_path):
    X = make_samples().set_axis([f"gene {j}" for j in range(P)], axis=1)
    y = make_labels("two") == "yes"
    model = suquan.SuquanClassifierCV(["fixed", "bnd"], alphas=2, cv=2, random_state=0).fit(X, y)
    names = {"class_names": ["healthy", "ill"], "n_samples": len(y)}
    return suquan.save_model(model, tmp_path / "m.suquan", summary=names)


def test_export_from_the_command_line(model_path, tmp_path):
    out = tmp_path / "plain"
    result = export(model_path, "--out", out)
    assert result.exit_code == 0, result.output
    assert (
        "coefficients.csv, missing.csv, model.json, score.R, score.py, targets.csv" in result.stdout
    )
    assert json.loads((out / "model.json").read_text())["classes"] == ["healthy", "ill"]
    X = make_samples().set_axis([f"gene {j}" for j in range(P)], axis=1)
    scores = score_by("score.py", out, write_samples(X, tmp_path / "t.csv"))["score"]
    assert_allclose(scores, suquan.load_model(model_path).decision_function(X), atol=1e-9)
    shown = json.loads(export(model_path, "--out", tmp_path / "again", "--json").stdout)
    assert shown["files"] == sorted(path.name for path in out.iterdir())


def test_export_explains_mistakes_in_one_line_and_writes_nothing(model_path, tmp_path):
    normalizer = suquan.QuantileNormalizer().fit(make_samples())
    suquan.save_model(normalizer, tmp_path / "n.suquan")
    (tmp_path / "there").mkdir()
    (tmp_path / "broken.suquan").write_bytes(model_path.read_bytes()[:200])
    before = sorted(tmp_path.rglob("*"))
    for model, out, match in [
        (model_path, "there", "there exists; give the name of a folder that does not"),
        (model_path, "m.suquan", "is an input too"),
        (model_path, "nowhere/new", "there is no folder"),
        (tmp_path / "absent.suquan", "new", "No such file"),
        (tmp_path / "broken.suquan", "new", "broken.suquan"),
        (tmp_path / "n.suquan", "new", "does not score"),
    ]:
        result = export(model, "--out", tmp_path / out)
        assert result.exit_code == 1, result.output
        (line,) = result.stderr.splitlines()
        assert line.startswith("suquan export: ")
        assert match in line
    assert export(model_path).exit_code == 2
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("kind", ["sigmoid", "isotonic", None])
def test_the_calibration_is_exported(tmp_path, kind):
    X, y = make_corrupted_classification(60, 10, random_state=0)
    model = suquan.SuquanClassifierCV("fixed", alphas=2, cv=3, calibration=kind).fit(X, y)
    folder = export_model(model, tmp_path / "model")
    told = json.loads((folder / "model.json").read_text("utf-8"))["calibration"]
    assert (told is None) == (kind is None)
    if kind is not None:
        expected = {name: np.asarray(v).tolist() for name, v in model.calibration_.items()}
        assert told == expected
