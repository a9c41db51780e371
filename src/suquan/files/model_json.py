"""An estimator in, JSON and CSV out, and back: what a model file holds in place of a pickle.

`suquan.persistence` writes and reads the file. Numbers, text, lists and dicts become JSON; an array becomes a
CSV, its own or one of those for scorers; an estimator becomes its class, parameters and attributes.
"""

import inspect
import re
import warnings
from typing import Any

import numpy as np
from sklearn import model_selection as splitting

from suquan._version import __version__
from suquan.cox_model import SuquanCox, SuquanCoxCV
from suquan.files.fitted_checks import check_fitted_attributes
from suquan.files.model_zip import NUMBERS, ModelFileError, as_csv, as_text, from_csv, require
from suquan.linear_model import SuquanClassifier, SuquanRegressor
from suquan.model_selection import SuquanClassifierCV, SuquanRegressorCV
from suquan.preprocessing import QuantileNormalizer, SupervisedQuantileNormalizer
from suquan.selection.folds import RepeatedGroupFolds
from suquan.targets import make_target_quantiles

ESTIMATORS: dict[str, Any] = {
    cls.__name__: cls
    for cls in (
        *(QuantileNormalizer, SupervisedQuantileNormalizer, SuquanClassifier, SuquanRegressor),
        *(SuquanClassifierCV, SuquanRegressorCV, SuquanCox, SuquanCoxCV),
    )
}
# Splitters are made again from their parameters at load.
SPLITTERS: dict[str, Any] = {"RepeatedGroupFolds": RepeatedGroupFolds} | {
    name: getattr(splitting, name)
    for name in splitting.__all__
    if name.endswith(("Fold", "Out", "Split"))
}
# All that fits set. A file with another one was written by a newer version, or altered.
ATTRIBUTES = frozenset({
    "n_features_in_", "feature_names_in_", "training_ranks_", "target_quantiles_", "target_knots_",
    "n_targets_", "coef_", "intercept_", "classes_", "alpha_", "smoothness_", "objective_",
    "objective_history_", "n_rounds_", "n_iter_", "n_passes_", "singular_values_", "duality_gap_",
    "baseline_strata_", "baseline_times_", "baseline_hazards_", "estimator_", "method_", "departure_",
    "best_estimator_", "best_score_", "best_index_", "cv_results_", "out_of_fold_scores_",
    "out_of_fold_samples_", "calibration_", "feature_means_", "feature_variances_",
})  # fmt: skip
# What a model was fitted with if its file does not know the parameter, unlike the default of today.
_BEFORE = {"calibration": None, "n_knots": None}
# Parameters of earlier versions, on which no prediction depends: a note tells what they were.
_DROPPED = {"selection"}
_FLOATS = {"nan": np.nan, "inf": np.inf, "-inf": -np.inf}


class _Unstorable(TypeError):
    """Something that is neither numbers nor text."""


class Encoder:
    """Turns values into JSON and `parts`, the bytes of CSVs; equal arrays are kept once."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.parts: dict[str, bytes] = {}
        self._places: dict[Any, dict[str, Any]] = {}

    def estimator(self, estimator: Any) -> dict[str, Any]:
        """Encode class, parameters and fitted attributes, which must fit each other."""
        name = type(estimator).__name__
        if type(estimator) is not ESTIMATORS.get(name):
            raise TypeError(f"model files hold {', '.join(ESTIMATORS)}; got {type(estimator)!r}.")
        attributes = {
            k: v for k, v in vars(estimator).items() if re.fullmatch("[a-z][a-z0-9_]*_", k)
        }
        parameters = estimator.get_params(deep=False)
        encoded = {
            "$": "estimator",
            "class": name,
            "parameters": {k: self._parameter(estimator, k, v) for k, v in parameters.items()},
            "attributes": {k: self.value(v, k) for k, v in attributes.items()},
        }
        for unknown in sorted(set(attributes) - ATTRIBUTES):
            raise TypeError(
                f"{unknown} is not an attribute that a fit sets; delete it from the {name} to save that."
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
            what = getattr(value, "__qualname__", None) or type(value).__name__
        if name in ("loss", "method"):  # the model cannot predict or be fitted without it
            raise TypeError(
                f"{name} is an object of class {what} that a model file cannot hold; it holds the names of "
                f"this library's own. Give {name} by name, or keep this model by other means."
            )
        if name in ("init", "target_quantiles"):
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
        """Encode a value; `name` is the parameter or attribute that it belongs to, for the message."""
        value = value.item() if isinstance(value, np.generic) else value
        kind = type(value).__name__
        match value:
            case float() if not np.isfinite(value):
                return {"$": "float", "value": repr(value)}
            case None | bool() | int() | float() | str():
                return value
            case np.ndarray():
                return self._array(value, name)
            case list():
                return [self.value(item, name) for item in value]
            case tuple():
                return {"$": "tuple", "items": self.value(list(value), name)}
            case dict() if "$" not in value and all(isinstance(key, str) for key in value):
                return {key: self.value(item, name) for key, item in value.items()}
            case dict():
                return {"$": "dict", "items": self.value([list(i) for i in value.items()], name)}
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
        kind = array.dtype.name
        if kind not in NUMBERS:
            text = {"O": "object", "U": "U", "T": "T"}.get(array.dtype.kind, "")
            try:
                as_text(array.tolist(), text)
            except ModelFileError:
                raise _Unstorable(
                    f"{name} is an array of {array.dtype}; a model file holds numbers and text."
                ) from None
            return {"$": "text", "type": text, "values": array.tolist()}
        key = kind, array.shape, array.tobytes()
        if key not in self._places:
            at = f"arrays/{len(self.parts):04d}.csv"
            n_rows = array.shape[-1] if array.size and array.ndim else array.size
            columns = array.reshape(-1, n_rows) if array.size else array.reshape(1, 0)
            header = ["place", *[name] * len(columns)]
            self.parts[at] = as_csv(header, range(1, columns.shape[1] + 1), columns)
            self._places[key] = {"$": "array", "at": at, "type": kind, "shape": list(array.shape)}
        return self._places[key]

    def share(self, tables: dict[str, np.ndarray]) -> None:
        """Let arrays with the numbers of one of these tables refer to it, in place of a CSV of their own."""
        known = {(table.dtype.name, table.tobytes()): name for name, table in tables.items()}
        for (kind, _, content), place in self._places.items():
            if name := known.get((kind, content)):
                del self.parts[place["at"]]
                place["at"] = name


class Decoder:
    """Turns JSON back into values, and refuses what no encoder writes.

    Every CSV is read once, so that no header can make more of the file than it holds.
    """

    def __init__(self, parts: dict[str, bytes], arrays: dict[str, np.ndarray], notes: list[str]):
        self.notes = notes
        self._parts, self._arrays = parts, arrays

    def value(self, encoded: Any) -> Any:
        """Decode a value."""
        match encoded:
            case list():
                return [self.value(item) for item in encoded]
            case {"$": "float", "value": text}:
                return _FLOATS[text]
            case {"$": "tuple", "items": items}:
                return tuple(self.value(items))
            case {"$": "dict", "items": items}:
                return {self.value(key): self.value(item) for key, item in items}
            case {"$": "array", "at": at}:
                if at not in self._arrays:
                    self._arrays[at] = from_csv(at, self._parts[at], encoded["type"])
                array = self._arrays[at]
                return array.reshape(encoded.get("shape", array.shape))
            case {"$": "text", "type": kind, "values": values}:
                return as_text(values, kind)
            case {"$": "estimator"}:
                return self._estimator(encoded)
            case {"$": "splitter", "class": name, "parameters": parameters}:
                return SPLITTERS[name](**self.value(parameters))
            case {"$": kind}:
                raise ModelFileError(f"the header holds a value of unknown kind {kind!r}.")
            case dict():
                return {key: self.value(item) for key, item in encoded.items()}
        return encoded

    def _estimator(self, encoded: dict[str, Any]) -> Any:
        """Decode an estimator; parameters that an older file does not have get their default."""
        name, attributes = encoded["class"], encoded["attributes"]
        is_known = isinstance(name, str) and name in ESTIMATORS
        require(is_known, f"unknown estimator {name!r}", f"known are {', '.join(ESTIMATORS)}.")
        has = inspect.signature(ESTIMATORS[name]).parameters.keys()
        parameters = {key: self.value(value) for key, value in encoded["parameters"].items()}
        for key in _DROPPED & parameters.keys() - has:
            note = f"{key} was {parameters.pop(key)!r}; suquan {__version__} has no such parameter."
            self.notes += [note] * (note not in self.notes)
        unknown = [f"parameter {key!r}" for key in sorted(parameters.keys() - has)]
        unknown += [f"attribute {key!r}" for key in sorted(attributes.keys() - ATTRIBUTES)]
        problem = f"{name} of suquan {__version__} has no {''.join(unknown[:1])}, but the model has"
        require(not unknown, problem, "update suquan.")
        before = {key: value for key, value in _BEFORE.items() if key in has}
        estimator = ESTIMATORS[name](**before | parameters)
        for key, value in attributes.items():
            setattr(estimator, key, self.value(value))
        check_fitted_attributes(estimator)
        if "output" in encoded:
            estimator.set_output(transform=encoded["output"])
        return estimator
