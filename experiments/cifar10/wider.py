"""Pairs that chose the upper end of a grid, once more: ``python -m experiments.cifar10.wider --data DIR``.

Reads the stored ``scores.csv``, and chooses again with that grid reaching a hundred times further up.
``wider.csv`` has one row per pair and method, with what was chosen and scored before and now. Smoothness 0 is
no end: there is nothing below.
"""

from __future__ import annotations

import argparse
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_limits

from ..tables import Row, read_rows, write_rows
from .run import load_pair, load_pictures, pair_scores
from .settings import PROTOCOLS, Settings, grid_names

RESULTS = Path(__file__).resolve().parents[1] / "results" / "cifar10"


def wider_grids(settings: Settings, row: Row) -> dict[str, tuple[float, ...]]:
    """Settings with grids whose highest value the row has chosen, each with two more values."""
    found = {}
    for penalty, name in grid_names(row["method"]).items():
        grid = getattr(settings, name)
        if row[penalty] == max(grid):
            found[name] = (*grid, 10.0 * max(grid), 100.0 * max(grid))
    return found


def once_more(settings: Settings, data: Path, rows: list[Row]) -> list[Row]:
    """Choices at an upper end, beside those from the wider grid."""
    names = load_pictures(data)[2].tolist()
    found = []
    for row in rows:
        grids: Any = wider_grids(settings, row)
        if not grids:
            continue
        pair = (names.index(row["first"]), names.index(row["second"]))
        one = replace(settings, methods=(row["method"],), **grids)
        (new,) = pair_scores(one, load_pair(one, data, pair))
        keys = ("alpha", "smoothness", "score")
        both = {key: row[key] for key in keys} | {f"wider_{key}": new[key] for key in keys}
        told = {key: row[key] for key in ("first", "second", "method")}
        found.append(told | both | {"change": new["score"] - row["score"]})
        print(*found[-1].values(), flush=True)
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    options = parser.parse_args()
    with warnings.catch_warnings(), threadpool_limits(1):
        warnings.simplefilter("ignore")
        again = once_more(PROTOCOLS["quick"], options.data, read_rows(RESULTS / "scores.csv"))
    write_rows(RESULTS / "wider.csv", again)
