"""Ways to bring new samples to the scale of the training samples that need several new ones at once.

Each takes the new samples that arrived together. Written from the papers:

- FSQN: J. Franks et al., "Feature specific quantile normalization enables cross-platform classification of
  molecular subtypes using gene expression data", Bioinformatics 34, 2018. Every gene of the new samples gets
  the distribution that the gene has in the training samples.
- nonparanormal: H. Liu et al., "The nonparanormal", JMLR 10, 2009, as R's ``huge.npn`` computes it by default:
  normal quantiles of rank/(n + 1), divided by the standard deviation of the first gene. New and training
  samples are transformed apart, as in J. Thompson et al., PeerJ 4, 2016.
- z-scores of the new samples: every gene less its mean, over its standard deviation, among them.
"""

from __future__ import annotations

import numpy as np
from scipy.stats import norm, rankdata


def feature_quantiles(new: np.ndarray, training: np.ndarray) -> np.ndarray:
    """FSQN: quantiles (k + ½)/m of the training values of a gene for the k-th of m new ones, ties averaged."""
    places = (rankdata(new, axis=0) - 0.5) / len(new)
    return np.column_stack(
        [
            np.quantile(training[:, j], places[:, j], method="hazen")
            for j in range(training.shape[1])
        ]
    )


def nonparanormal(X: np.ndarray) -> np.ndarray:
    """Normal quantiles of rank/(n + 1) of every gene; one sample alone is 0 everywhere."""
    values = norm.ppf(rankdata(X, axis=0) / (len(X) + 1))
    spread = np.std(values[:, 0], ddof=1) if len(X) > 1 else 0.0
    return values / (spread or 1.0)


def z_scores(X: np.ndarray) -> np.ndarray:
    """Genes of mean 0 and standard deviation 1; a gene that does not vary, as of one sample alone, is 0."""
    spread = X.std(axis=0)
    return (X - X.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
