"""Rounds that do not touch the features: all that they need of the samples are K × K blocks.

With K knots, T_i f = B_i g for a sparse p × K matrix B_i. By the representer theorem w = Σ_m a_m B_m g, so
that the Gram matrix of the normalised samples and the rows of the f-step follow from G_im = B_iᵀ B_m alone:

    (T_i f)·(T_m f) = gᵀ G_im g,        Bᵀ T_iᵀ w = Σ_m a_m G_im g.

The blocks are computed once for all samples; every fold is a part of them.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from suquan._blocks import for_each_block
from suquan._kernels.knot_grams import knot_gram_rows, put_heads, put_tails
from suquan.objective import JointProblem
from suquan.ranking import SampleOperator
from suquan.solvers.ridge import RidgeDesign
from suquan.targets import knot_positions, read_at_grid

# Long ties make a value read many knots, and the blocks of such samples slow to compute.
_MAX_TAIL = 0.25
_KEPT_PRODUCTS = 8


def knot_grams(
    operator: SampleOperator, n_knots: int, *, dtype: Any = np.float64, n_jobs: int | None = None
) -> np.ndarray | None:
    """Blocks G_im = B_iᵀ B_m of all pairs of samples, of shape (n_samples, n_samples, n_knots, n_knots).

    None where long ties would make them slow to compute.
    """
    entries = knot_entries(operator, n_knots, dtype)
    if entries is None:
        return None
    n_samples = operator.n_samples
    blocks: np.ndarray = np.empty((n_samples, n_samples, n_knots, n_knots), dtype)

    def fill(pairs: slice) -> None:
        for i in range(2 * pairs.start, min(2 * pairs.stop, n_samples), 2):
            knot_gram_rows(*entries, i, min(2, n_samples - i), blocks)
            for row in range(i, min(i + 2, n_samples)):
                blocks[:row, row] = blocks[row, :row].transpose(0, 2, 1)

    shape = (n_samples + 1) // 2, 2 * n_samples * operator.n_features
    for_each_block(fill, shape, n_jobs)
    return blocks


def knot_products(grams: np.ndarray, g: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Vectors G_im g, of shape (n_samples, n_others, n_knots), and the Gram matrix gᵀ G_im g.

    The sums Σ_m a_m G_im g are the rows of the f-step.
    """
    products = grams @ g.astype(grams.dtype)
    return products, (products @ g).astype(np.float64)


class DualCoefficients(NamedTuple):
    """w_k = Σ_m dual[k, m] T_m f, with the products G_im g and the Gram matrix at the target of the fit."""

    dual: np.ndarray
    products: np.ndarray
    gram: np.ndarray


@dataclass(frozen=True)
class KnotProblem(JointProblem):
    """The joint problem through the blocks of its samples, for a ridge penalty and n_samples ≤ n_features."""

    grams: np.ndarray
    # Products at the targets met last: the w-step and the f-step after it, and all settings' first steps,
    # share theirs.
    _known: dict[bytes, tuple[np.ndarray, np.ndarray]] = field(default_factory=dict)

    def w_design(self, g: np.ndarray) -> Any:
        """Gram matrix of the normalised samples, factorised."""
        return RidgeDesign.from_gram(self._at(g)[1], fit_intercept=self.fit_intercept)

    def coefficients(self, fit: Any, g: np.ndarray) -> Any:
        """Dual coefficients of a fit at the target g."""
        return DualCoefficients(fit.dual, *self._at(g))

    def f_design(self, w: Any, samples: np.ndarray | None = None, out: Any = None) -> Any:
        """Rows Σ_m dual_m G_im g, of shape (n_samples · n_outputs, n_knots)."""
        products = w.products if samples is None else w.products[samples]
        D = np.tensordot(products, w.dual.astype(products.dtype), axes=(1, 1))
        D = np.ascontiguousarray(D.transpose(0, 2, 1)).reshape(-1, self.n_knots)
        if out is None:
            return D
        out[:] = D
        return out

    def penalty(self, w: Any) -> float:
        """alpha·‖w‖²."""
        return self.alpha * float(np.sum((w.dual @ w.gram) * w.dual))

    def _at(self, g: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Products and Gram matrix at the target g."""
        key = g.tobytes()
        if key not in self._known:
            if len(self._known) >= _KEPT_PRODUCTS:
                del self._known[next(iter(self._known))]
            self._known[key] = knot_products(self.grams, g)
        return self._known[key]


def knot_entries(operator: SampleOperator, n_knots: int, dtype: Any) -> tuple | None:
    """Sparse maps from the knots to every sample, as :func:`knot_gram_rows` takes them.

    None where ties make them long, on average over the values.
    """
    shape = (operator.n_samples, operator.n_features)
    head: np.ndarray = np.zeros((*shape, 2), dtype)
    if operator.is_complete and (operator.ties == "first" or not np.any(operator.has_ties)):
        node, part, _ = knot_positions(shape[1], n_knots)  # every value reads one place
        at = replace(operator, scale=None).apply(node + part)
        node, scale = at.astype(np.uint16), 1.0 if operator.scale is None else operator.scale
        at -= node
        head[..., 0], head[..., 1] = (1.0 - at) * scale, at * scale
        start, empty = np.zeros((shape[0], shape[1] + 1), np.int64), np.empty(0, np.uint16)
        return node, head, start, empty.astype(np.int64), empty, empty.astype(dtype)

    def readings() -> Iterator[tuple[np.ndarray, int]]:
        for k, unit in enumerate(np.eye(n_knots)):
            yield operator.apply(read_at_grid(unit, shape[1]), dtype=dtype), k

    count, node = np.zeros(shape, np.uint16), np.zeros(shape, np.uint16)
    for values, k in readings():
        put_heads(values, k, count, node, head)
    lengths = np.maximum(count, 2) - np.uint16(2)
    ends = np.cumsum(lengths, dtype=np.int64)
    n_entries = int(ends[-1])
    if n_entries > _MAX_TAIL * lengths.size:
        return None
    start = np.empty((shape[0], shape[1] + 1), np.int64)
    start[:, 1:] = ends.reshape(shape)
    start[:, 0] = np.r_[0, start[:-1, -1]]
    feature, knot = np.empty(n_entries, np.int64), np.empty(n_entries, np.uint16)
    weight: np.ndarray = np.empty(n_entries, dtype)
    if n_entries:
        count[:] = 0
        for values, k in readings():
            put_tails(values, k, count, start, feature, knot, weight)
    return node, head, start, feature, knot, weight
