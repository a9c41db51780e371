"""h5ad (AnnData): ``X`` or a layer, dense or sparse, with ``obs`` as labels."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from suquan.io import _budget
from suquan.io._errors import TableError, file_errors, listed, quoted, require
from suquan.io._sinks import Target
from suquan.io._source import Block, ReadOptions, Source
from suquan.io._table import Table, as_values

WISH = "reading and writing h5ad files"
CHUNK_VALUES = 2**17  # 1 MiB of doubles


def open_h5ad(path: Path, options: ReadOptions) -> Source:
    """Open an h5ad file."""
    io = require("anndata.io", "anndata", WISH)
    with _opened(path) as file:
        matrix = _matrix(path, file, options.layer)
        obs, var = io.read_elem(file["obs"]), io.read_elem(file["var"])
        samples, features = [str(n) for n in obs.index], [str(n) for n in var.index]
        if matrix.shape != (len(samples), len(features)) or 0 in matrix.shape:
            raise TableError(
                f"{path}: {_called(options.layer)} has shape {matrix.shape} for {len(samples)} samples and "
                f"{len(features)} features"
            )
        by_feature = getattr(matrix, "format", "") == "csc"
        names = [name for name in obs.columns if name not in options.ignore_columns]
        labels = {str(name): _label(path, obs[name]) for name in names}
    if by_feature:
        # Stored feature after feature: the blocks are features, and the reader turns them.
        return Source(
            path,
            "h5ad",
            "columns",
            samples,
            lambda n: _blocks(path, options.layer, features, n, {}, by_feature=True),
            labels,
            stored_orientation="rows",
        )
    return Source(
        path,
        "h5ad",
        "rows",
        features,
        lambda n: _blocks(path, options.layer, samples, n, labels, by_feature=False),
        row_labels=labels,
    )


@contextmanager
def _opened(path: Path) -> Iterator:
    """The HDF5 file; h5py and anndata raise many kinds of exceptions for a damaged one."""
    h5py = require("h5py", "anndata", WISH)
    with file_errors(path, Exception), h5py.File(path, "r") as file:
        yield file


def _called(layer: str | None) -> str:
    return "X" if layer is None else f"layer {quoted(layer)}"


def _matrix(path: Path, file, layer: str | None):
    """X or a layer, not yet read: an HDF5 dataset or a sparse dataset of anndata."""
    io = require("anndata.io", "anndata", WISH)
    layers = list(file["layers"]) if "layers" in file else []
    key = "X" if layer is None else f"layers/{layer}"
    if (layer is not None and layer not in layers) or key not in file:
        raise TableError(
            f"{path}: there is no {_called(layer)}; layers: {listed(layers) or 'none'}"
        )
    stored = file[key]
    kind = stored.attrs.get("encoding-type", "array")
    if kind in ("csr_matrix", "csc_matrix"):
        return io.sparse_dataset(stored)
    if kind != "array" or not hasattr(stored, "dtype"):
        raise TableError(f"{path}: {_called(layer)} is stored as {kind}; wanted is a matrix")
    return stored


def _label(path: Path, column) -> np.ndarray:
    """A column of obs: numbers and booleans as floats, everything else as text."""
    pandas = require("pandas", "anndata", WISH)
    types = pandas.api.types
    if types.is_numeric_dtype(column.dtype) or types.is_bool_dtype(column.dtype):
        return column.to_numpy(dtype=np.float64, na_value=np.nan)
    missing = column.isna().to_numpy()
    cells = column.astype(object).tolist()
    return np.array(["" if gone else str(c) for c, gone in zip(cells, missing, strict=True)])


def _blocks(path: Path, layer, names, n_rows, labels, *, by_feature: bool) -> Iterator[Block]:
    """Rows of the matrix (columns, where it is stored by feature)."""
    with _opened(path) as file:
        matrix = _matrix(path, file, layer)
        n_stored, width = matrix.shape[::-1] if by_feature else matrix.shape
        step = min(n_rows or n_stored, _budget.rows(width))
        for start in range(0, n_stored, step):
            stop = min(start + step, n_stored)
            part = matrix[:, start:stop] if by_feature else matrix[start:stop]
            # What a sparse matrix does not store is zero, not missing.
            dense = part.toarray() if hasattr(part, "toarray") else np.asarray(part)
            values = as_values(dense.T if by_feature else dense)
            cut = {name: column[start:stop] for name, column in labels.items()}
            yield Block(names[start:stop], values, cut)


class H5adSink:
    """X grows block by block; names and labels are written at the end."""

    def __init__(self, target: Target):
        self._target = target
        h5py = require("h5py", "anndata", WISH)
        require("anndata.io", "anndata", WISH)
        self._file = h5py.File(target.path, "w")
        self._X: Any = None
        self._features = np.empty(0, dtype=str)
        self._blocks: list[tuple[np.ndarray, dict[str, np.ndarray]]] = []

    def write(self, block: Table) -> None:
        """Append samples."""
        if self._X is None:
            self._start(block)
        n_before = self._X.shape[0]
        self._X.resize(n_before + block.n_samples, axis=0)
        self._X[n_before:] = block.values
        self._blocks.append((block.sample_names, block.labels))

    def _start(self, block: Table) -> None:
        bad = [name for name in block.labels if "/" in name or name == "_index"]
        if bad:
            raise TableError(
                f"{self._target.name}: {listed(bad)} cannot name a column of obs; rename the label"
            )
        self._features = block.feature_names
        p = block.n_features
        self._X = self._file.create_dataset(
            "X",
            shape=(0, p),
            maxshape=(None, p),
            dtype=block.values.dtype,
            chunks=(max(1, CHUNK_VALUES // p), min(p, CHUNK_VALUES)),
            compression="gzip",
            fletcher32=True,
        )
        self._X.attrs.update({"encoding-type": "array", "encoding-version": "0.2.0"})

    def finish(self) -> None:
        """Write names and labels."""
        io = require("anndata.io", "anndata", WISH)
        pandas = require("pandas", "anndata", WISH)
        names = [name for names, _ in self._blocks for name in names.tolist()]
        labels = {
            name: np.concatenate([labels[name] for _, labels in self._blocks])
            for name in self._blocks[0][1]
        }
        index = pandas.Index(names, dtype=object)
        # Text as objects: pandas 3 would make it a string type that older versions of anndata cannot read.
        columns = {
            name: pandas.Series(column, index, dtype=None if column.dtype.kind == "f" else object)
            for name, column in labels.items()
        }
        obs = pandas.DataFrame(columns, index=index)
        var = pandas.DataFrame(index=pandas.Index(self._features.tolist(), dtype=object))
        io.write_elem(self._file, "obs", obs)
        io.write_elem(self._file, "var", var)
        for group in ("layers", "obsm", "obsp", "varm", "varp", "uns"):
            io.write_elem(self._file, group, {})
        self._file.attrs.update({"encoding-type": "anndata", "encoding-version": "0.1.0"})
        self._file.close()

    def abandon(self) -> None:
        """Close the file."""
        self._file.close()
