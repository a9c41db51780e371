"""Drawing that the experiments share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from suquan.report import Figure as ReportFigure
from suquan.report import draw


def new_figure(
    n_rows: int = 1, n_columns: int = 1, *, width: float = 4.6, height: float = 3.6
) -> Any:
    """A matplotlib figure that no window shows, with its axes in an array."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width * n_columns, height * n_rows), layout="constrained")
    return figure, np.atleast_1d(figure.subplots(n_rows, n_columns))


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
