"""RMA of training and test arrays, of which the training arrays alone decide the target and the probe effects.

`run` asks for it once per outer fold: the test arrays change nothing that the model is learned from.
"""

from __future__ import annotations

import numpy as np

from suquan import QuantileNormalizer
from suquan.microarray import median_polish


def training_rma(probes: np.ndarray, probeset: np.ndarray, train: np.ndarray) -> np.ndarray:
    """Expression of all arrays by RMA learned on some of them.

    Quantile normalisation to the mean quantiles of the training arrays, log2, median polish of the training
    arrays. Another array has for a set the median of its probes less their effects in that polish.

    Parameters
    ----------
    probes : ndarray of shape (n_arrays, n_probes)
        Intensities without their background, positive.
    probeset : ndarray of shape (n_probes,)
    train : int ndarray of shape (n_train,)
        Training arrays.

    Returns
    -------
    ndarray of shape (n_arrays, n_probesets)
        Probe sets in the order of their sorted names.
    """
    normalizer = QuantileNormalizer("mean", ties="mean_rank").fit(probes[train])
    values = np.log2(normalizer.transform(probes)).T
    summaries = median_polish(values[:, train], probeset)
    _, codes, sizes = np.unique(probeset, return_inverse=True, return_counts=True)
    effects = np.median(values[:, train] - summaries[codes], axis=1)
    out = np.empty((len(sizes), values.shape[1]))
    others = np.setdiff1d(np.arange(values.shape[1]), train)
    out[:, train] = summaries
    order = np.argsort(codes, kind="stable")
    starts = np.cumsum(sizes) - sizes
    rest = values[:, others] - effects[:, None]
    for size in np.unique(sizes):  # all sets of one size together
        sets = np.flatnonzero(sizes == size)
        rows = order[starts[sets][:, None] + np.arange(size)]
        out[np.ix_(sets, others)] = np.median(rest[rows], axis=1)
    return out.T
