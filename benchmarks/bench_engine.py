"""Processor time of default fits, this code against another clone of it, in turns.

``python -m benchmarks.bench_engine --old DIR`` (some ten minutes) runs the same fits with the Python of both
clones (``DIR/.venv/bin/python``), one after the other, on one BLAS thread, and writes ``results/engine.csv``:
the smallest of the repeated times, their ratio, and J. Samples are simulated; learned targets have 64 knots.

``--auc DATA`` compares instead the areas under the ROC curve of both clones' defaults, chosen on three inner
folds: seven expression sets (two repeats of three outer folds), three pairs of CIFAR-10 (2,000 images), three
draws of the simulator; it writes ``results/engine_auc.csv``. DATA is the folder with the sets. ``--short`` does
one repeat, and 500 simulated samples alone.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np

METHODS = ("fixed", "bnd", "joint", "crossfit", "matrix")
SIZES = ((60, 200), (225, 5_000), (225, 22_283), (1_000, 3_000), (2_000, 300), (10_000, 1_024))


def make_samples(n_samples, n_features, seed=0):
    """Correlated samples, of which a tenth of the features tell two classes apart."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n_samples)
    X = rng.standard_normal((n_samples, n_features), dtype=np.float32)
    factors = rng.standard_normal((5, n_features)).astype(np.float32)
    X += rng.standard_normal((n_samples, 5)).astype(np.float32) @ factors
    n_signal = max(1, n_features // 10)
    X[:, :n_signal] += np.outer(y - 0.5, 0.6 * rng.standard_normal(n_signal)).astype(np.float32)
    return X, y


def run_fits(method, n_samples, n_features, n_repeats):
    """Smallest processor time of a fit in milliseconds, and J."""
    from suquan import SuquanClassifier

    X, y = make_samples(n_samples, n_features)
    n_knots = {"fixed": None, "matrix": 16}.get(method, min(64, n_features))
    model, times = SuquanClassifier(method, n_knots=n_knots, random_state=0), []
    warnings.simplefilter("ignore")
    for _ in range(n_repeats):
        start = time.process_time()
        model.fit(X, y)
        times.append(1e3 * (time.process_time() - start))
    return {"ms": min(times), "objective": float(model.objective_)}


EXPRESSION = (
    "breast_nki295", "dlbcl_chop414", "breast_biospear614", "breast_vdx150", "breast_gse3143",
    "breast_sotiriou99", "breast_veer78",
)  # fmt: skip
PAIRS = ((0, 7), (2, 7), (3, 5))
SIMULATED = (500, 2000)


def splits_of(name, data, n_repeats):
    """Training and test samples of a set: X, y, X, y for each fold."""
    from sklearn.model_selection import RepeatedStratifiedKFold

    kind, _, which = name.partition(":")
    if kind == "expression":
        with np.load(Path(data) / f"{which}.npz") as file:
            X, y = file["X"][file["y"] >= 0], file["y"][file["y"] >= 0]
        folds = RepeatedStratifiedKFold(n_splits=3, n_repeats=n_repeats, random_state=0)
        yield from ((X[a], y[a], X[b], y[b]) for a, b in folds.split(X, y))
    elif kind == "cifar":
        pair = [int(c) for c in which.split("-")]
        with np.load(Path(data) / "cifar10_gray.npz") as file:
            parts = [(file[f"X_{s}"], file[f"y_{s}"]) for s in ("train", "test")]
        rows = [np.concatenate([np.flatnonzero(y == c)[:1000] for c in pair]) for _, y in parts]
        (X, y, A, b) = (part[at] for (X, y), at in zip(parts, rows, strict=True) for part in (X, y))
        yield X, y, A, b
    else:
        from suquan.datasets import make_corrupted_classification

        n = int(which)
        for seed in range(3):
            X, y = make_corrupted_classification(n + 2000, 1000, random_state=seed)
            yield X[:n], y[:n], X[n:], y[n:]


def run_auc(name, data, n_repeats=2):
    """Areas under the ROC curve of the default in all folds of a set."""
    from sklearn.metrics import roc_auc_score

    from suquan import SuquanClassifierCV

    warnings.simplefilter("ignore")
    areas = []
    for X, y, X_test, y_test in splits_of(name, data, n_repeats):
        model = SuquanClassifierCV(cv=3, random_state=0).fit(X, y)
        areas.append(float(roc_auc_score(y_test, model.decision_function(X_test))))
    return areas


def compare_auc(old_folder, here, data, short):
    """Print and store the areas of both clones."""
    names = [f"expression:{name}" for name in EXPRESSION]
    names += [f"cifar:{a}-{b}" for a, b in PAIRS] + [
        f"simulated:{n}" for n in SIMULATED[: 1 if short else None]
    ]
    lines = ["set,n_folds,old_auc,new_auc,difference,standard_error"]
    for name in names:
        case = name, str(Path(data).resolve()), 1 if short else 2
        old, new = (in_clone(folder, case, "run_auc") for folder in (old_folder, here))
        if old is None or new is None:
            raise RuntimeError(f"{name} failed in the {'old' if old is None else 'new'} clone.")
        gains = np.subtract(new, old)
        error = float(np.std(gains, ddof=1) / np.sqrt(len(gains))) if len(gains) > 1 else np.nan
        lines.append(
            f"{name},{len(gains)},{np.mean(old):.4f},{np.mean(new):.4f},{gains.mean():+.4f},{error:.4f}"
        )
        print(lines[-1], flush=True)
    (here / "benchmarks" / "results" / "engine_auc.csv").write_text("\n".join(lines) + "\n")


def in_clone(folder, case, function="run_fits"):
    """What a function here gives with the Python of a clone; None where it did not end well."""
    call = f"m[{function!r}](*{case!r})"
    code = f"import json, runpy; m = runpy.run_path({__file__!r}); print(json.dumps({call}))"
    one = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
    python = folder / ".venv" / "bin" / "python"
    one["PYTHONPATH"] = str(folder / "src")
    done = subprocess.run(
        [python, "-c", code], cwd=folder, env={**os.environ, **one}, capture_output=True, text=True
    )
    return json.loads(done.stdout.splitlines()[-1]) if done.returncode == 0 else None


def main(arguments=None):
    """Run all cases and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    here = Path(__file__).parents[1]
    parser.add_argument("--old", type=Path, default=here, help="clone of the code to compare with")
    parser.add_argument("--quick", action="store_true", help="one small size, nothing is written")
    parser.add_argument("--methods", default=",".join(METHODS))
    parser.add_argument("--sizes", default=",".join(f"{n}x{p}" for n, p in SIZES))
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--auc", type=Path, help="folder with the data: compare areas, not times")
    parser.add_argument("--short", action="store_true", help="with --auc: fewer folds and draws")
    options = parser.parse_args(arguments)
    if options.auc is not None:
        return compare_auc(options.old.resolve(), here, options.auc, options.short)
    ratios: list[float] = []
    if options.quick:
        options.sizes, options.repeats = "60x200", 1
    lines = ["n_samples,n_features,method,old_ms,new_ms,ratio,old_objective,new_objective"]
    for size in options.sizes.split(","):
        n_samples, n_features = map(int, size.split("x"))
        for method in options.methods.split(","):
            case = (method, n_samples, n_features, options.repeats)
            old, new = in_clone(options.old.resolve(), case), in_clone(here, case)
            if old is None or new is None:
                print(f"{size} {method}: failed ({'old' if old is None else 'new'})", flush=True)
                continue
            ratios.append(new["ms"] / old["ms"])
            lines.append(
                f"{n_samples},{n_features},{method},{old['ms']:.1f},{new['ms']:.1f},{ratios[-1]:.2f},"
                f"{old['objective']:.8g},{new['objective']:.8g}"
            )
            print(lines[-1], flush=True)
    mean = float(np.exp(np.mean(np.log(ratios)))) if ratios else float("nan")
    print(f"geometric mean {mean:.2f}, largest {max(ratios, default=float('nan')):.2f}")
    if not options.quick and options.old != here:
        (here / "benchmarks" / "results" / "engine.csv").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    sys.exit(main())
