"""
Quickstart: from a table to a verdict
=====================================

Samples are in rows, as everywhere in scikit-learn. This script normalises them, learns a target,
asks whether that helped, and scores a new sample.
"""

import tempfile
import textwrap

import matplotlib.pyplot as plt
import numpy as np

from suquan import SuquanClassifier, compare, load_model, quantile_normalize, save_model
from suquan.datasets import make_corrupted_classification

# %%
# 300 patients, 80 genes, and a label. The label depends on which genes are among the highest and
# the lowest tenth of a patient. Every patient was measured on a scale of its own, so raw values
# cannot be compared.


def extremes(q):
    """The true target: −3 in the lowest tenth, 3 in the highest, 0 between."""
    return np.where(q > 0.9, 3.0, 0.0) - np.where(q < 0.1, 3.0, 0.0)


rng = np.random.default_rng(0)
X, y = make_corrupted_classification(300, 80, target=extremes, corrupted="normal", random_state=0)
X = rng.normal(8, 2, size=(300, 1)) + rng.lognormal(0, 0.4, size=(300, 1)) * X

# %%
# **Normalise.** Every sample gets the same values, and keeps its order.

Z = quantile_normalize(X, "median")
assert np.allclose(np.sort(Z[0]), np.sort(Z[1]))

# %%
# **Learn the target**, together with a linear model. Nothing has to be normalised first: the
# model sees the order within each sample, and nothing else.

model = SuquanClassifier(alpha=0.03, smoothness=0.05, random_state=0).fit(X, y)

# %%
# **Does it help?** Nested cross-validation of fixed and learned targets on the same folds. The
# answer is a few sentences, and sometimes it is no. The folds and grids here are made small to be
# quick; leave that out for your own data.

quick = {"outer_cv": 3, "inner_cv": 3, "alphas": 4, "smoothnesses": 2}
result = compare(X, y, methods=["raw", "normal", "uniform", "crossfit"], progress=False, **quick)
print(textwrap.fill(result.verdict, 76))

# %%
# **Score new samples.** A model is one file. A new sample gets the same score alone and in a
# batch.

path = save_model(model, tempfile.mkdtemp() + "/model.suquan")
print(load_model(path).predict_proba(X[:1]).round(3))

# %%
# The picture: all samples before, all samples after, and the target that was learned.

figure, (before, after, learned) = plt.subplots(1, 3, figsize=(10, 3.3), layout="constrained")
place = (np.arange(80) + 0.5) / 80
before.plot(place, np.sort(X[::6], axis=1).T, color="#2a6f97", alpha=0.4, lw=0.8)
after.plot(place, np.sort(Z[::6], axis=1).T, color="#2a6f97", lw=0.8)
f = model.target_quantiles_
true = extremes(place) / extremes(place).std()
learned.plot(place, true, color="#1f2933", lw=1.2, ls="--")
learned.plot(place, (f - f.mean()) / f.std(), color="#c8553d", lw=2.5)
learned.text(0.5, -0.55, "true", color="#1f2933", ha="center")
learned.text(0.42, 0.55, "learned", color="#c8553d", ha="center")
before.set(title="before", ylabel="value, one line per sample")
after.set(title="after", xlabel="place in the sorted sample", ylim=before.get_ylim())
learned.set(title="learned target", ylabel="target quantile")
for axis in (before, after, learned):
    axis.spines[["top", "right"]].set_visible(False)
plt.show()
