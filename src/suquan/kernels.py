"""Kernels on permutations: similarities of samples that see the order of their features alone.

Samples come in as matrices or data frames; Gram matrices go out. Users call these functions, also as
``SVC(kernel=kendall_kernel)``, and for models with ``kernel="precomputed"``. All are symmetric, positive
semidefinite, and 1 on the diagonal where nothing ties. NaN, a single feature, and samples of different lengths
are a ValueError. Rows are shared out among threads where ``joblib.parallel_config`` asks for them.
"""

from collections.abc import Callable
from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np

from suquan._blocks import for_each_block
from suquan._kernels import permutations
from suquan._validation import as_samples, check_choice
from suquan.ranking import SampleOperator, code_masks
from suquan.targets import make_target_quantiles, read_at_grid, resolve_target

__all__ = [
    "kendall_kernel", "mallows_kernel", "permutation_kernel", "quantile_kernel", "weighted_kendall_kernel",
]  # fmt: skip

_WEIGHTS = {
    "top-k": permutations.MULTIPLICATIVE,
    "average": permutations.AVERAGE,
    "additive": permutations.ADDITIVE,
    "multiplicative": permutations.MULTIPLICATIVE,
}


def permutation_kernel(
    X: Any,
    Y: Any = None,
    *,
    n_knots: int | None = None,
    smoothness: float = 0.0,
    ties: str = "average",
) -> np.ndarray:
    """Measure how far two samples have their features at the same places: the kernel of one curve per feature.

        k(x, y) = tr(S_x R⁻¹ S_yᵀ) / tr(B R⁻¹ Bᵀ)    with S = T B and R = (1/K)·(I + smoothness·K²·L)

    T is the operator of a sample with Φ_f(x) = T f, B reads a target f = B g of K knots, and L is the Laplacian
    of the path of knots, gᵀ L g = Σ_k (g[k+1] − g[k])². With K = p, smoothness 0 and ties "first" this is the
    share of features that have the same place in both samples.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        Samples in rows.
    Y : array-like of shape (n_others, n_features), default=None
        Other samples; None for those of `X`.
    n_knots : int, default=None
        Number K of knots, from 2 to n_features; None for one per place.
    smoothness : float, default=0.0
        From 0 up. The larger, the more do neighbouring places count as the same.
    ties : {"average", "first", "mean_rank"}, default="average"
        How tied values read the target.

    Returns
    -------
    ndarray of shape (n_samples, n_others)

    Notes
    -----
    With K = p and smoothness 0 a pair of samples costs O(p). Otherwise the Gram matrix is a sum of K matrix
    products, one per eigenvector of L.

    Examples
    --------
    >>> from suquan.kernels import permutation_kernel
    >>> permutation_kernel([[1, 2, 3, 4], [10, 20, 40, 30]])
    array([[1. , 0.5],
           [0.5, 1. ]])
    """
    ranked, others = _ranked_pair(X, Y, ties)
    p = ranked.n_features
    if n_knots is not None and not (isinstance(n_knots, Integral) and 2 <= n_knots <= p):
        raise ValueError(f"n_knots must be an integer from 2 to {p}, or None; got {n_knots!r}.")
    smoothness = _not_negative("smoothness", smoothness)
    n_knots = p if n_knots is None else int(n_knots)
    if n_knots == p and smoothness == 0.0:
        x, y = _read_places(ranked), _read_places(others)

        def fill(i: int, out: np.ndarray) -> None:
            others = [bound[: len(out)] for bound in y]
            shared = np.minimum(x[1][i], others[1]) - np.maximum(x[0][i], others[0])
            n_read = (x[1][i] - x[0][i]) * (others[1] - others[0]).astype(np.float64)
            out[:] = np.sum(np.maximum(shared, 0) / n_read, axis=1)

        return _gram(fill, ranked, others) / p
    total, constant = np.zeros((ranked.n_samples, others.n_samples)), 0.0
    for l in range(n_knots):  # eigenvectors of L
        angle = np.pi * l / n_knots
        eigenvalue = (1.0 + smoothness * (2.0 * n_knots * np.sin(0.5 * angle)) ** 2) / n_knots
        wave = np.cos(angle * (np.arange(n_knots) + 0.5))
        f = read_at_grid(wave / np.sqrt(eigenvalue * np.sum(wave**2)), p)
        total += _products(ranked, others, f)
        constant += float(f @ f)
    return total / constant


def quantile_kernel(
    X: Any, Y: Any = None, target_quantiles: Any = "normal", *, ties: str = "average"
) -> np.ndarray:
    """Compute the scalar product of quantile-normalised samples, divided by that of the target with itself.

        k(x, y) = ⟨Φ_f(x), Φ_f(y)⟩ / Σ_j f_j²

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        Samples in rows.
    Y : array-like of shape (n_others, n_features), default=None
        Other samples; None for those of `X`.
    target_quantiles : str, distribution, callable or array-like, default="normal"
        The target f as in :func:`suquan.make_target_quantiles`; arrays have one value per feature.
    ties : {"average", "first", "mean_rank"}, default="average"
        How tied values read the target.

    Returns
    -------
    ndarray of shape (n_samples, n_others)

    Examples
    --------
    >>> from suquan.kernels import quantile_kernel
    >>> quantile_kernel([[1, 2, 3]], [[5, 6, 7], [30, 20, 10]], [-1, 0, 1])
    array([[ 1., -1.]])
    """
    ranked, others = _ranked_pair(X, Y, ties)
    resolve = make_target_quantiles if isinstance(target_quantiles, str) else resolve_target
    f = resolve(target_quantiles, ranked.n_features)
    if not np.any(f):
        raise ValueError("target_quantiles are all 0; give a target that is not.")
    f = f / np.max(np.abs(f))
    return _products(ranked, others, f) / float(f @ f)


def kendall_kernel(X: Any, Y: Any = None) -> np.ndarray:
    """Compute Kendall's tau of two samples' features: the share of concordant minus that of discordant pairs.

        k(x, y) = mean over i < j of sign(x_i − x_j)·sign(y_i − y_j)

    A pair that ties in either sample counts 0, so that k(x, x) is the share of pairs that do not tie in x. The
    tau-b of `scipy.stats.kendalltau` is k(x, y)/√(k(x, x)·k(y, y)). A pair of samples costs O(p log p).

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        Samples in rows.
    Y : array-like of shape (n_others, n_features), default=None
        Other samples; None for those of `X`.

    Returns
    -------
    ndarray of shape (n_samples, n_others)

    References
    ----------
    Y. Jiao and J.-P. Vert, The Kendall and Mallows kernels for permutations, 2015.

    Examples
    --------
    >>> from suquan.kernels import kendall_kernel
    >>> kendall_kernel([[1, 2, 3]], [[1, 2, 3], [3, 2, 1], [1, 1, 2]]).round(3)
    array([[ 1.   , -1.   ,  0.667]])
    """
    ranked, others = _ranked_pair(X, Y)
    x, y = _places(ranked), _places(others)

    def fill(i: int, out: np.ndarray) -> None:
        permutations.kendall_row(x.order[i], x.end[i], y.start, out)

    return _gram(fill, ranked, others)


def mallows_kernel(X: Any, Y: Any = None, scale: float = 1.0) -> np.ndarray:
    """Compute the kernel that falls exponentially with the distance of two samples under Kendall's kernel k.

        exp(−scale·(k(x, x) + k(y, y) − 2·k(x, y))/4)

    Where nothing ties, the exponent is −scale times the share of discordant pairs; k is that of
    :func:`kendall_kernel`. With ties too it is 1 on the diagonal and positive semidefinite.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        Samples in rows.
    Y : array-like of shape (n_others, n_features), default=None
        Other samples; None for those of `X`.
    scale : float, default=1.0
        From 0 up.

    Returns
    -------
    ndarray of shape (n_samples, n_others)

    Examples
    --------
    >>> import numpy as np
    >>> from suquan.kernels import mallows_kernel
    >>> np.log(mallows_kernel([[1, 2, 3]], [[1, 2, 3], [3, 2, 1]], scale=2.0))
    array([[ 0., -2.]])
    """
    scale = _not_negative("scale", scale)
    k = kendall_kernel(X, Y)
    own, others = (_untied_share(ranked) for ranked in _ranked_pair(X, Y))
    return np.exp(-0.25 * scale * (own[:, None] + others - 2.0 * k))


def weighted_kendall_kernel(
    X: Any, Y: Any = None, weight: str = "average", k: int | None = None, u: Any = None
) -> np.ndarray:
    """Compute Kendall's kernel with weights that look at the top of the samples.

        K(x, y) = Σ over ordered pairs (i, j), j above i in both samples, of U[r_i, r_j]·U[s_i, s_j]
        k(x, y) = K(x, y) / √(K(x, x)·K(y, y))

    r and s are the places in x and y, counted from 0 at the largest value; tied values share the first of their
    places, and a pair that ties in either sample does not count. A sample with K(x, x) = 0 has k(x, y) = 0. A
    pair of samples costs O(p log p) with every weight.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        Samples in rows.
    Y : array-like of shape (n_others, n_features), default=None
        Other samples; None for those of `X`.
    weight : {"average", "top-k", "additive", "multiplicative"}, default="average"
        - "top-k": U[a, b] = 1 if a, b < k, else 0;
        - "average": K is the mean of the one for "top-k" over k = 1, …, p;
        - "additive": U[a, b] = u_a + u_b;
        - "multiplicative": U[a, b] = u_a·u_b.
    k : int, default=None
        Length of the top, at least 2; for "top-k" alone, which needs it.
    u : array-like of shape (n_features,), default=None
        Weight of every place from the top, for "additive" and "multiplicative"; None for 1/log₂(2 + place).

    Returns
    -------
    ndarray of shape (n_samples, n_others)

    References
    ----------
    Y. Jiao and J.-P. Vert, The weighted Kendall and high-order kernels for permutations, 2018.

    Examples
    --------
    >>> from suquan.kernels import weighted_kendall_kernel
    >>> samples = [[4, 3, 2, 1], [4, 3, 1, 2], [3, 4, 2, 1]]
    >>> weighted_kendall_kernel(samples[:1], samples, "top-k", k=2)
    array([[1., 1., 0.]])
    >>> weighted_kendall_kernel(samples[:1], samples, "multiplicative").round(2)
    array([[1.  , 0.95, 0.57]])
    """
    check_choice("weight", weight, _WEIGHTS)
    ranked, others = _ranked_pair(X, Y)
    x, y = _places(ranked), _places(others)
    kind, weights = _WEIGHTS[weight], _place_weights(weight, k, u, ranked.n_features)

    def fill(i: int, out: np.ndarray, x: _Places = x, starts: np.ndarray = y.start) -> None:
        row = x.order[i], x.start[i], x.end[i]
        permutations.weighted_kendall_row(kind, weights, *row, starts, out)

    def norms(x: _Places) -> np.ndarray:
        squares = np.empty((len(x.order), 1))
        for i, square in enumerate(squares):
            fill(i, square, x, x.start[i : i + 1])
        return np.sqrt(squares)

    gram = _gram(fill, ranked, others)
    scales = norms(x) * norms(y).T
    return np.divide(gram, scales, out=np.zeros_like(gram), where=scales > 0.0)


def _place_weights(weight: str, k: Any, u: Any, n_features: int) -> np.ndarray:
    """Weights of the places for the kernel, of shape (n_features,), after a check of `k` and `u`."""
    places = np.arange(n_features)
    if k is not None and weight != "top-k":
        raise ValueError(f"k belongs to weight='top-k'; leave it out with weight={weight!r}.")
    if u is not None and weight in ("top-k", "average"):
        raise ValueError(f"weight={weight!r} has no u; leave it out, or use 'additive'.")
    if weight == "top-k":
        if not isinstance(k, Integral) or k < 2:
            raise ValueError(f"weight='top-k' needs an integer k of at least 2; got k={k!r}.")
        return np.where(places < int(k), 1.0, 0.0)
    if u is None:
        return 1.0 / np.log2(2.0 + places)
    u = np.asarray(u, dtype=np.float64)
    if u.shape != (n_features,):
        raise ValueError(
            f"u must hold one weight per place, {n_features} in all; got shape {u.shape}."
        )
    if not np.all(np.isfinite(u)) or not np.any(u):
        raise ValueError("u must hold finite numbers that are not all 0.")
    return np.ascontiguousarray(u / np.max(np.abs(u)))


class _Places(NamedTuple):
    """Places of ranked samples from the top, each of shape (n_samples, n_features), int32.

    The feature at each place; each feature's place, the first place of its tied block and that after it.
    """

    order: np.ndarray
    place: np.ndarray
    start: np.ndarray
    end: np.ndarray


def _ranked(samples: Any, name: str, ties: str) -> SampleOperator:
    """Samples ranked, after the checks that all kernels share."""
    values = as_samples(samples)
    if values.shape[1] < 2:
        raise ValueError(f"{name} has one feature; kernels on permutations need at least two.")
    ranked = SampleOperator.from_samples(values, ties=ties, missing="ignore")
    if not ranked.is_complete:
        i = int(np.flatnonzero(ranked.n_observed < ranked.n_features)[0])
        raise ValueError(f"{name} contains NaN, first in sample {i}; fill them in, or drop them.")
    return ranked


def _ranked_pair(X: Any, Y: Any, ties: str = "average") -> tuple[SampleOperator, SampleOperator]:
    """Both sets of samples ranked; one and the same where `Y` is None or `X`."""
    ranked = _ranked(X, "X", ties)
    if Y is None or Y is X:
        return ranked, ranked
    others = _ranked(Y, "Y", ties)
    if others.n_features != ranked.n_features:
        raise ValueError(
            f"X has {ranked.n_features} features but Y has {others.n_features}; give samples of the "
            "same features in the same order."
        )
    return ranked, others


def _not_negative(name: str, value: Any) -> float:
    if not isinstance(value, Real) or not 0.0 <= float(value) < np.inf:
        raise ValueError(f"{name} must be a finite number ≥ 0; got {value!r}.")
    return float(value)


def _places(ranked: SampleOperator) -> _Places:
    """Find the places of all features, from the top."""
    flag, mask = code_masks(ranked.codes.dtype)
    codes = ranked.codes[:, ::-1]
    order = (codes & mask).astype(np.int32)
    p = ranked.n_features
    place = np.broadcast_to(np.arange(p, dtype=np.int32), codes.shape)
    is_last = (codes & flag) == 0  # of its tied block
    start = np.zeros_like(order)
    start[:, 1:] = np.maximum.accumulate(np.where(is_last, place + 1, 0)[:, :-1], axis=1)
    end = np.minimum.accumulate(np.where(is_last, place + 1, p)[:, ::-1], axis=1)[:, ::-1]
    by_feature = np.empty((3, *codes.shape), np.int32)
    for out, of_place in zip(by_feature, (place, start, end), strict=True):
        np.put_along_axis(out, order, of_place, axis=1)
    return _Places(order, *by_feature)


def _read_places(ranked: SampleOperator) -> tuple[np.ndarray, np.ndarray]:
    """First place that each feature reads, and that after the last, under the rule for ties."""
    _, place, start, end = _places(ranked)
    if ranked.ties == "first":
        return place, place + np.int32(1)
    if ranked.ties == "mean_rank":  # the one or two places in the middle
        return (start + end - 1) // 2, (start + end) // 2 + 1
    return start, end


def _untied_share(ranked: SampleOperator) -> np.ndarray:
    """Share of the pairs of features that do not tie, of shape (n_samples,)."""
    x, n_features = _places(ranked), ranked.n_features
    n_ordered = np.sum(n_features - (x.end - x.start), axis=1, dtype=np.int64) // 2
    return np.asarray(n_ordered / (n_features * (n_features - 1) // 2))


def _gram(
    fill: Callable[[int, np.ndarray], Any], ranked: SampleOperator, others: SampleOperator
) -> np.ndarray:
    """Matrix whose row i starts with what ``fill(i, out)`` writes; half of it where it is symmetric."""
    shape = ranked.n_samples, others.n_samples
    gram = np.zeros(shape)
    is_symmetric = others is ranked

    def fill_block(rows: slice) -> None:
        for i in range(rows.start, rows.stop):
            fill(i, gram[i, : i + 1] if is_symmetric else gram[i])

    for_each_block(fill_block, (shape[0], shape[1] * ranked.n_features), None)
    if is_symmetric:
        gram += np.tril(gram, -1).T
    return gram


def _products(ranked: SampleOperator, others: SampleOperator, f: np.ndarray) -> np.ndarray:
    """Scalar products of the samples normalised to f."""
    A = ranked.apply(f)
    return A @ A.T if others is ranked else A @ others.apply(f).T
