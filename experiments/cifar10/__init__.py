"""Figures 2a, 2b and 3: grey pictures of CIFAR-10, two classes at a time."""

from __future__ import annotations

from ..stages import Experiment
from .plot import figures
from .report import sections
from .run import run, tasks
from .settings import PROTOCOLS
from .table import tables

EXPERIMENT = Experiment(
    name="cifar10",
    title="CIFAR-10, grey, 45 pairs of classes (the paper's Figures 2 and 3)",
    protocols=PROTOCOLS,
    tasks=tasks,
    run=run,
    tables=tables,
    figures=figures,
    sections=sections,
)
