"""Sorting words: the networks of comparisons, and the buckets they are used on."""

import itertools

import numpy as np
import pytest
from numba import njit
from numpy.testing import assert_array_equal

from suquan._kernels.networks import comparisons, make_run_sorter, merging_comparisons
from suquan._kernels.words import (
    CELL_SORTER,
    LONGEST_RUN,
    N_COUNTS,
    SLACK,
    make_layout,
    pointer_to,
    sort_cells,
    sort_run,
)


@pytest.mark.parametrize("size", range(1, 13))
def test_the_comparisons_sort_every_sequence_of_zeros_and_ones(size):
    # which, by the 0-1 principle, means that they sort everything
    inputs = np.array(list(itertools.product([0, 1], repeat=size)))
    assert np.all(np.diff(compared(inputs, comparisons(size)), axis=1) >= 0)


@pytest.mark.parametrize("size", [1, 2, 3, 4, 6, 8, 12, 16, 24])
def test_the_merging_comparisons_sort_every_bitonic_sequence_of_zeros_and_ones(size):
    turns = itertools.combinations_with_replacement(range(size + 1), 2)
    rising = np.array([[a <= k < b for k in range(size)] for a, b in turns]).astype(int)
    inputs = np.vstack([rising, 1 - rising])
    assert np.all(np.diff(compared(inputs, merging_comparisons(size)), axis=1) >= 0)


def test_other_sizes_are_not_merged():
    with pytest.raises(ValueError, match="power of two, or three times one; got 10"):
        merging_comparisons(10)


def compared(inputs, pairs):
    """The rows of `inputs` after the comparisons."""
    for i, j in pairs:
        inputs[:, i], inputs[:, j] = (
            np.minimum(inputs[:, i], inputs[:, j]),
            np.maximum(inputs[:, i], inputs[:, j]),
        )
    return inputs


@pytest.mark.parametrize("n_registers", [1, 2, 3, 4, 6, 8, 12, 16])
def test_a_network_sorts_runs_of_every_size(n_registers):
    network = make_run_sorter(n_registers)

    @njit
    def sort(words, start, size, goal, place):
        network(pointer_to(words, start), size, pointer_to(goal, place))

    rng = np.random.default_rng(n_registers)
    for size in range(1, 16 * n_registers + 1):
        words = rng.integers(0, 2**32, 600, dtype=np.uint32)
        words[rng.random(600) < 0.2] = 0xFFFFFFFF  # which also fills the places behind the end
        goal = np.zeros(600, np.uint32)
        sort(words, 3, size, goal, 5)
        assert_array_equal(goal[5 : 5 + size], np.sort(words[3 : 3 + size]))
        assert not goal[:5].any()


def test_runs_of_every_size_are_sorted_and_others_left_alone():
    rng = np.random.default_rng(0)
    words = rng.integers(0, 2**32, LONGEST_RUN + SLACK, dtype=np.uint32)
    before = words.copy()
    for size in range(1, LONGEST_RUN + 1):
        goal = np.zeros(LONGEST_RUN + SLACK + 10, np.uint32)
        sort_run(words, 0, size, goal, 10)
        assert_array_equal(goal[10 : 10 + size], np.sort(words[:size]))
    assert_array_equal(words, before)


def sorted_positions(cells, gives_up=False):
    """Positions in the order that sort_cells gives, None where it gives up."""
    spread, goal = (np.empty(cells.size + SLACK, np.uint32) for _ in range(2))
    layout = make_layout(cells.size)
    assert cells.max() < 2**layout.cell_bits
    counts = np.empty(N_COUNTS, np.uint32)
    if not sort_cells(CELL_SORTER.address, cells.copy(), layout, gives_up, counts, spread, goal):
        return None
    return goal[: cells.size] & ((1 << layout.position_bits) - 1)


SIZES = [1, 2, 16, 17, 255, 256, 257, 1000, 3000, 22_283, 65_535, 65_536]


@pytest.mark.parametrize("size", SIZES)
def test_cells_are_sorted_stably(size):
    cell_bits = make_layout(size).cell_bits
    rng = np.random.default_rng(size)
    spread = rng.integers(0, 2**cell_bits, size)
    middle = 2 ** (cell_bits - 1) + rng.integers(0, 2**12, size)  # in one bucket
    for cells in (
        spread,
        np.sort(spread)[::-1],
        rng.integers(0, 5, size),  # all in the first bucket
        np.full(size, 2**cell_bits - 1),
        np.where(rng.random(size) < 0.6, 7, spread),
        middle,
        np.where(rng.random(size) < 0.6, 2 ** (cell_bits - 1) + 2**11, middle),
    ):
        expected = np.argsort(cells, kind="stable")
        assert_array_equal(sorted_positions(cells.astype(np.uint32)), expected)


def test_a_large_bucket_out_of_order_makes_it_give_up_if_asked():
    in_one_bucket = np.random.default_rng(0).integers(0, 2**10, 5000).astype(np.uint32)
    assert sorted_positions(in_one_bucket, gives_up=True) is None
    assert_array_equal(sorted_positions(np.sort(in_one_bucket), gives_up=True), np.arange(5000))


def test_many_values_in_one_cell_are_no_reason_to_give_up():
    rng = np.random.default_rng(0)
    cells = np.full(5000, 2**20, np.uint32)
    some = rng.choice(5000, 200, replace=False)
    cells[some] += rng.integers(-(2**12), 2**12, 200).astype(np.uint32)  # in the same bucket
    assert_array_equal(sorted_positions(cells, gives_up=True), np.argsort(cells, kind="stable"))
