"""How kernels are compiled: without the interpreter lock, and cached on disk where that is possible."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba

# Sums may be taken in any order, so that they vectorise; NaN and infinity keep their meaning.
_REASSOCIATE = {"reassoc", "contract", "nsz"}


def kernel(function: Callable) -> Callable:
    """Compile `function` with Numba, caching the machine code where some directory is writable."""
    return _compile(function)


def summing_kernel(function: Callable) -> Callable:
    """Compile as :func:`kernel` does, letting sums be reordered."""
    return _compile(function, fastmath=_REASSOCIATE)


def _compile(function: Callable, **options: Any) -> Callable:
    """Compile in memory where Numba finds no directory to cache in.

    It looks next to the source and in the user's cache directory, and raises when neither can be
    written; a read-only installation must still work.
    """
    try:
        return numba.njit(nogil=True, cache=True, **options)(function)
    except RuntimeError as error:
        if "no locator available" not in str(error):
            raise
        return numba.njit(nogil=True, **options)(function)
