"""All settings of one method on one training set, sharing what does not depend on the setting.

The first w-step depends on alpha alone and is a warm-started path on one factorised design; every f-step starts
from the same target. So a setting costs its f-steps and the w-steps after them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple, cast

import numpy as np

from suquan.objective import JointProblem
from suquan.solvers.alternation import (
    W_TOL,
    FoldModels,
    JointFit,
    Splits,
    finish_fixed,
    fit_crossfit,
    fit_in_sample,
    ridge_design,
    solve_design,
)
from suquan.solvers.linear import LinearFit
from suquan.solvers.spectral import spectral_target
from suquan.solvers.target import TargetSet


class Setting(NamedTuple):
    """Strengths of the penalties and largest number of rounds."""

    alpha: float
    smoothness: float
    max_rounds: int


def fit_grid(
    problem: JointProblem,
    g: np.ndarray,
    method: str,
    settings: list[Setting],
    *,
    splits: Splits | None = None,
    tol: float,
    max_iter: int,
) -> list[JointFit]:
    """Fits of `method` at all `settings`, in their order.

    Parameters
    ----------
    problem : JointProblem
        Its own alpha and smoothness are not used.
    g : ndarray of shape (n_knots,)
        Start.
    method : str
        A method of the estimators; "crossfit" without `splits` learns in-sample.
    settings : list of Setting
    splits : list of (train, test), default=None
        Folds of "crossfit".
    tol, max_iter
        As for :func:`suquan.solvers.alternation.fit_in_sample`.
    """
    if method == "svd":
        g = spectral_target(problem).g
    A = problem.w_design(g)
    alphas = sorted({setting.alpha for setting in settings}, reverse=True)
    if method == "crossfit" and splits is not None:
        models = _fold_models(problem, A, FoldModels(splits, problem.s), alphas, max_iter)
    else:
        firsts = _w_path(problem, A, alphas, max_iter)
    del A
    fits = []
    for setting in settings:
        at = replace(problem, alpha=setting.alpha, smoothness=setting.smoothness)
        rounds: dict[str, Any] = {
            "max_rounds": setting.max_rounds,
            "tol": tol,
            "max_iter": max_iter,
        }
        if method in ("fixed", "svd"):
            fits.append(finish_fixed(at, g, firsts[setting.alpha]))
        elif method == "crossfit" and splits is not None:
            fits.append(
                fit_crossfit(at, g, splits, first=models[setting.alpha], track_last=False, **rounds)
            )
        else:
            target_set = cast(TargetSet, "joint" if method == "crossfit" else method)
            fits.append(fit_in_sample(at, g, target_set, first=firsts[setting.alpha], **rounds))
    return fits


def _w_path(
    problem: JointProblem, A: Any, alphas: list[float], max_iter: int
) -> dict[float, LinearFit]:
    """w-steps on one design at all alphas."""
    if problem.l1_ratio > 0:
        return {
            alpha: solve_design(replace(problem, alpha=alpha), A, problem.s, max_iter)
            for alpha in alphas
        }
    path = ridge_design(problem, A).solve_path(
        problem.loss, problem.y, problem.s, alphas, tol=W_TOL, max_iter=max_iter
    )
    return {alpha: replace(fit, design=None) for alpha, fit in zip(alphas, path, strict=True)}


def _fold_models(
    problem: JointProblem, A: Any, folds: FoldModels, alphas: list[float], max_iter: int
) -> dict[float, list[LinearFit]]:
    """Fold models on one design at all alphas."""
    design = None if problem.l1_ratio > 0 else ridge_design(problem, A)
    return {
        alpha: [
            replace(fit, design=None)
            for fit in folds.fit_design(replace(problem, alpha=alpha), A, design, max_iter)
        ]
        for alpha in alphas
    }
