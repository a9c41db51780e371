"""Nested cross-validation of all methods on the same folds, and what it says about learning the target.

Samples, labels and names of methods come in, a :class:`Comparison` goes out. :func:`compare` checks what it is
given and makes a study of it (:mod:`suquan.comparing.study`); its tasks, one method on one outer fold each, run
side by side (:mod:`suquan.comparing.tasks`); their outcomes become tables and a verdict
(:mod:`suquan.comparing.tables`).
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.utils.multiclass import type_of_target

from suquan._blocks import is_dask_array
from suquan._validation import check_choice, check_real, row_names
from suquan.calibration import check_calibration
from suquan.comparing.arms import (  # noqa: F401 — names that figures, reports and the command line import from here
    BEST_FIXED,
    DEFAULT_METHODS,
    FIXED,
    LEARNED,
    METHOD_NAMES,
    START,
    VERDICT_METHOD,
    named_methods,
)
from suquan.comparing.study import Study
from suquan.comparing.tables import Comparison
from suquan.comparing.tasks import Store, run_tasks
from suquan.cox_model import SuquanCox
from suquan.linear_model import SuquanClassifier, SuquanRegressor
from suquan.losses import make_loss
from suquan.methods import Method
from suquan.model.settings import Settings, check_method, encode
from suquan.sample_checks import tell_duplicates, torn_duplicates
from suquan.selection.folds import RankedData, check_groups
from suquan.selection.grids import GRID, SELECTIONS
from suquan.selection.scoring import OutputScorer, default_scoring
from suquan.survival import as_outcome

__all__ = ["Comparison", "compare"]

# Parameters of the estimators that the comparison sets itself.
_CHOSEN_HERE = {"method", "alpha", "smoothness", "departure"}


def compare(
    X: Any,
    y: Any,
    *,
    methods: Sequence[Any] | None = None,
    outer_cv: Any = None,
    inner_cv: Any = None,
    scoring: Any = None,
    alphas: Any = 7,
    smoothnesses: Any = 5,
    selection: str = "smoothed",
    departures: Any = None,
    min_gain: float = 0.5,
    calibration: str | None = "sigmoid",
    groups: Any = None,
    leave_out: Any = None,
    n_jobs: int | None = None,
    random_state: int = 0,
    checkpoint: Any = None,
    progress: bool = True,
    n_permutations: int = 0,
    loss: Any = None,
    strata: Any = None,
    sample_names: Any = None,
    **parameters: Any,
) -> Comparison:
    """Compare methods by nested cross-validation: does learning the target help on these data?

    All methods see the same outer folds; inside each, their penalties are chosen by the same inner folds of
    its training samples alone. Two contrasts are fixed in advance. Does learning help? The learned method,
    "crossfit" or else the only one of `methods`, minus "start", the same method with nothing learned. Is it
    the better choice? The learned method minus "best_fixed", which takes in each outer fold the best of
    "raw", the fixed targets and "start" by the inner folds, if they were compared.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
    y : array-like of shape (n_samples,)
        Classes or values; with scoring="concordance", or as a structured array, times to event, as in
        :class:`SuquanCox`.
    methods : sequence of names, objects or (name, object) pairs, default=None
        "raw" (centred and scaled by one mean and one standard deviation of the training samples), the
        fixed targets "median", "mean", "normal", "uniform", "exponential", "cauchy", the learned ones
        "svd", "f0", "bnd", "spav", "joint", "crossfit", "matrix" and "multi", and "start", which is added.
        "forest" and "forest_raw" are 300 extra trees (at least 2 samples per leaf; not for times to event) on
        the samples normalised to the uniform target, and on the values. An object is a
        :class:`suquan.methods.Method`, a set that follows :class:`suquan.target_sets.TargetSet`, or, with a
        name, any scikit-learn estimator. None: "raw", "median", "uniform", "normal", "crossfit" and forests.
    outer_cv, inner_cv : int, splitter or iterable of splits, default=None
        None: 3 stratified folds, 5 times; an integer: that many, once. Both are shuffled by `random_state`.
        `inner_cv` must not be a list of splits.
    scoring : str or callable, default=None
        Any scikit-learn scorer. None: "roc_auc", "roc_auc_ovr" for more than two classes, "r2" for values, and
        for times to event "concordance", Harrell's, within strata.
    alphas, smoothnesses, selection, departures, min_gain
        As in :class:`SuquanClassifierCV`.
    calibration : {"sigmoid", "isotonic"} or None, default="sigmoid"
        As in :class:`SuquanClassifierCV`, fitted by the inner folds of each outer one; for classes.
    groups : array-like of shape (n_samples,), default=None
        Samples of one group stay together in the folds that None and integers stand for, inner and outer, and
        in those of "crossfit"; splitters get them. A warning says where a fold's test samples share a group
        with its training samples.
    leave_out : array-like of shape (n_samples,), default=None
        Cohorts, laboratories or platforms: each is the test set once, in place of the folds of `outer_cv`.
        There is no verdict then, because its test does not hold for cohorts, but the differences by cohort.
    n_jobs : int, default=None
        Processes. The result does not depend on it.
    random_state : int, default=0
        Seed of all folds.
    checkpoint : path, default=None
        Directory for finished parts. Started again with the same data and settings, the comparison continues
        there; others are refused. Functions, such as scorers, are told apart by their names.
    progress : bool, default=True
        Show progress.
    n_permutations : int, default=0
        Repeat the "crossfit" part this often with permuted labels and folds of these, to see whether there is
        any signal. Groups in which labels are constant exchange them; inside other groups they are shuffled.
    loss : str or Loss, default=None
        Loss of all methods but the user's own estimators, which decides the task: see
        :class:`SuquanClassifier` for classes and :class:`SuquanRegressor` for values. None: classes, or
        values where y holds other than whole numbers.
    strata : array-like of shape (n_samples,), default=None
        Of times to event: samples are compared within a stratum only.
    sample_names : array-like of shape (n_samples,), default=None
        For the warning about samples with the same order on both sides of a fold. None: the row names of a
        pandas data frame, or row numbers.
    **parameters
        Of :class:`SuquanClassifier`, :class:`SuquanRegressor` or :class:`SuquanCox`, for all learned and
        fixed methods: `n_knots`, `ties`, `missing`, …; `n_targets` is for "multi"; `feature_scaling` also for
        "raw".

    Returns
    -------
    Comparison

    Examples
    --------
    >>> from suquan import compare
    >>> from suquan.datasets import make_corrupted_classification
    >>> X, y = make_corrupted_classification(90, 20, random_state=0)
    >>> result = compare(X, y, methods=["normal", "uniform", "crossfit"], outer_cv=3, inner_cv=3,
    ...                  alphas=3, smoothnesses=2, progress=False)
    >>> result.summary["method"].tolist()
    ['normal', 'uniform', 'crossfit', 'start', 'best_fixed']
    """
    if is_dask_array(X):
        raise TypeError(
            "compare works in memory and takes no Dask array. Compare on a sample of the rows, such as "
            "X[::100].compute()."
        )
    check_real("min_gain", min_gain, "[0, ∞)")
    check_choice("selection", selection, SELECTIONS)
    _check_folds(outer_cv, inner_cv, leave_out)
    if scoring == "concordance" or strata is not None or _is_structured(y):
        y = as_outcome(y, strata)
    elif np.ndim(y) == 2 and np.shape(y)[1] == 1:
        y = np.ravel(y)
    y = check_groups("y", y, len(X))
    named = named_methods(methods, is_times=_is_structured(y))
    estimator = _estimator(y, loss, {**parameters, "random_state": random_state})
    settings = Settings.of(estimator)
    samples = encode(estimator, settings, X, y, None)
    _check_methods(named, settings, samples)
    if samples.classes is None:
        calibration = None
    else:
        check_calibration(calibration, len(samples.classes))
    data = RankedData.of(settings, samples, groups)
    scoring = default_scoring(data) if scoring is None else scoring
    cohorts = None if leave_out is None else check_groups("leave_out", leave_out, len(data.y))
    if cohorts is None and data.classes is not None:
        _check_members(data.labels[data.used], outer_cv)
    grid = alphas, smoothnesses, settings.max_rounds, settings.n_targets, departures
    study = Study(
        data=data,
        settings=settings,
        methods=named,
        outer_cv=list(outer_cv) if np.iterable(outer_cv) else outer_cv,  # permutations split again
        inner_cv=inner_cv,
        cohorts=cohorts,
        scorer=OutputScorer.of(estimator, scoring, data),
        grid=dict(zip(GRID, grid, strict=True)),
        selection=selection,
        min_gain=min_gain,
        calibration=calibration,
        seed=random_state,
    ).with_folds()
    pairs = torn_duplicates(data.operator, study.outer)
    if len(pairs):
        names = row_names(X, len(data.y)) if sample_names is None else np.asarray(sample_names)
        warnings.warn(tell_duplicates(pairs, names), UserWarning, stacklevel=2)
    store = Store.open(checkpoint, None if checkpoint is None else study.fingerprint())
    outcomes = run_tasks(study, study.tasks(n_permutations), store, n_jobs, progress)
    return study.result(outcomes, n_permutations)


def _check_folds(outer_cv: Any, inner_cv: Any, leave_out: Any) -> None:
    """Raise a ValueError where the parameters of the folds contradict each other."""
    if leave_out is not None and outer_cv is not None:
        raise ValueError("leave_out takes the place of outer_cv; give one of them.")
    if not (inner_cv is None or isinstance(inner_cv, Integral) or hasattr(inner_cv, "split")):
        raise ValueError(
            "inner_cv splits every outer training set, so that it must be None, an integer or a "
            f"splitter; got {inner_cv!r}."
        )


def _check_methods(methods: dict[str, Any], settings: Settings, samples: Any) -> None:
    """Raise a ValueError for a method, or a number of targets, that does not fit the samples."""
    rows = [row for row in methods.values() if isinstance(row, Method)]
    if settings.n_targets is not None and all(row.norm != "trace" for row in rows):
        raise ValueError("n_targets is for the method 'multi'; compare it too, or leave it out.")
    for row in rows:
        check_method(settings.with_method(row), samples)


def _check_members(labels: np.ndarray, outer_cv: Any) -> None:
    """Raise a ValueError that names a class with fewer members than folds."""
    names, counts = np.unique(labels, return_counts=True)
    n_folds = 3 if outer_cv is None else outer_cv
    if isinstance(n_folds, Integral) and counts.min() < n_folds:
        raise ValueError(
            f"class {names.tolist()[np.argmin(counts)]!r} has {counts.min()} samples, fewer than the {n_folds} "
            "outer folds; give more samples, use fewer folds, or merge classes."
        )


def _is_structured(y: Any) -> bool:
    """Whether labels have fields, as times to event have."""
    return bool(getattr(getattr(y, "dtype", None), "names", None))


def _estimator(y: Any, loss: Any, parameters: dict[str, Any]) -> Any:
    """Make the estimator of the task, with the parameters that all methods share."""
    base: type = SuquanRegressor
    if _is_structured(y):
        base = SuquanCox
    elif make_loss(loss).is_classification if loss is not None else _has_classes(y):
        base = SuquanClassifier
    if loss is not None:
        parameters = {**parameters, "loss": loss}
    known = set(base().get_params(deep=False)) - _CHOSEN_HERE
    unknown = sorted(set(parameters) - known)
    if unknown:
        raise TypeError(f"compare() got an unknown parameter {unknown[0]!r}.")
    return base(**parameters, method="fixed")


def _has_classes(y: Any) -> bool:
    return not type_of_target(y).startswith("continuous")
