"""GCT 1.2 and 1.3: samples in columns after a few lines that say how many there are."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from suquan.io._cells import label_array
from suquan.io._delimited import Plan, iter_blocks, matrix_plan, read_header
from suquan.io._delimited_sinks import MISSING_CELL, ColumnSink, TextOut, number_cells
from suquan.io._errors import TableError, listed, quoted
from suquan.io._source import Block, ReadOptions, Source
from suquan.io._text import TextFile


@dataclass(frozen=True)
class Sizes:
    """The second line of the file."""

    n_features: int
    n_samples: int
    n_feature_columns: int  # columns before the values, besides the names
    n_label_rows: int  # rows before the values, besides the header


def open_gct(text: TextFile, options: ReadOptions) -> Source:
    """Open a GCT file; ``text`` has no quotes and skips the two lines before the header."""
    sizes = _sizes(text)
    header, n_header_lines = read_header(text)
    first = 1 + sizes.n_feature_columns
    if len(header) != first + sizes.n_samples:
        raise TableError(
            f"{text.path}: line 2 announces {sizes.n_samples} samples after {first} other columns, "
            f"the header has {len(header)} columns"
        )
    ignored = set(options.ignore_columns)
    numeric = [j for j in range(first, len(header)) if header[j] not in ignored]
    plan = matrix_plan(text, header, n_header_lines, numeric, sizes.n_label_rows)
    return Source(
        path=text.path,
        kind="gct",
        orientation="columns",
        column_names=[header[j] for j in numeric],
        blocks=lambda n_rows: _counted_blocks(plan, n_rows, sizes.n_features),
        column_labels=_labels(plan, sizes.n_label_rows),
    )


def _sizes(text: TextFile) -> Sizes:
    lines = text.lines(skip=0)
    version = next(lines, "").strip()
    numbers = next(lines, "").split()
    wanted = {"#1.2": 2, "#1.3": 4}.get(version)
    if wanted is None:
        raise TableError(
            f"{text.path}: a GCT file begins with #1.2 or #1.3, this one with {quoted(version)}"
        )
    if len(numbers) != wanted or not all(n.isascii() and n.isdigit() for n in numbers):
        raise TableError(
            f"{text.path}: line 2 of a GCT file {version} holds {wanted} whole numbers, "
            f"not {quoted(' '.join(numbers))}"
        )
    counts = [int(number) for number in numbers]
    if version == "#1.2":
        return Sizes(counts[0], counts[1], 1, 0)
    return Sizes(*counts)


def _labels(plan: Plan, n_label_rows: int) -> dict[str, np.ndarray]:
    rows = plan.text.rows()
    next(rows)
    labels: dict[str, np.ndarray] = {}
    for _, (line, row) in zip(range(n_label_rows), rows, strict=False):
        if len(row) != len(plan.header):
            raise TableError(
                f"{plan.text.path}: line {line} has {len(row)} cells, the header has {len(plan.header)}"
            )
        if not row[0] or row[0] in labels:
            raise TableError(
                f"{plan.text.path}: line {line}: {quoted(row[0])} cannot name a row of labels; "
                "give each a name of its own"
            )
        # The format's own mark for a missing label.
        cells = ["" if row[j] == "na" else row[j] for j in plan.numeric]
        labels[row[0]] = label_array(cells)
    return labels


def _counted_blocks(plan: Plan, n_rows: int | None, n_features: int) -> Iterator[Block]:
    """The blocks, with their rows counted against the announced number."""
    count = 0
    for block in iter_blocks(plan, n_rows, {}):
        count += len(block.names)
        yield block
    if count != n_features:
        raise TableError(
            f"{plan.text.path}: line 2 announces {n_features} features, the file has {count}; "
            "it is truncated or line 2 is wrong"
        )


class GctSink(ColumnSink):
    """Version 1.2 without labels, 1.3 with them."""

    quoted = False

    def write_rows(self, out: TextOut) -> None:
        """The lines before the header, the header, labels, features."""
        labels, names = self.labels(), self.sample_names()
        before = [] if labels else ["na"]
        taken = {"id", "Name", "Description"}.intersection(names)
        if taken:
            raise TableError(
                f"{self._target.name}: {listed(sorted(taken))} is a column of its own in a GCT file; rename "
                "the sample"
            )
        out.row(["#1.3" if labels else "#1.2"])
        out.row([self.n_features, len(names), *([0, len(labels)] if labels else [])])
        out.row([*(["id"] if labels else ["Name", "Description"]), *names])
        for name, cells in labels.items():
            out.row([name, *(cell if cell != "" else MISSING_CELL for cell in cells)])
        for name, values in self.features():
            out.row([name, *before, *number_cells(values)])
