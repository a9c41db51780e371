"""``suquan reproduce``: the paper's experiments, from the folder ``experiments`` of the project."""

import importlib
import json
import shlex
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

from joblib import Parallel, delayed, effective_n_jobs

import suquan
from suquan._progress import Progress
from suquan.cli._options import Reproduce
from suquan.cli._output import Output

_PACKAGE = "suquan.experiments"


def load_experiments() -> ModuleType:
    """The package ``experiments``: part of the wheel, and beside ``src`` in a clone."""
    clone = Path(__file__).parents[3]
    if (clone / "experiments" / "__init__.py").is_file() and str(clone) not in suquan.__path__:
        suquan.__path__.append(str(clone))
    try:
        return importlib.import_module(_PACKAGE)
    except ModuleNotFoundError as error:
        if error.name != _PACKAGE:
            raise
        raise ValueError(
            "this installation has no experiments; install suquan from a wheel or from a clone."
        ) from None


def run(options: Reproduce, output: Output) -> None:
    """Run the stages of one experiment: parts, tables, figures and report."""
    name, protocol, data = options.experiment, str(options.protocol), options.data
    experiment = load_experiments().load(name)
    stages = importlib.import_module(f"{_PACKAGE}.stages")
    folder = options.out or Path(f"{name}-{protocol}")
    if data is not None and not data.exists():
        raise ValueError(f"{data} does not exist; give the folder with the data with --data.")
    arrays = {key: getattr(options, key) or [] for key in ("cel", "clinical", "cdf")}
    for key, paths in arrays.items():
        for path in paths:
            if not path.exists():
                raise ValueError(f"{path} does not exist; check --{key}.")
    if options.stage in ("all", "run"):
        changes = _parsed(options.changes or ())
        changes |= {key: [str(path) for path in paths] for key, paths in arrays.items() if paths}
        settings = stages.make_settings(experiment, protocol, changes)
        if experiment.check is not None:
            experiment.check(settings, data)
        tasks = experiment.tasks(settings, data)
        stages.open_folder(experiment, settings, protocol, folder, resume=options.resume)
        left = stages.undone(tasks, folder)
        output.say(
            f"{name}, protocol {protocol}: {len(left)} of {len(tasks)} parts to do, kept in {folder}"
        )
        plain = json.loads(json.dumps(asdict(settings)))
        part = partial(run_part, (name, protocol, plain, data, folder))
        _run_parts(part, left, experiment.parts_in_parallel, options.n_jobs, output)
    else:
        settings, protocol = stages.read_settings(experiment, folder)
        tasks = experiment.tasks(settings, data)
    if options.stage in ("all", "table"):
        paths = stages.make_tables(experiment, settings, tasks, folder)
        output.keep(tables=[str(path) for path in paths])
        output.say(f"tables: {', '.join(path.name for path in paths)} in {folder}")
    if options.stage in ("all", "plot"):
        figures = stages.make_figures(experiment, settings, folder)
        changed = [
            f"--set {key}={shlex.quote(json.dumps(value))}"
            for key, value in asdict(settings).items()
            if value != getattr(experiment.protocols[protocol], key)
        ]
        command = " ".join(["suquan reproduce", name, "--protocol", protocol, *changed])
        report = stages.make_report(experiment, settings, folder, command)
        output.keep(figures=[str(path) for path in figures], report=str(report))
        output.say(f"figures: {', '.join(path.name for path in figures)}")
        output.say(f"report: {report}", strong=True)
    output.keep(experiment=name, protocol=protocol, folder=str(folder))


def _parsed(changes: Sequence[str]) -> dict[str, Any]:
    """Settings given as NAME=VALUE, values as JSON or plain words."""
    settings = {}
    for change in changes:
        name, equals, text = change.partition("=")
        if not equals:
            raise ValueError(f"--set takes NAME=VALUE, such as seeds=3; got {change!r}.")
        try:
            settings[name.strip()] = json.loads(text)
        except json.JSONDecodeError:
            settings[name.strip()] = text
    return settings


def _run_parts(
    part: Callable[..., str], tasks: Sequence[Any], in_parallel: bool, n_jobs: int, output: Output
) -> None:
    """Do the parts; those that are done stay when the work is interrupted."""
    jobs = effective_n_jobs(n_jobs)
    outside, inside = (jobs, 1) if in_parallel else (1, jobs)
    work = Parallel(n_jobs=outside, return_as="generator_unordered", pre_dispatch="n_jobs")
    done = 0
    try:
        with Progress(len(tasks), not output.quiet) as progress:
            for finished in work(delayed(part)(asdict(task), inside) for task in tasks):
                done += 1
                progress.advance(finished)
    except KeyboardInterrupt:
        output.say(
            f"{done} of {len(tasks)} parts were done now and are kept; --resume goes on there"
        )
        raise


def run_part(
    run: tuple[str, str, dict[str, Any], Path | None, Path], task: dict[str, Any], n_jobs: int
) -> str:
    """Do one part, in any process; what comes in is plain, because a process loads the experiments here.

    `run` is the name of the experiment, its protocol and settings, and the folders of data and results.
    """
    name, protocol, settings, data, folder = run
    experiment = load_experiments().load(name)
    stages = importlib.import_module(f"{_PACKAGE}.stages")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of single fits; the grids reach far on purpose
        full = stages.make_settings(experiment, protocol, settings)
        return stages.run_task(experiment, full, data, folder, stages.Task(**task), n_jobs)
