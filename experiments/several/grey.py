"""The model of several targets with curves over grey values in place of places: nothing is normalised.

Every pixel has a curve over its grey value, all curves together a matrix of at most so many singular values,
fitted by the solver of "multi". So a comparison with "multi" tells what bending does from what normalisation
does. Pictures and labels come in, scores of other pictures go out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
from scipy.sparse import csr_array
from suquan.solvers.matrix_data import Curves

from suquan.losses import Logistic
from suquan.model.problem import Steps
from suquan.model.several import MatrixProblem, fit_targets
from suquan.solvers.ridge import LinearFit
from suquan.targets import knot_positions, read_at_grid

N_LEVELS = 256  # of grey


class GreyData(Curves):
    """Pictures as maps of curves over grey values, in place of ranked samples.

    Parameters
    ----------
    X : uint8 ndarray of shape (n_samples, n_features)
    n_knots : int
    """

    def __init__(self, X: np.ndarray, n_knots: int):
        operator: Any = SimpleNamespace(
            n_samples=len(X), n_features=X.shape[1], codes=X, is_constant=False
        )
        super().__init__(operator, n_knots)
        self.S = read_knots(X, n_knots)

    def copies(self, G: np.ndarray) -> Iterator[np.ndarray]:
        """Pictures through each of the curves, of shape (n_samples, n_features)."""
        for g in G.T:
            yield read_at_grid(g, N_LEVELS).astype(np.float32)[self.operator.codes]

    def factor(self, fit: LinearFit, G: np.ndarray) -> np.ndarray:
        """W of a fit at the curves G."""
        if fit.w is not None:
            return super().factor(fit, G)
        return np.stack([fit.dual @ A for A in self.copies(G)], axis=1)

    def sum_gram(self, c: np.ndarray, G: np.ndarray) -> np.ndarray:
        """Σ_k GᵀMₖᵀMₖG for the sums M_k = Σ_i c_ik S_i, of shape (n_targets, n_targets)."""
        sums = [(self.S.T @ one).reshape(-1, self.n_knots) @ G for one in c.T]
        return np.sum([M.T @ M for M in sums], axis=0)

    def rows(self, W: np.ndarray) -> np.ndarray:
        """Vectors S_iᵀ w_kl, of shape (n_samples, n_outputs, n_targets, n_knots)."""
        X = self.operator.codes
        level_of = X + N_LEVELS * np.arange(len(X))[:, None]  # one bin per picture and level
        reads = np.stack([read_at_grid(knot, N_LEVELS) for knot in np.eye(self.n_knots)], axis=1)
        out = np.empty((len(X), *W.shape[:2], self.n_knots))
        for k, l in np.ndindex(W.shape[:2]):
            weights = np.broadcast_to(W[k, l], X.shape).ravel()
            sums = np.bincount(level_of.ravel(), weights, N_LEVELS * len(X))
            out[:, k, l] = sums.reshape(len(X), N_LEVELS) @ reads
        return out


@dataclass(frozen=True)
class GreyProblem(MatrixProblem):
    """The problem of "multi" on `pictures` as they are."""

    pictures: Any = None

    @property
    def data(self) -> Any:
        """All that the fit asks of the pictures."""
        return self.pictures


def read_knots(X: np.ndarray, n_knots: int) -> csr_array:
    """Weights of the knots in what every pixel reads, of shape (n_samples, n_features · n_knots)."""
    n_samples, n_features = X.shape
    node, part, _ = knot_positions(N_LEVELS, n_knots)  # as places read the knots
    first = np.minimum(node, n_knots - 2)
    part = part + (node - first)
    columns = np.empty((n_samples, n_features, 2), np.int32)
    columns[..., 0] = first[X] + np.arange(n_features, dtype=np.int32) * n_knots
    columns[..., 1] = columns[..., 0] + 1
    values = np.stack([1.0 - part, part], axis=1)[X]
    ends = np.arange(n_samples + 1, dtype=np.int32) * (2 * n_features)
    return csr_array(
        (values.ravel(), columns.ravel(), ends), shape=(n_samples, n_features * n_knots)
    )


def grey_scores(
    X: np.ndarray, y: np.ndarray, X_test: np.ndarray, alphas: Any, n_targets: int, **options: Any
) -> list[np.ndarray]:
    """Scores of the test pictures after fits to the others, one array per alpha.

    Parameters
    ----------
    X, X_test : uint8 ndarrays of shape (n_samples, n_features) and (n_test, n_features)
    y : ndarray of shape (n_samples,)
        0 or 1.
    alphas : sequence of float
    n_targets : int
    **options
        `n_knots`, `max_rounds`.
    """
    n_knots = options["n_knots"]
    data, S_test = GreyData(X, n_knots), read_knots(X_test, n_knots)
    steps = Steps(None, options["max_rounds"], 1e-4, 500)
    signs, s = np.where(y == 1, 1.0, -1.0), np.full(len(y), 1.0 / len(y))
    outputs = []
    for alpha in alphas:
        problem = GreyProblem(
            data.operator, n_knots, Logistic(), signs, s, alpha, 0.0, True, "trace", pictures=data
        )
        fit = fit_targets(problem, np.linspace(-1.0, 1.0, n_knots), n_targets, steps)
        curves = fit.w.reshape(len(fit.g), -1).T @ fit.g
        outputs.append(S_test @ curves.ravel() + fit.b[0])
    return outputs
