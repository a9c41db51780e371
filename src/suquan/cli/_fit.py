"""``suquan fit``: labelled samples in, a model file out; `compare` fits and saves its model here too."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.model_selection import PredefinedSplit

from suquan.alignment import feature_weights
from suquan.cli._inputs import Problem, load_problem, make_splitter
from suquan.cli._options import Fit, ModelOptions
from suquan.cli._output import Output
from suquan.cox_model import SuquanCoxCV
from suquan.io import TableError
from suquan.io.writing import check_destination
from suquan.linear_model import METHODS
from suquan.model_selection import SuquanClassifierCV, SuquanRegressorCV
from suquan.persistence import save_model
from suquan.selection.folds import corrected_error


def run(options: Fit, output: Output) -> None:
    """Choose the penalties by cross-validation, fit to all samples, and save the model."""
    check_destination(options.output)
    methods = split_names(options.method, METHODS, options)
    problem = load_problem(options, output)
    if problem.cohorts is None:
        splitter: Any = make_splitter(options.cv, options.seed, problem)
        folds, cv = f"{options.cv} folds", str(options.cv)
    else:
        splitter = PredefinedSplit(np.unique(problem.cohorts, return_inverse=True)[1])
        folds, cv = "cohorts", f"leave out {options.leave_out}"
    output.say(
        f"choosing among {options.alphas} alphas, {options.smoothnesses} smoothnesses by {folds}"
    )
    model = fit_model(problem, methods, splitter, options)
    save_fitted(model, options.output, problem, cv)
    if problem.cohorts is not None:
        _say_cohorts(model, problem, output)
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
    output.say(_score_in_words(model, problem, options.cv.n_folds))
    output.say(f"model: {options.output}")
    chosen = {name: getattr(model, f"{name}_") for name in ("alpha", "smoothness", "departure")}
    output.keep(
        method=model.method_,
        **{name: float(value) for name, value in chosen.items()},
        scoring=problem.scoring,
        selection_score=float(model.best_score_),
        n_features_used=int(np.count_nonzero(feature_weights(model).any(axis=0))),
        **problem.summary,
        model=str(options.output),
    )


def split_names(text: str, known: Sequence[str], options: ModelOptions) -> list[str]:
    """Split the names of methods; unknown ones are refused, and a number of targets that none takes."""
    methods = [name.strip() for name in text.split(",") if name.strip()]
    for method in methods:
        if method not in known:
            raise TableError(f"unknown method {method!r}; known are {', '.join(known)}")
    if options.n_targets is not None and "multi" not in methods:
        cure = "name it too, or leave --n-targets out"
        raise TableError(f"--n-targets is for the method multi; {cure}")
    return methods


def _fold_scores(model: Any) -> list[float]:
    """Scores of the chosen setting in all folds."""
    names = [name for name in model.cv_results_ if name.startswith("split")]
    return [float(model.cv_results_[name][model.best_index_]) for name in names]


def _score_in_words(model: Any, problem: Problem, n_folds: int) -> str:
    """Tell the cross-validated score, and whether it lies two standard errors above that of a guess."""
    guess, margin = 0.0 if problem.scoring == "r2" else 0.5, 0.0
    if problem.cohorts is None:  # the error is that of random folds
        margin = 2.0 * corrected_error(np.array(_fold_scores(model)), 1.0 / (n_folds - 1))
    name = {"r2": "R²", "concordance": "concordance"}.get(problem.scoring, "AUC")
    told = f"cross-validated {name} {model.best_score_:.4f}"
    if model.best_score_ - margin > guess:
        return f"{told} (optimistic: the same folds were used for tuning; see `suquan compare`)"
    error = f" ± {margin:.4f} (two standard errors)" if margin else ""
    return f"{told}{error}: no better than guessing ({guess:g})"


def _say_cohorts(model: Any, problem: Problem, output: Output) -> None:
    """Tell the scores of the chosen setting in each cohort, of models of the others."""
    names, counts = np.unique(problem.cohorts, return_counts=True)
    columns = names.tolist(), counts.tolist(), _fold_scores(model)
    rows = list(zip(*columns, strict=True))
    output.table(["left out", "samples", problem.scoring], rows)
    heads = ("cohort", "n_samples", "score")
    output.keep(cohorts=[dict(zip(heads, row, strict=True)) for row in rows])


def fit_model(problem: Problem, methods: Sequence[str], cv: Any, options: ModelOptions) -> Any:
    """Fit an estimator that selects to all samples, with feature names; `cv` is a splitter."""
    more: dict[str, Any] = {}
    kind: Any = SuquanCoxCV if problem.y.dtype.names else SuquanRegressorCV
    if problem.class_names:
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


def save_fitted(model: Any, path: Path, problem: Problem, cv: str) -> None:
    """Save a model with what is known about its training."""
    save_model(model, path, summary={**problem.summary, "scoring": problem.scoring, "cv": cv})
