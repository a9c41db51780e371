"""Folds of cross-fitting: random partitions, stratified where the loss has classes, or given ones."""

from __future__ import annotations

import warnings
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.model_selection import (
    GroupKFold,
    KFold,
    PredefinedSplit,
    StratifiedGroupKFold,
    StratifiedKFold,
    check_cv,
)
from sklearn.utils import check_random_state

from suquan.losses import Loss
from suquan.model.labels import classes_of_folds
from suquan.model.problem import Splits


def crossfit_splits(
    settings: Any, loss: Loss, y: np.ndarray, groups: Any, used: np.ndarray
) -> Splits | None:
    """Folds of a cross-fitted method over the samples `used`; None without cross-fitting.

    Training samples are given by a mask, test samples by their numbers. No folds, with a warning, where a model
    cannot be fitted in every fold: nothing is learned then.
    """
    if not settings.method.is_crossfit:
        return None
    groups = None if groups is None else np.asarray(groups)
    is_fixed = not hasattr(settings.cv, "split") or isinstance(settings.cv, PredefinedSplit)
    if isinstance(settings.cv, Integral) or not is_fixed:
        # Drawn among the used samples, so that the others are as if absent. Lists number all samples.
        groups = None if groups is None else groups[used]
        y, used = y[used], np.ones(np.count_nonzero(used), dtype=bool)
    if isinstance(settings.cv, Integral):
        return _usable(loss, y, _random_splits(settings, loss, y, groups))
    place = np.where(used, np.cumsum(used) - 1, -1)
    splits = []
    splitter = check_cv(settings.cv, y, classifier=loss.is_classification)
    for train, test in splitter.split(y, y, groups):
        if len(np.intersect1d(train, test)):
            raise ValueError("cv: a split holds out samples that it also trains on.")
        test = place[test]
        splits.append((_mask(train, len(y))[used], test[test >= 0]))
    if not any(len(test) for _, test in splits):
        raise ValueError(
            "cv gave no splits; give an integer, a splitter or a list of (train, test) indices."
        )
    return _usable(loss, y[used], splits)


def _usable(loss: Loss, y: np.ndarray, splits: Splits) -> Splits:
    """The folds, or none with a warning where a model cannot be fitted in every fold."""
    reason = "the smallest class or the groups have too few members for 2 folds"
    if splits:
        if all(_can_teach(loss, y, train) for train, _ in splits):
            return splits
        reason = "a fold leaves no training sample of some class, or with an event"
    warnings.warn(
        f"cannot cross-fit: {reason}. The initial target is kept; use other folds or more samples, or "
        "method='joint', which learns in-sample.",
        stacklevel=5,
    )
    return []


def _can_teach(loss: Loss, y: np.ndarray, train: np.ndarray) -> bool:
    """Check that the training samples of a fold have all classes, or an event to compare with others."""
    if loss.is_classification:
        return bool(np.isin(y, y[train]).all())
    ones = np.ones(np.count_nonzero(train))
    return not loss.couples_samples or loss.value(y[train], 0.0 * ones, ones) > 0.0


def _mask(rows: np.ndarray, n_samples: int) -> np.ndarray:
    mask = np.zeros(n_samples, dtype=bool)
    mask[rows] = True
    return mask


def _random_splits(settings: Any, loss: Loss, y: np.ndarray, groups: np.ndarray | None) -> Splits:
    """`n_repeats` random partitions in at most `cv` folds; none where there cannot be two."""
    n_folds = min(int(settings.cv), len(y) if groups is None else len(np.unique(groups)))
    classes = classes_of_folds(loss, y, n_folds)
    stratified = classes is not None
    if classes is not None:
        n_folds, y = min(n_folds, int(np.unique(classes, return_counts=True)[1].min())), classes
    if n_folds < 2:
        return []
    if groups is None:
        kind = StratifiedKFold if stratified else KFold
    else:
        kind = StratifiedGroupKFold if stratified else GroupKFold
    rng = check_random_state(settings.random_state)
    seeds = rng.randint(np.iinfo(np.int32).max, size=settings.n_repeats)
    small = np.min_scalar_type(len(y))  # fifteen lists of samples are long
    return [
        (_mask(train, len(y)), test.astype(small))
        for seed in seeds.tolist()
        for train, test in kind(n_folds, shuffle=True, random_state=seed).split(y, y, groups)
    ]
