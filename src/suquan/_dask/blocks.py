"""Ranked blocks of rows on Dask, and passes over them.

In: a Dask array whose blocks hold whole rows; labels, weights and folds from the driver. Out: a
:class:`BlockOperator`, the sample operator of all blocks, whose sums over samples are passes. Sums are added in
an order that depends on the blocks alone, so that results are the same on any number of workers and threads.
"""

from __future__ import annotations

import copy
import os
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, partial, reduce
from typing import Any

import dask
import dask.array as da
import numpy as np
from threadpoolctl import threadpool_limits

from suquan._dask.collections import (
    DaskConnectionError,
    RowBlock,
    active_client,
    compute,
    map_row_blocks,
    row_bounds,
)
from suquan.model.problem import JointProblem, Splits
from suquan.ranking import SampleOperator
from suquan.solvers._products import one_blas_thread

Arrays = list[np.ndarray]
_FAN_IN = 8  # sums that one task of the tree adds up


@dataclass(frozen=True)
class RankedBlock:
    """Ranked samples of a block that count, with labels as the loss wants them, weights and folds.

    `train` and `test`, bool of shape (1 + n_folds, n_rows), tell which models see which rows, and which score
    them: first the model of all samples, which sees and scores all. Weights of all blocks sum to 1.
    """

    where: RowBlock
    operator: SampleOperator
    y: np.ndarray
    s: np.ndarray
    train: np.ndarray
    test: np.ndarray

    def problem(self, bare: JointProblem) -> JointProblem:
        """The part of a problem that is about these samples."""
        return replace(bare, operator=self.operator, y=self.y, s=self.s)

    def __sizeof__(self) -> int:
        """Return the bytes of its arrays, by which Dask decides what to move and what to spill."""
        arrays = (self.operator.codes, self.y, self.s, self.train, self.test)
        return sum(array.nbytes for array in arrays)


def label_rows(used: np.ndarray, y: np.ndarray, s: np.ndarray, splits: Splits) -> np.ndarray:
    """Records of what blocks must know of their samples; `y`, `s` and the splits are of the `used` ones."""
    members = np.zeros((2, len(y), 1 + len(splits)), bool)
    members[:, :, 0] = True
    for k, split in enumerate(splits, 1):
        for of_kind, samples in zip(members, split, strict=True):
            of_kind[samples, k] = True
    per_model = (bool, members.shape[2:])
    fields = [("used", bool), ("y", y.dtype), ("s", float)]
    records = np.zeros(len(used), [*fields, ("train", *per_model), ("test", *per_model)])
    records["used"] = used
    for name, values in {"y": y, "s": s, "train": members[0], "test": members[1]}.items():
        records[name][used] = values
    return records


def rank_block(
    X: np.ndarray, records: np.ndarray, where: RowBlock, ties: str, missing: str
) -> RankedBlock:
    """Check and rank the samples of a block that count."""
    used = records["used"][:, 0]
    own, X = records[used, 0], X if used.all() else X[used]
    where.check(X, rows=np.flatnonzero(used), missing=missing)
    operator = SampleOperator.from_samples(X, ties=ties, missing=missing, n_jobs=1)
    columns = (np.ascontiguousarray(own[name].T) for name in ("y", "s", "train", "test"))
    return RankedBlock(where, operator, *columns)


class BlockOperator:
    """The sample operator of all blocks, and passes over them.

    Blocks of `X` hold whole rows. `y`, `weights` and `splits` are of the `used` rows, which alone count.
    `totals` are the weights of the training samples of each model.
    """

    scale: np.ndarray | None = None  # factors of the features
    unscale = SampleOperator.unscale
    n_passes = 0

    def __init__(
        self, X: Any, used: np.ndarray, y: np.ndarray, weights: np.ndarray, splits: Splits,
        ties: str, missing: str,
    ) -> None:  # fmt: skip
        s = weights / weights.sum()
        self.n_samples, self.n_features = len(y), X.shape[1]
        self.totals = np.array([1.0, *(s[train].sum() for train, _ in splits)])
        self._X, self._client = X, active_client()
        records = label_rows(used, y, s, splits)[:, None]
        records = da.from_array(records, chunks=(X.chunks[0], 1), name=False)
        ranked = map_row_blocks(rank_block, X, records, dtype=object, ties=ties, missing=missing)
        n_used = [used[where.start : where.stop].sum() for where in row_bounds(X)]
        blocks = ranked.to_delayed().ravel()[np.flatnonzero(n_used)]
        with warnings.catch_warnings():  # labels are in the graph, as a lost block needs them
            warnings.filterwarnings("ignore", message="Sending large graph")
            self._blocks = compute(*blocks, blocks_of=X, keep=True)

    def sum(self, function: Callable[[RankedBlock], Arrays]) -> Arrays:
        """One pass: the sums over the blocks of the arrays that ``function(block)`` gives."""
        tasks = self._tasks(function)
        while len(tasks) > 1:
            tasks = [_add_up(tasks[k : k + _FAN_IN]) for k in range(0, len(tasks), _FAN_IN)]
        return self._compute(tasks)[0]

    def collect(self, function: Callable[[RankedBlock], Any]) -> tuple:
        """One pass: what ``function(block)`` gives, in order of blocks."""
        return self._compute(self._tasks(function))

    def _tasks(self, function: Callable) -> list:
        shared = dask.delayed((function, self.scale), traverse=False, pure=False)
        return [_work(block, shared, os.getpid()) for block in self._blocks]

    def _compute(self, tasks: list) -> tuple:
        if self._client is not None and self._client is not active_client():
            raise DaskConnectionError(
                "the Dask client with which the fit began is closed, and the blocks are gone with it. "
                "Keep it open until the fit is done."
            )
        self.n_passes += 1
        with one_blas_thread():
            return compute(*tasks, blocks_of=self._X)

    # -- what a sample operator answers, one pass each ---------------------------------------------------

    def scaled(self, scale: np.ndarray) -> BlockOperator:
        """The same samples with these factors of the features; no pass."""
        other = copy.copy(self)
        other.scale = scale
        return other

    @property
    def is_constant(self) -> bool:
        """Whether no sample has two different values."""
        return all(self.collect(lambda block: block.operator.is_constant))

    def column_moments(self, s: np.ndarray, f: np.ndarray, centre: Any, W: Any = None) -> Any:
        """Moments of the columns of T_i f; blocks have their weights."""
        return self.sum(lambda block: [block.operator.column_moments(block.s, f, centre)])[0]

    def rank_sums(self) -> np.ndarray:
        """Sums of the samples' ranks."""
        return self.sum(lambda block: [block.operator.rank_sums()])[0]

    def rank_agreement(self, sums: np.ndarray, *, leave_out: bool) -> np.ndarray:
        """Agreement of every sample's ranks with the mean of all others."""
        of_block = partial(SampleOperator.rank_agreement, sums=sums, leave_out=leave_out)
        return np.concatenate(self.collect(lambda block: of_block(block.operator)))

    def sum_apply(self, c: np.ndarray, f: np.ndarray) -> np.ndarray:
        """Σ_i c_i T_i f, for the weights c of :func:`class_weights`."""
        return self.sum(lambda block: [block.operator.sum_apply(class_weights(block, c), f)])[0]

    def sum_adjoint(self, c: np.ndarray, w: np.ndarray) -> np.ndarray:
        """Σ_i c_i T_iᵀ w."""
        return self.sum(lambda block: [block.operator.sum_adjoint(class_weights(block, c), w)])[0]


def class_weights(block: RankedBlock, totals: np.ndarray) -> np.ndarray:
    """Weights y_i s_i over the total weight of the class, for two classes labelled ±1."""
    return np.where(block.y > 0, block.s / totals[1], -block.s / totals[0])


@partial(dask.delayed, pure=False)
def _work(block: RankedBlock, shared: tuple, driver: int) -> Any:
    """Work of a pass on a block, whose failure names the block."""
    function, scale = shared
    if os.getpid() != driver:
        _limit_worker()
    if scale is not None:
        block = replace(block, operator=block.operator.scaled(scale))
    # No step is taken to where a loss overflows.
    with block.where.named(), np.errstate(over="ignore", invalid="ignore"):
        return function(block)


@partial(dask.delayed, pure=False)
def _add_up(parts: list[Arrays]) -> Arrays:
    """Entry by entry sums, in the order of the parts."""
    return [reduce(np.add, arrays) for arrays in zip(*parts, strict=True)]


@cache
def _limit_worker() -> Any:
    """One BLAS thread in this worker process from now on: Dask's own threads fill the cores."""
    return threadpool_limits(1, "blas")
