"""Cox's model against scikit-survival, and the price of learning the target.

Seven strengths of a ridge penalty, 60% of the samples censored. ``CoxPHSurvivalAnalysis`` takes minutes: it
is fitted once, at the largest strength, its fastest, and counted seven times. ``CoxnetSurvivalAnalysis``
follows its path, with nearly no l1 norm, as it takes none without. Both from the same normalised samples; ours
is the best of several. Fits of the estimators start from raw samples, in turns. The last table shows how
the time of one fit grows with the samples. All times are processor seconds with one thread for BLAS: a busy
machine changes them little.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from sksurv.linear_model import CoxnetSurvivalAnalysis, CoxPHSurvivalAnalysis
from sksurv.util import Surv
from threadpoolctl import threadpool_limits

from benchmarks._table import RESULTS, describe_machine, interleave, markdown, write_csv
from suquan import SuquanCox, quantile_normalize
from suquan.datasets import make_corrupted_survival

CENSORED = 0.6
LEAST_L1 = 1e-8  # scikit-survival asks for more than 0
# Samples, features, the peer, and how many times faster we aim to be.
CASES = ((225, 2_000, "CoxPHSurvivalAnalysis", 20.0), (225, 22_283, "CoxnetSurvivalAnalysis", 5.0))
QUICK_CASES = ((40, 60, "CoxPHSurvivalAnalysis", 20.0), (40, 120, "CoxnetSurvivalAnalysis", 5.0))
AIM_LEARNED = 6.0
LARGE = ((25_000, 200), (50_000, 200), (100_000, 200))
QUICK_LARGE = ((500, 20), (1_000, 20))
AIM_LARGE = 10.0


def strengths(n_features: int) -> np.ndarray:
    """Seven alphas of the automatic grid, the largest first."""
    return np.geomspace(1e-1, 1e-6, 7) * n_features


def peer_path(name: str, Z: np.ndarray, y: np.ndarray, alphas: np.ndarray) -> Callable[[], Any]:
    """Fits of scikit-survival at our strengths."""
    outcome = Surv.from_arrays(y["event"], y["time"])
    if name == "CoxnetSurvivalAnalysis":
        return lambda: CoxnetSurvivalAnalysis(alphas=2 * alphas, l1_ratio=LEAST_L1).fit(Z, outcome)
    penalty = 2 * len(Z) * alphas[0]
    return lambda: CoxPHSurvivalAnalysis(alpha=penalty, ties="efron").fit(Z, outcome)


def timed_once(function: Callable[[], Any]) -> float:
    """Processor seconds of one call."""
    start = time.process_time()
    function()
    return time.process_time() - start


def our_path(Z: np.ndarray, y: np.ndarray, alphas: np.ndarray, ties: str) -> Callable[[], Any]:
    """One fit for each strength."""
    models = [SuquanCox("fixed", alpha=alpha, time_ties=ties) for alpha in alphas]
    return lambda: [model.fit(Z, y) for model in models]


def rows_of_case(case: tuple, n_repeats: int) -> list[dict[str, Any]]:
    """One row per contender: the path of the peer and ours, and single fits of three methods."""
    n_samples, n_features, peer, aim = case
    X, y = make_corrupted_survival(
        n_samples, n_features, corrupted="normal", censored=CENSORED, random_state=0
    )
    Z = quantile_normalize(X, "uniform")
    Z = (Z - Z.mean()) / Z.std()
    alphas = strengths(n_features)
    ties = "breslow" if peer == "CoxnetSurvivalAnalysis" else "efron"
    path = our_path(Z, y, alphas, ties)
    contenders = {
        f"SuquanCox({method!r})": lambda m=method: SuquanCox(m, random_state=0).fit(X, y)
        for method in ("fixed", "joint", "crossfit")
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        times = interleave(contenders, n_repeats=n_repeats, clock=time.process_time)
        path()
        ours = min(timed_once(path) for _ in range(n_repeats))
        once = timed_once(peer_path(peer, Z, y, alphas))
    slow = once * (7 if peer == "CoxPHSurvivalAnalysis" else 1)
    fixed = times["SuquanCox('fixed')"].best
    found = [
        (f"{peer}, 7 alphas", slow, ""),
        ("ours, 7 alphas", ours, f"{slow / ours:,.0f}× faster (aim ≥ {aim:g})"),
        *(
            (name, timing.best, f"{timing.best / fixed:.1f} fixed fits (aim ≤ {AIM_LEARNED:g})")
            for name, timing in times.items()
        ),
    ]
    size = {"samples": n_samples, "features": n_features}
    return [size | {"what": what, "milliseconds": 1e3 * s, "ratio": r} for what, s, r in found]


def rows_of_sizes(sizes: tuple, n_repeats: int) -> list[dict[str, Any]]:
    """Seconds of one fit with a fixed target, from raw samples."""
    rows = []
    for n_samples, n_features in sizes:
        X, y = make_corrupted_survival(
            n_samples, n_features, corrupted="normal", censored=CENSORED, random_state=0
        )
        X = X.astype(np.float32)
        times = interleave(
            {"fit": lambda X=X, y=y: SuquanCox("fixed").fit(X, y)},
            n_repeats=n_repeats,
            clock=time.process_time,
        )
        seconds = times["fit"].best
        rows.append(
            {
                "samples": n_samples,
                "features": n_features,
                "seconds": seconds,
                "µs per sample": 1e6 * seconds / n_samples,
            }
        )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes; only see that it runs")
    quick = parser.parse_args().quick
    n_repeats = 1 if quick else 5
    rows = []
    with threadpool_limits(1, user_api="blas"):
        for case in QUICK_CASES if quick else CASES:
            rows += rows_of_case(case, n_repeats)
        sizes = rows_of_sizes(QUICK_LARGE if quick else LARGE, min(n_repeats, 2))
    text = "\n\n".join(
        [
            describe_machine(["numpy", "numba", "scikit-survival"]),
            f"Seven strengths of a ridge penalty, {CENSORED:.0%} censored; learned targets against one fit "
            "with a fixed one. Processor time, one thread for BLAS.",
            markdown(rows),
            f"One fit with a fixed target (aim at 100,000 samples: ≤ {AIM_LARGE:g} s).",
            markdown(sizes),
        ]
    )
    print(text)
    if not quick:
        write_csv(RESULTS / "cox.csv", rows)
        write_csv(RESULTS / "cox-sizes.csv", sizes)
        (RESULTS / "cox-summary.md").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
