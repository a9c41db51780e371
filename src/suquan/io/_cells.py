"""Which cells of a text table are numbers, which are missing, and which are neither; for its readers."""

import math
import re

import numpy as np

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
    if not is_number(cell):
        if _DECIMAL_COMMA.fullmatch(cell):
            return "write numbers with a decimal point"
        marks = ", ".join(filter(None, MISSING))
        return f"numbers look like 1.5 or 2e-3, missing values like {marks} or an empty cell"
    return None if math.isfinite(float(cell)) else "the number is too large for a double"


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
    if cell in MISSING or not (is_number(cell) or _SUSPECT.match(cell)):
        return None
    if is_number(cell):
        return "in a column of text"
    return f"is neither a number nor plain text ({number_problem(cell)})"


def label_array(cells: list[str]) -> np.ndarray:
    """Make labels float64 where all are plain numbers, otherwise text, empty where missing."""
    known = [cell.strip(" \t") for cell in cells if cell not in MISSING]
    if known and all(map(is_plain_number, known)):
        return np.array([np.nan if cell in MISSING else float(cell) for cell in cells])
    return text_array(cells)


def text_array(cells: list[str]) -> np.ndarray:
    """Make an array of text, empty where missing."""
    return np.array(["" if cell in MISSING else cell for cell in cells], dtype=str)
