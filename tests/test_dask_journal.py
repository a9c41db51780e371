"""Checkpoints of fits on Dask: what makes a fit repeatable."""

import numpy as np
import pytest

from suquan import SuquanClassifier, checkpoint_fit

da = pytest.importorskip("dask.array")


@pytest.mark.parametrize("random_state", [None, "instance"])
def test_a_fit_without_a_seed_draws_its_folds_once_and_resumes(tmp_path, random_state):
    rng = np.random.default_rng(0)
    samples = rng.standard_normal((40, 6))
    X = da.from_array(samples, chunks=(20, 6))
    y = samples[:, 0] > samples[:, 1]  # a signal, so that no folds lead to the zero target

    def fit():
        state = np.random.RandomState() if random_state else None
        with checkpoint_fit(tmp_path):
            return SuquanClassifier(n_repeats=1, cv=2, random_state=state).fit(X, y)

    first, again = fit(), fit()
    np.testing.assert_array_equal(first.coef_, again.coef_)
    assert len(list(tmp_path.glob("pass-*.npz"))) == first.n_passes_ - 1


@pytest.mark.parametrize("name", ["pass-000001.npz", "seed.txt"])
def test_a_damaged_part_is_computed_anew_and_named(tmp_path, name):
    rng = np.random.default_rng(0)
    samples = rng.standard_normal((40, 6))
    X = da.from_array(samples, chunks=(20, 6))

    def fit():
        with checkpoint_fit(tmp_path):
            # The same seed is drawn anew.
            state = np.random.RandomState(0)
            model = SuquanClassifier(n_repeats=1, cv=2, random_state=state)
            return model.fit(X, samples[:, 0] > samples[:, 1])

    first = fit()
    data = (tmp_path / name).read_bytes()
    for damaged in (b"", data[: len(data) // 2] + b"?"):
        (tmp_path / name).write_bytes(damaged)
        with pytest.warns(UserWarning, match=f"{name} cannot be read .*computed anew"):
            np.testing.assert_array_equal(first.coef_, fit().coef_)
        assert (tmp_path / name).read_bytes() == data
