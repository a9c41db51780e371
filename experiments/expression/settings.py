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
        Smoothness 0 is left out for the paper's SPAV.
    n_knots : int
        Knots of the learned targets; 0: one per feature, as in the paper. svd runs with one per feature too.
    label, positive : str
        Column of the labels in tables, and in clinical tables the value of the positive class.
    cel, clinical, cdf : tuple of str
        Folders of CEL files, clinical tables and layouts of the chips, in place of `datasets`.
    time, event, horizon : str, str and float
        Columns of a clinical table and a time: the positive class has the event up to then. Instead of `label`.
    sample_column : str
        Column of a clinical table with the names of the samples; empty: the first.
    unmatched : str
        "error": refuse CEL files without clinical row and the reverse; "drop": leave them out.
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
    alphas: tuple[float, ...] = tuple(10.0**k for k in range(-7, 1))
    smoothnesses: tuple[float, ...] = (0.0, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0)
    n_knots: int = 30
    label: str = "label"
    positive: str = "1"
    cel: tuple[str, ...] = ()
    clinical: tuple[str, ...] = ()
    cdf: tuple[str, ...] = ()
    time: str = ""
    event: str = ""
    horizon: float = 0.0
    sample_column: str = ""
    unmatched: str = "error"


PROTOCOLS = {
    "paper": Settings(),
    "quick": Settings(
        outer_repeats=2,
        inner_repeats=2,
        alphas=(1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1),
        smoothnesses=(0.0, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1),
    ),
}
