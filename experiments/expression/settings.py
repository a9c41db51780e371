"""Settings of the expression experiment."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Settings:
    """Data sets, folds and grids.

    Attributes
    ----------
    datasets : tuple of str
        Names of files in the folder of the data, without their endings: ``.npz`` with `X` and `y` (or, for raw
        probes, `pm`, `probeset` and `y`), a table with a column `label`, or a GEO accession of the paper.
    outer_folds, outer_repeats, inner_folds, inner_repeats : int
    alphas, smoothnesses : tuple of float
        Grids in units of the number of features; the paper's are 5·10⁻¹⁰ … 5·10⁻⁴ and 5·10⁻⁵ … 0.5.
    n_knots : int
        Knots of the learned targets; 0: one per feature, as in the paper.
    label : str
        Column of the labels, in tables.
    """

    datasets: tuple[str, ...] = (
        "breast_nki295",
        "breast_gse3143",
        "breast_sotiriou99",
        "breast_veer78",
        "breast_biospear614",
        "breast_vdx150",
        "dlbcl_chop414",
    )
    outer_folds: int = 3
    outer_repeats: int = 5
    inner_folds: int = 3
    inner_repeats: int = 5
    alphas: tuple[float, ...] = tuple(10.0**k for k in range(-9, 0))
    smoothnesses: tuple[float, ...] = (0.0, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0)
    n_knots: int = 0
    label: str = "label"


PROTOCOLS = {
    "paper": Settings(),
    "quick": Settings(
        outer_repeats=2,
        inner_repeats=2,
        alphas=(1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1),
        smoothnesses=(0.0, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1),
        n_knots=30,
    ),
}
