"""Tables and labels as the user gave them, made into samples and classes; for `fit`, `compare`, `predict`."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.model_selection import RepeatedKFold, RepeatedStratifiedKFold

from suquan._dask.collections import compute, take_rows
from suquan.cli._options import Folds, LabelOptions, ModelOptions, TableOptions
from suquan.cli._output import Output
from suquan.cli._survival import find_events, find_times
from suquan.folds import RepeatedGroupFolds, leave_out_splits
from suquan.io import BlockTable, LabelTable, Table, TableError, open_block_table, read_table
from suquan.io import labels as label_files
from suquan.io._kinds import ARRAYS
from suquan.io._source import ReadOptions
from suquan.io.reading import open_source

MOST_CLASSES = 20
SAMPLE_BYTES = 1 << 30
Labels = LabelTable | Table
Found = tuple[np.ndarray, np.ndarray, list[str], dict[str, Any]]


@dataclass(frozen=True)
class Problem:
    """Labelled samples.

    Attributes
    ----------
    X : ndarray or dask array of shape (n_samples, n_features)
    y : ndarray of shape (n_samples,)
        Numbers in regression; 0 and 1 where a positive value or a horizon was given; the fields event, time
        and stratum for Cox's model; otherwise the labels themselves.
    feature_names : ndarray of shape (n_features,) of str
    class_names : list of str
        What the sorted values of y stand for; the second of two is the positive one.
    summary : dict
        What to record about the data.
    groups, cohorts : ndarray of shape (n_samples,) of str, or None
        What stays together in every fold, and what is left out in turn.
    sample_names : ndarray of shape (n_samples,) of str, or None
    """

    X: Any
    y: np.ndarray
    feature_names: np.ndarray
    class_names: list[str]
    summary: dict[str, Any]
    groups: np.ndarray | None = None
    cohorts: np.ndarray | None = None
    sample_names: np.ndarray | None = None

    @property
    def is_regression(self) -> bool:
        """Whether the labels are values."""
        return not self.class_names and not self.is_survival

    @property
    def is_survival(self) -> bool:
        """Whether the labels are times to event."""
        return bool(self.y.dtype.names)

    @property
    def scoring(self) -> str:
        """The score that suits the task."""
        if self.is_regression:
            return "r2"
        if self.is_survival:
            return "concordance"
        return "roc_auc" if len(self.class_names) == 2 else "roc_auc_ovr"


def load_problem(options: ModelOptions, output: Output, *, in_blocks: bool = False) -> Problem:
    """Read the table and the labels, match them by name, and say what was found.

    With `in_blocks` the values stay in the file: X is a Dask array.
    """
    path = options.table
    source = None
    if options.labels is not None:
        source = label_files.read_labels(options.labels, sample_column=options.sample_column)
    own = options.label_columns if source is None else ()
    values: Any
    if in_blocks:
        blocks = open_samples(path, options, own)
        say_blocks(output, path, blocks)
        values, features = blocks.values, blocks.column_names
        names = blocks.sample_names_of(0, blocks.n_samples)
        no_values = np.empty((len(names), 0))
        table = Table(no_values, names, np.array([]), blocks.labels)
    else:
        wanted = None if source is None else frozenset(source.sample_names.tolist())
        samples, why = find_samples(path, options, sample_names=wanted, label_columns=tuple(own))
        table = read_table(path, samples=samples, label_columns=own, **options.reading())
        values, features = table.values, table.feature_names
        say_samples(output, path, table, samples, why)
    keep, y, class_names, found = find_labels(source or table, table.sample_names, options, output)
    if options.missing == "error" and not in_blocks:
        _refuse_gaps(table, keep)
    summary = {
        "table": path.name,
        "orientation": table.orientation,
        "n_samples": int(keep.sum()),
        "n_samples_in_table": table.n_samples,
        "label_options": options.asked(),
        **found,
    }
    parts: dict[str, Any] = {"sample_names": table.sample_names[keep]}
    for part, column in (("groups", options.groups), ("cohorts", options.leave_out)):
        if column is not None:
            known = source or table, table.sample_names[keep], column
            parts[part] = _find_groups(*known, options, output)
            summary["groups" if part == "groups" else "leave_out"] = column
    if "cohorts" in parts:
        labels: Any = y if y.dtype.names else None
        if class_names:
            labels = np.array(class_names)[np.unique(y, return_inverse=True)[1]]
        leave_out_splits(parts["cohorts"], labels)
    if not keep.all():
        values = take_rows(values, keep) if in_blocks else values[keep]
    return Problem(values, y, features, class_names, summary, **parts)


def _find_groups(
    source: Labels, names: np.ndarray, column: str, options: LabelOptions, output: Output
) -> np.ndarray:
    """Groups of the samples of these names, as text; refused where one has none."""
    found = label_files.select_labels(source, column, sample_names=names, **options.rules)
    if not found.keep.all():
        n_missing, first = int(np.sum(~found.keep)), str(names[~found.keep][0])
        raise TableError(
            f"{n_missing:,} of {len(names):,} labelled samples have no group in {column!r}, first {first!r}; "
            "fill it in, or take their labels away"
        )
    numbers = found.y.dtype.kind == "f" and bool(np.all(found.y == np.round(found.y)))
    groups = (found.y.astype(np.int64) if numbers else found.y).astype(str)
    kinds, counts = np.unique(groups, return_counts=True)
    each = ": " + ", ".join(f"{k} ({n:,})" for k, n in zip(kinds, counts, strict=True))
    told = f"{len(kinds):,} groups in {column!r}{each if len(kinds) <= MOST_CLASSES else ''}"
    output.say("; ".join(filter(None, [told, found.merged])))
    return groups


def find_samples(path: Path, options: TableOptions, **evidence: Any) -> tuple[str, str]:
    """Where the samples of a table lie, and who says so; `evidence` as in :class:`ReadOptions`."""
    if options.samples != "auto":
        return options.samples, "as given"
    if is_array_file(path):
        return "rows", "as in every array"
    ignored = tuple(options.ignore or ())
    source = open_source(path, ReadOptions(ignore_columns=ignored, layer=options.layer, **evidence))
    side = source.orientation
    why = f"{source.why}; --samples overrides" if source.why else f"as in every {source.kind} file"
    return side, why


def say_samples(
    output: Output, path: Path, table: Any, side: str, why: str, more: str = ""
) -> None:
    """Tell what was read, where the samples lie, and who says so."""
    output.say(
        f"{path.name}: {table.n_samples:,} samples in {side} ({why}), {table.n_features:,} features{more}"
    )
    output.keep(orientation=side)


def is_array_file(path: Path) -> bool:
    """Whether the file can be opened in blocks only."""
    return path.suffix.lower() in ARRAYS


def open_samples(
    path: Path,
    options: TableOptions,
    labels: Sequence[str] = (),
    *,
    samples: str = "auto",
    rows_per_block: int | None = None,
) -> BlockTable:
    """Open a table in blocks of samples, which must lie in rows; `samples` overrides the option."""
    if "columns" in (samples, options.samples):
        raise TableError(
            f"{path}: with samples in columns no block of samples can be read; write the table with samples in "
            "rows, as .parquet, .h5ad or .zarr"
        )
    return open_block_table(
        path, rows_per_block=rows_per_block, label_columns=labels, **options.reading()
    )


def say_blocks(output: Output, path: Path, table: BlockTable) -> None:
    """Tell what was opened."""
    n_blocks = table.values.numblocks[0]
    more = f", {n_blocks:,} block{'s' * (n_blocks > 1)}"
    say_samples(output, path, table, "rows", "blocks hold samples", more)
    output.keep(n_blocks=n_blocks)


def sample_problem(problem: Problem, n_rows: int, seed: int) -> Problem:
    """At most `n_rows` samples at random, in memory: in all, no more than a GiB."""
    n_samples, n_features = problem.X.shape
    most = max(1, SAMPLE_BYTES // (n_features * problem.X.dtype.itemsize))
    n_rows = min(n_rows, n_samples, most)
    keep = np.zeros(n_samples, dtype=bool)
    keep[np.random.default_rng(seed).choice(n_samples, n_rows, replace=False)] = True
    (X,) = compute(take_rows(problem.X, keep), blocks_of=problem.X)
    parts = {name: getattr(problem, name) for name in ("groups", "cohorts", "sample_names")}
    kept: dict[str, Any] = {k: None if part is None else part[keep] for k, part in parts.items()}
    return replace(problem, X=X, y=problem.y[keep], **kept)


def find_labels(source: Labels, names: np.ndarray, options: LabelOptions, output: Output) -> Found:
    """Which samples are used, their labels, the names of the classes, and what to record."""
    if options.task == "regression":
        column = str(options.label)
        values = label_files.select_numbers(source, column, sample_names=names, **options.rules)
        keep = ~np.isnan(values)
        if not keep.any():
            raise TableError(f"no sample of the table has a value in {column!r}; fill some in")
        output.say(f"{keep.sum():,} of {len(keep):,} samples have a value in {column!r}")
        return keep, values[keep], [], {"label": options.label}
    if options.time is not None and options.horizon is None:
        return find_times(source, names, options, output)
    find = _find_classes if options.horizon is None else _find_survival
    keep, y, class_names, summary = find(source, names, options, output)
    _, n_each = np.unique(y, return_counts=True)
    counts = dict(zip(class_names, n_each.tolist(), strict=True))
    told = ", ".join(f"{name}: {count:,}" for name, count in counts.items())
    extra = f"; a high score speaks for {class_names[1]}" if len(counts) == 2 else ""
    output.say(f"classes {told}{extra}")
    return keep, y, class_names, {**summary, "class_names": class_names, "class_counts": counts}


def _find_classes(
    source: Labels, names: np.ndarray, options: LabelOptions, output: Output
) -> Found:
    """Classes by the values of one column."""
    column, positive = str(options.label), options.positive
    rules: dict[str, Any] = {
        "negative": options.negative or (),
        "negative_rest": options.negative_rest,
    }
    rules |= {"sample_names": names, "positive": positive, **options.rules}
    selected = label_files.select_labels(source, column, **rules)
    output.say(selected.report)
    if positive is not None:
        return selected.keep, selected.y, list(selected.class_names), {"label": column}
    y = _as_classes(selected.y, column)
    class_names = [str(value) for value in np.unique(y)]
    if len(class_names) < 2:
        raise TableError(f"every label in {column!r} is {class_names[0]!r}; two classes are needed")
    return selected.keep, y, class_names, {"label": column}


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


def _find_survival(
    source: Labels, names: np.ndarray, options: LabelOptions, output: Output
) -> Found:
    """Two classes: event within the horizon, or event-free beyond it."""
    time, event, horizon = str(options.time), str(options.event), float(options.horizon or 0)
    times, events = find_events(source, names, options, output)
    labels = label_files.survival_labels(times, events, horizon)
    output.say(f"horizon {horizon:g}: {labels.report}")
    if min(labels.n_event, labels.n_event_free) == 0:
        raise TableError(
            f"at the horizon {horizon:g} there are {labels.n_event} samples with an event and "
            f"{labels.n_event_free} without; both are needed. Choose another horizon, in the unit of {time!r}"
        )
    summary = {
        "label": f"{event} within {horizon:g} of {time}",
        "horizon": horizon,
        "n_censored": labels.n_censored,
        "n_missing_time_or_event": labels.n_missing,
    }
    return labels.keep, labels.y, [f"no {event}", event], summary


def _refuse_gaps(table: Table, keep: np.ndarray) -> None:
    gaps = np.isnan(table.values) & keep[:, None]
    if gaps.any():
        i, j = np.argwhere(gaps)[0]
        raise TableError(
            f"{int(gaps.sum()):,} values are missing, first that of sample {str(table.sample_names[i])!r}, "
            f"feature {str(table.feature_names[j])!r}; fill them in, or give --missing ignore to rank the "
            "observed values of each sample alone"
        )


def make_splitter(cv: Folds, seed: int, problem: Problem) -> Any:
    """Repeated folds, stratified for classes; refused where there are too few samples for them."""
    n_splits = cv.n_folds
    if problem.is_survival:
        n_events = int(problem.y["event"].sum())
        if n_events < 2 * n_splits:
            raise TableError(
                f"{n_events} events are too few for {n_splits} folds; give more samples with events, or fewer "
                "folds (--cv 2x5)"
            )
    elif not problem.is_regression:
        _, counts = np.unique(problem.y, return_counts=True)
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
    if problem.groups is not None:
        n_groups = len(np.unique(problem.groups))
        if n_groups < n_splits:
            raise TableError(
                f"{n_groups} groups are too few for {n_splits} folds that keep them together; give fewer folds"
            )
        return RepeatedGroupFolds(n_splits, cv.n_repeats, not problem.is_regression, seed)
    kind: Any = RepeatedKFold if problem.is_regression else RepeatedStratifiedKFold
    return kind(n_splits=n_splits, n_repeats=cv.n_repeats, random_state=seed)
