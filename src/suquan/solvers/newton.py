"""Newton's method for several fits in lockstep, and what all solvers of the w-step agree on.

A :class:`NewtonProblem` gives objectives, gradients, products with Hessians and a preconditioner:
:mod:`suquan.solvers.ridge_gram` in the samples' dimensions, :mod:`suquan.solvers.ridge_features` in the
features'. Its sums over samples may come from a matrix or from passes over blocks. :func:`newton` gives
solutions, of which the solvers make a :class:`LinearFit` each.

Parameters ``theta`` of a batch have shape (n_fits, n_outputs, n_parameters), and so have gradients and steps.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import numpy as np

from suquan.losses import Curvature, DiagonalCurvature, Loss
from suquan.solvers._products import Array, MaybeArray

TOL = 1e-8
MAX_ITER = 200
# An objective below this fraction of the loss at zero scores counts as zero.
_NEGLIGIBLE = 1e-12
Product = Callable[[Array], Array]

# Relative residual of the last Newton step: 10⁻⁴ of the gap are left, where the usual one would leave a tenth.
_LAST_FORCING = 1e-2
# A step that was not solved so accurately sees less than the gap: it must be this much below what is asked.
_INACCURATE = 0.1
_MAX_HALVINGS = 40
# Share of the secant's curvature that Newton's model has at least, at first and after long steps failed.
_FIRST_DAMPING, _MOST_DAMPING = 0.1, 1.0


@dataclass(frozen=True)
class LinearFit:
    """A fitted linear model; give it as ``start`` to warm-start a neighbouring problem.

    Attributes
    ----------
    w : ndarray of shape (n_outputs, n_features) or None
        Coefficients; None where the design is known by its Gram matrix alone.
    b : ndarray of shape (n_outputs,)
        Intercepts; they sum to 0 where the loss ignores a common shift of all outputs.
    u : ndarray of shape (n_samples,) or (n_samples, n_outputs)
        Scores of all rows, those of weight 0 included.
    objective : float
        J(w, b).
    n_iter : int
        Newton iterations.
    criterion : float
        Estimate of J/J* − 1 before the last step.
    converged : bool
        Whether ``criterion`` came below ``tol``.
    dual : ndarray of shape (n_outputs, n_samples) or None
        Coefficients a with w = a A, where they were computed.
    design : object
        Opaque: what the fit was computed on, so that a start on the same design reuses ``u``.
    """

    w: MaybeArray
    b: Array
    u: Array
    objective: float
    n_iter: int
    criterion: float
    converged: bool
    dual: MaybeArray = None
    design: object = field(default=None, repr=False, compare=False)


def normalised(S: Array) -> Array:
    """Weights of sum 1 in each row."""
    S = np.array(S, dtype=np.float64, subok=False)
    S /= S.sum(axis=-1, keepdims=True)
    return S


def negligible(loss: Loss, y: Array, s: Array) -> float:
    """Objective under which a fit counts as perfect."""
    at_zero = loss.value(y, np.zeros(len(y) * loss.n_outputs), s)
    return max(_NEGLIGIBLE * at_zero, np.finfo(float).tiny)


def ignores_shifts(loss: Loss, y: Array, s: Array) -> bool:
    """Whether a common shift of all outputs leaves the loss as it is, so that they may sum to 0."""
    if loss.n_outputs == 1:
        return False
    u = np.zeros(len(y) * loss.n_outputs)
    before, after = loss.value(y, u, s), loss.value(y, u + 1.0, s)
    return abs(after - before) <= 1e-12 * (abs(before) + 1.0)


def of_samples(u: Array, loss: Loss) -> Array:
    """Scores side by side as a fit has them: of shape (n_samples,) or (n_samples, n_outputs)."""
    return u if loss.n_outputs == 1 else u.reshape(-1, loss.n_outputs)


def damped_curvature(loss: Loss, y: Array, u: Array, s: Array, damping: float) -> Curvature:
    """Hessian of the weighted loss in its scores u, at least `damping` times the curvature of the secant.

    The secant from the scores of smallest loss bounds a convex loss that is flat or linear there: the Huber
    loss has no curvature at large residuals, where Newton's step would have no end.
    """
    hessian = loss.hessian(y, u, s)
    if loss.is_quadratic or loss.couples_samples or loss.n_outputs > 1:
        return hessian
    away = u - loss.scores_of_dual(y, np.zeros_like(u), s)
    secant = np.divide(loss.gradient(y, u, s), away, out=np.zeros_like(u), where=away != 0.0)
    return DiagonalCurvature(np.maximum(hessian.diagonal(), damping * secant))


class Point(NamedTuple):
    """One fit at its parameters.

    Attributes
    ----------
    theta : ndarray of shape (n_outputs, n_parameters)
    objective : float
        J; not finite where the loss overflows.
    u : ndarray of shape (n_samples · n_outputs,) or None
        Scores, the outputs of a sample side by side; None where the samples lie elsewhere.
    gradient : ndarray of the shape of theta, or None
        Where it came with the objective.
    curvature : float
        Mean over the outputs of the summed second derivatives of the loss, where it came with the objective.
    damping : float
        Least share of the secant's curvature in Newton's model.
    """

    theta: Array
    objective: float
    u: MaybeArray = None
    gradient: MaybeArray = None
    curvature: float = np.nan
    damping: float = _FIRST_DAMPING


def lower(first: Point, second: Point) -> Point:
    """The point of the lower objective, if the second has a finite one."""
    return second if second.objective < first.objective else first


class NewtonProblem(Protocol):
    """What :func:`newton` asks; `fits` are the numbers of the fits that the other arguments belong to."""

    max_products: int  # that conjugate gradients may use for one step

    def evaluate(self, fits: Array, theta: Array) -> list[Point]:
        """The fits at theta."""

    def gradients(self, fits: Array, points: list[Point]) -> Array:
        """Gradients of the objectives."""

    def hessian(self, fits: Array, points: list[Point]) -> Product:
        """Products with the Hessians of the objectives."""

    def preconditioner(self, fits: Array, points: list[Point]) -> Product:
        """Products with approximate inverses of the Hessians."""


def newton(
    problem: NewtonProblem, points: list[Point], floor: float, tol: float, max_iter: int
) -> Iterator[tuple[Point, int, float]]:
    """Minimise the objectives of all fits from their `points`.

    Returns the last point of each fit, the Newton steps to it, and its relative gap before the last one.

    A fit ends once half its squared Newton decrement, ½ gᵀH⁻¹g, is at most `tol` times its objective, or times
    `floor` where that is larger, and the step to the next point was solved accurately or the gap before it was
    a tenth of that; or where no step lowers its objective.
    """
    points = list(points)
    criterion, n_iter = np.full(len(points), np.inf), np.zeros(len(points), dtype=int)
    running = np.arange(len(points))
    for _ in range(max_iter):
        present = [points[k] for k in running]
        gradient = problem.gradients(running, present)
        precondition = problem.preconditioner(running, present)
        scale = np.maximum([point.objective for point in present], floor)
        scaled = precondition(gradient)
        gap = 0.5 * dots(gradient, scaled) / scale
        step, accurate = conjugate_gradients(
            problem.hessian(running, present),
            precondition,
            gradient,
            scaled,
            _forcing(gap, tol),
            2.0 * tol * scale,
            problem.max_products,
        )
        slope = dots(gradient, step)
        done = accurate | (criterion[running] <= _INACCURATE * tol)
        criterion[running] = 0.5 * np.abs(slope) / scale  # a rising slope is rounding
        n_iter[running] += 1
        lengths = _move(problem, points, running, step, slope)
        for k, length in zip(running.tolist(), lengths.tolist(), strict=True):
            damping = points[k].damping
            damping = min(damping, criterion[k]) if length == 1.0 else 10.0 * damping
            points[k] = points[k]._replace(damping=min(damping, _MOST_DAMPING))
        # A step that lowers nothing at any length is rounding: nothing more can be gained.
        running = running[((criterion[running] > tol) | ~done) & (lengths > 0.0)]
        if not len(running):
            break
    return zip(points, n_iter.tolist(), criterion.tolist(), strict=True)


def _forcing(gap: Array, tol: float) -> Array:
    """Relative residual at which conjugate gradients may stop, per fit.

    A Newton step solved to η leaves η² of the gap; less than what ``tol`` asks is wasted, and so is precision
    while the quadratic model is still poor.
    """
    wanted = np.sqrt(0.1 * tol / np.maximum(gap, tol))
    return np.clip(wanted, np.where(gap > 1e-3, 0.1, 0.01), 0.5)


def _move(
    problem: NewtonProblem, points: list[Point], fits: Array, step: Array, slope: Array
) -> Array:
    """Replace the points of `fits` by better ones along their steps; the lengths of the steps taken."""
    theta = np.stack([points[k].theta for k in fits])
    trials: dict[int, Point] = {}

    def evaluate(some: Array, t: float) -> list[float]:
        found = problem.evaluate(fits[some], theta[some] + t * step[some])
        trials.update(zip(some.tolist(), found, strict=True))
        return [point.objective for point in found]

    lengths = line_search(evaluate, np.array([points[k].objective for k in fits]), slope)
    for place in np.flatnonzero(lengths).tolist():
        k = fits[place]
        points[k] = trials[place]._replace(damping=points[k].damping)
    return lengths


def line_search(
    evaluate: Callable[[Array, float], list[float]], objective: Array, slope: Array
) -> Array:
    """Halve the steps of several fits until their objectives fall.

    Parameters
    ----------
    evaluate : callable
        ``evaluate(some, t)`` gives the objectives of the fits numbered `some` at the length t of their steps.
    objective, slope : ndarray of shape (n_fits,)
        At length 0.

    Returns
    -------
    ndarray of shape (n_fits,)
        Length at which the fit was evaluated last and its objective fell; 0 where none lowers it. Objectives
        that are not finite are never taken.
    """
    lengths, pending, t = np.zeros(len(objective)), np.arange(len(objective)), 1.0
    for _ in range(_MAX_HALVINGS):
        found = np.array(evaluate(pending, t))
        falls = found <= objective[pending] + 1e-4 * t * slope[pending]
        lengths[pending[falls]] = t
        # A promise of rounding size is not worth shorter steps.
        worth = -slope[pending] > 1e-14 * np.abs(objective[pending])
        pending, t = pending[~falls & worth], 0.5 * t
        if not len(pending):
            break
    return lengths


def conjugate_gradients(
    product: Product,
    precondition: Product,
    gradient: Array,
    scaled: Array,
    forcing: Array,
    last_decrement: Array,
    limit: int,
) -> tuple[Array, Array]:
    """Solve H step = −gradient for every fit of a batch at once.

    Parameters
    ----------
    product, precondition : callable
        Products with H, and with an approximate inverse of H.
    gradient, scaled : ndarray of shape (n_fits, n_outputs, n_parameters)
        The second is the preconditioned first.
    forcing : ndarray of shape (n_fits,)
        Relative residual, in the norm of the preconditioner, at which a fit is solved.
    last_decrement : ndarray of shape (n_fits,)
        A fit whose squared Newton decrement is at most this takes its last step, solved to 10⁻².
    limit : int
        Largest number of products.

    Returns
    -------
    step : ndarray of the shape of ``gradient``
    accurate : ndarray of bool, shape (n_fits,)
        Which fits came down to what the last step needs.
    """
    step, residual, direction = np.zeros_like(gradient), -gradient, -scaled
    energy = dots(residual, direction)
    target, last_target = forcing**2 * energy, _LAST_FORCING**2 * energy
    goal, accurate = target, energy <= last_target
    for _ in range(limit):
        curved = product(direction)
        curvature = dots(direction, curved)
        usable = (energy > goal) & (curvature > 0.0)
        length = np.where(usable, energy / np.where(usable, curvature, 1.0), 0.0)[:, None, None]
        step += length * direction
        residual -= length * curved
        scaled = precondition(residual)
        previous, energy = energy, np.where(usable, dots(residual, scaled), 0.0)
        accurate |= usable & (energy <= last_target)
        goal = np.where(dots(-gradient, step) <= last_decrement, last_target, target)
        if not np.any(energy > goal):
            break
        ratio = np.where(previous > 0.0, energy / np.where(previous > 0.0, previous, 1.0), 0.0)
        direction = scaled + ratio[:, None, None] * direction
    return step, accurate


def dots(V: Array, W: Array) -> Array:
    """Inner product of each fit of a batch, of shape (n_fits,)."""
    return np.einsum("fkj,fkj->f", V, W)
