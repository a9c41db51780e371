"""Active-set kernels for the smooth, non-decreasing prox.

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

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from suquan._kernels._jit import kernel

# A warm start that needs more passes than this is far off: the isotonic start is the better one.
WARM_PASSES = 5


class Workspace(NamedTuple):
    """The blocks of the last answer, and scratch that calls share: fresh pages cost more than a pass.

    Block b is ``starts[b]:starts[b + 1]``, y sums to ``sums[b]`` on it, its value is ``f[b]``, and
    ``steps[b]`` is the difference to the next one.
    """

    y: NDArray[np.float64]
    starts: NDArray[np.int64]
    old_starts: NDArray[np.int64]
    sums: NDArray[np.float64]
    f: NDArray[np.float64]
    steps: NDArray[np.float64]
    mass: NDArray[np.float64]


def make_workspace(p: int) -> Workspace:
    """Allocate for vectors of length p."""
    y, sums, f, steps, mass = (np.empty(p) for _ in range(5))
    starts, old_starts = (np.empty(p + 1, dtype=np.int64) for _ in range(2))
    return Workspace(y, starts, old_starts, sums, f, steps, mass)


@kernel
def _pool_isotonic(y, starts, sums):
    """Fill ``starts, sums`` with the blocks of the isotonic regression of y; return their number."""
    n_blocks = 0
    for j in range(y.shape[0]):
        start, total = j, y[j]
        while n_blocks > 0:
            before = n_blocks - 1
            # Means compared by cross-multiplication: no division on the way.
            if sums[before] * (j + 1 - start) < total * (start - starts[before]):
                break
            start, total = starts[before], total + sums[before]
            n_blocks = before
        starts[n_blocks], sums[n_blocks] = start, total
        n_blocks += 1
    starts[n_blocks] = y.shape[0]
    return n_blocks


@kernel
def _fill_sums(y, starts, n_blocks, sums):
    for b in range(n_blocks):
        total = 0.0
        for j in range(starts[b], starts[b + 1]):
            total += y[j]
        sums[b] = total


@kernel
def _solve_blocks(kappa, starts, n_blocks, work):
    """Solve the tridiagonal system n_b f_b + κ (2 f_b − f_{b−1} − f_{b+1}) = sums_b of the blocks.

    Elimination from both ends to the middle: two independent chains of divisions run side by side.
    An eliminated block lives on in its neighbour's ``mass`` and ``pull`` (row excess and right
    side), to which it adds a positive multiple of its own, so that nothing cancels however large κ
    is; the steps f_{b+1} − f_b come out directly, not as differences of rounded values.
    """
    sums, f, steps, mass = work.sums, work.f, work.steps, work.mass
    pull = f  # f[b] is written after pull[b] has been read for the last time
    last = n_blocks - 1
    middle = n_blocks // 2
    m_up, r_up, m_down, r_down = 0.0, 0.0, 0.0, 0.0
    for b in range(middle):
        m_up += starts[b + 1] - starts[b]
        r_up += sums[b]
        mass[b], pull[b] = m_up, r_up
        share = kappa / (m_up + kappa)
        m_up *= share
        r_up *= share
        c = last - b
        if c > middle:
            m_down += starts[c + 1] - starts[c]
            r_down += sums[c]
            mass[c], pull[c] = m_down, r_down
            share = kappa / (m_down + kappa)
            m_down *= share
            r_down *= share
    m_up += m_down + (starts[middle + 1] - starts[middle])
    below = above = f[middle] = (r_up + r_down + sums[middle]) / m_up
    for i in range(1, middle + 1):
        b, c = middle - i, middle + i
        steps[b] = (mass[b] * below - pull[b]) * (1.0 / (mass[b] + kappa))
        below -= steps[b]
        f[b] = below
        if c <= last:
            steps[c - 1] = (pull[c] - mass[c] * above) * (1.0 / (mass[c] + kappa))
            above += steps[c - 1]
            f[c] = above


@kernel
def _split_and_merge(kappa, n_old, work):
    """First update: split pooled pairs with positive flux, pool free pairs that decrease.

    Reads ``old_starts`` and fills ``starts, sums``; returns the number of blocks and whether
    anything changed.
    """
    n_blocks, total, changed = 0, 0.0, False
    work.starts[0] = 0
    for b in range(n_old):
        flux = kappa * work.steps[b - 1] if b > 0 else 0.0
        end = work.old_starts[b + 1]
        for j in range(work.old_starts[b], end):
            total += work.y[j]
            flux += work.f[b] - work.y[j]
            inside = j + 1 < end
            if inside and flux <= 0.0:
                continue
            if not inside and b + 1 < n_old and work.steps[b] < 0.0:
                changed = True
                continue
            changed |= inside
            work.sums[n_blocks] = total
            n_blocks += 1
            work.starts[n_blocks] = j + 1
            total = 0.0
    return n_blocks, changed


@kernel
def _merge(n_blocks, work):
    """Later updates, in place: pool free pairs that decrease; return the number of blocks."""
    starts, sums = work.starts, work.sums
    kept = 0
    for b in range(1, n_blocks):
        if work.steps[b - 1] < 0.0:
            sums[kept] += sums[b]
        else:
            kept += 1
            starts[kept], sums[kept] = starts[b], sums[b]
    starts[kept + 1] = starts[n_blocks]
    return kept + 1


@kernel
def _run_passes(kappa, n_old, work, max_passes):
    """Run passes from ``old_starts, sums`` until nothing changes: (n_blocks, passes, finished)."""
    _solve_blocks(kappa, work.old_starts, n_old, work)
    n_blocks, changed = _split_and_merge(kappa, n_old, work)
    passes = 1
    while changed and passes < max_passes:
        _solve_blocks(kappa, work.starts, n_blocks, work)
        n_merged = _merge(n_blocks, work)
        changed = n_merged < n_blocks
        n_blocks = n_merged
        passes += 1
    return n_blocks, passes, not changed


@kernel
def smooth_nondecreasing(z, shift, kappa, n_warm, work):
    """Minimise ½‖f − z‖² + (κ/2) Σ_j (f[j+1] − f[j])² over non-decreasing f.

    Parameters
    ----------
    z : ndarray of shape (p,), dtype float64
        Finite, of a size whose sums do not overflow.
    shift : float
        Subtracted from z and added to f: the problem is the same, the rounding is not.
    kappa : float
        Finite, ≥ 0; κ + p must not overflow.
    n_warm : int
        Number of blocks in ``work.starts`` to start from; 0 for those of the isotonic regression.
    work : Workspace
        For length p. Holds the blocks of f on return.

    Returns
    -------
    f : ndarray of shape (p,)
    n_blocks : int
    passes : int
    """
    p = z.shape[0]
    for j in range(p):
        work.y[j] = z[j] - shift
    n_blocks, wasted, passes, finished = 0, 0, 0, False
    if n_warm > 0:
        work.old_starts[: n_warm + 1] = work.starts[: n_warm + 1]
        _fill_sums(work.y, work.old_starts, n_warm, work.sums)
        n_blocks, wasted, finished = _run_passes(kappa, n_warm, work, WARM_PASSES)
    if not finished:
        n_isotonic = _pool_isotonic(work.y, work.old_starts, work.sums)
        # One first pass, at most p − 1 that merge, one that changes nothing: p + 1 suffice.
        n_blocks, passes, _ = _run_passes(kappa, n_isotonic, work, p + 1)
    f = np.empty(p)
    for b in range(n_blocks):
        f[work.starts[b] : work.starts[b + 1]] = work.f[b] + shift
    return f, n_blocks, wasted + passes


@kernel
def shrinkage_of_norm(f, kappa, n_blocks, work):
    """Return f·g / f·f, where g smooths f over the vectors that are constant on f's blocks.

    g minimises ½‖g − f‖² + (κ/2) Σ_j (g[j+1] − g[j])² there. ``work`` holds the blocks, and keeps them.
    """
    starts = work.starts
    for b in range(n_blocks):
        work.sums[b] = (starts[b + 1] - starts[b]) * f[starts[b]]
    _solve_blocks(kappa, starts, n_blocks, work)
    inner, norm = 0.0, 0.0
    for b in range(n_blocks):
        inner += work.sums[b] * work.f[b]
        norm += work.sums[b] * f[starts[b]]
    return inner / norm if norm > 0.0 else 1.0
