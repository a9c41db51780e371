"""The f-step on blocks: proximal Newton, whose sums over rows are passes over the blocks.

One pass gives the loss at (b, f), its gradient and its Hessian of K knots. The driver minimises that model over
the set of targets with the engine of the f-step in memory. :mod:`suquan._dask.problem` makes a
:class:`BlockRows` for every f-step.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular

from suquan._curvature import damped_hessian
from suquan._dask.blocks import Arrays, BlockOperator, RankedBlock
from suquan.losses import Squared
from suquan.model.problem import JointProblem
from suquan.solvers._products import Array, cholesky
from suquan.solvers.proximal import ScoredLoss
from suquan.solvers.target import FLOOR, TargetFit, minimise_target
from suquan.target_sets import find_target_set

_MAX_NEWTON, _MAX_HALVINGS = 50, 40
# Share of the secant's curvature that the model of a loss has at least.
_DAMPING = 0.1
# Accuracy of the minimiser of a model, in units of that of the f-step.
_MODEL_TOL = 1e-3
# Share of its diagonal that is added to a Hessian: targets of sum 0 leave one direction without curvature.
_JITTER = 1e-10


def target_sums(
    block: RankedBlock, problem: JointProblem, W: Array, models: Array, total: float, x: Array
) -> Arrays:
    """Loss at x = (b, f), its gradient and its Hessian."""
    own, n_outputs = block.problem(problem), problem.loss.n_outputs
    value, gradient, hessian = np.zeros(()), np.zeros(len(x)), np.zeros((len(x), len(x)))
    for w, scored in zip(W, block.test[models], strict=True):
        samples = np.flatnonzero(scored)
        if len(samples):
            D = own.f_design(w, samples).astype(np.float64)
            D -= D.mean(axis=1, keepdims=True)  # the same scores: f has sum 0
            shifts = np.eye(n_outputs, n_outputs * own.fit_intercept)
            X = np.hstack([np.tile(shifts, (len(samples), 1)), D])
            at = block.y[samples], X @ x, block.s[samples] / total
            value += own.loss.value(*at)
            gradient += own.loss.gradient(*at) @ X
            hessian += X.T @ damped_hessian(own.loss, *at, _DAMPING).product(X)
    return [value, gradient, hessian]


@dataclass(frozen=True)
class BlockRows:
    """Rows of the f-step that lie with the blocks.

    They are of a problem without samples, under the `models` of these numbers and coefficients W, of shape
    (n_models, n_outputs, n_features). A sample's weight is that of all its rows.
    """

    operator: BlockOperator
    problem: JointProblem
    W: Array
    models: Array
    y: Array
    weights: Array

    def solve(
        self, g: Array, *, target_set: Any, smoothness: float, tol: float, max_iter: int
    ) -> TargetFit:
        """Best target and intercept from the target g; see :func:`suquan.solvers.target.solve_target`."""
        problem, loss, y = self.problem, self.problem.loss, self.y
        total, n_outputs = float(self.weights.sum()), loss.n_outputs
        s, target = self.weights / total, find_target_set(target_set).at(smoothness)
        b = loss.best_constant(y, s) if problem.fit_intercept else np.zeros(n_outputs)
        floor = FLOOR * loss.value(y, np.tile(b, len(y)), s)
        n_free = n_outputs * problem.fit_intercept
        at: dict[str, Any] = {"problem": problem, "W": self.W, "models": self.models}
        of_block = partial(target_sums, total=total, **at)

        def evaluate(x: Array) -> tuple[float, Array, Array]:
            """J, and the gradient and the Hessian of the loss, in one pass."""
            value, gradient, hessian = self.operator.sum(partial(of_block, x=x))
            return float(value) + target.penalty(x[n_free:]), gradient, hessian

        x, gap, n_iter = np.concatenate([b[:n_free], target.make_feasible(g)]), np.inf, 0
        J, gradient, hessian = evaluate(x)
        while gap > tol and n_iter < _MAX_NEWTON:
            n_iter += 1
            goal = {"tol": _MODEL_TOL * tol, "floor": max(J, floor), "max_iter": max_iter}
            best, fall = _minimise_model(gradient, hessian, x, n_free, target, goal)
            gap = fall / max(J, floor)
            for t in 0.5 ** np.arange(_MAX_HALVINGS):
                new = x + t * (best - x)
                J_new, gradient, hessian = evaluate(new)
                if J_new <= J - 1e-4 * t * fall:
                    break
            else:
                break  # no length lowers J: what is promised is rounding
            x, J = new, J_new
        b[:n_free] = x[:n_free]
        intercept = float(b[0]) if n_outputs == 1 else b - b.mean()
        return TargetFit(x[n_free:], intercept, J, n_iter, float(gap), bool(gap <= tol))


def _minimise_model(
    g: Array, H: Array, x: Array, n_free: int, target: Any, goal: dict
) -> tuple[Array, float]:
    """Minimiser (b, f) of the second-order model of J around x, and how far J falls there.

    With H = RᵀR the model is ½‖R x − t‖². Intercepts stand first: the upper rows of R tell the best ones for
    any target, and the others are a problem in f alone.
    """
    R = np.tril(cholesky(H + np.diag(_JITTER * np.diagonal(H)))[0]).T
    t = R @ x - solve_triangular(R, g, trans="T")
    f, t_b, inner = x[n_free:], t[:n_free], R[:n_free, :n_free]
    smooth = ScoredLoss(R[n_free:, n_free:], Squared(), t[n_free:], np.full(len(f), 0.5))
    best = minimise_target(smooth, target, f, len(f), **goal)
    b = solve_triangular(inner, t_b - R[:n_free, n_free:] @ best.x) if n_free else t_b
    before = 0.5 * float(np.sum((R @ x - t) ** 2)) + target.penalty(f)
    return np.concatenate([b, best.x]), before - best.objective
