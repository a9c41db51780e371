"""Times to event in label files: the outcome of Cox's models, and the concordance of scores with it."""

from typing import Any

import numpy as np

from suquan.cli._output import Output
from suquan.io import LabelTable, Table, TableError
from suquan.io import labels as label_files
from suquan.survival import as_outcome, concordance, strata_of

Found = tuple[np.ndarray, np.ndarray, list[str], dict[str, Any]]


def find_times(
    source: LabelTable | Table,
    names: np.ndarray,
    columns: tuple[str, str, str | None],
    output: Output,
) -> Found:
    """Samples with time, event and stratum, these as a structured array, no classes, and what to record.

    Parameters
    ----------
    source : LabelTable or Table
    names : ndarray of str
        Samples of the table.
    columns : tuple of str
        Of the time, of the event, and of the stratum, or None.
    output : Output
    """
    time, event, stratum = columns
    times = label_files.select_numbers(source, time, sample_names=names)
    events = label_files.select_numbers(source, event, sample_names=names, truth=True)
    keep = ~np.isnan(times) & ~np.isnan(events)
    strata = None
    if stratum is not None:
        selected = label_files.select_labels(source, stratum, sample_names=names)
        words = np.full(len(names), "", dtype=object)
        words[selected.keep] = selected.y.astype(str)
        keep &= selected.keep
        strata = words[keep]
    if not keep.any():
        raise TableError(
            f"no sample of the table has all of {time!r} and {event!r}; check the names"
        )
    for column, values, good, wanted in (
        (time, times, (times >= 0) & (times < np.inf), "times, 0 or more"),
        (event, events, np.isin(events, (0, 1)), "1 or true for an event, else 0 or false"),
    ):
        bad = np.flatnonzero(keep & ~good)
        if bad.size:
            first = f"sample {str(names[bad[0]])!r} has {values[bad[0]]:g}"
            raise TableError(
                f"{column!r} must hold {wanted}; {first}, the first of {bad.size:,} such"
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
    columns: tuple[str, str, str | None],
    output: Output,
) -> None:
    """Tell how well the scores of samples, by name, agree with their times."""
    names = np.array(list(scores))
    keep, outcome, _, _ = find_times(source, names, columns, output)
    try:
        value = concordance(outcome, np.array(list(scores.values()))[keep])
    except ValueError as error:
        raise TableError(str(error)) from None
    output.say(f"concordance {value:.4f} (Harrell's; 0.5 is chance)", strong=True)
    output.keep(concordance=value, n_events=int(outcome["event"].sum()))
