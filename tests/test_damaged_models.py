"""Model files that are damaged, altered, newer or something else: a clear refusal."""

import hashlib
import io
import json
import struct
import zipfile

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from model_files import (
    ESTIMATORS,
    STORED,
    TWO,
    X,
    assert_same_predictions,
    attribute,
    change_header,
    header_of,
    make_models,
    members,
    parameter,
    refuse,
    write,
)

import suquan
from suquan import load_model, save_model
from suquan.files import model_zip
from suquan.persistence import SCHEMA, ModelFileError


@pytest.fixture(params=["new", "old"])
def model_path(request, tmp_path):
    """A file of today, and one of schema 4 with the same model."""
    path = tmp_path / "model.suquan"
    if request.param == "old":
        path.write_bytes((STORED / "schema4" / "classifier.suquan").read_bytes())
        return path
    model = suquan.SuquanClassifier(random_state=0).fit(
        make_models.named(X), np.where(TWO, "a", "b")
    )
    return save_model(model, path)


def test_a_newer_schema_or_none_is_refused_with_the_advice_to_update(model_path):
    change_header(model_path, lambda header: header.update(schema=SCHEMA + 1), new=b"")
    refuse(model_path, f"schema {SCHEMA + 1}.*reads schemas up to {SCHEMA}.*[Uu]pdate")
    for schema in (None, "1", 0, True, 1.0, []):
        change_header(model_path, lambda header, schema=schema: header.update(schema=schema))
        refuse(model_path, "schema")


def test_what_a_newer_version_may_add_is_refused_by_name(model_path):
    change_header(model_path, attribute("volume_", 11))
    refuse(model_path, "attribute 'volume_'.*[Uu]pdate")
    change_header(model_path, parameter("volume", 11))
    refuse(model_path, "parameter 'volume'.*[Uu]pdate")


def test_files_of_other_kinds_are_refused(tmp_path):
    path = tmp_path / "m.suquan"
    for data in (b"", b"sample,gene\n", b"PK\x03\x04", b"\x80\x04K\x01."):
        path.write_bytes(data)
        refuse(path, "not a suquan model file")
    for name in ("a.txt", "arrays/0000.npy", "model.json"):
        refuse(write(path, {name: b"{}"}), "this zip has no estimator.json; give a suquan model")
    np.savez(tmp_path / "m.npz", a=np.ones(3))
    refuse(tmp_path / "m.npz", "no estimator.json")
    with pytest.raises(FileNotFoundError):
        load_model(tmp_path / "absent.suquan")


def test_unexpected_member_names_are_refused(model_path):
    parts = members(model_path)
    folders = ("arrays/../x.npy", "arrays/0000.npy/", "arrays/١٢٣٤.csv")
    for name in ("/etc/passwd", "../model.json", "C:\\x", *folders):
        write(model_path, {**parts, name: b""})
        refuse(model_path, "members of the file are not those of a model")
        write(model_path, parts)
        change_header(model_path, lambda header: None, **{name: b""}, listed=True)
        refuse(model_path, "members of the file are not those of a model")


def test_a_member_more_less_or_twice_is_refused(model_path):
    parts = members(model_path)
    name = sorted(name for name in parts if name.startswith("arrays/"))[0]
    write(model_path, {**parts, "arrays/0099.csv": parts[name]})
    refuse(model_path, "arrays/0099.csv")
    write(model_path, {other: data for other, data in parts.items() if other != name})
    refuse(model_path, name)
    write(model_path, parts)
    with zipfile.ZipFile(model_path, "a") as archive, pytest.warns(UserWarning, match="Duplicate"):
        archive.writestr(header_of(parts), b"{}")
    refuse(model_path, "same name")


def test_compressed_members_are_refused_before_they_are_unpacked(model_path, monkeypatch):
    parts = members(model_path) | {"arrays/0099.csv": bytes(200 << 20)}
    write(model_path, parts, zipfile.ZIP_DEFLATED)
    assert model_path.stat().st_size < 1 << 20
    monkeypatch.setattr(zipfile.ZipFile, "read", lambda *a: pytest.fail("read before the check"))
    refuse(model_path, "is compressed")


def test_overlapping_members_and_huge_headers_are_refused(model_path, monkeypatch):
    data = bytearray(model_path.read_bytes())
    # Every entry of the central directory claims the whole file.
    place = data.index(b"PK\x01\x02")
    while (place := data.find(b"PK\x01\x02", place)) >= 0:
        struct.pack_into("<II", data, place + 20, len(data), len(data))
        place += 4
    broken = model_path.with_name("overlap.suquan")
    broken.write_bytes(data)
    refuse(broken, "claim more bytes|damaged")
    monkeypatch.setattr(model_zip, "MAX_HEADER", 100)
    refuse(model_path, "larger than 100")
    with pytest.raises(ValueError, match="more than the 100"):
        save_model(ESTIMATORS[suquan.QuantileNormalizer], model_path)


def test_a_header_that_is_none_is_refused(model_path):
    parts = members(model_path)
    main = header_of(parts)
    deep = [b"[" * 200_000, b'{"a":' * 200_000, b"[" * 500 + b"]" * 500]
    for text in (*deep, b"NaN", b"1" * 10_000, b'{"format": "other"}'):
        digest = hashlib.sha256(text).hexdigest().encode()
        write(model_path, parts | {main: text, f"{main}.sha256": digest})
        refuse(model_path, "not JSON|not the header of a suquan model")


def test_npy_arrays_of_old_files_are_never_more_than_they_hold_and_never_unpickled(tmp_path):
    class Bomb:
        def __reduce__(self):
            return pytest.fail, ("executed",)

    source, path = STORED / "schema4" / "classifier.suquan", tmp_path / "m.suquan"
    cases = [io.BytesIO()]
    np.save(cases[0], np.array([Bomb()], dtype=object), allow_pickle=True)
    for descr, fortran, shape in (
        ("<f8", False, (10**15,)),
        ("<f8", False, (-12,)),
        ("|O", False, (1,)),
        ([("a", "<f8")], False, (1,)),
        ("<f8", True, (1, 1)),
        ("<M8[s]", False, (1,)),
    ):
        cases.append(io.BytesIO())
        header = {"descr": descr, "fortran_order": fortran, "shape": shape}
        np.lib.format.write_array_header_1_0(cases[-1], header)
        cases[-1].write(bytes(8))
    for case in cases:
        path.write_bytes(source.read_bytes())
        change_header(path, lambda header: None, **{"arrays/0000.npy": case.getvalue()})
        refuse(path, "do not trust|does not describe")


@pytest.fixture
def new_path(tmp_path):
    model = suquan.SuquanClassifier("fixed").fit(make_models.named(X), np.where(TWO, "a", "b"))
    return save_model(model, tmp_path / "model.suquan")


@pytest.mark.parametrize(
    ("name", "array"),
    [
        *(("coef_", np.ones(shape)) for shape in ((1, 11), (12,), (3, 12))),
        ("coef_", np.full((1, 12), np.nan)),
        ("coef_", np.ones((1, 12), np.float32)),
        ("intercept_", np.ones(2)),
        ("intercept_", np.array([np.inf])),
        ("target_quantiles_", np.ones(13)),
        ("target_quantiles_", np.ones((12, 1))),
    ],
)
def test_arrays_that_do_not_fit_the_model_are_refused(new_path, name, array):
    at = json.loads(members(new_path)["estimator.json"])["estimator"]["attributes"][name]["at"]
    place = {"$": "array", "at": at, "type": array.dtype.name, "shape": array.shape}
    columns = array.reshape(-1, array.shape[-1])
    table = model_zip.as_csv([""] * (1 + len(columns)), range(columns.shape[1]), columns)
    change_header(new_path, attribute(name, place), **{at: table})
    refuse(new_path, f"{name}|cannot reshape")


@pytest.mark.parametrize(
    "text",
    [b"", b"\n", b"a,b\n", b"a,b\n1,high\n", b"a,b\n" + b"1,1\n" * 11, b"a,b\n" + b"1,1\n" * 13,
     b"a,b\n1,1,1\n", b"a,b\n" + b"1,1e999\n" * 12, b"\xff,b\n1,1\n", b'a,b\n1,"1'],
)  # fmt: skip
def test_tables_that_hold_no_such_array_are_refused(new_path, text):
    change_header(new_path, lambda header: None, **{"coefficients.csv": text})
    refuse(new_path, "header does not describe|coef_")


@pytest.mark.parametrize(
    ("name", "change"),
    [
        *(("classifier_cv", {name: value}) for name, value in (
            ("slope", "steep"), ("kind", "magic"), ("kind", "temperature"), ("temperature", 1.0),
            ("intercept", {"$": "float", "value": "nan"}),
        )),
        ("classifier_isotonic", {"scores": 1.0}),
        ("classifier_isotonic", {"scores": {"$": "array", "at": "arrays/0000.npy"}}),
        ("classifier_temperature", {"kind": "sigmoid"}),
    ],
)  # fmt: skip
def test_a_calibration_that_does_not_fit_the_model_is_refused(tmp_path, name, change):
    path = tmp_path / "m.suquan"
    path.write_bytes((STORED / "schema4" / f"{name}.suquan").read_bytes())
    change_header(path, lambda h: h["estimator"]["attributes"]["calibration_"].update(change))
    refuse(path, "calibration_ does not fit")


ARRAY = {"$": "array", "at": "coefficients.csv", "type": "float64", "shape": [1, 12]}
TEXT = {"$": "text", "type": "object", "values": ["a"] * 12}


@pytest.mark.parametrize(
    "change",
    [
        *(lambda header, value=value: header.update(estimator=value) for value in ("x", 3, None, [1.0], {})),
        lambda header: header["estimator"].update({"class": "Popen"}),
        lambda header: header["estimator"].update({"class": ["x"]}),
        lambda header: header["estimator"].pop("class"),
        lambda header: header.pop("notes"),
        lambda header: header.update(members=[]),
        parameter("unknown", 1),
        parameter("ties", "other"),
        parameter("missing", 3),
        parameter("method", ["fixed"]),
        attribute("predict", 1),
        attribute("__class__", 1),
        attribute("_operator", 1),
        attribute("training_ranks_", "text"),
        attribute("training_ranks_", {"profile": 1.0, "correlations": 1.0, "ties": 1.0}),
        attribute("n_features_in_", 5),
        attribute("n_features_in_", True),
        attribute("n_features_in_", 10**400),
        attribute("n_targets_", 2),
        attribute("target_knots_", ARRAY),
        attribute("feature_means_", {**ARRAY, "shape": [12, 1]}),
        attribute("feature_names_in_", {**TEXT, "values": ["a"] * 11}),
        attribute("feature_names_in_", {**TEXT, "values": ["a"] * 11 + [3]}),
        attribute("classes_", [0, 1]),
        attribute("classes_", {**TEXT, "type": "M8"}),
        attribute("classes_", {"$": "text", "type": "U", "values": ["a" * 99] + [""] * 999}),
        attribute("coef_", None),
        attribute("coef_", {**ARRAY, "at": "arrays/9999.csv"}),
        attribute("coef_", {**ARRAY, "at": []}),
        attribute("coef_", {**ARRAY, "type": "object"}),
        attribute("coef_", {**ARRAY, "type": "M8[s]"}),
        attribute("coef_", {**ARRAY, "type": "int64"}),
        attribute("coef_", {**ARRAY, "shape": [10**15]}),
        attribute("coef_", {**ARRAY, "shape": "x"}),
        attribute("coef_", {"$": "python", "code": "1"}),
        attribute("objective_", {"$": "float", "value": "1"}),
        attribute("objective_", {"$": "dict", "items": [[[], 1]]}),
        parameter("cv", {"$": "splitter", "class": "Popen", "parameters": {}}),
        parameter("cv", {"$": "splitter", "class": "KFold", "parameters": {"args": 1}}),
        parameter("cv", {"$": "splitter", "class": "KFold", "parameters": {"n_splits": "x"}}),
    ],
)  # fmt: skip
def test_headers_that_describe_no_model_are_refused(new_path, change):
    refuse(change_header(new_path, change), "model")


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_a_damaged_file_is_refused_or_gives_the_same_model(data, tmp_path_factory):
    schema = data.draw(st.sampled_from(["schema1", f"schema{SCHEMA}"]))
    source = STORED / schema / "classifier.suquan"
    whole = bytearray(source.read_bytes())
    kind = data.draw(st.sampled_from(["flip", "cut", "insert", "drop"]))
    place = data.draw(st.integers(0, len(whole) - 1))
    if kind == "flip":
        whole[place] ^= data.draw(st.integers(1, 255))
    elif kind == "cut":
        del whole[place:]
    elif kind == "insert":
        whole[place:place] = data.draw(st.binary(min_size=1, max_size=20))
    else:
        del whole[place : place + data.draw(st.integers(1, 200))]
    path = tmp_path_factory.mktemp("damaged") / "m.suquan"
    path.write_bytes(whole)
    try:
        loaded = load_model(path)
    except ModelFileError:
        return
    assert_same_predictions(load_model(source), loaded)


@pytest.mark.parametrize("schema", ["schema1", f"schema{SCHEMA}"])
def test_no_byte_of_a_member_changes_unseen(schema, tmp_path):
    source, path = STORED / schema / "normalizer.suquan", tmp_path / "m.suquan"
    whole = source.read_bytes()
    for data in members(source).values():
        at = whole.index(data)
        for place in range(at, at + len(data), 7):
            changed = bytearray(whole)
            changed[place] ^= 1
            path.write_bytes(changed)
            with pytest.raises(ModelFileError):
                load_model(path)
