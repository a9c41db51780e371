"""The f-step: the best target quantiles, and intercept, for a fixed w.

With w fixed every sample scores D_i·f + b, where D_i = T_iᵀ w, and the step is convex in (f, b):

    J(f, b) = Σ_i s_i ℓ(y_i, D_i·f + b) + smoothness · Σ_j (f[j+1] − f[j])²,    f in the set.

Two second-order methods share one certificate (:mod:`suquan.solvers._target_record`):

- at most K rows (:mod:`suquan.solvers._target_dual`): the dual has one variable per score. Newton's method on
  the dual of a proximal-point step; its system only needs D summed over the blocks of equal quantiles. Also
  with more rows, where there is no room for a K×K matrix;
- more rows than K (:mod:`suquan.solvers._target_primal`): minimise a quadratic model with the K×K Hessian over
  the set, by accelerated proximal gradient and jumps to the minimiser on the present blocks.

Proximal gradient with restarts on D itself (:mod:`suquan.solvers._target_accelerated`) finishes what either
leaves unsolved.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from suquan.losses import Loss
from suquan.solvers._target_accelerated import accelerated as _accelerated
from suquan.solvers._target_data import Data
from suquan.solvers._target_dual import dual_newton as _dual_newton
from suquan.solvers._target_primal import primal_newton as _primal_newton
from suquan.solvers._target_record import Record, TargetFit
from suquan.solvers._target_rows import DenseRows, DistributedRows, Rows
from suquan.solvers._target_set import Target, TargetSet, Vector
from suquan.solvers._threads import LARGE_FACTOR, few_threads

__all__ = ["TargetFit", "TargetSet", "solve_target"]

_HESSIAN_COST = 40  # K over the iterations that cost as much as a K×K Hessian


def solve_target(
    D: NDArray | Rows | DistributedRows,
    loss: Loss,
    y: NDArray,
    s: Vector,
    f_start: Vector,
    *,
    target_set: TargetSet,
    smoothness: float = 0.0,
    fit_intercept: bool = True,
    tol: float = 1e-6,
    max_iter: int = 500,
) -> TargetFit:
    r"""Minimise the loss over target quantiles and intercept.

    .. math::

        \min_{f \in F, \, b} ~ \sum_i s_i \, \ell(y_i, D_i^\top f + b) + c \sum_j (f_{j+1} - f_j)^2

    with :math:`c` the smoothness, and F the vectors of sum 0 that are of mean square at most 1 ("f0"), also
    non-decreasing ("bnd", "joint"), or non-decreasing of any size ("spav").

    Parameters
    ----------
    D : ndarray of shape (n_rows, K), or (n_rows * n_outputs, K) for a softmax loss
        Design, float32 or float64, or rows that are made when they are needed
        (:class:`suquan.solvers._target_rows.StackedRows`), or rows that lie elsewhere with their labels and
        weights, so that only sums over them are known
        (:class:`suquan.solvers._target_rows.DistributedRows`); the scores of a softmax loss are
        ``(D @ f).reshape(n_rows, n_outputs)``.
    loss : Logistic, Squared or Softmax
    y : ndarray of shape (n_rows,)
        Encoded labels or values.
    s : ndarray of shape (n_rows,)
        Weights ≥ 0 that sum to 1.
    f_start : ndarray of shape (K,)
        Start. It is made feasible where it is not: centred, projected.
    target_set : {"f0", "bnd", "spav", "joint"}
    smoothness : float, default=0.0
        Weight of the squared differences, ≥ 0, for every set.
    fit_intercept : bool, default=True
        Whether b is free, always the best one given f; otherwise it is 0.
    tol : float, default=1e-6
        Stop at a certified (J − J*) / J ≤ tol. Where J is below 10⁻⁶ of the best constant score's, the gap
        is relative to that. Without bound and smoothness ("spav" with 0) the minimum may not be attained;
        the certificate then covers the targets of up to 4 times the norm of f, or of a target of mean square 1.
    max_iter : int, default=500
        Largest number of iterations.

    Returns
    -------
    TargetFit
        Its objective is never above the start's. Where the minimiser is not unique, it is the limit of the
        method's deterministic iteration from ``f_start``.

    Examples
    --------
    >>> import numpy as np
    >>> from suquan.losses import Squared
    >>> from suquan.solvers.target import solve_target
    >>> D = np.array([[0.0, 0.0, 1.0], [0.0, 1.0, 0.0], [1.0, 0.0, 0.0]])
    >>> fit = solve_target(D, Squared(), np.array([3.0, 0.0, 0.0]), np.full(3, 1 / 3),
    ...                    np.array([-1.0, 0.0, 1.0]), target_set="bnd")
    >>> fit.f.round(4), round(fit.b, 4)
    (array([-0.7071, -0.7071,  1.4142]), 1.0)
    """
    target = Target(target_set, D.shape[1], float(smoothness))
    data: Any
    if isinstance(D, DistributedRows):
        data = D.data(loss, fit_intercept)
    else:
        rows = DenseRows(D) if isinstance(D, np.ndarray) else D
        data = Data(rows, loss, y, s, fit_intercept)
    with few_threads(min(D.shape) ** 2, LARGE_FACTOR):
        record = Record(data, target, target.make_feasible(f_start), tol, max_iter)
        _minimise(data, target, record)
        return record.result()


def _minimise(data: Any, target: Target, record: Record) -> None:
    """Have the methods bring the record to its tolerance, the fastest first."""
    if not record.done:
        if data.solves_dual:
            _dual_newton(data, target, record)
        else:
            # A Hessian costs about as much as K/20 products: well-conditioned problems end before it.
            _accelerated(data, target, record, data.K // _HESSIAN_COST)
            if data.forms_hessian:
                _primal_newton(data, target, record)
    if not record.done:
        _accelerated(data, target, record)
