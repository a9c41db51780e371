"""Numbers of the page that no experiment computes, each written to its file.

``python -m experiments.page.numbers --data DIR``: the two largest singular values of svd on the expression
sets, the share of tied pixels in CIFAR-10, the better of two methods and the two protocols there, and a
summary of the recipes.
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path

import numpy as np

from suquan import SuquanClassifier

from ..cifar10.images import load_cifar10
from ..expression.data import load_dataset
from ..expression.settings import Settings
from ..tables import Row, column, distinct, mean_of, read_rows, where, write_rows

RESULTS = Path(__file__).resolve().parents[1] / "results"
KNOTS = 30


def singular_values(data: Path) -> list[Row]:
    """The two largest singular values on every expression set, of the full matrix and with knots."""
    rows = []
    for name in Settings().datasets:
        dataset = load_dataset(name, data, "label")
        for n_knots in (None, KNOTS):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # the values are close: that is what is shown
                model = SuquanClassifier("svd", n_knots=n_knots).fit(dataset.X, dataset.y)
            first, second = model.singular_values_
            rows.append(
                {
                    "dataset": name,
                    "values": "one_per_gene" if n_knots is None else "knots",
                    "first": first,
                    "second": second,
                    "ratio": first / second,
                }
            )
    return rows


def tied_pixels(data: Path) -> list[Row]:
    """Share of neighbours among the sorted pixels of a training picture that are equal."""
    pixels = np.sort(load_cifar10(data, subset="train")[0], axis=1)
    share = np.mean(pixels[:, 1:] == pixels[:, :-1])
    return [{"pictures": len(pixels), "tied_percent": 100 * float(share)}]


def better_of_two() -> list[Row]:
    """Mean over the pairs of CIFAR-10 of the better test score of `joint` and `f0_rounds`."""
    scores = read_rows(RESULTS / "cifar10" / "scores.csv")
    pairs = [column(where(scores, method=name), "score") for name in ("joint", "f0_rounds")]
    return [{"methods": "joint, f0_rounds", "auc": float(np.mean(np.maximum(*pairs)))}]


def two_protocols() -> list[Row]:
    """Mean test scores of both protocols of CIFAR-10, over the pairs that the paper's was run on."""
    paper, quick = (read_rows(RESULTS / f / "scores.csv") for f in ("cifar10_paper", "cifar10"))
    rows = []
    for method in distinct(paper, "method"):
        theirs = where(paper, method=method)
        ours = [
            where(quick, method=method, first=row["first"], second=row["second"])[0]
            for row in theirs
        ]
        change = column(theirs, "score") - column(ours, "score")
        rows.append(
            {
                "method": method,
                "pairs": len(change),
                "quick": float(column(ours, "score").mean()),
                "paper": float(column(theirs, "score").mean()),
                "paper_minus_quick": float(change.mean()),
                "largest_change": float(np.abs(change).max()),
            }
        )
    return sorted(rows, key=lambda row: -row["paper"])


def gain_of_default() -> list[Row]:
    """The default minus the median target, over all seven sets of the recipes."""
    rows = [read_rows(RESULTS / "recipes" / f"{name}.csv") for name in ("choose", "confirm")]
    gains = []
    for table in rows:
        default, median = (where(table, method=name)[0] for name in ("default", "median"))
        gains += [default[key] - median[key] for key in default if key not in ("method", "average")]
    return [{"method": "default", "against": "median", "sets": len(gains), "gain": np.mean(gains)}]


def recipes() -> list[Row]:
    """Averages of every recipe over the sets it was chosen on, those to confirm it, and the simulation."""
    choose, confirm = (read_rows(RESULTS / "recipes" / f"{n}.csv") for n in ("choose", "confirm"))
    simulation = where(read_rows(RESULTS / "recipes" / "simulation.csv"), n=500)
    rows = []
    for name in column(choose, "method"):
        found = [where(table, method=name) for table in (choose, confirm, simulation)]
        rows.append(
            {
                "method": str(name),
                "choose": found[0][0]["average"],
                "confirm": found[1][0]["average"] if found[1] else float("nan"),
                "simulation_500": 100 * mean_of("auc")(found[2]) if found[2] else float("nan"),
            }
        )
    return rows


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    data = parser.parse_args().data
    write_rows(RESULTS / "recipes" / "summary.csv", recipes())
    write_rows(RESULTS / "recipes" / "gain.csv", gain_of_default())
    write_rows(RESULTS / "cifar10" / "better_of_two.csv", better_of_two())
    write_rows(RESULTS / "cifar10_paper" / "protocols.csv", two_protocols())
    write_rows(RESULTS / "cifar10" / "tied_pixels.csv", tied_pixels(data))
    write_rows(RESULTS / "expression" / "singular_values.csv", singular_values(data))
