"""Small fits give the numbers that were stored before the solvers were rewritten."""

from pathlib import Path

import numpy as np
import pytest
import stored_cases

STORED = Path(__file__).parent / "data" / "golden" / "fits.npz"
TOL = 1e-6


@pytest.fixture(scope="module")
def stored():
    with np.load(STORED) as file:
        return dict(file)


def error(values, expected):
    """Largest difference relative to the largest value."""
    assert np.shape(values) == np.shape(expected)
    return np.max(np.abs(values - expected)) / np.max(np.abs(expected))


@pytest.mark.parametrize("loss", stored_cases.LOSSES)
def test_fits(stored, loss):
    cases = stored_cases.make_cases()
    assert list(cases) == stored["names"].tolist()
    ends = np.cumsum(stored["shapes"].prod(axis=1))[:-1]
    all_scores = np.split(stored["scores"], ends)
    wrong = []
    for number, (name, case) in enumerate(cases.items()):
        if case.loss != loss:
            continue
        objective, scores = case.run()
        expected = all_scores[number].reshape(stored["shapes"][number])
        errors = [error(scores, expected)]
        if case.unique:  # elsewhere J after the last w-step depends on the target found
            errors.append(error(objective, stored["objectives"][number]))
        if not max(errors) <= TOL + stored["noise"][number]:
            wrong.append(f"{name}: relative errors {errors}")
    assert not wrong, "\n".join([f"{len(wrong)} fits differ:", *wrong])


def test_supervised_normalizer(stored):
    assert error(stored_cases.run_normalizer(), stored["normalizer"]) <= TOL


@pytest.mark.parametrize("loss", stored_cases.LOSSES)
def test_selection(stored, loss):
    chosen, means, scores = stored_cases.run_selection(loss)
    assert chosen == stored[f"selection {loss} chosen"]
    assert error(means, stored[f"selection {loss} means"]) <= TOL
    assert error(scores, stored[f"selection {loss} scores"]) <= TOL


def test_comparison(stored):
    table = stored_cases.run_comparison()
    assert error(table, stored["comparison table"][:, :6]) <= TOL


@pytest.mark.parametrize(("loss", "method"), stored_cases.ON_DASK)
def test_dask(stored, loss, method):
    pytest.importorskip("dask.array")
    objective, scores = stored_cases.run_dask(loss, method)
    assert error(objective, stored[f"dask {loss} {method} objective"]) <= TOL
    assert error(scores, stored[f"dask {loss} {method} scores"]) <= TOL
