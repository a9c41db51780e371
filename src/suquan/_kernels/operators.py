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

    The mean is kept inside the block's range, so that rounding does not change equal numbers. No branch depends
    on where blocks end: short ones would cost twice the time. Where a sum overflows, all are taken again of
    small multiples.
    """
    means = np.empty(n_observed)
    for scale in (1.0, 2.0**-32):
        first, total, lowest, highest = 0, 0.0, 0.0, 0.0
        is_finite = True
        for k in range(n_observed):
            value = values[k]
            tied = (code[k] & flag) != 0
            first = first if tied else k
            total = scale * value + (total if tied else 0.0)
            lowest = min(value, lowest if tied else value)
            highest = max(value, highest if tied else value)
            mean = total / (k - first + 1) / scale
            means[first] = min(max(mean, lowest), highest)  # the last one of a block stays
            is_finite &= abs(total) < np.inf
        if is_finite:
            break
    first = 0
    for k in range(n_observed):
        first = first if (code[k] & flag) != 0 else k
        values[k] = means[first]


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
def apply_row(f, code, flag, mask, n_observed, has_ties, rule, gap, values, out):
    """Write the sample T f to `out`, with `gap` for missing values; `values` is float64 working space."""
    read = f
    if n_observed < code.size or (has_ties and rule != FIRST):
        read_places(f, code, flag, n_observed, rule, values)
        read = values
    for r in range(n_observed):
        out[uint64(code[r] & mask)] = read[r]
    for r in range(n_observed, code.size):
        out[uint64(code[r] & mask)] = gap


@kernel
def adjoint_row(w, code, flag, mask, n_observed, has_ties, rule, values, out):
    """Write Tᵀ w to `out`; `values` is float64 working space."""
    if n_observed == code.size and (rule == FIRST or not has_ties):
        for r in range(code.size):
            out[r] = w[uint64(code[r] & mask)]
        return
    for r in range(n_observed):
        values[r] = w[uint64(code[r] & mask)]
    for r in range(code.size):
        out[r] = 0.0
    add_places(values, code, flag, n_observed, rule, out)


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
def apply_rows(f, codes, flag, mask, n_observed, has_ties, rule, gap, out):
    """Rows T_i f of coded samples, each scattered to a row that stays in the cache, then copied."""
    values, row = np.empty(f.size), np.empty(f.size)
    for i in range(codes.shape[0]):
        apply_row(f, codes[i], flag, mask, n_observed[i], has_ties[i], rule, gap, values, row)
        goal = out[i]
        for j in range(row.size):
            goal[j] = row[j]


@kernel
def adjoint_rows(w, codes, flag, mask, n_observed, has_ties, rule, node, part, out):
    """Rows T_iᵀ w of coded samples, or Bᵀ T_iᵀ w where `node` is not empty.

    Place j then reads (1 − part)·g[node] + part·g[node + 1], and a row has one entry per knot.
    """
    values, row = np.empty(w.size), np.empty(w.size)
    knots = np.empty(out.shape[1] + 1)
    for i in range(codes.shape[0]):
        adjoint_row(w, codes[i], flag, mask, n_observed[i], has_ties[i], rule, values, row)
        found = row
        if node.size > 0:
            fold_to_knots(row, node, part, knots)
            found = knots
        goal = out[i]
        for j in range(goal.size):
            goal[j] = found[j]


@kernel
def sum_rows(is_adjoint, c, vector, codes, flag, mask, n_observed, has_ties, rule, total):
    """Add Σ_i c_i T_i f to `total`, with f the `vector`, or Σ_i c_i T_iᵀ w, with w the `vector`."""
    values, row = np.empty(vector.size), np.empty(vector.size)
    for i in range(codes.shape[0]):
        code, m, tied = codes[i], n_observed[i], has_ties[i]
        if is_adjoint:
            adjoint_row(vector, code, flag, mask, m, tied, rule, values, row)
        else:
            apply_row(vector, code, flag, mask, m, tied, rule, 0.0, values, row)
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
def score_rows(W, f, codes, flag, mask, n_observed, has_ties, rule, out):
    """Scores w_k·T_i f of coded samples, summed feature by feature: a row's score is its own."""
    values, row = np.empty(f.size), np.empty(f.size)
    for i in range(codes.shape[0]):
        apply_row(f, codes[i], flag, mask, n_observed[i], has_ties[i], rule, 0.0, values, row)
        for k in range(W.shape[0]):
            w = W[k]
            total = 0.0
            for j in range(row.size):
                total += w[j] * row[j]
            out[i, k] = total


@kernel
def moment_rows(s, F, W, centre, codes, flag, mask, n_observed, has_ties, rule, sums):
    """Add Σ_i s_i, Σ_i s_i d_i and Σ_i s_i d_i² of every feature to the rows of `sums`, a plane per curve.

    d_i = Σ_l W[k, l]·(T_i F[l]) − centre[k], over the samples that have the feature.
    """
    values, rows = np.empty(F.shape[1]), np.empty(F.shape)
    for i in range(codes.shape[0]):
        code, m, tied = codes[i], n_observed[i], has_ties[i]
        for t in range(F.shape[0]):
            apply_row(F[t], code, flag, mask, m, tied, rule, np.nan, values, rows[t])
        for k in range(W.shape[0]):
            d = -centre[k]
            for t in range(F.shape[0]):
                d += W[k, t] * rows[t]
            for j in range(d.size):
                weight = 0.0 if np.isnan(d[j]) else s[i]
                value = 0.0 if np.isnan(d[j]) else d[j]
                sums[0, k, j] += weight
                sums[1, k, j] += weight * value
                sums[2, k, j] += weight * value * value


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


@kernel
def sum_sorted_rows(X, codes, mask, n_observed, weights, total):
    """Add the weighted sorted rows of `X` to `total`; rows without any value add nothing."""
    row = np.empty((1, codes.shape[1]))
    for i in range(codes.shape[0]):
        if n_observed[i] > 0:
            one = slice(i, i + 1)
            sort_rows(X[one], codes[one], mask, n_observed[one], row)
            for r in range(total.size):
                total[r] += weights[i] * row[0, r]


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
    """Sort `words` by all bits but those of the position; stable.

    Returns the sorted words and the other array, of which each may be either of the two.
    """
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

    Returns
    -------
    words : array of uint64, shape (n_features,)
        Its lowest 31 bits are the positions of the sorted values.
    keys : array of uint64, shape (n_features,)
        Equal where the sorted values are.
    n_observed : int
        Number of values that are not NaN; these come first.
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


@kernel
def invert_rows(order, ranks):
    """Write the inverse permutation of every row of `order` to `ranks`."""
    for i in range(order.shape[0]):
        for r in range(order.shape[1]):
            ranks[i, uint64(order[i, r])] = r
