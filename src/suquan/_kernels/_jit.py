"""How kernels are compiled: without the interpreter lock, and cached on disk where that is possible."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numba
from llvmlite import ir
from numba.core import cgutils
from numba.extending import intrinsic

# Sums may be taken in any order, so that they vectorise; NaN and infinity keep their meaning.
_REASSOCIATE = {"reassoc", "contract", "nsz"}


def kernel(function: Callable) -> Callable:
    """Compile `function` with Numba, caching the machine code where some directory is writable."""
    return _compile(numba.njit, function, nogil=True)


def summing_kernel(function: Callable) -> Callable:
    """Compile as :func:`kernel` does, letting sums be reordered; the order need not be that of another copy."""
    return _compile(numba.njit, function, nogil=True, fastmath=_REASSOCIATE)


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


@intrinsic
def words_at(typing_context, array, place):
    """Pointer to the number at `place` in the memory of an array, as if there were words of 32 bits."""
    signature = numba.types.CPointer(numba.types.uint32)(array, numba.types.int64)

    def generate(context, builder, signature, arguments):
        memory = context.make_array(signature.args[0])(context, builder, arguments[0])
        pointer = builder.gep(memory.data, [arguments[1]])
        return builder.bitcast(pointer, ir.IntType(32).as_pointer())

    return signature, generate


@intrinsic
def prefetch(typing_context, pointer, offset):
    """Ask for the bytes at `offset` from a pointer to be brought to the second cache; they need not exist."""

    def generate(context, builder, signature, arguments):
        byte, word = ir.IntType(8).as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [byte, word, word, word])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        there = builder.gep(builder.bitcast(arguments[0], byte), [arguments[1]])
        builder.call(function, [there, word(0), word(2), word(1)])
        return context.get_dummy_value()

    return numba.types.void(pointer, numba.types.int64), generate


class Entry:
    """A function that kernels call through its address, of pointers and integers.

    What a kernel calls directly is compiled again with every kernel; this is compiled once, when its address is
    first asked for.

    Parameters
    ----------
    function : callable
    signature : Numba signature
    """

    def __init__(self, function: Callable, signature: Any) -> None:
        self.function = function
        self.signature = signature
        self._lock = threading.Lock()
        self._compiled: Any = None

    @property
    def address(self) -> int:
        """Where the machine code lies in this process."""
        if self._compiled is None:
            with self._lock:
                if self._compiled is None:
                    self._compiled = _compile(
                        numba.cfunc, self.function, self.signature, nopython=True
                    )
        return self._compiled.address


def _compile(decorator: Callable, function: Callable, *arguments: Any, **options: Any) -> Any:
    """Compile in memory where Numba finds no directory to cache in.

    It looks next to the source and in the user's cache directory, and raises when neither can be
    written; a read-only installation must still work.
    """
    try:
        return decorator(*arguments, cache=True, **options)(function)
    except RuntimeError as error:
        if "no locator available" not in str(error):
            raise
        return decorator(*arguments, **options)(function)
