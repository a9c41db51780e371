"""Scores of known outputs under any scikit-learn scorer."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit, softmax
from scipy.stats import rankdata
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.metrics import check_scoring


@dataclass(frozen=True)
class OutputScorer:
    """Scores outputs u of shape (n_samples, n_outputs) that are known already.

    scikit-learn's scorers ask an estimator and check every argument, a millisecond each time; a comparison
    scores tens of thousands of models. So "roc_auc" of two classes is computed here, for all models at once.
    """

    scorer: Any
    scoring: Any
    classes: np.ndarray | None

    @classmethod
    def of(
        cls,
        estimator: Any,
        scoring: Any,
        labels: np.ndarray,
        y: np.ndarray,
        classes: np.ndarray | None,
    ) -> OutputScorer:
        """Scorer of this name or function; a ValueError where it cannot score the task at all."""
        scorer = cls(check_scoring(estimator, scoring=scoring), scoring, classes)
        scorer._try(labels, y)
        return scorer

    def __call__(self, outputs: Sequence[np.ndarray], labels: np.ndarray) -> np.ndarray:
        """Scores of several models on the same samples, (n_models,)."""
        if self.classes is not None and len(self.classes) == 2 and self.scoring == "roc_auc":
            return roc_auc(np.stack([u[:, 0] for u in outputs]), labels == self.classes[1])
        return np.array([self._of_output(u, labels) for u in outputs])

    def of_model(self, model: Any, X: np.ndarray, labels: np.ndarray) -> float:
        """Score of any fitted estimator."""
        return float(self.scorer(model, X, labels))

    def _of_output(self, u: np.ndarray, labels: np.ndarray) -> float:
        known = KnownRegressor(u) if self.classes is None else KnownClassifier(u, self.classes)
        return self.of_model(known, np.zeros((len(labels), 1)), labels)

    def _try(self, labels: np.ndarray, y: np.ndarray) -> None:
        if self.classes is None:
            task, u, known = "regression", y[:, None], np.ones(len(y), dtype=bool)
        else:
            n_classes = len(self.classes)
            task = f"classification with {n_classes} classes"
            u = np.zeros((len(y), 1 if n_classes == 2 else n_classes))
            known = np.isin(labels, self.classes)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                self._of_output(u[known], labels[known])
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

    def __init__(self, u: np.ndarray, classes: np.ndarray) -> None:
        self.u = u
        self.classes = classes
        self.classes_ = classes

    def decision_function(self, X: Any) -> np.ndarray:
        """Known scores."""
        return self.u[:, 0] if self.u.shape[1] == 1 else self.u

    def predict_proba(self, X: Any) -> np.ndarray:
        """Probabilities that follow from them."""
        if self.u.shape[1] == 1:
            return np.column_stack([expit(-self.u[:, 0]), expit(self.u[:, 0])])
        return softmax(self.u, axis=1)

    def predict(self, X: Any) -> np.ndarray:
        """Classes that follow from them."""
        if self.u.shape[1] == 1:
            return self.classes_[(self.u[:, 0] > 0).astype(np.intp)]
        return self.classes_[np.argmax(self.u, axis=1)]

    def __sklearn_is_fitted__(self) -> bool:
        return True


class KnownRegressor(RegressorMixin, BaseEstimator):
    """Regressor whose predictions on the next samples are known."""

    def __init__(self, u: np.ndarray) -> None:
        self.u = u

    def predict(self, X: Any) -> np.ndarray:
        """Known predictions."""
        return self.u[:, 0]

    def __sklearn_is_fitted__(self) -> bool:
        return True
