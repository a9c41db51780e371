"""Fitted attributes of an estimator in, a ModelFileError where those used in predictions do not fit each other.

Model files are checked so before they are written and after they are read: compiled loops trust these shapes.
"""

from typing import Any

import numpy as np

from suquan.files.model_zip import require
from suquan.methods import METHODS
from suquan.ranking import MISSING, TIES

# A letter per axis, with one target and with several; axes with the same letter have the same length.
_SHAPES = {
    "target_quantiles_": ("p", "sp"),
    "target_knots_": ("n", "tn"),
    "coef_": ("kp", "kc"),
    "intercept_": ("k", "k"),
    "feature_names_in_": ("p", "p"),
    "feature_means_": ("p", "kp"),
    "feature_variances_": ("p", "kp"),
    "baseline_strata_": ("b", "b"),
    "baseline_times_": ("b", "b"),
    "baseline_hazards_": ("b", "b"),
}
# The same for attributes that are dicts, by their "kind".
_DICTS: dict[str, dict[Any, dict[str, str]]] = {
    "training_ranks_": {None: {"profile": "p", "correlations": "q", "ties": ""}},
    "calibration_": {
        "sigmoid": {"slope": "", "intercept": ""},
        "isotonic": {"scores": "i", "probabilities": "i"},
        "temperature": {"temperature": ""},
    },
}


def check_fitted_attributes(estimator: Any) -> None:
    """Raise a ModelFileError where attributes that predictions use do not fit each other."""
    given = {"target_quantiles_": None} | vars(estimator)
    if is_model := hasattr(estimator, "predict"):
        given = {"coef_": None, "intercept_": None, "target_knots_": None} | given
    p, inner = given.get("n_features_in_"), given.get("estimator_")
    m = getattr(estimator if inner is None else inner, "n_targets_", None)
    k = _n_outputs(given) if hasattr(estimator, "predict_proba") else 1
    for name, fits in {
        "n_features_in_": type(p) is int and p > 0,
        "n_targets_": m is None or (type(m) is int and m > 0),
        "estimator_": inner is None or (hasattr(inner, "coef_") and inner.n_features_in_ == p),
        "ties": given["ties"] in TIES,
        "missing": given["missing"] in MISSING,
        "method": not is_model or given.get("method_", given["method"]) in tuple(METHODS),
        "loss": isinstance(given.get("loss", "auto"), str),
    }.items():
        _check(fits, name, given.get(name))
    sizes = {"p": p, "c": p * (m or 1), "k": k, "q": 3} | ({} if m is None else {"t": m})
    for name, axes in _SHAPES.items():
        if name in given:
            is_text = name in ("feature_names_in_", "baseline_strata_")
            numbers = np.ones(np.shape(given[name])) if is_text else given[name]
            _check(_fits(numbers, axes[m is not None], sizes), name, given[name])
    for name, kinds in _DICTS.items():
        if (held := given.get(name)) is not None:
            wanted = kinds.get(held.get("kind"), {}) if isinstance(held, dict) else {}
            fits = wanted and wanted.keys() == held.keys() - {"kind"}
            fits = fits and ("temperature" in wanted) == (k > 2 and name == "calibration_")
            may_lack = np.nan_to_num if name == "training_ranks_" else np.asarray
            fits = fits and all(_fits(may_lack(held[key]), wanted[key], sizes) for key in wanted)
            _check(fits, name, held)


def _fits(value: Any, axes: str, sizes: dict[str, int]) -> bool:
    """Whether these are finite float64 with these axes; `sizes` learns the lengths of new ones."""
    array = np.asarray(value)
    is_number = isinstance(value, np.ndarray | float) and array.dtype == np.float64
    return (
        is_number
        and array.ndim == len(axes)
        and all(sizes.setdefault(axes[i], n) == n > 0 for i, n in enumerate(array.shape))
        and bool(np.isfinite(array).all())
    )


def _n_outputs(given: dict[str, Any]) -> int:
    """Rows of the coefficients of a classifier: one per class, or one alone for two classes."""
    classes = given.get("classes_")
    n_classes = len(classes) if isinstance(classes, np.ndarray) and classes.ndim == 1 else 0
    _check(n_classes >= 2, "classes_", classes)
    return n_classes if n_classes > 2 or np.shape(given["coef_"])[:1] == (2,) else 1


def _check(condition: Any, name: str, value: Any) -> None:
    came = f"{value.dtype} of shape {value.shape}" if isinstance(value, np.ndarray) else repr(value)
    require(condition, f"{name} does not fit the model: {' '.join(came.split())}")
