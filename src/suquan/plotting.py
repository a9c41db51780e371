"""Pictures of fitted models and of comparisons, as scikit-learn's Display objects; they need matplotlib."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from suquan.comparison import BEST_FIXED, FIXED, LEARNED, VERDICT_METHOD, Comparison
from suquan.linear_model import standardize_start
from suquan.ranking import check_choice
from suquan.statistics import Difference
from suquan.targets import NAMED, grid, make_target_quantiles

__all__ = [
    "ComparisonDisplay",
    "NormalizedSampleDisplay",
    "ObjectiveDisplay",
    "TargetQuantileDisplay",
]

# One colour per kind of method; kinds also differ by place, line style or label.
COLORS = {
    "learned": "#c8553d",
    "fixed": "#2a6f97",
    "other": "#6b7785",
    "guide": "#9aa5b1",
}
SHOWN_TARGETS = ("normal", "uniform", "exponential")
_STYLES = ("--", ":", "-.", (0, (5, 1, 1, 1, 1, 1)), (0, (1, 3)), (0, (8, 3)))
_LONGEST_LABEL = 30
# Enough places of a long target to draw it, and those at its ends, where it is steep.
_N_PLACES, _N_AT_ENDS = 500, 30
# More samples than this cannot be told apart in one picture.
_MAX_SAMPLES = 60
_COMPARISON_KINDS = ("box", "strip", "scatter", "difference")
_SAMPLE_KINDS = ("quantiles", "density")


def kind_of(method: str) -> str:
    """Whether a method of a comparison has a learned target, a fixed one, or neither."""
    if method in LEARNED:
        return "learned"
    return "fixed" if method in FIXED or method == BEST_FIXED else "other"


def standardized(f: Any) -> np.ndarray:
    """Target of mean 0 and mean square 1, along the last axis: models do not see the rest of its scale."""
    f = np.asarray(f, dtype=np.float64)
    f = f - f.mean(axis=-1, keepdims=True)
    rms = np.sqrt(np.mean(f**2, axis=-1, keepdims=True))
    return f / np.where(rms > 0, rms, 1.0)


class TargetQuantileDisplay:
    """A learned target against fixed ones and the one it started from, with its band over folds.

    All are drawn with mean 0 and mean square 1, since the model makes up for any other scale. Make it with
    :meth:`from_estimator` or :meth:`from_result`.

    Parameters
    ----------
    target_quantiles : array-like of shape (n_features,)
        The learned target.
    fold_targets : array-like of shape (n_folds, n_features), default=None
        Targets of several folds; their lowest and highest value at each place make the band.
    others : mapping of names to arrays of shape (n_features,), default=None
        Targets to compare with.
    name : str, default="learned"
        Name of the learned target.

    Attributes
    ----------
    line_ : matplotlib Line2D
        The learned target.
    other_lines_ : dict of Line2D
        The others, by name.
    band_ : matplotlib FillBetweenPolyCollection or None
        The band.
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> from suquan import SuquanClassifier
    >>> from suquan.datasets import make_corrupted_classification
    >>> from suquan.plotting import TargetQuantileDisplay
    >>> X, y = make_corrupted_classification(60, 30, random_state=0)
    >>> model = SuquanClassifier(random_state=0).fit(X, y)
    >>> display = TargetQuantileDisplay.from_estimator(model)
    >>> list(display.other_lines_)
    ['normal', 'uniform (start)', 'exponential']
    """

    def __init__(
        self,
        target_quantiles: Any,
        *,
        fold_targets: Any = None,
        others: Mapping[str, Any] | None = None,
        name: str = "learned",
    ) -> None:
        self.target_quantiles = _vector("target_quantiles", target_quantiles)
        n_features = len(self.target_quantiles)
        self.fold_targets = None
        if fold_targets is not None:
            self.fold_targets = np.atleast_2d(np.asarray(fold_targets, dtype=np.float64))
            if self.fold_targets.shape[1] != n_features:
                raise ValueError(
                    f"fold_targets has {self.fold_targets.shape[1]} places but target_quantiles has "
                    f"{n_features}; give targets of the same features."
                )
        self.others = {
            other: make_target_quantiles(values, n_features)
            for other, values in (others or {}).items()
        }
        self.name = name

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        *,
        comparison: Comparison | None = None,
        fixed: Sequence[str] = SHOWN_TARGETS,
        ax: Any = None,
    ) -> TargetQuantileDisplay:
        """Draw the target of a fitted estimator.

        Parameters
        ----------
        estimator : estimator with `target_quantiles_`
            The initial target is drawn where it can be known without the training samples, that is for
            any `init` but "median" and "mean".
        comparison : Comparison, default=None
            Where it has learned targets of the same method and features, they make the band.
        fixed : sequence of str, default=("normal", "uniform", "exponential")
            Named targets to draw.
        ax : matplotlib Axes, default=None

        Returns
        -------
        TargetQuantileDisplay
        """
        f = _fitted_target(estimator)
        method = getattr(estimator, "method_", getattr(estimator, "method", None))
        folds = None
        if comparison is not None and isinstance(method, str) and method in comparison.targets:
            folds = comparison.targets[method]
            if folds.shape[1] != len(f):
                raise ValueError(
                    f"the comparison's targets have {folds.shape[1]} places but the estimator has "
                    f"{len(f)} features; give a comparison of the same features."
                )
        name = "learned" if method not in (None, "fixed") else "target"
        others = _with_start(_named_targets(fixed, len(f)), estimator, len(f))
        return cls(f, fold_targets=folds, others=others, name=name).plot(ax)

    @classmethod
    def from_result(
        cls,
        comparison: Comparison,
        method: str = VERDICT_METHOD,
        *,
        fixed: Sequence[str] = SHOWN_TARGETS,
        ax: Any = None,
    ) -> TargetQuantileDisplay:
        """Draw the median target that a method learned over the outer folds, and its band.

        Parameters
        ----------
        comparison : Comparison
        method : str, default="crossfit"
            One of the methods in ``comparison.targets``.
        fixed : sequence of str, default=("normal", "uniform", "exponential")
            Named targets to draw.
        ax : matplotlib Axes, default=None

        Returns
        -------
        TargetQuantileDisplay
        """
        if method not in comparison.targets:
            known = ", ".join(repr(name) for name in comparison.targets) or "none"
            raise ValueError(
                f"the comparison has no learned targets of {method!r}; it has: {known}. Compare with a "
                "method that learns its target."
            )
        folds = standardized(comparison.targets[method])
        others = _named_targets(fixed, folds.shape[1])
        return cls(np.median(folds, axis=0), fold_targets=folds, others=others, name=method).plot(
            ax
        )

    def plot(self, ax: Any = None, *, color: Any = None) -> TargetQuantileDisplay:
        """Draw on `ax`, or on a new figure.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
        color : matplotlib colour, default=None
            Of the learned target and its band.

        Returns
        -------
        TargetQuantileDisplay
        """
        self.ax_, self.figure_ = _axes(ax)
        color = COLORS["learned"] if color is None else color
        places = _drawn_places(len(self.target_quantiles))
        q = grid(len(self.target_quantiles))[places]
        self.other_lines_ = {}
        for k, (name, values) in enumerate(self.others.items()):
            self.other_lines_[name] = self.ax_.plot(
                q,
                standardized(values)[places],
                color=COLORS["fixed"],
                ls=_STYLES[k % len(_STYLES)],
                lw=1.2,
                label=_label(name),
            )[0]
        f = standardized(self.target_quantiles)
        shown = [f]
        self.band_ = None
        if self.fold_targets is not None:
            folds = standardized(self.fold_targets)
            low, high = folds.min(axis=0), folds.max(axis=0)
            shown += [low, high]
            self.band_ = self.ax_.fill_between(
                q,
                low[places],
                high[places],
                color=color,
                alpha=0.2,
                lw=0,
                label=f"{_label(self.name)}, range of {len(folds)} folds",
            )
        (self.line_,) = self.ax_.plot(q, f[places], color=color, lw=2, label=_label(self.name))
        # Heavy tails of the others must not flatten the learned target.
        low, high = np.min(shown), np.max(shown)
        margin = 0.15 * max(high - low, 1e-6)
        self.ax_.set(
            xlabel="place in the sorted sample (0 lowest, 1 highest)",
            ylabel="target quantile",
            xlim=(0, 1),
            ylim=(low - margin, high + margin),
        )
        _finish(self.ax_, legend=True)
        return self


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
        self.scores = {name: _vector(f"scores of {name!r}", v) for name, v in scores.items()}
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
    ) -> ComparisonDisplay:
        """Draw the result of :func:`suquan.compare`.

        Parameters
        ----------
        comparison : Comparison
        kind : {"box", "strip", "scatter", "difference"}, default="box"
            "box": quartiles and range of each method, and its folds as points. "strip": folds as points
            and their mean. "scatter": the folds of one method against those of another. "difference":
            mean difference of each method from `reference`, with its interval.
        methods : sequence of str, default=None
            Methods to draw; None: all, and for "scatter" ("best_fixed", "crossfit") where both are there,
            else the first two. For "scatter" the first goes to the x axis.
        reference : str, default=None
            For "difference"; None: "best_fixed" where it is there, else the first method.
        ax : matplotlib Axes, default=None

        Returns
        -------
        ComparisonDisplay
        """
        scores = scores_of(comparison)
        reference = reference_of(comparison) if reference is None else reference
        _check_known("reference", [reference], scores)
        differences = differences_from(comparison, reference)
        display = cls(
            scores, scoring=comparison.scoring, differences=differences, reference=reference
        )
        return display.plot(kind, methods=methods, ax=ax)

    def plot(
        self, kind: str = "box", *, methods: Sequence[str] | None = None, ax: Any = None
    ) -> ComparisonDisplay:
        """Draw on `ax`, or on a new figure; see :meth:`from_result`."""
        check_choice("kind", kind, _COMPARISON_KINDS)
        if methods is not None:
            _check_known("methods", methods, self.scores)
            if not len(methods):
                raise ValueError("methods must name at least one method; got none.")
        draw = getattr(self, f"_plot_{kind}")
        self.line_ = None
        if kind == "scatter":
            names = self._pair(methods)
        elif kind == "difference":
            names = [name for name in self._by_mean(methods) if name != self.reference]
            if not names or any(name not in self.differences for name in names):
                raise ValueError(
                    "kind='difference' needs the difference of at least one method from the reference; "
                    "make the display with ComparisonDisplay.from_result on two methods or more."
                )
        else:
            names = self._by_mean(methods)
        self.ax_, self.figure_ = _axes(ax, height=None if kind == "scatter" else len(names))
        self.methods_ = names
        self.artists_ = draw(names)
        _finish(self.ax_)
        return self

    def _by_mean(self, methods: Sequence[str] | None) -> list[str]:
        names = list(self.scores) if methods is None else [str(name) for name in methods]
        return sorted(names, key=lambda name: float(self.scores[name].mean()))

    def _pair(self, methods: Sequence[str] | None) -> list[str]:
        if methods is None:
            both = BEST_FIXED in self.scores and VERDICT_METHOD in self.scores
            methods = (BEST_FIXED, VERDICT_METHOD) if both else list(self.scores)[:2]
        if len(methods) != 2:
            raise ValueError(f"kind='scatter' compares two methods; got {list(methods)}.")
        return [str(name) for name in methods]

    def _plot_box(self, names: list[str]) -> dict[str, Any]:
        values = [self.scores[name] for name in names]
        boxes = self.ax_.boxplot(
            values, orientation="horizontal", widths=0.6, whis=(0, 100), patch_artist=True
        )
        for k, name in enumerate(names):
            color = COLORS[kind_of(name)]
            boxes["boxes"][k].set(facecolor=color, alpha=0.25, edgecolor=color)
            boxes["medians"][k].set(color=color, lw=2)
            for part in (*boxes["whiskers"][2 * k : 2 * k + 2], *boxes["caps"][2 * k : 2 * k + 2]):
                part.set(color=color)
        for place, name in enumerate(names, start=1):
            self._draw_folds(name, place)
        self._label_rows(names, self.scoring)
        return boxes

    def _plot_strip(self, names: list[str]) -> dict[str, Any]:
        artists = {}
        for place, name in enumerate(names, start=1):
            points = self._draw_folds(name, place, size=18, alpha=0.55)
            mean = self.scores[name].mean()
            color = COLORS[kind_of(name)]
            (line,) = self.ax_.plot([mean, mean], [place - 0.32, place + 0.32], color=color, lw=2.5)
            artists[name] = (points, line)
        self._label_rows(names, self.scoring)
        return artists

    def _plot_scatter(self, names: list[str]) -> dict[str, Any]:
        x, y = (self.scores[name] for name in names)
        color = COLORS[kind_of(names[1])]
        self.line_ = self.ax_.axline(
            (float(x.mean()), float(x.mean())), slope=1, color=COLORS["guide"], lw=1, ls="--"
        )
        points = self.ax_.scatter(x, y, s=30, color=color, alpha=0.7, lw=0, zorder=3)
        low, high = min(x.min(), y.min()), max(x.max(), y.max())
        margin = 0.08 * max(high - low, 1e-3)
        limits = (low - margin, high + margin)
        self.ax_.set(xlim=limits, ylim=limits, aspect="equal")
        self.ax_.yaxis.set_major_locator(self.ax_.xaxis.get_major_locator())
        self.ax_.set_xlabel(f"{self.scoring}, {_label(names[0])}", parse_math=False)
        self.ax_.set_ylabel(f"{self.scoring}, {_label(names[1])}", parse_math=False)
        above, below = int(np.sum(y > x)), int(np.sum(y < x))
        notes = [
            (0.03, 0.97, "left", "top", f"{_label(names[1])} higher: {above} of {len(x)}"),
            (0.97, 0.03, "right", "bottom", f"{_label(names[0])} higher: {below} of {len(x)}"),
        ]
        for left, bottom, ha, va, text in notes:
            self.ax_.text(
                left, bottom, text, ha=ha, va=va, transform=self.ax_.transAxes, parse_math=False,
                fontsize="small",
            )  # fmt: skip
        return {names[1]: points}

    def _plot_difference(self, names: list[str]) -> dict[str, Any]:
        self.line_ = self.ax_.axvline(0, color=COLORS["guide"], lw=1, ls="--")
        artists = {}
        for place, name in enumerate(names, start=1):
            color = COLORS[kind_of(name)]
            difference = self.differences[name]
            ends = np.array([difference.low, difference.high])
            line = None
            if np.all(np.isfinite(ends)):  # one fold alone has no interval
                line = self.ax_.hlines(place, *ends, color=color, lw=2, alpha=0.6)
            point = self.ax_.scatter([difference.mean], [place], s=36, color=color, lw=0, zorder=3)
            artists[name] = (point, line)
        reference = _label(self.reference or "")
        self._label_rows(names, f"difference in {self.scoring}\nfrom {reference}")
        return artists

    def _draw_folds(self, name: str, place: int, size: float = 9, alpha: float = 0.6) -> Any:
        """Folds as points, spread evenly in the order of the folds: nothing is random."""
        values = self.scores[name]
        shift = 0.36 * (grid(len(values)) - 0.5)
        color = COLORS[kind_of(name)]
        return self.ax_.scatter(
            values, place + shift, s=size, color=color, alpha=alpha, lw=0, zorder=3
        )

    def _label_rows(self, names: list[str], label: str) -> None:
        places = np.arange(1, len(names) + 1)
        self.ax_.set_yticks(places, [_label(name) for name in names], parse_math=False)
        self.ax_.set_ylim(0.4, len(names) + 0.6)
        self.ax_.set_xlabel(label, parse_math=False)
        self.ax_.tick_params(axis="y", length=0)
        self.ax_.grid(axis="x", color=COLORS["guide"], alpha=0.3, lw=0.8)
        self.ax_.set_axisbelow(True)


class NormalizedSampleDisplay:
    """Samples before and after normalisation: their distributions, or one sample as an image.

    Make it with :meth:`from_estimator`.

    Parameters
    ----------
    before, after : array-like of shape (n_samples, n_features)
    shape : tuple of int, default=None
        (height, width), or (height, width, 3) for colours: samples are images of this shape.

    Attributes
    ----------
    artists_ : list of two lists
        What was drawn before and after.
    ax_ : ndarray of two matplotlib Axes
    figure_ : matplotlib Figure

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> from suquan import QuantileNormalizer
    >>> from suquan.datasets import make_distorted_samples
    >>> from suquan.plotting import NormalizedSampleDisplay
    >>> X, _ = make_distorted_samples(10, 50, random_state=0)
    >>> display = NormalizedSampleDisplay.from_estimator(QuantileNormalizer("normal").fit(X), X)
    >>> [ax.get_title() for ax in display.ax_]
    ['before', 'after']
    """

    def __init__(self, before: Any, after: Any, *, shape: tuple[int, ...] | None = None) -> None:
        self.before = np.atleast_2d(np.asarray(before, dtype=np.float64))
        self.after = np.atleast_2d(np.asarray(after, dtype=np.float64))
        if self.before.shape != self.after.shape or self.before.ndim != 2:
            raise ValueError(
                "before and after must be the same samples in rows; got shapes "
                f"{self.before.shape} and {self.after.shape}."
            )
        if not self.before.size:
            raise ValueError(f"there is no value to draw; got shape {self.before.shape}.")
        self.shape = None if shape is None else _image_shape(shape, self.before.shape[1])

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        *,
        shape: tuple[int, ...] | None = None,
        sample: int = 0,
        kind: str = "quantiles",
        ax: Any = None,
    ) -> NormalizedSampleDisplay:
        """Normalise samples with a fitted estimator and draw them before and after.

        Parameters
        ----------
        estimator : fitted estimator with `transform`
        X : array-like of shape (n_samples, n_features)
        shape : tuple of int, default=None
            (height, width) or (height, width, 3): draw one sample as an image.
        sample : int, default=0
            Which one.
        kind : {"quantiles", "density"}, default="quantiles"
            One row per sample with its median, quartiles and 5% and 95% points; or one histogram line
            per sample. Of more than 60 samples every so-manieth is drawn.
        ax : sequence of two matplotlib Axes, default=None

        Returns
        -------
        NormalizedSampleDisplay
        """
        if not hasattr(estimator, "transform"):
            raise ValueError(
                f"{type(estimator).__name__} has no transform; give an estimator that normalises "
                "samples, such as QuantileNormalizer or SuquanClassifier."
            )
        check_is_fitted(estimator)
        return cls(X, estimator.transform(X), shape=shape).plot(kind, sample=sample, ax=ax)

    def plot(
        self, kind: str = "quantiles", *, sample: int = 0, ax: Any = None
    ) -> NormalizedSampleDisplay:
        """Draw on the two axes `ax`, or on a new figure; see :meth:`from_estimator`."""
        check_choice("kind", kind, _SAMPLE_KINDS)
        if not -len(self.before) <= sample < len(self.before):
            raise ValueError(
                f"sample must be the number of one of the {len(self.before)} samples; got {sample}."
            )
        self.ax_, self.figure_ = _two_axes(ax)
        rows = _some(len(self.before), _MAX_SAMPLES)
        if self.shape is None and kind == "quantiles":
            rows = rows[np.argsort(_quantiles(self.before[rows], [0.5])[0], kind="stable")]
        self.artists_ = []
        for axis, X, title in zip(
            self.ax_, (self.before, self.after), ("before", "after"), strict=True
        ):
            if self.shape is not None:
                drawn = [_draw_image(axis, X[sample], self.shape)]
            elif kind == "density":
                drawn = _draw_densities(axis, X[rows])
            else:
                drawn = _draw_quantiles(axis, X[rows])
            axis.set_title(title, loc="center")
            self.artists_.append(drawn)
        if self.shape is None:
            first = "density" if kind == "density" else "sample, in order of its median before"
            self.ax_[0].set_ylabel(first)
            for axis in self.ax_:
                axis.set_xlabel("value")
                _finish(axis)
        return self


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
        self.objective_history = _vector("objective_history", objective_history)
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
        from matplotlib.ticker import MaxNLocator

        self.ax_, self.figure_ = _axes(ax)
        color = COLORS["learned"] if color is None else color
        steps = np.arange(len(self.objective_history))
        (self.line_,) = self.ax_.plot(
            steps, self.objective_history, color=color, marker="o", ms=4.5, lw=1.5
        )
        self.ax_.set(
            xlabel="round" if self.crossfit else "half-step (f, then w)",
            ylabel="out-of-fold loss" if self.crossfit else "objective J",
        )
        self.ax_.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
        if len(steps) == 1:
            self.ax_.set_xlim(-0.5, 0.5)
        self.ax_.ticklabel_format(axis="y", useOffset=False)
        self.ax_.grid(axis="y", color=COLORS["guide"], alpha=0.3, lw=0.8)
        _finish(self.ax_)
        return self


def plot_comparison(comparison: Comparison, axes: Any = None) -> Any:
    """Scores of all methods, and the bands of all learned targets, side by side; see ``Comparison.plot``."""
    if axes is None:
        size = {"figsize": (10, 4.4), "width_ratios": [3, 2], "layout": "constrained"}
        _, axes = _pyplot().subplots(1, 2, **size)
    left, right = axes
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
    return left.figure


# -- reading results --------------------------------------------------------------------------------


def scores_of(comparison: Comparison) -> dict[str, np.ndarray]:
    """Scores over the outer folds, by method, in the order of the summary."""
    methods, scores = comparison.folds["method"], comparison.folds["score"]
    return {str(name): scores[methods == name] for name in comparison.summary["method"]}


def reference_of(comparison: Comparison) -> str:
    """The method that the others are compared with, known before any score is seen."""
    names = [str(name) for name in comparison.summary["method"]]
    return BEST_FIXED if BEST_FIXED in names else names[0]


def differences_from(comparison: Comparison, reference: str) -> dict[str, Difference]:
    """Differences of the other methods from the reference, by method."""
    columns = [comparison.tests[name] for name in ("difference", "low", "high", "t", "p_t")]
    return {
        str(comparison.tests["method"][k]): Difference(*(float(column[k]) for column in columns))
        for k in np.flatnonzero(comparison.tests["other"] == reference)
    }


def _fitted_target(estimator: Any) -> np.ndarray:
    if hasattr(estimator, "steps"):
        raise ValueError(
            "a pipeline has several steps; give the one with the target, such as pipeline[0]."
        )
    check_is_fitted(estimator)
    if not hasattr(estimator, "target_quantiles_"):
        raise ValueError(
            f"{type(estimator).__name__} has no target_quantiles_; give an estimator that normalises "
            "samples, such as SuquanClassifier or QuantileNormalizer."
        )
    return estimator.target_quantiles_


def _named_targets(names: Sequence[str], n_features: int) -> dict[str, np.ndarray]:
    for name in names:
        check_choice("fixed", name, tuple(NAMED))
    return {name: make_target_quantiles(name, n_features) for name in names}


def _with_start(
    others: dict[str, np.ndarray], estimator: Any, n_features: int
) -> dict[str, np.ndarray]:
    """The others with the target that learning started from, marked as such."""
    init, method = getattr(estimator, "init", None), getattr(estimator, "method", None)
    if init is None or method == "fixed" or (isinstance(init, str) and init not in NAMED):
        return others
    if isinstance(init, str) and init in others:
        return {name + (" (start)" if name == init else ""): f for name, f in others.items()}
    name = f"{init} (start)" if isinstance(init, str) else "start"
    f = make_target_quantiles(init, n_features)
    return others | {name: standardize_start(f, n_features, monotone=False)}


# -- drawing ----------------------------------------------------------------------------------------


def _vector(name: str, values: Any) -> np.ndarray:
    vector = np.asarray(values, dtype=np.float64)
    if vector.ndim != 1 or not vector.size:
        raise ValueError(f"{name} must be a vector of at least one number; got {vector.shape}.")
    return vector


def _check_known(parameter: str, names: Sequence[str], known: Mapping[str, Any]) -> None:
    for name in names:
        if name not in known:
            listed = ", ".join(repr(k) for k in known)
            raise ValueError(f"{parameter}: {name!r} was not compared; known are {listed}.")


def _pyplot() -> Any:
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError(
            "plots need matplotlib, which is not installed: pip install 'suquan[plot]'."
        ) from error
    return plt


def _axes(ax: Any, height: int | None = None) -> tuple[Any, Any]:
    """The given axes and their figure, or new ones, with room for `height` rows."""
    if ax is None:
        size = (6.4, 4.4) if height is None else (6.4, 1.2 + 0.34 * height)
        _, ax = _pyplot().subplots(figsize=size, layout="constrained")
    if not hasattr(ax, "plot"):
        raise ValueError(f"ax must be matplotlib Axes; got {ax!r}.")
    return ax, ax.figure


def _two_axes(ax: Any) -> tuple[np.ndarray, Any]:
    if ax is None:
        _, ax = _pyplot().subplots(1, 2, figsize=(8, 3.6), layout="constrained")
    axes = np.ravel(ax)
    if len(axes) != 2 or not all(hasattr(axis, "plot") for axis in axes):
        raise ValueError(f"ax must be two matplotlib Axes, before and after; got {ax!r}.")
    return axes, axes[0].figure


def _finish(ax: Any, *, legend: bool = False) -> None:
    ax.spines[["top", "right"]].set_visible(False)
    if legend:
        for text in ax.legend(frameon=False, fontsize="small").get_texts():
            text.set_parse_math(False)


def _label(name: str) -> str:
    """A name that fits beside an axis: in one line, and shortened in the middle where it is long."""
    name = " ".join(str(name).split()) or "(no name)"
    if len(name) > _LONGEST_LABEL:
        half = (_LONGEST_LABEL - 1) // 2
        name = f"{name[:half]}…{name[-half:]}"
    return name


def _some(n: int, most: int) -> np.ndarray:
    """All of n places, or `most` of them, spread evenly, with the first and the last."""
    return np.unique(np.linspace(0, n - 1, min(n, most)).round().astype(np.intp))


def _drawn_places(n_features: int) -> np.ndarray:
    ends = np.arange(min(_N_AT_ENDS, n_features))
    return np.unique(np.r_[_some(n_features, _N_PLACES), ends, n_features - 1 - ends])


def _quantiles(X: np.ndarray, q: list[float]) -> np.ndarray:
    """Quantiles of each sample over its observed values; NaN for samples without any."""
    rows = [x[~np.isnan(x)] for x in X]
    return np.array([np.quantile(x, q) if x.size else np.full(len(q), np.nan) for x in rows]).T


def _draw_quantiles(ax: Any, X: np.ndarray) -> list[Any]:
    low, first, median, third, high = _quantiles(X, [0.05, 0.25, 0.5, 0.75, 0.95])
    place = np.arange(len(X))
    color = COLORS["fixed"]
    return [
        ax.hlines(place, low, high, color=color, alpha=0.35, lw=1, label="5% to 95%"),
        ax.hlines(place, first, third, color=color, lw=1.8, label="quartiles"),
        ax.plot(median, place, "o", color=COLORS["learned"], ms=3, label="median")[0],
    ]


def _draw_densities(ax: Any, X: np.ndarray) -> list[Any]:
    """One histogram line per sample, on bins that leave out the outermost values."""
    values = X[np.isfinite(X)]
    if not values.size:
        raise ValueError("there is no finite value to draw.")
    low, high = np.quantile(values, [0.002, 0.998])
    if not high > low:
        low, high = low - 0.5, high + 0.5
    bins = np.linspace(low, high, 41)
    middles = 0.5 * (bins[1:] + bins[:-1])
    lines = []
    for x in X:
        counts = np.histogram(x[np.isfinite(x)], bins)[0]
        density = counts / (max(int(counts.sum()), 1) * np.diff(bins))
        lines += ax.plot(middles, density, color=COLORS["fixed"], alpha=0.4, lw=1)
    ax.set_ylim(bottom=0)
    return lines


def _image_shape(shape: Any, n_features: int) -> tuple[int, ...]:
    shape = tuple(int(n) for n in np.ravel(shape))
    is_image = len(shape) == 2 or (len(shape) == 3 and shape[2] == 3)
    if not is_image or int(np.prod(shape)) != n_features:
        raise ValueError(
            f"shape must be (height, width) or (height, width, 3) with {n_features} values in all, one "
            f"per feature; got {shape}."
        )
    return shape


def _draw_image(ax: Any, x: np.ndarray, shape: tuple[int, ...]) -> Any:
    image = x.reshape(shape)
    if len(shape) == 3:  # colours must lie between 0 and 1
        low, high = np.nanmin(image), np.nanmax(image)
        image = (image - low) / (high - low if high > low else 1.0)
    ax.set_axis_off()
    return ax.imshow(image, cmap="gray", interpolation="nearest")
