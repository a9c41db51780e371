"""Files of Affymetrix's Command Console ("generic" or "Calvin" format): bytes come in, named tables go out.

A file header, a tree of data headers (its own, then those of the files it was made from) and one or more data
groups of data sets; numbers are big-endian, names UTF-16. `suquan.microarray._cel` reads CEL files by it.
"""

import struct
from typing import NamedTuple

import numpy as np

from suquan.microarray._files import Bytes, require

MAGIC = b"\x3b\x01"  # the number 59 and the version, 1
# Types of columns by their number; texts (7 and 8) are kept as they are, a length and bytes.
_COLUMN_TYPES = ("i1", "u1", ">i2", ">u2", ">i4", ">u4", ">f4")
_TEXT_TYPES = (7, 8)
# Numbers are kept in the first four bytes of a parameter's value.
_NUMBERS = {"unsigned": ">I", "integer": ">i", "float": ">f"}


class Generic(NamedTuple):
    """Content of a Command Console file.

    Attributes
    ----------
    kind : str
        Identifier of the type of data, such as "affymetrix-calvin-intensity".
    parameters : dict of str
        Parameters of the file, and those of the files it was made from that it does not have itself.
    tables : dict of ndarray
        Data sets of the first group by their names; a record array of n_rows with one field per column.
    """

    kind: str
    parameters: dict[str, str]
    tables: dict[str, np.ndarray]


def read_generic(file: Bytes, wanted: str) -> Generic:
    """Read a Command Console file whose data are of the type `wanted`.

    Parameters
    ----------
    file : Bytes
        Content of the file, at its beginning.
    wanted : str
        Identifier of the type of data.

    Raises
    ------
    MicroarrayFileError
        If the file is damaged or truncated, or its data are of another type.
    """
    file.order = ">"
    file.take(len(MAGIC), "the magic number")
    file.integer("the number of data groups", 1)
    (place,) = file.unpack("I", "the place of the data")
    kind, parameters = _headers(file)
    problem = f"is a Command Console file with data of type {kind[:60]!r}, not {wanted!r}."
    require(kind == wanted, file.name, f"{problem} Give the CEL file of the array.")
    file.move_to(place, "the first data group")
    _, place = file.unpack("II", "the places of the data sets")
    n_sets = file.integer("the number of data sets")
    _wide_text(file, "the name of the data group")
    tables = {}
    for k in range(n_sets):
        what = f"data set {k + 1}"
        require(place >= file.place, file.name, f"is damaged: {what} overlaps the one before it.")
        file.move_to(place, what)
        data_place, place = file.unpack("II", f"the places of {what}")
        name = _wide_text(file, f"the name of {what}")
        _parameters(file, what)
        dtype = _columns(file, what)
        (n_rows,) = file.unpack("I", f"the number of rows of {what}")
        file.move_to(data_place, f"the rows of {what}")
        tables[name] = file.table(dtype, n_rows, f"the {n_rows:,} rows of data set {name!r}")
    return Generic(kind, parameters, tables)


def _headers(file: Bytes) -> tuple[str, dict[str, str]]:
    """Type of the data and parameters; headers of parents follow their child's, each before its own parents."""
    kinds: list[str] = []
    parameters: dict[str, str] = {}
    n_left = 1
    while n_left:
        kinds.append(file.text("type of the data"))
        file.text("identifier of the file")
        _wide_text(file, "the date")
        _wide_text(file, "the locale")
        for name, value in _parameters(file, "the header").items():
            parameters.setdefault(name, value)
        n_left += file.integer("the number of parents") - 1
    return kinds[0], parameters


def _parameters(file: Bytes, what: str) -> dict[str, str]:
    """Triplets of name, value and type of the value."""
    found = {}
    for _ in range(file.integer(f"the number of parameters of {what}")):
        name = _wide_text(file, f"the name of a parameter of {what}")
        value = file.text(f"value of the parameter {name[:60]!r}").encode("latin-1")
        found[name] = _decoded(value, _wide_text(file, f"the type of the parameter {name[:60]!r}"))
    return found


def _decoded(value: bytes, kind: str) -> str:
    """Value of a parameter as text."""
    word = kind.removeprefix("text/x-calvin-").partition("-")[0]
    if word in _NUMBERS and len(value) >= 4:
        return str(struct.unpack(_NUMBERS[word], value[:4])[0])
    coding = "utf-16-be" if kind == "text/plain" else "latin-1"
    return value.decode(coding, "replace").rstrip("\0")


def _wide_text(file: Bytes, what: str) -> str:
    """Text of two bytes per character that follows its length in characters."""
    length = file.integer(f"the length of {what}")
    return str(file.take(2 * length, what), "utf-16-be", "replace")


def _columns(file: Bytes, what: str) -> np.dtype:
    """Type of a row of a data set."""
    (n_columns,) = file.unpack("I", f"the number of columns of {what}")
    problem = f"is truncated or damaged: {what} has {n_columns:,} columns."
    require(1 <= n_columns <= file.n_left // 9, file.name, problem)
    forms = []
    for _ in range(n_columns):
        name = _wide_text(file, f"the name of a column of {what}")
        number, size = file.unpack("bi", f"the type of column {name[:60]!r}")
        form = f"V{size}" if number in _TEXT_TYPES and 4 <= size < 2**16 else ""
        form = _COLUMN_TYPES[number] if 0 <= number < len(_COLUMN_TYPES) else form
        problem = f"is damaged: column {name[:60]!r} is of type {number} and {size:,} bytes."
        require(form and np.dtype(form).itemsize == size, file.name, problem)
        forms.append(form)
    return np.dtype([(f"column_{k}", form) for k, form in enumerate(forms)])
