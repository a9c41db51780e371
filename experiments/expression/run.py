"""Nested cross-validation of all methods; every part is one data set."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.model_selection import RepeatedStratifiedKFold

from suquan import compare
from suquan.comparison import Comparison

from ..stages import Task
from ..tables import Row
from .cohort import cohorts, description, labelled_files, load_cohort
from .data import DataSet, data_folder, load_dataset
from .settings import Settings
from .training_rma import training_rma

FIXED = ("raw", "cauchy", "exponential", "uniform", "normal", "median")
PAPER = ("svd", "f0", "bnd", "spav")
OURS = ("joint", "crossfit")
SVD_FULL = "svd_full"  # svd with one target value per feature, beside that with knots
# Named before any outer fold is looked at.
DEFAULT = "crossfit"
N_PLACES = 200  # at which targets are kept for the figure


def tasks(settings: Settings, data: Path | None) -> list[Task]:
    """One part per data set."""
    return [Task(name, {"dataset": name}) for name in cohorts(settings) or settings.datasets]


def check(settings: Settings, data: Path | None) -> None:
    """Refuse what cannot be run before anything is written."""
    if not settings.cel:
        data_folder(data)
    for cohort in cohorts(settings).values():
        labelled_files(cohort, settings)


def run(
    settings: Settings, data: Path | None, arguments: dict[str, Any], n_jobs: int, folder: Path
) -> Any:
    """Fold by fold scores of all methods on the same folds, and some of the learned targets."""
    name = arguments["dataset"]
    given = cohorts(settings)
    about: Row = {}
    if given:
        dataset = load_cohort(given[name], settings)
        about = description(given[name], settings)
    else:
        dataset = load_dataset(name, data, settings.label)
    X, y = dataset.X, dataset.y
    # The paper's methods start from the median; ours, and the fixed targets, do not look at the values.
    ours = _compare(settings, X, y, (*FIXED, *OURS), n_jobs, folder / "ours")
    paper = _compare(settings, X, y, PAPER, n_jobs, folder / "paper", init="median")
    rows = _rows(name, ours) + _rows(name, paper)
    if 0 < settings.n_knots < X.shape[1]:
        full = replace(settings, n_knots=0)
        result = _compare(full, X, y, ("svd",), n_jobs, folder / SVD_FULL, init="median")
        rows += _rows(name, result, SVD_FULL)
    if dataset.probes is not None and dataset.probeset is not None:
        for k, split in enumerate(_folds(settings)[0].split(X, y)):
            expression = training_rma(dataset.probes, dataset.probeset, split[0])
            place = folder / f"rma-{k}"
            result = _compare(settings, expression, y, ("raw",), n_jobs, place, outer_cv=[split])
            repeat, fold = divmod(k, settings.outer_folds)
            rows += [row | {"repeat": repeat, "fold": fold} for row in _rows(name, result, "rma")]
    return {
        "rows": rows,
        "test_share": 1.0 / (settings.outer_folds - 1.0),
        "verdict": ours.verdict,
        "targets": {
            method: _read_places(result.targets[method][0])
            for result, method in ((ours, "crossfit"), (paper, "spav"))
        },
        "about": about | _about(dataset),
    }


def _folds(settings: Settings) -> list[RepeatedStratifiedKFold]:
    """Outer and inner folds."""
    return [
        RepeatedStratifiedKFold(n_splits=n_splits, n_repeats=n_repeats, random_state=0)
        for n_splits, n_repeats in (
            (settings.outer_folds, settings.outer_repeats),
            (settings.inner_folds, settings.inner_repeats),
        )
    ]


def _compare(
    settings: Settings,
    X: np.ndarray,
    y: np.ndarray,
    methods: Any,
    n_jobs: int,
    place: Path,
    **more: Any,
) -> Comparison:
    outer, inner = _folds(settings)
    p = X.shape[1]
    smoothnesses = [value for value in settings.smoothnesses if value > 0 or methods != PAPER]
    grids = {
        "outer_cv": outer,
        "alphas": np.array(settings.alphas) * p,
        "smoothnesses": np.array(smoothnesses) * p,
    }
    return compare(
        X,
        y,
        methods=list(methods),
        inner_cv=inner,
        n_knots=min(settings.n_knots, p) or None,
        n_jobs=n_jobs,
        checkpoint=place,
        progress=False,
        **grids | more,
    )


def _rows(name: str, result: Comparison, only: str = "") -> list[Row]:
    """Scores of all methods, or of the one that was compared, by another name."""
    keys = ("method", "repeat", "fold", "score", "alpha", "smoothness", "rounds", "seconds")
    columns = [result.folds[key].tolist() for key in keys]
    rows = [
        {"dataset": name} | dict(zip(keys, row, strict=True)) for row in zip(*columns, strict=True)
    ]
    first = rows[0]["method"]
    return [row | {"method": only} for row in rows if row["method"] == first] if only else rows


def _read_places(f: np.ndarray) -> list[float]:
    places = np.linspace(0, len(f) - 1, min(N_PLACES, len(f))).round().astype(int)
    return np.round(f[places], 5).tolist()


def _about(dataset: DataSet) -> Row:
    return {
        "samples": len(dataset.y),
        "positives": int(dataset.y.sum()),
        "features": int(dataset.X.shape[1]),
    }
