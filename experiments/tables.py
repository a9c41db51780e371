"""Tidy tables: lists of rows, each a dict, kept as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from suquan.files.disk import replace_file

Row = dict[str, Any]


def write_rows(path: Path, rows: Sequence[Row]) -> Path:
    """Write a table in one move; the columns are those of the first row."""
    if not rows:
        raise ValueError(f"nothing to write to {path.name}.")
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows({key: _text(value) for key, value in row.items()} for row in rows)
    return replace_file(path, lambda file: file.write(text.getvalue().encode()))


def read_rows(path: Path) -> list[Row]:
    """Read a table; what looks like a number becomes one, an empty cell NaN."""
    if not path.is_file():
        raise FileNotFoundError(2, "no such table; run the stages before this one first", str(path))
    with path.open(encoding="utf-8", newline="") as file:
        return [{key: _value(cell) for key, cell in row.items()} for row in csv.DictReader(file)]


def _text(value: Any) -> Any:
    if isinstance(value, float | np.floating):
        return "" if np.isnan(value) else f"{value:.6g}"
    return value


def _value(cell: str) -> Any:
    if cell == "":
        return np.nan
    for kind in (int, float):
        try:
            return kind(cell)
        except ValueError:
            pass
    return cell


def distinct(rows: Iterable[Row], key: str) -> list[Any]:
    """Values of a column in the order in which they come first."""
    return list(dict.fromkeys(row[key] for row in rows))


def where(rows: Iterable[Row], **wanted: Any) -> list[Row]:
    """Rows with these values."""
    return [row for row in rows if all(row[key] == value for key, value in wanted.items())]


def column(rows: Iterable[Row], key: str) -> np.ndarray:
    """A column as an array."""
    return np.array([row[key] for row in rows])


def grouped(
    rows: Sequence[Row], keys: Sequence[str], **columns: Callable[[list[Row]], Any]
) -> list[Row]:
    """One row per combination of the keys' values, with columns computed from its rows."""
    groups: dict[tuple, list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row[key] for key in keys), []).append(row)
    return [
        dict(zip(keys, group, strict=True))
        | {name: compute(part) for name, compute in columns.items()}
        for group, part in groups.items()
    ]


def mean_of(key: str) -> Callable[[list[Row]], float]:
    """Mean of a column, for :func:`grouped`."""
    return lambda rows: float(np.mean(column(rows, key)))


def std_of(key: str) -> Callable[[list[Row]], float]:
    """Standard deviation of a column, NaN for one row, for :func:`grouped`."""
    return lambda rows: float(np.std(column(rows, key), ddof=1)) if len(rows) > 1 else float("nan")


def error_of(key: str) -> Callable[[list[Row]], float]:
    """Standard error of a column's mean, NaN for one row, for :func:`grouped`."""
    return lambda rows: std_of(key)(rows) / len(rows) ** 0.5


def yes_or_no(holds: bool) -> str:
    """Whether a statement holds, for a table."""
    return "yes" if holds else "no"
