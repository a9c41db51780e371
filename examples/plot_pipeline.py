"""
A learned target in front of another model
==========================================

:class:`suquan.SupervisedQuantileNormalizer` learns a target with a linear model, throws the linear
model away, and hands the normalised samples on. Any model of scikit-learn can follow. In a pipeline
the target is learned from the training samples of each fold alone.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import cross_val_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.svm import SVC

from suquan import QuantileNormalizer, SupervisedQuantileNormalizer
from suquan.datasets import make_corrupted_classification


def extremes(q):
    """The true target: −3 in the lowest tenth, 3 in the highest, 0 between."""
    return np.where(q > 0.9, 3.0, 0.0) - np.where(q < 0.1, 3.0, 0.0)


# %%
# Labels depend on the extremes of a sample, and each sample is measured on a scale of its own.

rng = np.random.default_rng(0)
X, y = make_corrupted_classification(600, 40, target=extremes, corrupted="normal", random_state=0)
X = np.exp(rng.uniform(0.2, 1.0, size=(600, 1)) * X)

# %%
# Three ways to prepare the samples, three models after each.

first = {
    "raw": FunctionTransformer(),
    "quantile normalised": QuantileNormalizer("normal"),
    "learned target": SupervisedQuantileNormalizer(alpha=0.03, n_repeats=1, random_state=0),
}
models = {
    "support vectors": SVC(),
    "random forest": RandomForestClassifier(100, random_state=0),
    "nearest neighbours": KNeighborsClassifier(25),
}
colors = {"raw": "#6b7785", "quantile normalised": "#2a6f97", "learned target": "#c8553d"}
figure, axis = plt.subplots(figsize=(7.5, 3.4), layout="constrained")
for row, (name, model) in enumerate(models.items()):
    for kind, step in first.items():
        pipeline = make_pipeline(step, model)
        auc = cross_val_score(pipeline, X, y, cv=5, scoring="roc_auc").mean()
        print(f"{name:20} {kind:20} AUC {auc:.3f}")
        axis.plot(auc, row, "o", color=colors[kind], ms=10)
        if row == 0:
            side = "left" if kind == "quantile normalised" else "right"
            axis.text(auc, row - 0.3, kind, color=colors[kind], ha=side)
axis.set(yticks=range(3), yticklabels=models, ylim=(2.4, -0.6), xlabel="AUC, mean of five folds")
axis.grid(axis="y", color="#9aa5b1", alpha=0.4)
axis.spines[["top", "right", "left"]].set_visible(False)
plt.show()
