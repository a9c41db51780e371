"""Calibrated probabilities against uncalibrated ones and a logistic regression chosen by its log loss."""

from __future__ import annotations

from ..stages import Experiment
from .report import figures, sections
from .run import PROTOCOLS, run, tables, tasks

EXPERIMENT = Experiment(
    name="calibration",
    title="Probabilities that mean something",
    protocols=PROTOCOLS,
    tasks=tasks,
    run=run,
    tables=tables,
    figures=figures,
    sections=sections,
    subtitle="Nested folds of public expression sets",
)
