"""Time of whole fits against one logistic regression on samples that are normalised already.

Every fit starts from the raw samples: ranking, w-steps and f-steps. The unit is scikit-learn's
``LogisticRegression(solver="lbfgs", tol=1e-6)`` on the normalised float64 matrix, which learns no target. Times
are summed over seven strengths of the penalty, and all contenders run in turns at each strength.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections import defaultdict

import numpy as np
from scipy.stats import norm
from sklearn.linear_model import LogisticRegression

from benchmarks._table import RESULTS, describe_machine, markdown, write_csv
from suquan import SuquanClassifier

ALPHAS = 10.0 ** np.arange(-2, 5)
SHAPES = ((225, 22_283), (10_000, 1_024))
QUICK_SHAPES = ((60, 500), (400, 100))


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


def contenders():
    """Names and settings of the fits."""
    for method in ("fixed", "bnd", "joint", "crossfit"):
        yield f"{method}, gap 1e-4", {"method": method, "tol": 1e-4}
        if method == "fixed":
            continue
        yield f"{method}, gap 1e-6", {"method": method, "tol": 1e-6}
        yield f"{method}, 100 knots, gap 1e-4", {"method": method, "tol": 1e-4, "n_knots": 100}


def timed(function):
    """Seconds and result of a call."""
    start = time.perf_counter()
    result = function()
    return time.perf_counter() - start, result


def run_shape(n_samples, n_features, alphas, n_factors=0):
    """Rows of the table for one shape."""
    A, y = make_design(n_samples, n_features, n_factors)
    X = A.astype(np.float64)
    seconds, rounds, iterations = defaultdict(float), defaultdict(list), defaultdict(list)
    SuquanClassifier("crossfit", alpha=1.0, n_knots=50, random_state=0).fit(X[:40, :60], y[:40])
    for alpha in alphas:
        model = LogisticRegression(C=1 / (2 * n_samples * alpha), tol=1e-6, max_iter=10_000)
        spent, _ = timed(lambda model=model: model.fit(X, y))
        seconds["LogisticRegression(lbfgs, tol=1e-6)"] += spent
        for name, settings in contenders():
            if settings.get("n_knots", 0) > n_features:
                continue
            model = SuquanClassifier(alpha=alpha, random_state=0, **settings)
            spent, model = timed(lambda model=model: model.fit(X, y))
            seconds[name] += spent
            rounds[name].append(model.n_rounds_)
            iterations[name].append(model.n_iter_)
        print(f"  {n_samples} x {n_features}: alpha {alpha:g} done", flush=True)
    unit = seconds["LogisticRegression(lbfgs, tol=1e-6)"]
    return [
        {
            "shape": f"{n_samples:,}×{n_features:,}",
            "fit": name,
            "seconds": spent,
            "in logistic regressions": spent / unit,
            "rounds": float(np.mean(rounds[name])) if rounds[name] else 0.0,
            "inner iterations": float(np.mean(iterations[name])) if rounds[name] else 0.0,
        }
        for name, spent in seconds.items()
    ]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes; writes nothing")
    quick = parser.parse_args().quick
    rows = []
    for shape in QUICK_SHAPES if quick else SHAPES:
        rows += run_shape(*shape, ALPHAS[::3] if quick else ALPHAS)
    print(markdown(rows))
    if quick:
        return
    write_csv(RESULTS / "fit.csv", rows)
    text = "\n\n".join(
        [
            "**Whole fits**, from raw samples, times summed over alpha = 0.01 … 10⁴, in units of one "
            "`LogisticRegression(solver='lbfgs', tol=1e-6)` path on the normalised matrix in the same run.",
            markdown(rows),
            describe_machine(["numpy", "scipy", "scikit-learn", "numba"]),
        ]
    )
    (RESULTS / "fit-summary.md").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        main()
