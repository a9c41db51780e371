"""Put the summaries of the last benchmark run into docs/benchmarks.md, and six lines of them into README.md."""

from __future__ import annotations

import re
from pathlib import Path

from benchmarks._table import RESULTS

ROOT = Path(__file__).parent.parent
START, END = "<!-- bench:start -->", "<!-- bench:end -->"
# Headings in their order on the page; other summaries follow under their own names.
TITLES = {
    "normalize": "Quantile normalisation",
    "fit": "Whole fits",
    "cox": "Times to event",
    "selection": "Cross-validation",
    "verdict": "The verdict",
    "first_call": "First call",
}
SHOWN = "normalize"  # its first lines stand in README.md
N_SHOWN = 6


def fill(path: Path, block: str) -> None:
    """Replace what is between the markers of a page."""
    text = path.read_text(encoding="utf-8")
    pattern = re.escape(START) + ".*?" + re.escape(END)
    filled = f"{START}\n\n{block}\n\n{END}"
    text, n_found = re.subn(pattern, lambda match: filled, text, flags=re.DOTALL)
    if n_found != 1:
        raise SystemExit(
            f"{path.name} must have the markers {START} and {END} once; found {n_found}"
        )
    path.write_text(text, encoding="utf-8")


def ratio_columns(table: list[str]) -> list[str]:
    """A table's first three columns, which say what was measured, and its columns "other / suquan".

    Times do not stand beside them: they are of one dispatch, and a ratio is of the one where it is smaller.
    """
    rows = [line.split("|")[1:-1] for line in table]
    kept = [k for k, title in enumerate(rows[0]) if k < 3 or "/ suquan" in title]
    return ["|" + "|".join(row[k] for k in kept) + "|" for row in rows]


def main() -> None:
    summaries = {
        path.name.removesuffix("-summary.md"): path.read_text(encoding="utf-8").strip()
        for path in sorted(RESULTS.glob("*-summary.md"))
    }
    if SHOWN not in summaries:
        raise SystemExit("no summary in benchmarks/results; run `make bench` first")
    names = [*(name for name in TITLES if name in summaries), *sorted(summaries.keys() - TITLES)]
    parts = [f"## {TITLES.get(name, name)}\n\n{summaries[name]}" for name in names]
    # Summaries name files from the root of the repository; the page lies in docs/.
    fill(ROOT / "docs" / "benchmarks.md", "\n\n".join(parts).replace("](docs/", "]("))
    table = [line for line in summaries[SHOWN].splitlines() if line.startswith("|")]
    fill(ROOT / "README.md", "\n".join(ratio_columns(table[:N_SHOWN])))
    print(f"docs/benchmarks.md: {len(parts)} summaries from benchmarks/results")


if __name__ == "__main__":
    main()
