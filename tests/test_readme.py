"""The README and the pages of the documentation: links lead somewhere."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "benchmarks/README.md")),
    *sorted(ROOT.glob("docs/**/*.md")),
]


def test_the_readme_is_short():
    assert len((ROOT / "README.md").read_text("utf-8").splitlines()) <= 150


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_to_files(page):
    links = re.findall(r"\]\(([^)\s]+)\)", page.read_text("utf-8"))
    inside = [link.partition("#")[0] for link in links if "://" not in link]
    missing = [link for link in inside if link and not (page.parent / link).exists()]
    assert not missing


@pytest.mark.parametrize("page", ["README.md", "docs/benchmarks.md"])
def test_pages_have_the_markers_that_the_benchmarks_fill(page):
    text = (ROOT / page).read_text("utf-8")
    assert text.count("<!-- bench:start -->") == text.count("<!-- bench:end -->") == 1
    assert text.index("<!-- bench:start -->") < text.index("<!-- bench:end -->")
