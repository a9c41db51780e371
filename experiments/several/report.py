"""Report of the experiment on several targets: aims, what came out, tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from suquan.report import Section, Table

from ..figures import for_report
from ..tables import Row, distinct, read_rows, where, yes_or_no
from .plot import (
    name_of,
    plot_expression,
    plot_means,
    plot_shapes,
    plot_simulation,
    plot_sizes,
    plot_wins,
)
from .settings import FIXED

THREE = "multi_3"


def sections(settings: Any, folder: Path) -> list[Section]:
    """Aims, then the studies that were done."""
    told: list[tuple[str, str, str]] = []
    made = []
    if (folder / "summary.csv").is_file():
        summary, wins = read_rows(folder / "summary.csv"), read_rows(folder / "wins.csv")
        told += picture_statements(summary, wins)
        made += _pictures(summary, read_rows(folder / "scores.csv"))
    if (folder / "simulation_summary.csv").is_file():
        rows = read_rows(folder / "simulation_summary.csv")
        told += simulation_statements(rows)
        made += _simulation(rows, read_rows(folder / "simulation_targets.csv"))
    if (folder / "knots_summary.csv").is_file():
        made.append(_knots(read_rows(folder / "knots_summary.csv")))
    if (folder / "expression_tests.csv").is_file():
        made.append(_expression(folder))
    head = ["statement", "found", "holds"]
    table = Table("What was aimed at, and what came out", head, told, numeric=(1,))
    return [Section("In short", tables=[table] if told else []), *made]


def picture_statements(summary: list[Row], wins: list[Row]) -> list[tuple[str, str, str]]:
    """The aims on pictures, at the largest number of them and over all pairs done."""
    rows = where(summary, of="all")
    mean = {row["method"]: row["auc"] for row in rows}
    if THREE not in mean:
        return []
    best = max((name for name in FIXED if name in mean), key=lambda name: mean[name])
    n_pairs, n = rows[0]["pairs"], rows[0]["n"]
    (row,) = where(wins, n=n, method=THREE, against=best)
    (each,) = where(wins, n=n, method=THREE, against="best_fixed_of_pair")
    told = [
        (
            f"three targets ≥ {words} + {gain} on the mean",
            f"{mean[THREE] - mean[other]:+.4f} ({other})",
            yes_or_no(mean[THREE] - mean[other] >= gain),
        )
        for words, other, gain in (
            ("the fixed target of the best mean", best, 0.04),
            ("raw", "raw", 0.02),
        )
    ]
    told.append(
        (
            f"above it on ≥ 44 of 45 pairs (here of {n_pairs})",
            f"{row['wins']}; above the best fixed target of each pair on {each['wins']}",
            yes_or_no(row["wins"] * 45 >= 44 * n_pairs),
        )
    )
    at_end = max(rows, key=lambda row: row["at_end"])
    told.append(
        (
            "no method chose an end of its grid on 5 of 45 pairs or more",
            f"at most {at_end['at_end']} of {n_pairs} ({at_end['method']})",
            yes_or_no(at_end["at_end"] * 45 < 5 * n_pairs),
        )
    )
    return told


def simulation_statements(rows: list[Row]) -> list[tuple[str, str, str]]:
    """One target is not hurt; three are found."""
    one = {row["method"]: row["auc"] for row in where(rows, truth=1)}
    loss = one["multi"] - one["joint"]
    largest = max(row["n"] for row in where(rows, truth=3))
    (chosen,) = where(rows, truth=3, n=largest, method="multi")
    return [
        (
            "a truth of one target: number chosen, within 0.005 AUC of joint",
            f"{loss:+.4f}",
            yes_or_no(loss >= -0.005),
        ),
        (
            f"a truth of three at n = {largest:,}: three targets with a tenth of the largest singular value",
            f"{chosen['targets_that_matter']:.1f} on the mean",
            yes_or_no(chosen["targets_that_matter"] == 3),
        ),
        (
            "their sums give at least 0.9 of the square of each true target",
            f"{chosen['explained']:.3f}",
            yes_or_no(chosen["explained"] >= 0.9),
        ),
    ]


def _pictures(summary: list[Row], scores: list[Row]) -> list[Section]:
    everything = where(summary, of="all")
    means = "; ".join(f"{name_of(row['method'])} {row['auc']:.4f}" for row in everything)
    n = everything[0]["n"]
    columns = ["method", "mean AUC", "± standard error", "alpha at an end", "seconds"]
    cells = [
        [
            name_of(row["method"]),
            f"{row['auc']:.4f}",
            f"{row['auc_error']:.4f}",
            f"{row['at_end']} of {row['pairs']}",
            f"{row['seconds']:.0f}",
        ]
        for row in everything
    ]
    table = Table(f"Test AUC, {n:,} training pictures", columns, cells, numeric=range(1, 5))
    made = [
        Section(
            "Pictures",
            paragraphs=[
                "Grey values: every pixel has its own curve over its grey value in place of its place in the "
                "picture, so that nothing is normalised; what is above raw pixels there is what bending does.",
                "The targets are in picture_targets.png.",
            ],
            figures=[
                for_report(
                    lambda ax: plot_means(ax, everything),
                    f"Mean test AUC: {means}.",
                    f"{everything[0]['pairs']} pairs of classes.",
                    width=5.4,
                    height=4.2,
                ),
                for_report(
                    lambda ax: plot_wins(ax, scores),
                    "Test AUC of three targets against that of the best fixed target, pair by pair.",
                    "Pair by pair.",
                    width=4.2,
                    height=4.2,
                ),
            ],
            tables=[table],
        )
    ]
    common = where(summary, of="common")
    if len(distinct(common, "n")) > 1:
        made.append(_sizes(common))
    return made


def _sizes(rows: list[Row]) -> Section:
    sizes = sorted(distinct(rows, "n"))
    cells = [
        [
            name_of(method),
            *(f"{row['auc']:.4f}" for n in sizes for row in where(rows, method=method, n=n)),
        ]
        for method in distinct(where(rows, n=sizes[-1]), "method")
    ]
    columns = ["method", *(f"n = {n:,}" for n in sizes)]
    table = Table("Test AUC, the same pairs", columns, cells, numeric=range(1, len(columns)))
    figure = for_report(
        lambda ax: plot_sizes(ax, rows),
        "Mean test AUC against the number of training pictures.",
        f"{rows[0]['pairs']} pairs; bars are standard errors over pairs.",
        width=6.4,
    )
    return Section("From how many pictures on?", figures=[figure], tables=[table])


def _simulation(rows: list[Row], targets: list[Row]) -> list[Section]:
    columns = ["truth", "n", "method", "AUC", "targets", "that matter", "explained", "at an end"]
    cells = [
        [
            str(row["truth"]),
            f"{row['n']:,}",
            name_of(row["method"]),
            f"{row['auc']:.4f} ± {row['auc_error']:.4f}",
            f"{row['targets']:.1f}",
            f"{row['targets_that_matter']:.1f}",
            "–" if row["explained"] != row["explained"] else f"{row['explained']:.3f}",
            f"{row['at_end']} of {row['draws']}",
        ]
        for row in rows
    ]
    three = where(rows, truth=3)
    return [
        Section(
            "Simulated samples",
            paragraphs=[
                "A target matters if its singular value is at least a tenth of the largest. Explained: the "
                "share of a true target's square that sums of the first three found give, at the least."
            ],
            figures=[
                for_report(
                    lambda ax: plot_simulation(ax, three),
                    "Test AUC against the number of samples where the truth has three targets.",
                    "A line, a hump and a wave on sets of features of their own.",
                    width=5.4,
                ),
                for_report(
                    lambda ax: plot_shapes(ax, targets),
                    "The three true targets, and what sums of the found ones give of them.",
                    "Pale: true. Thin: found.",
                ),
            ],
            tables=[Table("Means over draws", columns, cells, numeric=range(3, 8))],
        )
    ]


def _knots(rows: list[Row]) -> Section:
    numbers = distinct(rows, "n_knots")
    cells = [
        [
            name_of(method),
            *(f"{where(rows, method=method, n_knots=k)[0]['auc']:.4f}" for k in numbers),
        ]
        for method in distinct(rows, "method")
    ]
    columns = ["method", *(f"{k} knots" for k in numbers)]
    caption = f"Test AUC, {rows[0]['n']:,} training pictures, {rows[0]['pairs']} pairs"
    return Section(
        "How many knots?",
        tables=[Table(caption, columns, cells, numeric=range(1, len(columns)))],
    )


def _expression(folder: Path) -> Section:
    rows = read_rows(folder / "expression_summary.csv")
    tests, verdicts = read_rows(folder / "expression_tests.csv"), read_rows(folder / "verdicts.csv")
    methods = distinct(rows, "method")
    cells = [
        [name, *(f"{where(rows, dataset=name, method=m)[0]['auc']:.4f}" for m in methods)]
        for name in distinct(rows, "dataset")
    ]
    columns = ["set", *(name_of(m) if m != "multi" else "three targets" for m in methods)]
    return Section(
        "Expression sets",
        paragraphs=["The verdict is about crossfit, which was named in advance."],
        figures=[
            for_report(
                lambda ax: plot_expression(ax, where(tests, other="best_fixed")),
                "Differences to the best alternative on every set.",
                "Intervals with the corrected resampled variance.",
                width=6.4,
                height=4.2,
            )
        ],
        tables=[
            Table("Mean test AUC", columns, cells, numeric=range(1, len(columns))),
            Table("Verdicts", ["set", "verdict"], [[v["dataset"], v["verdict"]] for v in verdicts]),
        ],
    )
