"""Writing tables: at once, or in blocks of samples with bounded memory."""

import os
import secrets
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from pathlib import Path

import numpy as np

from suquan.io._errors import TableError, file_errors, listed
from suquan.io._headed import write_gct
from suquan.io._kinds import KNOWN, kind_of_name
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
            self.kind = kind_of_name(self.path)
            check_destination(self.path)
        if orientation not in ("rows", "columns"):
            raise ValueError(f"orientation must be 'rows' or 'columns', got {orientation!r}")
        self.orientation = orientation
        self._hidden = self.path.with_name(f".{self.path.name}.{secrets.token_hex(4)}.tmp")
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
            if np.isinf(block.values).any():
                raise TableError("a value is infinite; tables hold finite numbers")
            if self._target is None:
                self._target = self._start(block)
            target, names = self._target, block.sample_names.tolist()
            if target.features != block.feature_names.tolist():
                raise TableError("a block has other features than the first")
            if list(target.parts) != list(block.labels):
                raise TableError("a block has other label columns than the first")
            repeated = listed(name for name in names if name in target.samples)
            if repeated:
                raise TableError(f"{repeated} was written before; names must differ")
            target.samples.update(dict.fromkeys(names))
            for name, column in block.labels.items():
                target.parts[name].append(column)
            self._writer.send(block)

    def _start(self, block: Table) -> Target:
        """Start the writer of the kind, with what the first block says."""
        if not block.n_features:
            raise TableError("the table has no features")
        features, dtype = block.feature_names.tolist(), block.values.dtype
        parts: dict[str, list[np.ndarray]] = {name: [] for name in block.labels}
        target = Target(self._hidden, *self.kind, features, dtype, parts)
        self._writer = WRITERS[target.kind][self.orientation == "columns"](target)
        next(self._writer)
        return target

    def close(self) -> None:
        """Complete the file and give it its name."""
        if self._closed:
            return
        self._closed = True
        try:
            with file_errors(self.path, UnicodeEncodeError):
                if self._target is None or not self._target.samples:
                    raise TableError("there was no sample to write")
                with suppress(StopIteration):
                    self._writer.send(None)
                os.replace(self._hidden, self.path)
        except BaseException:
            self.abandon()
            raise

    def abandon(self) -> None:
        """Throw away what was written."""
        self._closed = True
        if self._target is not None:
            self._writer.close()
        self._hidden.unlink(missing_ok=True)

    def __exit__(self, kind, *_) -> None:
        if kind is None:
            self.close()
        else:
            self.abandon()


def check_destination(path: Path) -> None:
    """Refuse a place that cannot be written to, before the work begins."""
    if "_series_matrix" in path.name:
        raise TableError(
            f"series matrix files are read, not written; choose another kind ({KNOWN})"
        )
    if path.is_dir():
        raise TableError("this is a directory; give a file")
    if not path.resolve().parent.is_dir():
        raise TableError(f"there is no folder {path.parent}; make it first")
