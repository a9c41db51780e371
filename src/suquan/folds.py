"""Folds of selection and comparison: samples ranked once, fits on any part of them, and the scores of these.

Scores are those of any scikit-learn scorer, of outputs that are known already.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from inspect import signature
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import rankdata
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.metrics import check_scoring, get_scorer_names
from sklearn.model_selection import (
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
    finish,
    fit_weights,
    pose,
    predicted_classes,
    rank,
    solve,
)
from suquan.losses import Loss, classes_of_folds
from suquan.objective import Fit, Splits
from suquan.ranking import SampleOperator
from suquan.rounds import Candidate
from suquan.survival import concordance
from suquan.targets import learn_target

Fits = Sequence[tuple[np.ndarray, Fit]]  # targets with the fits at them


class FoldScores(NamedTuple):
    """What several models make of the samples of one fold, which they have not seen.

    Attributes
    ----------
    scores : ndarray of shape (n_models,)
    losses : ndarray of shape (n_models,)
        Mean loss, for classes; else 0.
    outputs : ndarray of shape (n_models, n_test, n_outputs)
    """

    scores: np.ndarray
    losses: np.ndarray
    outputs: np.ndarray


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


class RepeatedGroupFolds:
    """Folds that keep groups together, drawn anew in every repeat.

    Parameters
    ----------
    n_splits : int, default=3
    n_repeats : int, default=5
    stratified : bool, default=True
        Whether the folds have like shares of the classes.
    random_state : int, default=0

    Examples
    --------
    >>> import numpy as np
    >>> from suquan.folds import RepeatedGroupFolds
    >>> groups = np.array([1, 1, 2, 2, 3, 3])
    >>> folds = RepeatedGroupFolds(3, 2, stratified=False).split(groups, None, groups)
    >>> [len(np.unique(groups[test])) for _, test in folds]
    [1, 1, 1, 1, 1, 1]
    """

    def __init__(
        self, n_splits: int = 3, n_repeats: int = 5, stratified: bool = True, random_state: int = 0
    ) -> None:
        self.n_splits, self.n_repeats = n_splits, n_repeats
        self.stratified, self.random_state = stratified, random_state

    def split(self, X: Any, y: Any = None, groups: Any = None) -> Iterator[tuple[Any, Any]]:
        """Training and test indices of every fold."""
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
        """Number of folds in all."""
        return self.n_splits * self.n_repeats

    def __repr__(self) -> str:
        return f"RepeatedGroupFolds({', '.join(f'{k}={v}' for k, v in vars(self).items())})"


def check_groups(name: str, groups: Any, n_samples: int) -> np.ndarray:
    """One group per sample, none of them missing; else a ValueError."""
    groups = np.asarray(groups)
    if groups.shape != (n_samples,):
        raise ValueError(
            f"{name} must hold one value for each of {n_samples} samples; got an array of shape {groups.shape}."
        )
    missing = np.array(
        [
            value is None or str(value) == "<NA>" or value != value or value == ""
            for value in groups.tolist()
        ]
    )
    if missing.any():
        raise ValueError(
            f"{name} is missing for {missing.sum()} of {n_samples} samples, first for sample "
            f"{int(np.argmax(missing))}; give every sample one, or leave these samples out."
        )
    return groups


def leave_out_splits(cohorts: np.ndarray, labels: np.ndarray | None) -> Splits:
    """Each cohort as the test set once, the others as its training set.

    Both need all classes of `labels`; where these are times to event, every cohort needs an event.
    """
    names, codes = np.unique(cohorts, return_inverse=True)
    if len(names) < 2:
        raise ValueError(
            f"leaving cohorts out needs at least two; every sample is of {names.tolist()[0]!r}."
        )
    splits = [(np.flatnonzero(codes != k), np.flatnonzero(codes == k)) for k in range(len(names))]
    for name, (train, test) in zip(names.tolist(), splits, strict=True):
        if labels is not None and labels.dtype.names:
            if not labels["event"][test].any():
                raise ValueError(
                    f"cohort {name!r} has no event, so that it cannot be left out and tested; drop its "
                    "samples or merge cohorts."
                )
            continue
        for what, rows in (("has no", test), ("alone has", train)):
            absent = [] if labels is None else np.setdiff1d(labels, labels[rows]).tolist()
            if absent:
                raise ValueError(
                    f"cohort {name!r} {what} samples of class {absent[0]!r}, so that it cannot be left out and "
                    "tested; drop its samples, merge cohorts or merge classes."
                )
    return splits


def shared_groups(splits: Splits, groups: np.ndarray | None) -> str:
    """Where test samples share a group with training samples, in words; nothing where they do not."""
    if groups is None:
        return ""
    shared = [np.intersect1d(groups[train], groups[test]) for train, test in splits]
    torn = [group for group in shared if group.size]
    if not torn:
        return ""
    return (
        f"test samples share a group with training samples (such as {torn[0].tolist()[0]!r}), so that scores "
        f"are too good where samples of a group are alike: {len(torn)} of {len(splits)}"
    )


class OutOfFold(NamedTuple):
    """Scores that samples got from models which had not seen them; a sample may be there several times.

    Attributes
    ----------
    scores : ndarray of shape (n_rows,), or (n_rows, n_classes) for more than two classes
        As `decision_function` gives them.
    samples : ndarray of shape (n_rows,), int
        Which sample a row is of.
    shifts : ndarray of the shape of `scores`
        What the classes of all these samples give without features, less what those of the row's training
        samples give. Folds hold out what they do not train on: without these shifts a class that is rarer in
        training is more frequent in the test, and small scores would point the wrong way.
    """

    scores: np.ndarray
    samples: np.ndarray
    shifts: np.ndarray

    @classmethod
    def of(
        cls, data: RankedData, settings: Settings, splits: Splits, outputs: Sequence[np.ndarray]
    ) -> OutOfFold:
        """Outputs of one setting for the test samples of every split, each (n_test, n_outputs)."""
        classes: Any = data.classes
        samples = np.concatenate([test for _, test in splits])
        scores = decision_values(np.concatenate(outputs), classes)

        def constant(rows: np.ndarray) -> np.ndarray:
            best = data.loss.best_constant(data.y[rows], data.weights_in(settings, rows))
            return decision_values(best[None], classes)[0]

        if not settings.fit_intercept:
            return cls(scores, samples, np.zeros_like(scores))
        everyone = constant(np.unique(samples))
        shifts = [np.repeat([everyone - constant(a)], len(b), axis=0) for a, b in splits]
        return cls(scores, samples, np.concatenate(shifts))

    def calibrate(self, kind: str | None, data: RankedData, settings: Settings) -> Any:
        """Calibration of the shifted scores, or None; one of R rows of a sample has 1/R of its weight."""
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
    has_classes = data.loss.is_classification
    labels = data.labels[rows]
    if not has_classes:
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
    with warnings.catch_warnings():  # what it means that a splitter ignores groups, `compare` says
        warnings.filterwarnings("ignore", "The groups parameter is ignored")
        parts = list(splitter.split(np.zeros(len(rows)), labels, groups))
    splits = []
    for pair in parts:
        train, test = (part[np.isin(part, rows)] for part in map(numbers.__getitem__, pair))
        splits.append((train, test))
    if not splits:
        raise ValueError(f"{name} gave no splits; give an integer, a splitter or a list of splits.")
    classes: Any = data.classes
    for number, split in enumerate(splits):
        for side, part in zip(("training", "test"), split, strict=True):
            missing = np.setdiff1d(classes, data.labels[part]).tolist() if has_classes else []
            if missing or not part.size:
                of = f"of class {missing[0]!r}" if missing else "of positive weight"
                raise ValueError(
                    f"split {number} of {name} has no {side} sample {of}; use fewer folds, stratified ones, or "
                    "other groups."
                )
    return splits


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
    """Folds until every sample was tested once, or all of them where that never happens."""
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


# -- scores ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class OutputScorer:
    """Scores outputs u of shape (n_samples, n_outputs) that are known already.

    scikit-learn's scorers ask an estimator and check every argument, a millisecond each time; a comparison
    scores tens of thousands of models. So "roc_auc" of two classes is computed here, for all models at once.
    """

    scorer: Any
    scoring: Any
    loss: Loss
    classes: np.ndarray | None
    is_weighted: bool = False

    @classmethod
    def of(cls, estimator: Any, scoring: Any, samples: Samples) -> OutputScorer:
        """Scorer of this name or function; a ValueError where it cannot score the samples' task at all."""
        loss, classes = samples.loss, samples.classes
        if isinstance(scoring, str) and scoring not in (*_SCORERS, *get_scorer_names()):
            raise ValueError(
                f"unknown scoring {scoring!r}; give {default_scoring(samples)!r} or another name of "
                "sklearn.metrics.get_scorer_names()."
            )
        found = check_scoring(estimator, scoring=_SCORERS.get(scoring, scoring))
        task, known = "times to event" if loss.couples_samples else "regression", samples.used
        if classes is not None:
            task = f"classification with {len(classes)} classes"
        labels, weights = samples.labels[known], samples.weights[known]
        metric = signature(getattr(found, "_score_func", found)).parameters
        is_weighted = bool(np.any(weights != weights[0]))
        if is_weighted and "sample_weight" not in metric:
            warnings.warn(f"{scoring=} takes no sample_weight: it counts all alike.", stacklevel=3)
        made = cls(found, scoring, loss, classes, is_weighted and "sample_weight" in metric)
        constant = loss.best_constant(samples.y[known], np.ones(len(labels)))
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                made._of_output(np.tile(constant, (len(labels), 1)), labels, None, weights)
        except (AttributeError, TypeError, ValueError) as error:
            why = re.sub(r"_Known\w+", "the model", str(error)).rstrip(".")
            raise ValueError(
                f"scoring={scoring!r} does not fit {task}: {why}. Choose another one, such as "
                f"{default_scoring(samples)!r}."
            ) from error
        return made

    def __call__(
        self, outputs: Sequence[np.ndarray], labels: Any, chances: Any = None, weights: Any = None
    ) -> np.ndarray:
        """Scores of several models on the same samples, (n_models,).

        `chances`, the probabilities of the classes, (n_samples, n_classes), are those of the first in place of
        its loss's.
        """
        classes, is_area = self.classes, self.scoring == "roc_auc" and not self.is_weighted
        if is_area and classes is not None and len(classes) == 2:
            u = np.stack([decision_values(u, classes) for u in outputs])
            return roc_auc(u, labels == classes[1])
        if chances is not None:
            return np.array([self._of_output(outputs[0], labels, chances, weights)])
        return np.array([self._of_output(u, labels, None, weights) for u in outputs])

    def of_model(self, model: Any, X: np.ndarray, labels: np.ndarray, weights: Any = None) -> float:
        """Score of any fitted estimator."""
        given = {"sample_weight": weights} if self.is_weighted else {}
        return float(self.scorer(model, X, labels, **given))

    def _of_output(self, u: np.ndarray, labels: np.ndarray, chances: Any, weights: Any) -> float:
        kind = _KnownRegressor if self.classes is None else _KnownClassifier
        known = kind(u, self.loss, self.classes, chances)
        return self.of_model(known, np.zeros((len(labels), 1)), labels, weights)


def default_scoring(samples: Samples) -> str:
    """Name of the score that suits the task."""
    if samples.loss.couples_samples:
        return "concordance"
    if samples.classes is None:
        return "r2"
    return "roc_auc" if len(samples.classes) == 2 else "roc_auc_ovr"


def roc_auc(u: np.ndarray, is_positive: np.ndarray) -> np.ndarray:
    """Areas under the ROC curves of the rows of u, (n_models, n_samples).

    AUC = (mean rank of the positive samples − (n₊ + 1)/2) / n₋, ranks from 1, equal values sharing theirs.
    """
    n_positive = np.count_nonzero(is_positive)
    ranks = rankdata(u, axis=1)[:, is_positive].mean(axis=1)
    return (ranks - (n_positive + 1) / 2) / (len(is_positive) - n_positive)


def score_concordance(model: Any, X: Any, y: Any, sample_weight: Any = None) -> float:
    """Scorer "concordance": Harrell's, of the risks that a model predicts."""
    return concordance(y, model.predict(X), sample_weight=sample_weight)


_SCORERS: dict[Any, Any] = {"concordance": score_concordance}


class _Known(BaseEstimator):
    """Estimator whose outputs on the next samples are known, for scorers that ask an estimator."""

    def __init__(
        self, u: np.ndarray, loss: Loss, classes: Any = None, probabilities: Any = None
    ) -> None:
        self.u, self.loss, self.classes, self.probabilities = u, loss, classes, probabilities
        self.classes_ = classes

    def predict(self, X: Any) -> np.ndarray:
        """Classes or values."""
        if self.classes is None:
            return self.loss.mean(self.u)
        if self.probabilities is not None:
            return self.classes[np.argmax(self.probabilities, axis=1)]
        return predicted_classes(self.u, self.classes)

    def __sklearn_is_fitted__(self) -> bool:
        return True


class _KnownRegressor(RegressorMixin, _Known):
    """Known values."""


class _KnownClassifier(ClassifierMixin, _Known):
    """Known scores and probabilities of classes."""

    def decision_function(self, X: Any) -> np.ndarray:
        """Scores."""
        return decision_values(self.u, self.classes_)

    def predict_proba(self, X: Any) -> np.ndarray:
        """Those that are known, or that follow from the scores."""
        return self.loss.mean(self.u) if self.probabilities is None else self.probabilities
