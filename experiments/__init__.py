"""The experiments of Le Morvan & Vert (2017) and others of ours, each staged run → table → plot.

``suquan reproduce NAME`` runs one; :mod:`stages` holds what they share.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

NAMES = (
    "simulated",
    "cifar10",
    "expression",
    "several",
    "calibration",
    "platforms",
    "kendall",
    "survival",
)


def load(name: str) -> Any:
    """The experiment of that name: an :class:`Experiment`."""
    return import_module(f"{__name__}.{name}").EXPERIMENT
