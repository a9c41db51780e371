"""Dask arrays of samples: how they are checked block by block, and computed.

Nothing here brings the samples to the driver: what must be seen is looked at inside the tasks. Fits and
normalisations on Dask arrays call this, and the readers and writers of files in blocks.
"""

import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from suquan._blocks import as_numpy


class DaskConnectionError(RuntimeError):
    """The Dask cluster could not finish a computation: the connection or too many workers were lost."""


def check_row_blocks(X: Any, *, min_samples: int = 1) -> Any:
    """`X` as a two-dimensional Dask array of real numbers that is cut along its rows only.

    Several blocks of columns are joined lazily. Blocks of unknown length are refused, because counting them
    would take a pass over the data that was not asked for.
    """
    if X.ndim != 2:
        raise ValueError(
            f"X must have two dimensions, samples x features; got a dask array with {X.ndim}. Reshape it."
        )
    if not isinstance(X._meta, np.ndarray):
        raise TypeError(
            f"X has blocks of type {type(X._meta).__module__}.{type(X._meta).__name__}; dense NumPy "
            f"blocks are needed: X.map_blocks(lambda block: block.toarray()) for sparse ones."
        )
    if isinstance(X._meta, np.ma.MaskedArray):
        raise TypeError(
            "X has masked blocks, which are taken in memory only. Write NaN into them, "
            "dask.array.ma.filled(X.astype(float), np.nan), and use missing='ignore', or give X.compute()."
        )
    if X.dtype.kind not in "biuf":
        raise ValueError(
            f"X must hold real numbers; got a dask array of type {X.dtype}. Convert it with X.astype(float)."
        )
    if np.isnan(np.array([*X.chunks[0], *X.chunks[1]], dtype=float)).any():
        raise ValueError(
            "the blocks of X have unknown lengths; call X.compute_chunk_sizes() first, which passes "
            "over the data once."
        )
    for what, size, least in (("feature", X.shape[1], 1), ("sample", X.shape[0], min_samples)):
        if size < least:
            raise ValueError(
                f"Found array with {size} {what}(s) (shape={X.shape}) while a minimum of {least} is required."
            )
    return X if X.numblocks[1] == 1 else X.rechunk({1: -1})


# -- inside the tasks ---------------------------------------------------------------------------------


class RowBlock(NamedTuple):
    """Block with the rows `start` to `stop` (exclusive) of the samples, for messages."""

    number: int
    start: int
    stop: int

    def __str__(self) -> str:
        if self.stop == self.start:
            return f"block {self.number} (empty)"
        return f"block {self.number} (rows {self.start} to {self.stop - 1})"

    def check(
        self,
        values: np.ndarray,
        *,
        rows: Any = None,
        missing: str = "error",
        infinite: str = "error",
        feature_names: Any = None,
    ) -> None:
        """Refuse NaN and infinities, naming the first by its row in the whole array.

        `rows` has the places in the block of the given values, where they are not those of all its rows.
        """
        with np.errstate(over="ignore", invalid="ignore"):
            if np.isfinite(values.sum()):  # the usual case, without an array of marks
                return
        rows = np.arange(len(values)) if rows is None else rows
        for what, rule, is_bad, advice in (
            ("NaN", missing, np.isnan, _MISSING_ADVICE),
            ("infinity", infinite, np.isinf, "Remove it."),
        ):
            if rule == "error" and (bad := is_bad(values)).any():
                i, j = np.argwhere(bad)[0]
                name = f" ({str(feature_names[j])!r})" if feature_names is not None else ""
                raise ValueError(
                    f"X contains {what}, in {self} first at sample {self.start + rows[i]}, feature {j}{name}; "
                    f"{int(bad.any(axis=1).sum())} of the {len(bad)} samples of this block are concerned. "
                    f"{advice}"
                )

    @contextmanager
    def named(self) -> Iterator[None]:
        """Name the block in errors that come out of it; a RuntimeError where their type takes no message."""
        try:
            yield
        except Exception as error:
            if _NAMED.search(str(error)):
                raise
            try:
                named: Exception = type(error)(f"{self}: {error}")
            except Exception:
                named = RuntimeError(f"{self}: {error} [{type(error).__name__}]")
            raise named from error


_NAMED = re.compile(r"block \d+ \((rows \d+ to \d+|empty)\)")
_MISSING_ADVICE = (
    "Fill them in, drop them, or use missing='ignore' where it is offered to normalise the observed values "
    "alone."
)


def map_row_blocks(
    function: Callable, X: Any, *others: Any, dtype: Any, chunks: Any = None, **options: Any
) -> Any:
    """``function(block, *blocks of others, where=RowBlock, **options)`` for every block of rows, lazily.

    `X` is in one block of columns, the others are in the same blocks of rows. `chunks` are those of the result
    where they differ from those of `X`. Errors get the name of the block.
    """
    return X.map_blocks(
        _on_block, *others, function=function, options=options, dtype=dtype,
        chunks=X.chunks if chunks is None else chunks, meta=np.empty((0, 0), dtype),
        name=None, token=function.__name__.strip("_"),
    )  # fmt: skip


def _on_block(
    block: np.ndarray, *others: np.ndarray, function: Callable, options: dict, block_info: dict
) -> np.ndarray:
    where = RowBlock(block_info[0]["chunk-location"][0], *block_info[0]["array-location"][0])
    with where.named():
        return function(block, *others, where=where, **options)


# -- rows and weights ---------------------------------------------------------------------------------


def row_bounds(X: Any) -> list[RowBlock]:
    """The blocks of rows of `X`."""
    ends = np.cumsum([0, *X.chunks[0]]).tolist()
    return [RowBlock(k, *ends[k : k + 2]) for k in range(len(ends) - 1)]


def block_weights(sample_weight: Any, X: Any) -> Any:
    """Weights of the samples as a Dask array of shape (n_samples, 1) in the blocks of `X`; None: ones."""
    import dask.array as da

    from suquan._validation import check_sample_weight  # not needed to open files

    if sample_weight is None:
        return da.ones((X.shape[0], 1), chunks=(X.chunks[0], 1))
    rows = np.broadcast_to(np.zeros(1), (X.shape[0], 1))  # stands for X, and takes no memory
    weights: Any = check_sample_weight(as_numpy(sample_weight), rows)
    return da.from_array(weights[:, None], chunks=(X.chunks[0], 1))


# -- computing ----------------------------------------------------------------------------------------


def compute(*collections: Any, blocks_of: Any = None, keep: bool = False) -> tuple:
    """Compute, with readable errors; those of the samples `blocks_of`, a Dask array, name their rows.

    With `keep` the results stay with the workers, and collections of these go out.
    """
    import dask

    client = active_client()
    try:
        return dask.persist(*collections) if keep else dask.compute(*collections)
    except Exception as error:
        found = _readable(error, client, blocks_of)
        if found is error:
            raise
        raise found from error


def _readable(error: Exception, client: Any, X: Any) -> Exception:
    """The error itself, or one of one line for a lost cluster or a block of `X` that cannot be read."""
    kinds = {kind.__name__ for kind in type(error).__mro__}
    if "KilledWorker" in kinds:
        # The scheduler suspects all tasks that a worker had when it ended, and names the first to be
        # suspected too often.
        times = getattr(error, "allowed_failures", 3) + 1
        return DaskConnectionError(
            f"{_block_of_task(error, X)}, or one beside it, ended {times} workers one after the other, "
            "most often because their memory is full; use smaller blocks (rows_per_block, X.rechunk), or "
            "give the workers more memory."
        )
    if client is not None and (kinds & _LOST or client.status != "running"):
        return DaskConnectionError(
            "the connection to the Dask cluster was lost before the work was done "
            f"({type(error).__name__}); see whether its scheduler still runs, connect a Client again, and "
            "start anew."
        )
    where = None if X is None or _NAMED.search(str(error)) else _unreadable_block(X)
    if where is None:
        return error
    return ValueError(f"{where} could not be read: {type(error).__name__}: {error}")


# Errors by which distributed says that the scheduler or the client is gone.
_LOST = {
    "CancelledError", "CommClosedError", "FutureCancelledError", "FuturesCancelledError",
    "SchedulerClosed", "TimeoutError",
}  # fmt: skip


def _block_of_task(error: Exception, X: Any) -> str:
    """Rows that the task of a killed worker works on, as far as its key tells."""
    key = str(getattr(error, "task", None))
    places = [int(part) for part in re.findall(r"\b\d+\b", key.partition(",")[2])]
    if X is None or not places or places[0] >= X.numblocks[0]:
        return f"the task {key}"
    return str(row_bounds(X)[places[0]])


def _unreadable_block(X: Any) -> RowBlock | None:
    """Return the first block that cannot be read: nothing remembers which one it was, so they are all tried."""
    for where, block in zip(row_bounds(X), X.to_delayed().ravel(), strict=True):
        try:
            block.shape.compute()
        except Exception:
            return where
    return None


def iter_computed(X: Any) -> Iterator[tuple[int, np.ndarray]]:
    """The blocks of rows of `X` one after the other, each with its first row.

    Twice as many blocks as there are threads are computed together.
    """
    client = active_client()
    n_threads = (os.cpu_count() or 1) if client is None else sum(client.nthreads().values())
    step = max(2, 2 * n_threads)
    bounds = row_bounds(X)
    for first in range(0, len(bounds), step):
        some = bounds[first : first + step]
        values = compute(*(X.blocks[where.number] for where in some), blocks_of=X)
        yield from zip((where.start for where in some), values, strict=True)


def active_client() -> Any:
    """The client of distributed in use, or None."""
    if "distributed" not in sys.modules:
        return None
    try:
        return sys.modules["distributed"].get_client()
    except ValueError:
        return None
