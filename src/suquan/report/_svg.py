"""matplotlib figures as inline SVG that follows the colours of the page."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable
from itertools import count
from typing import Any
from xml.etree import ElementTree

from suquan.plotting._axes import COLORS
from suquan.report._page import clean

_INK = "#1f2933"
# Colours of the drawing and the style sheet's names for them.
_VARIABLES = {_INK: "ink", **{color: name for name, color in COLORS.items()}}
_LOOK: dict[str, Any] = {
    "svg.fonttype": "none",  # letters stay letters: found, read aloud, and drawn in the page's font
    "svg.hashsalt": "suquan",  # the same drawing has the same ids
    "font.size": 9.5,
    "text.usetex": False,
    "text.color": _INK,
    "axes.edgecolor": _INK,
    "axes.labelcolor": _INK,
    "axes.linewidth": 0.8,
    "axes.unicode_minus": True,
    "axes.facecolor": "none",
    "figure.facecolor": "none",
    "savefig.facecolor": "none",
    "xtick.color": _INK,
    "ytick.color": _INK,
}
_DROPPED = {"metadata", "style", "title"}
_numbers = count(1)


def draw(plot: Callable[[Any], Any], *, width: float = 4.5, height: float = 3.4) -> str:
    """What `plot` draws on new axes, as one <svg> element.

    It refers to nothing outside itself, its ids are used by no other drawing of this process, and its colours
    are those of the page, light or dark.

    Parameters
    ----------
    plot : callable
        Takes matplotlib Axes.
    width, height : float
        In inches, with text of 9.5 points; the page scales the whole.

    Returns
    -------
    str
    """
    matplotlib = _matplotlib()
    from matplotlib.figure import Figure

    with matplotlib.style.context(_LOOK, after_reset=True), warnings.catch_warnings():
        # The browser draws the letters, with any of its fonts.
        warnings.filterwarnings("ignore", message="Glyph .* missing")
        figure = Figure(figsize=(width, height), layout="constrained")
        plot(figure.add_subplot())
        file = io.StringIO()
        figure.savefig(file, format="svg", metadata={"Date": None})
    return to_inline(file.getvalue(), f"g{next(_numbers)}-")


def to_inline(svg: str, prefix: str) -> str:
    """SVG file as an element of an HTML page: no outside references, ids with a prefix of their own."""
    root = ElementTree.fromstring(clean(re.sub(r"<!DOCTYPE[^>]*>", "", svg, count=1)))
    used = set(re.findall(r'(?:url\(|href=")#([^)"]+)', svg))
    _strip(root, used, prefix)
    for name in ("width", "height", "version"):
        root.attrib.pop(name, None)
    text = ElementTree.tostring(root, encoding="unicode")
    for color, name in _VARIABLES.items():
        text = text.replace(color, f"var(--{name})")
    return re.sub(r">\s+<", "><", text)


def _strip(element: ElementTree.Element, used: set[str], prefix: str) -> None:
    """Drop namespaces, metadata and unused ids; rename the ids that are used."""
    element.tag = _local(element.tag)
    attributes = {_local(name): value for name, value in element.attrib.items()}
    element.attrib.clear()
    for name, value in attributes.items():
        if name == "id":
            if value in used:
                element.set(name, prefix + value)
        elif name == "href":
            if value.startswith("#"):
                element.set(name, f"#{prefix}{value[1:]}")
            elif value.startswith("data:image/"):  # pictures within the drawing
                element.set(name, value)
        elif name == "style" and element.tag == "text":
            element.set(name, re.sub(r"font(-family)?:[^;]*'[^;]*;?\s*", _font_size, value))
        elif name == "d":
            element.set(name, " ".join(value.split()))
        else:
            element.set(name, value.replace("url(#", f"url(#{prefix}"))
    for child in list(element):
        if _local(child.tag) in _DROPPED:
            element.remove(child)
        else:
            _strip(child, used, prefix)


def _font_size(match: re.Match[str]) -> str:
    """The size of a font without its families: those are the page's."""
    size = re.search(r"[\d.]+px", match.group())
    return f"font-size: {size.group()}; " if size else ""


def _local(name: str) -> str:
    return name.rpartition("}")[2]


def _matplotlib() -> Any:
    try:
        import matplotlib.style
    except ImportError as error:
        raise ImportError(
            "the report's figures need matplotlib, which is not installed: pip install 'suquan[plot]'."
        ) from error
    return matplotlib
