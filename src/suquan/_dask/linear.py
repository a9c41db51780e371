"""The w-step on blocks: the ridge solver in memory, whose sums over samples are passes.

- n_samples ≤ n_features (and not too many): one pass gives the Gram matrix of the normalised samples; all fits
  on it are solved at once by the solver in memory, and one more pass gives their coefficients.
- otherwise: :class:`BlockSums` gives :func:`suquan.solvers.ridge.newton` its sums over samples. An evaluation
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
from suquan.solvers.ridge import (
    MAX_ITER,
    TOL,
    Batch,
    LinearFit,
    Minimised,
    Preconditioner,
    Product,
    RidgeDesign,
    Rows,
    ignores_shifts,
    negligible,
    newton,
)

GRAM_SAMPLES = 10_000  # largest Gram matrix that the driver takes: 800 MB
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
    """What a block needs to make its part of the design T_i f.

    Attributes
    ----------
    f : ndarray of shape (n_features,)
    dtype : type
    fit_intercept : bool
    keep : bool
        Whether the block keeps it for the next pass.
    """

    f: np.ndarray
    dtype: Any
    fit_intercept: bool
    keep: bool

    def rows(self, block: RankedBlock) -> np.ndarray:
        """Normalised samples of a block."""
        make = partial(block.operator.apply, self.f, dtype=self.dtype)
        return block.remembered("design", token_of(self.f), make, keep=self.keep, alone=True)


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

    def at(
        self, block: RankedBlock, request: DesignRequest, theta: np.ndarray
    ) -> tuple[Batch, np.ndarray, np.ndarray]:
        """Sums over the block's samples, the numbers of the fits, and their scores at theta.

        The scores are remembered: an evaluation is followed by products with Hessians at the same theta.
        """
        train = 1.0 if self.models is None else block.train[self.models]
        S = np.atleast_2d(train * block.s / self.totals[:, None])
        batch = Batch(Rows(request.rows(block), request.fit_intercept), self.loss, block.y, S)
        make = partial(batch.scores, theta)
        u = block.remembered("scores", token_of(request.f, theta), make, keep=True)
        return batch, np.arange(len(theta)), u


# -- what blocks compute ------------------------------------------------------------------------------


def evaluate(block: RankedBlock, request: DesignRequest, fits: Fits, theta: np.ndarray) -> Arrays:
    """Losses, their gradients, and summed curvatures of the scores."""
    with np.errstate(over="ignore", invalid="ignore"):  # a step is not taken where a loss overflows
        batch, which, u = fits.at(block, request, theta)
        curvatures = batch.curvatures(which, u, np.zeros(len(theta)))
        return [batch.values(which, u), batch.gradients(which, u), curvatures]


def hessian_products(
    block: RankedBlock,
    request: DesignRequest,
    fits: Fits,
    theta: np.ndarray,
    damping: np.ndarray,
    V: np.ndarray,
) -> Arrays:
    """Products of the losses' Hessians with V."""
    batch, which, u = fits.at(block, request, theta)
    return [batch.product(which, u, damping)(V)]


def column_moments(
    block: RankedBlock, request: DesignRequest, fits: Fits, theta: np.ndarray, kind: str
) -> Arrays:
    """Second moments of the columns with the mean curvature of the fits: "moments", or their "spread"."""
    batch, which, u = fits.at(block, request, theta)
    return [np.array(getattr(batch, kind)(which, u, np.zeros(len(theta))))]


def held_out_losses(
    block: RankedBlock, request: DesignRequest, fits: Fits, theta: np.ndarray
) -> Arrays:
    """Weighted losses of the samples that the fold models have not seen."""
    scores = fits.at(block, request, theta)[2]
    weights = block.s * block.test
    losses = [
        fits.loss.value(block.y[s > 0.0], u.reshape(len(s), -1)[s > 0.0].ravel(), s[s > 0.0])
        for u, s in zip(scores, weights, strict=True)
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


class BlockDesign:
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
        self.totals = np.array([problem.s[train].sum() for train, _ in problem.splits])
        keep = n * p * np.dtype(problem.dtype).itemsize <= blocks.kept_bytes
        self.request = DesignRequest(f, problem.dtype, fit_intercept, keep)
        self._gram = self._gram_design() if n <= min(p, GRAM_SAMPLES) else None
        self._all: np.ndarray | None = None
        if self._gram is None and loss.couples_samples:
            raise ValueError(
                f"loss={loss.name!r} couples samples, and needs all of them at once: fit it in memory."
            )
        self.balanced = ignores_shifts(loss, self.y, self.s)
        self._preconditioner = Preconditioner(p)

    @property
    def is_gram(self) -> bool:
        """Whether the samples are known by their Gram matrix."""
        return self._gram is not None

    def solve(self, loss, y, s, alpha, *, tol=TOL, max_iter=MAX_ITER, start=None) -> LinearFit:
        """The fit on all samples."""
        if self._gram is not None:
            fit = self._gram.solve(loss, y, s, alpha, tol=tol, max_iter=max_iter)
            return self._with_coefficients([fit])[0]
        theta = self._all if start is None else np.column_stack([start.w, start.b])[None]
        return self._fits(self._newton(None, alpha, tol, max_iter, theta), tol)[0]

    def solve_folds(self, S, alpha, *, tol, max_iter) -> list[LinearFit]:
        """The fold models; S gives their weights, and is only asked for where samples are few."""
        if self._gram is not None:
            fits = self._gram.solve_many(self.loss, self.y, S(), alpha, tol=tol, max_iter=max_iter)
            return self._with_coefficients(fits)
        self._all = self._newton(None, alpha, max(tol, _START_TOL), max_iter, None).theta
        models = np.arange(len(self.totals))
        return self._fits(self._newton(models, alpha, tol, max_iter, self._all), tol)

    def held_out_loss(self, models: list[LinearFit]) -> float:
        """Sum of the weighted losses of held-out samples."""
        theta = np.stack([np.column_stack([fit.w, fit.b]) for fit in models])
        fits = Fits(self.loss, np.arange(len(models)), self.totals)
        return float(self.blocks.sum(held_out_losses, self.request, fits, theta)[0])

    def _gram_design(self) -> RidgeDesign:
        G = np.empty((self.blocks.n_samples, self.blocks.n_samples))
        labels = [rows.labels for rows in self.blocks.rows]
        ends = [slice(of_block.first, of_block.first + len(of_block.y)) for of_block in labels]
        for i, j, part in self.blocks.collect_pairs(gram_part, self.request):
            G[ends[i], ends[j]] = part
            G[ends[j], ends[i]] = part.T
        return RidgeDesign.from_gram(G, fit_intercept=self.request.fit_intercept)

    def _with_coefficients(self, fits: list[LinearFit]) -> list[LinearFit]:
        duals = np.concatenate([fit.dual for fit in fits])
        (W,) = self.blocks.sum(coefficients, self.request, duals)
        W = W.reshape(len(fits), -1, W.shape[1])
        return [replace(fit, w=w) for fit, w in zip(fits, W, strict=True)]

    def _newton(self, models, alpha, tol, max_iter, start: np.ndarray | None) -> Minimised:
        """Fits of the models, from `start` or the best constant."""
        totals = np.ones(1) if models is None else self.totals
        sums = BlockSums(self, Fits(self.loss, models, totals))
        theta = np.zeros((len(totals), self.loss.n_outputs, self.blocks.n_features + 1))
        if self.request.fit_intercept:
            theta[:, :, -1] = self.loss.best_constant(self.y, self.s)
        if start is not None:
            theta[:] = start  # of all samples, or of a target like this one: close enough
        floor, dtype = negligible(self.loss, self.y, self.s), self.request.dtype
        return newton(sums, self._preconditioner, theta, alpha, floor, tol, max_iter, dtype)

    def _fits(self, found: Minimised, tol: float) -> list[LinearFit]:
        """Fits without scores, which stay with the blocks."""
        W, B = found.theta[:, :, :-1], found.theta[:, :, -1]
        if self.balanced:
            B = B - B.mean(axis=1, keepdims=True)
        of_fits = zip(W, B, found.objective, found.n_iter, found.criterion, strict=True)
        return [
            LinearFit(w, b, np.empty(0), float(J), int(n_iter), float(gap), bool(gap <= tol))
            for w, b, J, n_iter, gap in of_fits
        ]


class BlockSums:
    """Sums over the samples of all blocks; theta itself stands for the scores, which stay with the blocks."""

    def __init__(self, design: BlockDesign, fits: Fits) -> None:
        self.blocks, self.request, self.fits = design.blocks, design.request, fits
        self.n_columns, self.n_outputs = design.blocks.n_features, design.loss.n_outputs
        self.balanced = design.balanced
        # Gradients and curvatures came with the values of the last passes, by fit and scores.
        self._known: dict[tuple[int, bytes], tuple[np.ndarray, float]] = {}

    def scores(self, theta):
        """Theta, flat."""
        return theta.reshape(len(theta), -1)

    def values(self, fits, u):
        """Losses at theta with their gradients and curvatures, in one pass."""
        at = self.request, self.fits.take(fits), self._theta(u)
        values, gradients, curvatures = self.blocks.sum(evaluate, *at)
        found = zip(gradients, curvatures.tolist(), strict=True)
        self._known.update(zip(_keys(fits, u), found, strict=True))
        return values

    def gradients(self, fits, u):
        """Gradients of the losses, known from their evaluation."""
        self._known = {key: self._known[key] for key in _keys(fits, u)}
        return np.stack([gradient for gradient, _ in self._known.values()])

    def curvatures(self, fits, u, damping):
        """Summed curvatures of the scores, known from their evaluation."""
        return np.array([self._known[key][1] for key in _keys(fits, u)])

    def product(self, fits, u, damping) -> Product:
        """Products with the Hessians of the losses, one pass each."""
        at = self.request, self.fits.take(fits), self._theta(u), damping
        return lambda V: self.blocks.sum(hessian_products, *at, V)[0]

    def moments(self, fits, u, damping):
        """Second moments of the columns, in one pass."""
        at = self.request, self.fits.take(fits), self._theta(u)
        return self.blocks.sum(column_moments, *at, "moments")[0]

    def spread(self, fits, u, damping):
        """Mean of their diagonal, in one pass."""
        at = self.request, self.fits.take(fits), self._theta(u)
        return float(self.blocks.sum(column_moments, *at, "spread")[0])

    def _theta(self, u: np.ndarray) -> np.ndarray:
        return u.reshape(len(u), self.n_outputs, -1)


def _keys(fits: np.ndarray, u: np.ndarray) -> list[tuple[int, bytes]]:
    """Names of the fits at their scores: fold models may start from the same ones."""
    return [(k, at.tobytes()) for k, at in zip(fits.tolist(), u, strict=True)]
