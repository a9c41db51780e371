"""Nested cross-validation of all methods on the same folds, and what it says about learning the target.

:func:`compare` poses a study, runs its tasks (one method on one outer fold each) side by side, keeps finished
ones in a checkpoint, and makes tables and a verdict of them.
"""

from __future__ import annotations

import hashlib
import time
import warnings
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from numbers import Integral
from typing import Any

import numpy as np
import sklearn
from sklearn.base import clone
from sklearn.ensemble import ExtraTreesClassifier, ExtraTreesRegressor
from sklearn.utils.multiclass import type_of_target
from threadpoolctl import threadpool_limits

from suquan._blocks import is_dask_array
from suquan._comparison_tables import (
    BEST_FIXED,
    START,
    VERDICT_METHOD,
    Comparison,
    cohort_table,
    cohort_verdict,
    contrasts_table,
    measures_table,
    permutation_table,
    reliability_table,
    summary_table,
    tests_table,
    verdict_of,
)
from suquan._tasks import Outcome, Store, Task, code_of, digest_of, run_tasks
from suquan._validation import check_real, row_names
from suquan._version import __version__
from suquan.calibration import apply_calibration, check_calibration
from suquan.cox_model import SuquanCox
from suquan.fitting import (
    Settings,
    check_method,
    decision_values,
    encode,
    make_start,
    scale_operator,
)
from suquan.folds import (
    Candidate,
    FoldScores,
    OutOfFold,
    OutputScorer,
    RankedData,
    check_groups,
    default_scoring,
    folds_per_repeat,
    leave_out_splits,
    make_splits,
    shared_groups,
    test_share,
    usable_calibration,
)
from suquan.linear_model import SuquanClassifier, SuquanRegressor
from suquan.losses import make_loss
from suquan.methods import METHODS, Method, resolve_method
from suquan.model_selection import alpha_grid, choose, make_candidates, smoothness_grid
from suquan.objective import W_TOL, Splits, make_design
from suquan.ranking import column_moments, deviations, mean_and_variance
from suquan.sample_checks import tell_duplicates, torn_duplicates
from suquan.solvers.ridge import RidgeDesign
from suquan.statistics import Difference
from suquan.survival import RiskGroups, as_outcome, exchange_labels
from suquan.target_sets import TargetSet
from suquan.targets import LEARNED as DATA_TARGETS
from suquan.targets import learn_target

__all__ = ["Comparison", "compare"]

FIXED = ("median", "mean", "normal", "uniform", "exponential", "cauchy")
LEARNED = tuple(name for name in METHODS if name != "fixed")
FORESTS = ("forest", "forest_raw")
METHOD_NAMES = ("raw", *FIXED, *LEARNED, START, *FORESTS)
# "start" comes with the learned method. Times to event have no forests.
DEFAULT_METHODS = ("raw", "median", "uniform", "normal", VERDICT_METHOD, *FORESTS)
# What "best_fixed" chooses from, where it was compared.
ALTERNATIVES = ("raw", *FIXED, START)
MAX_DRAWS = 1000  # of one permutation, until each of its folds has all classes
# Parameters of the estimators that the comparison sets itself.
_CHOSEN_HERE = {"method", "alpha", "smoothness", "departure", "loss"}


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
        Directory in which finished parts are kept. Started again with the same data and settings, the
        comparison continues there; with others it refuses.
    progress : bool, default=True
        Show how far it is.
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
    if (
        scoring == "concordance"
        or strata is not None
        or getattr(getattr(y, "dtype", None), "names", None)
    ):
        y = as_outcome(y, strata)
    elif np.ndim(y) == 2 and np.shape(y)[1] == 1:
        y = np.ravel(y)
    y = check_groups("y", y, len(X))
    named = named_methods(methods, is_times=bool(y.dtype.names))
    estimator = _estimator(y, loss, {**parameters, "random_state": random_state})
    settings = Settings.of(estimator)
    samples = encode(estimator, settings, X, y, None)
    learned = _learned(named).values()
    if settings.n_targets is not None and all(method.norm != "trace" for method in learned):
        raise ValueError("n_targets is for the method 'multi'; compare it too, or leave it out.")
    for method in learned:
        check_method(settings.with_method(method), samples)
    if samples.classes is None:
        calibration = None
    else:
        check_calibration(calibration, len(samples.classes))
    data = RankedData.of(settings, samples, groups)
    scoring = default_scoring(data) if scoring is None else scoring
    cohorts = None if leave_out is None else check_groups("leave_out", leave_out, len(data.y))
    if cohorts is not None and outer_cv is not None:
        raise ValueError("leave_out takes the place of outer_cv; give one of them.")
    if not (inner_cv is None or isinstance(inner_cv, Integral) or hasattr(inner_cv, "split")):
        raise ValueError(
            "inner_cv splits every outer training set, so that it must be None, an integer or a "
            f"splitter; got {inner_cv!r}."
        )
    if cohorts is None and data.classes is not None:
        _check_members(data.labels[data.used], outer_cv)
    p = data.operator.n_features
    if np.iterable(outer_cv):
        outer_cv = list(outer_cv)  # permutations split again
    study = _Study(
        data=data,
        settings=settings,
        methods=named,
        outer=_outer_splits(data, outer_cv, cohorts, random_state),
        outer_cv=outer_cv,
        cohorts=cohorts,
        calibration=calibration,
        inner_cv=inner_cv,
        scorer=OutputScorer.of(estimator, scoring, data),
        scoring=scoring if isinstance(scoring, str) else getattr(scoring, "__name__", "score"),
        alphas=alpha_grid(alphas, p, unit=settings.penalty_units(data.units)[0]),
        given_alphas=alphas,
        smoothnesses=smoothness_grid(smoothnesses, p),
        automatic_smoothnesses=isinstance(smoothnesses, Integral),
        selection=selection,
        departures=departures,
        min_gain=min_gain,
        seed=random_state,
    )
    study = study.check_folds()
    pairs = torn_duplicates(data.operator, study.outer)
    if len(pairs):
        names = row_names(X, len(data.y)) if sample_names is None else np.asarray(sample_names)
        warnings.warn(tell_duplicates(pairs, names), UserWarning, stacklevel=2)
    store = Store.open(checkpoint, None if checkpoint is None else study.fingerprint())
    tasks = [(name, k) for k in range(len(study.outer)) for name in named]
    tasks += [
        (f"permutation {i}", k) for i in range(n_permutations) for k in range(len(study.outer))
    ]
    with threadpool_limits(1):
        study = study.with_grams(n_jobs)
    outcomes = run_tasks(study, tasks, store, n_jobs, progress)
    return study.result(outcomes, n_permutations)


def _outer_splits(data: RankedData, outer_cv: Any, cohorts: Any, seed: int) -> Splits:
    """Outer folds of the labels in `data`: those of `outer_cv`, or each cohort left out once."""
    if cohorts is not None:
        is_values = data.classes is None and not data.loss.couples_samples
        outer_cv = leave_out_splits(cohorts, None if is_values else data.labels)
    return make_splits(outer_cv, data, np.arange(len(data.y)), seed, "outer_cv")


def _check_members(labels: np.ndarray, outer_cv: Any) -> None:
    """Raise a ValueError that names a class with fewer members than folds."""
    names, counts = np.unique(labels, return_counts=True)
    n_folds = 3 if outer_cv is None else outer_cv
    if isinstance(n_folds, Integral) and counts.min() < n_folds:
        raise ValueError(
            f"class {names.tolist()[np.argmin(counts)]!r} has {counts.min()} samples, fewer than the {n_folds} "
            "outer folds; give more samples, use fewer folds, or merge classes."
        )


def _estimator(y: Any, loss: Any, parameters: dict[str, Any]) -> Any:
    """Estimator with the parameters that all methods share; its class is that of the task."""
    base: type
    if getattr(getattr(y, "dtype", None), "names", None):
        base = SuquanCox
    elif loss is None:
        has_classes = not type_of_target(y).startswith("continuous")
        base = SuquanClassifier if has_classes else SuquanRegressor
    else:
        base = SuquanClassifier if make_loss(loss).is_classification else SuquanRegressor
    if loss is not None:
        parameters["loss"] = loss
    known = set(base().get_params(deep=False)) - (_CHOSEN_HERE - {"loss"})
    unknown = sorted(set(parameters) - known)
    if unknown:
        raise TypeError(f"compare() got an unknown parameter {unknown[0]!r}.")
    return base(**{**parameters, "method": "fixed"})


def named_methods(methods: Sequence[Any] | None, *, is_times: bool = False) -> dict[str, Any]:
    """Methods by name, in order, "start" included: a row or an estimator; None for the others."""
    if methods is None:
        methods = [name for name in DEFAULT_METHODS if not (is_times and name in FORESTS)]
    given = [_named(method) for method in methods]
    names = [name for name, _ in given]
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated or not names:
        raise ValueError(f"give each method once, and at least one; repeated: {repeated}.")
    if is_times and set(names) & set(FORESTS):
        raise ValueError("'forest' and 'forest_raw' are for classes and values, not for times.")
    found = dict(given)
    if judged_method(found) is not None:
        found.setdefault(START, None)
    elif START in found:
        raise ValueError(
            f"'start' is a learned method with nothing learned: name {VERDICT_METHOD!r} too."
        )
    return found


def judged_method(methods: dict[str, Any]) -> str | None:
    """Name of the verdict's learned method: "crossfit", or else the only one with an initial target."""
    able = [name for name, row in _learned(methods).items() if row.max_rounds and not row.norm]
    return VERDICT_METHOD if VERDICT_METHOD in able else able[0] if len(able) == 1 else None


def _learned(methods: dict[str, Any]) -> dict[str, Method]:
    """Those of the methods that learn a target."""
    return {name: method for name, method in methods.items() if isinstance(method, Method)}


def _named(method: Any) -> tuple[str, Any]:
    """Name of a method with its row or its estimator; None where it has neither."""
    if isinstance(method, str):
        method = str(method)  # a name from an array
        if method not in METHOD_NAMES:
            known = ", ".join(repr(name) for name in METHOD_NAMES)
            raise ValueError(
                f"unknown method {method!r}; known are {known}, and (name, estimator) pairs."
            )
        return method, METHODS.get(method)
    if isinstance(method, (Method, TargetSet)):
        method = (resolve_method(method).name, method)
    try:
        name, found = method
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"methods are names or (name, estimator) pairs; got {method!r}."
        ) from error
    if name in METHOD_NAMES or name == BEST_FIXED:
        raise ValueError(f"{name!r} is the name of a built-in method; choose another.")
    is_method = isinstance(found, (Method, TargetSet))
    return name, resolve_method(found, name) if is_method else found


# -- the study: data, folds and methods -------------------------------------------------------------


@dataclass(frozen=True)
class _Study:
    """Everything that the tasks of a comparison share."""

    data: RankedData
    settings: Settings
    methods: dict[str, Any]
    outer: Splits
    inner_cv: Any
    scorer: OutputScorer
    scoring: str
    alphas: np.ndarray
    given_alphas: Any
    smoothnesses: np.ndarray
    automatic_smoothnesses: bool
    selection: str
    departures: Any
    min_gain: float
    seed: int
    outer_cv: Any = None
    calibration: str | None = None
    cohorts: np.ndarray | None = None
    grams: dict[str, np.ndarray] = field(default_factory=dict)

    def fingerprint(self) -> str:
        """Digest of the data, of every setting that the numbers depend on, and of versions."""
        data, learned = self.data, _learned(self.methods)
        given = {
            name: e for name, e in self.methods.items() if e is not None and name not in learned
        }
        settings = {**vars(self.settings), "method": None, "verbose": 0}
        parts = [
            (data.X, data.labels, data.groups, self.alphas, self.smoothnesses, self.outer),
            {name: (type(e), e.get_params(deep=True)) for name, e in given.items()},
            {name: vars(m) for name, m in learned.items() if name not in METHODS},
            (settings, self.inner_cv, self.selection, self.departures, self.min_gain, self.seed),
            (self.calibration, judged_method(self.methods)),
            (self.scorer.scorer, code_of(self.scorer.scorer), self.automatic_smoothnesses),
            (__version__, np.__version__, sklearn.__version__, Outcome._fields),
        ]
        return hashlib.sha256("".join(map(digest_of, parts)).encode()).hexdigest()

    def run(self, name: str, fold: int) -> Outcome:
        """Choose the penalties of one method on one outer training set, and score it on the test set."""
        start = time.perf_counter()
        train, test = self.outer[fold]
        with threadpool_limits(1):
            if name.startswith("permutation "):
                return self._permuted(int(name.split()[1])).run(VERDICT_METHOD, fold)
            method = self.methods[name]
            if name == START:  # same candidates, folds and fits as the learned method's own
                nothing = replace(self, departures=[0.0])
                learned = self.methods[str(judged_method(self.methods))]
                outcome = nothing._run_learned(learned, train, test)
            elif name in FORESTS:
                outcome = self._run_forest(name, train, test)
            elif method is None:
                outcome = self._run_fixed(name, train, test)
            elif isinstance(method, Method):
                outcome = self._run_learned(method, train, test)
            else:
                outcome = self._run_given(method, train, test)
        return outcome._replace(seconds=time.perf_counter() - start)

    def _permuted(self, number: int) -> _Study:
        """The same study with permuted labels and folds of their own, drawn until these have all classes."""
        data, rng = self.data, np.random.default_rng([self.seed, number])
        groups = np.arange(len(data.y)) if data.groups is None else data.groups
        for _ in range(MAX_DRAWS):
            order = exchange_labels(rng, data.labels, groups)
            permuted = replace(data, labels=data.labels[order], y=data.y[order])
            with suppress(ValueError):
                outer = _outer_splits(permuted, self.outer_cv, self.cohorts, self.seed)
                learned = {VERDICT_METHOD: METHODS[VERDICT_METHOD]}
                study = replace(self, data=permuted, methods=learned, outer=outer)
                [study._inner(train) for train, _ in outer]
                return study
        raise ValueError(
            f"{MAX_DRAWS} permutations of the labels each left a fold without a class; use fewer folds."
        )

    def _inner(self, train: np.ndarray) -> Splits:
        return make_splits(self.inner_cv, self.data, train, self.seed, "inner_cv")

    def check_folds(self) -> _Study:
        """Make all inner folds once: errors and warnings before the work, and a calibration that they allow."""
        inner = [split for train, _ in self.outer for split in self._inner(train)]
        calibration = usable_calibration(self.calibration, inner, self.data, "inner_cv")
        for name, splits in (("outer", self.outer), ("inner", inner)):
            told = shared_groups(splits, self.data.groups)
            if told:
                warnings.warn(f"{told} of the {name} folds.", UserWarning, stacklevel=3)
        return replace(self, calibration=calibration)

    def _run_given(self, estimator: Any, train: np.ndarray, test: np.ndarray) -> Outcome:
        data = self.data
        model = clone(estimator).fit(data.X[train], data.labels[train])
        return self._outcome_of(model, data.X[test], test)

    def _run_forest(self, name: str, train: np.ndarray, test: np.ndarray) -> Outcome:
        data = self.data
        train = train[data.used[train]]
        A, A_test = data.X[train], data.X[test]
        if name == "forest":
            A, A_test = self._samples("uniform", train, test)
        kind = ExtraTreesRegressor if data.classes is None else ExtraTreesClassifier
        model = kind(300, min_samples_leaf=2, random_state=self.seed)
        weights = data.weights_in(self.settings, train)
        return self._outcome_of(model.fit(A, data.labels[train], weights), A_test, test)

    def _outcome_of(self, model: Any, X_test: np.ndarray, test: np.ndarray) -> Outcome:
        """Score and probabilities of any fitted estimator."""
        score, chances = self.scorer.of_model(model, X_test, self.data.labels[test]), np.empty(0)
        if self.data.classes is not None and hasattr(model, "predict_proba"):
            chances = np.asarray(model.predict_proba(X_test), dtype=np.float64)
        return Outcome(score, np.nan, np.nan, np.nan, 0, 0.0, np.empty(0), chances)

    def _run_learned(self, method: Method, train: np.ndarray, test: np.ndarray) -> Outcome:
        data, settings, smoothnesses = self.data, self.settings, self.smoothnesses
        if self.automatic_smoothnesses:
            smoothnesses = smoothnesses * data.smoothness_unit(settings, train)
        candidates = self._candidates([method], smoothnesses)
        inner = self._inner(train)
        folds = [data.score(settings, candidates, a, b, self.scorer) for a, b in inner]
        best, scores = self._choose(candidates, folds, inner, self.min_gain)
        chosen = candidates[best]
        ((f, fit),) = fits = data.fit(settings, [chosen], train)
        outputs = data.outputs(settings, fits, train, test)
        score, chances = self._test(outputs, test, folds, best, inner)
        inner_score = float(scores[best].mean())
        first = np.atleast_2d(f)[0]
        # Targets of different folds can then be compared.
        target = first / np.sqrt(np.mean(first**2))
        return Outcome(
            score,
            inner_score,
            chosen.alpha,
            chosen.smoothness,
            fit.n_rounds,
            0.0,
            target,
            chances,
            outputs[0],
        )

    def _choose(
        self, candidates: list[Candidate], folds: list[FoldScores], inner: Splits, min_gain: float
    ) -> tuple[int, np.ndarray]:
        """Index of the chosen candidate, and the scores of all, (n_candidates, n_folds)."""
        scores = np.column_stack([fold.scores for fold in folds])
        losses = np.mean([fold.losses for fold in folds], axis=0)
        share = test_share(inner)
        return choose(candidates, scores, self.selection, share, min_gain, losses), scores

    def _test(
        self, outputs: list, test: np.ndarray, folds: list[FoldScores], best: int, inner: Splits
    ) -> tuple[float, np.ndarray]:
        """Score of the chosen model's outputs, and its probabilities, calibrated by the inner folds."""
        data, chances = self.data, None
        classes: Any = data.classes
        if classes is not None:
            chances = data.loss.mean(outputs[0])
        if self.calibration is not None:
            seen = [fold.outputs[best] for fold in folds]
            kept = OutOfFold.of(data, self.settings, inner, seen)
            found = kept.calibrate(self.calibration, data, self.settings)
            chances = apply_calibration(found, decision_values(outputs[0], classes))
        score = float(self.scorer(outputs, data.labels[test], chances)[0])
        return score, np.empty(0) if chances is None else chances

    def _candidates(self, methods: list[Method], smoothnesses: np.ndarray) -> list[Candidate]:
        """Grids of learned methods."""
        settings, units, p = self.settings, self.data.units, self.data.operator.n_features
        return make_candidates(
            methods,
            lambda method: alpha_grid(
                self.given_alphas, p, method, settings.with_method(method).penalty_units(units)[0]
            ),
            smoothnesses,
            settings.max_rounds,
            settings.n_targets,
            self.departures,
        )

    def _run_fixed(self, name: str, train: np.ndarray, test: np.ndarray) -> Outcome:
        """Raw samples, or one fixed target: one design per training set, all alphas along one path."""
        data = self.data
        candidates = [Candidate(METHODS["fixed"], alpha, 0.0, 0) for alpha in self.alphas]
        inner = self._inner(train)
        folds = [
            data.score_outputs(self._path(name, a, b, self.alphas), b, self.scorer)
            for a, b in inner
        ]
        best, scores = self._choose(candidates, folds, inner, 0.0)
        alpha = float(self.alphas[best])
        outputs = self._path(name, train, test, np.array([alpha]))
        score, chances = self._test(outputs, test, folds, best, inner)
        return Outcome(score, float(scores[best].mean()), alpha, 0.0, 0, 0.0, np.empty(0), chances)

    def _path(
        self, name: str, train: np.ndarray, test: np.ndarray, alphas: np.ndarray
    ) -> list[np.ndarray]:
        """Outputs for test samples along the alphas; from sub-blocks of one Gram matrix where there is one."""
        data, settings, gram = self.data, self.settings, self.grams.get(name)
        weights, own = data.weights_in(settings, train), settings.in_units(data.units)
        if gram is None:
            A, A_test = self._samples(name, train, test)
            design = make_design(A, own.l1_ratio, settings.fit_intercept)
        else:
            G, A_test = gram[np.ix_(train, train)], gram[np.ix_(test, train)]
            design = RidgeDesign(None, gram=G, fit_intercept=settings.fit_intercept)
        fits = design.solve_path(
            data.loss, data.y[train], weights / weights.sum(),
            (alphas / settings.penalty_units(data.units)[0]).tolist(),
            tol=W_TOL, max_iter=settings.max_iter,
        )  # fmt: skip
        coefficients = [fit.w for fit in fits]
        return [
            data.units.centre + data.units.scale * (A_test @ np.asarray(w).T + fit.b)
            for w, fit in zip(coefficients, fits, strict=True)
        ]

    def _samples(
        self, name: str, train: np.ndarray, test: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Training and test samples as the model sees them; nothing is learned from the test samples."""
        data, settings, p = self.data, self.settings, self.data.operator.n_features
        weights, is_scaled = data.weights_in(settings, train), settings.feature_scaling == "std"
        if name == "raw":
            mean, std = np.nanmean(data.X[train]), np.nanstd(data.X[train])
            A, A_test = ((data.X[rows] - mean) / (std or 1.0) for rows in (train, test))
            if is_scaled:
                sd = deviations(partial(column_moments, A, weights), float(np.nanmax(np.abs(A))))
                A, A_test = A / sd, A_test / sd
            return _without_gaps(A, A_test, weights)
        ranked = data.operator.take(train)
        learn = partial(learn_target, data.X[train], operator=ranked, sample_weight=weights)
        f = make_start(replace(settings, init=name), p, p, learn)
        ranked = scale_operator(ranked, f, weights) if is_scaled else ranked
        tested = replace(data.operator.take(test), scale=ranked.scale)
        return _without_gaps(ranked.apply(f, gap=np.nan), tested.apply(f, gap=np.nan), weights)

    def with_grams(self, n_jobs: int | None) -> _Study:
        """The study with one Gram matrix of all samples per target that does not look at them.

        Its sub-blocks serve all folds and alphas, and the blocks of knots those of the learned targets. For
        more samples than features it does not pay; scaled features are those of one training set alone.
        """
        n_samples, n_features = self.data.operator.n_samples, self.data.operator.n_features
        if n_samples > n_features or self.settings.feature_scaling != "none":
            return self
        everyone, grams = np.arange(n_samples), {}
        for name in self.methods:
            # Gaps of test samples have no place in a Gram matrix of all: their means are those of a fold.
            is_plain = self.settings.l1_ratio == 0 and self.data.operator.is_complete
            if name in FIXED and name not in DATA_TARGETS and is_plain:
                A = self._samples(name, everyone, everyone[:0])[0]
                grams[name] = A @ A.T
        return replace(self, grams=grams)

    def result(self, outcomes: dict[Task, Outcome], n_permutations: int) -> Comparison:
        """Tables and verdict."""
        names = list(self.methods)
        alternatives = [name for name in names if name in ALTERNATIVES]
        n_folds = len(self.outer)
        if alternatives:
            for k in range(n_folds):
                best = max(alternatives, key=lambda name: outcomes[name, k].inner_score)
                outcomes[BEST_FIXED, k] = outcomes[best, k]
            names.append(BEST_FIXED)

        def over_folds(name: str, key: str) -> np.ndarray:
            return np.array([getattr(outcomes[name, k], key) for k in range(n_folds)])

        repeat, fold = np.divmod(np.arange(n_folds), folds_per_repeat(self.outer, len(self.data.y)))
        folds = {
            "method": np.repeat(names, n_folds),
            "repeat": np.tile(repeat, len(names)),
            "fold": np.tile(fold, len(names)),
            **{
                key: np.concatenate([over_folds(name, key) for name in names])
                for key in ("score", "alpha", "smoothness", "rounds", "seconds")
            },
        }
        measures, reliable = self._measures(outcomes, names)
        for key in next(iter(measures.values()), ()):
            folds[key] = np.concatenate([table[key] for table in measures.values()])
        scores = {name: over_folds(name, "score") for name in names}
        share, contrasts, cohorts = test_share(self.outer), {}, {}
        verdict, judged = "", judged_method(self.methods)
        if self.cohorts is not None:
            tested = [str(self.cohorts[test[0]]) for _, test in self.outer]
            folds["cohort"] = np.tile(tested, len(names))
            cohorts = cohort_table(tested, [len(test) for _, test in self.outer], scores)
            verdict = cohort_verdict(scores, judged, tested, self.scoring)
        elif judged is not None:
            known = {judged, BEST_FIXED, *ALTERNATIVES}
            others = [name for name in names if name not in known]
            contrasts = contrasts_table(scores, judged, others, share)
        n_left = 0 if judged is None else int(np.sum(over_folds(judged, "rounds") > 0))
        shuffled = [over_folds(f"permutation {i}", "score").mean() for i in range(n_permutations)]
        return Comparison(
            folds,
            summary_table(scores, measures),
            tests_table(scores, share, of_cohorts=bool(cohorts)),
            verdict or verdict_of(contrasts, self.scoring, n_folds, n_left),
            Difference(*(float(column[0]) for column in list(contrasts.values())[2:]))
            if contrasts
            else None,
            {name: over_folds(name, "target") for name in _learned(self.methods)},
            self.scoring,
            permutation_table(np.array(shuffled), scores.get(VERDICT_METHOD)) if shuffled else {},
            reliable,
            cohorts,
            self._risk_groups(outcomes),
            contrasts,
            np.median(over_folds(START, "target"), axis=0) if START in names else None,
        )

    def _risk_groups(self, outcomes: dict[Task, Outcome]) -> RiskGroups | None:
        if VERDICT_METHOD not in self.methods or not self.data.loss.couples_samples:
            return None
        folds = range(folds_per_repeat(self.outer, len(self.data.y)))
        tests = [self.outer[k][1] for k in folds]
        risks = [outcomes[VERDICT_METHOD, k].outputs[:, 0] for k in folds]
        labels, groups = self.data.labels, self.data.groups
        return RiskGroups.of_folds(labels, tests, risks, self.seed, groups=groups)

    def _measures(
        self, outcomes: dict[Task, Outcome], names: list[str]
    ) -> tuple[dict[str, dict[str, np.ndarray]], dict[str, np.ndarray]]:
        """Measures of every method's probabilities in every fold, and how reliable they are; for classes."""
        data = self.data
        if data.classes is None:
            return {}, {}
        codes = [data.codes(test) for _, test in self.outer]
        counts = [np.bincount(data.codes(train)) for train, _ in self.outer]
        prevalences = [count / count.sum() for count in counts]
        chances = {
            name: [outcomes[name, k].probabilities for k in range(len(self.outer))]
            for name in names
        }
        measures = {
            name: measures_table(parts, codes, prevalences) for name, parts in chances.items()
        }
        return measures, reliability_table(chances, codes)


def _without_gaps(
    A: np.ndarray, A_test: np.ndarray, weights: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Training samples with 0 for NaN, test samples with the weighted means of the training samples."""
    if np.isnan(A_test).any():
        means, _ = mean_and_variance(partial(column_moments, A, weights))
        A_test = np.where(np.isnan(A_test), means, A_test)
    return np.nan_to_num(A, copy=False), A_test
