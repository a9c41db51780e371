"""Estimators on Dask arrays: what `fit` and the predictions do in place of their ways in memory."""

import copy
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from suquan._blocks import as_numpy
from suquan._dask.blocks import BlockOperator
from suquan._dask.collections import RowBlock, check_row_blocks, map_row_blocks
from suquan._dask.preprocessing import as_ranked_type, check_new_blocks, learn, transform_blocks
from suquan._dask.problem import BlockedProblem
from suquan.model.crossfit import crossfit_splits
from suquan.model.prepare import finish, pose
from suquan.model.settings import Samples, Settings, check_method, encode, fit_weights


def fit_on_blocks(estimator: Any, X: Any, y: Any, sample_weight: Any, groups: Any) -> None:
    """Fit an estimator on a Dask array; labels, weights and groups come to the driver, samples do not."""
    X = as_ranked_type(check_row_blocks(X))
    settings = Settings.of(estimator)
    stand_in = np.zeros((X.shape[0], 1), np.float32)  # scikit-learn checks that labels are as many
    samples = encode(estimator, settings, stand_in, as_numpy(y), as_numpy(sample_weight))
    samples = replace(samples, X=np.broadcast_to(np.float32(0), X.shape))
    estimator.n_features_in_ = X.shape[1]
    _refuse(settings, samples)
    check_method(settings, samples)
    loss, units, used = samples.loss, samples.units, samples.used
    splits = crossfit_splits(settings, loss, samples.y, as_numpy(groups), used)
    y, weights = samples.y[used], fit_weights(settings, samples.weights, samples.labels)[used]
    rules = {"ties": settings.ties, "missing": settings.missing}
    operator: Any = BlockOperator(X, used, y, weights, splits or [], **rules)
    X = X if used.all() else X[np.flatnonzero(used)]
    learn_start = partial(
        learn, X, sample_weight=weights, missing=settings.missing, infinite="error"
    )
    problem, g = pose(settings, operator, loss, y, weights, units, learn_start)
    problem = BlockedProblem(**vars(problem))
    finish(estimator, settings, problem, g, splits, samples.classes, units)
    estimator.n_passes_ = problem.operator.n_passes


def _refuse(settings: Settings, samples: Samples) -> None:
    """Raise a ValueError for what is offered in memory only."""
    method, loss = settings.method, samples.loss
    for is_refused, what, cure in (
        (settings.l1_ratio > 0, f"l1_ratio = {settings.l1_ratio!r}", "Use l1_ratio=0"),
        (method.norm, f"method={method.name!r}", "Choose another method, such as 'crossfit'"),
        (loss.couples_samples, f"loss {loss.name!r}, no sum over samples,", "Choose another"),
    ):
        if is_refused:
            raise ValueError(
                f"{what} is not offered for Dask arrays. {cure}, or load the samples: X.compute()."
            )


def lazily(estimator: Any, method: str, X: Any) -> Any:
    """Dask array of what an estimator's method gives, block by block; one sample shows its shape and type."""
    if method == "transform":
        return transform_blocks(estimator, X)
    X = check_new_blocks(estimator, X)
    nameless = copy.copy(estimator)
    nameless.__dict__.pop("feature_names_in_", None)
    example = getattr(nameless, method)(np.arange(X.shape[1], dtype=np.float64)[None])
    nothing = np.reshape(example, (1, -1))[:0]
    options = {"fitted": copy.copy(estimator), "method": method, "nothing": nothing}
    chunks = X.chunks[0], nothing.shape[1:]
    predicted = map_row_blocks(_predict_block, X, dtype=nothing.dtype, chunks=chunks, **options)
    return predicted[:, 0] if example.ndim == 1 else predicted


def _predict_block(
    X: np.ndarray, where: RowBlock, fitted: Any, method: str, nothing: np.ndarray
) -> np.ndarray:
    """What the method gives for the rows of a block, as a matrix; `nothing` where it has no rows."""
    return np.reshape(getattr(fitted, method)(X), (len(X), -1)) if len(X) else nothing
