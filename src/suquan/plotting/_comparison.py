"""Pictures of a comparison: scores over its outer folds, probabilities, groups of risk.

A :class:`suquan.Comparison` comes in; the report draws with the displays, and reads tables with the functions.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np

from suquan._validation import check_choice
from suquan.comparison import BEST_FIXED, FIXED, LEARNED, START, VERDICT_METHOD, Comparison
from suquan.plotting._axes import COLORS, finish, label, limits, make_axes, vector
from suquan.plotting._targets import TargetQuantileDisplay
from suquan.statistics import Difference
from suquan.survival import RiskGroups, kaplan_meier, numbers_at_risk
from suquan.targets import grid

_GROUPS = {
    "low risk": (COLORS["fixed"], "-"),
    "middle risk": (COLORS["other"], "--"),
    "high risk": (COLORS["learned"], "-"),
}


class ComparisonDisplay:
    """Scores of the methods of a comparison over its outer folds; :meth:`from_result` makes it.

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
        What was drawn for each method; for "box" what ``Axes.boxplot`` returns, and the folds.
    line_ : matplotlib Line2D or None
        The diagonal of "scatter", the zero line of "difference".
    ax_, figure_ : matplotlib Axes and Figure

    Examples
    --------
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
        lengths = {name: len(values) for name, values in self.scores.items()}
        if len(set(lengths.values())) != 1:
            raise ValueError(
                f"scores must hold one value per fold and method; got lengths {lengths}."
            )
        self.scoring, self.reference = scoring, reference
        self.differences = dict(differences or {})
        self._check_known("reference", [] if reference is None else [reference])

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
        """
        reference = reference_of(comparison) if reference is None else reference
        rows, options = differences_from(comparison, reference), {"scoring": comparison.scoring}
        display = cls(scores_of(comparison), differences=rows, reference=reference, **options)
        return display.plot(kind, methods=methods, ax=ax)

    def plot(
        self, kind: str = "box", *, methods: Sequence[str] | None = None, ax: Any = None
    ) -> Self:
        """Draw on `ax`, or on a new figure; see :meth:`from_result`."""
        check_choice("kind", kind, ("box", "strip", "scatter", "difference"))
        names = list(self.scores) if methods is None else [str(name) for name in methods]
        self._check_known("methods", names)
        if not names:
            raise ValueError("methods must name at least one method; got none.")
        self.line_ = None
        if kind == "scatter":
            self._plot_scatter(names, methods is None, ax)
        else:
            self._plot_rows(kind, sorted(names, key=lambda name: self.scores[name].mean()), ax)
        finish(self.ax_)
        return self

    def _check_known(self, parameter: str, names: Sequence[str]) -> None:
        for name in names:
            if name not in self.scores:
                known = ", ".join(repr(k) for k in self.scores)
                raise ValueError(f"{parameter}: {name!r} was not compared; known are {known}.")

    def _plot_rows(self, kind: str, names: list[str], ax: Any) -> None:
        """Draw one row per method, from bottom to top."""
        xlabel = self.scoring
        if kind == "difference":
            names = [name for name in names if name != self.reference]
            if not names or not set(names) <= set(self.differences):
                raise ValueError(
                    "kind='difference' needs the difference of at least one method from the reference; "
                    "make the display with ComparisonDisplay.from_result on two methods or more."
                )
            xlabel = f"difference in {self.scoring}\nfrom {label(self.reference)}"
        self.methods_ = names
        self.ax_, self.figure_ = make_axes(ax, size=(6.4, 1.2 + 0.34 * len(names)))
        if kind == "difference":
            self.line_ = self.ax_.axvline(0, color=COLORS["guide"], lw=1, ls="--")
        draw, places = getattr(self, f"_draw_{kind}"), range(1, len(names) + 1)
        self.artists_ = {name: draw(name, place) for name, place in zip(names, places, strict=True)}
        self.ax_.set_yticks(places, [label(name) for name in names], parse_math=False)
        self.ax_.set(xlabel=xlabel, ylim=(0.4, len(names) + 0.6))
        self.ax_.tick_params(axis="y", length=0)
        self.ax_.grid(axis="x", color=COLORS["guide"], alpha=0.3, lw=0.8)
        self.ax_.set_axisbelow(True)

    def _draw_box(self, name: str, place: int) -> Any:
        color = color_of(name)
        boxes = self.ax_.boxplot(
            self.scores[name],
            positions=[place],
            orientation="horizontal",
            widths=0.6,
            whis=(0, 100),
            patch_artist=True,
            manage_ticks=False,
            boxprops={"facecolor": color, "edgecolor": color, "alpha": 0.25},
            medianprops={"color": color, "lw": 2},
            whiskerprops={"color": color},
            capprops={"color": color},
        )
        return boxes | {"folds": self._draw_folds(name, place)}

    def _draw_strip(self, name: str, place: int) -> Any:
        points = self._draw_folds(name, place, size=18, alpha=0.55)
        mean, ends = self.scores[name].mean(), [place - 0.32, place + 0.32]
        return points, self.ax_.plot([mean, mean], ends, color=color_of(name), lw=2.5)[0]

    def _draw_difference(self, name: str, place: int) -> Any:
        color, row, line = color_of(name), self.differences[name], None
        if np.isfinite(row.high - row.low):  # one fold alone has no interval
            line = self.ax_.hlines(place, row.low, row.high, color=color, lw=2, alpha=0.6)
        return self.ax_.scatter([row.mean], [place], s=36, color=color, lw=0, zorder=3), line

    def _draw_folds(self, name: str, place: int, size: float = 9, alpha: float = 0.6) -> Any:
        """Draw folds as points, spread evenly in the order of the folds: nothing is random."""
        values = self.scores[name]
        places = place + 0.36 * (grid(len(values)) - 0.5)
        look = {"s": size, "color": color_of(name), "alpha": alpha, "lw": 0, "zorder": 3}
        return self.ax_.scatter(values, places, **look)

    def _plot_scatter(self, names: list[str], is_free: bool, ax: Any) -> None:
        """Draw the folds of two methods against each other."""
        if is_free:
            names = [START, VERDICT_METHOD] if {START, VERDICT_METHOD} <= set(names) else names[:2]
        if len(names) != 2:
            raise ValueError(f"kind='scatter' compares two methods; got {names}.")
        self.methods_, (self.ax_, self.figure_) = names, make_axes(ax)
        ax, (x, y) = self.ax_, (self.scores[name] for name in names)
        first, second = map(label, names)
        self.line_ = ax.axline([x.mean()] * 2, slope=1, color=COLORS["guide"], lw=1, ls="--")
        points = ax.scatter(x, y, s=30, color=color_of(names[1]), alpha=0.7, lw=0, zorder=3)
        self.artists_, both = {names[1]: points}, limits(0.08, 1e-3, x, y)
        ax.set(xlim=both, ylim=both, aspect="equal")
        ax.set(xlabel=f"{self.scoring}, {first}", ylabel=f"{self.scoring}, {second}")
        ax.yaxis.set_major_locator(ax.xaxis.get_major_locator())
        look = {"transform": ax.transAxes, "fontsize": "small", "parse_math": False}
        above, below = (f"higher: {np.sum(d > 0)} of {len(d)}" for d in (y - x, x - y))
        ax.text(0.03, 0.97, f"{second} {above}", ha="left", va="top", **look)
        ax.text(0.97, 0.03, f"{first} {below}", ha="right", va="bottom", **look)


class ReliabilityDisplay:
    """How often what was said came true, in ten bins of what was said; :meth:`from_result` makes it.

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
    ax_, figure_ : matplotlib Axes and Figure

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
        """
        table = comparison.reliability
        known = list(dict.fromkeys(map(str, table.get("method", ()))))
        if not known:
            raise ValueError("no method of this comparison has probabilities of classes.")
        judged = [name for name in (BEST_FIXED, VERDICT_METHOD) if name in known]
        bins = {}
        for name in methods or judged or known[:1]:
            if name not in known:
                raise ValueError(f"methods: {name!r} has no probabilities; known are {known}.")
            bins[name] = {key: column[table["method"] == name] for key, column in table.items()}
        return cls(bins).plot(ax)

    def plot(self, ax: Any = None) -> Self:
        """Draw on `ax`, or on a new figure."""
        self.ax_, self.figure_ = make_axes(ax, size=(4.6, 4.4))
        self.methods_, self.lines_ = list(self.bins), []
        self.ax_.plot([0, 1], [0, 1], color=COLORS["guide"], lw=1, ls="--")
        for k, (name, bins) in enumerate(self.bins.items()):
            at, color = (bins["predicted"], bins["observed"]), color_of(name)
            look = {"color": color, "label": label(name), "ls": ("--", "-")[k % 2]}
            self.lines_ += self.ax_.plot(*at, lw=1.5, **look)
            size = 6 + 90 * np.asarray(bins["count"]) / max(np.sum(bins["count"]), 1)
            self.ax_.scatter(*at, s=size, color=color, lw=0, zorder=3)
        self.ax_.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02), aspect="equal")
        self.ax_.set(xlabel="probability that was said", ylabel="share that came true")
        finish(self.ax_, legend=True)
        return self


class RiskGroupDisplay:
    """Share of samples free of the event over time, for thirds of their out-of-fold risk (Kaplan and Meier).

    Crosses are censored samples. Make it with :meth:`from_result`.

    Parameters
    ----------
    groups : RiskGroups

    Attributes
    ----------
    lines_ : list of matplotlib Line2D
        One step curve per group, the lowest risk first.
    ax_, figure_ : matplotlib Axes and Figure

    Examples
    --------
    >>> import numpy as np
    >>> from suquan.plotting import RiskGroupDisplay
    >>> from suquan.survival import RiskGroups, as_outcome
    >>> y = as_outcome(np.column_stack([np.arange(1, 31), np.arange(30) % 3 > 0]))
    >>> groups = RiskGroups.of_folds(y, [np.arange(30)], [-np.arange(30.0)])
    >>> len(RiskGroupDisplay(groups).plot().lines_)
    3
    """

    def __init__(self, groups: RiskGroups) -> None:
        self.groups = groups

    @classmethod
    def from_result(cls, result: Comparison, *, ax: Any = None) -> Self:
        """Draw the groups of a comparison of times to event, on matplotlib Axes `ax` or on new ones."""
        if result.risk_groups is None:
            raise ValueError(
                "the comparison has no groups of risk; compare times to event, with the method 'crossfit'."
            )
        return cls(result.risk_groups).plot(ax=ax)

    def plot(self, *, ax: Any = None) -> Self:
        """Draw the curves on `ax`, or on a new figure."""
        (self.ax_, self.figure_), self.lines_ = make_axes(ax), []
        for group, (name, (color, style)) in enumerate(_GROUPS.items()):
            own = self.groups.outcome[self.groups.group == group]
            if not len(own):
                continue
            times, shares = kaplan_meier(own)
            times, shares = np.append(times, own["time"].max()), np.append(shares, shares[-1])
            look = {"where": "post", "color": color, "ls": style, "label": name}
            self.lines_ += self.ax_.step(times, shares, **look)
            censored = np.sort(own["time"][~own["event"]])
            place = np.searchsorted(times[:-1], censored, side="right") - 1
            self.ax_.plot(censored, shares[place], "+", color=color, markersize=5)
        self.ax_.set(xlabel="time", ylabel="share free of the event", ylim=(0.0, 1.03))
        self.ax_.set_xlim(left=0.0)
        finish(self.ax_, legend=True)
        return self


def plot_comparison(comparison: Comparison, axes: Any = None) -> Any:
    """Draw the scores of all methods beside the bands of all learned targets; see ``Comparison.plot``."""
    (left, right), figure = make_axes(axes, n=2, size=(10, 4.4), width_ratios=[3, 2])
    ComparisonDisplay.from_result(comparison, "box", ax=left)
    left.set_title("Outer folds")
    for k, (name, folds) in enumerate(comparison.targets.items()):
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


def names_of(comparison: Comparison) -> list[str]:
    """Names of the methods, in the order of the summary."""
    return [str(name) for name in comparison.summary["method"]]


def scores_of(comparison: Comparison) -> dict[str, np.ndarray]:
    """Scores over the outer folds, by method, in the order of the summary."""
    methods, scores = comparison.folds["method"], comparison.folds["score"]
    return {name: scores[methods == name] for name in names_of(comparison)}


def reference_of(comparison: Comparison) -> str:
    """The method that the others are compared with, known before any score is seen."""
    names = names_of(comparison)
    return next((name for name in (START, BEST_FIXED) if name in names), names[0])


def differences_from(comparison: Comparison, reference: str) -> dict[str, Difference]:
    """Differences of the other methods from the reference, by method."""
    own = comparison.tests["other"] == reference
    columns = ("method", "difference", "low", "high", "t", "p_t")
    rows = zip(*(comparison.tests[name][own].tolist() for name in columns), strict=True)
    return {str(name): Difference(*row) for name, *row in rows}


def risk_table(groups: RiskGroups, n_times: int = 5) -> tuple[list[str], list[list[str]]]:
    """Header and rows of the numbers at risk at a few times, one row per group."""
    times = np.linspace(0.0, groups.outcome["time"][groups.group >= 0].max(), n_times)
    rows = []
    for group, name in enumerate(_GROUPS):
        own = groups.outcome[groups.group == group]
        rows.append([name, *map(str, numbers_at_risk(own, times)), str(own["event"].sum())])
    return ["Group", *(f"{time:.4g}" for time in times), "Events"], rows
