"""Products with a design of centred columns that is never formed, for the w-step's Newton-CG."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from suquan.solvers._algebra import Array, panels
from suquan.solvers._products import (
    add_column_products,
    column_means,
    fast_column_products,
    fast_row_products,
    hessian_products,
    row_products,
)
from suquan.solvers._threads import share

_FEW_ROWS = 32  # of a matrix, whose copy takes little memory
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

    @property
    def dtype(self) -> np.dtype:
        """Type of the design, and of its fast products."""
        return self.A.dtype

    def scores(self, theta: Array) -> Array:
        return self._add_intercept(row_products(self.A, theta[:, :-1]), theta)

    def fast_scores(self, theta: Array) -> Array:
        products = fast_row_products(self.A, theta[:, :-1])
        return self._add_intercept(products[: len(theta)], theta)

    def adjoint_sum(self, n_vectors: int, parts: Iterable[tuple[slice, Array]]) -> Array:
        """Adjoint of all samples, given some of them at a time, each with its values in every vector."""
        products, sums = np.zeros((n_vectors, self.A.shape[1])), np.zeros(n_vectors)
        for samples, R in parts:
            add_column_products(self.A[samples], R, products)
            sums += R.sum(axis=1)
        return self._with_sums(products, sums)

    def fast_adjoint(self, R: Array) -> Array:
        return self._append_sum(fast_column_products(self.A, R)[: len(R)], R)

    def curved(self, V: Array, curvature: Array) -> Array:
        """Ãᵀ diag(c) Ã v for every row v of V and c of `curvature`, in the type of the design."""
        products, sums = hessian_products(self.A, V[:, :-1], self._shift(V), curvature)
        return self._with_sums(products, sums)

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

            def write(rows: slice) -> None:
                part = products[rows, : rows.stop]
                np.matmul(self.A[:, rows].T, self.A[:, : rows.stop], out=part)
                part /= n_samples
                for some in panels(len(part), _FEW_ROWS):
                    part[some] -= np.outer(means[rows][some], means[: rows.stop])

            share(write, panels(n_features)[::-1], n_samples * n_features**2)
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
        if self.fit_intercept:
            products += self._shift(theta).astype(products.dtype)[:, None]
        return products

    def _shift(self, theta: Array) -> Array:
        """What the scores of every row of theta have beyond products with A."""
        if not self.fit_intercept:
            return np.zeros(len(theta))
        # Without BLAS, whose threads would go on to wait for work.
        return theta[:, -1] - np.einsum("kj,j->k", theta[:, :-1], self.means)

    def _append_sum(self, products: Array, R: Array) -> Array:
        return self._with_sums(products, R.sum(axis=1, dtype=np.float64))

    def _with_sums(self, products: Array, sums: Array) -> Array:
        """Adjoint of the centred design, from that of A and sums over the samples."""
        gradient = np.zeros((len(products), self.A.shape[1] + 1))
        gradient[:, :-1] = products
        if self.fit_intercept:
            gradient[:, -1] = sums
            gradient[:, :-1] -= gradient[:, -1:] * self.means
        return gradient


def _offsets_are_large(A: Array, means: Array) -> bool:
    """Whether some column lies further from 0 than 30 times its spread, judged on a few rows."""
    some = A[:: max(1, len(A) // 64)].astype(np.float64)
    return bool(np.any(np.abs(means) > 30.0 * some.std(axis=0) + 1e-30))
