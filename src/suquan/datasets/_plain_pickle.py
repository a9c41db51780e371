"""Pickles of plain data, read without executing anything they ask for."""

from __future__ import annotations

import io
import math
import pickle
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

# Operations that build numbers, text, lists, tuples and dictionaries, and those that rebuild an array. All
# others, such as those that make instances of classes, end the reading.
_ALLOWED = [
    "PROTO",
    "FRAME",
    "STOP",
    "MARK",
    "POP_MARK",
    "NONE",
    "NEWTRUE",
    "NEWFALSE",
    "BININT",
    "BININT1",
    "BININT2",
    "LONG1",
    "SHORT_BINSTRING",
    "BINSTRING",
    "SHORT_BINBYTES",
    "BINBYTES",
    "BINBYTES8",
    "SHORT_BINUNICODE",
    "BINUNICODE",
    "EMPTY_LIST",
    "APPEND",
    "APPENDS",
    "EMPTY_TUPLE",
    "TUPLE1",
    "TUPLE2",
    "TUPLE3",
    "TUPLE",
    "EMPTY_DICT",
    "SETITEM",
    "SETITEMS",
    "BINPUT",
    "LONG_BINPUT",
    "BINGET",
    "LONG_BINGET",
    "MEMOIZE",
    "GLOBAL",
    "STACK_GLOBAL",
    "REDUCE",
    "BUILD",
]


def load_plain_pickle(path: Path) -> Any:
    """What a pickled dictionary of numbers, text, lists and arrays of integers holds.

    Text written by Python 2 comes as bytes. Arrays are rebuilt here from their bytes; no function that
    the file names is called.

    Raises
    ------
    ValueError
        If the file is damaged or asks for anything else.
    """
    data = path.read_bytes()
    try:
        return _values(_PlainUnpickler(io.BytesIO(data), encoding="bytes").load())
    except Exception as error:  # what a damaged pickle trips over has no common type
        raise ValueError(
            f"{path} is not a pickle of plain arrays, lists and dictionaries, or is damaged: "
            f"{type(error).__name__}: {error}"
        ) from error


class _Stub:
    """What stands for numpy's names while the pickle is read."""

    def __init__(self, *arguments: Any) -> None:
        self.arguments = arguments
        self.state: Any = None

    def __setstate__(self, state: Any) -> None:
        self.state = state


class _ArrayStub(_Stub):
    """numpy.core.multiarray._reconstruct(ndarray, shape, code), then the state of the array."""

    def value(self) -> np.ndarray:
        """The array, checked against the length of its bytes."""
        _, shape, dtype, fortran, raw = self.state
        kind = dtype.value()
        if not all(isinstance(size, int) and size >= 0 for size in shape):
            raise ValueError(f"an array cannot have the shape {shape}")
        n_bytes = math.prod(shape) * kind.itemsize
        if not isinstance(raw, bytes) or len(raw) != n_bytes:
            raise ValueError(f"an array of shape {shape} should have {n_bytes:,} bytes")
        return np.frombuffer(raw, kind).reshape(shape, order="F" if fortran else "C")


class _DtypeStub(_Stub):
    """numpy.dtype(code, align, copy), then its state, of which the second entry is the byte order."""

    def value(self) -> np.dtype:
        """The type, an integer."""
        code = self.arguments[0]
        code = code.decode("ascii") if isinstance(code, bytes) else code
        if code not in ("u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8"):
            raise ValueError(f"arrays of type {code!r} are not read")
        swapped = self.state[1] in (b">", ">")
        return np.dtype(code).newbyteorder(">" if swapped else "<")


class _PlainUnpickler(pickle._Unpickler):
    """Python's own unpickler, in Python, reduced to what plain data need."""

    dispatch: ClassVar = {
        code: pickle._Unpickler.dispatch[code]
        for code in (getattr(pickle, name)[0] for name in _ALLOWED)
    }

    def find_class(self, module: str, name: str) -> Any:
        """Stand-ins for the names that arrays and bytes are pickled with."""
        if module in ("numpy.core.multiarray", "numpy._core.multiarray") and name == "_reconstruct":
            return type("Array", (_ArrayStub,), {})  # anew, as a pickle might change it
        if module == "numpy" and name in ("ndarray", "dtype"):
            return type("Dtype", (_DtypeStub,), {})
        if (module, name) == ("_codecs", "encode"):  # bytes, as Python 3 writes them for Python 2
            return _latin_bytes
        raise pickle.UnpicklingError(f"it asks for {module}.{name}, which plain data do not need")


def _latin_bytes(text: str, encoding: str) -> bytes:
    """Bytes of a text that has one character for each."""
    if encoding != "latin1":
        raise ValueError(f"bytes in {encoding!r} are not read")
    return text.encode("latin-1")


def _values(item: Any) -> Any:
    """A dictionary with arrays in place of their stand-ins."""
    if not isinstance(item, dict):
        return item
    return {
        key: value.value() if isinstance(value, _ArrayStub) else value
        for key, value in item.items()
    }
