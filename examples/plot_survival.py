"""Times to event: the target of Cox's model, learned.
=====================================================

Hazards depend on which features are among the highest and the lowest tenth of a sample. Half of the patients
are censored. :func:`suquan.compare` measures the concordance by nested cross-validation; the picture shows
the patients in thirds of the risk that a model gives them which has not seen them, and the learned target.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from sklearn.model_selection import RepeatedStratifiedKFold

from suquan import SuquanCox, compare
from suquan.datasets import make_corrupted_survival
from suquan.plotting import RiskGroupDisplay, TargetQuantileDisplay


def extremes(q: np.ndarray) -> np.ndarray:
    """The true target: −3 in the lowest tenth, 3 in the highest, 0 between."""
    return np.where(q > 0.9, 3.0, 0.0) - np.where(q < 0.1, 3.0, 0.0)


def main(out: Path) -> None:
    """Simulate, compare, fit, draw."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib.figure import Figure

    X, y = make_corrupted_survival(
        400, 60, target=extremes, corrupted="normal", strength=1.5, random_state=0
    )
    result = compare(
        X,
        y,
        scoring="concordance",
        methods=["raw", "normal", "uniform", "crossfit"],
        outer_cv=RepeatedStratifiedKFold(n_splits=3, n_repeats=3, random_state=0),
        inner_cv=3,
        alphas=4,
        smoothnesses=3,
        progress=False,
    )
    for name, mean in zip(result.summary["method"], result.summary["mean"], strict=True):
        print(f"{name:12} {mean:.3f}")
    print(result.verdict)
    model = SuquanCox(random_state=0).fit(X, y)
    print("free of the event at time 1:", model.predict_survival_function(X[:3], 1.0).round(2).T)
    figure = Figure(figsize=(9, 3.8), layout="constrained")
    left, right = figure.subplots(1, 2)
    RiskGroupDisplay.from_result(result, ax=left)
    TargetQuantileDisplay.from_estimator(model, comparison=result, ax=right)
    out.mkdir(parents=True, exist_ok=True)
    figure.savefig(out / "survival.png", dpi=110)
    print(f"picture: {out / 'survival.png'}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("demo-output"), help="folder to write to")
    main(parser.parse_args().out)
