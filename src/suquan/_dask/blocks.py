"""Ranked blocks of rows on Dask, and passes over them: every block gives a few arrays, added up in a tree.

In: a Dask array whose blocks hold whole rows; labels, weights and folds from the driver. Out: sums over all
samples, for the solvers. The order of the sums depends on the blocks alone, so that results are the same on any
number of workers, and after one was lost.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, partial
from itertools import chain
from typing import Any, NamedTuple

import dask
import numpy as np
from sklearn.utils.validation import check_array
from threadpoolctl import threadpool_limits

from suquan._dask.collections import (
    DaskBlockError,
    DaskConnectionError,
    RowBlock,
    active_client,
    readable_errors,
)
from suquan._dask.journal import Journal
from suquan._validation import RANKED_DTYPES
from suquan.ranking import SampleOperator

Arrays = list[np.ndarray]

# A pass works on so many values of a block at a time, so that their design is small.
_PART_VALUES = 1 << 22
_FAN_IN = 8  # sums that one task of the tree adds up
# Designs are kept between passes while they take at most this share of the memory of all workers.
_KEPT_SHARE = 0.1
_USUAL_MEMORY = 8e9  # of a machine that does not tell


@dataclass
class Labels:
    """Labels and weights of used rows, and which fold models see or score them.

    Attributes
    ----------
    y, s : ndarray of shape (n_rows,)
        Labels as the loss wants them, and weights; those of all blocks sum to 1.
    train, test : ndarray of shape (n_models, n_rows), bool
        Which models see which rows, and which score them as held out.
    first : int
        Number of used rows before these.
    """

    y: np.ndarray
    s: np.ndarray
    train: np.ndarray
    test: np.ndarray
    first: int

    def take(self, rows: slice) -> Labels:
        """Those of consecutive rows; views."""
        labels = self.y[rows], self.s[rows], self.train[:, rows], self.test[:, rows]
        return Labels(*labels, self.first + rows.start)


@dataclass
class RankedBlock(Labels):
    """Consecutive used rows of a block, few enough for their design to be small.

    Attributes
    ----------
    operator : SampleOperator
    memo : dict
        What the last passes computed and the next may use again; never needed, so not sent along.
    """

    operator: SampleOperator
    memo: dict = field(default_factory=dict, repr=False, compare=False)

    def __getstate__(self) -> dict:
        return {**self.__dict__, "memo": {}}

    def __sizeof__(self) -> int:
        arrays = (self.operator.codes, self.y, self.s, self.train, self.test)
        return sum(array.nbytes for array in arrays)

    def remembered(
        self, kind: Any, token: bytes, make: Callable[[], Any], *, keep: bool, alone: bool = False
    ) -> Any:
        """What `make` gives, from the last pass where that asked for the same.

        `alone`: nothing of an earlier step is kept beside it.
        """
        known = self.memo.get(kind)
        if known is not None and known[0] == token:
            return known[1]
        # The memory of what is out of date is needed; without `keep` the same step may go on.
        self.memo.pop(kind, None)
        if alone and self.memo.get("step") != token:
            self.memo.clear()
            self.memo["step"] = token
        value = make()
        if keep:
            self.memo[kind] = token, value
        return value


class BlockRows(NamedTuple):
    """What the driver knows of a block; it travels to the block's task.

    Attributes
    ----------
    where : RowBlock
        Which block, and its rows, those of weight 0 included.
    used : ndarray of shape (n_rows,), bool
    labels : Labels
        Of the used rows.
    """

    where: RowBlock
    used: np.ndarray
    labels: Labels


def rank_block(X: Any, rows: BlockRows, ties: str, missing: str) -> list[RankedBlock]:
    """Check and rank the used rows of a block; a pass works on the parts one after the other."""
    X = check_array(X, dtype=RANKED_DTYPES, ensure_all_finite="allow-nan", ensure_min_samples=0)
    if len(X) != len(rows.used):
        raise ValueError(f"it has {len(X)} rows where {len(rows.used)} were announced.")
    X = X if rows.used.all() else X[rows.used]
    operator = SampleOperator.from_samples(X, ties=ties, missing=missing)
    step = max(1, _PART_VALUES // X.shape[1])
    parts = [slice(start, start + step) for start in range(0, len(X), step)]
    return [RankedBlock(**vars(rows.labels.take(k)), operator=operator.take(k)) for k in parts]


def scale_block(parts: list[RankedBlock], scale: np.ndarray) -> list[RankedBlock]:
    """The same samples with factors of the features."""
    return [replace(part, operator=part.operator.scaled(scale), memo={}) for part in parts]


class Blocks:
    """Ranked blocks that live on Dask.

    Parameters
    ----------
    X : dask.array.Array
        Its blocks hold whole rows.
    rows : list of BlockRows
        Of the blocks with used rows.
    ties, missing : str

    Attributes
    ----------
    journal : Journal or None
        Where the results of passes are kept, for a fit that is resumed.
    """

    def __init__(self, X: Any, rows: list[BlockRows], ties: str, missing: str) -> None:
        self.rows = rows
        self.journal: Journal | None = None
        self.n_samples, self.n_features = sum(len(part.labels.y) for part in rows), X.shape[1]
        self.n_passes = 0
        self._values = X.to_delayed().ravel()
        self._client = active_client()
        rank = partial(rank_block, ties=ties, missing=missing)
        ranked = [
            task(rank, part, self._values[part.where.number], arguments=_shared(part))
            for part in rows
        ]
        self._blocks: tuple = ()
        with self._readable_errors():
            self._blocks = dask.persist(*ranked)
        self.kept_bytes = _KEPT_SHARE * _memory()

    def scale(self, scale: np.ndarray) -> None:
        """Give the features of all samples these factors; no ranks are copied."""
        shared = _shared(scale)
        tasks = self._each(scale_block, shared)
        with self._readable_errors():
            self._blocks = dask.persist(*tasks)

    def sum(self, function: Callable[..., Arrays], *arguments: Any) -> Arrays:
        """One pass: the sums over the blocks of the arrays that ``function(part, *arguments)`` gives."""
        of_block = partial(over_parts, function, add_up)
        return self._pass(function, arguments, lambda sent: [tree_sum(self._each(of_block, sent))])

    def collect(self, function: Callable[..., Arrays], *arguments: Any) -> Arrays:
        """One pass: the arrays that ``function(part, *arguments)`` gives, in order of blocks."""
        of_block = partial(over_parts, function, list_up)
        return self._pass(function, arguments, lambda sent: self._each(of_block, sent))

    def collect_pairs(
        self, function: Callable[..., Arrays], *arguments: Any
    ) -> Iterator[tuple[int, int, np.ndarray]]:
        """One pass: the array of ``function(parts, others, *arguments)`` for all blocks i ≤ j, with i and j."""
        index = [(i, j) for i in range(len(self.rows)) for j in range(i, len(self.rows))]

        def tasks(shared: Any) -> list:
            return [
                task(function, self.rows[i], self._blocks[i], self._blocks[j], arguments=shared)
                for i, j in index
            ]

        results = self._pass(function, arguments, tasks)
        return ((i, j, result) for (i, j), result in zip(index, results, strict=True))

    def _each(self, function: Callable, shared: Any) -> list:
        tasks = []
        for part, block, home in zip(self.rows, self._blocks, self._homes, strict=True):
            with dask.annotate(**home):
                tasks.append(task(function, part, block, arguments=shared))
        return tasks

    @cached_property
    def _homes(self) -> list[dict]:
        """Where the task of each block should run: where its ranks are, unless that worker is lost.

        Left to itself, the scheduler copies blocks to workers that seem less busy.
        """
        if self._client is None:
            return [{}] * len(self._blocks)
        from distributed import futures_of, wait

        futures = [futures_of(block)[0] for block in self._blocks]
        wait(futures)
        holders = self._client.who_has(futures)
        return [
            {"workers": list(holders[future.key]), "allow_other_workers": True}
            if holders.get(future.key)
            else {}
            for future in futures
        ]

    def _pass(self, function: Callable, arguments: tuple, tasks: Callable[[Any], list]) -> Arrays:
        """All arrays that the tasks give, from the journal where it has them."""

        def compute() -> Arrays:
            if self._client is not None and self._client is not active_client():
                raise DaskConnectionError(
                    "the Dask client with which the fit began is closed, and the blocks are gone with it. "
                    "Keep it open until the fit is done."
                )
            with self._readable_errors(), threadpool_limits(1, "blas"):
                return list(chain.from_iterable(dask.compute(tasks(_shared(*arguments)))[0]))

        self.n_passes += 1
        if self.journal is None:
            return compute()
        return self.journal.recall(function.__name__, arguments, compute)

    @contextmanager
    def _readable_errors(self) -> Iterator[None]:
        """Name the block in errors, which come from reading it where they do not name it yet.

        Labels and weights travel with the graph on purpose, because a lost block needs them: no warning.
        """
        try:
            with readable_errors(self._failed_block), warnings.catch_warnings():
                warnings.filterwarnings("ignore", message="Sending large graph")
                yield
        except (DaskBlockError, DaskConnectionError):
            raise
        except Exception as error:
            name = self._failed_block(error)
            if name is None:
                raise
            what = f"{type(error).__name__}: {error}"
            raise DaskBlockError(f"{name} could not be read: {what}") from error

    def _failed_block(self, error: Exception) -> str | None:
        """Name of the first block that could not be read or ranked."""
        if self._client is None:  # nothing remembers which one it was: try them one by one
            for part in self.rows:
                try:
                    dask.compute(self._values[part.where.number])
                except Exception:
                    return str(part.where)
            return None
        from distributed import futures_of

        failed = (
            str(part.where)
            for part, block in zip(self.rows, self._blocks, strict=True)
            if any(future.status == "error" for future in futures_of(block))
        )
        return next(failed, None)


def tree_sum(tasks: list) -> Any:
    """Sum of what the tasks give, a few at a time, in their order."""
    add = dask.delayed(add_up, pure=False)
    while len(tasks) > 1:
        tasks = [add(tasks[k : k + _FAN_IN]) for k in range(0, len(tasks), _FAN_IN)]
    return tasks[0]


def over_parts(
    function: Callable[..., Arrays], gather: Callable, parts: list[RankedBlock], *arguments: Any
) -> Arrays:
    """What the parts of a block give, gathered by :func:`add_up` or :func:`list_up`."""
    return gather(function(part, *arguments) for part in parts)


def add_up(parts: Iterable[Arrays]) -> Arrays:
    """Entry by entry sums, in the order of the parts."""
    parts = iter(parts)
    total = [np.array(array) for array in next(parts)]
    for arrays in parts:
        for array, more in zip(total, arrays, strict=True):
            array += more
    return total


def list_up(parts: Iterable[Arrays]) -> Arrays:
    """All arrays, in the order of the parts."""
    return list(chain.from_iterable(parts))


def _shared(*arguments: Any) -> Any:
    """Arguments that travel to the tasks as they are, once."""
    return dask.delayed(arguments, traverse=False, pure=False)


def task(function: Callable, rows: BlockRows, *blocks: Any, arguments: Any) -> Any:
    """Delayed call ``function(*blocks, *arguments)`` whose failure names the block."""
    return _named(function, str(rows.where), os.getpid(), arguments, *blocks)


@partial(dask.delayed, pure=False)
def _named(function: Callable, name: str, driver: int, arguments: tuple, *blocks: Any) -> Any:
    if os.getpid() != driver:
        _limit_worker()
    try:
        return function(*blocks, *arguments)
    except DaskBlockError:
        raise
    except Exception as error:
        raise DaskBlockError(f"{name}: {type(error).__name__}: {error}") from error


@cache
def _limit_worker() -> Any:
    """One BLAS thread in this worker process from now on: Dask's own threads fill the cores."""
    return threadpool_limits(1, "blas")


def _memory() -> float:
    """Bytes of memory that the workers may use, or of this machine where there is no cluster."""
    client, limits = active_client(), []
    if client is not None:
        workers = client.scheduler_info(n_workers=-1)["workers"].values()
        limits = [worker["memory_limit"] for worker in workers]
    if limits and all(limits):
        return float(sum(limits))
    try:
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, OSError, ValueError):  # not every system tells
        return _USUAL_MEMORY
