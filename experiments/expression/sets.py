"""What the seven public sets are, for Table 1; from the descriptions that came with the files."""

from __future__ import annotations

# Platform, endpoint of the positive class, preprocessing of the values as they came.
ABOUT = {
    "breast_nki295": (
        "Agilent, two colours",
        "distant metastasis within 6 years",
        "log10 ratios, cut at ±2",
    ),
    "breast_gse3143": ("Affymetrix HG-U95Av2", "death within 5 years", "log2, by gene"),
    "breast_sotiriou99": (
        "spotted cDNA",
        "relapse within 6 years",
        "log ratios, centred by array",
    ),
    "breast_veer78": (
        "Agilent, two colours",
        "distant metastasis within 5 years",
        "log10 ratios",
    ),
    "breast_biospear614": (
        "Affymetrix U133",
        "distant relapse within 3 years",
        "chosen probe sets, standardised by gene, trials pooled",
    ),
    "breast_vdx150": (
        "Affymetrix HG-U133A",
        "distant metastasis within 6 years",
        "log2 of MAS5-like values, chosen probe sets",
    ),
    "dlbcl_chop414": (
        "Affymetrix HG-U133 Plus 2",
        "death within 3 years",
        "log2, chosen probe sets, treatments pooled",
    ),
}
# Sets whose patients are part of another one; of the two the larger counts in averages and tests.
PART_OF = {"breast_veer78": "breast_nki295"}


def counted(names: list[str]) -> list[str]:
    """Sets that count in averages and tests: no patient of one is in another."""
    return [name for name in names if PART_OF.get(name) not in names]
