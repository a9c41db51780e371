"""What the writers of all formats share; `writing.TableWriter` makes a sink when the first block has come."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from suquan.io._errors import TableError, listed
from suquan.io._source import Tiles, rows_at_once
from suquan.io._table import Table


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

    def header(self) -> list[str]:
        """Names of the columns where samples lie in rows: samples, labels, features, all different."""
        names = [*self.labels, *self.features]
        both = set(self.labels).intersection(self.features)
        if both:
            raise TableError(
                f"{self.name}: {listed(sorted(both))} is a label and a feature; rename one of them"
            )
        return ["" if "sample" in names else "sample", *names]


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
