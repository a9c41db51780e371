"""Text tables: their dialect, their lines and rows with numbers for people, and what their cells mean.

`_delimited`, `_headed` and `labels` read through a `TextFile`; `writing` asks for the dialect.
"""

import csv
import gzip
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np

from suquan.io._errors import TableError, one_line, refuse

# The one place where the dialect is decided: it follows from the kind of file.
DELIMITERS = {"csv": ",", "tsv": "\t", "gct": "\t", "series_matrix": "\t"}


def dialect(kind: str) -> dict[str, Any]:
    """How the cells of a kind of text table are separated, and whether they may be in double quotes."""
    quoting = csv.QUOTE_NONE if kind == "gct" else csv.QUOTE_MINIMAL
    return {"delimiter": DELIMITERS[kind], "quoting": quoting}


@dataclass(frozen=True)
class TextFile:
    """A table inside a text file, after `skip` lines, up to the line `end` or the end of the file."""

    path: Path
    gzipped: bool
    kind: str
    skip: int = 0
    end: str = ""

    def open(self) -> BinaryIO:
        """Open the file as bytes."""
        return cast(BinaryIO, gzip.open(self.path) if self.gzipped else self.path.open("rb"))

    def lines(self) -> Iterator[str]:
        """Lines of the table as text, header first."""
        with self.open() as file:
            for number, line in enumerate(islice(file, self.skip, None), start=self.skip + 1):
                try:
                    text = line.decode("utf-8-sig" if number == 1 else "utf-8")
                except UnicodeDecodeError:
                    cure = "convert the file (for instance: iconv -f latin1 -t utf-8)"
                    raise TableError(f"line {number} is not UTF-8 text; {cure}") from None
                if self.end and text.startswith(self.end):
                    return
                yield text
        refuse(self.end, f"ends without the line {self.end}; it is truncated")

    def rows(self) -> Iterator[tuple[int, list[str]]]:
        """Rows of cells, header first, each with the number of its last line; empty lines are left out."""
        reader = csv.reader(self.lines(), strict=True, **dialect(self.kind))
        try:
            for row in reader:
                if row:
                    yield self.skip + reader.line_num, row
        except csv.Error as error:
            raise TableError(
                f"line {self.skip + reader.line_num} cannot be split into cells ({one_line(error)}); "
                "check its quotes and line ends"
            ) from None


# --------------------------------------------------------------------------------------------------- cells

MISSING = ("", "NA", "NaN", "nan", "null", "NULL")
_AS_NAN = dict.fromkeys(MISSING, "nan")
_NUMBER = re.compile(r"[ \t]*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?[ \t]*", re.ASCII)
# Text that was probably meant as a number or as a missing value: never taken for a label unasked.
_SUSPECT = re.compile(
    r"\s*([+-]?[.,]?\d|[+-]?(inf|nan)|#|[-?.*\s]*$|(n/?a|none|null|missing)\s*$)", re.IGNORECASE
)
_DECIMAL_COMMA = re.compile(r"\s*[+-]?\d*,\d+([eE][+-]?\d+)?\s*", re.ASCII)
# Numbers without leading zeros, which identifiers may have ('007').
_PLAIN_NUMBER = re.compile(r"[+-]?(0|[1-9]\d*)?(\.\d*)?([eE][+-]?\d+)?", re.ASCII)


def is_number(cell: str) -> bool:
    """Tell whether the cell is written as a number with a decimal point."""
    return _NUMBER.fullmatch(cell) is not None


def is_plain_number(cell: str) -> bool:
    """Tell whether the cell is written as a number and not as an identifier such as 007."""
    return is_number(cell) and _PLAIN_NUMBER.fullmatch(cell) is not None


def number_problem(cell: str) -> str | None:
    """Say why a cell of a numeric column cannot be taken; None if it can."""
    if cell in MISSING:
        return None
    if is_number(cell):
        return None if math.isfinite(float(cell)) else "the number is too large for a double"
    if _DECIMAL_COMMA.fullmatch(cell):
        return "write numbers with a decimal point"
    marks = ", ".join(filter(None, MISSING))
    return f"numbers look like 1.5 or 2e-3, missing values like {marks} or an empty cell"


def read_numbers(cells: list[str]) -> np.ndarray | None:
    """Read the numbers of a row, NaN where missing; None if a cell is neither."""
    known = [_AS_NAN.get(cell, cell) for cell in cells]
    try:
        numbers = np.fromiter(map(float, known), np.float64, len(known))
    except ValueError:
        return None
    # Python reads 1_000, other digits, and words for infinity; a row with such characters is looked at closely.
    written = "".join(known)
    is_plain = written.isascii() and written.isprintable() and "_" not in written
    if is_plain and int(np.isfinite(numbers).sum()) == len(known) - known.count("nan"):
        return numbers
    return None if any(map(number_problem, cells)) else numbers


def text_problem(cell: str) -> str | None:
    """Say why a cell of a column of text cannot be taken; None if it can."""
    if cell in MISSING:
        return None
    if is_number(cell):
        return "in a column of text"
    told = f"is neither a number nor plain text ({number_problem(cell)})"
    return told if _SUSPECT.match(cell) else None


def label_array(cells: list[str]) -> np.ndarray:
    """Make labels float64 where all are plain numbers, otherwise text, empty where missing."""
    known = [cell.strip(" \t") for cell in cells if cell not in MISSING]
    if known and all(map(is_plain_number, known)):
        return np.array([np.nan if cell in MISSING else float(cell) for cell in cells])
    return text_array(cells)


def text_array(cells: list[str]) -> np.ndarray:
    """Make an array of text, empty where missing."""
    return np.array(["" if cell in MISSING else cell for cell in cells], dtype=str)
