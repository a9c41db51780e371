"""Reading tables: at once, or in blocks of samples with bounded memory."""

import os
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path

import numpy as np

from suquan.io import _budget
from suquan.io._cells import label_array, text_array
from suquan.io._delimited import open_delimited
from suquan.io._errors import TableError, file_errors, listed
from suquan.io._gct import open_gct
from suquan.io._h5ad import open_h5ad
from suquan.io._kinds import DELIMITERS, FileKind, kind_of_file
from suquan.io._npz import open_npz
from suquan.io._parquet import open_parquet
from suquan.io._series_matrix import open_series_matrix
from suquan.io._source import Block, ReadOptions, Source
from suquan.io._table import Table, names_problem, repeated_names
from suquan.io._text import TextFile
from suquan.io._tiles import Tiles

OWN_PLACE = {"gct": "columns", "series_matrix": "columns", "h5ad": "rows", "npz": "rows"}


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
        ``.parquet``; ``.h5ad``; ``.npz``. A ``.txt`` file that begins with ``!`` is a GEO series matrix.
    samples : {"auto", "rows", "columns"}, default="auto"
        Where the samples lie in a CSV, TSV or Parquet file. ``"auto"``: where more of ``sample_names`` are
        found; without ``sample_names``, in rows. The other kinds have a place of their own.
    sample_names : iterable of str or None, default=None
        Names of samples that are expected, for instance those of a label file.
    label_columns : iterable of str, default=()
        Columns (rows, where samples lie in columns) that are labels and no features. Columns of text are
        labels without being named here.
    ignore_columns : iterable of str, default=()
        Columns that are not read.
    layer : str or None, default=None
        h5ad only: the layer to read instead of ``X``.

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
    source = open_source(
        path,
        _options(samples, sample_names, label_columns, ignore_columns, layer),
    )
    with file_errors(source.path):
        return _whole_table(source)


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

    Where samples lie in rows the file is read once, a block at a time. Where they lie in columns the values
    pass through a temporary file of 8 bytes per value (in ``tempfile.gettempdir()``) before the first block
    comes. In either case memory holds a block and a buffer of a few tens of MiB, and the names.

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
    source = open_source(
        path,
        _options(samples, sample_names, label_columns, ignore_columns, layer),
    )
    blocks = _sample_blocks if source.orientation == "rows" else _turned_blocks
    return blocks(source, rows_per_block)


def _options(samples, sample_names, label_columns, ignore_columns, layer) -> ReadOptions:
    if samples not in ("auto", "rows", "columns"):
        raise ValueError(f"samples must be 'auto', 'rows' or 'columns', got {samples!r}")
    for name, given in (("label_columns", label_columns), ("ignore_columns", ignore_columns)):
        if isinstance(given, str):
            raise ValueError(f"{name} takes several names; write [{given!r}]")
    return ReadOptions(
        samples=samples,
        sample_names=None if sample_names is None else frozenset(map(str, sample_names)),
        label_columns=tuple(dict.fromkeys(label_columns)),
        ignore_columns=tuple(dict.fromkeys(ignore_columns)),
        layer=layer,
    )


def open_source(path: str | os.PathLike, options: ReadOptions) -> Source:
    """Open a file of any kind."""
    path = Path(path)
    file = kind_of_file(path)
    if options.layer is not None and file.kind != "h5ad":
        raise TableError(
            f"{path}: layers are a part of h5ad files, not of {file.kind}; leave layer out"
        )
    if file.kind in ("csv", "tsv"):
        text = TextFile(path, file.gzipped, DELIMITERS[file.kind])
        return open_delimited(text, file.kind, options)
    if file.kind == "parquet":
        return open_parquet(path, options)
    return _check_labels(_open_fixed(path, file, options), options)


def _open_fixed(path: Path, file: FileKind, options: ReadOptions) -> Source:
    """Open a file of a kind that has its own place for samples and for labels."""
    place = OWN_PLACE[file.kind]
    if options.samples not in ("auto", place):
        raise TableError(
            f"{path}: a {file.kind} file has its samples in {place}; leave samples out"
        )
    if file.kind == "gct":
        text = TextFile(path, file.gzipped, DELIMITERS["gct"], quoted=False, skip=2)
        return open_gct(text, options)
    if file.kind == "series_matrix":
        return open_series_matrix(path, file.gzipped, options)
    return open_h5ad(path, options) if file.kind == "h5ad" else open_npz(path, options)


def _check_labels(source: Source, options: ReadOptions) -> Source:
    absent = [name for name in options.label_columns if name not in source.labels]
    if absent:
        raise TableError(
            f"{source.path}: there is no label {listed(absent)}; there is {listed(source.labels) or 'none'}"
        )
    return source


# ----------------------------------------------------------------------------------------------- at once


def _whole_table(source: Source) -> Table:
    blocks = list(source.blocks(None))
    names = [name for block in blocks for name in block.names]
    if not names:
        raise TableError(f"{source.path}: holds a header and no rows")
    if source.orientation == "rows":
        values = np.concatenate([block.values for block in blocks])
        labels = {name: _join([b.labels[name] for b in blocks]) for name in blocks[0].labels}
        return _table(source, values, names, source.column_names, labels)
    values = np.concatenate([block.values.T for block in blocks], axis=1)
    return _table(source, values, source.column_names, names, source.column_labels)


def _join(parts: list) -> np.ndarray:
    if isinstance(parts[0], list):
        return label_array([cell for part in parts for cell in part])
    return np.concatenate(parts)


def _table(source: Source, values, sample_names, feature_names, labels) -> Table:
    _check_names(source, sample_names, "sample")
    _check_names(source, feature_names, "feature")
    _check_finite(source, values, sample_names, feature_names)
    return Table(
        values=np.ascontiguousarray(values),
        sample_names=sample_names,
        feature_names=feature_names,
        labels=labels,
        orientation=source.stored_orientation or source.orientation,
        kind=source.kind,
    )


def _check_names(source: Source, names, what: str) -> None:
    problem = names_problem(list(names))
    if problem is not None:
        raise TableError(f"{source.path}: {what} names: {problem}")


def _check_finite(source: Source, values: np.ndarray, sample_names, feature_names) -> None:
    infinite = np.isinf(values)
    if infinite.any():
        i, j = np.argwhere(infinite)[0]
        raise TableError(
            f"{source.path}: {listed([sample_names[i]])}, feature {listed([feature_names[j]])}: the value is "
            "infinite; a table holds finite numbers and missing values"
        )


# ---------------------------------------------------------------------------------------------- in blocks


def _sample_blocks(source: Source, n_rows: int | None) -> Iterator[Table]:
    """Blocks of samples that lie in rows."""
    _check_names(source, source.column_names, "feature")
    n_rows = n_rows or _budget.rows(len(source.column_names))
    seen: set[str] = set()
    with file_errors(source.path):
        for block in _regroup(source.blocks(n_rows), n_rows):
            repeated = repeated_names(block.names) or sorted(seen.intersection(block.names))
            if repeated:
                _check_names(source, [repeated[0], repeated[0]], "sample")
            seen.update(block.names)
            labels = {name: _label_block(cells) for name, cells in block.labels.items()}
            yield _table(source, block.values, block.names, source.column_names, labels)
    if not seen:
        raise TableError(f"{source.path}: holds a header and no rows")


def _label_block(cells) -> np.ndarray:
    return text_array(cells) if isinstance(cells, list) else cells


def _regroup(blocks: Iterator[Block], n_rows: int) -> Iterator[Block]:
    """The same rows in blocks of n_rows, fewer in the last."""
    waiting: list[Block] = []
    for block in blocks:
        start = 0
        while start < len(block.names):
            room = n_rows - sum(len(part.names) for part in waiting)
            waiting.append(_rows(block, start, start + room))
            start += room
            if sum(len(part.names) for part in waiting) == n_rows:
                yield _joined(waiting)
                waiting = []
    if waiting:
        yield _joined(waiting)


def _rows(block: Block, start: int, stop: int) -> Block:
    part = slice(start, stop)
    labels = {name: cells[part] for name, cells in block.labels.items()}
    return Block(block.names[part], block.values[part], labels)


def _joined(parts: list[Block]) -> Block:
    labels: dict = {}
    for name, first in parts[0].labels.items():
        cells = [part.labels[name] for part in parts]
        labels[name] = (
            list(chain.from_iterable(cells)) if isinstance(first, list) else np.concatenate(cells)
        )
    values = np.concatenate([part.values for part in parts])
    return Block([name for part in parts for name in part.names], values, labels)


def _turned_blocks(source: Source, n_samples: int | None) -> Iterator[Table]:
    """Blocks of samples that lie in columns, turned through a temporary file."""
    _check_names(source, source.column_names, "sample")
    names: list[str] = []
    per_block = _budget.rows(len(source.column_names))
    with file_errors(source.path), Tiles() as tiles:
        for block in source.blocks(per_block):
            names += block.names
            tiles.add(block.values)
        if not names:
            raise TableError(f"{source.path}: holds a header and no rows")
        step = n_samples or _budget.rows(len(names))
        for start in range(0, len(source.column_names), step):
            stop = min(start + step, len(source.column_names))
            labels = {name: column[start:stop] for name, column in source.column_labels.items()}
            samples = source.column_names[start:stop]
            yield _table(source, tiles.columns(start, stop), samples, names, labels)
