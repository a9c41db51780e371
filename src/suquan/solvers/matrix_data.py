"""Samples as linear maps of curves, for models with several targets.

The score of sample i is ⟨A, S_i⟩ with A = Σ_l w_l g_lᵀ, of shape (n_features, n_knots) for each output, and
S_i g = T_i B g the sample normalised to the target g on the knots. Ranked samples come in.
:mod:`suquan.matrix_model` asks for ridge models of W = (w_1, …, w_m) at given targets, which are those of one
design, the normalised copies [T_i f_1 | … | T_i f_m]; and for the rows S_iᵀ w_l of the step that finds the
targets.

Coefficients W have shape (n_outputs, n_targets, n_features), targets G (n_knots, n_targets).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array

from suquan.ranking import SampleOperator
from suquan.solvers._products import Array, gram_matrix
from suquan.solvers.knot_grams import knot_entries
from suquan.solvers.ridge import MOST_ROOT_SAMPLES, MOST_SQUARE_COLUMNS, LinearFit, RidgeDesign
from suquan.targets import knot_positions, read_at_grid

# Entries up to which normalised copies are float64, so that results are exact.
_FEW_ENTRIES = 1 << 17
# Samples times targets from which some 50 products with the sparse maps cost less than a Gram matrix of all
# copies.
_MANY_COPIES = 10_000


@dataclass
class Curves:
    """Ranked samples, whose normalised copies make the designs."""

    operator: SampleOperator
    n_knots: int

    def copies(self, G: Array) -> Iterator[Array]:
        """Normalised samples at each of the targets, each of shape (n_samples, n_features)."""
        is_small = self.operator.codes.size * G.shape[1] <= _FEW_ENTRIES
        for g in G.T:
            yield self.operator.apply(self._expand(g), dtype=np.float64 if is_small else np.float32)

    @cached_property
    def maps(self) -> Any:
        """Sparse maps S_i, one in each row, of shape (n_samples, n_features · n_knots).

        None where long ties would make them dense.
        """
        entries = knot_entries(self.operator, self.n_knots, np.float64)
        if entries is None:
            return None
        node, head, start, feature, knot, weight = entries
        (n, p), K = node.shape, self.n_knots
        columns = np.minimum(node[:, :, None] + np.arange(2, dtype=np.int32), K - 1)
        columns += K * np.arange(p, dtype=np.int32)[:, None]
        heads = csr_array(
            (head.ravel(), columns.ravel(), 2 * p * np.arange(n + 1)), shape=(n, p * K)
        )
        tails = csr_array((weight, K * feature + knot, np.r_[0, start[:, -1]]), shape=(n, p * K))
        return heads + tails if len(weight) else heads

    def w_design(self, G: Array, fit_intercept: bool) -> RidgeDesign:
        """Ridge models of W at the targets G."""
        n_samples, n_features = self.operator.codes.shape
        n_columns = n_features * G.shape[1]
        # Few columns have moments, with which few products are needed.
        is_large = n_samples * G.shape[1] > _MANY_COPIES
        is_wide = n_columns > min(n_samples, MOST_SQUARE_COLUMNS)
        if is_large and is_wide and self.maps is not None:
            return RidgeDesign.from_rows(CurveRows(self.maps, G, fit_intercept))
        if n_samples <= min(n_columns, MOST_ROOT_SAMPLES):
            # The Gram matrix is summed over the copies: one of them at a time is in memory.
            gram = sum((gram_matrix(A) for A in self.copies(G)), np.zeros((n_samples, n_samples)))
            return RidgeDesign.from_gram(gram, fit_intercept=fit_intercept)
        return RidgeDesign(np.hstack(list(self.copies(G))), fit_intercept=fit_intercept)

    def factor(self, fit: LinearFit, G: Array) -> Array:
        """W of a fit at the targets G."""
        if fit.w is not None:
            return fit.w.reshape(len(fit.w), G.shape[1], -1)
        return np.array(
            [[self.operator.sum_apply(a, self._expand(g)) for g in G.T] for a in fit.dual]
        )

    def rows(self, W: Array) -> Array:
        """Vectors S_iᵀ w_kl, of shape (n_samples, n_outputs, n_targets, n_knots)."""
        knots = knot_positions(self.operator.n_features, self.n_knots)
        out = np.empty((self.operator.n_samples, *W.shape[:2], self.n_knots))
        for k, l in np.ndindex(W.shape[:2]):
            out[:, k, l] = self.operator.adjoint(W[k, l], knots=knots)
        return out

    def sum_gram(self, c: Array, G: Array) -> Array:
        """Σ_k GᵀMₖᵀMₖG for the sums M_k = Σ_i c_ik S_i, of shape (n_targets, n_targets)."""
        total = np.zeros((G.shape[1], G.shape[1]))
        for of_output in c.T:
            sums = [self.operator.sum_apply(of_output, self._expand(g)) for g in G.T]
            total += np.inner(sums, sums)
        return total

    def _expand(self, g: Array) -> Array:
        return read_at_grid(g, self.operator.n_features)


class CurveRows(NamedTuple):
    """Products with the normalised copies at the targets G and the intercept, by way of the sparse maps.

    What :class:`suquan.solvers.ridge.Rows` is for a design in memory.
    """

    maps: Any
    G: Array
    fit_intercept: bool
    dtype: Any = np.float64

    @property
    def n_features(self) -> int:
        """Features of a sample."""
        return self.maps.shape[1] // len(self.G)

    @property
    def n_columns(self) -> int:
        """Columns without the intercept."""
        return self.n_features * self.G.shape[1]

    def scores(self, theta: Array, dtype: Any = np.float64) -> Array:
        """Scores of every row of theta, of shape (n_vectors, n_samples)."""
        W = theta[:, :-1].reshape(len(theta), -1, self.n_features)
        u = np.stack([self.maps @ np.ravel(w.T @ self.G.T) for w in W])
        return u + theta[:, -1:] if self.fit_intercept else u

    def adjoint(self, r: Array, dtype: Any = np.float64) -> Array:
        """Adjoint of :meth:`scores` at the rows of r, of shape (n_vectors, n_columns + 1)."""
        out = np.empty((len(r), self.n_columns + 1))
        for k, one in enumerate(r):
            sums = (one @ self.maps).reshape(-1, len(self.G))
            out[k, :-1] = np.ravel(self.G.T @ sums.T)
        out[:, -1] = r.sum(axis=1) * self.fit_intercept
        return out

    def spread(self, weights: Array) -> float:
        """About the mean over the columns of their second moments: maps read few knots, all alike."""
        squares = float(np.vdot(self.maps.data, self.maps.data)) / len(weights)
        return float(weights.sum()) * squares * float(np.mean(self.G**2)) / self.n_features
