"""The protocol of Jiao & Vert (2017) on three sets, with their published accuracies beside ours."""

from __future__ import annotations

from ..stages import Experiment
from .report import figures, sections
from .run import PROTOCOLS, check, run, tables, tasks

EXPERIMENT = Experiment(
    name="kendall",
    title="Kendall kernels and learned targets on three sets",
    protocols=PROTOCOLS,
    tasks=tasks,
    run=run,
    tables=tables,
    figures=figures,
    sections=sections,
    check=check,
    subtitle="The protocol of Jiao & Vert (2017), published accuracies beside ours",
)
