"""Grids of settings, and the choice of one of them by the scores on the folds.

What the user gave for a grid comes in, candidates go out; their scores come in, the chosen one goes out. The
estimators that select and :func:`suquan.compare` call both.
"""

from collections.abc import Callable, Sequence
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np

from suquan.methods import Method, resolve_method
from suquan.model.problem import Splits
from suquan.model.rounds import Candidate
from suquan.model.settings import Settings
from suquan.selection.folds import FoldScores, RankedData, corrected_error, test_share

# Parameters of a grid, as users give them.
GRID = ("alphas", "smoothnesses", "max_rounds", "n_targets", "departures")
# Automatic strengths by the norm of the method's penalty, in units of the number of features (of its root for
# the trace norm); see docs/design/selection.md.
ALPHA_RANGES = {None: (1e-6, 1e-1), "frobenius": (1e-5, 1.0), "trace": (3e-4, 1e-1)}
SMOOTHNESS_RANGE = (1e-5, 1e-2)
SELECTIONS = ("smoothed", "best")
# Mixing weights between the initial (0) and a cross-fitted target (1) to try; see docs/design/no_harm.md.
DEPARTURES = (0.0, 0.5, 1.0)
# Mean scores (and losses) that are this close tie: sums of the same numbers differ by their rounding.
_TIE = 1e-12


# -- grids ------------------------------------------------------------------------------------------


def make_grid(
    data: RankedData,
    settings: Settings,
    methods: Sequence[Method],
    rows: np.ndarray,
    grid: dict[str, Any],
) -> list[Candidate]:
    """Make the grid of all methods; automatic strengths are in the units of the labels of the samples `rows`.

    `grid` has the parameters `GRID`.
    """
    p, found = data.operator.n_features, []
    levels = smoothness_grid(grid["smoothnesses"], p, data.smoothness_unit(settings, rows))
    others = {name: grid[name] for name in ("max_rounds", "n_targets", "departures")}
    for method in methods:
        unit, _ = settings.with_method(method).penalty_units(data.units)
        alphas = alpha_grid(grid["alphas"], p, method, unit)
        found += make_candidates([method], alphas, levels, **others)
    return found


def alpha_grid(
    alphas: Any, n_features: int, method: Method | None = None, unit: float = 1.0
) -> np.ndarray:
    """Give increasing strengths: `alphas` values spread over 10⁻⁶ p … 10⁻¹ p units, or the given ones.

    For "matrix" they are spread over 10⁻⁵ p … p, for "multi" over 3·10⁻⁴ √p … 10⁻¹ √p.
    """
    norm = None if method is None else method.norm
    size = np.sqrt(n_features) if norm == "trace" else n_features
    limits = ALPHA_RANGES[norm]
    return _grid("alphas", alphas, "positive", lambda n: np.geomspace(*limits, n) * size * unit)


def smoothness_grid(smoothnesses: Any, n_features: int, unit: float = 1.0) -> np.ndarray:
    """Give increasing strengths: 0 and values spread over 10⁻⁵ p … 10⁻² p, or the given ones."""

    def spread(n: int) -> np.ndarray:
        return np.r_[0.0, np.geomspace(*SMOOTHNESS_RANGE, n - 1) * n_features * unit]

    return _grid("smoothnesses", smoothnesses, "non-negative", spread)


def _grid(
    name: str, values: Any, wanted: str, spread: Callable[[int], np.ndarray] | None = None
) -> np.ndarray:
    """Spread a number of strengths, or check and sort the given ones."""
    if spread is not None and isinstance(values, Integral) and not isinstance(values, bool):
        if values < 1:
            raise ValueError(f"{name} must be at least 1 value; got {values}.")
        return spread(int(values))
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
    return grid


def make_candidates(
    methods: Sequence[Any],
    alphas: np.ndarray,
    smoothnesses: np.ndarray,
    max_rounds: Any = None,
    n_targets: Any = None,
    departures: Any = None,
) -> list[Candidate]:
    """List all settings; smoothness, rounds, targets and departures vary where a method has any."""
    numbers = list(n_targets) if isinstance(n_targets, (list, tuple)) else [n_targets]
    given = None if max_rounds is None else _given_rounds(max_rounds)
    return [
        Candidate(method, float(alpha), float(level), rounds if departure else 0, number, departure)
        for method in map(resolve_method, methods)
        for departure in _departures_of(method, departures)
        for rounds in (given if given and method.max_rounds and departure else [method.max_rounds])
        for number in (numbers if method.norm == "trace" else [None])
        for level in (smoothnesses if method.is_smooth and departure else [0.0])
        for alpha in alphas
    ]


def _departures_of(method: Method, departures: Any) -> list[float]:
    """List the departures to try for a method, the smallest first."""
    if departures is None:
        return list(DEPARTURES) if method.is_crossfit else [1.0]
    grid = _grid("departures", np.atleast_1d(departures), "non-negative")
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


class Choice(NamedTuple):
    """Number of the chosen candidate, the scores of all, and the outputs of the chosen one.

    Scores have the shape (n_candidates, n_folds); losses, means over the folds, (n_candidates,); outputs, one
    array per fold, (n_test, n_outputs).
    """

    best: int
    scores: np.ndarray
    losses: np.ndarray
    outputs: list[np.ndarray]


def select(
    candidates: Sequence[Candidate],
    folds: Sequence[FoldScores],
    splits: Splits,
    selection: str,
    min_gain: float,
) -> Choice:
    """Choose one of the candidates by their scores on all folds."""
    scores = np.column_stack([fold.scores for fold in folds])
    losses = np.column_stack([fold.losses for fold in folds]).mean(axis=1)
    best = choose(candidates, scores, selection, test_share(splits), min_gain, losses)
    return Choice(best, scores, losses, [fold.outputs[best] for fold in folds])


def choose(
    candidates: Sequence[Candidate],
    scores: np.ndarray,
    selection: str,
    test_share: float,
    min_gain: float = 0.0,
    losses: np.ndarray | None = None,
) -> int:
    """Return the number of the chosen candidate.

    The best one says which method. Of its departures the smallest is kept, at its own best setting, unless a
    larger one, at its own, is better by `min_gain` standard errors of the paired difference. Where scores tie,
    the setting with the smaller loss is the better one, and then that with the larger alpha.

    `scores` have the shape (n_candidates, n_folds), `losses` (n_candidates,); `test_share` is n_test / n_train.
    """
    losses = np.zeros(len(candidates)) if losses is None else losses

    def best_of(rows: Sequence[int]) -> int:
        some = [candidates[k] for k in rows]
        return rows[_best(some, scores[rows].mean(axis=1), losses[rows], selection)]

    best = best_of(range(len(candidates)))
    levels: dict[float, list[int]] = {}
    for k, candidate in enumerate(candidates):
        if candidate.method.name == candidates[best].method.name:
            levels.setdefault(candidate.departure, []).append(k)
    kept, *larger = (best_of(levels[departure]) for departure in sorted(levels))
    for k in larger:
        gains = scores[k] - scores[kept]
        if np.mean(gains) > min_gain * corrected_error(gains, test_share):
            kept = k
    return kept


def _best(
    candidates: Sequence[Candidate], means: np.ndarray, losses: np.ndarray, selection: str
) -> int:
    """Return the number of the best candidate, whatever its departure."""
    ranked = smooth_scores(candidates, means) if selection == "smoothed" else means
    best = max(range(len(means)), key=lambda k: (ranked[k], candidates[k].alpha))
    ties = (np.abs(means - means[best]) <= _TIE) & (ranked >= ranked[best] - _TIE)
    return min(
        np.flatnonzero(ties).tolist(), key=lambda k: (round(float(losses[k]), 12), k != best)
    )


def smooth_scores(candidates: Sequence[Candidate], scores: np.ndarray) -> np.ndarray:
    """Average the score of every candidate with those of the next smaller and larger smoothness."""
    smoothed = np.array(scores, dtype=np.float64)
    lines: dict[tuple, list[int]] = {}
    for k, candidate in enumerate(candidates):
        method, *rest = candidate._replace(smoothness=0.0)
        lines.setdefault((method.name, *rest), []).append(k)
    for line in lines.values():
        line.sort(key=lambda k: candidates[k].smoothness)
        for place, k in enumerate(line):
            smoothed[k] = np.mean(scores[line[max(place - 1, 0) : place + 2]])
    return smoothed


def make_cv_results(candidates: Sequence[Candidate], scores: np.ndarray) -> dict[str, Any]:
    """Put the scores of a grid under scikit-learn's keys."""
    params = [{**c._asdict(), "method": c.method.name} for c in candidates]
    if not any(c.method.norm == "trace" for c in candidates):
        params = [{k: v for k, v in values.items() if k != "n_targets"} for values in params]
    results: dict[str, Any] = {
        f"param_{name}": np.array([np.nan if v[name] is None else v[name] for v in params])
        for name in params[0]
    }
    results["params"] = params
    results |= {f"split{k}_test_score": of_fold for k, of_fold in enumerate(scores.T.copy())}
    results["mean_test_score"] = scores.mean(axis=1)
    results["std_test_score"] = scores.std(axis=1)
    results["rank_test_score"] = ranks_of(results["mean_test_score"]).astype(np.int32)
    return results


def ranks_of(means: np.ndarray) -> np.ndarray:
    """Return ranks from 1, the largest first; equal ones in their order."""
    return np.argsort(np.argsort(-means, kind="stable")) + 1
