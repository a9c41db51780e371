"""Tables in blocks, as the commands use them on a cluster or for arrays in files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from suquan._dask.collections import compute, take_rows
from suquan.cli._inputs import LabelChoice, Problem, find_labels
from suquan.cli._output import Output
from suquan.io import BlockTable, Table, TableError, open_block_table, read_labels
from suquan.io._kinds import ARRAYS

SAMPLE_BYTES = 1 << 30


def is_array_file(path: Path) -> bool:
    """Whether the file can be opened in blocks only."""
    return path.suffix.lower() in ARRAYS


def open_samples(
    path: Path,
    *,
    samples: str,
    layer: str | None,
    labels: Sequence[str] = (),
    ignore: Sequence[str] = (),
    rows_per_block: int | None = None,
) -> BlockTable:
    """Open a table in blocks of samples, which must lie in rows."""
    if samples == "columns":
        raise TableError(
            f"{path}: with samples in columns no block of samples can be read; write the table with samples in "
            "rows, as .parquet, .h5ad or .zarr"
        )
    return open_block_table(
        path, layer, rows_per_block, label_columns=labels, ignore_columns=ignore
    )


def say_blocks(output: Output, path: Path, table: BlockTable) -> None:
    """Tell what was opened."""
    n_blocks = table.values.numblocks[0]
    output.say(
        f"{path.name}: {table.n_samples:,} samples in rows (blocks hold samples), {table.n_features:,} "
        f"features, {n_blocks:,} block{'s' * (n_blocks > 1)}"
    )
    output.keep(orientation="rows", n_blocks=n_blocks)


def load_block_problem(
    path: Path,
    choice: LabelChoice,
    output: Output,
    *,
    samples: str,
    layer: str | None,
    ignore: Sequence[str],
) -> Problem:
    """Open the table, match its samples with the labels by name, and say what was found; X is a Dask array."""
    own = choice.columns if choice.file is None else ()
    table = open_samples(path, samples=samples, layer=layer, labels=own, ignore=ignore)
    say_blocks(output, path, table)
    # The names and labels without the values.
    names = table.sample_names_of(0, table.n_samples)
    nothing = np.empty((table.n_samples, 0))
    stand_in = Table(nothing, names, np.array([], dtype=str), table.labels, kind=table.kind)
    source = (
        stand_in
        if choice.file is None
        else read_labels(choice.file, sample_column=choice.sample_column)
    )
    keep, y, class_names, summary = find_labels(source, stand_in, choice, output)
    summary = {
        "table": path.name,
        "orientation": "rows",
        "n_samples": int(keep.sum()),
        "n_samples_in_table": table.n_samples,
        **summary,
    }
    X = take_rows(table.values, keep)
    return Problem(X, y, names[keep], table.column_names, class_names, summary)


def sample_problem(problem: Problem, n_rows: int, seed: int) -> Problem:
    """At most `n_rows` samples at random, in memory: in all, no more than a GiB."""
    n_samples, n_features = problem.X.shape
    most = max(1, SAMPLE_BYTES // (n_features * problem.X.dtype.itemsize))
    n_rows = min(n_rows, n_samples, most)
    keep = np.zeros(n_samples, dtype=bool)
    keep[np.random.default_rng(seed).choice(n_samples, n_rows, replace=False)] = True
    (X,) = compute(take_rows(problem.X, keep), blocks_of=problem.X)
    return replace(problem, X=X, y=problem.y[keep], sample_names=problem.sample_names[keep])
