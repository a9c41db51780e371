"""Figure 2a (box plot), 2b (bnd against median) and 3 (a horse and an airplane)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ..figures import new_figure
from ..tables import Row, column, distinct, read_rows, where
from .settings import FIXED

# Left to right: as in the paper's Figure 2a, then what is new here.
ORDER = ("raw", "cauchy", "exponential", "uniform", "normal", "median", "svd", "bnd", "spav")
NEW = ("f0", "f0_rounds", "svd_f0_rounds", "joint", "crossfit")
LEARNED, GIVEN = "#c8553d", "#2a6f97"


def figures(settings: Any, folder: Path) -> list[tuple[str, Any]]:
    """All figures; the picture and the smaller studies where they were done."""
    scores = read_rows(folder / "scores.csv")
    boxes, axes = new_figure(1, 1, width=8.0, height=4.0)
    plot_boxes(axes[0], scores)
    scatter, axes = new_figure(1, 1, width=4.2, height=4.2)
    plot_scatter(axes[0], scores)
    drawn = [("figure2a", boxes), ("figure2b", scatter)]
    if (folder / "picture.csv").is_file():
        drawn.append(
            (
                "figure3",
                picture(
                    read_rows(folder / "picture.csv"), read_rows(folder / "picture_targets.csv")
                ),
            )
        )
    if (folder / "spav_summary.csv").is_file():
        spav, axes = new_figure(1, 1)
        plot_spav(axes[0], read_rows(folder / "spav_summary.csv"))
        drawn.append(("spav", spav))
    return drawn


def plot_boxes(ax: Any, scores: list[Row]) -> None:
    """Test AUC of each method over the pairs."""
    there = distinct(scores, "method")
    names = [name for name in (*ORDER, *NEW) if name in there]
    values = [column(where(scores, method=name), "score") for name in names]
    boxes = ax.boxplot(values, patch_artist=True, widths=0.6)
    for patch, name in zip(boxes["boxes"], names, strict=True):
        patch.set_facecolor(GIVEN if name in (*FIXED, "raw") else LEARNED)
        patch.set_alpha(0.55)
    for line in boxes["medians"]:
        line.set_color("#222222")
    means = [float(np.mean(part)) for part in values]
    ax.plot(range(1, len(names) + 1), means, "D", color="#222222", ms=4)
    ax.set_xticks(range(1, len(names) + 1), names, rotation=30, ha="right")
    ax.set_ylabel("test AUC (diamonds: means)")
    for text, color, is_learned in (("not learned", GIVEN, False), ("learned", LEARNED, True)):
        places = [
            k for k, name in enumerate(names, 1) if (name not in (*FIXED, "raw")) == is_learned
        ]
        if places:
            middle = float(np.mean(places))
            ax.annotate(
                text, (middle, 1.0), xycoords=("data", "axes fraction"), color=color, ha="center"
            )


def plot_scatter(ax: Any, scores: list[Row], learned: str = "bnd", given: str = "median") -> None:
    """One point per pair; above the diagonal the learned target wins."""
    x = column(where(scores, method=given), "score")
    y = column(where(scores, method=learned), "score")
    low, high = min(x.min(), y.min()) - 0.01, max(x.max(), y.max()) + 0.01
    ax.plot([low, high], [low, high], color="#9aa5b1", lw=1)
    ax.plot(x, y, "o", color=LEARNED, ms=4)
    ax.set(xlim=(low, high), ylim=(low, high), aspect="equal")
    ax.set_xlabel(f"test AUC, {given} target")
    ax.set_ylabel(f"test AUC, SUQUAN-{learned.upper()}")


def plot_spav(ax: Any, rows: list[Row]) -> None:
    """Mean test AUC of spav against its smoothness; 0 stands a step to the left of the smallest."""
    x = column(rows, "smoothness").astype(float)
    shown = np.where(x == 0, np.min(x[x > 0]) / 10 if np.any(x > 0) else 1.0, x)
    ax.plot(shown, column(rows, "auc"), "o-", color=LEARNED)
    ax.set_xscale("log")
    ax.set_xticks(shown, [f"{value:g}" for value in x], fontsize="small")
    ax.minorticks_off()
    ax.axvline(1.0, color="#9aa5b1", lw=1)
    ax.annotate(
        " the paper's grid →", (1.0, 1.0), xycoords=("data", "axes fraction"), color="#5f6b77"
    )
    ax.set_xlabel("smoothness")
    ax.set_ylabel("test AUC of spav")


def picture(pixels: list[Row], targets: list[Row]) -> Any:
    """A picture of each class, as it is and normalised, and the targets below."""
    names = [name for name in pixels[0] if name not in ("class", "pixel")]
    titles = {"original": "original", "median": "median", "svd": "SUQUAN-SVD", "bnd": "SUQUAN-BND"}
    figure, axes = new_figure(3, len(names), width=2.0, height=2.0)
    for row, kind in enumerate(distinct(pixels, "class")):
        part = where(pixels, **{"class": kind})
        for k, name in enumerate(names):
            ax = axes[row, k]
            ax.imshow(column(part, name).reshape(32, 32), cmap="gray", interpolation="nearest")
            ax.set(xticks=[], yticks=[])
            ax.spines[:].set_visible(False)
            if row == 0:
                ax.set_title(titles[name], fontsize="medium")
        axes[row, 0].set_ylabel(str(kind))
    for k, name in enumerate(names):
        axes[2, k].plot(column(targets, name), color=GIVEN if k < 2 else LEARNED)
        axes[2, k].set_xlabel("place")
    axes[2, 0].set_ylabel("target")
    return figure
