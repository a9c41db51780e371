"""Fitting, step by step: settings, labels as the loss wants them, ranks, problem, start, folds, rounds, result.

:func:`pose` makes a problem and a start of ranked samples, :func:`solve` the fits: the only way into them, for
the estimators' `fit`, selection, comparison and Dask. Nothing here knows which estimator it works for, but for
the names of its parameters.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.base import is_classifier
from sklearn.exceptions import ConvergenceWarning
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
from suquan.crossfit import crossfit_splits
from suquan.losses import (
    CLASSIFICATION_LOSSES,
    REGRESSION_LOSSES,
    Loss,
    Units,
    make_loss,
    standardise,
)
from suquan.matrix_model import MatrixProblem
from suquan.methods import Method, resolve_method
from suquan.objective import Fit, JointProblem, Splits
from suquan.ranking import (
    MISSING,
    TIES,
    SampleOperator,
    deviations,
    mean_and_variance,
    training_ranks,
)
from suquan.rounds import Candidate, Steps, fit
from suquan.solvers._products import one_blas_thread
from suquan.target_sets import find_target_set
from suquan.targets import LEARNED, learn_target, make_target_quantiles, read_at_grid

# Default penalties in units of the number of features; see docs/design/default_strengths.md.
ALPHA_PER_FEATURE = 3e-4
SMOOTHNESS_PER_FEATURE = 1e-4
# Default alpha of methods with several targets: per root of the number of features for the trace norm, which is
# no square, and per feature for the Frobenius norm.
ALPHA_TRACE, ALPHA_FROBENIUS = 1e-2, 3e-3
# Default alpha of models with an l1 penalty, whose useful range does not grow with the features.
ALPHA_L1 = 1e-2
# Integers (counts, pixels) are ranked as they are: a copy in float64 would be the largest array of a fit.
# NaN is left to the missing rule; infinities are refused.
CHECKS: dict[str, Any] = {"dtype": RANKED_DTYPES, "ensure_all_finite": "allow-nan"}
# Ranges of parameters.
_INTERVALS = {
    "alpha": "(0, ∞)", "smoothness": "[0, ∞)", "l1_ratio": "[0, 1]", "tol": "(0, ∞)",
    "departure": "[0, 1]", "huber_delta": "(0, ∞)",
}  # fmt: skip
# Relative gap of the two largest singular values below which their vectors are not stable.
_UNSTABLE_GAP = 0.01


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
    names = CLASSIFICATION_LOSSES if has_classes else REGRESSION_LOSSES
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


# -- problem and start ------------------------------------------------------------------------------


def rank(settings: Settings, X: np.ndarray, feature_names: Any = None) -> SampleOperator:
    """Ranks of the samples; `feature_names` are for the message about a missing value."""
    return SampleOperator.from_samples(
        X, ties=settings.ties, missing=settings.missing, feature_names=feature_names
    )


def make_problem(
    settings: Settings, operator: Any, loss: Loss, y: np.ndarray, weights: np.ndarray
) -> Any:
    """Problem of ranked samples, all of positive weight, at the penalties of the settings.

    A :class:`MatrixProblem` for methods with several targets, else a :class:`JointProblem`.
    """
    p, method = operator.n_features, settings.method
    n_knots = method.knots(settings.n_knots, p)
    if settings.alpha is not None:
        alpha = float(settings.alpha)
    elif method.norm == "trace":
        alpha = ALPHA_TRACE * float(np.sqrt(p))
    elif method.norm == "frobenius":
        alpha = ALPHA_FROBENIUS * p
    else:
        alpha = ALPHA_L1 if settings.l1_ratio > 0 else ALPHA_PER_FEATURE * p
    if method.norm:
        return MatrixProblem(
            operator, n_knots, loss, y, weights / weights.sum(), alpha,
            float(settings.smoothness or 0.0), bool(settings.fit_intercept), method.norm,
        )  # fmt: skip
    if not method.is_smooth:
        smoothness = 0.0
    elif settings.smoothness is not None:
        smoothness = float(settings.smoothness)
    else:
        smoothness = SMOOTHNESS_PER_FEATURE * p * loss.smoothness_unit(y, weights)
    return JointProblem(
        operator=operator,
        loss=loss,
        y=y,
        s=weights / weights.sum(),
        alpha=alpha,
        l1_ratio=float(settings.l1_ratio),
        smoothness=smoothness,
        n_knots=n_knots,
        fit_intercept=bool(settings.fit_intercept),
    )


def make_start(
    settings: Settings, n_features: int, n_knots: int, learn: Callable[[str], np.ndarray]
) -> np.ndarray:
    """Starting target on the knots: in the set of the method, of sum 0, mean square 1.

    Parameters
    ----------
    settings : Settings
    n_features, n_knots : int
    learn : callable
        Gives the mean or the median of the training samples, by its name.
    """
    target_set, caught = settings.method.target_set, []
    if isinstance(settings.start, str) and settings.start in LEARNED:
        f = learn(settings.start)
    else:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                f = make_target_quantiles(settings.start, n_features)
            except ValueError as error:
                raise ValueError(
                    f"init: {error} 'median' and 'mean' of the training samples will do too."
                ) from error
    g = standardize_start(f, n_knots)
    inside = g if target_set is None else find_target_set(target_set).at(0.0).make_feasible(g)
    if np.max(np.abs(inside - g)) > 1e-9:
        g = standardize_start(inside, n_knots)
        _warn(
            f"init is not one of the targets that method={settings.method.name!r} learns; it was replaced by "
            "the nearest one."
        )
    else:
        for warning in caught:
            _warn(warning.message)
    return g


def standardize_start(f: np.ndarray, n_knots: int) -> np.ndarray:
    """Target mapped to the knots, of sum 0 and mean square 1."""
    g = read_at_grid(f / max(float(np.max(np.abs(f))), np.finfo(float).tiny), n_knots)
    g = g - g.mean()
    rms = float(np.sqrt(np.mean(g**2)))
    if not rms > 1e-12:
        raise ValueError(
            "init is constant, so that it tells no two features apart; give a target that varies, "
            "such as init='uniform'."
        )
    return g / rms


def scale_operator(operator: Any, f: np.ndarray, weights: np.ndarray) -> Any:
    """Samples with every feature over the standard deviation of its values T_i f; 1 where that is 0."""
    moments = partial(operator.column_moments, weights, f)
    return operator.scaled(1.0 / deviations(moments, float(np.max(np.abs(f)))))


# -- the fit ----------------------------------------------------------------------------------------


def pose(
    settings: Settings, operator: Any, loss: Loss, y: np.ndarray, weights: np.ndarray, units: Units,
    learn: Callable[[str], np.ndarray],
) -> tuple[Any, np.ndarray]:  # fmt: skip
    """Problem of ranked samples, all of positive weight, and the start of its target.

    Parameters
    ----------
    settings : Settings
    operator : SampleOperator
    loss, y : Loss, ndarray of shape (n_samples,)
        In the units `units`.
    weights : ndarray of shape (n_samples,)
    units : Units
    learn : callable
        Gives the mean or the median of the samples, by its name.
    """
    if operator.is_constant:
        _warn(
            "no sample has two different values, so there is nothing to rank: the model is its "
            "intercept alone.",
            stacklevel=5,
        )
    problem = make_problem(settings.in_units(units), operator, loss, y, weights)
    g = make_start(settings, operator.n_features, problem.n_knots, learn)
    if settings.feature_scaling == "std":
        f = read_at_grid(g, operator.n_features)
        problem = replace(problem, operator=scale_operator(operator, f, problem.s))
    return problem, g


def solve(
    settings: Settings, problem: Any, g: np.ndarray, candidates: Sequence[Candidate],
    splits: Splits | None, units: Units,
) -> list[tuple[np.ndarray, Fit]]:  # fmt: skip
    """Targets, one value per feature, and fits of the problem at all candidates.

    Penalties of the candidates are in the units of the problem. Coefficients are for the values of the samples,
    and with the intercepts and objectives in the units of the user's labels.
    """
    with one_blas_thread():
        fits = fit(problem, g, candidates, settings.steps(units), splits)
    return [(problem.expand(found.g), _in_units_of_labels(found, problem, units)) for found in fits]


def _in_units_of_labels(found: Fit, problem: Any, units: Units) -> Fit:
    scale, square = units.scale, units.square
    return replace(
        found,
        w=scale * problem.operator.unscale(found.w),
        b=units.centre + scale * found.b,
        objective=square * found.objective,
        singular_values=None if found.singular_values is None else scale * found.singular_values,
        history=[square * value for value in found.history],
        gap=None if found.gap is None else square * found.gap,
    )


def fit_samples(estimator: Any, X: Any, y: Any, sample_weight: Any, groups: Any) -> None:
    """Fit an estimator to samples in memory and set its attributes."""
    settings = Settings.of(estimator)
    samples = encode(estimator, settings, X, y, sample_weight)
    check_method(settings, samples)
    names = getattr(estimator, "feature_names_in_", None)
    loss, classes, units = samples.loss, samples.classes, samples.units
    splits = crossfit_splits(settings, loss, samples.y, groups, samples.used)
    used = slice(None) if np.all(samples.used) else samples.used
    X, y = samples.X[used], samples.y[used]
    weights = fit_weights(settings, samples.weights, samples.labels)[used]
    operator = rank(settings, X, names)
    learn = partial(learn_target, X, operator=operator, sample_weight=weights)
    problem, g = pose(settings, operator, loss, y, weights, units, learn)
    del X, learn, samples  # a copy that validation made is not needed any more
    finish(estimator, settings, problem, g, splits, classes, units)


def finish(
    estimator: Any, settings: Settings, problem: Any, g: np.ndarray, splits: Splits | None,
    classes: np.ndarray | None, units: Units,
) -> None:  # fmt: skip
    """Solve a posed problem at the estimator's own setting and set its attributes."""
    f, fit = solve(settings, problem, g, [settings.candidate(problem)], splits, units)[0]
    _warn_about(fit, settings)
    if classes is not None:
        estimator.classes_ = classes
    estimator.target_knots_, estimator.target_quantiles_ = fit.g, f
    if fit.singular_values is not None:
        estimator.singular_values_ = fit.singular_values
    if settings.method.norm:
        estimator.n_targets_, estimator.duality_gap_ = len(fit.g), fit.gap
        estimator.target_quantiles_ = f[: fit.n_shown]
    estimator.coef_, estimator.intercept_ = fit.w, fit.b
    estimator.feature_means_, estimator.feature_variances_ = feature_moments(
        problem.operator, problem.s, f, fit.w
    )
    estimator.alpha_ = float(settings.alpha or problem.alpha * settings.penalty_units(units)[0])
    smoothness = settings.smoothness or problem.smoothness * units.square
    estimator.smoothness_ = float(problem.smoothness and smoothness)
    estimator.objective_, estimator.objective_history_ = fit.objective, np.array(fit.history)
    estimator.n_rounds_, estimator.n_iter_ = fit.n_rounds, fit.n_iter
    estimator.training_ranks_ = training_ranks(problem.operator)


def _warn_about(fit: Fit, settings: Settings) -> None:
    if settings.method.is_spectral and fit.singular_values is not None:
        first, second = (*fit.singular_values, 0.0)[:2]
        if not first - second >= _UNSTABLE_GAP * first or first == 0:
            _warn(
                f"the two largest singular values are {first:.6g} and {second:.6g}: so close that the "
                "target found by method='svd' is not stable. Use more samples or another method."
            )
    if fit.collapsed:
        _warn(
            "the best target at these penalties is zero; the last one that was not is kept. "
            "Lower alpha or smoothness."
        )
    if fit.runaway is not None:
        _warn(
            f"the f-step led to a target of root mean square {fit.runaway:.1e}, at which the w-step "
            "fails; that round was not taken. Raise smoothness.",
            ConvergenceWarning,
        )
    if fit.unfinished:
        _warn(
            f"no convergence: {fit.unfinished[0]} after {_limits(settings)}.",
            ConvergenceWarning,
        )


def _limits(settings: Settings) -> str:
    """What may have ended a fit too early, and what helps."""
    if settings.method.norm == "trace":
        rounds = settings.method.rounds(settings.max_rounds)
        return f"at most max_rounds = {rounds} rounds. Raise max_rounds or tol"
    return f"at most max_iter = {settings.max_iter} iterations. Raise max_iter or tol"


def _warn(message: Any, category: type[Warning] = UserWarning, stacklevel: int = 6) -> None:
    """Warn on behalf of the caller of a `fit`."""
    warnings.warn(message, category, stacklevel=stacklevel)


# -- using a fitted model ---------------------------------------------------------------------------


def feature_moments(
    operator: Any, weights: np.ndarray, f: np.ndarray, w: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Weighted mean and variance of every feature over the normalised samples that have it; 0 where none has.

    With several targets, the rows of f, of what it adds to each score, of shape (n_outputs, n_features).
    """
    return mean_and_variance(partial(operator.column_moments, weights, f, W=w))


def decision_values(u: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """Scores u of shape (n_samples, n_outputs) as scikit-learn wants them: one per sample for two classes."""
    if u.shape[1] == 1:
        return u[:, 0]
    return u[:, 1] - u[:, 0] if len(classes) == 2 else u


def predicted_classes(u: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """Class of each sample with the scores u of shape (n_samples, n_outputs)."""
    chosen = (u[:, 0] > 0).astype(np.intp) if u.shape[1] == 1 else np.argmax(u, axis=1)
    return classes[chosen]
