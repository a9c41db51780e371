"""What the writers of all formats share, and the writers of CSV and TSV.

`writing.TableWriter` makes a sink when the first block has come, and gives it the blocks.
"""

import csv
import gzip
import io
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from suquan.io._errors import TableError, listed
from suquan.io._kinds import DELIMITERS
from suquan.io._source import Tiles, rows_at_once
from suquan.io._table import Table

MISSING_CELL = "NA"


@dataclass(frozen=True)
class Target:
    """Where and how a table is written."""

    path: Path  # the temporary file
    name: Path  # the file it will be, for messages
    kind: str
    gzipped: bool
    features: list[str]
    labels: list[str]  # names of the label columns
    dtype: np.dtype  # of the values

    def header(self, first: str = "sample") -> list[str]:
        """Names of the columns where samples lie in rows: `first`, labels, features, all different."""
        names = [*self.labels, *self.features]
        both = set(self.labels).intersection(self.features)
        if both:
            raise TableError(
                f"{self.name}: {listed(sorted(both))} is a label and a feature; rename one of them"
            )
        return ["" if first in names else first, *names]


class Sink:
    """Writer of one format: blocks of samples in, a file out."""

    def __init__(self, target: Target):
        self.target = target

    def write(self, block: Table) -> None:
        """Append samples."""

    def finish(self, samples: list[str], labels: dict[str, np.ndarray]) -> None:
        """Write what needs all samples: `labels` are their label columns."""

    def close(self) -> None:
        """Close what is open; the file is complete, or is thrown away."""


class TurnedSink(Sink):
    """Samples in columns: the values wait in a file until all samples are known."""

    def __init__(self, target: Target):
        super().__init__(target)
        self._tiles = Tiles(target.path.parent)

    def write(self, block: Table) -> None:
        """Append samples."""
        self._tiles.add(block.values)

    def features(self) -> Iterator[tuple[list[str], np.ndarray]]:
        """Names of some features and their values, of shape (n_names, n_samples)."""
        step = rows_at_once(self._tiles.n_rows)
        for start in range(0, len(self.target.features), step):
            names = self.target.features[start : start + step]
            yield names, self._tiles.columns(start, start + len(names))

    def close(self) -> None:
        """Throw away the file of values."""
        self._tiles.close()


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
        yield csv.writer(
            text,
            delimiter=DELIMITERS[target.kind],
            lineterminator="\n",
            quoting=csv.QUOTE_MINIMAL if quoted else csv.QUOTE_NONE,
            quotechar='"' if quoted else None,
        )


class RowSink(Sink):
    """Samples in rows: name, labels, values."""

    def __init__(self, target: Target):
        super().__init__(target)
        header = target.header()
        self._file = ExitStack()
        self._out = self._file.enter_context(text_rows(target))
        self._out.writerow(header)

    def write(self, block: Table) -> None:
        """Append samples."""
        labels = [label_cells(column) for column in block.labels.values()]
        for i, name in enumerate(block.sample_names.tolist()):
            cells = [column[i] for column in labels]
            self._out.writerow([name, *cells, *number_cells(block.values[i])])

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class ColumnSink(TurnedSink):
    """Samples in columns: label rows, then a row for every feature, written when all samples are known."""

    quoted = True

    def finish(self, samples: list[str], labels: dict[str, np.ndarray]) -> None:
        """Write the file."""
        try:
            with text_rows(self.target, self.quoted) as out:
                self.write_rows(out, samples, labels)
        except csv.Error as error:
            raise TableError(
                f"{self.target.name}: a name or label holds a tab or a line break ({error}); this kind of "
                "file has no quotes; rename it"
            ) from None

    def write_rows(self, out: Any, samples: list[str], labels: dict[str, np.ndarray]) -> None:
        """Write header, label rows, features."""
        self.target.header()  # refuses a label that is called like a feature
        out.writerow(replace(self.target, features=samples, labels=[]).header("feature"))
        self.write_matrix(out, labels)

    def write_matrix(self, out: Any, labels: dict[str, np.ndarray], *between: str) -> None:
        """Write label rows and features, with some cells between a feature's name and its values."""
        for name, column in labels.items():
            out.writerow([name, *label_cells(column)])
        for names, block in self.features():
            for name, values in zip(names, block, strict=True):
                out.writerow([name, *between, *number_cells(values)])


def number_cells(values: np.ndarray) -> list:
    """Python floats, written by their shortest exact form; NA where missing."""
    cells = values.astype(np.float64, copy=False).tolist()
    if np.isnan(values).any():
        return [MISSING_CELL if cell != cell else cell for cell in cells]
    return cells


def label_cells(column: np.ndarray) -> list:
    """Label cells: numbers as numbers (whole ones without a point), NA where missing."""
    if column.dtype.kind != "f":
        return [cell or MISSING_CELL for cell in column.tolist()]
    cells = number_cells(column)
    whole = [isinstance(c, float) and c.is_integer() and abs(c) < 2**53 for c in cells]
    return [int(cell) if is_whole else cell for cell, is_whole in zip(cells, whole, strict=True)]
