"""The f-step on blocks: the methods in memory, with a loss side whose sums are passes over the blocks.

The scores of all rows at a target f are linear in f, so that f stands for them: the methods combine scores
linearly, and ask for sums of losses and derivatives. No vector with an entry per sample is ever sent.
``suquan._dask.problem`` makes a :class:`RowsRequest` and calls :func:`loss_side`.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from suquan._dask.blocks import Blocks, RankedBlock
from suquan._dask.linear import token_of
from suquan.losses import Loss
from suquan.objective import JointProblem
from suquan.solvers._products import column_products
from suquan.solvers._target_data import (
    Evaluation,
    LossSide,
    RowsInMemory,
    Scored,
    best_intercept,
    constant_losses,
    free_intercept,
    full_intercept,
    n_free_intercepts,
    profiled_hessian,
)

HESSIAN_NODES = 4096  # largest K whose K×K Hessian is sent: 134 MB


@dataclass(frozen=True)
class RowsRequest:
    """What a block needs to make its rows of the f-step.

    Attributes
    ----------
    loss : Loss
    W : ndarray of shape (n_models, n_outputs, n_features)
        Coefficients of the one model of all samples, or of the fold models.
    crossed : bool
        Whether each sample is scored by the models that have not seen it.
    n_knots : int
    dtype : type
    fit_intercept : bool
    weight : float
        Sum of the weights of all rows.
    keep : bool
        Whether blocks keep their rows for the next pass.
    """

    loss: Loss
    W: np.ndarray
    crossed: bool
    n_knots: int
    dtype: Any
    fit_intercept: bool
    weight: float
    keep: bool

    def rows(self, block: RankedBlock) -> RowsInMemory:
        """Rows of a block with their labels and weights."""
        make = partial(self._make, block)
        return block.remembered("rows", token_of(self.W), make, keep=self.keep, alone=True)

    def _make(self, block: RankedBlock) -> RowsInMemory:
        problem = JointProblem(
            block.operator, self.loss, block.y, block.s, 0.0, 0.0, 0.0, self.n_knots,
            self.fit_intercept,
        )  # fmt: skip
        scored = block.test if self.crossed else np.ones((1, len(block.y)), bool)
        samples = [np.flatnonzero(by_model) for by_model in scored]
        rows = np.concatenate(samples)
        D: np.ndarray = np.empty((len(rows) * self.loss.n_outputs, self.n_knots), self.dtype)
        ends = np.cumsum([0, *map(len, samples)]) * self.loss.n_outputs
        for w, some, start, stop in zip(self.W, samples, ends[:-1], ends[1:], strict=True):
            if len(some):
                problem.f_design(w, some if self.crossed else None, D[start:stop])
        s = block.s[rows] / self.weight
        return RowsInMemory(D, self.loss, block.y[rows], s, self.fit_intercept)


# -- what blocks compute ------------------------------------------------------------------------------


def _scores(block: RankedBlock, request: RowsRequest, f: np.ndarray, b: np.ndarray) -> Any:
    """Rows of a block, and their scores at (f, b)."""
    rows = request.rows(block)
    Df = block.remembered("Df", token_of(request.W, f), partial(rows.scores, f), keep=True)
    return rows, Df + rows.shifts @ b


def evaluation_sums(
    block: RankedBlock, request: RowsRequest, f: np.ndarray, b: np.ndarray
) -> list[np.ndarray]:
    """Loss at (f, b), a·u for its derivative a in the scores u; gradients in f and b, Hessian in b."""
    with np.errstate(over="ignore", invalid="ignore"):  # an infinite loss is refused
        rows, u = _scores(block, request, f, b)
        a = rows.loss.gradient(rows.y, u, rows.s)
        values = np.array([rows.loss.value(rows.y, u, rows.s), a @ u])
        hessian = rows.shifts.T @ rows.curvature(u).product(rows.shifts)
        return [values, column_products(rows.D, a[None])[0], a @ rows.shifts, hessian]


def curvature_sums(
    block: RankedBlock, request: RowsRequest, f: np.ndarray, b: np.ndarray, g: np.ndarray
) -> list[np.ndarray]:
    """Second derivative of the loss at (f, b) along g."""
    rows, u = _scores(block, request, f, b)
    return [np.array(rows.curvature_along(Scored(u, b, 0.0, None), g))]


def hessian_sums(
    block: RankedBlock, request: RowsRequest, f: np.ndarray, b: np.ndarray
) -> list[np.ndarray]:
    """Hessian of the loss in (f, b)."""
    rows, u = _scores(block, request, f, b)
    return [rows.hessian_sums(u)]


def rows_and_labels(block: RankedBlock, request: RowsRequest) -> list[np.ndarray]:
    """The rows themselves, with labels and weights; only where all blocks have fewer rows than K."""
    rows = request.rows(block)
    return [rows.D, rows.y, rows.s]


# -- the driver's side --------------------------------------------------------------------------------


def loss_side(
    blocks: Blocks, request: RowsRequest, n_rows: int, y: np.ndarray, s: np.ndarray
) -> LossSide:
    """The loss side of the f-step: sums over the rows of all blocks; or the rows, where they are few.

    Parameters
    ----------
    blocks : Blocks
    request : RowsRequest
    n_rows : int
    y, s : ndarray of shape (n_samples,)
        Labels and weights of sum 1 of the samples; the weight of a sample is that of all its rows.
    """
    if n_rows * request.loss.n_outputs > request.n_knots:
        return SummedRows(blocks, request, n_rows, y, s)
    parts = blocks.collect(rows_and_labels, request)
    D, y, s = (np.concatenate(parts[k::3]) for k in range(3))
    return RowsInMemory(D, request.loss, y, s, request.fit_intercept)


class SummedRows:
    """The loss side where scores are known by their target f, and all else by passes; see :func:`loss_side`."""

    solves_dual = False

    def __init__(
        self, blocks: Blocks, request: RowsRequest, n_rows: int, y: np.ndarray, s: np.ndarray
    ) -> None:
        self.blocks, self.request, self.y, self.s = blocks, request, y, s
        self.loss, self.n_outputs = request.loss, request.loss.n_outputs
        self.is_quadratic = self.loss.is_quadratic
        self.n_scores, self.K = n_rows * self.n_outputs, request.n_knots
        if self.loss.couples_samples:
            raise ValueError(
                f"the loss {self.loss.name!r} is no sum over samples, so that blocks cannot add it up. Fit in "
                "memory, or choose another loss."
            )
        n_free = n_free_intercepts(self.loss, request.fit_intercept)
        self._b = free_intercept(self.loss.best_constant(y, s), n_free)

    def _sum(self, function: Any, *arguments: Any) -> list[np.ndarray]:
        return self.blocks.sum(function, self.request, *arguments)

    def scores(self, f):
        """Name of the scores at f without an intercept."""
        return np.array(f, dtype=np.float64)

    def profile(self, Df):
        """Newton's method for the intercept from the last one, one pass per evaluation; as in memory."""

        def evaluate(b):
            (value, product), gradient, slope, hessian = self._sum(evaluation_sums, Df, b)
            if not np.isfinite(value):
                return Evaluation(np.inf)
            return Evaluation(float(value), slope, hessian, (gradient, float(product)))

        self._b, best = best_intercept(evaluate, self._b, self.is_quadratic)
        return Scored(Df, self._b, best.value, best.slopes)

    def gradient(self, point):
        """Known from the pass that led to the point."""
        gradient, product = point.slopes
        return gradient - gradient.mean(), product - point.value

    def curvature_along(self, point, g):
        """One pass."""
        return float(self._sum(curvature_sums, point.u, point.b, g)[0])

    def hessian(self, point):
        """One pass, where a K×K matrix is small enough to send."""
        if self.K > HESSIAN_NODES:
            return None
        return profiled_hessian(self._sum(hessian_sums, point.u, point.b)[0], self.K)

    def values_without_target(self):
        """Loss at the best constant score, and at 0."""
        return constant_losses(self.loss, self.y, self.s, self.request.fit_intercept)

    def finish(self, f, Df, b):
        """No scores, which stay with the blocks."""
        return None, full_intercept(b, self.n_outputs)
