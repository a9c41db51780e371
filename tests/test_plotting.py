import subprocess
import sys
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit
from sklearn.dummy import DummyClassifier
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

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
from suquan.plotting._targets import standardized

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402

ODD_NAME = r"$\frac{<script>_&"


def make_problem(n_samples=60, n_features=12, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_samples, n_features))
    u = 2.0 * X @ rng.standard_normal(n_features)
    return np.exp(X), (rng.random(n_samples) < expit(u)).astype(int)


@pytest.fixture(scope="module")
def result():
    return compare(
        *make_problem(),
        methods=["normal", "uniform", "bnd", "crossfit", (ODD_NAME, DummyClassifier())],
        outer_cv=3,
        inner_cv=2,
        alphas=[0.05, 0.5],
        smoothnesses=[0.1],
        n_repeats=1,
        progress=False,
    )


@pytest.fixture(scope="module")
def model():
    return SuquanClassifier("joint", tol=1e-12, random_state=0).fit(*make_problem())


@pytest.fixture(autouse=True)
def _closed_figures():
    yield
    plt.close("all")


def line_values(line):
    return np.asarray(line.get_ydata())


# -- targets -----------------------------------------------------------------------------------------


def test_target_of_an_estimator_is_drawn_standardised_against_fixed_ones_and_the_start(model):
    display = TargetQuantileDisplay.from_estimator(model, fixed=("normal", "uniform"))
    np.testing.assert_allclose(
        line_values(display.line_), standardized(model.target_quantiles_), rtol=1e-12
    )
    assert list(display.other_lines_) == ["normal", "uniform (start)"]
    drawn = line_values(display.other_lines_["normal"])
    np.testing.assert_allclose(drawn, standardized(make_target_quantiles("normal", 12)))
    assert abs(drawn.mean()) < 1e-12
    assert np.mean(drawn**2) == pytest.approx(1.0)
    assert display.band_ is None
    assert display.ax_.figure is display.figure_


@pytest.mark.parametrize(
    ("init", "names"),
    [
        ("cauchy", ["normal", "cauchy (start)"]),
        (np.arange(12.0) ** 2, ["normal", "start"]),
        ("median", ["normal"]),  # it would need the training samples
    ],
)
def test_start_is_drawn_where_it_is_known(init, names):
    model = SuquanClassifier("bnd", init=init).fit(*make_problem())
    display = TargetQuantileDisplay.from_estimator(model, fixed=["normal"])
    assert list(display.other_lines_) == names


def test_target_of_fixed_methods_and_normalisers_has_no_start():
    X, y = make_problem()
    for estimator in (QuantileNormalizer("mean"), SuquanClassifier("fixed")):
        display = TargetQuantileDisplay.from_estimator(estimator.fit(X, y), fixed=["uniform"])
        assert list(display.other_lines_) == ["uniform"]


def test_targets_of_the_folds_make_the_band(result):
    display = TargetQuantileDisplay.from_result(result, "bnd")
    folds = standardized(result.targets["bnd"])
    np.testing.assert_allclose(line_values(display.line_), standardized(np.median(folds, axis=0)))
    heights = display.band_.get_paths()[0].vertices[:, 1]
    assert heights.min() == pytest.approx(folds.min())
    assert heights.max() == pytest.approx(folds.max())


def test_band_of_an_estimator_comes_from_its_own_method(result):
    X, y = make_problem()
    crossfit = SuquanClassifierCV(alphas=[0.1], smoothnesses=[0.1], cv=2, random_state=0).fit(X, y)
    assert TargetQuantileDisplay.from_estimator(crossfit, comparison=result).band_ is not None
    other = SuquanClassifier("spav").fit(X, y)
    assert TargetQuantileDisplay.from_estimator(other, comparison=result).band_ is None
    few = SuquanClassifier(random_state=0).fit(X[:, :5], y)
    with pytest.raises(ValueError, match="12 places but the estimator has 5 features"):
        TargetQuantileDisplay.from_estimator(few, comparison=result)


def test_long_targets_are_thinned_but_keep_their_ends():
    f = make_target_quantiles("cauchy", 20_000)
    display = TargetQuantileDisplay(f).plot()
    values = line_values(display.line_)
    assert len(values) < 700
    np.testing.assert_allclose(values[[0, -1]], standardized(f)[[0, -1]])


def test_heavy_tails_of_other_targets_do_not_flatten_the_learned_one(model):
    display = TargetQuantileDisplay.from_estimator(model, fixed=["cauchy"])
    f = standardized(model.target_quantiles_)
    low, high = display.ax_.get_ylim()
    assert high - low < 1.5 * np.ptp(f)


def test_target_display_refuses_what_has_no_target(result, model):
    X, y = make_problem()
    with pytest.raises(NotFittedError):
        TargetQuantileDisplay.from_estimator(SuquanClassifier())
    with pytest.raises(ValueError, match="LogisticRegression has no target_quantiles_"):
        TargetQuantileDisplay.from_estimator(LogisticRegression().fit(X, y))
    with pytest.raises(ValueError, match=r"such as pipeline\[0\]"):
        TargetQuantileDisplay.from_estimator(make_pipeline(QuantileNormalizer()).fit(X))
    with pytest.raises(
        ValueError, match="no learned targets of 'joint'; it has: 'bnd', 'crossfit'"
    ):
        TargetQuantileDisplay.from_result(result, "joint")
    with pytest.raises(ValueError, match="fixed"):
        TargetQuantileDisplay.from_estimator(model, fixed=["magic"])
    with pytest.raises(ValueError, match="fold_targets has 3 places"):
        TargetQuantileDisplay([0.0, 1.0], fold_targets=[[0.0, 1.0, 2.0]])
    with pytest.raises(ValueError, match="ax must be matplotlib Axes"):
        TargetQuantileDisplay([0.0, 1.0]).plot(ax=3)


# -- comparisons -------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["box", "strip"])
def test_scores_are_drawn_by_method_in_order_of_their_mean(result, kind):
    display = ComparisonDisplay.from_result(result, kind)
    means = [display.scores[name].mean() for name in display.methods_]
    assert means == sorted(means)
    assert set(display.methods_) == set(result.summary["method"].tolist())
    labels = [text.get_text() for text in display.ax_.get_yticklabels()]
    assert labels == display.methods_
    assert display.ax_.get_xlabel() == "roc_auc"
    display.figure_.canvas.draw()  # a name that is no mathematics is drawn as it is


def test_box_spans_the_quartiles_and_whiskers_the_range(result):
    display = ComparisonDisplay.from_result(result, "box", methods=["crossfit"])
    scores = result.folds["score"][result.folds["method"] == "crossfit"]
    (box,) = display.artists_["boxes"]
    edges = box.get_path().vertices[:, 0]
    np.testing.assert_allclose([edges.min(), edges.max()], np.quantile(scores, [0.25, 0.75]))
    ends = np.concatenate([line.get_xdata() for line in display.artists_["whiskers"]])
    np.testing.assert_allclose([ends.min(), ends.max()], [scores.min(), scores.max()])


def test_targets_of_the_folds_and_of_the_model_have_two_names_and_one_style(result):
    model = SuquanClassifier(random_state=0).fit(*make_problem())
    folds = TargetQuantileDisplay.from_result(result)
    final = TargetQuantileDisplay.from_estimator(model, comparison=result)
    assert folds.line_.get_label() == "crossfit, median of folds"
    assert final.line_.get_label() == "crossfit, all samples"
    # Only what was compared is drawn, and the initial target among it is marked in both.
    assert list(folds.other_lines_) == list(final.other_lines_) == ["normal", "uniform (start)"]
    for first, second in ((folds.line_, final.line_), (folds.band_, final.band_)):
        assert first.get_alpha() == second.get_alpha()
    assert folds.line_.get_color() == final.line_.get_color()
    assert folds.band_.get_label() == final.band_.get_label() == "range of 3 folds"
    few = replace(result, summary={"method": np.array(["crossfit", "start"])})
    assert list(TargetQuantileDisplay.from_result(few).other_lines_) == ["uniform (start)"]


def test_scatter_shows_the_folds_of_the_verdict_pair(result):
    display = ComparisonDisplay.from_result(result, "scatter")
    assert display.methods_ == ["start", "crossfit"]
    points = display.artists_["crossfit"].get_offsets()
    folds = result.folds
    np.testing.assert_array_equal(points[:, 0], folds["score"][folds["method"] == "start"])
    np.testing.assert_array_equal(points[:, 1], folds["score"][folds["method"] == "crossfit"])
    assert display.ax_.get_xlim() == display.ax_.get_ylim()
    other = ComparisonDisplay.from_result(result, "scatter", methods=["bnd", ODD_NAME])
    assert other.methods_ == ["bnd", ODD_NAME]
    other.figure_.canvas.draw()


def test_difference_shows_the_intervals_of_the_tests_table(result):
    display = ComparisonDisplay.from_result(result, "difference")
    assert "start" not in display.methods_
    tests = result.tests
    (k,) = np.flatnonzero((tests["method"] == "crossfit") & (tests["other"] == "start"))
    point, line = display.artists_["crossfit"]
    assert point.get_offsets()[0, 0] == tests["difference"][k]
    ends = line.get_paths()[0].vertices[:, 0]
    np.testing.assert_allclose(ends, [tests["low"][k], tests["high"][k]])
    other = ComparisonDisplay.from_result(result, "difference", reference="normal")
    assert "best_fixed" in other.methods_
    assert "normal" not in other.methods_


def test_given_axes_are_used_and_returned(result, model):
    figure, axes = plt.subplots(1, 4)
    assert ComparisonDisplay.from_result(result, ax=axes[0]).ax_ is axes[0]
    assert TargetQuantileDisplay.from_estimator(model, ax=axes[1]).ax_ is axes[1]
    assert ObjectiveDisplay.from_estimator(model, ax=axes[2]).figure_ is figure
    display = NormalizedSampleDisplay.from_estimator(model, make_problem()[0], ax=axes[2:])
    assert list(display.ax_) == list(axes[2:])
    assert len(plt.get_fignums()) == 1


def test_names_are_never_mathematics_and_long_ones_are_shortened():
    scores = {
        ODD_NAME: [0.1, 0.2],
        "a" * 100 + "z" * 100: [0.3, 0.4],
        "": [0.2, 0.2],
        "\ud800": [0, 0],
    }
    display = ComparisonDisplay(scores, scoring="$\\bad").plot()
    display.figure_.canvas.draw()
    labels = [text.get_text() for text in display.ax_.get_yticklabels()]
    assert ODD_NAME in labels
    assert "a" * 14 + "…" + "z" * 14 in labels
    assert "(no name)" in labels


def test_comparison_display_refuses_bad_choices(result):
    with pytest.raises(ValueError, match="kind"):
        ComparisonDisplay.from_result(result, "violin")
    with pytest.raises(ValueError, match="methods: 'magic' was not compared"):
        ComparisonDisplay.from_result(result, methods=["magic"])
    with pytest.raises(ValueError, match="methods must name at least one"):
        ComparisonDisplay.from_result(result, methods=[])
    with pytest.raises(ValueError, match="reference: 'magic'"):
        ComparisonDisplay.from_result(result, "difference", reference="magic")
    with pytest.raises(ValueError, match="compares two methods"):
        ComparisonDisplay.from_result(result, "scatter", methods=["bnd"])
    with pytest.raises(ValueError, match="one value per fold"):
        ComparisonDisplay({"a": [1.0], "b": [1.0, 2.0]})
    with pytest.raises(ValueError, match="from_result"):
        ComparisonDisplay({"a": [1.0], "b": [1.0]}).plot("difference")


# -- samples -----------------------------------------------------------------------------------------


def test_normalised_samples_show_the_same_quantiles_after():
    X, _ = make_problem()
    display = NormalizedSampleDisplay.from_estimator(QuantileNormalizer("normal").fit(X), X)
    before, after = (line_values_x(drawn[2]) for drawn in display.artists_)
    assert np.all(np.diff(before) >= 0)  # samples are in order of their median
    assert np.ptp(after) < 1e-12
    assert np.ptp(before) > 0.1


def line_values_x(line):
    return np.asarray(line.get_xdata())


def test_densities_integrate_to_one_and_missing_values_are_left_out():
    X, _ = make_problem()
    X[0, :3] = np.nan
    X[1] = np.nan
    normalizer = QuantileNormalizer("normal", missing="ignore").fit(X)
    for kind in ("quantiles", "density"):
        display = NormalizedSampleDisplay.from_estimator(normalizer, X, kind=kind)
    line = display.artists_[1][5]
    width = np.diff(line.get_xdata())[0]
    assert line_values(line).sum() * width == pytest.approx(1.0)


def test_of_many_samples_some_are_drawn():
    X = np.random.default_rng(0).normal(size=(500, 20))
    display = NormalizedSampleDisplay(X, X).plot("density")
    assert len(display.artists_[0]) == 60


@pytest.mark.parametrize("shape", [(3, 4), (2, 2, 3)])
def test_one_sample_is_drawn_as_an_image(shape):
    X, _ = make_problem()
    normalizer = QuantileNormalizer("uniform").fit(X)
    display = NormalizedSampleDisplay.from_estimator(normalizer, X, shape=shape, sample=7)
    image = np.asarray(display.artists_[1][0].get_array())
    assert image.shape == shape
    if len(shape) == 2:
        np.testing.assert_array_equal(image.ravel(), normalizer.transform(X)[7])
    else:
        assert image.min() == 0.0
        assert image.max() == 1.0


def test_sample_display_refuses_what_does_not_fit():
    X, y = make_problem()
    normalizer = QuantileNormalizer().fit(X)
    with pytest.raises(ValueError, match=r"shape must be .* 12 values in all"):
        NormalizedSampleDisplay.from_estimator(normalizer, X, shape=(5, 5))
    with pytest.raises(ValueError, match="one of the 60 samples; got 60"):
        NormalizedSampleDisplay.from_estimator(normalizer, X, shape=(3, 4), sample=60)
    with pytest.raises(ValueError, match="has no transform"):
        NormalizedSampleDisplay.from_estimator(LogisticRegression().fit(X, y), X)
    with pytest.raises(NotFittedError):
        NormalizedSampleDisplay.from_estimator(QuantileNormalizer(), X)
    with pytest.raises(ValueError, match="same samples in rows"):
        NormalizedSampleDisplay(X, X[:5])
    with pytest.raises(ValueError, match="no value to draw"):
        NormalizedSampleDisplay(np.empty((0, 3)), np.empty((0, 3)))
    with pytest.raises(ValueError, match="two matplotlib Axes"):
        NormalizedSampleDisplay(X, X).plot(ax=[plt.gca()])


# -- several targets, and curves of features ---------------------------------------------------------


@pytest.fixture(scope="module")
def several():
    """A model with three targets, of features with names."""
    X, y = make_problem(n_samples=200)
    y = np.where(y + (X[:, 0] > 1) > 0, "tumour", "normal")
    frame = pd.DataFrame(X, columns=[f"GENE{j}" for j in range(12)])
    return SuquanClassifier("multi", n_targets=3, alpha=0.01, n_knots=8).fit(frame, y)


def test_every_target_is_drawn_with_its_share_of_the_norm(several):
    display = TargetQuantileDisplay.from_estimator(several, fixed=["normal"])
    assert several.n_targets_ == 3
    for line, f in zip(display.lines_, several.target_quantiles_, strict=True):
        np.testing.assert_allclose(line_values(line), standardized(f), rtol=1e-12)
    assert display.line_ is display.lines_[0]
    shares = several.singular_values_ / several.singular_values_.sum()
    told = [f"target {k}: {share:.1%}" for k, share in enumerate(shares, 1)]
    assert [text.get_text() for text in display.labels_] == told
    heights = sorted(text.get_position()[1] for text in display.labels_)
    assert min(np.diff(heights)) > 0.05
    assert heights[-1] <= 1.0


def test_shares_of_a_matrix_are_those_of_its_squared_norm():
    model = SuquanClassifier("matrix", n_knots=6).fit(*make_problem())
    display = TargetQuantileDisplay.from_estimator(model)
    squares = model.singular_values_**2
    n_shown = len(model.target_quantiles_)
    np.testing.assert_allclose(display.shares, squares[:n_shown] / squares.sum())
    assert "uniform" in display.other_lines_  # it starts from nothing
    with pytest.raises(ValueError, match=f"1 shares for {n_shown} targets"):
        TargetQuantileDisplay(model.target_quantiles_, shares=[1.0])


def test_folds_of_several_targets_show_the_largest(result):
    several = replace(result, targets={"multi": result.targets["bnd"]})
    display = TargetQuantileDisplay.from_result(several, "multi")
    assert display.line_.get_label() == "multi, largest…edian of folds"
    model = SuquanClassifier("multi", n_targets=2, n_knots=6).fit(*make_problem())
    display = TargetQuantileDisplay.from_estimator(model, comparison=several)
    assert display.band_.get_label() == "target 1, range of 3 folds"


def test_samples_of_several_targets_are_drawn_for_the_first(several):
    X = pd.DataFrame(make_problem()[0], columns=several.feature_names_in_)
    display = NormalizedSampleDisplay.from_estimator(several, X)
    np.testing.assert_array_equal(display.after, several.transform(X)[:, :12])


@pytest.mark.parametrize("method", ["multi", "matrix", "joint"])
def test_curves_of_all_features_add_up_to_the_score(method):
    X, y = make_problem()
    model = SuquanClassifier(method, ties="first", n_knots=6).fit(X, y)
    curves = [line_values(FeatureCurveDisplay.from_estimator(model, j).line_) for j in range(12)]
    places = X.argsort(axis=1).argsort(axis=1)
    scores = sum(curve[place] for curve, place in zip(curves, places.T, strict=True))
    np.testing.assert_allclose(scores + model.intercept_, model.decision_function(X), atol=1e-10)


def test_curve_of_a_feature_by_name_and_of_several_classes(several):
    display = FeatureCurveDisplay.from_estimator(several, "GENE7")
    assert display.ax_.get_title("left") == "GENE7"
    assert display.ax_.get_ylabel() == "added to the score for tumour"
    np.testing.assert_array_equal(
        FeatureCurveDisplay.from_estimator(several, 7).curves, display.curves
    )
    X, y = make_problem()
    model = SuquanClassifier("fixed").fit(X, y + (X[:, 0] > 2))
    display = FeatureCurveDisplay.from_estimator(model, 3)
    assert [text.get_text() for text in display.labels_] == ["0", "1", "2"]
    np.testing.assert_allclose(
        line_values(display.lines_[2]), model.coef_[2, 3] * model.target_quantiles_
    )


def test_curve_display_refuses_what_has_no_curve(several, model):
    for feature, match in (
        ("GNE7", r"no feature 'GNE7'; did you mean 'GENE7'"),
        ("ESR1", r"no feature 'ESR1'; check the spelling"),
        (12, "columns 0 to 11; got feature 12"),
    ):
        with pytest.raises(ValueError, match=match):
            FeatureCurveDisplay.from_estimator(several, feature)
    with pytest.raises(ValueError, match="without feature names, so that 'ESR1' is not known"):
        FeatureCurveDisplay.from_estimator(model, "ESR1")
    with pytest.raises(ValueError, match="QuantileNormalizer has no coefficients"):
        FeatureCurveDisplay.from_estimator(QuantileNormalizer().fit(make_problem()[0]), 0)
    with pytest.raises(NotFittedError):
        FeatureCurveDisplay.from_estimator(SuquanClassifier("multi"), 0)
    with pytest.raises(ValueError, match="2 classes for 3 curves"):
        FeatureCurveDisplay(np.zeros((3, 4)), classes=["a", "b"])


# -- objectives --------------------------------------------------------------------------------------


def test_objective_is_drawn_after_every_half_step(model):
    display = ObjectiveDisplay.from_estimator(model)
    np.testing.assert_array_equal(line_values(display.line_), model.objective_history_)
    assert display.ax_.get_ylabel() == "objective J"


def test_objective_of_crossfit_is_the_out_of_fold_loss():
    X, y = make_problem()
    for estimator in (
        SuquanRegressor(random_state=0),
        SupervisedQuantileNormalizer(random_state=0),
    ):
        display = ObjectiveDisplay.from_estimator(estimator.fit(X, y))
        assert display.ax_.get_ylabel() == "out-of-fold loss"
        assert display.ax_.get_xlabel() == "round"


def test_objective_display_refuses_what_learns_nothing():
    X, _ = make_problem()
    with pytest.raises(ValueError, match="QuantileNormalizer has no objective_history_"):
        ObjectiveDisplay.from_estimator(QuantileNormalizer().fit(X))
    with pytest.raises(NotFittedError):
        ObjectiveDisplay.from_estimator(SuquanClassifier())
    with pytest.raises(ValueError, match="at least one number"):
        ObjectiveDisplay([])


# -- imports -----------------------------------------------------------------------------------------


def test_importing_the_displays_loads_no_matplotlib_and_its_absence_is_explained():
    code = """
import sys
sys.modules["matplotlib"] = None
import suquan.plotting, suquan.report
for call in (
    lambda: suquan.plotting.ObjectiveDisplay([1.0]).plot(),
    lambda: suquan.plotting.NormalizedSampleDisplay([[1.0]], [[1.0]]).plot(),
    lambda: suquan.report.draw(lambda ax: None),
):
    try:
        call()
    except ImportError as error:
        assert "pip install 'suquan[plot]'" in str(error), error
    else:
        raise SystemExit("no error")
"""
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True, timeout=120)
