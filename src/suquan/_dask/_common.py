"""Dask arrays at the border: what is one, what is taken, and errors that name the block."""

import sys
from typing import Any


class DaskBlockError(ValueError):
    """A block of rows of a Dask array could not be used; the message names the block and its rows."""


class DaskConnectionError(RuntimeError):
    """The Dask cluster could not finish a computation: the connection or too many workers were lost."""


def is_dask_array(X: Any) -> bool:
    """Whether `X` is a Dask array. Dask is not imported: where it was not, nothing can be one.

    Raises
    ------
    TypeError
        If `X` is another Dask collection, which scikit-learn would load into memory without a word.
    """
    array = sys.modules.get("dask.array")
    if array is not None and isinstance(X, array.Array):
        return True
    if type(X).__module__.partition(".")[0] in ("dask", "dask_expr"):
        raise TypeError(
            f"X is a Dask {type(X).__name__}; of Dask's collections only arrays are taken. Turn a data "
            "frame into one with X.to_dask_array(lengths=True), or load it with X.compute()."
        )
    return False


def as_numpy(values: Any) -> Any:
    """One value per sample in memory, where it is a Dask collection."""
    return values.compute() if hasattr(values, "dask") else values
