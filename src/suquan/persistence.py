"""Saved models: one file that holds data alone, and gives the same predictions bit for bit.

A model file (``.suquan``) is a zip of ``model.json`` (versions, class, parameters, fitted attributes, classes,
feature names, training summary), of the arrays as ``.npy``, and of their SHA-256. Reading it executes nothing:
there is no pickle in it, its classes are those of this library, and everything else is numbers and text. The
checksums find damage; they do not tell who wrote the file. See docs/design/model_files.md.
"""

import inspect
import platform
import re
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import sklearn
from sklearn import model_selection as splitting
from sklearn.utils.validation import check_is_fitted

from suquan import _model_zip as container
from suquan._model_zip import ModelFileError, require
from suquan._version import __version__
from suquan.cox_model import SuquanCox, SuquanCoxCV
from suquan.folds import RepeatedGroupFolds
from suquan.linear_model import METHODS, SuquanClassifier, SuquanRegressor
from suquan.methods import resolve_method
from suquan.model_selection import SuquanClassifierCV, SuquanRegressorCV
from suquan.preprocessing import QuantileNormalizer, SupervisedQuantileNormalizer
from suquan.ranking import MISSING, TIES
from suquan.targets import make_target_quantiles

__all__ = ["ModelFile", "ModelFileError", "load_model", "read_model", "save_model"]

# Models may have several targets since 2; calibrated probabilities, scaled features and times to event since 3;
# training means and variances of the normalised features, and mean training ranks, since 4.
SCHEMA = 4
_MOMENTS = ("feature_means_", "feature_variances_")
_MODELS = (
    SuquanClassifier,
    SuquanRegressor,
    SuquanClassifierCV,
    SuquanRegressorCV,
    SuquanCox,
    SuquanCoxCV,
)
ESTIMATORS: dict[str, type] = {
    cls.__name__: cls for cls in (QuantileNormalizer, SupervisedQuantileNormalizer, *_MODELS)
}
# Splitters that numbers describe; made again from them at load.
SPLITTERS: dict[str, type] = {
    kind.__name__: kind
    for kind in (
        splitting.GroupKFold,
        splitting.KFold,
        splitting.LeaveOneOut,
        splitting.PredefinedSplit,
        splitting.RepeatedKFold,
        splitting.RepeatedStratifiedKFold,
        splitting.StratifiedGroupKFold,
        splitting.StratifiedKFold,
        RepeatedGroupFolds,
    )
}
# Parameters that older files do not have, and that then were not what is the default now.
_BEFORE = {"calibration": None}
# Parameters that may be a function or a distribution: their values are kept.
_TARGET_PARAMETERS = ("init", "target_quantiles")
# Parameters that may be an object of the user's: a model cannot predict or be fitted without it.
_NAMED_PARAMETERS = ("loss", "method")
_ATTRIBUTE = re.compile(r"[a-z][a-z0-9_]*_")
# All that fits set. A file with another one was written by a newer version, or altered.
ATTRIBUTES = frozenset({
    "n_features_in_", "feature_names_in_", "training_ranks_", "target_quantiles_", "target_knots_",
    "n_targets_", "coef_", "intercept_", "classes_", "alpha_", "smoothness_", "objective_",
    "objective_history_", "n_rounds_", "n_iter_", "n_passes_", "singular_values_", "duality_gap_",
    "baseline_strata_", "baseline_times_", "baseline_hazards_", "estimator_", "method_", "departure_",
    "best_estimator_", "best_score_", "best_index_", "cv_results_", "out_of_fold_scores_",
    "out_of_fold_samples_", "calibration_", *_MOMENTS,
})  # fmt: skip
_MAX_TEXT = 1 << 22  # characters of one array of text with a fixed width
# What a header that no encoder wrote makes of the decoder.
_NO_MODEL = (TypeError, ValueError, LookupError, AttributeError, ArithmeticError, RecursionError)
_FLOATS = {"nan": np.nan, "inf": np.inf, "-inf": -np.inf}


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
    NotFittedError
        If the estimator is not fitted.
    TypeError
        If it is not one of this library, or holds something else than numbers and text, such as a loss or
        a method of your own.
    suquan.persistence.ModelFileError
        If its fitted attributes do not fit each other.

    Warns
    -----
    UserWarning
        If a parameter cannot be kept as it is. Of a function or distribution as target, its values are
        kept; a scorer, a random generator or a splitter that is not one of scikit-learn's K-folds is noted
        and loads as the default. None of it changes a prediction.

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
    encoder = _Encoder()
    header = {
        "format": container.FORMAT,
        "schema": SCHEMA,
        "versions": {
            "suquan": __version__,
            "python": platform.python_version(),
            "numpy": np.__version__,
            "scikit-learn": sklearn.__version__,
        },
        "estimator": encoder.estimator(estimator),
        "training": encoder.value({**_fit_summary(estimator), **(summary or {})}, "summary"),
        "notes": encoder.notes,
        "strings": encoder.strings,
    }
    for note in encoder.notes:
        warnings.warn(note, UserWarning, stacklevel=2)
    return container.write_container(path, header, encoder.arrays)


def _fit_summary(estimator: Any) -> dict[str, Any]:
    """What every fitted estimator can tell about its training."""
    told = {
        "method": getattr(estimator, "method_", getattr(estimator, "method", None)),
        "n_features": estimator.n_features_in_,
    }
    names = ("alpha_", "smoothness_", "objective_", "n_rounds_", "n_iter_", "best_score_")
    for name in (*names, "departure_", "n_targets_", "duality_gap_"):
        told[name.removesuffix("_")] = getattr(estimator, name, None)
    return {name: value for name, value in told.items() if value is not None}


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
    """Estimator of a model file, with what else is recorded there.

    Parameters
    ----------
    path : path

    Returns
    -------
    ModelFile
    """
    try:
        header, arrays = container.read_container(path, _check_schema)
        decoder = _Decoder(header["strings"], arrays)
        estimator = decoder.value(header["estimator"])
        kind = type(estimator).__name__
        is_model = ESTIMATORS.get(kind) is type(estimator)
        require(is_model, f"model.json holds a value of type {kind} instead of an estimator")
        return ModelFile(
            estimator,
            {str(k): str(v) for k, v in header["versions"].items()},
            decoder.value(header["training"]),
            [str(note) for note in header["notes"]],
        )
    except ModelFileError as error:
        raise ModelFileError(f"{str(path)!r}: {error}") from error.__cause__
    except _NO_MODEL as error:
        raise ModelFileError(
            f"{str(path)!r}: model.json does not describe a model ({type(error).__name__}: {error}); give a "
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


class _Unstorable(TypeError):
    """Something that is neither numbers nor text."""


class _Encoder:
    """Turns values into JSON, arrays aside; an array that is met twice is kept once."""

    def __init__(self) -> None:
        self.arrays: list[np.ndarray] = []
        self.strings: list[list[str]] = []
        self.notes: list[str] = []
        self._places: dict[int, tuple[np.ndarray, dict[str, Any]]] = {}

    def estimator(self, estimator: Any) -> dict[str, Any]:
        """Class, parameters and fitted attributes, which must fit each other."""
        name = type(estimator).__name__
        cls: Any = ESTIMATORS.get(name)
        if type(estimator) is not cls:
            raise TypeError(f"model files hold {', '.join(ESTIMATORS)}; got {type(estimator)!r}.")
        attributes = {k: v for k, v in vars(estimator).items() if _ATTRIBUTE.fullmatch(k)}
        parameters = estimator.get_params(deep=False)
        encoded = {
            "$": "estimator",
            "class": name,
            "parameters": {k: self._parameter(estimator, k, v) for k, v in parameters.items()},
            "attributes": {k: self.value(v, k) for k, v in attributes.items()},
        }
        if unknown := sorted(set(attributes) - ATTRIBUTES):
            raise TypeError(
                f"{unknown[0]} is not an attribute that a fit sets; delete it from the {name} to save that."
            )
        try:
            check_fitted_attributes(estimator)
        except ModelFileError as error:
            raise ModelFileError(f"this {name} cannot be saved: {error} Fit it again.") from None
        output = getattr(estimator, "_sklearn_output_config", {}).get("transform")
        return encoded | ({"output": output} if output else {})

    def _parameter(self, estimator: Any, name: str, value: Any) -> Any:
        try:
            return self.value(value, name)
        except _Unstorable:
            pass
        what = getattr(value, "__qualname__", None) or type(value).__name__
        if name in _NAMED_PARAMETERS:
            raise TypeError(
                f"{name} is an object of class {what} that a model file cannot hold; it holds the names of "
                f"this library's own. Give {name} by name, or keep this model by other means."
            )
        if name in _TARGET_PARAMETERS:
            note = f"{name} was {what}: its values at the places of the features are kept instead."
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                kept = make_target_quantiles(value, estimator.n_features_in_)
        else:
            if hasattr(value, "split") or hasattr(value, "random"):  # splitters and generators
                what = repr(value).partition(" at 0x")[0]
            kept = inspect.signature(type(estimator)).parameters[name].default
            note = f"{name} was {what}, which is not kept: it loads as {kept!r}."
        if note not in self.notes:  # the model inside a selection has the same parameters
            self.notes.append(note)
        return self.value(kept, name)

    def value(self, value: Any, name: str) -> Any:
        """JSON of a value; `name` is the parameter or attribute that it belongs to, for the message."""
        if isinstance(value, np.generic):
            value = value.item()
        if value is None or isinstance(value, bool | int | str):
            return value
        if isinstance(value, float):
            return value if np.isfinite(value) else {"$": "float", "value": repr(value)}
        if isinstance(value, np.ndarray):
            if id(value) not in self._places:
                self._places[id(value)] = value, self._array(value, name)
            return self._places[id(value)][1]
        if isinstance(value, list | tuple):
            items = [self.value(item, name) for item in value]
            return items if isinstance(value, list) else {"$": "tuple", "items": items}
        if isinstance(value, dict):
            if all(isinstance(key, str) for key in value) and "$" not in value:
                return {key: self.value(item, name) for key, item in value.items()}
            items = [[self.value(k, name), self.value(v, name)] for k, v in value.items()]
            return {"$": "dict", "items": items}
        kind = type(value).__name__
        if ESTIMATORS.get(kind) is type(value):
            return self.estimator(value)
        if SPLITTERS.get(kind) is type(value):
            held = {**getattr(value, "cvargs", {}), **vars(value)}
            names = [key for key in inspect.signature(type(value)).parameters if key in held]
            parameters = {key: self.value(held[key], name) for key in names}
            return {"$": "splitter", "class": kind, "parameters": parameters}
        raise _Unstorable(
            f"{name} holds {type(value)!r}, which a model file cannot; it holds numbers, text, arrays, lists "
            "and dicts of them."
        )

    def _array(self, array: np.ndarray, name: str) -> dict[str, Any]:
        kind, size = array.dtype.kind, array.dtype.itemsize
        if kind in "biu" or (kind == "f" and size <= 8):
            self.arrays.append(array)
            return {"$": "array", "at": container.array_name(len(self.arrays) - 1)}
        short = kind in "OT" or (kind == "U" and size // 4 * len(array) <= _MAX_TEXT)
        if short and array.ndim == 1 and all(isinstance(item, str) for item in array.tolist()):
            self.strings.append(array.tolist())
            text = {"O": "object", "T": "variable"}.get(kind, f"U{size // 4}")
            return {"$": "strings", "at": len(self.strings) - 1, "type": text}
        raise _Unstorable(
            f"{name} is an array of {array.dtype}; a model file holds numbers and text."
        )


class _Decoder:
    """Turns JSON back into values, and refuses what no encoder writes."""

    def __init__(self, strings: list[list[str]], arrays: dict[str, np.ndarray]) -> None:
        is_text = all(isinstance(item, str) for values in strings for item in values)
        require(is_text, "a list of names holds something else than text")
        self._strings = strings
        self._arrays = arrays
        self._made: dict[tuple[int, str], np.ndarray] = {}

    def value(self, encoded: Any) -> Any:
        """Value of JSON."""
        if isinstance(encoded, list):
            return [self.value(item) for item in encoded]
        if not isinstance(encoded, dict):
            return encoded
        match encoded.get("$"):
            case None:
                return {key: self.value(item) for key, item in encoded.items()}
            case "float":
                return _FLOATS[encoded["value"]]
            case "tuple":
                return tuple(self.value(encoded["items"]))
            case "dict":
                return {self.value(k): self.value(v) for k, v in encoded["items"]}
            case "array":
                return self._arrays[encoded["at"]]
            case "strings":
                return self._text(encoded["at"], encoded["type"])
            case "estimator":
                return self._estimator(encoded)
            case "splitter":
                return SPLITTERS[encoded["class"]](**self.value(encoded["parameters"]))
            case kind:
                raise ModelFileError(f"model.json holds a value of unknown kind {kind!r}.")

    def _text(self, place: int, kind: str) -> np.ndarray:
        if (place, kind) not in self._made:
            values = self._strings[place]
            types: dict[str, Any] = {"object": object, "variable": np.dtypes.StringDType()}
            if re.fullmatch(r"U[0-9]{1,6}", kind) and int(kind[1:]) * len(values) <= _MAX_TEXT:
                types[kind] = kind
            if kind not in types:
                raise ModelFileError(f"model.json holds text of unknown kind {kind!r}.")
            self._made[place, kind] = np.array(values, dtype=types[kind])
        return self._made[place, kind]

    def _estimator(self, encoded: dict[str, Any]) -> Any:
        """Estimator; parameters that the file does not have, as that of an older version, get their default."""
        name = encoded["class"]
        is_known = isinstance(name, str) and name in ESTIMATORS
        require(is_known, f"unknown estimator {name!r}", f"known are {', '.join(ESTIMATORS)}.")
        cls = ESTIMATORS[name]
        known = {"parameters": set(inspect.signature(cls).parameters), "attributes": ATTRIBUTES}
        for kind, names in known.items():
            if unknown := sorted(set(encoded[kind]) - names):
                what = f"{kind.removesuffix('s')} {unknown[0]!r}"
                raise ModelFileError(
                    f"{name} of suquan {__version__} has no {what}, but the model has. Update suquan."
                )
        parameters = {key: self.value(value) for key, value in encoded["parameters"].items()}
        before = {key: value for key, value in _BEFORE.items() if hasattr(cls(), key)}
        estimator = cls(**before | parameters)
        for key, value in encoded["attributes"].items():
            setattr(estimator, key, self.value(value))
        check_fitted_attributes(estimator)
        if "output" in encoded:
            estimator.set_output(transform=encoded["output"])
        return estimator


def check_fitted_attributes(estimator: Any) -> None:
    """Raise a ModelFileError where the attributes that predictions use do not fit each other."""
    p: Any = getattr(estimator, "n_features_in_", None)
    _check(type(p) is int and p > 0, "n_features_in_", p)
    _check(estimator.ties in TIES, "ties", estimator.ties)
    _check(estimator.missing in MISSING, "missing", estimator.missing)
    n_targets = _n_targets(estimator)
    shown: Any = getattr(estimator, "target_quantiles_", None)
    several = () if n_targets is None else np.shape(shown)[:1]
    shapes: dict[str, tuple[int, ...]] = {"target_quantiles_": (*several, p)}
    _check_training_ranks(getattr(estimator, "training_ranks_", None), p)
    if hasattr(estimator, "feature_names_in_"):
        shapes["feature_names_in_"] = (p,)
    if isinstance(estimator, SupervisedQuantileNormalizer):
        inner: Any = getattr(estimator, "estimator_", None)
        _check(type(inner) in (SuquanClassifier, SuquanRegressor), "estimator_", inner)
        _check(inner.n_features_in_ == p, "estimator_.n_features_in_", inner.n_features_in_)
    elif isinstance(estimator, _MODELS):
        method = getattr(estimator, "method_", estimator.method)
        _check(isinstance(method, str) and method in METHODS, "method", method)
        loss = estimator.get_params(deep=False).get("loss", "auto")
        _check(isinstance(loss, str), "loss", loss)
        n_outputs = _n_outputs(estimator)
        shapes |= {"coef_": (n_outputs, p * (n_targets or 1)), "intercept_": (n_outputs,)}
        if any(hasattr(estimator, name) for name in _MOMENTS):
            shapes |= dict.fromkeys(_MOMENTS, (p,) if n_targets is None else (n_outputs, p))
        _check_calibration(estimator, n_outputs)
        if n_targets is not None:
            knots: Any = getattr(estimator, "target_knots_", None)
            _check(np.ndim(knots) == 2, "target_knots_", knots)
            shapes["target_knots_"] = (n_targets, np.shape(knots)[1])
        if isinstance(estimator, SuquanCox):
            strata: Any = getattr(estimator, "baseline_strata_", None)
            steps = np.shape(strata)
            _check(len(steps) == 1 and steps[0] > 0, "baseline_strata_", steps)
            shapes |= {"baseline_times_": steps, "baseline_hazards_": steps}
    for name, shape in shapes.items():
        array: Any = getattr(estimator, name, None)
        dtype = np.dtype(object if name == "feature_names_in_" else np.float64)
        is_array = isinstance(array, np.ndarray)
        came = f"{array.dtype} of shape {array.shape}" if is_array else repr(array)
        fits = is_array and array.dtype == dtype and array.shape == shape
        require(fits, f"{name} must be {dtype} of shape {shape}", f"the model has {came}.")
        _check(dtype.kind == "O" or np.all(np.isfinite(array)), name, "not finite")


def _check_training_ranks(found: Any, p: int) -> None:
    """Raise a ModelFileError where there are training ranks, and not of that many features."""
    shapes = {"profile": (p,), "correlations": (3,), "ties": ()}
    values = found if isinstance(found, dict) else {}
    came = {name: np.shape(value) for name, value in values.items()}
    is_number = all(np.asarray(value).dtype == np.float64 for value in values.values())
    _check(found is None or (came == shapes and is_number), "training_ranks_", found)


def _check_calibration(estimator: Any, n_outputs: int) -> None:
    """Raise a ModelFileError where a calibration is not one of that many classes."""
    found = getattr(estimator, "calibration_", None)
    if found is None:
        return
    is_dict = isinstance(found, dict) and isinstance(estimator, SuquanClassifierCV)
    _check(is_dict, "calibration_", found)
    names, n_dimensions = {
        "sigmoid": ({"slope", "intercept"}, 0),
        "isotonic": ({"scores", "probabilities"}, 1),
        "temperature": ({"temperature"}, 0),
    }.get(str(found.get("kind")), (set(), 0))
    values = [np.asarray(value) for name, value in found.items() if name != "kind"]
    fits = names == found.keys() - {"kind"} and (n_outputs > 2) == ("temperature" in names)
    fits = fits and len({value.shape for value in values}) == 1
    is_number = [v.dtype.kind == "f" and v.ndim == n_dimensions and v.size > 0 for v in values]
    fits = fits and all(is_number) and all(np.all(np.isfinite(v)) for v in values)
    _check(fits, "calibration_", found)


def _n_targets(estimator: Any) -> int | None:
    """Number of targets of a method that may have several, or None."""
    model = getattr(estimator, "estimator_", estimator)
    method = getattr(model, "method_", getattr(model, "method", None))
    if not isinstance(method, str) or method not in METHODS or resolve_method(method).norm is None:
        return None
    n_targets: Any = getattr(model, "n_targets_", None)
    _check(type(n_targets) is int and n_targets > 0, "n_targets_", n_targets)
    return n_targets


def _n_outputs(estimator: Any) -> int:
    """Rows of the coefficients: one per class, or one alone for two classes and for values."""
    if not isinstance(estimator, SuquanClassifier):
        return 1
    classes = getattr(estimator, "classes_", None)
    n_classes = len(classes) if isinstance(classes, np.ndarray) and classes.ndim == 1 else 0
    _check(n_classes >= 2, "classes_", classes)
    coef: Any = getattr(estimator, "coef_", None)
    return n_classes if n_classes > 2 or np.shape(coef)[:1] == (2,) else 1


def _check(condition: Any, name: str, value: Any) -> None:
    if not condition:
        raise ModelFileError(f"{name} does not fit the model: {' '.join(repr(value).split())}.")
