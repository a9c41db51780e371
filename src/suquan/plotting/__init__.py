"""Pictures of fitted models and of comparisons, as scikit-learn's Display objects; they need matplotlib."""

from suquan.plotting._comparison import (
    ComparisonDisplay,
    ReliabilityDisplay,
    RiskGroupDisplay,
    plot_comparison,
)
from suquan.plotting._samples import NormalizedSampleDisplay
from suquan.plotting._targets import FeatureCurveDisplay, ObjectiveDisplay, TargetQuantileDisplay

__all__ = [
    "ComparisonDisplay", "FeatureCurveDisplay", "NormalizedSampleDisplay", "ObjectiveDisplay",
    "ReliabilityDisplay", "RiskGroupDisplay", "TargetQuantileDisplay", "plot_comparison",
]  # fmt: skip
