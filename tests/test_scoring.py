"""Scores of known outputs against scikit-learn's own."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from suquan.losses import Logistic
from suquan.model.settings import Samples
from suquan.selection.scoring import OutputScorer, roc_auc


@given(st.integers(0, 2**32 - 1), st.integers(2, 40), st.booleans())
def test_area_equals_that_of_scikit_learn(seed, n_samples, tied):
    rng = np.random.default_rng(seed)
    is_positive = np.r_[True, False, rng.uniform(size=n_samples - 2) < 0.4]
    u = rng.standard_normal((3, n_samples))
    if tied:
        u = np.round(u)
    expected = [roc_auc_score(is_positive, row) for row in u]
    np.testing.assert_allclose(roc_auc(u, is_positive), expected, rtol=0, atol=1e-14)


@pytest.mark.parametrize("labels", [np.array([0, 1]), np.array(["sick", "well"])])
def test_all_models_at_once_score_like_scikit_learn_does_one_by_one(labels):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 3))
    y = labels[(X[:, 0] + rng.standard_normal(40) > 0).astype(int)]
    models = [LogisticRegression(C=C).fit(X, y) for C in (0.01, 1.0)]
    outputs = [model.decision_function(X)[:, None] for model in models]
    for scoring in ("roc_auc", "accuracy", "neg_log_loss"):
        ones = np.ones(40)
        encoded = np.where(y == labels[1], 1.0, -1.0)
        samples = Samples(X, y, encoded, ones, ones > 0, Logistic(), labels)
        scorer = OutputScorer.of(models[0], scoring, samples)
        expected = [scorer.of_model(model, X, y) for model in models]
        np.testing.assert_allclose(scorer(outputs, y), expected, rtol=0, atol=1e-12)
