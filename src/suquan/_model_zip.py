"""The container of a saved model: a zip of one JSON header and plain arrays, checked before it is believed.

`suquan.persistence` gives a header and arrays to write, and gets them back from a file. Members are stored,
never compressed, so that no member is larger than the file: there is nothing to unpack, and no bomb to be had.
Arrays are read by their own size, never by the size that they claim.
"""

import hashlib
import io
import json
import math
import re
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


class ModelFileError(ValueError):
    """A file is not a model file, or is damaged, altered, or newer than this library."""


def array_name(number: int) -> str:
    """Name of the member that holds an array."""
    return f"arrays/{number:04d}.npy"


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
    little = array.astype(array.dtype.newbyteorder("<"), order="C", copy=False)
    np.lib.format.write_array(buffer, little, version=(1, 0), allow_pickle=False)
    return buffer.getvalue()


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


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
            names = _check_members(archive.infolist(), len(data))
            header = _parse_header(archive.read(HEADER), archive.read(CHECKSUM))
            check_header(header)
            listed = header.get("arrays")
            if not isinstance(listed, dict) or (odd := names ^ {HEADER, CHECKSUM, *listed}):
                first = "its list of arrays" if not isinstance(listed, dict) else sorted(odd)[0]
                raise ModelFileError(
                    f"the members of the file and the list in {HEADER} differ, first at {first!r}: the file "
                    "was altered; copy it again from its source."
                )
            return header, {name: _from_npy(name, archive.read(name), listed) for name in listed}
    except ModelFileError:
        raise
    except Exception as error:  # what a damaged zip trips over has no common type
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        raise ModelFileError(
            f"not a suquan model file, or damaged ({reason}); give a file written by suquan.save_model, or "
            "copy it again from its source."
        ) from error


def _check_members(members: list[zipfile.ZipInfo], size: int) -> set[str]:
    """Names of the members; refuses, before anything is read, names and sizes that no model file has."""
    sizes = {member.filename: member.file_size for member in members}
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
    if len(sizes) != len(members):
        raise ModelFileError("two members have the same name; do not trust this file.")
    if sum(sizes.values()) > size:
        raise ModelFileError(
            f"the members claim more bytes than the {size} of the file; do not trust this file."
        )
    for name, limit in ((HEADER, MAX_HEADER), (CHECKSUM, 1024)):
        if name not in sizes:
            raise ModelFileError(f"this zip has no {name}; give a suquan model file.")
        if sizes[name] > limit:
            raise ModelFileError(f"{name} is larger than {limit} bytes; do not trust this file.")
    return set(sizes)


def _check_digest(name: str, data: bytes, recorded: Any) -> None:
    if _digest(data) != recorded:
        raise ModelFileError(
            f"the SHA-256 of {name} is not the recorded one: the file was damaged or altered; copy it again "
            "from its source."
        )


def _parse_header(text: bytes, checksum: bytes) -> dict[str, Any]:
    def refuse_constant(name: str) -> Any:
        raise ValueError(f"{name} is not JSON")

    _check_digest(HEADER, text, checksum.decode("ascii").strip())
    try:
        header = json.loads(text, parse_constant=refuse_constant)
    except RecursionError as error:
        raise ModelFileError(f"{HEADER} is nested too deeply; do not trust this file.") from error
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise ModelFileError(f"{HEADER} is not the header of a suquan model; give another file.")
    return header


def _from_npy(name: str, data: bytes, digests: dict[str, Any]) -> np.ndarray:
    """Array of an npy member whose header agrees with its size; nothing is allocated on a claim."""
    _check_digest(name, data, digests[name])
    file = io.BytesIO(data)
    if np.lib.format.read_magic(file) != (1, 0):
        raise ModelFileError(f"{name} has an unknown version of the npy format; update suquan.")
    shape, fortran, dtype = np.lib.format.read_array_header_1_0(file)
    if dtype.kind not in "biuf":
        raise ModelFileError(f"{name} holds {dtype}, not numbers; do not trust this file.")
    rest = file.read()
    if fortran or min(shape, default=0) < 0 or math.prod(shape) * dtype.itemsize != len(rest):
        raise ModelFileError(f"{name} does not hold what its header says; do not trust this file.")
    return np.frombuffer(rest, dtype).reshape(shape).astype(dtype.newbyteorder("="))
