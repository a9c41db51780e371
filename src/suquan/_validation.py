"""Check what users give: parameters, weights and samples.

Anything comes in; values that the rest can rely on, or an error that names the cure, go out. Estimators and
functions call this before they begin.
"""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.utils import validation
from sklearn.utils.validation import _check_sample_weight, check_array

# Types that are ranked as they are, integers of 64 bits too; scikit-learn's checks turn others into the first.
RANKED_DTYPES = [np.float64, np.float32, *(np.dtype(c).type for c in np.typecodes["AllInteger"])]
_ALIGN = "suquan.align_features(model, X) brings samples into the order of the model's features, by name."


def check_choice(name: str, value: Any, known: Any) -> None:
    """Raise a ValueError that lists the `known` values unless `value` is one of them."""
    if not isinstance(value, str) or value not in known:
        names = ", ".join(repr(k) for k in known)
        raise ValueError(f"{name} must be one of {names}; got {value!r}.")


def check_real(name: str, value: Any, interval: str, optional: bool = False) -> None:
    """Raise a ValueError where a parameter is not a number in its interval, nor None where that will do."""
    if value is None and optional:
        return
    is_number = isinstance(value, Real) and not isinstance(value, bool)
    high = 1.0 if interval.endswith("1]") else np.inf
    if not is_number or not 0.0 <= value <= high or (value == 0.0 and interval[0] == "("):
        kind = f"None or a number in {interval}" if optional else f"a number in {interval}"
        raise ValueError(f"{name} must be {kind}; got {value!r}.")
    if np.isinf(value):
        raise ValueError(f"{name} must be finite; got {value!r}.")


def check_integer(name: str, value: Any, low: int, high: int | None = None) -> None:
    """Raise a ValueError where a parameter is not an integer in its range."""
    is_integer = isinstance(value, Integral) and not isinstance(value, bool)
    if not is_integer or value < low or (high is not None and value > high):
        limits = f"at least {low}" if high is None else f"between {low} and {high}"
        raise ValueError(f"{name} must be an integer, {limits}; got {value!r}.")


def check_sample_weight(sample_weight: Any, X: np.ndarray) -> np.ndarray | None:
    """Validated non-negative weights, one per row of `X`; None stays None."""
    if sample_weight is None:
        return None
    weights = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
    with np.errstate(over="ignore"):
        overflows = not np.isfinite(weights.sum())
    return weights / weights.max() if overflows else weights  # only their ratios matter


class Observed(np.ndarray):
    """Samples whose NaN stand for entries of a masked array: these do not count, whatever `missing` is."""


def fill_masked(X: Any) -> Any:
    """Write NaN into the masked entries of a masked array; give back anything else as it is."""
    if not isinstance(X, np.ma.MaskedArray):
        return X
    return np.ma.filled(X.astype(X.dtype if X.dtype.kind in "fc" else np.float64), np.nan)


def mask_like(out: np.ndarray, X: Any, n_copies: int = 1) -> np.ndarray:
    """Give `out`, copies of normalised samples side by side, the mask of `X` where that is a masked array."""
    if not isinstance(X, np.ma.MaskedArray):
        return out
    return np.ma.array(out, mask=np.tile(np.ma.getmaskarray(X), (1, n_copies)))


def _plain(X: Any, missing: str | None) -> Any:
    """Array of a masked array, or of a data frame of numbers, whose columns scikit-learn checks one by one."""
    if isinstance(X, np.ma.MaskedArray):
        bare = X.filled(0)
        if missing == "error" and X.ndim == 2 and bare.dtype.kind == "f":
            raise_missing(bare, X.shape[1] - np.isnan(bare).sum(axis=1))
        return fill_masked(X)
    values = X.to_numpy() if hasattr(X, "columns") and hasattr(X, "to_numpy") else None
    return X if values is None or values.dtype.kind not in "iuf" else values


def as_samples(X: Any, missing: str | None = None) -> np.ndarray:
    """Two-dimensional numeric array of samples in rows; infinities and NaN are let through.

    With the rule `missing`, masked entries are marked as :class:`Observed`; without, they are NaN. What is
    sparse, not two-dimensional or not numeric is refused.
    """
    is_masked = missing is not None and isinstance(X, np.ma.MaskedArray | Observed)
    X = _plain(X, missing)
    if getattr(getattr(X, "columns", None), "is_unique", True) is False:
        # Two probes of one gene: scikit-learn refuses such names, which nothing here needs.
        X = X.set_axis(range(X.shape[1]), axis=1)
    values = check_array(
        X, dtype="numeric", ensure_all_finite=False, ensure_min_samples=0, input_name="X"
    )
    if values.dtype.kind not in "biuf":  # dates and durations pass scikit-learn's check
        raise ValueError(f"X must hold real numbers; got an array of type {values.dtype}.")
    return values.view(Observed) if is_masked else values


def validate_data(estimator: Any, X: Any, y: Any = "no_validation", **options: Any) -> Any:
    """scikit-learn's validation, silent where its search for infinities adds up huge finite values.

    Masked entries are marked as :class:`Observed`. New samples with the feature names of the training samples
    are checked as one array.
    """
    reset, is_masked = options.get("reset", True), isinstance(X, np.ma.MaskedArray | Observed)
    columns, known = getattr(X, "columns", None), getattr(estimator, "feature_names_in_", ())
    is_same = not reset and columns is not None and np.array_equal(np.asarray(columns), known)
    if is_masked or is_same:
        X = _plain(X, estimator.missing)
    with np.errstate(over="ignore", invalid="ignore"):
        if is_same and isinstance(X, np.ndarray):
            options.pop("reset")
            return check_array(X, input_name="X", estimator=estimator, **options)
        try:
            found = validation.validate_data(estimator, X, y, **options)
        except ValueError as error:
            if "feature names should match" not in str(error):
                raise
            raise ValueError(f"{error}\n{_ALIGN}") from None
    if not is_masked:
        return found
    return found.view(Observed) if isinstance(y, str) else (found[0].view(Observed), *found[1:])


def row_names(X: Any, n_samples: int) -> np.ndarray:
    """Names of the rows of a pandas data frame, or row numbers."""
    return np.asarray(X.index if hasattr(X, "iloc") else np.arange(n_samples))


def raise_missing(X: np.ndarray, n_observed: np.ndarray, feature_names: Any = None) -> None:
    """Raise a ValueError that names the first NaN, if the counts of observed values say there is one."""
    incomplete = np.flatnonzero(n_observed < X.shape[1])
    if incomplete.size == 0 or isinstance(X, Observed):
        return
    i = incomplete[0]
    j = int(np.flatnonzero(np.isnan(X[i].astype(float)))[0])
    name = f" ({str(feature_names[j])!r})" if feature_names is not None else ""
    raise ValueError(
        f"X contains NaN, first at sample {i}, feature {j}{name}; {incomplete.size} of "
        f"{X.shape[0]} samples have missing values. Fill them in, drop them, or use "
        "missing='ignore' where it is offered to normalise the observed values alone."
    )
