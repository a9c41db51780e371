"""Result of a comparison: tables, which are dicts of equal-length arrays, and the verdict.

Scores of the methods over the outer folds come in from :meth:`suquan.comparing.study.Study.result`; a
:class:`Comparison` goes out.
"""

from __future__ import annotations

import csv
import html
import io
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np

from suquan.calibration import MEASURES, reliability
from suquan.comparing.arms import BEST_FIXED, START, VERDICT_METHOD
from suquan.files.disk import replace_file
from suquan.selection.grids import ranks_of
from suquan.statistics import (
    Difference,
    corrected_difference,
    holm,
    holm_differences,
    wilcoxon_greater,
)
from suquan.survival import RiskGroups

# Fields of an outcome (:mod:`suquan.comparing.tasks`) that are columns of the table of folds; the measures of
# probabilities follow them.
FOLD_COLUMNS = ("score", "alpha", "smoothness", "rounds", "seconds")
Table = dict[str, np.ndarray]


@dataclass(frozen=True, repr=False)
class Comparison:
    """Result of :func:`compare`; tables are dicts of equal-length arrays. It prints its verdict and summary.

    Attributes
    ----------
    folds : dict of arrays
        One row per method and outer fold: method, repeat, fold, score, alpha, smoothness, rounds, seconds; for
        classes also the measures of probabilities (:func:`suquan.calibration.measure_probabilities`), NaN for
        estimators without any; and cohort, where cohorts are left out.
    summary : dict of arrays
        One row per method: method, mean, std, rank, and means of the measures of probabilities.
    tests : dict of arrays
        One row per ordered pair of methods: mean difference, its interval with the corrected resampled
        variance, t, two-sided p; one-sided Wilcoxon p; both Holm-adjusted. Of cohorts the differences alone.
    verdict : str
        Whether learning the target helps (learned − "start"), whether it is the better choice (learned −
        "best_fixed"), and which other methods are better; the differences by cohort where these are left out.
    contrast : Difference or None
        The difference behind the first sentence, the first row of `contrasts`; without p-value where nothing
        was learned in any fold.
    contrasts : dict of arrays
        All differences that the verdict reads, method − other: learned − "start", learned − "best_fixed", and
        every further method − learned, with interval and p-value adjusted by Holm over these further methods.
        Columns: method, other, difference, low, high, t, p.
    targets : dict of arrays
        Learned targets of each method over the outer folds, (n_folds, n_features).
    permutations : dict of arrays
        Scores with shuffled labels, where asked for; they never enter the verdict.
    reliability : dict of arrays
        For classes: method, predicted, observed, count, in ten bins of the probabilities of all outer folds;
        see :func:`suquan.calibration.reliability`.
    cohorts : dict of arrays
        Where cohorts are left out, one row per cohort and method: cohort, n_samples, method, score, and its
        difference from that of "start", or else of "best_fixed".
    risk_groups : RiskGroups or None
        Of times to event: thirds of the risks that "crossfit" gives the test samples of the first repeat.
    initial_target : ndarray of shape (n_features,) or None
        Target of "start", the median over the outer folds.
    """

    folds: dict[str, np.ndarray]
    summary: dict[str, np.ndarray]
    tests: dict[str, np.ndarray]
    verdict: str
    contrast: Difference | None
    targets: dict[str, np.ndarray]
    scoring: str
    permutations: dict[str, np.ndarray] = field(default_factory=dict)
    reliability: dict[str, np.ndarray] = field(default_factory=dict)
    cohorts: dict[str, np.ndarray] = field(default_factory=dict)
    risk_groups: RiskGroups | None = None
    contrasts: dict[str, np.ndarray] = field(default_factory=dict)
    initial_target: np.ndarray | None = None

    def __repr__(self) -> str:
        order = np.argsort(self.summary["rank"], kind="stable")
        names, means, sds = (self.summary[key][order].tolist() for key in ("method", "mean", "std"))
        width = max(map(len, names))
        lines = [f"{'method':<{width}}  mean {self.scoring}, sd over folds"]
        lines += [
            f"{name:<{width}}  {mean:.4f}  {sd:.4f}"
            for name, mean, sd in zip(names, means, sds, strict=True)
        ]
        return "\n".join([self.verdict, "", *lines])

    def _repr_html_(self) -> str:
        return f'<pre style="white-space: pre-wrap">{html.escape(repr(self))}</pre>'

    def target_band(
        self, method: str = VERDICT_METHOD
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Compute the lowest, median and highest learned target over the outer folds at every rank."""
        targets = self.targets[method]
        return targets.min(axis=0), np.median(targets, axis=0), targets.max(axis=0)

    def to_pandas(self) -> dict[str, Any]:
        """Turn the tables into data frames, by name; needs pandas."""
        import pandas as pd

        return {name: pd.DataFrame(table) for name, table in self._tables().items()}

    def to_csv(self, directory: Any) -> list[Path]:
        """Write folds.csv, summary.csv, tests.csv and what other tables there are, each in one move."""
        directory = Path(directory)
        directory.mkdir(parents=True, exist_ok=True)
        return [write_csv(directory / f"{name}.csv", t) for name, t in self._tables().items()]

    def _tables(self) -> dict[str, dict[str, np.ndarray]]:
        tables = {"folds": self.folds, "summary": self.summary, "tests": self.tests}
        others = ("contrasts", "permutations", "reliability", "cohorts")
        return tables | {name: getattr(self, name) for name in others if getattr(self, name)}

    def plot(self, axes: Any = None) -> Any:
        """Draw the scores of all methods and the band of the learned target on two matplotlib axes."""
        from suquan.plotting import plot_comparison

        return plot_comparison(self, axes)


# -- how they are made ------------------------------------------------------------------------------


def table_of(rows: Sequence[dict[str, Any]], columns: Sequence[str] = ()) -> Table:
    """Turn rows with the same keys into one array per key; `columns` are those of a table without rows."""
    return {key: np.array([row[key] for row in rows]) for key in (rows[0] if rows else columns)}


def summary_table(folds: Table) -> Table:
    """Average the scores and the measures of probabilities over the folds, one row per method."""
    rows = []
    for name in dict.fromkeys(folds["method"].tolist()):
        own = {key: column[folds["method"] == name] for key, column in folds.items()}
        score = own["score"]
        rows.append(
            {
                "method": name,
                "mean": score.mean(),
                "std": score.std(ddof=1) if len(score) > 1 else np.nan,
                "rank": 0,
                **{measure: own[measure].mean() for measure in MEASURES if measure in own},
            }
        )
    table = table_of(rows)
    return {**table, "rank": ranks_of(table["mean"])}


def tests_table(scores: dict[str, np.ndarray], test_share: float, *, of_cohorts: bool) -> Table:
    """Compare every method with every other; a two-sided test is the same for (a, b) and (b, a).

    Cohorts are no random folds: the corrected test does not hold for them, and the differences stand alone.
    """
    rows = []
    for a, b in permutations(scores, 2):
        gains = scores[a] - scores[b]
        found = corrected_difference(gains, test_share)
        if of_cohorts:
            found = Difference(found.mean, -np.inf, np.inf, np.nan, np.nan)
        p_wilcoxon = np.nan if of_cohorts else wilcoxon_greater(gains)
        rows.append({**_row(a, b, found, "p_t"), "p_t_holm": np.nan, "p_wilcoxon": p_wilcoxon})
    table = table_of(
        rows, ("method", "other", "difference", "low", "high", "t", "p_t", "p_t_holm", "p_wilcoxon")
    )
    once = {frozenset((row["method"], row["other"])): row["p_t"] for row in rows}
    adjusted = dict(zip(once, holm(np.array(list(once.values()))), strict=True))
    table["p_t_holm"] = np.array([adjusted[frozenset((r["method"], r["other"]))] for r in rows])
    return {**table, "p_wilcoxon_holm": holm(table["p_wilcoxon"])}


def contrasts_table(
    scores: dict[str, np.ndarray], learned: str, others: Sequence[str], test_share: float
) -> Table:
    """Compute the differences that the verdict reads; see :class:`Comparison`."""
    first, choice, *further = (
        (learned, START),
        (learned, BEST_FIXED),
        *((b, learned) for b in others),
    )
    gains = {pair: scores[pair[0]] - scores[pair[1]] for pair in (first, choice, *further)}
    found = [corrected_difference(gains[pair], test_share) for pair in (first, choice)]
    found += holm_differences([gains[pair] for pair in further], test_share)
    return table_of([_row(*pair, one, "p") for pair, one in zip(gains, found, strict=True)])


def _row(method: str, other: str, found: Difference, p_value: str) -> dict[str, Any]:
    """Make the row of one difference; `p_value` names the column of its p-value."""
    columns = ("difference", "low", "high", "t", p_value)
    return {"method": method, "other": other, **dict(zip(columns, found, strict=True))}


def differences_of(contrasts: Table) -> list[Difference]:
    """Read the differences of the table of contrasts, in its order."""
    columns = [contrasts[key].tolist() for key in ("difference", "low", "high", "t", "p")]
    return [Difference(*row) for row in zip(*columns, strict=True)]


def permutation_table(means: Sequence[float], observed: np.ndarray | None) -> Table:
    """List the mean scores with shuffled labels, and the share of them that reach the observed one."""
    level = np.nan if observed is None else observed.mean()
    p_value = (1 + np.sum(np.array(means) >= level)) / (1 + len(means))
    rows = enumerate(means)
    return table_of([{"permutation": k, "mean": mean, "p_value": p_value} for k, mean in rows])


def reliability_table(probabilities: dict[str, list[np.ndarray]], codes: np.ndarray) -> Table:
    """Join the bins of each method's probabilities of all outer folds with the observed frequencies."""
    rows = []
    for name, parts in probabilities.items():
        if all(part.size and not np.isnan(part).any() for part in parts):
            bins = reliability(np.concatenate(parts), codes)
            values = zip(*(column.tolist() for column in bins.values()), strict=True)
            rows += [{"method": name, **dict(zip(bins, row, strict=True))} for row in values]
    return table_of(rows)


def cohort_table(
    cohorts: Sequence[str], n_samples: Sequence[int], scores: dict[str, np.ndarray]
) -> Table:
    """List the score of each method in each cohort, and its difference from the reference's."""
    unknown = np.full(len(cohorts), np.nan)
    reference = scores.get(START, scores.get(BEST_FIXED, unknown))
    return table_of(
        [
            {
                "cohort": cohort,
                "n_samples": n_samples[k],
                "method": name,
                "score": values[k],
                "difference": values[k] - reference[k],
            }
            for k, cohort in enumerate(cohorts)
            for name, values in scores.items()
        ]
    )


def cohort_verdict(
    scores: dict[str, np.ndarray], learned: str | None, cohorts: Sequence[str], scoring: str
) -> str:
    """Say by cohort what learning the target changes; cohorts have no verdict."""
    text = "No verdict: each cohort is tested once, and the test of the verdict is for random folds"
    if learned is None:
        return f"{text}."
    gains = scores[learned] - scores[START]
    each = ", ".join(f"{name} {gain:+.4f}" for name, gain in zip(cohorts, gains, strict=True))
    return f"{text}. {scoring} of the learned target minus that of the initial target: {each}."


def verdict_of(contrasts: Table, scoring: str, n_folds: int, n_left: int) -> str:
    """Say whether learning helps, whether it is the better choice, and which other methods are better.

    `n_left` is the number of outer folds in which the initial target was left.
    """
    if not contrasts:
        return (
            f"No verdict: methods must name {VERDICT_METHOD!r}, or exactly one method that learns its target "
            "from an initial one."
        )
    first, choice, *others = differences_of(contrasts)
    if n_folds < 2:
        return (
            "No verdict: one outer fold gives no interval; the difference from the initial target there is "
            f"{first.mean:+.4f}. Use at least two."
        )

    def told(one: Difference) -> str:
        return f"{one.mean:+.4f} (95% interval {one.low:+.4f} to {one.high:+.4f})"

    text = f"Nothing was learned: the initial target was kept in all {n_folds} outer folds."
    if n_left or first.mean:
        claim = "helps" if first.low > 0 else "hurts"
        claim = f"Learning the target {claim}"
        if first.low <= 0 <= first.high:
            claim = "No detectable benefit of learning the target"
        text = (
            f"{claim}: {scoring} {told(first)} compared with the initial target, which was left in {n_left} of "
            f"{n_folds} outer folds."
        )
    claim = "better" if choice.low > 0 else "worse"
    if choice.low <= 0 <= choice.high:
        claim = "not detectably better or worse"
    text += f" The learned target is {claim} than the best alternative inside each fold: {told(choice)}."
    names = contrasts["method"][2:].tolist()
    better = [
        f"{name!r} {told(one)}" for name, one in zip(names, others, strict=True) if one.low > 0
    ]
    if better:
        text += f" Better than the learned target, intervals adjusted: {', '.join(better)}."
    return text


def write_csv(path: Path, table: Table) -> Path:
    """Write a table in one move."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(table)
    writer.writerows(zip(*(column.tolist() for column in table.values()), strict=True))
    replace_file(path, lambda file: file.write(text.getvalue().encode()))
    return path
