"""Matrices in npy, h5ad and zarr files: what a task needs to read its rows, again and again.

A `Matrix` is small and is sent to the workers; it holds the path, what the file looked like when it was opened,
and no open file. A task opens the file by its path, checks that it is the same, and reads its rows. `blocks`
makes Dask arrays of matrices, `reading` reads h5ad files through them; `_parquet` has one more.
"""

from __future__ import annotations

import hashlib
import json
import os
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy

from suquan.io._errors import file_errors, listed, quoted, refuse, require
from suquan.io._sinks import Target, Writer, received
from suquan.io._source import MatrixNames, ReadOptions, Source, matrix_source
from suquan.io._table import Table, as_values, check_matrix

BYTES_PER_BLOCK = 64 * 2**20
CHUNK_VALUES = 2**17  # of the h5ad files that are written: 1 MiB of doubles
H5AD_WISH = "reading and writing h5ad files"
ZARR_WISH = "reading and writing zarr"


@dataclass(frozen=True)
class Matrix(ABC):
    """A matrix in a file.

    Attributes
    ----------
    path : Path
        Absolute: a worker may run in another folder.
    shape : (n_samples, n_features)
    stored : dtype
        Of the values as they lie in the file.
    options : ReadOptions
        What was asked for, the layer among it.
    unit : int
        Rows that are stored together.
    by_feature : bool
        Whether the matrix is stored feature after feature, so that `read` gives features.
    """

    path: Path
    shape: tuple[int, int]
    stored: np.dtype
    options: ReadOptions
    unit: int = 1
    by_feature: bool = False

    kind = ""

    @property
    def dtype(self) -> np.dtype:
        """float32 or float64, the type of the blocks."""
        return as_values(np.empty((0, 0), self.stored)).dtype

    @property
    def fitting_rows(self) -> int:
        """Rows of 64 MiB."""
        return max(1, BYTES_PER_BLOCK // (self.shape[1] * self.dtype.itemsize))

    def names(self) -> MatrixNames:
        """Names of samples and features, and the labels of the samples; none where the file has no place."""
        return None, None, {}

    @abstractmethod
    def read(self, start: int, stop: int) -> np.ndarray:
        """Rows of the matrix as they are stored, of shape (stop - start, n_features)."""

    def row_bounds(self, rows_per_block: int | None) -> list[int]:
        """First rows of the blocks, and the end of the last; None: of whole units, about 64 MiB."""
        if rows_per_block is None:
            rows_per_block = max(self.unit, self.fitting_rows - self.fitting_rows % self.unit)
        return [*range(0, self.shape[0], rows_per_block), self.shape[0]]

    def stamps(self, bounds: Sequence[int]) -> list[int]:
        """Numbers, one per block, that change when the file does, or the part of it that holds the rows."""
        return [digest([_state(self.path)])] * (len(bounds) - 1)

    def read_block(self, start: int, stop: int, stamp: int) -> np.ndarray:
        """Rows as float32 or float64, after a check that the file has not changed."""
        another = "its size or its time of modification is another"
        with file_errors(self.path, Exception):
            self.check(self.stamps([start, stop]) == [stamp], another)
            values = as_values(self.read(start, stop))
            self.check(self.stamps([start, stop]) == [stamp], another)
            expected = values.shape == (stop - start, self.shape[1]) and values.dtype == self.dtype
            self.check(expected, f"rows {start} to {stop - 1} have shape {values.shape}")
        return values

    def check_header(self, shape: Sequence[int], dtype: np.dtype) -> None:
        """Refuse a file that has got another shape or type."""
        same = tuple(shape) == self.shape and np.dtype(dtype) == self.stored
        self.check(same, f"it was {self.shape} {self.stored}, it is {tuple(shape)} {dtype}")

    def check(self, same: bool, change: str) -> None:
        """Refuse a file that is not the same as before."""
        cure = "open it again with open_blocks, and leave it alone until the work is done"
        refuse(not same, f"changed since it was opened ({change}); {cure}")


def _state(path: Path) -> tuple[int, int] | None:
    """Size and time of a file; None where it is absent, as a chunk of fill values is."""
    found = os.stat(path) if path.exists() else None
    return found and (found.st_size, found.st_mtime_ns)


def digest(states: Sequence[Any]) -> int:
    """A number of 63 bits."""
    text = json.dumps(states).encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big") >> 1


def refuse_layer(options: ReadOptions, kind: str) -> None:
    """Refuse a layer where there are none."""
    place = f"layers are a part of AnnData files, not of {kind}"
    refuse(options.layer is not None, f"{place}; leave layer out")


class NpyMatrix(Matrix):
    """One array in NumPy's own format."""

    kind = "npy"

    @classmethod
    def open(cls, path: Path, options: ReadOptions) -> NpyMatrix:
        """Read the header."""
        refuse_layer(options, "npy")
        with file_errors(path, Exception):
            array = npy.open_memmap(path, mode="r")
            expected, size = array.offset + array.nbytes, os.stat(path).st_size
        check_matrix(array.shape, array.dtype, "the array")
        bytes_ = f"has {size} bytes, its header asks for {expected}"
        refuse(size != expected, f"{bytes_}; the file is damaged")
        return cls(path, (array.shape[0], array.shape[1]), array.dtype, options)

    def read(self, start: int, stop: int) -> np.ndarray:
        """Rows that lie together; of a Fortran-ordered array through a memory map."""
        mapped = npy.open_memmap(self.path, mode="r")
        self.check_header(mapped.shape, mapped.dtype)
        if not mapped.flags.c_contiguous:
            return np.array(mapped[start:stop], order="C")
        # Not through the memory map: its pages would fail where the file becomes shorter, and end the worker.
        offset = mapped.offset + start * mapped.strides[0]
        values = np.fromfile(self.path, self.stored, (stop - start) * self.shape[1], offset=offset)
        return values.reshape(stop - start, self.shape[1])


# -------------------------------------------------------------------------------------------- AnnData files


class H5adMatrix(Matrix):
    """X or a layer of an h5ad file, dense or sparse."""

    kind = "h5ad"

    @staticmethod
    @contextmanager
    def opened(path: Path) -> Iterator[Any]:
        """The file as a group; h5py and anndata raise many kinds of exceptions for a damaged one."""
        h5py = require("h5py", "anndata", H5AD_WISH)
        with file_errors(path, Exception), h5py.File(path, "r") as file:
            yield file

    @classmethod
    def open(cls, path: Path, options: ReadOptions) -> H5adMatrix:
        """Look at the matrix without reading it."""
        with cls.opened(path) as root:
            X = _find(root, options)
            check_matrix(X.shape, X.dtype, _called(options))
            chunks = getattr(X, "shards", None) or getattr(X, "chunks", None) or (1,)
            n, p = map(int, X.shape)
            by_feature = getattr(X, "format", "") == "csc"
            return cls(path, (n, p), np.dtype(X.dtype), options, chunks[0], by_feature)

    def names(self) -> MatrixNames:
        """Of obs and var."""
        io = require("anndata.io", "anndata", H5AD_WISH)
        with self.opened(self.path) as root:
            if self.kind == "zarr" and (hasattr(root, "dtype") or "obs" not in root):
                return super().names()
            obs, var = io.read_elem(root["obs"]), io.read_elem(root["var"])
        sizes = f"shape {self.shape} for {len(obs)} samples and {len(var)} features"
        agrees = self.shape == (len(obs), len(var))
        refuse(not agrees, f"{_called(self.options)} has {sizes}")
        columns = [name for name in obs.columns if name not in self.options.ignore_columns]
        labels = {str(name): _label(obs[name]) for name in columns}
        return [str(n) for n in obs.index], [str(n) for n in var.index], labels

    def read(self, start: int, stop: int) -> np.ndarray:
        """Rows (features, where it is stored by feature); what a sparse matrix does not store is zero."""
        with self.opened(self.path) as root:
            X = _find(root, self.options)
            self.check_header(X.shape, X.dtype)
            if not hasattr(X, "group"):
                return np.asarray(X[start:stop])
            return _dense_rows(X.group, self.shape[:: 1 - 2 * self.by_feature], start, stop)


class ZarrMatrix(H5adMatrix):
    """A zarr array, or X or a layer of an AnnData zarr group, in a folder."""

    kind = "zarr"

    @staticmethod
    @contextmanager
    def opened(path: Path) -> Iterator[Any]:
        """The array or group."""
        zarr = require("zarr", "dask", ZARR_WISH)
        with file_errors(path, Exception):
            refuse(not path.exists(), "there is no such folder; check the path")
            refuse(not path.is_dir(), "a zarr array is a folder, this is a file; unpack it")
            yield zarr.open(str(path), mode="r")

    def stamps(self, bounds: Sequence[int]) -> list[int]:
        """Of the metadata and of the chunks that hold the rows; of a sparse matrix, of all its files."""
        with self.opened(self.path) as root:
            X = _find(root, self.options)
        if hasattr(X, "group"):
            files = sorted((self.path / X.group.path).rglob("*"))
            return [digest([_state(file) for file in files])] * (len(bounds) - 1)
        rows, columns = getattr(X, "shards", None) or X.chunks
        across = range(-(-X.shape[1] // columns))
        stamps = []
        for start, stop in pairwise(bounds):
            places = product(range(start // rows, -(-stop // rows)), across)
            names = ["zarr.json", ".zarray", *map(X.metadata.encode_chunk_key, places)]
            stamps.append(digest([_state(self.path / X.path / name) for name in names]))
        return stamps


def _find(root: Any, options: ReadOptions) -> Any:
    """X or a layer, not yet read: a dense dataset, or a sparse one of anndata."""
    stored, what = root, _called(options)
    if hasattr(root, "dtype"):
        refuse_layer(options, "a zarr array")
    else:
        layers = {name: f"layers/{name}" for name in root.get("layers", ())}
        key = "X" if options.layer is None else layers.get(options.layer, "")
        cure = "give an array, or a file written by AnnData"
        found = f"layers: {listed(layers) or 'none'}"
        refuse(not key or key not in root, f"has no {what}; {cure} ({found})")
        stored = root[key]
    kind = stored.attrs.get("encoding-type", "array")
    if kind in ("csr_matrix", "csc_matrix"):
        return require("anndata.io", "anndata", H5AD_WISH).sparse_dataset(stored)
    is_matrix = kind == "array" and hasattr(stored, "dtype")
    refuse(not is_matrix, f"{what} is stored as {kind}; wanted is a matrix")
    return stored


def _dense_rows(group: Any, shape: Sequence[int], start: int, stop: int) -> np.ndarray:
    """Some rows of a sparse matrix of that shape (for CSC, columns), after a check of its indices."""
    from scipy import sparse

    ends, indices, data = group["indptr"][:], group["indices"], group["data"]
    fits = ends.shape == (shape[0] + 1,) and ends[0] == 0 and np.all(ends[:-1] <= ends[1:])
    fits = fits and (ends[-1],) == indices.shape == data.shape and indices.dtype.kind in "iu"
    refuse(not fits, "indptr does not fit the indices and the values; write the file again")
    part = slice(int(ends[start]), int(ends[stop]))
    of_rows = data[part], indices[part], ends[start : stop + 1] - ends[start]
    rows = sparse.csr_matrix(of_rows, shape=(stop - start, shape[1]))
    rows.check_format()  # refuses indices that lie outside
    n_stored = rows.nnz
    rows.sum_duplicates()
    refuse(rows.nnz < n_stored, "an entry is stored twice; write the file again")
    return rows.toarray()


def _called(options: ReadOptions) -> str:
    return "X" if options.layer is None else f"layer {quoted(options.layer)}"


def _label(column: Any) -> np.ndarray:
    """A column of obs: numbers and booleans as floats, everything else as text."""
    types = require("pandas", "anndata", H5AD_WISH).api.types
    if types.is_numeric_dtype(column.dtype) or types.is_bool_dtype(column.dtype):
        return column.to_numpy(dtype=np.float64, na_value=np.nan)
    cells = zip(column.astype(object).tolist(), column.isna().tolist(), strict=True)
    return np.array(["" if missing else str(cell) for cell, missing in cells])


def open_h5ad(path: Path, kind: str, options: ReadOptions) -> Source:
    """Open an h5ad file for :func:`suquan.io.read_table`."""
    require("anndata.io", "anndata", H5AD_WISH)
    matrix = H5adMatrix.open(path, options)
    n_stored = matrix.shape[1 if matrix.by_feature else 0]

    def parts(step: int) -> Iterator[np.ndarray]:
        for start in range(0, n_stored, step):
            yield matrix.read(start, min(start + step, n_stored))

    return matrix_source(path, kind, matrix.names(), parts, matrix.by_feature)


# -------------------------------------------------------------------------------------------------- writing


def write_names(root: Any, samples: list[str], features: list[str], labels: dict) -> None:
    """Write names and labels into a group, as AnnData does."""
    io = require("anndata.io", "anndata", "writing names as AnnData does")
    pandas = require("pandas", "anndata", "writing names as AnnData does")
    index, columns = (pandas.Index(names, dtype=object) for names in (samples, features))
    # Text as objects: pandas 3 would make it a string type that older versions of anndata cannot read.
    obs = {
        name: pandas.Series(column, index, dtype=None if column.dtype.kind == "f" else object)
        for name, column in labels.items()
    }
    parts = {"obs": pandas.DataFrame(obs, index=index), "var": pandas.DataFrame(index=columns)}
    parts |= {group: {} for group in ("layers", "obsm", "obsp", "varm", "varp", "uns")}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of defaults of AnnData's next version
        for name, part in parts.items():
            io.write_elem(root, name, part)
    root.attrs.update({"encoding-type": "anndata", "encoding-version": "0.1.0"})


def write_h5ad(target: Target) -> Writer:
    """X grows block by block; names and labels are written at the end."""
    h5py = require("h5py", "anndata", H5AD_WISH)
    require("anndata.io", "anndata", H5AD_WISH)
    bad = [name for name in target.parts if "/" in name or name == "_index"]
    refuse(bad, f"{listed(bad)} cannot name a column of obs; rename the label")
    p = len(target.features)
    with h5py.File(target.path, "w") as file:
        X = file.create_dataset(
            "X",
            shape=(0, p),
            maxshape=(None, p),
            dtype=target.dtype,
            chunks=(max(1, CHUNK_VALUES // p), min(p, CHUNK_VALUES)),
            compression="gzip",
            fletcher32=True,
        )
        X.attrs.update({"encoding-type": "array", "encoding-version": "0.2.0"})

        def add(block: Table) -> None:
            n_before = X.shape[0]
            X.resize(n_before + block.n_samples, axis=0)
            X[n_before:] = block.values

        yield from received(add)
        write_names(file, list(target.samples), target.features, target.labels)
