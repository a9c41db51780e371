"""GEO series matrix: ``!`` lines about the series and its samples, then a table with samples in columns."""

import csv
from collections.abc import Iterable, Iterator
from dataclasses import replace

from suquan.io._cells import label_array
from suquan.io._delimited import plan_matrix, read_header, source_of_plan
from suquan.io._errors import TableError, one_line, quoted
from suquan.io._source import ReadOptions, Source
from suquan.io._text import TextFile

BEGIN = "!series_matrix_table_begin"
END = b"!series_matrix_table_end"
CHARACTERISTICS = "characteristics_ch"


def open_series_matrix(text: TextFile, kind: str, options: ReadOptions) -> Source:
    """Open a series matrix file."""
    lines, skip = _sample_lines(text)
    text = replace(text, skip=skip, end=END)
    header, line = read_header(text)
    keep = [j for j in range(1, len(header)) if header[j] not in options.ignore_columns]
    plan = plan_matrix(text, header, keep, line)
    cells = [(key, [row[j - 1] for j in keep]) for key, row in _sample_cells(text, lines, header)]
    labels = {name: label_array(column) for name, column in _labels(cells).items()}
    return source_of_plan(plan, kind, labels)


def _sample_lines(text: TextFile) -> tuple[list[tuple[int, list[str]]], int]:
    """The ``!Sample_`` lines with their numbers, and the number of the line before the table."""
    found = []
    for number, line in enumerate(text.lines(), start=1):
        if line.startswith("!Sample_"):
            found.append((number, _split(text, line, number)))
        elif line.rstrip() == BEGIN:
            return found, number
        elif line.strip() and not line.startswith("!"):
            break
    raise TableError(
        f"{text.path}: begins like a GEO series matrix but has no line {BEGIN} after its ! lines; "
        "it is truncated, or not a series matrix"
    )


def _split(text: TextFile, line: str, number: int) -> list[str]:
    try:
        return next(csv.reader([line], delimiter="\t", strict=True))
    except csv.Error as error:
        where = f"{text.path}: line {number}"
        raise TableError(f"{where} cannot be split into cells ({one_line(error)})") from None


def _sample_cells(text: TextFile, lines, header: list[str]) -> Iterator[tuple[str, list[str]]]:
    """Key and cells of every line about the samples, one cell per sample of the table."""
    for number, (name, *cells) in lines:
        key = name.removeprefix("!Sample_")
        if len(cells) != len(header) - 1:
            raise TableError(
                f"{text.path}: line {number} ({quoted(name)}) is about {len(cells)} samples, "
                f"the table has {len(header) - 1}"
            )
        if key == "geo_accession" and cells != header[1:]:
            raise TableError(
                f"{text.path}: line {number}: the samples' accessions are not those of the table's header"
            )
        yield key, cells


def _labels(lines: Iterable[tuple[str, list[str]]]) -> dict[str, list[str]]:
    """Label columns: each line one, but characteristics written "key: value" one for every key."""
    plain: dict[str, list[str]] = {}
    by_key: dict[str, list[str]] = {}
    for key, cells in lines:
        if key.startswith(CHARACTERISTICS):
            cells = _split_characteristics(cells, by_key)
            if not any(cells):
                continue
        plain[_free(key, plain)] = cells
    return plain | {_free(key, plain): cells for key, cells in by_key.items()}


def _split_characteristics(cells: list[str], by_key: dict[str, list[str]]) -> list[str]:
    """Put "key: value" cells under their keys; the cells that are not written so stay."""
    rest = [""] * len(cells)
    for i, cell in enumerate(cells):
        key, colon, value = cell.partition(": ")
        if not colon and cell.rstrip().endswith(":"):
            key, colon, value = cell.rstrip().removesuffix(":"), ":", ""
        key = " ".join(key.split())
        if not colon or not key:
            rest[i] = cell
            continue
        column = by_key.setdefault(key, [""] * len(cells))
        column[i] = f"{column[i]}; {value.strip()}" if column[i] else value.strip()
    return rest


def _free(key: str, taken: dict) -> str:
    """The key, with a number where there is a column of that name already."""
    key = " ".join(key.split()) or "label"
    name, number = key, 2
    while name in taken:
        name, number = f"{key}_{number}", number + 1
    return name
