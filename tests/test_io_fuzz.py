"""Damaged files: the readers say what is wrong, or read what the file says; nothing else."""

import csv
import gzip
import io
import random
from contextlib import suppress
from unittest import mock

import numpy as np
import pytest
from data_files import data_file
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from io_tables import series_matrix

from suquan.io import (
    Table,
    TableError,
    _source,
    iter_row_blocks,
    read_labels,
    read_table,
    write_table,
)

quick = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
how_many = pytest.mark.parametrize("n_mutants", [32, pytest.param(400, marks=pytest.mark.slow)])
MISSING = {"", "NA", "NaN", "nan", "null", "NULL"}


def read_or_refuse(path, **options):
    """The table or None; at once, and in blocks from a text read in small parts, the outcome is the same."""
    table = blocks = None
    with suppress(TableError):
        table = read_table(path, **options)
    with suppress(TableError), mock.patch.object(_source, "VALUES", 40):
        blocks = list(iter_row_blocks(path, rows_per_block=3, **options))
    assert (table is None) == (blocks is None)
    if table is not None:
        values = np.vstack([block.values for block in blocks])
        assert np.array_equal(values, table.values, equal_nan=True)
    return table


def check_against_text(table, text, delimiter, orientation="rows"):
    """Every number is what the cell says, by an independent reading of the same text."""
    rows = [row for row in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter) if row]
    header, body = rows[0], rows[1:]
    values = table.values if orientation == "rows" else table.values.T
    row_names = table.sample_names if orientation == "rows" else table.feature_names
    column_names = table.feature_names if orientation == "rows" else table.sample_names
    assert [row[0] for row in body] == row_names.tolist()
    assert all(len(row) == len(header) for row in body)
    assert set(header[1:]) == {*column_names.tolist(), *table.labels}
    for j, name in enumerate(column_names.tolist()):
        cells = [row[header.index(name, 1)] for row in body]
        wanted = [np.nan if cell in MISSING else float(cell) for cell in cells]
        assert np.array_equal(values[:, j], wanted, equal_nan=True)


# --------------------------------------------------------------------------------------------- mutated files

CELLS = [
    "1,5",
    "1e5x",
    "NA",
    "N/A",
    "",
    "inf",
    "-",
    "x",
    '"',
    '""',
    '"1"2',
    "1e400",
    "007",
    "\t",
    ";",
]
BYTES = b'0123456789.,-eE"\n\r\t;x \x00\xff\xe9'


def mutants(data, n, seed=0):
    """Copies with changed, lost and repeated bytes, cells and lines."""
    rng = random.Random(seed)
    for i in range(n):
        yield [_change_bytes, _change_line, _change_line, _cut][i % 4](rng, data)


def _change_bytes(rng, data):
    out = bytearray(data)
    for _ in range(rng.choice([1, 1, 2, 5])):
        at, how = rng.randrange(len(out)), rng.randrange(3)
        out[at : at + (how < 2)] = bytes([rng.choice(BYTES)] * (how > 0))
    return bytes(out)


def _change_line(rng, data):
    lines = data.split(b"\n")
    i, other = rng.randrange(len(lines)), rng.choice(lines)
    mark = b"\t" if b"\t" in lines[i] else b","
    cells, short = lines[i].split(mark), lines[i][: rng.randrange(len(lines[i]) + 1)]
    cells[rng.randrange(len(cells))] = rng.choice(CELLS).encode()
    others = [[], [other, lines[i]], [b"", lines[i]], [short]]
    lines[i : i + 1] = rng.choice([*others, *4 * [[mark.join(cells)]]])
    return b"\n".join(lines)


def _cut(rng, data):
    return data[: rng.randrange(len(data))]


def real_table(orientation):
    table = read_table(data_file("breast_vdx150.npz"))
    values = table.values[:12, :9].copy()
    values[2, 3] = np.nan
    return Table(values, table.sample_names[:12], table.feature_names[:9], {}, orientation)


@how_many
@pytest.mark.parametrize("orientation", ["rows", "columns"])
@pytest.mark.parametrize("suffix", ["csv", "tsv"])
def test_mutated_text_is_refused_or_read_as_it_stands(tmp_path, suffix, orientation, n_mutants):
    path = tmp_path / f"t.{suffix}"
    write_table(real_table(orientation), path)
    n_read = 0
    for mutant in mutants(path.read_bytes(), n_mutants):
        path.write_bytes(mutant)
        got = read_or_refuse(path, samples=orientation)
        if got is not None:
            n_read += 1
            text = mutant.decode("utf-8-sig")
            check_against_text(got, text, {"csv": ",", "tsv": "\t"}[suffix], orientation)
    assert 0 < n_read < n_mutants


@how_many
@pytest.mark.parametrize("suffix", ["csv.gz", "gct", "gct.gz", "parquet", "npz", "h5ad"])
def test_mutated_files_of_every_kind_are_refused_or_read(tmp_path, suffix, n_mutants):
    path = tmp_path / f"t.{suffix}"
    original = real_table("rows")
    write_table(original, path)
    data = path.read_bytes()
    for mutant in mutants(data, n_mutants // 4 if suffix == "h5ad" else n_mutants):
        path.write_bytes(mutant)
        got = read_or_refuse(path)
        if got is not None and suffix in ("csv.gz", "npz"):
            # These kinds have a checksum over the values: what is read is what was written.
            shared = [n for n in got.sample_names.tolist() if n in original.sample_names.tolist()]
            rows = [original.sample_names.tolist().index(name) for name in shared]
            mine = [got.sample_names.tolist().index(name) for name in shared]
            assert np.array_equal(got.values[mine], original.values[rows], equal_nan=True)


@how_many
@pytest.mark.parametrize("suffix", ["txt", "txt.gz"])
def test_mutated_series_matrices_and_label_files_are_refused_or_read(tmp_path, suffix, n_mutants):
    path, labels = tmp_path / f"m.{suffix}", tmp_path / "labels.csv"
    data = series_matrix(n_features=6).encode()
    for mutant in mutants(data, n_mutants):
        path.write_bytes(gzip.compress(mutant) if suffix == "txt.gz" else mutant)
        read_or_refuse(path)
    data = b"id,relapse,years\n" + b"".join(b"s%d,%d,%d.5\n" % (i, i % 2, i) for i in range(12))
    for mutant in mutants(data, n_mutants):
        labels.write_bytes(mutant)
        with suppress(TableError):
            got = read_labels(labels)
            assert all(len(column) == len(got.sample_names) for column in got.columns.values())


# -------------------------------------------------------------------------------------------- invented files


@quick
@given(data=st.binary(max_size=200), suffix=st.sampled_from(["csv", "tsv", "gct", "npz", "txt"]))
def test_any_bytes_are_refused_or_read(tmp_path, data, suffix):
    path = tmp_path / f"t.{suffix}"
    path.write_bytes(data)
    read_or_refuse(path)
    if suffix in ("csv", "tsv"):
        with suppress(TableError):
            read_labels(path)


cell = st.one_of(
    st.sampled_from([*CELLS, "1", "2.5", "-3e2", "a", "case", " 1", "+4", "null", "1.0"]),
    st.text(st.characters(blacklist_categories=("Cs",), blacklist_characters='"\r\n,'), max_size=4),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
)


def cells(width):
    return st.lists(st.lists(cell, min_size=width, max_size=width), min_size=2, max_size=5)


@quick
@given(rows=st.integers(2, 4).flatmap(cells), orientation=st.sampled_from(["rows", "columns"]))
def test_any_cells_are_refused_or_read_as_they_stand(tmp_path, rows, orientation):
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(rows)
    path = tmp_path / "t.csv"
    path.write_text(out.getvalue(), encoding="utf-8", newline="")
    table = read_or_refuse(path, samples=orientation)
    if table is not None:
        text = path.read_bytes().decode("utf-8-sig")
        check_against_text(table, text, ",", orientation)


NOTE = st.text('a"\n,;1 ', max_size=6)


@quick
@given(
    notes=st.lists(NOTE, min_size=1, max_size=40),
    line_end=st.sampled_from(["\n", "\r\n"]),
    all_quoted=st.booleans(),
)
def test_line_breaks_between_quotes_are_part_of_a_cell(tmp_path, notes, line_end, all_quoted):
    quoting = csv.QUOTE_ALL if all_quoted else csv.QUOTE_MINIMAL
    text = io.StringIO(newline="")
    rows = [["sample", "note", "x"], *([f"s{i}", note, i] for i, note in enumerate(notes))]
    csv.writer(text, lineterminator=line_end, quoting=quoting).writerows(rows)
    path = tmp_path / "t.csv"
    path.write_bytes(text.getvalue().encode())
    blocks = list(iter_row_blocks(path, label_columns=["note"], rows_per_block=3))
    assert [note for block in blocks for note in block.labels["note"].tolist()] == notes
    assert [x for block in blocks for x in block.values[:, 0].tolist()] == list(range(len(notes)))
    path.write_bytes(b'sample,x\n5" pipe,1\nx""y,3\n')  # quotes inside a cell are text
    assert read_or_refuse(path).sample_names.tolist() == ['5" pipe', 'x""y']
