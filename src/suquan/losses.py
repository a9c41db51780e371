"""Losses of scores: all that solvers, estimators and Dask ask of a loss is one class here.

A loss works on the whole vector of scores with the samples' weights,

    L(u) = Σ_i s_i ℓ(y_i, u_i),

so that a loss that is no sum over samples fits in too. ``y`` holds encoded labels, one row per sample, and
``u`` the scores, of shape (n_samples,). Several outputs make it (n_samples, n_outputs), or that array
flattened: the outputs of a sample lie side by side. Gradients have the shape of u. :class:`Loss` is the
protocol: an object of a class that follows it can be given to the estimators as ``loss=``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import expit, log_softmax, logit, softmax, xlog1py, xlogy

__all__ = [
    "Curvature",
    "DiagonalCurvature",
    "Huber",
    "Logistic",
    "Loss",
    "Poisson",
    "Softmax",
    "SoftmaxCurvature",
    "Squared",
]

Array = NDArray[Any]

# Log-odds given to a class or a count that is absent: its loss is 1e-22, and the exponentials stay finite.
_RAREST = 1e-22
# How far rounding may carry a dual point beyond the domain of the conjugate.
_ROUNDING = 1e-9


class Curvature(Protocol):
    """Hessian H of a weighted loss in its n_scores scores, positive semidefinite.

    Vectors x have shape (n_scores,) or (n_scores, n_columns), the outputs of a sample side by side. Products
    have the type of x.
    """

    def product(self, x: Array) -> Array:
        """H x."""

    def diagonal(self) -> Array:
        """Diagonal of H, of shape (n_scores,)."""


@runtime_checkable
class Loss(Protocol):
    """What the package asks of a loss; all methods are pure functions of their arguments.

    Attributes
    ----------
    name : str
        What messages and model files call it.
    is_classification : bool
        Whether labels are classes.
    is_quadratic : bool
        Whether the curvature is the same at all scores, so that Newton's model is exact.
    couples_samples : bool
        Whether the curvature has entries between samples, so that blocks of them cannot be added up. Such a
        loss also has ``separate(y, parts)``: labels of samples that are to be compared within the parts only.

    Two more are optional: ``has_intercept``, False where shifts of all scores change nothing, so that no
    intercept is fitted; and ``fold_classes(y, n_folds)``, classes of which every fold gets its share.
    """

    name: str
    is_classification: bool
    is_quadratic: bool
    couples_samples: bool

    @property
    def n_outputs(self) -> int:
        """Scores per sample."""

    def encode(self, labels: Array, used: Array) -> tuple[Loss, Array, Array | None]:
        """The loss for these labels, the labels as it wants them, and the classes (None for values).

        `used` is the mask of the samples that count.
        """

    def value(self, y: Array, u: Array, s: Array) -> float:
        """L(u) ≥ 0."""

    def gradient(self, y: Array, u: Array, s: Array) -> Array:
        """∂L/∂u, of the shape of u."""

    def hessian(self, y: Array, u: Array, s: Array) -> Curvature:
        """∂²L/∂u²."""

    def conjugate(self, y: Array, a: Array, s: Array) -> float:
        """sup over u of a·u − L(u), infinite outside its domain."""

    def scores_of_dual(self, y: Array, a: Array, s: Array) -> Array:
        """Scores u with ∂L/∂u = a, up to shifts that the loss ignores."""

    def best_constant(self, y: Array, s: Array) -> Array:
        """Scores of the best model without features, of shape (n_outputs,)."""

    def smoothness_unit(self, y: Array, s: Array) -> float:
        """What useful strengths of the smoothness penalty grow with."""

    def mean(self, u: Array) -> Array:
        """Predictions at the scores: values, or probabilities of shape (n_samples, n_classes)."""


# -- curvatures -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class DiagonalCurvature:
    """H = diag(d), of losses with one score per sample."""

    d: Array

    def product(self, x: Array) -> Array:
        """D x."""
        return _rows(self.d, x) * x

    def diagonal(self) -> Array:
        """The vector d."""
        return self.d


@dataclass(frozen=True)
class SoftmaxCurvature:
    """H = s_i (diag(π_i) − π_i π_iᵀ) for every sample i, with π and s."""

    probabilities: Array
    s: Array

    def product(self, x: Array) -> Array:
        """H x."""
        p = self.probabilities[:, :, None].astype(x.dtype, copy=False)
        rows = x.reshape(*self.probabilities.shape, -1)
        weighted = p * self.s[:, None, None].astype(x.dtype, copy=False)
        return (weighted * (rows - np.sum(p * rows, axis=1, keepdims=True))).reshape(x.shape)

    def diagonal(self) -> Array:
        """s π (1 − π)."""
        p = self.probabilities
        return (self.s[:, None] * p * (1.0 - p)).ravel()


def _rows(d: Array, x: Array) -> Array:
    """d in the type of x, to multiply its rows."""
    d = d.astype(x.dtype, copy=False)
    return d[:, None] if x.ndim == 2 else d


# -- classes ----------------------------------------------------------------------------------------


class _OfClasses:
    """What losses of class labels share."""

    is_classification = True
    is_quadratic = couples_samples = False

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

    def conjugate(self, y, a, s):
        """Σ s [q log q + (1 − q) log(1 − q)] with q = −y a / s in [0, 1]."""
        q = _share(-y * a, s)
        if _is_outside(q):
            return np.inf
        q = np.clip(q, 0.0, 1.0)
        return float(s @ (xlogy(q, q) + xlog1py(1.0 - q, -q)))

    def scores_of_dual(self, y, a, s):
        """−y log(q / (1 − q)) with q = −y a / s."""
        return -y * logit(np.clip(_share(-y * a, s), 1e-300, 1.0 - 1e-16))

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

    def _dual_probabilities(self, y, a, s):
        """a / s + e_y."""
        q = self._of_samples(a) / np.where(s > 0.0, s, 1.0)[:, None]
        q[np.arange(len(y)), y] += 1.0
        return q

    def conjugate(self, y, a, s):
        """Σ s Σ_k q_k log q_k with q = a / s + e_y on the simplex."""
        q = self._dual_probabilities(y, a, s)
        q = q[s > 0.0]
        if _is_outside(q) or np.any(np.abs(q.sum(axis=1) - 1.0) > _ROUNDING):
            return np.inf
        q = np.clip(q, 0.0, 1.0)
        return float(s[s > 0.0] @ xlogy(q, q).sum(axis=1))

    def scores_of_dual(self, y, a, s):
        """The logarithms of q."""
        q = np.maximum(self._dual_probabilities(y, a, s), 1e-300)
        return np.log(q).reshape(np.shape(a))

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


class _OfValues:
    """What losses of values share: one score per sample, which is the prediction unless there is a link."""

    n_outputs = 1
    is_classification = is_quadratic = couples_samples = False

    def encode(self, labels, used):
        """Labels as floats."""
        return self, np.asarray(labels, dtype=np.float64), None

    def smoothness_unit(self, y, s):
        """Mean loss of the best constant: the variance of y for the squared loss."""
        constant = np.broadcast_to(self.best_constant(y, s), len(y))  # type: ignore[attr-defined]
        return self.value(y, constant, s) / s.sum()  # type: ignore[attr-defined]

    def mean(self, u):
        """The scores, shape (n_samples,)."""
        return np.ravel(u)


@dataclass(frozen=True)
class Squared(_OfValues):
    """(y − u)², without a half."""

    name = "squared"
    is_quadratic = True

    def value(self, y, u, s):
        """Σ s (y − u)²."""
        return float(s @ (y - u) ** 2)

    def gradient(self, y, u, s):
        """2 s (u − y)."""
        return 2.0 * s * (u - y)

    def hessian(self, y, u, s):
        """2 s on the diagonal."""
        return DiagonalCurvature(2.0 * np.asarray(s, dtype=np.float64))

    def conjugate(self, y, a, s):
        """Σ a y + a² / (4 s)."""
        return float(a @ y + 0.25 * (a * _share(a, s)).sum())

    def scores_of_dual(self, y, a, s):
        """y + a / (2 s)."""
        return y + 0.5 * _share(a, s)

    def best_constant(self, y, s):
        """Mean of y."""
        return np.array([s @ y / s.sum()])


@dataclass(frozen=True)
class Huber(Squared):
    """`(y − u)²` where `|y − u| ≤ delta`, and `2 delta |y − u| − delta²` beyond."""

    delta: float = 1.35

    name = "huber"
    is_quadratic = False

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

    def conjugate(self, y, a, s):
        """That of the squared loss where `|a| ≤ 2 s delta`."""
        if np.any(np.abs(_share(a, s)) > 2.0 * self.delta * (1.0 + _ROUNDING)):
            return np.inf
        return super().conjugate(y, a, s)

    def best_constant(self, y, s):
        """Root of Σ s clip(b − y), between the smallest and the largest y."""
        low, high = float(np.min(y)), float(np.max(y))
        if low == high:
            return np.array([low])
        tiny = np.finfo(float).tiny
        return np.array([brentq(lambda b: self.gradient(y, b, s).sum(), low, high, xtol=tiny)])


@dataclass(frozen=True)
class Poisson(_OfValues):
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

    def conjugate(self, y, a, s):
        """Σ s [m log m − m − y log y + y] with the mean m = y + a / s ≥ 0."""
        m = y + _share(a, s)
        if np.any(m < -_ROUNDING * (1.0 + y)):
            return np.inf
        m = np.maximum(m, 0.0)
        return float(s @ (xlogy(m, m) - m - xlogy(y, y) + y))

    def scores_of_dual(self, y, a, s):
        """Logarithm of y + a / s."""
        return np.log(np.maximum(y + _share(a, s), 1e-300))

    def best_constant(self, y, s):
        """Logarithm of the mean of y."""
        return np.log(np.maximum([s @ y / s.sum()], _RAREST))

    def mean(self, u):
        """Expected counts exp(u), shape (n_samples,)."""
        return np.exp(np.ravel(u))


def _share(a: Array, s: Array) -> Array:
    """The quotient a / s, 0 where the weight is 0."""
    return np.divide(a, s, out=np.zeros(np.shape(a)), where=s > 0.0)


def _is_outside(q: Array) -> bool:
    """Whether some q lies outside [0, 1] by more than rounding."""
    return bool(np.any(q < -_ROUNDING) or np.any(q > 1.0 + _ROUNDING))


class Units(NamedTuple):
    """Units of labels in a fit, z = (y − centre) / scale, and the scale's square."""

    centre: float = 0.0
    scale: float = 1.0
    square: float = 1.0


def standardise(loss: Loss, y: Array, weights: Array, centred: bool) -> tuple[Loss, Array, Units]:
    """Shift and scale the labels of squared and Huber losses, so that fits to a·y + b follow a and b.

    The labels get the root mean square 1, and the mean 0 if they are `centred`. Other losses stay as they are.
    """
    used = weights > 0.0
    if type(loss) not in (Squared, Huber) or not np.any(y[used]):
        return loss, y, Units()
    s, largest = weights[used] / weights.sum(), float(np.abs(y[used]).max())
    z = y[used] / largest  # squares of y itself may overflow, or vanish
    centre = (float(z[0]) if np.ptp(z) == 0.0 else float(s @ z)) if centred else 0.0
    deviation, tiny = float(np.sqrt(s @ (z - centre) ** 2)), float(np.finfo(float).tiny)
    centre, scale = centre * largest, max(deviation * largest, tiny) if deviation > 0.0 else 1.0
    if isinstance(loss, Huber):
        loss = replace(loss, delta=loss.delta / scale)
    return loss, (np.where(used, y, centre) - centre) / scale, Units(centre, scale, scale * scale)


# -- folds ------------------------------------------------------------------------------------------


def classes_of_folds(loss: Loss, y: Array, n_folds: int) -> Array | None:
    """Classes of which every fold has its share: those of y, what the loss says, or None."""
    if loss.is_classification:
        return y
    find = getattr(loss, "fold_classes", None)
    return None if find is None else find(y, n_folds)


def labels_apart(loss: Any, y: Array, parts: Array) -> Array:
    """Labels of samples whose scores are comparable within the parts only, numbered from 0."""
    return loss.separate(y, parts) if loss.couples_samples else y


# -- by name ----------------------------------------------------------------------------------------

CLASSIFICATION_LOSSES = ("auto", "logistic", "softmax")
REGRESSION_LOSSES = ("squared", "huber", "poisson")


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
        if isinstance(loss, Loss):
            return loss
        raise TypeError(
            "loss must be a name, or an object that follows suquan.losses.Loss; one of class "
            f"{type(loss).__name__} does not."
        )
    if loss == "auto":
        loss = "softmax" if n_classes is not None and n_classes > 2 else "logistic"
    makers: dict[str, Any] = {
        "logistic": Logistic,
        "softmax": lambda: Softmax(n_classes or 0),
        "squared": Squared,
        "huber": lambda: Huber(huber_delta),
        "poisson": Poisson,
    }
    if loss not in makers:
        known = ", ".join(repr(name) for name in ("auto", *makers))
        raise ValueError(f"loss is {loss!r}; choose one of {known}.")
    return makers[loss]()
