"""Parquet: a column of names, columns of numbers, and columns of text that are labels.

`reading` and `blocks` read through a `ParquetMatrix`; `writing` writes here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from suquan.io._errors import TableError, file_errors, listed, quoted, refuse, require
from suquan.io._matrices import Matrix, MatrixNames, file_state, matrix_tables, refuse_layer
from suquan.io._source import ReadOptions, Source, choose_orientation, rows_at_once
from suquan.io._table import Table, cut_table, header_of, join_tables, repeated_names, turned

WISH = "reading and writing Parquet files"
LABEL = {b"suquan": b"label"}  # marks a column of numbers that is no feature
TEXT = {"string", "large_string", "string_view"}
INTEGER = {f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)}
NUMBER = {*INTEGER, "halffloat", "float", "double", "null"}
SMALL = {"float", "halffloat", "int8", "int16", "uint8", "uint16"}  # float32 holds every value


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    parquet, options = require("pyarrow.parquet", "io", WISH), {"page_checksum_verification": True}
    with file_errors(path, Exception), parquet.ParquetFile(path, **options) as file:
        yield file


def open_parquet(path: Path, kind: str, options: ReadOptions) -> Source:
    """Open a Parquet file."""
    with _opened(path) as file:
        name, columns = _name_column(file.schema_arrow), file.schema_arrow.names
        options = options.in_terms_of(columns)
        header = [name, *(column for column in columns if column != name)]
        orientation, why = choose_orientation(
            options, header, lambda: _names(file.read([name]).column(name))
        )
    matrix = ParquetMatrix.open(path, options)
    if orientation == "rows":
        return Source(kind, orientation, partial(matrix_tables, matrix), why)
    place = "a Parquet file with samples in columns holds no labels; use a label file"
    refuse(options.label_columns, place)
    wrong = listed(matrix.labels[:1])
    refuse(wrong, f"column {wrong} is no sample; name it in ignore_columns")

    def tables() -> Iterator[Table]:
        yield replace(turned(next(matrix_tables(matrix, whole=True))), orientation="columns")

    return Source(kind, orientation, tables, why)


@dataclass(frozen=True)
class ParquetMatrix(Matrix):
    """The columns of numbers of a Parquet file, its other columns, and the rows of its row groups."""

    name: str = ""
    numeric: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    groups: tuple[int, ...] = ()

    kind = "parquet"

    @classmethod
    def open(cls, path: Path, options: ReadOptions) -> ParquetMatrix:
        """Sort the columns by their types."""
        refuse_layer(options, "parquet")
        with _opened(path) as file:
            fields = {field.name: field for field in file.schema_arrow}
            groups = [file.metadata.row_group(g).num_rows for g in range(file.num_row_groups)]
            name, options = _name_column(file.schema_arrow), options.in_terms_of(fields)
            absent = [
                c for c in (*options.label_columns, *options.ignore_columns) if c not in fields
            ]
            refuse(absent, f"there is no column {listed(absent)}")
            refuse(not sum(groups), "holds a header and no rows")
            data = [c for c in fields if c != name and c not in options.ignore_columns]
            labels = [c for c in data if _is_label(fields[c]) or c in options.label_columns]
            types = {c: str(fields[c].type) for c in data if c not in set(labels)}
            refuse(not types, "there is no column of numbers")
            cure = "wanted are numbers or text; name the column in ignore_columns"
            for column, kind in types.items():
                refuse(kind not in NUMBER, f"column {quoted(column)} is of type {kind}; {cure}")
        stored = np.dtype(np.float32 if SMALL.issuperset(types.values()) else np.float64)
        columns = name, tuple(types), tuple(labels), tuple(groups)
        shape = sum(groups), len(types)
        return cls(path, shape, stored, options, file_state(path), 1, False, *columns)

    def names(self) -> MatrixNames:
        """Of the column of names and the header; the labels of the columns of text and those asked for."""
        with _opened(self.path) as file:
            table = file.read([self.name, *self.labels])
            labels = {name: _label(table.column(name), name) for name in self.labels}
            return _names(table.column(self.name)), list(self.numeric), labels

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
        ends = np.cumsum([0, *self.groups])
        groups = np.flatnonzero((ends[:-1] < stop) & (ends[1:] > start)).tolist()
        with _opened(self.path) as file:
            table = file.read_row_groups(groups, list(self.numeric), use_threads=False)
            table = table.slice(start - ends[groups[0]], stop - start)
            return self._values(table)

    def parts(self) -> Iterator[np.ndarray]:
        """All rows, in blocks smaller than a large row group."""
        with _opened(self.path) as file:
            options = {"columns": list(self.numeric), "use_threads": False}
            # Group by group: over several PyArrow keeps the compressed bytes of those it has read.
            for group in range(len(self.groups)):
                step = rows_at_once(self.shape[1])
                yield from map(self._values, file.iter_batches(step, [group], **options))

    def _values(self, table: Any) -> np.ndarray:
        values = np.empty((table.num_rows, len(self.numeric)), self.stored)
        for j, name in enumerate(self.numeric):
            values[:, j] = _numbers(table.column(name), name)
        return values


def _name_column(schema: Any) -> str:
    """The pandas index, otherwise the first column."""
    names = schema.names
    repeated = listed(repeated_names(names))
    refuse(repeated, f"{repeated} occurs more than once among the columns; names must differ")
    index = [n for n in (schema.pandas_metadata or {}).get("index_columns", ()) if n in names]
    refuse(len(index) > 1, f"the index has {len(index)} levels; keep one, the names")
    refuse(len(names) < 2, "a table has a column of names and at least one of numbers")
    return (index or names)[0]


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
    return np.asarray(floats)


def _names(column: Any) -> list[str]:
    are_names = _value_type(column.type) in TEXT | INTEGER
    first = "the first column must hold the names of the rows"
    refuse(not are_names, f"{first}, it is of type {column.type}; put names first")
    refuse(column.null_count, "a name is missing; give every row a name")
    return list(map(str, column.to_pylist()))


def _label(column: Any, name: str) -> np.ndarray:
    kind = _value_type(column.type)
    if kind in NUMBER:
        return _numbers(column, name).astype(np.float64)
    if kind == "bool":
        return np.array(column.to_pylist(), dtype=np.float64)
    refuse(kind not in TEXT, f"column {quoted(name)} of type {column.type} cannot be a label")
    return np.array([cell or "" for cell in column.to_pylist()], dtype=str)


# ------------------------------------------------------------------------------------------------- writing


@contextmanager
def parquet_writer(
    path: Path, first: Table, heading: str = "sample"
) -> Iterator[Callable[[Table], None]]:
    """Write samples in rows; they wait for a row group of some size, which costs a line in the index."""
    parquet = require("pyarrow.parquet", "io", WISH)
    header = header_of(first, heading)
    waiting: list[Table] = []
    # Dictionaries and statistics help neither with measurements nor with thousands of columns.
    options = {"use_dictionary": False, "write_statistics": False, "compression": "zstd"}
    schema = _arrow_table(first, header).schema
    with parquet.ParquetWriter(path, schema, write_page_checksum=True, **options) as writer:

        def write_group() -> None:
            writer.write_table(_arrow_table(join_tables(waiting), header))
            waiting.clear()

        def add(block: Table) -> None:
            waiting.append(block)
            if sum(part.n_samples for part in waiting) >= rows_at_once(block.n_features):
                write_group()

        yield add
        if waiting:
            write_group()


def write_parquet_columns(table: Table, path: Path) -> None:
    """Write samples in columns: features are the rows then."""
    place = "a Parquet file with samples in columns has no place for labels"
    cure = "write samples in rows, or leave the labels out"
    refuse(table.labels, f"{place} ({listed(table.labels)}); {cure}")
    rows = turned(table)
    step = rows_at_once(rows.n_features)
    with parquet_writer(path, rows, "feature") as add:
        for start in range(0, rows.n_samples, step):
            add(cut_table(rows, start, start + step))


def _arrow_table(table: Table, header: list[str]) -> Any:
    """Names, labels and values as columns; labels are marked."""
    arrow = require("pyarrow", "io", WISH)
    columns = [arrow.array(table.sample_names.tolist(), arrow.string())]
    for label in table.labels.values():
        is_text = label.dtype.kind != "f"
        cells = [cell or None for cell in label.tolist()] if is_text else label
        kind = arrow.string() if is_text else arrow.float64()
        columns.append(arrow.array(cells, kind, from_pandas=True))
    columns += [arrow.array(column, from_pandas=True) for column in table.values.T]
    fields = [
        arrow.field(name, column.type, metadata=LABEL if 0 < j <= len(table.labels) else None)
        for j, (name, column) in enumerate(zip(header, columns, strict=True))
    ]
    return arrow.Table.from_arrays(columns, schema=arrow.schema(fields))
