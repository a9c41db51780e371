"""Several targets at once: on pictures, on simulated samples of rank one and three, on expression sets."""

from __future__ import annotations

from ..stages import Experiment
from .plot import figures
from .report import sections
from .run import run, tasks
from .settings import PROTOCOLS
from .table import tables

EXPERIMENT = Experiment(
    name="several",
    title="Several targets at once (the paper's sections 4 and 7)",
    protocols=PROTOCOLS,
    tasks=tasks,
    run=run,
    tables=tables,
    figures=figures,
    sections=sections,
)
