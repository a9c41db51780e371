"""What the methods of the f-step share: the best target so far, its certificate, and the result."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from suquan.solvers._target_data import Data
from suquan.solvers._target_set import Target, Vector

_FLOOR = 1e-6  # gaps are relative to J, or to this share of the best constant score's J


@dataclass(frozen=True)
class TargetFit:
    """Result of :func:`suquan.solvers.target.solve_target`.

    Attributes
    ----------
    f : ndarray of shape (K,)
        Target quantiles: in the set, with sum 0.
    b : float, or ndarray of shape (n_outputs,)
        Intercept; it sums to 0 over the outputs of a softmax loss.
    u : ndarray of shape (n_rows,) or (n_rows, n_outputs)
        Scores D f + b.
    objective : float
        J(f, b).
    n_iter : int
        Iterations, each of about two products with D.
    gap : float
        Certified bound on (J − J*) / J, up to the rounding of products with D.
    converged : bool
        Whether ``gap`` ≤ ``tol``.
    """

    f: Vector
    b: float | Vector
    u: Vector
    objective: float
    n_iter: int
    gap: float
    converged: bool


class Record:
    """The best target and the best lower bound so far."""

    def __init__(self, data: Data, target: Target, f, tol, max_iter):
        self.data, self.target, self.tol, self.max_iter = data, target, tol, max_iter
        self.n_iter = 0
        constant, zero = data.values_without_target()
        self.scale = max(_FLOOR * constant, 1e-12 * zero, 1e-300)
        self.lower = 0.0
        self.objective = np.inf
        self.Df = data.scores(f)
        self.update_primal(f, self.Df)
        g = data.pull_back(data.dual_point(self.u))
        self.update_dual(self.u, data.dual_point(self.u), g, 0.0)
        self.g = g

    def update_primal(self, f, Df):
        """Offer a target; return its profiled scores and objective."""
        u, b = self.data.profile(Df)
        objective = self.data.value(u) + self.target.penalty(f)
        if objective < self.objective:
            self.f, self.Df, self.u, self.b, self.objective = f, Df, u, b, objective
        return u, objective

    def update_dual(self, u, a, g, multiplier):
        """Offer a dual point a = dual_point(u) with g = Dᵀa centred; a sums to 0 over samples."""
        bound = self.target.conjugate(-g, multiplier, float(np.linalg.norm(self.f)))
        if not self.target.bounded and self.target.smoothness == 0.0:
            self.lower = 0.0  # the certified region moves with f
        self.lower = max(self.lower, -self.data.conjugate(u, a) - bound)

    @property
    def gap(self):
        return max(0.0, self.objective - self.lower) / max(self.objective, self.scale)

    @property
    def done(self):
        return self.gap <= self.tol or self.n_iter >= self.max_iter

    def result(self):
        u, b = self.data.all_scores(self.f, self.Df, self.b)
        gap = float(self.gap)
        return TargetFit(self.f, b, u, self.objective, self.n_iter, gap, bool(gap <= self.tol))
