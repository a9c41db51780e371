"""Label files, labels matched to samples by name, and survival times turned into labels."""

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from suquan.io._delimited import check_width, read_header
from suquan.io._errors import TableError, file_errors, listed, quoted, refuse
from suquan.io._kinds import kind_of_file
from suquan.io._table import Table, match_name, name_problem, repeated_names, spelling_hint
from suquan.io._text import TextFile, is_plain_number, number_problem, text_array

# As `_key` folds them: marks of missing labels, and what tells whether an event came.
_MISSING = {"", "na", "n/a", "nan", "null", "none", "unknown", "notavailable", "-", "?"}
_EVENT, _NO_EVENT = {1.0, "true", "yes", "dead"}, {0.0, "false", "no", "alive"}


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
        The column that names the samples, if need be but for case and outer blanks; None: the first.

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
        text = TextFile(Path(path), gzipped, kind)
        header, _ = read_header(text)
        wanted = f"there is no column {quoted(sample_column)} for the sample names"
        named = header[0] if sample_column is None else match_name(sample_column, header)
        refuse(named not in header, f"{wanted}; the columns are {listed(header, 10)}")
        sample = header.index(named)
        rows: dict[str, list[str]] = {}
        lines: dict[str, int] = {}
        for line, row in islice(text.rows(), 1, None):
            check_width(text, header, row, line)
            name = row[sample]
            known = (
                f"sample {quoted(name)} was on line {lines.get(name)} already; names must differ"
            )
            problem = known if name in lines else name_problem(name)
            refuse(problem, f"line {line}: {problem}")
            rows[name], lines[name] = row, line
        refuse(not rows, "holds a header and no rows")
    columns = {
        name: text_array([row[j] for row in rows.values()])
        for j, name in enumerate(header)
        if j != sample
    }
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
    n_other : int, default=0
        Samples of the table whose label is neither positive nor negative.
    class_names : tuple of str, default=()
        What 0 and 1 stand for, where a positive value was named.
    merged : str, default=""
        Which spellings were taken for one value, in words.
    """

    keep: np.ndarray
    y: np.ndarray
    n_without_row: int
    n_missing: int
    n_unused: int
    report: str
    n_other: int = 0
    class_names: tuple[str, ...] = ()
    merged: str = ""


def select_labels(
    source: LabelTable | Table,
    column: str,
    *,
    sample_names: Iterable[str] | None = None,
    positive: str | float | None = None,
    negative: Sequence[str | float] = (),
    negative_rest: bool = False,
    na: Sequence[str | float] = (),
    allow_unmatched: bool = False,
) -> SelectedLabels:
    """Select the labels of a table's samples from a column of a label file or of the table itself.

    Texts that differ by case or blanks only are one value, spelled as most often; so are "1" and "1.0".

    Parameters
    ----------
    source : LabelTable or Table
        Where the column is.
    column : str
        Name of the label column, if need be but for case and outer blanks.
    sample_names : iterable of str or None, default=None
        Samples of the expression table, in its order; None: those of ``source``.
    positive : str, float or None, default=None
        The value that becomes 1.
    negative : sequence of str or float, default=()
        The values that become 0; samples with other values are left out. If there are more than two values, an
        error that lists them asks for it or for `negative_rest`.
    negative_rest : bool, default=False
        Whether all other values become 0.
    na : sequence of str or float, default=()
        Values that are missing, besides NA, N/A, NaN, null, none, unknown, not available, -, ? and blanks. What
        `positive` or `negative` names is a value.
    allow_unmatched : bool, default=False
        Whether fewer than half of ``sample_names`` may have a row.

    Returns
    -------
    SelectedLabels
        ``keep``, ``y`` and what was left out.

    Examples
    --------
    >>> from suquan.io import LabelTable, select_labels
    >>> labels = LabelTable(["s1", "s2", "s3", "s9"], {"relapse": ["yes", "no", "N/A", "no"]})
    >>> selected = select_labels(
    ...     labels, "relapse", sample_names=["s3", "s2", "s1", "s0"], positive="Yes"
    ... )
    >>> selected.keep.tolist(), selected.y.tolist()
    ([False, True, True, False], [0, 1])
    >>> print(selected.report)
    2 of 4 samples have a label in 'relapse'; 1 without a row, 1 with a missing label ('N/A'); 1 row unused
    """
    origin, cells, rows, hint = _find_column(source, column, sample_names, allow_unmatched)
    known, where = rows >= 0, f"{origin}: column {quoted(column)}"
    negative = np.atleast_1d(negative).tolist()
    values = _Values(cells[rows[known]], na, [*([] if positive is None else [positive]), *negative])
    refuse(not values.keys, f"{where} holds no label for any sample")
    codes = np.full(len(rows), -1)
    codes[known] = values.codes
    kind: Any = float if cells.dtype.kind == "f" else str
    y, keep = np.array(values.texts, dtype=kind)[codes], codes >= 0
    class_names: tuple[str, ...] = ()
    if positive is not None or negative or negative_rest:
        marks = values.marks(where, positive, negative, negative_rest)
        zeros = [text for text, mark in zip(values.texts, marks, strict=False) if mark == 0]
        refuse(not zeros, f"{where}: every label is {quoted(positive)}; two classes are needed")
        name = values.texts[int(np.argmax(marks == 1))]
        class_names = (zeros[0] if len(zeros) == 1 else f"not {name}", name)
        keep &= ~np.isnan(marks[codes])
        y = np.where(keep, marks[codes], 0).astype(np.int64)
    parts = {
        "without a row": ~known,
        f"with a missing label{values.missing}": known & (codes < 0),
        "with another label": (codes >= 0) & ~keep,
    }
    without_row, missing, other = (int(part.sum()) for part in parts.values())
    left = ", ".join(f"{part.sum()} {what}" for what, part in parts.items() if part.any())
    n_unused = len(source.sample_names) - int(known.sum())
    unused = f"{n_unused} row{'s' if n_unused > 1 else ''} unused" if n_unused else ""
    found = f"{keep.sum()} of {len(known)} samples have a label in {quoted(column)}"
    report = "; ".join(filter(None, [found, left, unused, values.merged, hint]))
    counts = without_row, missing, n_unused
    return SelectedLabels(keep, y[keep], *counts, report, other, class_names, values.merged)


def select_numbers(
    source: LabelTable | Table,
    column: str,
    *,
    sample_names: Iterable[str] | None = None,
    truth: bool = False,
    na: Sequence[str | float] = (),
    allow_unmatched: bool = False,
) -> np.ndarray:
    """Select a numeric column, or one of events, for a table's samples, NaN where it is missing.

    Parameters
    ----------
    source : LabelTable or Table
        Where the column is.
    column : str
        Name of the column, for instance a time.
    sample_names : iterable of str or None, default=None
        Samples of the expression table, in its order; None: those of ``source``.
    truth : bool, default=False
        Whether the column tells of events: 1, true, yes or dead is 1, and 0, false, no or alive is 0. For other
        words see `select_labels`.
    na, allow_unmatched
        As in `select_labels`.

    Returns
    -------
    ndarray of shape (n_samples,)
        float64.

    Examples
    --------
    >>> from suquan.io import LabelTable, select_numbers
    >>> labels = LabelTable(["s1", "s2"], {"days": ["30", ""], "status": ["Alive", "Dead"]})
    >>> select_numbers(labels, "days", sample_names=["s2", "s1", "s0"])
    array([nan, 30., nan])
    >>> select_numbers(labels, "status", truth=True)
    array([0., 1.])
    """
    origin, cells, rows, _ = _find_column(source, column, sample_names, allow_unmatched)
    known = rows >= 0
    numbers = np.full(len(rows), np.nan)
    if truth:
        numbers[known] = as_events(f"{origin}: column {quoted(column)}", cells[rows[known]], na)
        return numbers
    missing = _MISSING | set(map(_key, np.atleast_1d(na).tolist()))
    for i in np.flatnonzero(known):
        cell = str(cells[rows[i]])
        if _key(cell) in missing:
            continue
        sample = quoted(source.sample_names[rows[i]])
        where = f"{origin}: sample {sample}, column {quoted(column)}: {quoted(cell)}"
        cure = "correct it, or leave the cell empty where it is missing"
        refuse(number_problem(cell), f"{where} is not a number; {cure}")
        numbers[i] = float(cell)
    return numbers


def _find_column(
    source: LabelTable | Table,
    column: str,
    sample_names: Iterable[str] | None,
    allow_unmatched: bool,
) -> tuple[str, np.ndarray, np.ndarray, str]:
    """Find the labels: where they come from, the column, every sample's row or -1, and a hint at names."""
    if isinstance(source, Table):
        origin, columns = "the table", source.labels
    else:
        origin, columns = source.path, source.columns
    absent = f"{origin}: there is no label column {quoted(column)}"
    column = match_name(column, columns)
    refuse(column not in columns, f"{absent}; there is {listed(columns, 10) or 'none'}")
    names = source.sample_names.tolist()
    repeated = listed(repeated_names(names))
    refuse(repeated, f"labels: {repeated} occurs more than once; names must differ")
    places = {name: row for row, name in enumerate(names)}
    wanted = names if sample_names is None else list(map(str, sample_names))
    rows = np.array([places.get(name, -1) for name in wanted], dtype=np.intp)
    strangers, unused = [n for n in wanted if n not in places], sorted(places.keys() - set(wanted))
    hint, n_known = spelling_hint(strangers, unused), len(rows) - len(strangers)
    if n_known == 0 or (2 * n_known < len(rows) and not allow_unmatched):
        told = f"{origin}: {n_known} of the table's {len(rows)} samples have a row"
        sides = f"without one are {listed(strangers, 3)}"
        sides += f"; unused rows are {listed(unused, 3)}" if unused else ""
        cure = "check that both use the same sample names"
        cure += ", or give allow_unmatched=True to use these samples alone" if n_known else ""
        raise TableError("; ".join(filter(None, [told, sides, hint, cure])))
    return origin, columns[column], rows, hint


# ------------------------------------------------------------------------------------------------ values


def _key(cell: object) -> float | str:
    """Fold the spellings of one value: to a number, or to text without blanks and case."""
    text = "".join(str(cell).split()).casefold()
    return float(text) if is_plain_number(text) else text


class _Values:
    """The values of a column, the most frequent first; `na` are missing, and the `named` are not.

    Every cell has a code: the place of its value among `keys` and `texts`, -1 if missing.
    """

    def __init__(self, cells: np.ndarray, na: Sequence[str | float], named: Sequence[Any] = ()):
        found, place, counts = np.unique(cells, return_inverse=True, return_counts=True)
        end = ".0" if found.dtype.kind == "f" else ""
        spellings = [str(cell).removesuffix(end) for cell in found.tolist()]
        missing = (_MISSING - set(map(_key, named))) | set(map(_key, np.atleast_1d(na).tolist()))
        alike: dict[float | str, list[int]] = {}
        for k in np.argsort(-counts, kind="stable").tolist():
            alike.setdefault(_key(spellings[k]), []).append(k)
        gaps = [spellings[k] for key in missing.intersection(alike) for k in alike.pop(key)]
        gaps = sorted(text for text in gaps if text.strip() not in ("", "nan"))
        self.missing = f" ({listed(gaps)})" if gaps else ""
        sizes = {key: counts[places].sum() for key, places in alike.items()}
        self.keys = sorted(alike, key=lambda key: -sizes[key])
        self.texts = [" ".join(spellings[alike[key][0]].split()) for key in self.keys]
        code: np.ndarray = np.full(len(spellings), -1)
        merged, told = list[str](), list[str]()
        for number, (key, text) in enumerate(zip(self.keys, self.texts, strict=True)):
            code[alike[key]] = number
            told.append(f"{quoted(text)} ({sizes[key]:,})")
            others = listed(spellings[k] for k in alike[key][1:])
            merged += [f"{others} counted as {quoted(text)}"] if others else []
        self.codes, self.merged = code[place.ravel()], ", ".join(merged)
        more = f" and {len(told) - 50} more" if len(told) > 50 else ""
        self.listing = ", ".join(told[:50]) + more

    def marks(
        self, where: str, positive: Any, negative: Sequence[Any], negative_rest: bool
    ) -> np.ndarray:
        """Mark the positive value by 1, negative ones by 0, others by NaN; a last NaN is for missing cells."""
        one = "negative and negative_rest stand against a positive value; give that"
        refuse(positive is None, one)
        both = "negative names values, negative_rest all others; give one"
        refuse(negative and negative_rest, both)
        for value in (positive, *negative):
            absent = f"{where}: no label is {quoted(value)}; there is {self.listing}"
            refuse(_key(value) not in self.keys, absent)
        others = set(map(_key, negative))
        same = f"{where}: {quoted(positive)} is both positive and negative"
        refuse(_key(positive) in others, same)
        refuse(
            len(self.keys) > 2 and not negative and not negative_rest,
            f"{where} holds {len(self.keys)} values: {self.listing}; give negative=VALUE for each that stands "
            f"against {quoted(positive)}, or negative_rest=True for all others",
        )
        rest = np.nan if negative else 0
        marks = [1 if key == _key(positive) else 0 if key in others else rest for key in self.keys]
        return np.array([*marks, np.nan])


def as_events(
    where: str,
    cells: np.ndarray,
    na: Sequence[str | float] = (),
    positive: Any = None,
    *against: Any,
) -> np.ndarray:
    """1 for an event, 0 for none, NaN if missing or another value; `against`: negative, negative_rest."""
    values = _Values(cells, na)
    if positive is not None:
        return values.marks(where, positive, *against)[values.codes]
    words = f"{where} must be 1, true, yes or dead for an event, else 0, false, no or alive"
    cure = "name the value of an event with --event-value (in Python see select_labels)"
    is_other = not _EVENT.union(_NO_EVENT).issuperset(values.keys)
    refuse(is_other, f"{words}; there is {values.listing}; {cure}")
    return np.array([*(float(key in _EVENT) for key in values.keys), np.nan])[values.codes]


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
    """Make two classes of survival times: event within the horizon, or event-free beyond it.

    A sample with an event at a time up to the horizon is of class 1. One that was followed for longer than
    the horizon is of class 0, whether or not an event came later. One whose follow-up ended earlier without
    an event belongs to neither and is dropped; so is one whose time or event is missing.

    Parameters
    ----------
    time : array-like of shape (n_samples,)
        Time to the event or to the end of follow-up, not negative; NaN where missing.
    event : array-like of shape (n_samples,)
        1, true, yes or dead where the event came; 0, false, no or alive where not; NaN where missing.
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
    try:
        time = np.asarray(time, dtype=np.float64)
    except (TypeError, ValueError):
        raise TableError("time must hold numbers, NaN where missing") from None
    event = np.asarray(event)
    event = event if event.dtype.kind in "biuf" else event.astype(str)
    for name, values in (("time", time), ("event", event)):
        refuse(values.ndim != 1, f"{name} must be one-dimensional, not {values.ndim}")
    counts = f"time has {len(time)} entries, event has {len(event)}"
    refuse(time.shape != event.shape, f"{counts}; they must agree")
    is_time = np.isfinite(horizon) and horizon > 0
    refuse(not is_time, f"the horizon must be a positive time, not {horizon}")
    is_wrong = (time < 0).any() or np.isinf(time).any()
    refuse(is_wrong, "a time is negative or infinite; leave it empty where it is not known")
    event = as_events("event", event)
    missing = np.isnan(time) | np.isnan(event)
    late = ~missing & (time > horizon)
    came = ~missing & (time <= horizon) & (event == 1)
    keep = late | came
    sizes = (int(part.sum()) for part in (came, late, ~missing & ~keep, missing))
    return SurvivalLabels(keep, came[keep].astype(np.int64), *sizes)
