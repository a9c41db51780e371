"""Affymetrix microarrays from CEL files to expression: RMA, with the usual target or any other."""

from suquan.microarray._cdf import Cdf, probe_intensities, read_cdf
from suquan.microarray._cel import Cel, read_cel
from suquan.microarray._files import MicroarrayFileError
from suquan.microarray._rma import background_correct, median_polish, rma

__all__ = [
    "Cdf", "Cel", "MicroarrayFileError", "background_correct", "median_polish",
    "probe_intensities", "read_cdf", "read_cel", "rma",
]  # fmt: skip
