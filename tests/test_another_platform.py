"""The page "Another platform": its Python runs, and its transcripts are what the commands say.

``python tests/test_another_platform.py`` writes the transcripts anew.
"""

import os
import tempfile
from pathlib import Path

import pytest
from data_files import FOLDER, data_file
from test_score_one_patient import NUMBER, numbers, replay

PAGE = Path(__file__).parents[1] / "docs" / "another_platform.md"


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


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        PAGE.write_text(replay(PAGE.read_text("utf-8")), "utf-8")
