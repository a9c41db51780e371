"""Areas under the ROC curve of held-out samples stay what they were before the solvers were rewritten."""

import numpy as np
import pytest
from data_files import data_file
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedKFold

from suquan import SuquanClassifier
from suquan.datasets import make_corrupted_classification

METHODS = ("fixed", "bnd", "joint", "crossfit", "matrix")
# Values of :func:`area` with the code of version 0.1.0 as it was before its solvers were replaced, by the
# columns of METHODS; print(area(*load(name), method)) gives them.
STORED = {
    "simulated": (0.8143, 0.8137, 0.8056, 0.8051, 0.5618),
    "breast_vdx150": (0.6204, 0.6370, 0.6799, 0.6734, 0.6916),
    "breast_sotiriou99": (0.6561, 0.6607, 0.6573, 0.5902, 0.6175),
    "dlbcl_chop414": (0.6883, 0.6785, 0.6727, 0.7367, 0.6737),
}


def load(name):
    """Samples and their classes; those without a class, labelled -1, are left out."""
    if name == "simulated":
        return make_corrupted_classification(500, 300, random_state=0)
    with np.load(data_file(f"{name}.npz")) as file:
        known = file["y"] >= 0
        return file["X"][known], file["y"][known]


def area(X, y, method):
    """Mean area over two folds of half of the samples each, at settings near the defaults."""
    p = X.shape[1]
    settings = {"alpha": 1e-3 * p, "n_knots": {"fixed": None, "matrix": 16}.get(method, 64)}
    if method != "matrix":
        settings["smoothness"] = 1e-4 * p
    areas = []
    for train, test in StratifiedKFold(2, shuffle=True, random_state=0).split(X, y):
        model = SuquanClassifier(method, random_state=0, **settings).fit(X[train], y[train])
        areas.append(roc_auc_score(y[test], model.decision_function(X[test])))
    return np.mean(areas)


@pytest.mark.parametrize("name", STORED)
def test_held_out_areas_are_the_stored_ones(name):
    X, y = load(name)
    for method, stored in zip(METHODS, STORED[name], strict=True):
        assert area(X, y, method) == pytest.approx(stored, abs=0.03), method
