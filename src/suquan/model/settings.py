"""What a fit starts from: parameters of an estimator in their ranges, and samples as the loss wants them.

Estimators, selection, comparison and Dask call :meth:`Settings.of`, :func:`encode` and :func:`check_method`,
and hand both results on to :mod:`suquan.model.prepare`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from functools import partial
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.base import is_classifier
from sklearn.utils import check_consistent_length, compute_sample_weight
from sklearn.utils.multiclass import check_classification_targets

from suquan._validation import (
    RANKED_DTYPES,
    check_choice,
    check_integer,
    check_real,
    check_sample_weight,
    validate_data,
)
from suquan.losses import Loss, loss_names, make_loss
from suquan.methods import Method, resolve_method
from suquan.model.labels import Units, standardise
from suquan.model.rounds import Candidate, Steps
from suquan.ranking import MISSING, TIES

# Integers (counts, pixels) are ranked as they are: a copy in float64 would be the largest array of a fit.
# NaN is left to the missing rule; infinities are refused.
CHECKS: dict[str, Any] = {"dtype": RANKED_DTYPES, "ensure_all_finite": "allow-nan"}
# Ranges of parameters.
_INTERVALS = {
    "alpha": "(0, ∞)", "smoothness": "[0, ∞)", "l1_ratio": "[0, 1]", "tol": "(0, ∞)",
    "departure": "[0, 1]", "huber_delta": "(0, ∞)",
}  # fmt: skip

# -- settings ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Settings:
    """Parameters of an estimator, each in its range; see :class:`suquan.SuquanClassifier`.

    Attributes
    ----------
    owner : str
        Name of the estimator's class, for its reports.
    method : Method
    l1_ratio, init, max_rounds, n_knots, cv, n_repeats, ties, missing, fit_intercept, tol, max_iter
        As in the estimator; so are the others.
    """

    owner: str
    method: Method
    loss: Any
    l1_ratio: float
    init: Any
    max_rounds: int | None
    n_knots: int | str | None
    cv: Any
    n_repeats: int
    ties: str
    missing: str
    fit_intercept: bool
    tol: float
    max_iter: int
    random_state: Any
    verbose: int
    alpha: float | None = None
    smoothness: float | None = None
    departure: float = 1.0
    huber_delta: float = 1.35
    class_weight: Any = None
    n_targets: int | None = None
    feature_scaling: str = "none"

    @classmethod
    def of(cls, estimator: Any) -> Settings:
        """Parameters of an estimator; one clear error for each out of its range."""
        names = [field.name for field in fields(cls) if hasattr(estimator, field.name)]
        own = {name: getattr(estimator, name) for name in names}
        own["method"] = resolve_method(own["method"])
        has_intercept = getattr(own["loss"], "has_intercept", True)
        own["fit_intercept"] = own.get("fit_intercept", True) and has_intercept
        settings = cls(owner=type(estimator).__name__, **own)
        _check_ranges(settings)
        return settings

    def with_method(self, method: Method) -> Settings:
        """The same for another method; a number of targets is kept where it means something."""
        n_targets = self.n_targets if method.norm == "trace" else None
        return replace(self, method=method, n_targets=n_targets)

    def penalty_units(self, units: Units) -> tuple[float, float]:
        """Units of alpha (the scale of the labels for an l1 or a trace norm) and of the smoothness."""
        norm = self.method.norm
        ratio = float(norm == "trace") if norm else self.l1_ratio
        of_alpha = units.scale / (units.scale * (1.0 - ratio) + ratio)
        return of_alpha, 1.0 if norm else max(units.square, float(np.finfo(float).tiny))

    def in_units(self, units: Units) -> Settings:
        """The same with the penalties of a fit to labels in these units."""
        of_alpha, of_smoothness = self.penalty_units(units)
        alpha = self.alpha and self.alpha / of_alpha
        smoothness = self.smoothness and min(self.smoothness / of_smoothness, 1e100)
        l1_ratio = self.l1_ratio / (units.scale * (1.0 - self.l1_ratio) + self.l1_ratio)
        return replace(self, alpha=alpha, smoothness=smoothness, l1_ratio=l1_ratio)

    @property
    def start(self) -> Any:
        """Where rounds start: the method's own start, or `init`."""
        return self.init if self.method.start is None else self.method.start

    def steps(self, units: Units) -> Steps:
        """How steps are done for labels in these units."""
        steps = Steps(self.tol, self.max_iter, unit=units.square)
        return replace(steps, report=partial(print, f"[{self.owner}]")) if self.verbose else steps

    def candidate(self, problem: Any) -> Candidate:
        """The one setting of these parameters, with the penalties of a problem that was made of them."""
        rounds = self.method.rounds(self.max_rounds) if self.departure or self.method.norm else 0
        own = problem.alpha, problem.smoothness, rounds, self.n_targets, float(self.departure)
        return Candidate(self.method, *own)


def _check_ranges(settings: Settings) -> None:
    check_choice("ties", settings.ties, TIES)
    check_choice("missing", settings.missing, MISSING)
    check_choice("feature_scaling", settings.feature_scaling, ("none", "std"))
    for name, interval in _INTERVALS.items():
        check_real(name, getattr(settings, name), interval, name in ("alpha", "smoothness"))
    check_integer("max_iter", settings.max_iter, 1)
    check_integer("n_repeats", settings.n_repeats, 1)
    if settings.max_rounds is not None:
        check_integer("max_rounds", settings.max_rounds, 1)
    if isinstance(settings.cv, Integral):
        check_integer("cv", settings.cv, 2)
    if settings.n_knots is not None and settings.n_knots != "auto":
        check_integer("n_knots, if not 'auto' or None,", settings.n_knots, 2)


# -- samples and labels -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Samples:
    """Validated training samples.

    Attributes
    ----------
    X : ndarray of shape (n_samples, n_features)
    labels : ndarray of shape (n_samples,)
        As the user gave them.
    y : ndarray of shape (n_samples,)
        As the loss wants them.
    weights : ndarray of shape (n_samples,)
        As the user gave them; ones for None.
    used : ndarray of shape (n_samples,), bool
        Samples that count: neither their weight nor that of their class is 0.
    loss : Loss
    classes : ndarray of shape (n_classes,) or None
    units : Units
        Of `y` and of `loss`.
    """

    X: Any
    labels: np.ndarray
    y: np.ndarray
    weights: np.ndarray
    used: np.ndarray
    loss: Loss
    classes: np.ndarray | None
    units: Units = field(default=Units(), kw_only=True)


def forget(estimator: Any) -> None:
    """Delete what an earlier fit has left: all attributes whose names end in an underscore."""
    for name in [name for name in vars(estimator) if name.endswith("_") and name[0] != "_"]:
        delattr(estimator, name)


def encode(estimator: Any, settings: Settings, X: Any, y: Any, sample_weight: Any) -> Samples:
    """Samples and labels, validated on behalf of the estimator."""
    has_classes = is_classifier(estimator)
    if getattr(getattr(y, "dtype", None), "names", None):  # fields that the loss reads
        X, labels = validate_data(estimator, X, **CHECKS), y
        check_consistent_length(X, labels)
    else:
        X, labels = validate_data(estimator, X, y, y_numeric=not has_classes, **CHECKS)
    if has_classes:
        check_classification_targets(labels)
    weights = check_sample_weight(sample_weight, X)
    weights = np.ones(X.shape[0]) if weights is None else weights
    if not weights.sum() > 0:
        raise ValueError(
            "sample_weight is 0 for every sample; give at least one a positive weight."
        )
    used = fit_weights(settings, weights, labels) > 0.0
    n_classes = len(np.unique(labels[used])) if has_classes else None
    loss = task_loss(settings.loss, has_classes, n_classes, settings.huber_delta)
    loss, y, classes = loss.encode(labels, used)
    loss, y, units = standardise(loss, y, np.where(used, weights, 0.0), settings.fit_intercept)
    return Samples(X, labels, y, weights, used, loss, classes, units=units)


def task_loss(loss: Any, has_classes: bool, n_classes: int | None, huber_delta: float) -> Loss:
    """Loss by its name, or the given object; a ValueError where it is one of the other task."""
    names = loss_names(of_classes=has_classes)
    if isinstance(loss, str):
        check_choice("loss", loss, names)
    made = make_loss(loss, n_classes, huber_delta=huber_delta)
    if made.is_classification != has_classes:
        task = "classes" if has_classes else "values"
        raise ValueError(
            f"loss {made.name!r} is not for labels that are {task}; choose one of "
            f"{', '.join(map(repr, names))}."
        )
    return made


def fit_weights(settings: Settings, weights: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Weights in a fit to samples with these labels: their own times those of their classes among them."""
    if settings.class_weight is None:
        return weights
    used = weights > 0.0
    weights = weights.copy()
    weights[used] *= compute_sample_weight(settings.class_weight, labels[used])
    return weights


def check_method(settings: Settings, samples: Samples) -> None:
    """Raise a ValueError where the parameters do not fit the samples or the labels."""
    n_features = samples.X.shape[1]
    if n_features < 2:
        raise ValueError(
            "quantile normalisation needs at least two features to rank; got n_features = 1."
        )
    _check_targets(settings, n_features)
    name, loss = settings.method.name, samples.loss
    other = "Choose another method, such as 'crossfit'."
    if not settings.method.is_spectral or (loss.is_classification and loss.n_outputs == 1):
        return
    if samples.classes is None:
        raise ValueError(f"method={name!r} is for classification with two classes. {other}")
    if len(samples.classes) == 2:
        raise ValueError(
            f"method={name!r} needs a loss with one score per sample; {loss.name!r} has "
            f"{loss.n_outputs}. Choose loss='logistic'."
        )
    raise ValueError(
        "Only binary classification is supported. The type of the target is multiclass: "
        f"method={name!r} is for two classes; got {len(samples.classes)}. {other}"
    )


def _check_targets(settings: Settings, n_features: int) -> None:
    """Raise a ValueError where the number of targets, or l1_ratio, does not fit the method."""
    method = settings.method
    if method.norm and settings.l1_ratio > 0:
        raise ValueError(
            f"l1_ratio = {settings.l1_ratio!r} is not offered for method={method.name!r}, whose penalty is a "
            "norm of a matrix. Use l1_ratio=0."
        )
    if settings.n_targets is None:
        return
    if method.norm != "trace":
        raise ValueError(
            f"n_targets = {settings.n_targets!r} is for method='multi'; method={method.name!r} sets the number "
            "of its targets itself. Leave n_targets=None."
        )
    n_knots = method.knots(settings.n_knots, n_features)
    is_integer = isinstance(settings.n_targets, Integral) and not isinstance(
        settings.n_targets, bool
    )
    if not is_integer or not 1 <= settings.n_targets <= n_knots - 1:
        raise ValueError(
            f"n_targets must be None or an integer between 1 and n_knots − 1 = {n_knots - 1}; got "
            f"{settings.n_targets!r}."
        )
