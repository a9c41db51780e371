"""What the kernels that order rows are fed: blocks of rows and, where they are short, their sorted words.

NumPy sorts the words of short rows with the vector instructions of the machine. It is called on as many rows
as stay in the cache. Without such instructions it is several times slower than the kernels' own sort, and is
not called. The order is the same either way.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from suquan._blocks import as_kernel_rows
from suquan._kernels.ranking import SHORT, write_words
from suquan._kernels.words import CELL_SORTER

# Values sorted at a time: few enough for the cache, many against the cost of calling a kernel.
_ELEMENTS_PER_PART = 1 << 16

# What NumPy calls the instructions with which this was found faster; the names depend on its version.
_VECTORS = {"AVX2", "AVX512_SKX", "X86_V3", "X86_V4"}


def numpy_sorts_in_vectors() -> bool:
    """Whether NumPy uses the vector instructions of this machine for its sorts."""
    simd = np.show_config("dicts")["SIMD Extensions"]
    return not _VECTORS.isdisjoint([*simd.get("baseline", ()), *simd.get("found", ())])


_LONGEST_FOR_NUMPY = SHORT if numpy_sorts_in_vectors() else 0


def kernel_rows(
    X: np.ndarray, rows: slice, dtype: np.dtype
) -> Iterator[tuple[slice, tuple[Any, ...]]]:
    """Slices of the block `rows` of `X`, each with the arguments by which a kernel orders its rows.

    These are the values, their bits, flip and inf_key (see :mod:`suquan._kernels.ranking`), the sorted
    words, of which there are none if NumPy does not sort rows of this length, and the address of the kernels'
    own sorter.
    """
    block, (view, flip, inf_key) = as_kernel_rows(X, rows, dtype)
    n_rows, n_features = block.shape
    sorter = CELL_SORTER.address
    if n_features > _LONGEST_FOR_NUMPY:
        no_words = np.empty((0, 0), np.uint32)
        yield rows, (block, block.view(view), flip, inf_key, no_words, sorter)
        return
    step = max(1, _ELEMENTS_PER_PART // n_features)
    words = np.empty((min(step, n_rows), n_features), np.uint32)
    for start in range(0, n_rows, step):
        part = block[start : start + step]
        values: tuple[Any, ...] = part, part.view(view), flip, inf_key
        sorted_words = words[: len(part)]
        write_words(*values, sorted_words)
        sorted_words.sort(axis=1)
        first = rows.start + start
        yield slice(first, first + len(part)), (*values, sorted_words, sorter)
