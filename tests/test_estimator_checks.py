"""scikit-learn's own checks, on every estimator that the package exports."""

import inspect

import numpy as np
import pytest
from sklearn.base import BaseEstimator
from sklearn.utils import assert_all_finite, column_or_1d
from sklearn.utils.estimator_checks import parametrize_with_checks

import suquan

# Class name -> {check: reason}. A check is listed only with a reason that will not go away, and where it fails.
# check_classifiers_train ties predict to the sign of decision_function, and a calibration does not. It passes
# nevertheless: ranking leaves one bit of each of its samples of two columns, and of the two scores there
# one is below and one above both 0 and the calibration's limit. test_calibration.py has others.
_FOLD_SCORES = {
    "check_sample_weight_equivalence_on_dense_data": "weights enter the fits; the scores of the folds, by "
    "which the setting is chosen, are those of the scorer, which has no weights"
}
EXPECTED_FAILURES: dict[str, dict[str, str]] = {
    "SuquanClassifierCV": _FOLD_SCORES,
    "SuquanRegressorCV": _FOLD_SCORES,
    "CoxCVOfValues": _FOLD_SCORES,
    "CoxOfValues": {
        "check_sample_weight_equivalence_on_dense_data": "the fits of the folds leave 1e-14 of J, 1e-7 "
        "of the scores, and the check asks for 1e-9; test_cox_model.py tests weights without folds"
    },
}

ESTIMATORS = [
    member
    for member in (getattr(suquan, name) for name in suquan.__all__)
    if inspect.isclass(member) and issubclass(member, BaseEstimator)
]


class _OfValues:
    """Adapter: the checks give one number or class per sample, which becomes the time of an event."""

    def fit(self, X, y=None, sample_weight=None, groups=None):
        """Fit to times that have the order of y."""
        return super().fit(X, self._as_times(y), sample_weight, groups)

    def score(self, X, y, sample_weight=None):
        """Score on such times."""
        return super().score(X, self._as_times(y), sample_weight)

    def _as_times(self, y):
        if y is None:
            return None
        y = column_or_1d(y, warn=True)
        if y.dtype.kind in "fc":
            assert_all_finite(y)
        times = np.unique(y, return_inverse=True)[1].astype(float)
        if isinstance(
            self, suquan.SuquanCoxCV
        ):  # a small fold of one class has pairs to compare, too
            times += np.linspace(0.0, 0.5, len(y))
        return np.column_stack([times, np.ones(len(y))])


class CoxOfValues(_OfValues, suquan.SuquanCox):
    """A check's labels as times."""


class CoxCVOfValues(_OfValues, suquan.SuquanCoxCV):
    """A check's labels as times."""


# Times to event are labels that no check has.
ESTIMATORS = [e for e in ESTIMATORS if e not in (suquan.SuquanCox, suquan.SuquanCoxCV)]

# One of each class, the selections with small grids, and one that lets missing values pass.
_SMALL = {"alphas": 2, "smoothnesses": 1, "cv": 2, "crossfit_cv": 2, "n_repeats": 1}
REPRESENTATIVES = [
    *(estimator(**_SMALL if estimator.__name__.endswith("CV") else {}) for estimator in ESTIMATORS),
    suquan.SuquanClassifier("bnd", missing="ignore", l1_ratio=0.5),
    suquan.SuquanClassifier("multi"),
    CoxOfValues(time_ties="breslow", tol=1e-9),  # weights are repeated rows there
    CoxCVOfValues(**_SMALL),
]

# Settings whose code paths differ from theirs.
VARIANTS = [
    suquan.QuantileNormalizer("mean"),
    suquan.QuantileNormalizer("normal", ties="first"),
    suquan.QuantileNormalizer(missing="ignore", ties="mean_rank"),
    *(suquan.SuquanClassifier(method) for method in ("fixed", "svd", "joint", "f0", "bnd", "spav")),
    suquan.SuquanClassifier("matrix"),
    suquan.SuquanClassifier("bnd", feature_scaling="std"),
    suquan.SuquanRegressor(feature_scaling="std", missing="ignore"),
    *(suquan.SuquanRegressor(method) for method in ("multi", "matrix")),
    suquan.SupervisedQuantileNormalizer("multi", n_targets=1),
    suquan.SuquanClassifierCV("multi", alphas=2, cv=3),
    suquan.SuquanClassifierCV(alphas=2, smoothnesses=2, cv=3, calibration=None),
    suquan.SuquanClassifierCV(alphas=2, smoothnesses=2, cv=3),
    suquan.SuquanRegressor("joint", init="median"),
    suquan.SuquanRegressor(missing="ignore"),
    suquan.SuquanRegressorCV(alphas=2, smoothnesses=2, cv=3),
    suquan.SupervisedQuantileNormalizer("bnd"),
]


def _expected_failures(estimator):
    expected = EXPECTED_FAILURES.get(type(estimator).__name__, {})
    if type(estimator) is suquan.SuquanClassifier and estimator.method == "multi":
        reason = (
            "rounds of several targets carry rounding to 1e-8 of them, and the check asks for 1e-9"
        )
        expected = {"check_sample_weight_equivalence_on_dense_data": reason}
    if getattr(estimator, "l1_ratio", 0.0) > 0.0:
        reason = (
            "proximal gradient stops at 1e-10 of J, 1e-7 of the scores; the check asks for 1e-9"
        )
        expected = {**expected, "check_sample_weight_equivalence_on_dense_data": reason}
    return expected


def test_every_expected_failure_is_of_an_exported_estimator_and_has_a_reason():
    exported = {type(estimator).__name__ for estimator in REPRESENTATIVES}
    assert "QuantileNormalizer" in exported
    assert set(EXPECTED_FAILURES) <= exported
    assert all(reason for checks in EXPECTED_FAILURES.values() for reason in checks.values())


# Tiny and odd data are meant to warn here; that is tested elsewhere.
@pytest.mark.filterwarnings("ignore")
@parametrize_with_checks(REPRESENTATIVES, expected_failed_checks=_expected_failures)
def test_estimators_pass_the_checks_of_scikit_learn(estimator, check):
    check(estimator)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@parametrize_with_checks(VARIANTS, expected_failed_checks=_expected_failures)
def test_other_settings_pass_them_too(estimator, check):
    check(estimator)
