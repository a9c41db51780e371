"""
Quantile normalisation takes the scale of each sample out
=========================================================

Sixty samples of two thousand features share one profile. Each was measured through an increasing
map of its own, so only the order within a sample survives. Quantile normalisation keeps that order
and gives all samples the same values. Then features can be compared again.
"""

import matplotlib.pyplot as plt
import numpy as np

from suquan import quantile_normalize
from suquan.datasets import make_distorted_samples

X, X_true = make_distorted_samples(n_samples=60, n_features=2000, random_state=0)
Z = quantile_normalize(X, "mean")


# %%
# How well does a feature follow its true values across the samples? The median correlation over
# the features tells, before and after.


def agreement(X):
    """Median over the features of the correlation with the true values."""
    A, B = X - X.mean(axis=0), X_true - X_true.mean(axis=0)
    return np.median((A * B).sum(0) / np.sqrt((A**2).sum(0) * (B**2).sum(0)))


print(f"correlation with the true values: {agreement(X):.2f} before, {agreement(Z):.2f} after")

# %%
# One line per sample above, one row per sample below: the bar holds the middle half of the
# values, the dot is the median.

figure, axes = plt.subplots(2, 2, figsize=(9, 6), sharex=True, sharey="row", layout="constrained")
low, high = np.percentile(X, [0.2, 99.8])
bins = np.linspace(low, high, 90)
smooth = np.hanning(9) / np.hanning(9).sum()
rows = np.argsort(np.median(X, axis=1))
for (top, bottom), samples, title in zip(axes.T, (X, Z), ("before", "after"), strict=True):
    for x in samples:
        density = np.convolve(np.histogram(x, bins, density=True)[0], smooth, "same")
        top.plot((bins[1:] + bins[:-1]) / 2, density, color="#2a6f97", alpha=0.35, lw=0.9)
    first, middle, third = np.percentile(samples[rows], [25, 50, 75], axis=1)
    bottom.hlines(np.arange(60), first, third, color="#2a6f97", lw=1.8)
    bottom.plot(middle, np.arange(60), "o", color="#c8553d", ms=3.5)
    top.set(title=f"{title}: correlation with the truth {agreement(samples):.2f}", xlim=(low, high))
    bottom.set_xlabel("value")
axes[0, 0].set_ylabel("density")
axes[1, 0].set_ylabel("sample, in order of its median")
for axis in axes.ravel():
    axis.spines[["top", "right"]].set_visible(False)
plt.show()
