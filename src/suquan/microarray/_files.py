"""What the readers of Affymetrix files share: a file's bytes, checked numbers, and the one error they raise.

A path comes in, numbers and lines go out; `_cel.py` and `_cdf.py` call it.
"""

import gzip
import re
import struct
import zlib
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

# Real files have at most some 200 million bytes; a gzip file may claim a thousand times its size.
MAX_BYTES = 1 << 29
# Cells of a side; coordinates are 16-bit numbers in the binary files.
MAX_SIDE = 1 << 16


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


def check_range(value: int, what: str, low: int, high: int, place: str) -> int:
    """Return `value`; refuse it if it does not lie between `low` and `high`."""
    problem = f"is damaged: {what} is {value:,}, not between {low:,} and {high:,}."
    require(low <= value <= high, place, problem)
    return value


class Bytes:
    """Content of a file, and numbers read from it one after another, none past the end.

    Numbers are little-endian, unless `order` is set to ">". A file of more than `MAX_BYTES` is refused.
    """

    def __init__(self, path: Any) -> None:
        self.name, self.place, self.order = Path(path).name, 0, "<"
        with Path(path).open("rb") as file:
            packed = file.read(2) == b"\x1f\x8b"
            file.seek(0)
            try:
                stream: Any = gzip.GzipFile(fileobj=file) if packed else file
                chunks = iter(lambda: stream.read(1 << 20), b"")  # no memory before there are bytes
                self.data = b"".join(islice(chunks, (MAX_BYTES >> 20) + 1))
            except (EOFError, gzip.BadGzipFile, zlib.error, struct.error) as error:
                raise MicroarrayFileError(f"{self.name} is a damaged gzip file: {error}") from error
        problem = f"holds more than {MAX_BYTES:,} bytes, more than any microarray file."
        require(len(self.data) <= MAX_BYTES, self.name, problem)

    def take(self, n_bytes: int, what: str) -> memoryview:
        """Read the next `n_bytes` bytes; `what` they are, for the message."""
        n_left = len(self.data) - self.place
        left = f"{n_left:,} are left of {len(self.data):,}. Copy or download the file again."
        problem = f"is truncated or damaged: {what} should take {n_bytes:,} bytes, {left}"
        require(0 <= n_bytes <= n_left, self.name, problem)
        self.place += n_bytes
        return memoryview(self.data)[self.place - n_bytes : self.place]

    def table(self, dtype: np.dtype, n: int, what: str) -> np.ndarray:
        """Read the next `n` records of type `dtype`."""
        return np.frombuffer(self.take(n * dtype.itemsize, what), dtype)

    def unpack(self, form: str, what: str) -> tuple:
        """Read numbers of the `struct` format `form`, without padding."""
        form = self.order + form
        return struct.unpack(form, self.take(struct.calcsize(form), what))

    def integer(self, what: str, low: int = 0, high: int = 2**31 - 1) -> int:
        """Read a 32-bit integer, which must lie between `low` and `high`."""
        return check_range(self.unpack("i", what)[0], what, low, high, self.name)

    def text(self, what: str) -> str:
        """Read a text that follows its length in bytes."""
        return str(self.take(self.integer(f"length of the {what}"), what), "latin-1")

    def move_to(self, place: int, what: str) -> None:
        """Go on reading at byte `place`."""
        size = len(self.data)
        problem = f"is damaged: {what} should start at byte {place:,}, the file has {size:,}."
        require(0 <= place <= size, self.name, problem)
        self.place = place

    def sections(self) -> list[tuple[str, list[str]]]:
        """Split a text file at its [SECTION] lines: the name of each, and its lines that are not empty."""
        found: list[tuple[str, list[str]]] = []
        for line in self.data.decode("latin-1").split("\n"):
            line = line.strip(" \t\r\0")
            if line.startswith("[") and line.endswith("]"):
                found.append((line[1:-1], []))
            elif line:
                problem = (
                    f"is damaged: it should start with a section in [brackets], not {line[:40]!r}."
                )
                require(found, self.name, problem)
                found[-1][1].append(line)
        return found


class Tags:
    """The TAG=VALUE lines of a section; errors name the file and the section."""

    def __init__(self, lines: list[str], place: str) -> None:
        pairs = (line.partition("=") for line in lines)
        self.values = {tag.strip(): value.strip() for tag, equal, value in pairs if equal}
        self.place = place

    def text(self, tag: str) -> str:
        """Give the value of a tag that must be there."""
        problem = f"has no line {tag}=…; the file is damaged or truncated."
        require(tag in self.values, self.place, problem)
        return self.values[tag]

    def integer(self, tag: str, low: int = 0, high: int = 2**31 - 1) -> int:
        """Give the value of a tag as an integer between `low` and `high`."""
        text = self.text(tag)
        problem = f"is damaged: {tag} should be an integer; it is {text[:40]!r}."
        require(re.fullmatch(r"[+-]?[0-9]{1,12}", text), self.place, problem)
        return check_range(int(text), tag, low, high, self.place)
