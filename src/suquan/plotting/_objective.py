"""The objective while a target is learned."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from suquan.plotting._axes import COLORS, finish, make_axes, vector


class ObjectiveDisplay:
    """How the objective fell while the target was learned.

    Make it with :meth:`from_estimator`.

    Parameters
    ----------
    objective_history : array-like
        J at the start and after every half-step; for "crossfit" the out-of-fold loss at the start and
        after each round.
    crossfit : bool, default=False
        Which of the two it is.

    Attributes
    ----------
    line_ : matplotlib Line2D
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> from suquan.plotting import ObjectiveDisplay
    >>> ObjectiveDisplay([0.6, 0.5, 0.48]).plot().ax_.get_xlabel()
    'half-step (f, then w)'
    """

    def __init__(self, objective_history: Any, *, crossfit: bool = False) -> None:
        self.objective_history = vector("objective_history", objective_history)
        self.crossfit = crossfit

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Any = None) -> ObjectiveDisplay:
        """Draw the history of a fitted estimator.

        Parameters
        ----------
        estimator : fitted SuquanClassifier, SuquanRegressor, their CV twins, or
            SupervisedQuantileNormalizer
        ax : matplotlib Axes, default=None

        Returns
        -------
        ObjectiveDisplay
        """
        check_is_fitted(estimator)
        model = getattr(estimator, "estimator_", estimator)
        if not hasattr(model, "objective_history_"):
            raise ValueError(
                f"{type(estimator).__name__} has no objective_history_; give an estimator that learns "
                "its target, such as SuquanClassifier."
            )
        method = getattr(model, "method_", model.method)
        return cls(model.objective_history_, crossfit=method == "crossfit").plot(ax)

    def plot(self, ax: Any = None, *, color: Any = None) -> ObjectiveDisplay:
        """Draw on `ax`, or on a new figure.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
        color : matplotlib colour, default=None

        Returns
        -------
        ObjectiveDisplay
        """
        self.ax_, self.figure_ = make_axes(ax)
        color = COLORS["learned"] if color is None else color
        steps = np.arange(len(self.objective_history))
        (self.line_,) = self.ax_.plot(
            steps, self.objective_history, color=color, marker="o", ms=4.5, lw=1.5
        )
        self.ax_.set(
            xlabel="round" if self.crossfit else "half-step (f, then w)",
            ylabel="out-of-fold loss" if self.crossfit else "objective J",
        )
        self.ax_.xaxis.get_major_locator().set_params(integer=True, min_n_ticks=1)
        if len(steps) == 1:
            self.ax_.set_xlim(-0.5, 0.5)
        self.ax_.ticklabel_format(axis="y", useOffset=False)
        self.ax_.grid(axis="y", color=COLORS["guide"], alpha=0.3, lw=0.8)
        finish(self.ax_)
        return self
