"""From samples to ranks: the only place that sorts samples, settles ties and skips missing values.

Samples come in as a matrix of any real type; ranks, or the operators T_i that stand on them, go out.
Normalisation, targets and all models call this.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import numpy as np
from scipy import sparse

from suquan._blocks import for_each_block, is_dask_array, over_blocks
from suquan._kernels import operators
from suquan._validation import as_samples, check_choice, raise_missing

TIES = {"average": operators.AVERAGE, "first": operators.FIRST, "mean_rank": operators.MEAN_RANK}
MISSING = ("error", "ignore")
# Standard deviations up to this share of the largest value are rounding.
_NO_DEVIATION = 1e-12


def kernel_dtype(dtype: np.dtype) -> np.dtype:
    """Type in which values are normalised: float32 for float16 and float32, float64 for all others."""
    narrow = dtype.kind == "f" and dtype.itemsize <= 4
    return np.dtype(np.float32 if narrow else np.float64)


def as_rows(block: np.ndarray, dtype: Any) -> np.ndarray:
    """Block of rows as the kernels want it; copied only where it is not usable as it lies in memory."""
    return np.require(np.asarray(block), dtype=dtype, requirements=["C", "A", "W"])


def as_bits(block: np.ndarray) -> tuple[np.ndarray, bool]:
    """Rows of numbers as unsigned integers for :func:`suquan._kernels.operators.encode_rows`.

    Floats keep their bits: 32 of float16 and float32, 64 of others. Integers become integers of 32 bits or 64
    that sort as they do, exactly. Whether the values are floats goes out too.
    """
    kind = block.dtype.kind
    if kind == "f":
        values = as_rows(block, kernel_dtype(block.dtype))
        return values.view(f"u{values.itemsize}"), True
    size = 8 if block.dtype.itemsize == 8 else 4
    bits = as_rows(block, f"i{size}" if kind == "i" else f"u{size}").view(f"u{size}")
    if kind == "i":
        bits = bits ^ bits.dtype.type(1 << (8 * size - 1))
    return bits, False


def code_masks(dtype: np.dtype) -> tuple[np.integer, np.integer]:
    """The flag of a tie in codes of type `dtype`, and the bits that hold the feature."""
    flag = 1 << (8 * dtype.itemsize - 1)
    return dtype.type(flag), dtype.type(flag - 1)


def rank_samples(X: Any) -> tuple[np.ndarray, np.ndarray]:
    """Rank the features of every sample.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        Samples in rows. Infinities are ordered as usual; −0.0 and +0.0 tie. Ties are settled by position.

    Returns
    -------
    ranks : ndarray of shape (n_samples, n_features)
        ``ranks[i, j]`` is the place of feature j when sample i is sorted increasingly, from 0.
    order : ndarray of shape (n_samples, n_features)
        ``order[i, r]`` is the feature at place r of sample i: the inverse permutation.

        Both have the smallest unsigned integer type that holds n_features − 1.

    Raises
    ------
    ValueError
        If `X` contains NaN.

    Examples
    --------
    >>> from suquan import rank_samples
    >>> ranks, order = rank_samples([[4.5, 1.2, 10.1, 8.9]])
    >>> ranks
    array([[1, 0, 3, 2]], dtype=uint8)
    >>> rank_samples([[30, 10, 20]])[1]
    array([[1, 2, 0]], dtype=uint8)
    """
    if is_dask_array(X):
        raise TypeError(
            "rank_samples takes no Dask array. Rank its blocks, with X.map_blocks and a function "
            "that calls rank_samples."
        )
    X = as_samples(X)
    operator = SampleOperator.from_samples(X, ties="first", n_jobs=1)
    index_dtype = np.min_scalar_type(max(X.shape[1] - 1, 0))
    order = (operator.codes & code_masks(operator.codes.dtype)[1]).astype(index_dtype)
    ranks = operator.apply(np.arange(X.shape[1])).astype(index_dtype)
    return ranks, order


def permutation_matrix(x: Any) -> sparse.csr_array:
    """Permutation matrix Π_x of a sample, with ``permutation_matrix(x) @ f`` its normalised values.

    (Π_x)[i, j] = 1 if the i-th entry of x is at the j-th place when x is sorted increasingly, ties by position:
    the definition in section 2 of the paper. Meant for small samples; nothing in the library builds it.

    Parameters
    ----------
    x : array-like of shape (n_features,)
        One sample.

    Returns
    -------
    sparse array of shape (n_features, n_features)

    Examples
    --------
    >>> from suquan import permutation_matrix
    >>> permutation_matrix([4.5, 1.2, 10.1, 8.9]) @ [0, 1, 3, 4]
    array([1., 0., 4., 3.])
    """
    x = np.asarray(x)
    if x.ndim != 1:
        raise ValueError(
            f"x must be one sample, a vector; got an array of shape {x.shape}. "
            "Call permutation_matrix once per row."
        )
    columns = rank_samples(x[None, :])[0][0].astype(np.intp)
    return sparse.csr_array(
        (np.ones(x.size), columns, np.arange(x.size + 1)), shape=(x.size, x.size)
    )


@dataclass(frozen=True)
class SampleOperator:
    """The linear maps T_i with Φ_f(x_i) = T_i f, for all samples, and their adjoints.

    Built once from the data by :meth:`from_samples`; holds ranks, ties and gaps, and no values.

    Attributes
    ----------
    codes : ndarray of shape (n_samples, n_features), uint16 or uint32
        ``codes[i, r]``: feature at place r of sample i; the highest bit is set if it ties with place r − 1.
    n_observed : ndarray of shape (n_samples,)
        Number of values of each sample that are not NaN; these come first in `codes`.
    has_ties : ndarray of shape (n_samples,), bool
    ties : {"average", "first", "mean_rank"}
    n_jobs : int or None
        Threads over blocks of samples.
    scale : ndarray of shape (n_features,) or None
        Factors of the rows of every T_i, the features: then all methods are those of diag(scale)·T_i. A model
        w on top of it is the model scale·w of the samples as they are, and its penalty that of w / scale.
    """

    codes: np.ndarray
    n_observed: np.ndarray
    has_ties: np.ndarray
    ties: str = "average"
    n_jobs: int | None = None
    scale: np.ndarray | None = None

    @classmethod
    def from_samples(
        cls,
        X: np.ndarray,
        *,
        ties: str = "average",
        missing: str = "error",
        n_jobs: int | None = None,
        feature_names: Any = None,
    ) -> SampleOperator:
        """Rank the samples of `X`, of shape (n_samples, n_features); integers of all sizes exactly."""
        check_choice("ties", ties, TIES)
        check_choice("missing", missing, MISSING)
        codes = np.empty(X.shape, np.uint16 if X.shape[1] <= 1 << 15 else np.uint32)
        n_observed = np.empty(X.shape[0], np.int64)
        has_ties = np.empty(X.shape[0], np.bool_)
        flag, _ = code_masks(codes.dtype)

        def encode_block(rows: slice) -> None:
            goal = codes[rows], n_observed[rows], has_ties[rows]
            operators.encode_rows(*as_bits(X[rows]), flag, *goal)

        for_each_block(encode_block, X.shape, n_jobs=n_jobs)
        if missing == "error":
            raise_missing(X, n_observed, feature_names)
        return cls(codes, n_observed, has_ties, ties, n_jobs)

    @property
    def n_samples(self) -> int:
        """Number of samples."""
        return self.codes.shape[0]

    @property
    def n_features(self) -> int:
        """Number of features, the length of f and w."""
        return self.codes.shape[1]

    @property
    def is_complete(self) -> bool:
        """Whether no value is missing."""
        return bool(np.all(self.n_observed == self.n_features))

    @property
    def is_constant(self) -> bool:
        """Whether no sample has two different values: then there is nothing to rank."""
        return bool(np.all(self.is_orderless))

    @property
    def is_orderless(self) -> np.ndarray:
        """Which samples have no two different values, of shape (n_samples,)."""
        flag, _ = code_masks(self.codes.dtype)
        tied = np.zeros(self.n_samples, np.int64)
        tied[self.has_ties] = np.count_nonzero(self.codes[self.has_ties] & flag, axis=1)
        return tied >= self.n_observed - 1

    def take(self, rows: Any) -> SampleOperator:
        """Operator of the samples `rows` (any NumPy index)."""
        parts = (self.codes, self.n_observed, self.has_ties)
        codes, n_observed, has_ties = (np.ascontiguousarray(part[rows]) for part in parts)
        return replace(self, codes=codes, n_observed=n_observed, has_ties=has_ties)

    def scaled(self, scale: np.ndarray) -> SampleOperator:
        """The same samples with these factors of the features."""
        return replace(self, scale=scale)

    def unscale(self, W: np.ndarray) -> np.ndarray:
        """Weights of the samples as they are, for weights W of these, (n_weights, n_targets · n_features)."""
        if self.scale is None:
            return W
        return np.reshape(np.reshape(W, (-1, self.n_features)) * self.scale, W.shape)

    # -- one row per sample ------------------------------------------------------------------------------

    def _fill(self, out: np.ndarray, kernel: Any, vector: np.ndarray, *rest: Any) -> np.ndarray:
        """Let the kernel write `out`, of one row per sample, block by block."""
        vector = np.ascontiguousarray(vector, dtype=np.float64)
        masks, rule = code_masks(self.codes.dtype), TIES[self.ties]

        def fill_block(rows: slice) -> None:
            samples = self.codes[rows], *masks, self.n_observed[rows], self.has_ties[rows], rule
            kernel(vector, *samples, *rest, out[rows])

        for_each_block(fill_block, self.codes.shape, self.n_jobs)
        return out

    def apply(self, f: np.ndarray, *, dtype: Any = np.float64, gap: float = 0.0) -> np.ndarray:
        """Normalised samples T_i f, of shape (n_samples, n_features); `gap` stands for a missing value."""
        out = self._fill(np.empty(self.codes.shape, dtype), operators.apply_rows, f, gap)
        if self.scale is not None:
            out *= self.scale
        return out

    def adjoint(
        self,
        w: np.ndarray,
        *,
        knots: tuple[np.ndarray, np.ndarray, int] | None = None,
        out: np.ndarray | None = None,
    ) -> np.ndarray:
        """Rows T_iᵀ w, with which the score is f·T_iᵀ w; in `out` where it is given.

        With `knots`, see :func:`suquan.targets.knot_positions`, they are Bᵀ T_iᵀ w, of length n_knots.
        """
        p = self.n_features
        node, part, width = (np.arange(p), np.zeros(p), p) if knots is None else knots
        out = np.empty((self.n_samples, width)) if out is None else out
        return self._fill(out, operators.adjoint_rows, self.unscale(w), node, part)

    def scores(self, W: np.ndarray, f: np.ndarray) -> np.ndarray:
        """Scores w_k·T_i f for the rows w_k of W, of shape (n_samples, n_weights).

        Those of a sample do not depend on what else is scored: products and sums of its own row, no matrix
        product. For several targets, the rows of f, the weights of each target's copy lie side by side in W,
        and their scores are added.
        """
        targets = np.atleast_2d(f)
        parts = np.split(self.unscale(W), len(targets), axis=1)

        def of_block(_: slice, block: SampleOperator) -> np.ndarray:
            total = np.zeros((block.n_samples, len(W)))
            for part, target in zip(parts, targets, strict=True):
                values = replace(block, scale=None).apply(target)
                total += np.stack([(values * w).sum(axis=1) for w in part], axis=1)
            return total

        return np.concatenate([np.zeros((0, len(W))), *self._map_blocks(of_block)])

    def gap_scores(self, parts: np.ndarray) -> np.ndarray:
        """Σ_j parts_kj over the missing features j of every sample, of shape (n_samples, n_parts)."""
        _, mask = code_masks(self.codes.dtype)
        total = np.zeros((self.n_samples, len(parts)))
        for i in np.flatnonzero(self.n_observed < self.n_features):
            total[i] = parts[:, self.codes[i, self.n_observed[i] :] & mask].sum(axis=1)
        return total

    def centred_ranks(self) -> np.ndarray:
        """Ranks from −1 to 1, of mean 0 in every sample, ties averaged, NaN where a value is missing."""
        levels = (2.0 * np.arange(self.n_features) + 1.0) / self.n_features - 1.0
        return replace(self, ties="average", scale=None).apply(levels, gap=np.nan)

    # -- sums over samples -------------------------------------------------------------------------------

    def _map_blocks(
        self, function: Callable[[slice, SampleOperator], np.ndarray]
    ) -> Iterator[np.ndarray]:
        """Results of `function` for the rows of each block and their operator, in order of blocks."""
        plain = replace(self, n_jobs=1)
        return over_blocks(
            lambda rows: function(rows, plain.take(rows)), self.codes.shape, self.n_jobs
        )

    def sum_apply(self, c: np.ndarray, f: np.ndarray) -> np.ndarray:
        """Σ_i c_i T_i f, of shape (n_features,), without the single terms."""
        parts = self._map_blocks(lambda rows, block: weighted_sum(c[rows], block.apply(f)))
        return sum(parts, np.zeros(self.n_features))

    def sum_adjoint(self, c: np.ndarray, w: np.ndarray) -> np.ndarray:
        """Σ_i c_i T_iᵀ w, of shape (n_features,), without the single terms."""
        parts = self._map_blocks(lambda rows, block: weighted_sum(c[rows], block.adjoint(w)))
        return sum(parts, np.zeros(self.n_features))

    def column_moments(
        self, s: np.ndarray, f: np.ndarray, centre: Any, W: Any = None
    ) -> np.ndarray:
        """:func:`column_moments` of the normalised samples T_i f, whatever the `scale`.

        With several targets, the rows of f, those of the curves Σ_l w_kl·(T_i f_l) for weights W of the samples
        as they are, with the targets side by side: of shape (3, n_weights, n_features).
        """
        F = np.atleast_2d(f)
        curves = np.ones((1, *F.shape)) if f.ndim == 1 else np.reshape(W, (-1, *F.shape))
        shape = len(curves), self.n_features
        centres = np.broadcast_to(centre, shape)
        targets = list(zip(F, np.swapaxes(curves, 0, 1), strict=True))

        def of_block(rows: slice, block: SampleOperator) -> np.ndarray:
            unscaled = replace(block, scale=None)
            values = reduce(
                np.add,
                (W_l[:, None] * unscaled.apply(f_l, gap=np.nan) for f_l, W_l in targets),
            )
            moments = [column_moments(A, s[rows], c) for A, c in zip(values, centres, strict=True)]
            return np.stack(moments, axis=1)

        sums = sum(self._map_blocks(of_block), np.zeros((3, *shape)))
        return sums[:, 0] if f.ndim == 1 else sums

    def rank_sums(self) -> np.ndarray:
        """Sums of the samples' centred ranks, and how many samples have each feature, (2, n_features)."""

        def of_block(_: slice, block: SampleOperator) -> np.ndarray:
            ranks, known = _known_ranks(block)
            count = known.sum(axis=0) if known.ndim == 2 else np.full(self.n_features, len(ranks))
            return np.stack([ranks.sum(axis=0), count])

        return sum(self._map_blocks(of_block), np.zeros((2, self.n_features)))

    def rank_agreement(self, sums: np.ndarray, *, leave_out: bool) -> np.ndarray:
        """Correlation of every sample's ranks with mean ranks, and its share of ties, (n_samples, 2).

        Where the samples are part of the `sums`, of :meth:`rank_sums`, each is left out of its own mean.
        """
        parts = self._map_blocks(lambda _, block: _rank_agreement(block, sums, leave_out))
        return np.concatenate([np.empty((0, 2)), *parts])


def weighted_sum(s: np.ndarray, A: np.ndarray) -> np.ndarray:
    """Σ_i s_i A_i over the rows of A; no product of BLAS, whose rounding depends on its threads."""
    return np.einsum("i,ij->j", s, A)


def column_moments(A: np.ndarray, s: np.ndarray, centre: Any) -> np.ndarray:
    """Σ_i s_i, Σ_i s_i d_ij and Σ_i s_i d_ij² for d = A − centre, NaN left out, of shape (3, n_features)."""
    d = A - centre
    gaps = np.isnan(d)
    total = np.full(d.shape[1], s.sum())
    if gaps.any():
        total = weighted_sum(s, ~gaps)
        d[gaps] = 0.0
    return np.stack([total, weighted_sum(s, d), np.einsum("i,ij,ij->j", s, d, d)])


def _known_ranks(operator: SampleOperator) -> tuple[np.ndarray, np.ndarray]:
    """Centred ranks with 0 where a value is missing, and 1 where it is not: one row where none is."""
    ranks = operator.centred_ranks()
    if operator.is_complete:
        return ranks, np.ones(operator.n_features)
    known = ~np.isnan(ranks)
    return np.where(known, ranks, 0.0), known * 1.0


def _rank_agreement(operator: SampleOperator, sums: np.ndarray, leave_out: bool) -> np.ndarray:
    """Compute :meth:`SampleOperator.rank_agreement` of some samples.

    With a the ranks of a sample and b_j = c_j (total_j − a_j) the means of the others (−a_j only to leave the
    sample out), all sums over the features that both have are dot products of 1, a and a² with vectors.
    """
    a, known = _known_ranks(operator)
    total, n_others = sums[0], sums[1] - leave_out
    c = np.divide(1.0, n_others, out=np.zeros(len(total)), where=n_others > 0)
    has, mean, own = (c > 0) * 1.0, c * total, c * leave_out
    squares = a * a
    k, B, bb = (known @ np.stack([has, mean, mean * mean], axis=1)).T
    A, ab, aB, abb = (a @ np.stack([has, mean, own, own * mean], axis=1)).T
    aa, aab, aabb = (squares @ np.stack([has, own, own * c], axis=1)).T
    m = operator.n_observed
    with np.errstate(divide="ignore", invalid="ignore"):
        untied = (m * m - 1.0) / (3.0 * m)  # Σ of m ranks squared
        ties = np.where(m > 1, np.round(1.0 - squares.sum(axis=1) / untied, 12), 1.0)
        B, ab, bb = B - aB, ab - aab, bb - 2.0 * abb + aabb
        r = (ab - A * B / k) / np.sqrt((aa - A * A / k) * (bb - B * B / k))
    return np.column_stack([np.where(ties < 1.0, r, np.nan), ties])


def training_ranks(operator: Any) -> dict[str, Any]:
    """Compute what :func:`suquan.check_samples` needs of ranked training samples.

    "profile": mean rank of every feature, from −1 to 1; "correlations": smallest, 5% quantile and largest of
    each sample's ranks with the mean of the others; "ties": largest share of ties.
    """
    total, count = sums = operator.rank_sums()
    r, ties = operator.rank_agreement(sums, leave_out=True).T
    r = r[~np.isnan(r)]
    with np.errstate(invalid="ignore"):
        profile = total / count  # NaN where no sample has the feature
    limits = np.quantile(r, [0.0, 0.05, 1.0]) if r.size else np.full(3, np.nan)
    return {"profile": profile, "correlations": limits, "ties": float(np.max(ties))}


def mean_and_variance(moments: Callable[[Any], np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Weighted mean and variance of every column, 0 where nothing is known.

    `moments` gives :func:`column_moments` for a centre of the columns; asked twice, so that no digits are lost.
    """
    total, first, _ = moments(0.0)
    total = np.maximum(total, np.finfo(float).tiny)
    mean = first / total
    _, first, second = moments(mean)
    return mean, np.maximum(second / total - (first / total) ** 2, 0.0)


def deviations(moments: Callable[[Any], np.ndarray], size: float) -> np.ndarray:
    """Weighted standard deviation of every column, 1 where it is 0 but for rounding, or nothing is known.

    `moments` is that of :func:`mean_and_variance`, `size` the largest absolute value in the columns.
    """
    sd = np.sqrt(mean_and_variance(moments)[1])
    return np.where(sd > _NO_DEVIATION * size, sd, 1.0)


def normalize(operator: SampleOperator, f: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Ranked samples of values of type `dtype`, normalised to f."""
    dtype = kernel_dtype(dtype)
    check_fits(f, dtype)
    return operator.apply(f, dtype=dtype, gap=np.nan)


def check_fits(f: np.ndarray, dtype: np.dtype) -> None:
    """Raise a ValueError if the target would overflow in the type of the result."""
    if np.max(np.abs(f)) > np.finfo(dtype).max:
        raise ValueError(
            f"the target quantiles reach {np.max(np.abs(f)):.3g}, more than {dtype} holds; give X as "
            "float64, or scale the target."
        )
