"""What docs/coming_from says about other programs: their numbers beside ours."""

from pathlib import Path

import dask.array as da
import numpy as np
import pandas as pd
import polars
import pytest
import qnorm
from scipy.stats import rankdata
from sklearn.preprocessing import QuantileTransformer

from experiments.platforms.batches import feature_quantiles
from suquan import QuantileNormalizer, quantile_normalize

PAGES = Path(__file__).parent.parent / "docs" / "coming_from"
SAMPLES = {
    "normal": np.random.default_rng(0).normal(size=(12, 301)),
    "many ties": np.random.default_rng(1).poisson(1.0, size=(12, 300)).astype(float),
    "one sample": np.random.default_rng(2).poisson(3.0, size=(1, 40)).astype(float),
}
samples = pytest.mark.parametrize("X", SAMPLES.values(), ids=SAMPLES)


def normalize_as_in_r(X, target):
    """The rule of limma and preprocessCore: the target at the mean place of tied values."""
    places = rankdata(X, axis=1) - 1
    return np.interp(places, np.arange(X.shape[1]), target)


@samples
def test_qnorm_gives_the_same(X):
    ours = quantile_normalize(X, "mean")
    np.testing.assert_allclose(ours, qnorm.quantile_normalize(X, axis=0), atol=1e-12)
    np.testing.assert_allclose(ours.T, qnorm.quantile_normalize(X.T), atol=1e-12)
    target = np.random.default_rng(3).normal(size=X.shape[1])
    theirs = qnorm.quantile_normalize(X, axis=0, target=target)
    np.testing.assert_allclose(quantile_normalize(X, np.sort(target)), theirs, atol=1e-12)


@samples
@pytest.mark.parametrize("kind", [np.asarray, pd.DataFrame, polars.DataFrame, da.asarray])
def test_samples_in_columns_as_in_qnorm(X, kind):
    genes = X.T
    ours = quantile_normalize(kind(genes), "mean", axis=0)
    np.testing.assert_allclose(np.asarray(ours), qnorm.quantile_normalize(genes), atol=1e-12)
    target = np.arange(float(X.shape[1]))
    ours = quantile_normalize(kind(genes), target, axis=0)
    np.testing.assert_array_equal(np.asarray(ours), quantile_normalize(X, target, axis=1).T)


def test_qnorm_differs_where_the_page_says_so():
    assert qnorm.quantile_normalize(np.arange(6, dtype=np.int32).reshape(2, 3)).dtype == np.float32
    assert quantile_normalize(np.arange(6, dtype=np.int32).reshape(2, 3)).dtype == np.float64
    with pytest.warns(UserWarning, match="not non-decreasing"):
        assert quantile_normalize([[1.0, 3.0, 2.0]], [3, 1, 2]).tolist() == [[3, 2, 1]]
    gap = np.array([[1.0, 2.0, np.nan], [3.0, 1.0, 2.0]])
    assert np.isnan(qnorm.quantile_normalize(gap, axis=0)[1]).any()
    assert not np.isnan(quantile_normalize(gap, "mean", missing="ignore")[1]).any()


@samples
def test_mean_rank_is_the_rule_of_limma_and_preprocesscore(X):
    target = np.sort(X, axis=1).mean(axis=0)
    theirs = normalize_as_in_r(X, target)
    np.testing.assert_allclose(quantile_normalize(X, "mean", ties="mean_rank"), theirs, atol=1e-12)
    np.testing.assert_allclose(
        QuantileNormalizer("mean").fit(X).target_quantiles_, target, atol=1e-12
    )


def test_two_tied_values_get_the_same_by_both_rules_and_three_do_not():
    target = [0.0, 1.0, 10.0]
    for x, same in (([1.0, 1.0, 2.0], True), ([1.0, 2.0, 2.0], True), ([1.0, 1.0, 1.0], False)):
        both = [quantile_normalize([x], target, ties=ties) for ties in ("average", "mean_rank")]
        assert np.allclose(*both) == same


def test_quantile_transformer_on_the_transpose():
    X, p = SAMPLES["normal"], SAMPLES["normal"].shape[1]
    theirs = QuantileTransformer(n_quantiles=p).fit_transform(X.T).T
    ours = QuantileNormalizer("uniform").fit_transform(X)
    np.testing.assert_allclose(ours, (theirs * (p - 1) + 0.5) / p, atol=1e-9)


def test_quantile_transformer_sends_the_lowest_and_highest_ties_to_the_ends():
    theirs = QuantileTransformer(n_quantiles=6).fit_transform(np.array([[2.0, 0, 0, 1, 2, 2]]).T)
    assert theirs[:, 0].tolist() == [1, 0, 0, theirs[3, 0], 1, 1]
    ours = quantile_normalize([[2.0, 0, 0, 1, 2, 2]], np.arange(6.0))
    assert ours.tolist() == [[4, 0.5, 0.5, 2, 4, 4]]


def test_the_page_on_fsqn_has_the_method_of_the_experiments():
    rng = np.random.default_rng(0)
    training, new = rng.normal(size=(40, 7)), rng.normal(size=(9, 7))
    names: dict = {}
    code = (PAGES / "fsqn.md").read_text("utf-8").partition("```python\n")[2].partition("```")[0]
    exec(compile(code, "fsqn.md", "exec"), names)
    theirs = names["feature_quantiles"](new, training)
    np.testing.assert_allclose(theirs, feature_quantiles(new, training))
