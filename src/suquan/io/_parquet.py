"""Parquet: a column of names, columns of numbers, and columns of text that are labels."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from suquan.io._errors import TableError, file_errors, listed, quoted, refuse, require
from suquan.io._matrices import Matrix, refuse_layer
from suquan.io._sinks import Target, Writer, received, turned
from suquan.io._source import (
    Block,
    MatrixNames,
    ReadOptions,
    Source,
    Tiles,
    choose_orientation,
    rows_at_once,
)
from suquan.io._table import repeated_names

WISH = "reading and writing Parquet files"
LABEL = {b"suquan": b"label"}  # marks a column of numbers that is no feature
TEXT = {"string", "large_string", "string_view"}
INTEGER = {f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)}
NUMBER = {*INTEGER, "halffloat", "float", "double", "null"}
SMALL = {"float", "halffloat", "int8", "int16", "uint8", "uint16"}  # float32 holds every value


@dataclass(frozen=True)
class Columns:
    """The columns of a file, sorted by what they hold."""

    name: str
    numeric: list[str]
    labels: list[str]
    dtype: np.dtype

    def block(self, table: Any, values: bool = True) -> Block:
        """Rows of an Arrow table, with or without the values."""
        columns = {name: table.column(name) for name in table.column_names}
        numbers = np.empty((len(self.numeric) if values else 0, len(table)), dtype=self.dtype)
        for row, name in zip(numbers, self.numeric, strict=False):
            row[:] = _numbers(columns[name], name)
        labels = {name: _label(columns[name], name) for name in self.labels}
        return Block(_names(columns[self.name]), numbers.T, labels)


@contextmanager
def _opened(path: Path, options: ReadOptions) -> Iterator[tuple[Any, Columns, str, str]]:
    """The file, its columns, where its samples lie, and who says so."""
    require("pyarrow", "io", WISH)
    parquet = require("pyarrow.parquet", "io", WISH)
    with (
        file_errors(path, Exception),
        parquet.ParquetFile(path, page_checksum_verification=True) as file,
    ):
        yield file, *_columns(file, options)


def _tables(file: Any, columns: list[str] | None, n_rows: int = 2**20) -> Iterator[Any]:
    """Arrow tables of at most so many rows; some columns of them."""
    arrow = require("pyarrow", "io", WISH)
    # Group by group: over several groups PyArrow keeps the compressed bytes of those it has read.
    for group in range(file.num_row_groups):
        for batch in file.iter_batches(n_rows, [group], columns, use_threads=False):
            yield arrow.Table.from_batches([batch])


def open_parquet(path: Path, kind: str, options: ReadOptions) -> Source:
    """Open a Parquet file."""

    def blocks() -> Iterator[Block]:
        with _opened(path, options) as (file, columns, *_):
            for table in _tables(file, None, rows_at_once(len(columns.numeric))):
                if len(table):
                    yield columns.block(table)

    with _opened(path, options) as (_, columns, orientation, why):
        return Source(path, kind, orientation, columns.numeric, blocks, why=why)


def _name_column(schema: Any) -> str:
    """The column of names: the index of a pandas frame, otherwise the first column."""
    names = schema.names  # once: every use builds the list anew
    repeated = repeated_names(names)
    refuse(repeated, f"column {listed(repeated)} occurs more than once")
    index = []
    with suppress(ValueError, AttributeError, TypeError):  # what is no JSON of pandas' says nothing
        index = [name for name in schema.pandas_metadata["index_columns"] if name in names]
    refuse(len(index) > 1, f"the index has {len(index)} levels; keep one, the names")
    refuse(len(names) < 2, "a table has a column of names and at least one of numbers")
    return (index or names)[0]


def _columns(file: Any, options: ReadOptions) -> tuple[Columns, str, str]:
    """Sort the columns by their types, and find out where the samples lie."""
    schema = file.schema_arrow
    fields = {field.name: field for field in schema}
    name = _name_column(schema)
    options = options.in_terms_of(fields)
    absent = [c for c in (*options.label_columns, *options.ignore_columns) if c not in fields]
    refuse(absent, f"there is no column {listed(absent)}")
    data = [c for c in fields if c != name and c not in options.ignore_columns]
    labels = [c for c in data if _is_label(fields[c]) or c in options.label_columns]
    numeric = [c for c in data if c not in set(labels)]
    refuse(not numeric, "there is no column of numbers")

    def row_names() -> Iterator[str]:
        for table in _tables(file, [name]):
            yield from _names(table.column(name)).tolist()

    orientation, why = choose_orientation(options, [name, *data], row_names)
    for column in numeric:
        kind = str(fields[column].type)
        cure = "wanted are numbers or text; name the column in ignore_columns"
        refuse(kind not in NUMBER, f"column {quoted(column)} is of type {kind}; {cure}")
    if orientation == "columns":
        place = "a Parquet file with samples in columns holds no labels; use a label file"
        refuse(options.label_columns, place)
        refuse(labels, f"column {listed(labels[:1])} is no sample; name it in ignore_columns")
    is_small = all(str(fields[column].type) in SMALL for column in numeric)
    dtype = np.dtype(np.float32 if is_small else np.float64)
    return Columns(name, numeric, labels, dtype), orientation, why


def _is_label(field: Any) -> bool:
    marked = (field.metadata or {}).get(b"suquan") == b"label"
    return marked or _value_type(field.type) in {*TEXT, "bool"}


def _value_type(kind: Any) -> str:
    """The type as text; of categories, that of their values."""
    return str(kind.value_type if str(kind).startswith("dictionary") else kind)


def _numbers(column: Any, name: str) -> np.ndarray:
    """The column as floats; Arrow refuses integers that are not exact."""
    try:
        floats = column.cast("float64") if str(column.type) in {*INTEGER, "null"} else column
    except ValueError:
        raise TableError(
            f"column {quoted(name)} holds integers that are not exact as floats; convert them first"
        ) from None
    return floats.to_numpy()


def _names(column: Any) -> np.ndarray:
    are_names = _value_type(column.type) in TEXT | INTEGER
    first = "the first column must hold the names of the rows"
    refuse(not are_names, f"{first}, it is of type {column.type}; put names first")
    refuse(column.null_count, "a name is missing; give every row a name")
    return np.array(column.to_pylist(), dtype=str)


def _label(column: Any, name: str) -> np.ndarray:
    kind = _value_type(column.type)
    if kind in NUMBER:
        return _numbers(column, name).astype(np.float64)
    if kind == "bool":
        return np.array(column.to_pylist(), dtype=np.float64)
    refuse(kind not in TEXT, f"column {quoted(name)} of type {column.type} cannot be a label")
    return np.array([cell or "" for cell in column.to_pylist()], dtype=str)


@dataclass(frozen=True)
class ParquetMatrix(Matrix):
    """The columns of numbers of a Parquet file with samples in rows."""

    groups: tuple[int, ...] = ()  # rows of the row groups

    kind = "parquet"

    @classmethod
    def open(cls, path: Path, options: ReadOptions) -> ParquetMatrix:
        """Look at the schema; `options` say that samples lie in rows."""
        refuse_layer(options, "parquet")
        with _opened(path, options) as (file, columns, *_):
            groups = [file.metadata.row_group(g).num_rows for g in range(file.num_row_groups)]
        refuse(not sum(groups), "holds a header and no rows")
        shape = (sum(groups), len(columns.numeric))
        return cls(path, shape, columns.dtype, options, groups=tuple(groups))

    def names(self) -> MatrixNames:
        """Of the column of names and the header; the labels of the columns of text and those asked for."""
        with _opened(self.path, self.options) as (file, columns, *_):
            tables = _tables(file, [columns.name, *columns.labels])
            block = Block.join([columns.block(table, values=False) for table in tables])
        return block.names.tolist(), columns.numeric, block.labels

    def row_bounds(self, rows_per_block: int | None) -> list[int]:
        """Whole row groups, as many as fit into a block; any rows where a number was asked for."""
        if rows_per_block is not None:
            return super().row_bounds(rows_per_block)
        bounds, end = [0], 0
        for n_rows in self.groups:
            if end > bounds[-1] and end + n_rows - bounds[-1] > self.fitting_rows:
                bounds.append(end)
            end += n_rows
        return [*bounds, end]

    def read(self, start: int, stop: int) -> np.ndarray:
        """The row groups that hold these rows, and of them these rows."""
        firsts = np.cumsum([0, *self.groups])
        parts = []
        with _opened(self.path, self.options) as (file, columns, *_):
            self.check_header((file.metadata.num_rows, len(columns.numeric)), columns.dtype)
            for group in np.flatnonzero((firsts[:-1] < stop) & (firsts[1:] > start)).tolist():
                table = file.read_row_group(group, use_threads=False)
                a, b = max(start - firsts[group], 0), min(stop - firsts[group], len(table))
                parts.append(columns.block(table.slice(a, b - a)).values)
        return np.ascontiguousarray(np.concatenate(parts))


# ------------------------------------------------------------------------------------------------- writing


@contextmanager
def _row_groups(target: Target, header: list[str]) -> Iterator[Callable[[Block], None]]:
    """A function that appends rows to the file.

    Rows wait until there are as many as memory allows: each group costs a line in the file's index.
    """
    parquet = require("pyarrow.parquet", "io", WISH)
    waiting: list[Block] = []
    writers: list[Any] = []  # none before the first group, which says the types of the columns

    def write_group() -> None:
        block = Block.join(waiting)
        waiting.clear()
        table = _arrow_table(block, header, target.dtype)
        if not writers:
            # Dictionaries and statistics help neither with measurements nor with thousands of columns.
            options = {"use_dictionary": False, "write_statistics": False, "compression": "zstd"}
            new = parquet.ParquetWriter(
                target.path, table.schema, write_page_checksum=True, **options
            )
            writers.append(files.enter_context(new))
        writers[0].write_table(table)

    def add(block: Block) -> None:
        waiting.append(block)
        if sum(len(part.names) for part in waiting) >= rows_at_once(block.values.shape[1]):
            write_group()

    with ExitStack() as files:
        yield add
        if waiting:
            write_group()


def _arrow_table(block: Block, header: list[str], dtype: np.dtype) -> Any:
    """Names, labels and values as columns; labels are marked."""
    arrow = require("pyarrow", "io", WISH)
    columns = [arrow.array(block.names.tolist(), arrow.string())]
    for label in block.labels.values():
        is_text = label.dtype.kind != "f"
        cells = [cell or None for cell in label.tolist()] if is_text else label
        columns.append(arrow.array(cells, arrow.string() if is_text else None, from_pandas=True))
    values = block.values.astype(dtype, copy=False)
    columns += [arrow.array(column, from_pandas=True) for column in values.T]
    fields = [
        arrow.field(name, column.type, metadata=LABEL if 0 < j <= len(block.labels) else None)
        for j, (name, column) in enumerate(zip(header, columns, strict=True))
    ]
    return arrow.Table.from_arrays(columns, schema=arrow.schema(fields))


def write_parquet_rows(target: Target) -> Writer:
    """Samples in rows."""
    with _row_groups(target, target.header()) as add:
        yield from received(lambda b: add(Block(b.sample_names, b.values, b.labels)))


def write_parquet_columns(target: Target) -> Writer:
    """Samples in columns, written when all are known: features are the rows then."""
    place = "a Parquet file with samples in columns has no place for labels"
    cure = "write samples in rows, or leave the labels out"
    refuse(target.parts, f"{place} ({listed(target.parts)}); {cure}")
    with Tiles(target.path.parent) as tiles:
        yield from received(lambda block: tiles.add(block.values))
        header = ["" if "feature" in target.samples else "feature", *target.samples]
        with _row_groups(target, header) as add:
            for names, values in turned(target, tiles):
                add(Block(np.array(names), values, {}))
