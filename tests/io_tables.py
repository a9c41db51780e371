"""Tables, files and checks that the tests of the readers share."""

import gzip
import io

import numpy as np
import pytest

from suquan.io import Table, TableError

WRITABLE = ["csv", "csv.gz", "tsv", "tsv.gz", "txt", "gct", "gct.gz", "parquet", "h5ad", "npz"]
BOTH_WAYS = ("csv", "tsv", "txt", "parquet")  # kinds in which samples may lie in rows or in columns


def refused(said, work, *arguments, error=TableError, **options):
    """The work ends with an error of one line that says so."""
    with pytest.raises(error, match=said) as caught:
        work(*arguments, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def put(folder, content, name):
    """A file with this text or these bytes, compressed if its name ends with gz."""
    path, data = folder / name, content.encode() if isinstance(content, str) else content
    is_text = isinstance(content, str) and name.endswith(".gz")
    path.write_bytes(gzip.compress(data) if is_text else data)
    return path


def small_table(orientation="rows", dtype=np.float64, labels=True):
    """Names and numbers that are easily damaged on the way."""
    values = np.array(
        [
            [0.1, 1 / 3, -0.0, 5e-324],
            [np.nan, 1e300, -1.5, 2.0],
            [123456789.123, 0.30000000000000004, np.nan, 7.0],
        ]
    )
    if dtype == np.float32:
        values = np.array([[0.1, 1 / 3, -0.0, 1e-45], [np.nan, 1e30, -1.5, 2.0], [1, 2, np.nan, 7]])
    return Table(
        values.astype(dtype),
        ["007", "NA", "né"],
        ["1", "A.1053_at", 'HLA-A "x"', "x.1"],
        {"group": ["case", "", "control"], "days": [1.5, np.nan, 30.0]} if labels else {},
        orientation,
    )


def assert_same(got, wanted, labels=True):
    assert got.values.dtype == wanted.values.dtype
    assert np.array_equal(got.values, wanted.values, equal_nan=True)
    known = ~np.isnan(wanted.values)
    assert np.array_equal(np.signbit(got.values[known]), np.signbit(wanted.values[known]))
    assert got.sample_names.tolist() == wanted.sample_names.tolist()
    assert got.feature_names.tolist() == wanted.feature_names.tolist()
    if labels:
        assert list(got.labels) == list(wanted.labels)
        for name, column in wanted.labels.items():
            assert got.labels[name].dtype.kind == column.dtype.kind
            equal_nan = column.dtype.kind == "f"
            assert np.array_equal(got.labels[name], column, equal_nan=equal_nan)


def series_matrix(n_features=3, names=("GSM1", "GSM2")):
    """A small GEO series matrix, as text."""
    rng = np.random.default_rng(0)
    out = io.StringIO()
    out.write('!Series_title\t"A series: with a colon"\n!Series_geo_accession\t"GSE1"\n\n')

    def line(key, cells):
        out.write("\t".join([key, *(f'"{cell}"' for cell in cells)]) + "\n")

    line("!Sample_title", [f"tumour {name}" for name in names])
    line("!Sample_geo_accession", names)
    line("!Sample_characteristics_ch1", ["er: positive", "age: 61"])
    line("!Sample_characteristics_ch1", ["age: 47", "er: negative"])
    line("!Sample_characteristics_ch1", ["breast", "grade: "])
    line("!Sample_data_processing", ["RMA", "RMA"])
    line("!Sample_data_processing", ["log2", "log2"])
    out.write("!series_matrix_table_begin\n")
    line('"ID_REF"', names)
    for j in range(n_features):
        values = [repr(value) for value in rng.normal(8, 1, len(names)).tolist()]
        out.write("\t".join([f'"{j}_at"', *values]) + "\n")
    out.write("!series_matrix_table_end\n")
    return out.getvalue()
