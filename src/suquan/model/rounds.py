"""Rounds of w-step and f-step: from a problem, a method and a start to a fit.

:mod:`suquan.model.prepare` calls :func:`fit` for estimators, selection and comparison, in memory and on Dask,
with all settings of one method on one set of samples; a :class:`Fit` for each goes out. The steps themselves
are those that the problem states (:mod:`suquan.model.problem`, :mod:`suquan.model.several`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from suquan.methods import Method
from suquan.model.problem import F_TOL, Fit, JointProblem, Splits
from suquan.model.several import MatrixProblem, fit_targets
from suquan.solvers.ridge import LinearFit
from suquan.solvers.spectral import spectral_target
from suquan.solvers.target import TargetFit

# Iterations of the f-step, which are cheap, in units of the user's bound.
_F_ITER = 10
# Mean square below which a target counts as collapsed to 0.
_DEGENERATE = 1e-8
# Two evaluations of J through the designs of the two steps may differ by their rounding.
_ROUNDING = {np.dtype(np.float64): 1e-9, np.dtype(np.float32): 1e-5}


class Candidate(NamedTuple):
    """One setting of a method: penalties, rounds, and how far the target may leave its start.

    Attributes
    ----------
    method : Method
    alpha, smoothness : float
    max_rounds : int
    n_targets : int, default=None
        Largest number of targets under a trace norm; None: no limit.
    departure : float, default=1.0
        Weight of the learned target in its mixture with the start.
    """

    method: Method
    alpha: float
    smoothness: float
    max_rounds: int
    n_targets: int | None = None
    departure: float = 1.0


@dataclass(frozen=True)
class Steps:
    """How steps are done.

    Attributes
    ----------
    tol : float
        Accuracy of the f-step, and relative decrease of J below which rounds stop.
    max_iter : int
        Largest number of iterations of one step.
    report : callable
        Told a line per round.
    unit : float
        Unit of the objectives that are reported.
    """

    tol: float
    max_iter: int
    report: Callable[[str], None] = lambda line: None
    unit: float = 1.0


def fit(
    problem: Any,
    g: np.ndarray,
    candidates: Sequence[Candidate],
    steps: Steps,
    splits: Splits | None,
) -> list[Fit]:
    """Fit one method at all its settings, from the start g.

    The first w-step depends on alpha alone: all settings share one design and one path of fits over the
    alphas, and every f-step starts from g. So a setting costs its f-steps and the w-steps after them; settings
    that differ by their departure alone share their rounds.

    Parameters
    ----------
    problem : JointProblem or MatrixProblem
        Its alpha and smoothness give way to those of the settings.
    g : ndarray of shape (n_knots,)
    candidates : sequence of Candidate
    steps : Steps
    splits : list of (train, test), or None
        Folds of a cross-fitted method. A sample may be scored by several models. Without any, nothing is
        learned.
    """
    at_settings = [replace(problem, alpha=at.alpha, smoothness=at.smoothness) for at in candidates]
    if problem.operator.is_constant:
        return [intercept_only(own, g) for own in at_settings]
    if isinstance(problem, MatrixProblem):
        return [
            fit_targets(own, g, at.n_targets, at.max_rounds, steps)
            for own, at in zip(at_settings, candidates, strict=True)
        ]
    values = None
    if candidates[0].method.is_spectral:
        g, values = spectral_target(problem)
    learns = [at.max_rounds > 0 and (splits is None or len(splits) > 0) for at in candidates]
    by_fold = [bool(splits) and learning for learning in learns]
    firsts = _first_steps(problem, g, candidates, by_fold, steps, splits)
    rounds: dict[tuple, Fit] = {}
    results = []
    for own, at, learning, crossed in zip(at_settings, candidates, learns, by_fold, strict=True):
        key = at.alpha, at.smoothness, at.max_rounds
        if key not in rounds:
            first = firsts[at.alpha, crossed]
            if not learning:
                rounds[key] = _of_start(own, g, first)
            elif crossed:
                rounds[key] = _fit_crossfit(own, g, at, steps, splits or [], first)
            else:
                rounds[key] = _fit_in_sample(own, g, at, steps, first)
        results.append(_mixed(own, g, rounds[key], at.departure, steps))
    return [replace(fit, singular_values=values) for fit in results]


def _first_steps(
    problem: JointProblem, g: np.ndarray, candidates: Sequence[Candidate], by_fold: list[bool],
    steps: Steps, splits: Splits | None,
) -> dict[tuple[float, bool], Any]:  # fmt: skip
    """Fits at the start, by their alpha: to all samples (False), or to each fold's training samples (True)."""
    design = problem.w_design(g)
    kinds = {(at.alpha, crossed) for at, crossed in zip(candidates, by_fold, strict=True)}
    alphas = {of: sorted({a for a, crossed in kinds if crossed is of}) for of in (False, True)}
    path = design.solve_path(
        problem.loss,
        problem.y,
        problem.s,
        alphas[False],
        tol=problem.w_tol,
        max_iter=steps.max_iter,
    )
    firsts: dict = {(alpha, False): fit for alpha, fit in zip(alphas[False], path, strict=True)}
    folds = problem.fold_models(splits or [])
    for alpha in alphas[True]:
        firsts[alpha, True] = folds.fit(replace(problem, alpha=alpha), design, steps.max_iter)
    return firsts


def intercept_only(problem: Any, g: np.ndarray) -> Fit:
    """Model without coefficients, for samples that have nothing to rank."""
    n_outputs = problem.loss.n_outputs
    b = problem.loss.best_constant(problem.y, problem.s)
    if not problem.fit_intercept:
        b = np.zeros(n_outputs)
    u = np.tile(b, len(problem.y))
    objective = problem.loss.value(problem.y, u, problem.s) + problem.roughness(g)
    w = np.zeros((n_outputs, problem.operator.n_features))
    if isinstance(problem, MatrixProblem):
        one = Fit(g[None], w, b, objective, [objective])
        return replace(one, singular_values=np.zeros(1), gap=0.0, n_shown=1)
    return Fit(g, w, b, objective, [objective])


def _of_start(problem: JointProblem, g: np.ndarray, first: LinearFit) -> Fit:
    """The w-step at the start."""
    history = [first.objective + problem.roughness(g)]
    return _result(problem, g, first, history, 0, first.n_iter, _unfinished_w(first))


def _fit_in_sample(
    problem: JointProblem, g: np.ndarray, at: Candidate, steps: Steps, w_fit: LinearFit
) -> Fit:
    """Rounds of f-step and w-step until J stops falling or all rounds are done."""
    history = [w_fit.objective + problem.roughness(g)]
    n_rounds, n_iter, unfinished = 0, w_fit.n_iter, _unfinished_w(w_fit)
    collapsed, runaway = False, None
    for _ in range(at.max_rounds):
        f_fit = _f_step(problem, problem.f_design(w_fit.w), problem.y, problem.s, g, at, steps)
        n_iter += f_fit.n_iter
        if _is_degenerate(f_fit.f):
            collapsed = True
            break
        start = replace(w_fit, b=np.atleast_1d(f_fit.b))  # b moved with f
        next_fit = _w_step(problem, f_fit.f, steps, start)
        n_iter += next_fit.n_iter
        after_f = f_fit.objective + problem.penalty(w_fit.w)
        half_steps = [after_f, next_fit.objective + problem.roughness(f_fit.f)]
        if not _descends([history[-1], *half_steps], problem):
            runaway = float(np.sqrt(np.mean(f_fit.f**2)))
            break
        g, w_fit, history = f_fit.f, next_fit, [*history, *half_steps]
        n_rounds += 1
        unfinished = (*unfinished, *_unfinished_f(f_fit, steps.tol), *_unfinished_w(w_fit))
        J = steps.unit * history[-1]
        steps.report(f"round {n_rounds}: J = {J:.8g}, f-step gap {f_fit.gap:.1e}")
        if history[-3] - history[-1] <= steps.tol * abs(history[-1]):
            break
    found = _result(problem, g, w_fit, history, n_rounds, n_iter, unfinished)
    return replace(found, collapsed=collapsed, runaway=runaway)


def _fit_crossfit(
    problem: JointProblem, g: np.ndarray, at: Candidate, steps: Steps, splits: Splits,
    models: list[LinearFit],
) -> Fit:  # fmt: skip
    """Rounds whose f-step scores each sample with a model that has not seen it; a last w-step on all.

    The target of the round with the smallest out-of-fold loss is kept, the start's apart; the loss of the only
    round decides nothing, and is not computed.
    """
    folds = problem.fold_models(splits)
    losses, targets = [folds.held_out_loss(problem, models)], [g]
    n_iter, unfinished = sum(fit.n_iter for fit in models), _unfinished_w(*models)
    collapsed = False
    while len(targets) <= at.max_rounds and not collapsed:
        D, y, s = folds.stack(problem, models)
        f_fit = _f_step(problem, D, y, s, targets[-1], at, steps)
        del D, y, s  # before the next design is made
        n_iter += f_fit.n_iter
        unfinished = (*unfinished, *_unfinished_f(f_fit, steps.tol))
        steps.report(f"round {len(targets)}: out-of-fold loss before {steps.unit * losses[-1]:.6g}")
        collapsed = _is_degenerate(f_fit.f)
        targets.append(targets[-1] if collapsed else f_fit.f / np.sqrt(np.mean(f_fit.f**2)))
        if at.max_rounds > 1 and not collapsed:
            models = folds.fit(problem, problem.w_design(targets[-1]), steps.max_iter)
            n_iter += sum(fit.n_iter for fit in models)
            losses.append(folds.held_out_loss(problem, models))
    best = 1 + int(np.argmin(losses[1:])) if len(losses) > 1 else 1
    w_fit = _w_step(problem, targets[best], steps)
    unfinished = (*unfinished, *_unfinished_w(w_fit))
    n_iter += w_fit.n_iter
    found = _result(problem, targets[best], w_fit, losses, best, n_iter, unfinished)
    return replace(found, collapsed=collapsed)


def _mixed(problem: JointProblem, g: np.ndarray, fit: Fit, weight: float, steps: Steps) -> Fit:
    """The fit at the mixture of the start g and the learned target, which has this weight.

    The size of the target stays that of the learned one.
    """
    if weight == 1.0 or not fit.n_rounds:
        return fit
    size = float(np.sqrt(np.mean(fit.g**2)))
    mixed = (1.0 - weight) * size * g + weight * fit.g
    mixed *= size / np.sqrt(np.mean(mixed**2))
    w_fit = _w_step(problem, mixed, steps)
    unfinished = (*fit.unfinished, *_unfinished_w(w_fit))
    n_iter = fit.n_iter + w_fit.n_iter
    found = _result(problem, mixed, w_fit, fit.history, fit.n_rounds, n_iter, unfinished)
    return replace(found, collapsed=fit.collapsed, runaway=fit.runaway)


def _w_step(
    problem: JointProblem, g: np.ndarray, steps: Steps, start: LinearFit | None = None
) -> LinearFit:
    """Best (w, b) at the target g."""
    return problem.w_design(g).solve(
        problem.loss, problem.y, problem.s, problem.alpha,
        tol=problem.w_tol, max_iter=steps.max_iter, start=start,
    )  # fmt: skip


def _f_step(
    problem: JointProblem, D: Any, y: Any, s: Any, g: np.ndarray, at: Candidate, steps: Steps
) -> TargetFit:
    """Best (f, b) for the rows D."""
    return problem.f_step(
        D, y, s, g, target_set=at.method.target_set,
        tol=F_TOL * steps.tol, max_iter=_F_ITER * steps.max_iter,
    )  # fmt: skip


def _result(problem, g, w_fit, history, n_rounds, n_iter, unfinished) -> Fit:
    """Result of rounds that ended with a w-step at g."""
    objective = w_fit.objective + problem.roughness(g)
    n_iter = max(int(n_iter), 1)
    return Fit(g, w_fit.w, w_fit.b, objective, history, n_rounds, n_iter, unfinished)


def _is_degenerate(f: np.ndarray) -> bool:
    return float(np.mean(f**2)) < _DEGENERATE


def _descends(values: list[float], problem: JointProblem) -> bool:
    """Whether J falls from one half-step to the next, beyond the rounding of the designs."""
    slack = _ROUNDING[np.dtype(problem.dtype)] * max(abs(values[0]), 1e-300)
    return all(after <= before + slack for before, after in pairwise(values))


def _unfinished_w(*fits: LinearFit) -> tuple[str, ...]:
    return tuple(
        f"the w-step stopped at criterion {fit.criterion:.1e}" for fit in fits if not fit.converged
    )


def _unfinished_f(fit: TargetFit, tol: float) -> tuple[str, ...]:
    if fit.converged:
        return ()
    return (f"the f-step stopped at gap {fit.gap:.1e} > {F_TOL * tol:.0e}",)
