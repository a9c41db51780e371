"""The container of a saved model: a zip of JSON, CSV and scripts, checked before it is believed.

`suquan.persistence` gives a header and the bytes of all other members to write, and gets them back from a file.
Members are stored, never compressed, so that none is larger than the file: there is nothing to unpack, and no
bomb to be had. Numbers are read one by one as they stand there, never into an array of a claimed size.
"""

import csv
import hashlib
import io
import json
import re
import zipfile
from collections.abc import Callable, Iterable
from itertools import chain
from pathlib import Path
from typing import IO, Any

import numpy as np

from suquan.files.disk import replace_file

FORMAT = "suquan model"
HEADER, OLD_HEADER = "estimator.json", "model.json"
MAX_HEADER = 64 << 20  # bytes; a million feature names take a third of it
NUMBERS = {np.dtype(code).name for code in "?bhilqBHILQefd"}
_MAX_WASTE = (
    16  # times that an array of text, as wide as its widest entry, may be longer than the text
)
_NAMES = re.compile(
    r"README\.txt|(targets|coefficients|missing)\.csv|(model|estimator)\.json(\.sha256)?|score\.(R|py)|"
    r"arrays/[0-9]{4,9}\.(csv|npy)"
)
_COPY = "copy it again from its source."
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the same model gives the same bytes on any day


class ModelFileError(ValueError):
    """A file is not a model file, or is damaged, altered, or newer than this library."""


def require(condition: Any, problem: str, advice: str = "do not trust this file.") -> None:
    """Raise a ModelFileError with the problem and what to do, unless the condition holds."""
    if not condition:
        raise ModelFileError(f"{problem}; {advice}")


def as_csv(header: Iterable[str], names: Iterable[Any], columns: np.ndarray) -> bytes:
    """Write a table: a header, then a name and a number of every column per row, with all their digits."""
    names, limit = [str(name) for name in names], csv.field_size_limit()
    if len(longest := max(names, key=len, default="")) > limit:
        raise ValueError(
            f"the name {longest[:30]!r}… is longer than {limit} characters; shorten it."
        )
    numbers = columns.astype(np.uint8) if columns.dtype.kind == "b" else columns
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows([name, *row] for name, row in zip(names, numbers.T.tolist(), strict=True))
    return text.getvalue().encode("utf-8", "surrogatepass")


def from_csv(name: str, data: bytes, kind: str) -> np.ndarray:
    """Read the numbers of a table, column after column, without its header and its first column."""
    require(kind in NUMBERS, f"{name} holds {kind!r}, not numbers")
    rows = csv.reader(io.StringIO(data.decode("utf-8", "surrogatepass"), newline=""))
    parse = float if np.dtype(kind).kind == "f" else int
    width = max(len(next(rows, [])) - 1, 1)
    cells = chain.from_iterable(row[1:] for row in rows)
    return np.fromiter(map(parse, cells), kind).reshape(-1, width).T.ravel()


def as_text(values: Any, kind: str) -> np.ndarray:
    """Array of text of one of the kinds that a model may have."""
    is_text = isinstance(values, list) and all(isinstance(item, str) for item in values)
    require(is_text, "a list of names holds something else than text")
    size = len(values) * max(map(len, values), default=0)
    is_short = kind != "U" or size <= _MAX_WASTE * sum(len(item) + 1 for item in values)
    kinds: dict[str, Any] = {"object": object, "U": str, "T": np.dtypes.StringDType()}
    require(kind in kinds and is_short, f"the header holds text of unknown kind {kind!r}")
    return np.array(values, dtype=kinds[kind])


def write_container(path: Any, header: dict[str, Any], parts: dict[str, bytes]) -> Path:
    """Write the header and the other members, with their checksums, in one move."""
    listed = {name: _digest(data) for name, data in parts.items()}
    text = json.dumps({**header, "members": listed}, indent=1, allow_nan=False).encode()
    if len(text) > MAX_HEADER:
        raise ValueError(
            f"the names and settings of this model take {len(text)} bytes, more than the {MAX_HEADER} that a "
            "model file may hold; use shorter feature names."
        )
    members = {**parts, HEADER: text, f"{HEADER}.sha256": _digest(text).encode()}

    def write(file: IO[bytes]) -> None:
        with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
            for name, data in members.items():
                archive.writestr(zipfile.ZipInfo(name, _EPOCH), data)

    return replace_file(path, write)


def read_container(
    path: Any, check_header: Callable[[dict[str, Any]], None]
) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Read the header, which `check_header` sees before anything in it is used, and the other members."""
    data = Path(path).read_bytes()
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            main = _check_members(archive.infolist(), len(data))
            parts = {name: archive.read(name) for name in archive.namelist()}
    except ModelFileError:
        raise
    except Exception as error:  # what a damaged zip trips over has no common type
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        advice = f"give a file written by suquan.save_model, or {_COPY}"
        raise ModelFileError(f"not a suquan model file, or damaged ({reason}); {advice}") from error
    text, checksum = parts.pop(main), parts.pop(f"{main}.sha256")
    _check_digests({main: text}, {main: checksum.decode("ascii", "replace").strip()})
    try:
        header = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ModelFileError(f"{main} is not JSON ({error}); do not trust this file.") from error
    is_header = isinstance(header, dict) and header.get("format") == FORMAT
    require(is_header, f"{main} is not the header of a suquan model", "give another file.")
    check_header(header)
    _check_digests(parts, header.get("arrays" if main == OLD_HEADER else "members"))
    return header, parts


def _check_members(members: list[zipfile.ZipInfo], size: int) -> str:
    """Name of the header; refuses sizes that no model file has before anything is read."""
    sizes = {member.filename: member.file_size for member in members}
    for member in members:
        name, packed, full = member.filename, member.compress_size, member.file_size
        is_plain = member.compress_type == zipfile.ZIP_STORED and packed == full
        problem = f"member {name!r} is compressed, {packed} bytes for {full}; model files never are"
        require(is_plain, problem)
    require(len(sizes) == len(members), "two members have the same name")
    fits = sum(sizes.values()) <= size
    require(fits, f"the members claim more bytes than the {size} of the file")
    main = OLD_HEADER if f"{OLD_HEADER}.sha256" in sizes else HEADER
    for name, limit in ((main, MAX_HEADER), (f"{main}.sha256", 1024)):
        require(name in sizes, f"this zip has no {name}", "give a suquan model file.")
        require(sizes[name] <= limit, f"{name} is larger than {limit} bytes")
    return main


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _check_digests(parts: dict[str, bytes], recorded: Any) -> None:
    """Refuse members that are not the recorded ones."""
    require(isinstance(recorded, dict), "the header of the model lists no members")
    odd = sorted(
        parts.keys() ^ recorded.keys() | {name for name in parts if not _NAMES.fullmatch(name)}
    )
    problem = f"the members of the file are not those of a model, or not listed, first {odd[:1]}"
    require(not odd, f"{problem}: the file was altered", _COPY)
    for name, data in parts.items():
        problem = f"the SHA-256 of {name} is not the recorded one: the file was damaged or altered"
        require(_digest(data) == recorded[name], problem, _COPY)
