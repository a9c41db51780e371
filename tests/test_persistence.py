"""Saved models: the same predictions bit for bit, and a clear refusal of everything else."""

import hashlib
import importlib.util
import io
import json
import os
import stat
import struct
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import (
    GroupKFold,
    KFold,
    LeaveOneOut,
    RepeatedKFold,
    RepeatedStratifiedKFold,
    StratifiedGroupKFold,
    StratifiedKFold,
    StratifiedShuffleSplit,
)
from sklearn.pipeline import make_pipeline

import suquan
from suquan import _model_zip, load_model, save_model
from suquan.linear_model import METHODS
from suquan.persistence import ESTIMATORS, SCHEMA, ModelFileError, read_model

STORED = Path(__file__).parent / "data" / "models"
_spec = importlib.util.spec_from_file_location("make_models", STORED / "make_models.py")
make_models = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(make_models)

X, U, TWO, THREE = make_models.make_data()
# A start that the monotone methods keep as it is.
START = np.sort(np.random.default_rng(1).normal(size=12))


def round_trip(model, tmp_path):
    return load_model(save_model(model, tmp_path / "model.suquan"))


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
        assert a.dtype == b.dtype
        assert_array_equal(a, b)
    elif isinstance(a, dict):
        assert list(a) == list(b)
        for key in a:
            assert_same_value(a[key], b[key])
    elif type(a) in ESTIMATORS.values():
        assert_same_value(vars(a), vars(b))
    elif isinstance(a, list | tuple):
        assert len(a) == len(b)
        for x, y in zip(a, b, strict=True):
            assert_same_value(x, y)
    else:
        assert a == b or (a != a and b != b)


# ------------------------------------------------------------------------------------------- round trips


@pytest.mark.parametrize("name", make_models.make_models())
def test_everything_of_every_estimator_survives(name, tmp_path):
    model = make_models.make_models()[name]
    loaded = round_trip(model, tmp_path)
    assert_same_value(vars(model), vars(loaded))
    assert_same_predictions(model, loaded)


LABELS = {
    "bool": TWO,
    "int": TWO.astype(int) * 7 - 3,
    "string": np.where(TWO, "yes", "no"),
    "object": np.where(TWO, "yes", "née").astype(object),
    "float": TWO.astype(float),
}


@pytest.mark.parametrize(
    ("method", "labels"),
    [(method, list(LABELS)[k % len(LABELS)]) for k, method in enumerate(METHODS)],
)
def test_classifiers_of_all_methods_and_labels(method, labels, tmp_path):
    model = suquan.SuquanClassifier(method, random_state=0).fit(X, LABELS[labels])
    loaded = round_trip(model, tmp_path)
    assert_same_predictions(model, loaded)
    assert_same_value(vars(model), vars(loaded))


@pytest.mark.parametrize("method", [m for m in METHODS if m != "svd"])
def test_softmax_and_regression_of_all_methods(method, tmp_path):
    for model, y in (
        (suquan.SuquanClassifier(method, random_state=0), THREE),
        (suquan.SuquanRegressor(method, random_state=0, n_knots=5), U),
        (suquan.SupervisedQuantileNormalizer(method, random_state=0), THREE),
    ):
        model.fit(X, y)
        loaded = round_trip(model, tmp_path)
        assert_same_value(vars(model), vars(loaded))
        assert_same_predictions(model, loaded)


@pytest.mark.parametrize(
    "init",
    ["median", START, START.tolist(), tuple(START.tolist())],
    ids=lambda init: type(init).__name__,
)
def test_start_targets_survive(init, tmp_path):
    model = suquan.SuquanClassifier("fixed", init=init).fit(X, TWO)
    loaded = round_trip(model, tmp_path)
    assert_same_value(model.init, loaded.init)
    assert_same_predictions(model, loaded)


@pytest.mark.parametrize("init", [np.log, stats.gamma(3.0)], ids=["callable", "distribution"])
def test_of_a_function_as_target_the_values_are_kept_and_it_says_so(init, tmp_path):
    model = suquan.SuquanClassifier("fixed", init=init).fit(X, TWO)
    with pytest.warns(UserWarning, match="init was .*its values .* are kept instead"):
        path = save_model(model, tmp_path / "model.suquan")
    file = read_model(path)
    assert_array_equal(file.estimator.init, suquan.make_target_quantiles(init, 12))
    assert "init" in file.notes[0]
    assert_same_predictions(model, file.estimator)
    assert_array_equal(file.estimator.fit(X, TWO).coef_, model.coef_)
    normalizer = suquan.QuantileNormalizer(init).fit(X)
    with pytest.warns(UserWarning, match="target_quantiles was"):
        path = save_model(normalizer, tmp_path / "normalizer.suquan")
    assert_same_predictions(normalizer, load_model(path))


def test_a_splitter_a_scorer_and_a_generator_are_noted_and_become_the_default(tmp_path):
    def balance(model, X, y):
        return model.score(X, y)

    model = suquan.SuquanClassifierCV(
        "fixed",
        cv=StratifiedShuffleSplit(3, random_state=0),
        scoring=balance,
        random_state=np.random.RandomState(0),
        alphas=2,
    ).fit(X, TWO)
    with pytest.warns(UserWarning, match="not kept"):
        path = save_model(model, tmp_path / "model.suquan")
    file = read_model(path)
    assert len(file.notes) == 3
    assert any("StratifiedShuffleSplit(n_splits=3" in note for note in file.notes)
    assert file.estimator.cv is None
    assert file.estimator.random_state is None
    assert_same_predictions(model, file.estimator)


@pytest.mark.parametrize(
    "cv",
    [
        KFold(3),
        StratifiedKFold(3, shuffle=True, random_state=1),
        GroupKFold(2),
        StratifiedGroupKFold(4),
        RepeatedKFold(n_splits=2, n_repeats=4),
        RepeatedStratifiedKFold(n_splits=3, n_repeats=2, random_state=0),
        LeaveOneOut(),
    ],
    ids=repr,
)
def test_k_fold_splitters_survive(cv, tmp_path):
    model = suquan.SuquanClassifier("fixed", cv=cv).fit(X, TWO)
    assert repr(round_trip(model, tmp_path).cv) == repr(cv)
    drawn = StratifiedKFold(2, shuffle=True, random_state=np.random.RandomState(0))
    with pytest.warns(UserWarning, match="cv was"):
        round_trip(suquan.SuquanClassifier("fixed", cv=drawn).fit(X, TWO), tmp_path)


def test_lists_of_splits_and_class_weights_survive(tmp_path):
    splits = list(StratifiedKFold(2).split(X, TWO))
    model = suquan.SuquanClassifierCV(
        "fixed", cv=splits, alphas=[0.1, 1.0], class_weight={"a": 2.0, "b": 1.0}
    ).fit(X, np.where(TWO, "a", "b"))
    loaded = round_trip(model, tmp_path)
    assert_same_value(vars(model), vars(loaded))
    numbered = suquan.SuquanClassifier("fixed", class_weight={0: 2.0, 1: 1.0}).fit(
        X, TWO.astype(int)
    )
    assert round_trip(numbered, tmp_path).class_weight == {0: 2.0, 1: 1.0}


def test_float32_missing_values_and_ties_are_treated_as_before(tmp_path):
    data = X.astype(np.float32)
    data[3, 2] = np.nan
    for ties in ("average", "first", "mean_rank"):
        model = suquan.SuquanClassifier("fixed", ties=ties, missing="ignore").fit(data, TWO)
        assert_same_predictions(model, round_trip(model, tmp_path), data)


def test_feature_names_and_output_settings_survive(tmp_path):
    frame = pd.DataFrame(X, columns=[f"gène \U0001f9ec {j}\n" for j in range(12)])
    model = suquan.QuantileNormalizer("mean").set_output(transform="pandas").fit(frame)
    loaded = round_trip(model, tmp_path)
    pd.testing.assert_frame_equal(loaded.transform(frame), model.transform(frame))
    with pytest.raises(ValueError, match="feature names should match"):
        loaded.transform(frame.iloc[:, ::-1])


def test_the_same_model_gives_the_same_bytes_and_is_written_in_one_move(tmp_path):
    model = make_models.make_models()["classifier_cv"]
    first = save_model(model, tmp_path / "a.suquan").read_bytes()
    assert (
        save_model(load_model(tmp_path / "a.suquan"), tmp_path / "b.suquan").read_bytes() == first
    )
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.suquan", "b.suquan"]


@pytest.mark.skipif(os.name != "posix", reason="permissions of POSIX")
def test_a_model_file_is_readable_as_any_new_file_is(tmp_path):
    (tmp_path / "new").write_text("")
    path = save_model(suquan.QuantileNormalizer("normal").fit(X), tmp_path / "m.suquan")
    assert stat.S_IMODE(path.stat().st_mode) == stat.S_IMODE((tmp_path / "new").stat().st_mode)


@pytest.mark.skipif(os.name != "posix", reason="permissions and links of POSIX")
def test_a_model_file_that_is_replaced_keeps_its_mode_and_its_link(tmp_path):
    model = suquan.QuantileNormalizer("normal").fit(X)
    path, link = save_model(model, tmp_path / "m.suquan"), tmp_path / "latest"
    path.chmod(0o600)
    link.symlink_to("m.suquan")
    before = path.stat().st_ino
    save_model(model, link)
    assert link.is_symlink()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert path.stat().st_ino != before  # a new file, moved into place


@pytest.mark.skipif(os.name != "posix", reason="devices of POSIX")
def test_a_device_or_a_pipe_is_not_replaced_by_a_model(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path(os.devnull)):
        with pytest.raises(
            ValueError, match=f"{path} is a device or a pipe; give the name of a file"
        ):
            save_model(suquan.QuantileNormalizer("normal").fit(X), path)
        assert not path.is_file()


def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch):
    model = suquan.QuantileNormalizer("normal").fit(X)
    path = save_model(model, tmp_path / "model.suquan")
    before = path.read_bytes()

    def full_disk(*arguments):
        raise OSError("no space left")

    monkeypatch.setattr(zipfile.ZipFile, "writestr", full_disk)
    with pytest.raises(OSError, match="no space"):
        save_model(model, path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_the_training_summary_is_kept(tmp_path):
    model = suquan.SuquanClassifier("fixed", alpha=0.5).fit(X, TWO)
    summary = {"label": "relapse", "classes": {"no": 18, "yes": 22}, "auc": float("nan"), "$": 1}
    file = read_model(save_model(model, tmp_path / "m.suquan", summary=summary))
    assert file.summary["method"] == "fixed"
    assert file.summary["alpha"] == 0.5
    assert file.summary["n_features"] == 12
    assert file.summary["classes"] == {"no": 18, "yes": 22}
    assert np.isnan(file.summary["auc"])
    assert file.versions["suquan"] == suquan.__version__


# ---------------------------------------------------------------------------------------------- promises


@pytest.mark.parametrize(
    "name", sorted(f"{path.parent.name}/{path.stem}" for path in STORED.glob("schema*/*.suquan"))
)
def test_files_of_earlier_versions_stay_loadable(name):
    path = STORED / f"{name}.suquan"
    model, name = load_model(path), path.stem
    with np.load(path.parent / "expected.npz", allow_pickle=False) as expected:
        got = make_models.predictions(model, expected["X"])
        for method, values in got.items():
            stored = expected[f"{name}.{method}"]
            assert stored.shape == values.shape
            if values.dtype.kind == "f":  # other processors may round sums otherwise
                assert_allclose(values, stored, rtol=1e-12, atol=1e-14)
            else:
                assert_array_equal(values, stored)


@pytest.mark.parametrize("name", ["classifier", "regressor", "classifier_cv", "regressor_cv"])
def test_parameters_that_a_file_lacks_get_their_defaults(name, tmp_path):
    """A file of a version that did not know a parameter yet."""
    source = STORED / "schema1" / f"{name}.suquan"
    path = tmp_path / "old.suquan"
    path.write_bytes(source.read_bytes())

    def forget(encoded):
        if isinstance(encoded, dict):
            if encoded.get("$") == "estimator":
                for parameter in ("n_knots", "n_repeats", "tol"):
                    encoded["parameters"].pop(parameter)
            for item in encoded.values():
                forget(item)

    loaded = load_model(change_header(path, lambda header: forget(header["estimator"])))
    assert (loaded.n_knots, loaded.n_repeats, loaded.tol) == (None, 3, 1e-4)
    assert loaded.get_params().keys() == type(loaded)().get_params().keys()
    assert_same_predictions(load_model(source), loaded, X)


@pytest.mark.parametrize("name", ["classifier", "classifier_multi"])
def test_a_model_from_before_training_means_warns_and_counts_what_is_missing_as_0(name):
    model = load_model(STORED / "schema3" / f"{name}.suquan")
    x = make_models.named(X[:5]).drop(columns=["gene 2", "gene 7"])
    with pytest.warns(UserWarning, match="2 of the model's 12 .* they are skipped"):
        aligned = suquan.align_features(model, x, max_lost=1.0)
    assert aligned.spread is None
    with pytest.warns(UserWarning, match="saved by an older version.*counts as 0"):
        scores = aligned.model.decision_function(aligned.values)
    u = np.nan_to_num(aligned.model.transform(aligned.values)) @ model.coef_.T + model.intercept_
    assert_allclose(scores.reshape(u.shape), u)


@pytest.mark.parametrize("schema", ["schema1", "schema2"])
def test_a_model_from_before_calibration_is_not_calibrated(schema):
    model = load_model(STORED / schema / "classifier_cv.suquan")
    assert model.calibration is None
    x = make_models.make_data()[0][:7]
    x = make_models.named(x)
    assert_array_equal(model.predict_proba(x), model.best_estimator_.predict_proba(x))
    assert_array_equal(model.predict(x), model.best_estimator_.predict(x))


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("classifier_cv", {"slope": "steep"}),
        ("classifier_cv", {"kind": "magic"}),
        ("classifier_cv", {"temperature": 1.0}),
        ("classifier_cv", {"kind": "temperature"}),
        ("classifier_cv", {"intercept": {"$": "float", "value": "nan"}}),
        ("classifier_isotonic", {"scores": 1.0}),
        ("classifier_isotonic", {"scores": {"$": "array", "at": "arrays/0000.npy"}}),
        ("classifier_temperature", {"kind": "sigmoid"}),
    ],
)
def test_a_calibration_that_does_not_fit_the_model_is_refused(tmp_path, name, change):
    path = tmp_path / "m.suquan"
    path.write_bytes((STORED / f"schema{SCHEMA}" / f"{name}.suquan").read_bytes())
    change_header(path, lambda h: h["estimator"]["attributes"]["calibration_"].update(change))
    refuse(path, "calibration_ does not fit")


def test_a_parameter_of_a_newer_version_is_named(model_path):
    refuse(change_header(model_path, _parameter("volume", 11)), "parameter 'volume'.*Update")


def test_an_attribute_of_a_newer_version_is_named(model_path, tmp_path):
    refuse(change_header(model_path, _attribute("volume_", 11)), "attribute 'volume_'.*Update")
    model = suquan.QuantileNormalizer("normal").fit(X)
    model.volume_ = 11.0
    with pytest.raises(TypeError, match="volume_ is not an attribute that a fit sets"):
        save_model(model, tmp_path / "m.suquan")


@pytest.mark.parametrize("value", ["text", 3, None, [1.0], {}])
def test_a_header_whose_estimator_is_none_is_refused(model_path, value):
    change_header(model_path, lambda header: header.update(estimator=value))
    refuse(model_path, "instead of an estimator")


def test_there_is_a_promised_file_of_every_estimator():
    kept = {type(load_model(path)).__name__ for path in STORED.glob("schema*/*.suquan")}
    assert kept == set(ESTIMATORS)
    stored = {path.stem for path in (STORED / f"schema{SCHEMA}").glob("*.suquan")}
    assert stored == set(make_models.make_models())


# ---------------------------------------------------------------------------------------------- refusals


def test_an_unfitted_estimator_is_refused(tmp_path):
    for estimator in ESTIMATORS.values():
        with pytest.raises(NotFittedError):
            save_model(estimator(), tmp_path / "m.suquan")
    assert not list(tmp_path.iterdir())


def test_other_estimators_are_refused(tmp_path):
    class Mine(suquan.QuantileNormalizer):
        pass

    for model in (make_pipeline(suquan.QuantileNormalizer("normal")).fit(X), Mine("normal").fit(X)):
        with pytest.raises(TypeError, match="model files hold QuantileNormalizer"):
            save_model(model, tmp_path / "m.suquan")


def test_an_attribute_that_is_no_data_is_refused(tmp_path):
    model = suquan.QuantileNormalizer("normal").fit(X)
    model.note_ = object()
    with pytest.raises(TypeError, match="note_ holds"):
        save_model(model, tmp_path / "m.suquan")
    model.note_ = np.array([object()])
    with pytest.raises(TypeError, match="note_ is an array of object"):
        save_model(model, tmp_path / "m.suquan")


class Stub:
    """A loss or a method that someone has written outside this library."""


@pytest.mark.parametrize("name", ["method", "loss"])
def test_a_loss_or_method_of_the_users_own_is_refused_by_name(name, tmp_path, monkeypatch):
    model = suquan.SuquanClassifier("fixed").fit(X, TWO)
    if name not in model.get_params():
        parameters = {**model.get_params(deep=False), name: None}
        monkeypatch.setattr(type(model), "get_params", lambda self, deep=True: parameters)
        parameters[name] = Stub()
    setattr(model, name, Stub())
    with pytest.raises(
        TypeError, match=f"^{name} is an object of class Stub that a model file cannot"
    ):
        save_model(model, tmp_path / "m.suquan")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("feature_names_in_", np.array([f"g{j}" for j in range(30)], dtype=object)),
        ("coef_", np.ones((1, 30))),
        ("n_features_in_", 30),
        ("target_quantiles_", np.full(12, np.nan)),
    ],
)
def test_a_model_that_could_not_be_loaded_is_not_saved(name, value, tmp_path):
    for model in (
        suquan.SuquanClassifier("fixed").fit(X, TWO),
        suquan.SuquanClassifierCV("fixed", alphas=2).fit(X, TWO),
    ):
        setattr(model, name, value)
        with pytest.raises(
            ModelFileError, match=r"SuquanClassifier.* cannot be saved: .* Fit it again"
        ):
            save_model(model, tmp_path / "m.suquan")
    assert not list(tmp_path.iterdir())


@pytest.fixture
def model_path(tmp_path):
    model = suquan.SuquanClassifier("fixed").fit(make_models.named(X), np.where(TWO, "a", "b"))
    return save_model(model, tmp_path / "model.suquan")


def members(path):
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def write(path, parts, compression=zipfile.ZIP_STORED):
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, data in parts.items():
            archive.writestr(zipfile.ZipInfo(name), data, compression)
    return path


def change_header(path, change):
    """The file with another header, its checksums made right."""
    parts = members(path)
    header = json.loads(parts["model.json"])
    change(header)
    for name in header["arrays"]:
        if name in parts:
            header["arrays"][name] = hashlib.sha256(parts[name]).hexdigest()
    parts["model.json"] = json.dumps(header).encode()
    parts["model.json.sha256"] = hashlib.sha256(parts["model.json"]).hexdigest().encode()
    return write(path, parts)


def change_array(path, name, array):
    """The file with another array in place of an attribute's, its checksums made right."""
    parts = members(path)
    at = json.loads(parts["model.json"])["estimator"]["attributes"][name]["at"]
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=array.dtype.hasobject)
    parts[at] = buffer.getvalue()
    write(path, parts)
    return change_header(path, lambda header: None)


def refuse(path, match):
    with pytest.raises(ModelFileError, match=match) as caught:
        load_model(path)
    assert "\n" not in str(caught.value)
    assert str(path) in str(caught.value)


def test_a_newer_schema_is_refused_with_the_advice_to_update(model_path):
    change_header(model_path, lambda header: header.update(schema=SCHEMA + 1))
    refuse(model_path, f"schema {SCHEMA + 1}.*reads schemas up to {SCHEMA}.*[Uu]pdate")


@pytest.mark.parametrize("schema", [None, "1", 0, True, 1.0, []])
def test_a_schema_that_is_no_number_is_refused(model_path, schema):
    change_header(model_path, lambda header: header.update(schema=schema))
    refuse(model_path, "schema")


def test_files_of_other_kinds_are_refused(tmp_path):
    path = tmp_path / "m.suquan"
    for data in (b"", b"sample,gene\n", b"PK\x03\x04", b"\x80\x04K\x01."):
        path.write_bytes(data)
        refuse(path, "not a suquan model file")
    refuse(write(path, {"a.txt": b"x"}), "unexpected member")
    refuse(write(path, {"arrays/0000.npy": b"x"}), "no model.json")
    np.savez(tmp_path / "m.npz", a=np.ones(3))
    refuse(tmp_path / "m.npz", "unexpected member")
    with pytest.raises(FileNotFoundError):
        load_model(tmp_path / "absent.suquan")


@pytest.mark.parametrize(
    "name",
    [
        "/etc/passwd",
        "../model.json",
        "arrays/../x.npy",
        "arrays/0000.npy/",
        "C:\\x",
        "arrays/١٢٣٤.npy",
    ],
)
def test_unexpected_member_names_are_refused(model_path, name):
    write(model_path, {**members(model_path), name: b""})
    refuse(model_path, "unexpected member|differ")


def test_a_member_more_or_less_than_listed_is_refused(model_path):
    parts = members(model_path)
    write(model_path, {**parts, "arrays/0099.npy": parts["arrays/0000.npy"]})
    refuse(model_path, "arrays/0099.npy")
    write(model_path, {name: data for name, data in parts.items() if name != "arrays/0000.npy"})
    refuse(model_path, "arrays/0000.npy")


def test_a_repeated_member_is_refused(model_path):
    with zipfile.ZipFile(model_path, "a") as archive, pytest.warns(UserWarning, match="Duplicate"):
        archive.writestr("model.json", b"{}")
    refuse(model_path, "same name")


def test_compressed_members_are_refused_before_they_are_unpacked(model_path, monkeypatch):
    parts = members(model_path)
    parts["arrays/0099.npy"] = bytes(200 << 20)
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
    monkeypatch.setattr(_model_zip, "MAX_HEADER", 100)
    refuse(model_path, "larger than 100")
    with pytest.raises(ValueError, match="more than the 100"):
        save_model(suquan.QuantileNormalizer("normal").fit(X), model_path)


def test_a_header_that_is_nested_without_end_is_refused(model_path):
    parts = members(model_path)
    for text in (
        b"[" * 200_000,
        b'{"a":' * 200_000,
        b"[" * 500 + b"]" * 500,
        b"NaN",
        b"1" * 10_000,
    ):
        parts["model.json"] = text
        parts["model.json.sha256"] = hashlib.sha256(text).hexdigest().encode()
        refuse(write(model_path, parts), "too deeply|not JSON|or damaged|not the header")


def test_a_header_of_another_program_is_refused(model_path):
    change_header(model_path, lambda header: header.update(format="other"))
    refuse(model_path, "not the header of a suquan model")


def test_arrays_that_claim_what_they_do_not_hold_are_refused(model_path):
    parts = members(model_path)
    for header in (
        {"descr": "<f8", "fortran_order": False, "shape": (10**15,)},
        {"descr": "<f8", "fortran_order": False, "shape": (-12,)},
        {"descr": "|O", "fortran_order": False, "shape": (1,)},
        {"descr": [("a", "<f8")], "fortran_order": False, "shape": (1,)},
        {"descr": "<f8", "fortran_order": True, "shape": (1, 1)},
        {"descr": "<M8[s]", "fortran_order": False, "shape": (1,)},
    ):
        buffer = io.BytesIO()
        np.lib.format.write_array_header_1_0(buffer, header)
        write(model_path, {**parts, "arrays/0000.npy": buffer.getvalue() + bytes(8)})
        change_header(model_path, lambda header: None)
        refuse(model_path, "do not trust|damaged")


def test_pickled_arrays_are_never_read(model_path):
    class Bomb:
        def __reduce__(self):
            return pytest.fail, ("executed",)

    change_array(model_path, "coef_", np.array([Bomb()], dtype=object))
    refuse(model_path, "not numbers")


@pytest.mark.parametrize(
    ("name", "array"),
    [
        ("coef_", np.ones((1, 11))),
        ("coef_", np.ones(12)),
        ("coef_", np.full((1, 12), np.nan)),
        ("coef_", np.ones((1, 12), np.float32)),
        ("coef_", np.ones((3, 12))),
        ("intercept_", np.ones(2)),
        ("intercept_", np.array([np.inf])),
        ("target_quantiles_", np.ones(13)),
        ("target_quantiles_", np.ones((12, 1))),
    ],
)
def test_arrays_that_do_not_fit_the_model_are_refused(model_path, name, array):
    refuse(change_array(model_path, name, array), name)


def _attribute(name, value):
    return lambda header: header["estimator"]["attributes"].update({name: value})


def _parameter(name, value):
    return lambda header: header["estimator"]["parameters"].update({name: value})


@pytest.mark.parametrize(
    "change",
    [
        lambda header: header["estimator"].update({"class": "Popen"}),
        lambda header: header["estimator"].update({"class": ["x"]}),
        lambda header: header["estimator"].pop("class"),
        lambda header: header.pop("strings"),
        lambda header: header.update(arrays=[]),
        lambda header: header["strings"][0].append(3),
        lambda header: header["strings"][0].pop(),
        lambda header: header.update(strings=[]),
        _parameter("unknown", 1),
        _parameter("ties", "other"),
        _parameter("missing", 3),
        _parameter("method", ["fixed"]),
        _attribute("predict", 1),
        _attribute("training_ranks_", "text"),
        _attribute("training_ranks_", {"profile": 1.0, "correlations": 1.0, "ties": 1.0}),
        _attribute("__class__", 1),
        _attribute("_operator", 1),
        _attribute("n_features_in_", 5),
        _attribute("n_features_in_", True),
        _attribute("n_features_in_", 10**400),
        _attribute("classes_", [0, 1]),
        _attribute("coef_", None),
        _attribute("coef_", {"$": "array", "at": "arrays/9999.npy"}),
        _attribute("coef_", {"$": "array", "at": []}),
        _attribute("coef_", {"$": "python", "code": "1"}),
        _attribute("objective_", {"$": "float", "value": "1"}),
        _attribute("objective_", {"$": "strings", "at": 0, "type": "U999999999"}),
        _attribute("objective_", {"$": "strings", "at": 0, "type": "U999999"}),
        _attribute("objective_", {"$": "strings", "at": 0, "type": "M8"}),
        _attribute("objective_", {"$": "dict", "items": [[[], 1]]}),
        _parameter("cv", {"$": "splitter", "class": "Popen", "parameters": {}}),
        _parameter("cv", {"$": "splitter", "class": "KFold", "parameters": {"args": 1}}),
        _parameter("cv", {"$": "splitter", "class": "KFold", "parameters": {"n_splits": "x"}}),
    ],
)
def test_headers_that_describe_no_model_are_refused(model_path, change):
    refuse(change_header(model_path, change), "model")


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_a_damaged_file_is_refused_or_gives_the_same_model(data, tmp_path_factory):
    source = STORED / "schema1" / "classifier.suquan"
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


def test_no_number_of_the_arrays_changes_unseen(tmp_path):
    """Every byte of the header and of the arrays is under a checksum."""
    source, path = STORED / "schema1" / "normalizer.suquan", tmp_path / "m.suquan"
    whole = source.read_bytes()
    with zipfile.ZipFile(source) as archive:
        for member in archive.infolist():
            data = archive.read(member)
            at = whole.index(data)
            for place in range(at, at + len(data), 7):
                changed = bytearray(whole)
                changed[place] ^= 1
                path.write_bytes(changed)
                with pytest.raises(ModelFileError):
                    load_model(path)
