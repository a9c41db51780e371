"""Labels as the user gave them, made into classes, values or times to event; `_inputs`, `_predict` call it."""

from collections import Counter
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from suquan.cli._options import OutcomeOptions
from suquan.cli._output import Output
from suquan.io import LabelTable, Table, TableError, select_labels, select_numbers, survival_labels
from suquan.survival import as_outcome, concordance

MOST_CLASSES = 20


class Found(NamedTuple):
    """Samples that have a label (a mask), their labels, what classes are called, what to record."""

    keep: np.ndarray
    y: np.ndarray
    class_names: list[str]
    summary: dict[str, Any]


class Labels:
    """Labels of the samples of these names, from a label file or from the table itself."""

    def __init__(
        self, source: LabelTable | Table, names: np.ndarray, options: OutcomeOptions, output: Output
    ) -> None:
        self.names, self.output = names, output
        self.options: Any = options
        rules: dict[str, Any] = {"sample_names": names, "na": options.na or ()}
        rules["allow_unmatched"] = options.allow_unmatched
        self.select: Any = partial(select_labels, source, **rules)
        self.numbers: Any = partial(select_numbers, source, **rules)
        self.against = {"negative": options.negative or (), "negative_rest": options.negative_rest}

    def find(self) -> Found:
        """Find what the options ask for, and say what it is."""
        options = self.options
        if options.task == "regression":
            return self._values(options.label)
        if options.time is not None and options.horizon is None:
            return self.times()
        found = self._classes() if options.time is None else self._early(options.horizon)
        _, counts = np.unique(found.y, return_counts=True)
        each = dict(zip(found.class_names, counts.tolist(), strict=True))
        told = ", ".join(f"{name}: {count:,}" for name, count in each.items())
        extra = f"; a high score speaks for {found.class_names[1]}" if len(each) == 2 else ""
        self.output.say(f"classes {told}{extra}")
        classes = {"class_names": found.class_names, "class_counts": each}
        return found._replace(summary=found.summary | classes)

    def _values(self, column: str) -> Found:
        """Find the measurements of a regression."""
        values = self.numbers(column)
        keep = ~np.isnan(values)
        if not keep.any():
            raise TableError(f"no sample of the table has a value in {column!r}; fill some in")
        self.output.say(f"{keep.sum():,} of {len(keep):,} samples have a value in {column!r}")
        return Found(keep, values[keep], [], {"label": column})

    def _classes(self) -> Found:
        """Find classes by the values of one column."""
        column, positive = self.options.label, self.options.positive
        selected = self.select(column, positive=positive, **self.against)
        self.output.say(selected.report)
        y, names = selected.y, list(selected.class_names)
        if positive is None:
            y = _as_classes(y, column)
            names = [str(value) for value in np.unique(y)]
        if len(names) < 2:
            raise TableError(f"every label in {column!r} is {names[0]!r}; two classes are needed")
        return Found(selected.keep, y, names, {"label": column})

    def _early(self, horizon: float) -> Found:
        """Find two classes: event within the horizon, or event-free beyond it."""
        time, event = self.options.time, self.options.event
        labels = survival_labels(*self._events(), horizon)
        self.output.say(f"horizon {horizon:g}: {labels.report}")
        if min(labels.n_event, labels.n_event_free) == 0:
            raise TableError(
                f"at the horizon {horizon:g} there are {labels.n_event} samples with an event and "
                f"{labels.n_event_free} without; both are needed. Choose another, in the unit of {time!r}"
            )
        counts = {"n_censored": labels.n_censored, "n_missing_time_or_event": labels.n_missing}
        summary = {"label": f"{event} within {horizon:g} of {time}", "horizon": horizon, **counts}
        return Found(labels.keep, labels.y, [f"no {event}", event], summary)

    def _events(self) -> tuple[np.ndarray, np.ndarray]:
        """Find times and events, NaN where missing, and tell which words are events."""
        event, value = self.options.event, self.options.event_value
        times, words = self.numbers(self.options.time), self.select(event)
        if value is None:
            events = self.numbers(event, truth=True)
        else:
            chosen = self.select(event, positive=value, **self.against)
            events = np.full(len(self.names), np.nan)
            events[chosen.keep] = chosen.y
        kinds = np.select([events == 1, events == 0], ["an event", "none"], "left out")
        counts = Counter(zip(words.y.tolist(), kinds[words.keep].tolist(), strict=True))
        if not {word for word, _ in counts} <= {"0", "1", 0.0, 1.0}:
            told = [f"{word!r} is {kind} ({n:,})" for (word, kind), n in sorted(counts.items())]
            self.output.say(joined(f"{event}: {', '.join(told)}", words.merged))
        return times, events

    def times(self) -> Found:
        """Find times to event, as a structured array, without classes."""
        time, event, stratum = self.options.time, self.options.event, self.options.strata
        times, events = self._events()
        keep = ~np.isnan(times) & ~np.isnan(events)
        strata = None
        if stratum is not None:
            selected, strata = self.select(stratum), np.full(len(keep), "", dtype=object)
            strata[selected.keep] = selected.y.astype(str)
            keep &= selected.keep
            strata = strata[keep]
        if not keep.any():
            both = f"{time!r} and {event!r}"
            raise TableError(f"no sample of the table has all of {both}; fill some in")
        bad = np.flatnonzero(keep & ~(times >= 0))
        if bad.size:
            first = f"sample {str(self.names[bad[0]])!r} has {times[bad[0]]:g}"
            raise TableError(
                f"{time!r} must hold times, 0 or more; {first}, the first of {bad.size:,} such"
            )
        if not events[keep].any():
            what = "without events no two can be compared"
            raise TableError(f"{event!r} is 0 for all samples: {what}")
        y = as_outcome(np.column_stack([times[keep], events[keep]]), strata)
        n_events, n_missing = int(y["event"].sum()), int((~keep).sum())
        told = "" if strata is None else f" in {len(np.unique(strata))} strata"
        self.output.say(
            f"{event} after {time}: {n_events:,} events, {len(y) - n_events:,} censored{told}; dropped: "
            f"{n_missing:,} with missing time{', stratum' * bool(stratum)} or event"
        )
        summary = {"label": f"time to {event} in {time}", "n_events": n_events}
        summary |= {"n_missing_time_or_event": n_missing} | ({"strata": stratum} if stratum else {})
        return Found(keep, y, [], summary)

    def groups(self, column: str) -> np.ndarray:
        """Find the groups of all samples, as text; refused where one has none."""
        found = self.select(column)
        absent = self.names[~found.keep]
        if len(absent):
            raise TableError(
                f"{len(absent):,} of {len(self.names):,} labelled samples have no group in {column!r}, first "
                f"{str(absent[0])!r}; fill it in, or take their labels away"
            )
        numbers = found.y.dtype.kind == "f" and bool(np.all(found.y == np.round(found.y)))
        groups = (found.y.astype(np.int64) if numbers else found.y).astype(str)
        kinds, counts = np.unique(groups, return_counts=True)
        each = ": " + ", ".join(f"{k} ({n:,})" for k, n in zip(kinds, counts, strict=True))
        told = f"{len(kinds):,} groups in {column!r}{each if len(kinds) <= MOST_CLASSES else ''}"
        self.output.say(joined(told, found.merged))
        return groups

    def say_concordance(self, scores: np.ndarray) -> None:
        """Tell how well the scores of the samples agree with their times."""
        found = self.times()
        value = concordance(found.y, scores[found.keep])
        self.output.say(f"concordance {value:.4f} (Harrell's; 0.5 is chance)", strong=True)
        self.output.keep(concordance=value, n_events=found.summary["n_events"])


def joined(*parts: str) -> str:
    """Join what there is to say."""
    return "; ".join(filter(None, parts))


def _as_classes(y: np.ndarray, column: str) -> np.ndarray:
    """Make labels integers where all are, otherwise text; measurements are refused."""
    try:
        values = y.astype(np.float64)
    except ValueError:
        values = None
    fractions = values is not None and bool(np.any(values != np.round(values)))
    n_classes = len(np.unique(y))
    if fractions or n_classes > max(MOST_CLASSES, len(y) // 2):
        raise TableError(
            f"{column!r} holds {n_classes} different values, which look like measurements or names, not "
            "classes; choose one value with --positive, or give --task regression for measurements"
        )
    if values is not None and np.abs(values).max() < 2**53:
        return values.astype(np.int64)
    return y.astype(str)
