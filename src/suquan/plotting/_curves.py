"""The curve of one feature: what it adds to the score at every place of the sorted sample."""

from collections.abc import Mapping
from typing import Any, Self

from sklearn.utils.validation import check_is_fitted

from suquan.plotting._axes import COLORS, finish, label, make_axes, vector
from suquan.targets import grid


class FeatureCurveDisplay:
    """What one feature adds to the scores, over its place in the sorted sample.

    With several targets f_l the curve is Σ_l w_l f_l with the feature's weights w_l. Make it with
    :meth:`from_estimator`.

    Parameters
    ----------
    curves : mapping
        Values at the places (j + ½)/p, by the name of the score: one, or one per class.
    feature : str
        Name of the feature.

    Attributes
    ----------
    lines_ : list of matplotlib Line2D
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> from suquan.plotting import FeatureCurveDisplay
    >>> FeatureCurveDisplay({"score": [-1.0, 0.0, 1.0]}, "ESR1").plot().ax_.get_title()
    'ESR1'
    """

    def __init__(self, curves: Mapping[str, Any], feature: str) -> None:
        self.curves = {str(name): vector("curves", values) for name, values in curves.items()}
        self.feature = feature

    @classmethod
    def from_estimator(cls, estimator: Any, feature: Any, *, ax: Any = None) -> Self:
        """Draw the curve of a feature of a fitted model.

        Parameters
        ----------
        estimator : fitted SuquanClassifier or SuquanRegressor, or one of their CV twins
        feature : str or int
            Its name or, where the training samples had no names, its number from 0.
        ax : matplotlib Axes, default=None

        Returns
        -------
        FeatureCurveDisplay

        Raises
        ------
        ValueError
            If the model has no such feature, or no coefficients.
        """
        check_is_fitted(estimator)
        if not hasattr(estimator, "coef_"):
            raise ValueError(
                f"{type(estimator).__name__} has no coef_; give a model, such as SuquanClassifier."
            )
        names = list(getattr(estimator, "feature_names_in_", range(estimator.n_features_in_)))
        if feature not in names:
            raise ValueError(
                f"the model has no feature {feature!r}; its {len(names)} features begin with {names[0]!r}."
            )
        targets = estimator._targets
        W = estimator.coef_.reshape(len(estimator.coef_), len(targets), -1)
        curves = W[:, :, names.index(feature)] @ targets
        scores = ["score"] if len(curves) == 1 else [str(c) for c in estimator.classes_]
        return cls(dict(zip(scores, curves, strict=True)), str(feature)).plot(ax)

    def plot(self, ax: Any = None) -> Self:
        """Draw on `ax`, or on a new figure.

        Parameters
        ----------
        ax : matplotlib Axes, default=None

        Returns
        -------
        FeatureCurveDisplay
        """
        self.ax_, self.figure_ = make_axes(ax)
        self.ax_.axhline(0.0, color=COLORS["guide"], lw=0.8)
        look = {"color": COLORS["learned"]} if len(self.curves) == 1 else {}
        self.lines_ = [
            self.ax_.plot(grid(len(curve)), curve, lw=2, label=label(name), **look)[0]
            for name, curve in self.curves.items()
        ]
        self.ax_.set(xlabel="place in the sorted sample", ylabel="added to the score", xlim=(0, 1))
        self.ax_.set_title(label(self.feature), parse_math=False)
        finish(self.ax_, legend=len(self.curves) > 1)
        return self
