"""Parquet: a column of names, columns of numbers, and columns of text that are labels."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from suquan.io import _budget
from suquan.io._delimited import orientation_by_overlap
from suquan.io._errors import TableError, file_errors, listed, quoted, require
from suquan.io._sinks import Target
from suquan.io._source import Block, ReadOptions, Source
from suquan.io._table import Table, repeated_names
from suquan.io._tiles import Tiles

WISH = "reading and writing Parquet files"
LABEL = {b"suquan": b"label"}  # marks a column of numbers that is no feature
ROWS_PER_GROUP = 2**20


@dataclass(frozen=True)
class Columns:
    """Positions of the columns of each sort."""

    name: int
    numeric: list[int]
    labels: list[int]
    dtype: np.dtype


def open_parquet(path: Path, options: ReadOptions) -> Source:
    """Open a Parquet file."""
    arrow = require("pyarrow", "io", WISH)
    with _open(path) as file:
        schema = file.schema_arrow
        name = _name_column(path, schema)
        orientation = _orientation(path, file, name, options)
    if orientation == "columns" and options.label_columns:
        raise TableError(
            f"{path}: a Parquet file with samples in columns holds no labels; use a label file"
        )
    columns = _columns(path, arrow, schema, name, orientation, options)
    names = schema.names  # once: every use builds the list anew
    return Source(
        path=path,
        kind="parquet",
        orientation=orientation,
        column_names=[names[j] for j in columns.numeric],
        blocks=lambda n_rows: _blocks(path, columns, names, n_rows),
    )


def _open(path: Path):
    parquet = require("pyarrow.parquet", "io", WISH)
    arrow = require("pyarrow", "io", WISH)
    with file_errors(path, arrow.ArrowException, ValueError, KeyError):
        return parquet.ParquetFile(path, page_checksum_verification=True)


def _name_column(path: Path, schema) -> int:
    """Position of the names: the index of a pandas frame, otherwise the first column."""
    repeated = repeated_names(schema.names)
    if repeated:
        raise TableError(f"{path}: column {listed(repeated)} occurs more than once")
    index = [name for name in _pandas_index(schema) if name in schema.names]
    if len(index) > 1:
        raise TableError(f"{path}: the index has {len(index)} levels; keep one, the names")
    if len(schema.names) < 2:
        raise TableError(f"{path}: a table has a column of names and at least one of numbers")
    return schema.names.index(index[0]) if index else 0


def _pandas_index(schema) -> list[str]:
    try:
        index = json.loads((schema.metadata or {}).get(b"pandas", b"{}")).get("index_columns", [])
    except (ValueError, AttributeError):
        return []
    return [name for name in index if isinstance(name, str)] if isinstance(index, list) else []


def _orientation(path: Path, file, name: int, options: ReadOptions) -> str:
    if options.samples != "auto":
        return options.samples
    if options.sample_names is None:
        return "rows"
    rows = 0
    for batch in _batches(path, file, ROWS_PER_GROUP, [name]):
        rows += len(options.sample_names.intersection(_names(path, batch.column(0))))
    columns = len(options.sample_names.intersection(file.schema_arrow.names))
    return orientation_by_overlap(path, rows, columns, options.sample_names)


def _columns(path: Path, arrow, schema, name: int, orientation: str, options) -> Columns:
    """Sort the columns by their types."""
    absent = [c for c in (*options.label_columns, *options.ignore_columns) if c not in schema.names]
    if absent:
        raise TableError(f"{path}: there is no column {listed(absent)}")
    numeric, labels = [], []
    for j, field in enumerate(schema):
        if j == name or field.name in options.ignore_columns:
            continue
        if _is_label(arrow, field, options):
            labels.append(j)
        elif _is_number(arrow, field.type):
            numeric.append(j)
        else:
            raise TableError(
                f"{path}: column {quoted(field.name)} is of type {field.type}; wanted are numbers or text; "
                "name the column in ignore_columns"
            )
    if labels and orientation == "columns":
        raise TableError(
            f"{path}: column {quoted(schema.names[labels[0]])} is no sample; name it in ignore_columns"
        )
    if not numeric:
        raise TableError(f"{path}: there is no column of numbers")
    return Columns(name, numeric, labels, _dtype(schema, numeric))


def _is_label(arrow, field, options: ReadOptions) -> bool:
    marked = (field.metadata or {}).get(b"suquan") == b"label"
    return marked or field.name in options.label_columns or _is_text(arrow, field.type)


def _is_text(arrow, kind) -> bool:
    types = arrow.types
    if types.is_dictionary(kind):
        return _is_text(arrow, kind.value_type)
    return types.is_string(kind) or types.is_large_string(kind) or types.is_boolean(kind)


def _is_number(arrow, kind) -> bool:
    types = arrow.types
    return types.is_integer(kind) or types.is_floating(kind) or types.is_null(kind)


def _dtype(schema, numeric: list[int]) -> np.dtype:
    """float32 where it holds every value of every column."""
    small = {"float", "halffloat", "int8", "int16", "uint8", "uint16"}
    all_small = all(str(schema.field(j).type) in small for j in numeric)
    return np.dtype(np.float32 if all_small else np.float64)


def _batches(path: Path, file, n_rows: int, columns: list[int] | None = None) -> Iterator:
    arrow = require("pyarrow", "io", WISH)
    with file_errors(path, arrow.ArrowException, ValueError, KeyError):
        # Group by group: over several groups PyArrow keeps the compressed bytes of those it has read.
        for group in range(file.num_row_groups):
            for batch in file.iter_batches(n_rows, row_groups=[group], use_threads=False):
                # By position: a name with a dot would be taken for a path into a nested column.
                yield batch if columns is None else batch.select(columns)


def _blocks(path: Path, columns: Columns, names: list[str], n_rows: int | None) -> Iterator[Block]:
    with _open(path) as file:
        for batch in _batches(path, file, n_rows or ROWS_PER_GROUP):
            if not batch.num_rows:
                continue
            values = np.empty((len(columns.numeric), batch.num_rows), dtype=columns.dtype)
            for i, j in enumerate(columns.numeric):
                values[i] = _numbers(path, batch.column(j), names[j])
            labels = {names[j]: _label(path, batch.column(j), names[j]) for j in columns.labels}
            yield Block(_names(path, batch.column(columns.name)), values.T, labels)


def _numbers(path: Path, column, name: str) -> np.ndarray:
    """The column as floats; Arrow refuses integers that are not exact."""
    arrow = require("pyarrow", "io", WISH)
    if arrow.types.is_floating(column.type):
        return column.to_numpy(zero_copy_only=False)
    try:
        return column.cast(arrow.float64()).to_numpy(zero_copy_only=False)
    except arrow.ArrowInvalid:
        raise TableError(
            f"{path}: column {quoted(name)} holds integers that are not exact as floats; convert them first"
        ) from None


def _names(path: Path, column) -> list[str]:
    arrow = require("pyarrow", "io", WISH)
    kind = column.type
    if not (_is_text(arrow, kind) or arrow.types.is_integer(kind)) or arrow.types.is_boolean(kind):
        raise TableError(
            f"{path}: the first column must hold the names of the rows, it is of type {kind}; put names first"
        )
    if column.null_count:
        raise TableError(f"{path}: a name is missing; give every row a name")
    return [str(name) for name in column.to_pylist()]


def _label(path: Path, column, name: str) -> np.ndarray:
    arrow = require("pyarrow", "io", WISH)
    if _is_number(arrow, column.type):
        return np.array(_numbers(path, column, name), dtype=np.float64)
    cells = column.to_pylist()
    if arrow.types.is_boolean(column.type):
        return np.array([np.nan if cell is None else float(cell) for cell in cells])
    if _is_text(arrow, column.type):
        return np.array(["" if cell is None else cell for cell in cells], dtype=str)
    raise TableError(f"{path}: column {quoted(name)} of type {column.type} cannot be a label")


# ------------------------------------------------------------------------------------------------- writing


class ParquetRowSink:
    """Samples in rows, in groups that are as large as memory allows: each costs a line in the file's index."""

    def __init__(self, target: Target):
        self._target = target
        self._writer: Any = None
        self._waiting: list[Table] = []

    def write(self, block: Table) -> None:
        """Append samples."""
        self._waiting.append(block)
        if sum(part.n_samples for part in self._waiting) >= _budget.rows(block.n_features):
            self._write_group()

    def _write_group(self) -> None:
        if not self._waiting:
            return
        first = self._waiting[0]
        block = Table(
            np.concatenate([part.values for part in self._waiting]),
            np.concatenate([part.sample_names for part in self._waiting]),
            first.feature_names,
            {n: np.concatenate([p.labels[n] for p in self._waiting]) for n in first.labels},
        )
        self._waiting = []
        arrow = require("pyarrow", "io", WISH)
        arrays = [arrow.array(block.sample_names.tolist(), arrow.string())]
        fields = [arrow.field(_free("sample", block), arrow.string())]
        for name, column in block.labels.items():
            arrays.append(_label_array(arrow, column))
            fields.append(arrow.field(name, arrays[-1].type, metadata=LABEL))
        for j, name in enumerate(block.feature_names.tolist()):
            arrays.append(arrow.array(block.values[:, j], from_pandas=True))
            fields.append(arrow.field(name, arrays[-1].type))
        schema = arrow.schema(fields)
        if self._writer is None:
            self._writer = _open_writer(self._target, schema)
        self._writer.write_table(arrow.Table.from_arrays(arrays, schema=schema))

    def finish(self) -> None:
        """Complete the file."""
        self._write_group()
        self._writer.close()

    def abandon(self) -> None:
        """Close the file."""
        self._waiting = []
        if self._writer is not None:
            self._writer.close()


class ParquetColumnSink:
    """Samples in columns, written when all are known."""

    def __init__(self, target: Target):
        self._target = target
        self._tiles = Tiles(target.path.parent)
        self._samples: list[str] = []
        self._features: list[str] = []

    def write(self, block: Table) -> None:
        """Append samples."""
        if block.labels:
            raise TableError(
                f"{self._target.name}: a Parquet file with samples in columns has no place for labels "
                f"({listed(block.labels)}); write samples in rows, or leave the labels out"
            )
        self._features = block.feature_names.tolist()
        self._samples += block.sample_names.tolist()
        self._tiles.add(block.values)

    def finish(self) -> None:
        """Write groups of features."""
        arrow = require("pyarrow", "io", WISH)
        first = "" if "feature" in self._samples else "feature"
        number = arrow.from_numpy_dtype(self._tiles.dtype)
        fields = [arrow.field(first, arrow.string())]
        schema = arrow.schema(fields + [arrow.field(name, number) for name in self._samples])
        step = _budget.rows(len(self._samples))
        try:
            with _open_writer(self._target, schema) as writer:
                for start in range(0, len(self._features), step):
                    stop = min(start + step, len(self._features))
                    values = self._tiles.columns(start, stop)
                    arrays = [arrow.array(self._features[start:stop], arrow.string())]
                    arrays += [arrow.array(column, from_pandas=True) for column in values.T]
                    writer.write_table(arrow.Table.from_arrays(arrays, schema=schema))
        finally:
            self._tiles.close()

    def abandon(self) -> None:
        """Throw the values away."""
        self._tiles.close()


def _free(first: str, block: Table) -> str:
    taken = {*block.labels, *block.feature_names.tolist()}
    if len(taken) < len(block.labels) + block.n_features:
        both = sorted(set(block.labels).intersection(block.feature_names.tolist()))
        raise TableError(f"{listed(both)} is a label and a feature; rename one of them")
    return "" if first in taken else first


def _label_array(arrow, column: np.ndarray):
    if column.dtype.kind == "f":
        return arrow.array(column, from_pandas=True)
    return arrow.array([cell or None for cell in column.tolist()], arrow.string())


def _open_writer(target: Target, schema):
    parquet = require("pyarrow.parquet", "io", WISH)
    # Dictionaries and statistics help neither with measurements nor with thousands of columns.
    return parquet.ParquetWriter(
        target.path,
        schema,
        compression="zstd",
        use_dictionary=False,
        write_statistics=False,
        write_page_checksum=True,
    )
