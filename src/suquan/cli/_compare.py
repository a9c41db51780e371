"""``suquan compare``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from suquan._files import replace_file
from suquan.cli._cluster import NO_CLUSTER, ClusterChoice, folds_on, running_cluster
from suquan.cli._fit import check_methods, fit_model, save_fitted
from suquan.cli._inputs import LabelChoice, Problem, load_problem, make_splitter
from suquan.cli._output import Output
from suquan.comparison import METHOD_NAMES, Comparison, compare
from suquan.io import TableError

CHECKPOINT = "checkpoint"


def run_compare(
    path: Path,
    folder: Path,
    output: Output,
    *,
    labels: LabelChoice,
    methods: Sequence[str],
    cv: tuple[int, int],
    inner_cv: tuple[int, int],
    samples: str,
    layer: str | None,
    ignore: Sequence[str],
    ties: str,
    missing: str,
    n_knots: int | None,
    alphas: int,
    smoothnesses: int,
    permutations: int,
    seed: int,
    n_jobs: int,
    command: Sequence[str],
    resumable: bool = True,
    cluster: ClusterChoice = NO_CLUSTER,
) -> None:
    """Compare, fit, and write tables, figures, the model and the report."""
    check_methods(methods, METHOD_NAMES)
    check_folder(folder)
    problem = load_problem(
        path, labels, output, samples=samples, layer=layer, ignore=ignore, missing=missing
    )
    outer, inner = make_splitter(cv, seed, problem), make_splitter(inner_cv, seed, problem)
    folder.mkdir(parents=True, exist_ok=True)
    if not methods:
        methods = default_methods(problem)
    n_parts = len(methods) * cv[0] * cv[1]
    checkpoint = folder / CHECKPOINT if resumable else None
    where = f", kept in {checkpoint} as they are done" if resumable else ""
    output.say(
        f"comparing {len(methods)} methods on {cv[0]}x{cv[1]} outer folds: {n_parts} parts{where}"
    )
    settings: dict[str, Any] = {"ties": ties, "missing": missing, "n_knots": n_knots}
    grids: dict[str, Any] = {"alphas": alphas, "smoothnesses": smoothnesses}
    try:
        with running_cluster(cluster) as client, folds_on(client):
            result = compare(
                problem.X,
                problem.y,
                methods=list(methods),
                outer_cv=outer,
                inner_cv=inner,
                scoring=problem.scoring,
                n_jobs=n_jobs,
                random_state=seed,
                checkpoint=checkpoint,
                progress=output.shows_progress,
                n_permutations=permutations,
                **grids,
                **settings,
            )
            model = fit_model(problem, ["crossfit"], inner_cv, seed, n_jobs, settings | grids)
    except KeyboardInterrupt:
        if checkpoint is not None:
            done = len(list(checkpoint.glob("*.npz")))
            output.say(f"{done} of {n_parts} parts are kept; the same command goes on there")
        raise
    result.to_csv(folder)
    say_comparison(output, result)
    save_fitted(model, folder / "model.suquan", problem, inner_cv)
    write_figures(folder / "figures", result, model)
    report = _write_report(
        folder / "report.html",
        result,
        model,
        problem,
        output,
        command,
        {
            "methods": list(methods),
            "outer folds": f"{cv[0]} folds, {cv[1]} times",
            "inner folds": f"{inner_cv[0]} folds, {inner_cv[1]} times",
            **grids,
            **settings,
            "seed": seed,
        },
    )
    output.say(result.verdict, strong=True)
    output.say(f"tables, figures and model: {folder}")
    output.say(f"report: {report}")
    output.keep(
        verdict=result.verdict,
        scoring=result.scoring,
        contrast=None if result.contrast is None else result.contrast._asdict(),
        summary=_rows(result.summary),
        folder=str(folder),
        model=str(folder / "model.suquan"),
        report=str(report),
        data=problem.summary,
    )


def check_folder(folder: Path) -> None:
    """Refuse a file of that name."""
    if folder.exists() and not folder.is_dir():
        raise TableError(f"{folder} is a file; give a folder")


def default_methods(problem: Problem) -> list[str]:
    """All methods that can do the task; "svd" is for two classes alone."""
    two = len(problem.class_names) == 2
    return [name for name in METHOD_NAMES if two or name != "svd"]


def _rows(table: dict[str, np.ndarray]) -> list[dict[str, Any]]:
    columns = {name: column.tolist() for name, column in table.items()}
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def say_comparison(output: Output, result: Comparison) -> None:
    """Table of the methods, the best first."""
    summary = result.summary
    order = np.argsort(summary["rank"], kind="stable")
    rows = [
        [str(summary["method"][k]), float(summary["mean"][k]), float(summary["std"][k])]
        for k in order
    ]
    output.table(["method", f"mean {result.scoring}", "sd over folds"], rows)


def write_figures(folder: Path, result: Comparison, model: Any) -> list[Path]:
    """The figures of the report as files of their own."""
    import matplotlib

    from suquan.plotting import ComparisonDisplay, TargetQuantileDisplay

    folder.mkdir(exist_ok=True)
    written = []
    with matplotlib.rc_context({"svg.hashsalt": "suquan", "backend": "agg"}):
        from matplotlib.figure import Figure

        def draw(name: str, show: Any) -> None:
            figure = Figure(figsize=(7, 4.5), layout="constrained")
            show(figure.add_subplot())
            for suffix in ("svg", "png"):
                path = folder / f"{name}.{suffix}"
                meta = {"Date": None} if suffix == "svg" else None
                write = lambda f, s=suffix, m=meta: figure.savefig(f, format=s, metadata=m, dpi=150)  # noqa: E731
                written.append(replace_file(path, write))

        draw("methods", lambda ax: ComparisonDisplay.from_result(result, "box", ax=ax))
        if len(result.summary["method"]) > 1:
            draw("folds", lambda ax: ComparisonDisplay.from_result(result, "scatter", ax=ax))
        if result.targets:
            draw("target", lambda ax: TargetQuantileDisplay.from_result(result, ax=ax))
        else:
            draw("target", lambda ax: TargetQuantileDisplay.from_estimator(model, ax=ax))
    return written


def _write_report(
    path: Path,
    result: Comparison,
    model: Any,
    problem: Problem,
    output: Output,
    command: Sequence[str],
    settings: dict[str, Any],
) -> Path:
    from suquan.report import write_report

    names = {
        "table": "table",
        "label": "label",
        "class_counts": "classes",
        "n_samples": "samples used",
        "n_samples_in_table": "samples in the table",
        "n_censored": "censored before the horizon (dropped)",
        "n_missing_time_or_event": "without time or event (dropped)",
        "orientation": "samples in",
    }
    told = {shown: problem.summary[key] for key, shown in names.items() if key in problem.summary}
    return write_report(
        path,
        result,
        estimator=model,
        data_summary={**told, "features": problem.X.shape[1]},
        warnings=output.warnings,
        settings=settings,
        command=list(command),
        feature_names=problem.feature_names.tolist(),
    )
