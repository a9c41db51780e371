"""The joint problem in (w, b, f), and what its rounds ask of it.

    J(w, b, f) = Σ_i s_i ℓ(y_i, w·T_i f + b) + alpha·Ω(w) + smoothness·Σ_j (f[j+1] − f[j])²

with weights s of sum 1 and Ω(w) = (1 − l1_ratio)·‖w‖² + l1_ratio·‖w‖₁. With knots, f = B g reads the node
values g, and the last term is smoothness·(K/p)·Σ_k (g[k+1] − g[k])². Without, g is f.

:mod:`suquan.model.prepare` makes a :class:`JointProblem` of ranked samples, :mod:`suquan.model.rounds` solves
it and makes a :class:`Fit`. Blocks on Dask have a subclass that answers with sums over blocks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from suquan.losses import Loss
from suquan.model.labels import labels_apart
from suquan.ranking import SampleOperator
from suquan.solvers.elastic_net import ElasticNetDesign
from suquan.solvers.ridge import LinearFit, RidgeDesign
from suquan.solvers.target import TargetFit, solve_target
from suquan.targets import knot_positions, read_at_grid

# Up to this many entries designs are kept in float64; larger ones in float32, to save memory and time.
FLOAT64_ENTRIES = 1 << 16
# Relative accuracy of the w-step, which is cheap; with an l1 penalty, where it is less so; and of the f-step,
# in units of the user's: J is flat around the best target, which is not found where J is just small enough.
W_TOL, L1_TOL, F_TOL = 1e-10, 1e-8, 0.1
# Training and test samples of folds: training samples by a mask or by their numbers, test samples by numbers.
Splits = list[tuple[np.ndarray, np.ndarray]]


@dataclass(frozen=True)
class JointProblem:
    """Ranked samples, labels, weights and penalties of one fit; its methods are all that the rounds ask.

    Attributes
    ----------
    operator : SampleOperator
        The maps T_i.
    loss : Loss
    y : ndarray of shape (n_samples,)
        Labels as `loss` wants them.
    s : ndarray of shape (n_samples,)
        Weights > 0 of sum 1.
    alpha, l1_ratio, smoothness : float
    n_knots : int
        Number K of node values; n_features for one per place.
    fit_intercept : bool
    """

    operator: SampleOperator
    loss: Loss
    y: np.ndarray
    s: np.ndarray
    alpha: float
    l1_ratio: float
    smoothness: float
    n_knots: int
    fit_intercept: bool

    @property
    def dtype(self) -> type:
        """Type of the designs."""
        n_entries = self.operator.n_samples * self.operator.n_features * self.loss.n_outputs
        return np.float64 if n_entries <= FLOAT64_ENTRIES else np.float32

    @property
    def w_tol(self) -> float:
        """Accuracy of the w-step."""
        return L1_TOL if self.l1_ratio > 0.0 else W_TOL

    @property
    def node_smoothness(self) -> float:
        """Weight of Σ_k (g[k+1] − g[k])²."""
        return self.smoothness * self.n_knots / self.operator.n_features

    def expand(self, g: np.ndarray) -> np.ndarray:
        """Target f = B g, one value per feature."""
        return read_at_grid(g, self.operator.n_features)

    def w_design(self, g: np.ndarray) -> Any:
        """Rows T_i f, of shape (n_samples, n_features), on which the w-step is solved."""
        A = self.operator.apply(self.expand(g), dtype=self.dtype)
        return make_design(A, self.l1_ratio, self.fit_intercept)

    def f_design(self, w: Any, samples: np.ndarray | None = None, out: Any = None) -> Any:
        """Rows Bᵀ T_iᵀ w_k, of shape (n_samples · n_outputs, n_knots), for w of shape (n_outputs, n_features).

        All samples, or the chosen ones; in `out` where it is given.
        """
        operator = self.operator if samples is None else self.operator.take(samples)
        knots = None
        if self.n_knots != operator.n_features:
            knots = knot_positions(operator.n_features, self.n_knots)
        if out is None:
            out = np.empty((operator.n_samples * len(w), self.n_knots), self.dtype)
        for k in range(len(w)):
            operator.adjoint(w[k], knots=knots, out=out[k :: len(w)])
        return out

    def f_step(self, D: Any, y: Any, s: Any, g: np.ndarray, **options: Any) -> TargetFit:
        """Best target and intercept for rows of :meth:`f_design`, their labels and weights, from g."""
        return solve_target(
            D, self.loss, y, s, g,
            smoothness=self.node_smoothness, fit_intercept=self.fit_intercept, **options,
        )  # fmt: skip

    def penalty(self, w: Any) -> float:
        """alpha·Ω(w)."""
        ridge = (1.0 - self.l1_ratio) * float(np.sum(w * w))
        return self.alpha * (ridge + self.l1_ratio * float(np.sum(np.abs(w))))

    def roughness(self, g: np.ndarray) -> float:
        """smoothness·(K/p)·Σ_k (g[k+1] − g[k])²."""
        return self.node_smoothness * float(np.sum(np.diff(g) ** 2))

    def fold_models(self, splits: Splits) -> FoldModels:
        """Models that each leave out the test samples of a split."""
        return FoldModels(splits, self.s)

    def class_contrast(self) -> Any:
        """Weights of the samples in the difference of the means of two classes, labelled ±1."""
        y, s = self.y, self.s
        return np.where(y > 0, s / s[y > 0].sum(), -s / s[y < 0].sum())

    def sums_of_samples(self, c: Any, G: np.ndarray) -> np.ndarray:
        """Columns Σ_i c_i T_i B g for the rows g of G, of shape (n_features, n_targets)."""
        return np.column_stack([self.operator.sum_apply(c, self.expand(g)) for g in G])


def make_design(A: np.ndarray, l1_ratio: float, fit_intercept: bool) -> Any:
    """Normalised samples A of shape (n_samples, n_features), ready for w-steps with this penalty."""
    if l1_ratio > 0.0:
        return ElasticNetDesign(A, l1_ratio, fit_intercept)
    return RidgeDesign(A, fit_intercept=fit_intercept)


@dataclass(frozen=True)
class FoldModels:
    """Models of the folds, and the rows that they score without having seen them.

    Attributes
    ----------
    splits : list of (train, test)
    s : ndarray of shape (n_samples,)
        Weights of the samples.
    """

    splits: Splits
    s: np.ndarray

    @property
    def rows(self) -> np.ndarray:
        """Samples of the stacked rows, fold by fold."""
        return np.concatenate([test for _, test in self.splits], dtype=np.intp)

    @property
    def weights(self) -> np.ndarray:
        """Weights of the samples in each model, of shape (n_folds, n_samples), each of sum 1."""
        S = np.zeros((len(self.splits), len(self.s)))
        for row, (train, _) in zip(S, self.splits, strict=True):
            row[train] = self.s[train] / self.s[train].sum()
        return S

    def fit(self, problem: JointProblem, design: Any, max_iter: int) -> list[LinearFit]:
        """Models on normalised samples; they share what the design has computed once."""
        return design.solve_many(
            problem.loss, problem.y, self.weights, problem.alpha,
            tol=problem.w_tol, max_iter=max_iter,
        )  # fmt: skip

    def held_out_loss(self, problem: JointProblem, models: Sequence[LinearFit]) -> float:
        """Mean loss of the held-out samples under the models that have not seen them."""
        scores = [fit.u[test] for fit, (_, test) in zip(models, self.splits, strict=True)]
        y, s = self.labels(problem), self.s[self.rows]
        return problem.loss.value(y, np.concatenate(scores), s) / float(s.sum())

    def labels(self, problem: JointProblem) -> np.ndarray:
        """Labels of the stacked rows; scores of different models are not compared."""
        parts = np.repeat(np.arange(len(self.splits)), [len(test) for _, test in self.splits])
        return labels_apart(problem.loss, problem.y[self.rows], parts)

    def stack(
        self, problem: JointProblem, models: Sequence[LinearFit]
    ) -> tuple[Any, np.ndarray, np.ndarray]:
        """Rows, labels and weights of the f-step over all held-out samples."""
        n_outputs, rows = problem.loss.n_outputs, self.rows
        D: np.ndarray = np.empty((len(rows) * n_outputs, problem.n_knots), problem.dtype)
        start = 0
        for fit, (_, test) in zip(models, self.splits, strict=True):
            stop = start + len(test) * n_outputs
            problem.f_design(fit.w, test, D[start:stop])
            start = stop
        return D, self.labels(problem), self.s[rows] / self.s[rows].sum()


@dataclass(frozen=True)
class Fit:
    """Result of a fit.

    Attributes
    ----------
    g : ndarray of shape (n_knots,), or (n_targets, n_knots)
        Node values of the target, or of several.
    w : ndarray of shape (n_outputs, n_features), or (n_outputs, n_targets · n_features)
    b : ndarray of shape (n_outputs,)
    objective : float
        J(w, b, f).
    history : list of float
        In-sample: J after every half-step. Cross-fitted: the out-of-fold loss at f_0, f_1, …, up to the last
        target whose loss was needed.
    n_rounds, n_iter : int
        Rounds done, and inner iterations of all their steps.
    unfinished : tuple of str
        What did not reach its tolerance.
    collapsed : bool
        Whether an f-step led to the zero target, which was not taken.
    runaway : float or None
        Root mean square of a target so large that the w-step failed there, and which was not taken.
    singular_values : ndarray or None
        Of the matrix that several targets, or method="svd", come from.
    gap : float or None
        Bound on the distance of the objective from the minimum of the convex problem, for several targets.
    n_shown : int or None
        Number of targets to show, where there are several.
    """

    g: np.ndarray
    w: Any
    b: np.ndarray
    objective: float
    history: list[float]
    n_rounds: int = 0
    n_iter: int = 1
    unfinished: tuple[str, ...] = ()
    collapsed: bool = False
    runaway: float | None = None
    singular_values: np.ndarray | None = None
    gap: float | None = None
    n_shown: int | None = None
