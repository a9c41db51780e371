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
    "font.size": 9.5,
    "text.usetex": False,
    "axes.linewidth": 0.8,
    "axes.unicode_minus": True,
    **dict.fromkeys(_COLORED, _INK),
    **dict.fromkeys(("axes.facecolor", "figure.facecolor", "savefig.facecolor"), "none"),
}
_FONT, _FAMILY = re.compile(r"font: [^;]*?([\d.]+px)[^;]*"), re.compile("font-family: [^;]*;? ?")
_DROPPED = {"metadata", "style", "title"}
_numbers = count(1)


def draw(plot: Callable[[Any], Any], *, width: float = 4.5, height: float = 3.4) -> str:
    """Return what `plot` draws on new axes, as one <svg> element.

    It refers to nothing outside itself, its ids are used by no other drawing of this process, and its colours
    are those of the page, light or dark.

    Parameters
    ----------
    plot : callable
        Takes matplotlib Axes.
    width, height : float
        In inches, with text of 9.5 points; the page scales the whole.
    """
    look = _LOOK | {"svg.hashsalt": f"suquan{next(_numbers)}"}  # ids follow from it
    context = import_matplotlib("style").context(look, after_reset=True)
    with context, warnings.catch_warnings():
        # The browser draws the letters, with any of its fonts.
        warnings.filterwarnings("ignore", message="Glyph .* missing")
        figure = import_matplotlib("figure").Figure(figsize=(width, height), layout="constrained")
        plot(figure.add_subplot())
        file = io.StringIO()
        figure.savefig(file, format="svg", metadata={"Date": None})
    return _inline(file.getvalue())


def figure_of(
    plot: Callable[..., Any], description: str, caption: str, *, height: float = 3.8
) -> Figure:
    """Return the figure of what `plot` draws on the axes ``ax=``, of a height in inches."""
    return Figure(draw(lambda ax: plot(ax=ax), height=height), description, caption)


def _inline(svg: str) -> str:
    """Turn an SVG file into an element of an HTML page: no namespaces, outside references or ids of groups."""
    root = ElementTree.fromstring(clean(svg))
    for element in root.iter():
        element.tag = _local(element.tag)
        element[:] = [child for child in element if _local(child.tag) not in _DROPPED]
        attributes = {_local(name): value for name, value in element.items()}
        if element.tag == "g":  # every drawing of matplotlib calls its groups the same
            attributes.pop("id", None)
        if not attributes.get("href", "#").startswith(("#", "data:image/")):
            del attributes["href"]
        if "style" in attributes:  # fonts are the page's, sizes the drawing's
            attributes["style"] = _FAMILY.sub("", _FONT.sub(r"font-size: \1", attributes["style"]))
        element.attrib = attributes
    for name in ("width", "height", "version"):
        root.attrib.pop(name, None)
    text = ElementTree.tostring(root, encoding="unicode")
    for color, name in _VARIABLES.items():
        text = text.replace(color, f"var(--{name})")
    return re.sub(r">\s+<", "><", text)


def _local(name: str) -> str:
    return name.rpartition("}")[2]
