"""Quantile normalisation of Dask arrays: targets learned in one round, samples normalised lazily."""

from typing import Any

import dask.array as da
import numpy as np
import sklearn
from sklearn.utils.validation import check_is_fitted

from suquan._dask.collections import (
    RowBlock,
    active_client,
    block_weights,
    check_row_blocks,
    compute,
    map_row_blocks,
)
from suquan._validation import RANKED_DTYPES, check_choice
from suquan.ranking import MISSING, TIES, SampleOperator, check_fits, kernel_dtype
from suquan.ranking import normalize as normalize_ranked
from suquan.targets import (
    MEDIAN_ERROR,
    NO_SAMPLE,
    finite_target,
    grid,
    learn_target,
    median_rows,
    sort_samples,
)

# Partial results that one task adds up: a tree of few levels, with messages of a few vectors.
PARTS_PER_TASK = 8

# Sorted values that are held at a time while medians are taken, without a cluster to spill them to disk.
BYTES_OF_SORTED_VALUES = 1 << 30
BYTES_PER_BLOCK = 1 << 26


def check_new_blocks(estimator: Any, X: Any) -> Any:
    """Dask array of samples for a fitted estimator, checked."""
    check_is_fitted(estimator)
    X = check_row_blocks(X)
    if X.shape[1] != estimator.n_features_in_:
        raise ValueError(
            f"X has {X.shape[1]} features, but {type(estimator).__name__} is expecting "
            f"{estimator.n_features_in_} features as input."
        )
    return X


def as_ranked_type(X: Any) -> Any:
    """A Dask array in one of the types that scikit-learn's validation gives."""
    return X if X.dtype in RANKED_DTYPES else X.astype(np.float64)


def transform_blocks(estimator: Any, X: Any) -> Any:
    """Samples of a Dask array, lazily normalised to the target of a fitted estimator.

    A container that would load the samples is refused: scikit-learn fills it without asking.
    """
    X = check_new_blocks(estimator, X)
    check_choice("ties", estimator.ties, TIES)
    check_choice("missing", estimator.missing, MISSING)
    if estimator.target_quantiles_.ndim > 1:
        raise ValueError(
            "copies of samples for several targets are not offered for Dask arrays. Transform X.compute()."
        )
    chosen = getattr(estimator, "_sklearn_output_config", {}).get("transform")
    chosen = chosen or sklearn.get_config()["transform_output"]
    if chosen != "default":
        raise ValueError(
            f"set_output(transform={chosen!r}) would load all samples of a Dask array into one table. Use "
            "set_output(transform='default'), or transform X.compute()."
        )
    return normalize(
        as_ranked_type(X),
        estimator.target_quantiles_,
        ties=estimator.ties,
        missing=estimator.missing,
        infinite="error",
        feature_names=getattr(estimator, "feature_names_in_", None),
    )


def normalize(
    X: Any,
    f: np.ndarray,
    *,
    ties: str,
    missing: str,
    infinite: str = "allow",
    feature_names: Any = None,
) -> Any:
    """Samples normalised to f: a lazy Dask array in the same blocks of rows.

    Parameters
    ----------
    X : dask array of shape (n_samples, n_features)
    f : ndarray of shape (n_features,)
    ties, missing
        The rules of :func:`suquan.quantile_normalize`.
    infinite : {"error", "allow"}, default="allow"
    feature_names : array-like, default=None
        For messages.
    """
    X = check_row_blocks(X, min_samples=0)
    dtype = kernel_dtype(X.dtype)
    check_fits(f, dtype)
    rules = {"missing": missing, "infinite": infinite, "feature_names": feature_names}
    return map_row_blocks(
        _normalize_block, X, dtype=dtype, name="quantile_normalize", f=f, ties=ties, rules=rules
    )


def _normalize_block(
    block: np.ndarray, where: RowBlock, f: np.ndarray, ties: str, rules: dict
) -> np.ndarray:
    """Normalised samples of a block; messages name the sample by its row in the whole array."""
    if rules["infinite"] == "error":
        where.check(block, **{**rules, "missing": "ignore"})
    try:
        operator = SampleOperator.from_samples(
            block,
            ties=ties,
            missing=rules["missing"],
            n_jobs=1,
            feature_names=rules["feature_names"],
        )
        return normalize_ranked(operator, f, block.dtype)
    except ValueError:
        where.check(block, **{**rules, "infinite": "allow"})
        raise


def learn(
    X: Any,
    target: str,
    *,
    sample_weight: Any = None,
    missing: str = "error",
    infinite: str = "allow",
) -> np.ndarray:
    """Mean or median of the sorted samples, place by place, of shape (n_features,); computes.

    Parameters
    ----------
    X : dask array of shape (n_samples, n_features)
    target : {"mean", "median", "approximate_median"}
    sample_weight : array or dask array of shape (n_samples,), default=None
    missing : {"error", "ignore"}, default="error"
    infinite : {"error", "allow"}, default="allow"
    """
    X = check_row_blocks(X)
    weights = block_weights(sample_weight, X)
    if weights is None:
        weights = da.ones((X.shape[0], 1), chunks=(X.chunks[0], 1))
    rules = {"missing": missing, "infinite": infinite}
    if target == "mean":
        return _learn_mean(X, weights, rules)
    if target == "approximate_median":
        return _approximate_median(X, weights, rules)
    return _learn_median(X, weights, rules)


# ----------------------------------------------------------------------------------------------------- mean


def _learn_mean(X: Any, weights: Any, rules: dict) -> np.ndarray:
    """Every block gives its mean and weight as one vector; these are averaged in a tree."""
    shape = {"width": X.shape[1] + 1, "rows_out": (1,) * X.numblocks[0]}
    parts = map_row_blocks(_mean_of_block, X, weights, dtype=np.float64, **shape, **rules)
    means = da.reduction(
        parts, chunk=_mean_of_means, aggregate=_mean_of_means, axis=0, keepdims=True,
        dtype=np.float64, split_every=PARTS_PER_TASK, meta=np.empty((0, 0)),
    )  # fmt: skip
    (mean,) = compute(means, blocks_of=X)
    if not mean[0, -1] > 0:
        raise ValueError(NO_SAMPLE)
    return finite_target(mean[0, :-1], "mean")


def _usable(block: np.ndarray, weights: np.ndarray, where: RowBlock, rules: dict) -> tuple:
    """Samples with a positive weight and a value, with their weights; what the rules forbid is refused."""
    where.check(block, **rules)
    w = weights[:, 0]
    keep = w > 0
    if rules["missing"] == "ignore":
        keep &= ~np.isnan(block).all(axis=1)
    return (block, w) if keep.all() else (block[keep], w[keep])


def _mean_of_block(
    block: np.ndarray, weights: np.ndarray, where: RowBlock, **rules: Any
) -> np.ndarray:
    block, w = _usable(block, weights, where, rules)
    out = np.zeros((1, block.shape[1] + 1))
    if len(block):
        out[0, :-1] = learn_target(block, "mean", sample_weight=w, missing="ignore", n_jobs=1)
        out[0, -1] = w.sum()
    return out


def _mean_of_means(parts: np.ndarray, axis: Any, keepdims: bool) -> np.ndarray:
    """Mean of the rows, weighted by their last entries, which are added up: shape (1, n_features + 1)."""
    weight = parts[:, -1].sum()
    out = np.zeros((1, parts.shape[1]))
    if weight > 0:
        out[0, :-1] = (parts[:, -1] / weight) @ parts[:, :-1]
        out[0, -1] = weight
    return out


# --------------------------------------------------------------------------------------------------- median


def _learn_median(X: Any, weights: Any, rules: dict) -> np.ndarray:
    """Median of the sorted samples, place by place."""
    ordered = map_row_blocks(
        _sort_block, X, dtype=kernel_dtype(X.dtype), name="sort_samples", **rules
    )
    if rules["missing"] == "ignore":
        weights = map_row_blocks(_weight_of_observed, X, weights, dtype=np.float64, width=1)
    return _median_over_rows(ordered, weights, X)


def _approximate_median(X: Any, weights: Any, rules: dict) -> np.ndarray:
    """Median of K evenly spaced quantiles of every block in place of its samples.

    The K points at (i + ½)/K of a distribution tell the share below any value up to 1/(2K), and so do the
    points of all blocks together: K = ⌈1/(2·MEDIAN_ERROR)⌉ keeps the promise.
    """
    n_points = int(np.ceil(0.5 / MEDIAN_ERROR))
    shape = {"width": X.shape[1] + 1, "rows_out": (n_points,) * X.numblocks[0]}
    parts = map_row_blocks(
        _points_of_block, X, weights, dtype=np.float64, n_points=n_points, **shape, **rules
    )
    return _median_over_rows(parts[:, :-1], parts[:, -1:], X)


def _median_over_rows(ordered: Any, weights: Any, X: Any) -> np.ndarray:
    """Weighted median of each column, rechunked so that one task sees a few places of all rows.

    Parameters
    ----------
    ordered : dask array of shape (n_rows, n_features)
    weights : dask array of shape (n_rows, 1)
    X : dask array
        Samples whose rows an error can be traced to.
    """
    n_rows, n_features = ordered.shape
    whole = weights.rechunk((-1, 1))
    bytes_per_place = n_rows * ordered.dtype.itemsize
    per_block = max(1, min(n_features, BYTES_PER_BLOCK // bytes_per_place))
    per_pass = n_features
    if active_client() is None:  # whose workers spill to disk; here memory is all there is
        per_pass = max(per_block, min(n_features, BYTES_OF_SORTED_VALUES // bytes_per_place))
    f = np.empty(n_features)
    for start in range(0, n_features, per_pass):
        places = ordered[:, start : start + per_pass].rechunk((-1, per_block))
        medians = da.map_blocks(
            _median_of_places, places, whole, dtype=np.float64,
            chunks=((1,), places.chunks[1]), meta=np.empty((0, 0)),
        )  # fmt: skip
        part, weight = compute(medians, weights.sum(), blocks_of=X)
        if not weight > 0:
            raise ValueError(NO_SAMPLE)
        f[start : start + per_pass] = part[0]
    return finite_target(f, "median")


def _sort_block(block: np.ndarray, where: RowBlock, **rules: Any) -> np.ndarray:
    where.check(block, **rules)
    return sort_samples(block, SampleOperator.from_samples(block, missing="ignore", n_jobs=1))


def _weight_of_observed(block: np.ndarray, weights: np.ndarray, where: RowBlock) -> np.ndarray:
    return np.where(np.isnan(block).all(axis=1, keepdims=True), 0.0, weights)


def _median_of_places(ordered: np.ndarray, weights: np.ndarray) -> np.ndarray:
    if not weights.any():
        return np.full((1, ordered.shape[1]), np.nan)  # refused on the driver, which knows the sum
    return median_rows(ordered, weights[:, 0], 1)[None, :]


def _points_of_block(
    block: np.ndarray, weights: np.ndarray, where: RowBlock, n_points: int, **rules: Any
) -> np.ndarray:
    """Evenly spaced quantiles of every place, and in the last column the weight that each stands for."""
    block, w = _usable(block, weights, where, rules)
    if not len(block):
        return np.zeros((n_points, block.shape[1] + 1))
    ordered = sort_samples(block, SampleOperator.from_samples(block, missing="ignore", n_jobs=1))
    points = np.quantile(ordered, grid(n_points), axis=0, weights=w, method="inverted_cdf")
    return np.column_stack([points, np.full(n_points, w.sum() / n_points)])
