"""Sorting the cells of up to 65,536 values, or of 262,144 in buckets with room, by way of words of 32 bits.

A word holds a cell and the position of the value. Up to 256 words are sorted by one network of comparisons in
vector registers. Of more, the leading bits of the cell say which *bucket* a value falls into, the words hold
its other bits, one pass brings the words of every bucket together, and a network sorts each bucket.

The networks are long, so this is compiled once, and the kernels that order rows call it through
:func:`sort_cells`, with the address that :data:`CELL_SORTER` gives.
"""

from __future__ import annotations

from typing import NamedTuple

from llvmlite import ir
from numba import carray, int64, types, uint32, uint64
from numba.extending import intrinsic

from suquan._kernels._jit import Entry, kernel, pointer_to, prefetch, words_at
from suquan._kernels.networks import make_run_sorter

# Most words that one network sorts, and how many words behind the end of a buffer it may touch.
LONGEST_RUN = 256
SLACK = LONGEST_RUN + 16
# Distance of buckets of a fixed room: no power of two, so that they do not drive each other from the cache.
PITCH = LONGEST_RUN + 16

# Words that a bucket should hold on average, and the most buckets: their ends still fit the second cache.
_BUCKET_SIZE = 44
_MOST_BUCKETS = 8192
# Bits of a digit where a bucket too large for the networks is sorted digit by digit.
_DIGIT_BITS = 9
# Bytes that are fetched at a time.
_LINE = 64
# Instead of whether to give up: the words are in buckets already.
_IS_SPREAD = 2
# Counters that a sort needs.
N_COUNTS = 2 * _MOST_BUCKETS + 1

_sort_1 = make_run_sorter(1)
_sort_2 = make_run_sorter(2)
_sort_3 = make_run_sorter(3)
_sort_4 = make_run_sorter(4)
_sort_6 = make_run_sorter(6)
_sort_8 = make_run_sorter(8)
_sort_12 = make_run_sorter(12)
_sort_16 = make_run_sorter(16)


@kernel
def sort_run(words, start, size, goal, place):
    """Write 1 to LONGEST_RUN `words` from `start` on, sorted, to `goal` from `place` on.

    Both arrays must go on for SLACK words behind the run; what follows it in `goal` is overwritten.
    """
    source, target = pointer_to(words, start), pointer_to(goal, place)
    if size <= 32:
        if size <= 16:
            _sort_1(source, size, target)
        else:
            _sort_2(source, size, target)
    elif size <= 64:
        if size <= 48:
            _sort_3(source, size, target)
        else:
            _sort_4(source, size, target)
    elif size <= 96:
        _sort_6(source, size, target)
    elif size <= 128:
        _sort_8(source, size, target)
    elif size <= 192:
        _sort_12(source, size, target)
    else:
        _sort_16(source, size, target)


class Layout(NamedTuple):
    """How the bits of a cell and of the position are shared out, for rows of one length."""

    n_buckets: int
    cell_bits: int
    position_bits: int  # lowest bits of a word
    low_bits: int  # bits of the cell above them


@kernel
def count_position_bits(size):
    """Bits that hold the position in a row of `size` values."""
    n_bits = 1
    while (1 << n_bits) < size:
        n_bits += 1
    return n_bits


@kernel
def make_layout(size):
    """Bits for rows of `size` values, at most 262,144."""
    position_bits = count_position_bits(size)
    bucket_bits = 0
    if size > LONGEST_RUN:
        while (1 << bucket_bits) * _BUCKET_SIZE < size and (1 << bucket_bits) < _MOST_BUCKETS:
            bucket_bits += 1
    cell_bits = min(32 - position_bits + bucket_bits, 31)
    return Layout(1 << bucket_bits, cell_bits, position_bits, cell_bits - bucket_bits)


@kernel
def spread_cells(cells, layout, starts, places, spread):
    """Write the words of the `cells` to `spread`, bucket after bucket; `starts` gets where these begin."""
    shift = uint32(32 - layout.low_bits)
    if layout.n_buckets == 1:
        starts[0], starts[1] = 0, cells.size
        for j in range(cells.size):
            spread[j] = (cells[j] << shift) | uint32(j)
        return
    low_bits = uint64(layout.low_bits)
    for b in range(layout.n_buckets):
        places[b] = uint32(0)
    for j in range(cells.size):
        places[uint64(cells[j]) >> low_bits] += uint32(1)
    start = uint32(0)
    for b in range(layout.n_buckets):
        count = places[b]
        starts[b] = start
        places[b] = start
        start += count
    starts[layout.n_buckets] = start
    for j in range(cells.size):
        cell = cells[j]
        bucket = uint64(cell) >> low_bits
        place = places[bucket]
        places[bucket] = place + uint32(1)
        spread[uint64(place)] = (cell << shift) | uint32(j)


@kernel
def sort_buckets(spread, layout, starts, gives_up, spare, counts, goal):
    """Sort the words of every bucket, to `goal`.

    Returns False, with the work undone, if it `gives_up` at a bucket that is too large for the networks, where
    this is not for one cell that many values share.
    """
    for b in range(layout.n_buckets):
        start = int64(starts[b])
        size = int64(starts[b + 1]) - start
        if size > LONGEST_RUN and not is_sorted(spread[start : start + size]):
            n_less, n_equal = part_ties(spread, start, size, layout.position_bits, spare)
            first, last = start + n_less, start + n_less + n_equal
            n_greater = size - n_less - n_equal
            if not sort_words(
                spread, start, n_less, layout, gives_up, spare[n_equal:], counts, goal
            ):
                return False
            for r in range(n_equal):
                goal[first + r] = spare[r]
            if not sort_words(
                spread, last, n_greater, layout, gives_up, spare[n_equal:], counts, goal
            ):
                return False
        else:
            sort_words(spread, start, size, layout, gives_up, spare, counts, goal)
    return True


@kernel
def sort_spread(spread, n_buckets, sizes, goal, ahead, n_ahead):
    """Sort the words of buckets that begin at multiples of PITCH and hold `sizes` words, to `goal`.

    Meanwhile `n_ahead` bytes from the pointer `ahead` on are fetched, which will be read next.
    """
    place = int64(0)
    asked = int64(0)
    for b in range(n_buckets):
        wanted = (b + 1) * n_ahead // n_buckets
        while asked < wanted:
            prefetch(ahead, asked)
            asked += _LINE
        size = int64(sizes[b])
        if size > 0:
            sort_run(spread, b * PITCH, size, goal, place)
            place += size


@kernel
def sort_words(words, start, size, layout, gives_up, spare, counts, goal):
    """Sort `size` words from `start` on, to the same places of `goal`; False where it gives up."""
    if size == 0:
        return True
    if size <= LONGEST_RUN:
        sort_run(words, start, size, goal, start)
        return True
    run = words[start : start + size]
    if not is_sorted(run):
        if gives_up:
            return False
        radix_sort_words(run, spare[:size], counts, layout.position_bits)
    for r in range(size):
        goal[start + r] = run[r]
    return True


@kernel
def part_ties(words, start, size, position_bits, spare):
    """Part a run by a cell that many of its values may share: those before it, in it and behind it.

    The words in that cell are in order, as they end with the position, and go to `spare`; the others stay in
    `words`, at both ends of the run. Returns the numbers of the first two.
    """
    shift = uint32(position_bits)
    cell = words[start + size // 2] >> shift
    other = words[start + size // 4] >> shift
    if other == words[start + size - 1 - size // 4] >> shift:
        cell = other  # two of three
    n_less, n_equal, n_greater = 0, 0, 0
    for r in range(start, start + size):
        word = words[r]
        if word >> shift == cell:
            spare[n_equal] = word
            n_equal += 1
        elif word >> shift < cell:
            words[start + n_less] = word  # not behind what is read
            n_less += 1
        else:
            spare[size - 1 - n_greater] = word
            n_greater += 1
    for r in range(n_greater):
        words[start + n_less + n_equal + r] = spare[size - 1 - r]
    return n_less, n_equal


@kernel
def is_sorted(words):
    """Whether no word is smaller than the one before."""
    n_descents = uint32(0)
    for r in range(words.size - 1):
        n_descents += uint32(1) if words[r] > words[r + 1] else uint32(0)
    return n_descents == 0


@kernel
def radix_sort_words(words, spare, counts, n_low_bits):
    """Sort `words` by all but their lowest `n_low_bits` bits, stably.

    `spare`, as long, and `counts` are working space.
    """
    n_digits = 1 << _DIGIT_BITS
    mask = uint32(n_digits - 1)
    source, goal = words, spare
    shift = n_low_bits
    while shift < 32:
        digit = uint32(shift)
        for r in range(n_digits):
            counts[r] = uint32(0)
        for j in range(words.size):
            counts[uint64((source[j] >> digit) & mask)] += uint32(1)
        start = uint32(0)
        for r in range(n_digits):
            count = counts[r]
            counts[r] = start
            start += count
        for j in range(words.size):
            bucket = uint64((source[j] >> digit) & mask)
            place = counts[bucket]
            counts[bucket] = place + uint32(1)
            goal[uint64(place)] = source[j]
        source, goal = goal, source
        shift += _DIGIT_BITS
    if ((32 - n_low_bits + _DIGIT_BITS - 1) // _DIGIT_BITS) % 2 == 1:
        for j in range(words.size):
            words[j] = spare[j]


def _sort_cells(
    cells, size, n_buckets, cell_bits, position_bits, low_bits, gives_up, counts, spread, goal
):
    """Body of :data:`CELL_SORTER`; see :func:`sort_cells` and :func:`sort_spread_words`."""
    counters = carray(counts, (N_COUNTS,))
    if gives_up == _IS_SPREAD:
        words = carray(spread, (n_buckets * PITCH + SLACK,))
        n_ahead = cell_bits
        sort_spread(words, n_buckets, counters, carray(goal, (size + SLACK,)), cells, n_ahead)
        return int64(1)
    layout = Layout(n_buckets, cell_bits, position_bits, low_bits)
    row = carray(cells, (size,))
    words = carray(spread, (size + SLACK,))
    starts = counters[: layout.n_buckets + 1]
    places = counters[layout.n_buckets + 1 :]
    spread_cells(row, layout, starts, places, words)
    is_done = sort_buckets(
        words, layout, starts, gives_up != 0, row, places, carray(goal, (size + SLACK,))
    )
    return int64(is_done)


_POINTER = types.CPointer(types.uint32)
CELL_SORTER = Entry(
    _sort_cells, types.int64(_POINTER, *[types.int64] * 6, _POINTER, _POINTER, _POINTER)
)


@intrinsic
def call_sorter(
    typing_context,
    address,
    cells,
    size,
    n_buckets,
    cell_bits,
    position_bits,
    low_bits,
    gives_up,
    counts,
    spread,
    goal,
):
    """Call :data:`CELL_SORTER` at `address`."""
    call_signature = types.int64(types.int64, *CELL_SORTER.signature.args)

    def generate(context, builder, signature, arguments):
        address, *values = arguments
        kind = ir.FunctionType(ir.IntType(64), [value.type for value in values])
        return builder.call(builder.inttoptr(address, kind.as_pointer()), values)

    return call_signature, generate


@kernel
def sort_cells(sorter, cells, layout, gives_up, counts, spread, goal):
    """Sort at most 65,536 `cells` stably: the lowest bits of ``goal[r]`` are the position of the r-th.

    `cells`, which have the `layout` that :func:`make_layout` gives, are overwritten; `counts` and `spread` are
    working space. `spread` and `goal` go on for SLACK words, and `sorter` is the address of
    :data:`CELL_SORTER`. Returns whether this was done; see :func:`sort_buckets`.
    """
    status = call_sorter(
        sorter,
        pointer_to(cells, 0),
        int64(cells.size),
        int64(layout.n_buckets),
        int64(layout.cell_bits),
        int64(layout.position_bits),
        int64(layout.low_bits),
        int64(gives_up),
        pointer_to(counts, 0),
        pointer_to(spread, 0),
        pointer_to(goal, 0),
    )
    return status != 0


@kernel
def sort_spread_words(sorter, x, layout, counts, spread, goal):
    """Sort the words of the row `x` by the sorter at an address; see :func:`sort_spread`.

    What follows `x` in memory, mostly the next row, is fetched meanwhile.
    """
    call_sorter(
        sorter,
        words_at(x, x.size),
        int64(x.size),
        int64(layout.n_buckets),
        int64(x.size * x.itemsize),
        int64(0),
        int64(0),
        int64(_IS_SPREAD),
        pointer_to(counts, 0),
        pointer_to(spread, 0),
        pointer_to(goal, 0),
    )
