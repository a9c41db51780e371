"""Sections on the probabilities of a comparison, and on its cohorts."""

from functools import partial

import numpy as np

from suquan.calibration import MEASURES
from suquan.comparison import BEST_FIXED, START, Comparison
from suquan.plotting import ReliabilityDisplay
from suquan.plotting._comparison import reference_of
from suquan.report._page import Section, Table
from suquan.report._svg import figure_of
from suquan.report._words import score, signed


def probability_section(comparison: Comparison) -> Section:
    """Log loss, Brier score and balanced accuracy of the outer folds, and the reliability curve."""
    summary = comparison.summary
    order = np.argsort(summary["log_loss"], kind="stable")
    rows = [
        (str(summary["method"][k]), *(score(summary[name][k]) for name in MEASURES)) for k in order
    ]
    table = Table(
        "Probabilities of the test samples, means over the outer folds; the smallest log loss first.",
        (
            "Method",
            "log loss",
            "Brier score",
            "balanced accuracy at 0.5",
            "balanced accuracy at the prevalence",
        ),
        rows,
        numeric=range(1, 5),
    )
    text = (
        "Log loss and Brier score measure probabilities: lower is better. Balanced accuracy is the share of "
        "right predictions averaged over the classes: at 0.5 the more probable class is predicted, at the "
        "prevalence the class that has gained most over its share of the training samples, which does not "
        "favour frequent classes."
    )
    figures = []
    if comparison.reliability:
        draw = partial(ReliabilityDisplay.from_result, comparison)
        figure = figure_of(draw, _told(comparison), _CAPTION, height=4.3)
        figures.append(figure)
    return Section("Probabilities", paragraphs=[text], tables=[table], figures=figures)


_CAPTION = (
    "Reliability curve of all outer folds: what was said, in ten bins, and how often it came true; the larger "
    "a point, the more samples. On the dashed line probabilities mean what they say."
)


def _told(comparison: Comparison) -> str:
    """The curve of the last method drawn, in words."""
    table = comparison.reliability
    names = list(dict.fromkeys(map(str, table["method"])))
    name = next((name for name in ("crossfit", BEST_FIXED) if name in names), names[0])
    own = table["method"] == name
    pairs = zip(table["predicted"][own], table["observed"][own], strict=True)
    told = "; ".join(f"{said:.2f} said, {true:.2f} true" for said, true in pairs)
    return f"Line plot of the probabilities of {name} against the shares that came true: {told}."


def cohort_section(comparison: Comparison) -> Section:
    """Scores of every method in every cohort, each tested with a model of the others."""
    table = comparison.cohorts
    cohorts = list(dict.fromkeys(map(str, table["cohort"])))
    methods = [str(name) for name in comparison.summary["method"]]
    values = table["score"].reshape(len(cohorts), len(methods))
    gains = table["difference"].reshape(len(cohorts), len(methods))
    sizes = table["n_samples"].reshape(len(cohorts), len(methods))[:, 0]
    reference = reference_of(comparison)
    with_gains = reference in (START, BEST_FIXED)
    rows = [
        (
            name,
            *(
                f"{score(v)} ({signed(g)})" if with_gains and name != reference else score(v)
                for v, g in zip(values[:, k], gains[:, k], strict=True)
            ),
        )
        for k, name in enumerate(methods)
    ]
    heads = [f"{name} ({size:,} samples)" for name, size in zip(cohorts, sizes, strict=True)]
    note = f"; in brackets the difference from {reference}" if with_gains else ""
    shown = Table(
        f"{comparison.scoring} in each cohort, of models fitted to the other cohorts{note}.",
        ("Method", *heads),
        rows,
        numeric=range(1, len(heads) + 1),
    )
    text = (
        "Each cohort is the test set once. Cohorts differ more than random folds do and are few, so that no "
        "interval is given: what counts is whether the differences point the same way."
    )
    return Section("Cohorts", paragraphs=[text], tables=[shown])
