"""The stable order of rows of numbers, by a radix sort from the lowest digit to the highest.

Rows come as unsigned integers of 32 or 64 bits, see :func:`suquan.ranking.as_bits`; they leave as *code* rows,
see :func:`encode_rows`, for :mod:`suquan._kernels.operators`. :mod:`suquan.ranking` calls this.

1. Every value gets a *key* of 64 bits that sorts as the value does. NaN has the highest key, −0.0 that of +0.0.
2. The 33 leading bits of the key and the position of the value, in 31 bits, make one *word*.
3. Words are sorted by digits of 11 bits (8 in short rows). A digit that all values share is skipped.
4. Values of 32 bits are then in order. Keys of 64 bits are put in order by insertion; where many share their
   leading bits, the row is sorted anew, by the 31 trailing bits first.

Every pass is stable, so equal values stay in order of position, and the order is exact.
"""

import numpy as np
from numba import int64, uint32, uint64

from suquan._kernels._jit import kernel

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
