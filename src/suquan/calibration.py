"""Probabilities that follow from scores: fitted to out-of-fold scores, kept as plain numbers.

Scores come in as `decision_function` gives them, probabilities of all classes go out. Selection and comparison
fit a calibration to the scores of samples that the scoring model had not seen; predictions apply it.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import expit, log_softmax, logit, softmax
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression

from suquan._validation import check_choice

__all__ = [
    "apply_calibration",
    "check_calibration",
    "fit_calibration",
    "measure_probabilities",
    "reliability",
]

CALIBRATIONS = ("sigmoid", "isotonic")
N_BINS = 10  # of reliability


def check_calibration(kind: Any, n_classes: int) -> None:
    """Raise a ValueError where there is no such calibration, or none for that many classes."""
    if kind is None:
        return
    check_choice("calibration", kind, CALIBRATIONS)
    if kind == "isotonic" and n_classes > 2:
        raise ValueError(
            f"calibration='isotonic' is for two classes; got {n_classes}. Choose calibration='sigmoid', which "
            "fits one temperature to more classes, or calibration=None."
        )


def fit_calibration(
    kind: str, scores: np.ndarray, codes: np.ndarray, weights: np.ndarray
) -> dict[str, Any]:
    """Fit a calibration to the scores of samples whose classes are known.

    Minimises −Σ_i s_i Σ_k t_ik log p_ik, the log loss where t_ik is 1 for the sample's own class, else 0. So
    that no probability becomes 0 or 1 because few samples were seen, t_ik is (N + 1)/(N + 2) for the own class,
    with N the weight of that class, as in Platt; with more than two classes N is the weight of all samples. The
    other classes share the rest.

    - "sigmoid": p = 1/(1 + exp(−(slope·u + intercept))), slope ≥ 0, so that a higher score never means less.
    - "isotonic": p is the non-decreasing step through the targets, linear between the scores seen. It minimises
      the squares Σ_i s_i (t_i1 − p_i)², and the log loss with them.
    - more than two classes: p = softmax(u / temperature).

    Parameters
    ----------
    kind : {"sigmoid", "isotonic"}
    scores : ndarray of shape (n_rows,), or (n_rows, n_classes) for more than two classes
    codes : ndarray of shape (n_rows,), int
        Classes by their number.
    weights : ndarray of shape (n_rows,)

    Returns
    -------
    dict
        "kind", and "slope" and "intercept", or "scores" and "probabilities", or "temperature".

    References
    ----------
    J. Platt, "Probabilistic Outputs for Support Vector Machines", 1999. C. Guo et al., "On Calibration of
    Modern Neural Networks", 2017.

    Examples
    --------
    >>> import numpy as np
    >>> from suquan.calibration import apply_calibration, fit_calibration
    >>> scores, codes = np.array([-0.1, 0.0, 0.1, 0.2]), np.array([0, 1, 0, 1])
    >>> found = fit_calibration("sigmoid", scores, codes, np.ones(4))
    >>> found["slope"] > 1  # the scores were too close to each other
    True
    >>> apply_calibration(found, scores).shape
    (4, 2)
    """
    n_classes = 2 if scores.ndim == 1 else scores.shape[1]
    targets = _targets(codes, weights, n_classes)
    if n_classes > 2:
        return {"kind": "temperature", "temperature": _temperature(scores, targets, weights)}
    if kind == "isotonic":
        found = IsotonicRegression(out_of_bounds="clip").fit(scores, targets[:, 1], weights)
        steps = {"scores": found.X_thresholds_, "probabilities": found.y_thresholds_}
        return {"kind": kind, **{name: np.asarray(v, np.float64) for name, v in steps.items()}}
    slope, intercept = _sigmoid(scores, targets[:, 1], weights)
    return {"kind": kind, "slope": slope, "intercept": intercept}


def apply_calibration(calibration: dict[str, Any], scores: np.ndarray) -> np.ndarray:
    """Compute the probabilities of all classes.

    Parameters
    ----------
    calibration : dict
        What :func:`fit_calibration` gave.
    scores : ndarray of shape (n_samples,) or (n_samples, n_classes)

    Returns
    -------
    ndarray of shape (n_samples, n_classes)
    """
    if calibration["kind"] == "temperature":
        return softmax(scores / calibration["temperature"], axis=1)
    if calibration["kind"] == "isotonic":
        second = np.interp(scores, calibration["scores"], calibration["probabilities"])
        return np.column_stack([1.0 - second, second])
    u = calibration["slope"] * scores + calibration["intercept"]
    return np.column_stack([expit(-u), expit(u)])


def centre_scores(calibration: dict[str, Any]) -> tuple[float, dict[str, Any]] | None:
    """Find the largest score with a probability of at most ½, and the calibration of scores minus this score.

    For two classes; None where the probability never passes ½.
    """
    if calibration["kind"] == "sigmoid":
        slope, intercept = calibration["slope"], calibration["intercept"]
        return (-intercept / slope, {**calibration, "intercept": 0.0}) if slope > 0.0 else None
    u, p = calibration["scores"], calibration["probabilities"]
    above = int(np.searchsorted(p, 0.5, side="right"))
    if not 0 < above < len(p):
        return None
    step = slice(above - 1, above + 1)
    shift = float(np.interp(0.5, p[step], u[step]))
    return shift, {**calibration, "scores": u - shift}


def _targets(codes: np.ndarray, weights: np.ndarray, n_classes: int) -> np.ndarray:
    """Compute the targets t_ik of :func:`fit_calibration`, (n_rows, n_classes)."""
    size = np.bincount(codes, weights, n_classes)[codes] if n_classes == 2 else weights.sum()
    rest = np.broadcast_to(1.0 / (size + 2.0), len(codes))
    targets = np.repeat(rest[:, None] / (n_classes - 1), n_classes, axis=1)
    targets[np.arange(len(codes)), codes] = 1.0 - rest
    return targets


def _sigmoid(u: np.ndarray, t: np.ndarray, s: np.ndarray) -> tuple[float, float]:
    """Find the slope ≥ 0 and the intercept that minimise Σ s [log(1 + eᵛ) − t v], v = slope·u + intercept."""
    centre = float(np.average(u, weights=s))
    scale = float(np.sqrt(np.average((u - centre) ** 2, weights=s)))
    slope, shift = 0.0, float(logit(np.average(t, weights=s)))
    if scale > 1e-12 * (1.0 + abs(centre)):  # scores that differ by rounding are one score
        # A sample counts t times as a one and 1 − t times as a zero.
        z, codes = np.tile((u - centre) / scale, 2)[:, None], np.repeat([1, 0], len(u))
        model = LogisticRegression(C=1e12, solver="newton-cholesky", tol=1e-10, max_iter=1000)
        model.fit(z, codes, np.r_[s * t, s * (1.0 - t)] / s.sum())
        if model.coef_.item() > 0.0:  # else the best slope ≥ 0 is 0, as the problem is convex
            slope, shift = model.coef_.item() / scale, model.intercept_.item()
    return slope, shift - slope * centre


def _temperature(u: np.ndarray, t: np.ndarray, s: np.ndarray) -> float:
    """Find the T > 0 that minimises −Σ s Σ_k t_k log softmax(u/T)_k, which is convex in 1/T."""

    def value(log_temperature: float) -> float:
        logs = log_softmax(u * np.exp(-log_temperature), axis=1)
        return -float(s @ np.sum(t * logs, axis=1)) / float(s.sum())

    limits = (-15.0, 15.0)  # powers of e, for scores of any scale that occurs
    found = minimize_scalar(value, bounds=limits, method="bounded", options={"xatol": 1e-9})
    return float(np.exp(found.x))


# -- what probabilities are worth -------------------------------------------------------------------


def measure_probabilities(
    probabilities: np.ndarray, codes: np.ndarray, prevalence: np.ndarray
) -> dict[str, float]:
    """Measure probabilities of samples whose classes are known.

    Parameters
    ----------
    probabilities : ndarray of shape (n_samples, n_classes)
    codes : ndarray of shape (n_samples,), int
        Classes by their number.
    prevalence : ndarray of shape (n_classes,)
        Shares of the classes among the training samples.

    Returns
    -------
    dict
        "log_loss", −log of the probability of the true class; "brier", (p − y)² of the second of two classes,
        Σ_k (p_k − y_k)² of more; "balanced_accuracy", the recall averaged over the classes, where the class of
        largest p_k is predicted (0.5 for two); "balanced_accuracy_at_prevalence", the same for the largest
        p_k / prevalence_k, which for two classes puts the limit at the prevalence of the second. All NaN
        where a probability is, or where there are none.

    Examples
    --------
    >>> import numpy as np
    >>> from suquan.calibration import measure_probabilities
    >>> p = np.array([[0.9, 0.1], [0.7, 0.3], [0.6, 0.4]])
    >>> found = measure_probabilities(p, np.array([0, 1, 1]), np.array([0.8, 0.2]))
    >>> found["balanced_accuracy"], found["balanced_accuracy_at_prevalence"]
    (0.5, 1.0)
    """
    if not probabilities.size or np.isnan(probabilities).any():
        return dict.fromkeys(MEASURES, np.nan)
    found = {name: one.of(probabilities, codes, prevalence) for name, one in MEASURES.items()}
    return {name: float(value) for name, value in found.items()}


def _balanced_accuracy(p: np.ndarray, codes: np.ndarray) -> float:
    hits = np.argmax(p, axis=1) == codes
    return float(np.mean([hits[codes == k].mean() for k in np.unique(codes)]))


def _log_loss(p: np.ndarray, codes: np.ndarray, _: np.ndarray) -> float:
    return -np.mean(np.log(np.maximum(p[np.arange(len(p)), codes], np.finfo(float).eps)))


def _brier(p: np.ndarray, codes: np.ndarray, _: np.ndarray) -> float:
    n_classes = p.shape[1]
    squares = np.mean(np.sum((p - np.eye(n_classes)[codes]) ** 2, axis=1))
    return squares / 2.0 if n_classes == 2 else squares


class Measure(NamedTuple):
    """A measure of probabilities: its heading in tables, and its formula.

    `of` gets the probabilities, (n_samples, n_classes), the classes of the samples by their number, and the
    shares of the classes among the training samples.
    """

    heading: str
    of: Callable[[np.ndarray, np.ndarray, np.ndarray], Any]


# Columns of the tables of a comparison with classes; a new one is a row here.
MEASURES: dict[str, Measure] = {
    "log_loss": Measure("log loss", _log_loss),
    "brier": Measure("Brier score", _brier),
    "balanced_accuracy": Measure(
        "balanced accuracy at 0.5", lambda p, codes, _: _balanced_accuracy(p, codes)
    ),
    "balanced_accuracy_at_prevalence": Measure(
        "balanced accuracy at the prevalence",
        lambda p, codes, shares: _balanced_accuracy(p / shares, codes),
    ),
}


def reliability(probabilities: np.ndarray, codes: np.ndarray) -> dict[str, np.ndarray]:
    """Compare predicted probabilities with observed frequencies in ten bins; empty bins are left out.

    Of two classes: the probability of the second, and its share. Of more: the probability of the class that is
    predicted, and the share of right predictions.

    Parameters
    ----------
    probabilities : ndarray of shape (n_samples, n_classes)
    codes : ndarray of shape (n_samples,), int

    Returns
    -------
    dict of arrays
        "predicted" and "observed", the means in each bin, and "count".
    """
    two = probabilities.shape[1] == 2
    said = probabilities[:, 1] if two else probabilities.max(axis=1)
    true = codes == 1 if two else codes == np.argmax(probabilities, axis=1)
    bins = np.minimum((said * N_BINS).astype(np.intp), N_BINS - 1)
    count = np.bincount(bins, minlength=N_BINS)
    filled = count > 0
    means = {
        name: np.bincount(bins, v, N_BINS)[filled] / count[filled]
        for name, v in (("predicted", said), ("observed", true))
    }
    return {**means, "count": count[filled]}
