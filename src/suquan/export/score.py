"""Scores of samples by the model in this folder, with NumPy: python score.py TABLE.csv SCORES.csv [ignore].

TABLE.csv has a row per sample: its name, then features by name. "ignore" skips missing values and features.
"""

import csv
import json
import sys
from pathlib import Path

import numpy as np


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
    """Rows of a CSV file."""
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.reader(file))


def main(table, out, missing=None):
    """Score the samples of a table; missing="ignore" overrides the rule of the model."""
    folder = Path(__file__).parent
    model = json.loads((folder / "model.json").read_text("utf-8"))
    _, *targets = zip(*read(folder / "targets.csv")[1:], strict=True)
    features, *weights = zip(*read(folder / "coefficients.csv")[1:], strict=True)
    (_, *names), *rows = read(table)
    place = dict(zip(names if model["named"] else features, range(1, len(names) + 1), strict=False))
    X = np.full((len(rows), len(features)), np.nan)
    for j, name in enumerate(features):
        if name in place:
            cells = [row[place[name]] for row in rows]
            X[:, j] = [np.nan if cell in ("", "NA") else float(cell) for cell in cells]
    if "ignore" not in (model["missing"], missing) and np.isnan(X).any():
        j = np.flatnonzero(np.isnan(X).any(axis=0))[0]
        sys.exit(f"missing: {features[j]}; give 'ignore' to skip what is missing")
    W = np.array(weights, dtype=float).reshape(len(model["scores"]), len(targets), -1)
    scores = np.tile(model["intercept"], (len(X), 1))
    for f, w in zip(np.array(targets, dtype=float), W.transpose(1, 2, 0), strict=True):
        scores += np.array([normalise(x, f, model["ties"]) for x in X]) @ w
    if model["loss"] == "poisson":
        scores = np.exp(scores)
    with open(out, "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["sample", *model["scores"]])
        writer.writerows(
            [row[0], *values] for row, values in zip(rows, scores.tolist(), strict=True)
        )


if __name__ == "__main__":
    main(*sys.argv[1:])
