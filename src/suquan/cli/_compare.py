"""``suquan compare``: labelled samples in; tables, figures, a model and a report out."""

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from suquan import plotting
from suquan.calibration import MEASURES
from suquan.cli._fit import fit_model, save_fitted, split_names
from suquan.cli._inputs import Problem, load_problem, make_splitter
from suquan.cli._options import Compare
from suquan.cli._output import Output
from suquan.comparison import METHOD_NAMES, VERDICT_METHOD, Comparison, compare, named_methods
from suquan.files.disk import replace_file
from suquan.io import TableError
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
# Options that it shows as settings of the run, beside the methods and the folds.
SETTINGS = (
    *("alphas", "smoothnesses", "n_knots", "n_targets", "feature_scaling", "calibration"),
    *("ties", "missing", "groups", "seed"),
)


def run(options: Compare, output: Output) -> None:
    """Compare, fit, and write tables, figures, the model and the report."""
    folder = options.out
    asked = split_names(options.methods or "", METHOD_NAMES, options)
    if folder.exists() and not folder.is_dir():
        raise TableError(f"{folder} is a file; give a folder")
    problem = load_problem(options, output)
    methods = list(named_methods(asked or None, is_times=bool(problem.y.dtype.names)))
    inner = make_splitter(options.inner_cv, options.seed, problem)
    result = _compare(options, methods, inner, problem, output)
    model = fit_model(problem, [method_of_model(result)], inner, options)
    result.to_csv(folder)
    _say_scores(result, output)
    save_fitted(model, folder / "model.suquan", problem, str(options.inner_cv))
    _write_figures(folder / "figures", result, model)
    data = {told: problem.summary[key] for key, told in DATA.items() if key in problem.summary}
    folds = str(options.cv)
    if options.leave_out is not None:
        folds = f"each value of {options.leave_out} left out once"
    settings = {"methods": methods, "outer folds": folds, "inner folds": str(options.inner_cv)}
    given = {name: getattr(options, name) for name in SETTINGS}
    report = write_report(
        folder / "report.html",
        result,
        estimator=model,
        warnings=output.warnings,
        feature_names=problem.feature_names.tolist(),
        class_names=problem.class_names or None,
        data_summary=data | {"features": problem.X.shape[1]},
        settings=settings | {name: x for name, x in given.items() if x is not None},
        command=options.command(),
    )
    output.say(result.verdict, strong=True)
    output.say(f"tables, figures and model: {folder}")
    output.say(f"report: {report}")
    output.keep(
        verdict=result.verdict,
        scoring=result.scoring,
        contrast=None if result.contrast is None else result.contrast._asdict(),
        contrasts=result.contrasts,
        folder=str(folder),
        model=str(folder / "model.suquan"),
        report=str(report),
        data=problem.summary,
    )


def _compare(
    options: Compare, methods: list[str], inner: Any, problem: Problem, output: Output
) -> Comparison:
    """Compare; finished parts are kept, also where the work is interrupted."""
    if problem.cohorts is None:
        outer = make_splitter(options.cv, options.seed, problem)
        n_folds, folds = options.cv.n_folds * options.cv.n_repeats, f"{options.cv} outer folds"
    else:
        outer, n_folds = None, len(np.unique(problem.cohorts))
        folds = f"{n_folds} cohorts, each left out once"
    n_parts, checkpoint = len(methods) * n_folds, options.out / "checkpoint"
    parts = f"{n_parts} parts, kept in {checkpoint} as they are done"
    output.say(f"comparing {len(methods)} methods on {folds}: {parts}")
    try:
        return compare(
            problem.X,
            problem.y,
            methods=methods,
            outer_cv=outer,
            inner_cv=inner,
            scoring=problem.scoring,
            n_jobs=options.n_jobs,
            random_state=options.seed,
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
    except KeyboardInterrupt:
        done = len(list(checkpoint.glob("*.npz")))
        output.say(f"{done} of {n_parts} parts are kept; the same command goes on there")
        raise


def _say_scores(result: Comparison, output: Output) -> None:
    """Tell the scores of all methods, the measures of their probabilities, and the scores by cohort."""
    columns = {name: column.tolist() for name, column in result.summary.items()}
    summary = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    output.keep(summary=summary)
    best_first = sorted(summary, key=lambda row: row["rank"])

    def show(heads: list[str], names: tuple[str, ...]) -> None:
        output.table(
            ["method", *heads], [[row[k] for k in ("method", *names)] for row in best_first]
        )

    show([f"mean {result.scoring}", "sd over folds"], ("mean", "std"))
    if next(iter(MEASURES)) in columns:
        show([measure.heading for measure in MEASURES.values()], tuple(MEASURES))
    if result.cohorts:
        parts = zip(*(result.cohorts[k] for k in ("method", "cohort", "score")), strict=True)
        scores = {(str(method), str(cohort)): float(score) for method, cohort, score in parts}
        cohorts = list(dict.fromkeys(cohort for _, cohort in scores))
        methods = [row["method"] for row in best_first]
        rows = [[method, *(scores[method, cohort] for cohort in cohorts)] for method in methods]
        output.table([f"{result.scoring} of", *cohorts], rows)
        output.keep(cohorts=result.cohorts)


def method_of_model(result: Comparison) -> str:
    """Name the method of the verdict; where it was not compared, the best of the learned ones that were."""
    columns = (result.summary[name].tolist() for name in ("method", "mean"))
    means = dict(zip(*columns, strict=True))
    if VERDICT_METHOD in means or not result.targets:
        return VERDICT_METHOD
    return max(result.targets, key=lambda name: means[name])


def _write_figures(folder: Path, result: Comparison, model: Any) -> None:
    """Write the figures of the report as files of their own."""
    import matplotlib
    from matplotlib.figure import Figure

    scores, target = plotting.ComparisonDisplay.from_result, plotting.TargetQuantileDisplay
    drawings: dict[str, Any] = {"methods": partial(scores, result, "box")}
    if len(result.summary["method"]) > 1:
        drawings["folds"] = partial(scores, result, "scatter")
    if result.reliability:
        drawings["reliability"] = partial(plotting.ReliabilityDisplay.from_result, result)
    drawings["target"] = partial(target.from_estimator, model)
    if model.method_ in result.targets and not hasattr(model, "n_targets_"):
        drawings["target"] = partial(target.from_result, result, model.method_)
    if result.risk_groups is not None:
        drawings["risk_groups"] = partial(plotting.RiskGroupDisplay.from_result, result)
    folder.mkdir(exist_ok=True)
    with matplotlib.rc_context({"svg.hashsalt": "suquan", "backend": "agg"}):
        for name, draw in drawings.items():
            figure = Figure(figsize=(7, 4.5), layout="constrained")
            draw(ax=figure.add_subplot())
            for kind, metadata in (("svg", {"Date": None}), ("png", None)):
                save = partial(figure.savefig, format=kind, metadata=metadata, dpi=150)
                replace_file(folder / f"{name}.{kind}", save)
