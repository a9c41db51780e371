"""Figures of the experiment on several targets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ..figures import label_ends, new_figure
from ..tables import Row, column, distinct, read_rows, where
from .settings import FIXED

COLORS = ("#c8553d", "#2a6f97", "#3f8f5b", "#7b4fa3", "#d08b00")
GIVEN, ONE, SEVERAL, GREY = "#2a6f97", "#7b4fa3", "#c8553d", "#6b7280"


def figures(settings: Any, folder: Path) -> list[tuple[str, Any]]:
    """Those of the studies that were done."""
    drawn = []
    if (folder / "summary.csv").is_file():
        summary = read_rows(folder / "summary.csv")
        figure, axes = new_figure(1, 2, width=5.4, height=4.2)
        plot_means(axes[0], where(summary, of="all"))
        plot_wins(axes[1], read_rows(folder / "scores.csv"))
        drawn.append(("pictures", figure))
        if len(distinct(summary, "n")) > 1:
            figure, axes = new_figure(width=6.4)
            plot_sizes(axes[0], where(summary, of="common"))
            drawn.append(("sizes", figure))
        drawn.append(("picture_targets", target_panels(read_rows(folder / "picture_targets.csv"))))
    if (folder / "simulation_summary.csv").is_file():
        rows = read_rows(folder / "simulation_summary.csv")
        figure, axes = new_figure(1, 2, width=5.4)
        plot_simulation(axes[0], where(rows, truth=3))
        plot_shapes(axes[1], read_rows(folder / "simulation_targets.csv"))
        drawn.append(("simulation", figure))
    if (folder / "expression_tests.csv").is_file():
        figure, axes = new_figure(width=6.4, height=4.2)
        plot_expression(
            axes[0], where(read_rows(folder / "expression_tests.csv"), other="best_fixed")
        )
        drawn.append(("expression", figure))
    return drawn


def color_of(method: str) -> str:
    """Colour of a kind of methods."""
    if method.startswith("grey"):
        return GREY
    if method.startswith(("multi", "matrix")):
        return SEVERAL
    return GIVEN if method in (*FIXED, "raw", "uniform") else ONE


def name_of(method: str) -> str:
    """A method in words."""
    kind, _, number = method.partition("_")
    words = {"1": "one target", "2": "two targets", "3": "three targets", "5": "five targets"}
    if kind == "multi" and number:
        others = {"all": "as many as needed", "default": "number chosen, default knots"}
        return others.get(number) or words.get(number, f"{number} targets")
    if kind == "grey":
        return f"{words.get(number, number)}, grey values"
    return {"multi": "number chosen", "bnd": "SUQUAN-BND"}.get(method, method)


def plot_means(ax: Any, rows: list[Row]) -> None:
    """Mean test AUC of each method over all pairs; bars are standard errors over pairs."""
    rows = sorted(rows, key=lambda row: row["auc"])
    for k, row in enumerate(rows):
        color = color_of(row["method"])
        ax.errorbar(row["auc"], k, xerr=row["auc_error"], fmt="o", color=color, capsize=2, ms=4)
        ax.annotate(
            f"{row['auc']:.3f}", (row["auc"], k), (0, 4), textcoords="offset points",
            ha="center", fontsize="x-small", color=color,
        )  # fmt: skip
    ax.set_yticks(range(len(rows)), [name_of(row["method"]) for row in rows])
    ax.set_ylim(-0.7, len(rows))
    ax.set_xlabel(f"test AUC, mean of {rows[0]['pairs']} pairs ± standard error")


def plot_wins(ax: Any, scores: list[Row]) -> None:
    """Three targets, or the most there are, against the best fixed target of each pair."""
    scores = where(scores, n=max(distinct(scores, "n")))
    methods = distinct(scores, "method")
    several = "multi_3" if "multi_3" in methods else [m for m in methods if "multi" in m][-1]
    y = column(where(scores, method=several), "score")
    x = np.max([column(where(scores, method=m), "score") for m in FIXED if m in methods], axis=0)
    low, high = min(x.min(), y.min()) - 0.01, max(x.max(), y.max()) + 0.01
    ax.plot([low, high], [low, high], color="#9aa5b1", lw=1)
    ax.plot(x, y, "o", color=SEVERAL, ms=4)
    ax.set(xlim=(low, high), ylim=(low, high), aspect="equal")
    ax.set_xlabel("test AUC, best fixed target of the pair")
    ax.set_ylabel(f"test AUC, {name_of(several)}")
    ax.set_title(f"above on {np.sum(y > x)} of {len(x)} pairs", fontsize="medium")


def plot_sizes(ax: Any, rows: list[Row]) -> None:
    """Mean test AUC against the number of training pictures, on the same pairs."""
    largest = max(distinct(rows, "n"))
    fixed = [row for row in where(rows, n=largest) if row["method"] in FIXED]
    best = max(fixed, key=lambda row: row["auc"])["method"] if fixed else ""
    shown = [
        m
        for m in distinct(rows, "method")
        if m in ("raw", best, "matrix") or m.startswith(("multi", "grey"))
    ]
    lines = {"matrix": "--", "multi_1": ":", "multi_2": "-.", "multi_3": "-"}
    _curves(ax, rows, shown, "n", lambda m: lines.get(m, "-"))
    ax.set_xlabel("training pictures of a pair")
    ax.set_ylabel(f"test AUC, mean of {rows[0]['pairs']} pairs")


def _curves(ax: Any, rows: list[Row], methods: list[str], key: str, line: Any) -> None:
    """One curve per method with standard errors and its name at its end."""
    ends = []
    for k, method in enumerate(methods):
        part = sorted(where(rows, method=method), key=lambda row: row[key])
        x, y = column(part, key).astype(float), column(part, "auc")
        color = color_of(method)
        shift = 1.0 + 0.012 * (k - 0.5 * len(methods))  # error bars side by side
        ax.errorbar(
            x * shift, y, column(part, "auc_error"),
            fmt=line(method), color=color, marker="o", ms=3, capsize=2, lw=1.2,
        )  # fmt: skip
        ends.append((name_of(method), x[-1] * shift, y[-1], color))
    ax.set_xscale("log")
    values = sorted(distinct(rows, key))
    ax.set_xticks(values, [f"{value:,}" for value in values])
    ax.minorticks_off()
    label_ends(ax, ends)


def target_panels(rows: list[Row]) -> Any:
    """Draw the targets of every pair, each with its share of the norm."""
    pairs = list(dict.fromkeys((row["first"], row["second"]) for row in rows))
    n_columns = min(3, len(pairs))
    figure, axes = new_figure(-(-len(pairs) // n_columns), n_columns, width=3.4, height=2.6)
    for ax in axes.ravel()[len(pairs) :]:
        ax.set_axis_off()
    for ax, (first, second) in zip(axes.ravel(), pairs, strict=False):
        part = where(rows, first=first, second=second)
        ends = []
        for k in distinct(part, "target"):
            own = where(part, target=k)
            y = column(own, "value")
            x = np.linspace(0.0, 1.0, len(y))
            ax.plot(x, y, color=COLORS[(k - 1) % len(COLORS)], lw=1.4)
            ends.append(
                (f"{100 * own[0]['share']:.0f}%", 1.0, y[-1], COLORS[(k - 1) % len(COLORS)])
            )
        ax.set_title(f"{first}, {second}", fontsize="medium")
        ax.set_xlabel("place of the pixel in its picture")
        label_ends(ax, ends, gap=0.12)
    return figure


def plot_simulation(ax: Any, rows: list[Row]) -> None:
    """Mean test AUC against n where the truth has three targets."""
    lines = {"matrix": "--", "multi_1": ":", "multi_2": "-.", "multi": "-"}
    shown = [m for m in distinct(rows, "method") if m != "multi_all"]
    _curves(ax, rows, shown, "n", lambda m: lines.get(m, "-"))
    ax.set_xlabel("training samples")
    ax.set_ylabel("test AUC, truth of three targets")


def plot_shapes(ax: Any, rows: list[Row]) -> None:
    """True targets, and what sums of the found ones give of them."""
    ends = []
    for k, label in enumerate(("line", "hump", "wave")):
        part = where(rows, target=k + 1)
        true, found = column(part, "true"), column(part, "found")
        x = np.linspace(0.0, 1.0, len(true))
        ax.plot(x, true, color=COLORS[k], lw=4, alpha=0.3)
        ax.plot(x, found, color=COLORS[k], lw=1.4)
        ends.append((label, 1.0, true[-1], COLORS[k]))
    ax.set_xlabel("place (pale: true; thin: found)")
    ax.set_ylabel("target")
    label_ends(ax, ends)


def plot_expression(ax: Any, rows: list[Row]) -> None:
    """Difference to the fixed target that inner folds choose, with its interval, set by set."""
    names, methods = distinct(rows, "dataset"), distinct(rows, "method")
    for k, method in enumerate(methods):
        part = where(rows, method=method)
        y = np.arange(len(names)) + 0.18 * (0.5 * (len(methods) - 1) - k)
        x = column(part, "difference")
        bars = np.abs(np.stack([column(part, "low"), column(part, "high")]) - x)
        color = COLORS[k % len(COLORS)]
        ax.errorbar(x, y, xerr=bars, fmt="o", ms=3, capsize=2, lw=1, color=color)
        ax.annotate(
            name_of(method) if method != "multi" else "three targets", (x[-1], y[-1]),
            (1.02, 0.97 - 0.07 * k), textcoords="axes fraction", color=color, fontsize="small",
        )  # fmt: skip
    ax.axvline(0.0, color="#9aa5b1", lw=1)
    ax.set_yticks(range(len(names)), names)
    ax.set_xlabel("AUC minus that of the best alternative, 95% interval")
