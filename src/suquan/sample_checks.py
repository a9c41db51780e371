"""Do new samples look like the training samples? The order of a sample's values tells.

A fit keeps the mean ranks of its training samples (:func:`suquan.ranking.training_ranks`), and
:func:`check_samples` compares new samples with them.
"""

import warnings
from math import lgamma, log
from typing import Any

import numpy as np

from suquan._validation import row_names
from suquan.alignment import align_features
from suquan.model.problem import Splits
from suquan.ranking import SampleOperator

__all__ = ["check_samples"]

# Samples are compared pair by pair where that takes at most this many products: about a second.
_MOST_PRODUCTS = 3e10
_DUPLICATE = 0.999  # correlation of the ranks from which on two samples are taken for one
_MOST_PAIRS = 5  # that a warning names
CONSTANT, TIED, FAR_BELOW = "one value throughout", "mostly tied values", "far below"
# A sample lies far below where its correlation is under this share of the training samples' 5% quantile. Real
# patients measured on another platform stay above a third, noise and genes standardised one by one do not.
_SHARE = 1 / 3
# Below this 5% quantile training samples share no order of their features, as log ratios and images do not.
_SHARED_ORDER = 0.25
_UNKNOWN = {"profile": np.nan, "correlations": [np.nan] * 3, "ties": 0.0}


def check_samples(model: Any, X: Any) -> dict[str, np.ndarray]:
    """Tell which samples look unlike the training samples of a model.

    "far below": the correlation is less than a third of the 5% quantile of the training samples' correlations.
    If that quantile is less than ¼, as for log ratios, the training samples share no order of their features,
    and correlations are not judged.

    Parameters
    ----------
    model : estimator
        A fitted classifier, regressor or Cox model.
    X : array-like of shape (n_samples, n_features)
        A data frame is brought into the model's order, as by :func:`align_features`.

    Returns
    -------
    dict of ndarray, each of shape (n_samples,)
        - "sample": row name of a data frame of pandas, else row number.
        - "correlation": of the sample's ranks with the mean ranks of the training samples, over the features
          that the sample has; NaN for one value throughout, or if the model keeps no mean ranks.
        - "ties": share of the variance of the ranks that ties take away, Σ(t³ − t)/(m³ − m) over the t equal
          values among m.
        - "problem": "one value throughout", "mostly tied values" (the share of ties is nearer to 1 than to the
          largest of any training sample), "far below", or "".

    Warns
    -----
    UserWarning
        If the model, of an older file, keeps no mean ranks; then only ties are judged.

    Examples
    --------
    >>> import numpy as np
    >>> from suquan import SuquanClassifier, check_samples
    >>> rng = np.random.default_rng(0)
    >>> X = np.arange(100.0) + 20 * rng.standard_normal((30, 100))
    >>> model = SuquanClassifier("fixed").fit(X, np.arange(30) % 2)
    >>> new = np.stack([np.exp(X[0] / 10), rng.standard_normal(100), np.ones(100)])
    >>> check_samples(model, new)["problem"].tolist()
    ['', 'far below', 'one value throughout']
    """
    if not hasattr(model, "training_ranks_"):
        warnings.warn(
            "this model keeps no mean ranks of its training samples, so that nothing tells whether new samples "
            "look like them. Fit it again.",
            UserWarning,
            stacklevel=2,
        )
    values = align_features(model, X, max_lost=1.0).values
    correlation, ties = agreement(model, values).T
    return {
        "sample": row_names(X, len(values)),
        "correlation": correlation,
        "ties": ties,
        "problem": find_problems(model, correlation, ties),
    }


def agreement(model: Any, X: np.ndarray) -> np.ndarray:
    """Correlations and shares of ties of samples in the model's order of features, (n_samples, 2)."""
    profile = np.broadcast_to(getattr(model, "training_ranks_", _UNKNOWN)["profile"], X.shape[1:])
    sums = np.stack([np.nan_to_num(profile), ~np.isnan(profile)])
    operator = SampleOperator.from_samples(X, missing="ignore", n_jobs=1)
    return operator.rank_agreement(sums, leave_out=False)


def find_problems(model: Any, correlation: np.ndarray, ties: np.ndarray) -> np.ndarray:
    """What is wrong with every sample, in words; "" where nothing is."""
    known = getattr(model, "training_ranks_", _UNKNOWN)
    low = known["correlations"][1]
    is_far = (correlation < _SHARE * low) & (low >= _SHARED_ORDER)
    is_tied = ties > (1.0 + known["ties"]) / 2.0
    return np.select([ties == 1.0, is_tied, is_far], [CONSTANT, TIED, FAR_BELOW], "")


def torn_duplicates(operator: SampleOperator, splits: Splits) -> np.ndarray:
    """Find pairs of samples with the same order, one in training and one in test of some split, (n_pairs, 2).

    The same order is a correlation of ranks of at least 0.999, or equal ranks where samples are many. Samples
    without order do not count, nor features so few that orders agree by chance.
    """
    n, p = operator.n_samples, operator.n_features
    if lgamma(p + 1) < 2 * log(n) + 7:  # of p! orders, two would be equal in 1 of 1000 such data
        return np.empty((0, 2), np.intp)
    if n * n * p <= _MOST_PRODUCTS:
        A = np.nan_to_num(operator.centred_ranks())
        A /= np.maximum(np.linalg.norm(A, axis=1, keepdims=True), 1e-9)  # 0 without order
        pairs = np.argwhere(np.triu(A @ A.T >= _DUPLICATE, 1))
    else:
        first: dict[bytes, int] = {}
        rows = ((first.setdefault(row.tobytes(), i), i) for i, row in enumerate(operator.codes))
        pairs = np.array([row for row in rows if row[0] < row[1]], np.intp).reshape(-1, 2)
        pairs = pairs[~operator.is_orderless[pairs[:, 1]]]
    torn = np.zeros(len(pairs), bool)
    for train, test in splits:
        side = np.zeros(n, np.int8)
        side[train], side[test] = 1, 2
        torn |= side[pairs].prod(axis=1) == 2
    return pairs[torn]


def tell_duplicates(pairs: np.ndarray, names: np.ndarray) -> str:
    """Name pairs of duplicated samples, and say what to do."""
    each = ", ".join(f"{a!r} and {b!r}" for a, b in names[pairs[:_MOST_PAIRS]].tolist())
    more = f", and {len(pairs) - _MOST_PAIRS:,} more pairs" * (len(pairs) > _MOST_PAIRS)
    return (
        "samples are duplicated, and folds train on one and test the other, so that scores are too good: "
        f"{each}{more}. Keep such samples together with `groups`, or leave one of each pair out."
    )
