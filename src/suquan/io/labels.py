"""Label files, labels matched to samples by name, and survival times turned into labels."""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np

from suquan.io._cells import MISSING, is_number, number_problem, text_array
from suquan.io._delimited import check_width, read_header
from suquan.io._errors import TableError, file_errors, listed, quoted, refuse
from suquan.io._kinds import DELIMITERS, kind_of_file
from suquan.io._table import Table, name_problem, repeated_names
from suquan.io._text import TextFile

_TRUTH = {"true": "1", "false": "0"}


@dataclass(frozen=True, eq=False)
class LabelTable:
    """The columns of a label file, one row per sample.

    Parameters
    ----------
    sample_names : ndarray of shape (n_rows,) of str
        Names of the samples, all different.
    columns : dict of str to ndarray of shape (n_rows,) of str
        The other columns as they are written; empty where missing.
    path : str, default="labels"
        The file, for messages.

    Examples
    --------
    >>> from suquan.io import LabelTable
    >>> labels = LabelTable(["s1", "s2"], {"relapse": ["1", "0"]})
    >>> labels.columns["relapse"].tolist()
    ['1', '0']
    """

    sample_names: np.ndarray
    columns: dict[str, np.ndarray]
    path: str = "labels"

    def __post_init__(self):
        object.__setattr__(self, "sample_names", np.array(self.sample_names, dtype=str))
        columns = {name: np.array(column, dtype=str) for name, column in self.columns.items()}
        object.__setattr__(self, "columns", columns)


def read_labels(path: str | os.PathLike, *, sample_column: str | None = None) -> LabelTable:
    r"""Read a CSV or TSV file with one row per sample.

    Parameters
    ----------
    path : str or path-like
        ``.csv``, ``.tsv`` or ``.txt``, each also with ``.gz``, with a header.
    sample_column : str or None, default=None
        The column that names the samples; None: the first.

    Returns
    -------
    LabelTable
        All cells as text, so that a sample ``007`` keeps its zeros. The missing-value spellings NA, NaN, nan,
        null and NULL become empty text, in every column but the names.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from suquan.io import read_labels
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "clinical.csv"
    >>> _ = path.write_text("patient,relapse,years\n007,yes,2.5\n008,no,NA\n")
    >>> labels = read_labels(path)
    >>> labels.sample_names.tolist(), labels.columns["years"].tolist()
    (['007', '008'], ['2.5', ''])
    """
    with file_errors(Path(path)):
        kind, gzipped = kind_of_file(Path(path))
        is_read = kind in ("csv", "tsv")
        refuse(not is_read, f"labels are read from CSV and TSV files, this is {kind}")
        text = TextFile(Path(path), gzipped, DELIMITERS[kind])
        header, _ = read_header(text)
        wanted = f"there is no column {quoted(sample_column)} for the sample names"
        is_absent = sample_column not in (None, *header)
        refuse(is_absent, f"{wanted}; the columns are {listed(header, 10)}")
        sample = 0 if sample_column is None else header.index(sample_column)
        rows: dict[str, list[str]] = {}
        lines: dict[str, int] = {}
        for line, row in islice(text.rows(), 1, None):
            check_width(text, header, row, line)
            name = row[sample]
            problem = name_problem(name)
            if name in lines:
                known = f"sample {quoted(name)} was on line {lines[name]} already"
                problem = f"{known}; names must differ"
            refuse(problem, f"line {line}: {problem}")
            rows[name], lines[name] = row, line
        refuse(not rows, "holds a header and no rows")
    cells = zip(header, zip(*rows.values(), strict=True), strict=True)
    columns = {name: text_array(list(column)) for name, column in cells}
    del columns[header[sample]]
    return LabelTable(np.array(list(rows)), columns, str(path))


# ---------------------------------------------------------------------------------------------- matching


@dataclass(frozen=True, eq=False)
class SelectedLabels:
    """Labels of a table's samples, matched by name.

    Parameters
    ----------
    keep : ndarray of shape (n_samples,) of bool
        Samples of the table that have a label.
    y : ndarray of shape (n_kept,)
        Their labels, in the table's order: 0 and 1 where a positive value was named, otherwise text or
        float64 as in the source.
    n_without_row : int
        Samples of the table that the label file does not name.
    n_missing : int
        Samples of the table whose label is missing.
    n_unused : int
        Rows of the label file whose sample is not in the table.
    report : str
        The same in words, one line.
    """

    keep: np.ndarray
    y: np.ndarray
    n_without_row: int
    n_missing: int
    n_unused: int
    report: str


def select_labels(
    source: LabelTable | Table,
    column: str,
    *,
    sample_names: Iterable[str] | None = None,
    positive: str | float | None = None,
) -> SelectedLabels:
    """Labels of a table's samples from a column of a label file or of the table itself.

    Parameters
    ----------
    source : LabelTable or Table
        Where the column is.
    column : str
        Name of the label column.
    sample_names : iterable of str or None, default=None
        Samples of the expression table, in its order; None: those of ``source``.
    positive : str, float or None, default=None
        The value that becomes 1; every other value becomes 0. Numbers are compared as numbers ("1" is 1.0).

    Returns
    -------
    SelectedLabels
        ``keep``, ``y`` and what was left out.

    Examples
    --------
    >>> from suquan.io import LabelTable, select_labels
    >>> labels = LabelTable(["s1", "s2", "s3", "s9"], {"relapse": ["yes", "no", "", "no"]})
    >>> selected = select_labels(
    ...     labels, "relapse", sample_names=["s3", "s2", "s1", "s0"], positive="yes"
    ... )
    >>> selected.keep.tolist(), selected.y.tolist()
    ([False, True, True, False], [0, 1])
    >>> print(selected.report)
    2 of 4 samples have a label in 'relapse'; 1 without a row, 1 with a missing label; 1 row unused
    """
    names = source.sample_names
    wanted = names.tolist() if sample_names is None else list(sample_names)
    origin, cells, rows = _find_column(source, column, wanted)
    known = rows >= 0
    refuse(
        not known.any(),
        f"{origin}: none of its {len(names)} samples ({listed(names, 3)}) is one of the table's "
        f"{len(wanted)} ({listed(wanted, 3)}); check that both use the same names",
    )
    keep = known & (~np.isnan(cells) if cells.dtype.kind == "f" else cells != "")[rows]
    refuse(not keep.any(), f"{origin}: column {quoted(column)} holds no label for any sample")
    y = cells[rows[keep]]
    y = y if positive is None else _is_positive(origin, column, y, positive)
    n_without_row, n_missing = int((~known).sum()), int((known & ~keep).sum())
    n_unused = len(names) - int(known.sum())
    parts = {"without a row": n_without_row, "with a missing label": n_missing}
    left = ", ".join(f"{count} {what}" for what, count in parts.items() if count)
    unused = f"{n_unused} row{'s' if n_unused > 1 else ''} unused" if n_unused else ""
    found = f"{keep.sum()} of {len(known)} samples have a label in {quoted(column)}"
    report = "; ".join(filter(None, [found, left, unused]))
    return SelectedLabels(keep, y, n_without_row, n_missing, n_unused, report)


def select_numbers(
    source: LabelTable | Table,
    column: str,
    *,
    sample_names: Iterable[str] | None = None,
    truth: bool = False,
) -> np.ndarray:
    """A numeric column for a table's samples, NaN where it is missing.

    Parameters
    ----------
    source : LabelTable or Table
        Where the column is.
    column : str
        Name of the column, for instance a time.
    sample_names : iterable of str or None, default=None
        Samples of the expression table, in its order; None: those of ``source``.
    truth : bool, default=False
        Whether the words true and false, in any case, count as 1 and 0.

    Returns
    -------
    ndarray of shape (n_samples,)
        float64.

    Examples
    --------
    >>> from suquan.io import LabelTable, select_numbers
    >>> labels = LabelTable(["s1", "s2"], {"days": ["30", ""]})
    >>> select_numbers(labels, "days", sample_names=["s2", "s1", "s0"])
    array([nan, 30., nan])
    """
    origin, cells, rows = _find_column(source, column, sample_names)
    numbers = np.full(len(rows), np.nan)
    for i in np.flatnonzero(rows >= 0):
        cell = str(cells[rows[i]])
        cell = _TRUTH.get(cell.lower(), cell) if truth else cell
        sample = quoted(source.sample_names[rows[i]])
        where = f"{origin}: sample {sample}, column {quoted(column)}: {quoted(cell)}"
        cure = "correct it, or leave the cell empty where it is missing"
        refuse(number_problem(cell), f"{where} is not a number; {cure}")
        numbers[i] = np.nan if cell in MISSING else float(cell)
    return numbers


def _find_column(
    source: LabelTable | Table, column: str, sample_names: Iterable[str] | None
) -> tuple[str, np.ndarray, np.ndarray]:
    """Where the labels come from, in words; the column; the row of every wanted sample, -1 for none."""
    if isinstance(source, Table):
        origin, columns = "the table", source.labels
    else:
        origin, columns = source.path, source.columns
    absent = f"{origin}: there is no label column {quoted(column)}"
    refuse(column not in columns, f"{absent}; there is {listed(columns, 10) or 'none'}")
    names = source.sample_names.tolist()
    repeated = listed(repeated_names(names))
    refuse(repeated, f"labels: {repeated} occurs more than once; names must differ")
    places = {name: row for row, name in enumerate(names)}
    wanted = names if sample_names is None else map(str, sample_names)
    rows = np.array([places.get(name, -1) for name in wanted], dtype=np.intp)
    return origin, columns[column], rows


def _is_positive(origin: str, column: str, y: np.ndarray, positive: str | float) -> np.ndarray:
    """1 where the label is the positive one, equal as a number where both are numbers, otherwise as text."""

    def value(cell: object) -> float | str:
        return float(str(cell)) if is_number(str(cell)) else str(cell)

    hits = np.array([value(cell) == value(positive) for cell in y.tolist()])
    what = f"label in {quoted(column)} is {quoted(positive)}"
    found = listed(np.unique(y).tolist(), 10)
    refuse(not hits.any(), f"{origin}: no {what}; there is {found}")
    refuse(hits.all(), f"{origin}: every {what}; two classes are needed")
    return hits.astype(np.int64)


# ---------------------------------------------------------------------------------------------- survival


@dataclass(frozen=True, eq=False)
class SurvivalLabels:
    """Two classes made of survival times.

    Parameters
    ----------
    keep : ndarray of shape (n_samples,) of bool
        Samples whose class is known.
    y : ndarray of shape (n_kept,) of int
        1: the event came within the horizon; 0: followed beyond it without one.
    n_event, n_event_free, n_censored, n_missing : int
        Samples of class 1, of class 0, dropped because they were followed too briefly, and dropped because
        time or event is missing.
    """

    keep: np.ndarray
    y: np.ndarray
    n_event: int
    n_event_free: int
    n_censored: int
    n_missing: int

    @property
    def report(self) -> str:
        """The counts in words, one line."""
        return (
            f"{self.n_event} samples with an event within the horizon, {self.n_event_free} event-free beyond "
            f"it; dropped: {self.n_censored} censored earlier, {self.n_missing} with missing time or event"
        )


def survival_labels(time, event, horizon: float) -> SurvivalLabels:
    """Two classes from survival times: event within the horizon, or event-free beyond it.

    A sample with an event at a time up to the horizon is of class 1. One that was followed for longer than
    the horizon is of class 0, whether or not an event came later. One whose follow-up ended earlier without
    an event belongs to neither and is dropped; so is one whose time or event is missing.

    Parameters
    ----------
    time : array-like of shape (n_samples,)
        Time to the event or to the end of follow-up, not negative; NaN where missing.
    event : array-like of shape (n_samples,)
        1 where the event came, 0 where not; NaN where missing.
    horizon : float
        In the unit of ``time``.

    Returns
    -------
    SurvivalLabels
        ``keep``, ``y`` and the counts.

    Examples
    --------
    >>> from suquan.io import survival_labels
    >>> labels = survival_labels(time=[2.0, 6.0, 7.0, 9.0, 3.0], event=[1, 1, 1, 0, 0], horizon=6)
    >>> labels.keep.tolist(), labels.y.tolist()
    ([True, True, True, True, False], [1, 1, 0, 0])
    >>> labels.n_event, labels.n_event_free, labels.n_censored
    (2, 2, 1)
    """
    columns = {"time": time, "event": event}
    for name, values in columns.items():
        try:
            columns[name] = np.asarray(values, dtype=np.float64)
        except (TypeError, ValueError):
            raise TableError(f"{name} must hold numbers, NaN where missing") from None
        ndim = columns[name].ndim
        refuse(ndim != 1, f"{name} must be one-dimensional, not {ndim}")
    time, event = columns.values()
    counts = f"time has {len(time)} entries, event has {len(event)}"
    refuse(time.shape != event.shape, f"{counts}; they must agree")
    is_time = np.isfinite(horizon) and horizon > 0
    refuse(not is_time, f"the horizon must be a positive time, not {horizon}")
    is_wrong = (time < 0).any() or np.isinf(time).any()
    refuse(is_wrong, "a time is negative or infinite; leave it empty where it is not known")
    other = event[~np.isnan(event) & (event != 0) & (event != 1)][:1].tolist()
    allowed = "event must be 1 (came), 0 (did not come) or empty (not known)"
    if other:
        raise TableError(f"{allowed}, not {other[0]:g}")
    missing = np.isnan(time) | np.isnan(event)
    late = ~missing & (time > horizon)
    came = ~missing & (time <= horizon) & (event == 1)
    keep = late | came
    sizes = (int(part.sum()) for part in (came, late, ~missing & ~keep, missing))
    return SurvivalLabels(keep, came[keep].astype(np.int64), *sizes)
