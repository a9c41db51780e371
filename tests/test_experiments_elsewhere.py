"""The experiments on calibration, platforms and Kendall kernels, on tiny settings and made-up data."""

import numpy as np
import pytest
from experiment_runs import rows
from experiment_runs import run as run_experiment
from scipy.stats import norm

from experiments.kendall.run import centred
from experiments.platforms import batches
from suquan.datasets import make_corrupted_classification
from suquan.kernels import kendall_kernel

GRIDS = {"n_alphas": 2, "n_smoothnesses": 2, "n_knots": 6}
TINY = {
    "calibration": {**GRIDS, "datasets": ["one", "two"], "outer_repeats": 1, "inner_repeats": 1},
    "platforms": {**GRIDS, "labels": ["LumA", "Her2", "all"], "fixed": ["uniform"], "batches": [1, 5, 0]},
    "kendall": {**GRIDS, "fixed": ["uniform"], "n_repeats": 1, "n_folds": 3, "costs": [0.1, 10.0]},
}  # fmt: skip


def run(name, *arguments):
    return run_experiment(name, *arguments, **TINY[name])


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    rng = np.random.default_rng(0)
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
    return folder


@pytest.fixture(scope="module")
def done(data, tmp_path_factory):
    folders = {}
    for name in TINY:
        folders[name] = tmp_path_factory.mktemp("results") / name
        result = run(name, "--data", data, "--out", folders[name])
        assert result.code == 0, result
    return folders


@pytest.mark.parametrize(
    ("name", "files"),
    [
        ("calibration", ["sets.csv", "summary.csv", "log_loss.png", "report.html"]),
        ("platforms", ["scores.csv", "labels.csv", "summary.csv", "batches.png", "report.html"]),
        ("kendall", ["folds.csv", "accuracies.csv", "accuracies.png", "report.html"]),
    ],
)
def test_an_experiment_ends_with_tables_figures_and_a_report(done, name, files):
    assert set(files) <= {path.name for path in done[name].iterdir()}
    assert "section 6" not in (done[name] / "report.html").read_text(encoding="utf-8")


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


def test_missing_files_are_named_before_anything_is_written(data, tmp_path):
    for name in ("platforms", "kendall"):
        result = run(name, "--data", tmp_path, "--out", tmp_path / "out")
        assert result.code == 1
        assert "has no" in result.err
        assert not (tmp_path / "out").exists()


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
