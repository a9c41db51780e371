"""Linear models that learn the target quantiles together with their coefficients."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from numbers import Integral, Real
from typing import Any, NamedTuple, cast

import numpy as np
from scipy.special import expit, softmax
from sklearn.base import (
    BaseEstimator,
    ClassifierMixin,
    OneToOneFeatureMixin,
    RegressorMixin,
    TransformerMixin,
)
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import accuracy_score, r2_score
from sklearn.model_selection import (
    GroupKFold,
    KFold,
    StratifiedGroupKFold,
    StratifiedKFold,
    check_cv,
)
from sklearn.utils import check_random_state, compute_sample_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from suquan._compat import check_sample_weight, validate_data
from suquan._dask._common import as_numpy, is_dask_array
from suquan.losses import Logistic, Loss, Softmax, Squared
from suquan.objective import JointProblem
from suquan.prox import project_nondecreasing
from suquan.ranking import MISSING, TIES, SampleOperator, check_choice
from suquan.solvers.alternation import (
    JointFit,
    Splits,
    fit_crossfit,
    fit_fixed,
    fit_in_sample,
    intercept_only,
)
from suquan.solvers.spectral import spectral_target
from suquan.solvers.target import TargetSet
from suquan.targets import LEARNED, learn_target, make_target_quantiles, read_at_grid

METHODS = ("fixed", "svd", "f0", "bnd", "spav", "joint", "crossfit")
# Rounds where max_rounds is None: one as in the paper, more where J falls on.
DEFAULT_ROUNDS = {"f0": 1, "bnd": 1, "spav": 1, "joint": 5, "crossfit": 1}
SMOOTH_METHODS = ("spav", "joint", "crossfit")
_MONOTONE = ("bnd", "spav", "joint", "crossfit")

# Default penalties in units of the number of features; see docs/design/default_strengths.md.
ALPHA_PER_FEATURE = 3e-4
SMOOTHNESS_PER_FEATURE = 1e-4
# Default alpha of models with an l1 penalty, whose useful range does not grow with the features.
ALPHA_L1 = 1e-2
# NaN is left to the missing rule; infinities are refused.
# Integers (counts, pixels) are ranked as they are: a copy in float64 would be the largest array of a fit.
_INTEGERS = [np.dtype(code).type for code in np.typecodes["AllInteger"]]
CHECKS: dict[str, Any] = {
    "dtype": [np.float64, np.float32, *_INTEGERS],
    "ensure_all_finite": "allow-nan",
}
# Relative gap of the two largest singular values below which their vectors are not stable.
_UNSTABLE_GAP = 0.01


class EncodedData(NamedTuple):
    """Validated training data."""

    X: np.ndarray
    labels: np.ndarray  # as given
    y: np.ndarray  # as the loss wants them
    weights: np.ndarray
    loss: Loss
    classes: np.ndarray | None
    smoothness_unit: float = 1.0  # what useful strengths of smoothness grow with


def warn_nothing_to_rank() -> None:
    """Warn that no training sample has an order, on behalf of the caller of a `fit`."""
    warnings.warn(
        "no sample has two different values, so there is nothing to rank: the model is its "
        "intercept alone.",
        UserWarning,
        stacklevel=3,
    )


class _SuquanBase(OneToOneFeatureMixin, TransformerMixin, BaseEstimator, ABC):
    """What the classifier and the regressor share: everything but the labels."""

    def __init__(
        self,
        method: str = "crossfit",
        *,
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
        tol: float = 1e-4,
        max_iter: int = 500,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.method = method
        self.alpha = alpha
        self.smoothness = smoothness
        self.l1_ratio = l1_ratio
        self.init = init
        self.max_rounds = max_rounds
        self.n_knots = n_knots
        self.cv = cv
        self.n_repeats = n_repeats
        self.ties = ties
        self.missing = missing
        self.fit_intercept = fit_intercept
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state
        self.verbose = verbose

    # -- fitting ------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> Any:
        """Learn the target and the model.

        Parameters
        ----------
        X : array-like or dask array of shape (n_samples, n_features)
            A Dask array stays where it is, and ``n_passes_`` counts the passes over its blocks.
        y : array-like or dask array of shape (n_samples,)
            Class labels or, in regression, values.
        sample_weight : array-like of shape (n_samples,), default=None
            Weight 2 counts as a repeated row, weight 0 as none.
        groups : array-like of shape (n_samples,), default=None
            Samples of one group stay together in the folds of "crossfit".

        Returns
        -------
        self
        """
        if is_dask_array(X):
            from suquan._dask.fitting import fit_on_blocks

            return fit_on_blocks(self, X, y, sample_weight, groups)
        if hasattr(self, "n_passes_"):
            del self.n_passes_
        data = self._encode(X, y, sample_weight)
        self._check_task(data)
        if data.classes is not None:
            self.classes_ = data.classes
        splits = None
        if self.method == "crossfit":
            splits = self._splits(data.loss, data.y, groups, data.weights)
        X, y, weights = data.X, data.y, data.weights
        used = weights > 0  # weight 0 is as if absent
        if not np.all(used):
            X, y, weights = X[used], y[used], weights[used]
        operator = self._operator(X)
        problem = self._problem(operator, data.loss, y, weights, data.smoothness_unit)
        g = self._start(X, weights, problem.n_knots)
        del X, y, weights, data  # a copy that validation made is not needed any more
        if operator.is_constant:
            warn_nothing_to_rank()
            fit = intercept_only(problem, g)
        else:
            fit = self._solve(problem, g, splits)
        self._warn_about(fit)
        self._store(problem, fit)
        return self

    @abstractmethod
    def _encode(self, X: Any, y: Any, sample_weight: Any) -> EncodedData:
        """Validated samples, and labels as the loss wants them."""

    def _check_task(self, data: EncodedData) -> None:
        """Raise a ValueError where the parameters do not fit the data."""
        self._check_parameters(data.X.shape[1])
        n_classes = 0 if data.classes is None else len(data.classes)
        if self.method == "svd" and n_classes == 0:
            raise ValueError(
                "method='svd' is for classification with two classes. Choose another method, such "
                "as 'crossfit'."
            )
        if self.method == "svd" and n_classes > 2:
            raise ValueError(
                "Only binary classification is supported. The type of the target is multiclass: "
                f"method='svd' is for two classes; got {n_classes}. Choose another method, such as "
                "'crossfit'."
            )

    def _problem(
        self,
        operator: SampleOperator,
        loss: Loss,
        y: np.ndarray,
        sample_weight: np.ndarray,
        smoothness_unit: float,
    ) -> JointProblem:
        p = operator.n_features
        if self.alpha is not None:
            alpha = float(self.alpha)
        else:
            alpha = ALPHA_L1 if self.l1_ratio > 0 else ALPHA_PER_FEATURE * p
        if self.method not in SMOOTH_METHODS:
            smoothness = 0.0
        elif self.smoothness is not None:
            smoothness = float(self.smoothness)
        else:
            smoothness = SMOOTHNESS_PER_FEATURE * p * smoothness_unit
        return JointProblem(
            operator=operator,
            loss=loss,
            y=y,
            s=sample_weight / sample_weight.sum(),
            alpha=alpha,
            l1_ratio=float(self.l1_ratio),
            smoothness=smoothness,
            n_knots=p if self.n_knots is None else int(self.n_knots),
            fit_intercept=bool(self.fit_intercept),
        )

    def _start(self, X: np.ndarray, sample_weight: np.ndarray, n_knots: int) -> np.ndarray:
        """Starting target on the knots: monotone where the set asks for it, of sum 0, mean square 1."""
        if isinstance(self.init, str) and self.init in LEARNED:
            f = learn_target(X, self.init, sample_weight=sample_weight, missing=self.missing)
        else:
            with warnings.catch_warnings():
                if self._is_monotone:  # one warning is enough: the one below
                    warnings.filterwarnings("ignore", message="the target quantiles are not")
                f = _start_quantiles(self.init, X.shape[1])
        return standardize_start(f, n_knots, monotone=self._is_monotone)

    @property
    def _is_monotone(self) -> bool:
        """Whether the method's targets are non-decreasing."""
        return self.method in _MONOTONE

    def _solve(self, problem: JointProblem, g: np.ndarray, splits: Splits | None) -> JointFit:
        if self.method == "fixed":
            return fit_fixed(problem, g, max_iter=self.max_iter)
        if self.method == "svd":
            return self._solve_svd(problem)
        rounds = self.max_rounds
        settings: dict[str, Any] = {
            "max_rounds": DEFAULT_ROUNDS[self.method] if rounds is None else int(rounds),
            "tol": self.tol,
            "max_iter": self.max_iter,
            "report": self._report,
        }
        if splits is not None:
            return fit_crossfit(problem, g, splits, **settings)
        target_set = "joint" if self.method == "crossfit" else self.method
        return fit_in_sample(problem, g, cast(TargetSet, target_set), **settings)

    def _solve_svd(self, problem: JointProblem) -> JointFit:
        target = spectral_target(problem)
        self.singular_values_ = target.singular_values
        first, second = (*target.singular_values, 0.0)[:2]
        if not first - second >= _UNSTABLE_GAP * first or first == 0:
            warnings.warn(
                f"the two largest singular values are {first:.6g} and {second:.6g}: so close that the "
                "target found by method='svd' is not stable. Use more samples or another method.",
                UserWarning,
                stacklevel=4,
            )
        return fit_fixed(problem, target.g, max_iter=self.max_iter)

    def _splits(
        self, loss: Loss, y: np.ndarray, groups: Any, sample_weight: np.ndarray
    ) -> Splits | None:
        """Folds of "crossfit" over the samples of positive weight; None where there cannot be two.

        Training samples are given by a mask, test samples by their numbers.
        """
        groups = None if groups is None else np.asarray(groups)
        used = np.flatnonzero(sample_weight)
        is_classifier = not isinstance(loss, Squared)
        if isinstance(self.cv, Integral):
            # Drawn among the used samples, so that the others are as if absent.
            groups = None if groups is None else groups[used]
            return self._random_splits(y[used], groups, is_classifier)
        given = list(check_cv(self.cv, y, classifier=is_classifier).split(y, y, groups))
        place = np.full(len(y), -1)
        place[used] = np.arange(len(used))
        splits = []
        for train, test in given:
            if len(np.intersect1d(train, test)):
                raise ValueError("cv: a split holds out samples that it also trains on.")
            kept, test = np.zeros(len(y), dtype=bool), place[test]
            kept[train] = True
            splits.append((kept[used], test[test >= 0]))
        if not splits or not any(len(test) for _, test in splits):
            raise ValueError(
                "cv gave no splits; give an integer, a splitter or a list of (train, test) indices."
            )
        return splits

    def _random_splits(
        self, y: np.ndarray, groups: np.ndarray | None, is_classifier: bool
    ) -> Splits | None:
        """`n_repeats` random partitions in at most `cv` folds."""
        n_folds = min(int(self.cv), len(y) if groups is None else len(np.unique(groups)))
        if is_classifier:
            n_folds = min(n_folds, int(np.unique(y, return_counts=True)[1].min()))
        if n_folds < 2:
            what = (
                "the smallest class has"
                if groups is None
                else "the smallest class or the groups have"
            )
            warnings.warn(
                f"cannot cross-fit: {what} too few members for 2 folds. The target is learned in-sample "
                "instead; give more samples, or choose method='joint'.",
                UserWarning,
                stacklevel=4,
            )
            return None
        kinds = {
            (True, False): StratifiedKFold,
            (True, True): StratifiedGroupKFold,
            (False, False): KFold,
            (False, True): GroupKFold,
        }
        kind = kinds[is_classifier, groups is not None]
        rng = check_random_state(self.random_state)
        seeds = rng.randint(np.iinfo(np.int32).max, size=self.n_repeats)
        small = np.min_scalar_type(len(y))  # fifteen lists of samples are long
        splits: Splits = []
        for seed in seeds.tolist():
            splitter = kind(n_folds, shuffle=True, random_state=seed)
            for train, test in splitter.split(y, y, groups):
                kept = np.zeros(len(y), dtype=bool)
                kept[train] = True
                splits.append((kept, test.astype(small)))
        return splits

    def _report(self, line: str) -> None:
        if self.verbose:
            print(f"[{type(self).__name__}] {line}")

    def _warn_about(self, fit: JointFit) -> None:
        if fit.collapsed:
            warnings.warn(
                "the best target at these penalties is zero; the last one that was not is kept. "
                "Lower alpha or smoothness.",
                UserWarning,
                stacklevel=3,
            )
        if fit.runaway is not None:
            warnings.warn(
                f"the f-step led to a target of root mean square {fit.runaway:.1e}, at which the w-step "
                "fails; that round was not taken. Raise smoothness.",
                ConvergenceWarning,
                stacklevel=3,
            )
        if fit.unfinished:
            warnings.warn(
                f"no convergence: {fit.unfinished[0]} after at most max_iter = {self.max_iter} "
                "iterations. Raise max_iter or tol.",
                ConvergenceWarning,
                stacklevel=3,
            )

    def _store(self, problem: JointProblem, fit: JointFit) -> None:
        self.target_knots_ = fit.g
        self.target_quantiles_ = problem.expand(fit.g)
        self.coef_ = fit.w
        self.intercept_ = fit.b
        self.alpha_ = problem.alpha
        self.smoothness_ = problem.smoothness
        self.objective_ = fit.objective
        self.objective_history_ = np.array(fit.history)
        self.n_rounds_ = fit.n_rounds
        self.n_iter_ = fit.n_iter

    # -- using a fitted model -----------------------------------------------------------------------

    def _scores(self, X: Any) -> np.ndarray:
        """Scores w_k·T_i f + b_k, of shape (n_samples, n_outputs)."""
        operator = self._operator(self._validate(X))
        return operator.scores(self.coef_, self.target_quantiles_) + self.intercept_

    def transform(self, X: Any) -> np.ndarray:
        """Normalise samples with the learned target.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_features)
            NaN stays NaN. A Dask array gives a Dask array, as for predictions.
        """
        if is_dask_array(X):
            return self._lazily("transform", X, X.shape[1], _float_dtype(X.dtype))
        X = self._validate(X)
        dtype = _float_dtype(X.dtype)
        return self._operator(X).apply(self.target_quantiles_, dtype=dtype, gap=np.nan)

    def _lazily(self, method: str, X: Any, n_columns: int | None, dtype: Any) -> Any:
        """Dask array of what `method` gives for the blocks of a Dask array."""
        from suquan._dask.fitting import lazily

        return lazily(self, method, X, n_columns, dtype)

    def _validate(self, X: Any) -> np.ndarray:
        check_is_fitted(self)
        return validate_data(self, X, reset=False, **CHECKS)

    def _operator(self, X: np.ndarray) -> SampleOperator:
        return SampleOperator.from_samples(
            X,
            ties=self.ties,
            missing=self.missing,
            feature_names=getattr(self, "feature_names_in_", None),
        )

    # -- checks -------------------------------------------------------------------------------------

    def _check_parameters(self, n_features: int) -> None:
        """One clear error for each parameter out of its range."""
        check_choice("method", self.method, METHODS)
        check_choice("ties", self.ties, TIES)
        check_choice("missing", self.missing, MISSING)
        if n_features < 2:
            raise ValueError(
                "quantile normalisation needs at least two features to rank; got n_features = 1."
            )
        _check_real("alpha", self.alpha, 0.0, np.inf, "(0, ∞)", optional=True, strict=True)
        _check_real("smoothness", self.smoothness, 0.0, np.inf, "[0, ∞)", optional=True)
        _check_real("l1_ratio", self.l1_ratio, 0.0, 1.0, "[0, 1]")
        _check_real("tol", self.tol, 0.0, np.inf, "(0, ∞)", strict=True)
        _check_integer("max_iter", self.max_iter, 1)
        _check_integer("n_repeats", self.n_repeats, 1)
        if self.max_rounds is not None:
            _check_integer("max_rounds", self.max_rounds, 1)
        if isinstance(self.cv, Integral):
            _check_integer("cv", self.cv, 2)
        if self.n_knots is not None:
            _check_integer("n_knots", self.n_knots, 2, n_features)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self.missing == "ignore"
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


class SuquanClassifier(ClassifierMixin, _SuquanBase):
    """Logistic regression on quantile-normalised samples whose target is learned with it.

    Minimises over (w, b, f), in turns,

        J = (1/Σs_i) Σ_i s_i ℓ(y_i, w·Φ_f(x_i) + b) + alpha·Ω(w) + smoothness·Σ_j (f[j+1] − f[j])²

    where Φ_f(x) = f[rank(x)], ℓ is the logistic loss (softmax with one w per class and one shared f for
    more than two classes), and Ω(w) = (1 − l1_ratio)·‖w‖² + l1_ratio·‖w‖₁. The returned (w, b) are optimal
    for the returned f. Strictly increasing transformations of a sample change nothing.

    Parameters
    ----------
    method : {"fixed", "svd", "f0", "bnd", "spav", "joint", "crossfit"}, default="crossfit"
        How f is learned:

        - "fixed": not at all; a linear model on samples normalised to `init`.
        - "svd": first right singular vector of the difference of the classes' mean permutation
          matrices (two classes only; not monotone).
        - "f0", "bnd", "spav": the paper's alternation, over all f of mean square ≤ 1, over the
          non-decreasing ones among them, or over all non-decreasing ones with a smoothness penalty.
        - "joint": as "bnd", with a smoothness penalty and more rounds.
        - "crossfit": as "joint", but f is learned with models that have not seen the sample they score.
          In-sample, f gets hardly any signal where there are more features than samples.
    alpha : float, default=None
        Strength of the penalty on w; None: 3·10⁻⁴ times the number of features (10⁻² with an l1 penalty).
    smoothness : float, default=None
        Weight of the squared differences of neighbouring quantiles, for "spav", "joint" and "crossfit";
        None: 10⁻⁴ times the number of features (in regression also times the variance of y).
    l1_ratio : float, default=0.0
        Share of the l1 norm in Ω.
    init : str, distribution, callable or array-like, default="uniform"
        Starting (or fixed) target: "median" or "mean" of the sorted training samples, or anything
        :func:`make_target_quantiles` takes. It is centred and scaled to mean square 1.
    max_rounds : int, default=None
        Largest number of rounds of f-step and w-step; None: 5 for "joint", 1 for the others.
    n_knots : int, default=None
        Learn f as a piecewise linear function with this many node values; None: one value per feature.
    cv : int, splitter or iterable of splits, default=5
        Folds of "crossfit": stratified for classes, always shuffled; fewer where a class has fewer members.
    n_repeats : int, default=3
        Random partitions of "crossfit" for an integer `cv`; their rows are stacked in one f-step.
    ties : {"average", "first", "mean_rank"}, default="average"
        What equal values of a sample read from f; see :class:`QuantileNormalizer`.
    missing : {"error", "ignore"}, default="error"
        "ignore": the m observed values of a sample read f at (k + ½)/m, and a missing one counts as
        the target's mean, 0.
    fit_intercept : bool, default=True
        Whether b is fitted; otherwise it is 0.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes, as in scikit-learn.
    tol : float, default=1e-4
        Relative optimality gap at which an f-step stops, and relative decrease of J below which
        rounds stop. The w-step is always solved to 10⁻¹⁰.
    max_iter : int, default=500
        Largest number of iterations of one step.
    random_state : int, RandomState instance or None, default=None
        Draws the partitions of "crossfit".
    verbose : int, default=0
        1: print a line per round.

    Attributes
    ----------
    target_quantiles_ : ndarray of shape (n_features,)
        The target f.
    target_knots_ : ndarray of shape (n_knots,)
        Its node values. ``make_target_quantiles(model.target_knots_, m)`` is the same target for
        samples with m features, and :func:`quantile_normalize` takes it.
    coef_ : ndarray of shape (1 or n_classes, n_features)
        Coefficients w.
    intercept_ : ndarray of shape (1 or n_classes,)
        Intercept b.
    classes_ : ndarray of shape (n_classes,)
    alpha_, smoothness_ : float
        The penalties used.
    objective_ : float
        J(w, b, f) at the values returned.
    objective_history_ : ndarray
        J after every half-step; for "crossfit" the out-of-fold loss at the start and after each round.
    n_rounds_ : int
        Rounds that led to the target.
    n_iter_ : int
        Inner iterations of all steps.
    n_passes_ : int
        Only after a fit on a Dask array: passes over its ranked blocks.
    singular_values_ : ndarray of shape (2,)
        Only for "svd": the two largest ones.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features,)
        Only where the training samples have feature names.

    References
    ----------
    .. [1] M. Le Morvan and J.-P. Vert, "Supervised Quantile Normalisation", 2017.

    Examples
    --------
    >>> import numpy as np
    >>> from suquan import SuquanClassifier
    >>> rng = np.random.default_rng(0)
    >>> X, w = rng.standard_normal((200, 50)), rng.standard_normal(50)
    >>> y = X @ w > 0
    >>> model = SuquanClassifier(alpha=0.01, random_state=0).fit(np.exp(X), y)
    >>> bool(model.score(np.exp(X), y) > 0.9)
    True
    """

    def __init__(
        self,
        method: str = "crossfit",
        *,
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
        class_weight: Any = None,
        tol: float = 1e-4,
        max_iter: int = 500,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        super().__init__(
            method,
            alpha=alpha,
            smoothness=smoothness,
            l1_ratio=l1_ratio,
            init=init,
            max_rounds=max_rounds,
            n_knots=n_knots,
            cv=cv,
            n_repeats=n_repeats,
            ties=ties,
            missing=missing,
            fit_intercept=fit_intercept,
            tol=tol,
            max_iter=max_iter,
            random_state=random_state,
            verbose=verbose,
        )
        self.class_weight = class_weight

    def _encode(self, X: Any, y: Any, sample_weight: Any) -> EncodedData:
        X, y = validate_data(self, X, y, **CHECKS)
        check_classification_targets(y)
        weights = all_weights(sample_weight, X) * compute_sample_weight(self.class_weight, y)
        classes = np.unique(y[weights > 0])
        n_classes = len(classes)
        if n_classes < 2:
            raise ValueError(
                f"SuquanClassifier needs samples of at least two classes; got {n_classes} class: "
                f"{classes.tolist()}."
            )
        # Labels of weight 0 that no other sample has are given any class: they are not used.
        codes = np.searchsorted(classes, y).clip(max=n_classes - 1)
        if n_classes == 2:
            return EncodedData(X, y, np.where(codes == 1, 1.0, -1.0), weights, Logistic(), classes)
        return EncodedData(X, y, codes, weights, Softmax(n_classes), classes)

    def decision_function(self, X: Any) -> np.ndarray:
        """Scores of samples.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,), or (n_samples, n_classes) for more than two classes
            With two classes, > 0 means ``classes_[1]``.
        """
        if is_dask_array(X):
            check_is_fitted(self)
            n_outputs = len(self.intercept_)
            return self._lazily(
                "decision_function", X, None if n_outputs == 1 else n_outputs, np.float64
            )
        u = self._scores(X)
        return u[:, 0] if u.shape[1] == 1 else u

    def predict(self, X: Any) -> np.ndarray:
        """Class of each sample.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        if is_dask_array(X):
            check_is_fitted(self)
            return self._lazily("predict", X, None, self.classes_.dtype)
        u = self._scores(X)
        chosen = (u[:, 0] > 0).astype(np.intp) if u.shape[1] == 1 else np.argmax(u, axis=1)
        return self.classes_[chosen]

    def predict_proba(self, X: Any) -> np.ndarray:
        """Probability of each class under the logistic or softmax model.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
        """
        if is_dask_array(X):
            check_is_fitted(self)
            return self._lazily("predict_proba", X, len(self.classes_), np.float64)
        u = self._scores(X)
        if u.shape[1] == 1:
            return np.column_stack([expit(-u[:, 0]), expit(u[:, 0])])
        return softmax(u, axis=1)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Share of the samples whose class is predicted.

        Parameters
        ----------
        X : array-like or dask array of shape (n_samples, n_features)
        y : array-like or dask array of shape (n_samples,)
        sample_weight : array-like of shape (n_samples,), default=None

        Returns
        -------
        float
        """
        if is_dask_array(X):
            y, sample_weight = as_numpy(y), as_numpy(sample_weight)
            return accuracy_score(y, as_numpy(self.predict(X)), sample_weight=sample_weight)
        return super().score(X, y, sample_weight)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        # scikit-learn's check of accuracy has two features: ranks leave one bit of each sample.
        tags.classifier_tags.poor_score = True
        tags.classifier_tags.multi_class = self.method != "svd"
        return tags


class SuquanRegressor(RegressorMixin, _SuquanBase):
    """Linear regression on quantile-normalised samples whose target is learned with it.

    Minimises over (w, b, f), in turns,

        J = (1/Σs_i) Σ_i s_i (y_i − w·Φ_f(x_i) − b)² + alpha·Ω(w) + smoothness·Σ_j (f[j+1] − f[j])²

    where Φ_f(x) = f[rank(x)] and Ω(w) = (1 − l1_ratio)·‖w‖² + l1_ratio·‖w‖₁. The returned (w, b) are optimal
    for the returned f. Strictly increasing transformations of a sample change nothing.

    Parameters
    ----------
    method : {"fixed", "f0", "bnd", "spav", "joint", "crossfit"}, default="crossfit"
        How f is learned; see :class:`SuquanClassifier`.
    alpha, smoothness, l1_ratio, init, max_rounds, n_knots, cv, n_repeats, ties, missing
        As in :class:`SuquanClassifier`.
    fit_intercept, tol, max_iter, random_state, verbose
        As in :class:`SuquanClassifier`.

    Attributes
    ----------
    target_quantiles_, target_knots_, coef_, intercept_, alpha_, smoothness_
        As in :class:`SuquanClassifier`.
    objective_, objective_history_, n_rounds_, n_iter_, n_features_in_, feature_names_in_
        As in :class:`SuquanClassifier`.

    Examples
    --------
    >>> import numpy as np
    >>> from suquan import SuquanRegressor
    >>> rng = np.random.default_rng(0)
    >>> X, w = rng.standard_normal((200, 50)), rng.standard_normal(50)
    >>> y = X @ w
    >>> model = SuquanRegressor(alpha=0.01, random_state=0).fit(np.exp(X), y)
    >>> bool(model.score(np.exp(X), y) > 0.9)
    True
    """

    def _encode(self, X: Any, y: Any, sample_weight: Any) -> EncodedData:
        X, y = validate_data(self, X, y, y_numeric=True, **CHECKS)
        y = y.astype(np.float64)
        weights = all_weights(sample_weight, X)
        mean = np.average(y, weights=weights)
        variance = float(np.average((y - mean) ** 2, weights=weights))
        return EncodedData(X, y, y, weights, Squared(), None, variance)

    def predict(self, X: Any) -> np.ndarray:
        """Predicted value of each sample.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        if is_dask_array(X):
            return self._lazily("predict", X, None, np.float64)
        return self._scores(X)[:, 0]

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """R² of the predicted values.

        Parameters
        ----------
        X : array-like or dask array of shape (n_samples, n_features)
        y : array-like or dask array of shape (n_samples,)
        sample_weight : array-like of shape (n_samples,), default=None

        Returns
        -------
        float
        """
        if is_dask_array(X):
            y, sample_weight = as_numpy(y), as_numpy(sample_weight)
            return r2_score(y, as_numpy(self.predict(X)), sample_weight=sample_weight)
        return super().score(X, y, sample_weight)


def _float_dtype(dtype: np.dtype) -> np.dtype:
    """Type of the normalised samples of a Dask array, as scikit-learn's validation chooses it."""
    return np.dtype(np.float32 if dtype == np.float32 else np.float64)


def standardize_start(f: np.ndarray, n_knots: int, *, monotone: bool) -> np.ndarray:
    """Target mapped to the knots, made non-decreasing where asked, of sum 0 and mean square 1."""
    g = read_at_grid(f / max(float(np.max(np.abs(f))), np.finfo(float).tiny), n_knots)
    if monotone and np.any(np.diff(g) < 0):
        g = project_nondecreasing(g)
        warnings.warn(
            "init is not non-decreasing; it was replaced by the nearest target that is.",
            UserWarning,
            stacklevel=4,
        )
    g = g - g.mean()
    rms = float(np.sqrt(np.mean(g**2)))
    if not rms > 1e-12:
        raise ValueError(
            "init is constant, so that it tells no two features apart; give a target that varies, "
            "such as init='uniform'."
        )
    return g / rms


def _start_quantiles(init: Any, n_features: int) -> np.ndarray:
    try:
        return make_target_quantiles(init, n_features)
    except ValueError as error:
        raise ValueError(
            f"init: {error} 'median' and 'mean' of the training samples will do too."
        ) from error


def all_weights(sample_weight: Any, X: np.ndarray) -> np.ndarray:
    """Validated weights, ones for None."""
    weights = check_sample_weight(sample_weight, X)
    if weights is None:
        return np.ones(X.shape[0])
    if not weights.sum() > 0:
        raise ValueError(
            "sample_weight is 0 for every sample; give at least one a positive weight."
        )
    return weights


def _check_real(name, value, low, high, interval, *, optional=False, strict=False) -> None:
    if value is None and optional:
        return
    is_number = isinstance(value, Real) and not isinstance(value, bool)
    if not is_number or not (low < value if strict else low <= value) or not value <= high:
        kind = f"None or a number in {interval}" if optional else f"a number in {interval}"
        raise ValueError(f"{name} must be {kind}; got {value!r}.")
    if np.isinf(value):
        raise ValueError(f"{name} must be finite; got {value!r}.")


def _check_integer(name, value, low, high=None) -> None:
    is_integer = isinstance(value, Integral) and not isinstance(value, bool)
    if not is_integer or value < low or (high is not None and value > high):
        limits = f"at least {low}" if high is None else f"between {low} and {high}"
        raise ValueError(f"{name} must be an integer, {limits}; got {value!r}.")
