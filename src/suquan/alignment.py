"""New samples with other features than the model's, brought into its order by name, for `suquan predict`."""

import copy
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from suquan.ranking import as_samples, raise_missing

__all__ = ["AlignedSamples", "align_features"]


@dataclass(frozen=True)
class AlignedSamples:
    """Samples in the order of a model's features.

    Attributes
    ----------
    model : estimator
        The model to use on `values`: a copy that skips missing values where features are missing, and does
        not ask for feature names.
    values : ndarray of shape (n_samples, n_features_in_)
        NaN at the features that were not given.
    missing : ndarray of str
        Features of the model that were not given.
    extra : ndarray of str
        Given features that the model does not have; they were dropped.
    lost : float
        Share of Σ|w| at the missing features, or of the features for a model without coefficients.
    """

    model: Any
    values: np.ndarray
    missing: np.ndarray
    extra: np.ndarray
    lost: float


def align_features(
    model: Any, X: Any, feature_names: Any = None, *, max_lost: float = 0.2
) -> AlignedSamples:
    """Bring samples with other features into the order of a model's features, by name.

    Extra features are dropped before anything is ranked. Missing ones become NaN and are handled by the rule
    ``missing="ignore"``: the observed values of a sample read the target at (k + ½)/m. A sample gives the
    same result alone and in a batch.

    Parameters
    ----------
    model : estimator
        A fitted estimator of this library.
    X : array-like of shape (n_samples, n_given)
        Its own NaN are left to the model's rule.
    feature_names : array-like of shape (n_given,), default=None
        None: the columns of the data frame `X`.
    max_lost : float, default=0.2
        Largest share of Σ|w| (over all classes and targets) that the missing features may carry. For a
        normaliser, which has no w, the largest share of its features.

    Returns
    -------
    AlignedSamples

    Raises
    ------
    ValueError
        If more is lost, names are repeated, or the model has no names and another number of features.

    Warns
    -----
    UserWarning
        If features are missing: how many, and the share that is lost.

    Examples
    --------
    >>> import numpy as np
    >>> from suquan import QuantileNormalizer, align_features
    >>> model = QuantileNormalizer("uniform").fit(np.eye(3))
    >>> model.feature_names_in_ = np.array(["a", "b", "c"], dtype=object)  # as of a data frame
    >>> aligned = align_features(model, [[1.0, 9.0, 3.0, 2.0]], ["c", "other", "a", "b"])
    >>> aligned.values, aligned.extra
    (array([[3., 2., 1.]]), array(['other'], dtype='<U5'))
    >>> aligned.model.transform(aligned.values)
    array([[0.83333333, 0.5       , 0.16666667]])
    """
    check_is_fitted(model)
    if feature_names is None:
        feature_names = getattr(X, "columns", None)
    values = as_samples(X)
    if not 0.0 <= max_lost <= 1.0:
        raise ValueError(f"max_lost is a share between 0 and 1; got {max_lost!r}.")
    names = getattr(model, "feature_names_in_", None)
    if names is None or feature_names is None:
        if values.shape[1] != model.n_features_in_:
            raise ValueError(
                f"the model has {model.n_features_in_} features and X has {values.shape[1]}; without names on "
                "both sides they cannot be aligned. Fit the model to samples with feature names."
            )
        if feature_names is not None:
            warnings.warn(
                "the model was fitted without feature names: the features are taken in the order given.",
                UserWarning,
                stacklevel=2,
            )
        nothing = np.array([], dtype=str)
        return AlignedSamples(_nameless(model), values, nothing, nothing, 0.0)
    given = np.array([str(name) for name in feature_names])
    if len(given) != values.shape[1]:
        raise ValueError(
            f"there are {len(given)} feature names for {values.shape[1]} features; give one for each."
        )
    return _by_name(model, values, given, np.array([str(name) for name in names]), max_lost)


def _by_name(
    model: Any, values: np.ndarray, given: np.ndarray, names: np.ndarray, max_lost: float
) -> AlignedSamples:
    place = {name: k for k, name in enumerate(given.tolist())}
    if len(place) != len(given):
        unique, counts = np.unique(given, return_counts=True)
        raise ValueError(
            f"the feature name {str(unique[counts > 1][0])!r} is given more than once; keep one of them."
        )
    source = np.array([place.get(name, -1) for name in names.tolist()])
    found = source >= 0
    aligned = values[:, source]
    if not found.all():
        aligned = aligned.astype(values.dtype if values.dtype.kind == "f" else np.float64)
        aligned[:, ~found] = np.nan
    if model.missing == "error":
        n_observed = found.sum() - np.isnan(aligned[:, found]).sum(axis=1)
        raise_missing(aligned[:, found], n_observed, names[found])
    weight, what = np.ones(len(names)), "features"
    if hasattr(model, "coef_"):
        weight, what = np.abs(feature_weights(model)).sum(axis=0), "weight (sum of |w|)"
    lost = float(weight[~found].sum() / weight.sum()) if weight.any() else 0.0
    if not found.all():
        tell = (
            f"{np.count_nonzero(~found)} of the model's {len(names)} features are missing, first "
            f"{str(names[~found][0])!r}: {lost:.1%} of its {what} is lost"
        )
        if not found.any() or lost > max_lost:
            raise ValueError(
                f"{tell}, and at most {max_lost:.1%} may be. Give a table with the model's features, or raise "
                "the limit if you accept the loss."
            )
        warnings.warn(tell + "; they are skipped.", UserWarning, stacklevel=3)
    extra = given[~np.isin(given, names)]
    used = _nameless(model, skip_missing=not found.all())
    return AlignedSamples(used, aligned, names[~found], extra, lost)


def feature_weights(model: Any) -> np.ndarray:
    """Weight of every feature in every output, of shape (n_outputs, n_features).

    That is its coefficient; with several targets the sum of its absolute coefficients over them.
    """
    w = np.reshape(model.coef_, (len(model.intercept_), -1, model.n_features_in_))
    return w[:, 0] if w.shape[1] == 1 else np.abs(w).sum(axis=1)


def _nameless(model: Any, *, skip_missing: bool = False) -> Any:
    """Copy of a model that takes plain arrays without asking for names."""
    used = copy.copy(model)
    vars(used).pop("feature_names_in_", None)
    if skip_missing:
        used.missing = "ignore"
    return used
