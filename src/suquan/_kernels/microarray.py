"""Compiled loops for probe-level data: binning for density estimates, and median polish."""

from __future__ import annotations

import numpy as np

from suquan._kernels._jit import kernel

# Up to this many values an insertion sort finds the median faster than partitioning does.
_FEW = 24


@kernel
def bin_linearly(x, low, step, counts):
    """Add every value to the two nodes low + k·step that surround it, in proportion to its nearness.

    Parameters
    ----------
    x : float64 ndarray of shape (n,)
        Values between the first and the last node.
    low, step : float
    counts : float64 ndarray of shape (n_nodes,)
        Added to.
    """
    last = counts.shape[0] - 2
    for i in range(x.shape[0]):
        position = (x[i] - low) / step
        node = min(int(position), last)
        part = position - node
        counts[node] += 1.0 - part
        counts[node + 1] += part


@kernel
def sort_few(values, n):
    """Sort ``values[:n]`` in place by insertion."""
    for i in range(1, n):
        value = values[i]
        j = i
        while j > 0 and values[j - 1] > value:
            values[j] = values[j - 1]
            j -= 1
        values[j] = value


@kernel
def select(values, n, k):
    """Move the k-th smallest of ``values[:n]`` to place k, no greater value before and no smaller after it."""
    low, high = 0, n - 1
    while low < high:
        # The middle of three keeps sorted and reversed values from being the worst case.
        pivot = values[(low + high) // 2]
        first, last = values[low], values[high]
        pivot = max(min(first, pivot), min(max(first, pivot), last))
        i, j = low, high
        while i <= j:
            while values[i] < pivot:
                i += 1
            while values[j] > pivot:
                j -= 1
            if i <= j:
                values[i], values[j] = values[j], values[i]
                i += 1
                j -= 1
        if k <= j:
            high = j
        elif k >= i:
            low = i
        else:
            return


@kernel
def median_of(values, n):
    """Median of ``values[:n]``, which it reorders; the mean of the two middle ones where n is even."""
    half = n // 2
    if n <= _FEW:
        sort_few(values, n)
    else:
        select(values, n, half)
    upper = values[half]
    if n % 2:
        return upper
    lower = values[0]
    for i in range(1, half):
        lower = max(lower, values[i])
    return 0.5 * (lower + upper)


@kernel
def centre_by_median(values, buffer):
    """Subtract from a vector its median, which is returned."""
    n = values.shape[0]
    for i in range(n):
        buffer[i] = values[i]
    centre = median_of(buffer, n)
    for i in range(n):
        values[i] -= centre
    return centre


@kernel
def polish(z, probe_effects, array_effects, buffer, max_iter, tol):
    """Fit z[j, i] ≈ overall + array_effects[j] + probe_effects[i] by alternate medians.

    Parameters
    ----------
    z : float64 ndarray of shape (n_arrays, n_probes)
        Overwritten with the residuals.
    probe_effects, array_effects : float64 ndarrays
        Overwritten.
    buffer : float64 ndarray of at least max(n_arrays, n_probes) values
    max_iter, tol : int and float
        Stop after `max_iter` sweeps, or when the sum of absolute residuals changes by a fraction below `tol`.

    Returns
    -------
    overall : float
    """
    n_arrays, n_probes = z.shape
    probe_effects[:] = 0.0
    array_effects[:] = 0.0
    overall = 0.0
    before = 0.0
    for _ in range(max_iter):
        for i in range(n_probes):
            for j in range(n_arrays):
                buffer[j] = z[j, i]
            centre = median_of(buffer, n_arrays)
            probe_effects[i] += centre
            for j in range(n_arrays):
                z[j, i] -= centre
        overall += centre_by_median(array_effects, buffer)
        total = 0.0
        for j in range(n_arrays):
            row = z[j]
            array_effects[j] += centre_by_median(row, buffer)
            for i in range(n_probes):
                total += abs(row[i])
        overall += centre_by_median(probe_effects, buffer)
        if total == 0.0 or abs(1.0 - before / total) < tol:
            break
        before = total
    return overall


@kernel
def polish_sets(X, order, starts, take_log2, max_iter, tol, out):
    """Median polish of every probe set: the overall level plus the effect of each array.

    Parameters
    ----------
    X : float64 ndarray of shape (n_arrays, n_probes)
    order : int64 ndarray of shape (n_probes_used,)
        Probes, those of a set side by side.
    starts : int64 ndarray of shape (n_sets + 1,)
        Set k has the probes ``order[starts[k]:starts[k + 1]]``, at least one.
    take_log2 : bool
        Polish log2 of the values, which must be positive.
    max_iter, tol : int and float
        As in :func:`polish`.
    out : float64 ndarray of shape (n_sets, n_arrays)
        Overwritten.
    """
    n_arrays = X.shape[0]
    n_sets = starts.shape[0] - 1
    largest = 0
    for k in range(n_sets):
        largest = max(largest, starts[k + 1] - starts[k])
    memory = np.empty(n_arrays * largest)
    probe_effects = np.empty(largest)
    array_effects = np.empty(n_arrays)
    buffer = np.empty(max(n_arrays, largest))
    for k in range(n_sets):
        n_probes = starts[k + 1] - starts[k]
        z = memory[: n_arrays * n_probes].reshape(n_arrays, n_probes)
        for j in range(n_arrays):
            x = X[j]
            for i in range(n_probes):
                value = x[order[starts[k] + i]]
                z[j, i] = np.log2(value) if take_log2 else value
        overall = polish(z, probe_effects[:n_probes], array_effects, buffer, max_iter, tol)
        for j in range(n_arrays):
            out[k, j] = overall + array_effects[j]
