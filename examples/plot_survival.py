"""
A survival curve: the target of Cox's model, learned
====================================================

Hazards depend on which features are among the highest and the lowest tenth of a sample, and half of
the patients are censored. :func:`suquan.compare` measures the concordance by nested
cross-validation.
"""

import textwrap

import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import RepeatedStratifiedKFold

from suquan import SuquanCox, compare
from suquan.datasets import make_corrupted_survival
from suquan.plotting import RiskGroupDisplay, TargetQuantileDisplay


def extremes(q):
    """The true target: −3 in the lowest tenth, 3 in the highest, 0 between."""
    return np.where(q > 0.9, 3.0, 0.0) - np.where(q < 0.1, 3.0, 0.0)


X, y = make_corrupted_survival(
    400, 60, target=extremes, corrupted="normal", strength=1.5, random_state=0
)
result = compare(
    X,
    y,
    scoring="concordance",
    methods=["raw", "normal", "uniform", "crossfit"],
    outer_cv=RepeatedStratifiedKFold(n_splits=3, n_repeats=3, random_state=0),
    inner_cv=3,
    alphas=4,
    smoothnesses=3,
    progress=False,
)
for name, mean in zip(result.summary["method"], result.summary["mean"], strict=True):
    print(f"{name:12} {mean:.3f}")
print(textwrap.fill(result.verdict, 76))

# %%
# A fitted model gives each patient a risk, and with it the chance to be free of the event at any
# time.

model = SuquanCox(random_state=0).fit(X, y)
print("free of the event at time 1:", model.predict_survival_function(X[:3], 1.0).round(2).T)

# %%
# Left: the patients in thirds of their risk. Each patient's risk comes from a model that has not
# seen that patient. Right: the learned target. It is flat in the middle, as the true one is.

figure, (left, right) = plt.subplots(1, 2, figsize=(9.5, 3.8), layout="constrained")
RiskGroupDisplay.from_result(result, ax=left)
TargetQuantileDisplay.from_estimator(model, comparison=result, fixed=("uniform",), ax=right)
plt.show()
