"""Tables of the experiment on several targets."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..tables import Row, column, distinct, error_of, grouped, mean_of, where
from .settings import FIXED, Settings

SHOWN_PAIRS = 6  # whose targets are kept and drawn


def tables(settings: Settings, parts: dict[str, Any]) -> dict[str, list[Row]]:
    """Rows of every part, and their summaries, for the studies that were done."""
    made = {}
    simulated = _rows(parts, "rank")
    if simulated:
        made["simulation"] = [
            row | {"explained": row.get("explained", np.nan)} for row in simulated
        ]
        made["simulation_summary"] = simulation_summary(made["simulation"])
        made["simulation_targets"] = _simulated_targets(parts)
    scores = _rows(parts, "pair-")
    if scores:
        made["scores"] = scores
        made["summary"] = summary(scores)
        made["wins"] = wins(scores)
        made["choices"] = grouped(scores, ["method", "n", "alpha"], pairs=len)
        made["picture_targets"] = _picture_targets(parts)
    knots = _rows(parts, "knots-")
    if knots:
        made["knots"] = knots
        made["knots_summary"] = grouped(
            knots,
            ["method", "n", "n_knots"],
            auc=mean_of("score"),
            auc_error=error_of("score"),
            at_end=lambda part: int(np.sum(column(part, "at_end"))),
            pairs=len,
        )
    folds = _rows(parts, "expression-")
    if folds:
        made["expression"] = folds
        made["expression_summary"] = expression_summary(folds)
        made["expression_tests"] = [
            row for name, part in parts.items() if name.startswith("expr") for row in part["tests"]
        ]
        made["verdicts"] = [
            {"dataset": name.removeprefix("expression-"), "verdict": part["verdict"]}
            for name, part in parts.items()
            if name.startswith("expression-")
        ]
    return made


def _rows(parts: dict[str, Any], kind: str) -> list[Row]:
    return [row for name, part in parts.items() if name.startswith(kind) for row in part["rows"]]


def simulation_summary(rows: list[Row]) -> list[Row]:
    """Means over the draws."""
    return grouped(
        rows,
        ["truth", "n", "p", "method"],
        auc=mean_of("auc"),
        auc_error=error_of("auc"),
        targets=mean_of("targets"),
        targets_that_matter=mean_of("targets_that_matter"),
        explained=mean_of("explained"),
        at_end=lambda part: int(np.sum(column(part, "at_end"))),
        seconds=mean_of("seconds"),
        draws=len,
    )


def summary(scores: list[Row]) -> list[Row]:
    """Mean test AUC over the pairs that every number of pictures has, and over all pairs; best first."""
    numbers = distinct(scores, "n")
    seen = [{(row["first"], row["second"]) for row in where(scores, n=n)} for n in numbers]
    common = set.intersection(*seen)
    rows = []
    for n, of in [(n, "common") for n in numbers] + [(max(numbers), "all")]:
        kept = [
            row
            for row in where(scores, n=n)
            if of == "all" or (row["first"], row["second"]) in common
        ]
        means = grouped(
            kept,
            ["method"],
            auc=mean_of("score"),
            auc_error=error_of("score"),
            at_end=lambda part: int(np.sum(column(part, "at_end"))),
            seconds=mean_of("seconds"),
            pairs=len,
        )
        rows += [{"n": n, "of": of} | row for row in sorted(means, key=lambda row: -row["auc"])]
    return rows


def wins(scores: list[Row]) -> list[Row]:
    """On how many pairs methods of several targets beat the others, and the best fixed target of each pair."""
    rows = []
    for n in distinct(scores, "n"):
        part = where(scores, n=n)
        found = {m: column(where(part, method=m), "score") for m in distinct(part, "method")}
        fixed = [found[name] for name in FIXED if name in found]
        found["best_fixed_of_pair"] = np.max(fixed, axis=0)
        several = [m for m in found if m.startswith(("multi", "matrix", "grey"))]
        rows += [
            {
                "n": n,
                "method": method,
                "against": other,
                "wins": int(np.sum(found[method] > found[other])),
                "pairs": len(found[method]),
                "mean_difference": float(np.mean(found[method] - found[other])),
                "difference_error": error_of("d")([{"d": d} for d in found[method] - found[other]]),
            }
            for method in several
            for other in found
            if other != method
        ]
    return rows


def expression_summary(folds: list[Row]) -> list[Row]:
    """Mean AUC of each method on each set."""
    return grouped(
        folds, ["dataset", "method"], auc=mean_of("score"), auc_error=error_of("score"), folds=len
    )


def _simulated_targets(parts: dict[str, Any]) -> list[Row]:
    """True targets, and what sums of the found ones give of them, at the largest size of the first draw."""
    (part,) = [
        max(
            (part for name, part in parts.items() if name.startswith("rank3")),
            key=lambda part: (part["about"]["n"], -part["about"]["seed"]),
        )
    ]
    return [
        {"target": k + 1, "place": j, "true": value, "found": part["targets"]["found"][k][j]}
        for k, values in enumerate(part["targets"]["true"])
        for j, value in enumerate(values)
    ]


def _picture_targets(parts: dict[str, Any]) -> list[Row]:
    """Targets of three on the first pairs, with their share of the norm, at the largest number of pictures."""
    pairs = [part for name, part in parts.items() if name.startswith("pair-")]
    most = max(part["about"]["n"] for part in pairs)
    pairs = [part for part in pairs if part["about"]["n"] == most][:SHOWN_PAIRS]
    return [
        part["about"]
        | {
            "target": k + 1,
            "share": part["singular_values"][k] / sum(part["singular_values"]),
            "place": j,
            "value": value,
        }
        for part in pairs
        for k, values in enumerate(part["targets"])
        for j, value in enumerate(values)
    ]
