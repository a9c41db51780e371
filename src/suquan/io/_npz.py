"""NumPy archives: ``X`` (samples x features), ``features``, ``samples``, and one array per label.

The members are streamed out of the zip file, after a check that they have the size their header promises;
nothing is unpickled.
"""

import math
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.lib import format as npy

from suquan.io import _budget
from suquan.io._errors import TableError, file_errors, listed, quoted
from suquan.io._source import Block, ReadOptions, Source
from suquan.io._table import as_label_column, as_values, decode_names

FEATURES = ("features", "feature_names")
SAMPLES = ("samples", "sample_names")
# What zipfile and the header of a damaged member raise besides BadZipFile and zlib.error.
DAMAGE = (
    ValueError,
    KeyError,
    NotImplementedError,
    RuntimeError,
    OverflowError,
    SyntaxError,
    TypeError,
)


@dataclass(frozen=True)
class Member:
    """One array of the archive, not yet read."""

    name: str
    shape: tuple[int, ...]
    fortran: bool
    dtype: np.dtype


def open_npz(path: Path, options: ReadOptions) -> Source:
    """Open a NumPy archive."""
    with file_errors(path, *DAMAGE), zipfile.ZipFile(path) as archive:
        members = {m.name: m for m in _members(archive, path)}
        X = _matrix(members, path)
        n_samples, n_features = X.shape
        features = _names(archive, members, FEATURES, n_features, "feature", path)
        samples = _names(archive, members, SAMPLES, n_samples, "sample", path)
        labels = _labels(archive, members, n_samples, options.ignore_columns)
    if X.fortran:
        # Stored feature after feature: the blocks are features, and the reader turns them.
        blocks = lambda n: _blocks(path, X, features, n, {})  # noqa: E731
        return Source(path, "npz", "columns", samples, blocks, labels, stored_orientation="rows")
    return Source(
        path,
        "npz",
        "rows",
        features,
        lambda n: _blocks(path, X, samples, n, labels),
        row_labels=labels,
    )


def _members(archive: zipfile.ZipFile, path: Path) -> Iterator[Member]:
    for info in archive.infolist():
        if not info.filename.endswith(".npy"):
            continue
        with archive.open(info) as file:
            shape, fortran, dtype = _read_header(file)
            expected = file.tell() + math.prod(shape) * dtype.itemsize
        if not dtype.hasobject and info.file_size != expected:
            raise TableError(
                f"{path}: {info.filename} holds {info.file_size} bytes, its header asks for {expected}; "
                "the file is damaged"
            )
        yield Member(info.filename.removesuffix(".npy"), shape, fortran, dtype)


def _read_header(file):
    version = npy.read_magic(file)
    if version == (1, 0):
        return npy.read_array_header_1_0(file)
    if version == (2, 0):
        return npy.read_array_header_2_0(file)
    raise ValueError(f"version {version} of the npy format is not known")


def _matrix(members: dict[str, Member], path: Path) -> Member:
    found = f"the file has {listed(members)}" if members else "the file has no array"
    if "X" not in members:
        raise TableError(f"{path}: a table in an npz file is its array 'X'; {found}")
    X = members["X"]
    if len(X.shape) != 2 or 0 in X.shape:
        raise TableError(f"{path}: X must be samples x features, its shape is {X.shape}")
    if X.dtype.kind not in "iuf" or X.dtype.itemsize > 8:
        raise TableError(f"{path}: X must hold integers or floats, not {X.dtype}")
    return X


def _read(archive: zipfile.ZipFile, member: Member) -> np.ndarray:
    with archive.open(member.name + ".npy") as file:
        return npy.read_array(file, allow_pickle=False)


def _names(archive, members, keys, length: int, what: str, path: Path) -> list[str]:
    key = next((key for key in keys if key in members), None)
    if key is None:
        return [f"{what}_{i}" for i in range(1, length + 1)]
    if members[key].shape != (length,):
        raise TableError(
            f"{path}: {quoted(key)} has shape {members[key].shape}, X asks for ({length},)"
        )
    if members[key].dtype.kind not in "SUiu":
        raise TableError(f"{path}: {quoted(key)} must hold text, not {members[key].dtype}")
    names = _read(archive, members[key])
    return [str(name) for name in (decode_names(names) if names.dtype.kind == "S" else names)]


def _labels(archive, members, n_samples: int, ignored) -> dict[str, np.ndarray]:
    """Every further array with one number or text per sample."""
    taken = {"X", *FEATURES, *SAMPLES, *ignored}
    return {
        name: as_label_column(_read(archive, member), name)
        for name, member in members.items()
        if name not in taken and member.shape == (n_samples,) and member.dtype.kind in "biufSU"
    }


def _blocks(path: Path, X: Member, names, n_rows: int | None, labels) -> Iterator[Block]:
    """Rows of X in the order in which they are stored."""
    n_stored, width = X.shape[::-1] if X.fortran else X.shape
    step = min(n_rows or n_stored, _budget.rows(width))
    with (
        file_errors(path, *DAMAGE),
        zipfile.ZipFile(path) as archive,
        archive.open("X.npy") as file,
    ):
        _read_header(file)
        for start in range(0, n_stored, step):
            stop = min(start + step, n_stored)
            values = as_values(_read_rows(file, stop - start, width, X.dtype))
            part = {name: column[start:stop] for name, column in labels.items()}
            yield Block(list(names[start:stop]), values, part)
        if file.read(1):  # also makes zipfile compare the checksum
            raise TableError(f"{path}: X is longer than its header says; the file is damaged")


def _read_rows(file, n_rows: int, width: int, dtype: np.dtype) -> np.ndarray:
    wanted = n_rows * width * dtype.itemsize
    data = file.read(wanted)
    if len(data) != wanted:
        raise EOFError("X ends early")
    return np.frombuffer(data, dtype).reshape(n_rows, width)
