"""Fits of all families: ``python -m experiments.no_harm.run --out DIR [--data DIR] [--kinds KIND ...]``.

Every part (one draw, one outer fold of a data set, one pair of pictures) is a JSON file in ``DIR/parts``; what
is done is not done again. With ``--new``, neither is what the stored results hold; ``table --add`` joins both.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.model_selection import RepeatedStratifiedKFold, StratifiedKFold
from sklearn.preprocessing import scale
from threadpoolctl import threadpool_limits

from benchmarks.study_verdict import FIXED, LISTED, UNLISTED, make_problem
from suquan import compare, make_target_quantiles
from suquan.datasets import make_corrupted_classification
from suquan.files.disk import replace_file
from suquan.selection.folds import make_splits, test_share

from ..cifar10.images import load_cifar10
from ..expression.data import load_dataset
from ..stages import Task
from ..tables import read_rows
from .families import Families, Grid, fold_scores

RESULTS = Path(__file__).resolve().parents[1] / "results" / "no_harm"
N_FEATURES, N_TEST = 500, 2000
# Draws by the number of samples: of the normal target, and of each unlisted one.
DRAWS = {100: (40, 40), 200: (40, 40), 500: (40, 40), 1000: (10, 10), 2000: (10, 10)}
SETS = (
    "breast_vdx150", "breast_veer78", "breast_nki295", "dlbcl_chop414",
    "breast_sotiriou99", "breast_gse3143", "breast_biospear614",
)  # fmt: skip
PAIRS = ((0, 7), (3, 5), (1, 9), (0, 8), (2, 4), (0, 1), (2, 6), (4, 7), (5, 8), (6, 9))
PICTURES = {300: 10, 1000: 10, 10_000: 10}  # pairs by the number of training pictures
N_VERDICTS = 3  # of each true target
VARIANTS = {
    "knots_10": (Grid(n_knots=10), ""),
    "knots_5": (Grid(n_knots=5), ""),
    "departure": (Grid(smoothnesses=(1e-4, 1e-2, 1.0)), "departure"),
}


def tasks(kinds: list[str]) -> Iterator[Task]:
    """Parts of the work, the quick ones first."""
    for kind in kinds:
        yield from _LISTS[kind]()


def _simulated() -> Iterator[Task]:
    for n, (listed, unlisted) in DRAWS.items():
        for target in ("normal", *UNLISTED):
            for seed in range(listed if target == "normal" else unlisted):
                yield _draw("simulated", target, n, seed)


def _variants() -> Iterator[Task]:
    for target, n_draws in (("normal", 10), ("skewed mixture", 5)):
        for seed in range(n_draws):
            yield _draw("variants", target, 100, seed)


def _draw(kind: str, target: str, n: int, seed: int) -> Task:
    name = f"{kind}-{target.replace(' ', '_')}-{n}-{seed}"
    return Task(name, {"kind": kind, "target": target, "n": n, "seed": seed})


def _verdicts() -> Iterator[Task]:
    for seed in range(N_VERDICTS):
        for target in (*UNLISTED, *LISTED):
            yield _draw("verdict", target, 2000, seed)


def _expression() -> Iterator[Task]:
    for name in SETS:
        yield Task(f"expression-{name}", {"kind": "expression", "set": name})


def _pictures() -> Iterator[Task]:
    for n, n_pairs in PICTURES.items():
        for a, b in PAIRS[:n_pairs]:
            yield Task(f"cifar10-{n}-{a}-{b}", {"kind": "cifar10", "pair": [a, b], "n": n})


_LISTS = {
    "simulated": _simulated,
    "variants": _variants,
    "expression": _expression,
    "cifar10": _pictures,
    "verdict": _verdicts,
}


def label(arguments: dict[str, Any]) -> tuple[Any, Any, Any]:
    """Problem, number of samples and draw of a part, as the tables name them."""
    if arguments["kind"] == "expression":
        return "expression", 0, arguments["set"]
    if arguments["kind"] == "cifar10":
        return "cifar10", arguments["n"], "-".join(map(str, arguments["pair"]))
    return arguments["target"], arguments["n"], arguments["seed"]


def run(arguments: dict[str, Any], data: Path | None) -> dict[str, Any]:
    """One part: scores by family, setting and fold, and of the fits to all training samples."""
    return _RUNS[arguments["kind"]](arguments, data)


def _judge(families: Families, train: np.ndarray, test: np.ndarray, inner: Any) -> dict[str, Any]:
    """Scores inside the training samples, and on the test samples."""
    splits = make_splits(inner, families.data, train, 0, "inner")
    return {
        "alphas": [c.alpha for c in families.learned],
        "smoothnesses": [c.smoothness for c in families.learned],
        "share": test_share(splits),
        "inner": fold_scores(families, splits),
        "test": families.scores(train, test),
    }


def _draw_samples(arguments: dict[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    target = arguments["target"]
    if target in UNLISTED:
        target = scale(make_target_quantiles(UNLISTED[target], N_FEATURES))
    return make_corrupted_classification(
        arguments["n"] + N_TEST, N_FEATURES,
        target=target, corrupted="uniform", random_state=arguments["seed"],
    )  # fmt: skip


def _inner(n_repeats: int) -> RepeatedStratifiedKFold:
    return RepeatedStratifiedKFold(n_splits=3, n_repeats=n_repeats, random_state=0)


def _run_simulated(arguments: dict[str, Any], data: Path | None) -> dict[str, Any]:
    X, y = _draw_samples(arguments)
    rows, n = np.arange(len(y)), arguments["n"]
    families = Families.of(X, y, Grid(), arguments["seed"])
    found = _judge(families, rows[:n], rows[n:], _inner(2))
    found["default"] = families.inside_one_fit(
        rows[:n], rows[n:], 3e-4 * N_FEATURES, 1e-4 * N_FEATURES
    )
    return found


def _run_variants(arguments: dict[str, Any], data: Path | None) -> dict[str, Any]:
    X, y = _draw_samples(arguments)
    rows, n = np.arange(len(y)), arguments["n"]
    return {
        name: _judge(
            Families.of(X, y, grid, arguments["seed"], penalty), rows[:n], rows[n:], _inner(2)
        )
        for name, (grid, penalty) in VARIANTS.items()
    }


def _run_verdict(arguments: dict[str, Any], data: Path | None) -> dict[str, Any]:
    """One comparison of ``benchmarks.study_verdict``: the same samples, folds and grids."""
    seed = arguments["seed"]
    X, y = make_problem(arguments["target"], seed)
    grid = Grid(tuple(np.geomspace(1e-6, 1e-1, 4)), (0.0, 1e-5, 1e-2), None)
    families = Families.of(X, y, grid, seed)
    outer_cv = RepeatedStratifiedKFold(n_splits=3, n_repeats=2, random_state=seed)
    outer = make_splits(outer_cv, families.data, np.arange(len(y)), seed, "outer")
    fixed = compare(
        X, y, methods=list(FIXED), outer_cv=outer_cv, inner_cv=StratifiedKFold(3),
        alphas=4, smoothnesses=3, random_state=seed, progress=False,
    )  # fmt: skip
    best = fixed.folds["score"][fixed.folds["method"] == "best_fixed"]
    return {
        "share": test_share(outer),
        "best_fixed": best.tolist(),
        "folds": [_judge(families, train, test, StratifiedKFold(3)) for train, test in outer],
    }


def _run_expression(arguments: dict[str, Any], data: Path | None) -> dict[str, Any]:
    loaded = load_dataset(arguments["set"], data, "label")
    families = Families.of(loaded.X, loaded.y, Grid(), 0).with_grams(36)
    outer = make_splits(_inner(2), families.data, np.arange(len(loaded.y)), 0, "outer")
    return {
        "share": test_share(outer),
        "folds": [_judge(families, train, test, _inner(2)) for train, test in outer],
    }


@lru_cache(maxsize=1)
def _all_pictures(data: Path | None) -> tuple[np.ndarray, np.ndarray]:
    return load_cifar10(data)


def _run_pictures(arguments: dict[str, Any], data: Path | None) -> dict[str, Any]:
    X, y = _all_pictures(data)
    n, pair, train, test = arguments["n"], arguments["pair"], [], []
    for label in pair:
        rows = np.flatnonzero(y == label)
        train.append(rows[rows < 50_000][: n // 2])
        test.append(rows[rows >= 50_000])
    rows = np.concatenate([*train, *test])
    many = n > 1000
    grid = Grid(
        (1e-5, 1e-4, 1e-3) if many else (1e-4, 1e-3, 1e-2, 1e-1),
        (0.0, 1e-5) if many else (0.0, 1e-5, 1e-3),
        32 if many else 30,
        1 if many else 3,
    )
    families = Families.of(X[rows], (y[rows] == pair[1]).astype(int), grid, 0)
    places = np.arange(len(rows))
    return _judge(families, places[:n], places[n:], _inner(1 if many else 2))


_RUNS = {
    "simulated": _run_simulated,
    "variants": _run_variants,
    "verdict": _run_verdict,
    "expression": _run_expression,
    "cifar10": _run_pictures,
}


def main() -> None:
    """Do what is not done yet, in the order of the kinds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--data", type=Path, default=None)
    parser.add_argument("--kinds", nargs="*", choices=list(_LISTS), default=list(_LISTS))
    parser.add_argument("--largest", type=int, default=10_000, help="leave out larger n")
    parser.add_argument("--new", action="store_true", help="leave out what the stored results hold")
    options = parser.parse_args()
    folder = options.out / "parts"
    folder.mkdir(parents=True, exist_ok=True)
    stored = read_rows(RESULTS / "scores.csv") if options.new else []
    kept = {(row["kind"], row["problem"], row["n"], row["draw"]) for row in stored}
    for task in tasks(options.kinds):
        path = folder / f"{task.name}.json"
        if path.is_file() or task.arguments.get("n", 0) > options.largest:
            continue
        if (task.arguments["kind"], *label(task.arguments)) in kept:
            continue
        start = time.perf_counter()
        with warnings.catch_warnings(), threadpool_limits(1):
            warnings.simplefilter("ignore")
            text = json.dumps(task.arguments | run(task.arguments, options.data))
        replace_file(path, lambda file, text=text: file.write(text.encode()))
        print(task.name, f"{time.perf_counter() - start:.1f} s", flush=True)


if __name__ == "__main__":
    main()
