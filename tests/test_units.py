"""Regression follows the units of y: a fit to a·y + b predicts a·prediction + b, at any scale."""

import numpy as np
import pytest

from suquan import SuquanRegressor, SuquanRegressorCV, compare

HUGE, TINY = 1e150, 1e-150
RNG = np.random.default_rng(0)
X = RNG.standard_normal((30, 12))
Y = X[:, 0] - X[:, 1] + 0.5 * RNG.standard_normal(30)


def assert_follows(other, one, a, b, atol):
    """The fit to a·y + b predicts what the fit to y does."""
    samples = X[:, : one.n_features_in_]
    predicted = (other.predict(samples) - b) / a
    np.testing.assert_allclose(predicted, one.predict(samples), rtol=0, atol=atol)


def penalties(a, l1_ratio):
    """Penalties of the problem of a·y: that of the l1 norm grows with a, the smoothness with a²."""
    ridge, lasso = 0.05 * (1 - l1_ratio), 0.05 * l1_ratio * abs(a)
    own = {"alpha": ridge + lasso, "l1_ratio": lasso / (ridge + lasso), "smoothness": 0.01 * a * a}
    return {**own, "huber_delta": 0.7 * abs(a)}


@pytest.mark.parametrize(
    ("a", "b"), [(7.0, 3.0), (-0.01, 5.0), (1e6, -1e6), (TINY, 0.0), (HUGE, 1e149), (1.0, 1e8)]
)
@pytest.mark.parametrize("l1_ratio", [0.0, pytest.param(0.5, marks=pytest.mark.slow), 1.0])
@pytest.mark.parametrize("loss", ["squared", "huber"])
def test_fits_follow_the_units_of_y(loss, l1_ratio, a, b):
    if (l1_ratio, a) == (0.5, HUGE):
        l1_ratio = 1e-150  # the largest share that leaves both norms a part
    weights = np.random.default_rng(1).integers(0, 4, len(Y)).astype(float)
    folds = {"cv": 2, "n_repeats": 1, "random_state": 0}
    for method in ("fixed", "joint", "crossfit"):
        one, other = (
            SuquanRegressor(method, loss=loss, **folds, **penalties(scale, l1_ratio)).fit(
                X, scale * Y + shift, sample_weight=weights
            )
            for scale, shift in ((1.0, 0.0), (a, b))
        )
        slack = 1e-6 + abs(b / a) * 1e-15
        assert_follows(other, one, a, b, slack)
        np.testing.assert_allclose(other.coef_ / a, one.coef_, rtol=0, atol=slack)
        for name in ("objective_", "objective_history_"):
            values = [np.atleast_1d(getattr(model, name)) for model in (one, other)]
            np.testing.assert_allclose(values[1] / (a * a), values[0], rtol=10 * slack)
        assert other.alpha_ == other.alpha
        assert other.smoothness_ == (0.0 if method == "fixed" else other.smoothness)


@pytest.mark.parametrize(
    "kind",
    [{}, {"method": "multi"}, pytest.param({"l1_ratio": 1.0}, marks=pytest.mark.slow)],
    ids=str,
)
def test_defaults_and_selection_follow_the_units_of_y(kind):
    one = SuquanRegressor(random_state=0, **kind).fit(X[:, :6], Y)
    grids = {"alphas": 2, "smoothnesses": 2, "cv": 2, "crossfit_cv": 2, "n_repeats": 1}
    chosen = SuquanRegressorCV(**grids, random_state=0, **kind).fit(X[:, :6], Y)
    for a, b in ((-3.0, 7.0), (TINY, 0.0), (HUGE, 0.0), (1.0, 1e8)):
        other = SuquanRegressor(random_state=0, **kind).fit(X[:, :6], a * Y + b)
        assert_follows(other, one, a, b, 1e-5)
        np.testing.assert_allclose(other.smoothness_, one.smoothness_ * a * a, rtol=1e-5)
        of_norm = abs(a) if kind else 1.0
        np.testing.assert_allclose(other.alpha_, one.alpha_ * of_norm, rtol=1e-5)
        again = SuquanRegressorCV(**grids, random_state=0, **kind).fit(X[:, :6], a * Y + b)
        assert_follows(again, chosen, a, b, 1e-5)
        for key in ("mean_test_score", "split1_test_score"):
            np.testing.assert_allclose(again.cv_results_[key], chosen.cv_results_[key], atol=1e-5)


@pytest.mark.parametrize("scale", [1e-200, 1e200])
@pytest.mark.parametrize("loss", ["squared", "huber"])
def test_scales_whose_squares_are_no_numbers(loss, scale):
    """A fit holds no square; selection, whose scores do, says so."""
    one, other = (
        SuquanRegressor(loss=loss, huber_delta=unit, random_state=0).fit(X, unit * Y)
        for unit in (1.0, scale)
    )
    assert_follows(other, one, scale, 0.0, 1e-6)
    with pytest.raises(ValueError, match=r"y varies by 1e[+-]200, whose square is out of range"):
        SuquanRegressorCV(alphas=2, loss=loss).fit(X, scale * Y)


@pytest.mark.parametrize("a", [-4.0, TINY, HUGE])
def test_without_an_intercept_nothing_is_shifted(a):
    y = Y + 3.0
    one, other = (
        SuquanRegressor("joint", fit_intercept=False, alpha=0.01).fit(X, scale * y)
        for scale in (1.0, a)
    )
    assert_follows(other, one, a, 0.0, 1e-6)
    assert other.intercept_ == 0.0
    rough = one.smoothness_ * np.sum(np.diff(one.target_quantiles_) ** 2)
    J = np.mean((y - one.predict(X)) ** 2) + 0.01 * np.sum(one.coef_**2) + rough
    np.testing.assert_allclose(one.objective_, J, rtol=1e-9)


@pytest.mark.parametrize("value", [0.0, 0.1, -1e300])
def test_constant_y_is_predicted(value):
    model = SuquanRegressor("fixed").fit(X, np.full_like(Y, value))
    np.testing.assert_allclose(model.predict(X), value, rtol=1e-15)


@pytest.mark.parametrize(
    "kind", [{}, pytest.param({"l1_ratio": 1.0}, marks=pytest.mark.slow)], ids=str
)
def test_comparison_follows_the_units_of_y(kind):
    given = {"methods": ["raw", "uniform", "crossfit"], "scoring": "r2", "random_state": 0}
    given |= {"alphas": 2, "smoothnesses": 2, "outer_cv": 2, "inner_cv": 2, "n_repeats": 1}
    one, other = (compare(X[:, :6], y, **given, **kind).folds for y in (Y, 1e3 * Y + 1e9))
    np.testing.assert_allclose(other["score"], one["score"], rtol=0, atol=1e-5)
    unit = 1e3 if kind else 1.0  # of an l1 penalty
    np.testing.assert_allclose(other["alpha"], one["alpha"] * unit, rtol=1e-5)


@pytest.mark.parametrize("n_features", [4, 80])
@pytest.mark.parametrize("loss", ["squared", "huber"])
def test_fits_on_blocks_follow_the_units_of_y(loss, n_features):
    dask = pytest.importorskip("dask.array")
    samples = np.random.default_rng(0).standard_normal((30, n_features))
    options = {"loss": loss, "random_state": 0, "tol": 1e-6}
    one = SuquanRegressor(**options).fit(samples, Y)
    other = SuquanRegressor(huber_delta=1350.0, **options)
    other.fit(dask.from_array(samples, chunks=(12, n_features)), 1e3 * Y + 1e9)
    predicted = (other.predict(samples) - 1e9) / 1e3
    np.testing.assert_allclose(predicted, one.predict(samples), rtol=0, atol=1e-5)
    np.testing.assert_allclose(other.objective_ / 1e6, one.objective_, rtol=1e-4)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("method", ["joint", "crossfit", "multi"])
def test_reported_objectives_are_in_the_units_of_y(method, capsys):
    model = SuquanRegressor(method, verbose=1, random_state=0, max_rounds=1, alpha=1.0)
    model.fit(X, 1e3 * Y)
    told = capsys.readouterr().out.split(",")[0].split()[-1]
    assert float(told) == pytest.approx(model.objective_history_[-1], rel=1e-5)
