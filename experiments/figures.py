"""Drawing that the experiments share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy.optimize import isotonic_regression

from suquan.report import Figure as ReportFigure
from suquan.report import draw


def new_figure(
    n_rows: int = 1, n_columns: int = 1, *, width: float = 4.6, height: float = 3.6
) -> Any:
    """A matplotlib figure that no window shows, with its axes in an array."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width * n_columns, height * n_rows), layout="constrained")
    return figure, np.atleast_1d(figure.subplots(n_rows, n_columns))


def label_ends(ax: Any, ends: Sequence[tuple[str, float, float, str]], gap: float = 0.055) -> None:
    """Names of curves at their right ends, moved apart where they would overlap.

    Parameters
    ----------
    ax : matplotlib Axes
        With the limits that it keeps.
    ends : sequence of (label, x, y, color)
    gap : float
        Least distance of two labels, as a share of the height.
    """
    low, high = ax.get_ylim()
    order = sorted(range(len(ends)), key=lambda k: ends[k][2])
    steps = gap * (high - low) * np.arange(len(ends))
    # As near to their curves as labels that keep their distance can be.
    heights = isotonic_regression([ends[k][2] for k in order] - steps).x + steps
    heights = np.clip(heights, low + steps, high - steps[::-1])
    line = {"arrowstyle": "-", "lw": 0.5, "alpha": 0.6, "relpos": (0, 0.5)}
    for k, height in zip(order, heights, strict=True):
        label, x, y, color = ends[k]
        ax.annotate(
            label,
            (x, y),
            (1.03, height),
            textcoords=ax.get_yaxis_transform(),
            color=color,
            fontsize="small",
            va="center",
            arrowprops=line | {"color": color},
        )


def for_report(
    plot: Callable[[Any], Any],
    description: str,
    caption: str,
    *,
    width: float = 4.8,
    height: float = 3.6,
) -> ReportFigure:
    """What `plot` draws on axes, as a figure of the report."""
    return ReportFigure(draw(plot, width=width, height=height), description, caption)
