"""Pictures of the experiment on times to event."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ..figures import new_figure
from ..tables import Row, column, read_rows
from .settings import Settings


def figures(settings: Settings, folder: Path) -> list[tuple[str, Any]]:
    """What learning adds, and what cutting costs, on every set."""
    made = []
    for name, label in (("verdicts", GAIN), ("cut", PRICE)):
        if (folder / f"{name}.csv").is_file():
            figure, axes = new_figure(width=6.0)
            plot_differences(axes[0], chosen(read_rows(folder / f"{name}.csv")), label)
            made.append((name, figure))
    return made


COLOR = "#c8553d"
GAIN = "concordance, learned target less best fixed"
PRICE = "concordance, times less cut label (learned target)"


def chosen(rows: list[Row]) -> list[Row]:
    """One row per set: those of the learned target."""
    return [row for row in rows if row.get("target", "crossfit") == "crossfit"]


def plot_differences(ax: Any, rows: list[Row], label: str) -> None:
    """Differences with their 95% intervals, one row per set."""
    places = np.arange(len(rows))[::-1]
    mean, low, high = (column(rows, key) for key in ("difference", "low", "high"))
    ax.hlines(places, low, high, color=COLOR)
    ax.plot(mean, places, "o", color=COLOR)
    ax.axvline(0.0, color="#9aa5b1", linestyle="--", linewidth=1)
    ax.set_yticks(places, [str(row["dataset"]) for row in rows])
    ax.set_xlabel(label)
    ax.spines[["top", "right"]].set_visible(False)
