import numpy as np
import pytest
import reference
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats

from suquan import make_target_quantiles
from suquan.targets import learn_target, resolve_target

few = settings(max_examples=60, deadline=None, derandomize=True)

NAMES = ["normal", "uniform", "exponential", "cauchy", "bimodal"]
SCIPY = {
    "normal": stats.norm(),
    "uniform": stats.uniform(),
    "exponential": stats.expon(),
    "cauchy": stats.cauchy(),
}
sizes = pytest.mark.parametrize("p", [1, 2, 3, 10, 1001])


# -------------------------------------------------------------------------------------- named targets


@sizes
@pytest.mark.parametrize("name", SCIPY)
def test_named_targets_are_the_quantiles_of_their_distributions(name, p):
    expected = SCIPY[name].ppf(reference.nodes(p))
    assert_allclose(make_target_quantiles(name, p), expected, rtol=1e-12, atol=1e-15)


def mixture_cdf(x):
    return 0.5 * (stats.norm.cdf(x, -3, 1) + stats.norm.cdf(x, 3, 1))


@pytest.mark.parametrize("p", [1000, 100_001])
@pytest.mark.parametrize("name", [*SCIPY, "bimodal"])
def test_distribution_functions_of_named_targets_give_back_the_grid(name, p):
    cdf = mixture_cdf if name == "bimodal" else SCIPY[name].cdf
    values = make_target_quantiles(name, p)
    assert_allclose(cdf(values), reference.nodes(p), rtol=1e-10)
    assert np.all(np.diff(values) > 0)


def test_cauchy_tails_are_exact_for_many_features():
    values = make_target_quantiles("cauchy", 1_000_000)
    # The series of the cotangent: −1/(πq) + πq/3.
    q = 0.5 / 1_000_000
    assert_allclose(values[0], -1 / (np.pi * q) + np.pi * q / 3, rtol=1e-14)


# ------------------------------------------------------------------- distributions, callables, arrays


@pytest.mark.parametrize(
    "target", [stats.norm(2, 3), stats.gamma(2.5), stats.poisson(3), stats.norm]
)
def test_scipy_distributions_give_their_quantiles(target):
    assert_array_equal(make_target_quantiles(target, 9), target.ppf(reference.nodes(9)))


@pytest.mark.skipif(not hasattr(stats, "Normal"), reason="needs SciPy's new distributions")
def test_new_scipy_distributions_give_their_quantiles():
    values = make_target_quantiles(stats.Normal(mu=1.0, sigma=2.0), 9)
    assert_allclose(values, stats.norm(1.0, 2.0).ppf(reference.nodes(9)), rtol=1e-12)


@pytest.mark.parametrize("kind", [list, tuple, np.array, np.float32, np.int16])
def test_arrays_of_the_same_length_are_the_target(kind):
    given_values = kind([1, 2, 2, 5])
    values = make_target_quantiles(given_values, 4)
    assert_array_equal(values, [1.0, 2.0, 2.0, 5.0])
    assert values.dtype == np.float64


@few
@given(st.integers(1, 30), st.integers(1, 30), st.integers(0, 10**6))
def test_arrays_of_any_length_equal_linear_interpolation(m, p, seed):
    g = np.sort(np.random.default_rng(seed).normal(size=m))
    expected = np.array([reference.reading_row(j, p, m) @ g for j in range(p)])
    assert_allclose(make_target_quantiles(g, p), expected, rtol=1e-12, atol=1e-12)


# ------------------------------------------------------------------------------------------- bad input


@pytest.mark.parametrize("name", ["Normal", "gaussian", "", "median", "mean"])
def test_unknown_names_are_refused_with_the_known_ones(name):
    with pytest.raises(ValueError, match=f"unknown target '{name}'") as caught:
        make_target_quantiles(name, 3)
    assert all(repr(known) in str(caught.value) for known in NAMES)


@pytest.mark.parametrize("n_features", [0, -3, True, 2.0, 2.5, "3", None, np.float64(3)])
def test_the_number_of_features_must_be_a_positive_integer(n_features):
    with pytest.raises(ValueError, match="n_features must be a positive integer; got"):
        make_target_quantiles("normal", n_features)


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ([1.0, np.nan, 2.0], "value 1 is nan"),
        ([1.0, 2.0, np.inf], "value 2 is inf"),
        ([[1.0, 2.0, 3.0]], r"vector of at least one number; got shape \(1, 3\)"),
        (np.zeros((2, 2, 2)), r"shape \(2, 2, 2\)"),
        ([], r"shape \(0,\)"),
        (3.0, r"shape \(\)"),
        (None, r"shape \(\)"),
        (["a", "b", "c"], "cannot use"),
        (["1", "2", "3"], "cannot use"),
        (np.array([1j, 2.0, 3.0]), "cannot use"),
        ([1.0, [2.0, 3.0]], "cannot use"),
        ({"a": 1.0}, "cannot use"),
        (b"normal", "cannot use"),
        (lambda q: 1.0, r"shape \(\) came"),
        (lambda q: q[:-1], r"shape \(2,\) came"),
        (lambda q: np.stack([q, q]), r"shape \(2, 3\) came"),
        (lambda q: q * np.nan, "value 0 is nan"),
        (stats.norm(scale=-1.0), "value 0 is nan"),
    ],
)
def test_targets_that_are_no_finite_vector_are_refused(target, message):
    with pytest.raises(ValueError, match=message):
        make_target_quantiles(target, 3)


@pytest.mark.parametrize("target", [[0.0, 2.0, 1.0], lambda q: -q, np.array([3, 2, 1])])
def test_a_given_target_that_decreases_is_kept_with_a_warning(target):
    with pytest.warns(UserWarning, match="not non-decreasing"):
        values = make_target_quantiles(target, 3)
    assert np.any(np.diff(values) < 0)


def test_targets_of_estimators_must_have_one_value_per_feature():
    with pytest.raises(ValueError, match="has 2 values but X has 3 features; give one per feature"):
        resolve_target([1.0, 2.0], 3)
    with pytest.raises(ValueError, match="unknown target_quantiles 'modal'") as caught:
        resolve_target("modal", 3)
    assert all(repr(known) in str(caught.value) for known in ["median", "mean", *NAMES])


# ------------------------------------------------------------------------------------- learned targets


def make_samples(n, p, seed, dtype="float64", gaps=0.0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p)) * rng.exponential(size=(n, 1)) + rng.poisson(1.0, (n, p))
    X[rng.random((n, p)) < gaps] = np.nan
    return X.astype(dtype)


@pytest.mark.parametrize("target", ["mean", "median"])
@pytest.mark.parametrize("shape", [(1, 1), (1, 9), (2, 9), (7, 1), (7, 50), (8, 50), (300, 2000)])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_learned_targets_equal_numpy_on_complete_samples(target, shape, dtype):
    X = make_samples(*shape, seed=0, dtype=dtype)
    ordered = np.sort(X, axis=1).astype(float)
    expected = np.mean(ordered, axis=0) if target == "mean" else np.median(ordered, axis=0)
    assert_allclose(learn_target(X, target), expected, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("target", ["mean", "median"])
@pytest.mark.parametrize("gaps", [0.0, 0.4])
def test_learned_targets_equal_the_weighted_definition(target, gaps):
    @few
    @given(st.integers(1, 9), st.integers(1, 12), st.integers(0, 10**6))
    def check(n, p, seed):
        X = make_samples(n, p, seed, gaps=gaps)
        X[0, 0] = 1.0  # at least one sample with a value
        rng = np.random.default_rng(seed)
        weights = rng.choice([0.0, 0.5, 1.0, 1.0, 2.0, rng.random()], size=n)
        weights[0] = 1.0
        for w in (None, weights):
            values = learn_target(X, target, sample_weight=w, missing="ignore")
            expected = reference.learned_target(X, target, w)
            assert_allclose(values, expected, rtol=1e-12, atol=1e-12)

    check()


@pytest.mark.parametrize("target", ["mean", "median"])
@pytest.mark.parametrize("n", [2, 3, 4, 300])
def test_learned_targets_of_huge_values_do_not_overflow(target, n):
    X = np.full((n, 4), 1.6e308) * np.array([-1.0, -0.5, 0.5, 1.0])
    assert_allclose(learn_target(X, target), [-1.6e308, -0.8e308, 0.8e308, 1.6e308], rtol=1e-12)


@pytest.mark.parametrize("target", ["mean", "median"])
@pytest.mark.parametrize(
    "X",
    [
        [[1.0, np.inf], [2.0, np.inf]],
        [[-np.inf, 3.0], [-np.inf, np.inf]],
        [[np.inf, -np.inf, np.nan], [1.0, 2.0, 3.0], [1.0, 2.0, 3.0]],
        [[-np.inf] * 3, [np.inf] * 3],
    ],
)
def test_learned_targets_that_are_not_finite_are_refused(target, X):
    with pytest.raises(ValueError, match=f"the {target} of the sorted samples is .* at place [01]"):
        learn_target(np.array(X), target, missing="ignore")


def test_the_median_may_ignore_infinities_that_it_does_not_touch():
    X = np.array([[1.0, np.inf], [2.0, 5.0], [3.0, 6.0]])
    assert_array_equal(learn_target(X, "median"), [2.0, 6.0])


@pytest.mark.parametrize("target", ["mean", "median"])
def test_samples_without_any_value_do_not_enter_learned_targets(target):
    X = make_samples(5, 8, seed=3)
    with_empty = np.vstack([X[:2], np.full((1, 8), np.nan), X[2:]])
    expected = learn_target(X, target)
    assert_allclose(learn_target(with_empty, target, missing="ignore"), expected, rtol=1e-13)
    with pytest.raises(ValueError, match="no sample is left to learn the target from"):
        learn_target(np.full((3, 8), np.nan), target, missing="ignore")
    weights = np.array([0.0, 0.0, 1.0, 0.0, 0.0, 0.0])
    with pytest.raises(ValueError, match="no sample is left"):
        learn_target(with_empty, target, sample_weight=weights, missing="ignore")
