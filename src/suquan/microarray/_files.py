"""What the readers of Affymetrix files share: a file's bytes, checked numbers, and the one error they raise."""

from __future__ import annotations

import gzip
import struct
import zlib
from collections.abc import Iterator
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
        try:
            return _read_at_most(stream, MAX_BYTES, path)
        except (EOFError, gzip.BadGzipFile, zlib.error, struct.error) as error:
            raise MicroarrayFileError(f"{path.name} is a damaged gzip file: {error}") from error


def _read_at_most(stream: Any, limit: int, path: Path) -> bytes:
    parts: list[bytes] = []
    size = 0
    while chunk := stream.read(_CHUNK):
        parts.append(chunk)
        size += len(chunk)
        if size > limit:
            raise MicroarrayFileError(
                f"{path.name} holds more than {limit:,} bytes, more than any microarray file."
            )
    return b"".join(parts)


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

    def skip(self, n_bytes: int, what: str) -> None:
        """Pass over `n_bytes` bytes; `what` they are, for the message."""
        if n_bytes < 0 or n_bytes > self.n_left:
            raise MicroarrayFileError(
                f"{self.name} is truncated or damaged: {what} should take {n_bytes:,} bytes, "
                f"{self.n_left:,} are left of {len(self.data):,}."
            )
        self.place += n_bytes

    def take(self, n_bytes: int, what: str) -> bytes:
        """Next `n_bytes` bytes."""
        start = self.place
        self.skip(n_bytes, what)
        return self.data[start : self.place]

    def table(self, dtype: np.dtype, n: int, what: str) -> np.ndarray:
        """Next `n` records of type `dtype`."""
        return np.frombuffer(self.take(n * dtype.itemsize, what), dtype)

    def unpack(self, form: str, what: str) -> tuple:
        """Numbers of the `struct` format `form`, without padding."""
        return struct.unpack("<" + form, self.take(struct.calcsize("<" + form), what))

    def integer(self, what: str, low: int = 0, high: int = 2**31 - 1) -> int:
        """Next 32-bit integer, which must lie between `low` and `high`."""
        (value,) = self.unpack("i", what)
        return check_range(value, what, low, high, self.name)

    def text(self, what: str) -> str:
        """Text that follows its length in bytes."""
        length = self.integer(f"length of the {what}")
        return self.take(length, what).decode("latin-1")

    def move_to(self, place: int, what: str) -> None:
        """Go on reading at byte `place`."""
        if not 0 <= place <= len(self.data):
            raise MicroarrayFileError(
                f"{self.name} is damaged: {what} should start at byte {place:,}, the file has "
                f"{len(self.data):,}."
            )
        self.place = place


def check_range(value: int, what: str, low: int, high: int, name: str) -> int:
    """`value`, or an error if it does not lie between `low` and `high`."""
    if not low <= value <= high:
        raise MicroarrayFileError(
            f"{name} is damaged: {what} is {value:,}, not between {low:,} and {high:,}."
        )
    return value


def sections(data: bytes, name: str) -> Iterator[tuple[str, list[str]]]:
    """Sections of a text file of [SECTION] lines: the name of each and its lines that are not empty."""
    title = ""
    lines: list[str] = []
    for line in data.decode("latin-1").split("\n"):
        line = line.strip(" \t\r\0")
        if line.startswith("[") and line.endswith("]"):
            if title:
                yield title, lines
            title, lines = line[1:-1], []
        elif line:
            if not title:
                raise MicroarrayFileError(
                    f"{name} is damaged: it should start with a section in [brackets], not {line[:40]!r}."
                )
            lines.append(line)
    if title:
        yield title, lines


class Tags:
    """The TAG=VALUE lines of a section; errors name the file and the section."""

    def __init__(self, lines: list[str], place: str) -> None:
        pairs = (line.partition("=") for line in lines)
        self.values = {tag.strip(): value.strip() for tag, equal, value in pairs if equal}
        self.place = place

    def text(self, tag: str) -> str:
        """Value of a tag that must be there."""
        if tag not in self.values:
            raise MicroarrayFileError(
                f"{self.place} has no line {tag}=…; the file is damaged or truncated."
            )
        return self.values[tag]

    def integer(self, tag: str, low: int = 0, high: int = 2**31 - 1) -> int:
        """Value of a tag as an integer between `low` and `high`."""
        return parse_integer(self.text(tag), f"{tag} in {self.place}", low, high)


def parse_integer(text: str, what: str, low: int = 0, high: int = 2**31 - 1) -> int:
    """Integer written in decimal digits, between `low` and `high`."""
    digits = text.lstrip("+-")
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 12):
        raise MicroarrayFileError(f"{what} should be an integer; it is {text[:40]!r}.")
    value = int(text) if text.count("-") + text.count("+") <= 1 else high + 1
    if not low <= value <= high:
        raise MicroarrayFileError(f"{what} is {text}, not between {low:,} and {high:,}.")
    return value
