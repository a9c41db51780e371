"""Samples as linear maps of curves, for models with several targets: by passes, or by blocks of knots.

The score of sample i is ⟨A, S_i⟩ with A = Σ_l w_l g_lᵀ, of shape (n_features, n_knots) for each output. Ranked
samples come in. :mod:`suquan.matrix_model` asks for ridge models of W = (w_1, …, w_m) at given targets, for the
rows S_iᵀ w_l of the step that finds the targets, and for products of W and of sums of samples with themselves.

:class:`PassData` holds W itself and passes over the samples' ranks, at a cost that does not depend on m.
:class:`BlockData` holds W = Σ_i a_i S_i G by (a, G) and all it needs are the blocks S_iᵀ S_m, so that nothing
depends on the number of features.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from suquan._blocks import on_threads, row_blocks
from suquan._kernels.knot_passes import knot_scores, knot_sums
from suquan.ranking import SampleOperator
from suquan.solvers._products import Array, n_threads
from suquan.solvers.knot_grams import knot_grams
from suquan.solvers.linear import RidgeDesign
from suquan.solvers.newton import LinearFit
from suquan.solvers.ridge_features import Conditioning, FeatureSolver
from suquan.targets import knot_positions, read_at_grid

# Most memory of the blocks of knots of all pairs of samples.
_MOST_BLOCK_BYTES = 1 << 29
# Entries up to which normalised copies are formed: matrices of that size are fast and exact.
_FEW_ENTRIES = 1 << 17


def matrix_data(operator: SampleOperator, n_knots: int) -> PassData | BlockData:
    """The data by blocks of knots where samples are few and have no long ties, else by passes."""
    n_samples, n_bytes = operator.n_samples, 8 * (operator.n_samples * n_knots) ** 2
    if n_samples <= operator.n_features and n_bytes <= _MOST_BLOCK_BYTES:
        blocks = knot_grams(operator, n_knots, n_jobs=n_threads(operator.codes.size))
        if blocks is not None:
            return BlockData(operator, blocks)
    return PassData(operator, n_knots)


class PassData:
    """Data by passes over the ranks; W is an array of shape (n_outputs, n_targets, n_features).

    Parameters
    ----------
    operator : SampleOperator
    n_knots : int
    """

    def __init__(self, operator: SampleOperator, n_knots: int):
        self.operator, self.n_knots = operator, n_knots
        node, part, _ = knot_positions(operator.n_features, n_knots)
        self.positions = node + part
        self.edges = np.searchsorted(self.positions, np.arange(1, n_knots - 1), side="right")

    def scores(self, A: Array) -> Array:
        """⟨A_k, S_i⟩ for A of shape (n_vectors, n_features, n_knots), of shape (n_samples, n_vectors)."""
        padded = np.zeros((*A.shape[:2], self.n_knots + 1))
        padded[:, :, :-1] = A if self.operator.scale is None else A * self.operator.scale[:, None]
        out = np.empty((self.operator.n_samples, len(A)))

        def write(rows: slice) -> None:
            coded = self.operator._rows(rows)
            knot_scores(padded, self.positions, self.edges, *coded, out[rows])

        self._pass(write, len(A))
        return out

    def sums(self, c: Array) -> Array:
        """Σ_i c_ik S_i for c of shape (n_samples, n_vectors), of shape (n_vectors, n_features, n_knots)."""
        shape = c.shape[1], self.operator.n_features, self.n_knots + 1
        c = np.ascontiguousarray(c, np.float64)

        def part(rows: slice) -> Array:
            total = np.zeros(shape)
            knot_sums(c[rows], self.positions, self.edges, *self.operator._rows(rows), total)
            return total

        total = sum(self._pass(part, shape[0]))[:, :, :-1]
        return total if self.operator.scale is None else total * self.operator.scale[:, None]

    def _pass(self, function: Any, n_vectors: int) -> list:
        shape = self.operator.codes.shape
        return list(
            on_threads(
                function, list(row_blocks(*shape)), n_threads(4 * n_vectors * shape[0] * shape[1])
            )
        )

    @cached_property
    def mean(self) -> Array:
        """Mean of the S_i, of shape (n_features, n_knots)."""
        n_samples = self.operator.n_samples
        return self.sums(np.full((n_samples, 1), 1.0 / n_samples))[0]

    def w_design(self, G: Array, fit_intercept: bool) -> RidgeDesign:
        """Ridge models of W at the targets G, of shape (n_knots, n_targets)."""
        if self.operator.codes.size * G.shape[1] <= _FEW_ENTRIES:
            copies = [self.operator.apply(read_at_grid(g, self.operator.n_features)) for g in G.T]
            return RidgeDesign(np.hstack(copies), fit_intercept=fit_intercept)
        design = CurveDesign(self, G, fit_intercept)
        return RidgeDesign.from_solver(CurveSolver(design), fit_intercept)

    def factor(self, fit: LinearFit, G: Array) -> Array:
        """W of a fit at the targets G."""
        return fit.w.reshape(len(fit.w), G.shape[1], -1)

    def start(self, W: Array, b: Array) -> Any:
        """Start of a fit at W."""
        return LinearFit(W.reshape(len(W), -1), b, np.empty(0), np.inf, 0, np.inf, False)

    def times(self, W: Array, T: Array) -> Array:
        """W T."""
        return np.einsum("klj,lm->kmj", W, T)

    def gram(self, W: Array) -> Array:
        """WᵀW, of shape (n_targets, n_targets)."""
        return np.einsum("klj,kmj->lm", W, W)

    def rows(self, W: Array) -> Array:
        """Vectors S_iᵀ w_kl, of shape (n_samples, n_outputs, n_targets, n_knots)."""
        knots = knot_positions(self.operator.n_features, self.n_knots)
        out = np.empty((self.operator.n_samples, *W.shape[:2], self.n_knots))
        for k, l in np.ndindex(W.shape[:2]):
            out[:, k, l] = self.operator.adjoint(W[k, l], knots=knots)
        return out

    def sum_gram(self, c: Array) -> Array:
        """Σ_k MₖᵀMₖ for the sums M_k = Σ_i c_ik S_i, of shape (n_knots, n_knots)."""
        M = self.sums(c).reshape(-1, self.n_knots)
        return M.T @ M

    def weights(self, W: Array) -> Array:
        """W as an array."""
        return W


class CurveDesign:
    """Normalised copies [T_i f_1 | … | T_i f_m] less their means, and 1: never formed.

    What :class:`suquan.solvers._products.CentredDesign` is for a matrix.
    """

    largest_square = 0
    dtype = np.dtype(np.float64)

    def __init__(self, data: PassData, G: Array, fit_intercept: bool):
        self.data, self.G, self.fit_intercept = data, G, fit_intercept
        self.n_features = data.operator.n_features * G.shape[1]
        self.offset = (data.mean @ G).T.ravel() if fit_intercept else np.zeros(self.n_features)

    def scores(self, theta: Array, dtype: Any = None) -> Array:
        """Scores of every row of theta, of shape (n_vectors, n_samples)."""
        W = theta[:, :-1].reshape(len(theta), self.G.shape[1], -1)
        u = self.data.scores(np.einsum("klj,ql->kjq", W, self.G)).T
        return u + (theta[:, -1] - theta[:, :-1] @ self.offset)[:, None]

    def adjoint(self, R: Array, dtype: Any = None) -> Array:
        """Adjoint of :meth:`scores` at the rows of R, of shape (n_vectors, n_features + 1)."""
        out = np.zeros((len(R), self.n_features + 1))
        sums = np.einsum("kjq,ql->klj", self.data.sums(R.T), self.G)
        out[:, :-1] = sums.reshape(len(R), -1)
        if self.fit_intercept:
            out[:, -1] = R.sum(axis=1)
            out[:, :-1] -= out[:, -1:] * self.offset
        return out

    def curved(self, theta: Array, C: Array) -> Array:
        """Adjoint of c times the scores of every row of theta, for the rows c of C."""
        return self.adjoint(C * self.scores(theta))


class CurveSolver(FeatureSolver):
    """Ridge models on normalised copies that are never formed."""

    def __init__(self, design: CurveDesign):
        self.design: Any = design
        self.fit_intercept = design.fit_intercept
        self.spread = float(np.mean(design.G**2))
        self.conditioning = Conditioning(design.n_features)


@dataclass(frozen=True)
class DualFactor:
    """W_k = Σ_i dual[k, i] S_i G, with the sums Σ_m dual[k, m] S_iᵀ S_m of every sample i."""

    dual: Array
    sums: Array
    G: Array


class BlockData:
    """Data by the blocks S_iᵀ S_m of all pairs of samples; W is a :class:`DualFactor`.

    Parameters
    ----------
    operator : SampleOperator
    blocks : ndarray of shape (n_samples, n_samples, n_knots, n_knots)
    """

    def __init__(self, operator: SampleOperator, blocks: Array):
        self.operator, self.blocks, self.n_knots = operator, blocks, blocks.shape[2]

    def w_design(self, G: Array, fit_intercept: bool) -> RidgeDesign:
        """Ridge models of W at the targets G, from the Gram matrix Σ_l g_lᵀ S_iᵀ S_m g_l."""
        n_samples = len(self.blocks)
        products = self.blocks.reshape(n_samples**2, -1) @ (G @ G.T).ravel().astype(
            self.blocks.dtype
        )
        gram = products.reshape(n_samples, n_samples).astype(np.float64)
        return RidgeDesign.from_gram(0.5 * (gram + gram.T), fit_intercept=fit_intercept)

    def factor(self, fit: LinearFit, G: Array) -> DualFactor:
        """W of a fit at the targets G."""
        return DualFactor(fit.dual, self._sums(fit.dual), G)

    def start(self, W: DualFactor, b: Array) -> Any:
        """No start: dual unknowns of other targets may be far off."""
        return None

    def times(self, W: DualFactor, T: Array) -> DualFactor:
        """W T."""
        return replace(W, G=W.G @ T)

    def gram(self, W: DualFactor) -> Array:
        """WᵀW, of shape (n_targets, n_targets)."""
        return W.G.T @ np.einsum("ki,kiqt->qt", W.dual, W.sums) @ W.G

    def rows(self, W: DualFactor) -> Array:
        """Vectors S_iᵀ w_kl, of shape (n_samples, n_outputs, n_targets, n_knots)."""
        return (W.sums @ W.G).transpose(1, 0, 3, 2)

    def sum_gram(self, c: Array) -> Array:
        """Σ_k MₖᵀMₖ for the sums M_k = Σ_i c_ik S_i, of shape (n_knots, n_knots)."""
        return np.einsum("ik,kiqt->qt", c, self._sums(c.T))

    def weights(self, W: DualFactor) -> Array:
        """W as an array of shape (n_outputs, n_targets, n_features)."""
        targets = [read_at_grid(g, self.operator.n_features) for g in W.G.T]
        return np.array([[self.operator.sum_apply(a, f) for f in targets] for a in W.dual])

    def _sums(self, dual: Array) -> Array:
        """Σ_m dual[k, m] S_iᵀ S_m, of shape (n_outputs, n_samples, n_knots, n_knots)."""
        n_samples, K = len(self.blocks), self.n_knots
        flat = self.blocks.reshape(n_samples, n_samples, K * K)
        sums = np.matmul(dual.astype(flat.dtype), flat)  # (n_samples, n_outputs, K²)
        return sums.transpose(1, 0, 2).reshape(len(dual), n_samples, K, K).astype(np.float64)
