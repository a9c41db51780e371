"""Scores of start, half-way mixture and learned target, setting by setting, on the same folds.

Ranked samples and a grid come in, scores by family, setting and fold go out; ``run`` calls it. No rule of
choice is applied here: ``table`` applies them all to the scores that were kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from suquan.solvers.knot_grams import KnotProblem

from suquan import SuquanClassifier, fitting, objective
from suquan.methods import METHODS
from suquan.model.problem import Splits
from suquan.selection.folds import Candidate, RankedData
from suquan.selection.scoring import OutputScorer

from ..recipes.steps import other_penalty

# Weights of the learned target in a mixture with the start.
WEIGHTS = (0.0, 0.25, 0.5, 0.75, 1.0)


@dataclass(frozen=True)
class Grid:
    """Strengths in units of the number of features, and what all fits share."""

    alphas: tuple[float, ...] = (1e-4, 1e-3, 1e-2, 1e-1)
    smoothnesses: tuple[float, ...] = (0.0, 3e-4, 1e-2)
    n_knots: int | None = 30
    n_repeats: int = 3


@dataclass(frozen=True)
class Families:
    """Ranked samples with the candidates of all families.

    Attributes
    ----------
    data : RankedData
    settings : fitting.Settings
        Of "crossfit".
    scorer : OutputScorer
    starts, learned : list of Candidate
        Mixtures are made of the learned ones.
    penalty : str
        Another f-step of ``recipes.steps`` in place of the library's, or "".
    """

    data: RankedData
    settings: Any
    scorer: OutputScorer
    starts: list[Candidate]
    learned: list[Candidate]
    penalty: str = ""

    @classmethod
    def of(cls, X: np.ndarray, y: np.ndarray, grid: Grid, seed: int, penalty: str = "") -> Families:
        """Rank the samples once."""
        estimator = SuquanClassifier(
            n_knots=grid.n_knots, n_repeats=grid.n_repeats, random_state=seed
        )
        settings = fitting.Settings.of(estimator)
        data = RankedData.of(settings, fitting.encode(estimator, settings, X, y, None))
        p = X.shape[1]
        starts = [Candidate(METHODS["fixed"], alpha * p, 0.0, 0) for alpha in grid.alphas]
        learned = [
            Candidate(METHODS["crossfit"], alpha * p, level * p, 1)
            for level in grid.smoothnesses
            for alpha in grid.alphas
        ]
        scorer = OutputScorer.of(estimator, "roc_auc", data)
        return cls(data, settings, scorer, starts, learned, penalty)

    def with_grams(self, n_folds: int) -> Families:
        """With the blocks of knots, where they pay."""
        grams = self.data.with_knot_grams(self.settings, self.learned, n_folds, 1)
        return replace(self, data=grams)

    def scores(self, train: np.ndarray, test: np.ndarray) -> dict[str, list[float]]:
        """Scores on `test` after fits to `train`, by family."""
        data = self.data
        starts = data.fit(self.settings, self.starts, train)
        with self._f_step():
            learned = data.fit(self.settings, self.learned, train)
        g0 = starts[0][1].g
        problem = self.problem(train)
        mixed = []
        for candidate, (_, fit) in zip(self.learned, learned, strict=True):
            g = mixture(g0, fit.g, 0.5)
            mixed.append(
                (problem.expand(g), self.fixed(replace(problem, alpha=candidate.alpha), g))
            )
        return {
            name: np.round(
                self.scorer(data.outputs(self.settings, fits, train, test), data.labels[test]), 6
            ).tolist()
            for name, fits in (("start", starts), ("half", mixed), ("learned", learned))
        }

    def problem(self, train: np.ndarray) -> Any:
        """Joint problem of the samples `train`."""
        data = self.data
        weights = data.weights_in(self.settings, train)
        problem = fitting.make_problem(
            self.settings, data.operator.take(train), data.loss, data.y[train], weights
        )
        if data.grams is None:
            return problem
        return KnotProblem(**vars(problem), grams=data.grams[np.ix_(train, train)])

    def fixed(self, problem: Any, g: np.ndarray) -> Any:
        """The w-step at the target g."""
        return objective.fit_method(problem, g, replace(self.settings.steps, max_rounds=0))

    @contextmanager
    def _f_step(self) -> Iterator[None]:
        with other_penalty(self.penalty) if self.penalty else nullcontext():
            yield

    def inside_one_fit(
        self, train: np.ndarray, test: np.ndarray, alpha: float, smoothness: float
    ) -> dict[str, Any]:
        """What one fit could know by itself: out-of-fold losses of all mixtures, and their test scores.

        `own`: the folds of the fit. `second`: another partition; the target has still seen every sample.
        `honest`: the target of fold k is learned from the rows of the other folds.
        """
        data, settings = self.data, self.settings
        setting = Candidate(METHODS["crossfit"], alpha, smoothness, 1)
        problem = replace(self.problem(train), alpha=alpha, smoothness=smoothness)
        g0 = data.fit(settings, [self.starts[0]], train)[0][1].g
        g1 = data.fit(settings, [setting], train)[0][1].g
        own = problem.fold_models(self._splits(train, settings))
        second = problem.fold_models(
            self._splits(train, replace(settings, random_state=1_000_003, n_repeats=1))
        )
        found: dict[str, Any] = {"own": [], "second": [], "test": []}
        for weight in WEIGHTS:
            g = mixture(g0, g1, weight)
            design = problem.w_design(g)
            for name, folds in (("own", own), ("second", second)):
                models = folds.fit(problem, design, settings.max_iter)
                found[name].append(float(folds.held_out_loss(problem, models, design)))
            fits = [(problem.expand(g), self.fixed(problem, g))]
            outputs = data.outputs(self.settings, fits, train, test)
            found["test"].append(float(self.scorer(outputs, data.labels[test])[0]))
        losses = self._honest_losses(problem, own, g0)
        found["honest"] = losses.mean(axis=1).tolist()
        differences = losses[0] - losses
        found["honest_error"] = (differences.std(axis=1, ddof=1) / np.sqrt(len(train))).tolist()
        return found

    def _splits(self, train: np.ndarray, settings: Any) -> Splits:
        everyone = np.ones(len(train), dtype=bool)
        splits = fitting.crossfit_splits(
            settings, self.data.loss, self.data.y[train], None, everyone
        )
        assert splits is not None
        return splits

    def _honest_losses(self, problem: Any, folds: Any, g0: np.ndarray) -> np.ndarray:
        """Logistic loss of every sample under every mixture, (n_weights, n_samples), over one partition."""
        steps = self.settings.steps
        models = folds.fit(problem, problem.w_design(g0), steps.max_iter)
        D, y, s = folds.stack(problem, models, g0)
        losses = np.zeros((len(WEIGHTS), len(problem.y)))
        for k in range(int(self.settings.cv)):
            test = folds.splits[k][1]
            others = ~np.isin(folds.rows, test)
            weights = s[others] / s[others].sum()
            f = objective._f_step(problem, D[others], y[others], weights, g0, steps).f
            g = f / max(float(np.sqrt(np.mean(f**2))), 1e-12)
            for place, weight in enumerate(WEIGHTS):
                model = problem.w_design(mixture(g0, g, weight)).solve(
                    problem.loss, problem.y, folds.weights[k], problem.alpha,
                    tol=objective.W_TOL, max_iter=steps.max_iter,
                )  # fmt: skip
                losses[place, test] = np.logaddexp(0.0, -problem.y[test] * model.u[test])
        return losses


def mixture(g0: np.ndarray, g: np.ndarray, weight: float) -> np.ndarray:
    """Target between the start and the learned one, of sum 0 and mean square 1."""
    mixed = (1.0 - weight) * _unit(g0) + weight * _unit(g)
    return _unit(mixed)


def _unit(g: np.ndarray) -> np.ndarray:
    g = g - g.mean()
    return g / np.sqrt(np.mean(g**2))


def fold_scores(families: Families, splits: Sequence[Any]) -> dict[str, list[list[float]]]:
    """Scores by family, setting and fold."""
    found = [families.scores(train, test) for train, test in splits]
    return {name: np.transpose([one[name] for one in found]).tolist() for name in found[0]}
