"""What all displays share: colours, axes, labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

# One colour per kind of method; kinds also differ by place, line style or label.
COLORS = {
    "learned": "#c8553d",
    "fixed": "#2a6f97",
    "other": "#6b7785",
    "guide": "#9aa5b1",
}
_LONGEST_LABEL = 30


def pyplot() -> Any:
    """Matplotlib's pyplot, or an error that tells how to get it."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError(
            "plots need matplotlib, which is not installed: pip install 'suquan[plot]'."
        ) from error
    return plt


def make_axes(ax: Any, height: int | None = None) -> tuple[Any, Any]:
    """The given axes and their figure, or new ones, with room for `height` rows."""
    if ax is None:
        size = (6.4, 4.4) if height is None else (6.4, 1.2 + 0.34 * height)
        _, ax = pyplot().subplots(figsize=size, layout="constrained")
    if not hasattr(ax, "plot"):
        raise ValueError(f"ax must be matplotlib Axes; got {ax!r}.")
    return ax, ax.figure


def two_axes(ax: Any) -> tuple[np.ndarray, Any]:
    """The two given axes and their figure, or new ones."""
    if ax is None:
        _, ax = pyplot().subplots(1, 2, figsize=(8, 3.6), layout="constrained")
    axes = np.ravel(ax)
    if len(axes) != 2 or not all(hasattr(axis, "plot") for axis in axes):
        raise ValueError(f"ax must be two matplotlib Axes, before and after; got {ax!r}.")
    return axes, axes[0].figure


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


def check_known(parameter: str, names: Sequence[str], known: Mapping[str, Any]) -> None:
    """Raise a ValueError for the first name that is not a known method."""
    for name in names:
        if name not in known:
            listed = ", ".join(repr(k) for k in known)
            raise ValueError(f"{parameter}: {name!r} was not compared; known are {listed}.")


def some(n: int, most: int) -> np.ndarray:
    """All of n places, or `most` of them, spread evenly, with the first and the last."""
    return np.unique(np.linspace(0, n - 1, min(n, most)).round().astype(np.intp))
