"""Settings of the experiment on times to event."""

from __future__ import annotations

from dataclasses import dataclass

FIXED = ("median", "normal", "uniform", "exponential", "cauchy")
# Time up to which an event counts, in the unit of each set, by which its label was made.
HORIZONS = {
    "breast_vdx150": 2190.0,
    "breast_nki295": 6.0,
    "breast_gse3143": 60.0,
    "breast_veer78": 60.0,
    "breast_sotiriou99": 2190.0,
    "breast_biospear614": 3.0,
    "breast_gse7390_76": 2190.0,
    "dlbcl_chop414": 3.0,
    "rnaseq_scanb400": None,  # its label is no event
}
# True targets of the simulation: learning can help with the first, and not with the others.
TRUTHS = ("extremes", "uniform", "normal")


@dataclass(frozen=True)
class Settings:
    """Sets, folds, grids and draws.

    Attributes
    ----------
    datasets : tuple of str
        Sets with times and events.
    fixed : tuple of str
        Fixed targets; "raw" and "crossfit" are always compared.
    outer_repeats, inner_repeats : int
        Repetitions of the three outer and of the three inner folds.
    n_alphas, n_smoothnesses : int
    n_knots : int
        Fewer where a set has fewer features.
    truths : tuple of str
        True targets of the simulation.
    sizes : tuple of int
        Its numbers of samples.
    n_features, seeds : int
        Its features, and draws of each size.
    strength, censored : float
        Standard deviation of its log-hazard, and the share of censored samples.
    """

    datasets: tuple[str, ...] = tuple(HORIZONS)
    fixed: tuple[str, ...] = FIXED
    outer_repeats: int = 5
    inner_repeats: int = 5
    n_alphas: int = 7
    n_smoothnesses: int = 5
    n_knots: int = 60
    truths: tuple[str, ...] = TRUTHS
    sizes: tuple[int, ...] = (200, 400)
    n_features: int = 60
    seeds: int = 20
    strength: float = 1.5
    censored: float = 0.6


PROTOCOLS = {
    "paper": Settings(),
    "quick": Settings(
        fixed=("median", "normal", "uniform"), outer_repeats=2, inner_repeats=1, n_alphas=5,
        n_smoothnesses=3, seeds=8,
    ),
}  # fmt: skip
