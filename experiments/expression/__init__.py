"""Tables 1 and 2 and Figure 4: prognosis from gene expression."""

from __future__ import annotations

from ..stages import Experiment
from .plot import figures
from .report import sections
from .run import check, run, tasks
from .settings import PROTOCOLS
from .table import tables

EXPERIMENT = Experiment(
    name="expression",
    title="Prognosis from gene expression (the paper's Tables 1 and 2 and Figure 4)",
    protocols=PROTOCOLS,
    tasks=tasks,
    run=run,
    tables=tables,
    figures=figures,
    sections=sections,
    check=check,
    parts_in_parallel=False,  # each data set uses all processes itself, fold by fold
    takes_arrays=True,
)
