"""Losses: derivatives against finite differences, values against their formulas."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from suquan.losses import Logistic, Softmax, Squared

SCORES = np.array([-30.0, -2.0, -0.3, 0.0, 0.7, 4.0, 30.0])
STEP = 1e-5


SCALAR_CASES = [
    (Logistic(), np.array([1, -1, 1, -1, 1, -1, 1])),
    (Squared(), np.linspace(-3.0, 5.0, len(SCORES))),
]


@pytest.mark.parametrize(("loss", "y"), SCALAR_CASES)
def test_gradient_and_curvature_are_derivatives(loss, y):
    slope = (loss.value(y, SCORES + STEP) - loss.value(y, SCORES - STEP)) / (2 * STEP)
    bend = (loss.gradient(y, SCORES + STEP) - loss.gradient(y, SCORES - STEP)) / (2 * STEP)
    np.testing.assert_allclose(loss.gradient(y, SCORES), slope, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(loss.curvature(y, SCORES), bend, rtol=1e-6, atol=1e-8)


@settings(deadline=None)
@given(st.lists(st.floats(-20, 20), min_size=3, max_size=3), st.integers(0, 2))
def test_softmax_derivatives(scores, label):
    loss, y, u = Softmax(3), np.array([label]), np.array([scores])
    gradient, proba = loss.gradient(y, u)[0], loss.curvature(y, u)[0]
    hessian = np.diag(proba) - np.outer(proba, proba)
    for k, move in enumerate(STEP * np.eye(3)):
        slope = (loss.value(y, u + move) - loss.value(y, u - move)) / (2 * STEP)
        bend = (loss.gradient(y, u + move) - loss.gradient(y, u - move))[0] / (2 * STEP)
        np.testing.assert_allclose(gradient[k], slope[0], atol=1e-8)
        np.testing.assert_allclose(hessian[k], bend, atol=1e-8)


def test_two_class_softmax_is_the_logistic_loss():
    y = np.array([0, 1, 1, 0, 1, 0, 1])
    u = np.column_stack([np.zeros_like(SCORES), SCORES])
    expected = Logistic().value(2 * y - 1, SCORES)
    np.testing.assert_allclose(Softmax(2).value(y, u), expected, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("loss", [Logistic(), Squared()])
def test_curvature_stays_below_its_bound(loss):
    y = np.ones(len(SCORES))
    assert np.all(loss.curvature(y, SCORES) <= loss.curvature_bound)


def test_extreme_scores_stay_finite():
    u = np.array([-1e4, 1e4])
    for y in (np.array([1, -1]), np.array([-1, 1])):
        for method in ("value", "gradient", "curvature"):
            assert np.all(np.isfinite(getattr(Logistic(), method)(y, u)))
    wide = np.array([[1e4, -1e4, 0.0]])
    assert np.all(np.isfinite(Softmax(3).value(np.array([1]), wide)))
