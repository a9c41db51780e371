"""Fitted attributes of an estimator in, a ModelFileError where those used in predictions do not fit each other.

Model files are checked so before they are written and after they are read: compiled loops trust these shapes.
"""

from typing import Any

import numpy as np

from suquan._model_zip import require
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
_RANKS = {"profile": "p", "correlations": "q", "ties": ""}
_CALIBRATIONS = {
    "sigmoid": {"slope": "", "intercept": ""},
    "isotonic": {"scores": "i", "probabilities": "i"},
    "temperature": {"temperature": ""},
}


def check_fitted_attributes(estimator: Any) -> None:
    """Raise a ModelFileError where attributes that predictions use do not fit each other."""
    given = {"target_quantiles_": None} | vars(estimator)
    p, inner = given.get("n_features_in_"), given.get("estimator_")
    _check(type(p) is int and p > 0, "n_features_in_", p)
    _check(given["ties"] in TIES, "ties", given["ties"])
    _check(given["missing"] in MISSING, "missing", given["missing"])
    is_model = inner is None or (hasattr(inner, "coef_") and inner.n_features_in_ == p)
    _check(is_model, "estimator_", inner)
    m = getattr(estimator if inner is None else inner, "n_targets_", None)
    _check(m is None or (type(m) is int and m > 0), "n_targets_", m)
    sizes = {"p": p, "c": p * (m or 1), "q": 3} | ({} if m is None else {"t": m})
    if hasattr(estimator, "predict"):
        method = given.get("method_", given["method"])
        _check(isinstance(method, str) and method in METHODS, "method", method)
        _check(isinstance(given.get("loss", "auto"), str), "loss", given.get("loss"))
        given = {"coef_": None, "intercept_": None, "target_knots_": None} | given
        sizes["k"] = _n_outputs(estimator, given["coef_"])
    for name in [name for name in _SHAPES if name in given]:
        is_text = name in ("feature_names_in_", "baseline_strata_")
        fits = _fits(given[name], _SHAPES[name][m is not None], sizes, is_number=not is_text)
        _check(fits, name, given[name])
    if (ranks := given.get("training_ranks_")) is not None:
        fits = isinstance(ranks, dict) and ranks.keys() == _RANKS.keys()
        fits = fits and all(_fits(ranks[key], _RANKS[key], sizes, is_finite=False) for key in ranks)
        _check(fits, "training_ranks_", ranks)
    if (found := given.get("calibration_")) is not None:
        kind = str(found.get("kind")) if isinstance(found, dict) else ""
        axes = _CALIBRATIONS.get(kind, {})
        fits = kind in _CALIBRATIONS and found.keys() == {"kind", *axes}
        fits = fits and (kind == "temperature") == (sizes.get("k", 1) > 2)
        fits = fits and all(_fits(found[key], axes[key], sizes) for key in axes)
        _check(fits, "calibration_", found)


def _fits(
    value: Any,
    axes: str,
    sizes: dict[str, int],
    *,
    is_number: bool = True,
    is_finite: bool = True,
) -> bool:
    """Whether an array, or without axes a number, has these axes; `sizes` learns their lengths."""
    if not isinstance(value, np.ndarray if axes else float) or np.ndim(value) != len(axes):
        return False
    agrees = [
        n > 0 and sizes.setdefault(axis, n) == n
        for axis, n in zip(axes, np.shape(value), strict=True)
    ]
    is_float = not is_number or np.asarray(value).dtype == np.float64
    return (
        all(agrees)
        and is_float
        and (not (is_number and is_finite) or bool(np.isfinite(value).all()))
    )


def _n_outputs(model: Any, coef: Any) -> int:
    """Rows of the coefficients: one per class, or one alone for two classes and for values."""
    if not hasattr(model, "predict_proba"):
        return 1
    classes = getattr(model, "classes_", None)
    n_classes = len(classes) if isinstance(classes, np.ndarray) and classes.ndim == 1 else 0
    _check(n_classes >= 2, "classes_", classes)
    return n_classes if n_classes > 2 or np.shape(coef)[:1] == (2,) else 1


def _check(condition: Any, name: str, value: Any) -> None:
    came = f"{value.dtype} of shape {value.shape}" if isinstance(value, np.ndarray) else repr(value)
    require(condition, f"{name} does not fit the model: {' '.join(came.split())}")
