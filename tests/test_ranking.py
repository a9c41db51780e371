import numpy as np
import pytest
import reference
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.testing import assert_array_equal
from scipy import sparse
from sklearn.base import clone

import suquan
from suquan._validation import check_choice
from suquan.ranking import SampleOperator, code_masks

few = settings(max_examples=60, deadline=None, derandomize=True)
many = settings(max_examples=200, deadline=None, derandomize=True)

INTEGERS = ["uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64"]
DTYPES = ["float16", "float32", "float64", "bool", *INTEGERS]

# Where the sort changes its way: insertion, width of digits; where codes and ranks change their type.
SIZES = [1, 2, 3, 47, 48, 49, 100, 256, 257, 450, 451, 2_049, 32_768, 32_769, 65_536, 65_537]


# ------------------------------------------------------------------------------------ hard samples


def _noise(rng, p):
    return rng.normal(size=p)


def _with_outlier(rng, p, largest):
    x = 1.0 + 1e-3 * rng.normal(size=p)
    x[rng.integers(p)] = largest
    return x


def _with_infinities(rng, p):
    x = rng.normal(size=p)
    x[rng.random(p) < 0.1] = np.inf
    x[rng.random(p) < 0.1] = -np.inf
    return x


def _signed_zeros(rng, p):
    return np.where(rng.random(p) < 0.5, 0.0, -0.0) * 1.0


def _mostly_zero(rng, p):
    return np.where(rng.random(p) < 0.6, 0.0, rng.exponential(size=p))


def _all_magnitudes(rng, p, dtype):
    exponent = rng.uniform(np.log10(np.finfo(dtype).tiny), np.log10(np.finfo(dtype).max), p)
    return rng.choice([-1.0, 1.0], p) * 10.0**exponent


KINDS = {
    "normal": lambda rng, p, dtype: _noise(rng, p),
    "cauchy": lambda rng, p, dtype: rng.standard_cauchy(p),
    "mostly zero": lambda rng, p, dtype: _mostly_zero(rng, p),
    "counts": lambda rng, p, dtype: rng.poisson(3.0, p),
    "nearly equal": lambda rng, p, dtype: 1.0 + 1e-9 * _noise(rng, p),
    "equal in the leading bits": lambda rng, p, dtype: 1.0 + rng.integers(0, p, p) * 2.0**-52,
    "one outlier": lambda rng, p, dtype: _with_outlier(rng, p, np.finfo(dtype).max / 1e8),
    "sorted": lambda rng, p, dtype: np.sort(_noise(rng, p)),
    "reversed": lambda rng, p, dtype: np.sort(_noise(rng, p))[::-1],
    "constant": lambda rng, p, dtype: np.full(p, 3.25),
    "infinities": lambda rng, p, dtype: _with_infinities(rng, p),
    "signed zeros": lambda rng, p, dtype: _signed_zeros(rng, p),
    "denormal": lambda rng, p, dtype: (
        rng.integers(-50, 50, p) * float(np.finfo(dtype).smallest_subnormal)
    ),
    "huge": lambda rng, p, dtype: rng.uniform(-1.0, 1.0, p) * float(np.finfo(dtype).max),
    "all magnitudes": _all_magnitudes,
}


def hard_row(kind, p, dtype, seed=0):
    """Sample of one of the KINDS, in the type asked for."""
    rng = np.random.default_rng([seed, p])
    return np.asarray(KINDS[kind](rng, p, dtype)).astype(dtype)


def assert_ranked(X, ranks, order):
    """Both arrays are what a stable NumPy sort gives."""
    expected_order, expected_ranks = reference.order_and_ranks(X)
    assert_array_equal(order, expected_order)
    assert_array_equal(ranks, expected_ranks)


# ------------------------------------------------------------------------------ against plain NumPy


@many
@given(
    st.sampled_from(sorted(KINDS)),
    st.sampled_from(["float32", "float64"]),
    st.sampled_from(SIZES),
    st.integers(0, 10**6),
    st.sampled_from([0.0, 0.0, 0.2, 1.0]),
)
def test_codes_equal_a_stable_sort_with_nan_last(kind, dtype, p, seed, gaps):
    X = np.stack([hard_row(kind, p, dtype, seed), hard_row("normal", p, dtype, seed)])
    X[0, np.random.default_rng(seed).random(p) < gaps] = np.nan
    X[0, ::7] *= -1.0  # NaNs of both signs
    before = X.copy()
    found = SampleOperator.from_samples(X, missing="ignore")
    flag, mask = code_masks(found.codes.dtype)
    assert_array_equal(found.codes & mask, np.argsort(X, axis=1, kind="stable"))
    assert_array_equal(found.n_observed, np.sum(~np.isnan(X), axis=1))
    ordered = np.sort(X, axis=1)
    equal = ordered[:, 1:] == ordered[:, :-1]
    assert_array_equal((found.codes[:, 1:] & flag) != 0, equal)
    assert_array_equal(found.has_ties, equal.any(axis=1))
    assert_array_equal(SampleOperator.from_samples(X[1:]).codes, found.codes[1:])
    assert_array_equal(X, before)
    if gaps == 0.0:
        assert_ranked(X, *suquan.rank_samples(X))


@st.composite
def matrices(draw, dtype):
    """Small matrices with many ties and the awkward values of their type, without NaN."""
    shape = draw(hnp.array_shapes(min_dims=2, max_dims=2, min_side=1, max_side=12))
    dtype = np.dtype(dtype)
    if dtype.kind == "f":
        info = np.finfo(dtype)
        special = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, info.max, -info.max, info.tiny]
        special += [
            info.smallest_subnormal,
            -info.smallest_subnormal,
            np.nextafter(dtype.type(1), 2),
        ]
        anything = st.floats(width=8 * dtype.itemsize, allow_nan=False)
        elements = st.one_of(st.sampled_from([dtype.type(v) for v in special]), anything)
    elif dtype.kind == "b":
        elements = st.booleans()
    else:
        info = np.iinfo(dtype)
        anything = st.integers(int(info.min), int(info.max))
        few_values = st.sampled_from([int(info.min), int(info.max), 0, 1, 2])
        elements = st.one_of(few_values, anything)
    return draw(hnp.arrays(dtype, shape, elements=elements))


@pytest.mark.parametrize("dtype", DTYPES)
def test_ranks_equal_a_stable_sort_for_every_type(dtype):
    @few
    @given(matrices(dtype))
    def check(X):
        before = X.copy()
        assert_ranked(X, *suquan.rank_samples(X))
        assert_array_equal(X, before)

    check()


def test_ranks_do_not_depend_on_byte_order():
    rng = np.random.default_rng(0)
    integers = rng.integers(0, 2**63, (5, 50), dtype=np.uint64) * np.uint64(2)
    for dtype in ("f2", "f4", "f8", "i2", "i8", "u4", "u8"):
        X = (rng.normal(size=(5, 50)) if dtype[0] == "f" else integers).astype(dtype)
        for byteorder in "<>":
            assert_ranked(X, *suquan.rank_samples(X.astype(byteorder + dtype)))


def _layouts(X):
    n, p = X.shape
    wide = np.zeros((2 * n, 3 * p), X.dtype)
    wide[::2, ::3] = X
    backwards = np.ascontiguousarray(X[::-1, ::-1])
    frozen = X.copy()
    frozen.setflags(write=False)
    raw = bytearray(X.nbytes + 1)
    unaligned = np.frombuffer(raw, np.uint8)[1:].view(X.dtype).reshape(X.shape)
    unaligned[...] = X
    return {
        "fortran": np.asfortranarray(X),
        "strided": wide[::2, ::3],
        "reversed": backwards[::-1, ::-1],
        "read-only": frozen,
        "unaligned": unaligned,
        "broadcast": np.broadcast_to(X[0], X.shape),
    }


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "uint64"])
def test_ranks_do_not_depend_on_memory_layout(dtype):
    values = (100 * np.abs(np.random.default_rng(0).normal(size=(7, 30)))).astype(dtype)
    for X in _layouts(values).values():
        before = X.copy()
        assert_ranked(before, *suquan.rank_samples(X))
        assert_array_equal(X, before)


# ------------------------------------------------------------------------------------ what they mean


@pytest.mark.parametrize(
    ("p", "dtype"), [(1, "u1"), (256, "u1"), (257, "u2"), (65536, "u2"), (65537, "u4")]
)
def test_ranks_have_the_smallest_unsigned_type_that_fits(p, dtype):
    ranks, order = suquan.rank_samples(np.arange(p, 0, -1)[None, :])
    assert ranks.dtype == order.dtype == np.dtype(dtype)
    assert_array_equal(ranks[0], np.arange(p)[::-1])


def test_large_integers_are_not_rounded():
    assert_array_equal(suquan.rank_samples([[2**53 + 1, 2**53]])[0], [[1, 0]])
    big = np.array([[2**64 - 1, 2**63, 2**63 - 1, 0]], dtype=np.uint64)
    assert_array_equal(suquan.rank_samples(big)[0], [[3, 2, 1, 0]])


@pytest.mark.parametrize("dtype", ["int64", "uint64"])
def test_large_integers_do_not_tie_in_normalisers_and_models(dtype):
    rng = np.random.default_rng(0)
    small = rng.permuted(np.tile(np.arange(30), (40, 1)), axis=1).astype(dtype)
    large = small + np.array(2**60, dtype)
    y = small[:, 0] > 15
    assert_array_equal(SampleOperator.from_samples(large).codes, small.argsort(axis=1))
    for target in ("normal", np.arange(30.0)):
        expected = suquan.quantile_normalize(small, target)
        assert_array_equal(suquan.quantile_normalize(large, target), expected)
        assert_array_equal(suquan.QuantileNormalizer(target).fit_transform(large), expected)
    for model in (
        suquan.SuquanClassifier("fixed"),
        suquan.SuquanRegressor("fixed"),
        suquan.SupervisedQuantileNormalizer("svd", n_knots=5),
    ):
        fitted = [clone(model).fit(X, y) for X in (small, large)]
        outputs = [m.transform(X) for m, X in zip(fitted, (small, large), strict=True)]
        assert_array_equal(*outputs)


def test_ranking_commutes_with_row_selection_and_ignores_increasing_transforms():
    X = np.random.default_rng(0).normal(size=(30, 40)).round(1)
    ranks, order = suquan.rank_samples(X)
    rows = np.array([3, 3, 17, 0])
    assert_array_equal(suquan.rank_samples(X[rows])[0], ranks[rows])
    assert_array_equal(suquan.rank_samples(np.exp(X))[1], order)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int16", "uint64", "bool"])
def test_no_rows_give_no_rows(dtype):
    X = np.ones((4, 300), dtype)
    ranks, order = suquan.rank_samples(X[np.zeros(4, bool)])
    assert ranks.shape == order.shape == (0, 300)
    assert ranks.dtype == np.uint16


# ------------------------------------------------------------------------------------ Π_x of the paper


@few
@given(matrices("float64"), st.integers(0, 10**6))
def test_permutation_matrix_times_target_is_the_normalised_sample(X, seed):
    f = np.sort(np.random.default_rng(seed).normal(size=X.shape[1]))
    expected = suquan.quantile_normalize(X, f, ties="first")
    for x, row in zip(X, expected, strict=True):
        matrix = suquan.permutation_matrix(x)
        assert_array_equal(matrix @ f, row)
        assert_array_equal((matrix.T @ matrix).toarray(), np.eye(x.size))
        assert_array_equal(matrix.toarray(), reference.operator_matrix(x, "first"))


def test_permutation_matrix_wants_one_sample():
    with pytest.raises(ValueError, match=r"one sample, a vector; got an array of shape \(2, 3\)"):
        suquan.permutation_matrix(np.zeros((2, 3)))
    with pytest.raises(ValueError, match="shape \\(\\)"):
        suquan.permutation_matrix(1.0)
    with pytest.raises(ValueError, match="NaN"):
        suquan.permutation_matrix([1.0, np.nan])


# ----------------------------------------------------------------------------------------- bad input


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_nan_is_refused_with_its_position(dtype):
    X = np.zeros((9, 6), dtype)
    X[4, 5] = X[4, 2] = X[7, 0] = np.nan
    with pytest.raises(ValueError, match="first at sample 4, feature 2; 2 of 9 samples"):
        suquan.rank_samples(X)


@pytest.mark.parametrize(
    ("X", "error", "message"),
    [
        ([1.0, 2.0], ValueError, "Expected 2D array, got 1D"),
        (3.0, ValueError, "Expected 2D array, got scalar"),
        (np.zeros((2, 2, 2)), ValueError, "dim 3"),
        ([], ValueError, "Expected 2D array"),
        (np.empty((3, 0)), ValueError, r"0 feature\(s\)"),
        ([["a", "b"]], ValueError, "numeric|convert"),
        (np.array([["1", "2"]]), ValueError, "numeric"),
        (np.array([["a", 1.0]], dtype=object), ValueError, "convert"),
        (np.array([[1j, 2.0]]), ValueError, "Complex"),
        (np.array([["2020-01-01"]], dtype="M8[D]"), ValueError, "real numbers"),
        ([[1.0, 2.0], [3.0]], ValueError, "inhomogeneous"),
        (None, ValueError, "."),
        (sparse.csr_array(np.eye(2)), TypeError, "[Ss]parse"),
        (sparse.coo_matrix(np.eye(2)), TypeError, "[Ss]parse"),
    ],
)
def test_what_is_not_a_numeric_matrix_is_refused(X, error, message):
    functions = [suquan.rank_samples, suquan.quantile_normalize]
    if message not in ("numeric", "real numbers"):  # scikit-learn reads numbers in texts, and dates
        fitted = suquan.QuantileNormalizer().fit(np.zeros((2, 3)))
        functions += [suquan.QuantileNormalizer().fit, fitted.transform]
    for function in functions:
        with pytest.raises(error, match=message):
            function(X)


# --------------------------------------------------------------------------------------------- helpers


@pytest.mark.parametrize("value", ["mean", None, 0, ["first"]])
def test_unknown_choices_are_refused_with_the_known_ones(value):
    with pytest.raises(ValueError, match="ties must be one of 'average', 'first'; got"):
        check_choice("ties", value, ("average", "first"))
