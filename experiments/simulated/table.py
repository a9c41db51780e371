"""Tables of the simulated experiment."""

from __future__ import annotations

from typing import Any

from ..tables import Row, error_of, grouped, mean_of, where
from .settings import Settings

METHODS = (
    "true",
    "corrupted",
    "uniform",
    "bnd",
    "spav",
    "spav_small",
    "joint",
    "crossfit",
    "crossfit_learned",
    "crossfit_corrupted",
)
KEYS = ("method", "selection", "n", "corruption", "seed")
VALUES = ("auc", "distance", "alpha", "smoothness", "departure", "seconds")


def tables(settings: Settings, parts: dict[str, Any]) -> dict[str, list[Row]]:
    """Scores of every fit, their means, gaps to the true data, SPAV's chosen smoothness, and rounds."""
    fits = [
        {key: row[key] for key in KEYS + VALUES}
        for name, rows in parts.items()
        if not name.startswith("rounds")
        for row in rows
    ]
    fits.sort(
        key=lambda row: (
            METHODS.index(row["method"]),
            *(row[key] for key in ("selection", "n", "corruption", "seed")),
        )
    )
    rounds = [row for name, rows in parts.items() if name.startswith("rounds") for row in rows]
    draws = grouped(
        fits,
        ["method", "selection", "n", "seed"],
        auc=mean_of("auc"),
        distance=mean_of("distance"),
        fits=len,
    )
    return {
        "fits": fits,
        "curves": grouped(
            draws,
            ["method", "selection", "n"],
            auc=mean_of("auc"),
            auc_error=error_of("auc"),
            distance=mean_of("distance"),
            distance_error=error_of("distance"),
            draws=len,
            fits=lambda part: sum(row["fits"] for row in part),
        ),
        "corruptions": grouped(
            fits,
            ["method", "selection", "n", "corruption"],
            auc=mean_of("auc"),
            auc_error=error_of("auc"),
            distance=mean_of("distance"),
            distance_error=error_of("distance"),
            fits=len,
        ),
        "gaps": gaps(fits),
        "spav_choices": grouped(
            [row for row in fits if row["method"].startswith("spav")],
            ["method", "selection", "n", "corruption", "smoothness"],
            auc=mean_of("auc"),
            fits=len,
        ),
        "spav_grid": grouped(
            [row for row in fits if row["method"].startswith("spav")],
            ["method", "selection", "n", "smoothness"],
            fits=len,
        ),
        "rounds": grouped(
            rounds,
            ["method", "n", "rounds"],
            auc=mean_of("auc"),
            distance=mean_of("distance"),
            fits=len,
        ),
        "rounds_by_corruption": grouped(
            rounds, ["method", "n", "corruption", "rounds"], auc=mean_of("auc"), fits=len
        ),
    }


def gaps(fits: list[Row]) -> list[Row]:
    """AUC of each method minus that of logistic regression on the true data of the same draw.

    Methods that see the ranks alone have one fit per draw, under the corruption "any"; the rows "mean" average
    over corruptions first, then over draws.
    """
    truth = {(row["n"], row["seed"]): row["auc"] for row in where(fits, method="true")}
    below = [row | {"gap": row["auc"] - truth[row["n"], row["seed"]]} for row in fits]
    rows = []
    for keys in (("n", "corruption"), ("n",)):
        by_draw = grouped(
            below,
            ["method", "selection", *keys, "seed"],
            auc=mean_of("auc"),
            gap=mean_of("gap"),
        )
        for row in grouped(
            by_draw,
            ["method", "selection", *keys],
            auc=mean_of("auc"),
            gap_to_true=mean_of("gap"),
            gap_error=error_of("gap"),
            draws=len,
        ):
            rows.append({"corruption": "mean", **row} if "corruption" not in row else row)
    names = ("corruption", "method", "selection", "n", "auc", "gap_to_true", "gap_error", "draws")
    return [{name: row[name] for name in names} for row in rows]
