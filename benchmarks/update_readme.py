"""Put the summary tables of the last benchmark run between the markers of README.md."""

from __future__ import annotations

import re
from pathlib import Path

from benchmarks._table import RESULTS

README = Path(__file__).parent.parent / "README.md"
START, END = "<!-- bench:start -->", "<!-- bench:end -->"


def main() -> None:
    parts = [
        path.read_text(encoding="utf-8").strip() for path in sorted(RESULTS.glob("*-summary.md"))
    ]
    if not parts:
        raise SystemExit("no summary in benchmarks/results; run `make bench` first")
    block = "\n\n".join([START, *parts, END])
    text = README.read_text(encoding="utf-8")
    pattern = re.escape(START) + ".*?" + re.escape(END)
    text, n_found = re.subn(pattern, lambda match: block, text, flags=re.DOTALL)
    if n_found != 1:
        raise SystemExit(f"README.md must have the markers {START} and {END} once; found {n_found}")
    README.write_text(text, encoding="utf-8")
    print(f"README.md: {len(parts)} table(s) from benchmarks/results")


if __name__ == "__main__":
    main()
