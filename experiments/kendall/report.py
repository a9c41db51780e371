"""Figure and report of the experiment on Kendall kernels, from its tables."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from suquan.report import Section, Table

from ..figures import for_report, new_figure
from ..tables import Row, column, distinct, read_rows, where

COLORS = {"ours": "#c8553d", "published": "#2a6f97", "guess": "#6b7785"}


def figures(settings: Any, folder: Path) -> Sequence[tuple[str, Any]]:
    """Accuracies on every set."""
    rows = read_rows(folder / "accuracies.csv")
    names = distinct(rows, "set")
    figure, axes = new_figure(1, len(names), width=4.6, height=4.8)
    for ax, name in zip(axes.ravel(), names, strict=True):
        plot_accuracies(ax, where(rows, set=name))
        ax.set_title(name)
    return [("accuracies", figure)]


def plot_accuracies(ax: Any, rows: list[Row]) -> None:
    """Bars from the lowest to the highest."""
    rows = sorted(rows, key=lambda row: row["accuracy"])
    colors = [COLORS[row["source"]] for row in rows]
    ax.barh(np.arange(len(rows)), column(rows, "accuracy"), color=colors, height=0.7)
    ax.set_yticks(range(len(rows)), [row["method"] for row in rows], fontsize="small")
    ax.set_xlim(min(40.0, min(column(rows, "accuracy"))), 101)
    ax.set_xlabel("accuracy, percent")


def told(row: Row) -> str:
    """Whether one class alone was predicted, in words."""
    if row["source"] == "published":
        return "not told"
    share = float(row["constant"])
    return "constant" if share == 1 else "no" if share == 0 else f"in {share:.0%} of the splits"


def sections(settings: Any, folder: Path) -> list[Section]:
    """One section per set."""
    made = []
    rows = read_rows(folder / "accuracies.csv")
    for name in distinct(rows, "set"):
        part = sorted(where(rows, set=name), key=lambda row: -row["accuracy"])
        cells = [[r["method"], r["source"], f"{r['accuracy']:.2f}", told(r)] for r in part]
        heads = ["method", "source", "accuracy, percent", "one class alone predicted"]
        words = "; ".join(f"{r['method']} {r['accuracy']:.1f}" for r in part)
        figure = for_report(
            lambda ax, part=part: plot_accuracies(ax, part),
            f"Accuracies on {name}: {words}.",
            "Red: ours. Blue: published. Grey: guessing.",
            width=5.4,
            height=4.8,
        )
        table = Table(f"Accuracies on {name}", heads, cells, numeric=(2,))
        made.append(Section(name, figures=[figure], tables=[table]))
    return made
