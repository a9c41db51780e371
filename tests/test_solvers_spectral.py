import subprocess
import sys

import numpy as np
import pytest
from scipy import linalg

from suquan import permutation_matrix
from suquan.losses import Logistic
from suquan.model.problem import JointProblem
from suquan.ranking import SampleOperator
from suquan.solvers import spectral
from suquan.solvers.spectral import spectral_target


def make_problem(n_samples, n_features, n_knots=None, seed=0, ties="first"):
    rng = np.random.default_rng(seed)
    y = np.where(np.arange(n_samples) % 3 == 0, 1.0, -1.0)
    X = rng.standard_normal((n_samples, n_features))
    X[y > 0, : n_features // 4] += 1.0
    s = rng.random(n_samples) + 0.5
    operator = SampleOperator.from_samples(X, ties=ties)
    n_knots = n_features if n_knots is None else n_knots
    problem = JointProblem(operator, Logistic(), y, s / s.sum(), 1.0, 0.0, 0.0, n_knots, True)
    return X, problem


def weighted_difference(X, problem):
    y, s = problem.y, problem.s
    c = np.where(y > 0, s / s[y > 0].sum(), -s / s[y < 0].sum())
    return sum(c_i * permutation_matrix(x).toarray() for c_i, x in zip(c, X, strict=True))


@pytest.mark.parametrize("n_features", [2, 3, 40])
def test_target_is_the_first_right_singular_vector(n_features):
    X, problem = make_problem(30, n_features)
    g, singular_values = spectral_target(problem)
    _, values, Vt = linalg.svd(weighted_difference(X, problem))
    np.testing.assert_allclose(singular_values, values[:2], atol=1e-12)
    f = Vt[0] * np.sqrt(n_features)
    f *= np.sign((np.arange(n_features) - (n_features - 1) / 2) @ f)
    np.testing.assert_allclose(g, f, atol=1e-8)


def test_products_without_the_matrix_give_the_same_target(monkeypatch):
    _, problem = make_problem(60, 120, ties="average")
    dense = spectral_target(problem)
    monkeypatch.setattr(spectral, "_DENSE_NODES", 0)
    free = spectral_target(problem)
    np.testing.assert_allclose(free[1], dense[1], rtol=1e-8)
    np.testing.assert_allclose(free[0], dense[0], atol=1e-5)


@pytest.mark.parametrize(("n_features", "n_knots"), [(1500, None), (900, 300)])
def test_residual_is_small_without_the_matrix(n_features, n_knots):
    _, problem = make_problem(50, n_features, n_knots)
    target, (sigma, _) = spectral_target(problem)
    M = spectral.as_linear_operator(problem, problem.class_contrast())
    g = target / np.linalg.norm(target)
    residual = M.rmatvec(M.matvec(g)) / sigma - sigma * g
    assert np.linalg.norm(residual) <= 1e-6 * sigma
    assert abs(target.sum()) < 1e-8


@pytest.mark.slow
def test_a_whole_chip_fits_in_a_gigabyte():
    code = """
import resource, warnings
import numpy as np
from suquan import SuquanClassifier
warnings.simplefilter("ignore")
rng = np.random.default_rng(0)
X = rng.standard_normal((225, 22_283)).astype(np.float32)
y = np.arange(225) % 2
model = SuquanClassifier("svd", n_knots=None).fit(X, y)
assert model.singular_values_[0] >= model.singular_values_[1] > 0
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(run.stdout) < 2**20  # kilobytes
