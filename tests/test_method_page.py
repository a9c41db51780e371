"""The formulas of docs/method.md, each evaluated on the library.

Every fenced block of the page is a formula with a name. The check of that name has the block as its docstring:
a formula without a check, or one that is changed on the page alone, fails.
"""

import inspect
import re
from functools import cache
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import logsumexp
from sklearn.linear_model import LogisticRegression, Ridge

from suquan import (
    SuquanClassifier,
    SuquanRegressor,
    make_target_quantiles,
    permutation_matrix,
    quantile_normalize,
    rank_samples,
)
from suquan.kernels import permutation_kernel
from suquan.losses import make_loss
from suquan.ranking import SampleOperator
from suquan.target_sets import TARGET_SETS
from suquan.targets import read_at_grid

PAGE = (Path(__file__).parent.parent / "docs" / "method.md").read_text("utf-8")
CHECKS = {}


def checks(name):
    def add(function):
        CHECKS[name] = function
        return function

    return add


def formulas():
    """Text of the fenced blocks by their names."""
    found = re.findall(r"^```text (\S+)\n(.*?)\n```$", PAGE, re.DOTALL | re.MULTILINE)
    assert len({name for name, _ in found}) == len(found)
    return dict(found)


def test_every_displayed_formula_has_a_check_of_the_same_text():
    n_fences = len(re.findall(r"^```", PAGE, re.MULTILINE))
    assert n_fences == 2 * len(formulas())  # no block without a name
    assert not re.search(r"^(    |\t)\S|\$\$|\\\[", PAGE, re.MULTILINE)  # nor displayed otherwise
    assert formulas() == {name: inspect.getdoc(check) for name, check in CHECKS.items()}


def test_the_page_is_short():
    assert len(PAGE.splitlines()) <= 220


# ---------------------------------------------------------------------------------- one problem for all


@cache
def make_problem(n=30, p=12, seed=0):
    """Samples without ties, labels ±1, and a start of sum 0 and mean square 1."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p))
    y = np.where(X @ rng.standard_normal(p) + 0.5 * rng.standard_normal(n) > 0, 1, -1)
    return X, y, standard(make_target_quantiles("normal", p))


def standard(f):
    f = f - np.mean(f)
    return f / np.sqrt(np.mean(f**2))


def matrices(X):
    """The matrices T_i."""
    return np.array([permutation_matrix(x).toarray() for x in X])


def differences(f):
    return np.sum(np.diff(f) ** 2)


def fixed(X, y, f, **parameters):
    """Model with the target f."""
    classes = y.dtype.kind == "i"
    estimator = SuquanClassifier if classes else SuquanRegressor
    return estimator("fixed", init=f, max_iter=1000, **parameters).fit(X, y)


# -------------------------------------------------------------------------------------------- the checks


@checks("normalised")
def normalised():
    """Φ_f(x) = T f,        (T f)_j = f[rank[j]],        (Tᵀ w)_r = w[order[r]]"""
    x, f = np.array([4.5, 1.2, 10.1, 8.9, 9.0]), np.array([0.0, 1.0, 3.0, 4.0, 9.0])
    (rank,), (order,) = rank_samples([x])
    assert list(rank) != list(order)
    T, w = permutation_matrix(x).toarray(), np.arange(5.0) ** 2
    np.testing.assert_array_equal(quantile_normalize([x], f)[0], T @ f)
    np.testing.assert_array_equal(T @ f, f[rank])
    np.testing.assert_array_equal(T.T @ w, w[order])
    for ties in ("average", "first", "mean_rank"):  # linear in the target, whatever ties and misses
        tied = np.array([[1.0, 1.0, np.nan, 0.0, 2.0]])
        operator = SampleOperator.from_samples(tied, ties=ties, missing="ignore")
        np.testing.assert_allclose(
            operator.apply(2.0 * f + w), 2.0 * operator.apply(f) + operator.apply(w)
        )


@checks("score")
def score():
    """u_i = w·T_i f + b = f·T_iᵀ w + b"""
    X, y, _ = make_problem()
    model = SuquanClassifier("bnd").fit(X, y)
    w, f, b = model.coef_[0], model.target_quantiles_, model.intercept_[0]
    for T, u in zip(matrices(X), model.decision_function(X), strict=True):
        assert u == pytest.approx(w @ (T @ f) + b)
        assert u == pytest.approx(f @ (T.T @ w) + b)


@checks("objective")
def objective():
    """J(w, b, f) = Σ_i s_i ℓ(y_i, u_i) + alpha·Ω(w) + smoothness·Σ_j (f[j+1] − f[j])²
    Ω(w) = (1 − l1_ratio)·‖w‖² + l1_ratio·‖w‖₁
    """
    X, y, _ = make_problem()
    weights = np.random.default_rng(1).uniform(0.5, 2.0, len(y))
    s = weights / weights.sum()
    for l1_ratio in (0.0, 0.3):
        model = SuquanClassifier("joint", alpha=0.02, smoothness=0.01, l1_ratio=l1_ratio)
        model.fit(X, y, sample_weight=weights)
        w, f = model.coef_[0], model.target_quantiles_
        loss = s @ np.log1p(np.exp(-y * model.decision_function(X)))
        omega = (1 - l1_ratio) * np.sum(w**2) + l1_ratio * np.sum(np.abs(w))
        J = loss + 0.02 * omega + 0.01 * differences(f)
        assert model.objective_history_[-1] == pytest.approx(J, rel=1e-6)


@checks("losses")
def losses():
    """logistic:  ℓ(y, u) = log(1 + exp(−y·u))
    softmax:   ℓ(y, u) = −log(exp(u_y) / Σ_k exp(u_k))
    squared:   ℓ(y, u) = (y − u)²
    """
    rng = np.random.default_rng(0)
    one, u, U = np.ones(1), rng.standard_normal(1), rng.standard_normal((1, 3))
    for y in (-1.0, 1.0):
        expected = np.log1p(np.exp(-y * u[0]))
        assert make_loss("logistic").value(np.array([y]), u, one) == pytest.approx(expected)
    for k in range(3):
        expected = logsumexp(U[0]) - U[0, k]
        assert make_loss("softmax", 3).value(np.array([k]), U, one) == pytest.approx(expected)
    assert make_loss("squared").value(np.array([2.0]), u, one) == pytest.approx((2.0 - u[0]) ** 2)


@checks("scikit-learn")
def scikit_learn():
    """LogisticRegression(C = 1/(2·n·alpha)),        Ridge(alpha = n·alpha)"""
    X, y, f = make_problem()
    A, n, alpha = quantile_normalize(X, f), len(y), 0.03
    logistic = LogisticRegression(C=1 / (2 * n * alpha), tol=1e-10, max_iter=10_000).fit(A, y)
    np.testing.assert_allclose(fixed(X, y, f, alpha=alpha).coef_, logistic.coef_, atol=1e-6)
    values = X[:, 0]
    ridge = Ridge(alpha=n * alpha).fit(A, values)
    coef = fixed(X, values, f, alpha=alpha).coef_
    np.testing.assert_allclose(np.ravel(coef), ridge.coef_, atol=1e-8)


@checks("sets")
def sets():
    """ "f0":               Σ_j f_j = 0,  (1/p)·Σ_j f_j² ≤ 1
    "bnd", "joint":     the same, and f_0 ≤ f_1 ≤ … ≤ f_{p−1}
    "spav":             Σ_j f_j = 0,  f_0 ≤ f_1 ≤ … ≤ f_{p−1}
    """
    rng = np.random.default_rng(0)
    for scale in (0.1, 10.0):
        rising = standard(np.sort(rng.standard_normal(9))) * scale
        falling = standard(rng.standard_normal(9)) * scale
        for name, target_set in TARGET_SETS.items():
            for f in (rising, falling):
                is_inside = name == "spav" or np.mean(f**2) <= 1.0
                is_inside &= name == "f0" or bool(np.all(np.diff(f) >= 0))
                found = target_set.make_feasible(f + 3.0)
                assert np.allclose(found, f) == is_inside
                assert np.sum(found) == pytest.approx(0.0, abs=1e-9)
                assert name == "spav" or np.mean(found**2) <= 1.0 + 1e-12
                assert name == "f0" or np.all(np.diff(found) >= -1e-12)


@checks("scaled")
def scaled():
    """Ω(w) = (1 − l1_ratio)·Σ_j σ_j²·w_j² + l1_ratio·Σ_j σ_j·|w_j|"""
    X, y, f = make_problem()
    sigma = np.std(matrices(X) @ f, axis=0)
    for method, l1_ratio in (("fixed", 0.0), ("fixed", 0.4), ("bnd", 0.4)):
        given = {"alpha": 0.02, "l1_ratio": l1_ratio, "feature_scaling": "std"}
        model = SuquanClassifier(method, init=f, **given).fit(X, y)
        w, u = model.coef_[0], model.decision_function(X)
        ridge, l1 = np.sum((sigma * w) ** 2), np.sum(sigma * np.abs(w))
        penalty = (1 - l1_ratio) * ridge + l1_ratio * l1
        np.testing.assert_allclose(
            np.mean(np.log1p(np.exp(-y * u))) + 0.02 * penalty, model.objective_
        )


@checks("matrix")
def matrix():
    """u = ⟨M, T⟩ + b,        M = w fᵀ,        ⟨M, T⟩ = Σ_jr M_jr·T_jr"""
    X, y, _ = make_problem()
    model = SuquanClassifier("f0").fit(X, y)
    M = np.outer(model.coef_[0], model.target_quantiles_)
    scores = [np.sum(M * T) + model.intercept_[0] for T in matrices(X)]
    np.testing.assert_allclose(model.decision_function(X), scores)


@checks("kernel")
def kernel():
    """⟨T, T'⟩ = number of j with rank[j] = rank'[j]"""
    X, _, _ = make_problem()
    ranks, T = rank_samples(X)[0], matrices(X)
    counts = np.sum(ranks[:, None] == ranks, axis=2)
    np.testing.assert_array_equal(np.einsum("ijr,mjr->im", T, T), counts)
    np.testing.assert_allclose(X.shape[1] * permutation_kernel(X, ties="first"), counts)


@checks("svd")
def svd():
    """M = Σ_{y_i = +1} (s_i/s_+)·T_i − Σ_{y_i = −1} (s_i/s_−)·T_i,        s_± = Σ_{y_i = ±1} s_i
    f = √p·v
    """
    X, y, _ = make_problem(200)
    s = np.random.default_rng(1).uniform(0.5, 2.0, len(y))
    c = np.where(y > 0, s / s[y > 0].sum(), -s / s[y < 0].sum())
    v = np.linalg.svd(np.einsum("i,ijr->jr", c, matrices(X)))[2][0]
    f = SuquanClassifier("svd").fit(X, y, sample_weight=s).target_quantiles_
    np.testing.assert_allclose(f * np.sign(f @ v), np.sqrt(len(v)) * v, atol=1e-8)


@checks("price")
def price():
    """dL/dC = −alpha        at C = Ω(w_alpha)"""
    X, y, f = make_problem()
    alpha, L, C = 0.05, [], []
    for factor in (0.999, 1.001):
        model = fixed(X, y, f, alpha=factor * alpha)
        L.append(np.mean(np.log1p(np.exp(-y * model.decision_function(X)))))
        C.append(np.sum(model.coef_**2))
    assert np.diff(L)[0] / np.diff(C)[0] == pytest.approx(-alpha, rel=1e-4)


@checks("product")
def product():
    """min over c > 0 of alpha·‖w/c‖² + smoothness·D(c·f) = 2·√(alpha·smoothness·‖w‖²·D(f))
    D(f) = Σ_j (f[j+1] − f[j])²
    """
    rng = np.random.default_rng(0)
    w, f = rng.standard_normal((2, 8))
    c = np.exp(np.linspace(-4.0, 4.0, 100_001))
    for alpha, smoothness in ((0.1, 0.6), (0.3, 0.2)):  # the product is the same
        J = alpha * np.sum(w**2) / c**2 + smoothness * c**2 * differences(f)
        expected = 2.0 * np.sqrt(0.06 * np.sum(w**2) * differences(f))
        assert np.min(J) == pytest.approx(expected, rel=1e-6)


@checks("norm")
def norm():
    """‖T f‖² = Σ_j f_j² = p"""
    X, _, f = make_problem()
    np.testing.assert_allclose(np.sum(quantile_normalize(X, f) ** 2, axis=1), X.shape[1])
    np.testing.assert_allclose(np.sum(f**2), X.shape[1])


@checks("copies")
def copies():
    """w' = (w_1/m, …, w_1/m, w_2/m, …):        w'·T' f' = w·T f,        ‖w'‖² = ‖w‖²/m"""
    X, y, f = make_problem()
    m, alpha = 3, 0.02
    model = fixed(X, y, f, alpha=alpha)
    copied = fixed(np.repeat(X, m, axis=1), y, np.repeat(f, m), alpha=m * alpha)
    np.testing.assert_allclose(copied.coef_, np.repeat(model.coef_, m, axis=1) / m, atol=1e-7)
    scores = copied.decision_function(np.repeat(X, m, axis=1))
    np.testing.assert_allclose(scores, model.decision_function(X), atol=1e-6)
    assert np.sum(copied.coef_**2) == pytest.approx(np.sum(model.coef_**2) / m, rel=1e-6)


@checks("roughness")
def roughness():
    """p·Σ_j (f[j+1] − f[j])² → ∫ φ'(q)² dq        as p grows"""
    errors = []
    for p in (50, 500, 5000):
        f = np.sin(3.0 * (np.arange(p) + 0.5) / p)
        integral = 9.0 * (0.5 + np.sin(6.0) / 12.0)  # of (3·cos 3q)²
        errors.append(abs(p * differences(f) / integral - 1.0))
    assert errors[0] > 5 * errors[1] > 25 * errors[2]
    assert errors[2] < 1e-3


@checks("knots")
def knots():
    """f = B g:        smoothness·(K/p)·Σ_k (g[k+1] − g[k])² ≈ smoothness·Σ_j (f[j+1] − f[j])²"""
    X, y, _ = make_problem(40, 60)
    smoothness, alpha = 0.05, 0.02
    for n_knots in (10, 30, 60):
        model = SuquanClassifier("joint", alpha=alpha, smoothness=smoothness, n_knots=n_knots)
        model.fit(X, y)
        g, f = model.target_knots_, model.target_quantiles_
        np.testing.assert_allclose(f, read_at_grid(g, 60))
        loss = np.mean(np.log1p(np.exp(-y * model.decision_function(X))))
        rest = model.objective_history_[-1] - loss - alpha * np.sum(model.coef_**2)
        assert rest == pytest.approx(smoothness * n_knots / 60 * differences(g), rel=1e-4)
        assert rest == pytest.approx(smoothness * differences(f), rel=0.15)


@checks("defaults")
def defaults():
    """alpha = 3·10⁻⁴·p,        smoothness = 10⁻⁴·p        (squared loss: times the variance of y)"""
    X, y, _ = make_problem()
    p, values = X.shape[1], 7.0 * X[:, 0]
    given = {"alpha": 3e-4 * p, "smoothness": 1e-4 * p}
    by_default, by_hand = (SuquanClassifier("joint", **k).fit(X, y) for k in ({}, given))
    np.testing.assert_allclose(by_default.coef_, by_hand.coef_)
    given["smoothness"] *= np.var(values)
    by_default, by_hand = (SuquanRegressor("joint", **k).fit(X, values) for k in ({}, given))
    np.testing.assert_allclose(by_default.coef_, by_hand.coef_, rtol=1e-6)


@checks("representer")
def representer():
    """w = (1/(2·alpha))·Σ_i r_i·T_i f,        r_i = −s_i·ℓ'(y_i, u_i)"""
    for alpha, w, r, T, f in solved_problems():
        np.testing.assert_allclose(w, np.einsum("i,ijk,k->j", r, T, f) / (2 * alpha), atol=1e-6)


def solved_problems():
    """alpha, w, residuals, matrices and target of fits with more samples and with more features."""
    for n, p in ((40, 12), (12, 40)):
        X, y, f = make_problem(n, p)
        model = fixed(X, y, f, alpha=0.01 * p)
        r = y / (1.0 + np.exp(y * model.decision_function(X))) / n
        yield 0.01 * p, model.coef_[0], r, matrices(X), f


@checks("gradient")
def gradient():
    """Σ_i r_i·T_iᵀ w = (1/(2·alpha))·(Σ_i r_i²·f + Σ_{i≠m} r_i·r_m·T_iᵀ T_m f)"""
    for alpha, w, r, T, f in solved_problems():
        pairs = [(i, m) for i in range(len(r)) for m in range(len(r)) if i != m]
        between = sum(r[i] * r[m] * T[i].T @ (T[m] @ f) for i, m in pairs)
        whole = np.einsum("i,ijk,j->k", r, T, w)
        np.testing.assert_allclose(whole, (r @ r * f + between) / (2 * alpha), atol=1e-6)


@checks("leverage")
def leverage():
    """y_i − u_i = (1 − h_i)·(y_i − u_i^(−i)),        Σ_i h_i ≤ min(n, p)
    h_i = H_ii,        H = G (G + n·alpha·I)⁻¹
    """
    for n, p in ((20, 8), (8, 20)):
        X, _, f = make_problem(n, p)
        y = np.random.default_rng(1).standard_normal(n)
        A = quantile_normalize(X, f)
        for alpha in (1e-6, 0.1):
            G = A @ A.T
            H = G @ np.linalg.inv(G + n * alpha * np.eye(n))
            h = np.diag(H)
            u = fixed(X, y, f, alpha=alpha, fit_intercept=False).predict(X)
            for i in range(n):
                others = np.arange(n) != i
                without = fixed(
                    X[others], y[others], f, alpha=alpha * n / (n - 1), fit_intercept=False
                )
                held_out = y[i] - without.predict(X[[i]])[0]
                assert y[i] - u[i] == pytest.approx((1 - h[i]) * held_out, abs=1e-6)
            assert np.sum(h) <= min(n, p) + 1e-9
        if p > n:  # the last claims, for the small alpha
            tiny = G @ np.linalg.inv(G + 1e-9 * np.eye(n))
            np.testing.assert_allclose(np.diag(tiny), 1.0, atol=1e-6)


@checks("crossfit")
def crossfit():
    """minimise over (f, b):  Σ_i s_i·ℓ(y_i, f·T_iᵀ w_{−k(i)} + b) + smoothness·Σ_j (f[j+1] − f[j])²"""
    X, y, start = make_problem(30, 12)
    folds = [(np.flatnonzero(np.arange(30) % 3 != k), np.arange(k, 30, 3)) for k in range(3)]
    parameters = {"alpha": 0.05, "smoothness": 0.02}
    model = SuquanClassifier("crossfit", init=start, cv=folds, tol=1e-10, **parameters).fit(X, y)
    T, rows = matrices(X), np.empty((30, 12))
    for train, test in folds:
        w = fixed(X[train], y[train], start, alpha=0.05).coef_[0]
        rows[test] = np.einsum("ijk,j->ik", T[test], w)

    def value(f, b):
        loss = np.mean(np.log1p(np.exp(-y * (rows @ f + b))))
        return loss + 0.02 * differences(f)

    # The f-step's own (f, b) are scaled and forgotten. Along the returned direction the least value must be no
    # larger than at any other target of the set.
    f = model.target_quantiles_
    assert np.mean(f**2) == pytest.approx(1.0)

    def least(f):
        bounds = [(0.0, 1.0), (None, None)]
        return minimize(lambda z: value(z[0] * f, z[1]), [0.5, 0.0], bounds=bounds).fun

    best = least(f)
    assert best < least(start) - 1e-4
    rng = np.random.default_rng(2)
    for scale in (0.01, 0.1, 1.0):
        for _ in range(4):
            other = standard(np.sort(f + scale * rng.standard_normal(12)))
            assert least(other) > best - 1e-5


@checks("signal")
def signal():
    """E[(w·T d)·(w*·T f*)] = (d·f*)·(w̃·w̃*)/(p − 1),        w̃ = w − mean(w)
    E[(w·T d)²] = ‖d‖²·‖w̃‖²/(p − 1)
    """
    rng = np.random.default_rng(0)
    p = 5
    w, true_w, d, f = rng.standard_normal((4, p))
    d, f = d - d.mean(), f - f.mean()
    orders = np.array(list(permutations(range(p))))  # all of them
    step, truth = d[orders] @ w, f[orders] @ true_w
    centred, true_centred = w - w.mean(), true_w - true_w.mean()
    expected = (d @ f) * (centred @ true_centred) / (p - 1)
    assert np.mean(step * truth) == pytest.approx(expected)
    assert np.mean(step**2) == pytest.approx((d @ d) * (centred @ centred) / (p - 1))
    correlation = np.mean(step * truth) / np.sqrt(np.mean(step**2) * np.mean(truth**2))
    cosines = [a @ b / np.sqrt((a @ a) * (b @ b)) for a, b in ((d, f), (centred, true_centred))]
    assert correlation == pytest.approx(cosines[0] * cosines[1])


@pytest.mark.parametrize("name", CHECKS)
def test_formula_holds(name):
    CHECKS[name]()
