"""The same job, quantile normalisation to the mean of the sorted samples, as others do it.

Samples lie in rows. On samples without ties all of these give the same values.
"""

from __future__ import annotations

import numpy as np


def numpy_argsort(X: np.ndarray) -> np.ndarray:
    """Plain NumPy: one argsort, no rule for ties."""
    order = np.argsort(X, axis=1)
    target = np.take_along_axis(X, order, axis=1).mean(axis=0, dtype=np.float64)
    out = np.empty_like(X)
    np.put_along_axis(out, order, target.astype(X.dtype)[None, :], axis=1)
    return out


def pandas_rank(frame) -> np.ndarray:
    """Pandas: ``DataFrame.rank`` of samples in columns, read from the mean of the sorted columns."""
    target = np.sort(frame.to_numpy(), axis=0).mean(axis=1, dtype=np.float64)
    ranks = frame.rank(method="first").to_numpy().astype(np.intp) - 1
    return target.astype(frame.to_numpy().dtype)[ranks].T


def skimage_match_rows(X: np.ndarray, target: np.ndarray) -> np.ndarray:
    """Scikit-image: ``match_histograms`` of every row with a target that is already known."""
    from skimage.exposure import match_histograms

    return np.array([match_histograms(x, target) for x in X])


def sklearn_transposed(columns: np.ndarray) -> np.ndarray:
    """Scikit-learn: ``QuantileTransformer`` on samples in columns, then from uniform to the mean.

    The transformer is feature-wise and its outputs are uniform or normal, so this is its nearest equivalent:
    one quantile per value, and the mean of its own quantiles as target.
    """
    from sklearn.preprocessing import QuantileTransformer

    transformer = QuantileTransformer(n_quantiles=len(columns), subsample=None)
    uniform = transformer.fit_transform(columns)
    target = transformer.quantiles_.mean(axis=1)
    return np.interp(uniform, transformer.references_, target).T
