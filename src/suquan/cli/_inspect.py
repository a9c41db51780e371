"""``suquan inspect``: a model file in, what it holds as lines and tables out."""

from __future__ import annotations

from typing import Any

import numpy as np

from suquan.cli._options import Inspect
from suquan.cli._output import Output, number
from suquan.cli._predict import class_names
from suquan.persistence import ModelFile, read_model
from suquan.targets import NAMED, make_target_quantiles

HIDDEN = {"class_names", "class_counts"}  # told in a line of their own


def run(options: Inspect, output: Output) -> None:
    """Show what a model file holds."""
    file = read_model(options.model)
    model = file.estimator
    output.say(f"{options.model}: {type(model).__name__}", strong=True)
    output.say("written by " + ", ".join(f"{name} {v}" for name, v in file.versions.items()))
    names = class_names(file)
    counts = file.summary.get("class_counts", {})
    if names:
        output.say("classes " + ", ".join(_with_count(name, counts) for name in names))
    facts = {
        **{key: value for key, value in file.summary.items() if key not in HIDDEN},
        "ties": model.ties,
        "missing": model.missing,
        "feature names": "yes" if hasattr(model, "feature_names_in_") else "no",
    }
    output.table(["what", "value"], [[name, number(value)] for name, value in facts.items()])
    nearest = nearest_target(model.target_quantiles_)
    output.say(
        f"target: {len(model.target_quantiles_):,} values, nearest to the {nearest[0]} distribution "
        f"(root mean square distance {nearest[1]:.3f}, its own size being 1)"
    )
    top = top_features(model, options.top)
    if top:
        weights = ["weight"] if len(names) <= 2 else [f"weight {name}" for name in names]
        output.table(["feature", *weights, "share of all"], top, title="largest weights")
    for note in file.notes:
        output.say(f"note: {note}")
    output.keep(**_as_json(file, names, nearest, top))


def _with_count(name: str, counts: Any) -> str:
    count = counts.get(name) if isinstance(counts, dict) else None
    return f"{name} ({count:,} samples)" if isinstance(count, int) else name


def nearest_target(f: np.ndarray) -> tuple[str, float]:
    """Named target that is nearest, and its distance, all of mean 0 and mean square 1."""

    def standard(values: np.ndarray) -> np.ndarray:
        centred = values - values.mean()
        return centred / (np.sqrt(np.mean(centred**2)) or 1.0)

    named = {name: standard(make_target_quantiles(name, len(f))) for name in NAMED}
    distances = {name: float(np.sqrt(np.mean((standard(f) - g) ** 2))) for name, g in named.items()}
    return min(distances.items(), key=lambda item: item[1])


def top_features(model: Any, n_top: int) -> list[list[Any]]:
    """Name, weights and share of the sum of all |w| of the heaviest features."""
    if not hasattr(model, "coef_"):
        return []
    names = getattr(model, "feature_names_in_", None)
    if names is None:
        names = np.array([f"column {j}" for j in range(model.n_features_in_)])
    size = np.abs(model.coef_).sum(axis=0)
    total = float(size.sum())
    order = np.argsort(-size, kind="stable")[:n_top]
    return [
        [str(names[j]), *model.coef_[:, j].tolist(), f"{size[j] / total:.2%}"]
        for j in order
        if size[j] > 0
    ]


def _as_json(
    file: ModelFile, names: list[str], nearest: tuple[str, float], top: list[list[Any]]
) -> dict[str, Any]:
    model = file.estimator
    parameters = {
        key: value if isinstance(value, str | int | float | bool | list | None) else str(value)
        for key, value in model.get_params(deep=False).items()
    }
    return {
        "estimator": type(model).__name__,
        "versions": file.versions,
        "classes": names,
        "summary": file.summary,
        "parameters": parameters,
        "n_features": model.n_features_in_,
        "nearest_target": {"name": nearest[0], "distance": nearest[1]},
        "top_features": [{"feature": row[0], "weights": row[1:-1]} for row in top],
        "notes": file.notes,
    }
