"""How often the verdict of ``compare`` is right, on simulated data.

Power: the true target is none of the fixed ones, so learning it should help, and be the better choice. False
claims: the true target is one of the fixed ones. Then "better" than the best alternative would be wrong, and
learning helps only where the true target is not the initial one, uniform. One comparison per seed: n = 2,000
samples of 50 features, 2 × 3 outer and 3 inner folds. Every finished comparison is kept in the table at once;
started again, the study goes on there.
"""

from __future__ import annotations

import argparse
import csv
import sys
from pathlib import Path

import numpy as np
from joblib import Parallel, delayed
from sklearn.model_selection import RepeatedStratifiedKFold, StratifiedKFold
from sklearn.preprocessing import scale

from benchmarks._table import RESULTS, markdown, write_csv
from suquan import compare, make_target_quantiles
from suquan.datasets import make_corrupted_classification, skewed_mixture, two_steps

FIXED = ("median", "mean", "normal", "uniform", "exponential", "cauchy")
LISTED = ("normal", "uniform", "exponential", "cauchy")
# The two contrasts of the verdict: learned − start, and learned − best_fixed.
QUESTIONS = {
    "learning": ("helps", "no difference", "hurts"),
    "choice": ("better", "no difference", "worse"),
}
NUMBERS = ("difference", "low", "high")
UNLISTED = {"skewed mixture": skewed_mixture, "two steps": two_steps}


def make_problem(target, seed, n_samples=2000, n_features=50):
    """Labels from samples with this target, of mean 0 and variance 1; the samples are shown with another."""
    f = make_target_quantiles(UNLISTED.get(target, target), n_features)
    shown = "normal" if target == "uniform" else "uniform"
    return make_corrupted_classification(
        n_samples, n_features, target=scale(f), corrupted=shown, random_state=seed
    )


def judge(target, seed, n_samples=2000, n_features=50, outer_repeats=2):
    """Row of one comparison."""
    X, y = make_problem(target, seed, n_samples, n_features)
    result = compare(
        X,
        y,
        methods=[*FIXED, "crossfit"],
        outer_cv=RepeatedStratifiedKFold(n_splits=3, n_repeats=outer_repeats, random_state=seed),
        inner_cv=StratifiedKFold(3),
        alphas=4,
        smoothnesses=3,
        random_state=seed,
        progress=False,
    )
    row = {"target": target, "seed": seed}
    for k, (question, answers) in enumerate(QUESTIONS.items()):
        found = {name: float(result.contrasts[name][k]) for name in NUMBERS}
        says = answers[0 if found["low"] > 0 else 2 if found["high"] < 0 else 1]
        row |= {f"{question}_{name}": value for name, value in found.items()}
        row[question] = says
    return row | {"folds_learned": int(np.sum(result.folds["rounds"] > 0))}


def cases(n_seeds):
    """Pairs (target, seed): `n_seeds` for each unlisted target, and as many shared by the listed ones."""
    power = [(target, seed) for target in UNLISTED for seed in range(n_seeds)]
    return power + [(LISTED[seed % len(LISTED)], seed) for seed in range(n_seeds)]


def count(rows):
    """Table of what the verdict says by true target."""
    table = []
    groups = [*((name, (name,)) for name in UNLISTED), *((name, (name,)) for name in LISTED)]
    for name, targets in [*groups, ("all listed targets", LISTED)]:
        part = [row for row in rows if row["target"] in targets]
        if part:
            found = {"true target": name, "comparisons": len(part)}
            for question, words in QUESTIONS.items():
                answers = [row[question] for row in part]
                found |= {word: answers.count(word) for word in (words[0], words[2])}
                mean = float(np.mean([row[f"{question}_difference"] for row in part]))
                found[f"learned − {'start' if question == 'learning' else 'best_fixed'}"] = mean
            table.append(found)
    return table


def read_rows(path):
    """Rows of an earlier, unfinished run."""
    if not path.exists():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        return [
            {
                **row,
                "seed": int(row["seed"]),
                "folds_learned": int(row["folds_learned"]),
                **{f"{q}_{name}": float(row[f"{q}_{name}"]) for q in QUESTIONS for name in NUMBERS},
            }
            for row in csv.DictReader(file)
        ]


def run(n_seeds, path: Path, n_jobs):
    """All comparisons, those in the table at `path` excepted."""
    rows = read_rows(path)
    done = {(row["target"], row["seed"]) for row in rows}
    todo = [case for case in cases(n_seeds) if case not in done]
    results = Parallel(n_jobs=n_jobs, return_as="generator_unordered")(
        delayed(judge)(*case) for case in todo
    )
    for row in results:
        rows.append(row)
        rows.sort(key=lambda r: (r["target"], r["seed"]))
        write_csv(path, rows)
        if sys.stderr.isatty() or len(rows) % 20 == 0:
            print(f"{len(rows)} of {len(todo) + len(done)}", file=sys.stderr, flush=True)
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--n-jobs", type=int, default=2)
    arguments = parser.parse_args()
    table = count(run(arguments.seeds, RESULTS / "verdict.csv", arguments.n_jobs))
    print(markdown(table))
    text = (
        "**What the verdict of `compare` says** where the answer is known, with n = 2,000 samples and p = 50 "
        "features: learning helps or hurts (learned − start), the learned target is better or worse than the "
        f"best alternative (learned − best_fixed).\n\n{markdown(table)}\n"
    )
    (RESULTS / "verdict-summary.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
