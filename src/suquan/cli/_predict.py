"""``suquan predict``."""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np

from suquan._files import replace_file
from suquan.alignment import align_features
from suquan.cli._fit import check_destination
from suquan.cli._inputs import FREE_KINDS
from suquan.cli._output import Output
from suquan.io import Table, TableError, iter_row_blocks
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
) -> None:
    """Score the samples of a table, block by block."""
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
    samples, why = choose_orientation(path, file.estimator, samples, layer)
    rows = _score_blocks(path, file, output, samples, why, layer, ignore, max_lost)
    header = score_columns(file)
    delimiter = "," if destination is None or destination.suffix == ".csv" else "\t"
    records = list(rows)
    if destination is None:
        if not output.as_json:
            _write(sys.stdout, header, records, ",")
    else:
        replace_file(destination, lambda f: _write_bytes(f, header, records, delimiter))
        output.say(f"scores: {destination}")
    output.keep(
        output=None if destination is None else str(destination),
        n_samples=len(records),
        columns=header,
        scores=[dict(zip(header, record, strict=True)) for record in records],
    )


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
            n_extra = len(aligned.extra)
            dropped = f"; {n_extra:,} other{'s' * (n_extra > 1)} dropped" if n_extra else ""
            output.say(
                f"{path.name}: samples in {block.orientation} ({why}), "
                f"{aligned.values.shape[1] - len(aligned.missing):,} of the model's "
                f"{aligned.values.shape[1]:,} features{dropped}"
            )
            output.keep(
                orientation=block.orientation,
                n_missing_features=len(aligned.missing),
                n_extra_features=len(aligned.extra),
                lost_weight=aligned.lost,
            )
        yield from score_rows(aligned.model, aligned.values, block, class_names(file))
        n_samples += block.n_samples
    output.say(f"{n_samples:,} sample{'s' if n_samples > 1 else ''} scored")


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


def score_rows(model: Any, X: np.ndarray, block: Table, names: list[str]) -> Iterator[list[Any]]:
    """Name, scores, probabilities and class of every sample."""
    samples = block.sample_names.tolist()
    if not names:
        for sample, value in zip(samples, model.predict(X).tolist(), strict=True):
            yield [sample, value]
        return
    scores, chances = model.decision_function(X), model.predict_proba(X)
    if len(names) == 2:
        chosen = (scores > 0).astype(int).tolist()
        parts = np.column_stack([scores, chances[:, 1]]).tolist()
    else:
        chosen = np.argmax(scores, axis=1).tolist()
        parts = np.column_stack([scores, chances]).tolist()
    for sample, numbers, k in zip(samples, parts, chosen, strict=True):
        yield [sample, *numbers, names[k]]


def _write(file: IO[str], header: list[str], rows: list[list[Any]], delimiter: str) -> None:
    writer = csv.writer(file, delimiter=delimiter, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)


def _write_bytes(file: IO[bytes], header: list[str], rows: list[list[Any]], delimiter: str) -> None:
    text = io.TextIOWrapper(file, encoding="utf-8", newline="")
    _write(text, header, rows, delimiter)
    text.flush()
    text.detach()
