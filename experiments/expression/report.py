"""Report of the expression experiment, with the paper's numbers beside ours."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from suquan.report import Section, Table, Verdict

from ..figures import for_report
from ..tables import Row, distinct, read_rows, where, yes_or_no
from .paper import METHODS, P_VALUES
from .plot import plot_gains, plot_targets
from .run import DEFAULT
from .table import AVERAGE, ORDER

OTHERS = tuple(name for name in ORDER if name not in METHODS)
SINGLE_FIXED = ("raw", "rma", "cauchy", "exponential", "uniform", "normal", "median")


def sections(settings: Any, folder: Path) -> list[Section]:
    """Answer, Table 2 and the paper's, tests, data sets, targets."""
    table, tests = read_rows(folder / "table2.csv"), read_rows(folder / "tests.csv")
    gains, targets = read_rows(folder / "per_dataset.csv"), read_rows(folder / "targets.csv")
    return [
        _answer(table, tests, gains),
        Section(
            "Table 2",
            paragraphs=[
                "Mean AUC × 100 over the outer folds; penalties chosen by inner folds. Where the cohorts are "
                "not the paper's, its numbers can be compared in their order, not one by one.",
                "The average leaves out sets whose patients are in another one. RMA learns its target and "
                "its probe effects on the training arrays of each fold.",
            ],
            tables=[
                _wide("Here, the paper's methods", table, METHODS),
                _wide("Here, the other methods", table, OTHERS),
                _wide("In the paper", read_rows(folder / "table2_paper.csv"), METHODS),
            ],
        ),
        Section(
            "Tests",
            paragraphs=[
                "All one-sided. The paper seems to have tested over data sets × folds; folds of a "
                "cross-validation share samples, so that those p-values are too small. The corrected test "
                "allows for it.",
                "In the paper SPAV is not significantly better than "
                + " and ".join(
                    f"{k} (p = {p})" for k, p in P_VALUES.items() if isinstance(p, float)
                )
                + ", and is than all other fixed targets.",
            ],
            tables=[_test_table(tests, method) for method in distinct(tests, "method")],
        ),
        Section("Data sets (Table 1)", tables=[_count_table(read_rows(folder / "table1.csv"))]),
        Section(
            "Figure 4: learned targets",
            paragraphs=["Of the first outer fold."],
            figures=[
                for_report(
                    lambda ax, name=name: plot_targets(ax, where(targets, dataset=name)),
                    f"Targets learned by spav and crossfit on {name}.",
                    str(name),
                )
                for name in distinct(targets, "dataset")
            ],
        ),
    ]


def statements(table: list[Row], tests: list[Row]) -> list[tuple[str, str, str]]:
    """What was aimed at, what came out, and whether it holds."""
    average = where(table, dataset=AVERAGE)[0]
    single = [name for name in SINGLE_FIXED if name in average and not math.isnan(average[name])]
    best = max(single, key=lambda name: average[name])
    told = []
    for against in (best, "start", "best_fixed"):
        gain = average[DEFAULT] - average[against]
        told.append(
            (f"{DEFAULT} above {against} on the average", f"{gain:+.2f}", yes_or_no(gain > 0))
        )
    spav = average["spav"] - average[best]
    told.append(
        (
            f"SPAV above every fixed target on the average (paper: {best} here)",
            f"{spav:+.2f}",
            yes_or_no(spav > 0),
        )
    )
    there = [name for name in average if name != "dataset" and not math.isnan(average[name])]
    worst = min(there, key=lambda name: average[name])
    told.append(
        ("SVD is the worst method (paper)", f"worst: {worst}", yes_or_no(worst.startswith("svd")))
    )
    return told


def _answer(table: list[Row], tests: list[Row], gains: list[Row]) -> Section:
    row = where(tests, method=DEFAULT, against="start")[0]
    won = [str(gain["dataset"]) for gain in gains if gain["difference"] > 0]
    lost = [str(gain["dataset"]) for gain in gains if gain["difference"] <= 0]
    clear = [str(gain["dataset"]) for gain in gains if gain["low"] > 0]
    verdict = Verdict(
        "good" if row["corrected"] < 0.05 else "neutral",
        f"{DEFAULT} minus its initial target: {row['mean_difference']:+.2f} AUC × 100 on the average",
        f"Better on {row['better_on']} of {row['datasets']} data sets ({', '.join(won) or 'none'}); not on "
        f"{', '.join(lost) or 'none'}. Clear by itself (95% interval above 0) on {', '.join(clear) or 'none'}.",
        [
            ("corrected test", f"p = {row['corrected']:.3f}"),
            ("Wilcoxon, data sets", f"p = {row['wilcoxon_datasets']:.3f}"),
            ("Wilcoxon, folds (too small)", f"p = {row['wilcoxon_folds']:.3f}"),
        ],
    )
    return Section(
        "In short",
        verdict=verdict,
        figures=[
            for_report(
                lambda ax: plot_gains(ax, gains),
                "; ".join(f"{gain['dataset']} {gain['difference']:+.2f}" for gain in gains),
                "Gain on every data set, with corrected 95% intervals.",
                width=5.5,
            )
        ],
        tables=[
            Table(
                "What is said, and what came out",
                ["statement", "found", "holds"],
                statements(table, tests),
                numeric=(1,),
            )
        ],
    )


def _p_value(value: float) -> str:
    return "< 0.001" if value < 0.001 else f"{value:.3f}"


def _wide(caption: str, rows: list[Row], methods: tuple[str, ...]) -> Table:
    columns = ["dataset", *(name for name in methods if name in rows[0])]
    cells = [
        [row["dataset"], *("–" if math.isnan(row[c]) else f"{row[c]:.2f}" for c in columns[1:])]
        for row in rows
    ]
    return Table(caption, columns, cells, numeric=range(1, len(columns)), marked=[len(rows) - 1])


def _test_table(tests: list[Row], method: str) -> Table:
    columns = [
        "against",
        "difference",
        "better on",
        "corrected p",
        "Wilcoxon p, data sets",
        "p, folds",
    ]
    cells = [
        [
            row["against"],
            f"{row['mean_difference']:+.2f}",
            f"{row['better_on']} of {row['datasets']}",
            *(_p_value(row[key]) for key in ("corrected", "wilcoxon_datasets", "wilcoxon_folds")),
        ]
        for row in where(tests, method=method)
        if row["datasets"]
    ]
    return Table(f"{method} against", columns, cells, numeric=range(1, 6))


def _count_table(rows: list[Row]) -> Table:
    words = ("dataset", "platform", "endpoint", "preprocessing", "part_of")
    keys = ("samples", "positives", "features", "samples_in_paper", "positives_in_paper")
    columns = [key.replace("_", " ") for key in (*words, *keys)]
    cells = [
        [
            *(row[key] if isinstance(row[key], str) else "–" for key in words),
            *("–" if math.isnan(row[key]) else f"{row[key]:.0f}" for key in keys),
        ]
        for row in rows
    ]
    return Table("Samples with a label", columns, cells, numeric=range(len(words), len(columns)))
