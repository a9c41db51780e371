"""``suquan inspect``: a model file in, what it holds as lines and tables out."""

from typing import Any

import numpy as np

from suquan.cli._options import Inspect
from suquan.cli._output import Output, number
from suquan.cli._predict import class_names
from suquan.persistence import read_model
from suquan.plotting._targets import nearest_target
from suquan.report._model import largest_weights, target_rows

TARGET = ("target", "share", "singular_value", "nearest", "distance")  # in the JSON object
HIDDEN = {"class_names", "class_counts", "label_options"}  # told in other words


def run(options: Inspect, output: Output) -> None:
    """Show what a model file holds."""
    file = read_model(options.model)
    model, names, summary = file.estimator, class_names(file), file.summary
    output.say(f"{options.model}: {type(model).__name__}", strong=True)
    output.say("written by " + ", ".join(f"{name} {v}" for name, v in file.versions.items()))
    counts: Any = summary.get("class_counts")
    counts = counts if isinstance(counts, dict) else {}
    told = [f"{n} ({counts[n]:,} samples)" if type(counts.get(n)) is int else n for n in names]
    if names:
        output.say(f"classes {', '.join(told)}")
    facts = {
        **{key: value for key, value in summary.items() if key not in HIDDEN},
        "ties": model.ties,
        "missing": model.missing,
        **_calibration(model),
        "feature scaling": getattr(model, "feature_scaling", "none"),
        "feature names": "yes" if hasattr(model, "feature_names_in_") else "no",
    }
    output.table(["what", "value"], [[name, number(value)] for name, value in facts.items()])
    targets = target_rows(model)
    nearest, distance = nearest_target(np.atleast_2d(model.target_quantiles_)[0])
    if targets:
        rows = [[k, f"{share:.2%}", *rest] for k, share, *rest in targets]
        columns = ["target", "share of the norm", "singular value", "nearest", "distance"]
        output.say(f"targets of {model.n_features_in_:,} values", strong=True)
        output.table(columns, rows)
    else:
        output.say(
            f"target: {len(model.target_quantiles_):,} values, nearest to the {nearest} distribution "
            f"(root mean square distance {distance:.3f}, its own size being 1)"
        )
    top = largest_weights(model, options.top) if hasattr(model, "coef_") else []
    if top:
        weights = ["weight"] if len(names) <= 2 else [f"weight {name}" for name in names]
        shown = [[name, *values, f"{share:.2%}"] for name, values, share in top]
        several = getattr(model, "n_targets_", 1) > 1
        output.say("largest weights" + ", summed over targets" * several, strong=True)
        output.table(["feature", *weights, "share of all"], shown)
    for note in file.notes:
        output.say(f"note: {note}")
    output.keep(
        estimator=type(model).__name__,
        versions=file.versions,
        classes=names,
        summary=summary,
        parameters=model.get_params(deep=False),
        n_features=model.n_features_in_,
        nearest_target={"name": nearest, "distance": distance},
        targets=[dict(zip(TARGET, row, strict=True)) for row in targets],
        top_features=[{"feature": name, "weights": values} for name, values, _ in top],
        notes=file.notes,
    )


def _calibration(model: Any) -> dict[str, str]:
    """Tell how probabilities follow from scores, where that was learned: the kind, and its numbers."""
    found = getattr(model, "calibration_", None) or {}
    numbers = {k: v for k, v in found.items() if np.ndim(v) == 0 and k != "kind"}
    told = ", ".join(f"{name} {value:.4g}" for name, value in numbers.items())
    return {"calibration": f"{found['kind']} {told}".strip()} if found else {}
