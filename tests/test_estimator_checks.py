"""scikit-learn's own checks, on every estimator that the package exports."""

import inspect

import pytest
from sklearn.base import BaseEstimator
from sklearn.utils.estimator_checks import parametrize_with_checks

import suquan

# Class name -> {check: reason}. A check is listed only with a reason that will not go away.
_FOLD_SCORES = {
    "check_sample_weight_equivalence_on_dense_data": "weights enter the fits; the scores of the folds, by "
    "which the setting is chosen, are those of the scorer, which has no weights"
}
EXPECTED_FAILURES: dict[str, dict[str, str]] = {
    "SuquanClassifierCV": _FOLD_SCORES,
    "SuquanRegressorCV": _FOLD_SCORES,
}

ESTIMATORS = [
    member
    for member in (getattr(suquan, name) for name in suquan.__all__)
    if inspect.isclass(member) and issubclass(member, BaseEstimator)
]

# Settings whose code paths differ from the default's.
VARIANTS = {
    "QuantileNormalizer": [
        {"target_quantiles": "mean"},
        {"target_quantiles": "normal", "ties": "first"},
        {"missing": "ignore", "ties": "mean_rank"},
    ],
    "SuquanClassifier": [
        *({"method": method} for method in ("fixed", "svd", "joint", "multi")),
        {"missing": "ignore", "l1_ratio": 0.5, "method": "bnd"},
    ],
    "SuquanRegressor": [{"method": "joint", "init": "median"}, {"missing": "ignore"}],
    "SupervisedQuantileNormalizer": [{"method": "bnd"}],
}

# Small grids, so that the checks take seconds.
SMALL = {
    "SuquanClassifierCV": {"alphas": 2, "smoothnesses": 2, "cv": 3},
    "SuquanRegressorCV": {"alphas": 2, "smoothnesses": 2, "cv": 3},
}

# Their code is that of variants above, but for the set of targets.
MORE_VARIANTS = [
    *(suquan.SuquanClassifier(method) for method in ("f0", "bnd", "spav", "matrix")),
    *(suquan.SuquanRegressor(method) for method in ("multi", "matrix")),
    suquan.SupervisedQuantileNormalizer("multi", n_targets=1),
    suquan.SuquanClassifierCV("multi", **SMALL["SuquanClassifierCV"]),
]


def _instances():
    for estimator in ESTIMATORS:
        yield estimator(**SMALL.get(estimator.__name__, {}))
        for parameters in VARIANTS.get(estimator.__name__, []):
            yield estimator(**parameters)


def _expected_failures(estimator):
    return EXPECTED_FAILURES.get(type(estimator).__name__, {})


def test_every_expected_failure_is_of_an_exported_estimator_and_has_a_reason():
    exported = {estimator.__name__ for estimator in ESTIMATORS}
    assert "QuantileNormalizer" in exported
    assert set(EXPECTED_FAILURES) <= exported
    assert all(reason for checks in EXPECTED_FAILURES.values() for reason in checks.values())


# Tiny and odd data are meant to warn here; that is tested elsewhere.
@pytest.mark.filterwarnings("ignore")
@parametrize_with_checks(list(_instances()), expected_failed_checks=_expected_failures)
def test_estimators_pass_the_checks_of_scikit_learn(estimator, check):
    check(estimator)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@parametrize_with_checks(MORE_VARIANTS, expected_failed_checks=_expected_failures)
def test_the_other_methods_pass_them_too(estimator, check):
    check(estimator)
