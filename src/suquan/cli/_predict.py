"""``suquan predict``: a saved model and a table in, a table of scores out."""

import csv
import io
import sys
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import IO, Any

import numpy as np

from suquan._dask.collections import RowBlock, iter_computed, map_row_blocks
from suquan._files import replace_file
from suquan.alignment import AlignedSamples, align_features
from suquan.cli._cluster import running_cluster
from suquan.cli._inputs import (
    find_samples,
    is_array_file,
    load_problem,
    open_samples,
    say_blocks,
)
from suquan.cli._options import ModelOptions, Predict, TableOptions
from suquan.cli._output import Output, number
from suquan.cli._survival import say_concordance
from suquan.cox_model import SuquanCox
from suquan.io import TableError, iter_row_blocks, read_labels, read_table
from suquan.io.writing import check_destination
from suquan.persistence import ModelFile, read_model
from suquan.sample_checks import FAR_BELOW, agreement, find_problems

CHECKS = ("sample", "correlation", "ties", "problem")
_MOST_NAMED = 10  # samples that a warning names


def run(options: Predict, output: Output) -> None:
    """Score the samples of a table, block by block, on a cluster where one is asked for."""
    path = options.output
    if path is not None:
        check_destination(path)
        if path.suffix not in (".csv", ".tsv", ".txt"):
            raise TableError(f"{path}: scores are written as .csv or .tsv; choose such a name")
    file = read_model(options.model)
    if not hasattr(file.estimator, "predict"):
        raise TableError(
            f"{options.model} holds a {type(file.estimator).__name__}, which normalises and does not predict; "
            f"use suquan normalize --target {options.model}"
        )
    if options.missing is not None:
        file.estimator.missing = options.missing
    names = class_names(file)
    header = _header(names)
    if isinstance(file.estimator, SuquanCox):
        header = ["sample", "risk"]
    elif options.time is not None:
        kind = type(file.estimator).__name__
        raise TableError(f"--time and --event are for Cox's models; {options.model} holds a {kind}")
    in_blocks = options.has_cluster or is_array_file(options.table)
    known = getattr(file.estimator, "feature_names_in_", None)
    features = file.estimator.n_features_in_ if known is None else frozenset(map(str, known))
    samples, why = find_samples(options.table, options, features=features)
    score = _score_on_blocks if in_blocks else _score_here
    training = None if options.training is None else load_training(options, file, features)
    with running_cluster(options):
        rows: Iterable[list[Any]] = (
            [sample, *(None if np.isnan(x) else x for x in numbers), *_winner(numbers, names)]
            for part in _checked(
                score(options, file.estimator, output, samples, why, training),
                file.estimator,
                options.strict,
                output,
            )
            for sample, numbers in zip(*(column.tolist() for column in part), strict=True)
        )
        if not in_blocks or path is None or options.time:
            rows = list(rows)
            output.keep(scores=[dict(zip(header, row, strict=True)) for row in rows])
        if path is not None:  # blocks are many: their rows are written as they come
            delimiter = "," if path.suffix == ".csv" else "\t"
            replace_file(path, lambda f: _write(f, header, rows, delimiter))
            output.say(f"scores: {path}")
        elif not output.as_json:
            at_terminal = sys.stdout.isatty()  # four digits for people, all for pipes and files
            shown = ([_shown(cell) for cell in row] for row in rows) if at_terminal else rows
            _write(sys.stdout.buffer, header, shown)
    if options.time:
        risks = {row[0]: row[1] for row in rows if row[1] is not None}
        _say_concordance(options, risks, samples, output)
    output.keep(output=None if path is None else str(path), columns=header)


def _shown(cell: Any) -> str:
    """Four digits of a score; nothing for a sample without one."""
    return "" if cell is None else number(cell)


def load_training(options: Predict, file: ModelFile, features: Any) -> tuple[Any, Any]:
    """Training samples with the model's features, and their labels, found as those of the fit were.

    No labels where the model file does not tell how: a model that was not saved by ``suquan fit``.
    """
    path: Any = options.training
    asked = file.summary.get("label_options")
    if isinstance(asked, dict):
        # Files of older versions do not record these: all other values were the negative class.
        asked = dict[str, Any](negative_rest="positive" in asked, allow_unmatched=True) | asked
        known = ModelOptions(
            table=path, labels=options.labels, layer=options.layer, missing="ignore", **asked
        )
        problem = load_problem(known, Output("predict", replace(options, quiet=True)))
        X, names, y = problem.X, problem.feature_names, problem.y
    else:
        side, _ = find_samples(path, TableOptions(layer=options.layer), features=features)
        table = read_table(path, samples=side, layer=options.layer)
        X, names, y = table.values, table.feature_names, None
    try:
        return align_features(file.estimator, X, names, max_lost=0.0).values, y
    except ValueError as error:
        raise TableError(f"{path}: {error}") from error


def _say_concordance(
    options: Predict, scores: dict[str, float], samples: str, output: Output
) -> None:
    """Tell how the risks agree with the times, from the label file or from the table itself."""
    source: Any
    if options.labels is not None:
        source = read_labels(options.labels, sample_column=options.sample_column)
    else:
        columns = options.label_columns
        source = read_table(
            options.table, samples=samples, label_columns=columns, **options.reading()
        )
    say_concordance(source, scores, options, output)


def _score_here(
    options: Predict, model: Any, output: Output, samples: str, why: str, training: Any
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Names and numbers of the samples, block by block."""
    n_samples = 0
    reading = {**options.reading(), "label_columns": options.label_columns}
    for block in iter_row_blocks(options.table, samples=samples, **reading):
        names = block.feature_names
        aligned = align_features(
            model, block.values, names, max_lost=options.max_lost, training=training
        )
        training = None  # told once
        if not n_samples:
            where = f"{options.table.name}: samples in {block.orientation} ({why}), "
            _say_features(output, aligned, where)
            output.keep(orientation=block.orientation)
        yield block.sample_names, _score(aligned.model, aligned.values)
        n_samples += block.n_samples
    _say_count(output, n_samples)


def _score_on_blocks(
    options: Predict, model: Any, output: Output, samples: str, why: str, training: Any
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """The same; the blocks are scored where they are, and only scores come here."""
    table = open_samples(options.table, options, samples=samples)
    settings: dict[str, Any] = {"features": table.feature_names, "max_lost": options.max_lost}
    nobody = np.empty((0, table.n_features), table.values.dtype)
    aligned = align_features(
        model, nobody, table.feature_names, max_lost=options.max_lost, training=training
    )
    say_blocks(output, options.table, table)
    _say_features(output, aligned)
    width = _score(model, np.zeros((1, model.n_features_in_))).shape[1]
    numbers = map_row_blocks(
        _score_block, table.values, dtype=np.float64, width=width, model=model, **settings
    )
    for start, part in iter_computed(numbers):
        yield table.sample_names_of(start, start + len(part)), part
    _say_count(output, table.n_samples)


def _checked(
    parts: Iterable[tuple[np.ndarray, np.ndarray]], model: Any, strict: bool, output: Output
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Take the checks off the numbers of the samples; name those that look unlike the training samples."""
    known = getattr(model, "training_ranks_", None)
    if known is None:
        told = "the model file keeps no mean ranks to compare new samples with; fit it again"
        if strict:
            raise TableError(f"--strict: {told}")
        output.say(told)
    found: list[dict[str, Any]] = []
    for names, numbers in parts:
        checks = np.round(numbers[:, :2], 4).T
        rows = zip(names.tolist(), *checks, find_problems(model, *numbers[:, :2].T), strict=True)
        found += [dict(zip(CHECKS, row, strict=True)) for row in rows if row[-1]]
        yield names, numbers[:, 2:]
    output.keep(unlike_training=found)
    if not found:
        return
    each = ", ".join(
        f"{row['sample']!r} ({row['problem']}"
        + (f": {row['correlation']:.2f})" if row["problem"] == FAR_BELOW else ")")
        for row in found[:_MOST_NAMED]
    )
    told = f"{len(found):,} of the samples look unlike the training samples: {each}"
    told += f" and {len(found) - _MOST_NAMED:,} more" * (len(found) > _MOST_NAMED)
    if known is not None:
        low, _, high = known["correlations"]
        told += f"; rank correlations of training samples: {low:.2f} to {high:.2f}"
    if strict:
        raise TableError(
            f"{told}. Look at how they were measured and processed, or leave --strict out"
        )
    output.warn(told)


def _say_features(output: Output, aligned: AlignedSamples, where: str = "") -> None:
    """Tell how many of the model's features there are."""
    n_extra, n_features = len(aligned.extra), aligned.values.shape[1]
    dropped = f"; {n_extra:,} other{'s' * (n_extra > 1)} dropped" if n_extra else ""
    output.say(
        f"{where}{n_features - len(aligned.missing):,} of the model's {n_features:,} features{dropped}"
    )
    output.keep(
        n_missing_features=len(aligned.missing), n_extra_features=n_extra, lost_weight=aligned.lost
    )
    output.keep(lost_spread=aligned.spread)
    if aligned.training is not None:
        n_missing = len(aligned.missing)
        output.say(
            f"{n_missing:,} feature{'s' * (n_missing != 1)} missing, {aligned.lost:.1%} of the weight: "
            f"{aligned.training}"
        )
        output.keep(training=vars(aligned.training))


def _say_count(output: Output, n_samples: int) -> None:
    output.say(f"{n_samples:,} sample{'s' * (n_samples > 1)} scored")
    output.keep(n_samples=n_samples)


def _score_block(
    block: np.ndarray, where: RowBlock, model: Any, features: Any, max_lost: float
) -> np.ndarray:
    """Numbers of one block, computed in a task; errors name the sample and the feature."""
    if not len(block):
        return _score(model, np.zeros((1, model.n_features_in_)))[:0]
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".* features are missing")  # said once, on the driver
        try:
            aligned = align_features(model, block, features, max_lost=max_lost)
            return _score(aligned.model, aligned.values)
        except ValueError:
            known = getattr(model, "feature_names_in_", None)
            used, names = np.arange(block.shape[1]), features
            if features is not None and known is not None:
                used = np.flatnonzero(np.isin(features, [str(name) for name in known]))
                names = features[used]
            where.check(block[:, used], missing=model.missing, feature_names=names)
            raise


def class_names(file: ModelFile) -> list[str]:
    """What the classes are called; none in regression."""
    classes = getattr(file.estimator, "classes_", None)
    if classes is None:
        return []
    names = file.summary.get("class_names")
    if isinstance(names, list) and len(names) == len(classes):
        return [str(name) for name in names]
    return [str(label) for label in classes.tolist()]


def _header(names: list[str]) -> list[str]:
    if not names:
        return ["sample", "prediction"]
    if len(names) == 2:
        return ["sample", "score", "probability", "predicted"]
    each = [f"{what} {name}" for what in ("score", "probability") for name in names]
    return ["sample", *each, "predicted"]


def _score(model: Any, X: np.ndarray) -> np.ndarray:
    """Checks of samples; then values of a regression, or scores and probabilities.

    Of two classes the probability is that of the second. A sample with one value throughout gets NaN.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".* have one value throughout")  # named with the others
        if not hasattr(model, "classes_"):
            return np.column_stack([agreement(model, X), model.predict(X)])
        scores, chances = model.decision_function(X), model.predict_proba(X)
    chances = chances[:, 1] if scores.ndim == 1 else chances
    return np.column_stack([agreement(model, X), scores, chances])


def _winner(numbers: list[float], names: list[str]) -> list[str]:
    """Name of the class with the highest probability; none in regression."""
    if names and np.isnan(numbers[-1]):
        return [""]
    if len(names) <= 2:
        return names[int(numbers[-1] > 0.5) :][:1]
    return [names[int(np.argmax(numbers[len(names) :]))]]


def _write(
    file: IO[bytes], header: list[str], rows: Iterable[list[Any]], delimiter: str = ","
) -> None:
    text = io.TextIOWrapper(file, encoding="utf-8", newline="")
    writer = csv.writer(text, delimiter=delimiter, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    text.flush()
    text.detach()
