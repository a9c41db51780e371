"""Files as Dask arrays of blocks, and Dask arrays as files."""

import os
import shutil
import signal
import threading
import time

import anndata
import dask.array as da
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zarr
from io_tables import assert_same, put, refused
from numpy.testing import assert_array_equal
from scipy import sparse

from suquan import QuantileNormalizer, quantile_normalize
from suquan.io import (
    BlockTable,
    Table,
    TableError,
    open_block_table,
    open_blocks,
    read_table,
    write_blocks,
    write_table,
)

N, P = 37, 11
SAMPLES = np.array([f"s{i}" for i in range(N)])
FEATURES = np.array([f"g.{j}" for j in range(P)])  # with dots, which Parquet could take for paths
GROUP = np.array(["a", "b"] * 18 + ["a"])


@pytest.fixture
def values():
    return np.round(np.random.default_rng(0).lognormal(size=(N, P)), 2)


def as_anndata(values, matrix=None):
    matrix = values if matrix is None else matrix
    return anndata.AnnData(
        X=matrix,
        obs=pd.DataFrame({"group": GROUP}, index=SAMPLES),
        var=pd.DataFrame(index=FEATURES),
        layers={"twice": 2 * matrix},
    )


def as_csr(values):
    return as_anndata(values, sparse.csr_matrix(values))


def make_parquet(path, values):
    table = Table(values, SAMPLES, FEATURES, {"group": GROUP})
    write_table(table, path.with_name("whole.parquet"))
    pq.write_table(pq.read_table(path.with_name("whole.parquet")), path, row_group_size=8)


def make_h5ad(path, values):
    write_table(Table(values, SAMPLES, FEATURES, {"group": GROUP}), path)


KINDS = {
    "npy": (np.save, "x.npy"),
    "npy, Fortran": (lambda path, values: np.save(path, np.asfortranarray(values)), "x.npy"),
    "zarr": (lambda path, values: as_anndata(values).write_zarr(path), "x.zarr"),
    "zarr, CSR": (lambda path, values: as_csr(values).write_zarr(path), "x.zarr"),
    "parquet": (make_parquet, "x.parquet"),
    "h5ad": (make_h5ad, "x.h5ad"),
    "h5ad, CSR": (lambda path, values: as_csr(values).write_h5ad(path), "x.h5ad"),
}
NAMED = [kind for kind in KINDS if not kind.startswith("npy")]
pytestmark = [
    pytest.mark.filterwarnings("ignore::anndata.ImplicitModificationWarning"),
    pytest.mark.filterwarnings("ignore:Writing zarr v2 data will no longer"),
    pytest.mark.filterwarnings("ignore:zarr v3 autosharding"),
]


def make(kind, folder, values):
    write, name = KINDS[kind]
    write(folder / name, values)
    return folder / name


# -------------------------------------------------------------------------------------------------- reading


@pytest.mark.parametrize(
    ("kind", "dtype"),
    [(kind, np.float64) for kind in KINDS]
    + [(kind, np.float32) for kind in ("npy", "zarr", "parquet", "h5ad, CSR")],
)
def test_blocks_are_the_rows_of_the_file(tmp_path, values, kind, dtype):
    path = make(kind, tmp_path, values.astype(dtype))
    for rows in (None, 6, 1000):
        X = open_blocks(path, rows_per_block=rows)
        assert (X.shape, X.dtype) == ((N, P), dtype)
        assert X.numblocks == (1 if rows in (None, 1000) else -(-N // rows), 1)
        assert_array_equal(X.compute(), values.astype(dtype))
    some = open_blocks(path, rows_per_block=6)
    assert_array_equal(some[10:20].compute(), values.astype(dtype)[10:20])


@pytest.mark.parametrize("kind", NAMED)
def test_names_and_labels_are_those_of_the_file(tmp_path, values, kind):
    table = open_block_table(make(kind, tmp_path, values), rows_per_block=10)
    assert_array_equal(table.values.compute(), values)
    assert table.values.numblocks[0] == 4
    expected = Table(values, SAMPLES, FEATURES, {"group": GROUP})
    names = table.sample_names, table.feature_names
    assert_same(Table(values, *names, table.labels), expected)
    assert_same(read_table(tmp_path / KINDS[kind][1]), expected)


def test_arrays_have_no_names_and_tables_make_them_up(tmp_path, values):
    path = make("npy", tmp_path, values)
    table = open_block_table(path)
    assert (table.sample_names, table.feature_names) == (None, None)
    assert table.sample_names_of(3, 5).tolist() == ["sample_4", "sample_5"]
    whole = read_table(path)
    assert whole.feature_names.tolist() == table.column_names.tolist()
    assert whole.sample_names[[0, -1]].tolist() == ["sample_1", f"sample_{N}"]
    assert_array_equal(whole.values, values)
    write_blocks(table, tmp_path / "out.csv")
    assert read_table(tmp_path / "out.csv").sample_names[-1] == f"sample_{N}"


@pytest.mark.parametrize("kind", ["zarr", "zarr, CSR", "h5ad, CSR"])
def test_layers_are_read_by_name(tmp_path, values, kind):
    path = make(kind, tmp_path, values)
    assert_array_equal(open_blocks(path, "twice", 9).compute(), 2 * values)
    refused("no layer 'thrice'", open_blocks, path, "thrice")


def test_columns_of_a_parquet_file_are_chosen_as_when_it_is_read(tmp_path, values):
    frame = pd.DataFrame(values, columns=FEATURES, index=SAMPLES).assign(
        group=GROUP, age=np.arange(N)
    )
    frame.to_parquet(tmp_path / "x.parquet", row_group_size=10)
    options = {"label_columns": ["age"], "ignore_columns": ["g.3"]}
    got = open_block_table(tmp_path / "x.parquet", rows_per_block=7, **options)
    names = got.values.compute(), got.sample_names, got.feature_names
    assert_same(Table(*names, got.labels), read_table(tmp_path / "x.parquet", **options))
    assert set(got.labels) == {"group", "age"}


def test_blocks_fit_the_storage(tmp_path, values, monkeypatch):
    sources = "suquan.io._matrices.BYTES_PER_BLOCK"
    monkeypatch.setattr(sources, 13 * P * 8)
    rows = {
        kind: open_blocks(make(kind, tmp_path, values)).chunks[0]
        for kind in ("npy", "parquet", "h5ad, CSR")
    }
    assert rows["npy"] == (13, 13, 11)
    assert rows["parquet"] == (8, 8, 8, 13)  # of whole groups two would be too many
    assert rows["h5ad, CSR"] == (13, 13, 11)
    monkeypatch.setattr(sources, 3 * P * 8)  # less than a row group holds
    assert open_blocks(tmp_path / "x.parquet").chunks[0] == (8, 8, 8, 8, 5)


def test_whole_numbers_become_floats(tmp_path, values):
    types = {np.int16: np.float32, np.uint8: np.float32, np.int64: np.float64}
    for dtype, expected in (types | {np.float16: np.float32}).items():
        whole = values.astype(dtype)
        for kind in ("npy", "zarr", "h5ad, CSR")[: 2 if dtype == np.float16 else 3]:
            X = open_blocks(make(kind, tmp_path, whole))
            assert X.dtype == expected
            assert_array_equal(X.compute(), whole)
            shutil.rmtree(tmp_path / "x.zarr", ignore_errors=True)


def test_a_file_is_known_by_its_whole_path(tmp_path, values, monkeypatch):
    path = make("npy", tmp_path, values)
    assert open_blocks(path).name == open_blocks(path).name
    assert open_blocks(path).name != open_blocks(path, rows_per_block=3).name
    monkeypatch.chdir(tmp_path)
    X = open_blocks("x.npy")
    monkeypatch.chdir("/")
    assert_array_equal(X.compute(), values)


# ---------------------------------------------------------------------------------- what cannot be opened


def test_missing_files_and_other_kinds_are_named(tmp_path, values):
    for suffix in ("npy", "zarr", "parquet", "h5ad", "csv"):
        said = rf"nowhere\.{suffix}: there is no such"
        refused(said, open_blocks, tmp_path / f"nowhere.{suffix}")
    put(tmp_path, "sample,a\ns,1\n", "x.csv")
    for name in ("x.csv", "x.xlsx"):
        refused(rf"{name}: cannot be opened in blocks.*convert it", open_blocks, tmp_path / name)


@pytest.mark.parametrize("kind", ["npy", "parquet", "h5ad"])
@pytest.mark.parametrize("keep", [0, 7, 100, 0.9])
def test_damaged_files_are_table_errors(tmp_path, values, kind, keep):
    path = make(kind, tmp_path, values)
    data = path.read_bytes()
    path.write_bytes(data[: int(keep * len(data)) if isinstance(keep, float) else keep])
    with pytest.raises(TableError, match=path.name) as caught:
        open_blocks(path).compute()
    assert "\n" not in str(caught.value)


def test_a_folder_that_is_no_store_of_anndata_is_a_table_error(tmp_path, values):
    path = make("zarr", tmp_path, values)
    for mark in ("zarr.json", ".zgroup"):
        if (path / mark).exists():
            (path / mark).write_text("{")
    (tmp_path / "empty.zarr").mkdir()
    (tmp_path / "file.zarr").write_text("zarr")
    zarr.open_group(str(tmp_path / "group.zarr"), mode="w")
    zarr.save_array(str(tmp_path / "array.zarr"), values)
    for name, said in (
        ("x", r"x\.zarr"),
        ("empty", r"empty\.zarr"),
        ("file", "is a folder, this is a file"),
        ("group", "has no X"),
        ("array", "an array without names; give a file written by AnnData, or save it as .npy"),
    ):
        refused(said, open_blocks, tmp_path / f"{name}.zarr")


def test_what_is_no_matrix_of_numbers_is_refused_and_never_unpickled(tmp_path):
    for bad in (np.ones(3), np.ones((2, 2, 2)), np.ones((0, 3)), np.ones((2, 2), complex)):
        np.save(tmp_path / "x.npy", bad)
        refused("samples x features|integers or floats", open_blocks, tmp_path / "x.npy")
    np.save(tmp_path / "x.npy", np.array([[{}]]), allow_pickle=True)
    refused("Python objects", open_blocks, tmp_path / "x.npy")


def test_matrices_by_feature_and_layers_of_arrays_are_refused(tmp_path, values):
    as_anndata(values, sparse.csc_matrix(values)).write_h5ad(tmp_path / "x.h5ad")
    refused("CSR", open_blocks, tmp_path / "x.h5ad")
    for kind in ("npy", "parquet"):
        refused("leave layer out", open_blocks, make(kind, tmp_path, values), layer="X")


def test_integers_that_are_not_exact_are_refused_in_their_block(tmp_path):
    np.save(tmp_path / "x.npy", np.array([[1, 2], [2**53 + 1, 3]]))
    X = open_blocks(tmp_path / "x.npy", rows_per_block=1)
    assert X[:1].compute().tolist() == [[1.0, 2.0]]
    refused("not exact", X.compute)


def test_repeated_names_are_refused(tmp_path, values):
    frame = pa.table({"name": ["a", "a"], "x": [1.0, 2.0]})
    pq.write_table(frame, tmp_path / "x.parquet")
    refused(
        r"x\.parquet: sample names: 'a' occurs more than once",
        open_block_table,
        tmp_path / "x.parquet",
    )
    assert open_blocks(tmp_path / "x.parquet").shape == (2, 1)  # which does not read them


def test_impossible_block_lengths_are_refused(tmp_path, values):
    path = make("npy", tmp_path, values)
    for rows in (0, -1, 2.5):
        refused("rows_per_block", open_blocks, path, rows_per_block=rows, error=ValueError)


# ------------------------------------------------------------------------------------------------- changes


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_that_changed_is_refused(tmp_path, values, kind):
    path = make(kind, tmp_path, values)
    X = open_blocks(path, rows_per_block=10)
    assert_array_equal(X.compute(), values)
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    make(kind, tmp_path, values[::-1])  # the same shape, type and very likely size
    later = time.time_ns() + 10**9
    for file in [path, *path.rglob("*")]:
        os.utime(file, ns=(later, later))
    refused("changed since it was opened", X.compute)
    X = open_blocks(path)
    assert_array_equal(X.compute(), values[::-1])
    if path.suffix == ".npy":  # another shape is noticed though size and time agree
        np.save(path, values.T)
        os.utime(path, ns=(later, later))
        refused("changed since it was opened", X.compute)


def test_a_file_that_is_damaged_or_went_away_is_named(tmp_path, values):
    path = make("zarr", tmp_path, values)
    for chunk in (path / "X").rglob("*0"):
        if chunk.is_file():
            chunk.write_bytes(chunk.read_bytes()[:20])
    refused(r"x\.zarr: damaged", open_blocks(path).compute)
    shutil.rmtree(path)
    for kind in ("npy", "zarr", "parquet", "h5ad"):
        path = make(kind, tmp_path, values)
        X = open_blocks(path)
        shutil.rmtree(path) if path.is_dir() else path.unlink()
        refused("there is no such|changed since", X.compute)


# -------------------------------------------------------------------------------------------------- writing


@pytest.mark.parametrize("name", ["out.npy", "out.zarr"])
@pytest.mark.parametrize(
    ("chunks", "dtype"),
    [((N,), np.float64), ((10, 10, 10, 7), np.float32), ((1, 0, 20, 16), np.float64)],
)
def test_arrays_come_back_as_they_were(tmp_path, values, name, chunks, dtype):
    X = da.from_array(values.astype(dtype), chunks=(chunks, (6, 5)))
    assert write_blocks(X, tmp_path / name) == tmp_path / name
    back = open_blocks(tmp_path / name)
    assert back.dtype == dtype
    assert_array_equal(back.compute(), values.astype(dtype))
    if name.endswith(".npy"):
        assert_array_equal(np.load(tmp_path / name), values.astype(dtype))
    assert [path.name for path in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize("name", ["out.zarr", "out.h5ad", "out.parquet", "out.csv.gz", "out.npz"])
def test_tables_keep_their_names_and_labels(tmp_path, values, name):
    X = da.from_array(values, chunks=(6, P))
    write_blocks(BlockTable(X, SAMPLES, FEATURES, {"group": GROUP}), tmp_path / name)
    assert_same(read_table(tmp_path / name), Table(values, SAMPLES, FEATURES, {"group": GROUP}))
    if name == "out.zarr":
        whole = anndata.read_zarr(tmp_path / name)
        assert_array_equal(whole.X, values)
        assert whole.obs["group"].tolist() == GROUP.tolist()


@pytest.mark.parametrize("name", ["out.npy", "out.zarr", "out.csv", "out.h5ad"])
def test_what_fails_leaves_what_was_there(tmp_path, values, name):
    good = da.from_array(values, chunks=(6, P))
    write_blocks(good, tmp_path / name)
    gaps = values.copy()
    gaps[30, 3] = np.nan
    bad = quantile_normalize(da.from_array(gaps, chunks=(6, P)), "normal")
    where = r"block 5 \(rows 30 to 35\)"
    refused(where, write_blocks, bad, tmp_path / name, error=ValueError)
    assert_array_equal(read_table(tmp_path / name).values, values)
    write_blocks(good * 2, tmp_path / name)  # and it can be replaced
    assert_array_equal(read_table(tmp_path / name).values, 2 * values)
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_a_folder_that_is_no_zarr_is_not_replaced(tmp_path, values):
    X = da.from_array(values, chunks=(6, P))
    (tmp_path / "out.zarr").mkdir()
    (tmp_path / "out.zarr" / "precious.txt").write_text("mine")
    refused("is no zarr", write_blocks, X, tmp_path / "out.zarr")
    assert (tmp_path / "out.zarr" / "precious.txt").read_text() == "mine"
    refused("make it first", write_blocks, X, tmp_path / "nowhere" / "out.npy")
    refused("dask array", write_blocks, values, tmp_path / "out.npy", error=TypeError)


def test_a_file_can_be_normalised_in_place(tmp_path, values):
    """It is read until the new one is complete."""
    for kind in ("npy", "zarr"):
        path = make(kind, tmp_path, values)
        write_blocks(quantile_normalize(open_blocks(path, rows_per_block=5), "median"), path)
        assert_array_equal(open_blocks(path).compute(), quantile_normalize(values, "median"))


def slow(block):
    time.sleep(0.15)
    return block


def test_blocks_are_read_and_written_again_when_a_worker_is_killed(tmp_path, values, processes):
    path = make("zarr", tmp_path, values)
    X = open_blocks(path, rows_per_block=4)
    X = X.map_blocks(slow, dtype=X.dtype, meta=np.empty((0, 0)))
    victim = next(iter(processes.run(os.getpid).values()))
    killer = threading.Timer(0.5, os.kill, (victim, signal.SIGKILL))
    killer.start()
    normalised = QuantileNormalizer("median").fit_transform(X)
    write_blocks(normalised, tmp_path / "out.npy")
    killer.join()
    write_blocks(normalised, tmp_path / "out.zarr")
    assert victim not in processes.run(os.getpid).values()
    expected = quantile_normalize(values, "median")
    assert_array_equal(np.load(tmp_path / "out.npy"), expected)
    assert_array_equal(open_blocks(tmp_path / "out.zarr").compute(), expected)
