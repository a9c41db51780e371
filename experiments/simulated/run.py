"""Fits and their scores; every part is one draw of the samples."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import RepeatedStratifiedKFold
from threadpoolctl import threadpool_limits

from suquan import SuquanClassifier, SuquanClassifierCV, make_target_quantiles
from suquan.datasets import make_corrupted_classification

from ..stages import Task
from ..tables import Row
from .settings import Settings

TRUE = "normal"
ANY = "any"  # methods that see the ranks alone cannot tell one corruption from another


def tasks(settings: Settings, data: Path | None) -> list[Task]:
    """Large draws first: they take longest."""
    listed = []
    largest = max(settings.n_samples)
    for n in sorted(settings.n_samples, reverse=True):
        for seed in range(settings.seeds):
            for corruption in (ANY, *settings.corruptions):
                listed.append(_task("curves", n=n, seed=seed, corruption=corruption))
    for seed in range(settings.start_seeds):
        for corruption in settings.corruptions:
            listed.append(_task("start", n=largest, seed=seed, corruption=corruption))
    for n in settings.round_samples:
        for seed in range(settings.round_seeds):
            for corruption in settings.corruptions:
                listed.append(_task("rounds", n=n, seed=seed, corruption=corruption))
    return listed


def _task(kind: str, **arguments: Any) -> Task:
    name = "-".join([kind, *(str(value) for value in arguments.values())])
    return Task(name, {"kind": kind, **arguments})


def run(
    settings: Settings, data: Path | None, arguments: dict[str, Any], n_jobs: int, folder: Path
) -> list[Row]:
    """Rows of one part: scores of all methods on one draw."""
    n, seed, corruption = arguments["n"], arguments["seed"], arguments["corruption"]
    X, y = make_corrupted_classification(
        n + settings.n_test,
        settings.n_features,
        target=TRUE,
        corrupted=TRUE if corruption == ANY else corruption,
        random_state=seed,
    )
    draw = (X[:n], y[:n], X[n:], y[n:])
    with threadpool_limits(1):
        if arguments["kind"] == "rounds":
            return _rounds(settings, draw, arguments)
        return [
            row | {"n": n, "seed": seed, "corruption": corruption}
            for name, parameters in _methods(settings, arguments).items()
            for row in _fits(settings, draw, name, parameters)
        ]


def _methods(settings: Settings, arguments: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Parameters of the methods of a part.

    spav_small is SPAV with smoothness below the paper's grid too; crossfit_learned is crossfit that may not
    stay with its start.
    """
    paper = {"alphas": settings.alphas, "smoothnesses": settings.smoothnesses, "init": "median"}
    wide = {"smoothnesses": settings.small_smoothnesses + settings.smoothnesses}
    ours = {"alphas": settings.n_alphas, "smoothnesses": settings.n_smoothnesses}
    if arguments["kind"] == "start":
        return {"crossfit_corrupted": {"method": "crossfit", "init": "median", **ours}}
    if arguments["corruption"] == ANY:
        return {
            "true": {"method": "fixed", "alphas": settings.alphas, "init": TRUE},
            "uniform": {"method": "fixed", "alphas": settings.n_alphas, "init": "uniform"},
            "joint": {"method": "joint", **ours},
            "crossfit": {"method": "crossfit", **ours},
            "crossfit_learned": {"method": "crossfit", "departures": [1.0], **ours},
        }
    return {
        "corrupted": {"method": "fixed", "alphas": settings.alphas, "init": "median"},
        "bnd": {"method": "bnd", **paper},
        "spav": {"method": "spav", **paper},
        "spav_small": {"method": "spav", **paper, **wide},
    }


def _search(
    settings: Settings, n: int, selection: str, parameters: dict[str, Any]
) -> SuquanClassifierCV:
    """Choice of the penalties on n training samples, by one rule."""
    folds = RepeatedStratifiedKFold(
        n_splits=settings.inner_folds, n_repeats=settings.repeats(n), random_state=0
    )
    return SuquanClassifierCV(
        cv=folds,
        scoring="roc_auc",
        selection=selection,
        calibration=None,  # scores alone are asked for
        random_state=0,
        **parameters,
    )


def _fits(settings: Settings, draw: tuple, name: str, parameters: dict[str, Any]) -> list[Row]:
    """Test scores of one method with the settings that each rule chooses from the same inner folds."""
    X, y, X_test, y_test = draw
    is_smooth = parameters["method"] not in ("fixed", "bnd")  # what "smoothed" needs
    rows = []
    for selection in ("best", "smoothed") if is_smooth else ("best",):
        start = time.perf_counter()
        model = _search(settings, len(X), selection, parameters).fit(X, y)
        rows.append(
            {
                "method": name,
                "selection": selection,
                "auc": float(roc_auc_score(y_test, model.decision_function(X_test))),
                "distance": distance(model.target_quantiles_),
                "alpha": model.alpha_,
                "smoothness": model.smoothness_,
                "departure": model.departure_,
                "seconds": time.perf_counter() - start,
            }
        )
    return rows


def distance(f: np.ndarray) -> float:
    """Euclidean distance of a standardised target to the standardised true one."""
    return float(np.linalg.norm(standardise(f) - standardise(make_target_quantiles(TRUE, len(f)))))


def standardise(f: np.ndarray) -> np.ndarray:
    """Mean 0, mean square 1."""
    f = f - f.mean()
    return f / np.sqrt(np.mean(f**2))


def _rounds(settings: Settings, draw: tuple, arguments: dict[str, Any]) -> list[Row]:
    """Test scores after each number of rounds from the corrupted target, penalties chosen for one."""
    X, y, X_test, y_test = draw
    paper = {"alphas": settings.alphas, "smoothnesses": settings.smoothnesses}
    ours = {"alphas": settings.n_alphas, "smoothnesses": settings.n_smoothnesses}
    rows = []
    for method, grids in (("bnd", paper), ("spav", paper), ("joint", ours), ("crossfit", ours)):
        parameters = {"method": method, "init": "median", "max_rounds": 1, **grids}
        chosen = _search(settings, len(X), "best", parameters).fit(X, y)
        for rounds in range(1, settings.max_rounds + 1):
            model = SuquanClassifier(
                method,
                alpha=chosen.alpha_,
                smoothness=chosen.smoothness_,
                init="median",
                max_rounds=rounds,
                random_state=0,
            ).fit(X, y)
            rows.append(
                {
                    "method": method,
                    "rounds": rounds,
                    "auc": float(roc_auc_score(y_test, model.decision_function(X_test))),
                    "distance": distance(model.target_quantiles_),
                    "rounds_done": int(model.n_rounds_),
                    "n": arguments["n"],
                    "seed": arguments["seed"],
                    "corruption": arguments["corruption"],
                }
            )
    return rows
