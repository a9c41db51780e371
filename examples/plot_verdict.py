"""
The verdict: does learning the target help here?
================================================

Labels depend on which features are among the highest and the lowest tenth of a sample, and on
nothing between. No named target looks like that, so learning has something to find.
:func:`suquan.compare` does not know; it measures.
"""

import tempfile
import textwrap
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import RepeatedStratifiedKFold

from suquan import SuquanClassifierCV, compare
from suquan.datasets import make_corrupted_classification
from suquan.plotting import ComparisonDisplay, TargetQuantileDisplay
from suquan.report import write_report


def extremes(q):
    """The true target: −3 in the lowest tenth, 3 in the highest, 0 between."""
    return np.where(q > 0.9, 3.0, 0.0) - np.where(q < 0.1, 3.0, 0.0)


X, y = make_corrupted_classification(300, 60, target=extremes, corrupted="normal", random_state=0)

# %%
# All methods see the same outer folds. Their penalties are chosen inside each training set. Two
# contrasts are fixed in advance: the learned target minus the initial one ("start"), and minus the
# best alternative inside each fold ("best_fixed").

grids = {"alphas": 4, "smoothnesses": 3, "n_repeats": 1}
result = compare(
    X,
    y,
    methods=["raw", "normal", "uniform", "exponential", "crossfit"],
    outer_cv=RepeatedStratifiedKFold(n_splits=3, n_repeats=2, random_state=0),
    inner_cv=3,
    progress=False,
    **grids,
)
print(textwrap.fill(result.verdict, 76))

# %%
# Read the interval, not the mean alone: where it touches zero, these folds cannot tell. Left: the
# difference of each method from the initial target, with its 95% interval. Right: the targets
# learned in the folds, as a band.

figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
ComparisonDisplay.from_result(result, "difference", ax=left)
TargetQuantileDisplay.from_result(result, fixed=(), ax=right)
plt.show()

# %%
# The whole answer fits into one HTML file, together with the model fitted to all samples.

model = SuquanClassifierCV(cv=3, random_state=0, **grids).fit(X, y)
folder = Path(tempfile.mkdtemp())
print(write_report(folder / "report.html", result, estimator=model).stat().st_size // 1024, "kB")
