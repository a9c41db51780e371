"""What the w-step's solvers return and agree on: the fit, its first intercept, when it counts as perfect."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from suquan.losses import Logistic, Loss, Softmax, Squared
from suquan.solvers._algebra import Array, MaybeArray

TOL = 1e-8
MAX_ITER = 200
# Log-odds given to a class that is absent: its loss is 1e-22, and the exponentials stay finite.
_RAREST = 1e-22
# An objective below this fraction of the loss at zero scores counts as zero.
_NEGLIGIBLE = 1e-12


@dataclass(frozen=True)
class LinearFit:
    """A fitted linear model; give it as ``start`` to warm-start a neighbouring problem.

    Attributes
    ----------
    w : ndarray of shape (n_outputs, n_features) or None
        Coefficients; None where the design is known by its Gram matrix alone.
    b : ndarray of shape (n_outputs,)
        Intercepts; they sum to 0 for the softmax loss.
    u : ndarray of shape (n_samples,) or (n_samples, n_outputs)
        Scores of all rows, those of weight 0 included.
    objective : float
        J(w, b).
    n_iter : int
        Newton iterations.
    criterion : float
        Estimate of J/J* − 1 before the last step (l1_ratio = 0), or the scaled violation of the
        optimality conditions (l1_ratio > 0).
    converged : bool
        Whether ``criterion`` came below ``tol``.
    dual : ndarray of shape (n_outputs, n_samples) or None
        Coefficients a with w = a A, where they were computed.
    design : object
        Opaque: what the fit was computed on, so that a start on the same design reuses ``u``.
    """

    w: MaybeArray
    b: Array
    u: Array
    objective: float
    n_iter: int
    criterion: float
    converged: bool
    dual: MaybeArray = None
    design: object = field(default=None, repr=False, compare=False)


class FoldWeights:
    """Weights of fits that each leave some samples out: s on those that a fit keeps, over their sum there.

    Takes no memory beyond that of s and of the lists or masks of samples that are kept. ``weights[k]`` is an
    array of shape (n_samples,), ``np.asarray(weights)`` has shape (n_fits, n_samples).
    """

    def __init__(self, s: Array, kept: list[Array]):
        self.s, self.kept = s, kept
        self.totals = [s[samples].sum() for samples in kept]

    def __len__(self) -> int:
        return len(self.kept)

    def __getitem__(self, k: int) -> Array:
        kept = self.kept[k]
        if kept.dtype == bool:
            weights = self.s * kept
        else:
            weights = np.zeros(len(self.s))
            weights[kept] = self.s[kept]
        weights /= self.totals[k]
        return weights

    def __iter__(self) -> Iterator[Array]:
        return (self[k] for k in range(len(self)))

    def __array__(self, dtype=None, copy=None) -> Array:
        return np.stack(list(self)).astype(dtype or np.float64, copy=False)

    def mean(self) -> Array:
        """Mean weight of each sample."""
        total = np.zeros(len(self.s))
        for weights in self:
            total += weights
        return total / len(self)


def null_intercept(loss: Loss, y: Array, s: Array) -> Array:
    """Best intercept of the model without features, shape (n_outputs,)."""
    if isinstance(loss, Squared):
        return np.array([s @ y])
    if isinstance(loss, Logistic):
        positive, negative = np.log(np.maximum([s @ (y > 0), s @ (y <= 0)], _RAREST))
        return np.array([positive - negative])
    frequency = np.bincount(y, weights=s, minlength=loss.n_outputs)
    b = np.log(np.maximum(frequency, _RAREST))
    return b - b.mean()


def negligible(loss: Loss, y: Array, s: Array) -> float:
    """Objective under which a fit counts as perfect."""
    zeros = np.zeros((len(y), loss.n_outputs)) if isinstance(loss, Softmax) else np.zeros(len(y))
    return max(_NEGLIGIBLE * float(s @ loss.value(y, zeros)), np.finfo(float).tiny)


def sum_to_zero(b: Array) -> Array:
    """Centre the intercepts of a softmax; a single one is identified and stays."""
    return b if len(b) == 1 else b - b.mean()
