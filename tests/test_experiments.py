"""The experiments on tiny settings and made-up data."""

import dataclasses
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from experiment_runs import rows
from experiment_runs import run as run_experiment
from scipy.stats import norm

from experiments.cifar10 import wider
from experiments.expression.paper import TABLE_2
from experiments.kendall.run import centred
from experiments.platforms import batches
from experiments.several.grey import grey_scores
from suquan import SuquanClassifier
from suquan.datasets import make_corrupted_classification, make_corrupted_survival
from suquan.kernels import kendall_kernel

ROOT = Path(__file__).parents[1]
ELSEWHERE = {"calibration", "platforms", "kendall"}  # not in the paper
# Modules with names on the pages of the reference.
PUBLIC = set(
    re.findall(
        r"currentmodule:: (suquan\.\S+)", (ROOT / "docs" / "api" / "index.rst").read_text("utf-8")
    )
)
GRIDS = {"n_alphas": 2, "n_smoothnesses": 2, "n_knots": 6}
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
    "calibration": {**GRIDS, "datasets": ["one", "two"], "outer_repeats": 1, "inner_repeats": 1},
    "platforms": {**GRIDS, "labels": ["LumA", "Her2", "all"], "fixed": ["uniform"], "batches": [1, 5, 0]},
    "kendall": {**GRIDS, "fixed": ["uniform"], "n_repeats": 1, "n_folds": 3, "costs": [0.1, 10.0]},
}  # fmt: skip


def run(name, *arguments, **changes):
    return run_experiment(name, *arguments, **(TINY[name] | changes))


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A folder with everything that the experiments read, small and made up."""
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
    folder = folder / "elsewhere"  # some of its files have the names of others
    folder.mkdir()
    for name, seed in (("one", 0), ("two", 1)):
        X, y = make_corrupted_classification(60, 15, random_state=seed)
        np.savez(folder / f"{name}.npz", X=X, y=y)
    subtypes = np.array(["LumA", "LumB", "Her2", "Basal", "Normal"])
    signal = rng.normal(size=(5, 12))
    genes = np.array([f"G{j}" for j in range(12)])
    sets = {"brca_metabric100": (8, 0), "brca_tcga100": (4, 2), "rnaseq_scanb400": (9, 0)}
    for name, (each, unknown) in sets.items():
        kinds = np.r_[np.tile(subtypes, each), np.repeat("", unknown)]
        known = np.searchsorted(np.sort(subtypes), kinds).clip(0, 4)
        X = 5 + signal[known] + rng.normal(size=(len(kinds), 12))
        X = np.exp2(X) if "tcga" in name else X
        order = rng.permutation(12)
        names = {"features": genes[order].astype("S"), "pam50": kinds.astype("S")}
        np.savez(folder / f"{name}.npz", X=X[:, order], **names)
    for name, n in (("prostate136", 40), ("colon_ct", 30), ("prostate_outcome", 21)):
        X, y = make_corrupted_classification(n, 12, random_state=n)
        np.savez(folder / f"{name}.npz", X=X, y=y)
    np.savez(folder / "prostate136_split.npz", train=np.arange(30), test=np.arange(30, 40))
    (folder / "kendall_table.csv").write_text(
        "set,file,protocol,n_train,n_test,SVMkdtALL,APMV\nPC1,a,b,1,2,100.00,73.53\n"
        "CT,a,b,1,2,85.78,64.49\nPC2,a,b,1,2,58.40,46.00\n"
    )
    return folder.parent


@pytest.fixture(scope="module")
def done(data, tmp_path_factory):
    """Folders of finished experiments."""
    folders = {}
    for name in TINY:
        folders[name] = tmp_path_factory.mktemp("results") / name
        own = data / "elsewhere" if name in ELSEWHERE else data
        result = run(name, "--data", own, "--out", folders[name])
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
    "calibration": ["sets", "summary", "log_loss"],
    "platforms": ["scores", "labels", "summary", "batches"],
    "kendall": ["folds", "accuracies"],
}  # fmt: skip


@pytest.mark.parametrize("name", list(TINY))
def test_an_experiment_ends_with_tables_figures_and_a_report(done, name):
    for stem in FILES[name]:
        path = done[name] / stem
        assert path.with_suffix(".png").is_file() or rows(path.with_suffix(".csv"))
    page = (done[name] / "report.html").read_text(encoding="utf-8")
    assert name not in ELSEWHERE or "section 6" not in page
    assert name in ELSEWHERE or "In short" in page
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
    key = ("method", "penalty", "value")
    chosen = {
        tuple(row[k] for k in key): row["pairs"] for row in rows(done["cifar10"] / "choices.csv")
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
    assert {name: row["samples"] for name, row in counts.items()} == {
        "plain": "44", "probes": "40", "table": "45",  # one without a label
    }  # fmt: skip
    assert counts["plain"]["features"] == "19"  # one with filled values
    np.testing.assert_allclose(
        np.mean([row for name, row in TABLE_2.items() if name != "Average"], axis=0),
        TABLE_2["Average"],
        atol=0.02,
    )


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


def test_figures_are_drawn_again_from_the_stored_tables_alone(tmp_path):
    folder = tmp_path / "cifar10"
    shutil.copytree(ROOT / "experiments" / "results" / "cifar10", folder)
    for path in folder.glob("*.png"):
        path.unlink()
    assert run_experiment("cifar10", "--stage", "plot", "--out", folder).code == 0
    assert {"figure2a.png", "figure3.png", "report.html"} <= {
        path.name for path in folder.iterdir()
    }


def test_experiments_use_the_public_interface_alone():
    """Experiments are what a user could write; whole files, progress and tests are the project's own."""
    allowed = {f"suquan.{name}" for name in ("files.disk", "_progress", "statistics", "survival")}
    for path in (ROOT / "experiments").rglob("*.py"):
        for module in re.findall(r"^(?:from|import) (suquan\.\S+)", path.read_text("utf-8"), re.M):
            assert module in PUBLIC | allowed, (path, module)


def test_calibration_compares_with_a_regression_by_log_loss(done):
    found = {(r["method"], r["calibration"]): r for r in rows(done["calibration"] / "summary.csv")}
    assert ("logistic_cv", "") in found
    kinds = {kind for method, kind in found if method == "uniform"}
    assert kinds == {"sigmoid", "isotonic", "none"}
    # Scores are the same, probabilities are not.
    assert len({found["uniform", kind]["score"] for kind in kinds}) == 1
    assert len({found["uniform", kind]["log_loss"] for kind in kinds}) == 3


def test_platforms_go_in_all_directions_that_have_enough_samples(done):
    found = rows(done["platforms"] / "scores.csv")
    ways = {"LumA": set(), "Her2": set(), "all": set()}
    batches = {}
    for row in found:
        ways[row["label"]].add((row["train"], row["test"]))
        batches.setdefault(row["method"], set()).add(row["batch"])
    assert len(ways["LumA"]) == len(ways["all"]) == 6
    assert ways["Her2"] == {("metabric", "scanb"), ("scanb", "metabric")}
    assert batches["crossfit"] == batches["raw"] == batches["uniform, scaled"] == {"alone"}
    assert batches["FSQN"] == batches["nonparanormal"] == {"1", "5", "all"}


def test_one_new_sample_alone_is_nothing_to_methods_that_need_a_batch(done):
    alone = [r for r in rows(done["platforms"] / "scores.csv") if r["batch"] == "1"]
    assert {r["method"] for r in alone} == {"FSQN", "nonparanormal", "z-scores of the batch"}
    assert {float(r["auc"]) for r in alone} == {0.5}
    assert {r["classes_named"] for r in alone} == {"1"}


@pytest.mark.parametrize("name", ["expression", "platforms", "kendall"])
def test_missing_files_are_named_before_anything_is_written(name, tmp_path):
    result = run(name, "--data", tmp_path, "--out", tmp_path / "out")
    assert result.code == 1
    assert ("no data set 'plain'" if name == "expression" else "has no") in result.err
    assert name == "expression" or not (tmp_path / "out").exists()


def test_kendall_has_the_published_accuracies_and_guesses_beside_ours(done):
    found = {(r["set"], r["method"]): r for r in rows(done["kendall"] / "accuracies.csv")}
    assert found["PC1", "SVMkdtALL"]["accuracy"] == "100"
    assert {"uniform", "crossfit", "Kendall SVM"} <= {method for _, method in found}
    assert found["PC2", "the most frequent class"]["source"] == "guess"


# -- methods that need a batch -------------------------------------------------------------------------


def test_fsqn_gives_every_gene_its_training_distribution():
    rng = np.random.default_rng(0)
    training, new = rng.exponential(size=(20, 3)), rng.normal(size=(20, 3))
    found = batches.feature_quantiles(new, training)
    np.testing.assert_allclose(np.sort(found, axis=0), np.sort(training, axis=0))
    np.testing.assert_array_equal(np.argsort(found, axis=0), np.argsort(new, axis=0))
    middle = batches.feature_quantiles(new[:1], training)
    np.testing.assert_allclose(middle[0], np.median(training, axis=0))


def test_nonparanormal_and_z_scores_are_those_of_the_samples_that_came_together():
    X = np.array([[3.0, 1.0], [1.0, 5.0], [2.0, 9.0]])
    quantiles = norm.ppf([0.25, 0.5, 0.75])
    expected = np.column_stack([quantiles[[2, 0, 1]], quantiles]) / np.std(quantiles, ddof=1)
    np.testing.assert_allclose(batches.nonparanormal(X), expected)
    np.testing.assert_allclose(batches.z_scores(X).std(axis=0), 1.0)
    for bring in (batches.nonparanormal, batches.z_scores):
        np.testing.assert_array_equal(bring(X[:1]), 0.0)


def test_the_centred_kernel_is_that_of_centred_features():
    X, y = make_corrupted_classification(40, 10, random_state=0)
    pairs = np.sign(X[:, :, None] - X[:, None, :])[:, *np.triu_indices(10, 1)]
    train, test = np.arange(30), np.arange(30, 40)
    K, K_test = centred(kendall_kernel(X), train, test)
    features = pairs - pairs[train].mean(axis=0)
    gram = features @ features[train].T
    gram /= np.mean(np.diag(gram[train]))
    np.testing.assert_allclose(K, gram[train], atol=1e-10)
    np.testing.assert_allclose(K_test, gram[test], atol=1e-10)
