"""Reports: one HTML file each, with its figures in it, that needs no network and no script.

:func:`write_report` tells what a comparison found. Other reports are made of :class:`Section`, :class:`Table`,
:class:`Figure` (with :func:`draw`) and :class:`Verdict`, and written by :func:`write_page`.
"""

from suquan.report._comparison import comparison_sections
from suquan.report._model import estimator_sections
from suquan.report._page import Figure, Section, Table, Verdict, render_page, write_page
from suquan.report._svg import draw
from suquan.report._write import write_report

__all__ = [
    "Figure", "Section", "Table", "Verdict", "comparison_sections", "draw",
    "estimator_sections", "render_page", "write_page", "write_report",
]  # fmt: skip
