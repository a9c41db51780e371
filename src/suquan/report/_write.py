"""The report of a comparison and of the model fitted after it: results come in, one HTML file goes out."""

import platform
import shlex
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from suquan._version import __version__
from suquan.comparison import Comparison
from suquan.report._comparison import comparison_sections, n_folds_of
from suquan.report._model import N_TOP, estimator_sections, method_of
from suquan.report._page import Section, write_page
from suquan.report._words import listing

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
    class_names: Sequence[str] | None = None,
    n_top: int = N_TOP,
    title: str | None = None,
) -> Path:
    """Write what a comparison found, and the model fitted after it, as one HTML file.

    The file needs no network and no script. It is written in one move; its path is returned.

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
    class_names : sequence of str, default=None
        Names of the classes, in the order of `estimator.classes_`. None: these themselves.
    n_top : int, default=20
        Features shown.
    title : str, default=None
        None: "Does learning the target help?", or "Fitted model" without a comparison.

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
    now, sections = datetime.now(UTC), []
    subtitle = f"Made on {now.day} {now:%B %Y, %H:%M} UTC."
    if comparison is not None:
        # The model's own target is drawn with the same band: once is enough.
        with_target = estimator is None or method_of(estimator) not in comparison.targets
        sections += comparison_sections(
            comparison, with_target=with_target, class_names=class_names
        )
        subtitle = (
            f"Nested cross-validation: {len(comparison.summary['method'])} methods on the same "
            f"{n_folds_of(comparison)} outer folds. {subtitle}"
        )
    if estimator is not None:
        sections += estimator_sections(
            estimator,
            comparison=comparison,
            feature_names=feature_names,
            n_top=n_top,
            class_names=class_names,
        )
    sections += _fact_sections(data_summary, warnings, settings, estimator)
    code = "" if command is None else command if isinstance(command, str) else shlex.join(command)
    text = "With a fixed seed, the same data, settings and versions give the same numbers."
    versions = listing("Versions.", _versions(), ("Package", "Version"))
    sections.append(Section("How to reproduce this", None, [text], code=code, tables=[versions]))
    if title is None:
        title = "Fitted model" if comparison is None else "Does learning the target help?"
    return write_page(path, title, sections, subtitle=subtitle, footer=f"suquan {__version__}")


def _fact_sections(data_summary: Any, notes: Any, settings: Any, estimator: Any) -> list[Section]:
    """Tell data, warnings and settings, as far as they were given."""
    notes = [str(getattr(note, "message", note)) for note in notes]
    data = [listing("The data.", data_summary, ("Property", "Value"))] if data_summary else []
    heading = "Data and warnings" if notes and data else "Warnings" if notes else "Data"
    used = [listing("Settings of the run.", settings, ("Setting", "Value"))] if settings else []
    if estimator is not None:
        caption = f"All parameters of {type(estimator).__name__}."
        parameters = estimator.get_params(deep=False)
        used.append(listing(caption, parameters, ("Parameter", "Value"), folded=True))
    sections = [Section(heading, notes=notes, tables=data), Section("Settings", tables=used)]
    return [section for section in sections if section.notes or section.tables]


def _versions() -> dict[str, str]:
    """List those of suquan, Python, the packages that it works with, and the system."""
    versions = {"suquan": __version__, "Python": platform.python_version()}
    versions |= {name: version(name) for name in _PACKAGES}
    return versions | {"system": f"{platform.system()} {platform.machine()}"}
