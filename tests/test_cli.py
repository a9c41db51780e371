"""The command line as a user meets it: results, messages, exit codes."""

import csv
import ctypes
import errno
import gc
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import dask.array as da
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from typer.testing import CliRunner

import suquan
from suquan._progress import Progress
from suquan.cli import main
from suquan.cli._app import app
from suquan.cli._interrupts import safe_interrupts
from suquan.cli._options import Compare, Folds, Options, parse_cv
from suquan.cli._output import Output, jsonable, safe
from suquan.comparison import DEFAULT_METHODS
from suquan.io import Table, open_blocks, read_table, write_blocks, write_table
from suquan.persistence import read_model

HEAVY = ["numpy", "scipy", "sklearn", "numba", "pandas", "pyarrow", "matplotlib", "joblib"]
# Small grids, one process: what is tested is the way there and back.
QUICK = ["--cv", "2x1", "--alphas", "2", "--smoothnesses", "2", "--n-jobs", "1"]
COMPARE = [*QUICK, "--inner-cv", "2x1", "--methods", "normal,uniform,crossfit"]


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def succeed(*arguments):
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    return result


def fail(*arguments, code=1):
    """One line on standard error, no traceback, nothing on standard output."""
    result = run(*arguments)
    assert result.exit_code == code, (result.output, result.exception)
    assert "Traceback" not in result.output
    if code == 1:
        lines = result.stderr.splitlines()
        assert len(lines) == 1, result.stderr
        assert lines[0].startswith(f"suquan {arguments[0]}: ")
        return lines[0]
    return result.stderr


def script(*arguments, **options):
    """A real process."""
    return subprocess.run(
        [sys.executable, "-m", "suquan", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=300,
        **options,
    )


def read_csv(path, delimiter=","):
    with open(path, newline="") as file:
        return list(csv.DictReader(file, delimiter=delimiter))


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A table, its transpose, labels of all kinds, and the same in one file."""
    folder = tmp_path_factory.mktemp("data")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 12))
    u = X @ rng.normal(size=12)
    X = np.round(np.exp(X), 4)
    samples = np.array([f"patient {i}" for i in range(60)])
    genes = np.array([f"GENE{j}" for j in range(12)])
    write_table(Table(X, samples, genes), folder / "table.csv")
    write_table(Table(X, samples, genes, orientation="columns"), folder / "turned.tsv")
    labels = pd.DataFrame(
        {
            "sample": samples,
            "relapse": np.where(u > 0, "yes", "no"),
            "stage": np.array(["I", "II", "III"])[np.digitize(u, [-1, 1])],
            "grade": (u > 0).astype(int),
            "marker": u,
            "years": np.where(u > 0, 1.0, 8.0),
            "event": np.where(u > 0, 1, 0),
            "constant": "same",
        }
    )
    labels.loc[0, "relapse"] = None
    labels.loc[1, ["years", "event"]] = [2.0, 0]  # censored before the horizon
    labels.iloc[::-1].to_csv(folder / "labels.csv", index=False)
    own = pd.DataFrame(X, columns=genes)
    own.insert(0, "sample", samples)
    own.assign(age=50.0, relapse=np.where(u > 0, "yes", "no")).to_csv(
        folder / "own.csv", index=False
    )
    return folder


@pytest.fixture(scope="module")
def model(data):
    path = data / "model.suquan"
    succeed(
        "fit",
        data / "table.csv",
        "--labels",
        data / "labels.csv",
        "--label",
        "relapse",
        *QUICK,
        "-o",
        path,
    )
    return path


# ------------------------------------------------------------------------------------- start and usage


def test_importing_the_command_line_loads_nothing_heavy():
    code = (
        "import json, sys\n"
        "import suquan, suquan.cli, suquan.cli._app\n"
        "print(json.dumps(sorted({name.partition('.')[0] for name in sys.modules})))"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert set(json.loads(result.stdout)).isdisjoint(HEAVY)


def test_help_comes_at_once():
    """Processor time of `suquan --help` beyond Python's own start."""
    resource = pytest.importorskip("resource")

    def seconds(*arguments):
        def used():
            usage = resource.getrusage(resource.RUSAGE_CHILDREN)
            return usage.ru_utime + usage.ru_stime

        before = used()
        subprocess.run([sys.executable, *arguments], capture_output=True, check=True)
        return used() - before

    seconds("-m", "suquan", "--help")  # byte-code is there
    best = min(seconds("-m", "suquan", "--help") - seconds("-c", "pass") for _ in range(3))
    assert best < 0.4


def test_every_command_has_help():
    listed = succeed("--help").output
    for command in ("demo", "normalize", "fit", "predict", "inspect", "compare"):
        assert command in listed
        text = succeed(command, "--help").output
        assert "Exit codes" in text
        assert "--json" in text
        assert "--quiet" in text


def test_the_version_is_told():
    assert succeed("--version").output == f"suquan {suquan.__version__}\n"


@pytest.mark.parametrize("missing", ["typer", "rich"])
def test_without_the_extra_one_line_says_what_to_install(missing):
    code = f"import sys; sys.modules[{missing!r}] = None; from suquan.cli import main; sys.exit(main())"
    result = subprocess.run([sys.executable, "-c", code, "--help"], capture_output=True, text=True)
    assert result.returncode == 1
    assert (
        result.stderr
        == f"suquan: {missing} is not installed; run: python -m pip install 'suquan[cli]'\n"
    )


def test_the_entry_point_returns_the_exit_code(data, model, capsys):
    assert main(["inspect", str(model), "--quiet"]) == 0
    assert main(["inspect", str(data / "absent.suquan")]) == 1
    assert main(["inspect"]) == 2
    assert main(["--version"]) == 0


@pytest.mark.parametrize(
    "arguments",
    [
        ["unknown"],
        ["fit"],
        ["fit", "t.csv", "-o", "m", "--label", "y", "--cv", "three"],
        ["fit", "t.csv", "-o", "m", "--label", "y", "--cv", "1x5"],
        ["fit", "t.csv", "-o", "m", "--label", "y", "--cv", "3x0"],
        ["fit", "t.csv", "-o", "m"],
        ["fit", "t.csv", "-o", "m", "--time", "t"],
        [
            "fit",
            "t.csv",
            "-o",
            "m",
            "--time",
            "t",
            "--event",
            "e",
            "--horizon",
            "5",
            "--label",
            "y",
        ],
        ["fit", "t.csv", "-o", "m", "--label", "y", "--sample-column", "id"],
        ["fit", "t.csv", "-o", "m", "--label", "y", "--positive", "1", "--task", "regression"],
        ["fit", "t.csv", "-o", "m", "--label", "y", "--samples", "diagonal"],
        ["predict", "m", "t.csv", "--max-lost", "2"],
        ["normalize", "t.csv", "-o", "o.csv", "--ties", "none"],
    ],
)
def test_wrong_usage_ends_with_2(arguments):
    assert fail(*arguments, code=2)


def test_folds_are_read():
    assert parse_cv("3x5") == Folds(3, 5)
    assert parse_cv("10×2") == Folds(10, 2)
    assert parse_cv("5") == Folds(5, 1)


def test_the_command_of_options_gives_the_same_options(monkeypatch):
    from suquan.cli import _compare

    given = Compare(
        **{"table": Path("a table.csv"), "out": Path("out"), "time": "t", "event": "e"},
        **{"horizon": 2.5, "ignore": ["age", "a b"], "cv": Folds(2, 7), "workers": 3},
        **{"ties": "first", "samples": "columns", "seed": 4, "n_knots": 9, "event_value": "x"},
        **{"negative_rest": True, "na": ["?", "a b"]},
    )
    words = given.command()
    assert words[:3] == ["suquan", "compare", "a table.csv"]
    assert "--missing" not in words
    seen = []
    monkeypatch.setattr(_compare, "run", lambda options, output: seen.append(options))
    succeed(*words[1:])
    assert seen == [given]


# ----------------------------------------------------------------------------------------- normalize


@pytest.mark.parametrize(
    "target", ["median", "mean", "normal", "uniform", "exponential", "cauchy", "bimodal"]
)
def test_normalize_writes_what_the_library_gives(data, tmp_path, target):
    out = tmp_path / "out.csv"
    result = succeed(
        "normalize", data / "table.csv", "-o", out, "--target", target, "--ties", "first"
    )
    table = read_table(data / "table.csv")
    expected = suquan.quantile_normalize(table.values, target, ties="first")
    got = read_table(out)
    assert_allclose(got.values, expected, rtol=1e-14)
    assert got.sample_names.tolist() == table.sample_names.tolist()
    assert "60 samples in rows" in result.stdout


def test_normalize_keeps_samples_in_columns(data, tmp_path):
    succeed("normalize", data / "turned.tsv", "-o", tmp_path / "out.tsv", "--samples", "columns")
    assert (tmp_path / "out.tsv").read_text().splitlines()[0] == (
        (data / "turned.tsv").read_text().splitlines()[0]
    )
    expected = suquan.quantile_normalize(read_table(data / "table.csv").values)
    assert_array_equal(read_table(tmp_path / "out.tsv", samples="columns").values, expected)


def test_normalize_takes_targets_from_files(data, tmp_path, model):
    values = np.linspace(-2, 5, 12)
    np.save(tmp_path / "target.npy", values)
    np.savetxt(tmp_path / "target.txt", values, fmt="%.17g")
    np.savetxt(tmp_path / "short.txt", [0.0, 1.0])
    for name in ("target.npy", "target.txt"):
        out = tmp_path / "out.csv"
        succeed("normalize", data / "table.csv", "-o", out, "--target", tmp_path / name)
        assert_allclose(np.sort(read_table(out).values[0]), values, rtol=1e-14)
    result = succeed("normalize", data / "table.csv", "-o", out, "--target", tmp_path / "short.txt")
    assert "interpolated to the 12 features" in result.stdout
    succeed("normalize", data / "table.csv", "-o", out, "--target", model)
    learned = suquan.load_model(model).target_quantiles_
    assert_allclose(np.sort(read_table(out).values[0]), np.sort(learned), rtol=1e-14)


def test_normalize_refuses_a_table_that_may_lie_either_way(tmp_path):
    """Genes in rows are usual; taken for samples, they would be normalised without a word."""
    values = np.random.default_rng(0).normal(size=(100, 4))
    genes = pd.DataFrame(values, index=[f"g{i}" for i in range(100)], columns=list("abcd"))
    out = tmp_path / "out.csv"
    genes.to_csv(tmp_path / "in.csv")
    genes.to_csv(tmp_path / "in.tsv.gz", sep="\t", index_label="ID")
    genes.to_parquet(tmp_path / "in.parquet")
    for name in ("in.csv", "in.tsv.gz", "in.parquet"):
        message = fail("normalize", tmp_path / name, "-o", out)
        assert "--samples rows for 100 samples ('g0', 'g1' and 98 more) of 4 features" in message
        assert "--samples columns for 4 samples of 100 features" in message
        assert not out.exists()
    for samples, expected in (
        ("rows", suquan.quantile_normalize(values)),
        ("columns", suquan.quantile_normalize(np.ascontiguousarray(values.T)).T),
    ):
        result = succeed("normalize", tmp_path / "in.csv", "-o", out, "--samples", samples)
        assert result.stderr == ""
        assert_allclose(pd.read_csv(out, index_col=0).values, expected, rtol=1e-12)


@pytest.mark.parametrize(
    ("heading", "orientation"),
    [
        ("sample", "rows"),
        ("Patient IDs", "rows"),
        ("gene_symbol", "columns"),
        ("ID_REF", "columns"),
    ],
)
def test_the_heading_says_where_the_samples_lie(tmp_path, heading, orientation):
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(30, 4)), columns=list("abcd"))
    frame.index = [f"r{i}" for i in range(30)]
    frame.to_csv(tmp_path / "in.csv", index_label=heading)
    result = succeed("normalize", tmp_path / "in.csv", "-o", tmp_path / "out.csv")
    told = f"samples in {orientation} (chosen by the heading {heading!r}; --samples overrides)"
    assert told in result.stdout


def test_labels_and_the_models_features_say_where_the_samples_lie(data, model, tmp_path):
    frame = pd.read_csv(data / "own.csv", index_col=0)
    frame.to_csv(tmp_path / "in.csv", index_label="id")
    arguments = ["normalize", tmp_path / "in.csv", "-o", tmp_path / "out.csv", "--label", "age"]
    assert "60 samples in rows (chosen by the names of the labels" in succeed(*arguments).stdout
    nameless = suquan.load_model(model)
    for part in (nameless, nameless.best_estimator_):
        del part.feature_names_in_
    suquan.save_model(nameless, tmp_path / "nameless.suquan")
    features = frame.drop(columns=["age", "relapse"])
    features.T.to_csv(tmp_path / "turned.csv", index_label="id")
    arguments = ["predict", tmp_path / "nameless.suquan", "-o", tmp_path / "s.csv"]
    result = succeed(*arguments, tmp_path / "turned.csv")
    assert "samples in columns (chosen by the number of the model's features;" in result.stdout
    features.iloc[:12].to_csv(tmp_path / "square.csv", index_label="id")
    assert "--samples columns" in fail(*arguments, tmp_path / "square.csv")


def test_normalize_follows_the_rule_for_missing_values(data, tmp_path):
    text = (data / "table.csv").read_text().splitlines()
    text[3] = ",NA,".join(text[3].split(",", 2)[::2])
    (tmp_path / "gap.csv").write_text("\n".join(text))
    out = tmp_path / "out.csv"
    message = fail("normalize", tmp_path / "gap.csv", "-o", out)
    assert "'patient 2', feature 'GENE0'" in message
    assert not out.exists()
    result = succeed("normalize", tmp_path / "gap.csv", "-o", out, "--missing", "ignore")
    assert "1 missing values stayed missing" in result.stdout
    assert np.isnan(read_table(out).values[2, 0])


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (["--target", "gaussian"], "neither one of median, mean, approximate_median"),
        (["--target", "labels.csv"], "one number per line"),
        (["-o", "absent/out.csv"], "no folder"),
        (["-o", "out.unknown"], "out.unknown"),
    ],
)
def test_normalize_explains_mistakes(data, tmp_path, change, match, monkeypatch):
    monkeypatch.chdir(data)
    assert match in fail("normalize", "table.csv", "-o", tmp_path / "out.csv", *change)
    assert not list(tmp_path.iterdir())


# ------------------------------------------------------------------------------------- fit and predict


def test_fit_and_predict_agree_with_the_library(data, model, tmp_path):
    scores = tmp_path / "scores.csv"
    result = succeed("predict", model, data / "table.csv", "-o", scores)
    assert "12 of the model's 12 features" in result.stdout
    rows = read_csv(scores)
    assert list(rows[0]) == ["sample", "score", "probability", "predicted"]
    loaded = suquan.load_model(model)
    assert loaded.classes_.tolist() == ["no", "yes"]
    table = read_table(data / "table.csv")
    frame = pd.DataFrame(table.values, columns=table.feature_names)
    assert_array_equal([float(row["score"]) for row in rows], loaded.decision_function(frame))
    assert_array_equal(
        [float(row["probability"]) for row in rows], loaded.predict_proba(frame)[:, 1]
    )
    assert [row["predicted"] for row in rows] == loaded.predict(frame).tolist()
    signs = ["yes" if float(row["score"]) > 0 else "no" for row in rows]
    assert signs == [row["predicted"] for row in rows]
    assert [row["sample"] for row in rows] == table.sample_names.tolist()


@pytest.mark.parametrize("task", ["classes", "values", "times"])
def test_fit_says_when_the_score_is_no_better_than_guessing(data, tmp_path, task):
    rng = np.random.default_rng(3)
    labels = pd.read_csv(data / "labels.csv")
    labels["coin"] = rng.permutation(np.arange(60) % 2)
    labels["value"], labels["days"] = rng.normal(size=60), rng.exponential(size=60)
    labels.to_csv(tmp_path / "labels.csv", index=False)
    column, guess = {
        "classes": (["--label", "coin"], "0.5"),
        "values": (["--label", "value", "--task", "regression"], "0"),
        "times": (["--time", "days", "--event", "coin"], "0.5"),
    }[task]
    more = ["--labels", tmp_path / "labels.csv", *QUICK[2:], "--cv", "3x2"]
    told = succeed("fit", data / "table.csv", *column, *more, "-o", tmp_path / "m.suquan").output
    assert f": no better than guessing ({guess})" in told
    assert re.search(r"cross-validated \S+ -?\d\.\d{4} ± \d\.\d{4} \(two standard errors\):", told)
    assert "too good by the choice" not in told


def test_fit_says_when_the_initial_target_is_kept(data, tmp_path):
    labels = ["--labels", data / "labels.csv", "--label", "grade"]
    told = succeed("fit", data / "table.csv", *labels, *QUICK, "-o", tmp_path / "m.suquan").output
    assert "optimistic: the same folds were used for tuning" in told
    assert "no better than guessing" not in told
    kept = suquan.load_model(tmp_path / "m.suquan").departure_ == 0.0
    assert ("the initial target (uniform) is kept" in told) == kept
    assert ("departure 0." in told or "departure 1" in told) == (not kept)
    labels[-1] = "constant"
    table = pd.read_csv(data / "labels.csv")
    table["constant"] = np.random.default_rng(4).permutation(np.arange(60) % 2)
    table.to_csv(tmp_path / "labels.csv", index=False)
    labels[1] = tmp_path / "labels.csv"
    result = succeed(
        "fit", data / "table.csv", *labels, *QUICK, "-o", tmp_path / "m.suquan", "--json"
    )
    assert json.loads(result.stdout)["departure"] == 0.0
    assert "learned target was not better: the initial target (uniform) is kept" in result.stderr


def test_fit_is_the_librarys_fit(data, model):
    table = read_table(data / "table.csv")
    labels = {row["sample"]: row["relapse"] for row in read_csv(data / "labels.csv")}
    y = np.array([labels[name] for name in table.sample_names.tolist()])
    from sklearn.model_selection import RepeatedStratifiedKFold

    expected = suquan.SuquanClassifierCV(
        cv=RepeatedStratifiedKFold(n_splits=2, n_repeats=1, random_state=0),
        alphas=2,
        smoothnesses=2,
        random_state=0,
    ).fit(table.values[y != ""], y[y != ""])
    assert_array_equal(suquan.load_model(model).coef_, expected.coef_)


def test_one_patient_alone_scores_as_in_a_batch(data, model, tmp_path):
    succeed("predict", model, data / "table.csv", "-o", tmp_path / "all.csv")
    lines = (data / "table.csv").read_text().splitlines()
    for i in (1, 30, 60):
        (tmp_path / "one.csv").write_text("\n".join([lines[0], lines[i]]))
        succeed("predict", model, tmp_path / "one.csv", "-o", tmp_path / "one_score.csv")
        assert (tmp_path / "one_score.csv").read_text().splitlines()[1] == (
            (tmp_path / "all.csv").read_text().splitlines()[i]
        )


def test_predict_finds_samples_in_columns_by_the_models_features(data, model, tmp_path):
    result = succeed("predict", model, data / "turned.tsv", "-o", tmp_path / "turned.csv")
    assert "samples in columns (chosen by the names of the model's features;" in result.stdout
    succeed("predict", model, data / "table.csv", "-o", tmp_path / "rows.csv")
    assert (tmp_path / "turned.csv").read_text() == (tmp_path / "rows.csv").read_text()


def test_predict_without_a_file_prints_the_table_alone(data, model):
    result = succeed("predict", model, data / "table.csv")
    assert result.stdout.splitlines()[0] == "sample,score,probability,predicted"
    assert len(result.stdout.splitlines()) == 61
    assert "60 samples scored" in result.stderr
    assert succeed("predict", model, data / "table.csv", "-q").stderr == ""


def test_predict_drops_extra_features_and_tells_what_missing_ones_cost(data, model, tmp_path):
    loaded = suquan.load_model(model)
    weights = np.abs(loaded.coef_[0])
    share = weights / weights.sum()
    frame = pd.read_csv(data / "table.csv").assign(extra=1e6)
    light, heavy = (f"GENE{j}" for j in (share.argmin(), share.argmax()))
    frame.drop(columns=light).to_csv(tmp_path / "light.csv", index=False)
    result = succeed("predict", model, tmp_path / "light.csv", "-o", tmp_path / "s.csv")
    assert f"1 of the model's 12 features are missing, first '{light}'" in result.stderr
    assert f"{share.min():.1%} of its weight" in result.stderr
    assert "11 of the model's 12 features; 1 other dropped" in result.stdout
    told = json.loads(succeed("predict", model, tmp_path / "light.csv", "--json").stdout)
    gone = int(light.removeprefix("GENE"))
    spread = weights[gone] * np.sqrt(loaded.feature_variances_[gone])
    assert_allclose(told["lost_spread"], spread)
    assert f"deviation of {spread:.3g} (if genes were independent; usually" in result.stderr
    frame.drop(columns=[light, heavy]).to_csv(tmp_path / "heavy.csv", index=False)
    limit = share.max()
    message = fail("predict", model, tmp_path / "heavy.csv", "--max-lost", limit)
    assert "2 of the model's 12" in message
    assert f"at most {limit:.1%} may be" in message
    succeed("predict", model, tmp_path / "heavy.csv", "--max-lost", "1", "-o", tmp_path / "s.csv")


def test_predict_tells_what_the_missing_features_are_worth_to_training_samples(
    data, model, tmp_path
):
    frame = pd.read_csv(data / "table.csv")
    frame.drop(columns=["GENE1", "GENE5", "GENE6", "GENE9"]).iloc[:1].to_csv(
        tmp_path / "one.csv", index=False
    )
    one = ["predict", model, tmp_path / "one.csv", "--training"]  # a third may be missing
    labels = ["--labels", data / "labels.csv"]
    loaded = suquan.load_model(model)
    known = pd.read_csv(data / "labels.csv", index_col=0).loc[frame["sample"], "relapse"]
    use = known.notna().to_numpy()
    with pytest.warns(UserWarning, match="4 of the model's 12"):
        shift = suquan.align_features(
            loaded,
            frame[["GENE0", "GENE2", "GENE3", "GENE4", "GENE7", "GENE8", "GENE10", "GENE11"]],
            max_lost=1.0,
            training=(frame.iloc[use, 1:], known[use]),
        ).training
    told = succeed(*one, data / "table.csv", *labels).stderr
    assert sum("correlate" in line for line in told.splitlines()) == 1
    assert f"{shift}" in told
    assert f"deviation of {shift.spread:.3g} (over the training samples)" in told
    for table in ("table.csv", "turned.tsv"):
        shown = json.loads(succeed(*one, data / table, *labels, "--json").stdout)
        assert_allclose(shown["training"]["score_without"], shift.score_without)
        assert_allclose(shown["training"]["correlation"], shift.correlation)
    succeed(*one, data / "own.csv")  # the label is its own column
    assert "4 of the model's 12 features" in fail(
        *one[:3], "--max-lost", "0.01", "--training", data / "table.csv", *labels
    )
    frame.drop(columns="GENE1").to_csv(tmp_path / "lacks.csv", index=False)
    message = fail(*one, tmp_path / "lacks.csv", *labels)
    assert "lacks.csv: 1 of the model's 12 features" in message
    assert "relapse" in fail(*one, data / "table.csv")
    fail(*one[:-1], *labels, code=2)
    for kept in (loaded, suquan.SuquanClassifier("fixed").fit(frame.iloc[use, 1:], known[use])):
        suquan.save_model(kept, tmp_path / "by_hand.suquan")  # it does not tell where labels are
        one[1] = tmp_path / "by_hand.suquan"
        told = json.loads(succeed(*one, data / "table.csv", "--json").stdout)["training"]
        assert told["scoring"] is None
        assert 0 < told["correlation"] < 1


def test_predict_refuses_what_it_cannot_use(data, model, tmp_path):
    normalizer = suquan.QuantileNormalizer("normal").fit(np.eye(12))
    suquan.save_model(normalizer, tmp_path / "n.suquan")
    assert "does not predict" in fail("predict", tmp_path / "n.suquan", data / "table.csv")
    assert "not a suquan model" in fail("predict", data / "table.csv", data / "table.csv")
    assert "No such file" in fail("predict", tmp_path / "absent.suquan", data / "table.csv")
    assert "no such file" in fail("predict", model, tmp_path / "absent.csv")
    assert ".csv or .tsv" in fail("predict", model, data / "table.csv", "-o", tmp_path / "s.xlsx")
    gap = (data / "table.csv").read_text().replace(",", ",NA,", 1)
    (tmp_path / "ragged.csv").write_text(gap)
    fail("predict", model, tmp_path / "ragged.csv")


def test_the_positive_value_is_the_second_class_whatever_its_name(data, tmp_path):
    """With --positive no, a high score speaks for "no", which comes first in the alphabet."""
    labels = ["--labels", data / "labels.csv", "--label", "relapse"]
    path, scores = tmp_path / "m.suquan", tmp_path / "s.csv"
    result = succeed("fit", data / "table.csv", *labels, "--positive", "no", *QUICK, "-o", path)
    assert "a high score speaks for no" in result.stdout
    succeed("predict", path, data / "table.csv", "-o", scores)
    for row in read_csv(scores):
        assert row["predicted"] == ("no" if float(row["score"]) > 0 else "yes")
    assert "no one" not in fail(
        "fit", data / "table.csv", *labels, "--positive", "maybe", "-o", path
    )


def test_fit_takes_samples_in_columns_by_the_label_file(data, tmp_path, model):
    path = tmp_path / "m.suquan"
    result = succeed(
        "fit",
        data / "turned.tsv",
        "--labels",
        data / "labels.csv",
        "--label",
        "relapse",
        *QUICK,
        "-o",
        path,
    )
    assert "60 samples in columns (chosen by the names of the samples;" in result.stdout
    assert "59 of 60 samples have a label in 'relapse'" in result.stdout
    assert_array_equal(suquan.load_model(path).coef_, suquan.load_model(model).coef_)


def test_labels_may_be_a_column_of_the_table(data, tmp_path):
    path = tmp_path / "m.suquan"
    arguments = ["fit", data / "own.csv", "--label", "relapse", *QUICK, "-o", path]
    succeed(*arguments)
    assert "age" in suquan.load_model(path).feature_names_in_
    succeed(*arguments, "--ignore", "age")
    assert suquan.load_model(path).n_features_in_ == 12


def test_survival_times_become_the_papers_label(data, tmp_path):
    path = tmp_path / "m.suquan"
    labels = ["--labels", data / "labels.csv", "--time", "years", "--event", "event"]
    result = succeed(
        "fit", data / "table.csv", *labels, "--horizon", "5", *QUICK, "-o", path, "--json"
    )
    told = json.loads(result.stdout)
    assert told["n_censored"] == 1
    assert told["n_samples"] == 59
    assert "1 censored earlier" in result.stderr
    assert told["class_names"] == ["no event", "event"]
    message = fail("fit", data / "table.csv", *labels, "--horizon", "0.5", "-o", path)
    assert "at the horizon 0.5 there are 0 samples with an event" in message


def test_several_classes_and_measurements(data, tmp_path):
    labels = ["--labels", data / "labels.csv"]
    path, scores = tmp_path / "m.suquan", tmp_path / "s.tsv"
    succeed("fit", data / "table.csv", *labels, "--label", "stage", *QUICK, "-o", path)
    succeed("predict", path, data / "table.csv", "-o", scores)
    rows = read_csv(scores, "\t")
    assert list(rows[0])[1:4] == ["score I", "score II", "score III"]
    assert_allclose(sum(float(rows[0][f"probability {c}"]) for c in ("I", "II", "III")), 1.0)
    message = fail("fit", data / "table.csv", *labels, "--label", "marker", "-o", path)
    assert "--task regression" in message
    succeed(
        "fit",
        data / "table.csv",
        *labels,
        "--label",
        "marker",
        "--task",
        "regression",
        *QUICK,
        "-o",
        path,
    )
    succeed("predict", path, data / "table.csv", "-o", scores)
    values = [float(row["prediction"]) for row in read_csv(scores, "\t")]
    truth = {row["sample"]: float(row["marker"]) for row in read_csv(data / "labels.csv")}
    assert np.corrcoef(values, [truth[f"patient {i}"] for i in range(60)])[0, 1] > 0.8


def test_numbers_as_labels_are_classes(data, tmp_path):
    path = tmp_path / "m.suquan"
    labels = ["--labels", data / "labels.csv", "--label", "grade"]
    succeed("fit", data / "table.csv", *labels, *QUICK, "-o", path)
    assert suquan.load_model(path).classes_.tolist() == [0, 1]


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (["--label", "absent"], "no label column 'absent'"),
        (["--label", "constant"], "two classes are needed"),
        (["--label", "sample"], "sample"),
        (["--label", "relapse", "--method", "magic"], "unknown method 'magic'"),
        (["--label", "stage", "--method", "svd"], "svd"),
        (["--label", "relapse", "--cv", "50x1"], "fewer than the 50 folds"),
        (["--label", "relapse", "--sample-column", "id"], "no column 'id'"),
        (["--label", "relapse", "-o", "nowhere/m.suquan"], "no folder"),
        (["--label", "relapse", "--n-knots", "99"], "--n-knots must be an integer"),
        (["--label", "relapse", "--n-targets", "3"], "--n-targets is for the method multi"),
        (["--label", "relapse", "--method", "multi", "--n-targets", "99"], "--n-knots − 1 = 11"),
        (
            ["--label", "relapse", "--method", "matrix", "--workers", "2"],
            "matrix holds its samples",
        ),
    ],
)
def test_fit_explains_mistakes(data, tmp_path, change, match, monkeypatch):
    monkeypatch.chdir(tmp_path)
    arguments = ["-o", tmp_path / "m.suquan", *change]
    assert match in fail("fit", data / "table.csv", "--labels", data / "labels.csv", *arguments)
    assert not list(tmp_path.iterdir())


def test_a_sample_with_one_value_throughout_gets_an_empty_score(data, model, tmp_path):
    frame = pd.read_csv(data / "table.csv", index_col=0)[:3]
    frame.iloc[1] = 2.0
    frame.to_csv(tmp_path / "new.csv")
    told = succeed("predict", model, tmp_path / "new.csv", "-o", tmp_path / "s.csv").stderr
    scores = pd.read_csv(tmp_path / "s.csv")["score"]
    assert scores.isna().tolist() == [False, True, False]
    assert frame.index[1] in told


def test_values_that_are_no_second_class_are_not_controls(data, tmp_path):
    """Spellings of a value are one, marks of missing labels are left out, further values are asked for."""
    labels = pd.read_csv(data / "labels.csv", index_col=0)
    relapse = labels["relapse"].copy()
    model, start = tmp_path / "m.suquan", ["fit", data / "table.csv", *QUICK, "--method", "fixed"]
    start += ["-o", model, "--labels", tmp_path / "l.csv", "--label", "RELAPSE "]
    expected = labels.assign(relapse=relapse.where(~labels.index.isin(labels.index[5:9])))
    expected.to_csv(tmp_path / "l.csv")
    succeed(*start, "--positive", "yes")
    coef = suquan.load_model(model).coef_
    messy = relapse.str.capitalize()
    messy.iloc[5:9] = ["N/A", "unknown", "-", " n/a "]
    messy.iloc[10:20] = messy.iloc[10:20].str.upper() + " "
    labels.assign(relapse=messy).to_csv(tmp_path / "l.csv")
    told = " ".join(succeed(*start, "--positive", "YES").stdout.split())
    assert "55 of 60 samples have a label in 'RELAPSE '; 5 with a missing label (' n/a '" in told
    assert "'NO ' counted as 'No'" in told
    assert "'YES ' counted as 'Yes'" in told
    assert "a high score speaks for Yes" in told
    assert_array_equal(suquan.load_model(model).coef_, coef)
    messy.iloc[5:9] = ["lost", "lost", "moved", "moved"]
    labels.assign(relapse=messy).to_csv(tmp_path / "l.csv")
    message = fail(*start, "--positive", "Yes")
    counts = messy.str.strip().str.lower().value_counts()
    assert f"column 'RELAPSE ' holds 4 values: '{counts.index[0].title()}' (" in message
    for value in ("Yes", "No", "lost", "moved"):
        assert f"'{value}' ({counts[value.lower()]})" in message
    assert "give --negative VALUE for each that stands against 'Yes', or --negative-rest" in message
    for more in (["--negative", "no"], ["--na", "lost", "--na", "MOVED"]):
        succeed(*start, "--positive", "Yes", *more)
        assert_array_equal(suquan.load_model(model).coef_, coef)
    told = succeed(*start, "--positive", "Yes", "--negative-rest").stdout
    assert f"classes not Yes: {counts['no'] + 4}, Yes: " in told
    assert not np.array_equal(suquan.load_model(model).coef_, coef)
    for wrong in (["--negative", "no"], ["--positive", "Yes", "--event-value", "1"]):
        fail(*start, *wrong, code=2)


def test_several_classes_follow_the_same_rules(data, tmp_path):
    labels = pd.read_csv(data / "labels.csv", index_col=0)
    stage = "stage " + labels["stage"]
    stage.iloc[:20] = stage.iloc[:20].str.upper()
    stage.iloc[20:23] = ["Unknown", "not available", "?"]
    labels.assign(stage=stage).to_csv(tmp_path / "l.csv")
    arguments = [data / "table.csv", "--labels", tmp_path / "l.csv", "--label", "stage", *QUICK]
    told = json.loads(succeed("fit", *arguments, "-o", tmp_path / "m", "--json").stdout)
    assert told["class_names"] == ["stage I", "stage II", "stage III"]
    assert told["n_samples"] == 57


def test_a_model_with_other_classes_finds_its_training_labels_again(data, model, tmp_path):
    frame = pd.read_csv(data / "table.csv")
    frame.drop(columns="GENE1").iloc[:1].to_csv(tmp_path / "one.csv", index=False)
    labels = ["--labels", data / "labels.csv"]
    start = ["fit", data / "table.csv", *labels, "--label", "stage", "--positive", "II", *QUICK]
    for rule in (["--negative-rest"], ["--negative", "i"]):
        succeed(*start, *rule, "--method", "fixed", "-o", tmp_path / "m.suquan")
        one = ["predict", tmp_path / "m.suquan", tmp_path / "one.csv", "--max-lost", "1", "--json"]
        told = json.loads(succeed(*one, "--training", data / "table.csv", *labels).stdout)
        assert told["training"]["scoring"] == "roc_auc"
    # A file of an older version does not tell what becomes of other values: they are negative.
    old = read_model(tmp_path / "m.suquan")
    known = {"label": "stage", "positive": "II", "task": "classification"}
    suquan.save_model(old.estimator, tmp_path / "old.suquan", summary={"label_options": known})
    one[1] = tmp_path / "old.suquan"
    told = json.loads(succeed(*one, "--training", data / "table.csv", *labels).stdout)
    assert told["training"]["scoring"] == "roc_auc"


def test_names_that_do_not_match_are_shown_with_a_hint(data, tmp_path):
    labels = pd.read_csv(data / "labels.csv")
    start = ["fit", data / "table.csv", "--labels", tmp_path / "l.csv", "--label", "relapse"]
    start += [*QUICK, "--method", "fixed", "-o", tmp_path / "m.suquan"]
    labels.assign(sample=labels["sample"].str.replace(" ", ".").str.upper()).to_csv(
        tmp_path / "l.csv", index=False
    )
    message = fail(*start)
    assert "none of the 60 wanted samples ('PATIENT.0', 'PATIENT.1', 'PATIENT.10' and 57" in message
    assert (
        "a row ('patient 0', 'patient 1', 'patient 2' and 57 more) or a column ('GENE0'," in message
    )
    assert (
        "but for case, blanks, dots and dashes: 60, such as 'PATIENT.0' and 'patient 0'" in message
    )
    assert "0 of the table's 60 samples have a row" in fail(*start, "--samples", "rows")
    labels.iloc[:29].to_csv(tmp_path / "l.csv", index=False)
    message = fail(*start)
    assert "29 of the table's 60 samples have a row; without one are 'patient " in message
    assert "give --allow-unmatched to use these samples alone" in message
    told = json.loads(succeed(*start, "--allow-unmatched", "--json").stdout)
    assert told["n_samples"] == labels.iloc[:29]["relapse"].notna().sum()
    assert "29 of the table's 60" in fail(*start[:5], "marker", *start[6:], "--task", "regression")


def test_genes_that_do_not_match_are_named_and_samples_in_columns(data, model, tmp_path):
    frame = pd.read_csv(data / "table.csv", index_col=0)
    frame.columns = [f"HS_{name}" for name in frame.columns]
    for name, heading, other in (
        ("t.csv", "id", "'patient 0' in its rows"),
        ("s.csv", "sample", ""),
    ):
        frame.to_csv(tmp_path / name, index_label=heading)
        message = fail("predict", model, tmp_path / name)
        assert "none of the model's 12 features is in the table; the model has 'GENE" in message
        assert other in message
        assert "'HS_GENE0'" in message
    panel = pd.DataFrame(np.random.default_rng(0).normal(size=(8, 96)))
    panel.index = [f"gene {j}" for j in range(8)]
    panel.to_csv(tmp_path / "panel.csv", index_label="id")
    message = fail("normalize", tmp_path / "panel.csv", "-o", tmp_path / "out.csv")
    assert "give --samples rows for 8 samples" in message
    assert "or --samples columns for 96 samples of 8 features" in message


def test_messages_name_options_and_not_parameters(data, model, tmp_path):
    frame = pd.read_csv(data / "table.csv", index_col=0)
    out = ["-o", tmp_path / "o.csv"]
    words = frame.assign(late=[1.0] * 59 + ["x"], missing="a=b")
    words.to_csv(tmp_path / "words.csv")
    message = fail("normalize", tmp_path / "words.csv", *out)
    assert "a column that is no feature goes into --label or --ignore" in message
    gap = frame.copy()
    gap.iloc[4, 7] = np.nan
    gap.to_csv(tmp_path / "gap.csv")
    message = fail("predict", model, tmp_path / "gap.csv", *out)
    assert "feature 7 ('GENE7')" in message
    assert "use --missing ignore where" in message
    message = fail("predict", model, tmp_path / "gap.csv", *out, "--ignore", "none")
    assert "--ignore names 'none', which is none of its columns" in message
    frame.iloc[:, :2].to_csv(tmp_path / "few.csv")
    assert "or a larger --max-lost if" in fail("predict", model, tmp_path / "few.csv", *out)
    options = Compare(**{"table": Path("n_knots"), "out": Path("o"), "label": "y"})
    for said, expected in {
        "n_knots=3, n_targets='x' and missing = 3": "--n-knots 3, --n-targets x and missing = 3",
        "the label 'n_knots' in n_knots.csv": "the label 'n_knots' in n_knots.csv",
        "negative_rest=True; label_columns": "--negative-rest; --label",
    }.items():
        assert options.in_own_words(said) == expected


@pytest.mark.skipif(os.name != "posix", reason="terminals of POSIX")
def test_scores_have_four_digits_on_a_terminal_and_all_in_a_pipe(data, model):
    pty = pytest.importorskip("pty")
    there, here = pty.openpty()
    command = [sys.executable, "-m", "suquan", "predict", str(model), str(data / "table.csv"), "-q"]
    subprocess.run(command, stdout=here, check=True, timeout=300)
    shown = os.read(there, 10_000).decode().splitlines()
    whole = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
    for short, full in zip(shown[1:5], whole.stdout.splitlines()[1:5], strict=True):
        cells = full.split(",")
        assert short.split(",") == [
            *(cells[0], f"{float(cells[1]):.4g}", f"{float(cells[2]):.4g}", cells[3])
        ]
    for end in (there, here):
        os.close(end)


def test_samples_without_common_names_are_explained(data, tmp_path):
    (tmp_path / "other.csv").write_text("id,relapse\nx,yes\ny,no\n")
    message = fail(
        "fit",
        data / "table.csv",
        "--labels",
        tmp_path / "other.csv",
        "--label",
        "relapse",
        "-o",
        tmp_path / "m",
    )
    assert "use the same sample names" in message


def test_missing_values_are_refused_or_ignored(data, tmp_path):
    frame = pd.read_csv(data / "table.csv")
    frame.loc[4, "GENE7"] = np.nan
    frame.to_csv(tmp_path / "gap.csv", index=False)
    labels = ["--labels", data / "labels.csv", "--label", "relapse", *QUICK]
    path = tmp_path / "m.suquan"
    message = fail("fit", tmp_path / "gap.csv", *labels, "-o", path)
    assert "'patient 4', feature 'GENE7'; fill them in, or give --missing ignore" in message
    succeed("fit", tmp_path / "gap.csv", *labels, "--missing", "ignore", "-o", path)
    succeed("predict", path, tmp_path / "gap.csv", "-o", tmp_path / "s.csv")
    strict = tmp_path / "strict.suquan"
    succeed("fit", data / "table.csv", *labels, "-o", strict)
    assert "GENE7" in fail("predict", strict, tmp_path / "gap.csv")
    succeed(
        "predict", strict, tmp_path / "gap.csv", "--missing", "ignore", "-o", tmp_path / "s.csv"
    )


# ----------------------------------------------------------------------------------- inspect and output


def test_inspect_shows_what_the_model_holds(model):
    result = succeed("inspect", model, "--top", "3")
    for piece in ("SuquanClassifierCV", "crossfit", "classes no", "roc_auc", "GENE", "nearest to"):
        assert piece in result.stdout
    told = json.loads(succeed("inspect", model, "--json").stdout)
    assert told["estimator"] == "SuquanClassifierCV"
    assert told["summary"]["label"] == "relapse"
    assert told["summary"]["n_samples"] == 59
    assert len(told["top_features"]) == 12
    assert told["notes"] == []


def test_inspect_reads_every_kind_of_model(tmp_path):
    stored = Path(__file__).parent / "data" / "models" / "schema2"
    for path in sorted(stored.glob("*.suquan")):
        assert suquan.load_model(path).__class__.__name__ in succeed("inspect", path).stdout
        json.loads(succeed("inspect", path, "--json").stdout)


def test_scaled_features_from_fit_to_report(data, tmp_path):
    path = tmp_path / "m.suquan"
    labels = ["--labels", data / "labels.csv", "--label", "relapse", "--feature-scaling", "std"]
    succeed("fit", data / "table.csv", *labels, *QUICK, "-o", path)
    assert suquan.load_model(path).best_estimator_.feature_scaling == "std"
    assert "feature scaling" in succeed("inspect", path).stdout
    methods = ["--methods", "uniform,bnd", "--inner-cv", "2x1", "--out", tmp_path / "out"]
    succeed("compare", data / "table.csv", *labels, *QUICK, *methods)
    assert suquan.load_model(tmp_path / "out" / "model.suquan").feature_scaling == "std"
    report = (tmp_path / "out" / "report.html").read_text("utf-8")
    assert "--feature-scaling std" in report
    fail("fit", data / "table.csv", *labels, "--feature-scaling", "mad", "-o", path, code=2)


def test_several_targets_from_fit_to_score(data, tmp_path):
    path, scores = tmp_path / "m.suquan", tmp_path / "s.csv"
    labels = ["--labels", data / "labels.csv", "--label", "relapse"]
    several = ["--method", "multi", "--n-targets", "2", *QUICK]
    told = json.loads(
        succeed("fit", data / "table.csv", *labels, *several, "-o", path, "--json").stdout
    )
    model = suquan.load_model(path)
    assert told["n_targets"] == model.n_targets_ == 2
    assert told["n_features_used"] == 12
    succeed("predict", path, data / "table.csv", "-o", scores)
    table = read_table(data / "table.csv", samples="rows")
    frame = pd.DataFrame(table.values, columns=table.feature_names)
    given = [float(row["score"]) for row in read_csv(scores)]
    assert_allclose(given, model.decision_function(frame))
    assert "share of the norm" in succeed("inspect", path).stdout
    told = json.loads(succeed("inspect", path, "--json").stdout)
    assert [row["singular_value"] for row in told["targets"]] == model.singular_values_.tolist()
    assert_allclose(sum(row["share"] for row in told["targets"]), 1.0)
    weights = np.abs(model.coef_).reshape(-1, 12).sum(axis=0)
    assert_allclose(told["top_features"][0]["weights"], [weights.max()])
    arguments = [data / "table.csv", "--target", path, "-o", tmp_path / "n.csv"]
    assert "has 2 targets" in fail("normalize", *arguments)
    fail("fit", data / "table.csv", *labels, "--n-targets", "0", "-o", path, code=2)


def test_quiet_says_nothing_and_json_only_one_object(data, model, tmp_path):
    out = tmp_path / "o.csv"
    for arguments in (
        ["inspect", model],
        ["predict", model, data / "table.csv", "-o", out],
        ["normalize", data / "table.csv", "-o", out],
    ):
        assert succeed(*arguments, "--quiet").output == ""
        told = json.loads(succeed(*arguments, "--json").stdout)
        assert told["command"] == arguments[0]
        assert told["warnings"] == []
        quiet = succeed(*arguments, "--json", "--quiet")
        assert quiet.stderr == ""
        assert json.loads(quiet.stdout) == told


def test_names_cannot_steer_the_terminal(data, tmp_path):
    """Markup and control sequences come out as they are, or as codes."""
    frame = pd.read_csv(data / "table.csv").rename(
        columns={"GENE0": "[red]GENE0[/red]", "GENE1": "[/]", "GENE2": ":smile:"}
    )
    frame["sample"] = frame["sample"].str.replace("patient", "[bold]<script>")
    frame.to_csv(tmp_path / "t.csv", index=False)
    labels = pd.read_csv(data / "labels.csv")
    labels["sample"] = labels["sample"].str.replace("patient", "[bold]<script>")
    labels["relapse"] = labels["relapse"].map({"yes": "[blink]yes[/blink]", "no": "[/no]"})
    labels.to_csv(tmp_path / "l.csv", index=False)
    path = tmp_path / "m.suquan"
    arguments = ["--labels", tmp_path / "l.csv", "--label", "relapse", *QUICK, "-o", path]
    assert "classes [/no]: " in succeed("fit", tmp_path / "t.csv", *arguments).stdout
    shown = succeed("inspect", path).stdout
    assert "[red]GENE0[/red]" in shown
    assert "[/] " in shown
    assert ":smile:" in shown
    message = fail("inspect", tmp_path / "\x1b[31mred\x1b[0m.suquan")
    assert "\x1b" not in message
    assert "\\x1b[31m" in message


def test_text_is_made_safe():
    assert safe("a\x1b[2Jb\nc\u202ed") == "a\\x1b[2Jb c\\x202ed"
    assert jsonable({"a": np.array([1.0, np.nan]), 2: (np.int64(3), None)}) == {
        "a": [1.0, None],
        "2": [3, None],
    }
    output = Output("x", Options(quiet=True))
    output.warn("once")
    output.warn("once")
    assert output.warnings == ["once"]


@pytest.mark.parametrize("kind", [TypeError, KeyError, RuntimeError, AttributeError])
def test_a_bug_is_not_mistaken_for_a_users_mistake(model, monkeypatch, kind):
    from suquan.cli import _inspect

    def broken(*arguments):
        raise kind("wrong")

    monkeypatch.setattr(_inspect, "read_model", broken)
    result = run("inspect", model)
    assert result.exit_code == 70
    (line,) = result.stderr.splitlines()
    assert line.startswith(f"suquan inspect: this is a bug in suquan ({kind.__name__}: ")
    assert "SUQUAN_DEBUG=1" in line
    monkeypatch.setenv("SUQUAN_DEBUG", "1")
    assert isinstance(run("inspect", model).exception, kind)


# -------------------------------------------------------------------------------------------- compare


def test_compare_writes_tables_figures_model_and_report(data, tmp_path):
    out = tmp_path / "out"
    labels = ["--labels", data / "labels.csv", "--label", "relapse"]
    result = succeed("compare", data / "table.csv", *labels, "--out", out, *COMPARE, "--json")
    told = json.loads(result.stdout)
    names = {path.name for path in out.iterdir()}
    assert names == {
        "checkpoint",
        "contrasts.csv",
        "figures",
        "folds.csv",
        "model.suquan",
        "reliability.csv",
        "report.html",
        "summary.csv",
        "tests.csv",
    }
    assert {path.name for path in (out / "figures").iterdir()} >= {"methods.svg", "target.png"}
    assert [row["method"] for row in read_csv(out / "summary.csv")] == [
        "normal",
        "uniform",
        "crossfit",
        "start",
        "best_fixed",
    ]
    assert told["contrasts"]["other"] == ["start", "best_fixed"]
    assert len(read_csv(out / "folds.csv")) == 10
    page = (out / "report.html").read_text()
    assert told["verdict"].partition(":")[0] in page
    assert "suquan compare" in page
    # Classes carry the names of the label file, not the numbers that stand for them.
    low, high = told["data"]["class_names"]
    assert f"speak for class {high}, negative ones for {low}" in page
    assert f"a sample of class {high} gets a higher score than one of class {low}:" in page
    assert suquan.load_model(out / "model.suquan").n_features_in_ == 12
    # The command in the report makes the same numbers again, from the checkpoint.
    before = (out / "folds.csv").read_text()
    again = succeed("compare", data / "table.csv", *labels, "--out", out, *COMPARE)
    assert "continuing: 8 of 8 parts were done already" not in again.stdout
    assert told["verdict"] in again.stdout
    assert (out / "folds.csv").read_text() == before
    message = fail(
        "compare", data / "table.csv", *labels, "--out", out, *COMPARE, "--seed", "1", "-q"
    )
    assert "belongs to other data or settings" in message


def test_the_report_calls_classes_by_the_names_of_the_user(data, tmp_path):
    labels = ["--labels", data / "labels.csv", "--label", "relapse", "--positive", "yes"]
    succeed("compare", data / "table.csv", *labels, "--out", tmp_path / "out", *COMPARE)
    page = (tmp_path / "out" / "report.html").read_text()
    assert "speak for class yes, negative ones for no" in page
    assert "class 1" not in page


def test_compare_does_regression_and_several_classes(data, tmp_path):
    labels = ["--labels", data / "labels.csv"]
    common = [data / "table.csv", *labels, *COMPARE[:-1], "normal,crossfit", "--json", "-q"]
    for column, extra, scoring in (
        ("marker", ["--task", "regression"], "r2"),
        ("stage", [], "roc_auc_ovr"),
    ):
        told = json.loads(
            succeed(
                "compare", *common, "--label", column, *extra, "--out", tmp_path / column
            ).stdout
        )
        assert told["scoring"] == scoring


def test_compare_takes_the_default_methods_and_forests_by_name(data, tmp_path):
    labels = ["--labels", data / "labels.csv", "--label", "relapse", *COMPARE[:-2]]
    printed = succeed("compare", data / "table.csv", *labels, "--out", tmp_path / "all").stdout
    named = {row["method"] for row in read_csv(tmp_path / "all" / "summary.csv")}
    assert named == {*DEFAULT_METHODS, "start", "best_fixed"}
    assert "comparing 8 methods on 2x1 outer folds: 16 parts" in printed
    few = ["--methods", "forest,forest_raw", "--out", tmp_path / "few"]
    succeed("compare", data / "table.csv", *labels, *few)
    named = {row["method"] for row in read_csv(tmp_path / "few" / "summary.csv")}
    assert named == {"forest", "forest_raw"}
    assert "extra trees on the values" in (tmp_path / "few" / "report.html").read_text()


def test_compare_without_crossfit_keeps_the_best_learned_model(data, tmp_path):
    out = tmp_path / "out"
    labels = ["--labels", data / "labels.csv", "--label", "relapse", *COMPARE[:-1]]
    several = ["uniform,multi,matrix", "--n-targets", "2"]
    succeed("compare", data / "table.csv", *labels, *several, "--out", out)
    rows = {row["method"]: float(row["mean"]) for row in read_csv(out / "summary.csv")}
    best = max(("multi", "matrix"), key=rows.__getitem__)
    assert suquan.load_model(out / "model.suquan").method_ == best
    assert "Share of the norm" in (out / "report.html").read_text()
    message = fail("compare", data / "table.csv", *labels, "bnd,normal", *several[1:], "-o", out)
    assert "--n-targets is for the method multi" in message


def test_compare_explains_mistakes(data, tmp_path):
    labels = ["--labels", data / "labels.csv", "--label", "relapse"]
    (tmp_path / "file").write_text("")
    assert "is a file" in fail("compare", data / "table.csv", *labels, "--out", tmp_path / "file")
    message = fail(
        "compare", data / "table.csv", *labels, "--out", tmp_path / "o", "--methods", "gauss"
    )
    assert "unknown method 'gauss'; known are raw, median" in message
    fail("compare", data / "table.csv", *labels[:3], "absent", "--out", tmp_path / "o")
    assert not (tmp_path / "o").exists()


# ------------------------------------------------------------------------------------------------- files


@pytest.fixture
def own_files(data, model, tmp_path):
    """Copies that a mistake may replace, and a link to one of them."""
    names = ["table.csv", "labels.csv", "own.csv"]
    for name in names:
        shutil.copy(data / name, tmp_path / name)
    shutil.copy(model, tmp_path / "model.csv")
    (tmp_path / "f.txt").write_text("1\n2\n3\n")
    (tmp_path / "link.csv").symlink_to("table.csv")
    (tmp_path / "out").mkdir()
    shutil.copy(data / "labels.csv", tmp_path / "out" / "summary.csv")
    shutil.copy(data / "table.csv", tmp_path / "out" / "table.csv")
    zarr_blocks = open_blocks(write_blocks(da.ones((4, 2), chunks=(2, 2)), tmp_path / "t.zarr"))
    assert zarr_blocks.shape == (4, 2)
    return tmp_path


LABELS = "--labels labels.csv --label relapse"


@pytest.mark.parametrize(
    ("line", "output"),
    [
        ("normalize table.csv -o table.csv", "table.csv"),
        ("normalize table.csv -o ./link.csv", "link.csv"),
        ("normalize link.csv -o table.csv", "table.csv"),
        ("normalize table.csv --target f.txt -o f.txt", "f.txt"),
        ("normalize t.zarr -o t.zarr", "t.zarr"),
        (f"fit table.csv {LABELS} -o labels.csv", "labels.csv"),
        (f"fit table.csv {LABELS} -o table.csv", "table.csv"),
        ("predict model.csv table.csv -o model.csv", "model.csv"),
        ("predict model.csv table.csv -o table.csv", "table.csv"),
        ("predict model.csv table.csv --training own.csv -o own.csv", "own.csv"),
        (
            "predict model.csv table.csv --training own.csv --labels labels.csv -o labels.csv",
            "labels.csv",
        ),
        (
            "compare table.csv --labels out/summary.csv --label relapse --out out",
            "out/summary.csv",
        ),
        (
            "reproduce expression --cel out --clinical own.csv --cdf own.csv --out out",
            "out",
        ),
        ("reproduce simulated --data out --out out", "out"),
    ],
)
def test_an_output_that_is_an_input_is_refused_before_any_work(
    own_files, monkeypatch, line, output
):
    monkeypatch.chdir(own_files)
    before = {path: path.read_bytes() for path in own_files.rglob("*") if path.is_file()}
    message = fail(*line.split())
    assert f"{output} is an input too; give another name for the results." in message
    assert {path: path.read_bytes() for path in own_files.rglob("*") if path.is_file()} == before


def test_results_beside_the_inputs_are_no_mistake(own_files, monkeypatch):
    monkeypatch.chdir(own_files)
    line = f"compare out/table.csv {LABELS} --out out"
    succeed(
        *line.split(),
        *QUICK,
        "--inner-cv",
        "2x1",
        "--methods",
        "uniform,crossfit",
        "--permutations",
        "1",
    )
    # What is written into the folder is what an input there may not be.
    names = {path.name for path in (own_files / "out").iterdir() if path.is_file()}
    assert names - {"table.csv"} <= set(Compare.FILES)
    assert set(Compare.FILES) - names <= {"cohorts.csv"}


@pytest.mark.skipif(os.name != "posix", reason="devices and pipes of POSIX")
def test_devices_and_pipes_are_refused_before_any_work(own_files, monkeypatch):
    monkeypatch.chdir(own_files)
    os.mkfifo("pipe.csv")
    for output in ("pipe.csv", os.devnull):
        message = fail(*f"fit table.csv {LABELS} -o {output}".split())
        assert f"{output} is a device or a pipe; give the name of a file" in message
    reads = ["predict model.csv pipe.csv", "fit table.csv --labels pipe.csv --label y -o m"]
    for line in reads:
        assert "pipe.csv is a device or a pipe; give the name of a file" in fail(*line.split())


def test_a_full_disk_is_told_with_the_name_of_the_users_file(data, tmp_path, monkeypatch):
    def full(*arguments):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(zipfile.ZipFile, "writestr", full)
    path = tmp_path / "m.suquan"
    arguments = ["fit", data / "own.csv", "--label", "relapse", "--ignore", "age", *QUICK]
    result = run(*arguments, "--method", "fixed", "-o", path)
    assert result.exit_code == 1
    assert (
        result.stderr.splitlines()[-1] == f"suquan fit: {path}: No space left on device; free some."
    )
    assert not list(tmp_path.iterdir())


# ---------------------------------------------------------------------------------------- real processes


def closed_pipe():
    """The end of a pipe that nobody reads."""
    reader, writer = os.pipe()
    os.close(reader)
    return writer


def full_disk():
    """A file that takes nothing."""
    return os.open("/dev/full", os.O_WRONLY)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="devices of Linux")
@pytest.mark.parametrize("name", ["stdout", "stderr"])
@pytest.mark.parametrize("kind", [None, closed_pipe, full_disk])
def test_work_is_done_where_nobody_listens(data, model, tmp_path, monkeypatch, capsys, name, kind):
    """What is told to people is lost; results that cannot be written are an error, never a bug."""

    def predict(*more):
        with monkeypatch.context() as patch:
            number = kind and kind()
            patch.setattr(sys, name, kind and os.fdopen(number, "w", closefd=False))
            code = main(["predict", str(model), str(data / "table.csv"), *map(str, more)])
            if number is None:
                getattr(sys, name).close()  # nowhere
            else:
                os.close(number)
        return code

    path = tmp_path / "scores.csv"
    assert predict("-o", path) == 0
    assert len(read_csv(path)) == 60
    capsys.readouterr()
    for more in ((), ("--json",)):
        assert predict(*more) == (1 if name == "stdout" else 0)
        lines = capsys.readouterr()
        assert bool(lines.out) == (name == "stderr")
        assert "Traceback" not in lines.err
        assert "bug" not in lines.err


def test_a_command_whose_streams_are_closed_writes_its_file(data, model, tmp_path):
    path = tmp_path / "scores.csv"
    command = f"{sys.executable} -m suquan predict {model} {data / 'table.csv'} -o {path} >&- 2>&-"
    assert subprocess.run(command, shell=True, timeout=300).returncode == 0
    assert len(read_csv(path)) == 60


def test_a_real_process_ends_with_the_right_code_and_one_line(model, tmp_path):
    wrong = script("predict", model, tmp_path / "absent.csv")
    assert wrong.returncode == 1
    assert wrong.stdout == ""
    assert len(wrong.stderr.splitlines()) == 1


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
def test_commands_run_where_ctrl_c_is_ignored(model):
    """As by nohup, or in the background of a script."""
    ignore = {"preexec_fn": lambda: signal.signal(signal.SIGINT, signal.SIG_IGN)}
    done = script("inspect", model, **ignore)
    assert (done.returncode, done.stderr) == (0, "")


def test_output_into_a_closed_pipe_ends_without_a_traceback(data, model):
    command = f"{sys.executable} -m suquan predict {model} {data / 'table.csv'} | head -n 1"
    result = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=300)
    assert result.stdout == "sample,score,probability,predicted\n"
    assert "Traceback" not in result.stderr


ENDS = [
    (signal.SIGINT, 130, "interrupted"),
    (signal.SIGTERM, 143, "ended by SIGTERM"),
    (signal.SIGHUP, 129, "ended by SIGHUP"),
]


@pytest.mark.parametrize(("number", "code", "told"), ENDS)
def test_a_comparison_that_is_ended_tells_how_and_goes_on_where_it_was(
    data, tmp_path, monkeypatch, number, code, told
):
    out = tmp_path / "out"
    arguments = ["compare", data / "own.csv", "--label", "relapse", "--ignore", "age"]
    arguments += ["--out", out, *QUICK, "--inner-cv", "2x1", "--methods", "normal,uniform"]
    with monkeypatch.context() as patch:
        patch.setattr(Progress, "advance", lambda *told: signal.raise_signal(number))
        result = run(*arguments)
    assert result.exit_code == code
    assert result.stderr.splitlines()[-1] == f"suquan compare: {told}"
    assert signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler)  # as before
    assert "1 of 4 parts are kept; the same command goes on there" in result.stdout
    assert not (out / "report.html").exists()
    assert not list(out.rglob(".writing-*"))
    assert "continuing: 1 of 4 parts were done already" in succeed(*arguments).stderr
    assert len(read_csv(out / "folds.csv")) == 6  # with the best fixed target


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
@pytest.mark.parametrize(
    ("n_jobs", "number", "code", "told"),
    [(1, *ENDS[0]), *[(2, *end) for end in ENDS]],
)
def test_a_signal_ends_a_comparison_and_its_processes(tmp_path, n_jobs, number, code, told):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(150, 80))
    names = np.array([f"s{i}" for i in range(150)])
    labels = {"y": np.where(X[:, 0] + rng.normal(size=150) > 0, "a", "b")}
    genes = np.array([f"g{j}" for j in range(80)])
    write_table(Table(X, names, genes, labels), tmp_path / "t.csv")
    out = tmp_path / "out"
    arguments = ["compare", tmp_path / "t.csv", "--label", "y", "--out", out, "--n-jobs", n_jobs]
    arguments += ["--methods", "normal,uniform,crossfit", "--cv", "3x2", "--inner-cv", "3x1"]
    arguments += ["--alphas", "3", "--smoothnesses", "2"]
    process = subprocess.Popen(
        [sys.executable, "-m", "suquan", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    end = time.monotonic() + 240
    while len(list(out.glob("checkpoint/*.npz"))) < 3:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end
        time.sleep(0.02)
    if number == signal.SIGINT:
        os.killpg(process.pid, number)  # as a terminal does, to the workers too
    else:
        process.send_signal(number)  # as a batch system does
    stdout, stderr = process.communicate(timeout=120)  # until no process holds the pipes
    assert process.returncode == code, (stdout, stderr)
    assert stderr.splitlines()[-1] == f"suquan compare: {told}"
    assert "Traceback" not in stderr
    kept = len(list(out.glob("checkpoint/*.npz")))
    assert f"{kept} of 18 parts are kept" in stdout
    assert not (out / "report.html").exists()
    assert not list(out.rglob(".writing-*"))
    assert f"continuing: {kept} of 18 parts were done already" in succeed(*arguments).stderr
    succeed(*[str(a).replace(str(out), str(tmp_path / "whole")) for a in arguments], "-q")

    def scores(folder):
        return [(row["method"], row["score"]) for row in read_csv(folder / "folds.csv")]

    assert scores(out) == scores(tmp_path / "whole")


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
@pytest.mark.parametrize(("number", "code", "told"), ENDS[:2])
def test_a_normalisation_that_is_ended_leaves_no_file(tmp_path, number, code, told):
    rng = np.random.default_rng(0)
    names = [np.array([f"{c}{k}" for k in range(n)]) for c, n in (("s", 3000), ("g", 40))]
    write_table(Table(rng.normal(size=(3000, 40)), *names), tmp_path / "t.csv")
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "suquan",
            "normalize",
            str(tmp_path / "t.csv"),
            "-o",
            str(tmp_path / "out.csv"),
            "--block-samples",
            "2",
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    end = time.monotonic() + 240
    while len(list(tmp_path.iterdir())) < 2:  # the hidden file that is being written
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end
        time.sleep(0.005)
    process.send_signal(number)
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == code
    assert stderr == f"suquan normalize: {told}\n"
    assert [path.name for path in tmp_path.iterdir()] == ["t.csv"]


def interrupted_in_llvm():
    """In a function that C calls, as LLVM does."""

    def call():
        seen.append("went on")
        interrupted_here()
        return 0

    seen = []
    ctypes.CFUNCTYPE(ctypes.c_int)(call)()
    return seen[0]


def wait_after(word):
    assert word == "went on"
    time.sleep(30.0)


def interrupted_here():
    signal.raise_signal(signal.SIGINT)


def test_ctrl_c_in_a_callback_of_llvm_is_not_lost():
    with pytest.raises(KeyboardInterrupt), safe_interrupts():
        interrupted_here()
    start = time.monotonic()
    with pytest.raises(KeyboardInterrupt), safe_interrupts():
        wait_after(interrupted_in_llvm())
    assert time.monotonic() < start + 30.0
    with pytest.raises(KeyboardInterrupt), safe_interrupts():
        interrupted_in_llvm()  # and is over before the next try
    time.sleep(0.2)  # in which none comes


def test_ctrl_c_in_a_callback_of_the_garbage_collector_is_not_lost():
    asked, seen = [], []

    def callback(phase, info):
        if phase == "start" and asked and not seen:
            seen.append("went on")
            interrupted_here()

    def collect():
        asked.append(True)
        gc.collect()
        return seen[0]

    gc.callbacks.append(callback)
    start = time.monotonic()
    try:
        with pytest.raises(KeyboardInterrupt), safe_interrupts():
            wait_after(collect())
    finally:
        gc.callbacks.remove(callback)
    assert time.monotonic() < start + 30.0


def test_a_signal_inside_exec_does_not_change_the_exit_code():
    """Python ends by SIGINT where a KeyboardInterrupt has passed `exec`, even one that was caught."""
    code = "import signal; signal.raise_signal(signal.SIGTERM)"
    lines = [
        "from suquan.cli._interrupts import safe_interrupts",
        "try:",
        f"    with safe_interrupts(): exec({code!r})",
        "except KeyboardInterrupt: raise SystemExit(7)",
    ]
    done = subprocess.run([sys.executable, "-c", "\n".join(lines)], timeout=300)
    assert done.returncode == 7


def test_signals_that_are_ignored_stay_so():
    """As SIGHUP under nohup."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with safe_interrupts():
            signal.raise_signal(signal.SIGHUP)
    finally:
        signal.signal(signal.SIGHUP, before)


def test_ctrl_c_of_others_is_left_alone():
    seen = []
    before = signal.signal(signal.SIGINT, lambda number, frame: seen.append(number))
    try:
        with safe_interrupts():
            interrupted_here()
    finally:
        signal.signal(signal.SIGINT, before)
    assert seen == [signal.SIGINT]


def check_demo(folder, stdout):
    last = stdout.splitlines()[-1]
    assert re.fullmatch(r"report: .*demo.report\.html", last)
    assert Path(last.removeprefix("report: ")).is_file()
    (row,) = read_csv(folder / "scores.csv")
    assert row["sample"] == "new patient"


def test_the_demo_does_the_whole_job(tmp_path, monkeypatch):
    from suquan.cli import _demo

    monkeypatch.setattr(_demo, "N_PATIENTS", 60)
    monkeypatch.setattr(_demo, "N_GENES", 20)
    monkeypatch.setattr(_demo, "METHODS", ("normal", "crossfit"))
    folder = tmp_path / "demo"
    shown = succeed("demo", "--out", folder, "--seed", "1").stdout
    check_demo(folder, shown)
    # The commands that it shows are those that it runs.
    commands = [
        shlex.split(line)[2:] for line in shown.splitlines() if line.startswith("$ suquan ")
    ]
    assert [command[0] for command in commands] == ["compare", "fit", "predict"]
    scores = (folder / "scores.csv").read_text()
    for name in ("relapse.suquan", "scores.csv"):
        (folder / name).unlink()
    for command in commands[1:]:
        succeed(*command)
    assert (folder / "scores.csv").read_text() == scores


@pytest.mark.slow
def test_the_demo_shows_that_learning_helps(tmp_path):
    done = script("demo", "--out", tmp_path / "demo", "--n-jobs", "2")
    assert done.returncode == 0, done.stderr
    assert "Learning the target helps" in done.stdout
    check_demo(tmp_path / "demo", done.stdout)
