"""Compiled loops of Cox's partial likelihood and of concordance: sums over risk sets, in one pass each.

Rows come in the order of their codes: stratum after stratum, times increasing, and at equal times events
before censored ones. ``code & 1`` says that a row is censored, ``code >> 1`` is its stratum and time, and
``code >> STRATUM_BITS`` its stratum. The risk set of a time holds the rows of its stratum that come at or
after it.

At a time with the events D, of weight w in all, d of them with weight, the loss has the terms

    (w / d) log φ_l,    φ_l = Σ_{later, or censored now} e + (1 − l / d) Σ_D e,    e = s exp(u),

for l = 0, …, d − 1 (Efron), or w log φ_0 alone (Breslow). Numbers are kept relative to exp(c), c the largest
score of the risk set, so that scores of any size overflow nothing.
"""

import math

import numpy as np

from suquan._kernels._jit import kernel

STRATUM_BITS = 40


@kernel
def risk_sets(code, u, s, scale, later, now):
    """Sums of e = s exp(u − c) for the time of every row that is the first of its time.

    Parameters
    ----------
    code : int64 ndarray of shape (n_rows,), increasing
    u, s : float64 ndarrays of shape (n_rows,)
    scale : float64 ndarray of shape (n_rows,)
        Overwritten: the largest score c of the risk set, −∞ where no row of it has weight.
    later, now : float64 ndarrays of shape (n_rows,)
        Overwritten: the sum over the rows of later times, and that over the events of this time.
    """
    end = code.shape[0]
    c, total = -np.inf, 0.0
    while end > 0:
        start = end - 1
        while start > 0 and code[start - 1] >> 1 == code[end - 1] >> 1:
            start -= 1
        if end < code.shape[0] and code[end] >> STRATUM_BITS != code[end - 1] >> STRATUM_BITS:
            c, total = -np.inf, 0.0
        highest = c
        for i in range(start, end):
            if s[i] > 0.0 and u[i] > highest:
                highest = u[i]
        if highest > c:
            total *= math.exp(c - highest)
            c = highest
        events = censored = 0.0
        for i in range(start, end):
            if s[i] > 0.0:
                if code[i] & 1:
                    censored += s[i] * math.exp(u[i] - c)
                else:
                    events += s[i] * math.exp(u[i] - c)
        scale[start], later[start], now[start] = c, total, events
        total += censored + events
        end = start


@kernel
def terms(code, u, s, start, c, is_efron):
    """End of the time that begins at `start` and of its events; their d, w; sum of censored e."""
    end, n_rows = start, code.shape[0]
    d, w, censored = 0, 0.0, 0.0
    split = start
    while end < n_rows and code[end] >> 1 == code[start] >> 1:
        if s[end] > 0.0:
            if code[end] & 1:
                censored += s[end] * math.exp(u[end] - c)
            else:
                d += 1
                w += s[end]
        if not code[end] & 1:
            split = end + 1
        end += 1
    if not is_efron:
        d = min(d, 1)
    return end, split, d, w, censored


@kernel
def partial_likelihood(code, u, s, is_efron, gradient):
    """Minus the logarithm of the partial likelihood, with weights in units of the smallest positive one.

    Parameters
    ----------
    code, u, s : ndarrays of shape (n_rows,), in the order of the codes
    is_efron : bool
    gradient : float64 ndarray of shape (n_rows,), or of shape (0,)
        Overwritten with the gradient in u where it has entries.

    Returns
    -------
    float
    """
    n_rows = code.shape[0]
    scale, later, now = np.empty(n_rows), np.empty(n_rows), np.empty(n_rows)
    risk_sets(code, u, s, scale, later, now)
    unit = np.inf
    for i in range(n_rows):
        if 0.0 < s[i] < unit:
            unit = s[i]
    value, hazard, last, start = 0.0, 0.0, 0.0, 0
    while start < n_rows:
        c = scale[start]
        end, split, d, w, censored = terms(code, u, s, start, c, is_efron)
        if start == 0 or code[start] >> STRATUM_BITS != code[start - 1] >> STRATUM_BITS:
            hazard = 0.0
        elif hazard > 0.0:
            hazard *= math.exp(c - last)
        last, of_events, outside = c, hazard, later[start] + censored
        for l in range(d):
            share = 1.0 - l / d
            phi = outside + share * now[start]
            value += w / d * math.log(phi / unit)
            hazard += w / d / phi
            of_events += w / d * share / phi
        for i in range(start, split):
            if s[i] > 0.0:
                value += s[i] * (c - u[i])
        if gradient.shape[0]:
            for i in range(start, end):
                gradient[i] = 0.0
                if s[i] > 0.0:
                    e = s[i] * math.exp(u[i] - c)
                    gradient[i] = e * hazard if code[i] & 1 else e * of_events - s[i]
        start = end
    return value


@kernel
def concordant_pairs(code, rank, s):
    """Weight of the concordant, of the tied and of all comparable pairs; a pair weighs the product of its rows.

    An event is comparable with all rows of its stratum that come later, or are censored at its time.

    Parameters
    ----------
    code : int64 ndarray of shape (n_rows,), increasing
    rank : int64 ndarray of shape (n_rows,)
        Places 0, 1, … of the risks; equal risks have the same.
    s : float64 ndarray of shape (n_rows,)

    Returns
    -------
    concordant, tied, comparable : float
    """
    n_rows = code.shape[0]
    tree, at = np.zeros(n_rows + 1), np.zeros(n_rows)
    total = concordant = tied = comparable = 0.0
    end = last = n_rows
    while end > 0:
        start = end - 1
        while start > 0 and code[start - 1] >> 1 == code[end - 1] >> 1:
            start -= 1
        if end < n_rows and code[end] >> STRATUM_BITS != code[end - 1] >> STRATUM_BITS:
            for i in range(end, last):
                _insert(tree, at, rank[i], -np.inf)
            total, last = 0.0, end
        for i in range(end - 1, start - 1, -1):  # censored rows first
            if code[i] & 1:
                total += _insert(tree, at, rank[i], s[i])
        for i in range(start, end):
            if not code[i] & 1:
                below, k = 0.0, rank[i]
                while k > 0:
                    below += tree[k]
                    k -= k & -k
                concordant += s[i] * below
                tied += s[i] * at[rank[i]]
                comparable += s[i] * total
        for i in range(start, end):
            if not code[i] & 1:
                total += _insert(tree, at, rank[i], s[i])
        end = start
    return concordant, tied, comparable


@kernel
def _insert(tree, at, rank, weight):
    """Add a row to a Fenwick tree of weights, or clear its places with weight −∞; gives the weight."""
    at[rank] = max(at[rank] + weight, 0.0)
    k = rank + 1
    while k < tree.shape[0]:
        tree[k] = max(tree[k] + weight, 0.0)
        k += k & -k
    return weight
