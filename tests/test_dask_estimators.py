"""Fits and predictions on Dask arrays against the same in memory."""

import os
import signal
import warnings

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from suquan import (
    SupervisedQuantileNormalizer,
    SuquanClassifier,
    SuquanClassifierCV,
    SuquanRegressor,
    compare,
    load_model,
    rank_samples,
    save_model,
)

da = pytest.importorskip("dask.array")
distributed = pytest.importorskip("distributed")

slow = pytest.mark.slow
TASKS = ("logistic", "softmax", "squared")
VALUES = ("squared", "huber", "poisson")
METHODS = ("fixed", "f0", "bnd", "spav", "joint", "crossfit", "svd")


def make_task(task, n_samples, n_features, *, seed=0, decimals=1):
    """Samples with ties, and labels that depend on their order."""
    rng = np.random.default_rng(seed)
    X = np.round(np.exp(rng.standard_normal((n_samples, n_features))), decimals)
    u = np.sign(X - 1) @ rng.standard_normal(n_features) / np.sqrt(n_features)
    if task == "logistic":
        return X, np.where(2 * u + rng.logistic(size=n_samples) > 0, "yes", "no")
    if task == "softmax":
        return X, np.digitize(u + 0.3 * rng.standard_normal(n_samples), [-0.5, 0.5])
    if task == "poisson":
        return X, rng.poisson(np.exp(u))
    return X, u + 0.3 * rng.standard_normal(n_samples)


def in_odd_blocks(X):
    """Blocks of many rows, of one, of none, and of the rest."""
    n = len(X)
    return da.from_array(X, chunks=((n // 2 - 1, 1, 0, n - n // 2), X.shape[1]))


def scores(model, X):
    return model.predict(X) if isinstance(model, SuquanRegressor) else model.decision_function(X)


def assert_same_fit(model, X, y, blocks=None, atol=1e-3, **fit_options):
    """The estimator fitted on blocks gives what it gives in memory, as exactly as J tells targets apart."""
    blocks = in_odd_blocks(X) if blocks is None else blocks
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of svd, alike in both
        here = model.fit(X, y, **fit_options)
        expected, f = scores(here, X), here.target_quantiles_
        objective, history = here.objective_, here.objective_history_
        moments = here.feature_means_, here.feature_variances_
        there = model.fit(blocks, y, **fit_options)
    scale = max(1.0, np.abs(expected).max())
    np.testing.assert_allclose(scores(there, X), expected, rtol=0, atol=atol * scale)
    np.testing.assert_allclose(there.target_quantiles_, f, rtol=0, atol=atol * np.abs(f).max())
    np.testing.assert_allclose(there.objective_, objective, rtol=1e-6)
    np.testing.assert_allclose(there.objective_history_, history, rtol=1e-5)
    found = there.feature_means_, there.feature_variances_
    np.testing.assert_allclose(found, moments, rtol=0, atol=atol * np.abs(f).max() ** 2)
    assert there.n_passes_ > 0
    return there


def make_model(task, method, **parameters):
    kind = SuquanRegressor if task in VALUES else SuquanClassifier
    parameters = {"loss": task, **parameters}
    defaults = {"alpha": 0.01, "random_state": 0, "cv": 3, "n_repeats": 2, "tol": 1e-8}
    parameters = {**defaults, "max_iter": 2000, **parameters}
    return kind(method, **parameters)


def marks_of(method, task):
    """By default every method has one task, and every task a method in-sample and a cross-fitted one."""
    return () if task == "logistic" or method in ("bnd", "crossfit") else slow


@pytest.mark.parametrize("n_features", [12, 100], ids=["many_samples", "many_features"])
@pytest.mark.parametrize(
    ("method", "task"),
    [
        pytest.param(method, task, marks=marks_of(method, task))
        for method in METHODS
        for task in TASKS
        if method != "svd" or task == "logistic"
    ],
)
def test_fit_on_blocks_equals_fit_in_memory(method, task, n_features):
    X, y = make_task(task, 60, n_features)
    assert_same_fit(make_model(task, method), X, y)


@pytest.mark.parametrize(
    ("method", "task", "n_features", "parameters"),
    [
        ("joint", "huber", 12, {"alpha": 0.1}),
        ("crossfit", "huber", 12, {"alpha": 0.1}),
        ("joint", "poisson", 12, {"alpha": 0.1}),
        ("crossfit", "poisson", 12, {"alpha": 0.1}),
        *(("bnd", task, 40, {"n_knots": 9}) for task in TASKS),
        ("crossfit", "logistic", 40, {"n_knots": 9, "fit_intercept": False}),
        ("fixed", "logistic", 12, {"fit_intercept": False}),
        ("crossfit", "logistic", 12, {"departure": 0.0}),
        ("crossfit", "logistic", 12, {"departure": 0.5}),
        ("crossfit", "logistic", 12, {"ties": "average", "missing": "ignore"}),
        ("crossfit", "logistic", 12, {"ties": "first"}),
        ("crossfit", "logistic", 12, {"ties": "mean_rank", "missing": "ignore"}),
    ],
)
def test_parameters_on_blocks(method, task, n_features, parameters):
    X, y = make_task(task, 60, n_features)
    if "missing" in parameters:
        X[np.random.default_rng(1).random(X.shape) < 0.1] = np.nan
    assert_same_fit(make_model(task, method, **parameters), X, y)


def test_svd_takes_one_pass_for_its_matrix():
    X, y = make_task("logistic", 300, 12)
    X[np.random.default_rng(1).random(X.shape) < 0.1] = np.nan
    model = make_model("logistic", "svd", missing="ignore")
    assert assert_same_fit(model, X, y).n_passes_ < 40


@pytest.mark.parametrize("init", ["normal", "mean", "median", np.arange(5.0) ** 2])
def test_starts_on_blocks(init):
    X, y = make_task("logistic", 60, 12)
    X[3, :5] = np.nan
    model = make_model("logistic", "fixed", init=init, missing="ignore")
    weights = np.random.default_rng(0).integers(0, 3, 60)
    assert_same_fit(model, X, y, sample_weight=weights)


@pytest.mark.parametrize("method", ["bnd", "crossfit"])
def test_sample_and_class_weights_on_blocks(method):
    X, y = make_task("logistic", 80, 10)
    weights = np.random.default_rng(0).integers(0, 3, 80).astype(float)
    weights[20:45] = 0.0  # a whole block, and more
    model = make_model("logistic", method, class_weight="balanced")
    blocks = da.from_array(X, chunks=(20, 10))
    assert_same_fit(model, X, y, blocks, sample_weight=weights)


def test_groups_and_given_folds_on_blocks():
    X, y = make_task("squared", 60, 8)
    assert_same_fit(make_model("squared", "crossfit"), X, y, groups=np.arange(60) // 5)
    folds = [(np.arange(20, 60), np.arange(10)), (np.arange(40), np.arange(45, 60))]
    assert_same_fit(make_model("squared", "crossfit", cv=folds), X, y)


@pytest.mark.parametrize("method", ["bnd", "crossfit"])
def test_float32_designs_on_blocks(method):
    X, y = make_task("logistic", 11_000, 100, decimals=6)
    blocks = da.from_array(X.astype(np.float32), chunks=(3000, 100))
    model = make_model("logistic", method, n_knots=20)
    with threadpool_limits(1):  # BLAS threads wait for each other where the machine is busy
        assert_same_fit(model, X.astype(np.float32), y, blocks)


def test_more_features_than_second_moments_are_formed_for_at_first():
    X, y = make_task("logistic", 200, 600)
    assert_same_fit(make_model("logistic", "crossfit", alpha=1.0, n_knots=10), X, y)


def test_features_that_hardly_move():
    X, y = make_task("logistic", 300, 20)
    X[:, :3] = [1e3, 2e3, 3e3]  # always the largest three
    assert_same_fit(make_model("logistic", "bnd"), X, y)


def test_columns_in_several_blocks_and_labels_on_dask():
    X, y = make_task("squared", 60, 12)
    blocks = da.from_array(X, chunks=(13, 5))
    expected = make_model("squared", "bnd").fit(X, y).predict(X)
    there = make_model("squared", "bnd").fit(blocks, da.from_array(y, chunks=7))
    np.testing.assert_allclose(there.predict(blocks).compute(), expected, atol=1e-6)


def test_fewer_passes_for_folds_than_one_by_one():
    X, y = make_task("logistic", 200, 10)
    few = make_model("logistic", "crossfit", cv=2, n_repeats=1).fit(in_odd_blocks(X), y).n_passes_
    many = make_model("logistic", "crossfit", cv=5, n_repeats=3).fit(in_odd_blocks(X), y).n_passes_
    assert many < 2 * few


def test_predictions_are_lazy_and_those_of_arrays():
    X, y = make_task("softmax", 60, 10)
    model = make_model("softmax", "bnd").fit(X, y)
    blocks = in_odd_blocks(X)
    for name in ("transform", "predict", "predict_proba", "decision_function"):
        result = getattr(model, name)(blocks)
        assert isinstance(result, da.Array)
        expected = getattr(model, name)(X)
        assert result.shape == expected.shape
        assert result.dtype == expected.dtype
        np.testing.assert_array_equal(result.compute(), expected)
    assert model.score(blocks, da.from_array(y, chunks=11)) == model.score(X, y)
    assert model.transform(blocks.astype(np.float32)).compute().dtype == np.float32


@pytest.mark.parametrize("task", ["logistic", "squared"])
def test_predictions_of_two_classes_and_of_values_are_vectors(task):
    X, y = make_task(task, 60, 10)
    model = make_model(task, "bnd").fit(X, y)
    np.testing.assert_array_equal(scores(model, in_odd_blocks(X)).compute(), scores(model, X))
    assert model.score(in_odd_blocks(X), y) == model.score(X, y)


@pytest.mark.parametrize("task", ["logistic", "squared"])
def test_supervised_normalizer_on_blocks(task):
    X, y = make_task(task, 60, 12)
    options = {"alpha": 0.01, "tol": 1e-8, "max_iter": 2000}
    here = SupervisedQuantileNormalizer("bnd", **options).fit(X, y)
    there = SupervisedQuantileNormalizer("bnd", **options).fit(in_odd_blocks(X), y)
    result = there.transform(in_odd_blocks(X))
    assert isinstance(result, da.Array)
    np.testing.assert_allclose(result.compute(), here.transform(X), atol=1e-3)


def test_tables_as_output_are_refused():
    X, y = make_task("logistic", 60, 10)
    model = make_model("logistic", "fixed").set_output(transform="pandas").fit(X, y)
    with pytest.raises(ValueError, match="set_output"):
        model.transform(in_odd_blocks(X))


def test_model_fitted_on_blocks_is_saved_and_fitted_anew(tmp_path):
    X, y = make_task("logistic", 60, 10)
    model = make_model("logistic", "fixed").fit(in_odd_blocks(X), y)
    loaded = load_model(save_model(model, tmp_path / "model.suquan"))
    np.testing.assert_array_equal(loaded.decision_function(X), model.decision_function(X))
    assert not hasattr(model.fit(X, y), "n_passes_")


def test_samples_that_are_all_constant():
    X, y = np.ones((20, 5)), np.tile([0, 1], 10)
    with pytest.warns(UserWarning, match="nothing to rank"):
        model = SuquanClassifier("bnd").fit(da.from_array(X, chunks=(7, 5)), y)
    assert not model.coef_.any()


# -- what is refused, and how -------------------------------------------------------------------------


def test_samples_never_come_to_the_driver(monkeypatch):
    X, y = make_task("logistic", 60, 10)
    monkeypatch.setattr(da.Array, "__array__", lambda *args, **kwargs: pytest.fail("computed"))
    model = make_model("logistic", "crossfit").fit(in_odd_blocks(X), y)
    for name in ("transform", "predict", "predict_proba", "decision_function"):
        getattr(model, name)(in_odd_blocks(X))


class Coupled:
    """A loss that is no sum over samples."""

    couples_samples, name = True, "coupled"

    def value(self, y, u, s):
        return float(np.var(u - y))

    def gradient(self, y, u, s):
        return np.zeros(len(u))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (SuquanClassifier("bnd", l1_ratio=0.5).fit, ValueError, r"l1_ratio = 0.5 is not offered for Dask"),
        (SuquanClassifier("matrix").fit, ValueError, r"'matrix' is not offered for Dask.*X\.compute"),
        (SuquanRegressor("bnd", loss=Coupled()).fit, ValueError, "'coupled', no sum over samples, is not"),
        (SuquanClassifierCV().fit, TypeError, "takes no Dask array"),
        (compare, TypeError, "Dask array"),
        (lambda X, y: rank_samples(X), TypeError, "Dask array"),
    ],
)  # fmt: skip
def test_what_is_offered_in_memory_only_is_refused(call, error, message):
    X, _ = make_task("logistic", 60, 10)
    with pytest.raises(error, match=message):
        call(in_odd_blocks(X), np.tile([0, 1], 30))


def test_unknown_sizes_and_wrong_shapes_are_refused():
    X, y = make_task("logistic", 60, 10)
    blocks = in_odd_blocks(X)
    with pytest.raises(ValueError, match="compute_chunk_sizes"):
        SuquanClassifier("bnd").fit(blocks[blocks[:, 0] > 0], y)
    with pytest.raises(ValueError, match="two dimensions"):
        SuquanClassifier("bnd").fit(blocks[0], y)
    with pytest.raises(ValueError, match="inconsistent"):
        SuquanClassifier("bnd").fit(blocks, y[:-1])
    model = make_model("logistic", "fixed").fit(blocks, y)
    with pytest.raises(ValueError, match="expecting 10 features"):
        model.predict(blocks[:, :5])


def test_error_names_the_block_with_a_missing_value():
    X, y = make_task("logistic", 60, 10)
    X[31, 2] = np.nan
    with pytest.raises(ValueError, match=r"block 3 \(rows 30 to 59\).*sample 31, feature 2"):
        SuquanClassifier("bnd").fit(in_odd_blocks(X), y)
    X[31, 2] = np.inf
    with pytest.raises(ValueError, match=r"infinity, in block 3 .*sample 31"):
        SuquanClassifier("bnd").fit(in_odd_blocks(X), y)


def test_error_names_the_block_that_cannot_be_predicted():
    X, y = make_task("logistic", 60, 10)
    model = make_model("logistic", "fixed").fit(X, y)
    X[31, 2] = np.nan
    with pytest.raises(ValueError, match=r"block 3 \(rows 30 to 59\)"):
        model.predict(in_odd_blocks(X)).compute()


# -- clusters -----------------------------------------------------------------------------------------


@pytest.fixture
def threads():
    """One worker with two threads, in this process."""
    options = {"n_workers": 1, "threads_per_worker": 2, "dashboard_address": ":0"}
    with (
        distributed.LocalCluster(processes=False, **options) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


@pytest.mark.parametrize(
    ("kind", "task", "method"),
    [
        ("processes", "logistic", "crossfit"),
        ("threads", "softmax", "bnd"),
        pytest.param("processes", "squared", "joint", marks=slow),
        pytest.param("threads", "squared", "joint", marks=slow),
    ],
)
def test_fit_on_a_cluster_is_that_without_one(kind, task, method, request):
    X, y = make_task(task, 80, 12)
    blocks = in_odd_blocks(X)
    expected = make_model(task, method).fit(blocks, y)
    request.getfixturevalue(kind)
    model = assert_same_fit(make_model(task, method), X, y)
    np.testing.assert_array_equal(model.coef_, expected.coef_)
    np.testing.assert_array_equal(model.target_quantiles_, expected.target_quantiles_)
    np.testing.assert_array_equal(scores(model, blocks).compute(), scores(model, X))


@pytest.mark.parametrize("init", ["mean", "median"])
def test_fewer_samples_than_features_on_a_cluster(processes, init):
    X, y = make_task("logistic", 40, 60)
    assert_same_fit(make_model("logistic", "crossfit", init=init), X, y)


def before_pass(monkeypatch, number, action):
    """Call `action` before one of the passes, which all end in `dask.compute`."""
    import dask

    compute, count = dask.compute, [0]

    def counted(*args, **options):
        count[0] += 1
        if count[0] == number:
            action()
        return compute(*args, **options)

    monkeypatch.setattr(dask, "compute", counted)


def test_worker_killed_in_the_middle_of_a_fit(processes, monkeypatch):
    X, y = make_task("logistic", 400, 12)
    blocks = da.from_array(X, chunks=(50, 12)).map_blocks(np.copy)
    expected = make_model("logistic", "bnd").fit(blocks, y).coef_
    victim = next(iter(processes.run(os.getpid).values()))
    before_pass(monkeypatch, 12, lambda: os.kill(victim, signal.SIGKILL))
    found = make_model("logistic", "bnd").fit(blocks, y).coef_
    assert victim not in processes.run(os.getpid).values()
    np.testing.assert_array_equal(found, expected)


def poisoned(block, block_info=None):
    if block_info[0]["chunk-location"][0] == 2:
        raise OSError("this part of the disk is gone")
    return block


@pytest.mark.parametrize("kind", [None, "processes"])
def test_block_that_always_fails_is_named(kind, request):
    X, y = make_task("logistic", 80, 12)
    blocks = da.from_array(X, chunks=(20, 12)).map_blocks(poisoned, dtype=X.dtype)
    if kind is not None:
        request.getfixturevalue(kind)
    with pytest.raises(ValueError, match=r"block 2 \(rows 40 to 59\).*disk is gone"):
        make_model("logistic", "bnd").fit(blocks, y)


def test_lost_client_is_a_clear_error(threads, monkeypatch):
    X, y = make_task("logistic", 80, 12)
    before_pass(monkeypatch, 10, threads.close)
    with pytest.raises(RuntimeError, match=r"client .* is closed|connection .* was lost"):
        make_model("logistic", "bnd").fit(in_odd_blocks(X), y)
