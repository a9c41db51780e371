"""Time, rounds and memory of models with several targets.

Every fit starts from the raw samples. The unit is scikit-learn's ``LogisticRegression(solver="lbfgs",
tol=1e-6)`` on one normalised float64 matrix, which learns no target; all contenders run in turns. On a machine
that others use too, ratios of processor time mean more than those of wall-clock time. Rounds are those until
the duality gap is below 10⁻⁴ and 10⁻⁶ of the objective with as many targets as that takes.
"""

from __future__ import annotations

import argparse
import time
import tracemalloc
import warnings
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression

from benchmarks._table import RESULTS, describe_machine, markdown, write_csv
from benchmarks.bench_w_step import make_design
from suquan import SuquanClassifier

UNIT = "LogisticRegression(lbfgs, tol=1e-6)"
# Samples, features, knots, common factors behind the features.
SHAPES = ((10_000, 1_024, 16, 10), (225, 22_283, 30, 10))
QUICK_SHAPES = ((300, 60, 8, 3), (40, 200, 8, 3))
# Largest ratios aimed at, for "multi" and "matrix", by whether samples are more than features.
AIMS = {True: (60.0, 40.0), False: (10.0, 10.0)}
N_TARGETS = 3
GAPS = (1e-4, 1e-6)


def models(n_samples: int, n_features: int, n_knots: int) -> dict[str, Any]:
    """Contenders by name, with default strengths of their penalties."""
    strength = 3e-4 * n_features  # that of a fixed target
    rounds = {"n_targets": N_TARGETS, "max_rounds": 5, "tol": 1e-12}
    return {
        UNIT: LogisticRegression(C=1 / (2 * n_samples * strength), tol=1e-6, max_iter=10_000),
        "multi": SuquanClassifier("multi", n_knots=n_knots, **rounds),
        "matrix": SuquanClassifier("matrix", n_knots=n_knots),
    }


def timed(function: Callable[[], Any]) -> tuple[float, float]:
    """Wall-clock and processor seconds of a call."""
    wall, processor = time.perf_counter(), time.process_time()
    function()
    return time.perf_counter() - wall, time.process_time() - processor


def peak_megabytes(function: Callable[[], Any]) -> float:
    """Largest memory of a call, of NumPy and of compiled kernels."""
    tracemalloc.start()
    function()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak / 1e6


def rows_of_shape(shape: tuple[int, int, int, int], n_repeats: int) -> list[dict[str, Any]]:
    """One row per contender."""
    n_samples, n_features, n_knots, n_factors = shape
    A, y = make_design(n_samples, n_features, n_factors)
    X = A.astype(np.float64)
    contenders = models(n_samples, n_features, n_knots)
    small = min(n_samples, 60), min(n_features, 100)
    seconds = defaultdict(list)
    for model in contenders.values():  # compiles
        model.fit(X[: small[0], : small[1]], y[: small[0]])
    for _ in range(n_repeats):
        for name, model in contenders.items():
            seconds[name].append(timed(lambda model=model: model.fit(X, y)))
            print(f"  {n_samples} x {n_features}: {name} {seconds[name][-1]}", flush=True)
    best = {name: np.min(times, axis=0) for name, times in seconds.items()}
    ranks = X.size * (2 if n_features <= 1 << 15 else 4) / 1e6
    bound = ranks + N_TARGETS * 4 * X.size / 1e6 + 500.0
    aims = dict(zip(("multi", "matrix"), AIMS[n_samples > n_features], strict=True))
    return [
        {
            "samples": f"{n_samples:,}×{n_features:,}",
            "fit": name,
            "seconds": best[name][0],
            "processor seconds": best[name][1],
            "in logistic regressions": best[name][0] / best[UNIT][0],
            "of processor time": best[name][1] / best[UNIT][1],
            "aim": aims.get(name, 1.0),
            "inner iterations": int(np.max(model.n_iter_)),
            "peak, MB beyond the input": peak_megabytes(lambda model=model: model.fit(X, y)),
            "bound, MB": bound,
        }
        for name, model in contenders.items()
    ]


def rounds_of_shape(shape: tuple[int, int, int, int]) -> list[dict[str, Any]]:
    """Rounds to each gap with as many targets as are needed."""
    n_samples, n_features, n_knots, n_factors = shape
    A, y = make_design(n_samples, n_features, n_factors)
    rows = []
    for gap in GAPS:
        model = SuquanClassifier("multi", n_knots=n_knots, tol=gap, max_rounds=200)
        spent = timed(lambda model=model: model.fit(A, y))
        rows.append(
            {
                "samples": f"{n_samples:,}×{n_features:,}",
                "gap aimed at": f"{gap:.0e}",
                "rounds": int(model.n_rounds_),
                "targets": int(model.n_targets_),
                "gap over J": model.duality_gap_ / model.objective_,
                "processor seconds": spent[1],
            }
        )
        print(f"  {rows[-1]}", flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes; writes nothing")
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    shapes = QUICK_SHAPES if arguments.quick else SHAPES
    rows = [row for shape in shapes for row in rows_of_shape(shape, arguments.repeats)]
    rounds = [row for shape in shapes for row in rounds_of_shape(shape)]
    print(markdown(rows), markdown(rounds), sep="\n\n")
    if arguments.quick:
        return
    write_csv(RESULTS / "several.csv", rows)
    write_csv(RESULTS / "several-rounds.csv", rounds)
    text = "\n\n".join(
        [
            f"**Several targets**: `multi` with {N_TARGETS} targets and five rounds, and `matrix`, from raw "
            f"samples, in units of one `{UNIT}` on a normalised matrix in the same run; the smallest times of "
            "each.",
            markdown(rows),
            "Rounds until the gap over J is small enough, with as many targets as that takes:",
            markdown(rounds),
            describe_machine(["numpy", "scipy", "scikit-learn", "numba"]),
        ]
    )
    (RESULTS / "several-summary.md").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        main()
