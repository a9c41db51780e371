"""Cox's loss against its formula, summed over risk sets one by one, and its derivatives by differences."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from suquan.cox_loss import Cox
from suquan.solvers.elastic_net import ElasticNetDesign
from suquan.solvers.target import solve_target
from suquan.survival import as_outcome

TIES = ("efron", "breslow")


def plain_loss(y, u, s, ties):
    """Minus the logarithm of the partial likelihood, straight from the definition."""
    value = 0.0
    for stratum in np.unique(y["stratum"]):
        own = (y["stratum"] == stratum) & (s > 0)
        time, event, e, weight = y["time"][own], y["event"][own], s[own] * np.exp(u[own]), s[own]
        for now in np.unique(time[event]):
            dead, risk = event & (time == now), time >= now
            d, w = dead.sum(), weight[dead].sum()
            value -= weight[dead] @ u[own][dead]
            if ties == "breslow":
                value += w * np.log(e[risk].sum())
            else:
                for k in range(d):
                    value += w / d * np.log(e[risk].sum() - k / d * e[dead].sum())
    return value - s @ y["event"] * np.log(s[s > 0].min())


def make_case(seed, n_samples=30, n_times=9, n_strata=2):
    """Labels with ties, scores, and weights of which a third are 0."""
    rng = np.random.default_rng(seed)
    time, event = rng.integers(0, n_times, n_samples), rng.integers(0, 2, n_samples)
    y = as_outcome(np.column_stack([time, event]), rng.integers(0, n_strata, n_samples))
    s = rng.integers(0, 3, n_samples) * rng.uniform(0.5, 1.0, n_samples)
    return y, 2.0 * rng.standard_normal(n_samples), s


def encode(y, s, ties):
    loss, codes, classes = Cox(ties).encode(y, s > 0)
    assert classes is None
    return loss, codes


@pytest.mark.parametrize("ties", TIES)
@pytest.mark.parametrize("seed", range(5))
def test_value_and_derivatives_are_those_of_the_formula(ties, seed):
    y, u, s = make_case(seed)
    loss, codes = encode(y, s, ties)
    assert loss.value(codes, u, s) == pytest.approx(plain_loss(y, u, s, ties))
    gradient, step = loss.gradient(codes, u, s), 1e-6
    slopes = [
        (plain_loss(y, u + step * one, s, ties) - plain_loss(y, u - step * one, s, ties)) / step / 2
        for one in np.eye(len(u))
    ]
    np.testing.assert_allclose(gradient, slopes, atol=1e-7)
    bends = [
        (loss.gradient(codes, u + step * one, s) - loss.gradient(codes, u - step * one, s))
        / step
        / 2
        for one in np.eye(len(u))
    ]
    H = loss.hessian(codes, u, s)
    dense = H.product(np.eye(len(u)))
    np.testing.assert_allclose(dense, bends, atol=1e-7)
    assert np.all(H.diagonal() >= np.diag(dense) - 1e-8)
    assert np.linalg.eigvalsh(0.5 * (dense + dense.T))[0] > -1e-7  # convex
    v = u + np.random.default_rng(seed).standard_normal(len(u))
    middle = loss.value(codes, (u + v) / 2, s)
    assert middle < (loss.value(codes, u, s) + loss.value(codes, v, s)) / 2


@pytest.mark.parametrize("ties", TIES)
def test_scores_of_any_size_overflow_nothing(ties):
    y, u, s = make_case(5)
    loss, codes = encode(y, s, ties)
    for scale in (1e2, 1e3, 1e5):
        assert np.isfinite(loss.value(codes, scale * u, s))
        assert np.all(np.isfinite(loss.gradient(codes, scale * u, s)))
        assert np.all(np.isfinite(loss.hessian(codes, scale * u, s).product(u)))
    level = loss.value(codes, u, s)
    assert loss.value(codes, u + 1e4, s) == pytest.approx(level)


@pytest.mark.parametrize("ties", TIES)
@settings(max_examples=50, deadline=None)
@given(data=st.data())
def test_loss_of_any_labels_is_that_of_the_formula(ties, data):
    n = data.draw(st.integers(3, 12))
    small = st.integers(0, 3)
    columns = data.draw(st.lists(st.tuples(small, st.integers(0, 1)), min_size=n, max_size=n))
    weights = np.array(data.draw(st.lists(small, min_size=n, max_size=n)), dtype=float)
    u = np.array(data.draw(st.lists(st.floats(-5, 5), min_size=n, max_size=n)))
    y = as_outcome(np.array(columns), np.array(data.draw(st.lists(small, min_size=n, max_size=n))))
    try:
        loss, codes = encode(y, weights, ties)
    except (ValueError, UserWarning):
        return
    value = loss.value(codes, u, weights)
    assert value == pytest.approx(plain_loss(y, u, weights, ties), abs=1e-9)
    assert value >= -1e-12


def test_parts_are_compared_apart():
    y, u, s = make_case(6)
    loss, codes = encode(y, s, "efron")
    parts = np.arange(len(u)) % 3
    whole = loss.value(loss.separate(codes, parts), u, s)
    unit = s[s > 0].min()
    sums = 0.0
    for part in range(3):
        own = parts == part
        smallest = s[own][s[own] > 0].min()
        shift = s[own] @ y["event"][own] * np.log(smallest / unit)
        sums += loss.value(codes[own], u[own], s[own]) + shift
    assert whole == pytest.approx(sums)


def test_folds_get_their_share_of_the_events_of_large_strata():
    y = as_outcome(
        np.column_stack([np.arange(40), np.arange(40) % 2]), np.repeat([0, 1, 2], [20, 17, 3])
    )
    loss, codes = encode(y, np.ones(40), "efron")
    classes = loss.fold_classes(codes, 5)
    assert sorted(np.unique(classes, return_counts=True)[1].tolist()) == [8, 9, 11, 12]
    assert len(np.unique(loss.fold_classes(codes[y["event"]], 30))) == 1


@pytest.mark.parametrize(
    ("target_set", "n_knots"), [("f0", 6), ("bnd", 6), ("spav", 6), ("bnd", 40)]
)
def test_f_step_reaches_the_minimum_that_a_general_solver_finds(target_set, n_knots):
    """Both ways of the f-step, with fewer and with more rows than knots; the gap is a strict bound."""
    cp = pytest.importorskip("cvxpy")
    rng = np.random.default_rng(0)
    y = as_outcome(np.column_stack([rng.integers(1, 15, 25), rng.random(25) < 0.6]))
    loss, codes, _ = Cox("breslow").encode(y, np.ones(25, dtype=bool))
    s, D = np.full(25, 1 / 25), rng.standard_normal((25, n_knots))
    fit = solve_target(
        D, loss, codes, s, np.linspace(-1, 1, n_knots), target_set=target_set, smoothness=0.02,
        fit_intercept=False, tol=1e-9,
    )  # fmt: skip
    assert fit.converged
    f = cp.Variable(n_knots)
    u = D @ f
    terms = [
        cp.log_sum_exp(u[np.flatnonzero(y["time"] >= y["time"][i])]) - u[i]
        for i in np.flatnonzero(y["event"])
    ]
    limits = [cp.sum(f) == 0]
    if target_set != "spav":
        limits.append(cp.sum_squares(f) <= n_knots)
    if target_set != "f0":
        limits.append(cp.diff(f) >= 0)
    problem = cp.Problem(cp.Minimize(sum(terms) / 25 + 0.02 * cp.sum_squares(cp.diff(f))), limits)
    problem.solve(solver="CLARABEL")
    assert fit.objective == pytest.approx(problem.value, rel=1e-6)
    assert fit.objective - problem.value <= (fit.gap + 1e-7) * fit.objective


@pytest.mark.parametrize("ties", TIES)
def test_elastic_net_is_certified_by_its_duality_gap(ties):
    y, _, s = make_case(8, n_samples=40)
    loss, codes = encode(y, s, ties)
    A = np.random.default_rng(0).standard_normal((40, 60))
    fit = ElasticNetDesign(A, 0.6, fit_intercept=False).solve(loss, codes, s, 0.05, tol=1e-10)
    assert fit.converged
    slopes = loss.gradient(codes, np.ravel(fit.u), s / s.sum())
    correlations = slopes @ A + 0.04 * fit.w[0]
    zero = fit.w[0] == 0.0
    assert 0 < zero.sum() < 60
    assert np.all(np.abs(correlations[zero]) <= 0.03 + 1e-7)
    np.testing.assert_allclose(correlations[~zero], -0.03 * np.sign(fit.w[0][~zero]), atol=1e-6)
