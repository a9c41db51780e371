"""Learning the target brings back what a bad one hid.
=======================================================

The paper's simulation: labels depend on samples with normally distributed values, but the samples come with
the values of a Cauchy distribution, as a badly chosen normalisation would leave them. The order within each
sample is all that is left. A logistic regression on the corrupted samples fails. The uniform target, from which
:class:`suquan.SuquanClassifier` starts, is much better; the target that it learns is close to the true one, and
predicts almost as well as if nothing had happened.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib
import numpy as np
from sklearn.metrics import roc_auc_score

from suquan import SuquanClassifier, make_target_quantiles, quantile_normalize
from suquan.datasets import make_corrupted_classification

INK, TRUE, LEARNED, CORRUPTED = "#1f2933", "#1f2933", "#c8553d", "#2a6f97"


def standardized(f: np.ndarray) -> np.ndarray:
    """Target of mean 0 and mean square 1."""
    f = f - f.mean()
    return f / np.sqrt(np.mean(f**2))


def main(out: Path) -> None:
    """Fit the four models, print their test AUC, draw the targets."""
    X, y = make_corrupted_classification(
        n_samples=2000, n_features=500, corrupted="cauchy", random_state=0
    )
    train, test = slice(0, 1000), slice(1000, None)
    models = {
        "true target": SuquanClassifier("fixed", init="normal", alpha=0.03),
        "Cauchy target, as given": SuquanClassifier("fixed", init="cauchy", alpha=0.03),
        "uniform target, the start": SuquanClassifier("fixed", init="uniform", alpha=0.03),
        "learned target": SuquanClassifier(alpha=0.03, smoothness=0.05, random_state=0),
    }
    print(f"{'logistic regression on samples with the':42s} test AUC")
    for name, model in models.items():
        model.fit(X[train], y[train])
        print(f"  {name:40s} {roc_auc_score(y[test], model.decision_function(X[test])):.3f}")

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    p = X.shape[1]
    place = (np.arange(p) + 0.5) / p
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6))
    true = standardized(make_target_quantiles("normal", p))
    learned = models["learned target"].target_quantiles_
    corrupted = standardized(make_target_quantiles("cauchy", p))
    left.plot(place, corrupted, color=CORRUPTED, lw=1.5, label="corrupted (Cauchy)")
    left.plot(place, true, color=TRUE, lw=1.5, ls="--", label="true (normal)")
    left.plot(place, learned, color=LEARNED, lw=2, label="learned")
    left.set(xlabel="place in the sorted sample", ylabel="target quantile", ylim=(-3.5, 3.5))
    left.legend(frameon=False)
    u_true = quantile_normalize(X[test], true)[:, :40].ravel()
    u_learned = models["learned target"].transform(X[test])[:, :40].ravel()
    right.plot(u_true[::7], u_learned[::7], ".", color=LEARNED, ms=2, alpha=0.4)
    right.axline((0, 0), slope=1, color=INK, lw=0.8, ls=":")
    right.set(xlabel="value under the true target", ylabel="value under the learned target")
    for axis in (left, right):
        axis.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    out.mkdir(parents=True, exist_ok=True)
    path = out / "learned_target.png"
    figure.savefig(path, dpi=110)
    print(f"picture: {path}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("demo-output"))
    main(parser.parse_args().out)
