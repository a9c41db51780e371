"""CEL files of version 3 (text) and 4 (binary): a path comes in, the intensity of every cell goes out."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

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
_POINT = np.dtype([("x", "<i2"), ("y", "<i2")])
_SUB_GRID_BYTES = 56


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
    n_rows = file.integer("the number of rows", 1, MAX_SIDE)
    n_cells = file.integer("the number of cells")
    _check_count(n_cells, n_rows, n_cols, file.name)
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
    return Cel(
        name=file.name,
        chip_type=_chip_type(header),
        n_rows=n_rows,
        n_cols=n_cols,
        intensity=_intensity(cells["mean"], file.name),
        sd=cells["sd"].astype(np.float32),
        n_pixels=cells["n_pixels"].astype(np.int16),
        masked=_cell_numbers(masked["x"], masked["y"], n_rows, n_cols, file.name),
        outliers=_cell_numbers(outliers["x"], outliers["y"], n_rows, n_cols, file.name),
        header=header,
        version=4,
    )


def _read_text(data: bytes, name: str) -> Cel:
    parts = dict(sections(data, name))
    for title in (
        "CEL",
        "HEADER",
        "INTENSITY",
        "MASKS",
        "OUTLIERS",
        "MODIFIED",
    ):  # all, or it was cut
        require(
            title in parts,
            f"{name} is truncated or damaged: it has no section [{title}], only "
            f"{', '.join(list(parts)[:8])}.",
        )
    version = Tags(parts["CEL"], f"section CEL of {name}").integer("Version")
    check_range(version, "the version of a text file", 3, 3, name)
    header = Tags(parts["HEADER"], f"section HEADER of {name}")
    n_cols = header.integer("Cols", 1, MAX_SIDE)
    n_rows = header.integer("Rows", 1, MAX_SIDE)
    cells = _numbers(parts["INTENSITY"], 5, f"section INTENSITY of {name}")
    _check_count(len(cells), n_rows, n_cols, name)
    place = _cell_numbers(cells[:, 0], cells[:, 1], n_rows, n_cols, name)
    require(
        np.bincount(place, minlength=len(place)).max() == 1,
        f"{name} is damaged: section INTENSITY has some cells twice and lacks others.",
    )
    table = np.empty((3, len(cells)))
    table[:, place] = cells[:, 2:].T
    masks = _numbers(parts["MASKS"], 2, f"section MASKS of {name}")
    outliers = _numbers(parts["OUTLIERS"], 2, f"section OUTLIERS of {name}")
    with np.errstate(over="ignore"):
        intensity, sd = table[:2].astype(np.float32)
    return Cel(
        name=name,
        chip_type=_chip_type(header.values),
        n_rows=n_rows,
        n_cols=n_cols,
        intensity=_intensity(intensity, name),
        sd=sd,
        n_pixels=np.clip(table[2], 0, 2**15 - 1).astype(np.int16),
        masked=_cell_numbers(masks[:, 0], masks[:, 1], n_rows, n_cols, name),
        outliers=_cell_numbers(outliers[:, 0], outliers[:, 1], n_rows, n_cols, name),
        header=header.values,
        version=3,
    )


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


def _check_count(n_cells: int, n_rows: int, n_cols: int, name: str) -> None:
    require(
        n_cells == n_rows * n_cols,
        f"{name} is damaged: it has {n_cells:,} cells, but {n_rows:,} rows of {n_cols:,} columns make "
        f"{n_rows * n_cols:,}.",
    )


def _cell_numbers(x: np.ndarray, y: np.ndarray, n_rows: int, n_cols: int, name: str) -> np.ndarray:
    """Numbers y·n_cols + x of cells; an error if one lies off the chip."""
    columns, rows = x.astype(np.int64), y.astype(np.int64)
    inside = (columns >= 0) & (columns < n_cols) & (rows >= 0) & (rows < n_rows)
    off = np.flatnonzero(~inside | (columns != x) | (rows != y))
    if off.size:
        raise MicroarrayFileError(
            f"{name} is damaged: a cell lies at column {x[off[0]]:g} of row {y[off[0]]:g}, off a chip of "
            f"{n_cols:,} columns and {n_rows:,} rows."
        )
    return rows * n_cols + columns


def _intensity(values: np.ndarray, name: str) -> np.ndarray:
    finite = np.isfinite(values)
    cell = np.argmin(finite)  # the first that is not finite, if there is one
    require(finite[cell], f"{name} is damaged: the intensity of cell {cell} is not finite.")
    return values.astype(np.float32)


def _chip_type(header: dict[str, str]) -> str:
    """Chip type in the DatHeader, where it is the word that ends in .1sq."""
    found = re.search(r"([^\s\x14]+)\.1sq", header.get("DatHeader", ""))
    return found.group(1) if found else ""
