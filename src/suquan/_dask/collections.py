"""Dask arrays of samples: how they are told apart, checked block by block, and computed.

Nothing here brings the samples to the driver: what must be seen is looked at inside the tasks.
"""

import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from suquan._blocks import is_dask_array


class DaskBlockError(ValueError):
    """A block of rows of a Dask array could not be used; the message names the block and its rows."""


class DaskConnectionError(RuntimeError):
    """The Dask cluster could not finish a computation: the connection or too many workers were lost."""


def check_row_blocks(X: Any, *, min_samples: int = 1) -> Any:
    """`X` as a two-dimensional Dask array of real numbers that is cut along its rows only.

    Several blocks of columns are joined lazily. Blocks of unknown length are refused, because counting them
    would take a pass over the data that was not asked for.

    Parameters
    ----------
    X : dask array of shape (n_samples, n_features)
    min_samples : int, default=1

    Returns
    -------
    dask array of shape (n_samples, n_features)
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
    if X.dtype.kind == "c":
        raise ValueError(f"Complex data not supported: X is of type {X.dtype}.")
    if X.dtype.kind not in "biuf":
        raise ValueError(
            f"X must hold real numbers; got a dask array of type {X.dtype}. Convert it with "
            f"X.astype(float)."
        )
    if np.isnan(np.array([*X.chunks[0], *X.chunks[1]], dtype=float)).any():
        raise ValueError(
            "the blocks of X have unknown lengths; call X.compute_chunk_sizes() first, which passes "
            "over the data once."
        )
    if X.shape[1] == 0:
        raise ValueError(
            f"Found array with 0 feature(s) (shape={X.shape}) while a minimum of 1 is required."
        )
    if X.shape[0] < min_samples:
        raise ValueError(
            f"Found array with {X.shape[0]} sample(s) (shape={X.shape}) while a minimum of {min_samples} is "
            "required."
        )
    return X if X.numblocks[1] == 1 else X.rechunk({1: -1})


# ----------------------------------------------------------------------------------------- inside the tasks


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
        missing: str = "error",
        infinite: str = "error",
        feature_names: Any = None,
    ) -> None:
        """Refuse NaN and infinities, naming the first by its row in the whole array."""
        with np.errstate(over="ignore", invalid="ignore"):
            if np.isfinite(values.sum()):  # the usual case, without an array of marks
                return
        for what, rule, is_bad, advice in (
            ("NaN", missing, np.isnan, _MISSING_ADVICE),
            ("infinity", infinite, np.isinf, "Remove it."),
        ):
            if rule != "error" or not (bad := is_bad(values)).any():
                continue
            i, j = np.argwhere(bad)[0]
            name = f" ({str(feature_names[j])!r})" if feature_names is not None else ""
            raise ValueError(
                f"X contains {what}, in {self} first at sample {self.start + i}, feature {j}{name}; "
                f"{int(bad.any(axis=1).sum())} of the {len(bad)} samples of this block are concerned. {advice}"
            )

    @contextmanager
    def named(self) -> Iterator[None]:
        """Name the block in errors that come out of it."""
        try:
            yield
        except Exception as error:
            if _NAMED.search(str(error)):
                raise
            raise _same_kind(error, f"{self}: {error}") from error


_NAMED = re.compile(r"block \d+ \((rows \d+ to \d+|empty)\)")
_MISSING_ADVICE = (
    "Fill them in, drop them, or use missing='ignore' where it is offered to normalise the observed values "
    "alone."
)


def _same_kind(error: Exception, message: str) -> Exception:
    """An exception of the same type with another message, or a RuntimeError where that cannot be made."""
    try:
        return type(error)(message)
    except Exception:
        return RuntimeError(f"{message} [{type(error).__name__}]")


def map_row_blocks(
    function: Callable,
    X: Any,
    *others: Any,
    dtype: Any,
    width: int | None = None,
    rows_out: Sequence[int] | None = None,
    name: str | None = None,
    **options: Any,
) -> Any:
    """``function(block, *blocks of others, where=RowBlock, **options)`` for every block of rows, lazily.

    Parameters
    ----------
    function : callable
        Errors that it raises get the name of the block.
    X : dask array of shape (n_samples, n_features)
        In one block of columns.
    *others : dask array of shape (n_samples, ...)
        In the same blocks of rows.
    dtype : dtype
        Of the result.
    width : int, default=None
        Columns of the result; None: those of `X`.
    rows_out : sequence of int, default=None
        Rows of the result for every block; None: those of `X`.
    name : str, default=None
        What the tasks are called.
    **options
        Given to the function, in every task: small.

    Returns
    -------
    dask array
    """
    rows = X.chunks[0] if rows_out is None else tuple(rows_out)
    return X.map_blocks(
        _on_block,
        *others,
        function=function,
        options=options,
        dtype=dtype,
        chunks=(rows, (X.shape[1] if width is None else width,)),
        meta=np.empty((0, 0), dtype),
        name=None,
        token=name or function.__name__.strip("_"),
    )


def _on_block(
    block: np.ndarray, *others: np.ndarray, function: Callable, options: dict, block_info: dict
) -> np.ndarray:
    where = RowBlock(block_info[0]["chunk-location"][0], *block_info[0]["array-location"][0])
    with where.named():
        return function(block, *others, where=where, **options)


# ----------------------------------------------------------------------------------------- rows and weights


def block_weights(sample_weight: Any, X: Any) -> Any:
    """Weights of the samples as a Dask array of shape (n_samples, 1) in the blocks of `X`; None stays None.

    A NumPy array is validated here, a Dask array inside the tasks.
    """
    if sample_weight is None:
        return None
    import dask.array as da

    from suquan._validation import check_sample_weight  # not needed to open files

    if not is_dask_array(sample_weight):
        rows = np.broadcast_to(np.zeros(1), (X.shape[0], 1))  # stands for X, and takes no memory
        weights = check_sample_weight(sample_weight, rows)
        assert weights is not None
        return da.from_array(weights[:, None], chunks=(X.chunks[0], 1))
    if sample_weight.shape != (X.shape[0],):
        raise ValueError(f"sample_weight.shape == {sample_weight.shape}, expected {(X.shape[0],)}!")
    weights = sample_weight.astype(np.float64).rechunk((X.chunks[0],))[:, None]
    return map_row_blocks(_checked_weights, weights, dtype=np.float64)


def _checked_weights(weights: np.ndarray, where: RowBlock) -> np.ndarray:
    if not np.all(np.isfinite(weights)) or np.any(weights < 0):
        raise ValueError(f"sample_weight must be finite and not negative; in {where} it is not.")
    return weights


def take_rows(X: Any, keep: np.ndarray) -> Any:
    """The rows of `X` where `keep` is true, lazily."""
    return X if keep.all() else X[np.flatnonzero(keep)]


# ------------------------------------------------------------------------------------------------ computing


def compute(*collections: Any, blocks_of: Any = None) -> tuple:
    """Compute, with errors of the cluster turned into readable ones.

    Parameters
    ----------
    *collections : dask collections
    blocks_of : dask array, default=None
        Samples whose rows an error can be traced to.
    """
    import dask

    with readable_errors(lambda error: _block_of_task(error, blocks_of)):
        return dask.compute(*collections)


def iter_computed(X: Any) -> Iterator[tuple[int, np.ndarray]]:
    """The blocks of rows of `X` one after the other, each with its first row.

    Twice as many blocks as there are threads are computed together.
    """
    client = active_client()
    n_threads = (os.cpu_count() or 1) if client is None else sum(client.nthreads().values())
    step = max(2, 2 * n_threads)
    bounds = np.cumsum([0, *X.chunks[0]])
    for first in range(0, X.numblocks[0], step):
        some = X.blocks[first : first + step]
        parts = [some.blocks[k] for k in range(some.numblocks[0])]
        for k, values in enumerate(compute(*parts, blocks_of=X)):
            yield int(bounds[first + k]), values


def active_client() -> Any:
    """The client of distributed in use, or None."""
    if "distributed" not in sys.modules:
        return None
    try:
        return sys.modules["distributed"].get_client()
    except ValueError:
        return None


# Errors by which distributed says that the scheduler or the client is gone.
_LOST = {
    "CancelledError", "CommClosedError", "FutureCancelledError", "FuturesCancelledError",
    "SchedulerClosed", "TimeoutError",
}  # fmt: skip


@contextmanager
def readable_errors(locate: Callable[[Exception], str | None]) -> Iterator[None]:
    """Turn what a cluster raises into a :class:`DaskConnectionError` of one line.

    Parameters
    ----------
    locate : callable
        Name of the block that an error is about, as far as it is known.
    """
    client = active_client()
    try:
        yield
    except Exception as error:
        kinds = {kind.__name__ for kind in type(error).__mro__}
        if "KilledWorker" in kinds:
            # The scheduler suspects all tasks that a worker had when it ended, and names the first to be
            # suspected too often.
            times = getattr(error, "allowed_failures", 3) + 1
            raise DaskConnectionError(
                f"{locate(error) or 'a task'}, or one beside it, ended {times} workers one after the other, "
                "most often because their memory is full; use smaller blocks (rows_per_block, X.rechunk), or "
                "give the workers more memory."
            ) from error
        if client is not None and (kinds & _LOST or client.status != "running"):
            raise DaskConnectionError(
                "the connection to the Dask cluster was lost before the work was done "
                f"({type(error).__name__}); see whether its scheduler still runs, connect a Client again, and "
                "start anew: a fit inside suquan.checkpoint_fit(directory) goes on where it was."
            ) from error
        raise


def _block_of_task(error: Exception, X: Any) -> str:
    """Rows that the task of a killed worker works on, as far as its key tells."""
    key = getattr(error, "task", None)
    places = [int(part) for part in re.findall(r"\b\d+\b", str(key).partition(",")[2])]
    if X is None or not places or places[0] >= X.numblocks[0]:
        return f"the task {key!s}"
    bounds = np.cumsum([0, *X.chunks[0]])
    k = places[0]
    return str(RowBlock(k, bounds[k], bounds[k + 1]))
