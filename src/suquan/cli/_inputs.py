"""Tables and labels as the user gave them, made into samples and classes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.model_selection import RepeatedKFold, RepeatedStratifiedKFold

from suquan.cli._output import Output
from suquan.io import (
    LabelTable,
    Table,
    TableError,
    read_labels,
    read_table,
    select_labels,
    select_numbers,
    survival_labels,
)

MOST_CLASSES = 20
FREE_KINDS = ("csv", "tsv", "parquet")  # the others have a place of their own for the samples


@dataclass(frozen=True)
class LabelChoice:
    """Where the labels come from and what they mean."""

    file: Path | None = None
    column: str | None = None
    positive: str | None = None
    time: str | None = None
    event: str | None = None
    horizon: float | None = None
    sample_column: str | None = None
    task: str = "classification"

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns that are read."""
        return tuple(name for name in (self.column, self.time, self.event) if name is not None)

    def options(self) -> list[str]:
        """The same as options of the command line."""
        given = {
            "--labels": self.file,
            "--label": self.column,
            "--positive": self.positive,
            "--time": self.time,
            "--event": self.event,
            "--horizon": self.horizon,
            "--sample-column": self.sample_column,
        }
        parts = [str(part) for pair in given.items() if pair[1] is not None for part in pair]
        return parts + (["--task", self.task] if self.task != "classification" else [])


@dataclass(frozen=True)
class Problem:
    """Labelled samples.

    Attributes
    ----------
    X : ndarray or dask array of shape (n_samples, n_features)
    y : ndarray of shape (n_samples,)
        Numbers in regression; 0 and 1 where a positive value or a horizon was given; otherwise the
        labels themselves.
    class_names : list of str
        What the sorted values of y stand for; the second of two is the positive one.
    summary : dict
        What to record about the data.
    """

    X: Any
    y: np.ndarray
    sample_names: np.ndarray
    feature_names: np.ndarray
    class_names: list[str]
    summary: dict[str, Any] = field(default_factory=dict)

    @property
    def is_regression(self) -> bool:
        """Whether the labels are values."""
        return not self.class_names

    @property
    def scoring(self) -> str:
        """The score that suits the task."""
        if self.is_regression:
            return "r2"
        return "roc_auc" if len(self.class_names) == 2 else "roc_auc_ovr"


def load_problem(
    path: Path,
    choice: LabelChoice,
    output: Output,
    *,
    samples: str,
    layer: str | None,
    ignore: Sequence[str],
    missing: str,
) -> Problem:
    """Read the table and the labels, match them by name, and say what was found."""
    table, source = _read(path, choice, samples, layer, ignore)
    origin = f"by the names in {choice.file}" if choice.file and samples == "auto" else ""
    say_orientation(output, path, table, samples, origin)
    keep, y, names, summary = find_labels(source, table, choice, output)
    if missing == "error":
        _refuse_gaps(table, keep)
    X = table.values if keep.all() else table.values[keep]
    summary = {
        "table": path.name,
        "orientation": table.orientation,
        "n_samples": int(keep.sum()),
        "n_samples_in_table": table.n_samples,
        **summary,
    }
    kept = table.sample_names[keep]
    return Problem(X, y, kept, table.feature_names, names, summary)


def say_orientation(output: Output, path: Path, table: Table, samples: str, origin: str) -> None:
    """Tell where the samples lie, and who said so."""
    if table.kind not in FREE_KINDS:
        how = f"as in every {table.kind} file"
    elif samples == "auto":
        how = f"chosen {origin or 'by the kind of the file'}; --samples overrides"
    else:
        how = "as given"
    output.say(
        f"{path.name}: {table.n_samples:,} samples in {table.orientation} ({how}), "
        f"{table.n_features:,} features"
    )
    output.keep(orientation=table.orientation)


def _read(
    path: Path, choice: LabelChoice, samples: str, layer: str | None, ignore: Sequence[str]
) -> tuple[Table, LabelTable | Table]:
    """The table, and the source of its labels."""
    if choice.file is None:
        table = read_table(
            path, samples=samples, label_columns=choice.columns, ignore_columns=ignore, layer=layer
        )
        return table, table
    labels = read_labels(choice.file, sample_column=choice.sample_column)
    table = read_table(
        path, samples=samples, sample_names=labels.sample_names, ignore_columns=ignore, layer=layer
    )
    return table, labels


def find_labels(
    source: LabelTable | Table, table: Table, choice: LabelChoice, output: Output
) -> tuple[np.ndarray, np.ndarray, list[str], dict[str, Any]]:
    """Which samples are used, their labels, the names of the classes, and what to record."""
    if choice.horizon is not None:
        return _survival(source, table, choice, output)
    assert choice.column is not None
    names = table.sample_names
    if choice.task == "regression":
        values = select_numbers(source, choice.column, sample_names=names)
        keep = ~np.isnan(values)
        if not keep.any():
            raise TableError(
                f"no sample of the table has a value in {choice.column!r}; check the names"
            )
        output.say(f"{keep.sum():,} of {len(keep):,} samples have a value in {choice.column!r}")
        return keep, values[keep], [], {"label": choice.column}
    selected = select_labels(source, choice.column, sample_names=names, positive=choice.positive)
    output.say(selected.report)
    y = selected.y if choice.positive is not None else _as_classes(selected.y, choice.column)
    values = np.unique(y)
    if len(values) < 2:
        raise TableError(
            f"every label in {choice.column!r} is {str(values[0])!r}; two classes are needed"
        )
    class_names = [str(value) for value in values]
    if choice.positive is not None:
        others = np.unique(_column(source, choice.column, names[selected.keep])[selected.y == 0])
        single = f"{others[0]}" if len(others) == 1 else f"not {choice.positive}"
        class_names = [single, choice.positive]
    counts = _say_classes(output, y, class_names)
    summary = {"label": choice.column, "class_names": class_names, "class_counts": counts}
    return selected.keep, y, class_names, summary


def _column(source: LabelTable | Table, column: str, names: np.ndarray) -> np.ndarray:
    return select_labels(source, column, sample_names=names).y


def _as_classes(y: np.ndarray, column: str) -> np.ndarray:
    """Labels as integers where all are, otherwise as text; measurements are refused."""
    try:
        values = y.astype(np.float64)
    except ValueError:
        values = None
    whole = values is not None and bool(np.all(values == np.round(values)))
    n_classes = len(np.unique(y))
    if (values is not None and not whole) or n_classes > max(MOST_CLASSES, len(y) // 2):
        raise TableError(
            f"{column!r} holds {n_classes} different values, which look like measurements or names, not "
            "classes; choose one value with --positive, or give --task regression for measurements"
        )
    if values is not None and np.abs(values).max() < 2**53:
        return values.astype(np.int64)
    return y.astype(str)


def _say_classes(output: Output, y: np.ndarray, names: list[str]) -> dict[str, int]:
    _, counts = np.unique(y, return_counts=True)
    counted = dict(zip(names, counts.tolist(), strict=True))
    told = ", ".join(f"{name}: {count:,}" for name, count in counted.items())
    extra = f"; a high score speaks for {names[1]}" if len(names) == 2 else ""
    output.say(f"classes {told}{extra}")
    return counted


def _survival(
    source: LabelTable | Table, table: Table, choice: LabelChoice, output: Output
) -> tuple[np.ndarray, np.ndarray, list[str], dict[str, Any]]:
    assert choice.time is not None
    assert choice.event is not None
    assert choice.horizon is not None
    names = table.sample_names
    labels = survival_labels(
        select_numbers(source, choice.time, sample_names=names),
        select_numbers(source, choice.event, sample_names=names),
        choice.horizon,
    )
    output.say(f"horizon {choice.horizon:g}: {labels.report}")
    if min(labels.n_event, labels.n_event_free) == 0:
        raise TableError(
            f"at the horizon {choice.horizon:g} there are {labels.n_event} samples with an event and "
            f"{labels.n_event_free} without; both are needed. Choose another horizon, in the unit of "
            f"{choice.time!r}"
        )
    class_names = [f"no {choice.event}", choice.event]
    counts = _say_classes(output, labels.y, class_names)
    summary = {
        "label": f"{choice.event} within {choice.horizon:g} of {choice.time}",
        "class_names": class_names,
        "class_counts": counts,
        "horizon": choice.horizon,
        "n_censored": labels.n_censored,
        "n_missing_time_or_event": labels.n_missing,
    }
    return labels.keep, labels.y, class_names, summary


def _refuse_gaps(table: Table, keep: np.ndarray) -> None:
    gaps = np.isnan(table.values) & keep[:, None]
    if gaps.any():
        i, j = np.argwhere(gaps)[0]
        raise TableError(
            f"{int(gaps.sum()):,} values are missing, first that of sample {str(table.sample_names[i])!r}, "
            f"feature {str(table.feature_names[j])!r}; fill them in, or give --missing ignore to rank the "
            "observed values of each sample alone"
        )


def make_splitter(cv: tuple[int, int], seed: int, problem: Problem) -> Any:
    """Repeated folds, stratified for classes; None for the default of the library."""
    n_splits, n_repeats = cv
    if not problem.is_regression:
        values, counts = np.unique(problem.y, return_counts=True)
        if counts.min() < n_splits:
            name = problem.class_names[int(np.argmin(counts))]
            raise TableError(
                f"class {name!r} has {counts.min()} samples, fewer than the {n_splits} folds; give more "
                "samples, fewer folds (--cv 2x5), or merge classes with --positive"
            )
    elif len(problem.y) < 2 * n_splits:
        raise TableError(
            f"{len(problem.y)} samples are too few for {n_splits} folds; give --cv 2x5"
        )
    kind = RepeatedKFold if problem.is_regression else RepeatedStratifiedKFold
    return kind(n_splits=n_splits, n_repeats=n_repeats, random_state=seed)
