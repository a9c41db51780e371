"""The joint problem in (w, b, f), and the rounds of w-step and f-step that solve it.

    J(w, b, f) = Σ_i s_i ℓ(y_i, w·T_i f + b) + alpha·Ω(w) + smoothness·Σ_j (f[j+1] − f[j])²

with weights s of sum 1 and Ω(w) = (1 − l1_ratio)·‖w‖² + l1_ratio·‖w‖₁. With knots, f = B g reads the node
values g, and the last term is smoothness·(K/p)·Σ_k (g[k+1] − g[k])². Without, g is f.

:mod:`suquan.fitting` makes a :class:`JointProblem` of ranked samples and calls :func:`fit_method` for one
setting, :mod:`suquan.folds` :func:`fit_grid` for all settings of a method on one training set; a
:class:`JointFit` goes out. Blocks of knots and blocks on Dask have subclasses that answer in their own way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Protocol

import numpy as np

from suquan.losses import Loss, labels_apart
from suquan.ranking import SampleOperator
from suquan.solvers.elastic_net import solve_elastic_net
from suquan.solvers.ridge import LinearFit, RidgeDesign
from suquan.solvers.target import TargetFit, solve_target
from suquan.targets import knot_positions, read_at_grid

# Up to this many entries designs are kept in float64; larger ones in float32, to save memory and time.
FLOAT64_ENTRIES = 1 << 16
# Relative accuracy of the w-step, which is cheap; with an l1 penalty, where it is less so; and of the f-step,
# in units of the user's: J is flat around the best target, which is not found where J is just small enough.
W_TOL, L1_TOL, F_TOL = 1e-10, 1e-8, 0.1
# Iterations of the f-step, which are cheap, in units of the user's bound.
_F_ITER = 10
# Mean square below which a target counts as collapsed to 0.
_DEGENERATE = 1e-8
# Two evaluations of J through the designs of the two steps may differ by their rounding.
_ROUNDING = {np.dtype(np.float64): 1e-9, np.dtype(np.float32): 1e-5}
# Training and test samples of folds: training samples by a mask or by their numbers, test samples by numbers.
Splits = list[tuple[np.ndarray, np.ndarray]]


class Design(Protocol):
    """What the rounds ask of normalised samples: w-steps, in the notation of :mod:`suquan.solvers.ridge`.

    Ridge and elastic net have one each; samples known by their Gram matrix or as blocks on Dask have their own.
    """

    def solve(
        self,
        loss: Loss,
        y: Any,
        s: Any,
        alpha: float,
        *,
        tol: float,
        max_iter: int,
        start: Any = None,
    ) -> LinearFit:
        """One fit with weights s, from the fit `start` where there is one."""

    def solve_many(
        self, loss: Loss, y: Any, S: Any, alpha: float, *, tol: float, max_iter: int
    ) -> list[LinearFit]:
        """Fits that differ by their weights, the rows of S."""

    def solve_path(
        self, loss: Loss, y: Any, s: Any, alphas: Sequence[float], *, tol: float, max_iter: int
    ) -> list[LinearFit]:
        """Fits at several alphas, in their order."""


@dataclass(frozen=True)
class JointProblem:
    """Ranked samples, labels, weights and penalties of one fit; its methods are all that the rounds ask.

    Problems through blocks of knots and on Dask are subclasses that answer in their own way.

    Attributes
    ----------
    operator : SampleOperator
        The maps T_i.
    loss : Loss
    y : ndarray of shape (n_samples,)
        Labels as `loss` wants them.
    s : ndarray of shape (n_samples,)
        Weights > 0 of sum 1.
    alpha, l1_ratio, smoothness : float
    n_knots : int
        Number K of node values; n_features for one per place.
    fit_intercept : bool
    """

    operator: SampleOperator
    loss: Loss
    y: np.ndarray
    s: np.ndarray
    alpha: float
    l1_ratio: float
    smoothness: float
    n_knots: int
    fit_intercept: bool

    @property
    def dtype(self) -> type:
        """Type of the designs."""
        n_entries = self.operator.n_samples * self.operator.n_features * self.loss.n_outputs
        return np.float64 if n_entries <= FLOAT64_ENTRIES else np.float32

    @property
    def node_smoothness(self) -> float:
        """Weight of Σ_k (g[k+1] − g[k])²."""
        return self.smoothness * self.n_knots / self.operator.n_features

    def expand(self, g: np.ndarray) -> np.ndarray:
        """Target f = B g, one value per feature."""
        return read_at_grid(g, self.operator.n_features)

    def w_design(self, g: np.ndarray) -> Design:
        """Rows T_i f, of shape (n_samples, n_features), on which the w-step is solved."""
        A = self.operator.apply(self.expand(g), dtype=self.dtype)
        return make_design(A, self.l1_ratio, self.fit_intercept)

    def coefficients(self, fit: Any, g: np.ndarray) -> Any:
        """Coefficients w of a fit, of shape (n_outputs, n_features)."""
        return fit.w

    def f_design(self, w: Any, samples: np.ndarray | None = None, out: Any = None) -> Any:
        """Rows Bᵀ T_iᵀ w_k, of shape (n_samples · n_outputs, n_knots), for w of shape (n_outputs, n_features).

        All samples, or the chosen ones; in `out` where it is given.
        """
        operator = self.operator if samples is None else self.operator.take(samples)
        knots = None
        if self.n_knots != operator.n_features:
            knots = knot_positions(operator.n_features, self.n_knots)
        if out is None:
            out = np.empty((operator.n_samples * len(w), self.n_knots), self.dtype)
        for k in range(len(w)):
            operator.adjoint(w[k], knots=knots, out=out[k :: len(w)])
        return out

    def f_step(self, D: Any, y: Any, s: Any, g: np.ndarray, **options: Any) -> TargetFit:
        """Best target and intercept for rows of :meth:`f_design`, their labels and weights, from g."""
        return solve_target(
            D, self.loss, y, s, g,
            smoothness=self.node_smoothness, fit_intercept=self.fit_intercept, **options,
        )  # fmt: skip

    def penalty(self, w: Any) -> float:
        """alpha·Ω(w)."""
        ridge = (1.0 - self.l1_ratio) * float(np.sum(w * w))
        return self.alpha * (ridge + self.l1_ratio * float(np.sum(np.abs(w))))

    def roughness(self, g: np.ndarray) -> float:
        """smoothness·(K/p)·Σ_k (g[k+1] − g[k])²."""
        return self.node_smoothness * float(np.sum(np.diff(g) ** 2))

    def fold_models(self, splits: Splits) -> FoldModels:
        """Models that each leave out the test samples of a split."""
        return FoldModels(splits, self.s)

    def class_contrast(self) -> Any:
        """Weights of the samples in the difference of the means of two classes, labelled ±1."""
        y, s = self.y, self.s
        return np.where(y > 0, s / s[y > 0].sum(), -s / s[y < 0].sum())

    def sums_of_samples(self, c: Any, G: np.ndarray) -> np.ndarray:
        """Columns Σ_i c_i T_i B g for the rows g of G, of shape (n_features, n_targets)."""
        return np.column_stack([self.operator.sum_apply(c, self.expand(g)) for g in G])


@dataclass(frozen=True)
class ElasticNetDesign:
    """Normalised samples A under a penalty with an l1 norm; every fit starts from zero.

    Attributes
    ----------
    A : ndarray of shape (n_samples, n_features)
    l1_ratio : float
    fit_intercept : bool
    """

    A: np.ndarray
    l1_ratio: float
    fit_intercept: bool

    def solve(self, loss, y, s, alpha, *, tol, max_iter, start=None):
        """One fit."""
        return solve_elastic_net(
            self.A, loss, y, s, alpha, self.l1_ratio,
            fit_intercept=self.fit_intercept, tol=max(tol, L1_TOL), max_iter=max_iter, start=start,
        )  # fmt: skip

    def solve_many(self, loss, y, S, alpha, *, tol, max_iter):
        """Fits that differ by their weights."""
        return [self.solve(loss, y, s, alpha, tol=tol, max_iter=max_iter) for s in S]

    def solve_path(self, loss, y, s, alphas, *, tol, max_iter):
        """Fits at several alphas."""
        return [self.solve(loss, y, s, alpha, tol=tol, max_iter=max_iter) for alpha in alphas]


def make_design(A: np.ndarray, l1_ratio: float, fit_intercept: bool) -> Design:
    """Normalised samples A of shape (n_samples, n_features), ready for w-steps with this penalty."""
    if l1_ratio > 0.0:
        return ElasticNetDesign(A, l1_ratio, fit_intercept)
    return RidgeDesign(A, fit_intercept=fit_intercept)


@dataclass(frozen=True)
class FoldModels:
    """Models of the folds, and the rows that they score without having seen them.

    Attributes
    ----------
    splits : list of (train, test)
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
    def weights(self) -> np.ndarray:
        """Weights of the samples in each model, of shape (n_folds, n_samples), each of sum 1."""
        S = np.zeros((len(self.splits), len(self.s)))
        for row, (train, _) in zip(S, self.splits, strict=True):
            row[train] = self.s[train] / self.s[train].sum()
        return S

    def fit(self, problem: JointProblem, design: Design, max_iter: int) -> list[LinearFit]:
        """Models on normalised samples; they share what the design has computed once."""
        return design.solve_many(
            problem.loss, problem.y, self.weights, problem.alpha, tol=W_TOL, max_iter=max_iter
        )

    def held_out_loss(
        self, problem: JointProblem, models: list[LinearFit], design: Design
    ) -> float:
        """Mean loss of the held-out samples under the models on `design` that have not seen them."""
        scores = [fit.u[test] for fit, (_, test) in zip(models, self.splits, strict=True)]
        y, s = self.labels(problem), self.s[self.rows]
        return problem.loss.value(y, np.concatenate(scores), s) / float(s.sum())

    def labels(self, problem: JointProblem) -> np.ndarray:
        """Labels of the stacked rows; scores of different models are not compared."""
        parts = np.repeat(np.arange(len(self.splits)), [len(test) for _, test in self.splits])
        return labels_apart(problem.loss, problem.y[self.rows], parts)

    def stack(
        self, problem: JointProblem, models: Sequence[Any], g: np.ndarray
    ) -> tuple[Any, np.ndarray, np.ndarray]:
        """Rows, labels and weights of the f-step over all held-out samples, for models at the target g."""
        n_outputs, rows = problem.loss.n_outputs, self.rows
        D: np.ndarray = np.empty((len(rows) * n_outputs, problem.n_knots), problem.dtype)
        start = 0
        for fit, (_, test) in zip(models, self.splits, strict=True):
            stop = start + len(test) * n_outputs
            problem.f_design(problem.coefficients(fit, g), test, D[start:stop])
            start = stop
        return D, self.labels(problem), self.s[rows] / self.s[rows].sum()


# -- rounds ---------------------------------------------------------------------------------------


def silent(line: str) -> None:
    """Report nothing."""


@dataclass(frozen=True)
class Steps:
    """How rounds are done.

    Attributes
    ----------
    target_set : str or TargetSet or None
        Set of targets of the f-step.
    max_rounds : int
    tol : float
        Accuracy of the f-step, and relative decrease of J below which rounds stop.
    max_iter : int
        Largest number of iterations of one step.
    report : callable
        Told a line per round.
    tracks_last : bool
        Whether the out-of-fold loss is also computed after the only round, where nothing depends on it.
    departure : float
        Part of the way from the start to the learned target that is gone.
    unit : float
        Unit of the objectives that are reported.
    """

    target_set: Any
    max_rounds: int
    tol: float
    max_iter: int
    report: Callable[[str], None] = silent
    tracks_last: bool = True
    departure: float = 1.0
    unit: float = 1.0


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


def fit_method(
    problem: JointProblem,
    g: np.ndarray,
    steps: Steps,
    splits: Splits | None = None,
    first: Any = None,
) -> JointFit:
    """Fit from the start g: rounds over the folds `splits`, in-sample rounds without, or the w-step alone.

    Parameters
    ----------
    problem : JointProblem
    g : ndarray of shape (n_knots,)
    steps : Steps
    splits : list of (train, test), default=None
        Folds of cross-fitting. A sample may be scored by several models. Without any nothing is learned.
    first : LinearFit or list of LinearFit, default=None
        The w-step at the start, or that of every fold, where it is known already.
    """
    if not steps.max_rounds or (splits is not None and not splits):
        fit = _w_step(problem, problem.w_design(g), steps) if first is None else first
        history = [fit.objective + problem.roughness(g)]
        return _joint_fit(problem, g, fit, history, 0, fit.n_iter, _unfinished_w(fit))
    if splits is None:
        fit = _fit_in_sample(problem, g, steps, first)
    else:
        fit = _fit_crossfit(problem, g, steps, splits, first)
    return _part_way(problem, g, fit, steps)


def fit_grid(
    problem: Any,
    g: np.ndarray,
    settings: Sequence[Any],
    steps: Steps,
    splits: Splits | None = None,
) -> list[JointFit]:
    """Fits of one method at all settings, in their order.

    The first w-step depends on alpha alone: all settings share one design and one path of fits over the
    alphas, and every f-step starts from g. So a setting costs its f-steps and the w-steps after them; settings
    that differ by their departure alone share their rounds.

    Parameters
    ----------
    problem, g, steps, splits
        As in :func:`fit_method`; alpha, smoothness, the number of rounds and the departure are those of the
        settings.
    settings : sequence of objects with alpha, smoothness, max_rounds and departure
    """
    design = problem.w_design(g)
    crossed = [bool(splits) and setting.max_rounds > 0 for setting in settings]
    kinds = {(at.alpha, by_fold) for at, by_fold in zip(settings, crossed, strict=True)}
    firsts: dict[tuple[float, bool], Any] = {}
    alphas = sorted((alpha for alpha, by_fold in kinds if not by_fold), reverse=True)
    if alphas:
        path = design.solve_path(
            problem.loss, problem.y, problem.s, alphas, tol=W_TOL, max_iter=steps.max_iter
        )
        firsts = {(alpha, False): fit for alpha, fit in zip(alphas, path, strict=True)}
    if splits:
        folds = problem.fold_models(splits)
        for alpha in sorted((alpha for alpha, by_fold in kinds if by_fold), reverse=True):
            firsts[alpha, True] = folds.fit(replace(problem, alpha=alpha), design, steps.max_iter)
    del design
    whole: dict[tuple, JointFit] = {}
    results = []
    for at, by_fold in zip(settings, crossed, strict=True):
        own = replace(problem, alpha=at.alpha, smoothness=at.smoothness)
        how = replace(steps, max_rounds=at.max_rounds, tracks_last=False, departure=1.0)
        rounds = at.alpha, at.smoothness, at.max_rounds
        if rounds not in whole:
            whole[rounds] = fit_method(own, g, how, splits, firsts[at.alpha, by_fold])
        results.append(_part_way(own, g, whole[rounds], replace(how, departure=at.departure)))
    return results


def intercept_only(problem: Any, g: np.ndarray) -> JointFit:
    """Model without coefficients, for samples that have nothing to rank."""
    n_outputs = problem.loss.n_outputs
    b = problem.loss.best_constant(problem.y, problem.s)
    if not problem.fit_intercept:
        b = np.zeros(n_outputs)
    u = np.tile(b, len(problem.y))
    objective = problem.loss.value(problem.y, u, problem.s) + problem.roughness(g)
    w = np.zeros((n_outputs, problem.operator.n_features))
    return JointFit(g, w, b, objective, [objective])


def _fit_in_sample(problem: JointProblem, g: np.ndarray, steps: Steps, first: Any) -> JointFit:
    """w-step, then rounds of f-step and w-step until J stops falling or all rounds are done."""
    w_fit = _w_step(problem, problem.w_design(g), steps) if first is None else first
    history = [w_fit.objective + problem.roughness(g)]
    n_rounds, n_iter, unfinished = 0, w_fit.n_iter, _unfinished_w(w_fit)
    collapsed, runaway = False, None
    for _ in range(steps.max_rounds):
        w = problem.coefficients(w_fit, g)
        f_fit = _f_step(problem, problem.f_design(w), problem.y, problem.s, g, steps)
        n_iter += f_fit.n_iter
        if _is_degenerate(f_fit.f):
            collapsed = True
            break
        start = replace(w_fit, b=np.atleast_1d(f_fit.b))  # b moved with f
        next_fit = _w_step(problem, problem.w_design(f_fit.f), steps, start)
        n_iter += next_fit.n_iter
        after_f = f_fit.objective + problem.penalty(w)
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
    fit = _joint_fit(problem, g, w_fit, history, n_rounds, n_iter, unfinished)
    return replace(fit, collapsed=collapsed, runaway=runaway)


def _fit_crossfit(
    problem: JointProblem, g: np.ndarray, steps: Steps, splits: Splits, first: Any
) -> JointFit:
    """Rounds whose f-step scores each sample with a model that has not seen it; a last w-step on all."""
    folds = problem.fold_models(splits)
    design: Any = None
    models = first
    if models is None:
        design = problem.w_design(g)
        models = folds.fit(problem, design, steps.max_iter)
    losses, targets = [folds.held_out_loss(problem, models, design)], [g]
    n_iter, unfinished = sum(fit.n_iter for fit in models), _unfinished_w(*models)
    collapsed = False
    for n_rounds in range(1, steps.max_rounds + 1):
        design = None  # its memory is needed
        D, y, s = folds.stack(problem, models, targets[-1])
        models, first = [], None  # the next ones take their place
        f_fit = _f_step(problem, D, y, s, targets[-1], steps)
        del D, y, s
        n_iter += f_fit.n_iter
        unfinished = (*unfinished, *_unfinished_f(f_fit, steps.tol))
        collapsed = _is_degenerate(f_fit.f)
        targets.append(targets[-1] if collapsed else f_fit.f / np.sqrt(np.mean(f_fit.f**2)))
        if steps.max_rounds == 1 and not steps.tracks_last:
            losses.append(np.nan)
            break
        design = problem.w_design(targets[-1])
        models = folds.fit(problem, design, steps.max_iter)
        n_iter += sum(fit.n_iter for fit in models)
        losses.append(folds.held_out_loss(problem, models, design))
        before, after = (steps.unit * loss for loss in losses[-2:])
        steps.report(f"round {n_rounds}: out-of-fold loss {before:.6g} -> {after:.6g}")
        if collapsed:
            break
    best = 1 + int(np.argmin(losses[1:]))
    if design is None or best != len(targets) - 1:
        design = problem.w_design(targets[best])
    w_fit = _w_step(problem, design, steps)
    unfinished = (*unfinished, *_unfinished_w(w_fit))
    n_iter += w_fit.n_iter
    fit = _joint_fit(problem, targets[best], w_fit, losses, best, n_iter, unfinished)
    return replace(fit, collapsed=collapsed)


def _part_way(problem: JointProblem, g: np.ndarray, fit: JointFit, steps: Steps) -> JointFit:
    """The fit whose target lies part of the way from the start g, with the (w, b) that are best there.

    The size of the target stays that of the learned one.
    """
    if steps.departure == 1.0 or not fit.n_rounds:
        return fit
    size = float(np.sqrt(np.mean(fit.g**2)))
    mixed = (1.0 - steps.departure) * size * g + steps.departure * fit.g
    mixed *= size / np.sqrt(np.mean(mixed**2))
    w_fit = _w_step(problem, problem.w_design(mixed), steps)
    unfinished = (*fit.unfinished, *_unfinished_w(w_fit))
    n_iter = fit.n_iter + w_fit.n_iter
    return replace(
        _joint_fit(problem, mixed, w_fit, fit.history, fit.n_rounds, n_iter, unfinished),
        collapsed=fit.collapsed,
        runaway=fit.runaway,
    )


def _w_step(
    problem: JointProblem, design: Any, steps: Steps, start: LinearFit | None = None
) -> LinearFit:
    """Best (w, b) on normalised samples."""
    if problem.operator.n_samples <= problem.operator.n_features and problem.l1_ratio == 0.0:
        start = None  # the solver's unknowns are dual: those of another target may be far off
    return design.solve(
        problem.loss, problem.y, problem.s, problem.alpha,
        tol=W_TOL, max_iter=steps.max_iter, start=start,
    )  # fmt: skip


def _f_step(
    problem: JointProblem, D: Any, y: Any, s: Any, g: np.ndarray, steps: Steps
) -> TargetFit:
    """Best (f, b) for the rows D."""
    return problem.f_step(
        D,
        y,
        s,
        g,
        target_set=steps.target_set,
        tol=F_TOL * steps.tol,
        max_iter=_F_ITER * steps.max_iter,
    )


def _joint_fit(problem, g, w_fit, history, n_rounds, n_iter, unfinished) -> JointFit:
    """Result of rounds that ended with a w-step at g."""
    objective = w_fit.objective + problem.roughness(g)
    n_iter = max(int(n_iter), 1)
    return JointFit(
        g, w_fit.w, w_fit.b, objective, history, n_rounds, n_iter, unfinished, dual=w_fit.dual
    )


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
