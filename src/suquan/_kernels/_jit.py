"""How kernels are compiled: without the interpreter lock, and cached on disk where that is possible."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
from numba.extending import intrinsic

# Sums may be taken in any order, so that they vectorise; NaN and infinity keep their meaning.
_REASSOCIATE = {"reassoc", "contract", "nsz"}


def kernel(function: Callable, **options: Any) -> Callable:
    """Compile `function` with Numba, caching the machine code where some directory is writable.

    Numba looks next to the source and in the user's cache directory, and raises when neither can be written; a
    read-only installation must still work.
    """
    try:
        return numba.njit(cache=True, nogil=True, **options)(function)
    except RuntimeError as error:
        if "no locator available" not in str(error):
            raise
        return numba.njit(nogil=True, **options)(function)


def summing_kernel(function: Callable) -> Callable:
    """Compile as :func:`kernel` does, letting sums be reordered; the order need not be that of another copy."""
    return kernel(function, fastmath=_REASSOCIATE)


@intrinsic
def fma(typing_context, a, b, c):
    """a·b + c, rounded once.

    Spelled out: a compiler that may choose where to do so chooses otherwise in another copy of the same code,
    and whether a kernel was compiled or loaded decides which copy runs.
    """
    signature = numba.types.float64(numba.types.float64, numba.types.float64, numba.types.float64)

    def generate(context, builder, signature, arguments):
        return builder.fma(*arguments)

    return signature, generate


@intrinsic
def widen_vectors(typing_context):
    """Let LLVM use vectors of 512 bits in the kernel that calls this, where the processor has them.

    By itself it keeps to 256, for processors that slow down; sums in float64 then take 1.5 times as long.
    """

    def generate(context, builder, signature, arguments):
        # llvmlite checks what is added against a list that lacks these two.
        set.add(builder.function.attributes, '"prefer-vector-width"="512"')
        set.add(builder.function.attributes, '"min-legal-vector-width"="512"')
        return context.get_dummy_value()

    return numba.types.none(), generate


@intrinsic
def pointer_to(typing_context, array, place):
    """Pointer to the number at `place` in the memory of an array."""
    signature = numba.types.CPointer(array.dtype)(array, numba.types.int64)

    def generate(context, builder, signature, arguments):
        memory = context.make_array(signature.args[0])(context, builder, arguments[0])
        return builder.gep(memory.data, [arguments[1]])

    return signature, generate
