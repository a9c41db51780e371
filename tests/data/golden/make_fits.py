"""Fit the small problems of ``tests/stored_cases.py`` and store the results.

From the root of the repository, with the version of suquan that is to be stored:
python tests/data/golden/make_fits.py [FILE]

``fits.npz`` was written by version 0.1.0 before its solvers were rewritten; its fits with an l1 penalty with
a w-step solved to 10⁻¹⁵, as at 10⁻¹⁰ their scores were off by up to 5·10⁻⁶. Later versions must give the same
numbers: write it again only where they are meant to change, and say in CHANGELOG.md which and why.
"""

import sys
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1]))

import stored_cases  # noqa: E402


def main(path):
    """Write all stored values to `path`."""
    stored = {}
    cases = stored_cases.make_cases()
    fits = [case.run() for case in cases.values()]
    looser = [case.run(tol=10 * stored_cases.PRECISE["tol"]) for case in cases.values()]
    stored["names"] = np.array(list(cases))
    stored["objectives"] = np.array([objective for objective, _ in fits])
    # One array for all cases: an array each would be mostly headers.
    stored["shapes"] = np.array([scores.shape for _, scores in fits])
    stored["scores"] = np.concatenate([scores.ravel() for _, scores in fits])
    # How far the scores still move with the tolerance, relative to the largest.
    stored["noise"] = np.array(
        [
            np.max(np.abs(loose - scores)) / np.max(np.abs(scores))
            for (_, scores), (_, loose) in zip(fits, looser, strict=True)
        ]
    )
    stored["normalizer"] = stored_cases.run_normalizer()
    for loss in stored_cases.LOSSES:
        chosen, means, scores = stored_cases.run_selection(loss)
        stored[f"selection {loss} chosen"] = np.array(chosen)
        stored[f"selection {loss} means"] = means
        stored[f"selection {loss} scores"] = scores
    stored["comparison table"] = stored_cases.run_comparison()
    for loss, method in stored_cases.ON_DASK:
        objective, scores = stored_cases.run_dask(loss, method)
        stored[f"dask {loss} {method} objective"] = np.array(objective)
        stored[f"dask {loss} {method} scores"] = scores
    np.savez_compressed(path, **stored)
    print(f"{len(cases)} fits in {path}, {Path(path).stat().st_size / 1e3:.0f} kB")


if __name__ == "__main__":
    main(*(sys.argv[1:2] or [HERE / "fits.npz"]))
