"""``suquan compare``: labelled samples in; tables, figures, a model and a report out."""

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from suquan._files import replace_file
from suquan.calibration import MEASURES
from suquan.cli._cluster import folds_on, running_cluster
from suquan.cli._fit import check_methods, fit_model, save_fitted
from suquan.cli._inputs import Problem, load_problem, make_splitter
from suquan.cli._options import Compare, split_names
from suquan.cli._output import Output
from suquan.comparison import METHOD_NAMES, VERDICT_METHOD, Comparison, compare, named_methods
from suquan.io import TableError
from suquan.plotting import (
    ComparisonDisplay,
    ReliabilityDisplay,
    RiskGroupDisplay,
    TargetQuantileDisplay,
)
from suquan.report import write_report

# What the report says of the data, in these words.
DATA = {
    "table": "table",
    "label": "label",
    "class_counts": "classes",
    "n_samples": "samples used",
    "n_samples_in_table": "samples in the table",
    "n_events": "events",
    "strata": "strata",
    "n_censored": "censored before the horizon (dropped)",
    "n_missing_time_or_event": "without time or event (dropped)",
    "orientation": "samples in",
}


def run(options: Compare, output: Output, *, resumable: bool = True) -> None:
    """Compare, fit, and write tables, figures, the model and the report."""
    folder, seed = options.out, options.seed
    methods = split_names(options.methods)
    check_methods(methods, METHOD_NAMES, options.n_targets)
    check_folder(folder)
    problem = load_problem(options, output)
    methods = list(named_methods(methods or None, is_times=problem.is_survival))
    inner = make_splitter(options.inner_cv, seed, problem)
    if problem.cohorts is None:
        outer = make_splitter(options.cv, seed, problem)
        n_folds, folds = options.cv.n_folds * options.cv.n_repeats, f"{options.cv} outer folds"
    else:
        outer, n_folds = None, len(np.unique(problem.cohorts))
        folds = f"{n_folds} cohorts, each left out once"
    n_parts = len(methods) * n_folds
    checkpoint = folder / "checkpoint" if resumable else None
    where = f", kept in {checkpoint} as they are done" if resumable else ""
    output.say(f"comparing {len(methods)} methods on {folds}: {n_parts} parts{where}")
    try:
        with running_cluster(options) as client, folds_on(client):
            result = compare(
                problem.X,
                problem.y,
                methods=methods,
                outer_cv=outer,
                inner_cv=inner,
                scoring=problem.scoring,
                n_jobs=options.n_jobs,
                random_state=seed,
                checkpoint=checkpoint,
                progress=not output.quiet,
                n_permutations=options.permutations,
                n_targets=options.n_targets,
                calibration=options.calibration_or_none,
                groups=problem.groups,
                leave_out=problem.cohorts,
                sample_names=problem.sample_names,
                **options.settings(),
            )
            model = fit_model(problem, [method_of_model(result)], inner, options)
    except KeyboardInterrupt:
        if checkpoint is not None:
            done = len(list(checkpoint.glob("*.npz")))
            output.say(f"{done} of {n_parts} parts are kept; the same command goes on there")
        raise
    result.to_csv(folder)
    columns = [column.tolist() for column in result.summary.values()]
    summary = [dict(zip(result.summary, row, strict=True)) for row in zip(*columns, strict=True)]
    best_first = sorted(summary, key=lambda row: row["rank"])
    rows = [[row["method"], row["mean"], row["std"]] for row in best_first]
    output.table(["method", f"mean {result.scoring}", "sd over folds"], rows)
    _say_probabilities(best_first, output)
    if result.cohorts:
        _say_cohorts(result, [str(row["method"]) for row in best_first], output)
    save_fitted(model, folder / "model.suquan", problem, options.inner_cv)
    _write_figures(folder / "figures", result, model)
    told: dict[str, Any] = {"estimator": model, "warnings": output.warnings}
    told |= {"feature_names": problem.feature_names.tolist()}
    told |= {"class_names": problem.class_names or None}
    told |= _for_report(options, methods, problem)
    report = write_report(folder / "report.html", result, **told)
    output.say(result.verdict, strong=True)
    output.say(f"tables, figures and model: {folder}")
    output.say(f"report: {report}")
    output.keep(
        verdict=result.verdict,
        scoring=result.scoring,
        contrast=None if result.contrast is None else result.contrast._asdict(),
        contrasts={name: column.tolist() for name, column in result.contrasts.items()},
        summary=summary,
        folder=str(folder),
        model=str(folder / "model.suquan"),
        report=str(report),
        data=problem.summary,
    )


def _say_probabilities(summary: list[dict[str, Any]], output: Output) -> None:
    """Measures of probabilities, where there are classes."""
    heads = ["log loss", "Brier score", "balanced accuracy at 0.5", "at the prevalence"]
    rows = [
        [row["method"], *(row[name] for name in MEASURES)] for row in summary if MEASURES[0] in row
    ]
    if rows:
        output.table(["method", *heads], rows)


def _say_cohorts(result: Comparison, methods: list[str], output: Output) -> None:
    """Scores by cohort."""
    table = result.cohorts
    cohorts = list(dict.fromkeys(map(str, table["cohort"])))
    scores = dict(
        zip(zip(table["method"], table["cohort"], strict=True), table["score"], strict=True)
    )
    rows = [[method, *(float(scores[method, cohort]) for cohort in cohorts)] for method in methods]
    output.table([f"{result.scoring} of", *cohorts], rows)
    output.keep(cohorts={name: column.tolist() for name, column in table.items()})


def check_folder(folder: Path) -> None:
    """Refuse a file of that name."""
    if folder.exists() and not folder.is_dir():
        raise TableError(f"{folder} is a file; give a folder")


def method_of_model(result: Comparison) -> str:
    """The method of the verdict; where it was not compared, the best of the learned ones that were."""
    summary = result.summary
    means = dict(zip(map(str, summary["method"]), summary["mean"].tolist(), strict=True))
    if VERDICT_METHOD in means or not result.targets:
        return VERDICT_METHOD
    return max(result.targets, key=lambda name: means[name])


def _write_figures(folder: Path, result: Comparison, model: Any) -> None:
    """The figures of the report as files of their own."""
    import matplotlib
    from matplotlib.figure import Figure

    drawings: dict[str, Any] = {"methods": partial(ComparisonDisplay.from_result, result, "box")}
    if len(result.summary["method"]) > 1:
        drawings["folds"] = partial(ComparisonDisplay.from_result, result, "scatter")
    if result.reliability:
        drawings["reliability"] = partial(ReliabilityDisplay.from_result, result)
    drawings["target"] = partial(TargetQuantileDisplay.from_estimator, model)
    if model.method_ in result.targets and not hasattr(model, "n_targets_"):
        drawings["target"] = partial(TargetQuantileDisplay.from_result, result, model.method_)
    if result.risk_groups is not None:
        drawings["risk_groups"] = partial(RiskGroupDisplay.from_result, result)
    folder.mkdir(exist_ok=True)
    with matplotlib.rc_context({"svg.hashsalt": "suquan", "backend": "agg"}):
        for name, draw in drawings.items():
            figure = Figure(figsize=(7, 4.5), layout="constrained")
            draw(ax=figure.add_subplot())
            for kind, metadata in (("svg", {"Date": None}), ("png", None)):
                save = partial(figure.savefig, format=kind, metadata=metadata, dpi=150)
                replace_file(folder / f"{name}.{kind}", save)


def _for_report(options: Compare, methods: list[str], problem: Problem) -> dict[str, Any]:
    """What the report says of the data and of the settings."""
    told = {shown: problem.summary[key] for key, shown in DATA.items() if key in problem.summary}
    settings = {
        "methods": methods,
        "outer folds": f"{options.cv.n_folds} folds, {options.cv.n_repeats} times"
        if options.leave_out is None
        else f"each value of {options.leave_out} left out once",
        "inner folds": f"{options.inner_cv.n_folds} folds, {options.inner_cv.n_repeats} times",
        **options.settings(),
        **({} if problem.is_regression else {"calibration": options.calibration}),
        **({} if options.groups is None else {"groups kept together": options.groups}),
        **({} if options.n_targets is None else {"n_targets": options.n_targets}),
        "seed": options.seed,
    }
    data = {**told, "features": problem.X.shape[1]}
    return {"data_summary": data, "settings": settings, "command": options.command()}
