"""Ordering the values of rows.

A row is ordered in three steps that compare no more than a few neighbours:

1. Every value gets an integer *cell*, a non-decreasing function of the value.
2. The positions are sorted by cell, see :mod:`suquan._kernels.words`.
3. Insertion puts values that share a cell in order; equal values stay in order of position.

Where many unequal values share a cell, insertion gives up after a few moves, and a radix sort on *bit* cells is
used instead: the leading 32 varying bits of the value's binary form. Where even those collide for long runs,
the remaining low bits are sorted first. Rows too long for the cache are first split into parts that follow
each other in value, see :mod:`suquan._kernels.splitting`. All give the same, exact order, with NaN last.

Rows come with ``bits``, ``flip`` and ``inf_key``, see :mod:`suquan._kernels.cells`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import uint32, uint64

from suquan._kernels._jit import kernel
from suquan._kernels.cells import (
    GAP,
    decode_range,
    key_range,
    make_cell_map,
    map_numbers,
    observed_range,
    sortable_or_last,
    write_cells,
)
from suquan._kernels.splitting import (
    join_order,
    join_ranks,
    make_parts,
    room_for_parts,
    split_by_counts,
    split_by_looks,
    split_size,
)
from suquan._kernels.words import (
    LONGEST_RUN,
    N_COUNTS,
    PITCH,
    SLACK,
    count_position_bits,
    make_layout,
    sort_cells,
    sort_spread_words,
)

_LOW = uint64(0xFFFFFFFF)
_HALF = uint64(32)

# Longest row that NumPy sorts, in words that leave 23 bits for the cell.
SHORT = 512
# Longest row whose cells are sorted in every way; its places fit 16 bits. Longer ones are split, but up to the
# second length only where buckets of a fixed room did not do.
LONGEST = 65536
_LONGEST_UNSPLIT = 262144
# Kinds of cells: evenly spread, in buckets of a fixed room at first; with a centre of more cells; from the bits
# of the values.
ROOMY, EVEN, CENTRED, BITS = 0, 1, 2, 3
# What comes of settling.
FAILED, DISTINCT, TIED = 0, 1, 2
# Values whose cells are computed before they are brought to their buckets.
_SOME = 1024
# After a kind failed on a row, the next ones start with another; one in this many starts anew.
_RETRY_EVERY = 16
# Values that are checked at a time when a row is settled.
_STRETCH = 64
# What is known of the rows before: the kind of cells to start with, rows since it was set back, and long rows
# to be counted and split before another way is tried. Two more integers of 8 bytes are for the ends of a range.
KIND, N_ROWS, WAIT = 0, 1, 2
_N_KNOWN = 5


@kernel
def write_words(X, bits, flip, inf_key, words):
    """Words (cell, position) of every row; NaN has the highest cell, and no other value has."""
    ends = np.empty(2, bits.dtype)
    position_bits = count_position_bits(X.shape[1])
    for i in range(X.shape[0]):
        goal = words[i]
        low, high, n_observed = observed_range(bits[i], flip, inf_key)
        write_cells(X[i], low, high, flip, False, 32 - position_bits, ends, goal)
        for j in range(goal.size):
            goal[j] = (goal[j] << uint32(position_bits)) | uint32(j)


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
def write_features(pairs, size, order):
    """Write the lower halves of `pairs` to `order`."""
    for j in range(size):
        order[j] = uint32(pairs[j] & _LOW)


@kernel
def gather(x, order, values):
    """Write ``x[order]`` to `values`."""
    for r in range(order.size):
        values[r] = x[uint64(order[r])]


@kernel
def increases(values):
    """Whether every value is larger than the one before."""
    n_others = uint32(0)
    for r in range(values.size - 1):
        n_others += uint32(0) if values[r] < values[r + 1] else uint32(1)
    return n_others == 0


@kernel
def repeats(values):
    """Whether any value equals the one before."""
    n_equal = uint32(0)
    for r in range(values.size - 1):
        n_equal += uint32(1) if values[r] == values[r + 1] else uint32(0)
    return n_equal > 0


@kernel
def settle(order, values):
    """Make `values` non-decreasing by stable insertion, and move `order` along, given that they nearly are.

    Returns FAILED, with both left unfinished, where that takes more moves than half the elements; else whether
    the values are DISTINCT or some TIED.
    """
    size = order.size
    moves_left = 16 + size // 2
    state = DISTINCT
    for start in range(1, size, _STRETCH):
        stop = min(start + _STRETCH, size)
        if increases(values[start - 1 : stop]):
            continue
        if descends(values[start - 1 : stop]):
            n_moves, ties = insert(order, values, start, stop, moves_left)
            moves_left -= n_moves
            if moves_left < 0:
                return FAILED
            if ties:
                state = TIED
        else:
            state = TIED
    return state


@kernel
def insert(order, values, start, stop, most):
    """Insert the places from `start` to `stop` among those before, which are in order; equal values stay.

    Returns the number of moves, of which there are hardly more than `most`: then the work is left undone; and
    whether a value was seen to equal its neighbour.
    """
    n_moves = 0
    ties = False
    for r in range(start, stop):
        value = values[r]
        if value < values[r - 1]:
            feature = order[r]
            hole = r
            while hole > 0 and values[hole - 1] > value:
                order[hole] = order[hole - 1]
                values[hole] = values[hole - 1]
                hole -= 1
            order[hole] = feature
            values[hole] = value
            n_moves += r - hole
            ties = ties or (hole > 0 and values[hole - 1] == value)
            if n_moves > most:
                break
        elif value == values[r - 1]:
            ties = True
    return n_moves, ties


@kernel
def descends(values):
    """Whether any value is smaller than the one before."""
    n_descents = uint32(0)
    for r in range(values.size - 1):
        n_descents += uint32(1) if values[r + 1] < values[r] else uint32(0)
    return n_descents > 0


class Scratch(NamedTuple):
    """Working space for rows of one length, used by one thread, and the order of the last of them."""

    sorter: int  # address of the sorter of cells
    known: np.ndarray  # int64, of the rows before: see KIND, N_ROWS and WAIT
    ends: np.ndarray  # two values as bits
    counts: np.ndarray  # uint32, for the buckets
    order: np.ndarray  # uint32
    values: np.ndarray  # of the row in that order
    words: np.ndarray  # uint32
    sorted_words: np.ndarray  # uint32
    split: np.ndarray  # int64: memory for splitting long rows


@kernel
def scratch_sizes(n_features, item_size):
    """What the parts of the memory of a :class:`Scratch` hold, in numbers of 8 bytes.

    First what is known of the rows before (which is zero at first), then arrays as they stand there, from the
    counts on.
    """
    n_unsplit = n_features if n_features <= _LONGEST_UNSPLIT else LONGEST
    n_values = n_features if n_features <= _LONGEST_UNSPLIT else room_for_parts(n_features)
    return (
        _N_KNOWN,
        N_COUNTS // 2 + 1,
        n_features // 2 + 1,
        n_values * item_size // 8 + 1,
        (max(n_unsplit, room_for_buckets(n_unsplit)) + SLACK) // 2 + 1,
        (n_unsplit + SLACK) // 2 + 1,
        split_size(n_features, item_size) if n_features > LONGEST else 0,
    )


@kernel
def part_of(memory, sizes, k):
    """The k-th of consecutive parts of `memory`."""
    start = 0
    for i in range(k):
        start += sizes[i]
    return memory[start : start + sizes[k]]


@kernel
def make_scratch(X, bits, sorter, memory):
    """Working space for the rows of `X` in `memory`, an array of int64; `sorter` is an address."""
    n_features = X.shape[1]
    sizes = scratch_sizes(n_features, X.itemsize)
    known = part_of(memory, sizes, 0)
    return Scratch(
        sorter,
        known[:3],
        known[3:].view(bits.dtype)[:2],
        part_of(memory, sizes, 1).view(np.uint32),
        part_of(memory, sizes, 2).view(np.uint32)[:n_features],
        part_of(memory, sizes, 3).view(X.dtype),
        part_of(memory, sizes, 4).view(np.uint32),
        part_of(memory, sizes, 5).view(np.uint32),
        part_of(memory, sizes, 6),
    )


@kernel
def order_by_bit_cells(x, bits, flip, inf_key, low, high, n_observed, scratch, order, values):
    """Order of a row, whose observed keys span [low, high], by the leading varying bits of its values."""
    size = x.size
    counts = scratch.counts
    pairs = np.empty(size, np.uint64)  # cell in the upper half, feature in the lower
    spare = np.empty(size, np.uint64)
    last = high if n_observed == size else inf_key + GAP
    span = uint64(last) - uint64(low)
    n_bits = 0
    while n_bits < 64 and (span >> uint64(n_bits)) != 0:
        n_bits += 1
    shift = uint64(max(n_bits - 32, 0))
    for j in range(size):
        cell = (uint64(sortable_or_last(bits[j], flip, inf_key)) - uint64(low)) >> shift
        pairs[j] = (cell << _HALF) | uint64(j)
    swapped = radix_sort(pairs, spare, counts, size, min(n_bits, 32))
    write_features(spare if swapped else pairs, size, order)
    gather(x, order[:n_observed], values[:n_observed])
    if settle(order[:n_observed], values[:n_observed]) != FAILED:
        return
    # Long runs share their leading bits: sort by the low bits, then, stably, by the leading ones.
    low_mask = (uint64(1) << shift) - uint64(1)
    for j in range(size):
        cell = (uint64(sortable_or_last(bits[j], flip, inf_key)) - uint64(low)) & low_mask
        pairs[j] = (cell << _HALF) | uint64(j)
    if radix_sort(pairs, spare, counts, size, n_bits - 32):
        pairs, spare = spare, pairs
    for j in range(size):
        feature = pairs[j] & _LOW
        cell = (uint64(sortable_or_last(bits[feature], flip, inf_key)) - uint64(low)) >> shift
        pairs[j] = (cell << _HALF) | feature
    swapped = radix_sort(pairs, spare, counts, size, 32)
    write_features(spare if swapped else pairs, size, order)
    gather(x, order[:n_observed], values[:n_observed])


@kernel
def order_row(x, bits, flip, inf_key, words, i, scratch):
    """Order of row i in ``scratch.order``: observed values increasing, then the NaNs by position.

    The observed values themselves are left, in that order, in ``scratch.values``. Sorted `words` are used if
    there are any. Returns the number of observed values and whether two of them tie.
    """
    n_observed, tied, n_parts = order_row_in_parts(x, bits, flip, inf_key, words, i, scratch)
    join_row(scratch, n_parts)
    return n_observed, tied


@kernel
def order_row_in_parts(x, bits, flip, inf_key, words, i, scratch):
    """What :func:`order_row` does, but a row that was split is left in parts with ranks, not with an order.

    Returns the number of parts too, 0 for a row that was not split; see :func:`join_row` and
    :func:`write_ranks`.
    """
    order, values = scratch.order, scratch.values[: x.size]
    if words.shape[0] > 0 and not ends_with_nan(words[i]):
        read_positions(words[i], order)
        gather(x, order, values)
        state = DISTINCT if increases(values) else settle(order, values)
        if state != FAILED:
            return x.size, state == TIED, 0
    if x.size > LONGEST:
        return order_long_row(x, bits, flip, inf_key, scratch)
    low, high, n_observed = observed_range(bits, flip, inf_key)
    tied = order_segment(x, bits, flip, inf_key, low, high, n_observed, scratch, order, values)
    return n_observed, tied, 0


@kernel
def ends_with_nan(words):
    """Whether the last of a row's sorted words has the highest cell, which is that of NaN."""
    position_bits = uint32(count_position_bits(words.size))
    highest = (uint32(1) << (uint32(32) - position_bits)) - uint32(1)
    return words[-1] >> position_bits == highest


@kernel
def read_positions(words, order):
    """Write the positions that `words` hold in their lowest bits to `order`."""
    mask = (uint32(1) << uint32(count_position_bits(order.size))) - uint32(1)
    for r in range(order.size):
        order[r] = words[r] & mask


@kernel
def room_for_buckets(size):
    """Words that the buckets of rows of up to `size` values have room for."""
    return make_layout(size).n_buckets * PITCH


@kernel
def spread_values(x, low, high, flip, layout, scratch, cells):
    """Bring the words of a row without NaN, whose keys span [low, high], to buckets of LONGEST_RUN words each.

    The words are in `scratch.words`, the sizes of the buckets in `scratch.counts`; `cells` is working space.
    Returns whether the buckets are several and have room enough.
    """
    if layout.n_buckets == 1:
        return False
    counts, spread = scratch.counts, scratch.words
    n_cells = (1 << layout.cell_bits) - 1
    lowest, highest = decode_range(x, low, high, flip, scratch.ends)
    cell_map, fits = make_cell_map(x, lowest, highest, n_cells, False)
    if not fits:
        return False
    for b in range(layout.n_buckets):
        counts[b] = uint32(0)
    for start in range(0, x.size, _SOME):
        some = x[start : start + _SOME]
        of_some = cells[: some.size]
        map_numbers(some, cell_map, of_some)
        fill_buckets(of_some, uint32(start), layout, counts, spread)
    largest = uint32(0)
    for b in range(layout.n_buckets):
        largest = max(largest, counts[b])
    return largest <= LONGEST_RUN


@kernel
def fill_buckets(cells, first, layout, counts, spread):
    """Bring the words of some `cells`, at positions from `first` on, to their buckets.

    Words beyond a bucket's room overwrite others in it; `counts` goes on.
    """
    shift, low_bits = uint32(32 - layout.low_bits), uint64(layout.low_bits)
    within = uint32(LONGEST_RUN - 1)
    for j in range(cells.size):
        cell = cells[j]
        bucket = uint64(cell) >> low_bits
        place = counts[bucket]
        counts[bucket] = place + uint32(1)
        at = bucket * uint64(PITCH) + uint64(place & within)
        spread[at] = (cell << shift) | (first + uint32(j))


@kernel
def order_by_cells(x, low, high, flip, n_observed, kind, scratch, order, values):
    """What :func:`order_segment` does, by even or centred cells; returns what :func:`settle` does."""
    layout = make_layout(x.size)
    if kind == ROOMY:
        if n_observed < x.size or not spread_values(x, low, high, flip, layout, scratch, order):
            return FAILED
        sort_spread_words(
            scratch.sorter, x, layout, scratch.counts, scratch.words, scratch.sorted_words
        )
        read_positions(scratch.sorted_words, order)
        gather(x, order, values)
        return settle(order, values)
    if not write_cells(x, low, high, flip, kind == CENTRED, layout.cell_bits, scratch.ends, order):
        return FAILED
    if not sort_cells(
        scratch.sorter,
        order,
        layout,
        kind == EVEN,
        scratch.counts,
        scratch.words,
        scratch.sorted_words,
    ):
        return FAILED
    read_positions(scratch.sorted_words, order)
    gather(x, order[:n_observed], values[:n_observed])
    return settle(order[:n_observed], values[:n_observed])


@kernel
def order_segment(x, bits, flip, inf_key, low, high, n_observed, scratch, order, values):
    """Order of a row, or a part of one, whose observed keys span [low, high], and its values in that order.

    Returns whether values tie.
    """
    if low == high and n_observed == x.size:
        for r in range(x.size):
            order[r] = uint32(r)
            values[r] = x[r]
        return x.size > 1
    known = scratch.known
    if known[N_ROWS] % _RETRY_EVERY == 0:
        known[KIND] = ROOMY
    known[N_ROWS] += 1
    if x.size > LONGEST:  # a part of a longer row that could not be split
        known[KIND] = BITS
    while known[KIND] != BITS:
        state = order_by_cells(x, low, high, flip, n_observed, known[KIND], scratch, order, values)
        if state != FAILED:
            return state == TIED
        known[KIND] += 1
    order_by_bit_cells(x, bits, flip, inf_key, low, high, n_observed, scratch, order, values)
    return repeats(values[:n_observed])


@kernel
def order_long_row(x, bits, flip, inf_key, scratch):
    """What :func:`order_row_in_parts` does, for rows longer than LONGEST; returns the same."""
    known, values = scratch.known, scratch.values
    parts = make_parts(scratch.split, x.size)
    is_split = x.size > _LONGEST_UNSPLIT
    if is_split and known[WAIT] == 0:
        n_parts = split_by_looks(x, values, parts)
        if n_parts > 0:
            return x.size, order_parts(bits, flip, inf_key, parts, n_parts, scratch), n_parts
    low, high, n_observed = observed_range(bits, flip, inf_key)
    if not is_split and known[WAIT] == 0:
        state = order_by_cells(
            x, low, high, flip, n_observed, ROOMY, scratch, scratch.order, values[: x.size]
        )
        if state != FAILED:
            return n_observed, state == TIED, 0
    known[WAIT] = (known[WAIT] if known[WAIT] > 0 else _RETRY_EVERY) - 1
    n_parts = split_by_counts(x, low, high, flip, scratch.ends, values, parts)
    return n_observed, order_parts(bits, flip, inf_key, parts, n_parts, scratch), n_parts


@kernel
def order_parts(bits, flip, inf_key, parts, n_parts, scratch):
    """Order every part of a row that was split, and its values, which then follow those of the part before.

    Returns whether values tie: those that do share a part.
    """
    values, order = scratch.values, scratch.order
    split_bits = values.view(bits.dtype)
    ordered = parts.rest.view(values.dtype)
    begins, starts = parts.begins, parts.starts
    narrow = np.empty(LONGEST, np.uint16)
    tied = False
    for k in range(n_parts - 1):
        start, stop = starts[k], starts[k + 1]
        if start == stop:
            continue
        begin, end = begins[k], begins[k] + stop - start
        if stop - start > ordered.size:  # many values share a cell
            ordered = np.empty(stop - start, values.dtype)
        low, high = key_range(split_bits[begin:end], flip)
        part_tied = order_segment(
            values[begin:end],
            split_bits[begin:end],
            flip,
            inf_key,
            low,
            high,
            stop - start,
            scratch,
            order[: stop - start],
            ordered[: stop - start],
        )
        tied = tied or part_tied
        ranks = parts.ranks[start:stop]
        invert(order[: stop - start], narrow, ranks)
        for r in range(ranks.size):
            ranks[r] += uint32(start)
        goal = values[start:stop]  # which ends before the next part begins
        for r in range(goal.size):
            goal[r] = ordered[r]
    for r in range(starts[n_parts - 1], order.size):
        parts.ranks[r] = uint32(r)
    return tied


@kernel
def join_row(scratch, n_parts):
    """Write the order of a row that :func:`order_row_in_parts` left in parts to ``scratch.order``."""
    if n_parts > 0:
        join_order(make_parts(scratch.split, scratch.order.size), n_parts, scratch.order)


@kernel
def invert(order, narrow, places):
    """Write the inverse permutation of `order` to `places`; `narrow` is working space of 16-bit integers."""
    if order.size <= LONGEST:  # scatter inside the cache, then write in order
        for r in range(order.size):
            narrow[uint64(order[r])] = np.uint16(r)
        for j in range(order.size):
            places[j] = narrow[j]
    else:
        for r in range(order.size):
            places[uint64(order[r])] = r


@kernel
def write_ranks(scratch, n_parts, narrow, ranks):
    """Ranks of the row that :func:`order_row_in_parts` left; `narrow` is working space of 16-bit integers."""
    if n_parts > 0:
        parts = make_parts(scratch.split, scratch.order.size)
        join_ranks(parts, n_parts, ranks)
    else:
        invert(scratch.order, narrow, ranks)


@kernel
def rank_rows(X, bits, flip, inf_key, words, sorter, memory, order, ranks, n_observed):
    """Order of every row of `X` and its inverse; counts of the values that are not NaN."""
    scratch = make_scratch(X, bits, sorter, memory)
    narrow = np.empty(min(X.shape[1], LONGEST), np.uint16)
    for i in range(X.shape[0]):
        m, _, n_parts = order_row_in_parts(X[i], bits[i], flip, inf_key, words, i, scratch)
        n_observed[i] = m
        write_ranks(scratch, n_parts, narrow, ranks[i])
        join_row(scratch, n_parts)
        found, goal = scratch.order, order[i]
        for r in range(found.size):
            goal[r] = found[r]
