"""Rows in blocks: what the kernels are fed, and how the blocks are spread over threads.

Blocks depend on the shape of the data alone, so that sums over blocks are the same at any number of threads.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from joblib import effective_n_jobs

# One to three milliseconds of ranking: small against the work, large against the cost of handing it out.
_MOST_ELEMENTS, _FEWEST_ELEMENTS = 1 << 19, 1 << 17
# Blocks that data of medium size are cut into, so that threads end at about the same time.
_N_BLOCKS = 8


class Bits(NamedTuple):
    """How the ranking kernels see values of one type; see :mod:`suquan._kernels.cells`."""

    view: type
    flip: int
    inf_key: int


_BITS = {
    np.dtype(np.float32): Bits(np.int32, 2**31 - 1, 0x7F800000),
    np.dtype(np.float64): Bits(np.int64, 2**63 - 1, 0x7FF0000000000000),
    np.dtype(np.int64): Bits(np.int64, 0, 2**63 - 1),
}


def row_blocks(n_samples: int, n_features: int) -> Iterator[slice]:
    """Consecutive slices of rows of about the same number of elements each."""
    n_elements = n_samples * n_features // _N_BLOCKS
    n_elements = min(max(n_elements, _FEWEST_ELEMENTS), _MOST_ELEMENTS)
    step = max(1, n_elements // max(n_features, 1))
    for start in range(0, n_samples, step):
        yield slice(start, min(start + step, n_samples))


def _nothing(rows: slice) -> None:
    """What is done with blocks once all are done."""


class _Work:
    """Blocks that several threads take one by one, and their results in order."""

    def __init__(self, function: Callable[[slice], Any], blocks: list[slice]) -> None:
        self.function = function
        self.results: deque[Future] = deque(Future() for _ in blocks)
        self.pending = deque(zip(blocks, self.results, strict=True))

    def do_next(self) -> bool:
        """Work on the next block that nobody has begun; False if there is none."""
        try:
            rows, result = self.pending.popleft()
        except IndexError:
            return False
        try:
            result.set_result(self.function(rows))
        except BaseException as error:
            result.set_exception(error)
        return True

    def do_all(self) -> None:
        """Work until every block is begun."""
        while self.do_next():
            pass


def _over_blocks(
    function: Callable[[slice], Any], shape: tuple[int, ...], n_jobs: int | None
) -> Iterator[Any]:
    """Results of `function` on every block of rows, in order, one by one."""
    return on_threads(function, list(row_blocks(*shape)), effective_n_jobs(n_jobs))


def on_threads(
    function: Callable[[slice], Any], blocks: list[slice], n_threads: int
) -> Iterator[Any]:
    """Results of `function` on every block, in order, one by one.

    The calling thread works too: it never waits for another one to be woken.
    """
    n_threads = min(n_threads, len(blocks))
    if n_threads <= 1:
        yield from map(function, blocks)
        return
    work = _Work(function, blocks)
    threads = _threads(n_threads - 1)
    helpers = [threads.submit(work.do_all) for _ in range(n_threads - 1)]
    try:
        while work.results:
            result = work.results.popleft()  # not kept once it is used
            while not result.done() and work.do_next():
                pass
            yield result.result()
    finally:
        work.pending.clear()  # after an error
        # Those that have not begun never need to: all threads may be busy, with the caller's caller too.
        wait([helper for helper in helpers if not helper.cancel()])
        # A helper that never began may keep `work` for a while, but not the data.
        work.function = _nothing


@cache
def _threads(n_threads: int) -> ThreadPoolExecutor:
    """Threads that are kept for later calls: starting them takes as long as ranking 100,000 values."""
    return ThreadPoolExecutor(n_threads, thread_name_prefix="suquan")


# A forked process has none of its parent's threads.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_threads.cache_clear)


def for_each_block(
    function: Callable[[slice], Any], shape: tuple[int, ...], n_jobs: int | None
) -> list:
    """Results of `function` on every block of rows of a matrix, in order, on `n_jobs` threads."""
    return list(_over_blocks(function, shape, n_jobs))


def sum_over_blocks(
    sum_rows: Callable[[slice, np.ndarray, bool], None], shape: tuple[int, ...], n_jobs: int | None
) -> np.ndarray:
    """Sum over rows, of shape (n_features,): that of the first block, plus that of the second, and so on.

    ``sum_rows(rows, total, adds)`` sums rows one by one into `total`; what this holds counts only if it `adds`.

    Vectors are used again: one per block would take much memory where rows are long, and a fresh one each time
    as long as the work. Where blocks are single rows, one thread needs only the sum itself.
    """
    if shape[0] == 0:
        return np.zeros(shape[1])
    blocks = list(row_blocks(*shape))
    if len(blocks) == shape[0] and effective_n_jobs(n_jobs) == 1:
        total = np.empty(shape[1])
        for rows in blocks:
            sum_rows(rows, total, rows.start > 0)
        return total
    used: deque[np.ndarray] = deque()

    def sum_block(rows: slice) -> np.ndarray:
        try:
            part = used.pop()
        except IndexError:
            part = np.empty(shape[1])
        sum_rows(rows, part, False)
        return part

    parts = _over_blocks(sum_block, shape, n_jobs)
    total = next(parts)
    for part in parts:
        total += part
        used.append(part)
    return total


class ThreadMemory:
    """Working memory for kernels, an array of each thread that asks, kept from block to block.

    Where a block is a single long row, fresh memory for each takes longer than ranking it.

    Parameters
    ----------
    size : int
        Integers of 8 bytes.
    n_zero : int, default=0
        So many of them are zero at first; the others are anything, as clearing them would take time.
    """

    def __init__(self, size: int, n_zero: int = 0) -> None:
        self._size = size
        self._n_zero = n_zero
        self._of_thread = threading.local()

    def get(self) -> np.ndarray:
        """Memory of the calling thread."""
        memory = getattr(self._of_thread, "memory", None)
        if memory is None:
            memory = self._of_thread.memory = np.empty(self._size, np.int64)
            memory[: self._n_zero] = 0
        return memory


def as_kernel_rows(X: np.ndarray, rows: slice, dtype: np.dtype) -> tuple[np.ndarray, Bits]:
    """Block of rows as a contiguous array of type `dtype`, with its :class:`Bits`.

    A copy is made only where the block is not usable as it lies in memory.
    """
    block = np.require(X[rows], dtype=dtype, requirements=["C", "A", "W"])
    return block, _BITS[np.dtype(dtype)]
