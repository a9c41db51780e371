"""The joint problem whose samples are blocks on Dask: what the alternation asks of a problem."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from suquan._dask.blocks import Blocks, RankedBlock
from suquan._dask.linear import BlockDesign
from suquan._dask.target import BlockRows, RowsRequest, solve_target_on_blocks
from suquan.model.problem import W_TOL, FoldModels, JointProblem, Splits
from suquan.ranking import SampleOperator
from suquan.solvers.ridge import LinearFit
from suquan.solvers.target import TargetFit


def contrast_sums(
    block: RankedBlock, totals: np.ndarray, method: str, calls: list[tuple]
) -> list[np.ndarray]:
    """Parts of what a method of the operator sums over samples with c_i = y_i s_i over the weight of the class.

    `calls` has the other arguments of each sum.
    """
    c = np.where(block.y > 0, block.s / totals[1], -block.s / totals[0])
    return [getattr(block.operator, method)(c, *arguments) for arguments in calls]


def block_moments(block: RankedBlock, f: np.ndarray, centre: Any) -> list[np.ndarray]:
    """Part of the weighted moments of the columns of normalised samples."""
    return [block.operator.column_moments(block.s, f, centre)]


def describe(block: RankedBlock) -> list[np.ndarray]:
    """Whether some sample of the block has two different values, and whether one has a missing value."""
    return [np.array([not block.operator.is_constant, not block.operator.is_complete], np.int64)]


def rank_sums(block: RankedBlock) -> list[np.ndarray]:
    """Part of the sums of the samples' ranks."""
    return [block.operator.rank_sums()]


def rank_agreement(block: RankedBlock, sums: np.ndarray) -> list[np.ndarray]:
    """How the ranks of the samples of a block agree with the mean of all others."""
    return [block.operator.rank_agreement(sums, leave_out=True)]


class BlockOperator:
    """The sample operator of all blocks, whose features have the factors `scale`."""

    unscale = SampleOperator.unscale

    def __init__(self, blocks: Blocks, scale: np.ndarray | None = None) -> None:
        self.blocks, self.scale = blocks, scale
        self.n_samples, self.n_features = blocks.n_samples, blocks.n_features

    @cached_property
    def _counts(self) -> np.ndarray:
        """Numbers of blocks with an ordered, and with an incomplete sample; one pass."""
        return self.blocks.sum(describe)[0]

    @property
    def is_constant(self) -> bool:
        """Whether no sample has two different values."""
        return not self._counts[0]

    @property
    def is_complete(self) -> bool:
        """Whether no value is missing."""
        return not self._counts[1]

    def column_moments(self, s: np.ndarray, f: np.ndarray, centre: Any, W: Any = None) -> Any:
        """Moments of the columns of T_i f, in one pass; blocks have their weights."""
        return self.blocks.sum(block_moments, f, centre)[0]

    def rank_sums(self) -> np.ndarray:
        """Sums of the samples' ranks, in one pass."""
        return self.blocks.sum(rank_sums)[0]

    def rank_agreement(self, sums: np.ndarray, *, leave_out: bool) -> np.ndarray:
        """Agreement of every sample's ranks with the mean of all others, in one pass."""
        return np.concatenate(self.blocks.collect(rank_agreement, sums))

    def scaled(self, scale: np.ndarray) -> BlockOperator:
        """The same samples with these factors of the features, in their blocks from now on."""
        self.blocks.scale(scale)
        return BlockOperator(self.blocks, scale)

    def sum_apply(self, c: np.ndarray, f: np.ndarray) -> np.ndarray:
        """Σ_i c_i T_i f, in one pass, for the contrast c of :meth:`BlockedProblem.class_contrast`."""
        return self.blocks.sum(contrast_sums, c, "sum_apply", [(f,)])[0]

    def sum_adjoint(self, c: np.ndarray, w: np.ndarray) -> np.ndarray:
        """Σ_i c_i T_iᵀ w, in one pass."""
        return self.blocks.sum(contrast_sums, c, "sum_adjoint", [(w,)])[0]


@dataclass(frozen=True)
class BlockedProblem(JointProblem):
    """A joint problem whose sums over samples are passes over blocks."""

    splits: Splits = field(default_factory=list)

    @property
    def blocks(self) -> Blocks:
        """The ranked blocks."""
        operator: Any = self.operator
        return operator.blocks

    def w_design(self, g: np.ndarray) -> Any:
        """Normalised samples, on which the w-step is solved."""
        return BlockDesign(self, self.expand(g))

    def f_design(self, w: Any, samples: np.ndarray | None = None, out: Any = None) -> Any:
        """Rows of the f-step over all samples."""
        return self.target_rows(w[None], crossed=False, n_rows=len(self.y), s=self.s, weight=1.0)

    def target_rows(
        self, W: np.ndarray, *, crossed: bool, n_rows: int, s: np.ndarray, weight: float
    ) -> BlockRows:
        """Rows of the f-step for the coefficients W of one model or of the fold models."""
        n_bytes = n_rows * self.loss.n_outputs * self.n_knots * np.dtype(self.dtype).itemsize
        kind = self.n_knots, self.dtype, self.fit_intercept
        keep = n_bytes <= self.blocks.kept_bytes
        request = RowsRequest(self.loss, W, crossed, *kind, weight, keep)
        return BlockRows(self.blocks, request, self.y, s)

    def f_step(self, D: BlockRows, y: Any, s: Any, g: np.ndarray, **options: Any) -> TargetFit:
        """Best target and intercept for rows that lie with the blocks."""
        return solve_target_on_blocks(D, g, smoothness=self.node_smoothness, **options)

    def fold_models(self, splits: Splits) -> BlockFoldModels:
        """Models of the folds."""
        return BlockFoldModels(splits, self.s)

    def class_contrast(self) -> np.ndarray:
        """Weights of the two classes; blocks know the rest."""
        return np.array([self.s[self.y < 0].sum(), self.s[self.y > 0].sum()])

    def sums_of_samples(self, c: Any, G: np.ndarray) -> np.ndarray:
        """Columns Σ_i c_i T_i B g for the rows g of G, in one pass."""
        calls = [(self.expand(g),) for g in G]
        return np.stack(self.blocks.sum(contrast_sums, c, "sum_apply", calls), axis=1)


class BlockFoldModels(FoldModels):
    """Models of the folds, all of them fitted in the same passes."""

    def fit(self, problem: JointProblem, design: Any, max_iter: int) -> list[LinearFit]:
        """Models on a design."""
        return design.solve_folds(lambda: self.weights, problem.alpha, tol=W_TOL, max_iter=max_iter)

    def held_out_loss(self, problem: JointProblem, models: list[LinearFit], design: Any) -> float:
        """Mean loss of the held-out samples under the models that have not seen them."""
        if design.is_gram:  # few samples: their scores are here
            return super().held_out_loss(problem, models, design)
        return design.held_out_loss(models) / float(self.s[self.rows].sum())

    def stack(self, problem: JointProblem, models: Sequence[Any], g: np.ndarray) -> tuple:
        """Rows of the f-step over all held-out samples; their labels and weights stay with the blocks."""
        rows = self.rows
        weights = np.bincount(rows, weights=self.s[rows], minlength=len(self.s))
        total = float(weights.sum())
        W = np.stack([fit.w for fit in models])
        blocked: Any = problem
        stacked = blocked.target_rows(
            W, crossed=True, n_rows=len(rows), s=weights / total, weight=total
        )
        return stacked, None, None
