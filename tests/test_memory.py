"""Memory of whole fits, beyond the input: its ranks, one float32 design, and n×n or p×p."""

import tracemalloc

import numpy as np
import pytest

from suquan import SuquanClassifier


def peak_of_fit(model, X, y):
    model.fit(X, y)  # compiles
    tracemalloc.start()
    try:
        model.fit(X, y)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("method", ["svd", "spav", "joint", "crossfit"])
@pytest.mark.parametrize(
    ("n_samples", "n_features"), [(150, 20_000), (4000, 1000)], ids=["features", "samples"]
)
@pytest.mark.filterwarnings("ignore")
def test_a_fit_takes_ranks_and_one_design(method, n_samples, n_features):
    rng = np.random.default_rng(0)
    X = rng.integers(0, 250, (n_samples, n_features)).astype(np.uint8)
    y = X[:, :20].sum(axis=1) > X[:, 20:40].sum(axis=1)
    model = SuquanClassifier(method, alpha=1e-3 * n_features, random_state=0)
    allowed = (2 + 4) * X.size + 8 * min(X.shape) ** 2
    assert peak_of_fit(model, X, y) <= allowed
