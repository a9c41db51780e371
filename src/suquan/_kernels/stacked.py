"""Products with the f-step's rows T_iᵀ w_k that are never formed, for several models k per sample.

Sample i has the entries e in ``first[i]:first[i + 1]``: one score each, at ``place[e]``, of the vector
``W[vector[e]]``. A sample is gathered once for all its entries.
"""

from __future__ import annotations

import numpy as np
from numba import uint64

from suquan._kernels._jit import kernel, summing_kernel
from suquan._kernels.operators import FIRST, adjoint_row, apply_row, fold_to_knots


@summing_kernel
def _dot(w, row):
    total = 0.0
    for j in range(row.size):
        total += np.float64(w[j]) * row[j]
    return total


@summing_kernel
def _gathered_dot(f, w, code, mask):
    """f·T_iᵀ w for a sample without ties or gaps."""
    total = 0.0
    for r in range(f.size):
        total += f[r] * np.float64(w[uint64(code[r] & mask)])
    return total


@kernel
def stacked_scores(f, W, first, vector, place, samples, out):
    """Write the scores f·T_iᵀ w of all entries to `out`.

    `samples` is what :meth:`suquan.ranking.SampleOperator._rows` gives: code rows, flag and mask, numbers of
    observed values, whether there are ties, rule for these.
    """
    codes, flag, mask, n_observed, has_ties, rule = samples
    values, row = np.empty(f.size), np.empty(f.size)
    for i in range(codes.shape[0]):
        if first[i] == first[i + 1]:
            continue
        is_plain = n_observed[i] == f.size and (rule == FIRST or not has_ties[i])
        if is_plain and first[i + 1] - first[i] == 1:
            e = first[i]
            out[place[e]] = _gathered_dot(f, W[vector[e]], codes[i], mask)
            continue
        apply_row(f, codes[i], flag, mask, n_observed[i], has_ties[i], rule, 0.0, values, row)
        for e in range(first[i], first[i + 1]):
            out[place[e]] = _dot(W[vector[e]], row)


@kernel
def stacked_adjoint(a, W, first, vector, place, samples, total):
    """Add Σ_e a[place[e]] T_iᵀ w to `total`, of the length of w."""
    codes, flag, mask, n_observed, has_ties, rule = samples
    n_features = codes.shape[1]
    mixed, values, row = np.empty(n_features), np.empty(n_features), np.empty(n_features)
    for i in range(codes.shape[0]):
        if first[i] == first[i + 1]:
            continue
        code = codes[i]
        is_plain = n_observed[i] == n_features and (rule == FIRST or not has_ties[i])
        if is_plain and first[i + 1] - first[i] == 1:
            weight, w = a[place[first[i]]], W[vector[first[i]]]
            for r in range(n_features):
                total[r] += weight * w[uint64(code[r] & mask)]
            continue
        mixed[:] = 0.0
        for e in range(first[i], first[i + 1]):
            weight, w = a[place[e]], W[vector[e]]
            for j in range(n_features):
                mixed[j] += weight * w[j]
        if is_plain:
            for r in range(n_features):
                total[r] += mixed[uint64(code[r] & mask)]
        else:
            adjoint_row(mixed, code, flag, mask, n_observed[i], has_ties[i], rule, values, row)
            for r in range(n_features):
                total[r] += row[r]


@kernel
def stacked_sums(W, first, vector, place, samples, node, part, bounds, out):
    """Sums of the rows over consecutive columns: out[place[e], b] = Σ_{bounds[b] ≤ j < bounds[b + 1]}.

    Columns are places, or knots where `node` is not empty, which then says with `part` how places read them.
    """
    codes, flag, mask, n_observed, has_ties, rule = samples
    n_features = codes.shape[1]
    on_knots = node.size > 0
    values, row = np.empty(n_features), np.empty(n_features)
    knots = np.empty(node.max() + 2 if on_knots else 1)
    for i in range(codes.shape[0]):
        code = codes[i]
        is_plain = n_observed[i] == n_features and (rule == FIRST or not has_ties[i])
        for e in range(first[i], first[i + 1]):
            w, goal = W[vector[e]], out[place[e]]
            if is_plain and not on_knots:
                for b in range(goal.size):
                    total = 0.0
                    for r in range(bounds[b], bounds[b + 1]):
                        total += w[uint64(code[r] & mask)]
                    goal[b] = total
                continue
            adjoint_row(w, code, flag, mask, n_observed[i], has_ties[i], rule, values, row)
            columns = row
            if on_knots:
                fold_to_knots(row, node, part, knots)
                columns = knots
            for b in range(goal.size):
                total = 0.0
                for r in range(bounds[b], bounds[b + 1]):
                    total += columns[r]
                goal[b] = total
