"""Radix ranking of the rows of a matrix.

A row is ranked in two steps that compare no more than a few neighbours:

1. Every value gets an integer *cell*, a non-decreasing function of the value, and the features are sorted
   by a stable radix sort on the cell.
2. Insertion puts values that share a cell in order; equal values stay in order of position.

Two kinds of cells are tried. *Linear* cells split the row's range evenly: two light passes are enough for most
data. Where many unequal values share a cell (heavy tails), insertion gives up after a few moves and *bit*
cells are used: the leading 32 varying bits of the value's binary form. Where even those collide for long
runs, the remaining low bits are sorted first. All three give the same, exact order.

Rows come with ``bits``, their view as signed integers (the row itself for integer data), with ``flip``, the
mask that turns the bits of a negative float into an integer that sorts like the float (2³¹ − 1 for
float32, 2⁶³ − 1 for float64, 0 for integers), and with ``inf_key``, the sortable key of +∞.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import float64, int32, int64, uint32, uint64

from suquan._kernels._jit import kernel

_LOW = uint64(0xFFFFFFFF)
_HALF = uint64(32)

# Features up to this many fit the 16 bits left beside a cell's upper half in the narrow sort.
_NARROW = 65536
# After linear cells failed on a row, the next ones start with bit cells; one in this many tries again.
RETRY_EVERY = 16


@kernel
def sortable(bit, flip):
    """Signed integer that sorts like the value; −0.0 and +0.0 give the same one."""
    key = int64(bit)
    key = key ^ ((key >> int64(63)) & flip)
    if flip != 0 and key == -1:  # only −0.0 has this key
        key = int64(0)
    return key


@kernel
def key_range(bits, flip):
    """Smallest and largest :func:`sortable` key of a row; NaNs lie beyond the infinities' keys."""
    low = int64(0x7FFFFFFFFFFFFFFF)
    high = -low - 1
    for j in range(bits.size):  # without the rule for −0.0 this loop is vectorised
        key = int64(bits[j])
        key = key ^ ((key >> int64(63)) & flip)
        low = min(low, key)
        high = max(high, key)
    if flip != 0 and low == -1:
        low = int64(0)
    if flip != 0 and high == -1:
        high = int64(0)
    return low, high


@kernel
def value_of_key(key, bits, x, flip):
    """Value, as float64, whose :func:`sortable` key is `key`; `bits` and `x` only give the types."""
    cell = np.empty(1, bits.dtype)
    cell[0] = key ^ ((key >> int64(63)) & flip)
    return float64(cell.view(x.dtype)[0])


@kernel
def radix_sort(pairs, spare, counts, size, n_bits):
    """Sort ``pairs[:size]`` by their upper half, of which the lowest `n_bits` bits vary; stable.

    Returns whether the sorted pairs ended in `spare` instead of `pairs`.
    """
    widest = 8 if size < 4096 else 11
    n_passes = (n_bits + widest - 1) // widest
    if n_passes == 0:
        return False
    width = (n_bits + n_passes - 1) // n_passes
    n_buckets = 1 << width
    mask = uint64(n_buckets - 1)
    source = pairs
    goal = spare
    swapped = False
    for k in range(n_passes):
        shift = uint64(32 + k * width)
        for r in range(n_buckets):
            counts[r] = uint32(0)
        for j in range(size):
            counts[(source[j] >> shift) & mask] += uint32(1)
        if counts[(source[0] >> shift) & mask] == size:
            continue  # all in one bucket: nothing to move
        start = uint32(0)
        for r in range(n_buckets):
            count = counts[r]
            counts[r] = start
            start += count
        for j in range(size):
            pair = source[j]
            bucket = (pair >> shift) & mask
            place = counts[bucket]
            counts[bucket] = place + uint32(1)
            goal[uint64(place)] = pair
        source, goal = goal, source
        swapped = not swapped
    return swapped


@kernel
def narrow_sort(cells, spare, counts, size, width, order):
    """Order of at most 65,536 `cells` of 2·`width` bits, in two passes over 32-bit words.

    The first pass sorts by the lower half and leaves (upper half, feature) in one word; the second needs no
    more than that. Half the memory traffic of :func:`radix_sort` on pairs of 64 bits.
    """
    n_buckets = 1 << width
    mask = uint32(n_buckets - 1)
    half = uint32(width)
    sixteen = uint32(16)
    lower = counts[:n_buckets]
    upper = counts[n_buckets : 2 * n_buckets]
    for r in range(n_buckets):
        lower[r] = uint32(0)
        upper[r] = uint32(0)
    for j in range(size):
        cell = cells[j]
        lower[uint64(cell & mask)] += uint32(1)
        upper[uint64(cell >> half)] += uint32(1)
    lower_start = uint32(0)
    upper_start = uint32(0)
    for r in range(n_buckets):
        count = lower[r]
        lower[r] = lower_start
        lower_start += count
        count = upper[r]
        upper[r] = upper_start
        upper_start += count
    for j in range(size):
        cell = cells[j]
        bucket = uint64(cell & mask)
        place = lower[bucket]
        lower[bucket] = place + uint32(1)
        spare[uint64(place)] = ((cell >> half) << sixteen) | uint32(j)
    for j in range(size):
        word = spare[j]
        bucket = uint64(word >> sixteen)
        place = upper[bucket]
        upper[bucket] = place + uint32(1)
        order[uint64(place)] = word & uint32(0xFFFF)


@kernel
def settle(x, order, size, values):
    """Make ``values = x[order]`` non-decreasing by stable insertion, given that it nearly is.

    Returns False, with both unfinished, once there were more moves than half the elements.
    """
    moves_left = 16 + size // 2
    highest = x[uint64(order[0])]
    values[0] = highest
    for j in range(1, size):
        feature = order[j]
        value = x[uint64(feature)]
        values[j] = value
        if value < highest:
            hole = j
            while hole > 0 and values[hole - 1] > value:
                order[hole] = order[hole - 1]
                values[hole] = values[hole - 1]
                hole -= 1
            order[hole] = feature
            values[hole] = value
            moves_left -= j - hole
            if moves_left < 0:
                return False
        else:
            highest = value
    return True


@kernel
def order_by_linear_cells(x, low, high, scratch, order):
    """Order of a row by cells that split [low, high] evenly; False where they do not separate it."""
    size = x.size
    pairs, spare, counts = scratch.pairs, scratch.spare, scratch.counts
    if size < 2048:
        n_bits = 16
    elif size < 32768:
        n_bits = 18
    elif size <= _NARROW:
        n_bits = 20
    elif size < 1048576:
        n_bits = 22
    else:
        n_bits = 30
    span = high - low
    if not 0.0 < span < np.inf:  # 0: large integers that are equal as float64
        return False
    scale = float64((1 << n_bits) - 1) / span
    if not scale < np.inf:  # the span is denormal
        return False
    if size <= _NARROW:
        cells = scratch.cells
        for j in range(size):
            cells[j] = uint32(int32((float64(x[j]) - low) * scale))
        narrow_sort(cells, scratch.words, counts, size, n_bits // 2, order)
    else:
        for j in range(size):
            cell = uint64(uint32(int32((float64(x[j]) - low) * scale)))
            pairs[j] = (cell << _HALF) | uint64(j)
        swapped = radix_sort(pairs, spare, counts, size, n_bits)
        write_features(spare if swapped else pairs, size, order)
    return settle(x, order, size, scratch.sorted)


@kernel
def write_features(pairs, size, order):
    """Write the lower halves of `pairs` to `order`."""
    for j in range(size):
        order[j] = uint32(pairs[j] & _LOW)


@kernel
def order_by_bit_cells(x, bits, flip, low, high, scratch, order):
    """Order of a row, whose keys span [low, high], by the leading varying bits of its values."""
    size = x.size
    pairs, spare, counts = scratch.pairs, scratch.spare, scratch.counts
    span = uint64(high) - uint64(low)
    n_bits = 0
    while n_bits < 64 and (span >> uint64(n_bits)) != 0:
        n_bits += 1
    shift = uint64(max(n_bits - 32, 0))
    for j in range(size):
        cell = (uint64(sortable(bits[j], flip)) - uint64(low)) >> shift
        pairs[j] = (cell << _HALF) | uint64(j)
    swapped = radix_sort(pairs, spare, counts, size, min(n_bits, 32))
    write_features(spare if swapped else pairs, size, order)
    if settle(x, order, size, scratch.sorted):
        return
    # Long runs share their leading bits: sort by the low bits, then, stably, by the leading ones.
    low_mask = (uint64(1) << shift) - uint64(1)
    for j in range(size):
        cell = (uint64(sortable(bits[j], flip)) - uint64(low)) & low_mask
        pairs[j] = (cell << _HALF) | uint64(j)
    if radix_sort(pairs, spare, counts, size, n_bits - 32):
        pairs, spare = spare, pairs
    for j in range(size):
        feature = pairs[j] & _LOW
        cell = (uint64(sortable(bits[feature], flip)) - uint64(low)) >> shift
        pairs[j] = (cell << _HALF) | feature
    swapped = radix_sort(pairs, spare, counts, size, 32)
    write_features(spare if swapped else pairs, size, order)
    for j in range(size):
        scratch.sorted[j] = x[uint64(order[j])]


class Scratch(NamedTuple):
    """Working space for rows of one length, used by one thread."""

    pairs: np.ndarray  # uint64: cell in the upper half, feature in the lower
    spare: np.ndarray  # uint64
    cells: np.ndarray  # uint32
    words: np.ndarray  # uint32: upper half of a cell, feature
    counts: np.ndarray  # uint32, one per bucket
    order: np.ndarray  # uint32
    sorted: np.ndarray  # values of the row in that order
    values: np.ndarray  # observed values of a row with gaps
    bits: np.ndarray  # and their bits
    where: np.ndarray  # uint32: their features


@kernel
def make_scratch(X, bits):
    """Working space for the rows of `X`."""
    n_features = X.shape[1]
    return Scratch(
        np.empty(n_features, np.uint64),
        np.empty(n_features, np.uint64),
        np.empty(min(n_features, _NARROW), np.uint32),
        np.empty(min(n_features, _NARROW), np.uint32),
        np.empty(2048, np.uint32),
        np.empty(n_features, np.uint32),
        np.empty(n_features, X.dtype),
        np.empty(n_features, X.dtype),
        np.empty(n_features, bits.dtype),
        np.empty(n_features, np.uint32),
    )


@kernel
def order_complete_row(x, bits, flip, low, high, try_linear, scratch, order):
    """Stable order of one row without NaN, whose keys span [low, high].

    Returns whether linear cells separated the row.
    """
    if low == high:
        for j in range(x.size):
            order[j] = uint32(j)
            scratch.sorted[j] = x[j]
        return try_linear
    if try_linear:
        lowest = value_of_key(low, bits, x, flip)
        highest = value_of_key(high, bits, x, flip)
        if order_by_linear_cells(x, lowest, highest, scratch, order):
            return True
    order_by_bit_cells(x, bits, flip, low, high, scratch, order)
    return False


@kernel
def order_row(x, bits, flip, inf_key, try_linear, scratch):
    """Order of one row in ``scratch.order``: observed values increasing, then the NaNs by position.

    The observed values themselves are left, in that order, in ``scratch.sorted``. Returns the number of
    observed values and whether linear cells separated the row.
    """
    order = scratch.order
    low, high = key_range(bits, flip)
    if low >= ~inf_key and high <= inf_key:
        return x.size, order_complete_row(x, bits, flip, low, high, try_linear, scratch, order)
    values, value_bits, where = scratch.values, scratch.bits, scratch.where
    n_observed = 0
    n_missing = 0
    for j in range(x.size):
        if x[j] == x[j]:
            values[n_observed] = x[j]
            value_bits[n_observed] = bits[j]
            where[n_observed] = j
            n_observed += 1
    if n_observed > 0:
        seen = values[:n_observed]
        seen_bits = value_bits[:n_observed]
        low, high = key_range(seen_bits, flip)
        try_linear = order_complete_row(
            seen, seen_bits, flip, low, high, try_linear, scratch, order
        )
        for r in range(n_observed):
            order[r] = where[order[r]]
    for j in range(x.size):
        if x[j] != x[j]:
            order[n_observed + n_missing] = j
            n_missing += 1
    return n_observed, try_linear


@kernel
def rank_rows(X, bits, flip, inf_key, order, ranks, n_observed):
    """Order of every row of `X` and its inverse; counts of the values that are not NaN."""
    scratch = make_scratch(X, bits)
    narrow = np.empty(min(X.shape[1], _NARROW), np.uint16)
    linear = True
    for i in range(X.shape[0]):
        try_linear = linear or i % RETRY_EVERY == 0
        n_observed[i], linear = order_row(X[i], bits[i], flip, inf_key, try_linear, scratch)
        found, order_of_row, ranks_of_row = scratch.order, order[i], ranks[i]
        for r in range(found.size):
            order_of_row[r] = found[r]
        if found.size <= _NARROW:  # scatter inside the cache, then write in order
            for r in range(found.size):
                narrow[uint64(found[r])] = np.uint16(r)
            for j in range(found.size):
                ranks_of_row[j] = narrow[j]
        else:
            for r in range(found.size):
                ranks_of_row[uint64(found[r])] = r
