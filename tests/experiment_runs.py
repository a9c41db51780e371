"""Runs of experiments as by ``python -m experiments.NAME``, in this process, for the tests of them."""

import csv
import json
from contextlib import redirect_stderr, redirect_stdout
from importlib import import_module
from io import StringIO
from typing import NamedTuple

from experiments.command import main


class Run(NamedTuple):
    """What came out of a run."""

    code: int
    out: str
    err: str


def run(name, *arguments, **settings):
    """Run an experiment on one process; `settings` become ``--set NAME=VALUE``."""
    words = [f"--set={key}={json.dumps(value)}" for key, value in settings.items()]
    words += ["--n-jobs=1", *map(str, arguments)]
    experiment = import_module(f"experiments.{name}").EXPERIMENT
    with redirect_stdout(StringIO()) as out, redirect_stderr(StringIO()) as err:
        try:
            code = main(experiment, words)
        except SystemExit as end:
            code = end.code
    return Run(code, out.getvalue(), err.getvalue())


def rows(path):
    """Rows of a CSV file as texts."""
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))
