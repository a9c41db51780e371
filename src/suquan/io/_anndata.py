"""AnnData's files, h5ad and zarr: X or a layer, dense or sparse, with names and labels in obs and var.

`reading` and `blocks` read through an `AnnDataMatrix`; `writing` writes here.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from suquan.io._errors import file_errors, listed, quoted, refuse, require
from suquan.io._matrices import Matrix, MatrixNames, file_state, usual_bounds
from suquan.io._source import ReadOptions
from suquan.io._table import Table, check_matrix, join_tables

CHUNK_VALUES = 2**17  # of the h5ad files that are written: 1 MiB of doubles
WISH = "reading and writing h5ad and zarr"


class AnnDataMatrix(Matrix):
    """X or a layer of an h5ad file or of AnnData's zarr folder."""

    @classmethod
    def open(cls, path: Path, kind: str, options: ReadOptions) -> AnnDataMatrix:
        """Look at the matrix without reading it."""
        require("anndata.io", "anndata", WISH)
        state, what = file_state(path), _called(options)
        with _opened(path) as root:
            X = _find(root, options)
            check_matrix(X.shape, X.dtype, what)
            unit = (getattr(X, "shards", None) or getattr(X, "chunks", None) or (1,))[0]
            n, p = map(int, X.shape)
            by_feature = getattr(X, "format", "") == "csc"
            dtype = np.dtype(X.dtype)
        bounds = usual_bounds([*range(unit, n, unit), n], p, dtype)
        return cls(path, kind, (n, p), dtype, options, bounds, state, by_feature)

    def names(self) -> MatrixNames:
        """Of obs and var."""
        io = require("anndata.io", "anndata", WISH)
        with _opened(self.path) as root:
            obs, var = io.read_elem(root["obs"]), io.read_elem(root["var"])
        sizes = f"shape {self.shape} for {len(obs)} samples and {len(var)} features"
        agrees = self.shape == (len(obs), len(var))
        refuse(not agrees, f"{_called(self.options)} has {sizes}")
        columns = [name for name in obs.columns if name not in self.options.ignore_columns]
        labels = {str(name): _label(obs[name]) for name in columns}
        return [str(n) for n in obs.index], [str(n) for n in var.index], labels

    def read(self, start: int, stop: int) -> np.ndarray:
        """Rows; what a sparse matrix does not store is zero."""
        with _opened(self.path) as root:
            X = _find(root, self.options)
            if not hasattr(X, "group"):
                return np.asarray(X[start:stop])
            if self.by_feature:
                return _dense_rows(X.group, self.shape[::-1], 0, self.shape[1]).T[start:stop]
            return _dense_rows(X.group, self.shape, start, stop)


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    """The file as a group; h5py, zarr and anndata raise many kinds of exceptions for a damaged one."""
    with file_errors(path, Exception):
        if path.is_dir():
            yield require("zarr", "anndata", WISH).open(str(path), mode="r")
        else:
            with require("h5py", "anndata", WISH).File(path, "r") as file:
                yield file


def _find(root: Any, options: ReadOptions) -> Any:
    """X or a layer, not yet read: a dense dataset, or a sparse one of anndata."""
    cure = "give a file written by AnnData"
    refuse(hasattr(root, "dtype"), f"is an array without names; {cure}, or save it as .npy")
    what, layers = _called(options), list(root.get("layers", ()))
    key = "X" if options.layer is None else f"layers/{options.layer}"
    is_there = key in root and options.layer in (None, *layers)
    refuse(not is_there, f"has no {what}; {cure} (layers: {listed(layers) or 'none'})")
    stored = root[key]
    kind = stored.attrs.get("encoding-type", "array")
    if kind in ("csr_matrix", "csc_matrix"):
        return require("anndata.io", "anndata", WISH).sparse_dataset(stored)
    is_matrix = kind == "array" and hasattr(stored, "dtype")
    refuse(not is_matrix, f"{what} is stored as {kind}; wanted is a matrix")
    refuse("obs" not in root or "var" not in root, f"has no names in obs and var; {cure}")
    return stored


def _dense_rows(group: Any, shape: Sequence[int], start: int, stop: int) -> np.ndarray:
    """Some rows of a sparse matrix of that shape (for CSC, columns), after a check of its indices."""
    from scipy import sparse

    ends, indices, data = group["indptr"][:], group["indices"], group["data"]
    fits = ends.shape == (shape[0] + 1,) and ends[0] == 0 and np.all(ends[:-1] <= ends[1:])
    fits = fits and (ends[-1],) == indices.shape == data.shape and indices.dtype.kind in "iu"
    refuse(not fits, "indptr does not fit the indices and the values; write the file again")
    part = slice(int(ends[start]), int(ends[stop]))
    of_rows = data[part], indices[part], ends[start : stop + 1] - ends[start]
    rows = sparse.csr_matrix(of_rows, shape=(stop - start, shape[1]))
    rows.check_format()  # refuses indices that lie outside
    n_stored = rows.nnz
    rows.sum_duplicates()
    refuse(rows.nnz < n_stored, "an entry is stored twice; write the file again")
    return rows.toarray()


def _called(options: ReadOptions) -> str:
    return "X" if options.layer is None else f"layer {quoted(options.layer)}"


def _label(column: Any) -> np.ndarray:
    """A column of obs: numbers and booleans as floats, everything else as text."""
    types = require("pandas", "anndata", WISH).api.types
    if types.is_numeric_dtype(column.dtype) or types.is_bool_dtype(column.dtype):
        return column.to_numpy(dtype=np.float64, na_value=np.nan)
    return np.array(column.astype(object).where(column.notna(), "").map(str).tolist(), dtype=str)


@contextmanager
def anndata_writer(
    path: Path, first: Table, kind: str, *_: Any
) -> Iterator[Callable[[Table], None]]:
    """Write an h5ad file or a zarr folder: X grows block by block, names and labels come at the end."""
    io, pandas = (require(name, "anndata", WISH) for name in ("anndata.io", "pandas"))
    bad = [name for name in first.labels if "/" in name or name == "_index"]
    refuse(bad, f"{listed(bad)} cannot name a column of obs; rename the label")
    n, p = first.values.shape
    seen: list[Table] = []
    with ExitStack() as files:
        X: dict[str, Any] = {"shape": (0, p), "dtype": first.values.dtype, "chunks": (n, p)}
        if kind == "zarr":
            root = require("zarr", "anndata", WISH).open_group(str(path), mode="w", zarr_format=3)
            matrix = root.create_array("X", **X)
        else:
            root = files.enter_context(require("h5py", "anndata", WISH).File(path, "w"))
            X["chunks"] = (max(1, CHUNK_VALUES // p), min(p, CHUNK_VALUES))
            X |= {"maxshape": (None, p), "compression": "gzip", "fletcher32": True}
            matrix = root.create_dataset("X", **X)
        matrix.attrs.update({"encoding-type": "array", "encoding-version": "0.2.0"})

        def add(block: Table) -> None:
            n_before = matrix.shape[0]
            matrix.resize((n_before + block.n_samples, p))
            matrix[n_before:] = block.values
            nothing = np.empty((block.n_samples, 0))  # a slice would hold the values
            seen.append(replace(block, values=nothing, feature_names=np.array([])))

        yield add
        whole = join_tables(seen)
        # As objects: pandas 3 would make text a type that older versions of anndata cannot read.
        index, columns = (
            pandas.Index(names.tolist(), dtype=object)
            for names in (whole.sample_names, first.feature_names)
        )
        obs = {
            name: pandas.Series(column, index, dtype=None if column.dtype.kind == "f" else object)
            for name, column in whole.labels.items()
        }
        parts = {"obs": pandas.DataFrame(obs, index=index), "var": pandas.DataFrame(index=columns)}
        parts |= {group: {} for group in ("layers", "obsm", "obsp", "varm", "varp", "uns")}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of defaults of AnnData's next version
            for name, part in parts.items():
                io.write_elem(root, name, part)
        root.attrs.update({"encoding-type": "anndata", "encoding-version": "0.1.0"})
