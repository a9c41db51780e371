"""What the steps of RMA share: probe intensities as they come in, and how results go out."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from sklearn.utils.validation import check_array


def as_arrays(pm: Any, name: str = "pm") -> np.ndarray:
    """Probe values as float64 with one microarray per row: the transpose of `pm`, always a copy.

    Raises
    ------
    ValueError
        If `pm` is not two-dimensional, is empty, or holds anything but finite real numbers.
    """
    values = check_array(pm, dtype="numeric", ensure_all_finite=False, input_name=name)
    if values.dtype.kind not in "biuf":
        raise ValueError(f"{name} must hold real numbers; got an array of type {values.dtype}.")
    X = np.array(values.T, dtype=np.float64, order="C")
    if not np.all(np.isfinite(X)):
        array, probe = np.argwhere(~np.isfinite(X))[0]
        raise ValueError(
            f"{name} must be finite; probe {probe} of array {array} is {X[array, probe]}. Fill such values "
            "in, or leave the probe out of all arrays."
        )
    return X


class ProbeSets(NamedTuple):
    """Which probes belong together.

    Attributes
    ----------
    names : ndarray of shape (n_sets,)
        Labels of the sets, sorted.
    order : int64 ndarray of shape (n_probes,)
        Probes, those of a set side by side and in the order they came.
    starts : int64 ndarray of shape (n_sets + 1,)
        Set k has the probes ``order[starts[k]:starts[k + 1]]``.
    """

    names: np.ndarray
    order: np.ndarray
    starts: np.ndarray


def group_probes(probeset: Any, n_probes: int) -> ProbeSets:
    """Probe sets from the label of each probe."""
    labels = np.asarray(probeset)
    if labels.shape != (n_probes,):
        raise ValueError(
            f"probeset must hold one label per probe, so {n_probes} of them; got an array of shape "
            f"{labels.shape}. Probes are the rows of the matrix, and arrays its columns."
        )
    names, codes, counts = np.unique(labels, return_inverse=True, return_counts=True)
    order = np.argsort(codes, kind="stable").astype(np.int64)
    starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    return ProbeSets(names, order, starts)


def named_like(out: np.ndarray, pm: Any, index: Any) -> Any:
    """`out` as a data frame with the columns of `pm` and, in pandas, the row names `index`, if `pm` is one."""
    library = type(pm).__module__.partition(".")[0]
    if library == "pandas" and hasattr(pm, "columns"):
        return type(pm)(out, index=index, columns=pm.columns)
    if library == "polars" and hasattr(pm, "columns"):
        return type(pm)(out, schema=list(pm.columns))
    return out
