"""Figure 1: samples with a normal target, shown with another; how much of the damage is undone?"""

from __future__ import annotations

from ..stages import Experiment
from .plot import figures
from .report import sections
from .run import run, tasks
from .settings import PROTOCOLS
from .table import tables

EXPERIMENT = Experiment(
    name="simulated",
    title="Simulated data (the paper's Figure 1)",
    protocols=PROTOCOLS,
    tasks=tasks,
    run=run,
    tables=tables,
    figures=figures,
    sections=sections,
)
