"""The variants on the paper's simulation: ``python -m experiments.recipes.simulation --out DIR``.

Variants that start from the uniform target see ranks alone, so that no corruption of the samples is needed.
"""

from __future__ import annotations

import argparse
import warnings
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import RepeatedStratifiedKFold

from suquan import SuquanClassifierCV
from suquan.datasets import make_corrupted_classification

from ..tables import Row, write_rows
from .variants import CHANGES, NAMES, PARAMETERS, STEPS, make_changed

N_FEATURES, N_TEST = 1000, 1000


def main() -> None:
    """Fit the variants to every draw and write their scores."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--variants", nargs="*", choices=NAMES, default=("default", "svd_mixed"))
    parser.add_argument("--samples", nargs="*", type=int, default=(500, 2000))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--n-knots", type=int, default=30)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    rows: list[Row] = []
    for n_samples in options.samples:
        for seed in range(options.seeds):
            for variant in ("true", *options.variants):
                score = run_one(variant, n_samples, seed, options.n_knots)
                rows.append({"method": variant, "n": n_samples, "seed": seed, "auc": score})
                print(variant, n_samples, seed, f"{score:.4f}", flush=True)
    write_rows(options.out / "simulation.csv", rows)


def run_one(variant: str, n_samples: int, seed: int, n_knots: int) -> float:
    """AUC on test samples of one variant, or of the target that the labels were made with."""
    X, y = make_corrupted_classification(
        n_samples + N_TEST, N_FEATURES, target="normal", corrupted="normal", random_state=seed
    )
    inner = RepeatedStratifiedKFold(n_splits=3, n_repeats=1, random_state=0)
    model: Any
    if variant in CHANGES:
        model = make_changed(variant, n_knots, inner)
    else:
        parameters: dict[str, Any] = {"n_knots": n_knots, "departures": [1.0]}
        parameters |= PARAMETERS.get(variant, {})
        if "cv" in parameters:
            parameters["crossfit_cv"] = parameters.pop("cv")
        method = {"true": "fixed", "svd": "svd"}.get(variant, "crossfit")
        if variant == "true":
            parameters = {"init": "normal"}
        model = SuquanClassifierCV(method, cv=inner, random_state=0, **parameters)
    with warnings.catch_warnings(), STEPS.get(variant, nullcontext)():
        warnings.simplefilter("ignore")
        model.fit(X[:n_samples], y[:n_samples])
    return float(roc_auc_score(y[n_samples:], np.asarray(model.decision_function(X[n_samples:]))))


if __name__ == "__main__":
    main()
