"""The paper's experiments on tiny settings."""

import dataclasses
import shutil
from pathlib import Path

import numpy as np
import pytest
from experiment_runs import rows
from experiment_runs import run as run_experiment

from experiments.cifar10 import wider
from experiments.expression.paper import TABLE_2
from experiments.several.grey import grey_scores
from suquan import SuquanClassifier
from suquan.datasets import make_corrupted_classification, make_corrupted_survival

ROOT = Path(__file__).parents[1]
TINY = {
    "simulated": {
        "n_features": 20, "n_test": 40, "n_samples": [40, 60], "corruptions": ["cauchy", "uniform"],
        "seeds": 1, "inner_folds": 2, "inner_repeats": 1, "alphas": [0.01, 1.0], "smoothnesses": [1.0],
        "small_smoothnesses": [0.01], "n_alphas": 2, "n_smoothnesses": 2, "start_seeds": 1,
        "round_samples": [40], "round_seeds": 1, "max_rounds": 2,
    },
    "cifar10": {
        "classes": 3, "n_train": 30, "n_test": 10, "small_pairs": 1, "n_knots": 8, "rounds": 2,
        "paper_alphas": [0.1, 1.0], "alphas": [0.1, 1.0], "spav_smoothnesses": [0.0, 1.0],
    },
    "expression": {
        "datasets": ["plain", "probes", "table"], "outer_repeats": 1, "inner_repeats": 1, "n_knots": 8,
        "alphas": [0.0001, 0.01], "smoothnesses": [0.0, 0.001],
    },
    "several": {
        "targets": [1, 3], "pairs": 1, "size_pairs": 1, "sizes": [30], "knots": [4, 5], "knots_size": 30,
        "n_train": 30, "n_test": 10, "max_rounds": 2, "alphas": [0.1, 1.0], "trace_alphas": [0.1, 0.2],
        "matrix_alphas": [1.0], "grey_alphas": [0.1, 0.2], "one_knots": 8, "n_knots": 5, "seeds": 1,
        "simulated_knots": 5, "simulated": [[60, 12]], "rank_one": [60, 12], "n_alphas": 2,
        "n_smoothnesses": 2, "datasets": ["plain"],
    },
    "survival": {
        "datasets": ["breast_vdx150", "rnaseq_scanb400"], "fixed": ["normal", "uniform"],
        "outer_repeats": 1, "inner_repeats": 1, "n_alphas": 2, "n_smoothnesses": 2, "n_knots": 8,
        "truths": ["extremes", "uniform"], "sizes": [60], "n_features": 12, "seeds": 1,
    },
}  # fmt: skip


def run(name, *arguments, **changes):
    return run_experiment(name, *arguments, **(TINY[name] | changes))


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A folder with ten grey classes, two expression sets, and a table."""
    folder = tmp_path_factory.mktemp("data")
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(10), 40)
    # 50,000 training pictures are told from test pictures by their place.
    pictures = {
        "X_train": np.zeros((50_000, 1024), np.uint8),
        "y_train": np.full(50_000, 9),
        "X_test": rng.integers(0, 256, (10_000, 1024), dtype=np.uint8),
        "y_test": np.arange(10_000) % 10,
    }
    shades = rng.integers(0, 200, (10, 1024))
    pictures["X_train"][:400] = shades[labels] + rng.integers(0, 56, (400, 1024))
    pictures["y_train"][:400] = labels
    np.savez(folder / "cifar10_gray.npz", **pictures)
    X, y = make_corrupted_classification(45, 20, random_state=0)
    np.savez(folder / "plain.npz", X=X, y=np.r_[y[:-1], -1], n_missing=np.r_[0 * y[:19], 1])
    pm = np.exp(rng.normal(6, 1, (60, 40)))
    np.savez(
        folder / "probes.npz", pm=pm, probeset=np.repeat(np.arange(12), 5), y=np.arange(40) % 2
    )
    Z, times = make_corrupted_survival(60, 15, strength=3.0, random_state=0)
    for name, scale in (("breast_vdx150", 4000.0), ("rnaseq_scanb400", 1.0)):
        event = np.r_[times["event"][:-1].astype(int), -1]
        np.savez(folder / f"{name}.npz", X=Z, time=scale * times["time"], event=event)
    with open(folder / "table.csv", "w", encoding="utf-8") as file:
        file.write("sample,label," + ",".join(f"g{j}" for j in range(20)) + "\n")
        for i in range(45):
            file.write(f"s{i},{y[i]}," + ",".join(f"{v:.4f}" for v in X[i]) + "\n")
    return folder


@pytest.fixture(scope="module")
def done(data, tmp_path_factory):
    """Folders of finished experiments."""
    folders = {}
    for name in TINY:
        folders[name] = tmp_path_factory.mktemp("results") / name
        result = run(name, "--data", data, "--out", folders[name])
        assert result.code == 0, result
    return folders


FILES = {
    "simulated": ["fits", "curves", "gaps", "rounds", "figure1"],
    "cifar10": ["scores", "summary", "wins", "choices", "grid_ends", "ties_summary", "spav_summary",
                "figure2a", "figure2b", "figure3"],
    "expression": ["folds", "table1", "table2", "table2_paper", "tests", "targets", "figure4"],
    "several": ["scores", "summary", "wins", "choices", "simulation_summary", "knots_summary",
                "expression_tests", "verdicts"],
    "survival": ["scores", "verdicts", "cut", "claims"],
}  # fmt: skip


@pytest.mark.parametrize("name", list(TINY))
def test_an_experiment_ends_with_tables_figures_and_a_report(done, name):
    for stem in FILES[name]:
        path = done[name] / stem
        assert path.with_suffix(".png").is_file() or rows(path.with_suffix(".csv"))
    page = (done[name] / "report.html").read_text(encoding="utf-8")
    assert "In short" in page
    assert f"python -m experiments.{name} --protocol quick" in page


def test_simulated_compares_with_the_true_data(done):
    found = rows(done["simulated"] / "gaps.csv")
    assert all(float(row["gap_to_true"]) == 0 for row in found if row["method"] == "true")
    fits = rows(done["simulated"] / "fits.csv")
    methods = {row["method"] for row in fits}
    names = "true corrupted uniform bnd spav spav_small joint crossfit crossfit_learned crossfit_corrupted"
    assert methods == set(names.split())
    # Methods that see ranks alone have one result under all corruptions, and it counts once.
    for n in ("40", "60"):
        once = [r for r in fits if r["method"] == "crossfit" and r["n"] == n]
        assert [(r["corruption"], r["selection"]) for r in once] == [
            ("any", "best"),
            ("any", "smoothed"),
        ]
    corrupted = {r["corruption"]: float(r["distance"]) for r in fits if r["method"] == "corrupted"}
    assert corrupted["cauchy"] > corrupted["uniform"] > 0


def test_cifar10_does_every_pair_and_counts_how_often_ends_of_grids_are_chosen(done):
    found = rows(done["cifar10"] / "scores.csv")
    assert len({(row["first"], row["second"]) for row in found}) == 3
    assert len(found) == 3 * 14
    chosen = {
        (row["method"], row["penalty"], row["value"]): row["pairs"]
        for row in rows(done["cifar10"] / "choices.csv")
    }
    for row in rows(done["cifar10"] / "grid_ends.csv"):
        for end in ("lowest", "highest"):
            count = chosen.get((row["method"], row["penalty"], row[end]), "0")
            assert row[f"at_{end}"] == count, row


def test_cifar10_chooses_again_where_the_upper_end_of_a_grid_was_chosen(data):
    tiny = {key: tuple(v) if isinstance(v, list) else v for key, v in TINY["cifar10"].items()}
    settings = dataclasses.replace(wider.PROTOCOLS["quick"], **tiny)
    pair = {"first": "airplane", "second": "automobile", "score": 0.5}
    joint = pair | {"method": "joint", "alpha": 0.1, "smoothness": max(settings.smoothnesses)}
    spav = pair | {"method": "spav", "alpha": 1.0, "smoothness": 0.0}
    inside = pair | {"method": "svd", "alpha": 0.1, "smoothness": 0.0}
    grids = wider.wider_grids(settings, joint)
    assert list(grids) == ["smoothnesses"]
    assert grids["smoothnesses"][-3:] == pytest.approx([0.1, 1.0, 10.0])
    assert wider.wider_grids(settings, spav) == {"paper_alphas": (0.1, 1.0, 10.0, 100.0)}
    found = wider.once_more(settings, data, [joint, spav, inside])
    assert [row["method"] for row in found] == ["joint", "spav"]
    assert all(row["change"] == row["wider_score"] - 0.5 for row in found)


def test_expression_has_rma_where_probes_are_given(done):
    table = {row["dataset"]: row for row in rows(done["expression"] / "table2.csv")}
    assert table["probes"]["rma"]
    assert not table["plain"]["rma"]
    counts = {row["dataset"]: row for row in rows(done["expression"] / "table1.csv")}
    assert counts["plain"]["samples"] == "44"  # one without a label
    assert counts["plain"]["features"] == "19"  # one with filled values
    assert counts["table"]["samples"] == "45"
    paper = {row["dataset"]: row for row in rows(done["expression"] / "table2_paper.csv")}
    assert paper["Average"]["spav"] == "66.77"


def test_survival_has_every_method_on_every_set_and_the_price_of_cutting(done):
    found = {(row["dataset"], row["method"]) for row in rows(done["survival"] / "scores.csv")}
    cox = {"raw", "normal", "uniform", "crossfit", "start", "best_fixed"}
    assert {method for name, method in found if name == "rnaseq_scanb400"} == cox
    cut = {"uniform_cut", "crossfit_cut"}
    assert {method for name, method in found if name == "breast_vdx150"} == cox | cut
    prices = rows(done["survival"] / "cut.csv")
    assert [row["target"] for row in prices] == ["uniform", "crossfit"]
    for row in prices:
        difference = float(row["times"]) - float(row["cut"])
        assert float(row["difference"]) == pytest.approx(difference, abs=1e-5)
    claims = rows(done["survival"] / "claims.csv")
    assert [row["truth"] for row in claims] == ["extremes", "uniform"]
    verdicts = rows(done["survival"] / "verdicts.csv")
    assert all(int(row["samples"]) == 59 for row in verdicts)  # one event is not known


def test_several_has_every_method_on_every_study(done):
    found = rows(done["several"] / "scores.csv")
    assert {row["n"] for row in found} == {"30", "60"}
    assert len(found) == 2 * (8 + 2 + 1 + 1)
    assert {"multi_1", "multi_3", "matrix", "grey_3"} <= {row["method"] for row in found}
    simulated = rows(done["several"] / "simulation_summary.csv")
    assert {row["truth"] for row in simulated} == {"1", "3"}
    assert all(0 <= float(row["explained"]) <= 1.001 for row in simulated if row["truth"] == "3")
    knots = rows(done["several"] / "knots_summary.csv")
    assert {row["n_knots"] for row in knots} == {"4", "5"}


def test_curves_over_grey_values_are_those_over_places_where_these_are_the_same():
    rng = np.random.default_rng(0)
    X = rng.permuted(np.tile(np.arange(256, dtype=np.uint8), (80, 1)), axis=1)  # values are places
    y = (X[:, 0] > X[:, 1]).astype(int)
    (u,) = grey_scores(X[:60], y[:60], X[60:], [0.5], None, n_knots=6, max_rounds=100)
    model = SuquanClassifier("multi", alpha=0.5, n_knots=6).fit(X[:60], y[:60])
    np.testing.assert_allclose(u, model.decision_function(X[60:]), atol=0.05)


def test_average_of_the_papers_table_is_the_mean_of_its_rows():
    values = np.array([row for name, row in TABLE_2.items() if name != "Average"])
    np.testing.assert_allclose(values.mean(axis=0), TABLE_2["Average"], atol=0.02)


def test_a_broken_run_goes_on_where_it_was_and_gives_the_same(done, data, tmp_path):
    folder = tmp_path / "again"
    shutil.copytree(done["simulated"], folder)
    parts = sorted((folder / "parts").glob("*.json"))
    kept = {path.name: path.stat().st_mtime_ns for path in parts[2:]}
    expected = (folder / "gaps.csv").read_text()
    for path in parts[:2]:
        path.unlink()
    (folder / "gaps.csv").unlink()
    result = run("simulated", "--out", folder, "--resume")
    assert result.code == 0, result
    assert "2 of" in result.out
    assert (folder / "gaps.csv").read_text() == expected
    assert all((folder / "parts" / name).stat().st_mtime_ns == at for name, at in kept.items())


def test_stages_run_alone(done, tmp_path):
    folder = tmp_path / "stages"
    shutil.copytree(done["cifar10"], folder)
    for path in folder.glob("*.*"):
        if path.name != "settings.csv":
            path.unlink()
    for stage in ("table", "plot"):
        result = run_experiment("cifar10", "--stage", stage, "--out", folder)
        assert result.code == 0, result
    assert (folder / "report.html").is_file()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--set=nothing=1"], "no setting 'nothing'"),
        (["--set=seeds"], "NAME=VALUE"),
        (["--set=seeds=many"], "takes an integer"),
        (["--set=n_samples=3"], "takes a list"),
        (["--data=nowhere"], "nowhere does not exist"),
        (["--stage=plot"], "holds no results"),
    ],
)
def test_invalid_input_is_refused_in_one_line(tmp_path, arguments, message):
    result = run_experiment("simulated", "--out", tmp_path / "new", *arguments)
    assert result.code == 1
    assert message in result.err
    assert len(result.err.splitlines()) == 1
    assert not (tmp_path / "new").exists()


def test_a_folder_of_other_results_or_of_inputs_is_not_written_to(done, data):
    for name, more, changes, message in [
        ("simulated", [], {}, "--resume"),
        ("simulated", ["--resume"], {"seeds": 2}, "other settings (seeds)"),
        ("cifar10", ["--data", data], {}, "holds results of 'simulated'"),
        ("simulated", ["--data", done["simulated"]], {}, "is an input too"),
    ]:
        result = run(name, *more, "--out", done["simulated"], **changes)
        assert result.code == 1
        assert message in result.err


def test_missing_data_are_named(tmp_path):
    result = run("expression", "--data", tmp_path, "--out", tmp_path / "out")
    assert result.code == 1
    assert "no data set 'plain'" in result.err


def test_the_stored_pictures_of_cifar10_are_drawn_again_without_its_data(tmp_path):
    folder = tmp_path / "cifar10"
    shutil.copytree(ROOT / "experiments" / "results" / "cifar10", folder)
    for path in folder.glob("*.png"):
        path.unlink()
    assert run_experiment("cifar10", "--stage", "plot", "--out", folder).code == 0
    assert {"figure2a.png", "figure3.png"} <= {path.name for path in folder.iterdir()}


def test_experiments_use_the_public_interface_alone():
    """Experiments are what a user could write; writing files whole and progress are the project's own."""
    allowed = {"suquan.files.disk", "suquan._version", "suquan._progress"}
    for path in (ROOT / "experiments").rglob("*.py"):
        for line in path.read_text(encoding="utf-8").splitlines():
            words = line.split()
            if words[:1] == ["from"] and words[1].startswith("suquan."):
                private = any(part.startswith("_") for part in words[1].split("."))
                assert not private or words[1] in allowed, (path, line)
