"""New samples with other features than the model's, brought into its order by name, for `suquan predict`."""

import copy
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.metrics import get_scorer
from sklearn.utils.validation import check_is_fitted

from suquan._validation import as_samples, raise_missing
from suquan.fitting import decision_values
from suquan.io._table import no_feature_matches
from suquan.ranking import SampleOperator

__all__ = ["AlignedSamples", "TrainingShift", "align_features"]


@dataclass(frozen=True)
class TrainingShift:
    """How far the scores of training samples move when features are dropped there.

    The model was fitted to these samples: the two numbers tell what the features are worth, not how good the
    model is on new samples.

    Attributes
    ----------
    correlation : float
        Of the scores with all features and of those without; of several classes the mean. NaN where either are
        all the same.
    shift : float
        Mean change of the scores; of several classes the largest in size.
    scoring : {"roc_auc", "roc_auc_ovr", "r2", "concordance"} or None
        For two classes, more, values, or times to event; None without labels.
    spread : float
        Standard deviation of what the dropped features add to the scores; of several classes the largest.
    score, score_without : float or None
        With all features, and without those that are dropped.
    """

    correlation: float
    shift: float
    spread: float
    scoring: str | None = None
    score: float | None = None
    score_without: float | None = None

    def __str__(self) -> str:
        text = (
            f"training samples' scores without them correlate by {self.correlation:.4f} with those of all, "
            f"move by {self.shift:+.3g} on average"
        )
        if self.scoring is None:
            return text
        name = {"r2": "R²", "concordance": "concordance"}.get(self.scoring, "AUC")
        return f"{text}, {name} {self.score:.4f} → {self.score_without:.4f}"


@dataclass(frozen=True)
class AlignedSamples:
    """Samples in the order of a model's features.

    Attributes
    ----------
    model : estimator
        The model to use on `values`: a copy that skips missing values where features are missing, and does
        not ask for feature names.
    values : ndarray of shape (n_samples, n_features)
        NaN at the features that were not given.
    missing : ndarray of str
        Features of the model that were not given.
    extra : ndarray of str
        Given features that the model does not have; they were dropped.
    lost : float
        Share of Σ|w| at the missing features, or of the features for a model without coefficients.
    spread : float or None
        Standard deviation of what the missing features would add to the score; of several classes the largest.
        Over the training samples where given, otherwise √(Σ_j w_j² v_j) with the variances v of the normalised
        features, as if they were independent: usually too small. None for normalisers and files of before.
    training : TrainingShift or None
        What dropping the missing features does to the training samples, where they were given.
    """

    model: Any
    values: np.ndarray
    missing: np.ndarray
    extra: np.ndarray
    lost: float
    spread: float | None = None
    training: TrainingShift | None = None


def align_features(
    model: Any,
    X: Any,
    feature_names: Any = None,
    *,
    max_lost: float = 0.5,
    training: tuple[Any, Any] | None = None,
) -> AlignedSamples:
    """Bring samples with other features into the order of a model's features, by name.

    Extra features are dropped before anything is ranked. Missing ones become NaN and are handled by the rule
    ``missing="ignore"``: the observed values of a sample read the target at (k + ½)/m, and in the score a
    missing one counts as the feature's training mean. A sample gives the same result alone and in a batch.

    Parameters
    ----------
    model : estimator
        A fitted estimator of this library.
    X : array-like of shape (n_samples, n_given)
        Its own NaN are left to the model's rule.
    feature_names : array-like of shape (n_given,), default=None
        None: the columns of the data frame `X`.
    max_lost : float, default=0.5
        Largest share of Σ|w| (over all classes and targets) that the missing features may carry. For a
        normaliser, which has no w, the largest share of its features.
    training : (X, y), default=None
        Training samples, a data frame or an array with the model's features in their order, and their labels or
        None: then the result also tells how far their scores move when the same features are dropped there.

    Returns
    -------
    AlignedSamples

    Raises
    ------
    ValueError
        If more is lost or no feature is there, names are repeated, the model has no names and another number
        of features, or the training samples lack features too or have other labels than the model.

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
    values = as_samples(X, model.missing)
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
        found = np.ones(model.n_features_in_, dtype=bool)
        shift, spread = _training_shift(model, training, found), _independent_spread(model, ~found)
        return AlignedSamples(_nameless(model), values, nothing, nothing, 0.0, spread, shift)
    given = np.array([str(name) for name in feature_names])
    if len(given) != values.shape[1]:
        raise ValueError(
            f"there are {len(given)} feature names for {values.shape[1]} features; give one for each."
        )
    names = np.array([str(name) for name in names])
    return _by_name(model, values, given, names, max_lost, training)


def _by_name(
    model: Any,
    values: np.ndarray,
    given: np.ndarray,
    names: np.ndarray,
    max_lost: float,
    training: tuple[Any, Any] | None,
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
    shift = _training_shift(model, training, found) if found.any() else None
    spread = _independent_spread(model, ~found) if shift is None else shift.spread
    if not found.all():
        tell = (
            f"{np.count_nonzero(~found)} of the model's {len(names)} features are missing, first "
            f"{str(names[~found][0])!r}: {lost:.1%} of its {what} is lost"
        )
        if not found.any():
            raise ValueError(
                no_feature_matches(
                    names.tolist(), given.tolist(), ", ".join(map(repr, given[:1].tolist()))
                )
            )
        if lost > max_lost:
            tell += "" if shift is None else f" ({shift})"
            raise ValueError(
                f"{tell}, and at most {max_lost:.1%} may be. Give a table with more of the model's features, "
                "or a larger max_lost if you accept the loss."
            )
        rule = "they are skipped"
        if hasattr(model, "feature_means_"):
            how = "if genes were independent; usually too small"
            rule = (
                "they count as their training means, and what they would add to the score has a standard "
                f"deviation of {spread:.3g} ({how if shift is None else 'over the training samples'})"
            )
        warnings.warn(f"{tell}; {rule}.", UserWarning, stacklevel=3)
    extra = given[~np.isin(given, names)]
    used = _nameless(model, skip_missing=not found.all())
    return AlignedSamples(used, aligned, names[~found], extra, lost, spread, shift)


def _training_shift(model: Any, training: Any, found: np.ndarray) -> TrainingShift | None:
    """What dropping all features but those `found` does to training samples; None where none are given."""
    if training is None:
        return None
    X, y = training
    if not hasattr(model, "predict"):
        raise ValueError(
            f"training is for models that score; a {type(model).__name__} does not. Leave training out."
        )
    try:
        whole = align_features(model, X, max_lost=0.0)
    except ValueError as error:
        raise ValueError(f"training samples: {error}") from error
    values = whole.values.astype(np.float64)
    values[:, ~found] = np.nan
    without = _nameless(model, skip_missing=not found.all())
    pairs = [(whole.model, whole.values), (without, values)]
    ranked = [SampleOperator.from_samples(samples, missing="ignore") for _, samples in pairs]
    has_order = ~np.any([operator.is_orderless for operator in ranked], axis=0)
    pairs = [(one, samples[has_order]) for one, samples in pairs]  # others have no score
    before, after = (
        np.reshape(getattr(one, "decision_function", one.predict)(samples), (len(samples), -1)).T
        for one, samples in pairs
    )
    with np.errstate(divide="ignore", invalid="ignore"):
        both = zip(before, after, strict=True)
        correlation = float(np.mean([np.corrcoef(*scores)[0, 1] for scores in both]))
    shift = max(np.mean(after - before, axis=1).tolist(), key=abs)
    part = copy.copy(whole.model)
    for name in ("coef_", "feature_means_"):
        array = getattr(model, name, np.zeros(len(found)))
        setattr(part, name, np.where(np.resize(found, array.shape[-1]), 0.0, array))
    u = decision_values(
        part._scores(whole.values[has_order]), getattr(model, "classes_", np.empty(0))
    )
    moved = correlation, shift, float(np.max(np.std(u, axis=0)))
    if y is None:
        return TrainingShift(*moved)
    y, classes = np.asarray(y), getattr(model, "classes_", None)
    if len(y) != len(values):
        raise ValueError(f"training has {len(y)} labels for {len(values)} samples; give one each.")
    y = y[has_order]
    if classes is None:
        scoring = "r2" if y.dtype.names is None else "concordance"
        return TrainingShift(*moved, scoring, *(one.score(x, y) for one, x in pairs))
    if np.array_equal(np.unique(y), classes):
        scoring = "roc_auc" if len(classes) == 2 else "roc_auc_ovr"
    else:
        raise ValueError(
            f"the training labels are {np.unique(y).tolist()} and the model's classes {classes.tolist()}; give "
            "the labels that it was fitted to."
        )
    scorer = get_scorer(scoring)
    return TrainingShift(*moved, scoring, *(float(scorer(*pair, y)) for pair in pairs))


def _independent_spread(model: Any, missing: np.ndarray) -> float | None:
    """√(Σ_j w_j² v_j) over the missing features; None where the model does not know the variances v."""
    variances: Any = getattr(model, "feature_variances_", None)
    if variances is None:
        return None
    variances = variances if variances.ndim == 2 else model.coef_**2 * variances
    sd = np.sqrt(variances[:, missing].sum(axis=1))
    # Two classes with an output each have opposite ones, and their score is the difference.
    return float(sd.sum() if len(sd) == 2 else sd.max())


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
