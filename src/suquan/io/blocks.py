"""Matrices in files as Dask arrays of blocks of samples, and back. Users and the command line call this."""

import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from suquan._blocks import is_dask_array
from suquan._dask.collections import check_row_blocks, iter_computed
from suquan.io._anndata import AnnDataMatrix
from suquan.io._errors import file_errors, refuse, require
from suquan.io._kinds import SUFFIXES, kind_of_file
from suquan.io._matrices import Matrix, NpyMatrix
from suquan.io._parquet import ParquetMatrix
from suquan.io._source import ReadOptions, check_labels, check_layer
from suquan.io._table import Table, as_names, made_up_names
from suquan.io.writing import TableWriter

IN_BLOCKS = ".npy, .zarr, .parquet, .h5ad"
MATRICES: dict[str, Any] = {
    "npy": NpyMatrix,
    "zarr": AnnDataMatrix,
    "parquet": ParquetMatrix,
    "h5ad": AnnDataMatrix,
}


@dataclass(frozen=True, eq=False)
class BlockTable:
    """Samples in rows, in blocks, with the names that their file has.

    Attributes
    ----------
    values : dask array of shape (n_samples, n_features)
        float32 or float64, cut along the samples.
    sample_names : ndarray of shape (n_samples,) of str, or None
        None where the file has none.
    feature_names : ndarray of shape (n_features,) of str, or None
        None where the file has none.
    labels : dict of str to ndarray of shape (n_samples,)
        Columns that describe the samples and are no features.
    kind : str
        Kind of the file: ``"npy"``, ``"zarr"``, ``"parquet"`` or ``"h5ad"``.

    See Also
    --------
    open_block_table : Opens one.

    Examples
    --------
    >>> import dask.array as da
    >>> from suquan.io import BlockTable
    >>> table = BlockTable(da.ones((4, 2), chunks=(2, 2)), feature_names=["TP53", "ESR1"])
    >>> table.n_samples, table.feature_names.tolist(), table.sample_names
    (4, ['TP53', 'ESR1'], None)
    """

    values: Any
    sample_names: np.ndarray | None = None
    feature_names: np.ndarray | None = None
    labels: dict[str, np.ndarray] = field(default_factory=dict)
    kind: str = "zarr"

    def __post_init__(self) -> None:
        for what, length in (("sample", self.n_samples), ("feature", self.n_features)):
            names = getattr(self, f"{what}_names")
            if names is not None:
                names = as_names(names, what)
                counts = f"there are {len(names)} {what} names for {length} {what}s"
                refuse(len(names) != length, counts)
                object.__setattr__(self, f"{what}_names", names)

    @property
    def n_samples(self) -> int:
        """Number of samples."""
        return self.values.shape[0]

    @property
    def n_features(self) -> int:
        """Number of features."""
        return self.values.shape[1]

    def sample_names_of(self, start: int, stop: int) -> np.ndarray:
        """Names of some samples; ``sample_1`` and so on where the file has none."""
        if self.sample_names is not None:
            return self.sample_names[start:stop]
        return np.array(made_up_names("sample", start, stop))

    @property
    def column_names(self) -> np.ndarray:
        """Names of the features; ``feature_1`` and so on where the file has none."""
        if self.feature_names is not None:
            return self.feature_names
        return np.array(made_up_names("feature", 0, self.n_features))

    def __repr__(self) -> str:
        return (
            f"<BlockTable {self.n_samples} samples x {self.n_features} features ({self.kind}), "
            f"{self.values.numblocks[0]} blocks>"
        )


# -------------------------------------------------------------------------------------------------- opening


def open_blocks(
    path: str | os.PathLike, layer: str | None = None, rows_per_block: int | None = None
) -> Any:
    """Open a matrix in a file as a Dask array of blocks of samples.

    Nothing is read but the header. A task opens the file by its path and reads its rows, so that a block can be
    read again when a worker is lost; all workers must see the file under the same path. A file that changes
    between reads (shape, type, size, time of modification) is refused.

    Parameters
    ----------
    path : str or path-like
        ``.npy``; ``.h5ad``, or ``.zarr``, a folder written by AnnData, with ``X`` dense or CSR; ``.parquet``
        with samples in rows, of which the columns of numbers are taken as :func:`read_table` does.
    layer : str or None, default=None
        AnnData files only: the layer to read instead of ``X``.
    rows_per_block : int or None, default=None
        Samples in a block. None: about 64 MiB of values, in whole chunks of the storage; a Parquet file is cut
        between its row groups only.

    Returns
    -------
    dask array of shape (n_samples, n_features)
        float32 or float64.

    Raises
    ------
    TableError
        If the file is missing, damaged, or cannot be read in blocks; from a task, if it has changed.

    See Also
    --------
    open_block_table : The same with the names of samples and features.
    write_blocks : Writes a Dask array.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import numpy as np
    >>> from suquan import quantile_normalize
    >>> from suquan.io import open_blocks
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "samples.npy"
    >>> np.save(path, np.arange(12.0).reshape(6, 2))
    >>> X = open_blocks(path, rows_per_block=4)
    >>> X.chunks
    ((4, 2), (2,))
    >>> quantile_normalize(X, "uniform").compute()[0]
    array([0.25, 0.75])
    """
    return _blocks(_open(path, ReadOptions("rows", layer=layer)), rows_per_block)


def open_block_table(
    path: str | os.PathLike,
    layer: str | None = None,
    rows_per_block: int | None = None,
    *,
    label_columns: Iterable[str] = (),
    ignore_columns: Iterable[str] = (),
) -> BlockTable:
    """Open a matrix in a file as a Dask array, with the names and labels that the file has.

    Names and labels are read at once; the values are not.

    Parameters
    ----------
    path, layer, rows_per_block
        As for :func:`open_blocks`.
    label_columns, ignore_columns : iterable of str, default=()
        As for :func:`read_table`.

    Returns
    -------
    BlockTable

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from suquan.io import Table, open_block_table, write_table
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "expression.parquet"
    >>> write_table(Table([[1.0, 2.0], [3.0, 4.0]], ["s1", "s2"], ["TP53", "ESR1"]), path)
    >>> table = open_block_table(path)
    >>> table
    <BlockTable 2 samples x 2 features (parquet), 1 blocks>
    >>> table.sample_names.tolist()
    ['s1', 's2']
    """
    matrix = _open(path, ReadOptions("rows", None, label_columns, ignore_columns, layer))
    with file_errors(path):
        samples, features, labels = matrix.names()
        check_labels(matrix.options, labels)
        values = _blocks(matrix, rows_per_block)
        return BlockTable(values, samples, features, labels, matrix.kind)  # type: ignore[arg-type]


def _open(given: str | os.PathLike, options: ReadOptions) -> Matrix:
    path = Path(given).resolve()
    require("dask.array", "dask", "opening files in blocks")
    with file_errors(given):
        kind = SUFFIXES.get(path.suffix.lower(), "")
        if kind:
            kind_of_file(path)
        cure = "convert it, for instance with read_table and write_table"
        works = f"cannot be opened in blocks, which works for {IN_BLOCKS}"
        refuse(kind not in MATRICES, f"{works}; {cure}")
        check_layer(options, kind)
        matrix = MATRICES[kind].open(path, kind, options)
        stored = "is stored by feature (CSC), so that no block of samples can be read"
        refuse(matrix.by_feature, f"{stored}; convert it to CSR and write it again")
    return matrix


def _blocks(matrix: Matrix, rows_per_block: int | None) -> Any:
    import dask.array as da
    from dask.base import tokenize

    bounds, n, rows = list(matrix.bounds), matrix.shape[0], rows_per_block
    if rows is not None:
        if not isinstance(rows, int | np.integer) or rows < 1:
            raise ValueError(f"rows_per_block must be an integer of at least 1; got {rows!r}")
        bounds = [*range(0, n, rows), n]
    plan = np.column_stack([bounds[:-1], bounds[1:]])
    steps = da.from_array(plan, chunks=(1, 2), name=f"rows-{tokenize(matrix, plan)}")
    return steps.map_blocks(
        lambda step, matrix: matrix.read_block(*step[0].tolist()),
        matrix=matrix,
        dtype=matrix.dtype,
        chunks=(tuple(np.diff(bounds).tolist()), (matrix.shape[1],)),
        meta=np.empty((0, 0), matrix.dtype),
        token=f"read-{matrix.kind}",
    )


# -------------------------------------------------------------------------------------------------- writing


def write_blocks(values: Any, path: str | os.PathLike) -> Path:
    """Write a Dask array of samples into a file, block by block.

    The blocks pass through this process, some at a time. The file appears when it is complete: it is written
    under another name in the same folder and renamed. A zarr folder or file that is there is replaced.

    Parameters
    ----------
    values : dask array of shape (n_samples, n_features), or BlockTable
        Names and labels of a table go into the file, but for npy, which has no place for them.
    path : str or path-like
        Any kind that :func:`write_table` knows; ``.zarr`` as AnnData writes it.

    Returns
    -------
    Path

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import dask.array as da
    >>> from suquan.io import open_blocks, write_blocks
    >>> path = write_blocks(da.ones((5, 3), chunks=(2, 3)), pathlib.Path(tempfile.mkdtemp()) / "ones.npy")
    >>> open_blocks(path).compute().sum()
    np.float64(15.0)
    """
    require("dask.array", "dask", "writing blocks")
    path = Path(path)
    table = values if isinstance(values, BlockTable) else None
    if table is None:
        if not is_dask_array(values):
            raise TypeError(
                f"values must be a dask array or a BlockTable; got {type(values).__name__}. Write a NumPy "
                "array with numpy.save."
            )
        table = BlockTable(values)
    values = check_row_blocks(table.values)
    with TableWriter(path) as writer:
        for start, block in iter_computed(values):
            stop = start + len(block)
            labels = {name: column[start:stop] for name, column in table.labels.items()}
            if stop > start:
                names = table.sample_names_of(start, stop)
                writer.write(Table(block, names, table.column_names, labels))
    return path
