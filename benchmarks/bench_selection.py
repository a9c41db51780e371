"""Time of nested cross-validation against scikit-learn in the same loop, and of the paper's folds and methods.

The peer is ``LogisticRegressionCV`` on the normalised matrix inside each outer fold. A part of its outer folds
is timed and scaled to all of them. The paper's folds (all methods, 5 × 3 outer and 5 × 3 inner folds, seven
alphas, five smoothnesses; 30 knots, where the paper has one target value per feature) take some ten minutes;
ask for them with ``--protocol``. The time without knots is scaled up from one outer and three inner folds.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from pathlib import Path

import numpy as np
from sklearn.linear_model import LogisticRegressionCV
from sklearn.model_selection import RepeatedStratifiedKFold

from benchmarks._table import RESULTS, describe_machine, markdown, write_csv
from benchmarks.bench_fit import make_design
from suquan import compare

PEER_FOLDS = 1
N_KNOTS = 30


def folds(n_repeats=5):
    """3 folds, repeated."""
    return RepeatedStratifiedKFold(n_splits=3, n_repeats=n_repeats, random_state=0)


def nested_fixed(n_samples, n_features, n_repeats):
    """One fixed target, all folds, against LogisticRegressionCV on a part of the outer folds."""
    A, y = make_design(n_samples, n_features)
    X = A.astype(np.float64)
    outer = folds(n_repeats)
    compare(X[:60, :100], y[:60], methods=["normal"], outer_cv=3, inner_cv=3, progress=False)
    start = time.perf_counter()
    result = compare(
        X, y, methods=["normal"], outer_cv=outer, inner_cv=folds(n_repeats), progress=False
    )
    ours = time.perf_counter() - start
    alphas = np.geomspace(1e-6, 1e-1, 7) * n_features
    splits = list(outer.split(X, y))
    start = time.perf_counter()
    for train, test in splits[:PEER_FOLDS]:
        peer = LogisticRegressionCV(
            Cs=1 / (2 * len(train) * 2 / 3 * alphas),
            cv=folds(n_repeats),
            scoring="roc_auc",
            tol=1e-6,
            max_iter=10_000,
            l1_ratios=(0.0,),
            use_legacy_attributes=False,
        ).fit(X[train], y[train])
        peer.score(X[test], y[test])
    theirs = (time.perf_counter() - start) * len(splits) / PEER_FOLDS
    return {
        "shape": f"{n_samples:,}×{n_features:,}",
        "outer × inner folds": f"{len(splits)} × {len(splits)}",
        "suquan.compare, s": ours,
        "LogisticRegressionCV, s (scaled)": theirs,
        "ratio": theirs / ours,
        "mean AUC": float(result.summary["mean"][0]),
    }


def peak_gigabytes():
    """Largest sizes in memory of this process and its workers together; shared pages count in each (Linux)."""
    parents = {}
    peaks = {}
    for status in Path("/proc").glob("[0-9]*/status"):
        try:
            fields = dict(
                line.split(":", 1) for line in status.read_text().splitlines() if ":" in line
            )
            pid = int(fields["Pid"])
            parents[pid], peaks[pid] = int(fields["PPid"]), int(fields["VmHWM"].split()[0])
        except (OSError, KeyError):
            continue

    def is_ours(pid):
        return pid == os.getpid() or (pid in parents and is_ours(parents[pid]))

    return sum(size for pid, size in peaks.items() if is_ours(pid)) / 2**20


def whole_protocol(n_samples, n_features, n_knots, n_jobs):
    """All methods, as in the paper; seconds per method and in all."""
    A, y = make_design(n_samples, n_features, n_factors=20)
    start = time.perf_counter()
    result = compare(
        A, y, outer_cv=folds(), inner_cv=folds(), n_knots=n_knots, n_jobs=n_jobs, progress=True
    )
    seconds = time.perf_counter() - start
    names = result.summary["method"]
    spent = [result.folds["seconds"][result.folds["method"] == name].sum() for name in names]
    rows = [
        {"method": str(name), "core seconds": float(s), "share": float(s / np.sum(spent[:-1]))}
        for name, s in zip(names, spent, strict=True)
        if name != "best_fixed"
    ]
    gigabytes = peak_gigabytes()
    print(f"whole protocol: {seconds:.0f} s, at most {gigabytes:.1f} GB; {result.verdict}")
    return rows, seconds, gigabytes


def exact_protocol(n_samples, n_features, n_jobs):
    """Hours that the protocol would take without knots, from one outer fold with three inner ones."""
    A, y = make_design(n_samples, n_features, n_factors=20)
    one = [next(folds().split(A, y))]
    result = compare(A, y, outer_cv=one, inner_cv=folds(1), n_jobs=n_jobs, progress=True)
    spent = result.folds["seconds"][result.folds["method"] != "best_fixed"].sum()
    return float(spent) * 15 * 5 / n_jobs / 3600


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes; writes nothing")
    parser.add_argument("--protocol", action="store_true", help="the paper's folds and methods too")
    arguments = parser.parse_args()
    if arguments.quick:
        print(markdown([nested_fixed(60, 500, 1)]))
        return
    rows = [nested_fixed(225, 22_283, 5)]
    print(markdown(rows))
    write_csv(RESULTS / "selection.csv", rows)
    text = [
        "**Nested cross-validation** of one fixed target, seven alphas, against `LogisticRegressionCV` in the "
        "same loop, of which one outer fold was timed and scaled.",
        markdown(rows),
    ]
    if arguments.protocol:
        rows, seconds, gigabytes = whole_protocol(271, 22_283, N_KNOTS, 2)
        write_csv(RESULTS / "protocol.csv", rows)
        hours = exact_protocol(271, 22_283, 2)
        text += [
            f"**The paper's folds and methods, on {N_KNOTS} knots**, at 271×22,283, two processes: "
            f"{seconds / 60:.1f} minutes, at most {gigabytes:.1f} GB. With one target value per feature, as in "
            f"the paper, it would take {hours:.1f} hours (scaled from one outer and three inner folds). "
            "Where the time goes:",
            markdown(rows),
        ]
    text.append(describe_machine(["numpy", "scipy", "scikit-learn", "numba"]))
    (RESULTS / "selection-summary.md").write_text("\n\n".join(text) + "\n", encoding="utf-8")


if __name__ == "__main__":
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        main()
