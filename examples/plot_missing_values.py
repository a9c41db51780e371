"""
Missing values: leave them out, do not fill them in
===================================================

With ``missing="ignore"`` the k-th of a sample's m observed values reads the target at (k + ½)/m,
and what is missing stays missing. So a sample with holes is normalised like a complete one.
"""

import matplotlib.pyplot as plt
import numpy as np

from suquan import QuantileNormalizer
from suquan.datasets import make_distorted_samples

X, _ = make_distorted_samples(100, 500, random_state=0)
normalizer = QuantileNormalizer("normal", missing="ignore").fit(X)
complete = normalizer.transform(X)  # what we would have without holes

# %%
# Take values out at random, and normalise in three ways: leave the holes, fill them with zeros,
# or fill them with the feature's mean. Only values that were observed are compared with those of
# the complete samples.

rng = np.random.default_rng(0)
draws = rng.uniform(size=X.shape)
shares = np.linspace(0.05, 0.6, 12)
errors = {"left out": [], "filled with feature means": [], "filled with zeros": []}
for share in shares:
    holes = np.where(draws < share, np.nan, X)
    filled = {
        "left out": holes,
        "filled with feature means": np.where(draws < share, np.nanmean(holes, axis=0), X),
        "filled with zeros": np.where(draws < share, 0.0, X),
    }
    for name, samples in filled.items():
        difference = (normalizer.transform(samples) - complete)[draws >= share]
        errors[name].append(np.sqrt(np.mean(difference**2)))

# %%
# Filling puts the same few values into every hole, where they take places that belong to others.
# Left out, the rest of a sample stays where it was.

figure, axis = plt.subplots(figsize=(7.5, 4), layout="constrained")
colors = ("#c8553d", "#6b7785", "#2a6f97")
for (name, error), color in zip(errors.items(), colors, strict=True):
    axis.plot(shares, error, color=color, lw=2.5)
    axis.text(0.61, error[-1], name, color=color, va="center")
    print(f"{name:26} error {error[5]:.2f} with {shares[5]:.0%} missing")
axis.set(
    xlabel="share of missing values", ylabel="error of the observed values\n(standard deviations)"
)
axis.set(xlim=(0, 0.62), ylim=(0, None))
axis.xaxis.set_major_formatter("{x:.0%}")
axis.spines[["top", "right"]].set_visible(False)
plt.show()
