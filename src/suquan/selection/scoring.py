"""Scores of models whose outputs are known already, by any scikit-learn scorer.

Outputs u of shape (n_samples, n_outputs) and labels come in, scores go out. Selection and comparison call
:class:`OutputScorer`. A scorer of our own is a row of `SCORERS`, the choice by the task is `default_scoring`.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from inspect import signature
from typing import Any

import numpy as np
from scipy.stats import rankdata
from sklearn.base import BaseEstimator
from sklearn.metrics import accuracy_score, check_scoring, get_scorer_names, r2_score

from suquan.losses import Loss
from suquan.model.prepare import decision_values, predicted_classes
from suquan.model.settings import Samples
from suquan.survival import concordance


def score_concordance(model: Any, X: Any, y: Any, sample_weight: Any = None) -> float:
    """Compute Harrell's concordance of the risks that a model predicts."""
    return concordance(y, model.predict(X), sample_weight=sample_weight)


# Names beside those of scikit-learn.
SCORERS: dict[Any, Any] = {"concordance": score_concordance}


def default_scoring(samples: Samples) -> str:
    """Name the score that suits the task."""
    if samples.loss.couples_samples:
        return "concordance"
    if samples.classes is None:
        return "r2"
    return "roc_auc" if len(samples.classes) == 2 else "roc_auc_ovr"


@dataclass(frozen=True)
class OutputScorer:
    """Scores outputs of one or many models on the same samples.

    scikit-learn's scorers ask an estimator and check every argument, a millisecond each time; a comparison
    scores tens of thousands of models. So "roc_auc" of two classes is computed here, for all models at once.
    """

    scorer: Any
    scoring: Any
    loss: Loss
    classes: np.ndarray | None
    is_weighted: bool = False

    @classmethod
    def of(cls, estimator: Any, scoring: Any, samples: Samples) -> OutputScorer:
        """Find the scorer of this name or function; raise a ValueError where it does not fit the task."""
        if isinstance(scoring, str) and scoring not in (*SCORERS, *get_scorer_names()):
            raise ValueError(
                f"unknown scoring {scoring!r}; give {default_scoring(samples)!r} or another name of "
                "sklearn.metrics.get_scorer_names()."
            )
        found = check_scoring(estimator, scoring=SCORERS.get(scoring, scoring))
        weights = samples.weights[samples.used]
        is_weighted = bool(np.any(weights != weights[0]))
        metric = getattr(found, "_score_func", found)
        if is_weighted and "sample_weight" not in signature(metric).parameters:
            warnings.warn(f"{scoring=} takes no sample_weight: it counts all alike.", stacklevel=3)
            is_weighted = False
        made = cls(found, scoring, samples.loss, samples.classes, is_weighted)
        made._try_on(samples)
        return made

    @property
    def name(self) -> str:
        """Name of the score, for tables and sentences."""
        known = isinstance(self.scoring, str)
        return self.scoring if known else getattr(self.scoring, "__name__", "score")

    def __call__(
        self, outputs: Sequence[np.ndarray], labels: Any, chances: Any = None, weights: Any = None
    ) -> np.ndarray:
        """Compute the scores of several models on the same samples, (n_models,).

        `chances`, the probabilities of the classes, (n_samples, n_classes), are those of the first in place of
        its loss's.
        """
        classes = self.classes
        is_area = self.scoring == "roc_auc" and not self.is_weighted
        if is_area and classes is not None and len(classes) == 2:
            u = np.stack([decision_values(u, classes) for u in outputs])
            return roc_auc(u, labels == classes[1])
        known = (_Known(u, self.loss, classes, chances) for u in outputs)
        no_values = np.zeros((len(labels), 1))
        return np.array([self.of_model(model, no_values, labels, weights) for model in known])

    def of_model(self, model: Any, X: np.ndarray, labels: np.ndarray, weights: Any = None) -> float:
        """Score any fitted estimator."""
        given = {"sample_weight": weights} if self.is_weighted else {}
        return float(self.scorer(model, X, labels, **given))

    def _try_on(self, samples: Samples) -> None:
        """Score a constant model of all samples, and raise a ValueError in plain words where that fails."""
        loss, classes, used = samples.loss, samples.classes, samples.used
        labels, weights = samples.labels[used], samples.weights[used]
        constant = loss.best_constant(samples.y[used], np.ones(len(labels)))
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                known = _Known(np.tile(constant, (len(labels), 1)), loss, classes)
                self.of_model(known, np.zeros((len(labels), 1)), labels, weights)
        except (AttributeError, TypeError, ValueError) as error:
            task = "times to event" if loss.couples_samples else "regression"
            if classes is not None:
                task = f"classification with {len(classes)} classes"
            why = re.sub(r"_Known\b", "the model", str(error)).rstrip(".")
            raise ValueError(
                f"scoring={self.scoring!r} does not fit {task}: {why}. Choose another one, such as "
                f"{default_scoring(samples)!r}."
            ) from error


def roc_auc(u: np.ndarray, is_positive: np.ndarray) -> np.ndarray:
    """Compute the areas under the ROC curves of the rows of u, (n_models, n_samples).

    AUC = (mean rank of the positive samples − (n₊ + 1)/2) / n₋, ranks from 1, equal values sharing theirs.
    """
    n_positive = np.count_nonzero(is_positive)
    ranks = rankdata(u, axis=1)[:, is_positive].mean(axis=1)
    return (ranks - (n_positive + 1) / 2) / (len(is_positive) - n_positive)


class _Known(BaseEstimator):
    """Classifier or regressor whose outputs are known, for scorers that ask an estimator; X is not read."""

    def __init__(self, u: np.ndarray, loss: Loss, classes: Any, chances: Any = None) -> None:
        self.u, self.loss, self.classes, self.chances = u, loss, classes, chances
        self.classes_ = classes

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.estimator_type = "regressor" if self.classes is None else "classifier"
        return tags

    def predict(self, X: Any) -> np.ndarray:
        if self.classes is None:
            return self.loss.mean(self.u)
        if self.chances is not None:
            return self.classes[np.argmax(self.chances, axis=1)]
        return predicted_classes(self.u, self.classes)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        metric = r2_score if self.classes is None else accuracy_score
        return metric(y, self.predict(X), sample_weight=sample_weight)

    def decision_function(self, X: Any) -> np.ndarray:
        return decision_values(self.u, self.classes)

    def predict_proba(self, X: Any) -> np.ndarray:
        return self.loss.mean(self.u) if self.chances is None else self.chances
