"""The command line on a Dask cluster and on arrays in files: the same files in, the same files out."""

import csv
import json
import os
import re
import signal
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import psutil
import pytest
from distributed import LocalCluster
from numpy.testing import assert_allclose, assert_array_equal
from typer.testing import CliRunner

from suquan import load_model, make_target_quantiles, quantile_normalize
from suquan.cli import _cluster
from suquan.cli._app import app
from suquan.io import (
    BlockTable,
    Table,
    open_block_table,
    open_blocks,
    read_table,
    write_blocks,
    write_table,
)

QUICK = ["--cv", "2x1", "--alphas", "2", "--smoothnesses", "2", "--n-jobs", "1"]
N, P = 60, 12
pytestmark = pytest.mark.filterwarnings("ignore:zarr v3 autosharding")


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def succeed(*arguments):
    result = run(*arguments)
    assert result.exit_code == 0, (result.output, result.exception)
    return result


def fail(*arguments):
    """One line on standard error, no traceback."""
    result = run(*arguments)
    assert result.exit_code == 1, (result.output, result.exception)
    lines = result.stderr.splitlines()
    assert len(lines) == 1, result.stderr
    assert lines[0].startswith(f"suquan {arguments[0]}: ")
    return lines[0]


def read_csv(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def address():
    """A cluster of threads in this process, at a real address."""
    with LocalCluster(
        n_workers=2,
        threads_per_worker=1,
        processes=False,
        protocol="tcp",
        dashboard_address=":0",
        silence_logs=50,
    ) as cluster:
        yield cluster.scheduler_address


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, P))
    u = X @ rng.normal(size=P) + rng.normal(size=N)
    return Table(
        np.round(np.exp(X), 2),
        np.array([f"patient {i}" for i in range(N)]),
        np.array([f"GENE{j}" for j in range(P)]),
        {
            "relapse": np.where(u > 0, "yes", "no"),
            "stage": np.array(["I", "II", "III"])[np.digitize(u, [-1, 1])],
            "marker": u,
        },
    )


@pytest.fixture(scope="module")
def data(tmp_path_factory, table):
    """The same samples in files of all kinds."""
    folder = tmp_path_factory.mktemp("data")
    for kind in ("csv", "parquet", "h5ad"):
        write_table(table, folder / f"x.{kind}")
    np.save(folder / "x.npy", table.values)
    blocks = open_blocks(folder / "x.npy", rows_per_block=13)
    named = BlockTable(blocks, table.sample_names, table.feature_names, table.labels)
    write_blocks(named, folder / "named.zarr")
    names = [f"sample_{i + 1}" for i in range(N)]
    labels = pd.DataFrame({"sample": names, "relapse": table.labels["relapse"]})
    labels.drop(index=[3, 17, 18, 19, 20]).to_csv(folder / "labels.csv", index=False)
    return folder


@pytest.fixture(scope="module")
def model(data):
    succeed("fit", data / "x.h5ad", "--label", "relapse", *QUICK, "-o", data / "model.suquan")
    return data / "model.suquan"


# ------------------------------------------------------------------------------------------------ normalize


@pytest.mark.parametrize("name", ["x.parquet", "x.h5ad"])
@pytest.mark.parametrize("target", ["median", "mean", "normal"])
def test_normalize_writes_the_file_it_writes_without_a_cluster(
    tmp_path, data, address, name, target
):
    options = ["--target", target, "--block-samples", "7", "--label", "marker"]
    told = succeed(
        "normalize", data / name, "-o", tmp_path / name, *options, "--scheduler", address
    )
    assert "60 samples in rows" in told.output
    expected = tmp_path / f"expected_{name}"
    succeed("normalize", data / name, "-o", expected, *options)
    got, expected = read_table(tmp_path / name), read_table(expected)
    assert_allclose(got.values, expected.values, rtol=1e-12)
    assert_array_equal(got.sample_names, expected.sample_names)
    assert_array_equal(got.feature_names, expected.feature_names)
    assert got.labels.keys() == expected.labels.keys()
    assert_array_equal(got.labels["marker"], expected.labels["marker"])


@pytest.mark.parametrize("source", ["x.npy", "named.zarr"])
@pytest.mark.parametrize("name", ["out.zarr", "out.npy", "out.csv"])
def test_arrays_are_normalised_without_a_cluster_too(tmp_path, data, table, source, name):
    succeed("normalize", data / source, "-o", tmp_path / name, "--block-samples", "9")
    expected = quantile_normalize(table.values, "median")
    if name == "out.csv":
        labels = ["marker"] if source == "named.zarr" else []
        got = read_table(tmp_path / name, label_columns=labels)
        assert_array_equal(got.values, expected)
        first = "patient 0" if source == "named.zarr" else "sample_1"
        assert got.sample_names[0] == first
    else:
        assert_array_equal(open_blocks(tmp_path / name).compute(), expected)
    if (source, name) == ("named.zarr", "out.zarr"):
        assert_array_equal(open_block_table(tmp_path / name).labels["stage"], table.labels["stage"])


def test_targets_in_files_and_gaps_are_as_without_a_cluster(tmp_path, table, address):
    values = table.values.copy()
    values[np.random.default_rng(1).uniform(size=values.shape) < 0.1] = np.nan
    np.save(tmp_path / "x.npy", values)
    (tmp_path / "target.txt").write_text("0\n1\n5\n")
    result = succeed(
        *("normalize", tmp_path / "x.npy", "-o", tmp_path / "out.npy", "--json"),
        *("--target", tmp_path / "target.txt", "--missing", "ignore", "--scheduler", address),
    )
    told = json.loads(result.stdout)
    assert told["n_missing"] == np.isnan(values).sum()
    f = make_target_quantiles([0, 1, 5], P)
    expected = quantile_normalize(values, f, missing="ignore")
    assert_array_equal(np.load(tmp_path / "out.npy"), expected)
    message = fail(
        *("normalize", tmp_path / "x.npy", "-o", tmp_path / "no.npy", "--block-samples", "7"),
        *("--scheduler", address),
    )
    row, feature = map(int, re.search(r"at sample (\d+), feature (\d+)", message).groups())
    assert np.isnan(values[row, feature])  # of whichever block came first
    assert not (tmp_path / "no.npy").exists()


def test_other_kinds_are_refused_with_advice(tmp_path, data, address):
    where = ["--scheduler", address]
    message = fail("normalize", data / "x.csv", "-o", tmp_path / "out.csv", *where)
    assert "cannot be opened in blocks" in message
    assert "convert" in message
    for command in (
        ["normalize", data / "x.parquet", "-o", tmp_path / "out.csv"],
        ["fit", data / "x.parquet", "--label", "relapse", "-o", tmp_path / "m.suquan"],
    ):
        assert "samples in rows" in fail(*command, "--samples", "columns", *where)
    assert "no folder" in fail("normalize", data / "x.npy", "-o", tmp_path / "no" / "out.zarr")


# ---------------------------------------------------------------------------------------- fit and predict


@pytest.mark.parametrize(
    "label",
    [["relapse"], ["relapse", "--feature-scaling", "std"], ["marker", "--task", "regression"]],
)
def test_a_fit_on_a_cluster_is_the_fit_in_memory(tmp_path, data, table, address, label):
    method = ["--method", "crossfit" if label == ["relapse"] else "f0"]
    paths = tmp_path / "here.suquan", tmp_path / "there.suquan"
    for path, where in zip(paths, ([], ["--scheduler", address]), strict=True):
        succeed("fit", data / "x.h5ad", "--label", *label, *method, *QUICK, "-o", path, *where)
    here, there = map(load_model, paths)
    assert type(here) is type(there)
    assert (here.alpha_, here.smoothness_) == (there.alpha_, there.smoothness_)
    assert_array_equal(here.feature_names_in_, there.feature_names_in_)
    score = "predict" if label[0] == "marker" else "decision_function"
    X = pd.DataFrame(table.values, columns=table.feature_names)
    expected = getattr(here, score)(X)
    scale = np.abs(expected).max()
    assert_allclose(getattr(there, score)(X) / scale, expected / scale, atol=1e-5)


def test_samples_without_a_label_are_left_out(tmp_path, data, table):
    result = succeed(
        *("fit", data / "x.npy", "--labels", data / "labels.csv", "--label", "relapse"),
        *(*QUICK, "--method", "f0", "-o", tmp_path / "m.suquan", "--json"),
        *("--choose-samples", "40"),
    )
    told = json.loads(result.stdout)
    assert (told["n_samples"], told["n_samples_to_choose"]) == (N - 5, 40)
    model = load_model(tmp_path / "m.suquan")
    used = np.delete(np.arange(N), [3, 17, 18, 19, 20])
    direct = model.best_estimator_.__class__(**model.best_estimator_.get_params())
    direct.fit(table.values[used], table.labels["relapse"][used])
    X = pd.DataFrame(table.values, columns=model.feature_names_in_)
    scores = direct.decision_function(table.values)
    shift = (model.intercept_ - model.best_estimator_.intercept_).item()
    # The f-steps on blocks and in memory end within the same tolerance, not at the same numbers.
    assert_allclose(model.decision_function(X), scores + shift, atol=1e-3 * np.ptp(scores))
    assert shift != 0.0
    assert_array_equal(model.decision_function(X) > 0, model.predict(X) == "yes")


@pytest.mark.parametrize("source", ["x.parquet", "x.h5ad", "named.zarr"])
def test_scores_are_those_of_one_process(tmp_path, data, model, address, source):
    succeed("predict", model, data / "x.h5ad", "-o", tmp_path / "here.csv")
    told = succeed(
        *("predict", model, data / source, "-o", tmp_path / "there.csv"),
        *("--scheduler", address),
    )
    assert "60 samples scored" in told.output
    assert read_csv(tmp_path / "there.csv") == read_csv(tmp_path / "here.csv")


@pytest.mark.parametrize("label", [["stage"], ["marker", "--task", "regression"]])
def test_classes_and_values_are_scored_too(tmp_path, data, address, label):
    arguments = ["fit", data / "x.h5ad", "--label", *label, "--method", "f0", *QUICK]
    succeed(*arguments, "-o", tmp_path / "m.suquan")
    for name, where in (("here.csv", []), ("there.csv", ["--scheduler", address])):
        succeed("predict", tmp_path / "m.suquan", data / "x.h5ad", "-o", tmp_path / name, *where)
    assert read_csv(tmp_path / "there.csv") == read_csv(tmp_path / "here.csv")


def test_missing_features_are_told_once_and_gaps_by_their_row(
    tmp_path, data, table, model, address
):
    fewer = Table(table.values[:, 1:], table.sample_names, table.feature_names[1:])
    write_table(fewer, tmp_path / "x.parquet")
    arguments = ["predict", model, tmp_path / "x.parquet", "--scheduler", address]
    result = succeed(*arguments, "--max-lost", "0.9", "--training", data / "x.h5ad")
    assert result.stderr.count("1 of the model's 12 features are missing") == 1
    assert len(re.findall(r"correlate by 0\.\d+ .* AUC 0\.\d+ → 0\.\d+", result.stderr)) == 1
    assert len(result.stdout.splitlines()) == N + 1
    assert "are missing" in fail(*arguments, "--max-lost", "0")
    gaps = table.values.copy()
    gaps[42, 5] = np.nan
    write_table(Table(gaps, table.sample_names, table.feature_names), tmp_path / "gaps.h5ad")
    message = fail("predict", model, tmp_path / "gaps.h5ad", "-q", "--scheduler", address)
    assert "first at sample 42, feature 5 ('GENE5')" in message


def test_folds_of_a_comparison_run_on_the_cluster(tmp_path, data, address):
    options = [*QUICK, "--inner-cv", "2x1", "--methods", "normal,crossfit", "--ignore", "marker"]
    for folder, where in (("here", []), ("there", ["--scheduler", address])):
        succeed(
            *("compare", data / "x.csv", "--label", "relapse", "--out", tmp_path / folder),
            *(*options, "--ignore", "stage", *where),
        )
    here, there = (read_csv(tmp_path / name / "folds.csv") for name in ("here", "there"))
    assert [row["method"] for row in here] == [row["method"] for row in there]
    assert_allclose(
        [float(row["score"]) for row in there], [float(row["score"]) for row in here], rtol=1e-12
    )
    assert address in (tmp_path / "there" / "report.html").read_text()


# ------------------------------------------------------------------------------------------------- clusters


@pytest.mark.parametrize("where", ["tcp://127.0.0.1:9", "nonsense", "odd://127.0.0.1:9"])
def test_a_bad_address_is_one_line_within_seconds(tmp_path, data, where, monkeypatch):
    monkeypatch.setattr(_cluster, "CONNECT_SECONDS", 1)
    start = time.monotonic()
    message = fail("normalize", data / "x.npy", "-o", tmp_path / "o.npy", "--scheduler", where)
    assert time.monotonic() - start < 10
    assert where in message
    assert "no Dask scheduler answers there" in message


def test_a_cluster_without_workers_is_one_line(tmp_path, data, monkeypatch):
    monkeypatch.setattr(_cluster, "WORKER_SECONDS", 0.5)
    with LocalCluster(
        n_workers=0, processes=False, protocol="tcp", dashboard_address=":0", silence_logs=50
    ) as cluster:
        where = ["--scheduler", cluster.scheduler_address]
        message = fail("normalize", data / "x.npy", "-o", tmp_path / "o.npy", *where)
    assert "no workers" in message


def test_scheduler_and_workers_do_not_go_together(tmp_path, data):
    for command in (
        ["normalize", data / "x.npy", "-o", tmp_path / "o.npy"],
        ["fit", data / "x.h5ad", "--label", "relapse", "-o", tmp_path / "m.suquan"],
        ["predict", "m.suquan", data / "x.npy"],
        ["compare", data / "x.csv", "--label", "relapse", "--out", tmp_path / "out"],
    ):
        result = run(*command, "--workers", "1", "--scheduler", "tcp://127.0.0.1:9")
        assert result.exit_code == 2, result.output


@pytest.mark.parametrize("n_workers", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_local_processes_do_the_work_and_end(tmp_path, data, table, n_workers):
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "suquan", "normalize", data / "x.npy", "-o"),
            *(tmp_path / "out.zarr", "--workers", str(n_workers), "--block-samples", "7"),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    children = wait_for_children(process, n_workers)
    out, err = process.communicate(timeout=240)
    assert (process.returncode, err) == (0, "")
    expected = quantile_normalize(table.values, "median")
    assert_array_equal(open_blocks(tmp_path / "out.zarr").compute(), expected)
    assert_gone(children)


def test_an_interrupt_leaves_no_process_and_no_file(tmp_path):
    values = np.random.default_rng(0).random((30_000, 100), dtype=np.float32)
    np.save(tmp_path / "x.npy", values)
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "suquan", "normalize", tmp_path / "x.npy", "-o"),
            *(tmp_path / "out.zarr", "--workers", "1", "--block-samples", "100"),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    children = wait_for_children(process, 1)
    time.sleep(1.0)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to all of them
    out, err = process.communicate(timeout=240)
    assert (process.returncode, err) == (130, "suquan normalize: interrupted\n")
    assert_gone(children)
    assert [path.name for path in tmp_path.iterdir()] == ["x.npy"]


def wait_for_children(process, n_workers):
    """The workers and what Python starts beside them."""
    deadline = time.monotonic() + 240
    while time.monotonic() < deadline and process.poll() is None:
        children = psutil.Process(process.pid).children(recursive=True)
        if len(children) > n_workers:
            return children
        time.sleep(0.05)
    raise AssertionError(process.communicate())


def assert_gone(children):
    gone, alive = psutil.wait_procs(children, timeout=60)
    assert not alive
