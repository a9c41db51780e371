"""What all displays share: colours, axes, labels; the report takes its colours from here."""

import importlib
from typing import Any

import numpy as np

# One colour per kind of method; kinds also differ by place, line style or label.
COLORS = {"learned": "#c8553d", "fixed": "#2a6f97", "other": "#6b7785", "guide": "#9aa5b1"}
_LONGEST_LABEL = 30


def import_matplotlib(module: str) -> Any:
    """A module of matplotlib, or an error that tells how to get it."""
    try:
        return importlib.import_module(f"matplotlib.{module}")
    except ImportError as error:
        raise ImportError(
            "plots need matplotlib, which is not installed: pip install 'suquan[plot]'."
        ) from error


def make_axes(
    ax: Any, *, n: int = 1, size: tuple[float, float] = (6.4, 4.4), **look: Any
) -> tuple[Any, Any]:
    """The given axes, one or an array of two, and their figure; or new ones."""
    if ax is None:
        look |= {"figsize": size, "layout": "constrained"}
        _, ax = import_matplotlib("pyplot").subplots(1, n, **look)
    axes = np.ravel(ax)
    if len(axes) != n or not all(hasattr(axis, "plot") for axis in axes):
        what = "matplotlib Axes" if n == 1 else "two matplotlib Axes, before and after"
        raise ValueError(f"ax must be {what}; got {ax!r}.")
    return (axes[0] if n == 1 else axes), axes[0].figure


def finish(ax: Any, *, legend: bool = False) -> None:
    """Take away the frame, and add a legend whose names are never mathematics."""
    ax.spines[["top", "right"]].set_visible(False)
    if legend:
        for text in ax.legend(frameon=False, fontsize="small").get_texts():
            text.set_parse_math(False)


def label(name: str) -> str:
    """A name that fits beside an axis: in one line, and shortened in the middle where it is long."""
    name = str(name).encode(errors="replace").decode()  # fonts have no lone surrogates
    name = " ".join(name.split()) or "(no name)"
    if len(name) > _LONGEST_LABEL:
        half = (_LONGEST_LABEL - 1) // 2
        name = f"{name[:half]}…{name[-half:]}"
    return name


def vector(name: str, values: Any) -> np.ndarray:
    """Values as a vector of floats, or an error that names them."""
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
    """Names at the right ends of lines, in their colours, moved apart where they would cover each other."""
    low, high = ax.get_ylim()
    ends = [(float(line.get_ydata()[-1]) - low) / (high - low) for line in lines]
    gap, order, places = 0.055, np.argsort(ends), np.empty(len(lines))
    places[order] = np.maximum.accumulate(np.array(ends)[order] - gap * np.arange(len(lines)))
    places[order] += gap * np.arange(len(lines))
    places -= max(0.0, places.max() - 1.0)
    return [
        ax.text(
            *(1.02, place, label(name)),
            **{"color": line.get_color(), "transform": ax.transAxes},
            **{"va": "center", "fontsize": "small", "parse_math": False},
        )
        for place, line, name in zip(places, lines, names, strict=True)
    ]


def spread_places(n: int, most: int) -> np.ndarray:
    """All of n places, or `most` of them, spread evenly, with the first and the last."""
    return np.unique(np.linspace(0, n - 1, min(n, most)).round().astype(np.intp))
