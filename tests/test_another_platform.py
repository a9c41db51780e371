"""The tables of the page "Another platform" are those of the result files.

``python tests/test_another_platform.py`` writes them anew; ``tests/test_docs_blocks.py`` runs the page.
"""

import importlib
from pathlib import Path

from suquan.cli._reproduce import load_experiments

PAGE = Path(__file__).parents[1] / "docs" / "another_platform.md"
RESULTS = Path(__file__).parents[1] / "experiments" / "results"


def tables():
    return importlib.import_module(f"{load_experiments().__name__}.page.tables")


def test_numbers_of_the_page_are_those_of_the_result_files():
    page = PAGE.read_text("utf-8")
    assert tables().fill(page, RESULTS) == page
    assert list(tables().prose_without_source(page, RESULTS)) == []


if __name__ == "__main__":
    PAGE.write_text(tables().fill(PAGE.read_text("utf-8"), RESULTS), "utf-8")
