"""The f-step's method that always works: proximal gradient with momentum, on the design itself."""

from __future__ import annotations

import numpy as np

from suquan.solvers._target_data import Data
from suquan.solvers._target_record import Record
from suquan.solvers._target_set import FLATTEST, Target


def accelerated(data: Data, target: Target, record: Record, budget: int | None = None) -> None:
    """Accelerated proximal gradient with backtracking and restarts, the intercept minimised out."""
    if record.done or budget == 0:
        return
    f = f_old = record.f
    Df = Df_old = record.Df
    theta, step = 1.0, _first_step(data, target, record)
    shortest = 1e-15 * step
    last = record.max_iter if budget is None else record.n_iter + budget
    while not record.done and record.n_iter < last:
        record.n_iter += 1
        theta_new = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * theta * theta))
        momentum = (theta - 1.0) / theta_new
        z, Dz = f + momentum * (f - f_old), Df + momentum * (Df - Df_old)
        u = data.profile(Dz)[0]
        a, value = data.dual_point(u), data.value(u)
        g = data.pull_back(a)
        while True:
            point = z - step * g
            new = target.prox(point, step)
            D_new = data.scores(new)
            u_new, objective = record.update_primal(new, D_new)
            move = new - z
            model = value + float(g @ move) + float(move @ move) / (2.0 * step)
            if objective - target.penalty(new) <= model + 1e-12 * abs(model):
                break
            step *= 0.5
            if step < shortest:
                return
        face = target.face(new, point, step)
        record.update_dual(u, a, g, (face.stretch - 1.0) / step)
        if float((z - new) @ (new - f)) > 0.0:
            theta_new = 1.0
        f_old, Df_old, f, Df, theta = f, Df, new, D_new, theta_new
        step *= 1.02


def _first_step(data, target, record):
    """Inverse curvature of the loss along the gradient; backtracking corrects it."""
    norm2 = float(record.g @ record.g)
    curvature = data.curvature_along(record.u, record.g) / norm2 if norm2 > 0.0 else 0.0
    return 1.0 / max(curvature, FLATTEST * target.smoothness, 1e-300)
