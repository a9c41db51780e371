"""Losses of scores: all that solvers, estimators and Dask ask of a loss is one class here.

A loss works on the whole vector of scores with the samples' weights,

    L(u) = Σ_i s_i ℓ(y_i, u_i),

so that a loss that is no sum over samples fits in too. ``y`` holds encoded labels, one row per sample, and
``u`` the scores, of shape (n_samples,). Several outputs make it (n_samples, n_outputs), or that array
flattened: the outputs of a sample lie side by side. Gradients have the shape of u. :class:`Loss` is the
protocol: an object that has at least its `value` and `gradient` can be given to the estimators as ``loss=``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import expit, log_softmax, softmax, xlogy

from suquan._curvature import Curvature, DiagonalCurvature, DifferenceCurvature, SoftmaxCurvature

__all__ = [
    "Curvature",
    "DiagonalCurvature",
    "DifferenceCurvature",
    "Huber",
    "Logistic",
    "Loss",
    "Poisson",
    "Softmax",
    "SoftmaxCurvature",
    "Squared",
]

Array = NDArray[Any]

# Random signs by which the diagonal of a curvature is estimated.
_N_SIGNS = 16
# Log-odds given to a class or a count that is absent: its loss is 1e-22, and the exponentials stay finite.
_RAREST = 1e-22


class Loss(Protocol):
    """What the package asks of a loss; all methods are pure functions of their arguments.

    A loss of one's own needs `value` and `gradient`: :class:`_Default` stands in for what it lacks. A loss that
    is flat or linear somewhere, where the step of Newton's method would have no end, may also have
    ``secant(y, u, s)``, the slope of its gradient between the scores of smallest loss and u.

    Attributes
    ----------
    name : str
        What messages and model files call it.
    is_classification : bool
        Whether labels are classes.
    couples_samples : bool
        Whether the loss is no sum over samples. Such a loss also has ``separate(y, parts)``: labels of samples
        that are to be compared within the parts only; and ``fold_classes(y, n_folds)``, classes of which every
        fold gets its share.
    has_intercept : bool
        False where shifts of all scores change nothing, so that no intercept is fitted.
    """

    name: str
    is_classification: bool
    couples_samples: bool
    has_intercept: bool

    @property
    def n_outputs(self) -> int:
        """Scores per sample."""

    def encode(self, labels: Array, used: Array) -> tuple[Any, Array, Array | None]:
        """Return the loss for these labels, the labels as it wants them, and the classes (None for values).

        `used` is the mask of the samples that count.
        """

    def value(self, y: Array, u: Array, s: Array) -> float:
        """L(u) ≥ 0."""

    def gradient(self, y: Array, u: Array, s: Array) -> Array:
        """∂L/∂u, of the shape of u."""

    def hessian(self, y: Array, u: Array, s: Array) -> Curvature:
        """∂²L/∂u²."""

    def best_constant(self, y: Array, s: Array) -> Array:
        """Scores of the best model without features, of shape (n_outputs,)."""

    def smoothness_unit(self, y: Array, s: Array) -> float:
        """What useful strengths of the smoothness penalty grow with."""

    def mean(self, u: Array) -> Array:
        """Predictions at the scores: values, or probabilities of shape (n_samples, n_classes)."""


# -- what losses share --------------------------------------------------------------------------------


class _Default:
    """All that a loss of values need not say: one score per sample, which is the prediction."""

    name = "the loss"
    n_outputs = 1
    is_classification = couples_samples = False
    has_intercept = True

    def encode(self, labels, used):
        """Labels as floats."""
        return self, np.asarray(labels, dtype=np.float64), None

    def hessian(self, y, u, s):
        """Differences of gradients, with about their diagonal."""

        def gradient(u: Array) -> Array:
            return self.gradient(y, u, s)  # type: ignore[attr-defined]

        u = np.ravel(u).astype(np.float64)
        plain = DifferenceCurvature(gradient, u, u)
        # Without entries between samples H 1 is the diagonal; otherwise random signs cancel the others.
        signs = np.ones((1, len(u)))
        if self.couples_samples:
            signs = np.random.default_rng(0).choice([-1.0, 1.0], (_N_SIGNS, len(u)))
        d = np.mean([z * plain.product(z) for z in signs], axis=0)
        return replace(plain, d=np.maximum(d, 0.0))

    def best_constant(self, y, s):
        """Root of the sum of the gradient, found from the middle of the labels outwards."""
        slope = lambda b: float(np.sum(self.gradient(y, np.full(len(y), b), s)))  # type: ignore[attr-defined]  # noqa: E731
        middle = float(np.median(y[s > 0.0]))
        reach = max(float(np.ptp(y[s > 0.0])), 1.0)
        for _ in range(60):
            low, high = middle - reach, middle + reach
            if slope(low) <= 0.0 <= slope(high):
                return np.array([brentq(slope, low, high, xtol=np.finfo(float).tiny)])
            reach *= 2.0
        raise ValueError(
            f"{self.name} has no smallest value for a constant score; give best_constant."
        )

    def smoothness_unit(self, y, s):
        """Mean loss of the best constant: the variance of y for the squared loss."""
        constant = np.broadcast_to(self.best_constant(y, s), len(y))
        return self.value(y, constant, s) / s.sum()  # type: ignore[attr-defined]

    def mean(self, u):
        """The scores, shape (n_samples,)."""
        return np.ravel(u)


@dataclass(frozen=True)
class _Foreign:
    """A loss of the user's own, completed by the defaults."""

    given: Any

    def __getattr__(self, name: str) -> Any:
        if name == "given" or name.startswith("__"):
            raise AttributeError(name)
        if hasattr(self.given, name):
            return getattr(self.given, name)
        default = getattr(_Default, name)
        return default.__get__(self) if callable(default) else default

    def encode(self, labels, used):
        """As the given loss does, or labels as floats."""
        if not hasattr(self.given, "encode"):
            return _Default.encode(self, labels, used)  # type: ignore[arg-type]
        loss, y, classes = self.given.encode(labels, used)
        return _Foreign(loss), y, classes


# -- classes ----------------------------------------------------------------------------------------


class _OfClasses:
    """What losses of class labels share."""

    is_classification, couples_samples, has_intercept = True, False, True

    def smoothness_unit(self, y, s):
        """One: the loss has no unit."""
        return 1.0


@dataclass(frozen=True)
class Logistic(_OfClasses):
    """log(1 + exp(−y u)) for y ∈ {−1, +1}."""

    name = "logistic"
    n_outputs = 1

    def encode(self, labels, used):
        """Labels ±1 of two classes, the second one positive."""
        classes = _classes(labels, used)
        if len(classes) != 2:
            raise ValueError(
                f"loss='logistic' is for two classes; got {len(classes)}. Choose loss='auto' or 'softmax'."
            )
        return self, np.where(_codes(labels, classes) == 1, 1.0, -1.0), classes

    def value(self, y, u, s):
        """`Σ s [max(−y u, 0) + log(1 + exp(−|u|))]`."""
        return float(s @ (np.log1p(_exp_minus_abs(u)) + np.maximum(-y * u, 0.0)))

    def gradient(self, y, u, s):
        """−s y / (1 + exp(y u))."""
        with np.errstate(over="ignore"):  # 1/∞ is the right limit
            return -y * s / (1.0 + np.exp(np.multiply(y, u, dtype=np.float64)))

    def hessian(self, y, u, s):
        """`s e / (1 + e)²` with `e = exp(−|u|)`, on the diagonal."""
        e = _exp_minus_abs(u)
        return DiagonalCurvature(s * (e / (1.0 + e) ** 2))

    def best_constant(self, y, s):
        """Log-odds of the positive class."""
        positive, negative = np.log(np.maximum([s @ (y > 0), s @ (y <= 0)], _RAREST))
        return np.array([positive - negative])

    def mean(self, u):
        """Probabilities of both classes, shape (n_samples, 2)."""
        return np.column_stack([expit(-np.ravel(u)), expit(np.ravel(u))])


@dataclass(frozen=True)
class Softmax(_OfClasses):
    """−log softmax(u)_y for y ∈ {0, …, n_outputs − 1}; the scores of a sample lie side by side."""

    n_outputs: int = 0

    name = "softmax"

    def encode(self, labels, used):
        """Numbers of the classes."""
        classes = _classes(labels, used)
        return replace(self, n_outputs=len(classes)), _codes(labels, classes), classes

    def _of_samples(self, u):
        return np.reshape(u, (-1, self.n_outputs))

    def value(self, y, u, s):
        """−Σ s log softmax(u)_y."""
        logs = log_softmax(self._of_samples(u), axis=1)
        return -float(s @ np.take_along_axis(logs, y[:, None], axis=1)[:, 0])

    def gradient(self, y, u, s):
        """s (softmax(u) − e_y)."""
        g = softmax(self._of_samples(u), axis=1)
        g[np.arange(len(y)), y] -= 1.0
        g *= s[:, None]
        return g.reshape(np.shape(u))

    def hessian(self, y, u, s):
        """s (diag(π) − π πᵀ) of every sample, π = softmax(u)."""
        return SoftmaxCurvature(softmax(self._of_samples(u), axis=1), s)

    def best_constant(self, y, s):
        """Logarithms of the class frequencies, of sum 0."""
        frequency = np.bincount(y, weights=s, minlength=self.n_outputs)
        b = np.log(np.maximum(frequency, _RAREST))
        return b - b.mean()

    def mean(self, u):
        """Probabilities of the classes, shape (n_samples, n_classes)."""
        return softmax(self._of_samples(u), axis=1)


def _classes(labels: Array, used: Array) -> Array:
    """Classes of the samples that count; at least two."""
    classes = np.unique(labels[used])
    if len(classes) < 2:
        raise ValueError(
            f"samples of at least two classes are needed; got {len(classes)} class: "
            f"{classes.tolist()}."
        )
    return classes


def _codes(labels: Array, classes: Array) -> Array:
    """Number of the class of each label; labels that no sample that counts has are given any class."""
    return np.searchsorted(classes, labels).clip(max=len(classes) - 1)


def _exp_minus_abs(u: Array) -> Array:
    """exp(−|u|), which never overflows."""
    return np.exp(-np.abs(u, dtype=np.float64))


# -- values -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Squared(_Default):
    """(y − u)², without a half."""

    name = "squared"

    def value(self, y, u, s):
        """Σ s (y − u)²."""
        return float(s @ (y - u) ** 2)

    def gradient(self, y, u, s):
        """2 s (u − y)."""
        return 2.0 * s * (u - y)

    def hessian(self, y, u, s):
        """2 s on the diagonal."""
        return DiagonalCurvature(2.0 * np.asarray(s, dtype=np.float64))

    def best_constant(self, y, s):
        """Mean of y."""
        return np.array([s @ y / s.sum()])


@dataclass(frozen=True)
class Huber(Squared):
    """`(y − u)²` where `|y − u| ≤ delta`, and `2 delta |y − u| − delta²` beyond."""

    delta: float = 1.35

    name = "huber"

    def value(self, y, u, s):
        """`Σ s m (2 |r| − m)` with `r = y − u`, `m = min(|r|, delta)`."""
        size = np.abs(y - u)
        clipped = np.minimum(size, self.delta)
        return float(s @ (clipped * (2.0 * size - clipped)))

    def gradient(self, y, u, s):
        """2 s r, with the residual r = u − y cut to ±delta."""
        return 2.0 * s * np.clip(u - y, -self.delta, self.delta)

    def hessian(self, y, u, s):
        """2 s where the residual is at most delta, 0 beyond, on the diagonal."""
        return DiagonalCurvature(2.0 * s * (np.abs(u - y) <= self.delta))

    def secant(self, y, u, s):
        """`2 s delta / |r|` with the residual r, at most 2 s."""
        return 2.0 * s * (self.delta / np.maximum(np.abs(u - y), self.delta))

    def best_constant(self, y, s):
        """Root of Σ s clip(b − y), between the smallest and the largest y."""
        low, high = float(np.min(y)), float(np.max(y))
        if low == high:
            return np.array([low])
        tiny = np.finfo(float).tiny
        return np.array([brentq(lambda b: self.gradient(y, b, s).sum(), low, high, xtol=tiny)])


@dataclass(frozen=True)
class Poisson(_Default):
    """exp(u) − y u + y log y − y for y ≥ 0: half the Poisson deviance, with the log link."""

    name = "poisson"

    def encode(self, labels, used):
        """Labels as floats, none negative."""
        y = np.asarray(labels, dtype=np.float64)
        if np.any(y[used] < 0.0) or not np.any(y[used] > 0.0):
            raise ValueError(
                "loss='poisson' is for counts: y must not be negative, nor all zero; its smallest value is "
                f"{y[used].min():g}. Choose loss='squared'."
            )
        return self, y, None

    def value(self, y, u, s):
        """Σ s [exp(u) − y u + y log y − y]."""
        with np.errstate(over="ignore"):  # an infinite value ends a line search
            return float(s @ (np.exp(u) - y * u + xlogy(y, y) - y))

    def gradient(self, y, u, s):
        """s (exp(u) − y)."""
        return s * (np.exp(u) - y)

    def hessian(self, y, u, s):
        """s exp(u) on the diagonal."""
        return DiagonalCurvature(s * np.exp(u))

    def secant(self, y, u, s):
        """s (exp(u) − y) / (u − log y), 0 where y is."""
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            return s * np.nan_to_num((np.exp(u) - y) / (u - np.log(y)), posinf=0.0)

    def best_constant(self, y, s):
        """Logarithm of the mean of y."""
        return np.log(np.maximum([s @ y / s.sum()], _RAREST))

    def mean(self, u):
        """Expected counts exp(u), shape (n_samples,)."""
        return np.exp(np.ravel(u))


# -- by name ----------------------------------------------------------------------------------------

# Losses by name, the classes' first; a new one is a row here.
LOSSES: dict[str, Any] = {
    "logistic": Logistic,
    "softmax": Softmax,
    "squared": Squared,
    "huber": Huber,
    "poisson": Poisson,
}


def loss_names(*, of_classes: bool) -> tuple[str, ...]:
    """Return the names of the losses of classes, or of values."""
    names = tuple(name for name, kind in LOSSES.items() if kind.is_classification is of_classes)
    return ("auto", *names) if of_classes else names


def make_loss(loss: Any, n_classes: int | None = None, *, huber_delta: float = 1.35) -> Loss:
    """Loss by its name; an object that follows :class:`Loss` is returned as it is.

    Parameters
    ----------
    loss : str or Loss
        "logistic", "softmax", "squared", "huber" or "poisson"; "auto": logistic for two classes, softmax for
        more.
    n_classes : int, default=None
        Number of classes, for "auto" and "softmax".
    huber_delta : float, default=1.35
        Residual from which the Huber loss is linear.

    Returns
    -------
    Loss

    Examples
    --------
    >>> from suquan.losses import make_loss
    >>> make_loss("auto", n_classes=3)
    Softmax(n_outputs=3)
    """
    if not isinstance(loss, str):
        if isinstance(loss, (_OfClasses, _Default, _Foreign)):
            return loss  # type: ignore[return-value]
        if callable(getattr(loss, "value", None)) and callable(getattr(loss, "gradient", None)):
            return _Foreign(loss)
        raise TypeError(
            "loss must be a name, or an object that follows suquan.losses.Loss; one of class "
            f"{type(loss).__name__} does not: it has no value and gradient."
        )
    if loss == "auto":
        loss = "softmax" if n_classes is not None and n_classes > 2 else "logistic"
    if loss not in LOSSES:
        known = ", ".join(repr(name) for name in ("auto", *LOSSES))
        raise ValueError(f"loss is {loss!r}; choose one of {known}.")
    if LOSSES[loss] is Softmax:
        return Softmax(n_classes or 0)
    return Huber(huber_delta) if LOSSES[loss] is Huber else LOSSES[loss]()
