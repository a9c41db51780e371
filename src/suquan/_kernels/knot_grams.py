"""Products of the sparse maps from knots to samples, pair by pair.

A value reads neighbouring knots: nearly always one or two, `head[i, j]` of `node[i, j]` and the next one. A tie
may read more of them, and the rest lies in a list, its *tail*: entries start[i, j] to start[i, j + 1] of
`feature`, `knot` and `weight`.
"""

import numpy as np

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
def knot_gram_row(node, head, start, feature, knot, weight, i, out):
    """Blocks B_iᵀ B_m of one sample with the samples m ≤ i, summed in float64.

    Parameters
    ----------
    node, head, start, feature, knot, weight : ndarrays
        All maps.
    i : int
    out : ndarray of shape (n_samples, n_knots, n_knots)
        Its first i + 1 blocks are written.
    """
    n_features, n_knots = node.shape[1], out.shape[1]
    sums = np.empty((n_knots + 1, n_knots + 1))  # the last knot's neighbour has weight 0
    for m in range(i + 1):
        sums[:] = 0.0
        for j in range(n_features):
            k, l = node[i, j], node[m, j]
            a0, a1 = np.float64(head[i, j, 0]), np.float64(head[i, j, 1])
            c0, c1 = np.float64(head[m, j, 0]), np.float64(head[m, j, 1])
            sums[k, l] += a0 * c0
            sums[k, l + 1] += a0 * c1
            sums[k + 1, l] += a1 * c0
            sums[k + 1, l + 1] += a1 * c1
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
        out[m] = sums[:n_knots, :n_knots]
