"""The w-step on blocks: the same Newton methods as in memory, whose sums over samples are passes.

- n_samples ≤ n_features (and not too many): one pass gives the Gram matrix of the normalised samples; all fits
  on it are solved at once by the solver in memory, and one more pass gives their coefficients.
- otherwise: :class:`BlockSums` gives :mod:`suquan.solvers.ridge_features` its sums over samples. An evaluation
  of all fold models is one pass, a product with all their Hessians another.

:mod:`suquan._dask.problem` makes a :class:`BlockDesign` for every target.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from hashlib import blake2b
from typing import Any

import numpy as np

from suquan._dask.blocks import RankedBlock
from suquan.losses import Loss
from suquan.solvers import _products
from suquan.solvers.linear import RidgeDesign
from suquan.solvers.newton import (
    MAX_ITER,
    TOL,
    LinearFit,
    Point,
    Product,
    ignores_shifts,
    negligible,
)
from suquan.solvers.ridge_features import Conditioning, DenseSums, FeatureProblem, theta_of

GRAM_SAMPLES = 10_000  # largest Gram matrix that the driver takes: 800 MB
# Most features whose second moments precondition: 134 MB; one scale beyond.
COVARIANCE_FEATURES = 4096
_START_TOL = 1e-4  # accuracy of the fit to all samples that fold models start from

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
        """Normalised samples of a block."""
        make = partial(block.operator.apply, self.f, dtype=self.dtype)
        return block.remembered("design", token_of(self.f), make, keep=self.keep, alone=True)

    def design(self, block: RankedBlock) -> _products.CentredDesign:
        """The block's centred rows."""
        rows = self.rows(block)
        return _products.CentredDesign(rows, self.means, self.fit_intercept, self.explicit)


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

    def points(
        self, block: RankedBlock, request: DesignRequest, theta: np.ndarray, damping: Any = None
    ) -> tuple[DenseSums, np.ndarray, list[Point]]:
        """Sums over the block's samples, the numbers of the fits, and their points at theta.

        The scores are remembered: an evaluation is followed by products with Hessians at the same theta.
        """
        train = 1.0 if self.models is None else block.train[self.models]
        S = np.atleast_2d(train * block.s / self.totals[:, None])
        sums, which = DenseSums(request.design(block), self.loss, block.y, S), np.arange(len(theta))
        token, make = token_of(request.f, request.means, theta), partial(sums.scores, theta)
        scores = block.remembered("scores", token, make, keep=True)
        points = sums.points(which, theta, scores)
        if damping is not None:
            damped = zip(points, damping.tolist(), strict=True)
            points = [point._replace(damping=share) for point, share in damped]
        return sums, which, points


# -- what blocks compute ------------------------------------------------------------------------------


def column_moments(block: RankedBlock, request: DesignRequest) -> Arrays:
    """Sums and sums of squares of the columns."""
    return list(_products.column_moments(request.rows(block)))


def evaluate(block: RankedBlock, request: DesignRequest, fits: Fits, theta: np.ndarray) -> Arrays:
    """Losses, their gradients, and mean curvatures of the scores."""
    with np.errstate(over="ignore", invalid="ignore"):  # a step is not taken where a loss overflows
        sums, which, points = fits.points(block, request, theta)
        values = np.array([point.objective for point in points])
        return [values, sums.gradients(which, points), sums.curvatures(which, points)]


def curvature_of_columns(
    block: RankedBlock,
    request: DesignRequest,
    fits: Fits,
    theta: np.ndarray,
    damping: np.ndarray,
    V: np.ndarray | None,
    total: float,
) -> Arrays:
    """Products of the losses' Hessians with V; or, without V, second moments of the columns.

    These are weighted with the mean curvature of the fits over `total`.
    """
    sums, which, points = fits.points(block, request, theta, damping)
    if V is None:
        return [sums.squares(which, points, total)]
    return [sums.hessian(which, points)(V)]


def held_out_losses(
    block: RankedBlock, request: DesignRequest, fits: Fits, theta: np.ndarray
) -> Arrays:
    """Weighted losses of the samples that the fold models have not seen."""
    _, _, points = fits.points(block, request, theta)
    weights = block.s * block.test
    losses = [
        fits.loss.value(block.y[s > 0.0], point.u.reshape(len(s), -1)[s > 0.0].ravel(), s[s > 0.0])
        for point, s in zip(points, weights, strict=True)
        if np.any(s > 0.0)
    ]
    return [np.array(float(sum(losses)))]


def gram_part(
    parts: list[RankedBlock], others: list[RankedBlock], request: DesignRequest
) -> Arrays:
    """Inner products of the normalised samples of two blocks."""
    A = _in_float64(parts, request)
    return [A @ (A if others is parts else _in_float64(others, request)).T]


def _in_float64(parts: list[RankedBlock], request: DesignRequest) -> np.ndarray:
    """Normalised samples of a block."""
    return np.concatenate([request.rows(part).astype(np.float64, copy=False) for part in parts])


def coefficients(block: RankedBlock, request: DesignRequest, duals: np.ndarray) -> Arrays:
    """Part of Σ_m dual_m T_m f."""
    rows = slice(block.first, block.first + len(block.y))
    return [_products.column_products(request.rows(block), np.ascontiguousarray(duals[:, rows]))]


# -- the driver's side --------------------------------------------------------------------------------


class BlockDesign(RidgeDesign):
    """The normalised samples of all blocks, on which ridge problems are solved.

    Parameters
    ----------
    problem : suquan._dask.problem.BlockedProblem
        Labels and weights are those of the used samples; blocks have theirs.
    f : ndarray of shape (n_features,)

    Attributes
    ----------
    totals : ndarray of shape (n_models,)
        Weights of the fold models' samples.
    """

    def __init__(self, problem: Any, f: np.ndarray) -> None:
        blocks, loss, fit_intercept = problem.blocks, problem.loss, problem.fit_intercept
        n, p = blocks.n_samples, blocks.n_features
        self.blocks, self.loss, self.y, self.s = blocks, loss, problem.y, problem.s
        self.fit_intercept = fit_intercept
        self.totals = np.array([problem.s[train].sum() for train, _ in problem.splits])
        keep = n * p * np.dtype(problem.dtype).itemsize <= blocks.kept_bytes
        self.request = DesignRequest(f, problem.dtype, fit_intercept, keep, np.zeros(p))
        self._gram = self._gram_design() if n <= min(p, GRAM_SAMPLES) else None
        self._all: LinearFit | None = None
        if self._gram is None:
            if loss.couples_samples:
                raise ValueError(
                    f"loss={loss.name!r} couples samples, and needs all of them at once: fit it in memory."
                )
            sums, squares = self.blocks.sum(column_moments, self.request)
            means, self.spread, explicit = _products.centring(sums, squares, n, fit_intercept)
            self.request = replace(self.request, means=means, explicit=explicit)
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
        (self._all,) = self._newton(None, alpha, max(tol, _START_TOL), max_iter, None)
        return self._newton(np.arange(len(self.totals)), alpha, tol, max_iter, self._all)

    def held_out_loss(self, models: list[LinearFit]) -> float:
        """Sum of the weighted losses of held-out samples."""
        theta = np.stack([theta_of(fit, self.request.means, False) for fit in models])
        fits = Fits(self.loss, np.arange(len(models)), self.totals)
        return float(self.blocks.sum(held_out_losses, self.request, fits, theta)[0])

    def _gram_design(self) -> RidgeDesign:
        G = np.empty((self.blocks.n_samples, self.blocks.n_samples))
        labels = [rows.labels for rows in self.blocks.rows]
        ends = [slice(of_block.first, of_block.first + len(of_block.y)) for of_block in labels]
        for i, j, part in self.blocks.collect_pairs(gram_part, self.request):
            G[ends[i], ends[j]] = part
            G[ends[j], ends[i]] = part.T
        return RidgeDesign.from_gram(G, fit_intercept=self.fit_intercept)

    def _with_coefficients(self, fits: list[LinearFit]) -> list[LinearFit]:
        duals = np.concatenate([fit.dual for fit in fits])
        (W,) = self.blocks.sum(coefficients, self.request, duals)
        W = W.reshape(len(fits), -1, W.shape[1])
        return [replace(fit, w=w, design=None) for fit, w in zip(fits, W, strict=True)]

    def _newton(self, models, alpha, tol, max_iter, start) -> list[LinearFit]:
        totals = np.ones(1) if models is None else self.totals
        balanced = ignores_shifts(self.loss, self.y, self.s)
        sums = BlockSums(self, Fits(self.loss, models, totals))
        problem = FeatureProblem(sums, self.conditioning, self.loss, alpha, balanced)
        theta = np.zeros((len(totals), self.loss.n_outputs, self.blocks.n_features + 1))
        if start is not None:
            theta[:] = theta_of(start, self.request.means, balanced)
        elif self.fit_intercept:
            theta[:, :, -1] = self.loss.best_constant(self.y, self.s)
        points = problem.evaluate(np.arange(len(totals)), theta)
        floor = negligible(self.loss, self.y, self.s)
        return problem.solve(points, self.request.means, floor, tol, max_iter)


class BlockSums(DenseSums):
    """The same sums over the samples of all blocks; `fits` says which fits there are."""

    def __init__(self, design: BlockDesign, fits: Fits) -> None:
        self.blocks, self.request, self.fits = design.blocks, design.request, fits
        self.n_features, self.spread = design.blocks.n_features, design.spread
        self.largest_square = float(COVARIANCE_FEATURES)

    def evaluate(self, fits: np.ndarray, theta: np.ndarray) -> list[Point]:
        """Losses at theta with their gradients and curvatures, in one pass."""
        sums = self.blocks.sum(evaluate, self.request, self.fits.take(fits), theta)
        return [
            Point(at, float(value), None, gradient, float(curvature))
            for at, value, gradient, curvature in zip(theta, *sums, strict=True)
        ]

    def gradients(self, fits: np.ndarray, points: list[Point]) -> np.ndarray:
        """Gradients of the losses, known from their evaluation."""
        return np.stack([point.gradient for point in points])

    def curvatures(self, fits: np.ndarray, points: list[Point]) -> np.ndarray:
        """Mean curvatures of the scores, known from their evaluation."""
        return np.array([point.curvature for point in points])

    def hessian(self, fits: np.ndarray, points: list[Point]) -> Product:
        """Products with the Hessians of the losses, one pass each."""
        return lambda V: self._sum_curvature(fits, points, V)

    def squares(self, fits: np.ndarray, points: list[Point], total: float) -> np.ndarray:
        """Second moments weighted with mean curvatures over `total`, in one pass."""
        return self._sum_curvature(fits, points, None, total)

    def _sum_curvature(
        self, fits: np.ndarray, points: list[Point], V: np.ndarray | None, total: float = 1.0
    ) -> np.ndarray:
        theta = np.stack([point.theta for point in points])
        damping = np.array([point.damping for point in points])
        at = self.request, self.fits.take(fits), theta, damping
        return self.blocks.sum(curvature_of_columns, *at, V, total)[0]
