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
# Sums over the rest of a risk set that are smaller than this, relative to its largest term, count as 0: their
# inverses, and products of two of them, stay finite.
_NOTHING = 1e-140


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
def curvature_root(code, u, s, is_efron, e, decay, pivot, inside, outside, diagonal):
    """Cholesky factor A of the Hessian in u, which couples rows through sums alone.

    Row i, column j of A are pivot_i on the diagonal, and below it −e_i inside_j for two events of one time,
    −e_i outside_j for all other rows of one stratum. The Hessian is a Laplacian, of row sums 0 and
    off-diagonal entries ≤ 0, so that pivots are sums of positive numbers and nothing cancels.

    Parameters
    ----------
    code, u, s : ndarrays of shape (n_rows,), in the order of the codes
    is_efron : bool
    e, decay, pivot, inside, outside, diagonal : float64 ndarrays of shape (n_rows,)
        Overwritten. `e` is relative to its time's scale; `decay` is the factor from the scale of the time
        before at the first row of a time, 0 at the first of a stratum, and 1 elsewhere; `diagonal` is the
        Hessian's.
    """
    n_rows = code.shape[0]
    scale, later, now = np.empty(n_rows), np.empty(n_rows), np.empty(n_rows)
    risk_sets(code, u, s, scale, later, now)
    rest = np.empty(n_rows)
    B = T = last = 0.0
    start = 0
    while start < n_rows:
        c = scale[start]
        end, split, d, w, censored = terms(code, u, s, start, c, is_efron)
        factor = 0.0
        if start > 0 and code[start] >> STRATUM_BITS == code[start - 1] >> STRATUM_BITS:
            factor = math.exp(c - last) if c > -np.inf else 0.0
        last = c
        B *= factor * factor
        T *= factor * factor
        for i in range(start, end):
            decay[i] = 1.0
            e[i] = s[i] * math.exp(u[i] - c) if s[i] > 0.0 else 0.0
        decay[start] = factor
        after = later[start]
        for i in range(end - 1, split - 1, -1):
            rest[i] = after if after > _NOTHING else 0.0
            after += e[i]
        own, coupled = 0.0, after if after > _NOTHING else 0.0
        for i in range(split - 1, start - 1, -1):
            rest[i] = own if own > _NOTHING else 0.0
            own += e[i]
        B1, B2 = B, B
        for l in range(d):
            share = 1.0 - l / d
            phi = after + share * now[start]
            B += w / d / (phi * phi)
            B1 += w / d * share / (phi * phi)
            B2 += w / d * share * share / (phi * phi)
        X = W = Y = 0.0
        for i in range(start, split):
            to_others, to_events = B1 + T + W, B2 + T + X
            square = e[i] * (to_others * coupled + to_events * rest[i])
            pivot[i] = math.sqrt(square)
            inverse = e[i] / pivot[i] if square > 0.0 else 0.0
            outside[i], inside[i] = to_others * inverse, to_events * inverse
            diagonal[i] = square + e[i] * e[i] * (T + X)
            X += inside[i] * inside[i]
            W += inside[i] * outside[i]
            Y += outside[i] * outside[i]
        T += Y
        for i in range(split, end):
            square = e[i] * (B + T) * rest[i]
            pivot[i] = math.sqrt(square)
            outside[i] = e[i] * (B + T) / pivot[i] if square > 0.0 else 0.0
            inside[i] = 0.0
            diagonal[i] = square + e[i] * e[i] * T
            T += outside[i] * outside[i]
        start = end


@kernel
def root_product(code, order, e, decay, pivot, inside, outside, V, out):
    """Columns A v of the factor, for the columns v of V, all in the caller's order of rows.

    Parameters
    ----------
    code : int64 ndarray of shape (n_rows,), increasing
    order : integer ndarray of shape (n_rows,)
        Place in V of each row.
    e, decay, pivot, inside, outside : float64 ndarrays of shape (n_rows,)
        Of :func:`curvature_root`.
    V, out : ndarrays of shape (n_rows, n_columns)
        The second is overwritten.
    """
    n_rows, n_columns = V.shape
    before, own = np.zeros(n_columns), np.zeros(n_columns)
    joining = np.zeros(n_columns)  # what the events of this time add for all that come after them
    for i in range(n_rows):
        v, result = V[order[i]], out[order[i]]
        is_first = i == 0 or code[i] >> 1 != code[i - 1] >> 1
        if is_first or code[i] & 1:
            for k in range(n_columns):
                before[k] = (before[k] + joining[k]) * decay[i]
                own[k] = joining[k] = 0.0
        for k in range(n_columns):
            result[k] = pivot[i] * v[k] - e[i] * (before[k] + own[k])
            own[k] += inside[i] * v[k]
            joining[k] += outside[i] * v[k]


@kernel
def root_adjoint(code, order, e, decay, pivot, inside, outside, X, out):
    """Columns Aᵀ x of the factor; parameters as in :func:`root_product`."""
    n_rows, n_columns = X.shape
    after, own = np.zeros(n_columns), np.zeros(n_columns)
    joining = np.zeros(n_columns)
    for i in range(n_rows - 1, -1, -1):
        x, result = X[order[i]], out[order[i]]
        is_last = i == n_rows - 1 or code[i] >> 1 != code[i + 1] >> 1
        if is_last or code[i] != code[i + 1] or code[i] & 1:
            # Rows that came so far lie after this one, and are no events of its time.
            factor = decay[i + 1] if i < n_rows - 1 else 0.0
            for k in range(n_columns):
                after[k] = (after[k] + joining[k]) * factor
                own[k] = joining[k] = 0.0
        for k in range(n_columns):
            result[k] = pivot[i] * x[k] - outside[i] * after[k] - inside[i] * own[k]
            own[k] += e[i] * x[k]
            joining[k] += e[i] * x[k]


@kernel
def dual_scores(code, a, s, is_efron, tolerance, u):
    """Conjugate of the loss at the slopes a, and scores u where the gradient is a, of largest risk set 1.

    With m = a + s for events and m = a for censored rows, and Q the sum of all weights of events so far less
    that of all m so far, the risk sets follow one from the other: S_next = S Q / P, see
    ``docs/design/survival.md``.

    Parameters
    ----------
    code, a, s : ndarrays of shape (n_rows,), in the order of the codes
    is_efron : bool
    tolerance : float
        How far rounding may carry a beyond the domain.
    u : float64 ndarray of shape (n_rows,)
        Overwritten.

    Returns
    -------
    float
        Infinite outside the domain.
    """
    n_rows = code.shape[0]
    tiny = 1e-300
    unit = np.inf
    for i in range(n_rows):
        if 0.0 < s[i] < unit:
            unit = s[i]
    value, Q, log_S, start = 0.0, 0.0, 0.0, 0
    while start < n_rows:
        if start == 0 or code[start] >> STRATUM_BITS != code[start - 1] >> STRATUM_BITS:
            if tolerance < Q:
                value = np.inf
            Q, log_S = 0.0, 0.0
        end, split, d, w, _ = terms(code, u, s, start, np.inf, is_efron)
        of_events = of_censored = 0.0
        for i in range(start, end):
            if s[i] > 0.0:
                m = a[i] if code[i] & 1 else a[i] + s[i]
                if m < -tolerance:
                    value = np.inf
                if m > 0.0:
                    value += m * math.log(m / s[i])
                if code[i] & 1:
                    of_censored += max(m, 0.0)
                else:
                    of_events += max(m, 0.0)
        share = _share_of_events(of_events, Q, w, d)
        N, P = Q, Q
        for l in range(d):
            N += w / d * (1.0 - l / d) / (1.0 - l * share / d)
            P += w / d / (1.0 - l * share / d)
            value -= w / d * math.log((1.0 - l * share / d) / unit)
        Q = Q + w - of_events - of_censored
        if -tolerance > Q:
            value = np.inf
        Q = max(Q, 0.0)
        if of_events > 0.0:
            value -= of_events * math.log(max(N, tiny))
        if of_censored > 0.0:
            value -= of_censored * math.log(max(P, tiny))
        if Q > 0.0:
            value += Q * math.log(Q / P)
        for i in range(start, end):
            u[i] = 0.0
            if s[i] > 0.0:
                m, total = (a[i], P) if code[i] & 1 else (a[i] + s[i], N)
                u[i] = log_S + math.log(max(m, tiny) / s[i]) - math.log(max(total, tiny))
        if P > 0.0:
            log_S += math.log(max(Q / P, tiny))
        start = end
    return np.inf if tolerance < Q else value


@kernel
def _share_of_events(m, Q, w, d):
    """Share ρ of the events in their risk set, ρ (Q + (w/d) Σ_l (1 − l/d) / (1 − l ρ/d)) = m, by bisection."""
    if m <= 0.0 or Q + w <= 0.0:
        return 0.0
    if d < 2:
        return min(m / (Q + w), 1.0)
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        N = Q
        for l in range(d):
            N += w / d * (1.0 - l / d) / (1.0 - l * middle / d)
        if middle * N < m:
            low = middle
        else:
            high = middle
    return 0.5 * (low + high)


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
