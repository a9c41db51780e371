"""Risk sets of cross-fitting: within test folds, or across folds after centring; see docs/design/survival.md.

    python -m benchmarks.study_cox_folds [--draws 20]

Samples whose hazard follows a known target. "crossfit" learns the target with risk sets inside the test
folds, or with those of a whole partition after each fold's scores have lost their mean. Printed: the mean
correlation of the learned target with the true one, and the mean concordance on 2,000 new samples, with
standard errors of the differences.
"""

import argparse
from collections.abc import Sequence

import numpy as np

from suquan import SuquanCox, make_target_quantiles
from suquan.datasets import make_corrupted_survival, skewed_mixture
from suquan.losses import labels_apart
from suquan.objective import FoldModels

N_TEST = 2000
N_FOLDS = 5


class AcrossFolds:
    """`FoldModels` with the risk sets of whole partitions, scores centred fold by fold."""

    def stack(self, problem, models, g):
        """Rows of the f-step, each less the mean of its fold."""
        D, _, s = _STACK(self, problem, models, g)
        start = 0
        for _, test in self.splits:
            stop = start + len(test)
            D[start:stop] -= D[start:stop].mean(axis=0)
            start = stop
        sizes = [len(test) for _, test in self.splits]
        partition = np.repeat(np.arange(len(sizes)) // N_FOLDS, sizes)
        return D, labels_apart(problem.loss, problem.y[self.rows], partition), s


_STACK = FoldModels.stack


def study(n_samples: int, n_features: int, censored: float, strength: float, seed: int) -> list:
    X, y = make_corrupted_survival(
        n_samples + N_TEST, n_features, target=skewed_mixture, corrupted="normal",
        strength=strength, censored=censored, random_state=seed,
    )  # fmt: skip
    true = make_target_quantiles(skewed_mixture, n_features)
    found = []
    for stack in (_STACK, AcrossFolds.stack):
        FoldModels.stack = stack  # type: ignore[method-assign]
        model = SuquanCox("crossfit", random_state=seed, cv=N_FOLDS, n_knots=50)
        model.fit(X[:n_samples], y[:n_samples])
        similarity = np.corrcoef(model.target_quantiles_, true)[0, 1]
        found.append((similarity, model.score(X[n_samples:], y[n_samples:])))
    FoldModels.stack = _STACK  # type: ignore[method-assign]
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draws", type=int, default=20)
    draws = parser.parse_args(arguments).draws
    print("samples features censored strength | target within, across | concordance within, across")
    for n_samples in (100, 200, 400):
        for censored, strength in ((0.3, 2.0), (0.7, 2.0), (0.7, 1.0)):
            case = n_samples, 100, censored, strength
            table = np.array([study(*case, seed) for seed in range(draws)])
            mean = table.mean(axis=0)
            change = table[:, 1] - table[:, 0]
            error = change.std(axis=0, ddof=1) / np.sqrt(draws) if draws > 1 else change[0] * 0
            print(
                f"{n_samples:7} {100:8} {censored:8} {strength:8} | "
                + " | ".join(
                    f"{mean[0, k]:.3f}, {mean[1, k]:.3f} ({change[:, k].mean():+.4f} ± {error[k]:.4f})"
                    for k in range(2)
                )
            )


if __name__ == "__main__":
    main()
