"""Figure 1, and AUC against the number of rounds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..figures import new_figure
from ..tables import Row, column, distinct, read_rows, where
from .settings import Settings

STYLES = {
    "true": ("logistic, true data", "#222222", "-"),
    "corrupted": ("logistic, corrupted data", "#2a6f97", "-"),
    "bnd": ("SUQUAN-BND", "#7b4fa3", "--"),
    "spav": ("SUQUAN-SPAV", "#c8553d", "--"),
    "joint": ("joint", "#3f8f5b", "-."),
    "crossfit": ("crossfit (default)", "#d08b00", "-"),
}


def figures(settings: Settings, folder: Path) -> list[tuple[str, Any]]:
    """The paper's two panels, and the curves over rounds."""
    curves, rounds = read_rows(folder / "curves.csv"), read_rows(folder / "rounds.csv")
    figure, axes = new_figure(1, 2)
    plot_curves(axes[0], curves, "auc")
    plot_curves(axes[1], curves, "distance")
    sizes = distinct(rounds, "n")
    over_rounds, panels = new_figure(1, len(sizes))
    for ax, n in zip(panels, sizes, strict=True):
        plot_rounds(ax, where(rounds, n=n))
        ax.set_title(f"{n} training samples", fontsize="medium")
    return [("figure1", figure), ("rounds", over_rounds)]


def plot_curves(ax: Any, curves: list[Row], value: str) -> None:
    """Mean test AUC, or mean distance to the true target, against the number of training samples."""
    for method, (label, color, line) in STYLES.items():
        rows = sorted(where(curves, method=method), key=lambda row: row["n"])
        if rows and not (value == "distance" and method == "true"):
            ax.plot(
                column(rows, "n"),
                column(rows, value),
                line,
                color=color,
                marker="o",
                ms=3,
                label=label,
            )
    ax.set_xlabel("training samples")
    ax.set_ylabel("test AUC" if value == "auc" else "distance to the true target")
    if value == "distance":  # room for the legend above the highest curve
        ax.set_ylim(0, 1.4 * max(row["distance"] for row in curves))
    ax.legend(fontsize="small", loc="upper right" if value == "distance" else "best")


def plot_rounds(ax: Any, rounds: list[Row]) -> None:
    """Mean test AUC after each number of rounds, from the corrupted target."""
    for method in distinct(rounds, "method"):
        label, color, line = STYLES[method]
        rows = where(rounds, method=method)
        ax.plot(
            column(rows, "rounds"),
            column(rows, "auc"),
            line,
            color=color,
            marker="o",
            ms=3,
            label=label,
        )
    ax.set_xlabel("rounds")
    ax.set_ylabel("test AUC")
    ax.legend(fontsize="small")
