"""Settings of the CIFAR-10 experiment."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Settings:
    """Pairs, folds and grids.

    Attributes
    ----------
    classes : int
        The first so many of the ten classes; all their pairs are done.
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
    "paper": Settings(),
    "quick": Settings(
        inner_repeats=1,
        paper_alphas=(0.01, 0.1, 1.0),
        paper_smoothnesses=(0.01, 0.1),
        alphas=(0.01, 0.1, 1.0),
        smoothnesses=(0.01, 0.1),
        n_knots=128,
        partitions=1,
    ),
}
