"""The w-step on blocks: the same Newton methods as in memory, whose sums over samples are passes.

- n_samples ≤ n_features (and not too many): one pass gives the Gram matrix of the normalised samples; all fits
  on it are solved at once by the solver in memory, and one more pass gives their coefficients.
- otherwise: :class:`BlockSums` gives :mod:`suquan.solvers.ridge_features` its sums over samples. An
evaluation of
  all fold models is one pass, a product with all their Hessians another.

:mod:`suquan._dask.problem` makes a :class:`BlockDesign` for every target.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from hashlib import blake2b
from typing import Any

import numpy as np

from suquan._dask.blocks import Blocks, RankedBlock
from suquan.losses import Loss
from suquan.solvers._fits import MAX_ITER, TOL, LinearFit, ignores_shifts, negligible
from suquan.solvers._products import CentredDesign, centring, column_products
from suquan.solvers._products import column_moments as moments_of_columns
from suquan.solvers.linear import RidgeDesign
from suquan.solvers.newton import Point, Product, newton
from suquan.solvers.ridge_features import Conditioning, DenseSums, FeatureProblem

GRAM_SAMPLES = 10_000  # largest Gram matrix that the driver takes: 800 MB
COVARIANCE_FEATURES = 4096  # largest covariance that preconditions: 134 MB; its diagonal beyond
_LOOSE_TOL = 1e-4  # accuracy of the fit to all samples that fold models start from
# Products are padded to a multiple of so many vectors: the scores of a fit are then the same bits whichever
# others run beside it, so that a block that lost its memory repeats them.
_VECTORS = 16

Arrays = list[np.ndarray]


def token_of(*arrays: Any) -> bytes:
    """Short hash of arrays, by which a block knows what it still has from an earlier pass."""
    digest = blake2b(digest_size=16)
    for array in arrays:
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.digest()


@dataclass(frozen=True)
class DesignRequest:
    """What a block needs to make its part of the design T_i f, columns centred.

    Attributes
    ----------
    f : ndarray of shape (n_features,)
    dtype : type
    keep : bool
        Whether the block keeps it for the next pass.
    means : ndarray of shape (n_features,)
        Of the columns; zeros without an intercept.
    explicit : bool
        Whether they are subtracted from the design and not from its products.
    """

    f: np.ndarray
    dtype: Any
    fit_intercept: bool
    keep: bool
    means: np.ndarray
    explicit: bool = False

    def rows(self, block: RankedBlock) -> np.ndarray:
        """Normalised samples of a block; unless they are kept, only until the thread asks for others."""
        return block.remembered(
            "design", token_of(self.f), partial(self._make, block), keep=self.keep, alone=True
        )

    def _make(self, block: RankedBlock) -> np.ndarray:
        shape = block.operator.codes.shape
        out = np.empty(shape, self.dtype)
        return block.operator.apply(self.f, out=out)

    def design(self, block: RankedBlock) -> CentredDesign:
        """The block's centred rows."""
        return CentredDesign(self.rows(block), self.means, self.fit_intercept, self.explicit)


@dataclass(frozen=True)
class Fits:
    """Which fits a pass evaluates: fold models, or the one on all samples.

    Attributes
    ----------
    loss : Loss
    models : ndarray of int, or None for the fit on all samples
    totals : ndarray
        Weight of the samples of each model.
    """

    loss: Loss
    models: np.ndarray | None
    totals: np.ndarray

    def take(self, which: np.ndarray) -> Fits:
        """Some of them."""
        models = None if self.models is None else self.models[which]
        return replace(self, models=models, totals=self.totals[which])

    def sums(self, block: RankedBlock, request: DesignRequest) -> DenseSums:
        """Sums over the block's samples."""
        train = 1.0 if self.models is None else block.trains[self.models]
        S = np.atleast_2d(train * block.s / self.totals[:, None])
        return DenseSums(request.design(block), self.loss, block.y, S)

    def points(
        self, block: RankedBlock, request: DesignRequest, theta: np.ndarray, *, exact: bool = True
    ) -> tuple[DenseSums, np.ndarray, list[Point]]:
        """Sums over the block's samples, the numbers of the fits, and their points at theta.

        The scores are remembered in float32, which is enough for Hessians: unless they must be `exact`, those
        of the last pass at theta are taken.
        """
        sums, fits = self.sums(block, request), np.arange(len(theta))
        names = [-1] if self.models is None else self.models.tolist()
        tokens = [token_of(request.f, request.means, point) for point in theta]
        known = [block.memo.get(("scores", name), (None, None)) for name in names]
        found = [had == wanted for (had, _), wanted in zip(known, tokens, strict=True)]
        if not exact and all(found):
            scores = np.stack([scores for _, scores in known]).astype(np.float64)
            return sums, fits, sums.points(fits, theta, scores)
        pad = -len(theta) % _VECTORS if self.models is not None else 0
        padded = np.concatenate([theta, np.zeros((pad, *theta.shape[1:]))])
        scores = sums.scores(padded)[: len(theta)]
        rounded = scores.astype(np.float32)
        for name, token, of_fit in zip(names, tokens, rounded, strict=True):
            block.memo["scores", name] = token, of_fit
        return sums, fits, sums.points(fits, theta, scores if exact else rounded.astype(np.float64))


# -- what blocks compute ------------------------------------------------------------------------------


def column_moments(block: RankedBlock, request: DesignRequest) -> Arrays:
    """Sums and sums of squares of the columns."""
    return list(moments_of_columns(request.rows(block)))


def squares(
    block: RankedBlock, request: DesignRequest, fits: Fits, theta: np.ndarray, damping: float
) -> Arrays:
    """Parts of the second moments of the columns, weighted with the curvature of each output of one fit."""
    total: Arrays = []
    for part in block.cut():  # what is copied to float64 stays small
        sums, _, (point,) = fits.points(part, request, theta, exact=False)
        of_part = sums.squares(0, point._replace(damping=damping))
        total = [a + b for a, b in zip(total, of_part, strict=True)] if total else of_part
    return total


def covariance(block: RankedBlock, request: DesignRequest, n_samples: int) -> Arrays:
    """Part of the second moments of the columns, bordered by those of the intercept."""
    total = np.zeros((block.operator.n_features + 1,) * 2)
    for part in block.cut():
        total += request.design(part).squares(np.full(len(part.y), 1.0 / n_samples))
    return [total]


def evaluate(block: RankedBlock, request: DesignRequest, fits: Fits, theta: np.ndarray) -> Arrays:
    """Losses, their gradients, and mean curvatures of the scores."""
    with np.errstate(
        over="ignore", invalid="ignore"
    ):  # where a loss overflows the step is not taken
        sums, which, points = fits.points(block, request, theta)
        values = np.array([point.objective for point in points])
        return [values, sums.gradients(which, points), sums.curvatures(which, points)]


def hessian_products(
    block: RankedBlock,
    request: DesignRequest,
    fits: Fits,
    theta: np.ndarray,
    damping: np.ndarray,
    V: np.ndarray,
) -> Arrays:
    """Products of the losses' Hessians with V."""
    sums, which, points = fits.points(block, request, theta, exact=False)
    damped = [p._replace(damping=d) for p, d in zip(points, damping.tolist(), strict=True)]
    return [sums.hessian(which, damped)(V)]


def held_out_losses(
    block: RankedBlock, request: DesignRequest, fits: Fits, theta: np.ndarray
) -> Arrays:
    """Weighted losses of the samples that the fold models have not seen."""
    _, _, points = fits.points(block, request, theta)
    weights = block.s * block.tests
    losses = [
        fits.loss.value(block.y[s > 0.0], point.u.reshape(len(s), -1)[s > 0.0].ravel(), s[s > 0.0])
        for point, s in zip(points, weights, strict=True)
        if np.any(s > 0.0)
    ]
    return [np.array(sum(losses))]


def gram_part(block: RankedBlock, other: RankedBlock, request: DesignRequest) -> np.ndarray:
    """Inner products of the normalised samples of two blocks."""
    A = _in_float64(request, block)
    return A @ (A if other is block else _in_float64(request, other)).T


def _in_float64(request: DesignRequest, block: RankedBlock) -> np.ndarray:
    """Normalised samples of a block, in an array of their own."""
    if request.keep:
        return request.rows(block).astype(np.float64, copy=False)
    return block.operator.apply(request.f, dtype=request.dtype).astype(np.float64, copy=False)


def coefficients(block: RankedBlock, request: DesignRequest, duals: np.ndarray) -> Arrays:
    """Part of Σ_m dual_m T_m f."""
    rows = slice(block.first, block.first + len(block.y))
    return [column_products(request.rows(block), np.ascontiguousarray(duals[:, rows]))]


# -- the driver's side --------------------------------------------------------------------------------


class BlockDesign(RidgeDesign):
    """The normalised samples of all blocks, on which ridge problems are solved.

    Parameters
    ----------
    blocks : Blocks
    f : ndarray of shape (n_features,)
    loss : Loss
    y, s : ndarray of shape (n_samples,)
        Labels and weights of the used samples; blocks have theirs.
    totals : ndarray of shape (n_models,)
        Weights of the fold models' samples.
    dtype : type
    fit_intercept : bool
    """

    def __init__(
        self,
        blocks: Blocks,
        f: np.ndarray,
        loss: Loss,
        y: np.ndarray,
        s: np.ndarray,
        totals: np.ndarray,
        *,
        dtype: Any,
        fit_intercept: bool,
    ) -> None:
        n, p = blocks.n_samples, blocks.n_features
        self.blocks, self.loss, self.y, self.s = blocks, loss, y, s
        self.totals, self.fit_intercept = totals, fit_intercept
        keep = n * p * np.dtype(dtype).itemsize <= blocks.kept_bytes
        self.request = DesignRequest(f, dtype, fit_intercept, keep, np.zeros(p))
        self._gram = self._gram_design() if n <= min(p, GRAM_SAMPLES) else None
        self._all: LinearFit | None = None
        if self._gram is None:
            if loss.couples_samples:
                raise ValueError(
                    f"loss={loss.name!r} couples samples, and needs all of them at once: fit it in memory."
                )
            self._centre()
            self.conditioning = Conditioning(p)

    @property
    def is_gram(self) -> bool:
        """Whether the samples are known by their Gram matrix."""
        return self._gram is not None

    def solve(self, loss, y, s, alpha, *, tol=TOL, max_iter=MAX_ITER, start=None) -> LinearFit:
        """The fit on all samples."""
        if self._gram is not None:
            fit = self._gram.solve(loss, y, s, alpha, tol=tol, max_iter=max_iter)
            return self._with_coefficients([fit])[0]
        start = self._all if start is None else start
        (fit,) = self._newton(None, alpha, tol, max_iter, start)
        if start is not None and not fit.converged:
            # Newton does not leave a start whose scores are saturated: begin anew.
            (anew,) = self._newton(None, alpha, tol, max_iter, None)
            fit = min(fit, anew, key=lambda fit: fit.objective)
        return fit

    def solve_folds(self, S, alpha, *, tol, max_iter) -> list[LinearFit]:
        """The fold models; S gives their weights, and is only asked for where samples are few."""
        if self._gram is not None:
            fits = self._gram.solve_many(self.loss, self.y, S(), alpha, tol=tol, max_iter=max_iter)
            return self._with_coefficients(fits)
        (self._all,) = self._newton(None, alpha, max(tol, _LOOSE_TOL), max_iter, None)
        return self._newton(np.arange(len(self.totals)), alpha, tol, max_iter, self._all)

    def held_out_loss(self, models: list[LinearFit]) -> float:
        """Sum of the weighted losses of held-out samples."""
        theta = np.stack([self._theta(fit) for fit in models])
        fits = Fits(self.loss, np.arange(len(models)), self.totals)
        return float(self.blocks.sum(held_out_losses, self.request, fits, theta)[0])

    def _gram_design(self) -> RidgeDesign:
        n, rows = self.blocks.n_samples, self.blocks.rows
        G = np.empty((n, n))
        ends = [slice(part.first, part.first + len(part.y)) for part in rows]
        for i, j, part in self.blocks.collect_pairs(gram_part, self.request):
            G[ends[i], ends[j]] = part
            G[ends[j], ends[i]] = part.T
        return RidgeDesign.from_gram(G, fit_intercept=self.fit_intercept)

    def _with_coefficients(self, fits: list[LinearFit]) -> list[LinearFit]:
        duals = np.concatenate([fit.dual for fit in fits])
        (W,) = self.blocks.sum(coefficients, self.request, duals)
        W = W.reshape(len(fits), -1, W.shape[1])
        return [replace(fit, w=w, design=None) for fit, w in zip(fits, W, strict=True)]

    def _centre(self) -> None:
        """Means and spreads of the columns, in one pass."""
        sums, squares = self.blocks.sum(column_moments, self.request)
        means, self.spread, explicit = centring(
            sums, squares, self.blocks.n_samples, self.fit_intercept
        )
        self.request = replace(self.request, means=means, explicit=explicit)

    def _theta(self, fit: LinearFit) -> np.ndarray:
        """Coefficients and intercept on the centred design."""
        b = fit.b + fit.w @ self.request.means if self.fit_intercept else np.zeros(len(fit.b))
        return np.column_stack([fit.w, b])

    def _newton(self, models, alpha, tol, max_iter, start) -> list[LinearFit]:
        totals = np.ones(1) if models is None else self.totals
        balanced = ignores_shifts(self.loss, self.y, self.s)
        sums = BlockSums(self, Fits(self.loss, models, totals))
        problem = FeatureProblem(sums, self.conditioning, self.loss, alpha, balanced)
        theta = np.zeros((len(totals), self.loss.n_outputs, self.blocks.n_features + 1))
        if start is not None:
            theta[:] = self._theta(start)
            if balanced:
                theta -= theta.mean(axis=1, keepdims=True)
        elif self.fit_intercept:
            theta[:, :, -1] = self.loss.best_constant(self.y, self.s)
        points = problem.evaluate(np.arange(len(totals)), theta)
        floor = negligible(self.loss, self.y, self.s)
        fits = []
        for point, n_iter, criterion in newton(problem, points, floor, tol, max_iter):
            w, b = point.theta[:, :-1].copy(), point.theta[:, -1].copy()
            if self.fit_intercept:
                b -= w @ self.request.means
                b -= b.mean() if balanced else 0.0
            fits.append(
                LinearFit(w, b, np.empty(0), point.objective, n_iter, criterion, criterion <= tol)
            )
        return fits


class BlockSums:
    """Sums over the samples of all blocks, as :class:`suquan.solvers.ridge_features.SampleSums` asks them."""

    largest_square = float(COVARIANCE_FEATURES)

    def __init__(self, design: BlockDesign, fits: Fits) -> None:
        self.design, self.fits, self.spread = design, fits, design.spread
        self.n_features = design.blocks.n_features

    def evaluate(self, fits: np.ndarray, theta: np.ndarray) -> list[Point]:
        """Losses at theta with their gradients, in one pass."""
        sums = self._sum(evaluate, self.fits.take(fits), theta)
        return [
            Point(at, float(value), None, gradient, float(curvature))
            for at, value, gradient, curvature in zip(theta, *sums, strict=True)
        ]

    def gradients(self, fits: np.ndarray, points: list[Point]) -> np.ndarray:
        """Gradients of the losses, known from their evaluation."""
        return np.stack([point.gradient for point in points])

    def hessian(self, fits: np.ndarray, points: list[Point]) -> Product:
        """Products with the Hessians of the losses, one pass each."""
        theta, damping = _stacked(points)
        return lambda V: self._sum(hessian_products, self.fits.take(fits), theta, damping, V)[0]

    def curvatures(self, fits: np.ndarray, points: list[Point]) -> np.ndarray:
        """Mean curvatures of the scores, known from their evaluation."""
        return np.array([point.curvature for point in points])

    def covariance(self) -> np.ndarray:
        """Second moments of the columns, in one pass."""
        n_samples = self.design.blocks.n_samples
        return self._unit_corner(self._sum(covariance, n_samples, whole=True))[0]

    def squares(self, fit: int, point: Point) -> Arrays:
        """Second moments weighted with the curvature of each output of a fit, in one pass."""
        fits = self.fits.take(np.array([fit]))
        parts = self._sum(squares, fits, point.theta[None], point.damping, whole=True)
        return self._unit_corner(parts)

    def _unit_corner(self, matrices: Arrays) -> Arrays:
        """Without an intercept every block has a 1 at the end of the diagonal."""
        for H in matrices if not self.design.fit_intercept else []:
            H[-1, -1] = 1.0
        return matrices

    def _sum(self, function: Any, *arguments: Any, whole: bool = False) -> Arrays:
        return self.design.blocks.sum(function, self.design.request, *arguments, whole=whole)


def _stacked(points: list[Point]) -> tuple[np.ndarray, np.ndarray]:
    """Parameters and damping of several fits."""
    theta = np.stack([point.theta for point in points])
    return theta, np.array([point.damping for point in points])
