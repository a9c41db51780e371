"""Figure and report of the experiment on calibration, from its tables."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from suquan.calibration import MEASURES
from suquan.report import Section, Table

from ..figures import for_report, new_figure
from ..tables import Row, distinct, read_rows, where, yes_or_no
from .run import REFERENCE

TOLERANCE = 0.01


def name_of(row: Row) -> str:
    """Method and calibration in words."""
    if row["method"] == REFERENCE:
        return "logistic regression by log loss"
    return f"{row['method']}, {row['calibration']}"


def figures(settings: Any, folder: Path) -> Sequence[tuple[str, Any]]:
    """Log loss by set."""
    figure, axes = new_figure(width=7.0, height=4.0)
    plot_losses(axes[0], read_rows(folder / "sets.csv"))
    return [("log_loss", figure)]


def plot_losses(ax: Any, rows: list[Row]) -> None:
    """Log loss of every method, one line per set."""
    names = distinct([{"name": name_of(row)} for row in rows], "name")
    for dataset in distinct(rows, "dataset"):
        part = where(rows, dataset=dataset)
        losses = {name_of(row): row["log_loss"] for row in part}
        ax.plot(
            [losses[name] for name in names], range(len(names)), marker="o", ms=4, label=dataset
        )
    ax.set_yticks(range(len(names)), names)
    ax.set_xlabel("log loss of the outer folds")
    ax.legend(fontsize="small")


def statements(summary: list[Row]) -> list[tuple[str, str, str]]:
    """What was aimed at, with what came out: for the uniform target, whose samples the reference sees."""
    loss = {(row["method"], row["calibration"]): row["log_loss"] for row in summary}
    reference = next(row["log_loss"] for row in summary if row["method"] == REFERENCE)
    told = []
    for method in dict.fromkeys(method for method, _ in loss if method != REFERENCE):
        calibrated, plain = loss[method, "sigmoid"], loss[method, "none"]
        gap = calibrated - reference
        told += [
            (
                f"{method}: within {TOLERANCE} of the logistic regression by log loss",
                f"{gap:+.4f}",
                yes_or_no(gap <= TOLERANCE),
            ),
            (
                f"{method}: below that without calibration",
                f"{calibrated - plain:+.4f}",
                yes_or_no(calibrated < plain),
            ),
        ]
    return told


def sections(settings: Any, folder: Path) -> list[Section]:
    """Aims, means over the sets, and every set."""
    summary, rows = read_rows(folder / "summary.csv"), read_rows(folder / "sets.csv")
    heads = ["method", "AUC", "log loss", "Brier score", "balanced accuracy", "at the prevalence"]
    keys = ("score", *MEASURES)

    def cells(part: list[Row]) -> list[list[str]]:
        return [[name_of(row), *(f"{row[key]:.4f}" for key in keys)] for row in part]

    aims = Table("Aims", ["statement", "found", "holds"], statements(summary), numeric=(1,))
    means = Table("Means over the sets", heads, cells(summary), numeric=range(1, 6))
    each = [
        Table(name, heads, cells(where(rows, dataset=name)), numeric=range(1, 6), folded=True)
        for name in distinct(rows, "dataset")
    ]
    told = ", ".join(f"{name_of(row)} {row['log_loss']:.3f}" for row in summary)
    figure = for_report(
        lambda ax: plot_losses(ax, rows),
        f"Log loss by method and set; means over the sets: {told}.",
        "One line per set.",
        width=7.0,
        height=4.0,
    )
    return [
        Section("In short", tables=[aims]),
        Section("Log loss", figures=[figure], tables=[means, *each]),
    ]
