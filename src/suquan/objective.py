"""The joint problem in (w, b, f): its two designs and its value.

    J(w, b, f) = Σ_i s_i ℓ(y_i, w·T_i f + b) + alpha·Ω(w) + smoothness·Σ_j (f[j+1] − f[j])²

with weights s of sum 1 and Ω(w) = (1 − l1_ratio)·‖w‖² + l1_ratio·‖w‖₁. With knots, f = B g reads the node
values g, and the last term is smoothness·(K/p)·Σ_k (g[k+1] − g[k])². Without, g is f.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from suquan.losses import Loss
from suquan.ranking import SampleOperator
from suquan.targets import knot_positions, read_at_grid

# Up to this many entries designs are kept in float64; larger ones in float32, to save memory and time.
_FLOAT64_ENTRIES = 1 << 16


@dataclass(frozen=True)
class JointProblem:
    """Ranked samples, labels, weights and penalties of one fit.

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
        small = self.operator.codes.size * self.loss.n_outputs <= _FLOAT64_ENTRIES
        return np.float64 if small else np.float32

    @property
    def node_smoothness(self) -> float:
        """Weight of Σ_k (g[k+1] − g[k])²."""
        return self.smoothness * self.n_knots / self.operator.n_features

    def expand(self, g: np.ndarray) -> np.ndarray:
        """Target f = B g, one value per feature."""
        return read_at_grid(g, self.operator.n_features)

    def w_design(self, g: np.ndarray) -> Any:
        """Rows T_i f, of shape (n_samples, n_features)."""
        return self.operator.apply(self.expand(g), dtype=self.dtype)

    @property
    def _is_long(self) -> bool:
        """Whether an n×n matrix stands for large designs."""
        is_long = self.operator.n_samples <= self.operator.n_features
        return is_long and self.dtype is np.float32 and self.l1_ratio == 0.0

    @property
    def streams_rows(self) -> bool:
        """Whether the f-step's rows are made anew in every product: where they would take most memory."""
        return self._is_long and self.n_knots == self.operator.n_features

    def has_room_for(self, n_rows: int) -> bool:
        """Whether that many rows of the f-step take no more than one design of all samples."""
        return n_rows * self.n_knots <= self.operator.codes.size

    def coefficients(self, fit: Any, g: np.ndarray) -> np.ndarray:
        """Coefficients w of a fit at the target g, as :meth:`f_design` and :meth:`penalty` take it."""
        return fit.w

    def f_design(self, w: np.ndarray, samples: np.ndarray | None = None) -> np.ndarray:
        """Rows Bᵀ T_iᵀ w_k, of shape (n_samples · n_outputs, n_knots), for w of shape (n_outputs, n_features).

        All samples, or the chosen ones.
        """
        operator = self.operator if samples is None else self.operator.take(samples)
        knots = None
        if self.n_knots != operator.n_features:
            knots = knot_positions(operator.n_features, self.n_knots)
        if len(w) == 1:
            return operator.adjoint(w[0], knots=knots, dtype=self.dtype)
        D: np.ndarray = np.empty((operator.n_samples, len(w), self.n_knots), self.dtype)
        for k in range(len(w)):
            D[:, k] = operator.adjoint(w[k], knots=knots, dtype=self.dtype)
        return D.reshape(-1, self.n_knots)

    def class_contrast(self) -> Any:
        """Weights of the samples in the difference of the means of two classes, labelled ±1."""
        y, s = self.y, self.s
        return np.where(y > 0, s / s[y > 0].sum(), -s / s[y < 0].sum())

    def sums_of_samples(self, c: Any, G: np.ndarray) -> np.ndarray:
        """Columns Σ_i c_i T_i B g for the rows g of G, of shape (n_features, n_targets)."""
        return np.column_stack([self.operator.sum_apply(c, self.expand(g)) for g in G])

    def penalty(self, w: np.ndarray) -> float:
        """alpha·Ω(w)."""
        ridge = (1.0 - self.l1_ratio) * float(np.sum(w * w))
        return self.alpha * (ridge + self.l1_ratio * float(np.sum(np.abs(w))))

    def roughness(self, g: np.ndarray) -> float:
        """smoothness·(K/p)·Σ_k (g[k+1] − g[k])²."""
        return self.node_smoothness * float(np.sum(np.diff(g) ** 2))
