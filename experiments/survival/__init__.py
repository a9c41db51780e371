"""Times to event: concordance on expression sets, the price of a cut-off, and known hazards."""

from __future__ import annotations

from ..stages import Experiment
from .plot import figures
from .report import sections
from .run import check, run, tasks
from .settings import PROTOCOLS
from .table import tables

EXPERIMENT = Experiment(
    name="survival",
    title="Times to event: Cox's model with a learned target",
    protocols=PROTOCOLS,
    tasks=tasks,
    run=run,
    tables=tables,
    figures=figures,
    sections=sections,
    check=check,
)
