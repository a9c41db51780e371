"""Simulated samples to try the methods on, and readers of the data sets of the paper."""

from suquan.datasets._cifar10 import load_cifar10
from suquan.datasets._geo import load_geo
from suquan.datasets._simulators import (
    make_corrupted_classification,
    make_corrupted_survival,
    make_distorted_samples,
    make_several_targets_classification,
    skewed_mixture,
    two_steps,
)

__all__ = [
    "load_cifar10", "load_geo", "make_corrupted_classification", "make_corrupted_survival",
    "make_distorted_samples", "make_several_targets_classification", "skewed_mixture", "two_steps",
]  # fmt: skip
