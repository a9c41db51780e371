"""Write one model file of each kind, and what the models predict on a few samples.

Later versions must load these files and predict the same: run this only for a new kind or a new schema, in a
new folder. From the root of the repository: python tests/data/models/make_models.py FOLDER
"""

import sys
from pathlib import Path

import numpy as np

import suquan

SEED = 20250101


def make_data():
    """40 samples with 12 features, seen through increasing maps of their own, and labels of all kinds."""
    rng = np.random.default_rng(SEED)
    X = rng.normal(size=(40, 12))
    u = X @ rng.normal(size=12)
    X = np.exp(X) * rng.uniform(0.5, 2.0, size=(40, 1))
    X[::7, 3] = X[::7, 5]  # ties
    three = np.array(["low", "middle", "top"])[np.digitize(u, np.quantile(u, [1 / 3, 2 / 3]))]
    return X, u, u > 0, three


def named(X):
    """The samples with feature names, as a data frame."""
    import pandas as pd

    return pd.DataFrame(X, columns=[f"gene {j}" for j in range(X.shape[1])])


def times(u):
    """Time and event: the higher u the earlier, every fourth sample censored."""
    return np.column_stack([np.exp(-u), np.arange(len(u)) % 4 > 0])


def make_models():
    """One fitted model of each kind, by the name of its file."""
    X, u, two, three = make_data()
    selection = {"alphas": 2, "smoothnesses": 2, "cv": 2, "random_state": 0}
    return {
        "normalizer": suquan.QuantileNormalizer("median", ties="first").fit(X),
        "supervised_normalizer": suquan.SupervisedQuantileNormalizer(random_state=0).fit(X, two),
        "classifier": suquan.SuquanClassifier(random_state=0, missing="ignore").fit(named(X), two),
        "classifier_softmax": suquan.SuquanClassifier("joint", n_knots=5).fit(X, three),
        "classifier_cv": suquan.SuquanClassifierCV(["fixed", "bnd"], **selection).fit(
            named(X), np.where(two, "case", "control")
        ),
        "classifier_isotonic": suquan.SuquanClassifierCV(
            "fixed", calibration="isotonic", **selection
        ).fit(X, two),
        "classifier_temperature": suquan.SuquanClassifierCV("fixed", **selection).fit(X, three),
        "classifier_multi": suquan.SuquanClassifier("multi", n_targets=2).fit(named(X), three),
        "classifier_scaled": suquan.SuquanClassifier("bnd", feature_scaling="std").fit(X, three),
        "classifier_matrix": suquan.SuquanClassifier("matrix", n_knots=6).fit(X, two),
        "regressor": suquan.SuquanRegressor("bnd", init=np.linspace(-1, 1, 12)).fit(X, u),
        "regressor_cv": suquan.SuquanRegressorCV(**selection).fit(named(X), u),
        "cox": suquan.SuquanCox("joint", time_ties="breslow").fit(X, times(u)),
        "cox_cv": suquan.SuquanCoxCV("fixed", **selection).fit(named(X), times(u), strata=three),
    }


def predictions(model, X):
    """Everything that the model says about the samples, by method."""
    names = [
        name for name in ("transform", "decision_function", "predict_proba") if hasattr(model, name)
    ]
    if hasattr(model, "predict"):
        names.append("predict")
    X = named(X) if hasattr(model, "feature_names_in_") else X
    found = {name: np.asarray(getattr(model, name)(X)) for name in names}
    if hasattr(model, "predict_survival_function"):
        strata = model.baseline_strata_[np.arange(len(X)) % len(model.baseline_strata_)]
        found["survival"] = model.predict_survival_function(X, [0.5, 1.0, 3.0], strata)
    return found


def main(folder):
    """Write the files."""
    folder.mkdir(parents=True, exist_ok=True)
    X = make_data()[0][:7]
    expected = {"X": X}
    for name, model in make_models().items():
        suquan.save_model(model, folder / f"{name}.suquan", summary={"n_samples": 40})
        for method, values in predictions(model, X).items():
            expected[f"{name}.{method}"] = values
    np.savez_compressed(folder / "expected.npz", **expected)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
