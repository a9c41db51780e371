"""Cox's model of times to event, with a target that is learned with it."""

from __future__ import annotations

from typing import Any

import numpy as np

from suquan._blocks import is_dask_array
from suquan._validation import check_choice, check_sample_weight
from suquan.cox_loss import TIME_TIES, Cox
from suquan.model.estimator import SuquanModel, keep_parameters
from suquan.model_selection import SelectionMixin
from suquan.survival import as_outcome, baseline_hazard, concordance, cumulative_hazard


class SuquanCox(SuquanModel):
    """Cox's proportional hazards on quantile-normalised samples whose target is learned with it.

    Minimises over (w, f), in turns,

        J = −(log partial likelihood of the scores w·Φ_f(x_i)) / Σs_i + alpha·Ω(w) + smoothness·Σ_j (f[j+1] −
        f[j])²

    where Φ_f(x) = f[rank(x)] and Ω(w) = (1 − l1_ratio)·‖w‖² + l1_ratio·‖w‖₁. The hazard of a sample is
    exp(score) times the baseline of its stratum, so that there is no intercept. scikit-survival's `alpha` is
    2·n·alpha. Strictly increasing transformations of a sample, or of all times, change nothing.

    Parameters
    ----------
    method : {"fixed", "f0", "bnd", "spav", "joint", "crossfit", "matrix", "multi"} or object,
    default="crossfit"
        How f is learned; see :class:`SuquanClassifier`. "svd" needs two classes, and is refused. "crossfit"
        compares held-out samples with those of the same fold and stratum.
    alpha, smoothness, l1_ratio, init, max_rounds, departure, n_knots, cv, n_repeats, ties, missing, \
    feature_scaling
        As in :class:`SuquanClassifier`; the default smoothness is also in units of the share of the events,
        and folds have their share of the events of each stratum.
    time_ties : {"efron", "breslow"}, default="efron"
        How equal times of events are settled, as in R's `coxph`.
    tol, max_iter, n_targets, random_state, verbose
        As in :class:`SuquanClassifier`.

    Attributes
    ----------
    target_quantiles_, target_knots_, coef_, feature_means_, feature_variances_, alpha_, smoothness_
        As in :class:`SuquanClassifier`, with one output.
    intercept_ : ndarray of shape (1,)
        Zero.
    baseline_strata_, baseline_times_, baseline_hazards_ : ndarray of shape (n_steps,)
        Breslow's cumulative baseline hazard of a sample with score 0, at the times of the events of each
        stratum.
    objective_, objective_history_, n_rounds_, n_iter_, training_ranks_, n_features_in_, feature_names_in_
        As in :class:`SuquanClassifier`; in J weights count in units of the smallest positive one.

    Examples
    --------
    >>> import numpy as np
    >>> from suquan import SuquanCox
    >>> rng = np.random.default_rng(0)
    >>> X, w = rng.standard_normal((200, 50)), rng.standard_normal(50)
    >>> time, end = rng.exponential(np.exp(-X @ w)), rng.exponential(size=200)
    >>> y = np.column_stack([np.minimum(time, end), time <= end])  # time, event
    >>> model = SuquanCox(alpha=0.01, random_state=0).fit(np.exp(X), y)
    >>> bool(model.score(np.exp(X), y) > 0.8)
    True
    >>> model.predict_survival_function(np.exp(X[:3]), times=[0.5, 1.0]).shape
    (3, 2)
    """

    def __init__(
        self,
        method: Any = "crossfit",
        *,
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
        feature_scaling: str = "none",
        time_ties: str = "efron",
        tol: float = 1e-4,
        max_iter: int = 500,
        n_targets: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        keep_parameters(self, locals())

    @property
    def loss(self) -> Cox:
        """Loss of the rounds."""
        check_choice("time_ties", self.time_ties, TIME_TIES)
        return Cox(self.time_ties)

    def fit(
        self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None, strata: Any = None
    ) -> Any:
        """Learn the target and the model.

        Parameters
        ----------
        X, groups
            As in :meth:`SuquanClassifier.fit`, but for Dask arrays.
        y : structured array (event, time), or array-like of shape (n_samples, 2) with the columns time, event
            See :func:`suquan.survival.as_outcome`. Event is True or 1 where it happened, False or 0 where the
            follow-up ended without it.
        sample_weight : array-like of shape (n_samples,), default=None
            With Breslow's rule weight 2 counts as a repeated row; weight 0 counts as none.
        strata : array-like of shape (n_samples,), default=None
            Every stratum has its own baseline; samples are compared within it. Target and coefficients are
            shared.

        Returns
        -------
        self
        """
        _refuse_dask(X, self)
        outcome = as_outcome(y, strata)
        super().fit(X, outcome, sample_weight, groups)
        weights = check_sample_weight(sample_weight, outcome)
        self._fit_baseline(X, outcome, np.ones(len(outcome)) if weights is None else weights)
        return self

    def _fit_baseline(self, X: Any, outcome: np.ndarray, weights: np.ndarray) -> None:
        """Set Breslow's baseline hazards, which the scores of the training samples give."""
        baseline = baseline_hazard(outcome, self._scores(X, "keep")[:, 0], weights)
        self.baseline_strata_, self.baseline_times_, self.baseline_hazards_ = (
            np.ascontiguousarray(baseline[name]) for name in ("stratum", "time", "hazard")
        )

    def predict(self, X: Any) -> np.ndarray:
        """Risk score of each sample, of shape (n_samples,): the logarithm of its hazard ratio.

        The higher it is, the earlier the event. NaN, with a warning, for a sample with one value throughout.
        """
        _refuse_dask(X, self)
        return self._scores(X)[:, 0]

    def score(self, X: Any, y: Any, sample_weight: Any = None, strata: Any = None) -> float:
        """Harrell's concordance of the risk scores, within strata; equal scores count one half.

        y, weights and strata are those of :meth:`fit`; see :func:`suquan.survival.concordance`.
        """
        return concordance(y, self.predict(X), strata, sample_weight)

    def predict_cumulative_hazard_function(
        self, X: Any, times: Any, strata: Any = None
    ) -> np.ndarray:
        """Cumulative hazard: exp(risk score) × Breslow's baseline of the sample's stratum.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        times : array-like of shape (n_times,)
            After the last event of a stratum the hazard stays what it was there.
        strata : array-like of shape (n_samples,), default=None
            Needed where the model was fitted with strata; one that it has not seen is an error.

        Returns
        -------
        ndarray of shape (n_samples, n_times)
        """
        u = self.predict(X)
        steps = self.baseline_strata_, self.baseline_times_, self.baseline_hazards_
        return cumulative_hazard(*steps, u, times, strata)

    def predict_survival_function(self, X: Any, times: Any, strata: Any = None) -> np.ndarray:
        """Probability to be free of the event at some times: exp(−cumulative hazard), of the same shape.

        The parameters are those of :meth:`predict_cumulative_hazard_function`.
        """
        return np.exp(-self.predict_cumulative_hazard_function(X, times, strata))


def _refuse_dask(X: Any, estimator: Any) -> None:
    if is_dask_array(X):
        raise TypeError(
            f"{type(estimator).__name__} works in memory and takes no Dask array: risk sets need all samples. "
            "Give X.compute()."
        )


class SuquanCoxCV(SelectionMixin, SuquanCox):
    """:class:`SuquanCox` with method and penalties chosen by cross-validation.

    Parameters
    ----------
    method : method or list of methods, default="crossfit"
        Methods to choose from; all but "svd".
    alphas, smoothnesses, crossfit_cv, selection, departures, min_gain, max_rounds, n_targets
        As in :class:`SuquanClassifierCV`; automatic smoothnesses are also in units of the share of the
        events.
    cv : int, splitter or iterable of splits, default=None
        As in :class:`SuquanClassifierCV`; folds have their share of the events of each stratum.
    scoring : str or callable, default=None
        None: "concordance", Harrell's; or a function of model, X, y (a structured array) and, for weights,
        `sample_weight`.
    l1_ratio, init, n_knots, n_repeats, ties, missing, feature_scaling, time_ties, tol, max_iter
        As in :class:`SuquanCox`.
    n_jobs, random_state, verbose
        As in :class:`SuquanClassifierCV`.

    Attributes
    ----------
    method_, alpha_, smoothness_, departure_, best_score_, best_index_, cv_results_, best_estimator_
        As in :class:`SuquanClassifierCV`.

    Examples
    --------
    >>> import numpy as np
    >>> from suquan import SuquanCoxCV
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((90, 30))
    >>> y = np.column_stack([rng.exponential(np.exp(-X[:, 0])), np.arange(90) % 3 > 0])
    >>> model = SuquanCoxCV(alphas=3, smoothnesses=2, cv=3, random_state=0).fit(X, y)
    >>> model.alpha_ in model.cv_results_["param_alpha"]
    True
    """

    _base = SuquanCox

    def __init__(
        self,
        method: Any = "crossfit",
        *,
        alphas: Any = 7,
        smoothnesses: Any = 5,
        cv: Any = None,
        crossfit_cv: Any = 5,
        scoring: Any = None,
        selection: str = "smoothed",
        departures: Any = None,
        min_gain: float = 0.5,
        l1_ratio: float = 0.0,
        init: Any = "uniform",
        max_rounds: Any = None,
        n_targets: Any = None,
        n_knots: int | str | None = "auto",
        n_repeats: int = 3,
        ties: str = "average",
        missing: str = "error",
        feature_scaling: str = "none",
        time_ties: str = "efron",
        tol: float = 1e-4,
        max_iter: int = 500,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        keep_parameters(self, locals())

    def fit(
        self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None, strata: Any = None
    ) -> Any:
        """Choose the method and its penalties, and fit with them.

        The parameters are those of :meth:`SuquanCox.fit`; splitters get the groups too.
        """
        return SelectionMixin.fit(self, X, as_outcome(y, strata), sample_weight, groups)
