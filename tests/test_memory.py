"""Peak memory of a fit: at most twice the ranks, one float32 design and the smaller square matrix.

NumPy and compiled kernels report their arrays to tracemalloc; the working space of BLAS is left out.
"""

import tracemalloc

import numpy as np
import pytest

from suquan import SuquanClassifier
from suquan.linear_model import METHODS

N_REPEATS = 3  # of crossfit, whose rows may be stacked
# Blocks of matrices that are made and used up one after the other, and vectors.
BLOCKS = 16 << 20


def make_samples(n_samples, n_features):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n_samples, n_features), dtype=np.float32)
    return X, (X[:, :20].sum(axis=1) + rng.standard_normal(n_samples) > 0).astype(int)


def peak_bytes(model, X, y):
    """Largest memory beyond the input in a fit, after a small one that compiles and caches."""
    n_few = len(X) // 6
    width = (
        X.shape[1] if model.n_knots else X.shape[1] // 6
    )  # there are no more knots than features
    model.fit(X[:n_few, :width], y[:n_few])
    tracemalloc.start()
    try:
        model.fit(X, y)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def allowed_bytes(shape, method):
    """Twice the ranks of 2 bytes, a float32 design and a square; crossfit's rows, also in float64; blocks.

    Several targets: their normalised copies in float32, of which the last is there twice.
    """
    n_entries = shape[0] * shape[1]
    arrays = 2 * ((2 + 4) * n_entries + 8 * min(shape) ** 2)
    if method == "crossfit":
        arrays += N_REPEATS * (4 + 8) * n_entries
    if method in ("matrix", "multi"):
        arrays += 4 * 16 * n_entries
    return arrays + BLOCKS


@pytest.mark.filterwarnings("ignore:the two largest singular values")
@pytest.mark.parametrize(
    "shape",
    [
        pytest.param((120, 10_000), id="wide"),
        pytest.param((700, 2_500), id="even", marks=pytest.mark.slow),
        pytest.param((5_000, 600), id="tall"),
    ],
)
@pytest.mark.parametrize("method", METHODS)
def test_fits_need_twice_the_ranks_one_design_and_one_square(method, shape):
    X, y = make_samples(*shape)
    tol = 1e-2 if method == "multi" else 1e-4  # fewer rounds, which take the same memory
    model = SuquanClassifier(method, alpha=1e-4 * shape[1], tol=tol, random_state=0)
    assert peak_bytes(model, X, y) <= allowed_bytes(shape, method)
