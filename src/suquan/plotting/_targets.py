"""Pictures of what was learned: the targets, against fixed ones and the start, and how the objective fell."""

from collections.abc import Mapping, Sequence
from itertools import cycle
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from suquan._validation import check_choice
from suquan.comparison import VERDICT_METHOD, Comparison
from suquan.methods import METHODS, resolve_method
from suquan.plotting._axes import (
    COLORS,
    finish,
    label,
    label_ends,
    limits,
    make_axes,
    spread_places,
    vector,
)
from suquan.targets import NAMED, grid, make_target_quantiles

SHOWN_TARGETS = ("normal", "uniform", "exponential")
STYLES = ("--", ":", "-.", (0, (5, 1, 1, 1, 1, 1)), (0, (1, 3)), (0, (8, 3)))
# Enough places of a long target to draw it, and those at its ends, where it is steep.
_N_PLACES, _N_AT_ENDS = 500, 30
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
        Targets of several folds; their lowest and highest value at each place make the band. Of several targets
        it is that of the first.
    others : mapping of names to arrays of shape (n_features,), default=None
        Targets to compare with.
    name : str, default="learned"
        Name of the learned target.
    shares : array-like of shape (n_targets,), default=None
        Share of the norm that each of several targets carries, for the labels at the ends of their lines.

    Attributes
    ----------
    line_ : matplotlib Line2D
        The learned target, the first of several.
    lines_ : list of Line2D
        All learned targets.
    labels_ : list of matplotlib Text
        Labels of several targets; empty for one.
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
        shares: Any = None,
    ) -> None:
        f = np.asarray(target_quantiles, dtype=np.float64)
        self.target_quantiles = f if f.ndim == 2 and f.size else vector("target_quantiles", f)
        n_features = self.target_quantiles.shape[-1]
        self.shares = None if shares is None else vector("shares", shares)
        if self.shares is not None and len(self.shares) != len(np.atleast_2d(f)):
            raise ValueError(
                f"there are {len(self.shares)} shares for {len(np.atleast_2d(f))} targets; give one for each."
            )
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

        Returns
        -------
        TargetQuantileDisplay
        """
        f = fitted_target(estimator)
        method = getattr(estimator, "method_", getattr(estimator, "method", None))
        folds = None
        if comparison is not None and isinstance(method, str) and method in comparison.targets:
            folds = comparison.targets[method]
            if folds.shape[1] != f.shape[-1]:
                raise ValueError(
                    f"the comparison's targets have {folds.shape[1]} places but the estimator has "
                    f"{f.shape[-1]} features; give a comparison of the same features."
                )
        name = "target"
        if method not in (None, "fixed"):
            name = "learned" if comparison is None else f"{method}, all samples"
        fixed = shown_targets(comparison) if fixed is None else fixed
        others, shares = (
            _other_targets(fixed, f.shape[-1], _init_of(estimator)),
            target_shares(estimator),
        )
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
        f, init = np.median(folds, axis=0), comparison.initial_target
        nearest, distance = ("", 1.0) if init is None else nearest_target(init)
        fixed = shown_targets(comparison) if fixed is None else fixed
        others = _other_targets(fixed, folds.shape[1], nearest if distance < _SAME else init)
        several = method in METHODS and METHODS[method].norm is not None
        name = f"{method}, {'largest, ' * several}median of folds"
        return cls(f, fold_targets=folds, others=others, name=name).plot(ax)

    def plot(self, ax: Any = None, *, color: Any = None) -> Self:
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
            low, high = folds.min(axis=0), folds.max(axis=0)
            told = f"{'target 1, ' * several}range of {len(folds)} folds"
            look = {"color": color, "alpha": 0.2, "lw": 0, "label": told}
            self.band_ = self.ax_.fill_between(q, low[places], high[places], **look)
        shares = np.ones(len(targets)) if self.shares is None else self.shares
        strength = np.sqrt(shares / (shares.max() or 1.0))  # small targets are drawn thin and pale
        self.lines_ = [
            self.ax_.plot(q, f[places], color=color, lw=0.8 + 1.2 * s, alpha=0.25 + 0.75 * s)[0]
            for f, s in zip(targets, strength.tolist(), strict=True)
        ]
        self.line_ = self.lines_[0]
        told = ", with shares of the norm" if self.shares is not None else ""
        self.line_.set_label(label(self.name) + told)
        # Heavy tails of the others must not flatten the learned target.
        self.ax_.set(xlabel="place in the sorted sample", ylabel="target quantile")
        self.ax_.set(xlim=(0, 1), ylim=limits(0.15, 1e-6, targets, folds))
        names = [f"target {k}" for k in range(1, len(targets) + 1)]
        if self.shares is not None:
            names = [f"{name}: {share:.1%}" for name, share in zip(names, self.shares, strict=True)]
        self.labels_ = label_ends(self.ax_, self.lines_, names) if several else []
        finish(self.ax_, legend=True)
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
        self.objective_history = vector("objective_history", objective_history)
        self.crossfit = crossfit

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Any = None) -> Self:
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
        crossfit = method == "crossfit" and model.n_rounds_ > 0
        return cls(model.objective_history_, crossfit=crossfit).plot(ax)

    def plot(self, ax: Any = None, *, color: Any = None) -> Self:
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
        look = {"color": color, "marker": "o", "ms": 4.5, "lw": 1.5}
        (self.line_,) = self.ax_.plot(steps, self.objective_history, **look)
        names = ("half-step (f, then w)", "objective J")
        xlabel, ylabel = ("round", "out-of-fold loss") if self.crossfit else names
        self.ax_.set(xlabel=xlabel, ylabel=ylabel)
        self.ax_.xaxis.get_major_locator().set_params(integer=True, min_n_ticks=1)
        if len(steps) == 1:
            self.ax_.set_xlim(-0.5, 0.5)
        self.ax_.ticklabel_format(axis="y", useOffset=False)
        self.ax_.grid(axis="y", color=COLORS["guide"], alpha=0.3, lw=0.8)
        finish(self.ax_)
        return self


def shown_places(n_features: int) -> np.ndarray:
    """Places of a target that are drawn."""
    ends = np.arange(min(_N_AT_ENDS, n_features))
    return np.unique(np.r_[spread_places(n_features, _N_PLACES), ends, n_features - 1 - ends])


def standardized(f: Any) -> np.ndarray:
    """Target of mean 0 and mean square 1, along the last axis: models do not see the rest of its scale."""
    f = np.asarray(f, dtype=np.float64)
    f = f - f.mean(axis=-1, keepdims=True)
    rms = np.sqrt(np.mean(f**2, axis=-1, keepdims=True))
    return f / np.where(rms > 0, rms, 1.0)


def nearest_target(f: Any) -> tuple[str, float]:
    """Named target that is nearest, and its root mean square distance, both standardised."""
    named = {name: standardized(make_target_quantiles(name, len(f))) for name in NAMED}
    distance = {k: float(np.sqrt(np.mean((standardized(f) - g) ** 2))) for k, g in named.items()}
    return min(distance.items(), key=lambda item: item[1])


def target_shares(estimator: Any) -> np.ndarray | None:
    """Share of the norm that each target of a model carries; None for methods with one target.

    It is that of the trace norm for "multi" and of the squared Frobenius norm for "matrix", which does not show
    its smallest targets.
    """
    if np.ndim(estimator.target_quantiles_) == 1:
        return None
    model = getattr(estimator, "estimator_", getattr(estimator, "best_estimator_", estimator))
    sizes = model.singular_values_ ** (1 if resolve_method(model.method).norm == "trace" else 2)
    return sizes[: len(estimator.target_quantiles_)] / (sizes.sum() or 1.0)


def fitted_target(estimator: Any) -> np.ndarray:
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
        return SHOWN_TARGETS
    return tuple(str(name) for name in comparison.summary["method"] if str(name) in NAMED)


def _init_of(estimator: Any) -> Any:
    """Initial target of an estimator, or None where there is none, or only the training samples tell it."""
    init, method = getattr(estimator, "init", None), getattr(estimator, "method", None)
    is_unknown = isinstance(init, str) and init not in NAMED
    return None if method in ("fixed", "matrix") or is_unknown else init


def _other_targets(
    fixed: Sequence[str], n_features: int, init: Any = None
) -> dict[str, np.ndarray]:
    """Named targets, and the initial one, marked as such."""
    for name in fixed:
        check_choice("fixed", name, tuple(NAMED))
    others = {name: make_target_quantiles(name, n_features) for name in fixed}
    if init is None:
        return others
    if isinstance(init, str) and init in others:
        return {name + (" (start)" if name == init else ""): f for name, f in others.items()}
    name = f"{init} (start)" if isinstance(init, str) else "start"
    return others | {name: make_target_quantiles(init, n_features)}
