import numpy as np
import pytest
import reference
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.testing import assert_allclose, assert_array_equal

from suquan import quantile_normalize
from suquan.ranking import SampleOperator
from suquan.targets import knot_positions

few = settings(max_examples=60, deadline=None, derandomize=True)

ties_rules = pytest.mark.parametrize("ties", reference.TIES)
missing_rules = pytest.mark.parametrize("missing", ["error", "ignore"])


def make_samples(n, p, *, missing, seed=0, dtype="float64"):
    """Samples with ties; with NaN, a full row and an empty row among them, if they may be missing."""
    rng = np.random.default_rng([seed, n, p])
    X = rng.poisson(4.0, (n, p)) + np.where(rng.random((n, p)) < 0.5, 0.0, rng.random((n, p)))
    if missing == "ignore":
        X[rng.random((n, p)) < 0.3] = np.nan
        X[0] = rng.normal(size=p)
        X[-1] = np.nan
    return X.astype(dtype)


def matrices_of(X, ties):
    return np.stack([reference.operator_matrix(x, ties) for x in X])


def operator_of(X, ties, **kwargs):
    return SampleOperator.from_samples(X, ties=ties, missing="ignore", **kwargs)


# ------------------------------------------------------------------------- against explicit matrices


@st.composite
def problems(draw):
    """Small samples with ties, infinities and NaN, a target f and weights w."""
    n, p = draw(st.tuples(st.integers(1, 4), st.integers(1, 9)))
    elements = st.sampled_from([np.nan, -np.inf, -1.0, -0.0, 0.0, 5e-324, 1.0, 2.0, np.inf])
    X = draw(hnp.arrays(np.float64, (n, p), elements=elements))
    f, w = np.random.default_rng(draw(st.integers(0, 10**6))).normal(size=(2, p))
    return X, f, w


@ties_rules
def test_operator_equals_its_matrix_whatever_the_pattern_of_ties_and_gaps(ties):
    @few
    @given(problems())
    def check(problem):
        X, f, w = problem
        T = matrices_of(X, ties)
        operator = operator_of(X, ties)
        assert_allclose(operator.apply(f), T @ f, rtol=1e-13, atol=1e-13)
        assert_allclose(operator.adjoint(w), np.swapaxes(T, 1, 2) @ w, rtol=1e-13, atol=1e-13)
        assert_allclose(quantile_normalize_quietly(X, f, ties), reference.normalize(X, f, ties))

    check()


def quantile_normalize_quietly(X, f, ties):
    """Normalised samples for any f, sorted or not."""
    out = operator_of(X, ties).apply(f, gap=np.nan)
    if np.all(np.diff(f) >= 0):
        assert_array_equal(quantile_normalize(X, f, ties=ties, missing="ignore"), out)
    return out


# -------------------------------------------------------------------------------- adjoint identity


@few
@given(
    st.sampled_from(reference.TIES),
    st.sampled_from(["error", "ignore"]),
    st.sampled_from([1, 2, 17, 1000, 32_768, 32_769]),
    st.integers(0, 10**6),
)
def test_adjoint_identity_holds_for_every_rule(ties, missing, p, seed):
    X = make_samples(4, p, missing=missing, seed=seed)
    f, w = np.random.default_rng(seed).normal(size=(2, p))
    operator = SampleOperator.from_samples(X, ties=ties, missing=missing)
    left, right = operator.apply(f) @ w, operator.adjoint(w) @ f
    assert_allclose(left, right, rtol=1e-12, atol=1e-12 * np.sqrt(p))


@pytest.mark.parametrize(("ties", "expected"), [("average", 11 / 3), ("mean_rank", 1.0)])
def test_three_tied_values_read_the_target_as_the_rules_say(ties, expected):
    operator = operator_of(np.array([[7.0, 7.0, 7.0]]), ties)
    assert_allclose(operator.apply([0.0, 1.0, 10.0]), [[expected] * 3])


# -------------------------------------------------------------------------------------------- knots


@few
@given(
    st.sampled_from(reference.TIES),
    st.sampled_from(["error", "ignore"]),
    st.sampled_from([1, 2, 7, 30, 50]),
)
def test_adjoint_with_knots_is_folded_by_the_interpolation_matrix(ties, missing, n_knots):
    p = 30
    X = make_samples(5, p, missing=missing)
    w = np.random.default_rng(3).normal(size=p)
    operator = SampleOperator.from_samples(X, ties=ties, missing=missing)
    B = reference.interpolation_matrix(p, n_knots)
    rows = operator.adjoint(w, knots=knot_positions(p, n_knots))
    assert rows.shape == (5, n_knots)
    assert_allclose(rows, operator.adjoint(w) @ B, rtol=1e-12, atol=1e-12)
    g = np.random.default_rng(4).normal(size=n_knots)
    assert_allclose(operator.apply(B @ g) @ w, rows @ g, rtol=1e-12, atol=1e-12)


# ---------------------------------------------------------------------- sums, selections, many weights


@ties_rules
@missing_rules
def test_sums_equal_explicit_sums(ties, missing):
    X = make_samples(9, 41, missing=missing)
    rng = np.random.default_rng(6)
    f, w = rng.normal(size=(2, 41))
    c = rng.normal(size=9)
    T = matrices_of(X, ties)
    operator = SampleOperator.from_samples(X, ties=ties, missing=missing)
    assert_allclose(operator.sum_apply(c, f), sum(c[i] * T[i] @ f for i in range(9)), atol=1e-12)
    expected = sum(c[i] * T[i].T @ w for i in range(9))
    assert_allclose(operator.sum_adjoint(c, w), expected, atol=1e-12)


@ties_rules
@pytest.mark.parametrize(
    "rows", [np.array([5, 0, 0, 3]), np.arange(9) % 2 == 0, slice(2, 7, 2), np.zeros(9, bool)]
)
def test_operator_of_selected_samples_is_the_selection_of_the_operator(ties, rows):
    X = make_samples(9, 41, missing="ignore")
    f = np.random.default_rng(7).normal(size=41)
    operator = operator_of(X, ties)
    part = operator.take(rows)
    assert part.ties == ties
    assert part.n_samples == len(X[rows])
    assert_array_equal(part.apply(f), operator.apply(f)[rows])
    assert_array_equal(part.adjoint(f), operator.adjoint(f)[rows])
    assert_array_equal(part.apply(f), operator_of(X[rows], ties).apply(f))


def test_operator_without_samples_gives_no_rows_and_zero_sums():
    operator = operator_of(np.empty((0, 5)), "average")
    assert operator.apply(np.ones(5)).shape == (0, 5)
    assert operator.adjoint(np.ones(5)).shape == (0, 5)
    assert_array_equal(operator.sum_apply(np.empty(0), np.ones(5)), np.zeros(5))
    assert_array_equal(operator.sum_adjoint(np.empty(0), np.ones(5)), np.zeros(5))


@ties_rules
@missing_rules
def test_scores_are_those_of_the_normalised_samples_and_each_samples_own(ties, missing):
    X = make_samples(6, 20, missing=missing)
    rng = np.random.default_rng(8)
    W, f = rng.normal(size=(3, 20)), rng.normal(size=20)
    operator = operator_of(X, ties)
    scores = operator.scores(W, f)
    assert_allclose(scores, matrices_of(X, ties) @ f @ W.T, rtol=1e-12, atol=1e-12)
    for i in range(6):
        assert_array_equal(operator.take([i]).scores(W, f)[0], scores[i])


# ------------------------------------------------------------------------------------------ invariants


@ties_rules
def test_normalised_values_of_an_increasing_target_keep_the_samples_order(ties):
    X = make_samples(8, 60, missing="ignore")
    f = np.sort(np.random.default_rng(10).normal(size=60))
    out = quantile_normalize(X, f, ties=ties, missing="ignore")
    for x, row in zip(X, out, strict=True):
        order = np.argsort(x[~np.isnan(x)], kind="stable")
        assert np.all(np.diff(row[~np.isnan(x)][order]) >= -1e-12)


@ties_rules
def test_results_do_not_depend_on_the_number_of_threads(ties):
    X = make_samples(400, 2500, missing="ignore")
    rng = np.random.default_rng(11)
    f, w = rng.normal(size=(2, 2500))
    c = rng.normal(size=400)
    one = operator_of(X, ties, n_jobs=1)
    for n_jobs in (2, 4):
        other = operator_of(X, ties, n_jobs=n_jobs)
        assert_array_equal(other.codes, one.codes)
        assert_array_equal(other.apply(f), one.apply(f))
        assert_array_equal(other.adjoint(w), one.adjoint(w))
        assert_array_equal(other.sum_apply(c, f), one.sum_apply(c, f))
        assert_array_equal(other.sum_adjoint(c, w), one.sum_adjoint(c, w))


def test_constant_samples_are_recognised():
    assert operator_of(np.array([[1.0, 1.0, np.nan], [2.0, 2.0, 2.0]]), "average").is_constant
    assert operator_of(np.array([[0.0, -0.0]]), "average").is_constant
    assert operator_of(np.array([[np.nan, np.nan]]), "average").is_constant
    assert operator_of(np.zeros((3, 1)), "average").is_constant
    assert not operator_of(np.array([[1.0, 1.0], [2.0, 3.0]]), "average").is_constant


def test_mean_of_huge_tied_targets_does_not_overflow():
    operator = operator_of(np.array([[2.0, 2.0, 1.0]]), "average")
    assert_allclose(operator.apply([0.0, 1.5e308, 1.7e308]), [[1.6e308, 1.6e308, 0.0]])


# ------------------------------------------------------------------------------------------- bad input


def test_operator_refuses_nan_and_unknown_rules():
    X = np.array([[1.0, 2.0], [np.nan, 1.0]])
    with pytest.raises(ValueError, match="sample 1, feature 0"):
        SampleOperator.from_samples(X)
    with pytest.raises(ValueError, match=r"sample 1, feature 0 \('gene'\)"):
        SampleOperator.from_samples(X, feature_names=["gene", "other"])
    with pytest.raises(ValueError, match="'average', 'first', 'mean_rank'; got 'median'"):
        SampleOperator.from_samples(X, ties="median")
    with pytest.raises(ValueError, match="'error', 'ignore'; got 'drop'"):
        SampleOperator.from_samples(X, missing="drop")
