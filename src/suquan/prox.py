"""Projections and proximal operators of the sets of target quantiles.

Each function takes a vector and returns a new one, computed and returned in float64 whatever came;
none of them centres. Vectors are scaled by a power of two before anything is squared or summed, so
any finite input will do, and an operator that commutes with scaling does so bit for bit for powers
of two.
"""

from __future__ import annotations

from numbers import Real
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import isotonic_regression

from suquan._kernels import prox as kernels

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
_MAX_ROOT_STEPS = 100
# The guess of the ball's multiplier: Newton steps at most, and the relative step that is close enough.
_GUESS_STEPS, _GUESS_TOL = 3, 3e-2
# Relative step of θ after which finite differences give the derivative well enough.
_SHORT_STEP = 0.02


def project_nondecreasing(z: ArrayLike) -> Vector:
    r"""Project on the non-decreasing vectors (isotonic regression).

    .. math::

        \underset{f}{\text{argmin}} ~ \frac12 \|f - z\|^2
        \quad \text{subject to} \quad f_1 \le f_2 \le \dots \le f_p

    Parameters
    ----------
    z : array-like of shape (p,)
        Finite values.

    Returns
    -------
    f : ndarray of shape (p,), dtype float64

    Examples
    --------
    >>> from suquan.prox import project_nondecreasing
    >>> project_nondecreasing([1.0, 3.0, 2.0, 4.0])
    array([1. , 2.5, 2.5, 4. ])
    """
    scaled = _prepare(z)
    return isotonic_regression(scaled.z).x / scaled.scale


def project_bounded(z: ArrayLike) -> Vector:
    r"""Project on the ball of vectors whose mean square is at most 1.

    .. math::

        \underset{f}{\text{argmin}} ~ \frac12 \|f - z\|^2
        \quad \text{subject to} \quad \frac1p \sum_j f_j^2 \le 1

    Parameters
    ----------
    z : array-like of shape (p,)
        Finite values.

    Returns
    -------
    f : ndarray of shape (p,), dtype float64
        Its mean square is at most 1 up to rounding.

    Examples
    --------
    >>> from suquan.prox import project_bounded
    >>> project_bounded([3.0, -3.0])
    array([ 1., -1.])
    >>> project_bounded([0.5, -1.0])
    array([ 0.5, -1. ])
    """
    return _into_ball(_prepare(z))


def project_bounded_nondecreasing(z: ArrayLike) -> Vector:
    r"""Project on the non-decreasing vectors whose mean square is at most 1.

    .. math::

        \underset{f}{\text{argmin}} ~ \frac12 \|f - z\|^2
        \quad \text{subject to} \quad f_1 \le \dots \le f_p, \quad \frac1p \sum_j f_j^2 \le 1

    The isotonic projection, divided by its root mean square where that exceeds 1: exact, because a
    cone meets a ball centred at its apex.

    Parameters
    ----------
    z : array-like of shape (p,)
        Finite values.

    Returns
    -------
    f : ndarray of shape (p,), dtype float64
        Its mean square is at most 1 up to rounding.

    Examples
    --------
    >>> from suquan.prox import project_bounded_nondecreasing
    >>> project_bounded_nondecreasing([-2.0, 3.0, 1.0, -2.0, 4.0])
    array([-0.96824584,  0.32274861,  0.32274861,  0.32274861,  1.93649167])
    """
    scaled = _prepare(z)
    return _into_ball(scaled._replace(z=isotonic_regression(scaled.z).x))


def prox_smooth_nondecreasing(z: ArrayLike, smoothness: float) -> Vector:
    r"""Smooth among the non-decreasing vectors.

    .. math::

        \underset{f}{\text{argmin}} ~ \frac12 \|f - z\|^2 + c \sum_j (f_{j+1} - f_j)^2
        \quad \text{subject to} \quad f_1 \le f_2 \le \dots \le f_p

    with :math:`c` the smoothness. Exact up to rounding, in a few passes over the vector.

    Parameters
    ----------
    z : array-like of shape (p,)
        Finite values.
    smoothness : float
        Weight of the squared differences, ≥ 0.

    Returns
    -------
    f : ndarray of shape (p,), dtype float64
        Non-decreasing, with the sum of z.

    See Also
    --------
    SmoothNondecreasingProx : The same for many similar vectors, warm-started.

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
        \quad \text{subject to} \quad f_1 \le \dots \le f_p, \quad \frac1p \sum_j f_j^2 \le 1

    with :math:`c` the smoothness. Where :func:`prox_smooth_nondecreasing` leaves the ball, the
    solution is :math:`\text{prox}_{c/(1+\mu)}(z/(1+\mu))`, with the multiplier :math:`\mu > 0` that
    makes its mean square 1.

    Parameters
    ----------
    z : array-like of shape (p,)
        Finite values.
    smoothness : float
        Weight of the squared differences, ≥ 0.

    Returns
    -------
    f : ndarray of shape (p,), dtype float64
        Non-decreasing; its mean square is at most 1 up to rounding.

    See Also
    --------
    SmoothNondecreasingProx : The same for many similar vectors, warm-started.

    Examples
    --------
    >>> from suquan.prox import prox_smooth_bounded_nondecreasing
    >>> prox_smooth_bounded_nondecreasing([-4.0, 0.0, 4.0], smoothness=0.5)
    array([-1.22474487,  0.        ,  1.22474487])
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
        self._work = kernels.make_workspace(0)
        self.reset()

    def reset(self) -> None:
        """Forget the last answer, so that the next call starts cold."""
        self.n_passes = 0
        self.n_evaluations = 0
        self._n_blocks = 0
        self._n_isotonic = 0  # isotonic blocks of the present vector, once they are known
        self._shrinkage = 1.0  # 1 / (1 + μ), with μ the multiplier of the ball

    def __call__(self, z: ArrayLike, smoothness: float) -> Vector:
        """Return the prox of ``z``, of shape (p,), with weight ``smoothness``."""
        scaled = _prepare(z)
        smoothness = _check_smoothness(smoothness)
        if len(scaled.z) != len(self._work.y):
            self.reset()
            self._work = kernels.make_workspace(len(scaled.z))
        self.n_passes = self.n_evaluations = self._n_isotonic = 0
        # f keeps the mean of z; working without it, an offset costs no digits.
        kernels.load(scaled.z, scaled.mean, self._n_blocks, self._work)
        if self.bounded:
            return self._evaluate_bounded(scaled, smoothness)
        self._evaluate(_kappa(smoothness))
        return kernels.expand(self._n_blocks, scaled.mean, scaled.scale, self._work)

    def _evaluate(self, kappa: float) -> None:
        """Find the blocks of the unbounded prox of the loaded vector, from the last ones."""
        self._n_blocks, passes = kernels.find_blocks(
            kappa, self._n_blocks, self._n_isotonic, self._work
        )
        self.n_passes += passes
        self.n_evaluations += 1

    def _evaluate_bounded(self, scaled: _Scaled, smoothness: float) -> Vector:
        """Bounded prox, by Newton's method on h(θ) = θ / rms(g(θ)) = 1 between brackets.

        With scale s, ẑ = s z and θ = s (1 + μ), the minimiser is g/θ, where g(θ) = prox(ẑ, c s/θ)
        has rms θ. While the blocks stay, h is concave, and linear without smoothness.
        """
        # rms(g) never exceeds the largest entry, so neither does the root.
        low, high = 0.0, 2.0 * max(scaled.scale, scaled.peak)
        theta = min(scaled.scale / self._shrinkage, 0.5 * high)
        if self._n_blocks == 0:
            theta = self._guess(scaled, smoothness)
        before: _Evaluation | None = None
        for _ in range(_MAX_ROOT_STEPS):
            self._shrinkage = scaled.scale / theta
            kappa = _kappa(smoothness * self._shrinkage)
            self._evaluate(kappa)
            rms = self._rms(scaled)
            low, high = (theta, high) if rms > theta else (low, theta)
            # Rounding in g is relative to the largest entry of z, however small g has become.
            tol = max(_ROOT_TOL * rms, 4.0 * np.finfo(float).eps * scaled.peak)
            inside = theta == scaled.scale and rms <= theta
            if inside or abs(rms - theta) <= tol or high - low <= _ROOT_TOL * high:
                divisor = theta if inside else max(rms, theta)
                return kernels.expand(self._n_blocks, scaled.mean, divisor, self._work)
            if rms == 0.0:  # one block of mean 0, as at every smaller θ: the ball does not matter
                theta = scaled.scale
                continue
            before = self._slope(theta, rms, kappa, scaled, before)
            theta = max(theta - (before.h - 1.0) / before.slope, scaled.scale)
            if not low < theta < high:
                theta = float(np.sqrt(low * high))
        raise ArithmeticError(
            f"the multiplier of the ball was not found in {_MAX_ROOT_STEPS} steps (the last mean "
            f"square was {(rms / theta) ** 2:.17g}); please report this input."
        )

    def _guess(self, scaled: _Scaled, smoothness: float) -> float:
        """First θ of a cold start, from a few passes that need not find the right blocks.

        They bring those that do close to the right multiplier.
        """
        self._n_blocks = self._n_isotonic = kernels.pool_isotonic(self._work)
        kernels.load_isotonic(self._n_isotonic, self._work)
        theta = max(self._rms(scaled), scaled.scale)
        for _ in range(_GUESS_STEPS if theta > scaled.scale else 0):
            kappa = _kappa(smoothness * (scaled.scale / theta))
            self._n_blocks = kernels.pass_once(kappa, self._n_blocks, self._work)
            self.n_passes += 1
            excess = self._rms(scaled) - theta
            step = excess / self._shrinkage_of_norm(kappa, scaled)
            theta, last = max(theta + step, scaled.scale), theta
            if abs(theta - last) <= _GUESS_TOL * theta:
                break
        self._n_blocks = 0  # a poor start for the passes to come; the isotonic blocks are not
        return theta

    def _slope(self, theta, rms, kappa, scaled, before: _Evaluation | None) -> _Evaluation:
        """Value and derivative of h at θ.

        After a short step the values and the last derivative give it; otherwise it takes one more solve.
        """
        h = theta / rms
        if before is None or abs(theta - before.theta) > _SHORT_STEP * theta:
            slope, exact = self._shrinkage_of_norm(kappa, scaled) / rms, True
        else:
            slope, exact = (h - before.h) / (theta - before.theta), False
            if before.exact:  # the parabola through both values and that derivative
                slope = 2.0 * slope - before.slope
        return _Evaluation(theta, h, slope, exact)

    def _rms(self, scaled: _Scaled) -> float:
        """Root mean square of the blocks' values."""
        return float(np.sqrt(kernels.mean_square(self._n_blocks, scaled.mean, self._work)))

    def _shrinkage_of_norm(self, kappa: float, scaled: _Scaled) -> float:
        return kernels.shrinkage_of_norm(kappa, self._n_blocks, scaled.mean, self._work)


class _Evaluation(NamedTuple):
    """A point of h(θ) = θ / rms(g(θ)), with its derivative."""

    theta: float
    h: float
    slope: float
    exact: bool  # whether the derivative is


class _Scaled(NamedTuple):
    """A vector times a power of two; that power; the product's largest size and mean."""

    z: Vector
    scale: float
    peak: float
    mean: float


def _prepare(z: ArrayLike) -> _Scaled:
    """Check the vector and scale its largest entry to about 1."""
    z = np.asarray(z, dtype=np.float64)
    if z.ndim != 1 or z.size == 0:
        raise ValueError(
            f"z must be a vector with at least one value, but has shape {z.shape}; "
            "give one row at a time."
        )
    smallest, largest = float(z.min()), float(z.max())
    peak = max(largest, -smallest)
    if not (np.isfinite(smallest) and np.isfinite(largest)):
        n_bad = np.count_nonzero(~np.isfinite(z))
        raise ValueError(
            f"z must be finite, but {n_bad} of its {z.size} values are NaN or infinite; "
            "remove or impute them."
        )
    exponent = int(np.frexp(peak)[1])
    # Short of the ends of the exponent's range, so that the scale and its inverse are exact.
    scale = 2.0 ** -min(max(exponent, -1000), 1000)
    scaled = z * scale
    return _Scaled(scaled, scale, peak * scale, float(scaled.mean()))


def _check_smoothness(smoothness: float) -> float:
    if not isinstance(smoothness, Real) or not 0.0 <= smoothness < np.inf:
        raise ValueError(
            f"smoothness must be a finite number ≥ 0, but is {smoothness!r}; "
            "0 leaves the isotonic projection."
        )
    return float(smoothness)


def _kappa(smoothness: float) -> float:
    return min(2.0 * smoothness, _LARGEST_KAPPA)


def _rms(x: Vector) -> float:
    return float(np.sqrt(np.mean(x * x)))


def _into_ball(scaled: _Scaled) -> Vector:
    """Undo the scale, or leave the vector on the sphere when it would end up outside the ball."""
    return scaled.z / max(scaled.scale, _rms(scaled.z))
