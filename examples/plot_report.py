"""A report of a comparison, in one HTML file.
==============================================

Labels depend on which features are among the highest and the lowest tenth of a sample, and on nothing between.
No named target looks like that: the problem is made for learning the target to help. With ``target="bimodal"``
in its place the verdict is that learning makes no difference. :func:`suquan.compare` finds out by nested
cross-validation, and :func:`suquan.report.write_report` writes down what it found, with the model fitted to all
samples.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
from sklearn.model_selection import RepeatedStratifiedKFold

from suquan import SuquanClassifierCV, compare
from suquan.datasets import make_corrupted_classification
from suquan.report import write_report


def extremes(q: np.ndarray) -> np.ndarray:
    """The true target: −3 in the lowest tenth, 3 in the highest, 0 between."""
    return np.where(q > 0.9, 3.0, 0.0) - np.where(q < 0.1, 3.0, 0.0)


def main(out: Path) -> None:
    """Simulate, compare, fit, write the report."""
    start = time.perf_counter()
    X, y = make_corrupted_classification(
        n_samples=300, n_features=60, target=extremes, corrupted="normal", random_state=0
    )
    grids = {"alphas": 4, "smoothnesses": 3, "n_repeats": 1}
    comparison = compare(
        X,
        y,
        methods=["raw", "normal", "uniform", "exponential", "crossfit"],
        outer_cv=RepeatedStratifiedKFold(n_splits=3, n_repeats=2, random_state=0),
        inner_cv=3,
        progress=False,
        **grids,
    )
    print(comparison.verdict)
    model = SuquanClassifierCV(cv=3, random_state=0, **grids).fit(X, y)
    path = write_report(
        out / "report.html",
        comparison,
        estimator=model,
        feature_names=[f"gene {k}" for k in range(X.shape[1])],
        data_summary={
            "samples": len(y),
            "features": X.shape[1],
            "classes": {"0": int(np.sum(y == 0)), "1": int(np.sum(y == 1))},
            "origin": "simulated; the labels depend on the extremes of each sample",
        },
        settings={"outer folds": "3, twice", "inner folds": 3, "seed": 0, **grids},
        command="python examples/plot_report.py",
    )
    print(f"report: {path} ({time.perf_counter() - start:.0f} s)")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("demo-output"), help="folder to write to")
    main(parser.parse_args().out)
