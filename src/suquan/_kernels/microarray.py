"""Median polish of probe sets, compiled; called by `suquan.microarray._rma`."""

import numpy as np

from suquan._kernels._jit import kernel


@kernel
def centre_by_median(values):
    """Subtract from a vector its median, which is returned."""
    centre = np.median(values)
    for i in range(values.shape[0]):
        values[i] -= centre
    return centre


@kernel
def polish(z, probe_effects, array_effects, max_iter, tol):
    """Fit z[j, i] ≈ overall + array_effects[j] + probe_effects[i] by alternate medians.

    Parameters
    ----------
    z : float64 ndarray of shape (n_arrays, n_probes)
        Overwritten with the residuals.
    probe_effects, array_effects : float64 ndarrays
        Overwritten.
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
            probe_effects[i] += centre_by_median(z[:, i])
        overall += centre_by_median(array_effects)
        total = 0.0
        for j in range(n_arrays):
            array_effects[j] += centre_by_median(z[j])
            for i in range(n_probes):
                total += abs(z[j, i])
        overall += centre_by_median(probe_effects)
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
    for k in range(n_sets):
        n_probes = starts[k + 1] - starts[k]
        z = memory[: n_arrays * n_probes].reshape(n_arrays, n_probes)
        for j in range(n_arrays):
            for i in range(n_probes):
                value = X[j, order[starts[k] + i]]
                z[j, i] = np.log2(value) if take_log2 else value
        overall = polish(z, probe_effects[:n_probes], array_effects, max_iter, tol)
        for j in range(n_arrays):
            out[k, j] = overall + array_effects[j]
