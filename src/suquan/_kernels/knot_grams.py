"""Products of the sparse maps from knots to samples, pair by pair.

A value reads neighbouring knots: nearly always one or two, `head[i, j]` of `node[i, j]` and the next one. A tie
may read more of them, and the rest lies in a list, its *tail*: entries start[i, j] to start[i, j + 1] of
`feature`, `knot` and `weight`.
"""

import numpy as np
from numba import uint64

from suquan._kernels._jit import kernel


@kernel
def put_heads(values, k, count, node, head):
    """Note that values[i, j] is what value j of sample i reads of knot k, if it is one of its first two.

    Parameters
    ----------
    values : ndarray of shape (n_samples, n_features)
    k : int
        Knots come in increasing order.
    count : uint16 ndarray of shape (n_samples, n_features)
        Knots that each value has read so far.
    node : uint16 ndarray of shape (n_samples, n_features)
    head : ndarray of shape (n_samples, n_features, 2)
    """
    for i in range(len(values)):
        for j in range(values.shape[1]):
            if values[i, j] != 0.0:
                if count[i, j] == 0:
                    node[i, j] = k
                if count[i, j] < 2:
                    head[i, j, count[i, j]] = values[i, j]
                count[i, j] += 1


@kernel
def put_tails(values, k, count, start, feature, knot, weight):
    """Append what is read of knot k beyond the first two to the tails; arguments as for :func:`put_heads`."""
    for i in range(len(values)):
        for j in range(values.shape[1]):
            if values[i, j] != 0.0:
                if count[i, j] >= 2:
                    place = start[i, j] + count[i, j] - 2
                    feature[place], knot[place], weight[place] = j, k, values[i, j]
                count[i, j] += 1


@kernel
def knot_gram_rows(node, head, start, feature, knot, weight, i, n_rows, out):
    """Blocks B_iᵀ B_m of one sample, or of two neighbours, with the samples m ≤ i, summed in float64.

    Two at once read the others half as often.

    Parameters
    ----------
    node, head, start, feature, knot, weight : ndarrays
        All maps.
    i, n_rows : int
        First of the samples, and how many.
    out : ndarray of shape (n_samples, n_samples, n_knots, n_knots)
        Block [i, m] is written.
    """
    n_features, n_knots, last = node.shape[1], out.shape[2], i + n_rows - 1
    sums = np.empty((2, n_knots + 1, n_knots + 1))  # the last knot's neighbour has weight 0
    # Unsigned places in flat arrays: negative ones, which count from the end, would be looked for each time.
    flat, flat2 = sums[0].reshape(-1), sums[1].reshape(-1)
    width, one = uint64(n_knots + 1), uint64(1)
    for m in range(last + 1):
        sums[:] = 0.0
        for j in range(n_features):
            l, c0, c1 = uint64(node[m, j]), np.float64(head[m, j, 0]), np.float64(head[m, j, 1])
            cell = uint64(node[i, j]) * width + l
            a0, a1 = np.float64(head[i, j, 0]), np.float64(head[i, j, 1])
            flat[cell] += a0 * c0
            flat[cell + one] += a0 * c1
            flat[cell + width] += a1 * c0
            flat[cell + width + one] += a1 * c1
            if n_rows == 2:
                cell = uint64(node[last, j]) * width + l
                a0, a1 = np.float64(head[last, j, 0]), np.float64(head[last, j, 1])
                flat2[cell] += a0 * c0
                flat2[cell + one] += a0 * c1
                flat2[cell + width] += a1 * c0
                flat2[cell + width + one] += a1 * c1
        for row in range(n_rows):
            if m <= i + row:
                add_tails(node, head, start, feature, knot, weight, i + row, m, sums[row])
                out[i + row, m] = sums[row, :n_knots, :n_knots]


@kernel
def add_tails(node, head, start, feature, knot, weight, i, m, sums):
    """Add what the tails of two samples, i and m, have to do with the other sample."""
    n_features = node.shape[1]
    for a in range(start[i, 0], start[i, n_features]):
        j, k = feature[a], knot[a]
        sums[k, node[m, j]] += weight[a] * head[m, j, 0]
        sums[k, node[m, j] + 1] += weight[a] * head[m, j, 1]
        for c in range(start[m, j], start[m, j + 1]):
            sums[k, knot[c]] += weight[a] * weight[c]
    for c in range(start[m, 0], start[m, n_features]):
        j, l = feature[c], knot[c]
        sums[node[i, j], l] += head[i, j, 0] * weight[c]
        sums[node[i, j] + 1, l] += head[i, j, 1] * weight[c]
