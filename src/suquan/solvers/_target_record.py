"""What the methods of the f-step share: the best target so far, its certificate, proximal gradient steps."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from suquan.solvers._target_data import LossSide, Scored
from suquan.target_sets import TargetSet

Vector = NDArray[np.float64]

_FLOOR = 1e-6  # gaps are relative to J, or to this share of the best constant score's J
_REACH = 4.0  # norm, in units of f's, up to which a gap without bound and smoothness is certified
FLATTEST = 1e-9  # curvature, in units of the smoothness, that a step treats as none


@dataclass(frozen=True)
class TargetFit:
    """Result of :func:`suquan.solvers.target.solve_target`.

    Attributes
    ----------
    f : ndarray of shape (K,)
        Target quantiles: in the set, with sum 0.
    b : float, or ndarray of shape (n_outputs,)
        Intercept; it sums to 0 over several outputs.
    u : ndarray of shape (n_rows,) or (n_rows, n_outputs), or None
        Scores D f + b, where the rows are at hand.
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
    u: Vector | None
    objective: float
    n_iter: int
    gap: float
    converged: bool


class Record:
    """The best target and the best lower bound so far.

    Attributes
    ----------
    f, Df : ndarray
        The best target and its scores without an intercept.
    point : Scored
        These scores with the best intercept.
    g : ndarray of shape (K,)
        Gradient at the start.
    objective, lower : float
        J at f, and the certified bound.
    """

    def __init__(self, data: LossSide, target: TargetSet, f: Vector, tol: float, max_iter: int):
        self.data, self.target, self.tol, self.max_iter = data, target, tol, max_iter
        self.n_iter = 0
        constant, zero = data.values_without_target()
        self.scale = max(_FLOOR * constant, 1e-12 * zero, 1e-300)
        self.lower, self.objective, self.reach = 0.0, np.inf, 0.0
        f, Df, point = self._finite_start(f)
        self.f, self.Df, self.point = f, Df, point
        self.update_primal(f, Df, point)
        self.g = self.update_dual(point)

    def _finite_start(self, f: Vector) -> tuple[Vector, Vector, Scored]:
        """The start with its scores; a multiple of it where the scores are so large that the loss overflows."""
        data, before = self.data, np.inf
        for n_halvings in range(60):
            Df = data.scores(f)
            point = data.profile(Df)
            if np.isfinite(point.value) and (n_halvings == 0 or point.value > 0.5 * before):
                return f, Df, point
            f, before = self.target.make_feasible(0.5 * f), point.value
        raise ValueError("the loss is not finite at any multiple of the start.")

    def update_primal(
        self, f: Vector, Df: Vector, point: Scored | None = None
    ) -> tuple[Scored, float]:
        """Offer a target; return its scores with the best intercept, and its objective."""
        point = self.data.profile(Df) if point is None else point
        objective = point.value + self.target.penalty(f)
        if objective < self.objective:
            self.f, self.Df, self.point, self.objective = f, Df, point, objective
            norm = max(float(np.linalg.norm(f)), np.sqrt(len(f)))
            if 2.0 * norm > self.reach:  # the certified region moves with f
                self.reach, self.lower = _REACH * norm, 0.0
        return point, objective

    def update_dual(self, point: Scored) -> Vector:
        """Offer the dual point of some scores; return the gradient there."""
        g, conjugate = self.data.gradient(point)
        self.offer_dual(g, conjugate)
        return g

    def offer_dual(self, g: Vector, conjugate: float) -> None:
        """Offer a dual point, known by Dᵀa and the loss's conjugate at a; a sums to 0 over samples."""
        self.lower = max(self.lower, -conjugate - self.target.conjugate(-g, self.reach))

    @property
    def gap(self) -> float:
        """Bound on (J − J*) / J."""
        return max(0.0, self.objective - self.lower) / max(self.objective, self.scale)

    @property
    def done(self) -> bool:
        """Whether the gap is small enough, or the iterations are used up."""
        return self.gap <= self.tol or self.n_iter >= self.max_iter

    def result(self) -> TargetFit:
        """The best target with its certificate."""
        u, b = self.data.finish(self.f, self.Df, self.point.b)
        gap = float(self.gap)
        return TargetFit(self.f, b, u, self.objective, self.n_iter, gap, bool(gap <= self.tol))


def accelerated(record: Record, budget: int | None = None) -> None:
    """Accelerated proximal gradient with backtracking and restarts, the intercept minimised out.

    It needs no second derivatives, so that it works for every set. `budget` bounds its iterations.
    """
    if record.done or budget == 0:
        return
    data, target = record.data, record.target
    f = f_old = record.f
    Df = Df_old = record.Df
    theta, step = 1.0, _first_step(record)
    shortest = 1e-15 * step
    last = record.max_iter if budget is None else record.n_iter + budget
    while not record.done and record.n_iter < last:
        record.n_iter += 1
        theta_new = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * theta * theta))
        momentum = (theta - 1.0) / theta_new
        z, Dz = f + momentum * (f - f_old), Df + momentum * (Df - Df_old)
        point = data.profile(Dz)
        if not np.isfinite(point.value):  # the momentum led where the loss overflows
            z, Dz, theta_new = f, Df, 1.0
            point = data.profile(Dz)
        g = record.update_dual(point)
        while True:
            new = target.prox(z - step * g, step)
            D_new = data.scores(new)
            new_point, _ = record.update_primal(new, D_new)
            move = new - z
            model = point.value + float(g @ move) + float(move @ move) / (2.0 * step)
            if new_point.value <= model + 1e-12 * abs(model):
                break
            step *= 0.5
            if not step > shortest:  # also where the first step is 0 or no number
                return
        if float((z - new) @ (new - f)) > 0.0:
            theta_new = 1.0
        f_old, Df_old, f, Df, theta = f, Df, new, D_new, theta_new
        step *= 1.02


def _first_step(record: Record) -> float:
    """Inverse curvature of the loss along the gradient, within reason; backtracking corrects it."""
    norm = float(np.linalg.norm(record.g))
    if norm == 0.0:
        return 1.0
    curvature = record.data.curvature_along(record.point, record.g) / norm**2
    return 1.0 / max(curvature, FLATTEST * record.target.smoothness, 1e-3 * norm / record.reach)
