"""Integers that sort like values: the key of a value, and the cell it falls into.

Keys are signed integers made of the bits of a value, exact; cells are few, and split the range of the values
evenly or, for tails of some weight, more finely where most values lie.

Rows come with ``bits``, their view as signed integers (the row itself for integer data), with ``flip``, the
mask that turns the bits of a negative float into an integer that sorts like the float (2³¹ − 1 for
float32, 2⁶³ − 1 for float64, 0 for integers), and with ``inf_key``, the sortable key of +∞.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import float64, int32, int64, uint32

from suquan._kernels._jit import kernel

# What the key of NaN is above that of +∞, so that leading bits differ too.
GAP = int64(1 << 32)
# Values of a row that are looked at to find where most of them lie.
_N_LOOKS = 32


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
        key = inf_key + GAP
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


@kernel
def decode_range(x, low, high, flip, ends):
    """Smallest and largest value of a row whose keys span [low, high]; `ends` is working space."""
    ends[0], ends[1] = unsorted_bits(low, flip), unsorted_bits(high, flip)
    values = ends.view(x.dtype)
    return float64(values[0]), float64(values[1])


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
def write_cells(x, low, high, flip, centred, cell_bits, ends, goal):
    """Write the cells of a row whose observed keys span [low, high]; NaN gets the highest one.

    Returns whether there is a map of cells; if not, all other values get the same one. `ends` is working space.
    """
    highest = uint32((1 << cell_bits) - 1)
    smallest, largest = decode_range(x, low, high, flip, ends)
    cells, fits = make_cell_map(x, smallest, largest, int64(highest), centred)
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
def map_numbers(x, cells, goal):
    """Write the cell of every value; none is NaN, and cells are even."""
    for j in range(x.size):
        goal[j] = uint32(int32((float64(x[j]) - cells.low) * cells.outer))
