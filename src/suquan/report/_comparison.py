"""Sections on the result of a comparison, for `write_report` and for pages of other kinds."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from suquan.calibration import MEASURES
from suquan.comparison import BEST_FIXED, START, VERDICT_METHOD, Comparison
from suquan.plotting import (
    ComparisonDisplay,
    ReliabilityDisplay,
    RiskGroupDisplay,
    TargetQuantileDisplay,
)
from suquan.plotting._axes import COLORS, finish
from suquan.plotting._comparison import (
    differences_from,
    kind_of,
    names_of,
    reference_of,
    risk_table,
    scores_of,
)
from suquan.plotting._targets import shown_targets, standardized
from suquan.report._page import Figure, Section, Table, Verdict
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
_CLASSES = ("the first", "the second class")
_SCORES = {
    "roc_auc": "the probability that a sample of {1} gets a higher score than one of {0}: 0.5 is chance, 1 is "
    "perfect",
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
    """Tell the verdict, cohorts, scores, probabilities, learned target and shuffled labels, a section each.

    Parameters
    ----------
    comparison : Comparison
    with_target : bool, default=True
        Whether the target learned in the folds gets its section.
    class_names : sequence of str, default=None
        In the order of the classes.
    """
    sections = [_verdict_section(comparison, class_names)]
    if comparison.cohorts:
        sections.append(_cohort_section(comparison))
    sections.append(_scores_section(comparison))
    if "log_loss" in comparison.summary:
        sections.append(_probability_section(comparison))
    if comparison.risk_groups is not None:
        sections.append(_risk_section(comparison))
    if with_target and comparison.targets:
        sections.append(_targets_section(comparison))
    if comparison.permutations:
        sections.append(_permutation_section(comparison))
    return sections


def _verdict_section(result: Comparison, class_names: Sequence[str] | None) -> Section:
    headline, _, rest = result.verdict.partition(": ")
    tone, numbers, reading = "neutral", [], []
    if result.scoring in _SCORES:
        known = class_names is not None and len(class_names) == 2
        classes = [f"class {name}" for name in class_names or ()] if known else _CLASSES
        reading.append(f"{result.scoring} is {_SCORES[result.scoring].format(*classes)}.")
    contrast = result.contrast
    if contrast is not None:
        tone = "good" if contrast.low > 0 else "bad" if contrast.high < 0 else "neutral"
        means, learned = means_of(result), str(result.contrasts["method"][0])
        numbers = [
            (f"{result.scoring}, learned target", score(means[learned])),
            (f"{result.scoring}, initial target", score(means[START])),
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


def _cohort_section(result: Comparison) -> Section:
    """Tell every method's score in every cohort, each tested with a model of the others."""
    names, reference, rows = names_of(result), reference_of(result), []
    keys = ("cohort", "n_samples", "score", "difference")
    cohorts, sizes, scores, gains = (result.cohorts[key].reshape(-1, len(names)).T for key in keys)
    has_gains = reference in (START, BEST_FIXED)
    for name, own, gain in zip(names, scores, gains, strict=True):
        cells = [score(value) for value in own]
        if has_gains and name != reference:
            cells = [f"{told} ({signed(g)})" for told, g in zip(cells, gain, strict=True)]
        rows.append((name, *cells))
    heads = [f"{name} ({size:,} samples)" for name, size in zip(cohorts[0], sizes[0], strict=True)]
    note = f"; in brackets the difference from {reference}" if has_gains else ""
    caption = f"{result.scoring} in each cohort, of models fitted to the other cohorts{note}."
    table = Table(caption, ("Method", *heads), rows, numeric=range(1, len(heads) + 1))
    text = (
        "Each cohort is the test set once. Cohorts differ more than random folds do and are few, so that no "
        "interval is given: what counts is whether the differences point the same way."
    )
    return Section("Cohorts", paragraphs=[text], tables=[table])


def _scores_section(result: Comparison) -> Section:
    details = [_choices_table(result)]
    if len(names_of(result)) > 2:
        details.append(_pairs_table(result))
    parts = [
        Section("Fold by fold", figures=_score_figures(result)),
        Section("Details", tables=details),
    ]
    return Section("Scores of all methods", tables=[_scores_table(result)], sections=parts)


def _score_figures(result: Comparison) -> list[Figure]:
    """Draw scores of all methods, their differences from the reference, and two methods fold by fold."""
    scores, scoring, n_folds = scores_of(result), result.scoring, n_folds_of(result)
    plot = partial(ComparisonDisplay.from_result, result)
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
    first = reference_of(result)
    rows = differences_from(result, first)
    told = "; ".join(
        f"{name} {signed(row.mean)} ({interval(row.low, row.high)})" for name, row in rows.items()
    )
    caption = f"Mean difference from {first}, with its 95% interval. Where it holds 0, no difference is shown."
    if result.cohorts:
        caption = f"Mean difference from {first} over the cohorts, which are no random folds: no interval."
    difference = figure_of(
        partial(plot, "difference"),
        f"Mean difference in {scoring} of each method from {first}, with 95% intervals: {told}.",
        caption,
        height=0.9 + 0.27 * len(rows),
    )
    second = VERDICT_METHOD if VERDICT_METHOD in rows else next(n for n in scores if n != first)
    x, y = scores[first], scores[second]
    scatter = figure_of(
        partial(plot, "scatter", methods=[first, second]),
        f"Scatter plot of {scoring}, one point per outer fold: {first} across, {second} up. "
        f"{second} is higher in {np.sum(y > x)} and lower in {np.sum(y < x)} of {len(x)} folds.",
        f"{second} against {first}, fold by fold. Above the dashed line {second} is better.",
        height=4.3,
    )
    return [box, difference, scatter]


def _scores_table(result: Comparison) -> Table:
    summary, names, reference = result.summary, names_of(result), reference_of(result)
    differences, rows, marked = differences_from(result, reference), [], []
    judged = {name for key in ("method", "other") for name in result.contrasts.get(key, ())[:2]}
    for place, k in enumerate(np.argsort(summary["rank"], kind="stable")):
        compared = ("reference", "", "")
        if names[k] in differences:
            row = differences[names[k]]
            compared = (signed(row.mean), interval(row.low, row.high), p_text(row.p_value))
        numbers = score(summary["mean"][k]), score(summary["std"][k]), *compared
        rows.append((names[k], *numbers, _MEANINGS.get(names[k], "an estimator that was given")))
        marked += [place] * (names[k] in judged)
    how = (
        "Intervals and two-sided p-values are corrected for overlapping training sets, not for the number "
        "of methods."
    )
    if result.cohorts:
        how = "Cohorts are tested once each, so that there are neither intervals nor p-values."
    caption = f"Methods by their mean {result.scoring}. {how}"
    caption += " The rows of the verdict are shaded." if marked else ""
    heads = ("Method", f"Mean {result.scoring}", "sd over folds", f"Difference from {reference}")
    columns = (*heads, "95% interval", "p", "What it is")
    return Table(caption, columns, rows, numeric=range(1, 6), marked=marked)


def _choices_table(result: Comparison) -> Table:
    folds, rows = result.folds, []
    for name in names_of(result):
        mine = {key: column[folds["method"] == name] for key, column in folds.items()}
        learned = ["–", "–"]
        if kind_of(name) == "learned":
            learned = [spread(mine["smoothness"]), spread(mine["rounds"])]
        rows.append((name, spread(mine["alpha"]), *learned, f"{mine['seconds'].sum():.1f}"))
    return Table(
        "What the inner folds chose: median over the outer folds (lowest to highest), and the time of all.",
        ("Method", "alpha", "smoothness", "rounds", "seconds"),
        rows,
        numeric=range(1, 5),
    )


def _pairs_table(result: Comparison) -> Table:
    tests, names, rows = result.tests, names_of(result), []
    for k, (a, b) in enumerate(zip(tests["method"], tests["other"], strict=True)):
        if names.index(a) < names.index(b):  # the table has each pair both ways
            limits = interval(tests["low"][k], tests["high"][k])
            p_values = [p_text(tests[key][k]) for key in ("p_t", "p_t_holm")]
            rows.append((a, b, signed(tests["difference"][k]), limits, *p_values))
    caption = (
        f"All {len(rows)} pairs of methods: mean difference (first minus second), its 95% interval, and "
        "p-values without and with Holm's adjustment."
    )
    columns = ("First", "Second", "Difference", "95% interval", "p", "p, Holm")
    return Table(caption, columns, rows, numeric=range(2, 6), folded=True)


def _probability_section(result: Comparison) -> Section:
    """Tell log loss, Brier score and balanced accuracy of the outer folds, and draw the reliability curve."""
    summary, names = result.summary, names_of(result)
    rows = [
        (names[k], *(score(summary[key][k]) for key in MEASURES))
        for k in np.argsort(summary["log_loss"], kind="stable")
    ]
    caption = "Probabilities of the test samples, means over the outer folds; the smallest log loss first."
    text = (
        "Log loss and Brier score measure probabilities: lower is better. Balanced accuracy is the share of "
        "right predictions averaged over the classes: at 0.5 the more probable class is predicted, at the "
        "prevalence the class that has gained most over its share of the training samples, which does not "
        "favour frequent classes."
    )
    figures = [_reliability_figure(result)] if result.reliability else []
    columns = ("Method", *(measure.heading for measure in MEASURES.values()))
    table = Table(caption, columns, rows, numeric=range(1, 1 + len(MEASURES)))
    return Section("Probabilities", paragraphs=[text], tables=[table], figures=figures)


def _reliability_figure(result: Comparison) -> Figure:
    """Draw the reliability curves, and tell that of the last method drawn."""
    table = result.reliability
    known = [VERDICT_METHOD, BEST_FIXED, table["method"][0]]
    name = next(name for name in known if name in table["method"])
    own = table["method"] == name
    pairs = zip(table["predicted"][own], table["observed"][own], strict=True)
    told = "; ".join(f"{said:.2f} said, {true:.2f} true" for said, true in pairs)
    return figure_of(
        partial(ReliabilityDisplay.from_result, result),
        f"Line plot of the probabilities of {name} against the shares that came true: {told}.",
        "Reliability curve of all outer folds: what was said, in ten bins, and how often it came true; the "
        "larger a point, the more samples. On the dashed line probabilities mean what they say.",
        height=4.3,
    )


def _risk_section(result: Comparison) -> Section:
    """Draw Kaplan-Meier curves of thirds of the out-of-fold risk, and tell numbers at risk."""
    groups = result.risk_groups
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
        partial(RiskGroupDisplay.from_result, result),
        f"Kaplan-Meier curves of three groups of out-of-fold risk. {told}.",
        "Share free of the event over time, by thirds of out-of-fold risk (Kaplan and Meier); crosses are "
        "censored samples.",
    )
    caption = "Numbers at risk at these times, and events in all."
    table = Table(caption, columns, rows, numeric=range(1, len(columns)))
    return Section("Groups of risk", paragraphs=[text], figures=[curves], tables=[table])


def _targets_section(result: Comparison) -> Section:
    targets = result.targets
    method = VERDICT_METHOD if VERDICT_METHOD in targets else next(iter(targets))
    folds = standardized(targets[method])  # the largest one, where there are several
    shape, n_folds = shape_of(np.median(folds, axis=0)), len(folds)
    width = float(np.median(np.ptp(folds, axis=0)))
    figure = figure_of(
        partial(TargetQuantileDisplay.from_result, result, method),
        f"Line plot of the target that {method} learned{against(result)}, all with mean 0 and mean square 1. "
        f"It is {shape}. The band of the {n_folds} outer folds is {width:.2f} wide in the median over the "
        "places.",
        f"Target learned by {method}: median and range over the {n_folds} outer folds. A narrow band "
        "means that the folds agree.",
    )
    text = (
        f"{TARGET_IS} It is learned anew on the training samples of each outer fold; "
        f"the median over the folds is {shape}."
    )
    return Section("Target learned in the folds", paragraphs=[text], figures=[figure])


def _permutation_section(result: Comparison) -> Section:
    means, p_value = result.permutations["mean"], float(result.permutations["p_value"][0])
    observed = means_of(result).get(VERDICT_METHOD, np.nan)
    found = f"{score(observed)} with the true labels" if np.isfinite(observed) else "not compared"
    shuffled = f"{score(means.mean())} on average ({score(means.min())} to {score(means.max())})"

    def plot(ax: Any) -> None:
        ax.hist(means, bins=min(20, max(5, len(means) // 3)), color=COLORS["other"], rwidth=0.9)
        if np.isfinite(observed):
            ax.axvline(observed, color=COLORS["learned"], lw=2)
        ax.set(xlabel=f"mean {result.scoring}", ylabel="shuffles")
        ax.yaxis.get_major_locator().set_params(integer=True)
        finish(ax)

    figure = figure_of(
        plot,
        f"Histogram of the mean {result.scoring} of {VERDICT_METHOD} for {len(means)} shuffles of the "
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


def n_folds_of(result: Comparison) -> int:
    """Count the outer folds."""
    return len(result.folds["score"]) // len(result.summary["method"])


def means_of(result: Comparison) -> dict[str, float]:
    """Return mean scores, by method."""
    return dict(zip(names_of(result), result.summary["mean"].tolist(), strict=True))
