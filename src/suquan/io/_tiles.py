"""Turning a matrix that does not fit in memory: blocks of rows in, blocks of columns out, through a file."""

import tempfile
from pathlib import Path

import numpy as np


class Tiles:
    """A matrix on disk that is written in blocks of rows and read in blocks of columns.

    Every block is stored transposed, so that the part of it that belongs to consecutive columns is
    contiguous. Memory: one block in, one block out. Disk: the whole matrix, in a file without a name that is
    gone when it is closed.

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
        offset = done = 0
        for height in self._heights:
            self._file.seek((offset + start * height) * self.dtype.itemsize)
            part = self._file.read((stop - start) * height * self.dtype.itemsize)
            out[:, done : done + height] = np.frombuffer(part, self.dtype).reshape(-1, height)
            offset += height * self.n_columns
            done += height
        return out

    def close(self) -> None:
        """Remove the file."""
        self._file.close()

    def __enter__(self) -> "Tiles":
        return self

    def __exit__(self, *_) -> None:
        self.close()
