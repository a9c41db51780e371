"""Time of the f-step against plain accelerated proximal gradient and a logistic regression of the same shape.

Run ``python -m benchmarks.bench_f_step`` (a few minutes) or with ``--quick``. One thread everywhere; the
compared solvers run in turn, and the smallest of the repeated times counts.
"""

from __future__ import annotations

import argparse
import time
from functools import partial

import numpy as np
from scipy.special import expit
from scipy.stats import norm
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_limits

from benchmarks._table import RESULTS, write_csv
from suquan.losses import Logistic
from suquan.solvers._target_data import RowsInMemory
from suquan.solvers._target_record import Record
from suquan.solvers.target import solve_target
from suquan.target_sets import TARGET_SETS

SIZES = (
    (225, 22_283, None),
    (675, 22_283, None),
    (10_000, 1_024, None),
    (225, 22_283, 100),
    (10_000, 1_024, 100),
)
QUICK_SIZES = ((100, 2_000, None), (1_000, 100, None))


def make_design(n_samples, n_features, alpha, n_knots=None, seed=0):
    """Rows w[order_i] of a ridge logistic fit on normal quantiles; also labels and start."""
    rng = np.random.default_rng(seed)
    y = rng.choice([-1.0, 1.0], n_samples)
    shift = np.zeros(n_features, np.float32)
    n_signal = max(1, n_features // 10)
    shift[:n_signal] = 1.5 * rng.standard_normal(n_signal) / np.sqrt(n_signal)
    X = rng.standard_normal((n_samples, n_features), dtype=np.float32)
    X += np.outer(y, shift) + 0.5 * rng.standard_normal(n_features).astype(np.float32)
    order = np.argsort(X, axis=1)
    f = norm.ppf((np.arange(n_features) + 0.5) / n_features)
    f /= np.sqrt(np.mean(f * f))
    np.put_along_axis(X, order, np.broadcast_to(f.astype(np.float32), X.shape), axis=1)
    w = _ridge_logistic(X, y, alpha * n_features)
    D = w.astype(np.float32)[order]
    if n_knots is None:
        return D, y, f
    places = (np.arange(n_features) + 0.5) / n_features
    knots = (np.arange(n_knots) + 0.5) / n_knots
    hats = np.array([np.interp(places, knots, row) for row in np.eye(n_knots)], dtype=np.float32)
    start = np.interp(knots, places, f)
    start -= start.mean()
    return D @ hats.T, y, start / np.sqrt(np.mean(start * start))


def _ridge_logistic(X, y, alpha):
    n = len(y)
    if n > X.shape[1]:
        C = 1.0 / (2.0 * n * alpha)
        return LogisticRegression(C=C, tol=1e-4, max_iter=500).fit(X, y).coef_[0]
    G = (X @ X.T).astype(np.float64)
    c, b = np.zeros(n), 0.0
    for _ in range(60):
        u = G @ c + b
        W = expit(u) * expit(-u) / n
        system = np.block([[W[:, None] * G + 2 * alpha * np.eye(n), W[:, None]], [np.ones(n), 0.0]])
        gradient = -y * expit(-y * u) / n + 2 * alpha * c
        step = np.linalg.solve(system, -np.append(gradient, c.sum()))
        c, b = c + step[:n], b + step[n]
        if np.abs(step).max() <= 1e-9 * max(1.0, np.abs(c).max()):
            break
    return X.T @ c.astype(np.float32)


def plain_fista(D, y, s, f_start, *, target_set, smoothness, tol, max_seconds=10.0):
    """Accelerated proximal gradient with a fixed step, stopped by the solver's own certificate."""
    data = RowsInMemory(D, Logistic(), y, s, True)
    target = TARGET_SETS[target_set].at(smoothness)
    record = Record(data, target, f_start, tol, 10**9)
    x = np.cos(np.arange(D.shape[1]))
    for _ in range(20):
        x /= np.linalg.norm(x)
        x = data.adjoint(s * data.scores(x))
    step = 1.0 / (0.25 * 1.05 * np.linalg.norm(x))
    f = z = f_start
    theta, end = 1.0, time.perf_counter() + max_seconds
    while not record.done and time.perf_counter() < end:
        record.n_iter += 1
        g = record.update_dual(data.profile(data.scores(z)))
        new = target.prox(z - step * g, step)
        theta_new = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * theta * theta))
        z = new + (theta - 1.0) / theta_new * (new - f)
        f, theta = new, theta_new
        if record.n_iter % 5 == 0:
            record.update_primal(f, data.scores(f))
    return record.result()


def _timed(solve, repeats):
    best = np.inf
    for _ in range(repeats):
        start = time.perf_counter()
        fit = solve()
        best = min(best, time.perf_counter() - start)
    return best, fit


def run(
    sizes=SIZES, alphas=(1e-6, 1e-4, 1e-2, 1e-1), tols=(1e-4, 1e-6), repeats=2, max_seconds=5.0
):
    """Return one row (a dict) per size, alpha, set and tolerance. ``alphas`` are in units of p."""
    rows = []
    with threadpool_limits(1):
        for n, p, n_knots in sizes:
            for alpha in alphas:
                D, y, f = make_design(n, p, alpha, n_knots)
                K, s = D.shape[1], np.full(n, 1.0 / n)
                model = LogisticRegression(C=1.0 / (2 * n * alpha * p), tol=1e-6, max_iter=5000)
                lbfgs, _ = _timed(partial(model.fit, D.astype(np.float64), y), repeats)
                scale = p * (
                    K / p
                )  # useful smoothness grows like p; callers scale it by K/p for knots
                for target_set, c in (
                    ("f0", 0.0),
                    ("bnd", 0.0),
                    ("spav", 1e-3 * scale),
                    ("joint", 1e-3 * scale),
                ):
                    for tol in tols:
                        options = {"target_set": target_set, "smoothness": c, "tol": tol}
                        ours = partial(solve_target, D, Logistic(), y, s, f, **options)
                        plain = partial(plain_fista, D, y, s, f, max_seconds=max_seconds, **options)
                        ours()
                        seconds, fit = _timed(ours, repeats)
                        fista, slow = _timed(plain, 1)
                        rows.append(
                            {
                                "rows": n,
                                "K": K,
                                "alpha/p": alpha,
                                "set": target_set,
                                "smoothness": c,
                                "tol": tol,
                                "seconds": seconds,
                                "n_iter": fit.n_iter,
                                "gap": fit.gap,
                                "fista_seconds": fista,
                                "fista_n_iter": slow.n_iter,
                                "fista_gap": slow.gap,
                                "lbfgs_seconds": lbfgs,
                            }
                        )
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small sizes, one alpha")
    arguments = parser.parse_args()
    rows = run(QUICK_SIZES, alphas=(1e-4,), repeats=1) if arguments.quick else run()
    print(
        "   rows      K  alpha/p  set   tol     ours: s  iter     gap   FISTA: s  iter      gap   lbfgs: s"
    )
    for row in rows:
        print(
            f"{row['rows']:7d} {row['K']:6d}  {row['alpha/p']:.0e}  {row['set']:5s} {row['tol']:.0e}"
            f" {row['seconds']:9.3f} {row['n_iter']:5d} {row['gap']:8.1e} {row['fista_seconds']:9.2f}"
            f" {row['fista_n_iter']:6d} {row['fista_gap']:8.1e} {row['lbfgs_seconds']:9.3f}"
        )
    if not arguments.quick:
        write_csv(RESULTS / "f_step.csv", rows)


if __name__ == "__main__":
    main()
