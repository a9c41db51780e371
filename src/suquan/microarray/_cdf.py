"""CDF files, text and binary (XDA): which cells of a chip are the probes of which probe set.

:func:`read_cdf` reads the layout of a chip; :func:`probe_intensities` reads CEL files by it, for `rma`.
"""

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from suquan.microarray import _files as files
from suquan.microarray._cel import Cel, read_cel
from suquan.microarray._files import MAX_SIDE, Bytes, Tags, check_range, require

_XDA_CELL = np.dtype("<i4, <u2, <u2, <i4, u1, u1")
_XDA_CELL.names = ("atom", "x", "y", "index", "pbase", "tbase")
_TEXT_EXPRESSION, _XDA_EXPRESSION = 3, 1
_NAME, _PLACE = np.dtype("S64"), np.dtype("<i4")
_COLUMNS = ("X", "Y", "PBASE", "TBASE", "ATOM", "INDEX")
# Which bases pair, by their letters' codes: then the probe is a perfect match.
_PAIRS = np.zeros((256, 256), bool)
_PAIRS[[*b"ATCGATCGatcgatcg"], [*b"TAGCtagcTAGCtagc"]] = True


@dataclass(frozen=True)
class Cdf:
    """Layout of a chip: its probe sets and the cells of their probes.

    Attributes
    ----------
    chip_type : str
        Name of the chip in the file; in a binary file, the name of the file without its ending.
    n_rows, n_cols : int
        Cells in a column and in a row of the chip.
    probesets : ndarray of shape (n_probesets,), str
        Names of the probe sets, in the order of the file.
    cells : int64 ndarray of shape (n_probes,)
        Cells of all probes, those of a set side by side, by atom (pair of probes).
    set_index : int64 ndarray of shape (n_probes,)
        Place in `probesets` of each probe's set.
    is_pm : bool ndarray of shape (n_probes,)
        Whether the probe is a perfect match.
    """

    chip_type: str
    n_rows: int
    n_cols: int
    probesets: np.ndarray = field(repr=False)
    cells: np.ndarray = field(repr=False)
    set_index: np.ndarray = field(repr=False)
    is_pm: np.ndarray = field(repr=False)


# Name, atoms, cells and perfect matches of one probe set, in the order of the file.
_Block = tuple[str, np.ndarray, np.ndarray, np.ndarray]


def read_cdf(path: Any) -> Cdf:
    """Read an Affymetrix CDF file of an expression chip, text or binary (XDA), packed with gzip or not.

    A probe is a perfect match if its base at the middle pairs with the target's.

    Parameters
    ----------
    path : str or path-like

    Returns
    -------
    Cdf
        Probe sets and the cells of their probes.

    Raises
    ------
    MicroarrayFileError
        If the file is damaged, truncated, of another kind, or not of an expression chip.

    Examples
    --------
    >>> from suquan.microarray import read_cdf
    >>> cdf = read_cdf("HG-U133A.CDF")  # doctest: +SKIP
    >>> len(cdf.probesets), int(cdf.is_pm.sum())  # doctest: +SKIP
    (22283, 247965)
    """
    file = Bytes(path)
    if file.data[:4] == (67).to_bytes(4, "little"):
        return _read_binary(file)
    start = f"{file.data[:12]!r}, not with [CDF] (text) or the integer 67 (binary)"
    is_text = file.data.lstrip()[:5] == b"[CDF]"
    require(is_text, file.name, f"is not a CDF file: it starts with {start}.")
    return _read_text(file)


def probe_intensities(cels: Any, cdf: Any) -> tuple[np.ndarray, np.ndarray]:
    """Perfect-match intensities of several microarrays, as :func:`rma` takes them.

    Parameters
    ----------
    cels : sequence of Cel, str or path-like
        Arrays of one chip type, read or to be read.
    cdf : Cdf, str or path-like
        The chip's layout; its name may differ from the arrays' chip type, as that of a custom CDF does.

    Returns
    -------
    pm : float64 ndarray of shape (n_probes, n_arrays)
        Raw intensities of the perfect-match probes.
    probeset : ndarray of shape (n_probes,), str
        Name of each probe's set.

    Raises
    ------
    MicroarrayFileError
        If a file cannot be read, the arrays are of several chip types, or the layout is of another size.

    Examples
    --------
    >>> from suquan.microarray import probe_intensities, rma
    >>> pm, probeset = probe_intensities(["a.CEL", "b.CEL"], "HG-U133A.CDF")  # doctest: +SKIP
    >>> rma(pm, probeset).shape  # doctest: +SKIP
    (22283, 2)
    """
    layout = cdf if isinstance(cdf, Cdf) else read_cdf(cdf)
    if isinstance(cels, str | Path | Cel):
        raise ValueError(
            f"cels must be a sequence of arrays or paths; got one, {cels!r}. Give a list."
        )
    arrays = list(cels)
    if not arrays:
        raise ValueError("cels must hold at least one array; got none.")
    pm_cells = layout.cells[layout.is_pm]
    pm = np.empty((len(arrays), len(pm_cells)))
    chip_type = ""
    for j, array in enumerate(arrays):  # one at a time: only the probes are kept
        cel = array if isinstance(array, Cel) else read_cel(array)
        made_of = (
            f"has {cel.n_rows} rows of {cel.n_cols} columns, the layout {layout.chip_type} has"
        )
        problem = f"{made_of} {layout.n_rows} of {layout.n_cols}: they are of different chips."
        require((cel.n_rows, cel.n_cols) == (layout.n_rows, layout.n_cols), cel.name, problem)
        problem = f"is of chip type {cel.chip_type}, the arrays before it of {chip_type}."
        same = not chip_type or cel.chip_type in ("", chip_type)
        require(same, cel.name, f"{problem} Summarise arrays of one type together.")
        chip_type = chip_type or cel.chip_type
        pm[j] = cel.intensity[pm_cells]
    return pm.T, layout.probesets[layout.set_index[layout.is_pm]]


def _read_binary(file: Bytes) -> Cdf:
    file.integer("the magic number", 67, 67)
    file.integer("the version (1 is read here)", 1, 1)
    n_cols, n_rows = file.unpack("HH", "the number of columns and rows")
    check_range(min(n_cols, n_rows), "the smaller side of the chip", 1, MAX_SIDE, file.name)
    n_units = file.integer("the number of units", 1)
    n_qc_units = file.integer("the number of QC units")
    file.text("reference sequence")
    names = file.table(_NAME, n_units, "the names of the units")
    file.table(_PLACE, n_qc_units, "the places of the QC units")  # no probes of a set
    places = file.table(_PLACE, n_units, "the places of the units").tolist()
    blocks: list[_Block] = []
    room = len(file.data) // _XDA_CELL.itemsize
    for k, place in enumerate(places):
        file.move_to(place, f"unit {k + 1}")
        blocks.append(_binary_unit(file, f"unit {k + 1}", names[k], n_rows, n_cols))
        # Every cell is stored once: units that share their bytes are damage, and would fill the memory.
        room -= len(blocks[-1][2])
        require(room >= 0, file.name, "is damaged: its units overlap.")
    return _layout(blocks, Path(file.name).stem, n_rows, n_cols, file.name)


def _binary_unit(file: Bytes, what: str, unit_name: bytes, n_rows: int, n_cols: int) -> _Block:
    kind, _, _, n_blocks, n_cells, _, _ = file.unpack("HBiiiiB", what)
    _check_kind(kind, _XDA_EXPRESSION, f"{what} of {file.name}")
    check_range(n_blocks, f"the number of blocks of {what}", 1, 1, file.name)
    _, n_block_cells, _, _, _, _ = file.unpack("iiBBii", f"the block of {what}")
    own_name = file.table(_NAME, 1, f"the name of {what}")[0]
    problem = f"is damaged: {what} says {n_cells:,} cells, its block {n_block_cells:,}."
    require(n_block_cells == n_cells, file.name, problem)
    cells = file.table(_XDA_CELL, n_cells, f"the cells of {what}")
    x, y = cells["x"].astype(np.int64), cells["y"].astype(np.int64)
    problem = f"is damaged: {what} has a cell that lies off the chip."
    require(np.all(x < n_cols) and np.all(y < n_rows), file.name, problem)
    is_pm = _PAIRS[cells["pbase"], cells["tbase"]]
    names = (data.split(b"\0", 1)[0].decode("latin-1").strip() for data in (own_name, unit_name))
    return _set_name(*names), cells["atom"].astype(np.int64), y * n_cols + x, is_pm


def _read_text(file: Bytes) -> Cdf:
    name, parts = file.name, file.sections()
    chip = Tags(next((lines for title, lines in parts if title == "Chip"), []), f"[Chip] of {name}")
    n_rows, n_cols = (chip.integer(side, 1, MAX_SIDE) for side in ("Rows", "Cols"))
    n_units = chip.integer("NumberOfUnits", 1)
    units, texts = (
        [Tags(lines, f"[{title}] of {name}") for title, lines in parts if re.fullmatch(kind, title)]
        for kind in (r"Unit\d+", r"Unit\d+_Block\d+")
    )
    files.require_count(len(units), n_units, "units", name)
    for unit in units:
        _check_kind(unit.integer("UnitType"), _TEXT_EXPRESSION, unit.place)
        unit.integer("NumberBlocks", 1, 1)
    files.require_count(len(texts), n_units, "blocks", name)
    pairs = zip(texts, units, strict=True)
    blocks = [_text_block(text, unit, n_rows, n_cols) for text, unit in pairs]
    return _layout(blocks, chip.values.get("Name", Path(name).stem), n_rows, n_cols, name)


def _text_block(tags: Tags, unit: Tags, n_rows: int, n_cols: int) -> _Block:
    place = tags.place
    rows = [value for tag, value in tags.values.items() if re.fullmatch(r"Cell[0-9]+", tag)]
    files.require_count(len(rows), tags.integer("NumCells"), "cells", place)
    columns = tags.text("CellHeader").upper().split()
    missing = ", ".join(column for column in _COLUMNS if column not in columns)
    problem = f"has a CellHeader that lacks {missing}; it has {' '.join(columns)[:80]}."
    require(not missing, place, problem)
    # A text column may be empty, so lines are split at tabs where there are any.
    table = [row.split("\t") if "\t" in row else row.split() for row in rows]
    places = [columns.index(column) for column in _COLUMNS]
    problem = "has a cell with fewer columns than CellHeader names."
    require(all(len(row) > max(places) for row in table), place, problem)
    x, y, pbase, tbase, atom, index = ([row[k].strip() for row in table] for k in places)
    cells = _integers(y, "Y", n_rows - 1, place) * n_cols + _integers(x, "X", n_cols - 1, place)
    same = np.array_equal(cells, _integers(index, "INDEX", n_rows * n_cols - 1, place))
    require(same, place, f"is damaged: the INDEX of a cell is not Y·{n_cols} + X of that cell.")
    problem = "is damaged: PBASE and TBASE should be one letter for each cell."
    require(all(len(base) == 1 for base in pbase + tbase), place, problem)
    is_pm = _PAIRS[[ord(base) for base in pbase], [ord(base) for base in tbase]]
    name = _set_name(tags.text("Name"), unit.values.get("Name", ""))
    return name, _integers(atom, "ATOM", 2**31 - 1, place), cells, is_pm


def _integers(texts: list[str], what: str, high: int, place: str) -> np.ndarray:
    try:
        values = np.array(texts, dtype=np.int64)
    except (ValueError, OverflowError) as error:
        problem = f"{place} is damaged: {what} should be integers: {error}"
        raise files.MicroarrayFileError(problem) from error
    for value in (values.min(initial=0), values.max(initial=0)):
        check_range(int(value), what, 0, high, place)
    return values


def _check_kind(kind: int, wanted: int, place: str) -> None:
    problem = f"is of type {kind}, not an expression unit ({wanted})"
    require(kind == wanted, place, f"{problem}: only layouts of expression chips are read.")


def _set_name(block_name: str, unit_name: str) -> str:
    """Name of a probe set: that of its block, or of its unit where the block has none."""
    return unit_name if block_name in ("", "NONE") else block_name


def _layout(blocks: list[_Block], chip_type: str, n_rows: int, n_cols: int, name: str) -> Cdf:
    """Join all blocks, each sorted by atom; block names must differ."""
    names, atoms, cells, is_pm = zip(*blocks, strict=True)
    problem = "is damaged: its probe sets need names that differ from each other."
    require("" not in names and len(set(names)) == len(names), name, problem)
    set_index = np.repeat(np.arange(len(blocks)), [len(atom) for atom in atoms])
    order = np.lexsort([np.concatenate(atoms), set_index])
    all_cells, all_pm = np.concatenate(cells)[order], np.concatenate(is_pm)[order]
    return Cdf(chip_type, n_rows, n_cols, np.array(names), all_cells, set_index, all_pm)
