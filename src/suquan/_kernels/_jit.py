"""How kernels are compiled: without the interpreter lock, and cached on disk where that is possible."""

from collections.abc import Callable

import numba


def kernel(function: Callable) -> Callable:
    """Compile `function` with Numba, caching the machine code where some directory is writable.

    Numba looks next to the source and in the user's cache directory, and raises when neither can be written; a
    read-only installation must still work.
    """
    try:
        return numba.njit(cache=True, nogil=True)(function)
    except RuntimeError as error:
        if "no locator available" not in str(error):
            raise
        return numba.njit(nogil=True)(function)
