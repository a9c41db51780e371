"""Splitting of long rows: parts that follow each other in value, and what comes back from them."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from suquan import rank_samples
from suquan._kernels.splitting import (
    join_order,
    join_ranks,
    make_parts,
    room_for_parts,
    split_by_counts,
    split_by_looks,
    split_size,
)

P = 300_001
FLIP = 2**63 - 1


def normal_row(seed=0):
    return np.random.default_rng(seed).normal(size=P)


def unlike_its_looks(seed=0):
    """A row whose values at multiples of 128, which are looked at, spread far more than the others."""
    x = normal_row(seed)
    x[::128] *= 1e4
    return x


def with_a_value_of_its_own_part(seed=0):
    """A row in which one value takes more than a part has room for."""
    x = normal_row(seed)
    x[np.random.default_rng(seed).random(P) < 0.7] = 0.25
    return x


def with_values_beyond_its_looks(seed=0):
    """A row whose ends, infinite ones too, are none of the values that are looked at."""
    x = normal_row(seed)
    x[[1, 130, 777]] = [-1e30, np.inf, -np.inf]
    return x


ROWS = [normal_row, unlike_its_looks, with_a_value_of_its_own_part, with_values_beyond_its_looks]


def key(x):
    """Integer that sorts like the float."""
    bits = np.float64(x).view(np.int64)
    return bits ^ ((bits >> 63) & FLIP)


def split(x, how):
    parts = make_parts(np.zeros(split_size(x.size, 8), np.int64), x.size)
    values = np.full(room_for_parts(x.size), np.nan)
    if how == "looks":
        return split_by_looks(x, values, parts), values, parts
    observed = x[~np.isnan(x)]
    low, high, ends = key(observed.min()), key(observed.max()), np.empty(2, np.int64)
    return split_by_counts(x, low, high, FLIP, ends, values, parts), values, parts


def assert_split(x, n_parts, values, parts):
    """Parts hold the row's values in its order, and follow each other; the last one has the NaNs."""
    ids, starts = parts.ids, parts.starts[: n_parts + 1]
    assert starts[0] == 0
    assert starts[-1] == x.size
    assert_array_equal(np.diff(starts), np.bincount(ids, minlength=n_parts))
    before = -np.inf
    for k in range(n_parts):
        begin = parts.begins[k]
        found = values[begin : begin + starts[k + 1] - starts[k]]
        assert_array_equal(found, x[ids == k])
        if k < n_parts - 1 and found.size > 0:
            assert found.min() >= before
            before = found.max()
    assert_array_equal(ids == n_parts - 1, np.isnan(x))


@pytest.mark.parametrize("make", [normal_row, with_values_beyond_its_looks])
def test_a_few_looks_split_a_row_into_parts_of_like_size(make):
    x = make()
    n_parts, values, parts = split(x, "looks")
    assert 10 <= n_parts <= 13
    assert np.diff(parts.starts[:n_parts])[:-1].min() > 25_000
    assert_split(x, n_parts, values, parts)


@pytest.mark.parametrize("make", [unlike_its_looks, with_a_value_of_its_own_part])
def test_parts_without_room_are_seen(make):
    assert split(make(), "looks")[0] == 0


def test_missing_values_are_seen():
    x = normal_row()
    x[P // 2 + 1] = np.nan
    assert split(x, "looks")[0] == 0


@pytest.mark.parametrize("gaps", [0.0, 0.1])
@pytest.mark.parametrize("make", ROWS)
def test_counting_splits_any_row(make, gaps):
    x = make()
    x[np.random.default_rng(1).random(P) < gaps] = np.nan
    n_parts, values, parts = split(x, "counts")
    assert n_parts > 3
    assert_split(x, n_parts, values, parts)


@pytest.mark.parametrize("value", [3.0, np.inf])
def test_a_constant_row_is_one_part(value):
    x = np.full(P, value)
    n_parts, values, parts = split(x, "counts")
    assert n_parts == 2
    assert_split(x, n_parts, values, parts)


def test_ranks_of_parts_are_those_of_the_row():
    x = normal_row()
    n_parts, values, parts = split(x, "looks")
    expected = np.argsort(x, kind="stable")
    ranks = np.empty(P, np.int64)
    ranks[expected] = np.arange(P)
    for k in range(n_parts):
        parts.ranks[parts.starts[k] : parts.starts[k + 1]] = ranks[parts.ids == k]
    found, order = np.empty(P, np.uint32), np.empty(P, np.uint32)
    join_ranks(parts, n_parts, found)
    assert_array_equal(found, ranks)
    join_order(parts, n_parts, order)
    assert_array_equal(order, expected)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_rows_that_are_split_in_different_ways_follow_each_other(dtype):
    X = np.stack([make(seed) for seed in range(2) for make in ROWS]).astype(dtype)
    ranks, order = rank_samples(X)
    assert_array_equal(order, np.argsort(X, axis=1, kind="stable"))
    places = np.broadcast_to(np.arange(P), X.shape)
    assert_array_equal(np.take_along_axis(ranks, order.astype(np.int64), axis=1), places)
