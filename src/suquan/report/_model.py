"""Sections on a fitted model, for `write_report` and for pages of other kinds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from suquan.comparison import Comparison
from suquan.plotting import ObjectiveDisplay, TargetQuantileDisplay
from suquan.plotting._targets import SHOWN_TARGETS, standardized
from suquan.report._page import Figure, Section, Table
from suquan.report._svg import figure_of
from suquan.report._words import WHAT_A_TARGET_IS, listed, listing, shape_of

N_TOP = 20


def estimator_sections(
    estimator: Any,
    *,
    comparison: Comparison | None = None,
    feature_names: Sequence[Any] | None = None,
    n_top: int = N_TOP,
) -> list[Section]:
    """What a fitted model is: its target, how it was found, and its largest coefficients.

    Parameters
    ----------
    estimator : fitted estimator with `target_quantiles_`
    comparison : Comparison, default=None
        For the band of the target over folds.
    feature_names : sequence, default=None
    n_top : int, default=20
        Features shown.

    Returns
    -------
    list of Section
    """
    check_is_fitted(estimator)
    f = standardized(estimator.target_quantiles_)
    method = method_of(estimator)
    has_band = comparison is not None and method in comparison.targets
    band = " with the range over the outer folds" if has_band else ""
    shape = shape_of(f)
    figures = [
        figure_of(
            lambda ax: TargetQuantileDisplay.from_estimator(
                estimator, comparison=comparison, ax=ax
            ),
            f"Line plot of the model's target{band}, against {listed(SHOWN_TARGETS)}, all with mean 0 and "
            f"mean square 1. It is {shape}.",
            f"Target of the model fitted to all samples{band}, against fixed ones.",
        )
    ]
    history = np.asarray(getattr(estimator, "objective_history_", ()))
    if len(history) > 2:  # two numbers are no picture
        figures.append(_objective_figure(estimator, history, method))
    parts = []
    if hasattr(estimator, "coef_"):
        parts.append(_features_section(estimator, feature_names, n_top))
    paragraph = f"{WHAT_A_TARGET_IS} That of the model fitted to all samples is {shape}."
    tables = [_model_table(estimator, method)]
    return [
        Section("Model", paragraphs=[paragraph], figures=figures, tables=tables, sections=parts)
    ]


def method_of(estimator: Any) -> str:
    """The method that was used, chosen or given; "fixed" where nothing is learned from labels."""
    method = getattr(estimator, "method_", getattr(estimator, "method", "fixed"))
    return method if isinstance(method, str) else type(method).__name__


def _objective_figure(estimator: Any, history: np.ndarray, method: str) -> Figure:
    what = "out-of-fold loss" if method == "crossfit" else "objective"
    return figure_of(
        lambda ax: ObjectiveDisplay.from_estimator(estimator, ax=ax),
        f"Line plot of the {what} while the target was learned: {history[0]:.4g} at the start, "
        f"{history[-1]:.4g} at the end, after {len(history) - 1} steps.",
        f"The {what} at the start and after each step.",
    )


def _model_table(estimator: Any, method: str) -> Table:
    values: dict[str, Any] = {"estimator": type(estimator).__name__, "method": method}
    names = {
        "alpha_": "alpha",
        "smoothness_": "smoothness",
        "n_rounds_": "rounds",
        "objective_": "objective J",
        "best_score_": "mean score in its own selection",
    }
    values |= {
        label: getattr(estimator, name) for name, label in names.items() if hasattr(estimator, name)
    }
    if hasattr(estimator, "classes_"):
        values["classes"] = list(estimator.classes_)
    values["features"] = len(estimator.target_quantiles_)
    return listing("The fitted model.", values, ("Property", "Value"))


def _features_section(estimator: Any, names: Sequence[Any] | None, n_top: int) -> Section:
    w = np.atleast_2d(estimator.coef_)
    n_features = w.shape[1]
    if names is None:
        names = getattr(estimator, "feature_names_in_", None)
    if names is None:
        names = [f"column {k}" for k in range(n_features)]
    if len(names) != n_features:
        raise ValueError(
            f"feature_names has {len(names)} names but the model has {n_features} features; give one per "
            "feature."
        )
    size = np.abs(w).sum(axis=0)
    total = float(size.sum())
    top = np.argsort(-size, kind="stable")[: max(int(n_top), 0)]
    top = top[size[top] > 0]
    share = float(size[top].sum()) / total if total else 0.0
    classes = [str(c) for c in getattr(estimator, "classes_", ())]
    single = len(w) == 1
    weights = ["Weight"] if single else [f"Weight, {c}" for c in classes]
    columns = ["Feature", *weights, "Share of all"]
    rows = [
        (names[k], *(f"{value:+.4g}" for value in w[:, k]), f"{size[k] / total:.2%}") for k in top
    ]
    towards = ""
    if single and len(classes) == 2:
        towards = f" Positive weights speak for class {classes[1]}, negative ones for {classes[0]}."
    text = (
        f"All features are on one scale, that of the target, so that their weights can be compared."
        f"{towards} {np.count_nonzero(size)} of {n_features} features have a weight other than 0; the "
        f"{len(top)} below carry {share:.1%} of the sum of all absolute weights."
    )
    tables = []
    if len(top):
        bars = list(w[0, top] / np.abs(w[0, top]).max()) if single else None
        caption = f"The {len(top)} largest of {n_features} weights."
        tables.append(Table(caption, columns, rows, numeric=range(1, len(columns)), bars=bars))
    return Section("Features with the largest weights", paragraphs=[text], tables=tables)
