"""What all displays share: colours, axes, labels; the report takes its colours from here."""

import importlib
from typing import Any

import numpy as np

# One colour per kind of method; kinds also differ by place, line style or label.
COLORS = {"learned": "#c8553d", "fixed": "#2a6f97", "other": "#6b7785", "guide": "#9aa5b1"}
STYLES = ("--", ":", "-.", (0, (5, 1, 1, 1, 1, 1)), (0, (1, 3)), (0, (8, 3)))
_LONGEST_LABEL = 30


def import_matplotlib(module: str) -> Any:
    """Import a module of matplotlib, or tell how to get it."""
    try:
        return importlib.import_module(f"matplotlib.{module}")
    except ImportError as error:
        raise ImportError(
            "plots need matplotlib, which is not installed: pip install 'suquan[plot]'."
        ) from error


def make_axes(
    ax: Any, *, n: int = 1, size: tuple[float, float] = (6.4, 4.4), **look: Any
) -> tuple[Any, Any]:
    """Return the given axes, one or an array of two, and their figure; or new ones."""
    if ax is None:
        look |= {"figsize": size, "layout": "constrained"}
        _, ax = import_matplotlib("pyplot").subplots(1, n, **look)
    axes = np.ravel(ax)
    if len(axes) != n or not all(hasattr(axis, "plot") for axis in axes):
        what = "matplotlib Axes" if n == 1 else "two matplotlib Axes, before and after"
        raise ValueError(f"ax must be {what}; got {ax!r}.")
    return (axes[0] if n == 1 else axes), axes[0].figure


def finish(ax: Any, *, legend: bool = False) -> None:
    """Take away the frame, and add a legend; its names and those of the axes are never mathematics."""
    ax.spines[["top", "right"]].set_visible(False)
    names = ax.legend(frameon=False, fontsize="small").get_texts() if legend else []
    for text in (ax.xaxis.label, ax.yaxis.label, *names):
        text.set_parse_math(False)


def label(name: Any) -> str:
    """Make a name fit beside an axis: in one line, and shortened in the middle where it is long."""
    name = str(name).encode(errors="replace").decode()  # fonts have no lone surrogates
    name = " ".join(name.split()) or "(no name)"
    half = (_LONGEST_LABEL - 1) // 2
    return name if len(name) <= _LONGEST_LABEL else f"{name[:half]}…{name[-half:]}"


def vector(name: str, values: Any) -> np.ndarray:
    """Return values as a vector of floats, or refuse them by name."""
    vector = np.asarray(values, dtype=np.float64)
    if vector.ndim != 1 or not vector.size:
        raise ValueError(f"{name} must be a vector of at least one number; got {vector.shape}.")
    return vector


def limits(share: float, least: float, *values: np.ndarray) -> tuple[float, float]:
    """Limits of an axis that shows all values, with a margin of this share of their range."""
    low, high = min(map(np.min, values)), max(map(np.max, values))
    margin = share * max(high - low, least)
    return float(low - margin), float(high + margin)


def label_ends(ax: Any, lines: Any, names: Any) -> list[Any]:
    """Write names at the right ends of lines, in their colours, moved apart where they would overlap."""
    low, high = ax.get_ylim()
    ends = np.array([(line.get_ydata()[-1] - low) / (high - low) for line in lines])
    steps, order = 0.055 * np.arange(len(ends)), np.argsort(ends)
    places = np.empty(len(ends))
    places[order] = np.maximum.accumulate(ends[order] - steps) + steps
    places -= max(0.0, places.max() - 1.0)
    look = {"transform": ax.transAxes, "va": "center", "fontsize": "small", "parse_math": False}
    return [
        ax.text(1.02, place, label(name), color=line.get_color(), **look)
        for place, line, name in zip(places, lines, names, strict=True)
    ]


def shown_places(n: int, most: int = 500, at_ends: int = 30) -> np.ndarray:
    """All of n places, or `most` of them, spread evenly, and those at the ends, where targets are steep."""
    ends = np.arange(min(at_ends, n))
    spread = np.linspace(0, n - 1, min(n, most)).round().astype(np.intp)
    return np.unique(np.r_[spread, ends, n - 1 - ends])
