"""Pairs of classes of CIFAR-10: test scores of all methods, one part per pair and number of pictures."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score

from suquan import SuquanClassifier, compare

from ..cifar10.run import load_pair, load_pictures
from ..tables import Row
from .grey import grey_scores
from .settings import ONE_TARGET, Settings

GREY_TARGETS = 3
N_PLACES = 64  # at which the targets of the figure are kept


def run_pair(settings: Settings, data: Path | None, arguments: dict[str, Any]) -> dict[str, Any]:
    """Rows of scores of all methods on one pair, and the targets of "multi" at the alpha chosen for three."""
    first, second = arguments["pair"]
    n = arguments["n"]
    problem = load_pair(replace(settings, n_train=n // 2), data, (first, second))
    X, y, train, _ = problem
    names = load_pictures(data)[2]
    told = {"first": str(names[first]), "second": str(names[second]), "n": n}
    multi = {"max_rounds": settings.max_rounds, "n_knots": settings.n_knots}
    one = {"n_knots": settings.one_knots, "init": "median"}  # as in the paper
    rows = _compared(settings, problem, ONE_TARGET, settings.grid("alphas", n), **one)
    for m in settings.targets:
        for row in _compared(
            settings, problem, ("multi",), settings.grid("trace_alphas", n), n_targets=m, **multi
        ):
            rows.append(row | {"method": f"multi_{m}"})
    rows += _compared(
        settings, problem, ("matrix",), settings.grid("matrix_alphas", n), n_knots=settings.n_knots
    )
    rows.append(_grey(settings, problem, settings.grid("grey_alphas", n)))
    most = f"multi_{GREY_TARGETS if GREY_TARGETS in settings.targets else max(settings.targets)}"
    (alpha,) = [row["alpha"] for row in rows if row["method"] == most]
    model = SuquanClassifier("multi", alpha=alpha, n_targets=int(most[6:]), **multi)
    model.fit(X[train], y[train])
    places = np.linspace(0, X.shape[1] - 1, N_PLACES).round().astype(int)
    return {
        "rows": [told | row for row in rows],
        "targets": np.round(model.target_quantiles_[:, places], 4).tolist(),
        "singular_values": np.round(model.singular_values_, 6).tolist(),
        "about": told,
    }


def run_knots(settings: Settings, data: Path | None, pair: tuple[int, int]) -> dict[str, Any]:
    """Rows of scores of three targets and of "matrix" with several numbers of knots."""
    n, m = settings.knots_size, min(GREY_TARGETS, max(settings.targets))
    problem = load_pair(replace(settings, n_train=n // 2), data, tuple(pair))
    names = load_pictures(data)[2]
    told = {"first": str(names[pair[0]]), "second": str(names[pair[1]]), "n": n}
    rows: list[Row] = []
    for n_knots in settings.knots:
        plans = (
            (f"multi_{m}", "trace_alphas", {"n_targets": m, "max_rounds": settings.max_rounds}),
            ("matrix", "matrix_alphas", {}),
        )
        for name, grid, options in plans:
            found = _compared(
                settings, problem, [name.partition("_")[0]], settings.grid(grid, n),
                n_knots=n_knots, **options,
            )  # fmt: skip
            rows += [told | row | {"method": name, "n_knots": n_knots} for row in found]
    return {"rows": rows}


def _compared(
    settings: Settings, problem: tuple, methods: Any, alphas: Any, **options: Any
) -> list[Row]:
    """Test scores of methods of the package, alpha chosen on the training pictures."""
    X, y, train, test = problem
    result = compare(
        X,
        y,
        methods=list(methods),
        outer_cv=[(train, test)],
        inner_cv=settings.splits(len(train)),
        alphas=alphas,
        smoothnesses=[0.0],
        n_jobs=1,
        progress=False,
        **options,
    )
    keys = ("method", "score", "alpha", "seconds")
    rows = zip(*(result.folds[key].tolist() for key in keys), strict=True)
    ends = min(alphas), max(alphas)
    return [
        {**dict(zip(keys, row, strict=True)), "at_end": int(row[2] in ends)}
        for row in rows
        if row[0] in methods
    ]


def _grey(settings: Settings, problem: tuple, alphas: list[float]) -> Row:
    """Curves over grey values, alpha chosen by the same splits."""
    X, y, train, test = problem
    start = time.perf_counter()
    options = {"n_knots": settings.n_knots, "max_rounds": settings.max_rounds}
    m = min(GREY_TARGETS, max(settings.targets))
    inner = np.zeros(len(alphas))
    for own, held_out in settings.splits(len(train)).split(train, y[train]):
        a, b = train[own], train[held_out]
        outputs = grey_scores(X[a], y[a], X[b], alphas, m, **options)
        inner += [roc_auc_score(y[b], u) for u in outputs]
    alpha = alphas[int(np.argmax(inner))]
    (u,) = grey_scores(X[train], y[train], X[test], [alpha], m, **options)
    return {
        "method": f"grey_{m}",
        "score": float(roc_auc_score(y[test], u)),
        "alpha": alpha,
        "seconds": time.perf_counter() - start,
        "at_end": int(alpha in (min(alphas), max(alphas))),
    }
