"""Time of the proximal operators, and of named peers on the same vectors.

Run ``python -m benchmarks.bench_prox``; one thread, best of several calls. ``prox_table()`` returns
the rows.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

import numpy as np
from scipy.linalg import solveh_banded

from benchmarks._table import RESULTS, write_csv
from suquan.prox import (
    SmoothNondecreasingProx,
    project_bounded,
    project_bounded_nondecreasing,
    project_nondecreasing,
    prox_smooth_nondecreasing,
)

GENES = 22_283
SMOOTHNESS = (0.01, 1.0, 1e2, 1e4, 1e6, 1e8)
LENGTHS = (10_000, 100_000, 1_000_000)


class Row(NamedTuple):
    """One timing; ``passes`` is 0 where the operator makes none."""

    operator: str
    vector: str
    p: int
    smoothness: float
    milliseconds: float
    nanoseconds_per_element: float
    passes: int


def make_vectors(p: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    noise = rng.normal(size=p)
    return {
        "noise": noise,
        "sorted+noise": 2.0 * np.sort(rng.normal(size=p)) + 0.1 * noise,
        "walk": np.cumsum(noise) / np.sqrt(p),
        "rising walk": np.cumsum(noise + 0.3) / np.sqrt(p),
    }


def best_seconds(call: Callable[[], object], repeats: int) -> float:
    call()  # compile, and fill the caches
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)


def time_row(operator, vector, p, smoothness, call, repeats, passes=0) -> Row:
    seconds = best_seconds(call, repeats)
    return Row(operator, vector, p, smoothness, 1e3 * seconds, 1e9 * seconds / p, passes)


def cold_row(name: str, z: np.ndarray, smoothness: float, repeats: int, bounded=False) -> Row:
    prox = SmoothNondecreasingProx(bounded=bounded)

    def call():
        prox.reset()
        prox(z, smoothness)

    call()
    label = "smooth bounded, cold" if bounded else "smooth, cold"
    return time_row(label, name, len(z), smoothness, call, repeats, prox.n_passes)


def warm_row(name: str, z: np.ndarray, smoothness: float, repeats: int, bounded=False) -> Row:
    """Each call sees a vector moved a little, as in a solver's inner loop."""
    prox = SmoothNondecreasingProx(bounded=bounded)
    step = 1e-6 * np.std(z) * np.random.default_rng(1).normal(size=len(z))
    moving = iter([z + k * step for k in range(repeats + 2)])
    prox(next(moving), smoothness)
    label = "smooth bounded, warm" if bounded else "smooth, warm"
    row = time_row(label, name, len(z), smoothness, lambda: prox(next(moving), smoothness), repeats)
    return row._replace(passes=prox.n_passes)


def one_banded_solve(z: np.ndarray, smoothness: float) -> np.ndarray:
    """Smoothing without monotonicity by LAPACK: what a single pass costs elsewhere."""
    bands = np.empty((2, len(z)))
    bands[0] = -2.0 * smoothness
    bands[1] = 1.0 + 4.0 * smoothness
    bands[1, [0, -1]] -= 2.0 * smoothness
    return solveh_banded(bands, z, overwrite_ab=True, check_finite=False)


def osqp_row(name: str, z: np.ndarray, smoothness: float) -> Row:
    """The same problem by OSQP through cvxpy, one call; it stops short of its own tolerance."""
    import cvxpy as cp

    f = cp.Variable(len(z))
    objective = 0.5 * cp.sum_squares(f - z) + smoothness * cp.sum_squares(cp.diff(f))
    problem = cp.Problem(cp.Minimize(objective), [cp.diff(f) >= 0])
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Solution may be inaccurate")
        problem.solve(solver=cp.OSQP)
    seconds = time.perf_counter() - start
    p = len(z)
    return Row("cvxpy + OSQP", name, p, smoothness, 1e3 * seconds, 1e9 * seconds / p, 0)


def pure_row(name: str, z: np.ndarray, smoothness: float, repeats: int) -> Row:
    """The plain function, which also allocates its workspace."""
    call = partial(prox_smooth_nondecreasing, z, smoothness)
    return time_row("smooth, plain function", name, len(z), smoothness, call, repeats)


def gene_rows(repeats: int) -> Iterator[Row]:
    """Cold and warm times at the length of a microarray."""
    projections = {
        "nondecreasing": project_nondecreasing,
        "bounded": project_bounded,
        "bounded nondecreasing": project_bounded_nondecreasing,
    }
    for name, z in make_vectors(GENES).items():
        for label, project in projections.items():
            yield time_row(label, name, GENES, 0.0, partial(project, z), repeats)
        for c in SMOOTHNESS:
            yield pure_row(name, z, c, repeats)
            for bounded in (False, True):
                yield cold_row(name, z, c, repeats, bounded)
                yield warm_row(name, z, c, repeats, bounded)
    banded = partial(one_banded_solve, z, 1.0)
    yield time_row("scipy solveh_banded, once", name, GENES, 1.0, banded, repeats)


def length_rows(lengths: tuple[int, ...], repeats: int) -> Iterator[Row]:
    """Cold times per element as the vector grows."""
    for p in lengths:
        for name, z in make_vectors(p).items():
            for c in SMOOTHNESS[1::2]:
                yield cold_row(name, z, c, repeats)


def prox_table(
    lengths: tuple[int, ...] = LENGTHS, repeats: int = 7, peers: bool = True
) -> list[Row]:
    """Time every operator; ``peers=False`` leaves out the call to OSQP, which takes seconds."""
    rows = [*gene_rows(repeats), *length_rows(lengths, max(2, repeats // 2))]
    if peers:
        rows.append(osqp_row("sorted+noise", make_vectors(GENES)["sorted+noise"], 1.0))
    return rows


def main() -> None:
    """Print the table, and keep it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="short vectors; writes nothing")
    if parser.parse_args().quick:
        print(*prox_table(lengths=(1000,), repeats=1, peers=False), sep="\n")
        return
    print(
        f"{'operator':26}{'vector':14}{'p':>9}{'smoothness':>12}{'ms':>10}{'ns/el':>8}{'passes':>8}"
    )
    rows = list(prox_table())
    for row in rows:
        print(
            f"{row.operator:26}{row.vector:14}{row.p:9}{row.smoothness:12g}"
            f"{row.milliseconds:10.3f}{row.nanoseconds_per_element:8.1f}{row.passes:8}"
        )
    write_csv(RESULTS / "prox.csv", [row._asdict() for row in rows])


if __name__ == "__main__":
    main()
