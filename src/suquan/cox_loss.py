"""Cox's partial likelihood as a loss: one that is no sum over samples.

Encoded labels are one whole number per sample, a code whose order is that of the risk sets: strata, then
times, then events before censored samples. So a row of labels can be taken, repeated and moved like that of
any other loss, and nothing depends on more than the order of the times. Sums over risk sets take one sort
and one pass.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from suquan._kernels import cox as kernels
from suquan._kernels.cox import STRATUM_BITS
from suquan.losses import Array, DifferenceCurvature, _Default
from suquan.survival import codes, strata_of

TIME_TIES = ("efron", "breslow")


@dataclass(frozen=True)
class Cox(_Default):
    """−log partial likelihood: Σ over events of s_i [log Σ_{j at risk} s_j exp(u_j) − u_i], without ties.

    Weights count in units of the smallest positive one, so that the value is ≥ 0, and that of unit weights
    is the usual one. Ties of times are settled by Efron's rule or Breslow's, as in R's `coxph`.

    Parameters
    ----------
    time_ties : {"efron", "breslow"}, default="efron"

    Examples
    --------
    >>> import numpy as np
    >>> from suquan.cox_loss import Cox
    >>> from suquan.survival import as_outcome
    >>> y = as_outcome(np.array([[1.0, 1], [2.0, 1], [3.0, 0]]))  # time, event
    >>> loss, codes, _ = Cox().encode(y, np.ones(3, dtype=bool))
    >>> round(loss.value(codes, np.zeros(3), np.ones(3)), 4)  # log 3 + log 2
    1.7918
    """

    time_ties: str = "efron"

    name = "cox"
    couples_samples = True
    has_intercept = False
    _sorted: list = field(default_factory=list, init=False, repr=False, compare=False)

    def __getstate__(self):
        return {"time_ties": self.time_ties, "_sorted": []}

    @property
    def is_efron(self) -> bool:
        """Whether ties of times are settled by Efron's rule."""
        return self.time_ties == "efron"

    def encode(self, labels, used):
        """Codes of samples, from an array with the fields event, time and, where there are any, stratum."""
        y = codes(labels)
        _check(labels[used], y[used])
        return self, y, None

    def value(self, y, u, s):
        """L(u)."""
        return self._evaluate(y, u, s, np.empty(0))

    def gradient(self, y, u, s):
        """s exp(u) × the cumulative hazard at the sample's time, less s for events."""
        slopes = np.empty(len(y))
        self._evaluate(y, u, s, slopes)
        return self._in_order_of(y, slopes)

    def hessian(self, y, u, s):
        """Differences of gradients, with what a sample's own risk adds to the diagonal as that.

        The term s exp(u) × the hazard of the gradient is at least the diagonal, and bounds it well where risk
        sets are large.
        """
        u = np.ravel(u).astype(np.float64)
        own = self.gradient(y, u, s) + np.where(y & 1 == 0, s, 0.0)
        return DifferenceCurvature(lambda at: self.gradient(y, at, s), u, np.maximum(own, 0.0))

    def best_constant(self, y, s):
        """Zero: shifts of all scores change nothing."""
        return np.zeros(1)

    def smoothness_unit(self, y, s):
        """Share of the events: only these have terms in the loss."""
        return max(float(s @ (y & 1 == 0)) / float(s.sum()), np.finfo(float).tiny)

    def separate(self, y: Array, parts: Array) -> Array:
        """Codes with a stratum of their own for the samples of each part, numbered from 0."""
        n_strata = (int(y.max(initial=0)) >> STRATUM_BITS) + 1
        return y + (np.asarray(parts, dtype=np.int64) * n_strata << STRATUM_BITS)

    def fold_classes(self, y: Array, n_folds: int) -> Array:
        """Events and censored samples of the strata, for folds that have their share of each.

        Those of strata with fewer than `n_folds` join the largest of their kind, so that at least all
        events, where there are censored samples enough, are shared out.
        """
        kinds = 2 * (y >> STRATUM_BITS) + (y & 1)
        for own in (kinds & 1 == 0, kinds & 1 == 1):
            found, counts = np.unique(kinds[own], return_counts=True)
            rare = found[counts < n_folds]
            kinds[own & np.isin(kinds, rare)] = found[np.argmax(counts)] if len(found) else 0
        is_censored = kinds & 1 == 1
        return kinds if is_censored.sum() >= n_folds else kinds - is_censored

    def _evaluate(self, y, u, s, slopes):
        order, code = self._sort(y)
        u, s = _taken(u, order), _taken(s, order)
        return float(kernels.partial_likelihood(code, u, s, self.is_efron, slopes))

    def _in_order_of(self, y, values):
        order, _ = self._sort(y)
        out = np.empty(len(y))
        out[order] = values
        return out

    def _sort(self, y):
        """Order of the codes, and the codes in it; those of the last labels are remembered."""
        for known, order, code in self._sorted:
            if known is y:
                return order, code
        order = np.argsort(y, kind="stable")
        found = y, order, y[order]
        self._sorted[:] = [found, *self._sorted[:1]]
        return found[1:]


def _taken(x: Any, order: Array) -> Array:
    """Entries in the order, as floats of 64 bits."""
    return np.ravel(x)[order].astype(np.float64, copy=False)


def _check(labels: Array, y: Array) -> None:
    """Refuse labels of which no pair can be compared; warn about strata without events."""
    is_event, stratum = labels["event"], y >> STRATUM_BITS
    if not np.any(is_event):
        raise ValueError(
            f"no event at all among {len(labels)} samples: a model of times to event needs some. Is event 1 "
            "where it happened?"
        )
    _, counts = np.unique(stratum, return_counts=True)
    if np.all(counts == 1):
        raise ValueError(
            "every stratum has one sample, so that no two can be compared; give fewer strata."
        )
    if len(np.unique(labels["time"])) == 1:
        raise ValueError(
            f"all times are equal, {labels['time'][0]:g}, so that no event comes before another sample's time."
        )
    last = dict(sorted(zip(stratum.tolist(), y.tolist(), strict=True)))
    if all(y[i] == last[stratum[i]] for i in np.flatnonzero(is_event)):
        raise ValueError(
            "no event comes before the time of another sample of its stratum, and a model of times needs such "
            "pairs."
        )
    strata = strata_of(labels)
    silent = np.setdiff1d(strata, strata[is_event])
    if silent.size:
        warnings.warn(
            f"{silent.size} of {len(counts)} strata have no event, such as {silent.tolist()[0]!r}; "
            "their samples are ignored.",
            stacklevel=5,
        )
