"""The f-step for more rows than K: minimise quadratic models, with the K×K Hessian, over the set."""

from __future__ import annotations

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from suquan.losses import Squared
from suquan.solvers._target_data import Data
from suquan.solvers._target_record import Record
from suquan.solvers._target_set import FLATTEST, Target


def primal_newton(data: Data, target: Target, record: Record) -> None:
    """Minimise quadratic models of the loss, with its K×K Hessian, over the set; line search between."""
    _rescale(data, target, record)
    f, Df, u, objective = record.f, record.Df, record.u, record.objective
    model, gap, multiplier = None, np.inf, 0.0
    while True:
        a = data.dual_point(u)
        g = data.pull_back(a)
        record.update_dual(u, a, g, multiplier)
        if record.done:
            return
        record.n_iter += 1
        constant = isinstance(data.loss, Squared)
        if model is None or (not constant and record.gap > 0.1 * gap):
            model = _Model(target, data.hessian(u))
        gap = record.gap
        goal = max(0.05 * gap, 0.2 * record.tol) * max(record.objective, record.scale)
        x, multiplier = model.minimise(g - model.H @ f, f, min(goal, 0.05 * gap * objective))
        Dx = data.scores(x)
        slope = float(g @ (x - f)) + target.penalty(x) - target.penalty(f)
        t = 1.0
        for _ in range(30):
            f_new = target.between(f, x, t)
            Df_new = Df + t * (Dx - Df)
            u_new, value = record.update_primal(f_new, Df_new)
            if value <= objective + 1e-4 * t * slope:
                break
            t *= 0.5
        else:
            return
        f, Df, u, objective = f_new, Df_new, u_new, value
        if value == record.objective and _rescale(data, target, record):
            f, Df, u, objective = record.f, record.Df, record.u, record.objective


def _rescale(data, target, record):
    """Try multiples of f where the set has no bound; return whether one is better. No product with D."""
    if target.bounded:
        return False
    f, Df, better = record.f, record.Df, False
    for direction in (1.0, -1.0):
        exponent = 0.25
        while exponent < 64.0:
            t, before = 2.0 ** (direction * exponent), record.objective
            record.update_primal(t * f, t * Df)
            if not record.objective < before:
                break
            better, exponent = True, 1.6 * exponent
        if better:
            break
    return better


class _Model:
    """Quadratic model ½xᵀHx + h·x + penalty(x) over the set."""

    def __init__(self, target, H):
        self.target, self.H = target, H
        self.largest = max(1.02 * _largest_eigenvalue(H), FLATTEST * target.smoothness)

    def minimise(self, h, x, goal, max_iter=2000):
        """Accelerated proximal gradient from x, jumping to the minimiser on the blocks now and then."""
        target, H = self.target, self.H
        h = h - h.mean()
        if self.largest <= 0.0:
            return x, 0.0
        step, z, theta, last_jump, multiplier = 1.0 / self.largest, x, 1.0, 0, 0.0
        for k in range(1, max_iter + 1):
            point = z - step * (H @ z + h)
            new = target.prox(point - point.mean(), step)
            if float((z - new) @ (new - x)) > 0.0:
                theta = 1.0
            theta_new = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * theta * theta))
            z = new + (theta - 1.0) / theta_new * (new - x)
            x, theta = new, theta_new
            if k % 8 and k - last_jump < 8:
                continue
            face = target.face(x, point, step)
            multiplier = (face.stretch - 1.0) / step
            if self._gap(h, x, multiplier) <= goal:
                break
            n_blocks = len(face.starts)
            if k - last_jump >= 8 + n_blocks**3 // (8 * target.K**2):
                x = self._jump(h, x, face)
                z, theta, last_jump = x, 1.0, k
                if self._gap(h, x, multiplier) <= goal:
                    break
        return x, multiplier

    def _gap(self, h, x, multiplier):
        g = self.H @ x + h
        g -= g.mean()
        conjugate = self.target.conjugate(-g, multiplier, float(np.linalg.norm(x)))
        return float(g @ x) + self.target.penalty(x) + conjugate

    def _jump(self, h, x, face):
        """Move towards the minimiser among the targets constant on x's blocks, as far as the order allows."""
        target = self.target
        starts, sizes, n_blocks = face.starts, face.sizes, len(face.starts)
        if n_blocks < 2:
            return x
        H = self.H
        if n_blocks < target.K:
            H = np.add.reduceat(np.add.reduceat(H, starts, axis=0), starts, axis=1)
        # A term that vanishes on vectors of sum 0 makes the matrix regular.
        H = H + np.outer(sizes, sizes) * (self.largest / target.K)
        if target.smoothness > 0.0:
            i, c = np.arange(n_blocks), 2.0 * target.smoothness
            H[i[1:], i[1:]] += c
            H[i[:-1], i[:-1]] += c
            H[i[1:], i[:-1]] -= c
            H[i[:-1], i[1:]] -= c
        v = _bounded_solve(H, -np.add.reduceat(h, starts), sizes, target)
        if v is None:
            return x
        t = 1.0
        if target.monotone:
            old, new = np.diff(x[starts]), np.diff(v)
            falls = new < 0.0
            if falls.any():
                t = float(np.min(old[falls] / (old[falls] - new[falls])))
        v = x[starts] + t * (v - x[starts])
        if target.monotone:
            v = np.maximum.accumulate(v)
        return target.centred(np.repeat(v, sizes.astype(np.int64)))


def _bounded_solve(H, rhs, sizes, target):
    """Minimiser of ½vᵀHv − rhs·v, with Σ sizes v² ≤ K where the set is bounded; None if H is singular."""
    multiplier = 1e-13 * np.trace(H) / target.K
    v = None
    for _ in range(20):
        try:
            factor = cho_factor(H + np.diag(multiplier * sizes), check_finite=False)
        except LinAlgError:
            return v
        v = cho_solve(factor, rhs, check_finite=False)
        norm2 = float(sizes @ (v * v))
        if not target.bounded or norm2 <= target.K * (1.0 + 1e-10):
            break
        slope = float((sizes * v) @ cho_solve(factor, sizes * v, check_finite=False))
        multiplier += norm2 / slope * (np.sqrt(norm2 / target.K) - 1.0)
    return v


def _largest_eigenvalue(H):
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
