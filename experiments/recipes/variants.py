"""Variants of the default recipe, as estimators."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.model_selection import RepeatedStratifiedKFold

from suquan import SuquanClassifier, SuquanClassifierCV, make_target_quantiles

from .steps import PENALTIES, other_penalty, svd_start


class ChangedTarget(ClassifierMixin, BaseEstimator):
    """A target that is learned, then changed, then fixed for a last choice of alpha.

    Parameters
    ----------
    learner : SuquanClassifierCV
    change : {"shrink", "bag", "mix"}
        Half-way to the uniform start; the mean of the targets of `n_bags` bootstrap samples; or half-way to
        the target of svd.
    n_bags : int, default=8
    """

    def __init__(self, learner: Any, change: str, n_bags: int = 8) -> None:
        self.learner = learner
        self.change = change
        self.n_bags = n_bags

    def fit(self, X: Any, y: Any) -> ChangedTarget:
        """Learn the target, change it, and fit the model to it."""
        chosen = SuquanClassifierCV(**self.learner.get_params(deep=False)).fit(X, y)
        if self.change == "bag":
            parts = [self._bag(chosen, X, y, seed) for seed in range(self.n_bags)]
        elif self.change == "shrink":
            parts = [chosen.target_quantiles_, make_target_quantiles("uniform", X.shape[1])]
        else:
            svd = SuquanClassifier("svd", n_knots=chosen.n_knots).fit(X, y)
            parts = [chosen.target_quantiles_, svd.target_quantiles_]
        f = np.mean([_unit(part) for part in parts], axis=0)
        self.model_ = SuquanClassifierCV(
            "fixed", init=f, alphas=chosen.alphas, cv=chosen.cv, random_state=0
        ).fit(X, y)
        self.classes_ = self.model_.classes_
        return self

    def _bag(self, chosen: Any, X: np.ndarray, y: np.ndarray, seed: int) -> np.ndarray:
        """Target of one bootstrap sample, drawn within the classes; copies of a sample stay in one fold."""
        rng = np.random.default_rng(seed)
        weights = np.zeros(len(y))
        for label in np.unique(y):
            rows = np.flatnonzero(y == label)
            np.add.at(weights, rng.choice(rows, len(rows)), 1.0)
        model = SuquanClassifier(
            "crossfit",
            alpha=chosen.alpha_,
            smoothness=chosen.smoothness_,
            n_knots=chosen.n_knots,
            n_repeats=1,
            random_state=seed,
        )
        return model.fit(X, y, sample_weight=weights).target_quantiles_

    def decision_function(self, X: Any) -> np.ndarray:
        """Scores of the last model."""
        return self.model_.decision_function(X)


def _unit(f: np.ndarray) -> np.ndarray:
    f = f - f.mean()
    return f / np.sqrt(np.mean(f**2))


# Parameters of :func:`suquan.compare` that differ from the default recipe.
PARAMETERS: dict[str, dict[str, Any]] = {
    "default": {},
    "rounds_3": {"max_rounds": 3},
    "partitions_1": {"n_repeats": 1},
    "partitions_10": {"n_repeats": 10},
    "folds_10": {"cv": 10},
    "knots_10": {"n_knots": 10},
    "knots_60": {"n_knots": 60},
    "best_score": {"selection": "best"},
    "normal_start": {"init": "normal"},
    "alphas_13": {"alphas": 13},
    "smoothness_8": {"smoothnesses": 8},
}
CHANGES = {"shrunk": "shrink", "bagged": "bag", "svd_mixed": "mix"}
# Variants that exchange a step of the library.
STEPS: dict[str, Callable[[], AbstractContextManager]] = {
    name: partial(other_penalty, name) for name in (*PENALTIES, "any_order")
}
STEPS["svd_start"] = svd_start
NAMES = (*PARAMETERS, "svd", *CHANGES, *STEPS)


def make_changed(name: str, n_knots: int, inner: RepeatedStratifiedKFold) -> ChangedTarget:
    """The estimator of a variant that changes the learned target."""
    learner = SuquanClassifierCV(n_knots=n_knots, departures=[1.0], cv=inner, random_state=0)
    return ChangedTarget(learner, CHANGES[name])
