"""Pages made of sections, tables and figures, as one HTML file that needs nothing else.

Every text is escaped here, once, when it is written. Nothing but `Figure.svg` is taken as markup.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

from suquan._files import replace_file

# No script, no connection, no plug-in: whatever a page holds, a browser that reads it loads nothing.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"
# Not allowed in HTML or in XML: control characters but tab and line ends, surrogates, non-characters.
_NOT_TEXT = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")


def clean(text: Any) -> str:
    """Text without characters that no document may hold; they become U+FFFD."""
    return _NOT_TEXT.sub("\N{REPLACEMENT CHARACTER}", str(text))


def to_html(text: Any) -> str:
    """Text as HTML, for content and for quoted attributes."""
    return escape(clean(text), quote=True)


@dataclass(frozen=True)
class Table:
    """Table with a caption; the first column holds the headers of the rows.

    Attributes
    ----------
    caption : str
    columns : sequence of str
        Headers, one per column.
    rows : sequence of sequences
        Cells; numbers are written as they are given, so that they should come as text.
    numeric : collection of int
        Columns aligned to the right.
    marked : collection of int
        Rows to point out.
    bars : sequence of float or None
        A number in [-1, 1] per row, drawn as a bar in an extra column: what the cells say already.
    folded : bool
        Show only the caption until it is opened.
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

    Attributes
    ----------
    svg : str
        One <svg> element; the only markup that is taken as it is. See ``suquan.report.draw``.
    description : str
        What it shows, with its numbers.
    caption : str
    wide : bool
        Give it the whole width of the page.
    """

    svg: str
    description: str
    caption: str
    wide: bool = False


@dataclass(frozen=True)
class Verdict:
    """The answer: a headline, a sentence, and a few numbers with their names.

    Attributes
    ----------
    tone : {"good", "bad", "neutral"}
    headline : str
    text : str
    numbers : sequence of (name, value) pairs
    """

    tone: str
    headline: str
    text: str = ""
    numbers: Sequence[tuple[str, str]] = ()


@dataclass(frozen=True)
class Section:
    """Heading and what stands under it, in the order of the fields.

    Attributes
    ----------
    heading : str
    verdict : Verdict or None
    paragraphs : sequence of str
    notes : sequence of str
        Warnings, as a list.
    code : str
        Shown as typed.
    figures : sequence of Figure
    tables : sequence of Table
    sections : sequence of Section
        Parts, one level down.
    """

    heading: str
    verdict: Verdict | None = None
    paragraphs: Sequence[str] = ()
    notes: Sequence[str] = ()
    code: str = ""
    figures: Sequence[Figure] = ()
    tables: Sequence[Table] = ()
    sections: Sequence[Section] = field(default_factory=tuple)


def render_page(
    title: str, sections: Sequence[Section], *, subtitle: str = "", footer: str = ""
) -> str:
    """The page as HTML.

    Parameters
    ----------
    title : str
        The one first-level heading.
    sections : sequence of Section
    subtitle, footer : str
        One line each, above and below the sections.

    Returns
    -------
    str

    Examples
    --------
    >>> from suquan.report import Section, render_page
    >>> page = render_page("A & B", [Section("Result", paragraphs=["1 < 2"])])
    >>> "<h1>A &amp; B</h1>" in page, "<p>1 &lt; 2</p>" in page
    (True, True)
    """
    body = _Writer().sections(sections)
    links = "".join(
        f'<li><a href="#s{k}">{to_html(section.heading)}</a></li>'
        for k, section in enumerate(sections, start=1)
    )
    style = files("suquan.report").joinpath("style.css").read_text(encoding="utf-8")
    lines = [
        "<!DOCTYPE html>",
        '<html lang="en">',
        "<head>",
        '<meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        '<meta name="color-scheme" content="light dark">',
        '<link rel="icon" href="data:,">',
        f"<title>{to_html(title)}</title>",
        f"<style>\n{style}</style>",
        "</head>",
        "<body>",
        f"<header>\n<h1>{to_html(title)}</h1>",
        _paragraph(subtitle, "subtitle"),
        "</header>",
        f'<nav aria-label="Contents"><ul>{links}</ul></nav>' if len(sections) > 1 else "",
        f"<main>\n{body}\n</main>",
        f"<footer>{_paragraph(footer)}</footer>" if footer else "",
        "</body>",
        "</html>",
    ]
    return "\n".join(line for line in lines if line) + "\n"


def write_page(path: Any, title: str, sections: Sequence[Section], **parts: str) -> Path:
    """Write :func:`render_page` to a file in one move: the whole page, or what was there before."""
    path = Path(path)
    page = render_page(title, sections, **parts).encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    return replace_file(path, lambda file: file.write(page))


def _paragraph(text: Any, kind: str = "") -> str:
    if not text:
        return ""
    name = f' class="{kind}"' if kind else ""
    return f"<p{name}>{to_html(text)}</p>"


class _Writer:
    """Sections as HTML, with numbers that make every id unique on the page."""

    def __init__(self) -> None:
        self.n_tables = 0
        self.n_figures = 0

    def sections(self, sections: Sequence[Section], prefix: str = "s", level: int = 2) -> str:
        return "\n".join(
            self.section(section, f"{prefix}{k}", level)
            for k, section in enumerate(sections, start=1)
        )

    def section(self, section: Section, name: str, level: int) -> str:
        parts = [
            f'<section id="{name}" aria-labelledby="{name}-h">',
            f'<h{level} id="{name}-h">{to_html(section.heading)}</h{level}>',
            self.verdict(section.verdict),
            *(_paragraph(text) for text in section.paragraphs),
            self.notes(section.notes),
            f"<pre><code>{to_html(section.code)}</code></pre>" if section.code else "",
            self.figures(section.figures),
            *(self.table(table) for table in section.tables),
            self.sections(section.sections, f"{name}-", min(level + 1, 6)),
            "</section>",
        ]
        return "\n".join(part for part in parts if part)

    def verdict(self, verdict: Verdict | None) -> str:
        if verdict is None:
            return ""
        tone = verdict.tone if verdict.tone in ("good", "bad") else "neutral"
        numbers = "".join(
            f"<div><dt>{to_html(name)}</dt><dd>{to_html(value)}</dd></div>"
            for name, value in verdict.numbers
        )
        return (
            f'<div class="verdict {tone}">'
            f"{_paragraph(verdict.headline, 'headline')}{_paragraph(verdict.text)}"
            f"{f'<dl>{numbers}</dl>' if numbers else ''}</div>"
        )

    def notes(self, notes: Sequence[str]) -> str:
        if not notes:
            return ""
        items = "".join(f"<li>{to_html(note)}</li>" for note in notes)
        return f'<ul class="notes">{items}</ul>'

    def figures(self, figures: Sequence[Figure]) -> str:
        if not figures:
            return ""
        return f'<div class="figures">{"".join(self.figure(figure) for figure in figures)}</div>'

    def figure(self, figure: Figure) -> str:
        self.n_figures += 1
        svg = figure.svg.replace(
            "<svg ", f'<svg role="img" aria-label="{to_html(figure.description)}" ', 1
        )
        kind = ' class="wide"' if figure.wide else ""
        caption = f"Figure {self.n_figures}. {figure.caption}"
        return f"<figure{kind}>{svg}<figcaption>{to_html(caption)}</figcaption></figure>"

    def table(self, table: Table) -> str:
        self.n_tables += 1
        name = f"t{self.n_tables}"
        caption = to_html(f"Table {self.n_tables}. {table.caption}")
        body = f"{self._head(table)}{self._body(table)}"
        kind = ' class="pairs"' if len(table.columns) == 2 and table.bars is None else ""
        if table.folded:
            # The summary already says what the caption would.
            return (
                f'<details><summary id="{name}">{caption}</summary>'
                f'<div class="scroll" role="region" aria-labelledby="{name}" tabindex="0">'
                f'<table{kind} aria-labelledby="{name}">{body}</table></div></details>'
            )
        return (
            f'<div class="scroll" role="region" aria-labelledby="{name}" tabindex="0">'
            f'<table{kind}><caption id="{name}"><span>{caption}</span></caption>{body}</table></div>'
        )

    def _head(self, table: Table) -> str:
        numeric = set(table.numeric)
        cells = [
            f'<th scope="col"{_number(k in numeric)}>{to_html(column)}</th>'
            for k, column in enumerate(table.columns)
        ]
        if table.bars is not None:
            cells.append('<td class="bar" aria-hidden="true"></td>')
        return f"<thead><tr>{''.join(cells)}</tr></thead>"

    def _body(self, table: Table) -> str:
        numeric, marked = set(table.numeric), set(table.marked)
        rows = []
        for k, row in enumerate(table.rows):
            if len(row) != len(table.columns):
                raise ValueError(
                    f"table {table.caption!r} has {len(table.columns)} columns but {len(row)} cells in "
                    f"row {k}; give one cell per column."
                )
            cells = [f'<th scope="row">{to_html(row[0])}</th>'] + [
                f"<td{_number(column in numeric)}>{to_html(cell)}</td>"
                for column, cell in enumerate(row[1:], start=1)
            ]
            if table.bars is not None:
                cells.append(_bar(table.bars[k]))
            kind = ' class="marked"' if k in marked else ""
            rows.append(f"<tr{kind}>{''.join(cells)}</tr>")
        return f"<tbody>{''.join(rows)}</tbody>"


def _number(is_number: bool) -> str:
    return ' class="number"' if is_number else ""


def _bar(value: float) -> str:
    """A bar from the middle to the left or to the right."""
    width = 50 * min(abs(float(value)), 1.0)
    side = "right" if value < 0 else "left"
    kind = "minus" if value < 0 else "plus"
    return (
        f'<td class="bar" aria-hidden="true"><span class="{kind}" '
        f'style="{side}:50%;width:{width:.1f}%"></span></td>'
    )
