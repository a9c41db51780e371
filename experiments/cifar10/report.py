"""Report of the CIFAR-10 experiment, with what the paper says beside what came out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from suquan.report import Section, Table

from ..figures import for_report
from ..tables import Row, distinct, read_rows, where, yes_or_no
from .plot import plot_boxes, plot_scatter, plot_spav
from .settings import FIXED

SEVERAL_ROUNDS = ("joint", "f0_rounds", "svd_f0_rounds")


def sections(settings: Any, folder: Path) -> list[Section]:
    """Statements, Figure 2, numbers, and the smaller studies."""
    scores, wins = read_rows(folder / "scores.csv"), read_rows(folder / "wins.csv")
    summary = read_rows(folder / "summary.csv")
    n_pairs = summary[0]["pairs"]
    made = [
        Section(
            "In short",
            tables=[
                Table(
                    "What is said, and what came out",
                    ["statement", "found", "holds"],
                    statements(summary, wins),
                    numeric=(1,),
                )
            ],
        ),
        Section(
            "Figure 2",
            paragraphs=["Figure 3, the horse and the airplane, is in figure3.png."],
            figures=[
                for_report(
                    lambda ax: plot_boxes(ax, scores),
                    "Box plots of the test AUC; means: "
                    + "; ".join(f"{row['method']} {row['auc']:.4f}" for row in summary),
                    f"Test AUC over {n_pairs} pairs of classes.",
                    width=8.0,
                    height=4.0,
                ),
                for_report(
                    lambda ax: plot_scatter(ax, scores),
                    "Test AUC of bnd against that of the median target, one point per pair.",
                    "bnd against the median target.",
                    width=4.0,
                    height=4.0,
                ),
            ],
            tables=[_summary_table(summary)],
        ),
    ]
    for name, heading in (("ties", "Tied pixels"), ("spav", "Smoothness of spav")):
        if (folder / f"{name}_summary.csv").is_file():
            made.append(_small_study(name, heading, folder))
    return made


def statements(summary: list[Row], wins: list[Row]) -> list[tuple[str, str, str]]:
    """What the paper or the project's own aim says, what came out, and whether it holds."""
    mean = {row["method"]: row["auc"] for row in summary}
    n_pairs = summary[0]["pairs"]
    best_fixed = max(FIXED, key=lambda name: mean[name])
    told = []
    for name in ("bnd", "svd"):
        gain = mean[name] - mean[best_fixed]
        told.append(
            (
                f"{name.upper()} above every fixed target on the mean (paper)",
                f"{gain:+.4f} above {best_fixed}",
                yes_or_no(gain > 0),
            )
        )
    against = {row["against"]: row["wins"] for row in wins if row["method"] == "bnd"}
    fewest = min(FIXED, key=lambda name: against[name])
    told.append(
        (
            f"BND better on ≥ 40 of 45 pairs than each fixed target (here of {n_pairs})",
            f"{against[fewest]} of {n_pairs} against {fewest}",
            yes_or_no(against[fewest] * 45 >= 40 * n_pairs),
        )
    )
    if "spav" in mean:
        told.append(
            (
                "BND is the best of the paper's methods on the mean (paper; SPAV poor)",
                f"bnd {mean['bnd']:.4f}, svd {mean['svd']:.4f}, spav {mean['spav']:.4f}",
                yes_or_no(mean["bnd"] >= max(mean["svd"], mean["spav"])),
            )
        )
    several = [name for name in SEVERAL_ROUNDS if name in mean]
    if several:
        best = max(several, key=lambda name: mean[name])
        for words, bound in (
            ("at least as good as raw pixels", mean["raw"]),
            ("at least 0.01 above BND, one round", mean["bnd"] + 0.01),
        ):
            told.append(
                (
                    f"the best method of several rounds {words}",
                    f"{mean[best] - bound:+.4f} ({best})",
                    yes_or_no(mean[best] >= bound),
                )
            )
    return told


def _summary_table(summary: list[Row]) -> Table:
    columns = ["method", "mean AUC", "sd over pairs", "lowest", "median", "highest"]
    rows = [
        [
            row["method"],
            *(f"{row[key]:.4f}" for key in ("auc", "std", "lowest", "median", "highest")),
        ]
        for row in summary
    ]
    return Table("Test AUC over the pairs, the best first", columns, rows, numeric=range(1, 6))


def _small_study(name: str, heading: str, folder: Path) -> Section:
    rows = read_rows(folder / f"{name}_summary.csv")
    pairs = distinct(read_rows(folder / f"{name}.csv"), "second")
    caption = f"Mean test AUC over {rows[0]['pairs']} pairs"
    if name == "ties":
        rules = distinct(rows, "ties")
        cells = [
            [method, *(f"{where(rows, method=method, ties=rule)[0]['auc']:.4f}" for rule in rules)]
            for method in distinct(rows, "method")
        ]
        return Section(heading, tables=[Table(caption, ["method", *rules], cells, numeric=(1, 2))])
    cells = [[f"{row['smoothness']:g}", f"{row['auc']:.4f}"] for row in rows]
    figure = for_report(
        lambda ax: plot_spav(ax, rows),
        "Test AUC of spav: " + "; ".join(f"{smooth} {auc}" for smooth, auc in cells),
        "The paper's grid begins at 1.",
    )
    text = f"spav at one smoothness after the other, alpha chosen for each; pairs ending in {', '.join(pairs)}."
    return Section(
        heading,
        paragraphs=[text],
        figures=[figure],
        tables=[Table(caption, ["smoothness", "AUC"], cells, numeric=(0, 1))],
    )
