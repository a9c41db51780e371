"""Scores of curves over the places, and their adjoint: one pass over coded samples for any number of targets.

Every feature j of output k has a curve, the function with the node values ``A[k, j]``, and the score of a
sample is the sum of its features' curves where they are read. Samples come as in
:mod:`suquan._kernels.operators`, and :mod:`suquan.solvers.knot_passes` calls these kernels.

A value that ties or has missing neighbours reads a mean over places. Between two knots that is a reading at
the mean position; the few blocks of places that straddle a knot are put right afterwards. Curves have one node
more than there are knots, as the last knot has no neighbour.
"""

import numpy as np
from numba import int64, uint64

from suquan._kernels._jit import kernel
from suquan._kernels.operators import AVERAGE, FIRST, block_end, node_position, read_places


@kernel
def reads(positions, start, end, n_observed, rule):
    """First and last place, of as many as there are positions, that the tied places start … end − 1 read."""
    first, last = float(start), float(end - 1)
    if rule != AVERAGE:
        first = last = 0.5 * (first + last)
    n = positions.size
    first, last = node_position(first, n_observed, n), node_position(last, n_observed, n)
    return int64(np.floor(first)), int64(np.ceil(last))


@kernel
def straddling(positions, edges, code, flag, n_observed, rule, blocks):
    """Blocks of tied places that read both sides of a knot; their number, and start and end in `blocks`.

    Parameters
    ----------
    positions : ndarray of shape (n_features,)
        Where the places read the knots.
    edges : ndarray of shape (n_inner_knots,)
        First place beyond every inner knot.
    code, flag, n_observed, rule
        A coded sample.
    blocks : int64 ndarray of shape (2 · n_inner_knots, 2)
    """
    n_found, beyond = 0, 0
    for edge in edges:
        near = int64(max((edge - 0.5) * n_observed / positions.size - 0.5, 0.0))
        for place in range(max(near, beyond), min(near + 2, n_observed)):
            if place < beyond:
                continue
            start, beyond = place, place + 1
            if rule != FIRST:
                while start > 0 and (code[start] & flag) != 0:
                    start -= 1
                beyond = block_end(code, flag, start, n_observed)
            first, last = reads(positions, start, beyond, n_observed, rule)
            knot = np.floor(positions[first]) + 1.0
            if positions[last] > knot:
                blocks[n_found, 0], blocks[n_found, 1] = start, beyond
                n_found += 1
    return n_found


@kernel
def add_place(positions, place, share, weights):
    """Add what the target at one place reads of the knots, times `share`."""
    knot = int64(positions[place])
    part = positions[place] - knot
    weights[knot] += share * (1.0 - part)
    weights[knot + 1] += share * part


@kernel
def weigh_knots(positions, start, end, n_observed, rule, weights):
    """Write what tied places read of the knots, less a reading at their mean position, to `weights`.

    Returns the knots between which weights were written, the last one not included.
    """
    first, last = reads(positions, start, end, n_observed, rule)
    low, high = int64(positions[first]), int64(positions[last]) + 2
    for knot in range(low, high):
        weights[knot] = 0.0
    n_read = end - start if rule == AVERAGE else 1
    mean = 0.0
    for k in range(n_read):
        place = float(start + k) if rule == AVERAGE else 0.5 * (start + end - 1)
        place = node_position(place, n_observed, positions.size)
        node = int64(place)
        rest = place - node
        add_place(positions, node, (1.0 - rest) / n_read, weights)
        mean += (1.0 - rest) * positions[node]
        if rest > 0.0:
            add_place(positions, node + 1, rest / n_read, weights)
            mean += rest * positions[node + 1]
    mean /= n_read
    knot = int64(mean)
    weights[knot] -= 1.0 - (mean - knot)
    weights[knot + 1] -= mean - knot
    return low, high


@kernel
def sample_positions(positions, code, flag, n_observed, has_ties, rule, values):
    """Mean positions that the observed places read; `values` is working space."""
    if n_observed == code.size and (rule == FIRST or not has_ties):
        return positions
    read_places(positions, code, flag, n_observed, rule, values)
    return values


@kernel
def knot_scores(A, positions, edges, codes, flag, mask, n_observed, has_ties, rule, out):
    """Scores ⟨A[k], S_i⟩, where S_i[j] are the weights of the knots in what feature j of sample i reads.

    Parameters
    ----------
    A : ndarray of shape (n_outputs, n_features, n_knots + 1)
    positions, edges
        As for :func:`straddling`.
    codes, flag, mask, n_observed, has_ties, rule
        Coded samples.
    out : ndarray of shape (n_samples, n_outputs)
    """
    values, weights = np.empty(positions.size), np.zeros(A.shape[2])
    blocks = np.empty((2 * edges.size, 2), np.int64)
    for i in range(len(codes)):
        code, m = codes[i], n_observed[i]
        where = sample_positions(positions, code, flag, m, has_ties[i], rule, values)
        for k in range(len(A)):
            total = 0.0
            for r in range(m):
                j, knot = uint64(code[r] & mask), uint64(where[r])
                part = where[r] - knot
                total += (1.0 - part) * A[k, j, knot] + part * A[k, j, knot + 1]
            out[i, k] = total
        if where is positions:
            continue
        for b in range(straddling(positions, edges, code, flag, m, rule, blocks)):
            start, end = blocks[b, 0], blocks[b, 1]
            first, last = weigh_knots(positions, start, end, m, rule, weights)
            for k in range(len(A)):
                total = 0.0
                for r in range(start, end):
                    j = uint64(code[r] & mask)
                    for knot in range(first, last):
                        total += weights[knot] * A[k, j, knot]
                out[i, k] += total


@kernel
def knot_sums(c, positions, edges, codes, flag, mask, n_observed, has_ties, rule, total):
    """Add Σ_i c[i, k] S_i to `total`, of shape (n_outputs, n_features, n_knots + 1): adjoint of the scores.

    Other arguments as for :func:`knot_scores`.
    """
    values, weights = np.empty(positions.size), np.zeros(total.shape[2])
    blocks = np.empty((2 * edges.size, 2), np.int64)
    for i in range(len(codes)):
        code, m = codes[i], n_observed[i]
        where = sample_positions(positions, code, flag, m, has_ties[i], rule, values)
        for k in range(len(total)):
            value = c[i, k]
            for r in range(m):
                j, knot = uint64(code[r] & mask), uint64(where[r])
                part = where[r] - knot
                total[k, j, knot] += (1.0 - part) * value
                total[k, j, knot + 1] += part * value
        if where is positions:
            continue
        for b in range(straddling(positions, edges, code, flag, m, rule, blocks)):
            start, end = blocks[b, 0], blocks[b, 1]
            first, last = weigh_knots(positions, start, end, m, rule, weights)
            for k in range(len(total)):
                for r in range(start, end):
                    j = uint64(code[r] & mask)
                    for knot in range(first, last):
                        total[k, j, knot] += c[i, k] * weights[knot]
