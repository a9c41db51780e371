"""RMA against R's affy on real arrays, its steps against plain twins, and what it refuses."""

import numpy as np
import pytest
from data_files import data_file
from scipy.stats import norm

from suquan import QuantileNormalizer, SuquanClassifier, make_target_quantiles, quantile_normalize
from suquan.microarray import background_correct, median_polish, rma


@pytest.fixture(params=["rma_test3.npz", "rma_hgfocus.npz"])
def chip(request):
    return np.load(data_file(request.param))


@pytest.fixture
def test3():
    return np.load(data_file("rma_test3.npz"))


def simulate(n_sets=60, n_arrays=5, per_set=11, seed=0):
    """Probe intensities with probe affinities and a normal background, and the sets."""
    rng = np.random.default_rng(seed)
    gene = rng.normal(7, 2, size=(n_sets, 1, 1)) + rng.normal(0, 0.5, size=(n_sets, 1, n_arrays))
    signal = 2.0 ** (gene + rng.normal(0, 1, size=(n_sets, per_set, 1))).reshape(-1, n_arrays)
    pm = signal + rng.normal(100, 10, size=signal.shape)
    return pm, np.repeat(np.arange(n_sets), per_set)


def test_steps_equal_affy(test3):
    np.testing.assert_allclose(background_correct(test3["pm"]), test3["bg"], rtol=0, atol=1e-8)
    expression = median_polish(np.log2(test3["qn"]), test3["probeset"])
    np.testing.assert_allclose(expression, test3["rma"], rtol=0, atol=1e-8)


@pytest.mark.parametrize(
    ("reference", "steps"),
    [
        ("rma", {}),
        ("rma_nobg", {"background": False}),
        ("rma_nonorm", {"target_quantiles": None}),
        ("rma_nobg_nonorm", {"background": False, "target_quantiles": None}),
    ],
)
def test_rma_equals_affy(chip, reference, steps):
    expression = rma(chip["pm"], chip["probeset"], **steps)
    np.testing.assert_allclose(expression, chip[reference], rtol=0, atol=1e-8)


def test_background_of_an_array_does_not_depend_on_the_others_and_leaves_values_positive_in_order():
    pm, _ = simulate()
    pm[:9, 2] = np.linspace(1e-9, 50, 9)  # far below the background
    signal = background_correct(pm)[np.argsort(pm[:, 2]), 2]
    assert np.all(signal > 0)
    assert np.all(np.diff(signal) >= -1e-12)
    np.testing.assert_array_equal(background_correct(pm)[:, [2]], background_correct(pm[:, [2]]))


@pytest.mark.parametrize(
    "pm",
    [
        np.full((50, 2), 7.0),
        np.zeros((50, 1)),
        np.array([[1.0]]),
        np.array([[1.0], [2.0]]),
        np.full((10, 1), 1e308),
    ],
)
def test_background_refuses_arrays_it_cannot_model(pm):
    told = r"background of array {} cannot be estimated.*background=False"
    with pytest.raises(ValueError, match=told.format(0)):
        background_correct(pm)
    if len(pm) == 50:
        with pytest.raises(ValueError, match=told.format(1)):
            background_correct(np.column_stack([simulate()[0][:50, 0], pm[:, 0]]))


def plain_polish(z, max_iter=10, tol=0.01):
    """Median polish of one set, probes in rows, as in Tukey's description."""
    z = z.copy()
    row, column, overall, before = np.zeros(z.shape[0]), np.zeros(z.shape[1]), 0.0, 0.0
    for _ in range(max_iter):
        delta = np.median(z, axis=1)
        z -= delta[:, None]
        row += delta
        overall += np.median(column)
        column -= np.median(column)
        delta = np.median(z, axis=0)
        z -= delta
        column += delta
        overall += np.median(row)
        row -= np.median(row)
        total = np.abs(z).sum()
        if total == 0 or abs(1 - before / total) < tol:
            break
        before = total
    return overall + column


@pytest.mark.parametrize("n_arrays", [1, 2, 3, 8, 31])
def test_median_polish_equals_the_plain_one(n_arrays):
    rng = np.random.default_rng(n_arrays)
    probeset = rng.permutation(np.repeat(["c", "a", "b", "d"], [1, 2, 30, 11]))
    values = rng.normal(size=(44, n_arrays))
    out = median_polish(values, probeset)
    for k, name in enumerate(["a", "b", "c", "d"]):
        np.testing.assert_allclose(out[k], plain_polish(values[probeset == name]), atol=1e-12)


def test_median_polish_takes_the_stopping_rule():
    values = np.random.default_rng(1).standard_cauchy(size=(20, 9))
    one, many = (median_polish(values, np.zeros(20), max_iter=m, tol=0.0) for m in (1, 200))
    np.testing.assert_allclose(one[0], plain_polish(values, 1))
    np.testing.assert_allclose(many[0], plain_polish(values, 200, 0.0))
    assert not np.allclose(one, many)


def test_a_target_in_intensities_with_log2_is_its_logarithm_without():
    pm, probeset = simulate()
    f = np.sort(np.random.default_rng(1).lognormal(5, 1, size=len(pm)))
    np.testing.assert_allclose(
        rma(pm, probeset, target_quantiles=f, log2=True, ties="first"),
        rma(pm, probeset, target_quantiles=np.log2(f), log2=False, ties="first"),
        atol=1e-12,
    )


@pytest.mark.parametrize("name", ["normal", "exponential", "bimodal"])
def test_named_targets_are_summarised_as_they_are(name):
    pm, probeset = simulate()
    f = make_target_quantiles(name, len(pm))
    out = rma(pm, probeset, target_quantiles=name)
    expected = median_polish(quantile_normalize(background_correct(pm).T, f).T, probeset)
    np.testing.assert_allclose(out, expected, atol=1e-12)


def test_a_target_frozen_on_other_arrays_is_used():
    pm, probeset = simulate(n_arrays=6)
    frozen = QuantileNormalizer("mean", ties="mean_rank").fit(background_correct(pm[:, :4]).T)
    out = rma(pm[:, 4:], probeset, target_quantiles=frozen, log2=True)
    normalised = frozen.transform(background_correct(pm[:, 4:]).T).T
    np.testing.assert_allclose(out, median_polish(np.log2(normalised), probeset), atol=1e-12)


@pytest.mark.parametrize("level", ["probes", "sets"])
def test_a_learned_target_is_used_as_it_is(level):
    pm, probeset = simulate(n_arrays=30, n_sets=20)
    y = np.arange(30) % 2
    X = background_correct(pm).T if level == "probes" else rma(pm, probeset).T
    model = SuquanClassifier("bnd", alpha=1.0, init="normal").fit(X, y)
    out = rma(pm, probeset, target_quantiles=model, log2=False)
    f = make_target_quantiles(model.target_quantiles_, len(pm))
    normalised = quantile_normalize(background_correct(pm).T, f, ties="mean_rank").T
    np.testing.assert_allclose(out, median_polish(normalised, probeset), atol=1e-12)


@pytest.mark.parametrize("target", [np.arange(1.0, 661.0), norm(8, 2), lambda q: 1 + q])
def test_targets_of_unknown_scale_need_log2(target):
    pm, probeset = simulate()
    with pytest.raises(ValueError, match="log2 must be given"):
        rma(pm, probeset, target_quantiles=target)


def test_targets_that_cannot_be_used_are_refused():
    pm, probeset = simulate()
    with pytest.raises(ValueError, match=r"target quantiles must be positive.*log2=False"):
        rma(pm, probeset, target_quantiles="normal", log2=True)
    with pytest.raises(ValueError, match="fit it before"):
        rma(pm, probeset, target_quantiles=SuquanClassifier(), log2=False)
    with pytest.raises(ValueError, match="ties must be one of"):
        rma(pm, probeset, ties="max")
    pm[5, 1] = 0.0
    with pytest.raises(ValueError, match="intensities must be positive"):
        rma(pm, probeset, background=False, target_quantiles=None)


@pytest.mark.parametrize("n_jobs", [2, 3])
def test_the_number_of_threads_changes_nothing(n_jobs):
    pm, probeset = simulate(n_sets=5000, n_arrays=12)
    np.testing.assert_array_equal(rma(pm, probeset), rma(pm, probeset, n_jobs=n_jobs))


def test_neither_the_order_of_the_probes_nor_the_input_changes():
    pm, probeset = simulate()
    before, mixed = pm.copy(), np.random.default_rng(0).permutation(len(pm))
    np.testing.assert_allclose(rma(pm[mixed], probeset[mixed]), rma(pm, probeset), atol=1e-10)
    background_correct(pm)
    median_polish(pm, probeset)
    np.testing.assert_array_equal(pm, before)


def test_pandas_in_gives_pandas_out_with_the_names_of_sets_and_arrays():
    pd = pytest.importorskip("pandas")
    pm, probeset = simulate(n_sets=3)
    names = np.array(["z_at", "a_at", "m_at"])[probeset]
    frame = pd.DataFrame(pm, columns=[f"chip{j}" for j in range(5)])
    out = rma(frame, names)
    assert list(out.index) == ["a_at", "m_at", "z_at"]
    assert list(out.columns) == list(frame.columns)
    np.testing.assert_array_equal(out, rma(pm, names))
    assert background_correct(frame).index.equals(frame.index)


@pytest.mark.parametrize(
    ("function", "change", "options", "message"),
    [
        (rma, lambda pm, sets: (pm, sets[:-1]), {}, "one label per probe, so 660"),
        (median_polish, lambda pm, sets: (pm, sets[:-1]), {}, "one label per probe, so 660"),
        (rma, lambda pm, sets: (pm.T, sets), {}, "Probes are the rows"),
        (median_polish, lambda pm, sets: (pm.T, sets), {}, "Probes are the rows"),
        (rma, lambda pm, sets: (np.where(pm == pm[7, 2], np.nan, pm), sets), {}, "probe 7 of array 2"),
        (rma, lambda pm, sets: (np.where(pm == pm[7, 2], np.inf, pm), sets), {}, "probe 7 of array 2"),
        (rma, lambda pm, sets: (np.where(pm == pm[7, 2], -np.inf, pm), sets), {}, "probe 7 of array 2"),
        (median_polish, lambda pm, sets: (pm, sets), {"max_iter": 0}, "max_iter"),
        (median_polish, lambda pm, sets: (pm, sets), {"max_iter": 2.5}, "max_iter"),
        (median_polish, lambda pm, sets: (pm, sets), {"tol": -1}, "tol"),
    ],
)  # fmt: skip
def test_invalid_input_is_named(function, change, options, message):
    with pytest.raises(ValueError, match=message):
        function(*change(*simulate()), **options)
