"""
Counts with 90% zeros: what ties do there
=========================================

In single-cell counts most values of a cell are zero, and all zeros are tied. A tie rule decides
what they get. One of the rules invents an order among them.
"""

import matplotlib.pyplot as plt
import numpy as np

from suquan import quantile_normalize

# %%
# Simulated cells of 1,000 genes. Cells differ in depth, that is in how many molecules were
# caught. The last hundred genes are never expressed.

rng = np.random.default_rng(0)
rate = np.sort(rng.lognormal(-3.2, 1.4, size=1000))[::-1]
rate[900:] = 0.0
rate[:900] = rng.permutation(rate[:900])
depth = rng.lognormal(0, 0.5, size=(400, 1))
X = rng.poisson(rng.gamma(2.0, depth * rate / 2.0, size=(400, 1000))).astype(float)
print(f"{np.mean(X == 0):.0%} of the counts are zero")

# %%
# Look at a gene that is zero in every cell. It should stay flat. With ``"first"`` zeros get
# different values by their place in the table: a silent gene moves, and silent genes next to each
# other move together. With ``"average"`` (the default) and ``"mean_rank"`` all zeros of a cell
# share one value. With ``"mean_rank"`` it is the target at their mean place, which is zero here.

target = np.sort(np.log1p(X), axis=1).mean(axis=0)
rules = ("first", "average", "mean_rank")
Z = {ties: quantile_normalize(X, target, ties=ties) for ties in rules}
share = np.mean(X == 0, axis=1)
for ties in rules:
    silent = Z[ties][:, 900:]
    n_values = np.mean([len(np.unique(z[x == 0])) for z, x in zip(Z[ties], X, strict=True)])
    print(f"{ties:10} values of the zeros of a cell: {n_values:5.1f}, range {np.ptp(silent):.3f}")

# %%
# What is left with ``"average"`` is depth: a deep cell has fewer zeros, and their shared value is
# a little lower. So after normalisation a zero still tells how many zeros there are. With 90%
# zeros, compare with the logarithm of shares before you trust any quantile normalisation.

figure, axes = plt.subplots(1, 3, figsize=(10, 3.6), sharey=True, layout="constrained")
titles = ("as counted, log(1 + x)", 'ties="first"', 'ties="average"')
panels = (np.log1p(X), Z["first"], Z["average"])
order = np.argsort(share)
for axis, values, title, color in zip(
    axes, panels, titles, ("#6b7785", "#c8553d", "#2a6f97"), strict=True
):
    axis.plot(share[order], values[order][:, 900::12], ".", color=color, ms=3, alpha=0.6)
    axis.set(title=title, xlabel="share of zeros in the cell")
    axis.xaxis.set_major_formatter("{x:.0%}")
    axis.spines[["top", "right"]].set_visible(False)
axes[0].set_ylabel("value of genes that are never expressed")
plt.show()
