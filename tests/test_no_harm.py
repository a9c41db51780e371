"""The study of rules that keep the start where learning does not pay: its page, and a small run."""

from functools import partial

import numpy as np
import pytest

from experiments.no_harm import run, table
from experiments.page.numbers import RESULTS
from experiments.tables import read_rows

FOLDER = RESULTS / "no_harm"
PAGE = RESULTS.parents[1] / "docs" / "design" / "no_harm.md"


def test_page_shows_the_tables_of_the_results():
    kept = [read_rows(FOLDER / "no_harm.csv"), read_rows(FOLDER / "verdict.csv")]
    page = PAGE.read_text(encoding="utf-8")
    for block in table.tables(*kept).strip().split("\n\n"):
        assert block in page


def test_stored_differences_are_those_of_the_stored_scores():
    kept = read_rows(FOLDER / "no_harm.csv")
    found = {
        (row["kind"], row["problem"], row["n"], row["rule"]): row
        for row in table.no_harm(table.read_scores(FOLDER))
    }
    assert len(found) == len(kept)
    for row in kept:
        new = found[row["kind"], row["problem"], row["n"], row["rule"]]
        assert new["draws"] == row["draws"]
        for name in ("auc", "minus_start", "low", "high", "worst"):
            np.testing.assert_allclose(new[name], row[name], atol=2e-6)


def test_the_default_and_its_start_are_compared(tmp_path, monkeypatch, capsys):
    quick = partial(run.compare, alphas=2, smoothnesses=2, n_knots=5)
    monkeypatch.setattr(run, "compare", quick)
    monkeypatch.setattr(run, "N_TEST", 40)
    monkeypatch.setattr(run, "N_FEATURES", 12)
    monkeypatch.setattr(run, "DRAWS", {30: 2, 60: 2})
    options = ["--out", str(tmp_path), "--kinds", "simulated", "--largest", "30"]
    run.main([*options, "--draws", "1"])
    first = (tmp_path / "scores.csv").read_text(encoding="utf-8")
    run.main(options)  # goes on where it was
    assert (tmp_path / "scores.csv").read_text(encoding="utf-8").startswith(first)
    scores = read_rows(tmp_path / "scores.csv")
    assert [row["draw"] for row in scores] == [0, 0, 0, 1, 1, 1]
    assert all(0.0 <= row[name] <= 1.0 for row in scores for name in ("start", "crossfit"))
    table.main(["--out", str(tmp_path)])
    rows = {(row["problem"], row["rule"]): row for row in read_rows(tmp_path / "no_harm.csv")}
    change = [row["crossfit"] - row["start"] for row in scores if row["problem"] == "normal"]
    assert rows["normal", "crossfit"]["minus_start"] == pytest.approx(np.mean(change), abs=1e-6)
    assert "| normal | 30 | 2 |" in capsys.readouterr().out
