"""NumPy archives: ``X`` (samples x features), ``features``, ``samples``, and one array per label.

The members are streamed out of the zip file, after a check that they have the size their header promises;
nothing is unpickled.
"""

import math
import shutil
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, NamedTuple

import numpy as np
from numpy.lib import format as npy

from suquan.io._errors import TableError, file_errors, listed, quoted
from suquan.io._sinks import Target, Writer, received
from suquan.io._source import MatrixNames, ReadOptions, Source, matrix_source
from suquan.io._table import as_label_column, check_matrix, decode_names

FEATURES = ("features", "feature_names")
SAMPLES = ("samples", "sample_names")


class Member(NamedTuple):
    """One array of the archive, not yet read."""

    shape: tuple[int, ...]
    fortran: bool
    dtype: np.dtype


@contextmanager
def _opened(path: Path) -> Iterator[zipfile.ZipFile]:
    """The archive; zipfile and the header of a damaged member raise many kinds of exceptions."""
    with file_errors(path, Exception), zipfile.ZipFile(path) as archive:
        yield archive


def open_npz(path: Path, kind: str, options: ReadOptions) -> Source:
    """Open a NumPy archive."""
    with _opened(path) as archive:
        members = dict(_members(archive))
        if "X" not in members:
            found = f"the file has {listed(members) or 'no array'}"
            raise TableError(f"a table in an npz file is its array 'X'; {found}")
        X = members["X"]
        check_matrix(X.shape, X.dtype, "X")
        samples = _names(archive, members, SAMPLES, X.shape[0])
        features = _names(archive, members, FEATURES, X.shape[1])
        # Every further array with one number or text per sample is a label.
        taken = {"X", *FEATURES, *SAMPLES, *options.ignore_columns}
        labels = {
            name: as_label_column(_read(archive, name), name)
            for name, (shape, _, dtype) in members.items()
            if name not in taken and shape == X.shape[:1] and dtype.kind in "biufSU"
        }
    names = MatrixNames(samples, features, labels)
    return matrix_source(path, kind, names, lambda n: _parts(path, X, n), X.fortran)


def _members(archive: zipfile.ZipFile) -> Iterator[tuple[str, Member]]:
    for info in archive.infolist():
        if not info.filename.endswith(".npy"):
            continue
        with archive.open(info) as file:
            member = _read_header(file)
            expected = file.tell() + math.prod(member.shape) * member.dtype.itemsize
        if not member.dtype.hasobject and info.file_size != expected:
            raise TableError(
                f"{info.filename} holds {info.file_size} bytes, its header asks for {expected}; "
                "the file is damaged"
            )
        yield info.filename.removesuffix(".npy"), member


def _read_header(file: IO[bytes]) -> Member:
    version = npy.read_magic(file)
    if version == (1, 0):
        return Member(*npy.read_array_header_1_0(file))
    if version == (2, 0):
        return Member(*npy.read_array_header_2_0(file))
    raise ValueError(f"version {version} of the npy format is not known")


def _read(archive: zipfile.ZipFile, name: str) -> np.ndarray:
    with archive.open(name + ".npy") as file:
        return npy.read_array(file, allow_pickle=False)


def _names(archive, members, keys: tuple[str, str], length: int) -> list[str]:
    key = next((key for key in keys if key in members), None)
    if key is None:
        return [f"{keys[0].removesuffix('s')}_{i}" for i in range(1, length + 1)]
    shape, _, dtype = members[key]
    if shape != (length,):
        raise TableError(f"{quoted(key)} has shape {shape}, X asks for ({length},)")
    if dtype.kind not in "SUiu":
        raise TableError(f"{quoted(key)} must hold text, not {dtype}")
    names = _read(archive, key)
    return [str(name) for name in (decode_names(names) if dtype.kind == "S" else names)]


def _parts(path: Path, X: Member, step: int) -> Iterator[np.ndarray]:
    """Rows of X in the order in which they are stored, of shape (step, width)."""
    n_stored, width = X.shape[::-1] if X.fortran else X.shape
    with _opened(path) as archive, archive.open("X.npy") as file:
        _read_header(file)
        for start in range(0, n_stored, step):
            wanted = min(step, n_stored - start) * width * X.dtype.itemsize
            data = file.read(wanted)
            if len(data) != wanted:
                raise EOFError("X ends early")
            yield np.frombuffer(data, X.dtype).reshape(-1, width)
        if file.read(1):  # also makes zipfile compare the checksum
            raise TableError("X is longer than its header says; the file is damaged")


def write_npz(target: Target) -> Writer:
    """X waits in a temporary file, because its header needs the number of samples."""
    for name in target.parts:
        if name in ("X", *FEATURES, *SAMPLES) or "/" in name or "\\" in name:
            raise TableError(f"{quoted(name)} cannot name a label in an npz file; rename it")
    with tempfile.TemporaryFile(dir=target.path.parent) as X:
        yield from received(
            lambda block: X.write(block.values.astype(target.dtype, order="C").data)
        )
        header = {
            "descr": npy.dtype_to_descr(target.dtype),
            "fortran_order": False,
            "shape": (len(target.samples), len(target.features)),
        }
        names = {"features": target.features, "samples": list(target.samples)}
        with zipfile.ZipFile(target.path, "w") as archive:
            for name, array in {"X": None, **names, **target.labels}.items():
                # A fixed date, so that the same table gives the same bytes.
                info = zipfile.ZipInfo(name + ".npy", date_time=(1980, 1, 1, 0, 0, 0))
                info.compress_type = zipfile.ZIP_DEFLATED
                with archive.open(info, "w", force_zip64=True) as file:
                    if array is not None:
                        npy.write_array(file, np.array(array), allow_pickle=False)
                    else:
                        npy.write_array_header_1_0(file, header)
                        X.seek(0)
                        shutil.copyfileobj(X, file, 2**20)
