"""Pictures of what was learned: a fitted estimator in; its targets, curves of features and objective out."""

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from itertools import cycle
from numbers import Integral
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from suquan._validation import check_choice
from suquan.comparison import VERDICT_METHOD, Comparison
from suquan.methods import METHODS, resolve_method
from suquan.plotting._axes import (
    COLORS,
    STYLES,
    finish,
    label,
    label_ends,
    limits,
    make_axes,
    shown_places,
    vector,
)
from suquan.targets import NAMED, grid, make_target_quantiles

# Root mean square distance below which a target read at knots is the named one.
_SAME = 0.01


class TargetQuantileDisplay:
    """Learned targets against fixed ones and the one they started from, with a band over folds.

    All are drawn with mean 0 and mean square 1, since the model makes up for any other scale. Make it with
    :meth:`from_estimator` or :meth:`from_result`.

    Parameters
    ----------
    target_quantiles : array-like of shape (n_features,) or (n_targets, n_features)
        The learned target, or several, the largest first.
    fold_targets : array-like of shape (n_folds, n_features), default=None
        Targets of several folds, for the band from the lowest to the highest value at each place; of several
        targets those of the first.
    others : mapping of names to arrays of shape (n_features,), default=None
        Targets to compare with.
    name : str, default="learned"
        Name of the learned target.
    shares : array-like of shape (n_targets,), default=None
        Share of the norm that each of several targets carries, for the labels at the ends of their lines.

    Attributes
    ----------
    line_, lines_ : matplotlib Line2D and list of them
        The learned target, the first of several; and all.
    labels_ : list of matplotlib Text
        Labels of several targets; empty for one.
    other_lines_ : dict of Line2D
        The others, by name.
    band_ : matplotlib FillBetweenPolyCollection or None
    ax_, figure_ : matplotlib Axes and Figure

    Examples
    --------
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
        shares: Any = None,
    ) -> None:
        f = np.asarray(target_quantiles, dtype=np.float64)
        self.target_quantiles = f if f.ndim == 2 and f.size else vector("target_quantiles", f)
        n_targets, n_features = np.atleast_2d(f).shape
        self.shares = None if shares is None else vector("shares", shares)
        if self.shares is not None and len(self.shares) != n_targets:
            raise ValueError(
                f"there are {len(self.shares)} shares for {n_targets} targets; give one for each."
            )
        self.fold_targets = None
        if fold_targets is not None:
            self.fold_targets = np.atleast_2d(np.asarray(fold_targets, dtype=np.float64))
            if self.fold_targets.shape[1] != n_features:
                raise ValueError(
                    f"fold_targets has {self.fold_targets.shape[1]} places but target_quantiles has "
                    f"{n_features}; give targets of the same features."
                )
        others = others or {}
        self.others = {k: make_target_quantiles(g, n_features) for k, g in others.items()}
        self.name = name

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        *,
        comparison: Comparison | None = None,
        fixed: Sequence[str] | None = None,
        ax: Any = None,
    ) -> Self:
        """Draw the target of a fitted estimator; several with their shares of the norm.

        Parameters
        ----------
        estimator : estimator with `target_quantiles_`
            The initial target is drawn where it can be known without the training samples, that is for
            any `init` but "median" and "mean".
        comparison : Comparison, default=None
            Where it has learned targets of the same method and features, they make the band.
        fixed : sequence of str, default=None
            Named targets to draw. None: those that were compared, or without a comparison "normal",
            "uniform" and "exponential".
        ax : matplotlib Axes, default=None
        """
        f = fitted_target(estimator)
        method = getattr(estimator, "method_", getattr(estimator, "method", "fixed"))
        folds, name = None, "target" if method == "fixed" else "learned"
        if comparison is not None and isinstance(method, str):
            name = "target" if method == "fixed" else f"{method}, all samples"
            folds = comparison.targets.get(method)
            if folds is not None and folds.shape[1] != f.shape[-1]:
                raise ValueError(
                    f"the comparison's targets have {folds.shape[1]} places but the estimator has "
                    f"{f.shape[-1]} features; give a comparison of the same features."
                )
        init = None if method in ("fixed", "matrix") else getattr(estimator, "init", None)
        if isinstance(init, str) and init not in NAMED:
            init = None
        fixed = shown_targets(comparison) if fixed is None else fixed
        others = _other_targets(fixed, f.shape[-1], init)
        shares = target_shares(estimator)
        return cls(f, fold_targets=folds, others=others, name=name, shares=shares).plot(ax)

    @classmethod
    def from_result(
        cls,
        comparison: Comparison,
        method: str = VERDICT_METHOD,
        *,
        fixed: Sequence[str] | None = None,
        ax: Any = None,
    ) -> Self:
        """Draw the median target that a method learned over the outer folds, and its band.

        Of a method with several targets a comparison keeps the largest of each fold.

        Parameters
        ----------
        comparison : Comparison
        method : str, default="crossfit"
            One of the methods in ``comparison.targets``.
        fixed : sequence of str, default=None
            Named targets to draw. None: those that were compared. The initial target is always drawn.
        ax : matplotlib Axes, default=None
        """
        if method not in comparison.targets:
            known = ", ".join(repr(name) for name in comparison.targets) or "none"
            raise ValueError(
                f"the comparison has no learned targets of {method!r}; it has: {known}. Compare with a "
                "method that learns its target."
            )
        folds = standardized(comparison.targets[method])
        fixed = shown_targets(comparison) if fixed is None else fixed
        others = _other_targets(fixed, folds.shape[1], comparison.initial_target)
        several = method in METHODS and METHODS[method].norm is not None
        name = f"{method}, {'largest, ' * several}median of folds"
        return cls(np.median(folds, axis=0), fold_targets=folds, others=others, name=name).plot(ax)

    def plot(self, ax: Any = None, *, color: Any = None) -> Self:
        """Draw on `ax`, or on a new figure, the learned target and its band in a matplotlib colour."""
        self.ax_, self.figure_ = make_axes(ax)
        color = COLORS["learned"] if color is None else color
        targets = standardized(np.atleast_2d(self.target_quantiles))
        several, n = self.target_quantiles.ndim == 2, targets.shape[1]
        places = shown_places(n)
        q = grid(n)[places]
        self.other_lines_ = {}
        for (name, values), style in zip(self.others.items(), cycle(STYLES), strict=False):
            look = {"color": COLORS["fixed"], "ls": style, "lw": 1.2, "label": label(name)}
            (self.other_lines_[name],) = self.ax_.plot(q, standardized(values)[places], **look)
        folds, self.band_ = targets, None
        if self.fold_targets is not None:
            folds = standardized(self.fold_targets)
            low, high = folds.min(axis=0)[places], folds.max(axis=0)[places]
            told = f"{'target 1, ' * several}range of {len(folds)} folds"
            self.band_ = self.ax_.fill_between(
                q, low, high, color=color, alpha=0.2, lw=0, label=told
            )
        names, shares = [f"target {k}" for k in range(1, len(targets) + 1)], self.shares
        strength, told = np.ones(len(targets)), ""
        if shares is not None:  # small targets are drawn thin and pale
            strength, told = np.sqrt(shares / (shares.max() or 1.0)), ", with shares of the norm"
            names = [f"{name}: {share:.1%}" for name, share in zip(names, shares, strict=True)]
        self.lines_ = [
            self.ax_.plot(q, f[places], color=color, lw=0.8 + 1.2 * s, alpha=0.25 + 0.75 * s)[0]
            for f, s in zip(targets, strength.tolist(), strict=True)
        ]
        self.line_ = self.lines_[0]
        self.line_.set_label(label(self.name) + told)
        self.ax_.set(xlabel="place in the sorted sample", ylabel="target quantile", xlim=(0, 1))
        # Heavy tails of the others must not flatten the learned target.
        self.ax_.set_ylim(limits(0.15, 1e-6, targets, folds))
        self.labels_ = label_ends(self.ax_, self.lines_, names) if several else []
        finish(self.ax_, legend=True)
        return self


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

    def plot(self, ax: Any = None, *, color: Any = None) -> Self:
        """Draw on `ax`, or on a new figure, in a matplotlib colour."""
        self.ax_, self.figure_ = make_axes(ax)
        color = COLORS["learned"] if color is None else color
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
        self.ax_.set_title(label(self.feature), loc="left", parse_math=False)
        self.ax_.set(xlabel="place in the sorted sample", ylabel=f"added to the score{towards}")
        finish(self.ax_)
        return self


class ObjectiveDisplay:
    """How the objective fell while the target was learned; :meth:`from_estimator` makes it.

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
    ax_, figure_ : matplotlib Axes and Figure

    Examples
    --------
    >>> from suquan.plotting import ObjectiveDisplay
    >>> ObjectiveDisplay([0.6, 0.5, 0.48]).plot().ax_.get_xlabel()
    'half-step (f, then w)'
    """

    def __init__(self, objective_history: Any, *, crossfit: bool = False) -> None:
        self.objective_history = vector("objective_history", objective_history)
        self.crossfit = crossfit

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Any = None) -> Self:
        """Draw the history of a fitted estimator that learns its target, on matplotlib Axes or new ones."""
        check_is_fitted(estimator)
        model = getattr(estimator, "estimator_", estimator)
        if not hasattr(model, "objective_history_"):
            raise ValueError(
                f"{type(estimator).__name__} has no objective_history_; give an estimator that learns "
                "its target, such as SuquanClassifier."
            )
        method = getattr(model, "method_", model.method)
        crossfit = method == "crossfit" and model.n_rounds_ > 0
        return cls(model.objective_history_, crossfit=crossfit).plot(ax)

    def plot(self, ax: Any = None, *, color: Any = None) -> Self:
        """Draw on `ax`, or on a new figure, in a matplotlib colour."""
        self.ax_, self.figure_ = make_axes(ax)
        color = COLORS["learned"] if color is None else color
        J = self.objective_history
        (self.line_,) = self.ax_.plot(J, color=color, marker="o", ms=4.5, lw=1.5)
        names = ("half-step (f, then w)", "objective J")
        xlabel, ylabel = ("round", "out-of-fold loss") if self.crossfit else names
        self.ax_.set(xlabel=xlabel, ylabel=ylabel)
        self.ax_.xaxis.get_major_locator().set_params(integer=True, min_n_ticks=1)
        if len(J) == 1:
            self.ax_.set_xlim(-0.5, 0.5)
        self.ax_.ticklabel_format(axis="y", useOffset=False)
        self.ax_.grid(axis="y", color=COLORS["guide"], alpha=0.3, lw=0.8)
        finish(self.ax_)
        return self


def standardized(f: Any) -> np.ndarray:
    """Give a target mean 0 and mean square 1, along the last axis: models do not see the rest of its scale."""
    f = np.asarray(f, dtype=np.float64)
    f = f - f.mean(axis=-1, keepdims=True)
    rms = np.sqrt(np.mean(f**2, axis=-1, keepdims=True))
    return f / np.where(rms > 0, rms, 1.0)


def nearest_target(f: Any) -> tuple[str, float]:
    """Find the named target that is nearest, and its root mean square distance, both standardised."""
    named = {name: standardized(make_target_quantiles(name, len(f))) for name in NAMED}
    distance = {k: float(np.sqrt(np.mean((standardized(f) - g) ** 2))) for k, g in named.items()}
    return min(distance.items(), key=lambda item: item[1])


def target_shares(estimator: Any) -> np.ndarray | None:
    """Return the share of the norm that each target of a model carries; None for methods with one target.

    It is that of the trace norm for "multi" and of the squared Frobenius norm for "matrix", which does not show
    its smallest targets.
    """
    if np.ndim(estimator.target_quantiles_) == 1:
        return None
    model = getattr(estimator, "estimator_", getattr(estimator, "best_estimator_", estimator))
    sizes = model.singular_values_ ** (1 if resolve_method(model.method).norm == "trace" else 2)
    return sizes[: len(estimator.target_quantiles_)] / (sizes.sum() or 1.0)


def fitted_target(estimator: Any) -> np.ndarray:
    """Return the targets of an estimator, or refuse one that has none."""
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


def shown_targets(comparison: Comparison | None) -> tuple[str, ...]:
    """Name the targets to draw beside a learned one: those that were compared."""
    if comparison is None:
        return "normal", "uniform", "exponential"
    return tuple(str(name) for name in comparison.summary["method"] if str(name) in NAMED)


def _other_targets(fixed: Sequence[str], n: int, init: Any = None) -> dict[str, np.ndarray]:
    """Make named targets of n values, and the initial one, marked as such."""
    for name in fixed:
        check_choice("fixed", name, tuple(NAMED))
    others = {name: make_target_quantiles(name, n) for name in fixed}
    if init is None:
        return others
    start = make_target_quantiles(init, n)
    nearest, distance = nearest_target(start)
    name = init if isinstance(init, str) else nearest if distance < _SAME else ""
    told = f"{name} (start)" if name else "start"
    if name in others:
        return {told if k == name else k: f for k, f in others.items()}
    return others | {told: start}


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
