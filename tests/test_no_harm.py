"""The study of rules that keep the start where learning does not pay: a small problem, and its page."""

import numpy as np
import pytest
from sklearn.model_selection import StratifiedKFold

from experiments.no_harm import run, table
from experiments.no_harm.families import WEIGHTS, Families, Grid, mixture
from experiments.tables import read_rows, write_rows
from suquan.datasets import make_corrupted_classification

RESULTS = run.RESULTS
PAGE = RESULTS.parents[2] / "docs" / "design" / "no_harm.md"


def test_page_shows_the_tables_of_the_results():
    kept = [read_rows(RESULTS / "no_harm.csv"), read_rows(RESULTS / "verdict.csv")]
    page = PAGE.read_text(encoding="utf-8")
    for block in table.tables(*kept).strip().split("\n\n"):
        assert block in page


def test_rules_take_what_beats_the_start_inside():
    inner = {
        "start": [[0.70, 0.70, 0.70]],
        "half": [[0.71, 0.72, 0.71]],
        "learned": [[0.69, 0.80, 0.70]],
    }
    test = {"start": [0.1], "half": [0.2], "learned": [0.3]}
    part = {"alphas": [1.0], "smoothnesses": [0.0], "share": 0.5, "inner": inner, "test": test}
    found = table.rules(part)
    assert found["learned 0"] == found["better 0.5"] == 0.3
    assert found["learned 1"] == 0.1
    assert found["half 1"] == found["stairs 1"] == 0.2
    assert found["stairs 0"] == 0.3


def test_every_draw_of_the_study_is_stored():
    stored = table.read_scores(RESULTS)
    kept = {(row["kind"], row["problem"], row["n"], row["draw"]) for row in stored}
    kinds = ["simulated", "variants", "expression", "cifar10"]
    listed = {(task.arguments["kind"], *run.label(task.arguments)) for task in run.tasks(kinds)}
    assert kept == listed


def test_new_draws_are_added_to_the_kept_ones_and_all_are_read_again(tmp_path):
    def row(draw, rule, auc):
        return {"kind": "a", "problem": "b", "n": 1, "draw": draw, "rule": rule, "auc": auc}

    kept = [row(0, "start", 0.5), row(1, "start", 0.5), row(1, "half", 0.4)]
    found = table.added(kept, [row(1, "start", 0.6), row(2, "start", 0.6)], table.ABOUT)
    assert [(row["draw"], row["auc"]) for row in found] == [(0, 0.5), (1, 0.6), (2, 0.6)]
    write_rows(tmp_path / "scores.csv", table.wide(kept))
    assert table.read_scores(tmp_path) == kept


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_families_and_one_fit_are_scored():
    X, y = make_corrupted_classification(60, 20, corrupted="uniform", random_state=0)
    families = Families.of(X, y, Grid((1e-2, 1e-1), (0.0, 1e-2), 6, 1), 0)
    train, test = next(StratifiedKFold(2).split(X, y))
    found = families.scores(train, test)
    assert [len(found[name]) for name in ("start", "half", "learned")] == [2, 4, 4]
    inside = families.inside_one_fit(train, test, 0.2, 0.2)
    assert all(len(values) == len(WEIGHTS) for values in inside.values())
    assert inside["honest_error"][0] == 0.0


def test_mixture_has_mean_square_one():
    rng = np.random.default_rng(0)
    g0, g = np.linspace(-1, 1, 9), np.sort(rng.standard_normal(9))
    np.testing.assert_allclose(np.mean(mixture(g0, g, 0.5) ** 2), 1.0)
    np.testing.assert_allclose(np.corrcoef(mixture(g0, g, 1.0), g)[0, 1], 1.0)
