"""Time of the l2-logistic path against scikit-learn's solvers, at the same objective gap.

``ratio_one_solver`` compares with the fastest solver of scikit-learn that reaches the gap at every alpha,
in float32 or float64, at its loosest tolerance, warm-started along the path. ``ratio_best_per_alpha`` gives
it every advantage: solver, dtype and tolerance chosen for each alpha, each fit started at the exact solution
for the last alpha. Our path is one call, design and all, at its own loosest tolerance. Runs interleave.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
from scipy.stats import norm
from sklearn.linear_model import LogisticRegression

from suquan.losses import Logistic
from suquan.solvers.linear import RidgeDesign

GAP = 1e-6
ALPHAS = 10.0 ** np.arange(5, -6, -1)
SHAPES = ((225, 22_283), (10_000, 1_024))
TOLERANCES = (1e-2, 1e-4, 1e-5, 1e-6, 1e-8)
SOLVERS = ("lbfgs", "newton-cg", "newton-cholesky", "liblinear", "sag")


def make_design(n_samples: int, n_features: int, n_factors: int = 0, seed: int = 0):
    """Rows normalised to a normal target, and labels with a linear signal.

    Parameters
    ----------
    n_samples, n_features : int
    n_factors : int, default=0
        Common factors behind the features, as in expression data or images; 0 leaves them independent.
    seed : int, default=0

    Returns
    -------
    A : float32 ndarray of shape (n_samples, n_features)
    y : ndarray of shape (n_samples,), −1 or 1
    """
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_samples, n_features))
    if n_factors:
        X += rng.standard_normal((n_samples, n_factors)) @ rng.standard_normal(
            (n_factors, n_features)
        )
    target = norm.ppf((np.arange(n_features) + 0.5) / n_features)
    target /= np.sqrt(np.mean(target**2))
    A = target[np.argsort(np.argsort(X, axis=1), axis=1)]
    scores = A @ rng.standard_normal(n_features) * 1.5 / np.sqrt(n_features)
    y = np.where(scores + rng.logistic(size=n_samples) > 0, 1, -1)
    return A.astype(np.float32), y


def objectives(A, y, coefs) -> np.ndarray:
    """J of each (w, b) of a path, in float64."""
    W = np.array([w for w, _ in coefs], dtype=np.float64)
    U = A.astype(np.float64) @ W.T + np.array([b for _, b in coefs])
    losses = np.logaddexp(0.0, -y[:, None] * U).mean(axis=0)
    return losses + ALPHAS * (W**2).sum(axis=1)


def objective(A, y, alpha, w, b) -> float:
    """J of one (w, b), in float64."""
    w = w.astype(np.float64)
    return float(np.mean(np.logaddexp(0.0, -y * (A @ w + b))) + alpha * w @ w)


def our_path(A, y, tol):
    fits = RidgeDesign(A).solve_path(Logistic(), y, np.ones(len(y)), ALPHAS, tol=tol)
    return [(fit.w[0], fit.b[0]) for fit in fits]


def sklearn_fit(A, y, alpha, solver, tol, start=None):
    """One fit; ``start`` is a (w, b) to begin with, for the solvers that can."""
    options = {"intercept_scaling": 100.0} if solver == "liblinear" else {}
    model = LogisticRegression(
        C=1.0 / (2.0 * len(y) * alpha),
        solver=solver,
        tol=tol,
        max_iter=1000,
        random_state=0,
        **options,
    )
    if start is not None and solver not in ("liblinear", "newton-cholesky"):
        model.set_params(warm_start=True)
        model.coef_, model.intercept_ = start[0][None].astype(A.dtype), np.array([start[1]])
    model.fit(A, y)
    return model.coef_[0], model.intercept_[0]


def timed(function: Callable) -> tuple[float, list]:
    start = time.perf_counter()
    result = function()
    return time.perf_counter() - start, result


def choose_fits(designs, y, reference, best) -> list[tuple]:
    """For each alpha the fastest (time, dtype, solver, tol, start) of scikit-learn that reaches the gap."""
    chosen: list[tuple] = []
    for k, alpha in enumerate(ALPHAS):
        start = reference[k - 1] if k else None
        fastest: tuple = (np.inf,)
        for dtype, A in designs.items():
            for solver in SOLVERS:
                if solver == "newton-cholesky" and A.shape[1] > 4000:
                    continue
                for tol in TOLERANCES:
                    elapsed, coef = timed(
                        lambda A=A, s=solver, t=tol, a=alpha, b=start: sklearn_fit(A, y, a, s, t, b)
                    )
                    if objective(designs["float64"], y, alpha, *coef) <= (1.0 + GAP) * best[k]:
                        fastest = min(
                            fastest, (elapsed, dtype, solver, tol, start), key=lambda f: f[0]
                        )
                        break
                    if elapsed > min(fastest[0], 5.0):
                        break
        chosen.append(fastest)
    return chosen


def sklearn_path(A, y, solver, tol):
    """One solver at one tolerance along the path, as a user would run it."""
    coefs: list[tuple] = []
    for alpha in ALPHAS:
        coefs.append(sklearn_fit(A, y, alpha, solver, tol, coefs[-1] if coefs else None))
    return coefs


def choose_path(designs, y, best, limit_s=20.0) -> tuple:
    """Fastest (time, dtype, solver, tol) of scikit-learn that reaches the gap at every alpha."""
    fastest: tuple = (np.inf,)
    for dtype, A in designs.items():
        for solver in SOLVERS:
            if solver == "newton-cholesky" and A.shape[1] > 4000:
                continue
            for tol in TOLERANCES:
                elapsed, coefs = timed(lambda A=A, s=solver, t=tol: sklearn_path(A, y, s, t))
                if np.all(objectives(A, y, coefs) <= (1.0 + GAP) * best):
                    fastest = min(fastest, (elapsed, dtype, solver, tol), key=lambda f: f[0])
                    break
                if elapsed > min(fastest[0], limit_s):
                    break
    return fastest


def compare_path(n_samples, n_features, n_factors=0, n_repeats=5) -> dict:
    """One row of the table: our time, the best of scikit-learn's, and their ratio."""
    A, y = make_design(n_samples, n_features, n_factors)
    designs = {"float32": A, "float64": A.astype(np.float64)}
    reference = our_path(A, y, 1e-12)
    best = objectives(A, y, reference)
    chosen = choose_fits(designs, y, reference, best)
    reached = [k for k, fit in enumerate(chosen) if len(fit) > 1]
    tol_ours = next(
        tol
        for tol in TOLERANCES
        if np.all(objectives(A, y, our_path(A, y, tol)) <= (1.0 + GAP) * best)
    )
    ours, theirs, one_solver = [], [], []
    single = choose_path(designs, y, best)
    for _ in range(n_repeats):
        elapsed, coefs = timed(lambda: our_path(A, y, tol_ours))
        ours.append(elapsed)
        total = 0.0
        for k in reached:
            _, dtype, solver, tol, start = chosen[k]
            total += timed(
                lambda D=designs[dtype], a=ALPHAS[k], s=solver, t=tol, b=start: sklearn_fit(
                    D, y, a, s, t, b
                )
            )[0]
        theirs.append(total)
        if len(single) > 1:
            _, dtype, solver, tol = single
            path = partial(sklearn_path, designs[dtype], y, solver, tol)
            one_solver.append(timed(path)[0])
        else:
            one_solver.append(np.inf)
    return {
        "shape": f"{n_samples}x{n_features}",
        "factors": n_factors,
        "suquan_s": float(np.median(ours)),
        "suquan_tol": tol_ours,
        "suquan_gap": float(np.max(objectives(A, y, coefs) / best - 1.0)),
        "sklearn_s": float(np.median(theirs)),
        "sklearn_reached": f"{len(reached)} of {len(ALPHAS)} alphas",
        "sklearn_solvers": [f"{chosen[k][2]}/{chosen[k][1]}/{chosen[k][3]:g}" for k in reached],
        "sklearn_one_solver": single[1:],
        "ratio_one_solver": float(np.median(np.divide(one_solver, ours))),
        "ratio_best_per_alpha": float(np.median(np.divide(theirs, ours))),
    }


def fold_weights(n_samples: int, n_partitions: int = 3, n_folds: int = 5) -> np.ndarray:
    """0/1 weights of the models of repeated cross-validation, shape (n_fits, n_samples)."""
    rng = np.random.default_rng(1)
    folds = [rng.permutation(n_samples) % n_folds for _ in range(n_partitions)]
    return np.array([fold != k for fold in folds for k in range(n_folds)], dtype=float)


def compare_folds(n_samples, n_features, n_factors=0, n_repeats=7) -> dict:
    """15 fold models in one batch against one fit, with and without building the design."""
    A, y = make_design(n_samples, n_features, n_factors)
    S, ones, alpha = fold_weights(n_samples), np.ones(n_samples), 1e-3 * n_features
    times: dict[str, list[float]] = {"build": [], "one": [], "many": [], "loop": []}
    for _ in range(n_repeats):
        elapsed, design = timed(lambda: RidgeDesign(A))
        times["build"].append(elapsed)
        times["one"].append(timed(lambda d=design: d.solve(Logistic(), y, ones, alpha))[0])
        design = RidgeDesign(A)
        times["many"].append(timed(lambda d=design: d.solve_many(Logistic(), y, S, alpha))[0])
        design = RidgeDesign(A)
        loop = timed(lambda d=design: [d.solve(Logistic(), y, s, alpha) for s in S])
        times["loop"].append(loop[0])
    row = {f"{name}_ms": 1e3 * float(np.median(values)) for name, values in times.items()}
    with_build = (row["build_ms"] + row["many_ms"]) / (row["build_ms"] + row["one_ms"])
    return {"shape": f"{n_samples}x{n_features}", "factors": n_factors, **row, "cost": with_build}


def rows() -> Iterator[dict]:
    """The table, row by row."""
    cases = [(*shape, n_factors) for shape in SHAPES for n_factors in (0, 10)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield from (compare_folds(*case) for case in cases)
        yield from (compare_path(*case) for case in cases)


def main() -> None:
    for row in rows():
        print(row, flush=True)


if __name__ == "__main__":
    main()
