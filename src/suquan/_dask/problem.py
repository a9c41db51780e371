"""The joint problem whose samples are blocks on Dask: what the rounds ask of a problem, as passes.

Newton's method of the ridge solver in memory gets its sums over samples from the blocks: an evaluation of all
fold models is one pass, a product with all their Hessians another. The f-step is in :mod:`suquan._dask.target`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from suquan._dask.blocks import Arrays, RankedBlock, class_weights
from suquan._dask.target import BlockRows
from suquan.model.problem import W_TOL, FoldModels, JointProblem, Splits
from suquan.solvers.newton import Preconditioner, Product, newton
from suquan.solvers.ridge import (
    FIRST_DAMPING,
    Batch,
    LinearFit,
    Rows,
    ignores_shifts,
    negligible,
)
from suquan.solvers.target import TargetFit


@dataclass(frozen=True)
class BlockedProblem(JointProblem):
    """A joint problem whose operator is a :class:`suquan._dask.blocks.BlockOperator`."""

    operator: Any

    @property
    def bare(self) -> JointProblem:
        """The problem without samples, as blocks get it."""
        empty: Any = {"operator": None, "y": None, "s": None}
        return JointProblem(**{**vars(self), **empty})

    def w_design(self, g: np.ndarray) -> BlockDesign:
        """Normalised samples, on which the w-step is solved."""
        return BlockDesign(self, self.expand(g))

    def f_design(self, w: Any, samples: Any = None, out: Any = None) -> BlockRows:
        """Rows of the f-step over all samples."""
        return BlockRows(self.operator, self.bare, w[None], np.zeros(1, int), self.y, self.s)

    def f_step(self, D: BlockRows, y: Any, s: Any, g: np.ndarray, **options: Any) -> TargetFit:
        """Best target and intercept for rows that lie with the blocks."""
        return D.solve(g, smoothness=self.node_smoothness, **options)

    def fold_models(self, splits: Splits) -> BlockFoldModels:
        """Models of the folds."""
        return BlockFoldModels(splits, self.s)

    def class_contrast(self) -> np.ndarray:
        """Weights of the two classes; blocks know the rest."""
        return np.array([self.s[self.y < 0].sum(), self.s[self.y > 0].sum()])

    def sums_of_samples(self, c: Any, G: np.ndarray) -> np.ndarray:
        """Columns Σ_i c_i T_i B g for the rows g of G, in one pass."""
        F = [self.expand(g) for g in G]
        return np.column_stack(
            self.operator.sum(
                lambda block: [block.operator.sum_apply(class_weights(block, c), f) for f in F]
            )
        )


class BlockFoldModels(FoldModels):
    """Models of the folds, all of them fitted in the same passes."""

    @property
    def numbers(self) -> np.ndarray:
        """Numbers by which blocks know the models."""
        return 1 + np.arange(len(self.splits))

    def fit(self, problem: JointProblem, design: Any, max_iter: int) -> list[LinearFit]:
        """Models on a design."""
        return design.solve_models(self.numbers, problem.alpha, W_TOL, max_iter)

    def held_out_loss(self, problem: JointProblem, models: Sequence[LinearFit]) -> float:
        """Mean loss of the held-out samples under the models that have not seen them, in one pass."""
        f, numbers = models[0].u, self.numbers
        totals = np.full(len(numbers), self.s[self.rows].sum())
        sums = BlockSums(problem, f, numbers, totals, "test")
        theta = np.stack([np.column_stack([fit.w, fit.b]) for fit in models])
        return float(sums.values(numbers - 1, sums.scores(theta)).sum())

    def stack(self, problem: Any, models: Sequence[LinearFit]) -> tuple:
        """Rows of the f-step over all held-out samples; their labels and weights stay with the blocks."""
        weights = np.bincount(self.rows, weights=self.s[self.rows], minlength=len(self.s))
        W = np.stack([fit.w for fit in models])
        rows = BlockRows(problem.operator, problem.bare, W, self.numbers, problem.y, weights)
        return rows, None, None


# -- the w-step ---------------------------------------------------------------------------------------


def batch_sums(
    block: RankedBlock, problem: JointProblem, f: np.ndarray, members: str, models: np.ndarray,
    totals: np.ndarray, theta: np.ndarray, damping: np.ndarray, what: tuple, V: Any,
) -> Arrays:  # fmt: skip
    """Sums over a block that :class:`BlockSums` asks for, by their names; or products of Hessians with V."""
    own = block.problem(problem)
    rows = Rows(block.operator.apply(f, dtype=own.dtype), own.fit_intercept)
    S = getattr(block, members)[models] * block.s / totals[:, None]
    batch = Batch(rows, own.loss, block.y, S)
    batch.damping = damping
    fits, u = np.arange(len(theta)), batch.scores(theta)
    if V is not None:
        return [batch.product(fits, u)(V)]
    return [np.asarray(getattr(batch, name)(fits, u)) for name in what]


class BlockSums:
    """Sums over the samples of all blocks, as :class:`suquan.solvers.newton.Sums` says.

    Theta itself stands for the scores, which stay with the blocks. The fits are the `models` of these numbers,
    0 for that of all samples, at the target f. Each is of its samples in the blocks' "train" or "test", whose
    weights are divided by the `totals`.
    """

    adapt = Batch.adapt

    def __init__(
        self, problem: Any, f: np.ndarray, models: np.ndarray, totals: np.ndarray,
        members: str = "train",
    ) -> None:  # fmt: skip
        self.operator, self.models, self.totals = problem.operator, models, totals
        self.n_columns, self.n_outputs = problem.operator.n_features, problem.loss.n_outputs
        self.balanced = ignores_shifts(problem.loss, problem.y, problem.s)
        self.damping = np.full(len(models), FIRST_DAMPING)
        self._of_block = partial(batch_sums, problem=problem.bare, f=f, members=members)
        # They come with the values: Newton's method asks for them where it has evaluated a fit last.
        self._gradients = np.zeros((len(models), self.n_outputs, self.n_columns + 1))
        self._curvatures = np.zeros(len(models))

    def scores(self, theta):
        """Theta, flat."""
        return theta.reshape(len(theta), -1)

    def values(self, fits, u):
        """Losses, with their gradients and curvatures, in one pass."""
        found = self._sums(fits, u, "values", "gradients", "curvatures")
        values, self._gradients[fits], self._curvatures[fits] = found
        return values

    def gradients(self, fits, u):
        """Gradients of the losses, known from their evaluation."""
        return self._gradients[fits]

    def curvatures(self, fits, u):
        """Summed curvatures of the scores, known from their evaluation."""
        return self._curvatures[fits]

    def product(self, fits, u) -> Product:
        """Products with the Hessians of the losses, one pass each."""
        return lambda V: self._sums(fits, u, V=V)[0]

    def moments(self, fits, u):
        """Second moments of the columns, in one pass."""
        return self._sums(fits, u, "moments")[0]

    def spread(self, fits, u):
        """Mean of their diagonal, in one pass."""
        return float(self._sums(fits, u, "spread")[0])

    def _sums(self, fits: np.ndarray, u: np.ndarray, *what: str, V: Any = None) -> Arrays:
        """Sums at the unknowns u of some fits, in one pass."""
        some = {"models": self.models[fits], "totals": self.totals[fits]}
        theta = u.reshape(len(u), self.n_outputs, -1)
        at = {"theta": theta, "damping": self.damping[fits], "what": what, "V": V}
        return self.operator.sum(partial(self._of_block, **some, **at))


class BlockDesign:
    """The normalised samples of all blocks; it answers as :class:`suquan.solvers.ridge.RidgeDesign` does.

    Scores of its fits stay with the blocks: the target f stands in their place.
    """

    def __init__(self, problem: Any, f: np.ndarray) -> None:
        self.problem, self.f = problem, f
        self._preconditioner = Preconditioner(problem.operator.n_features)

    def solve(self, loss, y, s, alpha, *, tol, max_iter, start=None) -> LinearFit:
        """The fit to all samples."""
        theta = None if start is None else np.column_stack([start.w, start.b])
        return self.solve_models(np.zeros(1, int), alpha, tol, max_iter, theta)[0]

    def solve_path(self, loss, y, s, alphas, *, tol, max_iter) -> list[LinearFit]:
        """The fits to all samples at several alphas."""
        return [self.solve(loss, y, s, alpha, tol=tol, max_iter=max_iter) for alpha in alphas]

    def solve_models(
        self, models: np.ndarray, alpha: float, tol: float, max_iter: int, start: Any = None
    ) -> list[LinearFit]:
        """Fits of some models, from `start` or the best constant, in lockstep."""
        problem, loss, y, s = self.problem, self.problem.loss, self.problem.y, self.problem.s
        sums = BlockSums(problem, self.f, models, problem.operator.totals[models])
        theta = np.zeros((len(models), loss.n_outputs, sums.n_columns + 1))
        if problem.fit_intercept:
            theta[:, :, -1] = loss.best_constant(y, s)
        if start is not None:
            theta[:] = start
        floor = negligible(loss, y, s)
        found = newton(
            sums, self._preconditioner, theta, alpha, floor, tol, max_iter, problem.dtype
        )
        W, B = found.theta[:, :, :-1], found.theta[:, :, -1]
        B = B - B.mean(axis=1, keepdims=True) if sums.balanced else B
        outcomes = zip(W, B, found.objective, found.n_iter, found.criterion, strict=True)
        return [
            LinearFit(w, b, self.f, float(J), int(n_iter), float(gap), bool(gap <= tol))
            for w, b, J, n_iter, gap in outcomes
        ]
