"""What the readers of Affymetrix files share: a file's bytes, checked numbers, and the one error they raise."""

from __future__ import annotations

import gzip
import re
import struct
import zlib
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

# Real files have at most some 200 million bytes; a gzip file may claim a thousand times its size.
MAX_BYTES = 1 << 29
# Cells of a side; coordinates are 16-bit numbers in the binary files.
MAX_SIDE = 1 << 16
_CHUNK = 1 << 20


class MicroarrayFileError(ValueError):
    """A microarray file is damaged, truncated, or of a kind that is not read."""


def require(condition: Any, message: str) -> None:
    """Raise a MicroarrayFileError with this message unless the condition holds."""
    if not condition:
        raise MicroarrayFileError(message)


def read_bytes(path: Any) -> bytes:
    """Content of a file, unpacked if it is a gzip file.

    Raises
    ------
    MicroarrayFileError
        If the file is longer than `MAX_BYTES`, or a damaged gzip file.
    """
    path = Path(path)
    with path.open("rb") as file:
        packed = file.read(2) == b"\x1f\x8b"
        file.seek(0)
        stream: Any = gzip.GzipFile(fileobj=file) if packed else file
        chunks = iter(lambda: stream.read(_CHUNK), b"")
        try:
            data = b"".join(islice(chunks, MAX_BYTES // _CHUNK + 1))
        except (EOFError, gzip.BadGzipFile, zlib.error, struct.error) as error:
            raise MicroarrayFileError(f"{path.name} is a damaged gzip file: {error}") from error
    require(
        len(data) <= MAX_BYTES,
        f"{path.name} holds more than {MAX_BYTES:,} bytes, more than any microarray file.",
    )
    return data


class Bytes:
    """Little-endian numbers read from bytes one after another, none of them past the end."""

    def __init__(self, data: bytes, name: str) -> None:
        self.data = data
        self.name = name
        self.place = 0

    @property
    def n_left(self) -> int:
        """Bytes not read yet."""
        return len(self.data) - self.place

    def take(self, n_bytes: int, what: str) -> memoryview:
        """Next `n_bytes` bytes; `what` they are, for the message."""
        require(
            0 <= n_bytes <= self.n_left,
            f"{self.name} is truncated or damaged: {what} should take {n_bytes:,} bytes, "
            f"{self.n_left:,} are left of {len(self.data):,}.",
        )
        self.place += n_bytes
        return memoryview(self.data)[self.place - n_bytes : self.place]

    def table(self, dtype: np.dtype, n: int, what: str) -> np.ndarray:
        """Next `n` records of type `dtype`."""
        return np.frombuffer(self.take(n * dtype.itemsize, what), dtype)

    def unpack(self, form: str, what: str) -> tuple:
        """Numbers of the `struct` format `form`, without padding."""
        return struct.unpack("<" + form, self.take(struct.calcsize("<" + form), what))

    def integer(self, what: str, low: int = 0, high: int = 2**31 - 1) -> int:
        """Next 32-bit integer, which must lie between `low` and `high`."""
        return check_range(self.unpack("i", what)[0], what, low, high, self.name)

    def text(self, what: str) -> str:
        """Text that follows its length in bytes."""
        length = self.integer(f"length of the {what}")
        return str(self.take(length, what), "latin-1")

    def move_to(self, place: int, what: str) -> None:
        """Go on reading at byte `place`."""
        require(
            0 <= place <= len(self.data),
            f"{self.name} is damaged: {what} should start at byte {place:,}, the file has "
            f"{len(self.data):,}.",
        )
        self.place = place


def check_range(value: int, what: str, low: int, high: int, place: str) -> int:
    """`value`, or an error if it does not lie between `low` and `high`."""
    if not low <= value <= high:
        raise MicroarrayFileError(
            f"{place} is damaged: {what} is {value:,}, not between {low:,} and {high:,}."
        )
    return value


def sections(data: bytes, name: str) -> Iterator[tuple[str, list[str]]]:
    """Sections of a text file of [SECTION] lines: the name of each and its lines that are not empty."""
    title = ""
    lines: list[str] = []
    for line in [*data.decode("latin-1").split("\n"), "[]"]:
        line = line.strip(" \t\r\0")
        if line.startswith("[") and line.endswith("]"):
            if title:
                yield title, lines
            title, lines = line[1:-1], []
        elif line:
            require(
                title,
                f"{name} is damaged: it should start with a section in [brackets], not {line[:40]!r}.",
            )
            lines.append(line)


class Tags:
    """The TAG=VALUE lines of a section; errors name the file and the section."""

    def __init__(self, lines: list[str], place: str) -> None:
        pairs = (line.partition("=") for line in lines)
        self.values = {tag.strip(): value.strip() for tag, equal, value in pairs if equal}
        self.place = place

    def text(self, tag: str) -> str:
        """Value of a tag that must be there."""
        require(
            tag in self.values,
            f"{self.place} has no line {tag}=…; the file is damaged or truncated.",
        )
        return self.values[tag]

    def integer(self, tag: str, low: int = 0, high: int = 2**31 - 1) -> int:
        """Value of a tag as an integer between `low` and `high`."""
        text = self.text(tag)
        require(
            re.fullmatch(r"[+-]?[0-9]{1,12}", text),
            f"{self.place} is damaged: {tag} should be an integer; it is {text[:40]!r}.",
        )
        return check_range(int(text), tag, low, high, self.place)
