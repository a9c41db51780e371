"""Parts of the work: draws of simulated samples, pairs of classes of pictures, expression sets."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path
from typing import Any

from sklearn.model_selection import RepeatedStratifiedKFold
from threadpoolctl import threadpool_limits

from suquan import compare

from ..expression.data import load_dataset
from ..stages import Task
from .pictures import run_knots, run_pair
from .settings import FIXED, Settings
from .simulation import run_rank_one, run_rank_three


def tasks(settings: Settings, data: Path | None) -> list[Task]:
    """Parts of the studies in their order; pairs of neighbouring classes first."""
    listed = {
        "simulation": [_task("rank1", seed=seed) for seed in range(settings.seeds)]
        + [
            _task("rank3", n=n, p=p, seed=seed)
            for seed in range(settings.seeds)
            for n, p in settings.simulated
        ],
        "knots": [_task("knots", pair=pair) for pair in pairs(settings.size_pairs)],
        "sizes": [
            _pair_task(n, pair) for n in settings.sizes for pair in pairs(settings.size_pairs)
        ],
        "pairs": [_pair_task(2 * settings.n_train, pair) for pair in pairs(settings.pairs)],
        "expression": [_task("expression", dataset=name) for name in settings.datasets],
    }
    chosen = [task for study in settings.studies for task in listed[study]]
    return list({task.name: task for task in chosen}.values())


def pairs(n_pairs: int) -> list[tuple[int, int]]:
    """Pairs of the ten classes, neighbours in their list first."""
    return sorted(combinations(range(10), 2), key=lambda pair: pair[1] - pair[0])[:n_pairs]


def _pair_task(n: int, pair: tuple[int, int]) -> Task:
    return Task(f"pair-{n}-{pair[0]}-{pair[1]}", {"kind": "pair", "n": n, "pair": list(pair)})


def _task(kind: str, **arguments: Any) -> Task:
    values = (value if isinstance(value, tuple) else (value,) for value in arguments.values())
    name = "-".join([kind, *(str(value) for part in values for value in part)])
    return Task(name, {"kind": kind, **arguments})


def run(
    settings: Settings, data: Path | None, arguments: dict[str, Any], n_jobs: int, folder: Path
) -> Any:
    """One part."""
    kind = arguments["kind"]
    with threadpool_limits(1):
        if kind == "rank1":
            return run_rank_one(settings, arguments["seed"])
        if kind == "rank3":
            return run_rank_three(settings, arguments["n"], arguments["p"], arguments["seed"])
        if kind == "pair":
            return run_pair(settings, data, arguments)
        if kind == "knots":
            return run_knots(settings, data, arguments["pair"])
        return _expression(settings, data, arguments["dataset"], folder)


def _expression(settings: Settings, data: Path | None, name: str, folder: Path) -> Any:
    """Scores of all folds on one expression set, and the verdict."""
    dataset = load_dataset(name, data, "label")
    outer, inner = (
        RepeatedStratifiedKFold(n_splits=3, n_repeats=n_repeats, random_state=0)
        for n_repeats in (settings.outer_repeats, 1)
    )
    result = compare(
        dataset.X,
        dataset.y,
        methods=["raw", *FIXED, "joint", "crossfit", "matrix", "multi"],
        outer_cv=outer,
        inner_cv=inner,
        alphas=settings.n_alphas,
        smoothnesses=settings.n_smoothnesses,
        n_knots=min(20, dataset.X.shape[1]),
        n_targets=3,
        n_jobs=1,
        checkpoint=folder,
        progress=False,
    )
    keys = ("method", "repeat", "fold", "score", "alpha", "seconds")
    columns = [result.folds[key].tolist() for key in keys]
    rows = [
        {"dataset": name, **dict(zip(keys, row, strict=True))} for row in zip(*columns, strict=True)
    ]
    tests = [
        {
            "dataset": name,
            "method": method,
            "other": other,
            "difference": float(mean),
            "low": float(low),
            "high": float(high),
        }
        for method, other, mean, low, high in zip(
            *(result.tests[key] for key in ("method", "other", "difference", "low", "high")),
            strict=True,
        )
        if other in ("start", "best_fixed") and method in ("joint", "crossfit", "matrix", "multi")
    ]
    return {"rows": rows, "tests": tests, "verdict": result.verdict}
