"""Blocks B_iᵀ B_m against the operator itself."""

import numpy as np
import pytest

from suquan.ranking import SampleOperator
from suquan.solvers.knot_grams import knot_grams, knot_products
from suquan.targets import knot_positions, read_at_grid


def make_samples(kind):
    X = np.random.default_rng(0).standard_normal((7, 50))
    if kind == "missing":
        X[2, 3:9], X[4] = np.nan, np.r_[1.0, np.full(49, np.nan)]
    elif kind == "ties":
        X[1, :2], X[3, 10:20], X[5] = 1.5, 0.0, np.round(X[5], 1)
    return X


@pytest.mark.parametrize("kind", ["plain", "missing", "ties"])
@pytest.mark.parametrize("ties", ["average", "first", "mean_rank"])
@pytest.mark.parametrize("n_knots", [2, 6, 11])
def test_gram_matrix_and_rows_of_the_f_step_follow_from_the_blocks(kind, ties, n_knots):
    operator = SampleOperator.from_samples(make_samples(kind), ties=ties, missing="ignore")
    rng = np.random.default_rng(1)
    g, a = rng.standard_normal(n_knots), rng.standard_normal(7)
    A = operator.apply(read_at_grid(g, 50))
    D = operator.adjoint(a @ A, knots=knot_positions(50, n_knots))
    Q, gram = knot_products(knot_grams(operator, n_knots), g)
    np.testing.assert_allclose(gram, A @ A.T, atol=1e-12)
    np.testing.assert_allclose(np.einsum("imk,m->ik", Q, a), D, atol=1e-12)


def test_long_ties_are_left_to_the_plain_way():
    X = np.zeros((3, 100))
    X[:, 0] = 1.0
    assert knot_grams(SampleOperator.from_samples(X), 20) is None


def test_blocks_do_not_depend_on_the_number_of_threads():
    X = np.random.default_rng(2).standard_normal((9, 40_000))
    one, two = (
        knot_grams(SampleOperator.from_samples(X), 4, dtype=np.float32, n_jobs=n_jobs)
        for n_jobs in (1, 2)
    )
    np.testing.assert_array_equal(one, two)
