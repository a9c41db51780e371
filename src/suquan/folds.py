"""Samples that are ranked once, and fits on any part of them: the folds of selection and comparison."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from sklearn.model_selection import RepeatedKFold, RepeatedStratifiedKFold, check_cv
from threadpoolctl import threadpool_limits

from suquan._scoring import OutputScorer
from suquan.fitting import (
    Samples,
    Settings,
    crossfit_splits,
    fit_weights,
    make_problem,
    make_start,
    rank,
    warn_nothing_to_rank,
)
from suquan.methods import Method
from suquan.objective import JointFit, Splits, fit_grid, intercept_only
from suquan.ranking import SampleOperator
from suquan.solvers.knot_grams import KnotGrams, KnotProblem
from suquan.solvers.spectral import spectral_target

# Largest size of the blocks of knots; beyond it the features are touched in every round.
KNOT_GRAMS_BYTES = 1 << 30


class Candidate(NamedTuple):
    """One setting that selection may choose."""

    method: Method
    alpha: float
    smoothness: float
    max_rounds: int


@dataclass(frozen=True)
class RankedData(Samples):
    """Samples that were ranked once, for fits on any part of them.

    Attributes
    ----------
    operator : SampleOperator
    groups : ndarray of shape (n_samples,) or None
    grams : KnotGrams or None
        Blocks of knots of all samples.
    """

    operator: SampleOperator
    groups: np.ndarray | None = None
    grams: KnotGrams | None = None

    @classmethod
    def of(cls, settings: Settings, samples: Samples, groups: Any = None) -> RankedData:
        """Rank validated samples."""
        groups = None if groups is None else np.asarray(groups)
        return cls(**vars(samples), operator=rank(settings, samples.X), groups=groups)

    def with_knot_grams(
        self,
        settings: Settings,
        candidates: Sequence[Candidate],
        n_folds: int,
        n_jobs: int | None,
    ) -> RankedData:
        """The same data with the blocks of knots of all samples, where they pay for that many fits.

        With them a round costs the same for any number of features. They need a ridge penalty, at least as many
        features as samples, few knots, and values without long ties.
        """
        n_samples, n_features = self.operator.n_samples, self.operator.n_features
        n_knots = settings.n_knots
        n_rounds = n_folds * sum(candidate.max_rounds for candidate in candidates)
        if (
            n_knots is None
            or n_knots >= n_features
            or n_samples > n_features
            or settings.l1_ratio > 0
            or n_rounds < n_samples
        ):
            return self
        problem = make_problem(settings, self.operator, self.loss, self.y, self.weights)
        dtype = np.dtype(problem.dtype)
        if dtype.itemsize * (n_samples * n_knots) ** 2 > KNOT_GRAMS_BYTES:
            return self
        grams = KnotGrams.of(self.operator, n_knots, dtype=dtype, n_jobs=n_jobs)
        return replace(self, grams=grams)

    def weights_in(self, settings: Settings, train: np.ndarray) -> np.ndarray:
        """Weights of the samples `train` in a fit to them."""
        return fit_weights(settings, self.weights[train], self.labels[train])

    def smoothness_unit(self, settings: Settings, rows: np.ndarray) -> float:
        """What useful strengths of smoothness grow with, from the samples `rows`."""
        rows = rows[self.used[rows]]
        return self.loss.smoothness_unit(self.y[rows], self.weights_in(settings, rows))

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
            grams=None if self.grams is None else self.grams.take(train, train),
        )
        if part.operator.is_constant:
            warn_nothing_to_rank()
        results: dict[int, tuple[np.ndarray, JointFit]] = {}
        for name in dict.fromkeys(candidate.method.name for candidate in candidates):
            places = [k for k, candidate in enumerate(candidates) if candidate.method.name == name]
            own = replace(settings, method=candidates[places[0]].method)
            fits = part._fit_method(own, [candidates[k] for k in places], self.X[train])
            results |= dict(zip(places, fits, strict=True))
        return [results[k] for k in range(len(candidates))]

    def _fit_method(
        self, settings: Settings, candidates: list[Candidate], X: np.ndarray
    ) -> list[tuple[np.ndarray, JointFit]]:
        """Fits of one method to all samples here, whose values are X."""
        problem = make_problem(settings, self.operator, self.loss, self.y, self.weights)
        if self.grams is not None:
            problem = KnotProblem.of(problem, self.grams)
        g = make_start(settings, X, self.operator, self.weights, problem.n_knots)
        if self.operator.is_constant:
            fits = [
                intercept_only(replace(problem, smoothness=at.smoothness), g) for at in candidates
            ]
        else:
            if settings.method.is_spectral:
                g = spectral_target(problem)[0]
            everyone = np.ones(len(self.y), dtype=bool)
            splits = crossfit_splits(settings, self.loss, self.y, self.groups, everyone)
            fits = fit_grid(problem, g, candidates, settings.steps, splits)
        return [(problem.expand(fit.g), fit) for fit in fits]

    def score(
        self,
        settings: Settings,
        candidates: Sequence[Candidate],
        train: np.ndarray,
        test: np.ndarray,
        scorer: OutputScorer,
    ) -> np.ndarray:
        """Score of every candidate on the samples `test` after a fit to `train`."""
        with threadpool_limits(1):
            fits = self.fit(settings, candidates, train)
            return scorer(self.outputs(fits, train, test), self.labels[test])

    def outputs(
        self, fits: Sequence[tuple[np.ndarray, JointFit]], train: np.ndarray, test: np.ndarray
    ) -> list[np.ndarray]:
        """Outputs of fits to the samples `train` for the samples `test`, each (n_test, n_outputs)."""
        held_out, cross = self.operator.take(test), None
        if self.grams is not None:
            cross = self.grams.take(test, train[self.used[train]])
        return [
            held_out.scores(fit.w, f) + fit.b
            if cross is None or fit.dual is None
            else cross.outputs(fit)
            for f, fit in fits
        ]


def make_splits(cv: Any, data: RankedData, rows: np.ndarray, seed: int, name: str) -> Splits:
    """Splits of the samples `rows` by the parameter `cv` of this name, as indices of all samples.

    None stands for 3 folds, 5 times, stratified for classes. Every split has all classes on both sides.
    """
    has_classes = data.loss.is_classification
    if cv is None:
        repeated = RepeatedStratifiedKFold if has_classes else RepeatedKFold
        cv = repeated(n_splits=3, n_repeats=5, random_state=seed)
    labels = data.labels[rows]
    groups = None if data.groups is None else data.groups[rows]
    splitter = check_cv(cv, labels, classifier=has_classes)
    splits = [
        (rows[train], rows[test])
        for train, test in splitter.split(np.zeros(len(rows)), labels, groups)
    ]
    _check_folds(splits, data, name)
    return splits


def _check_folds(splits: Splits, data: RankedData, name: str) -> None:
    """Raise a ValueError that names the first split without all classes on both sides."""
    if not splits:
        raise ValueError(f"{name} gave no splits; give an integer, a splitter or a list of splits.")
    if data.classes is None:
        return
    for number, (train, test) in enumerate(splits):
        for rows, side in ((train[data.used[train]], "training"), (test, "test")):
            missing = np.setdiff1d(data.classes, data.labels[rows])
            if missing.size:
                raise ValueError(
                    f"split {number} of {name} has no {side} sample of class {missing.tolist()[0]!r}; use "
                    "fewer folds, stratified ones, or other groups."
                )


def test_share(splits: Splits) -> float:
    """Mean of n_test / n_train over the folds."""
    return float(np.mean([len(test) / len(train) for train, test in splits]))
