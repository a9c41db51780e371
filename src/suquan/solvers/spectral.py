"""The svd method: the target as the first right singular vector of the classes' mean difference."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy import linalg
from scipy.sparse.linalg import LinearOperator, svds

from suquan.objective import JointProblem
from suquan.targets import knot_positions

# Up to this many nodes the matrix is formed: a dense decomposition is then the faster one.
_DENSE_NODES = 256
# Up to this size Σ c_i T_i is formed in one pass over the samples, and products no longer touch them; not for
# fewer samples than features, where it would be larger than the design.
_MATRIX_BYTES = 1 << 27


@dataclass(frozen=True)
class SpectralTarget:
    """First right singular vector, with mean square 1, and the two largest singular values."""

    g: np.ndarray
    singular_values: np.ndarray
    n_iter: int


def spectral_target(problem: JointProblem) -> SpectralTarget:
    """Target that best separates the mean permutation matrices of two classes.

    M = Σ_i (y_i s_i / Σ_class s) T_i B, with g of sum 0; g is its first right singular vector with sign such
    that Σ_j (j − (K − 1)/2) g_j ≥ 0. For many features M is never formed: its products are gathers and
    scatters.
    """
    c = problem.class_contrast()
    n_nodes = problem.n_knots
    T = _operator_matrix(problem, c)
    forward, backward, counter = _products_with(problem, c, T)
    if n_nodes <= _DENSE_NODES:
        if T is None:
            M = problem.sums_of_samples(c, np.eye(n_nodes) - 1.0 / n_nodes)
        else:
            M = np.column_stack([forward(e) for e in np.eye(n_nodes)])
        counter[0] = n_nodes
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


def _operator_matrix(problem: JointProblem, c: Any) -> np.ndarray | None:
    """Σ c_i T_i where it is small and can be formed, else None."""
    operator = problem.operator
    is_small = 8 * operator.n_features**2 <= _MATRIX_BYTES
    if is_small and operator.n_samples >= operator.n_features and operator.is_complete:
        return operator.sum_matrix(c)
    return None


def _products(problem: JointProblem, c: Any):
    """Products with M and Mᵀ, and a list that counts them."""
    return _products_with(problem, c, _operator_matrix(problem, c))


def _products_with(problem: JointProblem, c: Any, T: np.ndarray | None):
    """The same by way of the matrix T of :func:`_operator_matrix`, where there is one."""
    operator, n_nodes = problem.operator, problem.n_knots
    node, part, _ = knot_positions(operator.n_features, n_nodes)
    counter = [0]
    if T is not None:
        sum_apply, sum_adjoint = T.__matmul__, T.T.__matmul__
    else:
        sum_apply, sum_adjoint = partial(operator.sum_apply, c), partial(operator.sum_adjoint, c)

    def forward(g):
        counter[0] += 1
        g = np.ravel(g)
        return sum_apply(problem.expand(g - g.mean()))

    def backward(w):
        row = sum_adjoint(np.ravel(w))
        if n_nodes != operator.n_features:
            upper = np.minimum(node + 1, n_nodes - 1)
            row = np.bincount(node, (1.0 - part) * row, n_nodes) + np.bincount(
                upper, part * row, n_nodes
            )
        return row - row.mean()

    return forward, backward, counter
