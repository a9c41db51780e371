"""Scores of known outputs under any scikit-learn scorer."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import rankdata
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.metrics import check_scoring

from suquan.fitting import Samples, decision_values, predicted_classes
from suquan.losses import Loss


@dataclass(frozen=True)
class OutputScorer:
    """Scores outputs u of shape (n_samples, n_outputs) that are known already.

    scikit-learn's scorers ask an estimator and check every argument, a millisecond each time; a comparison
    scores tens of thousands of models. So "roc_auc" of two classes is computed here, for all models at once.
    """

    scorer: Any
    scoring: Any
    loss: Loss
    classes: np.ndarray | None

    @classmethod
    def of(cls, estimator: Any, scoring: Any, samples: Samples) -> OutputScorer:
        """Scorer of this name or function; a ValueError where it cannot score the samples' task at all."""
        made = cls(
            check_scoring(estimator, scoring=scoring), scoring, samples.loss, samples.classes
        )
        made._try(samples)
        return made

    def __call__(self, outputs: Sequence[np.ndarray], labels: np.ndarray) -> np.ndarray:
        """Scores of several models on the same samples, (n_models,)."""
        classes = self.classes
        if classes is not None and len(classes) == 2 and self.scoring == "roc_auc":
            u = np.stack([decision_values(u, classes) for u in outputs])
            return roc_auc(u, labels == classes[1])
        return np.array([self._of_output(u, labels) for u in outputs])

    def of_model(self, model: Any, X: np.ndarray, labels: np.ndarray) -> float:
        """Score of any fitted estimator."""
        return float(self.scorer(model, X, labels))

    def _of_output(self, u: np.ndarray, labels: np.ndarray) -> float:
        known = KnownClassifier(u, self.classes, self.loss)
        if self.classes is None:
            known = KnownRegressor(u, self.loss)
        return self.of_model(known, np.zeros((len(labels), 1)), labels)

    def _try(self, samples: Samples) -> None:
        task, known = "regression", samples.used
        if self.classes is not None:
            task = f"classification with {len(self.classes)} classes"
            known = np.isin(samples.labels, self.classes)
        labels = samples.labels[known]
        constant = self.loss.best_constant(samples.y[known], np.ones(len(labels)))
        u = np.broadcast_to(constant, (len(labels), self.loss.n_outputs))
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                self._of_output(u, labels)
        except (AttributeError, TypeError, ValueError) as error:
            raise ValueError(f"scoring={self.scoring!r} does not fit {task}: {error}") from error


def roc_auc(u: np.ndarray, is_positive: np.ndarray) -> np.ndarray:
    """Areas under the ROC curves of the rows of u, (n_models, n_samples).

    AUC = (mean rank of the positive samples − (n₊ + 1)/2) / n₋, ranks from 1, equal values sharing theirs.
    """
    n_positive = np.count_nonzero(is_positive)
    ranks = rankdata(u, axis=1)[:, is_positive].mean(axis=1)
    return (ranks - (n_positive + 1) / 2) / (len(is_positive) - n_positive)


class KnownClassifier(ClassifierMixin, BaseEstimator):
    """Classifier whose scores on the next samples are known, for scorers that ask an estimator."""

    def __init__(self, u: np.ndarray, classes: Any, loss: Loss) -> None:
        self.u, self.classes, self.loss = u, classes, loss
        self.classes_ = classes

    def decision_function(self, X: Any) -> np.ndarray:
        """Known scores."""
        return decision_values(self.u, self.classes_)

    def predict_proba(self, X: Any) -> np.ndarray:
        """Probabilities that follow from them."""
        return self.loss.mean(self.u)

    def predict(self, X: Any) -> np.ndarray:
        """Classes that follow from them."""
        return predicted_classes(self.u, self.classes_)

    def __sklearn_is_fitted__(self) -> bool:
        return True


class KnownRegressor(RegressorMixin, BaseEstimator):
    """Regressor whose predictions on the next samples are known."""

    def __init__(self, u: np.ndarray, loss: Loss) -> None:
        self.u, self.loss = u, loss

    def predict(self, X: Any) -> np.ndarray:
        """Known predictions."""
        return self.loss.mean(self.u)

    def __sklearn_is_fitted__(self) -> bool:
        return True
