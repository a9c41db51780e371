"""Estimators that choose their method and the strengths of its penalties by cross-validation.

Samples and labels come in, an estimator fitted with the chosen setting goes out. Samples are ranked once for
all folds (:mod:`suquan.selection.folds`), f always starts from `init`, and folds run side by side with one
BLAS thread each, so that the numbers are the same for any `n_jobs`.
"""

import warnings
from dataclasses import replace
from numbers import Integral
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from sklearn.utils import check_random_state

from suquan._blocks import is_dask_array
from suquan._validation import check_choice, check_real
from suquan.calibration import apply_calibration, centre_scores, check_calibration
from suquan.linear_model import SuquanClassifier, SuquanRegressor
from suquan.methods import Method, resolve_method
from suquan.model.estimator import keep_parameters
from suquan.model.prepare import decision_values
from suquan.model.settings import Settings, check_method, encode, forget
from suquan.selection.folds import RankedData, calibrate, make_splits, usable_calibration
from suquan.selection.grids import GRID, SELECTIONS, make_cv_results, make_grid, select
from suquan.selection.scoring import OutputScorer, default_scoring


class SelectionMixin:
    """Cross-validation over the grid, then one fit to all samples with the chosen setting."""

    _base: type

    def fit(self: Any, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> Any:
        """Choose the method and its penalties, and fit with them.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        sample_weight : array-like of shape (n_samples,), default=None
            Weights in the fits, in the calibration, and in the scores of a scorer that takes `sample_weight`.
            Samples of weight 0 belong to no fold.
        groups : array-like of shape (n_samples,), default=None
            Samples of one group stay together in the folds that None and an integer `cv` stand for, and in
            those of "crossfit"; splitters get them.

        Returns
        -------
        self
        """
        if is_dask_array(X):
            raise TypeError(
                f"{type(self).__name__} chooses among fits in memory and takes no Dask array. Choose on a "
                "sample of the rows, such as X[::100].compute(), and fit with what it chose."
            )
        forget(self)
        given = self._given_methods()
        self._check_choosing()
        seed = self.random_state  # one for all folds: the given one, or one that is drawn once
        if not isinstance(seed, Integral):
            seed = check_random_state(seed).randint(np.iinfo(np.int32).max)
        own = self.get_params(deep=False)
        shared = {name: own[name] for name in self._base._get_param_names() if name in own}
        shared |= {
            "cv": self.crossfit_cv,
            "random_state": int(seed),
            "verbose": 0,
            "max_rounds": None,
            "n_targets": None,
        }
        shared["method"] = next(iter(given.values()))
        settings = Settings.of(self._base(**shared))
        samples = encode(self, settings, X, y, sample_weight)
        rows = [resolve_method(method) for method in given.values()]
        self._check_fit(settings, rows, samples)
        data = RankedData.of(settings, samples, groups)
        everyone = np.arange(len(data.y))
        grid = {name: own[name] for name in GRID}
        candidates = make_grid(data, settings, rows, everyone, grid)
        splits = make_splits(self.cv, data, everyone, int(seed), "cv")
        calibration = usable_calibration(own.get("calibration"), splits, data, "cv")
        scorer = OutputScorer.of(self, self.scoring or default_scoring(data), data)
        folds = Parallel(n_jobs=self.n_jobs, verbose=self.verbose)(
            delayed(data.score)(settings, candidates, train, test, scorer) for train, test in splits
        )
        found = select(candidates, folds, splits, self.selection, self.min_gain)
        self.best_index_, chosen = found.best, candidates[found.best]
        self.best_score_ = float(found.scores[found.best].mean())
        self.cv_results_ = make_cv_results(candidates, found.scores)
        if data.classes is not None:
            self.cv_results_["mean_test_log_loss"] = found.losses
            self.out_of_fold_scores_, self.out_of_fold_samples_, self.calibration_ = calibrate(
                calibration, data, settings, splits, found.outputs
            )
        shared |= {
            "method": given[chosen.method.name],
            "alpha": chosen.alpha,
            "smoothness": chosen.smoothness,
            "max_rounds": chosen.max_rounds or None,
            "n_targets": chosen.n_targets,
            "departure": chosen.departure,
        }
        model = self._base(**shared)
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(self, name):
                setattr(model, name, getattr(self, name))
        data.fit_estimator(model)
        if data.loss.couples_samples:
            model._fit_baseline(X, data.labels, data.weights)
        self.best_estimator_, self.method_ = model, chosen.method.name
        vars(self).update({name: v for name, v in vars(model).items() if name.endswith("_")})
        # The strengths asked for: a method without smoothness was chosen at 0.
        self.alpha_, self.smoothness_ = chosen.alpha, chosen.smoothness
        self.departure_ = chosen.departure
        if getattr(self, "calibration_", None) is not None and len(self.classes_) == 2:
            self._shift_scores()
        return self

    def _check_choosing(self: Any) -> None:
        """Raise a ValueError for a parameter of the choice that is out of its range."""
        check_choice("selection", self.selection, SELECTIONS)
        check_real("min_gain", self.min_gain, "[0, ∞)")
        if not isinstance(self.crossfit_cv, Integral) and not hasattr(self.crossfit_cv, "split"):
            raise ValueError(
                "crossfit_cv splits every training set, so that it must be an integer or a splitter; "
                f"got {self.crossfit_cv!r}."
            )

    def _check_fit(self: Any, settings: Settings, methods: list[Method], samples: Any) -> None:
        """Raise a ValueError where a method, a number of targets or the calibration does not fit."""
        for method in methods:
            check_method(settings.with_method(method), samples)
        numbers = self.n_targets if isinstance(self.n_targets, (list, tuple)) else [self.n_targets]
        if not numbers:
            raise ValueError("n_targets must be None, an integer or a list of integers; got none.")
        several = next((method for method in methods if method.norm == "trace"), methods[0])
        for number in numbers:
            check_method(replace(settings, method=several, n_targets=number), samples)
        if samples.classes is not None:
            check_calibration(self.calibration, len(samples.classes))

    def _given_methods(self: Any) -> dict[str, Any]:
        """Return the methods to choose from, as the user gave them, by name."""
        given = list(self.method) if isinstance(self.method, (list, tuple)) else [self.method]
        methods = {resolve_method(method).name: method for method in given}
        if len(methods) != len(given) or not given:
            raise ValueError(f"method names each method once; got {given}.")
        return methods


class SuquanClassifierCV(SelectionMixin, SuquanClassifier):
    """:class:`SuquanClassifier` with method and penalties chosen by cross-validation.

    Parameters
    ----------
    method : method or list of methods, default="crossfit"
        Methods to choose from, by name or as objects; see :class:`SuquanClassifier`.
    alphas : int or array-like, default=7
        Strengths of the penalty on w: given ones, or the number of values spread evenly over the logarithm of
        10⁻⁶ p … 10⁻¹ p, with p the number of features; of 10⁻⁵ p … p for "matrix", and
        of 3·10⁻⁴ √p … 10⁻¹ √p for "multi".
    smoothnesses : int or array-like, default=5
        Weights of the squared differences of f: given ones, or the number of values, 0 and the others spread
        over 10⁻⁵ p … 10⁻² p.
    cv : int, splitter or iterable of splits, default=None
        None: 3 stratified folds, 5 times; an integer: that many, once. Both are shuffled by `random_state`.
    crossfit_cv : int or splitter, default=5
        Folds inside "crossfit".
    scoring : str or callable, default=None
        Any scikit-learn scorer; None: "roc_auc", "roc_auc_ovr" for more than two classes. It sees scores
        and probabilities before calibration.
    selection : {"smoothed", "best"}, default="smoothed"
        "best": the setting with the best mean score; where scores tie, with the smallest out-of-fold log loss.
        "smoothed": each score is first averaged with those of the next smaller and larger smoothness.
    departures : array-like of float, default=None
        Mixing weights to try between the initial target (0) and the learned one (1). A target learned from few
        samples often loses to the initial one. None: 0, ½ and 1 for "crossfit", 1 for the other methods.
    min_gain : float, default=0.5
        Price of a departure: a larger one is chosen only where its mean score, at its own best setting, exceeds
        that of the smaller one by more than `min_gain` standard errors of their paired difference, each
        s·√(1/J + n_test/n_train) over J folds.
    calibration : {"sigmoid", "isotonic"} or None, default="sigmoid"
        How :meth:`predict_proba` and :meth:`predict` make probabilities of scores: by a curve that is fitted to
        the out-of-fold scores of the chosen setting (:func:`suquan.calibration.fit_calibration`). Weights are
        those of the fit; a sample tested R times counts 1/R each time. From each score the score of a constant
        model of the fold's training samples is subtracted, and that of all samples added. "isotonic" is for two
        classes; more have one temperature. The scores of two classes are shifted, so that 0 is where the
        probability passes ½. None: probabilities from the loss function, without calibration. "sigmoid" becomes
        None with a warning where a fold tests fewer than two samples of a class.
    l1_ratio, init, n_knots, n_repeats, ties, missing, fit_intercept, class_weight, loss, tol, max_iter
        As in :class:`SuquanClassifier`; "balanced" counts the classes of each fold's training samples.
    feature_scaling : {"none", "std"}, default="none"
        As in :class:`SuquanClassifier`; the deviations are those of each fold's training samples.
    max_rounds : int or list of int, default=None
        A list is chosen from.
    n_targets : int or list of int, default=None
        Largest number of targets of "multi"; a list is chosen from.
    n_jobs : int, default=None
        Folds side by side. The result does not depend on it.
    random_state : int, RandomState instance or None, default=None
        Draws the folds.
    verbose : int, default=0
        joblib's.

    Attributes
    ----------
    method_, alpha_, smoothness_, departure_
        What was chosen; the method by its name. `departure_` is 0 where the start was kept.
    best_score_ : float
        Its mean score over the folds.
    best_index_ : int
        Its place in `cv_results_`.
    cv_results_ : dict of arrays
        Settings (`"param_…"`, `"params"`), scores ("split0_test_score", …, "mean_test_score",
        "std_test_score", "rank_test_score") and out-of-fold loss of the scores as they are
        ("mean_test_log_loss"), which decides where scores tie.
    out_of_fold_scores_ : ndarray of shape (n_rows,), or (n_rows, n_classes) for more than two classes
        Scores that the chosen setting gave to test samples, fold after fold, shifted as those of the model.
    out_of_fold_samples_ : ndarray of shape (n_rows,), int
        Which training samples these are; repeated folds have a sample several times.
    calibration_ : dict or None
        Calibration fitted to them; see :func:`suquan.calibration.fit_calibration`.
    best_estimator_ : SuquanClassifier
        The model fitted to all samples; its attributes are also this estimator's, but for the shift of
        `intercept_`. It is not calibrated.

    Examples
    --------
    >>> from suquan import SuquanClassifierCV
    >>> from suquan.datasets import make_corrupted_classification
    >>> X, y = make_corrupted_classification(60, 30, random_state=0)
    >>> model = SuquanClassifierCV(alphas=3, smoothnesses=2, cv=3, random_state=0).fit(X, y)
    >>> len(model.cv_results_["mean_test_score"])  # 3 of the start, 6 half-way, 6 of the learned target
    15
    """

    _base = SuquanClassifier

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
        calibration: str | None = "sigmoid",
        l1_ratio: float = 0.0,
        init: Any = "uniform",
        max_rounds: Any = None,
        n_targets: Any = None,
        n_knots: int | str | None = "auto",
        n_repeats: int = 3,
        ties: str = "average",
        missing: str = "error",
        fit_intercept: bool = True,
        feature_scaling: str = "none",
        class_weight: Any = None,
        loss: Any = "auto",
        tol: float = 1e-4,
        max_iter: int = 500,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        keep_parameters(self, locals())

    def _probabilities_at(self, u: np.ndarray) -> np.ndarray:
        calibration = getattr(self, "calibration_", None)  # files of older versions have none
        if calibration is None:
            return super()._probabilities_at(u)
        return apply_calibration(calibration, decision_values(u, self.classes_))

    def _shift_scores(self) -> None:
        """Shift the scores of two classes so that 0 is where the probability of the second passes ½."""
        found = centre_scores(self.calibration_)
        if found is None:
            only = self.classes_[np.argmax(apply_calibration(self.calibration_, np.zeros(1)))]
            warnings.warn(
                f"the calibrated probability never passes 0.5, so that predict gives {only!s} for all samples: "
                "the cross-validated scores do not separate the classes.",
                stacklevel=3,
            )
            return
        shift, self.calibration_ = found
        self.out_of_fold_scores_ -= shift
        self.intercept_ = self.intercept_.copy()  # that of best_estimator_ stays
        self.intercept_[-1] -= shift

    def _classes_at(self, u: np.ndarray) -> np.ndarray:
        if getattr(self, "calibration_", None) is None:
            return super()._classes_at(u)
        return self.classes_[np.argmax(self._probabilities_at(u), axis=1)]


class SuquanRegressorCV(SelectionMixin, SuquanRegressor):
    """:class:`SuquanRegressor` with method and penalties chosen by cross-validation.

    Parameters
    ----------
    method : method or list of methods, default="crossfit"
        Methods to choose from; all but "svd".
    alphas, smoothnesses, crossfit_cv, selection, departures, min_gain, max_rounds, n_targets
        As in :class:`SuquanClassifierCV`; automatic smoothnesses are also in units of the variance of y.
    n_jobs, random_state, verbose
        As in :class:`SuquanClassifierCV`.
    cv : int, splitter or iterable of splits, default=None
        None: 3 folds, 5 times; an integer: that many, once. Both are shuffled by `random_state`.
    scoring : str or callable, default=None
        Any scikit-learn scorer; None: R².
    l1_ratio, init, n_knots, n_repeats, ties, missing, fit_intercept, loss, huber_delta, tol, max_iter
        As in :class:`SuquanRegressor`.
    feature_scaling : {"none", "std"}, default="none"
        As in :class:`SuquanClassifierCV`.

    Attributes
    ----------
    method_, alpha_, smoothness_, departure_, best_score_, best_index_, cv_results_, best_estimator_
        As in :class:`SuquanClassifierCV`.

    Examples
    --------
    >>> import numpy as np
    >>> from suquan import SuquanRegressorCV
    >>> X = np.random.default_rng(0).standard_normal((60, 30))
    >>> model = SuquanRegressorCV(alphas=3, smoothnesses=2, cv=3, random_state=0).fit(X, X[:, 0])
    >>> model.alpha_ in model.cv_results_["param_alpha"]
    True
    """

    _base = SuquanRegressor

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
        fit_intercept: bool = True,
        feature_scaling: str = "none",
        loss: Any = "squared",
        huber_delta: float = 1.35,
        tol: float = 1e-4,
        max_iter: int = 500,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        keep_parameters(self, locals())
