"""Folds of selection and comparison: samples ranked once, fits on any part of them, and the scores of these.

Scores are those of any scikit-learn scorer, of outputs that are known already.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import rankdata
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.metrics import check_scoring
from sklearn.model_selection import RepeatedKFold, RepeatedStratifiedKFold, check_cv
from threadpoolctl import threadpool_limits

from suquan.fitting import (
    Samples,
    Settings,
    crossfit_splits,
    decision_values,
    fit_weights,
    make_problem,
    make_start,
    predicted_classes,
    rank,
    warn_nothing_to_rank,
)
from suquan.losses import Loss, classes_of_folds
from suquan.matrix_model import fit_targets
from suquan.methods import Method
from suquan.objective import FLOAT64_ENTRIES, JointFit, Splits, fit_grid, intercept_only
from suquan.ranking import SampleOperator
from suquan.solvers.knot_grams import KnotProblem, knot_grams, knot_products
from suquan.solvers.spectral import spectral_target
from suquan.survival import concordance
from suquan.targets import learn_target

# Largest size of the blocks of knots; beyond it the features are touched in every round.
KNOT_GRAMS_BYTES = 1 << 30


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
        groups = None if groups is None else np.asarray(groups)
        return cls(**vars(samples), operator=rank(settings, samples.X), groups=groups)

    def with_knot_grams(
        self, settings: Settings, candidates: Sequence[Candidate], n_folds: int, n_jobs: int | None
    ) -> RankedData:
        """The same data with the blocks of knots of all samples, where they pay for that many fits.

        With them a round costs the same for any number of features. They need a ridge penalty, at least as many
        features as samples, few knots, and values without long ties.
        """
        n_samples, n_features = self.operator.n_samples, self.operator.n_features
        numbers = {c.method.knots(settings.n_knots, n_features) for c in candidates}
        n_knots = min(numbers, default=n_features)
        n_rounds = n_folds * sum(max(c.max_rounds, bool(c.method.norm)) for c in candidates)
        pays = n_knots < n_features and n_samples <= min(n_features, n_rounds)
        if not pays or settings.l1_ratio > 0 or len(numbers) > 1:
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
        problem = make_problem(settings, self.operator, self.loss, self.y, self.weights)
        if self.grams is not None:
            problem = (
                problem.with_blocks(self.grams)
                if settings.method.norm
                else KnotProblem(**vars(problem), grams=self.grams)
            )
        learn = partial(learn_target, X, operator=self.operator, sample_weight=self.weights)
        g = make_start(settings, X.shape[1], problem.n_knots, learn)
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
        held_out, own = self.operator.take(test), train[self.used[train]]
        cross = None if self.grams is None else self.grams[np.ix_(test, own)]
        return [
            held_out.scores(fit.w, f) + fit.b
            if cross is None or fit.dual is None
            else knot_products(cross, fit.g)[1] @ fit.dual.T + fit.b
            for f, fit in fits
        ]


def make_splits(cv: Any, data: RankedData, rows: np.ndarray, seed: int, name: str) -> Splits:
    """Splits of the samples `rows` by the parameter `cv` of this name, as indices of all samples.

    None stands for 3 folds, 5 times, stratified for classes. Every split has all classes on both sides.
    """
    has_classes = data.loss.is_classification
    labels = data.labels[rows]
    if not has_classes:
        n_folds = cv if isinstance(cv, Integral) else getattr(cv, "cvargs", {}).get("n_splits", 3)
        labels = classes_of_folds(data.loss, data.y[rows], int(n_folds))
    if cv is None:
        repeated = RepeatedKFold if labels is None else RepeatedStratifiedKFold
        cv = repeated(n_splits=3, n_repeats=5, random_state=seed)
    groups = None if data.groups is None else data.groups[rows]
    splitter = check_cv(cv, labels, classifier=labels is not None)
    splits = [
        (rows[train], rows[test])
        for train, test in splitter.split(np.zeros(len(rows)), labels, groups)
    ]
    if not splits:
        raise ValueError(f"{name} gave no splits; give an integer, a splitter or a list of splits.")
    classes: Any = data.classes
    for number, (train, test) in enumerate(splits if has_classes else ()):
        for side, part in (("training", train[data.used[train]]), ("test", test)):
            missing = np.setdiff1d(classes, data.labels[part])
            if missing.size:
                raise ValueError(
                    f"split {number} of {name} has no {side} sample of class {missing.tolist()[0]!r}; use "
                    "fewer folds, stratified ones, or other groups."
                )
    return splits


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

    @classmethod
    def of(cls, estimator: Any, scoring: Any, samples: Samples) -> OutputScorer:
        """Scorer of this name or function; a ValueError where it cannot score the samples' task at all."""
        loss, classes = samples.loss, samples.classes
        found = check_scoring(estimator, scoring=_SCORERS.get(scoring, scoring))
        made = cls(found, scoring, loss, classes)
        task, known = "times to event" if loss.couples_samples else "regression", samples.used
        if classes is not None:
            task = f"classification with {len(classes)} classes"
            known = np.isin(samples.labels, classes)
        labels = samples.labels[known]
        constant = loss.best_constant(samples.y[known], np.ones(len(labels)))
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                made._of_output(np.tile(constant, (len(labels), 1)), labels)
        except (AttributeError, TypeError, ValueError) as error:
            raise ValueError(f"scoring={scoring!r} does not fit {task}: {error}") from error
        return made

    def __call__(self, outputs: Sequence[np.ndarray], labels: np.ndarray) -> np.ndarray:
        """Scores of several models on the same samples, (n_models,)."""
        classes = self.classes
        if classes is not None and len(classes) == 2 and self.scoring == "roc_auc":
            u = np.stack([decision_values(u, classes) for u in outputs])
            return roc_auc(u, labels == classes[1])
        return np.array([self._of_output(u, labels) for u in outputs])

    def of_model(self, model: Any, X: np.ndarray, labels: np.ndarray) -> float:
        """Score of any fitted estimator."""
        return float(self.scorer(model, X, labels))

    def _of_output(self, u: np.ndarray, labels: np.ndarray) -> float:
        kind = _KnownRegressor if self.classes is None else _KnownClassifier
        known = kind(u, self.loss, self.classes)
        return self.of_model(known, np.zeros((len(labels), 1)), labels)


def roc_auc(u: np.ndarray, is_positive: np.ndarray) -> np.ndarray:
    """Areas under the ROC curves of the rows of u, (n_models, n_samples).

    AUC = (mean rank of the positive samples − (n₊ + 1)/2) / n₋, ranks from 1, equal values sharing theirs.
    """
    n_positive = np.count_nonzero(is_positive)
    ranks = rankdata(u, axis=1)[:, is_positive].mean(axis=1)
    return (ranks - (n_positive + 1) / 2) / (len(is_positive) - n_positive)


def score_concordance(model: Any, X: Any, y: Any) -> float:
    """Scorer "concordance": Harrell's, of the risks that a model predicts."""
    return concordance(y, model.predict(X))


_SCORERS: dict[Any, Any] = {"concordance": score_concordance}


class _Known(BaseEstimator):
    """Estimator whose outputs on the next samples are known, for scorers that ask an estimator."""

    def __init__(self, u: np.ndarray, loss: Loss, classes: Any = None) -> None:
        self.u, self.loss, self.classes = u, loss, classes
        self.classes_ = classes

    def predict(self, X: Any) -> np.ndarray:
        """Classes or values."""
        if self.classes is None:
            return self.loss.mean(self.u)
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
        """Probabilities that follow from them."""
        return self.loss.mean(self.u)
