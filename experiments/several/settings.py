"""Settings of the experiment on several targets."""

from __future__ import annotations

from dataclasses import dataclass

from sklearn.model_selection import StratifiedShuffleSplit

FIXED = ("median", "uniform", "normal", "exponential", "cauchy")
# Of one target or none, with the grid `alphas`.
ONE_TARGET = ("raw", *FIXED, "bnd", "f0")
STUDIES = ("simulation", "knots", "sizes", "pairs", "expression")

# Number of pictures that the grids are for.
N_GRID = 10_000


@dataclass(frozen=True)
class Settings:
    """Studies, sizes and grids.

    Attributes
    ----------
    studies : tuple of str
        Those of "simulation", "knots" (pictures over the knots of the targets), "sizes" (pictures over their
        number), "pairs" (pictures, many pairs of classes) and "expression" that are done, in this order.
    targets : tuple of int
        Numbers of targets of "multi".
    pairs, size_pairs : int
        Pairs of classes of "pairs", and of "sizes" and "knots": neighbours in the list of classes first, so
        that nine pairs hold every class.
    knots : tuple of int
        Numbers of knots in "knots", with `knots_size` training pictures of both classes together.
    knots_size : int
    sizes : tuple of int
        Training pictures of both classes together in "sizes"; "pairs" has 2·`n_train` of them.
    n_train, n_test : int
        Pictures per class, the first ones; at most 5,000 and 1,000.
    inner_splits, simulated_splits : int
        Splits of 4,000 or more training pictures and of simulated samples by which alpha and the number of
        targets are chosen: three quarters against one. Fewer pictures have up to five times as many splits.
    max_rounds : int
        Of "multi".
    alphas, trace_alphas, matrix_alphas, grey_alphas : tuple of float
        Grids on 10,000 pictures: one target or none, "multi", "matrix", curves over grey values. With n
        pictures squared norms are weighed 10,000/n times as much, trace norms √(10,000/n) times.
    one_knots, n_knots, simulated_knots : int
        Knots of a single target on pictures; of "multi" and "matrix" on them, and on simulated samples (32 by
        the test AUC of 16, 32 and 64 on the first draw of rank one, which is therefore no fair test; the
        package's default runs beside it there).
    seeds : int
        Draws of the simulations.
    simulated : tuple of (n_samples, n_features)
        Sizes of the problem of rank three.
    rank_one : (n_samples, n_features)
        Size of the problem of rank one.
    n_alphas, n_smoothnesses : int
        Sizes of the automatic grids on simulated samples and expression sets.
    datasets : tuple of str
        Expression sets.
    outer_repeats : int
        Repetitions of the three outer folds on them.
    """

    studies: tuple[str, ...] = STUDIES
    targets: tuple[int, ...] = (1, 2, 3, 5)
    pairs: int = 45
    size_pairs: int = 10
    sizes: tuple[int, ...] = (500, 2000, 10000)
    knots: tuple[int, ...] = (8, 16, 32)
    knots_size: int = 2000
    n_train: int = 5000
    n_test: int = 1000
    inner_splits: int = 3
    simulated_splits: int = 3
    max_rounds: int = 100
    alphas: tuple[float, ...] = (0.0001, 0.001, 0.01, 0.1, 1.0, 10.0)
    trace_alphas: tuple[float, ...] = (0.03, 0.06, 0.12, 0.25, 0.5)
    matrix_alphas: tuple[float, ...] = (0.0025, 0.01, 0.04, 0.16, 0.64, 2.5)
    grey_alphas: tuple[float, ...] = (0.03, 0.06, 0.12, 0.25, 0.5)
    one_knots: int = 128
    n_knots: int = 16
    simulated_knots: int = 32
    seeds: int = 10
    simulated: tuple[tuple[int, int], ...] = ((500, 150), (2000, 150), (5000, 150))
    rank_one: tuple[int, int] = (2000, 1000)
    n_alphas: int = 7
    n_smoothnesses: int = 5
    datasets: tuple[str, ...] = (
        "breast_nki295",
        "breast_gse3143",
        "breast_sotiriou99",
        "breast_veer78",
        "breast_biospear614",
        "breast_vdx150",
        "dlbcl_chop414",
    )
    outer_repeats: int = 5

    def splits(self, n: int) -> StratifiedShuffleSplit:
        """Inner splits of n pictures."""
        n_splits = self.inner_splits * min(5, -(-4000 // n))
        return StratifiedShuffleSplit(n_splits, test_size=0.25, random_state=0)

    def grid(self, name: str, n: int) -> list[float]:
        """Strengths of a grid for n pictures."""
        power = 0.5 if name in ("trace_alphas", "grey_alphas") else 1.0
        return [alpha * (N_GRID / n) ** power for alpha in getattr(self, name)]


PROTOCOLS = {
    "paper": Settings(),
    # Further rounds change the third digit of the AUC at most, and the least strengths take longest.
    "quick": Settings(
        inner_splits=1,
        max_rounds=6,
        seeds=5,
        outer_repeats=1,
        alphas=(0.001, 0.01, 0.1, 1.0, 10.0, 100.0),
        trace_alphas=(0.04, 0.08, 0.16, 0.32, 0.64),
        matrix_alphas=(0.04, 0.16, 0.64, 2.5, 10.0),
        grey_alphas=(0.04, 0.08, 0.16, 0.32, 0.64),
    ),
}
