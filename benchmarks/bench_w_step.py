"""Time of the l2-logistic path against scikit-learn's solvers, at the same objective gap.

A path is eleven alphas. For scikit-learn it is one warm-started ``LogisticRegression`` per solver, type and
tolerance; the fastest whose relative gap is at most 10⁻⁶ at every alpha counts. Ours is one call, design and
all, held to the same gap. The two are timed in turns, and the smallest times compared. ``fold_models_row``
shows what fifteen fold models cost that share one factorisation.
"""

from __future__ import annotations

import argparse
import time
import warnings
from functools import partial

import numpy as np
from scipy.stats import norm
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import RepeatedStratifiedKFold

from benchmarks._table import RESULTS, describe_machine, markdown, write_csv
from suquan.losses import Logistic
from suquan.solvers.ridge import RidgeDesign

GAP = 1e-6
ALPHAS = 10.0 ** np.arange(5, -6, -1)
SHAPES = ((225, 22_283), (10_000, 1_024))
PEERS = [
    (solver, dtype, tol)
    for solver in ("lbfgs", "newton-cg", "newton-cholesky")
    for dtype in (np.float64, np.float32)
    for tol in (1e-4, 1e-6, 1e-8)
]
N_ROUNDS = 5
PAUSE_S = 0.3
LIMIT_S = 60.0  # a peer that is slower than this is left out, and said to be


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


def objectives(A, y, path) -> np.ndarray:
    """J at each (w, b) of a path, in float64."""
    W = np.array([w for w, _ in path], dtype=np.float64)
    U = A.astype(np.float64) @ W.T + np.array([b for _, b in path])
    losses = np.logaddexp(0.0, -y[:, None] * U).mean(axis=0)
    return losses + ALPHAS * (W**2).sum(axis=1)


def our_path(A, y, tol):
    """All alphas in one call."""
    fits = RidgeDesign(A).solve_path(Logistic(), y, np.ones(len(y)), ALPHAS.tolist(), tol=tol)
    return [(fit.w[0], fit.b[0]) for fit in fits]


def peer_path(A, y, solver, tol, deadline):
    """Warm-started path of one solver; None if it passes the deadline."""
    model = LogisticRegression(solver=solver, tol=tol, max_iter=10_000, warm_start=True)
    path = []
    for alpha in ALPHAS:
        model.set_params(C=1 / (2 * len(y) * alpha)).fit(A, y)
        path.append((model.coef_[0].copy(), model.intercept_[0]))
        if time.perf_counter() > deadline:
            return None
    return path


def timed(function):
    """Seconds and result."""
    start = time.perf_counter()
    result = function()
    return time.perf_counter() - start, result


def warm_seconds(function):
    """Seconds of the second of two calls, after a pause that lets BLAS's threads stop waiting for work."""
    time.sleep(PAUSE_S)
    function()
    return timed(function)[0]


def path_row(n_samples, n_features, peers):
    """Our path against the fastest path of scikit-learn that reaches the gap."""
    A, y = make_design(n_samples, n_features)
    best = objectives(A, y, our_path(A, y, 1e-13))
    tol = next(
        t for t in (1e-3, 1e-4, 1e-5, 1e-6, 1e-8) if _gap(A, y, our_path(A, y, t), best) <= GAP
    )
    solver, dtype, peer_tol = fastest_peer(A, y, peers, best)
    X = A.astype(dtype)
    theirs, ours = [], []
    for _ in range(N_ROUNDS):
        theirs.append(timed(lambda: peer_path(X, y, solver, peer_tol, np.inf))[0])
        ours.append(warm_seconds(lambda: our_path(A, y, tol)))
    return {
        "shape": f"{n_samples:,}×{n_features:,}",
        "suquan, s": min(ours),
        "scikit-learn, s": min(theirs),
        "ratio": min(theirs) / min(ours),
        "its fastest": f"{solver}, {np.dtype(dtype).name}, tol {peer_tol:g}",
    }


def fastest_peer(A, y, peers, best):
    """Solver, type and tolerance of the fastest path of scikit-learn that reaches the gap."""
    n_samples, n_features = A.shape
    reached = {}
    for solver, dtype, tol in peers:
        if solver == "newton-cholesky" and n_features > n_samples:
            continue  # it factorises a matrix of n_features × n_features
        X = A.astype(dtype)
        deadline = time.perf_counter() + min([LIMIT_S, *reached.values()])
        spent, path = timed(partial(peer_path, X, y, solver, tol, deadline))
        if path is not None and _gap(A, y, path, best) <= GAP:
            reached[solver, dtype, tol] = spent
    return min(reached, key=reached.get)


def _gap(A, y, path, best) -> float:
    return float(np.max(objectives(A, y, path) / best - 1.0))


def fold_models_row(n_samples, n_features):
    """Fifteen fold models against one fit and against fifteen separate fits."""
    A, y = make_design(n_samples, n_features)
    splits = RepeatedStratifiedKFold(n_splits=5, n_repeats=3, random_state=0).split(A, y)
    S = np.ones((15, n_samples))
    for row, (_, test) in zip(S, splits, strict=True):
        row[test] = 0.0
    alpha, loss = 1e-3 * n_features, Logistic()
    build, design = timed(lambda: RidgeDesign(A))
    one = min(timed(lambda: design.solve(loss, y, np.ones(n_samples), alpha))[0] for _ in range(3))
    many = min(timed(lambda: design.solve_many(loss, y, S, alpha))[0] for _ in range(3))
    loop = timed(lambda: [RidgeDesign(A).solve(loss, y, s, alpha) for s in S])[0]
    return {
        "shape": f"{n_samples:,}×{n_features:,}",
        "one fit, s": build + one,
        "15 fold models, s": build + many,
        "in single fits": (build + many) / (build + one),
        "15 separate fits, s": loop,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes; writes nothing")
    quick = parser.parse_args().quick
    shapes = ((40, 300), (400, 60)) if quick else SHAPES
    rows = [path_row(*shape, PEERS[::2] if quick else PEERS) for shape in shapes]
    fold_rows = [fold_models_row(*shape) for shape in shapes]
    print(markdown(rows), markdown(fold_rows), sep="\n\n")
    if quick:
        return
    write_csv(RESULTS / "w_step.csv", rows)
    write_csv(RESULTS / "w_step_folds.csv", fold_rows)
    text = [
        "**The l2-logistic path**, eleven alphas, at a relative objective gap of at most 10⁻⁶, against the "
        "fastest of scikit-learn's solvers.",
        markdown(rows),
        "**Fold models** of a cross-fitted round (5 folds, 3 times) on one factorised design.",
        markdown(fold_rows),
        describe_machine(["numpy", "scipy", "scikit-learn", "numba"]),
    ]
    (RESULTS / "w_step-summary.md").write_text("\n\n".join(text) + "\n", encoding="utf-8")


if __name__ == "__main__":
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        main()
