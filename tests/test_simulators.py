"""Simulators of :mod:`suquan.datasets`."""

import numpy as np

from suquan import SuquanClassifier, SuquanCox
from suquan.datasets import make_corrupted_survival, make_several_targets_classification


def test_several_targets_are_orthogonal_and_needed():
    X, y, F = make_several_targets_classification(1500, 30, random_state=0)
    np.testing.assert_allclose(F @ F.T / 30, np.eye(3), atol=0.01)
    np.testing.assert_allclose(F.mean(axis=1), 0.0, atol=1e-12)
    one, three = (
        SuquanClassifier("multi", alpha=0.02, n_targets=m, n_knots=8).fit(X[:1000], y[:1000])
        for m in (1, 3)
    )
    assert three.score(X[1000:], y[1000:]) > one.score(X[1000:], y[1000:]) + 0.1
    found = three.target_quantiles_ - three.target_quantiles_.mean(axis=1, keepdims=True)
    projected = F @ np.linalg.pinv(found) @ found
    assert np.all(np.mean(projected**2, axis=1) > 0.8)


def test_several_targets_repeat_and_take_other_shapes():
    first = make_several_targets_classification(5, 12, random_state=1)
    again = make_several_targets_classification(5, 12, random_state=1)
    for one, other in zip(first, again, strict=True):
        np.testing.assert_array_equal(one, other)
    X, y, F = make_several_targets_classification(5, 12, targets=[np.sin, np.sqrt], random_state=1)
    assert (X.shape, y.shape, F.shape) == ((5, 12), (5,), (2, 12))


def test_times_follow_the_true_target_and_are_censored_as_asked():
    X, y = make_corrupted_survival(3000, 30, corrupted="uniform", censored=0.6, random_state=0)
    assert abs(np.mean(~y["event"]) - 0.6) < 0.03
    scores = [
        SuquanCox("fixed", init=init, alpha=1e-3).fit(X[:2000], y[:2000]).score(X[2000:], y[2000:])
        for init in ("normal", "cauchy")
    ]
    assert scores[0] > max(0.7, scores[1])
    again, _ = make_corrupted_survival(3000, 30, corrupted="uniform", censored=0.6, random_state=0)
    assert np.array_equal(X, again)
