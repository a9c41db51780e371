"""Figure 4 (learned targets), and the gain on every data set."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ..figures import new_figure
from ..tables import Row, column, distinct, read_rows, where

COLORS = {"spav": "#c8553d", "crossfit": "#d08b00"}


def figures(settings: Any, folder: Path) -> list[tuple[str, Any]]:
    """Targets of the first two data sets, as the paper shows two, and the gains."""
    targets = read_rows(folder / "targets.csv")
    names = distinct(targets, "dataset")[:2]
    shown, axes = new_figure(1, len(names))
    for ax, name in zip(axes, names, strict=True):
        plot_targets(ax, where(targets, dataset=name))
        ax.set_title(name, fontsize="medium")
    gains, axes = new_figure(1, 1, width=6.5)
    plot_gains(axes[0], read_rows(folder / "per_dataset.csv"))
    return [("figure4", shown), ("gains", gains)]


def plot_targets(ax: Any, targets: list[Row]) -> None:
    """Learned targets of one outer fold, with mean square 1, each named at its right end."""
    curves = {name: where(targets, method=name) for name in distinct(targets, "method")}
    order = sorted(curves, key=lambda name: curves[name][-1]["target"])
    for k, (method, rows) in enumerate((name, curves[name]) for name in order):
        x, y = column(rows, "place"), column(rows, "target")
        ax.plot(x, y, color=COLORS[method])
        ax.annotate(
            method,
            (x[-1], y[-1]),
            (5, 8 * (2 * k - 1)),  # the lower one below its end, the higher one above
            textcoords="offset points",
            color=COLORS[method],
            va="center",
            annotation_clip=False,
        )
    ax.set_xlim(0, 1)
    ax.set_xlabel("quantile")
    ax.set_ylabel("target")


def plot_gains(ax: Any, rows: list[Row]) -> None:
    """Difference of the default method to its initial target, with corrected intervals of 95%."""
    y = np.arange(len(rows))[::-1]
    mean, low, high = (column(rows, key).astype(float) for key in ("difference", "low", "high"))
    ax.axvline(0, color="#9aa5b1", lw=1)
    ax.errorbar(
        mean, y, xerr=[mean - low, high - mean], fmt="o", color=COLORS["crossfit"], capsize=3
    )
    for height, value in zip(y, mean, strict=True):
        text = f"{value:+.1f}".replace("-", "−")
        ax.annotate(text, (value, height), (0, 6), textcoords="offset points", ha="center")
    ax.set_ylim(-0.6, len(rows) - 0.3)
    ax.set_yticks(y, column(rows, "dataset"))
    ax.set_xlabel("AUC × 100, crossfit minus its initial target (95% interval)")
