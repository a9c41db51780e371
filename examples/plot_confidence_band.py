"""
How sure is the learned target? A bootstrap band
================================================

A learned target is an estimate. The bootstrap tells how much it would change with other samples:
draw as many samples with replacement, learn again, and look at the spread. Drawing with replacement
is the same as random weights.
"""

import matplotlib.pyplot as plt
import numpy as np

from suquan import SuquanClassifier
from suquan.datasets import make_corrupted_classification, two_steps

X, y = make_corrupted_classification(2000, 60, target=two_steps, corrupted="normal", random_state=1)
place = (np.arange(60) + 0.5) / 60


def standardized(f):
    """Mean 0 and mean square 1: a model does not see the rest of a target's scale."""
    f = f - f.mean(axis=-1, keepdims=True)
    return f / np.sqrt(np.mean(f**2, axis=-1, keepdims=True))


def bootstrap(X, y, n_draws=40):
    """Targets of shape (n_draws, n_features), each learned from samples with random weights."""
    rng = np.random.default_rng(0)
    model = SuquanClassifier("bnd", alpha=0.01, n_knots=20)
    n = len(y)
    weights = rng.multinomial(n, np.full(n, 1 / n), size=n_draws)
    return np.array([model.fit(X, y, sample_weight=w).target_quantiles_ for w in weights])


# %%
# The band holds 90% of the targets at every place. With more samples it becomes narrow, and comes
# close to the true target. It shows the chance of the draw alone. With 200 samples most draws
# round the steps off in the same way, so the band misses them: a band tells how much a target
# varies, not how far it is from the truth.

figure, axes = plt.subplots(1, 2, figsize=(9, 3.8), sharey=True, layout="constrained")
for axis, n in zip(axes, (200, 2000), strict=True):
    targets = standardized(bootstrap(X[:n], y[:n]))
    low, middle, high = np.quantile(targets, [0.05, 0.5, 0.95], axis=0)
    print(f"{n:5} samples: mean width of the band {np.mean(high - low):.2f}")
    axis.fill_between(place, low, high, color="#c8553d", alpha=0.25, lw=0)
    axis.plot(place, middle, color="#c8553d", lw=2)
    axis.plot(place, standardized(two_steps(place)), color="#1f2933", ls="--", lw=1.2)
    axis.set(title=f"{n} samples", xlabel="place in the sorted sample")
    axis.spines[["top", "right"]].set_visible(False)
axes[0].set_ylabel("target quantile")
axes[1].text(0.5, 0.45, "learned, with 90% band", color="#c8553d", ha="center")
axes[1].text(0.55, -0.65, "true", color="#1f2933", ha="center")
plt.show()
