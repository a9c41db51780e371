"""Picture of one feature: a fitted model and a feature's name in, its curve over the places out."""

from collections.abc import Sequence
from difflib import get_close_matches
from itertools import cycle
from numbers import Integral
from typing import Any, Self

import numpy as np

from suquan.plotting._axes import (
    COLORS,
    STYLES,
    finish,
    label,
    label_ends,
    limits,
    make_axes,
    shown_places,
)
from suquan.plotting._targets import fitted_target
from suquan.targets import grid


class FeatureCurveDisplay:
    """What a feature adds to the score, over its place in the sorted sample.

    It is the feature's row of A = Σ_l w_l f_lᵀ, with w_l the coefficients of target f_l. With one target the
    curves of all features are multiples of it; with several, each has a shape of its own. Make it with
    :meth:`from_estimator`.

    Parameters
    ----------
    curves : array-like of shape (n_outputs, n_features)
        One curve; one per class for more than two classes.
    feature : str, default="feature"
        Name of the feature.
    classes : sequence, default=()
        Names of the classes: one per curve, or the two that one curve tells apart.

    Attributes
    ----------
    line_, lines_ : matplotlib Line2D and list of them
        The first curve, and all.
    labels_ : list of matplotlib Text
        Names of the classes at the ends of several curves.
    ax_, figure_ : matplotlib Axes and Figure

    Examples
    --------
    >>> from suquan import SuquanClassifier
    >>> from suquan.datasets import make_corrupted_classification
    >>> from suquan.plotting import FeatureCurveDisplay
    >>> X, y = make_corrupted_classification(60, 30, random_state=0)
    >>> model = SuquanClassifier("multi", n_targets=2).fit(X, y)
    >>> FeatureCurveDisplay.from_estimator(model, 7).ax_.get_title("left")
    'column 7'
    """

    def __init__(
        self, curves: Any, *, feature: str = "feature", classes: Sequence[Any] = ()
    ) -> None:
        self.curves = np.atleast_2d(np.asarray(curves, dtype=np.float64))
        if self.curves.ndim != 2 or not self.curves.size:
            raise ValueError(f"curves must be rows of numbers; got shape {self.curves.shape}.")
        self.feature, self.classes = str(feature), [str(name) for name in classes]
        if len(self.curves) > 1 and len(self.classes) != len(self.curves):
            raise ValueError(
                f"there are {len(self.classes)} classes for {len(self.curves)} curves; give one for each."
            )

    @classmethod
    def from_estimator(cls, estimator: Any, feature: Any, *, ax: Any = None) -> Self:
        """Draw the curve of one feature of a fitted model.

        Parameters
        ----------
        estimator : fitted model with `target_quantiles_` and `coef_`
        feature : str or int
            Name of the feature, or the number of its column, from 0.
        ax : matplotlib Axes, default=None
        """
        fitted_target(estimator)
        model = getattr(estimator, "estimator_", estimator)
        if not hasattr(model, "coef_"):
            raise ValueError(
                f"{type(estimator).__name__} has no coefficients, so that its features have no curves; give a "
                "model, such as SuquanClassifier."
            )
        place, name = _find_feature(model, feature)
        targets = model._targets
        weights = model.coef_.reshape(-1, *targets.shape)[:, :, place]
        classes = getattr(model, "classes_", ())
        return cls(weights @ targets, feature=name, classes=classes).plot(ax)

    def plot(self, ax: Any = None, *, color: Any = COLORS["learned"]) -> Self:
        """Draw on `ax`, or on a new figure, in a matplotlib colour."""
        self.ax_, self.figure_ = make_axes(ax)
        places = shown_places(self.curves.shape[1])
        q, towards = grid(self.curves.shape[1])[places], ""
        self.ax_.axhline(0.0, color=COLORS["guide"], lw=0.8)
        self.lines_ = [
            self.ax_.plot(q, curve[places], color=color, ls=style, lw=2)[0]
            for curve, style in zip(self.curves, cycle(("-", *STYLES)), strict=False)
        ]
        self.line_, self.labels_ = self.lines_[0], []
        self.ax_.set(xlim=(0, 1), ylim=limits(0.1, 1e-12, self.curves, np.zeros(1)))
        if len(self.curves) > 1:
            self.labels_ = label_ends(self.ax_, self.lines_, self.classes)
        elif len(self.classes) == 2:
            towards = f" for {label(self.classes[1])}"
        self.ax_.set_title(label(self.feature), loc="left")
        self.ax_.set(xlabel="place in the sorted sample", ylabel=f"added to the score{towards}")
        finish(self.ax_)
        return self


def _find_feature(model: Any, feature: Any) -> tuple[int, str]:
    """Find the column of a feature and what to call it, or name a similar one."""
    names, last = getattr(model, "feature_names_in_", None), model.n_features_in_ - 1
    if isinstance(feature, Integral):
        if not 0 <= int(feature) <= last:
            raise ValueError(f"the model has the columns 0 to {last}; got feature {feature}.")
        return int(feature), f"column {feature}" if names is None else str(names[feature])
    if names is None:
        raise ValueError(
            f"the model was fitted without feature names, so that {feature!r} is not known; give the number of "
            f"a column, from 0 to {last}."
        )
    known, name = [str(name) for name in names], str(feature)
    if name not in known:
        near = get_close_matches(name, known, n=3)
        told = f"did you mean {' or '.join(map(repr, near))}?" if near else "check the spelling."
        raise ValueError(f"the model has no feature {name!r}; {told}")
    return known.index(name), name
