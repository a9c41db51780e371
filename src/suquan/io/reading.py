"""Read tables: at once, or in blocks of samples.

Every kind is opened as a `Source` by the function of its format; here its blocks are checked and put together.
"""

import os
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from suquan.io._anndata import AnnDataMatrix
from suquan.io._delimited import open_delimited
from suquan.io._errors import TableError, file_errors, listed, quoted, refuse
from suquan.io._headed import open_gct, open_series_matrix
from suquan.io._kinds import TEXT_KINDS, kind_of_file
from suquan.io._matrices import NpyMatrix, open_table
from suquan.io._npz import open_npz
from suquan.io._parquet import open_parquet
from suquan.io._source import ReadOptions, Source, check_labels, check_layer, rows_at_once
from suquan.io._table import Table, cut_table, join_tables
from suquan.io._text import TextFile, label_array

OPENERS: dict[str, Any] = {
    "csv": open_delimited,
    "tsv": open_delimited,
    "gct": open_gct,
    "series_matrix": open_series_matrix,
    "parquet": open_parquet,
    "npz": open_npz,
    "npy": lambda *given: open_table(NpyMatrix.open(*given)),
    "h5ad": lambda *given: open_table(AnnDataMatrix.open(*given)),
    "zarr": lambda *given: open_table(AnnDataMatrix.open(*given)),
}
# Kinds in which the samples have a place of their own.
OWN_PLACE = {
    **dict.fromkeys(("gct", "series_matrix"), "columns"),
    **dict.fromkeys(("h5ad", "zarr", "npz", "npy"), "rows"),
}


def read_table(
    path: str | os.PathLike,
    *,
    samples: str = "auto",
    sample_names: Iterable[str] | None = None,
    label_columns: Iterable[str] = (),
    ignore_columns: Iterable[str] = (),
    layer: str | None = None,
) -> Table:
    r"""Read a table of samples and features.

    Parameters
    ----------
    path : str or path-like
        File whose name says its kind: ``.csv``, ``.tsv``, ``.txt`` or ``.gct``, each also with ``.gz``;
        ``.parquet``; ``.h5ad``; ``.zarr``, a folder written by AnnData; ``.npz``; ``.npy``, whose samples and
        features are called ``sample_1``, ``feature_1`` and so on. A ``.txt`` file that begins with ``!`` is a
        GEO series matrix.
    samples : {"auto", "rows", "columns"}, default="auto"
        Where the samples lie in a CSV, TSV or Parquet file. ``"auto"``: where more of ``sample_names`` are
        found; without ``sample_names``, as ``label_columns`` or the heading of the names say (``sample``,
        ``gene``, …); one row or one column is one sample. Any other table is refused. The other kinds have a
        place of their own.
    sample_names : iterable of str or None, default=None
        Names of samples that are expected, for instance those of a label file.
    label_columns : iterable of str, default=()
        Columns (rows, where samples lie in columns) that are labels and no features. Columns of text are
        labels without being named here. Names may differ from the header's by case and outer blanks.
    ignore_columns : iterable of str, default=()
        Columns that are not read.
    layer : str or None, default=None
        h5ad and zarr only: the layer to read instead of ``X``.

    Returns
    -------
    Table
        Values with samples in rows, names, labels.

    Raises
    ------
    TableError
        If the file cannot be read without doubt; the message names the place.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from suquan.io import read_table
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "expression.csv"
    >>> _ = path.write_text("sample,TP53,ESR1,group\n007,1.5,NA,case\n008,2.5,4,control\n")
    >>> table = read_table(path)
    >>> table.sample_names.tolist(), table.feature_names.tolist()
    (['007', '008'], ['TP53', 'ESR1'])
    >>> table.values
    array([[1.5, nan],
           [2.5, 4. ]])
    >>> table.labels["group"].tolist()
    ['case', 'control']
    """
    options = ReadOptions(samples, sample_names, label_columns, ignore_columns, layer)
    source = open_source(path, options)
    tables = list(_tables(Path(path), source))
    with file_errors(path):
        table = _contiguous(join_tables(tables))
    if source.kind not in ("csv", "tsv") or source.orientation == "columns":
        return table
    labels = {name: label_array(column.tolist()) for name, column in table.labels.items()}
    return replace(table, labels=labels)


def iter_row_blocks(
    path: str | os.PathLike,
    *,
    samples: str = "auto",
    sample_names: Iterable[str] | None = None,
    label_columns: Iterable[str] = (),
    ignore_columns: Iterable[str] = (),
    layer: str | None = None,
    rows_per_block: int | None = None,
) -> Iterator[Table]:
    r"""Read a table in blocks of samples, with bounded memory.

    Where samples lie in rows of a CSV, TSV, Parquet, h5ad, zarr or npy file, memory holds a block, a buffer of
    a few tens of MiB (of Parquet, a row group), and the names. Any other file is read whole.

    Parameters
    ----------
    path, samples, sample_names, label_columns, ignore_columns, layer
        As for `read_table`.
    rows_per_block : int or None, default=None
        Samples in a block (fewer in the last); None: about 32 MiB of values.

    Yields
    ------
    Table
        Consecutive samples. The labels of CSV and TSV files are text here, also where all are numbers:
        whether they are is known at the end of the file only.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from suquan.io import iter_row_blocks
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "expression.tsv"
    >>> _ = path.write_text("gene\ts1\ts2\ts3\nTP53\t1\t2\t3\nESR1\t4\t5\t6\n")
    >>> for block in iter_row_blocks(path, samples="columns", rows_per_block=2):
    ...     print(block.sample_names.tolist(), block.values.tolist())
    ['s1', 's2'] [[1.0, 4.0], [2.0, 5.0]]
    ['s3'] [[3.0, 6.0]]
    """
    if rows_per_block is not None and rows_per_block < 1:
        raise ValueError(f"rows_per_block must be positive, got {rows_per_block}")
    options = ReadOptions(samples, sample_names, label_columns, ignore_columns, layer)
    return _regroup(_tables(Path(path), open_source(path, options)), rows_per_block)


def open_source(path: str | os.PathLike, options: ReadOptions) -> Source:
    """Open a file of any kind."""
    path = Path(path)
    with file_errors(path):
        kind, gzipped = kind_of_file(path)
        check_layer(options, kind)
        place = OWN_PLACE.get(kind, options.samples)
        is_elsewhere = options.samples not in ("auto", place)
        refuse(is_elsewhere, f"a {kind} file has its samples in {place}; leave samples out")
        given: Any = (path, kind) if kind not in TEXT_KINDS else (TextFile(path, gzipped, kind),)
        source = OPENERS[kind](*given, options)
        check_labels(options, source.label_names)
    return source


def _tables(path: Path, source: Source) -> Iterator[Table]:
    """The blocks of samples of a file, with different names and finite values."""
    seen: set[str] = set()
    with file_errors(path):
        for table in source.tables():
            names = table.sample_names.tolist()
            repeated = listed(sorted(seen.intersection(names)))
            refuse(repeated, f"sample names: {repeated} occurs more than once; names must differ")
            seen.update(names)
            infinite = np.argwhere(np.isinf(table.values))
            if len(infinite):
                i, j = infinite[0]
                raise TableError(
                    f"{quoted(names[i])}, feature {quoted(table.feature_names[j])}: the value is "
                    "infinite; a table holds finite numbers and missing values"
                )
            yield table
        refuse(not seen, "holds a header and no rows")


def _regroup(tables: Iterator[Table], n_rows: int | None) -> Iterator[Table]:
    """Cut blocks anew, with n_rows samples in all but the last."""
    waiting: list[Table] = []
    missing = 0  # samples that the next block waits for
    for table in tables:
        size = n_rows or rows_at_once(table.n_features)
        ends = [0, *range(missing or size, table.n_samples + 1, size)]
        for start, end in pairwise(ends):
            yield _contiguous(join_tables([*waiting, cut_table(table, start, end)]))
            waiting = []
        rest = cut_table(table, ends[-1], table.n_samples)
        waiting += [rest] if rest.n_samples else []
        missing = size - sum(part.n_samples for part in waiting)
    if waiting:
        yield _contiguous(join_tables(waiting))


def _contiguous(table: Table) -> Table:
    """The same with samples one after the other in memory."""
    return replace(table, values=np.ascontiguousarray(table.values))
