"""Train on one platform, test on another: breast cancer subtypes by microarray and by RNA-seq."""

from __future__ import annotations

from ..stages import Experiment
from .data import check
from .report import figures, sections
from .run import PROTOCOLS, run, tables, tasks

EXPERIMENT = Experiment(
    name="platforms",
    title="Train on one platform, test on another",
    protocols=PROTOCOLS,
    tasks=tasks,
    run=run,
    tables=tables,
    figures=figures,
    sections=sections,
    check=check,
    subtitle="METABRIC (microarray), TCGA and SCAN-B (RNA-seq)",
)
