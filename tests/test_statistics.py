import numpy as np
import pytest
from scipy import stats

from suquan.statistics import corrected_difference, holm, holm_differences, wilcoxon_greater


def slow_holm(p_values):
    """Step down, as Holm wrote it."""
    m, running, adjusted = len(p_values), 0.0, [0.0] * len(p_values)
    for step, k in enumerate(sorted(range(m), key=lambda k: p_values[k])):
        running = max(running, (m - step) * p_values[k])
        adjusted[k] = min(running, 1.0)
    return np.array(adjusted)


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_corrected_difference_is_the_formula_of_nadeau_and_bengio(share):
    d = np.random.default_rng(0).normal(0.02, 0.03, size=15)
    error = np.sqrt(np.sum((d - d.mean()) ** 2) / 14 * (1 / 15 + share))
    found, back = corrected_difference(d, share), corrected_difference(-d, share)
    assert found.mean == pytest.approx(d.mean(), rel=1e-12)
    assert found.t == pytest.approx(d.mean() / error, rel=1e-12)
    assert found.p_value == pytest.approx(2 * stats.t.cdf(-abs(found.t), 14), rel=1e-10)
    margin = stats.t.ppf(0.975, 14) * error
    assert (found.low, found.high) == pytest.approx((d.mean() - margin, d.mean() + margin))
    assert back == pytest.approx((-found.mean, -found.high, -found.low, -found.t, found.p_value))
    if share == 0.0:
        expected = stats.ttest_1samp(d, 0.0)
        assert (found.t, found.p_value) == pytest.approx((expected.statistic, expected.pvalue))


def test_one_fold_says_nothing_and_equal_differences_say_all():
    alone = corrected_difference(np.array([0.3]), 0.5)
    assert (alone.mean, alone.low, alone.high) == (0.3, -np.inf, np.inf)
    assert np.isnan(alone.p_value)
    zero = corrected_difference(np.zeros(5), 0.5)
    assert (zero.mean, zero.low, zero.high) == (0.0, 0.0, 0.0)
    assert np.isnan(zero.p_value)
    equal = corrected_difference(np.full(4, 0.25), 0.5)
    assert (equal.low, equal.high, equal.t, equal.p_value) == (0.25, 0.25, np.inf, 0.0)


def test_holm_intervals_exclude_zero_exactly_where_the_adjusted_p_value_is_small():
    rng = np.random.default_rng(0)
    for _ in range(50):
        differences = [rng.normal(shift, 0.03, 15) for shift in (0.08, 0.045, 0.03, 0.0)]
        found = holm_differences([*differences, np.zeros(15)], 0.5)
        single = [corrected_difference(d, 0.5) for d in differences]
        np.testing.assert_allclose(
            [one.p_value for one in found], [*slow_holm([one.p_value for one in single]), np.nan]
        )
        for one, alone in zip(found, single, strict=False):
            assert (one.low > 0 or one.high < 0) == (one.p_value < 0.05)
            assert one.mean == alone.mean
            assert one.low <= alone.low
        # The smallest p-value of four has the interval of Bonferroni.
        first = int(np.argmin([one.p_value for one in single]))
        strictest = corrected_difference(differences[first], 0.5, 1 - 0.05 / 4)
        assert (found[first].low, found[first].high) == (strictest.low, strictest.high)


def test_holm_is_the_step_down_procedure_and_leaves_nan_out():
    p = np.random.default_rng(0).random(20) ** 3
    p[3] = p[7]
    np.testing.assert_allclose(holm(p), slow_holm(p))
    np.testing.assert_allclose(holm(np.r_[np.nan, p]), np.r_[np.nan, slow_holm(p)])
    assert holm(np.empty(0)).shape == (0,)


def test_wilcoxon_is_one_sided_and_one_where_all_folds_are_equal():
    assert wilcoxon_greater(np.zeros(15)) == 1.0
    d = np.arange(1.0, 9.0)
    assert wilcoxon_greater(d) == pytest.approx(0.5**8)
    assert wilcoxon_greater(-d) == pytest.approx(1.0)
