"""Sums over the pairs of features that two ranked samples have in the same order.

Places count from the top. A tied block covers the places `start` to `end` − 1, so that `start` is the number of
features strictly above. Arrays of shape (n_samples, n_features) come in; every ``*_row`` kernel writes one
sample's row of a Gram matrix. :mod:`suquan.kernels` calls this.

The features of one sample are met from the top, block by block. A Fenwick tree over the places in the other
sample holds those met before: a sum over the ones above, and an insertion, take O(log p) each.
"""

import numpy as np
from numba import int64

from suquan._kernels._jit import kernel

# Weights of a pair of features in the weighted Kendall kernel.
MULTIPLICATIVE, AVERAGE, ADDITIVE = 0, 1, 2


@kernel
def kendall_row(order, end, starts, out):
    """Mean of sign products over the pairs of features, of one sample with the samples of `starts`."""
    n_features = order.size
    tree, tied = np.empty(n_features + 1, np.int32), np.empty(n_features, np.int32)
    for m in range(out.size):
        tree[:] = tied[:] = 0
        total, first = int64(0), 0
        while first < n_features:
            last = end[order[first]]
            for r in range(
                first, last
            ):  # of the features met, those above count +1, those below −1
                k = int64(starts[m, order[r]])
                total += tied[k] - first
                while k > 0:
                    total += 2 * tree[k]
                    k &= k - 1
            for r in range(first, last):
                k = int64(starts[m, order[r]])
                tied[k] += 1
                k += 1
                while k <= n_features:
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
