"""Fits on Dask from a zarr file: time, memory of a worker, and what Dask costs where memory would do.

All figures are of one run on one machine: the workers, the scheduler and the driver share its cores.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
import warnings
from contextlib import contextmanager
from pathlib import Path

import dask
import dask.array as da
import numpy as np
import zarr
from distributed import Client, LocalCluster

from benchmarks._table import RESULTS, describe_machine, markdown, write_csv
from suquan import SuquanClassifier, quantile_normalize
from suquan.io import open_blocks, write_blocks

SLICES = 4  # the middle sizes are a quarter and half of the largest
LINEAR = 0.2  # largest departure from time in proportion to rows
SLOWER = 1.5  # of Dask against memory
COMPARED_BLOCKS = 4  # per worker, where Dask is compared with memory: every worker has as many rows
THROUGHPUT = 0.6  # of normalising from file to file against memory


def write_samples(path: Path, n_samples: int, n_features: int, rows: int) -> np.ndarray:
    """Log-normal samples in a zarr file, block by block; returns labels that depend on their ranks."""
    rng = np.random.default_rng(0)
    w = rng.standard_normal(n_features).astype(np.float32) * np.float32(2 / np.sqrt(n_features))
    file = zarr.create_array(
        path, shape=(n_samples, n_features), chunks=(rows, n_features), dtype="f4", compressors=None
    )
    y = np.empty(n_samples, np.int8)
    for start in range(0, n_samples, rows):
        X = rng.standard_normal((min(rows, n_samples - start), n_features), dtype=np.float32)
        scores = np.tanh(X) @ w + rng.logistic(size=len(X)).astype(np.float32)
        y[start : start + len(X)] = scores > 0
        file[start : start + len(X)] = np.exp(X)
    return y


@contextmanager
def cluster_of(options: argparse.Namespace):
    """Local cluster of worker processes with one thread each, compiled kernels loaded.

    Workers keep their blocks (see docs/dask.md, "Choosing blocks").
    """
    with (
        dask.config.set({"distributed.scheduler.work-stealing": False}),
        LocalCluster(
            n_workers=options.workers,
            threads_per_worker=1,
            memory_limit=options.memory_limit,
            dashboard_address=":0",
        ) as cluster,
        Client(cluster) as client,
    ):
        X = da.random.default_rng(0).standard_normal((400, 20), chunks=(50, 20), dtype=np.float32)
        SuquanClassifier("crossfit", random_state=0).fit(X, np.tile([0, 1], 200))
        yield client


def resident_megabytes() -> float:
    """Memory of this process now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def peak_megabytes() -> float:
    """Largest memory of this process so far."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1e3


def fit_rows(client, X, y, options, methods) -> list[dict]:
    """Fits of one size: time, passes over the blocks, and memory of the worker that took most."""
    rows = []
    for method, settings in methods.items():
        base = max(client.run(resident_megabytes).values())
        model = SuquanClassifier(method, random_state=0, **settings)
        start = time.perf_counter()
        model.fit(X, y)
        seconds = time.perf_counter() - start
        share = X.shape[0] * X.shape[1] * 2 / 1e6 / options.workers
        block = options.rows_per_block * X.shape[1] * 4 / 1e6
        row = {
            "rows": X.shape[0],
            "method": method,
            "seconds": seconds,
            "passes": model.n_passes_,
            "peak, MB per worker": max(client.run(peak_megabytes).values()) - base,
            "ranks + 3 blocks, MB": share + 3 * block,
        }
        rows.append(row)
        print("  " + json.dumps(row), flush=True)
    return rows


def bench_sizes(path: Path, y: np.ndarray, options) -> list[dict]:
    """`bnd` and one cross-fitted round on all rows, `fixed` on fewer too; a new cluster each."""
    rows = []
    n = options.samples
    settings = {"n_knots": options.knots}
    for size in (n // SLICES, n // 2, n):
        X = da.from_zarr(path)[:size]
        methods = {"fixed": {}}
        if size == n:
            methods = {"fixed": {}, "bnd": settings, "crossfit": settings}
        for method, parameters in methods.items():  # the peak is of a process: one cluster per fit
            with cluster_of(options) as client:
                rows += fit_rows(client, X, y[:size], options, {method: parameters})
    return rows


def bench_against_memory(path: Path, y: np.ndarray, options) -> list[dict]:
    """The same fits on Dask and in memory."""
    n = options.compare_samples
    X, y = da.from_zarr(path)[:n], y[:n]
    in_memory = X.compute()
    rows = []
    with cluster_of(options):
        for method in ("bnd", "crossfit"):
            model = SuquanClassifier(method, random_state=0, n_knots=options.knots)
            times: dict[str, list[float]] = {"memory": [], "dask": []}
            scores = {}
            for _ in range(options.repeats):
                for name, samples in (("memory", in_memory), ("dask", X)):
                    start = time.perf_counter()
                    model.fit(samples, y)
                    times[name].append(time.perf_counter() - start)
                    scores[name] = model.decision_function(in_memory[:1000])
            here, there = (min(times[name]) for name in ("memory", "dask"))
            rows.append(
                {
                    "rows": n,
                    "method": method,
                    "memory, s": here,
                    "Dask, s": there,
                    "ratio": there / here,
                    "passes": model.n_passes_,
                    "largest difference": float(np.abs(scores["memory"] - scores["dask"]).max()),
                }
            )
            print("  " + json.dumps(rows[-1]), flush=True)
    return rows


def bench_normalize(path: Path, directory: Path, options) -> list[dict]:
    """Normalisation from zarr to zarr against the same in memory, on as many cores."""
    n = options.compare_samples
    X = open_blocks(path, rows_per_block=options.rows_per_block)[:n]
    in_memory = X.compute()
    times: dict[str, list[float]] = {"memory": [], "dask": []}
    with cluster_of(options):
        for k in range(options.repeats + 1):
            start = time.perf_counter()
            quantile_normalize(in_memory, "normal", n_jobs=options.workers)
            times["memory"].append(time.perf_counter() - start)
            start = time.perf_counter()
            write_blocks(quantile_normalize(X, "normal"), directory / f"normalised-{k}.zarr")
            times["dask"].append(time.perf_counter() - start)
    here, there = (min(times[name][1:]) for name in ("memory", "dask"))
    size = in_memory.nbytes / 1e6
    row = {
        "rows": n,
        "memory, MB/s": size / here,
        "zarr to zarr, MB/s": size / there,
        "share": here / there,
    }
    print("  " + json.dumps(row), flush=True)
    return [row]


def verdicts(tables: dict[str, list[dict]]) -> list[str]:
    """Which of the aims were reached."""
    lines = []
    sizes = [row for row in tables["sizes"] if row["method"] == "fixed"]
    per_row = [row["seconds"] / row["passes"] / row["rows"] for row in sizes]
    spread = max(per_row) / min(per_row) - 1
    lines.append(f"time per row of a pass varies by {spread:.0%} (aim: ≤ {LINEAR:.0%})")
    for row in tables["sizes"]:
        share = row["peak, MB per worker"] / row["ranks + 3 blocks, MB"]
        lines.append(f"{row['method']} on {row['rows']:,} rows: peak {share:.2f} of the aim (≤ 1)")
    for row in tables["memory"]:
        lines.append(f"{row['method']}: {row['ratio']:.2f} times memory (aim: ≤ {SLOWER})")
    for row in tables["normalize"]:
        lines.append(f"normalise: {row['share']:.2f} of memory (aim: ≥ {THROUGHPUT})")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes; writes nothing")
    parser.add_argument("--samples", type=int, default=1_000_000)
    parser.add_argument("--features", type=int, default=1_000)
    parser.add_argument("--compare-samples", type=int, default=100_000)
    parser.add_argument("--rows-per-block", type=int, default=15_625)
    parser.add_argument("--knots", type=int, default=None, help="n_knots; one per feature")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--memory-limit", default="3GB", help="of a worker")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", choices=("sizes", "memory", "normalize"), action="append")
    parser.add_argument("--directory", help="where the zarr files go; a temporary one")
    options = parser.parse_args()
    if options.quick:
        options.samples, options.features, options.rows_per_block = 8_000, 100, 500
        options.compare_samples, options.repeats = 4_000, 1
    wanted = options.only or ["sizes", "memory", "normalize"]
    with tempfile.TemporaryDirectory(dir=options.directory) as name:
        path = Path(name) / "samples.zarr"
        tables: dict[str, list[dict]] = {"sizes": [], "memory": [], "normalize": []}
        if "sizes" in wanted:
            y = write_samples(path, options.samples, options.features, options.rows_per_block)
            tables["sizes"] = bench_sizes(path, y, options)
        options.rows_per_block = options.compare_samples // (COMPARED_BLOCKS * options.workers)
        smaller = Path(name) / "compared.zarr"
        y = write_samples(
            smaller, options.compare_samples, options.features, options.rows_per_block
        )
        if "memory" in wanted:
            tables["memory"] = bench_against_memory(smaller, y, options)
        if "normalize" in wanted:
            tables["normalize"] = bench_normalize(smaller, Path(name), options)
    print(describe_machine(["numpy", "numba", "dask", "distributed", "zarr"]))
    for key, rows in tables.items():
        if rows:
            print(f"\n{markdown(rows)}")
            if not options.quick and not options.only:
                write_csv(RESULTS / f"dask_{key}.csv", rows)
    if len(wanted) == 3:
        print("", *verdicts(tables), sep="\n")


if __name__ == "__main__":
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        main()
