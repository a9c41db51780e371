"""Problems for every loss, their fits by the estimators, and the same objectives for a convex solver."""

import warnings

import cvxpy as cp
import numpy as np
from scipy.special import expit

from suquan import SuquanClassifier, SuquanCox, SuquanRegressor

NAMES = ["logistic", "squared", "softmax", "huber", "poisson"]


class Pairs:
    """Σ s_i s_j log(1 + exp(u_j − u_i)) over the pairs with y_i > y_j: samples are coupled."""

    name, is_classification, couples_samples = "pairs", False, True

    def value(self, y, u, s):
        return float(np.sum((y[:, None] > y) * np.outer(s, s) * np.logaddexp(0.0, u - u[:, None])))

    def gradient(self, y, u, s):
        P = (y[:, None] > y) * np.outer(s, s) * expit(u - u[:, None])
        return P.sum(axis=0) - P.sum(axis=1)

    def best_constant(self, y, s):
        return np.zeros(1)


def make_samples(name, shape, seed=0, kind="plain"):
    """Samples without ties, with ties or with missing values, and labels with a linear signal."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal(shape)
    if kind == "ties":
        X = np.round(X)
    if kind == "missing":
        X[rng.random(shape) < 0.2] = np.nan
    u = np.nan_to_num(X) @ rng.standard_normal(shape[1]) * 2 / np.sqrt(shape[1])
    noisy = u + rng.standard_normal(len(u))
    if name == "poisson":
        return X, rng.poisson(np.exp(u.clip(-3.0, 2.0))).astype(float)
    if name == "cox":
        return X, np.column_stack([np.round(np.exp(0.3 * noisy), 1), rng.random(len(u)) < 0.7])
    if name in ("logistic", "softmax"):
        return X, np.digitize(noisy, [0.0] if name == "logistic" else [-1.0, 1.0])
    return X, noisy + 3.0 + 10.0 * (np.arange(len(u)) % 7 == 0)


def fit_model(name, method, X, y, weights=None, **parameters):
    """Fit of a method with the loss of that name."""
    if name == "cox":
        model = SuquanCox(method, time_ties="breslow", **parameters)
    elif name in ("logistic", "softmax"):
        model = SuquanClassifier(method, loss=name, **parameters)
    else:
        model = SuquanRegressor(method, loss=Pairs() if name == "pairs" else name, **parameters)
    return model.fit(X, y, sample_weight=weights)


def convex_loss(name, y, s, U):
    """Weighted loss of cvxpy's scores, a list with one vector per output; `s` has sum 1."""
    u = U[0]
    if name == "logistic":
        return s @ cp.logistic(-cp.multiply(2 * y - 1, u))
    if name == "squared":
        return s @ cp.square(y - u)
    if name == "huber":
        return s @ cp.huber(y - u, 1.35)
    if name == "poisson":
        constant = y * np.log(np.maximum(y, 1.0)) - y
        return s @ (cp.exp(u) - cp.multiply(y, u)) + s @ constant
    if name == "pairs":
        i, j = np.nonzero(y[:, None] > y)
        return (s[i] * s[j]) @ cp.logistic(u[j] - u[i])
    if name == "cox":
        v, times = u + np.log(s / s.min()), y[:, 0]
        return sum(
            s[i] * (cp.log_sum_exp(v[np.flatnonzero(times >= times[i])]) - u[i])
            for i in np.flatnonzero(y[:, 1])
        )
    own = sum(cp.multiply((y == k).astype(float), u) for k, u in enumerate(U))
    return s @ (cp.log_sum_exp(cp.vstack(U), axis=0) - own)


def scores(model, X):
    """Scores of a fitted model, one row per output; missing values count as 0, as they do in a fit."""
    A = np.nan_to_num(model.transform(X))
    return (A @ model.coef_.T + getattr(model, "intercept_", 0.0)).T


def mean_loss(name, y, s, U):
    """Weighted loss of numbers, one row per output."""
    return float(convex_loss(name, y, s, [cp.Constant(u) for u in U]).value)


def minimum(value, constraints=()):
    """Smallest value of a convex problem."""
    problem = cp.Problem(cp.Minimize(value), list(constraints))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tols = dict.fromkeys(["tol_gap_abs", "tol_gap_rel", "tol_feas"], 1e-10)
        problem.solve(solver="CLARABEL", **tols)
    return problem.value
