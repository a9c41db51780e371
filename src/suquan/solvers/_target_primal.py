"""The f-step for more rows than K: minimise quadratic models, with the K×K Hessian, over the set.

Called by :mod:`suquan.solvers.target`, for sets that know their faces.
"""

from typing import Any

import numpy as np
from scipy.linalg import LinAlgError, cho_solve

from suquan.solvers._target_data import LossSide, backtrack
from suquan.solvers._target_dual import add_band, factorised
from suquan.solvers._target_record import FLATTEST, Record, Vector
from suquan.target_sets import Face, TargetSet

_PATIENCE = 5  # iterations that may leave the gap where it is
_CHECK_EVERY = 8  # proximal steps on a model between looks at its gap


def primal_newton(data: LossSide, record: Record) -> None:
    """Minimise quadratic models of the loss over the set; line search between."""
    target, model, gap, before, n_slow = record.target, None, np.inf, np.inf, 0
    f, Df, point, objective = record.f, record.Df, record.point, record.objective
    while True:
        g = record.update_dual(point)
        n_slow += record.gap > 0.9 * gap and record.objective > 0.9 * before
        if record.done or n_slow > _PATIENCE:
            return
        record.n_iter += 1
        if model is None or (not data.is_quadratic and record.gap > 0.1 * gap):
            H = data.hessian(point)
            if H is None:
                return
            model = _Model(target, H)
        gap, before = record.gap, record.objective
        goal = max(0.05 * gap, 0.2 * record.tol) * max(record.objective, record.scale)
        x = model.minimise(g - model.H @ f, f, min(goal, 0.05 * gap * objective))
        Dx = data.scores(x)
        slope = float(g @ (x - f)) + target.penalty(x) - target.penalty(f)

        def attempt(t: float, f=f, Df=Df, x=x, Dx=Dx) -> tuple[float, Any]:
            # Convex combinations keep the order to the last bit.
            f_new, Df_new = (1.0 - t) * f + t * x, (1.0 - t) * Df + t * Dx
            point, value = record.update_primal(f_new, Df_new)
            return value, (f_new, Df_new, point, value)

        found = backtrack(attempt, objective, slope)
        if found is None:
            return
        f, Df, point, objective = found


class _Model:
    """Quadratic model ½xᵀHx + h·x + penalty(x) over the set."""

    def __init__(self, target: TargetSet, H: Vector):
        self.target, self.H = target, H
        self.largest = max(1.02 * _largest_eigenvalue(H), FLATTEST * target.smoothness)

    def minimise(self, h: Vector, x: Vector, goal: float, max_iter: int = 2000) -> Vector:
        """Accelerated proximal gradient from x, jumping to the minimiser on the blocks now and then."""
        target = self.target
        h = h - h.mean()
        if self.largest <= 0.0:
            return x
        step, z, theta, last_jump = 1.0 / self.largest, x, 1.0, 0
        for k in range(1, max_iter + 1):
            point = z - step * (self.H @ z + h)
            point -= point.mean()
            new = target.prox(point, step)
            if float((z - new) @ (new - x)) > 0.0:
                theta = 1.0
            theta_new = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * theta * theta))
            z = new + (theta - 1.0) / theta_new * (new - x)
            x, theta = new, theta_new
            if k % _CHECK_EVERY:
                continue
            if self._gap(h, x) <= goal:
                break
            face = target.face(x, point, step)
            if face is not None and k - last_jump >= len(face.starts) ** 3 // (8 * len(x) ** 2):
                x = self._jump(h, x, face)
                z, theta, last_jump = x, 1.0, k
                if self._gap(h, x) <= goal:
                    break
        return x

    def value(self, h: Vector, x: Vector) -> float:
        """Value of the model."""
        return float(x @ (0.5 * (self.H @ x) + h)) + self.target.penalty(x)

    def _gap(self, h: Vector, x: Vector) -> float:
        g = self.H @ x + h
        g -= g.mean()
        reach = 4.0 * max(float(np.linalg.norm(x)), np.sqrt(len(x)))
        return float(g @ x) + self.target.penalty(x) + self.target.conjugate(-g, reach)

    def _jump(self, h: Vector, x: Vector, face: Face) -> Vector:
        """Minimiser among the targets constant on x's blocks, made feasible, if it is better than x."""
        starts, sizes, n_blocks = face.starts, face.sizes, len(face.starts)
        if n_blocks < 2:
            return x
        H = self.H
        if n_blocks < len(x):
            H = np.add.reduceat(np.add.reduceat(H, starts, axis=0), starts, axis=1)
        # A term that vanishes on vectors of sum 0 makes the matrix regular.
        H = H + np.outer(sizes, sizes) * (self.largest / len(x))
        add_band(H, face._replace(stretch=0.0).stiffness(self.target.smoothness))
        v = _bounded_solve(H, -np.add.reduceat(h, starts), sizes, face.radius)
        if v is None:
            return x
        new = self.target.make_feasible(face.spread(v))
        return new if self.value(h, new) < self.value(h, x) else x


def _bounded_solve(H: Vector, rhs: Vector, sizes: Vector, radius: float) -> Vector | None:
    """Minimiser of ½vᵀHv − rhs·v, with Σ sizes v² ≤ radius²; None if H is singular."""
    multiplier, v = 0.0, None
    for _ in range(20):
        try:
            factor = factorised(H + np.diag(multiplier * sizes))
        except LinAlgError:
            return v
        v = cho_solve(factor, rhs, check_finite=False)
        norm2 = float(sizes @ (v * v))
        if norm2 <= radius**2 * (1.0 + 1e-10):
            break
        slope = float((sizes * v) @ cho_solve(factor, sizes * v, check_finite=False))
        multiplier += norm2 / slope * (np.sqrt(norm2) / radius - 1.0)
    return v


def _largest_eigenvalue(H: Vector) -> float:
    """Bound on the largest eigenvalue that power iterations make almost tight."""
    x = np.cos(np.arange(len(H)) + 0.5)
    value = 0.0
    for _ in range(60):
        y = H @ x
        new = float(np.linalg.norm(y)) / float(np.linalg.norm(x))
        if new == 0.0 or abs(new - value) <= 1e-3 * new:
            return 1.05 * new
        x, value = y / new, new
    return 1.1 * value
