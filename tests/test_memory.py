"""Peak memory of a fit: the ranks, one design, one square matrix, and vectors.

NumPy and compiled kernels report their arrays to tracemalloc; the working space of BLAS is left out.
"""

import tracemalloc

import numpy as np
import pytest

from suquan import SuquanClassifier
from suquan.linear_model import METHODS
from suquan.solvers._target_rows import DenseRows, StackedRows

N_MODELS = 15
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
    """Ranks of 2 bytes, a float32 design, a square of the smaller side; vectors and parts of matrices."""
    n_vectors = 25 + (2 * N_MODELS if method == "crossfit" else 0)
    square = 8 * min(n_samples, n_features) ** 2
    arrays = n_samples * n_features * (2 + 4) + square
    return arrays + n_vectors * 8 * (n_samples + n_features) + PARTS


@pytest.mark.filterwarnings("ignore:the two largest singular values")
@pytest.mark.parametrize(
    "shape", [(120, 10_000), (400, 1_000), (4_000, 300)], ids=["wide", "even", "tall"]
)
@pytest.mark.parametrize("method", METHODS)
def test_fits_need_the_ranks_one_design_and_little_more(method, shape):
    X, y = make_samples(*shape)
    model = SuquanClassifier(method, alpha=1e-4 * shape[1], random_state=0)
    assert peak_bytes(model, X, y) <= allowed_bytes(*shape, method)


@pytest.mark.filterwarnings("ignore:the two largest singular values")
@pytest.mark.parametrize("shape", [(150, 20_000), (4_000, 1_000)], ids=["wide", "tall"])
@pytest.mark.parametrize("method", ["svd", "spav", "joint", "crossfit"])
def test_bytes_need_no_more_than_ranks_one_design_and_one_square(method, shape):
    rng = np.random.default_rng(0)
    X = rng.integers(0, 250, shape).astype(np.uint8)
    y = X[:, :20].sum(axis=1) > X[:, 20:40].sum(axis=1)
    model = SuquanClassifier(method, alpha=1e-3 * shape[1], random_state=0)
    assert peak_bytes(model, X, y) <= (2 + 4) * X.size + 8 * min(shape) ** 2


@pytest.mark.parametrize("shape", [(600, 1_900), (700, 2_500)])
def test_crossfit_forms_no_square_of_all_its_rows(shape):
    X, y = make_samples(*shape)
    model = SuquanClassifier("crossfit", alpha=1e-3 * shape[1], random_state=0)
    assert peak_bytes(model, X, y) <= (2 + 4) * X.size + 8 * min(shape) ** 2


@pytest.mark.parametrize("n_knots", [100, 2_000])
def test_crossfit_on_knots_needs_no_more(n_knots):
    X, y = make_samples(150, 3_000)
    model = SuquanClassifier("crossfit", n_knots=n_knots, random_state=0)
    assert peak_bytes(model, X, y) <= allowed_bytes(*X.shape, "crossfit")


# ---------------------------------------------------------------------------- rows that are not stored


@pytest.mark.parametrize("ties", ["average", "first", "mean_rank"])
@pytest.mark.parametrize("n_knots", [40, 23, 5])
@pytest.mark.parametrize("n_outputs", [1, 3])
def test_rows_that_are_not_stored_equal_those_that_are(ties, n_knots, n_outputs):
    from suquan.losses import Logistic, Softmax
    from suquan.objective import JointProblem
    from suquan.ranking import SampleOperator

    rng = np.random.default_rng(1)
    X = rng.standard_normal((14, 40))
    X[::2] = np.round(X[::2])
    X[::3, :7] = np.nan
    operator = SampleOperator.from_samples(X, ties=ties, missing="ignore")
    loss = Logistic() if n_outputs == 1 else Softmax(n_outputs)
    problem = JointProblem(
        operator, loss, np.ones(14), np.full(14, 1 / 14), 1.0, 0.0, 0.0, n_knots, True
    )
    W = rng.standard_normal((4, n_outputs, 40))
    samples = rng.permutation(np.r_[np.arange(13), np.arange(9)])  # one sample has no row
    models = rng.integers(0, 4, len(samples))
    dense = DenseRows(
        np.concatenate(
            [problem.f_design(W[m], np.array([i])) for i, m in zip(samples, models, strict=True)]
        )
    )
    stacked = StackedRows(operator, W, samples, models, n_knots)
    keep = np.flatnonzero(samples % 2)
    for ours, theirs in (
        (stacked, dense),
        (stacked.take(keep, n_outputs), dense.take(keep, n_outputs)),
    ):
        f, a = rng.standard_normal(n_knots), rng.standard_normal(ours.shape[0])
        bounds = np.array([1, 2, 4, 5])
        assert ours.shape == theirs.shape
        np.testing.assert_allclose(ours.scores(f), theirs.scores(f), atol=1e-12)
        np.testing.assert_allclose(ours.adjoint(a), theirs.adjoint(a), atol=1e-12)
        np.testing.assert_allclose(
            ours.sums(bounds, np.float64), theirs.sums(bounds, np.float64), atol=1e-12
        )
        for rows in (ours, theirs):
            found = np.full(theirs.shape, np.nan)
            for index, D in rows.chunks(5, n_outputs):
                found.reshape(-1, n_outputs, n_knots)[index] = D.reshape(-1, n_outputs, n_knots)
            np.testing.assert_allclose(found, theirs.D, atol=1e-12)
