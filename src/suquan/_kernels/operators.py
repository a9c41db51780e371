"""Ranks of samples: the stable order of rows of numbers; the sample operator T_i and its adjoint, row by row.

Ranked samples are *code* rows, which :func:`encode_rows` makes: ``code[r]`` holds the feature at place r and,
in its highest bit (`flag`; `mask` has the others), whether the value ties with that at place r − 1. The first
`n_observed` places are the values that are not NaN. With f a function of nodes (j + ½)/p, the value at place k
of m observed ones reads f at (k + ½)/m. Results go to arrays that the caller gives.
:class:`suquan.ranking.SampleOperator` and :mod:`suquan.targets` call these kernels.

Rows are sorted by digits, from the lowest to the highest. They come as unsigned integers of 32 or 64 bits, see
:func:`suquan.ranking.as_bits`.

1. Every value gets a *key* of 64 bits that sorts as the value does. NaN has the highest key, −0.0 that of +0.0.
2. The 33 leading bits of the key and the position of the value, in 31 bits, make one *word*.
3. Words are sorted by digits of 11 bits (8 in short rows). A digit that all values share is skipped.
4. Values of 32 bits are then in order. Keys of 64 bits are put in order by insertion; where many share their
   leading bits, the row is sorted anew, by the 31 trailing bits first.

Every pass is stable, so equal values stay in order of position, and the order is exact.
"""

import numpy as np
from numba import float64, int64, uint32, uint64

from suquan._kernels._jit import kernel

# Arrays are filled by loops: an assignment to a slice takes Numba a second to compile.

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
def average_blocks(values, code, flag, n_observed):
    """Replace the values of each tied block by their mean.

    The mean is kept inside the block's range, so that rounding does not change equal numbers. Where a sum
    overflows, shares of the values are added.
    """
    start = 0
    while start < n_observed:
        end = block_end(code, flag, start, n_observed)
        if end - start > 1:
            total, n_tied = 0.0, end - start
            lowest, highest = values[start], values[start]
            for k in range(start, end):
                value = values[k]
                total += value
                lowest, highest = min(lowest, value), max(highest, value)
            mean = total / n_tied
            if not abs(total) < np.inf:
                mean = 0.0
                for k in range(start, end):
                    mean += values[k] / n_tied
            mean = min(max(mean, lowest), highest)
            for k in range(start, end):
                values[k] = mean
        start = end


@kernel
def read_places(f, code, flag, n_observed, rule, values):
    """Values that the first `n_observed` places read from f under the tie `rule`."""
    if rule == MEAN_RANK:
        start = 0
        while start < n_observed:
            end = block_end(code, flag, start, n_observed)
            middle = 0.5 * (start + end - 1)
            value = read_between(f, node_position(middle, n_observed, f.size))
            for k in range(start, end):
                values[k] = value
            start = end
        return
    if n_observed == f.size:
        for k in range(n_observed):
            values[k] = f[k]
    else:
        for k in range(n_observed):
            values[k] = read_between(f, node_position(k, n_observed, f.size))
    if rule == AVERAGE:
        average_blocks(values, code, flag, n_observed)


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
            add_between(g, node_position(k, n_observed, g.size), values[k])


@kernel
def apply_rows(f, codes, flag, mask, n_observed, has_ties, rule, gap, out):
    """Write the samples T_i f, with `gap` for missing values; a row is scattered in the cache, then copied."""
    values, row = np.empty(f.size), np.empty(f.size)
    for i in range(codes.shape[0]):
        code, m, goal = codes[i], n_observed[i], out[i]
        read = f
        if m < code.size or (has_ties[i] and rule != FIRST):
            read_places(f, code, flag, m, rule, values)
            read = values
        for r in range(code.size):
            row[uint64(code[r] & mask)] = read[r] if r < m else gap
        for j in range(row.size):
            goal[j] = row[j]


@kernel
def adjoint_rows(w, codes, flag, mask, n_observed, has_ties, rule, node, part, out):
    """Write the rows Bᵀ T_iᵀ w, where place j reads (1 − part_j)·g[node_j] + part_j·g[node_j + 1]."""
    values, row = np.empty(w.size), np.empty(w.size)
    knots = np.empty(out.shape[1] + 1)  # the last one only ever gets 0
    for i in range(codes.shape[0]):
        code, m, goal = codes[i], n_observed[i], out[i]
        for r in range(m):
            values[r] = w[uint64(code[r] & mask)]
        found = values
        if m < code.size or (has_ties[i] and rule != FIRST):
            for r in range(code.size):
                row[r] = 0.0
            add_places(values, code, flag, m, rule, row)
            found = row
        for k in range(knots.size):
            knots[k] = 0.0
        for j in range(found.size):
            k = node[j]
            knots[k] += (1.0 - part[j]) * found[j]
            knots[k + 1] += part[j] * found[j]
        for k in range(goal.size):
            goal[k] = knots[k]


@kernel
def sort_rows(X, codes, mask, n_observed, out):
    """Sorted rows of `X`; of rows with NaN the quantiles at (j + ½)/p, of rows without any value NaN."""
    for i in range(codes.shape[0]):
        x, code, m, goal = X[i], codes[i], n_observed[i], out[i]
        ordered = goal if m == goal.size else np.empty(m, out.dtype)
        for r in range(m):
            ordered[r] = x[uint64(code[r] & mask)]
        if m < goal.size:
            for r in range(goal.size):
                position = node_position(r, goal.size, m)
                goal[r] = read_between(ordered, position) if m > 0 else np.nan


# -- sorting ----------------------------------------------------------------------------------------

# A word: leading bits of the key, and the position in the lowest bits.
_N_POSITION_BITS = 31
_POSITION = uint64((1 << _N_POSITION_BITS) - 1)
_SIGN = uint64(1 << 63)
_NAN = uint64((1 << 64) - 1)
# Bits of an infinity, of 32 bits (moved up) and of 64.
_INFINITY_32, _INFINITY_64 = uint64(0x7F800000 << 32), uint64(0x7FF << 52)
# Rows up to these lengths are sorted by insertion, and by digits of 8 bits instead of 11.
_INSERTED, _SHORT = 48, 450
_N_COUNTS = 3 << 11


@kernel
def key_at(bits, j, is_float):
    """Key of value j, 64 bits: those of floats sort as the floats do, with NaN last."""
    key, infinity = uint64(bits[j]), _INFINITY_64
    if bits.itemsize == 4:
        key, infinity = key << uint64(32), _INFINITY_32
    if not is_float:
        return key
    size = key & ~_SIGN
    flipped = key ^ (uint64(int64(key) >> int64(63)) | _SIGN)  # all bits of negative numbers
    flipped = _SIGN if size == 0 else flipped
    return _NAN if size > infinity else flipped


@kernel
def sort_words(words, spare, counts):
    """Sort `words` by all bits but those of the position; stable. Gives the sorted array, then the other."""
    size = words.size
    width, n_digits = (8, 5) if size <= _SHORT else (11, 3)
    n_values = 1 << width
    mask = uint64(n_values - 1)
    for k in range(n_digits * n_values):
        counts[k] = uint32(0)
    for j in range(size):
        digits = words[j] >> uint64(_N_POSITION_BITS)
        for k in range(n_digits):
            counts[uint64(k * n_values) + (digits & mask)] += uint32(1)
            digits >>= uint64(width)
    for k in range(n_digits):
        shift = uint64(_N_POSITION_BITS + k * width)
        places = counts[k * n_values : (k + 1) * n_values]
        if places[(words[0] >> shift) & mask] == size:
            continue  # all share this digit
        start = uint32(0)
        for digit in range(n_values):
            count = places[digit]
            places[digit] = start
            start += count
        for j in range(size):
            word = words[j]
            digit = (word >> shift) & mask
            place = places[digit]
            places[digit] = place + uint32(1)
            spare[uint64(place)] = word
        words, spare = spare, words
    return words, spare


@kernel
def insert(keys, words, most):
    """Sort `keys` by stable insertion and move `words` along; False, unfinished, after `most` moves."""
    for r in range(1, keys.size):
        key = keys[r]
        if key >= keys[r - 1]:
            continue
        word, hole = words[r], r
        while hole > 0 and keys[hole - 1] > key:
            keys[hole], words[hole] = keys[hole - 1], words[hole - 1]
            hole -= 1
        keys[hole], words[hole] = key, word
        most -= r - hole
        if most < 0:
            return False
    return True


@kernel
def read_keys(bits, is_float, words, keys):
    """Keys of the values at the positions that `words` hold; of 32-bit values the word has all of it."""
    if bits.itemsize == 4:
        for r in range(words.size):
            keys[r] = words[r] & ~_POSITION
    else:
        for r in range(words.size):
            keys[r] = key_at(bits, words[r] & _POSITION, is_float)


@kernel
def order_row(bits, is_float, words, spare, counts):
    """Sort one row; the last three arguments are working space.

    Words, whose lowest 31 bits are the positions of the sorted values, keys that are equal where these are, and
    the number of values that are not NaN, which come first, go out.
    """
    size = bits.size
    n_missing = 0
    for j in range(size):
        key = key_at(bits, j, is_float)
        n_missing += is_float and key == _NAN
        spare[j] = key
        words[j] = (key & ~_POSITION) | uint64(j)
    n_observed = size - n_missing
    if size <= _INSERTED:
        insert(spare, words, size * size)
        return words, spare, n_observed
    words, spare = sort_words(words, spare, counts)
    read_keys(bits, is_float, words, spare)
    if bits.itemsize == 4 or insert(spare, words, 16 + size // 2):
        return words, spare, n_observed
    for j in range(size):
        trailing = key_at(bits, j, is_float) << uint64(64 - _N_POSITION_BITS)
        words[j] = trailing | uint64(j)
    words, spare = sort_words(words, spare, counts)
    for r in range(size):
        position = words[r] & _POSITION
        words[r] = (key_at(bits, position, is_float) & ~_POSITION) | position
    words, spare = sort_words(words, spare, counts)
    read_keys(bits, is_float, words, spare)
    return words, spare, n_observed


@kernel
def encode_rows(bits, is_float, flag, codes, n_observed, has_ties):
    """Code rows of samples.

    ``codes[i, r]`` is the position of the value at place r of sorted row i. Its highest bit, `flag`, is set if
    that value ties with the one at place r − 1. `n_observed` and `has_ties` are written for every row.
    """
    n_features = bits.shape[1]
    words, spare = np.empty(n_features, np.uint64), np.empty(n_features, np.uint64)
    counts = np.empty(_N_COUNTS, np.uint32)
    none = flag ^ flag
    for i in range(bits.shape[0]):
        ordered, keys, m = order_row(bits[i], is_float, words, spare, counts)
        code = codes[i]
        for r in range(n_features):
            code[r] = ordered[r] & _POSITION
        found = none
        for r in range(1, m):
            tie = flag if keys[r] == keys[r - 1] else none
            found |= tie
            code[r] |= tie
        n_observed[i] = m
        has_ties[i] = found != none
