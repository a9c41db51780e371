"""The f-step's rows: products with them, sums over their columns, and a few of them at a time.

:class:`DenseRows` keeps them in a matrix. :class:`StackedRows` makes them anew in every product from the ranks
of the samples and the coefficients of several models, so that cross-fitting needs no memory for a design.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from suquan._kernels import stacked
from suquan._kernels.target import block_sums
from suquan.ranking import SampleOperator
from suquan.solvers._products import column_products, row_products
from suquan.targets import knot_positions, read_at_grid

Array = NDArray[Any]
_ALWAYS_ROOM = 512  # side of a square matrix that counts as small
_NO_KNOTS = np.empty(0, np.int64), np.empty(0)


class Rows(Protocol):
    """What the f-step's methods ask of the matrix D of shape (n_scores, K)."""

    shape: tuple[int, int]
    dtype: np.dtype
    largest_square: float  # side of the largest square matrix that there is room for

    def scores(self, f: Array) -> Array:
        """D f, summed in float64."""

    def adjoint(self, a: Array) -> Array:
        """Dᵀ a, summed in float64."""

    def sums(self, bounds: Array, dtype: Any) -> Array:
        """Sums over the columns ``bounds[b]:bounds[b + 1]``, of shape (n_scores, len(bounds) − 1)."""

    def chunks(self, n_rows: int, n_outputs: int) -> Iterator[tuple[Array, Array]]:
        """Indices of about `n_rows` samples' rows, and a matrix of their scores' rows, in turn."""

    def chunk_sums(
        self, n_rows: int, n_outputs: int, bounds: Array
    ) -> Iterator[tuple[Array, Array]]:
        """The same of the matrix of :meth:`sums`, in float64."""

    def take(self, keep: Array, n_outputs: int) -> Rows:
        """The rows of some samples, each of `n_outputs` scores."""


class DistributedRows(ABC):
    """Rows that lie elsewhere with their labels and weights: the f-step sees sums over them only."""

    shape: tuple[int, int]

    @abstractmethod
    def data(self, loss: Any, fit_intercept: bool) -> Any:
        """What :class:`suquan.solvers._target_data.Data` is for rows at hand."""


class DenseRows:
    """Rows in a matrix, float32 or float64."""

    largest_square = np.inf

    def __init__(self, D: Array):
        self.D = np.ascontiguousarray(D)
        self.shape, self.dtype = self.D.shape, self.D.dtype

    def scores(self, f: Array) -> Array:
        """D f."""
        return row_products(self.D, f[None])[0]

    def adjoint(self, a: Array) -> Array:
        """Dᵀ a."""
        return column_products(self.D, a[None])[0]

    def sums(self, bounds: Array, dtype: Any) -> Array:
        """Sums over consecutive columns."""
        if bounds[-1] - bounds[0] == len(bounds) - 1:
            return self.D[:, bounds[0] : bounds[-1]].astype(dtype)
        out = np.empty((len(self.D), len(bounds) - 1), dtype)
        block_sums(self.D, bounds, out)
        return out

    def chunks(self, n_rows: int, n_outputs: int) -> Iterator[tuple[Array, Array]]:
        """A few rows at a time."""
        n_samples = len(self.D) // n_outputs
        for start in range(0, n_samples, n_rows):
            stop = min(start + n_rows, n_samples)
            yield np.arange(start, stop), self.D[start * n_outputs : stop * n_outputs]

    def chunk_sums(
        self, n_rows: int, n_outputs: int, bounds: Array
    ) -> Iterator[tuple[Array, Array]]:
        """Sums over consecutive columns, a few rows at a time."""
        for samples, D in self.chunks(n_rows, n_outputs):
            yield samples, DenseRows(D).sums(bounds, np.float64)

    def take(self, keep: Array, n_outputs: int) -> DenseRows:
        """The rows of some samples."""
        D = self.D.reshape(-1, n_outputs, self.shape[1])[keep]
        return DenseRows(D.reshape(-1, self.shape[1]))


class StackedRows:
    """Rows Bᵀ T_iᵀ w_k of samples i under models k, never formed.

    Parameters
    ----------
    operator : SampleOperator
    W : ndarray of shape (n_models, n_outputs, n_features)
        Coefficients, in the type that the rows would have.
    samples, models : ndarray of shape (n_rows,)
        Sample and model of every row.
    n_knots : int
    """

    def __init__(
        self, operator: SampleOperator, W: Array, samples: Array, models: Array, n_knots: int
    ):
        self.operator, self.W, self.samples, self.models = operator, W, samples, models
        n_outputs = W.shape[1]
        self.shape, self.dtype = (len(samples) * n_outputs, n_knots), W.dtype
        # With its working space, what a float32 design and the smaller square of a w-step take.
        square = operator.codes.size // 2 + min(operator.n_samples, operator.n_features) ** 2
        self.largest_square = max(_ALWAYS_ROOM, int(np.sqrt(0.5 * square)))
        self._vectors = W.reshape(-1, W.shape[2])
        self._knots = _NO_KNOTS
        if n_knots != operator.n_features:
            self._knots = knot_positions(operator.n_features, n_knots)[:2]
        # Entries by sample: those of one share a gathering.
        order = np.argsort(samples, kind="stable")
        counts = np.bincount(samples, minlength=operator.n_samples) * n_outputs
        self._first = np.concatenate([[0], np.cumsum(counts)])
        outputs = np.arange(n_outputs)
        self._vector = (models[order, None] * n_outputs + outputs).ravel()
        self._place = (order[:, None] * n_outputs + outputs).ravel()

    def scores(self, f: Array) -> Array:
        """D f."""
        out = np.empty(self.shape[0])
        f = read_at_grid(f, self.operator.n_features)
        stacked.stacked_scores(f, *self._entries(slice(None)), out)
        return out

    def adjoint(self, a: Array) -> Array:
        """Dᵀ a."""
        total = np.zeros(self.operator.n_features)
        stacked.stacked_adjoint(
            np.ascontiguousarray(a, dtype=np.float64), *self._entries(slice(None)), total
        )
        node, part = self._knots
        if not len(node):
            return total
        folded = np.bincount(node, (1.0 - part) * total, minlength=self.shape[1])
        return folded + np.bincount(node + 1, part * total, minlength=self.shape[1] + 1)[:-1]

    def sums(self, bounds: Array, dtype: Any) -> Array:
        """Sums over consecutive columns."""
        out = np.empty((self.shape[0], len(bounds) - 1), dtype)
        stacked.stacked_sums(*self._entries(slice(None)), *self._knots, bounds, out)
        return out

    def chunks(self, n_rows: int, n_outputs: int) -> Iterator[tuple[Array, Array]]:
        """A few rows at a time, those of a sample together."""
        return self._chunks(n_rows, n_outputs, np.arange(self.shape[1] + 1), self.dtype)

    def chunk_sums(
        self, n_rows: int, n_outputs: int, bounds: Array
    ) -> Iterator[tuple[Array, Array]]:
        """Sums over consecutive columns, a few rows at a time, those of a sample together."""
        return self._chunks(n_rows, n_outputs, bounds, np.float64)

    def _chunks(self, n_rows: int, n_outputs: int, bounds: Array, dtype: Any) -> Iterator:
        step = max(1, n_rows * self.operator.n_samples // max(1, len(self.samples)))
        for start in range(0, self.operator.n_samples, step):
            part = slice(start, min(start + step, self.operator.n_samples))
            W, first, vector, place, samples = self._entries(part)
            rows = place[first[0] : first[-1]]
            if not len(rows):
                continue
            local = np.empty_like(place)
            local[first[0] : first[-1]] = np.arange(len(rows))
            D = np.empty((len(rows), len(bounds) - 1), dtype)
            stacked.stacked_sums(W, first, vector, local, samples, *self._knots, bounds, D)
            yield rows[::n_outputs] // n_outputs, D

    def take(self, keep: Array, n_outputs: int) -> StackedRows:
        """The rows of some samples."""
        return StackedRows(
            self.operator, self.W, self.samples[keep], self.models[keep], self.shape[1]
        )

    def _entries(self, samples: slice) -> tuple:
        """Arguments that the kernels take for a part of the samples."""
        start, stop, _ = samples.indices(self.operator.n_samples)
        first = self._first[start : stop + 1]
        return self._vectors, first, self._vector, self._place, self.operator._rows(samples)
