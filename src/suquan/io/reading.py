"""Reading tables: at once, or in blocks of samples with bounded memory.

Every kind is opened as a `Source` by the function of its format; here its rows are made samples.
"""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from suquan.io._cells import label_array, text_array
from suquan.io._delimited import open_delimited
from suquan.io._errors import TableError, file_errors, listed, refuse
from suquan.io._headed import open_gct, open_series_matrix
from suquan.io._kinds import DELIMITERS, kind_of_file
from suquan.io._matrices import open_h5ad
from suquan.io._npz import open_npz
from suquan.io._parquet import open_parquet
from suquan.io._source import Block, ReadOptions, Source, Tiles, rows_at_once
from suquan.io._table import Table, as_names
from suquan.io._text import TextFile

OPENERS = {"h5ad": open_h5ad, "npz": open_npz, "parquet": open_parquet}
TEXT_OPENERS = {
    "csv": open_delimited,
    "tsv": open_delimited,
    "gct": open_gct,
    "series_matrix": open_series_matrix,
}
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
    options = _options(samples, sample_names, label_columns, ignore_columns, layer)
    source = open_source(path, options)
    with file_errors(source.path):
        blocks = list(source.blocks())
        refuse(not blocks, "holds a header and no rows")
        return _table(source, Block.join(blocks, source.orientation), slice(None), label_array)


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
    options = _options(samples, sample_names, label_columns, ignore_columns, layer)
    source = open_source(path, options)
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
    with file_errors(path):
        kind, gzipped = kind_of_file(path)
        has_none = options.layer is not None and kind != "h5ad"
        refuse(has_none, f"layers are a part of h5ad files, not of {kind}; leave layer out")
        place = OWN_PLACE.get(kind, options.samples)
        is_elsewhere = options.samples not in ("auto", place)
        refuse(is_elsewhere, f"a {kind} file has its samples in {place}; leave samples out")
        if kind in TEXT_OPENERS:
            text = TextFile(path, gzipped, DELIMITERS[kind])
            source = TEXT_OPENERS[kind](text, kind, options)
        else:
            source = OPENERS[kind](path, kind, options)
        named = options.in_terms_of(source.labels).label_columns
        absent = listed(name for name in named if name not in source.labels)
        found = listed(source.labels) or "none"
        refuse(kind in OWN_PLACE and absent, f"there is no label {absent}; there is {found}")
    return source


# ------------------------------------------------------------------------------------------------- tables


def _table(source: Source, block: Block, part: slice, as_label=text_array) -> Table:
    """A block as a table; `part` is the place of its samples among those of the source."""
    labels = {name: column[part] for name, column in source.labels.items()}
    for name, column in block.labels.items():
        is_written = source.kind in DELIMITERS  # the cells as they are in the file
        labels[name] = as_label(column.tolist()) if is_written else column
    values: np.ndarray = block.values
    samples: Any = block.names
    features: Any = source.column_names
    if source.orientation == "columns":
        samples, features, values = source.column_names[part], block.names, values.T
    values = np.ascontiguousarray(values)
    side = source.stored_orientation or source.orientation
    table = Table(values, samples, features, labels, side, source.kind)
    infinite = np.argwhere(np.isinf(values))
    if len(infinite):
        i, j = infinite[0]
        raise TableError(
            f"{listed([samples[i]])}, feature {listed([features[j]])}: the value is "
            "infinite; a table holds finite numbers and missing values"
        )
    return table


def _sample_blocks(source: Source, n_rows: int | None) -> Iterator[Table]:
    """Blocks of samples that lie in rows."""
    n_rows = n_rows or rows_at_once(len(source.column_names))
    seen: set[str] = set()
    with file_errors(source.path):
        for block in _regroup(source.blocks(), n_rows):
            names = block.names.tolist()
            as_names([*sorted(seen.intersection(names)), *names], "sample")
            yield _table(source, block, slice(len(seen), len(seen) + len(names)))
            seen.update(names)
        refuse(not seen, "holds a header and no rows")


def _regroup(blocks: Iterator[Block], n_rows: int) -> Iterator[Block]:
    """The same rows in blocks of n_rows, fewer in the last."""
    waiting: list[Block] = []
    count = 0
    for block in blocks:
        waiting.append(block)
        count += len(block.names)
        while count >= n_rows:
            joined = Block.join(waiting)
            yield joined.rows(0, n_rows)
            waiting, count = [joined.rows(n_rows, None)], count - n_rows
    if count:
        yield Block.join(waiting)


def _turned_blocks(source: Source, n_samples: int | None) -> Iterator[Table]:
    """Blocks of samples that lie in columns, turned through a temporary file."""
    names: list[np.ndarray] = []
    with file_errors(source.path), Tiles() as tiles:
        as_names(source.column_names, "sample")
        for block in source.blocks():
            names.append(block.names)
            tiles.add(block.values)
        refuse(not names, "holds a header and no rows")
        features = np.concatenate(names)
        step = n_samples or rows_at_once(len(features))
        for start in range(0, len(source.column_names), step):
            part = slice(start, min(start + step, len(source.column_names)))
            values = tiles.columns(part.start, part.stop).T
            yield _table(source, Block(features, values, {}), part)
