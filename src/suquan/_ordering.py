"""What the kernels that order rows are fed: blocks of rows and, where they are short, their sorted words.

NumPy sorts the words of short rows with the vector instructions of the machine. It is called on as many rows
as stay in the cache. Without such instructions it is several times slower than the kernels' own sort, and is
not called. The order is the same either way.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from suquan._blocks import ThreadMemory, as_kernel_rows
from suquan._kernels.ranking import SHORT, scratch_sizes, write_words
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


class KernelRows:
    """The rows of `X` as the kernels that order them want them, block by block, for any number of threads.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
    dtype : dtype
        What the kernels see: float32, float64 or int64.
    """

    def __init__(self, X: np.ndarray, dtype: np.dtype) -> None:
        self.X = X
        self.dtype = np.dtype(dtype)
        sizes = scratch_sizes(X.shape[1], self.dtype.itemsize)
        self._memory = ThreadMemory(sum(sizes), n_zero=sizes[0])

    def parts(self, rows: slice) -> Iterator[tuple[slice, tuple[Any, ...]]]:
        """Slices of the block `rows`, each with the arguments by which a kernel orders its rows.

        These are the values, their bits, flip and inf_key (see :mod:`suquan._kernels.cells`), the sorted
        words, of which there are none if NumPy does not sort rows of this length, the address of the kernels'
        own sorter, and working memory.
        """
        block, (view, flip, inf_key) = as_kernel_rows(self.X, rows, self.dtype)
        n_rows, n_features = block.shape
        own = CELL_SORTER.address, self._memory.get()
        if n_features > _LONGEST_FOR_NUMPY:
            no_words = np.empty((0, 0), np.uint32)
            yield rows, (block, block.view(view), flip, inf_key, no_words, *own)
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
            yield slice(first, first + len(part)), (*values, sorted_words, *own)
