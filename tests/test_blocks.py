"""Blocks of rows on threads."""

import os
import threading

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import suquan
from suquan._blocks import for_each_block, over_blocks, row_blocks

SHAPE = (40, 100_000)


def test_blocks_cover_every_row_once_and_come_in_order():
    rows = for_each_block(lambda rows: (rows.start, rows.stop), SHAPE, n_jobs=3)
    assert rows == [(rows.start, rows.stop) for rows in row_blocks(*SHAPE)]
    assert len(rows) > 3
    assert [i for start, stop in rows for i in range(start, stop)] == list(range(SHAPE[0]))


def test_blocks_inside_a_block_do_not_wait_for_each_other():
    def inner_sum(_):
        return sum(over_blocks(lambda rows: np.full(SHAPE[1], rows.start), SHAPE, n_jobs=2))

    totals = for_each_block(inner_sum, SHAPE, n_jobs=2)
    for total in totals:
        assert_array_equal(total, totals[0])


@pytest.mark.parametrize("shape", [(5, 1 << 19), (5, 70_000), (300, 3_000)])
def test_sums_are_the_same_at_any_number_of_threads(shape):
    X = np.random.default_rng(0).normal(size=shape)
    one, two = (sum(over_blocks(lambda rows: X[rows].sum(axis=0), shape, n)) for n in (1, 2))
    assert_array_equal(two, one)
    assert_allclose(one, X.sum(axis=0), atol=1e-12)


def test_an_error_in_one_block_is_raised_and_the_threads_go_on():
    def fail(rows):
        if rows.start:
            raise RuntimeError("in a block")

    with pytest.raises(RuntimeError, match="in a block"):
        for_each_block(fail, SHAPE, n_jobs=2)
    assert len(for_each_block(lambda rows: rows, SHAPE, n_jobs=2)) == len(list(row_blocks(*SHAPE)))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_process_has_threads_of_its_own():
    X = np.random.default_rng(0).normal(size=SHAPE)
    expected = suquan.quantile_normalize(X, "mean", n_jobs=2)
    child = os.fork()
    if child == 0:
        same = np.array_equal(suquan.quantile_normalize(X, "mean", n_jobs=2), expected)
        os._exit(0 if same else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_several_threads_may_call_at_once():
    X = np.random.default_rng(0).normal(size=SHAPE)
    expected = suquan.quantile_normalize(X, "mean", n_jobs=1)
    results = [None] * 4

    def normalize(k):
        results[k] = suquan.quantile_normalize(X, "mean", n_jobs=2)

    callers = [threading.Thread(target=normalize, args=(k,)) for k in range(4)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    for result in results:
        assert_array_equal(result, expected)
