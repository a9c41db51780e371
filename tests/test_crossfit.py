"""Cross-fitting: the fold models are those of separate fits, and folds that cannot be had learn nothing."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import RepeatedKFold, RepeatedStratifiedKFold

from suquan import SuquanClassifier, SuquanCox, SuquanRegressor

KINDS = ("logistic", "softmax", "squared", "huber", "poisson", "cox")


def draw_problem(kind, seed):
    """A few more samples than features, labels, and two partitions into 2 to 5 folds."""
    rng = np.random.default_rng(seed)
    n_samples, n_folds = int(rng.integers(14, 26)), int(rng.integers(2, 6))
    X = rng.standard_normal((n_samples, int(rng.integers(3, n_samples // 2))))
    u = (seed % 2) * X[:, 0] + rng.standard_normal(n_samples)
    n_classes = {"logistic": 2, "softmax": 3, "cox": 2}.get(kind)
    splitter = RepeatedKFold if n_classes is None else RepeatedStratifiedKFold
    classes = np.argsort(np.argsort(u)) * (n_classes or 1) // n_samples
    y = {"squared": u, "huber": u, "poisson": np.floor(2 * np.exp(0.5 * u))}.get(kind, classes)
    if kind == "cox":
        y = np.column_stack([rng.permutation(n_samples) + 1.0 + np.exp(-u), classes])
    folds = splitter(n_splits=n_folds, n_repeats=2, random_state=seed).split(X, classes)
    return X, y, list(folds), 10.0 ** rng.uniform(-3, 0)


def make_model(kind, method, alpha, **parameters):
    if kind == "cox":
        return SuquanCox(method, alpha=alpha, **parameters)
    kind_of = SuquanClassifier if kind in ("logistic", "softmax") else SuquanRegressor
    return kind_of(method, loss=kind, alpha=alpha, **parameters)


def separate_scores(kind, alpha, X, y, train, test):
    """Scores of the test samples by a model of its own, of scikit-learn where it has the loss."""
    fixed = make_model(kind, "fixed", alpha).fit(X[train], y[train])
    n, A = len(train), fixed.transform(X)
    if kind == "logistic":
        other = LogisticRegression(C=0.5 / (n * alpha), tol=1e-10, solver="newton-cholesky")
        return other.fit(A[train], y[train]).decision_function(A[test])
    if kind == "squared":
        return Ridge(alpha=n * alpha).fit(A[train], y[train]).predict(A[test])
    if kind == "softmax":
        return fixed.decision_function(X[test])
    predicted = fixed.predict(X[test])
    return np.log(predicted) if kind == "poisson" else predicted


def total_loss(kind, y, u):
    if kind == "logistic":
        return np.logaddexp(0, -(2 * y - 1) * u).sum()
    if kind == "softmax":
        return (np.log(np.exp(u).sum(axis=1)) - u[np.arange(len(y)), y]).sum()
    if kind == "squared":
        return ((y - u) ** 2).sum()
    if kind == "huber":
        size = np.abs(y - u)
        return np.where(size <= 1.35, size**2, 1.35 * (2 * size - 1.35)).sum()
    if kind == "poisson":
        return (np.exp(u) - y * u + y * np.log(np.maximum(y, 1)) - y).sum()
    times, happened = y.T
    at_risk = times >= times[:, None]
    return (np.log(at_risk @ np.exp(u)) - u)[happened > 0].sum()


@pytest.mark.filterwarnings("ignore:the best target at these penalties is zero")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "seeds", [range(8), pytest.param(range(8, 43), marks=pytest.mark.slow)], ids=["few", "many"]
)
def test_fold_models_are_those_of_separate_fits(kind, seeds):
    """The out-of-fold loss at the start, on small problems with more samples than features."""
    for seed in seeds:
        X, y, folds, alpha = draw_problem(kind, seed)
        model = make_model(kind, "crossfit", alpha, cv=folds).fit(X, y)
        losses = [
            total_loss(kind, y[test], separate_scores(kind, alpha, X, y, train, test))
            for train, test in folds
        ]
        expected = sum(losses) / sum(len(test) for _, test in folds)
        np.testing.assert_allclose(model.objective_history_[0], expected, rtol=1e-6, err_msg=seed)
