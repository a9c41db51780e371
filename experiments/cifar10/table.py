"""Tables of the CIFAR-10 experiment."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..tables import Row, column, distinct, grouped, mean_of, std_of, where
from .settings import FIXED, grid_names


def tables(settings: Any, parts: dict[str, Any]) -> dict[str, list[Row]]:
    """Scores of all pairs, their summary, wins of bnd, the smaller studies, and the picture's numbers."""
    scores = [row for kind in ("pair", "rounds", "svdrounds") for row in _rows(parts, kind)]
    result = {
        "scores": scores,
        "summary": summary(scores),
        "wins": wins(scores),
        "choices": choices(scores),
        "grid_ends": grid_ends(settings, scores),
    }
    for kind, keys in (("ties", ["method", "ties"]), ("spav", ["smoothness"])):
        rows = _rows(parts, kind)
        if rows:
            result[kind] = rows
            result[f"{kind}_summary"] = grouped(rows, keys, auc=mean_of("score"), pairs=len)
    pictures = [part for name, part in parts.items() if name.startswith("picture")]
    if pictures:
        result["picture"], result["picture_targets"] = _picture_rows(pictures[0])
    return result


def _rows(parts: dict[str, Any], kind: str) -> list[Row]:
    return [row for name, part in parts.items() if name.startswith(f"{kind}-") for row in part]


def summary(scores: list[Row]) -> list[Row]:
    """Mean test AUC of each method over the pairs, the best first."""
    rows = grouped(
        scores,
        ["method"],
        auc=mean_of("score"),
        std=std_of("score"),
        lowest=lambda part: float(column(part, "score").min()),
        median=lambda part: float(np.median(column(part, "score"))),
        highest=lambda part: float(column(part, "score").max()),
        seconds=mean_of("seconds"),
        pairs=len,
    )
    return sorted(rows, key=lambda row: -row["auc"])


def choices(scores: list[Row]) -> list[Row]:
    """How often each method chose each penalty."""
    return [
        {"method": method, "penalty": penalty, "value": value, "pairs": len(part)}
        for method in distinct(scores, "method")
        for penalty in ("alpha", "smoothness")
        for value in sorted(distinct(where(scores, method=method), penalty))
        if (part := where(scores, method=method, **{penalty: value}))
    ]


def grid_ends(settings: Any, scores: list[Row]) -> list[Row]:
    """On how many pairs each method chose the lowest and the highest value of its grid."""
    rows = []
    for method in distinct(scores, "method"):
        for penalty, name in grid_names(method).items():
            grid = getattr(settings, name)
            chosen = column(where(scores, method=method), penalty)
            rows.append(
                {
                    "method": method,
                    "penalty": penalty,
                    "lowest": min(grid),
                    "at_lowest": int(np.sum(chosen == min(grid))),
                    "highest": max(grid),
                    "at_highest": int(np.sum(chosen == max(grid))),
                    "pairs": len(chosen),
                }
            )
    return rows


def wins(scores: list[Row]) -> list[Row]:
    """On how many pairs each learned target beats each other method."""
    found = {m: column(where(scores, method=m), "score") for m in distinct(scores, "method")}
    learned = [name for name in found if name not in (*FIXED, "raw")]
    return [
        {
            "method": method,
            "against": other,
            "wins": int(np.sum(found[method] > found[other])),
            "pairs": len(found[method]),
            "mean_difference": float(np.mean(found[method] - found[other])),
        }
        for method in learned
        for other in found
        if other != method
    ]


def _picture_rows(part: Any) -> tuple[list[Row], list[Row]]:
    """Pixels of the pictures, and their targets, one column per normalisation."""
    names = list(part["pictures"])
    pixels = [
        {"class": part["second"] if k == 0 else part["first"], "pixel": j}
        | {name: part["pictures"][name][k][j] for name in names}
        for k in (0, 1)
        for j in range(len(part["pictures"][names[0]][k]))
    ]
    targets = [
        {"place": j} | {name: part["targets"][name][j] for name in names}
        for j in range(len(part["targets"][names[0]]))
    ]
    return pixels, targets
