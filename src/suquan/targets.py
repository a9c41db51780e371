"""Target quantiles: named ones, their resolution to a vector, and those learned from samples alone.

A name, distribution, callable, array or matrix of samples comes in; a vector of one value per feature goes out.
Normalisers, models, plots and the command line call this.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtr, ndtri

from suquan._blocks import for_each_block, over_blocks
from suquan._kernels import operators
from suquan.ranking import SampleOperator, as_rows, code_masks, kernel_dtype, raise_missing

LEARNED = ("median", "mean", "approximate_median")

# How far from ½ the share of the samples below the "approximate_median" may be; in memory it is exact.
MEDIAN_ERROR = 0.005


def mixture_quantiles(
    q: np.ndarray, weights: Sequence[float], means: Sequence[float], stds: Sequence[float]
) -> np.ndarray:
    """Quantiles at q of a mixture of normal distributions, by bisection.

    They lie between the smallest and the largest of the components' quantiles at q.
    """
    components = list(zip(weights, means, stds, strict=True))
    ends = np.array([mean + std * ndtri(q) for _, mean, std in components])
    left, right = ends.min(axis=0), ends.max(axis=0)
    for _ in range(64):
        middle = 0.5 * (left + right)
        below = sum(weight * ndtr((middle - m) / std) for weight, m, std in components) < q
        left = np.where(below, middle, left)
        right = np.where(below, right, middle)
    return 0.5 * (left + right)


def _bimodal(q: np.ndarray) -> np.ndarray:
    """Quantiles of ½ N(−3, 1) + ½ N(3, 1), from the lower half by symmetry."""
    lower = np.minimum(q, 1.0 - q)
    x = mixture_quantiles(lower, (0.5, 0.5), (-3.0, 3.0), (1.0, 1.0))
    x[lower == 0.5] = 0.0
    return np.where(q < 0.5, x, -x)


def _cauchy(q: np.ndarray) -> np.ndarray:
    """Quantiles tan(π(q − ½)), with the tails by the cotangent, which does not cancel there."""
    tail = np.minimum(q, 1.0 - q)
    middle = np.tan(np.pi * (np.clip(q, 0.25, 0.75) - 0.5))
    return np.where(tail < 0.25, np.copysign(1.0, q - 0.5) / np.tan(np.pi * tail), middle)


NAMED: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "normal": ndtri,
    "uniform": lambda q: q,
    "exponential": lambda q: -np.log1p(-q),
    "cauchy": _cauchy,
    "bimodal": _bimodal,
}


def grid(n: int) -> np.ndarray:
    """Points (j + ½)/n at which a target of n values is read."""
    return (np.arange(n) + 0.5) / n


def make_target_quantiles(target: Any, n_features: int) -> np.ndarray:
    """Target quantiles of a distribution at (j + ½)/p, for j = 0, …, p − 1.

    Parameters
    ----------
    target : str, distribution, callable or array-like
        - "normal", "uniform" (on [0, 1]), "exponential", "cauchy": the standard distributions;
          "bimodal": the equal mixture of N(−3, 1) and N(3, 1);
        - a frozen `scipy.stats` distribution (anything with a method ``ppf`` or ``icdf``);
        - a callable that takes an array of probabilities in (0, 1) and returns quantiles;
        - an array of length m: the function with nodes at (i + ½)/m, linear between and constant outside
          them. With m = p these are the values themselves.
    n_features : int
        Number p of values wanted.

    Returns
    -------
    ndarray of shape (n_features,)

    Warns
    -----
    UserWarning
        If a given target is not non-decreasing. Normalisation is defined for any vector, but it then does
        not keep the order of the values.

    Examples
    --------
    >>> from suquan import make_target_quantiles
    >>> make_target_quantiles("uniform", 4)
    array([0.125, 0.375, 0.625, 0.875])
    >>> make_target_quantiles([0.0, 1.0], 4)
    array([0.  , 0.25, 0.75, 1.  ])
    """
    if isinstance(n_features, bool) or not isinstance(n_features, int | np.integer):
        raise ValueError(f"n_features must be a positive integer; got {n_features!r}.")
    if n_features < 1:
        raise ValueError(f"n_features must be a positive integer; got {n_features}.")
    if isinstance(target, str):
        if target not in NAMED:
            known = ", ".join(repr(name) for name in NAMED)
            raise ValueError(
                f"unknown target {target!r}; the named targets are {known}. A scipy.stats "
                "distribution, a callable on (0, 1) or an array of quantiles will do too."
            )
        return np.array(NAMED[target](grid(n_features)))
    values = _given_quantiles(target, n_features)
    if np.any(np.diff(values) < 0):
        warnings.warn(
            "the target quantiles are not non-decreasing: normalised samples will not keep the order "
            "of their values. Sort them if that is not what you want.",
            UserWarning,
            stacklevel=2,
        )
    return values


def _given_quantiles(target: Any, n_features: int) -> np.ndarray:
    """Quantiles of a distribution, callable or array that the user gave."""
    inverse = getattr(target, "ppf", None) or getattr(target, "icdf", None)
    if inverse is None and callable(target):
        inverse = target
    if inverse is not None:
        values = np.array(inverse(grid(n_features)), dtype=np.float64)
        if values.shape != (n_features,):
            raise ValueError(
                f"the target must give one quantile per probability: {n_features} were asked "
                f"for, an array of shape {values.shape} came. Make it work on arrays."
            )
    else:
        values = read_at_grid(_as_vector(target), n_features)
    if not np.all(np.isfinite(values)):
        bad = int(np.flatnonzero(~np.isfinite(values))[0])
        raise ValueError(
            f"target quantiles must be finite numbers; value {bad} is {values[bad]}. "
            "Give quantiles without NaN and infinities."
        )
    return values


def _as_vector(target: Any) -> np.ndarray:
    """Array-like target as a vector of floats."""
    try:
        given = np.asarray(target)
        if given.dtype.kind not in "biufO":
            raise TypeError(f"not real numbers: {given.dtype}")
        values = np.array(given, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"cannot use {target!r} as target quantiles; give a name such as 'normal', a scipy.stats "
            "distribution, a callable on (0, 1) or a one-dimensional array of numbers."
        ) from error
    if values.ndim != 1 or values.size == 0:
        raise ValueError(
            f"target quantiles must be a vector of at least one number; got shape {values.shape}."
        )
    return values


def read_at_grid(values: np.ndarray, n: int) -> np.ndarray:
    """Read the function with nodes (i + ½)/m at (j + ½)/n: linear between, constant outside."""
    if values.size == n:
        return values.copy()
    return np.interp(grid(n), grid(values.size), values)


def resolve_target(target: Any, n_features: int) -> np.ndarray:
    """Target that does not look at the data, one value per feature; arrays must have that length."""
    if isinstance(target, str) and target not in NAMED:
        known = ", ".join(repr(name) for name in (*LEARNED, *NAMED))
        raise ValueError(
            f"unknown target_quantiles {target!r}; known names are {known}. A scipy.stats "
            "distribution, a callable on (0, 1) or an array with one value per feature will do too."
        )
    is_array = not isinstance(target, str) and not callable(target) and not hasattr(target, "ppf")
    if is_array and not hasattr(target, "icdf"):
        n_values = _as_vector(target).size
        if n_values != n_features:
            raise ValueError(
                f"target_quantiles has {n_values} values but X has {n_features} features; give one "
                "per feature, a name such as 'normal', or "
                f"make_target_quantiles(target_quantiles, {n_features})."
            )
    return make_target_quantiles(target, n_features)


class RankedRows(NamedTuple):
    """Samples `rows`, ranked while a target is learned from them, to be normalised to it afterwards."""

    rows: slice
    samples: SampleOperator


def learn_target(X: np.ndarray, target: str, **rules: Any) -> np.ndarray:
    """Mean or median of the sorted samples, place by place, of shape (n_features,).

    Samples with missing values enter with their interpolated quantiles; samples with weight 0 or without any
    observed value do not enter. In memory the approximate median is the median.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
    target : {"mean", "median", "approximate_median"}
    **rules
        sample_weight, missing, n_jobs, feature_names: see :func:`rank_and_learn`.
    """
    return rank_and_learn(X, target, **rules)[0]


def rank_and_learn(
    X: np.ndarray,
    target: str,
    *,
    sample_weight: np.ndarray | None = None,
    missing: str = "error",
    n_jobs: int | None = None,
    feature_names: Any = None,
) -> tuple[np.ndarray, list[RankedRows]]:
    """What :func:`learn_target` gives, and the samples ranked, 16 or 32 bits per value."""
    if target == "mean":
        f, ranked = mean_target(
            X,
            sample_weight=sample_weight,
            missing=missing,
            n_jobs=n_jobs,
            feature_names=feature_names,
        )
        return f, ranked
    ordered, ranked = sort_samples(X, n_jobs=n_jobs)
    weights = _usable_weights(X, ranked, sample_weight, missing, feature_names)
    return median_target(ordered, weights, n_jobs), ranked


def _rank(X: np.ndarray, rows: slice) -> tuple[RankedRows, tuple]:
    """Rank a block of samples; also the first arguments of the kernels that read sorted samples.

    These are the values, the code rows, their mask, and the numbers of observed values.
    """
    samples = SampleOperator.from_samples(X[rows], missing="ignore", n_jobs=1)
    _, mask = code_masks(samples.codes.dtype)
    values = as_rows(X[rows], kernel_dtype(X.dtype))
    return RankedRows(rows, samples), (values, samples.codes, mask, samples.n_observed)


def sort_samples(
    X: np.ndarray, *, n_jobs: int | None = None
) -> tuple[np.ndarray, list[RankedRows]]:
    """Samples with their values sorted, of shape (n_samples, n_features), and ranked.

    Samples with missing values have their interpolated quantiles, those without any value NaN.
    """
    ordered = np.empty(X.shape, kernel_dtype(X.dtype))

    def sort_block(rows: slice) -> RankedRows:
        ranked, values = _rank(X, rows)
        operators.sort_rows(*values, ordered[rows])
        return ranked

    return ordered, for_each_block(sort_block, X.shape, n_jobs=n_jobs)


def median_target(ordered: np.ndarray, weights: np.ndarray, n_jobs: int | None) -> np.ndarray:
    """Weighted median of sorted samples, place by place, over those of positive weight."""
    return _finite_target(_median_rows(ordered, weights, n_jobs), "median")


def _median_rows(ordered: np.ndarray, weights: np.ndarray, n_jobs: int | None) -> np.ndarray:
    """Weighted median of each column over the rows of positive weight; NaN for a column with NaN."""
    rows = np.flatnonzero(weights)
    used = weights[rows]
    f = np.empty(ordered.shape[1])
    equal = bool(np.all(used == used[0]))

    def median_block(columns: slice) -> None:
        part = np.ascontiguousarray(ordered[rows, columns].T, dtype=np.float64)
        with np.errstate(over="ignore", invalid="ignore"):
            if equal:
                f[columns] = np.median(part, axis=1)
            if not equal or not np.all(np.isfinite(f[columns])):
                f[columns] = _weighted_medians(part, used)

    for_each_block(median_block, ordered.shape[::-1], n_jobs)
    return f


def _weighted_medians(values: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Weighted median of every row of `values`: halfway where the weights split evenly."""
    order = np.argsort(values, axis=1, kind="stable")
    below = np.cumsum(weights[order], axis=1)
    half = 0.5 * weights.sum()
    is_even = np.abs(below - half) <= 1e-12 * half
    is_even[:, -1] = False
    place = np.argmax(is_even | (below > half), axis=1)
    each = np.arange(len(values))
    low = values[each, order[each, place]]
    is_even = is_even[each, place]
    next_place = np.minimum(place + 1, values.shape[1] - 1)
    high = values[each, order[each, next_place]]
    medians = np.where(is_even, 0.5 * low + 0.5 * high, low)
    return np.where(np.isnan(values).any(axis=1), np.nan, medians)


def mean_target(
    X: np.ndarray,
    *,
    sample_weight: np.ndarray | None = None,
    missing: str = "error",
    n_jobs: int | None = None,
    feature_names: Any = None,
) -> tuple[np.ndarray, list[RankedRows]]:
    """Mean of the sorted samples, of shape (n_features,), and the samples ranked."""
    given = np.ones(X.shape[0]) if sample_weight is None else sample_weight
    with np.errstate(over="ignore", invalid="ignore"):
        total, ranked = _sum_sorted(X, given, n_jobs)
        weight = _usable_weights(X, ranked, sample_weight, missing, feature_names).sum()
        f = total / weight
        if not np.all(np.isfinite(f)):  # the sum overflowed, or the data are infinite
            f, ranked = _sum_sorted(X, given / weight, n_jobs)
    return _finite_target(f, "mean"), ranked


def _sum_sorted(
    X: np.ndarray, weights: np.ndarray, n_jobs: int | None
) -> tuple[np.ndarray, list[RankedRows]]:
    """Weighted sum of the sorted samples, of shape (n_features,), and the samples ranked."""

    def sum_block(rows: slice) -> tuple[RankedRows, np.ndarray]:
        ranked, values = _rank(X, rows)
        part = np.zeros(X.shape[1])
        operators.sum_sorted_rows(*values, weights[rows], part)
        return ranked, part

    total = np.zeros(X.shape[1])
    ranked = []
    for block, part in over_blocks(sum_block, X.shape, n_jobs):
        ranked.append(block)
        total += part
    return total, ranked


def _usable_weights(
    X: np.ndarray,
    ranked: list[RankedRows],
    sample_weight: np.ndarray | None,
    missing: str,
    feature_names: Any,
) -> np.ndarray:
    """Weights of the samples, 0 for those without any observed value; an error if none is left."""
    n_observed = np.concatenate([block.samples.n_observed for block in ranked])
    if missing == "error":
        raise_missing(X, n_observed, feature_names)
    weights = np.ones(len(n_observed)) if sample_weight is None else sample_weight
    weights = np.where(n_observed > 0, weights, 0.0)
    if not weights.sum() > 0:
        raise ValueError(
            "no sample is left to learn the target from: every sample has weight 0 or no observed "
            "value. Give at least one, or a target that does not look at the data, such as 'normal'."
        )
    return weights


def _finite_target(f: np.ndarray, name: str) -> np.ndarray:
    """`f`, or an error if the learned target is not finite."""
    bad = np.flatnonzero(~np.isfinite(f))
    if bad.size:
        raise ValueError(
            f"the {name} of the sorted samples is {f[bad[0]]} at place {bad[0]}: the data contain "
            "infinities. Remove them, or use a target that does not look at the data, such as 'normal'."
        )
    return f


def knot_positions(n_features: int, n_knots: int) -> tuple[np.ndarray, np.ndarray, int]:
    """Where every place reads the knots: f_j = (1 − part_j)·g[node_j] + part_j·g[node_j + 1].

    Returns
    -------
    node : ndarray of shape (n_features,), int64
    part : ndarray of shape (n_features,)
    n_knots : int
    """
    position = np.clip(grid(n_features) * n_knots - 0.5, 0.0, n_knots - 1.0)
    node = position.astype(np.int64)
    return node, position - node, n_knots
