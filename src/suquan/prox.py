"""Projections and proximal operators of the sets of target quantiles.

Each function takes a vector `z`, array-like of p finite values of any type, and gives a new one, an ndarray of
float64; none of them centres. Vectors are scaled by a power of two before anything is squared or summed, so
any finite input will do, and an operator that commutes with scaling does so bit for bit for powers of two.
:mod:`suquan.target_sets` calls them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import isotonic_regression

from suquan._kernels.prox import find_blocks, solve_blocks
from suquan._validation import check_real

__all__ = [
    "SmoothNondecreasingProx",
    "project_bounded",
    "project_bounded_nondecreasing",
    "project_nondecreasing",
    "prox_smooth_bounded_nondecreasing",
    "prox_smooth_nondecreasing",
]

Vector = NDArray[np.float64]
_ROOT_TOL = 1e-13
# Beyond this the minimiser is constant in floating point; sums of two still do not overflow.
_LARGEST_KAPPA = 2.0**500
# A warm start that needs more passes than this is far off: the isotonic start is the better one.
_WARM_PASSES = 5
# Steps of the search for the ball's multiplier: by Newton's method, and with those that halve the brackets.
# These span at most 2000 powers of two.
_NEWTON_STEPS, _MAX_ROOT_STEPS = 20, 100


def project_nondecreasing(z: ArrayLike) -> Vector:
    r"""Project on the non-decreasing vectors (isotonic regression).

    .. math::

        \underset{f}{\text{argmin}} ~ \frac12 \|f - z\|^2
        \quad \text{subject to} \quad f_1 \le f_2 \le \ldots \le f_p

    Examples
    --------
    >>> from suquan.prox import project_nondecreasing
    >>> project_nondecreasing([1.0, 3.0, 2.0, 4.0])
    array([1. , 2.5, 2.5, 4. ])
    """
    scaled, scale = _prepare(z)
    return isotonic_regression(scaled).x / scale


def project_bounded(z: ArrayLike) -> Vector:
    r"""Project on the ball of vectors whose mean square is at most 1.

    .. math::

        \underset{f}{\text{argmin}} ~ \frac12 \|f - z\|^2
        \quad \text{subject to} \quad \frac1p \sum_j f_j^2 \le 1

    The mean square of the result is at most 1 up to rounding.

    Examples
    --------
    >>> from suquan.prox import project_bounded
    >>> project_bounded([3.0, -3.0])
    array([ 1., -1.])
    >>> project_bounded([0.5, -1.0])
    array([ 0.5, -1. ])
    """
    return _into_ball(*_prepare(z))


def project_bounded_nondecreasing(z: ArrayLike) -> Vector:
    r"""Project on the non-decreasing vectors whose mean square is at most 1.

    .. math::

        \underset{f}{\text{argmin}} ~ \frac12 \|f - z\|^2
        \quad \text{subject to} \quad f_1 \le \ldots \le f_p, \quad \frac1p \sum_j f_j^2 \le 1

    The isotonic projection, divided by its root mean square where that exceeds 1: exact, because a
    cone meets a ball centred at its apex.

    The mean square of the result is at most 1 up to rounding.

    Examples
    --------
    >>> from suquan.prox import project_bounded_nondecreasing
    >>> project_bounded_nondecreasing([-2.0, 3.0, 1.0, -2.0, 4.0])
    array([-0.96824584,  0.32274861,  0.32274861,  0.32274861,  1.93649167])
    """
    scaled, scale = _prepare(z)
    return _into_ball(isotonic_regression(scaled).x, scale)


def prox_smooth_nondecreasing(z: ArrayLike, smoothness: float) -> Vector:
    r"""Smooth among the non-decreasing vectors.

    .. math::

        \underset{f}{\text{argmin}} ~ \frac12 \|f - z\|^2 + c \sum_j (f_{j+1} - f_j)^2
        \quad \text{subject to} \quad f_1 \le f_2 \le \ldots \le f_p

    with :math:`c \ge 0` the smoothness. Exact up to rounding, in a few passes over the vector;
    :class:`SmoothNondecreasingProx` does the same for many similar vectors. The sum of z is kept.

    Examples
    --------
    >>> from suquan.prox import prox_smooth_nondecreasing
    >>> prox_smooth_nondecreasing([0.0, 0.0, 4.0], smoothness=0.5)
    array([0.5, 1. , 2.5])
    """
    return SmoothNondecreasingProx()(z, smoothness)


def prox_smooth_bounded_nondecreasing(z: ArrayLike, smoothness: float) -> Vector:
    r"""Smooth among the non-decreasing vectors whose mean square is at most 1.

    .. math::

        \underset{f}{\text{argmin}} ~ \frac12 \|f - z\|^2 + c \sum_j (f_{j+1} - f_j)^2
        \quad \text{subject to} \quad f_1 \le \ldots \le f_p, \quad \frac1p \sum_j f_j^2 \le 1

    with :math:`c \ge 0` the smoothness. Where :func:`prox_smooth_nondecreasing` leaves the ball, the
    solution is :math:`\text{prox}_{c/(1+\mu)}(z/(1+\mu))`, with the multiplier :math:`\mu > 0` that
    makes its mean square 1.

    Examples
    --------
    >>> from suquan.prox import prox_smooth_bounded_nondecreasing
    >>> prox_smooth_bounded_nondecreasing([-3.0, 3.0], smoothness=0.5)
    array([-1.,  1.])
    """
    return SmoothNondecreasingProx(bounded=True)(z, smoothness)


class SmoothNondecreasingProx:
    """The smooth prox as a callable that starts from its last answer.

    Calling it gives :func:`prox_smooth_nondecreasing` (or, bounded,
    :func:`prox_smooth_bounded_nondecreasing`) up to rounding. It remembers which neighbours were
    equal, and the multiplier of the ball, from one call to the next; when vectors change little, as
    in the inner loop of a solver, one or two passes suffice. Not to be shared between threads.

    Parameters
    ----------
    bounded : bool, default=False
        Whether the mean square must be at most 1.

    Attributes
    ----------
    n_passes : int
        Passes over the vector in the last call.
    n_evaluations : int
        Unbounded proxes evaluated in the last call; 1 unless the ball is active.

    Examples
    --------
    >>> from suquan.prox import SmoothNondecreasingProx
    >>> prox = SmoothNondecreasingProx()
    >>> prox([0.0, 0.0, 4.0], 0.5)
    array([0.5, 1. , 2.5])
    >>> prox([0.0, 0.0, 8.0], 0.5), prox.n_passes
    (array([1., 2., 5.]), 1)
    """

    def __init__(self, *, bounded: bool = False):
        self.bounded = bounded
        self.reset()

    def reset(self) -> None:
        """Forget the last answer, so that the next call starts cold."""
        self.n_passes = 0
        self.n_evaluations = 0
        self._starts = np.empty(0, np.int64)  # blocks of the last answer
        self._shrinkage = 1.0  # 1 / (1 + μ), with μ the multiplier of the ball

    def __call__(self, z: ArrayLike, smoothness: float) -> Vector:
        """Return the prox of ``z``, of shape (p,), with weight ``smoothness``."""
        scaled, scale = _prepare(z)
        check_real("smoothness", smoothness, "[0, ∞)")
        if len(self._starts) and self._starts[-1] != len(scaled):
            self.reset()
        self.n_passes = self.n_evaluations = 0
        if self.bounded:
            return self._bounded_prox(scaled, scale, float(smoothness))
        return self._expand(self._evaluate(scaled, float(smoothness)) / scale)

    def _expand(self, values: Vector) -> Vector:
        """Vector that has the value of its block in every entry."""
        return np.repeat(values, np.diff(self._starts))

    def _evaluate(self, z: Vector, smoothness: float) -> Vector:
        """Values of the unbounded prox on its blocks, which are found from the last ones and kept."""
        # f keeps the mean of z; working without it, an offset costs no digits.
        mean = z.mean()
        y, kappa = z - mean, _kappa(smoothness)
        self.n_evaluations += 1
        finished = False
        if len(self._starts):
            self._starts, f, passes, finished = find_blocks(y, kappa, self._starts, _WARM_PASSES)
            self.n_passes += passes
        if not finished:
            starts = isotonic_regression(y).blocks.astype(np.int64)
            self._starts, f, passes, _ = find_blocks(y, kappa, starts, len(y) + 1)
            self.n_passes += passes
        return f + mean

    def _bounded_prox(self, z: Vector, scale: float, smoothness: float) -> Vector:
        """Bounded prox, by Newton's method on h(θ) = θ / rms(g(θ)) = 1 between brackets.

        With scale s, z being s times the vector given, and θ = s (1 + μ), the minimiser is g/θ, where
        g(θ) = prox(z, c s/θ) has rms θ. h increases, and is linear without smoothness. Where a step of Newton's
        method leaves the brackets, or it takes many, the brackets are halved.
        """
        # rms(g) never exceeds the largest entry, so neither does the root.
        peak = float(np.max(np.abs(z)))
        low, high = 0.0, 2.0 * max(scale, peak)
        theta = min(scale / self._shrinkage, 0.5 * high)
        if not len(self._starts):  # smoothing makes no rms larger
            theta = max(_rms(self._project(z)), scale)
        for n_steps in range(_MAX_ROOT_STEPS):
            weight = smoothness * (scale / theta)
            f = self._evaluate(z, weight)
            sizes = np.diff(self._starts)
            rms = _rms(f, sizes)
            low, high = (theta, high) if rms > theta else (low, theta)
            # Rounding in g is relative to the largest entry of z, however small g has become.
            tol = max(_ROOT_TOL * rms, 4.0 * np.finfo(float).eps * peak)
            inside = theta == scale and rms <= theta
            if inside or abs(rms - theta) <= tol or high - low <= _ROOT_TOL * high:
                break
            slope = self._slope(f, sizes, weight) if rms > 0.0 else 1.0
            step = (rms - theta) / slope if slope > 0.0 else np.nan
            last, theta = theta, max(theta + step, scale)
            if not low < theta < high or n_steps >= _NEWTON_STEPS:
                theta = np.sqrt(low) * np.sqrt(high) if low > 0.0 else scale
            if theta == last:
                break
        self._shrinkage = scale / theta
        return self._expand(f / (theta if inside else max(rms, theta)))

    def _project(self, z: Vector) -> Vector:
        """The prox without smoothness and bound."""
        return isotonic_regression(z).x

    def _slope(self, f: Vector, sizes: Any, smoothness: float) -> float:
        """Derivative of h times rms: f·g / f·f, where g smooths f on its blocks; between 0 and 1."""
        sums = sizes * f
        g, _ = solve_blocks(_kappa(smoothness), self._starts, sums)
        return float(np.sum(sums * g)) / float(np.sum(sums * f))


class SmoothProx(SmoothNondecreasingProx):
    """The same among all vectors, in any order: :class:`SmoothNondecreasingProx` without the constraint."""

    def _evaluate(self, z: Vector, smoothness: float) -> Vector:
        self._starts = np.arange(len(z) + 1)
        self.n_evaluations += 1
        self.n_passes += 1
        f, _ = solve_blocks(_kappa(smoothness), self._starts, z - z.mean())
        return f + z.mean()

    def _project(self, z: Vector) -> Vector:
        return z


def _prepare(z: ArrayLike) -> tuple[Vector, float]:
    """Check the vector; give its product with a power of two, of largest entry about 1, and that power."""
    z = np.asarray(z, dtype=np.float64)
    if z.ndim != 1 or z.size == 0:
        raise ValueError(
            f"z must be a vector with at least one value, but has shape {z.shape}; "
            "give one row at a time."
        )
    n_bad = np.count_nonzero(~np.isfinite(z))
    if n_bad:
        raise ValueError(
            f"z must be finite, but {n_bad} of its {z.size} values are NaN or infinite; "
            "remove or impute them."
        )
    exponent = int(np.frexp(np.max(np.abs(z)))[1])
    # Short of the ends of the exponent's range, so that the scale and its inverse are exact.
    scale = 2.0 ** -min(max(exponent, -1000), 1000)
    return z * scale, scale


def _kappa(smoothness: float) -> float:
    return min(2.0 * smoothness, _LARGEST_KAPPA)


def _rms(values: Vector, sizes: Any = None) -> float:
    """Root mean square of a vector, or of one that has each of `values` as often as `sizes` says."""
    return float(np.sqrt(np.average(values * values, weights=sizes)))


def _into_ball(z: Vector, scale: float) -> Vector:
    """Undo the scale, or leave the vector on the sphere when it would end up outside the ball."""
    return z / max(scale, _rms(z))
