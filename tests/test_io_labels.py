"""Label files, matching by sample name, survival labels."""

import numpy as np
import pytest
from data_files import data_file
from hypothesis import given
from hypothesis import strategies as st
from io_tables import put, refused

from suquan.io import (
    LabelTable,
    Table,
    TableError,
    read_labels,
    select_labels,
    select_numbers,
    survival_labels,
)

# --------------------------------------------------------------------------------------------------- files


def test_sample_names_stay_text_and_missing_cells_become_empty(tmp_path):
    labels = read_labels(
        put(tmp_path, "id,grade,note\n007,2,NA\n1e5,null,x\n-1,,NULL\n", "labels.csv")
    )
    assert labels.sample_names.tolist() == ["007", "1e5", "-1"]
    assert labels.columns["grade"].tolist() == ["2", "", ""]
    assert labels.columns["note"].tolist() == ["", "x", ""]


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
    refused(said, read_labels, put(tmp_path, text, "labels.csv"))


def test_another_column_may_name_the_samples(tmp_path):
    path = put(tmp_path, "n\tPatient ID \n1\ta\n2\tb\n", "l.tsv")
    labels = read_labels(path, sample_column="patient id")
    assert labels.sample_names.tolist() == ["a", "b"]
    assert select_labels(labels, "N ").y.tolist() == ["1", "2"]
    assert select_numbers(labels, " N").tolist() == [1.0, 2.0]
    refused(r"no column 'patient'.*'n', 'Patient ID '", read_labels, path, sample_column="patient")
    two = LabelTable(["a"], {"Y": ["1"], "y ": ["2"]})
    assert select_labels(two, "Y").y.tolist() == ["1"]
    refused("no label column 'y'; there is 'Y', 'y '", select_labels, two, "y")
    refused("CSV and TSV", read_labels, put(tmp_path, b"PAR1xxxx", "l.parquet"))


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


def test_a_number_is_the_positive_value_however_it_is_written():
    for positive in ("1", "1.0", 1, 1.0):
        assert select_labels(LABELS, "y", positive=positive).y.tolist() == [1, 0, 1]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"column": "w"}, "no label column 'w'; there is 'y', 't'"),
        (
            {"column": "y", "positive": "yes"},
            r"'y': no label is 'yes'; there is '1' \(2\), '0' \(1\)",
        ),
        ({"column": "y", "sample_names": ["a", "z"], "positive": "1"}, "every label"),
        ({"column": "y", "sample_names": ["A", "B"]}, "0 of the table's 2 samples have a row"),
        ({"column": "y", "sample_names": ["c"]}, "holds no label"),
    ],
)
def test_labels_that_cannot_be_used_are_refused(arguments, said):
    refused(said, select_labels, LABELS, **arguments)


def test_numbers_are_missing_where_the_sample_or_the_cell_is():
    numbers = select_numbers(LABELS, "t", sample_names=["c", "b", "q"])
    assert np.array_equal(numbers, [7.0, np.nan, np.nan], equal_nan=True)
    refused("sample 'z', column 't': 'x' is not a number", select_numbers, LABELS, "t")


# -------------------------------------------------------------------------------------------------- values


def column(*cells):
    return LabelTable([f"s{i}" for i in range(len(cells))], {"y": list(cells)})


def test_values_that_differ_by_case_or_blanks_are_one_and_the_report_says_so():
    selected = select_labels(column("Yes", "No", "YES", "No ", "no", "Yes", "No"), "y")
    assert selected.y.tolist() == ["Yes", "No", "Yes", "No", "No", "Yes", "No"]
    assert "'YES' counted as 'Yes'" in selected.report
    assert "'No ', 'no' counted as 'No'" in selected.report
    three = select_labels(column("grade II", "Grade  II", "III", "I", "grade II"), "y")
    assert three.y.tolist() == ["grade II", "grade II", "III", "I", "grade II"]
    assert select_labels(column("1", "1.0", "01", "007", "7"), "y").y.tolist() == [
        *("1", "1", "01", "007", "7")
    ]


MISSING = ["NA", "N/A", "n/a", "NaN", "null", "NONE", "none", "Unknown", "not available", "-", "?"]


@pytest.mark.parametrize("cell", [*MISSING, "", "  ", " N / A "])
def test_values_that_look_missing_are_missing(cell):
    selected = select_labels(column("yes", "no", cell, "no"), "y", positive="YES")
    assert selected.keep.tolist() == [True, True, False, True]
    assert selected.y.tolist() == [1, 0, 0]
    assert (selected.n_missing, selected.n_other) == (1, 0)
    assert (repr(cell) in selected.report) == bool(cell.strip())
    assert selected.class_names == ("no", "yes")
    assert select_labels(column("b", "c", cell, "a"), "y").y.tolist() == ["b", "c", "a"]
    numbers = select_numbers(column("1.5", "2", cell), "y")
    assert np.array_equal(numbers, [1.5, 2.0, np.nan], equal_nan=True)


def test_another_spelling_of_the_positive_value_is_no_control():
    selected = select_labels(column("Yes", "no", "YES", " yes"), "y", positive="Yes")
    assert selected.y.tolist() == [1, 0, 1, 1]


def test_more_values_are_missing_where_they_are_named():
    cells = column("yes", "no", "withdrawn", "9", "Withdrawn ")
    selected = select_labels(cells, "y", positive="yes", na=["withdrawn", "9.0"])
    assert selected.y.tolist() == [1, 0]
    assert selected.n_missing == 3
    numbers = select_numbers(column("1", "-99", "2"), "y", na=[-99])
    assert np.array_equal(numbers, [1.0, np.nan, 2.0], equal_nan=True)


def test_a_value_that_is_named_as_a_class_is_not_missing():
    cells = column("none", "chemo", "None", "none", "N/A")
    selected = select_labels(cells, "y", positive="chemo", negative=["none"])
    assert selected.y.tolist() == [0, 1, 0, 0]
    assert selected.class_names == ("none", "chemo")


STAGES = column("I", "II", "III", "II", "ii", "unknown")


def test_more_than_two_values_need_to_be_told_apart():
    said = (
        r"3 values: 'II' \(3\), 'I' \(1\), 'III' \(1\); give negative=VALUE .* negative_rest=True"
    )
    refused(said, select_labels, STAGES, "y", positive="III")
    one = select_labels(STAGES, "y", positive="iii", negative=["i"])
    assert one.keep.tolist() == [True, False, True, False, False, False]
    assert one.y.tolist() == [0, 1]
    assert (one.n_other, one.n_missing, one.class_names) == (3, 1, ("I", "III"))
    assert "3 with another label" in one.report
    two = select_labels(STAGES, "y", positive="III", negative=["I", "II"])
    assert two.y.tolist() == [0, 0, 1, 0, 0]
    assert two.class_names == ("not III", "III")
    rest = select_labels(STAGES, "y", positive="II", negative_rest=True)
    assert rest.y.tolist() == [0, 1, 0, 1, 1]
    assert rest.class_names == ("not II", "II")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"positive": "III", "negative": ["IV"]}, "no label is 'IV'; there is 'II'"),
        ({"positive": "III", "negative": ["iii"]}, "both positive and negative"),
        ({"positive": "III", "negative": ["I"], "negative_rest": True}, "give one"),
        ({"negative": ["I"]}, "against a positive value"),
        ({"negative_rest": True}, "against a positive value"),
    ],
)
def test_classes_that_contradict_each_other_are_refused(options, said):
    refused(said, select_labels, STAGES, "y", **options)


def test_numbers_of_a_table_follow_the_same_rules():
    table = Table(np.eye(4), list("abcd"), list("efgh"), {"y": [1.0, 2.0, np.nan, 9.0]})
    selected = select_labels(table, "y", positive=2, na=["9"])
    assert selected.y.tolist() == [0, 1]
    assert selected.class_names == ("1", "2")
    assert select_labels(table, "y").y.tolist() == [1.0, 2.0, 9.0]
    odd = Table(np.eye(2), list("ab"), list("ef"), {"y": [0.1, 1 / 3]})
    assert select_labels(odd, "y").y.tolist() == [0.1, 1 / 3]


NAMES = [f"TCGA-{i}" for i in range(10)]


def test_too_few_samples_with_a_row_are_refused():
    few = LabelTable([*NAMES[:4], "x1", "x2", "x3", "x4"], {"y": ["1", "0"] * 4})
    said = (
        "4 of the table's 10 samples have a row; without one are 'TCGA-4', 'TCGA-5', 'TCGA-6' and 3 more; "
        "unused rows are 'x1', 'x2', 'x3' and 1 more; .*allow_unmatched=True"
    )
    for select in (select_labels, select_numbers):
        refused(said, select, few, "y", sample_names=NAMES)
    allowed = {"sample_names": NAMES, "allow_unmatched": True}
    assert select_labels(few, "y", **allowed).y.tolist() == ["1", "0", "1", "0"]
    assert np.isfinite(select_numbers(few, "y", **allowed)).sum() == 4
    half = LabelTable(NAMES[:5], {"y": ["1", "0", "1", "0", ""]})
    assert select_labels(half, "y", sample_names=NAMES).n_without_row == 5
    refused(
        "0 of the table's 1 samples",
        select_labels,
        half,
        "y",
        sample_names=["z"],
        allow_unmatched=True,
    )


def test_names_that_differ_by_punctuation_only_are_pointed_at():
    dotted = LabelTable([name.replace("-", ".").lower() for name in NAMES], {"y": ["1", "0"] * 5})
    said = "the same but for case, blanks, dots and dashes: 10, such as 'TCGA-0' and 'tcga.0'"
    refused(said, select_labels, dotted, "y", sample_names=NAMES)
    some = LabelTable([*NAMES[:7], "tcga 7"], {"y": ["1", "0"] * 4})
    report = select_labels(some, "y", sample_names=NAMES).report
    assert (
        "the same but for case, blanks, dots and dashes: 1, such as 'TCGA-7' and 'tcga 7'" in report
    )


def test_events_in_words():
    words = [("Dead", "ALIVE"), ("yes", "No "), ("True", "false"), ("1", "0"), ("1.0", "0")]
    for yes, no in words:
        cells = column(yes, no, "N/A", no)
        events = select_numbers(cells, "y", truth=True)
        assert np.array_equal(events, [1.0, 0.0, np.nan, 0.0], equal_nan=True)
        labels = survival_labels([1.0, 9.0, 1.0, 1.0], cells.columns["y"], 5)
        assert labels.y.tolist() == [1, 0]
        assert (labels.n_censored, labels.n_missing) == (1, 1)
    refused("'True' is not a number", select_numbers, column("True"), "y")


def test_events_in_other_words_are_listed():
    with pytest.raises(
        TableError, match=r"'y' must be 1.*there is 'relapse' \(2\), 'none yet' \(1\)"
    ):
        select_numbers(column("relapse", "none yet", "relapse"), "y", truth=True)
    refused(
        r"event must be 1.*there is '2' \(2\), '1' \(1\)",
        survival_labels,
        [1.0, 2.0, 3.0],
        [2, 1, 2],
        5,
    )


# ------------------------------------------------------------------------------------------------ survival


TIMES = st.one_of(st.just(np.nan), st.floats(0, 20))
EVENTS = st.sampled_from([0.0, 1.0, np.nan])


@given(st.lists(st.tuples(TIMES, EVENTS), max_size=30), st.floats(0.1, 15))
def test_every_sample_is_counted_once_and_labelled_by_its_rule(pairs, horizon):
    time, event = np.array(pairs).reshape(-1, 2).T
    labels = survival_labels(time, event, horizon)
    counts = (labels.n_event, labels.n_event_free, labels.n_censored, labels.n_missing)
    assert sum(counts) == len(pairs)
    assert labels.y.sum() == labels.n_event
    assert len(labels.y) == labels.keep.sum() == labels.n_event + labels.n_event_free
    for t, e, y in zip(time[labels.keep], event[labels.keep], labels.y, strict=True):
        assert (e == 1 and t <= horizon) if y else t > horizon
    edges = survival_labels([6, 6, 6.001, 6.001, 0], [1, 0, 1, 0, 1], 6)
    assert edges.keep.tolist() == [True, False, True, True, True]
    assert edges.y.tolist() == [1, 0, 0, 1]


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
    refused(said, survival_labels, time, event, horizon)


def test_the_papers_labels_of_gse2034():
    clinical = read_labels(data_file("clinical_breast_cohorts.csv"))
    gse2034 = clinical.sample_names[clinical.columns["series"] == "VDX"]
    time = select_numbers(clinical, "t.dmfs", sample_names=gse2034)
    event = select_numbers(clinical, "e.dmfs", sample_names=gse2034)
    labels = survival_labels(time, event, 6 * 365.25)
    assert (labels.n_event, labels.n_event_free, labels.n_censored) == (104, 167, 15)
    assert labels.n_missing == 0


@pytest.mark.parametrize("cell", ["N/A", "unknown", "not available", "?", "-"])
def test_a_mark_of_a_missing_label_is_no_control(cell):
    selected = select_labels(column("yes", "no", cell, "no"), "y", positive="yes")
    assert selected.keep.tolist() == [True, True, False, True]
