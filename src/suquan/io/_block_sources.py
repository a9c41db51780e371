"""Files whose rows can be read anywhere, again and again: what a task needs to read its block.

A source is small and is sent to the workers; it holds the path, what the file looked like when it was opened,
and no open file. A task opens the file by its path, checks that it is the same, and reads its rows.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy

from suquan.io._errors import TableError, file_errors, listed, require
from suquan.io._h5ad import _called, _label, _matrix, _opened
from suquan.io._parquet import _columns, _name_column, _numbers, open_parquet
from suquan.io._parquet import _open as _open_parquet
from suquan.io._source import ReadOptions
from suquan.io._table import as_values

BYTES_PER_BLOCK = 64 * 2**20
ZARR_WISH = "reading and writing zarr"
SPARSE = ("csr_matrix", "csc_matrix")

ROWS = ReadOptions(samples="rows")
Names = tuple[list[str] | None, list[str] | None, dict[str, np.ndarray]]


def value_dtype(dtype: np.dtype) -> np.dtype:
    """Type of the values that :func:`suquan.io._table.as_values` makes of stored ones."""
    return as_values(np.empty((0, 0), dtype)).dtype


@dataclass(frozen=True)
class BlockSource(ABC):
    """A matrix in a file.

    Attributes
    ----------
    path : Path
        Absolute: a worker may run in another folder.
    shape : (n_samples, n_features)
    stored : dtype
        Of the values as they lie in the file.
    layer : str or None
    """

    path: Path
    shape: tuple[int, int]
    stored: np.dtype
    layer: str | None = None

    kind = ""

    @property
    def dtype(self) -> np.dtype:
        """float32 or float64, the type of the blocks."""
        return value_dtype(self.stored)

    @abstractmethod
    def names(self, options: ReadOptions) -> Names:
        """Names of samples and features, None where the file has none, and the labels of the samples."""

    @abstractmethod
    def row_bounds(self, rows_per_block: int | None) -> list[int]:
        """First rows of the blocks, and the end of the last."""

    def stamp(self, start: int, stop: int) -> int:
        """A number that changes when the file does, or the part of it that holds these rows."""
        return digest([_state(self.path)])

    def stamps(self, bounds: Sequence[int]) -> list[int]:
        """The stamps of all blocks."""
        return [self.stamp(0, self.shape[0])] * (len(bounds) - 1)

    @abstractmethod
    def read(self, start: int, stop: int) -> np.ndarray:
        """Rows of the matrix as they are stored."""

    def read_block(self, start: int, stop: int, stamp: int) -> np.ndarray:
        """Rows as float32 or float64, after a check that the file has not changed."""
        with file_errors(self.path):
            self._check(start, stop, stamp)
            with file_errors(self.path, Exception):
                values = as_values(self.read(start, stop))
            self._check(start, stop, stamp)
        if values.shape != (stop - start, self.shape[1]) or values.dtype != self.dtype:
            raise self._changed(f"rows {start} to {stop - 1} have shape {values.shape}")
        return values

    def _check(self, start: int, stop: int, stamp: int) -> None:
        if self.stamp(start, stop) != stamp:
            raise self._changed("its size or its time of modification is another")

    def _changed(self, how: str) -> TableError:
        return TableError(
            f"{self.path}: changed since it was opened ({how}); open it again with open_blocks, and leave it "
            "alone until the work is done"
        )

    def _check_header(self, shape: Sequence[int], dtype: np.dtype) -> None:
        if tuple(shape) != self.shape or np.dtype(dtype) != self.stored:
            raise self._changed(f"it was {self.shape} {self.stored}, it is {tuple(shape)} {dtype}")


def _state(path: Path) -> tuple[int, int]:
    found = os.stat(path)
    return found.st_size, found.st_mtime_ns


def digest(states: Sequence[Any]) -> int:
    """A number of 63 bits."""
    text = json.dumps(states).encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big") >> 1


def even_bounds(n_rows: int, row_bytes: int, wanted: int | None, unit: int = 1) -> list[int]:
    """Blocks of the wanted number of rows, or of about 64 MiB and a multiple of the stored unit."""
    if wanted is None:
        wanted = max(1, BYTES_PER_BLOCK // max(1, row_bytes))
        if unit > 1:
            wanted = unit if wanted < unit else wanted - wanted % unit
    return [*range(0, n_rows, wanted), n_rows]


def check_matrix(path: Path, shape: Sequence[int], dtype: Any, what: str) -> None:
    """Refuse what is no matrix of numbers."""
    if len(shape) != 2 or 0 in shape:
        raise TableError(f"{path}: {what} must be samples x features, its shape is {tuple(shape)}")
    if np.dtype(dtype).kind not in "iuf" or np.dtype(dtype).itemsize > 8:
        raise TableError(f"{path}: {what} must hold integers or floats, not {dtype}")


def refuse_layer(path: Path, layer: str | None, kind: str) -> None:
    """Refuse a layer where there are none."""
    if layer is not None:
        raise TableError(
            f"{path}: layers are a part of AnnData files, not of {kind}; leave layer out"
        )


# ------------------------------------------------------------------------------------------------------ npy


@dataclass(frozen=True)
class NpySource(BlockSource):
    """One array in NumPy's own format."""

    offset: int = 0
    fortran: bool = False

    kind = "npy"

    @classmethod
    def open(cls, path: Path, layer: str | None) -> NpySource:
        """Read the header."""
        refuse_layer(path, layer, "npy")
        with (
            file_errors(path, ValueError, SyntaxError, TypeError, OverflowError),
            path.open("rb") as f,
        ):
            shape, fortran, dtype = _npy_header(f)
            check_matrix(path, shape, dtype, "the array")
            offset = f.tell()
            expected = offset + math.prod(shape) * dtype.itemsize
            size = os.fstat(f.fileno()).st_size
        if size != expected:
            raise TableError(
                f"{path}: has {size} bytes, its header asks for {expected}; the file is damaged"
            )
        return cls(path, (shape[0], shape[1]), dtype, None, offset, fortran)

    def names(self, options: ReadOptions) -> Names:
        """Without names."""
        return None, None, {}

    def row_bounds(self, rows_per_block: int | None) -> list[int]:
        """Blocks of any length."""
        return even_bounds(self.shape[0], self.shape[1] * self.dtype.itemsize, rows_per_block)

    def read(self, start: int, stop: int) -> np.ndarray:
        """Rows that lie together; of a Fortran-ordered array through a memory map."""
        with self.path.open("rb") as file:
            shape, fortran, dtype = _npy_header(file)
            self._check_header(shape, dtype)
            if fortran:
                mapped = np.memmap(file, dtype, "r", self.offset, shape, order="F")
                return np.array(mapped[start:stop], order="C")
            # Not a memory map: its pages would fail where the file becomes shorter, and end the worker.
            file.seek(self.offset + start * shape[1] * dtype.itemsize)
            values = np.fromfile(file, dtype, (stop - start) * shape[1])
            return values.reshape(stop - start, shape[1])


def _npy_header(file: Any) -> tuple[tuple[int, ...], bool, np.dtype]:
    version = npy.read_magic(file)
    if version == (1, 0):
        return npy.read_array_header_1_0(file)
    if version == (2, 0):
        return npy.read_array_header_2_0(file)
    raise ValueError(f"version {version} of the npy format is not known")


# ----------------------------------------------------------------------------------------- matrices in groups


def _stored_matrix(path: Path, stored: Any, what: str) -> tuple[tuple[int, int], np.dtype, int]:
    """Shape, type and stored rows per chunk of a dense array or of a group that holds a CSR matrix."""
    encoding = stored.attrs.get("encoding-type", "array")
    if encoding == "csc_matrix":
        raise TableError(
            f"{path}: {what} is stored by feature (CSC), so that no block of samples can be read; convert it "
            "to CSR and write it again"
        )
    if encoding == "csr_matrix":
        shape, dtype, unit = tuple(stored.attrs["shape"]), stored["data"].dtype, 1
    elif encoding != "array" or not hasattr(stored, "dtype"):
        raise TableError(f"{path}: {what} is stored as {encoding}; wanted is a matrix")
    else:
        shape, dtype = tuple(stored.shape), stored.dtype
        chunks = getattr(stored, "shards", None) or stored.chunks
        unit = chunks[0] if chunks else 1
    check_matrix(path, shape, dtype, what)
    return (int(shape[0]), int(shape[1])), np.dtype(dtype), int(unit)


def _matrix_rows(stored: Any, start: int, stop: int) -> np.ndarray:
    """Rows of a dense array or, made dense, of a CSR matrix; what it does not store is zero."""
    if stored.attrs.get("encoding-type", "array") != "csr_matrix":
        return np.asarray(stored[start:stop])
    from scipy.sparse import csr_array

    bounds = np.asarray(stored["indptr"][start : stop + 1])
    first, last = int(bounds[0]), int(bounds[-1])
    data, columns = (
        np.asarray(stored["data"][first:last]),
        np.asarray(stored["indices"][first:last]),
    )
    shape = (stop - start, int(stored.attrs["shape"][1]))
    return csr_array((data, columns, bounds - first), shape=shape).toarray()


def _anndata_names(path: Path, group: Any, shape: tuple[int, int], options: ReadOptions) -> Names:
    io = require("anndata.io", "anndata", "reading the names of AnnData files")
    obs, var = io.read_elem(group["obs"]), io.read_elem(group["var"])
    if shape != (len(obs), len(var)):
        raise TableError(
            f"{path}: the matrix has shape {shape} for {len(obs)} samples and {len(var)} features"
        )
    columns = [name for name in obs.columns if name not in options.ignore_columns]
    labels = {str(name): _label(path, obs[name]) for name in columns}
    return [str(n) for n in obs.index], [str(n) for n in var.index], labels


@dataclass(frozen=True)
class H5adSource(BlockSource):
    """X or a layer of an h5ad file, dense or CSR."""

    unit: int = 1

    kind = "h5ad"

    @classmethod
    def open(cls, path: Path, layer: str | None) -> H5adSource:
        """Look at the matrix without reading it."""
        require("anndata.io", "anndata", "reading h5ad files")
        with _opened(path) as file:
            _matrix(path, file, layer)  # refuses an absent layer
            stored = _stored_matrix(path, file[_key(layer)], _called(layer))
        return cls(path, stored[0], stored[1], layer, stored[2])

    def names(self, options: ReadOptions) -> Names:
        """Of obs and var."""
        with _opened(self.path) as file:
            return _anndata_names(self.path, file, self.shape, options)

    def row_bounds(self, rows_per_block: int | None) -> list[int]:
        """Whole chunks of the file."""
        row_bytes = self.shape[1] * self.dtype.itemsize
        return even_bounds(self.shape[0], row_bytes, rows_per_block, self.unit)

    def read(self, start: int, stop: int) -> np.ndarray:
        """Rows of the matrix."""
        with _opened(self.path) as file:
            stored = file[_key(self.layer)]
            shape, dtype, _ = _stored_matrix(self.path, stored, _called(self.layer))
            self._check_header(shape, dtype)
            return _matrix_rows(stored, start, stop)


def _key(layer: str | None) -> str:
    return "X" if layer is None else f"layers/{layer}"


@dataclass(frozen=True)
class ZarrSource(BlockSource):
    """A zarr array, or X or a layer of an AnnData zarr group, in a folder."""

    unit: int = 1
    key: str | None = None  # of the matrix in its group; None for an array
    is_dense: bool = True

    kind = "zarr"

    @classmethod
    def open(cls, path: Path, layer: str | None) -> ZarrSource:
        """Look at the array or group without reading it."""
        with _opened_zarr(path) as root:
            if hasattr(root, "dtype"):
                refuse_layer(path, layer, "a zarr array")
                shape, dtype, unit = _stored_matrix(path, root, "the array")
                return cls(path, shape, dtype, None, unit)
            key = _key(layer)
            if key not in root:
                layers = sorted(root["layers"].keys()) if "layers" in root else []
                raise TableError(
                    f"{path}: this zarr group has no {_called(layer)}; give a zarr array, or a group written "
                    f"by AnnData (layers: {listed(layers) or 'none'})"
                )
            shape, dtype, unit = _stored_matrix(path, root[key], _called(layer))
            return cls(path, shape, dtype, layer, unit, key, hasattr(root[key], "dtype"))

    def names(self, options: ReadOptions) -> Names:
        """Of obs and var, where it is a group."""
        if self.key is None:
            return None, None, {}
        with _opened_zarr(self.path) as root:
            if "obs" not in root or "var" not in root:
                return None, None, {}
            return _anndata_names(self.path, root, self.shape, options)

    def row_bounds(self, rows_per_block: int | None) -> list[int]:
        """Whole chunks of the array."""
        row_bytes = self.shape[1] * self.dtype.itemsize
        return even_bounds(self.shape[0], row_bytes, rows_per_block, self.unit)

    def stamp(self, start: int, stop: int) -> int:
        """Of the metadata and of the chunks that hold these rows; of a CSR matrix, of all its files."""
        return self.stamps([start, stop])[0]

    def stamps(self, bounds: Sequence[int]) -> list[int]:
        """The stamps of all blocks, with one look at the metadata."""
        folder = self.path / (self.key or "")
        if not self.is_dense:
            files = sorted(path for path in folder.rglob("*") if path.is_file())
            states = [[str(file.relative_to(folder)), *_state(file)] for file in files]
            return [digest(states)] * (len(bounds) - 1)
        with _opened_zarr(self.path) as root:
            stored = root if self.key is None else root[self.key]
            return [digest(_chunk_states(folder, stored, a, b)) for a, b in pairwise(bounds)]

    def read(self, start: int, stop: int) -> np.ndarray:
        """Rows of the matrix."""
        with _opened_zarr(self.path) as root:
            stored = root if self.key is None else root[self.key]
            shape, dtype, _ = _stored_matrix(self.path, stored, _called(self.layer))
            self._check_header(shape, dtype)
            if self.is_dense and _is_plain(stored):
                return _plain_rows(self.path / (self.key or ""), stored, start, stop)
            return _matrix_rows(stored, start, stop)


def _is_plain(array: Any) -> bool:
    """Whether the chunks are whole rows and the files the bytes of their values, in this machine's order."""
    meta = array.metadata
    if getattr(array, "shards", None) or array.chunks[1] != array.shape[1]:
        return False
    if not array.dtype.isnative or sys.byteorder != "little":
        return False
    if meta.zarr_format == 2:
        return meta.compressor is None and not meta.filters and meta.order == "C"
    little = {"name": "bytes", "configuration": {"endian": "little"}}
    return [codec.to_dict() for codec in meta.codecs] == [little]


def _plain_rows(folder: Path, array: Any, start: int, stop: int) -> np.ndarray:
    """Rows straight from the files, which takes half the time that zarr takes."""
    rows, width = array.chunks
    values = np.empty((stop - start, width), array.dtype)
    for i in range(start // rows, -(-stop // rows)):
        a, b = max(start, i * rows), min(stop, (i + 1) * rows)
        part = values[a - start : b - start]
        try:
            with (folder / array.metadata.encode_chunk_key((i, 0))).open("rb") as file:
                file.seek((a - i * rows) * width * values.itemsize)
                if file.readinto(part.data.cast("B")) != part.nbytes:
                    raise EOFError(f"chunk {i} ends early")
        except FileNotFoundError:
            part[:] = array.fill_value  # a chunk that was never written
    return values


@contextmanager
def _opened_zarr(path: Path) -> Iterator[Any]:
    zarr = require("zarr", "dask", ZARR_WISH)
    if not path.exists():
        raise TableError(f"{path}: there is no such folder; check the path")
    if not path.is_dir():
        raise TableError(f"{path}: a zarr array is a folder, this is a file; unpack it")
    with file_errors(path, Exception):
        yield zarr.open(str(path), mode="r")


def _chunk_states(folder: Path, array: Any, start: int, stop: int) -> list:
    """Sizes and times of the files behind rows of an array; an absent file is a chunk of fill values."""
    rows, columns = getattr(array, "shards", None) or array.chunks
    last_column = -(-array.shape[1] // columns)
    places = ((i, j) for i in range(start // rows, -(-stop // rows)) for j in range(last_column))
    states: list = []
    for name in ("zarr.json", ".zarray"):
        if (folder / name).exists():
            states.append(_state(folder / name))
    for place in places:
        try:
            states.append(_state(folder / array.metadata.encode_chunk_key(place)))
        except FileNotFoundError:
            states.append(None)
    return states


# -------------------------------------------------------------------------------------------------- parquet


@dataclass(frozen=True)
class ParquetSource(BlockSource):
    """The columns of numbers of a Parquet file with samples in rows."""

    options: ReadOptions = ROWS
    groups: tuple[int, ...] = ()  # rows of the row groups

    kind = "parquet"

    @classmethod
    def open(cls, path: Path, layer: str | None, options: ReadOptions) -> ParquetSource:
        """Look at the schema."""
        refuse_layer(path, layer, "parquet")
        arrow = require("pyarrow", "io", "reading Parquet files")
        found = open_parquet(path, options)
        if found.orientation != "rows":
            raise TableError(
                f"{path}: its samples lie in columns, so that no block of samples can be read; write it with "
                "samples in rows"
            )
        with _open_parquet(path) as file:
            schema = file.schema_arrow
            columns = _columns(path, arrow, schema, _name_column(path, schema), "rows", options)
            groups = [file.metadata.row_group(g).num_rows for g in range(file.num_row_groups)]
        if not sum(groups):
            raise TableError(f"{path}: holds a header and no rows")
        shape = (sum(groups), len(columns.numeric))
        fixed = ReadOptions("rows", None, options.label_columns, options.ignore_columns)
        return cls(path, shape, columns.dtype, None, fixed, tuple(groups))

    def names(self, options: ReadOptions) -> Names:
        """Of the column of names and the header; the labels of the columns of text and those asked for."""
        arrow = require("pyarrow", "io", "reading Parquet files")
        from suquan.io import _parquet

        samples: list[str] = []
        labels: dict[str, list[np.ndarray]] = {}
        with _open_parquet(self.path) as file:
            schema = file.schema_arrow
            place = _name_column(self.path, schema)
            columns = _columns(self.path, arrow, schema, place, "rows", self.options)
            header = schema.names
            wanted = [place, *columns.labels]
            with file_errors(self.path, arrow.ArrowException, ValueError, KeyError):
                for group in range(file.num_row_groups):
                    # By position: a name with a dot would be taken for a path into a nested column.
                    part = file.reader.read_row_group(group, column_indices=wanted)
                    table = {name: part.column(name).combine_chunks() for name in part.column_names}
                    samples += _parquet._names(self.path, table[header[place]])
                    for j in columns.labels:
                        cells = _parquet._label(self.path, table[header[j]], header[j])
                        labels.setdefault(header[j], []).append(cells)
        features = [header[j] for j in columns.numeric]
        return samples, features, {name: np.concatenate(p) for name, p in labels.items()}

    def row_bounds(self, rows_per_block: int | None) -> list[int]:
        """Whole row groups, as many as fit into a block; any rows where a number was asked for."""
        row_bytes = self.shape[1] * self.dtype.itemsize
        if rows_per_block is not None:
            return even_bounds(self.shape[0], row_bytes, rows_per_block)
        bounds = [0]
        end = 0
        for n_rows in self.groups:
            if end > bounds[-1] and (end + n_rows - bounds[-1]) * row_bytes > BYTES_PER_BLOCK:
                bounds.append(end)
            end += n_rows
        return [*bounds, end]

    def read(self, start: int, stop: int) -> np.ndarray:
        """The row groups that hold these rows, and of them these rows."""
        arrow = require("pyarrow", "io", "reading Parquet files")
        values = np.empty((self.shape[1], stop - start), self.stored)
        with _open_parquet(self.path) as file:
            schema = file.schema_arrow
            place = _name_column(self.path, schema)
            columns = _columns(self.path, arrow, schema, place, "rows", self.options)
            self._check_header((file.metadata.num_rows, len(columns.numeric)), columns.dtype)
            header = schema.names
            first = 0
            for group, n_rows in enumerate(self.groups):
                a, b = max(start, first), min(stop, first + n_rows)
                if a < b:
                    part = file.read_row_group(group, use_threads=False)
                    part = part.slice(a - first, b - a)
                    for i, j in enumerate(columns.numeric):
                        column = part.column(j).combine_chunks()
                        values[i, a - start : b - start] = _numbers(self.path, column, header[j])
                first += n_rows
        return np.ascontiguousarray(values.T)
