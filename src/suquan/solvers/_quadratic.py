"""The elastic net's second-order model, minimised by proximal points and Newton's method on their dual.

    min over z   ½ ‖Z (z − z₀)‖² + g·(z − z₀) + Σ_j l1_j |z_j| + l2_j z_j²,        ZᵀZ = the Hessian

A proximal step of length σ from c adds ‖z − c‖²/2σ. The dual of the step has one variable per row of Z and is
smooth,

    F(r) = ½ ‖r‖² + p*(−Zᵀr),     ∇F(r) = r − Z (z(r) − z₀),
    z(r) = shrink(c − σ (g + Zᵀr), σ l1) / (1 + 2 σ l2),

with the generalised Hessian I + Z D Zᵀ, D = σ / (1 + 2 σ l2) on the support of z(r); ½ ‖∇F‖² is the duality
gap of the step. Correlated and repeated columns cost nothing extra: the system has as many rows as Z and is
never singular, and steps of growing length end at a minimiser. :mod:`suquan.solvers.elastic_net` calls
:class:`QuadraticModel`.

The system has min(n_samples, n_columns) · n_outputs rows. Where outputs make it too large, the model is
minimised over one output after the other.
"""

from __future__ import annotations

import numpy as np

from suquan.losses import Curvature, DiagonalCurvature
from suquan.solvers._products import Array, cholesky, cholesky_solve

# Most rows of a system of several outputs.
_MOST_ROWS = 2000
_MAX_SWEEPS = 20
# Newton steps of one model in all, and of one proximal step.
_MAX_NEWTON, _MAX_NEWTON_OF_STEP = 100, 30
_MAX_HALVINGS = 30
_LEAST_CURVATURE, _LARGEST_GROWTH = 1e-30, 1e30  # so that no number overflows
_FEW_NEWTON = 4  # steps of an easy proximal step, after which a much longer one is tried


class QuadraticModel:
    """Second-order model of a loss on some columns, with the penalty.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_columns)
        The last column is the intercept's and has no penalty.
    curvature : Curvature
        Of the loss in the scores.
    gradient : ndarray of shape (n_outputs, n_columns)
        Of the loss at z0.
    z0 : ndarray of shape (n_outputs, n_columns)
    l1, l2 : float
    """

    def __init__(
        self, X: Array, curvature: Curvature, gradient: Array, z0: Array, l1: float, l2: float
    ):
        self.X, self.curvature, self.gradient, self.z0 = X, curvature, gradient, z0
        self.l1, self.l2 = l1, l2

    def minimise(self, tol: float) -> Array:
        """Minimiser to about `tol` in value, of the shape of z0."""
        n_outputs = len(self.z0)
        if n_outputs > 1 and min(self.X.shape) * n_outputs > _MOST_ROWS:
            return self._minimise_by_outputs(tol)
        rows = _Rows(self.X, self.curvature, n_outputs)
        if self.X.shape[0] > self.X.shape[1]:
            rows = rows.compressed()
        penalised = np.ones_like(self.z0)
        penalised[:, -1] = 0.0
        penalised = penalised.ravel()
        steps = _ProximalSteps(
            rows, self.gradient.ravel(), self.z0.ravel(), self.l1 * penalised, self.l2 * penalised
        )
        return steps.run(tol).reshape(self.z0.shape)

    def _minimise_by_outputs(self, tol: float) -> Array:
        """Cyclic minimisation over the outputs, each with its own part of the curvature."""
        n_samples, n_outputs = len(self.X), len(self.z0)
        diagonal = self.curvature.diagonal().reshape(n_samples, n_outputs)
        z = self.z0.copy()
        for _ in range(_MAX_SWEEPS):
            before = z.copy()
            for k in range(n_outputs):
                change = np.ravel(self.X @ (z - self.z0).T)
                curved = self.curvature.product(change).reshape(n_samples, n_outputs)[:, k]
                gradient = self.gradient[k] + curved @ self.X
                own = DiagonalCurvature(diagonal[:, k])
                model = QuadraticModel(self.X, own, gradient[None], z[k][None], self.l1, self.l2)
                z[k] = model.minimise(tol / n_outputs)[0]
            moved = self.X @ (z - before).T
            if float(np.sum(diagonal * moved**2)) <= tol:
                break
        return z


class _Rows:
    """Products with Z = Rᵀ (X ⊗ 1), where R Rᵀ is the curvature; coefficients are output after output."""

    def __init__(self, X: Array, curvature: Curvature, n_outputs: int):
        self.X, self.curvature, self.n_outputs = X, curvature, n_outputs
        self.n_rows = len(X) * n_outputs

    def product(self, z: Array) -> Array:
        """Z z."""
        scores = self.X @ z.reshape(self.n_outputs, -1).T
        return self.curvature.root_adjoint(scores.ravel())

    def adjoint(self, r: Array) -> Array:
        """Zᵀ r."""
        slopes = self.curvature.root(r).reshape(-1, self.n_outputs)
        return (slopes.T @ self.X).ravel()

    def gram(self, weights: Array) -> Array:
        """Z diag(weights) Zᵀ, from the columns whose weight is not 0."""
        n, K = len(self.X), self.n_outputs
        G = np.zeros((n, K, n, K))
        for k, of_output in enumerate(weights.reshape(K, -1)):
            chosen = np.flatnonzero(of_output)
            part = self.X[:, chosen] * np.sqrt(of_output[chosen])
            G[:, k, :, k] = part @ part.T
        half = self.curvature.root_adjoint(G.reshape(n * K, n * K))
        return self.curvature.root_adjoint(np.ascontiguousarray(half.T))

    def trace(self) -> float:
        """Sum of the squares of Z."""
        diagonal = self.curvature.diagonal().reshape(-1, self.n_outputs).sum(axis=1)
        return float(diagonal @ np.einsum("ij,ij->i", self.X, self.X))

    def compressed(self) -> _Rows:
        """As many rows as columns with the same ZᵀZ, where there are more rows."""
        n_columns = self.X.shape[1] * self.n_outputs
        Z = np.zeros((len(self.X), self.n_outputs, self.n_outputs, self.X.shape[1]))
        for k in range(self.n_outputs):
            Z[:, k, k] = self.X
        Z = self.curvature.root_adjoint(Z.reshape(-1, n_columns))
        values, vectors = np.linalg.eigh(Z.T @ Z)
        R = np.sqrt(values.clip(0.0))[:, None] * vectors.T
        return _Rows(R, DiagonalCurvature(np.ones(n_columns)), 1)


class _ProximalSteps:
    """Proximal steps of growing length on the model; see the module."""

    def __init__(self, rows: _Rows, gradient: Array, z0: Array, l1: Array, l2: Array):
        self.rows, self.gradient, self.z0, self.l1, self.l2 = rows, gradient, z0, l1, l2
        self.c, self.sigma = z0, 1.0

    def run(self, tol: float) -> Array:
        """Steps until one moves so little that it gains less than `tol`."""
        mean = self.rows.trace() / min(self.rows.n_rows, len(self.z0))
        self.sigma = 100.0 / max(mean, _LEAST_CURVATURE)
        longest = self.sigma * _LARGEST_GROWTH
        r, n_left = np.zeros(self.rows.n_rows), _MAX_NEWTON
        while n_left > 0 and self.sigma <= longest:
            r_next, z, n_newton, solved = self._step(r, tol, min(n_left, _MAX_NEWTON_OF_STEP))
            n_left -= n_newton
            if not solved:  # too long a step for the accuracy of numbers
                n_left //= 2
                self.sigma *= 0.1
                continue
            r, moved = r_next, float(np.linalg.norm(z - self.c))
            self.c = z
            if moved * max(moved, float(np.linalg.norm(z))) <= tol * self.sigma:
                break
            self.sigma *= 100.0 if n_newton <= _FEW_NEWTON else 10.0
        return self.c

    def _step(self, r: Array, tol: float, most: int) -> tuple[Array, Array, int, bool]:
        """Newton's method on the dual of one step: r, z, the Newton steps, and whether they were enough."""
        value, residual, z = self._dual(r)
        for n_newton in range(1, most + 1):
            moved = float(np.sum((z - self.c) ** 2)) / (2.0 * self.sigma)
            gap = 0.5 * float(residual @ residual)
            if gap <= max(0.1 * moved, 0.01 * tol):
                return r, z, n_newton, True
            weights = np.where(z != 0.0, self.sigma / (1.0 + 2.0 * self.sigma * self.l2), 0.0)
            system = self.rows.gram(weights)
            system.flat[:: len(system) + 1] += 1.0
            step = -cholesky_solve(cholesky(system), residual)
            slope, t = float(residual @ step), 1.0
            for _ in range(_MAX_HALVINGS):
                trial = self._dual(r + t * step)
                # Rounding hides the fall of large values; a gap that falls by half is progress too.
                if trial[0] <= value + 1e-4 * t * slope or trial[1] @ trial[1] <= gap:
                    break
                t *= 0.5
            else:
                return r, z, n_newton, False
            r = r + t * step
            value, residual, z = trial
        return r, z, most, False

    def _dual(self, r: Array) -> tuple[float, Array, Array]:
        """F(r), ∇F(r) and z(r)."""
        slope = self.gradient + self.rows.adjoint(r)
        z = self.c - self.sigma * slope
        z = np.sign(z) * np.maximum(np.abs(z) - self.sigma * self.l1, 0.0)
        z /= 1.0 + 2.0 * self.sigma * self.l2
        penalty = self.l1 @ np.abs(z) + self.l2 @ z**2
        penalty += float(np.sum((z - self.c) ** 2)) / (2.0 * self.sigma)
        value = 0.5 * float(r @ r) - float(slope @ (z - self.z0)) - float(penalty)
        return value, r - self.rows.product(z - self.z0), z
