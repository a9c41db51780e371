"""Losses: derivatives by finite differences, curvatures as matrices, losses of one's own."""

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from sklearn.linear_model import PoissonRegressor

from suquan.losses import Huber, Logistic, Poisson, Softmax, Squared, make_loss

STEP = 1e-5
N = 9


def make_case(name, rng):
    """Loss, encoded labels, moderate scores and weights, one of them 0."""
    s = rng.uniform(0.2, 2.0, N)
    s[3] = 0.0
    loss = {"softmax": Softmax(3), "huber": Huber(0.8)}.get(name) or make_loss(name)
    y = {
        "logistic": rng.choice([-1.0, 1.0], N),
        "softmax": rng.integers(0, 3, N),
        "poisson": rng.poisson(2.0, N).astype(float),
    }.get(name, rng.normal(size=N))
    return loss, y, rng.normal(scale=1.5, size=N * loss.n_outputs), s


NAMES = ["logistic", "softmax", "squared", "huber", "poisson"]


@pytest.mark.parametrize("name", NAMES)
def test_gradient_and_hessian_are_derivatives(name, rng):
    loss, y, u, s = make_case(name, rng)
    moves = STEP * np.eye(len(u))
    slopes = [(loss.value(y, u + d, s) - loss.value(y, u - d, s)) / (2 * STEP) for d in moves]
    bends = [(loss.gradient(y, u + d, s) - loss.gradient(y, u - d, s)) / (2 * STEP) for d in moves]
    np.testing.assert_allclose(loss.gradient(y, u, s), slopes, atol=1e-8)
    np.testing.assert_allclose(loss.hessian(y, u, s).product(np.eye(len(u))), bends, atol=1e-7)


@pytest.mark.parametrize("name", NAMES)
def test_diagonal_of_the_curvature_agrees_with_its_product(name, rng):
    loss, y, u, s = make_case(name, rng)
    hessian = loss.hessian(y, u, s)
    H = hessian.product(np.eye(len(u)))
    np.testing.assert_allclose(hessian.diagonal(), np.diag(H), atol=1e-14)
    assert hessian.product(rng.normal(size=len(u)).astype(np.float32)).dtype == np.float32


@pytest.mark.parametrize("name", NAMES)
def test_best_constant_minimises_the_loss(name, rng):
    loss, y, _, s = make_case(name, rng)
    b = loss.best_constant(y, s)
    at = np.tile(b, (N, 1)).ravel()
    slopes = loss.gradient(y, at, s).reshape(N, -1).sum(axis=0)
    np.testing.assert_allclose(slopes, 0.0, atol=1e-9)
    if loss.n_outputs == 1:
        found = minimize_scalar(lambda c: loss.value(y, np.full(N, c), s), bounds=(-5, 5))
        assert loss.value(y, at, s) <= found.fun + 1e-12


@pytest.mark.parametrize("name", NAMES)
def test_losses_are_never_negative_and_follow_the_protocol(name, rng):
    loss, y, u, s = make_case(name, rng)
    assert loss.value(y, u, s) >= 0.0
    for member in ("encode", "value", "gradient", "hessian", "best_constant", "mean"):
        assert callable(getattr(loss, member))


def test_two_class_softmax_is_the_logistic_loss(rng):
    y, u, s = np.array([0, 1, 1]), rng.normal(size=3), np.array([1.0, 2.0, 0.5])
    both = np.column_stack([np.zeros(3), u])
    np.testing.assert_allclose(Softmax(2).value(y, both, s), Logistic().value(2 * y - 1, u, s))


def test_poisson_is_half_of_the_deviance_of_scikit_learn(rng):
    X, y = rng.normal(size=(40, 2)), rng.poisson(3.0, 40)
    model = PoissonRegressor(alpha=0.0).fit(X, y)
    u, s = X @ model.coef_ + model.intercept_, np.full(40, 1 / 40)
    constant = np.full(40, Poisson().best_constant(y, s)[0])
    share = 1.0 - Poisson().value(y, u, s) / Poisson().value(y, constant, s)
    np.testing.assert_allclose(share, model.score(X, y), rtol=1e-10)


def test_huber_is_squared_near_and_linear_far():
    u, s = np.array([0.5, 3.0]), np.ones(2)
    assert Huber(1.0).value(np.zeros(2), u, s) == 0.25 + (2 * 3.0 - 1.0)


def test_extreme_scores_stay_finite():
    u, s = np.array([-1e4, 1e4]), np.ones(2)
    for y in (np.array([1, -1]), np.array([-1, 1])):
        assert np.isfinite(Logistic().value(y, u, s))
        assert np.all(np.isfinite(Logistic().gradient(y, u, s)))
        assert np.all(np.isfinite(Logistic().hessian(y, u, s).diagonal()))
    wide = np.array([[1e4, -1e4, 0.0]])
    assert np.isfinite(Softmax(3).value(np.array([1]), wide, np.ones(1)))


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


def test_unknown_losses_are_refused_by_name():
    with pytest.raises(ValueError, match="'hinge'; choose one of 'auto', 'logistic'"):
        make_loss("hinge")
    with pytest.raises(TypeError, match="one of class object does not"):
        make_loss(object())
    assert make_loss(Squared()) == Squared()


@pytest.fixture
def rng():
    return np.random.default_rng(5)
