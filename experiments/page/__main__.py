"""``python -m experiments.page``: writes the tables of the page anew from the result files."""

from __future__ import annotations

from pathlib import Path

from .tables import fill, without_source

root = Path(__file__).resolve().parents[2]
page = root / "docs" / "experiments.md"
text = fill(page.read_text(encoding="utf-8"), root / "experiments" / "results")
page.write_text(text, encoding="utf-8")
for problem in without_source(text, page.parent):
    print(problem)
