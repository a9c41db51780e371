"""GCT and GEO series matrix: lines about the samples, then a table with samples in columns.

GCT 1.2 and 1.3 say first how many rows and columns there are; a series matrix has ``!`` lines about the series
and its samples. `reading` opens both, `writing` writes GCT.
"""

import csv
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import islice

import numpy as np

from suquan.io._cells import label_array
from suquan.io._delimited import Plan, check_width, read_header, source_of_plan
from suquan.io._errors import TableError, listed, one_line, quoted, refuse
from suquan.io._sinks import Target, Writer, received, text_rows, write_matrix
from suquan.io._source import ReadOptions, Source, Tiles
from suquan.io._text import TextFile

BEGIN = "!series_matrix_table_begin"
END = b"!series_matrix_table_end"
CHARACTERISTICS = "characteristics_ch"


# ------------------------------------------------------------------------------------------------------ GCT


def open_gct(text: TextFile, kind: str, options: ReadOptions) -> Source:
    """Open a GCT file."""
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
    text = replace(text, quoted=False, skip=2)
    header, line = read_header(text)
    first = 1 + n_columns
    refuse(
        len(header) != first + n_samples,
        f"line 2 announces {n_samples} samples after {first} other columns, "
        f"the header has {len(header)} columns",
    )
    numeric = [j for j in range(first, len(header)) if header[j] not in options.ignore_columns]
    plan = Plan(text, header, line + n_labels, "columns", numeric)
    plan.extra_rows, plan.announced_rows = n_labels, n_features
    return source_of_plan(plan, kind, _label_rows(plan))


def _label_rows(plan: Plan) -> dict[str, np.ndarray]:
    labels: dict[str, np.ndarray] = {}
    for line, row in islice(plan.text.rows(), 1, 1 + plan.extra_rows):
        check_width(plan.text, plan.header, row, line)
        problem = f"{quoted(row[0])} cannot name a row of labels; give each a name of its own"
        refuse(not row[0] or row[0] in labels, f"line {line}: {problem}")
        # The format's own mark for a missing label.
        labels[row[0]] = label_array(["" if row[j] == "na" else row[j] for j in plan.numeric])
    return labels


def write_gct(target: Target) -> Writer:
    """Version 1.2 without labels, 1.3 with them; written when all samples are known."""
    with Tiles(target.path.parent) as tiles:
        yield from received(lambda block: tiles.add(block.values))
        taken = {"id", "Name", "Description"}.intersection(target.samples)
        problem = "is a column of its own in a GCT file; rename the sample"
        refuse(taken, f"{listed(sorted(taken))} {problem}")
        sizes, n_labels = [len(target.features), len(target.samples)], len(target.parts)
        first = ["id"] if n_labels else ["Name", "Description"]
        with text_rows(target, quoted=False) as out:
            out.writerow(["#1.3" if n_labels else "#1.2"])
            out.writerow([*sizes, 0, n_labels] if n_labels else sizes)
            out.writerow([*first, *target.samples])
            write_matrix(out, target, tiles, *([] if n_labels else ["na"]))


# ------------------------------------------------------------------------------------------- series matrix


def open_series_matrix(text: TextFile, kind: str, options: ReadOptions) -> Source:
    """Open a series matrix file."""
    lines, skip = _sample_lines(text)
    text = replace(text, skip=skip, end=END)
    header, line = read_header(text)
    keep = [j for j in range(1, len(header)) if header[j] not in options.ignore_columns]
    plan = Plan(text, header, line, "columns", keep)
    cells = [(key, [row[j - 1] for j in keep]) for key, row in _sample_cells(lines, header)]
    labels = {name: label_array(column) for name, column in _labels(cells).items()}
    return source_of_plan(plan, kind, labels)


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


def _sample_cells(lines, header: list[str]) -> Iterator[tuple[str, list[str]]]:
    """Key and cells of every line about the samples, one cell per sample of the table."""
    for number, (name, *cells) in lines:
        key = name.removeprefix("!Sample_")
        n = len(header) - 1
        about = f"line {number} ({quoted(name)}) is about {len(cells)} samples"
        refuse(len(cells) != n, f"{about}, the table has {n}")
        are_others = key == "geo_accession" and cells != header[1:]
        other = "the samples' accessions are not those of the table's header"
        refuse(are_others, f"line {number}: {other}")
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
