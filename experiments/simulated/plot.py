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
    """The paper's two panels, the gaps between the upper curves, and the curves over rounds."""
    curves, rounds = read_rows(folder / "curves.csv"), read_rows(folder / "rounds.csv")
    figure, axes = new_figure(2, 1, width=7.5, height=4.0)
    plot_curves(axes[0], curves, "auc")
    plot_curves(axes[1], curves, "distance")
    gaps, axes = new_figure(1, 1, width=7.5, height=4.0)
    plot_gaps(axes[0], read_rows(folder / "gaps.csv"))
    sizes = distinct(rounds, "n")
    over_rounds, panels = new_figure(1, len(sizes), width=6.0)
    for ax, n in zip(panels, sizes, strict=True):
        plot_rounds(ax, where(rounds, n=n))
        ax.set_title(f"{n} training samples", fontsize="medium")
    return [("figure1", figure), ("gaps", gaps), ("rounds", over_rounds)]


def plot_curves(ax: Any, curves: list[Row], value: str) -> None:
    """Mean test AUC, or mean distance to the true target, against n; bars are standard errors over draws."""
    left_out = ("true",) if value == "distance" else ()
    _plot_against_n(ax, curves, value, f"{value}_error", left_out)
    ax.set_ylabel("test AUC" if value == "auc" else "distance to the true target")


def plot_gaps(ax: Any, gaps: list[Row]) -> None:
    """Test AUC below that of the true data, without itself and the two methods far below."""
    rows = where(gaps, corruption="mean")
    _plot_against_n(ax, rows, "gap_to_true", "gap_error", ("true", "corrupted", "bnd"))
    ax.axhline(0.0, color="#222222", lw=1)
    ax.set_ylabel("test AUC minus that on the true data")


def _plot_against_n(
    ax: Any, rows: list[Row], value: str, error: str, left_out: tuple[str, ...]
) -> None:
    """Curves of all methods but those left out, with error bars and their names at their ends."""
    ends = []
    for (method, selection), (label, color, line) in STYLES.items():
        own = where(rows, method=method, selection=selection)
        own = sorted(own, key=lambda row: row["n"])
        if own and method not in left_out:
            x, y, errors = (column(own, key) for key in ("n", value, error))
            ax.errorbar(x, y, errors, fmt=line, color=color, marker="o", ms=3, capsize=2, lw=1.2)
            ends.append((label, x[-1], y[-1], color))
    ax.set_xscale("log")
    sizes = sorted(distinct(rows, "n"))
    ax.set_xticks(sizes, [str(n) for n in sizes])
    ax.minorticks_off()
    ax.set_xlabel("training samples")
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
