"""NumPy archives: ``X`` (samples x features), ``features``, ``samples``, and one array per label.

Every array is read whole, after a check that the file can hold what its header promises; nothing is unpickled.
`reading` and `writing` call this.
"""

import math
import os
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy

from suquan.io._errors import file_errors, listed, quoted, refuse
from suquan.io._source import ReadOptions, Source
from suquan.io._table import Table, check_matrix, decode_names, made_up_names

NAMES = {"samples": ("samples", "sample_names"), "features": ("features", "feature_names")}
TAKEN = {"X", *NAMES["samples"], *NAMES["features"]}
HEADERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}


def open_npz(path: Path, kind: str, options: ReadOptions) -> Source:
    """Open a NumPy archive."""
    # zipfile and the header of a damaged array raise many kinds of exceptions.
    with file_errors(path, Exception), zipfile.ZipFile(path) as archive:
        found = dict(_headers(archive))
        has = f"the file has {listed(found) or 'no array'}"
        refuse("X" not in found, f"a table in an npz file is its array 'X'; {has}")
        shape, dtype = found["X"]
        check_matrix(shape, dtype, "X")
    # Every further array with one number or text per sample is a label.
    labels = [
        name
        for name, (size, entry) in found.items()
        if name not in {*TAKEN, *options.ignore_columns}
        and size == shape[:1]
        and entry.kind in "biufSU"
    ]

    def tables() -> Iterator[Table]:
        with file_errors(path, Exception), np.load(path, allow_pickle=False) as archive:
            names = [_names(archive, found, what, n) for what, n in zip(NAMES, shape, strict=True)]
            columns = {name: archive[name] for name in labels}
            yield Table(archive["X"], names[0], names[1], columns, "rows", kind)

    return Source(kind, "rows", tables, label_names=labels)


def _headers(archive: zipfile.ZipFile) -> Iterator[tuple[str, tuple[tuple[int, ...], np.dtype]]]:
    """Name, shape and type of every array, each no larger than the bytes that there are."""
    n_bytes = os.path.getsize(archive.filename)  # type: ignore[arg-type]
    for info in archive.infolist():
        most = 1032 * min(info.compress_size, n_bytes)  # deflate makes at most 1,032 bytes of one
        claim = f"{info.filename} claims {info.file_size:,} bytes, more than the file can hold"
        refuse(info.file_size > most, f"{claim}; do not trust this file")
        if not info.filename.endswith(".npy"):
            continue
        with archive.open(info) as file:
            version = npy.read_magic(file)
            refuse(version not in HEADERS, f"version {version} of the npy format is not known")
            shape, _, dtype = HEADERS[version](file)
            expected = file.tell() + math.prod(shape) * dtype.itemsize
        size = f"holds {info.file_size} bytes, its header asks for {expected}"
        is_damaged = not dtype.hasobject and info.file_size != expected
        refuse(is_damaged, f"{info.filename} {size}; the file is damaged")
        yield info.filename.removesuffix(".npy"), (shape, dtype)


def _names(archive: Any, found: dict[str, Any], what: str, n: int) -> np.ndarray:
    key = next((key for key in NAMES[what] if key in found), None)
    if key is None:
        return np.array(made_up_names(what.removesuffix("s"), 0, n))
    shape, dtype = found[key]
    refuse(shape != (n,), f"{quoted(key)} has shape {shape}, X asks for ({n},)")
    refuse(dtype.kind not in "SUiu", f"{quoted(key)} must hold text, not {dtype}")
    return decode_names(archive[key]) if dtype.kind == "S" else archive[key].astype(str)


def write_npz(path: Path, table: Table, *_: Any) -> None:
    """Write a table; the same table gives the same bytes on any day."""
    for name in table.labels:
        is_taken = name in TAKEN or "/" in name or "\\" in name
        refuse(is_taken, f"{quoted(name)} cannot name a label in an npz file; rename it")
    X = np.ascontiguousarray(table.values)
    arrays = {"X": X, "features": table.feature_names, "samples": table.sample_names}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, array in {**arrays, **table.labels}.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
                npy.write_array(file, array, allow_pickle=False)
