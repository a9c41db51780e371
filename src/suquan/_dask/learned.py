"""Targets learned from the values of all blocks, without labels: their mean and their median."""

from __future__ import annotations

from typing import Any

import dask
import dask.array as da
import numpy as np
from sklearn.utils.validation import check_array

from suquan._dask.blocks import (
    BlockRows,
    Packed,
    one_blas_thread,
    quiet,
    readable_errors,
    task,
    tree_sum,
)
from suquan.ranking import raise_missing
from suquan.targets import _usable_weights, mean_target, median_target, sort_samples

_MEDIAN_BYTES = 1 << 26  # of sorted values, about, in a block of places


def learn_target_of_blocks(X: Any, rows: list[BlockRows], target: str, missing: str) -> np.ndarray:
    """Mean or median of the sorted used samples, place by place, as in memory."""
    weights = np.concatenate([part.s for part in rows])
    if target == "mean":
        return _mean(X, rows, missing)
    return _median(X, rows, weights, missing)


def _values(X: Any, rows: BlockRows) -> np.ndarray:
    X = check_array(
        X, dtype=[np.float64, np.float32], ensure_all_finite="allow-nan", ensure_min_samples=0
    )
    return X if rows.used is None else X[rows.used]


def _sum_of_sorted(X: Any, rows: BlockRows, missing: str) -> list[np.ndarray]:
    """Weighted sum of the sorted samples of a block, and the weight of those with any value."""
    X = _values(X, rows)
    weights = np.where(np.all(np.isnan(X), axis=1), 0.0, rows.s)
    total = weights.sum()
    if not total > 0.0:
        return [np.zeros(X.shape[1]), np.zeros(1)]
    f, _ = mean_target(X, sample_weight=weights, missing=missing)
    return [f * total, np.array([total])]


def _mean(X: Any, rows: list[BlockRows], missing: str) -> np.ndarray:
    values = X.to_delayed().ravel()
    parts = [
        task(_sum_of_sorted, part, values[part.number], Packed(part, missing)) for part in rows
    ]
    with readable_errors(), quiet(), one_blas_thread():
        ((total, weight),) = dask.compute(tree_sum(parts))
    _usable_weights(None, weight)
    return total / weight


def _sorted(X: Any, rows: BlockRows, missing: str) -> np.ndarray:
    """Sorted samples of a block; the last column is 1 where a sample has any value."""
    X = _values(X, rows)
    ordered, n_observed = sort_samples(X)
    if missing == "error":
        raise_missing(X, n_observed)
    return np.column_stack([ordered, (n_observed > 0).astype(ordered.dtype)])


def _median(X: Any, rows: list[BlockRows], weights: np.ndarray, missing: str) -> np.ndarray:
    """Median of each place, over blocks of places that hold all samples."""
    n_samples, n_features = len(weights), X.shape[1]
    values = X.to_delayed().ravel()
    dtype = np.float32 if X.dtype.kind == "f" and X.dtype.itemsize <= 4 else np.float64
    ordered = da.concatenate(
        [
            da.from_delayed(
                task(_sorted, part, values[part.number], Packed(part, missing)),
                (len(part.y), n_features + 1),
                dtype=dtype,
            )
            for part in rows
        ]
    )
    width = max(1, min(n_features, _MEDIAN_BYTES // (n_samples * np.dtype(dtype).itemsize)))
    chunks = [width] * (n_features // width)
    chunks += [n_features - sum(chunks)] if sum(chunks) < n_features else []
    ordered = ordered.rechunk({0: -1, 1: (*chunks, 1)})
    parts = ordered.to_delayed().ravel()
    observed = parts[-1]
    shared = dask.delayed(weights, traverse=False, pure=False)
    medians = [
        dask.delayed(_median_of_places, pure=False)(part, observed, shared) for part in parts[:-1]
    ]
    with readable_errors(), quiet(), one_blas_thread():
        return np.concatenate(dask.compute(medians)[0])


def _median_of_places(ordered: np.ndarray, observed: np.ndarray, weights: np.ndarray) -> np.ndarray:
    usable = _usable_weights(weights, observed[:, 0].astype(np.int64))
    return median_target(np.ascontiguousarray(ordered), usable, None)
