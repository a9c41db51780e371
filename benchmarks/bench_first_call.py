"""How long a newcomer waits: imports, and first calls with an empty Numba cache, on one core.

Every repeat is a fresh process. Imports are not counted in the times of the calls, waiting for the compiler is.
`import numba, sklearn.linear_model` stands beside `import suquan`: a first call needs both. Processor time
stands beside the time: it is less where the machine was busy with something else.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks._table import RESULTS, describe_machine, markdown, write_csv

PACKAGES = ("numpy", "numba", "scikit-learn")
IMPORTS = {
    "import suquan": "suquan",
    "import numba, sklearn.linear_model": "numba, sklearn.linear_model",
}
# Seconds aimed at; each call comes after the ones before, in the same process.
GOALS = {
    "import suquan": 0.1,
    "quantile_normalize, float64": 6.0,
    "then quantile_normalize, float32": 3.0,
    "then SuquanClassifier().fit": 15.0,
}

Seconds = tuple[float, float]  # by the clock, and of the processor


def seconds(function: Callable[[], Any]) -> Seconds:
    start, start_processor = time.perf_counter(), time.process_time()
    function()
    return time.perf_counter() - start, time.process_time() - start_processor


def first_calls() -> dict[str, Seconds]:
    """Times of the first calls of this process."""
    import numpy as np

    from suquan import SuquanClassifier, quantile_normalize

    X = np.random.default_rng(0).standard_normal((100, 200))
    y = X[:, :10].sum(axis=1) > 0
    calls: list[Callable[[], Any]] = [
        lambda: quantile_normalize(X, "mean"),
        lambda: quantile_normalize(X.astype(np.float32), "mean"),
        lambda: SuquanClassifier().fit(X, y),
    ]
    names = list(GOALS)[1:]
    return {name: seconds(call) for name, call in zip(names, calls, strict=True)}


def in_child(command: list[str]) -> Any:
    """What a fresh process with an empty cache prints, as JSON."""
    folder = Path(__file__).parent.parent
    with tempfile.TemporaryDirectory() as cache:
        environment = os.environ | {"NUMBA_CACHE_DIR": cache, "OMP_NUM_THREADS": "1"}
        done = subprocess.run(
            [sys.executable, *command],
            cwd=folder,
            env=environment,
            stdout=subprocess.PIPE,
            text=True,
        )
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed")
    return json.loads(done.stdout.splitlines()[-1])


def time_of_import(modules: str) -> Seconds:
    """Time of importing some modules in a process that has nothing else."""
    lines = (
        "import time, json",
        "start = time.perf_counter(), time.process_time()",
        f"import {modules}",
        "print(json.dumps([time.perf_counter() - start[0], time.process_time() - start[1]]))",
    )
    return in_child(["-c", "\n".join(lines)])


def measure(n_repeats: int) -> list[dict[str, Any]]:
    """One row per figure: the smallest of its repeats against what is aimed at."""
    for modules in IMPORTS.values():
        time_of_import(modules)  # writes bytecode, and brings files to the memory of the system
    found: dict[str, list[Any]] = {}
    for _ in range(n_repeats):
        results = {name: time_of_import(modules) for name, modules in IMPORTS.items()}
        results |= in_child(["-m", "benchmarks.bench_first_call", "--child"])
        for name, result in results.items():
            found.setdefault(name, []).append(result)
    return [
        compare(name, min(by_clock for by_clock, _ in times), min(cpu for _, cpu in times))
        for name, times in found.items()
    ]


def compare(name: str, found: float, processor: float) -> dict[str, Any]:
    """Row of a figure and its goal, if it has one."""
    goal = GOALS.get(name)
    row = {"first call": name, "found, s": found, "processor, s": processor, "goal": ""}
    if goal is not None:
        row |= {"goal": f"≤ {goal:g}", "reached": found <= goal}
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="one repeat; writes no results")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        print(json.dumps(first_calls()))
        return
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    rows = measure(1 if arguments.quick else 3)
    print(markdown(rows))
    if not arguments.quick:
        write_csv(RESULTS / "first_call.csv", rows)
        text = f"{markdown(rows)}\n\n{describe_machine(PACKAGES)}, of which one is used.\n"
        (RESULTS / "first_call-summary.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
