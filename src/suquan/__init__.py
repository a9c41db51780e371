"""Supervised quantile normalisation.

Quantile normalisation gives every sample the same distribution of values, the target. The target may be
given (a name, a distribution, a vector), taken from the samples (their mean or median), or learned together
with the linear model that uses the normalised samples.
"""

from suquan._version import __version__
from suquan.alignment import align_features
from suquan.comparison import compare
from suquan.linear_model import SuquanClassifier, SuquanRegressor
from suquan.model_selection import SuquanClassifierCV, SuquanRegressorCV
from suquan.persistence import load_model, save_model
from suquan.preprocessing import (
    QuantileNormalizer,
    SupervisedQuantileNormalizer,
    quantile_normalize,
)
from suquan.ranking import permutation_matrix, rank_samples
from suquan.targets import make_target_quantiles

__all__ = [
    "QuantileNormalizer",
    "SupervisedQuantileNormalizer",
    "SuquanClassifier",
    "SuquanClassifierCV",
    "SuquanRegressor",
    "SuquanRegressorCV",
    "__version__",
    "align_features",
    "compare",
    "load_model",
    "make_target_quantiles",
    "permutation_matrix",
    "quantile_normalize",
    "rank_samples",
    "save_model",
]
