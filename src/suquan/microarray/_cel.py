"""CEL files of version 3 (text) and 4 (binary): a path comes in, the intensity of every cell goes out."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from suquan.microarray._files import (
    MAX_SIDE,
    Bytes,
    MicroarrayFileError,
    Tags,
    check_range,
    read_bytes,
    require,
    sections,
)

_MAGIC_4 = (64).to_bytes(4, "little")
_MAGIC_COMMAND_CONSOLE = b"\x3b\x01"
_CELL = np.dtype([("mean", "<f4"), ("sd", "<f4"), ("n_pixels", "<i2")])
_POINT = np.dtype(("<i2", 2))
_SUB_GRID_BYTES = 56
_SECTIONS = ("CEL", "HEADER", "INTENSITY", "MASKS", "OUTLIERS", "MODIFIED")


@dataclass(frozen=True)
class Cel:
    """One scanned microarray.

    Attributes
    ----------
    name : str
        Name of the file.
    chip_type : str
        Type of the chip as the scanner noted it, such as "HG-U133A"; empty if the file does not say.
    n_rows, n_cols : int
        Cells in a column and in a row of the chip.
    intensity : float32 ndarray of shape (n_rows * n_cols,)
        Mean intensity of every cell; the cell at column x of row y has the number y·n_cols + x.
    sd : float32 ndarray of shape (n_rows * n_cols,)
        Standard deviation of a cell's pixels.
    n_pixels : int16 ndarray of shape (n_rows * n_cols,)
    masked, outliers : int64 ndarrays
        Numbers of the cells that the user masked, and of those that the scanner's software found odd.
    header : dict of str
        TAG=VALUE lines of the header.
    version : int
        3 or 4.
    """

    name: str
    chip_type: str
    n_rows: int
    n_cols: int
    intensity: np.ndarray = field(repr=False)
    sd: np.ndarray = field(repr=False)
    n_pixels: np.ndarray = field(repr=False)
    masked: np.ndarray = field(repr=False)
    outliers: np.ndarray = field(repr=False)
    header: dict[str, str] = field(repr=False)
    version: int


def read_cel(path: Any) -> Cel:
    """Read an Affymetrix CEL file of version 3 (text) or 4 (binary), packed with gzip or not.

    Parameters
    ----------
    path : str or path-like

    Returns
    -------
    Cel
        Intensities of all cells, with what the file says of them.

    Raises
    ------
    MicroarrayFileError
        If the file is damaged, truncated, or of another kind.

    See Also
    --------
    read_cdf : Which cells are the probes of which set.
    probe_intensities : Both together.

    Examples
    --------
    >>> from suquan.microarray import probe_intensities, read_cdf, read_cel, rma
    >>> cels = [read_cel(path) for path in paths]  # doctest: +SKIP
    >>> pm, probeset = probe_intensities(cels, read_cdf("HG-U133A.CDF"))  # doctest: +SKIP
    >>> expression = rma(pm, probeset)  # doctest: +SKIP
    """
    data = read_bytes(path)
    name = Path(path).name
    if data[:4] == _MAGIC_4:
        return _read_binary(Bytes(data, name))
    if data.lstrip()[:5] == b"[CEL]":
        return _read_text(data, name)
    require(
        data[:2] != _MAGIC_COMMAND_CONSOLE,
        f"{name} is a CEL file of the Command Console, which is not read here; convert it to version 3 "
        "or 4, for example with apt-cel-convert of the Affymetrix Power Tools.",
    )
    raise MicroarrayFileError(
        f"{name} is not a CEL file: it starts with {data[:12]!r}, not with [CEL] (version 3) or the "
        "integer 64 (version 4)."
    )


def _read_binary(file: Bytes) -> Cel:
    file.integer("the magic number", 64, 64)
    file.integer("the version", 4, 4)
    n_cols = file.integer("the number of columns", 1, MAX_SIDE)
    chip = _Chip(file.name, file.integer("the number of rows", 1, MAX_SIDE), n_cols)
    n_cells = file.integer("the number of cells")
    chip.check_count(n_cells)
    header = Tags(file.text("header").splitlines(), f"the header of {file.name}").values
    header.setdefault("Algorithm", file.text("algorithm's name"))
    header.setdefault("AlgorithmParameters", file.text("algorithm's parameters"))
    file.integer("the cell margin", -(2**31))
    n_outliers = file.integer("the number of outliers", 0, n_cells)
    n_masked = file.integer("the number of masked cells", 0, n_cells)
    n_sub_grids = file.integer("the number of sub-grids")
    cells = file.table(_CELL, n_cells, "the intensities")
    masked = file.table(_POINT, n_masked, "the masked cells")
    outliers = file.table(_POINT, n_outliers, "the outliers")
    file.take(n_sub_grids * _SUB_GRID_BYTES, "the sub-grids")
    require(
        not file.data[file.place :].strip(b"\0"),
        f"{file.name} is damaged: {file.n_left:,} bytes follow after its last part.",
    )
    columns = [cells[name] for name in ("mean", "sd", "n_pixels")]
    return _cel(chip, columns, masked, outliers, header, 4)


def _read_text(data: bytes, name: str) -> Cel:
    parts = dict(sections(data, name))
    for title in _SECTIONS:  # without the last one, the file was cut off somewhere
        require(
            title in parts,
            f"{name} is truncated or damaged: it has no section [{title}], only "
            f"{', '.join(list(parts)[:8])}.",
        )
    version = Tags(parts["CEL"], f"section CEL of {name}").integer("Version")
    check_range(version, "the version of a text file", 3, 3, name)
    header = Tags(parts["HEADER"], f"section HEADER of {name}")
    n_cols = header.integer("Cols", 1, MAX_SIDE)
    chip = _Chip(name, header.integer("Rows", 1, MAX_SIDE), n_cols)
    cells, masked, outliers = (
        _numbers(parts[title], n_columns, f"section {title} of {name}")
        for title, n_columns in (("INTENSITY", 5), ("MASKS", 2), ("OUTLIERS", 2))
    )
    chip.check_count(len(cells))
    place = chip.cell_numbers(cells)
    require(
        np.bincount(place).max() == 1,
        f"{name} is damaged: section INTENSITY has some cells twice and lacks others.",
    )
    columns = np.empty((3, len(cells)))
    columns[:, place] = cells[:, 2:].T
    return _cel(chip, list(columns), masked, outliers, header.values, 3)


def _numbers(lines: list[str], n_columns: int, place: str) -> np.ndarray:
    """Table of a section, as many rows as its NumberCells says, of shape (n_rows, n_columns)."""
    n_tags = sum("=" in line for line in lines[:8])
    wanted = Tags(lines[:n_tags], place).integer("NumberCells")
    rows = lines[n_tags:]
    require(
        len(rows) == wanted,
        f"{place} is truncated or damaged: it says {wanted:,} cells and has {len(rows):,}.",
    )
    if not rows:
        return np.empty((0, n_columns))
    try:
        table = np.loadtxt(rows, dtype=np.float64, comments=None, ndmin=2)
    except ValueError as error:
        raise MicroarrayFileError(f"{place} is damaged: {error}") from error
    require(
        table.shape == (wanted, n_columns) and np.all(np.isfinite(table)),
        f"{place} is damaged: a line of {n_columns} finite numbers was wanted for each of {wanted:,} cells.",
    )
    return table


class _Chip(NamedTuple):
    """Sides of the chip in the file of this name."""

    name: str
    n_rows: int
    n_cols: int

    def check_count(self, n_cells: int) -> None:
        """Raise an error unless there are as many cells as rows and columns make."""
        require(
            n_cells == self.n_rows * self.n_cols,
            f"{self.name} is damaged: it has {n_cells:,} cells, but {self.n_rows:,} rows of "
            f"{self.n_cols:,} columns make {self.n_rows * self.n_cols:,}.",
        )

    def cell_numbers(self, points: np.ndarray) -> np.ndarray:
        """Numbers y·n_cols + x of cells (x, y, …); an error if one lies off the chip."""
        x, y = points[:, 0], points[:, 1]
        inside = (x >= 0) & (x < self.n_cols) & (y >= 0) & (y < self.n_rows)
        off = points[~inside | (x % 1 != 0) | (y % 1 != 0)]
        if len(off):
            raise MicroarrayFileError(
                f"{self.name} is damaged: a cell lies at column {off[0, 0]:g} of row {off[0, 1]:g}, off a "
                f"chip of {self.n_cols:,} columns and {self.n_rows:,} rows."
            )
        return y.astype(np.int64) * self.n_cols + x.astype(np.int64)


def _cel(
    chip: _Chip,
    columns: Sequence[np.ndarray],
    masked: np.ndarray,
    outliers: np.ndarray,
    header: dict[str, str],
    version: int,
) -> Cel:
    """What both versions hold; `columns` are mean, standard deviation and number of pixels of every cell."""
    with np.errstate(over="ignore"):
        intensity, sd = (column.astype(np.float32) for column in columns[:2])
    finite = np.isfinite(intensity)
    cell = np.argmin(finite)  # the first that is not finite, if there is one
    require(finite[cell], f"{chip.name} is damaged: the intensity of cell {cell} is not finite.")
    # The chip type is the word of the DatHeader that ends in .1sq.
    found = re.search(r"([^\s\x14]+)\.1sq", header.get("DatHeader", ""))
    return Cel(
        name=chip.name,
        chip_type=found.group(1) if found else "",
        n_rows=chip.n_rows,
        n_cols=chip.n_cols,
        intensity=intensity,
        sd=sd,
        n_pixels=np.clip(columns[2], 0, 2**15 - 1).astype(np.int16),
        masked=chip.cell_numbers(masked),
        outliers=chip.cell_numbers(outliers),
        header=header,
        version=version,
    )
