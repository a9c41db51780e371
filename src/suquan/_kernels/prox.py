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

from suquan._kernels._jit import fma, kernel

# A warm start that needs more passes than this is far off: the isotonic start is the better one.
WARM_PASSES = 5
# Fractions whose terms exceed this are reduced by it.
_LARGE = 2.0**300


class Workspace(NamedTuple):
    """The blocks of the last answer, and scratch that calls share: fresh pages cost more than a pass.

    Block b is ``starts[b]:starts[b + 1]``, y sums to ``sums[b]`` on it, its value is ``f[b]``, and
    ``steps[b]`` is the difference to the next one. ``take, weight`` are left by :func:`_eliminate`.
    ``isotonic_starts, isotonic_sums`` are the blocks of the isotonic regression of y; ``f_sums`` serves
    :func:`shrinkage_of_norm`.
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
    take: NDArray[np.float64]
    weight: NDArray[np.float64]


def make_workspace(p: int) -> Workspace:
    """Allocate for vectors of length p."""
    y, sums, isotonic_sums, f_sums, f, steps, take, weight = (np.empty(p) for _ in range(8))
    starts, old_starts, isotonic_starts = (np.empty(p + 1, dtype=np.int64) for _ in range(3))
    return Workspace(
        y, starts, old_starts, sums, isotonic_starts, isotonic_sums, f_sums, f, steps, take, weight
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
def _eliminate(kappa, starts, n_blocks, work):
    """Eliminate the blocks of n_b f_b + κ (2 f_b − f_{b−1} − f_{b+1}) = sums_b from both ends to the middle.

    A block lives on in its neighbour's mass m (row excess), to which it adds κ m / (m + κ): a positive
    multiple of its own, so that nothing cancels however large κ is. Fills ``take = m / (m + κ)`` and
    ``weight = 1 / (m + κ)``. Two independent chains, of the two ends, run side by side.
    """
    take, weight = work.take, work.weight
    last = n_blocks - 1
    middle = n_blocks // 2
    unit = 1.0 / (1.0 + kappa)
    keep = kappa * unit
    p_up, d_up, p_down, d_down = 0.0, 1.0, 0.0, 1.0
    for b in range(middle):
        size = starts[b + 1] - starts[b]
        p_up, d_up, take[b], weight[b] = _next_fraction(size, p_up, d_up, unit, keep)
        c = last - b
        if c > middle:
            size = starts[c + 1] - starts[c]
            p_down, d_down, take[c], weight[c] = _next_fraction(size, p_down, d_down, unit, keep)


@kernel
def _next_fraction(size, p, d, unit, keep):
    """The mass m = P / Q of the next block, of `size` values, as P and D = P + κ Q; P / D and Q / D.

    Without a division on the way from block to block, only products and sums of positive numbers: the next are
    P' = n D + κ P and Q' = D. The scale of P and Q is free: both are divided by 1 + κ at each step (`unit` is
    1 / (1 + κ), `keep` κ / (1 + κ)), and by a power of two when they have grown large.
    """
    share, kept, q = unit * size, keep * p, unit * d
    p, d = fma(share, d, kept), fma(share + keep, d, kept)
    inverse = 1.0 / d
    take, weight = p * inverse, q * inverse
    if d > _LARGE:
        p, d = p / _LARGE, d / _LARGE
    return p, d, take, weight


@kernel
def _substitute(kappa, starts, n_blocks, sums, work):
    """Solve for right sides ``sums`` after :func:`_eliminate`, with the same κ and blocks.

    The steps f_{b+1} − f_b come out directly, not as differences of rounded values.
    """
    f, steps, take, weight = work.f, work.steps, work.take, work.weight
    last = n_blocks - 1
    middle = n_blocks // 2
    pull = f  # f[b] is written after pull[b] has been read for the last time
    up = down = share_up = share_down = 0.0
    for b in range(middle):
        up = fma(share_up, up, sums[b])
        share_up = kappa * weight[b]
        pull[b] = up * weight[b]
        c = last - b
        if c > middle:
            down = fma(share_down, down, sums[c])
            share_down = kappa * weight[c]
            pull[c] = down * weight[c]
    mass = 1.0 * (starts[middle + 1] - starts[middle])
    if middle > 0:
        mass += kappa * take[middle - 1]
    if middle < last:
        mass += kappa * take[middle + 1]
    below = above = f[middle] = (share_up * up + share_down * down + sums[middle]) / mass
    for i in range(1, middle + 1):
        b, c = middle - i, middle + i
        step = fma(take[b], below, -pull[b])
        below -= step
        steps[b], f[b] = step, below
        if c <= last:
            step = fma(-take[c], above, pull[c])
            above += step
            steps[c - 1], f[c] = step, above


@kernel
def _solve_blocks(kappa, starts, n_blocks, sums, work):
    """Solve the tridiagonal system n_b f_b + κ (2 f_b − f_{b−1} − f_{b+1}) = sums_b of the blocks."""
    _eliminate(kappa, starts, n_blocks, work)
    _substitute(kappa, starts, n_blocks, sums, work)


@kernel
def _are_right(kappa, n_blocks, work):
    """Whether no free pair decreases and no pooled pair has a positive flux."""
    starts, steps, f, y = work.starts, work.steps, work.f, work.y
    falls = False
    for b in range(n_blocks - 1):
        falls |= steps[b] < 0.0
    if falls:
        return False
    for b in range(n_blocks):
        start, end = starts[b], starts[b + 1]
        if end - start == 1:
            continue
        flux = kappa * steps[b - 1] if b > 0 else 0.0
        for j in range(start, end - 1):
            flux += f[b] - y[j]
            if flux > 0.0:
                return False
    return True


@kernel
def _split_and_merge(kappa, n_old, work):
    """First update: split pooled pairs with positive flux, pool free pairs that decrease.

    Turns ``starts, sums`` into the new ones and returns the number of blocks.
    """
    work.old_starts[: n_old + 1] = work.starts[: n_old + 1]
    n_blocks, total = 0, 0.0
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
                continue
            work.sums[n_blocks] = total
            n_blocks += 1
            work.starts[n_blocks] = j + 1
            total = 0.0
    return n_blocks


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
def _run_passes(kappa, n_blocks, work, max_passes):
    """Run passes from the blocks of ``starts, sums`` until nothing changes: (n_blocks, passes, finished)."""
    _solve_blocks(kappa, work.starts, n_blocks, work.sums, work)
    if _are_right(kappa, n_blocks, work):
        return n_blocks, 1, True
    n_blocks = _split_and_merge(kappa, n_blocks, work)
    passes, changed = 1, True
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
    y, starts, sums = work.y, work.starts, work.sums
    for j in range(z.shape[0]):
        y[j] = z[j] - shift
    for b in range(n_warm):
        start = np.uint64(starts[b])
        total = y[start]
        for j in range(start + np.uint64(1), np.uint64(starts[b + 1])):
            total += y[j]
        sums[b] = total


@kernel
def pool_isotonic(work):
    """Find the blocks of the isotonic regression of the loaded y; return their number."""
    return _pool_isotonic(work.y, work.isotonic_starts, work.isotonic_sums)


@kernel
def _restart_isotonic(n_isotonic, work):
    work.starts[: n_isotonic + 1] = work.isotonic_starts[: n_isotonic + 1]
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
        n_blocks, wasted, finished = _run_passes(kappa, n_warm, work, WARM_PASSES)
    if not finished:
        if n_isotonic == 0:
            n_isotonic = pool_isotonic(work)
        _restart_isotonic(n_isotonic, work)
        # One first pass, at most p − 1 that merge, one that changes nothing: p + 1 suffice.
        n_blocks, passes, _ = _run_passes(kappa, n_isotonic, work, work.y.shape[0] + 1)
    return n_blocks, wasted + passes


@kernel
def expand(n_blocks, shift, divisor, work):
    """Vector of shape (p,) that has the blocks' values, plus shift, divided by a number."""
    starts, values = work.starts, work.f
    f = np.empty(work.y.shape[0])
    for b in range(n_blocks):
        value = (values[b] + shift) / divisor
        start = np.uint64(starts[b])
        f[start] = value
        for j in range(start + np.uint64(1), np.uint64(starts[b + 1])):
            f[j] = value
    return f


@kernel
def _weigh(starts, f, shift, sums):
    """Fill ``sums`` with those of f + shift over the blocks; return Σ sums (f + shift)."""
    for b in range(f.shape[0]):
        sums[b] = (starts[b + 1] - starts[b]) * (f[b] + shift)
    return _dot(sums[: f.shape[0]], f, shift)


@kernel
def _dot(weights, values, shift):
    """Σ_i weights_i (values_i + shift), summed in stretches: p roundings would not do.

    Eight sums side by side, in an order that is spelled out for the reason that :func:`fma` gives.
    """
    total = 0.0
    for first in range(0, weights.shape[0], 2048):
        a, b = weights[first : first + 2048], values[first : first + 2048]
        even = a.shape[0] // 8 * 8
        s0 = s1 = s2 = s3 = s4 = s5 = s6 = s7 = 0.0
        for i in range(0, even, 8):
            s0 += a[i] * (b[i] + shift)
            s1 += a[i + 1] * (b[i + 1] + shift)
            s2 += a[i + 2] * (b[i + 2] + shift)
            s3 += a[i + 3] * (b[i + 3] + shift)
            s4 += a[i + 4] * (b[i + 4] + shift)
            s5 += a[i + 5] * (b[i + 5] + shift)
            s6 += a[i + 6] * (b[i + 6] + shift)
            s7 += a[i + 7] * (b[i + 7] + shift)
        for i in range(even, a.shape[0]):
            s0 += a[i] * (b[i] + shift)
        total += ((s0 + s1) + (s2 + s3)) + ((s4 + s5) + (s6 + s7))
    return total


@kernel
def mean_square(n_blocks, shift, work):
    """Mean square of :func:`expand`'s vector before it is divided; ``f_sums`` gets its sums over the blocks."""
    norm = _weigh(work.starts, work.f[:n_blocks], shift, work.f_sums)
    return norm / work.starts[n_blocks]


@kernel
def shrinkage_of_norm(kappa, n_blocks, shift, work):
    """Return f·g / f·f, where f is :func:`expand`'s vector before it is divided and g smooths it on its blocks.

    g minimises ½‖g − f‖² + (κ/2) Σ_j (g[j+1] − g[j])² over the vectors constant on f's blocks. Keeps the
    blocks and overwrites their values.
    """
    sums = work.f_sums
    norm = _weigh(work.starts, work.f[:n_blocks], shift, sums)
    _substitute(kappa, work.starts, n_blocks, sums, work)
    inner = _dot(sums[:n_blocks], work.f[:n_blocks], 0.0)
    return inner / norm if norm > 0.0 else 1.0


@kernel
def load_isotonic(n_isotonic, work):
    """Make the blocks of the isotonic regression, and their means, those of ``work``."""
    _restart_isotonic(n_isotonic, work)
    for b in range(n_isotonic):
        work.f[b] = work.sums[b] / (work.starts[b + 1] - work.starts[b])


@kernel
def pass_once(kappa, n_blocks, work):
    """Update the blocks of ``work`` once, right or not, and solve on the new ones; return their number."""
    _solve_blocks(kappa, work.starts, n_blocks, work.sums, work)
    n_blocks = _split_and_merge(kappa, n_blocks, work)
    _solve_blocks(kappa, work.starts, n_blocks, work.sums, work)
    return n_blocks
