"""Peak memory of whole fits, beyond the input, against the ranks, one float32 design and the smaller square.

NumPy and compiled kernels report their arrays to tracemalloc; the working space of BLAS is left out.
"""

from __future__ import annotations

import argparse
import tracemalloc
import warnings

import numpy as np

from benchmarks._table import RESULTS, markdown, write_csv
from benchmarks.bench_w_step import make_design
from suquan import SuquanClassifier
from suquan.linear_model import METHODS

SHAPES = (
    ("values", 225, 22_283),
    ("values", 400, 2_000),
    ("values", 1_000, 3_100),
    ("values", 2_000, 3_000),
    ("values", 10_000, 1_024),
    ("pictures", 10_000, 1_024),
    ("values", 20_000, 500),
)
QUICK_SHAPES = (("values", 60, 500), ("pictures", 400, 100))
ALPHAS_PER_FEATURE = (1e-6, 1e-3)


def peak_megabytes(model, X, y) -> float:
    """Largest memory of a fit, after one that compiles."""
    model.fit(X, y)
    tracemalloc.start()
    model.fit(X, y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak / 1e6


def make_images(n_samples: int, n_features: int) -> tuple:
    """Bytes whose neighbours are alike, as in pictures: the w-step then needs a covariance matrix."""
    rng = np.random.default_rng(0)
    X = np.cumsum(rng.standard_normal((n_samples, n_features), dtype=np.float32), axis=1)
    X -= X.min(axis=1, keepdims=True)
    y = X[:, : n_features // 2].mean(axis=1) > X[:, n_features // 2 :].mean(axis=1)
    flip = rng.random(n_samples) < 0.2
    return (X * (250 / X.max(axis=1, keepdims=True))).astype(np.uint8), y ^ flip


KINDS = {"values": make_design, "pictures": make_images}


def rows_of_shape(kind: str, n_samples: int, n_features: int) -> list[dict]:
    """One row per method; the larger peak of the alphas."""
    X, y = KINDS[kind](n_samples, n_features)
    ranks = X.size * (2 if n_features <= 1 << 15 else 4) / 1e6
    side = min(n_samples, n_features)
    rows = []
    for method in METHODS:
        peak = max(
            peak_megabytes(SuquanClassifier(method, alpha=alpha * n_features, random_state=0), X, y)
            for alpha in ALPHAS_PER_FEATURE
        )
        arrays = ranks + (4 * X.size + 8 * side**2) / 1e6
        vectors = (peak - arrays) * 1e6 / (8 * (n_samples + n_features))
        rows.append(
            {
                "samples": f"{n_samples:,}×{n_features:,} {kind}",
                "method": method,
                "peak, MB": peak,
                "ranks, MB": ranks,
                "float32 design, MB": 4 * X.size / 1e6,
                "n×n or p×p, MB": 8 * side**2 / 1e6,
                "peak over their sum": peak / arrays,
                "beyond it, vectors of n + p": max(vectors, 0.0),
            }
        )
        print(f"  {n_samples} x {n_features} {kind}: {method} {peak:.1f} MB", flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes; writes nothing")
    quick = parser.parse_args().quick
    rows = []
    for shape in QUICK_SHAPES if quick else SHAPES:
        rows += rows_of_shape(*shape)
    print(markdown(rows))
    if not quick:
        write_csv(RESULTS / "memory.csv", rows)


if __name__ == "__main__":
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        main()
