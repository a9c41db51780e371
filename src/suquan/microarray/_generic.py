"""Files of Affymetrix's Command Console ("generic" or "Calvin" format): bytes come in, named tables go out.

A file header, a tree of data headers (its own, then those of the files it was made from) and one or more data
groups of data sets; numbers are big-endian, names UTF-16. `suquan.microarray._cel` reads CEL files by it.
"""

import struct

import numpy as np

from suquan.microarray._files import Bytes, require

MAGIC = b"\x3b\x01"  # the number 59 and the version, 1
# Types of columns by their number; texts (7 and 8) are kept as they are, a length and bytes.
_COLUMN_TYPES = ("i1", "u1", ">i2", ">u2", ">i4", ">u4", ">f4")
# Numbers are kept in the first four bytes of a parameter's value.
_NUMBERS = {"unsigned": ">I", "integer": ">i", "float": ">f"}


def read_generic(file: Bytes, wanted: str) -> tuple[dict[str, str], dict[str, np.ndarray]]:
    """Read a Command Console file whose data are of the type `wanted`.

    Returns
    -------
    parameters : dict of str
        Parameters of the file, and those of the files it was made from that it does not have itself.
    tables : dict of ndarray
        Data sets of the first group by their names; a record array of n_rows with one field per column.
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
    return parameters, tables


def _headers(file: Bytes) -> tuple[str, dict[str, str]]:
    """Read type of the data and parameters; headers of parents follow their child's, depth first."""
    kinds: list[str] = []
    parameters: dict[str, str] = {}
    n_left = 1
    while n_left:
        kinds.append(file.text("type of the data"))
        file.text("identifier of the file")
        _wide_text(file, "the date")
        _wide_text(file, "the locale")
        parameters = _parameters(file, "the header") | parameters
        n_left += file.integer("the number of parents") - 1
    return kinds[0], parameters


def _parameters(file: Bytes, what: str) -> dict[str, str]:
    """Read triplets of name, value and type of the value; the values as texts."""
    found = {}
    for _ in range(file.integer(f"the number of parameters of {what}")):
        name = _wide_text(file, f"the name of a parameter of {what}")
        value = file.text(f"value of the parameter {name[:60]!r}").encode("latin-1")
        kind = _wide_text(file, f"the type of the parameter {name[:60]!r}")
        word = kind.removeprefix("text/x-calvin-").partition("-")[0]
        if word in _NUMBERS and len(value) >= 4:
            found[name] = str(struct.unpack(_NUMBERS[word], value[:4])[0])
        else:
            coding = "utf-16-be" if kind == "text/plain" else "latin-1"
            found[name] = value.decode(coding, "replace").rstrip("\0")
    return found


def _wide_text(file: Bytes, what: str) -> str:
    """Read a text of two bytes per character that follows its length in characters."""
    length = file.integer(f"the length of {what}")
    return str(file.take(2 * length, what), "utf-16-be", "replace")


def _columns(file: Bytes, what: str) -> np.dtype:
    """Read the type of a row of a data set."""
    (n_columns,) = file.unpack("I", f"the number of columns of {what}")
    problem = f"is truncated or damaged: {what} has {n_columns:,} columns."
    require(1 <= n_columns <= (len(file.data) - file.place) // 9, file.name, problem)
    forms = []
    for _ in range(n_columns):
        name = _wide_text(file, f"the name of a column of {what}")
        number, size = file.unpack("bi", f"the type of column {name[:60]!r}")
        form = _COLUMN_TYPES[number] if 0 <= number < len(_COLUMN_TYPES) else ""
        form = f"V{size}" if number in (7, 8) and 4 <= size < 2**16 else form
        problem = f"is damaged: column {name[:60]!r} is of type {number} and {size:,} bytes."
        require(form and np.dtype(form).itemsize == size, file.name, problem)
        forms.append(form)
    return np.dtype([(f"column_{k}", form) for k, form in enumerate(forms)])
