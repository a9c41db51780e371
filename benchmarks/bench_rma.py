"""Time of RMA and of its steps per array, on whole chips.

Run ``python -m benchmarks.bench_rma``. Intensities are simulated: log-normal signal, normal background, 11
probes a set. Where the reference arrays are at hand (``SUQUAN_DATA``, or ``../shared/data``) the largest
difference from R's affy stands beside the times.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks._table import RESULTS, describe_machine, markdown, write_csv
from suquan import quantile_normalize
from suquan.microarray import background_correct, median_polish, rma

DATA = Path(os.environ.get("SUQUAN_DATA", Path(__file__).parents[2] / "shared" / "data"))
SHAPES = ((250_000, 20), (500_000, 5), (500_000, 20), (500_000, 60))
PROBES_PER_SET = 11
LIMIT_S = 1.5  # seconds an array of 500,000 probes may take
STEPS = {
    "rma": {},
    "rma_nonorm": {"target_quantiles": None},
    "rma_nobg": {"background": False},
    "rma_nobg_nonorm": {"background": False, "target_quantiles": None},
}


def make_chip(n_probes: int, n_arrays: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    probeset = np.arange(n_probes) // PROBES_PER_SET
    gene = rng.normal(7, 2, size=(probeset[-1] + 1, 1)) + 0.3 * rng.normal(
        size=(probeset[-1] + 1, n_arrays)
    )
    log_signal = gene[probeset] + rng.normal(0, 1, size=(n_probes, 1))
    return 2.0**log_signal + rng.normal(100, 10, size=log_signal.shape), probeset


def best_seconds(call: Callable[[], Any], repeats: int) -> tuple[float, float]:
    """Smallest time, and the processor time over the wall-clock time of all calls: low on a busy machine."""
    times = []
    processor = time.process_time()
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times), (time.process_time() - processor) / sum(times)


def time_shape(n_probes: int, n_arrays: int, n_jobs: int, repeats: int) -> dict[str, Any]:
    """Seconds per array of every step and of the whole."""
    pm, probeset = make_chip(n_probes, n_arrays)
    corrected = background_correct(pm)
    samples = np.ascontiguousarray(corrected.T)
    normalised = np.log2(quantile_normalize(samples, "mean", ties="mean_rank").T)
    options = {"n_jobs": n_jobs}
    calls = {
        "background": lambda: background_correct(pm, **options),
        "normalise": lambda: quantile_normalize(samples, "mean", ties="mean_rank", **options),
        "median polish": lambda: median_polish(normalised, probeset, **options),
        "rma": lambda: rma(pm, probeset, **options),
    }
    results = {name: best_seconds(call, repeats) for name, call in calls.items()}
    seconds = {name: best / n_arrays for name, (best, _) in results.items()}
    return {
        "probes": n_probes,
        "arrays": n_arrays,
        "threads": n_jobs,
        **{f"{name}, s per array": value for name, value in seconds.items()},
        "processors had": results["rma"][1],
        f"≤ {LIMIT_S} s": seconds["rma"] <= LIMIT_S,
    }


def difference_rows() -> list[dict[str, Any]]:
    """Largest absolute difference from affy for every reference that is at hand."""
    rows = []
    for path in sorted(DATA.glob("rma_*.npz")):
        chip = np.load(path)
        for name, options in STEPS.items():
            ours = rma(chip["pm"], chip["probeset"], **options)
            row = {"chip": path.stem.removeprefix("rma_"), "probes": len(chip["pm"])}
            rows.append({**row, "reference": name, "difference": np.abs(ours - chip[name]).max()})
    return rows


def write_summary(times: list[dict], differences: list[dict]) -> None:
    text = [
        "**RMA**, seconds per array, the best of three calls on simulated intensities. *Processors "
        "had*: processor time of `rma` over wall-clock time; below 1, other work held it up.",
        markdown(times),
    ]
    if differences:
        largest = max(row["difference"] for row in differences)
        chips = ", ".join(sorted({row["chip"] for row in differences}))
        text.append(
            f"Largest difference from R's affy on real arrays ({chips}; with and without "
            f"background correction and normalisation): {largest:.1g} on the log2 scale."
        )
    text.append(describe_machine(["numpy", "scipy", "numba"]))
    (RESULTS / "rma-summary.md").write_text("\n\n".join(text) + "\n", encoding="utf-8")


def main() -> None:
    """Print the tables, and keep them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small arrays; writes nothing")
    quick = parser.parse_args().quick
    rma(*make_chip(2000, 3))  # compile
    if quick:
        print(markdown([time_shape(5500, 3, 1, 1)]))
        return
    times = [time_shape(*shape, n_jobs, 3) for shape in SHAPES for n_jobs in (1, 2)]
    differences = difference_rows()
    print(markdown(times))
    write_csv(RESULTS / "rma.csv", times)
    if differences:
        print(markdown(differences))
        write_csv(RESULTS / "rma-difference.csv", differences)
    write_summary(times, differences)


if __name__ == "__main__":
    main()
