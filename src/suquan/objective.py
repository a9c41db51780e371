"""The joint problem in (w, b, f), its two designs and its folds.

    J(w, b, f) = Σ_i s_i ℓ(y_i, w·T_i f + b) + alpha·Ω(w) + smoothness·Σ_j (f[j+1] − f[j])²

with weights s of sum 1 and Ω(w) = (1 − l1_ratio)·‖w‖² + l1_ratio·‖w‖₁. With knots, f = B g reads the node
values g, and the last term is smoothness·(K/p)·Σ_k (g[k+1] − g[k])². Without, g is f.

:mod:`suquan.fitting` makes problems of ranked samples. The rounds of :mod:`suquan.solvers.alternation` ask
them for what :class:`Problem` lists; problems through blocks of knots and on Dask answer in their own way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from suquan.losses import Loss
from suquan.ranking import SampleOperator
from suquan.solvers.elastic_net import solve_elastic_net
from suquan.solvers.linear import LinearFit, RidgeDesign
from suquan.targets import knot_positions, read_at_grid

# Up to this many entries designs are kept in float64; larger ones in float32, to save memory and time.
FLOAT64_ENTRIES = 1 << 16


# Relative accuracy of the w-step, which is cheap; the f-step's is the user's.
W_TOL = 1e-10

# Training and test samples of folds: training samples by a mask or by their numbers, test samples by numbers.
Splits = list[tuple[np.ndarray, np.ndarray]]


class Design(Protocol):
    """Normalised samples on which the w-step is solved; parameters as for :class:`RidgeDesign`."""

    def solve(
        self,
        loss: Loss,
        y: Any,
        s: Any,
        alpha: float,
        *,
        tol: float,
        max_iter: int,
        start: Any = None,
    ) -> LinearFit:
        """One fit."""

    def solve_many(
        self, loss: Loss, y: Any, S: Any, alpha: float, *, tol: float, max_iter: int
    ) -> list[LinearFit]:
        """Fits that differ by their weights, the rows of S."""

    def solve_path(
        self, loss: Loss, y: Any, s: Any, alphas: Sequence[float], *, tol: float, max_iter: int
    ) -> list[LinearFit]:
        """Fits at several alphas, in their order."""


class Problem(Protocol):
    """What the rounds ask of a joint problem; :class:`JointProblem` says more about each."""

    @property
    def operator(self) -> Any:
        """The maps T_i."""

    @property
    def loss(self) -> Loss:
        """Loss of the scores."""

    @property
    def y(self) -> np.ndarray:
        """Labels as the loss wants them, of shape (n_samples,)."""

    @property
    def s(self) -> np.ndarray:
        """Weights of sum 1, of shape (n_samples,)."""

    @property
    def alpha(self) -> float:
        """Strength of the penalty on w."""

    @property
    def l1_ratio(self) -> float:
        """Share of the l1 norm in it."""

    @property
    def n_knots(self) -> int:
        """Number of node values."""

    @property
    def fit_intercept(self) -> bool:
        """Whether b is fitted."""

    @property
    def dtype(self) -> type:
        """Type of the designs."""

    @property
    def node_smoothness(self) -> float:
        """Weight of Σ_k (g[k+1] − g[k])²."""

    def expand(self, g: np.ndarray) -> np.ndarray:
        """Target f = B g, one value per feature."""

    def w_design(self, g: np.ndarray) -> Design:
        """Samples normalised to g."""

    def coefficients(self, fit: Any, g: np.ndarray) -> Any:
        """Coefficients of a fit at the target g, as :meth:`f_design` and :meth:`penalty` take them."""

    def f_design(self, w: Any, samples: np.ndarray | None = None, out: Any = None) -> Any:
        """Rows of the f-step, of all samples or of the chosen ones, written to `out` where it is given."""

    def penalty(self, w: Any) -> float:
        """alpha·Ω(w)."""

    def roughness(self, g: np.ndarray) -> float:
        """smoothness·(K/p)·Σ_k (g[k+1] − g[k])²."""

    def fold_models(self, splits: Splits) -> FoldModels:
        """Models that each leave out the test samples of a split."""


@dataclass(frozen=True)
class JointProblem:
    """Ranked samples, labels, weights and penalties of one fit.

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
    def node_smoothness(self) -> float:
        """Weight of Σ_k (g[k+1] − g[k])²."""
        return self.smoothness * self.n_knots / self.operator.n_features

    def expand(self, g: np.ndarray) -> np.ndarray:
        """Target f = B g, one value per feature."""
        return read_at_grid(g, self.operator.n_features)

    def w_design(self, g: np.ndarray) -> Design:
        """Rows T_i f, of shape (n_samples, n_features), on which the w-step is solved."""
        A = self.operator.apply(self.expand(g), dtype=self.dtype)
        return make_design(A, self.l1_ratio, self.fit_intercept)

    def coefficients(self, fit: Any, g: np.ndarray) -> Any:
        """Coefficients w of a fit, of shape (n_outputs, n_features)."""
        return fit.w

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


@dataclass(frozen=True)
class ElasticNetDesign:
    """Normalised samples A under a penalty with an l1 norm; every fit starts from zero.

    Attributes
    ----------
    A : ndarray of shape (n_samples, n_features)
    l1_ratio : float
    fit_intercept : bool
    """

    A: np.ndarray
    l1_ratio: float
    fit_intercept: bool

    def solve(self, loss, y, s, alpha, *, tol, max_iter, start=None):
        """One fit."""
        return solve_elastic_net(
            self.A, loss, y, s, alpha, self.l1_ratio,
            fit_intercept=self.fit_intercept, tol=tol, max_iter=max_iter, start=start,
        )  # fmt: skip

    def solve_many(self, loss, y, S, alpha, *, tol, max_iter):
        """Fits that differ by their weights."""
        return [self.solve(loss, y, s, alpha, tol=tol, max_iter=max_iter) for s in S]

    def solve_path(self, loss, y, s, alphas, *, tol, max_iter):
        """Fits at several alphas."""
        return [self.solve(loss, y, s, alpha, tol=tol, max_iter=max_iter) for alpha in alphas]


def make_design(A: np.ndarray, l1_ratio: float, fit_intercept: bool) -> Design:
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
        for weights, (train, _) in zip(S, self.splits, strict=True):
            weights[train] = self.s[train]
        return S / S.sum(axis=1, keepdims=True)

    def fit(self, problem: Problem, design: Any, max_iter: int) -> list[LinearFit]:
        """Models on normalised samples; they share what the design has computed once."""
        return design.solve_many(
            problem.loss, problem.y, self.weights, problem.alpha, tol=W_TOL, max_iter=max_iter
        )

    def held_out_loss(self, problem: Problem, models: list[LinearFit], design: Any) -> float:
        """Mean loss of the held-out samples under the models on `design` that have not seen them."""
        scores = [fit.u[test] for fit, (_, test) in zip(models, self.splits, strict=True)]
        y, s = problem.y[self.rows], self.s[self.rows]
        return problem.loss.value(y, np.concatenate(scores), s) / float(s.sum())

    def stack(
        self, problem: Problem, models: Sequence[Any], g: np.ndarray
    ) -> tuple[Any, np.ndarray, np.ndarray]:
        """Rows, labels and weights of the f-step over all held-out samples, for models at the target g."""
        n_outputs, rows = problem.loss.n_outputs, self.rows
        D: np.ndarray = np.empty((len(rows) * n_outputs, problem.n_knots), problem.dtype)
        start = 0
        for fit, (_, test) in zip(models, self.splits, strict=True):
            stop = start + len(test) * n_outputs
            problem.f_design(problem.coefficients(fit, g), test, D[start:stop])
            start = stop
        return D, problem.y[rows], self.s[rows] / self.s[rows].sum()
