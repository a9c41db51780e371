"""Tests on differences of scores over the folds of a repeated cross-validation."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy import stats

from suquan.selection.folds import corrected_error


class Difference(NamedTuple):
    """Mean difference of two methods over J folds, its interval, and t with J − 1 degrees of freedom."""

    mean: float
    low: float
    high: float
    t: float
    p_value: float


def corrected_difference(
    differences: np.ndarray, test_share: float, level: float = 0.95
) -> Difference:
    """Compute the mean difference of two methods with the corrected resampled variance.

    Training sets of different folds overlap, so the variance of the mean is taken as
    s²·(1/J + n_test/n_train) instead of s²/J (C. Nadeau and Y. Bengio, "Inference for the Generalization
    Error", Machine Learning 52, 2003).

    Parameters
    ----------
    differences : ndarray of shape (n_folds,)
        First method minus second, fold by fold.
    test_share : float
        n_test / n_train.
    level : float, default=0.95
        Of the interval.

    Returns
    -------
    Difference
        `p_value` is two-sided; NaN where all differences are 0.
    """
    differences = np.asarray(differences, dtype=np.float64)
    n_folds = len(differences)
    mean = float(np.mean(differences))
    if n_folds < 2:
        return Difference(mean, -np.inf, np.inf, np.nan, np.nan)
    error = corrected_error(differences, test_share)
    if error == 0.0:
        t = float(np.copysign(np.inf, mean)) if mean else 0.0
        return Difference(mean, mean, mean, t, 0.0 if mean else np.nan)
    margin = float(stats.t.ppf(0.5 + 0.5 * level, n_folds - 1)) * error
    t = mean / error
    p_value = 2.0 * float(stats.t.sf(abs(t), n_folds - 1))
    return Difference(mean, mean - margin, mean + margin, t, p_value)


def holm_differences(
    differences: Sequence[np.ndarray], test_share: float, level: float = 0.95
) -> list[Difference]:
    """Compute mean differences whose intervals and p-values allow for their number m, by Holm's method.

    In the order of the p-values, interval k = 0, 1, … has the level 1 − (1 − level)/(m − k) while all before it
    exclude 0; from the first one that holds 0 the level stays. So an interval excludes 0 exactly where the
    adjusted p-value is below 1 − level.
    """
    p_values = np.array([corrected_difference(d, test_share).p_value for d in differences])
    adjusted, known = holm(p_values), int(np.sum(~np.isnan(p_values)))
    n_rejected = int(np.sum(adjusted < 1.0 - level))
    steps = np.minimum(np.argsort(np.argsort(p_values, kind="stable")), n_rejected)
    return [
        corrected_difference(d, test_share, 1.0 - (1.0 - level) / max(known - k, 1))._replace(
            p_value=p
        )
        for d, k, p in zip(differences, steps.tolist(), adjusted.tolist(), strict=True)
    ]


def wilcoxon_greater(differences: np.ndarray) -> float:
    """Test one-sided by Wilcoxon whether the first method is better, as in the paper; 1 if all are equal.

    It takes folds as independent, which those of a cross-validation are not: its p-values are too small.
    """
    differences = np.asarray(differences, dtype=np.float64)
    if not np.any(differences):
        return 1.0
    return float(stats.wilcoxon(differences, alternative="greater").pvalue)


def holm(p_values: np.ndarray) -> np.ndarray:
    """Adjust p-values for their number by Holm's method; NaN stays NaN."""
    p_values = np.asarray(p_values, dtype=np.float64)
    adjusted = np.full(len(p_values), np.nan)
    known = np.flatnonzero(~np.isnan(p_values))
    order = known[np.argsort(p_values[known], kind="stable")]
    factors = np.arange(len(order), 0, -1)
    adjusted[order] = np.minimum(np.maximum.accumulate(p_values[order] * factors), 1.0)
    return adjusted
