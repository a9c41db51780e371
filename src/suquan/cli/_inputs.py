"""Tables and labels as the user gave them, made into samples; for `fit`, `compare`, `predict`, `normalize`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.model_selection import RepeatedKFold, RepeatedStratifiedKFold

from suquan.cli._labels import Labels
from suquan.cli._options import Folds, ModelOptions, TableOptions
from suquan.cli._output import Output
from suquan.io import TableError, read_labels, read_table
from suquan.io._source import ReadOptions
from suquan.io.reading import open_source
from suquan.selection.folds import RepeatedGroupFolds, leave_out_splits


@dataclass(frozen=True)
class Problem:
    """Labelled samples: a matrix, labels, names, what to record about the data, groups and cohorts.

    Labels are numbers in regression; 0 and 1 where a positive value or a horizon was given; the fields event,
    time and stratum for Cox's model; otherwise as they are. Class names are those of the sorted labels; the
    second of two is the positive one. Groups stay together in every fold, cohorts are left out in turn.
    """

    X: np.ndarray
    y: np.ndarray
    sample_names: np.ndarray
    feature_names: np.ndarray
    class_names: list[str]
    summary: dict[str, Any]
    groups: np.ndarray | None = None
    cohorts: Any = None

    @property
    def scoring(self) -> str:
        """The score that suits the task: concordance for times, r2 for values, else an area under the curve."""
        if not self.class_names:
            return "concordance" if self.y.dtype.names else "r2"
        return "roc_auc" if len(self.class_names) == 2 else "roc_auc_ovr"


def load_problem(options: ModelOptions, output: Output) -> Problem:
    """Read the table and the labels, match them by name, and say what was found."""
    path, source, known = options.table, None, None
    if options.labels is not None:
        source = read_labels(options.labels, sample_column=options.sample_column)
        known = frozenset(source.sample_names.tolist())
    own = tuple(options.own_columns)
    samples, why = find_samples(path, options, sample_names=known, label_columns=own)
    table = read_table(path, samples=samples, label_columns=own, **options.reading())
    say_samples(output, path, table, samples, why)
    found = Labels(source or table, table.sample_names, options, output).find()
    gaps = np.isnan(table.values) & found.keep[:, None]
    if options.missing == "error" and gaps.any():
        i, j = np.argwhere(gaps)[0]
        raise TableError(
            f"{int(gaps.sum()):,} values are missing, first that of sample {str(table.sample_names[i])!r}, "
            f"feature {str(table.feature_names[j])!r}; fill them in, or give --missing ignore to rank the "
            "observed values of each sample alone"
        )
    names = table.sample_names[found.keep]
    labels = Labels(source or table, names, options, output)
    groups = None if options.groups is None else labels.groups(options.groups)
    cohorts = None
    if options.leave_out is not None:
        cohorts = labels.groups(options.leave_out)
        classes: Any = found.y if found.y.dtype.names else None
        if found.class_names:
            classes = np.array(found.class_names)[np.unique(found.y, return_inverse=True)[1]]
        leave_out_splits(cohorts, classes)
    summary = {
        "table": path.name,
        "orientation": table.orientation,
        "n_samples": len(names),
        "n_samples_in_table": table.n_samples,
        "label_options": options.asked(),
        **found.summary,
    }
    columns = {"groups": options.groups, "leave_out": options.leave_out}
    summary |= {name: column for name, column in columns.items() if column is not None}
    X = table.values if found.keep.all() else table.values[found.keep]
    known_names = names, table.feature_names, found.class_names
    return Problem(X, found.y, *known_names, summary, groups, cohorts)


def find_samples(path: Path, options: TableOptions, **evidence: Any) -> tuple[str, str]:
    """Find where the samples of a table lie, and who says so; `evidence` as in :class:`ReadOptions`."""
    if options.samples != "auto":
        return options.samples, "as given"
    ignored = tuple(options.ignore or ())
    source = open_source(path, ReadOptions(ignore_columns=ignored, layer=options.layer, **evidence))
    why = f"{source.why}; --samples overrides" if source.why else f"as in every {source.kind} file"
    return source.orientation, why


def say_samples(
    output: Output, path: Path, table: Any, side: str, why: str, more: str = ""
) -> None:
    """Tell what was read, where the samples lie, and who says so."""
    output.say(
        f"{path.name}: {table.n_samples:,} samples in {side} ({why}), {table.n_features:,} features{more}"
    )
    output.keep(orientation=side)


def make_splitter(cv: Folds, seed: int, problem: Problem) -> Any:
    """Make repeated folds, stratified for classes; refused where there are too few samples for them."""
    n, y, fewer = cv.n_folds, problem.y, "fewer folds (--cv 2x5)"
    if problem.scoring == "concordance":
        found, needed = int(y["event"].sum()), 2 * n
        told = (
            f"{found} events are too few for {n} folds; give more samples with events, or {fewer}"
        )
    elif problem.scoring == "r2":
        found, needed = len(y), 2 * n
        told = f"{found} samples are too few for {n} folds; give {fewer}"
    else:
        counts = np.unique(y, return_counts=True)[1]
        found, needed, name = int(counts.min()), n, problem.class_names[int(counts.argmin())]
        told = f"class {name!r} has {found} samples, fewer than the {n} folds; give more samples, {fewer}, or "
        told += "merge classes with --positive"
    if found < needed:
        raise TableError(told)
    if problem.groups is not None:
        n_groups, together = len(np.unique(problem.groups)), f"{n} folds that keep them together"
        if n_groups < n:
            raise TableError(f"{n_groups} groups are too few for {together}; give fewer folds")
        return RepeatedGroupFolds(n, cv.n_repeats, problem.scoring != "r2", seed)
    kind: Any = RepeatedKFold if problem.scoring == "r2" else RepeatedStratifiedKFold
    return kind(n_splits=n, n_repeats=cv.n_repeats, random_state=seed)
