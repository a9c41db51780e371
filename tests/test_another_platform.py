"""The page "Another platform": its Python runs, and its transcripts are what the commands say.

``python tests/test_another_platform.py`` writes the transcripts anew.
"""

import importlib
import os
import tempfile
from pathlib import Path

import pytest
from data_files import FOLDER, data_file
from test_score_one_patient import NUMBER, numbers, replay

from suquan.cli._reproduce import load_experiments

PAGE = Path(__file__).parents[1] / "docs" / "another_platform.md"
RESULTS = Path(__file__).parents[1] / "experiments" / "results"


def test_the_page_runs_as_it_stands(tmp_path, monkeypatch):
    """But for the last digits of numbers, which differ from one machine to the next."""
    for name in ("brca_metabric100.npz", "brca_tcga100.npz", "rnaseq_scanb400.npz"):
        data_file(name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(os.environ, "SUQUAN_DATA", str(FOLDER))
    page = PAGE.read_text("utf-8")
    said = replay(page)
    assert NUMBER.sub("#", said) == NUMBER.sub("#", page)
    assert numbers(said) == pytest.approx(numbers(page), rel=0.02, abs=0.02)


def test_numbers_of_the_page_are_those_of_the_result_files():
    """If this fails after a new run: ``python tests/test_another_platform.py`` writes the tables anew."""
    tables = importlib.import_module(f"{load_experiments().__name__}.page.tables")
    page = PAGE.read_text("utf-8")
    assert tables.fill(page, RESULTS) == page
    assert list(tables.prose_without_source(page, RESULTS)) == []


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        fill = importlib.import_module(f"{load_experiments().__name__}.page.tables").fill
        PAGE.write_text(fill(replay(PAGE.read_text("utf-8")), RESULTS), "utf-8")
