"""The loss side of the f-step: products with the design, the loss in the scores, the best intercept."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from scipy.linalg import blas
from scipy.special import logit

from suquan.losses import Logistic, Squared
from suquan.solvers._algebra import mirror
from suquan.solvers._target_rows import Rows

_NEGLIGIBLE = 1e-18  # a loss at which the intercept need not be refined
# At least, of the matrix of rows that the Hessian is summed over at a time.
_CHUNK_ENTRIES = 1 << 17
# Rows that are summed over blocks of columns at a time, and entries of such sums, at least.
_BLOCK_ROWS, _BLOCK_ENTRIES = 128, 1 << 16


class Data:
    """The loss side: products with D, and the loss as a function of the vector u of all scores."""

    forms_hessian = True  # whether a K×K matrix is never too much to ask for

    def __init__(self, D: Rows, loss, y, s, fit_intercept):
        keep = np.flatnonzero(s > 0.0)
        self.n_outputs = loss.n_outputs
        self.all_rows = D
        self.D = D.take(keep, self.n_outputs) if len(keep) < len(s) else D
        self.loss, self.y, self.s = loss, y[keep], s[keep]
        self.fit_intercept = fit_intercept
        self.n_scores, self.K = self.D.shape
        n_free = max(1, self.n_outputs - 1) if fit_intercept else 0
        # Column k shifts the scores of output k; the last output of a softmax is the reference.
        self.shifts = np.tile(np.eye(self.n_outputs)[:, :n_free], (len(keep), 1))

    @property
    def solves_dual(self) -> bool:
        """Whether Newton's method runs on the dual: few scores, or no room for the primal's K×K matrix."""
        largest = 1.4 * self.D.largest_square  # without working space
        return self.n_scores <= self.K or largest < self.K

    def scores(self, f):
        """D f; sums over a float32 design run in float64."""
        return self.D.scores(f)

    @cached_property
    def row_means(self):
        """Mean of each row of D."""
        return self.scores(np.full(self.K, 1.0 / self.K))

    def pull_back(self, a):
        """Dᵀ a, centred: the gradient in f among vectors of sum 0."""
        g = self.D.adjoint(a)
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

    def between_roots(self, u, M):
        """Aᵀ M A, a new matrix, for the factor A of :meth:`root`."""
        if self.n_outputs > 1:
            left = self.root(u)[0]
            return left(left(M).T)
        q = np.sqrt(self.s * self.loss.curvature(self.y, u))
        product = M * q
        product *= q[:, None]
        return product

    def values_without_target(self):
        """Σ s ℓ(y, b) at the best constant score b, and at 0."""
        zeros = np.zeros(self.n_scores)
        return self.value(self.profile(zeros)[0]), self.value(zeros)

    def curvature_along(self, u, g):
        """Second derivative of the loss at the scores u when the target moves along g."""
        Dg = self.root(u)[0](self.scores(g))
        return float(Dg @ Dg)

    def hessian(self, u):
        """Hessian in f of the loss with the intercept minimised out, over vectors of sum 0."""
        return profiled_hessian(self.hessian_sums(u), self.K)

    def hessian_sums(self, u):
        """Hessian of the loss in (f, b), over vectors f of sum 0."""
        n_free = self.shifts.shape[1]
        total = np.zeros((self.K + n_free, self.K + n_free))
        # Few rows make small copies; fewer than K would cost more in adding up the products.
        chunk = max(1, max(self.K, _CHUNK_ENTRIES // self.K) // self.n_outputs)
        for samples, D in self.D.chunks(chunk, self.n_outputs):
            rows = (samples[:, None] * self.n_outputs + np.arange(self.n_outputs)).ravel()
            X = np.empty((len(D), self.K + n_free), dtype=D.dtype)
            np.subtract(D, self.row_means[rows, None].astype(D.dtype), out=X[:, : self.K])
            X[:, self.K :] = self.shifts[rows]
            Z = self.root(u, samples)[0](X)
            total += Z.T @ Z
            del D, X, Z  # before the next ones are made
        return total

    def block_hessian(self, u, starts):
        """Hessian of the loss in (block values, b), for targets that are constant on blocks of columns.

        The rows are centred, and made a few at a time. Products run in float64.
        """
        bounds = np.append(starts, self.K)
        n_blocks, n_free = len(starts), self.shifts.shape[1]
        total = np.zeros((n_blocks + n_free, n_blocks + n_free), order="F")
        chunk = max(1, max(_BLOCK_ROWS, _BLOCK_ENTRIES // n_blocks) // self.n_outputs)
        for samples, D in self.D.chunk_sums(chunk, self.n_outputs, bounds):
            rows = (samples[:, None] * self.n_outputs + np.arange(self.n_outputs)).ravel()
            D -= np.outer(self.row_means[rows], np.diff(bounds))
            Z = self.root(u, samples)[0](np.column_stack([D, self.shifts[rows]]))
            total = blas.dsyrk(1.0, Z.T, beta=1.0, c=total, lower=1, overwrite_c=1)
            del D, Z  # before the next ones are made
        mirror(total)
        return total

    def all_scores(self, f, Df, b):
        """Scores of all rows, those of weight 0 included, and the intercept as users know it."""
        u = Df if self.D is self.all_rows else self.all_rows.scores(f)
        b = self.full_intercept(b)
        return (u + b if self.n_outputs == 1 else u.reshape(-1, self.n_outputs) + b), b

    def full_intercept(self, b):
        """One intercept per output, from those that are free: of sum 0 for a softmax loss."""
        if self.n_outputs == 1:
            return float(b[0]) if self.fit_intercept else 0.0
        b = np.append(b, 0.0) if self.fit_intercept else np.zeros(self.n_outputs)
        return b - b.mean()

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


def profiled_hessian(total, K):
    """Hessian in f with the intercept minimised out, from that in (f, b)."""
    H, cross, inner = total[:K, :K], total[:K, K:], total[K:, K:]
    if not len(inner):
        return H
    inner[np.diag_indices_from(inner)] += 1e-14 * np.trace(inner) + 1e-300
    return H - cross @ np.linalg.solve(inner, cross.T)
