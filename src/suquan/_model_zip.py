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
_COPY = "copy it again from its source."
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the same model gives the same bytes on any day


class ModelFileError(ValueError):
    """A file is not a model file, or is damaged, altered, or newer than this library."""


def require(condition: Any, problem: str, advice: str = "do not trust this file.") -> None:
    """Raise a ModelFileError with the problem and what to do, unless the condition holds."""
    if not condition:
        raise ModelFileError(f"{problem}; {advice}")


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
            listed: Any = header.get("arrays")
            odd = ["its list of arrays"]
            if isinstance(listed, dict):
                odd = sorted(names ^ {HEADER, CHECKSUM, *listed})
            problem = f"the members of the file and the list in {HEADER} differ, first at {''.join(odd[:1])!r}"
            require(not odd, f"{problem}: the file was altered", _COPY)
            return header, {name: _from_npy(name, archive.read(name), listed) for name in listed}
    except ModelFileError:
        raise
    except Exception as error:  # what a damaged zip trips over has no common type
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        problem = f"not a suquan model file, or damaged ({reason})"
        advice = f"give a file written by suquan.save_model, or {_COPY}"
        raise ModelFileError(f"{problem}; {advice}") from error


def _check_members(members: list[zipfile.ZipInfo], size: int) -> set[str]:
    """Names of the members; refuses, before anything is read, names and sizes that no model file has."""
    sizes = {member.filename: member.file_size for member in members}
    for member in members:
        name, packed, full = member.filename, member.compress_size, member.file_size
        known = name in (HEADER, CHECKSUM) or _ARRAY_NAME.fullmatch(name)
        holds = f"a model file holds {HEADER}, {CHECKSUM} and arrays/NNNN.npy alone"
        require(known, f"unexpected member {name!r}: {holds}")
        is_plain = member.compress_type == zipfile.ZIP_STORED and packed == full
        problem = f"member {name!r} is compressed, {packed} bytes for {full}; model files never are"
        require(is_plain, problem)
    require(len(sizes) == len(members), "two members have the same name")
    fits = sum(sizes.values()) <= size
    require(fits, f"the members claim more bytes than the {size} of the file")
    for name, limit in ((HEADER, MAX_HEADER), (CHECKSUM, 1024)):
        require(name in sizes, f"this zip has no {name}", "give a suquan model file.")
        require(sizes[name] <= limit, f"{name} is larger than {limit} bytes")
    return set(sizes)


def _check_digest(name: str, data: bytes, recorded: Any) -> None:
    problem = f"the SHA-256 of {name} is not the recorded one: the file was damaged or altered"
    require(_digest(data) == recorded, problem, _COPY)


def _parse_header(text: bytes, checksum: bytes) -> dict[str, Any]:
    def refuse_constant(name: str) -> Any:
        raise ValueError(f"{name} is not JSON")

    _check_digest(HEADER, text, checksum.decode("ascii").strip())
    try:
        header = json.loads(text, parse_constant=refuse_constant)
    except RecursionError as error:
        raise ModelFileError(f"{HEADER} is nested too deeply; do not trust this file.") from error
    is_header = isinstance(header, dict) and header.get("format") == FORMAT
    require(is_header, f"{HEADER} is not the header of a suquan model", "give another file.")
    return header


def _from_npy(name: str, data: bytes, digests: dict[str, Any]) -> np.ndarray:
    """Array of an npy member whose header agrees with its size; nothing is allocated on a claim."""
    _check_digest(name, data, digests[name])
    file = io.BytesIO(data)
    version = np.lib.format.read_magic(file)
    require(version == (1, 0), f"{name} has an unknown version of the npy format", "update suquan.")
    shape, fortran, dtype = np.lib.format.read_array_header_1_0(file)
    require(dtype.kind in "biuf", f"{name} holds {dtype}, not numbers")
    rest = file.read()
    fits = min(shape, default=0) >= 0 and math.prod(shape) * dtype.itemsize == len(rest)
    require(fits and not fortran, f"{name} does not hold what its header says")
    return np.frombuffer(rest, dtype).reshape(shape).astype(dtype.newbyteorder("="))
