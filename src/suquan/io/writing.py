"""Write tables: at once, or in blocks of samples; here are the writers of text and npy, too.

A writer of blocks is a context manager, which gives a function that takes them; what it opened is closed when
it ends. `blocks` writes Dask arrays through the same `TableWriter`.
"""

import csv
import gzip
import io
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy

from suquan.files.disk import replaced
from suquan.io._anndata import anndata_writer
from suquan.io._errors import TableError, file_errors, listed, refuse
from suquan.io._kinds import KNOWN, TEXT_KINDS, kind_of_name
from suquan.io._npz import write_npz
from suquan.io._parquet import parquet_writer, write_parquet_columns
from suquan.io._table import Table, header_of, join_tables
from suquan.io._text import dialect

MISSING_CELL = "NA"


def write_table(table: Table, path: str | os.PathLike) -> None:
    """Write a table; the name of the file says the kind.

    The file appears when it is complete: it is written under another name in the same folder and renamed.
    Numbers are written so that reading gives the same doubles.

    Parameters
    ----------
    table : Table
        What to write. CSV, TSV and Parquet files have the samples where ``table.orientation`` says.
    path : str or path-like
        ``.csv``, ``.tsv``, ``.txt`` or ``.gct``, each also with ``.gz``; ``.parquet``; ``.h5ad``; ``.zarr``;
        ``.npz``; ``.npy``, which has no place for names and labels.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from suquan.io import Table, read_table, write_table
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "expression.csv"
    >>> write_table(Table([[0.1, 2.0]], ["s1"], ["TP53", "ESR1"]), path)
    >>> print(path.read_text(), end="")
    sample,TP53,ESR1
    s1,0.1,2.0
    >>> read_table(path).values
    array([[0.1, 2. ]])
    """
    with TableWriter(path, orientation=table.orientation) as writer:
        writer.write(table)


class TableWriter(AbstractContextManager):
    """Write a table in blocks of samples.

    Memory holds a block; where samples go in columns, and for npz and GCT files, the whole table.

    Parameters
    ----------
    path : str or path-like
        As for `write_table`. Nothing appears there before `close`; after an exception inside ``with``
        nothing does, and a file that was there before stays.
    orientation : {"rows", "columns"}, default="rows"
        Where the samples go in a CSV, TSV or Parquet file; the other kinds have a place of their own.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from suquan.io import Table, TableWriter, iter_row_blocks, write_table
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> write_table(Table([[1.0, 2.0], [3.0, 4.0]], ["s1", "s2"], ["a", "b"]), folder / "in.csv")
    >>> with TableWriter(folder / "out.csv") as writer:
    ...     for block in iter_row_blocks(folder / "in.csv", rows_per_block=1):
    ...         writer.write(block)
    >>> (folder / "out.csv").read_text() == (folder / "in.csv").read_text()
    True
    """

    def __init__(self, path: str | os.PathLike, *, orientation: str = "rows"):
        self.path = Path(path)
        if orientation not in ("rows", "columns"):
            raise ValueError(f"orientation must be 'rows' or 'columns', got {orientation!r}")
        self.orientation = orientation
        with file_errors(self.path):
            self.kind, self._gzipped = kind_of_name(self.path)
            check_destination(self.path, self.kind)
            is_read = self.kind in TEXT_KINDS and "_series_matrix" in self.path.name
            what = "series matrix files are read, not written"
            refuse(is_read, f"{what}; choose another kind ({KNOWN})")
        self._work = ExitStack()
        self._columns: tuple[list[str], list[str]] | None = None
        self._samples: set[str] = set()
        self._closed = False

    def write(self, block: Table) -> None:
        """Append samples; every block has the features and label columns of the first.

        Parameters
        ----------
        block : Table
            Samples that were not written before.
        """
        if self._closed:
            raise ValueError(f"{self.path}: the table is complete; open another writer")
        with file_errors(self.path, UnicodeEncodeError):
            is_infinite = self.kind != "npy" and np.isinf(block.values).any()
            refuse(is_infinite, "a value is infinite; tables hold finite numbers")
            refuse(not block.n_features, "the table has no features")
            names, columns = block.sample_names.tolist(), block.feature_names.tolist()
            if self._columns is None:
                self._columns = columns, list(block.labels)
                self._add = self._start(block)
            others = "a block has other {} than the first"
            refuse(columns != self._columns[0], others.format("features"))
            refuse(list(block.labels) != self._columns[1], others.format("label columns"))
            repeated = listed(sorted(self._samples.intersection(names)))
            refuse(repeated, f"{repeated} was written before; names must differ")
            self._samples.update(names)
            self._add(block)

    def _start(self, first: Table) -> Callable[[Table], None]:
        """Start the writer of the kind on a temporary file, which takes its place at the end."""
        new = self._work.enter_context(replaced(self.path))
        name = "text" if self.kind in TEXT_KINDS else self.kind
        if self.kind in ("gct", "npz") or (self.orientation == "columns" and name in WHOLE):
            writer = _when_complete(WHOLE[name], new, self.kind, self._gzipped)
        else:
            writer = IN_ROWS[name](new, first, self.kind, self._gzipped)
        return self._work.enter_context(writer)

    def close(self) -> None:
        """Complete the file and give it its name."""
        if not self._closed:
            self._closed = True
            with file_errors(self.path, UnicodeEncodeError):
                refuse(not self._samples, "there was no sample to write")
                self._work.close()

    def abandon(self) -> None:
        """Throw away what was written."""
        with suppress(_AbandonedError), self:
            raise _AbandonedError

    def __exit__(self, kind, error, trace) -> None:
        if kind is None:
            self.close()
        else:
            self._closed = True
            self._work.__exit__(kind, error, trace)


class _AbandonedError(Exception):
    """Ends the writers before the table is complete."""


def check_destination(path: Path, kind: str = "") -> None:
    """Refuse a place that cannot be written to, before the work begins."""
    with file_errors(path):
        is_nowhere = not path.resolve().parent.is_dir()
        refuse(is_nowhere, f"there is no folder {path.parent}; make it first")
        refuse(kind != "zarr" and path.is_dir(), "this is a directory; give a file")
        is_zarr = any((path / name).is_file() for name in ("zarr.json", ".zarray", ".zgroup"))
        is_other = kind == "zarr" and path.exists() and not is_zarr
        refuse(is_other, "is there and is no zarr; give another name, or remove it")


@contextmanager
def _when_complete(write: Callable, path: Path, *how: Any) -> Iterator[Callable[[Table], None]]:
    """Collect the blocks of a format that can be written only when all samples are known."""
    blocks: list[Table] = []
    yield blocks.append
    write(path, join_tables(blocks), *how)


@contextmanager
def _npy_writer(path: Path, first: Table, *_: Any) -> Iterator[Callable[[Table], None]]:
    """Write the values alone; NumPy leaves space in a header for the number of rows to grow."""
    dtype, n_rows = first.values.dtype.newbyteorder("<"), 0
    header: dict[str, Any] = {"descr": npy.dtype_to_descr(dtype), "fortran_order": False}
    with path.open("wb") as file:
        npy.write_array_header_1_0(file, header | {"shape": (0, first.n_features)})

        def add(block: Table) -> None:
            nonlocal n_rows
            n_rows += block.n_samples
            file.write(np.ascontiguousarray(block.values, dtype).data)

        yield add
        file.seek(0)
        npy.write_array_header_1_0(file, header | {"shape": (n_rows, first.n_features)})


# ---------------------------------------------------------------------------------------------------- text


@contextmanager
def _text_rows(path: Path, kind: str, gzipped: bool) -> Iterator[Any]:
    """A writer of rows, plain or gzip-compressed."""
    with ExitStack() as files:
        file: Any = files.enter_context(path.open("wb"))
        if gzipped:
            # No name and no time inside, so that the same table gives the same bytes.
            file = gzip.GzipFile("", "wb", fileobj=file, mtime=0, compresslevel=4)
        lines = files.enter_context(io.TextIOWrapper(file, encoding="utf-8", newline=""))
        quotes: Any = {"quotechar": None} if kind == "gct" else {}
        try:
            yield csv.writer(lines, lineterminator="\n", **dialect(kind), **quotes)
        except csv.Error as error:
            raise TableError(
                f"a name holds a tab or a line break ({error}); this kind of file has no quotes; rename it"
            ) from None


@contextmanager
def _text_writer(path: Path, first: Table, *how: Any) -> Iterator[Callable[[Table], None]]:
    """Write samples in rows: name, labels, values."""
    header = header_of(first, "sample")
    with _text_rows(path, *how) as out:
        out.writerow(header)

        def add(block: Table) -> None:
            labels = [_label_cells(column) for column in block.labels.values()]
            for i, name in enumerate(block.sample_names.tolist()):
                cells = [column[i] for column in labels]
                out.writerow([name, *cells, *_number_cells(block.values[i])])

        yield add


def _write_text_columns(path: Path, table: Table, kind: str, gzipped: bool) -> None:
    """Write samples in columns: label rows, then a row for every feature; GCT as version 1.2."""
    samples = table.sample_names.tolist()
    heading, more = ["" if "feature" in samples else "feature"], list[str]()
    if kind == "gct":
        heading, more = ["Name", "Description"], ["na"]
        cure = "write .tsv or .parquet, or leave the labels out"
        refuse(table.labels, f"a GCT file has no place for labels ({listed(table.labels)}); {cure}")
        taken = listed(sorted({*heading}.intersection(samples)))
        refuse(taken, f"{taken} is a column of its own in a GCT file; rename the sample")
    header_of(table, "")  # refuses a label that is called like a feature
    with _text_rows(path, kind, gzipped) as out:
        if kind == "gct":
            out.writerows([["#1.2"], [table.n_features, table.n_samples]])
        out.writerow([*heading, *samples])
        for name, column in table.labels.items():
            out.writerow([name, *_label_cells(column)])
        for name, values in zip(table.feature_names.tolist(), table.values.T, strict=True):
            out.writerow([name, *more, *_number_cells(values)])


def _number_cells(values: np.ndarray) -> list:
    """Python floats, which are written by their shortest exact form; NA where missing."""
    return [MISSING_CELL if cell != cell else cell for cell in values.astype(np.float64).tolist()]


def _label_cells(column: np.ndarray) -> list:
    """Label cells: numbers as numbers (whole ones without a point), NA where missing."""
    if column.dtype.kind != "f":
        return [cell or MISSING_CELL for cell in column.tolist()]
    cells = _number_cells(column)
    whole = [isinstance(c, float) and c.is_integer() and abs(c) < 2**53 for c in cells]
    return [int(cell) if is_whole else cell for cell, is_whole in zip(cells, whole, strict=True)]


# Writers of blocks with samples in rows, and of whole tables.
IN_ROWS: dict[str, Callable] = {
    "text": _text_writer,
    "parquet": parquet_writer,
    "h5ad": anndata_writer,
    "zarr": anndata_writer,
    "npy": _npy_writer,
}
WHOLE: dict[str, Callable] = {
    "text": _write_text_columns,
    "parquet": write_parquet_columns,
    "npz": write_npz,
}
