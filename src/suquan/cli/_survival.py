"""Times to event in label files: the outcome of Cox's models, and the concordance of scores with it."""

from collections import Counter
from typing import Any

import numpy as np

from suquan.cli._options import OutcomeOptions
from suquan.cli._output import Output
from suquan.io import LabelTable, Table, TableError
from suquan.io import labels as label_files
from suquan.survival import as_outcome, concordance, strata_of

Found = tuple[np.ndarray, np.ndarray, list[str], dict[str, Any]]


def find_events(
    source: LabelTable | Table, names: np.ndarray, options: OutcomeOptions, output: Output
) -> tuple[np.ndarray, np.ndarray]:
    """Find times and events of samples, NaN where missing, and tell which words are events."""
    time, event = str(options.time), str(options.event)
    rules = {"sample_names": names, **options.rules}
    times = label_files.select_numbers(source, time, **rules)
    known = label_files.select_labels(source, event, **rules)
    events = np.full(len(names), np.nan)
    against = options.event_value, options.negative or (), options.negative_rest
    events[known.keep] = label_files.as_events(f"{event!r}", known.y, (), *against)
    kinds = np.select([events == 1, events == 0], ["an event", "none"], "left out")[known.keep]
    counts = Counter(zip(known.y.tolist(), kinds.tolist(), strict=True))
    if not {word for word, _ in counts} <= {"0", "1", 0.0, 1.0}:
        told = [f"{word!r} is {kind} ({n:,})" for (word, kind), n in sorted(counts.items())]
        output.say("; ".join(filter(None, [f"{event}: {', '.join(told)}", known.merged])))
    return times, events


def find_times(
    source: LabelTable | Table, names: np.ndarray, options: OutcomeOptions, output: Output
) -> Found:
    """Find samples with time and event, these as a structured array, no classes, and what to record."""
    time, event, stratum = str(options.time), str(options.event), options.strata
    times, events = find_events(source, names, options, output)
    keep = ~np.isnan(times) & ~np.isnan(events)
    strata = None
    if stratum is not None:
        selected = label_files.select_labels(source, stratum, sample_names=names, **options.rules)
        words = np.full(len(names), "", dtype=object)
        words[selected.keep] = selected.y.astype(str)
        keep &= selected.keep
        strata = words[keep]
    if not keep.any():
        raise TableError(f"no sample of the table has all of {time!r} and {event!r}; fill some in")
    bad = np.flatnonzero(keep & ~(times >= 0))
    if bad.size:
        first = f"sample {str(names[bad[0]])!r} has {times[bad[0]]:g}"
        raise TableError(
            f"{time!r} must hold times, 0 or more; {first}, the first of {bad.size:,} such"
        )
    if not events[keep].any():
        raise TableError(f"{event!r} is 0 for all samples: without events no two can be compared")
    outcome = as_outcome(np.column_stack([times[keep], events[keep]]), strata)
    n_events, n_strata = int(outcome["event"].sum()), len(np.unique(strata_of(outcome)))
    told = f" in {n_strata} strata" if stratum else ""
    output.say(
        f"{event} after {time}: {n_events:,} events, {keep.sum() - n_events:,} censored{told}; dropped: "
        f"{(~keep).sum():,} with missing time{', stratum' * bool(stratum)} or event"
    )
    summary = {
        "label": f"time to {event} in {time}",
        "n_events": n_events,
        "n_missing_time_or_event": int((~keep).sum()),
    }
    return keep, outcome, [], summary | ({"strata": stratum} if stratum else {})


def say_concordance(
    source: LabelTable | Table,
    scores: dict[str, float],
    options: OutcomeOptions,
    output: Output,
) -> None:
    """Tell how well the scores of samples, by name, agree with their times."""
    names = np.array(list(scores))
    keep, outcome, _, _ = find_times(source, names, options, output)
    try:
        value = concordance(outcome, np.array(list(scores.values()))[keep])
    except ValueError as error:
        raise TableError(str(error)) from None
    output.say(f"concordance {value:.4f} (Harrell's; 0.5 is chance)", strong=True)
    output.keep(concordance=value, n_events=int(outcome["event"].sum()))
