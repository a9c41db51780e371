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
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from suquan.io import TableError
from suquan.io._errors import listed

DELIMITERS = {".csv": ",", ".tsv": "\t", ".tab": "\t", ".txt": "\t"}
# Words that the heading of the first column may have, by what the rows then are.
SAMPLES = {"sample", "patient", "subject", "individual", "donor", "cell"}
FEATURES = {"feature", "gene", "probe", "probeset", "transcript", "protein", "symbol", "ref"}


@dataclass(frozen=True)
class Edges:
    """Names along the edges of a table in a file.

    Attributes
    ----------
    heading : str
        Of the first column, which holds the names of the rows.
    columns, rows : list of str
        Names of the other columns, and of the rows.
    """

    heading: str
    columns: list[str]
    rows: list[str]


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
    edges = _read_edges(path) if samples == "auto" else None
    if edges is None:
        return samples, "as given" if samples != "auto" else "by the kind of the file"
    across, down = set(edges.columns), set(edges.rows)
    n_rows, n_columns = len(edges.rows), len(edges.columns)
    features = {str(name) for name in getattr(model, "feature_names_in_", ())}
    n_features = getattr(model, "n_features_in_", None)
    words = {word.removesuffix("s") for word in re.split("[^a-z]+", edges.heading.lower())}
    for rows, columns, why in (
        (len(features & across), len(features & down), "names of the model's features"),
        (n_columns == n_features, n_rows == n_features, "number of the model's features"),
        (len(across.intersection(labels)), len(down.intersection(labels)), "names of the labels"),
        (len(words & SAMPLES), len(words & FEATURES), f"heading {edges.heading!r}"),
    ):
        if rows != columns:
            return "rows" if rows > columns else "columns", f"chosen by the {why}"
    raise TableError(
        f"{path}: nothing says where the samples lie; give --samples rows for {n_rows:,} samples "
        f"({listed(edges.rows, 2)}) of {n_columns:,} features ({listed(edges.columns, 2)}), or --samples "
        f"columns for {n_columns:,} samples of {n_rows:,} features"
    )


def _read_edges(path: Path) -> Edges | None:
    """The names; None where the kind of the file says where samples lie, or the reader will refuse the file."""
    suffixes = [suffix.lower() for suffix in path.suffixes if suffix.lower() != ".gz"]
    kind = suffixes[-1] if suffixes else ""
    try:
        if kind in (".parquet", ".pq"):
            return _parquet_edges(path)
        if kind in DELIMITERS:
            return _text_edges(path, DELIMITERS[kind])
    except (OSError, EOFError, ValueError, zlib.error, csv.Error, ImportError):
        pass
    return None


def _text_edges(path: Path, delimiter: str) -> Edges | None:
    opened = gzip.open if path.suffix.lower() == ".gz" else open
    with opened(path, "rt", encoding="utf-8-sig", errors="replace", newline="") as file:
        header = next(csv.reader(file, delimiter=delimiter), [""])
        if header[0].startswith("!"):
            return None  # a GEO series matrix
        rows = [line.partition(delimiter)[0].strip('"') for line in file if line.strip()]
    return Edges(header[0], header[1:], rows)


def _parquet_edges(path: Path) -> Edges:
    import pyarrow.parquet

    file = pyarrow.parquet.ParquetFile(path)
    names = file.schema_arrow.names
    index = (file.schema_arrow.pandas_metadata or {}).get("index_columns", [])
    heading = next((name for name in index if name in names), names[0])
    rows = file.read([heading]).column(0).to_pylist()
    return Edges(heading, [name for name in names if name != heading], list(map(str, rows)))
