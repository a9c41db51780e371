"""Settings of the CIFAR-10 experiment."""

from __future__ import annotations

from dataclasses import dataclass

FIXED = ("median", "uniform", "normal", "exponential", "cauchy")
PAPER = ("raw", *FIXED, "svd", "f0", "bnd", "spav")
OURS = ("joint", "crossfit")
METHODS = (*PAPER, *OURS, "f0_rounds", "svd_f0_rounds")


def grid_names(method: str) -> dict[str, str]:
    """The settings that hold a method's grids, by penalty."""
    prefix = "" if method in OURS else "paper_"
    names = {"alpha": f"{prefix}alphas"}
    if method in ("spav", *OURS):
        names["smoothness"] = f"{prefix}smoothnesses"
    return names


@dataclass(frozen=True)
class Settings:
    """Pairs, folds and grids.

    Attributes
    ----------
    classes : int
        The first so many of the ten classes.
    pairs : int
        How many of their pairs are done: neighbours in the list of classes first, so that nine pairs hold every
        class.
    methods : tuple of str
    n_train, n_test : int
        Pictures per class, the first ones; at most 5,000 and 1,000.
    inner_folds, inner_repeats : int
    paper_alphas, paper_smoothnesses : tuple of float
        Grids of the paper's methods (svd, f0, bnd, spav, fixed targets, raw).
    alphas, smoothnesses : tuple of float
        Grids of joint and crossfit.
    n_knots : int
        Knots of the learned targets; 0: one per pixel, as in the paper.
    rounds : int
        Of joint, and of f0 where it has several.
    partitions : int
        Stacked in crossfit.
    small_pairs : int
        Pairs on which ties are compared, and smoothness of spav is varied.
    spav_smoothnesses : tuple of float
        For the latter.
    """

    classes: int = 10
    pairs: int = 45
    methods: tuple[str, ...] = METHODS
    n_train: int = 5000
    n_test: int = 1000
    inner_folds: int = 3
    inner_repeats: int = 5
    paper_alphas: tuple[float, ...] = tuple(10.0**k for k in range(-5, 6))
    paper_smoothnesses: tuple[float, ...] = tuple(10.0**k for k in range(5))
    alphas: tuple[float, ...] = tuple(10.0**k for k in range(-3, 2))
    smoothnesses: tuple[float, ...] = (0.0, 0.01, 0.1, 1.0)
    n_knots: int = 0
    rounds: int = 5
    partitions: int = 3
    small_pairs: int = 5
    spav_smoothnesses: tuple[float, ...] = (
        0.0,
        0.001,
        0.01,
        0.1,
        1.0,
        10.0,
        100.0,
        1000.0,
        10000.0,
    )


PROTOCOLS = {
    # The paper's grids and folds and one target value per pixel take minutes a pair for a method: its own
    # one-round methods on nine pairs.
    "paper": Settings(pairs=9, methods=("raw", *FIXED, "svd", "bnd"), small_pairs=0),
    # Penalties at the ends of these grids are not chosen; smoothness 0 is the smallest there is.
    "quick": Settings(
        inner_repeats=1,
        paper_alphas=(0.01, 0.1, 1.0, 10.0, 100.0),
        paper_smoothnesses=(0.0, 0.0001, 0.001, 0.01),
        alphas=(0.01, 0.1, 1.0, 10.0),
        smoothnesses=(0.0, 0.0001, 0.001, 0.01, 0.1),
        n_knots=128,
        partitions=1,
    ),
}
