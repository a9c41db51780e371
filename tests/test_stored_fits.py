"""Small fits give the numbers in ``data/golden/fits.npz``, which were stored before the solvers were rewritten.

Scores of samples are compared where the minimiser is unique (smoothness > 0, or fewer knots than samples). The
error of a target, and of its scores, is of the order of the square root of the f-step's gap: fits that agree in
6 digits need a tolerance of 10⁻¹³. The file has more fits than are asked for here.
"""

import zlib
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from sklearn.model_selection import GroupKFold

from suquan import SuquanClassifier, SuquanRegressor

STORED = Path(__file__).parent / "data" / "golden" / "fits.npz"
TOL = 1e-6
METHODS = ("fixed", "svd", "f0", "bnd", "spav", "joint", "crossfit")
SHAPES = {"wide": (20, 27), "tall": (40, 9)}
N_NEW = 6  # samples that are scored and not fitted
PRECISE = {"tol": 1e-13, "max_iter": 20_000}


def error(values, expected):
    """Largest difference relative to the largest value."""
    assert np.shape(values) == np.shape(expected)
    return np.max(np.abs(values - expected)) / np.max(np.abs(expected))


def make_data(loss, shape, kind="rounded", *, missing=False):
    """Samples with ties whose order says something about their labels, weights, and samples to score."""
    rng = np.random.default_rng(zlib.crc32(f"{loss} {shape} {kind}".encode()))
    n, p = SHAPES[shape]
    Z = rng.standard_normal((n + N_NEW, p))
    u = np.tanh(Z) @ rng.standard_normal(p) / np.sqrt(p) + 0.1 * rng.standard_normal(n + N_NEW)
    if kind == "counts":
        X = rng.poisson(np.exp(1.5 + Z))
    else:
        X = np.round(np.exp(Z) * rng.uniform(0.5, 2.0, size=(n + N_NEW, 1)), 1)
    if missing:
        X = np.where(rng.random(X.shape) < 0.12, np.nan, X)
    weights = rng.integers(0, 4, size=n).astype(float)
    # Cuts between quantiles of the training labels: every class has members enough for the folds.
    if loss == "logistic":
        y = np.where(u > np.median(u[:n]), "yes", "no")
        weights[np.argsort(u[:n])[[0, 1, 2, -1, -2, -3]]] = 1.0
    elif loss == "softmax":
        y = np.digitize(u, np.quantile(u[:n], [0.35, 0.7]))
        weights = np.maximum(weights, 0.5)
    else:
        y = 1.0 + 2.0 * u
    return X[:n], y[:n], weights, X[n - N_NEW :]


def make_model(loss, method, **parameters):
    """A classifier or a regressor, run to the last digits."""
    kind = SuquanRegressor if loss == "squared" else SuquanClassifier
    common = {"alpha": 0.005, "cv": 3, "n_repeats": 2, "random_state": 0, **PRECISE}
    if method in ("spav", "joint", "crossfit"):
        common["smoothness"] = 0.02
    if method == "joint":
        common["max_rounds"] = 2
    return kind(method, **{**common, **parameters})


def scores(model, X):
    """Decision values, of shape (n_samples, n_outputs)."""
    values = getattr(model, "decision_function", model.predict)(X)
    return np.asarray(values, dtype=float).reshape(len(X), -1)


def make_cases(loss):
    """Names of stored fits with their method, shape, kind of data, options of `fit` and parameters."""
    for method, shape in product(METHODS, SHAPES):
        if method == "svd" and loss != "logistic":
            continue
        kind = "rounded" if shape == "wide" else "counts"
        # "f0" and "bnd" have no smoothness: with more features than samples they are unique on few knots.
        few = {"n_knots": 7} if shape == "wide" and method in ("f0", "bnd") else {}
        at = f"{loss} {method} {shape}"
        for ties, missing in product(("average", "first", "mean_rank"), ("error", "ignore")):
            own = {"ties": ties, "missing": missing, **few}
            yield f"ties={ties} missing={missing} {at}", method, shape, kind, {}, own
        yield f"sample_weight {at}", method, shape, kind, {"sample_weight": True}, few
        if method in ("fixed", "bnd", "joint", "crossfit"):
            own = {"l1_ratio": 0.5 if shape == "wide" else 1.0, "alpha": 0.01, **few}
            yield f"l1_ratio={own['l1_ratio']:g} {at}", method, shape, "rounded", {}, own
        if method in ("fixed", "f0", "crossfit"):
            own = {"fit_intercept": False, **few}
            yield f"fit_intercept=False {at}", method, shape, "rounded", {}, own
    for shape, method in product(SHAPES, ("joint", "crossfit")):
        own = {"alpha": None, "smoothness": None}
        yield (
            f"alpha and smoothness=None {loss} {method} {shape}",
            method,
            shape,
            "rounded",
            {},
            own,
        )
    for shape in SHAPES:
        at = f"{loss} crossfit {shape}"
        yield f"max_rounds=3 {at}", "crossfit", shape, "rounded", {}, {"max_rounds": 3}
        # Shuffled folds of groups depend on the version of scikit-learn, these do not.
        groups = {"groups": np.arange(SHAPES[shape][0]) // 2}
        yield f"groups {at}", "crossfit", shape, "rounded", groups, {"cv": GroupKFold(3)}


# Last digits are out of reach of a stopping rule, and a spectrum may have a small gap.
@pytest.mark.filterwarnings("ignore:the two largest singular values", "ignore:no convergence")
@pytest.mark.parametrize(
    "loss", ["logistic", "squared", pytest.param("softmax", marks=pytest.mark.slow)]
)
def test_small_fits_give_the_stored_numbers(loss):
    with np.load(STORED) as file:
        stored = dict(file)
    ends = np.cumsum(stored["shapes"].prod(axis=1))[:-1]
    all_scores, wrong = np.split(stored["scores"], ends), []
    for name, method, shape, kind, options, parameters in make_cases(loss):
        number = stored["names"].tolist().index(name)
        missing = parameters.get("missing") == "ignore"
        X, y, weights, scored = make_data(loss, shape, kind, missing=missing)
        options = {"sample_weight": weights} if "sample_weight" in options else options
        model = make_model(loss, method, **parameters).fit(X, y, **options)
        model.feature_means_ = np.zeros_like(model.feature_means_)  # they count gaps as 0
        expected = all_scores[number].reshape(stored["shapes"][number])
        errors = [error(scores(model, scored), expected)]
        errors.append(error(model.objective_, stored["objectives"][number]))
        if not max(errors) <= TOL + stored["noise"][number]:
            wrong.append(f"{name}: relative errors {errors}")
    assert not wrong, "\n".join([f"{len(wrong)} fits differ:", *wrong])
