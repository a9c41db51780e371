"""Kind of a table file: by its name, checked against its first bytes."""

import gzip
from pathlib import Path
from typing import NamedTuple

from suquan.io._errors import TableError

SUFFIXES = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".tab": "tsv",
    ".txt": "tsv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".gct": "gct",
    ".h5ad": "h5ad",
    ".npz": "npz",
}
ARRAYS = (".npy", ".zarr")  # see suquan.io.blocks
TEXT_KINDS = ("csv", "tsv", "gct", "series_matrix")
DELIMITERS = {"csv": ",", "tsv": "\t", "gct": "\t", "series_matrix": "\t"}
KNOWN = ".csv, .tsv, .txt, .gct (each also .gz), .parquet, .h5ad, .npz"

# First bytes of files that are often given a wrong name.
SIGNATURES = {
    b"\x1f\x8b": "gzip-compressed data (name it .csv.gz or .tsv.gz)",
    b"PK\x03\x04": "a zip file (a spreadsheet? save it as CSV; a NumPy archive? name it .npz)",
    b"PAR1": "Parquet (name it .parquet)",
    b"\x89HDF": "HDF5 (name it .h5ad)",
    b"\xd0\xcf\x11\xe0": "an old spreadsheet (save it as CSV)",
    b"\xff\xfe": "UTF-16 text (save it as UTF-8)",
    b"\xfe\xff": "UTF-16 text (save it as UTF-8)",
    b"BZh": "bzip2-compressed data (decompress it, or use gzip)",
    b"\xfd7zXZ": "xz-compressed data (decompress it, or use gzip)",
    b"\x28\xb5\x2f\xfd": "zstd-compressed data (decompress it, or use gzip)",
}


class FileKind(NamedTuple):
    """Kind of a file and whether it is compressed with gzip."""

    kind: str
    gzipped: bool


def kind_of_name(path: Path) -> FileKind:
    """Kind by the suffixes of the file's name."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    gzipped = bool(suffixes) and suffixes[-1] == ".gz"
    if gzipped:
        suffixes.pop()
    kind = SUFFIXES.get(suffixes[-1] if suffixes else "")
    if kind is None and suffixes and suffixes[-1] in ARRAYS:
        raise TableError(
            "arrays are opened in blocks, by suquan.io.open_blocks, and written by write_blocks"
        )
    if kind is None or (gzipped and kind not in TEXT_KINDS):
        raise TableError(f"the kind of table follows from the name; known are {KNOWN}")
    return FileKind(kind, gzipped)


def kind_of_file(path: Path) -> FileKind:
    """Kind of an existing file; a tab-separated one that opens like a series matrix is one."""
    kind, gzipped = kind_of_name(path)
    with path.open("rb") as file:
        start = file.read(8)
    if not start:
        raise TableError("the file is empty; a table has a header and rows")
    if gzipped and not start.startswith(b"\x1f\x8b"):
        raise TableError("not gzip-compressed data; name it without .gz")
    for signature, what in SIGNATURES.items():
        if kind in TEXT_KINDS and not gzipped and start.startswith(signature):
            raise TableError(f"named as {kind} text, but this is {what}")
    if kind == "tsv":
        with gzip.open(path) if gzipped else path.open("rb") as text:
            first = text.read(16).removeprefix(b"\xef\xbb\xbf").lstrip()
        kind = "series_matrix" if first.startswith(b"!") else kind
    return FileKind(kind, gzipped)
