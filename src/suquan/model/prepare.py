"""Fitting, step by step: ranks, problem, start, folds, rounds, and the attributes of an estimator.

:func:`pose` makes a problem and a start of ranked samples, :func:`solve` the fits: the only way into them, for
the estimators' `fit`, selection, comparison and Dask. Nothing here knows which estimator it works for, but for
the names of its parameters.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from suquan.losses import Loss
from suquan.model.crossfit import crossfit_splits
from suquan.model.labels import Units
from suquan.model.problem import Fit, JointProblem, Splits
from suquan.model.rounds import Candidate, fit
from suquan.model.settings import Settings, check_method, encode, fit_weights
from suquan.model.several import MatrixProblem
from suquan.ranking import (
    SampleOperator,
    deviations,
    mean_and_variance,
    training_ranks,
)
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
# Relative gap of the two largest singular values below which their vectors are not stable.
_UNSTABLE_GAP = 0.01


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
