"""RMA's summary of the probes of a set: median polish."""

from __future__ import annotations

from typing import Any

import numpy as np

from suquan._blocks import for_each_block
from suquan._kernels.microarray import polish_sets
from suquan.microarray._probes import ProbeSets, as_arrays, group_probes, named_like

MAX_ITER = 10
TOL = 0.01


def median_polish(
    values: Any,
    probeset: Any,
    *,
    max_iter: int = MAX_ITER,
    tol: float = TOL,
    n_jobs: int | None = None,
) -> Any:
    """Summarise the probes of every probe set by Tukey's median polish.

    Within a set the value of probe i on array j is modelled as t + c_j + r_i: a level, an effect of the array
    and an effect of the probe. Medians over arrays and over probes are subtracted in turn until the
    residuals settle; the summary of the set on array j is t + c_j.

    Parameters
    ----------
    values : array-like or DataFrame of shape (n_probes, n_arrays)
        Values on the scale of the summary: for RMA, log2 of normalised intensities.
    probeset : array-like of shape (n_probes,)
        Label of the set that each probe belongs to, text or integers.
    max_iter : int, default=10
        Sweeps over arrays and probes at most.
    tol : float, default=0.01
        Stop when the sum of absolute residuals changes by a fraction below this.
    n_jobs : int, default=None
        Threads. The result does not depend on it.

    Returns
    -------
    ndarray or DataFrame of shape (n_probesets, n_arrays)
        Sets in the order of their sorted labels, ``np.unique(probeset)``.

    Examples
    --------
    >>> from suquan.microarray import median_polish
    >>> values = [[1.0, 2.0, 4.0], [3.0, 4.0, 6.0], [2.0, 3.0, 5.5]]
    >>> median_polish(values, ["a", "a", "b"])
    array([[2. , 3. , 5. ],
           [2. , 3. , 5.5]])
    """
    if isinstance(max_iter, bool) or not isinstance(max_iter, int | np.integer) or max_iter < 1:
        raise ValueError(f"max_iter must be a positive integer; got {max_iter!r}.")
    if not tol >= 0:
        raise ValueError(f"tol must be a non-negative number; got {tol!r}.")
    X = as_arrays(values, "values")
    sets = group_probes(probeset, X.shape[1])
    out = polish_arrays(X, sets, max_iter=int(max_iter), tol=float(tol), n_jobs=n_jobs)
    return named_like(out, values, sets.names)


def polish_arrays(
    X: np.ndarray,
    sets: ProbeSets,
    *,
    log2: bool = False,
    max_iter: int = MAX_ITER,
    tol: float = TOL,
    n_jobs: int | None = None,
) -> np.ndarray:
    """Summaries of shape (n_sets, n_arrays) of the arrays in the rows of `X`, or of their logarithms."""
    n_sets = len(sets.names)
    out = np.empty((n_sets, X.shape[0]))

    def polish_block(block: slice) -> None:
        starts = sets.starts[block.start : block.stop + 1]
        polish_sets(X, sets.order, starts, log2, max_iter, tol, out[block])

    values_per_set = X.size // n_sets + 1
    for_each_block(polish_block, (n_sets, values_per_set), n_jobs)
    return out
