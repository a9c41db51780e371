"""Time of the kernels on permutations, and of `scipy.stats.kendalltau` over the same pairs of samples.

Run ``python -m benchmarks.bench_kernels``; one thread. SciPy is timed on a part of the pairs, in turns with
ours, and scaled up: its time is proportional to their number.
"""

from __future__ import annotations

import argparse
from functools import partial
from itertools import combinations, islice
from typing import Any

import numpy as np
from scipy.stats import kendalltau

from benchmarks._table import RESULTS, describe_machine, interleave, markdown, write_csv
from suquan.kernels import (
    kendall_kernel,
    mallows_kernel,
    permutation_kernel,
    quantile_kernel,
    weighted_kendall_kernel,
)

N_SCIPY_PAIRS = 40
KERNELS = {
    "kendall": kendall_kernel,
    "mallows": mallows_kernel,
    "weighted, average": weighted_kendall_kernel,
    "weighted, top 100": partial(weighted_kendall_kernel, weight="top-k", k=100),
    "weighted, additive": partial(weighted_kendall_kernel, weight="additive"),
    "weighted, multiplicative": partial(weighted_kendall_kernel, weight="multiplicative"),
    "permutation, one knot per place": permutation_kernel,
    "permutation, 16 knots": partial(permutation_kernel, n_knots=16, smoothness=0.01),
    "quantile": quantile_kernel,
}


def scipy_taus(X: np.ndarray) -> list[float]:
    """Kendall's tau of the first pairs of samples."""
    pairs = islice(combinations(X, 2), N_SCIPY_PAIRS)
    return [kendalltau(x, y, method="asymptotic").statistic for x, y in pairs]


def check(X: np.ndarray) -> None:
    """Both must agree before they are timed."""
    K = kendall_kernel(X)
    scale = np.sqrt(np.diag(K))
    pairs = islice(combinations(range(len(X)), 2), N_SCIPY_PAIRS)
    ours = [K[i, j] / (scale[i] * scale[j]) for i, j in pairs]
    np.testing.assert_allclose(ours, scipy_taus(X), atol=1e-12)


def kernel_rows(n: int, p: int, values: str) -> list[dict[str, Any]]:
    """One row per kernel, and SciPy's, for n samples of p features."""
    X = np.random.default_rng(0).standard_normal((n, p))
    if values == "counts":
        X = np.floor(np.exp(2.0 + X))
    check(X)
    contenders: dict[str, Any] = {name: partial(k, X) for name, k in KERNELS.items()}
    contenders["scipy.stats.kendalltau"] = partial(scipy_taus, X)
    times = interleave(contenders, n_repeats=3)
    n_pairs = n * (n - 1) // 2
    seconds = {name: timing.best for name, timing in times.items()}
    seconds["scipy.stats.kendalltau"] *= n_pairs / N_SCIPY_PAIRS
    return [
        {
            "kernel": name,
            "n × p": f"{n} × {p:,}",
            "values": values,
            "s": time,
            "ms per pair": 1e3 * time / n_pairs,
            "kendalltau / it": seconds["scipy.stats.kendalltau"] / time,
        }
        for name, time in seconds.items()
    ]


def main() -> None:
    """Print the table, and keep it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small data; writes nothing")
    is_quick = parser.parse_args().quick
    n, p = (12, 300) if is_quick else (100, 12_000)
    rows = [row for values in ("normal", "counts") for row in kernel_rows(n, p, values)]
    print(markdown(rows))
    if not is_quick:
        write_csv(RESULTS / "kernels.csv", rows)
        intro = "**Gram matrices**, one thread, against `scipy.stats.kendalltau` over the pairs.\n"
        machine = describe_machine(["numpy", "scipy", "numba"])
        text = "\n".join([intro, markdown(rows), "", machine, ""])
        (RESULTS / "kernels-summary.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
