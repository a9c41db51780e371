"""A fitted model as plain files that others can score with: CSV, JSON, and scorers in R and NumPy.

A model goes in; its tables, settings and scorers come out, for :func:`suquan.save_model` into a zip, and for
``suquan export`` into a folder. The scorers `score.R` and `score.py` are beside this file.
"""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from suquan._version import __version__
from suquan.files.disk import replaced
from suquan.files.model_zip import as_csv

__all__ = ["export_model"]

SCORERS = ("score.R", "score.py")


def export_model(
    model: Any,
    directory: Any,
    *,
    class_names: Iterable[str] | None = None,
    summary: dict[str, Any] | None = None,
) -> Path:
    """Write a fitted model to a new folder of plain files, those that its model file holds.

    ===================== ==================================================================================
    ``targets.csv``       a row per place, lowest first; a column per target
    ``coefficients.csv``  a row per feature; a column per score, with several targets per score and target
    ``missing.csv``       a row per feature: what it adds to each score where it is missing, its training mean
    ``model.json``        intercepts, calibration, names of scores and classes, rules for ties and missing
    ``score.R, score.py`` reference scorers: base R, and NumPy
    ===================== ==================================================================================

    The score of two classes is one number, > 0 for the second. In regression the scorers give the predicted
    value.

    Parameters
    ----------
    model : estimator
        A fitted classifier or regressor of this library.
    directory : path
        Must not exist; it is there whole or not at all.
    class_names : iterable of str, default=None
        What to call ``classes_``; None: their own names.
    summary : dict, default=None
        What to record about the training.

    Returns
    -------
    Path

    Raises
    ------
    FileExistsError
        If the folder exists.
    ValueError
        If the model does not score.

    Examples
    --------
    >>> import os, tempfile
    >>> from suquan import SuquanClassifier
    >>> from suquan.datasets import make_corrupted_classification
    >>> from suquan.export import export_model
    >>> X, y = make_corrupted_classification(60, 30, random_state=0)
    >>> model = SuquanClassifier(random_state=0).fit(X, y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     sorted(os.listdir(export_model(model, os.path.join(folder, "model"))))
    ['coefficients.csv', 'missing.csv', 'model.json', 'score.R', 'score.py', 'targets.csv']
    """
    check_is_fitted(model)
    path = Path(directory)
    if not hasattr(model, "predict"):
        raise ValueError(
            f"a {type(model).__name__} normalises and does not score; export a classifier or regressor."
        )
    if path.exists() or path.is_symlink():
        raise FileExistsError(f"{path} exists; give the name of a folder that does not.")
    parts, _ = plain_parts(model, class_names, summary or {})
    with replaced(path) as new:
        new.mkdir()
        for name, data in parts.items():
            (new / name).write_bytes(data)
    return path


def plain_parts(
    model: Any, class_names: Iterable[str] | None, training: dict[str, Any]
) -> tuple[dict[str, bytes], dict[str, np.ndarray]]:
    """Bytes of all plain files of a model by name, and the numbers of its targets and coefficients."""
    targets, p, b = model._targets, model.n_features_in_, model.intercept_
    W, parts = model.coef_.reshape(len(b), len(targets), p), model._missing_parts
    classes = None
    if hasattr(model, "classes_"):
        classes = [str(name) for name in (model.classes_ if class_names is None else class_names)]
    if classes is not None and len(classes) == 2 and len(b) == 2:  # as decision_function has it
        W, b, parts = (both[1:] - both[:1] for both in (W, b, parts))
    scores = ["risk" if hasattr(model, "baseline_times_") else "prediction"]
    if classes is not None:
        scores = ["score"] if len(b) == 1 else classes
    copies = [f"__{k + 1}" for k in range(len(targets))] if len(targets) > 1 else [""]
    names = getattr(model, "feature_names_in_", None)
    features = [f"x{j}" for j in range(p)] if names is None else names
    calibration = getattr(model, "calibration_", None) or {}
    told = {
        "format": "suquan export 2",
        "suquan": __version__,
        "estimator": type(model).__name__,
        "training": training,  # first: score.R takes the last field of a name
        "classes": classes,
        "calibration": {k: np.asarray(v).tolist() for k, v in calibration.items()} or None,
        "scores": scores,
        "loss": model._fitted_loss.name,
        "n_features": p,
        "n_targets": len(targets),
        "named": names is not None,
        "ties": model.ties,
        "missing": model.missing,
        "intercept": b.tolist(),
    }
    W = W.reshape(-1, p)
    of_targets = ["place", *(f"target{copy}" for copy in copies)]
    of_weights = ["feature", *(score + copy for score in scores for copy in copies)]
    files = {
        "targets.csv": as_csv(of_targets, range(1, p + 1), targets),
        "coefficients.csv": as_csv(of_weights, features, W),
        "missing.csv": as_csv(["feature", *scores], features, parts),
        "model.json": (json.dumps(told, indent=1) + "\n").encode(),
    }
    files |= {name: Path(__file__).with_name(name).read_bytes() for name in SCORERS}
    return files, {"targets.csv": targets, "coefficients.csv": W}
