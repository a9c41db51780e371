"""What a format's reader hands over: the file's rows in blocks, before they are turned into samples."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np


@dataclass(frozen=True)
class Block:
    """Consecutive rows of a file.

    ``values`` has the file's orientation; ``labels`` holds the label cells of these rows: arrays, or lists of
    the cells as they were written.
    """

    names: list[str]
    values: np.ndarray
    labels: Mapping[str, np.ndarray | list[str]] = field(default_factory=dict)


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
        ``blocks(n_rows)`` passes over the file in blocks of about ``n_rows`` rows; ``None`` leaves the size to
        the reader. May be called several times.
    column_labels : dict of str to ndarray
        Where samples lie in columns: their labels. Complete once a pass has ended.
    """

    path: Path
    kind: str
    orientation: str
    column_names: list[str]
    blocks: Callable[[int | None], Iterator[Block]]
    column_labels: dict[str, np.ndarray] = field(default_factory=dict)
    stored_orientation: str | None = None  # where it is not that of the blocks
    row_labels: dict[str, np.ndarray] = field(
        default_factory=dict
    )  # where they are known beforehand

    @property
    def labels(self) -> dict[str, np.ndarray]:
        """The labels that are known before a pass."""
        return self.row_labels or self.column_labels


@dataclass(frozen=True)
class ReadOptions:
    """What the caller of a reader asked for."""

    samples: str = "auto"
    sample_names: frozenset[str] | None = None
    label_columns: tuple[str, ...] = ()
    ignore_columns: tuple[str, ...] = ()
    layer: str | None = None
