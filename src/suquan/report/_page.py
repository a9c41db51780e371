"""Pages made of sections, tables and figures, as one HTML file that needs nothing else.

Sections come in and the text of the page goes out. Every text is escaped in :func:`element`, once, when it is
written. Nothing but `Figure.svg` is taken as markup.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from itertools import count
from pathlib import Path
from typing import Any

from suquan.files.disk import replace_file

# No script, no connection, no plug-in: whatever a page holds, a browser that reads it loads nothing.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"
# Not allowed in HTML or in XML: control characters but tab and line ends, surrogates, non-characters.
_NOT_TEXT = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<link rel="icon" href="data:,">
{title}
<style>
{style}</style>
</head>
<body>
{header}
{nav}
{main}
{footer}
</body>
</html>
"""


def clean(text: str) -> str:
    """Replace characters that no document may hold by U+FFFD."""
    return _NOT_TEXT.sub("\N{REPLACEMENT CHARACTER}", text)


class Html(str):
    """Text that is markup already."""


def element(name: str, *content: Any, **attributes: Any) -> Html:
    """Write an element; attributes, and content that is not :class:`Html`, are escaped; empty attributes go."""
    opening = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(str(value))}"'
        for key, value in attributes.items()
        if value
    )
    parts = (part if isinstance(part, Html) else escape(str(part)) for part in content)
    return Html(f"<{name}{opening}>{''.join(parts)}</{name}>")


def paragraphs(*texts: Any, class_: str = "") -> list[Html]:
    """Write the texts that are not empty as paragraphs."""
    return [element("p", text, class_=class_) for text in texts if text]


@dataclass(frozen=True)
class Table:
    """Table with a caption; the first column holds the headers of the rows.

    The columns `numeric` are aligned to the right; their numbers should come as text. The rows `marked` are
    pointed out. `bars`, a number in [-1, 1] per row, are drawn in a column of their own, and say what the cells
    say already. A `folded` table shows only its caption until it is opened.
    """

    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    numeric: Iterable[int] = ()
    marked: Iterable[int] = ()
    bars: Sequence[float] | None = None
    folded: bool = False


@dataclass(frozen=True)
class Figure:
    """Drawing with the description that those who cannot see it read, and a caption for all.

    `svg` is one <svg> element, the only markup that is taken as it is; :func:`draw` makes it. The `description`
    says what it shows, with its numbers. A `wide` figure has the whole width of the page.
    """

    svg: str
    description: str
    caption: str
    wide: bool = False


@dataclass(frozen=True)
class Verdict:
    """The answer: a headline, a sentence, and a few numbers as pairs of a name and a text.

    The `tone` is "good", "bad" or "neutral".
    """

    tone: str
    headline: str
    text: str = ""
    numbers: Sequence[tuple[str, str]] = ()


@dataclass(frozen=True)
class Section:
    """Heading and what stands under it, in the order of the fields.

    `notes` are warnings, shown as a list; `code` is shown as typed; `sections` are parts, one level down.
    """

    heading: str
    verdict: Verdict | None = None
    paragraphs: Sequence[str] = ()
    notes: Sequence[str] = ()
    code: str = ""
    figures: Sequence[Figure] = ()
    tables: Sequence[Table] = ()
    sections: Sequence["Section"] = ()


def render_page(
    title: str, sections: Sequence[Section], *, subtitle: str = "", footer: str = ""
) -> str:
    """Write the page as HTML.

    Parameters
    ----------
    title : str
        The one first-level heading.
    sections : sequence of Section
    subtitle, footer : str
        One line each, above and below the sections.

    Examples
    --------
    >>> from suquan.report import Section, render_page
    >>> page = render_page("A & B", [Section("Result", paragraphs=["1 < 2"])])
    >>> "<h1>A &amp; B</h1>" in page, "<p>1 &lt; 2</p>" in page
    (True, True)
    """
    numbers = {Table: count(1), Figure: count(1)}
    links = [
        element("li", element("a", section.heading, href=f"#s{k}"))
        for k, section in enumerate(sections, start=1)
    ]
    nav = element("nav", element("ul", *links), aria_label="Contents")
    page = _PAGE.format(
        policy=_POLICY,
        title=element("title", title),
        style=files("suquan.report").joinpath("style.css").read_text(encoding="utf-8"),
        header=element("header", element("h1", title), *paragraphs(subtitle, class_="subtitle")),
        nav=nav if len(sections) > 1 else "",
        main=element("main", *_sections(sections, "s", 2, numbers)),
        footer=element("footer", *paragraphs(footer)) if footer else "",
    )
    return clean(page)


def write_page(path: Any, title: str, sections: Sequence[Section], **parts: str) -> Path:
    """Write :func:`render_page` to a file in one move: the whole page, or what was there before."""
    path, page = Path(path), render_page(title, sections, **parts).encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    return replace_file(path, lambda file: file.write(page))


def _sections(
    sections: Sequence[Section], prefix: str, level: int, numbers: Mapping[type, Iterator[int]]
) -> list[Html]:
    """Write sections with ids and numbers that are unique on the page."""
    made = []
    for k, section in enumerate(sections, start=1):
        name = f"{prefix}{k}"
        parts = [element(f"h{level}", section.heading, id=f"{name}-h")]
        if section.verdict is not None:
            parts.append(_verdict(section.verdict))
        parts += paragraphs(*section.paragraphs)
        if section.notes:
            notes = [element("li", note) for note in section.notes]
            parts.append(element("ul", *notes, class_="notes"))
        if section.code:
            parts.append(element("pre", element("code", section.code)))
        if section.figures:
            figures = [_figure(figure, next(numbers[Figure])) for figure in section.figures]
            parts.append(element("div", *figures, class_="figures"))
        parts += [_table(table, next(numbers[Table])) for table in section.tables]
        parts += _sections(section.sections, f"{name}-", min(level + 1, 6), numbers)
        made.append(element("section", *parts, id=name, aria_labelledby=f"{name}-h"))
    return made


def _verdict(verdict: Verdict) -> Html:
    tone = verdict.tone if verdict.tone in ("good", "bad") else "neutral"
    parts = paragraphs(verdict.headline, class_="headline") + paragraphs(verdict.text)
    pairs = [element("div", element("dt", k), element("dd", v)) for k, v in verdict.numbers]
    if pairs:
        parts.append(element("dl", *pairs))
    return element("div", *parts, class_=f"verdict {tone}")


def _figure(figure: Figure, number: int) -> Html:
    label = f'<svg role="img" aria-label="{escape(figure.description)}" '
    svg = Html(figure.svg.replace("<svg ", label, 1))
    caption = element("figcaption", f"Figure {number}. {figure.caption}")
    return element("figure", svg, caption, class_="wide" if figure.wide else "")


def _table(table: Table, number: int) -> Html:
    name, caption = f"t{number}", f"Table {number}. {table.caption}"
    kind = "pairs" if len(table.columns) == 2 and table.bars is None else ""
    frame = {"class_": "scroll", "role": "region", "aria_labelledby": name, "tabindex": "0"}
    numeric, marked = set(table.numeric), set(table.marked)
    classes = ["number" if k in numeric else "" for k in range(len(table.columns))]
    columns = zip(table.columns, classes, strict=True)
    head = [element("th", column, scope="col", class_=c) for column, c in columns]
    if table.bars is not None:
        head.append(element("td", class_="bar", aria_hidden="true"))
    rows = []
    for k, row in enumerate(table.rows):
        if len(row) != len(table.columns):
            raise ValueError(
                f"table {table.caption!r} has {len(table.columns)} columns but {len(row)} cells in "
                f"row {k}; give one cell per column."
            )
        cells = [element("th", row[0], scope="row")]
        cells += [element("td", row[j], class_=classes[j]) for j in range(1, len(row))]
        if table.bars is not None:
            cells.append(_bar(float(table.bars[k])))
        rows.append(element("tr", *cells, class_="marked" if k in marked else ""))
    parts = [element("thead", element("tr", *head)), element("tbody", *rows)]
    if table.folded:  # the summary already says what the caption would
        inner = element("table", *parts, class_=kind, aria_labelledby=name)
        summary = element("summary", caption, id=name)
        return element("details", summary, element("div", inner, **frame))
    title = element("caption", element("span", caption), id=name)
    return element("div", element("table", title, *parts, class_=kind), **frame)


def _bar(value: float) -> Html:
    """Write a cell with a bar from the middle to the left or to the right."""
    side, kind = ("right", "minus") if value < 0 else ("left", "plus")
    bar = element("span", class_=kind, style=f"{side}:50%;width:{50 * min(abs(value), 1.0):.1f}%")
    return element("td", bar, class_="bar", aria_hidden="true")
