"""Figure 1, and AUC against the number of rounds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..figures import label_ends, new_figure
from ..tables import Row, column, distinct, read_rows, where
from .settings import Settings

# Methods by rule of selection; the paper takes the best mean score, the package's default is "smoothed".
STYLES = {
    ("true", "best"): ("logistic, true data", "#222222", "-"),
    ("corrupted", "best"): ("logistic, corrupted data", "#2a6f97", "-"),
    ("uniform", "best"): ("fixed uniform (start)", "#6b7280", "-"),
    ("bnd", "best"): ("SUQUAN-BND", "#7b4fa3", "--"),
    ("spav", "best"): ("SUQUAN-SPAV", "#c8553d", "--"),
    ("spav_small", "best"): ("SPAV, smaller γ too", "#e39b8b", "--"),
    ("joint", "best"): ("joint", "#3f8f5b", "-."),
    ("crossfit_learned", "smoothed"): ("crossfit, never its start", "#e8b64c", "-."),
    ("crossfit", "smoothed"): ("crossfit (default)", "#d08b00", "-"),
}


def figures(settings: Settings, folder: Path) -> list[tuple[str, Any]]:
    """The paper's two panels, and the curves over rounds."""
    curves, rounds = read_rows(folder / "curves.csv"), read_rows(folder / "rounds.csv")
    figure, axes = new_figure(1, 2, width=6.0)
    plot_curves(axes[0], curves, "auc")
    plot_curves(axes[1], curves, "distance")
    sizes = distinct(rounds, "n")
    over_rounds, panels = new_figure(1, len(sizes), width=6.0)
    for ax, n in zip(panels, sizes, strict=True):
        plot_rounds(ax, where(rounds, n=n))
        ax.set_title(f"{n} training samples", fontsize="medium")
    return [("figure1", figure), ("rounds", over_rounds)]


def plot_curves(ax: Any, curves: list[Row], value: str) -> None:
    """Mean test AUC, or mean distance to the true target, against n; bars are standard errors over draws."""
    ends = []
    for (method, selection), (label, color, line) in STYLES.items():
        rows = where(curves, method=method, selection=selection)
        rows = sorted(rows, key=lambda row: row["n"])
        if rows and not (value == "distance" and method == "true"):
            x, y = column(rows, "n"), column(rows, value)
            errors = column(rows, f"{value}_error")
            ax.errorbar(x, y, errors, fmt=line, color=color, marker="o", ms=3, capsize=2, lw=1.2)
            ends.append((label, x[-1], y[-1], color))
    ax.set_xscale("log")
    sizes = sorted(distinct(curves, "n"))
    ax.set_xticks(sizes, [str(n) for n in sizes])
    ax.minorticks_off()
    ax.set_xlabel("training samples")
    ax.set_ylabel("test AUC" if value == "auc" else "distance to the true target")
    label_ends(ax, ends)


def plot_rounds(ax: Any, rounds: list[Row]) -> None:
    """Mean test AUC after each number of rounds, from the corrupted target."""
    ends = []
    for method in distinct(rounds, "method"):
        label, color, line = STYLES.get((method, "best")) or STYLES[method, "smoothed"]
        rows = where(rounds, method=method)
        x, y = column(rows, "rounds"), column(rows, "auc")
        ax.plot(x, y, line, color=color, marker="o", ms=3)
        ends.append((label, x[-1], y[-1], color))
    ax.set_xlabel("rounds")
    ax.set_ylabel("test AUC")
    label_ends(ax, ends)
