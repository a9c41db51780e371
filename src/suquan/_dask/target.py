"""The f-step on blocks: the same methods as in memory, for which scores are named and not held.

The scores of all rows at a target f and an intercept b are linear in (f, b), so that (f, b) stands for them:
the methods combine scores linearly, and ask for sums of losses and derivatives, which are passes over the
blocks. No vector with an entry per sample is ever sent.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from functools import partial
from math import factorial
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.polynomial import polynomial
from scipy.special import expit

from suquan._dask.blocks import Blocks, RankedBlock
from suquan._dask.linear import token_of
from suquan.losses import Loss, Softmax, Squared
from suquan.objective import JointProblem
from suquan.solvers._fits import null_intercept
from suquan.solvers._target_data import Data
from suquan.solvers._target_rows import DenseRows, DistributedRows
from suquan.solvers.alternation import FoldModels

HESSIAN_NODES = 4096  # largest K whose K×K Hessian is sent: 134 MB
_ORDER = 8  # derivatives of the loss in the intercept that a pass gives
# Shift of the intercept up to which they give its loss to 1e-12: the series converges within π.
_TRUSTED = 0.15
_FARTHEST = 4.0  # longest step of the intercept, as in memory
_NEGLIGIBLE = 1e-18
_REMEMBERED = 16


@dataclass(frozen=True)
class BlockProblem(JointProblem):
    """The problem on the samples of one block, with the designs' type of the whole."""

    design_dtype: Any = np.float64

    @property
    def dtype(self) -> type:
        """Type of the designs."""
        return self.design_dtype


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

    def data(self, block: RankedBlock) -> Data:
        """Rows of a block with their labels and weights."""
        make = partial(self._make, block)
        return block.remembered("rows", token_of(self.W), make, keep=self.keep, alone=True)

    def _make(self, block: RankedBlock) -> Data:
        problem = BlockProblem(
            block.operator, self.loss, block.y, block.s, 0.0, 0.0, 0.0,
            self.n_knots, self.fit_intercept, self.dtype,
        )  # fmt: skip
        D: Any
        if not self.crossed:
            D, y, s = problem.f_design(self.W[0]), block.y, block.s
        else:
            none = np.empty(0, np.intp)
            folds = FoldModels([(none, np.flatnonzero(test)) for test in block.tests], block.s)
            s = block.s[folds.rows]
            if not len(s):
                return self._no_rows(block)
            models: Any = [SimpleNamespace(w=w) for w in self.W]
            D, y, _ = folds.stack(problem, models, np.empty(0))
        rows = DenseRows(D) if isinstance(D, np.ndarray) else D
        return Data(rows, self.loss, y, s / self.weight, self.fit_intercept)

    def _no_rows(self, block: RankedBlock) -> Data:
        D = DenseRows(np.empty((0, self.n_knots), self.dtype))
        return Data(D, self.loss, block.y[:0], block.s[:0], self.fit_intercept)


# -- what blocks compute ------------------------------------------------------------------------------


def _scores(block: RankedBlock, data: Data, W: np.ndarray, f: np.ndarray, b: Any) -> np.ndarray:
    """Scores of a block's rows at (f, b)."""
    Df = block.remembered("Df", token_of(W, f), partial(data.scores, f), keep=True)
    return Df + data.shifts @ b


def intercept_sums(
    block: RankedBlock, request: RowsRequest, f: np.ndarray, b: np.ndarray
) -> list[np.ndarray]:
    """Loss at (f, b) and its derivatives in the intercept: of order 1 to 8, or gradient and Hessian."""
    data = request.data(block)
    u = _scores(block, data, request.W, f, b)
    if not isinstance(request.loss, Softmax):
        return [score_derivatives(request.loss, data.y, u) @ data.s]
    X = data.root(u)[0](data.shifts)
    return [np.array(data.value(u)), data.dual_point(u) @ data.shifts, X.T @ X]


def gradient_sums(
    block: RankedBlock, request: RowsRequest, f: np.ndarray, b: np.ndarray
) -> list[np.ndarray]:
    """Loss at (f, b), the product of its derivative in the scores with these, and its gradient in f."""
    data = request.data(block)
    u = _scores(block, data, request.W, f, b)
    a = data.dual_point(u)
    return [np.array([data.value(u), a @ u]), data.D.adjoint(a)]


def curvature_sums(
    block: RankedBlock, request: RowsRequest, f: np.ndarray, b: np.ndarray, g: np.ndarray
) -> list[np.ndarray]:
    """Second derivative of the loss at (f, b) along g."""
    data = request.data(block)
    return [np.array(data.curvature_along(_scores(block, data, request.W, f, b), g))]


def hessian_sums(
    block: RankedBlock, request: RowsRequest, f: np.ndarray, b: np.ndarray
) -> list[np.ndarray]:
    """Hessian of the loss in (f, b)."""
    data = request.data(block)
    return [data.hessian_sums(_scores(block, data, request.W, f, b))]


def rows_and_labels(block: RankedBlock, request: RowsRequest) -> list[np.ndarray]:
    """The rows themselves, with labels and weights; only where all blocks have fewer rows than K."""
    data = request.data(block)
    for_each = data.D.chunks(max(1, len(data.y)), data.n_outputs)
    D = np.empty(data.D.shape, request.dtype)
    for samples, part in for_each:
        rows = (samples[:, None] * data.n_outputs + np.arange(data.n_outputs)).ravel()
        D[rows] = part
    return [D, data.y, data.s]


def score_derivatives(loss: Loss, y: np.ndarray, u: np.ndarray) -> np.ndarray:
    """Derivatives of order 0 to 8 of the loss in the score, of shape (9, n_rows)."""
    out = np.zeros((_ORDER + 1, len(u)))
    out[0], out[1], out[2] = loss.value(y, u), loss.gradient(y, u), loss.curvature(y, u)
    if isinstance(loss, Squared):
        return out
    sigmoid = expit(u)
    for order in range(3, _ORDER + 1):
        out[order] = polynomial.polyval(sigmoid, _SIGMOID_DERIVATIVES[order - 1])
    return out


def _sigmoid_derivatives(n: int) -> list[np.ndarray]:
    """Derivatives of the sigmoid as polynomials in it: σ' = σ − σ²."""
    derivatives = [np.array([0.0, 1.0])]
    for _ in range(n):
        slope = polynomial.polyder(derivatives[-1])
        derivatives.append(polynomial.polymul(slope, np.array([0.0, 1.0, -1.0])))
    return derivatives


_SIGMOID_DERIVATIVES = _sigmoid_derivatives(_ORDER)


# -- the driver's side --------------------------------------------------------------------------------


class BlockRowsOfTarget(DistributedRows):
    """The f-step's rows of all blocks.

    Parameters
    ----------
    blocks : Blocks
    request : RowsRequest
    n_rows : int
    y, s : ndarray of shape (n_samples,)
        Labels and weights of sum 1 of the samples; the weight of a sample is that of all its rows.
    """

    def __init__(
        self, blocks: Blocks, request: RowsRequest, n_rows: int, y: np.ndarray, s: np.ndarray
    ) -> None:
        self.blocks, self.request, self.y, self.s = blocks, request, y, s
        self.shape = (n_rows * request.loss.n_outputs, request.n_knots)

    def data(self, loss: Loss, fit_intercept: bool) -> Data:
        """Sums over the rows; or the rows, where they are fewer than one Hessian has."""
        if self.shape[0] > self.shape[1]:
            return SummedData(self)
        parts = self.blocks.collect(rows_and_labels, self.request)
        D, y, s = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
        return Data(DenseRows(D), loss, y, s, fit_intercept)


class SummedData(Data):
    """The loss side of the f-step where scores are known by their (f, b) and all else by passes.

    ``scores(f)`` is f; scores with an intercept are the vector of both; a dual point is that of its scores.
    """

    def __init__(self, rows: BlockRowsOfTarget) -> None:
        request = rows.request
        self.rows, self.request, self.blocks = rows, request, rows.blocks
        self.loss, self.n_outputs = request.loss, request.loss.n_outputs
        self.fit_intercept = request.fit_intercept
        self.n_scores, self.K = rows.shape
        n_free = max(1, self.n_outputs - 1) if request.fit_intercept else 0
        self._b = self._null_b(n_free)
        self._values: OrderedDict[bytes, float] = OrderedDict()
        self._products: OrderedDict[bytes, float] = OrderedDict()

    solves_dual = False

    @property
    def forms_hessian(self) -> bool:  # type: ignore[override]
        """Whether a K×K matrix is small enough to send."""
        return self.K <= HESSIAN_NODES

    def scores(self, f):
        """Name of the scores at f without an intercept."""
        return np.array(f, dtype=np.float64)

    def value(self, u):
        """Σ s ℓ(y, u), known from the pass that led to u."""
        known = self._values.get(u.tobytes())
        return self._gradient(u)[0] if known is None else known

    def dual_point(self, u):
        """Name of the gradient in the scores u."""
        return u

    def pull_back(self, a):
        """Gradient in f among vectors of sum 0, at the scores whose dual point is a."""
        gradient = self._gradient(a)[1]
        return gradient - gradient.mean()

    def conjugate(self, u, a):
        """Conjugate of the loss at the dual point of u."""
        known = self._products.get(u.tobytes())
        return (self._gradient(u)[2] if known is None else known) - self.value(u)

    def curvature_along(self, u, g):
        """Second derivative of the loss at the scores u when the target moves along g."""
        return float(self._sum(curvature_sums, *self._parts(u), g)[0])

    def hessian_sums(self, u):
        """Hessian of the loss in (f, b)."""
        return self._sum(hessian_sums, *self._parts(u))[0]

    def values_without_target(self):
        """Σ s ℓ(y, b) at the best constant score b, and at 0."""
        y, s, shape = self.rows.y, self.rows.s, (len(self.rows.y), self.n_outputs)
        b = null_intercept(self.loss, y, s) if self.fit_intercept else np.zeros(self.n_outputs)
        values = []
        for constant in (b, np.zeros(self.n_outputs)):
            u = np.broadcast_to(constant, shape)
            values.append(float(s @ self.loss.value(y, u if self.n_outputs > 1 else u[:, 0])))
        return tuple(values)

    def all_scores(self, f, Df, b):
        """No scores, which stay with the blocks, and the intercept as users know it."""
        return None, self.full_intercept(b)

    def profile(self, u):
        """Add the best intercept to the name of scores without one."""
        f = u
        if isinstance(self.loss, Softmax):
            b, value = self._softmax_intercept(f)
        else:
            b, value = self._scalar_intercept(f)
        self._b = b
        named = np.concatenate([f, b])
        self._remember(self._values, named, value)
        return named, b

    def _null_b(self, n_free: int) -> np.ndarray:
        """Intercept without a target: where the first search begins."""
        if n_free == 0:
            return np.zeros(0)
        b = null_intercept(self.loss, self.rows.y, self.rows.s)
        return b if self.n_outputs == 1 else b[:-1] - b[-1]

    def _scalar_intercept(self, f) -> tuple[np.ndarray, float]:
        """Newton's method from the last intercept; the last steps need no pass, by the Taylor series."""
        b = self._b
        if not len(b):
            return b, float(self._sum(intercept_sums, f, b)[0][0])
        reach = np.inf if isinstance(self.loss, Squared) else _TRUSTED
        (derivatives,) = self._sum(intercept_sums, f, b)
        for _ in range(100):
            value = derivatives[0]
            found = _minimise_series(derivatives, reach)
            if found is not None:
                return b + found[0], found[1]
            step = -derivatives[1] / (derivatives[2] * (1.0 + 1e-14) + 1e-300)
            step = float(np.clip(step, -_FARTHEST, _FARTHEST))
            if value <= _NEGLIGIBLE:
                return b, value
            for _ in range(30):
                (new,) = self._sum(intercept_sums, f, b + step)
                if new[0] <= value + 1e-4 * step * derivatives[1]:
                    break
                step *= 0.5
            else:
                return b, value
            b, derivatives = b + step, new
        return b, float(derivatives[0])

    def _softmax_intercept(self, f) -> tuple[np.ndarray, float]:
        """Newton's method from the last intercept, one pass per step; as in memory."""
        b = self._b
        value, gradient, hessian = self._sum(intercept_sums, f, b)
        if not len(b):
            return b, float(value)
        for _ in range(100):
            hessian[np.diag_indices_from(hessian)] += 1e-14 * np.trace(hessian) + 1e-300
            step = -np.linalg.solve(hessian, gradient)
            step *= min(1.0, _FARTHEST / np.max(np.abs(step), initial=1e-300))
            decrement = -float(step @ gradient)
            last = decrement <= 1e-12 * value or value <= _NEGLIGIBLE
            for _ in range(30):
                new = self._sum(intercept_sums, f, b + step)
                if new[0] <= value - 1e-4 * decrement or (last and decrement <= 1e-6 * value):
                    break
                step, decrement = 0.5 * step, 0.5 * decrement
            else:
                break
            b, (value, gradient, hessian) = b + step, new
            if last:
                break
        return b, float(value)

    def _gradient(self, u) -> tuple[float, np.ndarray, float]:
        (value, product), gradient = self._sum(gradient_sums, *self._parts(u))
        self._remember(self._values, u, float(value))
        self._remember(self._products, u, float(product))
        return float(value), gradient, float(product)

    def _parts(self, u) -> tuple[np.ndarray, np.ndarray]:
        return u[: self.K], u[self.K :]

    def _sum(self, function, *arguments) -> list[np.ndarray]:
        return self.blocks.sum(function, self.request, *arguments)

    def _remember(self, known: OrderedDict, u, value: float) -> None:
        known.pop(u.tobytes(), None)
        known[u.tobytes()] = value
        if len(known) > _REMEMBERED:
            known.popitem(last=False)


def _minimise_series(derivatives: np.ndarray, reach: float) -> tuple[float, float] | None:
    """Shift within `reach` that minimises the Taylor series, with its value; None where there is none."""
    series = derivatives / [factorial(k) for k in range(len(derivatives))]
    slope, curvature = polynomial.polyder(series), polynomial.polyder(series, 2)
    if not derivatives[2] > 0.0:
        return None
    shift: Any = 0.0
    for _ in range(50):
        bend = polynomial.polyval(shift, curvature)
        if not bend > 0.0:
            return None
        step = -polynomial.polyval(shift, slope) / bend
        shift += step
        if not abs(shift) <= reach:
            return None
        if abs(step) <= 1e-15 * max(1.0, abs(shift)):
            break
    return float(shift), float(polynomial.polyval(shift, series))
