"""RMA's background correction: the expected signal of a probe under a normal plus exponential model.

Raw intensities come in and corrected ones go out, array by array; `rma` calls it first.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy import fft
from scipy.special import erfcx

from suquan._blocks import for_each_block
from suquan.microarray._probes import as_arrays, named_like

# Nodes of the density estimate; its argmax is one of them, so this number is part of the definition.
N_NODES = 1 << 14
# So many standard deviations below the background, the expansion is more exact than the formula.
_EXPANSION_BELOW = -100.0


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
    """Correct the arrays in the rows of `X`, in place."""

    def correct_block(rows: slice) -> None:
        for i in range(rows.start, rows.stop):
            X[i] = expected_signal(X[i], estimate_background(X[i], i))

    for_each_block(correct_block, X.shape, n_jobs)


def estimate_background(x: np.ndarray, array: int = 0) -> Background:
    """Parameters of the background of one array; `array` is its number, for the message."""
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        background = _estimate(x)
    usable = np.all(np.isfinite(background)) and background.sd > 0 and background.rate > 0
    if not usable:
        raise ValueError(
            f"the background of array {array} cannot be estimated: its {x.size} intensities between "
            f"{x.min():.6g} and {x.max():.6g} are too few or too alike around their mode. Give raw, "
            "unlogged intensities of all probes, or skip this step with background=False."
        )
    return background


def _estimate(x: np.ndarray) -> Background:
    """Parameters, not finite where they cannot be estimated."""
    mean = density_mode(x[x < density_mode(x)])
    below = x[x < mean] - mean
    sd = np.sqrt(2.0 * np.dot(below, below) / (below.size - 1)) if below.size > 1 else np.nan
    rate = np.divide(1.0, density_mode(x[x > mean] - mean))
    return Background(mean, float(sd), float(rate))


def expected_signal(x: np.ndarray, background: Background) -> np.ndarray:
    """E(s | x); positive, also where the usual formula cancels or divides zero by zero."""
    mean, sd, rate = background
    z = (x - mean - rate * sd * sd) / sd
    with np.errstate(over="ignore"):
        # φ(z)/Φ(z) through the scaled complementary error function, which does not underflow
        signal = z + np.sqrt(2.0 / np.pi) / erfcx(z * -np.sqrt(0.5))
    far = z < _EXPANSION_BELOW
    t = -z[far]
    signal[far] = (1.0 - 2.0 / t**2 + 10.0 / t**4 - 74.0 / t**6) / t
    return sd * signal


def density_mode(x: np.ndarray) -> float:
    """Mode of a kernel density estimate, to within the nodes' spacing; NaN for fewer than two values.

    The estimate is that of R's ``density(x, kernel="epanechnikov", n=2**14)``, whose nodes are those that the
    mode is chosen from: values are binned linearly on 2¹⁴ nodes that reach 7 bandwidths beyond the data,
    smoothed there, and read by interpolation on 2¹⁴ nodes that reach 3 bandwidths beyond them.
    """
    if x.size < 2:
        return np.nan
    width = bandwidth(x)
    least, greatest = x.min(), x.max()
    low, high = least - 7.0 * width, greatest + 7.0 * width
    step = (high - low) / (N_NODES - 1)
    if not (np.isfinite(high - low) and step > 0.0):
        return np.nan
    density = smooth(bin_on_nodes(x, low, step), low, high, width)
    unit = np.arange(N_NODES) / (N_NODES - 1)
    wide = unit * (high - low) + low
    shown = unit * (high - low - 8.0 * width) + (low + 4.0 * width)
    return float(shown[np.argmax(np.interp(shown, wide, density))])


def bandwidth(x: np.ndarray) -> float:
    """Silverman's rule of thumb, 0.9 · min(sd, IQR/1.34) · n^(−1/5), never zero."""
    first, third = np.quantile(x, [0.25, 0.75])
    sd = np.std(x, ddof=1)
    spread = min(sd, (third - first) / 1.34) or sd or abs(x[0]) or 1.0
    return float(0.9 * spread * x.size**-0.2)


def bin_on_nodes(x: np.ndarray, low: float, step: float) -> np.ndarray:
    """Share of the values at each node; as many empty nodes follow, room for the smoothing to wrap into.

    A value counts at the two nodes low + k·step that surround it, in proportion to its nearness.
    """
    position = (x - low) / step
    node = np.minimum(position.astype(np.intp), N_NODES - 2)
    part = position - node
    counts = np.bincount(node, 1.0 - part, 2 * N_NODES)
    return (counts + np.bincount(node + 1, part, 2 * N_NODES)) / x.size


def smooth(counts: np.ndarray, low: float, high: float, width: float) -> np.ndarray:
    """Binned values smoothed with the Epanechnikov kernel of standard deviation `width`.

    The kernel is read at multiples of 2(high − low)/(2n − 1), not at the nodes' spacing (high − low)/(n − 1):
    a slip of long standing in R's ``density`` that is kept here, as it decides which node is the mode.
    """
    size = counts.size
    lag = np.arange(size)
    distance = np.minimum(lag, size - lag) * (2.0 * (high - low) / (size - 1))
    reach = np.sqrt(5.0) * width
    weights = np.where(distance < reach, 0.75 / reach * (1.0 - (distance / reach) ** 2), 0.0)
    return fft.irfft(fft.rfft(counts) * fft.rfft(weights), size)[: size // 2]
