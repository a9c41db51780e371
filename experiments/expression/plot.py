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
    gains, axes = new_figure(1, 1, width=5.5)
    plot_gains(axes[0], read_rows(folder / "per_dataset.csv"))
    return [("figure4", shown), ("gains", gains)]


def plot_targets(ax: Any, targets: list[Row]) -> None:
    """Learned targets of one outer fold, with mean square 1."""
    for method in distinct(targets, "method"):
        rows = where(targets, method=method)
        ax.plot(column(rows, "place"), column(rows, "target"), color=COLORS[method], label=method)
    ax.set_xlabel("quantile")
    ax.set_ylabel("target")
    ax.legend(fontsize="small")


def plot_gains(ax: Any, rows: list[Row]) -> None:
    """Difference of the default method to the best fixed target, with corrected intervals of 95%."""
    y = np.arange(len(rows))[::-1]
    mean, low, high = (column(rows, key).astype(float) for key in ("difference", "low", "high"))
    ax.axvline(0, color="#9aa5b1", lw=1)
    ax.errorbar(
        mean, y, xerr=[mean - low, high - mean], fmt="o", color=COLORS["crossfit"], capsize=3
    )
    ax.set_yticks(y, column(rows, "dataset"))
    ax.set_xlabel("AUC × 100, crossfit minus best fixed target")
