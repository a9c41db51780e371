"""Plain NumPy twins of the kernels: each follows its definition, and none is fast."""

from __future__ import annotations

import numpy as np

TIES = ("average", "first", "mean_rank")


def nodes(n):
    """Points (j + ½)/n at which the n values of a target stand."""
    return np.array([(j + 0.5) / n for j in range(n)])


def order_and_ranks(X):
    """Stable order of every row and its inverse permutation."""
    order = np.argsort(X, axis=1, kind="stable")
    ranks = np.empty_like(order)
    for row_order, row_ranks in zip(order, ranks, strict=True):
        row_ranks[row_order] = np.arange(row_order.size)
    return order, ranks


def tied_blocks(values):
    """Pairs (start, end) of the runs of equal numbers in sorted `values`."""
    blocks = []
    start = 0
    for k in range(1, len(values) + 1):
        if k == len(values) or values[k] != values[start]:
            blocks.append((start, k))
            start = k
    return blocks


def reading_row(place, n_observed, n_nodes):
    """Row r with r·f the value at (place + ½)/n_observed of the function with the n_nodes values f."""
    row = np.zeros(n_nodes)
    position = (place + 0.5) / n_observed * n_nodes - 0.5
    if n_observed == n_nodes:
        position = place
    position = min(max(position, 0.0), n_nodes - 1.0)
    below = int(np.floor(position))
    row[below] += 1.0 - (position - below)
    if position > below:
        row[below + 1] += position - below
    return row


def operator_matrix(x, ties):
    """The p×p matrix T of one sample, with T f its normalised values and 0 where it is missing."""
    p = x.size
    observed = [j for j in range(p) if not np.isnan(x[j])]
    m = len(observed)
    order = [observed[k] for k in np.argsort(x[observed], kind="stable")]
    T = np.zeros((p, p))
    for start, end in tied_blocks(x[order]):
        for k in range(start, end):
            if ties == "first":
                T[order[k]] = reading_row(k, m, p)
            elif ties == "average":
                T[order[k]] = np.mean([reading_row(r, m, p) for r in range(start, end)], axis=0)
            else:
                T[order[k]] = reading_row(np.mean(np.arange(start, end)), m, p)
    return T


def normalize(X, f, ties):
    """Samples T_i f, with NaN where they are missing."""
    out = np.array([operator_matrix(x, ties) @ f for x in X]).reshape(X.shape)
    out[np.isnan(X)] = np.nan
    return out


def normalize_complete(X, f, ties):
    """The same for long samples without NaN: a loop over tied blocks instead of matrices."""
    out = np.empty(X.shape)
    for x, row in zip(X, out, strict=True):
        order = np.argsort(x, kind="stable")
        ordered = x[order]
        starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
        ends = np.r_[starts[1:], x.size]
        values = np.array(f, dtype=float)
        for start, end in zip(starts, ends, strict=True):
            if end == start + 1 or ties == "first":
                continue
            middle = 0.5 * (start + end - 1)
            values[start:end] = (
                np.mean(f[start:end])
                if ties == "average"
                else 0.5 * (f[int(np.floor(middle))] + f[int(np.ceil(middle))])
            )
        row[order] = values
    return out


def sorted_quantiles(X):
    """Quantiles of the observed values of every sample at (j + ½)/p; rows of NaN where there are none."""
    out = np.full(X.shape, np.nan)
    p = X.shape[1]
    for x, row in zip(X, out, strict=True):
        seen = np.sort(x[~np.isnan(x)]).astype(float)
        if seen.size == p:
            row[:] = seen
        elif seen.size:
            row[:] = np.interp(nodes(p), nodes(seen.size), seen)
    return out


def weighted_median(column, weights):
    """The value at which half of the weight is passed; half-way to the next where it is met exactly."""
    keep = [(v, w) for v, w in sorted(zip(column, weights, strict=True)) if w > 0]
    half = sum(w for _, w in keep) / 2
    below = 0.0
    for k, (value, weight) in enumerate(keep):
        below += weight
        if np.isclose(below, half, rtol=1e-12, atol=0.0):
            return (value + keep[k + 1][0]) / 2
        if below > half:
            return value
    raise AssertionError("no weight")


def learned_target(X, target, weights=None):
    """Weighted mean or median of the samples' quantiles, place by place."""
    rows = sorted_quantiles(X)
    weights = np.ones(len(X)) if weights is None else np.asarray(weights, dtype=float)
    used = (weights > 0) & ~np.isnan(rows).all(axis=1)
    rows, weights = rows[used], weights[used]
    if target == "mean":
        return np.average(rows, axis=0, weights=weights)
    return np.array([weighted_median(column, weights) for column in rows.T])


def interpolation_matrix(n_features, n_knots):
    """Matrix B with (B g)_j the value at (j + ½)/p of the function with the knots g."""
    return np.array([reading_row(j, n_features, n_knots) for j in range(n_features)])
