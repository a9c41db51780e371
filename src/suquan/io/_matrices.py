"""Matrices in npy and Parquet files, and AnnData's: what a task needs to read their rows, again and again.

A `Matrix` is small and is sent to the workers; it holds the path, what the file looked like when it was
opened, and no open file. `blocks` makes Dask arrays of matrices, `reading` tables.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np

from suquan.io._errors import file_errors, refuse
from suquan.io._source import ReadOptions, Source
from suquan.io._table import Table, as_values, check_matrix, made_up_names

BYTES_PER_BLOCK = 64 * 2**20
# Names of the samples and of the features, None where the file has none, and labels of the samples.
MatrixNames = tuple[list[str] | None, list[str] | None, dict[str, np.ndarray]]


@dataclass(frozen=True)
class Matrix(ABC):
    """A matrix in a file."""

    path: Path  # absolute: a worker may run in another folder
    kind: str
    shape: tuple[int, int]
    stored: np.dtype  # of the values as they lie in the file
    options: ReadOptions
    bounds: tuple[int, ...]  # first rows of blocks of usual size, and the end of the last
    state: tuple[int, int]  # size and time of the file when it was opened
    by_feature: bool = False  # whether it is stored feature after feature

    @property
    def dtype(self) -> np.dtype:
        """float32 or float64, the type of the blocks."""
        return as_values(np.empty((0, 0), self.stored)).dtype

    def names(self) -> MatrixNames:
        """Names of samples and features, and the labels of the samples."""
        return None, None, {}

    @abstractmethod
    def read(self, start: int, stop: int) -> np.ndarray:
        """Rows of the matrix as they are stored, of shape (stop - start, n_columns)."""

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


def usual_bounds(ends: range | list[int], width: int, dtype: np.dtype) -> tuple[int, ...]:
    """Cut rows that are stored together up to each of the ends into blocks of about 64 MiB."""
    fitting = BYTES_PER_BLOCK // as_values(np.zeros((1, width), dtype)).nbytes
    bounds, last = [0], 0
    for end in ends:
        if bounds[-1] < last and end - bounds[-1] > fitting:
            bounds.append(last)
        last = end
    return (*bounds, last)


def file_state(path: Path) -> tuple[int, int]:
    """Size and time of a file; of a zarr store, of the files that describe its matrix."""
    marks = (".zgroup", ".zattrs", "zarr.json", "X/.zarray", "X/.zattrs", "X/zarr.json")
    files = filter(Path.is_file, map(path.joinpath, marks)) if path.is_dir() else [path]
    found = [file.stat() for file in files]
    return sum(one.st_size for one in found), sum(one.st_mtime_ns for one in found)


def open_table(matrix: Matrix) -> Source:
    """Read a matrix as a table, in blocks of samples where they are stored so."""
    samples, features, labels = matrix.names()
    n, p = matrix.shape
    columns = np.array(features or made_up_names("feature", 0, p))

    def tables() -> Iterator[Table]:
        for start, stop in [(0, n)] if matrix.by_feature else pairwise(matrix.bounds):
            names = samples[start:stop] if samples else made_up_names("sample", start, stop)
            block = {name: column[start:stop] for name, column in labels.items()}
            values = matrix.read_block(start, stop)
            yield Table(values, np.array(names), columns, block, "rows", matrix.kind)

    return Source(matrix.kind, "rows", tables, label_names=list(labels))


class NpyMatrix(Matrix):
    """One array in NumPy's own format."""

    @classmethod
    def open(cls, path: Path, kind: str, options: ReadOptions) -> NpyMatrix:
        """Read the header."""
        state = file_state(path)
        with file_errors(path, Exception):
            array = np.load(path, mmap_mode="r", allow_pickle=False)
        check_matrix(array.shape, array.dtype, "the array")
        has_none = "an array has no columns to ignore; leave ignore_columns out"
        refuse(options.ignore_columns, has_none)
        n, p = array.shape
        bounds = usual_bounds(range(1, n + 1), p, array.dtype)
        return cls(path, kind, (n, p), array.dtype, options, bounds, state)

    def read(self, start: int, stop: int) -> np.ndarray:
        """Rows, copied from a memory map."""
        return np.array(np.load(self.path, mmap_mode="r", allow_pickle=False)[start:stop])
