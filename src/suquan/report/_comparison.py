"""Sections on the result of a comparison, for `write_report` and for pages of other kinds."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from suquan.comparison import BEST_FIXED, START, VERDICT_METHOD, Comparison
from suquan.plotting import ComparisonDisplay, RiskGroupDisplay, TargetQuantileDisplay
from suquan.plotting._axes import COLORS, finish
from suquan.plotting._comparison import differences_from, kind_of, reference_of, scores_of
from suquan.plotting._risk_groups import risk_table
from suquan.plotting._targets import shown_targets, standardized
from suquan.report._page import Figure, Section, Table, Verdict
from suquan.report._probabilities import cohort_section, probability_section
from suquan.report._svg import figure_of
from suquan.report._words import (
    TARGET_IS,
    interval,
    listed,
    p_text,
    score,
    shape_of,
    signed,
    spread,
)

_MEANINGS = {
    "raw": "samples as they are",
    START: "the initial target: the learned method with nothing learned",
    BEST_FIXED: "the best of raw, fixed targets and start by the inner folds",
    "median": "median of the sorted samples",
    "mean": "mean of the sorted samples",
    "normal": "normal distribution",
    "uniform": "uniform distribution",
    "exponential": "exponential distribution",
    "cauchy": "Cauchy distribution",
    "svd": "learned from the classes' mean ranks",
    "f0": "learned, any order",
    "bnd": "learned, increasing",
    "spav": "learned, increasing and smooth",
    "joint": "learned, increasing and smooth, more rounds",
    "crossfit": "learned with models that have not seen the sample",
    "matrix": "one curve per feature, of a small norm",
    "multi": "several targets, learned together",
    "forest": "extra trees on the uniform target's values",
    "forest_raw": "extra trees on the values",
}
_SCORES = {
    "roc_auc": "the probability that a sample of the second class gets a higher score than one of the "
    "first: 0.5 is chance, 1 is perfect",
    "roc_auc_ovr": "the area under the ROC curve of each class against the rest, averaged: 0.5 is chance, 1 is "
    "perfect",
    "accuracy": "the share of samples that are classified correctly",
    "balanced_accuracy": "the share of samples that are classified correctly, averaged over the classes",
    "concordance": "Harrell's: the share of comparable pairs of samples in which the one of higher risk has "
    "the earlier event (within strata): 0.5 is chance, 1 is perfect",
    "r2": "the share of the variance that is explained: 1 is perfect, 0 is no better than the mean",
    "neg_log_loss": "minus the logistic loss: higher is better",
    "neg_mean_squared_error": "minus the mean squared error: higher is better",
    "neg_mean_absolute_error": "minus the mean absolute error: higher is better",
    "neg_mean_poisson_deviance": "minus the mean Poisson deviance: higher is better",
}


def comparison_sections(
    comparison: Comparison, *, with_target: bool = True, class_names: Sequence[str] | None = None
) -> list[Section]:
    """Verdict, cohorts, scores, probabilities, learned target and shuffled labels, each a :class:`Section`.

    Parameters
    ----------
    comparison : Comparison
    with_target : bool, default=True
        Whether the target learned in the folds gets its section.
    class_names : sequence of str, default=None
        Names of the classes in their order.

    Returns
    -------
    list of Section
    """
    sections = [_verdict_section(comparison, class_names), _scores_section(comparison)]
    if comparison.cohorts:
        sections.insert(1, cohort_section(comparison))
    if "log_loss" in comparison.summary:
        sections.append(probability_section(comparison))
    if comparison.risk_groups is not None:
        sections.append(_risk_section(comparison))
    if with_target and comparison.targets:
        sections.append(_targets_section(comparison))
    if comparison.permutations:
        sections.append(_permutation_section(comparison))
    return sections


def _verdict_section(comparison: Comparison, class_names: Sequence[str] | None) -> Section:
    headline, _, rest = comparison.verdict.partition(": ")
    tone, numbers, reading = "neutral", [], []
    if comparison.scoring in _SCORES:
        meaning = _SCORES[comparison.scoring]
        if class_names is not None and len(class_names) == 2:
            meaning = meaning.replace("the second class", f"class {class_names[1]}")
            meaning = meaning.replace("one of the first:", f"one of class {class_names[0]}:")
        reading.append(f"{comparison.scoring} is {meaning}.")
    contrast = comparison.contrast
    if contrast is not None:
        tone = "good" if contrast.low > 0 else "bad" if contrast.high < 0 else "neutral"
        means, learned = means_of(comparison), str(comparison.contrasts["method"][0])
        numbers = [
            (f"{comparison.scoring}, learned target", score(means[learned])),
            (f"{comparison.scoring}, initial target", score(means[START])),
            ("difference", signed(contrast.mean)),
            ("95% interval", interval(contrast.low, contrast.high)),
        ]
        reading.append(
            f"Two contrasts were fixed before any score was seen: {learned!r} minus {START!r}, the same method "
            f"with nothing learned, and {learned!r} minus {BEST_FIXED!r}, which takes the best of raw, the "
            "fixed targets and the start by the inner folds of each outer fold. Intervals allow for the "
            "overlap of the training sets (Nadeau and Bengio); those of all other methods that are named as "
            "better also for the number of these methods (Holm)."
        )
    verdict = Verdict(tone, headline, rest[:1].upper() + rest[1:], numbers)
    return Section("Verdict", verdict=verdict, paragraphs=[" ".join(reading)])


def _risk_section(comparison: Comparison) -> Section:
    """Kaplan-Meier curves of thirds of the out-of-fold risk, and numbers at risk."""
    groups = comparison.risk_groups
    assert groups is not None
    columns, rows = risk_table(groups)
    told = "; ".join(f"{row[0]}: {row[1]} samples, {row[-1]} events" for row in rows)
    text = (
        "Each sample is put in the low, middle or high third of its test fold, by the risk that "
        f"{VERDICT_METHOD!r} gives it in the first repeat; the model has not seen it. If risk said nothing, a "
        f"trend at least as strong would come with probability p = {p_text(groups.p_value)} (one-sided; "
        f"{groups.n_permutations} permutations of the thirds within folds and strata)."
    )
    curves = figure_of(
        partial(RiskGroupDisplay.from_result, comparison),
        f"Kaplan-Meier curves of three groups of out-of-fold risk. {told}.",
        "Share free of the event over time, by thirds of out-of-fold risk (Kaplan and Meier); crosses are "
        "censored samples.",
    )
    caption = "Numbers at risk at these times, and events in all."
    table = Table(caption, columns, rows, numeric=range(1, len(columns)))
    return Section("Groups of risk", paragraphs=[text], figures=[curves], tables=[table])


def _scores_section(comparison: Comparison) -> Section:
    scores = scores_of(comparison)
    details = [_choices_table(comparison)]
    if len(scores) > 2:
        details.append(_pairs_table(comparison))
    figures = _score_figures(comparison, scores)
    parts = [Section("Fold by fold", figures=figures), Section("Details", tables=details)]
    return Section("Scores of all methods", tables=[_scores_table(comparison)], sections=parts)


def _score_figures(comparison: Comparison, scores: dict[str, np.ndarray]) -> list[Figure]:
    """Scores of every method; with several, differences from the reference, and two methods fold by fold."""
    scoring, n_folds = comparison.scoring, n_folds_of(comparison)
    plot = partial(ComparisonDisplay.from_result, comparison)
    told = "; ".join(
        f"{name} mean {score(values.mean())}, {score(values.min())} to {score(values.max())}"
        for name, values in sorted(scores.items(), key=lambda item: -item[1].mean())
    )
    box = figure_of(
        partial(plot, "box"),
        f"Box plot of {scoring} over {n_folds} outer folds, one row per method. From the highest mean: {told}.",
        f"{scoring} over the {n_folds} outer folds: median, quartiles, range and single folds. "
        "Red: learned targets; blue: fixed ones; grey: others.",
        height=0.9 + 0.27 * len(scores),
    )
    if len(scores) == 1:
        return [box]
    first = reference_of(comparison)
    rows = differences_from(comparison, first)
    told = "; ".join(
        f"{name} {signed(row.mean)} ({interval(row.low, row.high)})" for name, row in rows.items()
    )
    caption = f"Mean difference from {first}, with its 95% interval. Where it holds 0, no difference is shown."
    if comparison.cohorts:
        caption = f"Mean difference from {first} over the cohorts, which are no random folds: no interval."
    difference = figure_of(
        partial(plot, "difference"),
        f"Mean difference in {scoring} of each method from {first}, with 95% intervals: {told}.",
        caption,
        height=0.9 + 0.27 * len(rows),
    )
    others = [name for name in scores if name != first]
    second = VERDICT_METHOD if VERDICT_METHOD in others else others[0]
    x, y = scores[first], scores[second]
    scatter = figure_of(
        partial(plot, "scatter", methods=[first, second]),
        f"Scatter plot of {scoring}, one point per outer fold: {first} across, {second} up. "
        f"{second} is higher in {np.sum(y > x)} and lower in {np.sum(y < x)} of {len(x)} folds.",
        f"{second} against {first}, fold by fold. Above the dashed line {second} is better.",
        height=4.3,
    )
    return [box, difference, scatter]


def _scores_table(comparison: Comparison) -> Table:
    summary, scoring = comparison.summary, comparison.scoring
    reference = reference_of(comparison)
    differences = differences_from(comparison, reference)
    names = [str(name) for name in summary["method"]]
    order = np.argsort(summary["rank"], kind="stable")
    rows = []
    for k in order:
        compared = ("reference", "", "")
        if names[k] != reference:
            row = differences[names[k]]
            compared = (signed(row.mean), interval(row.low, row.high), p_text(row.p_value))
        meaning = _MEANINGS.get(names[k], "an estimator that was given")
        rows.append(
            (names[k], score(summary["mean"][k]), score(summary["std"][k]), *compared, meaning)
        )
    judged = [
        name for column in ("method", "other") for name in comparison.contrasts.get(column, ())[:2]
    ]
    marked = [place for place, k in enumerate(order) if names[k] in judged]
    note = " The rows of the verdict are shaded." if marked else ""
    how = (
        "Cohorts are tested once each, so that there are neither intervals nor p-values."
        if comparison.cohorts
        else "Intervals and two-sided p-values are corrected for overlapping training sets, not for the number "
        "of methods."
    )
    columns = (
        f"Method|Mean {scoring}|sd over folds|Difference from {reference}|95% interval|p|What it is"
    )
    return Table(
        f"Methods by their mean {scoring}. {how}{note}",
        columns.split("|"),
        rows,
        numeric=range(1, 6),
        marked=marked,
    )


def _choices_table(comparison: Comparison) -> Table:
    folds = comparison.folds
    rows = []
    for name in map(str, comparison.summary["method"]):
        mine = {key: column[folds["method"] == name] for key, column in folds.items()}
        learned = ("–", "–")
        if kind_of(name) == "learned":
            learned = (spread(mine["smoothness"]), spread(mine["rounds"]))
        rows.append((name, spread(mine["alpha"]), *learned, f"{mine['seconds'].sum():.1f}"))
    return Table(
        "What the inner folds chose: median over the outer folds (lowest to highest), and the time of all.",
        ("Method", "alpha", "smoothness", "rounds", "seconds"),
        rows,
        numeric=range(1, 5),
    )


def _pairs_table(comparison: Comparison) -> Table:
    tests = comparison.tests
    rows = {}
    for k, pair in enumerate(zip(tests["method"], tests["other"], strict=True)):
        a, b = map(str, pair)
        if (b, a) not in rows:
            limits = interval(tests["low"][k], tests["high"][k])
            p_values = [p_text(tests[name][k]) for name in ("p_t", "p_t_holm")]
            rows[a, b] = (a, b, signed(tests["difference"][k]), limits, *p_values)
    return Table(
        f"All {len(rows)} pairs of methods: mean difference (first minus second), its 95% interval, and "
        "p-values without and with Holm's adjustment.",
        ("First", "Second", "Difference", "95% interval", "p", "p, Holm"),
        list(rows.values()),
        numeric=range(2, 6),
        folded=True,
    )


def _targets_section(comparison: Comparison) -> Section:
    targets = comparison.targets
    method = VERDICT_METHOD if VERDICT_METHOD in targets else next(iter(targets))
    folds = standardized(targets[method])  # the largest one, where there are several
    shape = shape_of(np.median(folds, axis=0))
    width = float(np.median(folds.max(axis=0) - folds.min(axis=0)))
    figure = figure_of(
        partial(TargetQuantileDisplay.from_result, comparison, method),
        f"Line plot of the target that {method} learned{against(comparison)}, all with mean 0 and "
        f"mean square 1. It is {shape}. The band of the {len(folds)} outer folds is {width:.2f} wide in the "
        "median over the places.",
        f"Target learned by {method}: median and range over the {len(folds)} outer folds. A narrow band "
        "means that the folds agree.",
    )
    text = (
        f"{TARGET_IS} It is learned anew on the training samples of each outer fold; "
        f"the median over the folds is {shape}."
    )
    return Section("Target learned in the folds", paragraphs=[text], figures=[figure])


def _permutation_section(comparison: Comparison) -> Section:
    means = comparison.permutations["mean"]
    p_value = float(comparison.permutations["p_value"][0])
    observed = means_of(comparison).get(VERDICT_METHOD, np.nan)
    found = f"{score(observed)} with the true labels" if np.isfinite(observed) else "not compared"
    shuffled = f"{score(means.mean())} on average ({score(means.min())} to {score(means.max())})"

    def plot(ax: Any) -> None:
        ax.hist(means, bins=min(20, max(5, len(means) // 3)), color=COLORS["other"], rwidth=0.9)
        if np.isfinite(observed):
            ax.axvline(observed, color=COLORS["learned"], lw=2)
        ax.set_xlabel(f"mean {comparison.scoring}", parse_math=False)
        ax.set_ylabel("shuffles")
        ax.yaxis.get_major_locator().set_params(integer=True)
        finish(ax)

    figure = figure_of(
        plot,
        f"Histogram of the mean {comparison.scoring} of {VERDICT_METHOD} for {len(means)} shuffles of the "
        f"labels: {shuffled}; {found}.",
        "Mean score with shuffled labels (grey) and with the true ones (red line).",
        height=2.8,
    )
    text = (
        f"Is there any signal? {VERDICT_METHOD} on {len(means)} random shuffles of the labels gives "
        f"{shuffled}; {found}. p = {p_text(p_value)}; the smallest possible value with so "
        f"many shuffles is {p_text(1 / (1 + len(means)))}. The verdict does not use this."
    )
    return Section("Shuffled labels", paragraphs=[text], figures=[figure])


def against(comparison: Comparison | None) -> str:
    """Name the targets that a learned one is drawn against."""
    names = shown_targets(comparison)
    return f", against {listed(names)}" if names else ""


def n_folds_of(comparison: Comparison) -> int:
    """Number of outer folds."""
    return len(comparison.folds["score"]) // len(comparison.summary["method"])


def means_of(comparison: Comparison) -> dict[str, float]:
    """Mean scores, by method."""
    summary = comparison.summary
    return dict(zip(map(str, summary["method"]), summary["mean"].tolist(), strict=True))
