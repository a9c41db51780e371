"""What the estimators use of scikit-learn beyond its documented interface, in one place."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import validation
from sklearn.utils._set_output import _get_output_config
from sklearn.utils.validation import _check_sample_weight

__all__ = ["check_sample_weight", "output_container", "validate_data"]


def validate_data(estimator: Any, X: Any, y: Any = "no_validation", **options: Any) -> Any:
    """scikit-learn's validation, silent where its search for infinities adds up huge finite values."""
    with np.errstate(over="ignore", invalid="ignore"):
        return validation.validate_data(estimator, X, y, **options)


def check_sample_weight(sample_weight: Any, X: np.ndarray) -> np.ndarray | None:
    """Validated non-negative weights, one per row of `X`; None stays None."""
    if sample_weight is None:
        return None
    weights = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
    with np.errstate(over="ignore"):
        overflows = not np.isfinite(weights.sum())
    return weights / weights.max() if overflows else weights  # only their ratios matter


def output_container(transformer: Any) -> str:
    """What `transform` gives: "default", or the kind of data frame that ``set_output`` chose."""
    return _get_output_config("transform", transformer)["dense"]
