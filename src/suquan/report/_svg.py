"""matplotlib figures as inline SVG that follows the colours of the page; all sections draw with it."""

import io
import re
import warnings
from collections.abc import Callable
from itertools import count
from typing import Any
from xml.etree import ElementTree

from suquan.plotting._axes import COLORS, import_matplotlib
from suquan.report._page import Figure, clean

_INK = "#1f2933"
# Colours of the drawing and the style sheet's names for them.
_VARIABLES = {_INK: "ink", **{color: name for name, color in COLORS.items()}}
_COLORED = ("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color")
_LOOK: dict[str, Any] = {
    "svg.fonttype": "none",  # letters stay letters: found, read aloud, and drawn in the page's font
    "svg.hashsalt": "suquan",  # the same drawing has the same ids
    "font.size": 9.5,
    "text.usetex": False,
    "axes.linewidth": 0.8,
    "axes.unicode_minus": True,
    **dict.fromkeys(_COLORED, _INK),
    **dict.fromkeys(("axes.facecolor", "figure.facecolor", "savefig.facecolor"), "none"),
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
    style = import_matplotlib("style")
    with style.context(_LOOK, after_reset=True), warnings.catch_warnings():
        # The browser draws the letters, with any of its fonts.
        warnings.filterwarnings("ignore", message="Glyph .* missing")
        figure = import_matplotlib("figure").Figure(figsize=(width, height), layout="constrained")
        plot(figure.add_subplot())
        file = io.StringIO()
        figure.savefig(file, format="svg", metadata={"Date": None})
    return to_inline(file.getvalue(), f"g{next(_numbers)}-")


def figure_of(
    plot: Callable[..., Any], description: str, caption: str, *, height: float = 3.8
) -> Figure:
    """Figure of what `plot` draws on the axes ``ax=``, of a height in inches."""
    return Figure(draw(lambda ax: plot(ax=ax), height=height), description, caption)


def to_inline(svg: str, prefix: str) -> str:
    """SVG file as an element of an HTML page: no outside references, ids with a prefix of their own."""
    root = ElementTree.fromstring(clean(re.sub(r"<!DOCTYPE[^>]*>", "", svg, count=1)))
    used = set(re.findall(r'(?:url\(|href=")#([^)"]+)', svg))
    for element in root.iter():
        for child in [child for child in element if _local(child.tag) in _DROPPED]:
            element.remove(child)
        _clean_element(element, used, prefix)
    for name in ("width", "height", "version"):
        root.attrib.pop(name, None)
    text = ElementTree.tostring(root, encoding="unicode")
    for color, name in _VARIABLES.items():
        text = text.replace(color, f"var(--{name})")
    return re.sub(r">\s+<", "><", text)


def _clean_element(element: ElementTree.Element, used: set[str], prefix: str) -> None:
    """Drop namespaces, unused ids and outside references; rename the ids that are used."""
    element.tag = _local(element.tag)
    attributes = {_local(name): value for name, value in element.attrib.items()}
    element.attrib.clear()
    for name, value in attributes.items():
        if name == "id":
            value = prefix + value if value in used else ""
        elif name == "href":  # pictures within the drawing are data
            within = value.startswith("data:image/")
            value = f"#{prefix}{value[1:]}" if value[:1] == "#" else value if within else ""
        elif name == "style" and element.tag == "text":  # fonts are the page's, sizes the drawing's
            value = re.sub(r"font(-family)?:[^;]*'[^;]*;?\s*", _font_size, value)
        elif name == "d":
            value = " ".join(value.split())
        else:
            value = value.replace("url(#", f"url(#{prefix}")
        if value:
            element.set(name, value)


def _font_size(match: re.Match[str]) -> str:
    size = re.search(r"[\d.]+px", match.group())
    return f"font-size: {size.group()}; " if size else ""


def _local(name: str) -> str:
    return name.rpartition("}")[2]
