"""Parquet: a column of names, columns of numbers, and columns of text that are labels.

`reading` and `blocks` read through a `ParquetMatrix`; `writing` writes here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from suquan.io._errors import TableError, file_errors, listed, quoted, refuse, require
from suquan.io._matrices import Matrix, MatrixNames, file_state, open_table, usual_bounds
from suquan.io._source import ReadOptions, Source, check_named, choose_orientation, rows_at_once
from suquan.io._table import Table, header_of, join_tables, repeated_names, turned

WISH = "reading and writing Parquet files"
LABEL = {b"suquan": b"label"}  # marks a column of numbers that is no feature
TEXT = {"string", "large_string", "string_view"}
INTEGER = {f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)}
NUMBER = {*INTEGER, "halffloat", "float", "double", "null"}
SMALL = {"float", "halffloat", "int8", "int16", "uint8", "uint16"}  # float32 holds every value


def open_parquet(path: Path, kind: str, options: ReadOptions) -> Source:
    """Open a Parquet file."""
    matrix = ParquetMatrix.open(path, kind, options)
    header, options = [matrix.name, *matrix.numeric, *matrix.labels], matrix.options
    side, why = choose_orientation(options, header, matrix.sample_names)
    if side == "rows":
        return replace(open_table(matrix), why=why)
    place = "a Parquet file with samples in columns holds no labels; use a label file"
    refuse(options.label_columns, place)
    wrong = listed(matrix.labels[:1])
    refuse(wrong, f"column {wrong} is no sample; name it in ignore_columns")

    def tables() -> Iterator[Table]:
        yield replace(turned(join_tables(list(open_table(matrix).tables()))), orientation=side)

    return Source(kind, side, tables, why)


@dataclass(frozen=True)
class ParquetMatrix(Matrix):
    """The columns of numbers of a Parquet file, its column of names, and its other columns."""

    name: str = ""
    numeric: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()

    @classmethod
    def open(cls, path: Path, kind: str, options: ReadOptions) -> ParquetMatrix:
        """Sort the columns by their types."""
        state = file_state(path)
        with _opened(path) as file:
            fields = {field.name: field for field in file.schema_arrow}
            groups = [file.metadata.row_group(g).num_rows for g in range(file.num_row_groups)]
            name, options = _name_column(file.schema_arrow), options.in_terms_of(fields)
            check_named(options, "ignore_columns", list(fields))
            refuse(not sum(groups), "holds a header and no rows")
            data = [c for c in fields if c != name and c not in options.ignore_columns]
            labels = [c for c in data if _is_label(fields[c]) or c in options.label_columns]
            types = {c: str(fields[c].type) for c in data if c not in set(labels)}
            refuse(not types, "there is no column of numbers")
            cure = "wanted are numbers or text; name the column in ignore_columns"
            for column, found in types.items():
                refuse(found not in NUMBER, f"column {quoted(column)} is of type {found}; {cure}")
        stored = np.dtype(np.float32 if SMALL.issuperset(types.values()) else np.float64)
        bounds = usual_bounds(np.cumsum(groups).tolist(), len(types), stored)
        known = path, kind, (sum(groups), len(types)), stored, options, bounds, state, False
        return cls(*known, name, tuple(types), tuple(labels))

    def sample_names(self) -> list[str]:
        """The column of names."""
        with _opened(self.path) as file:
            column = file.read([self.name]).column(self.name)
        are_names = _value_type(column.type) in TEXT | INTEGER
        first = "the first column must hold the names of the rows"
        refuse(not are_names, f"{first}, it is of type {column.type}; put names first")
        refuse(column.null_count, "a name is missing; give every row a name")
        return list(map(str, column.to_pylist()))

    def names(self) -> MatrixNames:
        """Of the column of names and the header; the labels of the columns of text and those asked for."""
        check_named(self.options, "label_columns", list(self.labels))
        with _opened(self.path) as file:
            table = file.read(list(self.labels))
        labels = {name: _label(table.column(name), name) for name in self.labels}
        return self.sample_names(), list(self.numeric), labels

    def read(self, start: int, stop: int) -> np.ndarray:
        """The row groups that hold these rows, and of them these rows."""
        with _opened(self.path) as file:
            sizes = [file.metadata.row_group(g).num_rows for g in range(file.num_row_groups)]
            ends = np.cumsum([0, *sizes])
            groups = np.flatnonzero((ends[:-1] < stop) & (ends[1:] > start)).tolist()
            values = np.empty((stop - start, len(self.numeric)), self.stored)
            options = {"columns": list(self.numeric), "use_threads": False}
            at = int(ends[groups[0]]) - start  # of the next batch
            for batch in file.iter_batches(rows_at_once(self.shape[1]), groups, **options):
                rows = slice(max(0, -at), max(0, len(values) - at))
                part = values[max(0, at) : max(0, at + batch.num_rows)]
                for j, name in enumerate(self.numeric):
                    part[:, j] = _numbers(batch.column(name)[rows], name)
                at += batch.num_rows
        return values


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    parquet, options = require("pyarrow.parquet", "io", WISH), {"page_checksum_verification": True}
    with file_errors(path, Exception), parquet.ParquetFile(path, **options) as file:
        yield file


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
        is_whole = str(column.type) in {*INTEGER, "null"}
        return np.asarray(column.cast("float64") if is_whole else column)
    except ValueError:
        many = f"column {quoted(name)} holds integers that are not exact as floats"
        raise TableError(f"{many}; convert them first") from None


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
    path: Path, first: Table, *_: Any, heading: str = "sample"
) -> Iterator[Callable[[Table], None]]:
    """Write samples in rows; they wait for a row group of some size, which costs a line in the index."""
    parquet = require("pyarrow.parquet", "io", WISH)
    header, step = header_of(first, heading), rows_at_once(first.n_features)
    waiting: list[Table] = []
    # Dictionaries and statistics help neither with measurements nor with thousands of columns.
    options = {"use_dictionary": False, "write_statistics": False, "compression": "zstd"}
    schema = _arrow_table(first, header).schema
    with parquet.ParquetWriter(path, schema, write_page_checksum=True, **options) as writer:

        def add(block: Table | None) -> None:
            waiting.extend([block] if block else [])
            if waiting and (block is None or sum(part.n_samples for part in waiting) >= step):
                writer.write_table(_arrow_table(join_tables(waiting), header), row_group_size=step)
                waiting.clear()

        yield add
        add(None)


def write_parquet_columns(path: Path, table: Table, *_: Any) -> None:
    """Write samples in columns: features are the rows then."""
    place = "a Parquet file with samples in columns has no place for labels"
    cure = "write samples in rows, or leave the labels out"
    refuse(table.labels, f"{place} ({listed(table.labels)}); {cure}")
    with parquet_writer(path, turned(table), heading="feature") as add:
        add(turned(table))


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
