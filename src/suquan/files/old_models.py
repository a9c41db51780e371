"""Model files of schemas 1 to 4, whose arrays are .npy: a header in the form of today and arrays come out."""

import io
import math
from typing import Any

import numpy as np

from suquan.files.model_zip import as_text, require

_TEXT = {"o": "object", "v": "T", "U": "U"}  # first letters of "object", "variable", "U12"


def convert(
    header: dict[str, Any], parts: dict[str, bytes]
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Convert the header, and read the arrays that it refers to."""
    arrays = {name: _from_npy(name, data) for name, data in parts.items()}

    def renew(value: Any) -> Any:
        match value:
            case list():
                return [renew(item) for item in value]
            case {"$": "strings", "at": place, "type": kind}:
                name = f"{kind[:1]} {place}"
                if name not in arrays:
                    arrays[name] = as_text(header["strings"][place], _TEXT[kind[:1]])
                return {"$": "array", "at": name}
            case dict():
                return {key: renew(item) for key, item in value.items()}
        return value

    return header | {name: renew(header[name]) for name in ("estimator", "training")}, arrays


def _from_npy(name: str, data: bytes) -> np.ndarray:
    """Array of an npy member whose header agrees with its size; nothing is allocated on a claim."""
    file = io.BytesIO(data)
    version = np.lib.format.read_magic(file)
    require(version == (1, 0), f"{name} has an unknown version of the npy format")
    shape, fortran, dtype = np.lib.format.read_array_header_1_0(file)
    require(dtype.kind in "biuf", f"{name} holds {dtype}, not numbers")
    rest = file.read()
    fits = min(shape, default=0) >= 0 and math.prod(shape) * dtype.itemsize == len(rest)
    require(fits and not fortran, f"{name} does not hold what its header says")
    return np.frombuffer(rest, dtype).reshape(shape).astype(dtype.newbyteorder("="))
