"""Scores of a comparison over its outer folds, and what the report reads from a comparison too."""

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np

from suquan._validation import check_choice
from suquan.comparison import BEST_FIXED, FIXED, LEARNED, START, VERDICT_METHOD, Comparison
from suquan.plotting._axes import COLORS, finish, label, limits, make_axes, vector
from suquan.plotting._targets import TargetQuantileDisplay
from suquan.statistics import Difference
from suquan.targets import grid

_KINDS = ("box", "strip", "scatter", "difference")


class ComparisonDisplay:
    """Scores of the methods of a comparison over its outer folds.

    Make it with :meth:`from_result`.

    Parameters
    ----------
    scores : mapping of method names to arrays of shape (n_folds,)
        Scores on the same folds.
    scoring : str, default="score"
        What they are, for the label of the axis.
    differences : mapping of method names to Difference, default=None
        For the kind "difference": of each method from `reference`.
    reference : str, default=None
        The method that the others are compared with.

    Attributes
    ----------
    methods_ : list of str
        The methods drawn, from bottom to top or (other, method) for "scatter".
    artists_ : dict
        For "box" what ``Axes.boxplot`` returns; else what was drawn for each method.
    line_ : matplotlib Line2D or None
        The diagonal of "scatter", the zero line of "difference".
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> from suquan.plotting import ComparisonDisplay
    >>> scores = {"normal": [0.70, 0.72, 0.69], "crossfit": [0.74, 0.73, 0.75]}
    >>> ComparisonDisplay(scores, scoring="roc_auc").plot("strip").methods_
    ['normal', 'crossfit']
    """

    def __init__(
        self,
        scores: Mapping[str, Any],
        *,
        scoring: str = "score",
        differences: Mapping[str, Difference] | None = None,
        reference: str | None = None,
    ) -> None:
        self.scores = {name: vector(f"scores of {name!r}", v) for name, v in scores.items()}
        if len({len(values) for values in self.scores.values()}) != 1:
            lengths = {name: len(values) for name, values in self.scores.items()}
            raise ValueError(
                f"scores must hold one value per fold and method; got lengths {lengths}."
            )
        self.scoring = scoring
        self.differences = dict(differences or {})
        self.reference = reference

    @classmethod
    def from_result(
        cls,
        comparison: Comparison,
        kind: str = "box",
        *,
        methods: Sequence[str] | None = None,
        reference: str | None = None,
        ax: Any = None,
    ) -> Self:
        """Draw the result of :func:`suquan.compare`.

        Parameters
        ----------
        comparison : Comparison
        kind : {"box", "strip", "scatter", "difference"}, default="box"
            "box": quartiles and range of each method, and its folds as points. "strip": folds as points
            and their mean. "scatter": the folds of one method against those of another. "difference":
            mean difference of each method from `reference`, with its interval.
        methods : sequence of str, default=None
            Methods to draw; None: all, and for "scatter" ("start", "crossfit") where both are there,
            else the first two. For "scatter" the first goes to the x axis.
        reference : str, default=None
            For "difference"; None: "start" where it is there, else "best_fixed", else the first method.
        ax : matplotlib Axes, default=None

        Returns
        -------
        ComparisonDisplay
        """
        reference = reference_of(comparison) if reference is None else reference
        rows = differences_from(comparison, reference)
        display = cls(
            scores_of(comparison), scoring=comparison.scoring, differences=rows, reference=reference
        )
        display._check_known("reference", [reference])
        return display.plot(kind, methods=methods, ax=ax)

    def plot(
        self, kind: str = "box", *, methods: Sequence[str] | None = None, ax: Any = None
    ) -> Self:
        """Draw on `ax`, or on a new figure; see :meth:`from_result`."""
        check_choice("kind", kind, _KINDS)
        if methods is not None:
            self._check_known("methods", methods)
            if not len(methods):
                raise ValueError("methods must name at least one method; got none.")
        names = list(self.scores) if methods is None else [str(name) for name in methods]
        if kind == "scatter":
            both = [START, VERDICT_METHOD]
            if methods is None:
                names = both if set(both) <= set(names) else names[:2]
            if len(names) != 2:
                raise ValueError(f"kind='scatter' compares two methods; got {names}.")
            self.ax_, self.figure_ = make_axes(ax)
        else:
            names.sort(key=lambda name: float(self.scores[name].mean()))
            if kind == "difference":
                names = [name for name in names if name != self.reference]
                if not names or not set(names) <= set(self.differences):
                    raise ValueError(
                        "kind='difference' needs the difference of at least one method from the reference; "
                        "make the display with ComparisonDisplay.from_result on two methods or more."
                    )
            self.ax_, self.figure_ = make_axes(ax, size=(6.4, 1.2 + 0.34 * len(names)))
        self.methods_, self.line_ = names, None
        self.artists_ = getattr(self, f"_plot_{kind}")(names)
        finish(self.ax_)
        return self

    def _check_known(self, parameter: str, names: Sequence[str]) -> None:
        for name in names:
            if name not in self.scores:
                known = ", ".join(repr(k) for k in self.scores)
                raise ValueError(f"{parameter}: {name!r} was not compared; known are {known}.")

    def _plot_box(self, names: list[str]) -> dict[str, Any]:
        values = [self.scores[name] for name in names]
        look = {"orientation": "horizontal", "widths": 0.6, "patch_artist": True}
        boxes = self.ax_.boxplot(values, whis=(0, 100), **look)
        for k, name in enumerate(names):
            color = color_of(name)
            boxes["boxes"][k].set(facecolor=color, alpha=0.25, edgecolor=color)
            boxes["medians"][k].set(color=color, lw=2)
            for part in (*boxes["whiskers"][2 * k : 2 * k + 2], *boxes["caps"][2 * k : 2 * k + 2]):
                part.set(color=color)
            self._draw_folds(name, k + 1)
        self._label_rows(names, self.scoring)
        return boxes

    def _plot_strip(self, names: list[str]) -> dict[str, Any]:
        artists = {}
        for place, name in enumerate(names, start=1):
            points = self._draw_folds(name, place, size=18, alpha=0.55)
            mean, ends = self.scores[name].mean(), [place - 0.32, place + 0.32]
            (line,) = self.ax_.plot([mean, mean], ends, color=color_of(name), lw=2.5)
            artists[name] = (points, line)
        self._label_rows(names, self.scoring)
        return artists

    def _plot_scatter(self, names: list[str]) -> dict[str, Any]:
        ax = self.ax_
        x, y = (self.scores[name] for name in names)
        first, second = (label(name) for name in names)
        middle = (float(x.mean()), float(x.mean()))
        self.line_ = ax.axline(middle, slope=1, color=COLORS["guide"], lw=1, ls="--")
        points = ax.scatter(x, y, s=30, color=color_of(names[1]), alpha=0.7, lw=0, zorder=3)
        both = limits(0.08, 1e-3, x, y)
        ax.set(xlim=both, ylim=both, aspect="equal")
        ax.yaxis.set_major_locator(ax.xaxis.get_major_locator())
        ax.set_xlabel(f"{self.scoring}, {first}", parse_math=False)
        ax.set_ylabel(f"{self.scoring}, {second}", parse_math=False)
        options = {"transform": ax.transAxes, "parse_math": False, "fontsize": "small"}
        above = f"{second} higher: {np.sum(y > x)} of {len(x)}"
        below = f"{first} higher: {np.sum(y < x)} of {len(x)}"
        ax.text(0.03, 0.97, above, ha="left", va="top", **options)
        ax.text(0.97, 0.03, below, ha="right", va="bottom", **options)
        return {names[1]: points}

    def _plot_difference(self, names: list[str]) -> dict[str, Any]:
        self.line_ = self.ax_.axvline(0, color=COLORS["guide"], lw=1, ls="--")
        artists = {}
        for place, name in enumerate(names, start=1):
            color, row = color_of(name), self.differences[name]
            line = None
            if np.isfinite(row.high - row.low):  # one fold alone has no interval
                line = self.ax_.hlines(place, row.low, row.high, color=color, lw=2, alpha=0.6)
            point = self.ax_.scatter([row.mean], [place], s=36, color=color, lw=0, zorder=3)
            artists[name] = (point, line)
        reference = label(self.reference or "")
        self._label_rows(names, f"difference in {self.scoring}\nfrom {reference}")
        return artists

    def _draw_folds(self, name: str, place: int, size: float = 9, alpha: float = 0.6) -> Any:
        """Folds as points, spread evenly in the order of the folds: nothing is random."""
        values = self.scores[name]
        places = place + 0.36 * (grid(len(values)) - 0.5)
        look = {"s": size, "color": color_of(name), "alpha": alpha, "lw": 0, "zorder": 3}
        return self.ax_.scatter(values, places, **look)

    def _label_rows(self, names: list[str], xlabel: str) -> None:
        places = np.arange(1, len(names) + 1)
        self.ax_.set_yticks(places, [label(name) for name in names], parse_math=False)
        self.ax_.set_ylim(0.4, len(names) + 0.6)
        self.ax_.set_xlabel(xlabel, parse_math=False)
        self.ax_.tick_params(axis="y", length=0)
        self.ax_.grid(axis="x", color=COLORS["guide"], alpha=0.3, lw=0.8)
        self.ax_.set_axisbelow(True)


def plot_comparison(comparison: Comparison, axes: Any = None) -> Any:
    """Scores of all methods, and the bands of all learned targets, side by side; see ``Comparison.plot``."""
    (left, right), figure = make_axes(axes, n=2, size=(10, 4.4), width_ratios=[3, 2])
    ComparisonDisplay.from_result(comparison, "box", ax=left)
    left.set_title("Outer folds")
    for k, name in enumerate(comparison.targets):
        folds = comparison.targets[name]
        display = TargetQuantileDisplay(np.median(folds, axis=0), fold_targets=folds, name=name)
        display.plot(right, color=f"C{k}")
    right.autoscale(axis="y")
    right.set_title("Learned targets over the folds")
    if comparison.targets:
        right.legend(handles=list(right.lines), frameon=False, fontsize="small")
    return figure


def kind_of(method: str) -> str:
    """Whether a method of a comparison has a learned target, a fixed one, or neither."""
    if method in LEARNED:
        return "learned"
    return "fixed" if method in (*FIXED, START, BEST_FIXED) else "other"


def color_of(method: str) -> str:
    """Colour of a method, by its kind."""
    return COLORS[kind_of(method)]


def scores_of(comparison: Comparison) -> dict[str, np.ndarray]:
    """Scores over the outer folds, by method, in the order of the summary."""
    methods, scores = comparison.folds["method"], comparison.folds["score"]
    return {str(name): scores[methods == name] for name in comparison.summary["method"]}


def reference_of(comparison: Comparison) -> str:
    """The method that the others are compared with, known before any score is seen."""
    names = [str(name) for name in comparison.summary["method"]]
    return next((name for name in (START, BEST_FIXED) if name in names), names[0])


def differences_from(comparison: Comparison, reference: str) -> dict[str, Difference]:
    """Differences of the other methods from the reference, by method."""
    columns = [comparison.tests[name] for name in ("difference", "low", "high", "t", "p_t")]
    return {
        str(comparison.tests["method"][k]): Difference(*(float(column[k]) for column in columns))
        for k in np.flatnonzero(comparison.tests["other"] == reference)
    }
