"""Figures and report of the experiment on platforms, from its tables."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from suquan.calibration import MEASURES
from suquan.report import Section, Table

from ..figures import for_report, label_ends, new_figure
from ..tables import Row, distinct, read_rows, where
from .run import ALONE

COLORS = (
    "#c8553d",
    "#2a6f97",
    "#588157",
    "#8338ec",
    "#b5838d",
    "#6b7785",
    "#bc6c25",
    "#1d3557",
    "#9a031e",
)
SHOWN = {"auc": "AUC", "balanced_accuracy": "balanced accuracy", "log_loss": "log loss"}


def figures(settings: Any, folder: Path) -> Sequence[tuple[str, Any]]:
    """AUC, balanced accuracy and log loss against the number of new samples that arrive together."""
    rows = read_rows(folder / "summary.csv")
    figure, axes = new_figure(1, len(SHOWN), width=5.2, height=3.8)
    for ax, key in zip(axes.ravel(), SHOWN, strict=True):
        plot_batches(ax, rows, key)
    return [("batches", figure)]


def plot_batches(ax: Any, rows: list[Row], key: str) -> None:
    """One line per method: flat where a sample is scored by itself."""
    sizes = [str(size) for size in distinct([r for r in rows if r["batch"] != ALONE], "batch")]
    ends = []
    for k, method in enumerate(distinct(rows, "method")):
        values = {str(row["batch"]): row[key] for row in where(rows, method=method)}
        y = [values.get(size, values.get(ALONE)) for size in sizes]
        color = COLORS[k % len(COLORS)]
        ax.plot(
            range(len(sizes)), y, color=color, ls="-" if ALONE in values else "--", marker="o", ms=3
        )
        ends.append((method, len(sizes) - 1, y[-1], color))
    ax.set_xticks(range(len(sizes)), sizes)
    ax.set_xlabel("new samples that arrive together")
    ax.set_ylabel(SHOWN[key])
    label_ends(ax, ends)


def sections(settings: Any, folder: Path) -> list[Section]:
    """Means, then every label direction by direction."""
    summary, rows = read_rows(folder / "summary.csv"), read_rows(folder / "scores.csv")
    keys = ("auc", *MEASURES)
    heads = [
        "method",
        "batch",
        "AUC",
        "log loss",
        "Brier",
        "balanced accuracy",
        "at the prevalence",
    ]
    cells = [
        [row["method"], str(row["batch"]), *(f"{row[key]:.3f}" for key in keys)] for row in summary
    ]
    means = Table("Means over all directions and labels", heads, cells, numeric=range(2, 7))
    told = "; ".join(f"{row['method']} ({row['batch']}) {row['auc']:.3f}" for row in summary)
    pictures = [
        for_report(
            lambda ax, key=key: plot_batches(ax, summary, key),
            f"{name} against the number of new samples; AUC: {told}.",
            "Solid: every sample by itself. Dashed: needs the samples that arrived with it.",
            width=6.4,
        )
        for key, name in SHOWN.items()
    ]
    return [
        Section("How many new samples must arrive together?", figures=pictures, tables=[means]),
        *(_label_section(where(rows, label=label), label) for label in distinct(rows, "label")),
    ]


def _label_section(rows: list[Row], label: str) -> Section:
    """AUC and balanced accuracy of all methods in every direction."""
    ways = list(dict.fromkeys((row["train"], row["test"]) for row in rows))
    heads = ["method", *(f"{source} → {goal}" for source, goal in ways)]
    chosen = [row for row in rows if str(row["batch"]) in (ALONE, "1", "all")]
    lines = list(dict.fromkeys((row["method"], row["batch"]) for row in chosen))
    tables = []
    for key, name in SHOWN.items():
        cells = []
        for method, batch in lines:
            shown = method if batch == ALONE else f"{method}, {batch} at once"
            values = [
                where(rows, train=a, test=b, method=method, batch=batch)[0][key] for a, b in ways
            ]
            cells.append([shown, *(f"{value:.3f}" for value in values)])
        tables.append(Table(name, heads, cells, numeric=range(1, len(heads))))
    words = "all five subtypes" if label == "all" else f"{label} against the rest"
    return Section(words[0].upper() + words[1:], tables=tables)
