"""Labels of times to event, Harrell's concordance, and the baseline hazard."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sksurv.metrics import concordance_index_censored
from sksurv.nonparametric import nelson_aalen_estimator

from suquan.survival import as_outcome, baseline_hazard, concordance, cumulative_hazard


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
