"""Small problems whose fits are stored in ``data/golden/fits.npz``: the data, the models, what is compared.

``data/golden/make_fits.py`` writes the file, ``test_stored_fits.py`` compares with it. The error of a target,
and of its scores, is of the order of the square root of the f-step's gap: fits that agree in 6 digits need a
tolerance of 10⁻¹³. Where the minimiser is unique (smoothness > 0, or fewer knots than samples), the scores of
some samples are compared, elsewhere J at the start and after the first f-step.
"""

import warnings
import zlib
from contextlib import contextmanager
from itertools import product
from typing import NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GroupKFold, KFold, StratifiedKFold

from suquan import (
    SupervisedQuantileNormalizer,
    SuquanClassifier,
    SuquanClassifierCV,
    SuquanRegressor,
    SuquanRegressorCV,
    compare,
)

METHODS = ("fixed", "svd", "f0", "bnd", "spav", "joint", "crossfit")
LOSSES = ("logistic", "softmax", "squared")
SHAPES = {"wide": (20, 27), "tall": (40, 9)}
N_NEW = 6  # samples that are scored and not fitted
ON_DASK = (("logistic", "crossfit"), ("squared", "joint"))
PRECISE = {"tol": 1e-13, "max_iter": 20_000}


class Data(NamedTuple):
    """Training samples, labels and weights, and the samples to score: some of training, some new."""

    X: np.ndarray
    y: np.ndarray
    weights: np.ndarray
    scored: np.ndarray


def make_data(loss, shape, kind="rounded", *, missing=False):
    """Samples with ties whose order says something about their labels."""
    seed = zlib.crc32(f"{loss} {shape} {kind}".encode())
    rng = np.random.default_rng(seed)
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
    return Data(X[:n], y[:n], weights, X[n - N_NEW :])


def make_model(loss, method, **parameters):
    """A classifier or a regressor, run to the last digits."""
    kind = SuquanRegressor if loss == "squared" else SuquanClassifier
    common = {"alpha": 0.005, "cv": 3, "n_repeats": 2, "random_state": 0, **PRECISE}
    if method in ("spav", "joint", "crossfit"):
        common["smoothness"] = 0.02
    if method == "joint":
        common["max_rounds"] = 2
    return kind(method, **{**common, **parameters})


@contextmanager
def expected_warnings():
    """Ignore that last digits are out of reach of a certificate, and that a spectrum has a small gap."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="the two largest singular values")
        warnings.filterwarnings("ignore", category=ConvergenceWarning)
        yield


def scores(model, X):
    """Decision values, of shape (n_samples, n_outputs)."""
    values = model.predict(X) if isinstance(model, SuquanRegressor) else model.decision_function(X)
    return np.asarray(values, dtype=float).reshape(len(X), -1)


# -- the cases ----------------------------------------------------------------------------------------


class Case(NamedTuple):
    """One fit: the problem, the parameters of the model, the options of `fit`."""

    loss: str
    method: str
    shape: str
    parameters: dict
    kind: str = "rounded"
    fit_options: tuple = ()
    unique: bool = True

    def data(self):
        return make_data(
            self.loss, self.shape, self.kind, missing=self.parameters.get("missing") == "ignore"
        )

    def fit(self, data):
        """The fitted model."""
        options = {}
        if "sample_weight" in self.fit_options:
            options["sample_weight"] = data.weights
        if "groups" in self.fit_options:
            options["groups"] = np.arange(len(data.y)) // 2
        model = make_model(self.loss, self.method, **self.parameters)
        with expected_warnings():
            return model.fit(data.X, data.y, **options)

    def run(self, **parameters):
        """J and the scores of some samples; J at the first half-steps where the minimiser is not unique."""
        data = self.data()
        model = self._replace(parameters={**self.parameters, **parameters}).fit(data)
        model.feature_means_ = np.zeros_like(
            model.feature_means_
        )  # the stored scores count gaps as 0
        if self.unique:
            return model.objective_, scores(model, data.scored)
        return model.objective_, model.objective_history_[:2].reshape(-1, 1)


def tasks():
    """Losses with the methods that can be learned with them."""
    return [(loss, m) for loss, m in product(LOSSES, METHODS) if m != "svd" or loss == "logistic"]


def make_cases():
    """All fits by name."""
    cases = {}

    def add(what, loss, method, shape, kind="rounded", fit_options=(), unique=True, **parameters):
        name = f"{what} {loss} {method} {shape}"
        assert name not in cases
        cases[name] = Case(loss, method, shape, parameters, kind, fit_options, unique)

    # "f0" and "bnd" have no smoothness: with more features than samples they are unique on few knots.
    def unique_on(method, shape):
        return {"n_knots": 7} if shape == "wide" and method in ("f0", "bnd") else {}

    for (loss, method), shape in product(tasks(), SHAPES):
        kind = "rounded" if shape == "wide" else "counts"
        few = unique_on(method, shape)
        for ties, missing in product(("average", "first", "mean_rank"), ("error", "ignore")):
            what = f"ties={ties} missing={missing}"
            add(what, loss, method, shape, kind, ties=ties, missing=missing, **few)
        add("sample_weight", loss, method, shape, kind, fit_options=("sample_weight",), **few)
        if not few:
            add("n_knots=5", loss, method, shape, n_knots=5)
        if method in ("fixed", "bnd", "joint", "crossfit"):
            l1_ratio = 0.5 if shape == "wide" else 1.0
            add(f"l1_ratio={l1_ratio:g}", loss, method, shape, l1_ratio=l1_ratio, alpha=0.01, **few)
            init = "median" if shape == "wide" else "normal"
            add(f"init={init}", loss, method, shape, kind, init=init, **few)
        if method in ("fixed", "f0", "crossfit"):
            add("fit_intercept=False", loss, method, shape, fit_intercept=False, **few)
            if loss != "squared":
                add("class_weight=balanced", loss, method, shape, class_weight="balanced", **few)
        if few:
            add("all places", loss, method, shape, unique=False)
    for loss, shape in product(LOSSES, SHAPES):
        add("alpha and smoothness=None", loss, "joint", shape, alpha=None, smoothness=None)
        add("alpha and smoothness=None", loss, "crossfit", shape, alpha=None, smoothness=None)
        add("max_rounds=3", loss, "crossfit", shape, max_rounds=3)
        # Shuffled folds of groups depend on the version of scikit-learn, these do not.
        add("groups", loss, "crossfit", shape, fit_options=("groups",), cv=GroupKFold(3))
    splits = StratifiedKFold(4)
    add("cv=splitter", "logistic", "crossfit", "tall", cv=splits, class_weight={"no": 1, "yes": 3})
    return cases


# -- other entrances ----------------------------------------------------------------------------------


@expected_warnings()
def run_normalizer():
    """Target of a SupervisedQuantileNormalizer, and samples normalised to it."""
    data = make_data("logistic", "tall")
    model = SupervisedQuantileNormalizer(
        "joint", alpha=0.005, smoothness=0.02, max_rounds=2, **PRECISE
    )
    model.fit(data.X, data.y)
    return np.vstack([model.target_quantiles_, model.transform(data.scored)])


@expected_warnings()
def run_selection(loss):
    """Chosen method and strengths, scores of the folds, decision values."""
    data = make_data(loss, "tall", "counts")
    kind = SuquanRegressorCV if loss == "squared" else SuquanClassifierCV
    model = kind(
        method=["bnd", "joint", "crossfit"],
        alphas=[0.003, 0.03, 0.3],
        smoothnesses=[0.01, 0.1],
        departures=[1.0],
        cv=KFold(3) if loss == "squared" else StratifiedKFold(3),
        crossfit_cv=3,
        n_repeats=2,
        random_state=0,
        **PRECISE,
    )
    model.fit(data.X, data.y)
    means = model.cv_results_["mean_test_score"]
    chosen = f"{model.method_} alpha={model.alpha_:g} smoothness={model.smoothness_:g}"
    return chosen, means, scores(model.best_estimator_, data.scored)


@expected_warnings()
def run_comparison():
    """Mean scores of the methods and their deviations."""
    data = make_data("logistic", "tall", "counts")
    result = compare(
        data.X,
        data.y,
        methods=["raw", "median", "normal", "uniform", "bnd", "crossfit"],
        outer_cv=StratifiedKFold(3),
        inner_cv=StratifiedKFold(2),
        alphas=[0.003, 0.03],
        smoothnesses=[0.01, 0.1],
        departures=[1.0],
        progress=False,
        **PRECISE,
    )
    return np.vstack([result.summary["mean"], result.summary["std"]])[:, :6]


@expected_warnings()
def run_dask(loss, method):
    """J and decision values of a fit on a Dask array in three blocks."""
    import dask.array as da

    data = make_data(loss, "tall", "counts")
    blocks = da.from_array(data.X, chunks=((20, 12, 8), data.X.shape[1]))
    model = make_model(loss, method).fit(blocks, data.y)
    return model.objective_, scores(model, data.scored)
