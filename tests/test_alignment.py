"""New samples with other features than the model's."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.metrics import r2_score, roc_auc_score

import suquan
from suquan import align_features

NAMES = [f"gene{j}" for j in range(30)]


RNG = np.random.default_rng(0)
Z = RNG.normal(size=(60, 30))
X = pd.DataFrame(np.exp(Z), columns=NAMES)
Y = np.where(RNG.normal(size=30) @ Z.T > 0, "case", "control")
U = Z.sum(axis=1)


@pytest.fixture(scope="module")
def model():
    return suquan.SuquanClassifier(random_state=0).fit(X, Y)


def test_features_in_another_order_and_extra_ones_change_nothing(model):
    shuffled = X.iloc[:, np.random.default_rng(1).permutation(30)].assign(other=1e9, more=-1e9)
    aligned = align_features(model, shuffled)
    assert_array_equal(aligned.values, X)
    assert aligned.extra.tolist() == ["other", "more"]
    assert aligned.missing.size == 0
    assert aligned.lost == 0.0
    assert_array_equal(aligned.model.decision_function(aligned.values), model.decision_function(X))


def test_missing_features_are_skipped_and_the_lost_weight_is_told(model):
    share = np.abs(model.coef_[0]) / np.abs(model.coef_).sum()
    gone = np.argsort(share)[:4]
    with pytest.warns(
        UserWarning, match=rf"4 of the model's 30 features are missing.*{share[gone].sum():.1%}"
    ):
        aligned = align_features(model, X.drop(columns=[NAMES[j] for j in gone]))
    assert_allclose(aligned.lost, share[gone].sum())
    assert sorted(aligned.missing) == sorted(NAMES[j] for j in gone)
    filled = X.to_numpy(copy=True)
    filled[:, gone] = np.nan
    by_rule = suquan.SuquanClassifier(random_state=0, missing="ignore").fit(X, Y)
    assert_array_equal(
        aligned.model.predict_proba(aligned.values),
        by_rule.predict_proba(pd.DataFrame(filled, columns=NAMES)),
    )
    assert model.missing == "error"
    assert hasattr(model, "feature_names_in_")


def test_a_missing_feature_counts_as_its_training_mean(model):
    Z, w = model.transform(X), model.coef_[0]
    mean, gone = Z.mean(axis=0), [3, 8, 20]
    new = X.drop(columns=[NAMES[j] for j in gone])
    with pytest.warns(UserWarning, match="count as their training means"):
        aligned = align_features(model, new)
    part = np.delete(aligned.model.transform(aligned.values) * w, gone, axis=1).sum(axis=1)
    expected = part + mean[gone] @ w[gone] + model.intercept_[0]
    assert_allclose(aligned.model.decision_function(aligned.values), expected)


@pytest.mark.parametrize(
    ("method", "task", "options"),
    [
        ("fixed", "two", {}),
        ("fixed", "two", {"loss": "softmax"}),
        ("fixed", "three", {}),
        ("fixed", "values", {}),
        ("fixed", "values", {"loss": "poisson"}),
        ("multi", "two", {"loss": "softmax"}),
        ("multi", "three", {}),
        ("matrix", "values", {}),
    ],
)
def test_what_missing_features_may_do_to_the_score_is_told(method, task, options):
    labels = {"two": Y, "three": np.digitize(U, [-2, 2]), "values": np.round(np.exp(U / 8))}[task]
    kind = suquan.SuquanRegressor if task == "values" else suquan.SuquanClassifier
    model = kind(method, alpha=0.05, **options).fit(X, labels)
    gone = np.array([0, 7, 12, 25])
    Z, copies = model.transform(X), len(model.coef_[0]) // 30
    curves = (Z * model.coef_[:, None]).reshape(len(model.coef_), 60, copies, 30).sum(axis=2)
    if len(curves) == 2:  # two classes with a score each
        curves = curves[1:] - curves[:1]
    independent = np.sqrt(curves.var(axis=1)[:, gone].sum(axis=1)).max()
    together = curves[:, :, gone].sum(axis=2).std(axis=1).max()
    new = X.drop(columns=[NAMES[j] for j in gone])
    with pytest.warns(UserWarning, match=f"{independent:.3g} .if genes were independent; usually"):
        alone = align_features(model, new, max_lost=1.0)
    assert alone.training is None
    assert_allclose(alone.spread, independent)
    with pytest.warns(UserWarning, match=f"{together:.3g} .over the training samples."):
        known = align_features(model, new, max_lost=1.0, training=(X, labels))
    assert_allclose([known.spread, known.training.spread], together)
    assert align_features(model, X).spread == 0.0


@pytest.mark.parametrize("task", ["two", "three", "values"])
def test_training_samples_tell_what_the_missing_features_are_worth(task):
    labels = {"two": Y, "three": np.digitize(U, [-2, 2]), "values": U}[task]
    kind = suquan.SuquanRegressor if task == "values" else suquan.SuquanClassifier
    model = kind("fixed", alpha=0.1).fit(X, labels)
    third = NAMES[::3]
    with pytest.warns(UserWarning, match="10 of the model's 30"):
        aligned = align_features(
            model, X.iloc[[0]].drop(columns=third), max_lost=1.0, training=(X, labels)
        )
    dropped = X.copy()
    dropped[third] = np.nan
    without = kind("fixed", alpha=0.1, missing="ignore").fit(X, labels)
    predict = "predict" if task == "values" else "decision_function"
    before, after = getattr(model, predict)(X), getattr(without, predict)(dropped)
    if task == "values":
        expected = [r2_score(labels, scores) for scores in (before, after)]
    elif task == "two":
        expected = [roc_auc_score(Y == "control", scores) for scores in (before, after)]
    else:
        chances = model.predict_proba(X), without.predict_proba(dropped)
        expected = [roc_auc_score(labels, each, multi_class="ovr") for each in chances]
    both = np.reshape(before, (60, -1)).T, np.reshape(after, (60, -1)).T
    rho = np.mean([np.corrcoef(*scores)[0, 1] for scores in zip(*both, strict=True)])
    shift = aligned.training
    assert shift.scoring == {"two": "roc_auc", "three": "roc_auc_ovr", "values": "r2"}[task]
    assert_allclose([shift.score, shift.score_without], expected)
    assert_allclose(shift.correlation, rho)
    moved = np.reshape(after - before, (60, -1)).mean(axis=0)
    assert_allclose(shift.shift, moved[np.argmax(np.abs(moved))])
    assert 0.3 < shift.correlation < 0.999
    assert f"correlate by {rho:.4f}" in str(shift)


def test_training_samples_may_lack_labels_and_nothing_may_be_missing(model):
    with pytest.warns(UserWarning, match="1 of the model's 30"):
        shift = align_features(model, X.iloc[:, 1:], training=(X.to_numpy(), None)).training
    assert shift.scoring is None
    assert "AUC" not in str(shift)
    assert align_features(model, X).training is None
    whole = align_features(model, X, training=(X, Y)).training
    assert whole.score == whole.score_without
    assert_allclose(whole.correlation, 1.0)
    with pytest.raises(ValueError, match=r"30 features .*correlate by .*AUC .*at most 0.0% may be"):
        align_features(model, X.iloc[:, 1:], max_lost=0.0, training=(X, Y))


def test_training_samples_that_do_not_fit_are_refused(model):
    for training, match in [
        ((X.iloc[:, 1:], Y), "training samples: 1 of the model's 30 features"),
        ((X, Y[1:]), "59 labels for 60 samples"),
        ((X, np.where(Y == "case", "ill", "well")), r"labels are \['ill', 'well'\]"),
        ((X.iloc[:20], np.full(20, "case")), "labels are"),
    ]:
        with pytest.raises(ValueError, match=match):
            align_features(model, X, training=training)
    normalizer = suquan.QuantileNormalizer().fit(X)
    with pytest.raises(ValueError, match="QuantileNormalizer does not"):
        align_features(normalizer, X, training=(X, Y))


def test_one_sample_alone_scores_as_in_a_batch(model):
    with pytest.warns(UserWarning, match="are missing"):
        batch = align_features(
            model, X.drop(columns=["gene3", "gene7"]).assign(other=0.0), max_lost=1.0
        )
    together = batch.model.decision_function(batch.values)
    for i in range(len(X)):
        one = X.iloc[[i]].drop(columns=["gene3", "gene7"]).assign(other=0.0)
        with pytest.warns(UserWarning, match="are missing"):
            alone = align_features(model, one, max_lost=1.0)
        assert alone.model.decision_function(alone.values)[0].tobytes() == together[i].tobytes()


def test_too_much_lost_weight_is_refused(model):
    heaviest = [NAMES[j] for j in np.argsort(-np.abs(model.coef_[0]))[:10]]
    with pytest.raises(ValueError, match=r"10 of the model's 30 .* at most 50.0% may be.*max_lost"):
        align_features(model, X.drop(columns=heaviest))
    with pytest.warns(UserWarning, match="weight"):
        align_features(model, X.drop(columns=heaviest), max_lost=1.0)
    with pytest.raises(ValueError, match=r"none of the model's 30 features .*'gene0'.*'other'"):
        align_features(model, X[[]].assign(other=1.0), max_lost=1.0)


def test_a_normalizer_counts_features():
    normalizer = suquan.QuantileNormalizer("mean").fit(X)
    with pytest.warns(UserWarning, match=r"10.0% of its features is lost"):
        aligned = align_features(normalizer, X.iloc[:, 3:])
    assert np.isnan(aligned.model.transform(aligned.values)[:, :3]).all()
    assert aligned.spread is None


def test_gaps_of_the_samples_follow_the_models_rule(model):
    gap = X.copy()
    gap.iloc[2, 5] = np.nan
    with pytest.raises(ValueError, match=r"NaN, first at sample 2.*gene5"):
        align_features(model, gap)
    patient = suquan.SuquanClassifier(random_state=0, missing="ignore").fit(X, Y)
    aligned = align_features(patient, gap)
    assert_array_equal(
        aligned.model.decision_function(aligned.values), patient.decision_function(gap)
    )


def test_names_that_cannot_be_used_are_refused(model):
    with pytest.raises(ValueError, match="'gene0' is given more than once"):
        align_features(model, X.to_numpy(), [*NAMES[:-1], "gene0"])
    with pytest.raises(ValueError, match="29 feature names for 30 features"):
        align_features(model, X.to_numpy(), NAMES[:-1])
    with pytest.raises(ValueError, match="max_lost"):
        align_features(model, X, max_lost=2.0)


def test_without_names_features_are_taken_in_order():
    nameless = suquan.SuquanClassifier(random_state=0).fit(X.to_numpy(), Y)
    with pytest.warns(UserWarning, match="without feature names"):
        aligned = align_features(nameless, X)
    assert_array_equal(aligned.model.predict(aligned.values), nameless.predict(X.to_numpy()))
    with pytest.raises(ValueError, match="cannot be aligned"):
        align_features(nameless, X.iloc[:, 1:])


def test_types_are_kept_and_models_with_several_classes_weigh_all():
    model = suquan.SuquanClassifier("fixed").fit(X, np.arange(60) % 3)
    weights = np.abs(model.coef_).sum(axis=0)
    with pytest.warns(UserWarning, match="are missing"):
        aligned = align_features(model, X.iloc[:, 1:].astype(np.float32))
    assert aligned.values.dtype == np.float32
    whole = np.full((2, 30), 2**53) + np.arange(30)  # as float64 some of them would be equal
    values = align_features(model, whole[:, ::-1], NAMES[::-1]).values
    assert_array_equal(values, whole)
    assert values.dtype == whole.dtype
    assert_allclose(aligned.lost, weights[0] / weights.sum())
