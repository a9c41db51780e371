"""What the benchmark scripts share: an interleaved timer, tables, and a line about the machine."""

from __future__ import annotations

import csv
import os
import platform
import random
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

RESULTS = Path(__file__).parent / "results"


class Timing(NamedTuple):
    """Times of one contender, in seconds."""

    best: float  # the smallest time, of the wall unless another clock was given
    median: float
    share: float  # processor time over wall-clock time of all its runs: below 1 if it had to wait
    n_repeats: int


def interleave(
    contenders: Mapping[str, Callable[[], Any]],
    *,
    n_repeats: int = 7,
    slow_s: float = 0.5,
    n_slow: int = 3,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, Timing]:
    """Time the contenders in turns, one call each per round, after one call that is not counted.

    Whatever slows the machine for a while slows all of them, so their ratios hold. The order changes from round
    to round, so that none always finds the caches as the same other one left them.

    Parameters
    ----------
    contenders : mapping of names to functions without arguments
    n_repeats : int, default=7
        Rounds.
    slow_s, n_slow : float and int, default=0.5 and 3
        Contenders whose first counted call takes longer than `slow_s` leave after `n_slow` rounds.
    clock : function, default=time.perf_counter
        `time.process_time` counts the seconds of all processors, and no others' work.

    Returns
    -------
    dict of names to Timing
    """
    for function in contenders.values():
        function()
    wall: dict[str, list[float]] = {name: [] for name in contenders}
    processor = dict.fromkeys(contenders, 0.0)
    shuffler = random.Random(0)
    for round_ in range(n_repeats):
        for name, function in shuffler.sample(list(contenders.items()), len(contenders)):
            if round_ >= n_slow and wall[name][0] > slow_s:
                continue
            start, start_processor = clock(), time.process_time()
            result = function()
            wall[name].append(clock() - start)
            processor[name] += time.process_time() - start_processor
            del result  # freed outside the timed part, as by a caller who keeps it for a while
    return {
        name: Timing(
            min(times), sorted(times)[len(times) // 2], processor[name] / sum(times), len(times)
        )
        for name, times in wall.items()
    }


def format_cell(value: Any) -> str:
    """Number or text as it stands in a table."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.3g}" if abs(value) < 100 else f"{value:,.0f}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def markdown(rows: Sequence[Mapping[str, Any]]) -> str:
    """Rows of one table in Markdown; the first row gives the columns."""
    columns = list(rows[0])
    body = [[format_cell(row.get(name, "")) for name in columns] for row in rows]
    widths = [max(len(line[k]) for line in [columns, *body]) for k in range(len(columns))]
    numeric = [not isinstance(rows[0][name], str) for name in columns]

    def line(cells: Iterable[str]) -> str:
        padded = (
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(cells, widths, numeric, strict=True)
        )
        return "| " + " | ".join(padded) + " |"

    rule = (
        "-" * (w - 1) + ":" if right else "-" * w for w, right in zip(widths, numeric, strict=True)
    )
    return "\n".join([line(columns), line(rule), *map(line, body)])


def write_csv(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Rows of one table as a CSV file, numbers unrounded."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def describe_machine(packages: Iterable[str]) -> str:
    """Processor and versions, one line."""
    versions = ", ".join(f"{name} {metadata.version(name)}" for name in packages)
    return f"{_processor()}, {os.cpu_count()} cores; Python {platform.python_version()}, {versions}"


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
