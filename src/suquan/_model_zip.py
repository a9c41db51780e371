"""The container of a saved model: a zip of one JSON header and plain arrays, checked before it is believed.

Members are stored, never compressed, so that no member is larger than the file: there is nothing to unpack,
and no bomb to be had. Arrays are read by their own size, never by the size that they claim.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import numpy as np

from suquan._files import replace_file

FORMAT = "suquan model"
HEADER = "model.json"
CHECKSUM = "model.json.sha256"
MAX_HEADER = 64 << 20  # bytes; a million feature names take a third of it
_ARRAY_NAME = re.compile(r"arrays/[0-9]{4,9}\.npy")
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the same model gives the same bytes on any day
# What the standard library raises on files that are damaged or made to harm.
_BROKEN = (
    zipfile.BadZipFile,
    zipfile.LargeZipFile,
    NotImplementedError,
    RuntimeError,
    EOFError,
    LookupError,
    struct.error,
    ValueError,
    OverflowError,
)


class ModelFileError(ValueError):
    """A file is not a model file, or is damaged, altered, or newer than this library."""


def array_name(number: int) -> str:
    """Name of the member that holds an array."""
    return f"arrays/{number:04d}.npy"


# -- writing ----------------------------------------------------------------------------------------


def write_container(path: Any, header: dict[str, Any], arrays: list[np.ndarray]) -> Path:
    """Write the header and the arrays, with their checksums, in one move."""
    parts = {array_name(k): _as_npy(array) for k, array in enumerate(arrays)}
    listed = {name: _digest(data) for name, data in parts.items()}
    text = json.dumps({**header, "arrays": listed}, indent=1, allow_nan=False).encode()
    if len(text) > MAX_HEADER:
        raise ValueError(
            f"the names and settings of this model take {len(text)} bytes, more than the {MAX_HEADER} that a "
            "model file may hold; use shorter feature names."
        )
    members = {HEADER: text, CHECKSUM: _digest(text).encode(), **parts}

    def write(file: IO[bytes]) -> None:
        with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
            for name, data in members.items():
                archive.writestr(zipfile.ZipInfo(name, _EPOCH), data)

    return replace_file(path, write)


def _as_npy(array: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    little = array.astype(array.dtype.newbyteorder("<"), copy=False)
    np.lib.format.write_array(
        buffer, np.ascontiguousarray(little), version=(1, 0), allow_pickle=False
    )
    return buffer.getvalue()


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


# -- reading ----------------------------------------------------------------------------------------


def read_container(
    path: Any, check_header: Callable[[dict[str, Any]], None]
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Header and arrays of a model file.

    Parameters
    ----------
    path : path
    check_header : callable
        Gets the header before anything in it is used, and raises where it cannot be read.

    Raises
    ------
    ModelFileError
        In one line, what was wanted, what came and what to do.
    """
    data = Path(path).read_bytes()
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            return _read(archive, len(data), check_header)
    except ModelFileError as error:
        raise ModelFileError(f"{str(path)!r}: {error}") from error.__cause__
    except _BROKEN as error:
        raise ModelFileError(
            f"{str(path)!r} is not a suquan model file, or is damaged ({_one_line(error)}); give a file "
            "written by suquan.save_model, or copy it again from its source."
        ) from error


def _one_line(error: BaseException) -> str:
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= 200 else text[:200] + "…"


def _read(
    archive: zipfile.ZipFile, size: int, check_header: Callable[[dict[str, Any]], None]
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    members = archive.infolist()
    _check_members(members, size)
    text = archive.read(HEADER)
    if archive.read(CHECKSUM).decode("ascii").strip() != _digest(text):
        raise ModelFileError(_altered(HEADER))
    header = _parse_json(text)
    if header.get("format") != FORMAT:
        raise ModelFileError(f"{HEADER} is not the header of a suquan model; give another file.")
    check_header(header)
    listed = header.get("arrays")
    if not isinstance(listed, dict):
        raise ModelFileError(f"{HEADER} lists no arrays: the file is damaged; copy it again.")
    held = {member.filename for member in members} - {HEADER, CHECKSUM}
    if held != set(listed):
        odd = sorted(held ^ set(listed))[0]
        raise ModelFileError(
            f"the members of the file and the list in {HEADER} differ, first at {odd!r}: the file was "
            "altered; copy it again from its source."
        )
    arrays = {}
    for name, digest in listed.items():
        data = archive.read(name)
        if _digest(data) != digest:
            raise ModelFileError(_altered(name))
        arrays[name] = _from_npy(name, data)
    return header, arrays


def _altered(name: str) -> str:
    return (
        f"the SHA-256 of {name} is not the recorded one: the file was damaged or altered; copy it again from "
        "its source."
    )


def _check_members(members: list[zipfile.ZipInfo], size: int) -> None:
    """Refuse, before anything is read, names and sizes that no model file has."""
    names = [member.filename for member in members]
    for member in members:
        name = member.filename
        if name not in (HEADER, CHECKSUM) and not _ARRAY_NAME.fullmatch(name):
            raise ModelFileError(
                f"unexpected member {name!r}: a model file holds {HEADER}, {CHECKSUM} and arrays/NNNN.npy "
                "alone; do not trust this file."
            )
        if member.compress_type != zipfile.ZIP_STORED or member.compress_size != member.file_size:
            raise ModelFileError(
                f"member {name!r} is compressed, {member.compress_size} bytes for {member.file_size}; model "
                "files never are. Do not trust this file."
            )
    if len(set(names)) != len(names):
        raise ModelFileError("two members have the same name; do not trust this file.")
    if missing := {HEADER, CHECKSUM} - set(names):
        raise ModelFileError(f"this zip has no {sorted(missing)[0]}; give a suquan model file.")
    if sum(member.file_size for member in members) > size:
        raise ModelFileError(
            f"the members claim more bytes than the {size} of the file; do not trust this file."
        )
    for name, limit in ((HEADER, MAX_HEADER), (CHECKSUM, 1024)):
        if members[names.index(name)].file_size > limit:
            raise ModelFileError(f"{name} is larger than {limit} bytes; do not trust this file.")


def _parse_json(text: bytes) -> dict[str, Any]:
    try:
        header = json.loads(text, parse_constant=_refuse_constant)
    except RecursionError as error:
        raise ModelFileError(f"{HEADER} is nested too deeply; do not trust this file.") from error
    if not isinstance(header, dict):
        raise ModelFileError(f"{HEADER} is not a JSON object; give another file.")
    return header


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _from_npy(name: str, data: bytes) -> np.ndarray:
    """Array of an npy member whose header agrees with its size; nothing is allocated on a claim."""
    file = io.BytesIO(data)
    if np.lib.format.read_magic(file) != (1, 0):
        raise ModelFileError(f"{name} has an unknown version of the npy format; update suquan.")
    shape, fortran, dtype = np.lib.format.read_array_header_1_0(file)
    if dtype.hasobject or dtype.kind not in "biuf" or dtype.fields is not None:
        raise ModelFileError(f"{name} holds {dtype}, not numbers; do not trust this file.")
    count = 1
    for length in shape:
        count *= length
    rest = data[file.tell() :]
    if fortran or min(shape, default=0) < 0 or count * dtype.itemsize != len(rest):
        raise ModelFileError(f"{name} does not hold what its header says; do not trust this file.")
    return np.frombuffer(rest, dtype).reshape(shape).astype(dtype.newbyteorder("="))
