"""``python -m experiments.page``: writes the tables of the page anew from the result files."""

from __future__ import annotations

from pathlib import Path

from .tables import fill, prose_without_source, without_source

root = Path(__file__).resolve().parents[2]
page, results = root / "docs" / "experiments.md", root / "experiments" / "results"
text = fill(page.read_text(encoding="utf-8"), results)
page.write_text(text, encoding="utf-8")
for problem in (*without_source(text, page.parent), *prose_without_source(text, results)):
    print(problem)
