"""The svd method: the target as the first right singular vector of the classes' mean difference.

:mod:`suquan.model.rounds` gives the problem, and gets the target with the two largest singular values.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import linalg
from scipy.sparse.linalg import LinearOperator, svds

from suquan.targets import knot_positions

# Up to this many nodes the matrix is formed: a dense decomposition is then the faster one.
_DENSE_NODES = 256


def spectral_target(problem: Any) -> tuple[np.ndarray, np.ndarray]:
    """Target that best separates the mean permutation matrices of two classes.

    M = Σ_i (y_i s_i / Σ_class s) T_i B, with g of sum 0; g is its first right singular vector with sign such
    that Σ_j (j − (K − 1)/2) g_j ≥ 0. With many nodes M is never formed: its products are gathers and scatters.

    Parameters
    ----------
    problem : JointProblem
        With two classes, labelled ±1.

    Returns
    -------
    g : ndarray of shape (n_knots,)
        Of mean square 1.
    singular_values : ndarray of shape (2,)
        The two largest ones.
    """
    c, n_nodes = problem.class_contrast(), problem.n_knots
    if n_nodes <= _DENSE_NODES:
        M = problem.sums_of_samples(c, np.eye(n_nodes) - 1.0 / n_nodes)
        _, values, Vt = linalg.svd(M, full_matrices=False)
        values, g = values[:2], Vt[0]
    else:
        start = np.cos(np.pi * (np.arange(n_nodes) + 0.5) / n_nodes)  # smooth, of sum 0
        M = as_linear_operator(problem, c)
        _, values, Vt = svds(M, k=2, tol=1e-7, v0=start, solver="arpack", maxiter=200 * n_nodes)
        values, g = np.sort(values)[::-1], Vt[int(np.argmax(values))]
    g = g - g.mean()
    rms = np.sqrt(np.mean(g**2))
    if rms > 0:
        g = g / rms
    return (-g if np.dot(np.arange(n_nodes) - 0.5 * (n_nodes - 1), g) < 0 else g), values


def as_linear_operator(problem: Any, c: Any) -> LinearOperator:
    """M as its products with vectors, and those of Mᵀ."""
    operator, n_nodes = problem.operator, problem.n_knots
    node, part, _ = knot_positions(operator.n_features, n_nodes)
    upper = np.minimum(node + 1, n_nodes - 1)

    def forward(g):
        g = np.ravel(g)
        return operator.sum_apply(c, problem.expand(g - g.mean()))

    def backward(w):
        row = operator.sum_adjoint(c, np.ravel(w))
        row = np.bincount(node, (1.0 - part) * row, n_nodes) + np.bincount(
            upper, part * row, n_nodes
        )
        return row - row.mean()

    shape = (operator.n_features, n_nodes)
    return LinearOperator(shape, matvec=forward, rmatvec=backward, dtype=np.float64)
