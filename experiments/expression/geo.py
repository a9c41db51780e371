"""Read the paper's breast cancer cohorts: files that GEO offers come in, samples with labels go out.

`data.py` calls it.
"""

from __future__ import annotations

import csv
import gzip
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from suquan.io import LabelTable, Table, TableError, read_table, select_numbers, survival_labels

DAYS_PER_YEAR = 365.25
DAYS_PER_MONTH = DAYS_PER_YEAR / 12
HORIZON_YEARS = 6
_TABLE_BEGIN, _TABLE_END = "!series_table_begin", "!series_table_end"


@dataclass(frozen=True)
class Series:
    """Where a series keeps what the label is made of.

    Attributes
    ----------
    time, event : str
        Regular expressions that match, in either case, the whole names of the two columns.
    days : float
        Days in the unit of the time.
    paper : tuple of int
        Patients with a label, and among them those who relapsed, in Table 1 of the paper.
    clinical : tuple of str
        Patterns of the files, beside the series matrix, that have the columns; without any, the series
        matrix has them among the characteristics of its samples.
    sample : str
        Regular expression for the column of such a file that names the samples.
    without : tuple of str, default=()
        Column and value: samples with it are left out.
    """

    time: str
    event: str
    days: float
    paper: tuple[int, int]
    clinical: tuple[str, ...] = ()
    sample: str = ""
    without: tuple[str, str] | tuple[()] = ()


SERIES = {
    "GSE1456": Series("surv_relapse", "relapse", DAYS_PER_YEAR, (141, 37)),
    "GSE2034": Series(
        r"time to relapse or last follow-up \(months\)",
        r"relapse \(1=true\)",
        DAYS_PER_MONTH,
        (271, 104),
        clinical=("GSE2034_clinical*", "GSE2034_family.soft*"),
        sample="geo .*number",
    ),
    "GSE2990": Series(
        r"time\.rfs",
        r"event\.rfs",
        DAYS_PER_YEAR,
        (106, 32),
        clinical=("GSE2990_suppl_info*",),
        sample="geo_accn",
        without=("treatment", "tamoxifen"),
    ),
    "GSE4922": Series(r"dfs time \(yrs\)", "dfs event.*", DAYS_PER_YEAR, (225, 73)),
}


@dataclass(frozen=True)
class Labelled:
    """Samples with a label: 1 for a relapse within six years, 0 for a longer follow-up without one.

    Attributes
    ----------
    data : ndarray of shape (n_samples, n_features)
        As in the series matrix.
    target : int ndarray of shape (n_samples,)
    sample_names : ndarray of shape (n_samples,)
    report : str
        Counts of patients by what became of them, beside those of the paper's Table 1.
    """

    data: np.ndarray
    target: np.ndarray
    sample_names: np.ndarray
    report: str


def load_geo(accession: str, folder: Path) -> Labelled:
    """Read one of the four series from its files in a folder, and label its patients.

    A patient who relapsed within 6 × 365.25 days is of class 1, one who was followed without relapse for
    longer is of class 0, and one whose follow-up ended earlier is left out. ``docs/microarray.md`` says which
    files and columns are read, and what of it could be checked.

    Raises
    ------
    TableError
        If a file or a column is missing or damaged.
    """
    series = SERIES[accession]
    matrix = _find_matrix(accession, folder)
    table = read_table(matrix)
    source = _clinical_source(accession, series, table, folder)
    names = table.sample_names
    time, event = (
        select_numbers(source, _one_name(p, source.columns, source.path), sample_names=names)
        for p in (series.time, series.event)
    )
    chosen = _chosen(source, series, names)
    time = np.where(chosen, time * series.days, np.nan)
    labels = survival_labels(time, event, HORIZON_YEARS * DAYS_PER_YEAR)
    n_excluded = int((~chosen).sum())
    left_out = f"{labels.n_censored} censored before {HORIZON_YEARS} years"
    if labels.n_missing > n_excluded:
        left_out += f", {labels.n_missing - n_excluded} without time or event"
    if n_excluded:
        left_out += f", {n_excluded} with {' '.join(series.without)}"
    report = (
        f"{accession}: {len(labels.y)} labelled, {labels.n_event} of them relapsed "
        f"(paper: {series.paper[0]}, {series.paper[1]}); left out: {left_out}"
    )
    return Labelled(table.values[labels.keep], labels.y, names[labels.keep], report)


def _find_matrix(accession: str, folder: Path) -> Path:
    """Find the series matrix in a folder, that of GPL96 where there are several."""
    found = sorted(folder.glob(f"{accession}*series_matrix.txt*"))
    found = [file for file in found if "GPL96" in file.name] or found
    if len(found) != 1:
        what = f"several: {', '.join(file.name for file in found)}" if found else "none"
        raise TableError(
            f"{folder}: wanted the series matrix {accession}_series_matrix.txt.gz, of GPL96 where there are "
            f"several; there is {what}."
        )
    return found[0]


def _clinical_source(accession: str, series: Series, table: Table, folder: Path) -> LabelTable:
    """Find the table that has the columns of times and events."""
    if not series.clinical:
        return LabelTable(table.sample_names, table.labels, "the series matrix")
    found = [file for pattern in series.clinical for file in sorted(folder.glob(pattern))]
    if not found:
        raise TableError(
            f"{accession}: its series matrix has no follow-up times; wanted a file "
            f"{' or '.join(series.clinical)} in {folder}."
        )
    return _read_clinical(found[0], series)


def _read_clinical(path: Path, series: Series) -> LabelTable:
    """Read the table of a text file, or of the series in a SOFT file; remarks before it are passed over."""
    opener: Any = gzip.open if path.name.endswith(".gz") else open
    delimiter = "," if ".csv" in path.name else "\t"
    try:
        with opener(path, "rt", encoding="utf-8", errors="replace", newline="") as file:
            rows = list(csv.reader(_table_lines(file, ".soft" in path.name), delimiter=delimiter))
    except (OSError, EOFError, csv.Error) as error:
        raise TableError(f"{path}: cannot be read ({error})") from error
    rows = [[cell.strip() for cell in row] for row in rows if row]
    if len(rows) < 2:
        raise TableError(f"{path}: there is no table with a header and rows in it")
    for number, row in enumerate(rows, 1):
        if len(row) != len(rows[0]):
            counts = f"{len(row)} cells, the header has {len(rows[0])}"
            raise TableError(f"{path}: row {number} of the table has {counts}")
    cells = np.array(list(dict.fromkeys(map(tuple, rows[1:]))))
    columns = dict(zip(rows[0], cells.T, strict=True))
    sample = _one_name(series.sample, columns, str(path))
    return LabelTable(columns.pop(sample), columns, str(path))


def _table_lines(file: Iterable[str], is_soft: bool) -> Iterator[str]:
    """Give the lines of the table: in a SOFT file those between its marks, else those that are no remarks."""
    inside = not is_soft
    for line in file:
        if line.startswith(_TABLE_END):
            return
        if line.startswith(_TABLE_BEGIN):
            inside = True
        elif inside and line.strip() and line[0] not in "#!^":
            yield line


def _one_name(pattern: str, columns: Iterable[str], place: str) -> str:
    """Find the one column whose whole name matches."""
    found = [name for name in columns if re.fullmatch(pattern, name, re.IGNORECASE)]
    if len(found) != 1:
        shown = ", ".join(repr(name) for name in list(columns)[:12])
        wanted = f"{place}: wanted one column that matches {pattern!r}; there is {found or 'none'}"
        raise TableError(f"{wanted}. Its columns are {shown}")
    return found[0]


def _chosen(source: LabelTable, series: Series, names: np.ndarray) -> np.ndarray:
    """Say which samples are not to be left out."""
    if not series.without:
        return np.ones(len(names), bool)
    column, value = series.without
    cells = source.columns[_one_name(column, source.columns, source.path)]
    excluded = np.array([str(cell).strip().lower() == value for cell in cells], dtype=bool)
    return ~np.isin(names, source.sample_names[excluded])
