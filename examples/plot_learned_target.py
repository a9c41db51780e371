"""
Learning the target brings back what a bad one hid
==================================================

The paper's simulation. Labels depend on samples with normal values, but the samples come with
Cauchy values, as a badly chosen normalisation would leave them. Only the order within each sample
is left. :class:`suquan.SuquanClassifier` starts from the uniform target and finds one close to the
true one.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.metrics import roc_auc_score

from suquan import SuquanClassifier, make_target_quantiles
from suquan.datasets import make_corrupted_classification

X, y = make_corrupted_classification(2000, 500, corrupted="cauchy", random_state=0)

# %%
# The same logistic regression, on samples normalised to four targets. It is fitted to the first
# thousand samples and tested on the others.

models = {
    "as given, Cauchy": SuquanClassifier("fixed", init="cauchy", alpha=0.03),
    "start, uniform": SuquanClassifier("fixed", init="uniform", alpha=0.03),
    "learned": SuquanClassifier(alpha=0.03, smoothness=0.05, random_state=0),
    "true, normal": SuquanClassifier("fixed", init="normal", alpha=0.03),
}
auc = {}
for name, model in models.items():
    model.fit(X[:1000], y[:1000])
    auc[name] = roc_auc_score(y[1000:], model.decision_function(X[1000:]))
    print(f"{name:18} AUC {auc[name]:.3f}")

# %%
# Most of the way is made by leaving the Cauchy values. Learning adds the rest of what can be had,
# nearly.

place = (np.arange(500) + 0.5) / 500
looks = {
    "as given, Cauchy": (make_target_quantiles("cauchy", 500), "#2a6f97", "-", 1.2),
    "start, uniform": (make_target_quantiles("uniform", 500), "#6b7785", "-", 1.2),
    "learned": (models["learned"].target_quantiles_, "#c8553d", "-", 2.5),
    "true, normal": (make_target_quantiles("normal", 500), "#1f2933", "--", 1.5),
}
figure, (left, right) = plt.subplots(
    1, 2, figsize=(9, 3.8), width_ratios=(3, 2), layout="constrained"
)
labels = {"as given, Cauchy": (0.12, 0.15), "start, uniform": (0.1, -2.1)}
labels |= {"learned": (0.6, 0.9), "true, normal": (0.78, 2.5)}
for row, (name, (f, color, style, width)) in enumerate(looks.items()):
    left.plot(place, (f - f.mean()) / f.std(), color=color, ls=style, lw=width)
    left.text(*labels[name], name, color=color)
    right.plot(auc[name], row, "o", color=color, ms=9)
    right.text(
        auc[name] - 0.012, row, f"{name}  {auc[name]:.3f}", color=color, ha="right", va="center"
    )
right.texts[0].set(ha="left", x=auc["as given, Cauchy"] + 0.012)
left.set(xlabel="place in the sorted sample", ylabel="target quantile", ylim=(-3.2, 3.2))
right.set(xlabel="AUC on a thousand new samples", yticks=[], ylim=(-0.5, 3.5))
left.spines[["top", "right"]].set_visible(False)
right.spines[["top", "right", "left"]].set_visible(False)
plt.show()
