"""Label files, labels matched to samples by name, and survival times turned into labels."""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from suquan.io._cells import MISSING, is_number, text_array
from suquan.io._delimited import read_header
from suquan.io._errors import TableError, listed, quoted
from suquan.io._kinds import DELIMITERS, kind_of_file
from suquan.io._table import Table, name_problem, repeated_names
from suquan.io._text import TextFile


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
    file = kind_of_file(Path(path))
    if file.kind not in ("csv", "tsv"):
        raise TableError(f"{path}: labels are read from CSV and TSV files, this is {file.kind}")
    text = TextFile(Path(path), file.gzipped, DELIMITERS[file.kind])
    header, _ = read_header(text)
    sample = _sample_column(text, header, sample_column)
    cells = _label_cells(text, header, sample)
    columns = {
        name: text_array([row[j] for row in cells]) for j, name in enumerate(header) if j != sample
    }
    return LabelTable(np.array([row[sample] for row in cells]), columns, str(path))


def _sample_column(text: TextFile, header: list[str], name: str | None) -> int:
    if name is None:
        return 0
    if name not in header:
        raise TableError(
            f"{text.path}: there is no column {quoted(name)} for the sample names; "
            f"the columns are {listed(header, 10)}"
        )
    return header.index(name)


def _label_cells(text: TextFile, header: list[str], sample: int) -> list[list[str]]:
    rows = text.rows()
    next(rows)
    cells: list[list[str]] = []
    lines: dict[str, int] = {}
    for line, row in rows:
        if len(row) != len(header):
            raise TableError(
                f"{text.path}: line {line} has {len(row)} cells, the header has {len(header)}; "
                "check the line for unquoted separators"
            )
        name = row[sample]
        problem = name_problem(name)
        if problem is None and name in lines:
            problem = f"sample {quoted(name)} was on line {lines[name]} already; names must differ"
        if problem is not None:
            raise TableError(f"{text.path}: line {line}: {problem}")
        lines[name] = line
        cells.append(row)
    if not cells:
        raise TableError(f"{text.path}: holds a header and no rows")
    return cells


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
    cells, names = _column(source, column), source.sample_names
    wanted = names if sample_names is None else np.array(list(sample_names), dtype=str)
    rows = _match(names, wanted)
    known = rows >= 0
    present = np.zeros(len(wanted), dtype=bool)
    present[known] = _is_present(cells[rows[known]])
    y = cells[rows[present]]
    n_unused = len(names) - int(known.sum())
    if not known.any():
        raise TableError(
            f"{_origin(source)}: none of its {len(names)} samples ({listed(names, 3)}) is one of the table's "
            f"{len(wanted)} ({listed(wanted, 3)}); check that both use the same names"
        )
    if not present.any():
        raise TableError(
            f"{_origin(source)}: column {quoted(column)} holds no label for any sample"
        )
    return SelectedLabels(
        keep=present,
        y=y if positive is None else _is_positive(source, column, y, positive),
        n_without_row=int((~known).sum()),
        n_missing=int((known & ~present).sum()),
        n_unused=n_unused,
        report=_report(column, known, present, n_unused),
    )


def select_numbers(
    source: LabelTable | Table, column: str, *, sample_names: Iterable[str] | None = None
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
    cells, names = _column(source, column), source.sample_names
    wanted = names if sample_names is None else np.array(list(sample_names), dtype=str)
    rows = _match(names, wanted)
    numbers = np.full(len(wanted), np.nan)
    for i, row in enumerate(rows.tolist()):
        if row >= 0:
            numbers[i] = _number(source, column, names[row], cells[row])
    return numbers


def _number(source, column: str, sample: str, cell) -> float:
    if not isinstance(cell, str):
        return float(cell)
    if cell in MISSING:
        return np.nan
    if not is_number(cell) or not np.isfinite(float(cell)):
        raise TableError(
            f"{_origin(source)}: sample {quoted(sample)}, column {quoted(column)}: {quoted(cell)} is not a "
            "number; correct it, or leave the cell empty where it is missing"
        )
    return float(cell)


def _column(source: LabelTable | Table, column: str) -> np.ndarray:
    columns = source.labels if isinstance(source, Table) else source.columns
    if column not in columns:
        raise TableError(
            f"{_origin(source)}: there is no label column {quoted(column)}; there is "
            f"{listed(columns, 10) or 'none'}"
        )
    return columns[column]


def _origin(source: LabelTable | Table) -> str:
    return "the table" if isinstance(source, Table) else source.path


def _match(names: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Row of every wanted sample, -1 where there is none."""
    repeated = repeated_names(names.tolist())
    if repeated:
        raise TableError(f"labels: {listed(repeated)} occurs more than once; names must differ")
    rows = {name: row for row, name in enumerate(names.tolist())}
    return np.array([rows.get(name, -1) for name in wanted.tolist()], dtype=np.intp)


def _is_present(cells: np.ndarray) -> np.ndarray:
    return ~np.isnan(cells) if cells.dtype.kind == "f" else cells != ""


def _is_positive(source, column: str, y: np.ndarray, positive: str | float) -> np.ndarray:
    hits = np.array([_same(value, positive) for value in y.tolist()], dtype=bool)
    values = listed(np.unique(y).tolist(), 10)
    if not hits.any():
        raise TableError(
            f"{_origin(source)}: no label in {quoted(column)} is {quoted(positive)}; there is {values}"
        )
    if hits.all():
        raise TableError(
            f"{_origin(source)}: every label in {quoted(column)} is {quoted(positive)}; "
            "two classes are needed"
        )
    return hits.astype(np.int64)


def _same(value: str | float, positive: str | float) -> bool:
    """Equal as numbers where both are numbers, otherwise as text."""
    value, positive = str(value), str(positive)
    if is_number(value) and is_number(positive):
        return float(value) == float(positive)
    return value == positive


def _report(column: str, known: np.ndarray, present: np.ndarray, n_unused: int) -> str:
    parts = f"{present.sum()} of {len(known)} samples have a label in {quoted(column)}"
    left = [
        f"{count} {what}"
        for count, what in [
            ((~known).sum(), "without a row"),
            ((known & ~present).sum(), "with a missing label"),
        ]
        if count
    ]
    rows = f"; {n_unused} row{'s' if n_unused > 1 else ''} unused" if n_unused else ""
    return parts + (f"; {', '.join(left)}" if left else "") + rows


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
    time, event = _survival_column(time, "time"), _survival_column(event, "event")
    if time.shape != event.shape:
        raise TableError(f"time has {len(time)} entries, event has {len(event)}; they must agree")
    if not (np.isfinite(horizon) and horizon > 0):
        raise TableError(f"the horizon must be a positive time, not {horizon}")
    if (time < 0).any() or np.isinf(time).any():
        raise TableError("a time is negative or infinite; leave it empty where it is not known")
    other = event[~np.isnan(event) & (event != 0) & (event != 1)]
    if other.size:
        raise TableError(
            f"event must be 1 (came), 0 (did not come) or empty (not known), not {other[0]:g}"
        )
    missing = np.isnan(time) | np.isnan(event)
    late = ~missing & (time > horizon)
    came = ~missing & (time <= horizon) & (event == 1)
    keep = late | came
    return SurvivalLabels(
        keep=keep,
        y=came[keep].astype(np.int64),
        n_event=int(came.sum()),
        n_event_free=int(late.sum()),
        n_censored=int((~missing & ~keep).sum()),
        n_missing=int(missing.sum()),
    )


def _survival_column(values, name: str) -> np.ndarray:
    try:
        column = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise TableError(f"{name} must hold numbers, NaN where missing") from None
    if column.ndim != 1:
        raise TableError(f"{name} must be one-dimensional, not {column.ndim}")
    return column
