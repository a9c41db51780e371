"""Saved models: one file that holds data alone, and gives the same predictions bit for bit.

A fitted estimator goes in and comes out. A model file (``.suquan``) is a zip of what `suquan.export` writes and
of ``estimator.json``: versions, class, parameters, attributes, training summary. Every array is a CSV, all else
is JSON. Reading executes nothing, and makes objects of this library alone. The checksums find damage; they
do not tell who wrote the file. See docs/design/model_files.md.
"""

import csv
import platform
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import sklearn
from sklearn.utils.validation import check_is_fitted

from suquan import export
from suquan._version import __version__
from suquan.files import model_zip as container
from suquan.files.model_json import ESTIMATORS, Decoder, Encoder
from suquan.files.model_zip import ModelFileError, require
from suquan.files.old_models import convert

__all__ = ["ModelFile", "ModelFileError", "load_model", "read_model", "save_model"]

SCHEMA = 5  # arrays are CSV; before, they were .npy, and `suquan.files.old_models` reads such files
_SUMMARY = ("alpha_", "smoothness_", "objective_", "n_rounds_", "n_iter_", "best_score_", "departure_",
            "n_targets_", "duality_gap_")  # fmt: skip
# What a header that no encoder wrote makes of the decoder.
_NO_MODEL = (
    TypeError,
    ValueError,
    LookupError,
    AttributeError,
    ArithmeticError,
    RecursionError,
    csv.Error,
)


@dataclass(frozen=True)
class ModelFile:
    """What a model file holds.

    Attributes
    ----------
    estimator : estimator
    versions : dict
        Of suquan, Python, NumPy and scikit-learn at the time of writing.
    summary : dict
        What was recorded about the training.
    notes : list of str
        What could not be kept as it was.
    """

    estimator: Any
    versions: dict[str, str]
    summary: dict[str, Any]
    notes: list[str]


def save_model(estimator: Any, path: Any, *, summary: dict[str, Any] | None = None) -> Path:
    """Save a fitted estimator in one file.

    Parameters
    ----------
    estimator : estimator
        A fitted estimator of this library.
    path : path
        Written in one move; ends in ".suquan" by custom.
    summary : dict, default=None
        What to record about the training: text, numbers, and lists and dicts of them.

    Returns
    -------
    Path

    Raises
    ------
    NotFittedError, suquan.persistence.ModelFileError
        If the estimator is not fitted, or its fitted attributes do not fit each other.
    TypeError
        If it is not one of this library, or holds something else than numbers and text, such as a loss or
        a method of your own.

    Warns
    -----
    UserWarning
        If a parameter cannot be kept as it is. A function or distribution as target is kept by its values; a
        scorer, a random generator or a splitter other than scikit-learn's loads as the default. No
        prediction depends on it.

    Examples
    --------
    >>> import os, tempfile
    >>> import numpy as np
    >>> from suquan import QuantileNormalizer, load_model, save_model
    >>> X = np.random.default_rng(0).exponential(size=(5, 100))
    >>> model = QuantileNormalizer("median").fit(X)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = save_model(model, os.path.join(folder, "normalizer.suquan"))
    ...     same = load_model(path)
    >>> np.array_equal(same.transform(X), model.transform(X))
    True
    """
    check_is_fitted(estimator)
    encoder = Encoder()
    encoded = encoder.estimator(estimator)
    told = {"method": getattr(estimator, "method_", getattr(estimator, "method", None))}
    told["n_features"] = estimator.n_features_in_
    told |= {name.removesuffix("_"): getattr(estimator, name, None) for name in _SUMMARY}
    told = {name: value for name, value in told.items() if value is not None} | (summary or {})
    training = encoder.value(told, "summary")
    parts: dict[str, bytes] = {}
    if hasattr(estimator, "predict"):
        names = told.get("class_names")
        fits = isinstance(names, list) and len(names) == len(getattr(estimator, "classes_", ()))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a model without training means, of an older file
            parts, tables = export.plain_parts(estimator, names if fits else None, training)
        encoder.share(tables)
    parts["README.txt"] = Path(export.__file__).with_name("README.txt").read_bytes()
    header = {
        "format": container.FORMAT,
        "schema": SCHEMA,
        "versions": {
            "suquan": __version__,
            "python": platform.python_version(),
            "numpy": np.__version__,
            "scikit-learn": sklearn.__version__,
        },
        "estimator": encoded,
        "training": training,
        "notes": encoder.notes,
    }
    for note in encoder.notes:
        warnings.warn(note, UserWarning, stacklevel=2)
    return container.write_container(path, header, parts | encoder.parts)


def load_model(path: Any) -> Any:
    """Load an estimator that :func:`save_model` has saved; nothing in the file is executed.

    Parameters
    ----------
    path : path

    Returns
    -------
    estimator
        With the same predictions, bit for bit.

    Raises
    ------
    suquan.persistence.ModelFileError
        If the file is not a model file, is damaged or altered, or was written by a newer version.

    Examples
    --------
    >>> import os, tempfile
    >>> from suquan import SuquanClassifier, load_model, save_model
    >>> from suquan.datasets import make_corrupted_classification
    >>> X, y = make_corrupted_classification(60, 30, random_state=0)
    >>> model = SuquanClassifier(random_state=0).fit(X, y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = save_model(model, os.path.join(folder, "classifier.suquan"))
    ...     same = load_model(path)
    >>> bool((same.predict_proba(X) == model.predict_proba(X)).all())
    True
    """
    return read_model(path).estimator


def read_model(path: Any) -> ModelFile:
    """Read the estimator of a model file, and what else is recorded there.

    Parameters
    ----------
    path : path

    Returns
    -------
    ModelFile
    """
    try:
        header, parts = container.read_container(path, _check_schema)
        arrays: dict[str, np.ndarray] = {}
        if header["schema"] < SCHEMA:
            header, arrays = convert(header, parts)
        decoder = Decoder(parts, arrays, [str(note) for note in header["notes"]])
        estimator = decoder.value(header["estimator"])
        kind = type(estimator).__name__
        is_model = ESTIMATORS.get(kind) is type(estimator)
        require(is_model, f"the header holds a value of type {kind} instead of an estimator")
        versions = {str(k): str(v) for k, v in header["versions"].items()}
        return ModelFile(estimator, versions, decoder.value(header["training"]), decoder.notes)
    except ModelFileError as error:
        raise ModelFileError(f"{str(path)!r}: {error}") from error.__cause__
    except _NO_MODEL as error:
        raise ModelFileError(
            f"{str(path)!r}: its header does not describe a model ({type(error).__name__}: {error}); give a "
            "file written by suquan.save_model."
        ) from error


def _check_schema(header: dict[str, Any]) -> None:
    schema: Any = header.get("schema")
    versions = header.get("versions")
    is_number = type(schema) is int and schema >= 1
    require(is_number, f"its schema is {schema!r}, not a positive number", "give another file.")
    writer = versions.get("suquan") if isinstance(versions, dict) else None
    problem = f"it was written by suquan {writer} with schema {schema}"
    advice = f"this is suquan {__version__}, which reads schemas up to {SCHEMA}. Update suquan."
    require(schema <= SCHEMA, problem, advice)
