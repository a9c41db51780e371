"""Where the samples of a table lie: as given, or as the file's kind or names say; otherwise it is refused.

`normalize` and `predict` ask before they read a table. `fit` and `compare` need not: the names in the label
file, or the label column of the table itself, say it.
"""

from __future__ import annotations

import csv
import gzip
import re
import zlib
from collections.abc import Collection
from pathlib import Path
from typing import Any

from suquan.io import TableError
from suquan.io._errors import listed

DELIMITERS = {".csv": ",", ".tsv": "\t", ".tab": "\t", ".txt": "\t"}
# Words that the heading of the first column may have, by what the rows then are.
SAMPLES = {"sample", "patient", "subject", "individual", "donor", "cell"}
FEATURES = {"feature", "gene", "probe", "probeset", "transcript", "protein", "symbol", "ref"}


def find_samples(
    path: Path, samples: str, *, labels: Collection[str] = (), model: Any = None
) -> tuple[str, str]:
    """Where the samples of a table lie, and who says so.

    Parameters
    ----------
    path : Path
    samples : {"auto", "rows", "columns"}
        As given; the rest is looked at for "auto" only.
    labels : collection of str
        Labels that the table itself holds, each with a value for every sample.
    model : estimator, default=None
        A fitted one, whose features the samples have.

    Returns
    -------
    samples : {"auto", "rows", "columns"}
        "auto" where the kind of the file says it.
    why : str
        "as given", "by the kind of the file" or "chosen by …".
    """
    names = _read_names(path) if samples == "auto" else None
    if names is None:
        return samples, "as given" if samples != "auto" else "by the kind of the file"
    heading, across, down = names
    features = {str(name) for name in getattr(model, "feature_names_in_", ())}
    n_features = getattr(model, "n_features_in_", None)
    words = {word.removesuffix("s") for word in re.split("[^a-z]+", heading.lower())}
    evidence = {
        "names of the model's features": (_count(features, across), _count(features, down)),
        "number of the model's features": (len(across) == n_features, len(down) == n_features),
        "names of the labels": (_count(labels, across), _count(labels, down)),
        f"heading {heading!r}": (_count(SAMPLES, words), _count(FEATURES, words)),
    }
    for what, (for_rows, for_columns) in evidence.items():
        if for_rows != for_columns:
            return "rows" if for_rows > for_columns else "columns", f"chosen by the {what}"
    raise TableError(
        f"{path}: nothing says where the samples lie; give --samples rows for {len(down):,} samples "
        f"({listed(down, 2)}) of {len(across):,} features ({listed(across, 2)}), or --samples columns for "
        f"{len(across):,} samples of {len(down):,} features"
    )


def _count(known: Collection[str], names: Collection[str]) -> int:
    return len(set(known).intersection(names))


def _read_names(path: Path) -> tuple[str, list[str], list[str]] | None:
    """Heading of the first column, names of the other columns, names of the rows.

    None where the kind of the file says where samples lie, or where the reader will refuse the file.
    """
    suffixes = [suffix.lower() for suffix in path.suffixes if suffix.lower() != ".gz"]
    kind = suffixes[-1] if suffixes else ""
    try:
        if kind in (".parquet", ".pq"):
            return _parquet_names(path)
        return _text_names(path, DELIMITERS[kind]) if kind in DELIMITERS else None
    except (OSError, EOFError, ValueError, zlib.error, csv.Error, ImportError):
        return None


def _text_names(path: Path, delimiter: str) -> tuple[str, list[str], list[str]] | None:
    opened = gzip.open if path.suffix.lower() == ".gz" else open
    with opened(path, "rt", encoding="utf-8-sig", errors="replace", newline="") as file:
        header = next(csv.reader(file, delimiter=delimiter), [""])
        if header[0].startswith("!"):
            return None  # a GEO series matrix
        rows = [line.partition(delimiter)[0].strip('"') for line in file if line.strip()]
    return header[0], header[1:], rows


def _parquet_names(path: Path) -> tuple[str, list[str], list[str]]:
    import pyarrow.parquet

    file = pyarrow.parquet.ParquetFile(path)
    names = file.schema_arrow.names
    index = (file.schema_arrow.pandas_metadata or {}).get("index_columns", [])
    heading = next((name for name in index if name in names), names[0])
    rows = file.read([heading]).column(0).to_pylist()
    return heading, [name for name in names if name != heading], list(map(str, rows))
