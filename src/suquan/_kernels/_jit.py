"""How kernels are compiled: without the interpreter lock, and cached on disk where that is possible."""

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numba


def kernel(function: Callable) -> Callable:
    """Compile `function` with Numba, caching the machine code where some directory is writable.

    Numba looks next to the source and in the user's cache directory, and raises when neither can be written; a
    read-only installation must still work. So must one whose cache is damaged, or on a full disk.
    """
    try:
        compiled = numba.njit(cache=True, nogil=True)(function)
    except RuntimeError as error:
        if "no locator available" not in str(error):
            raise
        return numba.njit(nogil=True)(function)
    cache = getattr(compiled, "_cache", None)  # none where NUMBA_DISABLE_JIT is set
    if cache is not None:
        for name in ("load_overload", "save_overload"):
            setattr(cache, name, partial(_try, getattr(cache, name), cache))
    return compiled


def _try(step: Callable, cache: Any, *arguments: Any) -> Any:
    """Load or save machine code; where that fails, go on without the cache."""
    try:
        return step(*arguments)
    except Exception as error:  # what a damaged file trips over has no common type
        cache.disable()
        problem = f"Numba's cache cannot be used ({type(error).__name__}: {error})"
        warnings.warn(f"{problem}; delete the folder {cache.cache_path}", stacklevel=2)
