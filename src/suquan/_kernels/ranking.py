"""Ordering the values of rows.

A row is ordered in three steps that compare no more than a few neighbours:

1. Every value gets an integer *cell*, a non-decreasing function of the value.
2. The positions are sorted by cell, see :mod:`suquan._kernels.words`.
3. Insertion puts values that share a cell in order; equal values stay in order of position.

Cells split the range of the values evenly or, for tails of some weight, more finely where most values lie.
Where many unequal values share one, insertion gives up after a few moves, and a radix sort on *bit* cells is
used instead: the leading 32 varying bits of the value's binary form. Where even those collide for long runs,
the remaining low bits are sorted first. Rows too long for the cache are first split into segments that follow
each other in value. All give the same, exact order, with NaN last.

Rows come with ``bits``, their view as signed integers (the row itself for integer data), with ``flip``, the
mask that turns the bits of a negative float into an integer that sorts like the float (2³¹ − 1 for
float32, 2⁶³ − 1 for float64, 0 for integers), and with ``inf_key``, the sortable key of +∞.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import float64, int32, int64, uint32, uint64

from suquan._kernels._jit import kernel
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
_GAP = int64(1 << 32)

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
# Values of a row that are looked at to find where most of them lie.
_N_LOOKS = 32
# Integers of 8 bytes for what is known of the rows before, and for the ends of a range.
_N_KNOWN = 5
# Cells by which a long row is split, and what its parts should hold.
_N_SPLIT_CELLS = 4096
_PART = 32768


@kernel
def sortable(bit, flip):
    """Signed integer that sorts like the value; −0.0 and +0.0 give the same one."""
    key = int64(bit)
    key = key ^ ((key >> int64(63)) & flip)
    if flip != 0 and key == -1:  # only −0.0 has this key
        key = int64(0)
    return key


@kernel
def sortable_or_last(bit, flip, inf_key):
    """The :func:`sortable` key; NaN, whatever its bits, has one whose leading bits are above those of +∞."""
    key = sortable(bit, flip)
    if key < ~inf_key or key > inf_key:
        key = inf_key + _GAP
    return key


@kernel
def key_range(bits, flip):
    """Smallest and largest :func:`sortable` key; NaNs lie beyond the infinities' keys."""
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
def observed_range(bits, flip, inf_key):
    """Smallest and largest key of the values that are not NaN, and their number."""
    low, high = key_range(bits, flip)
    if low >= ~inf_key and high <= inf_key:
        return low, high, bits.size
    low = inf_key
    high = ~inf_key
    n_observed = 0
    for j in range(bits.size):
        key = sortable_or_last(bits[j], flip, inf_key)
        if key <= inf_key:
            low = min(low, key)
            high = max(high, key)
            n_observed += 1
    return low, high, n_observed


@kernel
def unsorted_bits(key, flip):
    """Bits of the value whose :func:`sortable` key is `key`."""
    return key ^ ((key >> int64(63)) & flip)


class CellMap(NamedTuple):
    """Cells (v − low)·outer + (v − first)·inner, where v of the second term is moved into [first, last]."""

    low: float
    outer: float
    first: float
    last: float
    inner: float


@kernel
def make_cell_map(x, lowest, highest, n_cells, centred):
    """Map of values between `lowest` and `highest` to 0, …, n_cells − 1, and whether there is one.

    Cells split the range evenly. If they are `centred`, only half of them do so; the other half splits the
    range that holds nearly all of some values looked at, so that tails leave the other values cells enough.
    """
    span = highest - lowest
    if not 0.0 < span < np.inf or not n_cells / span < np.inf:  # infinite values; a denormal span
        return CellMap(lowest, 0.0, lowest, lowest, 0.0), False
    outer = float64(n_cells - 1) / span
    if centred:
        first, last = second_values(x, lowest, highest)
        if last > first and n_cells / (last - first) < np.inf:
            inner = 0.5 * float64(n_cells - 1) / (last - first)
            return CellMap(lowest, 0.5 * outer, first, last, inner), True
    return CellMap(lowest, outer, lowest, lowest, 0.0), True


@kernel
def second_values(x, lowest, highest):
    """Second smallest and second largest of a few values of `x`, which lie between the two given ones."""
    step = max(x.size // _N_LOOKS, 1)
    smallest, first = highest, highest
    largest, last = lowest, lowest
    for j in range(0, x.size, step):
        value = float64(x[j])
        if value == value:
            first = min(first, max(smallest, value))
            smallest = min(smallest, value)
            last = max(last, min(largest, value))
            largest = max(largest, value)
    return first, last


@kernel
def cell_of(value, cells):
    """Cell of a value that is not NaN."""
    place = (value - cells.low) * cells.outer
    if cells.inner > 0.0:
        place += (min(max(value, cells.first), cells.last) - cells.first) * cells.inner
    return uint32(int32(place))


@kernel
def write_words(X, bits, flip, inf_key, words):
    """Words (cell, position) of every row; NaN has the highest cell, and no other value has."""
    ends = np.empty(2, bits.dtype)
    position_bits = count_position_bits(X.shape[1])
    for i in range(X.shape[0]):
        goal = words[i]
        low, high, n_observed = observed_range(bits[i], flip, inf_key)
        write_cells(X[i], low, high, flip, EVEN, 32 - position_bits, ends, goal)
        for j in range(goal.size):
            goal[j] = (goal[j] << uint32(position_bits)) | uint32(j)


@kernel
def write_cells(x, low, high, flip, kind, cell_bits, ends, goal):
    """Write the cells of a row whose observed keys span [low, high]; NaN gets the highest one.

    Returns whether there is a map of cells; if not, all other values get the same one. `ends` is working space.
    """
    highest = uint32((1 << cell_bits) - 1)
    ends[0], ends[1] = unsorted_bits(low, flip), unsorted_bits(high, flip)
    range_ends = ends.view(x.dtype)
    lowest, largest = float64(range_ends[0]), float64(range_ends[1])
    cells, fits = make_cell_map(x, lowest, largest, int64(highest), kind == CENTRED)
    if fits:
        map_values(x, cells, highest, goal)
    else:
        for j in range(x.size):
            goal[j] = uint32(0) if x[j] == x[j] else highest
    return fits


@kernel
def map_values(x, cells, missing, goal):
    """Write the cell of every value, `missing` for NaN."""
    for j in range(x.size):
        value = float64(x[j])
        goal[j] = cell_of(value, cells) if value == value else missing


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
    kind: np.ndarray  # int64: the kind of cells to start with, and rows since it was set back
    splits: np.ndarray  # int64: rows to be split before another one is tried as it is
    ends: np.ndarray  # two values as bits
    counts: np.ndarray  # uint32, for the buckets
    order: np.ndarray  # uint32
    values: np.ndarray  # of the row in that order
    words: np.ndarray  # uint32
    sorted_words: np.ndarray  # uint32
    split_bits: np.ndarray  # a long row in segments, as bits
    split: np.ndarray  # and as values
    features: np.ndarray  # uint32: where these come from


@kernel
def scratch_sizes(n_features, item_size):
    """What the parts of the memory of a :class:`Scratch` hold, in numbers of 8 bytes.

    First what is known of the rows before (which is zero at first), then arrays as they stand there, from the
    counts on.
    """
    n_split = n_features if n_features > LONGEST else 0
    n_unsplit = n_features if n_features <= _LONGEST_UNSPLIT else LONGEST
    n_words = max(n_features, room_for_buckets(n_unsplit))
    return (
        _N_KNOWN,
        N_COUNTS // 2 + 1,
        n_features // 2 + 1,
        n_features * item_size // 8 + 1,
        (n_words + SLACK) // 2 + 1,
        (n_unsplit + SLACK) // 2 + 1,
        n_split * item_size // 8 + 1,
        n_split // 2 + 1,
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
    n_split = n_features if n_features > LONGEST else 0
    known = part_of(memory, sizes, 0)
    split_bits = part_of(memory, sizes, 6).view(bits.dtype)[:n_split]
    return Scratch(
        sorter,
        known[:2],
        known[2:3],
        known[3:].view(bits.dtype)[:2],
        part_of(memory, sizes, 1).view(np.uint32),
        part_of(memory, sizes, 2).view(np.uint32)[:n_features],
        part_of(memory, sizes, 3).view(X.dtype)[:n_features],
        part_of(memory, sizes, 4).view(np.uint32),
        part_of(memory, sizes, 5).view(np.uint32),
        split_bits,
        split_bits.view(X.dtype),
        part_of(memory, sizes, 7).view(np.uint32)[:n_split],
    )


@kernel
def order_by_bit_cells(x, bits, flip, inf_key, low, high, n_observed, scratch, order, values):
    """Order of a row, whose observed keys span [low, high], by the leading varying bits of its values."""
    size = x.size
    counts = scratch.counts
    pairs = np.empty(size, np.uint64)  # cell in the upper half, feature in the lower
    spare = np.empty(size, np.uint64)
    last = high if n_observed == size else inf_key + _GAP
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
    order, values = scratch.order, scratch.values
    if words.shape[0] > 0 and not ends_with_nan(words[i]):
        read_positions(words[i], order)
        gather(x, order, values)
        state = DISTINCT if increases(values) else settle(order, values)
        if state != FAILED:
            return x.size, state == TIED
    low, high, n_observed = observed_range(bits, flip, inf_key)
    if x.size <= LONGEST:
        tied = order_segment(x, bits, flip, inf_key, low, high, n_observed, scratch, order, values)
        return n_observed, tied
    state = order_unsplit(x, low, high, flip, n_observed, scratch)
    if state != FAILED:
        return n_observed, state == TIED
    return n_observed, order_long_row(x, flip, inf_key, low, high, scratch)


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
    counts, spread, ends = scratch.counts, scratch.words, scratch.ends
    ends[0], ends[1] = unsorted_bits(low, flip), unsorted_bits(high, flip)
    range_ends = ends.view(x.dtype)
    n_cells = (1 << layout.cell_bits) - 1
    lowest, highest = float64(range_ends[0]), float64(range_ends[1])
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
def map_numbers(x, cells, goal):
    """Write the cell of every value; none is NaN, and cells are even."""
    for j in range(x.size):
        goal[j] = uint32(int32((float64(x[j]) - cells.low) * cells.outer))


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
    if not write_cells(x, low, high, flip, kind, layout.cell_bits, scratch.ends, order):
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
    kind = scratch.kind
    if kind[1] % _RETRY_EVERY == 0:
        kind[0] = ROOMY
    kind[1] += 1
    if x.size > LONGEST:  # a part of a longer row that could not be split
        kind[0] = BITS
    while kind[0] != BITS:
        state = order_by_cells(x, low, high, flip, n_observed, kind[0], scratch, order, values)
        if state != FAILED:
            return state == TIED
        kind[0] += 1
    order_by_bit_cells(x, bits, flip, inf_key, low, high, n_observed, scratch, order, values)
    return repeats(values[:n_observed])


@kernel
def order_unsplit(x, low, high, flip, n_observed, scratch):
    """What :func:`order_by_cells` does, for rows of any length; after a failure some are not tried."""
    wait = scratch.splits
    if x.size > _LONGEST_UNSPLIT:
        return FAILED
    if wait[0] > 0:
        wait[0] -= 1
        return FAILED
    order, values = scratch.order, scratch.values
    state = order_by_cells(x, low, high, flip, n_observed, ROOMY, scratch, order, values)
    if state == FAILED:
        wait[0] = _RETRY_EVERY - 1
    return state


@kernel
def order_long_row(x, flip, inf_key, low, high, scratch):
    """Order of a row whose observed keys span [low, high], by way of segments that follow each other in value.

    A segment stays in the cache while it is ordered. Returns whether values tie: those that do share a segment.
    """
    tied = False
    starts = np.empty(_N_SPLIT_CELLS + 1, np.int64)
    n_parts = split_row(x, low, high, flip, scratch, starts)
    for k in range(n_parts):
        start, stop = starts[k], starts[k + 1]
        bits, features = scratch.split_bits[start:stop], scratch.features[start:stop]
        part_low, part_high = key_range(bits, flip)
        part_tied = order_segment(
            scratch.split[start:stop],
            bits,
            flip,
            inf_key,
            part_low,
            part_high,
            stop - start,
            scratch,
            scratch.order[start:stop],
            scratch.values[start:stop],
        )
        tied = tied or part_tied
        order = scratch.order[start:stop]
        for r in range(order.size):
            order[r] = features[uint64(order[r])]
    for r in range(starts[n_parts], x.size):
        scratch.order[r] = scratch.features[r]
    return tied


@kernel
def split_row(x, low, high, flip, scratch, starts):
    """Copy a row to `scratch.split` in segments that follow each other in value; returns how many there are.

    Inside a segment the values keep their order. `scratch.features` says where they come from, the NaNs' last;
    `starts` gets where the segments start and end.
    """
    cells, split, features, ends = scratch.words, scratch.split, scratch.features, scratch.ends
    ends[0], ends[1] = unsorted_bits(low, flip), unsorted_bits(high, flip)
    range_ends = ends.view(x.dtype)
    lowest, largest = float64(range_ends[0]), float64(range_ends[1])
    cell_map, fits = make_cell_map(x, lowest, largest, _N_SPLIT_CELLS, True)
    missing = uint32(_N_SPLIT_CELLS)
    if fits:
        map_values(x, cell_map, missing, cells)
    else:
        for j in range(x.size):
            cells[j] = uint32(0) if x[j] == x[j] else missing
    counts = np.zeros(_N_SPLIT_CELLS + 1, np.int64)
    for j in range(x.size):
        counts[uint64(cells[j])] += 1
    part_of_cell = np.empty(_N_SPLIT_CELLS + 1, np.int64)
    n_parts = group_cells(counts[:-1], part_of_cell, starts)
    part_of_cell[-1] = n_parts  # the NaNs'
    places = starts[: n_parts + 1].copy()
    for j in range(x.size):
        part = uint64(part_of_cell[uint64(cells[j])])
        place = uint64(places[part])
        places[part] += 1
        split[place] = x[j]
        features[place] = uint32(j)
    return n_parts


@kernel
def group_cells(counts, part_of_cell, starts):
    """Group consecutive cells into parts of about the wanted size; returns the number of parts."""
    part = 0
    filled = 0
    starts[0] = 0
    for cell in range(counts.size):
        held = filled - starts[part]
        if held > 0 and held + counts[cell] > _PART:
            part += 1
            starts[part] = filled
        part_of_cell[cell] = part
        filled += counts[cell]
    starts[part + 1] = filled
    return part + 1


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
def rank_rows(X, bits, flip, inf_key, words, sorter, memory, order, ranks, n_observed):
    """Order of every row of `X` and its inverse; counts of the values that are not NaN."""
    scratch = make_scratch(X, bits, sorter, memory)
    narrow = np.empty(min(X.shape[1], LONGEST), np.uint16)
    for i in range(X.shape[0]):
        n_observed[i], _ = order_row(X[i], bits[i], flip, inf_key, words, i, scratch)
        found, goal = scratch.order, order[i]
        for r in range(found.size):
            goal[r] = found[r]
        invert(found, narrow, ranks[i])
