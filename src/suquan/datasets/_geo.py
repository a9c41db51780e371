"""The breast cancer cohorts of the paper: files that GEO offers come in, samples with labels go out."""

import csv
import gzip
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils import Bunch

from suquan._validation import check_choice
from suquan.io import LabelTable, Table, TableError, read_table, select_numbers, survival_labels
from suquan.io._errors import refuse

DAYS_PER_YEAR = 365.25
DAYS_PER_MONTH = DAYS_PER_YEAR / 12
_TABLE_BEGIN, _TABLE_END = "!series_table_begin", "!series_table_end"


@dataclass(frozen=True)
class Cohort:
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


COHORTS = {
    "GSE1456": Cohort("surv_relapse", "relapse", DAYS_PER_YEAR, (141, 37)),
    "GSE2034": Cohort(
        r"time to relapse or last follow-up \(months\)",
        r"relapse \(1=true\)",
        DAYS_PER_MONTH,
        (271, 104),
        clinical=("GSE2034_clinical*", "GSE2034_family.soft*"),
        sample="geo .*number",
    ),
    "GSE2990": Cohort(
        r"time\.rfs",
        r"event\.rfs",
        DAYS_PER_YEAR,
        (106, 32),
        clinical=("GSE2990_suppl_info*",),
        sample="geo_accn",
        without=("treatment", "tamoxifen"),
    ),
    "GSE4922": Cohort(r"dfs time \(yrs\)", "dfs event.*", DAYS_PER_YEAR, (225, 73)),
}


def load_geo(
    accession: str,
    path: Any,
    *,
    clinical: Any = None,
    horizon_years: float = 6.0,
    return_X_y: bool = False,
) -> Bunch | tuple[np.ndarray, np.ndarray]:
    """A breast cancer cohort of the paper, labelled by relapse within six years.

    A patient who relapsed within `horizon_years` × 365.25 days is of class 1, one who was followed without
    relapse for longer is of class 0, and one whose follow-up ended earlier is left out.

    Parameters
    ----------
    accession : {"GSE1456", "GSE2034", "GSE2990", "GSE4922"}
        The series in the Gene Expression Omnibus.
    path : str or path-like
        Its series matrix of the chip HG-U133A (GPL96), ``….txt`` or ``….txt.gz``, or a folder with it.
    clinical : str or path-like, default=None
        The table with times and events, where the series matrix has none: for GSE2034 the table of the
        series' page or ``GSE2034_family.soft.gz``, for GSE2990 ``GSE2990_suppl_info.txt``. None: looked for
        beside the series matrix. For the other two series, a table to use instead of the characteristics.
    horizon_years : float, default=6.0
    return_X_y : bool, default=False
        Return ``(data, target)`` instead of a Bunch.

    Returns
    -------
    Bunch
        `data`: ndarray of shape (n_samples, n_features), as it is in the series matrix; `target`: ndarray
        of shape (n_samples,), 1 for relapse; `feature_names`, `sample_names`; `time`, in days, and `event`;
        `counts` of patients by what became of them; `paper_counts`, those of the paper's Table 1;
        and `report`, both in words.

    Raises
    ------
    TableError
        If a file or a column is missing or damaged.

    Notes
    -----
    The places of the columns are those that public scripts use on these series; what of it could be
    checked, and what not, is said in the page on microarrays. GSE2990 is taken without the patients
    who were given tamoxifen, which comes closest to the paper's number. The series matrices hold what
    the authors of each study made of the raw data, not the paper's summaries of the CEL files; for those
    see :func:`suquan.microarray.rma`.

    Examples
    --------
    >>> from suquan.datasets import load_geo
    >>> cohort = load_geo("GSE2034", "geo/")  # doctest: +SKIP
    >>> print(cohort.report)  # doctest: +SKIP
    GSE2034: 271 labelled, 104 of them relapsed (paper: 271, 104); left out: 15 censored before 6 years
    """
    check_choice("accession", accession, COHORTS)
    cohort = COHORTS[accession]
    matrix = _find_matrix(accession, Path(path))
    table = read_table(matrix)
    source = _clinical_source(accession, cohort, table, matrix, clinical)
    names = table.sample_names
    time, event = (
        select_numbers(source, _one_name(p, source.columns, source.path), sample_names=names)
        for p in (cohort.time, cohort.event)
    )
    time *= cohort.days
    chosen = _chosen(source, cohort, names)
    labels = survival_labels(np.where(chosen, time, np.nan), event, horizon_years * DAYS_PER_YEAR)
    data = table.values[labels.keep]
    if return_X_y:
        return data, labels.y
    counts = {
        "labelled": len(labels.y),
        "relapsed": labels.n_event,
        "event_free": labels.n_event_free,
        "censored": labels.n_censored,
        "excluded": int((~chosen).sum()),
        "missing": labels.n_missing - int((~chosen).sum()),
    }
    return Bunch(
        data=data,
        target=labels.y,
        feature_names=table.feature_names,
        sample_names=names[labels.keep],
        time=time[labels.keep],
        event=event[labels.keep],
        counts=counts,
        paper_counts=dict(zip(("labelled", "relapsed"), cohort.paper, strict=True)),
        report=_report(accession, counts, cohort, horizon_years),
    )


def _report(accession: str, counts: dict[str, int], cohort: Cohort, horizon_years: float) -> str:
    """Counts in words, with the paper's."""
    left_out = f"{counts['censored']} censored before {horizon_years:g} years"
    if counts["missing"]:
        left_out += f", {counts['missing']} without time or event"
    if counts["excluded"]:
        left_out += f", {counts['excluded']} with {' '.join(cohort.without)}"
    return (
        f"{accession}: {counts['labelled']} labelled, {counts['relapsed']} of them relapsed "
        f"(paper: {cohort.paper[0]}, {cohort.paper[1]}); left out: {left_out}"
    )


def _find_matrix(accession: str, path: Path) -> Path:
    """The series matrix in a folder, that of GPL96 where there are several."""
    if not path.is_dir():
        return path
    found = sorted(path.glob(f"{accession}*series_matrix.txt*"))
    found = [file for file in found if "GPL96" in file.name] or found
    what = f"several: {', '.join(file.name for file in found)}" if found else "none"
    refuse(
        len(found) != 1,
        f"{path}: wanted the series matrix {accession}_series_matrix.txt.gz, of GPL96 where there are several; "
        f"there is {what}. Give the file itself.",
    )
    return found[0]


def _clinical_source(
    accession: str, cohort: Cohort, table: Table, matrix: Path, clinical: Any
) -> LabelTable:
    """What has the columns of times and events."""
    if clinical is not None:
        return _read_clinical(Path(clinical), cohort)
    if not cohort.clinical:
        return LabelTable(table.sample_names, table.labels, "the series matrix")
    found = [file for glob in cohort.clinical for file in sorted(matrix.parent.glob(glob))]
    refuse(
        not found,
        f"{accession}: its series matrix has no follow-up times; wanted a file {' or '.join(cohort.clinical)} "
        f"in {matrix.parent}, or its path as clinical=…",
    )
    return _read_clinical(found[0], cohort)


def _read_clinical(path: Path, cohort: Cohort) -> LabelTable:
    """Table of a text file, or of the series in a SOFT file; remarks before it are passed over."""
    opener: Any = gzip.open if path.name.endswith(".gz") else open
    delimiter = "," if ".csv" in path.name else "\t"
    try:
        with opener(path, "rt", encoding="utf-8", errors="replace", newline="") as file:
            rows = list(csv.reader(_table_lines(file, ".soft" in path.name), delimiter=delimiter))
    except (OSError, EOFError, csv.Error) as error:
        raise TableError(f"{path}: cannot be read ({error})") from error
    rows = [[cell.strip() for cell in row] for row in rows if row]
    refuse(len(rows) < 2, f"{path}: there is no table with a header and rows in it")
    for number, row in enumerate(rows, 1):
        counts = f"{len(row)} cells, the header has {len(rows[0])}"
        refuse(len(row) != len(rows[0]), f"{path}: row {number} of the table has {counts}")
    cells = np.array(list(dict.fromkeys(map(tuple, rows[1:]))))
    columns = dict(zip(rows[0], cells.T, strict=True))
    sample = _one_name(cohort.sample or "geo_accession", columns, str(path))
    return LabelTable(columns.pop(sample), columns, str(path))


def _table_lines(file: Iterable[str], is_soft: bool) -> Iterator[str]:
    """Lines of the table: in a SOFT file those between its marks, else those that are no remarks."""
    inside = not is_soft
    for line in file:
        if line.startswith(_TABLE_END):
            return
        if line.startswith(_TABLE_BEGIN):
            inside = True
        elif inside and line.strip() and line[0] not in "#!^":
            yield line


def _one_name(pattern: str, columns: Iterable[str], place: str) -> str:
    """The one column whose whole name matches."""
    found = [name for name in columns if re.fullmatch(pattern, name, re.IGNORECASE)]
    shown = ", ".join(repr(name) for name in list(columns)[:12])
    wanted = f"{place}: wanted one column that matches {pattern!r}; there is {found or 'none'}"
    refuse(len(found) != 1, f"{wanted}. Its columns are {shown}")
    return found[0]


def _chosen(source: LabelTable, cohort: Cohort, names: np.ndarray) -> np.ndarray:
    """Which samples are not to be left out."""
    if not cohort.without:
        return np.ones(len(names), bool)
    column, value = cohort.without
    cells = source.columns[_one_name(column, source.columns, source.path)]
    excluded = np.array([str(cell).strip().lower() == value for cell in cells], dtype=bool)
    return ~np.isin(names, source.sample_names[excluded])
