"""Quantile normalisation of Dask arrays: the numbers of the in-memory code, whatever the blocks."""

import contextlib

import dask
import dask.array as da
import numpy as np
import pytest
from distributed import LocalCluster
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn import config_context

from suquan import QuantileNormalizer, quantile_normalize
from suquan._dask import preprocessing as on_dask
from suquan.targets import MEDIAN_ERROR

TARGETS = ["median", "mean", "normal"]
TIES = ["average", "first", "mean_rank"]
ODD = (1, 0, 20, 17, 0, 1)  # blocks of one row, of none, of odd lengths
N = sum(ODD)


def make_samples(dtype=np.float64, gaps=False, n=N, p=13):
    rng = np.random.default_rng(0)
    X = np.round(rng.lognormal(size=(n, p)), 1).astype(dtype)  # with ties
    if gaps:
        X[rng.uniform(size=X.shape) < 0.2] = np.nan
        X[5] = np.nan
        X[0] = np.nan  # a whole block
    return X


def in_odd_blocks(X):
    return da.from_array(X, chunks=(ODD, (8, 5)))


def same(got, expected, target):
    assert got.dtype == expected.dtype
    if target == "mean":  # sums are rounded in another order
        tolerance = 1e-12 if expected.dtype == np.float64 else 1e-6
        assert_allclose(got, expected, rtol=tolerance)
    else:
        assert_array_equal(got, expected)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("ties", TIES)
@pytest.mark.parametrize("gaps", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_function_and_class_give_what_they_give_in_memory(target, ties, gaps, dtype):
    X = make_samples(dtype, gaps)
    blocks = in_odd_blocks(X)
    rules = {"ties": ties, "missing": "ignore" if gaps else "error"}
    lazy = quantile_normalize(blocks, target, **rules)
    assert lazy.chunks[0] == ODD
    assert lazy.dtype == dtype
    same(lazy.compute(), quantile_normalize(X, target, **rules), target)
    weights = np.random.default_rng(1).uniform(size=N)
    weights[[3, 30]] = 0.0
    for w in (None, weights, np.round(3 * weights)):
        expected = QuantileNormalizer(target, **rules).fit(X, sample_weight=w)
        lazy_w = None if w is None else da.from_array(w, chunks=7)
        for given_w in (w, lazy_w):
            got = QuantileNormalizer(target, **rules).fit(blocks, sample_weight=given_w)
            same(got.target_quantiles_, expected.target_quantiles_, target)
        same(got.transform(blocks).compute(), expected.transform(X), target)


@pytest.mark.parametrize("dtype", [np.int8, np.int64, np.uint16, np.bool_, np.float16])
def test_other_types_are_converted_as_in_memory(dtype):
    X = (make_samples() * 3).astype(dtype)
    for target in TARGETS:
        for normalise in (
            lambda X, f=target: quantile_normalize(X, f),
            QuantileNormalizer(target).fit_transform,
        ):
            same(normalise(in_odd_blocks(X)).compute(), normalise(X), target)


@settings(max_examples=20, deadline=None)
@given(
    lengths=st.lists(st.integers(0, 6), min_size=1, max_size=12).filter(lambda rows: sum(rows) > 0),
    n_features=st.integers(1, 9),
    target=st.sampled_from(TARGETS),
)
def test_any_blocks_give_the_same(lengths, n_features, target):
    X = np.random.default_rng(sum(lengths)).integers(0, 5, (sum(lengths), n_features)).astype(float)
    blocks = da.from_array(X, chunks=(tuple(lengths), n_features))
    with dask.config.set(scheduler="sync"):
        same(quantile_normalize(blocks, target).compute(), quantile_normalize(X, target), target)


def test_means_do_not_overflow():
    X = np.full((40, 3), 1.6e308) * np.array([0.5, 0.9, 1.0])
    got = quantile_normalize(da.from_array(X, chunks=(3, 3)), "mean")
    assert_allclose(got.compute(), X, rtol=1e-12)


def test_medians_are_taken_in_passes_where_memory_is_short(monkeypatch):
    X = make_samples()
    monkeypatch.setattr(on_dask, "BYTES_OF_SORTED_VALUES", 4 * X.itemsize * N)
    monkeypatch.setattr(on_dask, "BYTES_PER_BLOCK", 2 * X.itemsize * N)
    passes = []
    compute = on_dask.compute
    monkeypatch.setattr(on_dask, "compute", lambda *a, **k: passes.append(1) or compute(*a, **k))
    got = QuantileNormalizer("median").fit(in_odd_blocks(X)).target_quantiles_
    assert_array_equal(got, QuantileNormalizer("median").fit(X).target_quantiles_)
    assert len(passes) == 4  # 13 places, 4 at a time


def test_transform_computes_nothing():
    touched = []
    blocks = in_odd_blocks(make_samples()).map_blocks(
        lambda block: touched.append(1) or block, dtype=float, meta=np.empty((0, 0))
    )
    normalizer = QuantileNormalizer("normal").fit(blocks)
    lazy = normalizer.transform(blocks)
    assert not touched
    assert isinstance(lazy, da.Array)
    lazy.compute()
    assert touched


@pytest.mark.parametrize("error", [0.1, 0.02, MEDIAN_ERROR])
@pytest.mark.parametrize("rows", [7, 40, 999])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_sketch_keeps_its_promise(monkeypatch, error, rows, weighted):
    rng = np.random.default_rng(0)
    X = np.sort(
        rng.lognormal(size=(997, 6)), axis=0
    )  # the worst order: blocks have nothing in common
    w = rng.exponential(size=997) if weighted else np.ones(997)
    blocks = da.from_array(X, chunks=(rows, 6))
    monkeypatch.setattr(on_dask, "MEDIAN_ERROR", error)
    f = QuantileNormalizer("approximate_median").fit(blocks, sample_weight=w).target_quantiles_
    ordered = np.sort(X, axis=1)
    for place, value in enumerate(f):
        below = w[ordered[:, place] < value].sum() / w.sum()
        up_to = w[ordered[:, place] <= value].sum() / w.sum()
        assert below - error - 1e-12 <= 0.5 <= up_to + error + 1e-12


def test_the_sketch_follows_the_rules_for_gaps():
    X = make_samples(gaps=True)
    sketch = QuantileNormalizer("approximate_median", missing="ignore").fit(in_odd_blocks(X))
    exact = QuantileNormalizer("median", missing="ignore").fit(X)
    # Of an even number of samples the sketch has one of the two in the middle.
    assert_allclose(sketch.target_quantiles_, exact.target_quantiles_, atol=0.3)
    with pytest.raises(ValueError, match="NaN"):
        QuantileNormalizer("approximate_median").fit(in_odd_blocks(X))


@pytest.mark.parametrize("target", ["mean", "median", "approximate_median"])
def test_no_usable_sample_is_an_error(target):
    X = np.full((N, 13), np.nan)
    with pytest.raises(ValueError, match="no sample is left"):
        QuantileNormalizer(target, missing="ignore").fit(in_odd_blocks(X))
    weights = da.zeros(N, chunks=9)
    with pytest.raises(ValueError, match="at least one non-zero"):
        QuantileNormalizer(target).fit(in_odd_blocks(make_samples()), sample_weight=weights)


def test_infinities_are_as_in_memory():
    X = make_samples()
    X[7] = np.inf
    for target in ("normal", "median"):
        found = quantile_normalize(in_odd_blocks(X), target).compute()
        same(found, quantile_normalize(X, target), target)
    with pytest.raises(ValueError, match="the data contain infinities"):
        quantile_normalize(in_odd_blocks(X), "mean")
    with pytest.raises(ValueError, match="infinity, in block 2"):
        QuantileNormalizer("mean").fit(in_odd_blocks(X))


def test_an_array_without_samples_is_normalised_to_nothing():
    empty = da.from_array(make_samples()[:0], chunks=(1, 13))
    assert quantile_normalize(empty, "median").compute().shape == (0, 13)
    with pytest.raises(ValueError, match="0 sample"):
        QuantileNormalizer("normal").fit(empty)


def test_another_number_of_features_is_refused():
    normalizer = QuantileNormalizer("normal").fit(make_samples())
    with pytest.raises(
        ValueError, match="X has 12 features, but QuantileNormalizer is expecting 13"
    ):
        normalizer.transform(da.ones((4, 12), chunks=2))


def test_data_frames_are_not_made_of_dask_arrays():
    blocks = in_odd_blocks(make_samples())
    normalizer = QuantileNormalizer("normal").fit(blocks)
    with config_context(transform_output="pandas"), pytest.raises(ValueError, match="set_output"):
        normalizer.transform(blocks)
    with pytest.raises(ValueError, match="set_output"):
        QuantileNormalizer("normal").set_output(transform="polars").fit_transform(blocks)


def test_a_target_too_large_for_the_type_is_refused_at_once():
    with pytest.raises(ValueError, match="float32 holds"):
        quantile_normalize(in_odd_blocks(make_samples(np.float32)), np.linspace(0, 1e39, 13))


@pytest.mark.parametrize("kind", ["processes", "threads"])
def test_a_cluster_gives_the_same(kind, request):
    X = make_samples(gaps=True)
    with contextlib.ExitStack() as stack:
        if kind == "processes":
            request.getfixturevalue("processes")
        else:
            options = {"processes": False, "dashboard_address": ":0", "silence_logs": 50}
            cluster = LocalCluster(n_workers=2, threads_per_worker=1, **options)
            stack.enter_context(stack.enter_context(cluster).get_client())
        for target in TARGETS:
            got = quantile_normalize(in_odd_blocks(X), target, missing="ignore").compute()
            same(got, quantile_normalize(X, target, missing="ignore"), target)
        sketch = QuantileNormalizer("approximate_median", missing="ignore")
        assert sketch.fit(in_odd_blocks(X)).target_quantiles_.shape == (13,)
