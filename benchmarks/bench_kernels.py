"""Time of the kernels on permutations, and of `scipy.stats.kendalltau` over the same pairs of samples.

Run ``python -m benchmarks.bench_kernels``; processor time of one thread. SciPy is timed on a part of
the pairs, in turns with ours, and scaled up: its time is proportional to their number.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial
from itertools import combinations, islice
from typing import Any

import numpy as np
from scipy.stats import kendalltau

from benchmarks._table import RESULTS, describe_machine, markdown, write_csv
from suquan.kernels import (
    kendall_kernel,
    mallows_kernel,
    permutation_kernel,
    quantile_kernel,
    weighted_kendall_kernel,
)

N_SCIPY_PAIRS = 40
SCIPY = "scipy.stats.kendalltau"
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


def processor_seconds(contenders: dict[str, Callable[[], Any]]) -> dict[str, float]:
    """Least processor time of three calls each, in turns, after one that is not counted."""
    seconds = dict.fromkeys(contenders, np.inf)
    for turn in range(4):
        for name, function in contenders.items():
            start = time.process_time()
            function()
            if turn:
                seconds[name] = min(seconds[name], time.process_time() - start)
    return seconds


def kernel_rows(names: list[str], n: int, p: int, values: str) -> list[dict[str, Any]]:
    """One row per kernel, and SciPy's, for n samples of p features."""
    X = np.random.default_rng(0).standard_normal((n, p))
    if values == "counts":
        X = np.floor(np.exp(2.0 + X))
    check(X)
    contenders: dict[str, Any] = {name: partial(KERNELS[name], X) for name in names}
    contenders[SCIPY] = partial(scipy_taus, X)
    seconds = processor_seconds(contenders)
    n_pairs = n * (n - 1) // 2
    seconds[SCIPY] *= n_pairs / min(n_pairs, N_SCIPY_PAIRS)
    return [
        {
            "kernel": name,
            "n × p": f"{n} × {p:,}",
            "values": values,
            "s": spent,
            "ms per pair": 1e3 * spent / n_pairs,
            "kendalltau / it": seconds[SCIPY] / spent,
        }
        for name, spent in seconds.items()
    ]


def main() -> None:
    """Print the table, and keep it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small data; writes nothing")
    is_quick = parser.parse_args().quick
    n, p = (12, 300) if is_quick else (100, 12_000)
    rows = [
        row for values in ("normal", "counts") for row in kernel_rows(["kendall"], n, p, values)
    ]
    rows += kernel_rows(list(KERNELS)[1:], n // 4, p, "normal")
    print(markdown(rows))
    if not is_quick:
        write_csv(RESULTS / "kernels.csv", rows)
        intro = (
            "**Gram matrices**, processor time of one thread, and of `kendalltau` over the pairs.\n"
        )
        machine = describe_machine(["numpy", "scipy", "numba"])
        text = "\n".join([intro, markdown(rows), "", machine, ""])
        (RESULTS / "kernels-summary.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
