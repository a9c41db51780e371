"""Labels of times to event, Harrell's concordance, and the baseline hazard."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sksurv.metrics import concordance_index_censored
from sksurv.nonparametric import nelson_aalen_estimator

from suquan.survival import (
    RiskGroups,
    as_outcome,
    baseline_hazard,
    concordance,
    cumulative_hazard,
    exchange_labels,
)


def plain_concordance(y, risk, strata, s):
    """All pairs, one by one."""
    above = below = 0.0
    for i in np.flatnonzero(y["event"]):
        for j in range(len(y)):
            later = y["time"][j] > y["time"][i]
            same = y["time"][j] == y["time"][i] and not y["event"][j]
            if strata[i] == strata[j] and (later or same):
                below += s[i] * s[j]
                above += s[i] * s[j] * (float(risk[i] > risk[j]) + 0.5 * float(risk[i] == risk[j]))
    return above / below


@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_concordance_is_that_of_scikit_survival(data):
    n = data.draw(st.integers(2, 30))
    time, risk = (
        np.array(data.draw(st.lists(st.integers(0, 6), min_size=n, max_size=n))) for _ in range(2)
    )
    event = np.array(data.draw(st.lists(st.booleans(), min_size=n, max_size=n)))
    y = np.column_stack([time, event])
    comparable = [
        (time[i] < t or (time[i] == t and not e)) for i in np.flatnonzero(event) for t, e in y
    ]
    if not any(comparable):
        with pytest.raises(ValueError, match="no two samples can be compared"):
            concordance(y, risk)
        return
    expected = concordance_index_censored(event, time.astype(float), risk.astype(float))[0]
    assert concordance(y, risk) == pytest.approx(expected, abs=1e-12)


def test_concordance_has_strata_and_weights():
    rng = np.random.default_rng(0)
    y = as_outcome(np.column_stack([rng.integers(0, 8, 60), rng.integers(0, 2, 60)]))
    risk, strata, s = rng.integers(0, 5, 60), rng.integers(0, 4, 60), rng.integers(0, 3, 60)
    assert concordance(y, risk, strata, s) == pytest.approx(plain_concordance(y, risk, strata, s))
    rows = np.repeat(np.arange(60), s)
    assert concordance(y, risk, strata, s) == pytest.approx(
        concordance(y[rows], risk[rows], strata[rows])
    )


def test_baseline_at_equal_scores_is_that_of_nelson_and_aalen():
    rng = np.random.default_rng(0)
    y = as_outcome(np.column_stack([rng.integers(1, 9, 50), rng.integers(0, 2, 50)]))
    steps = baseline_hazard(y, np.zeros(50), np.ones(50))
    times, hazards = nelson_aalen_estimator(y["event"], y["time"])
    found = cumulative_hazard(steps["stratum"], steps["time"], steps["hazard"], np.zeros(1), times)
    np.testing.assert_allclose(found[0], hazards)
    before = cumulative_hazard(
        steps["stratum"], steps["time"], steps["hazard"], np.ones(2), [0.0, 99.0]
    )
    assert np.all(before[:, 0] == 0.0)
    np.testing.assert_allclose(before[:, 1], np.e * hazards[-1])


def test_fields_and_columns_are_found_by_name_and_kind():
    fields = np.array([(True, 2.0), (False, 3.0)], dtype=[("relapse", bool), ("months", float)])
    swapped = np.array([(2, 1), (3, 0)], dtype=[("time", int), ("event", int)])
    frame = pd.DataFrame({"event": [1, 0], "time": [2, 3]})
    other = pd.DataFrame({"months": [2, 3], "relapse": [True, False]})
    for y in (fields, swapped, frame, other, [[2, 1], [3, 0]]):
        outcome = as_outcome(y)
        assert outcome["time"].tolist() == [2.0, 3.0]
        assert outcome["event"].tolist() == [True, False]
        assert outcome.dtype.names == ("event", "time")
    assert as_outcome(as_outcome(frame, ["a", "b"]))["stratum"].tolist() == ["a", "b"]


@pytest.mark.parametrize(
    ("y", "strata", "message"),
    [
        (np.zeros(2, dtype=[("a", float), ("b", float)]), None, "got the fields 'a', 'b'"),
        ([["x", 1], ["2", 0]], None, "event must be boolean|times must be numbers"),
        ([[1, 1], [2, 0]], [1.0, np.nan], "strata holds NaN"),
        ([[1, 1], [2, 0]], [[1, 2]], "one value per sample"),
    ],
)
def test_what_is_no_outcome_is_named(y, strata, message):
    with pytest.raises(ValueError, match=message):
        as_outcome(y, strata)
    with pytest.raises(ValueError, match="one number per sample"):
        concordance([[1, 1], [2, 0]], [1.0])


# -- permutations with groups ------------------------------------------------------------------------


def test_labels_are_exchanged_among_constant_groups_and_shuffled_inside_mixed_ones():
    groups = np.repeat(np.arange(9), [1, 1, 2, 2, 3, 4, 1, 3, 5])
    labels = np.array(["u", "v"])[[0, 1, 1, 1, 0, 0, 1, 1, 1, *[0] * 4, 1, 0, 1, 0, 1, 1, 0, 1, 0]]
    mixed = groups >= 7
    rng, seen = np.random.default_rng(0), set()
    for _ in range(50):
        permuted = labels[exchange_labels(rng, labels, groups)]
        for group in range(7):
            assert len(set(permuted[groups == group])) == 1
        first = np.unique(groups[~mixed], return_index=True)[1]
        assert sorted(permuted[first]) == sorted(labels[first])  # one label each, exchanged
        for group in (7, 8):
            assert sorted(permuted[groups == group]) == sorted(labels[groups == group])
        seen.add("".join(permuted))
    assert len(seen) > 40
    alone = exchange_labels(rng, labels, np.arange(22))
    np.testing.assert_array_equal(np.sort(alone), np.arange(22))


def test_p_value_of_thirds_of_risk_is_uniform_where_patients_have_several_samples():
    p_values = []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        groups = np.repeat(np.arange(15), rng.integers(2, 6, 15))
        y = as_outcome(
            np.column_stack([rng.exponential(size=15)[groups], (rng.random(15) < 0.7)[groups]])
        )
        folds = [np.flatnonzero(groups % 2 == k) for k in range(2)]
        risk = rng.standard_normal(15)[groups] + 0.1 * rng.standard_normal(len(groups))
        risks = [risk[fold] for fold in folds]
        p_values.append(RiskGroups.of_folds(y, folds, risks, 0, 99, groups=groups).p_value)
    assert np.mean(np.array(p_values) <= 0.1) <= 0.2
    assert 0.35 < np.mean(p_values) < 0.65
    known = [-y["time"][fold] for fold in folds]
    assert RiskGroups.of_folds(y, folds, known, groups=groups).p_value < 0.05
