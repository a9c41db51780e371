"""Evidence for the default penalties: held-out AUC over a grid, on simulated, image and expression data.

Run ``python -m benchmarks.default_strengths``; it reads the real sets from ``SUQUAN_DATA`` (or
``../shared/data``) and leaves them out where they are absent. Writes ``results/default_strengths.csv`` and
prints, for every pair of strengths, the mean loss of AUC against each data set's own best pair.
"""

from __future__ import annotations

import csv
import os
import warnings
from pathlib import Path

import numpy as np
from scipy.special import expit
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import RepeatedStratifiedKFold

from suquan import SuquanClassifier, quantile_normalize

HERE = Path(__file__).parent
DATA = Path(os.environ.get("SUQUAN_DATA", HERE.parent.parent / "shared" / "data"))
ALPHAS = (1e-5, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 1e-1)
SMOOTHNESSES = (0.0, 1e-5, 1e-4, 1e-3, 1e-2)
EXPRESSION = ("breast_nki295", "dlbcl_chop414", "breast_vdx150", "breast_veer78")


def simulated(n_samples, corrupted, n_features=1000, seed=0):
    """The paper's simulation: labels from a normal target, samples shown with another one."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_samples, n_features))
    u = quantile_normalize(X, "normal") @ rng.standard_normal(n_features)
    return quantile_normalize(X, corrupted), (rng.random(n_samples) < expit(u)).astype(int)


def image_pair(first, second, n_samples, seed=0):
    """Two classes of grey CIFAR-10 images."""
    with np.load(DATA / "cifar10_gray.npz") as data:
        X, y = data["X_train"], data["y_train"]
    chosen = np.flatnonzero((y == first) | (y == second))
    chosen = np.random.default_rng(seed).permutation(chosen)[:n_samples]
    return X[chosen].astype(np.float32), (y[chosen] == second).astype(int)


def expression(name):
    """One expression set, without undetermined samples."""
    with np.load(DATA / f"{name}.npz") as data:
        X, y = data["X"], data["y"]
    return X[y >= 0], y[y >= 0].astype(int)


def data_sets():
    """Names and loaders of all sets that are here."""
    sets = {
        "simulated 500 cauchy": lambda: simulated(500, "cauchy"),
        "simulated 500 exponential": lambda: simulated(500, "exponential"),
        "simulated 1500 bimodal": lambda: simulated(1500, "bimodal"),
    }
    if (DATA / "cifar10_gray.npz").exists():
        sets["images airplane horse"] = lambda: image_pair(0, 7, 1500)
        sets["images cat deer"] = lambda: image_pair(3, 4, 1500)
    for name in EXPRESSION:
        if (DATA / f"{name}.npz").exists():
            sets[name] = lambda name=name: expression(name)
    return sets


def score(X, y, splits, **parameters):
    """Mean held-out AUC."""
    model = SuquanClassifier(n_knots=min(50, X.shape[1]), random_state=0, **parameters)
    scores = []
    for train, test in splits:
        model.fit(X[train], y[train])
        scores.append(roc_auc_score(y[test], model.decision_function(X[test])))
    return float(np.mean(scores))


def main():
    """Run the grid and print the mean losses."""
    rows = []
    for name, load in data_sets().items():
        X, y = load()
        p = X.shape[1]
        n_repeats = 1 if len(y) > 1000 else 3
        splitter = RepeatedStratifiedKFold(n_splits=3, n_repeats=n_repeats, random_state=0)
        splits = list(splitter.split(X, y))
        for alpha in ALPHAS:
            auc = score(X, y, splits, method="fixed", alpha=alpha * p)
            rows.append((name, "fixed", alpha, "", auc))
            for smoothness in SMOOTHNESSES:
                strengths = {"alpha": alpha * p, "smoothness": smoothness * p}
                auc = score(X, y, splits, method="crossfit", **strengths)
                rows.append((name, "crossfit", alpha, smoothness, auc))
            best = max(row[-1] for row in rows if row[0] == name)
            print(f"{name}: alpha {alpha:g} p done, best AUC so far {best:.4f}", flush=True)
    with open(HERE / "results" / "default_strengths.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["data", "method", "alpha_per_feature", "smoothness_per_feature", "auc"])
        writer.writerows(rows)
    print_losses(rows)


def print_losses(rows):
    """Mean loss of AUC against each data set's best, by method and strengths."""
    names = sorted({row[0] for row in rows})
    best = {name: max(row[-1] for row in rows if row[0] == name) for name in names}
    settings = sorted({row[1:4] for row in rows}, key=str)
    table = []
    for setting in settings:
        losses = [best[row[0]] - row[-1] for row in rows if row[1:4] == setting]
        table.append((np.mean(losses), np.max(losses), *setting))
    for mean, worst, method, alpha, smoothness in sorted(table, key=lambda row: row[0])[:40]:
        print(
            f"{method:9s} alpha {alpha:g} smoothness {smoothness} mean {mean:.4f} max {worst:.4f}"
        )


if __name__ == "__main__":
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        main()
