"""The f-step on blocks: proximal Newton, whose sums over rows are passes over the blocks.

One pass gives the loss at (f, b), its gradient and its Hessian of K knots; the driver minimises that model over
the set with the engine of the f-step in memory. No vector with an entry per sample is ever sent. Where K is so
large that the Hessian is not sent, proximal gradient takes a pass for every evaluation.
``suquan._dask.problem`` makes a :class:`RowsRequest` and calls :func:`solve_target_on_blocks`.
"""

from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from suquan._dask.blocks import Blocks, RankedBlock
from suquan._dask.linear import token_of
from suquan.losses import Loss
from suquan.model.problem import JointProblem
from suquan.solvers._products import Array, column_products, one_blas_thread, row_products
from suquan.solvers.ridge import damped_curvature
from suquan.solvers.target import FLOOR, TargetFit, minimise_target
from suquan.target_sets import TargetSet, find_target_set

HESSIAN_NODES = 4096  # largest K whose K×K Hessian is sent: 134 MB
_MAX_NEWTON = 50
# Share of the secant's curvature that the model of a loss has at least.
_DAMPING = 0.1
# Accuracy of the minimiser of a model, in units of that of the f-step.
_MODEL_TOL = 1e-3


class Rows:
    """Rows of the f-step in one block, with their labels and weights.

    Parameters
    ----------
    D : ndarray of shape (n_rows * n_outputs, K)
    loss : Loss
    y, s : ndarray of shape (n_rows,)
    fit_intercept : bool
    """

    def __init__(self, D: Array, loss: Loss, y: Array, s: Array, fit_intercept: bool):
        self.D, self.loss, self.y, self.s = D, loss, y, s
        n_free = n_free_intercepts(loss, fit_intercept)
        # Column k shifts the scores of output k; the last output of several is the reference.
        self.shifts = np.tile(np.eye(loss.n_outputs)[:, :n_free], (len(y), 1))

    def scores(self, x: Array) -> Array:
        """Scores at x = (f, b)."""
        K = self.D.shape[1]
        return row_products(self.D, x[None, :K])[0] + self.shifts @ x[K:]

    def hessian(self, u: Array) -> Array:
        """Hessian of the loss in (f, b)."""
        X = np.hstack([self.D, self.shifts.astype(self.D.dtype)])
        curvature = damped_curvature(self.loss, self.y, u, self.s, _DAMPING)
        return X.T @ curvature.product(X)


def n_free_intercepts(loss: Loss, fit_intercept: bool) -> int:
    """Intercepts that are searched for: one, or one less than there are outputs."""
    return max(1, loss.n_outputs - 1) if fit_intercept else 0


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

    def rows(self, block: RankedBlock) -> Rows:
        """Rows of a block with their labels and weights."""
        make = partial(self._make, block)
        return block.remembered("rows", token_of(self.W), make, keep=self.keep, alone=True)

    def _make(self, block: RankedBlock) -> Rows:
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
        return Rows(D, self.loss, block.y[rows], s, self.fit_intercept)


# -- what blocks compute ------------------------------------------------------------------------------


def evaluation_sums(
    block: RankedBlock, request: RowsRequest, x: np.ndarray, with_hessian: bool
) -> list[np.ndarray]:
    """Loss at x = (f, b), its gradient and, where asked for, its Hessian."""
    with np.errstate(over="ignore", invalid="ignore"):  # an infinite loss is refused
        rows = request.rows(block)
        u = block.remembered("u", token_of(request.W, x), partial(rows.scores, x), keep=True)
        a = rows.loss.gradient(rows.y, u, rows.s)
        gradient = np.concatenate([column_products(rows.D, a[None])[0], a @ rows.shifts])
        sums = [np.array(rows.loss.value(rows.y, u, rows.s)), gradient]
        return [*sums, rows.hessian(u)] if with_hessian else sums


# -- the driver's side --------------------------------------------------------------------------------


@dataclass
class BlockRows:
    """Rows of the f-step that lie with the blocks.

    Attributes
    ----------
    blocks : Blocks
    request : RowsRequest
    y, s : ndarray of shape (n_samples,)
        Labels and weights of sum 1 of the samples; the weight of a sample is that of all its rows.
    """

    blocks: Blocks
    request: RowsRequest
    y: np.ndarray
    s: np.ndarray
    _last: tuple[bytes, list] = field(default=(b"", []), init=False, repr=False)

    def evaluate(self, x: np.ndarray, with_hessian: bool) -> list:
        """Loss, gradient and Hessian at x = (f, b), in one pass."""
        token = token_of(x)
        if self._last[0] != token or len(self._last[1]) < 2 + with_hessian:
            sums = self.blocks.sum(evaluation_sums, self.request, x, with_hessian)
            self._last = token, [float(sums[0]), *sums[1:]]
        return self._last[1]

    # As the engine sees it: the scores at x are known by x, in which they are linear.

    def scores(self, x):
        """Name of the scores at x."""
        return x

    def value(self, u):
        """Loss."""
        return self.evaluate(u, False)[0]

    def gradient(self, u):
        """Gradient in x; targets have sum 0, so that a common part of their entries does not count."""
        g, K = self.evaluate(u, False)[1].copy(), self.request.n_knots
        g[:K] -= g[:K].mean()
        return g


class _Model:
    """Second-order model of the loss in f around a target, the intercepts minimised out of it.

    The engine gets ½ (f' − f)ᵀ S (f' − f) + g·(f' − f) + value, with S and g of targets of sum 0.
    """

    def __init__(self, value: float, g: Array, H: Array, f: Array):
        K, self.f, self.offset = len(f), f, value
        inner = H[K:, K:]
        inner = inner + np.eye(len(inner)) * (1e-14 * np.trace(inner) + 1e-300)
        self._inner, self._cross, self._g_b = inner, H[K:, :K], g[K:]
        self.S = H[:K, :K] - self._cross.T @ np.linalg.solve(inner, self._cross)
        self.g = g[:K] - self._cross.T @ np.linalg.solve(inner, self._g_b)
        self.g -= self.g.mean()
        self.S -= self.S.mean(axis=0)
        self.S -= self.S.mean(axis=1, keepdims=True)

    def scores(self, f):
        """S f, and f itself: linear in f."""
        return np.stack([self.S @ f, f])

    def value(self, u):
        """The model at f."""
        move = u[1] - self.f
        return self.offset + float(move @ (0.5 * (u[0] - self.S @ self.f) + self.g))

    def gradient(self, u):
        """Its gradient."""
        return u[0] - self.S @ self.f + self.g

    def step(self, f: Array) -> Array:
        """Step in (f, b) to the target f and the best intercepts there."""
        move = f - self.f
        return np.concatenate([move, -np.linalg.solve(self._inner, self._g_b + self._cross @ move)])


def solve_target_on_blocks(
    rows: BlockRows,
    g: np.ndarray,
    *,
    target_set: Any,
    smoothness: float,
    tol: float,
    max_iter: int,
) -> TargetFit:
    """Best target and intercept for rows on blocks; see :func:`suquan.solvers.target.solve_target`."""
    request, loss = rows.request, rows.request.loss
    if loss.couples_samples:
        raise ValueError(
            f"the loss {loss.name!r} is no sum over samples, so that blocks cannot add it up. Fit in "
            "memory, or choose another loss."
        )
    target = find_target_set(target_set).at(smoothness)
    constant = (
        loss.best_constant(rows.y, rows.s) if request.fit_intercept else np.zeros(loss.n_outputs)
    )
    floor = FLOOR * loss.value(rows.y, np.tile(constant, len(rows.y)), rows.s)
    n_free = n_free_intercepts(loss, request.fit_intercept)
    b = constant[:n_free] if loss.n_outputs == 1 else constant[:n_free] - constant[-1]
    x = np.concatenate([target.make_feasible(g), b])
    K = request.n_knots
    with one_blas_thread(), np.errstate(over="ignore", invalid="ignore"):
        if K <= HESSIAN_NODES:
            x, J, n_iter, gap = _proximal_newton(rows, target, x, tol, floor)
        else:
            x, J, n_iter, gap = minimise_target(
                rows, target, x, K, tol=tol, floor=floor, max_iter=max_iter
            )
    full = np.zeros(loss.n_outputs)
    full[:n_free] = x[K:]
    full -= full.mean() if loss.n_outputs > 1 else 0.0
    b = float(full[0]) if loss.n_outputs == 1 else full
    return TargetFit(x[:K], b, J, n_iter, gap, gap <= tol)


def _proximal_newton(
    rows: BlockRows, target: TargetSet, x: np.ndarray, tol: float, floor: float
) -> tuple[np.ndarray, float, int, float]:
    """Minimiser, J, passes with a Hessian, and the fall of J that the last model promised, relative to J.

    The intercepts are minimised out of the model, so that the engine works on the target alone.
    """
    K, gap, n_iter = rows.request.n_knots, np.inf, 0
    J = rows.value(x) + target.penalty(x[:K])
    while gap > tol and n_iter < _MAX_NEWTON:
        n_iter += 1
        value, g, H = rows.evaluate(x, True)
        model, scale = _Model(value, g, H, x[:K]), max(J, floor)
        best = minimise_target(model, target, x[:K], K, tol=_MODEL_TOL * tol, floor=scale)
        gap, step, t = (J - best.objective) / scale, model.step(best.x), 1.0
        while t > 1e-10:
            J_new = rows.value(x + t * step) + target.penalty(x[:K] + t * step[:K])
            if J_new <= J - 1e-4 * t * gap * scale:
                x, J = x + t * step, J_new
                break
            t *= 0.5
        else:
            break  # no length lowers J: what is promised is rounding
    return x, J, n_iter, gap
