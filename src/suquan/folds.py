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
from suquan.fitting import (
    Samples,
    Settings,
    crossfit_splits,
    decision_values,
    feature_moments,
    fit_weights,
    make_problem,
    make_start,
    rank,
    scale_features,
    warn_nothing_to_rank,
)
from suquan.losses import classes_of_folds
from suquan.matrix_model import fit_targets
from suquan.methods import Method
from suquan.objective import FLOAT64_ENTRIES, JointFit, Splits, fit_grid, intercept_only
from suquan.ranking import SampleOperator
from suquan.scoring import OutputScorer
from suquan.solvers.knot_grams import KnotProblem, knot_grams, knot_products
from suquan.solvers.spectral import spectral_target
from suquan.targets import learn_target

# Largest size of the blocks of knots; beyond it the features are touched in every round.
KNOT_GRAMS_BYTES = 1 << 30
Fits = Sequence[tuple[np.ndarray, JointFit]]  # targets with the fits at them


class FoldScores(NamedTuple):
    """Scores of several models on the test samples of one fold."""

    scores: np.ndarray  # (n_models,)
    losses: np.ndarray  # (n_models,): the mean loss, for classes; else 0
    outputs: np.ndarray  # (n_models, n_test, n_outputs)


class Candidate(NamedTuple):
    """One setting that selection may choose."""

    method: Method
    alpha: float
    smoothness: float
    max_rounds: int
    n_targets: int | None = None
    departure: float = 1.0


@dataclass(frozen=True)
class RankedData(Samples):
    """Samples that were ranked once, for fits on any part of them.

    Attributes
    ----------
    operator : SampleOperator
    groups : ndarray of shape (n_samples,) or None
    grams : ndarray of shape (n_samples, n_samples, n_knots, n_knots) or None
        Blocks of knots of all pairs of samples.
    """

    operator: SampleOperator
    groups: np.ndarray | None = None
    grams: np.ndarray | None = None

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

    def with_knot_grams(
        self, settings: Settings, candidates: Sequence[Candidate], n_folds: int, n_jobs: int | None
    ) -> RankedData:
        """The same data with the blocks of knots of all samples, where they pay for that many fits.

        With them a round costs the same for any number of features. They need a ridge penalty, at least as many
        features as samples, few knots, values without long ties, and features that are not scaled, which those
        of every training set are in their own way.
        """
        n_samples, n_features = self.operator.n_samples, self.operator.n_features
        candidates = [c for c in candidates if not c.method.norm]
        numbers = {c.method.knots(settings.n_knots, n_features) for c in candidates}
        n_knots = min(numbers, default=n_features)
        n_rounds = n_folds * sum(c.max_rounds for c in candidates)
        pays = n_knots < n_features and n_samples <= min(n_features, n_rounds)
        unfit = settings.l1_ratio > 0 or settings.feature_scaling != "none"
        if not pays or unfit or len(numbers) > 1:
            return self
        n_entries = n_samples * n_features * self.loss.n_outputs
        dtype = np.dtype(np.float64 if n_entries <= FLOAT64_ENTRIES else np.float32)
        if dtype.itemsize * (n_samples * n_knots) ** 2 > KNOT_GRAMS_BYTES:
            return self
        grams = knot_grams(self.operator, n_knots, dtype=dtype, n_jobs=n_jobs)
        return replace(self, grams=grams)

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
    ) -> list[tuple[np.ndarray, JointFit]]:
        """Target and fit of every candidate on the samples `train`; intercepts where they are constant."""
        train = train[self.used[train]]
        part = replace(
            self,
            operator=self.operator.take(train),
            y=self.y[train],
            weights=self.weights_in(settings, train),
            groups=None if self.groups is None else self.groups[train],
            grams=None if self.grams is None else self.grams[np.ix_(train, train)],
        )
        if part.operator.is_constant:
            warn_nothing_to_rank()
        results: dict[int, tuple[np.ndarray, JointFit]] = {}
        for name in dict.fromkeys(candidate.method.name for candidate in candidates):
            places = [k for k, candidate in enumerate(candidates) if candidate.method.name == name]
            own = settings.with_method(candidates[places[0]].method)
            fits = part._fit_method(own, [candidates[k] for k in places], self.X[train])
            results |= dict(zip(places, fits, strict=True))
        return [results[k] for k in range(len(candidates))]

    def _fit_method(
        self, settings: Settings, candidates: list[Candidate], X: np.ndarray
    ) -> list[tuple[np.ndarray, JointFit]]:
        """Fits of one method to all samples here, whose values are X."""
        own = settings.in_units(self.units)
        problem = make_problem(own, self.operator, self.loss, self.y, self.weights)
        of_alpha, of_smoothness = settings.penalty_units(self.units)
        candidates = [
            c._replace(alpha=c.alpha / of_alpha, smoothness=c.smoothness / of_smoothness)
            for c in candidates
        ]
        if self.grams is not None and not settings.method.norm:
            problem = KnotProblem(**vars(problem), grams=self.grams)
        learn = partial(learn_target, X, operator=self.operator, sample_weight=self.weights)
        g = make_start(settings, X.shape[1], problem.n_knots, learn)
        problem = scale_features(settings, problem, g)
        fits: list[JointFit]
        if settings.method.norm:
            fits = [
                fit_targets(
                    replace(problem, alpha=at.alpha, smoothness=at.smoothness),
                    g,
                    at.n_targets,
                    replace(settings.steps, max_rounds=at.max_rounds),
                )
                for at in candidates
            ]
        elif self.operator.is_constant:
            fits = [
                intercept_only(replace(problem, smoothness=at.smoothness), g) for at in candidates
            ]
        else:
            if settings.method.is_spectral:
                g = spectral_target(problem)[0]
            everyone = np.ones(len(self.y), dtype=bool)
            splits = crossfit_splits(settings, self.loss, self.y, self.groups, everyone)
            fits = fit_grid(problem, g, candidates, settings.steps, splits)
        if problem.operator.scale is not None:
            fits = [replace(fit, w=problem.operator.unscale(fit.w)) for fit in fits]
        return [(problem.expand(fit.g), fit) for fit in fits]

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
        cross = None if self.grams is None else self.grams[np.ix_(test, own)]
        outputs = [
            held_out.scores(fit.w, f) + fit.b
            if cross is None or fit.dual is None
            else knot_products(cross, fit.g)[1] @ fit.dual.T + fit.b
            for f, fit in fits
        ]
        if not held_out.is_complete:
            ranked, weights = self.operator.take(own), self.weights_in(settings, own)
            for u, (f, fit) in zip(outputs, fits, strict=True):
                w = fit.w
                if cross is not None and fit.dual is not None:
                    w = np.stack([ranked.sum_apply(a, f) for a in fit.dual])
                means, _ = feature_moments(ranked, weights, f, w)
                u += held_out.gap_scores(means if f.ndim == 2 else w * means)
        return [self.units.centre + self.units.scale * u for u in outputs]


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


class OutOfFold(NamedTuple):
    """Scores that samples got from models which had not seen them; a sample may be there several times.

    The shifts are the score of the constant model of all of them minus that of the row's training samples.
    Folds hold out what they do not train on: without these shifts a class that is rarer in training is more
    frequent in the test, and small scores would point the wrong way.
    """

    scores: np.ndarray  # as `decision_function` gives them
    samples: np.ndarray  # number of the sample of each row
    shifts: np.ndarray  # of the shape of the scores

    @classmethod
    def of(
        cls, data: RankedData, settings: Settings, splits: Splits, outputs: Sequence[np.ndarray]
    ) -> OutOfFold:
        """Join the outputs of one setting for the test samples of every split, each (n_test, n_outputs)."""
        classes: Any = data.classes
        samples = np.concatenate([test for _, test in splits])
        scores = decision_values(np.concatenate(outputs), classes)
        if not settings.fit_intercept:
            return cls(scores, samples, np.zeros_like(scores))

        def constant(rows: np.ndarray) -> np.ndarray:
            best = data.loss.best_constant(data.y[rows], data.weights_in(settings, rows))
            return decision_values(best[None], classes)[0]

        everyone = constant(np.unique(samples))
        shifts = [np.repeat([everyone - constant(a)], len(b), axis=0) for a, b in splits]
        return cls(scores, samples, np.concatenate(shifts))

    def calibrate(self, kind: str | None, data: RankedData, settings: Settings) -> Any:
        """Fit a calibration to the shifted scores, or None; one of R rows of a sample has 1/R of its weight."""
        if kind is None:
            return None
        rows, place, counts = np.unique(self.samples, return_inverse=True, return_counts=True)
        weights = (data.weights_in(settings, rows) / counts)[place]
        return fit_calibration(kind, self.scores + self.shifts, data.codes(self.samples), weights)


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
