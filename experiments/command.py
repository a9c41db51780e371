"""The command line of every experiment: ``python -m experiments.NAME`` calls :func:`main`.

An experiment and arguments come in; the stages in `stages.py` do the work; lines on the terminal and an exit
code go out.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
import warnings
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from joblib import Parallel, delayed, effective_n_jobs

from suquan._progress import Progress

from .stages import (
    STAGES,
    Experiment,
    Task,
    make_figures,
    make_report,
    make_settings,
    make_tables,
    open_folder,
    read_settings,
    run_task,
    undone,
)

ARRAYS = ("cel", "clinical", "cdf")


def main(experiment: Experiment, arguments: Sequence[str] | None = None) -> int:
    """Run one experiment; return 0, 1 after invalid input, or 130 after Ctrl-C."""
    options = _parser(experiment).parse_args(arguments)
    try:
        _run(experiment, options)
    except (ValueError, OSError) as error:
        print(f"experiments.{experiment.name}: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


def _parser(experiment: Experiment) -> argparse.ArgumentParser:
    """Make the parser of one experiment's options."""
    parser = argparse.ArgumentParser(
        f"python -m experiments.{experiment.name}", description=experiment.title
    )
    add = parser.add_argument
    add(
        "--protocol",
        choices=list(experiment.protocols),
        default="quick",
        help="quick: for a laptop (the default); paper: as the paper did, hours or more",
    )
    add("--out", type=Path, metavar="FOLDER", help="folder of the results; else NAME-PROTOCOL")
    add(
        "--data",
        type=Path,
        metavar="FOLDER",
        help="folder with the data; else SUQUAN_DATA names it",
    )
    add("--resume", action="store_true", help="go on in a folder that was begun before")
    add(
        "--stage",
        choices=["all", *STAGES],
        default="all",
        help="one stage alone, from what the stages before it have written",
    )
    add(
        "--set",
        action="append",
        default=[],
        dest="changes",
        metavar="NAME=VALUE",
        help="another value for a setting, as JSON; may be repeated",
    )
    add("--n-jobs", type=int, default=-1, metavar="N", help="processes; -1: all cores")
    add("--quiet", "-q", action="store_true", help="say nothing but errors")
    if experiment.takes_arrays:
        add(
            "--cel",
            type=Path,
            action="append",
            metavar="FOLDER",
            help="folder of CEL files, instead of --data; may be repeated",
        )
        add(
            "--clinical",
            type=Path,
            action="append",
            metavar="FILE",
            help="table with one row per CEL file; one per --cel",
        )
        add(
            "--cdf",
            type=Path,
            action="append",
            metavar="FILE",
            help="layout of the chip; one for all --cel, or each",
        )
    return parser  # fmt: skip


def _run(experiment: Experiment, options: argparse.Namespace) -> None:
    """Run the stages: parts, tables, figures and report."""
    name, protocol, data = experiment.name, options.protocol, options.data
    folder = options.out or Path(f"{name}-{protocol}")
    say = (lambda line: None) if options.quiet else print
    arrays = {key: getattr(options, key, None) or [] for key in ARRAYS}
    _check_paths(folder, {"data": [data] if data else []} | arrays)
    if options.stage in ("all", "run"):
        changes = _parsed(options.changes)
        changes |= {key: [str(path) for path in paths] for key, paths in arrays.items() if paths}
        settings = make_settings(experiment, protocol, changes)
        if experiment.check is not None:
            experiment.check(settings, data)
        tasks = experiment.tasks(settings, data)
        open_folder(experiment, settings, protocol, folder, resume=options.resume)
        left = undone(tasks, folder)
        say(
            f"{name}, protocol {protocol}: {len(left)} of {len(tasks)} parts to do, kept in {folder}"
        )
        part = partial(_run_part, name, settings, data, folder)
        _run_parts(part, left, experiment.parts_in_parallel, options.n_jobs, not options.quiet)
    else:
        settings, protocol = read_settings(experiment, folder)
    if options.stage in ("all", "table"):
        paths = make_tables(experiment, settings, experiment.tasks(settings, data), folder)
        say(f"tables: {', '.join(path.name for path in paths)} in {folder}")
    if options.stage in ("all", "plot"):
        figures = make_figures(experiment, settings, folder)
        say(f"figures: {', '.join(path.name for path in figures)}")
        command = _command(experiment, settings, protocol)
        say(f"report: {make_report(experiment, settings, folder, command)}")


def _check_paths(folder: Path, inputs: dict[str, list[Path]]) -> None:
    """Refuse inputs that do not exist, and a folder of results that is one of them."""
    for key, paths in inputs.items():
        for path in paths:
            if not path.exists():
                raise ValueError(f"{path} does not exist; check --{key}.")
            if folder.exists() and folder.samefile(path):
                raise ValueError(f"{folder} is an input too; give another folder with --out.")


def _parsed(changes: Sequence[str]) -> dict[str, Any]:
    """Read settings given as NAME=VALUE, values as JSON or plain words."""
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


def _command(experiment: Experiment, settings: Any, protocol: str) -> str:
    """Write the command that gives the same results."""
    usual = asdict(experiment.protocols[protocol])
    changed = [
        f"--set {key}={shlex.quote(json.dumps(value))}"
        for key, value in asdict(settings).items()
        if value != usual[key]
    ]
    command = ["python -m", f"experiments.{experiment.name}", "--protocol", protocol, *changed]
    return " ".join(command)


def _run_parts(
    part: Any, tasks: Sequence[Task], in_parallel: bool, n_jobs: int, shown: bool
) -> None:
    """Do the parts; those that are done stay when the work is interrupted."""
    jobs = effective_n_jobs(n_jobs)
    outside, inside = (jobs, 1) if in_parallel else (1, jobs)
    work = Parallel(n_jobs=outside, return_as="generator_unordered", pre_dispatch="n_jobs")
    done = 0
    try:
        with Progress(len(tasks), shown) as progress:
            for finished in work(delayed(part)(task, inside) for task in tasks):
                done += 1
                progress.advance(finished)
    except KeyboardInterrupt:
        print(
            f"{done} of {len(tasks)} parts were done now and are kept; --resume goes on there",
            file=sys.stderr,
        )
        raise


def _run_part(
    name: str, settings: Any, data: Path | None, folder: Path, task: Task, n_jobs: int
) -> str:
    """Do one part, in any process: an experiment holds functions, so its name travels."""
    experiment = import_module(f"{__package__}.{name}").EXPERIMENT
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of single fits; the grids reach far on purpose
        return run_task(experiment, settings, data, folder, task, n_jobs)
