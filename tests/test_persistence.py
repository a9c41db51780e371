"""Saved models: the same predictions bit for bit, and a clear refusal of everything else."""

import csv
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
from suquan.export import export_model
from suquan.methods import METHODS
from suquan.persistence import SCHEMA, ModelFileError, read_model

STORED = Path(__file__).parent / "data" / "models"
_spec = importlib.util.spec_from_file_location("make_models", STORED / "make_models.py")
make_models = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(make_models)

X, U, TWO, THREE = make_models.make_data()
ESTIMATORS = {type(model): model for model in make_models.make_models().values()}
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


def assert_survives(model, tmp_path):
    loaded = round_trip(model, tmp_path)
    assert_same_value(vars(model), vars(loaded))
    assert_same_predictions(model, loaded)
    return loaded


# ------------------------------------------------------------------------------------------- round trips


@pytest.mark.parametrize("name", make_models.make_models())
def test_everything_of_every_estimator_survives(name, tmp_path):
    assert_survives(make_models.make_models()[name], tmp_path)


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
def test_models_of_all_methods_and_labels(method, labels, tmp_path):
    kind = suquan.SuquanClassifier
    assert_survives(kind(method, random_state=0).fit(X, LABELS[labels]), tmp_path)
    if method != "svd":
        assert_survives(kind(method, random_state=0).fit(X, THREE), tmp_path)
        for kind, y in (
            (suquan.SuquanRegressor, U),
            (suquan.SupervisedQuantileNormalizer, THREE),
        ):
            assert_survives(kind(method, random_state=0, n_knots=5).fit(X, y), tmp_path)


@pytest.mark.parametrize(
    "dtype", ["bool", "int8", "int64", "uint64", "float16", "float32", "float64"]
)
def test_arrays_of_all_types_and_shapes_read_back_exactly(dtype, tmp_path):
    largest = np.finfo(dtype).max if dtype.startswith("f") else 1
    largest = np.iinfo(dtype).max if "int" in dtype else largest
    values = np.array([largest, 0, 1], dtype)
    if dtype.startswith("f"):
        tiny = np.nextafter(np.zeros(1, dtype), np.ones(1, dtype))
        values = np.concatenate([values, [np.nan, np.inf, -np.inf, -0.0, 1 / 3, 0.1], tiny]).astype(
            dtype
        )
    kept = {
        "flat": values,
        "twice": values,
        "table": np.stack([values, values[::-1]]),
        "across": np.stack([values, values]).T,
        "cube": np.stack([[values, values]] * 3),
        "number": values[0].reshape(()),
        "none": values[:0],
        "tall": np.empty((3, 0), dtype),
        "wide": np.empty((0, 3), dtype),
    }
    path = save_model(ESTIMATORS[suquan.QuantileNormalizer], tmp_path / "m", summary=kept)
    summary = read_model(path).summary
    assert_same_value({name: np.ascontiguousarray(a) if a.ndim else a for name, a in kept.items()},
                      {name: summary[name] for name in kept})  # fmt: skip


@pytest.mark.parametrize(
    "init",
    ["median", START, START.tolist(), tuple(START.tolist())],
    ids=lambda init: type(init).__name__,
)
def test_start_targets_survive(init, tmp_path):
    assert_survives(suquan.SuquanClassifier("fixed", init=init).fit(X, TWO), tmp_path)


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
        assert_same_predictions(normalizer, round_trip(normalizer, tmp_path))


def test_a_splitter_a_scorer_and_a_generator_are_noted_and_become_the_default(tmp_path):
    model = suquan.SuquanClassifierCV(
        "fixed",
        cv=StratifiedShuffleSplit(3, random_state=0),
        scoring=lambda model, X, y: model.score(X, y),
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


def test_k_fold_splitters_lists_of_splits_and_class_weights_survive(tmp_path):
    model = suquan.SuquanClassifier("fixed").fit(X, TWO)
    for cv in (
        KFold(3),
        StratifiedKFold(3, shuffle=True, random_state=1),
        GroupKFold(2),
        StratifiedGroupKFold(4),
        RepeatedKFold(n_splits=2, n_repeats=4),
        RepeatedStratifiedKFold(n_splits=3, n_repeats=2, random_state=0),
        LeaveOneOut(),
    ):
        assert repr(round_trip(model.set_params(cv=cv), tmp_path).cv) == repr(cv)
    model.cv = StratifiedKFold(2, shuffle=True, random_state=np.random.RandomState(0))
    with pytest.warns(UserWarning, match="cv was"):
        round_trip(model, tmp_path)
    model.cv = list(StratifiedKFold(2).split(X, TWO))
    for weights in ({"a": 2.0, "b": 1.0}, {0: 2.0, 1: 1.0}):
        assert_survives(model.set_params(class_weight=weights), tmp_path)


def test_float32_missing_values_and_ties_are_treated_as_before(tmp_path):
    data = X.astype(np.float32)
    data[3, 2] = np.nan
    for ties in ("average", "first", "mean_rank"):
        model = suquan.SuquanClassifier("fixed", ties=ties, missing="ignore").fit(data, TWO)
        assert_same_predictions(model, round_trip(model, tmp_path), data)


def test_feature_names_and_output_settings_survive(tmp_path):
    names = [f'gène \U0001f9ec {j}\n,"\r' for j in range(11)] + ["\udc80"]
    frame = pd.DataFrame(X, columns=names)
    model = suquan.QuantileNormalizer("mean").set_output(transform="pandas").fit(frame)
    loaded = round_trip(model, tmp_path)
    pd.testing.assert_frame_equal(loaded.transform(frame), model.transform(frame))
    with pytest.raises(ValueError, match="feature names should match"):
        loaded.transform(frame.iloc[:, ::-1])
    model = suquan.SuquanClassifier("fixed").fit(frame, TWO)
    assert_array_equal(round_trip(model, tmp_path).coef_, model.coef_)
    model.feature_names_in_[3] = "x" * (csv.field_size_limit() + 1)
    with pytest.raises(ValueError, match=r"longer than \d+ characters"):
        round_trip(model, tmp_path)


def test_the_training_summary_is_kept(tmp_path):
    model = suquan.SuquanClassifier("fixed", alpha=0.5).fit(X, TWO)
    summary = {"label": "relapse", "classes": {"no": 18, "yes": 22}, "auc": float("nan"), "$": 1}
    file = read_model(save_model(model, tmp_path / "m.suquan", summary=summary))
    assert (file.summary["method"], file.summary["alpha"]) == ("fixed", 0.5)
    assert file.summary["n_features"] == 12
    assert file.summary["classes"] == {"no": 18, "yes": 22}
    assert np.isnan(file.summary["auc"])
    assert file.versions["suquan"] == suquan.__version__


def test_a_model_file_holds_what_export_writes(tmp_path):
    model = make_models.make_models()["classifier_cv"]
    summary = {"class_names": ["well", "ill"]}
    path = save_model(model, tmp_path / "m.suquan", summary=summary)
    told = read_model(path).summary
    folder = export_model(model, tmp_path / "m", class_names=["well", "ill"], summary=told)
    held = members(path)
    for file in folder.iterdir():
        assert held[file.name] == file.read_bytes()
    assert b"estimator.json" in held["README.txt"]
    assert json.loads(held["model.json"])["classes"] == ["well", "ill"]


# ------------------------------------------------------------------------------------ how it is written


def test_the_same_model_gives_the_same_bytes_and_is_written_in_one_move(tmp_path):
    model = make_models.make_models()["classifier_cv"]
    first = save_model(model, tmp_path / "a.suquan").read_bytes()
    again = save_model(load_model(tmp_path / "a.suquan"), tmp_path / "b.suquan")
    assert again.read_bytes() == first
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.suquan", "b.suquan"]


@pytest.mark.skipif(os.name != "posix", reason="permissions and links of POSIX")
def test_a_file_has_the_mode_of_a_new_one_and_keeps_its_mode_and_its_link(tmp_path):
    model = ESTIMATORS[suquan.QuantileNormalizer]
    (tmp_path / "new").write_text("")
    path, link = save_model(model, tmp_path / "m.suquan"), tmp_path / "latest"
    assert stat.S_IMODE(path.stat().st_mode) == stat.S_IMODE((tmp_path / "new").stat().st_mode)
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
        match = f"{path} is a device or a pipe; give the name of a file"
        with pytest.raises(ValueError, match=match):
            save_model(ESTIMATORS[suquan.QuantileNormalizer], path)
        assert not path.is_file()


def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch):
    model = ESTIMATORS[suquan.QuantileNormalizer]
    path = save_model(model, tmp_path / "model.suquan")
    before = path.read_bytes()

    def full_disk(*arguments):
        raise OSError("no space left")

    monkeypatch.setattr(zipfile.ZipFile, "writestr", full_disk)
    with pytest.raises(OSError, match="no space"):
        save_model(model, path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


# --------------------------------------------------------------------------------- files of all versions


@pytest.mark.parametrize(
    "name", sorted(f"{path.parent.name}/{path.stem}" for path in STORED.glob("schema*/*.suquan"))
)
def test_files_of_all_versions_stay_loadable(name, tmp_path):
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
        assert_same_predictions(model, round_trip(model, tmp_path), expected["X"])


def test_there_is_a_promised_file_of_every_estimator():
    stored = {path.stem for path in (STORED / f"schema{SCHEMA}").glob("*.suquan")}
    assert stored == set(make_models.make_models())
    known = {kind for kind in map(vars(suquan).get, dir(suquan)) if isinstance(kind, type)}
    assert {kind for kind in known if hasattr(kind, "fit")} <= set(ESTIMATORS)


@pytest.mark.parametrize("schema", ["schema1", f"schema{SCHEMA}"])
@pytest.mark.parametrize("name", ["classifier", "regressor", "classifier_cv", "regressor_cv"])
def test_parameters_may_come_and_go(name, schema, tmp_path):
    """A file of a version that did not know a parameter yet, or knew one that is gone."""
    source, path = STORED / schema / f"{name}.suquan", tmp_path / "old.suquan"
    path.write_bytes(source.read_bytes())

    def forget(encoded):
        if isinstance(encoded, dict):
            if encoded.get("$") == "estimator":
                for parameter in ("n_knots", "n_repeats", "tol"):
                    encoded["parameters"].pop(parameter)
                encoded["parameters"] |= {"complexity": "low"} if "Cox" in encoded["class"] else {}
            for item in encoded.values():
                forget(item)

    loaded = load_model(change_header(path, lambda header: forget(header["estimator"])))
    assert (loaded.n_knots, loaded.n_repeats, loaded.tol) == (None, 3, 1e-4)
    assert loaded.get_params().keys() == type(loaded)().get_params().keys()
    assert_same_predictions(load_model(source), loaded, X)


def test_a_parameter_that_is_gone_is_noted_and_changes_no_prediction(tmp_path):
    path = tmp_path / "m.suquan"
    path.write_bytes((STORED / "schema4" / "classifier.suquan").read_bytes())
    before = load_model(path)
    change_header(path, _parameter("selection", "one_se"))
    file = read_model(path)
    assert file.notes == [
        f"selection was 'one_se'; suquan {suquan.__version__} has no such parameter."
    ]
    assert_same_predictions(before, file.estimator)


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
    model, x = load_model(STORED / schema / "classifier_cv.suquan"), make_models.named(X[:7])
    assert model.calibration is None
    for method in ("predict_proba", "predict"):
        assert_array_equal(getattr(model, method)(x), getattr(model.best_estimator_, method)(x))


# ---------------------------------------------------------------------------------- what is not saved


def test_what_is_no_fitted_estimator_of_this_library_is_refused(tmp_path):
    class Mine(suquan.QuantileNormalizer):
        pass

    path = tmp_path / "m.suquan"
    for estimator in ESTIMATORS:
        with pytest.raises(NotFittedError):
            save_model(estimator(), path)
    for model in (make_pipeline(suquan.QuantileNormalizer("normal")).fit(X), Mine("normal").fit(X)):
        with pytest.raises(TypeError, match="model files hold QuantileNormalizer"):
            save_model(model, path)
    model = suquan.QuantileNormalizer("normal").fit(X)
    for name, value, match in [
        ("note_", object(), "note_ holds"),
        ("note_", np.array([object()]), "note_ is an array of object"),
        ("note_", 11.0, "note_ is not an attribute that a fit sets"),
    ]:
        setattr(model, name, value)
        with pytest.raises(TypeError, match=match):
            save_model(model, path)
    assert not list(tmp_path.iterdir())


class Stub:
    """A loss or a method that someone has written outside this library."""


@pytest.mark.parametrize("name", ["method", "loss"])
def test_a_loss_or_method_of_the_users_own_is_refused_by_name(name, tmp_path):
    model = suquan.SuquanClassifier("fixed").fit(X, TWO)
    setattr(model, name, Stub())
    match = f"^{name} is an object of class Stub that a model file cannot"
    with pytest.raises(TypeError, match=match):
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
        match = r"SuquanClassifier.* cannot be saved: .* Fit it again"
        with pytest.raises(ModelFileError, match=match):
            save_model(model, tmp_path / "m.suquan")
    assert not list(tmp_path.iterdir())


# ---------------------------------------------------------------------------------- what is not loaded


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


def change_header(path, change, **changed):
    """The file with another header and other members, the checksums made right."""
    parts = members(path) | changed
    main = header_of(parts)
    header = json.loads(parts[main])
    change(header)
    listed = header.get("members" if main == "estimator.json" else "arrays")
    for name in listed if isinstance(listed, dict) else ():
        listed[name] = hashlib.sha256(parts[name]).hexdigest()
    parts[main] = json.dumps(header).encode()
    parts[f"{main}.sha256"] = hashlib.sha256(parts[main]).hexdigest().encode()
    return write(path, parts)


def refuse(path, match):
    with pytest.raises(ModelFileError, match=match) as caught:
        load_model(path)
    assert "\n" not in str(caught.value)
    assert str(path) in str(caught.value)


def _attribute(name, value):
    return lambda header: header["estimator"]["attributes"].update({name: value})


def _parameter(name, value):
    return lambda header: header["estimator"]["parameters"].update({name: value})


def test_a_newer_schema_or_none_is_refused_with_the_advice_to_update(model_path):
    change_header(model_path, lambda header: header.update(schema=SCHEMA + 1))
    refuse(model_path, f"schema {SCHEMA + 1}.*reads schemas up to {SCHEMA}.*[Uu]pdate")
    for schema in (None, "1", 0, True, 1.0, []):
        change_header(model_path, lambda header, schema=schema: header.update(schema=schema))
        refuse(model_path, "schema")


def test_what_a_newer_version_may_add_is_refused_by_name(model_path):
    change_header(model_path, _attribute("volume_", 11))
    refuse(model_path, "attribute 'volume_'.*[Uu]pdate")
    change_header(model_path, _parameter("volume", 11))
    refuse(model_path, "parameter 'volume'.*[Uu]pdate")


def test_files_of_other_kinds_are_refused(tmp_path):
    path = tmp_path / "m.suquan"
    for data in (b"", b"sample,gene\n", b"PK\x03\x04", b"\x80\x04K\x01."):
        path.write_bytes(data)
        refuse(path, "not a suquan model file")
    refuse(write(path, {"a.txt": b"x"}), "unexpected member")
    refuse(write(path, {"arrays/0000.npy": b"x"}), "no estimator.json")
    refuse(write(path, {"model.json": b"{}"}), "no estimator.json")
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
        "arrays/١٢٣٤.csv",
    ],
)
def test_unexpected_member_names_are_refused(model_path, name):
    write(model_path, {**members(model_path), name: b""})
    refuse(model_path, "unexpected member|differ")


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
    write(
        model_path,
        members(model_path) | {"arrays/0099.csv": bytes(200 << 20)},
        zipfile.ZIP_DEFLATED,
    )
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


def table(array):
    """CSV of an array, as model files hold them."""
    columns = array.reshape(-1, array.shape[-1])
    return _model_zip.as_csv(["place", *[""] * len(columns)], range(columns.shape[1]), columns)


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
def test_arrays_that_do_not_fit_the_model_are_refused(new_path, name, array):
    at = json.loads(members(new_path)["estimator.json"])["estimator"]["attributes"][name]["at"]
    place = {"$": "array", "at": at, "type": array.dtype.name, "shape": array.shape}
    change_header(new_path, _attribute(name, place), **{at: table(array)})
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
        _parameter("unknown", 1),
        _parameter("ties", "other"),
        _parameter("missing", 3),
        _parameter("method", ["fixed"]),
        _attribute("predict", 1),
        _attribute("__class__", 1),
        _attribute("_operator", 1),
        _attribute("training_ranks_", "text"),
        _attribute("training_ranks_", {"profile": 1.0, "correlations": 1.0, "ties": 1.0}),
        _attribute("n_features_in_", 5),
        _attribute("n_features_in_", True),
        _attribute("n_features_in_", 10**400),
        _attribute("n_targets_", 2),
        _attribute("target_knots_", ARRAY),
        _attribute("feature_means_", {**ARRAY, "shape": [12, 1]}),
        _attribute("feature_names_in_", {**TEXT, "values": ["a"] * 11}),
        _attribute("feature_names_in_", {**TEXT, "values": ["a"] * 11 + [3]}),
        _attribute("classes_", [0, 1]),
        _attribute("classes_", {**TEXT, "type": "M8"}),
        _attribute("classes_", {"$": "text", "type": "U", "values": ["a" * 99] + [""] * 999}),
        _attribute("coef_", None),
        _attribute("coef_", {**ARRAY, "at": "arrays/9999.csv"}),
        _attribute("coef_", {**ARRAY, "at": []}),
        _attribute("coef_", {**ARRAY, "type": "object"}),
        _attribute("coef_", {**ARRAY, "type": "M8[s]"}),
        _attribute("coef_", {**ARRAY, "type": "int64"}),
        _attribute("coef_", {**ARRAY, "shape": [10**15]}),
        _attribute("coef_", {**ARRAY, "shape": "x"}),
        _attribute("coef_", {"$": "python", "code": "1"}),
        _attribute("objective_", {"$": "float", "value": "1"}),
        _attribute("objective_", {"$": "dict", "items": [[[], 1]]}),
        _parameter("cv", {"$": "splitter", "class": "Popen", "parameters": {}}),
        _parameter("cv", {"$": "splitter", "class": "KFold", "parameters": {"args": 1}}),
        _parameter("cv", {"$": "splitter", "class": "KFold", "parameters": {"n_splits": "x"}}),
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
