"""Simulated samples to try the methods on."""

from suquan.datasets._simulators import (
    make_corrupted_classification,
    make_distorted_samples,
    skewed_mixture,
    two_steps,
)

__all__ = [
    "make_corrupted_classification",
    "make_distorted_samples",
    "skewed_mixture",
    "two_steps",
]
