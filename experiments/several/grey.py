"""Several targets with curves over grey values in place of ranks: nothing is normalised.

Every pixel has a curve over its grey value, all curves together a matrix of few singular values and of small
trace norm, as in "multi". So a comparison with "multi" tells what bending does from what normalisation does.
Images and labels come in, scores of other images go out; `pictures.py` calls it.

The trace norm of W Hᵀ is the smallest ½(‖W‖² + ‖H‖²), so that two ridge logistic regressions of scikit-learn
take turns: weights W of the pixels given the curves H, then H given W. After each of them the singular values
are shared out evenly between both.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import csr_array
from sklearn.linear_model import LogisticRegression

N_LEVELS = 256  # of grey
TOL = 1e-5  # fall of the objective in one turn, relative to it, at which the turns end


def curve_basis(n_knots: int) -> np.ndarray:
    """Cosines on the knots, read at every grey value: of mean 0, mean square 1; (256, n_knots - 1)."""
    k = np.arange(1, n_knots)
    cosines = np.sqrt(2.0) * np.cos(np.pi * np.outer(np.arange(n_knots) + 0.5, k) / n_knots)
    knots, levels = ((np.arange(n) + 0.5) / n for n in (n_knots, N_LEVELS))
    return np.stack([np.interp(levels, knots, one) for one in cosines.T], axis=1)


def grey_scores(
    X: np.ndarray, y: np.ndarray, X_test: np.ndarray, alphas: Any, n_targets: int | None,
    n_knots: int, max_rounds: int,
) -> list[np.ndarray]:  # fmt: skip
    """Scores of the test images after fits to the others, one array per alpha.

    Parameters
    ----------
    X, X_test : uint8 ndarrays of shape (n_samples, n_features) and (n_test, n_features)
    y : ndarray of shape (n_samples,)
        0 or 1.
    alphas : sequence of float
    n_targets : int or None
        Largest number of curves that all others are mixtures of; None: any.
    n_knots, max_rounds : int
    """
    basis, scores = curve_basis(n_knots), []
    for alpha in alphas:
        W, H, b = _fit(X, y, basis, alpha, n_targets or n_knots - 1, max_rounds)
        curves = W @ (basis @ H).T  # of every pixel, at every grey value
        scores.append(_one_hot(X_test) @ curves.ravel() + b)
    return scores


def _fit(
    X: np.ndarray, y: np.ndarray, basis: np.ndarray, alpha: float, n_targets: int, max_rounds: int
) -> tuple[np.ndarray, np.ndarray, float]:
    """Weights W of the pixels, (n_features, n_targets), curves basis @ H, and the intercept."""
    levels, before = _one_hot(X), np.inf
    H = np.eye(basis.shape[1])[:, :n_targets]
    for turn in range(max_rounds + 1):
        bent = (basis @ H).astype(np.float32)[X].reshape(len(X), -1)
        w, b, loss = _ridge(bent, y, alpha)
        W, H, norm = _balanced(w.reshape(X.shape[1], -1), H)
        objective = loss + alpha * norm
        if turn == max_rounds or before - objective <= TOL * objective:
            break
        before = objective
        h, _, _ = _ridge(levels @ np.kron(W, basis), y, alpha)
        W, H, _ = _balanced(W, h.reshape(W.shape[1], -1).T)
    return W, H, b


def _one_hot(X: np.ndarray) -> csr_array:
    """One column per pixel and grey value, (n_samples, n_features · 256)."""
    n_samples, n_features = X.shape
    columns = X + N_LEVELS * np.arange(n_features, dtype=np.int32)
    ends = np.arange(n_samples + 1, dtype=np.int32) * n_features
    ones = np.ones(X.size, np.float32)
    return csr_array((ones, columns.ravel(), ends), shape=(n_samples, n_features * N_LEVELS))


def _ridge(A: np.ndarray, y: np.ndarray, alpha: float) -> tuple[np.ndarray, float, float]:
    """Minimise the mean logistic loss + ½ alpha ‖w‖²; w, the intercept and the mean loss."""
    model = LogisticRegression(C=1.0 / (len(y) * alpha), tol=1e-6, max_iter=1000).fit(A, y)
    w, b = model.coef_[0].astype(np.float64), float(model.intercept_[0])
    return w, b, float(np.mean(np.logaddexp(0.0, np.where(y == 1, -1.0, 1.0) * (A @ w + b))))


def _balanced(W: np.ndarray, H: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
    """Share the singular values of W Hᵀ out evenly between both; their sum."""
    Q, R = np.linalg.qr(W)
    left, sigma, right = np.linalg.svd(R @ H.T, full_matrices=False)
    root = np.sqrt(sigma)
    return (Q @ left) * root, right.T * root, float(sigma.sum())
