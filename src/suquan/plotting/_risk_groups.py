"""Picture of patients in groups of risk: Kaplan-Meier curves."""

from typing import Any, Self

import numpy as np

from suquan.comparison import Comparison
from suquan.plotting._axes import COLORS, finish, make_axes
from suquan.survival import RiskGroups, kaplan_meier, numbers_at_risk

NAMES = ("low risk", "middle risk", "high risk")
_LOOK = ((COLORS["fixed"], "-"), (COLORS["other"], "--"), (COLORS["learned"], "-"))


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
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
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
        """Draw the groups of a comparison of times to event.

        Parameters
        ----------
        result : Comparison
        ax : matplotlib Axes, default=None

        Returns
        -------
        RiskGroupDisplay
        """
        if result.risk_groups is None:
            raise ValueError(
                "the comparison has no groups of risk; compare times to event, with the method 'crossfit'."
            )
        return cls(result.risk_groups).plot(ax=ax)

    def plot(self, *, ax: Any = None) -> Self:
        """Draw the curves.

        Parameters
        ----------
        ax : matplotlib Axes, default=None

        Returns
        -------
        RiskGroupDisplay
        """
        self.ax_, self.figure_ = make_axes(ax)
        self.lines_ = []
        for group, (name, (color, style)) in enumerate(zip(NAMES, _LOOK, strict=True)):
            own = self.groups.outcome[self.groups.group == group]
            if not len(own):
                continue
            times, shares = kaplan_meier(own)
            times, shares = np.append(times, own["time"].max()), np.append(shares, shares[-1])
            line = self.ax_.step(
                times, shares, where="post", color=color, linestyle=style, label=name
            )[0]
            censored = np.sort(own["time"][~own["event"]])
            place = np.searchsorted(times[:-1], censored, side="right") - 1
            self.ax_.plot(censored, shares[place], "+", color=color, markersize=5)
            self.lines_.append(line)
        self.ax_.set(xlabel="time", ylabel="share free of the event", ylim=(0.0, 1.03))
        self.ax_.set_xlim(left=0.0)
        finish(self.ax_, legend=True)
        return self


def risk_table(groups: RiskGroups, n_times: int = 5) -> tuple[list[str], list[list[str]]]:
    """Header and rows of the numbers at risk at a few times, one row per group."""
    times = np.linspace(0.0, groups.outcome["time"][groups.group >= 0].max(), n_times)
    rows = []
    for group, name in enumerate(NAMES):
        own = groups.outcome[groups.group == group]
        counts = numbers_at_risk(own, times).tolist()
        rows.append([name, *map(str, counts), str(int(own["event"].sum()))])
    return ["Group", *(f"{time:.4g}" for time in times), "Events"], rows
