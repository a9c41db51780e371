"""Sums over pairs of features that two ranked samples have in the same order, and shared places.

Places count from the top. A tied block covers the places `start` to `end` − 1, so that `start` is the number of
features strictly above. Arrays of shape (n_samples, n_features) come in; every ``*_row`` kernel writes one
sample's row of a Gram matrix. :mod:`suquan.kernels` calls this.
"""

import numpy as np
from numba import int32, int64, uint64

from suquan._kernels._jit import kernel

# Weights of a pair of features in the weighted Kendall kernel.
MULTIPLICATIVE, AVERAGE, ADDITIVE = 0, 1, 2


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
def count_rising(sequence, counts):
    """Number of pairs that rise in a permutation of 0, …, p − 1, in O(p log p).

    A pair counts at the highest digit, in base 4, in which its numbers differ: there the number of earlier ones
    with the same higher digits and a lower digit is known.

    Parameters
    ----------
    sequence : uint32 ndarray of shape (n_features,)
    counts : int32 ndarray of shape (n_features // 4 + 1, 4)
        Working space.
    """
    total, shift = 0, uint64(0)
    while (sequence.size - 1) >> shift:
        counts[: (sequence.size >> (shift + uint64(2))) + 1] = 0
        for r in range(sequence.size):
            number = uint64(sequence[r]) >> shift
            group, digit = number >> uint64(2), number & uint64(3)
            total += counts[group, digit]
            for higher in range(4):
                counts[group, higher] += int32(uint64(higher) > digit)
        shift += uint64(2)
    return total


@kernel
def kendall_row(start, orders, starts, out):
    """Mean of sign products over the pairs of features, of one sample with the samples of `orders`.

    Ties are settled so that tied pairs rise: those of each sample in the order of the other one.
    So the rising pairs are those in the same order and the tied ones, which are counted apart.
    """
    n_features = start.size
    n_pairs = n_features * (n_features - 1) // 2
    sequence = np.empty(n_features, np.uint32)
    features, met = np.empty(n_features, np.int32), np.empty(n_features, np.int32)
    counts = np.empty((n_features // 4 + 1, 4), np.int32)
    for m in range(out.size):
        n_tied, n_both = 0, 0
        met[:] = 0
        for r in range(n_features):
            j = uint64(orders[m, r])
            k = uint64(start[j])
            features[k + uint64(met[k])] = j
            n_tied += met[k]
            met[k] += 1
        met[:] = 0
        last_start, last_k = int32(-1), uint64(0)
        for r in range(n_features):
            j = uint64(features[r])
            k = uint64(starts[m, j])
            sequence[r] = k + uint64(met[k])
            n_tied += met[k]
            met[k] += 1
            n_both = n_both + 1 if start[j] == last_start and k == last_k else 0
            last_start, last_k = start[j], k
            n_tied -= n_both
        out[m] = (2 * count_rising(sequence, counts) - n_pairs - n_tied) / n_pairs


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

    The features of one sample are met from the top, block by block, and the vectors of :func:`pair_weights` are
    added to a Fenwick tree over the places in the other: O(p log p).

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
