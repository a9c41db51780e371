"""GCT and GEO series matrix: lines about the samples, then a table with samples in columns.

GCT says first how many rows and columns there are; a series matrix has ``!`` lines about the series and its
samples, which become labels. `reading` opens both; `_delimited` reads the table.
"""

import csv
import warnings
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from suquan.io._delimited import Plan, read_header, samples_in_columns
from suquan.io._errors import TableError, one_line, quoted, refuse
from suquan.io._source import ReadOptions, Source
from suquan.io._table import Table
from suquan.io._text import TextFile, label_array

BEGIN = "!series_matrix_table_begin"
END = "!series_matrix_table_end"


def open_gct(text: TextFile, options: ReadOptions) -> Source:
    """Open a GCT file; of version 1.3 the values are read, and what describes samples and features is not."""
    lines = text.lines()
    version, sizes = next(lines, "").strip(), next(lines, "").split()
    wanted = {"#1.2": 2, "#1.3": 4}.get(version)
    begin = f"a GCT file begins with #1.2 or #1.3, this one with {quoted(version)}"
    refuse(wanted is None, begin)
    are_counts = len(sizes) == wanted and all(n.isascii() and n.isdigit() for n in sizes)
    told = f"line 2 of a GCT file {version} holds {wanted} whole numbers"
    refuse(not are_counts, f"{told}, not {quoted(' '.join(sizes))}")
    # Version 1.2 has one column of descriptions and no rows of labels; version 1.3 says how many.
    n_features, n_samples, n_columns, n_labels = map(int, [*sizes, "1", "0"][:4])
    text = replace(text, skip=2)
    header, line = read_header(text)
    first = 1 + n_columns
    refuse(
        len(header) != first + n_samples,
        f"line 2 announces {n_samples} samples after {first} other columns, "
        f"the header has {len(header)} columns",
    )
    plan = _plan(text, header, line + n_labels, first, options)
    plan.announced_rows = n_features

    def tables() -> Iterator[Table]:
        if version == "#1.3" and n_columns + n_labels:
            unread = f"its {n_labels} rows about samples and {n_columns} columns about features"
            cure = "take labels from a label file (read_labels)"
            warnings.warn(
                f"{text.path}: of a GCT file 1.3 {unread} are not read; {cure}.", stacklevel=2
            )
        yield from samples_in_columns(plan)

    return Source(text.kind, "columns", tables, label_names=())


def open_series_matrix(text: TextFile, options: ReadOptions) -> Source:
    """Open a series matrix file."""
    lines, skip = _sample_lines(text)
    text = replace(text, skip=skip, end=END)
    header, line = read_header(text)
    plan = _plan(text, header, line, 1, options)
    for name, cells in _labels(_sample_cells(lines, header)).items():
        plan.labels[name] = label_array([cells[j - 1] for j in plan.numeric])
    read = partial(samples_in_columns, plan)
    return Source(text.kind, "columns", read, label_names=list(plan.labels))


def _plan(text: TextFile, header: list[str], line: int, first: int, options: ReadOptions) -> Plan:
    numeric = [j for j in range(first, len(header)) if header[j] not in options.ignore_columns]
    refuse(not numeric, "there is no column of values")
    return Plan(text, header, line, "columns", numeric)


def _sample_lines(text: TextFile) -> tuple[list[tuple[int, list[str]]], int]:
    """The ``!Sample_`` lines with their numbers, and the number of the line before the table."""
    found = []
    for number, line in enumerate(text.lines(), start=1):
        if line.startswith("!Sample_"):
            try:
                cells = next(csv.reader([line], delimiter="\t", strict=True))
            except csv.Error as error:
                problem = f"cannot be split into cells ({one_line(error)})"
                raise TableError(f"line {number} {problem}") from None
            found.append((number, cells))
        elif line.rstrip() == BEGIN:
            return found, number
        elif line.strip() and not line.startswith("!"):
            break
    raise TableError(
        f"begins like a GEO series matrix but has no line {BEGIN} after its ! lines; "
        "it is truncated, or not a series matrix"
    )


def _sample_cells(
    lines: list[tuple[int, list[str]]], header: list[str]
) -> Iterator[tuple[str, list[str]]]:
    """Key and cells of every line about the samples, one cell per sample of the table."""
    n = len(header) - 1
    for number, (name, *cells) in lines:
        key = " ".join(name.removeprefix("!Sample_").split())
        about = f"line {number} ({quoted(name)}) is about {len(cells)} samples"
        refuse(len(cells) != n, f"{about}, the table has {n}")
        are_others = key == "geo_accession" and cells != header[1:]
        other = "the samples' accessions are not those of the table's header"
        refuse(are_others, f"line {number}: {other}")
        yield key, cells


def _labels(lines: Iterator[tuple[str, list[str]]]) -> dict[str, list[str]]:
    """Label columns: each line one, but characteristics written "key: value" one for every key."""
    plain: dict[str, list[str]] = {}
    by_key: dict[str, list[str]] = {}
    for key, cells in lines:
        if key.startswith("characteristics_ch"):
            cells = [_without_key(cell, i, len(cells), by_key) for i, cell in enumerate(cells)]
            if not any(cells):
                continue
        plain[_free(key, plain)] = cells
    for key, cells in by_key.items():
        plain[_free(key, plain)] = cells
    return plain


def _without_key(cell: str, i: int, n: int, by_key: dict[str, list[str]]) -> str:
    """Put "key: value" of sample i under its key, which leaves nothing; another cell stays."""
    key, colon, value = (cell.rstrip() + " ").partition(": ")
    key, value = " ".join(key.split()), value.strip()
    if not colon or not key:
        return cell
    column = by_key.setdefault(key, [""] * n)
    column[i] = f"{column[i]}; {value}" if column[i] else value
    return ""


def _free(key: str, taken: dict[str, list[str]]) -> str:
    """The key, with a number where there is a column of that name already."""
    name, number = key or "label", 2
    while name in taken:
        name, number = f"{key or 'label'}_{number}", number + 1
    return name
