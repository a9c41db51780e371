"""Simulated samples: a truth of one target, which must not be hurt, and one of three, which must be found."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedShuffleSplit

from suquan import SuquanClassifierCV
from suquan.datasets import make_corrupted_classification, make_several_targets_classification

from ..tables import Row
from .settings import Settings

N_TEST = 5000
# Candidates where the truth has one target.
FEW = (1, 2, 3)
PLACES = 64  # at which targets are kept for the figure
# A singular value below this share of the largest is no target of its own.
SHARE = 0.1


def run_rank_one(settings: Settings, seed: int) -> dict[str, Any]:
    """Test scores of joint and of multi with a number of targets that is chosen."""
    n, p = settings.rank_one
    X, y = make_corrupted_classification(
        n + N_TEST, p, target="normal", corrupted="normal", random_state=seed
    )
    draw = X[:n], y[:n], X[n:], y[n:]
    smooth = {"smoothnesses": settings.n_smoothnesses}
    few = [m for m in FEW if m < settings.simulated_knots]
    rows = [
        _search(settings, draw, "uniform", method="fixed"),
        _search(settings, draw, "joint", method="joint", **smooth),
        _search(settings, draw, "multi", **_multi(settings, few)),
        _search(settings, draw, "multi_default", **_multi(settings, few) | {"n_knots": "auto"}),
        _search(settings, draw, "matrix", method="matrix", n_knots=settings.simulated_knots),
    ]
    told = {"truth": 1, "n": n, "p": p, "seed": seed}
    return {"rows": [told | row for row, _ in rows]}


def run_rank_three(settings: Settings, n: int, p: int, seed: int) -> dict[str, Any]:
    """Test scores with each number of targets, with the chosen one, with as many as are needed; and shapes."""
    X, y, F = make_several_targets_classification(n + N_TEST, p, random_state=seed)
    draw = X[:n], y[:n], X[n:], y[n:]
    found = [
        _search(settings, draw, "uniform", method="fixed"),
        _search(settings, draw, "joint", method="joint", smoothnesses=settings.n_smoothnesses),
        _search(settings, draw, "matrix", method="matrix", n_knots=settings.simulated_knots),
        *(_search(settings, draw, f"multi_{m}", **_multi(settings, [m])) for m in settings.targets),
        _search(settings, draw, "multi", **_multi(settings, list(settings.targets))),
    ]
    chosen = found[-1][1]
    found.append(_search(settings, draw, "multi_all", **_multi(settings, None)))
    told = {"truth": len(F), "n": n, "p": p, "seed": seed}
    places = np.linspace(0, p - 1, min(PLACES, p)).round().astype(int)
    return {
        "rows": [
            told | row | {"explained": explained(F, np.atleast_2d(model.target_quantiles_))}
            for row, model in found
        ],
        "targets": {
            "true": np.round(F[:, places], 4).tolist(),
            "found": np.round(
                projected(F, chosen.target_quantiles_[: len(F)])[:, places], 4
            ).tolist(),
        },
        "about": told,
    }


def projected(F: np.ndarray, found: np.ndarray) -> np.ndarray:
    """True targets as far as sums of the found ones give them."""
    found = found - found.mean(axis=1, keepdims=True)
    return F @ np.linalg.pinv(found) @ found


def explained(F: np.ndarray, found: np.ndarray) -> float:
    """Share of a true target's square that sums of the first found ones, as many, give; the smallest one."""
    given = projected(F, found[: len(F)])
    return float(np.min(np.mean(given**2, axis=1) / np.mean(F**2, axis=1)))


def _multi(settings: Settings, numbers: list[int] | None) -> dict[str, Any]:
    return {
        "method": "multi",
        "n_targets": numbers,
        "n_knots": settings.simulated_knots,
        "max_rounds": settings.max_rounds,
    }


def _search(settings: Settings, draw: tuple, name: str, **parameters: Any) -> tuple[Row, Any]:
    """Row and model of one method with chosen penalties."""
    start = time.perf_counter()
    model = SuquanClassifierCV(
        alphas=settings.n_alphas,
        cv=StratifiedShuffleSplit(settings.simulated_splits, test_size=0.25, random_state=0),
        selection="best",
        calibration=None,  # scores alone are asked for
        random_state=0,
        **parameters,
    ).fit(*draw[:2])
    return _row(model, draw, name, time.perf_counter() - start), model


def _row(model: Any, draw: tuple, name: str, seconds: float) -> Row:
    """Test score; number of targets that the model has, and of those that matter."""
    values = getattr(model, "singular_values_", np.ones(1))
    alphas = model.cv_results_["param_alpha"]
    return {
        "method": name,
        "auc": float(roc_auc_score(draw[3], model.decision_function(draw[2]))),
        "alpha": model.alpha_,
        "at_end": int(model.alpha_ in (np.min(alphas), np.max(alphas))),
        "targets": len(values),
        "targets_that_matter": int(np.sum(values > SHARE * values[0])),
        "seconds": seconds,
    }
