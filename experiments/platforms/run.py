"""Parts: one training set, one test set and one label each. Tables: scores of all methods."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.decomposition import PCA
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import RepeatedStratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from suquan import SuquanClassifierCV
from suquan.calibration import MEASURES, measure_probabilities

from ..calibration.run import logistic_cv
from ..stages import Task
from ..tables import Row, grouped, mean_of
from .batches import feature_quantiles, nonparanormal, z_scores
from .data import FILES, load_platforms, make_labels

ALONE = "alone"  # the batch of methods that score every sample by itself
# Calibration needs two members of each class in every fold.
FEWEST = 6


@dataclass(frozen=True)
class Settings:
    """Directions, labels, methods and grids.

    Attributes
    ----------
    labels : tuple of str
        Subtypes against the rest, and "all" for the five classes.
    few : tuple of str
        Labels for which TCGA, which has four such samples, is left out.
    fixed : tuple of str
        Fixed targets.
    batches : tuple of int
        Numbers of new samples that arrive together; 0: all of them.
    n_repeats : int
        Repetitions of three folds (two where a class has fewer than six members) that choose the penalties.
    n_alphas, n_smoothnesses, n_knots : int
    seed : int
        Of folds, and of the new samples' order.
    """

    labels: tuple[str, ...] = ("LumA", "Basal", "Her2", "all")
    few: tuple[str, ...] = ("Her2",)
    fixed: tuple[str, ...] = ("uniform", "normal", "exponential", "median")
    batches: tuple[int, ...] = (1, 5, 25, 0)
    n_repeats: int = 5
    n_alphas: int = 7
    n_smoothnesses: int = 5
    n_knots: int = 50
    seed: int = 0


PROTOCOLS = {
    "quick": Settings(n_repeats=1, n_alphas=5, n_smoothnesses=3, n_knots=30),
    "paper": Settings(),
}


def tasks(settings: Settings, data: Path | None) -> list[Task]:
    """One part per direction and label."""
    return [
        Task(f"{source}-{goal}-{label}", {"train": source, "test": goal, "label": label})
        for label in settings.labels
        for source, goal in permutations(FILES, 2)
        if not (label in settings.few and "tcga" in (source, goal))
    ]


def run(
    settings: Settings, data: Path | None, arguments: dict[str, Any], n_jobs: int, folder: Path
) -> list[Row]:
    """Scores of all methods in one direction."""
    platforms = load_platforms(data)
    (X, labels), (X_new, labels_new) = (platforms[arguments[key]] for key in ("train", "test"))
    y, y_new = (make_labels(part, arguments["label"]) for part in (labels, labels_new))
    n_folds = 3 if np.unique(y, return_counts=True)[1].min() >= FEWEST else 2
    cv = RepeatedStratifiedKFold(
        n_splits=n_folds, n_repeats=settings.n_repeats, random_state=settings.seed
    )
    with threadpool_limits(1):
        found = [
            (name, ALONE, *score(model.fit(X, y), X_new))
            for name, model in frozen_models(settings, cv).items()
        ]
        found += list(_plain(settings, cv, X, y, X_new))
    classes, codes = np.unique(y, return_inverse=True)
    known, prevalence = np.searchsorted(classes, y_new), np.bincount(codes) / len(codes)
    return [
        {
            **arguments,
            "method": name,
            "batch": batch,
            "auc": _auc(known, u, p),
            **measure_probabilities(p, known, prevalence),
            "classes_named": len(np.unique(np.argmax(p, axis=1))),
        }
        for name, batch, u, p in found
    ]


def frozen_models(settings: Settings, cv: Any) -> dict[str, Any]:
    """Models that are a function of one sample: fixed targets and a learned one, without and with scaling."""
    shared: dict[str, Any] = {
        "alphas": settings.n_alphas,
        "smoothnesses": settings.n_smoothnesses,
        "cv": cv,
        "random_state": settings.seed,
    }
    models = {name: SuquanClassifierCV("fixed", init=name, **shared) for name in settings.fixed}
    models["crossfit"] = SuquanClassifierCV(n_knots=settings.n_knots, **shared)
    if "feature_scaling" in models["crossfit"].get_params():
        for name in (settings.fixed[0], "crossfit"):
            scaled = models[name].get_params(deep=False) | {"feature_scaling": "std"}
            models[f"{name}, scaled"] = SuquanClassifierCV(**scaled)
    return models


def score(model: Any, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Scores and probabilities of new samples."""
    return model.decision_function(X), model.predict_proba(X)


def _plain(
    settings: Settings, cv: Any, X: np.ndarray, y: np.ndarray, X_new: np.ndarray
) -> Iterator[tuple[str, str, np.ndarray, np.ndarray]]:
    """Logistic regression on z-scores: values as they are, and ways that need several new samples at once."""
    n_train = len(y) * (cv.get_n_splits() // settings.n_repeats - 1)
    n_train /= cv.get_n_splits() // settings.n_repeats
    strengths = 1.0 / (2.0 * n_train * X.shape[1] * np.geomspace(1e-6, 1e-1, settings.n_alphas))
    # A rotation to as many components as there are samples: the same ridge fit, in fewer dimensions.
    model, normal = (
        make_pipeline(StandardScaler(), PCA(), logistic_cv(strengths, cv)).fit(values, y)
        for values in (X, nonparanormal(X))
    )
    yield "raw", ALONE, *score(model, X_new)
    centre, spread = X.mean(axis=0), X.std(axis=0)
    ways: dict[str, tuple[Any, Callable[[np.ndarray], np.ndarray]]] = {
        "z-scores of the batch": (model, lambda new: centre + spread * z_scores(new)),
        "FSQN": (model, lambda new: feature_quantiles(new, X)),
        "nonparanormal": (normal, nonparanormal),
    }
    order = np.random.default_rng(settings.seed).permutation(len(X_new))
    for size in settings.batches:
        batches = np.split(order, range(size, len(order), size)) if size else [order]
        for name, (fitted, bring) in ways.items():
            new = np.empty_like(X_new)
            for rows in batches:
                new[rows] = bring(X_new[rows])
            yield name, str(size or "all"), *score(fitted, new)


def _auc(codes: np.ndarray, u: np.ndarray, p: np.ndarray) -> float:
    """Area under the ROC curve; of several classes each against the rest, averaged.

    Samples that are all brought to the same values have scores that differ by rounding alone.
    """
    if u.ndim == 1:
        return float(roc_auc_score(codes, np.round(u, 9)))
    return float(roc_auc_score(codes, np.round(p, 9), multi_class="ovr"))


def tables(settings: Settings, parts: dict[str, list[Row]]) -> dict[str, list[Row]]:
    """All scores; means over the directions of each label; over all of them."""
    rows = [_named(row) for part in parts.values() for row in part]
    means = {name: mean_of(name) for name in ("auc", *MEASURES)}
    return {
        "scores": rows,
        "labels": grouped(rows, ("label", "name", "method", "batch"), **means),
        "summary": grouped(rows, ("name", "method", "batch"), **means),
    }


def _named(row: Row) -> Row:
    """A row with its direction, and with the method and the batch in words."""
    together = "" if row["batch"] == ALONE else f", {row['batch']} at once"
    name = row["method"] + together
    return {"name": name, "direction": f"{row['train']}→{row['test']}", **row}
