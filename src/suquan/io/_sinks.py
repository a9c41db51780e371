"""What the writers of all formats share: the first block's names, and values that wait in a file."""

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from suquan.io._table import Table


@dataclass(frozen=True)
class Target:
    """Where and how a table is written."""

    path: Path  # the temporary file
    name: Path  # the file it will be, for messages
    kind: str
    gzipped: bool
    orientation: str


class Sink(Protocol):
    """Writer of one format: blocks of samples in, a finished file out."""

    def write(self, block: Table) -> None:
        """Append samples."""

    def finish(self) -> None:
        """Complete the file and close it."""

    def abandon(self) -> None:
        """Close what is open; the file is thrown away."""
