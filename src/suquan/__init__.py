"""Supervised quantile normalisation.

Quantile normalisation gives every sample the same distribution of values, the target. The target may be
given (a name, a distribution, a vector), taken from the samples (their mean or median), or learned together
with the linear model that uses the normalised samples.
"""

import importlib
from typing import TYPE_CHECKING, Any

from suquan._version import __version__

if TYPE_CHECKING:
    from suquan.alignment import align_features
    from suquan.comparison import compare
    from suquan.cox_model import SuquanCox, SuquanCoxCV
    from suquan.linear_model import SuquanClassifier, SuquanRegressor
    from suquan.model_selection import SuquanClassifierCV, SuquanRegressorCV
    from suquan.persistence import load_model, save_model
    from suquan.preprocessing import (
        QuantileNormalizer,
        SupervisedQuantileNormalizer,
        quantile_normalize,
    )
    from suquan.ranking import permutation_matrix, rank_samples
    from suquan.sample_checks import check_samples
    from suquan.targets import make_target_quantiles

__all__ = [
    "QuantileNormalizer",
    "SupervisedQuantileNormalizer",
    "SuquanClassifier",
    "SuquanClassifierCV",
    "SuquanCox",
    "SuquanCoxCV",
    "SuquanRegressor",
    "SuquanRegressorCV",
    "__version__",
    "align_features",
    "check_samples",
    "compare",
    "load_model",
    "make_target_quantiles",
    "permutation_matrix",
    "quantile_normalize",
    "rank_samples",
    "save_model",
]

# Where the public names live. They are loaded when first asked for, so that `suquan --help` need not wait
# for NumPy and Numba.
_HOMES = {
    "alignment": ("align_features",),
    "comparison": ("compare",),
    "cox_model": ("SuquanCox", "SuquanCoxCV"),
    "linear_model": ("SuquanClassifier", "SuquanRegressor"),
    "model_selection": ("SuquanClassifierCV", "SuquanRegressorCV"),
    "persistence": ("load_model", "save_model"),
    "preprocessing": ("QuantileNormalizer", "SupervisedQuantileNormalizer", "quantile_normalize"),
    "ranking": ("permutation_matrix", "rank_samples"),
    "sample_checks": ("check_samples",),
    "targets": ("make_target_quantiles",),
}
_MODULES = {name: module for module, names in _HOMES.items() for name in names}
_SUBMODULES = {
    *(home for home in _HOMES if not home.startswith("_")),
    "cox_loss",
    "datasets",
    "io",
    "kernels",
    "losses",
    "methods",
    "microarray",
    "plotting",
    "prox",
    "report",
    "statistics",
    "streaming",
    "survival",
    "target_sets",
}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        value = getattr(importlib.import_module(f"suquan.{_MODULES[name]}"), name)
        globals()[name] = value
        return value
    if name in _SUBMODULES:
        return importlib.import_module(f"suquan.{name}")
    raise AttributeError(f"module 'suquan' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*__all__, *_SUBMODULES})
