"""Matrices in npy, h5ad and zarr files: what a task needs to read their rows, again and again.

A `Matrix` is small and is sent to the workers; it holds the path, what the file looked like when it was
opened, and no open file. `blocks` makes Dask arrays of matrices, `reading` reads h5ad files through them,
`_parquet` has one more, `writing` writes h5ad and zarr here.
"""

from __future__ import annotations

import os
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from suquan.io._errors import file_errors, listed, quoted, refuse, require
from suquan.io._source import ReadOptions
from suquan.io._table import Table, as_values, check_matrix, join_tables

BYTES_PER_BLOCK = 64 * 2**20
CHUNK_VALUES = 2**17  # of the h5ad files that are written: 1 MiB of doubles
WISH = "reading and writing h5ad and zarr"
# Names of the samples and of the features, None where the file has none, and labels of the samples.
MatrixNames = tuple[list[str] | None, list[str] | None, dict[str, np.ndarray]]


@dataclass(frozen=True)
class Matrix(ABC):
    """A matrix in a file."""

    path: Path  # absolute: a worker may run in another folder
    shape: tuple[int, int]
    stored: np.dtype  # of the values as they lie in the file
    options: ReadOptions
    state: tuple[int, int]  # size and time of the file when it was opened
    unit: int = 1  # rows that are stored together
    by_feature: bool = False  # whether it is stored feature after feature

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
        """Names of samples and features, and the labels of the samples."""
        return None, None, {}

    @abstractmethod
    def read(self, start: int, stop: int) -> np.ndarray:
        """Rows of the matrix as they are stored, of shape (stop - start, n_columns)."""

    def parts(self) -> Iterator[np.ndarray]:
        """All rows, in blocks of any length."""
        for start, stop in pairwise(self.row_bounds(None)):
            yield self.read_block(start, stop)

    def row_bounds(self, rows_per_block: int | None) -> list[int]:
        """First rows of the blocks, and the end of the last; None: of whole units, about 64 MiB."""
        if rows_per_block is None:
            rows_per_block = max(self.unit, self.fitting_rows - self.fitting_rows % self.unit)
        return [*range(0, self.shape[0], rows_per_block), self.shape[0]]

    def read_block(self, start: int, stop: int) -> np.ndarray:
        """Rows as float32 or float64, after a check that the file has not changed."""
        change = "changed since it was opened (its size, time, shape or type is another)"
        cure = "open it again with open_blocks, and leave it alone until the work is done"
        with file_errors(self.path, Exception):
            refuse(file_state(self.path) != self.state, f"{change}; {cure}")
            values = np.ascontiguousarray(as_values(self.read(start, stop)))
            same = values.shape == (stop - start, self.shape[1]) and values.dtype == self.dtype
            refuse(not same, f"{change}; {cure}")
        return values


def file_state(path: Path) -> tuple[int, int]:
    """Size and time of a file; of a zarr store, of the files that describe its matrix."""
    marks = (".zgroup", ".zattrs", "zarr.json", "X/.zarray", "X/.zattrs", "X/zarr.json")
    files = filter(Path.is_file, map(path.joinpath, marks)) if path.is_dir() else [path]
    found = [os.stat(file) for file in files]
    return sum(one.st_size for one in found), sum(one.st_mtime_ns for one in found)


def matrix_tables(matrix: Matrix, whole: bool = False) -> Iterator[Table]:
    """Read a matrix that has names in blocks of samples, or whole."""
    names, columns, labels = matrix.names()
    samples, features = np.array(names), np.array(columns)
    start = 0
    is_whole = whole or matrix.by_feature
    for values in [matrix.read_block(0, matrix.shape[0])] if is_whole else matrix.parts():
        stop = start + len(values)
        block = {name: column[start:stop] for name, column in labels.items()}
        yield Table(values, samples[start:stop], features, block, "rows", matrix.kind)
        start = stop


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
            array = np.load(path, mmap_mode="r", allow_pickle=False)
        check_matrix(array.shape, array.dtype, "the array")
        return cls(path, array.shape, array.dtype, options, file_state(path))

    def read(self, start: int, stop: int) -> np.ndarray:
        """Rows, copied from a memory map."""
        return np.array(np.load(self.path, mmap_mode="r", allow_pickle=False)[start:stop])


# -------------------------------------------------------------------------------------------- AnnData files


class AnnDataMatrix(Matrix):
    """X or a layer of an h5ad file or of AnnData's zarr folder, dense or sparse."""

    @property
    def kind(self) -> str:  # type: ignore[override]
        """The kind of file."""
        return self.path.suffix.lower().removeprefix(".")

    @classmethod
    def open(cls, path: Path, options: ReadOptions) -> AnnDataMatrix:
        """Look at the matrix without reading it."""
        require("anndata.io", "anndata", WISH)
        with opened(path) as root:
            X = _find(root, options)
            check_matrix(X.shape, X.dtype, _called(options))
            chunks = getattr(X, "shards", None) or getattr(X, "chunks", None) or (1,)
            n, p = map(int, X.shape)
            by_feature = getattr(X, "format", "") == "csc"
            dtype = np.dtype(X.dtype)
        return cls(path, (n, p), dtype, options, file_state(path), chunks[0], by_feature)

    def names(self) -> MatrixNames:
        """Of obs and var."""
        io = require("anndata.io", "anndata", WISH)
        with opened(self.path) as root:
            obs, var = io.read_elem(root["obs"]), io.read_elem(root["var"])
        sizes = f"shape {self.shape} for {len(obs)} samples and {len(var)} features"
        agrees = self.shape == (len(obs), len(var))
        refuse(not agrees, f"{_called(self.options)} has {sizes}")
        columns = [name for name in obs.columns if name not in self.options.ignore_columns]
        labels = {str(name): _label(obs[name]) for name in columns}
        return [str(n) for n in obs.index], [str(n) for n in var.index], labels

    def read(self, start: int, stop: int) -> np.ndarray:
        """Rows; what a sparse matrix does not store is zero."""
        with opened(self.path) as root:
            X = _find(root, self.options)
            if not hasattr(X, "group"):
                return np.asarray(X[start:stop])
            if self.by_feature:
                return _dense_rows(X.group, self.shape[::-1], 0, self.shape[1]).T[start:stop]
            return _dense_rows(X.group, self.shape, start, stop)


@contextmanager
def opened(path: Path) -> Iterator[Any]:
    """The file as a group; h5py, zarr and anndata raise many kinds of exceptions for a damaged one."""
    with file_errors(path, Exception):
        if path.suffix.lower() == ".zarr":
            zarr = require("zarr", "anndata", WISH)
            refuse(not path.exists(), "there is no such folder; check the path")
            refuse(not path.is_dir(), "a zarr store is a folder, this is a file; unpack it")
            yield zarr.open(str(path), mode="r")
        else:
            with require("h5py", "anndata", WISH).File(path, "r") as file:
                yield file


def _find(root: Any, options: ReadOptions) -> Any:
    """X or a layer, not yet read: a dense dataset, or a sparse one of anndata."""
    cure = "give a file written by AnnData"
    refuse(hasattr(root, "dtype"), f"is an array without names; {cure}, or save it as .npy")
    what = _called(options)
    layers = {name: f"layers/{name}" for name in root.get("layers", ())}
    key = "X" if options.layer is None else layers.get(options.layer, "")
    found = f"layers: {listed(layers) or 'none'}"
    refuse(not key or key not in root, f"has no {what}; {cure} ({found})")
    stored = root[key]
    kind = stored.attrs.get("encoding-type", "array")
    if kind in ("csr_matrix", "csc_matrix"):
        return require("anndata.io", "anndata", WISH).sparse_dataset(stored)
    is_matrix = kind == "array" and hasattr(stored, "dtype")
    refuse(not is_matrix, f"{what} is stored as {kind}; wanted is a matrix")
    refuse("obs" not in root or "var" not in root, f"has no names in obs and var; {cure}")
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
    types = require("pandas", "anndata", WISH).api.types
    if types.is_numeric_dtype(column.dtype) or types.is_bool_dtype(column.dtype):
        return column.to_numpy(dtype=np.float64, na_value=np.nan)
    cells = zip(column.astype(object).tolist(), column.isna().tolist(), strict=True)
    return np.array(["" if missing else str(cell) for cell, missing in cells])


@contextmanager
def anndata_writer(
    path: Path, first: Table, kind: str = "h5ad"
) -> Iterator[Callable[[Table], None]]:
    """Write an h5ad file or a zarr folder: X grows block by block, names and labels come at the end."""
    io, pandas = (require(name, "anndata", WISH) for name in ("anndata.io", "pandas"))
    bad = [name for name in first.labels if "/" in name or name == "_index"]
    refuse(bad, f"{listed(bad)} cannot name a column of obs; rename the label")
    n, p = first.values.shape
    seen: list[Table] = []
    with ExitStack() as files:
        X: dict[str, Any] = {"shape": (0, p), "dtype": first.values.dtype}
        if kind == "zarr":
            root = require("zarr", "anndata", WISH).open_group(str(path), mode="w", zarr_format=3)
            X["chunks"] = (n, p)
        else:
            root = files.enter_context(require("h5py", "anndata", WISH).File(path, "w"))
            X["chunks"] = (max(1, CHUNK_VALUES // p), min(p, CHUNK_VALUES))
            X |= {"maxshape": (None, p), "compression": "gzip", "fletcher32": True}
        matrix = (root.create_array if kind == "zarr" else root.create_dataset)("X", **X)
        matrix.attrs.update({"encoding-type": "array", "encoding-version": "0.2.0"})

        def add(block: Table) -> None:
            n_before = matrix.shape[0]
            matrix.resize((n_before + block.n_samples, p))
            matrix[n_before:] = block.values
            nothing = np.empty((block.n_samples, 0))  # a slice would hold the values
            seen.append(replace(block, values=nothing, feature_names=np.array([])))

        yield add
        whole = join_tables(seen)
        # As objects: pandas 3 would make text a type that older versions of anndata cannot read.
        index, columns = (
            pandas.Index(names.tolist(), dtype=object)
            for names in (whole.sample_names, first.feature_names)
        )
        obs = {
            name: pandas.Series(column, index, dtype=None if column.dtype.kind == "f" else object)
            for name, column in whole.labels.items()
        }
        parts = {"obs": pandas.DataFrame(obs, index=index), "var": pandas.DataFrame(index=columns)}
        parts |= {group: {} for group in ("layers", "obsm", "obsp", "varm", "varp", "uns")}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of defaults of AnnData's next version
            for name, part in parts.items():
                io.write_elem(root, name, part)
        root.attrs.update({"encoding-type": "anndata", "encoding-version": "0.1.0"})
