"""Read pickles of plain data without executing anything they ask for.

The path of a pickle comes in, its dictionary of numbers, text, lists and arrays of integers goes out;
`images.py` reads the batches of CIFAR-10 so.
"""

import io
import math
import pickle
import pickletools
from pathlib import Path
from typing import Any

import numpy as np

_INTEGERS = ("u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8")


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
        _check_memo(data)
        batch = _Unpickler(io.BytesIO(data), encoding="bytes").load()
        if not isinstance(batch, dict):
            return batch
        return {k: _array(v) if isinstance(v, _Stub) else v for k, v in batch.items()}
    except Exception as error:  # what a damaged pickle trips over has no common type
        raise ValueError(
            f"{path} is not a pickle of plain arrays, lists and dictionaries, or is damaged: "
            f"{type(error).__name__}: {error}"
        ) from error


def _check_memo(data: bytes) -> None:
    """Refuse places in the pickle's memo beyond its length: memory is reserved up to them."""
    for operation, argument, _ in pickletools.genops(data):
        if operation.name in ("PUT", "LONG_BINPUT") and not 0 <= int(argument or 0) <= len(data):
            raise pickle.UnpicklingError(f"its memo has no place {argument}")


class _Stub:
    """Stands for a name of NumPy: keeps its arguments and its state, and does nothing with them."""

    def __init__(self, *arguments: Any) -> None:
        self.arguments = arguments
        self.state: Any = None

    def __setstate__(self, state: Any) -> None:
        self.state = state


class _Bytes(bytes):
    """Bytes as Python 3 writes them for Python 2: a text with one character for each."""

    def __new__(cls, text: str, encoding: str) -> "_Bytes":
        if encoding != "latin1":
            raise ValueError(f"bytes in {encoding!r} are not read")
        return super().__new__(cls, text.encode("latin-1"))


# Names that arrays and bytes are pickled with, and what stands for them.
_ALLOWED = {
    ("numpy.core.multiarray", "_reconstruct"): _Stub,
    ("numpy._core.multiarray", "_reconstruct"): _Stub,
    ("numpy", "ndarray"): _Stub,
    ("numpy", "dtype"): _Stub,
    ("_codecs", "encode"): _Bytes,
}


class _Unpickler(pickle.Unpickler):
    """Python's own unpickler, which gets nothing to call but what stands for the allowed names."""

    def find_class(self, module: str, name: str) -> Any:
        """What stands for an allowed name."""
        if (module, name) in _ALLOWED:
            return type(name, (_ALLOWED[module, name],), {})  # anew, as a pickle might change it
        raise pickle.UnpicklingError(f"it asks for {module}.{name}, which plain data do not need")


def _array(stub: _Stub) -> np.ndarray:
    """Array of ``_reconstruct(ndarray, …)`` and its state, checked against the length of its bytes."""
    _, shape, dtype, fortran, raw = stub.state
    code = dtype.arguments[0]
    code = code.decode("ascii") if isinstance(code, bytes) else code
    if code not in _INTEGERS:
        raise ValueError(f"arrays of type {code!r} are not read")
    kind = np.dtype(code).newbyteorder(">" if dtype.state[1] in (b">", ">") else "<")
    if not all(isinstance(size, int) and size >= 0 for size in shape):
        raise ValueError(f"an array cannot have the shape {shape}")
    n_bytes = math.prod(shape) * kind.itemsize
    if not isinstance(raw, bytes) or len(raw) != n_bytes:
        raise ValueError(f"an array of shape {shape} should have {n_bytes:,} bytes")
    return np.frombuffer(raw, kind).reshape(shape, order="F" if fortran else "C")
