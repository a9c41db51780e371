"""The page "Score one patient": its Python runs, and its transcripts are what the commands say.

``python tests/test_score_one_patient.py`` writes the transcripts anew.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from data_files import FOLDER, data_file

PAGE = Path(__file__).parents[1] / "docs" / "score_one_patient.md"
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
STEP = re.compile(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", re.MULTILINE)
NUMBER = re.compile(r"-?\d[\d,]*\.?\d*(?:e[-+]?\d+)?")


def say(command):
    """What a command of the page says, on both streams."""
    program, *arguments = shlex.split(command)
    known = {"suquan": [sys.executable, "-m", "suquan"], "python": [sys.executable]}
    done = subprocess.run(
        [*known.get(program, [program]), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
    )
    return done.stdout


def replay(page):
    """The page with the transcripts of its commands, run in the present folder."""
    names: dict = {"__name__": "page"}

    def block(fence):
        kind, text = fence.groups()
        if kind == "python":
            exec(compile(text, PAGE.name, "exec"), names)
            return fence.group()
        said = STEP.sub(lambda step: f"$ {step[1]}\n{say(step[1])}", text)
        return f"```{kind}\n{said}```"

    return FENCE.sub(block, page)


def numbers(text):
    return [float(number.replace(",", "")) for number in NUMBER.findall(text)]


@pytest.mark.skipif(shutil.which("Rscript") is None, reason="no Rscript: install r-base-core")
def test_the_page_runs_as_it_stands(tmp_path, monkeypatch):
    """But for the last digits of numbers, which differ from one machine to the next."""
    for name in ("brca_tcga100.npz", "rnaseq_scanb400.npz"):
        data_file(name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(os.environ, "SUQUAN_DATA", str(FOLDER))
    page = PAGE.read_text("utf-8")
    said = replay(page)
    assert NUMBER.sub("#", said) == NUMBER.sub("#", page)
    assert numbers(said) == pytest.approx(numbers(page), rel=0.01, abs=0.01)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        PAGE.write_text(replay(PAGE.read_text("utf-8")), "utf-8")
