"""Choosing the method and the strengths of its penalties by cross-validation.

Samples are ranked once for all folds. On each training set every method shares its first w-step over all alphas
(:mod:`suquan.solvers.grid`), f always starts from `init`, and folds run side by side with one BLAS thread each,
so that the numbers are the same for any `n_jobs`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import clone
from sklearn.model_selection import RepeatedKFold, RepeatedStratifiedKFold, check_cv
from sklearn.utils import check_random_state
from threadpoolctl import threadpool_limits

from suquan._dask._common import is_dask_array
from suquan._scoring import OutputScorer
from suquan.linear_model import (
    DEFAULT_ROUNDS,
    METHODS,
    SMOOTH_METHODS,
    EncodedData,
    SuquanClassifier,
    SuquanRegressor,
    warn_nothing_to_rank,
)
from suquan.losses import Loss, Squared
from suquan.ranking import SampleOperator, check_choice
from suquan.solvers.alternation import JointFit, intercept_only
from suquan.solvers.grid import Setting, fit_grid
from suquan.solvers.knot_grams import KnotGrams, KnotProblem

# Automatic grids in units of the number of features; see docs/design/selection.md.
ALPHA_RANGE = (1e-6, 1e-1)
SMOOTHNESS_RANGE = (1e-5, 1e-2)
# Largest size of the blocks of knots; beyond it the features are touched in every round.
KNOT_GRAMS_BYTES = 1 << 30
SELECTIONS = ("smoothed", "best", "one_se")
# What "one_se" prefers among settings that it cannot tell apart.
SIMPLEST_FIRST = ("fixed", "svd", "spav", "bnd", "f0", "joint", "crossfit")


# -- grids ------------------------------------------------------------------------------------------


def alpha_grid(alphas: Any, n_features: int) -> np.ndarray:
    """Increasing strengths: `alphas` values spread over 10⁻⁶ p … 10⁻¹ p, or the given ones."""
    if isinstance(alphas, Integral) and not isinstance(alphas, bool):
        if alphas < 1:
            raise ValueError(f"alphas must be at least 1 value; got {alphas}.")
        return np.geomspace(*ALPHA_RANGE, int(alphas)) * n_features
    return _given_grid("alphas", alphas, positive=True)


def smoothness_grid(smoothnesses: Any, n_features: int, unit: float = 1.0) -> np.ndarray:
    """Increasing strengths: 0 and values spread over 10⁻⁵ p … 10⁻² p, or the given ones."""
    if isinstance(smoothnesses, Integral) and not isinstance(smoothnesses, bool):
        if smoothnesses < 1:
            raise ValueError(f"smoothnesses must be at least 1 value; got {smoothnesses}.")
        spread = np.geomspace(*SMOOTHNESS_RANGE, int(smoothnesses) - 1)
        return np.r_[0.0, spread * n_features * unit]
    return _given_grid("smoothnesses", smoothnesses, positive=False)


def _given_grid(name: str, values: Any, *, positive: bool) -> np.ndarray:
    wanted = "positive" if positive else "non-negative"
    try:
        grid = np.unique(np.asarray(values, dtype=np.float64))
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"{name} must be a number of values or an array of {wanted} numbers; got {values!r}."
        ) from error
    if grid.size == 0 or not np.all(np.isfinite(grid)):
        raise ValueError(f"{name} must hold finite numbers; got {values!r}.")
    if grid[0] < 0 or (positive and grid[0] == 0):
        raise ValueError(f"{name} must be {wanted}; got {grid[0]:g}.")
    return grid


class Candidate(NamedTuple):
    """One setting that selection may choose."""

    method: str
    alpha: float
    smoothness: float
    max_rounds: int


def make_candidates(
    methods: Sequence[str], alphas: np.ndarray, smoothnesses: np.ndarray, max_rounds: Any = None
) -> list[Candidate]:
    """Grid of all methods; smoothness varies where it is used, rounds where there are any."""
    candidates = []
    for method in methods:
        levels = smoothnesses if method in SMOOTH_METHODS else [0.0]
        if method not in DEFAULT_ROUNDS:
            rounds = [0]
        elif max_rounds is None:
            rounds = [DEFAULT_ROUNDS[method]]
        else:
            rounds = _given_rounds(max_rounds)
        candidates += [
            Candidate(method, float(alpha), float(level), r)
            for r in rounds
            for level in levels
            for alpha in alphas
        ]
    return candidates


def _given_rounds(max_rounds: Any) -> list[int]:
    rounds = [max_rounds] if np.ndim(max_rounds) == 0 else list(max_rounds)
    if not rounds or not all(
        isinstance(r, Integral) and not isinstance(r, bool) and int(r) >= 1 for r in rounds
    ):
        raise ValueError(f"max_rounds must hold integers of at least 1; got {max_rounds!r}.")
    return sorted({int(r) for r in rounds})


# -- choosing ---------------------------------------------------------------------------------------


def smooth_scores(candidates: Sequence[Candidate], scores: np.ndarray) -> np.ndarray:
    """Score of every candidate averaged with those of the next smaller and larger smoothness."""
    smoothed = np.array(scores, dtype=np.float64)
    lines: dict[tuple, list[int]] = {}
    for k, candidate in enumerate(candidates):
        lines.setdefault((candidate.method, candidate.alpha, candidate.max_rounds), []).append(k)
    for line in lines.values():
        line.sort(key=lambda k: candidates[k].smoothness)
        for place, k in enumerate(line):
            smoothed[k] = np.mean(scores[line[max(place - 1, 0) : place + 2]])
    return smoothed


def choose(
    candidates: Sequence[Candidate],
    scores: np.ndarray,
    selection: str,
    test_share: float,
) -> int:
    """Index of the chosen candidate.

    Parameters
    ----------
    candidates : sequence of Candidate
    scores : ndarray of shape (n_candidates, n_folds)
    selection : {"smoothed", "best", "one_se"}
    test_share : float
        n_test / n_train of the folds, for the corrected standard error.
    """
    means = scores.mean(axis=1)
    if selection == "smoothed":
        means = smooth_scores(candidates, means)
    best = max(range(len(means)), key=lambda k: (means[k], candidates[k].alpha))
    n_folds = scores.shape[1]
    if selection != "one_se" or n_folds < 2:
        return best
    error = np.std(scores[best], ddof=1) * np.sqrt(1.0 / n_folds + test_share)
    within = [k for k in range(len(means)) if means[k] >= means[best] - error]

    def simplicity(k: int) -> tuple:
        candidate = candidates[k]
        simplest = SIMPLEST_FIRST.index(candidate.method)
        return simplest, -candidate.smoothness, -candidate.alpha, candidate.max_rounds

    return min(within, key=simplicity)


# -- fitting and scoring one fold -------------------------------------------------------------------


@dataclass(frozen=True)
class RankedData:
    """Samples that were ranked once, with labels and weights, for fits on any part of them."""

    operator: SampleOperator
    X: np.ndarray
    labels: np.ndarray  # as the user gave them
    y: np.ndarray  # as the loss wants them
    weights: np.ndarray
    groups: np.ndarray | None
    loss: Loss
    grams: KnotGrams | None = None

    @classmethod
    def of(cls, estimator: Any, encoded: EncodedData, groups: Any) -> RankedData:
        """Rank the samples that `estimator` has encoded."""
        return cls(
            estimator._operator(encoded.X),
            encoded.X,
            encoded.labels,
            encoded.y,
            encoded.weights,
            None if groups is None else np.asarray(groups),
            encoded.loss,
        )

    def with_knot_grams(
        self, estimator: Any, candidates: Sequence[Candidate], n_folds: int, n_jobs: int | None
    ) -> RankedData:
        """The same data with the blocks of knots of all samples, where they pay for that many fits.

        With them a round costs the same for any number of features. They need a ridge penalty, at least as many
        features as samples, few knots, and values without long ties.
        """
        n_samples, n_features = self.operator.n_samples, self.operator.n_features
        n_knots = estimator.n_knots
        n_rounds = n_folds * sum(candidate.max_rounds for candidate in candidates)
        if (
            n_knots is None
            or n_knots >= n_features
            or n_samples > n_features
            or estimator.l1_ratio > 0
            or n_rounds < n_samples
        ):
            return self
        dtype = np.dtype(
            estimator._problem(self.operator, self.loss, self.y, self.weights, 1.0).dtype
        )
        if dtype.itemsize * (n_samples * n_knots) ** 2 > KNOT_GRAMS_BYTES:
            return self
        grams = KnotGrams.of(self.operator, n_knots, dtype=dtype, n_jobs=n_jobs)
        return replace(self, grams=grams)

    def fit(
        self, estimator: Any, candidates: Sequence[Candidate], train: np.ndarray
    ) -> list[tuple[np.ndarray, JointFit]]:
        """Target and fit of every candidate on the samples `train`; intercepts where they are constant."""
        train = train[self.weights[train] > 0]
        part, y, weights = self.operator.take(train), self.y[train], self.weights[train]
        groups = None if self.groups is None else self.groups[train]
        is_constant = part.is_constant
        blocks = None if self.grams is None else self.grams.take(train, train)
        if is_constant:
            warn_nothing_to_rank()
        results: dict[int, tuple[np.ndarray, JointFit]] = {}
        for method in dict.fromkeys(candidate.method for candidate in candidates):
            places = [k for k, candidate in enumerate(candidates) if candidate.method == method]
            model = clone(estimator).set_params(method=method)
            problem = model._problem(part, self.loss, y, weights, 1.0)
            if blocks is not None:
                problem = KnotProblem.of(problem, blocks)
            g = model._start(self.X[train], weights, problem.n_knots)
            settings = [Setting(*candidates[k][1:]) for k in places]
            if is_constant:
                fits = [
                    intercept_only(replace(problem, smoothness=setting.smoothness), g)
                    for setting in settings
                ]
            else:
                splits = None
                if method == "crossfit":
                    splits = model._splits(self.loss, y, groups, weights)
                fits = fit_grid(
                    problem,
                    g,
                    method,
                    settings,
                    splits=splits,
                    tol=model.tol,
                    max_iter=model.max_iter,
                )
            results |= {
                k: (problem.expand(fit.g), fit) for k, fit in zip(places, fits, strict=True)
            }
        return [results[k] for k in range(len(candidates))]

    def score(
        self,
        estimator: Any,
        candidates: Sequence[Candidate],
        train: np.ndarray,
        test: np.ndarray,
        scorer: OutputScorer,
    ) -> np.ndarray:
        """Score of every candidate on the samples `test` after a fit to `train`."""
        with threadpool_limits(1):
            fits = self.fit(estimator, candidates, train)
            return scorer(self.outputs(fits, train, test), self.labels[test])

    def outputs(
        self, fits: Sequence[tuple[np.ndarray, JointFit]], train: np.ndarray, test: np.ndarray
    ) -> list[np.ndarray]:
        """Outputs of fits to the samples `train` for the samples `test`, each (n_test, n_outputs)."""
        held_out, cross = self.operator.take(test), None
        if self.grams is not None:
            cross = self.grams.take(test, train[self.weights[train] > 0])
        return [
            held_out.scores(fit.w, f) + fit.b
            if cross is None or fit.dual is None
            else cross.outputs(fit)
            for f, fit in fits
        ]


def make_splits(
    cv: Any, data: RankedData, rows: np.ndarray, seed: int, name: str
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Splits of the samples `rows` by the parameter `cv` of this name, as indices of all samples.

    None stands for 3 folds, 5 times, stratified for classes. Every split has all classes on both sides.
    """
    is_classifier = not isinstance(data.loss, Squared)
    if cv is None:
        repeated = RepeatedStratifiedKFold if is_classifier else RepeatedKFold
        cv = repeated(n_splits=3, n_repeats=5, random_state=seed)
    labels = data.labels[rows]
    groups = None if data.groups is None else data.groups[rows]
    splitter = check_cv(cv, labels, classifier=is_classifier)
    splits = [
        (rows[train], rows[test])
        for train, test in splitter.split(np.zeros(len(rows)), labels, groups)
    ]
    check_folds(splits, data, name)
    return splits


def check_folds(splits: list[tuple[np.ndarray, np.ndarray]], data: RankedData, name: str) -> None:
    """Raise a ValueError that names the first split without all classes on both sides."""
    if not splits:
        raise ValueError(f"{name} gave no splits; give an integer, a splitter or a list of splits.")
    if isinstance(data.loss, Squared):
        return
    classes = np.unique(data.labels[data.weights > 0])
    for number, (train, test) in enumerate(splits):
        for rows, side in ((train, "training"), (test, "test")):
            used = rows[data.weights[rows] > 0] if side == "training" else rows
            missing = np.setdiff1d(classes, data.labels[used])
            if missing.size:
                raise ValueError(
                    f"split {number} of {name} has no {side} sample of class {missing.tolist()[0]!r}; use "
                    "fewer folds, stratified ones, or other groups."
                )


# -- the estimators ---------------------------------------------------------------------------------


class _SelectionMixin:
    """Cross-validation over the grid, then one fit to all samples with the chosen setting."""

    _base: type

    def _common_parameters(self: Any) -> dict[str, Any]:
        """Parameters that all candidates share."""
        own = self.get_params(deep=False)
        names = self._base._get_param_names()
        shared = {name: own[name] for name in names if name in own and name != "max_rounds"}
        return {**shared, "cv": self.crossfit_cv, "random_state": self._seed(), "verbose": 0}

    def _seed(self: Any) -> int:
        """The seed of all folds: the given one, or one that is drawn once."""
        if isinstance(self.random_state, Integral):
            return int(self.random_state)
        return int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))

    def fit(self: Any, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> Any:
        """Choose the method and its penalties, and fit with them.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the samples in the fits.
        groups : array-like of shape (n_samples,), default=None
            For splitters that need them; also kept together in the folds of "crossfit".

        Returns
        -------
        self
        """
        if is_dask_array(X):
            raise TypeError(
                f"{type(self).__name__} chooses among fits in memory and takes no Dask array. Choose on a "
                "sample of the rows, such as X[::100].compute(), and fit with what it chose."
            )
        methods = [self.method] if isinstance(self.method, str) else list(self.method)
        for method in methods:
            check_choice("method", method, METHODS)
        if len(set(methods)) != len(methods):
            raise ValueError(f"method names each method once; got {methods}.")
        check_choice("selection", self.selection, SELECTIONS)
        if not isinstance(self.crossfit_cv, Integral) and not hasattr(self.crossfit_cv, "split"):
            raise ValueError(
                "crossfit_cv splits every training set, so that it must be an integer or a splitter; "
                f"got {self.crossfit_cv!r}."
            )
        estimator = self._base(**{**self._common_parameters(), "method": methods[0]})
        data, encoded = self._ranked(estimator, methods, X, y, sample_weight, groups)
        candidates = make_candidates(
            methods,
            alpha_grid(self.alphas, self.n_features_in_),
            smoothness_grid(self.smoothnesses, self.n_features_in_, encoded.smoothness_unit),
            self.max_rounds,
        )
        splits = make_splits(self.cv, data, np.arange(len(data.y)), self._seed(), "cv")
        data = data.with_knot_grams(estimator, candidates, len(splits), self.n_jobs)
        scores = self._score_folds(estimator, candidates, data, splits, encoded.classes)
        share = float(np.mean([len(test) / len(train) for train, test in splits]))
        best = choose(candidates, scores, self.selection, share)
        self.cv_results_ = make_cv_results(candidates, scores)
        self.best_index_ = best
        self.best_score_ = float(scores[best].mean())
        self._refit(estimator, candidates[best], X, y, sample_weight, groups)
        return self

    def _ranked(
        self: Any,
        estimator: Any,
        methods: list[str],
        X: Any,
        y: Any,
        sample_weight: Any,
        groups: Any,
    ) -> tuple[RankedData, EncodedData]:
        """Validated and encoded data, ranked once."""
        encoded = estimator._encode(X, y, sample_weight)
        for method in methods:
            clone(estimator).set_params(method=method)._check_task(encoded)
        self.n_features_in_ = estimator.n_features_in_
        data = RankedData.of(estimator, encoded, groups)
        return data, encoded

    def _score_folds(
        self: Any,
        estimator: Any,
        candidates: list[Candidate],
        data: RankedData,
        splits: list[tuple[np.ndarray, np.ndarray]],
        classes: np.ndarray | None,
    ) -> np.ndarray:
        """Scores of shape (n_candidates, n_folds)."""
        scoring = self._scoring(classes)
        scorer = OutputScorer.of(self, scoring, data.labels, data.y, classes)
        columns = Parallel(n_jobs=self.n_jobs, verbose=self.verbose)(
            delayed(data.score)(estimator, candidates, train, test, scorer)
            for train, test in splits
        )
        return np.column_stack(columns)

    def _scoring(self: Any, classes: np.ndarray | None) -> Any:
        if self.scoring is not None:
            return self.scoring
        if classes is None:
            return "r2"
        return "roc_auc" if len(classes) == 2 else "roc_auc_ovr"

    def _refit(
        self: Any,
        estimator: Any,
        chosen: Candidate,
        X: Any,
        y: Any,
        sample_weight: Any,
        groups: Any,
    ) -> None:
        """Fit to all samples with the chosen setting, and take over what that fit has."""
        model = clone(estimator).set_params(
            method=chosen.method,
            alpha=chosen.alpha,
            smoothness=chosen.smoothness,
            max_rounds=chosen.max_rounds or None,
        )
        model.fit(X, y, sample_weight=sample_weight, groups=groups)
        self.best_estimator_ = model
        self.method_ = chosen.method
        fitted = {name: value for name, value in vars(model).items() if name.endswith("_")}
        vars(self).update(fitted)
        # The strengths asked for: a method without smoothness was chosen at 0.
        self.alpha_, self.smoothness_ = chosen.alpha, chosen.smoothness


def make_cv_results(candidates: Sequence[Candidate], scores: np.ndarray) -> dict[str, Any]:
    """Scores of a grid under scikit-learn's keys."""
    results: dict[str, Any] = {
        f"param_{name}": np.array([getattr(candidate, name) for candidate in candidates])
        for name in Candidate._fields
    }
    results["params"] = [candidate._asdict() for candidate in candidates]
    for k in range(scores.shape[1]):
        results[f"split{k}_test_score"] = scores[:, k]
    results["mean_test_score"] = scores.mean(axis=1)
    results["std_test_score"] = scores.std(axis=1)
    order = np.argsort(-results["mean_test_score"], kind="stable")
    ranks = np.empty(len(order), dtype=np.int32)
    ranks[order] = np.arange(1, len(order) + 1)
    results["rank_test_score"] = ranks
    return results


class SuquanClassifierCV(_SelectionMixin, SuquanClassifier):
    """:class:`SuquanClassifier` with method and penalties chosen by cross-validation.

    Parameters
    ----------
    method : str or list of str, default="crossfit"
        Methods to choose from; see :class:`SuquanClassifier`.
    alphas : int or array-like, default=7
        Strengths of the penalty on w: given ones, or the number of values spread evenly over the logarithm of
        10⁻⁶ p … 10⁻¹ p, with p the number of features.
    smoothnesses : int or array-like, default=5
        Weights of the squared differences of f: given ones, or the number of values, 0 and the others spread
        over 10⁻⁵ p … 10⁻² p.
    cv : int, splitter or iterable of splits, default=None
        None: 3 stratified folds, 5 times.
    crossfit_cv : int or splitter, default=5
        Folds inside "crossfit".
    scoring : str or callable, default=None
        Any scikit-learn scorer; None: "roc_auc", "roc_auc_ovr" for more than two classes.
    selection : {"smoothed", "best", "one_se"}, default="smoothed"
        "best": the setting with the best mean score. "smoothed": the same, each score first averaged with
        those of the next smaller and larger smoothness. "one_se": the simplest setting within one standard
        error, s·√(1/J + n_test/n_train) over J folds, of the best: the simpler method, then the larger
        smoothness, then the larger alpha.
    l1_ratio, init, n_knots, n_repeats, ties, missing, fit_intercept, class_weight, tol, max_iter
        As in :class:`SuquanClassifier`.
    max_rounds : int or list of int, default=None
        A list is chosen from.
    n_jobs : int, default=None
        Folds side by side. The result does not depend on it.
    random_state : int, RandomState instance or None, default=None
        Draws the folds.
    verbose : int, default=0
        joblib's.

    Attributes
    ----------
    method_, alpha_, smoothness_
        What was chosen.
    best_score_ : float
        Its mean score over the folds.
    best_index_ : int
        Its place in `cv_results_`.
    cv_results_ : dict of arrays
        Settings ("param_…", "params") and scores ("split0_test_score", …, "mean_test_score",
        "std_test_score", "rank_test_score").
    best_estimator_ : SuquanClassifier
        The model fitted to all samples; its attributes are also this estimator's.

    Examples
    --------
    >>> from suquan import SuquanClassifierCV
    >>> from suquan.datasets import make_corrupted_classification
    >>> X, y = make_corrupted_classification(60, 30, random_state=0)
    >>> model = SuquanClassifierCV(alphas=3, smoothnesses=2, cv=3, random_state=0).fit(X, y)
    >>> len(model.cv_results_["mean_test_score"])
    6
    """

    _base = SuquanClassifier

    def __init__(
        self,
        method: Any = "crossfit",
        *,
        alphas: Any = 7,
        smoothnesses: Any = 5,
        cv: Any = None,
        crossfit_cv: Any = 5,
        scoring: Any = None,
        selection: str = "smoothed",
        l1_ratio: float = 0.0,
        init: Any = "uniform",
        max_rounds: Any = None,
        n_knots: int | None = None,
        n_repeats: int = 3,
        ties: str = "average",
        missing: str = "error",
        fit_intercept: bool = True,
        class_weight: Any = None,
        tol: float = 1e-4,
        max_iter: int = 500,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.method = method
        self.alphas = alphas
        self.smoothnesses = smoothnesses
        self.cv = cv
        self.crossfit_cv = crossfit_cv
        self.scoring = scoring
        self.selection = selection
        self.l1_ratio = l1_ratio
        self.init = init
        self.max_rounds = max_rounds
        self.n_knots = n_knots
        self.n_repeats = n_repeats
        self.ties = ties
        self.missing = missing
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight
        self.tol = tol
        self.max_iter = max_iter
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose


class SuquanRegressorCV(_SelectionMixin, SuquanRegressor):
    """:class:`SuquanRegressor` with method and penalties chosen by cross-validation.

    Parameters
    ----------
    method : str or list of str, default="crossfit"
        Methods to choose from; all but "svd".
    alphas, smoothnesses, crossfit_cv, selection, max_rounds, n_jobs, random_state, verbose
        As in :class:`SuquanClassifierCV`; automatic smoothnesses are also in units of the variance of y.
    cv : int, splitter or iterable of splits, default=None
        None: 3 shuffled folds, 5 times.
    scoring : str or callable, default=None
        Any scikit-learn scorer; None: R².
    l1_ratio, init, n_knots, n_repeats, ties, missing, fit_intercept, tol, max_iter
        As in :class:`SuquanClassifier`.

    Attributes
    ----------
    method_, alpha_, smoothness_, best_score_, best_index_, cv_results_, best_estimator_
        As in :class:`SuquanClassifierCV`.

    Examples
    --------
    >>> import numpy as np
    >>> from suquan import SuquanRegressorCV
    >>> X = np.random.default_rng(0).standard_normal((60, 30))
    >>> model = SuquanRegressorCV(alphas=3, smoothnesses=2, cv=3, random_state=0).fit(X, X[:, 0])
    >>> model.alpha_ in model.cv_results_["param_alpha"]
    True
    """

    _base = SuquanRegressor

    def __init__(
        self,
        method: Any = "crossfit",
        *,
        alphas: Any = 7,
        smoothnesses: Any = 5,
        cv: Any = None,
        crossfit_cv: Any = 5,
        scoring: Any = None,
        selection: str = "smoothed",
        l1_ratio: float = 0.0,
        init: Any = "uniform",
        max_rounds: Any = None,
        n_knots: int | None = None,
        n_repeats: int = 3,
        ties: str = "average",
        missing: str = "error",
        fit_intercept: bool = True,
        tol: float = 1e-4,
        max_iter: int = 500,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.method = method
        self.alphas = alphas
        self.smoothnesses = smoothnesses
        self.cv = cv
        self.crossfit_cv = crossfit_cv
        self.scoring = scoring
        self.selection = selection
        self.l1_ratio = l1_ratio
        self.init = init
        self.max_rounds = max_rounds
        self.n_knots = n_knots
        self.n_repeats = n_repeats
        self.ties = ties
        self.missing = missing
        self.fit_intercept = fit_intercept
        self.tol = tol
        self.max_iter = max_iter
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose
