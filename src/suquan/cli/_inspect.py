"""``suquan inspect``: a model file in, what it holds as lines and tables out."""

import numpy as np

from suquan.cli._options import Inspect
from suquan.cli._output import Output, number
from suquan.cli._predict import class_names
from suquan.persistence import read_model
from suquan.plotting._targets import nearest_target, target_names
from suquan.report._model import largest_weights

HIDDEN = {"class_names", "class_counts"}  # told in a line of their own


def run(options: Inspect, output: Output) -> None:
    """Show what a model file holds."""
    file = read_model(options.model)
    model = file.estimator
    output.say(f"{options.model}: {type(model).__name__}", strong=True)
    output.say("written by " + ", ".join(f"{name} {v}" for name, v in file.versions.items()))
    names = class_names(file)
    counts = file.summary.get("class_counts", {})
    counts = counts if isinstance(counts, dict) else {}
    told = [f"{n} ({counts[n]:,} samples)" if type(counts.get(n)) is int else n for n in names]
    if names:
        output.say(f"classes {', '.join(told)}")
    facts = {
        **{key: value for key, value in file.summary.items() if key not in HIDDEN},
        "ties": model.ties,
        "missing": model.missing,
        "feature names": "yes" if hasattr(model, "feature_names_in_") else "no",
    }
    output.table(["what", "value"], [[name, number(value)] for name, value in facts.items()])
    targets, names_of_targets = np.atleast_2d(model.target_quantiles_), target_names(model)
    for target, name in zip(targets, names_of_targets, strict=True):
        near, away = nearest_target(target)
        output.say(
            f"{name}: {len(target):,} values, nearest to the {near} distribution (root mean square distance "
            f"{away:.3f}, its own size being 1)"
        )
    nearest, distance = nearest_target(targets[0])
    top = largest_weights(model, options.top) if hasattr(model, "coef_") else []
    if top:
        weights = ["weight"] if len(names) <= 2 else [f"weight {name}" for name in names]
        rows = [[name, *values, f"{share:.2%}"] for name, values, share in top]
        output.table(["feature", *weights, "share of all"], rows, title="largest weights")
    for note in file.notes:
        output.say(f"note: {note}")
    parameters = {
        key: value if isinstance(value, str | int | float | bool | list | None) else str(value)
        for key, value in model.get_params(deep=False).items()
    }
    output.keep(
        estimator=type(model).__name__,
        versions=file.versions,
        classes=names,
        summary=file.summary,
        parameters=parameters,
        n_features=model.n_features_in_,
        nearest_target={"name": nearest, "distance": distance},
        top_features=[{"feature": name, "weights": values} for name, values, _ in top],
        notes=file.notes,
    )
