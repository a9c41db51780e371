"""Label files, matching by sample name, survival labels."""

import numpy as np
import pytest
from data_files import data_file
from hypothesis import given
from hypothesis import strategies as st

from suquan.io import (
    LabelTable,
    Table,
    TableError,
    read_labels,
    select_labels,
    select_numbers,
    survival_labels,
)


def write(tmp_path, text, name="labels.csv"):
    path = tmp_path / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


# --------------------------------------------------------------------------------------------------- files


def test_sample_names_stay_text_and_missing_cells_become_empty(tmp_path):
    labels = read_labels(write(tmp_path, "id,grade,note\n007,2,NA\n1e5,null,x\n-1,,NULL\n"))
    assert labels.sample_names.tolist() == ["007", "1e5", "-1"]
    assert labels.columns["grade"].tolist() == ["2", "", ""]
    assert labels.columns["note"].tolist() == ["", "x", ""]


def test_another_column_may_name_the_samples(tmp_path):
    labels = read_labels(write(tmp_path, "n\tid\n1\ta\n2\tb\n", "l.tsv"), sample_column="id")
    assert labels.sample_names.tolist() == ["a", "b"]
    assert labels.columns["n"].tolist() == ["1", "2"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "empty"),
        ("id,y\n", "no rows"),
        ("id,y\na,1\na,0\n", r"line 3: sample 'a' was on line 2"),
        ("id,y\na,1,2\n", "line 2 has 3 cells"),
        ("id,y\n,1\n", "line 2: a name is empty"),
        ("id,y,y\na,1,2\n", "'y' more than once"),
        ("id;y\na;1\n", "semicolons"),
        (b"id,y\n\xff,1\n", "line 2 is not UTF-8"),
        ('id,y\n"a,1\n', "line 2 cannot be split"),
    ],
)
def test_bad_label_files_are_refused_with_the_place(tmp_path, text, said):
    with pytest.raises(TableError, match=said):
        read_labels(write(tmp_path, text))


def test_a_wrong_sample_column_is_named(tmp_path):
    with pytest.raises(TableError, match=r"no column 'patient'.*'id', 'y'"):
        read_labels(write(tmp_path, "id,y\na,1\n"), sample_column="patient")


def test_labels_are_read_from_text_tables_only(tmp_path):
    with pytest.raises(TableError, match="CSV and TSV"):
        read_labels(write(tmp_path, b"PAR1xxxx", "l.parquet"))


# ------------------------------------------------------------------------------------------------ matching

LABELS = LabelTable(["a", "b", "c", "z"], {"y": ["1", "0", "", "1"], "t": ["2.5", "", "7", "x"]})


def test_labels_follow_the_order_of_the_table_and_the_rest_is_counted():
    selected = select_labels(LABELS, "y", sample_names=["q", "c", "b", "a"])
    assert selected.keep.tolist() == [False, False, True, True]
    assert selected.y.tolist() == ["0", "1"]
    assert (selected.n_without_row, selected.n_missing, selected.n_unused) == (1, 1, 1)
    assert selected.report == (
        "2 of 4 samples have a label in 'y'; 1 without a row, 1 with a missing label; 1 row unused"
    )


@pytest.mark.parametrize("positive", ["1", "1.0", 1, 1.0])
def test_a_number_is_the_positive_value_however_it_is_written(positive):
    assert select_labels(LABELS, "y", positive=positive).y.tolist() == [1, 0, 1]


def test_labels_may_come_from_the_table_itself():
    table = Table([[1.0], [2.0], [3.0]], ["a", "b", "c"], ["g"], {"y": [1, 0, np.nan]})
    selected = select_labels(table, "y", positive="1")
    assert selected.keep.tolist() == [True, True, False]
    assert selected.y.tolist() == [1, 0]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"column": "w"}, "no label column 'w'; there is 'y', 't'"),
        ({"column": "y", "positive": "yes"}, "no label in 'y' is 'yes'; there is '0', '1'"),
        ({"column": "y", "sample_names": ["a", "z"], "positive": "1"}, "every label"),
        ({"column": "y", "sample_names": ["A", "B"]}, "none of its 4 samples"),
        ({"column": "y", "sample_names": ["c"]}, "holds no label"),
    ],
)
def test_labels_that_cannot_be_used_are_refused(arguments, said):
    with pytest.raises(TableError, match=said):
        select_labels(LABELS, **arguments)


def test_numbers_are_missing_where_the_sample_or_the_cell_is():
    numbers = select_numbers(LABELS, "t", sample_names=["c", "b", "q"])
    assert np.array_equal(numbers, [7.0, np.nan, np.nan], equal_nan=True)


def test_text_in_a_column_of_numbers_is_named():
    with pytest.raises(TableError, match="sample 'z', column 't': 'x' is not a number"):
        select_numbers(LABELS, "t")


def test_true_and_false_are_numbers_where_they_are_asked_for():
    labels = LabelTable(["a", "b", "c", "d"], {"dead": ["True", "FALSE", "", "1"]})
    numbers = select_numbers(labels, "dead", truth=True)
    assert np.array_equal(numbers, [1.0, 0.0, np.nan, 1.0], equal_nan=True)
    with pytest.raises(TableError, match="'True' is not a number"):
        select_numbers(labels, "dead")


# ------------------------------------------------------------------------------------------------ survival


def test_the_edges_of_the_horizon():
    labels = survival_labels([6, 6, 6.001, 6.001, 0], [1, 0, 1, 0, 1], 6)
    assert labels.keep.tolist() == [True, False, True, True, True]
    assert labels.y.tolist() == [1, 0, 0, 1]


@given(
    st.lists(
        st.tuples(
            st.one_of(st.just(np.nan), st.floats(0, 20)), st.sampled_from([0.0, 1.0, np.nan])
        ),
        max_size=30,
    ),
    st.floats(0.1, 15),
)
def test_every_sample_is_counted_once_and_labelled_by_its_rule(pairs, horizon):
    time, event = np.array(pairs).reshape(-1, 2).T
    labels = survival_labels(time, event, horizon)
    counts = (labels.n_event, labels.n_event_free, labels.n_censored, labels.n_missing)
    assert sum(counts) == len(pairs)
    assert labels.y.sum() == labels.n_event
    assert len(labels.y) == labels.keep.sum() == labels.n_event + labels.n_event_free
    for t, e, y in zip(time[labels.keep], event[labels.keep], labels.y, strict=True):
        assert (e == 1 and t <= horizon) if y else t > horizon


@pytest.mark.parametrize(
    ("time", "event", "horizon", "said"),
    [
        ([1.0, 2.0], [1.0], 6, "time has 2 entries, event has 1"),
        ([-1.0], [1.0], 6, "negative"),
        ([1.0], [-1.0], 6, "event must be 1"),
        ([1.0], [1.0], 0, "horizon"),
        (["a"], [1.0], 6, "time must hold numbers"),
    ],
)
def test_impossible_survival_data_are_refused(time, event, horizon, said):
    with pytest.raises(TableError, match=said):
        survival_labels(time, event, horizon)


def test_the_papers_labels_of_gse2034():
    clinical = read_labels(data_file("clinical_breast_cohorts.csv"))
    gse2034 = clinical.sample_names[clinical.columns["series"] == "VDX"]
    time = select_numbers(clinical, "t.dmfs", sample_names=gse2034)
    event = select_numbers(clinical, "e.dmfs", sample_names=gse2034)
    labels = survival_labels(time, event, 6 * 365.25)
    assert (labels.n_event, labels.n_event_free, labels.n_censored) == (104, 167, 15)
    assert labels.n_missing == 0
