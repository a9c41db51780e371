"""Settings of the simulated experiment."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Settings:
    """Sizes, seeds and grids.

    Attributes
    ----------
    n_features, n_test : int
    n_samples : tuple of int
        Training samples, the axis of the curves.
    seeds : int
        Draws of samples, w and labels at each of `n_samples`.
    corruptions : tuple of str
    inner_folds, inner_repeats : int
    single_from : int
        Training samples from which on the inner folds are not repeated, which would take five times as long.
    alphas, smoothnesses : tuple of float
        Grids of the paper's methods; ours use the automatic ones.
    small_smoothnesses : tuple of float
        Smaller ones for SPAV: the paper does not give the unit of its grid.
    n_alphas, n_smoothnesses : int
        Sizes of the automatic grids.
    start_seeds : int
        Draws in which crossfit also starts from the corrupted target, at the largest `n_samples`.
    round_samples : tuple of int
        Training samples of the curves over rounds.
    round_seeds, max_rounds : int
    """

    n_features: int = 1000
    n_test: int = 1000
    n_samples: tuple[int, ...] = (100, 200, 500, 1000, 2000)
    seeds: int = 10
    corruptions: tuple[str, ...] = ("cauchy", "exponential", "uniform", "bimodal")
    inner_folds: int = 3
    inner_repeats: int = 5
    single_from: int = 500
    alphas: tuple[float, ...] = tuple(10.0**k for k in range(-5, 6))
    smoothnesses: tuple[float, ...] = tuple(10.0**k for k in range(5))
    small_smoothnesses: tuple[float, ...] = tuple(10.0**k for k in range(-5, 0))
    n_alphas: int = 7
    n_smoothnesses: int = 5
    start_seeds: int = 1
    round_samples: tuple[int, ...] = (2000,)
    round_seeds: int = 1
    max_rounds: int = 8

    def repeats(self, n: int) -> int:
        """How often the inner folds of n training samples are drawn."""
        return 1 if n >= self.single_from else self.inner_repeats


PROTOCOLS = {
    "paper": Settings(),
    "quick": Settings(
        n_samples=(200, 500, 1000),
        seeds=1,
        inner_repeats=1,
        start_seeds=1,
        round_samples=(500,),
        round_seeds=1,
        max_rounds=5,
    ),
}
