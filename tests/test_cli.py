"""The command line as a user meets it: results, messages, exit codes. Commands run in the folder `data`."""

import csv
import errno
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

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.model_selection import RepeatedStratifiedKFold
from typer.testing import CliRunner

import suquan
from suquan._progress import Progress
from suquan.cli import _demo, _inspect, main
from suquan.cli._app import app
from suquan.cli._options import Compare, Folds
from suquan.comparison import DEFAULT_METHODS
from suquan.io import Table, read_table, write_table
from suquan.persistence import read_model

HEAVY = ["numpy", "scipy", "sklearn", "numba", "pandas", "pyarrow", "matplotlib", "joblib"]
# Small grids, one process: what is tested is the way there and back.
QUICK = "--cv 2x1 --alphas 2 --smoothnesses 2 --n-jobs 1"
FIT = f"fit table.csv --labels labels.csv {QUICK}"
COMPARE = f"compare table.csv --labels labels.csv {QUICK} --inner-cv 2x1"


def run(line, *more):
    """Run the words of a line and further arguments."""
    return CliRunner().invoke(app, [*shlex.split(str(line)), *map(str, more)])


def succeed(line, *more):
    result = run(line, *more)
    assert result.exit_code == 0, (result.output, result.exception)
    return result


def fail(line, *more, code=1):
    """One line on standard error, no traceback, nothing on standard output."""
    result = run(line, *more)
    assert result.exit_code == code, (result.output, result.exception)
    assert "Traceback" not in result.output
    if code == 1:
        lines = result.stderr.splitlines()
        assert len(lines) == 1, result.stderr
        assert lines[0].startswith(f"suquan {line.split()[0]}: ")
        return lines[0]
    return result.stderr


def told(line, *more):
    """The JSON object of a command."""
    return json.loads(succeed(line, *more, "--json").stdout)


def script(line, *more, **options):
    """A real process."""
    return subprocess.run(
        [sys.executable, "-m", "suquan", *shlex.split(line), *map(str, more)],
        capture_output=True,
        text=True,
        timeout=300,
        **options,
    )


def read_csv(path, delimiter=","):
    with open(path, newline="") as file:
        return list(csv.DictReader(file, delimiter=delimiter))


@pytest.fixture(scope="session")
def tables(tmp_path_factory):
    """A table, its transpose, labels of all kinds, the same in one file, and a model."""
    folder = tmp_path_factory.mktemp("data")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 12))
    u = X @ rng.normal(size=12)
    X = np.round(np.exp(X), 4)
    samples = np.array([f"patient {i}" for i in range(60)])
    genes = np.array([f"GENE{j}" for j in range(12)])
    write_table(Table(X, samples, genes), folder / "table.csv")
    write_table(Table(X, samples, genes, orientation="columns"), folder / "turned.tsv")
    relapse = np.where(u > 0, "yes", "no")
    labels = pd.DataFrame(
        {
            "sample": samples,
            "relapse": relapse,
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
    own.assign(age=50.0, relapse=relapse).to_csv(folder / "own.csv", index=False)
    result = run(
        f"fit {folder}/table.csv --labels {folder}/labels.csv --label relapse {QUICK} -o {folder}/model.suquan"
    )
    assert result.exit_code == 0, result.output
    return folder


@pytest.fixture
def data(tables, monkeypatch):
    """The folder of the tables, in which the commands run."""
    monkeypatch.chdir(tables)
    return tables


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


def test_every_command_has_help():
    listed = succeed("--help").output
    for command in ("demo", "normalize", "fit", "predict", "inspect", "compare", "export"):
        assert command in listed
        text = succeed(f"{command} --help").output
        assert {"Exit codes", "--json", "--quiet"} <= set(
            re.findall("Exit codes|--json|--quiet", text)
        )


@pytest.mark.parametrize("missing", ["typer", "rich"])
def test_without_the_extra_one_line_says_what_to_install(missing):
    code = f"import sys; sys.modules[{missing!r}] = None; from suquan.cli import main; sys.exit(main())"
    result = subprocess.run([sys.executable, "-c", code, "--help"], capture_output=True, text=True)
    assert result.returncode == 1
    cure = "run: python -m pip install 'suquan[cli]'"
    assert result.stderr == f"suquan: {missing} is not installed; {cure}\n"


def test_the_entry_point_returns_the_exit_code(data, capsys):
    assert main(["inspect", "model.suquan", "--quiet"]) == 0
    assert main(["inspect", "absent.suquan"]) == 1
    assert main(["inspect"]) == 2
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"suquan {suquan.__version__}\n"


@pytest.mark.parametrize(
    "line",
    [
        "unknown",
        "fit",
        "fit t.csv -o m",
        "fit t.csv -o m --label y --cv three",
        "fit t.csv -o m --label y --cv 1x5",
        "fit t.csv -o m --label y --cv 3x0",
        "fit t.csv -o m --time t",
        "fit t.csv -o m --time t --event e --horizon 5 --label y",
        "fit t.csv -o m --label y --sample-column id",
        "fit t.csv -o m --label y --positive 1 --task regression",
        "fit t.csv -o m --label y --negative 1",
        "fit t.csv -o m --label y --positive 1 --event-value 1",
        "fit t.csv -o m --label y --samples diagonal",
        "fit t.csv -o m --label y --n-targets 0",
        "fit t.csv -o m --label y --feature-scaling mad",
        "predict m t.csv --max-lost 2",
        "predict m t.csv --labels l.csv",
        "normalize t.csv -o o.csv --ties none",
    ],
)
def test_wrong_usage_ends_with_2(line):
    assert fail(line, code=2)


def test_folds_are_read():
    assert Folds.parse("3x5") == Folds(3, 5)
    assert Folds.parse("10×2") == Folds(10, 2)
    assert Folds.parse("5") == Folds(5, 1)


def test_the_command_of_options_gives_the_same_options(monkeypatch):
    from suquan.cli import _compare

    given = Compare(
        **{"table": Path("a table.csv"), "out": Path("out"), "time": "t", "event": "e"},
        **{"horizon": 2.5, "ignore": ["age", "a b"], "cv": Folds(2, 7), "event_value": "x"},
        **{"ties": "first", "samples": "columns", "seed": 4, "n_knots": 9},
        **{"negative_rest": True, "na": ["?", "a b"]},
    )
    words = given.command()
    assert words[:3] == ["suquan", "compare", "a table.csv"]
    assert "--missing" not in words
    seen = []
    monkeypatch.setattr(_compare, "run", lambda options, output: seen.append(options))
    succeed(shlex.join(words[1:]))
    assert seen == [given]


# ----------------------------------------------------------------------------------------- normalize


@pytest.mark.parametrize("target", ["median", "mean", "normal", "bimodal"])
def test_normalize_writes_what_the_library_gives(data, tmp_path, target):
    out = tmp_path / "out.csv"
    result = succeed(f"normalize table.csv --target {target} --ties first -o", out)
    assert result.stderr == ""
    assert "60 samples in rows" in result.stdout
    table, got = read_table("table.csv"), read_table(out)
    expected = suquan.quantile_normalize(table.values, target, ties="first")
    assert_allclose(got.values, expected, rtol=1e-14)
    assert got.sample_names.tolist() == table.sample_names.tolist()


def test_normalize_keeps_samples_in_columns(data, tmp_path):
    out = tmp_path / "out.tsv"
    succeed("normalize turned.tsv --samples columns -o", out)
    assert out.read_text().splitlines()[0] == Path("turned.tsv").read_text().splitlines()[0]
    expected = suquan.quantile_normalize(read_table("table.csv").values)
    assert_array_equal(read_table(out, samples="columns").values, expected)


def test_normalize_takes_targets_from_files(data, tmp_path):
    values, out = np.linspace(-2, 5, 12), tmp_path / "out.csv"
    np.save(tmp_path / "target.npy", values)
    np.savetxt(tmp_path / "target.txt", values, fmt="%.17g")
    np.savetxt(tmp_path / "short.txt", [0.0, 1.0])
    learned = np.sort(suquan.load_model("model.suquan").target_quantiles_)
    files = {"target.npy": values, "target.txt": values, data / "model.suquan": learned}
    for name, expected in files.items():
        succeed("normalize table.csv -o", out, "--target", tmp_path / name)
        assert_allclose(np.sort(read_table(out).values[0]), expected, rtol=1e-14)
    result = succeed("normalize table.csv -o", out, "--target", tmp_path / "short.txt")
    assert "interpolated to the 12 features" in result.stdout


def test_a_table_that_may_lie_either_way_is_refused(data, tmp_path):
    """Genes in rows are usual; taken for samples, they would be normalised without a word."""
    values = np.random.default_rng(0).normal(size=(100, 4))
    genes = pd.DataFrame(values, index=[f"g{i}" for i in range(100)], columns=list("abcd"))
    out = tmp_path / "out.csv"
    genes.to_csv(tmp_path / "in.csv")
    message = fail("normalize", tmp_path / "in.csv", "-o", out)
    assert "--samples rows for 100 samples ('g0', 'g1' and 98 more) of 4 features" in message
    assert "--samples columns for 4 samples of 100 features" in message
    assert not out.exists()
    succeed("normalize --samples columns", tmp_path / "in.csv", "-o", out)
    expected = suquan.quantile_normalize(np.ascontiguousarray(values.T)).T
    assert_allclose(pd.read_csv(out, index_col=0).values, expected, rtol=1e-12)


def test_names_say_where_the_samples_lie(data, tmp_path):
    """By the heading, the labels, or the features of a model, even where that has only their number."""
    frame, path = pd.read_csv("own.csv", index_col=0), tmp_path / "in.csv"
    out = ["-o", tmp_path / "out.csv"]
    for heading, side in (("Patient IDs", "rows"), ("ID_REF", "columns")):
        frame.iloc[:, :12].to_csv(path, index_label=heading)
        said = succeed("normalize", path, *out).stdout
        assert f"samples in {side} (chosen by the heading {heading!r}; --samples overrides)" in said
    frame.to_csv(path, index_label="id")
    said = succeed("normalize --label age", path, *out).stdout
    assert "60 samples in rows (chosen by the names of the labels" in said
    nameless = suquan.load_model("model.suquan")
    for part in (nameless, nameless.best_estimator_):
        del part.feature_names_in_
    suquan.save_model(nameless, tmp_path / "nameless.suquan")
    frame.iloc[:, :12].T.to_csv(path, index_label="id")
    said = succeed("predict", tmp_path / "nameless.suquan", path, *out).stdout
    assert "samples in columns (chosen by the number of the model's features;" in said


def test_normalize_follows_the_rule_for_missing_values(data, tmp_path):
    frame, out = pd.read_csv("table.csv"), tmp_path / "out.csv"
    frame.loc[2, "GENE0"] = np.nan
    frame.to_csv(tmp_path / "gap.csv", index=False)
    assert "'patient 2', feature 'GENE0'" in fail("normalize", tmp_path / "gap.csv", "-o", out)
    assert not out.exists()
    result = succeed("normalize --missing ignore", tmp_path / "gap.csv", "-o", out)
    assert "1 missing values stayed missing" in result.stdout
    assert np.isnan(read_table(out).values[2, 0])


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ("--target gaussian", "neither one of median, mean, approximate_median"),
        ("--target labels.csv", "one number per line"),
        ("-o absent/out.csv", "no folder"),
        ("-o out.unknown", "out.unknown"),
    ],
)
def test_normalize_explains_mistakes(data, tmp_path, change, match):
    out = tmp_path / "out.csv"
    assert match in fail("normalize table.csv -o", out, *change.split())
    assert not list(tmp_path.iterdir())


# ------------------------------------------------------------------------------------- fit and predict


def test_fit_and_predict_agree_with_the_library(data, tmp_path):
    table, frame = read_table("table.csv"), pd.read_csv("table.csv", index_col=0)
    labels = {row["sample"]: row["relapse"] for row in read_csv("labels.csv")}
    y = np.array([labels[name] for name in table.sample_names.tolist()])
    cv = RepeatedStratifiedKFold(n_splits=2, n_repeats=1, random_state=0)
    expected = suquan.SuquanClassifierCV(cv=cv, alphas=2, smoothnesses=2, random_state=0)
    expected.fit(table.values[y != ""], y[y != ""])
    loaded = suquan.load_model("model.suquan")
    assert_array_equal(loaded.coef_, expected.coef_)
    result = succeed("predict model.suquan table.csv -o", tmp_path / "s.csv")
    assert "12 of the model's 12 features" in result.stdout
    scores = pd.read_csv(tmp_path / "s.csv", float_precision="round_trip")
    assert list(scores) == ["sample", "score", "probability", "predicted"]
    assert_array_equal(scores["score"], loaded.decision_function(frame))
    assert_array_equal(scores["probability"], loaded.predict_proba(frame)[:, 1])
    assert_array_equal(scores["predicted"], loaded.predict(frame))
    assert_array_equal(scores["predicted"], np.where(scores["score"] > 0, "yes", "no"))
    assert_array_equal(scores["sample"], table.sample_names)
    succeed("predict model.suquan turned.tsv -o", tmp_path / "turned.csv")  # by the features
    assert (tmp_path / "turned.csv").read_text() == (tmp_path / "s.csv").read_text()
    lines = Path("table.csv").read_text().splitlines()
    (tmp_path / "one.csv").write_text("\n".join([lines[0], lines[30]]))  # alone as in a batch
    one = succeed("predict model.suquan", tmp_path / "one.csv").stdout.splitlines()[1]
    assert one == (tmp_path / "s.csv").read_text().splitlines()[30]


@pytest.mark.parametrize(
    ("labels", "guess"),
    [
        ("--label coin", "0.5"),
        ("--label value --task regression", "0"),
        ("--time days --event coin", "0.5"),
    ],
)
def test_fit_says_when_the_score_is_no_better_than_guessing(data, tmp_path, labels, guess):
    rng = np.random.default_rng(3)
    known = pd.read_csv("labels.csv").sort_values("grade")
    known["coin"] = rng.permutation(np.arange(60) % 2)
    known["value"], known["days"] = rng.normal(size=60), rng.exponential(size=60)
    known.to_csv(tmp_path / "l.csv", index=False)
    out = ["--labels", tmp_path / "l.csv", "-o", tmp_path / "m.suquan"]
    said = succeed(f"fit table.csv {QUICK} {labels}", *out, "--cv", "3x2").output
    assert f": no better than guessing ({guess})" in said
    assert re.search(r"cross-validated \S+ -?\d\.\d{4} ± \d\.\d{4} \(two standard errors\):", said)
    assert "optimistic" not in said


def test_fit_says_when_the_initial_target_is_kept(data, tmp_path):
    said = succeed(f"{FIT} --label grade -o", tmp_path / "m.suquan").output
    assert "optimistic: the same folds were used for tuning" in said
    kept = suquan.load_model(tmp_path / "m.suquan").departure_ == 0.0
    assert ("the initial target (uniform) is kept" in said) == kept
    assert ("departure 0." in said or "departure 1" in said) == (not kept)
    labels = pd.read_csv("labels.csv")
    labels["coin"] = np.random.default_rng(4).permutation(np.arange(60) % 2)
    labels.to_csv(tmp_path / "l.csv", index=False)
    out = ["--labels", tmp_path / "l.csv", "-o", tmp_path / "m.suquan"]
    result = succeed(f"fit table.csv {QUICK} --label coin --json", *out)
    assert json.loads(result.stdout)["departure"] == 0.0
    assert "learned target was not better: the initial target (uniform) is kept" in result.stderr


def test_predict_without_a_file_prints_the_table_alone(data):
    result = succeed("predict model.suquan table.csv")
    assert result.stdout.splitlines()[0] == "sample,score,probability,predicted"
    assert len(result.stdout.splitlines()) == 61
    assert "60 samples scored" in result.stderr
    assert succeed("predict model.suquan table.csv -q").stderr == ""


def test_predict_drops_extra_features_and_tells_what_missing_ones_cost(data, tmp_path):
    loaded = suquan.load_model("model.suquan")
    weights = np.abs(loaded.coef_[0])
    share = weights / weights.sum()
    frame = pd.read_csv("table.csv").assign(extra=1e6)
    light, heavy = (f"GENE{j}" for j in (share.argmin(), share.argmax()))
    frame.drop(columns=light).to_csv(tmp_path / "light.csv", index=False)
    result = succeed("predict model.suquan", tmp_path / "light.csv", "-o", tmp_path / "s.csv")
    assert f"1 of the model's 12 features are missing, first '{light}'" in result.stderr
    assert f"{share.min():.1%} of its weight" in result.stderr
    assert "11 of the model's 12 features; 1 other dropped" in result.stdout
    spread = weights.min() * np.sqrt(loaded.feature_variances_[weights.argmin()])
    assert_allclose(told("predict model.suquan", tmp_path / "light.csv")["lost_spread"], spread)
    assert f"deviation of {spread:.3g} (if genes were independent; usually" in result.stderr
    frame.drop(columns=[light, heavy]).to_csv(tmp_path / "heavy.csv", index=False)
    line = f"predict model.suquan {tmp_path}/heavy.csv --max-lost"
    message = fail(line, share.max())
    assert "2 of the model's 12" in message
    assert f"at most {share.max():.1%} may be" in message
    assert "or a larger --max-lost if" in message
    succeed(line, 1)


def test_predict_tells_what_the_missing_features_are_worth_to_training_samples(data, tmp_path):
    frame, path = pd.read_csv("table.csv"), tmp_path / "one.csv"
    lost = ["GENE1", "GENE5", "GENE6", "GENE9"]  # a third
    frame.drop(columns=lost).iloc[:1].to_csv(path, index=False)
    one = f"predict model.suquan {path} --training"
    loaded = suquan.load_model("model.suquan")
    known = pd.read_csv("labels.csv", index_col=0).loc[frame["sample"], "relapse"]
    use = known.notna().to_numpy()
    with pytest.warns(UserWarning, match="4 of the model's 12"):
        shift = suquan.align_features(
            loaded,
            frame.iloc[:, 1:].drop(columns=lost),
            max_lost=1.0,
            training=(frame.iloc[use, 1:], known[use]),
        ).training
    said = succeed(f"{one} table.csv --labels labels.csv").stderr
    assert said.count(str(shift)) == said.count("correlate") == 1
    assert f"deviation of {shift.spread:.3g} (over the training samples)" in said
    found = told(f"{one} turned.tsv --labels labels.csv")["training"]
    assert_allclose(found["score_without"], shift.score_without)
    succeed(f"{one} own.csv")  # the label is its own column
    message = fail(f"{one} table.csv --labels labels.csv --max-lost 0.01")
    assert "4 of the model's 12 features" in message
    frame.drop(columns="GENE1").to_csv(tmp_path / "lacks.csv", index=False)
    message = fail(f"{one} {tmp_path}/lacks.csv --labels labels.csv")
    assert "lacks.csv: 1 of the model's 12 features" in message
    assert "relapse" in fail(f"{one} table.csv")
    suquan.save_model(loaded, tmp_path / "m.suquan")  # it does not tell where labels are
    found = told(f"predict {tmp_path}/m.suquan {path} --training table.csv")["training"]
    assert found["scoring"] is None
    assert 0 < found["correlation"] < 1


def test_predict_refuses_what_it_cannot_use(data, tmp_path):
    normalizer = suquan.QuantileNormalizer("normal").fit(np.eye(12))
    suquan.save_model(normalizer, tmp_path / "n.suquan")
    assert "does not predict" in fail(f"predict {tmp_path}/n.suquan table.csv")
    assert "not a suquan model" in fail("predict table.csv table.csv")
    assert "No such file" in fail("predict absent.suquan table.csv")
    assert "no such file" in fail("predict model.suquan absent.csv")
    assert ".csv or .tsv" in fail("predict model.suquan table.csv -o s.xlsx")
    message = fail("predict model.suquan table.csv --time years --event event")
    assert "--time and --event are for Cox's models" in message


def test_the_positive_value_is_the_second_class_whatever_its_name(data, tmp_path):
    """With --positive no, a high score speaks for "no", which comes first in the alphabet."""
    path = tmp_path / "m.suquan"
    result = succeed(f"{FIT} --label relapse --positive no -o", path)
    assert "a high score speaks for no" in result.stdout
    for row in told("predict", path, "table.csv")["scores"]:
        assert row["predicted"] == ("no" if row["score"] > 0 else "yes")
    fail(f"{FIT} --label relapse --positive maybe -o", path)


def test_labels_may_be_a_column_of_the_table_and_samples_columns(data, tmp_path):
    path = tmp_path / "m.suquan"
    succeed(f"fit own.csv --label relapse {QUICK} -o", path)
    assert "age" in suquan.load_model(path).feature_names_in_
    succeed(f"fit own.csv --label relapse {QUICK} --ignore age -o", path)
    assert suquan.load_model(path).n_features_in_ == 12
    line = FIT.replace("table.csv", "turned.tsv")
    result = succeed(f"{line} --label relapse -o", path)
    assert "60 samples in columns (chosen by the names of the samples;" in result.stdout
    assert "59 of 60 samples have a label in 'relapse'" in result.stdout
    assert_array_equal(suquan.load_model(path).coef_, suquan.load_model("model.suquan").coef_)


def test_an_array_is_a_table_whose_names_are_made_up(data, tmp_path):
    """The same scores as of the same table with names."""
    np.save(tmp_path / "table.npy", read_table(data / "table.csv").values)
    labels = pd.read_csv(data / "labels.csv")
    labels["sample"] = [f"sample_{i}" for i in range(60, 0, -1)]  # as the rows are
    labels.to_csv(tmp_path / "labels.csv", index=False)
    array, given = tmp_path / "table.npy", f"--labels {tmp_path}/labels.csv --label grade {QUICK}"
    out = succeed(f"fit {array} {given} -o {tmp_path}/a.suquan").output
    assert "60 samples in rows (as in every npy file), 12 features" in out
    succeed(f"fit table.csv --labels labels.csv --label grade {QUICK} -o {tmp_path}/t.suquan")
    by_array = told(f"predict {tmp_path}/a.suquan {array}")["scores"]
    by_table = told(f"predict {tmp_path}/t.suquan table.csv")["scores"]
    assert [s["score"] for s in by_array] == [s["score"] for s in by_table]
    assert by_array[2]["sample"] == "sample_3"
    succeed(f"compare {array} {given} --inner-cv 2x1 -o {tmp_path}/out --methods median")
    for name in ("out.npy", "out.csv"):
        succeed(f"normalize {array} -o {tmp_path / name} --target uniform")
        found = read_table(tmp_path / name)
        assert found.sample_names[2] == "sample_3"
        assert_array_equal(found.values, suquan.quantile_normalize(np.load(array), "uniform"))


def test_survival_times_become_the_papers_label(data, tmp_path):
    line = f"{FIT} --time years --event event -o {tmp_path}/m.suquan --horizon"
    result = succeed(line, 5, "--json")
    found = json.loads(result.stdout)
    assert (found["n_censored"], found["n_samples"]) == (1, 59)
    assert found["class_names"] == ["no event", "event"]
    assert "1 censored earlier" in result.stderr
    assert "at the horizon 0.5 there are 0 samples with an event" in fail(line, 0.5)


def test_several_classes_and_measurements(data, tmp_path):
    path, scores = tmp_path / "m.suquan", tmp_path / "s.tsv"
    succeed(f"{FIT} --label stage -o", path)
    succeed(f"predict {path} table.csv -o", scores)
    rows = read_csv(scores, "\t")
    assert list(rows[0])[1:4] == ["score I", "score II", "score III"]
    assert_allclose(sum(float(rows[0][f"probability {c}"]) for c in ("I", "II", "III")), 1.0)
    frame = pd.read_csv("table.csv", index_col=0)
    assert_array_equal([row["predicted"] for row in rows], suquan.load_model(path).predict(frame))
    assert "--task regression" in fail(f"{FIT} --label marker -o", path)
    succeed(f"{FIT} --label marker --task regression -o", path)
    succeed(f"predict {path} table.csv -o", scores)
    values = [float(row["prediction"]) for row in read_csv(scores, "\t")]
    truth = {row["sample"]: float(row["marker"]) for row in read_csv("labels.csv")}
    assert np.corrcoef(values, [truth[f"patient {i}"] for i in range(60)])[0, 1] > 0.8
    succeed(f"{FIT} --label grade -o", path)
    assert suquan.load_model(path).classes_.tolist() == [0, 1]  # whole numbers are classes


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ("--label absent", "no label column 'absent'"),
        ("--label constant", "two classes are needed"),
        ("--label sample", "sample"),
        ("--label relapse --method magic", "unknown method 'magic'"),
        ("--label stage --method svd", "svd"),
        ("--label relapse --cv 50x1", "fewer than the 50 folds"),
        ("--label marker --task regression --cv 50x1", "60 samples are too few for 50 folds"),
        ("--label relapse --groups stage --cv 5x1", "3 groups are too few for 5 folds"),
        ("--label grade --groups relapse", "have no group in 'relapse', first 'patient 0'"),
        ("--label relapse --sample-column id", "no column 'id'"),
        ("--label relapse -o nowhere/m.suquan", "no folder"),
        ("--label relapse --n-targets 3", "--n-targets is for the method multi"),
        ("--label relapse --method multi --n-targets 99", "--n-knots − 1 = 11"),
    ],
)
def test_fit_explains_mistakes(data, tmp_path, change, match):
    out = tmp_path / "m.suquan"
    assert match in fail("fit table.csv --labels labels.csv -o", out, *shlex.split(change))
    assert not list(tmp_path.iterdir())


def test_a_sample_with_one_value_throughout_gets_an_empty_score(data, tmp_path):
    frame = pd.read_csv("table.csv", index_col=0)[:3]
    frame.iloc[1] = 2.0
    frame.to_csv(tmp_path / "new.csv")
    told = succeed(f"predict model.suquan {tmp_path}/new.csv -o {tmp_path}/s.csv").stderr
    scores = pd.read_csv(tmp_path / "s.csv")["score"]
    assert scores.isna().tolist() == [False, True, False]
    assert frame.index[1] in told


def test_values_that_are_no_second_class_are_not_controls(data, tmp_path):
    """Spellings of a value are one, marks of missing labels are left out, further values are asked for."""
    labels = pd.read_csv("labels.csv", index_col=0)
    model, path = tmp_path / "m.suquan", tmp_path / "l.csv"
    start = f"fit table.csv {QUICK} --method fixed -o {model} --labels {path} --label 'RELAPSE '"
    relapse = labels["relapse"].copy()
    labels.assign(relapse=relapse.where(~labels.index.isin(labels.index[5:9]))).to_csv(path)
    succeed(f"{start} --positive yes")
    coef = suquan.load_model(model).coef_
    messy = relapse.str.capitalize()
    messy.iloc[5:9] = ["N/A", "unknown", "-", " n/a "]
    messy.iloc[10:20] = messy.iloc[10:20].str.upper() + " "
    labels.assign(relapse=messy).to_csv(path)
    said = succeed(f"{start} --positive YES").stdout
    assert "55 of 60 samples have a label in 'RELAPSE '; 5 with a missing label (' n/a '" in said
    assert "'NO ' counted as 'No'" in said
    assert "a high score speaks for Yes" in said
    assert_array_equal(suquan.load_model(model).coef_, coef)
    messy.iloc[5:9] = ["lost", "lost", "moved", "moved"]
    labels.assign(relapse=messy).to_csv(path)
    message = fail(f"{start} --positive Yes")
    counts = messy.str.strip().str.lower().value_counts()
    assert "column 'RELAPSE ' holds 4 values: " in message
    for value in ("Yes", "No", "lost", "moved"):
        assert f"'{value}' ({counts[value.lower()]})" in message
    assert "give --negative VALUE for each that stands against 'Yes', or --negative-rest" in message
    for more in ("--negative no", "--na lost --na MOVED"):
        succeed(f"{start} --positive Yes {more}")
        assert_array_equal(suquan.load_model(model).coef_, coef)
    said = succeed(f"{start} --positive Yes --negative-rest").stdout
    assert f"classes not Yes: {counts['no'] + 4}, Yes: " in said
    stage = "stage " + labels["stage"]  # several classes follow the same rules
    stage.iloc[:20] = stage.iloc[:20].str.upper()
    stage.iloc[20:23] = ["Unknown", "not available", "?"]
    labels.assign(relapse=stage).to_csv(path)
    found = told(start)
    assert found["class_names"] == ["stage I", "stage II", "stage III"]
    assert found["n_samples"] == 57


def test_a_model_with_other_classes_finds_its_training_labels_again(data, tmp_path):
    frame, model = pd.read_csv("table.csv"), tmp_path / "m.suquan"
    frame.drop(columns="GENE1").iloc[:1].to_csv(tmp_path / "one.csv", index=False)
    rest = f"{tmp_path}/one.csv --max-lost 1 --training table.csv --labels labels.csv"
    for rule in ("--negative-rest", "--negative i"):
        succeed(f"{FIT} --label stage --positive II {rule} --method fixed -o", model)
        assert told(f"predict {model} {rest}")["training"]["scoring"] == "roc_auc"
    # A file of an older version does not tell what becomes of other values: they are negative.
    known = {"label": "stage", "positive": "II", "task": "classification"}
    suquan.save_model(read_model(model).estimator, model, summary={"label_options": known})
    assert told(f"predict {model} {rest}")["training"]["scoring"] == "roc_auc"


def test_names_that_do_not_match_are_shown_with_a_hint(data, tmp_path):
    labels, path = pd.read_csv("labels.csv"), tmp_path / "l.csv"
    start = f"fit table.csv --labels {path} {QUICK} --method fixed -o {tmp_path}/m.suquan --label"
    others = labels["sample"].str.replace(" ", ".").str.upper()
    labels.assign(sample=others).to_csv(path, index=False)
    message = fail(f"{start} relapse")
    for said in (
        "none of the 60 wanted samples ('PATIENT.0', 'PATIENT.1', 'PATIENT.10' and 57",
        "a row ('patient 0', 'patient 1', 'patient 2' and 57 more) or a column ('GENE0',",
        "but for case, blanks, dots and dashes: 60, such as 'PATIENT.0' and 'patient 0'",
    ):
        assert said in message
    message = fail(f"{start} relapse --samples rows")
    assert "0 of the table's 60 samples have a row" in message
    assert "use the same sample names" in message
    labels.iloc[:29].to_csv(path, index=False)
    message = fail(f"{start} relapse")
    assert "29 of the table's 60 samples have a row; without one are 'patient " in message
    assert "give --allow-unmatched to use these samples alone" in message
    found = told(f"{start} relapse --allow-unmatched")
    assert found["n_samples"] == labels.iloc[:29]["relapse"].notna().sum()
    assert "29 of the table's 60" in fail(f"{start} marker --task regression")


def test_messages_name_options_and_not_parameters(data, tmp_path):
    frame, path = pd.read_csv("table.csv", index_col=0), tmp_path / "t.csv"
    frame.assign(late=[1.0] * 59 + ["x"], missing="a=b").to_csv(path)
    message = fail(f"normalize {path} -o {tmp_path}/o.csv")
    assert "a column that is no feature goes into --label or --ignore" in message
    gap = frame.copy()
    gap.iloc[4, 7] = np.nan
    gap.to_csv(path)
    message = fail(f"predict model.suquan {path}")
    assert "feature 7 ('GENE7')" in message
    assert "use --missing ignore where" in message
    message = fail(f"predict model.suquan {path} --ignore none")
    assert "--ignore names 'none', which is none of its columns" in message
    frame.columns = [f"HS_{name}" for name in frame.columns]
    frame.to_csv(path, index_label="id")
    message = fail(f"predict model.suquan {path}")
    assert "none of the model's 12 features is in the table; the model has 'GENE" in message
    assert "'HS_GENE0'" in message
    assert "'patient 0' in its rows" in message
    options = Compare(**{"table": Path("n_knots"), "out": Path("o"), "label": "y"})
    for said, expected in {
        "n_knots=3, n_targets='x' and missing = 3": "--n-knots 3, --n-targets x and missing = 3",
        "the label 'n_knots' in n_knots.csv": "the label 'n_knots' in n_knots.csv",
        "negative_rest=True; label_columns": "--negative-rest; --label",
    }.items():
        assert options.in_own_words(said) == expected


def test_missing_values_are_refused_or_ignored(data, tmp_path):
    frame, gap, path = pd.read_csv("table.csv"), tmp_path / "gap.csv", tmp_path / "m.suquan"
    frame.loc[4, "GENE7"] = np.nan
    frame.to_csv(gap, index=False)
    line = FIT.replace("table.csv", str(gap)) + f" --label relapse -o {path}"
    message = fail(line)
    assert "'patient 4', feature 'GENE7'; fill them in, or give --missing ignore" in message
    succeed(f"{line} --missing ignore")
    succeed(f"predict {path} {gap}")
    assert "GENE7" in fail(f"predict model.suquan {gap}")
    succeed(f"predict model.suquan {gap} --missing ignore")


def test_samples_unlike_the_training_samples_are_named_or_refused(data, tmp_path):
    frame, path = pd.read_csv("table.csv"), tmp_path / "t.csv"
    frame.loc[3, "GENE0":] = 1.0
    frame.to_csv(path, index=False)
    result = succeed(f"predict model.suquan {path} -o {tmp_path}/s.csv")
    assert (
        "1 of the samples look unlike the training samples: 'patient 3' (one value" in result.stderr
    )
    assert list(read_csv(tmp_path / "s.csv")[3].values()) == ["patient 3", "", "", ""]
    found = told(f"predict model.suquan {path}")
    assert [row["sample"] for row in found["unlike_training"]] == ["patient 3"]
    assert found["scores"][3]["score"] is None
    message = fail(f"predict model.suquan {path} --strict -q")
    assert "measured and processed, or leave --strict out" in message


# ----------------------------------------------------------------------------------- inspect and output


def test_inspect_shows_what_the_model_holds(data):
    shown = succeed("inspect model.suquan --top 3").stdout
    for piece in ("SuquanClassifierCV", "crossfit", "classes no", "roc_auc", "GENE", "nearest to"):
        assert piece in shown
    found = told("inspect model.suquan")
    assert found["estimator"] == "SuquanClassifierCV"
    assert found["summary"]["label"] == "relapse"
    assert found["summary"]["n_samples"] == 59
    assert len(found["top_features"]) == 12
    assert found["notes"] == []


def test_inspect_reads_every_kind_of_model():
    stored = Path(__file__).parent / "data" / "models" / "schema2"
    for path in sorted(stored.glob("*.suquan")):
        assert suquan.load_model(path).__class__.__name__ in succeed("inspect", path).stdout
        told("inspect", path)


def test_scaled_features_from_fit_to_report(data, tmp_path):
    path, out = tmp_path / "m.suquan", tmp_path / "out"
    succeed(f"{FIT} --label relapse --feature-scaling std -o", path)
    assert suquan.load_model(path).best_estimator_.feature_scaling == "std"
    assert "feature scaling" in succeed("inspect", path).stdout
    methods = "--label relapse --methods uniform,bnd --feature-scaling std"
    succeed(f"{COMPARE} {methods} --out", out)
    assert suquan.load_model(out / "model.suquan").feature_scaling == "std"
    assert "--feature-scaling std" in (out / "report.html").read_text("utf-8")


def test_several_targets_from_fit_to_score(data, tmp_path):
    path = tmp_path / "m.suquan"
    found = told(f"{FIT} --label relapse --method multi --n-targets 2 -o", path)
    model, frame = suquan.load_model(path), pd.read_csv("table.csv", index_col=0)
    assert found["n_targets"] == model.n_targets_ == 2
    assert found["n_features_used"] == 12
    given = [row["score"] for row in told("predict", path, "table.csv")["scores"]]
    assert_allclose(given, model.decision_function(frame))
    assert "share of the norm" in succeed("inspect", path).stdout
    found = told("inspect", path)
    assert [row["singular_value"] for row in found["targets"]] == model.singular_values_.tolist()
    assert_allclose(sum(row["share"] for row in found["targets"]), 1.0)
    weights = np.abs(model.coef_).reshape(-1, 12).sum(axis=0)
    assert_allclose(found["top_features"][0]["weights"], [weights.max()])
    message = fail(f"normalize table.csv --target {path} -o {tmp_path}/n.csv")
    assert "has 2 targets" in message


def test_quiet_says_nothing_and_json_only_one_object(data, tmp_path):
    for line in (
        "inspect model.suquan",
        f"predict model.suquan table.csv -o {tmp_path}/o.csv",
        f"normalize table.csv -o {tmp_path}/o.csv",
    ):
        assert succeed(f"{line} --quiet").output == ""
        found = told(line)
        assert found["command"] == line.split()[0]
        assert found["warnings"] == []
        quiet = succeed(f"{line} --json --quiet")
        assert quiet.stderr == ""
        assert json.loads(quiet.stdout) == found


def test_names_cannot_steer_the_terminal(data, tmp_path):
    """Markup and control sequences come out as they are, or as codes."""
    frame, labels = pd.read_csv("table.csv"), pd.read_csv("labels.csv")
    frame = frame.rename(columns={"GENE0": "[red]GENE0[/red]", "GENE1": "[/]", "GENE2": ":smile:"})
    for table in (frame, labels):
        table["sample"] = table["sample"].str.replace("patient", "[bold]<script>")
    labels["relapse"] = labels["relapse"].map({"yes": "[blink]yes[/blink]", "no": "[/no]"})
    frame.to_csv(tmp_path / "t.csv", index=False)
    labels.to_csv(tmp_path / "l.csv", index=False)
    line = f"fit {tmp_path}/t.csv --labels {tmp_path}/l.csv --label relapse {QUICK}"
    assert "classes [/no]: " in succeed(f"{line} -o {tmp_path}/m.suquan").stdout
    shown = succeed("inspect", tmp_path / "m.suquan").stdout
    for name in ("[red]GENE0[/red]", "[/] ", ":smile:"):
        assert name in shown
    message = fail("inspect", tmp_path / "\x1b[31mred\nb\u202e\x1b[0m.suquan")
    assert "\\x1b[31mred b\\x202e\\x1b" in message
    assert "\x1b" not in message


@pytest.mark.parametrize("kind", [TypeError, KeyError])
def test_a_bug_is_not_mistaken_for_a_users_mistake(data, monkeypatch, kind):
    def broken(*arguments):
        raise kind("wrong")

    monkeypatch.setattr(_inspect, "read_model", broken)
    result = run("inspect model.suquan")
    assert result.exit_code == 70
    (line,) = result.stderr.splitlines()
    assert line.startswith(f"suquan inspect: this is a bug in suquan ({kind.__name__}: ")
    assert "SUQUAN_DEBUG=1" in line
    monkeypatch.setenv("SUQUAN_DEBUG", "1")
    assert isinstance(run("inspect model.suquan").exception, kind)


# -------------------------------------------------------------------------------------------- compare


def test_compare_writes_tables_figures_model_and_report(data, tmp_path):
    out = tmp_path / "out"
    line = f"{COMPARE} --label relapse --methods normal,uniform,crossfit --out {out}"
    found = told(line)
    tables = {"folds", "summary", "tests", "contrasts", "reliability"}
    others = {"checkpoint", "figures", "model.suquan", "report.html"}
    assert {path.name for path in out.iterdir()} == others | {f"{name}.csv" for name in tables}
    assert {path.name for path in (out / "figures").iterdir()} >= {"methods.svg", "target.png"}
    methods = ["normal", "uniform", "crossfit", "start", "best_fixed"]
    assert [row["method"] for row in read_csv(out / "summary.csv")] == methods
    assert found["contrasts"]["other"] == ["start", "best_fixed"]
    assert len(read_csv(out / "folds.csv")) == 10
    page = (out / "report.html").read_text()
    assert found["verdict"].partition(":")[0] in page
    assert "suquan compare" in page
    # Classes carry the names of the label file, not the numbers that stand for them.
    low, high = found["data"]["class_names"]
    assert f"speak for class {high}, negative ones for {low}" in page
    assert f"a sample of class {high} gets a higher score than one of class {low}:" in page
    assert suquan.load_model(out / "model.suquan").n_features_in_ == 12
    before = (out / "folds.csv").read_text()
    assert found["verdict"] in succeed(line).stdout  # from the checkpoint
    assert (out / "folds.csv").read_text() == before
    assert "belongs to other data or settings" in fail(f"{line} --seed 1 -q")


def test_the_report_calls_classes_by_the_names_of_the_user(data, tmp_path):
    labels = "--labels labels.csv --label relapse --positive yes"
    succeed(f"{COMPARE} {labels} --out {tmp_path}/out")
    page = (tmp_path / "out" / "report.html").read_text()
    assert "speak for class yes, negative ones for no" in page
    assert "class 1" not in page


@pytest.mark.parametrize(
    ("labels", "scoring"),
    [("--label marker --task regression", "r2"), ("--label stage", "roc_auc_ovr")],
)
def test_compare_does_regression_and_several_classes(data, tmp_path, labels, scoring):
    line = f"{COMPARE} {labels} --methods normal,crossfit --out {tmp_path}/out -q"
    assert told(line)["scoring"] == scoring


def test_compare_takes_the_default_methods_and_forests_by_name(data, tmp_path):
    line = f"{COMPARE} --label relapse --out {tmp_path}"
    printed = succeed(f"{line}/all").stdout
    named = {row["method"] for row in read_csv(tmp_path / "all" / "summary.csv")}
    assert named == {*DEFAULT_METHODS, "start", "best_fixed"}
    assert "comparing 8 methods on 2x1 outer folds: 16 parts" in printed
    succeed(f"{line}/few --methods forest,forest_raw")
    named = {row["method"] for row in read_csv(tmp_path / "few" / "summary.csv")}
    assert named == {"forest", "forest_raw"}
    assert "extra trees on the values" in (tmp_path / "few" / "report.html").read_text()


def test_compare_without_crossfit_keeps_the_best_learned_model(data, tmp_path):
    out = tmp_path / "out"
    line = f"{COMPARE} --label relapse --n-targets 2 --out {out} --methods"
    succeed(line, "uniform,multi,matrix")
    rows = {row["method"]: float(row["mean"]) for row in read_csv(out / "summary.csv")}
    best = max(("multi", "matrix"), key=rows.__getitem__)
    assert suquan.load_model(out / "model.suquan").method_ == best
    assert "Share of the norm" in (out / "report.html").read_text()
    assert "--n-targets is for the method multi" in fail(line, "bnd,normal")


def test_cohorts_are_left_out_and_shown(data, tmp_path):
    labels = pd.read_csv("labels.csv")
    labels["site"] = np.where(labels.index % 2, "north", "south")
    labels.to_csv(tmp_path / "l.csv", index=False)
    more = f"--labels {tmp_path}/l.csv --label grade --leave-out site"
    result = succeed(f"fit table.csv {QUICK} {more} --json -o {tmp_path}/m.suquan")
    rows = json.loads(result.stdout)["cohorts"]
    assert [(row["cohort"], row["n_samples"]) for row in rows] == [("north", 30), ("south", 30)]
    assert "2 groups in 'site': north (30), south (30)" in result.stderr
    line = f"compare table.csv {QUICK} --inner-cv 2x1 {more} --methods uniform,crossfit"
    result = succeed(f"{line} --out {tmp_path}/out")
    assert "on 2 cohorts, each left out once: 6 parts" in result.stdout
    assert re.search(r"roc_auc of +north +south", result.stdout)


def test_compare_explains_mistakes(data, tmp_path):
    (tmp_path / "file").write_text("")
    assert "is a file" in fail(f"{COMPARE} --label relapse --out {tmp_path}/file")
    message = fail(f"{COMPARE} --label relapse --methods gauss --out {tmp_path}/o")
    assert "unknown method 'gauss'; known are raw, median" in message
    fail(f"{COMPARE} --label absent --out {tmp_path}/o")
    assert not (tmp_path / "o").exists()


# ------------------------------------------------------------------------------------------------- files


@pytest.fixture
def own_files(data, tmp_path, monkeypatch):
    """Copies that a mistake may replace, and a link to one of them."""
    for name in ("table.csv", "labels.csv", "own.csv"):
        shutil.copy(data / name, tmp_path / name)
    shutil.copy(data / "model.suquan", tmp_path / "model.csv")
    (tmp_path / "f.txt").write_text("1\n2\n3\n")
    (tmp_path / "link.csv").symlink_to("table.csv")
    (tmp_path / "out").mkdir()
    shutil.copy(data / "labels.csv", tmp_path / "out" / "summary.csv")
    shutil.copy(data / "table.csv", tmp_path / "out" / "table.csv")
    monkeypatch.chdir(tmp_path)
    return tmp_path


LABELS = "--labels labels.csv --label relapse"


@pytest.mark.parametrize(
    "line",
    [
        "normalize table.csv -o table.csv",
        "normalize table.csv -o ./link.csv",
        "normalize link.csv -o table.csv",
        "normalize table.csv --target f.txt -o f.txt",
        f"fit table.csv {LABELS} -o labels.csv",
        f"fit table.csv {LABELS} -o table.csv",
        "predict model.csv table.csv -o model.csv",
        "predict model.csv table.csv -o table.csv",
        "predict model.csv table.csv --training own.csv -o own.csv",
        "predict model.csv table.csv --training own.csv --labels labels.csv -o labels.csv",
        "compare table.csv --labels out/summary.csv --label relapse --out out",
    ],
)
def test_an_output_that_is_an_input_is_refused_before_any_work(own_files, line):
    before = {path: path.read_bytes() for path in own_files.rglob("*") if path.is_file()}
    output = "out/summary.csv" if line.endswith("out") else Path(line.split()[-1])
    assert f"{output} is an input too; give another name for the results." in fail(line)
    assert {path: path.read_bytes() for path in own_files.rglob("*") if path.is_file()} == before


def test_results_beside_the_inputs_are_no_mistake(own_files):
    line = f"compare out/table.csv {LABELS} {QUICK} --inner-cv 2x1 --methods uniform,crossfit"
    succeed(f"{line} --permutations 1 --out out")
    # What is written into the folder is what an input there may not be.
    names = {path.name for path in (own_files / "out").iterdir() if path.is_file()}
    assert names - {"table.csv"} <= set(Compare.FILES)
    assert set(Compare.FILES) - names <= {"cohorts.csv"}


@pytest.mark.skipif(os.name != "posix", reason="devices and pipes of POSIX")
def test_devices_and_pipes_are_refused_before_any_work(own_files):
    os.mkfifo("pipe.csv")
    for line in (
        f"fit table.csv {LABELS} -o pipe.csv",
        "predict model.csv pipe.csv",
        "fit table.csv --labels pipe.csv --label y -o m",
    ):
        assert "pipe.csv is a device or a pipe; give the name of a file" in fail(line)


def test_a_full_disk_is_told_with_the_name_of_the_users_file(data, tmp_path, monkeypatch):
    def full(*arguments):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(zipfile.ZipFile, "writestr", full)
    path = tmp_path / "m.suquan"
    result = run(f"{FIT} --label relapse --method fixed -o {path}")
    assert result.exit_code == 1
    cause = f"{path}: No space left on device; free some."
    assert result.stderr.splitlines()[-1] == f"suquan fit: {cause}"
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
def test_work_is_done_where_nobody_listens(data, tmp_path, monkeypatch, capsys, name, kind):
    """What is told to people is lost; results that cannot be written are an error, never a bug."""

    def run_there(line):
        with monkeypatch.context() as patch:
            number = kind and kind()
            patch.setattr(sys, name, kind and os.fdopen(number, "w", closefd=False))
            code = main(line.split())
            if number is None:
                getattr(sys, name).close()  # nowhere
            else:
                os.close(number)
        return code

    path = tmp_path / "scores.csv"
    assert run_there(f"normalize table.csv -o {path}") == 0
    assert run_there(f"predict model.suquan table.csv -o {path}") == 0
    assert len(read_csv(path)) == 60
    capsys.readouterr()
    for more in ("", "--json"):
        code = run_there(f"predict model.suquan table.csv {more}")
        assert code == (1 if name == "stdout" else 0)
        lines = capsys.readouterr()
        assert bool(lines.out) == (name == "stderr")
        assert "Traceback" not in lines.err
        assert "bug" not in lines.err


def test_a_real_process_ends_with_the_right_code_and_one_line(data, tmp_path):
    wrong = script("predict model.suquan absent.csv")
    assert (wrong.returncode, wrong.stdout) == (1, "")
    assert len(wrong.stderr.splitlines()) == 1
    start = f"{sys.executable} -m suquan predict model.suquan table.csv"
    closed = subprocess.run(f"{start} -o {tmp_path}/s.csv >&- 2>&-", shell=True, timeout=300)
    assert closed.returncode == 0
    assert len(read_csv(tmp_path / "s.csv")) == 60
    cut = subprocess.run(f"{start} | head -n 1", shell=True, capture_output=True, text=True)
    assert cut.stdout == "sample,score,probability,predicted\n"
    assert "Traceback" not in cut.stderr


@pytest.mark.skipif(os.name != "posix", reason="terminals of POSIX")
def test_scores_have_four_digits_on_a_terminal_and_all_in_a_pipe(data):
    pty = pytest.importorskip("pty")
    there, here = pty.openpty()
    command = [sys.executable, "-m", "suquan", "predict", "model.suquan", "table.csv", "-q"]
    subprocess.run(command, stdout=here, check=True, timeout=300)
    shown = os.read(there, 10_000).decode().splitlines()
    whole = script("predict model.suquan table.csv -q").stdout.splitlines()
    for short, full in zip(shown[1:5], whole[1:5], strict=True):
        name, score, chance, predicted = full.split(",")
        assert short == f"{name},{float(score):.4g},{float(chance):.4g},{predicted}"
    for end in (there, here):
        os.close(end)


ENDS = [
    (signal.SIGINT, 130, "interrupted"),
    (signal.SIGTERM, 143, "ended by SIGTERM"),
    (signal.SIGHUP, 129, "ended by SIGHUP"),
]


@pytest.mark.parametrize(("number", "code", "reason"), ENDS)
def test_a_comparison_that_is_ended_tells_how_and_goes_on_where_it_was(
    data, tmp_path, monkeypatch, number, code, reason
):
    out = tmp_path / "out"
    line = f"{COMPARE} --label relapse --methods normal,uniform --out {out}"
    with monkeypatch.context() as patch:
        patch.setattr(Progress, "advance", lambda *told: signal.raise_signal(number))
        result = run(line)
    assert result.exit_code == code
    assert result.stderr.splitlines()[-1] == f"suquan compare: {reason}"
    assert signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler)  # as before
    assert "1 of 4 parts are kept; the same command goes on there" in result.stdout
    assert not (out / "report.html").exists()
    assert not list(out.rglob(".writing-*"))
    assert "continuing: 1 of 4 parts were done already" in succeed(line).stderr
    assert len(read_csv(out / "folds.csv")) == 6  # with the best fixed target


def test_signals_that_are_ignored_stay_so(data, monkeypatch):
    """As SIGHUP under nohup."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    monkeypatch.setattr(_inspect, "run", lambda *given: signal.raise_signal(signal.SIGHUP))
    try:
        succeed("inspect model.suquan")
    finally:
        signal.signal(signal.SIGHUP, before)


def wait_for(process, is_there):
    """Wait until a process that runs has done something."""
    end = time.monotonic() + 240
    while not is_there():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end
        time.sleep(0.01)


def start(line):
    return subprocess.Popen(
        [sys.executable, "-m", "suquan", *shlex.split(line)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
@pytest.mark.parametrize(("number", "code", "reason"), ENDS)
def test_a_signal_ends_a_comparison_and_its_processes(tmp_path, number, code, reason):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(150, 80))
    names = np.array([f"s{i}" for i in range(150)])
    labels = {"y": np.where(X[:, 0] + rng.normal(size=150) > 0, "a", "b")}
    genes = np.array([f"g{j}" for j in range(80)])
    write_table(Table(X, names, genes, labels), tmp_path / "t.csv")
    line = f"compare {tmp_path}/t.csv --label y --methods normal,uniform,crossfit --cv 3x2 "
    line += "--inner-cv 3x1 --alphas 3 --smoothnesses 2 --n-jobs 2 --out"
    out = tmp_path / "out"
    process = start(f"{line} {out}")
    wait_for(process, lambda: len(list(out.glob("checkpoint/*.npz"))) >= 3)
    if number == signal.SIGINT:
        os.killpg(process.pid, number)  # as a terminal does, to the workers too
    else:
        process.send_signal(number)  # as a batch system does
    stdout, stderr = process.communicate(timeout=120)  # until no process holds the pipes
    assert process.returncode == code, (stdout, stderr)
    assert stderr.splitlines()[-1] == f"suquan compare: {reason}"
    assert "Traceback" not in stderr
    kept = len(list(out.glob("checkpoint/*.npz")))
    assert f"{kept} of 24 parts are kept" in stdout
    assert not (out / "report.html").exists()
    assert not list(out.rglob(".writing-*"))
    assert f"continuing: {kept} of 24 parts were done already" in succeed(f"{line} {out}").stderr
    succeed(f"{line} {tmp_path}/whole -q")
    scores = [
        [(row["method"], row["score"]) for row in read_csv(tmp_path / name / "folds.csv")]
        for name in ("out", "whole")
    ]
    assert scores[0] == scores[1]


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
@pytest.mark.parametrize(("number", "code", "reason"), ENDS[:2])
def test_a_normalisation_that_is_ended_leaves_no_file(tmp_path, number, code, reason):
    rng = np.random.default_rng(0)
    names = [np.array([f"{c}{k}" for k in range(n)]) for c, n in (("s", 3000), ("g", 40))]
    write_table(Table(rng.normal(size=(3000, 40)), *names), tmp_path / "t.csv")
    process = start(f"normalize {tmp_path}/t.csv -o {tmp_path}/out.csv --block-samples 2")
    wait_for(process, lambda: len(list(tmp_path.iterdir())) >= 2)  # the hidden file
    process.send_signal(number)
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == code
    assert stderr == f"suquan normalize: {reason}\n"
    assert [path.name for path in tmp_path.iterdir()] == ["t.csv"]


def check_demo(folder, stdout):
    last = stdout.splitlines()[-1]
    assert re.fullmatch(r"report: .*demo.report\.html", last)
    assert Path(last.removeprefix("report: ")).is_file()
    (row,) = read_csv(folder / "scores.csv")
    assert row["sample"] == "new patient"


def test_the_demo_does_the_whole_job(tmp_path, monkeypatch):
    monkeypatch.setattr(_demo, "N_PATIENTS", 60)
    monkeypatch.setattr(_demo, "N_GENES", 20)
    monkeypatch.setattr(_demo, "METHODS", "normal,crossfit")
    folder = tmp_path / "a demo"
    shown = succeed("demo --seed 1 --out", folder).stdout
    check_demo(folder, shown)
    # The commands that it shows are those that it runs.
    commands = [line[9:] for line in shown.splitlines() if line.startswith("$ suquan ")]
    assert [command.split()[0] for command in commands] == ["compare", "fit", "predict"]
    scores = (folder / "scores.csv").read_text()
    for name in ("relapse.suquan", "scores.csv"):
        (folder / name).unlink()
    for command in commands[1:]:
        succeed(command)
    assert (folder / "scores.csv").read_text() == scores
    assert told("demo --seed 1 --out", folder)["report"].endswith("report.html")
    assert succeed("demo --seed 1 --quiet --out", folder).output == ""
    assert "other data or settings" in run("demo --seed 2 --out", folder).stderr


@pytest.mark.slow
def test_the_demo_shows_that_learning_helps(tmp_path):
    done = script("demo --n-jobs 2 --out", tmp_path / "demo")
    assert done.returncode == 0, done.stderr
    assert "Learning the target helps" in done.stdout
    check_demo(tmp_path / "demo", done.stdout)
