"""The report of a comparison, and of the model fitted after it."""

from __future__ import annotations

import platform
import shlex
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from suquan._version import __version__
from suquan.comparison import BEST_FIXED, VERDICT_METHOD, Comparison
from suquan.plotting import (
    COLORS,
    SHOWN_TARGETS,
    ComparisonDisplay,
    ObjectiveDisplay,
    TargetQuantileDisplay,
    differences_from,
    kind_of,
    reference_of,
    scores_of,
    standardized,
)
from suquan.report._page import Figure, Section, Table, Verdict, write_page
from suquan.report._svg import draw
from suquan.statistics import Difference
from suquan.targets import NAMED, make_target_quantiles

TITLE = "Does learning the target help?"
N_TOP = 20
_KINDS = {"learned": "learned target", "fixed": "fixed target", "other": "no target"}
_MEANINGS = {
    "raw": "samples as they are",
    BEST_FIXED: "the fixed target that the inner folds choose",
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
}
_SCORES = {
    "roc_auc": "the probability that a sample of the second class gets a higher score than one of the "
    "first: 0.5 is chance, 1 is perfect",
    "roc_auc_ovr": "the area under the ROC curve of each class against the rest, averaged: 0.5 is chance, 1 is "
    "perfect",
    "accuracy": "the share of samples that are classified correctly",
    "balanced_accuracy": "the share of samples that are classified correctly, averaged over the classes",
    "r2": "the share of the variance that is explained: 1 is perfect, 0 is no better than the mean",
    "neg_log_loss": "minus the logistic loss: higher is better",
    "neg_mean_squared_error": "minus the mean squared error: higher is better",
}
_WHAT_A_TARGET_IS = "The target is the distribution of values that every sample is given."
_PACKAGES = ("numpy", "scipy", "scikit-learn", "numba", "matplotlib")


def write_report(
    path: Any,
    comparison: Comparison | None,
    *,
    estimator: Any = None,
    data_summary: Mapping[str, Any] | None = None,
    warnings: Iterable[Any] = (),
    settings: Mapping[str, Any] | None = None,
    command: str | Sequence[str] | None = None,
    feature_names: Sequence[Any] | None = None,
    n_top: int = N_TOP,
    title: str = TITLE,
) -> Path:
    """Write what a comparison found, and the model fitted after it, as one HTML file.

    The file needs no network and no script. It is written in one move.

    Parameters
    ----------
    path : path
        Of the file, such as "report.html".
    comparison : Comparison or None
        Result of :func:`suquan.compare`; None for a report of `estimator` alone.
    estimator : fitted estimator, default=None
        With `target_quantiles_` and, for the table of features, `coef_`.
    data_summary : mapping, default=None
        What the data are, by name: numbers, text, sequences, or mappings such as counts of classes.
    warnings : iterable of str or Warning, default=()
        Shown one below the other, in the section of the data.
    settings : mapping, default=None
        Settings of the run, by name.
    command : str or sequence of str, default=None
        What makes this report again; a sequence is quoted for the shell.
    feature_names : sequence, default=None
        None: those that `estimator` was fitted with, or else the numbers of the columns, from 0.
    n_top : int, default=20
        Features shown.
    title : str, default="Does learning the target help?"

    Returns
    -------
    Path

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from suquan import compare
    >>> from suquan.datasets import make_corrupted_classification
    >>> from suquan.report import write_report
    >>> X, y = make_corrupted_classification(90, 20, random_state=0)
    >>> result = compare(X, y, methods=["normal", "uniform", "crossfit"], outer_cv=3, inner_cv=3,
    ...                  alphas=3, smoothnesses=2, progress=False)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = write_report(Path(folder) / "report.html", result, data_summary={"samples": 90})
    ...     page = path.read_text(encoding="utf-8")
    >>> result.verdict.partition(":")[0] in page
    True
    """
    if comparison is None and estimator is None:
        raise ValueError(
            "there is nothing to report; give a comparison, a fitted estimator, or both."
        )
    sections = []
    if comparison is not None:
        # The model's own target is drawn with the same band: once is enough.
        repeated = estimator is not None and _method_of(estimator) in comparison.targets
        sections += comparison_sections(comparison, with_target=not repeated)
    if estimator is not None:
        sections += estimator_sections(
            estimator, comparison=comparison, feature_names=feature_names, n_top=n_top
        )
    sections += [
        section
        for section in (
            _data_section(data_summary, warnings),
            _settings_section(settings, estimator),
            _reproduce_section(command),
        )
        if section is not None
    ]
    made = datetime.now(UTC).strftime("%d %B %Y, %H:%M UTC").lstrip("0")
    return write_page(
        path, title, sections, subtitle=_subtitle(comparison, made), footer=f"suquan {__version__}"
    )


def _subtitle(comparison: Comparison | None, made: str) -> str:
    if comparison is None:
        return f"Report of a fitted model. Made on {made}."
    n_methods = len(comparison.summary["method"])
    return (
        f"Nested cross-validation: {n_methods} methods on the same {_n_folds(comparison)} outer folds. "
        f"Made on {made}."
    )


# -- the comparison ---------------------------------------------------------------------------------


def comparison_sections(comparison: Comparison, *, with_target: bool = True) -> list[Section]:
    """Verdict, scores of all methods, learned target and shuffled labels, each a :class:`Section`.

    Parameters
    ----------
    comparison : Comparison
    with_target : bool, default=True
        Whether the target learned in the folds gets its section.

    Returns
    -------
    list of Section
    """
    sections = [_verdict_section(comparison), _scores_section(comparison)]
    if with_target and comparison.targets:
        sections.append(_targets_section(comparison))
    if comparison.permutations:
        sections.append(_permutation_section(comparison))
    return sections


def _verdict_section(comparison: Comparison) -> Section:
    headline, _, rest = comparison.verdict.partition(": ")
    contrast = comparison.contrast
    tone, numbers = "neutral", []
    if contrast is not None:
        tone = "good" if contrast.low > 0 else "bad" if contrast.high < 0 else "neutral"
        means = _means(comparison)
        numbers = [
            (f"{comparison.scoring}, learned target", _score(means[VERDICT_METHOD])),
            (f"{comparison.scoring}, best fixed target", _score(means[BEST_FIXED])),
            ("difference", _signed(contrast.mean)),
            ("95% interval", _interval(contrast.low, contrast.high)),
        ]
    text = rest[:1].upper() + rest[1:]
    reading = []
    if comparison.scoring in _SCORES:
        reading.append(f"{comparison.scoring} is {_SCORES[comparison.scoring]}.")
    if contrast is not None:
        reading.append(
            f"The verdict is one contrast, fixed before any score was seen: {VERDICT_METHOD!r}, which "
            "learns the target, against the fixed target that the inner folds choose in each outer fold. "
            "Its interval allows for the overlap of the training sets (Nadeau and Bengio)."
        )
    return Section(
        "Verdict", verdict=Verdict(tone, headline, text, numbers), paragraphs=[" ".join(reading)]
    )


def _scores_section(comparison: Comparison) -> Section:
    scores = scores_of(comparison)
    figures = [_box_figure(comparison, scores)]
    details = [_choices_table(comparison)]
    if len(scores) > 1:
        figures += [_difference_figure(comparison), _scatter_figure(comparison, scores)]
    if len(scores) > 2:
        details.append(_pairs_table(comparison))
    parts = [Section("Fold by fold", figures=figures), Section("Details", tables=details)]
    return Section("Scores of all methods", tables=[_scores_table(comparison)], sections=parts)


def _box_figure(comparison: Comparison, scores: dict[str, np.ndarray]) -> Figure:
    order = sorted(scores, key=lambda name: -scores[name].mean())
    listed = "; ".join(
        f"{name} mean {_score(scores[name].mean())}, {_score(scores[name].min())} to "
        f"{_score(scores[name].max())}"
        for name in order
    )
    n_folds = _n_folds(comparison)
    return Figure(
        draw(
            lambda ax: ComparisonDisplay.from_result(comparison, "box", ax=ax),
            height=_rows_height(len(scores)),
        ),
        f"Box plot of {comparison.scoring} over {n_folds} outer folds, one row per method. From the highest "
        f"mean: {listed}.",
        f"{comparison.scoring} over the {n_folds} outer folds: median, quartiles, range and single folds. "
        "Red: learned targets; blue: fixed ones; grey: others.",
    )


def _difference_figure(comparison: Comparison) -> Figure:
    reference = reference_of(comparison)
    rows = differences_from(comparison, reference)
    listed = "; ".join(
        f"{name} {_signed(row.mean)} ({_interval(row.low, row.high)})" for name, row in rows.items()
    )
    return Figure(
        draw(
            lambda ax: ComparisonDisplay.from_result(
                comparison, "difference", reference=reference, ax=ax
            ),
            height=_rows_height(len(rows)),
        ),
        f"Mean difference in {comparison.scoring} of each method from {reference}, with 95% intervals: "
        f"{listed}.",
        f"Mean difference from {reference}, with its 95% interval. An interval that holds 0 shows no "
        "difference.",
    )


def _scatter_figure(comparison: Comparison, scores: dict[str, np.ndarray]) -> Figure:
    pair = [reference_of(comparison), VERDICT_METHOD]
    if VERDICT_METHOD not in scores or pair[0] == pair[1]:
        pair[1] = next(name for name in scores if name != pair[0])
    x, y = scores[pair[0]], scores[pair[1]]
    higher, lower = int(np.sum(y > x)), int(np.sum(y < x))
    return Figure(
        draw(
            lambda ax: ComparisonDisplay.from_result(comparison, "scatter", methods=pair, ax=ax),
            height=4.3,
        ),
        f"Scatter plot of {comparison.scoring}, one point per outer fold: {pair[0]} across, {pair[1]} up. "
        f"{pair[1]} is higher in {higher} and lower in {lower} of {len(x)} folds.",
        f"{pair[1]} against {pair[0]}, fold by fold. Above the dashed line {pair[1]} is better.",
    )


def _scores_table(comparison: Comparison) -> Table:
    summary = comparison.summary
    reference = reference_of(comparison)
    differences = differences_from(comparison, reference)
    order = np.argsort(summary["rank"], kind="stable")
    rows, marked = [], []
    for place, k in enumerate(order):
        name = str(summary["method"][k])
        row = differences.get(name, Difference(*[np.nan] * 5))
        is_reference = name == reference
        rows.append(
            (
                name,
                _score(summary["mean"][k]),
                _score(summary["std"][k]),
                "reference" if is_reference else _signed(row.mean),
                "" if is_reference else _interval(row.low, row.high),
                "" if is_reference else _p(row.p_value),
                _MEANINGS.get(name, "an estimator that was given"),
            )
        )
        if comparison.contrast is not None and name in (VERDICT_METHOD, BEST_FIXED):
            marked.append(place)
    columns = (
        "Method",
        f"Mean {comparison.scoring}",
        "sd over folds",
        f"Difference from {reference}",
        "95% interval",
        "p",
        "What it is",
    )
    note = " The two rows of the verdict are shaded." if marked else ""
    return Table(
        f"Methods by their mean {comparison.scoring}. Intervals and two-sided p-values are corrected for "
        f"overlapping training sets, not for the number of methods.{note}",
        columns,
        rows,
        numeric=range(1, 6),
        marked=marked,
    )


def _choices_table(comparison: Comparison) -> Table:
    folds = comparison.folds
    rows = []
    for name in comparison.summary["method"]:
        mine = folds["method"] == name
        rows.append(
            (
                str(name),
                _spread(folds["alpha"][mine]),
                _spread(folds["smoothness"][mine]) if kind_of(str(name)) == "learned" else "–",
                _spread(folds["rounds"][mine]) if kind_of(str(name)) == "learned" else "–",
                f"{folds['seconds'][mine].sum():.1f}",
            )
        )
    return Table(
        "What the inner folds chose: median over the outer folds (lowest to highest), and the time of all.",
        ("Method", "alpha", "smoothness", "rounds", "seconds"),
        rows,
        numeric=range(1, 5),
    )


def _pairs_table(comparison: Comparison) -> Table:
    tests = comparison.tests
    seen: set[tuple[str, str]] = set()
    rows = []
    for k, pair in enumerate(zip(tests["method"], tests["other"], strict=True)):
        a, b = map(str, pair)
        if (b, a) in seen:
            continue
        seen.add((a, b))
        rows.append(
            (
                a,
                b,
                _signed(tests["difference"][k]),
                _interval(tests["low"][k], tests["high"][k]),
                _p(tests["p_t"][k]),
                _p(tests["p_t_holm"][k]),
            )
        )
    return Table(
        f"All {len(rows)} pairs of methods: mean difference (first minus second), its 95% interval, and "
        "p-values without and with Holm's adjustment.",
        ("First", "Second", "Difference", "95% interval", "p", "p, Holm"),
        rows,
        numeric=range(2, 6),
        folded=True,
    )


def _targets_section(comparison: Comparison) -> Section:
    method = (
        VERDICT_METHOD if VERDICT_METHOD in comparison.targets else next(iter(comparison.targets))
    )
    folds = standardized(comparison.targets[method])
    middle = np.median(folds, axis=0)
    width = float(np.median(folds.max(axis=0) - folds.min(axis=0)))
    description = (
        f"Line plot of the target that {method} learned, against {_listed(SHOWN_TARGETS)}, all with mean 0 and "
        f"mean square 1. It is {_shape_of(middle)}. The band of the {len(folds)} outer folds is {width:.2f} wide in "
        "the median over the places."
    )
    figure = Figure(
        draw(lambda ax: TargetQuantileDisplay.from_result(comparison, method, ax=ax), height=3.8),
        description,
        f"Target learned by {method}: median and range over the {len(folds)} outer folds. A narrow band "
        "means that the folds agree.",
    )
    return Section(
        "Target learned in the folds",
        paragraphs=[
            f"{_WHAT_A_TARGET_IS} It is learned anew on the training samples of each outer fold; "
            f"the median over the folds is {_shape_of(middle)}."
        ],
        figures=[figure],
    )


def _permutation_section(comparison: Comparison) -> Section:
    means = comparison.permutations["mean"]
    p_value = float(comparison.permutations["p_value"][0])
    observed = _means(comparison).get(VERDICT_METHOD, np.nan)
    found = f"{_score(observed)} with the true labels" if np.isfinite(observed) else "not compared"
    shuffled = f"{_score(means.mean())} on average ({_score(means.min())} to {_score(means.max())})"

    def plot(ax: Any) -> None:
        ax.hist(means, bins=min(20, max(5, len(means) // 3)), color=COLORS["other"], rwidth=0.9)
        if np.isfinite(observed):
            ax.axvline(observed, color=COLORS["learned"], lw=2)
        ax.set_xlabel(f"mean {comparison.scoring}", parse_math=False)
        ax.set_ylabel("shuffles")
        ax.yaxis.get_major_locator().set_params(integer=True)
        ax.spines[["top", "right"]].set_visible(False)

    figure = Figure(
        draw(plot, height=2.8),
        f"Histogram of the mean {comparison.scoring} of {VERDICT_METHOD} for {len(means)} shuffles of the "
        f"labels: {shuffled}; {found}.",
        "Mean score with shuffled labels (grey) and with the true ones (red line).",
    )
    return Section(
        "Shuffled labels",
        paragraphs=[
            f"Is there any signal? {VERDICT_METHOD} on {len(means)} random shuffles of the labels gives "
            f"{shuffled}; {found}. p = {_p(p_value)}; no smaller value than {_p(1 / (1 + len(means)))} is "
            "possible with so many shuffles. The verdict does not use this."
        ],
        figures=[figure],
    )


# -- the model --------------------------------------------------------------------------------------


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
    method = _method_of(estimator)
    has_band = comparison is not None and method in comparison.targets
    band = " with the range over the outer folds" if has_band else ""
    figures = [
        Figure(
            draw(
                lambda ax: TargetQuantileDisplay.from_estimator(
                    estimator, comparison=comparison, ax=ax
                ),
                height=3.8,
            ),
            f"Line plot of the model's target{band}, against {_listed(SHOWN_TARGETS)}, all with mean 0 and "
            f"mean square 1. It is {_shape_of(f)}.",
            f"Target of the model fitted to all samples{band}, against fixed ones.",
        )
    ]
    history = np.asarray(getattr(estimator, "objective_history_", ()))
    if len(history) > 2:  # two numbers are no picture
        figures.append(_objective_figure(estimator, history, method))
    tables = [_model_table(estimator, method)]
    parts = []
    if hasattr(estimator, "coef_"):
        parts.append(_features_section(estimator, feature_names, n_top))
    paragraph = f"{_WHAT_A_TARGET_IS} That of the model fitted to all samples is {_shape_of(f)}."
    return [
        Section("Model", paragraphs=[paragraph], figures=figures, tables=tables, sections=parts)
    ]


def _method_of(estimator: Any) -> str:
    """The method that was used, chosen or given; "fixed" where nothing is learned from labels."""
    return str(getattr(estimator, "method_", getattr(estimator, "method", "fixed")))


def _objective_figure(estimator: Any, history: np.ndarray, method: str) -> Figure:
    what = "out-of-fold loss" if method == "crossfit" else "objective"
    return Figure(
        draw(lambda ax: ObjectiveDisplay.from_estimator(estimator, ax=ax), height=3.8),
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
        "best_score_": "mean score of the inner selection",
    }
    values |= {
        label: getattr(estimator, name) for name, label in names.items() if hasattr(estimator, name)
    }
    if hasattr(estimator, "classes_"):
        values["classes"] = list(estimator.classes_)
    values["features"] = len(estimator.target_quantiles_)
    return _listing("The fitted model.", values, ("Property", "Value"))


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
    columns = [
        "Feature",
        *(["Weight"] if single else [f"Weight, {c}" for c in classes]),
        "Share of all",
    ]
    rows = [
        (names[k], *(f"{value:+.4g}" for value in w[:, k]), f"{size[k] / total:.2%}") for k in top
    ]
    bars = list(w[0, top] / np.abs(w[0, top]).max()) if single and len(top) else None
    towards = ""
    if single and len(classes) == 2:
        towards = f" Positive weights speak for class {classes[1]}, negative ones for {classes[0]}."
    n_used = int(np.count_nonzero(size))
    return Section(
        "Features with the largest weights",
        paragraphs=[
            f"All features are on one scale, that of the target, so that their weights can be compared."
            f"{towards} {n_used} of {n_features} features have a weight other than 0; the {len(top)} below "
            f"carry {share:.1%} of the sum of all absolute weights."
        ],
        tables=[
            Table(
                f"The {len(top)} largest of {n_features} weights.",
                columns,
                rows,
                numeric=range(1, len(columns)),
                bars=bars,
            )
        ]
        if len(top)
        else [],
    )


# -- data, settings, versions -----------------------------------------------------------------------


def _data_section(
    data_summary: Mapping[str, Any] | None, warnings: Iterable[Any]
) -> Section | None:
    notes = [str(getattr(note, "message", note)) for note in warnings]
    if not data_summary and not notes:
        return None
    tables = [_listing("The data.", data_summary, ("Property", "Value"))] if data_summary else []
    heading = "Data and warnings" if notes and tables else "Warnings" if notes else "Data"
    return Section(heading, notes=notes, tables=tables)


def _settings_section(settings: Mapping[str, Any] | None, estimator: Any) -> Section | None:
    tables = []
    if settings:
        tables.append(_listing("Settings of the run.", settings, ("Setting", "Value")))
    if estimator is not None:
        tables.append(
            _listing(
                f"All parameters of {type(estimator).__name__}.",
                estimator.get_params(deep=False),
                ("Parameter", "Value"),
                folded=True,
            )
        )
    return Section("Settings", tables=tables) if tables else None


def _reproduce_section(command: str | Sequence[str] | None) -> Section:
    text = "All folds are drawn from the seed: the same data, settings and versions give the same numbers."
    code = "" if command is None else command if isinstance(command, str) else shlex.join(command)
    versions = {
        "suquan": __version__,
        "Python": platform.python_version(),
        **{name: _installed(name) for name in _PACKAGES},
        "system": f"{platform.system()} {platform.machine()}",
    }
    return Section(
        "How to reproduce this",
        paragraphs=[text],
        code=code,
        tables=[_listing("Versions.", versions, ("Package", "Version"))],
    )


def _installed(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


def _listing(
    caption: str, values: Mapping[str, Any], columns: tuple[str, str], *, folded: bool = False
) -> Table:
    """Two columns: names and values."""
    rows = [(str(name), _plain(value)) for name, value in values.items()]
    return Table(caption, columns, rows, folded=folded)


# -- words and numbers ------------------------------------------------------------------------------


def _plain(value: Any) -> str:
    """A value as a person would write it."""
    if value is None:
        return "none"
    if isinstance(value, bool | np.bool_):
        return "yes" if value else "no"
    if isinstance(value, float | np.floating):
        return f"{value:.6g}"
    if isinstance(value, Mapping):
        return ", ".join(f"{name}: {_plain(item)}" for name, item in value.items()) or "none"
    if isinstance(value, np.ndarray | list | tuple | set | frozenset):
        items = [_plain(item) for item in np.ravel(np.array(list(value), dtype=object)).tolist()]
        more = f", … ({len(items)} in all)" if len(items) > 12 else ""
        return ", ".join(items[:12]) + more or "none"
    return str(value)


def _shape_of(f: np.ndarray) -> str:
    """How a standardised target compares with the named ones, to end a sentence with."""
    distances = {
        name: float(np.sqrt(np.mean((f - standardized(make_target_quantiles(name, len(f)))) ** 2)))
        for name in NAMED
    }
    nearest = min(distances, key=lambda name: distances[name])
    return (
        f"nearest to the {_named(nearest)} distribution (root mean square distance "
        f"{distances[nearest]:.2f}, on a scale where the target has 1)"
    )


def _named(target: str) -> str:
    return "Cauchy" if target == "cauchy" else target


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:-1]) + f" and {names[-1]}"


def _n_folds(comparison: Comparison) -> int:
    return len(comparison.folds["score"]) // len(comparison.summary["method"])


def _means(comparison: Comparison) -> dict[str, float]:
    summary = comparison.summary
    return dict(zip(map(str, summary["method"]), summary["mean"].tolist(), strict=True))


def _rows_height(n_rows: int) -> float:
    return 0.9 + 0.27 * n_rows


def _score(value: float) -> str:
    return f"{value:.4f}" if np.isfinite(value) else "–"


def _signed(value: float) -> str:
    return f"{value:+.4f}" if np.isfinite(value) else "–"


def _interval(low: float, high: float) -> str:
    if not (np.isfinite(low) and np.isfinite(high)):
        return "–"
    return f"{low:+.4f} to {high:+.4f}"


def _p(value: float) -> str:
    if not np.isfinite(value):
        return "–"
    return "< 0.0001" if value < 1e-4 else f"{value:.4f}" if value < 0.01 else f"{value:.3f}"


def _spread(values: np.ndarray) -> str:
    known = np.asarray(values, dtype=np.float64)
    known = known[np.isfinite(known)]
    if not known.size:
        return "–"
    low, middle, high = known.min(), np.median(known), known.max()
    if low == high:
        return f"{middle:.3g}"
    return f"{middle:.3g} ({low:.3g} to {high:.3g})"
