"""Compare the variants: ``python -m experiments.recipes.explore --data DIR --out DIR [--sets NAME]``."""

from __future__ import annotations

import argparse
import warnings
from contextlib import nullcontext
from pathlib import Path

import numpy as np
from sklearn.model_selection import RepeatedStratifiedKFold

from suquan import compare

from ..expression.data import load_dataset
from ..tables import Row, distinct, grouped, mean_of, read_rows, where, write_rows
from .variants import CHANGES, NAMES, PARAMETERS, STEPS, make_changed

SETS = {
    "choose": ("breast_vdx150", "breast_veer78", "breast_nki295", "dlbcl_chop414"),
    "confirm": ("breast_sotiriou99", "breast_gse3143", "breast_biospear614"),
}
FIXED = ("median", "normal", "uniform", "exponential")


def main() -> None:
    """Run what is not done yet, then write the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=None)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--sets", choices=list(SETS), default="choose")
    parser.add_argument("--variants", nargs="*", choices=NAMES, default=NAMES)
    parser.add_argument("--outer-repeats", type=int, default=2)
    parser.add_argument("--inner-repeats", type=int, default=2)
    parser.add_argument("--n-knots", type=int, default=30)
    parser.add_argument("--n-jobs", type=int, default=1)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    inner = RepeatedStratifiedKFold(n_splits=3, n_repeats=options.inner_repeats, random_state=0)
    for name in SETS[options.sets]:
        for variant in ("fixed", *options.variants):
            path = options.out / f"{name}-{variant}.csv"
            if not path.is_file():
                rows = run_one(name, variant, inner, options)
                write_rows(path, rows)
                print(
                    name,
                    variant,
                    np.round(100 * np.mean([r["score"] for r in rows]), 2),
                    flush=True,
                )
    write_rows(options.out / f"{options.sets}.csv", summary(options.out, SETS[options.sets]))


def run_one(name, variant, inner, options) -> list[Row]:
    """Scores of one variant (or of the fixed targets) over the outer folds of one data set."""
    dataset = load_dataset(name, options.data, "label")
    settings = {"n_knots": options.n_knots, "departures": [1.0], **PARAMETERS.get(variant, {})}
    if variant == "fixed":
        methods: list = list(FIXED)
    elif variant in CHANGES:
        methods = [(variant, make_changed(variant, options.n_knots, inner))]
    else:
        methods = ["svd" if variant == "svd" else "crossfit"]
    with warnings.catch_warnings(), STEPS.get(variant, nullcontext)():
        warnings.simplefilter("ignore")
        result = compare(
            dataset.X,
            dataset.y,
            methods=methods,
            outer_cv=RepeatedStratifiedKFold(
                n_splits=3, n_repeats=options.outer_repeats, random_state=0
            ),
            inner_cv=inner,
            n_jobs=1 if variant in STEPS else options.n_jobs,  # other processes have the library's
            progress=False,
            **settings,
        )
    keys = ("method", "repeat", "fold", "score", "seconds")
    columns = [result.folds[key].tolist() for key in keys]
    rows = [dict(zip(keys, row, strict=True)) for row in zip(*columns, strict=True)]
    if methods != list(FIXED):
        rows = [row for row in rows if row["method"] not in ("start", "best_fixed")]
    shown = {"crossfit": variant}
    return [
        {"dataset": name} | row | {"method": shown.get(row["method"], row["method"])}
        for row in rows
    ]


def summary(folder: Path, names: tuple[str, ...]) -> list[Row]:
    """Mean AUC × 100 of every variant on every data set, and the average."""
    folds = [
        row
        for name in names
        for path in sorted(folder.glob(f"{name}-*.csv"))
        for row in read_rows(path)
    ]
    means = grouped(folds, ["dataset", "method"], auc=mean_of("score"))
    rows = []
    for method in distinct(means, "method"):
        found = {row["dataset"]: 100 * row["auc"] for row in where(means, method=method)}
        if len(found) == len(names):
            rows.append(
                {"method": method, **found, "average": float(np.mean(list(found.values())))}
            )
    return sorted(rows, key=lambda row: -row["average"])


if __name__ == "__main__":
    main()
