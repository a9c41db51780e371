"""What the writers of all formats share, and the writers of CSV and TSV.

A writer is a generator function: `writing.TableWriter` starts it when the first block has come, sends it the
blocks, and None at the end. What it opened is closed when it ends, or is closed before.
"""

import csv
import gzip
import io
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from suquan.io._errors import TableError, listed, refuse
from suquan.io._kinds import DELIMITERS
from suquan.io._source import Tiles, rows_at_once
from suquan.io._table import Table

MISSING_CELL = "NA"
Writer = Generator[None, Table | None, None]


@dataclass
class Target:
    """Where and how a table is written; samples and their labels grow with the blocks."""

    path: Path
    kind: str
    gzipped: bool
    features: list[str]
    dtype: np.dtype  # of the values
    parts: dict[str, list[np.ndarray]]  # of the label columns, a part from every block
    samples: dict[str, None] = field(default_factory=dict)

    @property
    def labels(self) -> dict[str, np.ndarray]:
        """Label columns of all samples so far."""
        return {name: np.concatenate(parts) for name, parts in self.parts.items()}

    def header(self, first: str = "sample") -> list[str]:
        """Names of the columns where samples lie in rows: `first`, labels, features, all different."""
        names = [*self.parts, *self.features]
        both = set(self.parts).intersection(self.features)
        refuse(both, f"{listed(sorted(both))} is a label and a feature; rename one of them")
        return ["" if first in names else first, *names]


def received(take: Callable[[Table], Any]) -> Writer:
    """Give every block that is sent to `take`, until None comes."""
    while (block := (yield)) is not None:
        take(block)


def turned(target: Target, tiles: Tiles) -> Iterator[tuple[list[str], np.ndarray]]:
    """Names of some features and their values, of shape (n_names, n_samples)."""
    step = rows_at_once(tiles.n_rows)
    for start in range(0, len(target.features), step):
        names = target.features[start : start + step]
        yield names, tiles.columns(start, start + len(names))


# ---------------------------------------------------------------------------------------------- CSV and TSV


@contextmanager
def text_rows(target: Target, quoted: bool = True) -> Iterator[Any]:
    """A writer of rows, plain or gzip-compressed; floats get as many digits as their value needs."""
    with ExitStack() as files:
        file: Any = files.enter_context(target.path.open("wb"))
        if target.gzipped:
            # No name and no time inside, so that the same table gives the same bytes.
            file = gzip.GzipFile("", "wb", fileobj=file, mtime=0, compresslevel=4)
        text = files.enter_context(io.TextIOWrapper(file, encoding="utf-8", newline=""))
        quotes: Any = csv.QUOTE_MINIMAL if quoted else csv.QUOTE_NONE
        mark = '"' if quoted else None
        delimiter = DELIMITERS[target.kind]
        try:
            yield csv.writer(
                text, delimiter=delimiter, lineterminator="\n", quoting=quotes, quotechar=mark
            )
        except csv.Error as error:
            raise TableError(
                f"a name or label holds a tab or a line break ({error}); this kind of "
                "file has no quotes; rename it"
            ) from None


def write_text_rows(target: Target) -> Writer:
    """Samples in rows: name, labels, values."""
    header = target.header()
    with text_rows(target) as out:
        out.writerow(header)

        def add(block: Table) -> None:
            labels = [label_cells(column) for column in block.labels.values()]
            for i, name in enumerate(block.sample_names.tolist()):
                cells = [column[i] for column in labels]
                out.writerow([name, *cells, *number_cells(block.values[i])])

        yield from received(add)


def write_text_columns(target: Target) -> Writer:
    """Samples in columns: label rows, then a row for every feature, written when all samples are known."""
    target.header()  # refuses a label that is called like a feature
    with Tiles(target.path.parent) as tiles:
        yield from received(lambda block: tiles.add(block.values))
        with text_rows(target) as out:
            out.writerow(["" if "feature" in target.samples else "feature", *target.samples])
            write_matrix(out, target, tiles)


def write_matrix(out: Any, target: Target, tiles: Tiles, *between: str) -> None:
    """Write label rows and features, with some cells between a feature's name and its values."""
    for name, column in target.labels.items():
        out.writerow([name, *label_cells(column)])
    for names, block in turned(target, tiles):
        for name, values in zip(names, block, strict=True):
            out.writerow([name, *between, *number_cells(values)])


def number_cells(values: np.ndarray) -> list:
    """Python floats, written by their shortest exact form; NA where missing."""
    cells = values.astype(np.float64, copy=False).tolist()
    return [MISSING_CELL if cell != cell else cell for cell in cells]


def label_cells(column: np.ndarray) -> list:
    """Label cells: numbers as numbers (whole ones without a point), NA where missing."""
    if column.dtype.kind != "f":
        return [cell or MISSING_CELL for cell in column.tolist()]
    cells = number_cells(column)
    whole = [isinstance(c, float) and c.is_integer() and abs(c) < 2**53 for c in cells]
    return [int(cell) if is_whole else cell for cell, is_whole in zip(cells, whole, strict=True)]
