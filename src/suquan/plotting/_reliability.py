"""Probabilities of a comparison against what came true."""

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np

from suquan.comparison import BEST_FIXED, VERDICT_METHOD, Comparison
from suquan.plotting._axes import COLORS, finish, label, make_axes
from suquan.plotting._comparison import color_of


class ReliabilityDisplay:
    """How often what was said came true, in ten bins of what was said.

    Make it with :meth:`from_result`.

    Parameters
    ----------
    bins : mapping of method names to mappings
        Each with "predicted", "observed" and "count", as :func:`suquan.calibration.reliability` gives them.

    Attributes
    ----------
    methods_ : list of str
        The methods drawn.
    lines_ : list of matplotlib Line2D
        One per method.
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure

    Examples
    --------
    >>> from suquan.plotting import ReliabilityDisplay
    >>> bins = {"predicted": [0.1, 0.8], "observed": [0.2, 0.7], "count": [10, 20]}
    >>> ReliabilityDisplay({"crossfit": bins}).plot().methods_
    ['crossfit']
    """

    def __init__(self, bins: Mapping[str, Mapping[str, Any]]) -> None:
        self.bins = bins

    @classmethod
    def from_result(
        cls, comparison: Comparison, *, methods: Sequence[str] | None = None, ax: Any = None
    ) -> Self:
        """Draw the result of :func:`suquan.compare`.

        Parameters
        ----------
        comparison : Comparison
        methods : sequence of str, default=None
            None: "best_fixed" and "crossfit", or else the first one that has probabilities.
        ax : matplotlib Axes, default=None

        Returns
        -------
        ReliabilityDisplay
        """
        table = comparison.reliability
        known = list(dict.fromkeys(map(str, table.get("method", ()))))
        if not known:
            raise ValueError("no method of this comparison has probabilities of classes.")
        judged = [name for name in (BEST_FIXED, VERDICT_METHOD) if name in known]
        names = list(methods or judged or known[:1])
        unknown = [name for name in names if name not in known]
        if unknown:
            raise ValueError(f"methods: {unknown[0]!r} has no probabilities; known are {known}.")
        return cls({n: {k: v[table["method"] == n] for k, v in table.items()} for n in names}).plot(
            ax
        )

    def plot(self, ax: Any = None) -> Self:
        """Draw on `ax`, or on a new figure."""
        self.ax_, self.figure_ = make_axes(ax, size=(4.6, 4.4))
        self.methods_, self.lines_ = list(self.bins), []
        self.ax_.plot([0, 1], [0, 1], color=COLORS["guide"], lw=1, ls="--")
        for k, (name, bins) in enumerate(self.bins.items()):
            look = {"color": color_of(name), "label": label(name), "ls": ("--", "-")[k % 2]}
            (line,) = self.ax_.plot(bins["predicted"], bins["observed"], lw=1.5, **look)
            size = 6 + 90 * np.asarray(bins["count"]) / max(np.sum(bins["count"]), 1)
            at = bins["predicted"], bins["observed"]
            self.ax_.scatter(*at, s=size, color=color_of(name), lw=0, zorder=3)
            self.lines_.append(line)
        self.ax_.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02), aspect="equal")
        self.ax_.set_xlabel("probability that was said")
        self.ax_.set_ylabel("share that came true")
        finish(self.ax_, legend=True)
        return self
