"""What all estimators share: normalisation to a target, fits, and scores of new samples.

:mod:`suquan.linear_model`, :mod:`suquan.cox_model`, :mod:`suquan.preprocessing` and
:mod:`suquan.model_selection` build on these classes.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np
from sklearn.base import (
    BaseEstimator,
    OneToOneFeatureMixin,
    TransformerMixin,
    is_classifier,
)
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils.validation import check_is_fitted

from suquan._blocks import as_numpy, is_dask_array
from suquan._validation import mask_like, row_names, validate_data
from suquan.losses import Loss, make_loss
from suquan.model.prepare import fit_samples
from suquan.model.settings import CHECKS, forget
from suquan.ranking import SampleOperator, normalize
from suquan.targets import read_at_grid

_MOST_NAMES = 5  # samples that one message names


def keep_parameters(estimator: Any, parameters: dict[str, Any]) -> None:
    """Set the parameters of a constructor, its ``locals()``, as attributes."""
    vars(estimator).update(
        {name: value for name, value in parameters.items() if name not in ("self", "__class__")}
    )


def lazy_on_dask(method: Callable) -> Callable:
    """Let a method of new samples take a Dask array too: it then gives a lazy one in the same blocks."""

    @wraps(method)
    def call(self: Any, X: Any) -> Any:
        if not is_dask_array(X):
            return method(self, X)
        from suquan._dask.fitting import lazily

        return lazily(self, method.__name__, X)

    return call


class TargetTransformer(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Normalisation to a target: what all estimators share."""

    method: Any
    ties: str
    missing: str
    target_quantiles_: np.ndarray
    _needs_labels = True

    @lazy_on_dask
    def transform(self, X: Any) -> np.ndarray:
        """Normalise samples to the target.

        Parameters
        ----------
        X : array-like or dask array of shape (n_samples, n_features)

        Returns
        -------
        ndarray or dask array of shape (n_samples, n_features)
            NaN stays NaN, and a masked array gives one. Several targets give a copy each, side by side. A Dask
            array gives a lazy one, as for predictions.
        """
        values = self._validate(X)
        operator = self._rank(values)
        copies = [normalize(operator, f, values.dtype) for f in self._targets]
        return mask_like(copies[0] if len(copies) == 1 else np.hstack(copies), X, len(copies))

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Names of the columns that :meth:`transform` gives.

        Those of the features, of `input_features` where the training samples had none; with several targets
        "gene__1", …, "gene__2", …, a copy per target.
        """
        names = super().get_feature_names_out(input_features)
        if self.target_quantiles_.ndim == 1:
            return names
        copies = range(1, len(self._targets) + 1)
        return np.array([f"{name}__{copy}" for copy in copies for name in names], dtype=object)

    @property
    def _targets(self) -> np.ndarray:
        """Targets of the normalised copies, of shape (n_targets, n_features)."""
        return np.atleast_2d(self.target_quantiles_)

    def _validate(self, X: Any, *, reset: bool = False) -> np.ndarray:
        if not reset:
            check_is_fitted(self)
        return validate_data(self, X, reset=reset, **CHECKS)

    def _rank(self, X: np.ndarray) -> SampleOperator:
        names, n_jobs = (getattr(self, name, None) for name in ("feature_names_in_", "n_jobs"))
        return SampleOperator.from_samples(
            X, ties=self.ties, missing=self.missing, n_jobs=n_jobs, feature_names=names
        )

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.required = self._needs_labels
        tags.input_tags.allow_nan = self.missing == "ignore"
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


class SuquanModel(TargetTransformer):
    """What the classifier and the regressor share: everything but the predictions."""

    loss: Any
    huber_delta: float = 1.35  # a classifier has no such parameter
    coef_: np.ndarray
    intercept_: np.ndarray
    target_knots_: np.ndarray
    n_features_in_: int

    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> Any:
        """Learn the target and the model.

        Parameters
        ----------
        X : array-like or dask array of shape (n_samples, n_features)
            A Dask array stays where it is, and ``n_passes_`` counts the passes over its blocks.
        y : array-like or dask array of shape (n_samples,)
            Class labels or, in regression, values.
        sample_weight : array-like of shape (n_samples,), default=None
            Weight 2 counts as a repeated row, weight 0 as none.
        groups : array-like of shape (n_samples,), default=None
            Samples of one group stay together in the folds of "crossfit".

        Returns
        -------
        self
        """
        forget(self)
        if is_dask_array(X):
            from suquan._dask.fitting import fit_on_blocks

            fit_on_blocks(self, X, y, sample_weight, groups)
        else:
            fit_samples(self, X, y, sample_weight, groups)
        return self

    def _scores(self, X: Any, orderless: str = "warn") -> np.ndarray:
        """Scores w_k·T_i f + b_k, of shape (n_samples, n_outputs).

        A sample with one value throughout has no order to read. It gets NaN with a warning, the score of equal
        ranks for `orderless` "keep", and an error for "raise" unless there were such training samples too.
        """
        operator = self._rank(self._validate(X))
        scores = operator.scores(self.coef_, self._targets) + self.intercept_
        if not operator.is_complete:
            scores += operator.gap_scores(self._missing_parts)
        rows = np.flatnonzero(operator.is_orderless)
        if not rows.size or orderless == "keep":
            return scores
        names = str(row_names(X, len(scores))[rows[:_MOST_NAMES]].tolist())[1:-1]
        told = (
            f"{rows.size} of {len(scores)} samples have one value throughout, so that there is no order to read"
            f": {names}{', …' * (rows.size > _MOST_NAMES)}"
        )
        if orderless == "warn":
            scores[rows] = np.nan
            told += ". Their result is NaN."
        elif getattr(self, "training_ranks_", {"ties": 0.0})["ties"] < 1.0:
            raise ValueError(f"{told}. Leave these samples out, or use decision_function.")
        warnings.warn(told, UserWarning, stacklevel=3)
        return scores

    @property
    def _missing_parts(self) -> np.ndarray:
        """What a missing feature adds to the scores, of shape (n_outputs, n_features)."""
        means: np.ndarray | None = getattr(self, "feature_means_", None)
        if means is not None:
            return means if means.ndim == 2 else self.coef_ * means
        warnings.warn(
            "this model was saved by an older version, without the training means of its features: a missing "
            "one counts as 0, which may change predictions much. Fit the model again.",
            stacklevel=4,
        )
        return np.zeros((len(self.coef_), self.n_features_in_))

    @property
    def _targets(self) -> np.ndarray:
        """All targets; "matrix" has some that it does not show."""
        if self.target_knots_.ndim == 1:
            return np.atleast_2d(self.target_quantiles_)
        return np.stack([read_at_grid(g, self.n_features_in_) for g in self.target_knots_])

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Share of the samples whose class is predicted; in regression R² of the predicted values.

        X and y are those of :meth:`fit`, or other samples with their labels.
        """
        metric = accuracy_score if is_classifier(self) else r2_score
        predicted = as_numpy(self.predict(X))
        return metric(as_numpy(y), predicted, sample_weight=as_numpy(sample_weight))

    @property
    def _fitted_loss(self) -> Loss:
        classes = getattr(self, "classes_", None)
        if classes is None:
            return make_loss(self.loss, huber_delta=self.huber_delta)
        return make_loss(self.loss, len(classes)).encode(classes, np.ones(len(classes), bool))[0]
