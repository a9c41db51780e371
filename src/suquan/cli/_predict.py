"""``suquan predict``: a saved model and a table in, a table of scores out."""

import csv
import io
import sys
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from suquan.alignment import AlignedSamples, align_features
from suquan.cli._inputs import find_samples, load_problem
from suquan.cli._labels import Labels
from suquan.cli._options import ModelOptions, Predict, TableOptions
from suquan.cli._output import Output, number
from suquan.cox_model import SuquanCox
from suquan.files.disk import replace_file
from suquan.io import TableError, iter_row_blocks, read_labels, read_table
from suquan.io.writing import check_destination
from suquan.persistence import ModelFile, read_model
from suquan.sample_checks import FAR_BELOW, check_samples

MOST_NAMED = 10  # samples that a warning names
Columns = dict[str, np.ndarray]


def run(options: Predict, output: Output) -> None:
    """Score the samples of a table, block by block."""
    path = options.output
    if path is not None:
        check_destination(path)
        if path.suffix not in (".csv", ".tsv", ".txt"):
            raise TableError(f"{path}: scores are written as .csv or .tsv; choose such a name")
    file = _read_model(options)
    model = file.estimator
    known = getattr(model, "feature_names_in_", None)
    features = model.n_features_in_ if known is None else frozenset(map(str, known))
    samples, why = find_samples(options.table, options, features=features)
    training = None if options.training is None else _load_training(options, file, features)
    table, checks = _score_table(options, file, samples, why, training, output)
    _check_order(checks, model, options.strict, output)
    rows = list(zip(*(map(_plain, column.tolist()) for column in table.values()), strict=True))
    if path is not None:
        text = _as_text(table, rows, "," if path.suffix == ".csv" else "\t")
        replace_file(path, lambda file: file.write(text.encode()))
        output.say(f"scores: {path}")
    elif not output.as_json:  # four digits for people, all for pipes and files
        cells = number if sys.stdout.isatty() else str
        sys.stdout.buffer.write(_as_text(table, rows, ",", cells).encode())
        sys.stdout.buffer.flush()
    if options.time is not None:
        _say_concordance(options, table, samples, output)
    output.keep(output=None if path is None else str(path), columns=list(table))
    output.keep(scores=[dict(zip(table, row, strict=True)) for row in rows])


def _read_model(options: Predict) -> ModelFile:
    """Read a model that predicts, with the rule for missing values that was asked for."""
    file = read_model(options.model)
    kind = type(file.estimator).__name__
    if not hasattr(file.estimator, "predict"):
        raise TableError(
            f"{options.model} holds a {kind}, which normalises and does not predict; use suquan normalize "
            f"--target {options.model}"
        )
    if options.time is not None and not isinstance(file.estimator, SuquanCox):
        raise TableError(f"--time and --event are for Cox's models; {options.model} holds a {kind}")
    if options.missing is not None:
        file.estimator.missing = options.missing
    return file


def _load_training(options: Predict, file: ModelFile, features: Any) -> tuple[Any, Any]:
    """Read training samples with the model's features, and their labels, found as those of the fit were.

    No labels where the model file does not tell how: a model that was not saved by ``suquan fit``.
    """
    path: Any = options.training
    asked = file.summary.get("label_options")
    if isinstance(asked, dict):
        # Files of older versions do not record these: all other values were the negative class.
        asked = dict[str, Any](negative_rest="positive" in asked, allow_unmatched=True) | asked
        more: Any = {"labels": options.labels, "layer": options.layer, "missing": "ignore"}
        known = ModelOptions(table=path, **more, **asked)
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


def _score_table(
    options: Predict, file: ModelFile, samples: str, why: str, training: Any, output: Output
) -> tuple[Columns, Columns]:
    """Give the table of scores, and what tells whether the samples look like the training samples."""
    scores, checks, classes = list[Columns](), list[Columns](), class_names(file)
    reading = {**options.reading(), "label_columns": options.own_columns}
    has_names = options.table.suffix.lower() != ".npy"  # an array's columns are those of the model
    for block in iter_row_blocks(options.table, samples=samples, **reading):
        given = block.values, block.feature_names if has_names else None
        aligned = align_features(
            file.estimator, *given, max_lost=options.max_lost, training=training
        )
        if not scores:  # told once
            training = None
            where = f"{options.table.name}: samples in {block.orientation} ({why})"
            _say_features(output, aligned, where)
            output.keep(orientation=block.orientation)
        names = {"sample": block.sample_names}
        scores.append(names | _score(aligned.model, aligned.values, classes))
        checks.append(check_samples(aligned.model, aligned.values) | names)
    table, known = (
        {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
        for parts in (scores, checks)
    )
    n_samples = len(table["sample"])
    output.say(f"{n_samples:,} sample{'s' * (n_samples > 1)} scored")
    output.keep(n_samples=n_samples)
    return table, known


def _score(model: Any, X: np.ndarray, classes: list[str]) -> Columns:
    """Give columns of scores, NaN for a sample with one value throughout; of two classes, of the second."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".* have one value throughout")  # named with the others
        if not classes:
            return {"risk" if isinstance(model, SuquanCox) else "prediction": model.predict(X)}
        scores, chances = model.decision_function(X), model.predict_proba(X)
    winner = np.where(np.isnan(chances[:, 0]), "", np.array(classes)[chances.argmax(axis=1)])
    if len(classes) == 2:
        return {"score": scores, "probability": chances[:, 1], "predicted": winner}
    columns = {f"score {name}": column for name, column in zip(classes, scores.T, strict=True)}
    for name, column in zip(classes, chances.T, strict=True):
        columns[f"probability {name}"] = column
    return columns | {"predicted": winner}


def _say_features(output: Output, aligned: AlignedSamples, where: str) -> None:
    """Tell how many of the model's features there are."""
    n_extra, n_missing = len(aligned.extra), len(aligned.missing)
    n_features = aligned.values.shape[1]
    dropped = f"; {n_extra:,} other{'s' * (n_extra > 1)} dropped" if n_extra else ""
    output.say(
        f"{where}, {n_features - n_missing:,} of the model's {n_features:,} features{dropped}"
    )
    output.keep(n_missing_features=n_missing, n_extra_features=n_extra)
    output.keep(lost_weight=aligned.lost, lost_spread=aligned.spread)
    if aligned.training is not None:
        missing = f"{n_missing:,} feature{'s' * (n_missing != 1)} missing"
        output.say(f"{missing}, {aligned.lost:.1%} of the weight: {aligned.training}")
        output.keep(training=vars(aligned.training))


def _check_order(checks: Columns, model: Any, strict: bool, output: Output) -> None:
    """Name samples that look unlike the training samples; refuse them where that was asked for."""
    known = getattr(model, "training_ranks_", None)
    if strict and known is None:
        told = "the model file keeps no mean ranks to compare new samples with; fit it again"
        raise TableError(f"--strict: {told}")
    rows = zip(*(column.tolist() for column in checks.values()), strict=True)
    found = [row for row in (dict(zip(checks, row, strict=True)) for row in rows) if row["problem"]]
    output.keep(unlike_training=found)
    if not found:
        return
    each = []
    for row in found[:MOST_NAMED]:
        value = f": {row['correlation']:.2f}" if row["problem"] == FAR_BELOW else ""
        each.append(f"{row['sample']!r} ({row['problem']}{value})")
    told = f"{len(found):,} of the samples look unlike the training samples: {', '.join(each)}"
    told += f" and {len(found) - MOST_NAMED:,} more" * (len(found) > MOST_NAMED)
    if known is not None:
        low, _, high = known["correlations"]
        told += f"; rank correlations of training samples: {low:.2f} to {high:.2f}"
    if strict:
        cure = "Look at how they were measured and processed, or leave --strict out"
        raise TableError(f"{told}. {cure}")
    output.warn(told)


def _say_concordance(options: Predict, table: Columns, samples: str, output: Output) -> None:
    """Tell how the risks agree with the times, from the label file or from the table itself."""
    source: Any
    if options.labels is not None:
        source = read_labels(options.labels, sample_column=options.sample_column)
    else:
        reading = {"label_columns": options.own_columns, **options.reading()}
        source = read_table(options.table, samples=samples, **reading)
    known = ~np.isnan(table["risk"])
    labels = Labels(source, table["sample"][known], options, output)
    labels.say_concordance(table["risk"][known])


def class_names(file: ModelFile) -> list[str]:
    """Tell what the classes are called; none in regression."""
    classes = getattr(file.estimator, "classes_", np.array([])).tolist()
    names = file.summary.get("class_names")
    if isinstance(names, list) and len(names) == len(classes):
        classes = names
    return list(map(str, classes))


def _plain(cell: Any) -> Any:
    """Give a cell; None for a sample without a score."""
    return None if cell != cell else cell


def _as_text(
    table: Columns, rows: list[tuple], delimiter: str, write: Callable[[Any], str] = str
) -> str:
    text = io.StringIO()
    writer = csv.writer(text, delimiter=delimiter, lineterminator="\n")
    writer.writerow(table)
    writer.writerows(["" if cell is None else write(cell) for cell in row] for row in rows)
    return text.getvalue()
