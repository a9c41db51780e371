"""CEL files: a path comes in, the intensity of every cell goes out; users and `_cdf.py` call it.

Version 3 is text, version 4 binary; those of the Command Console are read by `suquan.microarray._generic`.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from suquan.microarray import _files as files
from suquan.microarray._files import MAX_SIDE, Bytes, MicroarrayFileError, Tags, require
from suquan.microarray._generic import MAGIC, read_generic

_CELL = np.dtype([("mean", "<f4"), ("sd", "<f4"), ("n_pixels", "<i2")])
_POINT = np.dtype(("<i2", 2))
_SUB_GRID_BYTES = 56
# Data sets of a Command Console file, and their numbers of columns.
_TABLES = {"Intensity": 1, "StdDev": 1, "Pixel": 1, "Mask": 2, "Outlier": 2}
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
        TAG=VALUE lines of the header, or the parameters of a file of the Command Console.
    version : int
        3, 4, or 1 for a file of the Command Console.
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
    """Read an Affymetrix CEL file, packed with gzip or not.

    Version 3 (text), version 4 (binary) and the generic format of the Command Console are read.

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

    Examples
    --------
    >>> from suquan.microarray import probe_intensities, read_cdf, read_cel, rma
    >>> cels = [read_cel(path) for path in paths]  # doctest: +SKIP
    >>> pm, probeset = probe_intensities(cels, read_cdf("HG-U133A.CDF"))  # doctest: +SKIP
    >>> expression = rma(pm, probeset)  # doctest: +SKIP
    """
    file = Bytes(path)
    if file.data[:4] == (64).to_bytes(4, "little"):
        return _read_binary(file)
    if file.data.lstrip()[:5] == b"[CEL]":
        return _read_text(file)
    if file.data[:2] == MAGIC:
        return _read_command_console(file)
    raise MicroarrayFileError(
        f"{file.name} is not a CEL file: it starts with {file.data[:12]!r}, not with [CEL] (version 3), the "
        "integer 64 (version 4) or the bytes 59 and 1 (Command Console). Give the file that the scanner's "
        "software wrote."
    )


def _read_binary(file: Bytes) -> Cel:
    file.integer("the magic number", 64, 64)
    file.integer("the version", 4, 4)
    n_cols = file.integer("the number of columns", 1, MAX_SIDE)
    n_rows = file.integer("the number of rows", 1, MAX_SIDE)
    n_cells = file.integer("the number of cells")
    _check_count(n_cells, n_rows, n_cols, file.name)
    header = Tags(file.text("header").splitlines(), file.name).values
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
    rest = file.data[file.place :]
    problem = f"is damaged: {len(rest):,} bytes follow after its last part."
    require(not rest.strip(b"\0"), file.name, problem)
    columns = [cells[name] for name in ("mean", "sd", "n_pixels")]
    return _cel(file.name, (n_rows, n_cols), columns, (masked, outliers), header, 4)


def _read_text(file: Bytes) -> Cel:
    name, parts = file.name, dict(file.sections())
    for title in _SECTIONS:  # without the last one, the file was cut off somewhere
        found = ", ".join(list(parts)[:8])
        problem = f"is truncated or damaged: it has no section [{title}], only {found}."
        require(title in parts, name, problem)
    version = Tags(parts["CEL"], f"section CEL of {name}").integer("Version")
    files.check_range(version, "the version of a text file", 3, 3, name)
    header = Tags(parts["HEADER"], f"section HEADER of {name}")
    n_cols, n_rows = header.integer("Cols", 1, MAX_SIDE), header.integer("Rows", 1, MAX_SIDE)
    cells, masked, outliers = (
        _numbers(parts[title], n_columns, f"section {title} of {name}")
        for title, n_columns in (("INTENSITY", 5), ("MASKS", 2), ("OUTLIERS", 2))
    )
    _check_count(len(cells), n_rows, n_cols, name)
    place = _cell_numbers(cells, n_rows, n_cols, name)
    problem = "is damaged: section INTENSITY has some cells twice and lacks others."
    require(np.bincount(place).max() == 1, name, problem)
    columns = cells[np.argsort(place), 2:].T
    return _cel(name, (n_rows, n_cols), columns, (masked, outliers), header.values, 3)


def _read_command_console(file: Bytes) -> Cel:
    tags = Tags([], f"the header of {file.name}")
    tags.values, tables = read_generic(file, "affymetrix-calvin-intensity")
    n_rows = tags.integer("affymetrix-cel-rows", 1, MAX_SIDE)
    n_cols = tags.integer("affymetrix-cel-cols", 1, MAX_SIDE)
    found = {}
    for title, n_columns in _TABLES.items():
        table = tables.get(title, np.empty(0, np.dtype([])))
        names = table.dtype.names or ()
        fits = [table.dtype[name].kind in "iuf" for name in names] == [True] * n_columns
        problem = f"has no data set {title!r} with {n_columns} columns of numbers, only"
        require(fits, file.name, f"is damaged: it {problem} {', '.join(list(tables)[:8])}.")
        if n_columns == 1:
            _check_count(len(table), n_rows, n_cols, file.name)
        found[title] = np.column_stack([table[name] for name in names])
    columns = [found[title][:, 0] for title in ("Intensity", "StdDev", "Pixel")]
    marks = found["Mask"], found["Outlier"]
    return _cel(file.name, (n_rows, n_cols), columns, marks, tags.values, 1)


def _numbers(lines: list[str], n_columns: int, place: str) -> np.ndarray:
    """Read the table of a section: as many rows as its NumberCells says, of shape (n_rows, n_columns)."""
    n_tags = sum("=" in line for line in lines[:8])
    wanted = Tags(lines[:n_tags], place).integer("NumberCells")
    rows = lines[n_tags:]
    files.require_count(len(rows), wanted, "cells", place)
    if not rows:
        return np.empty((0, n_columns))
    try:
        table = np.loadtxt(rows, dtype=np.float64, comments=None, ndmin=2)
    except ValueError as error:
        raise MicroarrayFileError(f"{place} is damaged: {error}") from error
    fits = table.shape == (wanted, n_columns) and np.all(np.isfinite(table))
    problem = f"a line of {n_columns} finite numbers was wanted for each of {wanted:,} cells."
    require(fits, place, f"is damaged: {problem}")
    return table


def _check_count(n_cells: int, n_rows: int, n_cols: int, name: str) -> None:
    made = f"{n_rows:,} rows of {n_cols:,} columns make {n_rows * n_cols:,}"
    problem = f"is damaged: it has {n_cells:,} cells, but {made}."
    require(n_cells == n_rows * n_cols, name, problem)


def _cell_numbers(points: np.ndarray, n_rows: int, n_cols: int, name: str) -> np.ndarray:
    """Number cells (x, y, …) as y·n_cols + x; refuse one that lies off the chip."""
    x, y = points[:, 0], points[:, 1]
    inside = (x >= 0) & (x < n_cols) & (y >= 0) & (y < n_rows) & (x % 1 == 0) & (y % 1 == 0)
    for off in points[~inside][:1]:
        raise MicroarrayFileError(
            f"{name} is damaged: a cell lies at column {off[0]:g} of row {off[1]:g}, off a chip of "
            f"{n_cols:,} columns and {n_rows:,} rows."
        )
    return y.astype(np.int64) * n_cols + x.astype(np.int64)


def _cel(
    name: str,
    shape: tuple[int, int],
    columns: Sequence[np.ndarray] | np.ndarray,
    points: Sequence[np.ndarray],
    header: dict[str, str],
    version: int,
) -> Cel:
    """Make of mean, deviation and pixels of all cells, and of masked and odd cells (x, y), an array."""
    with np.errstate(over="ignore"):
        intensity, sd = (column.astype(np.float32) for column in columns[:2])
    finite = np.isfinite(intensity)
    problem = f"is damaged: the intensity of cell {np.argmin(finite)} is not finite."
    require(finite.all(), name, problem)
    n_pixels = np.clip(columns[2], 0, 2**15 - 1).astype(np.int16)
    masked, outliers = (_cell_numbers(point, *shape, name) for point in points)
    # The chip type is a parameter, or the word of the scanner's line that ends in .1sq.
    scanner_line = header.get("DatHeader", header.get("affymetrix-dat-header", ""))
    found = re.search(r"([^\s\x14]+)\.1sq", scanner_line)
    chip_type = header.get("affymetrix-array-type") or (found.group(1) if found else "")
    return Cel(name, chip_type, *shape, intensity, sd, n_pixels, masked, outliers, header, version)
