"""``suquan fit``: labelled samples in, a model file out; `compare` fits and saves its model here too."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import PredefinedSplit

from suquan.alignment import feature_weights
from suquan.cli._cluster import folds_on, running_cluster
from suquan.cli._inputs import Problem, is_array_file, load_problem, make_splitter, sample_problem
from suquan.cli._options import Fit, ModelOptions, split_names
from suquan.cli._output import Output
from suquan.cox_model import SuquanCoxCV
from suquan.folds import corrected_error
from suquan.io import TableError
from suquan.io.writing import check_destination
from suquan.linear_model import METHODS
from suquan.methods import resolve_method
from suquan.model_selection import SuquanClassifierCV, SuquanRegressorCV
from suquan.persistence import save_model


def run(options: Fit, output: Output) -> None:
    """Choose the penalties by cross-validation, fit to all samples, and save the model."""
    methods, cv = split_names(options.method), options.cv
    check_destination(options.output)
    check_methods(methods, METHODS, options.n_targets)
    in_blocks = options.has_cluster or is_array_file(options.table)
    several = [name for name in methods if resolve_method(name).norm]
    if in_blocks and several:
        raise TableError(
            f"the method {several[0]} holds its samples in memory; give a table of another kind than .npy and "
            ".zarr, without --scheduler and --workers"
        )
    if in_blocks and options.time is not None and options.horizon is None:
        raise TableError(
            "Cox's model holds its samples in memory; give a table of another kind than .npy and .zarr, "
            "without --scheduler and --workers, or classes by --horizon"
        )
    grid = f"{options.alphas} alphas, {options.smoothnesses} smoothnesses"
    tell = f"choosing among {grid} by {'cohorts' if options.leave_out else f'{cv} folds'}"
    if in_blocks:
        with running_cluster(options) as client:
            problem = load_problem(options, output, in_blocks=True)
            some = sample_problem(problem, options.choose_samples, options.seed)
            output.say(f"{tell} of {len(some.y):,} samples")
            with folds_on(client):
                model = fit_model(some, methods, _folds(options, some), options)
            _fit_all_blocks(model, problem)
        output.keep(n_samples_to_choose=len(some.y))
    else:
        problem = load_problem(options, output)
        output.say(tell)
        some = problem
        model = fit_model(problem, methods, _folds(options, problem), options)
    save_fitted(
        model,
        options.output,
        problem,
        f"leave out {options.leave_out}" if options.leave_out else cv,
    )
    if some.cohorts is not None:
        _say_cohorts(model, some, output)
    targets = ""
    if hasattr(model, "n_targets_"):
        targets = f"targets {model.n_targets_}, "
        output.keep(n_targets=model.n_targets_, duality_gap=model.duality_gap_)
    departure = f"departure {model.departure_:.3g}"
    if not model.departure_:
        departure = f"the learned target was not better: the initial target ({model.init}) is kept"
    output.say(
        f"method {model.method_}, {targets}alpha {model.alpha_:.3g}, smoothness {model.smoothness_:.3g}, "
        f"{departure}"
    )
    output.say(_score_in_words(model, some, options.cv.n_folds))
    output.say(f"model: {options.output}")
    output.keep(
        method=model.method_,
        alpha=float(model.alpha_),
        smoothness=float(model.smoothness_),
        departure=float(model.departure_),
        scoring=problem.scoring,
        selection_score=float(model.best_score_),
        n_features_used=int(np.count_nonzero(feature_weights(model).any(axis=0))),
        **problem.summary,
        model=str(options.output),
    )


def _folds(options: Fit, problem: Problem) -> Any:
    """Folds that choose the penalties: random ones, or the cohorts one after the other."""
    cohorts: Any = problem.cohorts
    if cohorts is None:
        return make_splitter(options.cv, options.seed, problem)
    return PredefinedSplit(np.unique(cohorts, return_inverse=True)[1])


def _score_in_words(model: Any, problem: Problem, n_folds: int) -> str:
    """Cross-validated score, and whether it lies two standard errors above the score of a guess."""
    guess, results = 0.0 if problem.scoring == "r2" else 0.5, model.cv_results_
    scores = [v[model.best_index_] for name, v in results.items() if name.startswith("split")]
    margin = 2.0 * corrected_error(np.array(scores), 1.0 / (n_folds - 1))
    name = {"r2": "R²", "concordance": "concordance"}.get(problem.scoring, "AUC")
    told = f"cross-validated {name} {model.best_score_:.4f}"
    if problem.cohorts is not None:  # the error is that of random folds
        margin = 0.0
    if model.best_score_ - margin > guess:
        return f"{told} (optimistic: the same folds were used for tuning; see `suquan compare`)"
    error = f" ± {margin:.4f} (two standard errors)" if margin else ""
    return f"{told}{error}: no better than guessing ({guess:g})"


def _say_cohorts(model: Any, problem: Problem, output: Output) -> None:
    """Scores of the chosen setting in each cohort, of models of the others."""
    cohorts: Any = problem.cohorts
    names, counts = np.unique(cohorts, return_counts=True)
    results = model.cv_results_
    scores = [float(results[f"split{k}_test_score"][model.best_index_]) for k in range(len(names))]
    rows = [
        [str(name), int(n), score] for name, n, score in zip(names, counts, scores, strict=True)
    ]
    output.table(["left out", "samples", problem.scoring], rows)
    output.keep(
        cohorts=[dict(zip(("cohort", "n_samples", "score"), row, strict=True)) for row in rows]
    )


def check_methods(methods: Sequence[str], known: Sequence[str], n_targets: int | None) -> None:
    """Refuse unknown methods by name, and a number of targets where no method takes one."""
    for method in methods:
        if method not in known:
            raise TableError(f"unknown method {method!r}; known are {', '.join(known)}")
    if n_targets is not None and "multi" not in methods:
        raise TableError(
            "--n-targets is for the method multi; name it too, or leave --n-targets out"
        )


def fit_model(problem: Problem, methods: Sequence[str], cv: Any, options: ModelOptions) -> Any:
    """Selection estimator fitted to all samples, with feature names; `cv` is a splitter."""
    more: dict[str, Any] = {}
    kind: Any = SuquanRegressorCV
    if problem.is_survival:
        kind = SuquanCoxCV
    elif not problem.is_regression:
        kind, more["calibration"] = SuquanClassifierCV, options.calibration_or_none
    model = kind(
        method=methods[0] if len(methods) == 1 else list(methods),
        cv=cv,
        random_state=options.seed,
        n_jobs=options.n_jobs,
        n_targets=options.n_targets if "multi" in methods else None,
        **options.settings(),
        **more,
    )
    model.fit(problem.X, problem.y, groups=problem.groups)
    for part in (model, model.best_estimator_):  # as after a fit to a data frame, without copies
        part.feature_names_in_ = problem.feature_names.astype(object)
    return model


def _fit_all_blocks(model: Any, problem: Problem) -> None:
    """Give a model that was chosen on some samples the fit to all of them, a Dask array."""
    best = clone(model.best_estimator_).fit(problem.X, problem.y, groups=problem.groups)
    best.feature_names_in_ = problem.feature_names.astype(object)
    chosen = {"alpha_": model.alpha_, "smoothness_": model.smoothness_, "best_estimator_": best}
    # The calibration is one of scores that were shifted.
    chosen["intercept_"] = best.intercept_ + (model.intercept_ - model.best_estimator_.intercept_)
    fitted = {name: value for name, value in vars(best).items() if name.endswith("_")}
    vars(model).update(fitted | chosen)


def save_fitted(model: Any, path: Path, problem: Problem, cv: Any) -> None:
    """Save a model with what is known about its training."""
    save_model(model, path, summary={**problem.summary, "scoring": problem.scoring, "cv": str(cv)})
