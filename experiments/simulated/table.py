"""Tables of the simulated experiment."""

from __future__ import annotations

from typing import Any

from ..tables import Row, distinct, grouped, mean_of, std_of, where
from .run import ANY
from .settings import Settings

METHODS = ("true", "corrupted", "bnd", "spav", "joint", "crossfit", "crossfit_corrupted")


def tables(settings: Settings, parts: dict[str, Any]) -> dict[str, list[Row]]:
    """Scores of every fit, their means over the corruptions, the gaps to the true data, and the rounds."""
    fits = [
        _ordered(row)
        for row in _for_each_corruption(
            [row for name, rows in parts.items() if not name.startswith("rounds") for row in rows],
            settings.corruptions,
        )
    ]
    fits.sort(
        key=lambda row: (METHODS.index(row["method"]), row["n"], row["corruption"], row["seed"])
    )
    rounds = [row for name, rows in parts.items() if name.startswith("rounds") for row in rows]
    return {
        "fits": fits,
        "curves": grouped(
            fits,
            ["method", "n"],
            auc=mean_of("auc"),
            auc_std=std_of("auc"),
            distance=mean_of("distance"),
            fits=len,
        ),
        "gaps": gaps(where(fits, n=max(settings.n_samples))),
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


def _for_each_corruption(rows: list[Row], corruptions: tuple[str, ...]) -> list[Row]:
    """Methods that see the ranks alone have the same result under every corruption: say it under each."""
    spread = []
    for row in rows:
        names = corruptions if row["corruption"] == ANY else (row["corruption"],)
        spread += [row | {"corruption": name} for name in names]
    return spread


def _ordered(row: Row) -> Row:
    keys = (
        "method",
        "n",
        "corruption",
        "seed",
        "auc",
        "distance",
        "alpha",
        "smoothness",
        "seconds",
    )
    return {key: row[key] for key in keys}


def gaps(fits: list[Row]) -> list[Row]:
    """AUC of each method minus that of logistic regression on the true data, by corruption and on average."""
    rows = []
    for corruption in [*distinct(fits, "corruption"), "mean"]:
        chosen = fits if corruption == "mean" else where(fits, corruption=corruption)
        truth = {
            (row["corruption"], row["seed"]): row["auc"] for row in where(chosen, method="true")
        }
        for method in distinct(chosen, "method"):
            part = where(chosen, method=method)
            below = [
                row | {"gap": row["auc"] - truth[row["corruption"], row["seed"]]} for row in part
            ]
            rows.append(
                {
                    "corruption": corruption,
                    "method": method,
                    "n": part[0]["n"],
                    "auc": mean_of("auc")(part),
                    "gap_to_true": mean_of("gap")(below),
                    "fits": len(part),
                }
            )
    return rows
