"""Every number of the pages with results is in a result file."""

from pathlib import Path

import pytest

from experiments.page import tables as page

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "experiments" / "results"
PAGE = (ROOT / "docs" / "experiments.md").read_text(encoding="utf-8")
FAILURES = ROOT / "docs" / "guide" / "when_learning_does_not_help.md"
PAGES = [
    path
    for path in sorted((ROOT / "docs").rglob("*.md"))
    if "_build" not in path.parts and "<!-- table: " in path.read_text(encoding="utf-8")
]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_numbers_of_pages_are_those_of_the_result_files(path):
    """If this fails after a new run: ``python -m experiments.page`` writes the tables anew."""
    text = path.read_text(encoding="utf-8")
    assert page.fill(text, RESULTS) == text
    assert list(page.without_source(text, path.parent)) == []
    assert list(page.prose_without_source(text, RESULTS)) == []


def test_pages_with_results_name_the_folders_of_their_numbers():
    assert {path.name for path in PAGES} >= {
        "another_platform.md",
        "experiments.md",
        "several_targets.md",
        "survival.md",
        "when_learning_does_not_help.md",
    }
    for path in PAGES:
        assert "<!-- numbers: " in path.read_text(encoding="utf-8"), path
    for title in ("Simulated", "CIFAR-10", "Gene expression", "Better recipes"):
        section = PAGE.split(f"\n## {title}")[1].split("\n## ")[0]
        assert "<!-- numbers: " in section, title


def test_every_interval_of_the_tumours_holds_zero_as_the_guide_says():
    assert "Every interval holds 0" in FAILURES.read_text(encoding="utf-8")
    rows = page.read_rows(RESULTS / "expression" / "per_dataset.csv")
    assert [row["dataset"] for row in rows if not row["low"] < 0 < row["high"]] == []


def test_every_claim_is_answered_and_has_a_file():
    table = PAGE.split("## What the paper says")[1].split("\n## ")[0]
    rows = [line.strip("|").split("|") for line in table.splitlines() if line.startswith("|")][2:]
    assert len(rows) >= 15
    for claim, found, holds, file in rows:
        assert claim.strip()
        assert found.strip()
        assert holds.strip() in ("yes", "no", "partly", "open"), claim
        assert "](../experiments/results/" in file, claim


@pytest.fixture
def small(tmp_path):
    (tmp_path / "a.csv").write_text(
        "name,kind,n,score,p\nx,u,1,0.1234,0.0002\nx,v,2,0.9,0.5\ny,u,1,-3.5,\n"
    )
    return tmp_path


def test_cells_are_written_from_a_file(small):
    long = "<!-- table: file=a.csv; rows=name: x y; columns=n: 1 2; value=score; format=.2f -->"
    text = (
        f"{long}\n| what | 1 | 2 |\n|---|---|---|\n| the x | 9.99 | 9.99 |\n| the y | | |\n\nend\n"
    )
    filled = page.fill(text, small)
    assert filled.splitlines()[3:5] == ["| the x | 0.12 | 0.90 |", "| the y | −3.50 | – |"]
    assert page.fill(filled, small) == filled
    wide = (
        "<!-- table: file=a.csv; where=kind:u; rows=name; columns=score:+.1f p:p kind; best=no -->"
    )
    text = f"{wide}\n| name | a | b | c |\n|---|---|---|---|\n| `x` | | | |\n| y | | | |\n"
    assert page.fill(text, small).splitlines()[3:] == [
        "| `x` | +0.1 | < 0.001 | u |",
        "| y | −3.5 | – | u |",
    ]
    best = "<!-- table: file=a.csv; rows=name; columns=n score; format=.1f; best=row -->"
    text = f"{best}\n| name | a | b |\n|---|---|---|\n| x | | |\n"
    assert page.fill(text, small).splitlines()[3] == "| x | **1.0** | 0.1 |"


@pytest.mark.parametrize(
    ("rows", "message"),
    [(["| x | 1 |"], "other rows or columns"), (["| z | 1 | 2 |"], "no row whose name is 'z'")],
)
def test_a_table_that_does_not_fit_its_file_is_refused(small, rows, message):
    comment = "<!-- table: file=a.csv; rows=name; columns=n score -->"
    header = "| name | n |" if len(rows[0].split("|")) == 4 else "| name | n | score |"
    text = "\n".join([comment, header, "|---|---|", *rows, ""])
    with pytest.raises(ValueError, match=message):
        page.fill(text, small)


def test_prose_without_a_file_is_found(small):
    text = "# Page\n1.7\n## One\n<!-- numbers: .; aims: 9.9 -->\n```\n8.8\n```\n| 7.7 |\n−0.12 of 9.9, 0.6\n"
    found = list(page.prose_without_source(text.replace(": .;", f": {small.name};"), small.parent))
    assert found == [f"## One: 0.6 is in no file of {small.name}"]


def test_numbers_without_a_file_are_found(small):
    text = (
        "| claim | file |\n|---|---|\n| 0.12 and 3.5, 1 of 1 | [a](a.csv) |\n| none of 7 | 1.5 |\n"
    )
    assert list(page.without_source(text, small)) == ["line 4: 1.5 is in none of no file"]
    text = text.replace("0.12", "0.13").replace("1 of 1", "1 of 2")
    found = list(page.without_source(text, small))
    assert [problem.split(":")[0] for problem in found] == ["line 3", "line 3", "line 4"]
