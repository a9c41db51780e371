"""Parts: nested folds of one data set, the same for every method. Tables: log losses and their means."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegressionCV
from sklearn.model_selection import RepeatedStratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import scale
from threadpoolctl import threadpool_limits

from suquan import QuantileNormalizer, compare, make_target_quantiles
from suquan.calibration import MEASURES

from ..expression.data import load_dataset
from ..stages import Task
from ..tables import Row, grouped, mean_of

REFERENCE = "logistic_cv"
# Calibrations by the name that a method gets after it.
KINDS = {"sigmoid": "sigmoid", "isotonic": "isotonic", "none": None}


@dataclass(frozen=True)
class Settings:
    """Sets, folds and grids.

    Attributes
    ----------
    datasets : tuple of str
    methods : tuple of str
        Of :func:`suquan.compare`; the logistic regression is on samples of the uniform target.
    outer_repeats, inner_repeats : int
        Repetitions of three folds.
    n_alphas, n_smoothnesses : int
        Sizes of the automatic grids; the logistic regression has the same strengths.
    n_knots : int
    """

    datasets: tuple[str, ...] = (
        "breast_nki295",
        "dlbcl_chop414",
        "breast_biospear614",
        "breast_vdx150",
        "breast_gse3143",
    )
    methods: tuple[str, ...] = ("uniform", "crossfit")
    outer_repeats: int = 5
    inner_repeats: int = 5
    n_alphas: int = 7
    n_smoothnesses: int = 5
    n_knots: int = 50


PROTOCOLS = {
    "quick": Settings(outer_repeats=2, inner_repeats=2, n_smoothnesses=3, n_knots=30),
    "paper": Settings(),
}


def tasks(settings: Settings, data: Path | None) -> list[Task]:
    """One part per data set."""
    return [Task(name, {"dataset": name}) for name in settings.datasets]


def run(
    settings: Settings, data: Path | None, arguments: dict[str, Any], n_jobs: int, folder: Path
) -> list[Row]:
    """Rows of all methods and outer folds on one set."""
    dataset = load_dataset(arguments["dataset"], data, "label")
    X, y = np.asarray(dataset.X, dtype=np.float64), dataset.y
    outer, inner = (
        RepeatedStratifiedKFold(n_splits=3, n_repeats=n_repeats, random_state=0)
        for n_repeats in (settings.outer_repeats, settings.inner_repeats)
    )
    shared: dict[str, Any] = {
        "outer_cv": outer,
        "inner_cv": inner,
        "alphas": settings.n_alphas,
        "smoothnesses": settings.n_smoothnesses,
        "n_knots": min(settings.n_knots, X.shape[1]),
        "n_jobs": n_jobs,
        "progress": False,
    }
    rows: list[Row] = []
    with threadpool_limits(1):
        for name, kind in KINDS.items():
            methods: list[Any] = list(settings.methods)
            if kind is None:
                methods.append((REFERENCE, _logistic(X.shape[1], len(y), settings, inner)))
            result = compare(X, y, methods=methods, calibration=kind, **shared)
            keys = ("method", "repeat", "fold", "score", *MEASURES)
            for row in zip(*(result.folds[key].tolist() for key in keys), strict=True):
                found = {"dataset": arguments["dataset"], **dict(zip(keys, row, strict=True))}
                if found["method"] not in ("start", "best_fixed"):
                    found["calibration"] = "" if found["method"] == REFERENCE else name
                    rows.append(found)
    return rows


def _logistic(n_features: int, n_samples: int, settings: Settings, inner: Any) -> Any:
    """Ridge logistic regression on the same normalised samples, its strength chosen by the log loss."""
    target = scale(make_target_quantiles("uniform", n_features))
    n_inner = n_samples * 4 / 9  # of two thirds of two thirds
    strengths = 1.0 / (2.0 * n_inner * n_features * np.geomspace(1e-6, 1e-1, settings.n_alphas))
    return make_pipeline(QuantileNormalizer(target), logistic_cv(strengths, inner))


def logistic_cv(strengths: np.ndarray, cv: Any) -> LogisticRegressionCV:
    """Ridge logistic regression whose strength is chosen by the log loss."""
    model = LogisticRegressionCV(
        Cs=np.sort(strengths), cv=cv, scoring="neg_log_loss", max_iter=1000
    )
    if "use_legacy_attributes" in model.get_params():  # newer releases ask for both
        model.set_params(use_legacy_attributes=False, l1_ratios=(0.0,))
    return model


def tables(settings: Settings, parts: dict[str, list[Row]]) -> dict[str, list[Row]]:
    """Means over the folds of every set, and over the sets."""
    rows = [row for part in parts.values() for row in part]
    means = {name: mean_of(name) for name in ("score", *MEASURES)}
    each = grouped(rows, ("dataset", "method", "calibration"), **means)
    return {"sets": each, "summary": grouped(each, ("method", "calibration"), **means)}
