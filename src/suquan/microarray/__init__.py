"""Affymetrix microarrays from probe intensities to expression: RMA, with the usual target or any other."""

from suquan.microarray._background import background_correct
from suquan.microarray._median_polish import median_polish
from suquan.microarray._rma import rma

__all__ = ["background_correct", "median_polish", "rma"]
