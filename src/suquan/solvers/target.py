"""The f-step: the best target quantiles, and intercept, for a fixed w.

With w fixed every sample scores D_i·f + b, where D_i = T_iᵀ w, and the step is convex in (f, b):

    J(f, b) = Σ_i s_i ℓ(y_i, D_i·f + b) + smoothness · Σ_j (f[j+1] − f[j])²,    f in the set.

Two second-order methods share one certificate:

- at most K rows: the dual has one variable per score. :func:`_dual_newton` is Newton's method on the dual of
  a proximal-point step; its system only needs D summed over the blocks of equal quantiles;
- more rows than K: :func:`_primal_newton` minimises a quadratic model with the K×K Hessian over the set, by
  accelerated proximal gradient and jumps to the minimiser on the present blocks.

:func:`_accelerated` (proximal gradient with restarts on D itself) finishes what either leaves unsolved.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve, cholesky_banded, solveh_banded
from scipy.special import logit

from suquan._kernels.target import block_sums, column_products, row_products, whiten_rows
from suquan.losses import Logistic, Loss, Squared
from suquan.prox import (
    SmoothNondecreasingProx,
    project_bounded,
    project_bounded_nondecreasing,
    project_nondecreasing,
)

__all__ = ["TargetFit", "solve_target"]

Vector = NDArray[np.float64]
TargetSet = Literal["f0", "bnd", "spav", "joint"]

_ON_SPHERE = 1.0 - 1e-9  # mean square from which the bound counts as active
_FLOOR = 1e-6  # gaps are relative to J, or to this share of the best constant score's J
_REACH = 4.0  # norm, in units of f's, up to which a gap without bound and smoothness is certified
_HESSIAN_COST = 40  # K over the iterations that cost as much as a K×K Hessian
_GRAM_COST = 75  # rows over the iterations that cost as much as a Gram matrix of the rows
_FLATTEST = 1e-9  # curvature, in units of the smoothness, that a step treats as none
_NEGLIGIBLE = 1e-18  # a loss at which the intercept need not be refined
_FLOAT64_BLOCKS = 2000  # up to this many blocks the summed design is kept in float64


@dataclass(frozen=True)
class TargetFit:
    """Result of :func:`solve_target`.

    Attributes
    ----------
    f : ndarray of shape (K,)
        Target quantiles: in the set, with sum 0.
    b : float, or ndarray of shape (n_outputs,)
        Intercept; it sums to 0 over the outputs of a softmax loss.
    u : ndarray of shape (n_rows,) or (n_rows, n_outputs)
        Scores D f + b.
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
    u: Vector
    objective: float
    n_iter: int
    gap: float
    converged: bool


def solve_target(
    D: NDArray,
    loss: Loss,
    y: NDArray,
    s: Vector,
    f_start: Vector,
    *,
    target_set: TargetSet,
    smoothness: float = 0.0,
    fit_intercept: bool = True,
    b_start: float | Vector | None = None,
    tol: float = 1e-6,
    max_iter: int = 500,
) -> TargetFit:
    r"""Minimise the loss over target quantiles and intercept.

    .. math::

        \min_{f \in F, \, b} ~ \sum_i s_i \, \ell(y_i, D_i^\top f + b) + c \sum_j (f_{j+1} - f_j)^2

    with :math:`c` the smoothness, and F the vectors of sum 0 that are of mean square at most 1 ("f0"), also
    non-decreasing ("bnd", "joint"), or non-decreasing of any size ("spav").

    Parameters
    ----------
    D : ndarray of shape (n_rows, K), or (n_rows * n_outputs, K) for a softmax loss
        Design, float32 or float64; the scores of a softmax loss are ``(D @ f).reshape(n_rows, n_outputs)``.
    loss : Logistic, Squared or Softmax
    y : ndarray of shape (n_rows,)
        Encoded labels or values.
    s : ndarray of shape (n_rows,)
        Weights ≥ 0 that sum to 1.
    f_start : ndarray of shape (K,)
        Start. It is made feasible where it is not: centred, projected.
    target_set : {"f0", "bnd", "spav", "joint"}
    smoothness : float, default=0.0
        Weight of the squared differences, ≥ 0, for every set.
    fit_intercept : bool, default=True
        Whether b is free; otherwise it is 0.
    b_start : float or ndarray of shape (n_outputs,), default=None
        Not needed: b is always minimised exactly given f. Accepted so that callers may pass their state.
    tol : float, default=1e-6
        Stop at a certified (J − J*) / J ≤ tol. Where J is below 10⁻⁶ of the best constant score's, the gap
        is relative to that. Without bound and smoothness ("spav" with 0) the minimum may not be attained;
        the certificate then covers the targets of up to 4 times the norm of f, or of a target of mean square 1.
    max_iter : int, default=500
        Largest number of iterations.

    Returns
    -------
    TargetFit
        Its objective is never above the start's. Where the minimiser is not unique, it is the limit of the
        method's deterministic iteration from ``f_start``.

    Examples
    --------
    >>> import numpy as np
    >>> from suquan.losses import Squared
    >>> from suquan.solvers.target import solve_target
    >>> D = np.array([[0.0, 0.0, 1.0], [0.0, 1.0, 0.0], [1.0, 0.0, 0.0]])
    >>> fit = solve_target(D, Squared(), np.array([3.0, 0.0, 0.0]), np.full(3, 1 / 3),
    ...                    np.array([-1.0, 0.0, 1.0]), target_set="bnd")
    >>> fit.f.round(4), round(fit.b, 4)
    (array([-0.7071, -0.7071,  1.4142]), 1.0)
    """
    del b_start
    target = _Target(target_set, D.shape[1], float(smoothness))
    data = _Data(D, loss, y, s, fit_intercept)
    record = _Record(data, target, target.make_feasible(f_start), tol, max_iter)
    if not record.done:
        if data.n_scores <= D.shape[1]:
            _dual_newton(data, target, record)
        else:
            # A Hessian costs about as much as K/20 products: well-conditioned problems end before it.
            _accelerated(data, target, record, D.shape[1] // _HESSIAN_COST)
            _primal_newton(data, target, record)
    if not record.done:
        _accelerated(data, target, record)
    return record.result()


class _Data:
    """The loss side: products with D, and the loss as a function of the vector u of all scores."""

    def __init__(self, D, loss, y, s, fit_intercept):
        keep = np.flatnonzero(s > 0.0)
        self.n_outputs = loss.n_outputs
        D = self.all_rows = np.ascontiguousarray(D)
        if len(keep) < len(s):
            D = D.reshape(len(s), self.n_outputs, -1)[keep].reshape(-1, D.shape[1])
        self.D = D
        self.loss, self.y, self.s = loss, y[keep], s[keep]
        self.fit_intercept = fit_intercept
        self.n_scores, self.K = self.D.shape
        n_free = max(1, self.n_outputs - 1) if fit_intercept else 0
        # Column k shifts the scores of output k; the last output of a softmax is the reference.
        self.shifts = np.tile(np.eye(self.n_outputs)[:, :n_free], (len(keep), 1))

    def scores(self, f, D=None):
        """D f; sums over a float32 design run in float64."""
        D = self.D if D is None else D
        return D @ f if D.dtype == np.float64 else row_products(D, f)

    @cached_property
    def row_means(self):
        """Mean of each row of D."""
        return self.scores(np.full(self.K, 1.0 / self.K))

    def pull_back(self, a):
        """Dᵀ a, centred: the gradient in f among vectors of sum 0."""
        g = a @ self.D if self.D.dtype == np.float64 else column_products(self.D, a)
        return g - g.mean()

    def _shaped(self, u):
        return u if self.n_outputs == 1 else u.reshape(-1, self.n_outputs)

    def value(self, u):
        """Σ s ℓ(y, u)."""
        return float(self.s @ self.loss.value(self.y, self._shaped(u)))

    def dual_point(self, u):
        """Gradient of the weighted loss in u."""
        a = self.loss.gradient(self.y, self._shaped(u))
        return (self.s * a if self.n_outputs == 1 else self.s[:, None] * a).ravel()

    def scores_of_dual(self, a):
        """Scores u with dual_point(u) = a, up to what the loss ignores."""
        if isinstance(self.loss, Squared):
            return self.y + 0.5 * a / self.s
        if isinstance(self.loss, Logistic):
            return -self.y * logit(np.clip(-self.y * a / self.s, 1e-300, None))
        p = a.reshape(-1, self.n_outputs) / self.s[:, None]
        p[np.arange(len(self.y)), self.y] += 1.0
        return np.log(np.maximum(p, 1e-300)).ravel()

    def conjugate(self, u, a):
        """Conjugate of the loss at a = dual_point(u): Fenchel's equality."""
        return float(a @ u) - self.value(u)

    def root(self, u, samples=slice(None)):
        """Factor A of the loss's Hessian A Aᵀ in u, as a pair of functions x -> Aᵀ x, v -> A v."""
        curvature = self.loss.curvature(self.y[samples], self._shaped(u)[samples])
        s = self.s[samples]
        if self.n_outputs == 1:
            q = np.sqrt(s * curvature)

            def scale(x):
                return q.astype(x.dtype)[:, None] * x if x.ndim == 2 else q * x

            return scale, scale
        # diag(π) − π πᵀ = diag(√π) (I − √π √πᵀ) diag(√π), and the middle is a projection.
        p = np.sqrt(curvature)[:, :, None]
        q = np.sqrt(s)[:, None, None] * p

        def project(x):
            return x - p * np.sum(p * x, axis=1, keepdims=True)

        def blocks(x):
            return x.reshape(len(p), self.n_outputs, -1)

        return (
            lambda x: project(q * blocks(x)).reshape(x.shape),
            lambda v: (q * project(blocks(v))).reshape(v.shape),
        )

    def profile(self, u):
        """Shift u by the best intercept; return the shifted scores and the intercept."""
        b = np.zeros(self.shifts.shape[1])
        if not self.fit_intercept:
            return u, b
        start, value = u, self.value(u)
        for _ in range(100):
            gradient = self.dual_point(u) @ self.shifts
            X = self.root(u)[0](self.shifts)
            hessian = X.T @ X
            hessian[np.diag_indices_from(hessian)] += 1e-14 * np.trace(hessian) + 1e-300
            step = -np.linalg.solve(hessian, gradient)
            if not isinstance(self.loss, Squared):
                step *= min(1.0, 4.0 / np.max(np.abs(step), initial=1e-300))
            decrement = -float(step @ gradient)
            last = decrement <= 1e-12 * value or value <= _NEGLIGIBLE
            for _ in range(30):
                new = start + self.shifts @ (b + step)
                new_value = self.value(new)
                if new_value <= value - 1e-4 * decrement or (last and decrement <= 1e-6 * value):
                    break
                step, decrement = 0.5 * step, 0.5 * decrement
            else:
                break
            b, u, value = b + step, new, new_value
            if last:
                break
        return u, b


class _Face(NamedTuple):
    """Where a target lies in its set: the subspace on which the prox is smooth, and its derivative there.

    Around z the prox moves in the targets that are constant on the blocks, tangent to the sphere where that
    is active; its derivative there is the inverse of S = ``stretch``·diag(sizes) + 2c·Laplacian of the blocks.
    """

    starts: NDArray[np.int64]
    sizes: Vector
    stretch: float  # 1 + the multiplier of the bound
    on_sphere: bool
    f_sums: Vector  # f summed over the blocks: the sphere's normal


class _Target:
    """The set's side: prox, faces, and the conjugate that certifies."""

    def __init__(self, name, K, smoothness):
        if name not in ("f0", "bnd", "spav", "joint"):
            raise ValueError(f"target_set is {name!r}; choose 'f0', 'bnd', 'spav' or 'joint'.")
        self.K, self.smoothness = K, smoothness
        self.monotone, self.bounded = name != "f0", name != "spav"
        self._prox = SmoothNondecreasingProx(bounded=self.bounded)
        self._unbounded_prox = SmoothNondecreasingProx()

    def penalty(self, f):
        """Smoothness penalty of f."""
        return self.smoothness * float(np.sum(np.diff(f) ** 2)) if self.smoothness else 0.0

    def make_feasible(self, f):
        """Centre and project, unless f is in the set already."""
        f = np.array(f, dtype=np.float64)
        f -= f.mean()
        if self.monotone and np.any(np.diff(f) < 0.0):
            f = project_nondecreasing(f)
            f -= f.mean()
        return project_bounded(f) if self.bounded else f

    def prox(self, z, step):
        """Minimiser of ½‖f − z‖² + step · penalty(f) over the set, for a centred z."""
        c = step * self.smoothness
        if self.monotone and c > 0.0:
            f = self._prox(z, c)
        elif self.monotone:
            f = project_bounded_nondecreasing(z) if self.bounded else project_nondecreasing(z)
        else:
            f = _smooth_bounded(z, c)
        return self._centred(f)

    def between(self, f, x, t):
        """F + t (x − f), in the set to the last bit."""
        if t == 1.0:
            return x
        f = f + t * (x - f)
        return self._centred(np.maximum.accumulate(f) if self.monotone else f)

    def _centred(self, f):
        # Rounding leaves a mean of order eps; subtracting it keeps the order of the entries.
        f = f - f.mean()
        return project_bounded(f) if self.bounded else f

    def _free_prox(self, z, c):
        """The prox with weight c, without the bound."""
        return self._unbounded_prox(z, c) if self.monotone else _smooth(z, c)

    def face(self, f, z, step):
        """Face of f = prox(z, step)."""
        c = step * self.smoothness
        cuts = np.flatnonzero(np.diff(f)) + 1 if self.monotone else np.arange(1, self.K)
        starts = np.concatenate([[0], cuts])
        sizes = np.diff(starts, append=self.K).astype(np.float64)
        stretch, norm2 = 1.0, float(f @ f)
        if self.bounded and norm2 >= self.K * _ON_SPHERE:
            stretch = max(1.0, float(f @ z - 2.0 * c * np.sum(np.diff(f) ** 2)) / norm2)
        on_sphere = stretch > 1.0 + 1e-12
        return _Face(starts, sizes, stretch, on_sphere, f[starts] * sizes)

    def stiffness(self, face, c):
        """S of the face as a symmetric band: row 0 the off-diagonal, row 1 the diagonal."""
        S = np.zeros((2, len(face.starts)))
        S[1] = face.stretch * face.sizes
        if c > 0.0:
            S[1, :-1] += 2.0 * c
            S[1, 1:] += 2.0 * c
            S[0, 1:] = -2.0 * c
        return S

    def conjugate(self, g, multiplier, norm):
        """Upper bound on max g·f − penalty(f) over the set, tight at the bound's multiplier.

        The maximum over the cone and the ball is min over μ ≥ 0 of μK/2 + max over the cone of
        g·f − penalty(f) − (μ/2)‖f‖². Without smoothness that is √K times the norm of g's projection on the
        cone; with it, μ = 0 separates over the steps f[j+1] − f[j], and every μ gives a bound.
        """
        c = self.smoothness
        radius = np.sqrt(self.K) if self.bounded else _REACH * max(np.sqrt(self.K), norm)
        bounds = []
        if self.bounded or c == 0.0:
            v = project_nondecreasing(g) if self.monotone else g
            bounds.append(radius * float(np.linalg.norm(v)))
        if c > 0.0:
            pull = -np.cumsum(g)[:-1]
            if self.monotone:
                pull = np.maximum(pull, 0.0)
            bounds.append(float(pull @ pull) / (4.0 * c))
        if c > 0.0 and self.bounded and multiplier > 0.0:
            f = self._free_prox(g / multiplier, c / multiplier)
            excess = float(f @ f) - self.K
            bounds.append(float(g @ f) - self.penalty(f) - 0.5 * multiplier * excess)
        return min(bounds)


class _Record:
    """The best target and the best lower bound so far."""

    def __init__(self, data, target, f, tol, max_iter):
        self.data, self.target, self.tol, self.max_iter = data, target, tol, max_iter
        self.n_iter = 0
        u, b = data.profile(np.zeros(data.n_scores))
        constant = data.value(u)
        self.scale = max(_FLOOR * constant, 1e-12 * data.value(np.zeros(data.n_scores)), 1e-300)
        self.lower = 0.0
        self.objective = np.inf
        self.Df = data.scores(f)
        self.update_primal(f, self.Df)
        g = data.pull_back(data.dual_point(self.u))
        self.update_dual(self.u, data.dual_point(self.u), g, 0.0)
        self.g = g

    def update_primal(self, f, Df):
        """Offer a target; return its profiled scores and objective."""
        u, b = self.data.profile(Df)
        objective = self.data.value(u) + self.target.penalty(f)
        if objective < self.objective:
            self.f, self.Df, self.u, self.b, self.objective = f, Df, u, b, objective
        return u, objective

    def update_dual(self, u, a, g, multiplier):
        """Offer a dual point a = dual_point(u) with g = Dᵀa centred; a sums to 0 over samples."""
        bound = self.target.conjugate(-g, multiplier, float(np.linalg.norm(self.f)))
        if not self.target.bounded and self.target.smoothness == 0.0:
            self.lower = 0.0  # the certified region moves with f
        self.lower = max(self.lower, -self.data.conjugate(u, a) - bound)

    @property
    def gap(self):
        return max(0.0, self.objective - self.lower) / max(self.objective, self.scale)

    @property
    def done(self):
        return self.gap <= self.tol or self.n_iter >= self.max_iter

    def result(self):
        data = self.data
        u, b = self.Df, self.b
        if len(data.D) < len(data.all_rows):
            u = data.scores(self.f, data.all_rows)
        if data.n_outputs > 1:
            b = np.append(b, 0.0) if data.fit_intercept else np.zeros(data.n_outputs)
            b = b - b.mean()
            u = u.reshape(-1, data.n_outputs) + b
        else:
            b = float(b[0]) if data.fit_intercept else 0.0
            u = u + b
        gap = float(self.gap)
        return TargetFit(self.f, b, u, self.objective, self.n_iter, gap, bool(gap <= self.tol))


def _smooth(z: Vector, c: float) -> Vector:
    """Minimiser of ½‖f − z‖² + c Σ (f[j+1] − f[j])².

    Solved for the differences, whose matrix stays regular however large c is.
    """
    if c == 0.0 or len(z) == 1:
        return z.copy()
    band = np.empty((2, len(z) - 1))
    band[0], band[1] = -1.0, 2.0 + 0.5 / c
    steps = np.diff(z) * (0.5 / c)
    steps = solveh_banded(band, steps) if len(steps) > 1 else steps / band[1]
    f = np.append(0.0, np.cumsum(steps))
    return f + (z.mean() - f.mean())


def _smooth_bounded(z: Vector, c: float) -> Vector:
    """The same with mean square at most 1: a Newton iteration for the bound's multiplier."""
    if c == 0.0:
        return project_bounded(z)
    stretch, f = 1.0, _smooth(z, c)
    for _ in range(60):
        norm2, K = float(f @ f), len(z)
        if norm2 <= K * (1.0 + 1e-14):
            break
        # 1/‖f‖ is almost linear in the multiplier, and concave: steps from the left never overshoot.
        slope = float(f @ _smooth(f, c / stretch)) / stretch
        stretch += norm2 / slope * (np.sqrt(norm2 / K) - 1.0)
        f = _smooth(z / stretch, c / stretch)
    return project_bounded(f)


# The dual method, for at most K rows.


class _DualPoint(NamedTuple):
    """Dual point a = ∇loss(u) of one proximal step, its target f = prox(z), and the dual's value."""

    u: Vector
    a: Vector
    g: Vector
    z: Vector
    f: Vector
    value: float


def _dual_point(data, target, u, center, sigma, a=None, g=None):
    """Evaluate ψ(a) = loss*(a) + (penalty + ‖· − center‖²/2σ)*(−Dᵀa), to be minimised over a."""
    if a is None or g is None:
        u = data.profile(u)[0]
        a = data.dual_point(u)
        g = data.pull_back(a)
    z = center - sigma * g
    f = target.prox(z, sigma)
    move = f - center
    value = data.conjugate(u, a) - float(g @ f) - target.penalty(f)
    return _DualPoint(u, a, g, z, f, value - float(move @ move) / (2.0 * sigma))


_SIGMA_UP, _SIGMA_DOWN = 10.0, 0.03
_PATIENCE = (
    4  # Newton steps that may fail to halve the gap before the proximal step is judged too long
)
_MAX_CUTS = 10


def _dual_newton(data: _Data, target: _Target, record: _Record) -> None:
    """Proximal point on f; each step by Newton's method on its dual, one variable per score."""
    center, sigma = record.f, _first_sigma(data, target, record)
    gram = _Gram(data, target)
    point = _shrunk_start(data, target, record, sigma)
    n_inner, n_slow, smallest, n_cuts, tried_gradient = 0, 0, np.inf, 0, False
    while True:
        record.n_iter += 1
        Df = data.scores(point.f)
        u_f, objective = record.update_primal(point.f, Df)
        face = target.face(point.f, point.z, sigma)
        record.update_dual(point.u, point.a, point.g, (face.stretch - 1.0) / sigma)
        if record.done:
            return
        move = float(np.sum((point.f - center) ** 2)) / (2.0 * sigma)
        gap = objective + move + point.value
        if gap <= 0.3 * move + 1e-3 * record.tol * record.objective:
            center, sigma = point.f, sigma * (_SIGMA_UP if n_inner < 3 else 1.0)
            point = _dual_point(data, target, u_f, center, sigma)
            n_inner, n_slow, smallest = 0, 0, np.inf
            continue
        if not tried_gradient and 10 * data.n_scores <= len(face.starts):
            # A Gram matrix over many blocks costs as much as these steps: easy problems end before it.
            tried_gradient = True
            _accelerated(data, target, record, data.n_scores // _GRAM_COST)
            if record.done:
                return
        n_slow += gap > 0.5 * smallest
        smallest = min(gap, smallest)
        new = None
        if n_slow < _PATIENCE:
            new = _dual_newton_step(data, target, gram, point, face, Df, center, sigma)
        if new is not None:
            point, n_inner = new, n_inner + 1
            continue
        n_cuts += 1
        if n_cuts > _MAX_CUTS:
            return
        center, sigma = record.f, sigma * _SIGMA_DOWN
        point = _dual_point(data, target, record.u, center, sigma)
        n_inner, n_slow, smallest = 0, 0, np.inf


def _dual_newton_step(data, target, gram, point, face, Df, center, sigma):
    """Newton's step with backtracking on ψ; None where it fails."""
    u_new = _dual_newton_scores(data, target, gram, point, face, Df, sigma)
    if u_new is None:
        return None
    step = u_new - point.u
    left, right = data.root(point.u)
    slope = min(0.0, float(right(left(step)) @ (point.u - Df)))
    t = 1.0
    for _ in range(8):
        new = _dual_point(data, target, point.u + t * step, center, sigma)
        if new.value <= point.value + 1e-4 * t * slope + 1e-14 * abs(point.value):
            return new
        t *= 0.4
    return None


def _shrunk_start(data, target, record, sigma):
    """Best dual start among the multiples 2⁻ᵏ a of the start's dual point: no product with D."""
    a, g = data.dual_point(record.u), record.g

    def point_at(scale):
        u = record.u if scale == 1.0 else data.scores_of_dual(scale * a)
        return _dual_point(data, target, u, record.f, sigma, scale * a, scale * g)

    best, scale = point_at(1.0), 0.5
    while scale > 1e-9:
        new = point_at(scale)
        if not new.value < best.value:
            break
        best, scale = new, 0.5 * scale
    return best


def _first_sigma(data, target, record):
    """Length of the first proximal step.

    Where the bound or the smoothness holds f, the proximal term may be far below J. Squared losses often leave
    f to the data; then the step is some multiple of the inverse curvature along the gradient.
    """
    far = 1e6 if target.smoothness > 0.0 else 1e3
    far *= target.K / max(record.objective, record.scale)
    norm2 = float(record.g @ record.g)
    if not isinstance(data.loss, Squared) or norm2 == 0.0:
        return far
    Dg = data.root(record.u)[0](data.scores(record.g))
    return min(far, 10.0 * norm2 / max(float(Dg @ Dg), 1e-300))


class _Gram:
    """D S⁻¹ Dᵀ over a face, for centred rows of D."""

    def __init__(self, data, target):
        self.data, self.target = data, target
        self._plain = None
        self._last: tuple = (None, 0.0, None)

    def reduced(self, face, dtype=None):
        """D summed over the face's blocks; not centred."""
        D = self.data.D
        n_blocks = len(face.starts)
        if n_blocks == self.data.K:
            return D.astype(dtype or D.dtype)
        dtype = dtype or (np.float64 if n_blocks <= _FLOAT64_BLOCKS else D.dtype)
        out = np.empty((len(D), n_blocks), dtype=dtype)
        block_sums(D, face.starts, out)
        return out

    def matrix(self, face, c):
        """The Gram matrix, float64, of shape (n_scores, n_scores)."""
        if c == 0.0 and len(face.starts) == self.data.K:
            return self._of_single_columns(face)
        starts, last_c, M = self._last
        if (
            M is not None
            and not face.on_sphere
            and c == last_c
            and np.array_equal(starts, face.starts)
        ):
            return M
        S = self.target.stiffness(face, c)
        R = cholesky_banded(S) if c > 0.0 else np.sqrt(S)
        X = self.reduced(face)
        whiten_rows(X, self.data.row_means, face.sizes, R[1], R[0])
        if face.on_sphere:
            h = face.f_sums[None].copy()
            whiten_rows(h, np.zeros(1), face.sizes, R[1], R[0])
            h = (h[0] / np.linalg.norm(h)).astype(X.dtype)
            X -= np.outer(X @ h, h)
        M = (X @ X.T).astype(np.float64)
        if not face.on_sphere:
            self._last = face.starts, c, M
        return M

    def _of_single_columns(self, face):
        if self._plain is None:
            D = self.data.D - self.data.row_means[:, None].astype(self.data.D.dtype)
            self._plain = D, (D @ D.T).astype(np.float64)
        D, M = self._plain
        if face.on_sphere:
            q = (D @ face.f_sums.astype(D.dtype)).astype(np.float64)
            M = M - np.outer(q, q) / float(face.f_sums @ face.f_sums)
        return M / face.stretch


def _dual_newton_scores(data, target, gram, point, face, Df, sigma):
    """Scores to which Newton's method moves, or None where its system cannot be solved."""
    left, right = data.root(point.u)
    c = sigma * target.smoothness
    residual = point.u - Df
    try:
        if data.n_scores <= len(face.starts):
            M = sigma * gram.matrix(face, c)
            return _solve_rows(data, left, right, M, point.a, residual, Df)
        X = gram.reduced(face, np.float64)
        X -= np.outer(data.row_means, face.sizes)
        S = target.stiffness(face, c) / sigma
        return _solve_blocks(data, left, X, S, face, point.a, residual, Df)
    except LinAlgError:
        return None


def _solve_rows(data, left, right, M, a, residual, Df):
    """Solve (W⁻¹ + M) da = shifts·b − residual with shiftsᵀ(a + da) = 0, W = A Aᵀ, in da = A v."""
    system = left(left(M).T)
    system[np.diag_indices_from(system)] += 1.0 + 1e-13 * np.trace(system) / len(system)
    columns = left(data.shifts)
    x = cho_solve(
        cho_factor(system, overwrite_a=True, check_finite=False),
        np.column_stack([left(residual), columns]),
        check_finite=False,
    )
    v, shift = -x[:, 0], 0.0
    if data.fit_intercept:
        b = np.linalg.solve(columns.T @ x[:, 1:], columns.T @ x[:, 0] - a @ data.shifts)
        v, shift = v + x[:, 1:] @ b, data.shifts @ b
    return Df + shift - M @ right(v)


def _solve_blocks(data, left, X, S, face, a, residual, Df):
    """The same system through the block values, where there are fewer of those than scores."""
    n_blocks = len(face.starts)
    Z = left(np.column_stack([X, data.shifts]))
    H = Z.T @ Z
    diagonal = np.arange(n_blocks)
    H[diagonal, diagonal] += S[1]
    H[diagonal[1:], diagonal[:-1]] += S[0, 1:]
    H[diagonal[:-1], diagonal[1:]] += S[0, 1:]
    H[np.diag_indices_from(H)] += 1e-13 * np.trace(H) / len(H)
    rhs = Z.T @ left(residual)
    rhs[n_blocks:] -= a @ data.shifts
    factor = cho_factor(H, overwrite_a=True, check_finite=False)
    x = cho_solve(factor, rhs, check_finite=False)
    if face.on_sphere:
        normal = np.concatenate([face.f_sums, np.zeros(data.shifts.shape[1])])
        y = cho_solve(factor, normal, check_finite=False)
        x -= y * (normal @ x) / (normal @ y)
    return Df + X @ x[:n_blocks] + data.shifts @ x[n_blocks:]


# The primal method, for more rows than K.


def _primal_newton(data: _Data, target: _Target, record: _Record) -> None:
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
            model = _Model(target, _hessian(data, u))
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


def _hessian(data, u):
    """Hessian in f of the loss with the intercept minimised out, over vectors of sum 0."""
    n_free = data.shifts.shape[1]
    total = np.zeros((data.K + n_free, data.K + n_free))
    chunk = max(1, 4096 // data.n_outputs)  # samples; a chunk of D stays near the processor
    for i in range(0, len(data.y), chunk):
        rows = slice(i * data.n_outputs, (i + chunk) * data.n_outputs)
        D = data.D[rows]
        X = np.empty((len(D), data.K + n_free), dtype=D.dtype)
        np.subtract(D, data.row_means[rows, None].astype(D.dtype), out=X[:, : data.K])
        X[:, data.K :] = data.shifts[rows]
        Z = data.root(u, slice(i, i + chunk))[0](X)
        total += Z.T @ Z
    H, cross, inner = (
        total[: data.K, : data.K],
        total[: data.K, data.K :],
        total[data.K :, data.K :],
    )
    if n_free == 0:
        return H
    inner[np.diag_indices_from(inner)] += 1e-14 * np.trace(inner) + 1e-300
    return H - cross @ np.linalg.solve(inner, cross.T)


class _Model:
    """Quadratic model ½xᵀHx + h·x + penalty(x) over the set."""

    def __init__(self, target, H):
        self.target, self.H = target, H
        self.largest = max(1.02 * _largest_eigenvalue(H), _FLATTEST * target.smoothness)

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
        return target._centred(np.repeat(v, sizes.astype(np.int64)))


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


# The method that always works.


def _accelerated(data: _Data, target: _Target, record: _Record, budget: int | None = None) -> None:
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
    Dg = data.root(record.u)[0](data.scores(record.g))
    curvature = float(Dg @ Dg) / norm2 if norm2 > 0.0 else 0.0
    return 1.0 / max(curvature, _FLATTEST * target.smoothness, 1e-300)
