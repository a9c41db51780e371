"""Robust multi-array average: background, quantile normalisation, median polish."""

from __future__ import annotations

from typing import Any

import numpy as np

from suquan.microarray._background import correct_arrays
from suquan.microarray._median_polish import polish_arrays
from suquan.microarray._probes import as_arrays, group_probes, named_like
from suquan.preprocessing import quantile_normalize
from suquan.ranking import TIES, check_choice
from suquan.targets import LEARNED, make_target_quantiles


def rma(
    pm: Any,
    probeset: Any,
    *,
    background: bool = True,
    target_quantiles: Any = "mean",
    log2: bool | None = None,
    ties: str = "mean_rank",
    n_jobs: int | None = None,
) -> Any:
    """Expression of every probe set from raw probe intensities, by RMA or by RMA with another target.

    Background correction, quantile normalisation of the probes, log2, median polish per probe set. The
    default equals ``rma`` of R's affy. With another `target_quantiles` the probes get that distribution
    instead; with one learned from labels this is RMA with a supervised target, SUQUAN-RMA.

    Parameters
    ----------
    pm : array-like or DataFrame of shape (n_probes, n_arrays)
        Raw intensities of the perfect-match probes, one array per column.
    probeset : array-like of shape (n_probes,)
        Label of the set that each probe belongs to, text or integers.
    background : bool, default=True
        Correct the background first; see :func:`background_correct`.
    target_quantiles : str, distribution, callable, array-like, fitted estimator or None, default="mean"
        Distribution that the probes of every array get: anything :func:`suquan.quantile_normalize` takes, or
        a fitted estimator, whose `target_quantiles_` is used, read at n_probes points where it was
        learned on another number of features. None leaves this step out.
    log2 : bool, default=None
        Whether the target holds intensities, of which log2 is taken before median polish (True), or values
        that are summarised as they are (False), such as a standardised or a learned target. None
        means True for "mean", "median" and no target, False for the other names; it must be given with any
        other target, whose scale cannot be known.
    ties : {"mean_rank", "average", "first"}, default="mean_rank"
        What equal intensities of an array get; the default is that of R's preprocessCore.
    n_jobs : int, default=None
        Threads. The result does not depend on it.

    Returns
    -------
    ndarray or DataFrame of shape (n_probesets, n_arrays)
        Probe sets in the order of their sorted labels, ``np.unique(probeset)``. The transpose has samples in
        rows, as the estimators want them.

    Notes
    -----
    Normalisation sees nothing but the order of the probes within an array, and log2 keeps it: a target f on
    the intensity scale followed by log2 is the target log2(f) used as it is. A learned target
    replaces log2(f) as a whole, so it is not logged again.

    Median polish uses all arrays at once, as does the "mean" target. For an honest estimate of prediction
    error the arrays to predict must not enter: a given target frees the normalisation from the other
    arrays, but not the polish.

    Examples
    --------
    >>> import numpy as np
    >>> from suquan.microarray import rma
    >>> rng = np.random.default_rng(0)
    >>> gene = rng.normal(8, 2, size=(200, 1)) + rng.normal(0, 0.5, size=(200, 4))
    >>> affinity = rng.normal(0, 1, size=(200, 11, 1))
    >>> pm = 2 ** (gene[:, None] + affinity).reshape(-1, 4) + rng.normal(100, 10, size=(2200, 4))
    >>> probeset = np.repeat(np.arange(200), 11)
    >>> rma(pm, probeset).shape
    (200, 4)
    >>> expression = rma(pm, probeset, target_quantiles="normal")  # standard normal probes
    >>> bool(abs(expression.mean()) < 0.1)
    True
    """
    check_choice("ties", ties, TIES)
    X = as_arrays(pm)
    sets = group_probes(probeset, X.shape[1])
    takes_log2 = _takes_log2(target_quantiles, log2)
    if background:
        correct_arrays(X, n_jobs)
    if target_quantiles is not None:
        target = _probe_target(target_quantiles, X.shape[1])
        X = quantile_normalize(X, target, ties=ties, n_jobs=n_jobs)
    if takes_log2:
        _check_positive(X, target_quantiles)
    return named_like(polish_arrays(X, sets, log2=takes_log2, n_jobs=n_jobs), pm, sets.names)


def _takes_log2(target: Any, log2: bool | None) -> bool:
    """Whether log2 follows the normalisation, from the parameter or from the name of the target."""
    if log2 is not None:
        return bool(log2)
    if target is None:
        return True
    if isinstance(target, str):
        return target in LEARNED
    raise ValueError(
        f"log2 must be given with target_quantiles={type(target).__name__}(...), whose scale is not known: "
        "log2=True if it holds intensities, log2=False if its values are to be used as they are, as for a "
        "target that was learned or standardised."
    )


def _probe_target(target: Any, n_probes: int) -> Any:
    """What :func:`quantile_normalize` takes; the target of an estimator is read at the probes' places."""
    learned = getattr(target, "target_quantiles_", None)
    if learned is not None:
        return make_target_quantiles(learned, n_probes)
    if hasattr(target, "fit"):
        raise ValueError(
            f"{type(target).__name__} has no target_quantiles_ yet; fit it before passing it to rma."
        )
    return target


def _check_positive(X: np.ndarray, target: Any) -> None:
    """Raise a ValueError if log2 cannot be taken of the normalised intensities."""
    least = X.min()
    if least > 0:
        return
    if target is None or (isinstance(target, str) and target in LEARNED):
        raise ValueError(
            f"intensities must be positive for log2; the smallest is {least:.6g}. Give raw intensities, not "
            "logarithms, with background=True, or add what was subtracted."
        )
    raise ValueError(
        f"target quantiles must be positive for log2; the smallest is {least:.6g}. Give a target in "
        "intensities, or log2=False to use its values as they are."
    )
