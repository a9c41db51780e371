"""New samples with other features than the model's, brought into its order by name, for `suquan predict`.

Samples and their feature names go in; out come the values in the model's order, NaN where a feature is missing,
a copy of the model to score them with, and what the missing features cost.
"""

import copy
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.metrics import get_scorer
from sklearn.utils.validation import check_is_fitted

from suquan._validation import as_samples, raise_missing
from suquan.io._table import no_feature_matches
from suquan.model.prepare import decision_values

__all__ = ["AlignedSamples", "TrainingShift", "align_features"]


@dataclass(frozen=True)
class TrainingShift:
    """How far the scores of training samples move when features are dropped there.

    The model was fitted to these samples, so `score` does not tell how good it is on new ones.

    Attributes
    ----------
    correlation : float
        Of the scores with and without the features; with several classes the mean. NaN for constant scores.
    shift : float
        Mean change of the scores; with several classes the largest in size.
    spread : float
        Standard deviation of what the dropped features add to the scores; with several classes the largest.
    scoring : {"roc_auc", "roc_auc_ovr", "r2", "concordance"} or None
        For two classes, more, values, or times to event; None without labels.
    score, score_without : float or None
        With all features, and without the dropped ones.
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
    missing, extra : ndarray of str
        Features of the model that were not given; given features that the model does not have, and that were
        dropped.
    lost : float
        Share of Σ|w| at the missing features, or of the features for a model without coefficients.
    spread : float or None
        Standard deviation of what the missing features would add to the score; with several classes the
        largest. Over the training samples where given, otherwise √(Σ_j w_j² v_j) with the variances v of the
        normalised features, as if they were independent: usually too small. None for normalisers and models
        of older files.
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
        Largest share of Σ|w| (over all classes and targets; for a normaliser, of its features) that may be
        missing.
    training : (X, y), default=None
        Training samples with the model's features, and their labels or None: the result then tells how far
        their scores move when the same features are dropped there.

    Returns
    -------
    AlignedSamples

    Raises
    ------
    ValueError
        If more is lost, names are repeated, the model has no names and another number of features, or the
        training samples lack features or have other labels than the model.

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
    values = as_samples(X, model.missing)
    if not 0.0 <= max_lost <= 1.0:
        raise ValueError(f"max_lost is a share between 0 and 1; got {max_lost!r}.")
    given = getattr(X, "columns", None) if feature_names is None else feature_names
    names, given = _names_of_both(model, given, values.shape[1])
    column = {name: k for k, name in enumerate(given.tolist())}
    source = np.array([column.get(name, -1) for name in names.tolist()])
    found = source >= 0
    missing = names[~found]
    if not found.any():
        raise ValueError(no_feature_matches(names.tolist(), given.tolist(), repr(str(given[0]))))
    aligned = values[:, source]
    if missing.size:
        aligned = aligned.astype(values.dtype if values.dtype.kind == "f" else np.float64)
        aligned[:, ~found] = np.nan
    if model.missing == "error" and hasattr(model, "feature_names_in_"):
        n_observed = found.sum() - np.isnan(aligned[:, found]).sum(axis=1)
        raise_missing(aligned[:, found], n_observed, names[found])
    is_model = hasattr(model, "coef_")
    weight = np.abs(feature_weights(model)).sum(axis=0) if is_model else np.ones(len(names))
    lost = float(weight[~found].sum() / weight.sum()) if weight.any() else 0.0
    shift = _training_shift(model, training, found)
    spread = _independent_spread(model, ~found) if shift is None else shift.spread
    used = _nameless(model, skip_missing=missing.size > 0)
    extra = given[~np.isin(given, names)]
    result = AlignedSamples(used, aligned, missing, extra, lost, spread, shift)
    if missing.size:
        warnings.warn(_tell_missing(model, result, max_lost), UserWarning, stacklevel=2)
    return result


def _names_of_both(model: Any, given: Any, n_given: int) -> tuple[np.ndarray, np.ndarray]:
    """Feature names of the model and of the samples; numbers where either has none."""
    names, p = getattr(model, "feature_names_in_", None), model.n_features_in_
    if names is None or given is None:
        if n_given != p:
            raise ValueError(
                f"the model has {p} features and X has {n_given}; without names on both sides they cannot be "
                "aligned. Fit the model to samples with feature names."
            )
        if given is not None:
            warnings.warn(
                "the model was fitted without feature names: the features are taken in the order given.",
                UserWarning,
                stacklevel=3,
            )
        names = given = range(p)
    names, given = (np.array([str(name) for name in some]) for some in (names, given))
    if len(given) != n_given:
        raise ValueError(
            f"there are {len(given)} feature names for {n_given} features; give one for each."
        )
    unique, counts = np.unique(given, return_counts=True)
    if len(unique) < n_given:
        raise ValueError(
            f"the feature name {str(unique[counts > 1][0])!r} is given more than once; keep one of them."
        )
    return names, given


def _tell_missing(model: Any, result: AlignedSamples, max_lost: float) -> str:
    """Say what the missing features cost; a ValueError where that is more than `max_lost`."""
    what = "weight (sum of |w|)" if hasattr(model, "coef_") else "features"
    told = (
        f"{len(result.missing)} of the model's {model.n_features_in_} features are missing, first "
        f"{str(result.missing[0])!r}: {result.lost:.1%} of its {what} is lost"
    )
    if result.lost > max_lost:
        moved = "" if result.training is None else f" ({result.training})"
        raise ValueError(
            f"{told}{moved}, at most {max_lost:.1%} may be. Give a table with more of the model's features, or "
            "a larger max_lost if you accept the loss."
        )
    if not hasattr(model, "feature_means_"):
        return f"{told}; they are skipped."
    how = "over the training samples"
    if result.training is None:
        how = "if genes were independent; usually too small"
    return (
        f"{told}; they count as their training means, and what they would add to the score has a standard "
        f"deviation of {result.spread:.3g} ({how})."
    )


def _training_shift(model: Any, training: Any, found: np.ndarray) -> TrainingShift | None:
    """Drop all features but those `found` from training samples; None where no samples are given."""
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
    without = whole.values.astype(np.float64)
    without[:, ~found] = np.nan
    pairs = [
        (whole.model, whole.values),
        (_nameless(model, skip_missing=not found.all()), without),
    ]
    before, after = (_scores(*pair) for pair in pairs)
    has_order = ~np.isnan(before + after).any(axis=0)
    before, after = before[:, has_order], after[:, has_order]
    pairs = [(one, samples[has_order]) for one, samples in pairs]
    with np.errstate(divide="ignore", invalid="ignore"):
        each = [np.corrcoef(*scores)[0, 1] for scores in zip(before, after, strict=True)]
    shift = max(np.mean(after - before, axis=1).tolist(), key=abs)
    part = copy.copy(whole.model)  # the missing features alone
    for name in ("coef_", "feature_means_"):
        array = getattr(model, name, np.zeros(len(found)))
        setattr(part, name, np.where(np.resize(found, array.shape[-1]), 0.0, array))
    classes = getattr(model, "classes_", None)
    u = decision_values(part._scores(pairs[0][1]), np.empty(0) if classes is None else classes)
    moved = float(np.mean(each)), shift, float(np.max(np.std(u, axis=0)))
    if y is None:
        return TrainingShift(*moved)
    y = np.asarray(y)
    if len(y) != len(without):
        raise ValueError(f"training has {len(y)} labels for {len(without)} samples; give one each.")
    y = y[has_order]
    if classes is None:
        scoring = "r2" if y.dtype.names is None else "concordance"
        return TrainingShift(*moved, scoring, *(one.score(x, y) for one, x in pairs))
    if not np.array_equal(np.unique(y), classes):
        raise ValueError(
            f"the training labels are {np.unique(y).tolist()} and the model's classes {classes.tolist()}; give "
            "the labels that it was fitted to."
        )
    scoring = "roc_auc" if len(classes) == 2 else "roc_auc_ovr"
    return TrainingShift(*moved, scoring, *(float(get_scorer(scoring)(*pair, y)) for pair in pairs))


def _scores(model: Any, samples: np.ndarray) -> np.ndarray:
    """Scores or predicted values, of shape (n_outputs, n_samples); NaN for samples without order."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".* have one value throughout")
        scores = getattr(model, "decision_function", model.predict)(samples)
    return np.reshape(scores, (len(samples), -1)).T


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
