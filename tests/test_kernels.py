"""Kernels on permutations against their definitions, pair by pair of features, and against SciPy."""

import warnings
from functools import partial

import joblib
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from reference import TIES, operator_matrix
from scipy.stats import kendalltau
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import Ridge
from sklearn.svm import SVC

from suquan import kernels, make_target_quantiles, quantile_normalize
from suquan.kernels import (
    kendall_kernel,
    mallows_kernel,
    permutation_kernel,
    quantile_kernel,
    weighted_kendall_kernel,
)
from suquan.targets import read_at_grid

ALL = {
    **{name: getattr(kernels, name) for name in kernels.__all__},
    "knots": partial(permutation_kernel, n_knots=2, smoothness=0.1),
    "top-k": partial(weighted_kendall_kernel, weight="top-k", k=3),
    "additive": partial(weighted_kendall_kernel, weight="additive"),
    "multiplicative": partial(weighted_kendall_kernel, weight="multiplicative"),
}
WEIGHTS = [("top-k", {"k": 3}), ("average", {}), ("additive", {}), ("multiplicative", {})]

# Rows of few different values, so that they tie, and of many.
pairs_of_samples = st.integers(2, 12).flatmap(
    lambda p: st.one_of(
        arrays(np.int64, (2, p), elements=st.integers(0, 5)),
        arrays(np.float64, (2, p), elements=st.floats(allow_nan=False)),
    )
)


def make_samples(n, p, *, with_ties=True, seed=0):
    X = np.random.default_rng(seed).standard_normal((n, p))
    if with_ties:
        X[1::3] = np.round(X[1::3])
        X[2, : p // 2] = 0.5
        X[3] = 7.0
    return X


def kendall_by_definition(x, y):
    i, j = np.triu_indices(len(x), 1)
    return np.mean((1 * (x[i] > x[j]) - (x[i] < x[j])) * (1 * (y[i] > y[j]) - (y[i] < y[j])))


def weighted_sum_by_definition(x, y, U):
    """Σ over pairs (i, j) that both samples put in this order, j above i."""
    r, s = (np.array([np.sum(z > value) for value in z]) for z in (x, y))
    p, total = len(x), 0.0
    for i in range(p):
        for j in range(p):
            if x[j] > x[i] and y[j] > y[i]:
                total += U(r[i], r[j]) * U(s[i], s[j])
    return total


def top(k):
    return lambda a, b: float(a < k and b < k)


def weighted_by_definition(x, y, weight, u):
    if weight == "average":
        ks = range(1, len(x) + 1)
        return np.mean([weighted_sum_by_definition(x, y, top(k)) for k in ks])
    rules = {
        "top-k": top(3),
        "additive": lambda a, b: u[a] + u[b],
        "multiplicative": lambda a, b: u[a] * u[b],
    }
    return weighted_sum_by_definition(x, y, rules[weight])


@settings(max_examples=150, deadline=None)
@given(pairs_of_samples)
def test_kendall_kernel_is_the_mean_of_sign_products_and_gives_the_tau_of_scipy(Z):
    x, y = Z
    K = kendall_kernel(Z)
    assert K[0, 1] == K[1, 0] == kendall_kernel([y], [x])[0, 0]
    for (i, j), value in np.ndenumerate(K):
        assert value == pytest.approx(kendall_by_definition(Z[i], Z[j]), abs=1e-15)
    if K[0, 0] > 0 and K[1, 1] > 0:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # SciPy adds up infinities
            tau = kendalltau(x, y).statistic
        assert K[0, 1] / np.sqrt(K[0, 0] * K[1, 1]) == pytest.approx(tau, abs=1e-12)


@settings(max_examples=60, deadline=None)
@given(pairs_of_samples, st.sampled_from(WEIGHTS))
def test_weighted_kendall_kernel_is_the_sum_over_pairs_in_the_same_order(Z, weighting):
    weight, options = weighting
    u = 1.0 / np.log2(2.0 + np.arange(Z.shape[1]))
    x, y = Z
    xy, xx, yy = (weighted_by_definition(*pair, weight, u) for pair in ((x, y), (x, x), (y, y)))
    expected = xy / np.sqrt(xx * yy) if xx * yy > 0 else 0.0
    K = weighted_kendall_kernel([x], [y], weight, **options)
    assert K[0, 0] == pytest.approx(expected, abs=1e-12)
    assert weighted_kendall_kernel(Z, weight=weight, **options)[0, 1] == pytest.approx(K[0, 0])


@pytest.mark.parametrize("weight", ["additive", "multiplicative"])
def test_weights_of_places_may_be_given(weight):
    x, y = make_samples(2, 9, with_ties=False)
    u = np.arange(9.0)[::-1] ** 2
    xy, xx, yy = (weighted_by_definition(*pair, weight, u) for pair in ((x, y), (x, x), (y, y)))
    for given_u in (u, 1e200 * u, list(u)):
        K = weighted_kendall_kernel([x], [y], weight, u=given_u)
        assert K[0, 0] == pytest.approx(xy / np.sqrt(xx * yy))


@pytest.mark.parametrize("p", [1024, 40_000])
def test_kendall_kernel_agrees_with_scipy_on_long_samples(p):
    X = make_samples(3, p, with_ties=False)
    X[1] = np.round(X[0] + X[1], 1)
    K = kendall_kernel(X)
    for i, j in ((0, 1), (0, 2), (1, 2)):
        tau = kendalltau(X[i], X[j]).statistic
        assert K[i, j] / np.sqrt(K[i, i] * K[j, j]) == pytest.approx(tau, abs=1e-12)


@pytest.mark.parametrize("ties", TIES)
@pytest.mark.parametrize(("n_knots", "smoothness"), [(None, 0.0), (11, 0.3), (5, 0.0), (4, 0.02)])
def test_permutation_kernel_is_its_formula(ties, n_knots, smoothness):
    p = 11
    K = n_knots or p
    X, Y = make_samples(5, p), make_samples(4, p, seed=1)
    steps = np.diff(np.eye(K), axis=0)
    R = (np.eye(K) + smoothness * K**2 * steps.T @ steps) / K
    B = np.column_stack([read_at_grid(unit, p) for unit in np.eye(K)])
    inverse = np.linalg.inv(R)

    def trace(S, S2):
        return np.trace(S @ inverse @ S2.T)

    maps = [[operator_matrix(z, ties) @ B for z in Z] for Z in (X, Y)]
    expected = np.array([[trace(S, S2) for S2 in maps[1]] for S in maps[0]]) / trace(B, B)
    options = {"n_knots": n_knots, "smoothness": smoothness, "ties": ties}
    np.testing.assert_allclose(permutation_kernel(X, Y, **options), expected, atol=1e-12)
    own = np.array([[trace(S, S2) for S2 in maps[0]] for S in maps[0]]) / trace(B, B)
    np.testing.assert_allclose(permutation_kernel(X, **options), own, atol=1e-12)


@pytest.mark.parametrize("ties", TIES)
def test_quantile_kernel_is_the_product_of_normalised_samples(ties):
    X, Y = make_samples(5, 20), make_samples(4, 20, seed=1)
    f = make_target_quantiles("exponential", 20)
    A, C = (quantile_normalize(Z, f, ties=ties) for Z in (X, Y))
    for target in ("exponential", f, 1e200 * f):
        K = quantile_kernel(X, Y, target, ties=ties)
        np.testing.assert_allclose(K, A @ C.T / np.sum(f**2), rtol=1e-12)


def test_mallows_kernel_falls_with_the_share_of_discordant_pairs():
    X, Y = make_samples(6, 12), make_samples(5, 12, seed=1)
    own, others = (np.diag(kendall_kernel(Z)) for Z in (X, Y))
    distance = own[:, None] + others - 2.0 * kendall_kernel(X, Y)
    np.testing.assert_allclose(mallows_kernel(X, Y, 3.0), np.exp(-3.0 * distance / 4.0))


@pytest.mark.parametrize("name", ALL)
def test_kernels_are_symmetric_positive_semidefinite_and_1_on_the_diagonal(name):
    for X in [np.indices((3,) * 4).reshape(4, -1).T, *(make_samples(20, p) for p in (2, 5, 30))]:
        K = ALL[name](X)
        np.testing.assert_array_equal(K, K.T)
        assert np.linalg.eigvalsh(K).min() > -1e-12
        untied = [len(np.unique(x)) == len(x) for x in X]
        np.testing.assert_allclose(np.diag(K)[untied], 1.0, rtol=1e-12)


@pytest.mark.parametrize("name", ALL)
def test_kernels_see_the_order_of_the_features_alone_with_and_without_Y(name):
    X = make_samples(8, 15)
    whole = ALL[name](pd.DataFrame(X))
    np.testing.assert_array_equal(ALL[name](np.exp(X)), whole)
    shuffled = np.random.default_rng(0).permutation(15)
    np.testing.assert_allclose(ALL[name](X[:, shuffled]), whole, atol=1e-14)
    np.testing.assert_allclose(ALL[name](X, X.copy()), whole, atol=1e-14)
    np.testing.assert_allclose(ALL[name](X[:3], X[3:]), whole[:3, 3:], atol=1e-14)
    with joblib.parallel_config(n_jobs=2):
        np.testing.assert_array_equal(ALL[name](X), whole)


@pytest.mark.parametrize("name", ALL)
def test_kernels_refuse_samples_that_they_cannot_compare(name):
    X = make_samples(5, 6)
    with_nan = X.copy()
    with_nan[2, 3] = np.nan
    for given_samples, message in (
        ((with_nan,), "X contains NaN, first in sample 2"),
        ((X, with_nan), "Y contains NaN, first in sample 2"),
        ((X[:, :1],), "X has one feature; kernels"),
        ((X, X[:, :5]), "X has 6 features but Y has 5"),
        ((X[0],), "2D array"),
    ):
        with pytest.raises(ValueError, match=message):
            ALL[name](*given_samples)


@pytest.mark.parametrize(
    ("kernel", "options", "message"),
    [
        (permutation_kernel, {"n_knots": 7}, "n_knots must be an integer from 2 to 6"),
        (permutation_kernel, {"n_knots": 2.5}, "n_knots must be an integer"),
        (permutation_kernel, {"smoothness": -1.0}, "smoothness must be a finite number ≥ 0"),
        (permutation_kernel, {"ties": "last"}, "ties must be one of"),
        (quantile_kernel, {"target_quantiles": np.zeros(6)}, "all 0"),
        (quantile_kernel, {"target_quantiles": [1, 2]}, "has 2 values but X has 6 features"),
        (quantile_kernel, {"target_quantiles": "median"}, "unknown target 'median'"),
        (mallows_kernel, {"scale": -0.1}, "scale must be a finite number ≥ 0"),
        (mallows_kernel, {"scale": np.nan}, "scale must be"),
        (mallows_kernel, {"scale": "1"}, "scale must be"),
        (weighted_kendall_kernel, {"weight": "top"}, "weight must be one of"),
        (weighted_kendall_kernel, {"weight": "top-k"}, "needs an integer k of at least 2"),
        (weighted_kendall_kernel, {"weight": "top-k", "k": 1}, "at least 2"),
        (weighted_kendall_kernel, {"k": 3}, "k belongs to weight='top-k'"),
        (weighted_kendall_kernel, {"u": np.ones(6)}, "weight='average' has no u"),
        (weighted_kendall_kernel, {"weight": "additive", "u": [1, 2]}, "6 in all"),
        (weighted_kendall_kernel, {"weight": "additive", "u": np.zeros(6)}, "not all 0"),
        (weighted_kendall_kernel, {"weight": "additive", "u": [np.inf] * 6}, "finite"),
    ],
)
def test_parameters_out_of_range_are_refused(kernel, options, message):
    with pytest.raises(ValueError, match=message):
        kernel(make_samples(5, 6), **options)


def test_kernels_serve_scikit_learn_as_functions_and_precomputed():
    X = make_samples(40, 20, with_ties=False)
    y = (X[:, 0] > X[:, 1]).astype(float)
    model = SVC(kernel=kendall_kernel).fit(X[:30], y[:30])
    precomputed = SVC(kernel="precomputed").fit(kendall_kernel(X[:30]), y[:30])
    scores = precomputed.decision_function(kendall_kernel(X[30:], X[:30]))
    np.testing.assert_allclose(model.decision_function(X[30:]), scores)
    # A ridge model on normalised samples is the kernel machine of the quantile kernel.
    f = make_target_quantiles("normal", 20)
    A = quantile_normalize(X, f)
    ridge = Ridge(alpha=2.0 * np.sum(f**2), fit_intercept=False).fit(A[:30], y[:30])
    kernel_ridge = KernelRidge(alpha=2.0, kernel="precomputed")
    kernel_ridge.fit(quantile_kernel(X[:30]), y[:30])
    predicted = kernel_ridge.predict(quantile_kernel(X[30:], X[:30]))
    np.testing.assert_allclose(predicted, ridge.predict(A[30:]))
