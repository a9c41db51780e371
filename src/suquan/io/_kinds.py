"""Kind of a table file: by its name, checked against its first bytes. Readers and writers ask here."""

import gzip
from pathlib import Path

from suquan.files.disk import refuse_device
from suquan.io._errors import refuse

SUFFIXES = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".tab": "tsv",
    ".txt": "tsv",
    ".gct": "gct",
    ".parquet": "parquet",
    ".pq": "parquet",
    **{f".{kind}": kind for kind in ("h5ad", "npz", "npy", "zarr")},
}
TEXT_KINDS = ("csv", "tsv", "gct", "series_matrix")
KNOWN = ".csv, .tsv, .txt, .gct (each also .gz), .parquet, .h5ad, .npz, .npy, .zarr"

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


def kind_of_name(path: Path) -> tuple[str, bool]:
    """Find the kind by the suffixes of the file's name, and whether it is compressed with gzip."""
    gzipped = path.suffix.lower() == ".gz"
    kind = SUFFIXES.get((path.with_suffix("") if gzipped else path).suffix.lower(), "")
    known = kind in TEXT_KINDS or (kind and not gzipped)
    refuse(not known, f"the kind of table follows from the name; known are {KNOWN}")
    return kind, gzipped


def kind_of_file(path: Path) -> tuple[str, bool]:
    """Find the kind of an existing file, and whether it is compressed; tabs may make a series matrix."""
    kind, gzipped = kind_of_name(path)
    refuse_device(path)
    if kind == "zarr":
        refuse(not path.exists(), "there is no such folder; check the path")
        refuse(not path.is_dir(), "a zarr store is a folder, this is a file; unpack it")
        return kind, False
    with path.open("rb") as file:
        start = file.read(8)
    refuse(not start, "the file is empty; a table has a header and rows")
    is_plain = gzipped and not start.startswith(b"\x1f\x8b")
    refuse(is_plain, "not gzip-compressed data; name it without .gz")
    for signature, what in SIGNATURES.items():
        is_other = kind in TEXT_KINDS and not gzipped and start.startswith(signature)
        refuse(is_other, f"named as {kind} text, but this is {what}")
    if kind == "tsv":
        with gzip.open(path) if gzipped else path.open("rb") as text:
            first = text.read(16).removeprefix(b"\xef\xbb\xbf").lstrip()
        kind = "series_matrix" if first.startswith(b"!") else kind
    return kind, gzipped
