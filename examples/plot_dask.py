"""
Dask in ten lines
=================

Samples that do not fit into memory come as a Dask array. The estimators are the same, and the
samples stay in their blocks. More of them make a better target.
"""

import dask.array as da
import matplotlib.pyplot as plt
import numpy as np

from suquan import SuquanClassifier, make_target_quantiles

# %%
# A lazy array: nothing is computed yet. In real life it comes from
# ``da.from_zarr("samples.zarr")``.

values = da.random.default_rng(0).standard_normal((40_000, 40), chunks=(5_000, 40))
X = da.exp(values)  # on another scale than the labels
noise = np.random.default_rng(1).logistic(size=40_000)
y = (values[:, :10].sum(axis=1).compute() + noise) > 0
model = SuquanClassifier("bnd", alpha=1e-3, n_knots=20).fit(X, y)
probabilities = model.predict_proba(X)  # lazy, in the same blocks
print(f"accuracy {model.score(X, y):.3f} after {model.n_passes_} passes over the blocks")

# %%
# The same lines on fewer rows. The labels were made from normal values, so the true target is
# close to a normal one.


def standardized(f):
    """Mean 0 and mean square 1."""
    return (f - f.mean()) / f.std()


place = (np.arange(40) + 0.5) / 40
true = standardized(make_target_quantiles("normal", 40))
figure, axes = plt.subplots(1, 3, figsize=(9.5, 3.4), sharey=True, layout="constrained")
for axis, n in zip(axes, (1_000, 5_000, 40_000), strict=True):
    f = standardized(model.fit(X[:n], y[:n]).target_quantiles_)
    axis.plot(place, true, color="#1f2933", ls="--", lw=1.2)
    axis.plot(place, f, color="#c8553d", lw=2.5)
    error = np.sqrt(np.mean((f - true) ** 2))
    axis.set(title=f"{n:,} rows, error {error:.2f}", xlabel="place in the sorted sample")
    axis.spines[["top", "right"]].set_visible(False)
axes[0].set_ylabel("target quantile")
axes[0].text(0.45, -1.2, "learned", color="#c8553d")
axes[0].text(0.45, -1.7, "true, normal", color="#1f2933")
plt.show()
