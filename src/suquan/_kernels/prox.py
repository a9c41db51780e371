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

from suquan._kernels._jit import kernel, summing_kernel

# A warm start that needs more passes than this is far off: the isotonic start is the better one.
WARM_PASSES = 5


class Workspace(NamedTuple):
    """The blocks of the last answer, and scratch that calls share: fresh pages cost more than a pass.

    Block b is ``starts[b]:starts[b + 1]``, y sums to ``sums[b]`` on it, its value is ``f[b]``, and
    ``steps[b]`` is the difference to the next one. ``isotonic_starts, isotonic_sums`` are the same for the
    isotonic regression of y; ``f_sums`` serves :func:`shrinkage_of_norm`.
    """

    y: NDArray[np.float64]
    starts: NDArray[np.int64]
    old_starts: NDArray[np.int64]
    sums: NDArray[np.float64]
    isotonic_starts: NDArray[np.int64]
    isotonic_sums: NDArray[np.float64]
    f_sums: NDArray[np.float64]
    f: NDArray[np.float64]
    steps: NDArray[np.float64]
    mass: NDArray[np.float64]


def make_workspace(p: int) -> Workspace:
    """Allocate for vectors of length p."""
    y, sums, isotonic_sums, f_sums, f, steps, mass = (np.empty(p) for _ in range(7))
    starts, old_starts, isotonic_starts = (np.empty(p + 1, dtype=np.int64) for _ in range(3))
    return Workspace(
        y, starts, old_starts, sums, isotonic_starts, isotonic_sums, f_sums, f, steps, mass
    )


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
def _solve_blocks(kappa, starts, n_blocks, sums, work):
    """Solve the tridiagonal system n_b f_b + κ (2 f_b − f_{b−1} − f_{b+1}) = sums_b of the blocks.

    Elimination from both ends to the middle: two independent chains of divisions run side by side.
    An eliminated block lives on in its neighbour's ``mass`` and ``pull`` (row excess and right
    side), to which it adds a positive multiple of its own, so that nothing cancels however large κ
    is; the steps f_{b+1} − f_b come out directly, not as differences of rounded values.
    """
    f, steps, mass = work.f, work.steps, work.mass
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
    _solve_blocks(kappa, work.old_starts, n_old, work.sums, work)
    n_blocks, changed = _split_and_merge(kappa, n_old, work)
    passes = 1
    while changed and passes < max_passes:
        _solve_blocks(kappa, work.starts, n_blocks, work.sums, work)
        n_merged = _merge(n_blocks, work)
        changed = n_merged < n_blocks
        n_blocks = n_merged
        passes += 1
    return n_blocks, passes, not changed


@kernel
def load(z, shift, n_warm, work):
    """Put z − shift into the workspace, with its sums over the ``n_warm`` blocks of ``work.starts``.

    The problem is the same for every shift, the rounding is not.
    """
    for j in range(z.shape[0]):
        work.y[j] = z[j] - shift
    _fill_sums(work.y, work.starts, n_warm, work.sums)


@kernel
def pool_isotonic(work):
    """Find the blocks of the isotonic regression of the loaded y; return their number."""
    return _pool_isotonic(work.y, work.isotonic_starts, work.isotonic_sums)


@kernel
def _restart_isotonic(n_isotonic, starts, work):
    starts[: n_isotonic + 1] = work.isotonic_starts[: n_isotonic + 1]
    work.sums[:n_isotonic] = work.isotonic_sums[:n_isotonic]


@kernel
def find_blocks(kappa, n_warm, n_isotonic, work):
    """Minimise ½‖f − y‖² + (κ/2) Σ_j (f[j+1] − f[j])² over non-decreasing f, for the loaded y.

    Parameters
    ----------
    kappa : float
        Finite, ≥ 0; κ + p must not overflow.
    n_warm : int
        Number of blocks in ``work.starts, sums`` to start from; 0 for those of the isotonic regression.
    n_isotonic : int
        What :func:`pool_isotonic` returned for this y; 0 if it was not called.
    work : Workspace
        Holds the blocks of f on return, and their values.

    Returns
    -------
    n_blocks : int
    passes : int
    """
    n_blocks, wasted, passes, finished = 0, 0, 0, False
    if n_warm > 0:
        work.old_starts[: n_warm + 1] = work.starts[: n_warm + 1]
        n_blocks, wasted, finished = _run_passes(kappa, n_warm, work, WARM_PASSES)
    if not finished:
        if n_isotonic == 0:
            n_isotonic = pool_isotonic(work)
        _restart_isotonic(n_isotonic, work.old_starts, work)
        # One first pass, at most p − 1 that merge, one that changes nothing: p + 1 suffice.
        n_blocks, passes, _ = _run_passes(kappa, n_isotonic, work, work.y.shape[0] + 1)
    return n_blocks, wasted + passes


@kernel
def expand(n_blocks, shift, work):
    """Vector of shape (p,) that has the blocks' values, plus shift."""
    f = np.empty(work.y.shape[0])
    for b in range(n_blocks):
        value = work.f[b] + shift
        for j in range(work.starts[b], work.starts[b + 1]):
            f[j] = value
    return f


@summing_kernel
def mean_square(n_blocks, shift, work):
    """Mean square of :func:`expand`'s vector, summed in short stretches: p roundings would not do."""
    starts, f = work.starts, work.f
    total = 0.0
    for first in range(0, n_blocks, 256):
        part = 0.0
        for b in range(first, min(first + 256, n_blocks)):
            part += (starts[b + 1] - starts[b]) * (f[b] + shift) ** 2
        total += part
    return total / starts[n_blocks]


@kernel
def shrinkage_of_norm(kappa, n_blocks, shift, work):
    """Return f·g / f·f, where f is :func:`expand`'s vector and g smooths it on its blocks.

    g minimises ½‖g − f‖² + (κ/2) Σ_j (g[j+1] − g[j])² over the vectors constant on f's blocks. Keeps the
    blocks and overwrites their values.
    """
    starts, sums = work.starts, work.f_sums
    norm = 0.0
    for b in range(n_blocks):
        size, value = starts[b + 1] - starts[b], work.f[b] + shift
        sums[b] = size * value
        norm += sums[b] * value
    _solve_blocks(kappa, starts, n_blocks, sums, work)
    inner = 0.0
    for b in range(n_blocks):
        inner += sums[b] * work.f[b]
    return inner / norm if norm > 0.0 else 1.0


@kernel
def load_isotonic(n_isotonic, work):
    """Make the blocks of the isotonic regression, and their means, those of ``work``."""
    _restart_isotonic(n_isotonic, work.starts, work)
    for b in range(n_isotonic):
        work.f[b] = work.sums[b] / (work.starts[b + 1] - work.starts[b])


@kernel
def pass_once(kappa, n_blocks, work):
    """Update the blocks of ``work`` once, right or not, and solve on the new ones; return their number."""
    work.old_starts[: n_blocks + 1] = work.starts[: n_blocks + 1]
    _solve_blocks(kappa, work.old_starts, n_blocks, work.sums, work)
    n_blocks, _ = _split_and_merge(kappa, n_blocks, work)
    _solve_blocks(kappa, work.starts, n_blocks, work.sums, work)
    return n_blocks
