import subprocess
import sys
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.dummy import DummyClassifier
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from test_report import SETTINGS, make_problem

from suquan import (
    QuantileNormalizer,
    SupervisedQuantileNormalizer,
    SuquanClassifier,
    SuquanClassifierCV,
    SuquanRegressor,
    compare,
    make_target_quantiles,
)
from suquan.plotting import (
    ComparisonDisplay,
    FeatureCurveDisplay,
    NormalizedSampleDisplay,
    ObjectiveDisplay,
    TargetQuantileDisplay,
)

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402

ODD_NAME = r"$\frac{<script>_&"


X, Y = make_problem(n_features=12)
UNFITTED, NORMALIZER = SuquanClassifier(), QuantileNormalizer("uniform").fit(X)


def standardized(f):
    return (f - np.mean(f, axis=-1, keepdims=True)) / np.std(f, axis=-1, keepdims=True)


def heights(line):
    return np.asarray(line.get_ydata())


@pytest.fixture(scope="module")
def result():
    methods = ["normal", "uniform", "bnd", "crossfit", (ODD_NAME, DummyClassifier())]
    return compare(X, Y, methods=methods, **SETTINGS)


@pytest.fixture(scope="module")
def model():
    return SuquanClassifier("joint", tol=1e-12, random_state=0).fit(X, Y)


@pytest.fixture(scope="module")
def several():
    """A model with three targets, of features with names."""
    X, y = make_problem(n_samples=200, n_features=12)
    y = np.where(y + (X[:, 0] > 1) > 0, "tumour", "normal")
    frame = pd.DataFrame(X, columns=[f"GENE{j}" for j in range(12)])
    return SuquanClassifier("multi", n_targets=3, alpha=0.01, n_knots=8).fit(frame, y)


@pytest.fixture(autouse=True)
def _closed_figures():
    yield
    plt.close("all")


# -- targets -----------------------------------------------------------------------------------------


def test_target_of_an_estimator_is_drawn_standardised_against_fixed_ones(model):
    display = TargetQuantileDisplay.from_estimator(model, fixed=("normal", "cauchy"))
    f = standardized(model.target_quantiles_)
    assert_allclose(heights(display.line_), f, rtol=1e-12)
    drawn = heights(display.other_lines_["normal"])
    assert_allclose(drawn, standardized(make_target_quantiles("normal", 12)))
    assert display.band_ is None
    assert display.ax_.figure is display.figure_
    low, high = display.ax_.get_ylim()
    assert high - low < 1.5 * np.ptp(f)  # the heavy tails of the others do not flatten it


@pytest.mark.parametrize(
    ("estimator", "names"),
    [
        (SuquanClassifier("bnd"), ["normal", "uniform (start)"]),
        (SuquanClassifier("bnd", init="cauchy"), ["normal", "uniform", "cauchy (start)"]),
        (SuquanClassifier("bnd", init=np.arange(12.0) ** 2), ["normal", "uniform", "start"]),
        (SuquanClassifier("bnd", init="median"), ["normal", "uniform"]),  # needs the samples
        (SuquanClassifier("matrix", n_knots=6), ["normal", "uniform"]),  # starts from nothing
        (SuquanClassifier("fixed"), ["normal", "uniform"]),
        (QuantileNormalizer("mean"), ["normal", "uniform"]),
    ],
)
def test_start_is_drawn_where_it_is_known(estimator, names):
    fixed = ["normal", "uniform"]
    display = TargetQuantileDisplay.from_estimator(estimator.fit(X, Y), fixed=fixed)
    assert list(display.other_lines_) == names


def test_targets_of_the_folds_make_the_band(result):
    display = TargetQuantileDisplay.from_result(result, "bnd")
    folds = standardized(result.targets["bnd"])
    assert_allclose(heights(display.line_), standardized(np.median(folds, axis=0)))
    band = display.band_.get_paths()[0].vertices[:, 1]
    assert_allclose([band.min(), band.max()], [folds.min(), folds.max()])


def test_band_and_names_of_an_estimator_come_from_its_own_method(result):
    model = SuquanClassifierCV(alphas=[0.1], smoothnesses=[0.1], cv=2, random_state=0).fit(X, Y)
    final = TargetQuantileDisplay.from_estimator(model, comparison=result)
    folds = TargetQuantileDisplay.from_result(result)
    assert folds.line_.get_label() == "crossfit, median of folds"
    assert final.line_.get_label() == "crossfit, all samples"
    # Only what was compared is drawn, and the initial target among it is marked in both.
    assert list(folds.other_lines_) == list(final.other_lines_) == ["normal", "uniform (start)"]
    assert folds.band_.get_label() == final.band_.get_label() == "range of 3 folds"
    few = replace(result, summary={"method": np.array(["crossfit", "start"])})
    assert list(TargetQuantileDisplay.from_result(few).other_lines_) == ["uniform (start)"]
    other = SuquanClassifier("spav").fit(X, Y)
    assert TargetQuantileDisplay.from_estimator(other, comparison=result).band_ is None
    narrow = SuquanClassifier(random_state=0).fit(X[:, :5], Y)
    with pytest.raises(ValueError, match="12 places but the estimator has 5 features"):
        TargetQuantileDisplay.from_estimator(narrow, comparison=result)


def test_long_targets_are_thinned_but_keep_their_ends():
    f = make_target_quantiles("cauchy", 20_000)
    values = heights(TargetQuantileDisplay(f).plot().line_)
    assert len(values) < 700
    assert_allclose(values[[0, -1]], standardized(f)[[0, -1]])


def test_every_target_is_drawn_with_its_share_of_the_norm(several):
    display = TargetQuantileDisplay.from_estimator(several, fixed=["normal"])
    assert several.n_targets_ == len(display.lines_) == 3
    for line, f in zip(display.lines_, several.target_quantiles_, strict=True):
        assert_allclose(heights(line), standardized(f), rtol=1e-12)
    assert display.line_ is display.lines_[0]
    shares = several.singular_values_ / several.singular_values_.sum()
    told = [f"target {k}: {share:.1%}" for k, share in enumerate(shares, 1)]
    assert [text.get_text() for text in display.labels_] == told
    places = sorted(text.get_position()[1] for text in display.labels_)
    assert min(np.diff(places)) > 0.05
    assert places[-1] <= 1.0


def test_shares_of_a_matrix_are_those_of_its_squared_norm():
    model = SuquanClassifier("matrix", n_knots=6).fit(X, Y)
    squares, n_shown = model.singular_values_**2, len(model.target_quantiles_)
    display = TargetQuantileDisplay.from_estimator(model)
    assert_allclose(display.shares, squares[:n_shown] / squares.sum())


def test_folds_of_several_targets_show_the_largest(result):
    folds = replace(result, targets={"multi": result.targets["bnd"]})
    display = TargetQuantileDisplay.from_result(folds, "multi")
    assert display.line_.get_label() == "multi, largest…edian of folds"
    model = SuquanClassifier("multi", n_targets=2, n_knots=6).fit(X, Y)
    display = TargetQuantileDisplay.from_estimator(model, comparison=folds)
    assert display.band_.get_label() == "target 1, range of 3 folds"


# -- comparisons -------------------------------------------------------------------------------------


def test_scores_are_drawn_by_method_in_order_of_their_mean(result):
    for kind in ("strip", "box"):
        display = ComparisonDisplay.from_result(result, kind)
        means = [display.scores[name].mean() for name in display.methods_]
        assert means == sorted(means)
        assert set(display.methods_) == set(result.summary["method"]) == set(display.artists_)
        assert [text.get_text() for text in display.ax_.get_yticklabels()] == display.methods_
        assert display.ax_.get_xlabel() == "roc_auc"
        display.figure_.canvas.draw()  # a name that is no mathematics is drawn as it is
    # The box spans the quartiles, its whiskers the range.
    scores = result.folds["score"][result.folds["method"] == "crossfit"]
    drawn = display.artists_["crossfit"]
    edges = drawn["boxes"][0].get_path().vertices[:, 0]
    assert_allclose([edges.min(), edges.max()], np.quantile(scores, [0.25, 0.75]))
    ends = np.concatenate([line.get_xdata() for line in drawn["whiskers"]])
    assert_allclose([ends.min(), ends.max()], [scores.min(), scores.max()])
    assert_array_equal(drawn["folds"].get_offsets()[:, 0], scores)


def test_scatter_shows_the_folds_of_the_verdict_pair(result):
    display = ComparisonDisplay.from_result(result, "scatter")
    assert display.methods_ == ["start", "crossfit"]
    points, folds = display.artists_["crossfit"].get_offsets(), result.folds
    for column, name in enumerate(display.methods_):
        assert_array_equal(points[:, column], folds["score"][folds["method"] == name])
    assert display.ax_.get_xlim() == display.ax_.get_ylim()
    other = ComparisonDisplay.from_result(result, "scatter", methods=["bnd", ODD_NAME])
    other.figure_.canvas.draw()


def test_difference_shows_the_intervals_of_the_tests_table(result):
    display = ComparisonDisplay.from_result(result, "difference")
    assert "start" not in display.methods_
    tests = result.tests
    (k,) = np.flatnonzero((tests["method"] == "crossfit") & (tests["other"] == "start"))
    point, line = display.artists_["crossfit"]
    assert point.get_offsets()[0, 0] == tests["difference"][k]
    ends = line.get_paths()[0].vertices[:, 0]
    assert_allclose(ends, [tests["low"][k], tests["high"][k]])
    other = ComparisonDisplay.from_result(result, "difference", reference="normal")
    assert set(other.methods_) == set(result.summary["method"]) - {"normal"}


def test_given_axes_are_used_and_returned(result, model):
    figure, axes = plt.subplots(1, 4)
    assert ComparisonDisplay.from_result(result, ax=axes[0]).ax_ is axes[0]
    assert TargetQuantileDisplay.from_estimator(model, ax=axes[1]).ax_ is axes[1]
    assert ObjectiveDisplay.from_estimator(model, ax=axes[2]).figure_ is figure
    display = NormalizedSampleDisplay.from_estimator(model, X, ax=axes[2:])
    assert list(display.ax_) == list(axes[2:])
    assert len(plt.get_fignums()) == 1


def test_names_are_never_mathematics_and_long_ones_are_shortened(several):
    long = "a" * 100 + "z" * 100
    scores = {ODD_NAME: [0.1, 0.2], long: [0.3, 0.4], "": [0.2, 0.2], "\ud800": [0, 0]}
    display = ComparisonDisplay(scores, scoring="$\\bad").plot()
    display.figure_.canvas.draw()
    labels = [text.get_text() for text in display.ax_.get_yticklabels()]
    assert {ODD_NAME, "a" * 14 + "…" + "z" * 14, "(no name)"} <= set(labels)
    for odd in (
        FeatureCurveDisplay(np.eye(2), feature=ODD_NAME, classes=[ODD_NAME, "b"]).plot(),
        TargetQuantileDisplay([0.0, 1.0], name=ODD_NAME).plot(),
    ):
        odd.figure_.canvas.draw()


# -- samples -----------------------------------------------------------------------------------------


def test_normalised_samples_show_the_same_quantiles_after():
    display = NormalizedSampleDisplay.from_estimator(NORMALIZER, X)
    before, after = (np.asarray(drawn[2].get_xdata()) for drawn in display.artists_)
    assert np.all(np.diff(before) >= 0)  # samples are in order of their median
    assert np.ptp(before) > 0.1
    assert np.ptp(after) < 1e-12


def test_densities_integrate_to_one_leave_out_missing_values_and_thin_many_samples():
    gaps = X.copy()
    gaps[0, :3] = gaps[1] = np.nan
    normalizer = QuantileNormalizer("normal", missing="ignore").fit(gaps)
    for kind in ("quantiles", "density"):
        display = NormalizedSampleDisplay.from_estimator(normalizer, gaps, kind=kind)
    line = display.artists_[1][5]
    width = np.diff(line.get_xdata())[0]
    assert heights(line).sum() * width == pytest.approx(1.0)
    many = np.random.default_rng(0).normal(size=(500, 20))
    assert len(NormalizedSampleDisplay(many, many).plot("density").artists_[0]) == 60


@pytest.mark.parametrize("shape", [(3, 4), (2, 2, 3)])
def test_one_sample_is_drawn_as_an_image(shape):
    display = NormalizedSampleDisplay.from_estimator(NORMALIZER, X, shape=shape, sample=7)
    image = np.asarray(display.artists_[1][0].get_array())
    assert image.shape == shape
    x = NORMALIZER.transform(X)[7]
    wanted = x if len(shape) == 2 else (x - x.min()) / np.ptp(x)  # colours lie between 0 and 1
    assert_allclose(image.ravel(), wanted, rtol=1e-12)


def test_samples_of_several_targets_are_drawn_for_the_first(several):
    frame = pd.DataFrame(X, columns=several.feature_names_in_)
    display = NormalizedSampleDisplay.from_estimator(several, frame)
    assert_array_equal(display.after, several.transform(frame)[:, :12])


# -- curves of features, and objectives --------------------------------------------------------------


@pytest.mark.parametrize("method", ["multi", "matrix", "joint"])
def test_curves_of_all_features_add_up_to_the_score(method):
    model = SuquanClassifier(method, ties="first", n_knots=6).fit(X, Y)
    curves = [heights(FeatureCurveDisplay.from_estimator(model, j).line_) for j in range(12)]
    places = X.argsort(axis=1).argsort(axis=1)
    scores = sum(curve[place] for curve, place in zip(curves, places.T, strict=True))
    assert_allclose(scores + model.intercept_, model.decision_function(X), atol=1e-10)


def test_curve_of_a_feature_by_name_and_of_several_classes(several):
    display = FeatureCurveDisplay.from_estimator(several, "GENE7")
    assert display.ax_.get_title("left") == "GENE7"
    assert display.ax_.get_ylabel() == "added to the score for tumour"
    assert_array_equal(FeatureCurveDisplay.from_estimator(several, 7).curves, display.curves)
    model = SuquanClassifier("fixed").fit(X, Y + (X[:, 0] > 2))
    display = FeatureCurveDisplay.from_estimator(model, 3)
    assert [text.get_text() for text in display.labels_] == ["0", "1", "2"]
    assert_allclose(heights(display.lines_[2]), model.coef_[2, 3] * model.target_quantiles_)


def test_objective_is_drawn_after_every_half_step_and_for_crossfit_out_of_fold(model):
    display = ObjectiveDisplay.from_estimator(model)
    assert_array_equal(heights(display.line_), model.objective_history_)
    assert display.ax_.get_ylabel() == "objective J"
    for estimator in (SuquanRegressor, SupervisedQuantileNormalizer):
        display = ObjectiveDisplay.from_estimator(estimator(random_state=0).fit(X, Y))
        assert display.ax_.get_ylabel() == "out-of-fold loss"
        assert display.ax_.get_xlabel() == "round"


# -- mistakes ----------------------------------------------------------------------------------------

OTHER = LogisticRegression().fit(X, Y)
target, curve = TargetQuantileDisplay.from_estimator, FeatureCurveDisplay.from_estimator
samples, objective = NormalizedSampleDisplay.from_estimator, ObjectiveDisplay.from_estimator


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda: target(OTHER), "LogisticRegression has no target_quantiles_"),
        (lambda: target(make_pipeline(QuantileNormalizer()).fit(X)), r"such as pipeline\[0\]"),
        (lambda: target(NORMALIZER, fixed=["magic"]), "fixed"),
        (lambda: TargetQuantileDisplay([0, 1], fold_targets=[0, 1, 2]), "has 3 places"),
        (lambda: TargetQuantileDisplay(np.eye(2), shares=[1.0]), "1 shares for 2 targets"),
        (lambda: TargetQuantileDisplay([0.0, 1.0]).plot(ax=3), "ax must be matplotlib Axes"),
        (lambda: ComparisonDisplay({"a": [1.0], "b": [1.0, 2.0]}), "one value per fold"),
        (lambda: ComparisonDisplay({"a": [1.0]}).plot("difference"), "from_result"),
        (lambda: samples(NORMALIZER, X, shape=(5, 5)), r"shape must be .* 12 values in all"),
        (lambda: samples(NORMALIZER, X, shape=(3, 4), sample=60), "one of the 60 samples; got 60"),
        (lambda: samples(OTHER, X), "has no transform"),
        (lambda: NormalizedSampleDisplay(X, X[:5]), "same samples in rows"),
        (lambda: NormalizedSampleDisplay([[]], [[]]), "no value to draw"),
        (lambda: NormalizedSampleDisplay(X, X).plot(ax=[plt.gca()]), "two matplotlib Axes"),
        (lambda: curve(NORMALIZER, 0), "QuantileNormalizer has no coefficients"),
        (lambda: FeatureCurveDisplay(np.zeros((3, 4)), classes=["a", "b"]), "2 classes for 3"),
        (lambda: objective(NORMALIZER), "QuantileNormalizer has no objective_history_"),
        (lambda: ObjectiveDisplay([]), "at least one number"),
        (lambda: target(UNFITTED), "not fitted"),
        (lambda: curve(UNFITTED, 0), "not fitted"),
        (lambda: samples(QuantileNormalizer(), X), "not fitted"),
        (lambda: objective(UNFITTED), "not fitted"),
    ],
)
def test_what_cannot_be_drawn_is_refused_with_its_cure(call, match):
    with pytest.raises(NotFittedError if match == "not fitted" else ValueError, match=match):
        call()


@pytest.mark.parametrize(
    ("kind", "options", "match"),
    [
        ("violin", {}, "kind"),
        ("box", {"methods": ["magic"]}, "methods: 'magic' was not compared"),
        ("box", {"methods": []}, "methods must name at least one"),
        ("difference", {"reference": "magic"}, "reference: 'magic'"),
        ("scatter", {"methods": ["bnd"]}, "compares two methods"),
    ],
)
def test_comparison_display_refuses_bad_choices(result, kind, options, match):
    with pytest.raises(ValueError, match=match):
        ComparisonDisplay.from_result(result, kind, **options)
    with pytest.raises(ValueError, match="targets of 'joint'; it has: 'bnd', 'crossfit'"):
        TargetQuantileDisplay.from_result(result, "joint")


def test_a_feature_that_the_model_does_not_have_is_refused(several, model):
    for estimator, feature, match in (
        (several, "GNE7", r"no feature 'GNE7'; did you mean 'GENE7'"),
        (several, "ESR1", r"no feature 'ESR1'; check the spelling"),
        (several, 12, "columns 0 to 11; got feature 12"),
        (model, "ESR1", "without feature names, so that 'ESR1' is not known"),
    ):
        with pytest.raises(ValueError, match=match):
            curve(estimator, feature)


def test_importing_the_displays_loads_no_matplotlib_and_its_absence_is_explained():
    code = """
import sys
sys.modules["matplotlib"] = None
import suquan.plotting as plotting, suquan.report as report
samples = plotting.NormalizedSampleDisplay([[1.0]], [[1.0]])
for call in (plotting.ObjectiveDisplay([1.0]).plot, samples.plot, lambda: report.draw(print)):
    try:
        call()
        raise SystemExit("no error")
    except ImportError as error:
        assert "pip install 'suquan[plot]'" in str(error), error
"""
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True, timeout=120)
