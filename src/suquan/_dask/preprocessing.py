"""Quantile normalisation of Dask arrays: targets learned in one round, samples normalised lazily.

The normalisers and :func:`suquan.quantile_normalize` call this, and fits that start at a learned target.
"""

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
    names = getattr(estimator, "feature_names_in_", None)
    rules = {"ties": estimator.ties, "missing": estimator.missing, "infinite": "error"}
    return normalize(as_ranked_type(X), estimator.target_quantiles_, **rules, names=names)


def normalize(
    X: Any, f: np.ndarray, *, ties: str, missing: str, infinite: str = "allow", names: Any = None
) -> Any:
    """Samples normalised to f: a lazy Dask array in the same blocks of rows.

    The rules are those of :func:`suquan.quantile_normalize`; infinities may be refused, too. `names` are those
    of the features, for messages.
    """
    X = check_row_blocks(X, min_samples=0)
    dtype = kernel_dtype(X.dtype)
    check_fits(f, dtype)
    rules = {"missing": missing, "infinite": infinite, "feature_names": names}
    return map_row_blocks(_normalize_block, X, dtype=dtype, f=f, ties=ties, rules=rules)


def _normalize_block(
    block: np.ndarray, where: RowBlock, f: np.ndarray, ties: str, rules: dict
) -> np.ndarray:
    """Normalised samples of a block; messages name the sample by its row in the whole array."""
    where.check(block, **rules)
    operator = SampleOperator.from_samples(block, ties=ties, missing=rules["missing"], n_jobs=1)
    return normalize_ranked(operator, f, block.dtype)


def learn(X: Any, target: str, *, sample_weight: Any = None, **rules: Any) -> np.ndarray:
    """Mean, median or approximate median of the sorted samples, of shape (n_features,); computes.

    The `rules` say whether a `missing` or an `infinite` value is an "error". For the mean, every block gives
    its own, with its weight; for the approximate median, K evenly spaced quantiles in place of its samples. The
    K points at (i + ½)/K of a distribution tell the share below any value up to 1/(2K), and so do the points of
    all blocks together: K = ⌈1/(2·MEDIAN_ERROR)⌉ keeps the promise.
    """
    X, rules = check_row_blocks(X), {"missing": "error", "infinite": "allow", **rules}
    weights = block_weights(sample_weight, X)
    if target == "median":
        ordered = map_row_blocks(_sort_block, X, dtype=kernel_dtype(X.dtype), **rules)
        return _median_over_rows(ordered, weights, X)
    n_rows = 1 if target == "mean" else int(np.ceil(0.5 / MEDIAN_ERROR))
    chunks = (n_rows,) * X.numblocks[0], (X.shape[1] + 1,)
    options: dict[str, Any] = {"n_rows": n_rows, "dtype": np.float64, "chunks": chunks}
    parts = map_row_blocks(_summary_of_block, X, weights, target=target, **options, **rules)
    if target == "approximate_median":
        return _median_over_rows(parts[:, :-1], parts[:, -1:], X)
    (means,) = compute(parts, blocks_of=X)
    total = means[:, -1].sum()
    if not total > 0:
        raise ValueError(NO_SAMPLE)
    return finite_target((means[:, -1] / total) @ means[:, :-1], "mean")


def _sort_block(block: np.ndarray, where: RowBlock, **rules: Any) -> np.ndarray:
    where.check(block, **rules)
    return sort_samples(block, SampleOperator.from_samples(block, missing="ignore", n_jobs=1))


def _summary_of_block(
    block: np.ndarray, weights: np.ndarray, where: RowBlock, target: str, n_rows: int, **rules: Any
) -> np.ndarray:
    """Mean of the sorted samples, or quantiles of every rank, and the weight of each row in the last column.

    Samples without a value do not count.
    """
    where.check(block, **rules)
    w = np.where(np.isnan(block).all(axis=1), 0.0, weights[:, 0])
    block, w = (block, w) if w.all() else (block[w > 0], w[w > 0])
    if not len(block):
        return np.zeros((n_rows, block.shape[1] + 1))
    if target == "mean":
        rows = learn_target(block, "mean", sample_weight=w, missing="ignore", n_jobs=1)[None]
    else:
        ordered = _sort_block(block, where, missing="ignore", infinite="allow")
        rows = np.quantile(ordered, grid(n_rows), axis=0, weights=w, method="inverted_cdf")
    return np.column_stack([rows, np.full(n_rows, w.sum() / n_rows)])


def _median_over_rows(ordered: Any, weights: Any, X: Any) -> np.ndarray:
    """Weighted median of each column, rechunked so that one task sees a few columns of all rows.

    Rows of NaN do not count. `X` has the samples whose rows an error can be traced to.
    """
    n_rows, n_features = ordered.shape
    bytes_per_rank = n_rows * ordered.dtype.itemsize
    per_block = max(1, min(n_features, BYTES_PER_BLOCK // bytes_per_rank))
    per_pass = n_features
    if active_client() is None:  # whose workers spill to disk; here memory is all there is
        per_pass = max(per_block, min(n_features, BYTES_OF_SORTED_VALUES // bytes_per_rank))
    f = np.empty(n_features)
    for start in range(0, n_features, per_pass):
        columns = ordered[:, start : start + per_pass].rechunk((-1, per_block))
        medians = da.map_blocks(
            _median_of_columns, columns, weights.rechunk((-1, 1)), dtype=np.float64,
            chunks=((1,), columns.chunks[1]), meta=np.empty((0, 0)),
        )  # fmt: skip
        (part,) = compute(medians, blocks_of=X)
        f[start : start + per_pass] = part[0]
    if np.isnan(f).all():
        raise ValueError(NO_SAMPLE)
    return finite_target(f, "median")


def _median_of_columns(ordered: np.ndarray, weights: np.ndarray) -> np.ndarray:
    w = np.where(np.isnan(ordered[:, 0]), 0.0, weights[:, 0])
    if not w.any():
        return np.full((1, ordered.shape[1]), np.nan)  # refused on the driver
    return median_rows(ordered, w, 1)[None, :]
