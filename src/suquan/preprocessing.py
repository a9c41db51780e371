"""Quantile normalisation of samples: a function, and scikit-learn transformers that learn their target."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.utils.multiclass import type_of_target

from suquan._blocks import as_numpy, is_dask_array
from suquan._dask.collections import check_row_blocks
from suquan._validation import (
    as_samples,
    check_choice,
    check_sample_weight,
    mask_like,
)
from suquan.linear_model import SuquanClassifier, SuquanRegressor
from suquan.losses import LOSSES, make_loss
from suquan.model.estimator import TargetTransformer, keep_parameters
from suquan.model.settings import forget
from suquan.ranking import MISSING, TIES, SampleOperator, normalize
from suquan.targets import LEARNED, learn_target, resolve_target

__all__ = ["QuantileNormalizer", "SupervisedQuantileNormalizer", "quantile_normalize"]

_TALL = 20  # times as many rows as columns, from which on rows look like genes


def quantile_normalize(
    X: Any,
    target_quantiles: Any = "median",
    *,
    ties: str = "average",
    missing: str = "error",
    n_jobs: int | None = None,
    axis: int | None = None,
) -> Any:
    """Give every sample, a row of `X`, the same distribution of values.

    The value at place r of a sorted sample becomes the r-th target quantile: Φ_f(x) = f[rank(x)].

    Parameters
    ----------
    X : array-like, DataFrame or dask array of shape (n_samples, n_features)
        Samples in rows. Infinities are ordered as usual; −0.0 and +0.0 tie. Masked entries of a masked array do
        not count. Flatten an image first: its rows would be taken for samples.
    target_quantiles : str, distribution, callable or array-like, default="median"
        "median" or "mean" of the sorted samples, or anything :func:`make_target_quantiles` takes; an array
        must have one value per feature. "approximate_median": for dask arrays, in one pass with small
        messages; at every place the share of the samples below it is ½ up to 0.005. In memory it is exact.
    ties : {"average", "first", "mean_rank"}, default="average"
        What equal values of a sample get: the mean of the target over their places (as qnorm does), one
        quantile each by position (the paper), or the target at their mean place (as limma and
        preprocessCore do).
    missing : {"error", "ignore"}, default="error"
        "ignore": NaN stays NaN, and the m observed values of a sample read the target at (k + ½)/m.
    n_jobs : int, default=None
        Threads. The result does not depend on it.
    axis : {0, 1}, default=None
        Axis along which the values of a sample lie. 1: samples are rows. 0: samples are columns, as genes ×
        samples in qnorm, limma and preprocessCore, and so in the result. None: 1, with a warning for a pandas
        data frame with text row names and more than 20 times as many rows as columns.

    Returns
    -------
    ndarray, DataFrame or dask array of the shape of `X`
        float32 for float32 input, else float64; a DataFrame with the same index and columns for pandas
        and polars input, a masked array with the same mask for a masked one. Of a dask array a lazy one
        in the same blocks of rows; a learned target is computed at once.

    Examples
    --------
    >>> from suquan import quantile_normalize
    >>> quantile_normalize([[4.5, 1.2, 10.1, 8.9]], [0, 1, 3, 4])
    array([[1., 0., 4., 3.]])
    >>> quantile_normalize([[5, 4, 3], [2, 8, 2]], "mean")
    array([[6.5 , 3.  , 2.5 ],
           [2.75, 6.5 , 2.75]])
    """
    check_choice("ties", ties, TIES)
    check_choice("missing", missing, MISSING)
    if axis not in (None, 0, 1):
        raise ValueError(
            f"axis must be 1 (samples are rows) or 0 (samples are columns); got {axis!r}."
        )
    if is_dask_array(X):
        from suquan._dask import preprocessing as on_dask

        if axis == 0:
            return quantile_normalize(X.T, target_quantiles, ties=ties, missing=missing).T
        X = check_row_blocks(X, min_samples=0)
        f = _find_on_blocks(X, target_quantiles, missing=missing)
        return on_dask.normalize(X, f, ties=ties, missing=missing)
    values = as_samples(X, missing)
    if axis == 0:
        values = as_samples(values.T, missing)
    n_rows, n_columns = values.shape
    has_text = getattr(getattr(X, "index", None), "inferred_type", "") == "string"
    if axis is None and has_text and n_rows > _TALL * n_columns:
        warnings.warn(
            f"X has {n_rows:,} rows ({X.index[0]!r}, …) and {n_columns:,} columns, and rows are taken for "
            "samples. If the columns are the samples, give axis=0; if rows are, axis=1.",
            UserWarning,
            stacklevel=2,
        )
    operator = SampleOperator.from_samples(values, ties=ties, missing=missing, n_jobs=n_jobs)
    f = _find_target(values, operator, target_quantiles)
    out = normalize(operator, f, values.dtype)
    out = mask_like(out.T if axis == 0 else out, X)
    return named_like(out, X, getattr(X, "index", None))


def _find_target(
    X: np.ndarray, operator: Any, target: Any, sample_weight: Any = None
) -> np.ndarray:
    """Target of shape (n_features,), given or learned from ranked samples; zeros where there is no sample."""
    if not isinstance(target, str) or target not in LEARNED:
        return resolve_target(target, X.shape[1])
    if len(X) == 0:
        return np.zeros(X.shape[1])
    return learn_target(X, target, operator=operator, sample_weight=sample_weight)


def _find_on_blocks(X: Any, target: Any, **rules: Any) -> np.ndarray:
    """Find the same for the blocks of a Dask array."""
    from suquan._dask import preprocessing as on_dask

    if X.shape[0] == 0 or not isinstance(target, str) or target not in LEARNED:
        return _find_target(X, None, target)
    return on_dask.learn(on_dask.as_ranked_type(X), target, **rules)


def named_like(out: np.ndarray, X: Any, index: Any) -> Any:
    """Make a data frame of `out` if `X` is one: with its columns and, in pandas, the row names `index`."""
    library = type(X).__module__.partition(".")[0]
    if library == "pandas" and hasattr(X, "columns"):
        return type(X)(out, index=index, columns=X.columns)
    if library == "polars" and hasattr(X, "columns"):
        return type(X)(out, schema=list(X.columns))
    return out


class QuantileNormalizer(TargetTransformer):
    """Give every sample the same distribution of values, learned or given.

    The value at place r of a sorted sample becomes the r-th target quantile: Φ_f(x) = f[rank(x)]. Samples are
    normalised one by one: a row gives bit for bit the same result alone and inside a batch.

    Parameters
    ----------
    target_quantiles : str, distribution, callable or array-like, default="median"
        As in :func:`quantile_normalize`; a learned one is that of the training samples, in the data's units,
        weighted by `sample_weight`.
    ties, missing, n_jobs
        As in :func:`quantile_normalize`. With missing="ignore" a learned target uses each sample's
        interpolated quantiles.

    Attributes
    ----------
    target_quantiles_ : ndarray of shape (n_features,)
        The target f.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features,)
        Only where the training samples have feature names.

    See Also
    --------
    quantile_normalize : The same as a function.

    Examples
    --------
    >>> import numpy as np
    >>> from suquan import QuantileNormalizer
    >>> X = np.random.default_rng(0).exponential(size=(5, 100))
    >>> normalizer = QuantileNormalizer("normal").fit(X)
    >>> sorted_rows = np.sort(normalizer.transform(X), axis=1)
    >>> np.array_equal(sorted_rows[0], sorted_rows[4])
    True
    """

    _needs_labels = False

    def __init__(
        self,
        target_quantiles: Any = "median",
        *,
        ties: str = "average",
        missing: str = "error",
        n_jobs: int | None = None,
    ) -> None:
        keep_parameters(self, locals())

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> QuantileNormalizer:
        """Learn or look up the target.

        Parameters
        ----------
        X : array-like or dask array of shape (n_samples, n_features)
            Of a dask array the values are looked at only where the target is learned from them.
        y : None
            Ignored.
        sample_weight : array-like or dask array of shape (n_samples,), default=None
            Weights of the samples in a learned mean or median.

        Returns
        -------
        self
        """
        self._rank_and_fit(X, sample_weight)
        return self

    def fit_transform(self, X: Any, y: Any = None, sample_weight: Any = None) -> np.ndarray:
        """Fit, and normalise the training samples, ranking them once.

        The parameters are those of :meth:`fit`. Of a dask array a lazy one, which ranks its samples when it is
        computed.
        """
        operator, dtype = self._rank_and_fit(X, sample_weight)
        if operator is None:
            return self.transform(X)
        return mask_like(normalize(operator, self.target_quantiles_, dtype), X)

    def _rank_and_fit(self, X: Any, sample_weight: Any) -> tuple[SampleOperator | None, Any]:
        """Set the target; ranks of samples in memory go out, and the type of the values."""
        check_choice("ties", self.ties, TIES)
        check_choice("missing", self.missing, MISSING)
        target, operator = self.target_quantiles, None
        if is_dask_array(X):
            X = check_row_blocks(X)
            rules = {"missing": self.missing, "infinite": "error", "sample_weight": sample_weight}
            self.target_quantiles_ = _find_on_blocks(X, target, **rules)
            self.n_features_in_ = X.shape[1]
            self.__dict__.pop("feature_names_in_", None)
        else:
            X = self._validate(X, reset=True)
            weights, operator = check_sample_weight(sample_weight, X), self._rank(X)
            self.target_quantiles_ = _find_target(X, operator, target, weights)
        return operator, X.dtype


class SupervisedQuantileNormalizer(TargetTransformer):
    """Quantile normalisation to a target learned from labels, to put before any other model.

    Learns f with :class:`SuquanClassifier` or :class:`SuquanRegressor`, scales it to mean square 1, and
    normalises samples to it. The linear model that f was learned with is thrown away.

    Parameters
    ----------
    method : {"svd", "f0", "bnd", "spav", "joint", "crossfit", "fixed", "matrix", "multi"} or object, \
default="crossfit"
        How f is learned; see :class:`SuquanClassifier`.
    loss : {"auto", "logistic", "softmax", "squared", "huber", "poisson"} or Loss, default="auto"
        As in :class:`SuquanClassifier` for class labels, as in :class:`SuquanRegressor` for values; "auto"
        chooses by the type of y.
    alpha, smoothness, l1_ratio, init, max_rounds, departure, n_knots, cv, n_repeats, ties, missing
        As in :class:`SuquanClassifier`.
    fit_intercept, feature_scaling, tol, max_iter, n_targets, random_state, verbose
        As in :class:`SuquanClassifier`.
    huber_delta : float, default=1.35
        As in :class:`SuquanRegressor`.

    Attributes
    ----------
    target_quantiles_ : ndarray of shape (n_features,) or (n_targets, n_features)
        The target f, of mean square 1; for "multi" and "matrix" all of them.
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
        departure: float = 1.0,
        n_knots: int | str | None = "auto",
        cv: Any = 5,
        n_repeats: int = 3,
        ties: str = "average",
        missing: str = "error",
        fit_intercept: bool = True,
        feature_scaling: str = "none",
        huber_delta: float = 1.35,
        tol: float = 1e-4,
        max_iter: int = 500,
        n_targets: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        keep_parameters(self, locals())

    def fit(
        self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None
    ) -> SupervisedQuantileNormalizer:
        """Learn the target; the parameters are those of :meth:`SuquanClassifier.fit`."""
        forget(self)
        y, parameters = as_numpy(y), self.get_params(deep=False)
        loss = parameters["loss"]
        if isinstance(loss, str):
            check_choice("loss", loss, ("auto", *LOSSES))
        if loss == "auto" and type_of_target(y, input_name="y").startswith("continuous"):
            parameters["loss"] = loss = "squared"
        model: Any = SuquanRegressor
        if make_loss(loss).is_classification:
            model = SuquanClassifier
            del parameters["huber_delta"]
        self.estimator_ = model(**parameters).fit(X, y, sample_weight=sample_weight, groups=groups)
        f = self.estimator_._targets
        f = f / np.sqrt(np.mean(f**2, axis=1, keepdims=True))
        self.target_quantiles_ = f if self.estimator_.target_knots_.ndim == 2 else f[0]
        for name in ("n_iter_", "n_features_in_", "feature_names_in_"):
            if hasattr(self.estimator_, name):
                setattr(self, name, getattr(self.estimator_, name))
        return self
