"""Tables of the expression experiment."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import stats

from suquan.statistics import corrected_difference, wilcoxon_greater

from ..tables import Row, column, distinct, grouped, mean_of, where
from .data import PAPER_COUNTS
from .paper import METHODS, P_VALUES, TABLE_2
from .run import DEFAULT, SVD_FULL
from .sets import ABOUT, PART_OF, counted

ORDER = (*METHODS, SVD_FULL, "f0", "joint", "crossfit", "start", "best_fixed")
AVERAGE = "average"


def tables(settings: Any, parts: dict[str, Any]) -> dict[str, list[Row]]:
    """Table 1, Table 2 (and the paper's), single folds, tests, targets."""
    folds = [row for part in parts.values() for row in part["rows"]]
    means = grouped(folds, ["dataset", "method"], auc=mean_of("score"))
    shares = {name: part["test_share"] for name, part in parts.items()}
    return {
        "folds": folds,
        "table1": [_counts(name, part["about"]) for name, part in parts.items()],
        "table2": table_2(means),
        "table2_paper": [
            {"dataset": name, **dict(zip(METHODS, values, strict=True))}
            for name, values in TABLE_2.items()
        ],
        "verdicts": [{"dataset": name, "verdict": part["verdict"]} for name, part in parts.items()],
        "tests": [
            *comparisons(folds, DEFAULT, shares),
            *comparisons(folds, "spav", shares),
        ],
        "per_dataset": per_dataset(folds, shares),
        "targets": [
            {"dataset": name, "method": method, "place": (k + 0.5) / len(values), "target": value}
            for name, part in parts.items()
            for method, values in part["targets"].items()
            for k, value in enumerate(values)
        ],
    }


def _counts(name: str, about: Row) -> Row:
    patients, relapses = PAPER_COUNTS.get(name, (float("nan"), float("nan")))
    platform, endpoint, preprocessing = ABOUT.get(name, ("", "", ""))
    return {
        "dataset": name,
        "platform": platform,
        "endpoint": endpoint,
        "preprocessing": preprocessing,
        "part_of": PART_OF.get(name, ""),
        **about,
        "samples_in_paper": patients,
        "positives_in_paper": relapses,
    }


def table_2(means: list[Row]) -> list[Row]:
    """Mean AUC × 100, data sets in rows, the average last.

    It has methods that are there for all sets, and leaves out sets whose patients are in another one.
    """
    sets = distinct(means, "dataset")
    methods = [name for name in ORDER if where(means, method=name)]
    rows = []
    for name in sets:
        found = {row["method"]: 100 * row["auc"] for row in where(means, dataset=name)}
        rows.append({"dataset": name, **{m: found.get(m, float("nan")) for m in methods}})
    independent = [row for row in rows if row["dataset"] in counted(sets)]
    average = {m: float(np.mean(column(independent, m))) for m in methods}
    return [*rows, {"dataset": AVERAGE, **average}]


def _differences(folds: list[Row], method: str, other: str) -> dict[str, np.ndarray]:
    """Fold by fold differences on every data set that has both."""
    found: dict[str, np.ndarray] = {}
    for name in distinct(folds, "dataset"):
        first = where(folds, dataset=name, method=method)
        second = where(folds, dataset=name, method=other)
        if first and second:
            found[name] = column(first, "score") - column(second, "score")
    return found


def comparisons(folds: list[Row], method: str, shares: dict[str, float]) -> list[Row]:
    """One method against every other over the data sets, without those whose patients are in another one.

    - `wilcoxon_folds`: one-sided over data sets × folds, as the paper seems to have done; folds overlap, so
      that it is too small.
    - `wilcoxon_datasets`: one-sided over the means of the data sets.
    - `corrected`: one-sided, the mean of the data sets' differences over the standard error that their
      corrected resampled variances give, taken as normal.
    - `in_paper`: the paper's p-value of SPAV; RMA is there also where no set has it.
    """
    in_paper = P_VALUES if method == "spav" else {}
    rows: list[Row] = []
    for other in ORDER:
        about = {"method": method, "against": other, "in_paper": in_paper.get(other, float("nan"))}
        if other in in_paper and not where(folds, method=other):
            rows.append(about | {"datasets": 0})
        if other == method or not where(folds, method=other):
            continue
        found = _differences(folds, method, other)
        differences = {name: found[name] for name in counted(list(found))}
        means = np.array([values.mean() for values in differences.values()])
        single = [
            corrected_difference(values, shares[name]) for name, values in differences.items()
        ]
        errors = np.array([one.mean / one.t if one.t else 0.0 for one in single])
        error = np.sqrt(np.sum(errors**2)) / len(errors)
        z = means.mean() / error if error > 0 else 0.0
        rows.append(
            about
            | {
                "mean_difference": 100 * means.mean(),
                "better_on": int(np.sum(means > 0)),
                "datasets": len(means),
                "wilcoxon_folds": wilcoxon_greater(np.concatenate(list(differences.values()))),
                "wilcoxon_datasets": wilcoxon_greater(means),
                "corrected": float(stats.norm.sf(z)),
            }
        )
    return rows


def per_dataset(folds: list[Row], shares: dict[str, float]) -> list[Row]:
    """The default method minus its start on every data set, and minus the best alternative ("choice_…")."""
    rows: dict[str, Row] = {}
    for other, prefix in (("start", ""), ("best_fixed", "choice_")):
        for name, values in _differences(folds, DEFAULT, other).items():
            one = corrected_difference(values, shares[name])
            found = {
                "difference": 100 * one.mean,
                "low": 100 * one.low,
                "high": 100 * one.high,
                "p_value": one.p_value,
            }
            row = rows.setdefault(name, {"dataset": name})
            row |= {f"{prefix}{key}": value for key, value in found.items()}
    for name, row in rows.items():
        rounds = column(where(folds, dataset=name, method=DEFAULT), "rounds")
        row |= {"folds": len(rounds), "folds_learned": int(np.sum(rounds > 0))}
    return list(rows.values())
