"""The svd method: the target as the first right singular vector of the classes' mean difference."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import linalg
from scipy.sparse.linalg import LinearOperator, svds

from suquan.objective import JointProblem
from suquan.targets import knot_positions

# Up to this many nodes the matrix is formed: a dense decomposition is then the faster one.
_DENSE_NODES = 256


@dataclass(frozen=True)
class SpectralTarget:
    """First right singular vector, with mean square 1, and the two largest singular values."""

    g: np.ndarray
    singular_values: np.ndarray
    n_iter: int


def spectral_target(problem: JointProblem) -> SpectralTarget:
    """Target that best separates the mean permutation matrices of two classes.

    M = Σ_i (y_i s_i / Σ_class s) T_i B, with g of sum 0; g is its first right singular vector with sign such
    that Σ_j (j − (K − 1)/2) g_j ≥ 0. M is never formed for many nodes: its products are gathers and scatters.
    """
    c = problem.class_contrast()
    n_nodes = problem.n_knots
    forward, backward, counter = _products(problem, c)
    if n_nodes <= _DENSE_NODES:
        targets = np.eye(n_nodes) - 1.0 / n_nodes
        M = problem.sums_of_samples(c, targets)
        counter[0] += n_nodes
        _, values, Vt = linalg.svd(M, full_matrices=False)
        values, g = values[:2], Vt[0]
    else:
        M = LinearOperator(
            (problem.operator.n_features, n_nodes),
            matvec=forward,
            rmatvec=backward,
            dtype=np.float64,
        )
        start = np.cos(np.pi * (np.arange(n_nodes) + 0.5) / n_nodes)  # smooth, of sum 0
        _, values, Vt = svds(M, k=2, tol=1e-7, v0=start, solver="arpack", maxiter=200 * n_nodes)
        first = int(np.argmax(values))
        values, g = np.sort(values)[::-1], Vt[first]
    g = g - g.mean()
    rms = np.sqrt(np.mean(g**2))
    if rms > 0:
        g = g / rms
    if np.dot(np.arange(n_nodes) - 0.5 * (n_nodes - 1), g) < 0:
        g = -g
    return SpectralTarget(g, values, max(counter))


def _products(problem: JointProblem, c: Any):
    """Products with M and Mᵀ, and a list that counts them."""
    operator, n_nodes = problem.operator, problem.n_knots
    node, part, _ = knot_positions(operator.n_features, n_nodes)
    counter = [0]

    def forward(g):
        counter[0] += 1
        g = np.ravel(g)
        return operator.sum_apply(c, problem.expand(g - g.mean()))

    def backward(w):
        row = operator.sum_adjoint(c, np.ravel(w))
        if n_nodes != operator.n_features:
            upper = np.minimum(node + 1, n_nodes - 1)
            row = np.bincount(node, (1.0 - part) * row, n_nodes) + np.bincount(
                upper, part * row, n_nodes
            )
        return row - row.mean()

    return forward, backward, counter
