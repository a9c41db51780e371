"""NumPy archives: ``X`` (samples x features), ``features``, ``samples``, and one array per label.

The members are streamed out of the zip file, after a check that they have the size their header promises;
nothing is unpickled.
"""

import math
import os
import shutil
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO

import numpy as np
from numpy.lib import format as npy

from suquan.io._errors import file_errors, listed, quoted, refuse
from suquan.io._sinks import Target, Writer, received
from suquan.io._source import ReadOptions, Source, matrix_source
from suquan.io._table import as_label_column, check_matrix, decode_names

FEATURES = ("features", "feature_names")
SAMPLES = ("samples", "sample_names")


@contextmanager
def _opened(path: Path) -> Iterator[zipfile.ZipFile]:
    """The archive; zipfile and the header of a damaged member raise many kinds of exceptions."""
    with file_errors(path, Exception), zipfile.ZipFile(path) as archive:
        yield archive


def open_npz(path: Path, kind: str, options: ReadOptions) -> Source:
    """Open a NumPy archive."""
    with _opened(path) as archive:
        members = dict(_members(archive))
        found = f"the file has {listed(members) or 'no array'}"
        refuse("X" not in members, f"a table in an npz file is its array 'X'; {found}")
        shape, by_feature, dtype = members["X"]
        check_matrix(shape, dtype, "X")
        samples = _names(archive, members, SAMPLES, shape[0])
        features = _names(archive, members, FEATURES, shape[1])
        # Every further array with one number or text per sample is a label.
        taken = {"X", *FEATURES, *SAMPLES, *options.ignore_columns}
        labels = {
            name: as_label_column(_read(archive, name), name)
            for name, (size, _, entry) in members.items()
            if name not in taken and size == shape[:1] and entry.kind in "biufSU"
        }
    stored = shape[::-1] if by_feature else shape
    parts = partial(_parts, path, stored, dtype)
    return matrix_source(path, kind, (samples, features, labels), parts, by_feature)


def _members(archive: zipfile.ZipFile) -> Iterator[tuple[str, tuple]]:
    """Name of every array, and its shape, whether it is stored by column, and its type."""
    n_bytes = os.path.getsize(archive.filename)  # type: ignore[arg-type]
    for info in archive.infolist():
        most = 1032 * min(info.compress_size, n_bytes)  # deflate makes at most 1,032 bytes of one
        claim = f"{info.filename} claims {info.file_size:,} bytes, more than the file can hold"
        refuse(info.file_size > most, f"{claim}; do not trust this file")
        if not info.filename.endswith(".npy"):
            continue
        with archive.open(info) as file:
            shape, by_column, dtype = _read_header(file)
            expected = file.tell() + math.prod(shape) * dtype.itemsize
        size = f"holds {info.file_size} bytes, its header asks for {expected}"
        is_damaged = not dtype.hasobject and info.file_size != expected
        refuse(is_damaged, f"{info.filename} {size}; the file is damaged")
        yield info.filename.removesuffix(".npy"), (shape, by_column, dtype)


def _read_header(file: IO[bytes]) -> tuple:
    version = npy.read_magic(file)
    readers = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
    refuse(version not in readers, f"version {version} of the npy format is not known")
    return readers[version](file)


def _read(archive: zipfile.ZipFile, name: str) -> np.ndarray:
    with archive.open(name + ".npy") as file:
        return npy.read_array(file, allow_pickle=False)


def _names(archive, members, keys: tuple[str, str], length: int) -> list[str]:
    key = next((key for key in keys if key in members), None)
    if key is None:
        return [f"{keys[0].removesuffix('s')}_{i}" for i in range(1, length + 1)]
    shape, _, dtype = members[key]
    refuse(shape != (length,), f"{quoted(key)} has shape {shape}, X asks for ({length},)")
    refuse(dtype.kind not in "SUiu", f"{quoted(key)} must hold text, not {dtype}")
    names = _read(archive, key)
    return [str(name) for name in (decode_names(names) if dtype.kind == "S" else names)]


def _parts(path: Path, stored: tuple, dtype: np.dtype, step: int) -> Iterator[np.ndarray]:
    """Rows of X in the order in which they are stored, of shape (step, width)."""
    n_stored, width = stored
    with _opened(path) as archive, archive.open("X.npy") as file:
        _read_header(file)
        for start in range(0, n_stored, step):
            wanted = min(step, n_stored - start) * width * dtype.itemsize
            data = file.read(wanted)
            refuse(len(data) != wanted, "X ends early; the file is damaged or truncated")
            yield np.frombuffer(data, dtype).reshape(-1, width)
        # The last read also makes zipfile compare the checksum.
        refuse(file.read(1), "X is longer than its header says; the file is damaged")


def write_npz(target: Target) -> Writer:
    """X waits in a temporary file, because its header needs the number of samples."""
    for name in target.parts:
        is_taken = name in ("X", *FEATURES, *SAMPLES) or "/" in name or "\\" in name
        refuse(is_taken, f"{quoted(name)} cannot name a label in an npz file; rename it")
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
