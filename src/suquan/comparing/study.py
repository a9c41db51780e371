"""Study of a comparison: the data, folds and settings that all its tasks share, and how each task is run.

:func:`suquan.compare` makes a :class:`Study`, whose tasks workers run (:mod:`suquan.comparing.tasks`); the
outcomes come back to :meth:`Study.result`.
"""

from __future__ import annotations

import hashlib
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from functools import partial
from operator import attrgetter
from typing import Any

import numpy as np
import sklearn
from sklearn.base import clone
from sklearn.ensemble import ExtraTreesClassifier, ExtraTreesRegressor
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from threadpoolctl import threadpool_limits

from suquan._version import __version__
from suquan.calibration import apply_calibration, measure_probabilities
from suquan.comparing import tables as tables
from suquan.comparing.arms import (
    ALTERNATIVES,
    BEST_FIXED,
    FIXED,
    FORESTS,
    KNOWN,
    START,
    VERDICT_METHOD,
    judged_method,
    learned_methods,
)
from suquan.comparing.tasks import Outcome, Task, digest_of
from suquan.methods import METHODS, Method
from suquan.model.prepare import decision_values
from suquan.model.problem import W_TOL, Splits, make_design
from suquan.model.rounds import Candidate
from suquan.model.settings import Settings
from suquan.preprocessing import QuantileNormalizer
from suquan.ranking import column_moments, deviations, mean_and_variance
from suquan.selection.folds import (
    RankedData,
    calibrate,
    folds_per_repeat,
    leave_out_splits,
    make_splits,
    shared_groups,
    test_share,
    usable_calibration,
)
from suquan.selection.grids import Choice, make_grid, select
from suquan.selection.scoring import OutputScorer
from suquan.survival import RiskGroups, exchange_labels

MAX_DRAWS = 1000  # of one permutation, until each of its folds has all classes
# Gives, for candidates, training and test samples, the outputs for the test samples and the fits.
Fit = Callable[[list[Candidate], np.ndarray, np.ndarray], tuple[list[np.ndarray], list[Any]]]


@dataclass(frozen=True)
class Study:
    """Everything that the tasks of a comparison share; the parameters are those of :func:`suquan.compare`."""

    data: RankedData
    settings: Settings
    methods: dict[str, Any]
    outer_cv: Any
    inner_cv: Any
    cohorts: np.ndarray | None
    scorer: OutputScorer
    grid: dict[str, Any]
    selection: str
    min_gain: float
    calibration: str | None
    seed: int
    outer: Splits = field(default_factory=list)

    def with_folds(self) -> Study:
        """Make all folds and grids once: errors and warnings come before the work."""
        outer = self._outer_splits()
        rows = [row for row in self.methods.values() if isinstance(row, Method)]
        make_grid(self.data, self.settings, [METHODS["fixed"], *rows], outer[0][0], self.grid)
        inner = [split for train, _ in outer for split in self._inner(train)]
        calibration = usable_calibration(self.calibration, inner, self.data, "inner_cv")
        for name, splits in (("outer", outer), ("inner", inner)):
            told = shared_groups(splits, self.data.groups)
            if told:
                warnings.warn(f"{told} of the {name} folds.", UserWarning, stacklevel=3)
        return replace(self, outer=outer, calibration=calibration)

    def tasks(self, n_permutations: int) -> list[Task]:
        """List all tasks, fold after fold, those with permuted labels last."""
        n_folds = range(len(self.outer))
        tasks = [(name, k) for k in n_folds for name in self.methods]
        return tasks + [(f"permutation {i}", k) for i in range(n_permutations) for k in n_folds]

    def fingerprint(self) -> str:
        """Hash the data, every setting that the numbers depend on, and versions."""
        own = {f.name: getattr(self, f.name) for f in fields(self)}
        data = own.pop("data")
        del own["outer_cv"]  # `outer` has its splits
        own |= {
            "samples": (data.X, data.labels, data.groups),
            "settings": {**vars(self.settings), "method": None, "verbose": 0},
            # Other methods may be compared later: what counts is what their names do not say.
            "methods": {
                name: vars(method) if isinstance(method, Method) else method
                for name, method in self.methods.items()
                if name not in KNOWN
            },
            "judged": judged_method(self.methods),
            "versions": (__version__, np.__version__, sklearn.__version__, Outcome._fields),
        }
        return hashlib.sha256("".join(map(digest_of, own.values())).encode()).hexdigest()

    def run(self, name: str, fold: int) -> Outcome:
        """Choose the penalties of one method on one outer training set, and score it on the test set."""
        start = time.perf_counter()
        with threadpool_limits(1):
            if name.startswith("permutation "):
                outcome = self._permuted(int(name.split()[1])).run(VERDICT_METHOD, fold)
            else:
                outcome = self._run(name, *self.outer[fold])
        return outcome._replace(seconds=time.perf_counter() - start)

    def _run(self, name: str, train: np.ndarray, test: np.ndarray) -> Outcome:
        method = self.methods[name]
        if name == START:  # same candidates, folds and fits as the learned method's own
            nothing = replace(self, grid={**self.grid, "departures": [0.0]})
            return nothing._run(str(judged_method(self.methods)), train, test)
        if name == "raw":
            return self._choose_and_test(METHODS["fixed"], self._fit_raw, train, test)
        if isinstance(method, Method):
            settings = self.settings
            if name in FIXED:  # read at full length
                settings = replace(settings, n_knots=None)
            return self._choose_and_test(method, partial(self._fit, settings), train, test)
        estimator = self._forest(name) if name in FORESTS else method
        return self._run_estimator(estimator, train, test)

    def _permuted(self, number: int) -> Study:
        """Permute the labels, and draw folds of their own until these have all classes."""
        data, rng = self.data, np.random.default_rng([self.seed, number])
        groups = np.arange(len(data.y)) if data.groups is None else data.groups
        learned = {VERDICT_METHOD: METHODS[VERDICT_METHOD]}
        for _ in range(MAX_DRAWS):
            order = exchange_labels(rng, data.labels, groups)
            permuted = replace(data, labels=data.labels[order], y=data.y[order])
            study = replace(self, data=permuted, methods=learned)
            with suppress(ValueError):
                outer = study._outer_splits()
                [study._inner(train) for train, _ in outer]
                return replace(study, outer=outer)
        raise ValueError(
            f"{MAX_DRAWS} permutations of the labels each left a fold without a class; use fewer folds."
        )

    def _outer_splits(self) -> Splits:
        """Split the samples by `outer_cv`, or leave each cohort out once."""
        data, outer_cv = self.data, self.outer_cv
        if self.cohorts is not None:
            is_values = data.classes is None and not data.loss.couples_samples
            outer_cv = leave_out_splits(self.cohorts, None if is_values else data.labels)
        return make_splits(outer_cv, data, np.arange(len(data.y)), self.seed, "outer_cv")

    def _inner(self, train: np.ndarray) -> Splits:
        return make_splits(self.inner_cv, self.data, train, self.seed, "inner_cv")

    # -- estimators of others -------------------------------------------------------------------------

    def _forest(self, name: str) -> Any:
        """Make the forest on the values, or on the samples normalised to the uniform target."""
        settings, given = self.settings, {"min_samples_leaf": 2, "random_state": self.seed}
        if self.data.classes is None:
            forest = ExtraTreesRegressor(300, **given)
        else:
            forest = ExtraTreesClassifier(300, **given, class_weight=settings.class_weight)
        if name == "forest_raw":
            return forest
        normalizer = QuantileNormalizer("uniform", ties=settings.ties, missing=settings.missing)
        return make_pipeline(normalizer, SimpleImputer(keep_empty_features=True), forest)

    def _run_estimator(self, estimator: Any, train: np.ndarray, test: np.ndarray) -> Outcome:
        data = self.data
        model = clone(estimator).fit(data.X[train], data.labels[train])
        score, chances = self.scorer.of_model(model, data.X[test], data.labels[test]), np.empty(0)
        if data.classes is not None and hasattr(model, "predict_proba"):
            chances = np.asarray(model.predict_proba(data.X[test]), dtype=np.float64)
        return Outcome(score, probabilities=chances)

    # -- our own methods ------------------------------------------------------------------------------

    def _choose_and_test(
        self, method: Method, fit: Fit, train: np.ndarray, test: np.ndarray
    ) -> Outcome:
        """Choose the penalties of a method by the inner folds, and test it."""
        data, inner = self.data, self._inner(train)
        candidates = make_grid(data, self.settings, [method], train, self.grid)
        folds = [data.score_outputs(fit(candidates, a, b)[0], b, self.scorer) for a, b in inner]
        found = select(candidates, folds, inner, self.selection, self.min_gain)
        chosen = candidates[found.best]
        outputs, fits = fit([chosen], train, test)
        chances = self._probabilities(outputs[0], inner, found)
        outcome = Outcome(
            score=float(self.scorer(outputs, data.labels[test], chances)[0]),
            inner_score=float(found.scores[found.best].mean()),
            alpha=chosen.alpha,
            smoothness=chosen.smoothness,
            probabilities=np.empty(0) if chances is None else chances,
            outputs=outputs[0],
        )
        for f, last in fits:
            target = np.atleast_2d(f)[0]
            # Targets of different folds can then be compared.
            target = target / np.sqrt(np.mean(target**2))
            outcome = outcome._replace(rounds=last.n_rounds, target=target)
        return outcome

    def _fit(
        self, settings: Settings, candidates: list[Candidate], train: np.ndarray, test: np.ndarray
    ) -> tuple[list[np.ndarray], list[Any]]:
        """Fit samples that are normalised to a target, given or learned; see `Fit`."""
        fits = self.data.fit(settings, candidates, train)
        return self.data.outputs(settings, fits, train, test), fits

    def _fit_raw(
        self, candidates: list[Candidate], train: np.ndarray, test: np.ndarray
    ) -> tuple[list[np.ndarray], list[Any]]:
        """Fit the values, centred and scaled by one mean and one standard deviation; see `Fit`.

        A missing value of a training sample counts as the mean of all values, of a test sample as that of its
        feature over the training samples.
        """
        data, settings, units = self.data, self.settings, self.data.units
        weights, own = data.weights_in(settings, train), settings.in_units(units)
        mean, std = np.nanmean(data.X[train]), np.nanstd(data.X[train])
        A, A_test = ((data.X[rows] - mean) / (std or 1.0) for rows in (train, test))
        moments = partial(column_moments, A, weights)
        if settings.feature_scaling == "std":
            sd = deviations(moments, float(np.nanmax(np.abs(A))))
            A, A_test = A / sd, A_test / sd
            moments = partial(column_moments, A, weights)
        if np.isnan(A_test).any():
            A_test = np.where(np.isnan(A_test), mean_and_variance(moments)[0], A_test)
        design = make_design(np.nan_to_num(A), own.l1_ratio, settings.fit_intercept)
        unit, _ = settings.penalty_units(units)
        path = design.solve_path(
            data.loss, data.y[train], weights / weights.sum(), [c.alpha / unit for c in candidates],
            tol=W_TOL, max_iter=settings.max_iter,
        )  # fmt: skip
        return [units.centre + units.scale * (A_test @ fit.w.T + fit.b) for fit in path], []

    def _probabilities(self, u: np.ndarray, inner: Splits, found: Choice) -> np.ndarray | None:
        """Compute the probabilities of classes from outputs, calibrated by the inner folds; None for values."""
        data, classes = self.data, self.data.classes
        if classes is None:
            return None
        kept = inner, found.outputs
        _, _, calibration = calibrate(self.calibration, data, self.settings, *kept)
        if calibration is None:
            return data.loss.mean(u)
        return apply_calibration(calibration, decision_values(u, classes))

    # -- the result -----------------------------------------------------------------------------------

    def result(self, outcomes: dict[Task, Outcome], n_permutations: int) -> tables.Comparison:
        """Make the tables and the verdict."""
        n_folds, judged = len(self.outer), judged_method(self.methods)
        runs = {name: [outcomes[name, k] for k in range(n_folds)] for name in self.methods}
        alternatives = [runs[name] for name in runs if name in ALTERNATIVES]
        if alternatives:
            runs[BEST_FIXED] = [
                max(of_fold, key=attrgetter("inner_score"))
                for of_fold in zip(*alternatives, strict=True)
            ]
        scores = {name: np.array([run.score for run in parts]) for name, parts in runs.items()}
        targets = {
            name: np.array([run.target for run in runs[name]])
            for name in (*learned_methods(self.methods), START)
            if name in runs
        }
        share, scoring = test_share(self.outer), self.scorer.name
        others = [name for name in runs if name not in (judged, BEST_FIXED, *ALTERNATIVES)]
        contrasts: dict[str, np.ndarray] = {}
        cohorts: dict[str, np.ndarray] = {}
        if self.cohorts is not None:
            tested = [str(self.cohorts[test[0]]) for _, test in self.outer]
            cohorts = tables.cohort_table(tested, [len(test) for _, test in self.outer], scores)
            verdict = tables.cohort_verdict(scores, judged, tested, scoring)
        else:
            if judged is not None:
                contrasts = tables.contrasts_table(scores, judged, others, share)
            n_left = sum(run.rounds > 0 for run in runs.get(str(judged), []))
            verdict = tables.verdict_of(contrasts, scoring, n_folds, n_left)
        shuffled = [
            float(np.mean([outcomes[f"permutation {i}", k].score for k in range(n_folds)]))
            for i in range(n_permutations)
        ]
        start = targets.pop(START, None)
        folds = tables.table_of(
            [row for name, parts in runs.items() for row in self._rows(name, parts)]
        )
        return tables.Comparison(
            folds=folds,
            summary=tables.summary_table(folds),
            tests=tables.tests_table(scores, share, of_cohorts=bool(cohorts)),
            verdict=verdict,
            contrast=tables.differences_of(contrasts)[0] if contrasts else None,
            targets=targets,
            scoring=scoring,
            permutations=tables.permutation_table(shuffled, scores.get(VERDICT_METHOD)),
            reliability=self._reliability(runs),
            cohorts=cohorts,
            risk_groups=self._risk_groups(runs.get(VERDICT_METHOD)),
            contrasts=contrasts,
            initial_target=None if start is None else np.median(start, axis=0),
        )

    def _rows(self, name: str, runs: list[Outcome]) -> Iterator[dict[str, Any]]:
        """Give the rows of one method in the table of folds."""
        data, n_folds = self.data, folds_per_repeat(self.outer, len(self.data.y))
        for k, (run, (train, test)) in enumerate(zip(runs, self.outer, strict=True)):
            row = {"method": name, "repeat": k // n_folds, "fold": k % n_folds}
            row |= {key: getattr(run, key) for key in tables.FOLD_COLUMNS}
            if data.classes is not None:
                counts = np.bincount(data.codes(train))
                known = data.codes(test), counts / counts.sum()
                row |= measure_probabilities(run.probabilities, *known)
            if self.cohorts is not None:
                row["cohort"] = str(self.cohorts[test[0]])
            yield row

    def _reliability(self, runs: dict[str, list[Outcome]]) -> dict[str, np.ndarray]:
        if self.data.classes is None:
            return {}
        codes = np.concatenate([self.data.codes(test) for _, test in self.outer])
        chances = {name: [run.probabilities for run in parts] for name, parts in runs.items()}
        return tables.reliability_table(chances, codes)

    def _risk_groups(self, runs: list[Outcome] | None) -> RiskGroups | None:
        if runs is None or not self.data.loss.couples_samples:
            return None
        n_folds = folds_per_repeat(self.outer, len(self.data.y))
        tests = [test for _, test in self.outer[:n_folds]]
        risks = [run.outputs[:, 0] for run in runs[:n_folds]]
        return RiskGroups.of_folds(
            self.data.labels, tests, risks, self.seed, groups=self.data.groups
        )
