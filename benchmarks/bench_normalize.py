"""Quantile normalisation: time on four kinds of values against other programs, threads, long rows, memory.

Every part runs in processes of its own. Contenders are called in turns; a time is the smallest of its
repeats, and a ratio compares times of the same process. NumPy's AVX-512 sort is slower than its AVX2 one on
some processors, so times against other programs are taken with NumPy's default dispatch and with AVX-512 off,
and the smaller ratio is claimed.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numba
import numpy as np

from benchmarks import _peers
from benchmarks._table import RESULTS, describe_machine, interleave, markdown, write_csv
from suquan import quantile_normalize

SHAPES = ((225, 22_283), (10_000, 1_024), (2_000, 1_000))
QUICK_SHAPES = ((20, 2_000), (100, 200))
DTYPES = ("float64", "float32")
KINDS = ("normal", "lognormal", "counts", "grey values")
SETTINGS = {"default": "", "AVX-512 off": "X86_V4 AVX512_ICL"}
PACKAGES = ("numpy", "numba", "qnorm", "scikit-image", "pandas", "scikit-learn")
# Values on which the slow peers are timed; their time is proportional to the rows and is scaled up.
VALUES_OF_SLOW = {"scikit-image": 1_000_000, "scikit-learn": 300_000}
# Of the arithmetic that shows what a second core has to give: a few milliseconds.
N_STEPS = 2_000_000
Row = dict[str, Any]


def make_samples(kind: str, shape: tuple[int, int], dtype: str) -> np.ndarray:
    """Samples of one of the KINDS; counts are negative binomial with r = 0.3 and mean 30."""
    rng = np.random.default_rng(0)
    if kind == "counts":
        return rng.negative_binomial(0.3, 0.3 / 30.3, shape).astype(dtype)
    if kind == "grey values":
        return rng.integers(0, 256, shape).astype(dtype)
    noise = rng.standard_normal(shape)
    return (np.exp(1.5 * noise) if kind == "lognormal" else noise).astype(dtype)


# Measurements; each of these runs in a process of its own and returns plain rows.


def measure_kinds(quick: bool) -> list[Row]:
    """One thread against qnorm in the better of both memory layouts, on every kind of values."""
    import qnorm

    rows = []
    for shape in QUICK_SHAPES if quick else SHAPES:
        for dtype in DTYPES:
            calls: dict[Any, Callable[[], Any]] = {}
            for kind in KINDS:
                X = make_samples(kind, shape, dtype)
                columns = np.ascontiguousarray(X.T)
                calls[kind, "suquan"] = partial(quantile_normalize, X, "mean", n_jobs=1)
                calls[kind, "rows"] = partial(qnorm.quantile_normalize, X, axis=0)
                calls[kind, "columns"] = partial(qnorm.quantile_normalize, columns, axis=1)
                check_agreement(calls[kind, "suquan"](), calls[kind, "rows"](), f"{kind} {shape}")
            times = interleave(calls, n_repeats=3 if quick else 9)
            per_value = 1e9 / (shape[0] * shape[1])
            ours = {kind: per_value * times[kind, "suquan"].best for kind in KINDS}
            for kind in KINDS:
                layouts = (times[kind, "rows"].best, times[kind, "columns"].best)
                rows.append(
                    {
                        "n × p": f"{shape[0]:,} × {shape[1]:,}",
                        "type": dtype,
                        "values": kind,
                        "suquan, ns": ours[kind],
                        "qnorm, ns": per_value * min(layouts),
                        "qnorm / suquan": per_value * min(layouts) / ours[kind],
                        "× fastest values": ours[kind] / min(ours.values()),
                        "processor share": times[kind, "suquan"].share,
                    }
                )
    return rows


def check_agreement(ours: np.ndarray, theirs: np.ndarray, what: str) -> None:
    """Stop unless both programs give the same."""
    gap = np.max(np.abs(theirs - ours) / (1.0 + np.abs(ours)))
    if not gap <= (1e-9 if ours.dtype == np.float64 else 1e-5):
        raise SystemExit(f"{what}: the programs differ by {gap:.2g}")


def measure_others(quick: bool) -> list[Row]:
    """Programs that have another rule for ties, or none, on normal values in float64."""
    import pandas as pd

    rows = []
    for shape in QUICK_SHAPES if quick else SHAPES:
        X = make_samples("normal", shape, "float64")
        target = np.sort(X, axis=1).mean(axis=0)
        few = {name: X[: max(1, size // X.shape[1])] for name, size in VALUES_OF_SLOW.items()}
        upright = np.asfortranarray(few["scikit-learn"].T)
        calls: dict[str, Callable[[], Any]] = {
            "suquan": partial(quantile_normalize, X, "mean", n_jobs=1),
            "NumPy": partial(_peers.numpy_argsort, X),
            "pandas": partial(_peers.pandas_rank, pd.DataFrame(X.T)),
            "scikit-image": partial(_peers.skimage_match_rows, few["scikit-image"], target),
            "scikit-learn": partial(_peers.sklearn_transposed, upright),
        }
        ours = calls["suquan"]()
        for name in ("NumPy", "pandas", "scikit-image"):
            check_agreement(ours[: len(few.get(name, X))], calls[name](), f"{name} {shape}")
        times = interleave(calls, n_repeats=3 if quick else 7)
        row: Row = {
            "n × p": f"{shape[0]:,} × {shape[1]:,}",
            "suquan, ms": 1e3 * times["suquan"].best,
        }
        for name in list(calls)[1:]:
            scale = len(X) / len(few.get(name, X))
            row[f"{name} / suquan"] = scale * times[name].best / times["suquan"].best
        rows.append(row)
    return rows


@numba.njit(nogil=True)
def arithmetic(n_steps: int) -> float:
    """Work that needs no memory, some nanoseconds per step."""
    value = 1.0
    for _ in range(n_steps):
        value = 0.999 * value + 0.002
    return value


def measure_threads(quick: bool) -> list[Row]:
    """One thread and two, in turns with arithmetic that shares nothing: what the second core has to give."""
    calls: dict[Any, Callable[[], Any]] = {}
    for shape in QUICK_SHAPES if quick else SHAPES[:2]:
        for dtype in DTYPES:
            X = make_samples("normal", shape, dtype)
            for n in (1, 2):
                calls[shape, dtype, n] = partial(quantile_normalize, X, "mean", n_jobs=n)
    with ThreadPoolExecutor(2) as threads:
        steps = (N_STEPS, N_STEPS)
        calls["arithmetic", 1] = lambda: list(map(arithmetic, steps))
        calls["arithmetic", 2] = lambda: list(threads.map(arithmetic, steps))
        times = interleave(calls, n_repeats=3 if quick else 60)
    gain = times["arithmetic", 1].best / times["arithmetic", 2].best
    return [
        {
            "n × p": f"{shape[0]:,} × {shape[1]:,}",
            "type": dtype,
            "1 thread, ms": 1e3 * times[shape, dtype, 1].best,
            "2 threads, ms": 1e3 * times[shape, dtype, 2].best,
            "gain": times[shape, dtype, 1].best / times[shape, dtype, 2].best,
            "gain of arithmetic": gain,
        }
        for shape, dtype in dict.fromkeys(key[:2] for key in calls if len(key) == 3)
    ]


def measure_size(quick: bool) -> list[Row]:
    """Time per value as rows grow longer, at four million values."""
    total = 40_000 if quick else 4_000_000
    lengths = (100, 1_000) if quick else (10**4, 10**5, 10**6)
    rows = []
    for dtype in DTYPES:
        data = {p: make_samples("normal", (total // p, p), dtype) for p in lengths}
        calls = {p: partial(quantile_normalize, X, "mean", n_jobs=1) for p, X in data.items()}
        times = interleave(calls, n_repeats=3 if quick else 15)
        for p in lengths:
            ratio = times[p].best / times[lengths[0]].best
            ns = 1e9 * times[p].best / total
            rows.append({"type": dtype, "p": p, "ns per value": ns, "× first": ratio})
    return rows


def measure_memory(target: str, quick: bool) -> list[Row]:
    """Peak memory of one call beyond its input and output, as a part of the output; Linux only."""
    X = make_samples("normal", (400, 1_000) if quick else (2_000, 10_000), "float64")
    call = partial(quantile_normalize, target_quantiles=target, n_jobs=2)
    call(X[:300, :500].copy())  # compiles, and starts what is started once
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # forget the peak so far
    before = memory_kib("VmRSS")
    out = call(X)
    extra = 1024 * (memory_kib("VmHWM") - before) - out.nbytes
    return [{"target": target, "extra, × output": max(extra, 0) / out.nbytes}]


def memory_kib(field: str) -> int:
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(field + ":"))


TARGETS = ("mean", "median", "normal")
MEASURES: dict[str, Callable[[bool], list[Row]]] = {
    "kinds": measure_kinds,
    "others": measure_others,
    "threads": measure_threads,
    "size": measure_size,
} | {f"memory:{target}": partial(measure_memory, target) for target in TARGETS}


# The parent: starts the measurements and makes tables of their rows.


def in_child(measure: str, setting: str, quick: bool) -> list[Row]:
    """Rows of one measurement, made in a new process under a setting of NumPy's dispatch."""
    environment = dict(os.environ)
    environment.pop("NPY_DISABLE_CPU_FEATURES", None)
    if SETTINGS[setting]:
        environment["NPY_DISABLE_CPU_FEATURES"] = SETTINGS[setting]
    command = [sys.executable, "-m", "benchmarks.bench_normalize", "--child", measure]
    command += ["--quick"] if quick else []
    folder = Path(__file__).parent.parent
    done = subprocess.run(command, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        raise SystemExit(f"{measure} failed")
    return json.loads(done.stdout.splitlines()[-1])


def in_both_settings(measure: str, quick: bool) -> list[Row]:
    return [
        {"NumPy dispatch": setting, **row}
        for setting in SETTINGS
        for row in in_child(measure, setting, quick)
    ]


def run_memory(quick: bool) -> list[Row]:
    return [row for target in TARGETS for row in in_child(f"memory:{target}", "default", quick)]


RUNS: dict[str, Callable[[bool], list[Row]]] = {
    "kinds": partial(in_both_settings, "kinds"),
    "others": partial(in_both_settings, "others"),
    "threads": partial(in_child, "threads", "default"),
    "size": partial(in_child, "size", "default"),
    "memory": run_memory,
}

TITLES = {
    "kinds": "Mean target, one thread, on four kinds of values, against qnorm",
    "others": "Mean target, one thread, normal values in float64, against programs with other rules for ties",
    "threads": "One thread and two, in turns with arithmetic that shares nothing",
    "size": "Time per value as rows grow longer (mean target, one thread)",
    "memory": "Peak memory beyond input and output, as a part of the output (float64, two threads)",
}


def smaller_ratios(rows: list[Row]) -> list[Row]:
    """One line per shape, type and kind of values, with the smaller ratio of both settings."""
    lines: dict[tuple, Row] = {}
    for row in rows:
        line = {name: value for name, value in row.items() if name != "NumPy dispatch"}
        key = (row["n × p"], row.get("type"), row.get("values"))
        known = lines.setdefault(key, line)
        for name in line:
            if "/ suquan" in name:
                known[name] = min(known[name], line[name])
            elif name == "× fastest values":
                known[name] = max(known[name], line[name])
    return list(lines.values())


def compare_with_goals(tables: dict[str, list[Row]]) -> list[Row]:
    """The figures aimed at, and the worst found."""
    lines = smaller_ratios(tables["kinds"])
    first = lines[0]["n × p"]
    few_values = ("counts", "grey values")
    easy = [row for row in lines if row["n × p"] == first and row["values"] in few_values]
    least = {
        "times qnorm": (3.0, [row["qnorm / suquan"] for row in lines if row not in easy]),
        f"times qnorm, counts and grey values at {first}": (
            2.3,
            [row["qnorm / suquan"] for row in easy],
        ),
        "two threads, times one": (1.6, [row["gain"] for row in tables["threads"]]),
    }
    ends = [row["× first"] for row in tables["size"]]
    most = {
        "slowest over fastest values": (1.7, [row["× fastest values"] for row in lines]),
        "time per value at p = 10⁶ over that at 10⁴": (4.0, ends),
    }
    return [
        {"figure": name, "goal": f"≥ {goal}", "worst": min(found), "reached": min(found) >= goal}
        for name, (goal, found) in least.items()
    ] + [
        {"figure": name, "goal": f"≤ {goal}", "worst": max(found), "reached": max(found) <= goal}
        for name, (goal, found) in most.items()
    ]


NOTES = f"""\
Times of one call on arrays in memory, one thread, mean target; a ratio says how many times as long the other
program takes, with NumPy's default dispatch or with AVX-512 off
(`NPY_DISABLE_CPU_FEATURES="{SETTINGS["AVX-512 off"]}"`), whichever is smaller. qnorm gets the better of both
memory layouts. Counts are negative binomial (r = 0.3, mean 30), lognormal values have σ = 1.5. scikit-image is
given the target; it and scikit-learn's transformer, which is feature-wise, are timed on some rows, scaled up.
Only qnorm has the same rule for ties. The second core of a shared machine is not always there: arithmetic that
shares nothing gained what its column says."""


def write_results(tables: dict[str, list[Row]]) -> None:
    """CSV files, one page with all tables, and the summary."""
    machine = f"{describe_machine(PACKAGES)}."
    for name, rows in tables.items():
        write_csv(RESULTS / f"normalize-{name}.csv", rows)
    if tables.keys() != RUNS.keys():
        return
    details = [f"## {TITLES[name]}\n\n{markdown(rows)}" for name, rows in tables.items()]
    page = ["# Quantile normalisation", __doc__.partition("\n\n")[2].strip(), machine, *details]
    (RESULTS / "normalize.md").write_text("\n\n".join(page) + "\n", encoding="utf-8")
    shown = [smaller_ratios(tables["kinds"]), smaller_ratios(tables["others"]), tables["threads"]]
    summary = [*map(markdown, shown), NOTES, markdown(compare_with_goals(tables)), machine]
    (RESULTS / "normalize-summary.md").write_text("\n\n".join(summary) + "\n", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small data; writes no results")
    parser.add_argument("--only", nargs="+", choices=RUNS, default=list(RUNS), help="parts to run")
    parser.add_argument("--child", choices=MEASURES, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        print(json.dumps(MEASURES[arguments.child](arguments.quick)))
        return
    tables = {}
    for name in arguments.only:
        tables[name] = RUNS[name](arguments.quick)
        print(f"\n{TITLES[name]}\n\n{markdown(tables[name])}\n", flush=True)
    if tables.keys() == RUNS.keys():
        print(f"Goals\n\n{markdown(compare_with_goals(tables))}\n")
    if not arguments.quick:
        write_results(tables)
        print("written to benchmarks/results")


if __name__ == "__main__":
    main()
