"""Products with a design of centred columns that is never formed, for the w-step's Newton-CG."""

from __future__ import annotations

import numpy as np

from suquan.solvers._algebra import Array, column_means, column_products, panels, row_products

_BLOCK_ENTRIES = 1 << 18  # of the design, at least, that are weighted at a time


class CentredProducts:
    """Products with the design [A − 1 meansᵀ, 1], whose last coefficient is the intercept.

    ``scores`` and ``adjoint`` are accurate to float64; their ``fast_`` twins run in the dtype of A and
    serve inside conjugate gradients, whose result is only a search direction.
    """

    def __init__(self, A: Array, fit_intercept: bool):
        self.fit_intercept = fit_intercept
        self.means = column_means(A) if fit_intercept else np.zeros(A.shape[1])
        self.offset = self.means  # what b must give back: u = A w + b − offset·w
        if fit_intercept and _offsets_are_large(A, self.means):
            A = A - self.means  # implicit centring would cancel too many digits
            self.means = np.zeros(A.shape[1])
        self.A = A

    def scores(self, theta: Array) -> Array:
        return self._add_intercept(row_products(self.A, theta[:, :-1]), theta)

    def fast_scores(self, theta: Array) -> Array:
        products = self.A @ _padded(theta[:, :-1], self.A.dtype).T
        return self._add_intercept(products.T[: len(theta)], theta)

    def adjoint(self, R: Array) -> Array:
        return self._append_sum(column_products(self.A, R), R)

    def fast_adjoint(self, R: Array) -> Array:
        return self._append_sum((_padded(R, self.A.dtype) @ self.A)[: len(R)], R)

    def covariance(self, d: Array | None = None) -> Array:
        """Hessian part Ãᵀ diag(d) Ã of shape (p + 1, p + 1), in float64.

        By default d = 1/n, and the matrix is in A's type, and right on and below its diagonal alone.
        """
        n_samples, n_features = self.A.shape
        H = np.empty((n_features + 1,) * 2, self.A.dtype if d is None else np.float64)
        products = H[:-1, :-1]
        if d is None:
            cross, total = np.zeros(n_features), 1.0
            means = self.means.astype(self.A.dtype)
            for rows in panels(n_features):
                columns = slice(0, rows.stop)
                part = self.A[:, rows].T @ self.A[:, columns]
                part /= n_samples
                part -= np.outer(means[rows], means[columns])
                products[rows, columns] = part
        else:
            products[:] = self._weighted_products(np.sqrt(d).astype(self.A.dtype))
            total = d.sum()
            sums = d @ self.A
            cross = sums - total * self.means
            products -= np.outer(self.means, cross) + np.outer(sums, self.means)
        H[-1, :-1] = H[:-1, -1] = cross if self.fit_intercept else 0.0
        H[-1, -1] = total if self.fit_intercept else 1.0
        return H

    def _weighted_products(self, root: Array) -> Array:
        """Aᵀ diag(root²) A, summed over blocks of rows in float64: no weighted copy of all of A."""
        n_features = self.A.shape[1]
        products = np.zeros((n_features, n_features))
        step = max(n_features, _BLOCK_ENTRIES // n_features)
        for start in range(0, len(self.A), step):
            rows = slice(start, start + step)
            weighted = self.A[rows] * root[rows, None]
            products += weighted.T @ weighted
        return products

    def _add_intercept(self, products: Array, theta: Array) -> Array:
        if not self.fit_intercept:
            return products
        shift = (theta[:, -1] - theta[:, :-1] @ self.means)[:, None]
        if products.dtype != np.float64:
            return products + shift
        products += shift
        return products

    def _append_sum(self, products: Array, R: Array) -> Array:
        gradient = np.zeros((len(R), self.A.shape[1] + 1))
        gradient[:, :-1] = products
        if self.fit_intercept:
            gradient[:, -1] = R.sum(axis=1)
            gradient[:, :-1] -= gradient[:, -1:] * self.means
        return gradient


def _offsets_are_large(A: Array, means: Array) -> bool:
    """Whether some column lies further from 0 than 30 times its spread, judged on a few rows."""
    some = A[:: max(1, len(A) // 256)].astype(np.float64)
    return bool(np.any(np.abs(means) > 30.0 * some.std(axis=0) + 1e-30))


def _padded(V: Array, dtype) -> Array:
    """V in `dtype`, with rows of zeros up to a multiple of 4: with 15 vectors products are slower."""
    n_rows = len(V) if len(V) < 4 else -(-len(V) // 4) * 4
    if n_rows == len(V):
        return V.astype(dtype, copy=False)
    padded = np.zeros((n_rows, V.shape[1]), dtype)
    padded[: len(V)] = V
    return padded
