"""What the readers of Affymetrix files share: a file's bytes, checked numbers, and the one error they raise."""

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


def require(condition: Any, place: str, problem: str) -> None:
    """Raise a MicroarrayFileError that says what is wrong at the place, unless the condition holds."""
    if not condition:
        raise MicroarrayFileError(f"{place} {problem}")


def require_count(found: int, wanted: int, what: str, place: str) -> None:
    """Raise a MicroarrayFileError unless as many were found as the file says."""
    problem = f"is truncated or damaged: it should have {wanted:,} {what} and has {found:,}."
    require(found == wanted, place, problem)


class Bytes:
    """Content of a file, and numbers read from it one after another, none past the end.

    Numbers are little-endian, unless `order` is set to ">".

    Raises
    ------
    MicroarrayFileError
        If the file is longer than `MAX_BYTES`, or a damaged gzip file.
    """

    def __init__(self, path: Any) -> None:
        self.name, self.place, self.order = Path(path).name, 0, "<"
        with Path(path).open("rb") as file:
            packed = file.read(2) == b"\x1f\x8b"
            file.seek(0)
            stream: Any = gzip.GzipFile(fileobj=file) if packed else file
            chunks = iter(lambda: stream.read(_CHUNK), b"")
            try:
                self.data = b"".join(islice(chunks, MAX_BYTES // _CHUNK + 1))
            except (EOFError, gzip.BadGzipFile, zlib.error, struct.error) as error:
                raise MicroarrayFileError(f"{self.name} is a damaged gzip file: {error}") from error
        problem = f"holds more than {MAX_BYTES:,} bytes, more than any microarray file."
        require(len(self.data) <= MAX_BYTES, self.name, problem)

    @property
    def n_left(self) -> int:
        """Bytes not read yet."""
        return len(self.data) - self.place

    def take(self, n_bytes: int, what: str) -> memoryview:
        """Next `n_bytes` bytes; `what` they are, for the message."""
        left = f"{self.n_left:,} are left of {len(self.data):,}. Copy or download the file again."
        problem = f"is truncated or damaged: {what} should take {n_bytes:,} bytes, {left}"
        require(0 <= n_bytes <= self.n_left, self.name, problem)
        self.place += n_bytes
        return memoryview(self.data)[self.place - n_bytes : self.place]

    def table(self, dtype: np.dtype, n: int, what: str) -> np.ndarray:
        """Next `n` records of type `dtype`."""
        return np.frombuffer(self.take(n * dtype.itemsize, what), dtype)

    def unpack(self, form: str, what: str) -> tuple:
        """Numbers of the `struct` format `form`, without padding."""
        form = self.order + form
        return struct.unpack(form, self.take(struct.calcsize(form), what))

    def integer(self, what: str, low: int = 0, high: int = 2**31 - 1) -> int:
        """Next 32-bit integer, which must lie between `low` and `high`."""
        return check_range(self.unpack("i", what)[0], what, low, high, self.name)

    def text(self, what: str) -> str:
        """Text that follows its length in bytes."""
        length = self.integer(f"length of the {what}")
        return str(self.take(length, what), "latin-1")

    def move_to(self, place: int, what: str) -> None:
        """Go on reading at byte `place`."""
        size = len(self.data)
        problem = f"is damaged: {what} should start at byte {place:,}, the file has {size:,}."
        require(0 <= place <= size, self.name, problem)
        self.place = place


def check_range(value: int, what: str, low: int, high: int, place: str) -> int:
    """`value`, or an error if it does not lie between `low` and `high`."""
    problem = f"is damaged: {what} is {value:,}, not between {low:,} and {high:,}."
    require(low <= value <= high, place, problem)
    return value


def sections(file: Bytes) -> Iterator[tuple[str, list[str]]]:
    """Sections of a text file of [SECTION] lines: the name of each and its lines that are not empty."""
    title = ""
    lines: list[str] = []
    for line in [*file.data.decode("latin-1").split("\n"), "[]"]:
        line = line.strip(" \t\r\0")
        if line.startswith("[") and line.endswith("]"):
            if title:
                yield title, lines
            title, lines = line[1:-1], []
        elif line:
            problem = (
                f"is damaged: it should start with a section in [brackets], not {line[:40]!r}."
            )
            require(title, file.name, problem)
            lines.append(line)


class Tags:
    """The TAG=VALUE lines of a section; errors name the file and the section."""

    def __init__(self, lines: list[str], place: str) -> None:
        pairs = (line.partition("=") for line in lines)
        self.values = {tag.strip(): value.strip() for tag, equal, value in pairs if equal}
        self.place = place

    def text(self, tag: str) -> str:
        """Value of a tag that must be there."""
        problem = f"has no line {tag}=…; the file is damaged or truncated."
        require(tag in self.values, self.place, problem)
        return self.values[tag]

    def integer(self, tag: str, low: int = 0, high: int = 2**31 - 1) -> int:
        """Value of a tag as an integer between `low` and `high`."""
        text = self.text(tag)
        problem = f"is damaged: {tag} should be an integer; it is {text[:40]!r}."
        require(re.fullmatch(r"[+-]?[0-9]{1,12}", text), self.place, problem)
        return check_range(int(text), tag, low, high, self.place)
