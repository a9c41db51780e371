"""Writing tables: at once, or in blocks of samples with bounded memory."""

import os
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from pathlib import Path

import numpy as np

from suquan._files import replaced
from suquan.io._errors import file_errors, listed, refuse
from suquan.io._headed import write_gct
from suquan.io._kinds import KNOWN, TEXT_KINDS, kind_of_name
from suquan.io._matrices import write_h5ad
from suquan.io._npz import write_npz
from suquan.io._parquet import write_parquet_columns, write_parquet_rows
from suquan.io._sinks import Target, Writer, write_text_columns, write_text_rows
from suquan.io._table import Table

# The writer of every kind for samples in rows, and for samples in columns.
WRITERS: dict[str, tuple[Callable[[Target], Writer], Callable[[Target], Writer]]] = {
    "csv": (write_text_rows, write_text_columns),
    "tsv": (write_text_rows, write_text_columns),
    "parquet": (write_parquet_rows, write_parquet_columns),
    "gct": (write_gct, write_gct),
    "h5ad": (write_h5ad, write_h5ad),
    "npz": (write_npz, write_npz),
}


def write_table(table: Table, path: str | os.PathLike) -> None:
    """Write a table; the name of the file says the kind.

    The file appears when it is complete: it is written under another name in the same folder and renamed.
    Numbers are written so that reading gives the same doubles.

    Parameters
    ----------
    table : Table
        What to write. CSV, TSV and Parquet files have the samples where ``table.orientation`` says.
    path : str or path-like
        ``.csv``, ``.tsv``, ``.txt`` or ``.gct``, each also with ``.gz``; ``.parquet``; ``.h5ad``; ``.npz``.

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
    """Write a table in blocks of samples, with bounded memory.

    Where samples go in columns, and for npz files, the values wait in a temporary file in the folder of the
    output, without a name, until the last block has come.

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
        with file_errors(self.path):
            self.kind, self._gzipped = kind_of_name(self.path)
            is_read = self.kind in TEXT_KINDS and "_series_matrix" in self.path.name
            what = "series matrix files are read, not written"
            refuse(is_read, f"{what}; choose another kind ({KNOWN})")
            check_destination(self.path)
        if orientation not in ("rows", "columns"):
            raise ValueError(f"orientation must be 'rows' or 'columns', got {orientation!r}")
        self.orientation = orientation
        self._target: Target | None = None
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
            refuse(np.isinf(block.values).any(), "a value is infinite; tables hold finite numbers")
            target, names = self._target or self._start(block), block.sample_names.tolist()
            others = "a block has other {} than the first"
            refuse(target.features != block.feature_names.tolist(), others.format("features"))
            refuse(list(target.parts) != list(block.labels), others.format("label columns"))
            repeated = listed(name for name in names if name in target.samples)
            refuse(repeated, f"{repeated} was written before; names must differ")
            target.samples.update(dict.fromkeys(names))
            for name, column in block.labels.items():
                target.parts[name].append(column)
            self._writer.send(block)

    def _start(self, block: Table) -> Target:
        """Start the writer of the kind, with what the first block says."""
        refuse(not block.n_features, "the table has no features")
        self._target = Target(
            self.path,
            self.kind,
            self._gzipped,
            block.feature_names.tolist(),
            block.values.dtype,
            {name: [] for name in block.labels},
        )
        self._writer = _in_place(WRITERS[self.kind][self.orientation == "columns"], self._target)
        next(self._writer)
        return self._target

    def close(self) -> None:
        """Complete the file and give it its name."""
        if self._closed:
            return
        self._closed = True
        try:
            with file_errors(self.path, UnicodeEncodeError):
                is_empty = self._target is None or not self._target.samples
                refuse(is_empty, "there was no sample to write")
                with suppress(StopIteration):
                    self._writer.send(None)
        except BaseException:
            self.abandon()
            raise

    def abandon(self) -> None:
        """Throw away what was written."""
        self._closed = True
        if self._target is not None:
            self._writer.close()

    def __exit__(self, kind, *_) -> None:
        if kind is None:
            self.close()
        else:
            self.abandon()


def _in_place(write: Callable[[Target], Writer], target: Target) -> Writer:
    """Run a writer on a temporary file that takes the target's place at the end."""
    with replaced(target.path) as new:
        yield from write(replace(target, path=new))


def check_destination(path: Path) -> None:
    """Refuse a place that cannot be written to, before the work begins."""
    with file_errors(path):
        refuse(path.is_dir(), "this is a directory; give a file")
        is_nowhere = not path.resolve().parent.is_dir()
        refuse(is_nowhere, f"there is no folder {path.parent}; make it first")
