"""Robust multi-array average: raw probe intensities come in, expression of probe sets goes out.

The steps in their order: background correction, quantile normalisation, log2, median polish. :func:`rma` takes
all of them; the first and the last are public too. Users call them, on what the readers beside give.
"""

from typing import Any, NamedTuple

import numpy as np
from scipy import fft
from scipy.special import erfcx
from sklearn.utils.validation import check_array

from suquan._blocks import for_each_block
from suquan._validation import check_choice, fill_masked
from suquan.preprocessing import named_like, quantile_normalize
from suquan.ranking import TIES
from suquan.targets import LEARNED, make_target_quantiles

# Nodes of the density estimate; its argmax is one of them, so this number is part of the definition.
N_NODES = 1 << 14
MAX_ITER, TOL = 10, 0.01


def rma(
    pm: Any,
    probeset: Any,
    *,
    background: bool = True,
    target_quantiles: Any = "mean",
    log2: bool | None = None,
    ties: str = "mean_rank",
    n_jobs: int | None = None,
) -> Any:
    """Summarise raw probe intensities of every probe set, by RMA or by RMA with another target.

    Background correction, quantile normalisation of the probes, log2, median polish per probe set. The
    default equals ``rma`` of R's affy. With another `target_quantiles` the probes get that distribution
    instead; with one learned from labels this is RMA with a supervised target, SUQUAN-RMA.

    Parameters
    ----------
    pm : array-like or DataFrame of shape (n_probes, n_arrays)
        Raw intensities of the perfect-match probes, one array per column.
    probeset : array-like of shape (n_probes,)
        Label of the set that each probe belongs to, text or integers.
    background : bool, default=True
        Correct the background first; see :func:`background_correct`.
    target_quantiles : str, distribution, callable, array-like, fitted estimator or None, default="mean"
        Distribution that the probes of every array get: anything :func:`suquan.quantile_normalize` takes, or
        a fitted estimator, whose `target_quantiles_` is used, read at n_probes points where it was
        learned on another number of features. None leaves this step out.
    log2 : bool, default=None
        Whether the target holds intensities, of which log2 is taken before median polish (True), or values
        that are summarised as they are (False), such as a standardised or a learned target. None
        means True for "mean", "median" and no target, False for the other names; it must be given with any
        other target, whose scale cannot be known.
    ties : {"mean_rank", "average", "first"}, default="mean_rank"
        What equal intensities of an array get; the default is that of R's preprocessCore.
    n_jobs : int, default=None
        Threads. The result does not depend on it.

    Returns
    -------
    ndarray or DataFrame of shape (n_probesets, n_arrays)
        Probe sets in the order of their sorted labels, ``np.unique(probeset)``. The transpose has samples in
        rows, as the estimators want them.

    Notes
    -----
    Normalisation sees nothing but the order of the probes within an array, and log2 keeps it: a target f on
    the intensity scale followed by log2 is the target log2(f) used as it is. A learned target
    replaces log2(f) as a whole, so it is not logged again.

    Median polish uses all arrays at once, as does the "mean" target: for an honest estimate of prediction error
    the arrays to predict must not enter.

    Examples
    --------
    >>> import numpy as np
    >>> from suquan.microarray import rma
    >>> pm = np.random.default_rng(0).gamma(1, 200, size=(2200, 4)) + 100
    >>> probeset = np.repeat(np.arange(200), 11)
    >>> rma(pm, probeset).shape
    (200, 4)
    >>> expression = rma(pm, probeset, target_quantiles="normal")  # standard normal probes
    >>> bool(abs(expression.mean()) < 0.1)
    True
    """
    check_choice("ties", ties, TIES)
    X = as_arrays(pm)
    names, order, starts = group_probes(probeset, X.shape[1])
    takes_log2 = _takes_log2(target_quantiles) if log2 is None else bool(log2)
    if background:
        correct_arrays(X, n_jobs)
    if target_quantiles is not None:
        target = _probe_target(target_quantiles, X.shape[1])
        X = quantile_normalize(X, target, ties=ties, n_jobs=n_jobs)
    if takes_log2:
        _check_positive(X, target_quantiles)
        X = np.log2(X)
    expression = polish_arrays(X, order, starts, MAX_ITER, TOL, n_jobs)
    return named_like(expression, pm, names)


def _takes_log2(target: Any) -> bool:
    """Say whether log2 follows the normalisation, from the name of the target."""
    if target is None or isinstance(target, str):
        return target is None or target in LEARNED
    raise ValueError(
        f"log2 must be given with target_quantiles={type(target).__name__}(...), whose scale is not known: "
        "log2=True if it holds intensities, log2=False if its values are to be used as they are, as for a "
        "target that was learned or standardised."
    )


def _probe_target(target: Any, n_probes: int) -> Any:
    """Make of a target what :func:`quantile_normalize` takes; read an estimator's at the probes' ranks."""
    learned = getattr(target, "target_quantiles_", None)
    if learned is not None:
        return make_target_quantiles(learned, n_probes)
    if hasattr(target, "fit"):
        raise ValueError(
            f"{type(target).__name__} has no target_quantiles_ yet; fit it before passing it to rma."
        )
    return target


def _check_positive(X: np.ndarray, target: Any) -> None:
    """Raise a ValueError if log2 cannot be taken of the normalised intensities."""
    if X.min() > 0:
        return
    if target is None or (isinstance(target, str) and target in LEARNED):
        what = "intensities"
        advice = "raw intensities, not logarithms, with background=True, or add what was subtracted"
    else:
        what = "target quantiles"
        advice = "a target in intensities, or log2=False to use its values as they are"
    raise ValueError(
        f"{what} must be positive for log2; the smallest is {X.min():.6g}. Give {advice}."
    )


class Background(NamedTuple):
    """Intensity = N(mean, sd²) + Exponential(rate)."""

    mean: float
    sd: float
    rate: float


def background_correct(pm: Any, *, n_jobs: int | None = None) -> Any:
    """Remove the background of every microarray as RMA does.

    Intensities of an array are taken as a sum s + b of signal and background, s exponential with rate α and b
    normal with mean μ and standard deviation σ. The corrected intensity is the expected signal, with b let
    below zero too, as in R's affy::

        E(s | x) = a + σ φ(a/σ) / Φ(a/σ),    a = x − μ − α σ²

    The parameters come from modes of a kernel density (Epanechnikov, 2¹⁴ nodes, Silverman's
    bandwidth): μ is the mode of the intensities below the mode of all; σ² is twice the mean square
    distance of the intensities below μ; 1/α is the mode of x − μ above μ.

    Parameters
    ----------
    pm : array-like or DataFrame of shape (n_probes, n_arrays)
        Raw intensities of the perfect-match probes, one array per column.
    n_jobs : int, default=None
        Threads. The result does not depend on it.

    Returns
    -------
    ndarray or DataFrame of shape (n_probes, n_arrays)
        Corrected intensities, positive, in float64.

    Raises
    ------
    ValueError
        If an array has too few different intensities to estimate its background.

    References
    ----------
    Irizarry et al. (2003), Exploration, normalization, and summaries of high density oligonucleotide array
    probe level data, Biostatistics 4.

    Examples
    --------
    >>> import numpy as np
    >>> from suquan.microarray import background_correct
    >>> rng = np.random.default_rng(0)
    >>> signal = rng.exponential(200, size=(5000, 2))
    >>> pm = signal + rng.normal(100, 10, size=signal.shape)
    >>> corrected = background_correct(pm)
    >>> bool(np.all(corrected > 0)), bool(np.all(corrected < pm))
    (True, True)
    """
    X = as_arrays(pm)
    correct_arrays(X, n_jobs)
    return named_like(X.T, pm, getattr(pm, "index", None))


def correct_arrays(X: np.ndarray, n_jobs: int | None) -> None:
    """Correct the background of the arrays in the rows of `X`, in place."""

    def correct_block(rows: slice) -> None:
        for i in range(rows.start, rows.stop):
            X[i] = expected_signal(X[i], estimate_background(X[i], i))

    for_each_block(correct_block, X.shape, n_jobs)


def estimate_background(x: np.ndarray, array: int = 0) -> Background:
    """Estimate the background of one array; `array` is its number, for the message."""
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        mean = density_mode(x[x < density_mode(x)])
        below = x[x < mean] - mean
        sd = np.sqrt(2.0 * np.dot(below, below) / (below.size - 1)) if below.size > 1 else np.nan
        rate = np.divide(1.0, density_mode(x[x > mean] - mean))
    if not (np.all(np.isfinite([mean, sd, rate])) and sd > 0 and rate > 0):
        raise ValueError(
            f"the background of array {array} cannot be estimated: its {x.size} intensities between "
            f"{x.min():.6g} and {x.max():.6g} are too few or too alike around their mode. Give raw, "
            "unlogged intensities of all probes, or skip this step with background=False."
        )
    return Background(mean, float(sd), float(rate))


def expected_signal(x: np.ndarray, background: Background) -> np.ndarray:
    """Compute E(s | x); positive, also where the usual formula cancels or divides zero by zero."""
    mean, sd, rate = background
    z = (x - mean - rate * sd * sd) / sd
    with np.errstate(over="ignore"):
        # φ(z)/Φ(z) through the scaled complementary error function, which does not underflow
        signal = z + np.sqrt(2.0 / np.pi) / erfcx(z * -np.sqrt(0.5))
    far = z < -100.0  # where this expansion is more exact than the formula
    t = -z[far]
    signal[far] = (1.0 - 2.0 / t**2 + 10.0 / t**4 - 74.0 / t**6) / t
    return sd * signal


def density_mode(x: np.ndarray) -> float:
    """Estimate the mode of a kernel density, to within the nodes' spacing; NaN for fewer than two values.

    The density is that of R's ``density(x, kernel="epanechnikov", n=2**14)``: values are binned linearly on 2¹⁴
    nodes that reach 7 bandwidths beyond the data, smoothed there, and read by interpolation on 2¹⁴ nodes that
    reach 3 bandwidths beyond. The bandwidth is Silverman's, 0.9 · min(sd, IQR/1.34) · n^(−1/5), never zero.
    """
    if x.size < 2:
        return np.nan
    first, third = np.quantile(x, [0.25, 0.75])
    sd = np.std(x, ddof=1)
    spread = min(sd, (third - first) / 1.34) or sd or abs(x[0]) or 1.0
    width = 0.9 * spread * x.size**-0.2
    low, high = x.min() - 7.0 * width, x.max() + 7.0 * width
    step = (high - low) / (N_NODES - 1)
    if not (np.isfinite(high - low) and step > 0.0):
        return np.nan
    # A value counts at the two nodes around it, in proportion to its nearness. As many empty nodes follow, room
    # for the smoothing to wrap into.
    position = (x - low) / step
    node = np.minimum(position.astype(np.intp), N_NODES - 2)
    part = position - node
    counts = np.bincount(node, 1.0 - part, 2 * N_NODES) + np.bincount(node + 1, part, 2 * N_NODES)
    # The kernel is read at multiples of 2(high − low)/(2n − 1), not at the spacing (high − low)/(n − 1): a slip
    # of long standing in R's ``density`` that is kept here, as it decides which node is the mode.
    lag = np.arange(2 * N_NODES)
    distance = np.minimum(lag, lag.size - lag) * (2.0 * (high - low) / (lag.size - 1))
    kernel = np.maximum(1.0 - (distance / (np.sqrt(5.0) * width)) ** 2, 0.0)
    density = fft.irfft(fft.rfft(counts) * fft.rfft(kernel), lag.size)[:N_NODES]
    unit = np.arange(N_NODES) / (N_NODES - 1)
    shown = unit * (high - low - 8.0 * width) + (low + 4.0 * width)
    return float(shown[np.argmax(np.interp(shown, unit * (high - low) + low, density))])


def median_polish(
    values: Any,
    probeset: Any,
    *,
    max_iter: int = MAX_ITER,
    tol: float = TOL,
    n_jobs: int | None = None,
) -> Any:
    """Summarise the probes of every probe set by Tukey's median polish.

    Within a set the value of probe i on array j is modelled as t + c_j + r_i: a level, an effect of the array
    and an effect of the probe. Medians over arrays and over probes are subtracted in turn until the
    residuals settle; the summary of the set on array j is t + c_j.

    Parameters
    ----------
    values : array-like or DataFrame of shape (n_probes, n_arrays)
        Values on the scale of the summary: for RMA, log2 of normalised intensities.
    probeset : array-like of shape (n_probes,)
        Label of the set that each probe belongs to, text or integers.
    max_iter : int, default=10
        Sweeps over arrays and probes at most.
    tol : float, default=0.01
        Stop when the sum of absolute residuals changes by a fraction below this.
    n_jobs : int, default=None
        Threads. The result does not depend on it.

    Returns
    -------
    ndarray or DataFrame of shape (n_probesets, n_arrays)
        Sets in the order of their sorted labels, ``np.unique(probeset)``.

    Examples
    --------
    >>> from suquan.microarray import median_polish
    >>> values = [[1.0, 2.0, 4.0], [3.0, 4.0, 6.0], [2.0, 3.0, 5.5]]
    >>> median_polish(values, ["a", "a", "b"])
    array([[2. , 3. , 5. ],
           [2. , 3. , 5.5]])
    """
    if isinstance(max_iter, bool) or not isinstance(max_iter, int | np.integer) or max_iter < 1:
        raise ValueError(f"max_iter must be a positive integer; got {max_iter!r}.")
    if not tol >= 0:
        raise ValueError(f"tol must be a non-negative number; got {tol!r}.")
    X = as_arrays(values, "values")
    names, order, starts = group_probes(probeset, X.shape[1])
    out = polish_arrays(X, order, starts, int(max_iter), float(tol), n_jobs)
    return named_like(out, values, names)


def polish_arrays(
    X: np.ndarray, order: np.ndarray, starts: np.ndarray, max_iter: int, tol: float, n_jobs: Any
) -> np.ndarray:
    """Summarise the arrays in the rows of `X` by probe sets, to an array of shape (n_sets, n_arrays)."""
    n_probes = np.diff(starts)
    out = np.empty((len(n_probes), len(X)))
    for n in np.unique(n_probes):  # sets of one size are polished together
        alike = np.flatnonzero(n_probes == n)
        probes = order[starts[alike, None] + np.arange(n)]

        def polish_block(rows: slice, alike=alike, probes=probes) -> None:
            z = np.ascontiguousarray(np.moveaxis(X[:, probes[rows]], 0, 2))
            out[alike[rows]] = polish(z, max_iter, tol)

        for_each_block(polish_block, (len(alike), n * len(X)), n_jobs)
    return out


def polish(z: np.ndarray, max_iter: int, tol: float) -> np.ndarray:
    """Fit z ≈ level + probe effects + array effects by alternate medians; return level + array effects.

    `z`, of shape (n_sets, n_probes, n_arrays), is overwritten. A set ends after `max_iter` sweeps, or when its
    sum of absolute residuals changes by a fraction below `tol`.
    """

    def sweep(values: np.ndarray, axis: int, into: np.ndarray) -> None:
        centre = np.median(values, axis=axis, keepdims=True)
        values -= centre
        into += centre

    n_sets, n_probes, n_arrays = z.shape
    out = np.empty((n_sets, n_arrays))
    going, before = np.arange(n_sets), np.zeros(n_sets)
    level, probe = np.zeros((n_sets, 1, 1)), np.zeros((n_sets, n_probes, 1))
    array = np.zeros((n_sets, 1, n_arrays))
    for _ in range(max_iter):
        sweep(z, 2, probe)
        sweep(array, 2, level)
        sweep(z, 1, array)
        sweep(probe, 1, level)
        out[going] = (level + array)[:, 0]
        total = np.abs(z).sum(axis=(1, 2))
        more = total > 0.0
        more[more] = ~(np.abs(1.0 - before[more] / total[more]) < tol)
        if not more.any():
            break
        going, before, z, level, probe, array = (
            part[more] for part in (going, total, z, level, probe, array)
        )
    return out


def as_arrays(pm: Any, name: str = "pm") -> np.ndarray:
    """Copy finite probe values as float64, with one microarray per row."""
    pm = fill_masked(pm)
    values = check_array(pm, dtype="numeric", ensure_all_finite=False, input_name=name)
    if values.dtype.kind not in "biuf":
        raise ValueError(f"{name} must hold real numbers; got an array of type {values.dtype}.")
    X = np.array(values.T, dtype=np.float64, order="C")
    if not np.all(np.isfinite(X)):
        array, probe = np.argwhere(~np.isfinite(X))[0]
        raise ValueError(
            f"{name} must be finite; probe {probe} of array {array} is {X[array, probe]}. Fill such values "
            "in, or leave the probe out of all arrays."
        )
    return X


def group_probes(probeset: Any, n_probes: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Group the probes by their labels: sorted labels, `order` and `starts`.

    Set k has the probes ``order[starts[k]:starts[k + 1]]``, in the order in which they came.
    """
    labels = np.asarray(probeset)
    if labels.shape != (n_probes,):
        raise ValueError(
            f"probeset must hold one label per probe, so {n_probes} of them; got an array of shape "
            f"{labels.shape}. Probes are the rows of the matrix, and arrays its columns."
        )
    names, codes, counts = np.unique(labels, return_inverse=True, return_counts=True)
    return names, np.argsort(codes, kind="stable"), np.r_[0, np.cumsum(counts)]
