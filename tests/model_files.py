"""Stored model files, and helpers that compare models and change files."""

import hashlib
import importlib.util
import json
import zipfile
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from suquan import load_model
from suquan.persistence import ModelFileError

STORED = Path(__file__).parent / "data" / "models"
_spec = importlib.util.spec_from_file_location("make_models", STORED / "make_models.py")
make_models = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(make_models)

X, U, TWO, THREE = make_models.make_data()
ESTIMATORS = {type(model): model for model in make_models.make_models().values()}


def assert_same_predictions(model, loaded, X=X):
    expected, got = make_models.predictions(model, X), make_models.predictions(loaded, X)
    assert expected.keys() == got.keys()
    for name, values in expected.items():
        assert values.dtype == got[name].dtype
        assert values.tobytes() == got[name].tobytes() or values.dtype == object
        assert_array_equal(values, got[name])


def assert_same_value(a, b):
    assert type(a) is type(b) or isinstance(a, np.generic)
    if isinstance(a, np.ndarray):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        assert a.dtype.kind not in "fiub" or a.tobytes() == b.tobytes()
        assert_array_equal(a, b)
    elif isinstance(a, dict):
        assert list(a) == list(b)
        assert_same_value(list(a.values()), list(b.values()))
    elif type(a) in ESTIMATORS:
        assert_same_value(vars(a), vars(b))
    elif isinstance(a, list | tuple):
        assert len(a) == len(b)
        for x, y in zip(a, b, strict=True):
            assert_same_value(x, y)
    else:
        assert a == b or (a != a and b != b)


def members(path):
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def write(path, parts, compression=zipfile.ZIP_STORED):
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, data in parts.items():
            archive.writestr(zipfile.ZipInfo(name), data, compression)
    return path


def header_of(parts):
    return "estimator.json" if "estimator.json" in parts else "model.json"


def change_header(path, change, *, listed=False, **changed):
    """The file with another header and other members, the checksums made right; new ones may be listed."""
    parts = members(path) | changed
    main = header_of(parts)
    header = json.loads(parts[main])
    change(header)
    digests = header.get("members" if main == "estimator.json" else "arrays")
    for name in {**digests, **(changed if listed else {})} if isinstance(digests, dict) else ():
        digests[name] = hashlib.sha256(parts[name]).hexdigest()
    parts[main] = json.dumps(header).encode()
    parts[f"{main}.sha256"] = hashlib.sha256(parts[main]).hexdigest().encode()
    return write(path, parts)


def refuse(path, match):
    """Loading says what is wrong in one line, with the name of the file."""
    with pytest.raises(ModelFileError, match=match) as caught:
        load_model(path)
    assert "\n" not in str(caught.value)
    assert str(path) in str(caught.value)


def attribute(name, value):
    return lambda header: header["estimator"]["attributes"].update({name: value})


def parameter(name, value):
    return lambda header: header["estimator"]["parameters"].update({name: value})
