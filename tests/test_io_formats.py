"""Every kind of file: what survives a round trip, what the format itself asks for."""

import io
import struct
import sys
import tracemalloc
import zipfile
from contextlib import nullcontext

import anndata
import h5py
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse
import zarr
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from io_tables import (
    BOTH_WAYS,
    WRITABLE,
    assert_same,
    put,
    refused,
    series_matrix,
    small_table,
)
from numpy.lib import format as npy

from suquan.io import (
    Table,
    TableError,
    TableWriter,
    iter_row_blocks,
    open_blocks,
    read_table,
    write_table,
)

quick = settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def side(suffix, orientation):
    """Where to look for the samples of a file of this kind."""
    return orientation if suffix.partition(".")[0] in BOTH_WAYS else "auto"


def as_stored(table, suffix):
    """Text formats have doubles only, and GCT no labels."""
    if suffix.partition(".")[0] in ("parquet", "h5ad", "npz"):
        return table
    labels = {} if "gct" in suffix else table.labels
    return Table(table.values.astype(float), table.sample_names, table.feature_names, labels)


# ---------------------------------------------------------------------------------------------- round trips


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("suffix", WRITABLE)
def test_names_numbers_and_labels_survive_at_once_and_in_blocks(tmp_path, suffix, dtype):
    whole, parts = tmp_path / f"whole.{suffix}", tmp_path / f"parts.{suffix}"
    for orientation in ("rows", "columns"):
        labels = (suffix, orientation) != ("parquet", "columns") and "gct" not in suffix
        table = small_table(orientation, dtype, labels)
        write_table(table, whole)
        options = {"samples": side(suffix, orientation)}
        if side(suffix, "") == "":
            options["label_columns"] = list(table.labels)
        got = read_table(whole, **options)
        assert_same(got, as_stored(table, suffix))
        if suffix.partition(".")[0] in BOTH_WAYS:
            assert got.orientation == orientation
        with TableWriter(parts, orientation=orientation) as writer:
            for block in iter_row_blocks(whole, rows_per_block=2, **options):
                writer.write(block)
        assert_same(read_table(parts, **options), as_stored(table, suffix))
        if suffix not in ("parquet", "h5ad"):
            assert parts.read_bytes() == whole.read_bytes()
    assert sorted(p.name for p in tmp_path.iterdir()) == [parts.name, whole.name]


text = st.text(
    st.characters(blacklist_categories=("Cs", "Cc"), blacklist_characters="\x7f"),
    min_size=1,
    max_size=8,
)
numbers = st.floats(allow_infinity=False, allow_nan=True, width=64)


@st.composite
def tables(draw, orientation):
    n, p = draw(st.integers(1, 4)), draw(st.integers(1, 4))
    names = draw(st.lists(text, min_size=n + p, max_size=n + p, unique=True))
    values = draw(hnp.arrays(np.float64, (n, p), elements=numbers))
    return Table(values, names[:n], names[n:], orientation=orientation)


@pytest.mark.parametrize("orientation", ["rows", "columns"])
@pytest.mark.parametrize("suffix", ["csv", "tsv.gz", "gct", "parquet", "npz", "h5ad"])
@quick
@given(data=st.data())
def test_any_name_and_any_number_survive(tmp_path, suffix, orientation, data):
    table = data.draw(tables(orientation))
    if suffix == "gct":  # names of its own columns
        assume({"Name", "Description"}.isdisjoint(table.sample_names))
    path = tmp_path / f"table.{suffix}"
    write_table(table, path)
    assert_same(read_table(path, samples=side(suffix, orientation)), table)


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (["a", "a"], "occurs more than once"),
        (["a", ""], "empty"),
        (["a", "b\n"], "control"),
        (["a", "b" * 2000], "limit"),
        (["a"], "shape"),
    ],
)
def test_tables_have_proper_names(names, said):
    refused(said, Table, np.ones((2, 1)), names, ["f"])
    refused(said, Table, np.ones((1, 2)), ["s"], names)


def test_values_are_converted_only_where_they_stay_exact():
    assert Table(np.ones((1, 1), np.int16), ["s"], ["f"]).values.dtype == np.float32
    assert Table(np.ones((1, 1), ">f8"), ["s"], ["f"]).values.dtype == np.dtype("=f8")
    for values in (np.full((1, 1), 2**53 + 1), np.ones((1, 1), complex), np.ones(3), [["x"]]):
        refused(None, Table, values, ["s"], ["f"])


# ----------------------------------------------------------------------------------------------------- GCT

GCT_12 = "#1.2\n2\t3\nName\tDescription\ts1\ts2\ts3\ng1\tfirst gene\t1\t2\t\ng2\tna\t4\tNA\t6\n"
GCT_13 = (
    "#1.3\n2\t2\t1\t2\nid\tsymbol\ts1\ts2\ngroup\tna\tcase\tna\nage\tna\t40\t50\n"
    'g1\t"TP53\t1\t2\ng2\tESR1\t3\t4\n'
)


@pytest.mark.parametrize("name", ["t.gct", "t.gct.gz"])
def test_gct_12(tmp_path, name):
    table = read_table(put(tmp_path, GCT_12, name))
    assert table.sample_names.tolist() == ["s1", "s2", "s3"]
    assert table.feature_names.tolist() == ["g1", "g2"]
    assert np.array_equal(table.values, [[1, 4], [2, np.nan], [np.nan, 6]], equal_nan=True)
    assert (table.kind, table.orientation, table.labels) == ("gct", "columns", {})


def test_of_gct_13_the_values_are_read(tmp_path):
    path = put(tmp_path, GCT_13, "t.gct")
    unread = "its 2 rows about samples and 1 columns about features are not read; take labels from"
    with pytest.warns(UserWarning, match=rf"t\.gct: .*{unread}"):
        table = read_table(path)
    assert table.values.tolist() == [[1, 3], [2, 4]]
    assert (table.sample_names.tolist(), table.labels) == (["s1", "s2"], {})
    with pytest.warns(UserWarning, match=unread):
        blocks = list(iter_row_blocks(path, rows_per_block=1))
    assert [b.values.tolist() for b in blocks] == [[[1, 3]], [[2, 4]]]


def test_what_a_gct_file_has_no_place_for(tmp_path):
    path = put(tmp_path, GCT_12, "t.gct")
    refused("samples in columns", read_table, path, samples="rows")
    path.unlink()
    for table, said in (
        (Table([[1.0]], ["s"], ["a"], {"y": [1.0]}), "no place for labels .'y'.; write .tsv"),
        (Table([[1.0]], ["Name"], ["a"]), "'Name' is a column of its own"),
    ):
        refused(said, write_table, table, path)
    assert not list(tmp_path.iterdir())


# ------------------------------------------------------------------------------------------- series matrix


@pytest.mark.parametrize("name", ["GSE1_series_matrix.txt", "GSE1_series_matrix.txt.gz", "x.tsv"])
def test_series_matrix(tmp_path, name):
    path = put(tmp_path, series_matrix(), name)
    table = read_table(path)
    assert (table.kind, table.orientation) == ("series_matrix", "columns")
    assert table.sample_names.tolist() == ["GSM1", "GSM2"]
    assert table.feature_names.tolist() == ["0_at", "1_at", "2_at"]
    assert table.values.T.ravel().tolist() == np.random.default_rng(0).normal(8, 1, 6).tolist()
    assert {key: column.tolist() for key, column in table.labels.items()} == {
        "title": ["tumour GSM1", "tumour GSM2"],
        "geo_accession": ["GSM1", "GSM2"],
        "characteristics_ch1": ["breast", ""],
        "data_processing": ["RMA", "RMA"],
        "data_processing_2": ["log2", "log2"],
        "er": ["positive", "negative"],
        "age": [47.0, 61.0],
        "grade": ["", ""],
    }
    (block,) = iter_row_blocks(path)
    assert_same(block, table)


@pytest.mark.parametrize(
    ("name", "old", "new", "said"),
    [
        ("t.gct", "#1.2", "#1.4", "begins with #1.2 or #1.3"),
        ("t.gct", "2\t3\n", "2\tx\n", "line 2 .* 2 whole numbers"),
        ("t.gct", "2\t3\n", "2\t4\n", "announces 4 samples"),
        ("t.gct", "2\t3\n", "3\t3\n", "announces 3 features, the file has 2"),
        ("t.gct", "s2", "s1", "'s1' more than once"),
        ("t.gct", "g2", "g1", "feature names: 'g1'"),
        ("t.gct", "\t6", "\t6x", "line 5, column 's3': '6x'"),
        ("t.gct", "\t6", "", "line 5 has 4 cells"),
        ("m.txt", "!series_matrix_table_end\n", "", "truncated"),
        ("m.txt", "!series_matrix_table_begin\n", "", "no line !series_matrix_table_begin"),
        ("m.txt", '\t"log2"\t"log2"', '\t"log2"', "is about 1 samples, the table has 2"),
        ("m.txt", '"ID_REF"\t"GSM1"', '"ID_REF"\t"GSM9"', "accessions are not those"),
        ("m.txt", '"1_at"', '"0_at"', "'0_at' occurs more than once"),
    ],
)
def test_files_that_contradict_themselves(tmp_path, name, old, new, said):
    text = GCT_12 if name == "t.gct" else series_matrix()
    assert text != text.replace(old, new)
    refused(said, read_table, put(tmp_path, text.replace(old, new), name))


def test_a_series_without_values_says_so(tmp_path):
    refused("no rows", read_table, put(tmp_path, series_matrix(n_features=0), "m.txt"))


# ------------------------------------------------------------------------------------------------- Parquet


def test_parquet_files_of_pandas(tmp_path):
    frame = pd.DataFrame(
        {
            "a": [1, 2],
            "b": np.array([1.5, np.nan], np.float32),
            "er": [True, False],
            "group": pd.Categorical(["case", None]),
        },
        index=["007", "x"],
    )
    frame.to_parquet(tmp_path / "t.parquet")
    table = read_table(tmp_path / "t.parquet", samples="rows")
    assert table.sample_names.tolist() == ["007", "x"]
    assert table.feature_names.tolist() == ["a", "b"]
    assert np.array_equal(table.values, [[1, 1.5], [2, np.nan]], equal_nan=True)
    assert table.labels["er"].tolist() == [1, 0]
    assert table.labels["group"].tolist() == ["case", ""]


def test_parquet_without_an_index_has_its_names_first(tmp_path):
    pd.DataFrame({"id": ["s1"], "a.b": [1.0], "a": [2.0]}).to_parquet(tmp_path / "t.parquet")
    table = read_table(tmp_path / "t.parquet", sample_names=["s1"])
    assert table.sample_names.tolist() == ["s1"]
    assert table.values.tolist() == [[1.0, 2.0]]
    turned = read_table(tmp_path / "t.parquet", sample_names=["a", "a.b"])
    assert turned.sample_names.tolist() == ["a.b", "a"]


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"x": [1.5], "a": [1.0]}, "first column must hold the names"),
        ({"x": ["s"], "a": [2**53 + 1]}, "not exact"),
        ({"x": ["s"], "a": [[1.0]]}, "column 'a' is of type list"),
        ({"x": ["s"], "a": [pd.Timestamp(0)]}, "column 'a' is of type timestamp"),
        ({"x": ["s"], "a": ["t"]}, "no column of numbers"),
        ({"x": ["s", "s"], "a": [1.0, 2.0]}, "'s' occurs more than once"),
        ({"x": ["s", None], "a": [1.0, 2.0]}, "a name is missing"),
        ({"x": ["s"], "a": [np.inf]}, "infinite"),
        ({"x": ["s"]}, "at least one of numbers"),
        ({"x": ["s"], "a": [1.0], "b": [2.0]}, "'a' occurs more than once"),
    ],
)
def test_parquet_files_that_are_no_tables(tmp_path, columns, said):
    names = ["a" if name == "b" else name for name in columns]
    pq.write_table(pa.table(columns).rename_columns(names), tmp_path / "t.parquet")
    refused(said, read_table, tmp_path / "t.parquet")


# ---------------------------------------------------------------------------------------------------- h5ad


def annotated(X, **layers):
    obs = pd.DataFrame(
        {"cell": pd.Categorical(["T", "B", None]), "n": [1, 2, 3], "ok": [True, False, True]},
        index=["c1", "c2", "c3"],
    )
    var = pd.DataFrame(index=["g1", "g2"])
    return anndata.AnnData(X, obs=obs, var=var, layers=layers)


DENSE = np.array([[0.0, 1.5], [2.0, 0.0], [0.0, np.nan]], dtype=np.float32)


@pytest.mark.parametrize("form", [np.array, scipy.sparse.csr_matrix, scipy.sparse.csc_matrix])
def test_h5ad_dense_and_sparse(tmp_path, form):
    path = tmp_path / "t.h5ad"
    annotated(form(DENSE), doubled=form(2 * DENSE)).write_h5ad(path)
    for layer, wanted in [(None, DENSE), ("doubled", 2 * DENSE)]:
        table = read_table(path, layer=layer)
        assert table.values.dtype == np.float32
        assert np.array_equal(table.values, wanted, equal_nan=True)
        blocks = list(iter_row_blocks(path, layer=layer, rows_per_block=2))
        assert [b.n_samples for b in blocks] == [2, 1]
        assert np.array_equal(np.vstack([b.values for b in blocks]), wanted, equal_nan=True)
    assert (table.kind, table.orientation) == ("h5ad", "rows")
    assert table.sample_names.tolist() == ["c1", "c2", "c3"]
    assert table.feature_names.tolist() == ["g1", "g2"]
    assert table.labels["cell"].tolist() == ["T", "B", ""]
    assert table.labels["n"].tolist() == [1, 2, 3]
    assert table.labels["ok"].tolist() == [1, 0, 1]


@pytest.mark.parametrize(
    ("name", "place", "value"),
    [
        *(("indices", 1, value) for value in (3, 2**30, -1)),  # 3: the first of the next sample
        *(("indptr", *wrong) for wrong in ((0, 1), (1, 3), (1, -2), (3, 2), (3, 2**30))),
    ],
)
@pytest.mark.parametrize(
    ("suffix", "form"), [("h5ad", "csr_matrix"), ("h5ad", "csc_matrix"), ("zarr", "csr_matrix")]
)
@pytest.mark.filterwarnings("ignore:Writing zarr v2 data will no longer")
@pytest.mark.filterwarnings("ignore:zarr v3 autosharding")
def test_sparse_indices_that_lie_are_refused(tmp_path, suffix, form, name, place, value):
    path = tmp_path / f"t.{suffix}"
    data = anndata.AnnData(getattr(scipy.sparse, form)(np.eye(3)))
    data.write_h5ad(path) if suffix == "h5ad" else data.write_zarr(path)
    with h5py.File(path, "r+") if suffix == "h5ad" else nullcontext(zarr.open(path)) as file:
        stored = file["X"][name]
        stored[place] = value
    said = rf"t\.{suffix}: .*(write the file again|damaged)"
    refused(said, read_table, path)
    if form == "csr_matrix":
        refused(said, open_blocks(path, rows_per_block=2).compute, scheduler="sync")


def test_a_sparse_h5ad_with_an_entry_stored_twice_is_refused(tmp_path):
    path = tmp_path / "t.h5ad"
    annotated(scipy.sparse.csr_matrix([[1.0, 2.0], [0.0, 3.0], [0.0, 0.0]])).write_h5ad(path)
    with h5py.File(path, "r+") as file:
        file["X/indices"][0] = 1
    refused("stored twice", read_table, path)


def test_what_is_written_is_an_anndata_file(tmp_path):
    table = small_table()
    write_table(table, tmp_path / "t.h5ad")
    got = anndata.read_h5ad(tmp_path / "t.h5ad")
    assert np.array_equal(got.X, table.values, equal_nan=True)
    assert got.obs_names.tolist() == table.sample_names.tolist()
    assert got.var_names.tolist() == table.feature_names.tolist()
    assert got.obs["group"].tolist() == ["case", "", "control"]
    for label, suffix in (("a/b", "h5ad"), ("X", "npz")):
        bad = Table([[1.0]], ["s"], ["g"], {label: [1]})
        refused(f"'{label}' cannot name a", write_table, bad, tmp_path / f"t.{suffix}")


def test_h5ad_says_which_layers_there_are(tmp_path):
    path = tmp_path / "t.h5ad"
    annotated(None, counts=DENSE).write_h5ad(path)
    for layer in (None, "other"):
        refused(r"no .*layers: 'counts'|stored as null", read_table, path, layer=layer)
    assert read_table(path, layer="counts").n_samples == 3


# ----------------------------------------------------------------------------------------------------- npz


def test_npz_as_numpy_writes_it(tmp_path):
    X = np.arange(6, dtype=np.int16).reshape(3, 2)
    for order in ("C", "F"):
        np.savez_compressed(
            tmp_path / "t.npz",
            X=np.asarray(X, order=order),
            y=np.array([1, 0, -1], np.int8),
            kind=np.array([b"a", b"", b"c"]),
            features=np.array([b"f1", b"f2"]),
            n_missing=np.array([0, 3]),
            classes=np.array(["x"]),
        )
        table = read_table(tmp_path / "t.npz")
        assert table.values.dtype == np.float32
        assert table.values.tolist() == X.tolist()
        assert table.feature_names.tolist() == ["f1", "f2"]
        assert table.sample_names.tolist() == ["sample_1", "sample_2", "sample_3"]
        assert list(table.labels) == ["y", "kind"]
        assert table.labels["y"].tolist() == [1, 0, -1]
        assert table.labels["kind"].tolist() == ["a", "", "c"]
        blocks = list(iter_row_blocks(tmp_path / "t.npz", rows_per_block=2))
        assert [b.values.tolist() for b in blocks] == [X[:2].tolist(), X[2:].tolist()]
        assert blocks[1].labels["y"].tolist() == [-1]


@pytest.mark.parametrize(
    ("arrays", "said"),
    [
        ({"X_train": np.ones((2, 2))}, "array 'X'; the file has 'X_train'"),
        ({"X": np.ones(3)}, "samples x features"),
        ({"X": np.ones((0, 3))}, "samples x features"),
        ({"X": np.ones((2, 2), complex)}, "integers or floats"),
        ({"X": np.ones((2, 2)), "samples": np.array(["a"])}, "'samples' has shape"),
        ({"X": np.ones((2, 2)), "samples": np.array(["a", "a"])}, "'a' occurs more than once"),
        ({"X": np.ones((2, 2)), "samples": np.array([b"a", b"\xff"])}, "UTF-8"),
        ({"X": np.ones((2, 2)), "features": np.array([0.5, 1.5])}, "must hold text"),
        ({"X": np.array([[1, np.inf]])}, "infinite"),
        ({"X": np.array([[1, 2**60]])}, "2\\*\\*53"),
        ({"X": np.array([[{}]], dtype=object)}, "integers or floats"),
    ],
)
def test_npz_files_that_are_no_tables(tmp_path, arrays, said):
    np.savez(tmp_path / "t.npz", **arrays)
    refused(said, read_table, tmp_path / "t.npz")


def npz_that_claims(path, shape):
    """An archive whose header and list of members promise an array that it does not hold."""
    header = io.BytesIO()
    npy.write_array_header_1_0(header, {"descr": "<f8", "fortran_order": False, "shape": shape})
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("X.npy", header.getvalue())
    real = struct.pack("<I", len(header.getvalue()))
    claim = struct.pack("<I", len(header.getvalue()) + 8 * shape[0] * shape[1])
    data = path.read_bytes()
    assert data.count(real) == 2  # before the member, and in the list
    path.write_bytes(data.replace(real, claim))


def test_npz_that_claims_more_than_it_can_hold_is_refused_before_anything_is_made(tmp_path):
    npz_that_claims(tmp_path / "t.npz", (1_000_000, 1))
    assert (tmp_path / "t.npz").stat().st_size < 400
    tracemalloc.start()
    with pytest.raises(TableError, match=r"X.npy claims 8,000,\d+ bytes, more than the file"):
        read_table(tmp_path / "t.npz")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2**20
    # What deflate can do is believed: zeros take a thousandth of their size.
    np.savez_compressed(tmp_path / "zeros.npz", X=np.zeros((1000, 1000)))
    assert read_table(tmp_path / "zeros.npz").n_samples == 1000


@pytest.mark.parametrize("suffix", ["npz", "h5ad", "gct"])
def test_labels_that_are_wanted_must_be_there(tmp_path, suffix):
    write_table(as_stored(small_table(), suffix), tmp_path / f"t.{suffix}")
    found = "none" if suffix == "gct" else "'group', 'days'"
    path = tmp_path / f"t.{suffix}"
    refused(f"no label 'y'; there is {found}", read_table, path, label_columns=["y"])


# -------------------------------------------------------------------------------------------------- extras


@pytest.mark.parametrize(
    ("module", "suffix", "extra"),
    [("pyarrow.parquet", "parquet", "io"), ("anndata.io", "h5ad", "anndata")],
)
def test_a_missing_extra_is_named(tmp_path, monkeypatch, module, suffix, extra):
    write_table(small_table(), tmp_path / f"t.{suffix}")
    monkeypatch.setitem(sys.modules, module, None)
    cure = rf"pip install 'suquan\[{extra}\]'"
    refused(cure, read_table, tmp_path / f"t.{suffix}", label_columns=["days"])
