"""Linear models that learn the target quantiles together with their coefficients.

`fit` hands the samples to :mod:`suquan.model.prepare`, which sets the fitted attributes; what is here are the
estimators as scikit-learn wants them, and their predictions.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import (
    ClassifierMixin,
    RegressorMixin,
)

from suquan import methods
from suquan.model.estimator import SuquanModel, keep_parameters, lazy_on_dask
from suquan.model.prepare import decision_values, predicted_classes

__all__ = ["SuquanClassifier", "SuquanRegressor"]

METHODS = tuple(methods.METHODS)


class SuquanClassifier(ClassifierMixin, SuquanModel):
    """Logistic regression on quantile-normalised samples whose target is learned with it.

    Minimises over (w, b, f), in turns,

        J = (1/Σs_i) Σ_i s_i ℓ(y_i, w·Φ_f(x_i) + b) + alpha·Ω(w) + smoothness·Σ_j (f[j+1] − f[j])²

    where Φ_f(x) = f[rank(x)], ℓ is the logistic loss (softmax with one w per class and one shared f for
    more than two classes, or another `loss`), and Ω(w) = (1 − l1_ratio)·‖w‖² + l1_ratio·‖w‖₁. The returned
    (w, b) are optimal for the returned f. Strictly increasing transformations of a sample change nothing.

    Parameters
    ----------
    method : {"fixed", "svd", "f0", "bnd", "spav", "joint", "crossfit", "matrix", "multi"} or object, \
default="crossfit"
        How f is learned; a :class:`suquan.methods.Method`, or a set of targets that follows
        :class:`suquan.target_sets.TargetSet`, will do too:

        - "fixed": not at all; a linear model on samples normalised to `init`.
        - "svd": first right singular vector of the difference of the classes' mean permutation
          matrices (two classes only; not monotone).
        - "f0", "bnd", "spav": the paper's alternation, over all f of mean square ≤ 1, over the
          non-decreasing ones among them, or over all non-decreasing ones with a smoothness penalty.
        - "joint": as "bnd", with a smoothness penalty and more rounds.
        - "crossfit": as "joint", but f is learned with models that have not seen the sample they score.
          In-sample, f gets hardly any signal where there are more features than samples.
        - "multi": at most `n_targets` targets f_l with coefficients w_l each, for many samples per feature. The
          penalty is alpha·‖A‖_*, the trace norm of A = Σ_l w_l g_lᵀ with g_l the targets' knots, whose
          norm is their mean square; see :mod:`suquan.model.several`.
        - "matrix": the same with alpha·‖A‖_F², which is convex: one curve per feature, and the kernel
          machine of :func:`suquan.kernels.permutation_kernel`. The safer one with fewer samples.
    alpha : float, default=None
        Strength of the penalty on w; None: 3·10⁻⁴ times the number of features (10⁻² with an l1 penalty), for
        "matrix" 3·10⁻³ times it, for "multi" 10⁻² times its root.
    smoothness : float, default=None
        Weight of the squared differences of neighbouring quantiles, for "spav", "joint" and "crossfit";
        None: 10⁻⁴ times the number of features (in regression also times the variance of y, or the mean loss of
        the best constant). For "multi" and "matrix" smoothness·K²·Σ_k (g[k+1] − g[k])² is added to the squared
        norm Σ_k g[k]² of K knots; None: 0.
    l1_ratio : float, default=0.0
        Share of the l1 norm in Ω.
    init : str, distribution, callable or array-like, default="uniform"
        Starting (or fixed) target: "median" or "mean" of the sorted training samples, or anything
        :func:`make_target_quantiles` takes. It is centred and scaled to mean square 1.
    max_rounds : int, default=None
        Largest number of rounds of f-step and w-step; None: 5 for "joint", 300 for "multi", 1 for the others.
    departure : float, default=1.0
        Part of the way from the start to the learned target that is gone, in [0, 1]: 0 keeps the start, as
        "fixed" does. With few samples half of the way is often better; :class:`SuquanClassifierCV` chooses.
        "multi" and "matrix" have no start, and always go the whole way.
    n_knots : int, "auto" or None, default="auto"
        Learn f as a piecewise linear function with this many node values, at most one per feature. "auto":
        64, or 16 for "multi" and "matrix"; the target of "fixed" is read at full length. None: one value
        per feature, the paper's form.
    cv : int, splitter or iterable of splits, default=5
        Folds of "crossfit": stratified for classes, always shuffled; fewer if a class has fewer members. If the
        training samples of a fold lack a class, nothing is learned, with a warning.
    n_repeats : int, default=3
        Random partitions of "crossfit" for an integer `cv`; their rows are stacked in one f-step.
    ties : {"average", "first", "mean_rank"}, default="average"
        What equal values of a sample read from f; see :class:`QuantileNormalizer`.
    missing : {"error", "ignore"}, default="error"
        "ignore": the m observed values of a sample read f at (k + ½)/m. A missing one counts as the target's
        mean, 0, in the fit, and as the feature's training mean (`feature_means_`) in predictions.
    fit_intercept : bool, default=True
        Whether b is fitted; otherwise it is 0.
    feature_scaling : {"none", "std"}, default="none"
        "std": Ω is that of the σ_j w_j, where σ_j is the weighted standard deviation of feature j over the
        training samples after normalisation to the start, `init` (of the values that are not missing; 1 where
        it is 0). With an intercept that is as if the normalised features were standardised before the fit.
        The model stays a function of one sample: `coef_` is in the units of :meth:`transform`.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes, as in scikit-learn; "balanced" counts the classes of the training samples.
    loss : {"auto", "logistic", "softmax"} or Loss, default="auto"
        "auto": "logistic" for two classes, "softmax" for more. An object that follows
        :class:`suquan.losses.Loss` will do too.
    tol : float, default=1e-4
        Relative optimality gap at which an f-step stops, and relative decrease of J below which
        rounds stop. The w-step is always solved to 10⁻¹⁰. For "multi" and "matrix" the duality gap, over J, at
        which they stop; a limit on the targets also stops "multi" where J falls by less than a tenth of it.
    max_iter : int, default=500
        Largest number of iterations of one step.
    n_targets : int, default=None
        Largest number of targets of "multi", below the number of knots; None: as many as bring the duality gap
        below `tol`, so that the fit is a global optimum.
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
    coef_ : ndarray of shape (n_outputs, n_features)
        Coefficients w; one output for two classes, n_classes for more.
    intercept_ : ndarray of shape (n_outputs,)
        Intercept b.
    feature_means_, feature_variances_ : ndarray of shape (n_features,)
        Weighted mean and variance of every normalised feature over the training samples that have it; 0 where
        none has. For "multi" and "matrix" those of its part of each score, of shape (n_outputs, n_features).
    classes_ : ndarray of shape (n_classes,)
    alpha_, smoothness_ : float
        The penalties used.
    objective_ : float
        J(w, b, f) at the values returned.
    objective_history_ : ndarray
        J after every half-step; for "crossfit" the out-of-fold loss at the start and after each round, up to
        the last target whose loss decided something: with one round at the start alone.
    n_rounds_ : int
        Rounds that led to the target.
    n_iter_ : int
        Inner iterations of all steps.
    n_passes_ : int
        Only after a fit on a Dask array: passes over its ranked blocks.
    singular_values_ : ndarray of shape (2,)
        Only for "svd": the two largest ones. For "multi" and "matrix" those of A, one per target.
    n_targets_ : int
        Only for "multi" and "matrix": targets whose singular value is above 10⁻⁶ of the largest.
        `target_quantiles_` then has shape (`n_targets_`, n_features), largest singular value first, each target
        of mean square 1; "matrix" shows those that carry 99.9% of its squared norm. `target_knots_` has shape
        (`n_targets_`, n_knots), `coef_` (n_outputs, `n_targets_` · n_features), for the columns of
        :meth:`transform`.
    duality_gap_ : float
        Only for "multi" and "matrix": J is at most this far above the minimum of the convex problem, which for
        "multi" has no limit on the targets.
    training_ranks_ : dict
        What :func:`check_samples` compares new samples with: "profile", the mean rank of every feature in the
        training samples, from −1 to 1; "correlations", the smallest, the 5% quantile and the largest of a
        training sample's ranks with the mean of the others; "ties", the largest share of ties.
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
        fit_intercept: bool = True,
        feature_scaling: str = "none",
        class_weight: Any = None,
        loss: Any = "auto",
        tol: float = 1e-4,
        max_iter: int = 500,
        n_targets: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        keep_parameters(self, locals())

    score = SuquanModel.score  # not the one of scikit-learn, which takes no Dask array

    @lazy_on_dask
    def decision_function(self, X: Any) -> np.ndarray:
        """Scores of samples, of shape (n_samples,), or (n_samples, n_classes) for more than two classes.

        With two classes, > 0 means ``classes_[1]``. NaN, with a warning, for a sample that has one value
        throughout: there is no order to read.
        """
        return decision_values(self._scores(X), self.classes_)

    @lazy_on_dask
    def predict(self, X: Any) -> np.ndarray:
        """Predict the class of each sample, of shape (n_samples,).

        A ValueError names samples that have one value throughout, where no training sample had.
        """
        return self._classes_at(self._scores(X, "raise"))

    @lazy_on_dask
    def predict_proba(self, X: Any) -> np.ndarray:
        """Probability of each class under the model of the loss, of shape (n_samples, n_classes).

        NaN as for :meth:`decision_function`.
        """
        return self._probabilities_at(self._scores(X))

    def _classes_at(self, u: np.ndarray) -> np.ndarray:
        """Classes at the scores u of shape (n_samples, n_outputs)."""
        return predicted_classes(u, self.classes_)

    def _probabilities_at(self, u: np.ndarray) -> np.ndarray:
        """Probabilities there, of shape (n_samples, n_classes)."""
        return self._fitted_loss.mean(u)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        # scikit-learn's check of accuracy has two features: ranks leave one bit of each sample.
        tags.classifier_tags.poor_score = True
        tags.classifier_tags.multi_class = self.method != "svd" and self.loss != "logistic"
        return tags


class SuquanRegressor(RegressorMixin, SuquanModel):
    """Linear regression on quantile-normalised samples whose target is learned with it.

    Minimises over (w, b, f), in turns,

        J = (1/Σs_i) Σ_i s_i ℓ(y_i, w·Φ_f(x_i) + b) + alpha·Ω(w) + smoothness·Σ_j (f[j+1] − f[j])²

    where Φ_f(x) = f[rank(x)], ℓ(y, u) = (y − u)² or another `loss`, and
    Ω(w) = (1 − l1_ratio)·‖w‖² + l1_ratio·‖w‖₁. The returned (w, b) are optimal for the returned f. Strictly
    increasing transformations of a sample change nothing. The default fit to a·y + b predicts a times the
    prediction plus b. Given penalties are in the units of y, as in J: the same fit needs a·alpha for the l1
    norm (also of "multi"), a²·smoothness and a·huber_delta.

    Parameters
    ----------
    method : {"fixed", "f0", "bnd", "spav", "joint", "crossfit", "matrix", "multi"} or object, \
default="crossfit"
        How f is learned; see :class:`SuquanClassifier`.
    alpha, smoothness, l1_ratio, init, max_rounds, departure, n_knots, cv, n_repeats, ties, missing
        As in :class:`SuquanClassifier`.
    fit_intercept, feature_scaling, tol, max_iter, n_targets, random_state, verbose
        As in :class:`SuquanClassifier`.
    loss : {"squared", "huber", "poisson"} or Loss, default="squared"
        "huber": (y − u)² up to a residual of `huber_delta`, linear beyond. "poisson": half the deviance of
        counts y ≥ 0 whose mean is exp(u), which :meth:`predict` gives. An object that follows
        :class:`suquan.losses.Loss` will do too.
    huber_delta : float, default=1.35
        Residual from which the Huber loss is linear, in the units of y.

    Attributes
    ----------
    target_quantiles_, target_knots_, coef_, intercept_, feature_means_, feature_variances_
        As in :class:`SuquanClassifier`.
    alpha_, smoothness_
        As in :class:`SuquanClassifier`.
    objective_, objective_history_, n_rounds_, n_iter_, training_ranks_, n_features_in_, feature_names_in_
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
        fit_intercept: bool = True,
        feature_scaling: str = "none",
        loss: Any = "squared",
        huber_delta: float = 1.35,
        tol: float = 1e-4,
        max_iter: int = 500,
        n_targets: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        keep_parameters(self, locals())

    score = SuquanModel.score

    @lazy_on_dask
    def predict(self, X: Any) -> np.ndarray:
        """Predict the value of each sample, of shape (n_samples,): the mean of y under the model of the loss.

        NaN, with a warning, for a sample that has one value throughout.
        """
        return self._fitted_loss.mean(self._scores(X))
