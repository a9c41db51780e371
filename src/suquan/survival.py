"""Times to event: labels as users give them, concordance, and the baseline hazard."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from suquan._kernels import cox as kernels
from suquan._kernels.cox import STRATUM_BITS

Array = np.ndarray

_WANTED = (
    "y must be a structured array with the fields event and time, or two columns: time, then event (1 or True "
    "where it happened, 0 or False where the follow-up ended without it)"
)


def as_outcome(y: Any, strata: Any = None) -> Array:
    """Times to event as one structured array.

    Parameters
    ----------
    y : structured array with a boolean and a number per sample, or array-like of shape (n_samples, 2)
        The fields event and time, in any order and of any names, as scikit-survival has them; or the columns
        time and event, in this order, or in any order in a data frame that has these names.
    strata : array-like of shape (n_samples,), default=None
        Samples are compared within a stratum only. None: those of y, where it has such a field.

    Returns
    -------
    ndarray of shape (n_samples,), with the fields event (bool), time (float64) and, with strata, stratum

    Examples
    --------
    >>> from suquan.survival import as_outcome
    >>> as_outcome([[5.0, 1], [8.0, 0]])["event"]
    array([ True, False])
    """
    if y is None:
        raise ValueError(f"requires y to be passed, but the target y is None. {_WANTED}.")
    time, event = _columns(y)
    if strata is None and "stratum" in (getattr(getattr(y, "dtype", None), "names", None) or ()):
        strata = y["stratum"]
    columns = {"event": _events(event), "time": _times(time)}
    if strata is not None:
        columns["stratum"] = _strata(strata, len(time))
    outcome = np.empty(len(time), dtype=[(name, x.dtype) for name, x in columns.items()])
    for name, values in columns.items():
        outcome[name] = values
    return outcome


def _columns(y: Any) -> tuple[Array, Array]:
    """Times and events as given."""
    names = getattr(getattr(y, "dtype", None), "names", None)
    if names:
        kinds = {name: y.dtype[name].kind for name in names if name != "stratum"}
        events = [name for name, kind in kinds.items() if kind == "b" or name == "event"]
        times = [name for name in kinds if name not in events]
        if len(events) != 1 or len(times) != 1:
            raise ValueError(f"{_WANTED}; got the fields {', '.join(map(repr, names))}.")
        return y[times[0]], y[events[0]]
    columns = getattr(y, "columns", None)
    if columns is not None and {"time", "event"} <= set(map(str, columns)):
        return np.asarray(y["time"]), np.asarray(y["event"])
    values = np.asarray(y)
    if values.ndim != 2 or values.shape[1] != 2:
        raise ValueError(f"{_WANTED}; got an array of shape {values.shape}.")
    return values[:, 0], values[:, 1]


def _times(time: Any) -> Array:
    try:
        time = np.asarray(time, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"times must be numbers: {error}.") from error
    bad = ~(np.isfinite(time) & (time >= 0.0))
    if bad.any():
        place = int(np.argmax(bad))
        raise ValueError(
            f"times must be finite and not negative; sample {place} has {time[place]:g}"
            f"{', a NaN: drop it' if np.isnan(time[place]) else ''}. {int(bad.sum())} such in all."
        )
    return time


def _events(event: Any) -> Array:
    event = np.asarray(event)
    try:
        known = np.isin(event.astype(np.float64), (0.0, 1.0))
    except (TypeError, ValueError):
        known = np.zeros(event.shape, dtype=bool)
    if not known.all():
        odd = event[~known].tolist()[0]
        raise ValueError(
            f"event must be boolean: True or 1 where it happened, else False or 0; got {odd!r}. Two columns "
            "are time, then event."
        )
    return event.astype(np.float64) == 1.0


def _strata(strata: Any, n_samples: int) -> Array:
    strata = np.asarray(strata)
    if strata.shape != (n_samples,):
        raise ValueError(
            f"strata must hold one value per sample, {n_samples} in all; got an array of shape {strata.shape}."
        )
    if strata.dtype.kind in "iub":
        return strata.astype(np.int64)
    if strata.dtype.kind == "f" and np.isnan(strata).any():
        raise ValueError("strata holds NaN; give every sample a stratum.")
    return strata if strata.dtype.kind == "f" else strata.astype(str)


def strata_of(outcome: Array) -> Array:
    """Strata of samples; one for all where none were given."""
    has_strata = "stratum" in (outcome.dtype.names or ())
    return outcome["stratum"] if has_strata else np.zeros(len(outcome), dtype=np.int64)


def codes(outcome: Array) -> Array:
    """One whole number per sample, in the order of strata, then times, then events before censored samples."""
    stratum = np.unique(strata_of(outcome), return_inverse=True)[1].astype(np.int64)
    rank = np.unique(outcome["time"], return_inverse=True)[1].astype(np.int64)
    return (stratum << STRATUM_BITS) + 2 * rank + ~outcome["event"]


def concordance(y: Any, risk: Any, strata: Any = None, sample_weight: Any = None) -> float:
    """Harrell's concordance: the share of comparable pairs in which the higher risk has the earlier event.

    An event is comparable with every sample of its stratum whose time is later, and with those censored at
    the same time. Two events at the same time are not comparable. A pair of equal risks counts one half.

    Parameters
    ----------
    y : array-like
        Times and events; see :func:`as_outcome`.
    risk : array-like of shape (n_samples,)
    strata : array-like of shape (n_samples,), default=None
    sample_weight : array-like of shape (n_samples,), default=None
        A pair weighs the product of the weights of its samples.

    Returns
    -------
    float

    Examples
    --------
    >>> from suquan.survival import concordance
    >>> concordance([[1, 1], [2, 0], [3, 1]], risk=[0.9, 0.4, 0.5])
    1.0
    """
    y, risk = as_outcome(y, strata), np.asarray(risk, dtype=np.float64)
    if risk.shape != y.shape:
        raise ValueError(f"risk must hold one number per sample, {len(y)}; got {risk.shape}.")
    if np.isnan(risk).any():
        raise ValueError(
            f"risk is NaN for {np.isnan(risk).sum()} of {len(y)} samples; leave these samples out."
        )
    weights = np.ones(len(y)) if sample_weight is None else np.asarray(sample_weight, np.float64)
    code = codes(y)
    order = np.argsort(code, kind="stable")
    rank = np.unique(risk, return_inverse=True)[1].astype(np.int64)
    concordant, tied, comparable = kernels.concordant_pairs(
        code[order], rank[order], weights[order]
    )
    if not comparable > 0.0:
        raise ValueError(
            "no two samples can be compared: no event comes before the time of another sample of its stratum."
        )
    return (concordant + 0.5 * tied) / comparable


def baseline_hazard(outcome: Array, u: Array, s: Array) -> Array:
    """Breslow's cumulative baseline hazard: Σ over events up to a time of s_i / Σ_{j at risk} s_j exp(u_j).

    Outcomes of :func:`as_outcome`, scores u and weights s come in; one row per stratum and time of an event, in
    this order, with the fields stratum, time and hazard, goes out.
    """
    rows, strata = [], strata_of(outcome)
    for stratum in np.unique(strata):
        own = strata == stratum
        time, is_event = outcome["time"][own], outcome["event"][own]
        steps, place = np.unique(time, return_inverse=True)
        e = np.bincount(place, s[own] * np.exp(u[own]), len(steps))
        at_risk = np.cumsum(e[::-1])[::-1]
        events = np.bincount(place, s[own] * is_event, len(steps))
        kept = events > 0.0
        hazard = np.cumsum(events[kept] / at_risk[kept])
        rows += [(stratum, *row) for row in zip(steps[kept], hazard, strict=True)]
    kind = [("stratum", strata.dtype), ("time", float), ("hazard", float)]
    return np.array(rows, dtype=kind)


def cumulative_hazard(
    of_strata: Array, steps: Array, hazards: Array, u: Array, times: Any, strata: Any = None
) -> Array:
    """Cumulative hazard of samples with the scores u at some times: exp(u) × the baseline of their stratum.

    The first three arguments are the fields of :func:`baseline_hazard`; `strata` are needed where it has
    several. The result has the shape (n_samples, n_times).
    """
    times = _times(np.atleast_1d(times))
    known = np.unique(of_strata)
    if strata is None:
        if len(known) > 1:
            raise ValueError(
                f"the model has {len(known)} strata with a baseline each; give the strata of the samples."
            )
        strata = np.repeat(known, len(u))
    strata = _strata(strata, len(u))
    unseen = strata[~np.isin(strata, known)].tolist()
    if unseen:
        some = ", ".join(repr(name) for name in known.tolist()[:10])
        raise ValueError(f"unknown stratum {unseen[0]!r}; the model has a baseline for {some}.")
    hazard = np.empty((len(u), len(times)))
    for stratum in np.unique(strata):
        own, at = strata == stratum, of_strata == stratum
        hazard[own] = np.exp(u[own])[:, None] * _read_steps(steps[at], hazards[at], times)
    return hazard


def _read_steps(steps: Array, hazards: Array, times: Array) -> Array:
    """Hazard at some times: 0 before the first step, that of the last one after it."""
    return np.append(0.0, hazards)[np.searchsorted(steps, times, side="right")]


def exchange_labels(rng: np.random.Generator, labels: Array, groups: Array) -> Array:
    """Draw an `order` of the samples so that ``labels[order]`` are permuted with respect to groups.

    Groups whose samples all have one label exchange their labels; inside the other groups labels are shuffled.
    """
    label = np.unique(labels, return_inverse=True)[1]
    _, first, group = np.unique(groups, return_index=True, return_inverse=True)
    is_mixed = np.bincount(group, label != label[first[group]]) > 0
    giver = np.arange(len(first))
    giver[~is_mixed] = rng.permutation(giver[~is_mixed])
    order = first[giver[group]]
    for mixed in np.flatnonzero(is_mixed):
        rows = np.flatnonzero(group == mixed)
        order[rows] = rng.permutation(rows)
    return order


# -- groups of patients -----------------------------------------------------------------------------


def kaplan_meier(outcome: Array) -> tuple[Array, Array]:
    """Share of samples that are free of the event after each time of an event, from 1 at time 0.

    Examples
    --------
    >>> from suquan.survival import as_outcome, kaplan_meier
    >>> kaplan_meier(as_outcome([[1, 1], [2, 0], [3, 1], [4, 0]]))
    (array([0., 1., 3.]), array([1.   , 0.75 , 0.375]))
    """
    steps, events = np.unique(outcome["time"][outcome["event"]], return_counts=True)
    factors = 1.0 - events / numbers_at_risk(outcome, steps)
    return np.append(0.0, steps), np.append(1.0, np.cumprod(factors))


def numbers_at_risk(outcome: Array, times: Array) -> Array:
    """Samples whose time is at least each of the times."""
    return len(outcome) - np.searchsorted(np.sort(outcome["time"]), times)


@dataclass(frozen=True)
class RiskGroups:
    """Samples in thirds of their out-of-fold risk: low, middle, high.

    Attributes
    ----------
    outcome : ndarray of shape (n_samples,), of :func:`as_outcome`
    group : ndarray of shape (n_samples,), int
        0, 1 and 2: the thirds of the risks within the sample's test fold, whose model has not seen it; −1
        where no fold tests it.
    p_value : float
        Of the trend: events come no earlier in higher thirds. Permutations of the outcomes within folds and
        strata; samples that belong together and have one outcome stay together.
    n_permutations : int
    """

    outcome: Array
    group: Array
    p_value: float
    n_permutations: int

    @classmethod
    def of_folds(
        cls,
        outcome: Array,
        tests: Sequence[Array],
        risks: Sequence[Array],
        seed: int = 0,
        n_permutations: int = 999,
        groups: Array | None = None,
    ) -> RiskGroups:
        """Thirds of the risks within each fold, equal risks in their order.

        The trend is Σ group × (event − cumulative hazard of the stratum at the sample's time): the score
        test of Cox's model for the number of the group. `tests` has the samples of each fold, `risks` their
        risks, `groups` those that belong together, such as patients; see :func:`exchange_labels`.
        """
        group = np.full(len(outcome), -1)
        for rows, risk in zip(tests, risks, strict=True):
            group[rows] = np.argsort(np.argsort(risk, kind="stable")) * 3 // max(len(rows), 1)
        tested = outcome[group >= 0]
        strata, flat = strata_of(tested), np.zeros(len(tested))
        steps = baseline_hazard(tested, flat, flat + 1.0)
        hazard = np.zeros(len(tested))
        for stratum in np.unique(strata):
            own, at = strata == stratum, steps[steps["stratum"] == stratum]
            hazard[own] = _read_steps(at["time"], at["hazard"], tested["time"][own])
        residual = np.zeros(len(outcome))
        residual[group >= 0] = tested["event"] - hazard
        all_strata = strata_of(outcome)
        cells = [
            rows[all_strata[rows] == stratum] for rows in tests for stratum in np.unique(all_strata)
        ]
        rng, code = np.random.default_rng(seed), codes(outcome)
        groups = np.arange(len(outcome)) if groups is None else groups
        trend = sum(group[cell] @ residual[cell] for cell in cells)
        n_reached = 0
        for _ in range(n_permutations):
            orders = [cell[exchange_labels(rng, code[cell], groups[cell])] for cell in cells]
            found = sum(group[a] @ residual[b] for a, b in zip(cells, orders, strict=True))
            n_reached += found >= trend - 1e-12
        return cls(outcome, group, (1 + n_reached) / (1 + n_permutations), n_permutations)
