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

import numpy as np

from suquan.ranking import SampleOperator
from suquan.solvers._products import Array, gram_matrix
from suquan.solvers.ridge import MOST_ROOT_SAMPLES, LinearFit, RidgeDesign
from suquan.targets import knot_positions, read_at_grid

# Entries up to which normalised copies are float64, so that results are exact.
_FEW_ENTRIES = 1 << 17


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

    def w_design(self, G: Array, fit_intercept: bool) -> RidgeDesign:
        """Ridge models of W at the targets G."""
        n_samples, n_features = self.operator.codes.shape
        if n_samples <= min(n_features * G.shape[1], MOST_ROOT_SAMPLES):
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
