"""Peak memory of a fit: twice the ranks, one design and one square matrix, and vectors.

NumPy and compiled kernels report their arrays to tracemalloc; the working space of BLAS is left out.
"""

import tracemalloc

import numpy as np
import pytest

from suquan import SuquanClassifier
from suquan.linear_model import METHODS

N_MODELS, N_REPEATS = 15, 3
# Parts of matrices that are made and used up a few rows at a time.
PARTS = 1 << 21


def make_samples(n_samples, n_features):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n_samples, n_features), dtype=np.float32)
    return X, (X[:, :20].sum(axis=1) + rng.standard_normal(n_samples) > 0).astype(int)


def peak_bytes(model, X, y):
    """Largest memory beyond the input in a fit, after one that compiles and caches."""
    model.fit(X, y)
    tracemalloc.start()
    try:
        model.fit(X, y)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def allowed_bytes(n_samples, n_features, method):
    """Twice ranks of 2 bytes, a float32 design and a square of the smaller side; the designs that are stacked.

    Beside these vectors, and parts of matrices.
    """
    n_vectors = 25 + (2 * N_MODELS if method == "crossfit" else 0)
    n_stacked = N_REPEATS if method == "crossfit" else 0
    square = 8 * min(n_samples, n_features) ** 2
    arrays = n_samples * n_features * (2 * (2 + 4) + 4 * n_stacked) + 2 * square
    return arrays + n_vectors * 8 * (n_samples + n_features) + PARTS


@pytest.mark.filterwarnings("ignore:the two largest singular values")
@pytest.mark.parametrize(
    "shape", [(120, 10_000), (400, 1_000), (4_000, 300)], ids=["wide", "even", "tall"]
)
@pytest.mark.parametrize("method", METHODS)
def test_fits_need_twice_the_ranks_one_design_and_one_square(method, shape):
    X, y = make_samples(*shape)
    model = SuquanClassifier(method, alpha=1e-4 * shape[1], random_state=0)
    assert peak_bytes(model, X, y) <= allowed_bytes(*shape, method)


@pytest.mark.filterwarnings("ignore:the two largest singular values")
@pytest.mark.parametrize("shape", [(150, 20_000), (4_000, 1_000)], ids=["wide", "tall"])
@pytest.mark.parametrize("method", ["svd", "spav", "joint", "crossfit"])
def test_bytes_need_no_more(method, shape):
    rng = np.random.default_rng(0)
    X = rng.integers(0, 250, shape).astype(np.uint8)
    y = X[:, :20].sum(axis=1) > X[:, 20:40].sum(axis=1)
    model = SuquanClassifier(method, alpha=1e-3 * shape[1], random_state=0)
    assert peak_bytes(model, X, y) <= allowed_bytes(*shape, method)


@pytest.mark.parametrize("n_knots", [100, 2_000])
def test_crossfit_on_knots_needs_no_more(n_knots):
    X, y = make_samples(150, 3_000)
    model = SuquanClassifier("crossfit", n_knots=n_knots, random_state=0)
    assert peak_bytes(model, X, y) <= allowed_bytes(*X.shape, "crossfit")
