"""Tables of a Markdown page that name the result files they come from.

A comment before a table says where its cells come from; :func:`fill` writes them:

    <!-- table: file=simulated/curves.csv; rows=method: true bnd; columns=n: 100 200; value=auc; format=.3f -->

- ``file``: a CSV file in the folder of results.
- ``rows``: its column of names, and the name of every row; without names, the first cell is the name.
- ``columns``: names of columns of the file, each with a format of its own after a colon where it needs one
  (``p``: a p-value); or, with ``value``, a column of the file, a colon and its values.
- ``where``: ``column:value``, rows of the file that count; several conditions with " and " between them.
- ``format``: that of all numbers.
- ``best``: ``row``, the highest number of every row is bold.

Rows of other tables link to the CSV files of their numbers; :func:`without_source` finds what they do not hold.
The prose of a section has its numbers from the folders that a comment names; :func:`prose_without_source`:

    <!-- numbers: simulated; aims: 0.006 -->
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..tables import Row, read_rows

_COMMENT = re.compile(r"<!-- table: (.*) -->")
_NUMBER = re.compile(r"(?<![\w.])\d+\.\d+(?![\w.])")
_PROSE = re.compile(r"<!-- numbers: ([\w ]+)(?:; aims: ([\d. ]+))? -->")
_SHARE = re.compile(r"(\d+) of (\d+)")
_LINK = re.compile(r"\]\(([^)]+\.csv)\)")
MISSING = "–"


def fill(text: str, results: Path) -> str:
    """The page with the cells of its commented tables taken from the result files.

    Raises
    ------
    ValueError
        If a table has other rows or columns than its comment says, or the file does not have them.
    """
    lines = text.splitlines()
    for start, match in ((k, _COMMENT.fullmatch(line)) for k, line in enumerate(lines)):
        if match is None:
            continue
        spec = dict(_pair(part) for part in match.group(1).split(";"))
        stop = _end(lines, start + 1)
        body = [_cells(line) for line in lines[start + 3 : stop]]
        found = _values(spec, [cells[0] for cells in body], results)
        n_columns = len(_cells(lines[start + 1]))
        if any(len(row) + 1 != n_columns for row in found) or len(found) != len(body):
            raise ValueError(f"the table after {lines[start]!r} has other rows or columns.")
        for k, (cells, row) in enumerate(zip(body, found, strict=True)):
            lines[start + 3 + k] = f"| {' | '.join([cells[0], *row])} |"
    return "\n".join(lines) + "\n"


def without_source(text: str, folder: Path) -> Iterator[str]:
    """Numbers in tables without a comment that no CSV file linked in their row holds.

    Numbers with decimals must be in a file, up to their sign and their digits; those of "44 of 45" in one row.

    Parameters
    ----------
    text : str
        The page.
    folder : Path
        The page's, from which its links lead.
    """
    lines = text.splitlines()
    inside = False
    for k, line in enumerate(lines):
        if not line.startswith("|"):
            inside = False
            continue
        if not inside:
            inside, commented = True, k > 0 and _COMMENT.fullmatch(lines[k - 1]) is not None
        if commented:
            continue
        links = _LINK.findall(line)
        rows = [_numbers(row) for link in links for row in read_rows(folder / link)]
        values = [value for row in rows for value in row]
        for number in _unknown(line, values):
            yield f"line {k + 1}: {number} is in none of {', '.join(links) or 'no file'}"
        for share in _SHARE.findall(line):
            if not any(set(map(float, share)) <= set(row) for row in rows):
                yield f"line {k + 1}: no row of {', '.join(links) or 'no file'} has {share}"


def prose_without_source(text: str, results: Path) -> Iterator[str]:
    """Numbers with decimals outside of tables and code that no file of the section's folders holds.

    A section names its folders in a comment; numbers that it calls aims are no results.
    """
    for section in re.split(r"^(?=## )", text, flags=re.MULTILINE):
        match = _PROSE.search(section)
        if match is None:
            continue
        paths = [path for name in match.group(1).split() for path in (results / name).glob("*.csv")]
        paths = [path for path in paths if path.name != "settings.csv"]
        values = [value for path in paths for row in read_rows(path) for value in _numbers(row)]
        aims = (match.group(2) or "").split()
        prose = re.sub(r"```.*?```|^\|.*?$|<!--.*?-->", "", section, flags=re.DOTALL | re.MULTILINE)
        for number in _unknown(prose, values):
            if number not in aims:
                yield f"{section.splitlines()[0]}: {number} is in no file of {match.group(1)}"


def _unknown(text: str, values: list[float]) -> Iterator[str]:
    """Numbers with decimals that are none of the values, up to their sign and their digits."""
    for number in _NUMBER.findall(text):
        tolerance = 0.5001 * 10.0 ** -len(number.partition(".")[2])
        if not any(abs(abs(value) - float(number)) <= tolerance for value in values):
            yield number


def _numbers(row: Row) -> list[float]:
    return [float(value) for value in row.values() if isinstance(value, int | float)]


def _pair(part: str) -> tuple[str, str]:
    name, _, value = part.strip().partition("=")
    return name, value


def _end(lines: list[str], start: int) -> int:
    """First line after `start` that is not part of a table."""
    return next((k for k in range(start, len(lines)) if not lines[k].startswith("|")), len(lines))


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def _values(spec: dict[str, str], labels: list[str], results: Path) -> list[list[str]]:
    """Cells of all rows but the first column."""
    rows = read_rows(results / spec["file"])
    if "where" in spec:
        pairs = [condition.partition(":") for condition in spec["where"].split(" and ")]
        rows = [row for row in rows if all(str(row[name]) == value for name, _, value in pairs)]
    key, _, names = spec["rows"].partition(":")
    wanted = names.split() or [label.strip("`*") for label in labels]
    cells = []
    for name in wanted:
        own = [row for row in rows if str(row[key]) == name]
        if not own:
            raise ValueError(f"{spec['file']} has no row whose {key} is {name!r}.")
        cells.append(_row(spec, own))
    return cells


def _row(spec: dict[str, str], rows: list[Row]) -> list[str]:
    """Cells of one row, from the rows of the file that are about it."""
    form = spec.get("format", "")
    columns = spec["columns"]
    pairs: list[tuple[Any, str]] = []
    if "value" in spec:
        column, _, keys = columns.partition(":")
        by_key = {str(row[column]): row[spec["value"]] for row in rows}
        pairs = [(by_key.get(name, math.nan), form) for name in keys.split()]
    else:
        for name, _, own in (column.partition(":") for column in columns.split()):
            pairs.append((rows[0][name], own or form))
    cells = [_text(value, own) for value, own in pairs]
    if spec.get("best") == "row":
        values = [-math.inf if math.isnan(value) else value for value, _ in pairs]
        best = values.index(max(values))
        cells[best] = f"**{cells[best]}**"
    return cells


def _text(value: Any, form: str) -> str:
    if isinstance(value, str):
        return value
    if math.isnan(value):
        return MISSING
    if form == "p":
        return "< 0.001" if value < 0.001 else f"{value:.3f}"
    return format(value, form).replace("-", "−")
