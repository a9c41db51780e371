"""Rows too long for the cache: split into parts that follow each other in value, and put together again.

Inside a part values keep the order of the row, and ``ids[j]`` says which part value j went to. So the row is
walked twice with one cursor per part: once to bring values to their parts, and once, when each part is in
order, to bring ranks back to the row. Nothing needs to remember where a value came from.

Which values go together is read off a few of them, and parts get some room beyond what they should hold. Where
that does not do, or values are missing, they are counted first.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import float64, int64, uint16, uint32, uint64

from suquan._kernels._jit import kernel, pointer_to, prefetch
from suquan._kernels.cells import CellMap, cell_of, decode_range, make_cell_map

# Cells by which a row is split, what a part should hold, and what it has room for.
_N_CELLS = 4096
_MOST_PARTS = _N_CELLS + 2  # with the NaNs' and one more
_PART = 32768
_ROOM = 40976  # no multiple of a page, so that parts do not drive each other from the cache
# Parts beyond the fewest possible ones that there is room for.
_MORE_PARTS = 4
# One value in this many is looked at.
_LOOK_EVERY = 128
# Values whose parts are found before they are brought there.
_SOME = 1024
# How many values or ranks ahead the memory of a part is fetched.
_AHEAD = uint64(32)


class Parts(NamedTuple):
    """How a row is split. The last part is that of the NaNs, mostly empty."""

    ids: np.ndarray  # uint16: the part of every value of the row
    begins: np.ndarray  # int64: where a part lies
    starts: (
        np.ndarray
    )  # int64: the place of its first value in the row's order; one more than parts
    ranks: np.ndarray  # uint32: of the values of each part in the row, part after part
    features: np.ndarray  # uint32: working space
    rest: np.ndarray  # int64: memory for the values of a part that has its room


@kernel
def split_size(n_features, item_size):
    """Numbers of 8 bytes in the memory for rows that are split; see :func:`make_parts`."""
    n_ids, n_ranks = n_features // 4 + 1, n_features // 2 + 1
    return 2 * _MOST_PARTS + n_ids + 2 * n_ranks + _ROOM * item_size // 8


@kernel
def make_parts(memory, n_features):
    """The parts of a row of that length, in `memory`, an array of int64."""
    n_ids, n_ranks = n_features // 4 + 1, n_features // 2 + 1
    ids = memory[2 * _MOST_PARTS :]
    ranks = ids[n_ids:]
    features = ranks[n_ranks:]
    return Parts(
        ids.view(np.uint16)[:n_features],
        memory[:_MOST_PARTS],
        memory[_MOST_PARTS : 2 * _MOST_PARTS],
        ranks.view(np.uint32)[:n_features],
        features.view(np.uint32)[:n_features],
        features[n_ranks:],
    )


@kernel
def room_for_parts(n_features):
    """Values that all parts of a row have room for where they are not counted."""
    return (n_features // _PART + _MORE_PARTS) * _ROOM


@kernel
def split_by_looks(x, values, parts):
    """Copy a row without NaN to `values`, part by part, with room behind each.

    Returns the number of parts, or 0 where one has not room enough or a value is missing.
    """
    lowest, highest = range_of_looks(x)
    cells, fits = make_cell_map(x, lowest, highest, _N_CELLS, True)
    if not fits:
        return 0
    counts = np.zeros(_N_CELLS, np.int64)
    for j in range(0, x.size, _LOOK_EVERY):
        value = float64(x[j])
        if value == value:
            counts[uint64(clamped_cell(value, lowest, highest, cells))] += 1
    part_of_cell = np.empty(_N_CELLS + 1, np.uint16)
    n_parts = group_cells(counts, _PART // _LOOK_EVERY, part_of_cell) + 1
    if n_parts * _ROOM > values.size or counts.max() * _LOOK_EVERY > _ROOM:
        return 0
    begins, starts = parts.begins, parts.starts
    for k in range(n_parts):
        begins[k] = k * _ROOM
    places = begins[:n_parts].copy()
    for start in range(0, x.size, _SOME):
        for k in range(n_parts):
            if places[k] + _SOME > begins[k] + _ROOM:
                return 0
        some, ids = x[start : start + _SOME], parts.ids[start : start + _SOME]
        if write_split_cells(some, lowest, highest, cells, ids) > 0:
            return 0
        bring_to_parts(some, ids, part_of_cell, places, values)
    starts[0] = 0
    for k in range(n_parts):
        starts[k + 1] = starts[k] + places[k] - begins[k]
    return n_parts


@kernel
def range_of_looks(x):
    """Smallest and largest of the finite values that are looked at."""
    lowest, highest = np.inf, -np.inf
    for j in range(0, x.size, _LOOK_EVERY):
        value = float64(x[j])
        if -np.inf < value < np.inf:
            lowest = min(lowest, value)
            highest = max(highest, value)
    return lowest, highest


@kernel
def split_by_counts(x, low, high, flip, ends, values, parts):
    """Copy a row, whose observed keys span [low, high], to `values`, part after part; returns their number.

    `ends` is working space.
    """
    lowest, highest = decode_range(x, low, high, flip, ends)
    cells, fits = make_cell_map(x, lowest, highest, _N_CELLS, True)
    if not fits:  # infinite values
        lowest, highest = range_of_looks(x)
        cells, fits = make_cell_map(x, lowest, highest, _N_CELLS, True)
    if not fits:  # all in one part
        lowest, highest = 0.0, 0.0
        cells = CellMap(0.0, 0.0, 0.0, 0.0, 0.0)
    counts = np.zeros(_N_CELLS + 1, np.int64)
    for start in range(0, x.size, _SOME):
        ids = parts.ids[start : start + _SOME]
        write_split_cells(x[start : start + _SOME], lowest, highest, cells, ids)
        for j in range(ids.size):
            counts[uint64(ids[j])] += 1
    part_of_cell = np.empty(_N_CELLS + 1, np.uint16)
    n_parts = group_cells(counts[:-1], _PART, part_of_cell) + 1
    begins, starts = parts.begins, parts.starts
    for k in range(n_parts + 1):
        starts[k] = 0
    for cell in range(_N_CELLS + 1):
        starts[int64(part_of_cell[cell]) + 1] += counts[cell]
    for k in range(n_parts):
        starts[k + 1] += starts[k]
        begins[k] = starts[k]
    places = begins[:n_parts].copy()
    for start in range(0, x.size, _SOME):
        some, ids = x[start : start + _SOME], parts.ids[start : start + _SOME]
        bring_to_parts(some, ids, part_of_cell, places, values)
    return n_parts


@kernel
def clamped_cell(value, lowest, highest, cells):
    """Cell of a value that is not NaN and that may lie outside the range of the `cells`."""
    return cell_of(min(max(value, lowest), highest), cells)


@kernel
def write_split_cells(x, lowest, highest, cells, goal):
    """Write the cell of every value, one more for NaN; returns how many of these there are."""
    n_missing = 0
    for j in range(x.size):
        value = float64(x[j])
        is_missing = value != value
        n_missing += 1 if is_missing else 0
        cell = clamped_cell(value, lowest, highest, cells)
        goal[j] = uint16(_N_CELLS) if is_missing else uint16(cell)
    return n_missing


@kernel
def group_cells(counts, most, part_of_cell):
    """Group consecutive cells into parts that hold `most` or, if a cell has more, only that; NaNs' follows.

    Returns the number of parts without the NaNs'.
    """
    part = 0
    held = 0
    for cell in range(counts.size):
        if held > 0 and counts[cell] > 0 and held + counts[cell] > most:
            part += 1
            held = 0
        part_of_cell[cell] = part
        held += counts[cell]
    part_of_cell[counts.size] = part + 1
    return part + 1


@kernel
def bring_to_parts(x, ids, part_of_cell, places, values):
    """Bring some values, whose cells are in `ids`, to their parts; `ids` gets these, and `places` goes on."""
    for j in range(ids.size):
        ids[j] = part_of_cell[uint64(ids[j])]
    memory = pointer_to(values, 0)
    for j in range(ids.size):
        part = uint64(ids[j])
        place = uint64(places[part])
        places[part] = place + uint64(1)
        values[place] = x[j]
        prefetch(memory, (place + _AHEAD) * uint64(values.itemsize))


@kernel
def join_ranks(parts, n_parts, ranks):
    """Write the rank of every value of the row."""
    places = parts.starts[:n_parts].copy()
    by_part = parts.ranks
    memory = pointer_to(by_part, 0)
    for j in range(parts.ids.size):
        part = uint64(parts.ids[j])
        place = uint64(places[part])
        places[part] = place + uint64(1)
        prefetch(memory, (place + _AHEAD) * uint64(by_part.itemsize))
        ranks[j] = by_part[place]


@kernel
def join_order(parts, n_parts, order):
    """Write the order of the row: scattered part by part, which stays in the cache."""
    places = parts.starts[:n_parts].copy()
    features = parts.features
    for j in range(parts.ids.size):
        part = uint64(parts.ids[j])
        place = uint64(places[part])
        places[part] = place + uint64(1)
        features[place] = uint32(j)
    for r in range(order.size):
        order[uint64(parts.ranks[r])] = features[r]
