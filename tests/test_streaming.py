"""Normalisation of files in blocks: the same numbers as in memory, within bounded memory."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from io_tables import refused
from numpy.testing import assert_allclose, assert_array_equal

from suquan import quantile_normalize
from suquan.io import Table, TableError, read_table, write_table
from suquan.streaming import normalize_file

TARGETS = ["median", "mean", "normal", "uniform"]


@pytest.fixture
def table():
    rng = np.random.default_rng(0)
    values = np.round(rng.lognormal(size=(37, 23)), 2)  # with ties
    samples, genes = [f"s{i}" for i in range(37)], [f"g{j}" for j in range(23)]
    return Table(values, samples, genes, {"group": ["a", "b"] * 18 + ["a"]})


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("orientation", ["rows", "columns"])
@pytest.mark.parametrize("rows_per_block", [1, 10])
def test_blocks_give_what_the_whole_table_gives(
    tmp_path, table, target, orientation, rows_per_block
):
    write_table(replace(table, orientation=orientation), tmp_path / "in.tsv.gz")
    files = tmp_path / "in.tsv.gz", tmp_path / "out.csv"
    options = {"samples": orientation, "label_columns": ["group"]}
    done = normalize_file(*files, target, rows_per_block=rows_per_block, **options)
    got = read_table(tmp_path / "out.csv", **options)
    expected = quantile_normalize(table.values, target)
    if target == "mean":  # sums are rounded in another order
        assert_allclose(got.values, expected, rtol=1e-13)
    else:
        assert_array_equal(got.values, expected)
    assert got.sample_names.tolist() == table.sample_names.tolist()
    assert got.feature_names.tolist() == table.feature_names.tolist()
    assert got.labels["group"].tolist() == table.labels["group"].tolist()
    assert (done.n_samples, done.n_features, done.n_missing) == (37, 23, 0)
    assert done.n_passes == (2 if target in ("median", "mean") else 1)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.tsv.gz", "out.csv"]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("ties", ["average", "first", "mean_rank"])
def test_missing_values_follow_the_rule(tmp_path, table, target, ties):
    values = table.values.copy()
    values[np.random.default_rng(1).uniform(size=values.shape) < 0.2] = np.nan
    values[5] = np.nan
    values[10:20] = np.nan  # a block without a single value
    write_table(replace(table, values=values, labels={}), tmp_path / "in.csv")
    files = tmp_path / "in.csv", tmp_path / "out.csv"
    normalize_file(*files, target, missing="ignore", ties=ties, rows_per_block=5)
    expected = quantile_normalize(values, target, missing="ignore", ties=ties)
    assert_allclose(read_table(tmp_path / "out.csv").values, expected, rtol=1e-13)


def test_missing_values_are_named_and_leave_no_file(tmp_path, table):
    values = table.values.copy()
    values[30, 4] = np.nan
    write_table(replace(table, values=values, labels={}), tmp_path / "in.csv")
    for target in ("normal", "median"):
        with pytest.raises(ValueError, match="sample 's30', feature 'g4' is missing"):
            normalize_file(tmp_path / "in.csv", tmp_path / "out.csv", target, rows_per_block=4)
    assert [path.name for path in tmp_path.iterdir()] == ["in.csv"]


def test_a_table_that_may_lie_either_way_is_refused(tmp_path, table):
    """Genes in rows, as in most expression files, and a heading that says nothing."""
    frame = pd.DataFrame(table.values, index=table.sample_names, columns=table.feature_names)
    frame.to_csv(tmp_path / "in.csv")  # the first cell is empty
    with pytest.raises(TableError, match=r"37 samples .* of 23 features .* 23 samples of 37"):
        normalize_file(tmp_path / "in.csv", tmp_path / "out.csv")
    assert not (tmp_path / "out.csv").exists()
    for samples, n_samples in (("rows", 37), ("columns", 23)):
        done = normalize_file(tmp_path / "in.csv", tmp_path / "out.csv", samples=samples)
        assert done.n_samples == n_samples


def test_a_file_may_be_normalised_into_itself(tmp_path, table):
    path = tmp_path / "table.csv"
    write_table(table, path)
    normalize_file(path, path, "median", rows_per_block=3)
    assert_array_equal(read_table(path).values, quantile_normalize(table.values, "median"))


def test_single_precision_stays(tmp_path, table):
    narrow = replace(table, values=table.values.astype(np.float32))
    write_table(narrow, tmp_path / "in.npz")
    normalize_file(tmp_path / "in.npz", tmp_path / "out.npz", "median", rows_per_block=4)
    got = read_table(tmp_path / "out.npz").values
    assert got.dtype == np.float32
    assert_array_equal(got, quantile_normalize(narrow.values, "median"))


def test_what_cannot_be_done_is_refused(tmp_path, table):
    source, out = tmp_path / "in.csv", tmp_path / "out.csv"
    write_table(table, source)
    refused("unknown target", normalize_file, source, out, "gaussian", error=ValueError)
    refused("ties must be", normalize_file, source, out, ties="other", error=ValueError)
    refused("no such file", normalize_file, tmp_path / "absent.csv", out)
    write_table(Table(np.full((2, 3), np.nan), ["a", "b"], ["x", "y", "z"]), source)
    for target in ("mean", "median"):
        given, said = (source, out, target), "no sample has any value"
        refused(said, normalize_file, *given, missing="ignore", error=ValueError)
    assert not out.exists()


def test_targets_of_another_length_are_interpolated(tmp_path, table):
    write_table(table, tmp_path / "in.csv")
    done = normalize_file(tmp_path / "in.csv", tmp_path / "out.csv", [0.0, 1.0])
    assert (len(done.target_quantiles), done.target_quantiles[0]) == (23, 0.0)
