"""``python -m experiments.page``: writes the tables of the pages anew from the result files."""

from __future__ import annotations

from pathlib import Path

from .tables import fill, prose_without_source, without_source

root = Path(__file__).resolve().parents[2]
results = root / "experiments" / "results"
for page in sorted((root / "docs").rglob("*.md")):
    text = page.read_text(encoding="utf-8")
    if "<!-- table: " not in text:
        continue
    text = fill(text, results)
    page.write_text(text, encoding="utf-8")
    for problem in (*without_source(text, page.parent), *prose_without_source(text, results)):
        print(f"{page.name}: {problem}")
