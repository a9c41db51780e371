"""Active-set kernels for the smooth, non-decreasing prox; :mod:`suquan.prox` calls them.

The problem is min ½‖f − y‖² + (κ/2) Σ_j (f[j+1] − f[j])² over non-decreasing f, κ = 2·smoothness.
Neighbours held equal form blocks. With the flux u_j = Σ_{i ≤ j} (f_i − y_i), the optimum is the f
where

    a free pair (between two blocks)  has  u_j = κ (f[j+1] − f[j])  and  f[j+1] ≥ f[j],
    a pooled pair (inside a block)    has  u_j ≤ 0, minus its multiplier.

A pass solves the equations for the present blocks, then pools free pairs that decrease and splits
pooled pairs whose flux is positive. In the multipliers, λ = −u (pooled) or 0 (free), this is a
complementarity problem with the M-matrix (I − (I + κ D Dᵀ)⁻¹) / κ, D being the difference operator.
So the multipliers never fall from one pass to the next, and from the second pass on none is
negative: only the first pass may split, whatever the start; the others merge, and so must end.
"""

import numpy as np

from suquan._kernels._jit import kernel


@kernel
def sum_blocks(y, starts):
    """Sums of y over the blocks ``starts[b]:starts[b + 1]``, of shape (n_blocks,)."""
    sums = np.empty(starts.shape[0] - 1)
    for b in range(sums.shape[0]):
        total = 0.0
        for j in range(starts[b], starts[b + 1]):
            total += y[j]
        sums[b] = total
    return sums


@kernel
def solve_blocks(kappa, starts, sums):
    """Solve the tridiagonal system n_b f_b + κ (2 f_b − f_{b−1} − f_{b+1}) = sums_b of the blocks.

    An eliminated block lives on in its neighbour's mass m, to which it adds κ m / (m + κ): all terms are
    positive, so that nothing cancels however large κ is. The steps come out directly, not as differences of
    rounded values: f and f[b + 1] − f[b], with a last step of 0, of shape (n_blocks,).
    """
    n_blocks = sums.shape[0]
    f, steps, take = np.empty(n_blocks), np.zeros(n_blocks), np.empty(n_blocks)
    mass, pull = 1.0 * (starts[1] - starts[0]), sums[0]
    for b in range(n_blocks - 1):
        weight = 1.0 / (mass + kappa)
        take[b] = mass * weight
        f[b] = pull * weight
        pull = sums[b + 1] + kappa * f[b]
        mass = starts[b + 2] - starts[b + 1] + kappa * take[b]
    value = f[n_blocks - 1] = pull / mass
    for b in range(n_blocks - 2, -1, -1):
        steps[b] = take[b] * value - f[b]
        value -= steps[b]
        f[b] = value
    return f, steps


@kernel
def _next_blocks(y, kappa, starts, f, steps, may_split):
    """Starts of the blocks after pooling free pairs that decrease and splitting where the flux is positive."""
    n_old, n_blocks = f.shape[0], 0
    new = np.empty(y.shape[0] + 1, np.int64)
    new[0] = 0
    for b in range(n_old):
        if may_split:
            flux = kappa * steps[b - 1] if b > 0 else 0.0
            for j in range(starts[b], starts[b + 1] - 1):
                flux += f[b] - y[j]
                if flux > 0.0:
                    n_blocks += 1
                    new[n_blocks] = j + 1
        if b + 1 < n_old and steps[b] >= 0.0:
            n_blocks += 1
            new[n_blocks] = starts[b + 1]
    new[n_blocks + 1] = y.shape[0]
    return new[: n_blocks + 2]


@kernel
def find_blocks(y, kappa, starts, max_passes):
    """Minimise ½‖f − y‖² + (κ/2) Σ_j (f[j+1] − f[j])² over non-decreasing f, from some blocks.

    `starts` has the first entry of each block to start from, and p; κ + p must not overflow. p + 1 passes
    always suffice: one first pass, at most p − 1 that merge, one that changes nothing. The starts of the
    minimiser's blocks, its value on each, the number of passes, and whether `max_passes` sufficed go out.
    """
    passes = 0
    while True:
        f, steps = solve_blocks(kappa, starts, sum_blocks(y, starts))
        new = _next_blocks(y, kappa, starts, f, steps, passes == 0)
        passes += 1
        finished = new.shape[0] == starts.shape[0] and np.all(new == starts)
        starts = new
        if finished or passes >= max_passes:
            return starts, f, passes, finished
