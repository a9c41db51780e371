"""``suquan fit``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone

from suquan.cli._block_inputs import is_array_file, load_block_problem, sample_problem
from suquan.cli._cluster import NO_CLUSTER, ClusterChoice, folds_on, running_cluster
from suquan.cli._inputs import LabelChoice, Problem, load_problem, make_splitter
from suquan.cli._output import Output
from suquan.io import TableError
from suquan.linear_model import METHODS
from suquan.model_selection import SuquanClassifierCV, SuquanRegressorCV
from suquan.persistence import save_model

CHOOSE_SAMPLES = 5000


def run_fit(
    path: Path,
    destination: Path,
    output: Output,
    *,
    labels: LabelChoice,
    methods: Sequence[str],
    cv: tuple[int, int],
    samples: str,
    layer: str | None,
    ignore: Sequence[str],
    ties: str,
    missing: str,
    n_knots: int | None,
    alphas: int,
    smoothnesses: int,
    seed: int,
    n_jobs: int,
    choose_samples: int = CHOOSE_SAMPLES,
    cluster: ClusterChoice = NO_CLUSTER,
) -> None:
    """Choose the penalties by cross-validation, fit to all samples, and save the model."""
    check_destination(destination)
    check_methods(methods, METHODS)
    settings = {
        "ties": ties,
        "missing": missing,
        "n_knots": n_knots,
        "alphas": alphas,
        "smoothnesses": smoothnesses,
    }
    tell = f"choosing among {alphas} alphas, {smoothnesses} smoothnesses by {cv[0]}x{cv[1]} folds"
    table: dict[str, Any] = {"samples": samples, "layer": layer, "ignore": ignore}
    if cluster or is_array_file(path):
        with running_cluster(cluster) as client:
            problem = load_block_problem(path, labels, output, **table)
            some = sample_problem(problem, choose_samples, seed)
            output.say(f"{tell} of {len(some.y):,} samples")
            with folds_on(client):
                model = fit_model(some, methods, cv, seed, n_jobs, settings)
            fit_all_blocks(model, problem)
        output.keep(n_samples_to_choose=len(some.y))
    else:
        problem = load_problem(path, labels, output, missing=missing, **table)
        output.say(tell)
        model = fit_model(problem, methods, cv, seed, n_jobs, settings)
    save_fitted(model, destination, problem, cv)
    say_model(output, model, problem)
    output.say(f"model: {destination}")
    output.keep(model=str(destination))


def check_destination(path: Path) -> None:
    """Refuse a place that cannot be written to before the work begins."""
    if path.is_dir():
        raise TableError(f"{path} is a folder; give the name of a file")
    if not path.resolve().parent.is_dir():
        raise TableError(f"{path}: there is no folder {path.resolve().parent}; make it first")


def check_methods(methods: Sequence[str], known: Sequence[str]) -> None:
    """Refuse unknown methods by name."""
    for method in methods:
        if method not in known:
            raise TableError(f"unknown method {method!r}; known are {', '.join(known)}")


def fit_model(
    problem: Problem,
    methods: Sequence[str],
    cv: tuple[int, int],
    seed: int,
    n_jobs: int,
    settings: dict[str, Any],
) -> Any:
    """Selection estimator fitted to all samples, with feature names."""
    kind = SuquanRegressorCV if problem.is_regression else SuquanClassifierCV
    model = kind(
        method=methods[0] if len(methods) == 1 else list(methods),
        cv=make_splitter(cv, seed, problem),
        random_state=seed,
        n_jobs=n_jobs,
        **settings,
    )
    model.fit(problem.X, problem.y)
    for part in (
        model,
        model.best_estimator_,
    ):  # as after a fit to a data frame, without its copies
        part.feature_names_in_ = problem.feature_names.astype(object)
    return model


def fit_all_blocks(model: Any, problem: Problem) -> None:
    """Give a model that was chosen on some samples the fit to all of them, a Dask array."""
    best = clone(model.best_estimator_).fit(problem.X, problem.y)
    best.feature_names_in_ = problem.feature_names.astype(object)
    chosen = {"alpha_": model.alpha_, "smoothness_": model.smoothness_, "best_estimator_": best}
    fitted = {name: value for name, value in vars(best).items() if name.endswith("_")}
    vars(model).update(fitted | chosen)


def save_fitted(model: Any, path: Path, problem: Problem, cv: tuple[int, int]) -> None:
    """Save a model with what is known about its training."""
    summary = {**problem.summary, "scoring": problem.scoring, "cv": f"{cv[0]}x{cv[1]}"}
    save_model(model, path, summary=summary)


def say_model(output: Output, model: Any, problem: Problem) -> None:
    """What was chosen and how well it did."""
    output.say(
        f"method {model.method_}, alpha {model.alpha_:.3g}, smoothness {model.smoothness_:.3g}: mean "
        f"{problem.scoring} {model.best_score_:.4f} over the folds that chose them (too good by the choice; "
        "`suquan compare` measures without)"
    )
    output.keep(
        method=model.method_,
        alpha=float(model.alpha_),
        smoothness=float(model.smoothness_),
        scoring=problem.scoring,
        selection_score=float(model.best_score_),
        n_features_used=int(np.count_nonzero(np.abs(model.coef_).sum(axis=0))),
        **problem.summary,
    )
