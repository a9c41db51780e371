"""Writing CSV and TSV: samples in rows as they come, or in columns after they have all come."""

import csv
import gzip
import io
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np

from suquan.io._errors import TableError
from suquan.io._kinds import DELIMITERS
from suquan.io._sinks import Sink, Target, TurnedSink
from suquan.io._table import Table

MISSING_CELL = "NA"


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
        out.writerow(["" if "feature" in samples else "feature", *samples])
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
