"""Target quantiles: named ones, their resolution to a vector, and those learned from samples alone.

A name, distribution, callable, array or matrix of samples comes in; a vector of one value per feature goes out.
Normalisers, models, plots and the command line call this.
"""

import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.special import ndtr, ndtri

from suquan._blocks import for_each_block, over_blocks
from suquan._kernels import operators
from suquan._validation import fill_masked
from suquan.ranking import SampleOperator, as_rows, code_masks, kernel_dtype, weighted_sum

LEARNED = ("median", "mean", "approximate_median")

# How far from ½ the share of the samples below the "approximate_median" may be; in memory it is exact.
MEDIAN_ERROR = 0.005
NO_SAMPLE = (
    "no sample is left to learn the target from: every sample has weight 0 or no observed value. Give at "
    "least one, or a target that does not look at the data, such as 'normal'."
)


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
    is_integer = isinstance(n_features, int | np.integer) and not isinstance(n_features, bool)
    if not is_integer or n_features < 1:
        raise ValueError(f"n_features must be a positive integer; got {n_features!r}.")
    if isinstance(target, str):
        _check_name("target", target, NAMED)
        return np.array(NAMED[target](grid(n_features)))
    inverse = _inverse(target)
    if inverse is None:
        values = read_at_grid(_as_vector(target), n_features)
    else:
        values = np.array(inverse(grid(n_features)), dtype=np.float64)
        if values.shape != (n_features,):
            raise ValueError(
                f"the target must give one quantile per probability: {n_features} were asked "
                f"for, an array of shape {values.shape} came. Make it work on arrays."
            )
    if not np.all(np.isfinite(values)):
        bad = int(np.flatnonzero(~np.isfinite(values))[0])
        raise ValueError(
            f"target quantiles must be finite numbers; value {bad} is {values[bad]}. "
            "Give quantiles without NaN and infinities."
        )
    if np.any(np.diff(values) < 0):
        warnings.warn(
            "the target quantiles are not non-decreasing: normalised samples will not keep the order "
            "of their values. Sort them if that is not what you want.",
            UserWarning,
            stacklevel=2,
        )
    return values


def resolve_target(target: Any, n_features: int) -> np.ndarray:
    """Target that does not look at the data, one value per feature; arrays must have that length."""
    if isinstance(target, str):
        _check_name("target_quantiles", target, (*LEARNED, *NAMED))
    elif _inverse(target) is None and (n_values := _as_vector(target).size) != n_features:
        raise ValueError(
            f"target_quantiles has {n_values} values but X has {n_features} features; give one "
            "per feature, a name such as 'normal', or "
            f"make_target_quantiles(target_quantiles, {n_features})."
        )
    return make_target_quantiles(target, n_features)


def _check_name(parameter: str, name: str, known: Iterable[str]) -> None:
    """Raise a ValueError that lists the known names unless `name` is one of them."""
    if name not in known:
        raise ValueError(
            f"unknown {parameter} {name!r}; known names are {', '.join(map(repr, known))}. A scipy.stats "
            "distribution, a callable on (0, 1) or an array of quantiles will do too."
        )


def _inverse(target: Any) -> Any:
    """Function that gives the quantiles of a distribution or callable; None for an array."""
    own = getattr(target, "ppf", None) or getattr(target, "icdf", None)
    return own or (target if callable(target) else None)


def _as_vector(target: Any) -> np.ndarray:
    """Array-like target as a vector of floats."""
    try:
        given = np.asarray(fill_masked(target))
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


def learn_target(
    X: np.ndarray,
    target: str,
    *,
    operator: SampleOperator | None = None,
    sample_weight: np.ndarray | None = None,
    missing: str = "error",
    n_jobs: int | None = None,
) -> np.ndarray:
    """Mean or median of the sorted samples, place by place, of shape (n_features,).

    Samples with missing values enter with their interpolated quantiles; samples with weight 0 or without any
    observed value do not enter. In memory the approximate median is the median.

    `operator` has the ranks of the samples, where they are known; `missing` and `n_jobs` are then its own. The
    result does not depend on the number of threads.
    """
    if operator is None:
        operator = SampleOperator.from_samples(X, missing=missing, n_jobs=n_jobs)
    weights = np.ones(len(X)) if sample_weight is None else sample_weight
    weights = np.where(operator.n_observed > 0, weights, 0.0)
    if not weights.sum() > 0:
        raise ValueError(NO_SAMPLE)
    if target == "mean":
        return finite_target(_mean_rows(X, operator, weights), "mean")
    return finite_target(median_rows(sort_samples(X, operator), weights, operator.n_jobs), "median")


def sort_samples(X: np.ndarray, operator: SampleOperator) -> np.ndarray:
    """Samples with their values sorted, of shape (n_samples, n_features).

    Samples with missing values have their interpolated quantiles, those without any value NaN.
    """
    ordered = np.empty(X.shape, kernel_dtype(X.dtype))
    _, mask = code_masks(operator.codes.dtype)

    def sort_block(rows: slice) -> None:
        values = as_rows(X[rows], ordered.dtype)
        operators.sort_rows(
            values, operator.codes[rows], mask, operator.n_observed[rows], ordered[rows]
        )

    for_each_block(sort_block, X.shape, operator.n_jobs)
    return ordered


def median_rows(ordered: np.ndarray, weights: np.ndarray, n_jobs: int | None) -> np.ndarray:
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


def _mean_rows(X: np.ndarray, operator: SampleOperator, weights: np.ndarray) -> np.ndarray:
    """Weighted mean of the sorted samples, of which none is without values where its weight is positive."""

    def total(weights: np.ndarray) -> np.ndarray:
        def sum_block(rows: slice) -> np.ndarray:
            used = np.flatnonzero(weights[rows]) + rows.start
            ordered = sort_samples(X[used], replace(operator.take(used), n_jobs=1))
            return weighted_sum(weights[used], ordered)

        return sum(over_blocks(sum_block, X.shape, operator.n_jobs), np.zeros(X.shape[1]))

    with np.errstate(over="ignore", invalid="ignore"):
        f = total(weights) / weights.sum()
        if not np.all(np.isfinite(f)):  # the sum overflowed, or the data are infinite
            f = total(weights / weights.sum())
    return f


def finite_target(f: np.ndarray, name: str) -> np.ndarray:
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

    `node`, integers, and `part`, both of shape (n_features,), and the number of knots go out.
    """
    position = np.clip(grid(n_features) * n_knots - 0.5, 0.0, n_knots - 1.0)
    node = position.astype(np.int64)
    return node, position - node, n_knots
