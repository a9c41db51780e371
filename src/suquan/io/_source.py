"""What the reader of a format hands over to `reading`, and what the formats share.

A reader opens a file as a `Source`, whose rows come in blocks, before they are made samples. Here are also the
choice of the side on which the samples lie, and `Tiles`, which turns a matrix larger than memory.
"""

import re
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from suquan.io._errors import TableError, listed, refuse
from suquan.io._table import as_values, match_name, no_feature_matches, spelling_hint

VALUES = 4 * 2**20  # values of a table that are held at a time: 32 MiB of doubles
# Words in the heading of the column of names, by what the rows then are.
SAMPLE_WORDS = {"sample", "patient", "subject", "individual", "donor", "cell"}
FEATURE_WORDS = {"feature", "gene", "probe", "probeset", "transcript", "protein", "symbol", "ref"}


def rows_at_once(width: int) -> int:
    """Rows of this width that are held at a time."""
    return max(1, VALUES // max(1, width))


class Block(NamedTuple):
    """Consecutive rows of a file.

    ``names`` has shape (n_rows,), ``values`` (n_rows, n_columns) as in the file, every label (n_rows,).
    """

    names: np.ndarray
    values: np.ndarray
    labels: dict[str, np.ndarray]

    def rows(self, start: int, stop: int | None) -> "Block":
        """Some of the rows."""
        labels = {name: column[start:stop] for name, column in self.labels.items()}
        return Block(self.names[start:stop], self.values[start:stop], labels)

    @staticmethod
    def join(parts: "list[Block]", orientation: str = "rows") -> "Block":
        """The rows of all parts, as they are to be read: sample after sample."""
        if len(parts) == 1:
            return parts[0]
        names = np.concatenate([part.names for part in parts])
        labels = {
            name: np.concatenate([part.labels[name] for part in parts]) for name in parts[0].labels
        }
        if orientation == "columns":
            values = np.concatenate([part.values.T for part in parts], axis=1).T
        else:
            values = np.concatenate([part.values for part in parts])
        return Block(names, values, labels)


@dataclass
class Source:
    """An opened table: the names of its columns and a way to pass over its rows.

    Parameters
    ----------
    path, kind
        The file and its kind.
    orientation : {"rows", "columns"}
        Where the samples lie in the blocks.
    column_names : list of str
        Names of the columns of every block's ``values``.
    blocks : callable
        ``blocks()`` passes over the file. May be called several times.
    labels : dict of str to ndarray of shape (n_samples,)
        Labels that do not come with the blocks. Complete once a pass has ended.
    stored_orientation : {"rows", "columns"} or None
        Where the samples lie in the file, if not as in the blocks.
    why : str
        Who says so; empty where every file of the kind has its samples there.
    """

    path: Path
    kind: str
    orientation: str
    column_names: list[str]
    blocks: Callable[[], Iterator[Block]]
    labels: dict[str, np.ndarray] = field(default_factory=dict)
    stored_orientation: str | None = None
    why: str = ""


# Names of the samples and of the features of a stored matrix, None where it has none, and labels.
MatrixNames = tuple[list[str] | None, list[str] | None, dict[str, np.ndarray]]


@dataclass(frozen=True)
class ReadOptions:
    """What the caller of a reader asked for; `features` are the names or the number of those expected."""

    samples: str = "auto"
    sample_names: frozenset[str] | None = None
    label_columns: tuple[str, ...] = ()
    ignore_columns: tuple[str, ...] = ()
    layer: str | None = None
    features: frozenset[str] | int | None = None

    def in_terms_of(self, header: Collection[str]) -> "ReadOptions":
        """Name the columns as the header does, which may differ by case and outer blanks."""
        named = (self.label_columns, self.ignore_columns)
        labels, ignored = (tuple(match_name(name, header) for name in names) for names in named)
        return replace(self, label_columns=labels, ignore_columns=ignored)


def matrix_source(
    path: Path,
    kind: str,
    names: MatrixNames,
    parts: Callable[[int], Iterator[np.ndarray]],
    by_feature: bool,
) -> Source:
    """A stored matrix with its names as a source.

    ``parts(n)`` gives n samples at a time, or n features where the matrix is stored ``by_feature``.
    """
    samples, features, labels = names
    rows, columns = samples or [], features or []
    if by_feature:
        rows, columns = columns, rows

    def blocks() -> Iterator[Block]:
        start = 0
        for part in parts(min(len(rows), rows_at_once(len(columns)))):
            stop = start + len(part)
            yield Block(np.array(rows[start:stop]), as_values(part), {})
            start = stop

    side = "columns" if by_feature else "rows"
    return Source(path, kind, side, columns, blocks, labels, stored_orientation="rows")


def choose_orientation(
    options: ReadOptions, header: list[str], row_names: Callable[[], Iterable[str]]
) -> tuple[str, str]:
    """Where the samples lie in a file of a kind that allows both, and who says so.

    As asked; or by the names of the samples, of the features, of the labels, or by the heading of the column of
    names (the first of the header). One row or one column is one sample; any other table is refused.
    """
    if options.samples != "auto":
        return options.samples, "as given"
    columns = [name for name in header[1:] if name not in options.ignore_columns]
    rows = cache(lambda: list(row_names()))
    wanted = options.sample_names
    if wanted is not None:
        for_rows, for_columns = (len(wanted.intersection(names)) for names in (rows(), columns))
        if for_rows != for_columns:
            side = "rows" if for_rows > for_columns else "columns"
            return side, "chosen by the names of the samples"
        both = f"{for_rows} of the wanted samples name rows and as many columns"
        refuse(for_rows, f"{both}; give samples='rows' or samples='columns'")
        some = f"{len(wanted)} wanted samples ({listed(sorted(wanted), 3)})"
        sides = f"names a row ({listed(rows(), 3)}) or a column ({listed(columns, 3)})"
        cure = "check that both files use the same sample names"
        hint = spelling_hint(sorted(wanted), [*rows(), *columns])
        raise TableError("; ".join(filter(None, [f"none of the {some} {sides}", hint, cure])))

    def votes(described: Collection[str] | int | None) -> tuple[int, int]:
        """How much speaks for samples in rows and in columns, by what describes each sample."""
        if isinstance(described, int):
            return len(columns) == described, len(rows()) == described
        names = set(described or ())
        across = len(names.intersection(columns))
        return across, len(names.intersection(rows())) if across < len(names) else 0

    words = {word.removesuffix("s") for word in re.split("[^a-z]+", header[0].lower())}
    number_of = "number" if isinstance(options.features, int) else "names"
    evidence: dict[str, Callable[[], tuple[int, int]]] = {
        f"{number_of} of the model's features": lambda: votes(options.features),
        "names of the labels": lambda: votes(options.label_columns),
        f"heading {header[0]!r}": lambda: (len(words & SAMPLE_WORDS), len(words & FEATURE_WORDS)),
    }
    for what, count in evidence.items():
        for_rows, for_columns = count()
        if for_rows != for_columns:
            return "rows" if for_rows > for_columns else "columns", f"chosen by the {what}"
    n, p = len(rows()), len(columns)
    if 1 in (n, p):
        side = "row" if n == 1 else "column"
        return f"{side}s", f"as in every table of one {side}"
    names = [*rows(), *columns]
    if isinstance(options.features, frozenset) and options.features.isdisjoint(names):
        sides = f"{listed(rows()[:1])} in its rows and {listed(columns[:1])} in its columns"
        raise TableError(no_feature_matches(sorted(options.features), names, sides))
    raise TableError(
        f"cannot tell whether samples are rows or columns; give samples='rows' for {n:,} samples "
        f"({listed(rows(), 2)}) of {p:,} features ({listed(columns, 2)}), or samples='columns' for {p:,} "
        f"samples of {n:,} features"
    )


class Tiles(AbstractContextManager):
    """A matrix on disk that is written in blocks of rows and read in blocks of columns.

    Every block is stored transposed, so that its part of some consecutive columns is contiguous. Memory: one
    block in, one block out. Disk: the whole matrix, in a file without a name that is gone when it is closed.

    Parameters
    ----------
    folder : Path or None
        Where the file lies; None: the folder for temporary files.
    """

    def __init__(self, folder: Path | None = None):
        self._file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115
        self._heights: list[int] = []
        self.dtype = np.dtype(np.float64)
        self.n_columns = 0

    def add(self, block: np.ndarray) -> None:
        """Append rows."""
        if not self._heights:
            self.dtype, self.n_columns = block.dtype, block.shape[1]
        self._heights.append(block.shape[0])
        self._file.write(np.ascontiguousarray(block.T, dtype=self.dtype).data)

    @property
    def n_rows(self) -> int:
        """Number of rows so far."""
        return sum(self._heights)

    def columns(self, start: int, stop: int) -> np.ndarray:
        """Columns start to stop, transposed: shape (stop - start, n_rows)."""
        out = np.empty((stop - start, self.n_rows), dtype=self.dtype)
        done = 0
        for height in self._heights:
            self._file.seek((done * self.n_columns + start * height) * self.dtype.itemsize)
            part = self._file.read((stop - start) * height * self.dtype.itemsize)
            out[:, done : done + height] = np.frombuffer(part, self.dtype).reshape(-1, height)
            done += height
        return out

    def close(self) -> None:
        """Remove the file."""
        self._file.close()

    def __exit__(self, *_) -> None:
        self.close()
