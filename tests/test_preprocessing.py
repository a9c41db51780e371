import warnings
from pathlib import Path

import dask.array as da
import numpy as np
import pandas as pd
import polars as pl
import pytest
import reference
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from sklearn import config_context
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from test_ranking import KINDS, _layouts, hard_row

from suquan import QuantileNormalizer, make_target_quantiles, quantile_normalize, rank_samples
from suquan.kernels import permutation_kernel
from suquan.microarray import rma

few = settings(max_examples=60, deadline=None, derandomize=True)

GOLDEN = Path(__file__).parent / "data" / "golden"
CASES = ["no_ties", "ties", "counts", "signed"]
TARGETS = ["median", "mean", "normal", "uniform", "exponential", "cauchy", "bimodal"]

ties_rules = pytest.mark.parametrize("ties", reference.TIES)
learned = pytest.mark.parametrize("target", ["mean", "median"])
floats = pytest.mark.parametrize("dtype", ["float32", "float64"])


def make_samples(n=12, p=40, seed=0, *, gaps=0.0, dtype="float64"):
    """Samples with ties, with a share of `gaps` missing."""
    rng = np.random.default_rng([seed, n, p])
    X = rng.normal(size=(n, p)) * rng.exponential(size=(n, 1))
    X = np.where(rng.random((n, p)) < 0.4, np.round(X), X)
    X[rng.random((n, p)) < gaps] = np.nan
    return X.astype(dtype)


def golden(name):
    return np.loadtxt(GOLDEN / f"{name}.csv", delimiter=",", ndmin=2)


# ----------------------------------------------------------------------------- agreement with programs


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize(
    ("program", "ties"),
    [("limma", "mean_rank"), ("preprocesscore", "mean_rank"), ("qnorm", "average")],
)
def test_mean_target_equals_established_programs(case, program, ties):
    out = quantile_normalize(golden(f"{case}_input"), "mean", ties=ties)
    assert_allclose(out, golden(f"{case}_{program}"), rtol=1e-12)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize(
    ("program", "ties"), [("preprocesscore", "mean_rank"), ("qnorm", "average")]
)
def test_given_target_equals_established_programs(case, program, ties):
    target = golden(f"{case}_target")[0]
    out = quantile_normalize(golden(f"{case}_input"), target, ties=ties)
    assert_allclose(out, golden(f"{case}_{program}_target"), rtol=1e-12)


# ---------------------------------------------------------------------------------- against plain NumPy


@settings(max_examples=150, deadline=None, derandomize=True)
@given(
    st.sampled_from(sorted(KINDS)),
    st.sampled_from([1, 2, 257, 4096, 32_768, 32_769]),
    st.sampled_from(["float32", "float64"]),
    st.sampled_from(reference.TIES),
    st.integers(0, 10**6),
)
def test_hard_samples_are_normalised_as_by_a_stable_sort(kind, p, dtype, ties, seed):
    X = np.stack([hard_row(kind, p, dtype, seed + k) for k in range(2)])
    f = make_target_quantiles("normal", p)
    out = quantile_normalize(X, f, ties=ties)
    assert out.dtype == dtype
    expected = reference.normalize_complete(X, f, ties)
    assert_allclose(out, expected, rtol=1e-10 if dtype == "float64" else 1e-6, atol=1e-7)


@settings(max_examples=250, deadline=None, derandomize=True)
@given(
    st.sampled_from(["mean", "median"]),
    st.sampled_from(reference.TIES),
    st.sampled_from([0.0, 0.3]),
    st.integers(1, 6),
    st.integers(1, 9),
    st.integers(0, 10**6),
)
def test_learned_targets_and_gaps_follow_the_definition(target, ties, gaps, n, p, seed):
    X = make_samples(n, p, seed, gaps=gaps)
    X[0, 0] = 0.0
    f = reference.learned_target(X, target)
    out = quantile_normalize(X, target, ties=ties, missing="ignore")
    assert_allclose(out, reference.normalize(X, f, ties), rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("target", ["mean", "median", "normal"])
def test_integers_are_normalised_in_float64(target):
    counts = np.random.default_rng(0).integers(0, 100, (6, 30))
    for dtype in ("bool", *np.typecodes["AllInteger"]):
        X = (counts % 2 if dtype == "bool" else counts).astype(dtype)
        before = X.copy()
        out = quantile_normalize(X, target)
        assert out.dtype == np.float64
        assert_array_equal(out, quantile_normalize(X.astype(float), target))
        assert_array_equal(QuantileNormalizer(target).fit_transform(X), out)
        assert_array_equal(X, before)


@pytest.mark.parametrize(("dtype", "expected"), [("f2", "f4"), ("f4", "f4"), ("f8", "f8")])
def test_floats_keep_their_type(dtype, expected):
    X = make_samples(dtype=dtype)
    for target in TARGETS:
        assert quantile_normalize(X, target).dtype == expected
        if dtype != "f2":
            normalizer = QuantileNormalizer(target)
            assert normalizer.fit(X).transform(X).dtype == expected
            assert normalizer.fit_transform(X).dtype == expected
            assert normalizer.target_quantiles_.dtype == np.float64


@floats
@pytest.mark.parametrize("target", ["mean", "median", "normal"])
def test_results_do_not_depend_on_memory_layout(target, dtype):
    for X in _layouts(make_samples(7, 30, dtype=dtype)).values():
        before = X.copy()
        out = quantile_normalize(X, target)
        assert_array_equal(out, quantile_normalize(before, target))
        assert_array_equal(QuantileNormalizer(target).fit_transform(X), out)
        assert_array_equal(X, before)
        assert not np.shares_memory(out, X)


# ----------------------------------------------------------------------------------------- invariants


@ties_rules
@pytest.mark.parametrize("target", ["mean", "median", "normal"])
def test_a_row_alone_gives_bit_for_bit_what_it_gives_in_a_batch(target, ties):
    X = make_samples(50, 300, gaps=0.05)
    X[::2] = make_samples(25, 300, seed=1)
    normalizer = QuantileNormalizer(target, ties=ties, missing="ignore").fit(X)
    batch = normalizer.transform(X)
    for i in range(len(X)):
        assert_array_equal(normalizer.transform(X[i : i + 1])[0], batch[i])
    assert_array_equal(normalizer.transform(X[::-1])[::-1], batch)


@pytest.mark.parametrize("ties", ["average", "mean_rank"])
@pytest.mark.parametrize("target", ["mean", "median", "normal"])
def test_results_are_the_same_at_any_number_of_threads(target, ties):
    X = make_samples(230, 3000, gaps=0.01)
    options = {"ties": ties, "missing": "ignore"}
    one = QuantileNormalizer(target, n_jobs=1, **options)
    expected = one.fit_transform(X)
    for n_jobs in (None, 2, 4):
        other = QuantileNormalizer(target, n_jobs=n_jobs, **options)
        assert_array_equal(other.fit_transform(X), expected)
        assert_array_equal(other.target_quantiles_, one.target_quantiles_)
    assert_array_equal(quantile_normalize(X, target, n_jobs=2, **options), expected)


@few
@given(
    st.sampled_from([*TARGETS, "given"]),
    st.sampled_from(reference.TIES),
    st.sampled_from(["float32", "float64"]),
    st.sampled_from([0.0, 0.2]),
    st.integers(0, 10**6),
)
def test_fit_transform_equals_fit_then_transform_and_the_function(target, ties, dtype, gaps, seed):
    X = make_samples(seed=seed, gaps=gaps, dtype=dtype)
    target = np.arange(40.0) if target == "given" else target
    normalizer = QuantileNormalizer(target, ties=ties, missing="ignore")
    at_once = normalizer.fit_transform(X)
    f = normalizer.target_quantiles_
    assert_array_equal(normalizer.fit(X).transform(X), at_once)
    assert_array_equal(normalizer.target_quantiles_, f)
    assert_array_equal(quantile_normalize(X, target, ties=ties, missing="ignore"), at_once)
    weights = np.random.default_rng(0).random(len(X))
    at_once = normalizer.fit_transform(X, sample_weight=weights)
    assert_array_equal(normalizer.fit(X, sample_weight=weights).transform(X), at_once)


def test_normalised_samples_without_ties_have_the_targets_values():
    X = np.random.default_rng(0).standard_cauchy((6, 50))
    for target in TARGETS:
        normalizer = QuantileNormalizer(target).fit(X)
        ordered = np.sort(normalizer.transform(X), axis=1)
        assert_array_equal(ordered, np.tile(normalizer.target_quantiles_, (6, 1)))


def test_fixed_targets_ignore_increasing_distortions_and_the_data():
    X = make_samples()
    normalizer = QuantileNormalizer("normal").fit(X)
    assert_array_equal(normalizer.target_quantiles_, make_target_quantiles("normal", 40))
    assert_array_equal(normalizer.transform(X), normalizer.transform(np.exp(X / 10)))
    assert_array_equal(
        QuantileNormalizer("normal").fit(X[:1]).transform(X), normalizer.transform(X)
    )


# ------------------------------------------------------------------------------------- missing values


@ties_rules
@pytest.mark.parametrize("target", ["mean", "median", "normal"])
def test_missing_values_stay_missing_and_leave_other_samples_alone(target, ties):
    X = make_samples(8, 30)
    complete = QuantileNormalizer(target, ties=ties, missing="ignore").fit(X)
    holes = X.copy()
    holes[2, [0, 7, 9]] = np.nan
    holes[5] = np.nan
    out = complete.transform(holes)
    assert_array_equal(np.isnan(out), np.isnan(holes))
    others = [0, 1, 3, 4, 6, 7]
    assert_array_equal(out[others], complete.transform(X)[others])


def test_observed_values_read_the_target_at_their_own_places():
    # (k + ½)/2 falls half-way between places of a target of four.
    X = [[np.nan, 9.0, np.nan, 4.0], [np.nan] * 4, [3.0, 1.0, 0.0, 2.0]]
    out = quantile_normalize(X, [0.0, 2.0, 10.0, 40.0], missing="ignore")
    expected = [[np.nan, 25.0, np.nan, 1.0], [np.nan] * 4, [40.0, 2.0, 0.0, 10.0]]
    assert_allclose(out, expected)


@pytest.mark.parametrize("target", ["mean", "median", "normal"])
@pytest.mark.parametrize("method", ["fit", "fit_transform", "function"])
def test_nan_is_refused_with_its_position_by_default(target, method):
    X = make_samples()
    X[3, 17] = X[3, 20] = X[9, 1] = np.nan
    call = {
        "fit": QuantileNormalizer(target).fit,
        "fit_transform": QuantileNormalizer(target).fit_transform,
        "function": lambda X: quantile_normalize(X, target),
    }[method]
    with pytest.raises(ValueError, match="first at sample 3, feature 17; 2 of 12 samples"):
        call(X)


def test_nan_is_refused_at_transform_with_the_features_name():
    X = pd.DataFrame(make_samples(5, 3), columns=["gene_a", "gene_b", "gene_c"])
    normalizer = QuantileNormalizer().fit(X)
    X.iloc[2, 1] = np.nan
    with pytest.raises(ValueError, match=r"sample 2, feature 1 \('gene_b'\)"):
        normalizer.transform(X)
    for target in ("mean", "median", "normal"):
        with pytest.raises(ValueError, match="'gene_b'"):
            QuantileNormalizer(target).fit(X)
        with pytest.raises(ValueError, match="'gene_b'"):
            QuantileNormalizer(target).fit_transform(X)


# --------------------------------------------------------------------------------------------- weights


@learned
@pytest.mark.parametrize("gaps", [0.0, 0.2])
def test_weights_count_rows(target, gaps):
    X = make_samples(9, 30, gaps=gaps)
    weights = np.array([2, 0, 1, 3, 1, 0, 2, 1, 1])
    normalizer = QuantileNormalizer(target, missing="ignore")
    weighted = normalizer.fit(X, sample_weight=weights).target_quantiles_
    repeated = normalizer.fit(np.repeat(X, weights, axis=0)).target_quantiles_
    assert_allclose(weighted, repeated, rtol=1e-12, atol=1e-14)


@learned
def test_weights_whose_sum_overflows_count_by_their_ratios(target):
    X = make_samples(3, 30)
    normalizer = QuantileNormalizer(target)
    huge = normalizer.fit(X, sample_weight=[1e308, 1e308, 5e307]).target_quantiles_
    small = normalizer.fit(X, sample_weight=[2.0, 2.0, 1.0]).target_quantiles_
    assert_allclose(huge, small, rtol=1e-12, atol=1e-14)


@learned
@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (np.zeros(12), "weight"),
        (-np.ones(12), "[Nn]egative"),
        (np.ones(5), "sample_weight"),
        (np.full(12, np.nan), "NaN"),
        (np.full(12, np.inf), "infinity"),
        (np.ones((12, 2)), "1D|1-D|dim"),
    ],
)
def test_bad_weights_are_refused(target, weights, message):
    with pytest.raises(ValueError, match=message):
        QuantileNormalizer(target).fit(make_samples(), sample_weight=weights)


def test_weights_are_routed_through_a_pipeline():
    X = make_samples()
    y = np.arange(12) % 2
    weights = np.random.default_rng(0).random(12)
    with config_context(enable_metadata_routing=True):
        normalizer = QuantileNormalizer("mean").set_fit_request(sample_weight=True)
        model = LogisticRegression().set_fit_request(sample_weight=False)
        pipeline = make_pipeline(normalizer, model).fit(X, y, sample_weight=weights)
    expected = QuantileNormalizer("mean").fit(X, sample_weight=weights)
    assert_array_equal(pipeline[0].target_quantiles_, expected.target_quantiles_)
    assert np.any(expected.target_quantiles_ != QuantileNormalizer("mean").fit(X).target_quantiles_)


# ---------------------------------------------------------------------------------------- large values


@pytest.mark.parametrize("missing", ["error", "ignore"])
@pytest.mark.parametrize("target", ["mean", "median", "normal"])
def test_the_estimator_refuses_infinities(target, missing):
    X = make_samples()
    normalizer = QuantileNormalizer(target, missing=missing).fit(X)
    X[1, 1] = np.inf
    for method in (normalizer.transform, normalizer.fit, normalizer.fit_transform):
        with pytest.raises(ValueError, match="infinity"):
            method(X)


# ----------------------------------------------------------------------------------------- data frames


@pytest.mark.parametrize("target", ["mean", "median", "normal"])
@floats
def test_pandas_frames_keep_their_index_and_columns(target, dtype):
    X = make_samples(4, 3, dtype=dtype)
    frame = pd.DataFrame(X, index=["d", "b", "c", "a"], columns=["x", "y", "x"])
    before = frame.copy()
    out = quantile_normalize(frame, target)
    expected = pd.DataFrame(quantile_normalize(X, target), frame.index, frame.columns)
    pd.testing.assert_frame_equal(out, expected)
    pd.testing.assert_frame_equal(frame, before)


@pytest.mark.parametrize("target", ["mean", "median", "normal"])
@pytest.mark.parametrize("shape", [(4, 3), (3, 3), (1, 3), (3, 1), (0, 3)])
def test_polars_frames_keep_their_columns(target, shape):
    X = make_samples(*shape)
    frame = pl.DataFrame({f"gene_{j}": X[:, j] for j in range(shape[1])})
    out = quantile_normalize(frame, target)
    assert isinstance(out, pl.DataFrame)
    assert out.columns == frame.columns
    assert_array_equal(out.to_numpy(), quantile_normalize(X, target))


@pytest.mark.parametrize("output", ["pandas", "polars"])
def test_set_output_gives_frames_with_the_features_names(output):
    frame = pd.DataFrame(make_samples(4, 3), index=list("dbca"), columns=["x", "y", "z"])
    normalizer = QuantileNormalizer("mean").set_output(transform=output)
    plain = QuantileNormalizer("mean").fit_transform(frame)
    assert isinstance(plain, np.ndarray)
    for out in (normalizer.fit_transform(frame), normalizer.transform(frame)):
        assert list(out.columns) == ["x", "y", "z"]
        assert_array_equal(out.to_numpy(), plain)
    if output == "pandas":
        assert list(normalizer.transform(frame).index) == list("dbca")
    assert list(normalizer.get_feature_names_out()) == ["x", "y", "z"]


# ---------------------------------------------------------------------------------------------- no rows


@floats
@pytest.mark.parametrize("target", [*TARGETS, [1.0, 2.0, 3.0]])
def test_no_rows_give_no_rows(target, dtype):
    X = np.ones((4, 3), dtype)
    out = quantile_normalize(X[np.zeros(4, bool)], target)
    assert out.shape == (0, 3)
    assert out.dtype == dtype


def test_no_rows_do_not_hide_a_bad_target():
    with pytest.raises(ValueError, match="unknown target_quantiles 'modal'"):
        quantile_normalize(np.empty((0, 3)), "modal")
    with pytest.raises(ValueError, match="2 values but X has 3 features"):
        quantile_normalize(np.empty((0, 3)), [1.0, 2.0])


# ------------------------------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ([1.0, 2.0], "target_quantiles has 2 values but X has 40 features; give one per feature"),
        (np.r_[np.nan, np.arange(39.0)], "value 0 is nan"),
        (np.r_[np.arange(39.0), np.inf], "value 39 is inf"),
        (np.zeros((1, 40)), r"shape \(1, 40\)"),
        (["a"] * 40, "cannot use"),
        (3.0, r"shape \(\)"),
        (None, r"shape \(\)"),
        (lambda q: 1.0, r"shape \(\) came"),
    ],
)
def test_bad_targets_are_refused(target, message):
    X = make_samples()
    for call in (
        lambda: quantile_normalize(X, target),
        lambda: QuantileNormalizer(target).fit(X),
        lambda: QuantileNormalizer(target).fit_transform(X),
    ):
        with pytest.raises(ValueError, match=message):
            call()


@pytest.mark.parametrize(
    ("option", "value", "known"),
    [
        ("target_quantiles", "modal", TARGETS),
        ("ties", "min", ["average", "first", "mean_rank"]),
        ("ties", None, ["average", "first", "mean_rank"]),
        ("missing", "drop", ["error", "ignore"]),
        ("missing", True, ["error", "ignore"]),
    ],
)
def test_unknown_names_are_refused_with_the_known_ones(option, value, known):
    X = make_samples()
    for call in (
        lambda: quantile_normalize(X, **{option: value}),
        lambda: QuantileNormalizer(**{option: value}).fit(X),
        lambda: QuantileNormalizer(**{option: value}).fit_transform(X),
    ):
        with pytest.raises(ValueError, match=r"must be one of|known names are"):
            call()
    with pytest.raises(ValueError, match=repr(value)) as caught:
        quantile_normalize(X, **{option: value})
    assert all(repr(name) in str(caught.value) for name in known)


def test_a_decreasing_target_is_used_with_a_warning():
    f = np.array([3.0, 2.0, 1.0])
    with pytest.warns(UserWarning, match="not non-decreasing"):
        out = quantile_normalize([[30.0, 10.0, 20.0]], f)
    assert_array_equal(out, [[1.0, 3.0, 2.0]])
    with pytest.warns(UserWarning, match="not non-decreasing"):
        normalizer = QuantileNormalizer(f).fit([[30.0, 10.0, 20.0]])
    assert_array_equal(normalizer.transform([[30.0, 10.0, 20.0]]), [[1.0, 3.0, 2.0]])


# ----------------------------------------------------------------------------------- given distributions


@pytest.mark.parametrize("target", [stats.norm(5, 2), lambda q: q**3, np.arange(40.0)])
def test_any_target_of_make_target_quantiles_will_do(target):
    X = make_samples()
    f = make_target_quantiles(target, 40)
    expected = quantile_normalize(X, f)
    assert_array_equal(quantile_normalize(X, target), expected)
    normalizer = QuantileNormalizer(target)
    assert_array_equal(normalizer.fit_transform(X), expected)
    assert_array_equal(normalizer.target_quantiles_, f)


# ------------------------------------------------------------------------------------- as an estimator


# ------------------------------------------------------------------- masked arrays, and genes in rows


def masked(dtype=np.float64):
    rng = np.random.default_rng(0)
    values = (100 * rng.standard_normal((8, 30))).astype(dtype)
    return np.ma.array(values, mask=rng.random((8, 30)) < 0.2)


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int16])
@pytest.mark.parametrize("missing", ["error", "ignore"])
@pytest.mark.parametrize("target", ["mean", "median", "normal"])
def test_masked_entries_do_not_count(dtype, missing, target):
    X = masked(dtype)
    X.data[X.mask] = 30_000  # what lies below the mask is never read
    gaps = X.astype(np.float32 if dtype == np.float32 else np.float64).filled(np.nan)
    expected = quantile_normalize(gaps, target, missing="ignore")
    normalizer = QuantileNormalizer(target, missing=missing)
    for out in (
        quantile_normalize(X, target, missing=missing),
        quantile_normalize(X.T, target, missing=missing, axis=0).T,
        normalizer.fit(X).transform(X),
        normalizer.fit_transform(X),
    ):
        assert isinstance(out, np.ma.MaskedArray)
        np.testing.assert_array_equal(out.mask, X.mask)
        np.testing.assert_array_equal(out.filled(np.nan), expected)


def test_nan_that_is_not_masked_is_missing_as_ever():
    X = masked()
    X[2, 3] = np.nan
    X.mask[2, 3] = False
    with pytest.raises(ValueError, match="X contains NaN, first at sample 2, feature 3"):
        quantile_normalize(X)
    with pytest.raises(ValueError, match="X contains NaN, first at sample 2, feature 3"):
        QuantileNormalizer().fit(X)
    out = quantile_normalize(X, missing="ignore")
    np.testing.assert_array_equal(out.mask, X.mask)
    assert np.isnan(out[2, 3])


def test_functions_that_need_every_value_refuse_masked_ones():
    X = masked()
    for call in (rank_samples, permutation_kernel):
        with pytest.raises(ValueError, match="contains NaN"):
            call(X)
    with pytest.raises(ValueError, match="finite"):
        make_target_quantiles(X[0], 30)
    with pytest.raises(ValueError, match="pm must be finite"):
        rma(np.abs(X) + 1, np.arange(8))
    with pytest.raises(TypeError, match="X has masked blocks"):
        quantile_normalize(da.ma.masked_greater(da.ones((4, 3)), 2))


def test_tall_data_frames_of_named_rows_are_warned_about():
    genes = pd.DataFrame(
        np.random.default_rng(0).random((81, 4)), index=[f"g{j}" for j in range(81)]
    )
    with pytest.warns(UserWarning, match=r"81 rows \('g0', …\) and 4 columns.*axis=0"):
        quantile_normalize(genes)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        quantile_normalize(genes, axis=1)
        quantile_normalize(genes[:80])
        quantile_normalize(genes.reset_index(drop=True))
        by_column = quantile_normalize(genes, "mean", axis=0)
    pd.testing.assert_frame_equal(by_column, quantile_normalize(genes.T, "mean").T)
    with pytest.raises(ValueError, match="axis must be 1"):
        quantile_normalize(genes, axis=2)
    with pytest.raises(ValueError, match="0 feature"):
        quantile_normalize(genes[:0], axis=0)
