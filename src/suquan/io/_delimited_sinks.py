"""Writing CSV and TSV: samples in rows as they come, or in columns after they have all come."""

import csv
import gzip
import io
from collections.abc import Iterable, Iterator
from typing import BinaryIO

import numpy as np

from suquan.io import _budget
from suquan.io._errors import TableError, quoted
from suquan.io._kinds import DELIMITERS
from suquan.io._sinks import Target
from suquan.io._table import Table
from suquan.io._tiles import Tiles

MISSING_CELL = "NA"


class TextOut:
    """A text file that is written row by row, plain or gzip-compressed."""

    def __init__(self, target: Target, quoted: bool = True):
        self._file: BinaryIO = target.path.open("wb")
        # No name and no time inside, so that the same table gives the same bytes.
        self._gzip = (
            gzip.GzipFile("", "wb", fileobj=self._file, mtime=0, compresslevel=4)
            if target.gzipped
            else None
        )
        self._text = io.TextIOWrapper(self._gzip or self._file, encoding="utf-8", newline="")
        self._rows = csv.writer(
            self._text,
            delimiter=DELIMITERS[target.kind],
            lineterminator="\n",
            quoting=csv.QUOTE_MINIMAL if quoted else csv.QUOTE_NONE,
            quotechar='"' if quoted else None,
        )

    def row(self, cells: Iterable) -> None:
        """Write one row; floats with as many digits as their value needs."""
        self._rows.writerow(cells)

    def close(self) -> None:
        """Close the file."""
        self._text.close()
        self._file.close()


class RowSink:
    """Samples in rows: name, labels, values."""

    def __init__(self, target: Target):
        self._target = target
        self._out = TextOut(target)
        self._started = False

    def write(self, block: Table) -> None:
        """Append samples."""
        if not self._started:
            self._out.row(table_header(self._target, "sample", block.labels, block.feature_names))
            self._started = True
        labels = [label_cells(column) for column in block.labels.values()]
        for i, name in enumerate(block.sample_names.tolist()):
            self._out.row([name, *(column[i] for column in labels), *number_cells(block.values[i])])

    def finish(self) -> None:
        """Complete the file."""
        self._out.close()

    abandon = finish


class ColumnSink:
    """Samples in columns: label rows, then a row for every feature, written when all samples are known."""

    quoted = True

    def __init__(self, target: Target):
        self._target = target
        self._tiles = Tiles(target.path.parent)
        self._blocks: list[tuple[np.ndarray, dict[str, np.ndarray]]] = []
        self._features = np.empty(0, dtype=str)

    def write(self, block: Table) -> None:
        """Append samples."""
        self._features = block.feature_names
        self._blocks.append((block.sample_names, block.labels))
        self._tiles.add(block.values)

    @property
    def n_features(self) -> int:
        """Number of features."""
        return len(self._features)

    def sample_names(self) -> list[str]:
        """All samples."""
        return [name for names, _ in self._blocks for name in names.tolist()]

    def labels(self) -> dict[str, list]:
        """Label cells of all samples."""
        columns = self._blocks[0][1]
        return {
            name: [cell for _, labels in self._blocks for cell in label_cells(labels[name])]
            for name in columns
        }

    def features(self) -> Iterator[tuple[str, np.ndarray]]:
        """Every feature with its values."""
        step = _budget.rows(self._tiles.n_rows)
        for start in range(0, len(self._features), step):
            stop = min(start + step, len(self._features))
            yield from zip(
                self._features[start:stop].tolist(), self._tiles.columns(start, stop), strict=True
            )

    def finish(self) -> None:
        """Write the file."""
        out = TextOut(self._target, self.quoted)
        try:
            self.write_rows(out)
        except csv.Error as error:
            raise TableError(
                f"{self._target.name}: a name or label holds a tab or a line break ({error}); this kind of "
                "file has no quotes; rename it"
            ) from None
        finally:
            out.close()
            self._tiles.close()

    def write_rows(self, out: TextOut) -> None:
        """Header, label rows, features."""
        labels = self.labels()
        table_header(self._target, "feature", labels, self._features)  # for the check of names
        out.row(table_header(self._target, "feature", {}, self.sample_names()))
        for name, cells in labels.items():
            out.row([name, *cells])
        for name, values in self.features():
            out.row([name, *number_cells(values)])

    def abandon(self) -> None:
        """Throw the values away."""
        self._tiles.close()


def table_header(target: Target, first: str, labels: Iterable[str], names: Iterable[str]) -> list:
    """The header, with a name for the first column that no other column has."""
    names = [*labels, *(str(name) for name in names)]
    taken = set(names)
    if len(taken) < len(names):
        double = next(name for name in labels if names.count(name) > 1)
        raise TableError(
            f"{target.name}: {quoted(double)} is a label and a feature; rename one of them"
        )
    return ["" if first in taken else first, *names]


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
    return [
        MISSING_CELL
        if cell != cell
        else int(cell)
        if cell.is_integer() and abs(cell) < 2**53
        else cell
        for cell in column.tolist()
    ]
