"""The verdict is right on problems with a known answer; the full study is benchmarks/study_verdict.py."""

import pytest

from benchmarks.study_verdict import LISTED, UNLISTED, cases, judge


@pytest.mark.parametrize("seed", [0, 1])
def test_learning_helps_where_no_listed_target_is_the_true_one(seed):
    assert judge("two steps", seed, n_samples=800, n_features=20)["says"] == "helps"


@pytest.mark.parametrize("target", LISTED)
def test_learning_is_not_said_to_help_where_a_listed_target_is_the_true_one(target):
    assert judge(target, 0, n_samples=500, n_features=20)["says"] != "helps"


@pytest.mark.slow
def test_verdict_is_right_in_95_of_100_problems():
    answers = {case: judge(*case)["says"] for case in cases(100)}
    for target in UNLISTED:
        assert sum(answers[target, seed] == "helps" for seed in range(100)) >= 95
    listed = [answer for (target, _), answer in answers.items() if target in LISTED]
    assert len(listed) == 100
    assert listed.count("helps") <= 5
