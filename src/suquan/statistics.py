"""Tests on differences of scores over the folds of a repeated cross-validation, and tables of them."""

from typing import NamedTuple

import numpy as np
from scipy import stats

from suquan.folds import corrected_error
from suquan.model_selection import ranks_of


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
    """Mean difference with the corrected resampled variance of Nadeau and Bengio.

    Training sets of different folds overlap, so the variance of the mean is taken as
    s²·(1/J + n_test/n_train) instead of s²/J.

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
        `p_value` is two-sided.

    References
    ----------
    C. Nadeau and Y. Bengio, "Inference for the Generalization Error", Machine Learning 52, 2003.

    Examples
    --------
    >>> import numpy as np
    >>> round(corrected_difference(np.array([0.01, 0.03, 0.02]), test_share=0.5).mean, 3)
    0.02
    """
    differences = np.asarray(differences, dtype=np.float64)
    n_folds = len(differences)
    mean = float(np.mean(differences))
    if n_folds < 2:
        return Difference(mean, -np.inf, np.inf, np.nan, np.nan)
    error = corrected_error(differences, test_share)
    if error == 0.0:
        t = float(np.copysign(np.inf, mean)) if mean else 0.0
        return Difference(mean, mean, mean, t, float(mean == 0.0))
    margin = float(stats.t.ppf(0.5 + 0.5 * level, n_folds - 1)) * error
    t = mean / error
    p_value = 2.0 * float(stats.t.sf(abs(t), n_folds - 1))
    return Difference(mean, mean - margin, mean + margin, t, p_value)


def wilcoxon_greater(differences: np.ndarray) -> float:
    """One-sided paired Wilcoxon test that the first method is better, as in the paper; 1 if all equal.

    It takes folds as independent, which those of a cross-validation are not: its p-values are too small.
    """
    differences = np.asarray(differences, dtype=np.float64)
    if not np.any(differences):
        return 1.0
    return float(stats.wilcoxon(differences, alternative="greater").pvalue)


def holm(p_values: np.ndarray) -> np.ndarray:
    """Holm's adjustment of p-values for their number; NaN stays NaN.

    Examples
    --------
    >>> import numpy as np
    >>> holm(np.array([0.01, 0.04, 0.03]))
    array([0.03, 0.06, 0.06])
    """
    p_values = np.asarray(p_values, dtype=np.float64)
    adjusted = np.full(len(p_values), np.nan)
    known = np.flatnonzero(~np.isnan(p_values))
    order = known[np.argsort(p_values[known], kind="stable")]
    factors = np.arange(len(order), 0, -1)
    adjusted[order] = np.minimum(np.maximum.accumulate(p_values[order] * factors), 1.0)
    return adjusted


# -- tables of a comparison --------------------------------------------------------------------------


def summary_table(scores: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Mean, standard deviation and rank of every method's scores over the folds."""
    means = np.array([values.mean() for values in scores.values()])
    return {
        "method": np.array(list(scores)),
        "mean": means,
        "std": np.array([v.std(ddof=1) if len(v) > 1 else np.nan for v in scores.values()]),
        "rank": ranks_of(means),
    }


def tests_table(scores: dict[str, np.ndarray], test_share: float) -> dict[str, np.ndarray]:
    """Every method against every other; a two-sided test is the same for (a, b) and (b, a)."""
    pairs = [(a, b) for a in scores for b in scores if a != b]
    found = [corrected_difference(scores[a] - scores[b], test_share) for a, b in pairs]
    p_t = {frozenset(pair): one.p_value for pair, one in zip(pairs, found, strict=True)}
    p_t_holm = dict(zip(p_t, holm(np.array(list(p_t.values()))), strict=True))
    p_wilcoxon = np.array([wilcoxon_greater(scores[a] - scores[b]) for a, b in pairs])
    columns = ("difference", "low", "high", "t", "p_t")
    return {
        "method": np.array([a for a, _ in pairs]),
        "other": np.array([b for _, b in pairs]),
        **dict(zip(columns, np.array(found).reshape(-1, len(columns)).T, strict=True)),
        "p_t_holm": np.array([p_t_holm[frozenset(pair)] for pair in pairs]),
        "p_wilcoxon": p_wilcoxon,
        "p_wilcoxon_holm": holm(p_wilcoxon),
    }


def permutation_table(means: np.ndarray, observed: np.ndarray | None) -> dict[str, np.ndarray]:
    """Mean scores with shuffled labels, and the share of them that reach the observed one."""
    level = np.nan if observed is None else observed.mean()
    p_value = (1 + np.sum(means >= level)) / (1 + len(means))
    return {
        "permutation": np.arange(len(means)),
        "mean": means,
        "p_value": np.full(len(means), p_value),
    }
