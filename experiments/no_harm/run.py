"""Compare the default with its start: ``python -m experiments.no_harm.run --out DIR [--data DIR]``.

Every part (one draw, one set, one pair of classes) is a comparison of ``crossfit`` with the method that stays
with its start, on the same inner folds. A row per part goes to ``DIR/scores.csv`` as soon as it is done, and
what is there is not done again; ``table`` reads the file.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.model_selection import RepeatedStratifiedKFold
from sklearn.preprocessing import scale

from benchmarks.study_verdict import UNLISTED
from suquan import compare, make_target_quantiles
from suquan.datasets import make_corrupted_classification

from ..cifar10.images import load_cifar10
from ..expression.data import load_dataset
from ..tables import Row, read_rows, write_rows

KINDS = ("simulated", "expression", "cifar10")
N_FEATURES, N_TEST = 500, 2000
# Draws of every true target, by the number of samples.
DRAWS = {100: 40, 200: 40, 500: 40, 1000: 10, 2000: 10}
SETS = (
    "breast_vdx150", "breast_veer78", "breast_nki295", "dlbcl_chop414",
    "breast_sotiriou99", "breast_gse3143", "breast_biospear614",
)  # fmt: skip
PAIRS = ((0, 7), (3, 5), (1, 9), (0, 8), (2, 4), (0, 1), (2, 6), (4, 7), (5, 8), (6, 9))
IMAGES = (300, 1000, 10_000)  # of both classes, to train with
LEARNED, START = "crossfit", "start"


class Part(NamedTuple):
    """One row of the scores: what was drawn, and with how many training samples (0: those of a set)."""

    kind: str
    problem: str
    n: int
    draw: Any


def parts(kinds: list[str], largest: int, draws: int) -> Iterator[Part]:
    """List the parts, at most `draws` of each problem and number of samples."""
    if "simulated" in kinds:
        for n, n_draws in DRAWS.items():
            for target in ("normal", *UNLISTED):
                for seed in range(min(draws, n_draws) if n <= largest else 0):
                    yield Part("simulated", target, n, seed)
    if "expression" in kinds:
        for name in SETS[:draws]:
            yield Part("expression", "expression", 0, name)
    if "cifar10" in kinds:
        for n in (n for n in IMAGES if n <= largest):
            for a, b in PAIRS[:draws]:
                yield Part("cifar10", "cifar10", n, f"{a}-{b}")


def run(part: Part, data: Path | None, **options: Any) -> Row:
    """Mean test scores of the default and of its start; `options` go to :func:`suquan.compare`."""
    X, y, outer = {"simulated": _simulated, "expression": _expression, "cifar10": _images}[
        part.kind
    ](part, data)
    usual = {"inner_cv": _folds(2 if part.n <= 1000 else 1), "calibration": None, "n_jobs": 1}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of single fits; the grids reach far on purpose
        found = compare(
            X, y, methods=[LEARNED], outer_cv=outer, progress=False, **usual | options
        ).folds
    method, score = (np.asarray(found[key]) for key in ("method", "score"))
    return part._asdict() | {name: float(score[method == name].mean()) for name in (START, LEARNED)}


def _folds(n_repeats: int) -> RepeatedStratifiedKFold:
    return RepeatedStratifiedKFold(n_splits=3, n_repeats=n_repeats, random_state=0)


def _simulated(part: Part, data: Path | None) -> tuple:
    """Samples of which the labels follow a target; the first n are to train with."""
    target: Any = part.problem
    if target in UNLISTED:
        target = scale(make_target_quantiles(UNLISTED[target], N_FEATURES))
    X, y = make_corrupted_classification(
        part.n + N_TEST, N_FEATURES, target=target, corrupted="uniform", random_state=part.draw
    )
    return X, y, [(np.arange(part.n), np.arange(part.n, len(y)))]


def _expression(part: Part, data: Path | None) -> tuple:
    dataset = load_dataset(part.draw, data, "label")
    return dataset.X, dataset.y, _folds(2)


def _images(part: Part, data: Path | None) -> tuple:
    """First n images of two classes to train with, and all their test images."""
    X, y = _all_images(data)
    pair = [int(label) for label in part.draw.split("-")]
    own = [np.flatnonzero(y == label) for label in pair]
    train = np.concatenate([rows[rows < 50_000][: part.n // 2] for rows in own])
    test = np.concatenate([rows[rows >= 50_000] for rows in own])
    rows = np.r_[train, test]
    outer = [(np.arange(len(train)), np.arange(len(train), len(rows)))]
    return X[rows], (y[rows] == pair[1]).astype(int), outer


@lru_cache(maxsize=1)
def _all_images(data: Path | None) -> tuple[np.ndarray, np.ndarray]:
    return load_cifar10(data)


def main(arguments: list[str] | None = None) -> None:
    """Do what is not done yet, in the order of the kinds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--data", type=Path, default=None)
    parser.add_argument("--kinds", nargs="*", choices=KINDS, default=list(KINDS))
    parser.add_argument("--largest", type=int, default=10_000, help="leave out larger n")
    parser.add_argument("--draws", type=int, default=40, help="at most so many of each problem")
    options = parser.parse_args(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    path = options.out / "scores.csv"
    rows = read_rows(path) if path.is_file() else []
    done = {tuple(row[name] for name in Part._fields) for row in rows}
    for part in parts(options.kinds, options.largest, options.draws):
        if part not in done:
            rows.append(run(part, options.data))
            write_rows(path, rows)
            print(*rows[-1].values(), flush=True)


if __name__ == "__main__":
    main()
