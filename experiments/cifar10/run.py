"""Fits and their scores; every part is one pair of classes."""

from __future__ import annotations

from functools import lru_cache
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.model_selection import RepeatedStratifiedKFold
from threadpoolctl import threadpool_limits

from suquan import QuantileNormalizer, SuquanClassifier, compare

from ..stages import Task
from ..tables import Row
from .images import CLASSES, load_cifar10
from .settings import PAPER, Settings

# Pairs for the smaller studies: alike and unlike, animals and machines. The first is the paper's Figure 3.
SMALL = ((0, 7), (3, 5), (1, 9), (0, 8), (2, 4))


def tasks(settings: Settings, data: Path | None) -> list[Task]:
    """All pairs, and the smaller studies."""
    pairs = sorted(combinations(range(settings.classes), 2), key=lambda pair: pair[1] - pair[0])
    pairs = sorted(pairs[: settings.pairs])
    small = ([pair for pair in SMALL if pair in pairs] or pairs)[: settings.small_pairs]
    listed = [_task("pair", pair) for pair in pairs]
    for kind, method in (("rounds", "f0_rounds"), ("svdrounds", "svd_f0_rounds")):
        if method in settings.methods:
            listed += [_task(kind, pair) for pair in pairs]
    listed += [_task("ties", pair) for pair in small]
    listed += [_task("spav", pair) for pair in small]
    if small:
        listed.append(_task("picture", small[0]))
    return listed


def _task(kind: str, pair: tuple[int, int]) -> Task:
    return Task(f"{kind}-{pair[0]}-{pair[1]}", {"kind": kind, "pair": list(pair)})


@lru_cache(maxsize=1)
def load_pictures(data: Path | None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """All pictures, their classes, and the classes' names."""
    return *load_cifar10(data), np.array(CLASSES)


def load_pair(
    settings: Settings, data: Path | None, pair: tuple[int, int]
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Pictures of two classes, which of them are of the second, and the rows to train and to test on."""
    X, y, _ = load_pictures(data)
    n_all_train = 50_000
    train, test = [], []
    for label in pair:
        rows = np.flatnonzero(y == label)
        train.append(rows[rows < n_all_train][: settings.n_train])
        test.append(rows[rows >= n_all_train][: settings.n_test])
    rows = np.concatenate([*train, *test])
    n_train = sum(len(part) for part in train)
    places = np.arange(len(rows))
    return X[rows], (y[rows] == pair[1]).astype(int), places[:n_train], places[n_train:]


def run(
    settings: Settings, data: Path | None, arguments: dict[str, Any], n_jobs: int, folder: Path
) -> Any:
    """One part: rows of scores, or the numbers behind a picture."""
    pair = tuple(arguments["pair"])
    names = load_pictures(data)[2]
    problem = load_pair(settings, data, pair)
    told = {"first": str(names[pair[0]]), "second": str(names[pair[1]])}
    with threadpool_limits(1):
        if arguments["kind"] == "picture":
            return _picture(settings, problem, told)
        return [told | row for row in _STUDIES[arguments["kind"]](settings, problem)]


def _scores(settings: Settings, problem: tuple, methods: Any, **options: Any) -> list[Row]:
    """Test scores of methods whose penalties are chosen on the training pictures."""
    X, y, train, test = problem
    inner = RepeatedStratifiedKFold(
        n_splits=settings.inner_folds, n_repeats=settings.inner_repeats, random_state=0
    )
    result = compare(
        X,
        y,
        methods=list(methods),
        outer_cv=[(train, test)],
        inner_cv=inner,
        n_jobs=1,
        progress=False,
        n_knots=settings.n_knots or None,
        **options,
    )
    keys = ("method", "score", "alpha", "smoothness", "rounds", "seconds")
    rows = [
        dict(zip(keys, values, strict=True))
        for values in zip(*(result.folds[key].tolist() for key in keys), strict=True)
    ]
    return [row for row in rows if row["method"] not in ("start", "best_fixed")]


def pair_scores(settings: Settings, problem: tuple) -> list[Row]:
    """All methods: the paper's from the median, ours from their own start."""
    paper = {"alphas": settings.paper_alphas, "smoothnesses": settings.paper_smoothnesses}
    ours = {"alphas": settings.alphas, "smoothnesses": settings.smoothnesses}
    plans = [
        (PAPER, {"init": "median", **paper}),
        (("joint",), {"max_rounds": settings.rounds, **ours}),
        (("crossfit",), {"n_repeats": settings.partitions, **ours}),
    ]
    rows = []
    for known, options in plans:
        methods = [name for name in known if name in settings.methods]
        if methods:
            rows += _scores(settings, problem, methods, **options)
    return rows


def _rounds(settings: Settings, problem: tuple) -> list[Row]:
    """More rounds without the demand that the target rises: pictures gain from targets that do not."""
    grids = {"alphas": settings.paper_alphas, "smoothnesses": settings.paper_smoothnesses}
    rows = _scores(settings, problem, ("f0",), init="median", max_rounds=settings.rounds, **grids)
    return [row | {"method": "f0_rounds"} for row in rows]


def _svd_rounds(settings: Settings, problem: tuple) -> list[Row]:
    """The same from the target of svd on all training pictures, which does not rise either."""
    X, y, train, _ = problem
    grids = {"alphas": settings.paper_alphas, "smoothnesses": settings.paper_smoothnesses}
    alpha = float(np.median(settings.paper_alphas))  # the target does not depend on it
    start = SuquanClassifier("svd", alpha=alpha, n_knots=settings.n_knots or None)
    init = start.fit(X[train], y[train]).target_quantiles_
    rows = _scores(settings, problem, ("f0",), init=init, max_rounds=settings.rounds, **grids)
    return [row | {"method": "svd_f0_rounds"} for row in rows]


def _ties(settings: Settings, problem: tuple) -> list[Row]:
    """The rules for tied pixels."""
    grids = {"alphas": settings.paper_alphas, "smoothnesses": settings.paper_smoothnesses}
    return [
        {"ties": ties} | row
        for ties in ("first", "average")
        for row in _scores(
            settings, problem, ("median", "uniform", "bnd"), ties=ties, init="median", **grids
        )
    ]


def _spav(settings: Settings, problem: tuple) -> list[Row]:
    """Smoothness of spav, one value after the other; alpha is chosen for each."""
    rows = []
    for smoothness in settings.spav_smoothnesses:
        rows += _scores(
            settings,
            problem,
            ("spav",),
            init="median",
            alphas=settings.paper_alphas,
            smoothnesses=[smoothness],
        )
    return rows


_STUDIES = {
    "pair": pair_scores,
    "rounds": _rounds,
    "svdrounds": _svd_rounds,
    "ties": _ties,
    "spav": _spav,
}


def _picture(settings: Settings, problem: tuple, told: Row) -> Any:
    """One picture of each class, as it is and normalised, with the targets; alpha is the grid's middle."""
    X, y, train, _ = problem
    alpha = float(np.median(settings.paper_alphas))
    n_knots = settings.n_knots or None
    median = QuantileNormalizer("median").fit(X[train])
    models = {
        name: SuquanClassifier(name, alpha=alpha, init="median", n_knots=n_knots).fit(
            X[train], y[train]
        )
        for name in ("svd", "bnd")
    }
    chosen = [int(train[np.flatnonzero(y[train] == label)[0]]) for label in (1, 0)]
    pictures = {
        "original": X[chosen].astype(float),
        "median": median.transform(X[chosen].astype(float)),
        **{name: model.transform(X[chosen].astype(float)) for name, model in models.items()},
    }
    targets = {
        "original": np.sort(X[chosen[0]].astype(float)),
        "median": median.target_quantiles_,
        **{name: model.target_quantiles_ for name, model in models.items()},
    }
    rounded = {name: np.round(values, 4).tolist() for name, values in pictures.items()}
    return told | {
        "alpha": alpha,
        "pictures": rounded,
        "targets": {name: np.round(values, 4).tolist() for name, values in targets.items()},
    }
