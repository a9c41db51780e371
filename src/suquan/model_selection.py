"""Choosing the method and the strengths of its penalties by cross-validation.

Samples are ranked once for all folds. On each training set every method shares its first w-step over all alphas
(:func:`suquan.objective.fit_grid`), f always starts from `init`, and folds run side by side with one
BLAS thread each, so that the numbers are the same for any `n_jobs`. :func:`suquan.compare` uses the same parts.
"""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from numbers import Integral
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from sklearn.utils import check_random_state

from suquan._blocks import is_dask_array
from suquan._validation import check_choice, check_real
from suquan.calibration import apply_calibration, centre_scores, check_calibration
from suquan.fitting import Settings, check_method, decision_values, encode, forget
from suquan.folds import (
    Candidate,
    OutOfFold,
    OutputScorer,
    RankedData,
    corrected_error,
    make_splits,
    test_share,
    usable_calibration,
)
from suquan.linear_model import SuquanClassifier, SuquanRegressor, keep_parameters
from suquan.methods import Method, resolve_method

# Automatic grids in units of the number of features; see docs/design/selection.md. That of the trace norm is in
# units of its root.
ALPHA_RANGE = (1e-6, 1e-1)
ALPHA_RANGE_TRACE, ALPHA_RANGE_FROBENIUS = (3e-4, 1e-1), (1e-5, 1.0)
SMOOTHNESS_RANGE = (1e-5, 1e-2)
SELECTIONS = ("smoothed", "best", "one_se")
# Parts of the way from the start to a cross-fitted target that are tried; see docs/design/no_harm.md.
DEPARTURES = (0.0, 0.5, 1.0)
# Mean scores (and losses) that are this close tie: sums of the same numbers differ by their rounding.
_TIE = 1e-12


# -- grids ------------------------------------------------------------------------------------------


def alpha_grid(
    alphas: Any, n_features: int, method: Method | None = None, unit: float = 1.0
) -> np.ndarray:
    """Increasing strengths: `alphas` values spread over 10⁻⁶ p … 10⁻¹ p units, or the given ones.

    For "matrix" they are spread over 10⁻⁵ p … p, for "multi" over 3·10⁻⁴ √p … 10⁻¹ √p.
    """
    n_values, given = _grid("alphas", alphas, "positive")
    if not n_values:
        return given
    norm = None if method is None else method.norm
    if norm == "trace":
        return np.geomspace(*ALPHA_RANGE_TRACE, n_values) * np.sqrt(n_features) * unit
    limits = ALPHA_RANGE_FROBENIUS if norm else ALPHA_RANGE
    return np.geomspace(*limits, n_values) * n_features * unit


def smoothness_grid(smoothnesses: Any, n_features: int, unit: float = 1.0) -> np.ndarray:
    """Increasing strengths: 0 and values spread over 10⁻⁵ p … 10⁻² p, or the given ones."""
    n_values, given = _grid("smoothnesses", smoothnesses, "non-negative")
    if not n_values:
        return given
    return np.r_[0.0, np.geomspace(*SMOOTHNESS_RANGE, n_values - 1) * n_features * unit]


def _grid(name: str, values: Any, wanted: str) -> tuple[int, np.ndarray]:
    """Number of strengths to spread, and no strengths; or 0 and the given ones, sorted."""
    if isinstance(values, Integral) and not isinstance(values, bool):
        if values < 1:
            raise ValueError(f"{name} must be at least 1 value; got {values}.")
        return int(values), np.empty(0)
    try:
        grid = np.unique(np.asarray(values, dtype=np.float64))
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"{name} must be a number of values or an array of {wanted} numbers; got {values!r}."
        ) from error
    if grid.size == 0 or not np.all(np.isfinite(grid)):
        raise ValueError(f"{name} must hold finite numbers; got {values!r}.")
    if grid[0] < 0 or (wanted == "positive" and grid[0] == 0):
        raise ValueError(f"{name} must be {wanted}; got {grid[0]:g}.")
    return 0, grid


def make_candidates(
    methods: Sequence[Any],
    alphas: np.ndarray | Callable[[Method], np.ndarray],
    smoothnesses: np.ndarray,
    max_rounds: Any = None,
    n_targets: Any = None,
    departures: Any = None,
) -> list[Candidate]:
    """Grid of all methods; smoothness varies where it is used, rounds, targets, departures where there are any.

    `alphas` are the same for all methods, or given by a function of the method.
    """
    numbers = list(n_targets) if isinstance(n_targets, (list, tuple)) else [n_targets]
    given = None if max_rounds is None else _given_rounds(max_rounds)
    return [
        Candidate(method, float(alpha), float(level), rounds if departure else 0, number, departure)
        for method in map(resolve_method, methods)
        for departure in _departures_of(method, departures)
        for rounds in (given if given and method.max_rounds and departure else [method.max_rounds])
        for number in (numbers if method.norm == "trace" else [None])
        for level in (smoothnesses if method.is_smooth and departure else [0.0])
        for alpha in (alphas(method) if callable(alphas) else alphas)
    ]


def _departures_of(method: Method, departures: Any) -> list[float]:
    """Parts of the way to the target of a method that are tried, the smallest first."""
    if departures is None:
        return list(DEPARTURES) if method.is_crossfit else [1.0]
    grid = _grid("departures", np.atleast_1d(departures), "non-negative")[1]
    if grid[-1] > 1.0:
        raise ValueError(f"departures must be at most 1; got {grid[-1]:g}.")
    return grid.tolist() if method.max_rounds and method.norm is None else [1.0]


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
        method, *rest = candidate._replace(smoothness=0.0)
        line_of = method.name, *rest
        lines.setdefault(line_of, []).append(k)
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
    min_gain: float = 0.0,
    losses: np.ndarray | None = None,
) -> int:
    """Index of the chosen candidate.

    The best one says which method. Of its departures the smallest is kept, at its own best setting, unless a
    larger one, at its own, is better by `min_gain` standard errors of the paired difference. Where scores tie,
    the setting with the smaller loss is the better one, and then that with the larger alpha.

    Parameters
    ----------
    candidates : sequence of Candidate
    scores : ndarray of shape (n_candidates, n_folds)
    selection : {"smoothed", "best", "one_se"}
    test_share : float
        n_test / n_train of the folds, for the corrected standard error.
    min_gain : float, default=0.0
    losses : ndarray of shape (n_candidates,), default=None
        Mean out-of-fold losses.
    """
    losses = np.zeros(len(candidates)) if losses is None else losses
    kept = _best(range(len(candidates)), candidates, scores, losses, selection, test_share)
    levels: dict[float, list[int]] = {}
    for k, candidate in enumerate(candidates):
        if candidate.method.name == candidates[kept].method.name:
            levels.setdefault(candidate.departure, []).append(k)
    if len(levels) == 1:
        return kept
    first, *larger = (
        _best(levels[departure], candidates, scores, losses, selection, test_share)
        for departure in sorted(levels)
    )
    kept = first
    for k in larger:
        gains = scores[k] - scores[kept]
        if np.mean(gains) > min_gain * corrected_error(gains, test_share):
            kept = k
    return kept


def _best(
    places: Sequence[int],
    all_candidates: Sequence[Candidate],
    all_scores: np.ndarray,
    all_losses: np.ndarray,
    selection: str,
    test_share: float,
) -> int:
    """Index of the chosen one of the candidates at these places, whatever their departures."""
    candidates, scores = [all_candidates[k] for k in places], all_scores[list(places)]
    losses = all_losses[list(places)]
    own = means = scores.mean(axis=1)
    if selection == "smoothed":
        means = smooth_scores(candidates, own)
    best = max(range(len(means)), key=lambda k: (means[k], candidates[k].alpha))
    ties = np.flatnonzero((np.abs(own - own[best]) <= _TIE) & (means >= means[best] - _TIE))
    first = {k: (round(float(losses[k]), 12), k != best) for k in ties.tolist()}
    best = min(first, key=first.__getitem__, default=best)
    n_folds = scores.shape[1]
    if selection != "one_se" or n_folds < 2:
        return places[best]
    error = corrected_error(scores[best], test_share)
    within = [k for k in range(len(means)) if means[k] >= means[best] - error]

    def simplicity(k: int) -> tuple:
        method, alpha, smoothness, max_rounds, n_targets, departure = candidates[k]
        size = n_targets or np.inf, departure
        return method.complexity, *size, -smoothness, -alpha, max_rounds

    return places[min(within, key=simplicity)]


# -- the estimators ---------------------------------------------------------------------------------


class SelectionMixin:
    """Cross-validation over the grid, then one fit to all samples with the chosen setting."""

    _base: type

    def fit(self: Any, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> Any:
        """Choose the method and its penalties, and fit with them.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the samples in the fits, in the calibration, and in the scores of a scorer that takes
            `sample_weight`. Samples of weight 0 belong to no fold.
        groups : array-like of shape (n_samples,), default=None
            Samples of one group stay together in the folds that None and an integer `cv` stand for, and in
            those of "crossfit"; splitters get them.

        Returns
        -------
        self
        """
        if is_dask_array(X):
            raise TypeError(
                f"{type(self).__name__} chooses among fits in memory and takes no Dask array. Choose on a "
                "sample of the rows, such as X[::100].compute(), and fit with what it chose."
            )
        forget(self)
        given = self._given_methods()
        check_choice("selection", self.selection, SELECTIONS)
        check_real("min_gain", self.min_gain, "[0, ∞)")
        if not isinstance(self.crossfit_cv, Integral) and not hasattr(self.crossfit_cv, "split"):
            raise ValueError(
                "crossfit_cv splits every training set, so that it must be an integer or a splitter; "
                f"got {self.crossfit_cv!r}."
            )
        seed = self.random_state  # one for all folds: the given one, or one that is drawn once
        if not isinstance(seed, Integral):
            seed = check_random_state(seed).randint(np.iinfo(np.int32).max)
        own = self.get_params(deep=False)
        shared = {name: own[name] for name in self._base._get_param_names() if name in own}
        shared |= {
            "cv": self.crossfit_cv,
            "random_state": int(seed),
            "verbose": 0,
            "max_rounds": None,
            "n_targets": None,
        }
        shared["method"] = next(iter(given.values()))
        settings = Settings.of(self._base(**shared))
        samples = encode(self, settings, X, y, sample_weight)
        for method in given.values():
            check_method(settings.with_method(resolve_method(method)), samples)
        self._check_targets(settings, given, samples)
        if samples.classes is not None:
            check_calibration(self.calibration, len(samples.classes))
        data = RankedData.of(settings, samples, groups)
        everyone, p = np.arange(len(data.y)), self.n_features_in_
        unit = data.smoothness_unit(settings, everyone)
        candidates = make_candidates(
            list(given.values()),
            lambda method: alpha_grid(
                self.alphas, p, method, settings.with_method(method).penalty_units(data.units)[0]
            ),
            smoothness_grid(self.smoothnesses, p, unit),
            self.max_rounds,
            self.n_targets,
            self.departures,
        )
        splits = make_splits(self.cv, data, everyone, int(seed), "cv")
        calibration = usable_calibration(own.get("calibration"), splits, data, "cv")
        scorer = OutputScorer.of(self, self._scoring(data.classes), data)
        folds = Parallel(n_jobs=self.n_jobs, verbose=self.verbose)(
            delayed(data.score)(settings, candidates, train, test, scorer) for train, test in splits
        )
        scores, losses = (
            np.column_stack([getattr(fold, name) for fold in folds])
            for name in ("scores", "losses")
        )
        share, loss = test_share(splits), losses.mean(axis=1)
        self.best_index_ = choose(candidates, scores, self.selection, share, self.min_gain, loss)
        self.cv_results_ = make_cv_results(candidates, scores)
        if data.classes is not None:
            self.cv_results_["mean_test_log_loss"] = loss
            outputs = [fold.outputs[self.best_index_] for fold in folds]
            kept = OutOfFold.of(data, settings, splits, outputs)
            self.out_of_fold_scores_, self.out_of_fold_samples_ = kept.scores, kept.samples
            self.calibration_ = kept.calibrate(calibration, data, settings)
        self.best_score_ = float(scores[self.best_index_].mean())
        chosen = candidates[self.best_index_]
        shared |= {
            "method": given[chosen.method.name],
            "alpha": chosen.alpha,
            "smoothness": chosen.smoothness,
            "max_rounds": chosen.max_rounds or None,
            "n_targets": chosen.n_targets,
            "departure": chosen.departure,
        }
        model = self._base(**shared)
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(self, name):
                setattr(model, name, getattr(self, name))
        data.fit_estimator(model)
        if data.loss.couples_samples:
            model._fit_baseline(X, data.labels, data.weights)
        self.best_estimator_, self.method_ = model, chosen.method.name
        vars(self).update({name: v for name, v in vars(model).items() if name.endswith("_")})
        # The strengths asked for: a method without smoothness was chosen at 0.
        self.alpha_, self.smoothness_ = chosen.alpha, chosen.smoothness
        self.departure_ = chosen.departure
        if getattr(self, "calibration_", None) is not None and len(self.classes_) == 2:
            self._shift_scores()
        return self

    def _check_targets(self: Any, settings: Settings, given: dict[str, Any], samples: Any) -> None:
        """Raise a ValueError for a number of targets that no method has."""
        numbers = self.n_targets if isinstance(self.n_targets, (list, tuple)) else [self.n_targets]
        if not numbers:
            raise ValueError("n_targets must be None, an integer or a list of integers; got none.")
        rows = [resolve_method(method) for method in given.values()]
        row = next((row for row in rows if row.norm == "trace"), rows[0])
        for number in numbers:
            check_method(replace(settings, method=row, n_targets=number), samples)

    def _given_methods(self: Any) -> dict[str, Any]:
        """Methods to choose from, as the user gave them, by name."""
        given = list(self.method) if isinstance(self.method, (list, tuple)) else [self.method]
        methods = {resolve_method(method).name: method for method in given}
        if len(methods) != len(given) or not given:
            raise ValueError(f"method names each method once; got {given}.")
        return methods

    def _scoring(self: Any, classes: np.ndarray | None) -> Any:
        if self.scoring is not None or classes is None:
            return self.scoring or "r2"
        return "roc_auc" if len(classes) == 2 else "roc_auc_ovr"


def make_cv_results(candidates: Sequence[Candidate], scores: np.ndarray) -> dict[str, Any]:
    """Scores of a grid under scikit-learn's keys."""
    params = [{**c._asdict(), "method": c.method.name} for c in candidates]
    if not any(c.method.norm == "trace" for c in candidates):
        params = [{k: v for k, v in values.items() if k != "n_targets"} for values in params]
    results: dict[str, Any] = {
        f"param_{name}": np.array([np.nan if v[name] is None else v[name] for v in params])
        for name in params[0]
    }
    results["params"] = params
    for k in range(scores.shape[1]):
        results[f"split{k}_test_score"] = scores[:, k]
    results["mean_test_score"] = scores.mean(axis=1)
    results["std_test_score"] = scores.std(axis=1)
    results["rank_test_score"] = ranks_of(results["mean_test_score"]).astype(np.int32)
    return results


def ranks_of(means: np.ndarray) -> np.ndarray:
    """Ranks from 1, the largest first; equal ones in their order."""
    return np.argsort(np.argsort(-means, kind="stable")) + 1


class SuquanClassifierCV(SelectionMixin, SuquanClassifier):
    """:class:`SuquanClassifier` with method and penalties chosen by cross-validation.

    Parameters
    ----------
    method : method or list of methods, default="crossfit"
        Methods to choose from, by name or as objects; see :class:`SuquanClassifier`.
    alphas : int or array-like, default=7
        Strengths of the penalty on w: given ones, or the number of values spread evenly over the logarithm of
        10⁻⁶ p … 10⁻¹ p, with p the number of features; of 10⁻⁵ p … p for "matrix", and
        of 3·10⁻⁴ √p … 10⁻¹ √p for "multi".
    smoothnesses : int or array-like, default=5
        Weights of the squared differences of f: given ones, or the number of values, 0 and the others spread
        over 10⁻⁵ p … 10⁻² p.
    cv : int, splitter or iterable of splits, default=None
        None: 3 stratified folds, 5 times; an integer: that many, once. Both are shuffled by `random_state`.
    crossfit_cv : int or splitter, default=5
        Folds inside "crossfit".
    scoring : str or callable, default=None
        Any scikit-learn scorer; None: "roc_auc", "roc_auc_ovr" for more than two classes. It sees scores
        and probabilities before calibration.
    selection : {"smoothed", "best", "one_se"}, default="smoothed"
        "best": the setting with the best mean score; of those that tie, the one with the smallest out-of-fold
        log loss. "smoothed": the same, each score first averaged with
        those of the next smaller and larger smoothness. "one_se": the simplest setting within one standard
        error, s·√(1/J + n_test/n_train) over J folds, of the best: the simpler method, then the larger
        smoothness, then the larger alpha.
    departures : array-like of float, default=None
        Parts of the way from the start to the learned target that are tried, in [0, 1]; 0 is the start itself,
        which a target learned from few samples often loses to. None: 0, ½ and 1 for "crossfit", 1 for
        the other methods.
    min_gain : float, default=0.5
        Price of a departure: a larger one is chosen only where its mean score, at its own best setting, exceeds
        that of the smaller one by more than `min_gain` standard errors, s·√(1/J + n_test/n_train), of their
        paired difference.
    calibration : {"sigmoid", "isotonic"} or None, default="sigmoid"
        How :meth:`predict_proba` and :meth:`predict` make probabilities of scores. Selection by the area under
        the ROC curve sees the order of scores alone, so that strong penalties may leave all probabilities
        near the prevalence. A curve is fitted to the out-of-fold scores of the chosen setting, weighted as in
        the fit (a sample tested R times with 1/R of its weight each time), less what the classes of each
        fold's training samples alone make of them: see :func:`suquan.calibration.fit_calibration`.
        "isotonic" is for two classes; more have one temperature. The scores of two classes are shifted, so that
        0 is where the probability passes ½. None: the probabilities of the loss; "sigmoid" becomes None with a
        warning where a fold tests fewer than two samples of a class.
    l1_ratio, init, n_knots, n_repeats, ties, missing, fit_intercept, class_weight, loss, tol, max_iter
        As in :class:`SuquanClassifier`; "balanced" counts the classes of each fold's training samples.
    feature_scaling : {"none", "std"}, default="none"
        As in :class:`SuquanClassifier`; the deviations are those of each fold's training samples, so that
        folds share no Gram matrix and selection takes longer.
    max_rounds : int or list of int, default=None
        A list is chosen from.
    n_targets : int or list of int, default=None
        Largest number of targets of "multi"; a list is chosen from.
    n_jobs : int, default=None
        Folds side by side. The result does not depend on it.
    random_state : int, RandomState instance or None, default=None
        Draws the folds.
    verbose : int, default=0
        joblib's.

    Attributes
    ----------
    method_, alpha_, smoothness_, departure_
        What was chosen; the method by its name. `departure_` is 0 where the start was kept.
    best_score_ : float
        Its mean score over the folds.
    best_index_ : int
        Its place in `cv_results_`.
    cv_results_ : dict of arrays
        Settings (`"param_…"`, `"params"`), scores ("split0_test_score", …, "mean_test_score",
        "std_test_score", "rank_test_score") and out-of-fold loss of the scores as they are
        ("mean_test_log_loss"), which decides where scores tie.
    out_of_fold_scores_ : ndarray of shape (n_rows,), or (n_rows, n_classes) for more than two classes
        Scores that the chosen setting gave to test samples, fold after fold, shifted as those of the model.
    out_of_fold_samples_ : ndarray of shape (n_rows,), int
        Which training samples these are; repeated folds have a sample several times.
    calibration_ : dict or None
        What was fitted to them: "kind", with "slope" and "intercept" of "sigmoid", "scores" and
        "probabilities" of "isotonic", "temperature" of more than two classes.
    best_estimator_ : SuquanClassifier
        The model fitted to all samples; its attributes are also this estimator's, but for the shift of
        `intercept_`. It is not calibrated.

    Examples
    --------
    >>> from suquan import SuquanClassifierCV
    >>> from suquan.datasets import make_corrupted_classification
    >>> X, y = make_corrupted_classification(60, 30, random_state=0)
    >>> model = SuquanClassifierCV(alphas=3, smoothnesses=2, cv=3, random_state=0).fit(X, y)
    >>> len(model.cv_results_["mean_test_score"])  # 3 of the start, 6 half-way, 6 of the learned target
    15
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
        departures: Any = None,
        min_gain: float = 0.5,
        calibration: str | None = "sigmoid",
        l1_ratio: float = 0.0,
        init: Any = "uniform",
        max_rounds: Any = None,
        n_targets: Any = None,
        n_knots: int | str | None = "auto",
        n_repeats: int = 3,
        ties: str = "average",
        missing: str = "error",
        fit_intercept: bool = True,
        feature_scaling: str = "none",
        class_weight: Any = None,
        loss: Any = "auto",
        tol: float = 1e-4,
        max_iter: int = 500,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        keep_parameters(self, locals())

    def _probabilities_at(self, u: np.ndarray) -> np.ndarray:
        calibration = getattr(self, "calibration_", None)  # files of older versions have none
        if calibration is None:
            return super()._probabilities_at(u)
        return apply_calibration(calibration, decision_values(u, self.classes_))

    def _shift_scores(self) -> None:
        """Shift the scores of two classes so that 0 is where the probability of the second passes ½."""
        found = centre_scores(self.calibration_)
        if found is None:
            only = self.classes_[np.argmax(apply_calibration(self.calibration_, np.zeros(1)))]
            warnings.warn(
                f"the calibrated probability never passes 0.5, so that predict gives {only!s} for all samples: "
                "the cross-validated scores do not separate the classes.",
                stacklevel=3,
            )
            return
        shift, self.calibration_ = found
        self.out_of_fold_scores_ -= shift
        self.intercept_ = self.intercept_.copy()  # that of best_estimator_ stays
        self.intercept_[-1] -= shift

    def _classes_at(self, u: np.ndarray) -> np.ndarray:
        if getattr(self, "calibration_", None) is None:
            return super()._classes_at(u)
        return self.classes_[np.argmax(self._probabilities_at(u), axis=1)]


class SuquanRegressorCV(SelectionMixin, SuquanRegressor):
    """:class:`SuquanRegressor` with method and penalties chosen by cross-validation.

    Parameters
    ----------
    method : method or list of methods, default="crossfit"
        Methods to choose from; all but "svd".
    alphas, smoothnesses, crossfit_cv, selection, departures, min_gain, max_rounds, n_targets
        As in :class:`SuquanClassifierCV`; automatic smoothnesses are also in units of the variance of y.
    n_jobs, random_state, verbose
        As in :class:`SuquanClassifierCV`.
    cv : int, splitter or iterable of splits, default=None
        None: 3 folds, 5 times; an integer: that many, once. Both are shuffled by `random_state`.
    scoring : str or callable, default=None
        Any scikit-learn scorer; None: R².
    l1_ratio, init, n_knots, n_repeats, ties, missing, fit_intercept, loss, huber_delta, tol, max_iter
        As in :class:`SuquanRegressor`.
    feature_scaling : {"none", "std"}, default="none"
        As in :class:`SuquanClassifierCV`.

    Attributes
    ----------
    method_, alpha_, smoothness_, departure_, best_score_, best_index_, cv_results_, best_estimator_
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
        departures: Any = None,
        min_gain: float = 0.5,
        l1_ratio: float = 0.0,
        init: Any = "uniform",
        max_rounds: Any = None,
        n_targets: Any = None,
        n_knots: int | str | None = "auto",
        n_repeats: int = 3,
        ties: str = "average",
        missing: str = "error",
        fit_intercept: bool = True,
        feature_scaling: str = "none",
        loss: Any = "squared",
        huber_delta: float = 1.35,
        tol: float = 1e-4,
        max_iter: int = 500,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        keep_parameters(self, locals())
