"""Rows in blocks, spread over threads: the matrix's shape comes in, results in order of blocks go out.

Blocks depend on the shape alone, so that sums over blocks are the same at any number of threads. Everything
that works on samples row by row calls this. Samples that come as blocks of a Dask array are told apart here.
"""

import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from joblib import effective_n_jobs

# One to three milliseconds of ranking: small against the work, large against the cost of handing it out.
_MOST_ELEMENTS, _FEWEST_ELEMENTS = 1 << 19, 1 << 17
# Blocks that data of medium size are cut into, so that threads end at about the same time.
_N_BLOCKS = 8

Block = TypeVar("Block")
Result = TypeVar("Result")


def row_blocks(n_samples: int, n_features: int) -> Iterator[slice]:
    """Consecutive slices of rows of about the same number of elements each."""
    n_elements = n_samples * n_features // _N_BLOCKS
    n_elements = min(max(n_elements, _FEWEST_ELEMENTS), _MOST_ELEMENTS)
    step = max(1, n_elements // max(n_features, 1))
    for start in range(0, n_samples, step):
        yield slice(start, min(start + step, n_samples))


def on_threads(
    function: Callable[[Block], Result], blocks: list[Block], n_threads: int
) -> Iterator[Result]:
    """Results of `function` on every block, in order, one by one; after an error no block is begun."""
    n_threads = min(n_threads, len(blocks))
    if n_threads <= 1:
        yield from map(function, blocks)
        return
    threads = ThreadPoolExecutor(n_threads, thread_name_prefix="suquan")
    try:
        yield from threads.map(function, blocks)
    finally:
        threads.shutdown(cancel_futures=True)


def over_blocks(
    function: Callable[[slice], Result], shape: tuple[int, ...], n_jobs: int | None
) -> Iterator[Result]:
    """Results of `function` on every block of rows of a matrix, in order, one by one."""
    return on_threads(function, list(row_blocks(*shape)), effective_n_jobs(n_jobs))


def for_each_block(
    function: Callable[[slice], Any], shape: tuple[int, ...], n_jobs: int | None
) -> list:
    """Results of `function` on every block of rows of a matrix, in order, on `n_jobs` threads."""
    return list(over_blocks(function, shape, n_jobs))


def is_dask_array(X: Any) -> bool:
    """Whether `X` is a Dask array. Dask is not imported: where it was not, nothing can be one.

    Raises
    ------
    TypeError
        If `X` is another Dask collection, which scikit-learn would load into memory without a word.
    """
    array = sys.modules.get("dask.array")
    if array is not None and isinstance(X, array.Array):
        return True
    if type(X).__module__.partition(".")[0] in ("dask", "dask_expr"):
        raise TypeError(
            f"X is a Dask {type(X).__name__}; of Dask's collections only arrays are taken. Turn a data "
            "frame into one with X.to_dask_array(lengths=True), or load it with X.compute()."
        )
    return False


def as_numpy(values: Any) -> Any:
    """One value per sample in memory, where it is a Dask collection."""
    return values.compute() if hasattr(values, "dask") else values
