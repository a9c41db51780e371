"""Simulated samples to try the methods on: they come with the wrong distribution, or need several targets.

Sizes and a seed come in, samples and labels go out; users, the demo and the experiments call these functions.
"""

from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit
from sklearn.utils import check_random_state

from suquan.preprocessing import quantile_normalize
from suquan.survival import as_outcome
from suquan.targets import grid, mixture_quantiles

__all__ = [
    "make_corrupted_classification", "make_corrupted_survival", "make_distorted_samples",
    "make_several_targets_classification", "skewed_mixture", "two_steps",
]  # fmt: skip


def skewed_mixture(q: np.ndarray) -> np.ndarray:
    """Quantiles of 0.8·N(0, 1) + 0.2·N(5, 0.3²), a target that is none of the named ones.

    Parameters
    ----------
    q : ndarray
        Probabilities in (0, 1).

    Returns
    -------
    ndarray of the shape of `q`

    Examples
    --------
    >>> import numpy as np
    >>> from suquan.datasets import skewed_mixture
    >>> skewed_mixture(np.array([0.2, 0.9])).round(3)
    array([-0.674,  5.   ])
    """
    return mixture_quantiles(q, (0.8, 0.2), (0.0, 5.0), (1.0, 0.3))


def two_steps(q: np.ndarray) -> np.ndarray:
    """Quantile function with two steps: 0 up to 0.3, 1 up to 0.8, 2.5 above.

    Parameters
    ----------
    q : ndarray
        Probabilities in (0, 1).

    Returns
    -------
    ndarray of the shape of `q`

    Examples
    --------
    >>> import numpy as np
    >>> from suquan.datasets import two_steps
    >>> two_steps(np.array([0.1, 0.5, 0.9]))
    array([0. , 1. , 2.5])
    """
    return 1.0 * (q > 0.3) + 1.5 * (q > 0.8)


def make_distorted_samples(
    n_samples: int = 60,
    n_features: int = 2000,
    *,
    distortion: float = 1.0,
    random_state: Any = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Samples that were measured on scales of their own.

    Every sample is a common profile, two groups of features (silent and active, as genes are), plus noise of
    its own. It is then seen through its own increasing map, x ↦ a + b·sinh(c·(arcsinh(x) + d)), with random
    shift a, scale b, tail weight c and skewness d. The maps keep the order of the values within a sample, and
    nothing else.

    Parameters
    ----------
    n_samples, n_features : int, default=60 and 2000
    distortion : float, default=1.0
        Spread of the random maps; at 0 the samples are returned as they are.
    random_state : int, RandomState instance or None, default=None

    Returns
    -------
    X : ndarray of shape (n_samples, n_features)
        Samples as measured.
    X_true : ndarray of shape (n_samples, n_features)
        The same samples before the maps; each row is ordered like that of `X`.

    Examples
    --------
    >>> import numpy as np
    >>> from suquan.datasets import make_distorted_samples
    >>> X, X_true = make_distorted_samples(5, 100, random_state=0)
    >>> np.array_equal(np.argsort(X, axis=1), np.argsort(X_true, axis=1))
    True
    """
    rng = check_random_state(random_state)
    active = rng.uniform(size=n_features) < 0.4
    profile = np.where(
        active, rng.normal(1.2, 0.6, size=n_features), rng.normal(-0.8, 0.35, size=n_features)
    )
    X_true = profile + 0.3 * rng.normal(size=(n_samples, n_features))
    shift, scale, tail, skew = distortion * rng.normal(size=(4, n_samples, 1))
    bent = np.sinh(np.exp(0.15 * tail) * (np.arcsinh(X_true) + 0.25 * skew))
    return 0.8 * shift + np.exp(0.3 * scale) * bent, X_true


def make_corrupted_classification(
    n_samples: int = 500,
    n_features: int = 1000,
    *,
    target: Any = "normal",
    corrupted: Any = "cauchy",
    random_state: Any = None,
) -> tuple[np.ndarray, np.ndarray]:
    """The paper's simulation: labels from samples with one target, shown with another.

    Samples are independent random orders of the features. Labels follow the logistic model
    P(y = 1) = σ(w·Φ_target(x)) with w ~ N(0, I); what is returned is Φ_corrupted(x).

    Parameters
    ----------
    n_samples, n_features : int, default=500 and 1000
    target : str, distribution, callable or array-like, default="normal"
        True target, as for :func:`suquan.make_target_quantiles`.
    corrupted : str, distribution, callable or array-like, default="cauchy"
        Target that the samples are shown with.
    random_state : int, RandomState instance or None, default=None

    Returns
    -------
    X : ndarray of shape (n_samples, n_features)
    y : ndarray of shape (n_samples,), 0 or 1

    Examples
    --------
    >>> from suquan.datasets import make_corrupted_classification
    >>> X, y = make_corrupted_classification(20, 50, random_state=0)
    >>> X.shape, sorted(set(y.tolist()))
    ((20, 50), [0, 1])
    """
    rng = check_random_state(random_state)
    X = rng.normal(size=(n_samples, n_features))
    w = rng.normal(size=n_features)
    u = quantile_normalize(X, target) @ w
    y = (rng.uniform(size=n_samples) < expit(u)).astype(int)
    return quantile_normalize(X, corrupted), y


def make_corrupted_survival(
    n_samples: int = 500,
    n_features: int = 1000,
    *,
    target: Any = "normal",
    corrupted: Any = "cauchy",
    strength: float = 1.0,
    censored: float = 0.5,
    random_state: Any = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Times to event from samples with one target, shown with another.

    Samples are independent random orders of the features. Times are exponential with the hazard
    exp(w·Φ_target(x)), the target of mean 0 and mean square 1 and w ~ N(0, strength² / n_features · I);
    follow-up ends after exponential times, too. What is returned is Φ_corrupted(x).

    Parameters
    ----------
    n_samples, n_features : int, default=500 and 1000
    target, corrupted : str, distribution, callable or array-like, default="normal" and "cauchy"
        True target, and the one that samples are shown with, as for :func:`suquan.make_target_quantiles`.
    strength : float, default=1.0
        Standard deviation of the log-hazard.
    censored : float, default=0.5
        Expected share of censored samples, in (0, 1).
    random_state : int, RandomState instance or None, default=None

    Returns
    -------
    X : ndarray of shape (n_samples, n_features)
    y : structured array of shape (n_samples,), with the fields event and time

    Examples
    --------
    >>> from suquan.datasets import make_corrupted_survival
    >>> X, y = make_corrupted_survival(20, 50, random_state=0)
    >>> X.shape, y.dtype.names
    ((20, 50), ('event', 'time'))
    """
    rng = check_random_state(random_state)
    w = rng.normal(size=n_features) * strength / np.sqrt(n_features)
    X = rng.normal(size=(n_samples, n_features))
    Z = quantile_normalize(X, target)
    hazard = np.exp(((Z - Z.mean()) / Z.std()) @ w)
    rate = np.exp(brentq(lambda r: np.mean(expit(r - np.log(hazard))) - censored, -50.0, 50.0))
    time, end = rng.exponential(1.0 / hazard), rng.exponential(1.0 / rate, size=n_samples)
    y = as_outcome(np.column_stack([np.minimum(time, end), time <= end]))
    return quantile_normalize(X, corrupted), y


def _line(q: np.ndarray) -> np.ndarray:
    """Up."""
    return q


def _hump(q: np.ndarray) -> np.ndarray:
    """High in the middle of the places, low at both ends."""
    return -((2.0 * q - 1.0) ** 2)


def _wave(q: np.ndarray) -> np.ndarray:
    """Up, down and up again; orthogonal to the line and to the hump."""
    t = 2.0 * q - 1.0
    return 5.0 * t**3 - 3.0 * t


def make_several_targets_classification(
    n_samples: int = 2000,
    n_features: int = 300,
    *,
    targets: Any = (_line, _hump, _wave),
    random_state: Any = None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Labels from samples whose features are read with several targets, each by its own set of features.

    Samples are independent random orders of the features. With m targets of mean 0 and mean square 1, the
    features are cut into m sets of neighbours, and P(y = 1) = σ(Σ_l w_l·Φ_l(x)) with w_l ~ N(0, I) on set l
    and 0 elsewhere. So the matrix of all features' curves over their places, Σ_l w_l f_lᵀ, has rank m. The
    given targets are orthogonal: a line, a hump and a wave.

    Parameters
    ----------
    n_samples, n_features : int, default=2000 and 300
    targets : sequence of callables, default=a line, a hump and a wave
        Each takes probabilities in (0, 1) and returns values, which need not rise.
    random_state : int, RandomState instance or None, default=None

    Returns
    -------
    X : ndarray of shape (n_samples, n_features)
    y : ndarray of shape (n_samples,), 0 or 1
    target_quantiles : ndarray of shape (n_targets, n_features)
        The true targets.

    Examples
    --------
    >>> from suquan.datasets import make_several_targets_classification
    >>> X, y, target_quantiles = make_several_targets_classification(20, 60, random_state=0)
    >>> X.shape, sorted(set(y.tolist())), target_quantiles.shape
    ((20, 60), [0, 1], (3, 60))
    """
    rng = check_random_state(random_state)
    w = rng.normal(size=n_features)  # first, so that more samples have the same truth
    X = rng.normal(size=(n_samples, n_features))
    places = np.argsort(np.argsort(X, axis=1), axis=1)
    F = np.array([target(grid(n_features)) for target in targets])
    F -= F.mean(axis=1, keepdims=True)
    F /= np.sqrt(np.mean(F**2, axis=1, keepdims=True))
    own = np.arange(n_features) * len(F) // n_features
    u = F[own, places] @ w
    y = (rng.uniform(size=n_samples) < expit(u)).astype(int)
    return X, y, F
