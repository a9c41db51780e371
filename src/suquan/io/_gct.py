"""GCT 1.2 and 1.3: samples in columns after a few lines that say how many there are."""

from dataclasses import replace
from itertools import islice
from typing import NamedTuple

import numpy as np

from suquan.io._cells import label_array
from suquan.io._delimited import Plan, check_width, plan_matrix, read_header, source_of_plan
from suquan.io._errors import TableError, listed, quoted
from suquan.io._sinks import Target, Writer, received, text_rows, write_matrix
from suquan.io._source import ReadOptions, Source, Tiles
from suquan.io._text import TextFile


class Sizes(NamedTuple):
    """The second line of the file."""

    n_features: int
    n_samples: int
    n_feature_columns: int = 1  # columns before the values, besides the names
    n_label_rows: int = 0  # rows before the values, besides the header


def open_gct(text: TextFile, kind: str, options: ReadOptions) -> Source:
    """Open a GCT file."""
    text = replace(text, quoted=False, skip=2)
    sizes = _sizes(text)
    header, line = read_header(text)
    first = 1 + sizes.n_feature_columns
    if len(header) != first + sizes.n_samples:
        raise TableError(
            f"{text.path}: line 2 announces {sizes.n_samples} samples after {first} other columns, "
            f"the header has {len(header)} columns"
        )
    numeric = [j for j in range(first, len(header)) if header[j] not in options.ignore_columns]
    plan = plan_matrix(text, header, numeric, line, sizes.n_label_rows)
    plan.announced_rows = sizes.n_features
    return source_of_plan(plan, kind, _labels(plan))


def _sizes(text: TextFile) -> Sizes:
    lines = text.lines(skip=0)
    version, numbers = next(lines, "").strip(), next(lines, "").split()
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
    return Sizes(*map(int, numbers))


def _labels(plan: Plan) -> dict[str, np.ndarray]:
    labels: dict[str, np.ndarray] = {}
    for line, row in islice(plan.text.rows(), 1, 1 + plan.extra_rows):
        check_width(plan.text, plan.header, row, line)
        if not row[0] or row[0] in labels:
            raise TableError(
                f"{plan.text.path}: line {line}: {quoted(row[0])} cannot name a row of labels; "
                "give each a name of its own"
            )
        # The format's own mark for a missing label.
        labels[row[0]] = label_array(["" if row[j] == "na" else row[j] for j in plan.numeric])
    return labels


def write_gct(target: Target) -> Writer:
    """Version 1.2 without labels, 1.3 with them; written when all samples are known."""
    with Tiles(target.path.parent) as tiles:
        yield from received(lambda block: tiles.add(block.values))
        taken = {"id", "Name", "Description"}.intersection(target.samples)
        if taken:
            raise TableError(
                f"{target.name}: {listed(sorted(taken))} is a column of its own in a GCT file; rename "
                "the sample"
            )
        sizes, n_labels = [len(target.features), len(target.samples)], len(target.parts)
        first = ["id"] if n_labels else ["Name", "Description"]
        with text_rows(target, quoted=False) as out:
            out.writerow(["#1.3" if n_labels else "#1.2"])
            out.writerow([*sizes, 0, n_labels] if n_labels else sizes)
            out.writerow([*first, *target.samples])
            write_matrix(out, target, tiles, *([] if n_labels else ["na"]))
