"""Saved models: the same predictions bit for bit, from files of all versions."""

import copy
import csv
import json
import os
import stat
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from model_files import (
    ESTIMATORS,
    STORED,
    THREE,
    TWO,
    U,
    X,
    assert_same_predictions,
    assert_same_value,
    change_header,
    make_models,
    members,
)
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from sklearn import model_selection as splitters
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline

import suquan
from suquan import load_model, save_model
from suquan.export import export_model
from suquan.methods import METHODS
from suquan.persistence import SCHEMA, ModelFileError, read_model

# A start that the monotone methods keep as it is.
START = np.sort(np.random.default_rng(1).normal(size=12))


def round_trip(model, tmp_path):
    return load_model(save_model(model, tmp_path / "model.suquan"))


def assert_survives(model, tmp_path):
    loaded = round_trip(model, tmp_path)
    assert_same_value(vars(model), vars(loaded))
    assert_same_predictions(model, loaded)


# ------------------------------------------------------------------------------------------- round trips


@pytest.mark.parametrize("name", make_models.make_models())
def test_everything_of_every_estimator_survives(name, tmp_path):
    assert_survives(make_models.make_models()[name], tmp_path)


LABELS = [
    TWO,
    TWO.astype(int) * 7 - 3,
    np.where(TWO, "yes", "no"),
    np.where(TWO, "yes", "née").astype(object),
    TWO.astype(float),
]


@pytest.mark.parametrize("method", METHODS)
def test_models_of_all_methods_and_labels(method, tmp_path):
    labels = LABELS[list(METHODS).index(method) % len(LABELS)]
    kind = suquan.SuquanClassifier
    assert_survives(kind(method, random_state=0).fit(X, labels), tmp_path)
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
    values = np.arange(5).astype(dtype)
    if np.dtype(dtype).kind in "iu":
        values[:2] = np.iinfo(dtype).min, np.iinfo(dtype).max
    elif np.dtype(dtype).kind == "f":
        few = [np.nan, np.inf, -np.inf, -0.0, 1 / 3, np.finfo(dtype).max]
        values = np.array([*few, np.finfo(dtype).smallest_subnormal], dtype)
    kept = {
        "flat": values,
        "table": np.stack([values, values[::-1]]),
        "cube": np.stack([[values, values]] * 3),
        "number": values[0].reshape(()),
        **{f"none {shape}": np.empty(shape, dtype) for shape in ((0,), (3, 0), (0, 3))},
    }
    path = save_model(ESTIMATORS[suquan.QuantileNormalizer], tmp_path / "m", summary=kept)
    summary = read_model(path).summary
    assert_same_value(kept, {name: summary[name] for name in kept})


def test_start_targets_survive(tmp_path):
    for init in ("median", START, START.tolist(), tuple(START.tolist())):
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


class Halves(splitters.BaseCrossValidator):
    """A splitter of someone's own."""

    def get_n_splits(self, X=None, y=None, groups=None):
        return 2

    def _iter_test_masks(self, X, y, groups):
        yield from (np.arange(len(X)) % 2 == k for k in range(2))


def test_a_splitter_a_scorer_and_a_generator_are_noted_and_become_the_default(tmp_path):
    model = suquan.SuquanClassifierCV(
        "fixed",
        cv=Halves(),
        scoring=lambda model, X, y: model.score(X, y),
        random_state=np.random.RandomState(0),
        alphas=2,
    ).fit(X, TWO)
    with pytest.warns(UserWarning, match="not kept"):
        path = save_model(model, tmp_path / "model.suquan")
    file = read_model(path)
    assert len(file.notes) == 3
    assert any("cv was Halves" in note for note in file.notes)
    assert file.estimator.cv is None
    assert file.estimator.random_state is None
    assert_same_predictions(model, file.estimator)


def test_k_fold_splitters_lists_of_splits_and_class_weights_survive(tmp_path):
    model = suquan.SuquanClassifier("fixed").fit(X, TWO)
    for cv in (
        splitters.StratifiedKFold(3, shuffle=True, random_state=1),
        splitters.StratifiedGroupKFold(4),
        splitters.StratifiedShuffleSplit(3, random_state=0),
        splitters.RepeatedStratifiedKFold(n_splits=3, n_repeats=2, random_state=0),
        splitters.LeaveOneOut(),
    ):
        assert repr(round_trip(model.set_params(cv=cv), tmp_path).cv) == repr(cv)
    model.cv = splitters.StratifiedKFold(shuffle=True, random_state=np.random.RandomState(0))
    with pytest.warns(UserWarning, match="cv was"):
        round_trip(model, tmp_path)
    model.cv = list(splitters.StratifiedKFold(2).split(X, TWO))
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


@pytest.mark.skipif(os.name != "posix", reason="permissions, links and devices of POSIX")
def test_a_file_keeps_its_mode_and_its_link_and_a_device_is_not_replaced(tmp_path):
    model = ESTIMATORS[suquan.QuantileNormalizer]
    (tmp_path / "new").write_text("")
    path, link = save_model(model, tmp_path / "m.suquan"), tmp_path / "latest"
    assert path.stat().st_mode == (tmp_path / "new").stat().st_mode
    path.chmod(0o600)
    link.symlink_to("m.suquan")
    before = path.stat().st_ino
    save_model(model, link)
    assert link.is_symlink()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert path.stat().st_ino != before  # a new file, moved into place
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path(os.devnull)):
        with pytest.raises(ValueError, match=f"{path} is a device or a pipe; give the name"):
            save_model(model, path)
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
    public = [getattr(suquan, name) for name in suquan.__all__]
    assert {kind for kind in public if hasattr(kind, "fit")} == set(ESTIMATORS)


@pytest.mark.parametrize("schema", ["schema1", f"schema{SCHEMA}"])
@pytest.mark.parametrize("name", ["classifier", "regressor_cv"])
def test_parameters_may_come_and_go(name, schema, tmp_path):
    """A file of a version that did not know some parameters yet, and of one that knew one more."""
    path = tmp_path / "old.suquan"
    path.write_bytes((STORED / schema / f"{name}.suquan").read_bytes())
    expected = load_model(path)

    def forget(encoded):
        for item in encoded.values() if isinstance(encoded, dict) else ():
            forget(item)
        if isinstance(encoded, dict) and encoded.get("$") == "estimator":
            encoded["parameters"]["selection"] = "one_se"
            for parameter in ("n_knots", "n_repeats", "tol"):
                del encoded["parameters"][parameter]

    change_header(path, lambda header: forget(header["estimator"]))
    file, has = read_model(path), type(expected)().get_params()
    loaded = file.estimator
    told = f"selection was 'one_se'; suquan {suquan.__version__} has no such parameter."
    assert file.notes == [told]
    assert (loaded.n_knots, loaded.n_repeats, loaded.tol) == (None, 3, 1e-4)
    assert loaded.get_params().keys() == has.keys()
    assert_same_predictions(expected, loaded, X)


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


def test_a_loss_or_method_of_the_users_own_is_refused_by_name(tmp_path):
    class Stub:
        """A loss or a method that someone has written outside this library."""

    fitted = suquan.SuquanClassifier("fixed").fit(X, TWO)
    for name in ("method", "loss"):
        model = copy.copy(fitted).set_params(**{name: Stub()})
        with pytest.raises(TypeError, match=f"^{name} is an object of class Stub that a model"):
            save_model(model, tmp_path / "m.suquan")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("kind", [suquan.SuquanClassifier, suquan.SuquanClassifierCV])
def test_a_model_that_could_not_be_loaded_is_not_saved(kind, tmp_path):
    fitted = kind("fixed").fit(X, TWO)
    for name, value in {
        "feature_names_in_": np.array([f"g{j}" for j in range(30)], dtype=object),
        "coef_": np.ones((1, 30)),
        "n_features_in_": 30,
        "target_quantiles_": np.full(12, np.nan),
    }.items():
        model = copy.copy(fitted)
        setattr(model, name, value)
        with pytest.raises(ModelFileError, match=r"Suquan.* cannot be saved: .* Fit it again"):
            save_model(model, tmp_path / "m.suquan")
    assert not list(tmp_path.iterdir())
