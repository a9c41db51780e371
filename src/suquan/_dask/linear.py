"""The w-step on blocks: the same Newton methods as in memory, whose sums over samples are passes.

- n_samples ≤ n_features (and not too many): one pass gives the Gram matrix of the normalised samples; all fits
  on it are solved at once by the solver in memory, and one more pass gives their coefficients.
- otherwise: Newton with conjugate gradients on (w, b), all fold models in lockstep. An evaluation of all of
  them is one pass, a product with all their Hessians another.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from hashlib import blake2b
from typing import Any

import numpy as np

from suquan._dask.blocks import Blocks, RankedBlock
from suquan._kernels.outer import LANES
from suquan.losses import Loss
from suquan.solvers._algebra import cholesky, cholesky_solve
from suquan.solvers._centred_products import CentredProducts
from suquan.solvers._fits import MAX_ITER, TOL, LinearFit, negligible, null_intercept, sum_to_zero
from suquan.solvers._newton_batch import Batch, balance_classes, dots, wide
from suquan.solvers._newton_cg import conjugate_gradients
from suquan.solvers._products import column_products
from suquan.solvers.linear import RidgeDesign

GRAM_SAMPLES = 10_000  # largest Gram matrix that the driver takes: 800 MB
COVARIANCE_FEATURES = 4096  # largest covariance that preconditions: 134 MB; its diagonal beyond
_CG_LIMIT = 60
_FAR = 30.0  # means, in units of the spread, from which columns are centred before products
_LOOSE = 1e-4  # accuracy of the fit to all samples that fold models start from

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

    def products(self, block: RankedBlock) -> CentredProducts:
        """Products with the block's centred rows."""
        A, means = self.rows(block), self.means
        if self.explicit:
            A, means = A - means, np.zeros_like(means)
        products = CentredProducts.__new__(CentredProducts)
        products.A, products.means = A, means
        products.fit_intercept, products.offset = self.fit_intercept, self.means
        return products


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

    def batch(
        self, block: RankedBlock, request: DesignRequest, theta: np.ndarray, *, exact: bool = True
    ) -> Batch:
        """The block's samples as a batch of fits without penalty, at theta.

        The scores are remembered in float32, which is enough for Hessians: unless they must be `exact`, those
        of the last pass at theta are taken.
        """
        products = request.products(block)
        train = 1.0 if self.models is None else block.trains[self.models]
        S = train * block.s / self.totals[:, None]
        scores = self._scores(block, request, products, theta, exact)
        return Batch(products, self.loss, block.y, S, 0.0, theta, scores)

    def _scores(self, block, request, products, theta, exact) -> np.ndarray:
        names = [-1] if self.models is None else self.models.tolist()
        tokens = [token_of(request.f, request.means, point) for point in theta]
        known = [block.memo.get(("scores", name), (None, None)) for name in names]
        found = [had == wanted for (had, _), wanted in zip(known, tokens, strict=True)]
        if not exact and all(found):
            return np.stack([scores for _, scores in known]).astype(np.float64)
        # Kernels take vectors in sixteens, and few of them otherwise: padded, the scores of a fit are the same
        # bits whichever others run beside it, so that a block that lost its memory repeats them.
        n_fits, pad = len(theta), -len(theta) % LANES if self.models is not None else 0
        padded = np.concatenate([theta, np.zeros((pad, *theta.shape[1:]))])
        scores = wide(products.scores, padded)[:n_fits]
        rounded = scores.astype(np.float32)
        for name, token, of_fit in zip(names, tokens, rounded, strict=True):
            block.memo["scores", name] = token, of_fit
        return scores if exact else rounded.astype(np.float64)


# -- what blocks compute ------------------------------------------------------------------------------


def column_moments(block: RankedBlock, request: DesignRequest) -> Arrays:
    """Sums and sums of squares of the columns."""
    A = request.rows(block)
    squares = np.einsum("ij,ij->j", A, A, dtype=np.float64)
    return [column_products(A, np.ones((1, len(A))))[0], squares]


def covariance(block: RankedBlock, request: DesignRequest, n_samples: int) -> Arrays:
    """Part of the covariance of the columns, bordered by the intercept."""
    total = np.zeros((block.operator.n_features + 1,) * 2)
    for part in block.cut():  # what is copied to float64 stays small
        total += request.products(part).covariance(np.full(len(part.y), 1.0 / n_samples))
    return [total]


def evaluate(block: RankedBlock, request: DesignRequest, fits: Fits, theta: np.ndarray) -> Arrays:
    """Losses, their gradients, and mean curvatures of the scores."""
    batch = fits.batch(block, request, theta)
    gradient, curvature = batch.derivatives()
    return [batch.objective, gradient, batch.diagonal_curvature(curvature).sum(axis=-1)]


def hessian_products(
    block: RankedBlock, request: DesignRequest, fits: Fits, theta: np.ndarray, V: np.ndarray
) -> Arrays:
    """Products of the losses' Hessians with V."""
    batch = fits.batch(block, request, theta, exact=False)
    return [batch.hessian_product(V, batch.curvature())]


def held_out_losses(
    block: RankedBlock, request: DesignRequest, fits: Fits, theta: np.ndarray
) -> Arrays:
    """Weighted losses of the samples that the fold models have not seen."""
    batch = fits.batch(block, request, theta)
    losses = np.stack(list(batch.losses()))
    return [np.sum(losses * block.s * block.tests)]


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
        self._covariance: np.ndarray | None = None
        if self._gram is None:
            self._centre()
            self.budget = max(
                4, p // 24
            )  # as in memory: products that cost as much as a covariance
            self.unconditioned_left = self.budget if p > 256 else 0

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
        (self._all,) = self._newton(None, alpha, max(tol, _LOOSE), max_iter, None)
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
        n = self.blocks.n_samples
        sums, squares = self.blocks.sum(column_moments, self.request)
        means = sums / n
        self.spread = np.maximum(squares / n - means**2, 0.0)
        if not self.fit_intercept:
            self.spread = squares / n
            return
        explicit = bool(np.any(np.abs(means) > _FAR * np.sqrt(self.spread) + 1e-30))
        self.request = replace(self.request, means=means, explicit=explicit)

    @property
    def covariance(self) -> np.ndarray:
        """Covariance of the design, bordered by the intercept; one pass when first asked for."""
        if self._covariance is None:
            (self._covariance,) = self.blocks.sum(
                covariance, self.request, self.blocks.n_samples, whole=True
            )
            if not self.fit_intercept:
                self._covariance[-1, -1] = 1.0
        return self._covariance

    def _theta(self, fit: LinearFit) -> np.ndarray:
        """Coefficients and intercept on the centred design."""
        b = fit.b + fit.w @ self.request.means if self.fit_intercept else np.zeros(len(fit.b))
        return np.column_stack([fit.w, b])

    def _newton(self, models, alpha, tol, max_iter, start) -> list[LinearFit]:
        totals = np.ones(1) if models is None else self.totals
        fits = Fits(self.loss, models, totals)
        theta = np.zeros((len(totals), self.loss.n_outputs, self.blocks.n_features + 1))
        if start is not None:
            theta[:] = balance_classes(self.loss, self._theta(start)[None])
        elif self.fit_intercept:
            theta[:, :, -1] = null_intercept(self.loss, self.y, self.s)
        newton = _Newton(self, fits, alpha, theta)
        newton.run(tol, max_iter)
        return [self._finished(newton, k, tol) for k in range(len(totals))]

    def _finished(self, newton: _Newton, k: int, tol: float) -> LinearFit:
        w, b = newton.theta[k, :, :-1].copy(), newton.theta[k, :, -1].copy()
        if self.fit_intercept:
            b = sum_to_zero(b - w @ self.request.means)
        criterion = float(newton.criterion[k])
        return LinearFit(
            w, b, np.empty(0), float(newton.objective[k]), int(newton.n_iter[k]),
            criterion, criterion <= tol,
        )  # fmt: skip


class _Newton:
    """Newton with conjugate gradients for several fits in lockstep; see :mod:`suquan.solvers._newton_cg`."""

    def __init__(self, design: BlockDesign, fits: Fits, alpha: float, theta: np.ndarray) -> None:
        self.design, self.fits, self.alpha, self.theta = design, fits, alpha, theta
        n_fits = len(theta)
        self.running = np.arange(n_fits)
        self.criterion, self.n_iter = np.full(n_fits, np.inf), np.zeros(n_fits, dtype=int)
        self.objective, self.gradient, self.curvature = self._evaluate(self.running, theta)
        self.floor = negligible(design.loss, design.y, design.s)
        conditioned = design.unconditioned_left <= 0
        self.strength = int(conditioned and design.blocks.n_features <= COVARIANCE_FEATURES)
        self._factor: Any = None

    def run(self, tol: float, max_iter: int) -> None:
        """Iterate until every fit's criterion is at most `tol`."""
        for _ in range(max_iter):
            gradient = self.gradient[self.running]
            self._prepare()
            limit = _CG_LIMIT if self.strength else max(4, self.design.unconditioned_left)
            step, n_products, _, accurate = conjugate_gradients(
                self._product,
                self._precondition,
                gradient,
                self._forcing(gradient, tol),
                2.0 * tol * self._scale(),
                max(limit, self.design.budget),
            )
            self._move(gradient, step, tol, accurate)
            if not len(self.running):
                break
            self._adapt(n_products)

    def _evaluate(self, which, theta) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        design = self.design
        value, gradient, curvature = design.blocks.sum(
            evaluate, design.request, self.fits.take(which), theta
        )
        w = theta[..., :-1]
        gradient[..., :-1] += 2.0 * self.alpha * w
        return value + self.alpha * np.einsum("fkj,fkj->f", w, w), gradient, curvature

    def _product(self, V: np.ndarray) -> np.ndarray:
        design = self.design
        (product,) = design.blocks.sum(
            hessian_products,
            design.request,
            self.fits.take(self.running),
            self.theta[self.running],
            V,
        )
        product[..., :-1] += 2.0 * self.alpha * V[..., :-1]
        if not design.fit_intercept:
            product[..., -1] = V[..., -1]
        return product

    def _prepare(self) -> None:
        tiny = np.finfo(float).tiny
        mean_curvature = max(self.curvature[self.running].mean(), tiny)
        if self.strength == 0:
            self._scales = np.append(
                mean_curvature * self.design.spread + 2.0 * self.alpha, mean_curvature
            )
        elif self._factor is None:
            H = mean_curvature * self.design.covariance
            p = len(H) - 1
            H.flat[: p * (p + 1) : p + 2] += 2.0 * self.alpha
            self._factor = cholesky(H)

    def _precondition(self, R: np.ndarray) -> np.ndarray:
        if self.strength == 0:
            out = R / self._scales
        else:
            columns = R.reshape(-1, R.shape[-1]).T
            out = cholesky_solve(self._factor, columns).T.reshape(R.shape)
        return balance_classes(self.design.loss, out)

    def _adapt(self, n_products: int) -> None:
        """Precondition with the covariance once its diagonal has cost as many products as that does."""
        design = self.design
        design.unconditioned_left -= n_products
        if design.unconditioned_left <= 0 and design.blocks.n_features <= COVARIANCE_FEATURES:
            self.strength = 1

    def _scale(self) -> np.ndarray:
        return np.maximum(self.objective, self.floor)[self.running]

    def _forcing(self, gradient: np.ndarray, tol: float) -> np.ndarray:
        gap = 0.5 * dots(gradient, self._precondition(gradient)) / self._scale()
        wanted = np.sqrt(0.1 * tol / np.maximum(gap, tol))
        return np.clip(wanted, np.where(gap > 1e-3, 0.1, 0.01), 0.5)

    def _move(self, gradient, step, tol, accurate) -> None:
        """Backtrack along the steps, one pass per length, and retire the fits that are done."""
        running = self.running
        done = accurate | (self.criterion[running] <= tol)
        slope = dots(gradient, step)
        self.criterion[running] = np.maximum(-0.5 * slope, 0.0) / self._scale()
        self.n_iter[running] += 1
        pending, t = np.arange(len(running)), 1.0
        for _ in range(40):
            which = running[pending]
            theta = self.theta[which] + t * step[pending]
            objective, gradient, curvature = self._evaluate(which, theta)
            good = objective <= self.objective[which] + 1e-4 * t * slope[pending]
            moved = which[good]
            self.theta[moved], self.objective[moved] = theta[good], objective[good]
            self.gradient[moved], self.curvature[moved] = gradient[good], curvature[good]
            pending, t = pending[~good], 0.5 * t
            # A step that lowers nothing where the gap is rounding is one: no pass is spent on shorter ones.
            rounding = np.abs(slope[pending]) <= 1e-14 * np.abs(self.objective[running[pending]])
            if not len(pending) or np.all(rounding):
                break
        stuck = np.isin(running, running[pending])
        self.running = running[((self.criterion[running] > tol) | ~done) & ~stuck]
