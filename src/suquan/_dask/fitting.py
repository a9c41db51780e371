"""Estimators on Dask arrays: what `fit` and the predictions do in place of their ways in memory."""

import copy
import zlib
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from suquan._blocks import as_numpy
from suquan._dask.blocks import BlockRows, Blocks, Labels, RankedBlock
from suquan._dask.collections import RowBlock, check_row_blocks, map_row_blocks, take_rows
from suquan._dask.journal import Journal, checkpoint_directory, fingerprint, repeatable_seed
from suquan._dask.preprocessing import check_new_blocks, learn, transform_blocks
from suquan._dask.problem import BlockedProblem, BlockOperator
from suquan.model.prepare import crossfit_splits, make_problem, make_start, scale_features, solve
from suquan.model.problem import Splits
from suquan.model.settings import Settings, check_method, encode, fit_weights


def fit_on_blocks(estimator: Any, X: Any, y: Any, sample_weight: Any, groups: Any) -> None:
    """Fit an estimator on a Dask array; labels, weights and groups come to the driver, samples do not."""
    X = check_row_blocks(X)
    settings = Settings.of(estimator)
    settings = replace(settings, random_state=repeatable_seed(settings.random_state))
    if settings.l1_ratio > 0:
        raise ValueError(
            f"l1_ratio = {settings.l1_ratio!r} is not offered for Dask arrays, whose w-step has a ridge "
            "penalty only. Use l1_ratio=0, or load the samples: X.compute()."
        )
    if settings.method.norm:
        raise ValueError(
            f"method={settings.method.name!r} is not offered for Dask arrays. Choose another method, such as "
            "'crossfit', or load the samples: X.compute()."
        )
    stand_in = np.zeros((X.shape[0], 1), np.float32)  # scikit-learn checks that labels are as many
    samples = encode(estimator, settings, stand_in, as_numpy(y), as_numpy(sample_weight))
    samples = replace(samples, X=np.broadcast_to(np.float32(0), X.shape))
    estimator.n_features_in_ = X.shape[1]
    check_method(settings, samples)
    splits = crossfit_splits(settings, samples.loss, samples.y, as_numpy(groups), samples.used)
    weights = fit_weights(settings, samples.weights, samples.labels)
    y, weights = samples.y[samples.used], weights[samples.used]
    rows = _block_rows(X, samples.used, y, weights, splits)
    blocks = Blocks(X, rows, settings.ties, settings.missing)
    blocks.journal = _journal(settings, blocks, y, weights, splits)
    operator: Any = BlockOperator(blocks)
    own = settings.in_units(samples.units)
    problem = make_problem(own, operator, samples.loss, y, weights)
    problem = BlockedProblem(**vars(problem), splits=splits or [])
    rules: dict[str, Any] = {"missing": settings.missing, "infinite": "error"}
    learn_start = partial(learn, take_rows(X, samples.used), sample_weight=weights, **rules)
    g = make_start(settings, X.shape[1], problem.n_knots, learn_start)
    problem = scale_features(settings, problem, g)
    solve(estimator, settings, problem, g, splits, samples.classes, samples.units)
    estimator.n_passes_ = blocks.n_passes


def _block_rows(
    X: Any, used: np.ndarray, y: np.ndarray, weights: np.ndarray, splits: Splits | None
) -> list[BlockRows]:
    """Labels, weights and folds of the blocks that have any used row; `y` and `weights` are of used rows."""
    s = weights / weights.sum()
    train = _members([train for train, _ in splits or []], len(y))
    test = _members([test for _, test in splits or []], len(y))
    n_before = np.append(0, np.cumsum(used))
    rows = []
    for number, (start, stop) in enumerate(pairwise(np.cumsum([0, *X.chunks[0]]).tolist())):
        first, last = n_before[[start, stop]].tolist()
        if first < last:
            k = slice(first, last)
            folds = train[:, k].copy(), test[:, k].copy()
            labels = Labels(y[k].copy(), s[k].copy(), *folds, first)
            rows.append(BlockRows(RowBlock(number, start, stop), used[start:stop].copy(), labels))
    return rows


def _members(parts: list[np.ndarray], n_samples: int) -> np.ndarray:
    """Which samples are in each part: bool, shape (n_parts, n_samples)."""
    members = np.zeros((len(parts), n_samples), bool)
    for row, part in zip(members, parts, strict=True):
        row[part] = True
    return members


# -- checkpoints --------------------------------------------------------------------------------------


def checksum(block: RankedBlock) -> list[np.ndarray]:
    """Checksum of the ranks of a block."""
    operator = block.operator
    value = zlib.crc32(np.ascontiguousarray(operator.codes).view(np.uint8).data)
    return [np.array([zlib.crc32(operator.n_observed.view(np.uint8).data, value)])]


def _journal(settings: Settings, blocks: Blocks, y, weights, splits) -> Journal | None:
    directory = checkpoint_directory()
    if directory is None:
        return None
    parameters = vars(replace(settings, verbose=0))
    sums = blocks.collect(checksum)
    identity = {
        "parameters": fingerprint(*parameters.items()),
        "samples": fingerprint(blocks.n_features, *sums),
        "labels or weights": fingerprint(y, weights),
        "folds": fingerprint(*([] if splits is None else splits)),
    }
    return Journal(directory, identity)


# -- predictions --------------------------------------------------------------------------------------


def lazily(estimator: Any, method: str, X: Any) -> Any:
    """Dask array of what an estimator's method gives, block by block; one sample shows its shape and type."""
    if method == "transform":
        return transform_blocks(estimator, X)
    X = check_new_blocks(estimator, X)
    nameless = copy.copy(estimator)
    nameless.__dict__.pop("feature_names_in_", None)
    example = getattr(nameless, method)(np.arange(X.shape[1], dtype=np.float64)[None])
    nothing = np.reshape(example, (1, -1))[:0]
    predicted = map_row_blocks(
        _predict_block, X, dtype=nothing.dtype, width=nothing.shape[1],
        fitted=copy.copy(estimator), method=method, nothing=nothing,
    )  # fmt: skip
    return predicted[:, 0] if example.ndim == 1 else predicted


def _predict_block(
    X: np.ndarray, where: RowBlock, fitted: Any, method: str, nothing: np.ndarray
) -> np.ndarray:
    """What the method gives for the rows of a block, as a matrix; `nothing` where it has no rows."""
    return np.reshape(getattr(fitted, method)(X), (len(X), -1)) if len(X) else nothing
