"""Parts: one split or one repetition of the folds of a set. Tables: accuracies, ours and the published ones.

Protocol of ``kendall_table.csv``: PC1 trained on 102 samples, tested on 34 of another laboratory; CT and PC2 by
ten times five folds; parameters by five folds inside. Their folds are not stored and were not stratified; ours
are, so that every fold has both classes.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.svm import SVC
from threadpoolctl import threadpool_limits

from suquan import SuquanClassifierCV
from suquan.kernels import kendall_kernel

from ..expression.data import data_folder
from ..stages import Task
from ..tables import Row, grouped, mean_of

SETS = {"PC1": "prostate136", "CT": "colon_ct", "PC2": "prostate_outcome"}
SPLIT = "prostate136_split.npz"
PUBLISHED = "kendall_table.csv"


@dataclass(frozen=True)
class Settings:
    """Sets, methods and grids.

    Attributes
    ----------
    sets : tuple of str
        Names of the published table.
    fixed : tuple of str
        Fixed targets.
    n_repeats : int
        Repetitions of the five folds of CT and PC2.
    n_folds : int
        Folds inside.
    n_alphas, n_smoothnesses, n_knots : int
    costs : tuple of float
        C of the support vector machine.
    """

    sets: tuple[str, ...] = ("PC1", "CT", "PC2")
    fixed: tuple[str, ...] = ("uniform", "normal", "median")
    n_repeats: int = 10
    n_folds: int = 5
    n_alphas: int = 7
    n_smoothnesses: int = 5
    n_knots: int = 50
    costs: tuple[float, ...] = (0.01, 0.1, 1.0, 10.0, 100.0, 1000.0)


PROTOCOLS = {
    "quick": Settings(n_repeats=2, n_alphas=5, n_smoothnesses=3, n_knots=20),
    "paper": Settings(n_knots=30),
}


def check(settings: Settings, data: Path | None) -> None:
    """Raise a ValueError where a file is missing."""
    for name in (*(f"{SETS[key]}.npz" for key in settings.sets), SPLIT, PUBLISHED):
        if not (data_folder(data) / name).is_file():
            raise ValueError(f"{data_folder(data)} has no {name}; give the folder with --data.")


def tasks(settings: Settings, data: Path | None) -> list[Task]:
    """One part per set and repetition."""
    return [
        Task(f"{name}-{repeat}", {"set": name, "repeat": repeat})
        for name in settings.sets
        for repeat in range(1 if name == "PC1" else settings.n_repeats)
    ]


def run(
    settings: Settings, data: Path | None, arguments: dict[str, Any], n_jobs: int, folder: Path
) -> dict[str, Any]:
    """Accuracies of all methods in the splits of one repetition, and the published ones."""
    name, repeat = arguments["set"], arguments["repeat"]
    where = data_folder(data)
    with np.load(where / f"{SETS[name]}.npz") as file:
        X, y = file["X"].astype(np.float64), file["y"].astype(int)
    if name == "PC1":
        with np.load(where / SPLIT) as file:
            splits = [(file["train"], file["test"])]
    else:
        splits = list(StratifiedKFold(5, shuffle=True, random_state=repeat).split(X, y))
    rows = []
    with threadpool_limits(1):
        gram = kendall_kernel(X)
        for fold, (train, test) in enumerate(splits):
            for method, predicted in _predictions(settings, X, y, gram, train, test):
                rows.append(
                    {
                        "set": name,
                        "repeat": repeat,
                        "fold": fold,
                        "method": method,
                        "accuracy": 100 * float(np.mean(predicted == y[test])),
                        "constant": int(len(np.unique(predicted)) == 1),
                    }
                )
    with (where / PUBLISHED).open(newline="", encoding="utf-8") as file:
        published = next(row for row in csv.DictReader(file) if row["set"] == name)
    guess = 100 * float(max(np.mean(y), 1 - np.mean(y)))
    if name == "PC1":
        guess = 100 * float(np.mean(y[splits[0][1]] == 1))
    return {"rows": rows, "published": published, "guess": guess}


def _predictions(
    settings: Settings, X: np.ndarray, y: np.ndarray, gram: np.ndarray, train: Any, test: Any
) -> Any:
    """Name and predicted classes of every method; all choose by accuracy in the same folds."""
    cv = StratifiedKFold(settings.n_folds, shuffle=True, random_state=0)
    shared: dict[str, Any] = {
        "alphas": settings.n_alphas,
        "smoothnesses": settings.n_smoothnesses,
        "cv": cv,
        "scoring": "accuracy",
        "calibration": None,  # classes of 6 or 7 members have one in a fold
        "random_state": 0,
    }
    models = {name: SuquanClassifierCV("fixed", init=name, **shared) for name in settings.fixed}
    models["crossfit"] = SuquanClassifierCV(n_knots=settings.n_knots, **shared)
    for name, model in models.items():
        yield name, model.fit(X[train], y[train]).predict(X[test])
    K, K_test = centred(gram, train, test)
    machine = GridSearchCV(SVC(kernel="precomputed"), {"C": list(settings.costs)}, cv=cv)
    yield "Kendall SVM", machine.fit(K, y[train]).predict(K_test)


def centred(gram: np.ndarray, train: np.ndarray, test: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Kernel matrices centred by the training samples, and scaled so that theirs have a mean square of 1."""
    K, K_test = gram[np.ix_(train, train)], gram[np.ix_(test, train)]
    mean = K.mean(axis=0)
    K_test = K_test - K_test.mean(axis=1, keepdims=True) - mean + mean.mean()
    K = K - mean - mean[:, None] + mean.mean()
    scale = np.mean(np.diag(K))
    return K / scale, K_test / scale


def tables(settings: Settings, parts: dict[str, Any]) -> dict[str, list[Row]]:
    """Mean accuracies, the share of splits in which one class alone was predicted, and the published ones."""
    rows = [row for part in parts.values() for row in part["rows"]]
    ours = grouped(
        rows, ("set", "method"), accuracy=mean_of("accuracy"), constant=mean_of("constant")
    )
    for row in ours:
        row["source"] = "ours"
    facts = {part["rows"][0]["set"]: part for part in parts.values()}
    theirs = [
        {
            "set": name,
            "method": key,
            "accuracy": float(value),
            "constant": "",
            "source": "published",
        }
        for name, part in facts.items()
        for key, value in list(part["published"].items())[5:]
    ]
    guesses = [
        {
            "set": name,
            "method": "the most frequent class" if name != "PC1" else "all tumour",
            "accuracy": part["guess"],
            "constant": 1.0,
            "source": "guess",
        }
        for name, part in facts.items()
    ]
    accuracies = [*ours, *theirs, *guesses]
    return {"folds": rows, "accuracies": accuracies, "wide": _wide(accuracies, list(facts))}


def _wide(accuracies: list[Row], names: list[str]) -> list[Row]:
    """One row per method, with its accuracy and the share of constant predictions on every set."""
    rows: dict[str, Row] = {}
    for found in accuracies:
        method = "guess" if found["source"] == "guess" else found["method"]
        empty = {f"{name}{what}": "" for name in names for what in ("", "_constant")}
        row = rows.setdefault(method, {"method": method, **empty})
        row[found["set"]], row[f"{found['set']}_constant"] = found["accuracy"], found["constant"]
    return list(rows.values())
