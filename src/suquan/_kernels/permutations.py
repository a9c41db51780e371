"""Sums over pairs of features that two ranked samples have in the same order, and shared places.

Places count from the top. A tied block covers the places `start` to `end` − 1, so that `start` is the number of
features strictly above. Arrays of shape (n_samples, n_features) come in; every ``*_row`` kernel writes one
sample's row of a Gram matrix. :mod:`suquan.kernels` calls this.
"""

import numpy as np
from numba import int64, uint64

from suquan._kernels._jit import kernel

# Weights of a pair of features in the weighted Kendall kernel.
MULTIPLICATIVE, AVERAGE, ADDITIVE = 0, 1, 2

# Features are counted in words of 64 bits; the masks add up the bits of a word in four steps.
_PAIRS, _FOURS = uint64(0x5555555555555555), uint64(0x3333333333333333)
_BYTES, _ONES = uint64(0x0F0F0F0F0F0F0F0F), uint64(0x0101010101010101)


@kernel
def place_rows(codes, flag, mask, order, place, start, end):
    """Order and places of coded samples, from the top.

    Parameters
    ----------
    codes : ndarray of shape (n_samples, n_features)
        See :mod:`suquan._kernels.operators`; nothing is missing.
    order, place, start, end : int32 ndarrays of shape (n_samples, n_features)
        Written: the feature at each place; each feature's place, and the first place of its tied block and
        that after it.
    """
    n_features = codes.shape[1]
    for i in range(codes.shape[0]):
        first = 0
        for r in range(n_features):
            code = codes[i, n_features - 1 - r]
            j = int64(code & mask)
            order[i, r], place[i, j], start[i, j] = j, r, first
            if (code & flag) == 0:  # the last one of its block from the top
                for k in range(first, r + 1):
                    end[i, order[i, k]] = r + 1
                first = r + 1


@kernel
def count_bits(word):
    """Number of bits that are set in a word of 64."""
    word -= (word >> uint64(1)) & _PAIRS
    word = (word & _FOURS) + ((word >> uint64(2)) & _FOURS)
    word = (word + (word >> uint64(4))) & _BYTES
    return int64((word * _ONES) >> uint64(56))


@kernel
def count_before(words, tree, place):
    """Number of places before `place` that are marked in `words`; `tree` sums whole words."""
    k = place >> 6
    count = 0
    if place & 63:
        count = count_bits(words[k] & ((uint64(1) << uint64(place & 63)) - uint64(1)))
    while k > 0:
        count += tree[k]
        k &= k - 1
    return count


@kernel
def kendall_row(order, end, places, starts, ends, out):
    """Mean of sign products over the pairs of features, of one sample with the samples of `places`.

    The features of one sample are met from the top, block by block, and their places in the other one are
    marked: bits, and a Fenwick tree over words of them. O(p log p) for each of the other samples.
    """
    n_features = order.size
    n_words = (n_features + 63) // 64
    words, tree = np.empty(n_words, np.uint64), np.empty(n_words + 1, np.int64)
    for m in range(out.size):
        words[:] = 0
        tree[:] = 0
        total, first = 0, 0
        while first < n_features:
            last = end[order[first]]
            for r in range(first, last):
                j = order[r]
                above = count_before(words, tree, int64(starts[m, j]))
                reached = above
                if ends[m, j] - starts[m, j] > 1:
                    reached = count_before(words, tree, int64(ends[m, j]))
                total += above + reached - first
            for r in range(first, last):
                place = int64(places[m, order[r]])
                k = place >> 6
                words[k] |= uint64(1) << uint64(place & 63)
                k += 1
                while k <= n_words:
                    tree[k] += 1
                    k += k & -k
            first = last
        out[m] = total / (n_features * (n_features - 1) // 2)


@kernel
def pair_weights(kind, u, a, b, left, right):
    """Vectors with left_i·right_j the weight of a pair (i, j), j above i, at the places a and b of each.

    Returns their length.
    """
    if kind == AVERAGE:
        left[0], right[0] = u.size - max(a, b), 1.0
        return 1
    if kind == MULTIPLICATIVE:
        left[0] = right[0] = u[a] * u[b]
        return 1
    left[0], left[1], left[2], left[3] = u[a] * u[b], u[a], u[b], 1.0
    right[0], right[1], right[2], right[3] = 1.0, u[b], u[a], u[a] * u[b]
    return 4


@kernel
def weighted_kendall_row(kind, u, order, start, end, starts, out):
    """Sums of the weights of the pairs that one sample and each sample of `starts` have in the same order.

    As in :func:`kendall_row`, with a Fenwick tree of the vectors of :func:`pair_weights`.

    Parameters
    ----------
    kind : int
        One of the weights.
    u : ndarray of shape (n_features,)
        Weight of each place.
    """
    n_features = order.size
    tree, left, right = np.empty((n_features + 1, 4)), np.empty(4), np.empty(4)
    for m in range(out.size):
        tree[:] = 0.0
        total, first = 0.0, 0
        while first < n_features:
            last = end[order[first]]
            for r in range(first, last):
                j = order[r]
                k = int64(starts[m, j])
                n = pair_weights(kind, u, start[j], k, left, right)
                while k > 0:
                    for l in range(n):
                        total += left[l] * tree[k, l]
                    k &= k - 1
            for r in range(first, last):
                j = order[r]
                k = int64(starts[m, j])
                n = pair_weights(kind, u, start[j], k, left, right)
                k += 1
                while k <= n_features:
                    for l in range(n):
                        tree[k, l] += right[l]
                    k += k & -k
            first = last
        out[m] = total


@kernel
def shared_places_row(low, high, lows, highs, out):
    """Sums over features of ⟨t, t'⟩, where t is 1/(high − low) from place low up to high, 0 elsewhere."""
    for m in range(out.size):
        total = 0.0
        for j in range(low.size):
            shared = min(high[j], highs[m, j]) - max(low[j], lows[m, j])
            if shared > 0:
                total += shared / (int64(high[j] - low[j]) * int64(highs[m, j] - lows[m, j]))
        out[m] = total
