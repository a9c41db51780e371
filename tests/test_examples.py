"""The scripts of the gallery: each runs, draws a picture, and is short."""

import ast
import runpy
from pathlib import Path

import matplotlib
import matplotlib.pyplot as plt
import pytest

SCRIPTS = sorted((Path(__file__).parent.parent / "examples").glob("plot_*.py"))
LONG = {"plot_digits", "plot_pipeline", "plot_survival", "plot_verdict"}


@pytest.mark.parametrize(
    "script",
    [
        pytest.param(script, id=script.stem, marks=[pytest.mark.slow] * (script.stem in LONG))
        for script in SCRIPTS
    ],
)
@pytest.mark.filterwarnings("ignore:FigureCanvasAgg is non-interactive")
def test_the_script_runs_and_draws(script, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    plt.close("all")
    with matplotlib.rc_context({"backend": "Agg"}):
        runpy.run_path(str(script))
    axes = [axis for number in plt.get_fignums() for axis in plt.figure(number).axes]
    plt.close("all")
    assert any(axis.has_data() for axis in axes)
    assert not list(tmp_path.iterdir())  # nothing is left where a reader works


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_the_script_is_short_and_has_a_title(script):
    lines = script.read_text("utf-8").splitlines()
    title, underline, *_ = ast.get_docstring(ast.parse("\n".join(lines))).splitlines()
    assert set(underline) == {"="}
    assert len(underline) == len(title)
    assert len(lines) < 80
    assert "# %%" in lines
