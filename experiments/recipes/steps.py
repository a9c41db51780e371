"""Other f-steps and starts than the library's, put in their place while a variant runs.

With K knots the f-step is a small problem in the increments d = (g[1] − g[0], …) ≥ 0 of the target:

    min over d ≥ 0 and b of  Σ_i s_i ℓ(y_i, D C d + b) + smoothness·(K/p)·dᵀ Q d,

where C sums increments up to a centred target. Q = I is the penalty of the library.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

import numpy as np
from scipy.optimize import minimize

from suquan import fitting, folds, objective
from suquan.solvers.spectral import spectral_target
from suquan.solvers.target import TargetFit


def differences(n: int) -> np.ndarray:
    """Q of Σ d², as in the library, but without its bound on the size of the target."""
    return np.eye(n)


def bends(n: int) -> np.ndarray:
    """Q of Σ (d[k+1] − d[k])², in a unit that takes as much from one wave as `differences` does."""
    D = np.diff(np.eye(n), axis=0)
    return D.T @ D * (n / (2.0 * np.pi)) ** 2


def departure(n: int) -> np.ndarray:
    """Q of Σ (d − mean d)²: nothing is taken from a uniform target of any size."""
    return np.eye(n) - 1.0 / n


PENALTIES: dict[str, Callable[[int], np.ndarray]] = {
    "unbounded": differences,
    "bends": bends,
    "departure": departure,
}


def solve_increments(D, loss, y, s, g, Q, strength, *, monotone=True) -> TargetFit:
    """The f-step above, from the target g; of logistic or squared loss."""
    K = len(g)
    C = np.tri(K, K - 1, -1)
    C -= C.mean(axis=0)
    A = np.asarray(D, np.float64) @ C

    def value(theta: np.ndarray) -> tuple[float, np.ndarray]:
        d, b = theta[:-1], theta[-1]
        u = A @ d + b
        slope, rough = loss.gradient(y, u, s), strength * (Q @ d)
        gradient = np.append(A.T @ slope + 2.0 * rough, slope.sum())
        return loss.value(y, u, s) + float(d @ rough), gradient

    lowest = 0.0 if monotone else None
    found = minimize(
        value,
        np.append(np.diff(g), 0.0),
        jac=True,
        method="L-BFGS-B",
        bounds=[(lowest, None)] * (K - 1) + [(None, None)],
        options={"maxiter": 500, "ftol": 1e-10, "gtol": 1e-8},
    )
    d, b = found.x[:-1], found.x[-1]
    return TargetFit(C @ d, b, float(found.fun), int(found.nit), 0.0, True)


@contextmanager
def other_penalty(name: str) -> Iterator[None]:
    """The f-step of `PENALTIES[name]`, or the library's penalty without the order ("any_order")."""
    make, monotone = PENALTIES.get(name, differences), name != "any_order"

    def f_step(problem, D, y, s, g, steps) -> TargetFit:
        Q = make(len(g) - 1)
        return solve_increments(
            D, problem.loss, y, s, g, Q, problem.node_smoothness, monotone=monotone
        )

    with patch.object(objective, "_f_step", f_step):
        yield


@contextmanager
def svd_start() -> Iterator[None]:
    """Rounds that start from svd's target of the same training samples."""

    def started(fit: Callable) -> Callable:
        def fit_from_svd(problem: Any, g: Any, *arguments: Any) -> Any:
            return fit(problem, spectral_target(problem)[0], *arguments)

        return fit_from_svd

    with ExitStack() as stack:
        stack.enter_context(patch.object(folds, "fit_grid", started(objective.fit_grid)))
        stack.enter_context(patch.object(fitting, "fit_method", started(objective.fit_method)))
        yield
