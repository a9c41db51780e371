"""Nested comparisons; every part is one set of patients, or one draw of the simulation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.model_selection import RepeatedStratifiedKFold

from suquan import SuquanClassifierCV, compare
from suquan.comparison import Comparison
from suquan.datasets import make_corrupted_survival
from suquan.io import survival_labels
from suquan.survival import as_outcome

from ..expression.data import data_folder
from ..stages import Task
from .settings import HORIZONS, Settings


class CutAtHorizon(BaseEstimator):
    """A classifier of "event by the horizon"; samples censored before it are dropped from its training.

    Its scores are compared with the times of all test samples, censored ones too.
    """

    def __init__(self, horizon: float = 1.0, parameters: Any = None) -> None:
        self.horizon, self.parameters = horizon, parameters

    def fit(self, X: np.ndarray, y: np.ndarray) -> CutAtHorizon:
        """Fit to the samples whose label is known."""
        labels = survival_labels(y["time"], y["event"].astype(float), self.horizon)
        self.model_ = SuquanClassifierCV(calibration=None, **self.parameters).fit(
            X[labels.keep], labels.y
        )
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        """Score for an early event."""
        return self.model_.decision_function(X)


def extremes(q: np.ndarray) -> np.ndarray:
    """A target that no fixed one looks like: −3 in the lowest tenth, 3 in the highest, 0 between."""
    return np.where(q > 0.9, 3.0, 0.0) - np.where(q < 0.1, 3.0, 0.0)


def check(settings: Settings, data: Path | None) -> None:
    """Raise a ValueError for an unknown set, or one that is not there."""
    for name in settings.datasets:
        if name not in HORIZONS:
            raise ValueError(f"unknown data set {name!r}; known are {', '.join(HORIZONS)}.")
        if not (data_folder(data) / f"{name}.npz").is_file():
            raise ValueError(f"{data_folder(data)} has no {name}.npz.")


def tasks(settings: Settings, data: Path | None) -> list[Task]:
    """The sets, then the draws."""
    draws = [
        Task(f"{truth}-{n}-{seed}", {"truth": truth, "n": n, "seed": seed})
        for truth in settings.truths
        for n in settings.sizes
        for seed in range(settings.seeds)
    ]
    return [Task(name, {"dataset": name}) for name in settings.datasets] + draws


def run(
    settings: Settings, data: Path | None, arguments: dict[str, Any], n_jobs: int, folder: Path
) -> dict[str, Any]:
    """Scores of the outer folds of one part, and what the verdict says."""
    seed = arguments.get("seed", 0)
    if "dataset" in arguments:
        X, y = load(arguments["dataset"], data)
        horizon = HORIZONS[arguments["dataset"]]
    else:
        truth = arguments["truth"]
        X, y = make_corrupted_survival(
            arguments["n"], settings.n_features, target=extremes if truth == "extremes" else truth,
            corrupted="normal", strength=settings.strength, censored=settings.censored,
            random_state=seed,
        )  # fmt: skip
        horizon = float(np.median(y["time"]))
    result = nested(settings, X, y, horizon, seed)
    columns = {name: values.tolist() for name, values in result.folds.items()}
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    kept = ("method", "repeat", "fold", "score")
    contrasts = {key: result.contrasts[key].tolist() for key in ("difference", "low", "high")}
    groups = result.risk_groups
    assert groups is not None
    return {
        **arguments,
        "samples": len(y),
        "features": X.shape[1],
        "events": int(y["event"].sum()),
        "rows": [{key: row[key] for key in kept} for row in rows],
        # Learned − best_fixed, and learned − start.
        **{key: values[1] for key, values in contrasts.items()},
        **{f"learning_{key}": values[0] for key, values in contrasts.items()},
        "p_groups": groups.p_value,
    }


def load(name: str, data: Path | None) -> tuple[np.ndarray, np.ndarray]:
    """Samples and outcomes of a set, events known; features with filled values are left out."""
    with np.load(data_folder(data) / f"{name}.npz") as file:
        X, time, event = file["X"], file["time"], file["event"]
        if "n_missing" in file.files:
            X = X[:, file["n_missing"] == 0]
    known = (event >= 0) & np.isfinite(time)
    y = as_outcome(np.column_stack([time[known], event[known]]))
    return np.ascontiguousarray(X[known], dtype=np.float32), y


def nested(
    settings: Settings, X: np.ndarray, y: np.ndarray, horizon: float | None, seed: int
) -> Comparison:
    """Cox's models and, with a horizon, classifiers of the label that it makes, on the same outer folds."""
    outer, inner = (
        RepeatedStratifiedKFold(n_splits=3, n_repeats=n, random_state=seed)
        for n in (settings.outer_repeats, settings.inner_repeats)
    )
    n_knots = min(settings.n_knots, X.shape[1])
    grids = {"alphas": settings.n_alphas, "smoothnesses": settings.n_smoothnesses}
    methods: list[Any] = ["raw", *settings.fixed, "crossfit"]
    if horizon is not None:
        shared = {**grids, "n_knots": n_knots, "cv": inner, "random_state": seed}
        methods += [
            (f"{name}_cut", CutAtHorizon(horizon, {**shared, **parameters}))
            for name, parameters in (
                ("uniform", {"method": "fixed"}),
                ("crossfit", {"method": "crossfit"}),
            )
        ]
    return compare(
        X, y, scoring="concordance", methods=methods, outer_cv=outer, inner_cv=inner, n_knots=n_knots,
        random_state=seed, progress=False, **grids,
    )  # fmt: skip
