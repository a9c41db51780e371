"""Nested cross-validation of all methods on the same folds, and what it says about learning the target."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from numbers import Integral
from pathlib import Path
from typing import Any, NamedTuple

import joblib
import numpy as np
from joblib import Parallel, delayed
from joblib.externals.loky.process_executor import TerminatedWorkerError
from sklearn.base import clone
from sklearn.utils.multiclass import type_of_target
from threadpoolctl import threadpool_limits

from suquan._dask._common import is_dask_array
from suquan._files import replace_file
from suquan._progress import Progress
from suquan._scoring import OutputScorer
from suquan.linear_model import SuquanClassifier, SuquanRegressor
from suquan.losses import Squared
from suquan.model_selection import (
    Candidate,
    RankedData,
    alpha_grid,
    choose,
    make_candidates,
    make_splits,
    smoothness_grid,
)
from suquan.solvers.alternation import W_TOL
from suquan.solvers.linear import LinearFit, RidgeDesign, solve_w
from suquan.statistics import Difference, corrected_difference, holm, wilcoxon_greater
from suquan.targets import LEARNED as DATA_TARGETS

FIXED = ("median", "mean", "normal", "uniform", "exponential", "cauchy")
LEARNED = ("svd", "f0", "bnd", "spav", "joint", "crossfit")
METHOD_NAMES = ("raw", *FIXED, *LEARNED)
BEST_FIXED = "best_fixed"
# The contrast of the verdict, fixed in advance.
VERDICT_METHOD = "crossfit"
# Parameters of the estimators that the comparison sets itself.
_CHOSEN_HERE = {"method", "alpha", "smoothness"}


class Outcome(NamedTuple):
    """Result of one method on one outer fold."""

    score: float
    inner_score: float
    alpha: float
    smoothness: float
    rounds: int
    seconds: float
    target: np.ndarray  # learned target, empty where there is none


@dataclass(frozen=True)
class Comparison:
    """Result of :func:`compare`; tables are dicts of equal-length arrays.

    Attributes
    ----------
    folds : dict of arrays
        One row per method and outer fold: method, repeat, fold, score, alpha, smoothness, rounds, seconds.
    summary : dict of arrays
        One row per method: method, mean, std, rank.
    tests : dict of arrays
        One row per ordered pair of methods: mean difference, its interval with the corrected resampled
        variance, t, two-sided p; one-sided Wilcoxon p; both Holm-adjusted.
    verdict : str
        Whether learning the target helps, in one sentence.
    contrast : Difference or None
        The difference behind it.
    targets : dict of arrays
        Learned targets of each method over the outer folds, (n_folds, n_features).
    permutations : dict of arrays
        Scores with shuffled labels, where asked for; they never enter the verdict.
    """

    folds: dict[str, np.ndarray]
    summary: dict[str, np.ndarray]
    tests: dict[str, np.ndarray]
    verdict: str
    contrast: Difference | None
    targets: dict[str, np.ndarray]
    scoring: str
    permutations: dict[str, np.ndarray] = field(default_factory=dict)

    def target_band(
        self, method: str = VERDICT_METHOD
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Lowest, median and highest learned target over the outer folds, place by place."""
        targets = self.targets[method]
        return targets.min(axis=0), np.median(targets, axis=0), targets.max(axis=0)

    def to_pandas(self) -> dict[str, Any]:
        """Tables as data frames, by name; needs pandas."""
        import pandas as pd

        return {name: pd.DataFrame(table) for name, table in self._tables().items()}

    def to_csv(self, directory: Any) -> list[Path]:
        """Write folds.csv, summary.csv and tests.csv, each in one move."""
        directory = Path(directory)
        directory.mkdir(parents=True, exist_ok=True)
        return [_write_csv(directory / f"{name}.csv", t) for name, t in self._tables().items()]

    def _tables(self) -> dict[str, dict[str, np.ndarray]]:
        tables = {"folds": self.folds, "summary": self.summary, "tests": self.tests}
        return tables | ({"permutations": self.permutations} if self.permutations else {})

    def plot(self, axes: Any = None) -> Any:
        """Scores of all methods over the folds, and the band of the learned target; needs matplotlib.

        Parameters
        ----------
        axes : two matplotlib axes, default=None

        Returns
        -------
        matplotlib figure
        """
        from suquan.plotting import plot_comparison

        return plot_comparison(self, axes)


def compare(
    X: Any,
    y: Any,
    *,
    methods: Sequence[Any] = METHOD_NAMES,
    outer_cv: Any = None,
    inner_cv: Any = None,
    scoring: Any = "roc_auc",
    alphas: Any = 7,
    smoothnesses: Any = 5,
    selection: str = "smoothed",
    groups: Any = None,
    n_jobs: int | None = None,
    random_state: int = 0,
    checkpoint: Any = None,
    progress: bool = True,
    n_permutations: int = 0,
    **parameters: Any,
) -> Comparison:
    """Compare methods by nested cross-validation: does learning the target help on these data?

    All methods see the same outer folds; inside each, their penalties are chosen by the same inner folds of
    its training samples alone. The verdict is one contrast that is fixed in advance: "crossfit" against
    "best_fixed", the fixed target that the inner folds choose in each outer fold.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
    y : array-like of shape (n_samples,)
    methods : sequence of names or (name, estimator) pairs
        "raw" (centred and scaled by one mean and one standard deviation of the training samples), the
        fixed targets "median", "mean", "normal", "uniform", "exponential", "cauchy", the learned ones
        "svd", "f0", "bnd", "spav", "joint", "crossfit", and any scikit-learn estimators.
    outer_cv, inner_cv : int, splitter or iterable of splits, default=None
        None: 3 stratified folds, 5 times. `inner_cv` must not be a list of splits.
    scoring : str or callable, default="roc_auc"
        Any scikit-learn scorer.
    alphas, smoothnesses, selection
        As in :class:`SuquanClassifierCV`.
    groups : array-like of shape (n_samples,), default=None
        For splitters that need them; also kept together in the folds of "crossfit".
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
        Repeat the "crossfit" part this often with shuffled labels, to see whether there is any signal.
    **parameters
        Of :class:`SuquanClassifier`, for all learned and fixed methods: `n_knots`, `ties`, `missing`, ….

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
    ['normal', 'uniform', 'crossfit', 'best_fixed']
    """
    if is_dask_array(X):
        raise TypeError(
            "compare works in memory and takes no Dask array. Compare on a sample of the rows, such as "
            "X[::100].compute()."
        )
    study = _Study.of(
        X, y, methods, outer_cv, inner_cv, scoring, alphas, smoothnesses, selection, groups,
        random_state, parameters,
    )  # fmt: skip
    store = _Store.open(checkpoint, study.fingerprint())
    tasks = [(name, k) for k in range(len(study.outer)) for name in study.names]
    if n_permutations:
        tasks += [
            (f"permutation {i}", k) for i in range(n_permutations) for k in range(len(study.outer))
        ]
    with threadpool_limits(1):
        study = study.with_grams(n_jobs)
    outcomes = _run(study, tasks, store, n_jobs, progress)
    return study.result(outcomes, n_permutations)


# -- the study: data, folds and methods -------------------------------------------------------------


@dataclass(frozen=True)
class _Study:
    """Everything that the tasks of a comparison share."""

    data: RankedData
    estimator: Any
    classes: np.ndarray | None
    estimators: dict[str, Any]  # those given by the user
    names: list[str]
    outer: list[tuple[np.ndarray, np.ndarray]]
    inner_cv: Any
    scorer: OutputScorer
    scoring: str
    alphas: np.ndarray
    smoothnesses: np.ndarray
    automatic_smoothnesses: bool
    selection: str
    seed: int
    grams: dict[str, np.ndarray] = field(default_factory=dict)

    @classmethod
    def of(
        cls, X, y, methods, outer_cv, inner_cv, scoring, alphas, smoothnesses, selection, groups,
        seed, parameters,
    ) -> _Study:  # fmt: skip
        """Check everything that can be checked before the work begins."""
        names, given = _method_names(methods)
        is_regression = type_of_target(y).startswith("continuous")
        base = SuquanRegressor if is_regression else SuquanClassifier
        unknown = sorted(set(parameters) - (set(base._get_param_names()) - _CHOSEN_HERE))
        if unknown:
            raise TypeError(f"compare() got an unknown parameter {unknown[0]!r}.")
        estimator = base(**{**parameters, "method": "fixed", "random_state": seed})
        encoded = estimator._encode(X, y, None)
        for name in names:
            if name in LEARNED:
                clone(estimator).set_params(method=name)._check_task(encoded)
        data = RankedData.of(estimator, encoded, groups)
        if not (inner_cv is None or isinstance(inner_cv, Integral) or hasattr(inner_cv, "split")):
            raise ValueError(
                "inner_cv splits every outer training set, so that it must be None, an integer or a "
                f"splitter; got {inner_cv!r}."
            )
        outer = make_splits(outer_cv, data, np.arange(len(data.y)), seed, "outer_cv")
        scorer = OutputScorer.of(estimator, scoring, data.labels, data.y, encoded.classes)
        p = encoded.X.shape[1]
        return cls(
            data,
            estimator,
            encoded.classes,
            given,
            names,
            outer,
            inner_cv,
            scorer,
            scoring if isinstance(scoring, str) else getattr(scoring, "__name__", "score"),
            alpha_grid(alphas, p),
            smoothness_grid(smoothnesses, p),
            isinstance(smoothnesses, Integral),
            selection,
            seed,
        )

    def fingerprint(self) -> str:
        """Digest of the data and of every setting that the numbers depend on."""
        digest = hashlib.sha256()
        for array in (
            self.data.X,
            self.data.labels,
            self.data.groups,
            self.alphas,
            self.smoothnesses,
        ):
            digest.update(repr(None if array is None else (array.dtype, array.shape)).encode())
            if array is not None:
                raw = array.tolist() if array.dtype.kind in "OU" else np.ascontiguousarray(array)
                digest.update(repr(raw).encode() if isinstance(raw, list) else raw.tobytes())
        for train, test in self.outer:
            digest.update(np.asarray(train).tobytes() + b"|" + np.asarray(test).tobytes())
        settings = [self.estimator, self.estimators, self.inner_cv, self.scoring, self.selection]
        digest.update(repr((settings, self.seed, self.automatic_smoothnesses)).encode())
        if not isinstance(self.estimator.init, str):  # long arrays are not shown whole
            digest.update(joblib.hash(self.estimator.init).encode())
        return digest.hexdigest()

    def run(self, name: str, fold: int) -> Outcome:
        """Choose the penalties of one method on one outer training set, and score it on the test set."""
        start = time.perf_counter()
        train, test = self.outer[fold]
        with threadpool_limits(1):
            if name.startswith("permutation "):
                return self._permuted(int(name.split()[1])).run(VERDICT_METHOD, fold)
            if name in self.estimators:
                outcome = self._run_given(name, train, test)
            elif name == "raw" or name in FIXED:
                outcome = self._run_fixed(name, train, test)
            else:
                outcome = self._run_learned(name, train, test)
        return outcome._replace(seconds=time.perf_counter() - start)

    def _permuted(self, number: int) -> _Study:
        """The same study with shuffled labels."""
        order = np.random.default_rng([self.seed, number]).permutation(len(self.data.y))
        data = replace(self.data, labels=self.data.labels[order], y=self.data.y[order])
        return replace(self, data=data)

    def _inner(self, train: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
        return make_splits(self.inner_cv, self.data, train, self.seed, "inner_cv")

    def _choose(self, candidates: list[Candidate], scores: np.ndarray, inner: list) -> int:
        share = float(np.mean([len(test) / len(train) for train, test in inner]))
        return choose(candidates, scores, self.selection, share)

    def _run_given(self, name: str, train: np.ndarray, test: np.ndarray) -> Outcome:
        data = self.data
        model = clone(self.estimators[name]).fit(data.X[train], data.labels[train])
        score = self.scorer.of_model(model, data.X[test], data.labels[test])
        return Outcome(score, np.nan, np.nan, np.nan, 0, 0.0, np.empty(0))

    def _run_learned(self, name: str, train: np.ndarray, test: np.ndarray) -> Outcome:
        candidates = make_candidates(
            [name], self.alphas, self._smoothnesses(train), self.estimator.max_rounds
        )
        inner = self._inner(train)
        scores = np.column_stack(
            [self.data.score(self.estimator, candidates, a, b, self.scorer) for a, b in inner]
        )
        chosen = candidates[self._choose(candidates, scores, inner)]
        ((f, fit),) = fits = self.data.fit(self.estimator, [chosen], train)
        outputs = self.data.outputs(fits, train, test)
        score = float(self.scorer(outputs, self.data.labels[test])[0])
        inner_score = float(scores.mean(axis=1).max())
        return Outcome(
            score, inner_score, chosen.alpha, chosen.smoothness, fit.n_rounds, 0.0, _unit(f)
        )

    def _smoothnesses(self, train: np.ndarray) -> np.ndarray:
        """Grid of an outer training set; automatic ones in regression are in units of its variance."""
        if self.automatic_smoothnesses and isinstance(self.data.loss, Squared):
            return self.smoothnesses * np.var(self.data.y[train])
        return self.smoothnesses

    def _run_fixed(self, name: str, train: np.ndarray, test: np.ndarray) -> Outcome:
        """Raw samples, or one fixed target: one design per training set, all alphas along one path."""
        candidates = [Candidate("fixed", alpha, 0.0, 0) for alpha in self.alphas]
        inner = self._inner(train)
        shared = self.grams.get(name)
        scores = np.column_stack(
            [self._score_path(name, a, b, self.alphas, shared) for a, b in inner]
        )
        best = self._choose(candidates, scores, inner)
        alpha = self.alphas[best]
        score = self._score_path(name, train, test, np.array([alpha]), shared)[0]
        return Outcome(
            float(score), float(scores[best].mean()), float(alpha), 0.0, 0, 0.0, np.empty(0)
        )

    def _score_path(
        self,
        name: str,
        train: np.ndarray,
        test: np.ndarray,
        alphas: np.ndarray,
        gram: np.ndarray | None,
    ) -> np.ndarray:
        """Test scores along the alphas; from sub-blocks of one Gram matrix where there is one."""
        data, loss = self.data, self.data.loss
        options: dict[str, Any] = {"tol": W_TOL, "max_iter": self.estimator.max_iter}
        intercept = self.estimator.fit_intercept
        y, s = data.y[train], data.weights[train]
        if gram is not None:
            design = RidgeDesign.from_gram(gram[np.ix_(train, train)], fit_intercept=intercept)
            fits = design.solve_path(loss, y, s, alphas.tolist(), **options)
            cross = gram[np.ix_(test, train)]
            outputs = [cross @ np.asarray(fit.dual).T + fit.b for fit in fits]
        else:
            A, A_test = self._designs(name, train, test)
            fits = self._fit_path(A, y, s / s.sum(), alphas.tolist())
            outputs = [A_test @ np.asarray(fit.w).T + fit.b for fit in fits]
        return self.scorer(outputs, data.labels[test])

    def _fit_path(
        self, A: np.ndarray, y: np.ndarray, s: np.ndarray, alphas: list[float]
    ) -> list[LinearFit]:
        """Fits on one design at all alphas."""
        model, loss = self.estimator, self.data.loss
        options: dict[str, Any] = {"tol": W_TOL, "max_iter": model.max_iter}
        if model.l1_ratio > 0:
            options["fit_intercept"] = model.fit_intercept
            return [solve_w(A, loss, y, s, alpha, model.l1_ratio, **options) for alpha in alphas]
        return RidgeDesign(A, fit_intercept=model.fit_intercept).solve_path(
            loss, y, s, alphas, **options
        )

    def _designs(
        self, name: str, train: np.ndarray, test: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Training and test samples as the model sees them; nothing is learned from the test samples."""
        data = self.data
        if name == "raw":
            mean, std = np.nanmean(data.X[train]), np.nanstd(data.X[train])
            scale = std if std > 0 else 1.0
            parts = [np.nan_to_num((data.X[rows] - mean) / scale) for rows in (train, test)]
            return parts[0], parts[1]
        model = clone(self.estimator).set_params(method="fixed", init=name)
        f = model._start(data.X[train], data.weights[train], data.operator.n_features)
        A, A_test = (data.operator.take(rows).apply(f) for rows in (train, test))
        return A, A_test

    def with_grams(self, n_jobs: int | None) -> _Study:
        """The study with one Gram matrix of all samples per target that does not look at them.

        Its sub-blocks serve all folds and alphas, and the blocks of knots those of the learned targets. For
        more samples than features it does not pay.
        """
        n_samples, n_features = self.data.operator.n_samples, self.data.operator.n_features
        if n_samples > n_features:
            return self
        everyone = np.arange(n_samples)
        grams = {}
        for name in self.names:
            if name in FIXED and name not in DATA_TARGETS and self.estimator.l1_ratio == 0:
                A = self._designs(name, everyone, everyone[:0])[0]
                grams[name] = A @ A.T
        learned = [name for name in self.names if name in LEARNED]
        candidates = make_candidates(
            learned, self.alphas, self.smoothnesses, self.estimator.max_rounds
        )
        n_folds = len(self.outer) * len(self._inner(self.outer[0][0]))
        data = self.data.with_knot_grams(self.estimator, candidates, n_folds, n_jobs)
        return replace(self, grams=grams, data=data)

    def result(self, outcomes: dict[tuple[str, int], Outcome], n_permutations: int) -> Comparison:
        """Tables and verdict."""
        names = list(self.names)
        fixed = [name for name in names if name in FIXED]
        n_folds = len(self.outer)
        if fixed:
            for k in range(n_folds):
                best = max(fixed, key=lambda name: outcomes[name, k].inner_score)
                outcomes[BEST_FIXED, k] = outcomes[best, k]
            names.append(BEST_FIXED)
        rows = [(name, k, outcomes[name, k]) for name in names for k in range(n_folds)]
        per_repeat = self._folds_per_repeat()
        folds = {
            "method": np.array([name for name, _, _ in rows]),
            "repeat": np.array([k // per_repeat for _, k, _ in rows]),
            "fold": np.array([k % per_repeat for _, k, _ in rows]),
            **{
                key: np.array([getattr(outcome, key) for _, _, outcome in rows])
                for key in ("score", "alpha", "smoothness", "rounds", "seconds")
            },
        }
        scores = {
            name: np.array([outcomes[name, k].score for k in range(n_folds)]) for name in names
        }
        share = float(np.mean([len(test) / len(train) for train, test in self.outer]))
        contrast = None
        if VERDICT_METHOD in scores and BEST_FIXED in scores:
            contrast = corrected_difference(scores[VERDICT_METHOD] - scores[BEST_FIXED], share)
        targets = {
            name: np.stack([outcomes[name, k].target for k in range(n_folds)])
            for name in names
            if name in LEARNED
        }
        return Comparison(
            folds,
            _summary(scores),
            _tests(scores, share),
            _verdict(contrast, self.scoring, n_folds),
            contrast,
            targets,
            self.scoring,
            self._permutations(outcomes, scores, n_permutations),
        )

    def _folds_per_repeat(self) -> int:
        """Folds until every sample was tested once, or all of them where that never happens."""
        seen = np.zeros(len(self.data.y), dtype=bool)
        for k, (_, test) in enumerate(self.outer):
            seen[test] = True
            if seen.all():
                return k + 1
        return len(self.outer)

    def _permutations(self, outcomes, scores, n_permutations) -> dict[str, np.ndarray]:
        if not n_permutations:
            return {}
        folds = range(len(self.outer))
        means = np.array(
            [
                np.mean([outcomes[f"permutation {i}", k].score for k in folds])
                for i in range(n_permutations)
            ]
        )
        observed = float(scores[VERDICT_METHOD].mean()) if VERDICT_METHOD in scores else np.nan
        p_value = (1 + np.sum(means >= observed)) / (1 + n_permutations)
        return {
            "permutation": np.arange(n_permutations),
            "mean": means,
            "p_value": np.full(n_permutations, p_value),
        }


def _method_names(methods: Sequence[Any]) -> tuple[list[str], dict[str, Any]]:
    """Names of all methods in order, and the estimators behind those that are not ours."""
    names, given = [], {}
    for method in methods:
        if isinstance(method, str):
            if method not in METHOD_NAMES:
                known = ", ".join(repr(name) for name in METHOD_NAMES)
                raise ValueError(
                    f"unknown method {method!r}; known are {known}, and (name, estimator) pairs."
                )
            names.append(method)
        else:
            try:
                name, estimator = method
            except (TypeError, ValueError) as error:
                raise ValueError(
                    f"methods are names or (name, estimator) pairs; got {method!r}."
                ) from error
            if name in METHOD_NAMES or name == BEST_FIXED:
                raise ValueError(f"{name!r} is the name of a built-in method; choose another.")
            names.append(name)
            given[name] = estimator
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated or not names:
        raise ValueError(f"give each method once, and at least one; repeated: {repeated}.")
    return names, given


def _unit(f: np.ndarray) -> np.ndarray:
    """Target scaled to mean square 1, so that targets of different folds can be compared."""
    return f / np.sqrt(np.mean(f**2))


# -- running the tasks ------------------------------------------------------------------------------


def _run(
    study: _Study, tasks: list[tuple[str, int]], store: _Store, n_jobs: int | None, progress: bool
) -> dict[tuple[str, int], Outcome]:
    """Outcomes of all tasks; those that the store holds already are not computed again."""
    outcomes = {task: found for task in tasks if (found := store.load(task)) is not None}
    todo = [task for task in tasks if task not in outcomes]
    with Progress(len(todo), progress) as display:
        if outcomes:
            display.say(f"continuing: {len(outcomes)} of {len(tasks)} parts were done already")
        for attempt in (1, 2):
            left = [task for task in todo if task not in outcomes]
            try:
                for task, outcome in _outcomes(study, left, n_jobs):
                    store.save(task, outcome)
                    outcomes[task] = outcome
                    display.advance(f"{task[0]}, fold {task[1]}")
            except TerminatedWorkerError:
                if attempt == 2:
                    raise
                display.say("a worker process died (out of memory?); its folds are tried once more")
    return outcomes


def _outcomes(
    study: _Study, tasks: list[tuple[str, int]], n_jobs: int | None
) -> Iterable[tuple[tuple[str, int], Outcome]]:
    run = Parallel(n_jobs=n_jobs, return_as="generator_unordered", pre_dispatch="2*n_jobs")
    return run(delayed(_run_task)(study, task) for task in tasks)


def _run_task(study: _Study, task: tuple[str, int]) -> tuple[tuple[str, int], Outcome]:
    return task, study.run(*task)


@dataclass(frozen=True)
class _Store:
    """Directory of finished tasks, one file each, written in one move; or nothing."""

    directory: Path | None

    @classmethod
    def open(cls, directory: Any, fingerprint: str) -> _Store:
        """Open or begin a checkpoint; refuse one of other data or settings."""
        if directory is None:
            return cls(None)
        directory = Path(directory)
        directory.mkdir(parents=True, exist_ok=True)
        path = directory / "comparison.json"
        if path.exists():
            try:
                stored = json.loads(path.read_text(encoding="utf-8")).get("fingerprint")
            except (json.JSONDecodeError, AttributeError):
                stored = None
            if stored != fingerprint:
                raise ValueError(
                    f"the checkpoint {str(directory)!r} belongs to other data or settings; give another "
                    "directory, or remove this one to start anew."
                )
        else:
            text = json.dumps({"fingerprint": fingerprint})
            replace_file(path, lambda file: file.write(text.encode()))
        return cls(directory)

    def _path(self, task: tuple[str, int]) -> Path:
        assert self.directory is not None
        name = hashlib.sha256(task[0].encode()).hexdigest()[:16]
        return self.directory / f"{name}-{task[1]}.npz"

    def load(self, task: tuple[str, int]) -> Outcome | None:
        """Outcome of a finished task, or None."""
        if self.directory is None or not self._path(task).exists():
            return None
        with np.load(self._path(task), allow_pickle=False) as stored:
            values = {name: stored[name] for name in Outcome._fields}
        numbers = {name: value.item() for name, value in values.items() if name != "target"}
        return Outcome(target=values["target"], **numbers)

    def save(self, task: tuple[str, int], outcome: Outcome) -> None:
        """Keep the outcome of a task."""
        if self.directory is not None:
            fields: dict[str, Any] = outcome._asdict()
            replace_file(self._path(task), lambda file: np.savez(file, **fields))


# -- tables -----------------------------------------------------------------------------------------


def _summary(scores: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    means = np.array([values.mean() for values in scores.values()])
    order = np.argsort(-means, kind="stable")
    ranks = np.empty(len(order), dtype=int)
    ranks[order] = np.arange(1, len(order) + 1)
    return {
        "method": np.array(list(scores)),
        "mean": means,
        "std": np.array([v.std(ddof=1) if len(v) > 1 else np.nan for v in scores.values()]),
        "rank": ranks,
    }


def _tests(scores: dict[str, np.ndarray], test_share: float) -> dict[str, np.ndarray]:
    """Every method against every other."""
    pairs = [(a, b) for a in scores for b in scores if a != b]
    differences = [corrected_difference(scores[a] - scores[b], test_share) for a, b in pairs]
    p_t = np.array([difference.p_value for difference in differences])
    p_wilcoxon = np.array([wilcoxon_greater(scores[a] - scores[b]) for a, b in pairs])
    return {
        "method": np.array([a for a, _ in pairs]),
        "other": np.array([b for _, b in pairs]),
        "difference": np.array([difference.mean for difference in differences]),
        "low": np.array([difference.low for difference in differences]),
        "high": np.array([difference.high for difference in differences]),
        "t": np.array([difference.t for difference in differences]),
        "p_t": p_t,
        "p_t_holm": _holm_over_unordered(pairs, p_t),
        "p_wilcoxon": p_wilcoxon,
        "p_wilcoxon_holm": holm(p_wilcoxon),
    }


def _holm_over_unordered(pairs: list[tuple[str, str]], p_values: np.ndarray) -> np.ndarray:
    """Holm's adjustment of a two-sided test, which is the same for (a, b) and (b, a)."""
    places = {pair: k for k, pair in enumerate(pairs)}
    once = [k for k, (a, b) in enumerate(pairs) if k < places[b, a]]
    adjusted = np.full(len(pairs), np.nan)
    adjusted[once] = holm(p_values[once])
    for k in once:
        a, b = pairs[k]
        adjusted[places[b, a]] = adjusted[k]
    return adjusted


def _verdict(contrast: Difference | None, scoring: str, n_folds: int) -> str:
    """One plain sentence."""
    if contrast is None:
        return (
            f"No verdict: it compares {VERDICT_METHOD!r} with the best fixed target, and methods must name "
            "both."
        )
    if n_folds < 2:
        return (
            f"No verdict: one outer fold gives no interval; the difference there is {contrast.mean:+.4f}. "
            "Use at least two."
        )
    numbers = (
        f"{scoring} differs by {contrast.mean:+.4f} from the best fixed target's "
        f"(95% interval {contrast.low:+.4f} to {contrast.high:+.4f}, {n_folds} folds)"
    )
    if contrast.low > 0:
        return f"Learning the target helps: its {numbers}."
    if contrast.high < 0:
        return f"Learning the target hurts: its {numbers}."
    return f"Learning the target makes no difference that these data can show: its {numbers}."


def _write_csv(path: Path, table: dict[str, np.ndarray]) -> Path:
    def write(file: Any) -> None:
        text = io.TextIOWrapper(file, encoding="utf-8", newline="")
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(table)
        writer.writerows(zip(*(column.tolist() for column in table.values()), strict=True))
        text.flush()
        text.detach()

    replace_file(path, write)
    return path
