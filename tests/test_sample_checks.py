"""Do new samples look like the training samples, and are samples there twice?"""

import csv
import subprocess
import sys
import warnings

import numpy as np
import pandas as pd
import pytest
from data_files import data_file
from scipy.stats import spearmanr

from suquan import (
    QuantileNormalizer,
    SuquanClassifier,
    SuquanClassifierCV,
    SuquanCox,
    SuquanRegressor,
    align_features,
    check_samples,
    compare,
    load_model,
    save_model,
)
from suquan.ranking import SampleOperator
from suquan.sample_checks import torn_duplicates

CONSTANT, TIED, FAR = "one value throughout", "mostly tied values", "far below"
GENES = [f"g{j}" for j in range(200)]


def make_samples(n_samples=40, seed=0):
    """Samples that share an order of their features, as patients do."""
    rng = np.random.default_rng(seed)
    return np.linspace(0.0, 6.0, len(GENES)) + rng.standard_normal((n_samples, len(GENES)))


X = make_samples()
Y = np.arange(40) % 2
STRANGE = np.stack(
    [
        np.random.default_rng(1).standard_normal(200),
        -X[0],
        np.full(200, 3.0),
        np.where(np.arange(200) < 180, 0.0, X[1]),
    ]
)
PROBLEMS = [FAR, FAR, CONSTANT, TIED]


@pytest.fixture(scope="module")
def model():
    return SuquanClassifier("fixed", missing="ignore").fit(pd.DataFrame(X, columns=GENES), Y)


def test_the_mean_ranks_are_those_of_the_samples_that_have_a_feature():
    gaps = X.copy()
    gaps[np.random.default_rng(2).random(X.shape) < 0.1] = np.nan
    for values in (X, gaps, np.round(X)):
        known = SuquanRegressor("fixed", missing="ignore").fit(values, X[:, 0]).training_ranks_
        m = np.sum(~np.isnan(values), axis=1, keepdims=True)
        ranks = pd.DataFrame(values).rank(axis=1).to_numpy()
        ranks = (2 * ranks - 1) / m - 1
        np.testing.assert_allclose(known["profile"], np.nanmean(ranks, axis=0), atol=1e-12)
        alone = []
        for i in range(len(values)):
            others, there = np.nanmean(np.delete(ranks, i, axis=0), axis=0), ~np.isnan(ranks[i])
            alone.append(np.corrcoef(ranks[i, there], others[there])[0, 1])
        np.testing.assert_allclose(known["correlations"], np.quantile(alone, [0, 0.05, 1]))


def test_strange_samples_are_told_and_others_are_not(model):
    new = pd.DataFrame(np.vstack([make_samples(seed=3), STRANGE]), columns=GENES)
    new.index = [f"s{i}" for i in range(len(new))]
    told = check_samples(model, np.exp(new))
    assert told["problem"].tolist() == [""] * 40 + PROBLEMS
    assert told["sample"].tolist() == new.index.tolist()
    assert {len(column) for column in told.values()} == {44}
    rho = spearmanr(new.iloc[0], model.training_ranks_["profile"]).statistic
    assert told["correlation"][0] == pytest.approx(rho, abs=0.02)
    assert np.isnan(told["correlation"][42])
    assert told["ties"][[0, 42]].tolist() == [0, 1]
    n_equal, m = 180, 200
    assert told["ties"][43] == pytest.approx((n_equal**3 - n_equal) / (m**3 - m))


def test_genes_may_lie_in_another_order_and_be_missing(model):
    new = pd.DataFrame(np.vstack([make_samples(seed=3), STRANGE[:3]]), columns=GENES)
    expected = check_samples(model, new)
    shuffled = check_samples(model, new[GENES[::-1]])
    np.testing.assert_array_equal(shuffled["correlation"], expected["correlation"])
    with pytest.warns(UserWarning, match="100 of the model's 200 features are missing"):
        told = check_samples(model, new[GENES[::2]])
    assert told["problem"].tolist() == [""] * 40 + PROBLEMS[:3]


def test_samples_without_a_common_order_are_not_judged():
    rng = np.random.default_rng(0)
    noise = rng.standard_normal((40, 200))
    model = SuquanClassifier("fixed").fit(noise, Y)
    told = check_samples(model, np.vstack([rng.standard_normal((50, 200)), STRANGE]))
    assert told["problem"].tolist() == [""] * 52 + PROBLEMS[2:]


def test_tied_training_samples_raise_the_limit_for_ties():
    counts = np.maximum(X - 5.0, 0.0)  # most genes are 0, as in single cells
    model = SuquanClassifier("fixed").fit(counts, Y)
    assert model.training_ranks_["ties"] > 0.5
    assert not any(check_samples(model, np.maximum(make_samples(seed=3) - 5.0, 0.0))["problem"])


@pytest.mark.parametrize("kind", ["classifier", "regressor", "cv", "cox"])
def test_the_profile_is_kept_in_files_and_old_ones_cannot_tell(kind, tmp_path):
    small = {"alphas": 2, "smoothnesses": 1, "cv": 2, "crossfit_cv": 2, "random_state": 0}
    model = {
        "classifier": SuquanClassifier("matrix").fit(X, Y),
        "regressor": SuquanRegressor("fixed", feature_scaling="std").fit(X, X[:, 0]),
        "cv": SuquanClassifierCV("fixed", **small).fit(X, Y),
        "cox": SuquanCox("fixed").fit(X, np.column_stack([np.exp(X[:, 0]), np.ones(40)])),
    }[kind]
    same = load_model(save_model(model, tmp_path / "m.suquan"))
    assert check_samples(same, STRANGE)["problem"].tolist() == PROBLEMS
    del same.training_ranks_
    same = load_model(save_model(same, tmp_path / "m.suquan"))
    with pytest.warns(UserWarning, match="keeps no mean ranks"):
        told = check_samples(same, STRANGE)
    assert told["problem"].tolist() == ["", "", CONSTANT, TIED]
    assert np.isnan(told["correlation"]).all()
    np.testing.assert_array_equal(same.predict(X), model.predict(X))


def test_a_fit_on_dask_keeps_the_same_profile():
    da = pytest.importorskip("dask.array")
    blocks = da.from_array(X, chunks=(7, -1))
    there = SuquanClassifier("fixed", feature_scaling="std").fit(blocks, Y).training_ranks_
    here = SuquanClassifier("fixed").fit(X, Y).training_ranks_
    for name, value in here.items():
        np.testing.assert_allclose(there[name], value, atol=1e-12)


PAIRS = [
    ("brca_metabric100", "brca_tcga100"),
    ("brca_metabric100", "rnaseq_scanb400"),
    ("brca_tcga100", "brca_metabric100"),
    ("rnaseq_scanb400", "brca_tcga100"),
    ("breast_gse3143", "breast_gse3143"),
]


def load(name):
    with np.load(data_file(f"{name}.npz")) as stored:
        columns = [gene.decode() for gene in stored["features"]]
        return pd.DataFrame(stored["X"].astype(float), columns=columns)


@pytest.mark.parametrize(("old", "new"), PAIRS)
def test_patients_of_another_platform_pass_and_standardised_genes_do_not(old, new):
    frame = load(old)
    model = SuquanClassifier("fixed").fit(frame, np.arange(len(frame)) % 2)
    frame = load(new)
    noise = pd.DataFrame(
        np.random.default_rng(0).standard_normal(frame.shape), columns=frame.columns
    )
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".* features are missing")
        told = {
            "as measured": check_samples(model, frame)["problem"],
            "standardised": check_samples(model, (frame - frame.mean()) / frame.std())["problem"],
            "noise": check_samples(model, noise)["problem"],
        }
    assert np.mean(told["as measured"] == "") == 1
    assert np.mean(told["standardised"] == FAR) > 0.85
    assert np.mean(told["noise"] == FAR) == 1


# ---------------------------------------------------------------- samples with one value throughout


@pytest.mark.parametrize("method", ["fixed", "matrix"])
@pytest.mark.parametrize("ties", ["average", "first"])
def test_a_sample_without_order_has_no_score(method, ties):
    model = SuquanClassifier(method, ties=ties).fit(X, Y)
    new = np.vstack([X[:2], np.ones((1, 200)), X[2:4]])
    with pytest.warns(UserWarning, match="1 of 5 samples have one value throughout.*: 2. "):
        scores = model.decision_function(new)
    with pytest.warns(UserWarning, match="one value throughout"):
        chances = model.predict_proba(new)
    np.testing.assert_array_equal(np.isnan(scores), np.arange(5) == 2)
    np.testing.assert_array_equal(scores[[0, 1, 3, 4]], model.decision_function(X[:4]))
    np.testing.assert_array_equal(np.isnan(chances).all(axis=1), np.arange(5) == 2)
    frame = pd.DataFrame(new, index=["p1", "p2", "blank", "p3", "p4"])
    with pytest.raises(ValueError, match="no order to read: 'blank'"):
        model.predict(frame)
    with pytest.raises(ValueError, match="1 of 5 samples"):
        model.score(new, np.zeros(5))


def test_values_and_risks_of_a_sample_without_order_are_nan():
    times = np.column_stack([np.exp(X[:, 0]), np.ones(40)])
    for model, y in ((SuquanRegressor("fixed"), X[:, 0]), (SuquanCox("fixed"), times)):
        model.fit(X, y)
        with pytest.warns(UserWarning, match="one value throughout"):
            predicted = model.predict(np.vstack([X[:1], np.ones((1, 200))]))
        np.testing.assert_array_equal(np.isnan(predicted), [False, True])
    with (
        pytest.warns(UserWarning, match="one value throughout"),
        pytest.raises(ValueError, match="risk is NaN for 1 of 2 samples"),
    ):
        model.score(np.vstack([X[:1], np.ones((1, 200))]), times[:2])
    gap = np.where(np.arange(200) == 7, 1.0, np.nan)[None]  # one value alone has no order, too
    with pytest.warns(UserWarning, match="one value throughout"):
        assert np.isnan(SuquanRegressor("fixed", missing="ignore").fit(X, X[:, 0]).predict(gap))


def test_training_and_folds_accept_samples_without_order():
    values = X.copy()
    values[5] = 1.0
    model = SuquanClassifierCV(
        "crossfit", alphas=2, smoothnesses=1, cv=2, crossfit_cv=2, random_state=0
    ).fit(values, Y)
    assert np.isfinite(model.out_of_fold_scores_).all()
    times = np.column_stack([np.exp(X[:, 0]), np.ones(40)])
    assert np.isfinite(SuquanCox("fixed").fit(values, times).baseline_hazards_).all()
    assert model.training_ranks_["ties"] == 1
    assert check_samples(model, values)["problem"][5] == CONSTANT
    with pytest.warns(UserWarning, match="one value throughout"):
        assert np.isnan(model.decision_function(values)[5])
    with pytest.warns(UserWarning, match="one value throughout"):
        assert model.predict(values)[5] in (0, 1)  # it has learned what equal ranks mean


def test_training_samples_without_order_do_not_hide_what_missing_genes_do(model):
    frame = pd.DataFrame(X, columns=GENES)
    frame.iloc[5] = 1.0
    with pytest.warns(UserWarning, match="features are missing"):
        told = align_features(model, frame[GENES[:150]], training=(frame, Y)).training
    rest = np.delete(np.arange(40), 5)
    with pytest.warns(UserWarning, match="features are missing"):
        expected = align_features(
            model, frame[GENES[:150]], training=(frame.iloc[rest], Y[rest])
        ).training
    assert told == expected


# ------------------------------------------------------------------------------------ the command line


def run(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "suquan", *map(str, arguments)], capture_output=True, text=True
    )


@pytest.fixture(scope="module")
def files(model, tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    save_model(model, folder / "model.suquan")
    old = SuquanClassifier("fixed").fit(pd.DataFrame(X, columns=GENES), Y)
    del old.training_ranks_
    save_model(old, folder / "old.suquan")
    names = ["well", "noise", "turned", "blank", "counts"]
    frame = pd.DataFrame(np.vstack([X[:1], STRANGE]), index=names, columns=GENES)
    frame.to_csv(folder / "new.csv")
    frame[:1].to_csv(folder / "well.csv")
    return folder


def test_predict_names_strange_samples_and_leaves_blank_ones_empty(files):
    done = run("predict", files / "model.suquan", files / "new.csv", "-o", files / "s.csv")
    assert done.returncode == 0, done.stderr
    for part in (
        "4 of the samples look unlike the training samples",
        "'noise' (far below: ",
        "'blank' (one value throughout)",
        "'counts' (mostly tied values)",
    ):
        assert part in done.stderr
    assert "'well'" not in done.stderr
    with open(files / "s.csv", newline="") as file:
        rows = {row["sample"]: row for row in csv.DictReader(file)}
    assert [rows["blank"][key] for key in ("score", "probability", "predicted")] == [""] * 3
    assert all(rows[name]["predicted"] for name in ("well", "noise", "turned", "counts"))
    quiet = run("predict", files / "model.suquan", files / "well.csv")
    assert quiet.returncode == 0
    assert "unlike" not in quiet.stderr


def test_strict_refuses_strange_samples_and_files_that_cannot_tell(files, tmp_path):
    out = tmp_path / "s.csv"
    refused = run("predict", files / "model.suquan", files / "new.csv", "-o", out, "--strict")
    assert refused.returncode == 1
    assert refused.stderr.count("\n") == 1
    assert "'noise' (far below" in refused.stderr
    assert not list(tmp_path.iterdir())
    assert run("predict", files / "model.suquan", files / "well.csv", "--strict").returncode == 0
    told = run("predict", files / "old.suquan", files / "well.csv")
    assert told.returncode == 0
    assert "keeps no mean ranks" in told.stderr
    cannot = run("predict", files / "old.suquan", files / "well.csv", "--strict")
    assert cannot.returncode == 1
    assert "keeps no mean ranks" in cannot.stderr


def test_blocks_on_dask_are_checked_too(files, tmp_path):
    np.save(tmp_path / "new.npy", np.vstack([X[:1], STRANGE]))
    done = run("predict", files / "model.suquan", tmp_path / "new.npy", "-o", tmp_path / "s.csv")
    assert done.returncode == 0, done.stderr
    assert "4 of the samples look unlike" in done.stderr
    assert (tmp_path / "s.csv").read_text().splitlines()[4] == "sample_4,,,"


# ---------------------------------------------------------------------------------- duplicated samples

QUICK = {
    "methods": ["uniform"], "outer_cv": 3, "inner_cv": 2, "alphas": 2, "progress": False
}  # fmt: skip


def test_duplicates_on_both_sides_of_a_fold_are_named():
    rng = np.random.default_rng(0)
    values = make_samples(30, seed=5)
    twice = np.vstack([values, np.exp(values[:15]) + 1e-7 * rng.random((15, 200))])
    y = np.tile(rng.permutation(np.arange(15) % 2), 3)
    frame = pd.DataFrame(twice, index=[f"s{i}" for i in range(45)])
    with pytest.warns(UserWarning, match=r"duplicated.*'s\d+' and 's\d+'.*`groups`"):
        compare(frame, y, **QUICK)


def test_pairs_are_named_where_a_fold_tears_them_however_many_samples():
    values = make_samples(30, seed=5)
    few = np.vstack([values, np.exp(values[3:5]) + 1e-9])
    many = np.random.default_rng(0).random((20_000, 100), np.float32)
    many[7], many[19_000] = many[8], np.exp(many[9])
    torn = [(np.arange(5), np.arange(5, len(few)))]
    assert torn_duplicates(SampleOperator.from_samples(few), torn).tolist() == [[3, 30], [4, 31]]
    side = np.arange(20_000) >= 10_000
    torn = [(np.flatnonzero(side), np.flatnonzero(~side))]
    assert torn_duplicates(SampleOperator.from_samples(many), torn).tolist() == [[9, 19_000]]
    values = np.vstack([values, values[3:5]])
    names, leave = [f"a{i}" for i in range(32)], np.arange(32) >= 20
    options = {**QUICK, "outer_cv": None, "leave_out": leave}
    with pytest.warns(UserWarning, match="good: 'a3' and 'a30', 'a4' and 'a31'. Keep"):
        compare(values, np.arange(32) % 2, sample_names=names, **options)


def test_duplicates_of_one_group_and_orders_that_agree_by_chance_are_not():
    values = make_samples(30, seed=5)
    twice, y = np.vstack([values, values]), np.tile(np.arange(30) % 2, 2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compare(twice, y, groups=np.tile(np.arange(30), 2), **QUICK)
        compare(np.random.default_rng(0).random((40, 4)), Y, **QUICK)
        values[:4] = 1.0  # no order at all
        compare(values, y[:30], **QUICK)


def test_other_estimators_keep_no_profile():
    normalizer = QuantileNormalizer("uniform").fit(X)
    with pytest.warns(UserWarning, match="keeps no mean ranks"):
        assert check_samples(normalizer, STRANGE)["problem"][2] == CONSTANT
