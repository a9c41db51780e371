"""Losses: values from their formulas, derivatives by finite differences, labels, and what is refused."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar
from sklearn.linear_model import PoissonRegressor

from suquan.cox_loss import Cox
from suquan.losses import Huber, Logistic, Poisson, Softmax, make_loss
from suquan.survival import as_outcome

STEP = 1e-5
TIES = ("efron", "breslow")
NAMES = ["logistic", "softmax", "squared", "huber", "poisson", *TIES]
OF_SAMPLES = NAMES[:5]


def plain_cox(y, u, s, ties):
    """Minus the logarithm of the partial likelihood, straight from the definition."""
    value = 0.0
    for stratum in np.unique(y["stratum"]):
        own = (y["stratum"] == stratum) & (s > 0)
        time, event, e, weight = y["time"][own], y["event"][own], s[own] * np.exp(u[own]), s[own]
        for now in np.unique(time[event]):
            dead, risk = event & (time == now), time >= now
            d, w = dead.sum(), weight[dead].sum()
            value -= weight[dead] @ u[own][dead]
            for k in range(d):
                taken = k / d * e[dead].sum() if ties == "efron" else 0.0
                value += w / d * np.log(e[risk].sum() - taken)
    return value - s @ y["event"] * np.log(s[s > 0].min())


def outcomes(seed, n_samples=20, n_times=9, n_strata=2):
    """Times to event with ties, scores, and weights of which a third are 0."""
    rng = np.random.default_rng(seed)
    columns = rng.integers(0, n_times, n_samples), rng.integers(0, 2, n_samples)
    y = as_outcome(np.column_stack(columns), rng.integers(0, n_strata, n_samples))
    s = rng.integers(0, 3, n_samples) * rng.uniform(0.5, 1.0, n_samples)
    return y, 2.0 * rng.standard_normal(n_samples), s


def make_case(name, seed=5, n=9):
    """Loss, encoded labels, moderate scores and weights, some of them 0."""
    if name in TIES:
        y, u, s = outcomes(seed)
        loss, codes, classes = Cox(name).encode(y, s > 0)
        assert classes is None
        return loss, codes, u, s
    rng = np.random.default_rng(seed)
    s = rng.uniform(0.2, 2.0, n)
    s[3] = 0.0
    loss = {"softmax": Softmax(3), "huber": Huber(0.8)}.get(name) or make_loss(name)
    y = {
        "logistic": rng.choice([-1.0, 1.0], n),
        "softmax": rng.integers(0, 3, n),
        "poisson": rng.poisson(2.0, n).astype(float),
    }.get(name, rng.normal(size=n))
    return loss, y, rng.normal(scale=1.5, size=n * loss.n_outputs), s


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", NAMES)
def test_derivatives_are_those_of_the_value(name, seed):
    loss, y, u, s = make_case(name, seed)
    moves = STEP * np.eye(len(u))
    slopes = [(loss.value(y, u + d, s) - loss.value(y, u - d, s)) / (2 * STEP) for d in moves]
    bends = [(loss.gradient(y, u + d, s) - loss.gradient(y, u - d, s)) / (2 * STEP) for d in moves]
    np.testing.assert_allclose(loss.gradient(y, u, s), slopes, atol=1e-7 if name in TIES else 1e-8)
    hessian = loss.hessian(y, u, s)
    H = hessian.product(np.eye(len(u)))
    np.testing.assert_allclose(H, bends, atol=1e-7)
    assert np.linalg.eigvalsh(0.5 * (H + H.T))[0] > -1e-7  # convex
    if name in TIES:
        assert np.all(hessian.diagonal() >= np.diag(H) - 1e-8)
    else:
        np.testing.assert_allclose(hessian.diagonal(), np.diag(H), atol=1e-14)
    assert hessian.product(u.astype(np.float32)).dtype == np.float32
    assert loss.value(y, u, s) >= 0.0


@pytest.mark.parametrize("name", OF_SAMPLES)
def test_best_constant_minimises_the_loss(name):
    loss, y, u, s = make_case(name)
    b = loss.best_constant(y, s)
    at = np.tile(b, (len(y), 1)).ravel()
    slopes = loss.gradient(y, at, s).reshape(len(y), -1).sum(axis=0)
    np.testing.assert_allclose(slopes, 0.0, atol=1e-9)
    if loss.n_outputs == 1:
        found = minimize_scalar(lambda c: loss.value(y, np.full(len(y), c), s), bounds=(-5, 5))
        assert loss.value(y, at, s) <= found.fun + 1e-12


def test_two_class_softmax_is_the_logistic_loss():
    y, u, s = np.array([0, 1, 1]), np.array([0.3, -1.0, 2.0]), np.array([1.0, 2.0, 0.5])
    both = np.column_stack([np.zeros(3), u])
    np.testing.assert_allclose(Softmax(2).value(y, both, s), Logistic().value(2 * y - 1, u, s))


def test_poisson_is_half_of_the_deviance_of_scikit_learn():
    rng = np.random.default_rng(5)
    X, y = rng.normal(size=(40, 2)), rng.poisson(3.0, 40)
    model = PoissonRegressor(alpha=0.0).fit(X, y)
    u, s = X @ model.coef_ + model.intercept_, np.full(40, 1 / 40)
    constant = np.full(40, Poisson().best_constant(y, s)[0])
    share = 1.0 - Poisson().value(y, u, s) / Poisson().value(y, constant, s)
    np.testing.assert_allclose(share, model.score(X, y), rtol=1e-10)


def test_huber_is_squared_near_and_linear_far():
    u, s = np.array([0.5, 3.0]), np.ones(2)
    assert Huber(1.0).value(np.zeros(2), u, s) == 0.25 + (2 * 3.0 - 1.0)


@pytest.mark.parametrize("name", ["logistic", "softmax", *TIES])
def test_scores_of_any_size_overflow_nothing(name):
    loss, y, u, s = make_case(name)
    for scale in (1e2, 1e3, 1e5):
        assert np.isfinite(loss.value(y, scale * u, s))
        assert np.all(np.isfinite(loss.gradient(y, scale * u, s)))
        assert np.all(np.isfinite(loss.hessian(y, scale * u, s).product(u)))
    if name != "logistic":  # a common shift changes nothing
        assert loss.value(y, u + 1e4, s) == pytest.approx(loss.value(y, u, s))


def test_labels_are_encoded_by_the_loss():
    labels, used = np.array(["b", "a", "c", "b"]), np.array([True, True, False, True])
    loss, y, classes = Logistic().encode(labels, used)
    assert classes.tolist() == ["a", "b"]
    assert y[used].tolist() == [1.0, -1.0, 1.0]
    loss, y, classes = Softmax().encode(labels, np.ones(4, bool))
    assert loss.n_outputs == 3
    assert y.tolist() == [1, 0, 2, 1]
    with pytest.raises(ValueError, match="two classes; got 3"):
        Logistic().encode(labels, np.ones(4, bool))
    with pytest.raises(ValueError, match="not be negative"):
        Poisson().encode(np.array([1.0, -1.0]), np.ones(2, bool))


# -- times to event -----------------------------------------------------------------------------------


@pytest.mark.parametrize("ties", TIES)
@settings(max_examples=50, deadline=None)
@given(data=st.data())
def test_cox_loss_of_any_labels_is_that_of_the_formula(ties, data):
    n = data.draw(st.integers(3, 12))
    small = st.integers(0, 3)
    columns = data.draw(st.lists(st.tuples(small, st.integers(0, 1)), min_size=n, max_size=n))
    weights = np.array(data.draw(st.lists(small, min_size=n, max_size=n)), dtype=float)
    u = np.array(data.draw(st.lists(st.floats(-5, 5), min_size=n, max_size=n)))
    y = as_outcome(np.array(columns), np.array(data.draw(st.lists(small, min_size=n, max_size=n))))
    try:
        loss, codes, _ = Cox(ties).encode(y, weights > 0)
    except (ValueError, UserWarning):
        return
    value = loss.value(codes, u, weights)
    assert value == pytest.approx(plain_cox(y, u, weights, ties), abs=1e-9)
    assert value >= -1e-12


def test_parts_are_compared_apart():
    y, u, s = outcomes(6, 30)
    loss, codes, _ = Cox("efron").encode(y, s > 0)
    parts = np.arange(len(u)) % 3
    sums = 0.0
    for part in range(3):
        own = parts == part
        shift = s[own] @ y["event"][own] * np.log(s[own][s[own] > 0].min() / s[s > 0].min())
        sums += loss.value(codes[own], u[own], s[own]) + shift
    assert loss.value(loss.separate(codes, parts), u, s) == pytest.approx(sums)


def test_folds_get_their_share_of_the_events_of_large_strata():
    y = as_outcome(
        np.column_stack([np.arange(40), np.arange(40) % 2]), np.repeat([0, 1, 2], [20, 17, 3])
    )
    loss, codes, _ = Cox("efron").encode(y, np.ones(40, dtype=bool))
    classes = loss.fold_classes(codes, 5)
    assert sorted(np.unique(classes, return_counts=True)[1].tolist()) == [8, 9, 11, 12]
    assert len(np.unique(loss.fold_classes(codes[y["event"]], 30))) == 1
