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
from functools import partial
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression

from benchmarks._table import RESULTS, describe_machine, markdown, write_csv
from benchmarks.bench_memory import make_images
from benchmarks.bench_w_step import make_design
from suquan import SuquanClassifier, quantile_normalize
from suquan.datasets import make_several_targets_classification

UNIT = "LogisticRegression(lbfgs, tol=1e-6)"
# Kind of samples, samples, features, knots.
Case = tuple[str, int, int, int]
CASES: tuple[Case, ...] = (
    ("values", 10_000, 1_024, 16),
    ("pictures", 10_000, 1_024, 16),
    ("expression", 225, 22_283, 30),
)
QUICK_CASES: tuple[Case, ...] = (
    ("values", 300, 60, 8),
    ("pictures", 300, 60, 8),
    ("expression", 40, 200, 8),
)
# Largest ratios aimed at, for "multi" and "matrix", by whether samples are more than features.
AIMS = {True: (60.0, 40.0), False: (10.0, 10.0)}
N_TARGETS = 3
GAPS = (1e-4, 1e-6)


def make_samples(kind: str, n_samples: int, n_features: int) -> tuple[np.ndarray, np.ndarray]:
    """Values whose labels come from three targets; pictures, with ties; expression, with common factors."""
    if kind == "pictures":
        return make_images(n_samples, n_features)
    if kind == "expression":
        return make_design(n_samples, n_features, n_factors=10)
    return make_several_targets_classification(n_samples, n_features, random_state=0)[:2]


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


def rows_of_case(case: Case, n_repeats: int) -> list[dict[str, Any]]:
    """One row per contender."""
    kind, n_samples, n_features, n_knots = case
    X, y = make_samples(kind, n_samples, n_features)
    normalised = quantile_normalize(X, "normal")
    contenders = models(n_samples, n_features, n_knots)
    small = min(n_samples, 60), min(n_features, 100)
    seconds = defaultdict(list)
    for model in contenders.values():  # compiles
        model.fit(X[: small[0], : small[1]], y[: small[0]])
    calls = {
        name: partial(model.fit, normalised if name == UNIT else X, y)
        for name, model in contenders.items()
    }
    for _ in range(n_repeats):
        for name, call in calls.items():
            seconds[name].append(timed(call))
            print(f"  {case}: {name} {seconds[name][-1]}", flush=True)
    best = {name: np.min(times, axis=0) for name, times in seconds.items()}
    ranks = X.size * (2 if n_features <= 1 << 15 else 4) / 1e6
    bound = ranks + N_TARGETS * 4 * X.size / 1e6 + 500.0
    aims = dict(zip(("multi", "matrix"), AIMS[n_samples > n_features], strict=True))
    return [
        {
            "samples": f"{n_samples:,}×{n_features:,} {kind}",
            "fit": name,
            "seconds": best[name][0],
            "processor seconds": best[name][1],
            "in logistic regressions": best[name][0] / best[UNIT][0],
            "of processor time": best[name][1] / best[UNIT][1],
            "aim": aims.get(name, 1.0),
            "inner iterations": int(np.max(model.n_iter_)),
            "peak, MB beyond the input": peak_megabytes(calls[name]),
            "bound, MB": bound,
        }
        for name, model in contenders.items()
    ]


def rounds_of_case(case: Case) -> list[dict[str, Any]]:
    """Rounds to each gap with as many targets as are needed."""
    kind, n_samples, n_features, n_knots = case
    X, y = make_samples(kind, n_samples, n_features)
    rows = []
    for gap in GAPS:
        model = SuquanClassifier("multi", n_knots=n_knots, tol=gap, max_rounds=200)
        spent = timed(partial(model.fit, X, y))
        rows.append(
            {
                "samples": f"{n_samples:,}×{n_features:,} {kind}",
                "gap aimed at": f"{gap:.0e}",
                "rounds": int(model.n_rounds_),
                "targets": int(model.n_targets_),
                "gap over J": model.duality_gap_ / model.objective_,
                "seconds": spent[0],
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
    cases = QUICK_CASES if arguments.quick else CASES
    rows = [row for case in cases for row in rows_of_case(case, arguments.repeats)]
    rounds = [row for case in cases for row in rounds_of_case(case)]
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
