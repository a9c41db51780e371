"""The verdict is right on problems with a known answer; the full study is benchmarks/study_verdict.py."""

import pytest

from benchmarks.study_verdict import LISTED, UNLISTED, cases, judge


@pytest.mark.parametrize("seed", [0, 1])
def test_learning_helps_where_no_listed_target_is_the_true_one(seed):
    found = judge("two steps", seed, n_samples=800, n_features=20)
    assert (found["learning"], found["choice"]) == ("helps", "better")


@pytest.mark.parametrize("target", LISTED)
def test_learning_is_not_said_to_be_better_where_a_listed_target_is_the_true_one(target):
    found = judge(target, 0, n_samples=500, n_features=20)
    assert found["choice"] != "better"
    assert target != "uniform" or found["learning"] != "helps"  # the initial target


@pytest.mark.slow
def test_verdict_is_right_in_95_of_100_problems():
    answers = {case: judge(*case) for case in cases(100)}
    for target in UNLISTED:
        for question, answer in (("learning", "helps"), ("choice", "better")):
            assert sum(answers[target, seed][question] == answer for seed in range(100)) >= 95
    listed = [found for (target, _), found in answers.items() if target in LISTED]
    assert len(listed) == 100
    assert sum(found["choice"] == "better" for found in listed) <= 5
    initial = [found for found in listed if found["target"] == "uniform"]
    assert sum(found["learning"] == "helps" for found in initial) <= 1
