"""Sections on a fitted model, for `write_report` and for pages of other kinds."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from suquan.alignment import feature_weights
from suquan.comparison import Comparison
from suquan.plotting import ObjectiveDisplay, TargetQuantileDisplay
from suquan.plotting._targets import nearest_target, target_shares
from suquan.report._comparison import against
from suquan.report._page import Figure, Section, Table
from suquan.report._svg import figure_of
from suquan.report._words import TARGET_IS, listing, shape_of

N_TOP = 20
_TOLD = {
    "alpha_": "alpha",
    "smoothness_": "smoothness",
    "departure_": "part of the way from the start",
    "n_rounds_": "rounds",
    "objective_": "objective J",
    "n_targets_": "targets",
    "duality_gap_": "duality gap",
    "best_score_": "mean score in its own selection",
}


def estimator_sections(
    estimator: Any,
    *,
    comparison: Comparison | None = None,
    feature_names: Sequence[Any] | None = None,
    n_top: int = N_TOP,
    class_names: Sequence[Any] | None = None,
) -> list[Section]:
    """Tell what a fitted model is: its targets, how they were found, and its largest coefficients.

    Parameters
    ----------
    estimator : fitted estimator with `target_quantiles_`
    comparison : Comparison, default=None
        For the band of the target over folds.
    feature_names : sequence, default=None
    n_top : int, default=20
        Features shown.
    class_names : sequence, default=None
        Names of the classes, in place of the estimator's own.
    """
    check_is_fitted(estimator)
    own = getattr(estimator, "classes_", ())
    classes, targets = [str(name) for name in class_names or own], estimator.target_quantiles_
    shape = shape_of(np.atleast_2d(targets)[0])
    text = f"{TARGET_IS} That of the model fitted to all samples is {shape}."
    if targets.ndim == 2:
        text = (
            f"{TARGET_IS} The model fitted to all samples has {len(targets)} of them, and a sample is given "
            "each in turn. What a feature adds to the score is a curve over its place in the sample: the sum "
            f"of the targets, each times the feature's weight for it. The largest is {shape}."
        )
    figures, tables = _figures(estimator, comparison, shape), _tables(estimator, classes)
    parts = []
    if hasattr(estimator, "coef_"):
        parts.append(_features_section(estimator, feature_names, n_top, classes))
    return [Section("Model", paragraphs=[text], figures=figures, tables=tables, sections=parts)]


def _figures(estimator: Any, comparison: Comparison | None, shape: str) -> list[Figure]:
    """Draw the targets, and how the objective fell."""
    method, several, band = method_of(estimator), estimator.target_quantiles_.ndim == 2, ""
    if comparison is not None and method in comparison.targets:
        band = f" with the range {'of the largest ' * several}over the outer folds"
    target = figure_of(
        partial(TargetQuantileDisplay.from_estimator, estimator, comparison=comparison),
        f"Line plot of the model's target{'s' * several}{band}{against(comparison)}, all with "
        f"mean 0 and mean square 1. {'The largest' if several else 'It'} is {shape}.",
        f"Target{'s' * several} of the model fitted to all samples{band}, against fixed ones.",
    )
    history: Any = getattr(estimator, "objective_history_", ())
    if len(history) <= 2:  # two numbers are no picture
        return [target]
    what = "out-of-fold loss" if method == "crossfit" else "objective"
    objective = figure_of(
        partial(ObjectiveDisplay.from_estimator, estimator),
        f"Line plot of the {what} while the target was learned: {history[0]:.4g} at the start, "
        f"{history[-1]:.4g} at the end, after {len(history) - 1} steps.",
        f"The {what} at the start and after each step.",
    )
    return [target, objective]


def _tables(estimator: Any, classes: Sequence[str]) -> list[Table]:
    """Tell what the model is, and what its targets are where it has several."""
    facts: dict[str, Any] = {"estimator": type(estimator).__name__, "method": method_of(estimator)}
    facts |= {told: getattr(estimator, k) for k, told in _TOLD.items() if hasattr(estimator, k)}
    facts |= {"classes": classes} if classes else {}
    facts["features"] = estimator.n_features_in_
    tables = [listing("The fitted model.", facts, ("Property", "Value"))]
    rows = [
        (k, f"{share:.2%}", f"{size:.4g}", name, f"{distance:.2f}")
        for k, share, size, name, distance in target_rows(estimator)
    ]
    if rows:
        caption = (
            "The targets, the largest first; the distance has the target's own size as its unit."
        )
        columns = ("Target", "Share of the norm", "Singular value", "Nearest named", "Distance")
        tables.append(Table(caption, columns, rows, numeric=(1, 2, 4)))
    return tables


def target_rows(estimator: Any) -> list[tuple[int, float, float, str, float]]:
    """Every target's number, share of the norm, singular value, nearest named target and its distance.

    Empty for methods with one target.
    """
    shares = target_shares(estimator)
    if shares is None:
        return []
    sizes = getattr(estimator, "estimator_", estimator).singular_values_
    columns = zip(shares.tolist(), sizes.tolist(), estimator.target_quantiles_, strict=False)
    return [(k, share, size, *nearest_target(f)) for k, (share, size, f) in enumerate(columns, 1)]


def method_of(estimator: Any) -> str:
    """The method that was used, chosen or given; "fixed" where nothing is learned from labels."""
    method = getattr(estimator, "method_", getattr(estimator, "method", "fixed"))
    return method if isinstance(method, str) else type(method).__name__


def largest_weights(
    estimator: Any, n_top: int, names: Sequence[Any] | None = None
) -> list[tuple[str, list[float], float]]:
    """Name, weights and share of the sum of all |w| of the features with the largest weights.

    With several targets a weight is the sum of the absolute weights for them.
    """
    w = feature_weights(estimator)
    n_features = w.shape[1]
    if names is None:
        columns = [f"column {k}" for k in range(n_features)]
        names = getattr(estimator, "feature_names_in_", columns)
    if len(names) != n_features:
        raise ValueError(
            f"feature_names has {len(names)} names but the model has {n_features} features; give one per "
            "feature."
        )
    size = np.abs(w).sum(axis=0)
    top = np.argsort(-size, kind="stable")[: max(int(n_top), 0)]
    shares = size / (size.sum() or 1.0)
    return [(str(names[k]), w[:, k].tolist(), float(shares[k])) for k in top if size[k] > 0]


def _features_section(
    estimator: Any, names: Sequence[Any] | None, n_top: int, classes: Sequence[str]
) -> Section:
    top, w = largest_weights(estimator, n_top, names), feature_weights(estimator)
    several, single, towards = getattr(estimator, "n_targets_", 1) > 1, len(w) == 1, ""
    if several:
        towards = " With several targets a weight is the sum of the absolute weights for them."
    elif single and len(classes) == 2:
        towards = f" Positive weights speak for class {classes[1]}, negative ones for {classes[0]}."
    elif hasattr(estimator, "baseline_times_"):
        towards = " Positive weights speak for an early event."
    text = (
        f"All features are on one scale, that of the target{'s' * several}, so that their weights can be "
        f"compared.{towards} {np.count_nonzero(w.any(axis=0))} of {w.shape[1]} features have a weight other "
        f"than 0; the {len(top)} below carry {sum(share for *_, share in top):.1%} of the sum of all absolute "
        "weights."
    )
    tables, bars, sign = [], None, "" if several else "+"
    if top:
        weights = ["Weight"] if single else [f"Weight, {c}" for c in classes]
        columns = ["Feature", *weights, "Share of all"]
        rows = [(name, *(f"{v:{sign}.4g}" for v in values), f"{s:.2%}") for name, values, s in top]
        if single:
            largest = max(abs(values[0]) for _, values, _ in top)
            bars = [values[0] / largest for _, values, _ in top]
        caption = f"The {len(top)} largest of {w.shape[1]} weights."
        tables = [Table(caption, columns, rows, numeric=range(1, len(columns)), bars=bars)]
    return Section("Features with the largest weights", paragraphs=[text], tables=tables)
