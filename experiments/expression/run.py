"""Nested cross-validation of all methods; every part is one data set."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from sklearn.model_selection import RepeatedStratifiedKFold

from suquan import compare
from suquan.comparison import Comparison

from ..stages import Task
from ..tables import Row
from .data import DataSet, data_folder, load_dataset
from .settings import Settings

FIXED = ("raw", "cauchy", "exponential", "uniform", "normal", "median")
PAPER = ("svd", "f0", "bnd", "spav")
OURS = ("joint", "crossfit")
# Named before any outer fold is looked at.
DEFAULT = "crossfit"
N_PLACES = 200  # at which targets are kept for the figure


def tasks(settings: Settings, data: Path | None) -> list[Task]:
    """One part per data set."""
    data_folder(data)
    return [Task(name, {"dataset": name}) for name in settings.datasets]


def run(
    settings: Settings, data: Path | None, arguments: dict[str, Any], n_jobs: int, folder: Path
) -> Any:
    """Fold by fold scores of all methods on the same folds, and some of the learned targets."""
    name = arguments["dataset"]
    dataset = load_dataset(name, data, settings.label)
    # The paper's methods start from the median; ours, and the fixed targets, do not look at the values.
    results = [
        _compare(settings, dataset.X, dataset.y, (*FIXED, *OURS), n_jobs, folder / "ours"),
        _compare(settings, dataset.X, dataset.y, PAPER, n_jobs, folder / "paper", init="median"),
    ]
    rows = [row for result in results for row in _rows(name, result)]
    if dataset.after_rma is not None:
        result = _compare(settings, dataset.after_rma, dataset.y, ("raw",), n_jobs, folder / "rma")
        rows += [row | {"method": "rma"} for row in _rows(name, result) if row["method"] == "raw"]
    return {
        "rows": rows,
        "test_share": 1.0 / (settings.outer_folds - 1.0),
        "verdict": results[0].verdict,
        "targets": {
            method: _read_places(results[k].targets[method][0])
            for k, method in ((0, "crossfit"), (1, "spav"))
        },
        "about": _about(dataset),
    }


def _compare(
    settings: Settings,
    X: np.ndarray,
    y: np.ndarray,
    methods: Any,
    n_jobs: int,
    place: Path,
    **more: Any,
) -> Comparison:
    folds = [
        RepeatedStratifiedKFold(n_splits=n_splits, n_repeats=n_repeats, random_state=0)
        for n_splits, n_repeats in (
            (settings.outer_folds, settings.outer_repeats),
            (settings.inner_folds, settings.inner_repeats),
        )
    ]
    p = X.shape[1]
    return compare(
        X,
        y,
        methods=list(methods),
        outer_cv=folds[0],
        inner_cv=folds[1],
        alphas=np.array(settings.alphas) * p,
        smoothnesses=np.array(settings.smoothnesses) * p,
        n_knots=min(settings.n_knots, p) or None,
        n_jobs=n_jobs,
        checkpoint=place,
        progress=False,
        **more,
    )


def _rows(name: str, result: Comparison) -> list[Row]:
    keys = ("method", "repeat", "fold", "score", "alpha", "smoothness", "rounds", "seconds")
    columns = [result.folds[key].tolist() for key in keys]
    return [
        {"dataset": name} | dict(zip(keys, row, strict=True)) for row in zip(*columns, strict=True)
    ]


def _read_places(f: np.ndarray) -> list[float]:
    places = np.linspace(0, len(f) - 1, min(N_PLACES, len(f))).round().astype(int)
    return np.round(f[places], 5).tolist()


def _about(dataset: DataSet) -> Row:
    return {
        "samples": len(dataset.y),
        "positives": int(dataset.y.sum()),
        "features": int(dataset.X.shape[1]),
    }
