"""The sample operator T_i and its adjoint, row by row.

A ranked sample is a *code* row: ``code[r]`` holds the feature at place r and, in its highest bit, whether that
value ties with the one at place r − 1. The first `n_observed` places are the values that are not NaN. With f
a function of nodes (j + ½)/p, the value at place k of m observed ones reads f at (k + ½)/m.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import float64, int64, uint64

from suquan._kernels._jit import kernel, pointer_to, prefetch
from suquan._kernels.ranking import (
    make_scratch,
    order_row,
    order_row_in_parts,
    write_ranks,
)

_NARROW = 65536  # places up to this many fit 16 bits, and the quantiles the cache
_AHEAD = 64  # how far ahead quantiles that do not are fetched

# Places that are looked at together where ties are searched, after some looked at one by one.
_STRETCH, _NEAR = 64, 12

# Places for one block of ties up to which a sample has many, and places that are looked at to say so.
_MANY_BLOCKS, _N_LOOKS = 12, 256

# How tied values read the target.
FIRST, AVERAGE, MEAN_RANK = 0, 1, 2


@kernel
def node_position(place, n_observed, n_nodes):
    """Where place k of m observed values falls among the nodes: (k + ½)·n_nodes/m − ½, inside them."""
    if n_observed == n_nodes:
        position = float64(place)
    else:
        position = (place + 0.5) * n_nodes / n_observed - 0.5
    return min(max(position, 0.0), float64(n_nodes - 1))


@kernel
def read_between(f, position):
    """Value at `position` of the function that is linear between the nodes f."""
    node = int64(position)
    part = position - node
    if part == 0.0:
        return float64(f[node])
    return (1.0 - part) * f[node] + part * f[node + 1]


@kernel
def add_between(g, position, value):
    """Adjoint of :func:`read_between`: share `value` between the two nodes around `position`."""
    node = int64(position)
    part = position - node
    g[node] += (1.0 - part) * value
    if part > 0.0:
        g[node + 1] += part * value


@kernel
def block_end(code, flag, start, n_observed):
    """First place after the block of tied values that begins at `start`."""
    end = start + 1
    while end < n_observed and (code[end] & flag) != 0:
        end += 1
    return end


@kernel
def next_block(code, flag, start, n_observed):
    """Start of the first block of tied values from place `start` on, `n_observed` if there is none.

    Samples with many ties have the next one near; after a few places it looks at many at once.
    """
    place = start + 1
    near = min(place + _NEAR, n_observed)
    while place < near:
        if (code[place] & flag) != 0:
            return place - 1
        place += 1
    while place < n_observed:
        stop = min(place + _STRETCH, n_observed)
        flags = flag ^ flag
        for k in range(place, stop):
            flags |= code[k]
        if (flags & flag) != 0:
            while (code[place] & flag) == 0:
                place += 1
            return place - 1
        place = stop
    return n_observed


@kernel
def has_many_blocks(code, flag, n_observed):
    """Whether, to judge by some places in the middle, :func:`average_many` is faster than block after block."""
    start = max(2, n_observed // 2 - _N_LOOKS // 2)
    stop = min(start + _N_LOOKS, n_observed)
    n_blocks = 0
    for k in range(start, stop):
        n_blocks += 1 if ((code[k] & ~code[k - 1]) & flag) != 0 else 0
    return _MANY_BLOCKS * n_blocks > max(stop - start, 0)


@kernel
def average_many(values, code, flag, n_observed):
    """Replace the values of each tied block by their mean, kept inside the block's range against rounding.

    Made for many short blocks: no branch depends on where they end. Returns False, with nothing done, if a sum
    overflows.
    """
    block_of = np.empty(n_observed, np.uint32)
    totals = np.empty(n_observed, np.float64)
    lowest = np.empty(n_observed, np.float64)
    highest = np.empty(n_observed, np.float64)
    ends = np.empty(n_observed, np.int64)
    block = uint64(0)
    total, low, high = values[0], values[0], values[0]
    for k in range(n_observed):
        value = values[k]
        is_tied = k > 0 and (code[k] & flag) != 0
        total = total + value if is_tied else value
        low = min(low, value) if is_tied else value
        high = max(high, value) if is_tied else value
        block += uint64(0) if is_tied or k == 0 else uint64(1)
        block_of[k] = block
        totals[block] = total  # the last one of a block stays
        lowest[block] = low
        highest[block] = high
        ends[block] = k + 1
    n_blocks = int64(block) + 1
    size = ends[0]
    is_finite = True
    for b in range(n_blocks):
        if b > 0:
            size = ends[b] - ends[b - 1]
        is_finite &= abs(totals[b]) < np.inf
        totals[b] = min(max(totals[b] / size, lowest[b]), highest[b])
    if not is_finite:
        return False
    for k in range(n_observed):
        values[k] = totals[block_of[k]]
    return True


@kernel
def read_places(f, code, flag, n_observed, rule, values):
    """Values that the first `n_observed` places read from f under the tie `rule`."""
    if n_observed == f.size:
        for k in range(n_observed):
            values[k] = f[k]
    else:
        for k in range(n_observed):
            values[k] = read_between(f, node_position(float64(k), n_observed, f.size))
    if rule == FIRST:
        return
    is_dense = rule == AVERAGE and has_many_blocks(code, flag, n_observed)
    if is_dense and average_many(values, code, flag, n_observed):
        return
    start = next_block(code, flag, 0, n_observed)
    while start < n_observed:
        end = block_end(code, flag, start, n_observed)
        if rule == MEAN_RANK:
            middle = 0.5 * (start + end - 1)
            value = read_between(f, node_position(middle, n_observed, f.size))
            for k in range(start, end):
                values[k] = value
        else:
            total = 0.0
            lowest = values[start]
            highest = values[start]
            for k in range(start, end):
                total += values[k]
                lowest = min(lowest, values[k])
                highest = max(highest, values[k])
            value = total / (end - start)
            if not abs(total) < np.inf:  # the sum overflowed; the mean does not
                value = 0.0
                for k in range(start, end):
                    value += values[k] / (end - start)
            # The mean of equal numbers must be that number: keep rounding inside the block's range.
            value = min(max(value, lowest), highest)
            for k in range(start, end):
                values[k] = value
        start = next_block(code, flag, end, n_observed)


@kernel
def add_places(values, code, flag, n_observed, rule, g):
    """Adjoint of :func:`read_places`: add to g what the places' `values` weigh; `values` is overwritten."""
    if rule == MEAN_RANK:
        start = 0
        while start < n_observed:
            end = block_end(code, flag, start, n_observed)
            total = 0.0
            for k in range(start, end):
                total += values[k]
            middle = 0.5 * (start + end - 1)
            add_between(g, node_position(middle, n_observed, g.size), total)
            start = end
        return
    if rule == AVERAGE:
        average_blocks(values, code, flag, n_observed)
    if n_observed == g.size:
        for k in range(n_observed):
            g[k] += values[k]
    else:
        for k in range(n_observed):
            add_between(g, node_position(float64(k), n_observed, g.size), values[k])


@kernel
def average_blocks(values, code, flag, n_observed):
    """Replace the values of each tied block by their mean."""
    if has_many_blocks(code, flag, n_observed) and average_many(values, code, flag, n_observed):
        return
    start = next_block(code, flag, 0, n_observed)
    while start < n_observed:
        end = block_end(code, flag, start, n_observed)
        total = 0.0
        for k in range(start, end):
            total += values[k]
        mean = total / (end - start)
        for k in range(start, end):
            values[k] = mean
        start = next_block(code, flag, end, n_observed)


@kernel
def encode_row(order, values, n_observed, has_ties, flag, code):
    """Write the code row of a sample from its order and its sorted values."""
    n_marked = n_observed if has_ties else 1
    clear = flag ^ flag
    code[0] = order[0]
    for r in range(1, n_marked):
        code[r] = order[r] | (flag if values[r] == values[r - 1] else clear)
    for r in range(max(n_marked, 1), code.size):
        code[r] = order[r]


@kernel
def encode_rows(X, bits, flip, inf_key, words, sorter, memory, flag, codes, n_observed, has_ties):
    """Rank every row of `X` into code rows."""
    scratch = make_scratch(X, bits, sorter, memory)
    for i in range(X.shape[0]):
        m, tied = order_row(X[i], bits[i], flip, inf_key, words, i, scratch)
        n_observed[i], has_ties[i] = m, tied
        encode_row(scratch.order, scratch.values, m, tied, flag, codes[i])


class WriteScratch(NamedTuple):
    """Working space for :func:`write_row`, and the target in the type of the result."""

    f: np.ndarray  # in the type of the result
    values: np.ndarray  # float64: what the places read
    narrow: np.ndarray  # uint16: place of each feature, up to 65,536 of them
    wide: np.ndarray  # uint32: the same for more


@kernel
def write_size(n_features):
    """Numbers of 8 bytes in the memory that :func:`make_write_scratch` takes."""
    return n_features + n_features // 2 + 1


@kernel
def make_write_scratch(target, memory):
    """Working space in `memory`, an array of int64; `target` is f in the type of the result."""
    n_features = target.size
    places = memory[n_features:]
    is_narrow = n_features <= _NARROW
    return WriteScratch(
        target,
        memory[:n_features].view(np.float64),
        places.view(np.uint16)[: n_features if is_narrow else 0],
        places.view(np.uint32)[: 0 if is_narrow else n_features],
    )


@kernel
def write_row(f, code, flag, mask, n_observed, has_ties, rule, gap, scratch, out):
    """Write the sample T f to `out`, with `gap` for the missing values.

    Ranks are scattered, which are short and stay in the cache; the quantiles are then gathered, and the
    result is written in order. Scattering the quantiles themselves takes twice as long.
    """
    reads_f = n_observed == code.size and (rule == FIRST or not has_ties)
    if not reads_f:
        read_places(f, code, flag, n_observed, rule, scratch.values)
    if code.size <= _NARROW:
        places = scratch.narrow
        for r in range(code.size):
            places[uint64(code[r] & mask)] = np.uint16(r)
        if reads_f:
            gather_places(scratch.f, places, n_observed, gap, out)
        else:
            gather_places(scratch.values, places, n_observed, gap, out)
    else:
        wide_places = scratch.wide
        for r in range(code.size):
            wide_places[uint64(code[r] & mask)] = np.uint32(r)
        if reads_f:
            gather_places(scratch.f, wide_places, n_observed, gap, out)
        else:
            gather_places(scratch.values, wide_places, n_observed, gap, out)


@kernel
def gather_places(values, places, n_observed, gap, out):
    """Write to every feature the value at its place, `gap` where that is not an observed one."""
    if n_observed == out.size:
        n_far = out.size - _AHEAD if out.size > _NARROW else 0
        if n_far > 0:
            gather_far(values, places, n_far, out)
        rest, rest_places = out[n_far:], places[n_far:]
        for j in range(rest.size):
            rest[j] = values[uint64(rest_places[j])]
    else:
        for j in range(out.size):
            place = uint64(places[j])
            out[j] = values[place] if place < uint64(n_observed) else gap


@kernel
def gather_far(values, places, size, out):
    """Write ``values[places]`` to the first `size` entries, where the values lie outside the nearer caches."""
    memory, item_size = pointer_to(values, 0), uint64(values.itemsize)
    for j in range(size):
        prefetch(memory, uint64(places[j + _AHEAD]) * item_size)
        out[j] = values[uint64(places[j])]


@kernel
def scatter_row(f, code, flag, mask, n_observed, has_ties, rule, gap, values, out):
    """Write the sample T f to `out`, place by place."""
    n_features = code.size
    if n_observed == n_features and (rule == FIRST or not has_ties):
        for r in range(n_features):
            out[uint64(code[r] & mask)] = f[r]
        return
    read_places(f, code, flag, n_observed, rule, values)
    for r in range(n_observed):
        out[uint64(code[r] & mask)] = values[r]
    for r in range(n_observed, n_features):
        out[uint64(code[r] & mask)] = gap


@kernel
def apply_rows(f, target, memory, codes, flag, mask, n_observed, has_ties, rule, gap, out):
    """Rows T_i f of coded samples; `target` is f in the type of `out`."""
    scratch = make_write_scratch(target, memory)
    for i in range(codes.shape[0]):
        write_row(f, codes[i], flag, mask, n_observed[i], has_ties[i], rule, gap, scratch, out[i])


@kernel
def normalize_rows(
    X,
    bits,
    flip,
    inf_key,
    words,
    sorter,
    memory,
    f,
    target,
    write_memory,
    flag,
    mask,
    rule,
    n_observed,
    ranked,
    out,
):
    """Rank each row of `X` and write T_i f straight to `out`; NaN stays NaN.

    `target` is f in the type of `out`; `ranked` is working space for a row, see :func:`keep_row`.
    """
    scratch = make_scratch(X, bits, sorter, memory)
    writing = make_write_scratch(target, write_memory)
    narrow = np.empty(min(X.shape[1], _NARROW), np.uint16)
    for i in range(X.shape[0]):
        m, tied, n_parts = order_row_in_parts(X[i], bits[i], flip, inf_key, words, i, scratch)
        n_observed[i] = m
        keep_row(scratch, n_parts, m, tied, flag, narrow, ranked)
        write_kept_row(f, ranked, flag, mask, m, tied, rule, writing, out[i])


@kernel
def quantiles_row(values, n_observed, out):
    """Quantiles of a sample's sorted observed values at (j + ½)/p, interpolated where some are missing."""
    if n_observed == out.size:
        for r in range(n_observed):
            out[r] = values[r]
        return
    for r in range(out.size):
        position = node_position(float64(r), out.size, n_observed)
        out[r] = read_between(values, position)


@kernel
def sort_rows(X, bits, flip, inf_key, words, sorter, memory, n_observed, out):
    """Sorted rows of `X` (interpolated quantiles of rows with NaN)."""
    scratch = make_scratch(X, bits, sorter, memory)
    for i in range(X.shape[0]):
        n_observed[i], _, _ = order_row_in_parts(X[i], bits[i], flip, inf_key, words, i, scratch)
        if n_observed[i] > 0:
            quantiles_row(scratch.values, n_observed[i], out[i])


@kernel
def sum_sorted_rows(
    X,
    bits,
    flip,
    inf_key,
    words,
    sorter,
    memory,
    weights,
    n_observed,
    has_ties,
    flag,
    kept,
    adds,
    total,
):
    """Sum the weighted sorted rows of `X` into `total`, and keep their ranking unless `kept` is empty.

    What `total` holds counts only if this `adds` to it. Rows with no observed value add nothing.
    """
    scratch = make_scratch(X, bits, sorter, memory)
    row = np.empty(X.shape[1], np.float64)
    narrow = np.empty(min(X.shape[1], _NARROW), np.uint16)
    for i in range(X.shape[0]):
        m, tied, n_parts = order_row_in_parts(X[i], bits[i], flip, inf_key, words, i, scratch)
        n_observed[i], has_ties[i] = m, tied
        if kept.shape[0] > 0:
            keep_row(scratch, n_parts, m, tied, flag, narrow, kept[i])
        if m == row.size:
            add_row(weights[i], scratch.values, adds or i > 0, total)
        elif m > 0:
            quantiles_row(scratch.values, m, row)
            add_row(weights[i], row, adds or i > 0, total)
        elif not adds and i == 0:
            for r in range(row.size):
                total[r] = 0.0


@kernel
def add_row(weight, values, adds, total):
    """Add weight·values to `total`, or to zero."""
    if adds:
        for r in range(total.size):
            total[r] += weight * values[r]
    else:
        for r in range(total.size):
            total[r] = 0.0 + weight * values[r]


@kernel
def keep_row(scratch, n_parts, n_observed, has_ties, flag, narrow, kept):
    """Keep what :func:`write_kept_row` needs of an ordered sample, one integer per value.

    ``kept[j]`` is the rank of feature j; its highest bit says whether the value at place j ties with the one at
    place j − 1.
    """
    write_ranks(scratch, n_parts, narrow, kept)
    if not has_ties:
        return
    before, values = scratch.values[: n_observed - 1], scratch.values[1:n_observed]
    goal, clear = kept[1:n_observed], flag ^ flag
    for r in range(goal.size):
        goal[r] |= flag if values[r] == before[r] else clear


@kernel
def write_kept_row(f, kept, flag, mask, n_observed, has_ties, rule, scratch, out):
    """Write the sample T f to `out`, with NaN for the missing values; `kept` is overwritten."""
    reads_f = n_observed == kept.size and (rule == FIRST or not has_ties)
    if not reads_f:
        read_places(f, kept, flag, n_observed, rule, scratch.values)
    if has_ties:
        for j in range(kept.size):
            kept[j] &= mask
    if reads_f:
        gather_places(scratch.f, kept, n_observed, np.nan, out)
    else:
        gather_places(scratch.values, kept, n_observed, np.nan, out)


@kernel
def write_kept_rows(f, target, memory, kept, flag, mask, n_observed, has_ties, rule, out):
    """Rows T_i f where :func:`keep_row` left `kept` inside the memory of `out`; NaN stays NaN.

    `kept` lies at the end of each row, so that no rank is overwritten before it is read. `target` is f in the
    type of `out`.
    """
    scratch = make_write_scratch(target, memory)
    for i in range(out.shape[0]):
        write_kept_row(f, kept[i], flag, mask, n_observed[i], has_ties[i], rule, scratch, out[i])


@kernel
def gather_row(w, code, mask, n_observed, values):
    """Values of w at the features of the first places."""
    for r in range(n_observed):
        values[r] = w[uint64(code[r] & mask)]


@kernel
def adjoint_row(w, code, flag, mask, n_observed, has_ties, rule, values, out):
    """Write Tᵀ w to `out`; `values` is float64 working space."""
    n_features = code.size
    gather_row(w, code, mask, n_observed, values)
    if n_observed == n_features and (rule == FIRST or not has_ties):
        for r in range(n_features):
            out[r] = values[r]
        return
    for r in range(n_features):
        out[r] = 0.0
    add_places(values, code, flag, n_observed, rule, out)


@kernel
def adjoint_rows(w, codes, flag, mask, n_observed, has_ties, rule, out):
    """Rows T_iᵀ w of coded samples."""
    values = np.empty(codes.shape[1], np.float64)
    row = np.empty(codes.shape[1], np.float64)
    for i in range(codes.shape[0]):
        if n_observed[i] == codes.shape[1] and (rule == FIRST or not has_ties[i]):
            gather_row(w, codes[i], mask, n_observed[i], out[i])
        else:
            adjoint_row(w, codes[i], flag, mask, n_observed[i], has_ties[i], rule, values, row)
            goal = out[i]
            for r in range(row.size):
                goal[r] = row[r]


@kernel
def adjoint_knot_rows(w, codes, flag, mask, n_observed, has_ties, rule, node, part, out):
    """Rows Bᵀ T_iᵀ w, where place j reads (1 − part)·g[node] + part·g[node + 1]: one entry per knot."""
    values = np.empty(codes.shape[1], np.float64)
    row = np.empty(codes.shape[1], np.float64)
    knots = np.empty(out.shape[1] + 1, np.float64)
    for i in range(codes.shape[0]):
        adjoint_row(w, codes[i], flag, mask, n_observed[i], has_ties[i], rule, values, row)
        fold_to_knots(row, node, part, knots)
        goal = out[i]
        for k in range(goal.size):
            goal[k] = knots[k]


@kernel
def fold_to_knots(row, node, part, knots):
    """Adjoint of reading the knots at every place; `knots` has one entry more than there are knots."""
    for k in range(knots.size):
        knots[k] = 0.0
    for j in range(row.size):
        k = node[j]
        knots[k] += (1.0 - part[j]) * row[j]
        knots[k + 1] += part[j] * row[j]


@kernel
def sum_apply_rows(c, f, codes, flag, mask, n_observed, has_ties, rule, total):
    """Add Σ_i c_i T_i f to `total`."""
    values = np.empty(codes.shape[1], np.float64)
    row = np.empty(codes.shape[1], np.float64)
    for i in range(codes.shape[0]):
        scatter_row(f, codes[i], flag, mask, n_observed[i], has_ties[i], rule, 0.0, values, row)
        for j in range(row.size):
            total[j] += c[i] * row[j]


@kernel
def sum_adjoint_rows(c, w, codes, flag, mask, n_observed, has_ties, rule, total):
    """Add Σ_i c_i T_iᵀ w to `total`."""
    values = np.empty(codes.shape[1], np.float64)
    row = np.empty(codes.shape[1], np.float64)
    for i in range(codes.shape[0]):
        adjoint_row(w, codes[i], flag, mask, n_observed[i], has_ties[i], rule, values, row)
        for j in range(row.size):
            total[j] += c[i] * row[j]


@kernel
def sum_operator_rows(c, codes, flag, mask, rule, steps):
    """Add the steps along each row of Σ_i c_i T_i to `steps`; its sums along the rows are the matrix.

    For complete samples. An entry that reads the mean of f over the places a … e − 1 is a row that is constant
    there: one step up at a and one down at e, however long the block.
    """
    n_features = codes.shape[1]
    for i in range(codes.shape[0]):
        code = codes[i]
        start = 0
        while start < n_features:
            end = start + 1
            if rule != FIRST:
                end = block_end(code, flag, start, n_features)
            low, high = start, end
            if rule == MEAN_RANK:  # the one or two places in the middle
                low, high = (start + end - 1) // 2, (start + end) // 2 + 1
            value = c[i] / (high - low)
            for r in range(start, end):
                j = code[r] & mask
                steps[j, low] += value
                if high < n_features:
                    steps[j, high] -= value
            start = end


@kernel
def has_nan(values):
    """Whether any of the values is NaN: the quantiles between −∞ and +∞ are."""
    return np.any(np.isnan(values))


@kernel
def median_columns(X, rows, out):
    """Median of the chosen rows of every column of `X`, a block of columns at a time.

    A column with NaN has the median NaN.
    """
    width = min(16, X.shape[1])
    n_rows = rows.size
    block = np.empty((width, n_rows), np.float64)
    for start in range(0, X.shape[1], width):
        stop = min(start + width, X.shape[1])
        for i in range(n_rows):
            x = X[rows[i]]
            for j in range(start, stop):
                block[j - start, i] = x[j]
        for j in range(start, stop):
            column = block[j - start]
            out[j] = np.nan if has_nan(column) else np.median(column)


@kernel
def weighted_median_columns(X, rows, weights, out):
    """Weighted median of the chosen rows of every column: halfway where the weights split evenly.

    A column with NaN has the median NaN.
    """
    n_rows = rows.size
    column = np.empty(n_rows, np.float64)
    half = 0.0
    for i in range(n_rows):
        half += weights[i]
    half *= 0.5
    for j in range(X.shape[1]):
        for i in range(n_rows):
            column[i] = X[rows[i], j]
        if has_nan(column):
            out[j] = np.nan
            continue
        order = np.argsort(column, kind="mergesort")
        below = 0.0
        for k in range(n_rows):
            below += weights[order[k]]
            if abs(below - half) <= 1e-12 * half and k + 1 < n_rows:
                out[j] = 0.5 * column[order[k]] + 0.5 * column[order[k + 1]]
                break
            if below > half:
                out[j] = column[order[k]]
                break


@kernel
def score_rows(W, f, codes, flag, mask, n_observed, has_ties, rule, out):
    """Scores w_k·T_i f of coded samples, summed feature by feature: a row's score is its own."""
    n_features = codes.shape[1]
    values = np.empty(n_features, np.float64)
    row = np.empty(n_features, np.float64)
    for i in range(codes.shape[0]):
        scatter_row(f, codes[i], flag, mask, n_observed[i], has_ties[i], rule, 0.0, values, row)
        for k in range(W.shape[0]):
            w = W[k]
            total = 0.0
            for j in range(n_features):
                total += w[j] * row[j]
            out[i, k] = total
