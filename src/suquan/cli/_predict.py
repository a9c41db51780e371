"""``suquan predict``."""

from __future__ import annotations

import csv
import io
import sys
import warnings
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np

from suquan._dask.collections import RowBlock, iter_computed, map_row_blocks
from suquan._files import replace_file
from suquan.alignment import AlignedSamples, align_features
from suquan.cli._block_inputs import is_array_file, open_samples, say_blocks
from suquan.cli._cluster import NO_CLUSTER, ClusterChoice, running_cluster
from suquan.cli._fit import check_destination
from suquan.cli._inputs import FREE_KINDS
from suquan.cli._output import Output
from suquan.io import BlockTable, TableError, iter_row_blocks
from suquan.persistence import ModelFile, read_model


def run_predict(
    model_path: Path,
    path: Path,
    destination: Path | None,
    output: Output,
    *,
    samples: str,
    layer: str | None,
    ignore: Sequence[str],
    missing: str | None,
    max_lost: float,
    cluster: ClusterChoice = NO_CLUSTER,
) -> None:
    """Score the samples of a table, block by block, on a cluster where one is asked for."""
    if destination is not None:
        check_destination(destination)
        if destination.suffix not in (".csv", ".tsv", ".txt"):
            raise TableError(
                f"{destination}: scores are written as .csv or .tsv; choose such a name"
            )
    file = read_model(model_path)
    if not hasattr(file.estimator, "predict"):
        raise TableError(
            f"{model_path} holds a {type(file.estimator).__name__}, which normalises and does not predict; use "
            f"suquan normalize --target {model_path}"
        )
    if missing is not None:
        file.estimator.missing = missing
    header = score_columns(file)
    delimiter = "," if destination is None or destination.suffix == ".csv" else "\t"
    in_blocks = bool(cluster) or is_array_file(path)
    with running_cluster(cluster):
        if in_blocks:
            table = open_samples(path, samples=samples, layer=layer, ignore=ignore)
            rows = _score_on_blocks(path, table, file, output, max_lost)
        else:
            samples, why = choose_orientation(path, file.estimator, samples, layer)
            rows = _score_blocks(path, file, output, samples, why, layer, ignore, max_lost)
        if in_blocks and destination is not None:  # as many as there may be, they are not kept
            replace_file(destination, lambda f: _write_bytes(f, header, rows, delimiter))
            output.keep(n_samples=table.n_samples)
        else:
            records = list(rows)
            scores = [dict(zip(header, record, strict=True)) for record in records]
            output.keep(n_samples=len(records), scores=scores)
            if destination is not None:
                replace_file(destination, lambda f: _write_bytes(f, header, records, delimiter))
            elif not output.as_json:
                _write(sys.stdout, header, records, ",")
    if destination is not None:
        output.say(f"scores: {destination}")
    output.keep(output=None if destination is None else str(destination), columns=header)


def choose_orientation(path: Path, model: Any, samples: str, layer: str | None) -> tuple[str, str]:
    """Where the samples lie, by looking for the names of the model's features."""
    names = getattr(model, "feature_names_in_", None)
    if samples != "auto" or names is None:
        return samples, "as given" if samples != "auto" else "by the kind of the file"
    known = set(map(str, names))
    found: dict[str, int] = {}
    problems: list[TableError] = []
    for orientation in ("rows", "columns"):
        try:
            first = next(iter_row_blocks(path, samples=orientation, layer=layer, rows_per_block=1))
        except TableError as error:
            problems.append(error)
            continue
        if first.kind not in FREE_KINDS:
            return "auto", "by the kind of the file"
        found[orientation] = len(known.intersection(first.feature_names.tolist()))
    if not found:
        raise problems[0]
    return max(found, key=lambda o: found[o]), "chosen by the names of the model's features"


def _score_blocks(
    path: Path,
    file: ModelFile,
    output: Output,
    samples: str,
    why: str,
    layer: str | None,
    ignore: Sequence[str],
    max_lost: float,
) -> Iterator[list[Any]]:
    """Rows of the table of scores."""
    n_samples = 0
    told = False
    for block in iter_row_blocks(path, samples=samples, layer=layer, ignore_columns=ignore):
        aligned = align_features(
            file.estimator, block.values, block.feature_names, max_lost=max_lost
        )
        if not told:
            told = True
            where = f"{path.name}: samples in {block.orientation} ({why}), "
            _say_features(output, aligned, where)
            output.keep(orientation=block.orientation)
        names = class_names(file)
        numbers = score_numbers(aligned.model, aligned.values, len(names))
        yield from score_records(block.sample_names, numbers, names)
        n_samples += block.n_samples
    output.say(f"{n_samples:,} sample{'s' if n_samples > 1 else ''} scored")


def _say_features(output: Output, aligned: AlignedSamples, where: str = "") -> None:
    """Tell how many of the model's features there are."""
    n_extra, n_features = len(aligned.extra), aligned.values.shape[1]
    dropped = f"; {n_extra:,} other{'s' * (n_extra > 1)} dropped" if n_extra else ""
    output.say(
        f"{where}{n_features - len(aligned.missing):,} of the model's {n_features:,} features{dropped}"
    )
    output.keep(
        n_missing_features=len(aligned.missing),
        n_extra_features=n_extra,
        lost_weight=aligned.lost,
    )


def _score_on_blocks(
    path: Path, table: BlockTable, file: ModelFile, output: Output, max_lost: float
) -> Iterator[list[Any]]:
    """Rows of the table of scores; the blocks are scored where they are, and only scores come here."""
    features = table.feature_names
    nobody = np.empty((0, table.n_features), table.values.dtype)
    aligned = align_features(file.estimator, nobody, features, max_lost=max_lost)
    say_blocks(output, path, table)
    _say_features(output, aligned)
    names = class_names(file)
    numbers = map_row_blocks(
        _score_block,
        table.values,
        dtype=np.float64,
        width=1 if not names else 2 if len(names) == 2 else 2 * len(names),
        model=file.estimator,
        features=features,
        max_lost=max_lost,
        n_classes=len(names),
    )
    for start, part in iter_computed(numbers):
        yield from score_records(table.sample_names_of(start, start + len(part)), part, names)
    output.say(f"{table.n_samples:,} sample{'s' if table.n_samples > 1 else ''} scored")


def _score_block(
    block: np.ndarray, where: RowBlock, model: Any, features: Any, max_lost: float, n_classes: int
) -> np.ndarray:
    if not len(block):
        return np.empty((0, 1 if not n_classes else 2 if n_classes == 2 else 2 * n_classes))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of lost features: said once, on the driver
        try:
            aligned = align_features(model, block, features, max_lost=max_lost)
            return score_numbers(aligned.model, aligned.values, n_classes)
        except ValueError:
            used = _columns_of(model, features, block.shape[1])
            names = None if features is None else features[used]
            where.check(block[:, used], missing=model.missing, feature_names=names)
            raise


def _columns_of(model: Any, features: np.ndarray | None, n_given: int) -> np.ndarray:
    """Which of the given features the model has."""
    known = getattr(model, "feature_names_in_", None)
    if features is None or known is None:
        return np.arange(n_given)
    return np.flatnonzero(np.isin(features, [str(name) for name in known]))


def class_names(file: ModelFile) -> list[str]:
    """What the classes are called; none in regression."""
    classes = getattr(file.estimator, "classes_", None)
    if classes is None:
        return []
    names = file.summary.get("class_names")
    if isinstance(names, list) and len(names) == len(classes):
        return [str(name) for name in names]
    return [str(label) for label in classes.tolist()]


def score_columns(file: ModelFile) -> list[str]:
    """Header of the table of scores."""
    names = class_names(file)
    if not names:
        return ["sample", "prediction"]
    if len(names) == 2:
        return ["sample", "score", "probability", "predicted"]
    each = [f"{what} {name}" for what in ("score", "probability") for name in names]
    return ["sample", *each, "predicted"]


def score_numbers(model: Any, X: np.ndarray, n_classes: int) -> np.ndarray:
    """Values of a regression, else scores and probabilities; of two classes those of the second."""
    if not n_classes:
        return model.predict(X)[:, None]
    scores, chances = model.decision_function(X), model.predict_proba(X)
    return np.column_stack([scores, chances[:, 1] if n_classes == 2 else chances])


def score_records(
    samples: np.ndarray, numbers: np.ndarray, names: list[str]
) -> Iterator[list[Any]]:
    """Name, scores, probabilities and class of every sample."""
    for sample, row in zip(samples.tolist(), numbers.tolist(), strict=True):
        if not names:
            yield [sample, *row]
        elif len(names) == 2:
            yield [sample, *row, names[int(row[0] > 0)]]
        else:
            yield [sample, *row, names[int(np.argmax(row[: len(names)]))]]


def _write(file: IO[str], header: list[str], rows: Iterable[list[Any]], delimiter: str) -> None:
    writer = csv.writer(file, delimiter=delimiter, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)


def _write_bytes(
    file: IO[bytes], header: list[str], rows: Iterable[list[Any]], delimiter: str
) -> None:
    text = io.TextIOWrapper(file, encoding="utf-8", newline="")
    _write(text, header, rows, delimiter)
    text.flush()
    text.detach()
