"""Scores of samples by the model in this folder, with NumPy: python score.py TABLE.csv SCORES.csv [ignore].

TABLE.csv has a row per sample: its name, then features by name. With "ignore" a missing value counts as its
mean over the training samples; features with at least half of the weight must be there. A sample with one value
throughout has no order to read, and its score stays empty.
"""

import csv
import json
import re
import sys
from collections import Counter
from pathlib import Path

import numpy as np

MISSING = ("", "NA", "NaN", "nan", "null", "NULL")
NUMBER = re.compile(r"[ \t]*[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?[ \t]*")


def normalise(x, f, ties):
    """f, a function on (0, 1), at the places (k + ½)/m of the m values of x that are there; 0 for others."""
    seen = np.flatnonzero(~np.isnan(x))
    m, p = len(seen), len(f)
    _, first, block, size = np.unique(x[seen], True, True, True)
    place = np.empty(m)
    place[np.argsort(x[seen], kind="stable")] = np.arange(m)
    if ties == "mean_rank":
        place = place[first][block] + 0.5 * (size[block] - 1)
    values = np.interp((place + 0.5) / max(m, 1), (np.arange(p) + 0.5) / p, f)
    if ties == "average":
        values = (np.bincount(block, values, len(size)) / size)[block]
    out = np.zeros(p)
    out[seen] = values
    return out


def read(path):
    """Rows of a CSV file, all of the same length."""
    with open(path, encoding="utf-8-sig", newline="") as file:
        rows = [row for row in csv.reader(file) if row]
    for row in rows:
        if len(row) != len(rows[0]):
            sys.exit(f"{path}: row {row[0]} has {len(row)} cells, the header has {len(rows[0])}")
    return rows


def number(cell, sample, feature):
    """Value of a cell, NaN where it is missing."""
    value = np.nan if cell in MISSING else float(cell) if NUMBER.fullmatch(cell) else np.inf
    if np.isinf(value):
        sys.exit(f"sample {sample}, feature {feature}: {cell} is not a finite number")
    return value


def main(table, out, missing=None):
    """Score the samples of a table; missing="ignore" overrides the rule of the model."""
    folder = Path(__file__).parent
    model = json.loads((folder / "model.json").read_text("utf-8"))
    _, *targets = zip(*read(folder / "targets.csv")[1:], strict=True)
    features, *weights = zip(*read(folder / "coefficients.csv")[1:], strict=True)
    _, *means = zip(*read(folder / "missing.csv")[1:], strict=True)
    W, parts = np.array(weights, dtype=float), np.array(means, dtype=float)
    header, *rows = read(table) or [[]]
    if not rows:
        sys.exit(f"{table}: there is no sample")
    for side in (header, [row[0] for row in rows]):
        name, count = Counter(side).most_common(1)[0]
        if count > 1:
            sys.exit(f"{table}: {name} occurs more than once")
    names = header[1:]
    if not model["named"] and len(names) != len(features):
        sys.exit(f"{table}: there are {len(names)} features, the model has {len(features)}")
    place = dict(zip(names if model["named"] else features, range(1, len(names) + 1), strict=False))
    there = np.array([name in place for name in features])
    X = np.full((len(rows), len(features)), np.nan)
    for j in np.flatnonzero(there):
        X[:, j] = [number(row[place[features[j]]], row[0], features[j]) for row in rows]
    if not there.any():
        sys.exit(f"{table}: none of the model's {len(there)} features is there")
    if "ignore" not in (model["missing"], missing) and np.isnan(X).any():
        j = np.flatnonzero(np.isnan(X).any(axis=0))[0]
        sys.exit(f"missing: {features[j]}; give 'ignore' to skip what is missing")
    size = np.abs(W).sum(axis=0)
    lost = size[~there].sum() / max(size.sum(), np.finfo(float).tiny)
    if lost > 0.5:
        sys.exit(f"{table}: missing features have {lost:.1%} of the weight, at most 50.0% may be")
    W = W.reshape(len(model["scores"]), len(targets), -1)
    scores = np.array(model["intercept"]) + np.isnan(X) @ parts.T
    for f, w in zip(np.array(targets, dtype=float), W.transpose(1, 2, 0), strict=True):
        scores += np.array([normalise(x, f, model["ties"]) for x in X]) @ w
    if model["loss"] == "poisson":
        scores = np.exp(scores)
    with open(out, "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["sample", *model["scores"]])
        for row, x, values in zip(rows, X, scores.tolist(), strict=True):
            has_order = len(np.unique(x[~np.isnan(x)])) > 1  # else there is nothing to read
            writer.writerow([row[0], *(values if has_order else [""] * len(values))])


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except (OSError, ValueError, csv.Error) as error:
        sys.exit(f"score.py: {error}")
