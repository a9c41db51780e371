"""Rounds of w-step and f-step: in-sample, cross-fitted, or none at all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from suquan.objective import JointProblem
from suquan.solvers.elastic_net import solve_elastic_net
from suquan.solvers.linear import FoldWeights, LinearFit, RidgeDesign, null_intercept
from suquan.solvers.target import TargetFit, TargetSet, solve_target

# Relative accuracy of the w-step, which is cheap; the f-step's is the caller's.
W_TOL = 1e-10
# Mean square below which a target counts as collapsed to 0.
_DEGENERATE = 1e-8
# Two evaluations of J through the designs of the two steps may differ by their rounding.
_ROUNDING = {np.dtype(np.float64): 1e-9, np.dtype(np.float32): 1e-5}

Report = Callable[[str], None]
Splits = list[tuple[np.ndarray, np.ndarray]]


def silent(line: str) -> None:
    """Report nothing."""


@dataclass(frozen=True)
class JointFit:
    """Result of a fit.

    Attributes
    ----------
    g : ndarray of shape (n_knots,)
        Node values of the target.
    w : ndarray of shape (n_outputs, n_features), or None
    b : ndarray of shape (n_outputs,)
    objective : float
        J(w, b, f).
    history : list of float
        In-sample: J after every half-step. Cross-fitted: the out-of-fold loss at f_0, f_1, ….
    n_rounds, n_iter : int
        Rounds done, and inner iterations of all their steps.
    unfinished : tuple of str
        What did not reach its tolerance.
    collapsed : bool
        Whether an f-step led to the zero target, which was not taken.
    runaway : float or None
        Root mean square of a target so large that the w-step failed there, and which was not taken.
    dual : ndarray of shape (n_outputs, n_samples), or None
        Weights of the samples in w = Σ_m dual_m T_m f; all there is where the features were not touched.
    """

    g: np.ndarray
    w: Any
    b: np.ndarray
    objective: float
    history: list[float]
    n_rounds: int = 0
    n_iter: int = 1
    unfinished: tuple[str, ...] = ()
    collapsed: bool = False
    runaway: float | None = None
    dual: np.ndarray | None = None


def fit_fixed(problem: JointProblem, g: np.ndarray, *, max_iter: int) -> JointFit:
    """The w-step alone: a penalised linear model on samples normalised to g."""
    return finish_fixed(problem, g, _w_step(problem, g, max_iter))


def finish_fixed(problem: JointProblem, g: np.ndarray, fit: LinearFit) -> JointFit:
    """Result of a w-step at a target that is not learned by rounds."""
    objective = fit.objective + problem.roughness(g)
    return _joint_fit(problem, g, fit, [objective], 0, fit.n_iter, _unfinished_w(fit))


def fit_in_sample(
    problem: JointProblem,
    g: np.ndarray,
    target_set: TargetSet,
    *,
    max_rounds: int,
    tol: float,
    max_iter: int,
    report: Report = silent,
    first: LinearFit | None = None,
) -> JointFit:
    """w-step, then rounds of f-step and w-step until J stops falling or `max_rounds` are done.

    `first` is the w-step at the start, where it is known already.
    """
    w_fit = _released(_w_step(problem, g, max_iter) if first is None else first)
    history = [w_fit.objective + problem.roughness(g)]
    n_iter, n_rounds, unfinished, collapsed = w_fit.n_iter, 0, _unfinished_w(w_fit), False
    runaway = None
    for _ in range(max_rounds):
        w = problem.coefficients(w_fit, g)
        D = problem.f_design(w)
        f_fit = _f_step(problem, D, problem.y, problem.s, g, target_set, tol, max_iter)
        del D  # the next design takes its place
        n_iter += f_fit.n_iter
        if _is_degenerate(f_fit.f):
            collapsed = True
            break
        start = replace(w_fit, b=np.atleast_1d(f_fit.b))  # b moved with f
        next_fit = _released(_w_step(problem, f_fit.f, max_iter, start=start))
        n_iter += next_fit.n_iter
        steps = [
            f_fit.objective + problem.penalty(w),
            next_fit.objective + problem.roughness(f_fit.f),
        ]
        if not _descends([history[-1], *steps], problem):
            runaway = float(np.sqrt(np.mean(f_fit.f**2)))
            break
        g, w_fit, history = f_fit.f, next_fit, [*history, *steps]
        n_rounds += 1
        unfinished = (*unfinished, *_unfinished_f(f_fit, tol), *_unfinished_w(w_fit))
        report(f"round {n_rounds}: J = {history[-1]:.8g}, f-step gap {f_fit.gap:.1e}")
        if history[-3] - history[-1] <= tol * abs(history[-1]):
            break
    fit = _joint_fit(problem, g, w_fit, history, n_rounds, n_iter, unfinished)
    return replace(fit, collapsed=collapsed, runaway=runaway)


def fit_crossfit(
    problem: JointProblem,
    g: np.ndarray,
    splits: Splits,
    *,
    max_rounds: int,
    tol: float,
    max_iter: int,
    report: Report = silent,
    first: list[LinearFit] | None = None,
    track_last: bool = True,
) -> JointFit:
    """Rounds whose f-step scores each sample with a model that has not seen it; a last w-step on all.

    Parameters
    ----------
    problem : JointProblem
    g : ndarray of shape (n_knots,)
        Start.
    splits : list of (train, test)
        Samples that each fold model learns from, numbers or a mask, and the numbers of those it scores. A
        sample may be scored by several.
    max_rounds, tol, max_iter, report
        As for :func:`fit_in_sample`.
    first : list of LinearFit, default=None
        The fold models at the start, where they are known already.
    track_last : bool, default=True
        Whether the out-of-fold loss is also computed after the only round, where nothing depends on it.
    """
    folds = fold_models(problem, splits)
    design: RidgeDesign | None = None
    if first is None:
        models, design = folds.fit(problem, g, max_iter)
    else:
        models = first
    losses = [folds.held_out_loss(problem, models)]
    targets = [g]
    n_iter = sum(fit.n_iter for fit in models)
    unfinished = _unfinished_w(*models)
    collapsed = False
    for n_rounds in range(1, max_rounds + 1):
        models, design = [_released(fit) for fit in models], None
        D, y, s = folds.stack(problem, models, targets[-1])
        models, first = [], None  # the next ones take their place
        f_fit = _f_step(problem, D, y, s, targets[-1], "joint", tol, max_iter)
        del D, y, s
        n_iter += f_fit.n_iter
        collapsed = _is_degenerate(f_fit.f)
        targets.append(targets[-1] if collapsed else f_fit.f / np.sqrt(np.mean(f_fit.f**2)))
        unfinished = (*unfinished, *_unfinished_f(f_fit, tol))
        if max_rounds == 1 and not track_last:
            losses.append(np.nan)
            break
        models, design = folds.fit(problem, targets[-1], max_iter)
        n_iter += sum(fit.n_iter for fit in models)
        losses.append(folds.held_out_loss(problem, models))
        report(f"round {n_rounds}: out-of-fold loss {losses[-2]:.6g} -> {losses[-1]:.6g}")
        if collapsed:
            break
    best = 1 + int(np.argmin(losses[1:]))
    if best != len(targets) - 1:
        design = None
    w_fit = _w_step(problem, targets[best], max_iter, design=design)
    unfinished = (*unfinished, *_unfinished_w(w_fit))
    fit = _joint_fit(problem, targets[best], w_fit, losses, best, n_iter + w_fit.n_iter, unfinished)
    return replace(fit, collapsed=collapsed)


def fold_models(problem: JointProblem, splits: Splits) -> FoldModels:
    """The models of the folds; some problems bring their own, whose samples lie elsewhere."""
    own = getattr(problem, "fold_models", None)
    return FoldModels(splits, problem.s) if own is None else own(splits)


@dataclass(frozen=True)
class FoldModels:
    """Models of the folds, and the rows that they score without having seen them.

    Attributes
    ----------
    splits : list of (train, test)
        Numbers of samples, or a mask of those to learn from.
    s : ndarray of shape (n_samples,)
        Weights of the samples.
    """

    splits: Splits
    s: np.ndarray

    @property
    def rows(self) -> np.ndarray:
        """Samples of the stacked rows, fold by fold."""
        return np.concatenate([test for _, test in self.splits], dtype=np.intp)

    @property
    def weights(self) -> FoldWeights:
        """Weights of the samples in each model."""
        return FoldWeights(self.s, [train for train, _ in self.splits])

    def fit(
        self, problem: JointProblem, g: np.ndarray, max_iter: int
    ) -> tuple[list[LinearFit], RidgeDesign | None]:
        """Models at the target g; with a ridge penalty they share one factorisation, also returned."""
        A = problem.w_design(g)
        design = None if problem.l1_ratio > 0.0 else ridge_design(problem, A)
        return self.fit_design(problem, A, design, max_iter), design

    def fit_design(
        self, problem: JointProblem, A: Any, design: RidgeDesign | None, max_iter: int
    ) -> list[LinearFit]:
        """Models on the normalised samples A, which a ridge penalty needs factorised in `design`."""
        if design is None:
            return [solve_design(problem, A, s, max_iter) for s in self.weights]
        return design.solve_many(
            problem.loss, problem.y, self.weights, problem.alpha, tol=W_TOL, max_iter=max_iter
        )

    def held_out_loss(self, problem: JointProblem, models: list[LinearFit]) -> float:
        """Mean loss of the held-out samples under the models that have not seen them."""
        scores = [fit.u[test] for fit, (_, test) in zip(models, self.splits, strict=True)]
        s = self.s[self.rows]
        values = problem.loss.value(problem.y[self.rows], np.concatenate(scores))
        return float(s @ values / s.sum())

    def stack(
        self, problem: JointProblem, models: list[LinearFit], g: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Rows, labels and weights of the f-step over all held-out samples, for models at the target g."""
        n_outputs, rows = problem.loss.n_outputs, self.rows
        s = self.s[rows] / self.s[rows].sum()
        D: np.ndarray = np.empty((len(rows) * n_outputs, problem.n_knots), problem.dtype)
        start = 0
        for fit, (_, test) in zip(models, self.splits, strict=True):
            stop = start + len(test) * n_outputs
            D[start:stop] = problem.f_design(problem.coefficients(fit, g), test)
            start = stop
        return D, problem.y[rows], s


def _released(fit: LinearFit) -> LinearFit:
    """The fit without its hold on the design, whose memory the next one needs."""
    return replace(fit, design=None)


def intercept_only(problem: JointProblem, g: np.ndarray) -> JointFit:
    """Model without coefficients, for samples that have nothing to rank."""
    n_outputs = problem.loss.n_outputs
    b = null_intercept(problem.loss, problem.y, problem.s)
    if not problem.fit_intercept:
        b = np.zeros(n_outputs)
    u = np.broadcast_to(b, (len(problem.y), n_outputs))
    value = problem.loss.value(problem.y, u if n_outputs > 1 else u[:, 0])
    objective = float(problem.s @ value) + problem.roughness(g)
    w = np.zeros((n_outputs, problem.operator.n_features))
    return JointFit(g, w, b, objective, [objective])


def _w_step(
    problem: JointProblem,
    g: np.ndarray,
    max_iter: int,
    *,
    start: LinearFit | None = None,
    design: RidgeDesign | None = None,
) -> LinearFit:
    """Best (w, b) for the target g; on a `design` at g where there is one already."""
    if design is not None:
        return design.solve(
            problem.loss, problem.y, problem.s, problem.alpha, tol=W_TOL, max_iter=max_iter
        )
    if problem.operator.n_samples <= problem.operator.n_features and problem.l1_ratio == 0.0:
        start = None  # the solver's unknowns are dual: those of another target may be far off
    return solve_design(problem, problem.w_design(g), problem.s, max_iter, start)


def ridge_design(problem: JointProblem, A: Any) -> RidgeDesign:
    """What :meth:`JointProblem.w_design` gives, factorised; some problems give it so."""
    if isinstance(A, RidgeDesign):
        return A
    return RidgeDesign(A, fit_intercept=problem.fit_intercept)


def solve_design(
    problem: JointProblem,
    A: Any,
    s: np.ndarray,
    max_iter: int,
    start: LinearFit | None = None,
) -> LinearFit:
    """Best (w, b) on the normalised samples A with weights s."""
    options: dict[str, Any] = {"tol": W_TOL, "max_iter": max_iter, "start": start}
    if problem.l1_ratio > 0.0:
        return solve_elastic_net(
            A, problem.loss, problem.y, s, problem.alpha, problem.l1_ratio,
            fit_intercept=problem.fit_intercept, **options,
        )  # fmt: skip
    return ridge_design(problem, A).solve(problem.loss, problem.y, s, problem.alpha, **options)


def _f_step(problem, D, y, s, g, target_set, tol, max_iter) -> TargetFit:
    """Best (f, b) for the rows D."""
    return solve_target(
        D,
        problem.loss,
        y,
        s,
        g,
        target_set=target_set,
        smoothness=problem.node_smoothness,
        fit_intercept=problem.fit_intercept,
        tol=tol,
        max_iter=max_iter,
    )


def _joint_fit(problem, g, w_fit, history, n_rounds, n_iter, unfinished) -> JointFit:
    objective = w_fit.objective + problem.roughness(g)
    return JointFit(
        g,
        w_fit.w,
        w_fit.b,
        objective,
        history,
        n_rounds,
        max(int(n_iter), 1),
        unfinished,
        dual=w_fit.dual,
    )


def _is_degenerate(f: np.ndarray) -> bool:
    return float(np.mean(f**2)) < _DEGENERATE


def _descends(values: list[float], problem: JointProblem) -> bool:
    """Whether J falls from one half-step to the next, beyond the rounding of the designs."""
    slack = _ROUNDING[np.dtype(problem.dtype)] * max(abs(values[0]), 1e-300)
    return all(after <= before + slack for before, after in pairwise(values))


def _unfinished_w(*fits: LinearFit) -> tuple[str, ...]:
    return tuple(
        f"the w-step stopped at criterion {fit.criterion:.1e} > {W_TOL:.0e}"
        for fit in fits
        if not fit.converged
    )


def _unfinished_f(fit: TargetFit, tol: float) -> tuple[str, ...]:
    if fit.converged:
        return ()
    return (f"the f-step stopped at gap {fit.gap:.1e} > tol = {tol:.0e}",)
