"""A transformer that learns its target from labels, to put before any other model."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.multiclass import type_of_target

from suquan._dask._common import as_numpy
from suquan.fitting import forget
from suquan.linear_model import (
    SuquanClassifier,
    SuquanRegressor,
    TargetTransformer,
    keep_parameters,
)
from suquan.losses import CLASSIFICATION_LOSSES, REGRESSION_LOSSES, make_loss
from suquan.ranking import check_choice


class SupervisedQuantileNormalizer(TargetTransformer):
    """Quantile normalisation to a target learned from labels, to put before any other model.

    Learns f with :class:`SuquanClassifier` or :class:`SuquanRegressor`, scales it to mean square 1, and
    normalises samples to it. The linear model that f was learned with is thrown away.

    Parameters
    ----------
    method : {"svd", "f0", "bnd", "spav", "joint", "crossfit", "fixed"} or object, default="crossfit"
        How f is learned; see :class:`SuquanClassifier`.
    loss : {"auto", "logistic", "softmax", "squared", "huber", "poisson"} or Loss, default="auto"
        As in :class:`SuquanClassifier` for class labels, as in :class:`SuquanRegressor` for values; "auto"
        chooses by the type of y.
    alpha, smoothness, l1_ratio, init, max_rounds, n_knots, cv, n_repeats, ties, missing
        As in :class:`SuquanClassifier`.
    fit_intercept, tol, max_iter, random_state, verbose
        As in :class:`SuquanClassifier`.
    huber_delta : float, default=1.35
        As in :class:`SuquanRegressor`.

    Attributes
    ----------
    target_quantiles_ : ndarray of shape (n_features,)
        The target f, of mean square 1.
    estimator_ : SuquanClassifier or SuquanRegressor
        The model that f was learned with.
    n_iter_ : int
        Inner iterations of its fit.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features,)
        Only where the training samples have feature names.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.neighbors import KNeighborsClassifier
    >>> from sklearn.pipeline import make_pipeline
    >>> from suquan import SupervisedQuantileNormalizer
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((100, 20))
    >>> y = X[:, 0] > 0
    >>> model = make_pipeline(SupervisedQuantileNormalizer(random_state=0), KNeighborsClassifier())
    >>> model.fit(np.exp(X), y).predict(np.exp(X)).shape
    (100,)
    """

    def __init__(
        self,
        method: Any = "crossfit",
        *,
        loss: Any = "auto",
        alpha: float | None = None,
        smoothness: float | None = None,
        l1_ratio: float = 0.0,
        init: Any = "uniform",
        max_rounds: int | None = None,
        n_knots: int | None = None,
        cv: Any = 5,
        n_repeats: int = 3,
        ties: str = "average",
        missing: str = "error",
        fit_intercept: bool = True,
        huber_delta: float = 1.35,
        tol: float = 1e-4,
        max_iter: int = 500,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        keep_parameters(self, locals())

    def fit(
        self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None
    ) -> SupervisedQuantileNormalizer:
        """Learn the target.

        Parameters
        ----------
        X : array-like or dask array of shape (n_samples, n_features)
        y : array-like or dask array of shape (n_samples,)
            Class labels or values.
        sample_weight : array-like of shape (n_samples,), default=None
            Weight 2 counts as a repeated row, weight 0 as none.
        groups : array-like of shape (n_samples,), default=None
            Samples of one group stay together in the folds of "crossfit".

        Returns
        -------
        self
        """
        forget(self)
        y, parameters = as_numpy(y), self.get_params(deep=False)
        loss = parameters["loss"]
        if isinstance(loss, str):
            check_choice("loss", loss, (*CLASSIFICATION_LOSSES, *REGRESSION_LOSSES))
        if loss == "auto" and type_of_target(y, input_name="y").startswith("continuous"):
            parameters["loss"] = loss = "squared"
        model: Any = SuquanRegressor
        if make_loss(loss).is_classification:
            model = SuquanClassifier
            del parameters["huber_delta"]
        self.estimator_ = model(**parameters).fit(X, y, sample_weight=sample_weight, groups=groups)
        f = self.estimator_.target_quantiles_
        self.target_quantiles_ = f / np.sqrt(np.mean(f**2))
        for name in ("n_iter_", "n_features_in_", "feature_names_in_"):
            if hasattr(self.estimator_, name):
                setattr(self, name, getattr(self.estimator_, name))
        return self
