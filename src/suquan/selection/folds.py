"""Folds of selection and comparison: samples ranked once, fits on any part of them, and the scores of these.

Validated samples come in; :class:`RankedData` fits all settings of a grid to the training samples of a fold and
scores them on its test samples. :func:`make_splits` makes the folds. Selection and comparison call both.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from sklearn.model_selection import (
    BaseCrossValidator,
    GroupKFold,
    PredefinedSplit,
    RepeatedKFold,
    RepeatedStratifiedKFold,
    StratifiedGroupKFold,
    check_cv,
)
from threadpoolctl import threadpool_limits

from suquan.calibration import fit_calibration
from suquan.model.labels import classes_of_folds
from suquan.model.prepare import (
    crossfit_splits,
    decision_values,
    feature_moments,
    finish,
    pose,
    rank,
    solve,
)
from suquan.model.problem import Fit, Splits
from suquan.model.rounds import Candidate
from suquan.model.settings import Samples, Settings, fit_weights
from suquan.ranking import SampleOperator
from suquan.selection.scoring import OutputScorer
from suquan.targets import learn_target

Fits = Sequence[tuple[np.ndarray, Fit]]  # targets with the fits at them


class FoldScores(NamedTuple):
    """Scores of several models on the test samples of one fold."""

    scores: np.ndarray  # (n_models,)
    losses: np.ndarray  # (n_models,): the mean loss, for classes; else 0
    outputs: np.ndarray  # (n_models, n_test, n_outputs)


@dataclass(frozen=True)
class RankedData(Samples):
    """Samples that were ranked once, for fits on any part of them.

    Attributes
    ----------
    operator : SampleOperator
    groups : ndarray of shape (n_samples,) or None
    """

    operator: SampleOperator
    groups: np.ndarray | None = None

    @classmethod
    def of(cls, settings: Settings, samples: Samples, groups: Any = None) -> RankedData:
        """Rank validated samples."""
        groups = None if groups is None else check_groups("groups", groups, len(samples.y))
        if not np.finfo(float).tiny <= samples.units.square < np.inf:
            spread = f"{samples.units.scale:.0e}"
            raise ValueError(
                f"y varies by {spread}, whose square is out of range; divide y by {spread}."
            )
        return cls(**vars(samples), operator=rank(settings, samples.X), groups=groups)

    def weights_in(self, settings: Settings, train: np.ndarray) -> np.ndarray:
        """Weights of the samples `train` in a fit to them."""
        return fit_weights(settings, self.weights[train], self.labels[train])

    def codes(self, rows: np.ndarray) -> np.ndarray:
        """Numbers of the classes of the samples `rows`, whose classes are known."""
        classes: Any = self.classes
        return np.searchsorted(classes, self.labels[rows])

    def smoothness_unit(self, settings: Settings, rows: np.ndarray) -> float:
        """What useful strengths of smoothness grow with, from the samples `rows`."""
        rows = rows[self.used[rows]]
        unit = self.loss.smoothness_unit(self.y[rows], self.weights_in(settings, rows))
        return self.units.square * unit

    def fit(
        self, settings: Settings, candidates: Sequence[Candidate], train: np.ndarray
    ) -> list[tuple[np.ndarray, Fit]]:
        """Target and fit of every candidate on the samples `train`; intercepts where they are constant."""
        part = self._part(settings, train)
        results: dict[int, tuple[np.ndarray, Fit]] = {}
        for name in dict.fromkeys(candidate.method.name for candidate in candidates):
            places = [k for k, candidate in enumerate(candidates) if candidate.method.name == name]
            own = settings.with_method(candidates[places[0]].method)
            of_alpha, of_smoothness = own.penalty_units(self.units)
            inner = [
                at._replace(alpha=at.alpha / of_alpha, smoothness=at.smoothness / of_smoothness)
                for at in map(candidates.__getitem__, places)
            ]
            problem, g, splits = part._posed(own)
            fits = solve(own, problem, g, inner, splits, self.units)
            results |= dict(zip(places, fits, strict=True))
        return [results[k] for k in range(len(candidates))]

    def fit_estimator(self, estimator: Any) -> None:
        """Fit an estimator with settings of its own to all samples, by the ranks that are known already."""
        settings = Settings.of(estimator)
        problem, g, splits = self._part(settings, np.arange(len(self.y)))._posed(settings)
        finish(estimator, settings, problem, g, splits, self.classes, self.units)

    def _part(self, settings: Settings, rows: np.ndarray) -> RankedData:
        """The samples `rows` that are used, with their weights in a fit to them."""
        rows = rows[self.used[rows]]
        return replace(
            self,
            X=self.X[rows],
            operator=self.operator.take(rows),
            y=self.y[rows],
            weights=self.weights_in(settings, rows),
            groups=None if self.groups is None else self.groups[rows],
        )

    def _posed(self, settings: Settings) -> tuple[Any, np.ndarray, Splits | None]:
        """Problem, start and folds of cross-fitting of all samples here."""
        learn = partial(learn_target, self.X, operator=self.operator, sample_weight=self.weights)
        posed = self.operator, self.loss, self.y, self.weights, self.units, learn
        problem, g = pose(settings, *posed)
        everyone = np.ones(len(self.y), dtype=bool)
        return problem, g, crossfit_splits(settings, self.loss, self.y, self.groups, everyone)

    def score(
        self,
        settings: Settings,
        candidates: Sequence[Candidate],
        train: np.ndarray,
        test: np.ndarray,
        scorer: OutputScorer,
    ) -> FoldScores:
        """Scores of every candidate on the samples `test` after a fit to `train`."""
        with threadpool_limits(1):
            fits = self.fit(settings, candidates, train)
            return self.score_outputs(self.outputs(settings, fits, train, test), test, scorer)

    def score_outputs(
        self, outputs: Sequence[np.ndarray], test: np.ndarray, scorer: OutputScorer
    ) -> FoldScores:
        """Scores of several models by their outputs for the samples `test`."""
        losses = np.zeros(len(outputs))
        weights = self.weights[test]
        if self.loss.is_classification:
            y, s, n_outputs = self.y[test], weights / weights.sum(), self.loss.n_outputs
            losses[:] = [self.loss.value(y, u[:, 0] if n_outputs == 1 else u, s) for u in outputs]
        scores = scorer(outputs, self.labels[test], weights=weights)
        return FoldScores(scores, losses, np.stack(outputs))

    def outputs(
        self, settings: Settings, fits: Fits, train: np.ndarray, test: np.ndarray
    ) -> list[np.ndarray]:
        """Outputs of fits to the samples `train` for the samples `test`, each (n_test, n_outputs).

        A missing value counts as in predictions: as the mean of the feature over `train`.
        """
        held_out, own = self.operator.take(test), train[self.used[train]]
        outputs = [held_out.scores(fit.w, f) + fit.b for f, fit in fits]
        if not held_out.is_complete:
            ranked, weights = self.operator.take(own), self.weights_in(settings, own)
            for u, (f, fit) in zip(outputs, fits, strict=True):
                means, _ = feature_moments(ranked, weights, f, fit.w)
                u += held_out.gap_scores(means if f.ndim == 2 else fit.w * means)
        return outputs


class RepeatedGroupFolds(BaseCrossValidator):
    """Folds that keep groups together, drawn anew in every repeat; stratified by classes, or not."""

    def __init__(
        self, n_splits: int = 3, n_repeats: int = 5, stratified: bool = True, random_state: int = 0
    ) -> None:
        self.n_splits, self.n_repeats = n_splits, n_repeats
        self.stratified, self.random_state = stratified, random_state

    def split(self, X: Any, y: Any = None, groups: Any = None) -> Iterator[tuple[Any, Any]]:
        """Give the training and test indices of every fold."""
        n_groups = len(np.unique(groups))
        if n_groups < self.n_splits:
            raise ValueError(
                f"{self.n_splits} folds that keep groups together need at least {self.n_splits} groups; there "
                f"are {n_groups}. Use fewer folds."
            )
        kind = StratifiedGroupKFold if self.stratified else GroupKFold
        for repeat in range(self.n_repeats):
            folds = kind(self.n_splits, shuffle=True, random_state=self.random_state + repeat)
            yield from folds.split(X, y, groups)

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        """Count the folds of all repeats."""
        return self.n_splits * self.n_repeats


def check_groups(name: str, groups: Any, n_samples: int) -> np.ndarray:
    """Return one group per sample; raise a ValueError where one is missing."""
    groups = np.asarray(groups)
    if groups.shape != (n_samples,):
        raise ValueError(
            f"{name} must hold one value for each of {n_samples} samples; got an array of shape {groups.shape}."
        )
    missing = [v is None or str(v) in ("", "<NA>") or v != v for v in groups.tolist()]
    if any(missing):
        raise ValueError(
            f"{name} is missing for {sum(missing)} of {n_samples} samples, first for sample "
            f"{missing.index(True)}; give every sample one, or leave these samples out."
        )
    return groups


def leave_out_splits(cohorts: np.ndarray, labels: np.ndarray | None) -> Splits:
    """Make each cohort the test set once, the others its training set.

    Both need all classes of `labels`; where these are times to event, every cohort needs an event.
    """
    names, codes = np.unique(cohorts, return_inverse=True)
    if len(names) < 2:
        raise ValueError(
            f"leaving cohorts out needs at least two; every sample is of {names.tolist()[0]!r}."
        )
    splits = [(np.flatnonzero(codes != k), np.flatnonzero(codes == k)) for k in range(len(names))]
    for name, (train, test) in zip(names.tolist(), splits, strict=True):
        if labels is None:
            continue
        if labels.dtype.names:
            lacks = [] if labels["event"][test].any() else ["has no event"]
            cure = "drop its samples or merge cohorts"
        else:
            sides = (("has no", test), ("alone has", train))
            lacks = [
                f"{what} samples of class {absent!r}"
                for what, rows in sides
                for absent in np.setdiff1d(labels, labels[rows]).tolist()
            ]
            cure = "drop its samples, merge cohorts or merge classes"
        if lacks:
            raise ValueError(
                f"cohort {name!r} {lacks[0]}, so that it cannot be left out and tested; {cure}."
            )
    return splits


def shared_groups(splits: Splits, groups: np.ndarray | None) -> str:
    """Say where test samples share a group with training samples; nothing where they do not."""
    shared = [] if groups is None else [np.intersect1d(groups[a], groups[b]) for a, b in splits]
    torn = [group for group in shared if group.size]
    if not torn:
        return ""
    return (
        f"test samples share a group with training samples (such as {torn[0].tolist()[0]!r}), so that scores "
        f"are too good where samples of a group are alike: {len(torn)} of {len(splits)}"
    )


def calibrate(
    kind: str | None,
    data: RankedData,
    settings: Settings,
    splits: Splits,
    outputs: Sequence[np.ndarray],
) -> tuple[np.ndarray, np.ndarray, Any]:
    """Fit a calibration to the outputs of one setting for the test samples of every split.

    Returns their scores, as `decision_function` gives them, the number of the sample of each row, and the
    calibration, if any. Scores are shifted for it by that of the constant model of all these samples minus that
    of the training samples: folds hold out what they do not train on, so that a class that is rarer in training
    is more frequent in the test, and small scores would point the wrong way.
    """
    classes: Any = data.classes
    samples = np.concatenate([test for _, test in splits])
    scores = decision_values(np.concatenate(outputs), classes)
    if kind is None:
        return scores, samples, None

    def constant(rows: np.ndarray) -> np.ndarray:
        best = data.loss.best_constant(data.y[rows], data.weights_in(settings, rows))
        return decision_values(best[None], classes)[0]

    rows, place, counts = np.unique(samples, return_inverse=True, return_counts=True)
    shifts: Any = 0.0
    if settings.fit_intercept:
        everyone = constant(rows)
        by_fold = [np.repeat([everyone - constant(a)], len(b), axis=0) for a, b in splits]
        shifts = np.concatenate(by_fold)
    weights = (data.weights_in(settings, rows) / counts)[place]  # a row of R has 1/R of the weight
    return scores, samples, fit_calibration(kind, scores + shifts, data.codes(samples), weights)


def make_splits(cv: Any, data: RankedData, rows: np.ndarray, seed: int, name: str) -> Splits:
    """Split the samples `rows` by the parameter `cv` of this name; return indices of all samples.

    None stands for 3 folds, 5 times, stratified for classes; these, and an integer number of folds, are
    shuffled by the seed and keep groups together. Samples of weight 0 belong to no fold: splitters do not see
    them. Every split has all classes on both sides.
    """
    rows = rows[data.used[rows]]
    labels = data.labels[rows]
    if not data.loss.is_classification:
        n_folds = cv if isinstance(cv, Integral) else getattr(cv, "cvargs", {}).get("n_splits", 3)
        labels = classes_of_folds(data.loss, data.y[rows], int(n_folds))
    groups = None if data.groups is None else data.groups[rows]
    if cv is None or isinstance(cv, Integral):
        n_folds, n_repeats = (3, 5) if cv is None else (int(cv), 1)
        if groups is not None:
            cv = RepeatedGroupFolds(n_folds, n_repeats, labels is not None, seed)
        else:
            repeated = RepeatedKFold if labels is None else RepeatedStratifiedKFold
            cv = repeated(n_splits=n_folds, n_repeats=n_repeats, random_state=seed)
    # Lists of splits and PredefinedSplit give indices of all samples, splitters those of the samples they see.
    is_fixed = isinstance(cv, PredefinedSplit) or not hasattr(cv, "split")
    numbers = np.arange(len(data.y)) if is_fixed else rows
    splitter = check_cv(cv, labels, classifier=labels is not None)
    with warnings.catch_warnings():  # `compare` warns itself when a splitter ignores groups
        warnings.filterwarnings("ignore", "The groups parameter is ignored")
        parts = list(splitter.split(np.zeros(len(rows)), labels, groups))
    if not parts:
        raise ValueError(f"{name} gave no splits; give an integer, a splitter or a list of splits.")
    splits = []
    for number, (train, test) in enumerate(parts):
        train, test = numbers[train], numbers[test]
        train, test = train[np.isin(train, rows)], test[np.isin(test, rows)]
        for side, part in (("training", train), ("test", test)):
            _check_side(data, part, f"split {number} of {name} has no {side} sample")
        splits.append((train, test))
    return splits


def _check_side(data: RankedData, rows: np.ndarray, problem: str) -> None:
    """Raise a ValueError where one side of a split is empty or lacks a class."""
    classes: Any = data.classes if data.loss.is_classification else []
    missing = np.setdiff1d(classes, data.labels[rows]).tolist() if len(classes) else []
    if missing or not rows.size:
        of = f"of class {missing[0]!r}" if missing else "of positive weight"
        raise ValueError(f"{problem} {of}; use fewer folds, stratified ones, or other groups.")


def usable_calibration(kind: str | None, splits: Splits, data: RankedData, name: str) -> str | None:
    """Return the calibration, or None with a warning where the folds are too small for the default one."""
    classes: Any = data.classes
    for number, (_, test) in enumerate(splits if kind is not None else ()):
        counts = np.bincount(data.codes(test), minlength=len(classes))
        if counts.min() < 2:
            told = (
                "calibration needs at least two test samples of each class in every fold; split "
                f"{number} of {name} has {counts.min()} of class {classes.tolist()[np.argmin(counts)]!r}"
            )
            if kind != "sigmoid":
                raise ValueError(
                    f"{told}. Use fewer folds, give more samples, or drop calibration."
                )
            warnings.warn(f"{told}. Probabilities are not calibrated.", stacklevel=3)
            return None
    return kind


def folds_per_repeat(splits: Splits, n_samples: int) -> int:
    """Count the folds until every sample was tested once; all of them where that never happens."""
    seen = np.zeros(n_samples, dtype=bool)
    for k, (_, test) in enumerate(splits):
        seen[test] = True
        if seen.all():
            return k + 1
    return len(splits)


def test_share(splits: Splits) -> float:
    """Mean of n_test / n_train over the folds."""
    return float(np.mean([len(test) / len(train) for train, test in splits]))


def corrected_error(values: np.ndarray, test_share: float) -> float:
    """Standard error s·√(1/J + n_test/n_train) of a mean over J folds; 0 for one fold."""
    if len(values) < 2:
        return 0.0
    return float(np.std(values, ddof=1) * np.sqrt(1.0 / len(values) + test_share))
