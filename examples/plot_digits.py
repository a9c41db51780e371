"""
Several targets on pictures of digits
=====================================

A picture of a digit is a sample, and its 64 pixels are the features. Here half of the pictures are
negatives: what is bright in one is dark in the other. A target that rises takes a picture and its
negative for opposites. Targets without that constraint find out what both have in common.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from suquan import SuquanClassifier

pictures, y = load_digits(return_X_y=True)
negative = np.random.default_rng(0).uniform(size=len(y)) < 0.5
X = np.where(negative[:, None], 16 - pictures, pictures)
X, X_test, y, y_test = train_test_split(X, y, test_size=0.5, random_state=0, stratify=y)

# %%
# Ten classes share the targets. ``n_targets`` is a limit. Chance would be right once in ten.

models = {
    "fixed, rising": SuquanClassifier("fixed", init="uniform", alpha=0.01),
    "one target": SuquanClassifier("multi", n_targets=1, alpha=0.01, n_knots=16),
    "two targets": SuquanClassifier("multi", n_targets=2, alpha=0.01, n_knots=16),
}
for name, model in models.items():
    print(f"{name:14} accuracy {model.fit(X, y).score(X_test, y_test):.3f}")

# %%
# Nearly all of the gain comes from the first target. It is low for dark and for bright pixels and
# high for those in between, at the edges of the strokes, so it makes nearly the same of a picture
# and of its negative.

model = models["two targets"]
digits = np.repeat(pictures[[3, 8]], 2, axis=0)
digits[1::2] = 16 - digits[1::2]
copies = model.transform(digits).reshape(4, 2, 64)
share = model.singular_values_ / model.singular_values_.sum()
place = (np.arange(64) + 0.5) / 64
figure, axes = plt.subplots(5, 3, figsize=(5.4, 8), layout="constrained")
axes[0, 0].axis("off")
axes[0, 0].text(0.5, 0, "picture", ha="center", fontsize=12)
for k in range(2):
    axes[0, k + 1].plot(place, model.target_quantiles_[k], color="#c8553d", lw=2)
    axes[0, k + 1].set_title(f"target {k + 1}: {share[k]:.0%}", fontsize=12)
    axes[0, k + 1].set(xticks=[], yticks=[], xlabel="dark to bright")
    axes[0, k + 1].spines[["top", "right"]].set_visible(False)
for row in range(4):
    for axis, picture in zip(axes[row + 1], (digits[row], *copies[row]), strict=True):
        axis.imshow(picture.reshape(8, 8), cmap="gray")
        axis.axis("off")
plt.show()
