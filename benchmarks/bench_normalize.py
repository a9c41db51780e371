"""Quantile normalisation and ranking: time and memory, against other programs and against the easy case.

Every part runs in processes of its own. Contenders are called in turns; a time is the smallest of its
repeats, and a ratio compares times of the same process. NumPy's AVX-512 sort is slower than its AVX2 one on
some processors, so all is run with NumPy's default dispatch and with AVX-512 off, and the smaller
ratio is claimed.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numba
import numpy as np

from benchmarks import _peers
from benchmarks._table import RESULTS, describe_machine, interleave, markdown, write_csv
from suquan import quantile_normalize, rank_samples

SHAPES = ((225, 22_283), (10_000, 1_024), (2_000, 1_000))
QUICK_SHAPES = ((20, 2_000), (100, 200))
DTYPES = ("float64", "float32")
SETTINGS = {"default": "", "AVX-512 off": "X86_V4 AVX512_ICL"}
PACKAGES = ("numpy", "numba", "qnorm", "scikit-image", "pandas", "scikit-learn")
# Values on which the slow peers are timed; their time is proportional to the rows and is scaled up.
VALUES_OF_SLOW = {"scikit-image": 1_000_000, "scikit-learn": 300_000}
# Of the arithmetic that shows what a second core has to give: a few milliseconds.
N_STEPS = 2_000_000
Row = dict[str, Any]


def shapes(quick: bool) -> tuple[tuple[int, int], ...]:
    return QUICK_SHAPES if quick else SHAPES


def cases(quick: bool) -> Iterator[tuple[str, str, np.ndarray]]:
    """Name of the shape, type, and normal samples."""
    for n_samples, n_features in shapes(quick):
        for dtype in DTYPES:
            X = np.random.default_rng(0).standard_normal((n_samples, n_features)).astype(dtype)
            yield f"{n_samples:,} × {n_features:,}", dtype, X


# Measurements; each of these runs in a process of its own and returns plain rows.


def peer_calls(X: np.ndarray) -> dict[str, tuple[Callable[[], Any], int]]:
    """Calls of the other programs on their own best memory layout, and the rows each of them gets."""
    import pandas as pd
    import qnorm

    columns = np.ascontiguousarray(X.T)
    target = np.sort(X, axis=1).mean(axis=0, dtype=np.float64)
    few = {name: X[: max(1, size // X.shape[1])] for name, size in VALUES_OF_SLOW.items()}
    frame = pd.DataFrame(X.T)
    upright = np.asfortranarray(few["scikit-learn"].T)
    calls: dict[str, tuple[Callable[[], Any], int]] = {}
    for n_threads in (1, 2):
        on_rows = partial(qnorm.quantile_normalize, X, axis=0, ncpus=n_threads)
        on_columns = partial(qnorm.quantile_normalize, columns, axis=1, ncpus=n_threads)
        calls[f"qnorm/rows/{n_threads}"] = on_rows, len(X)
        calls[f"qnorm/columns/{n_threads}"] = on_columns, len(X)
    calls["scikit-image"] = (
        partial(_peers.skimage_match_rows, few["scikit-image"], target),
        len(few["scikit-image"]),
    )
    calls["pandas"] = partial(_peers.pandas_rank, frame), len(X)
    calls["scikit-learn"] = partial(_peers.sklearn_transposed, upright), upright.shape[1]
    calls["NumPy"] = partial(_peers.numpy_argsort, X), len(X)
    return calls


def check_agreement(X: np.ndarray, calls: dict[str, tuple[Callable[[], Any], int]]) -> None:
    """Stop unless all programs give what ours gives; only qnorm has our rule where values tie."""
    tolerance = 1e-9 if X.dtype == np.float64 else 1e-5
    untied = ~tied_values(X)
    for name, (call, n_rows) in calls.items():
        # scikit-learn learned its target from the rows it got; the others' is that of all rows.
        ours = quantile_normalize(X[:n_rows] if name == "scikit-learn" else X, "mean")[:n_rows]
        theirs = call()
        theirs = theirs.T if "columns" in name else theirs
        gaps = np.abs(theirs - ours)
        if not name.startswith("qnorm"):
            gaps = gaps[untied[:n_rows]]
        # scikit-learn interpolates between values, and loses digits where two of them nearly tie.
        gap = float(np.quantile(gaps, 0.99) if name == "scikit-learn" else np.max(gaps))
        if not gap <= tolerance:
            raise SystemExit(f"{name} and suquan differ by {gap:.2g} on {X.shape} {X.dtype}")


def tied_values(X: np.ndarray) -> np.ndarray:
    """Where a value occurs more than once in its row; normal float32 values sometimes do."""
    order = np.argsort(X, axis=1)
    equal = np.diff(np.take_along_axis(X, order, axis=1), axis=1) == 0
    in_order = np.pad(equal, ((0, 0), (1, 0))) | np.pad(equal, ((0, 0), (0, 1)))
    tied = np.empty(X.shape, bool)
    np.put_along_axis(tied, order, in_order, axis=1)
    return tied


def measure_whole(quick: bool) -> list[Row]:
    rows = []
    for shape, dtype, X in cases(quick):
        print(f"  {shape} {dtype}", file=sys.stderr, flush=True)
        calls = peer_calls(X)
        check_agreement(X, calls)
        ours = {
            f"suquan/{n}": (partial(quantile_normalize, X, "mean", n_jobs=n), len(X))
            for n in (1, 2)
        }
        calls = ours | calls
        times = interleave({k: call for k, (call, _) in calls.items()}, n_repeats=3 if quick else 9)
        for name, timing in times.items():
            n_rows = calls[name][1]
            rows.append(
                {
                    "shape": shape,
                    "dtype": dtype,
                    "program": name.partition("/")[0],
                    "threads": 2 if name.endswith("/2") else 1,
                    "layout": name.split("/")[1] if name.count("/") == 2 else "",
                    "rows timed": n_rows,
                    "ms": 1e3 * timing.best * len(X) / n_rows,
                    "ns per element": 1e9 * timing.best / (n_rows * X.shape[1]),
                    "processor share": timing.share,
                }
            )
    return rows


def measure_ranking(quick: bool) -> list[Row]:
    rows = []
    for shape, dtype, X in cases(quick):
        times = interleave(
            {"suquan": partial(rank_samples, X), "argsort": partial(np.argsort, X, axis=1)},
            n_repeats=3 if quick else 15,
        )
        ns = {name: 1e9 * timing.best / X.size for name, timing in times.items()}
        rows.append({"shape": shape, "dtype": dtype, **ns, "ratio": ns["argsort"] / ns["suquan"]})
    return rows


@numba.njit(nogil=True)
def arithmetic(n_steps: int) -> float:
    """Work that needs no memory, some nanoseconds per step."""
    value = 1.0
    for _ in range(n_steps):
        value = 0.999 * value + 0.002
    return value


def measure_threads(quick: bool) -> list[Row]:
    """One thread and two, in turns with arithmetic that shares nothing: what the second core has to give.

    All shapes are called in turns too: the machine may be slow for longer than it takes to time one of them.
    """
    data = {(shape, dtype): X for shape, dtype, X in cases(quick)}
    calls: dict[Any, Callable[[], Any]] = {
        (case, n): partial(quantile_normalize, X, "mean", n_jobs=n)
        for case, X in data.items()
        for n in (1, 2)
    }
    with ThreadPoolExecutor(2) as threads:
        calls["arithmetic", 1] = lambda: [arithmetic(N_STEPS) for _ in range(2)]
        calls["arithmetic", 2] = lambda: [
            done.result() for done in [threads.submit(arithmetic, N_STEPS) for _ in range(2)]
        ]
        times = interleave(calls, n_repeats=3 if quick else 200)
    plain_one, plain_two = times["arithmetic", 1], times["arithmetic", 2]
    rows = []
    for shape, dtype in data:
        one, two = times[(shape, dtype), 1], times[(shape, dtype), 2]
        rows.append(
            {
                "shape": shape,
                "dtype": dtype,
                "1 thread, ms": 1e3 * one.best,
                "2 threads, ms": 1e3 * two.best,
                "gain": one.best / two.best,
                "gain of arithmetic": plain_one.best / plain_two.best,
                "median gain": one.median / two.median,
                "of arithmetic": plain_one.median / plain_two.median,
            }
        )
    return rows


def samples_of_kind(kind: str, shape: tuple[int, int], dtype: str) -> np.ndarray:
    rng = np.random.default_rng(1)
    noise = rng.standard_normal(shape)
    if kind == "60% zeros":
        noise[rng.uniform(size=shape) < 0.6] = 0.0
    elif kind == "nearly equal":  # a float32 near 1 cannot hold less than 1e-7
        noise = 1.0 + (1e-9 if dtype == "float64" else 1e-6) * noise
    elif kind == "cauchy":
        noise = rng.standard_cauchy(shape)
    elif kind == "lognormal":
        noise = np.exp(noise)
    elif kind == "counts":
        noise = np.floor(np.exp(2.0 + noise))
    return noise.astype(dtype)


KINDS = ("normal", "60% zeros", "nearly equal", "lognormal", "cauchy", "counts")


def measure_kinds(quick: bool) -> list[Row]:
    rows = []
    for n_samples, n_features in shapes(quick):
        for dtype in DTYPES:
            data = {kind: samples_of_kind(kind, (n_samples, n_features), dtype) for kind in KINDS}
            whole = {f"whole/{k}": partial(quantile_normalize, X, "mean") for k, X in data.items()}
            ranking = {f"ranking/{k}": partial(rank_samples, X) for k, X in data.items()}
            times = interleave(whole | ranking, n_repeats=3 if quick else 9)
            rows += [
                {
                    "shape": f"{n_samples:,} × {n_features:,}",
                    "dtype": dtype,
                    "samples": kind,
                    "whole job, ns": 1e9 * times[f"whole/{kind}"].best / X.size,
                    "whole job, × easy": times[f"whole/{kind}"].best / times["whole/normal"].best,
                    "ranking, ns": 1e9 * times[f"ranking/{kind}"].best / X.size,
                    "ranking, × easy": times[f"ranking/{kind}"].best / times["ranking/normal"].best,
                }
                for kind, X in data.items()
            ]
    return rows


def measure_size(quick: bool) -> list[Row]:
    """Time per element over n at p = 1,000, and over p at four million values."""
    total = 40_000 if quick else 4_000_000
    by_n = (
        [(n, 100) for n in (100, 400)]
        if quick
        else [(n, 1_000) for n in (250, 1_000, 4_000, 16_000)]
    )
    by_p = [(total // p, p) for p in ((100, 1_000) if quick else (10**3, 10**4, 10**5, 10**6))]
    rows = []
    for axis, grid in (("n", by_n), ("p", by_p)):
        rng = np.random.default_rng(2)
        data = {shape: rng.standard_normal(shape) for shape in grid}
        calls = {f"{n}/{p}": partial(quantile_normalize, X, "mean") for (n, p), X in data.items()}
        times = interleave(calls, n_repeats=3 if quick else 25)
        ns = {
            shape: 1e9 * times[f"{shape[0]}/{shape[1]}"].best / X.size for shape, X in data.items()
        }
        first = grid[0]
        rows += [
            {
                "grows": axis,
                "n": n,
                "p": p,
                "ns per element": ns[n, p],
                "× first": ns[n, p] / ns[first],
                "log p, × first": float(np.log(p) / np.log(first[1])),
            }
            for n, p in grid
        ]
    return rows


def memory_of(name: str, quick: bool) -> list[Row]:
    """Peak memory of one call beyond its input and output, as a part of the output; Linux only."""
    shape = (400, 1_000) if quick else (2_000, 10_000)
    X = np.random.default_rng(3).standard_normal(shape)
    program, _, target = name.partition("/")
    if program == "qnorm":
        import qnorm

        call = partial(qnorm.quantile_normalize, axis=0)
    elif program == "NumPy":
        call = _peers.numpy_argsort
    else:
        call = partial(quantile_normalize, target_quantiles=target, n_jobs=2)
    call(X[:300, :500].copy())  # compiles, and starts what is started once
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # forget the peak so far
    before = memory_kib("VmRSS")
    out = call(X)
    extra = 1024 * (memory_kib("VmHWM") - before) - out.nbytes
    return [{"program": program, "target": target, "extra, × output": max(extra, 0) / out.nbytes}]


def memory_kib(field: str) -> int:
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(field + ":"))


MEMORY = ("suquan/mean", "suquan/median", "suquan/normal", "qnorm/mean", "NumPy/mean")
MEASURES: dict[str, Callable[[bool], list[Row]]] = {
    "whole": measure_whole,
    "threads": measure_threads,
    "ranking": measure_ranking,
    "kinds": measure_kinds,
    "size": measure_size,
} | {f"memory:{name}": partial(memory_of, name) for name in MEMORY}


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


def check_dispatch() -> None:
    """Stop if NumPy was told to do without AVX-512 and has it."""
    from numpy._core._multiarray_umath import __cpu_features__

    for name in os.environ.get("NPY_DISABLE_CPU_FEATURES", "").split():
        if __cpu_features__.get(name, False):
            raise SystemExit(f"NPY_DISABLE_CPU_FEATURES did not turn {name} off")


def run_whole(quick: bool) -> list[Row]:
    """All times of the whole job, each with its ratio to ours at the same number of threads."""
    rows = []
    for setting in SETTINGS:
        found = in_child("whole", setting, quick)
        ours = {
            (r["shape"], r["dtype"], r["threads"]): r["ms"]
            for r in found
            if r["program"] == "suquan"
        }
        for row in found:
            ratio = row["ms"] / ours[row["shape"], row["dtype"], row["threads"]]
            rows.append({"NumPy dispatch": setting, **row, "time / ours": ratio})
    return rows


def run_ranking(quick: bool) -> list[Row]:
    return [
        {"NumPy dispatch": setting, **row}
        for setting in SETTINGS
        for row in in_child("ranking", setting, quick)
    ]


def run_memory(quick: bool) -> list[Row]:
    return [row for name in MEMORY for row in in_child(f"memory:{name}", "default", quick)]


RUNS: dict[str, Callable[[bool], list[Row]]] = {
    "whole": run_whole,
    "threads": partial(in_child, "threads", "default"),
    "ranking": run_ranking,
    "kinds": partial(in_child, "kinds", "default"),
    "size": partial(in_child, "size", "default"),
    "memory": run_memory,
}

TITLES = {
    "whole": "Whole job, mean target, every program and setting",
    "threads": "One thread and two, the best of 100 calls in turns with arithmetic that shares nothing",
    "ranking": "Ranking alone, ns per element: `rank_samples` (ranks and order) against `np.argsort` (order)",
    "kinds": "Harder samples, time against that of normal ones",
    "size": "Time per element as the data grow (mean target, float64, one thread)",
    "memory": "Peak memory beyond input and output, as a part of the output (float64, two threads)",
}


def select(rows: list[Row], **where: Any) -> list[Row]:
    return [row for row in rows if all(row[key] == value for key, value in where.items())]


def claimed_ratio(rows: list[Row], **where: Any) -> float:
    """Smaller of the settings' ratios of a program's best time to ours."""
    return min(row["time / ours"] for row in select(rows, **where))


def compare_programs(rows: list[Row]) -> list[Row]:
    """One line per shape and type: our time, and how many times as long the others take."""
    lines = []
    for shape, dtype in dict.fromkeys((row["shape"], row["dtype"]) for row in rows):
        where = {"shape": shape, "dtype": dtype}
        ours = select(rows, program="suquan", threads=1, **where)
        line = {"n × p": shape, "type": dtype, "suquan, ms": min(row["ms"] for row in ours)}
        for program in ("qnorm", "NumPy", "pandas", "scikit-image", "scikit-learn"):
            line[program] = claimed_ratio(rows, program=program, threads=1, **where)
        line["qnorm, 2 threads each"] = claimed_ratio(rows, program="qnorm", threads=2, **where)
        lines.append(line)
    return lines


def compare_with_goals(tables: dict[str, list[Row]]) -> list[Row]:
    """The figures aimed at, and the worst and best found over all shapes."""
    whole, kinds, memory = tables["whole"], tables["kinds"], tables["memory"]
    lines = compare_programs(whole)
    found = {
        f"times qnorm, {dtype}": (low, [line["qnorm"] for line in lines if line["type"] == dtype])
        for dtype, low in (("float64", 4.0), ("float32", 5.0))
    }
    found["ranking alone, times `np.argsort`"] = (
        3.0,
        [row["ratio"] for row in select(tables["ranking"], **{"NumPy dispatch": "default"})],
    )
    found["two threads, times one"] = 1.7, [row["gain"] for row in tables["threads"]]
    goals = [
        {"figure": name, "goal": f"≥ {low}", "worst": min(values), "best": max(values)}
        | {"reached": min(values) >= low}
        for name, (low, values) in found.items()
    ]
    hard = {
        f"{kind}, times the easy case": (
            2.5,
            [r["whole job, × easy"] for r in select(kinds, samples=kind)],
        )
        for kind in ("60% zeros", "nearly equal")
    }
    ours = select(memory, program="suquan", target="mean")
    hard["memory beyond input and output, × output"] = 0.25, [r["extra, × output"] for r in ours]
    by_n, by_p = (select(tables["size"], grows=axis)[1:] for axis in ("n", "p"))
    hard["time per value, n = 1,000 to 16,000 over n = 250"] = 1.1, [r["× first"] for r in by_n]
    hard["its growth from p = 10³ to 10⁴, 10⁵, 10⁶ over log p's"] = (
        1.0,
        [row["× first"] / row["log p, × first"] for row in by_p],
    )
    return goals + [
        {"figure": name, "goal": f"≤ {high}", "worst": max(values), "best": min(values)}
        | {"reached": max(values) <= high}
        for name, (high, values) in hard.items()
    ]


NOTES = f"""\
Times of one call on arrays in memory, the smallest of up to 9 repeats, with the programs called in turns
within one process; a ratio says how many times as long the other program takes. Everything is run with NumPy's
default dispatch and with AVX-512 off (`NPY_DISABLE_CPU_FEATURES="{SETTINGS["AVX-512 off"]}"`), and
the smaller ratio stands here. qnorm gets the better of both memory layouts. scikit-image is given the
target, and is timed on rows of at most {VALUES_OF_SLOW["scikit-image"]:,} values together.
scikit-learn's transformer, which is feature-wise, works on the transpose of rows of at most
{VALUES_OF_SLOW["scikit-learn"]:,} values. Both are scaled up to all rows. To be exact it needs one quantile
per value, and nearly all its time goes into computing those: with fewer it is much faster, and
approximate. Only qnorm has the same rule for ties. Processors differ: on an Intel Xeon, where NumPy's AVX-512
sort is fast, an earlier version was 3.6 to 5.5 times as fast as qnorm and 2.0 to 2.9 times as fast as
`np.argsort` ([more](docs/design/ranking.md))."""


THREAD_NOTES = """\
One thread and two, the best and the median of 200 calls in turns with plain arithmetic, which shows what the
second core of the machine had to give at that time."""


def write_results(tables: dict[str, list[Row]]) -> None:
    """CSV files, one page with all tables, and the summary that the README shows."""
    machine = f"{describe_machine(PACKAGES)}."
    for name, rows in tables.items():
        write_csv(RESULTS / f"normalize-{name}.csv", rows)
    details = [f"## {TITLES[name]}\n\n{markdown(rows)}" for name, rows in tables.items()]
    page = ["# Quantile normalisation", __doc__.partition("\n\n")[2].strip(), machine]
    if tables.keys() == RUNS.keys():
        summary = [markdown(compare_programs(tables["whole"])), NOTES]
        summary += [markdown(tables["threads"]), THREAD_NOTES]
        summary += [markdown(compare_with_goals(tables)), machine]
        text = "\n\n".join(summary) + "\n"
        (RESULTS / "normalize-summary.md").write_text(text, encoding="utf-8")
        (RESULTS / "normalize.md").write_text("\n\n".join(page + details) + "\n", encoding="utf-8")


def warn_if_busy(rows: list[Row]) -> None:
    share = min(row["processor share"] for row in select(rows, program="suquan", threads=1))
    if share < 0.95:
        print(f"warning: the machine was busy (one thread got {share:.0%} of a core)\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small data; writes no results")
    parser.add_argument("--only", nargs="+", choices=RUNS, default=list(RUNS), help="parts to run")
    parser.add_argument("--child", choices=MEASURES, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        check_dispatch()
        print(json.dumps(MEASURES[arguments.child](arguments.quick)))
        return
    tables = {}
    for name in arguments.only:
        tables[name] = RUNS[name](arguments.quick)
        print(f"\n{TITLES[name]}\n\n{markdown(tables[name])}\n", flush=True)
    if "whole" in tables:
        print(f"Others' times over ours\n\n{markdown(compare_programs(tables['whole']))}\n")
        warn_if_busy(tables["whole"])
    if tables.keys() == RUNS.keys():
        print(f"Goals\n\n{markdown(compare_with_goals(tables))}\n")
    if not arguments.quick:
        write_results(tables)
        print("written to benchmarks/results")


if __name__ == "__main__":
    main()
